//! Rules on the CPUs available to readers: each fires for one reason why no CPU was free.

use super::causes::of_wait;
use super::rule_context::{Case, Judgement};
use crate::summary::report::no_cpu::{Shortage, reader_cpus};
use crate::summary::waits::parts::Part;

/// Advice to record the resources available to readers.
pub const RECORD_MACHINE: &str = "the trace does not show which CPUs the readers may use; record it again with this version \
    of dlio, where /sys/fs/cgroup can be read";

/// Rules that a shortage of CPUs makes pointless: more readers, or a slow reader. Work that readers no longer do needs
/// no CPU.
pub const POINTLESS: &[&str] = &["loader-capacity", "loader-jitter", "slow-worker", "too-many-readers"];

/// Returns why readers had no CPU while training waited for them.
pub fn shortage(case: &Case) -> Option<Shortage> {
    let lacked_ns = case.waited()?.waited_ns as f64 * case.cause_share(&[Part::NoCpu])?;
    reader_cpus(case.summary)?.shortage_of(lacked_ns as i64)
}

/// Returns the judgement of a rule on one kind of shortage: readers wait for a CPU for this reason.
pub fn by_shortage(case: &Case, is_it: impl Fn(&Shortage) -> bool) -> Judgement {
    let (mut judgement, share) = of_wait(case, "no-cpu", &[Part::NoCpu]);
    let Some(shortage) = share.and_then(|_| shortage(case)) else {
        // Without facts on CPUs the cause is unknown; readers that found a CPU need none.
        judgement.measures.push(case.at_least("cause", None));
        return Judgement { measures: judgement.measures, decide: RECORD_MACHINE, ..Judgement::default() };
    };
    let is_it = is_it(&shortage);
    judgement.measures.push(case.at_least("cause", Some(is_it as u8 as f64)));
    if is_it {
        judgement.says = shortage.sentence().trim_end_matches('.').to_string();
    }
    judgement
}
