//! A few sentences that say what the figures mean. The first answers what people come with: did training wait for data?

use std::collections::BTreeSet;

use dlio_schemas::native::trouble;

use super::Summary;
use super::causes::causes;
use super::damage::DamageNote;
use super::dataset::Dataset;
use super::findings::Unit;
use super::functions::beneath;
use super::no_cpu::{ReaderCpus, Shortage, reader_cpus};
use super::processes::ProcessUse;
use super::time::Time;
use crate::load::events::parser::DURATIONLESS;
use crate::summary::figures::units::{bytes, grouped, many, share, time};
use crate::summary::training::{RankGroup, ReaderUse, held, told};
use crate::summary::tree;
use crate::summary::waits::parts::Parts;
use crate::summary::waits::timeline::STEPS_MAX;

/// From this part of its time on, waiting is what a training does.
const BOUND: f64 = 0.2;

/// Below this, nobody gains anything by making batches faster.
const FREE: f64 = 0.05;

/// Times below this part of a training are not worth a word.
const WORTH: f64 = 0.01;

/// Readers that were in I/O for this part of a wait and more make it a wait for storage; below the other one it is none.
const STORAGE: f64 = 0.7;
const NO_STORAGE: f64 = 0.3;

/// Readers that were all idle for more than this part of a wait do not explain it by their work.
const IDLE: f64 = 0.5;

/// From this part of its events lost on, a report is not that of the run.
pub const LACKS: f64 = 0.1;

/// Of a report, and the parents of pools that its trace tells of.
pub fn verdict(summary: &Summary, pools: &[RankGroup]) -> Vec<String> {
    if summary.allocation.events == 0 {
        return vec![match summary.allocation.lacks_events() {
            true => all_lost(summary.allocation.lost, &summary.damage),
            false if unknown(&summary.damage) => UNKNOWN.into(),
            false => {
                "The trace holds no events: nothing that is traced happened, or filters left all of it out.".into()
            }
        }];
    }
    let shortage = || reader_cpus(summary).as_ref().and_then(ReaderCpus::shortage);
    let waits = waits(&summary.training).map(|waits| Waits { shortage: shortage(), ..waits });
    let mut sentences: Vec<String> = lacking(summary).into_iter().collect();
    match &waits {
        Some(waits) => {
            sentences.push(waits.answer());
            sentences.extend(waits.hidden_by_gpu());
            sentences.extend(waits.cause(summary.knows_calls()));
            sentences.extend(waits.lacks(&summary.dataset).map(String::from));
            sentences.extend(waits.waited_for());
            sentences.extend(waits.other_waits());
            sentences.extend(waits.stood());
            sentences.extend(waits.beside(summary.time.start_ts));
            sentences.push(volume(summary));
        }
        None => {
            sentences.push(volume(summary));
            sentences.extend(balance(summary, !pools.is_empty()));
            sentences.extend(self::waits(pools).map(|waits| waits.for_workers()));
        }
    }
    sentences.extend(unexplained(summary));
    sentences.extend(timeless(summary));
    sentences.extend(cut_short(summary));
    sentences.extend(dearest(summary));
    sentences.extend(loss(summary));
    sentences.extend(untraced(summary));
    sentences.extend(of_no_run(summary));
    sentences.extend(aggregated(summary));
    sentences
}

/// The sentence on a trace of whose events not one could be kept. Its processes have noted why, unless they are of an older
/// tracer.
pub fn all_lost(lost: u64, notes: &[DamageNote]) -> String {
    let happened = many(lost, "event happened and is lost", "events happened and are lost");
    let cause = notes.iter().filter(|note| note.remark).find_map(|note| note.what.strip_prefix(trouble::LOST));
    let cause = cause.unwrap_or(
        "the disk of the trace folder was full, or a limit on files or memory was reached. Make room, or trace into another \
         folder (-o DIR), and run again",
    );
    format!("The trace holds no events: {happened}. Not one is there: {cause}.")
}

/// The sentence on a trace that is damaged, and in which nothing is left.
pub const UNKNOWN: &str = "The trace holds no events: its files are damaged, and how many events that cost is not known. \
                           --section damage names them.";

/// True if damage may have cost events that nobody has counted.
pub fn unknown(notes: &[DamageNote]) -> bool {
    notes.iter().any(|note| !note.remark && note.events_max != Some(0))
}

/// The waits of a run's trainers: sums over them, of which the report tells the mean.
struct Waits<'a> {
    groups: Vec<&'a RankGroup>,
    /// Other trainers, which wait for the only one of those.
    victims: Vec<&'a RankGroup>,
    trained: i64,
    waited: i64,
    /// Of the wait, what went by until readers had started.
    starting: i64,
    /// What each lost to waits of whichever, where they wait for one another.
    held: Option<i64>,
    /// Of the wait, readers in I/O, once they had started; `None` where that is not known of some trainer.
    io: Option<i64>,
    /// The causes of the wait, where the trace tells who ended it.
    causes: Option<Parts>,
    /// Why no CPU was free, where readers waited for one.
    shortage: Option<Shortage>,
}

/// `None` where it is known of no trainer how long it waited.
fn waits(groups: &[RankGroup]) -> Option<Waits<'_>> {
    let groups = told(groups);
    let (groups, victims) = culprit(&groups).map_or((groups.clone(), Vec::new()), |(one, others)| (vec![one], others));
    let waited: Option<i64> = groups.iter().map(|group| group.waited_ns).sum();
    let io: Option<i64> = groups.iter().map(|group| group.wait_io_ns).sum();
    let trained: i64 = groups.iter().map(|group| group.trained_ns).sum();
    let starting: i64 = groups.iter().filter_map(|group| group.wait_start_ns).sum();
    let (held, causes) = (held(&groups), causes(&groups));
    waited.filter(|_| trained > 0).map(|waited| Waits {
        held,
        groups,
        victims,
        trained,
        waited,
        starting,
        io,
        causes,
        shortage: None,
    })
}

/// The trainer that waits for its data while most of the others wait for it, and those.
fn culprit<'a>(groups: &[&'a RankGroup]) -> Option<(&'a RankGroup, Vec<&'a RankGroup>)> {
    let one = groups.iter().copied().max_by_key(|group| group.waited_ns)?;
    let waits = |group: &RankGroup, ns: i64| ns as f64 >= FREE * group.trained_ns as f64;
    let others = || groups.iter().copied().filter(|group| group.proc != one.proc);
    let is_victim = |group: &&RankGroup| {
        let own = group.waited_ns.unwrap_or(0);
        waits(group, group.waited_for(one.proc)) && group.waited_for(one.proc) > own
    };
    let victims: Vec<&RankGroup> = others().filter(is_victim).collect();
    let is_one = waits(one, one.waited_ns?) && 2 * victims.len() >= groups.len() - 1 && !victims.is_empty();
    is_one.then_some((one, victims))
}

impl Waits<'_> {
    /// A sum over trainers in words. Of several it is their mean: no run has time for a sum.
    fn mean(&self, sum: i64) -> String {
        time(sum as f64 / self.groups.len() as f64)
    }

    fn part(&self, waited: i64) -> f64 {
        waited as f64 / self.trained as f64
    }

    /// The part of its time that each lost, by its own waits or by those of others.
    fn lost(&self) -> f64 {
        let each = self.trained as f64 / self.groups.len() as f64;
        self.held.map_or(0.0, |ns| ns as f64 / each).max(self.part(self.waited))
    }

    /// The same without the start of readers.
    fn lost_at_work(&self) -> f64 {
        self.lost() - self.part(self.starting)
    }

    /// The wait for readers that had started.
    fn at_work(&self) -> i64 {
        self.waited - self.starting
    }

    /// True if the readers' start is worth a word.
    fn tells_start(&self) -> bool {
        self.part(self.starting) >= WORTH
    }

    /// True if trainers read for themselves, and nobody else for them.
    fn read_themselves(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|group| group.reads_itself())
    }

    fn answer(&self) -> String {
        let unknown: i64 = self.groups.iter().filter_map(|group| group.unknown_wait_ns).sum();
        let is_unseen = self.part(unknown) >= FREE && unknown > self.waited;
        let is_doubtful = is_unseen || self.groups.iter().any(|group| group.is_doubtful());
        let answer = match (self.lost(), self.lost_at_work()) {
            _ if is_doubtful => "Whether training waited for data is not known",
            (part, _) if part < FREE => "Training did not wait for data",
            (_, part) if part < FREE => "Training waited for its readers to start",
            (part, _) if part >= BOUND => "Training waited for data",
            _ => "Training waited for data some of the time",
        };
        let inferred = if self.groups.iter().any(|group| group.inferred) { " (inferred from calls)" } else { "" };
        let (trained, waited) = (self.mean(self.trained), self.mean(self.waited));
        let part = share(self.waited, self.trained);
        let what = if is_doubtful && !is_unseen { "something" } else { "batches" };
        let mut sentence = format!(
            "{answer}{inferred}: {} trained for {trained}{} and waited {waited} ({part}) of it for {what}",
            self.who(),
            self.in_the_mean()
        );
        if self.tells_start() {
            let whose = if self.groups.len() > 1 { "their" } else { "its" };
            sentence += &format!(", {} of that while {whose} readers were starting", self.mean(self.starting));
        }
        if let Some(most) = self.slowest() {
            sentence += &format!("; most of all {most}");
        }
        if let Some(held) = self.held.filter(|_| self.lost() >= self.part(self.waited) + WORTH) {
            let part = Unit::Share.text(self.lost());
            sentence +=
                &format!("; each step waits for its slowest, so that all lost up to {} ({part})", time(held as f64));
        }
        sentence + "."
    }

    /// What the wait of a host is worth whose device may have been busy meanwhile.
    fn hidden_by_gpu(&self) -> Option<String> {
        let is_worth = self.lost() >= FREE && self.groups.iter().any(|group| group.gpu_untimed);
        is_worth.then(|| {
            "That is an upper bound: the run used a GPU, and nothing in the trace says how long it was busy. It may have been \
             computing meanwhile, since launches return before the work is done. torch.profiler's trace of the same run times it."
                .into()
        })
    }

    /// Marks the first time of a sentence about several trainers.
    fn in_the_mean(&self) -> &'static str {
        if self.groups.len() > 1 { " in the mean" } else { "" }
    }

    fn who(&self) -> String {
        match self.groups.as_slice() {
            [one] if !self.victims.is_empty() => format!("{} ({})", one.trainer, self.called(one)),
            [one] => one.trainer.clone(),
            several => format!("{} trainers", grouped(several.len() as u64)),
        }
    }

    /// The same of the parents of pools.
    fn for_workers(&self) -> String {
        let workers: BTreeSet<u32> =
            self.groups.iter().flat_map(|group| &group.readers).map(|reader| reader.proc).collect();
        let (who, whose) = match self.groups.as_slice() {
            [one] => (one.trainer.clone(), "its"),
            several => (format!("{} processes", grouped(several.len() as u64)), "their"),
        };
        format!(
            "{who} waited for {whose} {} for {} of {}{} ({}) and {} to train nothing.",
            many(workers.len() as u64, "worker", "workers"),
            self.mean(self.waited),
            self.mean(self.trained),
            self.in_the_mean(),
            share(self.waited, self.trained),
            if self.groups.len() > 1 { "seem" } else { "seems" }
        )
    }

    /// Of several trainers the one that waited most, where the figures tell it from the others.
    fn slowest(&self) -> Option<String> {
        let several = self.groups.len() > 1;
        let most = self.groups.iter().max_by_key(|group| group.waited_ns.unwrap_or(0)).filter(|_| several)?;
        let who = self.called(most);
        let of = |group: &RankGroup| share(group.waited_ns.unwrap_or(0), group.trained_ns);
        let differ = self.groups.iter().any(|group| of(group) != of(most));
        differ.then(|| format!("{who}, {}", of(most)))
    }

    /// The work of readers meanwhile, where the wait is worth a reason.
    fn cause(&self, knows_calls: bool) -> Vec<String> {
        match self.causes.filter(|_| self.lost() >= FREE) {
            Some(causes) => {
                let each = causes.scaled(causes.sum() / self.groups.len() as i64).unwrap_or(causes);
                super::causes::sentences(&each, self.read_themselves(), self.shortage.as_ref())
            }
            None => self.guessed_cause(knows_calls).into_iter().collect(),
        }
    }

    /// The same where nobody knows who ended the wait: its readers' work meanwhile.
    fn guessed_cause(&self, knows_calls: bool) -> Option<String> {
        if self.causes.is_some() || self.lost_at_work() < FREE {
            return None;
        }
        let readers = self.readers();
        let Some(io) = self.io else {
            if let Some(idle) = self.idle().filter(|idle| knows_calls && *idle > IDLE) {
                let were = if readers == "its 1 reader" { "was" } else { "were" };
                return Some(format!(
                    "{} {were} idle for {} of that or more: the trace does not tell what they waited for (a lock, a message, a \
                     child process, the hand-over of batches); spans in trainer and readers would.",
                    readers.replacen("its", "Its", 1),
                    Unit::Share.text(idle)
                ));
            }
            let why = match knows_calls {
                true if self.idle().is_some() => "they were alive for less than half of it",
                true => "the trace does not tell who read for whom",
                false => "calls were not recorded",
            };
            return Some(format!("What {readers} did meanwhile is not known: {why}."));
        };
        let waited = self.at_work();
        let elsewhere = waited - io;
        let why = match io as f64 / waited.max(1) as f64 {
            part if part >= STORAGE => "it was storage that training waited for",
            part if part < NO_STORAGE => {
                "most of it was spent outside calls on files, where this trace cannot tell preprocessing from page faults, sleep \
                 or waiting for a CPU"
            }
            _ => "calls on files and work outside them both took part",
        };
        let (io, elsewhere) = (self.mean(io), self.mean(elsewhere));
        let wait = if self.tells_start() { format!("the other {}", self.mean(waited)) } else { "that wait".into() };
        if self.read_themselves() {
            let (reads, was) = match self.groups.as_slice() {
                [_] => ("It reads by itself", "it was"),
                _ => ("Each reads by itself", "they were"),
            };
            return Some(format!(
                "{reads}: of {wait} {was} in I/O for {io} and busy elsewhere for {elsewhere}, so that {why}."
            ));
        }
        // Readers' own times are others: they work side by side, and are idle for a part of it.
        let were = if readers == "its 1 reader" { "was" } else { "were" };
        Some(format!(
            "Shared out by what {readers} {were} busy with meanwhile, {wait} was {io} of I/O and {elsewhere} of other work: {why}."
        ))
    }

    /// The least part of the wait in which each reader was idle; `None` if none was alive then.
    fn idle(&self) -> Option<f64> {
        let readers = self.groups.iter().flat_map(|group| &group.readers);
        readers.filter_map(ReaderUse::busy_part).max_by(f64::total_cmp).map(|busy| 1.0 - busy)
    }

    /// The time that other trainers waited for the one that waited for its data.
    fn waited_for(&self) -> Option<String> {
        let one = self.groups.first()?;
        let culprit = self.called(one);
        let part = |group: &&RankGroup| group.waited_for(one.proc) as f64 / group.trained_ns.max(1) as f64;
        let mut parts: Vec<f64> = self.victims.iter().map(part).collect();
        parts.sort_by(f64::total_cmp);
        let [least, most] = [parts.first(), parts.last()].map(|part| part.map(|part| Unit::Share.text(*part)));
        let (least, most) = (least?, most?);
        Some(match self.victims.as_slice() {
            [victim] => format!("Meanwhile {} waited {most} of its time for {culprit}.", self.called(victim)),
            others => {
                format!("Meanwhile {} other ranks waited {least} to {most} of their time for {culprit}.", others.len())
            }
        })
    }

    /// Waits that are not for data, where they are worth a word.
    fn other_waits(&self) -> Vec<String> {
        let sum = |of: fn(&RankGroup) -> Option<i64>| self.groups.iter().filter_map(|group| of(group)).sum::<i64>();
        let kinds = [
            (
                sum(|group| group.own_work_ns),
                "for its own threads or programs, which worked on what they had just been given: no wait for data",
            ),
            (
                sum(|group| group.peer_wait_ns),
                "for other ranks or processes, or for the network: no wait for its readers",
            ),
            (
                sum(|group| group.unknown_wait_ns),
                "for something that the trace does not show (a lock without calls, a device): unknown",
            ),
        ];
        let worth = kinds.into_iter().filter(|(ns, _)| self.part(*ns) >= FREE);
        let said = |(ns, what): (i64, &str)| {
            let (waited, share) = (self.mean(ns), share(ns, self.trained));
            match self.groups.len() {
                1 => format!("Training waited {waited} ({share}) {what}."),
                several => {
                    format!(
                        "In the mean, each of {} trainers waited {waited} ({share}) {what}.",
                        grouped(several as u64)
                    )
                }
            }
        };
        worth.map(said).collect()
    }

    /// What a wait that is inferred lacks, where batches come through pipes: from the last byte of a message on nobody can tell
    /// unpickling from training.
    fn lacks(&self, what: &Dataset) -> Option<&'static str> {
        let inferred = self.groups.iter().any(|group| group.inferred && !group.reads_itself());
        let through_pipes = 2 * what.elsewhere_read >= what.bytes_read;
        (inferred && self.causes.is_none() && through_pipes && self.part(self.waited) >= FREE).then_some(
            "Unpickling a batch counts as training: a clock around the loader's next batch shows a longer wait.",
        )
    }

    /// What trainers write themselves, where that is worth a word: of the one that does longest.
    fn stood(&self) -> Option<String> {
        let most = self.groups.iter().max_by_key(|group| group.written_ns)?;
        let written = most.written_ns?;
        if (written as f64) < FREE * most.trained_ns as f64 {
            return None;
        }
        let who = if self.groups.len() > 1 { self.called(most) } else { "training".into() };
        let (stood, part) = (time(written as f64), share(written, most.trained_ns));
        let others = if self.groups.len() > 1 { " Others that wait for it stand with it." } else { "" };
        let saves = format!("{who} stood for {stood} ({part}) while its own thread wrote and synchronised files.");
        Some(saves[..1].to_uppercase() + &saves[1..] + others)
    }

    fn called(&self, group: &RankGroup) -> String {
        group.rank.map_or_else(|| format!("process {}", group.pid), |rank| format!("rank {rank}"))
    }

    fn readers(&self) -> String {
        match self.groups.iter().map(|group| group.readers.len() as u64).sum() {
            0 => "its readers".into(),
            number => format!("its {}", many(number, "reader", "readers")),
        }
    }

    /// The time before the training.
    fn beside(&self, run_start: i64) -> Option<String> {
        let startup = self.groups.iter().filter_map(|group| group.startup_within(run_start)).max()?;
        let worth = startup as f64 > WORTH * self.trained as f64 / self.groups.len() as f64;
        worth.then(|| format!("Before training began, {} went by.", time(startup as f64)))
    }
}

/// Where nobody lived to its own end, the run was longer than its last call, and nobody knows by how much.
fn cut_short(summary: &Summary) -> Option<String> {
    let ended = || summary.processes.iter().filter(|process| process.ended != "exec");
    (ended().next().is_some() && ended().all(|process| process.ended == "killed")).then(|| {
        if summary.damage.iter().any(|note| !note.remark) {
            return "How it ended is not known: a signal ended it, or its files were cut.".into();
        }
        "A signal ended it: the call that it was in then, and how long it had been in it, is in no figure.".into()
    })
}

/// The sentence on a trace of which there are too many waits to tell their causes.
fn unexplained(summary: &Summary) -> Option<String> {
    let knows_something = !summary.training.is_empty() || may_train(summary);
    (summary.allocation.waits_unexplained && knows_something).then(|| {
        let some = if summary.training.iter().any(|group| group.causes.is_some()) { "some " } else { "" };
        format!(
            "The causes of {some}waits were not worked out: the trace has more than {} million waits and messages. Take a part of \
             it with fewer: --run, or --from and --to.",
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
            "In {}, {} told of {}; calls were not recorded, so nothing is known of files.",
            time(summary.time.total_ns as f64),
            who.shown_processes(),
            many(who.events, "span", "spans"),
        );
    }
    if !names_files(summary) {
        return format!(
            "In {}, {} made {}; which files they were on and how much they moved is not in the trace (DFTracer writes it with \
             DFTRACER_INC_METADATA=1).",
            time(summary.time.total_ns as f64),
            who.shown_processes(),
            many(who.events, "event", "events"),
        );
    }
    format!(
        "In {}, {} made {} on {}{}, read {} and wrote {}{}.",
        time(summary.time.total_ns as f64),
        who.shown_processes(),
        many(who.events, "event", "events"),
        what.at_least(),
        many(what.files, "file", "files"),
        bytes(what.bytes_read as f64),
        bytes(what.bytes_written as f64),
        elsewhere(what)
    )
}

/// False where calls that move data say neither of which file nor how much.
fn names_files(summary: &Summary) -> bool {
    let mut moving =
        summary.functions.iter().filter(|function| ["read", "write"].contains(&function.class.as_ref())).peekable();
    summary.dataset.files > 0 || moving.peek().is_none() || moving.any(|function| function.bytes.is_some())
}

/// What no share can be told of.
fn timeless(summary: &Summary) -> Option<String> {
    let remark = summary.damage.iter().any(|note| note.remark && note.what == DURATIONLESS);
    let which = if summary.knows_times() { "Calls in a part of it have no" } else { "No call in it has a" };
    remark.then(|| {
        format!("{which} duration, so that how long I/O took is not known: strace -T says it (strace -f -ttt -T -y).")
    })
}

/// Bytes that went past files, where they are most of what moved.
fn elsewhere(what: &Dataset) -> String {
    // What one process writes to a pipe another one reads: once is enough.
    let past = what.elsewhere_read.max(what.elsewhere_written);
    match past > what.bytes_read + what.bytes_written {
        true => format!(", besides {} through pipes, sockets and terminals", bytes(past as f64)),
        false => String::new(),
    }
}

/// Where nothing tells of training: how much of the time I/O took.
fn balance(summary: &Summary, has_pools: bool) -> Option<String> {
    let spent = &summary.time;
    if summary.calls() == 0 || !summary.knows_times() {
        return None;
    }
    let going = format!("I/O was going on {} of the time", share(spent.io_ns, spent.total_ns));
    Some(match spent.unoverlapped_io_ns {
        Some(alone) => format!(
            "{going}, {} of the time without any compute beside it{}.",
            share(alone, spent.total_ns),
            hidden(spent)
        ),
        None if summary.tally.is_some() => format!(
            "{going}. Whether a training waited for data is not known: processes counted in the place of events (summary \
             mode, or beyond a limit), and counts do not tell when."
        ),
        None if has_pools || !may_train(summary) => format!("{going}."),
        None if saves_alone(summary) => format!("{going}. {}", checkpoints(summary)),
        None => match reads_itself(summary) {
            Some(own) => format!("{going}. {own} {SPANS_TELL}"),
            None => format!(
                "{going}. Whether a training waited for data is unknown: nothing in the trace says when one asked for a batch, \
                 and no other thread or process was seen to hand batches over. {SPANS_TELL}"
            ),
        },
    })
}

/// How to learn what calls do not tell.
const SPANS_TELL: &str = "Spans tell: run a PyTorch script by python -m dliotrace run --torch SCRIPT.";

/// Reads with fewer pauses than this are no loop over batches.
const PAUSES_MIN: u64 = 8;

/// A process whose first thread reads data time and again: what its reads cost, and what the trace cannot tell.
fn reads_itself(summary: &Summary) -> Option<String> {
    let trains = |process: &&ProcessUse| process.rank.is_some() || tree::may_train(&process.program);
    // One of several that a process started works for that one.
    let has_siblings = |process: &&ProcessUse| {
        let is_one = |other: &&ProcessUse| other.parent == process.parent && tree::may_train(&other.program);
        process.parent.is_some() && process.rank.is_none() && summary.processes.iter().filter(is_one).count() > 1
    };
    let own = |process: &ProcessUse| process.own_reads.filter(|reads| reads.pauses >= PAUSES_MIN);
    let found = summary
        .processes
        .iter()
        .filter(|it| trains(it) && !has_siblings(it))
        .filter_map(|process| Some((process, own(process)?)));
    let (process, reads) = found.max_by_key(|(_, reads)| reads.read_ns)?;
    let looped = (reads.to_ts - reads.from_ts).max(1);
    let (name, part) = (&process.called, share(reads.read_ns, looped));
    let (spent, looped_for) = (time(reads.read_ns as f64), time(looped as f64));
    let facts = format!(
        "{name} reads its data in its main thread, as a loader without workers does (num_workers=0): reads took {spent} \
         ({part}) of the {looped_for} from the first to the last."
    );
    Some(match reads.read_ns as f64 / looped as f64 {
        part if part >= FREE => {
            format!(
                "{facts} If it trains, it waited at least that long for data, and storage is the cause of that. Whether it \
                 waits for preprocessing as well is unknown: calls do not tell preprocessing from training."
            )
        }
        _ => format!(
            "{facts} Read calls are not what slows it down. Whether it waits for preprocessing is unknown: calls do \
             not tell preprocessing from training."
        ),
    })
}

/// True if spans tell of checkpoints, and of no training.
fn saves_alone(summary: &Summary) -> bool {
    summary.checkpoints.spans > 0 && summary.training.is_empty()
}

fn checkpoints(summary: &Summary) -> String {
    let found = &summary.checkpoints;
    format!(
        "Nothing trained: {} of checkpoints took {}, summed over processes.",
        many(found.spans, "span", "spans"),
        time(found.span_ns as f64)
    )
}

/// True if one of the programs may be a training that nothing tells of: a launcher gave it a rank, it marks spans, or it is a
/// script. Nobody asks it of `tar`.
fn may_train(summary: &Summary) -> bool {
    let trains = |process: &ProcessUse| process.rank.is_some() || tree::may_train(&process.program);
    !summary.spans.is_empty() || summary.processes.iter().any(trains)
}

fn hidden(spent: &Time) -> &'static str {
    let part = |ns: i64| ns as f64 / spent.total_ns.max(1) as f64;
    match spent.unoverlapped_io_ns {
        Some(alone) if part(alone) < FREE && part(spent.io_ns) >= FREE => ": it hides behind compute",
        _ => "",
    }
}

/// The call most time on files went into.
fn dearest(summary: &Summary) -> Option<String> {
    let calls = || beneath(&summary.functions);
    let all: u64 = calls().map(|function| function.time_ns).sum();
    let first = calls().next().filter(|_| summary.knows_times())?;
    // Counts by file and function do not tell pipes from files whose names were not kept.
    let among = if summary.tally.is_some() { "files, pipes and sockets together" } else { "files" };
    Some(format!(
        "Of the time in calls on {among}, {} went into {} ({}).",
        share(first.time_ns as i64, all as i64),
        first.named(&summary.functions),
        match first.count {
            1 => format!("once, {}", first.duration_ns.median_time()),
            // A few that take long are all of the time, and none of the median.
            count => format!(
                "{} times, {} each in the mean, {} in the median",
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
    Some(format!(
        "DFTracer aggregated {calls}: only their number is known, and they are missing from every other figure."
    ))
}

fn loss(summary: &Summary) -> Option<String> {
    let lost = lost(summary);
    let events = || many(lost, "event found no room and is", "events found no room and are");
    (lost > 0 && lacking(summary).is_none()).then(|| format!("{} missing from every figure.", events()))
}

/// Programs that left no trace.
fn untraced(summary: &Summary) -> Option<String> {
    let programs = &summary.allocation.untraced;
    let [first, ..] = programs.as_slice() else { return None };
    let others = match programs.len() - 1 {
        0 => String::new(),
        more => format!(", and {}", many(more as u64, "other program", "other programs")),
    };
    Some(format!("Not traced, and in no figure: {}{others}.", first.text()))
}

/// What was lost or damaged, and may be of another run than the one that the report is about.
fn of_no_run(summary: &Summary) -> Vec<String> {
    let lost = summary.allocation.lost_run_unknown;
    let files: BTreeSet<_> =
        summary.damage.iter().filter(|note| note.run_unknown && !note.remark).map(|note| &note.path).collect();
    let damaged = many(files.len() as u64, "damaged file does", "damaged files do");
    let lost_too = (lost > 0).then(|| {
        let events = many(lost, "event is", "events are");
        format!("Of the lost, {events} of processes whose run is not known: another run may have lost them.")
    });
    let damaged = (!files.is_empty()).then(|| format!("{damaged} not tell which run it is of: this one or another."));
    lost_too.into_iter().chain(damaged).collect()
}

fn lost(summary: &Summary) -> u64 {
    summary.allocation.lost.saturating_sub(summary.allocation.aggregated)
}

/// What comes first where much is lost.
fn lacking(summary: &Summary) -> Option<String> {
    let lost = lost(summary);
    let all = lost + summary.allocation.events;
    let part = lost as f64 / all.max(1) as f64;
    (part >= LACKS).then(|| {
        format!(
            "The trace lacks {} of its events ({} lost): what follows is of the others, and no figure is that of the run.",
            share(lost as i64, all as i64),
            grouped(lost)
        )
    })
}
