//! Reduces too many events to an overview.
//!
//! A browser can display about a million slices. [`Overview`] merges runs of short calls of a thread into one slice
//! with their number, so that long calls remain unchanged:
//!
//! ```text
//! before   |r|r|r|w|r|   |===== read =====|  |r|r|
//! after    |  5 calls |  |===== read =====|  |2 reads|
//! ```
//!
//! It takes and returns batches of one thread in order, in nanoseconds of boot time, to be written with
//! [`Clock::nanoseconds`].

use dlio_schemas::clock::Clock;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::names::{NameKind, Names};
use dlio_schemas::ops::{Class, Op, Ret};
use dlio_schemas::record::{MetaKind, Record, STEP_NONE, pack_steps, word};

use super::selection::in_nanoseconds;

/// The number of slices above which viewers become slow; an overview is made beyond it.
pub const EVENTS_MAX: u64 = 1_000_000;

/// Steps per doubling of the length: with coarser steps, a few long calls too many would force all calls of a step into
/// merged slices.
const STEPS: usize = 4;

/// The number of events of each length, from which the threshold of an overview is chosen.
#[derive(Clone, Debug)]
pub struct Lengths {
    by_step: [u64; 64 * STEPS],
}

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths { by_step: [0; 64 * STEPS] }
    }
}

impl Lengths {
    pub fn add(&mut self, duration_ns: u64) {
        self.by_step[step_of(duration_ns)] += 1;
    }

    pub fn total(&self) -> u64 {
        self.by_step.iter().sum()
    }

    /// Returns the smallest length at which a step starts and that at most `room` events reach.
    pub fn threshold_ns(&self, room: u64) -> u64 {
        let mut longer = 0;
        for (step, count) in self.by_step.iter().enumerate().rev() {
            longer += count;
            if longer > room {
                return begin_of(step + 1);
            }
        }
        0
    }
}

/// Returns the power of two below a length, and its quarter. Lengths too short for quarters count as the shortest that
/// is not.
fn step_of(ns: u64) -> usize {
    let ns = ns.max(STEPS as u64);
    let power = ns.ilog2() as usize;
    power * STEPS + (ns >> (power - 2)) as usize % STEPS
}

fn begin_of(step: usize) -> u64 {
    let (power, quarter) = (step / STEPS, step % STEPS);
    if power < 64 { ((STEPS + quarter) as u64) << (power - 2) } else { u64::MAX }
}

/// Which events an overview merges. A quarter of the slices is for events that are kept. Each of them may split a run
/// of short ones, which takes another quarter; half is for the time intervals of all threads. So at most [`EVENTS_MAX`]
/// slices remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeThreshold {
    /// Events shorter than this are merged.
    pub threshold_ns: u64,
    /// Events merged into one slice start within one interval of this length.
    pub stretch_ns: u64,
}

impl MergeThreshold {
    /// Returns `None` if everything fits.
    pub fn choose(lengths: &Lengths, threads: u64, run_ns: u64, events_max: u64) -> Option<MergeThreshold> {
        if lengths.total() <= events_max {
            return None;
        }
        let stretches = (events_max / 2 / threads.max(1)).max(1);
        let stretch_ns = run_ns.div_ceil(stretches).max(1);
        Some(MergeThreshold { threshold_ns: lengths.threshold_ns(events_max / 4), stretch_ns })
    }

    /// Returns the note in the trace.
    pub fn remark(&self, events: u64) -> String {
        format!("overview of {events} events: calls shorter than {} are merged", duration(self.threshold_ns))
    }
}

fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// Names that an overview needs among those of a process.
#[derive(Clone, Copy, Debug)]
pub struct OverviewNames {
    slice: u32,
    category: u32,
    calls: u32,
    busy_ns: u32,
    read: u32,
    written: u32,
}

impl OverviewNames {
    pub fn add(names: &mut Names) -> OverviewNames {
        let mut text = |text: &str| names.push(NameKind::Text, text.as_bytes());
        let [calls, busy_ns, read, written] = ["calls", "busy_ns", "bytes_read", "bytes_written"].map(&mut text);
        OverviewNames {
            slice: names.push(NameKind::Span, b"calls"),
            category: names.push(NameKind::Category, b"overview"),
            calls,
            busy_ns,
            read,
            written,
        }
    }
}

/// Merges the short events of one thread. Pass it all batches, then call [`Overview::finish`].
pub struct Overview {
    coarseness: MergeThreshold,
    names: OverviewNames,
    /// Runs that may still grow, the deeper ones later.
    runs: Vec<Run>,
    waiting: Vec<Record>,
}

/// Events that became one slice.
struct Run {
    depth: u8,
    begin: u64,
    end: u64,
    stretch: u64,
    calls: u64,
    busy_ns: u64,
    read: u64,
    written: u64,
    /// The first event and its metadata, written unchanged if no other joins it.
    alone: Vec<Record>,
    /// The operation, as long as all events share it.
    op: Option<Op>,
    /// The file, as long as all events share it.
    file: u32,
}

impl Overview {
    pub fn new(coarseness: MergeThreshold, names: OverviewNames) -> Overview {
        Overview { coarseness, names, runs: Vec::new(), waiting: Vec::new() }
    }

    /// Adds the slices that these events complete to `into`; events are in nanoseconds.
    pub fn merge(&mut self, events: &Events, into: &mut Events) {
        let clock = Clock::nanoseconds(0);
        for i in 0..events.len() {
            let record = in_nanoseconds(events, i, &clock);
            if record.op() == Op::META {
                self.waiting.push(record);
                continue;
            }
            let is_moment = matches!(record.op(), Op::INSTANT | Op::COUNTER | Op::LOST);
            if is_moment || record.duration() >= self.coarseness.threshold_ns {
                if !is_moment {
                    self.write_runs(into);
                }
                self.waiting.drain(..).for_each(|meta| into.push(&meta));
                into.push(&record);
            } else {
                self.absorb(record, into);
            }
        }
    }

    pub fn finish(&mut self, into: &mut Events) {
        self.write_runs(into);
    }

    /// Writes every run. A deeper one is never written without those above it, which ended before it started: events
    /// must remain in the order of their ends.
    fn write_runs(&mut self, into: &mut Events) {
        let names = self.names;
        self.runs.drain(..).for_each(|run| run.write(&names, into));
    }

    /// Adds a short event to the previous run, or starts one; runs within it become part of it.
    fn absorb(&mut self, record: Record, into: &mut Events) {
        let mut run = Run::new(record, self.waiting.split_off(0), self.coarseness.stretch_ns);
        let inner = self.runs.partition_point(|other| other.depth <= run.depth);
        if self.runs[inner..].iter().any(|other| other.begin < run.begin) {
            self.write_runs(into);
        }
        self.runs.drain(inner.min(self.runs.len())..).for_each(|inner| run.take_in(&inner));
        match self.runs.last_mut().filter(|last| last.depth == run.depth) {
            Some(last) if last.stretch == run.stretch && last.end <= run.begin => return last.append(&run),
            Some(_) => self.write_runs(into),
            None => (),
        }
        self.runs.push(run);
    }
}

impl Run {
    fn new(record: Record, mut alone: Vec<Record>, stretch_ns: u64) -> Run {
        let op = record.op();
        let contains_calls = op == Op::SPAN || op.info().is_some_and(|info| info.layer.is_library());
        let moved = op
            .info()
            .filter(|info| info.ret == Ret::Bytes && record.ret > 0 && !info.layer.is_library())
            .map(|info| info.class);
        let bytes = |class| if moved == Some(class) { record.ret as u64 } else { 0 };
        alone.push(record);
        Run {
            depth: record.depth(),
            begin: record.start,
            end: record.start + record.duration(),
            stretch: record.start / stretch_ns,
            // A span is not a call but contains calls, as does a call of a library.
            calls: !contains_calls as u64,
            busy_ns: if contains_calls { 0 } else { record.duration() },
            read: bytes(Class::Read),
            written: bytes(Class::Write),
            alone,
            op: Some(op),
            file: record.file,
        }
    }

    /// Appends a run that directly followed this one.
    fn append(&mut self, next: &Run) {
        self.op = self.op.filter(|_| self.op == next.op && self.op != Some(Op::SPAN));
        self.file = if self.file == next.file { self.file } else { 0 };
        self.count(next);
        self.end = next.end;
    }

    /// Adds a run within this one.
    fn take_in(&mut self, inner: &Run) {
        self.op = None;
        self.count(inner);
    }

    fn count(&mut self, other: &Run) {
        self.calls += other.calls;
        self.busy_ns += other.busy_ns;
        self.read += other.read;
        self.written += other.written;
        self.alone.clear();
    }

    fn write(self, names: &OverviewNames, into: &mut Events) {
        if !self.alone.is_empty() {
            self.alone.iter().for_each(|record| into.push(record));
            return;
        }
        let meta = |key, value: u64| Record {
            word: word(Op::META, 0, true, 0),
            start: self.begin,
            file: key,
            fd: MetaKind::Int as i32,
            a: value as i64,
            ..Record::default()
        };
        into.push(&meta(names.calls, self.calls));
        into.push(&meta(names.busy_ns, self.busy_ns));
        let length = self.end - self.begin;
        let Some(op) = self.op else {
            for (key, bytes) in [(names.read, self.read), (names.written, self.written)] {
                if bytes > 0 {
                    into.push(&meta(key, bytes));
                }
            }
            let a = pack_steps(STEP_NONE, STEP_NONE);
            let word = word(Op::SPAN, self.depth, true, length);
            let (file, fd) = (names.slice, names.category as i32);
            return into.push(&Record { word, start: self.begin, file, fd, a, ..Record::default() });
        };
        let bytes = (self.read + self.written) as i64;
        into.push(&Record {
            word: word(op, self.depth, false, length),
            start: self.begin,
            file: self.file,
            fd: -1,
            a: 0,
            b: bytes,
            ret: if op.info().is_some_and(|info| info.moves_bytes()) { bytes } else { 0 },
        });
    }
}

#[cfg(test)]
mod tests {
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

    fn merged(records: &[Record]) -> Events {
        let mut names = names();
        let coarseness = MergeThreshold { threshold_ns: 100, stretch_ns: 1000 };
        let mut overview = Overview::new(coarseness, OverviewNames::add(&mut names));
        let mut into = Events::default();
        overview.merge(&events(records), &mut into);
        overview.finish(&mut into);
        into
    }

    /// Returns operation, start, duration and result of everything except metadata.
    fn slices(events: &Events) -> Vec<(u16, u64, u64, i64)> {
        let slice = |i: usize| (events.op[i], events.start[i], events.duration[i], events.ret[i]);
        (0..events.len()).map(slice).filter(|slice| slice.0 != Op::META.0).collect()
    }

    #[test]
    fn short_calls_merge_and_long_ones_remain() {
        let found = merged(&[
            call(Op::READ, 10, 5, 0),
            call(Op::READ, 20, 5, 0),
            call(Op::READ, 30, 300, 0),
            call(Op::READ, 400, 5, 0),
            call(Op::WRITE, 410, 5, 0),
            call(Op::WRITE, 1010, 5, 0),
        ]);
        let (read, write, span) = (Op::READ.0, Op::WRITE.0, Op::SPAN.0);
        assert_eq!(slices(&found), [(read, 10, 15, 20), (read, 30, 300, 10), (span, 400, 15, 0), (write, 1010, 5, 10)]);
    }

    #[test]
    fn short_spans_take_their_calls_in() {
        let found = merged(&[
            call(Op::READ, 11, 5, 1),
            call(Op::SPAN, 10, 10, 0),
            call(Op::READ, 31, 5, 1),
            call(Op::SPAN, 30, 10, 0),
            call(Op::READ, 51, 5, 1),
            call(Op::SPAN, 50, 500, 0),
        ]);
        let span = Op::SPAN.0;
        assert_eq!(slices(&found), [(span, 10, 30, 0), (Op::READ.0, 51, 5, 10), (span, 50, 500, 10)]);
        let calls = found.op.iter().position(|&op| op == Op::META.0).unwrap();
        assert_eq!(found.a[calls], 2);
    }

    #[test]
    fn merged_slices_still_nest() {
        let mut random = 7u64;
        let mut records = Vec::new();
        let mut now = 0;
        for _ in 0..2000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (begin, inner) = (now, (random >> 60) % 4);
            now += 1 + (random >> 40) % 50;
            for _ in 0..inner {
                records.push(call(Op::READ, now, 1 + (random >> 30) % 200, 1));
                now += 250;
            }
            records.push(call(if inner > 0 { Op::SPAN } else { Op::WRITE }, begin, now - begin, 0));
            now += 1;
        }
        let found = merged(&records);
        let mut lanes = dlio_schemas::perfetto::lanes::Lanes::default();
        for i in (0..found.len()).filter(|&i| found.op[i] != Op::META.0) {
            let place = lanes.place(found.start[i], found.start[i] + found.duration[i], found.depth[i]);
            assert_eq!(place, dlio_schemas::perfetto::lanes::Placement::Track, "{i}");
        }
        assert!(slices(&found).len() < records.len());
    }

    #[test]
    fn an_overview_fits_its_room() {
        let mut lengths = Lengths::default();
        (0..3_000_000u64).for_each(|i| lengths.add(100 + i % 5000));
        assert_eq!(MergeThreshold::choose(&lengths, 8, 1_000_000_000, 4_000_000), None);
        let coarseness = MergeThreshold::choose(&lengths, 8, 1_000_000_000, 1_000_000).unwrap();
        assert_eq!(coarseness, MergeThreshold { threshold_ns: 5120, stretch_ns: 16_000 });
        assert_eq!(coarseness.remark(3_000_000), "overview of 3000000 events: calls shorter than 5.1 us are merged");
    }

    #[test]
    fn steps_of_lengths_begin_where_the_one_before_ends() {
        for ns in [4, 5, 7, 8, 9, 10, 1000, 4095, 4096, u64::MAX / 3, u64::MAX] {
            let step = step_of(ns);
            assert!(begin_of(step) <= ns && (ns < begin_of(step + 1) || ns == u64::MAX), "{ns}: {step}");
        }
        assert_eq!((step_of(0), begin_of(step_of(0))), (8, 4));
    }

    /// Returns the slices that remain of 40,000 calls of one thread, every `every`-th of them long, with a limit of
    /// 10,000.
    fn slices_left(every: u64) -> u64 {
        let length = |i: u64| if i.is_multiple_of(every) { 900 + i % 100 } else { 100 + i % 700 };
        let (mut lengths, mut records, mut now) = (Lengths::default(), Vec::new(), 0);
        for i in 0..40_000 {
            lengths.add(length(i));
            records.push(call(Op::READ, now, length(i), 0));
            now += length(i) + 1;
        }
        let coarseness = MergeThreshold::choose(&lengths, 1, now, 10_000).unwrap();
        let (mut names, mut into) = (names(), Events::default());
        let mut overview = Overview::new(coarseness, OverviewNames::add(&mut names));
        overview.merge(&events(&records), &mut into);
        overview.finish(&mut into);
        into.op.iter().filter(|&&op| op != Op::META.0).count() as u64
    }

    #[test]
    fn overview_with_split_runs_stays_within_limit() {
        for every in [2, 8, 17, 100] {
            let slices = slices_left(every);
            assert!((1_000..=10_000).contains(&slices), "{every}: {slices}");
        }
    }
}
