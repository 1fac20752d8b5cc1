//! Paths and other strings get numbers: once each, without an allocation, a lock or a system call.
//!
//! A table of fixed size maps the hash of a string to its number. It forgets old strings when it is full, so memory does
//! not grow with the number of files; a string seen again then gets a second number, which readers take as the same, as
//! they do where two threads meet a string at once. Two strings with one 64-bit hash would be taken for one: one chance in
//! ten million for a run of a million files.
//!
//! The strings themselves go into a chunk of the thread's segment in the ring file (see [`crate::chunk`]); a full chunk
//! becomes a block of the `.dlt`.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, compiler_fence};

use dlio_schemas::native::names::{NAME_MAX, NameKind};

use crate::chunk::Kept;
use crate::local::{Local, local};
use crate::thread_state::Thread;
use crate::{header_page, ring, sys, tally};

/// No name: not known, or no room.
pub const NONE: u32 = 0;
/// A name that filters leave out.
pub const FILTERED: u32 = u32::MAX;

/// Strings remembered: 8192 of 16 bytes are 128 KiB at the most. A process that meets few has a page of them.
const SLOTS: usize = 8192;
const SLOTS_FEW: usize = 256;
const WAYS: usize = 4;

/// Marks of slots. A string whose hash is one of them, one in 10^19, has a new number each time.
const EMPTY: u64 = 0;
const BEING_WRITTEN: u64 = 1;
const FIRST_HASH: u64 = 2;

/// A process that opens much and reads little still notes the time now and then, in names.
const ANCHOR_EVERY: u32 = 64;

#[repr(C)]
struct Slot {
    hash: AtomicU64,
    id: AtomicU32,
    age: AtomicU32,
}

#[repr(C, align(4096))]
struct Few([Slot; SLOTS_FEW]);

crate::large! {
    static FEW: Few =
        Few([const { Slot { hash: AtomicU64::new(EMPTY), id: AtomicU32::new(0), age: AtomicU32::new(0) } }; SLOTS_FEW]);
}
/// The table in use: few slots at first, many once there are more than a few strings; and its slots, less one. The number
/// grows after the table, so that whoever reads them in the other order stays within it.
static TABLE: AtomicPtr<Slot> = AtomicPtr::new((&raw const FEW).cast_mut().cast());
static LAST: AtomicUsize = AtomicUsize::new(SLOTS_FEW - 1);
static IS_MOVING: AtomicBool = AtomicBool::new(false);
/// Differs from image to image: what was remembered in one is not found in the next.
static SALT: AtomicU64 = AtomicU64::new(0);
/// Strings remembered in this image, and the age of the next one.
static CLOCK: AtomicU32 = AtomicU32::new(0);
static CLOCK_AT_START: AtomicU32 = AtomicU32::new(0);
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
    // The last eight bytes, some of them for the second time: that takes fewer steps than a copy of those left over.
    let last = match text.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => rest.iter().fold(0, |word, byte| word << 8 | *byte as u64),
    };
    mix(state, last)
}

/// The number a hash was given, if it is remembered.
#[inline]
pub fn find(hash: u64) -> Option<u32> {
    let hash = salted(hash);
    for slot in ways(hash) {
        if slot.hash.load(Acquire) == hash {
            let id = slot.id.load(Acquire);
            // The slot may have been given to another string in between.
            if slot.hash.load(Acquire) == hash && hash >= FIRST_HASH {
                return Some(id);
            }
        }
    }
    None
}

#[inline(always)]
fn salted(hash: u64) -> u64 {
    hash ^ SALT.load(Relaxed)
}

/// Remembers `id` under a hash.
pub fn remember(hash: u64, id: u32) {
    let now = CLOCK.fetch_add(1, Relaxed);
    if now.wrapping_sub(CLOCK_AT_START.load(Relaxed)) as usize == SLOTS_FEW / 2 {
        move_to_many();
    }
    place(salted(hash), id, now);
}

/// The number of a string, given now if it is new. [`NONE`] where there is no room or no trace.
pub fn intern(kind: NameKind, text: &[u8], hash: u64) -> u32 {
    if let Some(id) = find(hash) {
        return id;
    }
    let id = give(kind, &text[..text.len().min(NAME_MAX)]);
    if id != NONE {
        remember(hash, id);
    }
    id
}

/// Puts a string into this thread's chunk and returns its number.
fn give(kind: NameKind, text: &[u8]) -> u32 {
    let line = local();
    // SAFETY: the line is this thread's own; a thread's state and its chunk are never unmapped.
    unsafe {
        if !has_ring(line) {
            ring::ensure();
            if !has_ring(line) {
                header_page::count_names_lost(1);
                return NONE;
            }
        }
        let thread = (*line).thread;
        let mut id = put(line, kind, text);
        // Not within a handler that has interrupted the adding of a name: that one's room would be another's.
        if id.is_none() && (*line).naming == 0 && Thread::turn_names_over(thread) {
            id = put(line, kind, text);
        }
        let Some(id) = id else {
            header_page::count_names_lost(1);
            return NONE;
        };
        if kind == NameKind::Object {
            tally::note_object(id);
        }
        if id % ANCHOR_EVERY == 1 {
            header_page::refresh_anchor();
        }
        id
    }
}

/// Adds to the chunk of this thread; a signal handler that comes in meanwhile may do so too, but not turn it over.
///
/// # Safety
/// The line is the calling thread's, which has a ring.
#[inline(always)]
unsafe fn put(line: *mut Local, kind: NameKind, text: &[u8]) -> Option<u32> {
    // SAFETY: by the contract above.
    unsafe {
        (*line).naming += 1;
        compiler_fence(SeqCst);
        let kept = if (*line).naming == 1 { FOR_HANDLERS } else { Kept { room: 0, ids: 0 } };
        let id = (*(*line).thread).names().put(kind, text, kept);
        compiler_fence(SeqCst);
        (*line).naming -= 1;
        id
    }
}

/// # Safety
/// The line is the calling thread's.
#[inline(always)]
unsafe fn has_ring(line: *const Local) -> bool {
    // SAFETY: by the contract above; states of threads are never unmapped.
    unsafe { !(*line).thread.is_null() && (*(*line).thread).is_equipped() }
}

/// The end of a chunk is for signal handlers that interrupt the adding of a name: they cannot turn the chunk over. Enough
/// for a path or two; what is longer, or more, is counted as lost where it comes in those nanoseconds.
const FOR_HANDLERS: Kept = Kept { room: 192, ids: 4 };

/// The slots a hash may lie in.
#[inline(always)]
fn ways(hash: u64) -> &'static [Slot; WAYS] {
    let last = LAST.load(Acquire);
    let at = hash as usize & last & !(WAYS - 1);
    // SAFETY: the table has more slots than `last` and is never unmapped; zeroed memory is an empty one.
    unsafe { &*TABLE.load(Acquire).add(at).cast() }
}

/// Takes an empty slot or the oldest one. One that another thread takes at this moment is left to it: then the string is
/// not remembered, and gets another number when it is seen again.
fn place(hash: u64, id: u32, now: u32) {
    let Some(slot) = ways(hash).iter().max_by_key(|slot| age(slot, now)) else { return };
    let before = slot.hash.load(Relaxed);
    if before != BEING_WRITTEN && slot.hash.compare_exchange(before, BEING_WRITTEN, AcqRel, Relaxed).is_ok() {
        slot.id.store(id, Release);
        slot.age.store(now, Relaxed);
        slot.hash.store(hash, Release);
    }
}

fn age(slot: &Slot, now: u32) -> u32 {
    match slot.hash.load(Relaxed) {
        EMPTY => u32::MAX,
        _ => now.wrapping_sub(slot.age.load(Relaxed)),
    }
}

/// There are more strings than a few.
#[cold]
fn move_to_many() {
    if IS_MOVING.swap(true, AcqRel) {
        return;
    }
    let table = sys::map_memory(SLOTS * size_of::<Slot>()).cast::<Slot>();
    if table.is_null() {
        return;
    }
    TABLE.store(table, Release);
    LAST.store(SLOTS - 1, Release);
    for slot in &FEW.0 {
        if let hash @ FIRST_HASH.. = slot.hash.load(Acquire) {
            place(hash, slot.id.load(Acquire), slot.age.load(Relaxed));
        }
    }
}

/// The image is gone; its numbers with it.
pub fn forget() {
    SALT.store(hash(&[], SALT.load(Relaxed) + 1), Relaxed);
    CLOCK_AT_START.store(CLOCK.load(Relaxed), Relaxed);
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).naming = 0 };
}
