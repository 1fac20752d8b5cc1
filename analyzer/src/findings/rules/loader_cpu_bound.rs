//! Readers are busy with something else than reading.

use super::super::loader::{busy_meanwhile, is_crowded, mostly_idle};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, RECORD_TRAINING, Waited, in_words};
use crate::summary::figures::units::time;
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "loader-cpu-bound",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "training waits, and its readers are in I/O for less than 30 % of their busy time meanwhile, and not at locks",
    silences: &[Group::Access, Group::Metadata],
    silences_rules: &[],
    remedy: "faster storage would win nothing: decode or resize ahead of time, another format or library, more readers",
    torch: "faster storage would win nothing: decode or resize ahead of time, another format or library, more num_workers",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Where training reads by itself.
const OWN_REMEDY: &str = "faster storage would win nothing: let another thread or process make the next batch while it computes, \
    decode or resize ahead of time, another format or library";
const OWN_TORCH: &str = "faster storage would win nothing: num_workers of 1 or more, decode or resize ahead of time, another \
    format or library";

/// Where there are more readers than processors can run.
const CROWDED_REMEDY: &str =
    "faster storage would win nothing, nor more readers: decode or resize ahead of time, another format or library";

/// Where most readers have nothing to do.
const IDLE_REMEDY: &str = "faster storage would win nothing, nor more readers, most of which are idle: decode or resize ahead of \
    time, another format or library, samples shared out evenly";

fn judge(case: &Case) -> Judgement {
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
                "training reads by itself, and was in I/O for {} of the time it waited and else decoded, copied or slept",
                Unit::Share.text(duty)
            ),
            false => format!(
                "while training waited, its readers were in I/O for {} of their busy time and else decoded, copied or slept",
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

fn evidence(case: &Case) -> Vec<String> {
    let readers = case.summary.training.iter().flat_map(|group| &group.readers);
    let row = |reader: &crate::summary::training::ReaderUse| {
        let [io, busy] = [reader.wait_io_ns, busy_meanwhile(reader)].map(|ns| time(ns as f64));
        format!("{} ({}), while training waited: busy for {busy}, in I/O for {io} of it", reader.name, reader.pid)
    };
    readers.map(row).collect()
}
