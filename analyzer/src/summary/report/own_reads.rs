//! Processes whose main thread reads its data itself, like a loader without workers: the part of their loop that reads take.

use std::collections::BTreeSet;

use super::Summary;
use super::findings::Unit;
use super::named_pipe::source;
use super::own_loop::OwnLoop;
use super::processes::ProcessUse;
use super::subject::{FREE, LIMITING};
use crate::summary::count::counted::DataReads;
use crate::summary::figures::units::{bytes, grouped, many, share, time};
use crate::summary::training::told;
use crate::summary::tree::{self, has_other_purpose};
use crate::summary::waits::thread::Mapped;

/// Reads of data by the main thread of a process, in a loop.
pub(super) struct OwnReads<'a> {
    pub name: &'a str,
    reads: DataReads,
}

impl OwnReads<'_> {
    /// Returns the time from the first read to the last.
    fn looped(&self) -> i64 {
        (self.reads.to_ts - self.reads.from_ts).max(1)
    }

    /// Returns the share of the loop that reads took.
    pub fn share(&self) -> f64 {
        self.reads.read_ns as f64 / self.looped() as f64
    }

    /// Returns the time of reads and that of the loop.
    pub fn times(&self) -> String {
        format!("{} of the {}", time(self.reads.read_ns as f64), time(self.looped() as f64))
    }
}

/// Returns `true` if a program may be a training run that the trace does not show: it has a rank or spans, or it is a
/// script. Programs like `tar` are not.
pub(super) fn may_train(summary: &Summary) -> bool {
    let trains = |process: &ProcessUse| process.rank.is_some() || tree::may_train(&process.program);
    !summary.spans.is_empty() || summary.processes.iter().any(trains)
}

/// Returns the process with the longest reads among compiled programs that may train, as far as they are meant, if no other
/// program may.
fn compiled(summary: &Summary, is_meant: impl Fn(&ProcessUse, OwnLoop) -> bool) -> Option<OwnReads<'_>> {
    let is_one = |process: &&ProcessUse| process.own_loop.is_some_and(|place| is_meant(process, place));
    let all = summary.processes.iter().filter(|process| is_one(process) && !may_train(summary));
    longest(all.filter(|process| process.own_reads.is_some_and(|reads| after_reads(summary, &reads).is_none())))
}

/// Returns such a program that its user built and that works for no other program.
fn local_loop(summary: &Summary) -> Option<OwnReads<'_>> {
    compiled(summary, |process, place| place == OwnLoop::Local && !is_worker(process))
}

/// Returns `true` if a compiled program reads its data in a loop, and may train for all that calls show.
pub(super) fn may_loop(summary: &Summary) -> bool {
    local_loop(summary).is_some()
}

/// Returns what a program does that does not look like a training and may be one: an installed program or a worker reads data in a
/// loop, or a main thread sleeps.
pub(super) fn doubt(summary: &Summary) -> Option<String> {
    let found = compiled(summary, |process, place| place == OwnLoop::Installed || is_worker(process));
    let looped = found.map(|reads| {
        let part = Unit::Share.text(reads.share());
        format!("{} reads in its main thread, and its reads took {part} of its loop.", reads.name)
    });
    looped.or_else(|| slept(summary).filter(|_| summary.dataset.bytes_read > 0))
}

/// Returns the longest reads of some processes.
fn longest<'a>(processes: impl Iterator<Item = &'a ProcessUse>) -> Option<OwnReads<'a>> {
    let all = processes.filter_map(|process| Some(OwnReads { name: &process.called, reads: process.own_reads? }));
    all.max_by_key(|own| own.reads.read_ns)
}

/// Returns the processes that may train and work for no other one.
fn alone(summary: &Summary) -> impl Iterator<Item = &ProcessUse> {
    let trains = |process: &&ProcessUse| process.rank.is_some() || tree::may_train(&process.program);
    // One of several children of a process works for that process.
    let has_siblings = |process: &&ProcessUse| {
        let is_one = |other: &&ProcessUse| other.parent == process.parent && tree::may_train(&other.program);
        process.parent.is_some() && process.rank.is_none() && summary.processes.iter().filter(is_one).count() > 1
    };
    summary.processes.iter().filter(move |it| trains(it) && !has_siblings(it) && !is_worker(it))
}

/// Returns `true` for a forked or spawned process, which works for its parent.
fn is_worker(process: &ProcessUse) -> bool {
    process.rank.is_none() && process.called.starts_with(WORKER)
}

/// Returns the process whose main thread reads data most of all, and its reads.
fn own_reader(summary: &Summary) -> Option<OwnReads<'_>> {
    let loops = |process: &&ProcessUse| process.own_reads.is_some_and(|reads| reads.are_a_loop());
    longest(alone(summary).filter(loops)).or_else(|| local_loop(summary))
}

/// Returns the process whose main thread waits longest for page faults of mapped files.
pub(super) fn own_faults(summary: &Summary) -> Option<(&str, Mapped)> {
    let faults = |process: &ProcessUse| process.first_thread?.mapped.filter(|mapped| mapped.fault_ns > 0);
    let found = alone(summary).filter_map(|process| Some((process.called.as_str(), faults(process)?)));
    found.max_by_key(|(_, mapped)| mapped.fault_ns)
}

/// Returns the sentence on such faults.
pub(super) fn faulted((name, mapped): (&str, &Mapped)) -> String {
    format!(
        "{name} reads mapped files in its main thread: {} that storage served took at least {} ({}) of the {} after its first \
         mapping.",
        many(mapped.faults, "page fault", "page faults"),
        time(mapped.fault_ns as f64),
        Unit::Share.text(mapped.part()),
        time((mapped.to_ts - mapped.from_ts) as f64)
    )
}

/// Storage served this many bytes at least to mappings that are worth a sentence, and several times as many as calls read.
const SERVED_MIN: u64 = 16 << 20;
const SERVED_TIMES: u64 = 4;

/// Returns the sentence on bytes that storage served to mappings, if the time that this took is unknown.
pub(super) fn served(summary: &Summary) -> Option<String> {
    let maps = |process: &ProcessUse| process.first_thread.is_some_and(|thread| thread.mapped.is_some());
    let process = alone(summary).find(|process| maps(process))?;
    let (stored, read) = (process.resources.storage_read?, process.work.bytes_read);
    (stored >= SERVED_MIN && stored >= SERVED_TIMES * read).then(|| {
        format!(
            "Storage served {} to {}, and its calls read {}. The rest are page faults of mapped files, or of its program and \
             libraries; their time is unknown.",
            bytes(stored as f64),
            process.called,
            bytes(read as f64)
        )
    })
}

/// Returns the sentence on bytes that storage served to the mappings of trainers and their readers, if nothing shows what readers
/// waited for: the kernel does not count a page fault that waits for the readahead of another one as served by storage.
pub(super) fn served_to_readers(summary: &Summary) -> Option<String> {
    let groups = told(&summary.training);
    let readers = groups.iter().flat_map(|group| group.readers.iter().map(|reader| reader.proc));
    let procs: BTreeSet<u32> = groups.iter().map(|group| group.proc).chain(readers).collect();
    let processes = || summary.processes.iter().filter(|process| procs.contains(&process.proc));
    let maps = |process: &ProcessUse| process.first_thread.is_some_and(|thread| thread.mapped.is_some());
    let stored: u64 = processes().map(|process| process.resources.storage_read).sum::<Option<u64>>()?;
    let read: u64 = processes().map(|process| process.work.bytes_read).sum();
    (processes().any(maps) && stored >= SERVED_MIN && stored >= SERVED_TIMES * read).then(|| {
        format!(
            "Storage served {}, and calls read {} of that. The rest are page faults of mapped files, or of programs and \
             libraries: they may be the cause, but the trace does not show how long they took.",
            bytes(stored as f64),
            bytes(read as f64)
        )
    })
}

/// Fewer sleeps than this are not worth a sentence.
const SLEEPS_MIN: u64 = 20;

/// Returns the sentence on the sleeps of a main thread, if they take a large part of the run: a step of a training may be one, and
/// so may a wait for a flag, a value in memory, or the limit of a rate.
pub(super) fn slept(summary: &Summary) -> Option<String> {
    let others = summary.processes.iter().filter(|it| !is_worker(it) && !has_other_purpose(&it.program));
    let sleeps = others.filter_map(|process| Some((process, process.first_thread?)));
    let (process, thread) = sleeps.max_by_key(|(_, thread)| thread.slept_ns)?;
    let is_long = thread.slept_ns as f64 >= LIMITING * summary.time.total_ns as f64;
    (is_long && thread.sleeps >= SLEEPS_MIN).then(|| {
        format!(
            "The main thread of {} slept {} times, {} ({}) in all; the trace does not show whether it waited for data then.",
            process.called,
            grouped(thread.sleeps),
            time(thread.slept_ns as f64),
            share(thread.slept_ns, summary.time.total_ns)
        )
    })
}

/// The name of processes that a program forks or spawns, before their number.
const WORKER: &str = "worker ";

/// Returns the time from a process's last read to the end of the run, if it is longer than the time in which it read: then
/// it loaded its data first.
fn after_reads(summary: &Summary, reads: &DataReads) -> Option<i64> {
    let after = summary.time.end_ts - reads.to_ts;
    (after > reads.to_ts - reads.from_ts).then_some(after)
}

/// Returns the reads of the process whose main thread reads data; `None` if it loaded its data first.
pub(super) fn own_reads(summary: &Summary) -> Option<OwnReads<'_>> {
    own_reader(summary).filter(|own| after_reads(summary, &own.reads).is_none())
}

/// Returns the sentences on a process whose main thread reads data: the cost of its reads, and the unknown rest.
pub(super) fn reads_itself(summary: &Summary) -> Option<String> {
    let own = own_reader(summary)?;
    let (name, part) = (own.name, share(own.reads.read_ns, own.looped()));
    let (spent, looped) = (time(own.reads.read_ns as f64), time(own.looped() as f64));
    if let Some(after) = after_reads(summary, &own.reads) {
        return Some(format!(
            "{name} read its data in its main thread in {looped}, {spent} of that in reads, and then ran for {} without reading any. \
             If it trained from memory, it did not wait for storage then; whether it waited for preprocessing is unknown.",
            time(after as f64)
        ));
    }
    let cause = match (source(summary), read_from_cache(summary)) {
        (Some((text, _)), _) => text,
        (None, Some(text)) => format!("and {text}"),
        (None, None) => "in file calls".into(),
    };
    let facts = format!(
        "{name} reads its data in its main thread, like a loader without workers (num_workers=0): reads took {spent} \
         ({part}) of the {looped} from the first read to the last."
    );
    Some(match own.share() {
        part if part >= FREE => {
            format!(
                "{facts} If it trains, it waited at least that long for data, {cause}. Whether it \
                 also waits for preprocessing is unknown: calls do not distinguish preprocessing from training."
            )
        }
        _ => format!(
            "{facts} Read calls hardly slow down its loop. Whether it waits for preprocessing is unknown: calls do not \
             distinguish preprocessing from training."
        ),
    })
}

/// Returns a text that says so if hardly any of the bytes that were read came from storage: the kernel counts those.
pub(super) fn read_from_cache(summary: &Summary) -> Option<String> {
    let stored: Option<u64> = summary.machine.iter().map(|machine| machine.storage_read).sum();
    let read: u64 = summary.processes.iter().map(|process| process.work.bytes_read).sum();
    let stored = stored.filter(|stored| *stored < read / FROM_CACHE && !summary.machine.is_empty())?;
    let [stored, read] = [stored, read].map(|count| bytes(count as f64));
    Some(format!(
        "only {stored} of the {read} came from storage: the rest was cached, and the calls themselves take the time"
    ))
}

/// Storage served less than one byte in this many.
const FROM_CACHE: u64 = 10;
