//! The sentences that interpret the report. The first one answers the main question: did training wait for data?

use std::collections::BTreeSet;

use dlio_schemas::native::trouble;

use super::Summary;
use super::causes::{Maker, causes};
use super::communication::of_ranks;
use super::damage::DamageNote;
use super::dataset::Dataset;
use super::findings::Unit;
use super::functions::beneath;
use super::gpu::{Gpus, gpus};
use super::locked;
use super::named_pipe::named_pipe;
use super::no_cpu::{Shortage, reader_cpus};
use super::own_reads::{faulted, may_loop, may_train, own_faults, reads_itself};
use super::subject::{FREE, LIMITING, Subject, subject, waited_for};
use super::time::Time;
use super::wait_enders::most;
use crate::load::events::parser::DURATIONLESS;
use crate::summary::count::remote_ends::RemoteEnd;
use crate::summary::figures::units::{bytes, grouped, many, share, time};
use crate::summary::training::{RankGroup, ReaderUse, WaitedFor, held, told};
use crate::summary::waits::parts::{Part, Parts};
use crate::summary::waits::timeline::STEPS_MAX;
use crate::summary::waits::trainers::WaitKind;
use crate::summary::wording::Wording;

/// A loop that waits for less than this share of its time shows no readers.
const NONE: f64 = 0.005;

/// Times below this share of a training run are not mentioned.
const WORTH: f64 = 0.01;

/// If readers spent at least `STORAGE` of a wait in I/O, storage was the bottleneck; below `NO_STORAGE` it was not.
pub(super) const STORAGE: f64 = 0.7;
pub(super) const NO_STORAGE: f64 = 0.3;

/// If all readers were idle for more than this share of a wait, their work does not explain it.
const IDLE: f64 = 0.5;

/// Readers set the pace if they are idle for less than this share of their lives, and live for this share of the training.
const PAUSES: f64 = 0.03;
const COVERED: f64 = 0.8;

/// Writes after the last batch are mentioned if they take this share of all writes.
const AFTER_LAST: f64 = 0.25;

/// The work between opening and closing files sets the time of saves if calls took less than one part in this many.
const OUTSIDE_CALLS: i64 = 5;

/// So is the part of them in which no CPU was free.
const WITHOUT_CPU: f64 = 0.25;

/// Ranks that wait longer than the one they wait for loses, by this share, wait for work that the trace does not show.
const APART: f64 = 0.15;

/// If this share of the events or more is lost, the report does not describe the run.
pub const LACKS: f64 = 0.1;

/// Returns the sentences on a report. `pools` are processes that wait for worker pools.
pub(super) fn sentences(summary: &Summary, waits: Option<&Waits>, pools: &[RankGroup]) -> Vec<String> {
    if summary.allocation.events == 0 {
        return vec![match summary.allocation.lacks_events() {
            true => all_lost(summary.allocation.lost, &summary.damage),
            false if unknown(&summary.damage) => UNKNOWN.into(),
            false => {
                "The trace contains no events: the program made no calls that are traced, or filters removed all of them.".into()
            }
        }];
    }
    let mut sentences: Vec<String> = lacking(summary).into_iter().collect();
    match waits {
        Some(waits) => {
            // Longer losses than waits for data precede them.
            let lost = waits.lost();
            let (first, last): (Vec<_>, Vec<_>) = [
                (waits.waited_for().into_iter().collect(), waits.victims_of_more(lost).is_some()),
                (waits.other_waits(), waits.longest_other() > lost),
                (waits.stalled_by_writes().into_iter().collect(), waits.written_share() > lost),
            ]
            .into_iter()
            .partition(|(_, leads)| *leads);
            let of = |parts: Vec<(Vec<String>, bool)>| parts.into_iter().flat_map(|(sentences, _)| sentences);
            sentences.extend(of(first));
            sentences.push(waits.answer());
            sentences.extend(waits.hidden_by_gpu());
            sentences.extend(waits.gpus.iter().flat_map(Gpus::sentences));
            sentences.extend(waits.cause(summary.knows_calls()));
            sentences.extend(waits.named_cause(summary));
            sentences.extend(waits.lacks(&summary.dataset).map(String::from));
            sentences.extend(of(last));
            sentences.extend(waits.startup(summary.time.start_ts));
            sentences.push(volume(summary));
        }
        None => {
            sentences.push(volume(summary));
            sentences.extend(balance(summary, !pools.is_empty()));
            sentences.extend(self::waits(pools).map(|waits| waits.for_workers()));
        }
    }
    if let Some(ranks) = of_ranks(summary).filter(|ranks| ranks.share() >= FREE) {
        sentences.push(ranks.sentence());
    }
    sentences.extend(failed(summary));
    sentences.extend(unexplained(summary));
    sentences.extend(timeless(summary));
    sentences.extend(cut_short(summary));
    sentences.extend(costliest_call(summary));
    sentences.extend(loss(summary));
    sentences.extend(summary.allocation.ptrace_note().map(|note| note + "."));
    sentences.extend(untraced(summary));
    sentences.extend(of_no_run(summary));
    sentences.extend(aggregated(summary));
    sentences
}

/// Returns the sentence on the traced command if it failed.
fn failed(summary: &Summary) -> Option<String> {
    let commands = summary.processes.iter().filter(|process| process.parent.is_none());
    let mut failed = commands.filter_map(|process| {
        let status = process.ended.strip_prefix("exit ").filter(|status| *status != "0")?;
        Some(format!("The command ({}) exited with status {status}", process.called))
    });
    let (first, others) = (failed.next()?, failed.count());
    Some(if others == 0 {
        first + "."
    } else {
        format!("{first}; {} failed, too.", many(others as u64, "other", "others"))
    })
}

/// Returns the sentence on a trace that lost all of its events. Its processes recorded the cause, unless an older tracer wrote it.
pub fn all_lost(lost: u64, notes: &[DamageNote]) -> String {
    let happened = many(lost, "event was lost", "events were lost");
    let cause = notes.iter().filter(|note| note.remark).find_map(|note| note.what.strip_prefix(trouble::LOST));
    let cause = cause.unwrap_or(
        "the disk of the trace directory was full, or a limit on files or memory was reached. Free some space or choose another \
         directory (-o DIR), and run again",
    );
    format!("The trace contains no events: {happened}. Cause: {cause}.")
}

/// The sentence on a damaged trace without events.
pub const UNKNOWN: &str = "The trace contains no events: its files are damaged, and the number of lost events is unknown. \
                           --section damage lists the files.";

/// Returns `true` if damage may have cost an unknown number of events.
pub fn unknown(notes: &[DamageNote]) -> bool {
    notes.iter().any(|note| !note.remark && note.events_max != Some(0))
}

/// The waits of a run's trainers, as sums over trainers. The report prints their mean.
pub(super) struct Waits<'a> {
    pub(super) groups: Vec<&'a RankGroup>,
    /// Trainers that wait for the single trainer in `groups`.
    victims: Vec<&'a RankGroup>,
    /// Trainers of other jobs, which waited less than the single trainer in `groups`.
    unrelated: Vec<&'a RankGroup>,
    pub(super) trained: i64,
    pub(super) waited: i64,
    /// The part of the wait that passed before readers had started.
    pub(super) starting: i64,
    /// The time that each trainer lost to waits of any trainer; `None` if they do not wait for one another.
    held: Option<i64>,
    /// The part of the wait that started readers spent in I/O; `None` if that is unknown for one of the trainers.
    pub(super) io: Option<i64>,
    /// The causes of the wait; `None` if the trace does not show who ended it.
    pub(super) causes: Option<Parts>,
    /// `true` if the causes are those of the slowest trainers.
    of_slowest: bool,
    /// The reason why no CPU was free, if readers waited for one.
    pub(super) shortage: Option<Shortage>,
    /// The named pipe in which readers spent most of their time in file calls.
    pub(super) pipe: Option<String>,
    /// The GPUs of these trainers, if they were timed.
    pub(super) gpus: Option<Gpus>,
}

/// Returns the waits of the run's trainers, with the reason why no CPU was free.
pub(super) fn training_waits(summary: &Summary) -> Option<Waits<'_>> {
    let waits = waits(&summary.training).filter(|waits| !waits.is_marginal(summary))?;
    let lacked = waits.causes.map_or(0, |causes| causes.get(Part::NoCpu));
    let shortage = reader_cpus(summary).and_then(|cpus| cpus.shortage_of(lacked));
    Some(Waits { shortage, pipe: named_pipe(summary).map(str::to_string), ..waits })
}

/// Returns the waits of trainers; `None` if no trainer's wait is known.
pub(super) fn waits(groups: &[RankGroup]) -> Option<Waits<'_>> {
    let Subject { groups, victims, unrelated } = subject(told(groups));
    let waited: Option<i64> = groups.iter().map(|group| group.waited_ns).sum();
    let io: Option<i64> = groups.iter().map(|group| group.wait_io_ns).sum();
    let trained: i64 = groups.iter().map(|group| group.trained_ns).sum();
    let starting: i64 = groups.iter().filter_map(|group| group.wait_start_ns).sum();
    let (held, causes, gpus) = (held(&groups), causes(&groups), gpus(&groups));
    let (shortage, pipe, of_slowest) = (None, None, false);
    let waits = |waited| Waits {
        held,
        groups,
        victims,
        unrelated,
        trained,
        waited,
        starting,
        io,
        causes,
        of_slowest,
        shortage,
        pipe,
        gpus,
    };
    waited.filter(|_| trained > 0).map(waits).map(Waits::caused_by_the_slowest)
}

impl Waits<'_> {
    /// Leaves only the causes of the slowest trainers if the others wait for them. The sum of many short waits, which do not
    /// make a step longer, would hide these.
    fn caused_by_the_slowest(self) -> Self {
        const AS_SLOW: i64 = 2;
        let waited = |group: &RankGroup| group.waited_ns.unwrap_or(0);
        let longest = self.groups.iter().map(|group| waited(group)).max().unwrap_or(0);
        let slowest: Vec<_> = self.groups.iter().copied().filter(|group| AS_SLOW * waited(group) >= longest).collect();
        let scaled = |all: Parts| causes(&slowest)?.scaled(all.sum());
        match self.causes.filter(|_| self.is_shared_loss()).and_then(scaled) {
            Some(decisive) => {
                let of_slowest = slowest.len() < self.groups.len();
                Waits { causes: Some(decisive), of_slowest, ..self }
            }
            None => self,
        }
    }

    /// Returns a sum over trainers as text: their mean, since a sum could be longer than the run.
    pub(super) fn mean(&self, sum: i64) -> String {
        time(sum as f64 / self.groups.len() as f64)
    }

    fn part(&self, waited: i64) -> f64 {
        waited as f64 / self.trained as f64
    }

    /// Returns the share of its time that each trainer lost, to its own waits or to those of other trainers.
    pub(super) fn lost(&self) -> f64 {
        let each = self.trained as f64 / self.groups.len() as f64;
        self.held.map_or(0.0, |ns| ns as f64 / each).max(self.part(self.waited))
    }

    /// Like [`lost`](Self::lost), without the start of readers.
    pub(super) fn lost_at_work(&self) -> f64 {
        self.lost() - self.part(self.starting)
    }

    /// Returns the wait for readers that had started.
    pub(super) fn at_work(&self) -> i64 {
        self.waited - self.starting
    }

    /// Returns `true` if the readers' start is long enough to mention.
    fn mentions_start(&self) -> bool {
        self.part(self.starting) >= WORTH
    }

    /// Returns `true` if no cause of the wait is larger than the start of readers.
    fn starts_lead(&self) -> bool {
        let start = |causes: &Parts| causes.get(Part::Start);
        self.causes.as_ref().is_none_or(|causes| Part::CAUSES.iter().all(|cause| causes.get(*cause) <= start(causes)))
    }

    /// Returns `true` if all trainers read their data themselves, without readers.
    pub(super) fn read_themselves(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|group| group.reads_itself())
    }

    /// Returns those whose work they wait for.
    pub(super) fn maker(&self) -> Maker {
        match () {
            () if self.read_themselves() => Maker::Trainer,
            () if self.groups.iter().all(|group| group.waits_for_sleeper()) => Maker::Helper,
            () => Maker::Readers,
        }
    }

    /// Returns the time during which trainers waited for something that the trace does not identify.
    pub(super) fn unidentified(&self) -> i64 {
        let groups = self.groups.len().max(1) as i64;
        let unseen = self.total(|group| group.unknown_wait_ns);
        (if self.is_unseen() { unseen } else { self.waited }) / groups
    }

    fn is_unseen(&self) -> bool {
        let unknown = self.total(|group| group.unknown_wait_ns);
        self.part(unknown) >= FREE && unknown > self.waited
    }

    /// Returns `true` if the wait may not be one for data.
    pub(super) fn is_doubtful(&self) -> bool {
        self.is_unseen() || self.groups.iter().any(|group| group.is_doubtful())
    }

    /// Returns `true` if it is a short part of the run, and the trace does not show its waits: another program, such as a
    /// server, looks like a trainer then.
    fn is_marginal(&self, summary: &Summary) -> bool {
        let trained = self.trained as f64 / self.groups.len().max(1) as f64;
        let is_inferred = self.groups.iter().all(|group| group.inferred);
        is_inferred && self.is_doubtful() && trained < FREE * summary.time.total_ns as f64
    }

    /// Returns `true` if readers work without pause through the training: then nothing but faster or more readers shortens it.
    pub(super) fn readers_set_pace(&self) -> bool {
        let readers = || self.groups.iter().flat_map(|group| &group.readers);
        let idle: i64 = readers().map(|reader| reader.idle_ns).sum();
        let lived: i64 = readers().map(|reader| reader.last_ts - reader.first_ts).sum();
        let covers = |group: &&RankGroup| {
            let longest = group.readers.iter().map(|reader| reader.last_ts - reader.first_ts).max();
            longest.is_some_and(|ns| ns as f64 >= COVERED * group.trained_ns as f64)
        };
        self.groups.iter().copied().all(|group| covers(&group)) && (idle as f64) < PAUSES * lived as f64
    }

    /// Returns a sum over trainers; trainers without a value count as zero.
    pub(super) fn total(&self, of: fn(&RankGroup) -> Option<i64>) -> i64 {
        self.groups.iter().filter_map(|group| of(group)).sum()
    }

    /// Returns a sum over trainers as a share of their training.
    pub(super) fn sum_share(&self, of: fn(&RankGroup) -> Option<i64>) -> f64 {
        self.part(self.total(of))
    }

    /// Returns `true` if trainers lose more to the waits of other trainers than to their own.
    pub(super) fn is_shared_loss(&self) -> bool {
        self.held.is_some() && self.lost() >= self.part(self.waited) + WORTH
    }

    /// Returns `true` if only calls show checkpoints: the work on them before their files are opened is unknown.
    pub(super) fn lacks_checkpoint_spans(&self) -> bool {
        self.groups.iter().all(|group| group.checkpoint_ns.is_none())
    }

    /// Returns the longest time that a training thread wrote files itself.
    pub(super) fn written(&self) -> i64 {
        self.groups.iter().filter_map(|group| group.written_ns).max().unwrap_or(0)
    }

    /// Returns `true` if training threads read files mostly by page faults.
    pub(super) fn mostly_faults(&self) -> bool {
        let faults = self.total(|group| Some(group.own_fault_ns));
        faults > 0 && 2 * faults >= self.total(|group| group.own_read_ns)
    }

    /// Returns the trainer whose own thread wrote files longest.
    fn writer(&self) -> Option<&RankGroup> {
        self.groups.iter().copied().max_by_key(|group| group.written_ns)
    }

    /// Returns [`written`](Self::written) as a share of that trainer's training.
    pub(super) fn written_share(&self) -> f64 {
        self.share_of_writer(|group| group.written_ns.unwrap_or(0))
    }

    /// Returns the part of [`written_share`](Self::written_share) that does not show as a shortage of CPUs.
    pub(super) fn written_share_with_cpu(&self) -> f64 {
        self.share_of_writer(|group| group.written_ns.unwrap_or(0) - group.written_without_cpu_ns())
    }

    fn share_of_writer(&self, ns: impl Fn(&RankGroup) -> i64) -> f64 {
        self.writer().map_or(0.0, |group| ns(group) as f64 / group.trained_ns.max(1) as f64)
    }

    /// Returns the clause on the part of the writes in which the training thread had no CPU, if that is a large part.
    pub(super) fn of_written_without_cpu(&self) -> String {
        let without = self.writer().map_or(0, RankGroup::written_without_cpu_ns);
        let is_large = without as f64 >= WITHOUT_CPU * self.written() as f64 && without > 0;
        if is_large {
            format!("; for at least {} of that, no CPU was free", time(without as f64))
        } else {
            String::new()
        }
    }

    /// Returns the time that the trainer that wrote longest spent in calls that write or sync, if it spent most of the time between
    /// opening and closing files.
    pub(super) fn written_in_few_calls(&self) -> Option<i64> {
        let most = self.writer()?;
        most.written_calls_ns.zip(most.written_ns).filter(|(calls, all)| 2 * calls < *all).map(|(calls, _)| calls)
    }

    /// Returns `true` if calls that write or sync took so little of that time that the work between them sets its length.
    pub(super) fn saves_outside_calls(&self) -> bool {
        self.written_in_few_calls().is_some_and(|ns| OUTSIDE_CALLS * ns < self.written())
    }

    /// Returns what the trainer that wrote longest did with files in that time, as a clause with the time in calls if that is a
    /// small part.
    pub(super) fn of_written_calls(&self) -> (&'static str, String) {
        match self.written_in_few_calls() {
            Some(ns) => (
                "saving files",
                format!(": {} in calls, the rest between opening and closing the files", time(ns as f64)),
            ),
            None => ("writing and syncing files", String::new()),
        }
    }

    /// Returns the time that the trainer that wrote longest wrote after its last batch, if that is a large part.
    pub(super) fn written_last(&self) -> Option<i64> {
        let most = self.writer()?;
        most.written_last_ns.filter(|ns| *ns as f64 >= AFTER_LAST * most.written_ns.unwrap_or(0) as f64)
    }

    /// Returns the clause on writes after the last batch, which make the main loop longer.
    pub(super) fn of_written_last(&self) -> String {
        let of = |ns: i64| if ns == self.written() { "all".into() } else { time(ns as f64) };
        self.written_last().map_or(String::new(), |ns| format!(", {} of that after the last batch", of(ns)))
    }

    fn answer(&self) -> String {
        if self.has_no_readers() && self.waits_for_others() {
            return format!(
                "No readers were recognized in {} ({}). Calls do not show the time that its own thread spent on data.",
                self.wording().definite(),
                self.mean(self.trained)
            );
        }
        if self.has_no_readers() {
            return format!(
                "Whether {} waited for data is unknown: no readers of {} were recognized in its {}, and calls do not show \
                 when its own thread works on data.",
                self.wording().noun(),
                self.who(),
                self.mean(self.trained)
            );
        }
        let is_unseen = self.is_unseen();
        let is_doubtful = self.is_doubtful();
        let is_inferred = self.groups.iter().any(|group| group.inferred);
        let (noun, subject) = (self.wording().noun(), self.wording().subject());
        let answer = match (self.lost(), self.lost_at_work()) {
            _ if is_doubtful => format!("Whether {noun} waited for data is unknown"),
            (part, _) if part < FREE && is_inferred => format!("{subject} hardly waited for its readers"),
            (part, _) if part < FREE => format!("{subject} hardly waited for data"),
            (_, part) if part < FREE && self.starts_lead() => format!("{subject} waited for its readers to start"),
            (part, _) if part >= LIMITING => format!("{subject} waited for data"),
            _ => format!("{subject} waited for data some of the time"),
        };
        let inferred = if is_inferred { " (inferred from calls)" } else { "" };
        let (trained, waited) = (self.mean(self.trained), self.mean(self.waited));
        let part = share(self.waited, self.trained);
        let what = if is_doubtful && !is_unseen { "something" } else { self.wording().items() };
        let least = if is_doubtful && is_unseen { "at least " } else { "" };
        let mut sentence = format!(
            "{answer}{inferred}: {} {} for {trained}{} and spent {least}{waited} ({part}) of this time waiting for {what}",
            self.who(),
            if self.groups.len() > 1 { self.wording().plural_verb() } else { self.wording().verb() },
            self.on_average()
        );
        if self.mentions_start() {
            let whose = if self.groups.len() > 1 { "their" } else { "its" };
            sentence += &format!(
                "; {} of the wait passed while {whose} readers were starting (including their one-time work) or ending",
                self.mean(self.starting)
            );
        }
        if let Some((who, part)) = self.slowest() {
            let most = format!("{who}, {part}");
            sentence += &format!("; the longest wait: {most}");
        }
        if let Some(others) = self.of_unrelated() {
            sentence += &format!("; {others}");
        }
        if let Some(held) = self.held.filter(|_| self.lost() >= self.part(self.waited) + WORTH) {
            let part = Unit::Share.text(self.lost());
            sentence +=
                &format!("; each step waits for the slowest rank, which cost up to {} ({part})", time(held as f64));
        }
        sentence + "."
    }

    /// Returns how long trainers of other jobs waited, if there are any.
    fn of_unrelated(&self) -> Option<String> {
        let part = |group: &&RankGroup| group.waited_ns.unwrap_or(0) as f64 / group.trained_ns.max(1) as f64;
        let most = self.unrelated.iter().copied().max_by(|a, b| part(a).total_cmp(&part(b)))?;
        let (name, waited) = (self.called(most), Unit::Share.text(part(&most)));
        Some(match self.unrelated.len() - 1 {
            0 => format!("{name}, another job, waited {waited}"),
            more => {
                format!("{} other jobs waited less; the longest: {name} waited {waited}", grouped(more as u64 + 1))
            }
        })
    }

    /// Returns `true` if only calls show waits, and there are hardly any, because no trainer has readers.
    pub(super) fn has_no_readers(&self) -> bool {
        self.groups.iter().all(|group| group.inferred && group.readers.is_empty())
            && self.lost() < FREE
            && self.part(self.waited) < NONE
            && !self.is_doubtful()
    }

    /// Returns a caveat if a GPU may have been busy during the wait.
    fn hidden_by_gpu(&self) -> Option<String> {
        let is_worth = self.lost() >= FREE && self.groups.iter().any(|group| group.gpu_untimed);
        is_worth.then(|| {
            let timed = self.groups.iter().filter_map(|group| group.device.clone()).reduce(|a, b| a + b);
            let timed = timed.map_or("does not time".into(), |timed| {
                format!("times during only {} of its waits", share(timed.timed_wait_ns, timed.wait_ns))
            });
            format!(
                "This wait is an upper bound: the run used a GPU that the trace {timed}. The GPU may have computed during the \
                 wait, because launches return before their work is done. For PyTorch, python3 -m dliotrace run --torch SCRIPT \
                 times it; a profile of torch.profiler of the same run, given next to the trace, does too."
            )
        })
    }

    /// Marks a mean over several trainers.
    fn on_average(&self) -> &'static str {
        if self.groups.len() > 1 { " on average" } else { "" }
    }

    pub(super) fn who(&self) -> String {
        match self.groups.as_slice() {
            [one] if one.trainer.is_empty() => self.called(one),
            [one] if !self.victims.is_empty() || !self.unrelated.is_empty() => {
                format!("{} ({})", one.trainer, self.called(one))
            }
            [one] => one.trainer.clone(),
            several => format!("{} {}", grouped(several.len() as u64), self.wording().processes()),
        }
    }

    /// Returns the words for the loops of these trainers.
    pub(super) fn wording(&self) -> Wording {
        Wording::of(self.groups.iter().chain(&self.victims).copied())
    }

    /// Returns the sentence on processes that wait for worker pools.
    pub(super) fn for_workers(&self) -> String {
        let workers: BTreeSet<u32> =
            self.groups.iter().flat_map(|group| &group.readers).map(|reader| reader.proc).collect();
        let helpers = match workers.len() {
            0 => "other threads or processes".into(),
            count => many(count as u64, "worker", "workers"),
        };
        let (who, whose, last) = match self.groups.as_slice() {
            [one] => (one.trainer.clone(), "its", "calls do not show that it trains"),
            several => {
                (format!("{} processes", grouped(several.len() as u64)), "their", "calls do not show that they train")
            }
        };
        format!(
            "{who} spent {} of {}{} ({}) waiting for {whose} {helpers}; {last}.",
            self.mean(self.waited),
            self.mean(self.trained),
            self.on_average(),
            share(self.waited, self.trained),
        )
    }

    /// Returns the trainer that waited longest, if there are several and their shares differ.
    pub(super) fn slowest(&self) -> Option<(String, String)> {
        let several = self.groups.len() > 1;
        let most = self.groups.iter().max_by_key(|group| group.waited_ns.unwrap_or(0)).filter(|_| several)?;
        let who = self.called(most);
        let of = |group: &RankGroup| share(group.waited_ns.unwrap_or(0), group.trained_ns);
        let differ = self.groups.iter().any(|group| of(group) != of(most));
        differ.then(|| (who, of(most)))
    }

    /// Returns the causes of the wait, if it is long enough to matter.
    fn cause(&self, knows_calls: bool) -> Vec<String> {
        match self.causes.filter(|_| self.lost() >= FREE) {
            Some(causes) => {
                let each = causes.scaled(causes.sum() / self.groups.len() as i64).unwrap_or(causes);
                let mut sentences = super::causes::sentences(&each, self.maker(), self.shortage.as_ref());
                if let Some(pipe) = &self.pipe {
                    name_pipe(&mut sentences, pipe);
                }
                if let Some(first) = sentences.first_mut().filter(|_| self.of_slowest) {
                    *first = first.replacen("Causes of the whole wait:", "Causes of the wait of the slowest:", 1);
                }
                sentences
            }
            None => self.guessed_cause(knows_calls).into_iter().collect(),
        }
    }

    /// Returns the sentences that name the reader for which training waited, its sleeps and the remote ends of its
    /// connections, if those are the cause.
    fn named_cause(&self, summary: &Summary) -> Vec<String> {
        let (Some(causes), [group]) = (self.causes.filter(|_| self.lost() >= FREE), self.groups.as_slice()) else {
            return Vec::new();
        };
        let reader = most(group, WaitKind::Data, self.waited).map(|(row, part)| {
            let waited = Unit::Share.text(part);
            format!("{waited} of the wait was for {}.", row.named())
        });
        let named = match causes.largest() {
            _ if group.file_waits >= FILE_WAITS => Some(format!(
                "{} looked for files that did not exist yet, and slept until they did, {}.",
                self.who(),
                many(group.file_waits, "time", "times")
            )),
            _ if group.awaits_files() => Some(format!(
                "Readers slept for {} of it until files existed.",
                time(group.loading.reader_file_wait_ns as f64)
            )),
            Part::Network => remote_ends(summary),
            Part::Lock => Some(locked::sentence(summary)),
            _ => None,
        };
        reader.into_iter().chain(named).collect()
    }

    /// Returns the likely cause if the trace does not show who ended the wait: the readers' work during it.
    fn guessed_cause(&self, knows_calls: bool) -> Option<String> {
        if self.causes.is_some() || self.lost_at_work() < FREE {
            return None;
        }
        let readers = self.readers();
        let Some(io) = self.io else {
            if let Some(idle) = self.idle().filter(|idle| knows_calls && *idle > IDLE) {
                let were = if readers == "its 1 reader" { "was" } else { "were" };
                return Some(format!(
                    "{} {were} idle for at least {} of that time. The trace does not show what they waited for (a lock, a \
                     message, a child process, the transfer of batches); spans in trainer and readers would.",
                    readers.replacen("its", "Its", 1),
                    Unit::Share.text(idle)
                ));
            }
            let why = match knows_calls {
                true if self.idle().is_some() => "they ran for less than half of that time",
                true => "the trace does not show which reader worked for which trainer",
                false => "calls were not recorded",
            };
            return Some(format!("The work of {readers} during that wait is unknown: {why}."));
        };
        let waited = self.at_work();
        let elsewhere = waited - io;
        let why = match io as f64 / waited.max(1) as f64 {
            part if part >= STORAGE => "storage was the bottleneck",
            part if part < NO_STORAGE => {
                "most of it was outside file calls, where this trace cannot distinguish preprocessing from page faults, sleep \
                 or waiting for a CPU"
            }
            _ => "both file calls and work outside them took part",
        };
        let (io, elsewhere) = (self.mean(io), self.mean(elsewhere));
        let wait =
            if self.mentions_start() { format!("the remaining {}", self.mean(waited)) } else { "that wait".into() };
        if self.read_themselves() {
            let (reads, spent) = match self.groups.as_slice() {
                [_] => ("It reads its data itself", "it spent"),
                _ => ("Each reads its data itself", "they spent"),
            };
            return Some(format!("{reads}. Of {wait}, {spent} {io} in I/O and {elsewhere} on other work: {why}."));
        }
        // Readers work in parallel and are idle for a part of the wait, so their own times differ from these.
        Some(format!("Of {wait}, {readers} spent {io} in I/O and {elsewhere} on other work: {why}."))
    }

    /// Returns the smallest share of the wait in which a reader was idle; `None` if no reader ran then.
    fn idle(&self) -> Option<f64> {
        let readers = self.groups.iter().flat_map(|group| &group.readers);
        readers.filter_map(ReaderUse::busy_part).max_by(f64::total_cmp).map(|busy| 1.0 - busy)
    }

    /// Returns how long other trainers waited for the one that waited for its data.
    fn waited_for(&self) -> Option<String> {
        self.waiting_ranks().map(|waiting| capital(&waiting) + ".")
    }

    /// Returns the least share of their time that other trainers waited for one, and a clause on it, if that is clearly more
    /// than the share that this one lost to waits and files of its own.
    pub(super) fn victims_of_more(&self, lost: f64) -> Option<(f64, String)> {
        let one = self.groups.first()?;
        let part = |group: &&RankGroup| waited_for(group, one) as f64 / group.trained_ns.max(1) as f64;
        let least = self.victims.iter().map(part).min_by(f64::total_cmp)?;
        let other = self.sum_share(|group| group.own_work_ns).max(self.written_share());
        (least >= lost.max(other) + APART).then(|| self.waiting_ranks().map(|clause| (least, clause)))?
    }

    /// Returns how long other trainers waited for the one that waited for its data, as a clause.
    pub(super) fn waiting_ranks(&self) -> Option<String> {
        let one = self.groups.first()?;
        let culprit = self.called(one);
        let waited = |group: &&&RankGroup| waited_for(group, one);
        let shortest = self.victims.iter().min_by_key(waited)?;
        let text = |group: &RankGroup| {
            let (ns, trained) = (waited_for(group, one), group.trained_ns);
            format!("{} of {} ({})", time(ns as f64), time(trained as f64), share(ns, trained))
        };
        Some(match self.victims.as_slice() {
            [victim] => format!("{} waited at least {} for {culprit}", self.called(victim), text(victim)),
            others => {
                format!("each of {} other ranks waited at least {} for {culprit}", others.len(), text(shortest))
            }
        })
    }

    /// Returns the waits that are not for data, by kind, each with its purpose.
    fn other_times(&self) -> [(WaitKind, i64, &'static str); 4] {
        [
            (WaitKind::OwnWork, self.total(|group| group.own_work_ns), "for its own threads or programs"),
            (
                WaitKind::Lock,
                self.total(|group| group.lock_wait_ns),
                "for locks that other threads held, which does not count as waiting for data",
            ),
            (
                WaitKind::Peer,
                self.total(|group| group.peer_wait_ns),
                "for other ranks or processes, or for the network, which does not count as waiting for its readers",
            ),
            (
                WaitKind::Unknown,
                self.total(|group| group.unknown_wait_ns),
                "for something that the trace does not identify, such as a lock without calls or a device",
            ),
        ]
    }

    /// Returns a sentence per kind of wait that is not for data, if it is long enough to mention.
    fn other_waits(&self) -> Vec<String> {
        let worth = self.other_times().into_iter().filter(|(_, ns, _)| self.part(*ns) >= FREE);
        let sentence = |(kind, ns, what): (WaitKind, i64, &str)| {
            let (waited, share) = (self.mean(ns), share(ns, self.trained));
            match self.groups.len() {
                1 => {
                    let subject = self.wording().subject();
                    format!("{subject} waited {waited} ({share}) {what}.{}", self.ended_by(kind, ns, &waited))
                }
                _ => format!("Each of {} waited {waited} ({share}) on average {what}.", self.who()),
            }
        };
        worth.map(sentence).collect()
    }

    /// Returns the share of the training in the waits of one kind that are not for data: the longest ones.
    fn longest_other(&self) -> f64 {
        self.other_times().into_iter().map(|(_, ns, _)| self.part(ns)).fold(0.0, f64::max)
    }

    /// Returns `true` if waits that are not for data take a part of the training that is worth a sentence.
    fn waits_for_others(&self) -> bool {
        !self.other_waits().is_empty()
    }

    /// Returns a sentence with the name and the work of the thread or program that ended most waits of a kind.
    fn ended_by(&self, kind: WaitKind, whole: i64, waited: &str) -> String {
        let Some((row, part)) = self.ender(kind, whole) else { return String::new() };
        let work = row.work().map_or(String::new(), |work| format!(", which {work}"));
        format!(" {} of these {waited} was for {}{work}.", Unit::Share.text(part), row.named())
    }

    /// Returns the thread or program that ended most waits of the only trainer, and its share of them.
    pub(super) fn ender(&self, kind: WaitKind, whole: i64) -> Option<(&WaitedFor, f64)> {
        let [group] = self.groups.as_slice() else { return None };
        most(group, kind, whole)
    }

    /// Returns a sentence if most of the run passed after the training: it may hang there, or do other work.
    pub(super) fn mostly_after(&self, run_end: i64) -> String {
        let ends = self.groups.iter().map(|group| group.start_ts + group.trained_ns);
        let after = run_end - ends.max().unwrap_or(run_end);
        match after > self.trained / self.groups.len() as i64 {
            true => format!(" Another {} passed after it.", time(after as f64)),
            false => String::new(),
        }
    }

    /// Returns a caveat on inferred waits if batches come through pipes: after the last byte of a message, unpickling cannot be
    /// distinguished from training.
    fn lacks(&self, what: &Dataset) -> Option<&'static str> {
        let inferred = self.groups.iter().any(|group| group.inferred && !group.reads_itself());
        let through_pipes = 2 * what.elsewhere_read >= what.bytes_read;
        (inferred && self.causes.is_none() && through_pipes && self.part(self.waited) >= FREE).then_some(
            "Unpickling a batch is not part of this wait, so a timer around the loader's next batch shows a longer wait.",
        )
    }

    /// Returns how long the training thread wrote files itself, for the trainer where that took longest.
    fn stalled_by_writes(&self) -> Option<String> {
        let most = self.writer()?;
        let written = most.written_ns?;
        if (written as f64) < FREE * most.trained_ns as f64 {
            return None;
        }
        let who = if self.groups.len() > 1 { self.called(most) } else { self.wording().noun().into() };
        let (stalled, part) = (time(written as f64), share(written, most.trained_ns));
        let others = if self.groups.len() > 1 { " Ranks that wait for it are stalled too." } else { "" };
        let (last, without) = (self.of_written_last(), self.of_written_without_cpu());
        let saved = if self.saves_outside_calls() { "saved files" } else { "wrote and synced files" };
        let (_, calls) = self.of_written_calls();
        let saves =
            format!("{who} was stalled for {stalled} ({part}) while its own thread {saved}{last}{without}{calls}.");
        Some(capital(&saves) + others)
    }

    pub(super) fn called(&self, group: &RankGroup) -> String {
        let name = group.rank.map_or_else(|| format!("process {}", group.pid), |rank| format!("rank {rank}"));
        let mut all = self.groups.iter().chain(&self.victims).chain(&self.unrelated);
        if all.any(|other| other.host != group.host) { format!("{name} on {}", group.host) } else { name }
    }

    /// Returns the number of readers of a single trainer at the same time, as the end of a clause.
    pub(super) fn number_of_readers(&self) -> String {
        let [group] = self.groups.as_slice() else { return String::new() };
        match group.readers_at_once() as u64 {
            number @ 1.. if !self.read_themselves() => format!(" from {}", many(number, "reader", "readers")),
            _ => String::new(),
        }
    }

    fn readers(&self) -> String {
        match self.groups.iter().map(|group| group.readers.len() as u64).sum() {
            0 => "its readers".into(),
            number => format!("its {}", many(number, "reader", "readers")),
        }
    }

    /// Returns the time before the training.
    fn startup(&self, run_start: i64) -> Option<String> {
        let of = |group: &&&RankGroup| group.startup_within(run_start);
        let last = self.groups.iter().max_by_key(of)?;
        let startup = of(&last)?;
        let each = self.trained / self.groups.len() as i64;
        // The process of a rank starts after its launcher.
        let before = last.start_ts - run_start - startup;
        let is_worth = |ns: i64| ns as f64 > WORTH * each as f64;
        let most = if last.loading.may_start_earlier { "at most " } else { "" };
        is_worth(startup).then(|| match is_worth(before) {
            true => format!(
                "{} started {most}{} into the run, {} after its process had started.",
                self.wording().subject(),
                time((before + startup) as f64),
                time(startup as f64)
            ),
            false => format!("{} started after {most}{}.", self.wording().subject(), time(startup as f64)),
        })
    }
}

/// Returns the remote ends with the most bytes.
fn remote_ends(summary: &Summary) -> Option<String> {
    let end = |end: &RemoteEnd| {
        let connections = many(end.connections, "connection", "connections");
        format!("{} ({}, {connections})", end.address, bytes(end.bytes as f64))
    };
    let ends: Vec<String> = summary.dataset.peers.iter().take(REMOTE_ENDS).map(end).collect();
    (!ends.is_empty()).then(|| format!("Connections went to {}.", ends.join(" and ")))
}

/// Replaces storage by the named pipe that readers read.
fn name_pipe(sentences: &mut [String], pipe: &str) {
    for sentence in sentences {
        *sentence = sentence.replacen("storage (file calls)", "reads of a named pipe", 1);
        if sentence == super::causes::STORAGE {
            *sentence = format!("Readers waited for the program that writes {pipe}.");
        }
    }
}

/// Fewer waits for files are not worth a sentence.
const FILE_WAITS: u64 = 3;

/// The number of remote ends in a sentence: the end of a server that is traced too is a client.
const REMOTE_ENDS: usize = 1;

/// Returns a caveat if every process was killed: the run was longer than its last call, by an unknown time.
fn cut_short(summary: &Summary) -> Option<String> {
    let ended = || summary.processes.iter().filter(|process| process.ended != "exec");
    (ended().next().is_some() && ended().all(|process| process.ended == "killed")).then(|| {
        if summary.damage.iter().any(|note| !note.remark) {
            return "How the run ended is unknown: a signal killed it, or its trace files were truncated.".into();
        }
        "A signal killed the run: calls in progress at that time are not included.".into()
    })
}

/// Returns a caveat if the trace has too many waits to determine their causes.
fn unexplained(summary: &Summary) -> Option<String> {
    let knows_something = !summary.training.is_empty() || may_train(summary);
    (summary.allocation.waits_unexplained && knows_something).then(|| {
        let some = if summary.training.iter().any(|group| group.causes.is_some()) { "some " } else { "" };
        format!(
            "The causes of {some}waits were not computed: the trace has more than {} million waits and messages. Select a smaller \
             part: --run, or --from and --to.",
            STEPS_MAX / 1_000_000
        )
    })
}

fn volume(summary: &Summary) -> String {
    let (who, what) = (&summary.allocation, &summary.dataset);
    let calls = summary.calls();
    let spans_only = calls == 0 && what.files == 0;
    if spans_only {
        return format!(
            "In {}, the tracer recorded {} of {}; calls were not recorded, so file use is unknown.",
            time(summary.time.total_ns as f64),
            many(who.events, "span", "spans"),
            who.shown_processes(),
        );
    }
    if !names_files(summary) {
        return format!(
            "In {}, the tracer recorded {} of {}; the trace contains neither file names nor sizes (DFTracer records them with \
             DFTRACER_INC_METADATA=1).",
            time(summary.time.total_ns as f64),
            many(who.events, "event", "events"),
            who.shown_processes(),
        );
    }
    format!(
        "In {}, the tracer recorded {} of {}, which used {}{}, read {} and wrote {}{}.",
        time(summary.time.total_ns as f64),
        many(who.events, "event", "events"),
        who.shown_processes(),
        what.at_least(),
        many(what.files, "file", "files"),
        bytes(what.bytes_read as f64),
        bytes(what.bytes_written as f64),
        elsewhere(what)
    )
}

/// Returns `false` if calls that move data have neither a file nor a size.
fn names_files(summary: &Summary) -> bool {
    let mut moving =
        summary.functions.iter().filter(|function| ["read", "write"].contains(&function.class.as_ref())).peekable();
    summary.dataset.files > 0 || moving.peek().is_none() || moving.any(|function| function.bytes.is_some())
}

/// Returns a caveat on calls without durations.
fn timeless(summary: &Summary) -> Option<String> {
    let remark = summary.damage.iter().any(|note| note.remark && note.what == DURATIONLESS);
    let which = if summary.knows_times() { "Some calls in the trace have no" } else { "No call in the trace has a" };
    remark.then(|| {
        format!("{which} duration, so the time spent in I/O is unknown; record durations with strace -f -ttt -T -y.")
    })
}

/// Returns the bytes that bypassed files, if most bytes did.
fn elsewhere(what: &Dataset) -> String {
    // Bytes in a pipe are written by one process and read by another; count them once.
    let past = what.elsewhere_read.max(what.elsewhere_written);
    match past > what.bytes_read + what.bytes_written {
        true => format!(", plus {} through pipes, sockets and terminals", bytes(past as f64)),
        false => String::new(),
    }
}

/// Returns the share of the run in I/O, for traces without a known training.
fn balance(summary: &Summary, has_pools: bool) -> Option<String> {
    let spent = &summary.time;
    if summary.calls() == 0 || !summary.knows_times() {
        return None;
    }
    let Some(io_ns) = spent.io_ns else {
        return Some(
            "How long I/O was active is unknown, and whether training waited for data: a Darshan log has the number of \
             calls per file, their bytes and the sum of their times, but not the time of each call."
                .into(),
        );
    };
    let active = format!("I/O was active for {} of the run", share(io_ns, spent.total_ns));
    Some(match spent.unoverlapped_io_ns {
        Some(alone) => format!(
            "{active}; for {} of the run it was active while nothing computed{}.",
            share(alone, spent.total_ns),
            hidden(spent)
        ),
        None if summary.tally.is_some() => format!(
            "{active}. Whether training waited for data is unknown: processes counted calls instead of recording them (summary \
             mode, or beyond a limit), and counts have no times."
        ),
        None if has_pools || !may_train(summary) && !may_loop(summary) => format!("{active}."),
        None if saves_alone(summary) => format!("{active}. {}", checkpoints(summary)),
        None => match reads_itself(summary) {
            Some(own) if may_train(summary) => format!("{active}. {own} {RECORD_SPANS}"),
            Some(own) => format!("{active}. {own} {RECORD_SPANS_IN_C}"),
            None => {
                let faults = own_faults(summary)
                    .map_or_else(String::new, |(name, mapped)| format!(" {}", faulted((name, &mapped))));
                format!("{active}.{faults} Whether training waited for data is unknown. {RECORD_SPANS}")
            }
        },
    })
}

/// The way to record waits that calls do not show.
const RECORD_SPANS: &str =
    "Spans would show this: trace a PyTorch script with dlio trace -- python3 -m dliotrace run --torch SCRIPT.";

/// Returns `true` if the trace has spans of checkpoints and no training.
pub(super) fn saves_alone(summary: &Summary) -> bool {
    summary.checkpoints.spans > 0 && summary.training.is_empty()
}

fn checkpoints(summary: &Summary) -> String {
    let found = &summary.checkpoints;
    format!(
        "The trace shows no training: {} of checkpoints took {}, summed over processes.",
        many(found.spans, "span", "spans"),
        time(found.span_ns as f64)
    )
}

fn hidden(spent: &Time) -> &'static str {
    let part = |ns: i64| ns as f64 / spent.total_ns.max(1) as f64;
    match spent.unoverlapped_io_ns {
        Some(alone) if part(alone) < FREE && part(spent.io_ns.unwrap_or(0)) >= FREE => ", so compute hides it",
        _ => "",
    }
}

/// How to record spans in compiled programs.
const RECORD_SPANS_IN_C: &str =
    "Spans would show this: record them with dliotrace.h (C) or the crate dlio-tracer (Rust).";

/// Below this share of the run, file calls are not worth a sentence.
const LITTLE_IO: f64 = 0.05;

/// Returns the sentence on the file call that took most time, unless a training spent little time in such calls.
fn costliest_call(summary: &Summary) -> Option<String> {
    let io_ns = summary.time.io_ns.filter(|_| !summary.training.is_empty()).unwrap_or(i64::MAX);
    if (io_ns as f64) < LITTLE_IO * summary.time.total_ns as f64 {
        return None;
    }
    let calls = || beneath(&summary.functions);
    let all: u64 = calls().map(|function| function.time_ns).sum();
    let first = calls().next().filter(|_| summary.knows_times())?;
    // Counts by file and function do not distinguish pipes from files without recorded names.
    let among = if summary.tally.is_some() { "calls on files, pipes and sockets together" } else { "file calls" };
    Some(format!(
        "{} took {} of the time in {among} ({}).",
        first.named(&summary.functions),
        share(first.time_ns as i64, all as i64),
        match first.count {
            1 => format!("1 call, {}", first.duration_ns.median_time()),
            // A few long calls take most of the time without changing the median.
            count => format!(
                "{} calls, mean {}, median {}",
                grouped(count),
                time(first.time_ns as f64 / count as f64),
                first.duration_ns.median_time()
            ),
        }
    ))
}

fn aggregated(summary: &Summary) -> Option<String> {
    let calls = summary.allocation.aggregated;
    let calls = (calls > 0).then(|| many(calls, "call", "calls"))?;
    Some(format!("DFTracer aggregated {calls}: their count is known; no other number includes them."))
}

fn loss(summary: &Summary) -> Option<String> {
    let lost = lost(summary);
    let events = || many(lost, "event did not fit and is", "events did not fit and are");
    (lost > 0 && lacking(summary).is_none()).then(|| format!("{} missing from all numbers.", events()))
}

/// Returns the sentence on programs without a trace; the section on the allocation also lists short helpers.
fn untraced(summary: &Summary) -> Option<String> {
    let programs: Vec<_> = summary.allocation.untraced.iter().filter(|program| program.matters()).collect();
    let first = programs.first()?;
    let others = match programs.len() - 1 {
        0 => String::new(),
        more => format!(", and {}", many(more as u64, "other program", "other programs")),
    };
    Some(format!("Not traced and not included: {}{others}.", first.text()))
}

/// Returns the sentences on losses and damage whose run is unknown.
fn of_no_run(summary: &Summary) -> Vec<String> {
    let lost = summary.allocation.lost_run_unknown;
    let files: BTreeSet<_> =
        summary.damage.iter().filter(|note| note.run_unknown && !note.remark).map(|note| &note.path).collect();
    let damaged = many(files.len() as u64, "damaged file does", "damaged files do");
    let lost_too = (lost > 0).then(|| {
        let events = many(lost, "lost event belongs", "lost events belong");
        format!("{events} to processes whose run is unknown: another run may have lost them.")
    });
    let damaged = (!files.is_empty()).then(|| format!("{damaged} not show which run it belongs to."));
    lost_too.into_iter().chain(damaged).collect()
}

fn lost(summary: &Summary) -> u64 {
    summary.allocation.lost.saturating_sub(summary.allocation.aggregated)
}

/// Returns the share of events that is lost, if it is large.
pub(super) fn lost_share(summary: &Summary) -> Option<String> {
    let lost = lost(summary);
    let all = lost + summary.allocation.events;
    (lost as f64 / all.max(1) as f64 >= LACKS).then(|| share(lost as i64, all as i64))
}

/// Returns the first sentence of a report that lacks many events.
fn lacking(summary: &Summary) -> Option<String> {
    lost_share(summary).map(|part| {
        let events = grouped(lost(summary));
        format!(
            "The trace lacks {part} of its events ({events} lost): the numbers below cover the rest, not the whole run."
        )
    })
}

/// Returns a sentence with a capital as its first letter.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
