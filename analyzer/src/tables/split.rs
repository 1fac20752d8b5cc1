//! A part of a trace's units, given by files and positions in them.

use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// Adjacent units of one source: source, first, and the one after the last.
pub type Range = (u32, u32, u32);

/// A part of a trace's units. Its ranges are ascending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Split(Vec<Range>);

impl Split {
    /// Creates a split from units, each given by source and index, in any order.
    pub fn of(mut units: Vec<(u32, u32)>) -> Split {
        units.sort_unstable();
        let mut ranges: Vec<Range> = Vec::new();
        for (source, index) in units {
            match ranges.last_mut() {
                Some((known, _, end)) if *known == source && *end == index => *end += 1,
                _ => ranges.push((source, index, index + 1)),
            }
        }
        Split(ranges)
    }

    pub fn has(&self, unit: &Unit) -> bool {
        let after = self.0.partition_point(|(source, first, _)| (*source, *first) <= (unit.source, unit.index));
        let range = after.checked_sub(1).map(|at| self.0[at]);
        range.is_some_and(|(source, _, end)| source == unit.source && unit.index < end)
    }

    /// Returns `true` if it contains units of a source.
    pub fn has_source(&self, source: u32) -> bool {
        self.0.binary_search_by_key(&source, |(source, ..)| *source).is_ok()
    }

    /// Returns the sources of its units, each once.
    pub fn sources(&self) -> Vec<u32> {
        let mut sources: Vec<u32> = self.0.iter().map(|(source, ..)| *source).collect();
        sources.dedup();
        sources
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_by_source_and_index() {
        let split = Split::of(vec![(3, 1), (0, 5), (3, 0), (3, 2), (3, 7)]);
        assert_eq!(split.0, [(0, 5, 6), (3, 0, 3), (3, 7, 8)]);
        assert_eq!(split.sources(), [0, 3]);
        let has = |source, index| split.has(&Unit::new(source, index, 1, 1));
        assert!(has(0, 5) && has(3, 0) && has(3, 2) && has(3, 7));
        assert!(!has(0, 4) && !has(0, 6) && !has(1, 5) && !has(3, 3) && !has(3, 8) && !has(4, 0));
        assert!(split.has_source(3) && !split.has_source(1));
    }
}
