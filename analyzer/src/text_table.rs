//! Tables for terminals: columns as wide as their widest cell, numbers to the right.

pub use dlio_schemas::visible::is_obeyed;

/// The side of a column on which its cells stand.
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

/// Longer cells are cut in the middle: of a path both ends say most.
const CELL_MAX: usize = 60;

impl Grid {
    /// A head that begins with `<` stands left, the others right.
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

    /// In lines of at most `width` characters, where the first column gives way; columns that find no room are named.
    pub fn print_within(&self, width: usize, out: &mut String) {
        let widths = self.widths_within(width);
        self.print_lines(&widths, true, out);
        if widths.len() < self.heads.len() {
            let left_out = self.heads[widths.len()..].join(", ");
            let line = format!("{}(columns that do not fit: {left_out})", " ".repeat(GAP));
            out.push_str(&cut(line.chars().collect(), width));
            out.push('\n');
        }
    }

    /// The same without heads.
    pub fn print_bare(&self, width: usize, out: &mut String) {
        self.print_lines(&self.widths_within(width), false, out);
    }

    /// As a table of Markdown, in which no cell is markup.
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

    /// Where even that is not enough, the last columns are left out.
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

/// The least width of a first column.
const FIRST_MIN: usize = 12;

/// Text as Markdown shows it unchanged.
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
    // A path may hold anything, and a terminal obeys some of it.
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
    fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
        let mut grid = Grid::new(&["<name", "count"]);
        grid.row(vec!["read".into(), "1,000".into()]);
        grid.row(vec!["open64".into(), "7".into()]);
        let mut out = String::new();
        grid.print(&mut out);
        assert_eq!(out, "  name    count\n  read    1,000\n  open64      7\n");
    }

    #[test]
    fn the_first_column_gives_way_where_lines_would_be_too_long() {
        let mut grid = Grid::new(&["<path", "read"]);
        grid.row(vec!["/a/long/path/to/a/file".into(), "1.00 MB".into()]);
        let mut out = String::new();
        grid.print_within(28, &mut out);
        assert_eq!(out, "  path                  read\n  /a/lo…h/to/a/file  1.00 MB\n");
    }

    #[test]
    fn last_columns_are_left_out_of_a_very_narrow_table_and_named() {
        let mut grid = Grid::new(&["<path", "read", "written"]);
        grid.row(vec!["/a/long/path/to/a/file".into(), "1.00 MB".into(), "2.00 MB".into()]);
        let mut out = String::new();
        grid.print_within(24, &mut out);
        assert_eq!(out, "  path              read\n  /a/l…o/a/file  1.00 MB\n  (columns that do not fit: written)\n");
    }

    #[test]
    fn cells_are_no_markup() {
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
