//! Prints a comparison for a terminal, or as Markdown for a pull request.

use super::Comparison;
use super::gate::LimitOutcome;
use super::tables::{Table, all, limits, verdict_word};
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
            &format!("{}: {}: {}", verdict_word(limit.verdict), limit.limit, limit.why),
            width.saturating_sub(2),
        );
        text.lines().map(|line| format!("  {line}\n")).collect::<String>()
    };
    comparison.limits.iter().map(line).collect()
}

/// Prints the comparison for a pull request: the answer and the first table are visible, the rest is folded.
pub fn markdown(comparison: &Comparison, top: usize) -> String {
    let mut out = String::new();
    comparison.answer.iter().for_each(|sentence| out.push_str(&format!("{}\n\n", without_markup(sentence))));
    for (i, mut table) in limits(comparison).into_iter().chain(all(comparison, top)).enumerate() {
        let (open, close) = match i {
            0 => (format!("**{}**\n\n", table.title), ""),
            _ => (format!("<details><summary>{}</summary>\n\n", table.title), "\n</details>\n"),
        };
        out.push_str(&open);
        let notes = std::mem::take(&mut table.notes);
        grid(table).print_markdown(&mut out);
        notes.iter().for_each(|note| out.push_str(&format!("\n{}\n", without_markup(note))));
        out.push_str(close);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}
