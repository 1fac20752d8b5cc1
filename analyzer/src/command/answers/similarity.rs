//! `--compare OTHER --similarity`: shows how similar the I/O of two runs is.

use std::path::PathBuf;

use super::answer::{Answer, print};
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::observe_run::observe_run;
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::refusals::incomparable::Incomparable;
use crate::command::shared_trace::SharedTrace;
use crate::similarity::{Side, similarity, text};
use crate::tables::output::Format;

struct Similarity {
    other: Vec<String>,
    /// `true` if the side of `--compare` precedes the other on the command line.
    other_first: bool,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let similarity = Similarity { other: typed.compare.clone(), other_first: typed.compared_first };
    typed.similarity.then(|| Box::new(similarity) as Box<dyn Answer>)
}

impl Answer for Similarity {
    fn check(&mut self, question: &Question) -> Result<(), Failure> {
        match question.format {
            Format::Text | Format::Json => {}
            other => return Err(Incomparable::SimilarityFormat(other).into()),
        }
        match (question.traces.len(), self.other.len()) {
            (1, 1) => Ok(()),
            _ => Err(Incomparable::TwoRuns.into()),
        }
    }

    fn give(&mut self, trace: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        let question = &trace.question;
        let mut lacking = false;
        let typed = side(question, &question.traces[0], &mut lacking)?;
        let other = side(question, &self.other[0], &mut lacking)?;
        let (before, after) = if self.other_first { (other, typed) } else { (typed, other) };
        let similarity = similarity(&before, &after);
        let printed = match question.format {
            Format::Json => serde_json::to_string_pretty(&similarity).expect("plain values that are finite") + "\n",
            _ => text::print(&similarity, question.width),
        };
        print(&printed, out)?;
        Ok(Outcome { lacking, ..Outcome::default() })
    }
}

fn side(question: &Question, typed: &str, lacking: &mut bool) -> Result<Side, Failure> {
    let run = observe_run(question, &[typed.to_string()])?;
    *lacking |= run.lacking;
    if run.behaviour.analysis.events() == 0 {
        let why = "it contains no events, or none that match the filters".to_string();
        return Err(Incomparable::Report(PathBuf::from(typed), why).into());
    }
    Ok(Side::of(typed, &run.behaviour))
}
