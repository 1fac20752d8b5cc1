//! Units: the pieces in which a trace is read, and the information about each before and after reading.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A piece of a source that is read at once.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    pub source: u32,
    pub index: u32,
    /// No event of the unit starts earlier; `i64::MIN` if unknown.
    pub first_start: i64,
    /// No event of the unit ends later; `i64::MAX` if unknown before reading.
    pub last_end: i64,
    pub proc: Option<u32>,
    /// The only process id in it, if that is known but the process is not.
    pub pid: Option<i32>,
    /// The categories it contains, among those of the trace.
    pub categories: u64,
    /// The number of its events, as far as known.
    pub events: u64,
    /// Its bytes in the file.
    pub size: u64,
}

impl Unit {
    /// Creates a unit with only its size.
    pub fn new(source: u32, index: u32, events: u64, size: u64) -> Unit {
        let (first_start, last_end) = (i64::MIN, i64::MAX);
        Unit { source, index, first_start, last_end, proc: None, pid: None, categories: Categories::ANY, events, size }
    }
}

/// The content of a unit, known once it was read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub first_start: i64,
    pub last_end: i64,
    /// The only process id in it, if there is only one.
    pub pid: Option<i32>,
    pub categories: u64,
}

/// Categories as bits of a word, so that a unit can list its own. Categories beyond the available bits share the last
/// one.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Categories(Vec<Arc<str>>);

impl Categories {
    /// For a unit with unknown content.
    pub const ANY: u64 = u64::MAX;

    const BITS: usize = 63;

    pub fn new(names: Vec<Arc<str>>) -> Categories {
        Categories(names)
    }

    pub fn names(&self) -> &[Arc<str>] {
        &self.0
    }

    /// Returns the bits of all categories that `takes` accepts.
    pub fn mask(&self, takes: impl Fn(&str) -> bool) -> u64 {
        let bits = (0..).zip(&self.0).filter(|(_, name)| takes(name)).map(|(place, _)| Categories::bit_at(place));
        bits.fold(0, |mask, bit| mask | bit)
    }

    /// Returns the bit of the category at an index.
    pub fn bit_at(place: u32) -> u64 {
        1 << (place as usize).min(Categories::BITS)
    }
}
