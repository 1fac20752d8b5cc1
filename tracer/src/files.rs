//! The paths of this image's two files, and the proof that a path still leads to the file that was made.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::*};

use dlio_schemas::native::ring::{HEADER_SIZE, header};

use crate::lock::Lock;
use crate::path_buffer::PathBuffer;
use crate::{header_page, sys, way};

/// Held by whoever makes or grows a file of the image, or takes a thread into it.
pub static LOCK: Lock = Lock::new();

/// Paths of this image's files; written under [`LOCK`] before the ring is published, constant afterwards.
struct Paths(UnsafeCell<[PathBuffer; 2]>);

// SAFETY: see above; readers come through the ring's pointer, whose store releases the writes.
unsafe impl Sync for Paths {}

crate::large! {
    static PATHS: Paths = Paths(UnsafeCell::new([PathBuffer::new(), PathBuffer::new()]));
}

/// Both, to be written.
///
/// # Safety
/// The caller holds [`LOCK`], and no image exists whose paths could be read.
pub unsafe fn paths_to_write() -> &'static mut [PathBuffer; 2] {
    // SAFETY: by the contract above.
    unsafe { &mut *PATHS.0.get() }
}

pub fn dlt_path() -> &'static CStr {
    // SAFETY: constant while an image exists, and only then is it asked for.
    unsafe { (&(*PATHS.0.get()))[0].as_c_str() }
}

pub fn ring_path() -> &'static CStr {
    // SAFETY: as above.
    unsafe { (&(*PATHS.0.get()))[1].as_c_str() }
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
        let fd = way::open(path, flags) as i32;
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
    let fd = way::open(ring_path(), libc::O_RDWR) as i32;
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
