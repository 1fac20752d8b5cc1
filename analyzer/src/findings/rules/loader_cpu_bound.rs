//! Detects readers that are busy with work other than reading.

use super::super::cpus::shortage;
use super::super::loader::{busy_meanwhile, is_crowded, mostly_idle};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, RECORD_TRAINING, Waited, Worth, in_words};
use crate::summary::figures::units::time;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::no_cpu::Shortage;
use crate::summary::training::{RankGroup, WaitedFor};
use crate::summary::waits::parts::{Part, Parts};
use crate::summary::waits::trainers::WaitKind;

pub const RULE: Rule = Rule {
    id: "loader-cpu-bound",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "training waits, and half of the wait is CPU time, or, if the trace has no CPU times, readers are in I/O for less \
        than 30 % of their busy time",
    silences: &[Group::Access, Group::Metadata],
    silences_rules: &[],
    remedy: "if readers compute: add readers where CPUs are idle; beyond that, decode or resize ahead of time, or use a faster \
        format or library; faster storage would save little",
    torch: "if readers compute: raise num_workers where CPUs are idle; beyond that, decode or resize ahead of time, or use a \
        faster format or library; faster storage would save little",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Change to make if training reads by itself.
const OWN_REMEDY: &str = "let another thread or process make the next batch during compute; beyond that, decode or resize ahead \
    of time, or use a faster format or library; faster storage would save little";
const OWN_TORCH: &str = "set num_workers to 1 or more; beyond that, decode or resize ahead of time, or use a faster format or \
    library; faster storage would save little";

/// Change to make if there are more readers than CPUs can run.
const CROWDED_REMEDY: &str = "decode or resize ahead of time, or use a faster format or library; neither faster storage nor more \
    readers would save much";

/// Change to make if most readers are idle.
const IDLE_REMEDY: &str = "faster storage would save little, nor more readers, most of which are idle: decode or \
    resize ahead of time, use another format or library, distribute samples evenly";

fn judge(case: &Case) -> Judgement {
    if let Some(causes) = case.causes() {
        return by_causes(case, &causes);
    }
    let waited = case.waited();
    let wait = case.at_least("wait", waited.as_ref().map(Waited::share_at_work));
    let has_readers = case.summary.training.iter().any(|group| !group.readers.is_empty());
    let duty = waited.as_ref().and_then(Waited::io_duty).filter(|_| has_readers);
    let locked = case.below("locked", Some(case.locked().unwrap_or(0.0)));
    let measures = vec![wait, case.below("io-duty", duty), locked];
    let Some((waited, duty)) = waited.zip(duty) else {
        return Judgement { measures, decide: RECORD_TRAINING, ..Judgement::default() };
    };
    let own = case.reads_itself();
    Judgement {
        measures,
        says: match own {
            true => format!(
                "{} reads its data itself, and spent {} of its wait in I/O and the rest busy outside calls",
                case.loop_name(),
                Unit::Share.text(duty)
            ),
            false => format!(
                "during waits, readers spent {} of their work in I/O and the rest busy outside calls: preprocessing, \
                 page faults, sleep or waiting for a CPU",
                Unit::Share.text(duty)
            ),
        },
        evidence: evidence(case),
        remedy: match own {
            true => Some(in_words(case.summary, OWN_REMEDY, OWN_TORCH)),
            false if mostly_idle(case) => Some(IDLE_REMEDY),
            false => is_crowded(case).then_some(CROWDED_REMEDY),
        },
        worth: Some(waited.worth_at_work()),
        confidence: Some(waited.confidence()),
        ..Judgement::default()
    }
}

/// Judges by causes, if CPU times were recorded.
fn by_causes(case: &Case, causes: &Parts) -> Judgement {
    let waited = case.waited();
    let share = case.cause_share(&[Part::Cpu, Part::NoCpu, Part::Gil]);
    let measures = vec![case.at_least("wait", waited.as_ref().map(Waited::share)), case.at_least("cpu", share)];
    let Some((waited, share)) = waited.zip(share) else {
        return Judgement { measures, decide: RECORD_TRAINING, ..Judgement::default() };
    };
    let of = |part: Part| Unit::Share.text(causes.get(part) as f64 / causes.sum().max(1) as f64);
    let own = case.reads_itself();
    let most = [Part::Gil, Part::NoCpu, Part::Cpu].into_iter().max_by_key(|part| causes.get(*part));
    let storage = case.cause_share(&[Part::Storage, Part::PageFaults]).unwrap_or(0.0);
    let is_small = storage < SMALL;
    Judgement {
        measures,
        says: format!(
            "{} of the wait was CPU time spent making batches, {} waiting for a CPU, {} waiting for the interpreter \
             lock",
            of(Part::Cpu),
            of(Part::NoCpu),
            of(Part::Gil)
        ),
        evidence: vec![format!("file calls and page faults: {} of the wait", Unit::Share.text(storage))],
        remedy: Some(match most {
            Some(Part::Gil) => "use processes instead of threads, or a library that releases the interpreter lock",
            // Cheaper samples do not give CPUs back that others use.
            Some(Part::NoCpu) if others_use_the_cpus(case) => OTHERS_REMEDY,
            Some(Part::NoCpu) => {
                "run fewer processes and threads on these CPUs, or use more CPUs; make samples cheaper: decode or \
                 resize ahead of time"
            }
            _ if own => in_words(case.summary, OWN_CPU, OWN_CPU_TORCH),
            _ if is_small && works_in_own_thread(case) => OWN_THREAD,
            _ if is_small && is_full(case, causes) => CROWDED_REMEDY,
            _ if is_small => in_words(case.summary, CPU, CPU_TORCH),
            _ => "make samples cheaper: decode or resize ahead of time, use another format or library",
        }),
        worth: Some(Worth { ns: (waited.waited_ns as f64 * share) as i64, exposed: true }),
        confidence: Some(waited.confidence()),
        ..Judgement::default()
    }
}

/// Change to make if training waits for a thread of its own, which works on the batches of readers.
const OWN_THREAD: &str = "move the work of that thread into the readers, or make it cheaper; neither faster storage nor more readers would \
    save much";

/// Returns `true` if training waited for a thread of its own process although it has reader processes.
fn works_in_own_thread(case: &Case) -> bool {
    let waits_for_own = |group: &RankGroup| {
        let row = group.waited_for.iter().find(|row| row.kind == WaitKind::Data);
        let is_most = |row: &&WaitedFor| 2 * row.wait_ns > group.waited_ns.unwrap_or(0);
        // PyTorch's readers are processes.
        group.torch && row.filter(is_most).is_some_and(|row| row.tid.is_some())
    };
    case.summary.training.iter().any(waits_for_own)
}

/// Change to make if processes outside the trace use the CPUs.
const OTHERS_REMEDY: &str = "stop the other processes on this host (top lists them), run elsewhere, or use more CPUs";

/// At this share of the wait, or above, another reader would wait for a CPU too.
const LACKS_CPUS: f64 = 0.05;

/// Returns `true` if another reader would not get a CPU, or would not shorten the training by replay.
fn is_full(case: &Case, causes: &Parts) -> bool {
    let lacks_cpus = causes.get(Part::NoCpu) as f64 >= LACKS_CPUS * causes.sum() as f64;
    case.more_readers_save() == Some(false) || is_crowded(case) || lacks_cpus && case.more_readers_save() != Some(true)
}

fn others_use_the_cpus(case: &Case) -> bool {
    matches!(shortage(case), Some(Shortage::Others { .. }))
}

/// Storage that takes at most this share of a wait is not its cause.
const SMALL: f64 = 0.05;

const CPU: &str = "add readers where CPUs are idle; beyond that, decode or resize ahead of time, or use a faster format or \
    library; faster storage would save little";
const CPU_TORCH: &str = "raise num_workers where CPUs are idle; beyond that, decode or resize ahead of time, or use a faster \
    format or library; faster storage would save little";
const OWN_CPU: &str = "let another process make the next batch while training computes; beyond that, decode or resize ahead of \
    time";
const OWN_CPU_TORCH: &str = "set num_workers to 1 or more; beyond that, decode or resize ahead of time";

fn evidence(case: &Case) -> Vec<String> {
    let readers = case.summary.training.iter().flat_map(|group| &group.readers);
    let row = |reader: &crate::summary::training::ReaderUse| {
        let [io, busy] = [reader.wait_io_ns, busy_meanwhile(reader)].map(|ns| time(ns as f64));
        format!("{} ({}), during waits: busy for {busy}, in I/O for {io} of it", reader.name, reader.pid)
    };
    readers.map(row).collect()
}
