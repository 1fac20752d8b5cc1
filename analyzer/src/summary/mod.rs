//! The meaning of a trace, in one pass.
//!
//! [`count`] sees each event once and adds it to [`counted`]; [`kinds`] says what an event is to be counted as;
//! [`shared_sweep`] unites the intervals of all threads; [`bins`], [`intervals`], [`sweep`] and [`quantiles`] are pure
//! arithmetic, [`course`] is what happened when, [`epochs`] what spans have of each, [`blocks`] where writers meet;
//! [`precise`] is the second pass for those who want the last digit; [`partial`] is a part of a trace that is counted
//! elsewhere, and how parts become one, [`travel`] how they are sent; [`report`] is what [`analysis`] counted as plain values,
//! section by section, which [`screen`], [`text`], JSON and CSV only print. SQL over the same events gives the same figures,
//! and `--show-sql` says which SQL that is.

pub mod access;
pub mod analysis;
pub mod bins;
pub mod blocks;
pub mod count;
pub mod counted;
pub mod course;
pub mod epochs;
pub mod flat;
pub mod folders;
pub mod groups;
pub mod intervals;
pub mod kinds;
pub mod layout;
pub mod partial;
pub mod precise;
pub mod quantiles;
pub mod report;
pub mod screen;
pub mod shared_sweep;
pub mod sweep;
pub mod tally;
pub mod text;
pub mod travel;
pub mod units;
pub mod unordered;

use crate::batch::Wanted;
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::{Both, Consumer, Progress, scan};
use analysis::Analysis;
use count::{Counter, LENGTHS_MAX, Lengths};
use counted::Counted;
use report::files::FILES_LISTED;
use shared_sweep::{Measured, SharedSweep};
use tally::Tallies;

/// The remark on a trace with more names than there is room for.
const NAMES_TOGETHER: &str = "it has more different names of events than --memory has room for: those that came last are \
    counted together as (other names); give it more";

/// Counts all events that pass a filter.
pub fn analyse(trace: &Trace, filter: &Filter, threads: usize, progress: &Progress) -> std::io::Result<Analysis> {
    analyse_beside(trace, filter, threads, progress, || ()).map(|(analysis, _)| analysis)
}

/// The same, while others see the events too: one a thread.
pub fn analyse_beside<C: Consumer>(
    trace: &Trace,
    filter: &Filter,
    threads: usize,
    progress: &Progress,
    other: impl Fn() -> C + Sync,
) -> std::io::Result<(Analysis, Vec<C>)> {
    let sweep = SharedSweep::new(&trace.catalog);
    let sieve = trace.sieve(filter);
    let tallies = Tallies::open(trace, filter, &sieve);
    sweep.add(tallies.intervals());
    let both = || Both(Counter::new(&trace.catalog, &sweep).within(filter).keeping_lengths(), other());
    let both = scan(trace, &sieve, Wanted::default(), threads, progress, both)?;
    let (mut counters, others): (Vec<_>, Vec<_>) =
        both.into_iter().map(|Both(counter, other)| (counter, other)).unzip();
    if trace.catalog.lacks_names() {
        trace.remark(NAMES_TOGETHER);
    }
    let lengths: Option<Vec<_>> = counters.iter_mut().map(Counter::take_lengths).collect();
    // The first one's tables are the others' too: those of 100,000 files are not copied for a question about a few events.
    let mut parts = counters.into_iter().map(|counter| counter.counted);
    let mut counted = parts.next().unwrap_or_default();
    parts.for_each(|part| counted.merge(part));
    Ok((concluded(trace, filter, (counted, lengths), tallies, sweep.finish()), others))
}

/// The analysis, once everything is counted.
fn concluded(
    trace: &Trace,
    filter: &Filter,
    (mut counted, lengths): (Counted, Option<Vec<Lengths>>),
    tallies: Tallies,
    measured: Measured,
) -> Analysis {
    let tally = tallies.add_to(&mut counted, &trace.catalog);
    counted.finish(&trace.catalog.aliases());
    let mut analysis =
        Analysis { filter: filter.clone(), counted, measured, tally, durations: None, files_listed: FILES_LISTED };
    // Not what each thread could keep decides: the same trace gives the same figures on any machine.
    if let Some(lengths) = lengths.filter(|_| analysis.events() <= LENGTHS_MAX as u64) {
        precise::refine_by(&lengths, &mut analysis);
    }
    analysis
}
