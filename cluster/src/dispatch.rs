//! Giving pieces out to workers, each the next one when it is done with the one before.
//!
//! A worker that goes away is given nothing more, and its piece goes to the first that is free. What a worker refuses, all
//! would refuse: that ends everything. Nothing is left out: either all pieces are done, or there is an error.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::client::{Connection, Fault, Performed};
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

/// Pieces that are not given out, and workers that are gone.
struct Table {
    waiting: VecDeque<usize>,
    undone: usize,
    lost: Vec<Lost>,
    sent: u64,
    received: u64,
}

struct Shared<P> {
    pieces: Vec<Bytes>,
    table: Mutex<Table>,
    /// Told when a piece comes back, and when all are done.
    changed: Notify,
    progress: P,
}

type Ended = (usize, String, Result<Performed, Fault>);

/// Has all pieces done. `progress` is told how far each has come, `take` is given each result once.
pub async fn dispatch<P: Fn(usize, Done) + Send + Sync + 'static>(
    workers: &[Connection],
    pieces: Vec<Bytes>,
    progress: P,
    mut take: impl FnMut(usize, Bytes) -> Result<(), String>,
) -> Result<Dispatched, Undone> {
    let (undone, waiting) = (pieces.len(), (0..pieces.len()).collect());
    let table = Mutex::new(Table { waiting, undone, lost: Vec::new(), sent: 0, received: 0 });
    let shared = Arc::new(Shared { pieces, table, changed: Notify::new(), progress });
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
        let performed = result.map_err(|fault| Undone::Refused { address: address.clone(), why: fault.to_string() })?;
        take(piece, performed.bytes).map_err(|why| Undone::Unusable { address, why })?;
        let mut table = shared.table();
        table.undone -= 1;
        table.received += performed.received;
    }
    shared.changed.notify_waiters();
    let table = shared.table();
    Ok(Dispatched { lost: table.lost.clone(), sent: table.sent, received: table.received })
}

impl<P> Shared<P> {
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
async fn work<P: Fn(usize, Done) + Send + Sync>(
    worker: Connection,
    shared: Arc<Shared<P>>,
    ended: mpsc::Sender<Ended>,
) {
    while let Some(piece) = shared.next().await {
        let told = |done| (shared.progress)(piece, done);
        let result = worker.perform(shared.pieces[piece].clone(), told).await;
        if let Err(Fault::Lost(why) | Fault::Unreachable(why)) = result {
            (shared.progress)(piece, Done::default());
            return shared.lose(piece, Lost { address: worker.address.clone(), why });
        }
        if ended.send((piece, worker.address.clone(), result)).await.is_err() {
            return;
        }
    }
}
