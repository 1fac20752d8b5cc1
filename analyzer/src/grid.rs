//! Tables for terminals: columns as wide as their widest cell, numbers to the right.

/// Where the cells of a column stand.
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
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.heads[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.heads.len()).map(width).collect();

        for row in std::iter::once(&self.heads).chain(&self.rows) {
            let cells = row.iter().zip(&widths).zip(&self.sides).map(|((cell, width), side)| match side {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            out.push_str("  ");
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

fn shortened(cell: &str) -> String {
    // A path may hold anything, and a terminal obeys some of it.
    let shown: Vec<char> = cell.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if shown.len() <= CELL_MAX {
        return shown.into_iter().collect();
    }
    let (head, tail) = (CELL_MAX / 3, CELL_MAX - CELL_MAX / 3 - 1);
    shown[..head].iter().chain(&['…']).chain(&shown[shown.len() - tail..]).collect()
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
    fn long_and_hostile_cells_are_tamed() {
        let cell = shortened(&format!("/begin{}end", "x".repeat(200)));
        assert_eq!(cell.chars().count(), CELL_MAX);
        assert!(cell.starts_with("/begin") && cell.ends_with("end"));
        assert_eq!(shortened("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
