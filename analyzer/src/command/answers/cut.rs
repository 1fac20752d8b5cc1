//! `--cut DIR`: writes the selected events as a smaller trace, which every tool reads like the whole one.
//!
//! The events become one `.pftrace`, from which the analyzer computes the same results as from any other format. The
//! samples of hosts are copied, and `origin.txt` names the whole trace, from which another part can be cut.

use std::path::{Path, PathBuf};

use dlio_schemas::native::untraced;

use super::answer::Answer;
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::export_trace::{Choice, compression, write};
use crate::command::outcome::Outcome;
use crate::command::output_path::must_be_free;
use crate::command::question::Question;
use crate::command::refusals::destination::Destination;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;
use crate::load::inputs;
use crate::load::origin::{self, Window};
use crate::unfinished::unless_finished;
use crate::viewer::forms::Form;

/// The file with the events.
const EVENTS: &str = "cut.pftrace";

struct Cut {
    folder: PathBuf,
    form: Form,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let folder = typed.cut.clone()?;
    Some(Box::new(Cut { folder, form: Form::named("pftrace", compression(typed), false) }) as Box<dyn Answer>)
}

impl Answer for Cut {
    fn check(&mut self, question: &Question) -> Result<(), Failure> {
        if question.selection.is_empty() {
            let why = "--cut writes a part of a trace, and no filter selects one; add --step, --epoch, --from and --to, \
                       --rank or another filter";
            return Err(Failure::WithoutEffect(why.into()));
        }
        must_be_free(question, &self.folder.join(EVENTS))?;
        let has_content = std::fs::read_dir(&self.folder).is_ok_and(|mut entries| entries.next().is_some());
        if has_content || self.folder.is_file() {
            Err(Destination::Occupied(self.folder.clone()).into())
        } else {
            Ok(())
        }
    }

    fn give(&mut self, trace: &SharedTrace, _: &mut Output) -> Result<Outcome, Failure> {
        let opened = trace.open_rows()?;
        let question = &trace.question;
        let failed = |error| Failure::unwritable(&self.folder, error);
        let is_new = !self.folder.exists();
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
        let unfinished = self.folder.clone();
        let removal = unless_finished(move || remove(&unfinished, is_new));
        let written =
            write(question, opened, Choice { form: self.form, all: true, relations: true }, &self.folder.join(EVENTS))
                .and_then(|()| self.add_companions(question, (opened.filter.from, opened.filter.to)));
        drop(removal);
        if written.is_err() {
            remove(&self.folder, is_new);
        }
        written.map(|()| Outcome::default())
    }
}

impl Cut {
    /// Copies the files without events that belong to the trace, and writes its origin.
    fn add_companions(&self, question: &Question, window: Window) -> Result<(), Failure> {
        let failed = |error| Failure::unwritable(&self.folder, error);
        let found = inputs::find(&question.traces).map_err(Failure::Load)?;
        for path in &found.machines {
            std::fs::copy(path, self.folder.join(path.file_name().unwrap_or_default())).map_err(failed)?;
        }
        let lists: Vec<Vec<u8>> = found.untraced.iter().filter_map(|path| std::fs::read(path).ok()).collect();
        if !lists.is_empty() {
            std::fs::write(self.folder.join(untraced::LIST), lists.concat()).map_err(failed)?;
        }
        let command: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        origin::write(&self.folder, &question.traces, &command, window).map_err(failed)
    }
}

/// Removes the incomplete trace. A directory that existed was empty.
fn remove(folder: &Path, is_new: bool) {
    if is_new {
        let _ = std::fs::remove_dir_all(folder);
    } else {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .for_each(|file| drop(std::fs::remove_file(file.path())));
    }
}
