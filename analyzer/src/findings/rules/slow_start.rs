//! Detects a long delay before training starts.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, RECORD_TRAINING, Worth, part};
use crate::summary::figures::units::{share, time};
use crate::summary::report::findings::{Confidence, Severity, Unit};
use crate::summary::report::named_pipe::named_pipe;
use crate::summary::training::RankGroup;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "slow-start",
    group: Group::Run,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "training starts after 20 % of the run time, or after 20 minutes",
    silences: &[],
    silences_rules: &[],
    remedy: "cache the list of files, put the environment on a local disk or into one image, read the index lazily",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Span in which a benchmark generates its data on request: it does not count as the start of a training run.
const GENERATE: &str = "generate";

/// Span in which a benchmark empties the page cache before each epoch.
const DROP: &str = "cache.drop";

/// Returns the time of emptying the cache before the first epoch, the longest of all because earlier writes are flushed
/// then.
fn emptied_ns(case: &Case) -> i64 {
    let spans = case.summary.spans.iter().filter(|span| span.name == DROP);
    spans.map(|span| span.duration_ns.max as i64).max().unwrap_or(0)
}

/// Returns the time of generating data, which ranks do in parallel.
fn generated_ns(case: &Case) -> i64 {
    let spans = case.summary.spans.iter().filter(|span| span.name == GENERATE);
    spans.map(|span| span.time_ns as i64 / case.summary.training.len().max(1) as i64).sum()
}

/// Change to make if little of the start was I/O. Imports are recorded only on request.
const OTHER_REMEDY: &str = "import and set up less, later, or once for several runs: most of this time was not I/O (dlio trace --all \
    shows the files that imports read)";

/// Change to make if the training thread waited for a network.
const NETWORK_REMEDY: &str = "download files before the run, or in parallel, and keep them on a local disk; if ranks wait for each other to \
    start, find out which one starts late";

/// Starts with less than this share of I/O, or of waits for a network, have another cause.
const IO: f64 = 0.2;

/// Returns the trainer with the longest start.
fn last_to_start<'a>(case: &Case<'a>) -> Option<&'a RankGroup> {
    let run_start = case.summary.time.start_ts;
    case.summary.training.iter().max_by_key(|group| group.startup_within(run_start))
}

/// Returns the time in which the training thread that started last waited for a network.
fn network_ns(case: &Case) -> i64 {
    last_to_start(case).and_then(|group| group.startup_causes).map_or(0, |causes| causes.get(Part::Network))
}

/// Returns the share of I/O in the time before training, of the trainer with the longest start. `None` if individual
/// calls were not recorded.
fn in_io(case: &Case) -> Option<f64> {
    let (line, run_start) = (&case.summary.timeline, case.summary.time.start_ts);
    let last = last_to_start(case)?;
    let startup =
        last.startup_within(run_start).filter(|_| case.summary.knows_calls() && case.summary.tally.is_none())?;
    let (from, to) = (last.start_ts - startup, last.start_ts);
    let columns = line.busy_ns.iter().zip(0i64..).map(|(busy, at)| {
        let start = line.start_ts + line.column_ns * at;
        let within = (to.min(start + line.column_ns) - from.max(start)).max(0);
        *busy as f64 * within as f64 / line.column_ns.max(1) as f64
    });
    part(columns.sum(), startup as f64)
}

/// Advice if a time window was selected.
const WHOLE_RUN: &str =
    "the start of the run is outside the selection: analyze without a filter of time, epoch or step";

fn judge(case: &Case) -> Judgement {
    let prepared = [(generated_ns(case), "generating data"), (emptied_ns(case), "emptying the cache")];
    let before = prepared.iter().map(|(ns, _)| ns).sum::<i64>();
    // Without its start, the time before it is unknown.
    let is_known = !last_to_start(case).is_some_and(|group| group.loading.may_start_earlier);
    let startup = case.before_training().filter(|_| is_known).map(|ns| (ns - before).max(0));
    let wall = case.wall_ns();
    let step = case.summary.steps.iter().map(|row| row.median_ns as i64).max().unwrap_or(0);
    let ns = startup.unwrap_or(0);
    // Writing generated data is not I/O of the start.
    // Waiting for the other end of a named pipe is not I/O, either.
    let waits_for_pipe = named_pipe(case.summary).is_some();
    let io = in_io(case).filter(|_| before == 0 && !waits_for_pipe);
    let network = part(network_ns(case) as f64, ns as f64).filter(|part| *part >= IO);
    let is_other = network.is_none() && (io.is_some_and(|io| io < IO) || waits_for_pipe);
    let beside = prepared.iter().filter(|(ns, _)| *ns > 0).map(|(ns, what)| format!("{} of {what}", time(*ns as f64)));
    let besides = match beside.collect::<Vec<_>>().join(" and ") {
        none if none.is_empty() => none,
        some => format!(", in addition to {some}"),
    };
    Judgement {
        measures: vec![
            case.at_least("share", startup.and_then(|ns| part(ns as f64, wall as f64))),
            case.at_least("time", startup.map(|ns| ns as f64)),
        ],
        any: true,
        says: format!(
            "{} ({} of the run) passed before {} started{besides}{}",
            time(ns as f64),
            share(ns, wall),
            case.loop_name(),
            match (network, io) {
                (Some(part), _) => format!(", {} of that waiting for a network", Unit::Share.text(part)),
                (_, Some(io)) => format!(", with file I/O active for {} of that time", Unit::Share.text(io)),
                _ => String::new(),
            }
        ),
        remedy: network.map(|_| NETWORK_REMEDY).or(is_other.then_some(OTHER_REMEDY)),
        // The trace has no evidence that the start can be shorter.
        severity: is_other.then_some(Severity::Note),
        worth: Some(Worth { ns: (ns - step).max(0), exposed: true }),
        decide: match case.summary.training.is_empty() || !is_known {
            true => RECORD_TRAINING,
            false => WHOLE_RUN,
        },
        ..Judgement::default()
    }
}
