//! The analysis of a trace in one pass.
//!
//! ```text
//! report/           the analysis as plain values, section by section, and their text
//! partial           a part of a trace that is counted elsewhere, and how parts are merged
//! exact_quantiles   the second pass, for exact quantiles
//! training          trainers, their readers, and how long trainers wait
//! devices           GPUs, and the waits that their work hides
//! analysis          everything that was counted
//! groups/           threads and processes compared with one another
//! count/            each event, seen once
//! waits/            who ended each wait of a trainer, and its cause
//! tree              the tree of processes, and their names
//! time/  files/     intervals of time; access to files
//! figures/          quantiles and units
//! ```
//!
//! SQL over the same events gives the same numbers, and `--show-sql` prints it.

pub mod analysis;
pub mod count;
pub mod devices;
pub mod exact_quantiles;
pub mod figures;
pub mod files;
pub mod groups;
pub mod partial;
pub mod report;
pub mod time;
pub mod training;
pub mod tree;
pub mod waits;
pub mod wording;

use crate::batch::Wanted;
use crate::filter::Filter;
use crate::load::{NAMES_TOGETHER, Trace};
use crate::scan::{Both, Consumer, Progress, scan, scan_some};
use crate::unit::Unit;
use analysis::Analysis;
use count::counted::Counted;
use count::counter::{Counter, LENGTHS_MAX, Lengths};
use count::tally::Tallies;
use groups::shared_sweep::{Measured, SharedSweep};
use report::files::FILES_LISTED;
use waits::trainers::Waits;

/// Counts all events that pass a filter.
pub fn analyse(trace: &Trace, filter: &Filter, threads: usize, progress: &Progress) -> std::io::Result<Analysis> {
    analyse_beside(trace, filter, Wanted::default(), (threads, progress), || ()).map(|(analysis, _)| analysis)
}

/// Counts all events that pass a filter, and passes them to further consumers, one per thread, with what these want.
pub fn analyse_beside<C: Consumer>(
    trace: &Trace,
    filter: &Filter,
    wanted: Wanted,
    (threads, progress): (usize, &Progress),
    other: impl Fn() -> C + Sync,
) -> std::io::Result<(Analysis, Vec<C>)> {
    let sweep = SharedSweep::new(&trace.catalog);
    let sieve = trace.sieve(filter);
    let tallies = Tallies::open(trace, filter, &sieve);
    sweep.add(tallies.intervals());
    let both = || Both(Counter::new(&trace.catalog, &sweep).within(filter).keeping_lengths(), other());
    let both = scan(trace, &sieve, wanted, threads, progress, both)?;
    let (mut counters, others): (Vec<_>, Vec<_>) =
        both.into_iter().map(|Both(counter, other)| (counter, other)).unzip();
    if trace.catalog.lacks_names() {
        trace.remark(NAMES_TOGETHER);
    }
    let lengths: Option<Vec<_>> = counters.iter_mut().map(Counter::take_lengths).collect();
    // The first part's tables are shared: those of 100,000 files are not copied for a query on a few events.
    let mut parts = counters.into_iter().map(|counter| counter.counted);
    let mut counted = parts.next().unwrap_or_default();
    parts.for_each(|part| counted.merge(part));
    let mut measured = sweep.finish(&trace.catalog);
    if let Some(waits) = waits_in_window(trace, filter, (threads, progress), |_| true)? {
        measured.waits = waits;
    }
    Ok((concluded(trace, filter, (counted, lengths), tallies, measured), others))
}

/// Returns the waits in the window of a filter, explained by the events of whole runs: the cause of a wait may be older than
/// the window. `None` if the filter has no window, or if whole runs have too many waits to explain.
fn waits_in_window(
    trace: &Trace,
    filter: &Filter,
    (threads, progress): (usize, &Progress),
    takes: impl Fn(&Unit) -> bool + Sync,
) -> std::io::Result<Option<Waits>> {
    if !filter.cuts_runs() {
        return Ok(None);
    }
    let whole = filter.without_window();
    let (sweep, sieve) = (SharedSweep::new(&trace.catalog), trace.sieve(&whole));
    let counter = || Counter::new(&trace.catalog, &sweep);
    scan_some(trace, &sieve, Wanted::default(), threads, progress, takes, counter)?;
    Ok(Some(sweep.finish_waits(&trace.catalog, filter)).filter(|waits| !waits.is_cut))
}

/// Returns the analysis of complete counts.
fn concluded(
    trace: &Trace,
    filter: &Filter,
    (mut counted, lengths): (Counted, Option<Vec<Lengths>>),
    tallies: Tallies,
    mut measured: Measured,
) -> Analysis {
    let tally = tallies.add_to(&mut counted, &trace.catalog);
    counted.finish(&trace.catalog.aliases(), &trace.catalog.files());
    counted.devices.unite();
    devices::hide(&mut measured.waits, &counted, &trace.catalog.processes());
    let mut analysis =
        Analysis { filter: filter.clone(), counted, measured, tally, durations: None, files_listed: FILES_LISTED };
    // Independent of how much each thread could keep: a trace gives identical numbers on every host.
    if let Some(lengths) = lengths.filter(|_| analysis.events() <= LENGTHS_MAX as u64) {
        exact_quantiles::refine_by(&lengths, &mut analysis);
    }
    analysis
}
