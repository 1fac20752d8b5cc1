//! Intervals of time, and the arithmetic of lists of them.

/// From `start` to `end`, `end` not included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    pub start: i64,
    pub end: i64,
}

/// The set an interval belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Set {
    /// Spans of compute categories.
    Compute,
    /// Spans that the program calls reading, writing or a checkpoint.
    AppIo,
    /// Calls on files.
    Io,
}

pub const SETS: usize = 3;

/// One list for each set.
pub type Lists = [Vec<Interval>; SETS];

/// Makes a list disjoint and ascending, in place.
pub fn unite(list: &mut Vec<Interval>) {
    if is_united(list) {
        return;
    }
    // Lists are concatenations of few ascending runs, which this sort finds and merges.
    if !list.is_sorted_by_key(|interval| interval.end) {
        list.sort_by_key(|interval| interval.end);
    }
    let mut kept = list.len();
    for i in (0..list.len()).rev() {
        let interval = list[i];
        if interval.end <= interval.start {
            continue;
        }
        match list.get_mut(kept) {
            Some(next) if interval.end >= next.start => next.start = next.start.min(interval.start),
            _ => {
                kept -= 1;
                list[kept] = interval;
            }
        }
    }
    list.drain(..kept);
}

/// True if there is nothing to do: the calls of one thread, mostly, and whatever was united before.
fn is_united(list: &[Interval]) -> bool {
    let is_some = |interval: &Interval| interval.start < interval.end;
    list.is_sorted_by(|a, b| is_some(a) && a.end < b.start) && list.last().is_none_or(is_some)
}

/// Length of a disjoint list.
pub fn length(list: &[Interval]) -> i64 {
    list.iter().map(|interval| interval.end - interval.start).sum()
}

/// Length of what two disjoint ascending lists share.
pub fn shared(a: &[Interval], b: &[Interval]) -> i64 {
    let (mut i, mut j, mut sum) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        sum += (a[i].end.min(b[j].end) - a[i].start.max(b[j].start)).max(0);
        if a[i].end < b[j].end { i += 1 } else { j += 1 }
    }
    sum
}

/// The part of a disjoint ascending list after a moment.
pub fn tail(list: &[Interval], ts: i64) -> i64 {
    let from = list.partition_point(|interval| interval.end <= ts);
    list[from..].iter().map(|interval| interval.end - interval.start.max(ts)).sum()
}

/// A list of intervals, for the tests of whatever takes one.
#[cfg(test)]
pub fn list(pairs: &[(i64, i64)]) -> Vec<Interval> {
    pairs.iter().map(|&(start, end)| Interval { start, end }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn united(pairs: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let mut list = list(pairs);
        unite(&mut list);
        list.iter().map(|interval| (interval.start, interval.end)).collect()
    }

    #[test]
    fn overlapping_and_touching_intervals_become_one() {
        assert_eq!(united(&[(0, 5), (5, 8), (10, 12), (11, 20), (1, 2)]), [(0, 8), (10, 20)]);
        assert_eq!(united(&[(0, 100), (10, 20), (30, 40)]), [(0, 100)]);
        assert_eq!(united(&[(3, 3), (5, 4)]), []);
        assert_eq!(united(&[]), []);
    }

    #[test]
    fn what_two_lists_share_is_measured() {
        assert_eq!(shared(&list(&[(0, 10), (20, 30)]), &list(&[(5, 25), (29, 40)])), 5 + 5 + 1);
        assert_eq!(shared(&list(&[(0, 10)]), &[]), 0);
    }
}
