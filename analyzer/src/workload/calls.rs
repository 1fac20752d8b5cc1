//! The calls that read samples: a reader of DLIO's if one makes the same calls, otherwise a profile.

use super::entry::{Entries, seconds};
use super::job::DataSet;
use super::shape::{Shape, Traversal, fixed_places};
use crate::io_profile::passes::{PLACES, ReadStats, Use};
use crate::summary::figures::quantiles::Histogram;

/// The share that counts as most.
const MOST: f64 = 0.9;

/// The number of sizes that represent a distribution of reads, and of files if there are fewer.
const READ_SIZES: usize = 33;
pub const FILE_SIZES: usize = 257;

/// Formats of files that are read whole, in one read or in reads of one size.
const WHOLE: [&str; 4] = ["npz", "npy", "jpeg", "png"];

/// Returns whether a reader of this format makes the recorded calls: the size of its reads, or 0 for all at once.
pub fn known_reader(set: &DataSet, shape: &Shape, format: &str) -> Option<u64> {
    let used = set.used;
    match shape.traversal {
        Traversal::Opened if WHOLE.contains(&format) => {
            let single = used.passes.reads.quantiles().is_some_and(|reads| reads.max <= 1.0);
            let to_end = used.passes.places.first().is_some_and(|place| place.to_end == place.reads && is_next(place));
            if single && to_end { Some(0) } else { one_size(used) }
        }
        Traversal::Streamed | Traversal::Loaded | Traversal::Opened if format == "tfrecord" => one_size(used),
        _ => None,
    }
}

/// Returns the size of sequential reads, if all of them request one size.
fn one_size(used: &Use) -> Option<u64> {
    let goes_on = used.read.consecutive().unwrap_or(0.0) + first(used) >= 0.95;
    let size = used.read.sizes.max;
    // The last read of a file may request less.
    let others = used.asked.all - used.asked.count(size as i64);
    (goes_on && others <= used.opens).then_some(size)
}

fn first(used: &Use) -> f64 {
    let sequential = used.read.sequential().unwrap_or(0.0);
    sequential - used.read.consecutive().unwrap_or(0.0)
}

fn is_next(place: &ReadStats) -> bool {
    place.next as f64 >= MOST * place.reads as f64
}

/// The calls per file, and the calls per sample: flow maps of YAML.
pub struct Profile {
    opening: Vec<String>,
    sample: Vec<String>,
}

impl Profile {
    pub fn of(set: &DataSet, shape: &Shape) -> Profile {
        let used = set.used;
        match shape.traversal {
            Traversal::Opened => Profile { opening: vec![], sample: pass(used, shape.samples_per_file.value) },
            Traversal::Loaded => {
                let rest = "{call: read, bytes: rest, repeat: sample}".to_string();
                Profile { opening: pass(used, 1), sample: vec![rest] }
            }
            Traversal::Streamed => {
                let bytes = request_sizes(used);
                Profile { opening: vec![], sample: vec![format!("{{call: read, bytes: {bytes}, repeat: sample}}")] }
            }
            Traversal::Visited => Profile { opening: opening(used), sample: visit(used) },
        }
    }

    /// Returns lines of YAML below its key.
    pub fn yaml(&self) -> String {
        let list = |name: &str, calls: &[String]| match calls.is_empty() {
            true => String::new(),
            false => format!("\n{name}:{}", calls.iter().map(|call| format!("\n  - {call}")).collect::<String>()),
        };
        list("opening", &self.opening) + &list("sample", &self.sample)
    }

    pub fn add(&self, entries: &mut Entries, evidence: String) {
        entries.certain("reader.profile", self.yaml(), evidence);
    }
}

/// Returns one pass from opening to closing.
fn pass(used: &Use, samples: u64) -> Vec<String> {
    let passes = &used.passes;
    let per_pass = |count: u64| (count as f64 / passes.whole.max(1) as f64).round() as usize;
    // Opening a file already queries its size once.
    let stats = per_pass(passes.stats).saturating_sub(1);
    let mut calls = vec!["{call: stat}".to_string(); stats];
    calls.extend(vec!["{call: seek}".to_string(); per_pass(passes.seeks)]);
    if let Some(size) = looped(used) {
        calls.push(format!("{{call: read, bytes: {size}, repeat: sample}}"));
        calls.extend(merge_repeats(vec![format!("{{call: read, bytes: {size}}}"); per_pass(passes.empty)]));
        return calls;
    }
    // Small files need fewer reads: additional ones at their end return nothing.
    let reads: Vec<String> = usual(used).map(|place| with_pause(read(place, samples), place)).collect();
    let many = reads.len() == PLACES;
    calls.extend(merge_repeats(reads));
    if many {
        calls.push(format!("{{call: read, bytes: {}, repeat: sample}}", request_sizes(used)));
    }
    calls
}

/// Returns the size that all reads request until the end of a file, if its length varies.
fn looped(used: &Use) -> Option<i64> {
    let passes = &used.passes;
    let varies = passes.reads.quantiles().is_some_and(|reads| reads.max > reads.min);
    let pauses = usual(used).any(has_pause);
    (varies && !pauses && usual(used).all(is_next)).then(|| passes.asked.most(MOST))?
}

/// Returns the reads that a large share of all passes make.
fn usual(used: &Use) -> impl Iterator<Item = &ReadStats> {
    used.passes.places.iter().take_while(|place| place.reads * 4 >= used.passes.opened())
}

/// Shorter pauses before a read are the overhead of the program.
const PAUSE_MIN: f64 = 20_000.0;

/// The number of values that represent the pauses before a read.
const PAUSES: usize = 9;

/// Returns the read with the pause before it, if there is one.
fn with_pause(read: String, place: &ReadStats) -> String {
    if !has_pause(place) {
        return read;
    }
    let values = quantiles(&place.pauses.floors(), PAUSES);
    let even = values.last().zip(values.first()).is_some_and(|(most, least)| *most as f64 <= 1.1 * *least as f64);
    let said = match even {
        true => seconds(place.pauses.mean()),
        false => format!("[{}]", values.iter().map(|ns| seconds(*ns as f64)).collect::<Vec<_>>().join(", ")),
    };
    format!("{}, think: {said}}}", read.trim_end_matches('}'))
}

fn has_pause(place: &ReadStats) -> bool {
    place.pauses.quantiles().is_some_and(|pauses| pauses.median >= PAUSE_MIN)
}

/// Returns the nanoseconds of pauses in a pass of the profile.
pub fn pause_ns(set: &DataSet, shape: &Shape, profiled: bool) -> f64 {
    let is_profiled = profiled && matches!(shape.traversal, Traversal::Opened | Traversal::Loaded);
    let each = |place: &ReadStats| place.pauses.mean() * place.reads as f64 / set.used.passes.opened().max(1) as f64;
    if is_profiled { usual(set.used).filter(|place| has_pause(place)).map(each).sum() } else { 0.0 }
}

/// Merges equal reads into one that is repeated.
fn merge_repeats(reads: Vec<String>) -> Vec<String> {
    let runs = reads.chunk_by(|a, b| a == b && !a.contains("at:"));
    runs.map(|run| match run.len() {
        1 => run[0].clone(),
        times => format!("{}, repeat: {times}}}", run[0].trim_end_matches('}')),
    })
    .collect()
}

/// Returns a read at one position of a pass.
fn read(place: &ReadStats, samples: u64) -> String {
    let reaches_end = place.to_end as f64 >= MOST * place.reads as f64;
    let bytes = match place.asked.most(MOST) {
        Some(asked) => asked.to_string(),
        None if reaches_end => "rest".into(),
        None => sizes(&place.sizes),
    };
    let at = match (is_next(place), place.from_start.most(MOST), place.from_end.most(MOST)) {
        (true, _, _) => None,
        (_, Some(start), _) => Some(start.to_string()),
        (_, None, Some(end)) if end > 0 => Some(format!("-{end}")),
        _ if samples > 1 => Some("place".into()),
        // It continues further on: the bytes in between are not read.
        _ => None,
    };
    match at {
        None => format!("{{call: read, bytes: {bytes}}}"),
        Some(at) => format!("{{call: read, at: {at}, bytes: {bytes}}}"),
    }
}

/// Returns the reads before a file's samples, which are equal in all files.
fn opening(used: &Use) -> Vec<String> {
    used.passes.places.iter().take(fixed_places(used)).map(|place| read(place, 1)).collect()
}

/// Returns a jump to a position, and the reads there.
fn visit(used: &Use) -> Vec<String> {
    let runs = &used.runs;
    let reads = runs.reads.quantiles().map_or(1.0, |reads| reads.median).round().max(1.0);
    let bytes = match runs.asked.most(MOST) {
        Some(asked) => asked.to_string(),
        None if reads <= 1.0 => sizes(&runs.bytes),
        None => request_sizes(used),
    };
    let mut calls = vec![format!("{{call: read, at: place, bytes: {bytes}}}")];
    if reads > 1.0 {
        calls.push(format!("{{call: read, bytes: {bytes}, repeat: {}}}", reads - 1.0));
    }
    calls
}

/// Returns the requested size of reads: one size, or sizes to draw from.
fn request_sizes(used: &Use) -> String {
    used.asked.most(MOST).map_or_else(|| sizes(&used.read.sizes), |size| size.to_string())
}

/// Returns sizes at evenly spaced shares.
fn sizes(histogram: &Histogram) -> String {
    let values = quantiles(&histogram.floors(), READ_SIZES);
    format!("[{}]", values.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
}

/// Returns at most `most` values at evenly spaced shares, given values in ascending order with their counts; one if all
/// are equal.
pub fn quantiles(values: &[(f64, u64)], most: usize) -> Vec<u64> {
    let all: u64 = values.iter().map(|(_, count)| count).sum();
    if values.len() == 1 {
        return vec![values[0].0 as u64];
    }
    let shares = most.min(all as usize).max(2);
    let at = |share: usize| {
        let rank = (share as f64 / (shares - 1) as f64 * all.saturating_sub(1) as f64).round() as u64;
        let mut seen = 0;
        let holds = |(_, count): &&(f64, u64)| {
            seen += count;
            seen > rank
        };
        values.iter().find(holds).map_or(0, |(value, _)| *value as u64)
    };
    (0..shares).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distribution_is_described_by_quantiles() {
        assert_eq!(quantiles(&[(7.0, 100)], 33), [7]);
        assert_eq!(quantiles(&[(1.0, 1), (2.0, 1), (3.0, 1)], 33), [1, 2, 3]);
        let many: Vec<(f64, u64)> = (0..=320).map(|value| (value as f64, 1)).collect();
        let found = quantiles(&many, 33);
        assert_eq!((found.len(), found[0], found[16], found[32]), (33, 0, 160, 320));
    }

    #[test]
    fn pause_before_a_read_is_in_the_profile() {
        let mut place = ReadStats::default();
        let read = || "{call: read, bytes: 7}".to_string();
        (0..10).for_each(|_| place.pauses.add(900));
        assert_eq!(with_pause(read(), &place), read());
        (0..90).for_each(|_| place.pauses.add(250_000));
        assert!(with_pause(read(), &place).starts_with("{call: read, bytes: 7, think: [0.000001"), "{place:?}");
        let mut even = ReadStats::default();
        (0..9).for_each(|_| even.pauses.add(250_000));
        assert_eq!(with_pause(read(), &even), "{call: read, bytes: 7, think: 0.00025}");
    }

    #[test]
    fn reads_that_are_the_same_are_repeated() {
        let read = |bytes: u64| format!("{{call: read, bytes: {bytes}}}");
        let found = merge_repeats(vec![read(1), read(2), read(2), read(2)]);
        assert_eq!(found, ["{call: read, bytes: 1}", "{call: read, bytes: 2, repeat: 3}"]);
    }
}
