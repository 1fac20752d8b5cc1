//! Detects readers that are too few or too slow for the trainer's demand.

use super::super::loader::{busiest, is_crowded, loader};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Waited, Worth};
use crate::summary::figures::units::{many, time};
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "loader-capacity",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits, and readers deliver at least 5 % fewer batches than it could use",
    silences: &[],
    silences_rules: &[],
    remedy: "use more readers, up to cores / ranks; beyond that, make samples cheaper; prefetching more batches does not raise \
        the average",
    torch: "increase num_workers, up to cores / ranks; beyond that, make samples cheaper; prefetch_factor does not raise the \
        average",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Change to make if there are more readers than CPUs can run, or if existing readers wait for a CPU.
const CROWDED_REMEDY: &str = "use cheaper samples (decoded or resized ahead of time), or more CPUs: the current ones have no time for another \
     reader";

/// At this share of a wait or more, additional readers would wait for a CPU or for the interpreter lock.
const LACKS_CPUS: f64 = 0.2;

fn lacks_cpus(case: &Case) -> bool {
    let lacks = case.cause_share(&[Part::NoCpu]).is_some_and(|share| share >= LACKS_CPUS);
    lacks && case.more_readers_save() != Some(true)
}

/// Causes that more readers of the same kind do not shorten, unless the replay says so.
const NOT_READERS: [Part; 3] = [Part::HandOver, Part::Gil, Part::Lock];

/// Returns the change for a cause that more readers do not shorten, if it is the largest.
fn other_change(case: &Case) -> Option<&'static str> {
    case.change_for(&NOT_READERS).filter(|_| case.more_readers_save() != Some(true))
}

fn judge(case: &Case) -> Judgement {
    // More readers do not replace those that ended, or whose end is the cause.
    let (waited, loader) = (case.waited(), loader(case).filter(|_| !case.readers_died()));
    let shortage = loader.as_ref().map(|loader| loader.shortage());
    let measures =
        vec![case.at_least("wait", waited.as_ref().map(Waited::share_at_work)), case.at_least("shortage", shortage)];
    let decide = "record spans of waits and compute, with readers in separate processes or threads";
    let Some((waited, loader)) = waited.zip(loader) else {
        return Judgement { measures, decide, ..Judgement::default() };
    };
    let ns = (loader.shortage() * waited.trained_ns as f64).min(waited.at_work_ns() as f64) as i64;
    Judgement {
        measures,
        says: format!(
            "{} of the batches that {} could use can be made by {}: one takes {} to make, a step {} to compute",
            Unit::Share.text(loader.capacity),
            case.loop_name(),
            many(loader.readers as u64, "reader", "readers"),
            time(loader.make_ns),
            time(loader.compute_ns)
        ),
        evidence: busiest(case),
        remedy: (is_crowded(case) || lacks_cpus(case)).then_some(CROWDED_REMEDY).or_else(|| other_change(case)),
        worth: Some(Worth { ns, exposed: true }),
        ..Judgement::default()
    }
}
