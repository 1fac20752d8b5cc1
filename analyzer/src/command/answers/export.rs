//! `--export FILE`: exports the events for a viewer, in the format that the file's extension selects.
//!
//! `--perfetto`, `--chrome` and `--dftracer` do so for a file of any name.

use std::path::{Path, PathBuf};

use super::answer::Answer;
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::export_trace::{Choice, compression, write};
use crate::command::outcome::Outcome;
use crate::command::output_path::must_be_free;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;
use crate::viewer::forms::Form;

struct Export {
    files: Vec<(PathBuf, Form)>,
    /// `true` if every event is written, regardless of their number.
    all: bool,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let files = files(typed);
    (!files.is_empty()).then(|| Box::new(Export { files, all: typed.all }) as Box<dyn Answer>)
}

fn files(typed: &Arguments) -> Vec<(PathBuf, Form)> {
    let packets = compression(typed);
    let has = |path: &Path, extension: &str| path.extension().is_some_and(|found| found == extension);
    let perfetto = typed.perfetto.iter().map(|path| {
        let ending = if has(path, "tar") { "tar" } else { "pftrace" };
        (path.clone(), Form::named(ending, packets, false))
    });
    let chrome = typed.chrome.iter().map(|path| {
        let ending = if typed.dftracer { "pfw" } else { "json" };
        (path.clone(), Form::named(ending, packets, has(path, "gz")))
    });
    let by_extension = typed.export.iter().filter_map(|path| Some((path.clone(), Form::of(path, packets)?)));
    perfetto.chain(chrome).chain(by_extension).collect()
}

impl Answer for Export {
    fn check(&mut self, question: &Question) -> Result<(), Failure> {
        self.files.iter().try_for_each(|(path, _)| must_be_free(question, path))
    }

    fn give(&mut self, trace: &SharedTrace, _: &mut Output) -> Result<Outcome, Failure> {
        let opened = trace.open_rows()?;
        for (path, form) in &self.files {
            write(&trace.question, opened, Choice { form: *form, all: self.all, relations: false }, path)?;
        }
        Ok(Outcome::default())
    }
}
