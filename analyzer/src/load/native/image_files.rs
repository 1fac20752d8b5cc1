//! The files of one process image, which share a stem and replace each other: `.ring`, `.dlt`, `.pftrace`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dlio_schemas::native::file;

use crate::load::sources::source::Format;

/// A trace for viewers, and its format.
pub type Export = (PathBuf, &'static Format);

/// Returns the current files of an image, given one of its earlier files.
pub type FindSuccessors = fn(&Path) -> (Option<NativeFiles>, Option<Export>);

/// The files of one process image, which share a stem.
#[derive(Clone, Default, Debug)]
pub struct NativeFiles {
    pub dlt: Option<PathBuf>,
    pub ring: Option<PathBuf>,
    /// An empty file in place of a ring, whose name contains the number of lost events.
    pub lost: Option<(PathBuf, u64)>,
    /// The export of the same process: a killed process can leave both.
    pub export: Option<(PathBuf, &'static Format)>,
}

impl NativeFiles {
    /// Returns its own files, without the export.
    pub fn own(&self) -> impl Iterator<Item = &PathBuf> {
        [self.dlt.as_ref(), self.ring.as_ref(), self.lost.as_ref().map(|(path, _)| path)].into_iter().flatten()
    }

    /// Returns `true` if these are the same files, judging by their names.
    pub fn is_alike(&self, before: &NativeFiles) -> bool {
        self.dlt == before.dlt && self.ring == before.ring && self.lost == before.lost
    }
}

/// Returns `true` if a file changed within the last second, or no longer exists: its process may be working on it.
pub fn changed_just_now(path: &Path) -> bool {
    let age = std::fs::metadata(path).and_then(|facts| facts.modified()).map(|at| at.elapsed().unwrap_or_default());
    age.map_or(true, |age| age < Duration::from_secs(1))
}

/// Returns the path without its extension and without the suffix of an incomplete file.
pub fn stem(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = [".dlt", ".ring", ".pftrace", ".json", file::LOST_IN_NAME]
        .into_iter()
        .filter_map(|ending| name.rfind(ending))
        .min();
    path.with_file_name(&name[..ending.unwrap_or(name.len())])
}
