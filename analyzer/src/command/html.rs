//! The report as a page: where it goes, and what is in it.

use std::io::Write;
use std::path::Path;

use super::arguments::Arguments;
use super::exports;
use super::failure::Failure;
use crate::draft::Draft;
use crate::html::page;
use crate::html::sections::Meaning;
use crate::summary::report::{SECTIONS, Summary};

/// Whether the page can be written where it is to go: known before the long work.
pub fn asked(arguments: &Arguments) -> Result<(), Failure> {
    arguments.html.iter().try_for_each(|path| exports::must_be_free(arguments, path))
}

/// Writes it.
pub fn write(arguments: &Arguments, summary: &Summary, path: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::Output(path.to_path_buf(), error);
    let report = serde_json::to_value(summary).expect("a summary of plain values");
    let meanings: Vec<_> = SECTIONS.iter().map(|about| Meaning { name: about.name, meaning: about.meaning }).collect();
    let page = page(&report, &meanings, &arguments.traces.join(" "));
    let mut draft = Draft::new(path).map_err(failed)?;
    draft.write_all(page.as_bytes()).map_err(failed)?;
    draft.commit().map_err(failed)?;
    notice!("dlio-analyze: the report is {} ({:.1} MB)", path.display(), page.len() as f64 / 1e6);
    Ok(())
}
