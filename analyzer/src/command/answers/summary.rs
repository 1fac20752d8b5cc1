//! The summary: the default answer, `--full`, `--section NAME` and `--findings`.

use dlio_schemas::visible::visible;
use serde_json::{Map, Value};

use super::answer::{Answer, print};
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::report::{Report, check_format};
use crate::command::shared_trace::SharedTrace;
use crate::summary::report;
use crate::summary::report::markdown::markdown;
use crate::summary::report::screen::Page;
use crate::summary::report::{flat, screen, text};
use crate::tables::output::Format;

struct Summary {
    /// `true` if all tables are printed instead of one screen.
    full: bool,
    /// The sections that are printed alone; empty for all. Findings are a section.
    sections: Vec<String>,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let findings = typed.findings.then(|| "findings".to_string());
    let sections = findings.into_iter().chain(typed.section.iter().cloned()).collect();
    typed.prints_report().then(|| Box::new(Summary { full: typed.full, sections }) as Box<dyn Answer>)
}

impl Answer for Summary {
    fn check(&mut self, question: &Question) -> Result<(), Failure> {
        check_format(question.format)
    }

    fn give(&mut self, trace: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        let printed = self.printed(&trace.question, trace.report()?);
        let outcome = print(&printed, out)?;
        trace.keep_report();
        Ok(outcome)
    }
}

impl Summary {
    fn printed(&self, question: &Question, Report { summary, remembered }: &Report) -> String {
        match question.format {
            Format::Json => serde_json::to_string_pretty(&self.values(summary)).expect("plain values") + "\n",
            Format::Csv => flat::csv(&self.values(summary)),
            _ => {
                let mut text = visible(&self.text(question, summary));
                if *remembered {
                    text.push_str("From an earlier run, and no file has changed since; --no-cache counts again.\n");
                }
                if question.format == Format::Markdown { markdown(&text) } else { text }
            }
        }
    }

    /// Returns the report as plain values. If sections were requested, it contains only them, the schema, and the name
    /// of the run if there are several.
    fn values(&self, summary: &report::Summary) -> Map<String, Value> {
        let mut values = summary.values();
        if !self.sections.is_empty() && !self.full {
            let several = summary.runs.len() > 1;
            let is_kept = |name: &str| ["schema", "version"].contains(&name) || several && name == "runs";
            values.retain(|name, _| is_kept(name) || self.sections.contains(name));
        }
        values
    }

    fn text(&self, question: &Question, summary: &report::Summary) -> String {
        let (rows, width) = (question.top.unwrap_or(report::ROWS), question.width);
        match (self.full, self.sections.is_empty()) {
            (true, _) => text::print(summary, (rows, width)),
            (_, true) => screen::print(summary, Page { width, rows: question.top }),
            (_, false) => text::print_some(summary, &self.sections, (question.top, width)),
        }
    }
}
