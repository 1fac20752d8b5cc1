//! The tables of a comparison, for every output format: terminal, pull request, HTML page.

use super::align::{Figures, FindingChange, Group, ON_PIPES, Row, Turn, is_past_files};
use super::gate::{LimitOutcome, Verdict};
use super::metrics::Unit;
use super::predictions::Predicted;
use super::{Claim, Comparison, FLOOR, Head, MetricChange};
use crate::summary::figures::units::{bytes, grouped, many, moment, share, signed, time};

/// Rows whose time changed by less than this share of the run are counted but not shown.
const WORTH_SHOWING: f64 = 0.01;

/// A table with a title, text cells and notes.
pub struct Table {
    pub title: String,
    /// Column heads; a head that begins with `<` is left-aligned.
    pub heads: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    /// Notes printed below the table.
    pub notes: Vec<String>,
}

/// Returns all tables that have rows, in order; the limits precede them.
pub fn all(comparison: &Comparison, top: usize) -> Vec<Table> {
    let rows = |title: &str, rows: &[Row]| changed_rows(title, rows, comparison, top);
    let mut tables = vec![runs(comparison)];
    tables.extend(circumstances(comparison));
    tables.push(wall(comparison));
    tables.extend(predictions(comparison));
    tables.extend(findings(comparison));
    tables.push(figures(comparison));
    tables.extend(rows("Calls", &comparison.functions));
    tables.extend(rows("Spans", &comparison.spans));
    tables.extend(rows("Directories", &comparison.folders));
    tables.extend(rows("Ranks", &comparison.ranks));
    tables
}

pub fn limits(comparison: &Comparison) -> Option<Table> {
    let row = |limit: &LimitOutcome| vec![limit.limit.clone(), verdict_word(limit.verdict).into(), limit.why.clone()];
    (!comparison.limits.is_empty()).then(|| Table {
        title: "Limits".into(),
        heads: vec!["<fails if", "<", "<"],
        rows: comparison.limits.iter().map(row).collect(),
        notes: vec![],
    })
}

pub fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Kept => "kept",
        Verdict::Exceeded => "EXCEEDED",
        Verdict::Undecided => "undecided",
    }
}

/// Returns the verdicts of both sides, which do not fit a table on a terminal.
pub fn verdicts(comparison: &Comparison) -> Option<Table> {
    let sides = [("before", &comparison.verdict_before), ("after", &comparison.verdict_after)];
    let rows = sides.into_iter().filter_map(|(side, verdict)| Some(vec![side.into(), verdict.clone()?]));
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| Table { title: "Verdicts".into(), heads: vec!["<", "<"], rows, notes: vec![] })
}

pub fn runs(comparison: &Comparison) -> Table {
    let row = |side: &str, head: &Head| {
        let lost = if head.lost == 0 { "-".into() } else { grouped(head.lost) };
        let (began, took) = (moment(head.start_ts), time(head.wall_ns as f64));
        let trace = head.run.iter().fold(head.trace.clone(), |trace, run| format!("{trace}, {run}"));
        vec![trace, side.to_string(), began[..19].to_string(), took, grouped(head.events), lost]
    };
    let before = comparison.before.iter().map(|head| row("before", head));
    let after = comparison.after.iter().map(|head| row("after", head));
    Table {
        title: "Runs".into(),
        heads: vec!["<", "<", "<began", "took", "events", "lost"],
        rows: before.chain(after).collect(),
        notes: vec![],
    }
}

pub fn circumstances(comparison: &Comparison) -> Option<Table> {
    let rows = comparison.circumstances.iter();
    (!comparison.circumstances.is_empty()).then(|| Table {
        title: "Other changes".into(),
        heads: vec!["<", "<before", "<after"],
        rows: rows.map(|row| vec![row.what.into(), row.before.clone(), row.after.clone()]).collect(),
        notes: vec![],
    })
}

pub fn wall(comparison: &Comparison) -> Table {
    let wall = &comparison.wall;
    let row = |name: &str, before: i64, after: i64, change: i64| {
        vec![name.into(), time(before as f64), time(after as f64), signed(change), share_of(change, wall.before_ns)]
    };
    let parts = wall.parts.iter().filter(|part| (part.before_ns, part.after_ns) != (0, 0));
    let mut rows: Vec<_> = parts.map(|part| row(part.part, part.before_ns, part.after_ns, part.change_ns)).collect();
    rows.push(row("the whole run", wall.before_ns, wall.after_ns, wall.change_ns));
    Table {
        title: "Where the change comes from".into(),
        heads: vec!["<", "before", "after", "change", "of the run"],
        rows,
        notes: vec![],
    }
}

pub fn predictions(comparison: &Comparison) -> Option<Table> {
    let found = comparison.predictions.as_ref()?;
    let row = |row: &Predicted| {
        let [predicted, low, high, measured] =
            [row.predicted_ns, row.low_ns, row.high_ns, row.measured_ns].map(|ns| time(ns as f64));
        let within = if row.inside { "as predicted" } else { "outside the interval" };
        vec![row.change.clone(), predicted, format!("{low} to {high}"), measured, within.into()]
    };
    Some(Table {
        title: "Training time, predicted and measured".into(),
        heads: vec!["<change", "predicted", "<interval", "measured", "<"],
        rows: found.rows.iter().map(row).collect(),
        notes: found.notes.clone(),
    })
}

pub fn findings(comparison: &Comparison) -> Option<Table> {
    let row = |finding: &FindingChange| {
        // "Worse" and "better" are claims; "costs more" and "costs less" only compare numbers.
        let turn = match (finding.change, finding.claim) {
            (Turn::New, Claim::Noise) => "new, noise",
            (Turn::New, _) => "new",
            (Turn::Gone, Claim::Noise) => "gone, noise",
            (Turn::Gone, _) => "gone",
            (Turn::Same, _) => "same",
            (_, Claim::Noise) => "noise",
            (Turn::Worse, Claim::Undecided) => "costs more",
            (Turn::Worse, _) => "worse",
            (Turn::Better, Claim::Undecided) => "costs less",
            (Turn::Better, _) => "better",
        };
        let worth = |ns: Option<i64>| ns.filter(|ns| *ns > 0).map_or("-".into(), |ns| time(ns as f64));
        vec![finding.id.clone(), turn.into(), worth(finding.before_ns), worth(finding.after_ns)]
    };
    (!comparison.findings.is_empty()).then(|| Table {
        title: "Findings, and the most that they could save".into(),
        heads: vec!["<", "<", "before", "after"],
        rows: comparison.findings.iter().map(row).collect(),
        notes: if comparison.findings.iter().any(|it| it.claim == Claim::Undecided) {
            vec![UNDECIDED.into()]
        } else {
            vec![]
        },
    })
}

/// The note below findings that too few runs support.
const UNDECIDED: &str = "Four or more runs per side are needed to show whether these differences are more than noise.";

/// Returns the metrics that changed beyond noise, or by the smallest share that several runs can show if there are too
/// few runs to decide. `None` if there are none.
pub fn changed_metrics(comparison: &Comparison) -> Option<Table> {
    let is_changed = |metric: &&MetricChange| match metric.claim {
        Claim::More | Claim::Fewer => true,
        Claim::Undecided => metric.change.is_some_and(|change| change.abs() >= FLOOR),
        Claim::Same | Claim::Noise | Claim::Unknown => false,
    };
    let changed: Vec<_> = comparison.metrics.iter().filter(is_changed).collect();
    let undecided = changed.iter().any(|metric| metric.claim == Claim::Undecided);
    (!changed.is_empty()).then(|| Table {
        title: "Changed metrics".into(),
        heads: vec!["<", "before", "after", "change", "<claim", "<95 %"],
        rows: changed.into_iter().map(|metric| figure_words(metric).to_vec()).collect(),
        notes: if undecided { vec![UNDECIDED.into()] } else { vec![] },
    })
}

pub fn figures(comparison: &Comparison) -> Table {
    let exact_first = |metric: &&MetricChange| !metric.exact;
    let mut metrics: Vec<_> = comparison.metrics.iter().collect();
    metrics.sort_by_key(exact_first);
    let (same, changed): (Vec<_>, Vec<_>) = metrics.into_iter().partition(|metric| metric.claim == Claim::Same);
    let same: Vec<_> = same.iter().map(|metric| metric.metric.as_str()).collect();
    Table {
        title: "Metrics".into(),
        heads: vec!["<", "before", "after", "change", "<claim", "<95 %"],
        rows: changed.into_iter().map(|metric| figure_words(metric).to_vec()).collect(),
        notes: if same.is_empty() { vec![] } else { vec![format!("Unchanged metrics: {}.", same.join(", "))] },
    }
}

/// Below this count, one more is over 1 %, so counts are compared as counts.
const FEW: f64 = 100.0;

/// Returns a metric's name, before, after, change, claim and interval.
pub fn figure_words(metric: &MetricChange) -> [String; 6] {
    let shown = |value: Option<f64>| value.map_or("?".into(), |value| metric.unit.shown(value));
    let change = match metric.before.zip(metric.after) {
        Some((before, after)) if metric.unit == Unit::Count && before.max(after) < FEW => {
            if before == after {
                "-".into()
            } else {
                format!("{:+}", after - before)
            }
        }
        _ => metric.change.map_or("-".into(), |change| format!("{:+.1} %", change * 100.0)),
    };
    let interval = metric.low.zip(metric.high);
    let interval = interval.map_or("".into(), |(low, high)| format!("{:+.1} to {:+.1} %", low * 100.0, high * 100.0));
    let claim = match metric.claim {
        Claim::Same => "same",
        Claim::More => "more",
        Claim::Fewer => "less",
        Claim::Noise => "noise",
        Claim::Undecided => "",
        Claim::Unknown => "not known",
    };
    [metric.metric.clone(), shown(metric.before), shown(metric.after), change, claim.into(), interval]
}

fn changed_rows(title: &str, rows: &[Row], comparison: &Comparison, top: usize) -> Option<Table> {
    let least = comparison.wall.before_ns.max(comparison.wall.after_ns) as f64 * WORTH_SHOWING;
    let is_worth = |row: &&Row| row.change_ns.unsigned_abs() as f64 >= least || is_structural(row);
    let worth: Vec<&Row> = rows.iter().filter(is_worth).collect();
    if worth.is_empty() {
        return None;
    }
    let row = |row: &&Row| {
        let count = |side: Option<Figures>| side.map_or("-".into(), |side| grouped(side.count));
        let moved = |side: Option<Figures>| side.map_or("-".into(), |side| bytes(side.bytes as f64));
        let group = match row.group {
            Group::Added => "added",
            Group::Gone => "gone",
            Group::More => "more",
            Group::Fewer => "fewer",
            Group::Same => "",
        };
        let counts = [count(row.before), count(row.after), moved(row.before), moved(row.after)];
        [row.key.clone(), signed(row.change_ns), group.into()].into_iter().chain(counts).collect()
    };
    let mut notes = vec![];
    if worth.len() > top {
        notes.push(format!("... and {} more (--top {} shows all)", grouped((worth.len() - top) as u64), worth.len()));
    }
    let hidden = rows.len() - worth.len();
    if hidden > 0 {
        notes.push(format!("{} changed by less than 1 % of the run.", many(hidden as u64, "row", "rows")));
    }
    if worth.iter().take(top).any(|row| is_past_files(row)) {
        notes.push(ON_PIPES.into());
    }
    Some(Table {
        title: format!("{title}, by the change of their time (summed over calls)"),
        heads: vec!["<", "time", "<count", "before", "after", "moved before", "after"],
        rows: worth.iter().take(top).map(row).collect(),
        notes,
    })
}

/// Returns `true` if different operations happened, not merely the same ones in another time.
fn is_structural(row: &Row) -> bool {
    row.group != Group::Same || row.before.zip(row.after).is_some_and(|(a, b)| a.bytes != b.bytes)
}

fn share_of(change: i64, whole: i64) -> String {
    match change {
        0 => "-".into(),
        change if change < 0 => format!("-{}", share(-change, whole)),
        change => format!("+{}", share(change, whole)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_signs() {
        assert_eq!((share_of(-1, 2), share_of(1, 2), share_of(0, 2)), ("-50 %".into(), "+50 %".into(), "-".into()));
    }
}
