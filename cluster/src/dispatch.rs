//! Distributes pieces to workers, each getting the next one when it has finished the previous one.
//!
//! If a worker disconnects, it gets no further pieces, and its piece goes to the first free worker. If a worker
//! refuses a piece, all would refuse it, so the whole dispatch ends. Nothing is skipped: either all pieces are done,
//! or there is an error.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::client::{Connection, Fault};
use crate::work::Done;

/// A worker that disconnected, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostWorker {
    pub address: String,
    pub why: String,
}

/// The reason why the pieces were not completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DispatchError {
    /// A worker refuses a piece, and gives a reason.
    Refused { address: String, why: String },
    /// All workers disconnected.
    NoWorkersLeft(Vec<LostWorker>),
    /// A result could not be used.
    Unusable { address: String, why: String },
}

/// The completed pieces, and their cost.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Dispatched {
    pub lost: Vec<LostWorker>,
    /// Bytes sent to workers and received from them.
    pub sent: u64,
    pub received: u64,
}

impl Dispatched {
    /// Adds pieces that the remaining workers completed later.
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

/// Unassigned pieces and lost workers.
struct Table {
    waiting: VecDeque<usize>,
    undone: usize,
    lost: Vec<LostWorker>,
    sent: u64,
    received: u64,
}

struct Shared<P, B> {
    pieces: Vec<Bytes>,
    table: Mutex<Table>,
    /// Notified when a piece returns, and when all are done.
    changed: Notify,
    progress: P,
    begin: B,
}

/// A result being received.
pub trait Receiving: Send + 'static {
    /// Accepts the next part of the result.
    fn part(&mut self, bytes: Bytes) -> Result<(), String>;
}

impl Receiving for Vec<u8> {
    fn part(&mut self, bytes: Bytes) -> Result<(), String> {
        self.extend_from_slice(&bytes);
        Ok(())
    }
}

/// A piece, the worker that ran it, its result, and the number of bytes received for it.
type PieceResult<R> = (usize, String, Result<(R, u64), Fault>);

/// Has all pieces done. `progress` gets the progress of each piece. Each result is received by a value from `begin`
/// and, when it is complete, is passed to `take` once. While `take` blocks, so do workers that have finished a piece.
pub async fn dispatch<P, B, R, T>(
    workers: &[Connection],
    pieces: Vec<Bytes>,
    progress: P,
    begin: B,
    mut take: impl FnMut(usize, R) -> T,
) -> Result<Dispatched, DispatchError>
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
    // Dropped at the end in every case, which also stops the pieces on the workers.
    let mut running = JoinSet::new();
    for worker in workers {
        running.spawn(work(worker.clone(), shared.clone(), ended.clone()));
    }
    drop(ended);
    while shared.table().undone > 0 {
        let Some((piece, address, result)) = results.recv().await else {
            return Err(DispatchError::NoWorkersLeft(shared.table().lost.clone()));
        };
        let (result, received) = match result {
            Ok(whole) => whole,
            Err(Fault::Unusable(why)) => return Err(DispatchError::Unusable { address, why }),
            Err(fault) => return Err(DispatchError::Refused { address, why: fault.to_string() }),
        };
        take(piece, result).await.map_err(|why| DispatchError::Unusable { address, why })?;
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

    /// Returns the next piece; `None` when all are done.
    async fn next(&self) -> Option<usize> {
        loop {
            // Subscribed before the check, so that no notification in between is missed.
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

    /// Handles a worker that disconnected while it had a piece.
    fn return_piece(&self, piece: usize, lost: LostWorker) {
        let mut table = self.table();
        table.waiting.push_front(piece);
        table.lost.push(lost);
        drop(table);
        self.changed.notify_waiters();
    }
}

/// Runs one worker's pieces, one after another.
async fn work<P, B, R>(worker: Connection, shared: Arc<Shared<P, B>>, ended: mpsc::Sender<PieceResult<R>>)
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
            return shared.return_piece(piece, LostWorker { address: worker.address.clone(), why });
        }
        let result = result.map(|received| (into, received));
        if ended.send((piece, worker.address.clone(), result)).await.is_err() {
            return;
        }
    }
}
