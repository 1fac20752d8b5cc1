//! Exact overlap of I/O and compute in each rank group: four times that sum to the time from the group's first training
//! span (a wait for a batch, or compute) to its last.
//!
//! Time is swept backward, as everywhere in this module, so the last span comes first. Group membership is known before
//! a trace is read ([`Ancestry::group`]). I/O before the first training span is dropped when the sweep ends.
//!
//! [`Ancestry::group`]: crate::summary::tree::Ancestry::group

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::summary::time::intervals::{Interval, length, shared, tail, unite};

/// Training time of a rank group, in four parts.
#[derive(Serialize, Deserialize, Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Beside {
    /// I/O of the trainer or one of its readers while the trainer computed.
    pub both_ns: i64,
    pub compute_only_ns: i64,
    pub io_only_ns: i64,
    pub neither_ns: i64,
}

/// The relevant lists of one lane, each disjoint and ascending.
pub struct Passed<'a> {
    pub group: u32,
    pub waits: &'a [Interval],
    pub compute: &'a [Interval],
    pub io: &'a [Interval],
}

/// A group during the sweep.
struct Group {
    from: i64,
    to: i64,
    io: i64,
    /// I/O before the earliest span so far.
    io_before: i64,
    compute: i64,
    both: i64,
}

/// All groups during the sweep.
#[derive(Default)]
pub struct Groups(BTreeMap<u32, Group>);

impl Groups {
    /// Adds the activity of all lanes since the last horizon.
    pub fn pass<'a>(&mut self, lanes: impl Iterator<Item = Passed<'a>>) {
        let mut passed: BTreeMap<u32, Vec<Passed>> = BTreeMap::new();
        for lane in lanes {
            passed.entry(lane.group).or_default().push(lane);
        }
        for (group, lanes) in passed {
            self.add(group, &lanes);
        }
    }

    fn add(&mut self, number: u32, lanes: &[Passed]) {
        let spans = || lanes.iter().flat_map(|lane| [lane.waits, lane.compute]);
        let from = spans().filter_map(|list| list.first()).map(|interval| interval.start).min();
        let to = spans().filter_map(|list| list.last()).map(|interval| interval.end).max();
        let group = match (self.0.get_mut(&number), to) {
            (Some(group), _) => group,
            (None, Some(to)) => {
                self.0.entry(number).or_insert(Group { from: to, to, io: 0, io_before: 0, compute: 0, both: 0 })
            }
            // Nothing is stored for a group before its last span is known.
            (None, None) => return,
        };
        let mut io = united(lanes.iter().map(|lane| lane.io));
        while io.pop_if(|interval| interval.start >= group.to).is_some() {}
        if let Some(last) = io.last_mut() {
            last.end = last.end.min(group.to);
        }
        let compute = united(lanes.iter().map(|lane| lane.compute));
        group.compute += length(&compute);
        group.both += shared(&compute, &io);
        match from {
            Some(from) => {
                let after = tail(&io, from);
                group.from = from;
                group.io += group.io_before + after;
                group.io_before = length(&io) - after;
            }
            None => group.io_before += length(&io),
        }
    }

    /// Returns the overlap per group.
    pub fn finish(self) -> BTreeMap<u32, Beside> {
        let parts = |group: Group| Beside {
            both_ns: group.both,
            compute_only_ns: group.compute - group.both,
            io_only_ns: group.io - group.both,
            neither_ns: group.to - group.from - group.compute - group.io + group.both,
        };
        self.0.into_iter().map(|(number, group)| (number, parts(group))).collect()
    }
}

fn united<'a>(lists: impl Iterator<Item = &'a [Interval]>) -> Vec<Interval> {
    let mut all = lists.collect::<Vec<_>>().concat();
    unite(&mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::time::intervals::list;

    /// The trainer waits from 10 to 20, computes from 20 to 40, and repeats this; one of two readers continues after
    /// the last span.
    #[test]
    fn the_parts_of_a_training_add_up_to_it() {
        let (waits, compute) = (list(&[(10, 20), (50, 60)]), list(&[(20, 40), (60, 80)]));
        let (one, other) = (list(&[(0, 15), (30, 45), (78, 100)]), list(&[(35, 50), (82, 90)]));
        let mut groups = Groups::default();
        for (from, to) in [(55, 1000), (25, 55), (0, 25)] {
            let cut = |list: &[Interval]| -> Vec<Interval> {
                let inside = list.iter().map(|it| Interval { start: it.start.max(from), end: it.end.min(to) });
                inside.filter(|it| it.start < it.end).collect()
            };
            let (waits, compute, one, other) = (cut(&waits), cut(&compute), cut(&one), cut(&other));
            let lanes = [(&waits, &compute, &vec![]), (&vec![], &vec![], &one), (&vec![], &vec![], &other)];
            groups.pass(lanes.into_iter().map(|(waits, compute, io)| Passed { group: 3, waits, compute, io }));
        }
        let found = groups.finish();
        let parts = Beside { both_ns: 10 + 2, compute_only_ns: 40 - 12, io_only_ns: 5 + 10, neither_ns: 70 - 40 - 15 };
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(3, parts)]);
    }

    #[test]
    fn a_group_without_spans_is_none() {
        let mut groups = Groups::default();
        let io = list(&[(0, 10)]);
        groups.pass([Passed { group: 0, waits: &[], compute: &[], io: &io }].into_iter());
        assert!(groups.finish().is_empty());
    }
}
