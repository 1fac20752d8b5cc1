//! Reads reports that were written earlier, with `--format json`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::compare::run::SCHEMA;

/// Reports are small; a longer file with such a start is something else.
const REPORT_MAX: u64 = 256 << 20;

/// Returns the text of a file if it is a report.
pub fn read_report(path: &Path) -> Option<String> {
    is_report(path).then(|| std::fs::read_to_string(path).ok())?
}

/// Returns `true` if a file starts like a report.
pub fn is_report(path: &Path) -> bool {
    begins_like_one(path) == Some(true)
}

fn begins_like_one(path: &Path) -> Option<bool> {
    let meta = std::fs::metadata(path).ok().filter(|meta| meta.is_file() && meta.len() < REPORT_MAX)?;
    let mut start = [0; 256];
    let length = File::open(path).and_then(|mut file| file.read(&mut start)).ok()?;
    let start = String::from_utf8_lossy(&start[..length.min(meta.len() as usize)]);
    Some(start.trim_start().starts_with('{') && start.contains(SCHEMA))
}
