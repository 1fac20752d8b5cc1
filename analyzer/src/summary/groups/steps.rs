//! Training steps and how their time is spent: a partition, so the parts of a step sum to the step.
//!
//! A step extends from the start of one wait for a batch to the start of the next; the last step ends with the last
//! training span. A wait that finds no more batches does not start a step: it belongs to the previous one. The time of
//! a step is assigned to the first of these activities: compute, communication, checkpoint, wait for data, other I/O.
//! The rest is other. Time is swept backward, as everywhere in this module:
//!
//! ```text
//!   |wait|--compute--|save|  |wait|--compute--|  |wait|--com   ...
//!   |--------- step ---------|----- step -----|--|<- in progress, its end known
//! ```
//!
//! Each column holds several steps, so the number of columns is limited.

use serde::{Deserialize, Serialize};

use crate::summary::figures::quantiles::Histogram;
use crate::summary::time::intervals::{Interval, unite};

/// Number of parts of a step, in the order in which time is assigned. The rest is other.
pub const PARTS: usize = 5;

/// Index of each part.
pub const COMPUTE: usize = 0;
pub const COMMUNICATION: usize = 1;
pub const CHECKPOINT: usize = 2;
pub const WAIT: usize = 3;
pub const IO: usize = 4;

/// Maximum number of columns; if it is exceeded, pairs of columns are merged.
pub const COLUMNS_MAX: usize = 500;

/// Maximum number of readers for which the wait is divided by turn.
pub const TURNS_MAX: usize = 16;

/// Consecutive steps.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Column {
    pub steps: u64,
    pub start_ts: i64,
    pub total_ns: i64,
    pub parts: [i64; PARTS],
    pub shortest_ns: i64,
    pub longest_ns: i64,
}

impl Column {
    fn add(&mut self, other: &Column) {
        *self = Column {
            steps: self.steps + other.steps,
            start_ts: self.start_ts.min(other.start_ts),
            total_ns: self.total_ns + other.total_ns,
            parts: std::array::from_fn(|part| self.parts[part] + other.parts[part]),
            shortest_ns: self.shortest_ns.min(other.shortest_ns),
            longest_ns: self.longest_ns.max(other.longest_ns),
        };
    }
}

/// Steps of one thread.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Steps {
    /// End of the step in progress, and its known times.
    end: Option<i64>,
    parts: [i64; PARTS],
    /// The last horizon, if a wait for a batch starts or continues there.
    cut: Option<i64>,
    /// Columns, latest first.
    columns: Vec<Column>,
    /// Number of steps per column.
    width: u64,
    pub lengths: Histogram,
    /// Waits by the position of their step, counted from the last, for each number of readers from 1.
    turns: Vec<[i64; TURNS_MAX]>,
}

impl Steps {
    /// Takes the intervals between this horizon and the last one: disjoint ascending lists, by part, and the waits that
    /// found no batch.
    pub fn pass(&mut self, horizon: i64, lists: [&[Interval]; PARTS], vain: &[Interval]) {
        let last = [lists[COMPUTE], lists[WAIT]].into_iter().filter_map(|list| list.last());
        let Some(end) = self.end.or_else(|| last.map(|interval| interval.end).max()) else { return };
        self.end = Some(end);
        let waits = lists[WAIT];
        // If a wait for a batch reaches the last horizon from before, it continues there; otherwise one started there.
        let reaches = |list: &[Interval], cut: i64| list.last().is_some_and(|wait| wait.end >= cut);
        let goes_on = |cut: i64| reaches(waits, cut) && !reaches(vain, cut);
        if let Some(cut) = self.cut.take().filter(|cut| !goes_on(*cut)) {
            self.close(cut);
        }
        // The first wait of the next epoch may immediately follow a wait that found no batch.
        let begins = |wait: &Interval| match vain.binary_search_by_key(&wait.start, |vain| vain.start) {
            Ok(at) => Some(vain[at].end).filter(|end| *end < wait.end),
            Err(_) => Some(wait.start),
        };
        let mut cuts: Vec<i64> = waits.iter().filter_map(begins).filter(|start| *start > horizon).collect();
        if waits.first().and_then(begins) == Some(horizon) {
            self.cut = Some(horizon);
        }
        let mut segments = shares(&cuts, exclusive(lists), end);
        while let Some(parts) = segments.pop() {
            self.parts.iter_mut().zip(parts).for_each(|(mine, more)| *mine += more);
            if let Some(cut) = cuts.pop() {
                self.close(cut);
            }
        }
    }

    /// Closes the step that starts here.
    fn close(&mut self, start: i64) {
        let Some(end) = self.end.replace(start).filter(|end| *end > start) else { return };
        let total_ns = end - start;
        let parts = std::mem::take(&mut self.parts);
        if self.turns.is_empty() {
            self.turns.resize(TURNS_MAX, [0; TURNS_MAX]);
        }
        let place = self.lengths.count;
        for (readers, turns) in (1..).zip(&mut self.turns) {
            turns[(place % readers) as usize] += parts[WAIT];
        }
        self.lengths.add(total_ns as u64);
        self.keep(Column { steps: 1, start_ts: start, total_ns, parts, shortest_ns: total_ns, longest_ns: total_ns });
    }

    fn keep(&mut self, step: Column) {
        match self.columns.last_mut().filter(|column| column.steps < self.width) {
            Some(column) => column.add(&step),
            None => self.columns.push(step),
        }
        if self.columns.len() > COLUMNS_MAX {
            let pair = |pair: &[Column]| {
                pair[1..].iter().fold(pair[0], |mut sum, column| {
                    sum.add(column);
                    sum
                })
            };
            self.columns = self.columns.chunks(2).map(pair).collect();
            self.width = self.width.max(1) * 2;
        }
    }

    /// Returns the columns in order of time. Time before the first step is in none of them.
    pub fn columns(&self) -> Vec<Column> {
        self.columns.iter().rev().copied().collect()
    }

    /// Returns the sum of all steps.
    pub fn sum(&self) -> Option<Column> {
        self.columns.iter().copied().reduce(|mut sum, column| {
            sum.add(&column);
            sum
        })
    }

    /// Returns the largest share of all waiting in the steps of one turn, if this many readers take turns.
    pub fn largest_turn(&self, readers: usize) -> Option<f64> {
        let turns = self.turns.get(readers.checked_sub(1)?)?;
        let all: i64 = turns.iter().sum();
        (all > 0).then(|| *turns.iter().max().unwrap_or(&0) as f64 / all as f64)
    }
}

/// Returns the part of each list that no earlier list covers.
fn exclusive(lists: [&[Interval]; PARTS]) -> [Vec<Interval>; PARTS] {
    let mut covered: Vec<Interval> = Vec::new();
    let mut own = lists.map(|_| Vec::new());
    for (part, list) in lists.iter().enumerate() {
        own[part] = without(list, &covered);
        // I/O, the longest list, is last: nothing has to be subtracted for a later list.
        if part + 1 < PARTS && !own[part].is_empty() {
            covered.extend_from_slice(&own[part]);
            unite(&mut covered);
        }
    }
    own
}

/// Subtracts `covered` from a disjoint ascending list.
fn without(list: &[Interval], covered: &[Interval]) -> Vec<Interval> {
    let mut left = Vec::new();
    let mut from = 0;
    for interval in list {
        let mut start = interval.start;
        // Step linearly: a list of I/O is long, and each interval rarely passes more than one cover.
        from += covered[from..].iter().take_while(|cover| cover.end <= start).count();
        for cover in covered[from..].iter().take_while(|cover| cover.start < interval.end) {
            if cover.start > start {
                left.push(Interval { start, end: cover.start });
            }
            start = start.max(cover.end);
        }
        if start < interval.end {
            left.push(Interval { start, end: interval.end });
        }
    }
    left
}

/// Returns the part of each list before the first cut, between cuts, and after the last, up to `end`.
fn shares(cuts: &[i64], lists: [Vec<Interval>; PARTS], end: i64) -> Vec<[i64; PARTS]> {
    let mut segments = vec![[0; PARTS]; cuts.len() + 1];
    for (part, list) in lists.iter().enumerate() {
        let mut at = 0;
        for interval in list {
            let (mut start, stop) = (interval.start, interval.end.min(end));
            at += cuts[at..].iter().take_while(|cut| **cut <= start).count();
            let mut place = at;
            while start < stop {
                let until = cuts.get(place).map_or(stop, |cut| stop.min(*cut));
                segments[place][part] += until - start;
                (start, place) = (until, place + 1);
            }
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::time::intervals::list;

    /// Splits lists at horizons as a sweep does.
    fn swept(lists: &[Vec<Interval>; PARTS], horizons: &[i64]) -> Steps {
        swept_with(lists, &[], horizons)
    }

    fn swept_with(lists: &[Vec<Interval>; PARTS], vain: &[Interval], horizons: &[i64]) -> Steps {
        let mut steps = Steps::default();
        let mut before = i64::MAX;
        for &horizon in horizons.iter().chain([&i64::MIN]) {
            let piece = |list: &Vec<Interval>| -> Vec<Interval> {
                let cut = |it: &Interval| Interval { start: it.start.max(horizon), end: it.end.min(before) };
                list.iter().map(cut).filter(|it| it.start < it.end).collect()
            };
            let pieces = lists.each_ref().map(piece);
            steps.pass(horizon, pieces.each_ref().map(Vec::as_slice), &piece(&vain.to_vec()));
            before = horizon;
        }
        steps
    }

    #[test]
    fn parts_of_a_step_sum_to_it_and_go_to_the_first_that_was_going_on() {
        let lists = [
            list(&[(10, 60), (110, 150)]),
            list(&[(50, 70)]),
            list(&[(60, 80)]),
            list(&[(0, 20), (100, 110)]),
            list(&[(75, 95), (145, 160)]),
        ];
        let steps = swept(&lists, &[]);
        let columns = steps.columns();
        // 0..100: compute 10..60, communication 60..70, checkpoint 70..80, wait 0..10, I/O 80..95, other 95..100.
        assert_eq!((columns[0].total_ns, columns[0].parts), (100, [50, 10, 10, 10, 15]));
        // Up to the end of the last span: 100..150.
        assert_eq!((columns[1].total_ns, columns[1].parts), (50, [40, 0, 0, 10, 0]));
        assert_eq!((steps.sum().unwrap().total_ns, columns.len()), (150, 2));
    }

    #[test]
    fn it_does_not_matter_where_the_sweep_stops() {
        let lists = [
            list(&[(5, 30), (42, 60), (71, 90)]),
            list(&[]),
            list(&[(60, 64)]),
            list(&[(0, 5), (30, 42), (65, 71)]),
            list(&[(1, 4), (28, 41), (62, 80)]),
        ];
        let whole = swept(&lists, &[]).columns();
        assert_eq!(whole.iter().map(|column| column.total_ns).collect::<Vec<_>>(), [30, 35, 25]);
        for first in 1..90 {
            for second in 0..first {
                assert_eq!(swept(&lists, &[first, second]).columns(), whole, "at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_wait_that_finds_no_batch_begins_no_step() {
        let lists = [
            list(&[(5, 30), (42, 60), (81, 90)]),
            list(&[]),
            list(&[]),
            list(&[(0, 5), (30, 42), (60, 74), (92, 95)]),
            list(&[]),
        ];
        let vain = list(&[(60, 67), (92, 95)]);
        let whole = swept_with(&lists, &vain, &[]).columns();
        let waited: Vec<_> = whole.iter().map(|column| (column.total_ns, column.parts[WAIT])).collect();
        assert_eq!(waited, [(30, 5), (37, 19), (28, 10)]);
        for first in 1..95 {
            for second in 0..first {
                assert_eq!(swept_with(&lists, &vain, &[first, second]).columns(), whole, "at {first} and {second}");
            }
        }
    }

    #[test]
    fn many_steps_become_few_columns() {
        let steps = 3001;
        let waits: Vec<_> = (0..steps).map(|at| (at * 10, at * 10 + 3)).collect();
        let compute: Vec<_> = (0..steps).map(|at| (at * 10 + 3, at * 10 + 10)).collect();
        let found = swept(&[list(&compute), vec![], vec![], list(&waits), vec![]], &[]);
        let columns = found.columns();
        assert!(columns.len() <= COLUMNS_MAX && columns.len() > COLUMNS_MAX / 4, "{}", columns.len());
        assert_eq!(columns.iter().map(|column| column.steps).sum::<u64>(), steps as u64);
        assert_eq!(found.sum().unwrap().parts, [steps * 7, 0, 0, steps * 3, 0]);
        assert!(columns.is_sorted_by_key(|column| column.start_ts));
    }

    #[test]
    fn the_wait_for_one_of_several_readers_is_seen() {
        let waits: Vec<_> = (0..400).map(|at| (at * 100, at * 100 + if at % 4 == 2 { 50 } else { 1 })).collect();
        let compute: Vec<_> = (0..400).map(|at| (at * 100 + 50, at * 100 + 100)).collect();
        let found = swept(&[list(&compute), vec![], vec![], list(&waits), vec![]], &[]);
        assert!(found.largest_turn(4).unwrap() > 0.9 && found.largest_turn(3).unwrap() < 0.5);
        assert_eq!(found.largest_turn(TURNS_MAX + 1), None);
    }
}
