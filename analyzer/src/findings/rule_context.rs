//! The case that rules judge: the report, their limits, and quantities that several of them need.

use std::cmp::Reverse;

use super::limits::{ALL, Limits};
use crate::summary::figures::units::{grouped, time};
use crate::summary::report::Summary;
use crate::summary::report::findings::{Confidence, Measure, Severity, Unit};
use crate::summary::report::functions::{Function, beneath};
use crate::summary::report::metadata::group;
use crate::summary::report::steps::StepPart;
use crate::summary::training::{RankGroup, are_doubtful, held, told};
use crate::summary::waits::parts::{Part, Parts};

/// Rows of evidence at most.
pub const EVIDENCE_MAX: usize = 5;

/// The report as one rule sees it.
pub struct Case<'a> {
    pub summary: &'a Summary,
    pub limits: &'a Limits,
    pub rule: &'static str,
}

/// Time that can be won at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    pub ns: i64,
    /// True if nothing computed in that time.
    pub exposed: bool,
}

/// The judgement of a rule.
#[derive(Default)]
pub struct Judgement {
    pub measures: Vec<Measure>,
    /// One measure that holds suffices.
    pub any: bool,
    pub says: String,
    pub evidence: Vec<String>,
    /// The change to make, where it is another than the rule's.
    pub remedy: Option<&'static str>,
    pub worth: Option<Worth>,
    /// The severity, where it does not come from the worth.
    pub severity: Option<Severity>,
    /// The confidence, where it is less than the rule's at best.
    pub confidence: Option<Confidence>,
    /// The run that would decide it, where something was not measured.
    pub decide: &'static str,
}

/// The time of trainers: means over them, since they run side by side.
pub struct Waited {
    pub trained_ns: i64,
    /// Where they wait for one another, what each lost to waits of whichever.
    pub waited_ns: i64,
    /// True if that is more than each waited itself.
    pub held: bool,
    /// Of the wait, what went by until readers had started, and then readers in I/O.
    pub starting_ns: i64,
    /// And what was no work of readers: handing over, not being asked, and what nobody knows.
    pub apart_ns: i64,
    pub io_ns: Option<i64>,
    pub inferred: bool,
    /// True if a GPU may have been busy meanwhile: then all of this is an upper bound.
    pub gpu_untimed: bool,
}

impl Waited {
    pub fn share(&self) -> f64 {
        self.waited_ns as f64 / self.trained_ns.max(1) as f64
    }

    /// The wait for the work of readers that had started.
    pub fn at_work_ns(&self) -> i64 {
        (self.waited_ns - self.starting_ns - self.apart_ns).max(0)
    }

    pub fn share_at_work(&self) -> f64 {
        self.at_work_ns() as f64 / self.trained_ns.max(1) as f64
    }

    /// Readers in I/O, of what they were busy with once they had started.
    pub fn io_duty(&self) -> Option<f64> {
        self.io_ns.filter(|_| self.at_work_ns() > 0).map(|io| io as f64 / self.at_work_ns() as f64)
    }

    pub fn confidence(&self) -> Confidence {
        if self.inferred || self.gpu_untimed { Confidence::Inferred } else { Confidence::Exact }
    }

    /// The wait is time in which its trainer computes nothing, or nobody says that anything computes.
    pub fn worth(&self) -> Worth {
        Worth { ns: self.waited_ns, exposed: true }
    }

    /// The same without the start of readers, which no faster reading shortens.
    pub fn worth_at_work(&self) -> Worth {
        Worth { ns: self.at_work_ns(), exposed: true }
    }
}

/// The run that would show a training.
pub const RECORD_TRAINING: &str = "record spans, which show when training waits and computes: python -m dliotrace run \
    --torch SCRIPT, your own spans with dliotrace, or those of dlio bench; worker processes that deliver batches, as \
    in PyTorch, are recognized without spans";

/// The run that would show calls.
pub const RECORD_CALLS: &str = "record calls on files: dlio trace";

/// The run that would show compute.
pub const RECORD_COMPUTE: &str = "record compute spans (category compute): python -m dliotrace run --torch SCRIPT does";

impl<'a> Case<'a> {
    /// A value against the limit of this name: it holds from there on.
    pub fn at_least(&self, key: &str, value: Option<f64>) -> Measure {
        self.measure(key, value, false)
    }

    /// A value that has to be below the limit.
    pub fn below(&self, key: &str, value: Option<f64>) -> Measure {
        self.measure(key, value, true)
    }

    fn measure(&self, key: &str, value: Option<f64>, below: bool) -> Measure {
        let found = self.limits.find(self.rule, key);
        let (what, unit, limit) =
            found.map_or(("", Unit::Ratio, 0.0), |(limit, value)| (limit.what, limit.unit, value));
        Measure { key: key.into(), what: what.into(), value, limit, unit, below }
    }

    /// Enough calls to speak of a pattern.
    pub fn calls(&self, count: u64) -> Measure {
        Case { rule: ALL, ..*self }.at_least("calls", Some(count as f64))
    }

    pub fn wall_ns(&self) -> i64 {
        self.summary.time.total_ns.max(1)
    }

    /// Bytes read, each counted once.
    pub fn unique_bytes(&self) -> f64 {
        let what = &self.summary.dataset;
        what.bytes_read.saturating_sub(what.bytes_reread) as f64
    }

    /// Bytes that storage read past the page cache, on all machines.
    pub fn storage_read(&self) -> Option<u64> {
        self.summary.machine.iter().filter_map(|machine| machine.storage_read).reduce(|a, b| a + b)
    }

    /// The time before training began, of the trainer where it took longest; of it no more than lies in the run. `None` where
    /// a window cuts that off.
    pub fn before_training(&self) -> Option<i64> {
        let run_start = self.summary.time.start_ts;
        self.summary.training.iter().filter_map(|group| group.startup_within(run_start)).max()
    }

    /// `None` where it is known of no trainer how long it waited, or whether it waited for data.
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
        // What others waited beyond that is shared out as the own wait is. Readers start side by side.
        let (own, all) = ((waited_ns - starting_ns).max(1) as f64, (lost_ns - starting_ns) as f64);
        let io_ns = mean(|group| group.wait_io_ns).map(|io| (io as f64 * (all / own).max(1.0)) as i64);
        let held = lost_ns > waited_ns;
        Some(Waited { trained_ns, waited_ns: lost_ns, held, starting_ns, apart_ns, io_ns, inferred, gpu_untimed })
    }

    /// The causes of all trainers' waits together; `None` where the trace does not tell who ended them.
    pub fn causes(&self) -> Option<Parts> {
        let groups = told(&self.summary.training);
        let sum = groups.iter().try_fold(Parts::default(), |sum, group| Some(sum + group.causes?));
        sum.filter(|_| !groups.is_empty())
    }

    /// The share of some causes in the wait.
    pub fn cause_share(&self, parts: &[Part]) -> Option<f64> {
        let causes = self.causes()?;
        part(parts.iter().map(|part| causes.get(*part)).sum::<i64>() as f64, causes.sum() as f64)
    }

    /// What faster reading wins at most: the waits of a training, and the I/O in its steps that is no wait. `None` where no
    /// span tells of them.
    pub fn read_at_most(&self) -> Option<i64> {
        let waited = self.waited().filter(|waited| !waited.inferred)?;
        let steps = &self.summary.steps;
        let own = steps.iter().map(|row| row.sum.io_ns).sum::<i64>() / steps.len().max(1) as i64;
        Some(waited.waited_ns + own)
    }

    /// True if no span tells of a training.
    pub fn infers_training(&self) -> bool {
        self.summary.training.iter().any(|group| group.inferred)
    }

    /// True if trainers read for themselves, and nobody else for them.
    pub fn reads_itself(&self) -> bool {
        let groups = &self.summary.training;
        !groups.is_empty() && groups.iter().all(RankGroup::reads_itself)
    }

    /// The time in which a trainer's own thread wrote and synchronised while it trained, of the one that did longest.
    pub fn written_ns(&self) -> i64 {
        self.summary.training.iter().filter_map(|group| group.written_ns).max().unwrap_or(0)
    }

    /// I/O without compute beside it; all I/O where nobody says what computes and no training stands for it.
    pub fn exposed_io(&self) -> Worth {
        let spent = &self.summary.time;
        let waited = self.waited_io();
        match spent.unoverlapped_io_ns {
            Some(ns) => Worth { ns: ns.max(waited), exposed: true },
            None if waited + self.written_ns() > 0 => Worth { ns: waited + self.written_ns(), exposed: true },
            None => Worth { ns: spent.io_ns, exposed: false },
        }
    }

    fn waited_io(&self) -> i64 {
        self.waited().and_then(|waited| waited.io_ns).unwrap_or(0)
    }

    /// True if spans tell of no computing, and it is known what trainings stand for.
    fn stands(&self) -> bool {
        self.summary.time.unoverlapped_io_ns.is_none() && self.waited_io() + self.written_ns() > 0
    }

    /// The part of the exposed time which belongs to some calls: as large as their part of all time in calls on files. Where a
    /// training is inferred that is its wait, in which none of what its own thread writes lies.
    pub fn shared_out(&self, time_ns: f64) -> Worth {
        let (exposed, all) = match self.stands() {
            true => (Worth { ns: self.waited_io(), exposed: true }, self.file_ns() - self.all_written()),
            false => (self.exposed_io(), self.file_ns()),
        };
        let part = if all > 0.0 { (time_ns / all).clamp(0.0, 1.0) } else { 0.0 };
        Worth { ns: (exposed.ns as f64 * part) as i64, ..exposed }
    }

    /// The same of calls that write or synchronise: a training stands for what its own thread writes, whatever readers do.
    pub fn written_out(&self, time_ns: f64) -> Worth {
        let is_put = |function: &Function| function.class == "write" || function.class == "sync";
        let all = self.calls_where(is_put).time_ns;
        if !self.stands() || all <= 0.0 {
            return self.shared_out(time_ns);
        }
        let part = (time_ns / all).clamp(0.0, 1.0);
        let others = self.shared_out(((all - self.all_written()) * part).max(0.0));
        Worth { ns: (self.written_ns() as f64 * part) as i64 + others.ns, exposed: true }
    }

    fn all_written(&self) -> f64 {
        self.summary.training.iter().filter_map(|group| group.written_ns).sum::<i64>() as f64
    }

    /// Summed time of calls on files.
    pub fn file_ns(&self) -> f64 {
        self.calls_on_files().map(|function| function.time_ns as f64).sum()
    }

    pub fn calls_on_files(&self) -> impl Iterator<Item = &'a Function> {
        beneath(&self.summary.functions)
    }

    /// Functions that were asked for: how often, how long, and rows for evidence.
    pub fn calls_where(&self, wanted: impl Fn(&Function) -> bool) -> Calls {
        gathered(self.calls_on_files().filter(|function| wanted(function)).collect())
    }

    /// Calls that wait for a lock on a file. Traces of before have those of fcntl among its other calls, of which nothing else
    /// takes time.
    pub fn locks(&self) -> Calls {
        let all = self.summary.functions.iter().chain(&self.summary.past_files);
        gathered(all.filter(|function| LOCKS.contains(&function.name.as_str())).collect())
    }

    /// The part of their lives that readers waited for locks, were nobody else to take any; `None` where there are none.
    pub fn locked(&self) -> Option<f64> {
        let readers = self.summary.training.iter().flat_map(|group| &group.readers);
        let lives: i64 = readers.map(|reader| reader.last_ts - reader.first_ts).sum();
        part(self.locks().time_ns, lives as f64).map(|part| part.min(1.0))
    }
}

/// Some functions taken together.
fn gathered(mut found: Vec<&Function>) -> Calls {
    found.sort_by_key(|function| Reverse(function.time_ns));
    let row = |function: &&Function| {
        let Function { name, count, time_ns, .. } = function;
        format!("{name}: {} calls, {} in total", grouped(*count), time(*time_ns as f64))
    };
    Calls {
        count: found.iter().map(|function| function.count).sum(),
        time_ns: found.iter().map(|function| function.time_ns as f64).sum(),
        rows: found.iter().take(EVIDENCE_MAX).map(row).collect(),
    }
}

impl Case<'_> {
    /// Metadata calls of these groups: how many, and how long together.
    pub fn asked(&self, groups: &[&str]) -> (u64, f64) {
        let rows = self.summary.metadata.iter().filter(|row| groups.contains(&row.group.as_str()));
        rows.fold((0, 0.0), |(count, ns), row| (count + row.count, ns + row.time_ns as f64))
    }

    /// Time of opening and closing files, without that of opens that failed.
    pub fn opening_ns(&self) -> f64 {
        let (_, time_ns) = self.asked(&["open", "close"]);
        let rows = self.summary.failures.iter().filter(|row| row.class == "metadata" && group(&row.name) == "open");
        time_ns - rows.map(|row| row.time_ns as f64).sum::<f64>()
    }

    /// Reads or writes that moved from `from` bytes on and less than `to`.
    pub fn moved(&self, class: &str, from: u64, to: u64) -> Moved {
        let rows = self.summary.sizes.iter().filter(|row| row.class == class && row.from >= from && row.to <= to);
        rows.fold(Moved::default(), |sum, row| Moved {
            count: sum.count + row.count,
            bytes: sum.bytes + row.bytes as f64,
            time_ns: sum.time_ns + row.time_ns as f64,
        })
    }

    /// Epochs that spans number; zero where none does.
    pub fn epochs(&self) -> u64 {
        self.summary.training.iter().map(|group| group.epochs).max().unwrap_or(0)
    }

    /// Successful opens of files.
    pub fn opens(&self) -> u64 {
        self.summary.directories.iter().map(|folder| folder.use_.opens).sum()
    }

    /// A part of the steps of trainers, on average over trainers, as a share of a step.
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

/// The least time of copying out of memory, in nanoseconds a byte: where storage never was faster than that.
pub const COPY_NS_A_BYTE: f64 = 0.125;

/// The least time of a call that finds its bytes in memory.
pub const CALL_NS: f64 = 1500.0;

/// A remedy in the words of any training, or of PyTorch where the trace tells of it and its words are others.
pub fn in_words(summary: &Summary, any: &'static str, torch: &'static str) -> &'static str {
    let is_torch = summary.training.iter().any(|group| group.torch);
    if is_torch && !torch.is_empty() { torch } else { any }
}

/// Calls that wait for a device. `fflush` hands over to the kernel only.
pub const SYNCS: [&str; 7] = ["fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync", "aio_fsync_done"];

/// Calls on locks.
const LOCKS: [&str; 4] = ["flock", "lockf", "fcntl", "fcntl_setlkw"];

/// Some calls taken together.
pub struct Calls {
    pub count: u64,
    pub time_ns: f64,
    pub rows: Vec<String>,
}

/// A part of a whole; `None` of nothing.
pub fn part(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// The name of a rank group.
pub fn named(group: &RankGroup) -> String {
    group.rank.map_or_else(|| format!("{} ({})", group.trainer, group.pid), |rank| format!("rank {rank}"))
}
