//! Activity over time: bytes read and written and metadata calls, per column of time and by process.
//!
//! Events of one thread come in order of time, so nearly each is in the bin of the previous one: their sums are kept in
//! [`TimeSeries::bin`] and added when another bin starts.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use super::bins::{Bins, SHIFT_MIN, spread};
use super::intervals::Interval;

/// The sums of a bin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sum {
    Read,
    Written,
    /// File calls, counted at their end.
    Calls,
    /// Time of file calls, summed.
    Io,
    /// Metadata calls.
    Metadata,
}

pub const SUMS: usize = 5;

/// Buckets of durations of calls, two per doubling, so that a quantile is inexact by at most 20 %: from a quarter of a
/// microsecond to nine seconds, and one for longer calls.
pub const LATENCIES: usize = 52;
const LATENCY_FIRST: u32 = 8;

fn latency(ns: u64) -> usize {
    let octave = 63 - (ns | 1).leading_zeros();
    if octave < LATENCY_FIRST {
        return 0;
    }
    // Its upper half starts at the root of two.
    let upper = ((ns as u128 * ns as u128) >> (2 * octave)) >= 2;
    ((2 * (octave - LATENCY_FIRST) + upper as u32 + 1) as usize).min(LATENCIES - 1)
}

/// Returns the quantile of counts; `None` if there are none.
pub fn latency_at(counts: &[u64], part: f64) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    let wanted = (part * all as f64).ceil().max(1.0) as u64;
    let mut passed = 0;
    let bucket = counts.iter().position(|count| {
        passed += count;
        all > 0 && passed >= wanted
    })?;
    let edge = |bucket: usize| 2f64.powf(LATENCY_FIRST as f64 + (bucket as f64 - 1.0) / 2.0);
    // The geometric middle of the bucket.
    Some((edge(bucket) * edge(bucket + 1)).sqrt())
}

/// The activity over time.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct TimeSeries {
    /// Not encoded: parts of a trace are flushed when they end.
    #[serde(skip)]
    bin: Pending,
    pub columns: Bins<SUMS>,
    /// Counts of durations of calls, at their end.
    pub latencies: Bins<LATENCIES>,
    pub heat: Heat,
}

/// Sums not yet added to their columns.
#[derive(Clone, Copy)]
struct Pending {
    proc: u32,
    /// Number of the bin; an impossible one if there is none.
    number: i64,
    sums: [u64; SUMS],
    latencies: [u64; LATENCIES],
}

const NO_BIN: i64 = i64::MIN;

impl Default for Pending {
    fn default() -> Pending {
        Pending { proc: 0, number: NO_BIN, sums: [0; SUMS], latencies: [0; LATENCIES] }
    }
}

impl TimeSeries {
    /// Sets the process of the next calls.
    pub fn begin(&mut self, proc: u32) {
        if self.bin.proc != proc {
            self.flush();
            self.bin.proc = proc;
        }
    }

    /// Adds a call.
    #[inline(always)]
    pub fn add(&mut self, interval: Interval, read: u64, written: u64, metadata: bool) {
        let shift = self.columns.shift();
        if interval.start >> shift != self.bin.number || interval.end >> shift != self.bin.number {
            return self.add_elsewhere(interval, read, written, metadata);
        }
        let sums = &mut self.bin.sums;
        sums[Sum::Read as usize] += read;
        sums[Sum::Written as usize] += written;
        sums[Sum::Calls as usize] += 1;
        let length = (interval.end - interval.start) as u64;
        sums[Sum::Io as usize] += length;
        sums[Sum::Metadata as usize] += metadata as u64;
        self.bin.latencies[latency(length)] += 1;
    }

    /// Adds bytes read that are not part of a call.
    pub fn add_bytes(&mut self, interval: Interval, read: u64) {
        let mut sums = [0; SUMS];
        sums[Sum::Read as usize] = read;
        self.add_sums(interval, sums);
    }

    #[inline(never)]
    fn add_elsewhere(&mut self, interval: Interval, read: u64, written: u64, metadata: bool) {
        let interval = Interval { end: interval.end.max(interval.start), ..interval };
        let length = interval.end.saturating_sub(interval.start) as u64;
        self.add_sums(interval, [read, written, 1, length, metadata as u64]);
        let mut one = [0; LATENCIES];
        one[latency(length)] = 1;
        // In the bin in which calls are counted.
        self.put_latencies(interval.end.saturating_sub(1).max(interval.start), &one);
    }

    /// Adds latencies. Their bins are at most as wide as those of the sums, because they cover no further times.
    fn put_latencies(&mut self, ts: i64, counts: &[u64; LATENCIES]) {
        let (bin, _) = self.latencies.reach(Interval { start: ts, end: ts });
        self.latencies.add_to(bin, counts);
    }

    /// Adds sums that are spread evenly over an interval.
    pub fn add_sums(&mut self, interval: Interval, sums: [u64; SUMS]) {
        self.flush();
        let (from, to) = self.columns.reach(interval);
        if from == to {
            (self.bin.number, self.bin.sums) = (from, sums);
            return;
        }
        let shift = self.columns.shift();
        spread(interval, sums, shift, |bin, part| {
            self.columns.add_to(bin, part);
            self.heat.add(self.bin.proc, bin << shift, part);
        });
    }

    /// Adds all pending sums to their columns.
    pub fn flush(&mut self) {
        let Pending { proc, number, sums, latencies } = self.bin;
        self.bin = Pending { proc, ..Pending::default() };
        if number != NO_BIN {
            let start = number << self.columns.shift();
            self.columns.add_to(number, &sums);
            self.heat.add(proc, start, &sums);
            self.put_latencies(start, &latencies);
        }
    }

    pub fn merge(&mut self, mut other: TimeSeries) {
        self.flush();
        other.flush();
        self.columns.merge(other.columns);
        self.latencies.merge(other.latencies);
        self.heat.merge(other.heat);
    }
}

/// The maximum number of columns of the heat map.
pub const HEAT_COLUMNS: i64 = 200;

/// The maximum number of cells of the heat map, apart from one per process: beyond it, columns become wider.
const CELLS_MAX: usize = 1 << 18;

/// A cell of the heat map.
pub type Cell = [u64; 3];

/// Bytes, time and metadata calls by process and column of time, stored sparsely.
#[derive(Clone, Serialize, Deserialize)]
pub struct Heat {
    shift: u32,
    first: i64,
    last: i64,
    cells: HashMap<(u32, i64), Cell, RandomState>,
}

impl Default for Heat {
    fn default() -> Heat {
        Heat { shift: SHIFT_MIN, first: i64::MAX, last: i64::MIN, cells: HashMap::default() }
    }
}

impl Heat {
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// Iterates over process, number of the column, and cell.
    pub fn cells(&self) -> impl Iterator<Item = (u32, i64, &Cell)> {
        self.cells.iter().map(|(&(proc, column), cell)| (proc, column, cell))
    }

    /// Adds sums. `ts` is the start of a bin that is at most as wide as the final columns.
    fn add(&mut self, proc: u32, ts: i64, sums: &[u64; SUMS]) {
        let of = |sum: Sum| sums[sum as usize];
        self.put(proc, ts, [of(Sum::Read) + of(Sum::Written), of(Sum::Io), of(Sum::Metadata)]);
    }

    fn put(&mut self, proc: u32, ts: i64, cell: Cell) {
        let column = self.reach(ts);
        let sums = self.cells.entry((proc, column)).or_default();
        sums.iter_mut().zip(cell).for_each(|(sum, more)| *sum += more);
        while self.cells.len() > CELLS_MAX && self.last > self.first {
            self.widen();
        }
    }

    fn reach(&mut self, ts: i64) -> i64 {
        loop {
            let column = ts >> self.shift;
            let (first, last) = (self.first.min(column), self.last.max(column));
            if last.saturating_sub(first) < HEAT_COLUMNS {
                (self.first, self.last) = (first, last);
                return column;
            }
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.shift += 1;
        if self.cells.is_empty() {
            return;
        }
        (self.first, self.last) = (self.first >> 1, self.last >> 1);
        for ((proc, column), cell) in std::mem::take(&mut self.cells) {
            let sums = self.cells.entry((proc, column >> 1)).or_default();
            sums.iter_mut().zip(cell).for_each(|(sum, more)| *sum += more);
        }
    }

    fn merge(&mut self, other: Heat) {
        while self.shift < other.shift {
            self.widen();
        }
        for ((proc, column), cell) in other.cells {
            self.put(proc, column << other.shift, cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(course: &TimeSeries) -> (u32, Vec<(u32, i64, Cell)>) {
        let mut cells: Vec<_> = course.heat.cells().map(|(proc, column, cell)| (proc, column, *cell)).collect();
        cells.sort();
        (course.heat.shift(), cells)
    }

    /// Calls of three processes, some of them long, unordered.
    fn calls() -> Vec<(u32, Interval, u64)> {
        let mut state = 3u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % most
        };
        let call = |_| {
            let start = below(5_000_000_000) as i64;
            let length = if below(9) == 0 { below(50_000_000) } else { below(9000) } as i64;
            (below(3) as u32, Interval { start, end: start + length }, below(1 << 20))
        };
        (0..5000).map(call).collect()
    }

    fn course<'a>(calls: impl IntoIterator<Item = &'a (u32, Interval, u64)>) -> TimeSeries {
        let mut course = TimeSeries::default();
        for (proc, interval, bytes) in calls {
            course.begin(*proc);
            course.add(*interval, *bytes, bytes / 2, bytes % 2 == 0);
        }
        course.flush();
        course
    }

    #[test]
    fn columns_and_cells_sum_up_in_any_order() {
        let calls = calls();
        let whole = course(&calls);
        let mut parts = TimeSeries::default();
        calls.chunks(33).rev().for_each(|part| parts.merge(course(part.iter().rev())));
        assert_eq!(cells(&whole), cells(&parts));
        let range = whole.columns.range().unwrap();
        let column = |course: &TimeSeries, sum: Sum| course.columns.column(sum as usize, whole.columns.shift(), range);
        let bytes: u64 = calls.iter().map(|(_, _, bytes)| bytes).sum();
        for (sum, truth) in [
            (Sum::Read, bytes),
            (Sum::Written, calls.iter().map(|(_, _, bytes)| bytes / 2).sum()),
            (Sum::Calls, calls.len() as u64),
            (Sum::Io, calls.iter().map(|(_, interval, _)| (interval.end - interval.start) as u64).sum()),
            (Sum::Metadata, calls.iter().filter(|(_, _, bytes)| bytes % 2 == 0).count() as u64),
        ] {
            assert_eq!(column(&whole, sum), column(&parts, sum), "{sum:?}");
            assert_eq!(column(&whole, sum).iter().sum::<u64>(), truth, "{sum:?}");
        }
        let latencies =
            |course: &TimeSeries, bucket: usize| course.latencies.column(bucket, whole.columns.shift(), range);
        assert!((0..LATENCIES).all(|bucket| latencies(&whole, bucket) == latencies(&parts, bucket)));
        let counted: u64 = (0..LATENCIES).flat_map(|bucket| latencies(&whole, bucket)).sum();
        assert_eq!(counted, calls.len() as u64);
        let heat = whole.heat.cells().fold(0, |sum, (_, _, cell)| sum + cell[0]);
        assert_eq!(heat, calls.iter().map(|(_, _, bytes)| bytes + bytes / 2).sum::<u64>());
    }

    #[test]
    fn a_quantile_of_times_is_off_by_a_fifth_at_most() {
        for ns in [300u64, 500, 1000, 2048, 5_000_000, 1 << 32] {
            let mut counts = [0; LATENCIES];
            (0..98).for_each(|_| counts[latency(ns)] += 1);
            counts[latency(100 * ns)] += 2;
            let found = latency_at(&counts, 0.5).unwrap();
            assert!((found / ns as f64).log2().abs() <= 0.26, "{ns}: {found}");
            let last = latency_at(&counts, 0.99).unwrap();
            assert!(100 * ns > 1 << 33 || (last / (100 * ns) as f64).log2().abs() <= 0.26, "{ns}: {last}");
        }
        assert_eq!(
            (latency(0), latency(255), latency(u64::MAX), latency_at(&[0; LATENCIES], 0.5)),
            (0, 0, LATENCIES - 1, None)
        );
    }

    #[test]
    fn heat_map_size_is_bounded_for_many_processes() {
        let mut course = TimeSeries::default();
        for at in 0..200i64 {
            for proc in 0..10_000 {
                course.begin(proc);
                course.add(Interval { start: at << 20, end: (at << 20) + 10 }, 1, 0, false);
            }
        }
        course.flush();
        let (_, cells) = cells(&course);
        assert!((CELLS_MAX / 3..=CELLS_MAX).contains(&cells.len()), "{}", cells.len());
        assert_eq!(cells.iter().map(|(_, _, cell)| cell[0]).sum::<u64>(), 2_000_000);
    }
}
