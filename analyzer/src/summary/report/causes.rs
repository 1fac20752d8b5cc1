//! Causes of a training's wait as sentences, the largest first.

use super::no_cpu::Shortage;
use crate::summary::figures::units::{share, time};
use crate::summary::training::RankGroup;
use crate::summary::waits::parts::{Part, Parts};

/// Those whose work a training waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Maker {
    Readers,
    /// The trainer reads its data itself.
    Trainer,
    /// A child process that serves the readers sets their pace.
    Helper,
}

/// Causes below this share are not mentioned.
const WORTH: f64 = 0.05;

/// A cause with this share of the wait gets a sentence.
const MOSTLY: f64 = 0.5;

/// Returns the causes of trainers' waits. `None` if the trace does not show what ended them.
pub fn causes(groups: &[&RankGroup]) -> Option<Parts> {
    groups.iter().map(|group| group.causes).try_fold(Parts::default(), |sum, causes| Some(sum + causes?))
}

/// Returns the causes that are large enough to mention, the largest first.
fn ranked(parts: &Parts, whole: i64) -> Vec<(Part, i64)> {
    let mut ranked: Vec<_> = Part::CAUSES.into_iter().map(|part| (part, parts.get(part))).collect();
    ranked.retain(|(_, ns)| *ns as f64 >= WORTH * whole as f64);
    ranked.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    ranked
}

/// Smaller causes are summed up if together they have this share.
const OTHERS: f64 = 0.01;

/// The reason for a CPU shortage gets a sentence if it takes this share of the wait.
const SHORT_OF_CPUS: f64 = 0.25;

/// Returns the sentences on the causes of a wait. `shortage` is the reason why no CPU was free.
pub(super) fn sentences(parts: &Parts, maker: Maker, shortage: Option<&Shortage>) -> Vec<String> {
    let whole = parts.sum();
    let ranked = ranked(parts, whole);
    let Some(&(first, ns)) = ranked.first() else { return Vec::new() };
    let named = |(part, ns): &(Part, i64)| format!("{} {}", share(*ns, whole), label(*part, maker));
    let mut list: Vec<String> = ranked.iter().map(named).collect();
    let rest = whole - ranked.iter().map(|(_, ns)| ns).sum::<i64>();
    list.extend((rest as f64 >= OTHERS * whole as f64).then(|| format!("{} smaller causes", share(rest, whole))));
    let mut sentences = vec![format!("Causes of the whole wait: {}.", list.join(", "))];
    let most = ns as f64 / whole as f64;
    if let Some(detail) = detail(first, parts, maker).filter(|_| most >= MOSTLY || first == Part::Unknown) {
        sentences.push(detail);
    }
    let is_short = parts.get(Part::NoCpu) as f64 >= SHORT_OF_CPUS * whole as f64;
    sentences.extend(shortage.filter(|_| is_short).map(Shortage::sentence));
    sentences
}

/// Returns the name of a cause in a list.
pub(super) fn label(part: Part, maker: Maker) -> &'static str {
    match part {
        Part::Storage => "storage (file calls)",
        Part::PageFaults => "storage (page faults in mapped files)",
        Part::Network => "network",
        Part::Cpu if maker == Maker::Trainer => "CPU time of the loader",
        Part::Cpu => "CPU time spent on batches",
        Part::FileCalls => "CPU time in file calls",
        Part::NoCpu => "no free CPU",
        Part::Gil => "Python's interpreter lock (GIL)",
        Part::Lock => "locks",
        Part::Sleep if maker == Maker::Helper => "a process that sleeps while readers wait for it",
        Part::Sleep => "sleeping readers",
        Part::Child => "programs started by the readers",
        Part::HandOver => "transfer of batches",
        Part::Sampling => "the sampler, or other work of the loader in the training thread",
        Part::Start => "reader start-up and shutdown",
        Part::Dead => "readers that had ended",
        Part::NeverSent => "a reader that hung",
        Part::NoFile => "files that did not exist yet",
        Part::NotAsked => "readers that were idle because no batch was requested",
        Part::Device => "readers that waited for a GPU",
        Part::Hidden => "waits while the GPU computed",
        Part::OutsideCalls => "time outside calls that the trace does not explain",
        Part::Unknown | Part::Idle => "unknown: the trace does not show what ended the wait",
    }
}

pub(super) const STORAGE: &str = "Storage was the bottleneck.";

/// Returns the conclusion from the largest cause, or what to record to learn more.
fn detail(part: Part, parts: &Parts, maker: Maker) -> Option<String> {
    let storage = parts.get(Part::Storage) + parts.get(Part::PageFaults);
    let is_free = storage as f64 <= WORTH * parts.sum() as f64;
    Some(match part {
        Part::Storage => STORAGE.into(),
        Part::PageFaults => {
            "Storage was the bottleneck: pages of mapped files were read on first access.".into()
        }
        Part::Network => {
            "The network was the bottleneck; the trace does not show whether the server or the network was slow.".into()
        }
        Part::Cpu if is_free => format!(
            "The CPU was the bottleneck: preprocessing, decoding, collating or the interpreter{}. {}.",
            if maker == Maker::Trainer { "" } else { " in the readers" },
            match storage {
                0 => "Storage took no part of the wait".into(),
                ns => format!("Storage took {} of the wait", time(ns as f64)),
            }
        ),
        Part::Cpu => "CPU work on batches was the largest part of the wait.".into(),
        Part::FileCalls => {
            "File calls used the CPU: they copied from the page cache, or there were very many. Faster storage would not help.".into()
        }
        Part::NoCpu if maker == Maker::Trainer => "The thread that takes batches was ready to run, but no CPU was free.".into(),
        Part::NoCpu => "Readers were ready to run, but no CPU was free.".into(),
        Part::Gil => "Threads waited for their turn in the interpreter: processes instead of threads would avoid that.".into(),
        Part::Lock => "Readers waited for locks that other threads or processes held.".into(),
        Part::Sleep if maker == Maker::Helper => {
            "A process slept while readers waited for it: its code, or a library that it uses, called sleep or polled.".into()
        }
        Part::Sleep => "Readers slept: their code, or a library that it uses, called sleep or polled.".into(),
        Part::Child => "Readers waited for programs that they had started.".into(),
        Part::Sampling => {
            "After a batch had arrived, the thread that takes batches worked on, or slept, before it requested another one: its \
             sampler chose samples, or the batch was unpickled."
                .into()
        }
        Part::HandOver => {
            "The time went to serializing data and to moving them through pipes, sockets and shared memory.".into()
        }
        Part::Start => "Readers were starting or ending: forking, importing modules, opening their data and other one-time work for their first item, exiting.".into(),
        Part::Dead => "The readers that should have made these batches had ended: --section processes shows how each ended.".into(),
        Part::NeverSent => {
            "The reader that had to make this batch was alive, but ended no further call until the run ended: it was in a call that did \
             not end, waited for a lock, or computed."
                .into()
        }
        Part::NoFile => {
            "Readers looked for files that did not exist yet, and slept until they did; the trace does not show which program made them.".into()
        }
        Part::NotAsked => "Readers were idle until a batch was requested: more prefetched batches would help.".into(),
        Part::Device => "Readers waited for work of a GPU, such as decoding on it.".into(),
        Part::Hidden => "The GPU computed during these waits, so they cost nothing.".into(),
        Part::OutsideCalls => {
            "Outside calls, this trace does not distinguish computing from page faults, locks in memory or waiting for a CPU.".into()
        }
        Part::Unknown | Part::Idle => {
            "Possible: a lock without calls, a device, or a process outside the trace. \
             Spans show when training waits for batches: python3 -m dliotrace run --torch SCRIPT records them for PyTorch."
                .into()
        }
    })
}
