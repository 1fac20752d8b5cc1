//! The part of a process that a filter asks for.

use std::io;
use std::sync::atomic::Ordering;

use dlio_schemas::export::forget_unnamed;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::{Fields, key};
use dlio_schemas::native::ring::OpenSpan;

use super::select::{self, Selection, TakesPath};
use crate::filter::Filter;
use crate::load::recorded::Recorded;
use crate::scan::Progress;

/// True if any event of a process may be asked for.
pub(super) fn asks_for(filter: &Filter, fields: &Fields) -> bool {
    let pid = fields.number(key::PID).unwrap_or(0);
    filter.takes_process(pid, fields.number(key::RANK))
}

/// The filter in the process's own time.
fn in_own_time(filter: &Filter, process: &Recorded) -> select::Filter {
    let boot = |unix: i64| unix.saturating_sub(process.clock.real_offset_ns).max(0) as u64;
    select::Filter {
        from_ns: filter.from.map_or(0, boot),
        to_ns: filter.to.map_or(u64::MAX, boot),
        min_dur_ns: filter.min_dur_ns.max(0) as u64,
        categories: filter.cats.clone(),
    }
}

/// Spans that never ended, as far as they are asked for: they reach to the end of the run.
pub(super) fn open_spans(filter: &Filter, process: &Recorded) -> Vec<OpenSpan> {
    let own = in_own_time(filter, process);
    let ends_in = process.last_ns >= own.from_ns;
    let asked_for = |span: &&OpenSpan| {
        let begin = process.clock.boot_ns(span.start);
        let category = process.names.text(span.category).unwrap_or("app".into());
        let named = filter.cats.is_empty() || filter.cats.iter().any(|cat| cat.eq_ignore_ascii_case(&category));
        filter.files.is_empty()
            && named
            && ends_in
            && begin < own.to_ns
            && process.last_ns.saturating_sub(begin) >= own.min_dur_ns
    };
    process.open_spans.iter().filter(asked_for).cloned().collect()
}

/// Hands on the events that are asked for, a batch of one thread at a time, in nanoseconds.
pub(super) fn events(
    filter: &Filter,
    process: &Recorded,
    progress: &Progress,
    take: &mut dyn FnMut(u32, &Events) -> io::Result<()>,
) -> io::Result<()> {
    let own = in_own_time(filter, process);
    let matches = |path: &[u8]| filter.files.iter().any(|glob| glob.matches(&String::from_utf8_lossy(path)));
    let file: Option<TakesPath> = if filter.files.is_empty() { None } else { Some(&matches) };
    let mut selection = Selection::new(&own, file);
    let mut selected = Events::default();
    process.each(&mut |tid, events| {
        selection.select(tid, events, &process.clock, &process.names, &mut selected);
        progress.events.fetch_add(events.len() as u64, Ordering::Relaxed);
        forget_unnamed(&mut selected, &process.names);
        take(tid, &selected)
    })
}
