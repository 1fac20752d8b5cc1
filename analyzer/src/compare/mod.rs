//! Compares runs: what changed from some runs to others, and whether the change is more than noise.
//!
//! [`run`] reads a report, [`metrics`] names its metrics, [`statistics`] tests them, [`wall`] shows where a change of
//! the run time comes from, [`align`] matches the rows of both sides, [`mod@predictions`] compares predictions with the
//! results, and [`gate`] checks limits for CI. [`tables`] describes a [`Comparison`] in words, and [`text`] prints it
//! for terminals and pull requests.
//!
//! Bytes and counts of file operations are exact: any change of them is real. The total number of calls is not exact,
//! because how often a program polls depends on timing. With one run per side, times are compared by their steps, which
//! show the noise within a run. Only several runs per side show how much runs differ from each other.

pub mod align;
pub mod gate;
pub mod metrics;
pub mod predictions;
pub mod run;
pub mod statistics;
pub mod tables;
pub mod text;
pub mod wall;

use serde::Serialize;

use crate::summary::figures::quantiles::median;
use crate::summary::figures::units::time;
use crate::summary::report::runs::label;
use align::{FindingChange, Row, Turn};
use gate::{Limit, LimitOutcome, Verdict};
use metrics::{METRICS, Named, Unit};
use predictions::{Predictions, predictions};
use run::Run;
use statistics::{Interval, Location, Weighted, block, bootstrap, discoveries, median_of_ratios, u_test};
use wall::{Wall, is_even};

pub const SCHEMA: &str = "dlio-comparison";
pub const VERSION: u32 = 1;

/// The number of runs per side that the U test needs to find any difference.
const RUNS_MIN: usize = 4;

/// The number of runs per side that the interval of the ratios needs to be meaningful.
const INTERVAL_RUNS_MIN: usize = 6;

/// The number of steps that a single run per side needs for a claim.
const STEPS_MIN: usize = 10;

/// Smaller changes do not count as changes, with one run per side and with several.
const FLOOR_ALONE: f64 = 0.05;
const FLOOR: f64 = 0.02;

/// With one run per side, the interval of a mean must be beyond this, because other activity of the host shifts means.
const FLOOR_OF_MEANS: f64 = 0.1;

/// The metrics that judge one run per side: the mean cost of steps, and their cost without disturbance.
const BY_STEPS: [&str; 2] = ["step.mean_s", "step.typical_s"];

/// The metric that decides the comparison.
const ASKED: &str = "wall_s";

/// The claim that the data support about a change.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Claim {
    Same,
    More,
    Fewer,
    /// The change is within the usual variation of runs or steps.
    Noise,
    /// The runs do not suffice to decide.
    Undecided,
    /// One side does not have the metric.
    Unknown,
}

/// A metric before and after; the median if a side has several runs.
#[derive(Serialize, Clone, Debug)]
pub struct MetricChange {
    pub metric: String,
    pub unit: Unit,
    pub exact: bool,
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// The relative change; the ends of its interval are relative, too.
    pub change: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// The result of the U test, with several runs per side.
    pub p: Option<f64>,
    pub claim: Claim,
}

/// The runs before and the runs after.
pub struct Sides {
    pub before: Vec<Run>,
    pub after: Vec<Run>,
}

/// A run of one side, as printed above the tables.
#[derive(Serialize, Clone, Debug)]
pub struct Head {
    pub trace: String,
    /// The name of this run if its trace contains several.
    pub run: Option<String>,
    pub start_ts: i64,
    pub wall_ns: i64,
    pub events: u64,
    pub lost: u64,
}

/// A difference other than a metric.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Circumstance {
    pub what: &'static str,
    pub before: String,
    pub after: String,
}

#[derive(Serialize, Clone, Debug)]
pub struct Comparison {
    pub schema: &'static str,
    pub version: u32,
    pub answer: Vec<String>,
    /// The verdicts of the representative runs; `null` in reports without one.
    pub verdict_before: Option<String>,
    pub verdict_after: Option<String>,
    pub before: Vec<Head>,
    pub after: Vec<Head>,
    /// Differences between the sides other than metrics.
    pub circumstances: Vec<Circumstance>,
    pub wall: Wall,
    /// Predictions of the runs before; `null` if there are none.
    pub predictions: Option<Predictions>,
    pub findings: Vec<FindingChange>,
    pub metrics: Vec<MetricChange>,
    pub functions: Vec<Row>,
    pub spans: Vec<Row>,
    pub folders: Vec<Row>,
    pub ranks: Vec<Row>,
    pub limits: Vec<LimitOutcome>,
}

impl Sides {
    /// Compares both sides. If a side has several runs, the tables show its run of median length.
    pub fn compare(&self, limits: &[Limit]) -> Comparison {
        let (before, after) = self.typical();
        let mut metrics: Vec<_> = (0..METRICS.len()).map(|known| self.change(&Named::Known(known))).collect();
        metrics.retain(|metric| metric.before.or(metric.after).is_some());
        self.judge(&mut metrics);
        let limits = limits.iter().map(|limit| limit.outcome(self, &metrics)).collect();
        let wall = Wall::of(before, after);
        let head = |run: &Run| Head {
            trace: run.typed.clone(),
            run: label(&run.runs),
            start_ts: run.time.start_ts,
            wall_ns: run.time.total_ns,
            events: run.allocation.events,
            lost: run.allocation.lost,
        };
        Comparison {
            schema: SCHEMA,
            version: VERSION,
            answer: self.answer(&metrics, &wall),
            verdict_before: before.verdict(),
            verdict_after: after.verdict(),
            before: self.before.iter().map(head).collect(),
            after: self.after.iter().map(head).collect(),
            circumstances: circumstances(before, after),
            wall,
            predictions: predictions(before, &self.after),
            findings: self.findings(),
            metrics,
            functions: align::functions(before, after),
            spans: align::spans(before, after),
            folders: align::folders(before, after),
            ranks: align::ranks(before, after),
            limits,
        }
    }

    /// Returns the representative run of each side.
    pub fn typical(&self) -> (&Run, &Run) {
        (typical(&self.before), typical(&self.after))
    }

    /// Compares one metric and makes a claim about it alone.
    pub fn change(&self, named: &Named) -> MetricChange {
        let of = |runs: &[Run]| -> Option<Vec<f64>> { runs.iter().map(|run| named.of(run)).collect() };
        let (before, after) = (of(&self.before), of(&self.after));
        let (a, b) = (before.clone().and_then(median), after.clone().and_then(median));
        let mut change = MetricChange {
            metric: named.name(),
            unit: named.unit(),
            exact: named.is_exact(self.before.iter().chain(&self.after)),
            before: a,
            after: b,
            change: a.zip(b).filter(|(a, _)| *a != 0.0).map(|(a, b)| b / a - 1.0),
            low: None,
            high: None,
            p: None,
            claim: Claim::Undecided,
        };
        let Some((before, after)) = before.zip(after) else {
            return MetricChange { claim: Claim::Unknown, ..change };
        };
        if change.exact && self.are_alone() {
            change.claim = claimed(a == b, before[0] < after[0]);
            return change;
        }
        let interval = match self.are_alone() {
            true => self.by_steps(named),
            false => median_of_ratios(&before, &after).filter(|_| self.runs() >= INTERVAL_RUNS_MIN),
        };
        change.low = interval.map(|interval| interval.low);
        change.high = interval.map(|interval| interval.high);
        if self.are_alone() {
            let location = named.per_step().map_or(Location::Mean, |(_, location)| location);
            change.claim = interval.map_or(Claim::Undecided, |interval| alone(interval, location));
        } else if change.exact && is_constant(&before) && is_constant(&after) {
            change.claim = claimed(a == b, a < b);
        } else if self.runs() >= RUNS_MIN {
            change.p = Some(u_test(&before, &after));
            change.claim = if before == after { Claim::Same } else { Claim::Noise };
        }
        change
    }

    /// Judges several metrics of several runs. Up to one in twenty claimed changes may be due to chance. The run time
    /// is not part of this correction, because it is the question asked before any data are seen.
    fn judge(&self, metrics: &mut [MetricChange]) {
        let (asked, others): (Vec<_>, Vec<_>) =
            metrics.iter_mut().filter(|metric| metric.p.is_some()).partition(|metric| metric.metric == ASKED);
        self.judge_together(asked);
        self.judge_together(others);
    }

    /// Compares one metric that was requested separately.
    fn judged_alone(&self, named: &Named) -> MetricChange {
        let mut change = self.change(named);
        if change.p.is_some() {
            self.judge_together(vec![&mut change]);
        }
        change
    }

    fn judge_together(&self, metrics: Vec<&mut MetricChange>) {
        let probabilities: Vec<f64> = metrics.iter().filter_map(|metric| metric.p).collect();
        for (metric, found) in metrics.into_iter().zip(discoveries(&probabilities)) {
            let change = metric.change.unwrap_or(if metric.before == metric.after { 0.0 } else { f64::INFINITY });
            if found && change.abs() >= FLOOR {
                metric.claim = claimed(false, change > 0.0);
            }
        }
    }

    /// Compares the findings of the representative runs. The cost of a finding is a time: with several runs per side
    /// the U test decides whether it changed; with one run per side nothing can.
    fn findings(&self) -> Vec<FindingChange> {
        let (before, after) = self.typical();
        let mut findings = align::findings(before, after);
        if self.runs() < RUNS_MIN {
            return findings;
        }
        let costs = |runs: &[Run], id: &str| runs.iter().map(|run| run.cost(id)).collect::<Option<Vec<f64>>>();
        let sides = |it: &FindingChange| costs(&self.before, &it.id).zip(costs(&self.after, &it.id));
        let known: Vec<_> = findings.iter_mut().filter_map(|it| sides(it).map(|sides| (it, sides))).collect();
        let probabilities: Vec<f64> = known.iter().map(|(_, (before, after))| u_test(before, after)).collect();
        for ((finding, (before, after)), found) in known.into_iter().zip(discoveries(&probabilities)) {
            let is_more = median(before) < median(after);
            finding.claim = match found {
                true => claimed(finding.change == Turn::Same, is_more),
                false => Claim::Noise,
            };
        }
        findings
    }

    fn are_alone(&self) -> bool {
        self.before.len() == 1 && self.after.len() == 1
    }

    /// Returns the number of runs on the smaller side.
    fn runs(&self) -> usize {
        self.before.len().min(self.after.len())
    }

    /// Compares a metric by its steps, if it has any.
    fn by_steps(&self, named: &Named) -> Option<Interval> {
        let (part, location) = named.per_step()?;
        let (before, after) = (self.before[0].steps(part), self.after[0].steps(part));
        let enough = |values: &[Weighted]| values.iter().map(|value| value.weight).sum::<f64>() >= STEPS_MIN as f64;
        if !enough(&before) || !enough(&after) {
            return None;
        }
        let readers = self.before[0].readers().max(self.after[0].readers());
        bootstrap(&before, &after, block(before.len().min(after.len()), readers), location)
    }

    fn answer(&self, metrics: &[MetricChange], wall: &Wall) -> Vec<String> {
        let mut said = vec![wall.answer()];
        match (self.are_alone(), by_steps(metrics), find(metrics, ASKED)) {
            (true, Some([mean, typical]), _) => said.push(of_steps(mean, typical)),
            (true, None, _) => said.push(
                "One run per side, without spans of steps, does not show whether the difference is more than noise: compare four \
                 or more runs per side."
                    .into(),
            ),
            (false, _, Some(run)) => {
                let (before, after) = self.typical();
                said = vec![
                    of_medians(run),
                    self.of_runs(run),
                    format!(
                        "Tables of times compare {} with {}: the run of median length on each side.",
                        before.typed, after.typed
                    ),
                ];
            }
            (false, _, None) => {}
        }
        said
    }

    fn of_runs(&self, run: &MetricChange) -> String {
        let runs = format!("{} runs before, {} after", self.before.len(), self.after.len());
        let Some(p) = run.p else {
            return format!("{runs}: too few for a test, which needs four per side.");
        };
        let claim = match run.claim {
            Claim::More => "the new runs are slower",
            Claim::Fewer => "the new runs are faster",
            _ => "no difference beyond noise",
        };
        let digits = if p < 0.01 { 4 } else { 2 };
        format!("{runs}: {claim} (U test, p = {p:.digits$}){}.", interval(run))
    }
}

/// Describes the run times of both sides.
fn of_medians(run: &MetricChange) -> String {
    let (before, after) = (run.before.unwrap_or(0.0), run.after.unwrap_or(0.0));
    let seconds = |seconds: f64| time(seconds * 1e9);
    let by = match run.change.filter(|_| before != after && !is_even(before, after)) {
        None => "as long as the baseline".into(),
        Some(change) => {
            let how = if after > before { "more" } else { "less" };
            format!("{} {how} than the baseline ({:+.1} %)", seconds((after - before).abs()), 100.0 * change)
        }
    };
    format!("The new runs took {} (median), {by}.", seconds(after))
}

fn find<'a>(metrics: &'a [MetricChange], name: &str) -> Option<&'a MetricChange> {
    metrics.iter().find(|metric| metric.metric == name)
}

/// Returns `true` if all runs have the same value.
fn is_constant(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// Returns the metrics that judge one run per side, if it has enough steps.
fn by_steps(metrics: &[MetricChange]) -> Option<[&MetricChange; 2]> {
    let [mean, typical] =
        BY_STEPS.map(|name| find(metrics, name).filter(|step| step.low.is_some() && step.p.is_none()));
    Some([mean?, typical?])
}

fn claimed(same: bool, more: bool) -> Claim {
    match (same, more) {
        (true, _) => Claim::Same,
        (_, true) => Claim::More,
        (_, false) => Claim::Fewer,
    }
}

/// Makes a claim from one run per side, whose interval covers only the noise within the runs. The faster half of the
/// steps changed if the change is beyond the floor and its whole interval beyond the lower floor. A mean changed only
/// if its whole interval is beyond the higher floor.
fn alone(interval: Interval, location: Location) -> Claim {
    let (floor, least) = match location {
        Location::Mean => (FLOOR_OF_MEANS, FLOOR_OF_MEANS),
        Location::Faster => (FLOOR_ALONE, FLOOR),
    };
    match interval {
        Interval { estimate, low, .. } if estimate >= floor && low > least => Claim::More,
        Interval { estimate, high, .. } if estimate <= -floor && high < -least => Claim::Fewer,
        _ => Claim::Noise,
    }
}

/// Combines both claims of one run per side: a few long steps may change only one of the metrics.
fn of_both(mean: Claim, typical: Claim) -> Claim {
    match (mean, typical) {
        (Claim::More, Claim::Fewer) | (Claim::Fewer, Claim::More) => Claim::Undecided,
        (Claim::More | Claim::Fewer, _) => mean,
        (_, Claim::More | Claim::Fewer) => typical,
        _ => mean,
    }
}

fn of_steps(mean: &MetricChange, typical: &MetricChange) -> String {
    let shown = |value: Option<f64>| value.map_or("unknown".into(), |value| Unit::Seconds.shown(value));
    let claim = match of_both(mean.claim, typical.claim) {
        Claim::More => "steps are slower",
        Claim::Fewer => "steps are faster",
        Claim::Undecided => "which disagree",
        _ => "no change large enough for one run per side, which needs more than 5 %",
    };
    let (before, after) = (shown(mean.before), shown(mean.after));
    let percent = |change: &MetricChange| format!("{:+.1} %{}", change.change.unwrap_or(0.0) * 100.0, interval(change));
    format!(
        "A step took {after} on average, {before} in the baseline: {}; the faster half of them: {}; {claim}. This \
         compares with the noise within the runs. The variation between whole runs of the same program, which is \
         larger on a shared host, needs four runs per side.",
        percent(mean),
        percent(typical)
    )
}

fn interval(change: &MetricChange) -> String {
    let both = change.low.zip(change.high);
    both.map_or(String::new(), |(low, high)| format!(" (95 %: {:+.1} to {:+.1} %)", low * 100.0, high * 100.0))
}

/// Returns the run of median length, or the shorter one of two.
fn typical(runs: &[Run]) -> &Run {
    let mut order: Vec<&Run> = runs.iter().collect();
    order.sort_by_key(|run| run.time.total_ns);
    order[(order.len() - 1) / 2]
}

/// Lists other differences, because only similar runs should be compared.
fn circumstances(before: &Run, after: &Run) -> Vec<Circumstance> {
    let listed = |mut names: Vec<String>| {
        names.sort();
        names.dedup();
        names.join(", ")
    };
    let programs = |run: &Run| listed(run.processes.iter().map(|process| process.program.clone()).collect());
    let hosts = |run: &Run| listed(run.hosts.iter().map(|host| host.host.clone()).collect());
    let cores = |run: &Run| listed(run.hosts.iter().filter_map(|host| host.cores).map(|n| n.to_string()).collect());
    let number = |number: usize| if number == 0 { "none".into() } else { number.to_string() };
    let killed = |run: &Run| number(run.processes.iter().filter(|process| process.ended == "killed").count());
    let rows = [
        ("programs", programs(before), programs(after)),
        ("hosts", hosts(before), hosts(after)),
        ("cores", cores(before), cores(after)),
        ("ranks", number(before.ranks.len()), number(after.ranks.len())),
        ("trainers", number(before.training.len()), number(after.training.len())),
        ("readers", number(before.readers()), number(after.readers())),
        ("killed processes", killed(before), killed(after)),
        ("lost events", number(before.allocation.lost as usize), number(after.allocation.lost as usize)),
        ("damaged files", number(before.damaged()), number(after.damaged())),
        ("version of the report", before.version.to_string(), after.version.to_string()),
    ];
    let differing = rows.into_iter().filter(|(_, before, after)| before != after);
    differing.map(|(what, before, after)| Circumstance { what, before, after }).collect()
}

impl Comparison {
    /// Returns the claim of the comparison: by steps with one run per side if they suffice, otherwise by whole runs.
    pub fn claim(&self) -> Claim {
        let by_runs = || find(&self.metrics, ASKED).map_or(Claim::Unknown, |run| run.claim);
        by_steps(&self.metrics).map_or_else(by_runs, |[mean, typical]| of_both(mean.claim, typical.claim))
    }

    /// Returns the verdict over all limits: an exceeded limit outweighs undecided ones.
    pub fn verdict(&self) -> Verdict {
        let any = |verdict: Verdict| self.limits.iter().any(|limit| limit.verdict == verdict);
        match (any(Verdict::Exceeded), any(Verdict::Undecided)) {
            (true, _) => Verdict::Exceeded,
            (_, true) => Verdict::Undecided,
            _ => Verdict::Kept,
        }
    }
}
