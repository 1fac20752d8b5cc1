//! The one place from which the benchmark tells a trace what it is doing.
//!
//! Names and categories are stable: reports and other tools ask for them.
//!
//! | category | spans |
//! |---|---|
//! | pipeline | root, data.check (which files are there, before all else), generate, cache.drop (before each epoch), cache.share (how much of the data is in it then), epoch, block, evaluate |
//! | data | fetch (the trainer waits for a batch), preprocess |
//! | compute | compute |
//! | reader | reader.open, reader.read, reader.close |
//! | checkpoint | checkpoint.save, checkpoint.load, checkpoint.drain (the end waits for what is written beside) |
//! | communication | barrier (ranks wait for each other after a step, before a checkpoint) |
//!
//! Requests to an object store are no spans but I/O: `store::told`.

pub const PIPELINE: &str = "pipeline";
pub const DATA: &str = "data";
pub const COMPUTE: &str = "compute";
pub const READER: &str = "reader";
pub const CHECKPOINT: &str = "checkpoint";
pub const COMMUNICATION: &str = "communication";

use crate::ranks::status;

pub use dlio_tracer::span::Span;

/// Says in the trace of this process whose it is: a rank's, or a worker's of it.
pub fn name_rank() {
    if let Some(rank) = status::own_rank().filter(|_| dlio_tracer::span::is_recorded()) {
        dlio_tracer::span::describe_process("rank", rank);
    }
}

/// Begins a span of this thread, which lasts until it is dropped. Costs two loads unless the process is traced.
#[inline]
pub fn span(name: &'static str, category: &'static str, values: &[(&'static str, u64)]) -> Span {
    status::note(name, values);
    let mut span = Span::begin(name, category);
    values.iter().for_each(|(key, value)| span.set(key, *value));
    span
}
