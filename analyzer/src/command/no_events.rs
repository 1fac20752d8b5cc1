//! The answer where no event passes the filters: which filters, and what there is instead.

use dlio_schemas::ops::Layer;

use super::arguments::Arguments;
use super::failure::Failure;
use super::input::analysed;
use crate::load::Trace;
use crate::summary::analyse;
use crate::summary::analysis::Analysis;
use crate::summary::report::verdict::all_lost;
use crate::summary::units::{many, moment, time};

/// Of longer lists the beginning is shown.
const SHOWN: usize = 8;

/// A sentence for a trace of which nothing passes. A category that neither the trace nor the tracer has is an error.
pub fn reason(arguments: &Arguments, trace: &Trace) -> Result<String, Failure> {
    let all =
        analysed(arguments, trace, |progress| analyse(trace, &Default::default(), arguments.threads(), progress))?;
    let categories = categories(&all, trace);
    let has = |wanted: &str| categories.iter().any(|known| known.eq_ignore_ascii_case(wanted));
    let is_layer = |wanted: &str| Layer::ALL.iter().any(|layer| layer.name().eq_ignore_ascii_case(wanted));
    let Some((first, last)) = all.bounds() else { return Ok(of_an_empty_trace(trace)) };
    match arguments.cat.iter().find(|cat| !has(cat) && !is_layer(cat)) {
        Some(unknown) => Err(Failure::Window(format!(
            "no event has the category {unknown} (--cat); the trace has {}",
            categories.join(", ")
        ))),
        None => Ok(sentence(arguments, trace, &all, (first, last), &categories)),
    }
}

/// Why a trace holds no events at all.
pub fn of_an_empty_trace(trace: &Trace) -> String {
    match lost(trace) {
        0 => "The trace holds no events: nothing that is traced happened.".into(),
        lost => all_lost(lost),
    }
}

/// Events of all processes that happened and are in no file.
pub fn lost(trace: &Trace) -> u64 {
    trace.catalog.processes().iter().map(|process| process.lost.saturating_sub(process.aggregated)).sum()
}

fn sentence(
    arguments: &Arguments,
    trace: &Trace,
    all: &Analysis,
    (first, last): (i64, i64),
    categories: &[String],
) -> String {
    let processes = trace.catalog.processes();
    let ranks = numbers(processes.iter().filter_map(|process| process.rank));
    let ranks = if ranks.is_empty() { String::new() } else { format!("; ranks {ranks}") };
    let counted = all.tally.as_ref().map_or(0, |tally| tally.events);
    let counted = if counted > 0 {
        format!(
            " {}, which only --pid and --rank can choose from.",
            many(counted, "event is a count", "events are counts")
        )
    } else {
        String::new()
    };
    format!(
        "No event passes the filters ({}). The trace has {} of {}; process ids {}{ranks}; it begins at {} and takes {}.{counted}",
        filters(arguments).join(", "),
        many(all.events(), "event", "events"),
        categories.join(", "),
        numbers(processes.iter().map(|process| process.pid)),
        moment(first),
        time((last - first) as f64),
    )
}

/// Categories that events of the trace have.
fn categories(all: &Analysis, trace: &Trace) -> Vec<String> {
    let kinds = trace.catalog.kinds();
    let mut names: Vec<_> = all.rows(&kinds).map(|(_, kind, _)| kind.cat.to_string()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn numbers(numbers: impl Iterator<Item = i32>) -> String {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut shown: Vec<_> = numbers.iter().take(SHOWN).map(i32::to_string).collect();
    if numbers.len() > SHOWN {
        shown.push(format!("{} more", numbers.len() - SHOWN));
    }
    shown.join(", ")
}

/// The filters that were typed.
fn filters(arguments: &Arguments) -> Vec<&'static str> {
    let typed = [
        ("--from", arguments.from.is_some()),
        ("--to", arguments.to.is_some()),
        ("--pid", !arguments.pid.is_empty()),
        ("--rank", !arguments.rank.is_empty()),
        ("--file", !arguments.file.is_empty()),
        ("--cat", !arguments.cat.is_empty()),
        ("--min-dur", arguments.min_dur.is_some()),
    ];
    typed.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
}
