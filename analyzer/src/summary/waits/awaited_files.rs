//! Finds threads that wait for files: they look for a file and sleep, until another thread has made it. A look may be no call,
//! such as one at a flag in shared memory: then the thread sleeps repeatedly until another thread gives a file its name, and opens
//! that file next.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;

use super::parts::Part;
use super::thread::Thread;
use super::timeline::{FOUND, FileMade, MadeFile, Object, StepKind, is_file_object};

/// Work of less than this lies between a look and the sleep after it, or the file and the look that found it.
pub const LOOK_NS: i64 = 1_000_000;

/// Fewer waits do not show a thread that waits for files.
pub const WAITS_MIN: usize = 3;

/// Sleeps of a thread until a file existed.
pub struct AwaitedFile {
    pub sleeps: Vec<usize>,
    pub object: Object,
    /// Start of the sleep in which the file was made, at the earliest.
    pub made_from: i64,
}

/// Returns the sleeps of a thread until files existed.
pub fn find(thread: &Thread) -> Vec<AwaitedFile> {
    let (mut found, mut sleeps) = (Vec::new(), Vec::<usize>::new());
    for (at, step) in thread.steps.iter().enumerate().filter(|(_, step)| step.kind != StepKind::Edge) {
        if step.kind != StepKind::Sleep || !is_file_object(step.object.id) {
            sleeps.clear();
            continue;
        }
        let goes_on = sleeps.last().is_some_and(|&last| {
            let did = thread.composition(thread.steps[last].end, step.start);
            thread.steps[last].object == step.object && did.get(Part::Cpu) + did.get(Part::OutsideCalls) < LOOK_NS
        });
        if !goes_on {
            sleeps.clear();
        }
        sleeps.push(at);
        if step.amount == FOUND {
            found.push(AwaitedFile { sleeps: std::mem::take(&mut sleeps), object: step.object, made_from: step.start });
        }
    }
    found
}

/// Fewer sleeps in a row do not show a thread that looks for something.
const SLEEPS_MIN: usize = 2;

/// A file that was made in one of this many last sleeps is what the thread slept for.
const LATE: usize = 2;

/// A thread works for less than this between its last sleep and the open of the file.
const OPENED_NS: i64 = 10_000_000;

/// Returns the sleeps of a thread in rows that end when another thread made the file which this one opens next. `made` returns
/// `true` if one did between two timestamps. Nothing, if more rows end before a file that had existed for longer: the thread then
/// sleeps for another reason.
pub fn find_by_opens(thread: &Thread, made: impl Fn(u64, i64, i64) -> bool) -> Vec<AwaitedFile> {
    let (mut found, mut others) = (Vec::new(), 0);
    for opened in &thread.opened {
        let before = thread.steps.partition_point(|step| step.end <= opened.ts);
        let sleeps = last_sleeps(thread, before);
        let Some(last) = sleeps.last().map(|last| &thread.steps[*last]) else { continue };
        if sleeps.len() < SLEEPS_MIN || thread.worked(last.end, opened.ts) >= OPENED_NS {
            continue;
        }
        // The existence of a file may be known a little later, as its maker needs Python's interpreter lock to tell that.
        let late = sleeps.len() - LATE.min(sleeps.len() - 1);
        let made_from = thread.steps[sleeps[late]].start;
        match made(opened.object, made_from - LOOK_NS, last.end + LOOK_NS) {
            true => {
                let object = Object { id: opened.object, network: false };
                found.push(AwaitedFile { sleeps, object, made_from });
            }
            false => others += 1,
        }
    }
    if found.len() > others { found } else { Vec::new() }
}

/// Returns the last row of sleeps before a step: between them, and after them, the thread hardly works, and waits only for
/// locks.
fn last_sleeps(thread: &Thread, before: usize) -> Vec<usize> {
    let mut sleeps: Vec<usize> = Vec::new();
    let mut next = None;
    for at in (0..before).rev() {
        let step = &thread.steps[at];
        match step.kind {
            StepKind::Edge | StepKind::TimedWait | StepKind::Post => continue,
            StepKind::Wait if step.is_lock => continue,
            StepKind::Sleep if thread.class[at] == Part::Sleep && !is_file_object(step.object.id) => {}
            _ => break,
        }
        if next.is_some_and(|next| thread.worked(step.end, next) >= LOOK_NS) {
            break;
        }
        sleeps.push(at);
        next = Some(step.start);
    }
    sleeps.reverse();
    sleeps
}

/// A thread that made a file, and when.
#[derive(Clone, Copy)]
pub struct Maker {
    pub thread: usize,
    pub at: i64,
}

/// The files that the threads of a trace made, in order of time.
pub struct MadeFiles {
    new: HashMap<u64, Vec<Maker>, RandomState>,
    /// With the directory in which each was.
    renamed: Vec<(u64, Maker)>,
    /// The directories of the files that threads looked for, by object.
    folders: HashMap<u64, u64, RandomState>,
}

impl MadeFiles {
    /// Collects the files that threads waited for, and all that got a new name.
    pub fn of<'t>(threads: impl Iterator<Item = (&'t [MadeFile], &'t [(u64, u64)])> + Clone) -> MadeFiles {
        let folders: HashMap<u64, u64, RandomState> =
            threads.clone().flat_map(|(_, missing_in)| missing_in.iter().copied()).collect();
        let (mut new, mut renamed): (HashMap<u64, Vec<Maker>, RandomState>, _) = (HashMap::default(), Vec::new());
        for (thread, (made, _)) in threads.enumerate().filter(|_| !folders.is_empty()) {
            for made in made {
                let act = Maker { thread, at: made.ts };
                match made.file {
                    FileMade::New(object) if folders.contains_key(&object) => new.entry(object).or_default().push(act),
                    FileMade::New(_) => {}
                    FileMade::Renamed(folder) => renamed.push((folder, act)),
                }
            }
        }
        new.values_mut().for_each(|acts| acts.sort_by_key(|act| act.at));
        renamed.sort_by_key(|(_, act)| act.at);
        MadeFiles { new, renamed, folders }
    }

    /// Returns who made a file between two timestamps: another thread that made one of this name, gave a file in its
    /// directory a new name, or was the only one to give a file a new name.
    pub fn maker(&self, taker: usize, object: u64, from: i64, to: i64) -> Option<Maker> {
        let is_it = |act: &Maker| act.thread != taker && (from..=to).contains(&act.at);
        let new = self.new.get(&object).into_iter().flatten().find(|act| is_it(act));
        let first = self.renamed.partition_point(|(_, act)| act.at < from);
        let renamed = || self.renamed[first..].iter().take_while(|(_, act)| act.at <= to).filter(|(_, act)| is_it(act));
        let folder = self.folders.get(&object);
        let beside = || renamed().find(|(in_folder, _)| Some(in_folder) == folder).map(|(_, act)| *act);
        let only = || {
            let threads: BTreeSet<usize> = renamed().map(|(_, act)| act.thread).collect();
            renamed().next().filter(|_| threads.len() == 1).map(|(_, act)| *act)
        };
        new.copied().or_else(beside).or_else(only)
    }
}
