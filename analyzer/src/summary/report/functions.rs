//! Calls by name.

use std::borrow::Cow;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::catalog::{Kind, Origin};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::{KindCount, kind_of};
use crate::summary::count::kinds::{ABOVE, is_wait};
use crate::summary::figures::quantiles::{Counts, Quantiles, quantiles};
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::layout::{dash, heading, more};
use crate::text_table::Grid;

/// One kind of call, or one span name.
#[derive(Serialize, Deserialize, Debug)]
pub struct Function {
    pub name: String,
    pub cat: String,
    pub class: Cow<'static, str>,
    pub count: u64,
    pub failed: u64,
    pub time_ns: u64,
    pub duration_ns: Quantiles,
    /// `null` if the call moves no bytes.
    pub bytes: Option<u64>,
    pub size: Option<Quantiles>,
}

/// The section on functions.
pub struct Functions;

impl Section for Functions {
    type Values = Vec<Function>;

    const MEANING: &'static str = "\
        Metrics by function: one row per function, for file calls and calls without a file. Calls on pipes, \
        sockets and terminals, and calls that wait, are listed under Calls not on files. Times are per call. Count, \
        sum, minimum, mean and maximum are exact. Quantiles of time are exact up to two million events and with \
        --exact, which reads the trace twice; otherwise they are within 0.4 %, in summary mode within 6.3 %. ~ marks \
        inexact numbers. Sizes are bytes moved by successful calls, and all their numbers are exact, except quantiles \
        in summary mode. Quantiles are interpolated between two neighboring values; in SQL, with a resolution of one millionth of the \
        difference between them. Per \
        second: bytes divided by time summed over calls.";
    const FIELDS: &'static str = "\
        a list: `name`, `cat`, `class`, `count`, `failed`, `time_ns`, `duration_ns`, `bytes`, `size`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/functions.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        rows(analysis, &trace.catalog.kinds(), Part::Files)
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let values = &summary.functions;
        print("Metrics by function", values, top, out);
    }
}

/// Tables of functions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Files,
    PastFiles,
    Spans,
}

impl Part {
    fn of(row: u32, kind: &Kind) -> Part {
        let past_files = kind_of(row).1 || is_wait(kind);
        match kind.origin {
            Origin::Call if past_files => Part::PastFiles,
            Origin::Call => Part::Files,
            _ => Part::Spans,
        }
    }
}

impl Function {
    /// Returns its name, with its layer if another function has the same name.
    pub fn named(&self, among: &[Function]) -> String {
        match among.iter().any(|other| other.name == self.name && other.cat != self.cat) {
            true => format!("{} ({})", self.name, self.cat),
            false => self.name.clone(),
        }
    }

    /// Returns `true` if its calls move or request data: other calls start processes, map memory or block.
    pub fn is_io(&self) -> bool {
        ["read", "write", "metadata", "sync"].contains(&self.class.as_ref())
    }
}

/// Returns calls that move or request data. Calls of higher layers (MPI-IO) are included only if no lower call moved
/// bytes, because both cover the same time.
pub fn beneath(functions: &[Function]) -> impl Iterator<Item = &Function> {
    let moves = |function: &Function| function.is_io() && function.cat != ABOVE && function.bytes.unwrap_or(0) > 0;
    let both = functions.iter().any(moves);
    let is_above = move |function: &Function| both && function.cat == ABOVE && function.bytes.is_some();
    functions.iter().filter(move |function| function.is_io() && !is_above(function))
}

/// Returns one row per kind of the selected part, the most time first.
pub(super) fn rows(analysis: &Analysis, kinds: &[Kind], wanted: Part) -> Vec<Function> {
    let sizes = analysis.counted.sizes.sorted();
    let durations = analysis.durations.as_ref().filter(|counts| !counts.rounded).map(Counts::sorted);
    let rows = analysis.rows(kinds).filter(|(row, kind, _)| Part::of(*row, kind) == wanted);
    let mut functions: Vec<_> = rows
        .filter_map(|(row, kind, count)| {
            let durations = durations.as_ref().map(|durations| of_kind(durations, row));
            let sizes = (of_kind(&sizes, row), !analysis.counted.sizes.rounded);
            function(kind, count, durations, sizes)
        })
        .collect();
    functions.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.name.cmp(&b.name)));
    functions
}

/// Values of one kind, with their frequency.
type Values<'a> = &'a [(u32, u64, u64)];

fn of_kind(values: Values<'_>, number: u32) -> Values<'_> {
    let from = values.partition_point(|(kind, ..)| *kind < number);
    let to = values.partition_point(|(kind, ..)| *kind <= number);
    &values[from..to]
}

fn duration(count: &KindCount, values: Option<Values>) -> Option<Quantiles> {
    let values: Option<Vec<_>> = values.map(|values| values.iter().map(|(_, value, n)| (*value, *n)).collect());
    let exact = values.and_then(|values| count.durations.refined(&values));
    exact.or_else(|| count.durations.quantiles())
}

fn function(
    kind: &Kind,
    count: &KindCount,
    durations: Option<Values>,
    (sizes, exact): (Values, bool),
) -> Option<Function> {
    let steps = sizes.iter().map(|(_, value, n)| (*value as f64, *n));
    Some(Function {
        name: kind.name.to_string(),
        cat: kind.cat.to_string(),
        class: kind.class.name().into(),
        count: count.durations.count,
        failed: count.failed,
        time_ns: count.durations.sum as u64,
        duration_ns: duration(count, durations)?,
        bytes: (count.sized > 0).then_some(count.bytes as u64),
        size: quantiles(steps, count.sized, count.bytes, exact),
    })
}

impl Quantiles {
    /// Returns the minimum, lower quartile, mean, median, upper quartile and maximum as table cells.
    fn cells(&self, shown: fn(f64) -> String) -> [String; 6] {
        let quantile = |value: f64| self.quantile(value, shown);
        [
            shown(self.min),
            quantile(self.p25),
            shown(self.mean),
            quantile(self.median),
            quantile(self.p75),
            shown(self.max),
        ]
    }

    /// Returns a quantile, marked if it is not exact; the ends are always exact, and so are all quantiles of equal
    /// values.
    fn quantile(&self, value: f64, shown: fn(f64) -> String) -> String {
        let is_exact = self.exact || self.min == self.max;
        if is_exact { shown(value) } else { format!("~{}", shown(value)) }
    }

    /// Returns the median, marked if it is inexact.
    pub fn median_time(&self) -> String {
        self.quantile(self.median, time)
    }
}

/// Explains the mark of inexact quantiles; `None` if there are none.
pub fn inexactness(summary: &Summary) -> Option<&'static str> {
    match &summary.tally {
        _ if summary.is_exact() => None,
        Some(tally) if tally.untimed > 0 => {
            Some("~, min: from means per file, as a Darshan log has no time of each call.")
        }
        Some(_) => Some("~ is within 6.3 %: calls were counted, not recorded."),
        None => Some("~ is within 0.4 %; --exact reads the trace twice for exact values."),
    }
}

/// Prints rows, then the sizes of the calls that moved bytes.
pub(super) fn print(title: &str, functions: &[Function], top: usize, out: &mut String) {
    if functions.is_empty() {
        return;
    }
    heading(title, out);
    let mut grid =
        Grid::new(&["<function", "<cat", "count", "failed", "time", "min", "25 %", "mean", "median", "75 %", "max"]);
    for function in functions.iter().take(top) {
        let head = [function.name.clone(), function.cat.clone(), grouped(function.count), dash(function.failed)];
        let times = function.duration_ns.cells(time);
        grid.row(head.into_iter().chain([time(function.time_ns as f64)]).chain(times).collect());
    }
    grid.print(out);
    more(functions.len(), top, out);
    sizes(functions, top, out);
}

fn sizes(functions: &[Function], top: usize, out: &mut String) {
    let sized: Vec<_> = functions.iter().filter_map(|f| f.size.map(|size| (f, size))).collect();
    if sized.is_empty() {
        return;
    }
    out.push('\n');
    let mut grid = Grid::new(&["<bytes moved by", "sum", "per second", "min", "25 %", "mean", "median", "75 %", "max"]);
    for (function, size) in sized.iter().take(top) {
        let sum = function.bytes.unwrap_or(0) as f64;
        let rate = if function.time_ns > 0 { bytes(sum * 1e9 / function.time_ns as f64) } else { "-".into() };
        grid.row([function.named(functions), bytes(sum), rate].into_iter().chain(size.cells(bytes)).collect());
    }
    grid.print(out);
    let silent = functions.iter().filter(|function| function.size.is_none());
    let silent: Vec<_> = silent.map(|function| function.name.as_str()).take(top).collect();
    if !silent.is_empty() {
        let _ = writeln!(out, "  {} moved no bytes.", silent.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_that_may_be_off_are_marked_and_nothing_else() {
        let values =
            Quantiles { min: 1.0, p25: 2.0, mean: 3.0, median: 4.0, p75: 5.0, max: 8.0, ..Quantiles::default() };
        let plain = |value: f64| value.to_string();
        assert_eq!(values.cells(plain), ["1", "~2", "3", "~4", "~5", "8"]);
        assert_eq!(Quantiles { exact: true, ..values }.cells(plain), ["1", "2", "3", "4", "5", "8"]);
        assert_eq!(Quantiles { max: 1.0, ..values }.cells(plain)[3], "4", "all values are one");
    }
}
