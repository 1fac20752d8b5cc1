//! The events of a process that a filter selects.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;

use dlio_schemas::clock::Clock;
use dlio_schemas::export::forget_unnamed;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::{Fields, key};
use dlio_schemas::native::names::Names;
use dlio_schemas::native::ring::OpenSpan;
use dlio_schemas::ops::{Layer, Op};
use dlio_schemas::record::{Record, word};

use crate::filter::Filter;
use crate::load::recorded::Recorded;
use crate::scan::Progress;

/// Returns `true` if any event of a process may pass.
pub(super) fn asks_for(filter: &Filter, fields: &Fields) -> bool {
    let pid = fields.number(key::PID).unwrap_or(0);
    filter.takes_process(pid, fields.number(key::RANK))
}

/// Returns the spans that never ended and pass: they reach to the end of the run.
pub(super) fn open_spans(filter: &Filter, process: &Recorded) -> Vec<OpenSpan> {
    let selection = Selection::new(filter, &process.clock);
    let passes = |span: &&OpenSpan| {
        let begin = process.clock.boot_ns(span.start);
        let category = process.names.text(span.category).unwrap_or("app".into());
        filter.files.is_empty()
            && filter.takes_category(&category)
            && filter.takes_call(&process.names.text(span.name).unwrap_or_default())
            && process.last_ns >= selection.from_ns
            && begin < selection.to_ns
            && process.last_ns.saturating_sub(begin) >= selection.min_dur_ns
    };
    process.open_spans.iter().filter(passes).cloned().collect()
}

/// Passes on the events that pass, a batch of one thread at a time, in nanoseconds.
pub(super) fn events(
    filter: &Filter,
    process: &Recorded,
    progress: &Progress,
    take: &mut dyn FnMut(u32, &Events) -> io::Result<()>,
) -> io::Result<()> {
    let mut selection = Selection::new(filter, &process.clock);
    let mut selected = Events::default();
    process.each(&mut |tid, events| {
        selection.select(tid, events, &process.clock, &process.names, &mut selected);
        progress.events.fetch_add(events.len() as u64, Ordering::Relaxed);
        forget_unnamed(&mut selected, &process.names);
        take(tid, &selected)
    })
}

/// Calls that connect threads and processes.
const RELATIONS: [Op; 9] =
    [Op::SOCKETPAIR, Op::CONNECT, Op::ACCEPT, Op::ACCEPT4, Op::FORK, Op::VFORK, Op::CLONE, Op::POSIX_SPAWN, Op::KILL];

/// A [`Filter`] applied to one process, in its own time. Keeps the metadata that belongs to a later span, by thread.
struct Selection<'f> {
    filter: &'f Filter,
    /// Boot time; an event that extends into the window is kept whole. One that only touches it is outside.
    from_ns: u64,
    to_ns: u64,
    /// Shorter events are left out; instants and counters have no length.
    min_dur_ns: u64,
    files: BTreeMap<u32, bool>,
    categories: BTreeMap<(u32, bool), bool>,
    calls: BTreeMap<(u32, bool), bool>,
    waiting: BTreeMap<u32, Vec<Record>>,
}

impl<'f> Selection<'f> {
    fn new(filter: &'f Filter, clock: &Clock) -> Selection<'f> {
        let boot = |unix: i64| unix.saturating_sub(clock.real_offset_ns).max(0) as u64;
        let (files, categories, calls, waiting) = Default::default();
        Selection {
            filter,
            from_ns: filter.from.map_or(0, boot),
            to_ns: filter.to.map_or(u64::MAX, boot),
            min_dur_ns: filter.min_dur_ns.max(0) as u64,
            files,
            categories,
            calls,
            waiting,
        }
    }

    /// Replaces `into` by the events that pass, in nanoseconds.
    fn select(&mut self, tid: u32, events: &Events, clock: &Clock, names: &Names, into: &mut Events) {
        into.clear();
        let mut waiting = self.waiting.remove(&tid).unwrap_or_default();
        for i in 0..events.len() {
            let record = in_nanoseconds(events, i, clock);
            if record.op() == Op::META {
                waiting.push(record);
            } else if self.keeps(&record, names) {
                waiting.drain(..).for_each(|meta| into.push(&meta));
                into.push(&record);
            } else {
                waiting.clear();
            }
        }
        self.waiting.insert(tid, waiting);
    }

    fn keeps(&mut self, record: &Record, names: &Names) -> bool {
        let begin = record.start;
        let end = begin.saturating_add(record.duration().max(1));
        let reaches_in = begin < self.to_ns && end > self.from_ns;
        let is_long = record.op() == Op::LOST || record.duration() >= self.min_dur_ns;
        let is_wanted = self.asks_for_category(record, names) && self.asks_for_call(record, names);
        let is_relation = self.filter.relations && RELATIONS.contains(&record.op());
        is_relation || reaches_in && is_long && is_wanted && self.asks_for_file(record, names)
    }

    fn asks_for_category(&mut self, record: &Record, names: &Names) -> bool {
        if self.filter.cats.is_empty() {
            return true;
        }
        let named = names_itself(record.op()) && record.fd > 0;
        let layer = record.op().info().map_or(Layer::App, |info| info.layer);
        let key = if named { record.fd as u32 } else { layer as u32 };
        *self.categories.entry((key, named)).or_insert_with(|| {
            let name = if named { names.text(key).unwrap_or_default() } else { layer.name().into() };
            self.filter.takes_category(&name)
        })
    }

    fn asks_for_call(&mut self, record: &Record, names: &Names) -> bool {
        if self.filter.calls.is_empty() {
            return true;
        }
        let op = record.op();
        let key = if names_itself(op) { (record.file, true) } else { (u32::from(op.0), false) };
        *self.calls.entry(key).or_insert_with(|| match names_itself(op) {
            true => self.filter.takes_call(&names.text(record.file).unwrap_or_default()),
            false => op.info().is_some_and(|info| self.filter.takes_call(info.name)),
        })
    }

    fn asks_for_file(&mut self, record: &Record, names: &Names) -> bool {
        if self.filter.files.is_empty() {
            return true;
        }
        let takes = |path: &[u8]| self.filter.takes_path(&String::from_utf8_lossy(path));
        // An event with its own name has no file; the field contains the name.
        !names_itself(record.op())
            && *self
                .files
                .entry(record.file)
                .or_insert_with(|| names.get(record.file).is_some_and(|(_, path)| takes(path)))
    }
}

fn names_itself(op: Op) -> bool {
    matches!(op, Op::SPAN | Op::INSTANT | Op::COUNTER)
}

/// Returns one event of a batch, its times in nanoseconds of boot time.
pub(super) fn in_nanoseconds(events: &Events, i: usize, clock: &Clock) -> Record {
    let start = clock.boot_ns(events.start[i]);
    let end = clock.boot_ns(events.start[i].saturating_add(events.duration[i]));
    Record {
        word: word(Op(events.op[i]), events.depth[i], events.known[i], end.saturating_sub(start)),
        start,
        file: events.file[i],
        fd: events.fd[i],
        a: events.a[i],
        b: events.b[i],
        ret: events.ret[i],
    }
}

#[cfg(test)]
mod tests {
    use dlio_schemas::native::names::NameKind;

    use super::*;

    fn call(op: Op, start: u64, duration: u64, depth: u8) -> Record {
        Record { word: word(op, depth, true, duration), start, file: 1, fd: 3, a: 0, b: 10, ret: 10 }
    }

    fn events(records: &[Record]) -> Events {
        let mut events = Events::default();
        records.iter().for_each(|record| events.push(record));
        events
    }

    fn names() -> Names {
        let mut names = Names::default();
        names.push(NameKind::Path, b"/data/a");
        names.push(NameKind::Category, b"train");
        names.push(NameKind::Path, b"/tmp/b");
        names
    }

    fn selected(filter: &Filter, records: &[Record]) -> Vec<(u16, u64)> {
        let clock = Clock::nanoseconds(0);
        let mut into = Events::default();
        Selection::new(filter, &clock).select(7, &events(records), &clock, &names(), &mut into);
        into.op.iter().copied().zip(into.start.iter().copied()).collect()
    }

    #[test]
    fn events_overlapping_the_window_are_kept() {
        let filter = Filter { from: Some(100), to: Some(200), ..Filter::default() };
        let records =
            [(0, 100), (0, 101), (150, 10), (0, 1000), (199, 5), (200, 5)].map(|(s, d)| call(Op::READ, s, d, 0));
        let kept: Vec<_> = selected(&filter, &records).iter().map(|(_, start)| *start).collect();
        assert_eq!(kept, [0, 150, 0, 199]);
    }

    #[test]
    fn selection_keeps_metadata_with_its_span() {
        let span = Record { fd: 2, ..call(Op::SPAN, 50, 1, 0) };
        let other = Record { file: 3, ..call(Op::READ, 60, 500, 0) };
        let records = [call(Op::META, 0, 0, 0), span, call(Op::READ, 55, 500, 0), other, call(Op::FREAD, 70, 500, 0)];
        let (meta, span_op, read) = (Op::META.0, Op::SPAN.0, Op::READ.0);
        let file = Filter { files: vec![glob::Pattern::new("/data/a").unwrap()], ..Filter::default() };
        assert_eq!(selected(&file, &records), [(read, 55), (Op::FREAD.0, 70)]);
        let long = Filter { min_dur_ns: 2, ..Filter::default() };
        assert_eq!(selected(&long, &records), [(read, 55), (read, 60), (Op::FREAD.0, 70)]);
        let train = Filter { cats: vec!["Train".into()], ..Filter::default() };
        assert_eq!(selected(&train, &records), [(meta, 0), (span_op, 50)]);
        let read_only = Filter { calls: vec!["read".into()], ..Filter::default() };
        assert_eq!(selected(&read_only, &records), [(read, 55), (read, 60)]);
        let posix = Filter { cats: vec!["posix".into()], ..Filter::default() };
        assert_eq!(selected(&posix, &records), [(read, 55), (read, 60)]);
    }
}
