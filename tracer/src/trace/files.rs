//! The paths of this image's two files, and the proof that a path still leads to the file that was made. Where the folder was
//! renamed the kernel knows where the ring is now, for it is mapped.

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

/// Held by whoever makes or grows a file of the image, or takes a thread into it.
pub static LOCK: Lock = Lock::new();

/// Renames of the folder that are followed, and one: what readers may be looking at is never written again.
const PLACES: usize = 4;

/// Paths of this image's files, one pair for each place they have been in; written under [`LOCK`] before the ring is published,
/// or under [`FOLLOWING`] before that pair becomes the current one, constant afterwards.
struct Paths(UnsafeCell<[[PathBuffer; 2]; PLACES]>);

// SAFETY: see above; readers come through the ring's pointer, whose store releases the writes.
unsafe impl Sync for Paths {}

crate::large! {
    static PATHS: Paths = Paths(UnsafeCell::new([const { [PathBuffer::new(), PathBuffer::new()] }; PLACES]));
}
static CURRENT: AtomicUsize = AtomicUsize::new(0);
static FOLLOWING: Lock = Lock::new();

/// Both, to be written.
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
    // SAFETY: constant while an image exists, and only then is it asked for.
    unsafe { (&(*PATHS.0.get()))[CURRENT.load(Acquire)][0].as_c_str() }
}

pub fn ring_path() -> &'static CStr {
    // SAFETY: as above.
    unsafe { (&(*PATHS.0.get()))[CURRENT.load(Acquire)][1].as_c_str() }
}

/// The file a path led to when it was made. In a folder that others can write to it may lead elsewhere later.
pub struct Identity([AtomicU64; 2]);

pub static DLT_IDENTITY: Identity = Identity([AtomicU64::new(0), AtomicU64::new(0)]);

impl Identity {
    fn note(&self, fd: i32) {
        let identity = sys::found(fd).map_or([0; 2], |found| found.identity);
        self.0.iter().zip(identity).for_each(|(place, number)| place.store(number, Relaxed));
    }

    fn is(&self, fd: i32) -> bool {
        sys::found(fd).is_some_and(|found| found.identity == self.0.each_ref().map(|place| place.load(Relaxed)))
    }

    /// Opens the file that was made at this path; another one there is as good as none.
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

/// Opens the ring again, if its path still leads to it: what a process has written at the beginning of its own, the time and
/// the facts, no other file begins with. To ask for its number when it is made would take most processes a system call too
/// many, for they never open it again.
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

/// Of what opening a file of this image came to: true if it is gone, or another file is in its place. Closes it.
pub fn is_gone(opened: i32) -> bool {
    if opened >= 0 {
        sys::close(opened);
    }
    [-libc::ENOENT, -libc::ESTALE].contains(&opened)
}

/// True if others took the ring away.
pub fn is_ring_gone() -> bool {
    match reserved_fds::held(reserved_fds::RING) {
        held if held >= 0 => sys::found(held).is_some_and(|found| found.links == 0),
        _ => is_gone(reopen_ring()),
    }
}

/// A file of the image is not where it was made. Where its folder has another name by now, its files have another path from
/// here on. `false` where nothing came of that.
#[cold]
pub fn follow() -> bool {
    let Some(_held) = FOLLOWING.take() else { return false };
    // Of a ring that lies apart nobody can tell where the trace went.
    if config::get().has_spool() || trace_dirs::is_lost() || reserved_fds::held(reserved_fds::FOLDER) >= 0 {
        return false;
    }
    let mut ring = PathBuffer::new();
    if !ring_now(&mut ring) {
        return false;
    }
    if ring.as_bytes() == ring_path().to_bytes() {
        // Another thread has followed it.
        return true;
    }
    let next = CURRENT.load(Acquire) + 1;
    let folder = ring.as_bytes().len() - ring.file_name().len();
    let name = |path: &'static CStr| path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if next == PLACES || ring.file_name() != name(ring_path()) || !is_users(&ring.as_bytes()[..folder]) {
        return false;
    }
    // SAFETY: under the lock, and nobody reads a pair that was never the current one.
    let [new_dlt, new_ring] = unsafe { &mut (*PATHS.0.get())[next] };
    new_dlt.clear();
    new_dlt.push(&ring.as_bytes()[..folder]).push(name(dlt_path()));
    new_ring.clear();
    new_ring.push(ring.as_bytes());
    CURRENT.store(next, Release);
    sys::say(&[b"the trace directory was renamed during recording; the trace is now in ", &ring.as_bytes()[..folder]]);
    true
}

/// Nothing is made in a folder that others have moved the files to.
fn is_users(folder: &[u8]) -> bool {
    let mut path = PathBuffer::new();
    path.push(folder).push(b".");
    sys::found_at(path.as_c_str()).is_some_and(|found| found.is_folder && [0, sys::user_id()].contains(&found.owner))
}

/// The path that the ring's file has now, by the kernel's list of what is mapped. `false` where it has none.
fn ring_now(path: &mut PathBuffer) -> bool {
    // The list of the process is empty once its first thread has ended. Linux before 3.17 has no list of a thread.
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

/// True if a line of that list is of the ring's first page.
fn maps_page(line: &[u8]) -> bool {
    let digits = line.split(|byte| *byte == b'-').next().and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| usize::from_str_radix(digits, 16).ok()) == Some(header_page::page().addr())
}
