//! The report as text.

use super::Summary;
use super::functions::inexactness;
use super::layout::wrapped;
use super::runs::scope;

/// Prints only these sections, with prose in lines of a width. Long tables are limited to `top` rows, or to each
/// section's default.
pub fn print_some(summary: &Summary, sections: &[String], (top, width): (Option<usize>, usize)) -> String {
    let mut out = String::new();
    sections.iter().for_each(|section| summary.print_section(section, (top, width), &mut out));
    if let Some(mark) = inexactness(summary).filter(|_| out.contains('~')) {
        out += &format!("\n{mark}\n");
    }
    if out.is_empty() {
        out = format!("This trace has nothing to show in {}.\n", sections.join(", "));
    }
    let out = out.trim_start_matches('\n');
    match scope(&summary.runs) {
        Some(scope) => format!("{}\n{out}", wrapped(&scope, width)),
        None => out.to_string(),
    }
}

/// Prints all sections, with the first `top` rows of long tables and prose in lines of a width.
pub fn print(summary: &Summary, (top, width): (usize, usize)) -> String {
    let sentences = scope(&summary.runs).into_iter().chain(summary.verdict.iter().cloned());
    let sentences: String = sentences.map(|sentence| wrapped(&sentence, width)).collect();
    let mut out = format!("{}\n{sentences}", summary.headline.lines(width));
    summary.print_sections(true, (top, width), &mut out);
    if summary.allocation.events == 0 {
        return out;
    }
    summary.print_sections(false, (top, width), &mut out);
    if let Some(mark) = inexactness(summary) {
        out += &format!("\n{mark}");
    }
    out.push_str("\nMB is 10^6 bytes. Definitions of all numbers: --explain; their SQL: --show-sql SECTION.\n");
    out
}
