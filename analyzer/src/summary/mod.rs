//! What a trace means, in one pass.
//!
//! [`count`] sees each event once; [`intervals`] and [`quantiles`] are pure arithmetic; [`precise`] is the second pass for those who
//! want the last digit; [`model`] is the report as plain
//! values, which [`text`], JSON and CSV only print. SQL over the same events gives the same figures, and `--show-sql` says
//! which SQL that is.

pub mod count;
pub mod flat;
pub mod intervals;
pub mod model;
pub mod precise;
pub mod quantiles;
pub mod tally;
pub mod text;
pub mod units;
pub mod unordered;
pub mod verdict;

use crate::batch::Wanted;
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::{Progress, scan};
use count::{Counted, Counter, LENGTHS_MAX, Meeting};
use model::Analysis;
use tally::Tallies;

/// Counts all events that pass a filter.
pub fn analyse(trace: &Trace, filter: &Filter, threads: usize, progress: &Progress) -> std::io::Result<Analysis> {
    let meeting = Meeting::default();
    let sieve = trace.sieve(filter);
    let tallies = Tallies::open(trace, filter, &sieve);
    tallies.meet(&meeting);
    let counter = || Counter::new(&trace.catalog, &meeting).keeping_lengths();
    let mut counters = scan(trace, &sieve, Wanted::default(), threads, progress, counter)?;
    let lengths: Option<Vec<_>> = counters.iter_mut().map(Counter::take_lengths).collect();
    let mut counted = Counted::default();
    counters.into_iter().for_each(|counter| counted.merge(counter.counted));
    let tally = tallies.add_to(&mut counted, &trace.catalog);
    counted.settle(&trace.catalog.aliases());
    let (measures, late, late_ns) = meeting.finish();
    let mut analysis = Analysis { filter: filter.clone(), counted, measures, late, late_ns, tally, durations: None };
    // Not what each thread could keep decides: the same trace gives the same figures on any machine.
    if let Some(lengths) = lengths.filter(|_| analysis.events() <= LENGTHS_MAX as u64) {
        precise::refine_by(&lengths, &mut analysis);
    }
    Ok(analysis)
}
