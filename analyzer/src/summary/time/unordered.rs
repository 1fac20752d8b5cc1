//! Buffers intervals whose time is unknown before they are read, as in textual traces: packed until all are read and
//! their order is known.
//!
//! ```text
//! list = for each interval: gap since the end of the previous one, length      both varints
//! ```

use dlio_schemas::perfetto::proto::{Message, varint};

use serde::{Deserialize, Serialize};

use super::intervals::{Interval, Lists, SETS};
use crate::packed_serde::bytes;

/// Buffered lists, a few bytes per interval.
#[derive(Default)]
pub struct UnorderedIntervals {
    parts: Vec<Part>,
    sorted: bool,
}

/// The packed lists of a period.
#[derive(Serialize, Deserialize)]
pub struct Part {
    last_end: i64,
    lists: [Packed; SETS],
}

#[derive(Serialize, Deserialize)]
struct Packed(#[serde(with = "bytes")] Box<[u8]>);

impl Part {
    /// Packs lists that are each disjoint and ascending; `None` if they are empty.
    pub fn of(lists: &Lists) -> Option<Part> {
        let ends = lists.iter().filter_map(|list| list.last()).map(|interval| interval.end);
        Some(Part { last_end: ends.max()?, lists: lists.each_ref().map(|list| Packed(pack(list))) })
    }
}

impl UnorderedIntervals {
    /// Adds lists that are each disjoint and ascending.
    pub fn keep(&mut self, lists: &Lists) {
        if let Some(part) = Part::of(lists) {
            self.add(part);
        }
    }

    /// Adds packed lists.
    pub fn add(&mut self, part: Part) {
        self.parts.push(part);
        self.sorted = false;
    }

    /// Returns the latest end of them; the minimum timestamp if there are none.
    pub fn last_end(&mut self) -> i64 {
        if !self.sorted {
            self.parts.sort_by_key(|part| part.last_end);
            self.sorted = true;
        }
        self.parts.last().map_or(i64::MIN, |part| part.last_end)
    }

    /// Returns the lists that end last, if that is later than `horizon`.
    pub fn next_beyond(&mut self, horizon: i64) -> Option<Lists> {
        if self.last_end() <= horizon {
            return None;
        }
        self.parts.pop().map(|part| part.lists.map(|Packed(list)| unpack(&list)))
    }
}

pub(in crate::summary) fn pack(list: &[Interval]) -> Box<[u8]> {
    let mut packed = Message::default();
    let mut before = 0;
    for interval in list {
        packed.varint(interval.start.wrapping_sub(before) as u64);
        packed.varint((interval.end - interval.start) as u64);
        before = interval.end;
    }
    packed.0.into_boxed_slice()
}

pub(in crate::summary) fn unpack(mut packed: &[u8]) -> Vec<Interval> {
    let mut list = Vec::new();
    let mut before = 0i64;
    while let (Some(gap), Some(length)) = (varint(&mut packed), varint(&mut packed)) {
        let start = before.wrapping_add(gap as i64);
        before = start.wrapping_add(length as i64);
        list.push(Interval { start, end: before });
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_lists_round_trip() {
        for list in [vec![], vec![(-5, 7), (8, 8 << 40)], vec![(i64::MIN + 1, -2), (0, i64::MAX)]] {
            let list: Vec<_> = list.into_iter().map(|(start, end)| Interval { start, end }).collect();
            assert_eq!(unpack(&pack(&list)), list);
        }
    }

    #[test]
    fn lists_return_latest_first_beyond_the_horizon() {
        let mut unordered = UnorderedIntervals::default();
        for end in [10, 30, 20] {
            unordered.keep(&[vec![Interval { start: end - 5, end }], vec![], vec![], vec![]]);
        }
        let mut ends = Vec::new();
        while let Some(lists) = unordered.next_beyond(10) {
            ends.push(lists[0][0].end);
        }
        assert_eq!((ends, unordered.last_end()), (vec![30, 20], 10));
    }
}
