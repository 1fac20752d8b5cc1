//! Names of files that are not complete yet. They end in the host and the pid of their writer, which keeps two writers
//! apart and shows whether a writer is gone.

use crate::system::host::host_name;
use crate::system::processes;
use std::path::{Path, PathBuf};

/// The start of that suffix.
pub const PARTIAL: &str = ".partial-";

/// Returns the name of a file until it is complete, in the directory where it will be.
pub fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!("{PARTIAL}{}-{}", host_name(), std::process::id()));
    path.with_file_name(name)
}

/// Returns `true` if the writer of a file of this name is gone: a process of this host that is not alive.
pub fn is_abandoned(name: &str) -> bool {
    let writer = name.rsplit_once(PARTIAL).and_then(|(_, writer)| writer.rsplit_once('-'));
    let Some((host, process)) = writer else { return false };
    let process: Option<u32> = process.parse().ok();
    host == host_name() && process.is_some_and(|process| !processes::lives(process))
}
