//! Rings that killed processes left in the spool, a folder of this machine, come home to the trace they belong to.
//!
//! Rings live apart from their trace where that is on a network file system. A process that ends removes its own; what a
//! kill leaves is carried over by the next process of the run on the same machine, or by `dlio trace`.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dlio_schemas::native::fields::key;
use dlio_schemas::native::ring::Ring;

use crate::config;
use crate::sys;

/// Carries over what was left in the spool that rings of this trace folder live in; returns how many there were. A ring of
/// a process that still runs stays, as does one of another trace, and one that cannot be written where it belongs.
pub fn bring_home(dir: &Path) -> usize {
    let spool = config::spool_of(dir.as_os_str().as_bytes());
    let spool = Path::new(std::ffi::OsStr::from_bytes(&spool));
    if spool == dir {
        return 0;
    }
    let files = fs::read_dir(spool).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|file| is_left_over(file) && belongs(file, dir) && carry(file, dir).is_ok()).count()
}

/// A ring's name ends with `-PID-START.ring`.
fn is_left_over(file: &Path) -> bool {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let pid = stem.rsplit('-').nth(1).and_then(|pid| pid.parse().ok());
    file.extension().is_some_and(|ending| ending == "ring") && pid.is_some_and(|pid| !sys::process_exists(pid))
}

fn belongs(file: &Path, dir: &Path) -> bool {
    let ring = fs::read(file).ok().and_then(|bytes| Ring::parse(&bytes).ok());
    ring.is_some_and(|ring| ring.fields.get(key::TRACE_DIR).is_some_and(|home| Path::new(home) == dir))
}

/// Under a temporary name first: a reader never sees half of it.
fn carry(file: &Path, dir: &Path) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default();
    let mut part = name.to_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let part = dir.join(part);
    let copied = fs::copy(file, &part).and_then(|_| fs::rename(&part, dir.join(name)));
    match copied {
        Ok(()) => fs::remove_file(file),
        Err(_) => fs::remove_file(&part),
    }
}
