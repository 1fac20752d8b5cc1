//! Counting instead of recording: see `dlio_schemas::native::tally` for the table and its contents.
//!
//! Events pass through the rings as usual. A full half is added to the process's table instead of becoming a block,
//! which takes less time and no disk space. The half contains the number of its records that have been added to the
//! table, so no event counts twice after a kill, except at most the few identical ones that were being added.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::native::block::{Header, Kind};
use dlio_schemas::native::tally::{SIZE, Tally, WORDS};
use dlio_schemas::record::Record;

use crate::kernel::sys;
use crate::thread::codec::BlockMaker;
use crate::thread::lock::Lock;

static LOCK: Lock = Lock::new();
/// The table, in the ring file; null while events are recorded.
static TABLE: AtomicPtr<u64> = AtomicPtr::new(std::ptr::null_mut());
static EVENTS: AtomicU64 = AtomicU64::new(0);

/// Numbers of objects that are not files on a file system (pipes, sockets, memory), each in one of a few possible
/// slots. If events are counted from the start, there are few such objects; if counting replaces recording later,
/// there may have been many, and the most recent ones are known.
static OBJECTS: [AtomicU32; OBJECTS_MAX] = [const { AtomicU32::new(0) }; OBJECTS_MAX];
static OBJECTS_NOTED: AtomicBool = AtomicBool::new(false);
static TURN: AtomicU32 = AtomicU32::new(0);
const OBJECTS_MAX: usize = 4096;
const NEAR: usize = 8;

/// The table is written to the `.dlt` in pieces of this size; those that are all zero are omitted.
const PIECE: usize = 32 << 10;

/// Returns `true` if events are counted and not recorded.
#[inline]
pub fn is_on() -> bool {
    !TABLE.load(Acquire).is_null()
}

/// Starts counting events in a table.
///
/// # Safety
/// `table` consists of [`SIZE`] zeroed bytes that are never unmapped.
pub unsafe fn start(table: *mut u8) {
    EVENTS.store(0, Relaxed);
    TABLE.store(table.cast(), Release);
}

/// Notes a new name of an object that is not a file on a file system.
pub fn note_object(name: u32) {
    let is_free = |place: &&AtomicU32| place.load(Relaxed) == 0;
    let oldest = || &OBJECTS[places(name).start + TURN.fetch_add(1, Relaxed) as usize % NEAR];
    OBJECTS_NOTED.store(true, Relaxed);
    OBJECTS[places(name)].iter().find(is_free).unwrap_or_else(oldest).store(name, Relaxed);
}

fn is_stored(name: u32) -> bool {
    OBJECTS[places(name)].iter().all(|object| object.load(Relaxed) != name)
}

/// Returns the slots that a number may be in.
fn places(name: u32) -> std::ops::Range<usize> {
    let first = name as usize % (OBJECTS_MAX / NEAR) * NEAR;
    first..first + NEAR
}

/// Adds complete records of a thread, starting with number `added`, and updates `added` as it proceeds. Returns
/// `false` if that cannot be done now, because this thread was interrupted while doing so.
pub fn add(tid: u32, records: &[Record], added: &AtomicU32) -> bool {
    let Some(_held) = LOCK.take() else { return false };
    let Some(mut table) = table() else { return false };
    let from = added.load(Relaxed) as usize;
    // Most events are on the same file as the previous one.
    let last = Cell::new((0, false));
    let is_stored_or_last = |name: u32| {
        if last.get().0 != name {
            last.set((name, is_stored(name)));
        }
        last.get().1
    };
    let (mut number, before) = (from, table.events());
    table.add_all(tid, records.get(from..).unwrap_or_default(), is_stored_or_last, |more| {
        number += more;
        // Written only here.
        added.store(number as u32, Release);
    });
    EVENTS.fetch_add(table.events().saturating_sub(before), Relaxed);
    true
}

fn table() -> Option<Tally<'static>> {
    let words = TABLE.load(Acquire);
    // SAFETY: the table is mapped permanently, and the caller holds the lock.
    (!words.is_null()).then(|| Tally::new(unsafe { std::slice::from_raw_parts_mut(words, WORDS) }))?
}

/// Returns the number of events in the table.
pub fn events() -> u64 {
    EVENTS.load(Relaxed)
}

/// Returns `true` if this thread was interrupted while it counted: then nothing can be finished now.
pub fn is_interrupted() -> bool {
    LOCK.take().is_none()
}

/// Writes the table as blocks, if there is one. Returns `false` if a block could not be written.
pub fn write(append: impl Fn(&[u8]) -> bool) -> bool {
    let words = TABLE.load(Acquire);
    if words.is_null() {
        return true;
    }
    let maker = sys::map_memory(size_of::<BlockMaker<PIECE>>()).cast::<BlockMaker<PIECE>>();
    if maker.is_null() {
        return false;
    }
    // SAFETY: the table is mapped permanently and no longer changes; zeroed memory is a valid maker.
    let (bytes, maker) = unsafe { (std::slice::from_raw_parts(words.cast::<u8>(), SIZE), &mut *maker) };
    let written = bytes.chunks(PIECE).enumerate().filter(|(_, piece)| holds_anything(piece)).all(|(index, piece)| {
        let mut header = Header { first: (index * PIECE) as u64, ..Header::new(Kind::Tally) };
        append(maker.make(&mut header, piece))
    });
    maker.free();
    sys::unmap((&raw mut *maker).cast(), size_of::<BlockMaker<PIECE>>());
    written
}

/// Returns `true` if not all bytes are zero; compares many at a time.
fn holds_anything(piece: &[u8]) -> bool {
    piece.chunks(1 << 10).any(|bytes| bytes.iter().fold(0, |all, byte| all | byte) != 0)
}

/// Gives up the table and returns the number of its events.
pub fn take_events() -> u64 {
    EVENTS.swap(0, Relaxed)
}

/// Forgets the table, because the image has ended.
pub fn forget() {
    LOCK.reset();
    // Their numbers are reassigned. Skipping zeros leaves those pages shared with a forked child.
    for object in &OBJECTS[..if OBJECTS_NOTED.swap(false, Relaxed) { OBJECTS_MAX } else { 0 }] {
        if object.load(Relaxed) != 0 {
            object.store(0, Relaxed);
        }
    }
    TABLE.store(std::ptr::null_mut(), Release);
}
