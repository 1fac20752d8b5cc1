//! Descriptors that the tracer keeps open: those of both files and their directories in a program that drops
//! privileges (setuid, chroot), and that of the `.dlt` while the image is closed. They have high numbers, and hooks
//! prevent the program from closing or replacing them.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::*};

use crate::kernel::sys;
use crate::thread::local::own_id;

/// Descriptors of both files in a program that dropped privileges, the one that is open while the image is closed,
/// and those of the directories, each -1 if not open; and the lowest of them.
static RESERVED: [AtomicI32; 5] = [const { AtomicI32::new(-1) }; 5];
static LOWEST: AtomicI32 = AtomicI32::new(i32::MAX);
/// The thread that closes the image; only it writes to the descriptor that is opened for that.
static CLOSER: AtomicU32 = AtomicU32::new(0);
/// Indexes in [`RESERVED`].
pub const DLT: usize = 0;
pub const RING: usize = 1;
const CLOSING: usize = 2;
pub const FOLDER: usize = 3;
pub const SPOOL: usize = 4;
/// The lowest reserved number: far above the numbers that programs use, and within the usual limit.
const FROM: i32 = 700;

/// Returns a reserved descriptor, or -1.
pub fn get(which: usize) -> i32 {
    RESERVED[which].load(Relaxed)
}

pub fn keep_open(which: usize, fd: i32) {
    if fd >= 0 {
        let high = sys::duplicate_from(fd, FROM) as i32;
        if high >= 0 {
            sys::close(fd);
        }
        set_held(which, if high >= 0 { high } else { fd });
    }
}

/// Reserves the descriptor with which the calling thread closes the image, if it is valid.
pub fn keep_to_close(fd: i32) {
    set_held(CLOSING, fd.max(-1));
    CLOSER.store(own_id(), Release);
}

/// Returns `true` if a descriptor is reserved for closing the image.
pub fn is_kept_to_close() -> bool {
    get(CLOSING) >= 0
}

pub fn stop_closing() {
    CLOSER.store(0, Release);
    let fd = get(CLOSING);
    set_held(CLOSING, -1);
    if fd >= 0 {
        sys::close(fd);
    }
}

/// Returns the descriptor to which the calling thread may write blocks, or -1.
pub fn open_for_blocks() -> i32 {
    match get(DLT) {
        held if held >= 0 => held,
        _ if CLOSER.load(Acquire) == own_id() => get(CLOSING),
        _ => -1,
    }
}

fn set_held(which: usize, fd: i32) {
    RESERVED[which].store(fd, Relaxed);
    let lowest = RESERVED.iter().map(|held| held.load(Relaxed)).filter(|fd| *fd >= 0).min();
    LOWEST.store(lowest.unwrap_or(i32::MAX), Relaxed);
}

/// Returns `true` if the tracer reserved a descriptor, so that the program must not close it.
#[inline(always)]
pub fn is_reserved(fd: i32) -> bool {
    fd >= LOWEST.load(Relaxed) && first_reserved(fd as u32, fd as u32).is_some()
}

/// Returns the lowest reserved descriptor of a range.
pub fn first_reserved(first: u32, last: u32) -> Option<u32> {
    let held = RESERVED.iter().filter_map(|held| u32::try_from(held.load(Relaxed)).ok());
    held.filter(|fd| (first..=last).contains(fd)).min()
}

/// Moves a reserved descriptor away from a number that the program requests. If only one number is free, the
/// descriptor for blocks gets it: the existing part of the ring remains mapped.
pub fn move_away(wanted: i32) {
    if !is_reserved(wanted) {
        return;
    }
    let Some(which) = RESERVED.iter().position(|held| held.load(Relaxed) == wanted) else { return };
    let mut moved = sys::duplicate_from(wanted, wanted + 1) as i32;
    let ring = get(RING);
    if moved < 0 && which == DLT && ring >= 0 {
        set_held(RING, -1);
        sys::close(ring);
        moved = sys::duplicate_from(wanted, ring) as i32;
    }
    set_held(which, moved.max(-1));
}

/// Closes the descriptors of the image's files: the image has ended or belongs to another process. The descriptors of
/// the directories are kept for the next image.
pub fn release() {
    stop_closing();
    for which in [DLT, RING] {
        let held = get(which);
        set_held(which, -1);
        if held >= 0 {
            sys::close(held);
        }
    }
}
