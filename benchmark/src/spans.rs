//! The spans that the benchmark records in a trace; no other module records any.
//!
//! Names and categories are stable: reports and other tools depend on them.
//!
//! | category | spans |
//! |---|---|
//! | pipeline | root, data.check (which files exist, before all else), generate, cache.drop (before each epoch), cache.share (the cached share of the data at that point), epoch, block, evaluate |
//! | data | fetch (the trainer waits for a batch), preprocess |
//! | compute | compute |
//! | reader | reader.open, reader.read, reader.close |
//! | checkpoint | checkpoint.save, checkpoint.load, checkpoint.drain (the end of a run waits for background writes) |
//! | communication | barrier (ranks wait for each other after a step, before a checkpoint) |
//!
//! Requests to an object store are recorded as I/O, not as spans: `store::request_span`.

pub const PIPELINE: &str = "pipeline";
pub const DATA: &str = "data";
pub const COMPUTE: &str = "compute";
pub const READER: &str = "reader";
pub const CHECKPOINT: &str = "checkpoint";
pub const COMMUNICATION: &str = "communication";

use crate::ranks::status;

pub use dlio_tracer::span::Span;

/// Names this process in the trace: as a rank, or as a worker of one.
pub fn name_rank() {
    if let Some(rank) = status::own_rank().filter(|_| dlio_tracer::span::is_recorded()) {
        dlio_tracer::span::describe_process("rank", rank);
    }
}

/// Starts a span of this thread, which ends when it is dropped. Costs two loads unless the process is traced.
#[inline]
pub fn span(name: &'static str, category: &'static str, values: &[(&'static str, u64)]) -> Span {
    status::note(name, values);
    let mut span = Span::begin(name, category);
    values.iter().for_each(|(key, value)| span.set(key, *value));
    span
}
