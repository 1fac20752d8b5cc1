//! Which part of a data set is in the page cache before an epoch, and how to drop this part.

use crate::data_set::layout::{Layout, Split};
use crate::store;
use crate::system::buffer::resident_pages;
use crate::system::file_calls::{self, UnseenFile, is_on_this_machine};
use std::io::ErrorKind;
use std::path::PathBuf;

/// Files inspected: enough for an estimate within a few percent, few enough to cost milliseconds.
const PROBES: u64 = 64;

fn probes(layout: &Layout, split: Split) -> impl Iterator<Item = PathBuf> + '_ {
    let files = layout.files(split);
    let step = files.div_ceil(PROBES).max(1);
    (0..files).step_by(step as usize).map(move |number| layout.path(split, number))
}

/// Returns the share of the training files' pages in memory, measured on some of them; `None` if it cannot be measured.
/// A file whose name is not in memory is not opened, because this would warm up the caches that the epoch is about to measure.
pub fn share(layout: &Layout) -> Option<f64> {
    let folder = &layout.dataset.folder;
    if store::is_object(folder) {
        return None;
    }
    let (mut resident, mut pages, mut opened, mut cold) = (0, 0, 0, 0);
    for path in probes(layout, Split::Train) {
        let Some(file) = UnseenFile::open_if_in_memory(&path).ok()? else {
            cold += 1;
            continue;
        };
        let (here, all) = resident_pages(&file, file.length().ok()? as usize).ok()?;
        resident += here;
        pages += all;
        opened += 1;
    }
    if cold > 0 && !is_on_this_machine(folder) {
        return None;
    }
    match (pages, cold) {
        (0, 0) => None,
        (0, _) => Some(0.0),
        // Files that were not opened count as files of average length.
        _ => Some(resident as f64 / pages as f64 * opened as f64 / (opened + cold) as f64),
    }
}

/// How the cache was emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropMethod {
    /// For the whole host, as root.
    Everything,
    /// File by file, except for files that another process uses.
    FileByFile,
}

pub fn empty(layout: &Layout) -> std::io::Result<DropMethod> {
    // Reads of objects bypass the page cache.
    if store::is_object(&layout.dataset.folder) || file_calls::drop_page_cache().is_ok() {
        return Ok(DropMethod::Everything);
    }
    for split in [Split::Train, Split::Valid] {
        for number in 0..layout.files(split) {
            match UnseenFile::open(&layout.path(split, number)) {
                // There may be no data for evaluation.
                Err(error) if error.kind() == ErrorKind::NotFound && split == Split::Valid => break,
                opened => opened?.forget_pages()?,
            }
        }
    }
    Ok(DropMethod::FileByFile)
}
