//! Finds threads that wait for files: they look for a file and sleep, until another thread has made it.

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
            found.push(AwaitedFile { sleeps: std::mem::take(&mut sleeps), object: step.object });
        }
    }
    found
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
