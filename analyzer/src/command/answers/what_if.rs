//! `--what-if CHANGE`: predicts the training time with a change.

use dlio_schemas::visible::visible;
use serde_json::{Map, json};

use super::answer::{Answer, print};
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::report::check_format;
use crate::command::shared_trace::SharedTrace;
use crate::replay::change::Change;
use crate::summary::report::flat;
use crate::summary::report::markdown::markdown;
use crate::summary::report::what_if::{replay, table};
use crate::tables::output::Format;

struct WhatIf {
    changes: Vec<Change>,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let changes = typed.what_if.clone();
    (!changes.is_empty()).then(|| Box::new(WhatIf { changes }) as Box<dyn Answer>)
}

impl Answer for WhatIf {
    fn check(&mut self, question: &Question) -> Result<(), Failure> {
        check_format(question.format)
    }

    fn give(&mut self, trace: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        let opened = trace.open()?;
        opened.analyse(&trace.question)?;
        let analysis = opened.analysis.borrow();
        let analysis = analysis.as_ref().expect("it was counted");
        let found = replay(analysis, &opened.trace, Some(&self.changes));
        let values = || Map::from_iter([("what_if".to_string(), json!(found))]);
        let text = match (trace.question.format, &found) {
            (Format::Json, _) => serde_json::to_string_pretty(&values()).expect("plain values") + "\n",
            (Format::Csv, _) => flat::csv(&values()),
            (_, Some(found)) => format!("What would help\n{}", table(found, trace.question.width)),
            (_, None) => "The trace has no training that could be replayed.\n".into(),
        };
        let text = if trace.question.format == Format::Markdown { markdown(&text) } else { text };
        print(&visible(&text), out)
    }
}
