//! Distributions: exact ones by counting each value, compact ones by counting in buckets.
//!
//! Sizes have few distinct values, so each is counted and every quantile is exact. Durations have many, so they are
//! counted in buckets, 128 per doubling: a quantile is inexact by at most 0.4 %; minimum, maximum and mean are exact. A
//! second pass can count the values in the few buckets that contain quantiles, which makes them exact.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use crate::packed_serde::Columns;

/// Buckets per doubling, as a power of two.
const FINE_BITS: u32 = 7;
const FINE: u64 = 1 << FINE_BITS;

/// Declares the quantiles, each a name and a share of the values, and the position of the mean among them in reports.
macro_rules! quantiles {
    ($($below:ident: $low:literal),*; mean; $($above:ident: $high:literal),*) => {
        /// The quantiles of a distribution, from minimum to maximum: their names in reports and their shares.
        pub const QUANTILES: &[(&str, f64)] =
            &[$((stringify!($below), $low),)* $((stringify!($above), $high)),*];

        /// The number of quantiles that reports list before the mean.
        const BELOW_MEAN: usize = [$(stringify!($below)),*].len();

        /// A distribution: its quantiles and its mean.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Quantiles {
            $(pub $below: f64,)*
            pub mean: f64,
            $(pub $above: f64,)*
            /// `true` if the quantiles are exact; otherwise they are inexact by at most 0.4 %.
            pub exact: bool,
        }

        impl Quantiles {
            fn new([$($below,)* $($above,)*]: [f64; QUANTILES.len()], mean: f64, exact: bool) -> Quantiles {
                Quantiles { $($below,)* mean, $($above,)* exact }
            }
        }
    };
}

// The only list of them, from which reports, SQL and pages are generated. SUMMARY.md describes it.
quantiles! {
    min: 0.0, p25: 0.25;
    mean;
    median: 0.5, p75: 0.75, p95: 0.95, p99: 0.99, max: 1.0
}

/// Returns the heading of a percentile: `25 %` for `p25`; `None` for other names.
pub fn percentile(name: &str) -> Option<String> {
    let (_, share) = QUANTILES.iter().find(|(known, _)| *known == name && name.starts_with('p'))?;
    Some(format!("{} %", (share * 1e4).round() / 1e2))
}

/// Returns the SQL columns of a column's distribution, named like the fields of `name`.
pub fn sql_columns(column: &str, name: &str) -> Vec<String> {
    let quantile = |(quantile, share): &(&str, f64)| {
        let value = match share {
            0.0 => format!("min({column})"),
            1.0 => format!("max({column})"),
            share => format!("percentile_cont({share}) within group (order by {column})"),
        };
        format!("{value} as \"{name}.{quantile}\"")
    };
    let mut columns: Vec<String> = QUANTILES.iter().map(quantile).collect();
    columns.insert(BELOW_MEAN, format!("avg({column}) as \"{name}.mean\""));
    columns
}

/// Returns the bucket of a value: exact below [`FINE`], then 128 per doubling.
#[inline(always)]
pub fn bucket(value: u64) -> usize {
    let octave = (63 - (value | 1).leading_zeros()).saturating_sub(FINE_BITS);
    ((octave as u64 * FINE) + (value >> octave)) as usize
}

/// Returns the smallest and the largest value of a bucket.
fn ends(bucket: usize) -> (f64, f64) {
    let bucket = bucket as u64;
    if bucket < 2 * FINE {
        return (bucket as f64, bucket as f64);
    }
    let octave = bucket / FINE - 1;
    let low = (bucket - octave * FINE) << octave;
    (low as f64, low as f64 + ((1u64 << octave) - 1) as f64)
}

/// Returns the middle of a bucket.
fn middle(bucket: usize) -> f64 {
    let (low, high) = ends(bucket);
    low + (high - low) / 2.0
}

/// The number of events of one kind whose buckets are listed: for more events, a count per bucket takes no more memory.
const FEW_MAX: usize = 1024;

/// Counts of durations in buckets. Traces may have hundreds of thousands of names that occur a few times each: for
/// those the buckets are listed individually.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "HistogramSteps", from = "HistogramSteps")]
pub struct Histogram {
    /// By bucket; empty while the events are few.
    counts: Vec<u64>,
    /// The bucket of each event, while they are few.
    few: Vec<u16>,
    pub count: u64,
    pub sum: u128,
    pub min: u64,
    pub max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Vec::new(), few: Vec::new(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

/// The encoding of a histogram: nonempty buckets, and the exact numbers over all values.
#[derive(Serialize, Deserialize)]
struct HistogramSteps {
    steps: Vec<(u32, u64)>,
    count: u64,
    sum: u128,
    ends: (u64, u64),
}

impl From<Histogram> for HistogramSteps {
    fn from(of: Histogram) -> HistogramSteps {
        let steps = of.steps().into_iter().map(|(bucket, count)| (bucket as u32, count)).collect();
        HistogramSteps { steps, count: of.count, sum: of.sum, ends: (of.min, of.max) }
    }
}

impl From<HistogramSteps> for Histogram {
    fn from(from: HistogramSteps) -> Histogram {
        let (min, max) = from.ends;
        let mut histogram = Histogram { count: from.count, sum: from.sum, min, max, ..Histogram::default() };
        // The last one first, so that memory is allocated once.
        let known = from.steps.iter().rev().filter(|(bucket, _)| *bucket <= bucket_last());
        known.for_each(|(bucket, count)| histogram.add_counts(*bucket as usize, *count));
        histogram
    }
}

/// Returns the bucket of the largest possible value: a higher one is damage.
fn bucket_last() -> u32 {
    bucket(u64::MAX) as u32
}

impl Histogram {
    #[inline(always)]
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        match self.counts.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.add_beyond(bucket),
        }
        self.count += 1;
        self.sum += value as u128;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    #[cold]
    fn add_beyond(&mut self, bucket: usize) {
        match self.counts.is_empty() && self.few.len() < FEW_MAX {
            true => self.few.push(bucket as u16),
            false => self.add_counts(bucket, 1),
        }
    }

    fn add_counts(&mut self, bucket: usize, count: u64) {
        let few = std::mem::take(&mut self.few);
        let largest = few.iter().map(|bucket| *bucket as usize).max().unwrap_or(0).max(bucket);
        self.counts.resize(self.counts.len().max(largest + 1), 0);
        few.iter().for_each(|bucket| self.counts[*bucket as usize] += 1);
        self.counts[bucket] += count;
    }

    /// Returns the nonempty buckets in ascending order.
    fn steps(&self) -> Vec<(usize, u64)> {
        let mut few = self.few.clone();
        few.sort_unstable();
        let few = few.chunk_by(|a, b| a == b).map(|run| (run[0] as usize, run.len() as u64));
        few.chain(self.counts.iter().copied().enumerate().filter(|(_, n)| *n > 0)).collect()
    }

    /// Returns values and their counts in ascending order, at the resolution of buckets.
    pub fn values(&self) -> Vec<(f64, u64)> {
        let (min, max) = (self.min as f64, self.max as f64);
        self.steps().into_iter().map(|(bucket, count)| (middle(bucket).clamp(min, max), count)).collect()
    }

    /// Returns the lower ends of buckets and their counts: round numbers are preserved.
    pub fn floors(&self) -> Vec<(f64, u64)> {
        let (min, max) = (self.min as f64, self.max as f64);
        self.steps().into_iter().map(|(bucket, count)| (ends(bucket).0.clamp(min, max), count)).collect()
    }

    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// Returns the standard deviation.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.values().iter().map(|(value, count)| (value - mean).powi(2) * *count as f64).sum();
        (squares / self.count.max(1) as f64).sqrt()
    }

    /// Adds values that were counted elsewhere, as steps; their sum and range are more exact than the steps.
    pub fn add_steps(&mut self, steps: &[(u64, u64)], sum: u64, (min, max): (u64, u64)) {
        for &(value, count) in steps {
            self.add_counts(bucket(value), count);
            self.count += count;
        }
        self.sum += sum as u128;
        self.min = self.min.min(min);
        self.max = self.max.max(max);
    }

    pub fn merge(&mut self, other: &Histogram) {
        if let Some(last) = other.counts.len().checked_sub(1) {
            self.add_counts(last, 0);
            self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        }
        other.few.iter().for_each(|bucket| self.add_beyond(*bucket as usize));
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the buckets with the values that determine quantiles, unless the bucket alone determines them.
    pub fn buckets_of_quantiles(&self) -> Vec<usize> {
        let last = self.count.saturating_sub(1);
        let ranks = QUANTILES.iter().flat_map(|(_, share)| {
            let place = share * last as f64;
            [place.floor() as u64, place.ceil() as u64]
        });
        let mut ranks: Vec<u64> = ranks.collect();
        ranks.sort_unstable();
        let mut ranks = ranks.into_iter().peekable();
        let (mut found, mut seen) = (Vec::new(), 0);
        for (bucket, count) in self.steps() {
            seen += count;
            let mut holds = false;
            while ranks.next_if(|rank| *rank < seen).is_some() {
                holds = true;
            }
            if holds && bucket as u64 >= 2 * FINE {
                found.push(bucket);
            }
        }
        found
    }

    /// Returns exact quantiles, given the count of each value in the buckets of quantiles, in ascending order; `None`
    /// if these counts do not match the buckets.
    pub fn refined(&self, values: &[(u64, u64)]) -> Option<Quantiles> {
        let buckets = self.buckets_of_quantiles();
        let mut steps = Vec::new();
        let mut rest = values;
        for (number, count) in self.steps() {
            if buckets.binary_search(&number).is_err() {
                steps.push((middle(number), count));
                continue;
            }
            let (inside, after) = rest.split_at(rest.partition_point(|(value, _)| bucket(*value) <= number));
            if inside.iter().map(|(_, n)| n).sum::<u64>() != count {
                return None;
            }
            steps.extend(inside.iter().map(|(value, n)| (*value as f64, *n)));
            rest = after;
        }
        quantiles(steps.into_iter(), self.count, self.sum, true)
    }

    pub fn quantiles(&self) -> Option<Quantiles> {
        let steps = self.steps().into_iter().map(|(bucket, n)| (middle(bucket), n));
        let (min, max) = (self.min as f64, self.max as f64);
        let values = values_at(steps, self.count)?.map(|value| value.clamp(min, max));
        Some(Quantiles { min, max, ..Quantiles::new(values, self.mean(), false) })
    }
}

/// Returns the median of values in any order; for an even number, the mean of the middle two.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[last.div_ceil(2)]) / 2.0)
}

/// Returns the quantiles of values in ascending order with their counts; `exact` if these are the original values.
pub fn quantiles(steps: impl Iterator<Item = (f64, u64)>, count: u64, sum: u128, exact: bool) -> Option<Quantiles> {
    Some(Quantiles::new(values_at(steps, count)?, sum as f64 / count as f64, exact))
}

/// Returns the values at the positions of quantiles, interpolated linearly like SQL's `percentile_cont`, numpy and
/// pandas.
fn values_at(steps: impl Iterator<Item = (f64, u64)>, count: u64) -> Option<[f64; QUANTILES.len()]> {
    let last = count.checked_sub(1)? as f64;
    let places: [f64; QUANTILES.len()] = std::array::from_fn(|i| QUANTILES[i].1 * last);
    let mut values = [0.0; QUANTILES.len()];
    let (mut next, mut seen, mut before) = (0, 0u64, 0.0);
    for (value, n) in steps {
        // Ranks `seen .. seen + n` have this value; a position between the last rank and this one is between both
        // values.
        while next < places.len() && places[next] <= (seen + n - 1) as f64 {
            let past = places[next] - (seen as f64 - 1.0);
            values[next] = if past < 1.0 { before + (value - before) * past } else { value };
            next += 1;
        }
        seen += n;
        before = value;
    }
    Some(values)
}

/// The maximum number of distinct values that a thread counts individually. Beyond it new ones are rounded to their
/// bucket, which bounds memory for inputs that no program writes.
const DISTINCT_MAX: usize = 4 << 20;

const FREE: u64 = u64::MAX;

/// The count of each value of each kind: a flat table, because the hash map of the standard library costs three times
/// as much for keys of eight bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "CountsSorted", try_from = "CountsSorted")]
pub struct Counts {
    /// Kind in the upper 16 bits, value in the lower 48.
    slots: Vec<(u64, u64)>,
    /// Kinds and values that need more bits.
    wide: HashMap<(u32, u64), u64, RandomState>,
    used: usize,
    /// `true` if values had to be rounded.
    pub rounded: bool,
}

/// The encoding of counts.
#[derive(Serialize, Deserialize)]
struct CountsSorted {
    /// Kind, value and count.
    sorted: Columns,
    rounded: bool,
}

impl From<Counts> for CountsSorted {
    fn from(of: Counts) -> CountsSorted {
        let sorted = of.sorted();
        let columns = Columns::of(&sorted, |(kind, value, count)| [*kind as i64, *value as i64, *count as i64]);
        CountsSorted { sorted: columns, rounded: of.rounded }
    }
}

impl TryFrom<CountsSorted> for Counts {
    type Error = &'static str;

    fn try_from(from: CountsSorted) -> Result<Counts, &'static str> {
        let mut counts = Counts { rounded: from.rounded, ..Counts::default() };
        let sorted = from.sorted.things(|[kind, value, count]| (kind as u32, value as u64, count as u64));
        let sorted = sorted.ok_or("columns of values that do not fit")?;
        sorted.into_iter().for_each(|(kind, value, count)| counts.add_value(kind, value, count));
        Ok(counts)
    }
}

impl Default for Counts {
    fn default() -> Counts {
        Counts { slots: vec![(FREE, 0); 1024], wide: HashMap::default(), used: 0, rounded: false }
    }
}

const VALUE_BITS: u32 = 48;

/// Kinds below this fit next to a value.
const KIND_END: u32 = (1 << (64 - VALUE_BITS)) - 1;

impl Counts {
    #[inline(always)]
    pub fn add(&mut self, kind: u32, value: u64) {
        self.add_value(kind, value, 1);
    }

    #[inline(always)]
    fn add_value(&mut self, kind: u32, value: u64, count: u64) {
        match kind < KIND_END && value >> VALUE_BITS == 0 {
            true => self.add_many((kind as u64) << VALUE_BITS | value, count),
            false => self.add_wide(kind, value, count),
        }
    }

    #[cold]
    fn add_wide(&mut self, kind: u32, value: u64, count: u64) {
        if self.used + self.wide.len() >= DISTINCT_MAX && !self.wide.contains_key(&(kind, value)) {
            self.rounded = true;
            return *self.wide.entry((kind, middle(bucket(value)) as u64)).or_default() += count;
        }
        *self.wide.entry((kind, value)).or_default() += count;
    }

    /// Adds values that were counted elsewhere, as steps.
    pub fn add_steps(&mut self, kind: u32, steps: &[(u64, u64)]) {
        for &(value, count) in steps {
            self.add_value(kind, value, count);
        }
        self.rounded |= !steps.is_empty();
    }

    #[inline(always)]
    fn add_many(&mut self, key: u64, count: u64) {
        let mask = self.slots.len() - 1;
        let mut at = slot(key, mask);
        loop {
            let (held, n) = &mut self.slots[at];
            if *held == key {
                *n += count;
                return;
            }
            if *held == FREE {
                return self.insert(key, count);
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn insert(&mut self, key: u64, count: u64) {
        let value = key & ((1 << VALUE_BITS) - 1);
        if self.used >= DISTINCT_MAX && middle(bucket(value)) as u64 != value {
            self.rounded = true;
            return self.add_many(key - value + middle(bucket(value)) as u64, count);
        }
        if 2 * (self.used + 1) > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = slot(key, mask);
        while self.slots[at].0 != FREE {
            at = (at + 1) & mask;
        }
        self.slots[at] = (key, count);
        self.used += 1;
    }

    fn grow(&mut self) {
        let doubled = vec![(FREE, 0); 2 * self.slots.len()];
        let old = std::mem::replace(&mut self.slots, doubled);
        let mask = self.slots.len() - 1;
        for (key, count) in old.into_iter().filter(|(key, _)| *key != FREE) {
            let mut at = slot(key, mask);
            while self.slots[at].0 != FREE {
                at = (at + 1) & mask;
            }
            self.slots[at] = (key, count);
        }
    }

    pub fn merge(&mut self, other: &Counts) {
        self.rounded |= other.rounded;
        other.slots.iter().filter(|(key, _)| *key != FREE).for_each(|(key, count)| self.add_many(*key, *count));
        other.wide.iter().for_each(|((kind, value), count)| self.add_wide(*kind, *value, *count));
    }

    /// Returns the counts with other numbers of kinds.
    pub fn renumbered(&self, mut number: impl FnMut(u32) -> u32) -> Counts {
        let mut counts = Counts { rounded: self.rounded, ..Counts::default() };
        self.sorted().into_iter().for_each(|(kind, value, count)| counts.add_value(number(kind), value, count));
        counts
    }

    /// Returns values and their counts in ascending order, kind by kind.
    pub fn sorted(&self) -> Vec<(u32, u64, u64)> {
        let kept = self.slots.iter().filter(|(key, _)| *key != FREE);
        let narrow = kept.map(|(key, n)| ((key >> VALUE_BITS) as u32, key & ((1 << VALUE_BITS) - 1), *n));
        let mut all: Vec<_> = narrow.chain(self.wide.iter().map(|((kind, value), n)| (*kind, *value, *n))).collect();
        all.sort_unstable();
        all
    }
}

#[inline(always)]
fn slot(key: u64, mask: usize) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(values: &[u64]) -> Quantiles {
        let mut counts = Counts::default();
        values.iter().for_each(|value| counts.add(3, *value));
        let steps = counts.sorted();
        let sum = values.iter().map(|value| *value as u128).sum();
        quantiles(steps.iter().map(|(_, value, n)| (*value as f64, *n)), values.len() as u64, sum, true).unwrap()
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(
            (median(vec![3.0]), median(vec![1.0, 9.0, 2.0]), median(vec![1.0, 2.0])),
            (Some(3.0), Some(2.0), Some(1.5))
        );
        assert_eq!(
            (median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0, 2.0, 3.0]), median(vec![])),
            (Some(2.0), Some(2.5), None)
        );
        assert_eq!(median(vec![3.0, 1.0, 2.0, 10.0]), Some(2.5));
    }

    #[test]
    fn quantiles_have_the_same_names_everywhere() {
        assert_eq!((percentile("p25").as_deref(), percentile("p99").as_deref()), (Some("25 %"), Some("99 %")));
        assert_eq!((percentile("median"), percentile("pid")), (None, None));
        let columns = sql_columns("dur", "d");
        assert_eq!(columns[1], "percentile_cont(0.25) within group (order by dur) as \"d.p25\"");
        assert_eq!((columns[0].as_str(), columns[2].as_str()), ("min(dur) as \"d.min\"", "avg(dur) as \"d.mean\""));
        let fields: Vec<_> = columns.iter().map(|column| column.split(['.', '"']).rev().nth(1).unwrap()).collect();
        let listed = fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
        let described = include_str!("../../../SUMMARY.md").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            described.contains(&format!("A distribution (`duration_ns`, `size`) has {listed} and `exact`")),
            "{listed}"
        );
    }

    #[test]
    fn quantiles_between_two_values_are_interpolated() {
        let q = exact(&[1, 2, 3, 4]);
        assert_eq!((q.min, q.p25, q.mean, q.median, q.p75, q.max), (1.0, 1.75, 2.5, 2.5, 3.25, 4.0));
        let q = exact(&[7]);
        assert_eq!((q.min, q.p25, q.median, q.p99, q.max), (7.0, 7.0, 7.0, 7.0, 7.0));
        let q = exact(&[10, 10, 10, 10, 20]);
        assert_eq!((q.median, q.p75, q.max), (10.0, 10.0, 20.0));
    }

    #[test]
    fn kinds_and_values_beyond_the_narrow_ones_stay_apart() {
        let mut counts = Counts::default();
        let all = [(1, 5), (1 << 16 | 1, 5), (400_000, 7), (1, 1 << 50), (1, 1 << 51), (KIND_END, (1 << 48) - 1)];
        all.iter().for_each(|(kind, value)| counts.add(*kind, *value));
        let mut twice = counts.clone();
        twice.merge(&counts);
        let mut expected: Vec<_> = all.iter().map(|(kind, value)| (*kind, *value, 2)).collect();
        expected.sort_unstable();
        assert_eq!(twice.sorted(), expected);
    }

    #[test]
    fn few_events_and_many_give_the_same_buckets() {
        let value = |i: u64| i * i % 100_003;
        let of = |range: std::ops::Range<u64>| {
            let mut histogram = Histogram::default();
            range.for_each(|i| histogram.add(value(i)));
            histogram
        };
        let whole = of(0..3000);
        assert!(whole.few.is_empty() && !of(0..1000).few.is_empty());
        for cut in [1, 500, 1500, 2900] {
            let (mut first, second) = (of(0..cut), of(cut..3000));
            first.merge(&second);
            assert_eq!((first.steps(), first.quantiles()), (whole.steps(), whole.quantiles()), "{cut}");
        }
    }

    #[test]
    fn quantiles_equal_those_of_the_sorted_list() {
        let mut state = 7u64;
        let mut values: Vec<u64> = (0..5000)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 40) % 997
            })
            .collect();
        let q = exact(&values);
        values.sort_unstable();
        let at = |share: f64| {
            let place = share * (values.len() - 1) as f64;
            let low = values[place.floor() as usize] as f64;
            low + (values[place.ceil() as usize] as f64 - low) * place.fract()
        };
        for (found, share) in [(q.p25, 0.25), (q.median, 0.5), (q.p75, 0.75), (q.p95, 0.95), (q.p99, 0.99)] {
            assert!((found - at(share)).abs() < 1e-9, "{share}: {found} {}", at(share));
        }
    }

    #[test]
    fn refined_buckets_give_exact_quantiles() {
        let mut state = 3u64;
        for length in [1, 2, 3, 10, 1000, 20_000] {
            let values: Vec<u64> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 34) >> (state % 23)
                })
                .collect();
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            let buckets = histogram.buckets_of_quantiles();
            let mut counts = Counts::default();
            values.iter().filter(|value| buckets.contains(&bucket(**value))).for_each(|value| counts.add(0, *value));
            let counted: Vec<_> = counts.sorted().into_iter().map(|(_, value, n)| (value, n)).collect();
            assert_eq!(histogram.refined(&counted).unwrap(), exact(&values), "{length} values");
            if let Some((_, fewer)) = counted.split_last() {
                assert_eq!(histogram.refined(fewer), None);
            }
        }
    }

    #[test]
    fn a_bucket_is_less_than_a_hundredth_wide() {
        for value in (0..300).chain((8..63).flat_map(|bits| [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1])) {
            let off = (middle(bucket(value)) - value as f64).abs();
            assert!(off <= value as f64 * 0.004, "{value}: {off}");
        }
        assert!(bucket(u64::MAX) < 10_000);
    }

    #[test]
    fn median_of_microseconds_is_not_the_p99() {
        let mut histogram = Histogram::default();
        (0..1000).for_each(|i| histogram.add(if i < 950 { 1000 } else { 3000 }));
        let q = histogram.quantiles().unwrap();
        assert_eq!((q.min, q.max), (1000.0, 3000.0));
        assert!((q.median - 1000.0).abs() < 4.0 && (q.p99 - 3000.0).abs() < 12.0);
        assert_eq!(q.mean, 1100.0);
    }

    #[test]
    fn tables_of_two_threads_add_up() {
        let (mut a, mut b) = (Counts::default(), Counts::default());
        (0..3000).for_each(|value| a.add(1, value));
        (0..3000).for_each(|value| b.add(1, value * 2));
        a.merge(&b);
        let sorted = a.sorted();
        assert_eq!(sorted.len(), 4500);
        assert_eq!(sorted.iter().map(|(_, _, n)| n).sum::<u64>(), 6000);
    }
}
