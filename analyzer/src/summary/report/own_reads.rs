//! Processes whose main thread reads its data itself, like a loader without workers: the part of their loop that reads take.

use super::Summary;
use super::named_pipe::source;
use super::own_loop::OwnLoop;
use super::processes::ProcessUse;
use super::subject::FREE;
use crate::summary::count::counted::DataReads;
use crate::summary::figures::units::{bytes, share, time};
use crate::summary::tree;

/// Returns `true` if a program may be a training run that the trace does not show: it has a rank or spans, or it is a
/// script. Programs like `tar` are not.
pub(super) fn may_train(summary: &Summary) -> bool {
    let trains = |process: &ProcessUse| process.rank.is_some() || tree::may_train(&process.program);
    !summary.spans.is_empty() || summary.processes.iter().any(trains)
}

/// Returns the process with the longest reads among compiled programs that may train, if no other program may.
fn compiled(summary: &Summary, place: OwnLoop) -> Option<(&ProcessUse, DataReads)> {
    let all = summary.processes.iter().filter(|process| process.own_loop == Some(place) && !may_train(summary));
    let found = all.filter_map(|process| Some((process, process.own_reads?)));
    found.filter(|(_, reads)| after_reads(summary, reads).is_none()).max_by_key(|(_, reads)| reads.read_ns)
}

/// Returns `true` if a compiled program reads its data in a loop, and may train for all that calls show.
pub(super) fn may_loop(summary: &Summary) -> bool {
    compiled(summary, OwnLoop::Local).is_some()
}

/// Returns the name of an installed program that reads its data in a loop, and the share of the loop that reads took.
pub(super) fn installed_loop(summary: &Summary) -> Option<(&str, f64)> {
    compiled(summary, OwnLoop::Installed).map(|(process, reads)| (process.called.as_str(), part_of(&reads)))
}

/// Returns the share of the time from the first read to the last that reads took.
fn part_of(reads: &DataReads) -> f64 {
    reads.read_ns as f64 / (reads.to_ts - reads.from_ts).max(1) as f64
}

/// Returns the process whose main thread reads data most of all, and its reads.
fn own_reader(summary: &Summary) -> Option<(&ProcessUse, DataReads)> {
    let trains = |process: &&ProcessUse| process.rank.is_some() || tree::may_train(&process.program);
    // One of several children of a process works for that process.
    let has_siblings = |process: &&ProcessUse| {
        let is_one = |other: &&ProcessUse| other.parent == process.parent && tree::may_train(&other.program);
        process.parent.is_some() && process.rank.is_none() && summary.processes.iter().filter(is_one).count() > 1
    };
    // A forked or spawned process works for its parent, too.
    let is_worker = |process: &&ProcessUse| process.rank.is_none() && process.called.starts_with(WORKER);
    let own = |process: &ProcessUse| process.own_reads.filter(DataReads::are_a_loop);
    let found = summary
        .processes
        .iter()
        .filter(|it| trains(it) && !has_siblings(it) && !is_worker(it))
        .filter_map(|process| Some((process, own(process)?)));
    found.max_by_key(|(_, reads)| reads.read_ns).or_else(|| compiled(summary, OwnLoop::Local))
}

/// The name of processes that a program forks or spawns, before their number.
const WORKER: &str = "worker ";

/// Returns the time from a process's last read to the end of the run, if it is longer than the time in which it read: then
/// it loaded its data first.
fn after_reads(summary: &Summary, reads: &DataReads) -> Option<i64> {
    let after = summary.time.end_ts - reads.to_ts;
    (after > reads.to_ts - reads.from_ts).then_some(after)
}

/// Returns the name of the process whose main thread reads data, and the share of its loop that reads took; `None` if it
/// loaded its data first.
pub(super) fn own_reads(summary: &Summary) -> Option<(&str, f64)> {
    let (process, reads) = own_reader(summary)?;
    if after_reads(summary, &reads).is_some() {
        return None;
    }
    Some((&process.called, part_of(&reads)))
}

/// Returns the sentences on a process whose main thread reads data: the cost of its reads, and the unknown rest.
pub(super) fn reads_itself(summary: &Summary) -> Option<String> {
    let (process, reads) = own_reader(summary)?;
    let looped = (reads.to_ts - reads.from_ts).max(1);
    let (name, part) = (&process.called, share(reads.read_ns, looped));
    if let Some(after) = after_reads(summary, &reads) {
        return Some(format!(
            "{name} read its data in its main thread in {}, {} of that in reads, and then ran for {} without reading any. If it \
             trained from memory, it did not wait for storage then; whether it waited for preprocessing is unknown.",
            time(looped as f64),
            time(reads.read_ns as f64),
            time(after as f64)
        ));
    }
    let (spent, looped_for) = (time(reads.read_ns as f64), time(looped as f64));
    let cause = match (source(summary), read_from_cache(summary)) {
        (Some((text, _)), _) => text,
        (None, Some(text)) => format!("and {text}"),
        (None, None) => "in calls on files".into(),
    };
    let facts = format!(
        "{name} reads its data in its main thread, like a loader without workers (num_workers=0): reads took {spent} \
         ({part}) of the {looped_for} from the first read to the last."
    );
    Some(match part_of(&reads) {
        part if part >= FREE => {
            format!(
                "{facts} If it trains, it waited at least that long for data, {cause}. Whether it \
                 also waits for preprocessing is unknown: calls do not distinguish preprocessing from training."
            )
        }
        _ => format!(
            "{facts} Read calls do not slow it down. Whether it waits for preprocessing is unknown: calls do not \
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
