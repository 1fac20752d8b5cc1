//! `--parquet DIR`: writes the tables as Parquet files.

use std::path::{Path, PathBuf};

use super::answer::Answer;
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::open_trace::OpenTrace;
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::destination::Destination;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;
use crate::command::{progress, workers};
use crate::scan::Progress;
use crate::tables::export::{self, ExistingExport, ReportOptions};

struct Parquet {
    folder: PathBuf,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let folder = typed.parquet.clone()?;
    Some(Box::new(Parquet { folder }))
}

impl Answer for Parquet {
    fn check(&mut self, _: &Question) -> Result<(), Failure> {
        must_be_empty(&self.folder)
    }

    fn give(&mut self, trace: &SharedTrace, _: &mut Output) -> Result<Outcome, Failure> {
        let opened = trace.open_rows()?;
        if !written_by_workers(&trace.question, opened, &self.folder)? {
            write(&trace.question, opened, &self.folder)?;
        }
        Ok(Outcome::default())
    }
}

/// Rejects a directory with content, unless that is a partial export of a killed writer.
fn must_be_empty(folder: &Path) -> Result<(), Failure> {
    match export::before(folder).map_err(|error| Failure::unwritable(folder, error))? {
        ExistingExport::Nothing => Ok(()),
        ExistingExport::Half => {
            notice!("dlio-analyze: {}: replacing an incomplete export, whose writer was killed", folder.display());
            Ok(())
        }
        ExistingExport::Written => Err(Destination::BeingWritten(folder.to_path_buf()).into()),
        ExistingExport::Other => Err(Destination::NotEmpty(folder.to_path_buf()).into()),
    }
}

/// Lets workers write, if there are any. They count first, because files are numbered in the order of the count.
fn written_by_workers(question: &Question, opened: &OpenTrace, folder: &Path) -> Result<bool, Failure> {
    let Some(inputs) = &opened.workers else { return Ok(false) };
    opened.analyse(question)?;
    let analysis = opened.analysis.borrow();
    let analysis = analysis.as_ref().expect("it was counted");
    workers::write_parquet(question, inputs, (&opened.trace, &opened.filter), analysis, folder)
}

fn write(question: &Question, opened: &OpenTrace, folder: &Path) -> Result<(), Failure> {
    let (trace, resources) = (&opened.trace, (question.threads, question.memory));
    let progress = Progress::default();
    let report = ReportOptions { limits: question.limits.clone(), exact: question.exact };
    let work = || export::write(trace, &opened.filter, resources, &report, &progress, folder);
    progress::shown(&progress, trace.size(), question.progress, work)
        .map(|_| ())
        .map_err(|error| Destination::Parquet(folder.to_path_buf(), error).into())
}
