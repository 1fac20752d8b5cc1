//! The paths of this image's two files, and the check that a path still refers to the file that was created. If the
//! directory was renamed, the kernel knows the ring's new path, because the ring is mapped.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use dlio_schemas::native::ring::{HEADER_SIZE, header};

use crate::kernel::path_buffer::{PATH_MAX, PathBuffer};
use crate::kernel::sys;
use crate::process::config;
use crate::thread::lock::Lock;
use crate::thread::reserved_fds;
use crate::trace::{header_page, trace_dirs};

/// Held while a file of the image is created or grows, or a thread gets a state in it.
pub static LOCK: Lock = Lock::new();

/// Number of directory renames that are followed, plus one: a path that readers may be using is never overwritten.
const PLACES: usize = 4;

/// Paths of this image's files, one pair for each location so far. A pair is written under [`LOCK`] before the ring
/// is published, or under [`FOLLOWING`] before it becomes the current one, and is constant afterwards.
struct Paths(UnsafeCell<[[PathBuffer; 2]; PLACES]>);

// SAFETY: see above; readers get here through the ring's pointer, whose store releases the writes.
unsafe impl Sync for Paths {}

crate::large! {
    static PATHS: Paths = Paths(UnsafeCell::new([const { [PathBuffer::new(), PathBuffer::new()] }; PLACES]));
}
static CURRENT: AtomicUsize = AtomicUsize::new(0);
static FOLLOWING: Lock = Lock::new();

/// Returns both paths for writing.
///
/// # Safety
/// The caller holds [`LOCK`], and no image exists whose paths could be read.
pub unsafe fn paths_to_write() -> &'static mut [PathBuffer; 2] {
    CURRENT.store(0, Release);
    FOLLOWING.reset();
    // SAFETY: by the contract above.
    unsafe { &mut (*PATHS.0.get())[0] }
}

pub fn dlt_path() -> &'static CStr {
    // SAFETY: constant while an image exists, and called only then.
    unsafe { (&(*PATHS.0.get()))[CURRENT.load(Acquire)][0].as_c_str() }
}

pub fn ring_path() -> &'static CStr {
    // SAFETY: as above.
    unsafe { (&(*PATHS.0.get()))[CURRENT.load(Acquire)][1].as_c_str() }
}

/// The file that a path referred to when it was created. If others can write to the directory, the path may refer to
/// another file later.
pub struct Identity([AtomicU64; 2]);

pub static DLT_IDENTITY: Identity = Identity([AtomicU64::new(0), AtomicU64::new(0)]);

impl Identity {
    /// Notes an open file as the one that the path refers to.
    pub fn note(&self, fd: i32) {
        let identity = sys::status(fd).map_or([0; 2], |found| found.identity);
        self.0.iter().zip(identity).for_each(|(place, number)| place.store(number, Relaxed));
    }

    fn is(&self, fd: i32) -> bool {
        sys::status(fd).is_some_and(|found| found.identity == self.0.each_ref().map(|place| place.load(Relaxed)))
    }

    /// Opens the file that was created at this path; any other file there counts as missing.
    pub fn open(&self, path: &CStr, flags: i32) -> i32 {
        let fd = trace_dirs::open(path, flags) as i32;
        if fd >= 0 && flags & libc::O_CREAT != 0 {
            self.note(fd);
        } else if fd >= 0 && !self.is(fd) {
            sys::close(fd);
            return -libc::ESTALE;
        }
        fd
    }
}

/// Opens the ring again, if its path still refers to it. The ring is recognized by the time and the process information at its
/// start, which no other file has. Querying the inode of each ring at its creation would cost a system call, and most processes
/// never open their ring again.
pub fn reopen_ring() -> i32 {
    let fd = trace_dirs::open(ring_path(), libc::O_RDWR) as i32;
    if fd >= 0 && !is_own_ring(fd) {
        sys::close(fd);
        return -libc::ESTALE;
    }
    fd
}

fn is_own_ring(fd: i32) -> bool {
    let mut bytes = [0; HEADER_SIZE];
    let found = sys::read_at(fd, &mut bytes, 0);
    header_page::bytes().is_some_and(|own| {
        let time = header::FIRST_ANCHOR..header::LAST_ANCHOR;
        let facts = header::FIELDS..header::FIELDS + header_page::facts(own).len();
        [time, facts].into_iter().all(|part| found.get(part.clone()) == Some(&own[part]))
    })
}

/// Returns `true` if the result of opening a file of this image shows that it was removed or replaced. Closes the
/// descriptor.
pub fn is_gone(opened: i32) -> bool {
    if opened >= 0 {
        sys::close(opened);
    }
    [-libc::ENOENT, -libc::ESTALE].contains(&opened)
}

/// Returns `true` if the ring was removed or replaced.
pub fn is_ring_gone() -> bool {
    match reserved_fds::get(reserved_fds::RING) {
        held if held >= 0 => sys::status(held).is_some_and(|found| found.links == 0),
        _ => is_gone(reopen_ring()),
    }
}

/// Handles a file of the image that is not where it was created. If its directory was renamed, its files have another
/// path from now on. Returns `false` if nothing was found.
#[cold]
pub fn follow() -> bool {
    let Some(_held) = FOLLOWING.take() else { return false };
    // If the ring is in another directory, the new location of the trace cannot be determined.
    if config::get().has_spool() || trace_dirs::root_changed() || reserved_fds::get(reserved_fds::FOLDER) >= 0 {
        return false;
    }
    let mut ring = PathBuffer::new();
    if !ring_now(&mut ring) {
        return false;
    }
    if ring.as_bytes() == ring_path().to_bytes() {
        // Another thread has already done this.
        return true;
    }
    let next = CURRENT.load(Acquire) + 1;
    let folder = ring.as_bytes().len() - ring.file_name().len();
    let name = |path: &'static CStr| path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if next == PLACES || ring.file_name() != name(ring_path()) || !is_users(&ring.as_bytes()[..folder]) {
        return false;
    }
    // SAFETY: the lock is held, and a pair that was never the current one is not read.
    let [new_dlt, new_ring] = unsafe { &mut (*PATHS.0.get())[next] };
    new_dlt.clear();
    new_dlt.push(&ring.as_bytes()[..folder]).push(name(dlt_path()));
    new_ring.clear();
    new_ring.push(ring.as_bytes());
    CURRENT.store(next, Release);
    sys::say(&[b"the trace directory was renamed during recording; the trace is now in ", &ring.as_bytes()[..folder]]);
    true
}

/// Returns `true` if the directory belongs to the user: nothing is created in a directory to which others have moved
/// the files.
fn is_users(folder: &[u8]) -> bool {
    let mut path = PathBuffer::new();
    path.push(folder).push(b".");
    sys::status_at(path.as_c_str()).is_some_and(|found| found.is_folder && [0, sys::user_id()].contains(&found.owner))
}

/// Determines the current path of the ring's file from the kernel's list of mappings. Returns `false` if it has none.
fn ring_now(path: &mut PathBuffer) -> bool {
    // The list of the process is empty once its first thread has ended. Linux before 3.17 has no list per thread.
    let lists = [c"/proc/thread-self/maps", c"/proc/self/maps"];
    let Some(fd) = lists.iter().map(|list| sys::open(list, libc::O_RDONLY) as i32).find(|fd| *fd >= 0) else {
        return false;
    };
    let (mut bytes, mut at) = ([0; 3 * PATH_MAX], 0);
    let found = loop {
        let lines = sys::read_at(fd, &mut bytes, at);
        let Some(end) = lines.iter().rposition(|byte| *byte == b'\n') else { break false };
        if let Some(line) = lines[..end].split(|byte| *byte == b'\n').find(|line| maps_page(line)) {
            let start = line.iter().position(|byte| *byte == b'/').unwrap_or(line.len());
            path.clear();
            path.push(&line[start..]);
            break start < line.len() && !line.ends_with(b" (deleted)");
        }
        at += end + 1;
    };
    sys::close(fd);
    found
}

/// Returns `true` if a line of that list describes the ring's first page.
fn maps_page(line: &[u8]) -> bool {
    let digits = line.split(|byte| *byte == b'-').next().and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| usize::from_str_radix(digits, 16).ok()) == Some(header_page::page().addr())
}
