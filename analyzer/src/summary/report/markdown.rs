//! The report as Markdown, for a pull request or a page: headings, sentences, and tables as blocks of code.

use crate::text_table::without_markup;

/// Converts printed text. An indented line belongs to a table or list; the line above the first one is its heading.
pub fn markdown(text: &str) -> String {
    let fence = "`".repeat((longest_run(text, '`') + 1).max(3));
    let lines: Vec<&str> = text.lines().collect();
    let is_indented = |at: usize| lines.get(at).is_some_and(|line| line.starts_with(' '));
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        let is_first = is_indented(at) && !at.checked_sub(1).is_some_and(is_indented);
        let is_last = is_indented(at) && !is_indented(at + 1);
        if is_first {
            out += &format!("\n{fence}text\n");
        }
        match line {
            _ if is_indented(at) => out += &format!("{line}\n"),
            line if is_indented(at + 1) => out += &format!("### {}\n", without_markup(line)),
            line => out += &format!("{}\n", without_markup(line)),
        }
        if is_last {
            out += &format!("{fence}\n");
        }
    }
    out
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_blocks_under_headings() {
        let text = "BOUND: 5 %\n  why: a_b\nIt took *long*.\n\nBy file\n  file  n\n  ```   1\n\nMB is 10^6 bytes.\n";
        let expected = "### BOUND: 5 %\n\n````text\n  why: a_b\n````\nIt took \\*long\\*.\n\n### By file\n\n````text\n  \
                        file  n\n  ```   1\n````\n\nMB is 10^6 bytes.\n";
        assert_eq!(markdown(text), expected);
    }
}
