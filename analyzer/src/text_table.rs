//! Tables for terminals: columns as wide as their widest cell, numbers right-aligned.

pub use dlio_schemas::visible::is_obeyed;

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Left,
    Right,
}

/// A table being filled.
pub struct Grid {
    heads: Vec<String>,
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

/// Longer cells are shortened in the middle, because both ends of a path are the most important parts.
const CELL_MAX: usize = 60;

impl Grid {
    /// Creates a table. A head that starts with `<` is left-aligned, others right-aligned.
    pub fn new(heads: &[&str]) -> Grid {
        let side = |head: &&str| if head.starts_with('<') { Side::Left } else { Side::Right };
        Grid {
            heads: heads.iter().map(|head| head.trim_start_matches('<').to_string()).collect(),
            sides: heads.iter().map(side).collect(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| shortened(cell)).collect());
    }

    pub fn print(&self, out: &mut String) {
        self.print_lines(&self.widths(), true, out);
    }

    /// Prints lines of at most `width` characters by shortening the first column; columns that do not fit are named.
    pub fn print_within(&self, width: usize, out: &mut String) {
        let widths = self.widths_within(width);
        self.print_lines(&widths, true, out);
        if widths.len() < self.heads.len() {
            let left_out = self.heads[widths.len()..].join(", ");
            let line = format!("{}(hidden: {left_out})", " ".repeat(GAP));
            out.push_str(&cut(line.chars().collect(), width));
            out.push('\n');
        }
    }

    /// Prints lines of at most `width` characters without heads.
    pub fn print_bare(&self, width: usize, out: &mut String) {
        self.print_lines(&self.widths_within(width), false, out);
    }

    /// Prints a Markdown table, in which no cell is parsed as markup.
    pub fn print_markdown(&self, out: &mut String) {
        let mut line = |cells: Vec<String>| {
            out.push_str("| ");
            out.push_str(&cells.join(" | "));
            out.push_str(" |\n");
        };
        line(self.heads.iter().map(|head| without_markup(head)).collect());
        line(self.sides.iter().map(|side| if *side == Side::Left { "---" } else { "---:" }.into()).collect());
        self.rows.iter().for_each(|row| line(row.iter().map(|cell| without_markup(cell)).collect()));
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.heads[column].chars().count()]).max().unwrap_or(0)
        };
        (0..self.heads.len()).map(width).collect()
    }

    /// Drops the last columns if shortening is not enough.
    fn widths_within(&self, width: usize) -> Vec<usize> {
        let mut widths = self.widths();
        let line = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>();
        let least = widths.first().map_or(0, |first| FIRST_MIN.min(*first));
        while widths.len() > 1 && line(&widths[1..]) + least + GAP > width {
            widths.pop();
        }
        let others = line(&widths) - widths.first().map_or(0, |first| first + GAP);
        if let Some(first) = widths.first_mut() {
            *first = (*first).min(width.saturating_sub(others + GAP)).max(least);
        }
        widths
    }

    fn print_lines(&self, widths: &[usize], with_heads: bool, out: &mut String) {
        let heads = with_heads.then_some(&self.heads);
        for row in heads.into_iter().chain(&self.rows) {
            for ((cell, &width), side) in row.iter().zip(widths).zip(&self.sides) {
                let cell = cut(cell.chars().collect(), width);
                out.push_str(&" ".repeat(GAP));
                match side {
                    Side::Left => out.push_str(&format!("{cell:<width$}")),
                    Side::Right => out.push_str(&format!("{cell:>width$}")),
                }
            }
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
        }
    }
}

/// Blanks before a column.
const GAP: usize = 2;

/// The minimum width of a first column.
const FIRST_MIN: usize = 12;

/// Escapes text so that Markdown shows it unchanged.
pub fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if is_obeyed(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn shortened(cell: &str) -> String {
    // A path may contain anything, including control characters.
    cut(cell.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect(), CELL_MAX)
}

fn cut(cell: Vec<char>, most: usize) -> String {
    if cell.len() <= most {
        return cell.into_iter().collect();
    }
    let (head, tail) = (most / 3, most.saturating_sub(most / 3 + 1));
    cell[..head].iter().chain(&['…']).chain(&cell[cell.len() - tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_without_trailing_blanks() {
        let mut grid = Grid::new(&["<name", "count"]);
        grid.row(vec!["read".into(), "1,000".into()]);
        grid.row(vec!["open64".into(), "7".into()]);
        let mut out = String::new();
        grid.print(&mut out);
        assert_eq!(out, "  name    count\n  read    1,000\n  open64      7\n");
    }

    #[test]
    fn first_column_is_shortened_to_fit() {
        let mut grid = Grid::new(&["<path", "read"]);
        grid.row(vec!["/a/long/path/to/a/file".into(), "1.00 MB".into()]);
        let mut out = String::new();
        grid.print_within(28, &mut out);
        assert_eq!(out, "  path                  read\n  /a/lo…h/to/a/file  1.00 MB\n");
    }

    #[test]
    fn narrow_table_drops_and_names_last_columns() {
        let mut grid = Grid::new(&["<path", "read", "written"]);
        grid.row(vec!["/a/long/path/to/a/file".into(), "1.00 MB".into(), "2.00 MB".into()]);
        let mut out = String::new();
        grid.print_within(24, &mut out);
        assert_eq!(out, "  path              read\n  /a/l…o/a/file  1.00 MB\n  (hidden: written)\n");
    }

    #[test]
    fn cells_are_escaped_in_markdown() {
        let mut grid = Grid::new(&["<name", "count"]);
        grid.row(vec!["a|b<img>_*`".into(), "7".into()]);
        let mut out = String::new();
        grid.print_markdown(&mut out);
        assert_eq!(out, "| name | count |\n| --- | ---: |\n| a\\|b&lt;img&gt;\\_\\*\\` | 7 |\n");
    }

    #[test]
    fn long_and_hostile_cells_are_tamed() {
        let cell = shortened(&format!("/begin{}end", "x".repeat(200)));
        assert_eq!(cell.chars().count(), CELL_MAX);
        assert!(cell.starts_with("/begin") && cell.ends_with("end"));
        assert_eq!(shortened("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(shortened("a\u{202e}b\u{2067}c\u{85}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
    }
}
