//! The GPUs of trainers: busy, idle and why, and the waits of the host that their work hides.

use std::fmt::Write;

use super::findings::Unit;
use crate::summary::devices::{DeviceUse, OneDevice};
use crate::summary::figures::units::{grouped, many, share, time};
use crate::summary::report::layout::more;
use crate::summary::training::RankGroup;
use crate::text_table::Grid;

/// A GPU that is busy for this share of a training is its limit.
const BUSY: f64 = 0.9;

/// Shares below this are not mentioned.
const WORTH: f64 = 0.01;

/// The largest number of GPUs that a sentence lists.
const LISTED: usize = 4;

/// The GPUs of all trainers of a verdict, as sums over trainers.
#[derive(Clone)]
pub(super) struct Gpus {
    pub(super) sum: DeviceUse,
    trained: i64,
    trainers: i64,
    /// The means over the GPUs of a trainer, summed over trainers.
    mean_busy_ns: i64,
    mean_idle_ns: i64,
}

/// Returns the use of the GPUs of all trainers; `None` if one of them was not timed during most of its waits.
pub(super) fn gpus(groups: &[&RankGroup]) -> Option<Gpus> {
    let each = groups.iter().map(|group| group.device.clone().filter(DeviceUse::is_covered));
    let each = each.collect::<Option<Vec<_>>>()?;
    let mean = |of: fn(&OneDevice) -> i64| {
        let mean = |used: &DeviceUse| used.each.iter().map(of).sum::<i64>() / used.each.len().max(1) as i64;
        each.iter().map(mean).sum()
    };
    let (mean_busy_ns, mean_idle_ns) = (mean(|device| device.busy_ns), mean(|device| device.idle_ns));
    let trained = groups.iter().map(|group| group.trained_ns).sum();
    let sum = each.into_iter().reduce(|sum, next| sum + next)?;
    Some(Gpus { sum, trained, trainers: groups.len() as i64, mean_busy_ns, mean_idle_ns })
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
        self.sum.by_kernels && self.part(self.mean_busy_ns) >= BUSY
    }

    /// Returns `true` if a trainer uses several GPUs.
    fn are_several(&self) -> bool {
        self.sum.each.len() as i64 > self.trainers
    }

    /// Returns the share of the training in which a GPU was idle on average, although another one of the trainer may have
    /// been busy.
    pub(super) fn mean_idle_share(&self) -> f64 {
        self.part(self.mean_idle_ns)
    }

    /// Returns how long each of several GPUs was busy, as the start of a sentence; `None` if each trainer has one.
    pub(super) fn turns(&self) -> Option<String> {
        let (most, devices) = (self.most(), &self.sum.each);
        if !self.are_several() {
            return None;
        }
        let any = format!("at least one of them for {most}{}", self.shown(self.sum.busy_ns));
        if self.trainers > 1 || devices.len() > LISTED {
            let count = devices.len() as i64 / self.trainers;
            let mean = self.shown(self.mean_busy_ns);
            let of_each = if self.trainers > 1 { " of each rank" } else { "" };
            return Some(format!("The {count} GPUs{of_each} were busy for {most}{mean} on average, and {any}"));
        }
        let listed = devices.iter().enumerate().map(|(at, device)| {
            let was = if at == 0 { " was busy" } else { "" };
            format!("{}{was} for {most}{}", device.name(), self.shown(device.busy_ns))
        });
        Some(format!("{}, and {any}", listed.collect::<Vec<_>>().join(", ")))
    }

    /// Returns how long the GPUs were busy, as the start of a sentence.
    pub(super) fn busy(&self) -> String {
        let were = if self.trainers > 1 { "s were" } else { " was" };
        let one = || format!("The GPU{were} busy for {}{}", self.most(), self.shown(self.sum.busy_ns));
        self.turns().unwrap_or_else(one)
    }

    /// Marks a time that is an upper bound.
    fn most(&self) -> &'static str {
        if self.sum.by_kernels { "" } else { "at most " }
    }

    /// Returns the GPUs as the subject of a sentence.
    pub(super) fn noun(&self) -> &'static str {
        if self.are_several() { "a GPU" } else { "the GPU" }
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
        let hidden = self.mean(self.sum.hidden_ns);
        format!("{} was busy during another {hidden} of waits, which cost nothing", self.noun())
    }

    /// Returns the sentences of the verdict.
    pub(super) fn sentences(&self) -> Vec<String> {
        let sum = &self.sum;
        let collective = match sum.collective_ns {
            0 => String::new(),
            ns => format!(", and in kernels of communication for another {}", self.shown(ns)),
        };
        let is_one = !self.are_several();
        let mut busy = format!("{} of the training{collective}", self.busy());
        if self.hides() {
            let working = if is_one { "it was" } else { "a GPU was" };
            busy +=
                &format!("; {} of waits for data cost nothing, because {working} working", self.mean(sum.hidden_ns));
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
            let subject = if is_one { "It was idle" } else { "All of them were idle" };
            sentences.push(format!("{subject} for {least}{}{listed}.", self.shown(sum.idle_ns)));
        }
        sentences
    }
}

/// Prints one row per trainer whose GPU was timed.
pub(super) fn print(groups: &[RankGroup], top: usize, out: &mut String) {
    let timed: Vec<(&RankGroup, &DeviceUse)> =
        groups.iter().filter_map(|group| Some((group, group.device.as_ref()?))).collect();
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
        // The remaining columns apply to all GPUs together: they count while none of them works.
        for device in used.each.iter().filter(|_| used.each.len() > 1) {
            let mut cells = vec![
                format!("  {}", device.name()),
                String::new(),
                format!("{most}{}", part(device.busy_ns)),
                known(device.collective_ns),
                part(device.idle_ns),
            ];
            cells.resize(heads.len() - 2, String::new());
            cells.push(if used.by_kernels { grouped(device.kernels) } else { "not measured".into() });
            cells.push(String::new());
            grid.row(cells);
        }
    }
    grid.print(out);
    more(timed.len(), top, out);
    for (group, steps) in timed.iter().take(top).filter_map(|(group, used)| Some((group, used.steps?))) {
        let [median, p95, longest] = [steps.median_ns, steps.p95_ns, steps.longest_ns].map(|ns| time(ns as f64));
        let (name, steps) = (&group.trainer, many(steps.steps, "step", "steps"));
        let _ = writeln!(
            out,
            "  Idle time of the GPU per step of {name} ({}): median {median}, 95th percentile {p95}, longest {longest}, of \
             {steps}.",
            group.pid
        );
    }
}

impl OneDevice {
    fn name(&self) -> String {
        self.device.map_or("GPU without a number".into(), |device| format!("GPU {device}"))
    }
}
