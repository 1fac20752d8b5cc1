//! The ring file: its first part, and the segments by which it grows.
//!
//! Room on disk is reserved before anything is mapped. Where that cannot be had segments are private memory, whose events
//! a kill takes away: the header then says that not all is there.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

use dlio_schemas::native::ring::{SEGMENT_HEADER, SEGMENTS_START, Shape, header};

use crate::kernel::sys;
use crate::thread::{reserved_fds, stack};
use crate::trace::files::{LOCK, reopen_ring};
use crate::trace::{header_page, sigbus, tally, trace_dirs, write_errors};

/// Segments in the file, and where the next one begins.
static SEGMENTS: AtomicU32 = AtomicU32::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
/// Segments in memory alone, which no reader finds; they are numbered from [`PRIVATE_STREAMS`].
static PRIVATE: AtomicU32 = AtomicU32::new(0);
/// The small segment that is mapped with the header, until a thread takes it.
static SPARE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// True if the ring's first part lies in the file, so that what it says outlives the process; and the table of counts.
static IN_FILE: AtomicBool = AtomicBool::new(false);
static TABLE_IN_FILE: AtomicBool = AtomicBool::new(false);
/// More segments than a ring has.
const PRIVATE_STREAMS: u32 = 1 << 24;
/// The part that is mapped at once: the header and the first segment.
pub const FIRST_PART: usize = SEGMENTS_START + Shape::SMALL.size();

/// Makes the file; the negative number of an error where that cannot be.
pub fn make(path: &CStr) -> i32 {
    trace_dirs::open(path, libc::O_RDWR | libc::O_CREAT) as i32
}

/// Maps the first part, the header and a small segment, and says whether it lies in the file that was made; null without
/// memory. Of a ring that is private memory from its beginning an empty file tells, should its process be killed.
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

/// The file has its first part, which is filled in.
///
/// # Safety
/// `first` is what [`map_first`] has given.
pub unsafe fn begin(first: *mut u8, in_file: bool) {
    IN_FILE.store(in_file, Relaxed);
    SEGMENTS.store(1, Relaxed);
    END.store(FIRST_PART, Relaxed);
    // SAFETY: the first segment follows the header page in the same mapping.
    SPARE.store(unsafe { first.add(SEGMENTS_START) }, Relaxed);
}

/// True if the first part lies in the file, and what it says outlives the process.
pub fn is_in_file() -> bool {
    IN_FILE.load(Relaxed)
}

/// True if what a segment of this number holds outlives the process.
pub fn outlives(stream: u32) -> bool {
    is_in_file() && stream < PRIVATE_STREAMS
}

/// True if it is no larger than that.
pub fn is_small() -> bool {
    threads() == 1
}

/// True if the table of counts does.
pub fn has_table_in_file() -> bool {
    TABLE_IN_FILE.load(Relaxed)
}

/// A part of the ring file, with room on disk reserved: a store into a hole of a full file system would kill the program.
/// Null where that cannot be had.
fn map_part(fd: i32, length: usize, at: usize) -> *mut u8 {
    let reserve = if length > FIRST_PART { sys::reserve } else { sys::fill };
    let reserved = stack::without_signal(libc::SIGXFSZ, libc::EFBIG, || reserve(fd, at, length));
    if reserved != 0 {
        write_errors::note(-reserved as i32);
        return std::ptr::null_mut();
    }
    sys::map_file(fd, at, length)
}

/// A later part, or private memory in its place, whose contents then do not outlive a kill; says whether it is of the file.
fn map_further(length: usize, at: usize) -> (*mut u8, bool) {
    // Where the first part is private memory there is no file, and nothing wrong with that: it would begin with a hole.
    let mapped = if IN_FILE.load(Relaxed) { map_reopened(length, at) } else { std::ptr::null_mut() };
    if mapped.is_null() {
        return (sys::map_memory(length), false);
    }
    sigbus::guard_part(mapped, length);
    (mapped, true)
}

/// True if the ring was cut short by others: its beginning is gone, or a store into it has failed. What is cut and made long
/// again holds zeros.
pub fn is_cut() -> bool {
    let is_gone = || header_page::bytes().is_some_and(|page| page[header::MAGIC..header::MAGIC + 8] == [0; 8]);
    if is_in_file() && !sigbus::is_cut() && is_gone() {
        sigbus::note_cut();
    }
    sigbus::is_cut() && !header_page::page().is_null()
}

fn map_reopened(length: usize, at: usize) -> *mut u8 {
    let held = reserved_fds::held(reserved_fds::RING);
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

/// A further segment of the ring, and its number; null without memory. Under the lock.
fn map_segment(shape: Shape) -> (*mut u8, u32) {
    let (at, number) = (END.load(Relaxed), SEGMENTS.load(Relaxed));
    let (segment, in_file) = map_further(shape.size(), at);
    if segment.is_null() {
        return (segment, 0);
    }
    // SAFETY: fresh memory of that size, known to nobody else.
    shape.describe(unsafe { std::slice::from_raw_parts_mut(segment, SEGMENT_HEADER) });
    if !in_file {
        // Before its first event: a ring may say that it does not hold all, but not that it does.
        header_page::count(if shape.has_table { header::TALLY_UNSAVED } else { header::SEGMENTS_UNSAVED }, 1);
        return (segment, PRIVATE_STREAMS + PRIVATE.fetch_add(1, Relaxed));
    }
    END.store(at + shape.size(), Relaxed);
    SEGMENTS.store(number + 1, Relaxed);
    // SAFETY: an image exists; the number is aligned within its header page.
    unsafe { AtomicU32::from_ptr(header_page::page().add(header::SEGMENTS).cast()).store(number + 1, Release) };
    (segment, number)
}

/// A segment for a further thread, its shape and number: the small one that was mapped with the header, or a large one.
/// Null without memory. Under the lock.
pub fn next_segment() -> (Shape, *mut u8, u32) {
    let spare = SPARE.swap(std::ptr::null_mut(), Relaxed);
    if !spare.is_null() {
        return (Shape::SMALL, spare, 0);
    }
    let (segment, number) = map_segment(Shape::LARGE);
    (Shape::LARGE, segment, number)
}

/// A large segment for a thread that has filled a small one, and its number.
pub fn large_segment() -> Option<(*mut u8, u32)> {
    let _held = LOCK.take()?;
    let (segment, number) = map_segment(Shape::LARGE);
    (!segment.is_null()).then_some((segment, number))
}

/// From now on events are counted: their table is a segment of its own. Under the lock.
pub fn count_from_now() {
    let (segment, number) = map_segment(Shape::TABLE);
    if !segment.is_null() {
        TABLE_IN_FILE.store(number < PRIVATE_STREAMS, Relaxed);
        // SAFETY: the table follows the segment's page, is fresh and stays.
        unsafe { tally::start(segment.add(SEGMENT_HEADER)) };
    }
}

/// The most threads that have had a ring at a time.
pub fn threads() -> usize {
    (SEGMENTS.load(Relaxed) + PRIVATE.load(Relaxed)) as usize
}
