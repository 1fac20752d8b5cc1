//! The layout of sections as text.

use std::fmt::Write;

use super::units::grouped;

/// Rows shown of lists that are not asked for.
pub const SHOWN: usize = 10;

pub fn heading(title: &str, out: &mut String) {
    let _ = writeln!(out, "\n{title}");
}

pub fn pairs(rows: &[(&str, String)], out: &mut String) {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        let _ = writeln!(out, "  {name:<width$}  {value}");
    }
}

/// Says how many rows a table leaves out.
pub fn more(rows: usize, top: usize, out: &mut String) {
    if rows > top {
        let _ = writeln!(out, "  ... and {} more (--top {rows} shows all)", grouped((rows - top) as u64));
    }
}

pub fn dash(count: u64) -> String {
    if count == 0 { "-".into() } else { grouped(count) }
}

/// A column of numbers as a line of bars.
pub fn bars(column: &[u64]) -> String {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = column.iter().copied().max().unwrap_or(0).max(1);
    column.iter().map(|&value| HEIGHTS[(value as u128 * 8).div_ceil(most as u128) as usize]).collect()
}
