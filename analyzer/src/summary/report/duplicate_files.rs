//! Files of which something was read from other files, so that it counts once.

use std::fmt::Write;

use super::{Section, Summary};
use crate::load::Trace;
use crate::load::sources::duplicates::PassedOver;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::grouped;
use crate::summary::report::layout::{SHOWN, heading, more};

/// See the module.
pub struct PassedOvers;

impl Section for PassedOvers {
    type Values = Vec<PassedOver>;

    const MEANING: &'static str = "\
        Passed over: files whose processes other files have too, in another form, or that are copies: what \
        they hold is read once.";
    const FIELDS: &'static str = "\
        a list of files whose processes other files have too, in another form: `path`, `processes` (how many \
        are not read; zero where the whole file is a copy), `instead` (a file that has the first of them)";
    const FIRST: bool = true;

    fn values(_analysis: &Analysis, trace: &Trace) -> Self::Values {
        trace.passed_over.clone()
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        let values = &summary.passed_over;
        if values.is_empty() {
            return;
        }
        heading("Passed over, because other files hold the same processes", out);
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
