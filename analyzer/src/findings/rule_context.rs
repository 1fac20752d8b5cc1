//! Context in which rules are judged: the report, the limits, and quantities that several rules need.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::limits::{ALL, Limits};
use crate::summary::figures::units::{many, time};
use crate::summary::report::Summary;
use crate::summary::report::findings::{Confidence, Measure, Severity, Unit};
use crate::summary::report::functions::{Function, beneath};
use crate::summary::report::headline::Bottleneck;
use crate::summary::report::metadata::group;
use crate::summary::report::named_pipe::named_pipe;
use crate::summary::report::steps::StepPart;
use crate::summary::training::{RankGroup, are_doubtful, held, told};
use crate::summary::waits::parts::{Part, Parts};
use crate::summary::wording::Wording;

/// Maximum number of evidence rows.
pub const EVIDENCE_MAX: usize = 5;

/// The report from the perspective of one rule.
pub struct Case<'a> {
    pub summary: &'a Summary,
    pub limits: &'a Limits,
    pub rule: &'static str,
}

/// Upper bound of the time that can be saved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    pub ns: i64,
    /// `true` if nothing computed during that time.
    pub exposed: bool,
}

/// The judgement of a rule.
#[derive(Default)]
pub struct Judgement {
    pub measures: Vec<Measure>,
    /// `true` if one measure that holds is sufficient.
    pub any: bool,
    pub says: String,
    pub evidence: Vec<String>,
    /// The recommended change, if it differs from the rule's default.
    pub remedy: Option<&'static str>,
    pub worth: Option<Worth>,
    /// The severity, if it is not derived from the savings.
    pub severity: Option<Severity>,
    /// The confidence, if it is lower than the rule's highest.
    pub confidence: Option<Confidence>,
    /// Advice how to record a missing measurement.
    pub decide: &'static str,
}

/// Rules on the positions of reads, which do not matter for files in memory.
const OF_POSITIONS: [&str; 4] = ["random-in-file", "backward-seeks", "seek-noise", "unaligned"];

/// Time of trainers, averaged over them because they run in parallel.
pub struct Waited {
    pub trained_ns: i64,
    /// Mean wait; if trainers wait for one another, the time that each lost to waits of any trainer.
    pub waited_ns: i64,
    /// `true` if the loss exceeds each trainer's own wait.
    pub held: bool,
    /// Part of the wait until readers had started.
    pub starting_ns: i64,
    /// Part of the wait that was not the readers' work: hand-over, missing requests, and unknown time.
    pub apart_ns: i64,
    pub io_ns: Option<i64>,
    pub inferred: bool,
    /// `true` if a GPU may have been busy during the wait: then all values are upper bounds.
    pub gpu_untimed: bool,
}

impl Waited {
    pub fn share(&self) -> f64 {
        self.waited_ns as f64 / self.trained_ns.max(1) as f64
    }

    /// Returns the wait for the work of readers that had started.
    pub fn at_work_ns(&self) -> i64 {
        (self.waited_ns - self.starting_ns - self.apart_ns).max(0)
    }

    pub fn share_at_work(&self) -> f64 {
        self.at_work_ns() as f64 / self.trained_ns.max(1) as f64
    }

    /// Returns the share of I/O in the readers' work after their start.
    pub fn io_duty(&self) -> Option<f64> {
        self.io_ns.filter(|_| self.at_work_ns() > 0).map(|io| io as f64 / self.at_work_ns() as f64)
    }

    pub fn confidence(&self) -> Confidence {
        if self.inferred || self.gpu_untimed { Confidence::Inferred } else { Confidence::Exact }
    }

    /// Returns the savings from removing the wait: the trainer does not compute while it waits, or compute is unknown.
    pub fn worth(&self) -> Worth {
        Worth { ns: self.waited_ns, exposed: true }
    }

    /// Returns these savings without the start of readers, which faster reads do not shorten.
    pub fn worth_at_work(&self) -> Worth {
        Worth { ns: self.at_work_ns(), exposed: true }
    }
}

/// Advice to record a training run.
pub const RECORD_TRAINING: &str = "record spans, which show when training waits and computes: python3 -m dliotrace run \
    --torch SCRIPT, your own spans with dliotrace, or those of dlio bench; worker processes that deliver batches, as \
    in PyTorch, are recognized without spans";

/// Advice to record calls.
pub const RECORD_CALLS: &str = "record file calls: dlio trace";

/// Advice to record compute.
pub const RECORD_COMPUTE: &str =
    "record compute spans (category compute): python3 -m dliotrace run --torch SCRIPT does";

impl<'a> Case<'a> {
    /// Compares a value with the limit of this name: the measure holds at the limit or above.
    pub fn at_least(&self, key: &str, value: Option<f64>) -> Measure {
        self.measure(key, value, false)
    }

    /// Compares a value with a limit: the measure holds below the limit.
    pub fn below(&self, key: &str, value: Option<f64>) -> Measure {
        self.measure(key, value, true)
    }

    fn measure(&self, key: &str, value: Option<f64>, below: bool) -> Measure {
        let found = self.limits.find(self.rule, key);
        let (what, unit, limit) =
            found.map_or(("", Unit::Ratio, 0.0), |(limit, value)| (limit.what, limit.unit, value));
        Measure { key: key.into(), what: self.worded(what), value, limit, unit, below }
    }

    /// Returns the measure for the minimum number of calls of a pattern.
    pub fn calls(&self, count: u64) -> Measure {
        Case { rule: ALL, ..*self }.at_least("calls", Some(count as f64))
    }

    /// Returns whether more readers certainly shorten the training, by replay; `None` if that was not replayed, or is
    /// uncertain.
    pub fn more_readers_save(&self) -> Option<bool> {
        let replay = self.summary.what_if.as_ref()?;
        let row = replay.changes.iter().find(|row| row.change.starts_with("workers="))?;
        match row.sure_ns(replay.measured_ns)? {
            sure if sure > 0 => Some(true),
            _ => row.is_nothing(replay.measured_ns).then_some(false).filter(|_| !row.is_unknown(replay.measured_ns)),
        }
    }

    pub fn wall_ns(&self) -> i64 {
        self.summary.time.total_ns.max(1)
    }

    /// Returns the unique bytes read.
    pub fn unique_bytes(&self) -> f64 {
        let what = &self.summary.dataset;
        what.bytes_read.saturating_sub(what.bytes_reread) as f64
    }

    /// Returns the bytes read from storage on all hosts, excluding page cache hits.
    pub fn storage_read(&self) -> Option<u64> {
        self.summary.machine.iter().filter_map(|machine| machine.storage_read).reduce(|a, b| a + b)
    }

    /// Returns the time before training started, within the run, of the trainer with the longest start. `None` if a
    /// time window excludes it.
    pub fn before_training(&self) -> Option<i64> {
        let run_start = self.summary.time.start_ts;
        self.summary.training.iter().filter_map(|group| group.startup_within(run_start)).max()
    }

    /// Returns the wait; `None` if it is unknown for all trainers, or if it may not be for data.
    pub fn waited(&self) -> Option<Waited> {
        if are_doubtful(&self.summary.training) {
            return None;
        }
        let groups = told(&self.summary.training);
        let number = groups.len() as i64;
        let mean = |of: fn(&RankGroup) -> Option<i64>| {
            let sum: Option<i64> = groups.iter().map(|group| of(group)).sum();
            sum.map(|sum| sum / number.max(1))
        };
        let trained_ns = mean(|group| Some(group.trained_ns)).filter(|ns| *ns > 0)?;
        let waited_ns = mean(|group| group.waited_ns)?;
        let inferred = self.infers_training();
        let gpu_untimed = self.summary.training.iter().any(|group| group.gpu_untimed);
        let starting_ns = mean(|group| Some(group.wait_start_ns.unwrap_or(0)))?;
        let apart_ns = self.causes().map_or(0, |causes| {
            let parts = [Part::HandOver, Part::NotAsked, Part::OutsideCalls, Part::Unknown];
            let apart = parts.map(|part| causes.get(part));
            apart.iter().sum::<i64>() / number.max(1)
        });
        let lost_ns = held(&groups).unwrap_or(0).max(waited_ns);
        // Divide the additional wait for other ranks in proportion to the own wait. Readers start in parallel.
        let (own, all) = ((waited_ns - starting_ns).max(1) as f64, (lost_ns - starting_ns) as f64);
        let io_ns = mean(|group| group.wait_io_ns).map(|io| (io as f64 * (all / own).max(1.0)) as i64);
        let held = lost_ns > waited_ns;
        Some(Waited { trained_ns, waited_ns: lost_ns, held, starting_ns, apart_ns, io_ns, inferred, gpu_untimed })
    }

    /// Returns the summed causes of all trainers' waits; `None` if the trace does not show what ended them.
    pub fn causes(&self) -> Option<Parts> {
        let groups = told(&self.summary.training);
        let sum = groups.iter().try_fold(Parts::default(), |sum, group| Some(sum + group.causes?));
        sum.filter(|_| !groups.is_empty())
    }

    /// Returns the share of some causes in the wait. Reads of a named pipe do not wait for storage.
    pub fn cause_share(&self, parts: &[Part]) -> Option<f64> {
        let causes = self.causes()?;
        let reads_pipe = parts.contains(&Part::Storage) && named_pipe(self.summary).is_some();
        let counts = |part: &&Part| !reads_pipe || **part != Part::Storage;
        part(parts.iter().filter(counts).map(|part| causes.get(*part)).sum::<i64>() as f64, causes.sum() as f64)
    }

    /// Returns the change for the largest cause of the wait, if it is one of these.
    pub fn change_for(&self, causes: &[Part]) -> Option<&'static str> {
        let largest = self.causes()?.largest();
        causes.contains(&largest).then(|| Bottleneck::of_cause(largest).general_step())
    }

    /// Returns `true` if readers had ended for most of the wait: then neither their number nor their speed is the cause.
    pub fn readers_died(&self) -> bool {
        self.cause_share(&[Part::Dead]).is_some_and(|share| share >= MOSTLY_DEAD)
    }

    /// Returns the upper bound of the savings from faster reads: the waits of a training run, plus the I/O in its steps
    /// outside waits. `None` if no span shows them.
    pub fn read_at_most(&self) -> Option<i64> {
        let waited = self.waited().filter(|waited| !waited.inferred)?;
        let steps = &self.summary.steps;
        let own = steps.iter().map(|row| row.sum.io_ns).sum::<i64>() / steps.len().max(1) as i64;
        Some(waited.waited_ns + own)
    }

    /// Returns `true` if no span shows a training run.
    pub fn infers_training(&self) -> bool {
        self.summary.training.iter().any(|group| group.inferred)
    }

    /// Returns `true` if the trainers themselves do all their reading.
    pub fn reads_itself(&self) -> bool {
        let groups = &self.summary.training;
        !groups.is_empty() && groups.iter().all(RankGroup::reads_itself)
    }

    /// Returns the longest time over trainers in which a trainer's own thread wrote and synchronized files during
    /// training.
    pub fn written_ns(&self) -> i64 {
        self.summary.training.iter().filter_map(|group| group.written_ns).max().unwrap_or(0)
    }

    /// Returns I/O that does not overlap compute, or all I/O if compute is unknown and no stall of a training run is
    /// known.
    pub fn exposed_io(&self) -> Worth {
        let spent = &self.summary.time;
        let waited = self.waited_io();
        match spent.unoverlapped_io_ns {
            Some(ns) => Worth { ns: ns.max(waited), exposed: true },
            None if waited + self.written_ns() > 0 => Worth { ns: waited + self.written_ns(), exposed: true },
            None => Worth { ns: spent.io_ns.unwrap_or(0), exposed: false },
        }
    }

    fn waited_io(&self) -> i64 {
        let io = self.waited().and_then(|waited| waited.io_ns).unwrap_or(0);
        let causes = self.causes().filter(|_| OF_POSITIONS.contains(&self.rule));
        let [stored, served] = [Part::Storage, Part::FileCalls].map(|part| causes.map_or(0, |causes| causes.get(part)));
        (io as f64 * part(stored as f64, (stored + served) as f64).unwrap_or(1.0)) as i64
    }

    /// Returns `true` if compute time is unknown but the time trainers were stalled is known.
    fn stands(&self) -> bool {
        self.summary.time.unoverlapped_io_ns.is_none() && self.waited_io() + self.written_ns() > 0
    }

    /// Returns the part of the exposed time that belongs to some calls, in proportion to their share of all time in
    /// file calls. If training is inferred, the exposed time is its wait, which excludes its own thread's writes.
    pub fn shared_out(&self, time_ns: f64) -> Worth {
        let (exposed, all) = match self.stands() {
            true => (Worth { ns: self.waited_io(), exposed: true }, self.file_ns() - self.all_written()),
            false => (self.exposed_io(), self.file_ns()),
        };
        let part = if all > 0.0 { (time_ns / all).clamp(0.0, 1.0) } else { 0.0 };
        Worth { ns: (exposed.ns as f64 * part) as i64, ..exposed }
    }

    /// Returns this part for calls that write or synchronize: a training run is stalled for its own thread's writes,
    /// regardless of its readers.
    pub fn written_out(&self, time_ns: f64) -> Worth {
        let is_put = |function: &Function| function.class == "write" || function.class == "sync";
        let all = self.calls_where(is_put).time_ns;
        if !self.stands() || all <= 0.0 {
            return self.shared_out(time_ns);
        }
        let part = (time_ns / all).clamp(0.0, 1.0);
        let others = self.shared_out(((all - self.all_written()) * part).max(0.0));
        // The stall also contains other calls on these files, such as opens.
        let stalled = (self.written_ns() as f64 * part).min(time_ns);
        Worth { ns: stalled as i64 + others.ns, exposed: true }
    }

    fn all_written(&self) -> f64 {
        self.summary.training.iter().filter_map(|group| group.written_ns).sum::<i64>() as f64
    }

    /// Returns the summed time of file calls.
    pub fn file_ns(&self) -> f64 {
        self.calls_on_files().map(|function| function.time_ns as f64).sum()
    }

    pub fn calls_on_files(&self) -> impl Iterator<Item = &'a Function> {
        beneath(&self.summary.functions)
    }

    /// Returns matching functions: number of calls, total time, and evidence rows.
    pub fn calls_where(&self, wanted: impl Fn(&Function) -> bool) -> Calls {
        gathered(self.calls_on_files().filter(|function| wanted(function)).collect())
    }

    /// Returns calls that wait for a file lock. Older traces include fcntl locks in its other calls, which take no
    /// significant time.
    pub fn locks(&self) -> Calls {
        let all = self.summary.functions.iter().chain(&self.summary.past_files);
        gathered(all.filter(|function| LOCKS.contains(&function.name.as_str())).collect())
    }

    /// Returns the share of the readers' lifetimes spent waiting for locks, assuming that only readers take locks;
    /// `None` without readers.
    pub fn locked(&self) -> Option<f64> {
        let readers = self.summary.training.iter().flat_map(|group| &group.readers);
        let lives: i64 = readers.map(|reader| reader.last_ts - reader.first_ts).sum();
        part(self.locks().time_ns, lives as f64).map(|part| part.min(1.0))
    }
}

/// Aggregates several functions. A function whose calls concern files and other descriptors has one row.
fn gathered(found: Vec<&Function>) -> Calls {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for function in found {
        let sum = sums.entry(&function.name).or_default();
        *sum = (sum.0 + function.count, sum.1 + function.time_ns);
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_, (_, time_ns))| Reverse(*time_ns));
    let row = |(name, (count, time_ns)): &(&str, (u64, u64))| {
        format!("{name}: {}, {} summed over threads", many(*count, "call", "calls"), time(*time_ns as f64))
    };
    Calls {
        count: rows.iter().map(|(_, (count, _))| count).sum(),
        time_ns: rows.iter().map(|(_, (_, time_ns))| *time_ns as f64).sum(),
        rows: rows.iter().take(EVIDENCE_MAX).map(row).collect(),
    }
}

impl Case<'_> {
    /// Returns the words for the loop that takes batches.
    pub fn wording(&self) -> Wording {
        Wording::of(self.summary.training.iter())
    }

    /// Returns the name of a measurement, with the words for a main loop if nothing shows that it trains.
    fn worded(&self, what: &str) -> String {
        match self.wording() {
            Wording::MainLoop if !self.summary.training.is_empty() => {
                what.replace("wait for batches", "wait for data").replace("share of training", "share of the main loop")
            }
            _ => what.into(),
        }
    }

    /// Returns `training` or, if nothing shows that it trains, `the main loop`.
    pub fn loop_name(&self) -> &'static str {
        self.wording().noun()
    }

    /// Returns the number of files of the pattern that took most time of those that were mostly written.
    pub fn written_files(&self) -> f64 {
        let mut written = self.summary.patterns.iter().filter(|row| row.use_.bytes_written > row.use_.bytes_read);
        written.next().map_or(0.0, |row| row.files as f64)
    }

    /// Returns the number and total time of metadata calls in these groups.
    pub fn asked(&self, groups: &[&str]) -> (u64, f64) {
        let rows = self.summary.metadata.iter().filter(|row| groups.contains(&row.group.as_str()));
        rows.fold((0, 0.0), |(count, ns), row| (count + row.count, ns + row.time_ns as f64))
    }

    /// Returns the time of opening and closing files, excluding failed opens.
    pub fn opening_ns(&self) -> f64 {
        let (_, time_ns) = self.asked(&["open", "close"]);
        let rows = self.summary.failures.iter().filter(|row| row.class == "metadata" && group(&row.name) == "open");
        time_ns - rows.map(|row| row.time_ns as f64).sum::<f64>()
    }

    /// Returns reads or writes that moved at least `from` and fewer than `to` bytes.
    pub fn moved(&self, class: &str, from: u64, to: u64) -> Moved {
        let rows = self.summary.sizes.iter().filter(|row| row.class == class && row.from >= from && row.to <= to);
        rows.fold(Moved::default(), |sum, row| Moved {
            count: sum.count + row.count,
            bytes: sum.bytes + row.bytes as f64,
            time_ns: sum.time_ns + row.time_ns as f64,
        })
    }

    /// Returns the number of epochs that spans number; zero if spans number none.
    pub fn epochs(&self) -> u64 {
        self.summary.training.iter().map(|group| group.epochs).max().unwrap_or(0)
    }

    /// Returns the number of successful opens of files.
    pub fn opens(&self) -> u64 {
        self.summary.directories.iter().map(|folder| folder.use_.opens).sum()
    }

    /// Returns a part of the trainers' steps as a share of a step, averaged over trainers.
    pub fn step_share(&self, of: fn(&StepPart) -> i64) -> Option<f64> {
        let steps = &self.summary.steps;
        let total: i64 = steps.iter().map(|row| row.sum.total_ns).sum();
        part(steps.iter().map(|row| of(&row.sum)).sum::<i64>() as f64, total as f64)
    }
}

/// Reads or writes of some sizes.
#[derive(Default, Clone, Copy, Debug)]
pub struct Moved {
    pub count: u64,
    pub bytes: f64,
    pub time_ns: f64,
}

/// Minimum time to copy from memory, in nanoseconds per byte, used if storage was never faster.
pub const COPY_NS_A_BYTE: f64 = 0.125;

/// Minimum time of a call served from memory.
pub const CALL_NS: f64 = 1500.0;

/// Returns a change worded for any training, or for PyTorch if the trace shows PyTorch and has a separate text.
pub fn in_words(summary: &Summary, any: &'static str, torch: &'static str) -> &'static str {
    let is_torch = summary.training.iter().any(|group| group.torch);
    if is_torch && !torch.is_empty() { torch } else { any }
}

/// If readers had ended for this share of the wait, that is the cause.
const MOSTLY_DEAD: f64 = 0.5;

/// Calls that wait for a device. `fflush` only writes to the kernel and is not included.
pub const SYNCS: [&str; 9] = [
    "fsync",
    "fdatasync",
    "sync",
    "syncfs",
    "sync_file_range",
    "msync",
    "aio_fsync_done",
    "io_uring_fsync",
    "io_uring_sync_file_range",
];

/// Calls on locks.
const LOCKS: [&str; 4] = ["flock", "lockf", "fcntl", "fcntl_setlkw"];

/// Totals of some calls.
pub struct Calls {
    pub count: u64,
    pub time_ns: f64,
    pub rows: Vec<String>,
}

/// Returns a part of a whole; `None` if the whole is zero.
pub fn part(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Returns the name of a rank group.
pub fn named(group: &RankGroup) -> String {
    group.rank.map_or_else(|| format!("{} ({})", group.trainer, group.pid), |rank| format!("rank {rank}"))
}
