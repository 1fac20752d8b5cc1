//! A comparison as people read it: on a terminal, or as Markdown in a pull request.

use super::align::{Figures, FindingChange, Group, Row, Turn};
use super::gate::{LimitOutcome, Verdict};
use super::{Claim, Comparison, Head, MetricChange};
use crate::grid::{Grid, without_markup};
use crate::summary::layout::heading;
use crate::summary::screen::wrapped;
use crate::summary::units::{bytes, grouped, many, moment, share, time};

/// Rows whose time changed by less of the run than this are counted and not shown.
const WORTH_SHOWING: f64 = 0.01;

/// A table of a comparison, for whichever form.
struct Table {
    title: String,
    /// One that begins with `<` stands left.
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// What is said below it.
    notes: Vec<String>,
}

impl Table {
    fn grid(self) -> Grid {
        let mut grid = Grid::new(&self.heads);
        self.rows.into_iter().for_each(|row| grid.row(row));
        grid
    }
}

/// For a terminal of a width; of long tables the first `top` rows.
pub fn print(comparison: &Comparison, width: usize, top: usize) -> String {
    let mut out: String = comparison.answer.iter().map(|sentence| wrapped(sentence, width)).collect();
    if !comparison.limits.is_empty() {
        out += &format!("\nLimits\n{}", limits_alone(comparison, width));
    }
    for mut table in tables(comparison, top) {
        heading(&table.title, &mut out);
        let notes = std::mem::take(&mut table.notes);
        table.grid().print_within(width, &mut out);
        notes.iter().for_each(|note| out.push_str(&format!("  {note}\n")));
    }
    out
}

/// Only what became of the limits.
pub fn limits_alone(comparison: &Comparison, width: usize) -> String {
    let line = |limit: &LimitOutcome| {
        let text = wrapped(&format!("{} {}: {}", said(limit.verdict), limit.limit, limit.why), width.saturating_sub(2));
        text.lines().map(|line| format!("  {line}\n")).collect::<String>()
    };
    comparison.limits.iter().map(line).collect()
}

/// For a pull request: the answer and the first table in sight, the others folded.
pub fn markdown(comparison: &Comparison, top: usize) -> String {
    let mut out = String::new();
    comparison.answer.iter().for_each(|sentence| out.push_str(&format!("{}\n\n", without_markup(sentence))));
    for (i, mut table) in limits(comparison).into_iter().chain(tables(comparison, top)).enumerate() {
        let (open, close) = match i {
            0 => (format!("**{}**\n\n", table.title), ""),
            _ => (format!("<details><summary>{}</summary>\n\n", table.title), "\n</details>\n"),
        };
        out.push_str(&open);
        let notes = std::mem::take(&mut table.notes);
        table.grid().print_markdown(&mut out);
        notes.iter().for_each(|note| out.push_str(&format!("\n{}\n", without_markup(note))));
        out.push_str(close);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// The tables that have something to say, in order; limits stand before them.
fn tables(comparison: &Comparison, top: usize) -> Vec<Table> {
    let rows = |title: &str, rows: &[Row]| changed_rows(title, rows, comparison, top);
    let mut tables = vec![runs(comparison)];
    tables.extend(circumstances(comparison));
    tables.push(wall(comparison));
    tables.extend(findings(comparison));
    tables.push(figures(comparison));
    tables.extend(rows("Calls", &comparison.functions));
    tables.extend(rows("Spans", &comparison.spans));
    tables.extend(rows("Folders", &comparison.folders));
    tables.extend(rows("Ranks", &comparison.ranks));
    tables
}

fn limits(comparison: &Comparison) -> Option<Table> {
    let row = |limit: &LimitOutcome| vec![limit.limit.clone(), said(limit.verdict).into(), limit.why.clone()];
    (!comparison.limits.is_empty()).then(|| Table {
        title: "Limits".into(),
        heads: vec!["<fails if", "<", "<"],
        rows: comparison.limits.iter().map(row).collect(),
        notes: vec![],
    })
}

fn said(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Kept => "kept",
        Verdict::Exceeded => "EXCEEDED",
        Verdict::Undecided => "undecided",
    }
}

fn runs(comparison: &Comparison) -> Table {
    let row = |side: &str, head: &Head| {
        let lost = if head.lost == 0 { "-".into() } else { grouped(head.lost) };
        let (began, took) = (moment(head.start_ts), time(head.wall_ns as f64));
        vec![head.trace.clone(), side.to_string(), began[..19].to_string(), took, grouped(head.events), lost]
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

fn circumstances(comparison: &Comparison) -> Option<Table> {
    let rows = comparison.circumstances.iter();
    (!comparison.circumstances.is_empty()).then(|| Table {
        title: "What else changed".into(),
        heads: vec!["<", "<before", "<after"],
        rows: rows.map(|row| vec![row.what.into(), row.before.clone(), row.after.clone()]).collect(),
        notes: vec![],
    })
}

fn wall(comparison: &Comparison) -> Table {
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

fn findings(comparison: &Comparison) -> Option<Table> {
    let row = |finding: &FindingChange| {
        let turn = match finding.change {
            Turn::New => "new",
            Turn::Worse => "worse",
            Turn::Same => "same",
            Turn::Better => "better",
            Turn::Gone => "gone",
        };
        let worth = |ns: Option<i64>| ns.map_or("-".into(), |ns| time(ns as f64));
        vec![finding.id.clone(), turn.into(), worth(finding.before_ns), worth(finding.after_ns)]
    };
    (!comparison.findings.is_empty()).then(|| Table {
        title: "Findings, and what they cost at most".into(),
        heads: vec!["<", "<", "before", "after"],
        rows: comparison.findings.iter().map(row).collect(),
        notes: vec![],
    })
}

fn figures(comparison: &Comparison) -> Table {
    let exact_first = |metric: &&MetricChange| !metric.exact;
    let mut metrics: Vec<_> = comparison.metrics.iter().collect();
    metrics.sort_by_key(exact_first);
    let (same, changed): (Vec<_>, Vec<_>) = metrics.into_iter().partition(|metric| metric.claim == Claim::Same);
    let shown = |metric: &MetricChange, value: Option<f64>| value.map_or("?".into(), |value| metric.unit.shown(value));
    let row = |metric: &MetricChange| {
        let change = metric.change.map_or("-".into(), |change| format!("{:+.1} %", change * 100.0));
        let interval = metric.low.zip(metric.high);
        let interval =
            interval.map_or("".into(), |(low, high)| format!("{:+.1} to {:+.1} %", low * 100.0, high * 100.0));
        let claim = match metric.claim {
            Claim::Same => "same",
            Claim::More => "more",
            Claim::Fewer => "less",
            Claim::Noise => "noise",
            Claim::Undecided => "",
            Claim::Unknown => "not known",
        };
        let (before, after) = (shown(metric, metric.before), shown(metric, metric.after));
        vec![metric.metric.clone(), before, after, change, claim.into(), interval]
    };
    let same: Vec<_> = same.iter().map(|metric| metric.metric.as_str()).collect();
    Table {
        title: "Figures".into(),
        heads: vec!["<", "before", "after", "change", "<claim", "<95 %"],
        rows: changed.into_iter().map(row).collect(),
        notes: if same.is_empty() { vec![] } else { vec![format!("The same: {}.", same.join(", "))] },
    }
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
    Some(Table {
        title: format!("{title}, by the change of their time (summed over calls)"),
        heads: vec!["<", "change", "<", "count before", "after", "moved before", "after"],
        rows: worth.iter().take(top).map(row).collect(),
        notes,
    })
}

/// Whether other things happened, and not the same in another time.
fn is_structural(row: &Row) -> bool {
    row.group != Group::Same || row.before.zip(row.after).is_some_and(|(a, b)| a.bytes != b.bytes)
}

fn signed(ns: i64) -> String {
    match ns {
        0 => "0".into(),
        ns if ns < 0 => format!("-{}", time(ns.unsigned_abs() as f64)),
        ns => format!("+{}", time(ns as f64)),
    }
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
        assert_eq!((signed(-1500), signed(0), share_of(-1, 2)), ("-1.50 us".into(), "0".into(), "-50 %".into()));
    }
}
