//! `--html FILE`: writes the report as an HTML page.

use std::path::{Path, PathBuf};

use super::answer::Answer;
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::outcome::Outcome;
use crate::command::output_path::must_be_free;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::report::check_format;
use crate::command::report_page::write_report;
use crate::command::shared_trace::SharedTrace;

struct Html {
    path: PathBuf,
    /// `true` if the report is printed too, which begins with the verdict box.
    is_printed: bool,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let path = typed.html.clone()?;
    Some(Box::new(Html { path, is_printed: typed.prints_report() }))
}

impl Answer for Html {
    fn check(&mut self, question: &Question) -> Result<(), Failure> {
        must_be_free(question, &self.path)?;
        check_format(question.format)
    }

    fn give(&mut self, trace: &SharedTrace, _: &mut Output) -> Result<Outcome, Failure> {
        let report = trace.report()?;
        let (report, headline) = (
            serde_json::to_value(&report.summary).expect("a summary of plain values"),
            report.summary.headline.lines(trace.question.width),
        );
        write_report(&report, &trace.question.traces.join(" "), &self.path)?;
        if self.path != Path::new("-") && !self.is_printed {
            notice!("{}", headline.trim_end());
        }
        trace.keep_report();
        Ok(Outcome::default())
    }
}
