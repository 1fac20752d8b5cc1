//! The part of a data set in memory before an epoch, and how to get it out.

use crate::data_set::layout::{Layout, Split};
use crate::files::input::open_regular;
use crate::store;
use crate::system::buffer::resident_pages;
use crate::system::file_calls;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Files looked at: enough for a share good to a few per cent, few enough to cost milliseconds.
const PROBES: u64 = 64;

fn probes(layout: &Layout, split: Split) -> impl Iterator<Item = PathBuf> + '_ {
    let files = layout.files(split);
    let step = files.div_ceil(PROBES).max(1);
    (0..files).step_by(step as usize).map(move |number| layout.path(split, number))
}

/// The share of the training files' pages in memory, measured on some of them; None if nobody may know.
pub fn share(layout: &Layout) -> Option<f64> {
    if store::is_object(&layout.dataset.folder) {
        return None;
    }
    let (mut resident, mut all) = (0, 0);
    for path in probes(layout, Split::Train) {
        let (file, length) = open_regular(&path, 0).ok()?;
        let (here, pages) = resident_pages(&file, length as usize).ok()?;
        resident += here;
        all += pages;
    }
    (all > 0).then(|| resident as f64 / all as f64)
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
            match open_regular(&layout.path(split, number), 0) {
                // Nothing says that there is anything to evaluate with.
                Err(error) if error.kind() == ErrorKind::NotFound && split == Split::Valid => break,
                opened => file_calls::forget_pages_unseen(&opened?.0)?,
            }
        }
    }
    Ok(Dropped::FileByFile)
}
