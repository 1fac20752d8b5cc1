//! Requests that the kernel executes while the program continues (libaio). Each is one event, from its submission
//! until its result is fetched.
//!
//! A request is noted before the kernel receives it, because another thread may fetch the result first and reuse the
//! request. The notes are in a lock-free table of fixed size. A result without a note counts as a lost event. So does
//! a note whose request is submitted again, because its result was fetched without the library's functions.

use std::ffi::c_long;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use dlio_schemas::ops::Op;

use crate::calls::call::Done;
use crate::kernel::{clock, sys};
use crate::known::number;
use crate::naming::descriptor_files;
use crate::recording::wiped_page;
use crate::trace::{header_page, write_errors};

/// A request in the kernel's layout.
#[repr(C)]
pub struct Request {
    data: u64,
    key: u32,
    flags: u32,
    command: u16,
    priority: i16,
    fd: i32,
    buffer: u64,
    size: u64,
    at: i64,
    rest: [u64; 2],
}

/// A result in the kernel's layout.
#[repr(C)]
pub struct Event {
    data: u64,
    request: u64,
    result: i64,
    second: i64,
}

/// A request in flight.
struct Note {
    /// Hash of the request's address and the data that the program attached to it; [`FREE`], or [`BUSY`] while the
    /// other fields are written or read.
    key: AtomicU64,
    context: AtomicUsize,
    start: AtomicU64,
    size: AtomicI64,
    at: AtomicI64,
    /// The operation of the request, and that of the submission alone.
    ops: AtomicU32,
    fd: AtomicI32,
    file: AtomicU32,
    /// The image in which the file number is valid.
    generation: AtomicU32,
}

const FREE: u64 = 0;
const BUSY: u64 = 1;
/// Maximum number of requests in flight. Each searches for a slot in a few entries next to its hash.
const NOTES: usize = 4096;
const NEAR: usize = 32;
/// Maximum number of noted requests per submission.
const AT_ONCE: usize = 1024;
/// Maximum number of buffers per request, the kernel's own limit.
const BUFFERS_MAX: u64 = 1024;

crate::large! {
    static TABLE: [Note; NOTES] = [const {
        Note {
            key: AtomicU64::new(FREE),
            context: AtomicUsize::new(0),
            start: AtomicU64::new(0),
            size: AtomicI64::new(0),
            at: AtomicI64::new(0),
            ops: AtomicU32::new(0),
            fd: AtomicI32::new(0),
            file: AtomicU32::new(0),
            generation: AtomicU32::new(0),
        }
    }; NOTES];
}

/// Number of requests noted.
static NOTED: AtomicUsize = AtomicUsize::new(0);

/// Replaces the operation of a request that is not I/O and makes no event.
const NO_IO: Op = Op(0);

/// Returns the operation of a request, and the operation recorded if its submission fails.
fn ops_of(command: u16) -> (Op, Op) {
    match command {
        0 | 7 => (Op::AIO_READ_DONE, Op::AIO_READ),
        1 | 8 => (Op::AIO_WRITE_DONE, Op::AIO_WRITE),
        2 | 3 => (Op::AIO_FSYNC_DONE, Op::AIO_FSYNC),
        _ => (NO_IO, NO_IO),
    }
}

fn has_vector(command: u16) -> bool {
    matches!(command, 7 | 8)
}

fn key(request: u64, data: u64) -> u64 {
    let mixed = (request ^ data.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ data;
    mixed.max(BUSY + 1)
}

fn near(key: u64) -> impl Iterator<Item = &'static Note> {
    let first = (key >> 40) as usize;
    (0..NEAR).map(move |i| &TABLE[(first + i) % NOTES])
}

/// The requests of one submission: their number and the address of their list.
pub struct Submission {
    list: *const *const Request,
    count: usize,
}

/// Notes requests that are about to be submitted, as far as they can be read.
///
/// # Safety
/// `list` is the list that a program passes to the kernel.
pub unsafe fn submits(context: usize, list: *const *const Request, count: c_long) -> Submission {
    let count = (count.max(0) as usize).min(AT_ONCE);
    let none = Submission { list, count: 0 };
    if count == 0 || !is_readable(list.addr(), count * size_of::<usize>()) {
        return none;
    }
    // SAFETY: it can be read.
    let requests = unsafe { std::slice::from_raw_parts(list, count) };
    if !requests.iter().all(|request| request.is_aligned()) || !are_readable(requests) {
        return none;
    }
    // SAFETY: as above.
    requests.iter().for_each(|&request| unsafe { note(context, request) });
    Submission { list, count }
}

fn is_readable(at: usize, length: usize) -> bool {
    let last = at.wrapping_add(length.max(1) - 1);
    // Lists are short: at most two pages, or the table of one submission.
    let mut pages = (at..=last).step_by(sys::PAGE).chain([last]);
    last >= at && pages.all(|page| sys::are_readable(&[std::ptr::without_provenance(page)]))
}

fn are_readable(requests: &[*const Request]) -> bool {
    const SOME: usize = 16;
    requests.chunks(SOME).all(|some| {
        let mut ends = [std::ptr::null(); 2 * SOME];
        for (pair, &request) in ends.chunks_mut(2).zip(some) {
            let first: *const libc::c_char = request.cast();
            pair.copy_from_slice(&[first, first.wrapping_add(size_of::<Request>() - 1)]);
        }
        sys::are_readable(&ends[..2 * some.len()])
    })
}

/// # Safety
/// The request can be read.
unsafe fn note(context: usize, address: *const Request) {
    // SAFETY: by the contract above.
    let request = unsafe { &*address };
    let (op, submission) = ops_of(request.command);
    let key = key(address.addr() as u64, request.data);
    let take = |is: u64| move |note: &&Note| note.key.compare_exchange(is, BUSY, Acquire, Relaxed).is_ok();
    let note = match near(key).find(take(key)) {
        Some(note) => {
            count_lost_result();
            note
        }
        None => match near(key).find(take(FREE)) {
            Some(note) => {
                NOTED.fetch_add(1, Relaxed);
                note
            }
            None => return,
        },
    };
    let size =
        if has_vector(request.command) { requested_bytes(request.buffer, request.size) } else { request.size as i64 };
    let is_sync = op == Op::AIO_FSYNC_DONE;
    note.context.store(context, Relaxed);
    note.size.store(if is_sync { 0 } else { size }, Relaxed);
    note.at.store(if is_sync { 0 } else { request.at }, Relaxed);
    note.ops.store((op.0 as u32) << 16 | submission.0 as u32, Relaxed);
    note.fd.store(request.fd, Relaxed);
    note.file.store(descriptor_files::file(request.fd), Relaxed);
    note.generation.store(wiped_page::generation(), Relaxed);
    note.start.store(clock::ticks(), Relaxed);
    note.key.store(key, Release);
}

/// Returns the total length of a list of buffers, or zero if the list cannot be read.
pub(super) fn requested_bytes(list: u64, count: u64) -> i64 {
    let (list, count) = (std::ptr::without_provenance::<libc::iovec>(list as usize), count.min(BUFFERS_MAX) as usize);
    if count == 0 || !list.is_aligned() || !is_readable(list.addr(), count * size_of::<libc::iovec>()) {
        return 0;
    }
    // SAFETY: it can be read.
    unsafe { std::slice::from_raw_parts(list, count) }.iter().map(|buffer| buffer.iov_len as i64).sum()
}

/// Counts a lost event: its result was fetched unseen, or its request was not noted.
fn count_lost_result() {
    write_errors::note(write_errors::UNSEEN_RESULT);
    header_page::count_lost(1);
}

/// Removes a note from the table and passes it to `then`.
fn take(key: u64, then: impl FnOnce(&Note)) -> bool {
    let found = near(key).find(|note| note.key.compare_exchange(key, BUSY, Acquire, Relaxed).is_ok());
    found.inspect(|note| {
        then(note);
        free(note);
    });
    found.is_some()
}

fn free(note: &Note) {
    note.key.store(FREE, Release);
    NOTED.fetch_sub(1, Relaxed);
}

impl Note {
    fn record(&self, done: Done, op: u16, result: i64) {
        if Op(op) == NO_IO {
            return;
        }
        let fd = self.fd.load(Relaxed);
        let is_current = self.generation.load(Relaxed) == wiped_page::generation();
        let file = if is_current { self.file.load(Relaxed) } else { descriptor_files::file(fd) };
        done.record(Op(op), file, fd, (self.at.load(Relaxed), true), self.size.load(Relaxed), result);
    }
}

/// Handles the return of a submission. If not all requests were accepted, the first one that was not may be the
/// reason.
///
/// # Safety
/// The list of the submission can still be read.
pub unsafe fn submitted(done: Done, submission: Submission, ret: i32) {
    let Submission { list, count } = submission;
    if count == 0 {
        return;
    }
    // SAFETY: by the contract above.
    let requests = unsafe { std::slice::from_raw_parts(list, count) };
    for (i, &request) in requests.iter().enumerate().skip(ret.max(0) as usize) {
        // SAFETY: it could be read a moment ago, and the kernel has not taken it.
        let key = key(request.addr() as u64, unsafe { (*request).data });
        take(key, |note| {
            if ret < 0 && i == 0 {
                note.record(done, note.ops.load(Relaxed) as u16, ret as i64);
            }
        });
    }
}

/// Records fetched results.
///
/// # Safety
/// `events` contains `ret` results, if `ret` is not negative.
pub unsafe fn fetched(events: *const Event, ret: i32) {
    let now = clock::ticks();
    if ret <= 0 {
        return;
    }
    // SAFETY: by the contract above; the kernel has just written them.
    for event in unsafe { std::slice::from_raw_parts(events, ret as usize) } {
        let known = take(key(event.request, event.data), |note| {
            let start = note.start.load(Relaxed);
            let done = Done { start, duration: now.wrapping_sub(start) };
            note.record(done, (note.ops.load(Relaxed) >> 16) as u16, event.result);
        });
        if !known {
            count_lost_result();
        }
    }
}

/// Handles the cancellation of a request. On success the kernel delivers its result immediately; otherwise the result
/// is fetched like any other.
///
/// # Safety
/// `event` is a valid result if `ret` is zero.
pub unsafe fn cancelled(done: Done, event: *const Event, ret: i32) {
    done.record(Op::AIO_CANCEL, number::NONE, -1, (0, true), 0, ret as i64);
    // SAFETY: by the contract above.
    unsafe { fetched(event, if ret == 0 { 1 } else { 0 }) };
}

/// Handles the destruction of a context, which discards all results that were not fetched.
pub fn destroyed(context: usize) {
    if NOTED.load(Relaxed) == 0 {
        return;
    }
    for note in &TABLE {
        let key = note.key.load(Acquire);
        if key > BUSY
            && note.context.load(Relaxed) == context
            && note.key.compare_exchange(key, BUSY, Acquire, Relaxed).is_ok()
        {
            free(note);
        }
    }
}

/// Clears the table in a forked child, which does not inherit its parent's requests.
pub fn forget() {
    if NOTED.swap(0, Relaxed) > 0 {
        TABLE.iter().for_each(|note| note.key.store(FREE, Relaxed));
    }
}
