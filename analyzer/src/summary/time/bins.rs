//! Sums per time bin, over a run of unknown length, in a fixed amount of memory.
//!
//! ```text
//!   bin  |-8-|-9-|10-|11-|12-|      a bin is 2^shift ns wide and starts at a multiple of that; if there are more
//!        |---4---|---5---|---6---|  than the ring can hold, pairs are merged and bins become twice as wide
//! ```
//!
//! All edges of wider bins are edges of narrower ones, so the order of additions affects neither the final width nor
//! the sum of any bin.

use serde::{Deserialize, Serialize};

use super::intervals::Interval;

/// The maximum number of bins; at least half of them are used once a run is longer than a millisecond.
pub const BINS_MAX: i64 = 1024;

/// The narrowest bin is a microsecond wide.
pub const SHIFT_MIN: u32 = 10;

/// Time bins, each with `N` sums.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "BinsInUse", try_from = "BinsInUse")]
pub struct Bins<const N: usize> {
    shift: u32,
    /// Numbers of the first and last used bin; reversed if there is none.
    first: i64,
    last: i64,
    /// A bin's index is its number modulo the length.
    ring: Vec<[u64; N]>,
}

impl<const N: usize> Default for Bins<N> {
    fn default() -> Bins<N> {
        Bins { shift: SHIFT_MIN, first: i64::MAX, last: i64::MIN, ring: Vec::new() }
    }
}

/// The encoding of bins: the sums of those used, concatenated.
#[derive(Serialize, Deserialize)]
struct BinsInUse {
    shift: u32,
    first: i64,
    last: i64,
    sums: Vec<u64>,
}

impl<const N: usize> From<Bins<N>> for BinsInUse {
    fn from(of: Bins<N>) -> BinsInUse {
        let used = of.range().map(|(first, last)| first..=last).into_iter().flatten();
        let sums = used.flat_map(|bin| of.ring[place(bin)]).collect();
        BinsInUse { shift: of.shift, first: of.first, last: of.last, sums }
    }
}

impl<const N: usize> TryFrom<BinsInUse> for Bins<N> {
    type Error = &'static str;

    fn try_from(from: BinsInUse) -> Result<Bins<N>, &'static str> {
        let mut bins = Bins { shift: from.shift, first: from.first, last: from.last, ring: Vec::new() };
        let Some((first, last)) = bins.range() else { return Ok(Bins { shift: from.shift, ..Bins::default() }) };
        let length = last.checked_sub(first).filter(|length| *length < BINS_MAX).ok_or("too many bins")?;
        if from.shift >= i64::BITS || from.sums.len() != (length as usize + 1) * N {
            return Err("bins that do not fit their range");
        }
        bins.ring.resize(BINS_MAX as usize, [0; N]);
        for (bin, sums) in (first..=last).zip(from.sums.chunks_exact(N)) {
            bins.ring[place(bin)].copy_from_slice(sums);
        }
        Ok(bins)
    }
}

fn place(bin: i64) -> usize {
    (bin & (BINS_MAX - 1)) as usize
}

/// Returns the bins that an interval touches; an empty one is in the bin of its start.
pub fn touched(interval: Interval, shift: u32) -> (i64, i64) {
    (interval.start >> shift, interval.end.saturating_sub(1).max(interval.start) >> shift)
}

/// Returns how much of `amount`, spread evenly over an interval, is before a timestamp. Rounded down, so that the parts
/// between any timestamps add up to the whole; an indivisible amount counts at the end.
pub fn before(amount: u64, interval: Interval, ts: i64) -> u64 {
    let length = interval.end.saturating_sub(interval.start);
    if ts >= interval.end {
        return amount;
    }
    let passed = ts.saturating_sub(interval.start).max(0);
    (amount as u128 * passed as u128 / length.max(1) as u128) as u64
}

impl<const N: usize> Bins<N> {
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// Returns the numbers of the first and the last used bin.
    pub fn range(&self) -> Option<(i64, i64)> {
        (self.first <= self.last).then_some((self.first, self.last))
    }

    /// Extends the bins to an interval; they may become wider.
    pub fn reach(&mut self, interval: Interval) -> (i64, i64) {
        loop {
            let (from, to) = touched(interval, self.shift);
            let (first, last) = (self.first.min(from), self.last.max(to));
            if last - first < BINS_MAX {
                (self.first, self.last) = (first, last);
                self.ring.resize(BINS_MAX as usize, [0; N]);
                return (from, to);
            }
            self.widen();
        }
    }

    /// Adds to a bin within the range.
    #[inline(always)]
    pub fn add_to(&mut self, bin: i64, amounts: &[u64; N]) {
        let sums = &mut self.ring[place(bin)];
        sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
    }

    /// Adds amounts, spread evenly over an interval.
    pub fn add(&mut self, interval: Interval, amounts: [u64; N]) {
        self.reach(interval);
        spread(interval, amounts, self.shift, |bin, part| self.add_to(bin, part));
    }

    /// Adds the lengths of intervals to one of the sums. Neighbors are usually in one bin, so their total is added when
    /// another bin starts.
    pub fn add_lengths(&mut self, list: &[Interval], sum: usize) {
        let mut bin = Interval { start: 0, end: 0 };
        let mut held = 0;
        for interval in list {
            let length = interval.end - interval.start;
            if interval.start < bin.start || interval.end > bin.end {
                self.add_pending(bin.start, held, sum);
                held = 0;
                bin = self.enter(*interval);
                if interval.end > bin.end {
                    let mut amounts = [0; N];
                    amounts[sum] = length as u64;
                    spread(*interval, amounts, self.shift, |bin, part| self.add_to(bin, part));
                    continue;
                }
            }
            held += length as u64;
        }
        self.add_pending(bin.start, held, sum);
    }

    fn add_pending(&mut self, ts: i64, held: u64, sum: usize) {
        if held > 0 {
            self.ring[place(ts >> self.shift)][sum] += held;
        }
    }

    /// Extends the bins to the start of an interval.
    fn enter(&mut self, interval: Interval) -> Interval {
        let (bin, _) = self.reach(interval);
        let start = bin << self.shift;
        Interval { start, end: start.saturating_add(1 << self.shift) }
    }

    fn widen(&mut self) {
        self.shift += 1;
        let Some((first, last)) = self.range() else { return };
        let narrow = std::mem::replace(&mut self.ring, vec![[0; N]; BINS_MAX as usize]);
        (first..=last).for_each(|bin| self.add_to(bin >> 1, &narrow[place(bin)]));
        (self.first, self.last) = (first >> 1, last >> 1);
    }

    /// Makes bins at least this wide.
    pub fn widen_to(&mut self, shift: u32) {
        while self.shift < shift {
            self.widen();
        }
    }

    pub fn merge(&mut self, mut other: Bins<N>) {
        self.widen_to(other.shift);
        other.widen_to(self.shift);
        let Some((first, last)) = other.range() else { return };
        let start = |bin: i64| bin << other.shift;
        self.reach(Interval { start: start(first), end: start(first) });
        self.reach(Interval { start: start(last), end: start(last) });
        other.widen_to(self.shift);
        let Some((first, last)) = other.range() else { return };
        (first..=last).for_each(|bin| self.add_to(bin, &other.ring[place(bin)]));
    }

    /// Returns one of the sums in bins of the given or a larger width, `first..=last`.
    pub fn column(&self, sum: usize, shift: u32, (first, last): (i64, i64)) -> Vec<u64> {
        let mut column = vec![0; (last - first + 1) as usize];
        let Some((from, to)) = self.range() else { return column };
        for bin in from..=to {
            let at = (bin >> (shift - self.shift)) - first;
            if let Some(sums) = usize::try_from(at).ok().and_then(|at| column.get_mut(at)) {
                *sums += self.ring[place(bin)][sum];
            }
        }
        column
    }
}

/// Distributes amounts, spread evenly over an interval, to bins.
pub fn spread<const N: usize>(interval: Interval, amounts: [u64; N], shift: u32, mut take: impl FnMut(i64, &[u64; N])) {
    let (from, to) = touched(interval, shift);
    let mut done = [0; N];
    for bin in from..to {
        let edge = (bin + 1) << shift;
        let reached = amounts.map(|amount| before(amount, interval, edge));
        let part: [u64; N] = std::array::from_fn(|i| reached[i] - done[i]);
        take(bin, &part);
        done = reached;
    }
    take(to, &std::array::from_fn(|i| amounts[i] - done[i]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bins: &Bins<2>) -> (u32, (i64, i64), Vec<u64>, Vec<u64>) {
        let range = bins.range().unwrap();
        (bins.shift(), range, bins.column(0, bins.shift(), range), bins.column(1, bins.shift(), range))
    }

    fn random(count: usize) -> Vec<(Interval, [u64; 2])> {
        let mut state = 7u64;
        let mut below = |most: i64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as i64) % most
        };
        let one = |_| {
            let start = below(3_000_000_000) - 1_000_000_000;
            let length = if below(20) == 0 { below(900_000_000) } else { below(20_000) };
            (Interval { start, end: start + length }, [below(1 << 20) as u64, length as u64])
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn sums_are_exact_in_any_order() {
        let events = random(3000);
        let mut forwards = Bins::<2>::default();
        events.iter().for_each(|(interval, amounts)| forwards.add(*interval, *amounts));
        let mut backwards = Bins::default();
        events.iter().rev().for_each(|(interval, amounts)| backwards.add(*interval, *amounts));
        let mut parts = Bins::default();
        for part in events.chunks(70) {
            let mut bins = Bins::default();
            part.iter().for_each(|(interval, amounts)| bins.add(*interval, *amounts));
            parts.merge(bins);
        }
        assert_eq!((all(&forwards), all(&forwards)), (all(&backwards), all(&parts)));
        let (_, (first, last), bytes, lengths) = all(&forwards);
        assert!((BINS_MAX / 2 - 1..BINS_MAX).contains(&(last - first)), "{first}..={last}");
        let sum = |of: usize| events.iter().map(|(_, amounts)| amounts[of]).sum::<u64>();
        assert_eq!((bytes.iter().sum(), lengths.iter().sum()), (sum(0), sum(1)));
    }

    #[test]
    fn a_call_is_spread_over_its_time() {
        let mut bins = Bins::<2>::default();
        bins.add(Interval { start: 512, end: 512 + 4 * 1024 }, [4096, 1]);
        // An indivisible amount, such as one call, counts at the end.
        assert_eq!(all(&bins), (10, (0, 4), vec![512, 1024, 1024, 1024, 512], vec![0, 0, 0, 0, 1]));
        bins.add(Interval { start: 1024, end: 1024 }, [5, 1]);
        bins.add(Interval { start: 0, end: 1024 }, [1, 1]);
        assert_eq!(all(&bins).2, [513, 1029, 1024, 1024, 512]);
    }

    #[test]
    fn lengths_of_a_list_are_those_of_its_intervals() {
        let list: Vec<Interval> = random(500).into_iter().map(|(interval, _)| interval).collect();
        let (mut together, mut apart) = (Bins::<2>::default(), Bins::<2>::default());
        list.chunks(7).for_each(|part| together.add_lengths(part, 1));
        list.iter().for_each(|interval| apart.add(*interval, [0, (interval.end - interval.start) as u64]));
        assert_eq!(all(&together), all(&apart));
    }

    #[test]
    fn column_can_have_wider_bins_and_other_range() {
        let mut bins = Bins::<2>::default();
        (0..8).for_each(|at| bins.add(Interval { start: at * 1024, end: at * 1024 + 1 }, [1 << at, 0]));
        assert_eq!(bins.column(0, 11, (-1, 4)), [0, 3, 12, 48, 192, 0]);
        assert_eq!(Bins::<2>::default().column(0, 12, (3, 4)), [0, 0]);
    }

    #[test]
    fn the_ends_of_time_have_room() {
        let mut bins = Bins::<2>::default();
        for at in [0, i64::MAX, i64::MIN] {
            bins.add(Interval { start: at, end: at }, [1, 0]);
        }
        assert_eq!(all(&bins).2.iter().sum::<u64>(), 3);
    }
}
