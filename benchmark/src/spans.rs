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
//! | checkpoint | checkpoint.save, checkpoint.load |

pub const PIPELINE: &str = "pipeline";
pub const DATA: &str = "data";
pub const COMPUTE: &str = "compute";
pub const READER: &str = "reader";
pub const CHECKPOINT: &str = "checkpoint";

/// Lasts until it is dropped.
#[must_use = "a span that is not kept ends at once"]
pub struct Span;

/// Begins a span of this thread. Costs nothing unless the process is traced.
#[inline]
pub fn span(_name: &'static str, _category: &'static str, _values: &[(&'static str, u64)]) -> Span {
    Span
}

/// Marks a moment.
#[inline]
pub fn instant(_name: &'static str, _category: &'static str, _values: &[(&'static str, u64)]) {}
