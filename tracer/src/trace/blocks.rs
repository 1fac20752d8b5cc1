//! The `.dlt`: appends blocks while the file may grow and the disk has space.
//!
//! Each block opens the file, appends and closes it again. That costs a nanosecond per event and leaves the program's
//! descriptors as they would be without tracing; see [`crate::thread::reserved_fds`] for exceptions.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::clock::Anchor;
use dlio_schemas::io_limits;
use dlio_schemas::native::block::{self, Codec, HEADER_SIZE, Header, Kind};
use dlio_schemas::native::file::file_header;
use dlio_schemas::native::ring::header;

use crate::kernel::limits::GROUP_MAX;
use crate::kernel::sys;
use crate::process::config;
use crate::thread::{reserved_fds, stack, thread_names};
use crate::trace::disk_full::Tail;
use crate::trace::files::{DLT_IDENTITY, LOCK, dlt_path, reopen_ring};
use crate::trace::{files, header_page, recent, ring_file, sigbus, tally, trace_dirs, write_errors};

/// `true` while the image is being closed: the data written then matters more than the last events.
pub static CLOSING: AtomicBool = AtomicBool::new(false);
static DLT: AtomicU32 = AtomicU32::new(DLT_NONE);
static EVENTS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Maximum length of the facts written at once: the last facts, resource usage, the groups that the process has moved
/// to, and the names of threads.
pub const FACTS_MAX: usize = 1024 + 2 * GROUP_MAX + io_limits::TEXT_MAX + thread_names::TEXT_MAX;
/// `true` if the process must not write: see [`is_forbidden`].
static FORBIDDEN: AtomicBool = AtomicBool::new(false);
const DLT_NONE: u32 = 0;
const DLT_WRITTEN: u32 = 1;
/// Bytes per event in the formats that viewers read.
pub const EXPORTED_EVENT: u64 = 16;
/// Expected size of the compressed table of counts.
const TABLE_STORED: u64 = 64 << 10;

/// Resets the state for a new image, which has no blocks yet.
pub fn begin() {
    DLT.store(DLT_NONE, Relaxed);
    FORBIDDEN.store(false, Relaxed);
    EVENTS.store(0, Relaxed);
    BYTES.store(0, Relaxed);
    recent::begin();
}

/// Returns `true` if the file for blocks exists.
pub fn is_begun() -> bool {
    DLT.load(Acquire) != DLT_NONE
}

/// Returns `true` if a seccomp filter prevents the process from writing files. That is permanent, while a full disk
/// may get space again.
pub fn is_forbidden() -> bool {
    FORBIDDEN.load(Relaxed)
}

/// Appends a block to the `.dlt`, which is created with the first one. Returns `false` if the block is lost.
pub fn append(block: &[u8]) -> bool {
    if !is_begun() && !begin_dlt() {
        return false;
    }
    let guard = if recent::is_on() { recent::FILE.take() } else { None };
    if guard.is_none() && recent::is_on() {
        // This thread was interrupted while it appended or replaced the file.
        return false;
    }
    let all = header_page::counter(header::WRITTEN);
    let written = write(libc::O_APPEND, [block])
        || CLOSING.load(Relaxed) && make_room(block.len()) && write(libc::O_APPEND, [block]);
    let events = block::events_of(block) as u64;
    if written && events > 0 {
        // Another thread may have replaced a truncated image in the meantime. Its successor must not count a block that
        // is in the earlier file: a reader would miss it in the later one.
        let is_current =
            |all: &&AtomicU64| header_page::counter(header::WRITTEN).is_some_and(|now| std::ptr::eq(now, *all));
        if let Some(all) = all.filter(is_current) {
            EVENTS.fetch_add(events, Relaxed);
            all.fetch_add(events, Relaxed);
        }
        let bytes = BYTES.fetch_add(block.len() as u64, Relaxed) + block.len() as u64;
        if is_full(bytes) && !tally::is_on() {
            stop_recording();
        }
        if guard.is_some()
            && let Some(shortened) = recent::shorten_if_due()
        {
            EVENTS.fetch_sub(shortened.dropped, Relaxed);
            BYTES.store(shortened.bytes, Relaxed);
        }
    }
    written
}

/// Appends a block of facts.
pub fn append_facts(facts: &[u8], anchor: Anchor) -> bool {
    let mut block = [0; HEADER_SIZE + FACTS_MAX];
    let mut head = Header { count: 1, anchor, ..Header::new(Kind::Process) };
    block[..HEADER_SIZE].copy_from_slice(&head.seal(Codec::Raw, facts.len(), facts));
    block[HEADER_SIZE..HEADER_SIZE + facts.len()].copy_from_slice(facts);
    append(&block[..HEADER_SIZE + facts.len()])
}

/// Returns `true` if the trace has reached its maximum size.
fn is_full(bytes: u64) -> bool {
    bytes.saturating_add(TABLE_STORED) >= config::get().max_bytes
}

/// Returns `true` if the trace may be converted to a format that viewers read, which is several times as large.
pub fn may_be_exported() -> bool {
    events() * EXPORTED_EVENT <= config::get().max_bytes
}

/// Returns the number of events recorded (for the choice of format) or counted.
pub fn events() -> u64 {
    EVENTS.load(Relaxed) + if tally::is_on() { tally::events() } else { 0 }
}

/// Returns `true` if the file lacks events that were counted: all of them, the later ones, or, in a flight recorder,
/// the earlier ones.
pub fn has_counted() -> bool {
    tally::is_on() || recent::is_on()
}

/// Stops recording: the trace has reached its maximum size.
#[cold]
fn stop_recording() {
    if let Some(_held) = LOCK.take()
        && !tally::is_on()
    {
        tally::start();
    }
}

/// Writes the file's header and the known information about the process. If this fails, the next block tries again from the
/// start, because descriptors and disk space may be available by then.
fn begin_dlt() -> bool {
    let Some(_held) = LOCK.take() else { return false };
    if is_begun() {
        return true;
    }
    let Some(page) = header_page::bytes() else { return false };
    let facts = header_page::facts(page);
    let mut head =
        Header { count: 1, anchor: header_page::read_anchor(page, header::FIRST_ANCHOR), ..Header::new(Kind::Process) };
    let sealed = head.seal(Codec::Raw, facts.len(), facts);
    let written = write(libc::O_CREAT, [&file_header(), &sealed, facts]);
    match reserved_fds::open_for_blocks() {
        _ if written => DLT.store(DLT_WRITTEN, Release),
        held if held >= 0 => drop(sys::truncate(held, 0)),
        _ => {}
    }
    written
}

fn write<const N: usize>(flags: i32, parts: [&[u8]; N]) -> bool {
    let held = reserved_fds::open_for_blocks();
    let open = || DLT_IDENTITY.open(dlt_path(), libc::O_WRONLY | flags);
    let fd = match held {
        0.. => held,
        _ => Some(open()).filter(|fd| *fd != -libc::ENOENT || !files::follow()).unwrap_or_else(open),
    };
    if fd < 0 {
        // A file system reports other errors.
        FORBIDDEN.fetch_or([libc::EPERM, libc::ENOSYS].contains(&-fd), Relaxed);
        write_errors::note(-fd);
        return false;
    }
    let result = stack::without_signal(libc::SIGXFSZ, libc::EFBIG, || sys::write_pieces(fd, parts));
    if held < 0 {
        sys::close(fd);
    }
    if result != 0 {
        write_errors::note(-result as i32);
        // A file that was started is created again, as a new file.
        if flags & libc::O_CREAT != 0 && held < 0 {
            trace_dirs::unlink(dlt_path());
        }
    }
    result == 0
}

/// Truncates the file on a full disk, first a torn block and then the last events. Names, and the number of lost
/// events, are worth more than the last events.
fn make_room(needed: usize) -> bool {
    let fd = DLT_IDENTITY.open(dlt_path(), libc::O_RDWR);
    let length = sys::size(fd).max(0) as usize;
    let mapped = if length > 0 { sys::map_to_read(fd, length) } else { std::ptr::null() };
    sigbus::guard_reading(mapped.cast_mut(), length);
    let made = !mapped.is_null() && {
        // SAFETY: the file belongs to this image, and nothing else shortens it while the image is closed.
        let bytes = unsafe { std::slice::from_raw_parts(mapped, length) };
        let given_up = Tail::of(bytes).give_up(needed);
        given_up.is_some_and(|(end, events)| {
            let freed = sys::truncate(fd, end) == 0;
            if freed {
                header_page::count_lost(events);
                EVENTS.fetch_sub(events, Relaxed);
                if let Some(all) = header_page::counter(header::WRITTEN) {
                    all.fetch_sub(events, Relaxed);
                }
            }
            freed
        })
    };
    sigbus::release(mapped);
    sys::unmap(mapped.cast_mut(), length);
    sys::close(fd);
    made
}

/// Returns `true` if there are blocks, but the file was removed or replaced: the written data is in no file that has
/// a name.
pub fn are_gone() -> bool {
    is_begun()
        && match reserved_fds::get(reserved_fds::DLT) {
            held if held >= 0 => sys::status(held).is_some_and(|found| found.links == 0),
            _ => files::is_gone(DLT_IDENTITY.open(dlt_path(), libc::O_RDONLY)),
        }
}

/// Counts the events of such blocks as lost.
pub fn count_lost() {
    write_errors::note(libc::ENOENT);
    header_page::counter(header::WRITTEN).into_iter().for_each(|all| all.store(0, Relaxed));
    header_page::count_lost(EVENTS.swap(0, Relaxed));
}

/// Opens the `.dlt` for all remaining blocks, because this thread closes the image. Hooks prevent the descriptor from
/// being closed or replaced in the meantime.
pub fn open_to_close() {
    if reserved_fds::get(reserved_fds::DLT) < 0 {
        let create = if is_begun() { 0 } else { libc::O_CREAT };
        let fd = DLT_IDENTITY.open(dlt_path(), libc::O_WRONLY | libc::O_APPEND | create);
        reserved_fds::keep_to_close(fd);
    }
}

/// Opens both files permanently, because the program is about to lose access to them. An image exists.
pub fn keep_both_open() {
    if reserved_fds::get(reserved_fds::DLT) >= 0 || !is_begun() && !begin_dlt() {
        return;
    }
    reserved_fds::keep_open(reserved_fds::DLT, DLT_IDENTITY.open(dlt_path(), libc::O_WRONLY | libc::O_APPEND));
    if ring_file::is_in_file() {
        reserved_fds::keep_open(reserved_fds::RING, reopen_ring());
    }
}
