//! The origin of a change of the whole run: a partition of both runs, so that the parts' changes add up to it.

use serde::Serialize;

use super::run::Run;
use crate::summary::figures::units::time;

/// A part of both runs.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Part {
    pub part: &'static str,
    pub before_ns: i64,
    pub after_ns: i64,
    pub change_ns: i64,
}

/// Both runs and their parts.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Wall {
    pub before_ns: i64,
    pub after_ns: i64,
    pub change_ns: i64,
    pub parts: Vec<Part>,
}

/// The parts of a run; nothing else stands in it.
type Parts = Vec<(&'static str, i64)>;

impl Wall {
    pub fn of(before: &Run, after: &Run) -> Wall {
        let both = |parts: fn(&Run) -> Option<Parts>| parts(before).zip(parts(after));
        let (a, b) = both(by_steps).or_else(|| both(by_training)).unwrap_or_else(|| {
            let knows_compute = before.time.compute_ns.and(after.time.compute_ns).is_some();
            (by_time(before, knows_compute), by_time(after, knows_compute))
        });
        let part = |((part, before_ns), (_, after_ns)): ((&'static str, i64), (&'static str, i64))| Part {
            part,
            before_ns,
            after_ns,
            change_ns: after_ns - before_ns,
        };
        let (before_ns, after_ns) = (before.time.total_ns, after.time.total_ns);
        let parts = a.into_iter().zip(b).map(part).collect();
        Wall { before_ns, after_ns, change_ns: after_ns - before_ns, parts }
    }

    pub fn answer(&self) -> String {
        let how = match self.change_ns {
            0 => return format!("Both runs took {}{}.", time(self.after_ns as f64), self.shifted()),
            change if change > 0 => "more",
            _ => "less",
        };
        let (after, change) = (time(self.after_ns as f64), time(self.change_ns.unsigned_abs() as f64));
        let percent = 100.0 * self.change_ns as f64 / self.before_ns.max(1) as f64;
        let most = self.parts.iter().max_by_key(|part| part.change_ns * self.change_ns.signum());
        let most = most.filter(|most| most.change_ns != 0).map_or(String::new(), |most| {
            let sign = if most.change_ns > 0 { '+' } else { '-' };
            let by = time(most.change_ns.unsigned_abs() as f64);
            // Other parts may have gone the other way.
            match most.change_ns.unsigned_abs() > self.change_ns.unsigned_abs() {
                true => format!("; {} {sign}{by}, and other parts changed in the opposite direction", most.part),
                false => format!("; most of it is {} ({sign}{by})", most.part),
            }
        });
        format!("The new run took {after}, {change} {how} than the baseline ({percent:+.1} %){most}.")
    }
}

/// Parts that changed by less than this part of the run are not worth a word where the whole did not change.
const SHIFTED: f64 = 0.05;

impl Wall {
    /// What became more and what less in runs of the same length.
    fn shifted(&self) -> String {
        let most = |sign: i64| self.parts.iter().max_by_key(|part| part.change_ns * sign);
        let moved = |part: &Part| format!("{} to {}", time(part.before_ns as f64), time(part.after_ns as f64));
        match most(1).zip(most(-1)).filter(|(more, _)| more.change_ns as f64 >= SHIFTED * self.after_ns as f64) {
            Some((more, less)) => {
                format!(", but {} changed from {}, and {} from {}", less.part, moved(less), more.part, moved(more))
            }
            None => String::new(),
        }
    }
}

/// Compute first, then I/O that nothing covers; without spans of compute, I/O and the rest.
fn by_time(run: &Run, knows_compute: bool) -> Parts {
    let time = &run.time;
    match (time.compute_ns, time.unoverlapped_io_ns) {
        (Some(compute), Some(exposed)) if knows_compute => {
            vec![("compute", compute), ("I/O while nothing computes", exposed), ("neither", time.other_ns)]
        }
        _ => vec![("I/O on files", time.io_ns), ("time without I/O on files", time.total_ns - time.io_ns)],
    }
}

/// By the training that was longest, where no span tells of steps: what it waited is no more than a part of the time without
/// I/O, and what one wants to know.
fn by_training(run: &Run) -> Option<Parts> {
    let longest = run.training.iter().max_by_key(|trainer| trainer.trained_ns)?;
    let waited = longest.waited_ns?;
    Some(vec![
        ("waiting for batches", waited),
        ("other training time", longest.trained_ns - waited),
        ("before and after the training", run.time.total_ns - longest.trained_ns),
    ])
}

/// By the steps of the trainer that was longest at them, where both runs have them.
fn by_steps(run: &Run) -> Option<Parts> {
    let sum = run.longest_steps()?;
    Some(vec![
        ("compute", sum.compute_ns),
        ("communication", sum.communication_ns),
        ("checkpoints", sum.checkpoint_ns),
        ("waiting for batches", sum.wait_ns),
        ("other I/O of the trainer", sum.io_ns),
        ("other time in steps", sum.other_ns),
        ("before and after the steps", run.time.total_ns - sum.total_ns),
    ])
}
