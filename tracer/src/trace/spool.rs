//! Moves rings of killed processes from the spool, a local directory, to the trace directory they belong to.
//!
//! Rings are separate from their trace if the trace directory is on a network file system. A process that ends
//! removes its own ring; a ring that remains after a kill is moved by the next process of the run on this host, or by
//! `dlio trace`.
//!
//! Others may be able to write to the directory, so a file with the name of a ring is accepted only if it belongs to
//! this user and has a ring's size. It is opened once, and all further operations use that descriptor.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use dlio_schemas::native::fields::key;
use dlio_schemas::native::ring::{Ring, SEGMENTS_START};

use crate::kernel::sys;
use crate::process::config;

/// Maximum number of names inspected: more than this were created on purpose.
const NAMES_MAX: usize = 20_000;

/// Enough for rings of about ten thousand threads.
const RING_MAX: u64 = 2 << 30;

/// Rings of a trace that had to stay in the spool.
pub struct Stranded {
    pub spool: PathBuf,
    pub rings: usize,
    /// Error of the last of them.
    pub error: io::Error,
}

/// Moves the rings of this trace directory that were left in the spool. Rings of running processes and of other
/// traces stay. Returns the rings that cannot be written to the trace directory.
pub fn bring_home(dir: &Path) -> Option<Stranded> {
    let spool = config::spool_of(dir.as_os_str().as_bytes());
    let spool = Path::new(OsStr::from_bytes(&spool));
    if spool == dir {
        return None;
    }
    let folder = opened(libc::AT_FDCWD, spool.as_os_str(), libc::O_DIRECTORY)?;
    let names = fs::read_dir(spool).into_iter().flatten().flatten().take(NAMES_MAX).map(|entry| entry.file_name());
    let carried = names.filter(|name| is_left_over(name)).map(|name| carry(&folder, &name, dir));
    let (mut rings, mut last) = (0, None);
    for error in carried.filter_map(Result::err).filter(|error| error.kind() != NOT_OURS) {
        (rings, last) = (rings + 1, Some(error));
    }
    last.map(|error| Stranded { spool: spool.into(), rings, error })
}

/// Returns the rings of this trace directory that are in the spool, also those of running processes.
pub fn rings_of(dir: &Path) -> Vec<PathBuf> {
    let spool = config::spool_of(dir.as_os_str().as_bytes());
    let spool = Path::new(OsStr::from_bytes(&spool));
    let folder = if spool == dir { None } else { opened(libc::AT_FDCWD, spool.as_os_str(), libc::O_DIRECTORY) };
    let Some(folder) = folder else { return Vec::new() };
    let is_ring = |name: &OsStr| Path::new(name).extension().is_some_and(|ending| ending == "ring");
    let names = fs::read_dir(spool).into_iter().flatten().flatten().take(NAMES_MAX).map(|entry| entry.file_name());
    let ours = names.filter(|name| is_ring(name) && own_ring(&folder, name, dir).is_ok());
    ours.map(|name| spool.join(name)).collect()
}

/// The kind of error for a file that is not a ring of this trace.
const NOT_OURS: io::ErrorKind = io::ErrorKind::InvalidData;

/// Opens the file itself, without following a link.
pub(crate) fn opened(folder: i32, path: &OsStr, flags: i32) -> Option<File> {
    let path = CString::new(path.as_bytes()).ok()?;
    let fd = sys::open_at(folder, &path, libc::O_RDONLY | flags) as i32;
    // SAFETY: the descriptor was just opened and is not used by anything else.
    (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
}

/// Returns `true` if a name ends with `-PID-START.ring`.
fn is_left_over(name: &OsStr) -> bool {
    let name = Path::new(name);
    let stem = name.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let pid = stem.rsplit('-').nth(1).and_then(|pid| pid.parse().ok());
    name.extension().is_some_and(|ending| ending == "ring") && pid.is_some_and(|pid| !sys::process_exists(pid))
}

/// Opens a ring of this trace directory, and returns it with its first part, which has been read, and its size.
fn own_ring(folder: &File, name: &OsStr, dir: &Path) -> io::Result<(File, Vec<u8>, u64)> {
    let not_ours = || io::Error::from(NOT_OURS);
    let mut ring = opened(folder.as_raw_fd(), name, 0).ok_or_else(not_ours)?;
    let found = sys::status(ring.as_raw_fd()).ok_or_else(not_ours)?;
    let right = found.is_file && found.owner == sys::user_id() && found.size <= RING_MAX;
    let mut head = vec![0; SEGMENTS_START];
    if !right || ring.read_exact(&mut head).is_err() || !belongs(&head, dir) {
        return Err(not_ours());
    }
    Ok((ring, head, found.size))
}

/// Copies a ring, first under a temporary name: a reader never sees half of it.
fn carry(folder: &File, name: &OsStr, dir: &Path) -> io::Result<()> {
    let not_ours = || io::Error::from(NOT_OURS);
    let (ring, head, size) = own_ring(folder, name, dir)?;
    let part = dir.join(format!("{}.{:x}.part", name.to_string_lossy(), sys::random()));
    let path = CString::new(part.as_os_str().as_bytes()).map_err(|_| not_ours())?;
    let fd = sys::open(&path, libc::O_WRONLY | libc::O_CREAT) as i32;
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: as above.
    let mut copy = unsafe { File::from_raw_fd(fd) };
    let copied = io::copy(&mut head.as_slice().chain(ring.take(size - head.len() as u64)), &mut copy);
    match copied.and_then(|_| fs::rename(&part, dir.join(name))) {
        Ok(()) => {
            let name = CString::new(name.as_bytes()).map_err(|_| not_ours())?;
            sys::unlink_at(folder.as_raw_fd(), &name);
            Ok(())
        }
        Err(error) => {
            sys::unlink(&path);
            Err(error)
        }
    }
}

fn belongs(head: &[u8], dir: &Path) -> bool {
    let fields = Ring::parse(head).map(|ring| ring.fields);
    fields.is_ok_and(|fields| fields.get(key::TRACE_DIR).is_some_and(|home| Path::new(home) == dir))
}
