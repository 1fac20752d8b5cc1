//! Detects readers that each run a thread pool.

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
    asks: "readers wait for a CPU; in addition, they have at least four threads per reader and two per CPU, or threads that \
        make no calls use 40 % of the readers' CPU time",
    silences: &[],
    silences_rules: POINTLESS,
    remedy: "use one thread per reader: OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1, or the equivalent setting of the readers' libraries",
    torch: "call torch.set_num_threads(1) in worker_init_fn, set OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1 or the equivalent of other \
        libraries in the workers (cv2.setNumThreads(0), TOKENIZERS_PARALLELISM=false)",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_shortage(case, |shortage| matches!(shortage, Shortage::Threads { .. } | Shortage::Pools { .. }))
}
