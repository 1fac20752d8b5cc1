//! Each reader has a pool of threads of its own.

use super::super::cpus::{POINTLESS, by_shortage};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;
use crate::summary::report::no_cpu::Shortage;

pub const RULE: Rule = Rule {
    id: "too-many-threads",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "readers wait for a CPU, and have four threads each and two for each CPU, or more",
    silences: &[],
    silences_rules: POINTLESS,
    remedy: "one thread a reader: OMP_NUM_THREADS=1, or what the library in the readers has for it",
    torch: "torch.set_num_threads(1) in worker_init_fn, OMP_NUM_THREADS=1 or what other libraries in the workers have for it (cv2.setNumThreads(0), TOKENIZERS_PARALLELISM=false)",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_shortage(case, |shortage| matches!(shortage, Shortage::Threads { .. }))
}
