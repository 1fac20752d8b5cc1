//! Common code of rules on GPUs.

use super::rule_context::{Case, Judgement, Worth};
use crate::summary::devices::DeviceUse;
use crate::summary::figures::units::{share, time};

/// Returns the use of the GPU of one trainer, and the time of its training: of the trainer whose GPU had least work. `None` if
/// no GPU was timed.
pub fn of_gpu<'a>(case: &Case<'a>) -> Option<(&'a DeviceUse, i64)> {
    let timed = case.summary.training.iter().filter_map(|group| Some((group.device.as_ref()?, group.trained_ns)));
    let timed = timed.filter(|(used, _)| used.is_covered());
    timed.max_by_key(|(used, _)| used.idle_rest_ns)
}

/// Returns the judgement of a rule if nothing timed a GPU.
pub fn untimed(case: &Case, key: &str) -> Judgement {
    Judgement { measures: vec![case.at_least(key, None)], decide: TIME_THE_GPU, ..Judgement::default() }
}

const TIME_THE_GPU: &str = "if the job uses a GPU, time it: python3 -m dliotrace run --torch SCRIPT, dlio trace --gpu, or a profile of \
    torch.profiler next to the trace";

/// Judges the time in which a GPU had no work, of trainers that `applies` to, given their numbers of batches.
pub fn without_work(case: &Case, applies: impl Fn(&DeviceUse, u64) -> bool) -> Judgement {
    let Some((used, trained)) = of_gpu(case) else { return untimed(case, "idle") };
    let batches = case.summary.training.iter().map(|group| group.batches).max().unwrap_or(0);
    let applies = applies(used, batches);
    let part = applies.then(|| used.idle_rest_ns as f64 / trained.max(1) as f64);
    let synced = match used.syncs {
        0 => String::new(),
        syncs => format!("; the training thread waited for it {syncs} times, for {}", time(used.sync_ns as f64)),
    };
    Judgement {
        measures: vec![case.at_least("idle", part.or(Some(0.0)))],
        says: format!(
            "the GPU had no work for {} ({} of {}) in which training did not wait for data{synced}",
            time(used.idle_rest_ns as f64),
            share(used.idle_rest_ns, trained),
            case.loop_name()
        ),
        worth: applies.then_some(Worth { ns: used.idle_rest_ns, exposed: true }),
        ..Judgement::default()
    }
}
