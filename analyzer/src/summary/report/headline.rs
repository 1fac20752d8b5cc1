//! The verdict box: the bottleneck in one line, the two numbers that prove it, and the next step.
//!
//! The box summarizes the sentences of [`verdict`](super::verdict). It never claims more than they do: it reports a
//! mixed or unknown cause as such. Findings are judged later, so [`Headline::recommend`] adds the next step, and
//! [`confidence`](super::confidence) how sure the verdict is.

use serde::{Deserialize, Serialize};

use super::Summary;
use super::causes::label;
use super::findings::{Finding, Severity, Unit};
use super::layout::{hung, wrapped};
use super::no_cpu::Shortage;
use super::verdict::{FREE, LIMITING, NO_STORAGE, STORAGE, Waits};
use super::verdict::{
    lost_share, may_train, own_reads, read_from_cache, saves_alone, sentences, training_waits, waits,
};
use super::what_if::{advisable, is_crowded, outcome};
use crate::replay::predict::Prediction;
use crate::summary::count::tally::Tally;
use crate::summary::figures::units::{many, share, time};
use crate::summary::training::RankGroup;
use crate::summary::waits::parts::{Part, Parts};
use crate::summary::waits::trainers::WaitKind;

/// A cause that takes this share of the wait is the bottleneck; below it the causes are mixed.
const MOST: f64 = 0.5;

/// A thread that ended this share of waits ended all that matter.
const ALL: f64 = 0.95;

/// The second largest cause is named if it takes this share of the wait.
const SECOND: f64 = 0.25;

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
    PreprocessingBound,
    /// Calls on files use the CPU of the readers: they are served from memory.
    FileCallBound,
    TransferBound,
    NetworkBound,
    LockBound,
    GilBound,
    CpuLimited,
    SleepBound,
    SubprocessBound,
    StartupBound,
    PrefetchBound,
    /// Training waits for batches of readers that have ended.
    ReaderDied,
    /// The memory through which readers pass batches is full, which ends readers or the run.
    SharedMemoryFull,
    /// Training waits for data because of several causes.
    DataBoundMixed,
    /// Training waits for data, and the cause is unknown.
    DataBoundUnknown,
    CheckpointBound,
    WriteBound,
    OwnWork,
    /// Training waits for a lock that another thread holds that makes no batches.
    OwnLock,
    /// The training thread reads files itself, in addition to its readers.
    OwnReads,
    SynchronizationBound,
    ComputeBound,
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
            Bottleneck::PreprocessingBound => "PREPROCESSING-BOUND",
            Bottleneck::FileCallBound => "FILE-CALL-BOUND",
            Bottleneck::TransferBound => "TRANSFER-BOUND",
            Bottleneck::NetworkBound => "NETWORK-BOUND",
            Bottleneck::LockBound => "LOCK-BOUND",
            Bottleneck::GilBound => "GIL-BOUND",
            Bottleneck::CpuLimited => "CPU-LIMITED",
            Bottleneck::SleepBound => "SLEEP-BOUND",
            Bottleneck::SubprocessBound => "SUBPROCESS-BOUND",
            Bottleneck::StartupBound => "STARTUP-BOUND",
            Bottleneck::PrefetchBound => "PREFETCH-BOUND",
            Bottleneck::ReaderDied => "READER DIED",
            Bottleneck::SharedMemoryFull => "SHARED MEMORY FULL",
            Bottleneck::DataBoundMixed => "DATA-BOUND, MIXED CAUSES",
            Bottleneck::DataBoundUnknown => "DATA-BOUND, CAUSE UNKNOWN",
            Bottleneck::CheckpointBound => "CHECKPOINT-BOUND",
            Bottleneck::WriteBound => "WRITE-BOUND",
            Bottleneck::OwnWork => "OWN-WORK",
            Bottleneck::OwnLock => "LOCK-BOUND IN THE TRAINING THREAD",
            Bottleneck::OwnReads => "STORAGE-BOUND IN THE TRAINING THREAD",
            Bottleneck::SynchronizationBound => "SYNCHRONIZATION-BOUND",
            Bottleneck::ComputeBound => "COMPUTE-BOUND",
            Bottleneck::NotDataBound => "NOT DATA-BOUND",
            Bottleneck::NoTraining => "NO TRAINING",
            Bottleneck::NoEvents => "NO EVENTS",
            Bottleneck::Unknown => "UNKNOWN",
        }
    }

    /// Returns `true` if faster data loading would not shorten the run.
    fn is_free(self) -> bool {
        matches!(self, Bottleneck::ComputeBound | Bottleneck::NotDataBound)
    }

    /// Returns `true` if it is a cause of a wait for data.
    pub(super) fn is_wait_for_data(self) -> bool {
        use Bottleneck::*;
        let others = [
            CheckpointBound,
            WriteBound,
            OwnWork,
            OwnLock,
            OwnReads,
            SynchronizationBound,
            ComputeBound,
            NotDataBound,
            NoTraining,
            NoEvents,
            SharedMemoryFull,
            Unknown,
        ];
        !others.contains(&self)
    }

    /// Returns `true` if more evidence is the next step.
    fn is_open(self) -> bool {
        matches!(self, Bottleneck::Unknown | Bottleneck::DataBoundUnknown)
    }

    /// Returns `true` if the rule's change addresses the bottleneck.
    fn concerns(self, rule: &str) -> bool {
        let is_in = |rules: &[&str]| rules.contains(&rule);
        match self {
            Bottleneck::StorageBound => is_in(&READS) || is_in(&LOADER),
            Bottleneck::OwnReads => is_in(&READS),
            Bottleneck::FileCallBound => is_in(&CALLS),
            Bottleneck::PreprocessingBound => {
                is_in(&["loader-cpu-bound", "small-reads", "tiny-stdio"]) || is_in(&LOADER)
            }
            Bottleneck::CpuLimited => is_in(&CPUS) || rule == "loader-cpu-bound",
            Bottleneck::GilBound => is_in(&["loader-cpu-bound", "too-many-threads"]),
            Bottleneck::TransferBound => rule == "hand-over",
            Bottleneck::NetworkBound => is_in(&["network-wait", "store-throttled", "store-retries", "small-objects"]),
            Bottleneck::LockBound => rule == "lock-wait",
            Bottleneck::SleepBound => rule == "reader-sleep",
            Bottleneck::SubprocessBound => rule == "reader-programs",
            Bottleneck::StartupBound => rule == "workers-restart",
            Bottleneck::ReaderDied => rule == "process-killed",
            Bottleneck::CheckpointBound | Bottleneck::WriteBound => is_in(&WRITES),
            Bottleneck::SynchronizationBound => is_in(&["straggler-rank", "byte-imbalance"]),
            Bottleneck::PrefetchBound => is_in(&LOADER),
            Bottleneck::DataBoundMixed => {
                let others = [
                    "loader-cpu-bound",
                    "hand-over",
                    "network-wait",
                    "lock-wait",
                    "reader-programs",
                    "reader-sleep",
                    "workers-restart",
                ];
                is_in(&READS) || is_in(&LOADER) || is_in(&CPUS) || is_in(&others)
            }
            _ => false,
        }
    }

    /// Returns the step to take if no finding recommends one.
    fn general_step(self) -> &'static str {
        match self {
            Bottleneck::StorageBound => {
                "read ahead in more threads or processes, prefetch more batches, or use faster storage"
            }
            Bottleneck::FileCallBound => {
                "make fewer and larger calls on files: read whole files or records at once, or map them; do not stat or list per sample"
            }
            Bottleneck::PreprocessingBound => "preprocess ahead of time, or add readers if CPUs are idle",
            Bottleneck::TransferBound => "send less data per batch, or share memory instead of copying it",
            Bottleneck::NetworkBound => "move the data closer, or request more samples at the same time",
            Bottleneck::LockBound => "find the lock that readers wait for (--section waits) and avoid sharing it",
            Bottleneck::GilBound => "read with processes instead of threads",
            Bottleneck::CpuLimited => "give the job more CPUs, or run fewer threads",
            Bottleneck::SleepBound => "find the sleep in the readers: a retry, a poll or a rate limit",
            Bottleneck::SubprocessBound => {
                "replace the programs that readers start with a library, or keep them running"
            }
            Bottleneck::StartupBound => {
                "make the start of readers cheaper: fewer imports, less work before their first batch, fork instead of spawn"
            }
            Bottleneck::PrefetchBound => "prepare more batches ahead (prefetch_factor in PyTorch)",
            Bottleneck::ReaderDied => {
                "find out why the reader ended: its messages, and --section processes for its exit status"
            }
            Bottleneck::CheckpointBound => "write checkpoints in the background, or less often, or to faster storage",
            Bottleneck::WriteBound => "write files in the background, or to faster storage",
            Bottleneck::OwnReads => {
                "read these files in readers too (a loader with workers also for validation), or keep them in memory"
            }
            Bottleneck::OwnWork => "speed up those threads or programs (unknown which: --section waits)",
            Bottleneck::OwnLock => {
                "hold that lock for less time: --section waits shows the thread that held it, and its work"
            }
            Bottleneck::SynchronizationBound => "find the rank or server that the others wait for: --section training",
            _ => "see the longest waits and their causes: --section waits",
        }
    }

    /// Returns the kind and the time of the waits that it costs, if they are not waits for data.
    fn other_wait(self) -> Option<(WaitKind, WaitTime)> {
        match self {
            Bottleneck::OwnWork => Some((WaitKind::OwnWork, |group| group.own_work_ns)),
            Bottleneck::OwnLock => Some((WaitKind::Lock, |group| group.lock_wait_ns)),
            Bottleneck::SynchronizationBound => Some((WaitKind::Peer, |group| group.peer_wait_ns)),
            _ => None,
        }
    }

    /// Returns the bottleneck that corresponds to a cause of the wait for data.
    fn of_cause(cause: Part) -> Bottleneck {
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
            Part::Start => Bottleneck::StartupBound,
            Part::Dead => Bottleneck::ReaderDied,
            Part::NotAsked => Bottleneck::PrefetchBound,
            Part::OutsideCalls | Part::Unknown | Part::Idle => Bottleneck::DataBoundUnknown,
        }
    }
}

impl Default for Headline {
    fn default() -> Headline {
        Headline::new(Bottleneck::Unknown, String::new())
    }
}

/// Next steps if no finding recommends one.
const NO_CHANGE: &str = "leave data loading unchanged: making it faster would save little of this run";
const NO_CHANGE_TO_READERS: &str = "leave the readers unchanged; record spans to see whether the training thread itself spends time on data: \
    python -m dliotrace run --torch SCRIPT for PyTorch";
const RECORD_SPANS: &str = "record spans, which show when training waits and computes: python -m dliotrace run --torch SCRIPT for \
    PyTorch, spans of your own in other programs";
/// Next steps if spans show compute but no waits.
const NO_CHANGE_BUT_FETCH: &str = "leave the readers unchanged; mark the code that gets a batch with a span (dliotrace.ai.data.fetch in Python) to \
    see whether the training thread itself spends time on data";
const RECORD_FETCH: &str = "mark the code that gets a batch with a span (dliotrace.ai.data.fetch in Python): the spans of this trace show when \
    training computes, not when it waits";
/// Next step without training or findings.
const IF_IT_TRAINS: &str = "if a program here trains, record spans, which show when it waits: python -m dliotrace run --torch SCRIPT for \
    PyTorch; otherwise see where its time in calls went: --section functions,past_files";
/// Command that compares two runs.
const COMPARE: &str = "dlio-analyze BEFORE --compare AFTER";

const RECORD_AGAIN: &str =
    "find out why events were lost (dlio-analyze TRACE --section allocation,damage), then record the run again";

impl Headline {
    fn new(bottleneck: Bottleneck, why: String) -> Headline {
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
            finding: None,
            change: None,
        }
    }

    /// Returns a headline for a trace without events; `why` is the sentence that explains it.
    pub fn without_events(why: &str) -> Headline {
        Headline::new(Bottleneck::NoEvents, why.into())
    }

    /// Adds the next step, from the findings of the report.
    pub fn recommend(&mut self, summary: &Summary) {
        if let Some(full) = summary.findings.iter().find(|finding| finding.id == FAILS && finding.fired()) {
            // The shares of a run that failed say little about one that does not.
            let text = format!("{}: batches do not fit into /dev/shm", Bottleneck::SharedMemoryFull.title());
            let certainty = Certainty::Measured;
            *self =
                Headline { text, certainty, ..Headline::new(Bottleneck::SharedMemoryFull, format!("{}.", full.says)) };
            self.take_change(full);
            return;
        }
        let has_spans = summary.time.compute_ns.is_some();
        match (self.bottleneck, self.recommended(summary)) {
            (Bottleneck::NoEvents, _) => {}
            (Bottleneck::Unknown, _) if lost_share(summary).is_some() => self.next = Some(RECORD_AGAIN.into()),
            (bottleneck, finding) if bottleneck.is_wait_for_data() && surest(summary, finding).is_some() => {
                let row = surest(summary, finding);
                self.next = row.and_then(|row| replayed(summary, row));
                self.change = row.map(|row| row.change.clone());
                self.verify = Some(COMPARE.into());
            }
            (_, Some(finding)) => self.take_change(finding),
            (bottleneck, None) if bottleneck.is_open() => {
                self.next = Some(match (has_spans, self.certainty) {
                    (_, Certainty::Measured) => bottleneck.general_step().into(),
                    (true, _) => RECORD_FETCH.into(),
                    (false, _) => RECORD_SPANS.into(),
                });
            }
            (bottleneck, None) if bottleneck.is_free() => {
                let is_inferred = self.certainty == Certainty::Inferred;
                let next = match (is_inferred, has_spans) {
                    (true, true) => NO_CHANGE_BUT_FETCH,
                    (true, false) => NO_CHANGE_TO_READERS,
                    _ => NO_CHANGE,
                };
                self.next = Some(next.into());
            }
            (Bottleneck::NoTraining, None) => self.next = Some(IF_IT_TRAINS.into()),
            (bottleneck, None) => {
                self.next = Some(named_step(bottleneck, summary).unwrap_or_else(|| bottleneck.general_step().into()));
                self.verify = Some(COMPARE.into());
            }
        }
    }

    /// Makes the change of a finding the next step.
    fn take_change(&mut self, finding: &Finding) {
        self.next = Some(finding.remedy.clone());
        self.verify = Some(finding.verify.clone()).filter(|verify| !verify.is_empty());
        self.finding = Some(finding.id.clone());
        self.change = finding.replayed.as_ref().map(|replayed| replayed.change.clone());
    }

    /// Returns the finding whose change saves most, among those that concern the bottleneck.
    fn recommended<'a>(&self, summary: &'a Summary) -> Option<&'a Finding> {
        let is_change = |finding: &&Finding| {
            let is_severe = finding.severity < Some(Severity::Good);
            finding.fired() && is_severe && finding.saves() && !finding.remedy.is_empty()
        };
        let mut changes = summary.findings.iter().filter(is_change);
        match self.bottleneck {
            bottleneck if bottleneck.is_free() => {
                changes.find(|finding| finding.exposed && finding.severity <= Some(Severity::Warning))
            }
            Bottleneck::NoTraining => changes.next(),
            bottleneck if bottleneck.is_open() => {
                changes.find(|finding| finding.id != NAMES_NO_CAUSE && finding.severity <= Some(Severity::Warning))
            }
            bottleneck => {
                let own: Vec<&Finding> = changes.filter(|finding| bottleneck.concerns(&finding.id)).collect();
                // A file or a call is easier to act on than the path to a device.
                let is_exact = |finding: &&&Finding| finding.id != UNSPECIFIC;
                own.iter().find(is_exact).or(own.first()).copied()
            }
        }
    }

    /// Returns the box as lines of at most `width` characters.
    pub fn lines(&self, width: usize) -> String {
        let mut out = wrapped(&self.text, width);
        hung("  why:  ", &self.why, (8, width), &mut out);
        if let Some(next) = &self.next {
            let verify = self.verify.as_ref().map_or(String::new(), |verify| match verify == COMPARE {
                true => format!(" (to verify: trace again, then {verify})"),
                false => format!(" (verify: {verify})"),
            });
            hung("  next: ", &format!("{next}{verify}"), (8, width), &mut out);
        }
        if let Some((level, reason)) = self.confidence.zip(self.confidence_reason.as_ref()) {
            hung("  sure: ", &format!("{}: {reason}", level.word()), (8, width), &mut out);
        }
        out
    }
}

/// Reads of this mean size cost what copying their bytes costs, and not what a call costs.
const LARGE_READ: u64 = 256 << 10;
const COPY_LESS: &str = "copy fewer bytes from the page cache: a smaller dtype, compression, only the parts of files that are used, or batches \
    that stay in memory; add readers if CPUs are idle";

/// Returns the mean size of a read.
fn mean_read(summary: &Summary) -> u64 {
    let reads = summary.sizes.iter().filter(|row| row.class == "read");
    let (count, bytes) = reads.fold((0, 0), |(count, bytes), row| (count + row.count, bytes + row.bytes));
    bytes.checked_div(count).unwrap_or(0)
}

/// Returns the general step for the thread or program that training waited for, or for the CPUs of the run.
fn named_step(bottleneck: Bottleneck, summary: &Summary) -> Option<String> {
    if bottleneck == Bottleneck::PreprocessingBound && is_crowded(summary) {
        return Some("preprocess ahead of time: another reader would not get a CPU".into());
    }
    if bottleneck == Bottleneck::FileCallBound && mean_read(summary) >= LARGE_READ {
        return Some(COPY_LESS.into());
    }
    let waits = training_waits(summary)?;
    let (kind, wait_ns) = bottleneck.other_wait()?;
    let (row, _) = waits.ender(kind, waits.total(wait_ns))?;
    let work = row.work().map_or(String::new(), |work| format!(": it {work}"));
    match kind {
        WaitKind::Lock => Some(format!("hold that lock for less time in {}{work}", row.named())),
        WaitKind::OwnWork if waits.lost() >= FREE => {
            Some(format!("speed up {}{work}; then the readers, for which training waited, too", row.named()))
        }
        WaitKind::OwnWork => Some(format!("speed up {}{work}; data loading is not the bottleneck", row.named())),
        _ => None,
    }
}

/// A change that was replayed is the next step if it certainly saves this share of the training.
const SURE: f64 = 0.1;

/// Returns the change to the loader's arguments that certainly saves most, if it is worth a step and saves more than
/// the change of a finding certainly does.
fn surest<'a>(summary: &'a Summary, finding: Option<&Finding>) -> Option<&'a Prediction> {
    let measured = summary.what_if.as_ref()?.measured_ns;
    let share = |row: &Prediction| row.sure_ns(measured).unwrap_or(0) as f64 / measured.max(1) as f64;
    let row = advisable(summary).into_iter().find(|row| !row.code.is_empty())?;
    let other = finding.and_then(|finding| finding.replayed.as_ref());
    let is_other = other.is_some_and(|other| other.change == row.change || other.least >= share(row));
    (share(row) >= SURE && !is_other).then_some(row)
}

/// Returns a change with its prediction.
fn replayed(summary: &Summary, row: &Prediction) -> Option<String> {
    let outcome = outcome(row, summary.what_if.as_ref()?.measured_ns)?;
    let is_torch = summary.training.iter().any(|group| group.torch);
    Some(match is_torch {
        true => format!("set {} ({}): by replay, {outcome}", row.code, row.what),
        false => format!("use {} ({} in PyTorch): by replay, {outcome}", row.what, row.code),
    })
}

/// The rule about failures that lead the report, whatever the run waited for.
const FAILS: &str = "shm-small";

/// The rule that knows only where storage does not lose time.
const UNSPECIFIC: &str = "slow-but-idle-device";

/// The rule that names the problem but not its cause.
pub(super) const NAMES_NO_CAUSE: &str = "input-bound";

/// Rules whose changes make reads cheaper or fewer.
const READS: [&str; 30] = [
    "storage-saturated",
    "storage-latency-bound",
    "io-limit",
    "device-saturated",
    "slow-but-idle-device",
    "readahead",
    "nfs-server",
    "nfs-client-queue",
    "page-faults",
    "would-fit",
    "cache-thrash",
    "swap",
    "small-reads",
    "small-objects",
    "store-throttled",
    "store-retries",
    "tiny-stdio",
    "random-in-file",
    "backward-seeks",
    "unaligned",
    "read-amplification",
    "redundant-reads",
    "hot-file",
    "metadata-bound",
    "stat-storm",
    "reopen-storm",
    "data-set-per-sample",
    "open-serial",
    "listing",
    "temp-on-shared",
];

/// Rules about the number of calls on files, and of bytes: those that matter for files in memory, too.
const CALLS: [&str; 10] = [
    "small-reads",
    "tiny-stdio",
    "redundant-reads",
    "read-amplification",
    "metadata-bound",
    "stat-storm",
    "reopen-storm",
    "data-set-per-sample",
    "listing",
    "hot-file",
];

/// Rules about the work of readers.
const LOADER: [&str; 6] =
    ["loader-capacity", "slow-worker", "loader-jitter", "no-overlap", "straggler-rank", "byte-imbalance"];

/// Rules about CPUs.
const CPUS: [&str; 5] = ["cpu-quota", "cpu-affinity", "too-many-threads", "noisy-neighbor", "too-many-readers"];

/// Rules about writes.
const WRITES: [&str; 6] =
    ["checkpoint-stalls", "checkpoint-one-rank", "fsync-share", "small-writes", "shared-block-writes", "unaligned"];

/// Returns the sentences of the verdict, and the headline without its next step. `pools` are processes that wait for
/// worker pools.
pub fn conclude(summary: &Summary, pools: &[RankGroup]) -> (Vec<String>, Headline) {
    let training = training_waits(summary);
    let verdict = sentences(summary, training.as_ref(), pools);
    if summary.allocation.events == 0 {
        let headline = Headline::without_events(verdict.first().map_or("", String::as_str));
        return (verdict, headline);
    }
    let headline = headline(summary, training.as_ref(), waits(pools).as_ref());
    (verdict, headline)
}

fn headline(summary: &Summary, waits: Option<&Waits>, pools: Option<&Waits>) -> Headline {
    if let Some(lost) = lost_share(summary) {
        let why = format!("{lost} of the events are lost, so the numbers below do not describe the whole run.");
        let text = "UNKNOWN: too many events are lost".into();
        return Headline { text, ..Headline::new(Bottleneck::Unknown, why) };
    }
    match waits {
        Some(waits) => of_training(summary, waits),
        None => without_training(summary, pools),
    }
}

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
    let others = [
        (waits.written_share(), if saves(summary) { Bottleneck::CheckpointBound } else { Bottleneck::WriteBound }),
        (waits.sum_share(|group| group.own_work_ns), Bottleneck::OwnWork),
        (waits.sum_share(|group| group.lock_wait_ns), Bottleneck::OwnLock),
        (waits.sum_share(|group| group.own_read_ns), Bottleneck::OwnReads),
        (waits.sum_share(|group| group.peer_wait_ns), Bottleneck::SynchronizationBound),
        (waits.sum_share(|group| group.unknown_wait_ns), Bottleneck::Unknown),
    ];
    let largest = others.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(part, _)| *part >= FREE);
    match largest {
        Some((part, bottleneck)) if part > data => of_another_wait(waits, bottleneck, part),
        _ if data >= FREE => of_data(waits, data),
        _ => of_none(waits),
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

fn certainty_text(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Measured => "measured by spans",
        Certainty::Inferred => "inferred from calls",
        Certainty::UpperBound => "upper bound: the GPU was not timed",
        Certainty::Unknown => "unknown",
    }
}

fn with_share(bottleneck: Bottleneck, title: &str, part: f64, waits: &Waits, (lost, why): (&str, String)) -> Headline {
    let certainty = certainty(waits);
    let partly = if part < LIMITING { "PARTLY " } else { "" };
    let limit = if certainty == Certainty::UpperBound || waits.is_shared_loss() { "up to " } else { "" };
    Headline {
        share: Some(part),
        certainty,
        text: format!(
            "{partly}{title}: {limit}{} of training {lost} ({})",
            Unit::Share.text(part),
            certainty_text(certainty)
        ),
        ..Headline::new(bottleneck, why)
    }
}

fn of_another_wait(waits: &Waits, bottleneck: Bottleneck, part: f64) -> Headline {
    let trained = waits.mean(waits.trained);
    let ns = |of: fn(&RankGroup) -> Option<i64>| waits.mean(waits.total(of));
    let kind = bottleneck.other_wait().map(|(kind, _)| kind);
    let waiting = |what: &str, of: fn(&RankGroup) -> Option<i64>| {
        let data = waits.mean(waits.waited);
        let ender = kind.and_then(|kind| waits.ender(kind, waits.total(of)));
        let named = ender.map_or(String::new(), |(row, part)| match part {
            part if part >= ALL => format!(": {}", row.named()),
            part => format!(" ({} of that: {})", Unit::Share.text(part), row.named()),
        });
        format!("training waited {} of {trained} for {what}{named}. It waited {data} for data.", ns(of))
    };
    let (lost, why) = match bottleneck {
        Bottleneck::CheckpointBound | Bottleneck::WriteBound => (
            "is spent writing files",
            format!(
                "the training thread spent {} of {trained} writing and syncing files.",
                time(waits.written() as f64)
            ),
        ),
        Bottleneck::OwnReads => (
            "is spent in reads of its own",
            format!(
                "the training thread itself spent {} of {trained} reading files, and {} waiting for its readers.",
                ns(|group| group.own_read_ns),
                waits.mean(waits.waited)
            ),
        ),
        Bottleneck::OwnWork => (
            "is spent waiting for its own threads or programs",
            waiting("threads or programs that worked on its tasks or took its output", |group| group.own_work_ns),
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
    with_share(bottleneck, bottleneck.title(), part, waits, (lost, capital(&why)))
}

fn of_none(waits: &Waits) -> Headline {
    let computed: Option<i64> = waits.groups.iter().map(|group| group.computed_ns).sum();
    let computing = computed.filter(|ns| *ns as f64 >= COMPUTES * waits.trained as f64);
    let waited = format!("{} of {}", waits.mean(waits.waited), waits.mean(waits.trained));
    let (bottleneck, more) = match computing {
        Some(ns) => (Bottleneck::ComputeBound, format!(" and {} computing", waits.mean(ns))),
        None => (Bottleneck::NotDataBound, String::new()),
    };
    let certainty = certainty(waits);
    let part = waits.lost();
    // Calls do not show work of the trainer's own thread on its data.
    let is_inferred = certainty == Certainty::Inferred;
    let (title, maker) = if is_inferred { ("NOT READER-BOUND", "readers") } else { (bottleneck.title(), "data") };
    let unseen = match is_inferred {
        true => " Its own work on data, such as sampling and collating, is not in the trace.",
        false => "",
    };
    Headline {
        share: Some(part),
        certainty,
        text: format!(
            "{title}: {} of training is spent waiting for {maker} ({})",
            Unit::Share.text(part),
            certainty_text(certainty)
        ),
        ..Headline::new(bottleneck, format!("{} spent {waited} waiting for batches{more}.{unseen}", waits.who()))
    }
}

fn of_data(waits: &Waits, part: f64) -> Headline {
    let (bottleneck, detail) = cause_of(waits);
    let title = match (bottleneck, &waits.shortage) {
        (Bottleneck::CpuLimited, Some(shortage)) => format!("{} ({})", bottleneck.title(), shortage_name(shortage)),
        _ => bottleneck.title().into(),
    };
    let each = if waits.groups.len() > 1 { " on average" } else { "" };
    let mut why = format!(
        "{} spent {} of {}{each} waiting for batches; {detail}",
        waits.who(),
        waits.mean(waits.waited),
        waits.mean(waits.trained),
    );
    if waits.is_shared_loss() {
        why += &format!("; ranks that wait for the slowest one lose up to {}", Unit::Share.text(part));
    }
    if let Some(others) = waits.waiting_ranks() {
        why += &format!("; {others}");
    }
    why += ".";
    with_share(bottleneck, &title, part, waits, ("is spent waiting for data", why))
}

/// Returns the bottleneck of a wait for data, and the number that proves it.
fn cause_of(waits: &Waits) -> (Bottleneck, String) {
    match &waits.causes {
        Some(causes) => of_known_causes(causes, waits.read_themselves()),
        None => of_reader_work(waits),
    }
}

/// Groups causes by bottleneck, the largest first.
fn of_known_causes(causes: &Parts, reads_itself: bool) -> (Bottleneck, String) {
    let whole = causes.sum().max(1);
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
    let named = |(bottleneck, ns, cause): &(Bottleneck, i64, Part)| {
        let name = match bottleneck {
            Bottleneck::StorageBound => "storage",
            Bottleneck::DataBoundUnknown => "unknown",
            _ => label(*cause, reads_itself),
        };
        (name, share(*ns, whole))
    };
    let part = |ns: i64| ns as f64 / whole as f64;
    match sums.as_slice() {
        [first, second, ..] if part(first.1) < MOST || part(second.1) >= SECOND => {
            let bottleneck = if part(first.1) < MOST { Bottleneck::DataBoundMixed } else { first.0 };
            let ((name, share), (other, rest)) = (named(first), named(second));
            (bottleneck, format!("main causes: {name}, {share} of that wait, and {other}, {rest}"))
        }
        [first, ..] => {
            let (name, share) = named(first);
            (first.0, format!("main cause: {name}, {share} of that wait"))
        }
        _ => (Bottleneck::DataBoundUnknown, "its cause is unknown".into()),
    }
}

/// Returns the bottleneck according to the readers' work during the wait, if the trace does not show what ended the
/// wait.
fn of_reader_work(waits: &Waits) -> (Bottleneck, String) {
    if waits.lost_at_work() < FREE {
        return (Bottleneck::StartupBound, format!("{} of it while readers were starting", waits.mean(waits.starting)));
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
        Shortage::Threads { .. } => "too many threads",
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
    if !may_train(summary) {
        return Headline::new(
            Bottleneck::NoTraining,
            format!("No process in this trace looks like a training job; {active}."),
        );
    }
    match own_reads(summary) {
        Some((name, part)) if part >= LIMITING => {
            let cached = read_from_cache(summary);
            let (title, bottleneck) = match cached {
                Some(_) => ("DATA-BOUND", Bottleneck::DataBoundMixed),
                None => ("STORAGE-BOUND", Bottleneck::StorageBound),
            };
            let from = cached.map_or_else(String::new, |text| format!("; {text}"));
            let why = format!(
                "{name} reads in its main thread, and reads took {} of its loop{from}.",
                Unit::Share.text(part)
            );
            Headline {
                share: Some(part),
                certainty: Certainty::Inferred,
                text: format!(
                    "LIKELY {title}: at least {} of the loop is spent in reads, if it trains",
                    Unit::Share.text(part)
                ),
                ..Headline::new(bottleneck, why)
            }
        }
        Some((name, part)) => Headline::new(
            Bottleneck::Unknown,
            format!(
                "{name} reads in its main thread, and reads took {} of its loop; the rest may be preprocessing or training.",
                Unit::Share.text(part)
            ),
        ),
        None => {
            let why = format!("The trace does not show when training requested a batch; {active}.");
            Headline::new(Bottleneck::Unknown, why)
        }
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
