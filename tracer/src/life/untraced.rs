//! The started programs that leave no trace: a list in the trace directory. These programs cannot write it, but the
//! processes that start them can. Otherwise there would be no record of them.

use std::ffi::CStr;
use std::path::Path;

use dlio_schemas::decimal::decimal;

use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::sys;
use crate::life::programs::Loading;
use crate::process::config;
use crate::trace::trace_dirs;

pub use dlio_schemas::native::untraced::{
    GO, LIST, OTHER_LIBRARY, OTHER_MACHINE, OWN_PTRACE, PRIVILEGED, STATIC, Untraced, parse,
};

/// Writes a line for a program that is about to start. A failure is ignored, and the program starts.
pub(crate) fn note(program: &CStr, loading: Loading) {
    if let Some(reason) = reason(loading) {
        note_of(config::get().dir(), sys::process_id(), reason, program.to_bytes());
    }
}

/// Writes a line for a program of a process into the list of a trace directory.
pub fn note_of(folder: &[u8], process: i32, reason: &str, program: &[u8]) {
    let mut path = PathBuffer::new();
    path.push(folder).push(b"/").push(LIST.as_bytes());
    trace_dirs::make_empty(path.as_c_str());
    let fd = trace_dirs::open(path.as_c_str(), libc::O_WRONLY | libc::O_APPEND) as i32;
    if fd < 0 {
        return;
    }
    // In a directory that others can write to, the file may belong to someone else.
    if sys::status(fd).is_some_and(|found| found.is_file && found.owner == sys::user_id()) {
        let (mut time, mut number) = ([0; 20], [0; 20]);
        path.clear();
        path.push(decimal(sys::clock_ns(libc::CLOCK_REALTIME) as i64, &mut time)).push(b" ");
        path.push(decimal(process as i64, &mut number)).push(b" ").push(reason.as_bytes()).push(b" ");
        let name = program;
        if !name.starts_with(b"/") {
            let mut folder = [0; libc::PATH_MAX as usize];
            path.push(sys::working_dir(&mut folder)).push(b"/");
        }
        path.push(name.strip_prefix(b"./").unwrap_or(name)).push(b"\n");
        // One write, so that lines of several processes do not mix.
        sys::write_all(fd, path.as_c_str().to_bytes());
    }
    sys::close(fd);
}

/// Returns the reason why a program leaves no trace, as one word; `None` if it is traced.
fn reason(loading: Loading) -> Option<&'static str> {
    match loading {
        Loading::Works => None,
        Loading::Privileged => Some(PRIVILEGED),
        Loading::Go => Some(GO),
        Loading::Static => Some(STATIC),
        Loading::OtherLibrary => Some(OTHER_LIBRARY),
        Loading::OtherMachine => Some(OTHER_MACHINE),
    }
}

/// Returns the programs in a trace directory's list that started at this Unix time or later; empty if there is no
/// list.
pub fn read(folder: &Path, since_ns: u64) -> Vec<Untraced> {
    let list = std::fs::read(folder.join(LIST)).unwrap_or_default();
    parse(&list).filter(|program| program.began_ns >= since_ns).collect()
}
