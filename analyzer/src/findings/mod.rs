//! Findings: rules that examine the report and recommend changes, with the savings and the confidence of each.
//!
//! A rule is one file in [`rules`] and one line in its list: a pure function from the report to its measures.
//! [`limits`] contains all thresholds, [`rule_context`] the quantities that several rules need. This module judges the
//! rules: a pattern that costs too little is not a finding, a finding that another one makes pointless is silenced, and
//! missing measurements are reported as unknown instead of zero.

pub mod causes;
pub mod concurrency;
pub mod cpus;
pub mod devices;
pub mod gpus;
pub mod limits;
pub mod loader;
pub mod patterns;
pub mod requests;
pub mod rule_context;
pub mod rules;
pub mod small;
pub mod storage_pace;

use limits::{ALL, Limits};
use rule_context::{Case, EVIDENCE_MAX, Judgement, Worth, in_words};
use rules::RULES;

use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::report::Summary;
use crate::summary::report::confidence::confidence;
use crate::summary::report::findings::{Confidence, Finding, Measure, ReplayedChange, Severity, State};
pub use crate::summary::report::headline::COMPARE;
use crate::summary::report::next_step::NAMES_NO_CAUSE;
use crate::summary::training::told;
use crate::summary::waits::parts::Part;

/// Subject of a rule, for rules that silence a whole group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Whether the training waits at all.
    Verdict,
    Loader,
    /// Access patterns of reads and writes.
    Access,
    Metadata,
    Checkpoint,
    /// Comparison of ranks.
    Ranks,
    /// The recording itself, and errors.
    Run,
}

/// Condition under which a rule whose measures hold becomes a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// The cost is at least a minimum share of the run time.
    Worth,
    /// Always: the result matters regardless of its cost.
    Always,
    /// The result is good news.
    Good,
}

/// A rule with its texts and its judge function.
pub struct Rule {
    pub id: &'static str,
    pub group: Group,
    pub cost: Cost,
    /// Highest confidence of the rule.
    pub confidence: Confidence,
    /// One-line description of the condition under which it fires.
    pub asks: &'static str,
    /// Rules that it silences, by group and by name.
    pub silences: &'static [Group],
    pub silences_rules: &'static [&'static str],
    /// Recommended change, for training jobs.
    pub remedy: &'static str,
    /// The change for PyTorch, if the trace shows PyTorch; empty if the general text applies.
    pub torch: &'static str,
    /// The change for any other program, if nothing shows training; empty if the general text applies.
    pub elsewhere: &'static str,
    /// Command that shows whether the change helped.
    pub verify: &'static str,
    pub judge: fn(&Case) -> Judgement,
}

impl Rule {
    /// Returns `true` if the other rule's finding would change nothing when this one fires.
    pub fn silences_one(&self, other: &Rule) -> bool {
        self.id != other.id && (self.silences.contains(&other.group) || self.silences_rules.contains(&other.id))
    }

    /// Returns `true` if its savings are a part of the training, and not of the start, for example.
    fn shortens_training(&self) -> bool {
        matches!(self.group, Group::Verdict | Group::Loader) || self.id == "checkpoint-stalls"
    }

    /// Returns the recommended change, worded for the traced program.
    fn remedy_for(&self, summary: &Summary) -> &'static str {
        let trains = !summary.training.is_empty() || !summary.steps.is_empty() || summary.time.compute_ns.is_some();
        match trains {
            false if !self.elsewhere.is_empty() => self.elsewhere,
            _ => in_words(summary, self.remedy, self.torch),
        }
    }
}

/// Rules that need individual calls: processes that only counted calls provide no input for them.
const OF_EVENTS: [&str; 17] = [
    "read-amplification",
    "independent-requests",
    "data-set-per-sample",
    "small-reads",
    "small-writes",
    "random-in-file",
    "backward-seeks",
    "seek-noise",
    "unaligned",
    "shared-block-writes",
    "failed-lookups",
    "failing-io",
    "store-throttled",
    "store-retries",
    "small-objects",
    "would-fit",
    "cache-resident",
];

/// Rules that do not judge fewer calls than the threshold `all.calls`.
pub const OF_MANY_CALLS: [&str; 17] = [
    "read-amplification",
    "independent-requests",
    "data-set-per-sample",
    "small-reads",
    "small-writes",
    "small-objects",
    "backward-seeks",
    "seek-noise",
    "unaligned",
    "cache-resident",
    "tiny-stdio",
    "hot-file",
    "metadata-bound",
    "stat-storm",
    "reopen-storm",
    "open-serial",
    "opened-never-read",
];

/// Rules that need only spans: all other rules need calls, and without recorded calls a zero means nothing.
const OF_SPANS: [&str; 8] = [
    "input-bound",
    "compute-bound",
    "launch-bound",
    "pageable-copies",
    "slow-start",
    "checkpoint-stalls",
    "straggler-rank",
    "trust",
];

/// Rules on read patterns: if spans show a training run, their savings are limited to its waits and the reads in its
/// steps.
const OF_READS: [&str; 13] = [
    "read-amplification",
    "data-set-per-sample",
    "would-fit",
    "small-reads",
    "small-objects",
    "random-in-file",
    "backward-seeks",
    "seek-noise",
    "redundant-reads",
    "metadata-bound",
    "reopen-storm",
    "open-serial",
    "opened-never-read",
];

/// The rule on the CPU time of readers.
const CPU_BOUND: &str = "loader-cpu-bound";

/// Reason why the other rules are not judged without calls.
const NO_CALLS: &str = "not measured: the trace contains no calls, or filters removed all of them; dlio trace records \
    calls";

/// Reason why rules that need individual calls are not judged.
const COUNTED: &str =
    "not measured: calls were counted, not recorded (--mode summary, or beyond --max-mb); record them";

/// Builds the report of an analysis, with its findings.
pub fn concluded(analysis: &Analysis, trace: &Trace, limits: &Limits) -> Summary {
    let mut summary = analysis.summary(trace);
    conclude(&mut summary, limits);
    summary.name_traces(&trace.given);
    summary
}

/// Judges all rules and adds their findings, the next step and the confidence to the report.
pub fn conclude(summary: &mut Summary, limits: &Limits) {
    summary.findings = judge(summary, limits);
    let main = summary.headline.main_cause(summary).map(|finding| finding.id.clone());
    refer_to_cause(&mut summary.findings, main.as_deref());
    let mut headline = std::mem::take(&mut summary.headline);
    headline.recommend(summary);
    (headline.confidence, headline.confidence_reason) = confidence(summary, &headline).unzip();
    summary.headline = headline;
}

/// Refers from the finding that a training waits to the one for the main cause, or to the first one that names a cause.
fn refer_to_cause(findings: &mut [Finding], main: Option<&str>) {
    let names_cause = |finding: &Finding| {
        let is_change = finding.fired() && finding.saves() && finding.severity <= Some(Severity::Warning);
        is_change && finding.id != NAMES_NO_CAUSE
    };
    let first = || findings.iter().find(|finding| names_cause(finding)).map(|finding| finding.id.clone());
    let Some(cause) = main.map(str::to_string).or_else(first) else { return };
    let which = if main.is_some() { "the main cause" } else { "a cause" };
    if let Some(general) = findings.iter_mut().find(|finding| finding.id == NAMES_NO_CAUSE) {
        general.remedy = format!("see {cause}, which names {which}");
    }
}

/// Returns the findings of all rules, fired ones first, by their savings.
pub fn judge(summary: &Summary, limits: &Limits) -> Vec<Finding> {
    if summary.allocation.events == 0 {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = RULES.iter().map(|rule| finding(rule, summary, limits)).collect();
    silence(&mut findings, &Case { summary, limits, rule: ALL });
    let order = |finding: &Finding| (finding.state, finding.severity, std::cmp::Reverse(finding.bound_ns));
    findings.sort_by_key(order);
    findings
}

/// Returns `true` if a rule with this name exists.
pub fn is_rule(id: &str) -> bool {
    RULES.iter().any(|rule| rule.id == id)
}

fn finding(rule: &Rule, summary: &Summary, limits: &Limits) -> Finding {
    let case = Case { summary, limits, rule: rule.id };
    let mut judgement = (rule.judge)(&case);
    let replayed = limit(&mut judgement, &case);
    let share = |worth: Worth| worth.ns as f64 / case.wall_ns() as f64;
    let mut state = state(&judgement);
    if state == State::Fired && rule.cost == Cost::Worth {
        let worth = Case { rule: ALL, ..case }.at_least("worth", Some(judgement.worth.map_or(0.0, share)));
        if worth.holds() != Some(true) {
            state = State::Quiet;
        }
        judgement.measures.push(worth);
    }
    let is_counted = summary.tally.is_some() && OF_EVENTS.contains(&rule.id);
    let lacks_calls = !summary.knows_calls() && !OF_SPANS.contains(&rule.id);
    if is_counted || lacks_calls {
        (state, judgement.measures) = (State::Unknown, Vec::new());
    }
    if limits.ignored.iter().any(|id| id == rule.id) {
        state = State::Ignored;
    }
    let confidence = judgement.confidence.unwrap_or(rule.confidence);
    let fired = state == State::Fired;
    let worth = judgement.worth.filter(|worth| fired && worth.ns > 0);
    let (wait_ns, replayed) = match replayed.filter(|_| worth.is_some()) {
        Some(Replayed::AtMostWait(wait)) => (Some(case.waited().map_or(wait, |waited| waited.waited_ns)), None),
        Some(Replayed::Saves(_, change)) => (None, Some(change)),
        None => (None, None),
    };
    let at_most_wait = wait_ns.is_some();
    let stated = worth.filter(|_| !at_most_wait);
    let saved = wait_ns.or(worth.map(|worth| worth.ns));
    judgement.evidence.truncate(EVIDENCE_MAX);
    let says = match state {
        State::Unknown if lacks_calls => NO_CALLS.into(),
        State::Unknown if is_counted => COUNTED.into(),
        State::Unknown => unmeasured(&judgement),
        _ => judgement.says,
    };
    Finding {
        id: rule.id.into(),
        state,
        severity: fired
            .then(|| judgement.severity.unwrap_or_else(|| severity(rule, worth, worth.map(share), confidence, limits))),
        confidence,
        says,
        worth_ns: stated.map(|worth| worth.ns),
        worth_share: stated.map(share),
        at_most_wait,
        training_share: saved.filter(|_| rule.shortens_training()).and_then(|ns| share_of_training(summary, ns)),
        share_of: case.wording(),
        wait_ns,
        replayed,
        bound_ns: worth.map_or(0, |worth| worth.ns),
        exposed: worth.is_some_and(|worth| worth.exposed),
        silenced_by: None,
        measures: judgement.measures,
        evidence: if fired { judgement.evidence } else { Vec::new() },
        remedy: judgement.remedy.unwrap_or_else(|| rule.remedy_for(summary)).into(),
        verify: rule.verify.into(),
    }
}

/// Limits the savings of a rule to those of its replayed change, and to the time of reads.
fn limit(judgement: &mut Judgement, case: &Case) -> Option<Replayed> {
    // If training is inferred, compute during the wait is unknown.
    if let Some(worth) = judgement.worth.as_mut().filter(|_| case.infers_training()) {
        worth.exposed = false;
    }
    let replayed = replayed(case, judgement.remedy);
    if let Some((worth, replayed)) = judgement.worth.as_mut().zip(replayed.as_ref()) {
        worth.ns = match replayed {
            Replayed::Saves(gain, _) => *gain,
            Replayed::AtMostWait(wait) => worth.ns.min(*wait),
        };
    }
    let most = case.read_at_most().filter(|_| OF_READS.contains(&case.rule));
    if let Some((worth, most)) = judgement.worth.as_mut().zip(most) {
        worth.ns = worth.ns.min(most);
    }
    replayed
}

/// Replay changes that correspond to the recommended changes of rules.
const REMEDIES: &[(&str, &[&str])] = &[
    ("loader-capacity", &["workers="]),
    ("loader-cpu-bound", &["decode="]),
    ("storage-latency-bound", &["storage="]),
    ("storage-saturated", &["storage="]),
    ("slow-worker", &["order=", "prefetch="]),
    ("loader-jitter", &["order=", "prefetch="]),
    ("workers-restart", &["persistent="]),
    ("hand-over", &["handover="]),
    ("cpu-quota", &["quota="]),
];

/// Returns savings as a share of the training, the mean of several trainers.
fn share_of_training(summary: &Summary, ns: i64) -> Option<f64> {
    let groups = told(&summary.training);
    let trained: i64 = groups.iter().map(|group| group.trained_ns).sum();
    (trained > 0).then(|| ns as f64 * groups.len() as f64 / trained as f64)
}

/// Result of replaying the change that a rule recommends.
enum Replayed {
    Saves(i64, ReplayedChange),
    /// The change could not be replayed: it saves at most this wait.
    AtMostWait(i64),
}

/// Replays a rule's change; `None` for rules without one, and for runs without training. `other` is the change
/// that a rule recommends instead of its usual one.
fn replayed(case: &Case, other: Option<&str>) -> Option<Replayed> {
    let (_, remedies) = REMEDIES.iter().find(|(id, _)| *id == case.rule)?;
    // More readers do not help if the CPUs are busy; cheaper samples do.
    let crowded: &[&str] = &["decode="];
    let remedies = if case.rule == "loader-capacity" && other.is_some() { crowded } else { remedies };
    let replay = case.summary.what_if.as_ref()?;
    // No replayed change makes the files of one reader as fast as those of the others.
    if case.rule == "slow-worker" && other.is_some() {
        return Some(Replayed::AtMostWait(replay.wait_ns));
    }
    let Some((row, gain)) = replay.best(remedies) else { return Some(Replayed::AtMostWait(replay.wait_ns)) };
    let share = |ns: Option<i64>| 1.0 - ns.unwrap_or(replay.measured_ns) as f64 / replay.measured_ns.max(1) as f64;
    // A faster loader saves at most the whole wait, and a replay may predict a little more.
    let wait = replay.wait_ns as f64 / replay.measured_ns.max(1) as f64;
    let (least, most) = (share(row.high_ns).min(wait), share(row.low_ns).min(wait));
    Some(Replayed::Saves(
        gain.min(replay.wait_ns),
        ReplayedChange { change: row.change.clone(), what: row.what.clone(), least, most },
    ))
}

fn state(judgement: &Judgement) -> State {
    let mut holds = judgement.measures.iter().map(Measure::holds);
    let is = |holds: Option<bool>, wanted| holds == Some(wanted);
    let (decided, other) = if judgement.any { (true, State::Fired) } else { (false, State::Quiet) };
    let rest = if judgement.any { State::Quiet } else { State::Fired };
    if holds.clone().any(|holds| is(holds, decided)) {
        other
    } else if holds.any(|holds| holds.is_none()) || judgement.measures.is_empty() {
        State::Unknown
    } else {
        rest
    }
}

fn unmeasured(judgement: &Judgement) -> String {
    let missing = judgement.measures.iter().filter(|measure| measure.value.is_none());
    let missing: Vec<_> = missing.map(|measure| measure.what.as_str()).collect();
    let what = if missing.is_empty() { String::new() } else { format!(" ({})", missing.join("; ")) };
    format!("not measured{what}: {}", judgement.decide)
}

fn severity(
    rule: &Rule,
    worth: Option<Worth>,
    share: Option<f64>,
    confidence: Confidence,
    limits: &Limits,
) -> Severity {
    // A few milliseconds of a short run do not matter, whatever their share.
    let is_short = worth.is_some_and(|worth| (worth.ns as f64) < limits.of_all("short"));
    let by_worth = match share.unwrap_or(0.0) {
        _ if is_short => Severity::Note,
        share if share >= limits.of_all("critical") => Severity::Critical,
        share if share >= limits.of_all("warning") => Severity::Warning,
        _ => Severity::Note,
    };
    let hidden = worth.is_some_and(|worth| !worth.exposed);
    match (rule.cost, confidence) {
        (Cost::Good, _) => Severity::Good,
        (_, Confidence::Guess) => Severity::Note,
        _ if hidden => by_worth.max(Severity::Warning),
        _ => by_worth,
    }
}

/// Silences findings that another finding makes pointless. A lack of CPU time does not, if the calls themselves take it.
fn silence(findings: &mut [Finding], case: &Case) {
    let rule = |id: &str| RULES.iter().find(|rule| rule.id == id);
    let in_calls = case.causes().is_some_and(|causes| causes.get(Part::FileCalls) > causes.get(Part::Cpu));
    let fired = findings.iter().filter(|finding| finding.fired()).filter_map(|it| rule(&it.id));
    let fired: Vec<_> = fired.filter(|rule| !in_calls || rule.id != CPU_BOUND).collect();
    for finding in findings.iter_mut().filter(|finding| finding.fired()) {
        let Some(own) = rule(&finding.id) else { continue };
        if let Some(by) = fired.iter().find(|by| by.silences_one(own)) {
            finding.state = State::Silenced;
            finding.severity = None;
            finding.silenced_by = Some(by.id.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::report::findings::Unit;

    #[test]
    fn findings_md_lists_every_rule() {
        let written = include_str!("../../FINDINGS.md");
        for rule in RULES {
            let Rule { id, asks, remedy, torch, elsewhere, .. } = rule;
            let row = format!("| `{id}` | {asks} | {remedy} | {torch} | {elsewhere} |");
            assert!(written.lines().any(|line| line == row), "FINDINGS.md lacks the row\n{row}");
        }
    }

    fn judged(values: &[Option<f64>], any: bool) -> State {
        let measure = |value: &Option<f64>| Measure {
            key: "share".into(),
            what: "a part".into(),
            value: *value,
            limit: 0.5,
            unit: Unit::Share,
            below: false,
        };
        state(&Judgement { measures: values.iter().map(measure).collect(), any, ..Judgement::default() })
    }

    #[test]
    fn a_rule_fires_where_all_holds_and_is_unknown_where_that_cannot_be_told() {
        let (yes, no) = (Some(0.5), Some(0.4));
        assert_eq!(judged(&[yes, yes], false), State::Fired);
        assert_eq!(judged(&[yes, no], false), State::Quiet);
        assert_eq!(judged(&[yes, None], false), State::Unknown);
        assert_eq!(judged(&[no, None], false), State::Quiet);
        assert_eq!(judged(&[], false), State::Unknown);
    }

    #[test]
    fn a_rule_of_which_one_part_suffices_fires_by_any() {
        let (yes, no) = (Some(0.5), Some(0.4));
        assert_eq!(judged(&[no, yes], true), State::Fired);
        assert_eq!(judged(&[None, yes], true), State::Fired);
        assert_eq!(judged(&[no, no], true), State::Quiet);
        assert_eq!(judged(&[no, None], true), State::Unknown);
    }

    #[test]
    fn severity_is_what_can_be_won_and_how_sure_that_is() {
        let rule = |cost| Rule { cost, ..RULES[0] };
        let of = |cost, share, exposed, confidence| {
            let worth = Worth { ns: 1_000_000_000, exposed };
            severity(&rule(cost), Some(worth), Some(share), confidence, &Limits::default())
        };
        let costly = |share| of(Cost::Worth, share, true, Confidence::Exact);
        assert_eq!(
            [0.02, 0.05, 0.19, 0.2].map(costly),
            [Severity::Note, Severity::Warning, Severity::Warning, Severity::Critical]
        );
        assert_eq!(of(Cost::Worth, 0.9, false, Confidence::Exact), Severity::Warning);
        assert_eq!(of(Cost::Worth, 0.9, true, Confidence::Guess), Severity::Note);
        assert_eq!(of(Cost::Good, 0.9, true, Confidence::Exact), Severity::Good);
        let short = Some(Worth { ns: 9_000_000, exposed: true });
        let of_short = severity(&rule(Cost::Worth), short, Some(0.9), Confidence::Exact, &Limits::default());
        assert_eq!(of_short, Severity::Note);
    }

    #[test]
    fn rules_have_names_of_their_own_and_limits() {
        for (at, rule) in RULES.iter().enumerate() {
            assert!(!RULES[..at].iter().any(|other| other.id == rule.id), "{} stands twice", rule.id);
            assert!(limits::LIMITS.iter().any(|limit| limit.rule == rule.id), "{} has no limit", rule.id);
            assert!(rule.silences_rules.iter().all(|id| is_rule(id)), "{} silences an unknown rule", rule.id);
        }
        assert!(REMEDIES.iter().all(|(id, _)| is_rule(id)));
        assert!(OF_EVENTS.iter().chain(&OF_SPANS).chain(&OF_READS).chain(&OF_MANY_CALLS).all(|id| is_rule(id)));
        assert!(limits::LIMITS.iter().all(|limit| limit.rule == ALL || is_rule(limit.rule)));
    }
}
