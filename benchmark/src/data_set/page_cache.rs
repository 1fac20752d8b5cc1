//! The part of a data set in memory before an epoch, and how to get it out.

use crate::data_set::layout::{Layout, Split};
use crate::store;
use crate::system::buffer::resident_pages;
use crate::system::file_calls::{self, UnseenFile, is_on_this_machine};
use std::io::ErrorKind;
use std::path::PathBuf;

/// Files looked at: enough for a share good to a few per cent, few enough to cost milliseconds.
const PROBES: u64 = 64;

fn probes(layout: &Layout, split: Split) -> impl Iterator<Item = PathBuf> + '_ {
    let files = layout.files(split);
    let step = files.div_ceil(PROBES).max(1);
    (0..files).step_by(step as usize).map(move |number| layout.path(split, number))
}

/// Returns the share of the training files' pages in memory, measured on some of them; None if nobody may know. A file
/// whose name is not in memory is not opened: that would warm what the epoch is about to measure.
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
        // Those that were not opened count as files of average length.
        _ => Some(resident as f64 / pages as f64 * opened as f64 / (opened + cold) as f64),
    }
}

/// The way the cache was emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// The whole machine's, as root.
    Everything,
    /// File by file, as far as nobody else uses them.
    FileByFile,
}

pub fn empty(layout: &Layout) -> std::io::Result<Dropped> {
    // Objects are read past it, so there is nothing of them in it.
    if store::is_object(&layout.dataset.folder) || file_calls::drop_page_cache().is_ok() {
        return Ok(Dropped::Everything);
    }
    for split in [Split::Train, Split::Valid] {
        for number in 0..layout.files(split) {
            match UnseenFile::open(&layout.path(split, number)) {
                // Nothing says that there is anything to evaluate with.
                Err(error) if error.kind() == ErrorKind::NotFound && split == Split::Valid => break,
                opened => opened?.forget_pages()?,
            }
        }
    }
    Ok(Dropped::FileByFile)
}
