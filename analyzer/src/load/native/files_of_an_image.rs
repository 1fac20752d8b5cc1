//! The files of one process image, which share a stem and become one another: `.ring`, `.dlt`, `.pftrace`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dlio_schemas::native::file;

use crate::load::sources::source::Format;

/// A trace for viewers, and what it is.
pub type Export = (PathBuf, &'static Format);

/// The image as it is by now, found by one of the files it was.
pub type LookAgain = fn(&Path) -> (Option<NativeFiles>, Option<Export>);

/// Files of one process image: they share a stem.
#[derive(Clone, Default, Debug)]
pub struct NativeFiles {
    pub dlt: Option<PathBuf>,
    pub ring: Option<PathBuf>,
    /// An empty file whose name says how many events are lost, in place of a ring.
    pub lost: Option<(PathBuf, u64)>,
    /// The same process as a trace for viewers: a kill can leave both.
    pub export: Option<(PathBuf, &'static Format)>,
}

impl NativeFiles {
    /// Its own files, without the trace for viewers.
    pub fn own(&self) -> impl Iterator<Item = &PathBuf> {
        [self.dlt.as_ref(), self.ring.as_ref(), self.lost.as_ref().map(|(path, _)| path)].into_iter().flatten()
    }

    /// True if these are the same files, as far as their names tell.
    pub fn is_alike(&self, before: &NativeFiles) -> bool {
        self.dlt == before.dlt && self.ring == before.ring && self.lost == before.lost
    }
}

/// True if a file became what it is within the last second, or is not there any more: its process may be at work on it.
pub fn changed_just_now(path: &Path) -> bool {
    let age = std::fs::metadata(path).and_then(|facts| facts.modified()).map(|at| at.elapsed().unwrap_or_default());
    age.map_or(true, |age| age < Duration::from_secs(1))
}

/// Path without the ending that tells the parts of one trace apart, and whatever a writer appended while it wrote.
pub fn stem(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = [".dlt", ".ring", ".pftrace", ".json", file::LOST_IN_NAME]
        .into_iter()
        .filter_map(|ending| name.rfind(ending))
        .min();
    path.with_file_name(&name[..ending.unwrap_or(name.len())])
}
