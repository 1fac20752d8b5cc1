//! Spans of the program, by name and category.

use super::functions::{self, Function, Part};
use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;

/// The section on spans.
pub struct Spans;

impl Section for Spans {
    type Values = Vec<Function>;

    const MEANING: &'static str = "\
        Spans: the program's own spans, by name and category.";
    const FIELDS: &'static str = "\
        a list, as `functions`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/spans.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        functions::rows(analysis, &trace.catalog.kinds(), Part::Spans)
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let values = &summary.spans;
        functions::print("Spans", values, top, out);
    }
}
