//! The reads of a file from opening to closing.
//!
//! The first reads of a pass are examined individually, later ones together: a program that opens a file per sample
//! repeats one pattern for each, and one that stays in a file reads it in a pattern.

use super::transfers::TransferStats;
use crate::batch::ABSENT;
use crate::summary::figures::quantiles::Histogram;
use crate::summary::files::access::Relation;

/// The number of reads of a pass that are examined individually.
pub const PLACES: usize = 16;

/// The maximum number of reads of a pass that may belong to one sample.
pub const FEW_READS: u64 = 64;

/// A call that reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// Its start position, if known.
    pub pos: Option<i64>,
    pub asked: i64,
    pub bytes: i64,
    pub relation: Relation,
    /// Time since the previous call on the file, minus the time the thread waited for other threads.
    pub pause: Option<u64>,
}

/// A pass in progress.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    pub first: Vec<Read>,
    pub reads: u64,
    /// Reads that moved nothing because they reached the end.
    pub empty: u64,
    pub bytes: u64,
    pub time_ns: u64,
    pub stats: u64,
    pub seeks: u64,
    /// The end of the furthest read.
    pub reached: i64,
    pub start: i64,
}

impl Pass {
    pub fn read(&mut self, read: Read) {
        self.reads += 1;
        self.empty += u64::from(read.bytes == 0);
        self.bytes += read.bytes as u64;
        let pos = read.pos.filter(|_| read.bytes > 0);
        self.reached = self.reached.max(pos.map_or(ABSENT, |pos| pos.saturating_add(read.bytes)));
        if self.first.len() < PLACES {
            self.first.push(read);
        }
    }
}

/// Some frequent values with their counts, out of any number of values.
#[derive(Clone, Debug, Default)]
pub struct Frequent {
    counts: Vec<(i64, u64)>,
    pub all: u64,
}

const FREQUENT_MAX: usize = 32;

impl Frequent {
    pub fn add(&mut self, value: i64) {
        self.add_many(value, 1);
        self.all += 1;
    }

    fn add_many(&mut self, value: i64, count: u64) {
        if let Some((_, n)) = self.counts.iter_mut().find(|(known, _)| *known == value) {
            *n += count;
        } else if self.counts.len() < FREQUENT_MAX {
            self.counts.push((value, count));
        } else {
            // Rare values are dropped, as in the algorithm of Misra and Gries.
            self.counts.iter_mut().for_each(|(_, n)| *n = n.saturating_sub(count));
            self.counts.retain(|(_, n)| *n > 0);
        }
    }

    pub fn merge(&mut self, other: &Frequent) {
        self.all += other.all;
        other.counts.iter().for_each(|(value, count)| self.add_many(*value, *count));
    }

    /// Returns a lower bound of a value's count.
    pub fn count(&self, value: i64) -> u64 {
        self.counts.iter().find(|(known, _)| *known == value).map_or(0, |(_, count)| *count)
    }

    /// Returns the value that at least this share of all had.
    pub fn most(&self, part: f64) -> Option<i64> {
        let best = self.counts.iter().max_by_key(|(value, count)| (*count, *value))?;
        (best.1 as f64 >= part * self.all as f64).then_some(best.0)
    }
}

/// The reads at one position in the sequence of all passes.
#[derive(Clone, Default, Debug)]
pub struct ReadStats {
    pub reads: u64,
    /// The number of these that started at the end of the previous one, or, for the first, at the start of the file.
    pub next: u64,
    /// The number of these that reached the end of the bytes that their pass read.
    pub to_end: u64,
    pub asked: Frequent,
    pub sizes: Histogram,
    /// The start offsets of the requests, relative to the start and to the end of the bytes that their pass read.
    pub from_start: Frequent,
    pub from_end: Frequent,
    /// Nanoseconds before them, since the previous call on the file.
    pub pauses: Histogram,
}

impl ReadStats {
    /// `reached` is the end of the bytes that their pass read, if it is known.
    fn add(&mut self, read: &Read, reached: Option<i64>) {
        self.reads += 1;
        let begins = read.relation == Relation::First && read.pos.unwrap_or(0) == 0;
        self.next += u64::from(read.relation == Relation::Consecutive || begins);
        self.asked.add(read.asked);
        self.sizes.add(read.bytes as u64);
        read.pause.into_iter().for_each(|pause| self.pauses.add(pause));
        if let Some(pos) = read.pos {
            self.from_start.add(pos);
            if let Some(reached) = reached {
                self.to_end += u64::from(pos.saturating_add(read.bytes) == reached);
                self.from_end.add(reached.saturating_sub(pos));
            }
        }
    }

    fn merge(&mut self, other: &ReadStats) {
        self.reads += other.reads;
        self.next += other.next;
        self.to_end += other.to_end;
        self.pauses.merge(&other.pauses);
        self.asked.merge(&other.asked);
        self.sizes.merge(&other.sizes);
        self.from_start.merge(&other.from_start);
        self.from_end.merge(&other.from_end);
    }
}

/// All passes through files of a group that were recorded from beginning to end, and the first reads of the others.
#[derive(Clone, Default, Debug)]
pub struct Passes {
    pub whole: u64,
    /// Passes that were recorded from their beginning, but not together with their end.
    pub begun: u64,
    /// Files that were opened and closed without a read.
    pub unread: u64,
    pub reads: Histogram,
    /// Reads that reached the end, and the sizes requested by other reads.
    pub empty: u64,
    pub asked: Frequent,
    pub bytes: Histogram,
    /// Bytes read by passes of few reads.
    pub few_bytes: u64,
    pub stats: u64,
    pub seeks: u64,
    /// The first reads of the whole passes and of those that began.
    pub places: Vec<ReadStats>,
}

impl Passes {
    /// Returns the number of passes with a known beginning.
    pub fn opened(&self) -> u64 {
        self.whole + self.begun
    }

    /// Adds a pass that was recorded from its beginning up to here.
    pub fn begin(&mut self, pass: &Pass) {
        if pass.reads > 0 {
            self.begun += 1;
            self.add_places(pass, None);
        }
    }

    pub fn add(&mut self, pass: &Pass) {
        if pass.reads == 0 {
            self.unread += 1;
            return;
        }
        self.whole += 1;
        self.reads.add(pass.reads);
        self.empty += pass.empty;
        pass.first.iter().filter(|read| read.bytes > 0).for_each(|read| self.asked.add(read.asked));
        self.bytes.add(pass.bytes);
        self.few_bytes += if pass.reads <= FEW_READS { pass.bytes } else { 0 };
        self.stats += pass.stats;
        self.seeks += pass.seeks;
        self.add_places(pass, Some(pass.reached));
    }

    fn add_places(&mut self, pass: &Pass, reached: Option<i64>) {
        if self.places.len() < pass.first.len() {
            self.places.resize(pass.first.len(), ReadStats::default());
        }
        self.places.iter_mut().zip(&pass.first).for_each(|(place, read)| place.add(read, reached));
    }

    pub fn merge(&mut self, other: &Passes) {
        self.whole += other.whole;
        self.begun += other.begun;
        self.unread += other.unread;
        self.reads.merge(&other.reads);
        self.empty += other.empty;
        self.asked.merge(&other.asked);
        self.bytes.merge(&other.bytes);
        self.few_bytes += other.few_bytes;
        self.stats += other.stats;
        self.seeks += other.seeks;
        if self.places.len() < other.places.len() {
            self.places.resize(other.places.len(), ReadStats::default());
        }
        self.places.iter_mut().zip(&other.places).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

/// Runs of reads in files that stay open: one read after a jump, and the reads that follow it sequentially.
#[derive(Clone, Default, Debug)]
pub struct Runs {
    pub reads: Histogram,
    pub bytes: Histogram,
    /// The sizes requested by reads of runs.
    pub asked: Frequent,
    /// The distance from the start of one run to the next, if that is further on.
    pub strides: Frequent,
}

impl Runs {
    pub fn merge(&mut self, other: &Runs) {
        self.reads.merge(&other.reads);
        self.bytes.merge(&other.bytes);
        self.asked.merge(&other.asked);
        self.strides.merge(&other.strides);
    }
}

/// The use of the files of one group.
#[derive(Clone, Default, Debug)]
pub struct Use {
    pub read: TransferStats,
    pub written: TransferStats,
    pub passes: Passes,
    pub runs: Runs,
    /// The sizes requested by all reads.
    pub asked: Frequent,
    pub opens: u64,
    pub stats: u64,
    pub lists: u64,
    pub maps: u64,
    pub syncs: u64,
}

impl Use {
    pub fn merge(&mut self, other: &Use) {
        self.read.merge(&other.read);
        self.written.merge(&other.written);
        self.passes.merge(&other.passes);
        self.runs.merge(&other.runs);
        self.asked.merge(&other.asked);
        self.opens += other.opens;
        self.stats += other.stats;
        self.lists += other.lists;
        self.maps += other.maps;
        self.syncs += other.syncs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_most_have_is_found_among_many() {
        let mut frequent = Frequent::default();
        (0..10_000).for_each(|i| frequent.add(if i % 10 < 7 { 4096 } else { i }));
        assert_eq!(frequent.most(0.5), Some(4096));
        assert_eq!(frequent.most(0.9), None);
    }

    #[test]
    fn read_stats_separate_header_from_samples() {
        let mut passes = Passes::default();
        for size in [1000, 2000, 3000] {
            let mut pass = Pass::default();
            pass.read(Read { pos: Some(0), asked: 128, bytes: 128, relation: Relation::First, pause: Some(5) });
            pass.read(Read { pos: Some(128), asked: size, bytes: size, relation: Relation::Consecutive, pause: None });
            passes.add(&pass);
        }
        assert_eq!((passes.whole, passes.places.len()), (3, 2));
        assert_eq!((passes.places[0].asked.most(0.9), passes.places[0].to_end), (Some(128), 0));
        assert_eq!((passes.places[1].asked.most(0.9), passes.places[1].to_end, passes.places[1].next), (None, 3, 3));
    }

    #[test]
    fn first_reads_are_known_of_passes_without_their_end() {
        let mut passes = Passes::default();
        let mut pass = Pass::default();
        pass.read(Read { pos: Some(0), asked: 8, bytes: 8, relation: Relation::First, pause: None });
        passes.add(&pass);
        passes.begin(&pass);
        passes.begin(&Pass::default());
        let place = &passes.places[0];
        assert_eq!((passes.whole, passes.begun, passes.opened()), (1, 1, 2));
        // The end of the second is unknown.
        assert_eq!((place.reads, place.from_start.count(0), place.from_end.all, place.to_end), (2, 2, 1, 1));
    }
}
