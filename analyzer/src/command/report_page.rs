//! Writes HTML pages of a report or a comparison.

use std::io::Write;
use std::path::Path;

use serde_json::Value;

use super::refusals::failure::Failure;
use super::stdout::WatchedStdout;
use crate::atomic_file::AtomicFile;
use crate::html::page;
use crate::html::sections::Meaning;
use crate::summary::figures::units::bytes;
use crate::summary::report::SECTIONS;
use crate::terminal::unbuffered_stdout;

/// Writes the page of a report.
pub fn write_report(report: &Value, trace: &str, path: &Path) -> Result<(), Failure> {
    let meanings: Vec<_> = SECTIONS.iter().map(|about| Meaning { name: about.name, meaning: about.meaning }).collect();
    write(path, &page(report, &meanings, trace))
}

/// Writes a page.
pub fn write(path: &Path, page: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        let mut out = WatchedStdout(unbuffered_stdout().map_err(Failure::Write)?);
        return out.write_all(page.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Write);
    }
    let failed = |error| Failure::unwritable(path, error);
    let mut draft = AtomicFile::new(path).map_err(failed)?;
    draft.write_all(page.as_bytes()).map_err(failed)?;
    draft.commit().map_err(failed)?;
    notice!("dlio-analyze: the report is {} ({})", path.display(), bytes(page.len() as f64));
    Ok(())
}
