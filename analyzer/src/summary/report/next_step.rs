//! The next step of the verdict box: the change that saves most, and what it concerns.
//!
//! A change that was replayed and certainly saves much comes first, then the change of the finding that saves most among
//! those that concern the bottleneck, then a general step. A verdict that is open asks for more evidence.

use super::Summary;
use super::findings::{Finding, Severity, Unit};
use super::headline::{Bottleneck, COMPARE, Certainty, Headline, decisive, is_saving, largest_cause, two_causes};
use super::own_reads::served_to_readers;
use super::processes::ProcessUse;
use super::reader_writes::written_by_readers;
use super::subject::FREE;
use super::targets::{self, FileUse};
use super::verdict::{capital, lost_share, training_waits};
use super::what_if::{LIMITED, advisable, is_crowded, is_limited, outcome};
use crate::replay::predict::Prediction;
use crate::summary::figures::units::{many, time};
use crate::summary::training::{RankGroup, Role, WaitedFor, fork_all_readers};
use crate::summary::waits::family::asks_to_end;
use crate::summary::waits::trainers::WaitKind;
use crate::summary::wording::Wording;

/// Next steps if no finding recommends one.
const NO_CHANGE: &str = "leave data loading unchanged: making it faster would save little of this run";
const NO_CHANGE_TO_READERS: &str =
    "leave the readers unchanged; spans show whether the training thread itself spends time on data";
const RECORD_SPANS: &str = "record spans, which show when training waits and computes";
/// Next steps if spans show compute but no waits.
const NO_CHANGE_BUT_FETCH: &str = "leave the readers unchanged; mark the code that gets a batch with a span (dliotrace.ai.data.fetch in Python) to \
    see whether the training thread itself spends time on data";
const RECORD_FETCH: &str = "mark the code that gets a batch with a span (dliotrace.ai.data.fetch in Python): the spans of this trace show when \
    training computes, not when it waits";
/// Next step without training or findings.
const IF_IT_TRAINS: &str = "see where its time in calls went: --section functions,past_files; if it trains, record spans, which show when it \
    waits";

/// Next step if readers may wait for page faults.
const READ_BY_CALLS: &str =
    "read the mapped files with calls (pread, numpy.fromfile) in one run: the trace then shows how long storage takes";

/// Next step if training waits for data and the trace does not show why.
const PROFILE_READERS: &str = "profile the threads or processes that send the data (py-spy, perf): the trace does not show what they do between \
    their calls; --section waits lists the longest waits";

const RECORD_AGAIN: &str =
    "find out why events were lost (dlio-analyze TRACE --section allocation,damage), then record the run again";

impl Headline {
    /// Adds the next step, from the findings of the report.
    pub fn recommend(&mut self, summary: &Summary) {
        if let Some((bottleneck, what, finding)) = failure(summary).filter(|(failed, ..)| *failed != self.bottleneck) {
            // The shares of a run that failed say little about one that does not.
            let (text, certainty) = (format!("{}: {what}", bottleneck.title()), Certainty::Measured);
            let command = self.command.take();
            *self = Headline { text, certainty, command, ..Headline::new(bottleneck, format!("{}.", finding.says)) };
            self.take_change(finding);
            return;
        }
        let has_spans = summary.time.compute_ns.is_some();
        match (self.bottleneck, self.recommended(summary)) {
            (Bottleneck::NoEvents, _) => {}
            (Bottleneck::Unknown, _) if lost_share(summary).is_some() => self.next = Some(RECORD_AGAIN.into()),
            (bottleneck, finding) if bottleneck.is_wait_for_data() && surest(summary, finding).is_some() => {
                let row = surest(summary, finding);
                self.next = row.and_then(|row| replayed(summary, row));
                self.look_at(targets::of_bottleneck(bottleneck, summary));
                self.change = row.map(|row| row.change.clone());
                self.verify = Some(COMPARE.into());
            }
            (bottleneck, _) if bottleneck.is_wait_for_data() && awaits_files(summary) && !is_limited(summary) => {
                self.next = Some(MAKE_SOONER.into());
                self.look_at(targets::of_bottleneck(bottleneck, summary));
                self.verify = Some(COMPARE.into());
            }
            (Bottleneck::SynchronizationBound, finding)
                if let Some(step) = synchronization_step(summary, finding.is_some()) =>
            {
                self.next = Some(step);
                self.look_at(targets::of_bottleneck(self.bottleneck, summary));
                self.verify = Some(COMPARE.into());
            }
            (bottleneck, _) if training_waits(summary).is_some_and(|waits| is_saving(bottleneck, &waits)) => {
                self.next = Some(CHEAPER_SAVES.into());
                self.look_at(targets::of_bottleneck(bottleneck, summary));
                self.verify = Some(COMPARE.into());
            }
            (bottleneck, Some(finding)) => {
                self.take_change(finding);
                self.add_writes(summary);
                self.add_to_change(finding, summary);
                self.look_at(target_of(bottleneck, finding, summary));
            }
            (bottleneck, None) if bottleneck.is_open() => self.next = Some(self.evidence_to_record(has_spans, summary)),
            (bottleneck, None) if bottleneck.is_free() => {
                let is_inferred = self.certainty == Certainty::Inferred;
                self.next = Some(match (is_inferred, has_spans) {
                    (true, true) => NO_CHANGE_BUT_FETCH.into(),
                    (true, false) => with_command(NO_CHANGE_TO_READERS, summary),
                    _ => NO_CHANGE.into(),
                });
            }
            (Bottleneck::NoTraining, None) => self.next = Some(with_command(IF_IT_TRAINS, summary)),
            (bottleneck, None) => {
                self.add_writes(summary);
                let step = named_step(bottleneck, summary).or_else(|| steps_of_both(bottleneck, summary));
                self.next = Some(step.unwrap_or_else(|| bottleneck.general_step().into()));
                self.look_at(targets::of_bottleneck(bottleneck, summary));
                self.verify = Some(COMPARE.into())
                    .filter(|_| ![Bottleneck::ReaderDied, Bottleneck::ReaderHangs].contains(&bottleneck));
            }
        }
    }

    /// Returns how to get the evidence that a verdict lacks.
    fn evidence_to_record(&self, has_spans: bool, summary: &Summary) -> String {
        let is_caused_unseen = self.bottleneck == Bottleneck::DataBoundUnknown;
        match (has_spans, self.certainty) {
            _ if is_caused_unseen && served_to_readers(summary).is_some() => READ_BY_CALLS.into(),
            (_, Certainty::Measured) => self.bottleneck.general_step().into(),
            (true, _) => RECORD_FETCH.into(),
            (false, _) if is_caused_unseen => PROFILE_READERS.into(),
            (false, _) => with_command(RECORD_SPANS, summary),
        }
    }

    /// Says that readers wait for their own writes, if storage is the cause of the wait.
    fn add_writes(&mut self, summary: &Summary) {
        if let Some(ns) = written_by_readers(summary).filter(|_| self.bottleneck == Bottleneck::StorageBound) {
            let spent = time(ns as f64);
            self.why += &format!(" The readers' own writes and syncs took most of their time in file calls: {spent}.");
        }
    }

    /// Adds the limit that a finding is about, and what else to do.
    fn add_to_change(&mut self, finding: &Finding, summary: &Summary) {
        if finding.id == LIMITED {
            self.why += &format!(" {}.", capital(&finding.says));
        }
        self.add_other_cause(finding, summary);
        self.add_prefetch(finding, summary);
        self.read_pipe_ahead(finding, summary);
        if !self.keep_open(summary) {
            self.free_cpus_first(summary);
        }
        self.share_less(finding, summary);
        self.divide_files(summary);
    }

    /// Adds what to do about the other one of two causes, if the change of a finding does not concern it.
    fn add_other_cause(&mut self, finding: &Finding, summary: &Summary) {
        // The work of readers matters only when the quota does not limit it.
        let is_quota = finding.id == QUOTA && self.bottleneck == Bottleneck::CpuLimited;
        if is_quota || !self.bottleneck.is_wait_for_data() {
            return;
        }
        let causes = training_waits(summary).and_then(|waits| waits.causes);
        let Some([first, second]) = causes.and_then(|causes| two_causes(&causes)) else { return };
        // Its change gives CPUs back.
        let is_of_cpus = |cause| first == Bottleneck::CpuLimited && cause == Bottleneck::PreprocessingBound;
        let concerns = |cause: Bottleneck| cause.concerns(&finding.id) && !is_of_cpus(cause);
        let Some(next) = &mut self.next else { return };
        match (concerns(first), concerns(second)) {
            (true, false) if !second.is_open() => *next += &format!("; then {}", own_step(second, summary)),
            // The change concerns the second cause, or a smaller one.
            (false, _) if !first.is_open() => *next = format!("{}; then {next}", own_step(first, summary)),
            _ => {}
        }
    }

    /// Adds a longer queue to a change of the work on batches, if readers were idle while training did not wait.
    fn add_prefetch(&mut self, finding: &Finding, summary: &Summary) {
        let is_uneven = |other: &&Finding| other.id == UNEVEN && other.fired() && other.replayed.is_none();
        let uneven = summary.findings.iter().find(is_uneven).filter(|uneven| uneven.id != finding.id);
        let trained = summary.training.first().map_or(1, |group| group.trained_ns.max(1));
        let share = uneven.map(|uneven| uneven.bound_ns as f64 / trained as f64).filter(|_| !is_limited(summary));
        if let (Some(next), Some(share)) = (&mut self.next, share) {
            *next += &format!(
                "; or let readers work further ahead (a longer queue, or prefetch_factor in PyTorch), which may save up to {} of {}",
                Unit::Share.text(share),
                Wording::of(summary.training.iter()).noun()
            );
        }
    }

    /// Adds reading ahead if other programs, such as `gzip`, send the data through a pipe: it is what shortens a transfer there, and
    /// lets these programs work while training does not wait.
    fn read_pipe_ahead(&mut self, finding: &Finding, summary: &Summary) {
        use Bottleneck::{DataBoundMixed, PreprocessingBound, TransferBound};
        let Some(program) = feeding_program(summary) else { return };
        let step = format!("{READ_PIPE}: a pipe holds 64 KiB by default, so {program} stops while training computes");
        match (&mut self.next, self.bottleneck) {
            (Some(next), _) if [HAND_OVER, UNEVEN].contains(&finding.id.as_str()) => *next = step,
            // The second cause is the transfer.
            (Some(next), _) if next.ends_with(READ_PIPE) => {
                *next = format!("{}{step}", next.trim_end_matches(READ_PIPE))
            }
            (Some(next), DataBoundMixed | PreprocessingBound | TransferBound) => *next += &format!("; and {step}"),
            _ => {}
        }
    }

    /// Adds what the next step concerns.
    fn look_at(&mut self, target: Option<String>) {
        if let (Some(next), Some(target)) = (&mut self.next, target) {
            *next += &format!("; this concerns {target}");
        }
    }

    /// Makes the change of a finding the next step.
    fn take_change(&mut self, finding: &Finding) {
        self.next = Some(finding.remedy.clone());
        self.verify = Some(finding.verify.clone()).filter(|verify| !verify.is_empty());
        self.finding = Some(finding.id.clone());
        self.change = finding.replayed.as_ref().map(|replayed| replayed.change.clone());
    }

    /// Returns the finding that names the main cause of a wait for data.
    pub fn main_cause<'a>(&self, summary: &'a Summary) -> Option<&'a Finding> {
        let finding = self.recommended(summary).filter(|finding| finding.id != NAMES_NO_CAUSE)?;
        (self.bottleneck.is_wait_for_data()
            && self.bottleneck != Bottleneck::DataBoundMixed
            && !self.bottleneck.is_open())
        .then_some(finding)
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
                // The wait may be for anything, so a rule that compares readers does not name its cause.
                let is_meant =
                    |finding: &&Finding| ![NAMES_NO_CAUSE, UNSPECIFIC, SLOW_READER].contains(&finding.id.as_str());
                changes.find(|finding| is_meant(finding) && finding.severity <= Some(Severity::Warning))
            }
            bottleneck => {
                // A file or a call is easier to act on than the path to a device.
                // Where a quota keeps readers from running, neither fewer threads nor cheaper samples remove it.
                let is_quota = |finding: &Finding| bottleneck == Bottleneck::CpuLimited && finding.id == QUOTA;
                // A lock for each reader does not make reads at the limit faster.
                let sets_pace = |finding: &Finding| bottleneck == Bottleneck::LockBound && finding.id == LIMITED;
                let is_first = |finding: &Finding| is_quota(finding) || sets_pace(finding);
                let rank = |finding: &&Finding| (finding.id != UNSPECIFIC, is_first(finding), finding.worth_ns);
                let is_limited = bottleneck.concerns(LIMITED) && is_limited(summary);
                // Other reads do not help readers that wait for their writes, either.
                let writes = bottleneck == Bottleneck::StorageBound && written_by_readers(summary).is_some();
                let helps = |finding: &&Finding| !(is_limited || writes) || !depends_on_limit(&finding.id);
                let concerns = |finding: &&Finding| bottleneck.concerns(&finding.id) || writes && finding.id == SYNCS;
                let own: Vec<&Finding> = changes.filter(concerns).filter(helps).collect();
                // The largest one of several causes comes first.
                let causes = training_waits(summary).and_then(|waits| waits.causes);
                let causes = causes.filter(|_| bottleneck == Bottleneck::DataBoundMixed);
                let first = causes.and_then(|causes| largest_cause(&causes)).unwrap_or(bottleneck);
                let is_first = |finding: &&Finding| first.concerns(&finding.id) || finding.id == STRAGGLER;
                let of_first = own.iter().copied().any(|finding| is_first(&finding));
                let own = own.into_iter().filter(|finding| !of_first || is_first(finding));
                // The first one of equals.
                own.reduce(|best, next| if rank(&next) > rank(&best) { next } else { best })
            }
        }
    }
}

impl Bottleneck {
    /// Returns `true` if faster data loading would not shorten the run.
    fn is_free(self) -> bool {
        matches!(self, Bottleneck::ComputeBound | Bottleneck::GpuBound | Bottleneck::NotDataBound)
    }

    /// Returns `true` if more evidence is the next step.
    pub(super) fn is_open(self) -> bool {
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
            Bottleneck::OwnNoCpu => is_in(&CPUS),
            Bottleneck::CpuLimited => is_in(&CPUS) || rule == "loader-cpu-bound",
            Bottleneck::GilBound => is_in(&["loader-cpu-bound", "too-many-threads"]),
            Bottleneck::TransferBound => rule == HAND_OVER,
            Bottleneck::NetworkBound => is_in(&["network-wait", "store-throttled", "store-retries", "small-objects"]),
            // Holders of the lock that read at the limit.
            Bottleneck::LockBound => ["lock-wait", LIMITED].contains(&rule),
            Bottleneck::GpuIdle => is_in(&["launch-bound", "sync-every-step", "pageable-copies"]),
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
                    HAND_OVER,
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
    pub fn general_step(self) -> &'static str {
        match self {
            Bottleneck::StorageBound => "use more readers; if the run is not faster, use faster storage",
            Bottleneck::PipeBound => "speed up the program at the other end of the pipe, or do without the pipe",
            Bottleneck::FileCallBound => {
                "make fewer and larger file calls: read whole files or records at once, or map them; do not stat or list per sample"
            }
            Bottleneck::PreprocessingBound => "preprocess ahead of time, or add readers if CPUs are idle",
            Bottleneck::SamplingBound => {
                "make the sampler cheaper: choose samples in advance, such as a list of indices per epoch, or in another thread \
                 (py-spy shows the code of the training thread)"
            }
            Bottleneck::TransferBound => {
                "pass on less often or less: a larger batch_size if batches are below 1 MB, otherwise fewer and smaller parts per sample"
            }
            Bottleneck::NetworkBound => {
                "request more samples at the same time; if the run is not faster, move the data closer"
            }
            Bottleneck::LockBound => "find the lock that readers wait for (--section waits) and avoid sharing it",
            Bottleneck::GilBound => "read with processes instead of threads",
            Bottleneck::CpuLimited => "give the job more CPUs, or run fewer threads",
            Bottleneck::SleepBound => "find the sleep: a retry, a poll or a rate limit",
            Bottleneck::FileWaitBound => {
                "speed up the program that makes these files, or start it earlier, so that files exist before readers look for them"
            }
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
            Bottleneck::ReaderHangs => {
                "see where the reader hangs: while the job hangs, py-spy dump --pid PID shows a Python program's code, gdb -p PID any other's"
            }
            Bottleneck::CheckpointBound => {
                "write checkpoints in the background, or else less often or to faster storage"
            }
            Bottleneck::WriteBound => "write files in the background, or to faster storage",
            Bottleneck::OwnReads => {
                "read these files in readers too (a loader with workers also for validation), or keep them in memory"
            }
            Bottleneck::OwnGil => {
                "do the Python work of the other threads in processes (workers of a loader, multiprocessing): a thread that runs Python \
                 code stops all others"
            }
            Bottleneck::OwnNoCpu => {
                "run fewer processes and threads on these CPUs, or give the job more of them (--section machine shows quotas and load)"
            }
            Bottleneck::OwnWork => "speed up those threads or programs: --section waits names them",
            Bottleneck::OwnLock => {
                "hold that lock for less time: --section waits shows the thread that held it, and its work"
            }
            Bottleneck::GpuInReaders => "find the reader's work on the GPU: --section waits",
            Bottleneck::GpuIdle => {
                "launch work sooner: do not wait for the GPU in each step (loss.item(), prints), compile the model or use CUDA graphs, \
                 or use larger batches"
            }
            Bottleneck::GpusTakeTurns => {
                "let the GPUs of the process work at the same time: one rank per GPU (DistributedDataParallel), or more \
                 micro-batches in a pipeline of model parts"
            }
            Bottleneck::SynchronizationBound => "find the rank or server that the others wait for: --section waits",
            _ => "see the longest waits and their causes: --section waits",
        }
    }
}

/// Adds the way to record spans to a step: a command if the programs are Python's. Counts need calls first.
fn with_command(step: &str, summary: &Summary) -> String {
    if let Some(tally) = &summary.tally {
        return if tally.untimed > 0 { TRACE_CALLS } else { RECORD_CALLS }.into();
    }
    let is = |prefix: &str| {
        let programs = summary.processes.iter().filter_map(|process| process.program.rsplit('/').next());
        programs.filter(|name| !name.is_empty()).any(|name| name.starts_with(prefix))
    };
    match () {
        () if is("python") => format!("{step} (for PyTorch: dlio trace -- python3 -m dliotrace run --torch SCRIPT)"),
        () if is("") => format!("{step} (dliotrace.h for C, the crate dlio-tracer for Rust)"),
        () => step.into(),
    }
}

/// Steps if the trace has counts instead of calls.
const RECORD_CALLS: &str =
    "record calls instead of counts: dlio trace without --mode summary, or with a larger --max-mb";
const TRACE_CALLS: &str = "run the job under dlio trace: single calls show when training waits";

/// Returns what the change of a finding concerns.
fn target_of(bottleneck: Bottleneck, finding: &Finding, summary: &Summary) -> Option<String> {
    match finding.id.as_str() {
        LIMITED if written_by_readers(summary).is_some() => targets::files(FileUse::Written, summary),
        // A limit on reads holds for all files.
        LIMITED => None,
        id if READS.contains(&id) || CALLS.contains(&id) => targets::files(FileUse::Read, summary),
        id if WRITES.contains(&id) => targets::files(FileUse::Written, summary),
        _ => targets::of_bottleneck(bottleneck, summary),
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

/// A reader that computes needs about one CPU.
const ONE_CPU: f64 = 0.7;

/// Returns the step against preprocessing that takes the readers' CPU time.
fn preprocess(summary: &Summary) -> String {
    let [machine] = summary.machine.as_slice() else { return Bottleneck::PreprocessingBound.general_step().into() };
    match machine.idle().zip(machine.cores) {
        _ if is_crowded(summary) => "preprocess ahead of time: another reader would not get a CPU".into(),
        Some((idle, cores)) if idle < ONE_CPU => {
            format!(
                "preprocess ahead of time: another reader would hardly get a CPU ({idle:.1} of {cores} were idle on average)"
            )
        }
        Some((idle, cores)) => {
            format!("add readers ({idle:.1} of {cores} CPUs were idle on average), or preprocess ahead of time")
        }
        None => Bottleneck::PreprocessingBound.general_step().into(),
    }
}

/// Returns the general step for the thread or program that training waited for, or for the CPUs of the run.
fn named_step(bottleneck: Bottleneck, summary: &Summary) -> Option<String> {
    if bottleneck == Bottleneck::PreprocessingBound {
        return Some(preprocess(summary));
    }
    if bottleneck == Bottleneck::FileCallBound && mean_read(summary) >= LARGE_READ {
        return Some(COPY_LESS.into());
    }
    if [Bottleneck::OwnNoCpu, Bottleneck::CpuLimited].contains(&bottleneck)
        && let Some(finding) = summary.findings.iter().find(|finding| finding.id == QUOTA && finding.fired())
    {
        return Some(finding.remedy.clone());
    }
    if bottleneck == Bottleneck::OwnGil && (wait_for_processes(summary) || have_worker_processes(summary)) {
        return Some(PASS_LESS.into());
    }
    if bottleneck == Bottleneck::StartupBound {
        return Some(cheaper_start(summary));
    }
    if bottleneck == Bottleneck::StorageBound && written_by_readers(summary).is_some() {
        return Some(WRITE_LESS.into());
    }
    if bottleneck == Bottleneck::StorageBound && summary.training.is_empty() {
        return Some(READ_AHEAD.into());
    }
    if bottleneck == Bottleneck::StorageBound
        && let Some(reader) = alone_in_its_loader(summary)
    {
        return Some(format!(
            "increase num_workers of the loader whose only reader is {reader}, or use faster storage"
        ));
    }
    let waits = training_waits(summary)?;
    let (kind, wait_ns) = bottleneck.other_wait()?;
    let (row, _) = waits.ender(kind, waits.total(wait_ns))?;
    let work = row.work().map_or(String::new(), |work| format!(": {} {work}", row.pronoun()));
    let step = if row.sleeps() { "find the sleeps in" } else { "speed up" };
    let work = format!("{}{work}", as_busy(summary, row));
    match kind {
        WaitKind::Lock => Some(format!("hold that lock for less time in {}{work}", row.named())),
        WaitKind::OwnWork if waits.lost() >= FREE => Some(format!(
            "{step} {}{work}; then look at the readers, for which {} waited, too",
            row.named(),
            waits.wording().noun()
        )),
        // The trace does not show whether a pool that is asked each time makes batches.
        WaitKind::OwnWork
            if row.waits >= TASKS_MIN && !row.is_helper() && (waits.has_no_readers() || row.tid.is_none()) =>
        {
            Some(format!(
                "{step} {}{work}; if {} batches, request several ahead instead of one at a time",
                row.named(),
                if row.processes > 1 { "they make" } else { "it makes" }
            ))
        }
        // Threads of XLA or OpenMP, for example.
        WaitKind::OwnWork if row.tid.is_some() && !row.sleeps() => Some(format!(
            "leave data loading unchanged, it is not the bottleneck; {step} {}{work}; if a library computes the steps there (as in \
             JAX), training is limited by compute",
            row.named()
        )),
        WaitKind::OwnWork => Some(format!(
            "{step} {}{work}; or let another thread wait for it, if {} can go on without the answer; data loading is not the \
             bottleneck",
            row.named(),
            waits.wording().noun()
        )),
        _ => None,
    }
}

/// Processes with CPU times this close to each other work equally long.
const AS_BUSY: f64 = 0.75;

/// Returns a text on the processes that the parent of a process started like it, and that used as much CPU time: the trainer may
/// wait for the one that it asks first while the others work.
fn as_busy(summary: &Summary, row: &WaitedFor) -> String {
    let is_its = |process: &&ProcessUse| process.pid == row.pid && row.tid.is_none() && row.processes == 1;
    let its = summary.processes.iter().find(is_its).and_then(|process| Some((process, process.resources.cpu_ns?)));
    // The CPU time of one that sleeps means nothing.
    let Some((its, cpu_ns)) = its.filter(|(_, cpu_ns)| 2 * cpu_ns >= row.wait_ns) else { return String::new() };
    let is_alike = |other: &&ProcessUse| {
        let used = other.resources.cpu_ns.unwrap_or(0);
        other.proc != its.proc
            && (other.parent, &other.program) == (its.parent, &its.program)
            && used.min(cpu_ns) as f64 > AS_BUSY * used.max(cpu_ns) as f64
    };
    match summary.processes.iter().filter(is_alike).count() as u64 {
        0 => String::new(),
        count => format!(" and {} with as much CPU time", many(count, "other process", "other processes")),
    }
}

/// Returns the program that sends the data of the only trainer, if that is another one than the trainer's: a program in a pipeline,
/// or a child.
fn feeding_program(summary: &Summary) -> Option<&str> {
    let [group] = summary.training.as_slice() else { return None };
    let program = |proc: u32| Some(summary.processes.iter().find(|process| process.proc == proc)?.program.as_str());
    let own = program(group.proc)?;
    let mut programs = group.readers.iter().map(|reader| program(reader.proc));
    let first = programs.next().flatten().filter(|first| *first != own)?;
    programs.all(|program| program.is_some_and(|program| program != own)).then_some(first)
}

/// Returns the steps for the two largest causes of a wait with several.
fn steps_of_both(bottleneck: Bottleneck, summary: &Summary) -> Option<String> {
    let causes = training_waits(summary).and_then(|waits| waits.causes);
    let causes = causes.filter(|_| bottleneck == Bottleneck::DataBoundMixed)?;
    let largest = || largest_cause(&causes).map(|cause| vec![cause]);
    let found = two_causes(&causes).map(Vec::from).or_else(largest)?;
    let steps = found.into_iter().filter(|cause| !cause.is_open()).map(|cause| own_step(cause, summary));
    steps.reduce(|first, second| format!("{first}; then {second}"))
}

/// The step for ranks that wait for each other about equally.
const EXCHANGE_LESS: &str = "exchange data less often (gradient accumulation, larger batches) or let it overlap with computing: all ranks wait about \
    equally, so none of them is slow";

/// Returns the step for training threads that wait for others; `None` if a finding names it.
fn synchronization_step(summary: &Summary, has_finding: bool) -> Option<String> {
    let ranks = decisive(summary, training_waits(summary).as_ref()).map(|ranks| ranks.step());
    ranks.or_else(|| match summary.training.len() {
        _ if has_finding => None,
        1 => Some(ASK_BESIDE.into()).filter(|_| !summary.dataset.peers.is_empty()),
        _ => slow_rank(summary).or(Some(Bottleneck::SynchronizationBound.general_step().into())),
    })
}

/// The step for a single trainer that waits for the answers of a server.
const ASK_BESIDE: &str = "let another thread send these requests, such as those with metrics, or send fewer of them, if training can go on without \
    the answers; otherwise find out what the server does in this time";

/// Returns the step for ranks that wait for one of them.
fn slow_rank(summary: &Summary) -> Option<String> {
    let waits = training_waits(summary)?;
    let share = |group: &&RankGroup| group.peer_wait_ns.unwrap_or(0) as f64 / group.trained_ns.max(1) as f64;
    let shares = || waits.groups.iter().map(share);
    let (least, most) = (shares().fold(f64::MAX, f64::min), shares().fold(0.0, f64::max));
    if waits.groups.len() > 1 && most - least < FREE {
        return Some(EXCHANGE_LESS.into());
    }
    let rank = waits.called(waits.groups.first()?);
    Some(format!(
        "profile {rank} in the next run (py-spy, perf): it may have more or larger samples, compute longer, or evaluate or save alone; \
         --view shows when the others wait for it"
    ))
}

/// The step if the work between opening and closing files sets the time of saves.
const CHEAPER_SAVES: &str = "make these files cheaper to produce (less compression, a faster encoder or format), save less often, or in another \
    process; faster storage would save little";

/// The step for a loop that reads in its main thread.
const READ_AHEAD: &str =
    "read ahead in the background (in PyTorch: DataLoader with num_workers above 0), or use faster storage";

/// The step if readers wait for files that others make.
const MAKE_SOONER: &str = "make the files sooner for which readers wait (they sleep until each one exists): begin earlier, copy or download several at \
    the same time, or use faster storage for their sources";

/// Returns `true` if readers slept until files existed for most of the wait for data.
fn awaits_files(summary: &Summary) -> bool {
    !summary.training.is_empty() && summary.training.iter().all(RankGroup::awaits_files)
}

/// Returns the reader for which the only trainer waited most, if it uses several PyTorch loaders and one of them has only that
/// reader.
fn alone_in_its_loader(summary: &Summary) -> Option<String> {
    let [group] = summary.training.as_slice() else { return None };
    let row = group.waited_for.iter().find(|row| row.kind == WaitKind::Data && row.processes == 1)?;
    let reader = group.readers.iter().find(|reader| reader.pid == row.pid)?;
    let with_it = group.readers.iter().filter(|other| other.proc != reader.proc && other.channel == reader.channel);
    let is_most = 2 * row.wait_ns > group.waited_ns.unwrap_or(0);
    let is_alone = group.torch && group.loading.mixes_loaders && reader.channel.is_some() && with_it.count() == 0;
    (is_most && is_alone).then(|| row.named())
}

/// The step if other programs send the data through a pipe.
const READ_PIPE: &str = "read the pipe ahead in another thread";

/// Returns the step against a cause that no finding is about.
fn own_step(cause: Bottleneck, summary: &Summary) -> String {
    let of_cpus = |finding: &&Finding| CPUS.contains(&finding.id.as_str()) && finding.fired() && finding.saves();
    match cause {
        Bottleneck::StartupBound => cheaper_start(summary),
        Bottleneck::PreprocessingBound => preprocess(summary),
        Bottleneck::TransferBound if feeding_program(summary).is_some() => READ_PIPE.into(),
        Bottleneck::CpuLimited if let Some(finding) = summary.findings.iter().find(of_cpus) => finding.remedy.clone(),
        _ => cause.general_step().into(),
    }
}

/// Two starts of readers may be those of a loader for training and of one for validation.
const RESTARTS_MIN: f64 = 2.0;

/// Returns the step that makes the start of readers cheaper, or rarer if each epoch creates new ones.
fn cheaper_start(summary: &Summary) -> String {
    let mut measures = summary.findings.iter().filter(|finding| finding.id == RESTARTS).flat_map(|rule| &rule.measures);
    let restarts = measures.find(|measure| measure.key == RESTARTS_KEY).and_then(|measure| measure.value);
    let is_torch = summary.training.iter().any(|group| group.torch);
    let keep = match (restarts.is_some_and(|number| number >= RESTARTS_MIN), is_torch) {
        (false, _) => "",
        (true, true) => "create the DataLoader once, with persistent_workers=True: each epoch created new readers; ",
        (true, false) => "keep readers from one epoch to the next; ",
    };
    let start =
        if fork_all_readers(&summary.training) { START_OF_FORKS } else { Bottleneck::StartupBound.general_step() };
    format!("{keep}{start}")
}

/// The rule that counts how often readers were replaced, and its measure.
const RESTARTS: &str = "workers-restart";
const RESTARTS_KEY: &str = "restarts";

/// Readers that are forked have the modules that the main program had imported.
const START_OF_FORKS: &str = "make the start of readers cheaper: import in the main program what they import (they are forked from it), and do \
    less work before their first batch";

/// Returns `true` if trainers waited longest for other processes.
fn wait_for_processes(summary: &Summary) -> bool {
    let longest = |group: &RankGroup| group.waited_for.iter().find(|row| row.kind == WaitKind::Data).map(|row| row.tid);
    let groups = &summary.training;
    !groups.is_empty() && groups.iter().all(|group| longest(group) == Some(None))
}

/// Returns `true` if each trainer has forked processes of its own program, whose results it receives.
fn have_worker_processes(summary: &Summary) -> bool {
    let is_worker = |process: &ProcessUse, group: &RankGroup| {
        let is_copy = |trainer: &ProcessUse| trainer.proc == group.proc && trainer.program == process.program;
        process.parent == Some(group.proc) && summary.processes.iter().any(is_copy)
    };
    let has = |group: &RankGroup| summary.processes.iter().any(|process| is_worker(process, group));
    !summary.training.is_empty() && summary.training.iter().all(has)
}

/// The step if other threads hold the interpreter's lock although readers are processes: their results are unpickled in the
/// trainer's process.
const PASS_LESS: &str = "pass fewer Python objects from the worker processes to this one (arrays or shared memory instead of lists: unpickling \
    results holds the lock); move other Python work of its threads into processes, too";

/// The step if readers wait for their own writes.
const WRITE_LESS: &str = "let readers write and sync less (write a cache once, one fsync for many samples), write in the background, or use faster \
    storage";

/// Threads and programs that end this many waits may be a loader.
const TASKS_MIN: u64 = 8;

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
    let wording = Wording::of(summary.training.iter());
    let outcome = outcome(row, summary.what_if.as_ref()?.measured_ns, wording)?;
    let is_torch = summary.training.iter().any(|group| group.torch);
    Some(match is_torch {
        true => format!("pass {} to DataLoader ({}): {outcome}", row.code, row.what),
        false => format!("use {} ({} in PyTorch): {outcome}", row.what, row.code),
    })
}

/// The rules about failures that lead the report, whatever the run waited for.
const FAILS: &str = "shm-small";
const KILLED: &str = "process-killed";

/// Returns the failure that ended the run, with the finding that explains it.
fn failure(summary: &Summary) -> Option<(Bottleneck, &'static str, &Finding)> {
    let fired = |id: &str| summary.findings.iter().find(|finding| finding.id == id && finding.fired());
    let is = |process: &&ProcessUse, role: Role| process.role == Some(role);
    let failed = |process: &ProcessUse| process.ended.strip_prefix("exit ").is_some_and(|status| status != "0");
    let killed =
        |process: &ProcessUse| process.signal.is_some_and(|signal| !asks_to_end(signal)) && process.killer.is_none();
    let processes = || summary.processes.iter();
    let loses_reader = processes().filter(|process| is(process, Role::Trainer)).any(failed)
        && processes().filter(|process| is(process, Role::Reader)).any(killed);
    let full = fired(FAILS).map(|finding| (Bottleneck::SharedMemoryFull, "batches do not fit into /dev/shm", finding));
    let dead = || {
        fired(KILLED).map(|finding| (Bottleneck::ReaderDied, "a signal ended a reader, and the run failed", finding))
    };
    full.or_else(|| dead().filter(|_| loses_reader))
}

/// The rule that knows only where storage does not lose time.
const UNSPECIFIC: &str = "slow-but-idle-device";

/// The rule about one reader that works more than the others.
const SLOW_READER: &str = "slow-worker";

/// The rule about passing batches on.
pub(super) const HAND_OVER: &str = "hand-over";

/// The rule about batches that take different times.
const UNEVEN: &str = "loader-jitter";

/// The rule about a rank for which the others wait.
const STRAGGLER: &str = "straggler-rank";

/// The rule about a used-up CPU quota.
const QUOTA: &str = "cpu-quota";

/// The rule about writes that wait for the device.
const SYNCS: &str = "fsync-share";

/// Returns `true` for a rule whose change helps only where no I/O limit sets the pace.
fn depends_on_limit(rule: &str) -> bool {
    rule != LIMITED && (READS.contains(&rule) || LOADER.contains(&rule))
}

/// The rule that names the problem but not its cause.
pub const NAMES_NO_CAUSE: &str = "input-bound";

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

/// Rules about the number of file calls, and of bytes: those that matter for files in memory, too.
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
