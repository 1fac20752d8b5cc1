//! The files of this process image: making them, growing the ring, appending blocks.
//!
//! Nothing exists until the first event. No descriptor is kept: the ring is mapped, and a block opens the file, appends
//! and closes it again, which costs a nanosecond an event and leaves the program's descriptors as they would be without
//! us, whatever it closes, duplicates or counts. Only a program that gives up its rights or its root (setuid, chroot) has
//! the file opened before, see [`hold`].

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::VERSION;
use dlio_schemas::native::block::{Codec, HEADER_SIZE, Header, Kind};
use dlio_schemas::native::columns::EVENTS_MAX;
use dlio_schemas::native::fields::{FieldWriter, key};
use dlio_schemas::native::file::file_header;
use dlio_schemas::native::ring::{self, SEGMENTS_START, header, segment_at, segment_size, tally_segments};

use crate::lock::Lock;
use crate::path_buffer::PathBuffer;
use crate::ring::Thread;
use crate::tail::Tail;
use crate::{clock, config, descriptors, engine, facts, mappings, stack, sys, tally, thread_names};

static LOCK: Lock = Lock::new();
/// Where the pointer to the ring's header page lies: on a page that a forked child finds zeroed, however it was forked.
static RING_CELL: AtomicPtr<AtomicPtr<u8>> = AtomicPtr::new(std::ptr::null_mut());
/// The process that made the image.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// All states of threads of this image, and those without a thread.
static THREADS: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());
static IDLE: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());
static SEGMENTS: AtomicU32 = AtomicU32::new(0);
/// Until when nothing is tried again that failed for want of memory, on the kernel's coarse clock.
static PAUSED_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Whether the image is being closed: what is written now matters more than the last events.
static CLOSING: AtomicBool = AtomicBool::new(false);
static DLT: AtomicU32 = AtomicU32::new(DLT_NONE);
static HELD: AtomicI32 = AtomicI32::new(-1);
static TROUBLE: AtomicI32 = AtomicI32::new(0);
static LOST_EARLY: AtomicU64 = AtomicU64::new(0);
static EVENTS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Counts images, from one: numbers of names hold within one.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Facts said at once: the last ones, with the names of threads.
const FACTS_MAX: usize = 512 + thread_names::TEXT_MAX;

const DLT_NONE: u32 = 0;
const DLT_WRITTEN: u32 = 1;

/// Bytes of an event in the formats that viewers read.
const EXPORTED_EVENT: u64 = 16;

/// What the table of counts takes in the end, compressed.
const TABLE_STORED: u64 = 64 << 10;

/// How long a process without memory for a ring is left alone: trying takes a hundred times as long as a call.
const PAUSE_NS: u64 = 100_000_000;

/// Where the held descriptor goes: far above what programs use, within what most are allowed.
const HELD_FROM: i32 = 700;

/// Paths of this image's files; written under [`LOCK`] before the ring is published, constant afterwards.
struct Paths(UnsafeCell<[PathBuffer; 2]>);
// SAFETY: see above; readers come through the ring's pointer, whose store releases the writes.
unsafe impl Sync for Paths {}
static PATHS: Paths = Paths(UnsafeCell::new([PathBuffer::new(), PathBuffer::new()]));

fn dlt_path() -> &'static CStr {
    // SAFETY: constant while an image exists, and only then is it asked for.
    unsafe { (&(*PATHS.0.get()))[0].as_c_str() }
}

fn ring_path() -> &'static CStr {
    // SAFETY: as above.
    unsafe { (&(*PATHS.0.get()))[1].as_c_str() }
}

/// The ring's header page and names, or null while there is no image.
fn ring_page() -> *mut u8 {
    let cell = RING_CELL.load(Acquire);
    // SAFETY: the cell, once mapped, stays.
    if cell.is_null() { std::ptr::null_mut() } else { unsafe { (*cell).load(Acquire) } }
}

/// Publishes a ring. `false` without memory for the cell.
fn set_ring_page(page: *mut u8) -> bool {
    let mut cell = RING_CELL.load(Acquire);
    if cell.is_null() {
        cell = sys::map_memory(4096).cast();
        if cell.is_null() {
            return false;
        }
        sys::wipe_on_fork(cell.cast(), 4096);
        RING_CELL.store(cell, Release);
    }
    // SAFETY: the cell is mapped, zeroed or written by this function only.
    unsafe { (*cell).store(page, Release) };
    true
}

/// A recording state for the calling thread, with the image made if need be; null where that cannot be.
pub fn take_thread() -> *mut Thread {
    let none = std::ptr::null_mut();
    let Some(_held) = LOCK.take() else { return none };
    if is_paused() || ring_page().is_null() && !create() {
        return none;
    }
    let idle = IDLE.load(Relaxed);
    let thread = if idle.is_null() { new_thread() } else { idle };
    if thread.is_null() {
        pause();
        return none;
    }
    // SAFETY: the state is equipped and, under the lock, nobody else's.
    unsafe {
        if thread == idle {
            IDLE.store((*thread).next_idle, Relaxed);
        }
        Thread::adopt(thread, sys::thread_id());
    }
    engine::watch_thread();
    thread
}

/// A state whose thread has ended; the next thread takes it.
///
/// # Safety
/// The state was handed out by [`take_thread`], and its thread uses it no more.
pub unsafe fn give_back(thread: *mut Thread) {
    if let Some(_held) = LOCK.take() {
        // SAFETY: under the lock, and the thread that had it has let go.
        unsafe { (*thread).next_idle = IDLE.load(Relaxed) };
        IDLE.store(thread, Relaxed);
    }
}

/// There is no memory: the program has other worries than its trace.
fn pause() {
    note_trouble(libc::ENOMEM);
    PAUSED_UNTIL.store(sys::clock_ns(libc::CLOCK_MONOTONIC_COARSE) + PAUSE_NS, Relaxed);
}

fn is_paused() -> bool {
    let until = PAUSED_UNTIL.load(Relaxed);
    until != 0 && sys::clock_ns(libc::CLOCK_MONOTONIC_COARSE) < until
}

/// Makes the ring file, or memory in its place where a file cannot be.
fn create() -> bool {
    if engine::is_ending() {
        // A call that returned while the process ends on another thread: what it did is nobody's any more.
        return false;
    }
    if OWNER.swap(sys::process_id(), Relaxed) != sys::process_id() {
        // A child, perhaps one that was made by the kernel's call alone and told nobody.
        forget_threads();
        descriptors::forget_files();
        descriptors::shared_with_child();
        mappings::forget_files();
    }
    let now = clock::anchor();
    // SAFETY: under the lock, and no image exists that could be read.
    let [dlt, ring] = unsafe { &mut *PATHS.0.get() };
    if let Err(errno) = config::get().make_dirs() {
        refuse(errno);
        return false;
    }
    facts::stem(now.real_ns, dlt);
    ring.clear();
    ring.push(config::get().spool()).push(b"/").push(dlt.file_name()).push(b".ring");
    dlt.prefix(config::get().dir()).push(b".dlt");
    let mapped = map_part(ring.as_c_str(), libc::O_CREAT, SEGMENTS_START, 0);
    if mapped.is_null() {
        pause();
        return false;
    }
    describe(mapped, &now);
    SEGMENTS.store(0, Relaxed);
    DLT.store(DLT_NONE, Relaxed);
    EVENTS.store(0, Relaxed);
    BYTES.store(0, Relaxed);
    // SAFETY: the names follow the header page in the same mapping.
    crate::names::start(unsafe { mapped.add(ring::NAMES_START) });
    let published = set_ring_page(mapped);
    count_lost(LOST_EARLY.swap(0, Relaxed));
    if config::get().counts {
        count_from_now();
    }
    published
}

/// Without a folder there is no trace: say so once and leave the program alone.
fn refuse(errno: i32) {
    let mut digits = [0; 20];
    let reason: &[u8] = match errno {
        libc::EACCES | libc::EPERM => b"no permission",
        libc::ENOSPC => b"no space left",
        libc::EROFS => b"a read-only file system",
        libc::ENOTDIR => b"a part of the path is not a folder",
        _ => dlio_schemas::native::fields::decimal(errno as i64, &mut digits),
    };
    let dir = config::get().dir();
    engine::give_up(&[
        b"cannot write to the trace folder ",
        dir,
        b" (",
        reason,
        b"); this program runs untraced. Set DLIO_TRACE_DIR to a folder you can write to.",
    ]);
}

/// Fills in the ring's header.
fn describe(page: *mut u8, now: &Anchor) {
    // SAFETY: `page` is a mapped header page nobody else knows of yet.
    let page = unsafe { std::slice::from_raw_parts_mut(page, ring::HEADER_SIZE) };
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(header::MAGIC, &ring::MAGIC.to_le_bytes());
    put(header::VERSION, &VERSION.to_le_bytes());
    put(header::HALF_RECORDS, &(EVENTS_MAX as u32).to_le_bytes());
    for at in [header::FIRST_ANCHOR, header::LAST_ANCHOR] {
        put(at, &now.ticks.to_le_bytes());
        put(at + 8, &now.boot_ns.to_le_bytes());
        put(at + 16, &now.real_ns.to_le_bytes());
    }
    let mut writer = FieldWriter::new(&mut page[header::FIELDS..]);
    facts::of_process(&mut writer, now);
    let used = writer.used() as u32;
    page[header::FIELDS_USED..header::FIELDS_USED + 4].copy_from_slice(&used.to_le_bytes());
}

/// A part of the ring file, with room on disk reserved: a store into a hole of a full file system would kill the program.
/// Where that cannot be had, private memory, whose contents then do not outlive a kill.
fn map_part(path: &CStr, create: i32, length: usize, at: usize) -> *mut u8 {
    let fd = sys::open(path, libc::O_RDWR | create) as i32;
    if fd < 0 {
        // Where the first part is memory there is no file for a later one, and nothing wrong with that.
        if create != 0 || fd != -libc::ENOENT {
            note_trouble(-fd);
        }
        return sys::map_memory(length);
    }
    let reserved = sys::without_signal(libc::SIGXFSZ, || sys::reserve(fd, at, length));
    let mapped = if reserved == 0 { sys::map_file(fd, at, length) } else { std::ptr::null_mut() };
    sys::close(fd);
    if !mapped.is_null() {
        return mapped;
    }
    // A ring without its first part would be one nobody can read; a later part can be missing.
    if create != 0 {
        sys::unlink(path);
    }
    sys::map_memory(length)
}

/// From now on events are counted: their table takes the place of some segments. Under the lock.
fn count_from_now() {
    let first = SEGMENTS.load(Relaxed) as usize;
    let table =
        map_part(ring_path(), 0, tally_segments(EVENTS_MAX) * segment_size(EVENTS_MAX), segment_at(first, EVENTS_MAX));
    if table.is_null() {
        return;
    }
    let segments = (first + tally_segments(EVENTS_MAX)) as u32;
    SEGMENTS.store(segments, Relaxed);
    // SAFETY: an image exists; the numbers are aligned within its header page. The table is fresh and stays.
    unsafe {
        AtomicU32::from_ptr(ring_page().add(header::TALLY).cast()).store(first as u32 + 1, Release);
        AtomicU32::from_ptr(ring_page().add(header::SEGMENTS).cast()).store(segments, Release);
        tally::start(table);
    }
}

/// Whether the trace is as large as it may become.
fn is_full(bytes: u64) -> bool {
    bytes.saturating_add(TABLE_STORED) >= config::get().max_bytes
}

/// Whether the trace may take the form that viewers read, which is several times as large.
pub fn may_be_exported() -> bool {
    events() * EXPORTED_EVENT <= config::get().max_bytes
}

fn new_thread() -> *mut Thread {
    let index = SEGMENTS.load(Relaxed) as usize;
    // Not made here: where the first part is private memory, a file would begin with a hole.
    let segment = map_part(ring_path(), 0, segment_size(EVENTS_MAX), segment_at(index, EVENTS_MAX));
    let thread = sys::map_memory(Thread::SIZE).cast::<Thread>();
    if segment.is_null() || thread.is_null() {
        [(segment, segment_size(EVENTS_MAX)), (thread.cast(), Thread::SIZE)]
            .into_iter()
            .filter(|(memory, _)| !memory.is_null())
            .for_each(|(memory, length)| sys::unmap(memory, length));
        return std::ptr::null_mut();
    }
    sys::wipe_on_fork(thread.cast(), Thread::SIZE);
    // SAFETY: fresh zeroed memory of the right size; a segment read by nobody yet.
    unsafe {
        Thread::equip(thread, segment, index as u32);
        (*thread).next = THREADS.load(Relaxed);
    }
    THREADS.store(thread, Release);
    SEGMENTS.store(index as u32 + 1, Relaxed);
    // SAFETY: an image exists; the number is aligned within its header page.
    unsafe { AtomicU32::from_ptr(ring_page().add(header::SEGMENTS).cast()).store(index as u32 + 1, Release) };
    thread
}

/// Appends a block to the `.dlt`, made with the first one. `false` if the block is lost.
pub fn append(block: &[u8]) -> bool {
    if DLT.load(Acquire) == DLT_NONE && !begin_dlt() {
        return false;
    }
    let written = write(libc::O_APPEND, &[block])
        || CLOSING.load(Relaxed) && make_room(block.len()) && write(libc::O_APPEND, &[block]);
    if written && block[4] == Kind::Events as u8 {
        let count = u32::from_le_bytes([block[36], block[37], block[38], block[39]]) as u64;
        EVENTS.fetch_add(count, Relaxed);
        let bytes = BYTES.fetch_add(block.len() as u64, Relaxed) + block.len() as u64;
        if is_full(bytes) && !tally::is_on() {
            stop_recording();
        }
    }
    written
}

/// The trace has the size it may have.
#[cold]
fn stop_recording() {
    if let Some(_held) = LOCK.take()
        && !tally::is_on()
    {
        count_from_now();
    }
}

/// Writes the file's head and what is known of the process. Where that fails the next block tries again, from the
/// beginning: descriptors and room come back.
fn begin_dlt() -> bool {
    let Some(_held) = LOCK.take() else { return false };
    if DLT.load(Acquire) != DLT_NONE {
        return true;
    }
    let page = ring_page();
    if page.is_null() {
        return false;
    }
    // SAFETY: the header page is mapped and its facts constant.
    let page = unsafe { std::slice::from_raw_parts(page, ring::HEADER_SIZE) };
    let used = u32::from_le_bytes([0, 1, 2, 3].map(|i| page[header::FIELDS_USED + i])) as usize;
    let facts = &page[header::FIELDS..header::FIELDS + used];
    let mut head = Header { count: 1, anchor: read_anchor(page, header::FIRST_ANCHOR), ..Header::new(Kind::Process) };
    let sealed = head.seal(Codec::Raw, facts.len(), facts);
    let written = write(libc::O_CREAT | libc::O_TRUNC, &[&file_header(), &sealed, facts]);
    if written {
        DLT.store(DLT_WRITTEN, Release);
    }
    written
}

fn write(flags: i32, parts: &[&[u8]]) -> bool {
    let held = HELD.load(Relaxed);
    let fd = if held >= 0 { held } else { sys::open(dlt_path(), libc::O_WRONLY | flags) as i32 };
    if fd < 0 {
        note_trouble(-fd);
        return false;
    }
    let result = sys::without_signal(libc::SIGXFSZ, || {
        parts.iter().map(|part| sys::write_all(fd, part)).find(|result| *result != 0).unwrap_or(0)
    });
    if held < 0 {
        sys::close(fd);
    }
    if result != 0 {
        note_trouble(-result as i32);
    }
    result == 0
}

/// Takes back what was written last, a torn block or events, on a disk that is full. Names, and how much is lost, are
/// worth more than the last events.
fn make_room(needed: usize) -> bool {
    let fd = sys::open(dlt_path(), libc::O_RDWR) as i32;
    let length = sys::size(fd).max(0) as usize;
    let mapped = if length > 0 { sys::map_to_read(fd, length) } else { std::ptr::null() };
    let made = !mapped.is_null() && {
        // SAFETY: the file is this image's own, and while it is closed nobody else shortens it.
        let bytes = unsafe { std::slice::from_raw_parts(mapped, length) };
        let given_up = Tail::of(bytes).give_up(needed);
        given_up.is_some_and(|(end, events)| {
            count_lost(events);
            EVENTS.fetch_sub(events, Relaxed);
            sys::truncate(fd, end) == 0
        })
    };
    sys::unmap(mapped.cast_mut(), length);
    sys::close(fd);
    made
}

/// Opens the `.dlt` for good, because the program is about to lose the way to it. The descriptor is far up; hooks keep it
/// from being closed or replaced.
pub fn hold() {
    stack::with_room(hold_with_room);
}

fn hold_with_room() {
    if HELD.load(Relaxed) >= 0 || !ensure() {
        return;
    }
    if DLT.load(Acquire) == DLT_NONE && !begin_dlt() {
        return;
    }
    let fd = sys::open(dlt_path(), libc::O_WRONLY | libc::O_APPEND) as i32;
    if fd >= 0 {
        let high = sys::duplicate_from(fd, HELD_FROM) as i32;
        if high >= 0 {
            sys::close(fd);
        }
        HELD.store(if high >= 0 { high } else { fd }, Relaxed);
    }
}

/// Whether anything has been recorded in this image.
pub fn exists() -> bool {
    !ring_page().is_null()
}

/// Which image of this process's life it is.
#[inline(always)]
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Where span APIs find [`generation`].
pub const fn generation_counter() -> *const AtomicU32 {
    &raw const GENERATION
}

/// Notes a fact about the process that became known while it runs.
pub fn describe_more(key: &[u8], text: &[u8]) {
    let Ok(key) = std::str::from_utf8(key) else { return };
    let mut bytes = [0; 512];
    let mut writer = FieldWriter::new(&mut bytes);
    writer.text(key, text);
    let used = writer.used();
    if ensure() && !append_facts(&bytes[..used], clock::anchor()) {
        note_trouble(libc::EIO);
    }
}

/// Makes sure that an image exists.
pub fn ensure() -> bool {
    let Some(_held) = LOCK.take() else { return false };
    !ring_page().is_null() || !is_paused() && create()
}

/// The descriptor the tracer holds, if any: not the program's to close.
pub fn held() -> i32 {
    HELD.load(Relaxed)
}

/// Moves the held descriptor out of the way of a number the program wants.
pub fn move_held(wanted: i32) {
    if held() == wanted && wanted >= 0 {
        let moved = sys::duplicate_from(wanted, wanted + 1) as i32;
        HELD.store(moved.max(-1), Relaxed);
    }
}

fn read_anchor(page: &[u8], at: usize) -> Anchor {
    let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
    Anchor { ticks: number(at), boot_ns: number(at + 8), real_ns: number(at + 16) }
}

/// A number in the ring's header page.
fn counter(at: usize) -> Option<&'static AtomicU64> {
    let page = ring_page();
    // SAFETY: the page stays mapped, and the offsets are multiples of eight within it.
    (!page.is_null()).then(|| unsafe { AtomicU64::from_ptr(page.add(at).cast()) })
}

fn count(at: usize, n: u64) -> bool {
    counter(at).map(|counter| counter.fetch_add(n, Relaxed)).is_some()
}

/// Events that happened and could not be recorded.
pub fn count_lost(n: u64) {
    if n > 0 && !count(header::LOST, n) {
        LOST_EARLY.fetch_add(n, Relaxed);
    }
}

/// Calls that a filter left out.
pub fn count_filtered() {
    count(header::FILTERED, 1);
}

pub fn count_names_lost(n: u64) {
    count(header::NAMES_LOST, n);
}

pub fn count_misused_span() {
    count(header::MISUSED_SPANS, 1);
}

/// Events of which no image can tell, because there is none.
pub fn lost_early() -> u64 {
    LOST_EARLY.load(Relaxed)
}

/// How many threads have had a ring at a time.
pub fn threads() -> usize {
    SEGMENTS.load(Relaxed) as usize
}

/// Ticks the tracer's slow path took.
pub fn count_own_time(ticks: u64) {
    count(header::TRACER_TICKS, ticks);
}

/// Notes where the clocks stand, for a reader after a kill.
pub fn refresh_anchor() {
    let now = clock::anchor();
    for (i, value) in [now.ticks, now.boot_ns, now.real_ns].into_iter().enumerate() {
        if let Some(place) = counter(header::LAST_ANCHOR + 8 * i) {
            place.store(value, Relaxed);
        }
    }
}

/// What went wrong first, as an error number; said once, at the end.
fn note_trouble(errno: i32) {
    let _ = TROUBLE.compare_exchange(0, errno, Relaxed, Relaxed);
}

/// Events recorded, for the choice of format, or counted.
pub fn events() -> u64 {
    EVENTS.load(Relaxed) + if tally::is_on() { tally::events() } else { 0 }
}

/// Whether events were counted and not recorded, all or the later ones.
pub fn has_counted() -> bool {
    tally::is_on()
}

/// Writes what every thread still holds, then how the process ended. `None` when there is no image, or when this very
/// thread was interrupted in the middle of writing: then everything stays where a reader finds it.
pub fn close(ended: &[u8]) -> Option<Closed> {
    let page = ring_page();
    if page.is_null() || tally::is_interrupted() {
        return None;
    }
    let mut thread = THREADS.load(Acquire);
    while !thread.is_null() {
        // SAFETY: states are never unmapped, and the list only grows at its head.
        unsafe {
            if !Thread::drain(thread) {
                return None;
            }
            thread_names::note_other(Thread::tid(thread));
            thread = (*thread).next;
        }
    }
    CLOSING.store(true, Relaxed);
    let flushed = crate::names::flush();
    let written = flushed.is_some() && tally::write(append) && append_ending(ended);
    CLOSING.store(false, Relaxed);
    flushed?;
    if !written {
        leave_ending(page, ended);
    }
    let closed = Closed { dlt: dlt_path(), written, lost: count_at(header::LOST), trouble: TROUBLE.load(Relaxed) };
    if written {
        sys::unlink(ring_path());
    }
    Some(closed)
}

/// What [`close`] left.
pub struct Closed {
    pub dlt: &'static CStr,
    pub written: bool,
    pub lost: u64,
    pub trouble: i32,
}

fn count_at(at: usize) -> u64 {
    counter(at).map_or(0, |counter| counter.load(Relaxed))
}

fn append_ending(ended: &[u8]) -> bool {
    let now = clock::anchor();
    let mut bytes = [0; FACTS_MAX];
    let mut writer = FieldWriter::new(&mut bytes);
    account(&mut writer, ended, &now);
    thread_names::write(&mut writer);
    let used = writer.used();
    append_facts(&bytes[..used], now)
}

/// How the process ended, and what the tracer did in it.
fn account(writer: &mut FieldWriter, ended: &[u8], now: &Anchor) {
    let rate = clock::rate_hz(now);
    writer.text(key::ENDED, ended);
    writer.number(key::END_BOOT_NS, now.boot_ns as i64);
    writer.number(key::CLOCK_HZ, rate as i64);
    writer.number(key::EVENTS, events() as i64);
    for (key, at) in [
        (key::LOST, header::LOST),
        (key::FILTERED, header::FILTERED),
        (key::MISUSED_SPANS, header::MISUSED_SPANS),
        (key::NAMES_LOST, header::NAMES_LOST),
    ] {
        writer.number(key, count_at(at) as i64);
    }
    let own_ns = count_at(header::TRACER_TICKS) as f64 * 1e9 / rate.max(1) as f64;
    writer.number(key::TRACER_NS, (own_ns + events() as f64 * engine::record_cost_ns()) as i64);
}

/// The same behind the facts of the ring's first page: where the file took nothing more, that room is still there.
fn leave_ending(page: *mut u8, ended: &[u8]) {
    // SAFETY: the header page is mapped, and what follows its facts is nobody else's at the end.
    let page = unsafe { std::slice::from_raw_parts_mut(page, ring::HEADER_SIZE) };
    let used = u32::from_le_bytes([0, 1, 2, 3].map(|i| page[header::FIELDS_USED + i])) as usize;
    let mut writer = FieldWriter::new(&mut page[header::FIELDS + used..]);
    account(&mut writer, ended, &clock::anchor());
    let used = (used + writer.used()) as u32;
    page[header::FIELDS_USED..header::FIELDS_USED + 4].copy_from_slice(&used.to_le_bytes());
}

/// Appends a block of facts.
fn append_facts(facts: &[u8], anchor: Anchor) -> bool {
    let mut block = [0; HEADER_SIZE + FACTS_MAX];
    let mut head = Header { count: 1, anchor, ..Header::new(Kind::Process) };
    block[..HEADER_SIZE].copy_from_slice(&head.seal(Codec::Raw, facts.len(), facts));
    block[HEADER_SIZE..HEADER_SIZE + facts.len()].copy_from_slice(facts);
    append(&block[..HEADER_SIZE + facts.len()])
}

/// Forgets the image: the process is another one now (a forked child), or its image has been closed. Threads that still
/// have a place in it find that out by themselves.
pub fn forget() {
    let mut thread = THREADS.load(Acquire);
    while !thread.is_null() {
        // SAFETY: states are never unmapped.
        unsafe {
            Thread::retire(thread);
            thread = (*thread).next;
        }
    }
    GENERATION.fetch_add(1, AcqRel);
    forget_threads();
    LOCK.reset();
    set_ring_page(std::ptr::null_mut());
    LOST_EARLY.store(0, Relaxed);
}

fn forget_threads() {
    let held = HELD.swap(-1, Relaxed);
    if held >= 0 {
        sys::close(held);
    }
    THREADS.store(std::ptr::null_mut(), Release);
    IDLE.store(std::ptr::null_mut(), Relaxed);
    TROUBLE.store(0, Relaxed);
    PAUSED_UNTIL.store(0, Relaxed);
    crate::names::forget();
    crate::spill::forget();
    tally::forget();
    thread_names::forget();
}
