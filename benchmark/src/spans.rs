//! The one place from which the benchmark tells a trace what it is doing.
//!
//! Names and categories are stable: reports and other tools ask for them.
//!
//! | category | spans |
//! |---|---|
//! | pipeline | root, generate, epoch, block, evaluate |
//! | data | fetch (the trainer waits for a batch), preprocess |
//! | compute | compute |
//! | reader | reader.open, reader.read, reader.close |
//! | checkpoint | checkpoint.save, checkpoint.load, checkpoint.drain (the end waits for what is written beside) |
//! | object | object.get, object.put and their kin (a request until the head of its answer), object.receive (its body) |
//! | communication | barrier (ranks wait for each other after a step, before a checkpoint) |

pub const PIPELINE: &str = "pipeline";
pub const DATA: &str = "data";
pub const COMPUTE: &str = "compute";
pub const READER: &str = "reader";
pub const CHECKPOINT: &str = "checkpoint";
pub const COMMUNICATION: &str = "communication";
pub const OBJECT: &str = "object";

use crate::activity;

pub use dlio_tracer::span::Span;

/// Begins a span of a request to the object store, or of its body. `name` is only made where the process is traced.
pub fn of_object(kind: &str, name: impl FnOnce() -> String) -> Span {
    let mut span = Span::begin(kind, OBJECT);
    if dlio_tracer::span::is_recorded() {
        span.set("object", name());
    }
    span
}

/// Begins a span of this thread, which lasts until it is dropped. Costs two loads unless the process is traced.
#[inline]
pub fn span(name: &'static str, category: &'static str, values: &[(&'static str, u64)]) -> Span {
    activity::note(name, values);
    let mut span = Span::begin(name, category);
    values.iter().for_each(|(key, value)| span.set(key, *value));
    span
}
