//! Counting instead of recording: see `dlio_schemas::native::tally` for the table and its contents.
//!
//! Events pass through the rings as usual. A full half is added to the process's table instead of becoming a block,
//! which takes less time and no disk space. The half contains the number of its records that have been added to the
//! table, so no event counts twice after a kill, except at most the few identical ones that were being added.
//!
//! The table is mapped with the first full half. A process that ends before then counts its events in memory that is
//! never part of a file, and its ring keeps them until the counts are written.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::native::block::{Header, Kind};
use dlio_schemas::native::tally::{RowIndex, SIZE, Tally, WORDS, used_parts};
use dlio_schemas::record::Record;

use crate::kernel::sys;
use crate::thread::codec::BlockMaker;
use crate::thread::lock::Lock;

static LOCK: Lock = Lock::new();
/// `true` if events are counted.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// The table, in the ring file; null before the first half is full.
static TABLE: AtomicPtr<u64> = AtomicPtr::new(std::ptr::null_mut());
/// `true` if the table is only for the end: all of its events are still in the ring.
static IS_COPY: AtomicBool = AtomicBool::new(false);
crate::large! {
    static INDEX: RowIndex = RowIndex::empty();
}
static EVENTS: AtomicU64 = AtomicU64::new(0);

/// Numbers of objects that are not files on a file system (pipes, sockets, memory), each in one of a few possible
/// slots. If events are counted from the start, there are few such objects; if counting replaces recording later,
/// there may have been many, and the most recent ones are known.
static OBJECTS: [AtomicU32; OBJECTS_MAX] = [const { AtomicU32::new(0) }; OBJECTS_MAX];
static OBJECTS_NOTED: AtomicBool = AtomicBool::new(false);
static TURN: AtomicU32 = AtomicU32::new(0);
const OBJECTS_MAX: usize = 4096;
const NEAR: usize = 8;

/// The table is written to the `.dlt` in pieces of up to this size; unused parts are omitted.
const PIECE: usize = 32 << 10;

/// Returns `true` if events are counted and not recorded.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Acquire)
}

/// Counts events from now on.
pub fn start() {
    EVENTS.store(0, Relaxed);
    IS_ON.store(true, Release);
}

/// Records events again, because there is no memory for a table.
pub fn give_up() {
    IS_ON.store(false, Release);
}

/// Returns `true` if there is a table for full halves.
pub fn has_table() -> bool {
    !TABLE.load(Acquire).is_null()
}

/// Provides the table.
///
/// # Safety
/// `table` consists of [`SIZE`] zeroed bytes that are not unmapped before [`forget`].
pub unsafe fn set_table(table: *mut u8) {
    TABLE.store(table.cast(), Release);
}

/// Provides a table in memory that is not part of a file, for events that remain in the ring. Returns `false` without
/// memory.
pub fn set_copy() -> bool {
    let table = sys::map_memory(SIZE);
    IS_COPY.store(!table.is_null(), Relaxed);
    TABLE.store(table.cast(), Release);
    !table.is_null()
}

/// Returns `true` if the ring still has all events of the table.
pub fn is_copy() -> bool {
    IS_COPY.load(Relaxed)
}

/// Gives up a table whose events are in the ring; returns their number.
pub fn drop_copy() -> u64 {
    give_up();
    take_events()
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
    // SAFETY: the table is mapped, and the caller holds the lock.
    (!words.is_null()).then(|| Tally::new(unsafe { std::slice::from_raw_parts_mut(words, WORDS) }, &INDEX))?
}

/// Returns the number of events in the table.
pub fn events() -> u64 {
    EVENTS.load(Relaxed)
}

/// Returns `true` if this thread was interrupted while it counted: then nothing can be finished now.
pub fn is_interrupted() -> bool {
    LOCK.take().is_none()
}

/// The buffers for writing a table. Zeroed memory is a valid value.
struct Output {
    maker: BlockMaker<PIECE>,
    /// Whole blocks that are written together.
    blocks: [u8; PIECE],
    used: usize,
}

impl Output {
    /// Adds a part of the table, which begins at an offset.
    fn put(&mut self, at: usize, piece: &[u8], append: &impl Fn(&[u8]) -> bool) -> bool {
        let mut header = Header { first: at as u64, ..Header::new(Kind::Tally) };
        let block = self.maker.make(&mut header, piece);
        if self.used + block.len() > PIECE && self.used > 0 {
            if !append(&self.blocks[..self.used]) {
                return false;
            }
            self.used = 0;
        }
        match self.blocks.get_mut(self.used..self.used + block.len()) {
            Some(room) => room.copy_from_slice(block),
            None => return append(block),
        }
        self.used += block.len();
        true
    }
}

/// Writes the table as blocks, if there is one. Returns `false` if a block could not be written.
pub fn write(append: impl Fn(&[u8]) -> bool) -> bool {
    let words = TABLE.load(Acquire);
    if words.is_null() {
        return true;
    }
    let output = sys::map_memory(size_of::<Output>()).cast::<Output>();
    if output.is_null() {
        return false;
    }
    // SAFETY: the table is mapped and no longer changes; its words and its bytes are the same memory, and zeroed memory
    // is a valid output.
    let (table, bytes, output) =
        unsafe { (&*words.cast::<[u64; WORDS]>(), std::slice::from_raw_parts(words.cast::<u8>(), SIZE), &mut *output) };
    let pieces =
        used_parts(table).flat_map(|part| part.clone().step_by(PIECE).map(move |at| at..part.end.min(at + PIECE)));
    let written = { pieces }.all(|piece| output.put(piece.start, &bytes[piece], &append))
        && (output.used == 0 || append(&output.blocks[..output.used]));
    output.maker.free();
    sys::unmap((&raw mut *output).cast(), size_of::<Output>());
    written
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
    IS_ON.store(false, Release);
    let table = TABLE.swap(std::ptr::null_mut(), AcqRel);
    if IS_COPY.swap(false, Relaxed) {
        sys::unmap(table.cast(), SIZE);
    }
}
