//! Parsers of foreign traces that are text, and where their events go.
//!
//! A [`Parser`] is given the text in pieces and says how much of it it could use. Its events go to [`Threads`], which
//! gathers those of each thread into batches, because a batch is of one thread.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use foldhash::fast::RandomState;

use crate::batch::{ABSENT, Arg, Batch, Row, Value, Wanted};
use crate::catalog::{Catalog, Host, Process};
use crate::load::events::transfers::note_source;

/// Moments that an event can be of, from 1897 to 2116: sums and differences of all of them fit into 64 bits.
const TIMES: Range<i64> = -(1 << 61)..1 << 62;

/// An event of more than two years is none.
const LENGTH_END: i64 = 1 << 56;

/// Bytes that a call can have moved, or calls that were counted together: less than 2^48, 256 Ti, of which tens of thousands
/// can be added up.
pub const COUNTS: Range<i64> = 0..1 << 48;

/// The remark on events that end before they begin.
pub const BACKWARD: &str = "negative durations: they count as zero";

/// The remark on a trace without durations.
pub const DURATIONLESS: &str =
    "strace without -T: calls have no durations, and all times are zero; record with strace -f -ttt -T -y";

/// Rows after which a thread's batch is handed on.
const ROWS_MAX: usize = 8192;

/// Rows of all threads together, after which all are handed on: a file may name any number of threads.
const GATHERED_MAX: usize = 1 << 20;

/// True for an event whose numbers can be added to those of others.
#[inline]
pub fn is_event(row: &Row) -> bool {
    TIMES.contains(&row.ts) && row.dur < LENGTH_END && (row.bytes == ABSENT || COUNTS.contains(&row.bytes))
}

/// Something that makes events of text.
pub trait Parser {
    /// Uses whole lines or objects from the start of `text` and says how many bytes they were. `last`: nothing follows.
    fn parse(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize;
}

/// The processes of one file: numbers by host, process id and run, the same however often the file is read.
pub struct Processes {
    source: String,
    numbers: Mutex<HashMap<(String, i32, i64), u32>>,
}

impl Processes {
    /// Of the file of this name.
    pub fn of(source: String) -> Processes {
        Processes { source, numbers: Mutex::default() }
    }
}

/// Gathers events by thread.
pub struct Threads<'a> {
    pub catalog: &'a Catalog,
    pub wanted: Wanted,
    /// Pieces that could not be used.
    pub broken: u64,
    /// A remark on the trace though nothing of it is lost.
    pub remark: Option<&'static str>,
    /// True if the text ends before its format says so.
    pub cut: bool,
    processes: &'a Processes,
    batches: Vec<Batch>,
    /// Places in `batches` by process and thread, and that of the event before.
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

    /// The number of a process, new or known.
    pub fn process(&mut self, host: &str, pid: i32, describe: impl FnOnce(&mut Process)) -> u32 {
        self.process_of_run(host, pid, 0, describe)
    }

    /// The same where a file holds several runs, whose processes may have the same numbers.
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

    /// An event whose bytes may have come from another file.
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

    /// Events of which only the number is known.
    pub fn aggregated(&mut self, proc: u32, tid: i32, events: u64) {
        let mut batch = Batch { proc, tid, lost: events, aggregated: events, ..Batch::default() };
        (self.take)(&mut batch);
    }

    /// Has something said of the trace, once; the first remark is the one.
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

/// Gives whole lines to `each`; returns how many bytes they were. A last line needs no line feed.
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
