//! Paths and other strings get numbers: once each, without an allocation, findable without a lock.
//!
//! A table of fixed size maps the hash of a string to its number. It forgets old strings when it is full, so memory does
//! not grow with the number of files; a string seen again then gets a second number, which readers take as the same. Two
//! strings with one 64-bit hash would be taken for one: one chance in ten million for a run of a million files.
//!
//! The strings themselves go into one of two chunks in the ring file (drawn in `dlio_schemas::native::ring`); a full chunk
//! becomes a block of the `.dlt`.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::native::block::{Header, Kind};
use dlio_schemas::native::names::{NameKind, entry_size, write_entry};
use dlio_schemas::native::ring::{NAMES_CHUNK, NAMES_HEAD};

use crate::codec::BlockMaker;
use crate::lock::Lock;
use crate::{image, sys, tally};

/// No name: not known, or no room.
pub const NONE: u32 = 0;
/// A name that filters leave out.
pub const FILTERED: u32 = u32::MAX;

/// Strings remembered: 8192 of 16 bytes are 128 KiB at the most.
const SLOTS: usize = 8192;
const WAYS: usize = 4;

/// A process that opens much and reads little still notes the time now and then, in names.
const ANCHOR_EVERY: u32 = 16;

#[repr(C)]
struct Slot {
    hash: AtomicU64,
    id: AtomicU32,
    age: AtomicU32,
}

static LOCK: Lock = Lock::new();
static TABLE: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());
static CHUNKS: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static ACTIVE: AtomicU32 = AtomicU32::new(0);
/// Goes on counting in a forked child, so that a number of the parent never means something else there.
static NEXT_ID: AtomicU32 = AtomicU32::new(1);
static CLOCK: AtomicU32 = AtomicU32::new(0);
static MAKER: AtomicPtr<BlockMaker<NAMES_CHUNK>> = AtomicPtr::new(std::ptr::null_mut());
static BUSY: AtomicBool = AtomicBool::new(false);

/// Hash of a string; `seed` keeps apart what may be spelled alike.
#[inline]
pub fn hash(text: &[u8], seed: u64) -> u64 {
    const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |a: u64, b: u64| {
        let product = (a ^ FOLD) as u128 * (b ^ 0xd1b5_4a32_d192_ed03) as u128;
        product as u64 ^ (product >> 64) as u64
    };
    let (words, rest) = text.as_chunks::<8>();
    let mut state = mix(seed ^ text.len() as u64, FOLD);
    for word in words {
        state = mix(state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    // Zero marks an empty slot.
    mix(state, u64::from_le_bytes(last)).max(1)
}

/// The number a hash was given, if it is remembered.
#[inline]
pub fn find(hash: u64) -> Option<u32> {
    let slots = ways(hash)?;
    for slot in slots {
        if slot.hash.load(Acquire) == hash {
            let id = slot.id.load(Acquire);
            // The slot may have been given to another string in between.
            if slot.hash.load(Acquire) == hash {
                return Some(id);
            }
        }
    }
    None
}

/// Remembers `id` under a further hash.
pub fn remember(hash: u64, id: u32) {
    if let Some(_held) = LOCK.take() {
        place(hash, id);
    }
}

/// The number of a string, given now if it is new. [`NONE`] where there is no room or no trace.
pub fn intern(kind: NameKind, text: &[u8], hash: u64) -> u32 {
    if let Some(id) = find(hash) {
        return id;
    }
    if CHUNKS.load(Acquire).is_null() && !image::ensure() {
        return NONE;
    }
    let Some(_held) = LOCK.take() else {
        image::count_names_lost(1);
        return NONE;
    };
    if let Some(id) = find(hash) {
        return id;
    }
    let id = append(kind, text);
    if id != NONE {
        place(hash, id);
    }
    id
}

/// Puts a string into the active chunk. Under the lock.
fn append(kind: NameKind, text: &[u8]) -> u32 {
    let size = entry_size(text);
    if chunk_used() + size > NAMES_CHUNK - NAMES_HEAD && !turn_over() {
        image::count_names_lost(1);
        return NONE;
    }
    let chunk = active_chunk();
    if chunk.is_null() {
        return NONE;
    }
    let used = chunk_used();
    let id = NEXT_ID.fetch_add(1, Relaxed);
    // SAFETY: the entry lies within the chunk, which only the holder of the lock writes.
    unsafe {
        write_entry(kind, text, std::slice::from_raw_parts_mut(chunk.add(NAMES_HEAD + used), size));
        let first = AtomicU32::from_ptr(chunk.cast());
        if used == 0 {
            first.store(id, Relaxed);
        }
        // An entry counts once `used` covers it.
        AtomicU32::from_ptr(chunk.add(8).cast()).fetch_add(1, Relaxed);
        AtomicU32::from_ptr(chunk.add(4).cast()).store((used + size) as u32, Release);
    }
    if kind == NameKind::Object {
        tally::note_object(id);
    }
    if id % ANCHOR_EVERY == 1 {
        image::refresh_anchor();
    }
    id
}

fn active_chunk() -> *mut u8 {
    let chunks = CHUNKS.load(Acquire);
    // SAFETY: two chunks lie behind the pointer.
    if chunks.is_null() { chunks } else { unsafe { chunks.add(ACTIVE.load(Relaxed) as usize * NAMES_CHUNK) } }
}

/// A number of the active chunk's head: 0 first id, 1 bytes used, 2 entries.
fn chunk_number(which: usize) -> u32 {
    let chunk = active_chunk();
    // SAFETY: the head is within the chunk and aligned.
    if chunk.is_null() { 0 } else { unsafe { AtomicU32::from_ptr(chunk.add(4 * which).cast()).load(Acquire) } }
}

fn chunk_used() -> usize {
    chunk_number(1) as usize
}

/// Writes the active chunk as a block and goes on in the other one.
fn turn_over() -> bool {
    let chunk = active_chunk();
    let (first, used, count) = (chunk_number(0), chunk_used(), chunk_number(2));
    if used == 0 || BUSY.swap(true, Acquire) {
        return used == 0;
    }
    let maker = maker();
    let written = !maker.is_null() && {
        let mut header = Header { count, first: first as u64, ..Header::new(Kind::Names) };
        // SAFETY: the chunk is mapped, and the maker is used under the lock and under BUSY only.
        let block = unsafe {
            let payload = std::slice::from_raw_parts(chunk.add(NAMES_HEAD), used);
            (*maker).make(&mut header, payload)
        };
        image::append(block)
    };
    if !written {
        image::count_names_lost(count as u64);
    }
    let other = 1 - ACTIVE.load(Relaxed);
    ACTIVE.store(other, Relaxed);
    clear_active();
    BUSY.store(false, Release);
    written
}

fn clear_active() {
    let chunk = active_chunk();
    // SAFETY: the head is within the chunk; `used` goes first, so that a reader never sees it with another first id.
    unsafe {
        for field in [4, 8, 0] {
            AtomicU32::from_ptr(chunk.add(field).cast()).store(0, Release);
        }
    }
}

fn maker() -> *mut BlockMaker<NAMES_CHUNK> {
    let mut maker = MAKER.load(Acquire);
    if maker.is_null() {
        maker = sys::map_memory(size_of::<BlockMaker<NAMES_CHUNK>>()).cast();
        MAKER.store(maker, Release);
    }
    maker
}

/// The slots a hash may lie in.
#[inline]
fn ways(hash: u64) -> Option<&'static [Slot]> {
    let table = TABLE.load(Acquire);
    let at = (hash as usize % (SLOTS / WAYS)) * WAYS;
    // SAFETY: the table has SLOTS slots and is never unmapped; zeroed memory is an empty one.
    (!table.is_null()).then(|| unsafe { std::slice::from_raw_parts(table.add(at), WAYS) })
}

/// Takes an empty slot or the oldest one. Under the lock.
fn place(hash: u64, id: u32) {
    if TABLE.load(Acquire).is_null() {
        TABLE.store(sys::map_memory(SLOTS * size_of::<Slot>()).cast(), Release);
    }
    let now = CLOCK.fetch_add(1, Relaxed);
    let oldest = ways(hash).and_then(|slots| slots.iter().max_by_key(|slot| age(slot, now)));
    if let Some(slot) = oldest {
        slot.hash.store(0, Release);
        slot.id.store(id, Release);
        slot.age.store(now, Relaxed);
        slot.hash.store(hash, Release);
    }
}

fn age(slot: &Slot, now: u32) -> u32 {
    match slot.hash.load(Relaxed) {
        0 => u32::MAX,
        _ => now.wrapping_sub(slot.age.load(Relaxed)),
    }
}

/// How many numbers have been given, in this process and those it was forked from.
pub fn given() -> usize {
    NEXT_ID.load(Relaxed) as usize
}

/// A new image: its names go into these two chunks.
pub fn start(chunks: *mut u8) {
    ACTIVE.store(0, Relaxed);
    CHUNKS.store(chunks, Release);
}

/// Writes what is left. `None` if this thread was interrupted in the middle of doing so.
pub fn flush() -> Option<()> {
    let _held = LOCK.take()?;
    turn_over();
    Some(())
}

/// The image is gone; its numbers with it.
pub fn forget() {
    LOCK.reset();
    BUSY.store(false, Relaxed);
    CHUNKS.store(std::ptr::null_mut(), Release);
    let table = TABLE.load(Acquire);
    if !table.is_null() {
        // SAFETY: the table has SLOTS slots.
        let slots = unsafe { std::slice::from_raw_parts(table, SLOTS) };
        slots.iter().filter(|slot| slot.id.load(Relaxed) != FILTERED).for_each(|slot| slot.hash.store(0, Release));
    }
}
