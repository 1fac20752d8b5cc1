//! `--explain [TOPIC]`: explains a section, a rule, a metric, or all of them.

use super::answer::{Answer, print};
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::explanations::{explained, suggestion};
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;

struct Explain {
    topic: String,
    text: String,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let topic = typed.explain.clone()?;
    Some(Box::new(Explain { topic, text: String::new() }))
}

impl Answer for Explain {
    fn check(&mut self, question: &Question) -> Result<(), Failure> {
        let text = explained(&self.topic, &question.limits, question.width);
        self.text = text.ok_or_else(|| Failure::NoTopic(suggestion(&self.topic), self.topic.clone()))?;
        Ok(())
    }

    fn give(&mut self, _: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        print(&self.text, out)
    }
}
