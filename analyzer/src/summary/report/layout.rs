//! Layout of sections as text.

use std::fmt::Write;

use crate::summary::figures::units::grouped;

/// Number of rows shown of lists that were not requested.
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

/// Prints how many rows a table leaves out.
pub fn more(rows: usize, top: usize, out: &mut String) {
    if rows > top {
        let _ = writeln!(out, "  ... and {} more (--top {rows} shows all)", grouped((rows - top) as u64));
    }
}

pub fn dash(count: u64) -> String {
    if count == 0 { "-".into() } else { grouped(count) }
}

/// Returns a column of numbers as a line of bars.
pub fn bars(column: &[u64]) -> String {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = column.iter().copied().max().unwrap_or(0).max(1);
    column.iter().map(|&value| HEIGHTS[(value as u128 * 8).div_ceil(most as u128) as usize]).collect()
}

const UNITS: [&str; 14] = ["ns", "us", "ms", "s", "min", "h", "B", "kB", "MB", "GB", "TB", "PB", "EB", "%"];

/// Returns words in lines of at most `width` characters.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut length = 0;
    let mut words = text.split(' ').filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let mut word = word.to_string();
        // Keep a number and its unit together.
        while let Some(unit) = words.next_if(|next| UNITS.contains(&next.trim_matches(['.', ',', ';', ':', ')']))) {
            word = format!("{word} {unit}");
        }
        let more = word.chars().count();
        if length > 0 && length + 1 + more > width {
            out.push('\n');
            length = 0;
        }
        if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.extend(word.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }));
        length += more;
    }
    if length > 0 {
        out.push('\n');
    }
    out
}

/// Appends words after a first word or two, in lines of at most `width` characters; all lines except the first start
/// with `indent` blanks.
pub fn hung(first: &str, text: &str, (indent, width): (usize, usize), out: &mut String) {
    let room = width.saturating_sub(indent.max(first.chars().count())).max(20);
    for (at, line) in wrapped(text, room).lines().enumerate() {
        let before = if at == 0 { first.to_string() } else { " ".repeat(indent) };
        let _ = writeln!(out, "{before}{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_long_as_they_may_be_and_no_longer() {
        assert_eq!(wrapped("one two three four", 9), "one two\nthree\nfour\n");
        assert_eq!(wrapped("enormously long", 4), "enormously\nlong\n");
        assert_eq!(wrapped("waited 3.58 s (92 %).", 10), "waited\n3.58 s\n(92 %).\n");
        assert_eq!((wrapped("", 9), wrapped("a\x1b[2Jb", 9)), (String::new(), "a\u{fffd}[2Jb\n".into()));
    }

    #[test]
    fn lines_below_the_first_are_indented() {
        let mut out = String::new();
        hung("  change: ", "read more at once, in larger calls", (10, 32), &mut out);
        assert_eq!(out, "  change: read more at once, in\n          larger calls\n");
    }
}
