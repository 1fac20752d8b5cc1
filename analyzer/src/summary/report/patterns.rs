//! Files by the pattern of their names: names that differ only in numbers share a row.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::files::{Use, use_cells};
use super::{Section, Summary};
use crate::catalog::{FILE_NONE, is_stored};
use crate::load::Trace;
use crate::load::sources::tally::OTHER_FILES;
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::FileCount;
use crate::summary::figures::pattern::{Glob, pattern};
use crate::summary::report::layout::{dash, heading, more};
use crate::text_table::Grid;

/// Files of one pattern.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct PatternUse {
    /// A path with `#` instead of digits; [`OTHERS`] for patterns without a separate row.
    pub pattern: String,
    /// The path with `*` instead of the numbers in which the files differ.
    pub names: String,
    pub files: u64,
    /// Pairs of a file and a process image that used it.
    pub users: u64,
    #[serde(flatten)]
    pub use_: Use,
}

/// The number of patterns listed.
const LISTED: usize = 100;

/// The row for all other patterns.
pub const OTHERS: &str = "(other patterns)";

/// The section on file patterns.
pub struct Patterns;

/// Returns the files that were used, and the number of process images that used each.
fn used<'a>(
    analysis: &'a Analysis,
    paths: &'a [Arc<str>],
    users: &'a [u64],
) -> impl Iterator<Item = (&'a str, &'a FileCount, u64)> {
    let numbered = paths.iter().zip(&analysis.counted.files).zip(users).skip(FILE_NONE as usize + 1);
    let used = numbered.filter(|((path, count), _)| count.is_used() && is_stored(path));
    used.map(|((path, count), users)| (path.as_ref(), count, *users))
}

impl Section for Patterns {
    type Values = Vec<PatternUse>;

    const MEANING: &'static str = "\
        Names: files by the pattern of their path, in which # replaces digits: the 100 patterns with the most time, \
        and all remaining ones as (other patterns).";
    const FIELDS: &'static str = "\
        a list of the 100 patterns with the most time: `pattern` (a path with `#` instead of digits; the last may be \
        `(other patterns)`), `names` (the path with `*` instead of the numbers in which its files differ), `files`, \
        `users` (pairs of a file and a program image that used it), and the remaining fields as in `files`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/patterns.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let paths = trace.catalog.files();
        let mut users = vec![0u64; paths.len()];
        analysis.counted.users.iter().for_each(|user| users[(user >> 32) as usize] += 1);
        let mut found: BTreeMap<String, (Glob, u64, u64, Use)> = BTreeMap::new();
        for (path, count, users) in used(analysis, &paths, &users) {
            let (names, files, sum_users, sum) = found.entry(pattern(path)).or_default();
            names.add(path);
            *files += (path != OTHER_FILES) as u64;
            *sum_users += users;
            sum.add(count);
        }
        let rows = found.into_iter().map(|(pattern, (names, files, users, use_))| {
            let names = names.text();
            PatternUse { pattern, names, files, users, use_ }
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| b.use_.time_ns.cmp(&a.use_.time_ns).then_with(|| a.pattern.cmp(&b.pattern)));
        if rows.len() > LISTED {
            let rest = rows.split_off(LISTED);
            let names = OTHERS.to_string();
            let mut sum = PatternUse { pattern: names.clone(), names, files: 0, users: 0, use_: Use::default() };
            rest.iter().for_each(|row| {
                sum.files += row.files;
                sum.users += row.users;
                sum.use_.include(&row.use_);
            });
            rows.push(sum);
        }
        rows
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        if summary.patterns.is_empty() {
            return;
        }
        heading("Names of files", out);
        let mut grid = Grid::new(&["<pattern", "files", "events", "opens", "read", "written", "time"]);
        for row in summary.patterns.iter().take(top) {
            grid.row([row.pattern.clone(), dash(row.files)].into_iter().chain(use_cells(&row.use_)).collect());
        }
        grid.print(out);
        more(summary.patterns.len(), top, out);
    }
}
