//! What a worker does: given by the program that uses this crate.

use std::sync::Arc;

use bytes::Bytes;

/// Does pieces of work, several at a time where several ask.
pub trait Work: Send + Sync + 'static {
    /// A piece as it was sent, ready to be run; or why not, in one sentence.
    fn begin(&self, piece: Bytes) -> Result<Arc<dyn Piece>, String>;
}

/// A piece of work under way.
pub trait Piece: Send + Sync + 'static {
    /// Does it, on a thread that may block; its result goes to `out`, part by part. The error is one sentence.
    fn run(&self, out: Out) -> Result<(), String>;

    /// Ends it soon: nobody wants it any more.
    fn stop(&self);

    /// How far it has come.
    fn done(&self) -> Done;
}

/// Takes a part of a result, and waits until there is room for it; an error says that nobody wants it any more.
pub type Out<'a> = &'a mut dyn FnMut(Bytes) -> Result<(), String>;

/// Events and bytes that were read.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Done {
    pub events: u64,
    pub bytes: u64,
}
