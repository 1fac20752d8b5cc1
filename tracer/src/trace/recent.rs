//! A flight recorder (`DLIO_TRACE_LAST`): the `.dlt` keeps the events of the last period, and all facts and names.
//!
//! ```text
//! facts  events  names  events  events  events          facts  names  events  facts
//!        ------ old ----------                    ->                          what was dropped
//! ```
//!
//! When the file spans half a period more than the user wants, the blocks that remain are copied to a new file, which
//! then replaces the old one in one step: a reader, or a kill, always finds a whole trace. All events are also in the
//! table of counts, which covers the whole run.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::*};

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::block::{Codec, HEADER_SIZE, Header, Kind};
use dlio_schemas::native::fields::{FieldWriter, key};
use dlio_schemas::native::file::FILE_HEADER;
use dlio_schemas::native::ring::header;

use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::{clock, sys};
use crate::process::config;
use crate::thread::lock::Lock;
use crate::thread::{reserved_fds, stack};
use crate::trace::files::{DLT_IDENTITY, dlt_path};
use crate::trace::{header_page, trace_dirs, write_errors};

/// Held while a block is appended and while the file is replaced: a block appended to the old file would be lost.
pub static FILE: Lock = Lock::new();
/// Boot time at which the file is shortened; zero before the first block.
static DUE: AtomicU64 = AtomicU64::new(0);
/// Number of events dropped so far.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Size of the buffer for copying.
const BUFFER: usize = 256 << 10;

/// The result of shortening the file.
pub struct Shortened {
    /// Number of events that are no longer in the file.
    pub dropped: u64,
    /// The new size of the file.
    pub bytes: u64,
}

/// Returns `true` if only the events of the last period are kept.
pub fn is_on() -> bool {
    config::get().last_ns > 0
}

/// Resets the state for a new image.
pub fn begin() {
    FILE.reset();
    DUE.store(0, Relaxed);
    DROPPED.store(0, Relaxed);
}

/// Shortens the file if it is time to. Must be called under [`FILE`].
///
/// A process whose descriptor of the file must stay open, because it has dropped privileges, cannot replace the file
/// and keeps all events.
pub fn shorten_if_due() -> Option<Shortened> {
    let (last_ns, now_ns) = (config::get().last_ns, sys::clock_ns(libc::CLOCK_BOOTTIME));
    let due = DUE.load(Relaxed);
    if now_ns < due {
        return None;
    }
    let first = if due == 0 { last_ns } else { 0 };
    DUE.store(now_ns.saturating_add(first).saturating_add(last_ns / 2), Relaxed);
    if due == 0 || reserved_fds::open_for_blocks() >= 0 { None } else { shorten(last_ns) }
}

#[cold]
fn shorten(last_ns: u64) -> Option<Shortened> {
    let now = clock::anchor();
    let period = last_ns as u128 * clock::rate_hz(&now) as u128 / 1_000_000_000;
    let cutoff = now.ticks.checked_sub(u64::try_from(period).ok()?)?;
    let mut part = PathBuffer::new();
    part.push(dlt_path().to_bytes()).push(b".part");
    let old = DLT_IDENTITY.open(dlt_path(), libc::O_RDONLY);
    // One that a killed thread of this process or its namesake left.
    trace_dirs::unlink(part.as_c_str());
    let new = trace_dirs::open(part.as_c_str(), libc::O_WRONLY | libc::O_CREAT) as i32;
    let shortened = copy_recent(old, new, cutoff).filter(|shortened| {
        shortened.dropped > 0
            && note_dropped(
                new,
                &now,
                &[
                    (key::KEPT_FROM_BOOT_NS, now.boot_ns.saturating_sub(last_ns)),
                    (key::DROPPED, DROPPED.load(Relaxed) + shortened.dropped),
                ],
            )
            && replace(&part, (old, new), shortened.dropped)
    });
    if shortened.is_none() {
        trace_dirs::unlink(part.as_c_str());
    }
    sys::close(old);
    sys::close(new);
    shortened
}

/// Makes the new file the trace. Returns `false` if the old one remains.
fn replace(part: &PathBuffer, (old, new): (i32, i32), dropped: u64) -> bool {
    // First: after a kill in between, a reader finds more blocks than it expects, and misses none.
    let written = header_page::counter(header::WRITTEN);
    if let Some(written) = written {
        written.fetch_sub(dropped, Relaxed);
    }
    DLT_IDENTITY.note(new);
    if trace_dirs::rename(part.as_c_str(), dlt_path()) == 0 {
        DROPPED.fetch_add(dropped, Relaxed);
        return true;
    }
    DLT_IDENTITY.note(old);
    if let Some(written) = written {
        written.fetch_add(dropped, Relaxed);
    }
    false
}

/// Copies everything except events that ended before a tick. `None` if the new file could not be written.
pub fn copy_recent(old: i32, new: i32, cutoff: u64) -> Option<Shortened> {
    let size = usize::try_from(sys::size(old)).ok().filter(|_| new >= 0)?;
    let buffer = sys::map_memory(BUFFER);
    if buffer.is_null() {
        return None;
    }
    // SAFETY: fresh memory of this size, used only here.
    let room = unsafe { std::slice::from_raw_parts_mut(buffer, BUFFER) };
    let (mut at, mut kept_from, mut shortened) = (FILE_HEADER, 0, Shortened { dropped: 0, bytes: 0 });
    let mut copy = |range: Range<usize>, bytes: &mut u64| {
        *bytes += range.len() as u64;
        copy_range(old, new, range, room)
    };
    let mut is_copied = true;
    // What follows a torn block is kept.
    while is_copied && let Some(header) = header_at(old, at).filter(|header| at + header.size() <= size) {
        let end = at + header.size();
        if header.kind == Kind::Events && header.last < cutoff {
            is_copied = copy(kept_from..at, &mut shortened.bytes);
            kept_from = end;
            shortened.dropped += header.count as u64;
        }
        at = end;
    }
    is_copied = is_copied && copy(kept_from..size, &mut shortened.bytes);
    sys::unmap(buffer, BUFFER);
    is_copied.then_some(shortened)
}

fn header_at(fd: i32, at: usize) -> Option<Header> {
    let mut bytes = [0; HEADER_SIZE];
    Header::from_bytes(sys::read_at(fd, &mut bytes, at).first_chunk::<HEADER_SIZE>()?).ok()
}

fn copy_range(old: i32, new: i32, mut range: Range<usize>, room: &mut [u8]) -> bool {
    while !range.is_empty() {
        let length = range.len().min(room.len());
        let bytes = sys::read_at(old, &mut room[..length], range.start);
        if bytes.is_empty() || !write(new, || sys::write_all(new, bytes)) {
            return false;
        }
        range.start += bytes.len();
    }
    true
}

/// Appends the facts that show a reader what is missing.
pub fn note_dropped(new: i32, now: &Anchor, numbers: &[(&str, u64)]) -> bool {
    let mut bytes = [0; 128];
    let mut writer = FieldWriter::new(&mut bytes);
    numbers.iter().for_each(|(key, number)| writer.number(key, *number as i64));
    let facts = writer.used();
    let facts = &bytes[..facts];
    let mut header = Header { count: 1, anchor: *now, ..Header::new(Kind::Process) };
    let sealed = header.seal(Codec::Raw, facts.len(), facts);
    write(new, || sys::write_pieces(new, [&sealed, facts]))
}

fn write(fd: i32, writing: impl FnOnce() -> isize) -> bool {
    let result = if fd < 0 { fd as isize } else { stack::without_signal(libc::SIGXFSZ, libc::EFBIG, writing) };
    if result != 0 {
        write_errors::note(-result as i32);
    }
    result == 0
}
