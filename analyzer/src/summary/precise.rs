//! Exact quantiles of durations: all events once more, of which only those in the buckets of quantiles are counted. Of few
//! events the lengths were kept; of many the trace is read again.

use super::count::Lengths;
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

impl Refiner<'_> {
    fn count(&mut self, kinds: &[u32], durations: &[i64]) {
        for (&kind, &dur) in kinds.iter().zip(durations) {
            let asked = self.asked.get(kind as usize).and_then(|buckets| buckets.get(bucket(dur as u64)));
            if asked == Some(&true) {
                self.counts.add(kind, dur as u64);
            }
        }
    }
}

impl Consumer for Refiner<'_> {
    fn batch(&mut self, batch: &mut Batch) {
        self.count(&batch.kind, &batch.dur);
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
    let asked = asked(analysis);
    let refiner = || Refiner { asked: &asked, counts: Counts::default() };
    let refiners = scan(trace, &trace.sieve(filter), Wanted::default(), threads, progress, refiner)?;
    let mut counts = Counts::default();
    refiners.iter().for_each(|refiner| counts.merge(&refiner.counts));
    analysis.durations = Some(counts);
    Ok(())
}

/// The same for events whose lengths were kept, by the threads that read them.
pub fn refine_by(lengths: &[Lengths], analysis: &mut Analysis) {
    let asked = asked(analysis);
    let mut refiner = Refiner { asked: &asked, counts: Counts::default() };
    lengths.iter().for_each(|kept| refiner.count(&kept.kinds, &kept.durations));
    analysis.durations = Some(refiner.counts);
}

/// The buckets in which the quantiles of each kind lie.
fn asked(analysis: &Analysis) -> Vec<Vec<bool>> {
    let of = |of: &super::count::KindCount| {
        let buckets = of.durations.buckets_of_quantiles();
        let mut asked = vec![false; buckets.last().map_or(0, |last| last + 1)];
        buckets.into_iter().for_each(|bucket| asked[bucket] = true);
        asked
    };
    analysis.counted.kinds.iter().map(of).collect()
}
