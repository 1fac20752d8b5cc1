//! The ring file: its first part, and the segments by which it grows.
//!
//! Disk space is reserved before anything is mapped. If that fails, segments are private memory, whose events are
//! lost by a kill: the header then marks the file as incomplete.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

use dlio_schemas::native::ring::{SEGMENT_HEADER, SEGMENTS_START, Shape, header};

use crate::kernel::sys;
use crate::thread::{reserved_fds, stack};
use crate::trace::files::{LOCK, reopen_ring};
use crate::trace::{header_page, recent, sigbus, tally, trace_dirs, write_errors};

/// Number of segments in the file, and the offset of the next one.
static SEGMENTS: AtomicU32 = AtomicU32::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
/// Number of segments in private memory, which a reader cannot find; they are numbered from [`PRIVATE_STREAMS`].
static PRIVATE: AtomicU32 = AtomicU32::new(0);
/// The small segment that is mapped with the header, until a thread takes it.
static SPARE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// `true` if the ring's first part is in the file, so that its contents outlive the process; likewise for the table
/// of counts.
static IN_FILE: AtomicBool = AtomicBool::new(false);
static TABLE_IN_FILE: AtomicBool = AtomicBool::new(false);
/// Larger than any number of segments in a ring.
const PRIVATE_STREAMS: u32 = 1 << 24;
/// Size of the part that is mapped at once: the header and the first segment.
pub const FIRST_PART: usize = SEGMENTS_START + Shape::SMALL.size();

/// Creates the file; returns a negative error number on failure.
pub fn make(path: &CStr) -> i32 {
    trace_dirs::open(path, libc::O_RDWR | libc::O_CREAT) as i32
}

/// Maps the first part, which is the header and a small segment, and returns whether it is in the created file; null
/// without memory. If the ring is private memory from the start, an empty file represents it in case the process is
/// killed.
pub fn map_first(path: &CStr, made: i32) -> (*mut u8, bool) {
    let mapped = match made {
        0.. => map_part(made, FIRST_PART, 0),
        error => {
            write_errors::note(-error);
            trace_dirs::make_empty(path);
            std::ptr::null_mut()
        }
    };
    if made >= 0 {
        if mapped.is_null() {
            sys::truncate(made, 0);
        }
        sys::close(made);
    }
    if mapped.is_null() {
        return (sys::map_memory(FIRST_PART), false);
    }
    sigbus::guard_first(mapped, FIRST_PART);
    sigbus::watch();
    (mapped, true)
}

/// Notes that the file has its first part, filled in.
///
/// # Safety
/// `first` is the result of [`map_first`].
pub unsafe fn begin(first: *mut u8, in_file: bool) {
    IN_FILE.store(in_file, Relaxed);
    SEGMENTS.store(1, Relaxed);
    END.store(FIRST_PART, Relaxed);
    // SAFETY: the first segment follows the header page in the same mapping.
    SPARE.store(unsafe { first.add(SEGMENTS_START) }, Relaxed);
}

/// Returns `true` if the first part is in the file and its contents outlive the process.
pub fn is_in_file() -> bool {
    IN_FILE.load(Relaxed)
}

/// Returns `true` if the contents of a segment with this number outlive the process.
pub fn outlives(stream: u32) -> bool {
    is_in_file() && stream < PRIVATE_STREAMS
}

/// Returns `true` if the contents of all segments outlive the process.
pub fn is_whole() -> bool {
    is_in_file() && PRIVATE.load(Relaxed) == 0
}

/// Returns `true` if the file consists of the first part only.
pub fn is_small() -> bool {
    threads() == 1
}

/// Returns `true` if the table of counts is in the file.
pub fn has_table_in_file() -> bool {
    TABLE_IN_FILE.load(Relaxed)
}

/// Maps a part of the ring file whose disk space is reserved: a store into a hole on a full file system would kill
/// the program. Null on failure.
fn map_part(fd: i32, length: usize, at: usize) -> *mut u8 {
    let reserve = if length > FIRST_PART { sys::reserve } else { sys::fill };
    let reserved = stack::without_signal(libc::SIGXFSZ, libc::EFBIG, || reserve(fd, at, length));
    if reserved != 0 {
        write_errors::note(-reserved as i32);
        return std::ptr::null_mut();
    }
    sys::map_file(fd, at, length)
}

/// Maps a later part, or private memory instead, whose contents do not survive a kill; returns whether it is part of
/// the file.
fn map_further(length: usize, at: usize) -> (*mut u8, bool) {
    // If the first part is private memory, there is no file, and that is not an error: it would begin with a hole.
    let mapped = if IN_FILE.load(Relaxed) { map_reopened(length, at) } else { std::ptr::null_mut() };
    if mapped.is_null() {
        return (sys::map_memory(length), false);
    }
    sigbus::guard_part(mapped, length);
    (mapped, true)
}

/// Returns `true` if another program truncated the ring: its start is gone, or a store into it has failed. A file
/// that was truncated and extended again contains zeros.
pub fn is_cut() -> bool {
    let is_gone = || header_page::bytes().is_some_and(|page| page[header::MAGIC..header::MAGIC + 8] == [0; 8]);
    if is_in_file() && !sigbus::is_cut() && is_gone() {
        sigbus::note_cut();
    }
    sigbus::is_cut() && !header_page::page().is_null()
}

fn map_reopened(length: usize, at: usize) -> *mut u8 {
    let held = reserved_fds::get(reserved_fds::RING);
    let fd = if held >= 0 { held } else { reopen_ring() };
    if fd < 0 {
        write_errors::note(-fd);
        return std::ptr::null_mut();
    }
    let mapped = map_part(fd, length, at);
    if held < 0 {
        sys::close(fd);
    }
    mapped
}

/// Maps another segment of the ring, and returns it with its number; null if there is no memory. Must be called under the lock.
fn map_segment(shape: Shape) -> (*mut u8, u32) {
    let (at, number) = (END.load(Relaxed), SEGMENTS.load(Relaxed));
    let (segment, in_file) = map_further(shape.size(), at);
    if segment.is_null() {
        return (segment, 0);
    }
    // SAFETY: fresh memory of that size, not shared with anything yet.
    shape.describe(unsafe { std::slice::from_raw_parts_mut(segment, SEGMENT_HEADER) });
    if !in_file {
        // Before its first event: a ring may claim to be incomplete without reason, but never to be complete.
        header_page::count(if shape.has_table { header::TALLY_UNSAVED } else { header::SEGMENTS_UNSAVED }, 1);
        return (segment, PRIVATE_STREAMS + PRIVATE.fetch_add(1, Relaxed));
    }
    END.store(at + shape.size(), Relaxed);
    SEGMENTS.store(number + 1, Relaxed);
    // SAFETY: an image exists; the number is aligned within its header page.
    unsafe { AtomicU32::from_ptr(header_page::page().add(header::SEGMENTS).cast()).store(number + 1, Release) };
    (segment, number)
}

/// Returns a segment for another thread, with its shape and its number. It is the small segment that was mapped with the header,
/// or a large one; null if there is no memory. Must be called under the lock.
pub fn next_segment() -> (Shape, *mut u8, u32) {
    let spare = SPARE.swap(std::ptr::null_mut(), Relaxed);
    if !spare.is_null() {
        return (Shape::SMALL, spare, 0);
    }
    let (segment, number) = map_segment(Shape::LARGE);
    (Shape::LARGE, segment, number)
}

/// Returns a large segment for a thread that has filled a small one, and its number.
pub fn large_segment() -> Option<(*mut u8, u32)> {
    let _held = LOCK.take()?;
    let (segment, number) = map_segment(Shape::LARGE);
    (!segment.is_null()).then_some((segment, number))
}

/// Returns `true` if full halves are counted instead of becoming blocks; their table is a separate segment, mapped now
/// if there is none yet.
pub fn counts_halves() -> bool {
    tally::is_on() && (tally::has_table() || map_table())
}

/// Returns `true` if full halves are counted in addition to becoming blocks.
pub fn counts_too() -> bool {
    recent::is_on() && (tally::has_table() || map_table())
}

#[cold]
fn map_table() -> bool {
    let Some(_held) = LOCK.take() else { return true };
    if tally::has_table() {
        return true;
    }
    let (segment, number) = map_segment(Shape::TABLE);
    if segment.is_null() {
        tally::give_up();
        return false;
    }
    TABLE_IN_FILE.store(number < PRIVATE_STREAMS, Relaxed);
    // SAFETY: the table follows the segment's page, is fresh and permanent.
    unsafe { tally::set_table(segment.add(SEGMENT_HEADER)) };
    true
}

/// Returns the maximum number of threads that had a ring at the same time.
pub fn threads() -> usize {
    (SEGMENTS.load(Relaxed) + PRIVATE.load(Relaxed)) as usize
}
