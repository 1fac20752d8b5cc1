//! Units: the pieces in which a trace is read, and what is known of each before and after.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A piece of a source that is read at once.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    pub source: u32,
    pub index: u32,
    /// No event of the unit begins earlier than this; `i64::MIN` where that is not known.
    pub first_start: i64,
    /// No event of the unit ends later than this; `i64::MAX` where that cannot be known before reading.
    pub last_end: i64,
    pub proc: Option<u32>,
    /// The only process id in it, where that is known and the process is not.
    pub pid: Option<i32>,
    /// The trace's categories that it holds.
    pub categories: u64,
    /// The number of its events, as far as known.
    pub events: u64,
    /// The bytes of the file that it takes.
    pub size: u64,
}

impl Unit {
    /// A unit of which only its size is known.
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
    /// The process id of all of it, where that is one.
    pub pid: Option<i32>,
    pub categories: u64,
}

/// Categories as bits of a word, so that a unit can say which it holds. Those that found no bit share the last one.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Categories(Vec<Arc<str>>);

impl Categories {
    /// Of a unit of which nothing is known.
    pub const ANY: u64 = u64::MAX;

    const BITS: usize = 63;

    pub fn new(names: Vec<Arc<str>>) -> Categories {
        Categories(names)
    }

    pub fn names(&self) -> &[Arc<str>] {
        &self.0
    }

    /// The bits of all that `takes` lets through.
    pub fn mask(&self, takes: impl Fn(&str) -> bool) -> u64 {
        let bits = (0..).zip(&self.0).filter(|(_, name)| takes(name)).map(|(place, _)| Categories::bit_at(place));
        bits.fold(0, |mask, bit| mask | bit)
    }

    /// The bit of the category at a place.
    pub fn bit_at(place: u32) -> u64 {
        1 << (place as usize).min(Categories::BITS)
    }
}
