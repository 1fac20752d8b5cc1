//! Explains why the filters select no events: names the filters, and what the trace contains instead.

use std::sync::Arc;

use dlio_schemas::ops::Layer;
use dlio_schemas::words::nearest;
use glob::Pattern;

use super::failure::Failure;
use crate::batch::{Batch, Columns, Wanted};
use crate::catalog::Kind;
use crate::command::progress;
use crate::command::question::Question;
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::{Consumer, scan};
use crate::summary::analyse;
use crate::summary::count::counted::kind_of;
use crate::summary::figures::units::{many, moment, time};
use crate::summary::report::damage::DamageNote;
use crate::summary::report::verdict::{UNKNOWN, all_lost, unknown};

/// The number of elements shown of longer lists.
const SHOWN: usize = 8;

/// Returns a sentence for a trace whose events all fail the filter. Rejects a category that neither the trace nor the
/// tracer has.
pub fn reason(question: &Question, trace: &Trace, filter: &Filter) -> Result<String, Failure> {
    let all = all(question, trace)?;
    let categories = categories(&all, trace);
    let has = |wanted: &str| categories.iter().any(|known| known.eq_ignore_ascii_case(wanted));
    let is_layer = |wanted: &str| Layer::ALL.iter().any(|layer| layer.name().eq_ignore_ascii_case(wanted));
    let Some((first, last)) = all.bounds else { return Ok(of_an_empty_trace(trace)) };
    match filter.cats.iter().find(|cat| !has(cat) && !is_layer(cat)) {
        Some(unknown) => Err(Failure::Window(format!(
            "no event has the category {unknown} (--cat); the trace has {}",
            categories.join(", ")
        ))),
        None => unknown_call(filter, &all, trace).map_or_else(
            || Ok(sentence(filter, trace, &all, (first, last), &categories)),
            |why| Err(Failure::Window(why)),
        ),
    }
}

/// Explains that the trace has no event of a name of `--call`.
fn unknown_call(filter: &Filter, all: &All, trace: &Trace) -> Option<String> {
    let names = names_of(all, trace, |kind| &kind.name);
    let unknown = filter.calls.iter().find(|call| !names.iter().any(|name| name.eq_ignore_ascii_case(call)))?;
    let meant = nearest(unknown, names.iter().map(String::as_str));
    let meant = meant.map_or(".".into(), |meant| format!("; did you mean {meant}?"));
    let more = names.len().saturating_sub(SHOWN_NAMES);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = names[..names.len().min(SHOWN_NAMES)].join(", ");
    Some(format!("no event has the name {unknown} (--call){meant} The trace has {names}{rest}"))
}

/// The number of names shown of longer lists.
const SHOWN_NAMES: usize = 20;

/// A short description of all events.
#[derive(Default)]
struct All {
    events: u64,
    /// The number of events that were counted, not recorded.
    counted: u64,
    bounds: Option<(i64, i64)>,
    /// Whether events of a kind exist, by the kind's number.
    kinds: Vec<bool>,
}

impl All {
    fn add(&mut self, kind: u32) {
        let kind = kind as usize;
        self.kinds.resize(self.kinds.len().max(kind + 1), false);
        self.kinds[kind] = true;
    }

    fn and(mut self, other: All) -> All {
        let kinds = (0u32..).zip(&other.kinds).filter(|(_, is)| **is);
        kinds.for_each(|(kind, _)| self.add(kind));
        let bounds = [self.bounds, other.bounds].into_iter().flatten();
        let bounds = bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        All { events: self.events + other.events, bounds, ..self }
    }
}

impl Consumer for All {
    fn batch(&mut self, batch: &mut Batch) {
        self.events += batch.len() as u64;
        batch.kind.iter().for_each(|kind| self.add(*kind));
        let first = batch.ts.iter().copied().min();
        let last = batch.ts.iter().zip(&batch.dur).map(|(ts, dur)| ts.saturating_add(*dur)).max();
        let bounds = [self.bounds, first.zip(last)].into_iter().flatten();
        self.bounds = bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    }

    fn part_done(&mut self, _: usize, _: i64) {}
}

/// Reads only times and kinds, which is much cheaper than a count. A trace that contains counts has to be counted.
fn all(question: &Question, trace: &Trace) -> Result<All, Failure> {
    let (filter, threads) = (Filter::default(), question.threads);
    if trace.sources.iter().any(|source| source.tally(&trace.catalog).is_some()) {
        let all = progress::reading(question, trace, |progress| analyse(trace, &filter, threads, progress))?;
        let counted = all.tally.as_ref().map_or(0, |tally| tally.events);
        let of_all = All { events: all.events(), counted, bounds: all.bounds(), kinds: Vec::new() };
        let rows = (0u32..).zip(&all.counted.kinds).filter(|(_, count)| count.durations.count > 0);
        return Ok(rows.fold(of_all, |mut of_all, (row, _)| {
            of_all.add(kind_of(row).0);
            of_all
        }));
    }
    let wanted = Wanted { columns: Columns::TS.and(Columns::DUR), ..Wanted::default() };
    let sieve = trace.sieve(&filter);
    let read = |progress: &_| scan(trace, &sieve, wanted, threads, progress, All::default);
    let parts = progress::reading(question, trace, read)?;
    Ok(parts.into_iter().fold(All::default(), All::and))
}

/// Explains why a trace does not contain any events.
pub fn of_an_empty_trace(trace: &Trace) -> String {
    let notes: Vec<_> = trace.notes.lock().expect("notes").iter().map(DamageNote::of).collect();
    match lost(trace) {
        0 if unknown(&notes) => UNKNOWN.into(),
        0 => "The trace contains no events: the program made no calls that are traced.".into(),
        lost => all_lost(lost, &notes),
    }
}

/// Returns the number of lost events of all processes, which are not in any file.
pub fn lost(trace: &Trace) -> u64 {
    trace.catalog.processes().iter().map(|process| process.lost.saturating_sub(process.aggregated)).sum()
}

fn sentence(filter: &Filter, trace: &Trace, all: &All, (first, last): (i64, i64), categories: &[String]) -> String {
    let processes = trace.catalog.processes();
    let ranks = numbers(processes.iter().filter_map(|process| process.rank));
    let ranks = if ranks.is_empty() { "no process has a rank".into() } else { format!("ranks {ranks}") };
    // Only facts about what the filters select.
    let facts = [
        (!filter.cats.is_empty(), format!("categories {}", categories.join(", "))),
        (!filter.pids.is_empty(), format!("process ids {}", numbers(processes.iter().map(|process| process.pid)))),
        (!filter.ranks.is_empty(), ranks),
        (
            filter.from.is_some() || filter.to.is_some(),
            format!("it starts at {} and lasts {}", moment(first), time((last - first) as f64)),
        ),
    ];
    let facts: String = facts.into_iter().filter(|(is, _)| *is).map(|(_, fact)| format!("; {fact}")).collect();
    let counted = if all.counted > 0 {
        format!(
            " {}, which only --pid and --rank can select.",
            many(all.counted, "event is a count", "events are counts")
        )
    } else {
        String::new()
    };
    format!(
        "no event matches the filters ({}). The trace has {}{facts}.{counted}{}",
        filters(filter).join(", "),
        many(all.events, "event", "events"),
        of_files(&filter.files, &trace.catalog.files()),
    )
}

/// Suggests a value for `--file` if its patterns do not match any file of the trace.
fn of_files(patterns: &[Pattern], files: &[Arc<str>]) -> String {
    let fits =
        |patterns: &[Pattern]| files.iter().filter(|file| patterns.iter().any(|pattern| pattern.matches(file))).count();
    if patterns.is_empty() || fits(patterns) > 0 {
        return String::new();
    }
    let from_anywhere =
        |pattern: &Pattern| Pattern::new(&format!("*/{}", pattern.as_str().trim_start_matches("./"))).ok();
    let looser: Vec<Pattern> = patterns.iter().filter_map(from_anywhere).collect();
    let spelled = |patterns: &[Pattern]| {
        patterns.iter().map(|pattern| format!("--file '{pattern}'")).collect::<Vec<_>>().join(" ")
    };
    let paths: Vec<_> =
        files.iter().filter(|file| file.starts_with('/')).take(SHOWN_PATHS).map(|file| file.to_string()).collect();
    let example = match fits(&looser) {
        0 => format!(", such as {}", paths.join(", ")),
        found => format!(": {} has {}", spelled(&looser), many(found as u64, "file", "files")),
    };
    format!(" --file is matched against the whole path{}.", if paths.is_empty() { String::new() } else { example })
}

const SHOWN_PATHS: usize = 3;

/// Returns the categories of the trace's events.
fn categories(all: &All, trace: &Trace) -> Vec<String> {
    names_of(all, trace, |kind| &kind.cat)
}

/// Returns the distinct names or categories of the trace's events.
fn names_of(all: &All, trace: &Trace, name: impl Fn(&Kind) -> &str) -> Vec<String> {
    let kinds = trace.catalog.kinds();
    let used = kinds.iter().zip(&all.kinds).filter(|(_, is)| **is);
    let mut names: Vec<_> = used.map(|(kind, _)| name(kind).to_string()).collect();
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

/// Returns the options that set the filter. Without `--run`, the last run was the default.
fn filters(filter: &Filter) -> Vec<&'static str> {
    let typed = [
        ("one of several runs: --run", filter.run.is_some()),
        ("--from", filter.from.is_some()),
        ("--to", filter.to.is_some()),
        ("--pid", !filter.pids.is_empty()),
        ("--rank", !filter.ranks.is_empty()),
        ("--file", !filter.files.is_empty()),
        ("--cat", !filter.cats.is_empty()),
        ("--call", !filter.calls.is_empty()),
        ("--min-dur", filter.min_dur_ns > 0),
    ];
    typed.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
}
