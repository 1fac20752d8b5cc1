//! Exact quantiles of durations: a second pass over all events that counts only those in the buckets of quantiles. For
//! few events the lengths were kept; for many the trace is read again, here or in parts by workers.

use serde::{Deserialize, Serialize};

use super::analysis::Analysis;
use super::count::counted::{kind_of, row};
use super::count::counter::Lengths;
use super::count::kinds::KindTraits;
use super::figures::quantiles::{Counts, bucket};
use super::partial::{SentKind, arrived, contains_unit, sent};
use crate::batch::{Batch, Columns, Wanted};
use crate::catalog::{Catalog, is_stored};
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::{Consumer, Progress, scan_some};
use crate::unit::Unit;

/// Counts the values in the requested buckets.
struct Refiner<'a> {
    /// By row.
    asked: &'a [BucketMask],
    counts: Counts,
}

/// Some buckets of a kind, as bits from the first one.
#[derive(Default)]
struct BucketMask {
    first: usize,
    bits: Box<[u64]>,
}

impl BucketMask {
    fn new(buckets: &[usize]) -> BucketMask {
        let (Some(&first), Some(&last)) = (buckets.first(), buckets.last()) else { return BucketMask::default() };
        let mut bits = vec![0; (last - first) / 64 + 1];
        buckets.iter().for_each(|bucket| bits[(bucket - first) / 64] |= 1 << ((bucket - first) % 64));
        BucketMask { first, bits: bits.into() }
    }

    #[inline]
    fn contains(&self, bucket: usize) -> bool {
        let at = bucket.wrapping_sub(self.first);
        self.bits.get(at / 64).is_some_and(|bits| bits >> (at % 64) & 1 == 1)
    }
}

impl Refiner<'_> {
    fn count(&mut self, row: u32, dur: i64) {
        if self.asked.get(row as usize).is_some_and(|asked| asked.contains(bucket(dur as u64))) {
            self.counts.add(row, dur as u64);
        }
    }
}

/// Reads events for a [`Refiner`].
struct Reading<'a> {
    refiner: Refiner<'a>,
    catalog: &'a Catalog,
    kinds: Vec<KindTraits>,
    /// `true` if a file is a stored file, not a pipe.
    stored: Vec<bool>,
}

impl Consumer for Reading<'_> {
    fn batch(&mut self, batch: &mut Batch) {
        if batch.file.iter().any(|file| *file as usize >= self.stored.len()) {
            self.stored.extend(self.catalog.files_from(self.stored.len()).iter().map(|path| is_stored(path)));
        }
        if batch.kind.iter().any(|kind| *kind as usize >= self.kinds.len()) {
            let kinds = self.catalog.kinds_from(self.kinds.len());
            self.kinds.extend(kinds.iter().map(|kind| KindTraits::of(kind, 0)));
        }
        for ((&kind, &file), &dur) in batch.kind.iter().zip(&batch.file).zip(&batch.dur) {
            let is_on_file = self.kinds[kind as usize].is_on_file(self.stored[file as usize]);
            self.refiner.count(row(kind, !is_on_file), dur);
        }
    }

    fn part_done(&mut self, _part: usize, _horizon: i64) {}
}

/// Makes the quantiles of durations of an analysis exact.
pub fn refine(
    trace: &Trace,
    filter: &Filter,
    threads: usize,
    progress: &Progress,
    analysis: &mut Analysis,
) -> std::io::Result<()> {
    analysis.durations = Some(counts_of(trace, filter, (threads, progress), &bucket_masks(analysis), |_| true)?);
    Ok(())
}

fn counts_of(
    trace: &Trace,
    filter: &Filter,
    (threads, progress): (usize, &Progress),
    asked: &[BucketMask],
    takes: impl Fn(&Unit) -> bool + Sync,
) -> std::io::Result<Counts> {
    let refiner = || Refiner { asked, counts: Counts::default() };
    let reading = || Reading { refiner: refiner(), catalog: &trace.catalog, kinds: Vec::new(), stored: Vec::new() };
    let columns = Columns::DUR.and(Columns::FILE).and(filter.columns());
    let wanted = Wanted { columns, ..Wanted::default() };
    let readings = scan_some(trace, &trace.sieve(filter), wanted, threads, progress, takes, reading)?;
    let mut counts = Counts::default();
    readings.iter().for_each(|reading| counts.merge(&reading.refiner.counts));
    Ok(counts)
}

/// The buckets whose values are counted individually, for workers that number kinds differently.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Buckets(Vec<(SentKind, bool, Vec<u32>)>);

/// The part of a trace that is read again, and the buckets to count.
#[derive(Serialize, Deserialize)]
pub struct RefineRequest {
    /// Numbers of sources: `from..to`, ascending.
    pub sources: Vec<(u32, u32)>,
    pub buckets: Buckets,
}

impl Buckets {
    /// Returns the buckets of an analysis, and the row of each entry.
    pub fn of(analysis: &Analysis, catalog: &Catalog) -> (Buckets, Vec<u32>) {
        let (mut buckets, mut rows) = (Vec::new(), Vec::new());
        for (row, kind, count) in analysis.rows(&catalog.kinds()) {
            let asked = count.durations.buckets_of_quantiles().into_iter().map(|bucket| bucket as u32).collect();
            buckets.push((sent(kind), kind_of(row).1, asked));
            rows.push(row);
        }
        (Buckets(buckets), rows)
    }
}

/// Counts the values of a part of a trace, by index in the list of buckets.
pub fn count_again(
    trace: &Trace,
    filter: &Filter,
    threads: usize,
    progress: &Progress,
    again: &RefineRequest,
) -> std::io::Result<Counts> {
    let (mut asked, mut places) = (Vec::new(), Vec::new());
    for (place, (kind, past_files, buckets)) in (0u32..).zip(&again.buckets.0) {
        let row = row(trace.catalog.kind(arrived(kind.clone())), *past_files) as usize;
        if row >= asked.len() {
            asked.resize_with(row + 1, BucketMask::default);
            places.resize(row + 1, 0);
        }
        asked[row] = BucketMask::new(&buckets.iter().map(|bucket| *bucket as usize).collect::<Vec<_>>());
        places[row] = place;
    }
    let takes = |unit: &Unit| contains_unit(&again.sources, unit);
    let counts = counts_of(trace, filter, (threads, progress), &asked, takes)?;
    Ok(counts.renumbered(|row| places[row as usize]))
}

/// Makes quantiles exact for events whose lengths were kept by the reading threads.
pub fn refine_by(lengths: &[Lengths], analysis: &mut Analysis) {
    let asked = bucket_masks(analysis);
    let mut refiner = Refiner { asked: &asked, counts: Counts::default() };
    let kept = lengths.iter().flat_map(|kept| kept.rows.iter().zip(&kept.durations));
    kept.for_each(|(&row, &dur)| refiner.count(row, dur));
    analysis.durations = Some(refiner.counts);
}

/// Returns the buckets that contain the quantiles of each row.
fn bucket_masks(analysis: &Analysis) -> Vec<BucketMask> {
    let kinds = analysis.counted.kinds.iter();
    kinds.map(|kind| BucketMask::new(&kind.durations.buckets_of_quantiles())).collect()
}
