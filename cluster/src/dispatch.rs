//! Giving pieces out to workers, each the next one when it is done with the one before.
//!
//! A worker that goes away is given nothing more, and its piece goes to the first that is free. What a worker refuses, all
//! would refuse: that ends everything. Nothing is left out: either all pieces are done, or there is an error.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::client::{Connection, Fault};
use crate::work::Done;

/// A worker that went away, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub address: String,
    pub why: String,
}

/// Why not everything was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// A worker does not do it, and says why.
    Refused { address: String, why: String },
    /// All of them went away.
    NobodyLeft(Vec<Lost>),
    /// A result could not be used.
    Unusable { address: String, why: String },
}

/// What was done, and what it took.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Dispatched {
    pub lost: Vec<Lost>,
    /// Bytes that went to workers and came from them.
    pub sent: u64,
    pub received: u64,
}

impl Dispatched {
    /// Adds what was done afterwards, by whoever of the same workers was left.
    pub fn add(&mut self, later: Dispatched) {
        self.lost.extend(
            later
                .lost
                .into_iter()
                .filter(|lost| self.lost.iter().all(|known| known.address != lost.address))
                .collect::<Vec<_>>(),
        );
        self.sent += later.sent;
        self.received += later.received;
    }
}

/// Pieces that are not given out, and workers that are gone.
struct Table {
    waiting: VecDeque<usize>,
    undone: usize,
    lost: Vec<Lost>,
    sent: u64,
    received: u64,
}

struct Shared<P, B> {
    pieces: Vec<Bytes>,
    table: Mutex<Table>,
    /// Told when a piece comes back, and when all are done.
    changed: Notify,
    progress: P,
    begin: B,
}

/// A result on its way.
pub trait Receiving: Send + 'static {
    /// Takes the next part of it.
    fn part(&mut self, bytes: Bytes) -> Result<(), String>;
}

impl Receiving for Vec<u8> {
    fn part(&mut self, bytes: Bytes) -> Result<(), String> {
        self.extend_from_slice(&bytes);
        Ok(())
    }
}

/// A piece, who did it, its result, and the bytes that came for it.
type Ended<R> = (usize, String, Result<(R, u64), Fault>);

/// Has all pieces done. `progress` is told how far each has come; each result goes into what `begin` makes, and, when it is
/// whole, to `take`, once. While `take` waits, so do workers that are done with a piece.
pub async fn dispatch<P, B, R, T>(
    workers: &[Connection],
    pieces: Vec<Bytes>,
    progress: P,
    begin: B,
    mut take: impl FnMut(usize, R) -> T,
) -> Result<Dispatched, Undone>
where
    P: Fn(usize, Done) + Send + Sync + 'static,
    B: Fn() -> R + Send + Sync + 'static,
    R: Receiving,
    T: Future<Output = Result<(), String>>,
{
    let (undone, waiting) = (pieces.len(), (0..pieces.len()).collect());
    let table = Mutex::new(Table { waiting, undone, lost: Vec::new(), sent: 0, received: 0 });
    let shared = Arc::new(Shared { pieces, table, changed: Notify::new(), progress, begin });
    let (ended, mut results) = mpsc::channel(1);
    // Dropped at the end, whatever that is: then pieces end on the workers too.
    let mut running = JoinSet::new();
    for worker in workers {
        running.spawn(work(worker.clone(), shared.clone(), ended.clone()));
    }
    drop(ended);
    while shared.table().undone > 0 {
        let Some((piece, address, result)) = results.recv().await else {
            return Err(Undone::NobodyLeft(shared.table().lost.clone()));
        };
        let (result, received) = match result {
            Ok(whole) => whole,
            Err(Fault::Unusable(why)) => return Err(Undone::Unusable { address, why }),
            Err(fault) => return Err(Undone::Refused { address, why: fault.to_string() }),
        };
        take(piece, result).await.map_err(|why| Undone::Unusable { address, why })?;
        let mut table = shared.table();
        table.undone -= 1;
        table.received += received;
    }
    shared.changed.notify_waiters();
    let table = shared.table();
    Ok(Dispatched { lost: table.lost.clone(), sent: table.sent, received: table.received })
}

impl<P, B> Shared<P, B> {
    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().expect("pieces of work")
    }

    /// The next piece; `None` when all are done.
    async fn next(&self) -> Option<usize> {
        loop {
            // Listened for before the look, so that nothing is missed between both.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut table = self.table();
                if table.undone == 0 {
                    return None;
                }
                if let Some(piece) = table.waiting.pop_front() {
                    table.sent += self.pieces[piece].len() as u64;
                    return Some(piece);
                }
            }
            changed.await;
        }
    }

    /// A worker went away with a piece in its hands.
    fn lose(&self, piece: usize, lost: Lost) {
        let mut table = self.table();
        table.waiting.push_front(piece);
        table.lost.push(lost);
        drop(table);
        self.changed.notify_waiters();
    }
}

/// One worker's pieces, one after another.
async fn work<P, B, R>(worker: Connection, shared: Arc<Shared<P, B>>, ended: mpsc::Sender<Ended<R>>)
where
    P: Fn(usize, Done) + Send + Sync,
    B: Fn() -> R + Send + Sync,
    R: Receiving,
{
    while let Some(piece) = shared.next().await {
        let told = |done| (shared.progress)(piece, done);
        let mut into = (shared.begin)();
        let result = worker.perform(shared.pieces[piece].clone(), told, |part| into.part(part)).await;
        if let Err(Fault::Lost(why) | Fault::Unreachable(why)) = result {
            (shared.progress)(piece, Done::default());
            return shared.lose(piece, Lost { address: worker.address.clone(), why });
        }
        let result = result.map(|received| (into, received));
        if ended.send((piece, worker.address.clone(), result)).await.is_err() {
            return;
        }
    }
}
