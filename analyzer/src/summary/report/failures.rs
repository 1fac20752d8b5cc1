//! Failed file calls, by error.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::errno;
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::kind_of;
use crate::summary::figures::units::{grouped, time};
use crate::summary::files::access::Failures as Count;
use crate::summary::report::layout::{heading, more};
use crate::text_table::Grid;

/// Calls of a function that failed with one error.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct FailureUse {
    pub name: String,
    pub cat: String,
    pub class: String,
    /// `null` if the trace does not contain the error number.
    pub errno: Option<i32>,
    /// Name of the error, such as `ENOENT`.
    pub error: String,
    pub count: u64,
    pub time_ns: u64,
    /// File of the first failed call.
    pub file: Option<String>,
}

/// The section on failures.
pub struct Failures;

impl Section for Failures {
    type Values = Vec<FailureUse>;

    const MEANING: &'static str = "\
        Failures: file calls that failed, by function and error, with the file of the first one. A missing file \
        can be a normal result: programs search for files in several places.";
    const FIELDS: &'static str = "\
        a list, by `name`, `cat` and `errno` (`null`: the error number is unknown): `class`, `error` (such as \
        `ENOENT`), `count`, `time_ns`, `file` (of the first)";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/failures.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let kinds = trace.catalog.kinds();
        let row = |(&(row, number), found): (&(u32, i32), &Count)| {
            let kind = kinds.get(kind_of(row).0 as usize)?;
            let file = trace.catalog.path(found.first.1);
            Some(FailureUse {
                name: kind.name.to_string(),
                cat: kind.cat.to_string(),
                class: kind.class.name().into(),
                errno: (number != 0).then_some(number),
                error: errno::name(number).unwrap_or_default().to_string(),
                count: found.count,
                time_ns: found.time_ns,
                file: (!file.is_empty()).then(|| file.to_string()),
            })
        };
        let mut rows: Vec<_> = analysis.counted.access.failures.iter().filter_map(row).collect();
        rows.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| (&a.name, &a.cat, a.errno).cmp(&(&b.name, &b.cat, b.errno)))
        });
        rows
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        if summary.failures.is_empty() {
            return;
        }
        heading("Failures", out);
        let mut grid = Grid::new(&["<function", "<error", "calls", "time", "<first file"]);
        for row in summary.failures.iter().take(top) {
            let error = if row.error.is_empty() { "unknown".into() } else { row.error.clone() };
            let file = row.file.clone().unwrap_or_default();
            grid.row(vec![row.name.clone(), error, grouped(row.count), time(row.time_ns as f64), file]);
        }
        grid.print(out);
        more(summary.failures.len(), top, out);
    }
}
