//! Exact quantiles of durations: all events once more, of which only those in the buckets of quantiles are counted.

use super::model::Analysis;
use super::quantiles::{Counts, bucket};
use crate::batch::{Batch, Wanted};
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::{Consumer, Progress, scan};

/// Counts values in the buckets that were asked for.
struct Refiner<'a> {
    /// By kind and bucket.
    asked: &'a [Vec<bool>],
    counts: Counts,
}

impl Consumer for Refiner<'_> {
    fn batch(&mut self, batch: &mut Batch) {
        for (&kind, &dur) in batch.kind.iter().zip(&batch.dur) {
            let asked = self.asked.get(kind as usize).and_then(|buckets| buckets.get(bucket(dur as u64)));
            if asked == Some(&true) {
                self.counts.add(kind, dur as u64);
            }
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
    let asked = |of: &super::count::KindCount| {
        let buckets = of.durations.buckets_of_quantiles();
        let mut asked = vec![false; buckets.last().map_or(0, |last| last + 1)];
        buckets.into_iter().for_each(|bucket| asked[bucket] = true);
        asked
    };
    let asked: Vec<_> = analysis.counted.kinds.iter().map(asked).collect();
    let refiner = || Refiner { asked: &asked, counts: Counts::default() };
    let refiners = scan(trace, &trace.sieve(filter), Wanted::default(), threads, progress, refiner)?;
    let mut counts = Counts::default();
    refiners.iter().for_each(|refiner| counts.merge(&refiner.counts));
    analysis.durations = Some(counts);
    Ok(())
}
