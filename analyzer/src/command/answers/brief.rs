//! `--brief`: the result in at most 2,000 tokens, as JSON.

use super::answer::{Answer, print};
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;
use crate::summary::report::brief;

struct Brief;

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    typed.brief.then(|| Box::new(Brief) as Box<dyn Answer>)
}

impl Answer for Brief {
    fn check(&mut self, _: &Question) -> Result<(), Failure> {
        Ok(())
    }

    fn give(&mut self, trace: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        let text = brief::print(&trace.report()?.summary, &trace.question.traces);
        let outcome = print(&text, out)?;
        trace.keep_report();
        Ok(outcome)
    }
}
