//! What machines were doing while commands ran: files beside the traces, which no reader of events ever sees.

use std::io::Read;
use std::path::{Path, PathBuf};

use dlio_schemas::machine::samples::Samples;

use super::bytes::trace_file::StoredFile;

/// More of a file is not read: a year of samples is less.
const SIZE_MAX: u64 = 256 << 20;

/// Reads all of them. One that cannot be read, or is of a later version, says nothing.
pub fn read(paths: &[PathBuf]) -> Vec<Samples> {
    paths.iter().filter_map(|path| one(path)).collect()
}

fn one(path: &Path) -> Option<Samples> {
    let mut bytes = Vec::new();
    StoredFile::open(path).ok()?.reader(0).take(SIZE_MAX).read_to_end(&mut bytes).ok()?;
    Samples::parse(&bytes)
}
