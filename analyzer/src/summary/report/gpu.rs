//! The GPUs of trainers: busy, idle and why, and the waits of the host that their work hides.

use super::findings::Unit;
use crate::summary::devices::DeviceUse;
use crate::summary::figures::units::{grouped, share, time};
use crate::summary::report::layout::more;
use crate::summary::training::RankGroup;
use crate::text_table::Grid;

/// A GPU that is busy for this share of a training is its limit.
const BUSY: f64 = 0.9;

/// Shares below this are not mentioned.
const WORTH: f64 = 0.01;

/// The GPUs of all trainers of a verdict, as sums over trainers.
#[derive(Clone, Copy)]
pub(super) struct Gpus {
    pub(super) sum: DeviceUse,
    trained: i64,
    trainers: i64,
}

/// Returns the use of the GPUs of all trainers; `None` if one of them was not timed during most of its waits.
pub(super) fn gpus(groups: &[&RankGroup]) -> Option<Gpus> {
    let mut each = groups.iter().map(|group| group.device.filter(DeviceUse::is_covered));
    let first = each.next()??;
    let sum = each.try_fold(first, |sum, next| Some(sum + next?))?;
    let trained = groups.iter().map(|group| group.trained_ns).sum();
    Some(Gpus { sum, trained, trainers: groups.len() as i64 })
}

impl Gpus {
    /// Returns a time as a share of the training.
    pub(super) fn part(&self, ns: i64) -> f64 {
        ns as f64 / self.trained.max(1) as f64
    }

    /// Returns a sum over trainers as text: their mean.
    pub(super) fn mean(&self, ns: i64) -> String {
        time(ns as f64 / self.trainers as f64)
    }

    /// Returns a time with its share of the training.
    pub(super) fn shown(&self, ns: i64) -> String {
        format!("{} ({})", self.mean(ns), Unit::Share.text(self.part(ns)))
    }

    /// Returns `true` if the GPUs had work during almost all of the training.
    pub(super) fn are_busy(&self) -> bool {
        self.sum.by_kernels && self.part(self.sum.busy_ns) >= BUSY
    }

    /// Returns the share of the training in which the GPUs had no work.
    pub(super) fn idle_share(&self) -> f64 {
        self.part(self.sum.idle_ns)
    }

    /// Returns `true` if work of the GPU hid a part of the waits.
    pub(super) fn hides(&self) -> bool {
        self.part(self.sum.hidden_ns) >= WORTH
    }

    /// Returns the time of waits that the GPU's work hid, as a part of a sentence.
    pub(super) fn hidden(&self) -> String {
        format!("the GPU was busy during another {} of waits, which cost nothing", self.mean(self.sum.hidden_ns))
    }

    /// Returns the sentences of the verdict.
    pub(super) fn sentences(&self) -> Vec<String> {
        let sum = &self.sum;
        let most = if sum.by_kernels { "" } else { "at most " };
        let collective = match sum.collective_ns {
            0 => String::new(),
            ns => format!(", and in kernels of communication for another {}", self.shown(ns)),
        };
        let mut busy = format!(
            "The GPU{} busy for {most}{} of the training{collective}",
            if self.trainers > 1 { "s were" } else { " was" },
            self.shown(sum.busy_ns)
        );
        if self.hides() {
            busy += &format!("; {} of waits for data cost nothing, because it was working", self.mean(sum.hidden_ns));
        }
        let mut sentences = vec![busy + "."];
        let causes = [
            (sum.idle_data_ns, "while the training waited for data"),
            (sum.idle_save_ns, "while it saved a checkpoint"),
            (sum.idle_rest_ns, "while the host had not launched work"),
        ];
        if self.part(sum.idle_ns) >= WORTH {
            let causes = causes.into_iter().filter(|(ns, _)| self.part(*ns) >= WORTH);
            let listed: Vec<String> = causes.map(|(ns, what)| format!("{} {what}", self.mean(ns))).collect();
            let listed = if listed.is_empty() { String::new() } else { format!(": {}", listed.join(", ")) };
            let least = if sum.by_kernels { "" } else { "at least " };
            sentences.push(format!("It was idle for {least}{}{listed}.", self.shown(sum.idle_ns)));
        }
        sentences
    }
}

/// Prints one row per trainer whose GPU was timed.
pub(super) fn print(groups: &[RankGroup], top: usize, out: &mut String) {
    let timed: Vec<(&RankGroup, DeviceUse)> = groups.iter().filter_map(|group| Some((group, group.device?))).collect();
    if timed.is_empty() {
        return;
    }
    out.push('\n');
    let heads = [
        "<GPU of",
        "rank",
        "busy",
        "communication",
        "idle",
        "waiting for data",
        "saving",
        "no work launched",
        "hidden waits",
        "pageable copies",
        "kernels",
        "syncs",
    ];
    let mut grid = Grid::new(&heads);
    for (group, used) in timed.iter().take(top) {
        let part = |ns: i64| format!("{} ({})", time(ns as f64), share(ns, group.trained_ns));
        let most = if used.by_kernels { "" } else { "<= " };
        let known = |ns: i64| if used.by_kernels { time(ns as f64) } else { "not measured".into() };
        grid.row(vec![
            format!("{} ({})", group.trainer, group.pid),
            group.rank.map_or("-".into(), |rank| rank.to_string()),
            format!("{most}{}", part(used.busy_ns)),
            known(used.collective_ns),
            part(used.idle_ns),
            time(used.idle_data_ns as f64),
            time(used.idle_save_ns as f64),
            time(used.idle_rest_ns as f64),
            time(used.hidden_ns as f64),
            known(used.pageable_ns),
            if used.by_kernels { grouped(used.kernels) } else { "not measured".into() },
            format!("{} ({})", grouped(used.syncs), time(used.sync_ns as f64)),
        ]);
    }
    grid.print(out);
    more(timed.len(), top, out);
}
