//! What a training waited for, in sentences: the parts of its wait, the largest first.

use super::no_cpu::Shortage;
use crate::summary::figures::units::{share, time};
use crate::summary::training::RankGroup;
use crate::summary::waits::parts::{Part, Parts};

/// A part below this is not worth a word.
const WORTH: f64 = 0.05;

/// From this part on, what is not known comes before everything else.
const MOSTLY: f64 = 0.5;

/// The causes of a wait that is worth a reason. `None` where the trace does not tell who ended it.
pub fn causes(groups: &[&RankGroup]) -> Option<Parts> {
    groups.iter().map(|group| group.causes).try_fold(Parts::default(), |sum, causes| Some(sum + causes?))
}

/// Parts of a whole that are worth a word, the largest first.
fn ranked(parts: &Parts, whole: i64) -> Vec<(Part, i64)> {
    let mut ranked: Vec<_> = Part::CAUSES.into_iter().map(|part| (part, parts.get(part))).collect();
    ranked.retain(|(_, ns)| *ns as f64 >= WORTH * whole as f64);
    ranked.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    ranked
}

/// From this part on, the reason why no CPU was free is worth a sentence.
const SHORT_OF_CPUS: f64 = 0.25;

/// The sentences on the causes of a wait. `shortage` says why no CPU was free.
pub fn sentences(parts: &Parts, reads_itself: bool, shortage: Option<&Shortage>) -> Vec<String> {
    let whole = parts.sum();
    let ranked = ranked(parts, whole);
    let Some(&(first, ns)) = ranked.first() else { return Vec::new() };
    let named = |(part, ns): &(Part, i64)| format!("{} {}", share(*ns, whole), label(*part, reads_itself));
    let list: Vec<String> = ranked.iter().map(named).collect();
    let mut sentences = vec![format!("Causes of that wait: {}.", list.join(", "))];
    let most = ns as f64 / whole as f64;
    if let Some(detail) = detail(first, parts, reads_itself).filter(|_| most >= MOSTLY || first == Part::Unknown) {
        sentences.push(detail);
    }
    let is_short = parts.get(Part::NoCpu) as f64 >= SHORT_OF_CPUS * whole as f64;
    sentences.extend(shortage.filter(|_| is_short).map(Shortage::sentence));
    sentences
}

/// What a part is called in a list.
fn label(part: Part, reads_itself: bool) -> &'static str {
    match part {
        Part::Storage => "storage (calls on files)",
        Part::PageFaults => "storage (page faults in mapped files)",
        Part::Network => "the network",
        Part::Cpu if reads_itself => "CPU time of the loader",
        Part::Cpu => "CPU time of the readers",
        Part::NoCpu => "no free CPU",
        Part::Gil => "Python's interpreter lock",
        Part::Lock => "a lock",
        Part::Sleep => "sleeping readers",
        Part::Child => "programs that the readers started",
        Part::HandOver => "handing batches over",
        Part::Start => "readers that were starting",
        Part::Dead => "readers that had ended",
        Part::NotAsked => "readers that had not been asked yet",
        Part::OutsideCalls => "time outside calls that nothing in the trace explains",
        Part::Unknown | Part::Idle => "unknown: nobody was seen to end the wait",
    }
}

/// What follows from the largest part, and what would tell more.
fn detail(part: Part, parts: &Parts, reads_itself: bool) -> Option<String> {
    let storage = parts.get(Part::Storage) + parts.get(Part::PageFaults);
    let is_free = storage as f64 <= WORTH * parts.sum() as f64;
    Some(match part {
        Part::Storage => "It was storage that training waited for.".into(),
        Part::PageFaults => {
            "It was storage that training waited for: pages of mapped files were read when they were first touched.".into()
        }
        Part::Network => {
            "It was the network that training waited for; the trace does not tell whether server or network is slow.".into()
        }
        Part::Cpu if is_free => format!(
            "It was the CPU: preprocessing, decoding, collating or the interpreter{}. Storage took {} of the wait.",
            if reads_itself { "" } else { " in the readers" },
            time(storage as f64)
        ),
        Part::Cpu => "It was mostly CPU work of making batches that training waited for.".into(),
        Part::NoCpu => "Readers were ready to run and no CPU was free.".into(),
        Part::Gil => "Threads waited for one another's turn in the interpreter: processes in place of threads would help.".into(),
        Part::Lock => "Readers waited for a lock that others held.".into(),
        Part::Sleep => "Readers slept: a sleep in their code, or a client that polls.".into(),
        Part::Child => "Readers waited for programs that they had started.".into(),
        Part::HandOver => {
            "Batches were made, and passing them to the training took the time: serializing, pipes, shared memory.".into()
        }
        Part::Start => "Readers were still starting: importing, forking, opening their data.".into(),
        Part::Dead => "The readers that should have made these batches had ended: --findings shows which, and how.".into(),
        Part::NotAsked => "Readers were idle until training asked them: more batches made ahead would help.".into(),
        Part::OutsideCalls => {
            "The trace does not tell computing from page faults or waiting for a CPU there: record it with a newer dlio.".into()
        }
        Part::Unknown | Part::Idle => {
            "Nobody was seen to end these waits (a lock without calls, a device, a process outside the trace). Spans tell when \
             training waits for batches: python -m dliotrace run --torch SCRIPT adds them to a PyTorch script."
                .into()
        }
    })
}
