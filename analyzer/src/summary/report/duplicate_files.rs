//! Duplicate files: their processes were read from other files, so that nothing counts twice.

use std::fmt::Write;

use super::{Section, Summary};
use crate::load::Trace;
use crate::load::sources::duplicates::PassedOver;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::grouped;
use crate::summary::report::layout::{SHOWN, heading, more};

/// The section on duplicate files.
pub struct PassedOvers;

impl Section for PassedOvers {
    type Values = Vec<PassedOver>;

    const MEANING: &'static str = "\
        Duplicate files: files that are copies, or whose processes are also in other files in another format. Their \
        contents are read once.";
    const FIELDS: &'static str = "\
        a list of files that are copies or whose processes are also in other files, in another format: `path`, \
        `processes` (how many are skipped; zero if the whole file is a copy), `instead` (a file that contains the \
        first of them)";
    const FIRST: bool = true;

    fn values(_analysis: &Analysis, trace: &Trace) -> Self::Values {
        trace.passed_over.clone()
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        let values = &summary.passed_over;
        if values.is_empty() {
            return;
        }
        heading("Skipped, because other files contain the same processes", out);
        for passed in values.iter().take(SHOWN) {
            let what = match passed.processes {
                0 => "a copy".to_string(),
                processes => format!("{} of its processes", grouped(processes)),
            };
            let _ = writeln!(out, "  {}: {what}; {} is read instead", passed.path, passed.instead);
        }
        more(values.len(), SHOWN, out);
    }
}
