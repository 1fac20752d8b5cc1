//! The verdict box: the bottleneck in one line, the two numbers that prove it, and the next step.
//!
//! The box summarizes the sentences of [`verdict`](super::verdict). It never claims more than they do: it reports a
//! mixed or unknown cause as such. Findings are judged later, so [`next_step`](super::next_step) adds the next step, and
//! [`confidence`](super::confidence) how certain the verdict is.

use serde::{Deserialize, Serialize};

use super::Summary;
use super::causes::{Maker, label};
use super::commands::append_verified;
use super::communication::{RanksTime, of_ranks};
use super::findings::Unit;
use super::gpu::Gpus;
use super::layout::{hung, wrapped};
use super::named_pipe::source;
use super::no_cpu::{Shortage, quota_text};
use super::own_reads::{
    OwnReads, doubt, faulted, may_train, own_faults, own_reads, read_from_cache, served, served_to_readers, slept,
};
use super::subject::{FREE, LIMITING};
use super::verdict::{NO_STORAGE, STORAGE, Waits};
use super::verdict::{capital, lost_share, saves_alone, sentences, training_waits, waits};
use crate::summary::count::tally::Tally;
use crate::summary::figures::units::{many, share, time};
use crate::summary::training::RankGroup;
use crate::summary::waits::parts::{Part, Parts};
use crate::summary::waits::thread::Mapped;
use crate::summary::waits::trainers::WaitKind;
use crate::summary::wording::Wording;

/// A cause that takes this share of the wait is the bottleneck; below it the causes are mixed.
const MOST: f64 = 0.5;

/// If one thread ended this share of the waits, the others are ignored.
const ALL: f64 = 0.95;

/// The second largest cause is a main cause if it takes this share of the wait, and is named if it takes the other one.
const SECOND: f64 = 0.25;
const NAMED: f64 = 0.1;

/// Waits for the GPU are mentioned if they take this share of the training.
const SYNCED: f64 = 0.02;

/// Compute is the limit if it takes this share of the training and nothing else is the limit.
const COMPUTES: f64 = 0.5;

/// The contents of the verdict box.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Headline {
    pub bottleneck: Bottleneck,
    /// The share of the training that the bottleneck costs; `None` if that is unknown or nothing is lost.
    pub share: Option<f64>,
    pub certainty: Certainty,
    /// How sure the verdict is, and why; `None` if there is nothing to judge.
    #[serde(default)]
    pub confidence: Option<Level>,
    #[serde(default)]
    pub confidence_reason: Option<String>,
    /// The first line: bottleneck, share, certainty.
    pub text: String,
    pub why: String,
    /// The change that saves most, or how to decide an unknown.
    pub next: Option<String>,
    /// The command that shows whether the change helped.
    pub verify: Option<String>,
    /// The command that was traced; `None` if the run had several or it cannot be repeated as recorded.
    #[serde(default)]
    pub command: Option<String>,
    /// The finding that recommends the change.
    pub finding: Option<String>,
    /// The name of the change in `what_if`, if it was replayed.
    #[serde(default)]
    pub change: Option<String>,
}

/// Returns a time of a trainer; `None` if it is unknown.
type WaitTime = fn(&RankGroup) -> Option<i64>;

/// The limiting factor of a run.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Bottleneck {
    StorageBound,
    /// Readers read a named pipe.
    PipeBound,
    PreprocessingBound,
    /// File calls use the CPU of the readers: they are served from memory.
    FileCallBound,
    TransferBound,
    SamplingBound,
    NetworkBound,
    LockBound,
    GilBound,
    CpuLimited,
    SleepBound,
    /// Readers wait for files that do not exist yet.
    FileWaitBound,
    SubprocessBound,
    StartupBound,
    PrefetchBound,
    /// Training waits for batches of readers that have ended.
    ReaderDied,
    /// Training waits for a batch that never comes: a reader hangs.
    ReaderHangs,
    /// The memory through which readers pass batches is full, which ends readers or the run.
    SharedMemoryFull,
    /// Training waits for data because of several causes.
    DataBoundMixed,
    /// Training waits for data, and the cause is unknown.
    DataBoundUnknown,
    /// Readers wait for work of a GPU.
    GpuInReaders,
    CheckpointBound,
    WriteBound,
    OwnWork,
    /// Training waits for a lock held by a thread that makes no batches.
    OwnLock,
    /// The training thread waits for Python's interpreter lock, which other threads hold.
    OwnGil,
    /// The training thread itself waits for a free CPU.
    OwnNoCpu,
    /// The training thread reads files itself, in addition to its readers.
    OwnReads,
    SynchronizationBound,
    ComputeBound,
    /// The GPU is busy during almost all of the training.
    GpuBound,
    /// The GPU is idle for a large part of the training, but not for data.
    GpuIdle,
    /// Each GPU of a process is idle for a large part of the training, while another one works.
    GpusTakeTurns,
    NotDataBound,
    NoTraining,
    NoEvents,
    #[default]
    Unknown,
}

/// Certainty of a headline.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// Spans show when training waits.
    Measured,
    /// Calls show when training waits.
    Inferred,
    /// A GPU may have been busy during the wait.
    UpperBound,
    #[default]
    Unknown,
}

/// The confidence of a verdict.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Low,
    Medium,
    High,
}

impl Level {
    pub fn word(self) -> &'static str {
        ["low", "medium", "high"][self as usize]
    }
}

impl Bottleneck {
    /// Returns the common name, in capitals.
    pub fn title(self) -> &'static str {
        match self {
            Bottleneck::StorageBound => "STORAGE-BOUND",
            Bottleneck::PipeBound => "PIPE-BOUND",
            Bottleneck::PreprocessingBound => "PREPROCESSING-BOUND",
            Bottleneck::FileCallBound => "FILE-CALL-BOUND",
            Bottleneck::TransferBound => "TRANSFER-BOUND",
            Bottleneck::SamplingBound => "SAMPLING-BOUND",
            Bottleneck::NetworkBound => "NETWORK-BOUND",
            Bottleneck::LockBound => "LOCK-BOUND",
            Bottleneck::GilBound => "GIL-BOUND",
            Bottleneck::CpuLimited => "CPU-LIMITED",
            Bottleneck::SleepBound => "SLEEP-BOUND",
            Bottleneck::FileWaitBound => "FILE-WAIT-BOUND",
            Bottleneck::SubprocessBound => "SUBPROCESS-BOUND",
            Bottleneck::StartupBound => "STARTUP-BOUND",
            Bottleneck::PrefetchBound => "PREFETCH-BOUND",
            Bottleneck::ReaderDied => "READER DIED",
            Bottleneck::ReaderHangs => "READER HANGS",
            Bottleneck::SharedMemoryFull => "SHARED MEMORY FULL",
            Bottleneck::DataBoundMixed => "DATA-BOUND, MIXED CAUSES",
            Bottleneck::DataBoundUnknown => "DATA-BOUND, CAUSE UNKNOWN",
            Bottleneck::CheckpointBound => "CHECKPOINT-BOUND",
            Bottleneck::WriteBound => "WRITE-BOUND",
            Bottleneck::OwnWork => "OWN-WORK",
            Bottleneck::OwnLock => "LOCK-BOUND IN THE TRAINING THREAD",
            Bottleneck::OwnGil => "GIL-BOUND IN THE TRAINING THREAD",
            Bottleneck::OwnNoCpu => "CPU-LIMITED IN THE TRAINING THREAD",
            Bottleneck::OwnReads => "READ-BOUND IN THE TRAINING THREAD",
            Bottleneck::SynchronizationBound => "SYNCHRONIZATION-BOUND",
            Bottleneck::ComputeBound => "COMPUTE-BOUND",
            Bottleneck::GpuInReaders => "GPU-BOUND READERS",
            Bottleneck::GpuBound => "GPU-BOUND",
            Bottleneck::GpuIdle => "GPU IDLE, NOT FOR DATA",
            Bottleneck::GpusTakeTurns => "GPUS TAKE TURNS",
            Bottleneck::NotDataBound => "NOT DATA-BOUND",
            Bottleneck::NoTraining => "NO TRAINING",
            Bottleneck::NoEvents => "NO EVENTS",
            Bottleneck::Unknown => "UNKNOWN",
        }
    }

    /// Returns the name for a loop that may not be a training.
    fn title_of(self, wording: Wording) -> String {
        match wording {
            Wording::Training => self.title().into(),
            Wording::MainLoop => self.title().replace("TRAINING THREAD", "MAIN LOOP"),
        }
    }

    /// Returns `true` if it is a cause of a wait for data.
    pub(super) fn is_wait_for_data(self) -> bool {
        use Bottleneck::*;
        let others = [
            CheckpointBound,
            WriteBound,
            OwnWork,
            OwnLock,
            OwnGil,
            OwnNoCpu,
            OwnReads,
            SynchronizationBound,
            ComputeBound,
            GpuBound,
            GpuIdle,
            GpusTakeTurns,
            NotDataBound,
            NoTraining,
            NoEvents,
            SharedMemoryFull,
            Unknown,
        ];
        !others.contains(&self)
    }

    /// Returns the kind and the time of the waits that it costs, if they are not waits for data.
    pub(super) fn other_wait(self) -> Option<(WaitKind, WaitTime)> {
        match self {
            Bottleneck::OwnWork => Some((WaitKind::OwnWork, |group| group.own_work_ns)),
            Bottleneck::OwnLock => Some((WaitKind::Lock, |group| group.lock_wait_ns)),
            Bottleneck::SynchronizationBound => Some((WaitKind::Peer, |group| group.peer_wait_ns)),
            _ => None,
        }
    }

    /// Returns the bottleneck that corresponds to a cause of the wait for data.
    pub fn of_cause(cause: Part) -> Bottleneck {
        match cause {
            Part::Storage | Part::PageFaults => Bottleneck::StorageBound,
            Part::Network => Bottleneck::NetworkBound,
            Part::Cpu => Bottleneck::PreprocessingBound,
            Part::FileCalls => Bottleneck::FileCallBound,
            Part::NoCpu => Bottleneck::CpuLimited,
            Part::Gil => Bottleneck::GilBound,
            Part::Lock => Bottleneck::LockBound,
            Part::Sleep => Bottleneck::SleepBound,
            Part::Child => Bottleneck::SubprocessBound,
            Part::HandOver => Bottleneck::TransferBound,
            Part::Sampling => Bottleneck::SamplingBound,
            Part::Start => Bottleneck::StartupBound,
            Part::Dead => Bottleneck::ReaderDied,
            Part::NeverSent => Bottleneck::ReaderHangs,
            Part::NoFile => Bottleneck::FileWaitBound,
            Part::NotAsked => Bottleneck::PrefetchBound,
            Part::Device => Bottleneck::GpuInReaders,
            Part::OutsideCalls | Part::Hidden | Part::Unknown | Part::Idle => Bottleneck::DataBoundUnknown,
        }
    }
}

impl Default for Headline {
    fn default() -> Headline {
        Headline::new(Bottleneck::Unknown, String::new())
    }
}

/// Command that compares a run with one after a change. [`commands`](super::commands) names the traces.
pub const COMPARE: &str = "dlio-analyze TRACE --compare after";

impl Headline {
    pub(super) fn new(bottleneck: Bottleneck, why: String) -> Headline {
        Headline {
            bottleneck,
            share: None,
            certainty: Certainty::Unknown,
            confidence: None,
            confidence_reason: None,
            text: match bottleneck {
                Bottleneck::Unknown => "UNKNOWN: the trace does not show whether training waited for data".into(),
                Bottleneck::NoTraining => "NO TRAINING: the trace shows no training process".into(),
                Bottleneck::NoEvents => "NO EVENTS: the trace contains nothing to judge".into(),
                other => other.title().into(),
            },
            why,
            next: None,
            verify: None,
            command: None,
            finding: None,
            change: None,
        }
    }

    /// Returns a headline for a trace without events; `why` is the sentence that explains it.
    pub fn without_events(why: &str) -> Headline {
        Headline::new(Bottleneck::NoEvents, why.into())
    }

    /// Returns the box as lines of at most `width` characters.
    pub fn lines(&self, width: usize) -> String {
        self.box_of(width, true)
    }

    /// Returns the box, with the command that verifies the change or without it.
    pub fn box_of(&self, width: usize, verifies: bool) -> String {
        let mut out = wrapped(&self.text, width);
        hung("  why:  ", &self.why, (8, width), &mut out);
        if let Some(next) = &self.next {
            hung("  next: ", next, (8, width), &mut out);
        }
        if let Some(verify) = self.verify.as_ref().filter(|_| verifies && self.next.is_some()) {
            append_verified("  then: ", (self.command.as_deref(), verify), (8, width), &mut out);
        }
        if let Some((level, reason)) = self.confidence.zip(self.confidence_reason.as_ref()) {
            hung("  sure: ", &format!("{}: {reason}", level.word()), (8, width), &mut out);
        }
        out
    }
}

/// Returns the sentences of the verdict, and the headline without its next step. `pools` are processes that wait for
/// worker pools.
pub fn conclude(summary: &Summary, pools: &[RankGroup]) -> (Vec<String>, Headline) {
    let training = training_waits(summary);
    // Another thread may wait for workers while the first one trains.
    let is_first = |group: &&RankGroup| group.tid == group.pid;
    let pools: Vec<RankGroup> = pools.iter().filter(is_first).cloned().collect();
    let verdict = sentences(summary, training.as_ref(), &pools);
    if summary.allocation.events == 0 {
        let headline = Headline::without_events(verdict.first().map_or("", String::as_str));
        return (verdict, headline);
    }
    let headline = headline(summary, training.as_ref(), waits(&pools).as_ref());
    (verdict, headline)
}

fn headline(summary: &Summary, waits: Option<&Waits>, pools: Option<&Waits>) -> Headline {
    if let Some(lost) = lost_share(summary) {
        let why = format!("{lost} of the events are lost, so the numbers below do not describe the whole run.");
        let text = "UNKNOWN: too many events are lost".into();
        return Headline { text, ..Headline::new(Bottleneck::Unknown, why) };
    }
    match waits {
        _ if let Some(ranks) = decisive(summary, waits) => of_communication(&ranks),
        Some(waits) => of_training(summary, waits),
        None => without_training(summary, pools),
    }
}

/// Returns the communication of ranks if it takes more of their time than anything else that is known.
pub(super) fn decisive<'a>(summary: &'a Summary, waits: Option<&Waits>) -> Option<RanksTime<'a>> {
    let other = match waits {
        Some(waits) if waits.groups.iter().any(|group| !group.inferred) => return None,
        // The rank that arrives last does not wait for other ranks.
        Some(waits) if waits.waiting_ranks().is_some() && waits.lost() >= LIMITING => return None,
        Some(waits) => waits.lost().max(waits.written_share()),
        None => own_reads(summary).map_or(0.0, |reads| reads.share()),
    };
    of_ranks(summary).filter(|ranks| ranks.share() >= FREE && ranks.share() > other)
}

fn of_communication(ranks: &RanksTime) -> Headline {
    let part = ranks.share();
    let partly = if part < LIMITING { "PARTLY " } else { "" };
    let bottleneck = Bottleneck::SynchronizationBound;
    Headline {
        share: Some(part),
        certainty: Certainty::Measured,
        text: format!(
            "{partly}{}: {} spend {} of their time in communication (measured)",
            bottleneck.title(),
            ranks.who(),
            Unit::Share.text(part)
        ),
        ..Headline::new(bottleneck, ranks.sentence())
    }
}

/// A training thread that waited for a CPU for this share of the training is limited by that.
const NO_CPU: f64 = 0.25;

fn of_training(summary: &Summary, waits: &Waits) -> Headline {
    if waits.is_doubtful() {
        let why = format!(
            "{} spent {} of {} waiting for something that the trace does not identify.",
            waits.who(),
            time(waits.unidentified() as f64),
            waits.mean(waits.trained)
        );
        return Headline::new(Bottleneck::Unknown, why);
    }
    let data = waits.lost();
    // Every thread waits for a CPU now and then.
    let no_cpu = Some(waits.sum_share(|group| group.own_no_cpu_ns)).filter(|part| *part >= NO_CPU).unwrap_or(0.0);
    // Fewer writes would not help if they mostly wait for a CPU.
    let with_cpu = waits.written_share_with_cpu();
    let written = if with_cpu < no_cpu { with_cpu } else { waits.written_share() };
    let others = [
        (written, if saves(summary) { Bottleneck::CheckpointBound } else { Bottleneck::WriteBound }),
        (waits.sum_share(|group| group.own_work_ns), Bottleneck::OwnWork),
        (waits.sum_share(|group| group.lock_wait_ns), Bottleneck::OwnLock),
        (waits.sum_share(|group| group.own_read_ns), Bottleneck::OwnReads),
        (waits.sum_share(|group| group.own_gil_ns), Bottleneck::OwnGil),
        (no_cpu, Bottleneck::OwnNoCpu),
        (waits.sum_share(|group| group.peer_wait_ns), Bottleneck::SynchronizationBound),
        (waits.sum_share(|group| group.unknown_wait_ns), Bottleneck::Unknown),
    ];
    let is_pipe = |bottleneck: Bottleneck| {
        use Bottleneck::{CheckpointBound, OwnReads, WriteBound};
        waits.pipe.is_some() && [CheckpointBound, OwnReads, WriteBound].contains(&bottleneck)
    };
    let others = others.map(|(part, own)| (part, if is_pipe(own) { Bottleneck::PipeBound } else { own }));
    // A wait of the host costs no more than the time in which the GPU had no work.
    let limit = waits.gpus.as_ref().map_or(1.0, Gpus::idle_share);
    let others = others.map(|(part, bottleneck)| (part.min(limit), bottleneck));
    let largest = others.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(part, _)| *part >= FREE);
    let on_gpu = || waits.gpus.as_ref().and_then(|gpus| of_gpus(gpus, waits));
    match largest {
        _ if let Some(ranks) = waits.victims_of_more(data.max(largest.map_or(0.0, |(part, _)| part))) => {
            of_victims(waits, ranks)
        }
        _ if data < FREE && waits.gpus.as_ref().is_some_and(Gpus::are_busy) => {
            on_gpu().unwrap_or_else(|| of_none(summary, waits))
        }
        Some((_, Bottleneck::OwnWork)) if data >= FREE && waits.readers_set_pace() => of_data(summary, waits, data),
        Some((part, Bottleneck::PipeBound)) if part > data => of_pipe(waits, part),
        Some((part, bottleneck)) if part > data => of_another_wait(waits, bottleneck, part),
        _ if data >= LIMITING || data >= FREE && !may_poll(summary, waits) => of_data(summary, waits, data),
        _ => on_gpu().unwrap_or_else(|| of_none(summary, waits)),
    }
}

/// Returns `true` if the trace shows checkpoints, by spans or by large written files.
fn saves(summary: &Summary) -> bool {
    summary.checkpoints.spans > 0 || summary.checkpoints.files > 0
}

fn certainty(waits: &Waits) -> Certainty {
    match () {
        _ if waits.groups.iter().any(|group| group.gpu_untimed) => Certainty::UpperBound,
        _ if waits.groups.iter().any(|group| group.inferred) => Certainty::Inferred,
        _ => Certainty::Measured,
    }
}

fn certainty_text(waits: &Waits) -> &'static str {
    match (certainty(waits), &waits.gpus) {
        (Certainty::Measured, Some(_)) => "measured by spans and the GPU's clock",
        (Certainty::Measured, None) => "measured by spans",
        (Certainty::Inferred, Some(_)) => "inferred from calls, with the GPU's clock",
        (Certainty::Inferred, None) => "inferred from calls",
        (Certainty::UpperBound, _) if waits.groups.iter().any(|group| group.device.is_some()) => {
            "upper bound: the GPU was not timed all the time"
        }
        (Certainty::UpperBound, _) => "upper bound: the GPU was not timed",
        (Certainty::Unknown, _) => "unknown",
    }
}

fn with_share(bottleneck: Bottleneck, title: &str, part: f64, waits: &Waits, (lost, why): (&str, String)) -> Headline {
    // Spans show waits for data; only calls show other waits.
    let by_calls = bottleneck.other_wait().is_some() || matches!(bottleneck, Bottleneck::OwnGil | Bottleneck::OwnNoCpu);
    let by_calls = by_calls && certainty(waits) != Certainty::UpperBound;
    let certainty = if by_calls { Certainty::Inferred } else { certainty(waits) };
    let partly = if part < LIMITING { "PARTLY " } else { "" };
    let limit = match bottleneck {
        _ if certainty == Certainty::UpperBound || waits.is_shared_loss() => "up to ",
        Bottleneck::CheckpointBound if waits.lacks_checkpoint_spans() => "at least ",
        _ => "",
    };
    Headline {
        share: Some(part),
        certainty,
        text: format!(
            "{partly}{title}: {limit}{} of {} {lost} ({})",
            Unit::Share.text(part),
            waits.wording().noun(),
            match certainty {
                Certainty::Inferred if is_in_own_calls(bottleneck) => "measured by calls",
                Certainty::Inferred if by_calls => "inferred from calls",
                _ => certainty_text(waits),
            }
        ),
        ..Headline::new(bottleneck, why)
    }
}

/// Returns `true` if calls of the training thread itself take the time.
pub(super) fn is_in_own_calls(bottleneck: Bottleneck) -> bool {
    matches!(bottleneck, Bottleneck::CheckpointBound | Bottleneck::WriteBound | Bottleneck::OwnReads)
}

/// Returns `true` if the training thread saves files, and mostly works between opening and closing them.
pub(super) fn is_saving(bottleneck: Bottleneck, waits: &Waits) -> bool {
    matches!(bottleneck, Bottleneck::CheckpointBound | Bottleneck::WriteBound) && waits.saves_outside_calls()
}

fn of_another_wait(waits: &Waits, bottleneck: Bottleneck, part: f64) -> Headline {
    let trained = waits.mean(waits.trained);
    let ns = |of: fn(&RankGroup) -> Option<i64>| waits.mean(waits.total(of));
    let kind = bottleneck.other_wait().map(|(kind, _)| kind);
    let (noun, thread) = (waits.wording().noun(), waits.wording().thread());
    let waiting = |what: &str, of: fn(&RankGroup) -> Option<i64>| {
        let data = waits.mean(waits.waited);
        let ender = kind.and_then(|kind| waits.ender(kind, waits.total(of)));
        let named = ender.map_or(String::new(), |(row, part)| match part {
            part if part >= ALL => format!(": {}", row.named()),
            part => format!(" ({} of that: {})", Unit::Share.text(part), row.named()),
        });
        format!("{noun} waited {} of {trained} for {what}{named}. Waits for its readers took another {data}.", ns(of))
    };
    let (lost, why) = match bottleneck {
        Bottleneck::CheckpointBound | Bottleneck::WriteBound => (
            if is_saving(bottleneck, waits) { "is spent saving files" } else { "is spent writing files" },
            writing(waits, bottleneck, thread, &trained),
        ),
        Bottleneck::OwnReads => (
            "is spent reading files in its own thread",
            format!(
                "{thread} itself spent at least {} of {trained} reading {}, and {} waiting for its readers.",
                ns(|group| group.own_read_ns),
                if waits.mostly_faults() { "mapped files, in page faults" } else { "files" },
                waits.mean(waits.waited)
            ),
        ),
        Bottleneck::OwnGil => (
            "is spent waiting for Python's interpreter lock",
            format!(
                "{thread} waited {} of {trained} for the interpreter lock (GIL), which other threads held; it waited {} for data.",
                ns(|group| group.own_gil_ns),
                waits.mean(waits.waited)
            ),
        ),
        Bottleneck::OwnNoCpu => (
            "is spent waiting for a CPU",
            format!(
                "{thread} waited for a CPU for {} of {trained}, and for its readers for {}.{}",
                ns(|group| group.own_no_cpu_ns),
                waits.mean(waits.waited),
                beside_writes(waits)
            ),
        ),
        Bottleneck::OwnWork => (
            "is spent waiting for its own threads or programs",
            waiting("its own threads or programs", |group| group.own_work_ns),
        ),
        Bottleneck::OwnLock => {
            ("is spent waiting for locks", waiting("locks that other threads held", |group| group.lock_wait_ns))
        }
        Bottleneck::SynchronizationBound => (
            "is spent waiting for other ranks, processes or the network",
            waiting("other ranks or processes, or for the network", |group| group.peer_wait_ns),
        ),
        _ => (
            "is spent waiting for something that the trace does not identify",
            waiting("a lock without calls, a device or the like", |group| group.unknown_wait_ns),
        ),
    };
    let title = if is_saving(bottleneck, waits) { SAVING.to_string() } else { bottleneck.title_of(waits.wording()) };
    with_share(bottleneck, &title, part, waits, (lost, capital(&why)))
}

/// The title if most of the time of writes lies between opening and closing files.
const SAVING: &str = "SAVING-BOUND";

/// Returns the sentence on the writes of a training thread.
fn writing(waits: &Waits, bottleneck: Bottleneck, thread: &str, trained: &str) -> String {
    // Without spans, only calls show a checkpoint.
    let is_lower = bottleneck == Bottleneck::CheckpointBound && waits.lacks_checkpoint_spans();
    let rest = if is_lower {
        " Work before their files are opened (copies from the GPU, pickling) is not included."
    } else {
        ""
    };
    let (written, last) = (time(waits.written() as f64), waits.of_written_last());
    let without = waits.of_written_without_cpu();
    let (saving, in_calls) = waits.of_written_calls();
    format!("{thread} spent {written} of {trained} {saving}{last}{without}{in_calls}.{rest}")
}

/// Returns the sentence on the writes of a training thread that mostly waits for a CPU, if they are long.
fn beside_writes(waits: &Waits) -> String {
    match waits.written_share() >= FREE {
        true => {
            format!(" Writing files took {}{}.", time(waits.written() as f64), waits.of_written_without_cpu())
        }
        false => String::new(),
    }
}

/// Returns the headline of a training thread that spends its time in calls on a named pipe.
fn of_pipe(waits: &Waits, part: f64) -> Headline {
    let why = format!(
        "{} spent {} of {} in calls on {}, waiting for the program at its other end.",
        waits.wording().thread(),
        waits.mean((part * waits.trained as f64) as i64),
        waits.mean(waits.trained),
        waits.pipe.as_deref().unwrap_or("a pipe")
    );
    let lost = ("is spent in calls on a named pipe", capital(&why));
    with_share(Bottleneck::PipeBound, Bottleneck::PipeBound.title(), part, waits, lost)
}

/// Returns the headline of a training that hardly waits for data, by the time of its GPUs.
fn of_gpus(gpus: &Gpus, waits: &Waits) -> Option<Headline> {
    let (sum, noun) = (&gpus.sum, waits.wording().noun());
    let (busy, rest) = (gpus.part(sum.busy_ns), gpus.part(sum.idle_rest_ns));
    let hidden = if gpus.hides() { format!("; {}", gpus.hidden()) } else { String::new() };
    let text = |title: &str, part: f64, what: &str| {
        format!("{title}: the GPU was {what} for {} of {noun} (measured)", Unit::Share.text(part))
    };
    let (bottleneck, text, share, why) = if gpus.are_busy() {
        let (idle, data) = (gpus.shown(sum.idle_ns), gpus.mean(sum.idle_data_ns));
        let idle = format!("idle for {idle}, {data} of that while {noun} waited for data{hidden}");
        let why = match gpus.turns() {
            Some(each) => format!("{each}; all of them were {idle}."),
            None => format!("The GPU was {idle}."),
        };
        (Bottleneck::GpuBound, text(Bottleneck::GpuBound.title(), busy, "busy"), busy, why)
    } else if rest >= FREE {
        let partly = if rest < LIMITING { "PARTLY " } else { "" };
        let times = many(sum.syncs, "time", "times");
        let synced = match gpus.part(sum.sync_ns) {
            part if part >= SYNCED => {
                format!("; the training thread waited for the GPU {times} ({})", gpus.shown(sum.sync_ns))
            }
            _ => String::new(),
        };
        let why = format!(
            "{}; for {} the host had not launched work{synced}{hidden}.",
            gpus.busy(),
            gpus.shown(sum.idle_rest_ns)
        );
        let title = format!("{partly}{}", Bottleneck::GpuIdle.title());
        (Bottleneck::GpuIdle, text(&title, rest, "idle without work"), rest, why)
    } else {
        return in_turns(gpus, noun, &hidden);
    };
    Some(Headline { share: Some(share), certainty: Certainty::Measured, text, ..Headline::new(bottleneck, why) })
}

/// Returns the headline of GPUs of one process that are idle while others of it work; `None` if they are not.
fn in_turns(gpus: &Gpus, noun: &str, hidden: &str) -> Option<Headline> {
    let (each, idle) = (gpus.turns()?, gpus.mean_idle_share());
    if idle < FREE {
        return None;
    }
    let partly = if idle < LIMITING { "PARTLY " } else { "" };
    let (title, part) = (Bottleneck::GpusTakeTurns.title(), Unit::Share.text(idle));
    let text = format!(
        "{partly}{title}: each GPU was idle for {part} of {noun} on average, mostly while another one worked (measured)"
    );
    let headline = Headline::new(Bottleneck::GpusTakeTurns, format!("{each}{hidden}."));
    Some(Headline { share: Some(idle), certainty: Certainty::Measured, text, ..headline })
}

/// Returns the headline of ranks that wait for one of them, which does something that the trace does not show.
fn of_victims(waits: &Waits, (part, ranks): (f64, String)) -> Headline {
    let bottleneck = Bottleneck::SynchronizationBound;
    let partly = if part < LIMITING { "PARTLY " } else { "" };
    let certainty = certainty(waits);
    let wrote = match waits.written_share() {
        part if part >= FREE => format!(" and wrote files for {}", time(waits.written() as f64)),
        _ => String::new(),
    };
    let reason = if waits.lost() < FREE { ", but not because of its data" } else { "" };
    let why = format!(
        "The others wait for {}{reason}: it waited {} of {} for batches{wrote}. Calls do not show what it did in the rest.",
        waits.who(),
        waits.mean(waits.waited),
        waits.mean(waits.trained),
    );
    Headline {
        share: Some(part),
        certainty,
        text: format!("{partly}{}: {ranks} ({})", bottleneck.title(), certainty_text(waits)),
        ..Headline::new(bottleneck, why)
    }
}

fn of_none(summary: &Summary, waits: &Waits) -> Headline {
    if waits.has_no_readers() {
        let why = format!(
            "no readers of {} were recognized; calls do not show how long its own thread works on data.",
            waits.who()
        );
        return Headline::new(Bottleneck::Unknown, capital(&why));
    }
    let computed: Option<i64> = waits.groups.iter().map(|group| group.computed_ns).sum();
    let computing = computed.filter(|ns| *ns as f64 >= COMPUTES * waits.trained as f64);
    let waited = format!("{} of {}", waits.mean(waits.waited), waits.mean(waits.trained));
    let after = waits.mostly_after(summary.time.end_ts);
    let (bottleneck, more) = match computing {
        Some(ns) => (Bottleneck::ComputeBound, format!(" and computed for {}", waits.mean(ns))),
        None => (Bottleneck::NotDataBound, String::new()),
    };
    let certainty = certainty(waits);
    let part = waits.lost();
    // Calls do not show work of the trainer's own thread on its data.
    let is_inferred = certainty == Certainty::Inferred;
    if let Some(why) = polled(summary, waits) {
        return Headline::new(Bottleneck::Unknown, why);
    }
    let (title, maker) = if is_inferred { ("NOT READER-BOUND", "readers") } else { (bottleneck.title(), "data") };
    let waited = match waits.waited {
        0 => "did not wait".into(),
        _ => format!("waited {waited}"),
    };
    Headline {
        share: Some(part),
        certainty,
        text: format!(
            "{title}: {} of {} is spent waiting for {maker} ({})",
            Unit::Share.text(part),
            waits.wording().noun(),
            certainty_text(waits)
        ),
        ..Headline::new(bottleneck, format!("{} {waited} for {}{more}.{after}", waits.who(), waits.wording().items()))
    }
}

/// Returns `true` if short sleeps of a trainer may be a larger wait for data than the one whose cause is unknown.
fn may_poll(summary: &Summary, waits: &Waits) -> bool {
    cause_of(waits).0.is_open() && polled(summary, waits).is_some()
}

/// Returns the sentence on the short sleeps of a trainer if they take a considerable part of its time. Spans show what they are
/// for.
fn polled(summary: &Summary, waits: &Waits) -> Option<String> {
    let group = waits.groups.first().filter(|_| certainty(waits) == Certainty::Inferred)?;
    let polled_ns = summary.processes.iter().find(|process| process.proc == group.proc)?.first_thread?.polled_ns;
    (polled_ns as f64 >= FREE * group.trained_ns as f64).then(|| {
        format!(
            "{} slept {} of {} in rows of short sleeps: it may look for a batch again and again, which calls do not show.",
            waits.who(),
            time(polled_ns as f64),
            waits.mean(waits.trained)
        )
    })
}

fn of_data(summary: &Summary, waits: &Waits, part: f64) -> Headline {
    let (mut bottleneck, mut detail) = cause_of(waits);
    if bottleneck == Bottleneck::StorageBound && waits.pipe.is_some() {
        (bottleneck, detail) = (Bottleneck::PipeBound, detail.replacen("storage", "reads of a named pipe", 1));
    }
    let title = match (bottleneck, &waits.shortage) {
        (Bottleneck::CpuLimited, Some(shortage)) => format!("{} ({})", bottleneck.title(), shortage_name(shortage)),
        _ => bottleneck.title().into(),
    };
    let each = if waits.groups.len() > 1 { " on average" } else { "" };
    let mut why = format!(
        "{} spent {} of {}{each} waiting for {}{}; {detail}",
        waits.who(),
        waits.mean(waits.waited),
        waits.mean(waits.trained),
        waits.wording().items(),
        waits.number_of_readers(),
    );
    if let (Bottleneck::CpuLimited, Some(Shortage::Quota(quota))) = (bottleneck, &waits.shortage) {
        why += &format!("; {}", quota_text(quota).replacen("The", "the", 1));
    }
    let startup = waits.groups.iter().filter_map(|group| group.startup_ns).max().unwrap_or(0);
    if bottleneck == Bottleneck::StartupBound && startup > waits.trained / waits.groups.len() as i64 {
        why += &format!("; another {} passed before {} started", time(startup as f64), waits.wording().noun());
    }
    if waits.is_shared_loss() {
        let slowest = waits.slowest().map_or("the slowest one".into(), |(who, _)| format!("{who}, the slowest one,"));
        why += &format!("; ranks that wait for {slowest} lose up to {}", Unit::Share.text(part));
    }
    if let Some(gpus) = waits.gpus.as_ref().filter(|gpus| gpus.hides()) {
        why += &format!("; {}", gpus.hidden());
    }
    if let Some(others) = waits.waiting_ranks() {
        why += &format!("; {others}");
    }
    if waits.sum_share(|group| group.own_work_ns) > part {
        let own = waits.mean(waits.total(|group| group.own_work_ns));
        why += &format!(
            "; it waited longer for its own threads or programs, {own}, but its readers were never idle and so set the pace"
        );
    }
    why += ".";
    if let Some(served) = served_to_readers(summary).filter(|_| bottleneck == Bottleneck::DataBoundUnknown) {
        why += &format!(" {served}");
    }
    with_share(bottleneck, &title, part, waits, ("is spent waiting for data", why))
}

/// Returns the bottleneck of a wait for data, and the number that proves it.
fn cause_of(waits: &Waits) -> (Bottleneck, String) {
    match &waits.causes {
        Some(causes) => of_known_causes(causes, waits.maker()),
        None => of_reader_work(waits),
    }
}

/// Returns the bottleneck of the largest cause of a wait.
pub(super) fn largest_cause(causes: &Parts) -> Option<Bottleneck> {
    by_bottleneck(causes).first().map(|(bottleneck, ..)| *bottleneck)
}

/// Returns the bottlenecks of the two largest causes of a wait, if neither is small.
pub(super) fn two_causes(causes: &Parts) -> Option<[Bottleneck; 2]> {
    let whole = causes.sum().max(1);
    let sums = by_bottleneck(causes);
    match sums.as_slice() {
        [first, second, ..] if second.1 as f64 / whole as f64 >= SECOND => Some([first.0, second.0]),
        _ => None,
    }
}

/// Groups causes by bottleneck, the largest first.
fn of_known_causes(causes: &Parts, maker: Maker) -> (Bottleneck, String) {
    let whole = causes.sum().max(1);
    let sums = by_bottleneck(causes);
    let named = |(bottleneck, ns, cause): &(Bottleneck, i64, Part)| {
        let name = match bottleneck {
            Bottleneck::StorageBound => "storage",
            Bottleneck::DataBoundUnknown => "unknown",
            _ => label(*cause, maker),
        };
        (name, share(*ns, whole))
    };
    let part = |ns: i64| ns as f64 / whole as f64;
    match sums.as_slice() {
        [first, second, ..] if part(first.1) < MOST || part(second.1) >= SECOND => {
            let bottleneck = if part(first.1) < MOST { Bottleneck::DataBoundMixed } else { first.0 };
            let ((name, share), (other, rest)) = (named(first), named(second));
            (bottleneck, format!("main causes of that wait: {name} ({share}) and {other} ({rest})"))
        }
        [first, second, ..] if part(second.1) >= NAMED => {
            let ((name, share), (other, rest)) = (named(first), named(second));
            (first.0, format!("main cause of that wait: {name} ({share}), then {other} ({rest})"))
        }
        [first, ..] => {
            let (name, share) = named(first);
            (first.0, format!("main cause of that wait: {name} ({share})"))
        }
        _ => (Bottleneck::DataBoundUnknown, "its cause is unknown".into()),
    }
}

/// Sums causes by bottleneck, the largest first, each with its largest cause.
fn by_bottleneck(causes: &Parts) -> Vec<(Bottleneck, i64, Part)> {
    let mut sums: Vec<(Bottleneck, i64, Part)> = Vec::new();
    for cause in Part::CAUSES.into_iter().filter(|cause| causes.get(*cause) > 0) {
        let (bottleneck, ns) = (Bottleneck::of_cause(cause), causes.get(cause));
        match sums.iter_mut().find(|(other, ..)| *other == bottleneck) {
            Some((_, sum, largest)) => {
                *sum += ns;
                *largest = if ns > causes.get(*largest) { cause } else { *largest };
            }
            None => sums.push((bottleneck, ns, cause)),
        }
    }
    sums.sort_by_key(|(_, sum, _)| std::cmp::Reverse(*sum));
    sums
}

/// Returns the bottleneck according to the readers' work during the wait, if the trace does not show what ended the
/// wait.
fn of_reader_work(waits: &Waits) -> (Bottleneck, String) {
    if waits.lost_at_work() < FREE {
        return (
            Bottleneck::StartupBound,
            format!(
                "{} of it while readers were starting (including their one-time work) or ending",
                waits.mean(waits.starting)
            ),
        );
    }
    let at_work = waits.at_work().max(1);
    let Some(io) = waits.io else {
        return (Bottleneck::DataBoundUnknown, "the trace does not show what its readers did during that time".into());
    };
    let io_share = format!("its readers spent {} of that wait in I/O", share(io, at_work));
    match io as f64 / at_work as f64 {
        part if part >= STORAGE => (Bottleneck::StorageBound, io_share),
        part if part < NO_STORAGE => {
            (Bottleneck::DataBoundUnknown, format!("{io_share}, so most of it is unexplained"))
        }
        _ => (Bottleneck::DataBoundMixed, io_share),
    }
}

fn shortage_name(shortage: &Shortage) -> &'static str {
    match shortage {
        Shortage::Quota(_) => "quota",
        Shortage::Mask { .. } => "affinity",
        Shortage::Threads { .. } | Shortage::Pools { .. } => "too many threads",
        Shortage::Others { .. } => "other processes",
        Shortage::Own { .. } => "all CPUs busy",
    }
}

/// Explains why counts show no waits.
fn missing_in(tally: &Tally) -> &'static str {
    match tally.untimed {
        0 => "calls were counted, not recorded, so the trace does not show when training waited.",
        _ => "a Darshan log has sums per file: it does not show which calls overlapped, or when training waited.",
    }
}

/// Returns the headline of a trace in which no training is known to have waited.
fn without_training(summary: &Summary, pools: Option<&Waits>) -> Headline {
    let spent = &summary.time;
    if let Some(tally) = &summary.tally {
        return Headline::new(Bottleneck::Unknown, capital(missing_in(tally)));
    }
    if summary.calls() == 0 || !summary.knows_times() {
        let why = "the trace has no calls with durations, so it does not show how long I/O took.";
        return Headline::new(Bottleneck::Unknown, capital(why));
    }
    let io = share(spent.io_ns.unwrap_or(0), spent.total_ns);
    let active = format!("I/O was active for {io} of the {} run", time(spent.total_ns as f64));
    if let Some(alone) = spent.unoverlapped_io_ns {
        let why = format!("{active}, and for {} of the run while nothing computed.", share(alone, spent.total_ns));
        return Headline::new(Bottleneck::Unknown, why);
    }
    if let Some(pools) = pools {
        let why = format!("{} {active}.", pools.for_workers());
        return Headline::new(Bottleneck::NoTraining, why);
    }
    if saves_alone(summary) {
        let (spans, took) = (summary.checkpoints.spans, time(summary.checkpoints.span_ns as f64));
        let why = format!(
            "{} took {took}, summed over processes; {active}.",
            many(spans, "checkpoint span", "checkpoint spans")
        );
        return Headline::new(Bottleneck::NoTraining, why);
    }
    match (own_reads(summary), own_faults(summary)) {
        (Some(reads), faults) if faults.is_none_or(|(_, mapped)| mapped.part() < reads.share()) => {
            of_main_thread(summary, &reads)
        }
        (_, Some((name, mapped))) if mapped.part() >= FREE => of_own_faults(name, &mapped),
        (Some(reads), _) => of_main_thread(summary, &reads),
        _ if !may_train(summary) => without_trainer(summary, &active),
        _ => {
            let more = [slept(summary), served(summary)].into_iter().flatten();
            let more: String = more.map(|text| format!(" {text}")).collect();
            let why = format!(
                "Calls do not show when training requested a batch, or which thread delivered it; {active}.{more}"
            );
            Headline::new(Bottleneck::Unknown, why)
        }
    }
}

/// Returns the headline of a trace in which no program is known to train.
fn without_trainer(summary: &Summary, active: &str) -> Headline {
    let doubt = doubt(summary).map_or_else(String::new, |text| format!(" {text}"));
    let why = format!("No process in this trace looks like a training job; {active}.{doubt}");
    Headline::new(Bottleneck::NoTraining, why)
}

/// Returns the headline of a program whose main thread waits for page faults of mapped files.
fn of_own_faults(name: &str, mapped: &Mapped) -> Headline {
    let (why, part) = (faulted((name, mapped)), mapped.part());
    if part < LIMITING {
        return Headline::new(Bottleneck::Unknown, format!("{why} The rest may be preprocessing or training."));
    }
    let (bottleneck, spent) = (Bottleneck::StorageBound, Unit::Share.text(part));
    Headline {
        share: Some(part),
        certainty: Certainty::Inferred,
        text: format!(
            "POSSIBLY {}: at least {spent} of the time after the first mapping of a file is spent in page faults (if that is \
             the training)",
            bottleneck.title()
        ),
        ..Headline::new(bottleneck, why)
    }
}

/// Returns the headline of a program that reads in its main thread.
fn of_main_thread(summary: &Summary, reads: &OwnReads) -> Headline {
    let (name, part, times) = (reads.name, reads.share(), reads.times());
    let spent = Unit::Share.text(part);
    if part < LIMITING {
        let why = format!(
            "{name} reads in its main thread, and its reads took {times} of its loop; the rest may be preprocessing or training."
        );
        return Headline::new(Bottleneck::Unknown, why);
    }
    let source = source(summary);
    let is_pipe = source.as_ref().is_some_and(|(_, is_pipe)| *is_pipe);
    // Reads of a pipe wait neither for storage nor for the cache.
    let cause = source.map(|(text, _)| text).or_else(|| read_from_cache(summary));
    let (title, bottleneck) = match cause {
        Some(_) if is_pipe => (Bottleneck::PipeBound.title(), Bottleneck::PipeBound),
        Some(_) => ("DATA-BOUND", Bottleneck::DataBoundMixed),
        None => (Bottleneck::StorageBound.title(), Bottleneck::StorageBound),
    };
    let from = cause.map_or_else(String::new, |text| format!("; {text}"));
    Headline {
        share: Some(part),
        certainty: Certainty::Inferred,
        text: format!(
            "POSSIBLY {title}: at least {spent} of the loop is spent in reads (if this loop is the training)"
        ),
        ..Headline::new(
            bottleneck,
            format!("{name} reads in its main thread, and its reads took {times} of its loop{from}."),
        )
    }
}
