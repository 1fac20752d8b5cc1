//! `--workload FILE`: derives a workload that reproduces the I/O of the trace.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::answer::{Answer, print};
use crate::atomic_file::{AtomicFile, Output};
use crate::command::arguments::Arguments;
use crate::command::observe_run::observe_run;
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::destination::Destination;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;
use crate::workload::entry::Confidence;
use crate::workload::{Workload, derive};

struct WorkloadFile {
    /// The output path; `-` is standard output.
    path: PathBuf,
    /// The output file, created before the long work.
    draft: Option<AtomicFile>,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let path = typed.workload.clone()?;
    Some(Box::new(WorkloadFile { path, draft: None }))
}

impl WorkloadFile {
    fn is_stdout(&self) -> bool {
        self.path == Path::new("-")
    }
}

impl Answer for WorkloadFile {
    fn check(&mut self, question: &Question) -> Result<(), Failure> {
        if self.path.is_file() && !question.replaces {
            return Err(Destination::Exists(self.path.clone()).into());
        }
        if !self.is_stdout() {
            self.draft = Some(AtomicFile::new(&self.path).map_err(|error| Failure::unwritable(&self.path, error))?);
        }
        Ok(())
    }

    /// Derives the workload, writes it, and prints how to run it.
    fn give(&mut self, trace: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        let given = &trace.question.traces;
        let run = observe_run(&trace.question, given)?;
        let named = if self.is_stdout() { "job.yaml".to_string() } else { self.path.display().to_string() };
        let workload = derive(&run.behaviour, &run.trace, given, &named)
            .map_err(|refusal| Failure::NoWorkload(given.join(" "), refusal))?;
        let printed = match self.draft.take() {
            None => workload.yaml(),
            Some(mut draft) => {
                let written = draft.write_all(workload.yaml().as_bytes()).and_then(|()| draft.commit());
                written.map_err(|error| Failure::unwritable(&self.path, error))?;
                announcement(&workload, &named)
            }
        };
        print(&printed, out)?;
        Ok(Outcome { lacking: run.lacking, ..Outcome::default() })
    }
}

fn announcement(workload: &Workload, file: &str) -> String {
    let count = |confidence: Confidence| workload.entries.iter().filter(|entry| entry.confidence == confidence).count();
    let guessed: Vec<_> =
        workload.entries.iter().filter(|entry| entry.confidence == Confidence::Guess).map(|entry| entry.key).collect();
    let guesses = match guessed.len() {
        0 => String::new(),
        _ => format!("Not in the trace, please check: {}.\n", guessed.join(", ")),
    };
    format!(
        "{file}: {} values are certain, {} likely, {} guessed.\n{guesses}Run it with\n    dlio bench \
         workload={file}\nTo compare the workload with the program, use the commands at the top of the file. The first \
         one generates the data in advance, so that generating them does not count as I/O of the traced run.\n",
        count(Confidence::Certain),
        count(Confidence::Likely),
        count(Confidence::Guess)
    )
}
