//! Access to the files of a trace: by path, or through its directories, which were opened before the program changed
//! its root or dropped privileges.
//!
//! Under a changed root, the same path resolves differently, and a file that a forked child creates there would be
//! among the program's own files. The directories stay open in all forked processes, and names are resolved only in
//! them.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::*};

use crate::kernel::sys;
use crate::process::config;
use crate::thread::reserved_fds;

/// `true` if paths may resolve differently than when the process started, because of this process or the one it was
/// forked from.
static ROOT_CHANGED: AtomicBool = AtomicBool::new(false);

/// Stops resolving paths to files of the trace.
pub fn mark_root_changed() {
    ROOT_CHANGED.store(true, Relaxed);
}

pub fn root_changed() -> bool {
    ROOT_CHANGED.load(Relaxed)
}

/// Opens the directories permanently, for this process and its children.
pub fn keep_open() {
    let config = config::get();
    keep_folder_open(reserved_fds::FOLDER, config.dir());
    if config.has_spool() {
        keep_folder_open(reserved_fds::SPOOL, config.spool());
    }
}

fn keep_folder_open(which: usize, folder: &[u8]) {
    if reserved_fds::get(which) < 0 && !root_changed() {
        let mut path = crate::kernel::path_buffer::PathBuffer::new();
        // The directory itself, even if the path is a link to it.
        path.push(folder).push(b"/.");
        reserved_fds::keep_open(which, sys::open(path.as_c_str(), libc::O_PATH | libc::O_DIRECTORY) as i32);
    }
}

/// Returns an open directory and a name in it, or a path from the root.
fn to(path: &CStr) -> (i32, &CStr) {
    const NO_FOLDER: i32 = -1;
    let is_held = reserved_fds::get(reserved_fds::FOLDER) >= 0;
    if !is_held && !root_changed() {
        return (libc::AT_FDCWD, path);
    }
    let bytes = path.to_bytes_with_nul();
    let slash = bytes.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    let (folder, name) = (&bytes[..slash], CStr::from_bytes_with_nul(&bytes[slash + 1..]).unwrap_or_default());
    let config = config::get();
    let which = if folder == config.dir() { reserved_fds::FOLDER } else { reserved_fds::SPOOL };
    match reserved_fds::get(which) {
        held if held >= 0 => (held, name),
        _ if root_changed() => (NO_FOLDER, name),
        _ => (libc::AT_FDCWD, path),
    }
}

/// Opens a file of the trace.
pub fn open(path: &CStr, flags: i32) -> isize {
    let (folder, name) = to(path);
    sys::open_at(folder, name, flags)
}

pub fn unlink(path: &CStr) -> isize {
    let (folder, name) = to(path);
    sys::unlink_at(folder, name)
}

pub fn rename(from: &CStr, to_path: &CStr) -> isize {
    sys::rename_at(to(from), to(to_path))
}

/// Renames a file of the trace, unless the new name exists.
pub fn rename_new(from: &CStr, to_path: &CStr) -> isize {
    sys::rename_new_at(to(from), to(to_path))
}

/// Creates an empty file without keeping a descriptor. An existing file is unchanged.
pub fn make_empty(path: &CStr) -> isize {
    let (folder, name) = to(path);
    sys::make_empty_at(folder, name)
}

pub fn exists(path: &CStr) -> bool {
    let (folder, name) = to(path);
    sys::accessible_at(folder, name, libc::F_OK)
}
