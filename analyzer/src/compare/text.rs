//! Prints a comparison for a terminal, or as Markdown for a pull request.

use super::gate::{LimitOutcome, Verdict};
use super::tables::{Table, all, changed_metrics, limits, verdict_word, verdicts};
use super::{Claim, Comparison};
use crate::summary::figures::units::many;
use crate::summary::report::layout::{heading, hung, wrapped};
use crate::text_table::{Grid, without_markup};

fn grid(table: Table) -> Grid {
    let mut grid = Grid::new(&table.heads);
    table.rows.into_iter().for_each(|row| grid.row(row));
    grid
}

/// Prints the comparison for a terminal of `width` columns; long tables show their first `top` rows.
pub fn print(comparison: &Comparison, width: usize, top: usize) -> String {
    let mut out: String = comparison.answer.iter().map(|sentence| wrapped(sentence, width)).collect();
    if let Some(table) = verdicts(comparison) {
        heading(&table.title, &mut out);
        table.rows.iter().for_each(|row| hung(&format!("  {:<8}", row[0]), &row[1], (10, width), &mut out));
    }
    if !comparison.limits.is_empty() {
        out += &format!("\nLimits\n{}", limits_alone(comparison, width));
    }
    for mut table in all(comparison, top) {
        heading(&table.title, &mut out);
        let notes = std::mem::take(&mut table.notes);
        grid(table).print_within(width, &mut out);
        notes.iter().for_each(|note| hung("  ", note, (2, width), &mut out));
    }
    out
}

/// Prints only the outcome of the limits.
pub fn limits_alone(comparison: &Comparison, width: usize) -> String {
    let line = |limit: &LimitOutcome| {
        let text = wrapped(
            &format!("{}: {} (fails if {})", verdict_word(limit.verdict), limit.why, limit.limit),
            width.saturating_sub(2),
        );
        text.lines().map(|line| format!("  {line}\n")).collect::<String>()
    };
    comparison.limits.iter().map(line).collect()
}

/// The first line of a comment, by which a job finds and replaces its earlier one.
pub const MARKER: &str = "<!-- dlio-comparison -->";

/// Prints the comparison for a pull request: the result of the limits, the answer, both verdicts and the changed metrics
/// are visible, and the rest is folded.
pub fn markdown(comparison: &Comparison, top: usize) -> String {
    let mut out = format!("{MARKER}\n### {}\n\n", title(comparison));
    comparison.answer.iter().for_each(|sentence| out.push_str(&format!("{}\n\n", without_markup(sentence))));
    for row in verdicts(comparison).into_iter().flat_map(|table| table.rows) {
        out.push_str(&format!("* {}: {}\n", row[0], without_markup(&row[1])));
    }
    out.push('\n');
    [limits(comparison), changed_metrics(comparison)].into_iter().flatten().for_each(|table| {
        out.push_str(&format!("**{}**\n\n", table.title));
        markdown_table(table, &mut out);
    });
    out.push_str("<details><summary>Details</summary>\n\n");
    for table in all(comparison, top) {
        out.push_str(&format!("<details><summary>{}</summary>\n\n", table.title));
        markdown_table(table, &mut out);
        out.push_str("</details>\n\n");
    }
    out + "</details>\n"
}

/// Returns the result in a few words.
fn title(comparison: &Comparison) -> String {
    let exceeded = comparison.limits.iter().filter(|limit| limit.verdict == Verdict::Exceeded).count();
    match (comparison.limits.len(), comparison.verdict()) {
        (0, _) => match comparison.claim() {
            Claim::More => "dlio: slower than the baseline".into(),
            Claim::Fewer => "dlio: faster than the baseline".into(),
            _ => "dlio: compared with the baseline".into(),
        },
        (_, Verdict::Kept) => "dlio: all limits kept".into(),
        (_, Verdict::Undecided) => "dlio: undecided".into(),
        (all, Verdict::Exceeded) => format!("dlio: {exceeded} of {} exceeded", many(all as u64, "limit", "limits")),
    }
}

fn markdown_table(mut table: Table, out: &mut String) {
    let notes = std::mem::take(&mut table.notes);
    grid(table).print_markdown(out);
    notes.iter().for_each(|note| out.push_str(&format!("\n{}\n", without_markup(note))));
    out.push('\n');
}
