//! Rules on the CPUs that readers might use: each fires for one reason why none was free.

use super::rule_context::{Case, Judgement, Waited, Worth};
use crate::summary::report::findings::Confidence;
use crate::summary::report::no_cpu::{ReaderCpus, Shortage, reader_cpus};
use crate::summary::waits::parts::Part;

/// The run that would show what readers might use.
pub const RECORD_MACHINE: &str = "record with this version of dlio: it notes what each process may use of its machine";

/// The rules that a lack of CPUs makes pointless: more readers, or a slow one.
pub const POINTLESS: &[&str] =
    &["loader-cpu-bound", "loader-capacity", "loader-jitter", "slow-worker", "too-many-readers"];

/// The judgement of a rule on one kind of shortage: readers wait for a CPU, and that is why.
pub fn by_shortage(case: &Case, is_it: impl Fn(&Shortage) -> bool) -> Judgement {
    let waited = case.waited();
    let share = case.cause_share(&[Part::NoCpu]);
    let measures = vec![case.at_least("wait", waited.as_ref().map(Waited::share)), case.at_least("no-cpu", share)];
    let cpus = reader_cpus(case.summary);
    let shortage = cpus.as_ref().and_then(ReaderCpus::shortage);
    let Some(((waited, share), shortage)) = waited.zip(share).zip(shortage) else {
        return Judgement { measures, decide: RECORD_MACHINE, ..Judgement::default() };
    };
    let is_it = is_it(&shortage);
    let mut judgement = Judgement {
        measures,
        worth: Some(Worth { ns: (waited.waited_ns as f64 * share) as i64, exposed: true }),
        confidence: Some(if waited.inferred { Confidence::Inferred } else { Confidence::Exact }),
        ..Judgement::default()
    };
    judgement.measures.push(case.at_least("cause", Some(is_it as u8 as f64)));
    if is_it {
        judgement.says = shortage.sentence().trim_end_matches('.').to_string();
    }
    judgement
}
