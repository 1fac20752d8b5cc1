//! Drops the events of processes that ended before the period that a flight recorder keeps (`dlio trace --last`).
//!
//! A process shortens its own file while it runs. Jobs start new workers for each epoch, so `dlio trace` shortens the files of
//! processes that have ended. Information about these processes, names and counts remain.

use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::fields::key;
use dlio_schemas::native::file::{Image, Store};

use crate::kernel::sys;
use crate::trace::{recent, spool};

/// The files of a trace directory whose events are dropped in time.
pub struct Expired {
    folder: PathBuf,
    last: Duration,
    /// Files that need no further work.
    done: HashSet<PathBuf>,
}

impl Expired {
    pub fn new(folder: &Path, last: Duration) -> Expired {
        Expired { folder: folder.into(), last, done: HashSet::new() }
    }

    /// Drops the events of files that were last changed before the period. A file that cannot be rewritten now is tried
    /// again.
    pub fn drop_events(&mut self) {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let ended = |path: &PathBuf| {
            let is_blocks = path.extension() == Some(OsStr::new("dlt")) && !path.with_extension("ring").exists();
            let age = || path.metadata().ok()?.modified().ok()?.elapsed().ok();
            is_blocks && !self.done.contains(path) && age().is_some_and(|age| age > self.last)
        };
        for path in files.filter(ended).collect::<Vec<_>>() {
            if shorten(&path).is_ok() {
                self.done.insert(path);
            }
        }
    }
}

/// A file whose blocks are read one by one.
struct InFile(File, usize);

impl Store for InFile {
    fn size(&self) -> usize {
        self.1
    }

    fn load(&self, at: usize, into: &mut [u8]) -> bool {
        self.0.read_exact_at(into, at as u64).is_ok()
    }
}

/// Replaces the file of a process that has ended by one without events.
fn shorten(path: &Path) -> io::Result<()> {
    let file = spool::opened(libc::AT_FDCWD, path.as_os_str(), 0).ok_or(io::ErrorKind::NotFound)?;
    let found = sys::status(file.as_raw_fd()).ok_or(io::ErrorKind::NotFound)?;
    if !found.is_file || found.owner != sys::user_id() {
        return Ok(());
    }
    let file = InFile(file, found.size as usize);
    // A file that is damaged, or was not written by a flight recorder, is left as it is.
    let Ok(image) = Image::survey(&file) else { return Ok(()) };
    let number = |key| image.fields.number::<u64>(key);
    let (true, true, Some(end)) = (image.keeps_last(), image.has_ended(), number(key::END_BOOT_NS)) else {
        return Ok(());
    };
    if image.blocks.is_empty() || !image.damage.is_empty() {
        return Ok(());
    }
    let part = path.with_extension(format!("{:x}.part", sys::random()));
    let name = CString::new(part.as_os_str().as_bytes())?;
    let new = sys::open(&name, libc::O_WRONLY | libc::O_CREAT) as i32;
    let is_written = recent::copy_recent(file.0.as_raw_fd(), new, u64::MAX).is_some_and(|shortened| {
        let dropped = number(key::DROPPED).unwrap_or(0) + shortened.dropped;
        // No anchor: ticks of this process are not those of the file.
        recent::note_dropped(
            new,
            &Anchor::default(),
            &[(key::KEPT_FROM_BOOT_NS, end), (key::DROPPED, dropped), (key::EVENTS, 0)],
        )
    });
    sys::close(new);
    let replaced = if is_written { fs::rename(&part, path) } else { Err(io::ErrorKind::StorageFull.into()) };
    if replaced.is_err() {
        sys::unlink(&name);
    }
    replaced
}
