//! Explains a change of the run time: partitions both runs into parts whose changes add up to it.

use serde::Serialize;

use super::run::Run;
use crate::summary::figures::units::time;
use crate::summary::report::verdict::capital;

/// A part of both runs.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Part {
    pub part: &'static str,
    pub before_ns: i64,
    pub after_ns: i64,
    pub change_ns: i64,
}

impl Part {
    /// Returns its name at the start of a sentence.
    fn subject(&self) -> String {
        match self.part {
            "other training time" => "Training time that was not spent waiting for batches".into(),
            part => capital(part),
        }
    }
}

/// Both runs and their parts.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Wall {
    pub before_ns: i64,
    pub after_ns: i64,
    pub change_ns: i64,
    pub parts: Vec<Part>,
}

/// The parts of a run, which add up to its run time.
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
        if is_even(self.before_ns as f64, self.after_ns as f64) {
            return format!("Both runs took {}{}.", time(self.after_ns as f64), self.shifted());
        }
        if let Some(answer) = self.training_differs() {
            return answer;
        }
        let how = if self.change_ns > 0 { "more" } else { "less" };
        let (after, change) = (time(self.after_ns as f64), time(self.change_ns.unsigned_abs() as f64));
        let percent = 100.0 * self.change_ns as f64 / self.before_ns.max(1) as f64;
        let most = self.parts.iter().max_by_key(|part| part.change_ns * self.change_ns.signum());
        let most = most.filter(|most| most.change_ns != 0).map_or(String::new(), |most| {
            let sign = if most.change_ns > 0 { '+' } else { '-' };
            let by = time(most.change_ns.unsigned_abs() as f64);
            // Other parts may have changed in the opposite direction.
            match most.change_ns.unsigned_abs() > self.change_ns.unsigned_abs() {
                true => format!(
                    ". {} changed by {sign}{by}; the remaining parts changed in the opposite direction",
                    most.subject()
                ),
                false => format!("; most of the difference is {} ({sign}{by})", most.part),
            }
        });
        format!("The new run took {after}, {change} {how} than the baseline ({percent:+.1} %){most}.")
    }
}

impl Wall {
    /// Describes the training first if it became longer and the run shorter, or vice versa.
    fn training_differs(&self) -> Option<String> {
        let rest = self.parts.iter().find(|part| part.part.starts_with("before and after"))?;
        let (before, after) = (self.before_ns - rest.before_ns, self.after_ns - rest.after_ns);
        let change = after - before;
        let is_opposite = change.signum() * self.change_ns.signum() < 0 && !is_even(before as f64, after as f64);
        let how = |change: i64| if change > 0 { "more" } else { "less" };
        let by = |ns: i64| time(ns.unsigned_abs() as f64);
        let percent = |change: i64, of: i64| 100.0 * change as f64 / of.max(1) as f64;
        is_opposite.then(|| {
            format!(
                "Training took {}, {} {} than in the baseline ({:+.1} %). The whole run took {}, {} {} ({:+.1} %): the time {} \
                 changed by {}{}.",
                by(after),
                by(change),
                how(change),
                percent(change, before),
                by(self.after_ns),
                by(self.change_ns),
                how(self.change_ns),
                percent(self.change_ns, self.before_ns),
                rest.part,
                if rest.change_ns > 0 { '+' } else { '-' },
                by(rest.change_ns)
            )
        })
    }
}

/// Returns `true` if the difference rounds to 0.0 %.
pub fn is_even(before: f64, after: f64) -> bool {
    (after - before).abs() < 0.0005 * before
}

/// If the run time did not change, parts that changed by less than this share of the run are not mentioned.
const SHIFTED: f64 = 0.05;

impl Wall {
    /// Describes which parts grew and which shrank in runs of the same length.
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

/// Partitions by time: compute first, then I/O without compute; if compute is unknown, I/O and the rest.
fn by_time(run: &Run, knows_compute: bool) -> Parts {
    let time = &run.time;
    match (time.compute_ns, time.unoverlapped_io_ns) {
        (Some(compute), Some(exposed)) if knows_compute => {
            vec![("compute", compute), ("I/O while nothing computes", exposed), ("neither", time.other_ns.unwrap_or(0))]
        }
        _ => match time.io_ns {
            Some(io_ns) => vec![("I/O on files", io_ns), ("time without I/O on files", time.total_ns - io_ns)],
            None => vec![("the whole run", time.total_ns)],
        },
    }
}

/// Partitions by the longest training, if no spans mark steps. Its wait is only a part of the time without I/O, but it
/// is the number that users look for.
fn by_training(run: &Run) -> Option<Parts> {
    let longest = run.training.iter().max_by_key(|trainer| trainer.trained_ns)?;
    let waited = longest.waited_ns?;
    Some(vec![
        ("waiting for batches", waited),
        ("other training time", longest.trained_ns - waited),
        ("before and after the training", run.time.total_ns - longest.trained_ns),
    ])
}

/// Partitions by the steps of the trainer that spent longest in steps, if both runs have steps.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_differ_by_less_than_a_shown_digit_are_equal() {
        let wall =
            |after_ns| Wall { before_ns: 2_000_000_000, after_ns, change_ns: after_ns - 2_000_000_000, parts: vec![] };
        assert_eq!(wall(2_000_400_000).answer(), "Both runs took 2.00 s.");
        let longer = wall(2_100_000_000).answer();
        assert!(longer.contains("more than the baseline (+5.0 %)"), "{longer}");
    }
}
