//! The work of a worker, implemented by the program that uses this crate.

use std::sync::Arc;

use bytes::Bytes;

/// Runs pieces of work, several at a time if there are several coordinators.
pub trait Work: Send + Sync + 'static {
    /// Prepares a received piece to be run; otherwise returns the reason as one sentence.
    fn begin(&self, piece: Bytes) -> Result<Arc<dyn Piece>, String>;
}

/// A piece of work in progress.
pub trait Piece: Send + Sync + 'static {
    /// Runs the piece on a thread that may block, and passes its result to `out`, part by part. The error is one
    /// sentence.
    fn run(&self, out: Out) -> Result<(), String>;

    /// Stops the piece soon: its result is no longer wanted.
    fn stop(&self);

    /// Returns the progress of the piece.
    fn done(&self) -> Done;
}

/// Accepts a part of a result, and blocks until there is space for it; an error means that the result is no longer
/// wanted.
pub type Out<'a> = &'a mut dyn FnMut(Bytes) -> Result<(), String>;

/// Number of events and bytes read.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Done {
    pub events: u64,
    pub bytes: u64,
}
