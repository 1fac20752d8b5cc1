//! Descriptors that the tracer keeps: those of both files and their folders in a program that gives up its rights (setuid,
//! chroot), and that of the `.dlt` while the image is closed. They are far up, and hooks keep the program from closing or
//! replacing them.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::*};

use crate::kernel::sys;
use crate::thread::local::own_id;

/// Descriptors of both files in a program that gave up its rights, the one that is open while the image is closed, and those
/// of the folders, each -1 where there is none; and the lowest of them.
static HELD: [AtomicI32; 5] = [const { AtomicI32::new(-1) }; 5];
static LOWEST: AtomicI32 = AtomicI32::new(i32::MAX);
/// The thread that closes the image; it alone writes to the descriptor that is opened for that.
static CLOSER: AtomicU32 = AtomicU32::new(0);
/// Places in [`HELD`].
pub const DLT: usize = 0;
pub const RING: usize = 1;
const CLOSING: usize = 2;
pub const FOLDER: usize = 3;
pub const SPOOL: usize = 4;
/// The number of the held descriptor: far above what programs use, within what most are allowed.
const FROM: i32 = 700;

/// A descriptor that is kept, or -1.
pub fn held(which: usize) -> i32 {
    HELD[which].load(Relaxed)
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

/// Keeps the descriptor that the calling thread closes the image with, if it is one.
pub fn keep_to_close(fd: i32) {
    set_held(CLOSING, fd.max(-1));
    CLOSER.store(own_id(), Release);
}

/// True if one is kept to close the image with.
pub fn is_kept_to_close() -> bool {
    held(CLOSING) >= 0
}

pub fn let_go() {
    CLOSER.store(0, Release);
    let fd = held(CLOSING);
    set_held(CLOSING, -1);
    if fd >= 0 {
        sys::close(fd);
    }
}

/// The descriptor the calling thread may write blocks to, or -1.
pub fn open_for_blocks() -> i32 {
    match held(DLT) {
        held if held >= 0 => held,
        _ if CLOSER.load(Acquire) == own_id() => held(CLOSING),
        _ => -1,
    }
}

fn set_held(which: usize, fd: i32) {
    HELD[which].store(fd, Relaxed);
    let lowest = HELD.iter().map(|held| held.load(Relaxed)).filter(|fd| *fd >= 0).min();
    LOWEST.store(lowest.unwrap_or(i32::MAX), Relaxed);
}

/// True if the tracer holds a descriptor: it is not the program's to close.
#[inline(always)]
pub fn holds(fd: i32) -> bool {
    fd >= LOWEST.load(Relaxed) && first_held(fd as u32, fd as u32).is_some()
}

/// The lowest descriptor of a range that the tracer holds.
pub fn first_held(first: u32, last: u32) -> Option<u32> {
    let held = HELD.iter().filter_map(|held| u32::try_from(held.load(Relaxed)).ok());
    held.filter(|fd| (first..=last).contains(fd)).min()
}

/// Moves a held descriptor out of the way of a number the program wants. Where there is only one number left, it is the
/// blocks' own: the ring stays mapped as far as it goes.
pub fn move_held(wanted: i32) {
    if !holds(wanted) {
        return;
    }
    let Some(which) = HELD.iter().position(|held| held.load(Relaxed) == wanted) else { return };
    let mut moved = sys::duplicate_from(wanted, wanted + 1) as i32;
    let ring = held(RING);
    if moved < 0 && which == DLT && ring >= 0 {
        set_held(RING, -1);
        sys::close(ring);
        moved = sys::duplicate_from(wanted, ring) as i32;
    }
    set_held(which, moved.max(-1));
}

/// Closes those of the image's files: it is gone, or another process's. The folders are those of the next one too.
pub fn release() {
    let_go();
    for which in [DLT, RING] {
        let held = held(which);
        set_held(which, -1);
        if held >= 0 {
            sys::close(held);
        }
    }
}
