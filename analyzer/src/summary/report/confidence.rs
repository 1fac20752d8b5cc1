//! How sure the verdict is: high, medium or low, by measured facts.
//!
//! Each fact permits a level at most, and the lowest one counts. High: spans show the waits, or a replay of the batches
//! reproduces them, or the training thread's own calls take the time; and the cause of at least 90 % of the wait is known.
//! Medium: waits are inferred from calls alone, or something is missing that may change the numbers. Low: at least half
//! of the wait is unexplained, a GPU may hide it, or the trace does not show whether anything trains or waits for data.

use super::Summary;
use super::findings::Unit;
use super::headline::{Bottleneck, Certainty, Headline, Level, decisive, is_in_own_calls, is_saving};
use super::no_cpu::reader_cpus;
use super::own_reads::doubt;
use super::subject::FREE;
use super::verdict::{Waits, lost_share, training_waits, unknown};
use crate::summary::figures::units::{grouped, many, share, time};
use crate::summary::waits::parts::{Part, Parts};

/// The highest level that a fact permits, and the fact.
struct Fact(Level, String);

/// A wait whose unexplained share is at least this has a low confidence, or a medium one.
const UNEXPLAINED: f64 = 0.5;
const PARTLY_UNEXPLAINED: f64 = 0.1;

/// Lost events of this share of all events may change the numbers.
const LOST: f64 = 0.01;

/// Processes outside the trace change the numbers if they keep this share of the CPUs busy.
const FOREIGN: f64 = 0.25;

/// Shares of a shorter training are not typical; if it is also a small share of the run, it may be another phase.
const SHORT_NS: f64 = 1e9;
const SMALL_PART: f64 = 0.1;

/// A program that goes on for this share of the run after its training may hang.
const LONG_END: f64 = 0.5;

/// Readers that waited for a CPU for this share of a wait would have been faster on an idle host.
const LACKED_CPUS: f64 = 0.05;

/// If the training thread lacked a CPU for this share of the training, the share of its waits is a lower bound.
const LONG_SHORTAGE: f64 = 0.15;

/// Waits of this share outweigh all work that calls do not show.
const MOST: f64 = 0.5;

/// The largest number of facts in the reason.
const REASONS: usize = 3;

/// Returns the level and its reason; `None` if there is nothing to judge.
pub fn confidence(summary: &Summary, headline: &Headline) -> Option<(Level, String)> {
    let waits = training_waits(summary);
    let mut facts = match &waits {
        _ if headline.bottleneck == Bottleneck::NoEvents => return None,
        _ if headline.bottleneck == Bottleneck::ReaderDied && headline.share.is_none() => {
            vec![Fact(Level::High, "the parent of the reader reported the signal".into())]
        }
        _ if headline.bottleneck == Bottleneck::SharedMemoryFull => {
            vec![Fact(Level::High, "the failed calls are in the trace".into())]
        }
        waits if decisive(summary, waits.as_ref()).is_some() => {
            vec![Fact(Level::High, "the calls of the communication library are in the trace".into())]
        }
        Some(waits) => of_training(summary, headline, waits),
        None => vec![without_training(summary, headline)],
    };
    facts.extend(gaps(summary));
    let level = facts.iter().map(|fact| fact.0).min()?;
    // Facts that permit a higher level do not explain this one.
    let reasons = facts.iter().filter(|fact| fact.0 == level).map(|fact| fact.1.as_str());
    let mut reason = reasons.take(REASONS).collect::<Vec<_>>().join("; ");
    // That the cause is known does not follow from the level.
    let cause = waits.filter(|_| headline.bottleneck.is_wait_for_data()).map(|waits| explained(&waits));
    if let Some(Fact(_, known)) = cause.filter(|cause| cause.0 == Level::High && level < Level::High) {
        reason += &format!("; but {known}");
    }
    Some((level, reason))
}

fn of_training(summary: &Summary, headline: &Headline, waits: &Waits) -> Vec<Fact> {
    let mut facts = vec![basis(summary, headline, waits)];
    if headline.bottleneck == Bottleneck::Unknown {
        facts.push(Fact(Level::Low, "the trace does not show what it waited for most of the time".into()));
        return facts;
    }
    if headline.certainty == Certainty::UpperBound && waits.lost() >= FREE {
        let timed = if waits.groups.iter().any(|group| group.device.is_some()) { " all the time" } else { "" };
        facts.push(Fact(
            Level::Low,
            format!("a GPU was used and not timed{timed}: it may have computed during the wait"),
        ));
    }
    if headline.bottleneck.is_wait_for_data() {
        facts.push(explained(waits));
        facts.extend(two_works(headline));
        facts.extend(foreign_load(summary, headline, waits));
    }
    facts.extend(own_work(headline, waits));
    facts.extend(own_shortage(headline, waits));
    let (trained, run) = (waits.trained as f64 / waits.groups.len() as f64, summary.time.total_ns as f64);
    if trained < SHORT_NS {
        let level = if trained < SMALL_PART * run { Level::Low } else { Level::Medium };
        facts.push(Fact(
            level,
            format!("{} lasted only {} of {}", waits.wording().definite(), time(trained), time(run)),
        ));
    } else if let Some(after) = unexplained_end(summary, waits) {
        let what = waits.wording().definite();
        facts.push(Fact(
            Level::Low,
            format!("the trace does not show what the {} after {what} were for", time(after as f64)),
        ));
    }
    facts
}

/// Returns the time from the end of all trainings to the end of the run, if it is most of the run: a program that hangs calls
/// nothing.
fn unexplained_end(summary: &Summary, waits: &Waits) -> Option<i64> {
    let ends = waits.groups.iter().map(|group| group.start_ts + group.trained_ns);
    let after = summary.time.end_ts - ends.max()?;
    (after as f64 >= LONG_END * summary.time.total_ns as f64).then_some(after)
}

/// Returns how waits were found.
fn basis(summary: &Summary, headline: &Headline, waits: &Waits) -> Fact {
    let replayed = summary.what_if.as_ref().is_some_and(|replay| replay.refused.is_none());
    let is_own = is_in_own_calls(headline.bottleneck);
    match waits.groups.iter().any(|group| group.inferred) {
        _ if is_saving(headline.bottleneck, waits) => Fact(
            Level::Medium,
            format!(
                "calls show when {} had files open for writing, not what it did between them",
                waits.wording().thread()
            ),
        ),
        _ if is_own => Fact(
            Level::High,
            format!("the verdict is based on calls of {} itself, and these calls were timed", waits.wording().thread()),
        ),
        false if headline.certainty == Certainty::Inferred => Fact(Level::Medium, "inferred from calls".into()),
        false if waits.gpus.is_some() => Fact(Level::High, "measured by spans and the GPU's clock".into()),
        false => Fact(Level::High, "measured by spans".into()),
        true if replayed && headline.bottleneck.is_wait_for_data() => {
            Fact(Level::High, "inferred from calls and confirmed by a replay of the batches".into())
        }
        true if headline.bottleneck.is_wait_for_data() => {
            let is_unlike = summary.what_if.as_ref().is_some_and(|replay| replay.replayed_ns.is_some());
            let by = if is_unlike {
                "a replay of the batches did not confirm it"
            } else {
                "no replay of the batches confirms it"
            };
            Fact(Level::Medium, format!("inferred from calls, and {by}"))
        }
        true => Fact(Level::Medium, "inferred from calls; spans would measure it".into()),
    }
}

/// Returns the limit of inferred waits, which are those for readers. It matters most if they are short.
fn own_work(headline: &Headline, waits: &Waits) -> Option<Fact> {
    let is_of_readers = headline.bottleneck.is_wait_for_data() || headline.bottleneck == Bottleneck::NotDataBound;
    let is_whole = waits.groups.iter().all(|group| group.counts_receipts);
    let is_partial =
        headline.certainty == Certainty::Inferred && is_of_readers && !is_whole && !waits.read_themselves();
    let is_most = headline.bottleneck != Bottleneck::NotDataBound && waits.lost() >= MOST;
    (is_partial && !is_most)
        .then(|| Fact(Level::Medium, format!("work on data in {} is not counted", waits.wording().thread())))
}

/// Returns the time in which the training thread itself had no CPU: if calls show the waits, it is not counted when a loader
/// receives a batch.
fn own_shortage(headline: &Headline, waits: &Waits) -> Option<Fact> {
    let part = waits.sum_share(|group| group.own_no_cpu_ns);
    let counts = headline.bottleneck.is_wait_for_data() || headline.bottleneck == Bottleneck::NotDataBound;
    let level = if part >= LONG_SHORTAGE { Level::Low } else { Level::Medium };
    (headline.certainty == Certainty::Inferred && counts && part >= LACKED_CPUS).then(|| {
        let without = waits.mean(waits.total(|group| group.own_no_cpu_ns));
        let thread = waits.wording().thread();
        Fact(
            level,
            format!(
                "the share may be up to {}: {thread} also waited {without} for a CPU, perhaps while it received batches",
                Unit::Share.text((waits.lost() + part).min(1.0))
            ),
        )
    })
}

/// Returns the share of the wait for data that has a named cause.
fn explained(waits: &Waits) -> Fact {
    let Some(causes) = &waits.causes else {
        let text = "the cause is that of the readers' calls, not of what ended the waits";
        return Fact(if waits.io.is_some() { Level::Medium } else { Level::Low }, text.into());
    };
    let unexplained = causes.get(Part::Unknown) + causes.get(Part::OutsideCalls);
    let whole = causes.sum().max(1);
    match unexplained as f64 / whole as f64 {
        part if part >= UNEXPLAINED => {
            Fact(Level::Low, format!("{} of the wait is unexplained", share(unexplained, whole)))
        }
        part if part >= PARTLY_UNEXPLAINED => {
            Fact(Level::Medium, format!("{} of the wait is unexplained", share(unexplained, whole)))
        }
        _ => Fact(Level::High, format!("the cause of {} of the wait is known", share(whole - unexplained, whole))),
    }
}

/// Returns what calls do not tell apart: the work of the thread that takes batches, between two of them.
fn two_works(headline: &Headline) -> Option<Fact> {
    let text =
        "the trace shows that the thread which takes batches worked between them, not whether it sampled or unpickled";
    (headline.bottleneck == Bottleneck::SamplingBound).then(|| Fact(Level::Medium, text.into()))
}

/// Returns the load of processes outside the trace if it slowed readers down, unless the verdict already names it.
fn foreign_load(summary: &Summary, headline: &Headline, waits: &Waits) -> Option<Fact> {
    let lacked = |causes: &Parts| causes.get(Part::NoCpu) as f64 >= LACKED_CPUS * causes.sum() as f64;
    if !waits.causes.as_ref().is_none_or(lacked) {
        return None;
    }
    let cpus = reader_cpus(summary).filter(|_| headline.bottleneck != Bottleneck::CpuLimited)?;
    let (busy, all) = (cpus.others_busy()?, cpus.cores()?);
    (busy >= FOREIGN * all as f64).then(|| {
        let text = format!("other programs used {busy:.1} of {all} CPUs, so waits may be shorter on an idle host");
        Fact(Level::Medium, text)
    })
}

fn without_training(summary: &Summary, headline: &Headline) -> Fact {
    match (headline.bottleneck, headline.certainty) {
        (Bottleneck::NoTraining, _) if doubt(summary).is_some() => Fact(
            Level::Low,
            "no spans, and calls do not distinguish training from other programs that read, compute or sleep".into(),
        ),
        (Bottleneck::NoTraining, _) => {
            Fact(Level::Medium, "no spans, and calls show no thread that takes batches and computes".into())
        }
        (_, Certainty::Inferred) => Fact(Level::Low, "inferred from calls; whether it trains is unknown".into()),
        _ => Fact(Level::Low, "there is no verdict, because neither spans nor calls show when training waits".into()),
    }
}

/// Returns the parts of the run that are missing from the trace.
fn gaps(summary: &Summary) -> Vec<Fact> {
    let who = &summary.allocation;
    let lost = who.lost.saturating_sub(who.aggregated);
    let part = lost as f64 / (lost + who.events).max(1) as f64;
    let missing = [
        lost_share(summary).map(|part| Fact(Level::Low, format!("{part} of the events are lost"))),
        (part >= LOST).then(|| Fact(Level::Medium, format!("{} lost", many(lost, "event is", "events are")))),
        unknown(&summary.damage).then(|| Fact(Level::Medium, "an unknown number of events is lost".into())),
        who.waits_unexplained.then(|| Fact(Level::Medium, "not all waits were analyzed".into())),
        (who.uring > 0).then(|| Fact(Level::Medium, format!("{} are not in the trace", who.unseen_requests()))),
        who.ptrace_note().map(|note| Fact(Level::Medium, note)),
        untraced(summary),
    ];
    missing.into_iter().flatten().collect()
}

/// Returns the programs that were started without being traced and whose time may matter.
fn untraced(summary: &Summary) -> Option<Fact> {
    let programs: Vec<_> = summary.allocation.untraced.iter().filter(|program| program.matters()).collect();
    let first = programs.first()?;
    let others = match programs.len() - 1 {
        0 => String::new(),
        more => format!(" and {} more", grouped(more as u64)),
    };
    Some(Fact(Level::Medium, format!("{}{others} could not be traced", first.program)))
}
