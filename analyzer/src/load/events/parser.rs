//! The interface of parsers for textual foreign traces, and the destination of their events.
//!
//! A [`Parser`] receives the text in pieces and returns how much of it was used. Its events go to [`Threads`], which
//! collects them into one batch per thread.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use foldhash::fast::RandomState;

use crate::batch::{ABSENT, Arg, Batch, Row, Value, Wanted};
use crate::catalog::{Catalog, Host, Process};
use crate::load::events::transfers::note_source;

/// The valid timestamps, from 1897 to 2116: sums and differences of them fit into 64 bits.
const TIMES: Range<i64> = -(1 << 61)..1 << 62;

/// An event longer than two years is invalid.
const LENGTH_END: i64 = 1 << 56;

/// Valid bytes of a call, or calls counted together: less than 2^48, 256 Ti, so that tens of thousands can be added.
pub const COUNTS: Range<i64> = 0..1 << 48;

/// The note on events that end before they start.
pub const BACKWARD: &str = "negative durations: they count as zero";

/// The note on a trace without durations.
pub const DURATIONLESS: &str =
    "strace without -T: calls have no durations, and all times are zero; record with strace -f -ttt -T -y";

/// Rows at which a thread's batch is passed on.
const ROWS_MAX: usize = 8192;

/// Rows of all threads at which all batches are passed on: a file may name any number of threads.
const GATHERED_MAX: usize = 1 << 20;

/// Returns `true` for an event whose numbers can be added to those of others.
#[inline]
pub fn is_event(row: &Row) -> bool {
    TIMES.contains(&row.ts) && row.dur < LENGTH_END && (row.bytes == ABSENT || COUNTS.contains(&row.bytes))
}

/// Parses text into events.
pub trait Parser {
    /// Parses whole lines or objects at the start of `text`; returns the bytes used. With `last`, nothing follows.
    fn parse(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize;
}

/// The processes of one file: numbers by host, process id and run, stable across readings of the file.
pub struct Processes {
    source: String,
    numbers: Mutex<HashMap<(String, i32, i64), u32>>,
}

impl Processes {
    /// Creates the processes of the file with this name.
    pub fn of(source: String) -> Processes {
        Processes { source, numbers: Mutex::default() }
    }
}

/// Collects events by thread.
pub struct Threads<'a> {
    pub catalog: &'a Catalog,
    pub wanted: Wanted,
    /// Pieces that could not be parsed.
    pub broken: u64,
    /// Why the first of them could not, if that is known.
    pub cause: Option<&'static str>,
    /// A note on the trace that involves no loss.
    pub remark: Option<&'static str>,
    /// `true` if the text ends before its format allows it.
    pub cut: bool,
    processes: &'a Processes,
    batches: Vec<Batch>,
    /// Indexes in `batches` by process and thread, and that of the previous event.
    places: HashMap<(u32, i32), usize, RandomState>,
    place_last: usize,
    gathered: usize,
    take: &'a mut dyn FnMut(&mut Batch),
}

impl<'a> Threads<'a> {
    pub fn new(
        catalog: &'a Catalog,
        wanted: Wanted,
        processes: &'a Processes,
        take: &'a mut dyn FnMut(&mut Batch),
    ) -> Threads<'a> {
        let (batches, places) = Default::default();
        Threads {
            catalog,
            wanted,
            broken: 0,
            cause: None,
            remark: None,
            cut: false,
            processes,
            batches,
            places,
            place_last: 0,
            gathered: 0,
            take,
        }
    }

    /// Returns the number of a process, new or known.
    pub fn process(&mut self, host: &str, pid: i32, describe: impl FnOnce(&mut Process)) -> u32 {
        self.process_of_run(host, pid, 0, describe)
    }

    /// Returns the path of the file.
    pub fn source(&self) -> String {
        self.processes.source.clone()
    }

    /// Like [`process`](Self::process), for a file that contains several runs, whose processes may have equal numbers.
    pub fn process_of_run(&mut self, host: &str, pid: i32, run: i64, describe: impl FnOnce(&mut Process)) -> u32 {
        let mut numbers = self.processes.numbers.lock().expect("numbers of processes");
        *numbers.entry((host.to_string(), pid, run)).or_insert_with(|| {
            let host = self.catalog.host(Host { name: host.into(), ..Host::default() });
            let mut process = Process { host, pid, ended: "unknown".into(), ..Process::default() };
            process.source = self.processes.source.clone();
            describe(&mut process);
            self.catalog.add_process(process)
        })
    }

    #[inline]
    pub fn event(&mut self, proc: u32, tid: i32, row: &Row, args: impl IntoIterator<Item = (u32, Value)>) {
        self.event_from(proc, tid, row, None, args);
    }

    /// Adds an event whose bytes may have come from another file.
    #[inline]
    pub fn event_from(
        &mut self,
        proc: u32,
        tid: i32,
        row: &Row,
        source: Option<u32>,
        args: impl IntoIterator<Item = (u32, Value)>,
    ) {
        if !is_event(row) {
            self.broken += 1;
            return;
        }
        let at = self.place(proc, tid);
        let batch = &mut self.batches[at];
        let place = batch.len() as u32;
        batch.push(row);
        batch.args.extend(args.into_iter().map(|(key, value)| Arg { row: place, key, value }));
        if let Some(source) = source {
            note_source(batch, place, (source, row.file), self.wanted.args, self.catalog);
        }
        self.gathered += 1;
        if batch.len() >= ROWS_MAX {
            self.gathered -= batch.len();
            (self.take)(batch);
            batch.clear();
        } else if self.gathered >= GATHERED_MAX {
            self.flush();
        }
    }

    #[inline]
    fn place(&mut self, proc: u32, tid: i32) -> usize {
        match self.batches.get(self.place_last) {
            Some(batch) if batch.proc == proc && batch.tid == tid => {}
            _ => {
                let batches = &mut self.batches;
                self.place_last = *self.places.entry((proc, tid)).or_insert_with(|| {
                    batches.push(Batch { proc, tid, ..Batch::default() });
                    batches.len() - 1
                });
            }
        }
        self.place_last
    }

    /// Adds events that were only counted.
    pub fn aggregated(&mut self, proc: u32, tid: i32, events: u64) {
        let mut batch = Batch { proc, tid, lost: events, aggregated: events, ..Batch::default() };
        (self.take)(&mut batch);
    }

    /// Sets the note on the trace; the first one is kept.
    pub fn remarks(&mut self, what: &'static str) {
        self.remark.get_or_insert(what);
    }

    pub fn flush(&mut self) {
        for mut batch in self.batches.drain(..).filter(|batch| !batch.is_empty()) {
            (self.take)(&mut batch);
        }
        self.places.clear();
        self.gathered = 0;
    }
}

/// Passes whole lines to `each`; returns their bytes. A last line needs no line feed.
pub fn lines(text: &[u8], last: bool, mut each: impl FnMut(&[u8])) -> usize {
    let mut at = 0;
    while let Some(length) = text[at..].iter().position(|&byte| byte == b'\n') {
        each(&text[at..at + length]);
        at += length + 1;
    }
    if last && at < text.len() {
        each(&text[at..]);
        at = text.len();
    }
    at
}
