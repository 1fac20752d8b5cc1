//! The descriptor table: for each descriptor a file number and the position of plain reads and writes.
//!
//! A descriptor refers to an *open file description*, which its duplicates share, together with the position.
//! Positions are tracked by arithmetic: each read or write adds its bytes, a seek sets the position. If others can
//! move the position unseen (an inherited description, one shared with a child, or one opened for appending), it is
//! unknown until the next seek.
//!
//! The table grows by chunks and never moves, so a lookup is two loads without a lock, whatever the descriptor.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use dlio_schemas::record::POS_UNKNOWN;

use crate::kernel::{single_thread_atomics, sys};
use crate::known::number;

const CHUNK: usize = 1024;
/// Number of descriptors that are tracked; the slots after them are spare descriptions.
const DESCRIPTORS: usize = 1024 * CHUNK;
const CHUNKS: usize = DESCRIPTORS / CHUNK + 64;

/// A descriptor and usually its description. Each slot has its own cache line. Otherwise, threads that use different files would
/// contend for one line on every call.
#[repr(align(64))]
struct Slot {
    /// Lower half: the file number. Upper half: the slot of the description, plus one. Zero: a descriptor never seen.
    descriptor: AtomicU64,
    /// The hash of its path, if it is a directory with a known path: see [`crate::known::folders`].
    folder: AtomicU64,
    description: Description,
}

/// An open file description. A descriptor without one has an unknown position.
pub struct Description {
    position: AtomicI64,
    holders: AtomicU32,
    /// Value of [`SHARED`] when tracking of the position started; 0 is "not tracked".
    since: AtomicU32,
    next_free: AtomicU32,
    flags: AtomicU32,
}

/// A table of zeroed slots. The first chunk, which is enough for most programs, is found without a pointer.
struct Table {
    first: MaybeUninit<[Slot; CHUNK]>,
    chunks: [AtomicPtr<Slot>; CHUNKS],
}

crate::large! {
    static TABLE: Table =
        Table { first: MaybeUninit::zeroed(), chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS] };
}
/// Slots up to the last one ever used: most programs use a few, and even reading a page of the table makes the kernel
/// map it.
static SEEN: AtomicUsize = AtomicUsize::new(0);

impl Table {
    #[inline(always)]
    fn get(&self, index: usize) -> Option<&Slot> {
        let chunk = if index < CHUNK { self.first.as_ptr().cast() } else { self.chunk(index / CHUNK)? };
        // SAFETY: a chunk has CHUNK slots, for which zeroed memory is a value, and is never unmapped.
        Some(unsafe { &*chunk.add(index % CHUNK) })
    }

    fn chunk(&self, number: usize) -> Option<*const Slot> {
        let chunk = self.chunks.get(number)?.load(Acquire);
        (!chunk.is_null()).then_some(chunk.cast_const())
    }

    fn get_or_make(&self, index: usize) -> Option<&Slot> {
        let place = self.chunks.get(index / CHUNK)?;
        if index >= SEEN.load(Relaxed) {
            SEEN.fetch_max(index + 1, Relaxed);
        }
        if index >= CHUNK && place.load(Acquire).is_null() {
            let fresh = sys::map_memory(CHUNK * size_of::<Slot>()).cast::<Slot>();
            if fresh.is_null() || place.compare_exchange(std::ptr::null_mut(), fresh, AcqRel, Acquire).is_err() {
                sys::unmap(fresh.cast(), CHUNK * size_of::<Slot>());
            }
        }
        self.get(index)
    }

    /// Returns `true` if the chunk with this number exists.
    fn has(&self, number: usize) -> bool {
        number == 0 || self.chunk(number).is_some()
    }

    /// Visits all slots ever used, and the rest of their chunks.
    fn for_each(&self, visit: impl Fn(&Slot)) {
        let seen = SEEN.load(Relaxed);
        (0..seen.min(CHUNK)).filter_map(|index| self.get(index)).for_each(&visit);
        for chunk in (1..seen.div_ceil(CHUNK)).filter(|number| self.has(*number)) {
            (0..CHUNK).filter_map(|index| self.get(chunk * CHUNK + index)).for_each(&visit);
        }
    }
}

/// Returns the entry of a descriptor, if it was ever seen. A negative number is beyond every chunk.
#[inline(always)]
fn entry(fd: i32) -> Option<u64> {
    Some(place(fd)?.descriptor.load(Relaxed))
}

#[inline(always)]
fn place(fd: i32) -> Option<&'static Slot> {
    let index = fd as usize;
    if index >= DESCRIPTORS { None } else { TABLE.get(index) }
}

fn place_made(fd: i32) -> Option<&'static Slot> {
    let index = fd as usize;
    if index >= DESCRIPTORS { None } else { TABLE.get_or_make(index) }
}

/// Number of times that all descriptions may have become shared with another process, plus one.
static SHARED: AtomicU32 = AtomicU32::new(1);
/// Spare descriptions, for descriptors whose own description is used by a duplicate: the number ever used, and a free
/// list with a change counter in the upper half to detect ABA changes.
static USED: AtomicU32 = AtomicU32::new(0);
static FREE: AtomicU64 = AtomicU64::new(0);

const APPENDS: u32 = 1;
/// Marks the description of an eventfd, whose position field contains the eventfd's identity and is never tracked.
const COUNTS: u32 = 2;

/// Returns the file of a descriptor if it was seen, without a system call.
#[inline(always)]
pub fn seen(fd: i32) -> u32 {
    entry(fd).map_or(number::NONE, |entry| entry as u32)
}

/// Returns `true` if a filter excludes this descriptor's file. Never resolves a name.
#[inline(always)]
pub fn is_filtered(fd: i32) -> bool {
    entry(fd).is_some_and(|entry| entry as u32 == number::FILTERED)
}

/// Notes the file of a descriptor whose opening was not seen.
pub fn note_unless_seen(fd: i32, file: u32) {
    if let Some(slot) = place_made(fd) {
        let entry = slot.descriptor.load(Relaxed);
        // Only if it is still unseen: another thread may have opened it in between. A forked child shares the
        // description.
        if entry as u32 == number::NONE {
            let _ = slot.descriptor.compare_exchange(entry, entry | file as u64, AcqRel, Relaxed);
        }
    }
}

/// Replaces the name of a descriptor's file, for example after a socket was connected; [`number::NONE`] makes the
/// next call resolve it again. Its duplicates keep the previous name.
pub fn renamed(fd: i32, file: u32) {
    if let Some(slot) = place(fd) {
        let entry = slot.descriptor.load(Relaxed);
        // Not if another thread has closed it in between. A descriptor that was never seen is resolved anyway.
        if entry != 0 {
            let _ = slot.descriptor.compare_exchange(entry, entry & !0xffff_ffff | file as u64, AcqRel, Relaxed);
        }
    }
}

/// Notes that a descriptor, just opened, is an eventfd with this identity: file numbers are forgotten at a fork, and
/// the kernel does not distinguish eventfds.
pub fn set_eventfd(fd: i32, identity: i64) {
    if let Some(description) = description(fd) {
        description.since.store(0, Relaxed);
        description.position.store(identity, Relaxed);
        description.flags.store(COUNTS, Relaxed);
    }
}

/// Returns the identity of an eventfd that this process or an ancestor was seen creating.
pub fn eventfd(fd: i32) -> Option<i64> {
    let description = description(fd).filter(|description| description.flags.load(Relaxed) & COUNTS != 0)?;
    Some(description.position.load(Relaxed))
}

/// Notes a descriptor that a call has just opened.
pub fn opened(fd: i32, file: u32, flags: i32) {
    let Some(slot) = place_made(fd) else { return };
    let description = if file == number::FILTERED { 0 } else { take_description(fd, slot, flags) };
    slot.folder.store(number::UNKNOWN, Relaxed);
    release(single_thread_atomics::swap(&slot.descriptor, file as u64 | (description as u64) << 32));
}

/// Returns the hash of a directory's path, if known.
#[inline(always)]
pub fn folder(fd: i32) -> u64 {
    place(fd).map_or(number::UNKNOWN, |slot| slot.folder.load(Relaxed))
}

/// Sets the hash of a directory's path, or marks it unknown.
pub fn set_folder(fd: i32, hash: u64) {
    if let Some(slot) = place_made(fd) {
        slot.folder.store(hash, Relaxed);
    }
}

/// Marks the paths of all directories unknown.
pub fn forget_folders() {
    TABLE.for_each(|slot| {
        if slot.folder.load(Relaxed) != number::UNKNOWN {
            slot.folder.store(number::UNKNOWN, Relaxed);
        }
    });
}

/// Notes that `to` is now a duplicate of `from`.
pub fn duplicated(from: i32, to: i32) {
    if to < 0 || from == to {
        return;
    }
    let Some(entry) = entry(from) else { return closed(to) };
    if let Some(description) = description_of(entry) {
        description.holders.fetch_add(1, Relaxed);
    }
    if let Some(slot) = place_made(to) {
        slot.folder.store(folder(from), Relaxed);
        release(single_thread_atomics::swap(&slot.descriptor, entry));
    }
}

/// Notes that a descriptor is about to be closed. Call this *before* the real call: afterwards another thread may
/// reuse the number.
#[inline]
pub fn closed(fd: i32) {
    if let Some(slot) = place(fd) {
        slot.folder.store(number::UNKNOWN, Relaxed);
        release(single_thread_atomics::swap(&slot.descriptor, 0));
    }
}

/// Notes that all descriptors from `first` to `last` are about to be closed.
pub fn closed_range(first: u32, last: u32) {
    for fd in first as usize..=(last as usize).min(DESCRIPTORS - 1) {
        if !TABLE.has(fd / CHUNK) {
            continue;
        }
        closed(fd as i32);
    }
}

fn description_of(entry: u64) -> Option<&'static Description> {
    let index = (entry >> 32) as usize;
    if index == 0 { None } else { Some(&TABLE.get(index - 1)?.description) }
}

#[inline(always)]
fn description(fd: i32) -> Option<&'static Description> {
    description_of(entry(fd)?)
}

/// Takes a new description: the descriptor's own, unless a duplicate still uses that. Returns its slot plus one, or
/// zero.
fn take_description(fd: i32, slot: &Slot, flags: i32) -> u32 {
    if single_thread_atomics::claim(&slot.description.holders) {
        slot.description.begin(flags);
        return fd as u32 + 1;
    }
    let index = pop_free().unwrap_or_else(|| DESCRIPTORS as u32 + USED.fetch_add(1, Relaxed));
    let Some(spare) = TABLE.get_or_make(index as usize) else { return 0 };
    spare.description.holders.store(1, Relaxed);
    spare.description.begin(flags);
    index + 1
}

fn release(entry: u64) {
    let Some(description) = description_of(entry) else { return };
    if single_thread_atomics::take_one(&description.holders) == 1 && (entry >> 32) as usize > DESCRIPTORS {
        push_free((entry >> 32) as u32 - 1, description);
    }
}

fn pop_free() -> Option<u32> {
    let mut head = FREE.load(Acquire);
    loop {
        let index = head as u32;
        let next = TABLE.get(index as usize).filter(|_| index != 0)?.description.next_free.load(Relaxed);
        match FREE.compare_exchange_weak(head, changed(head, next), AcqRel, Acquire) {
            Ok(_) => return Some(index),
            Err(now) => head = now,
        }
    }
}

fn push_free(index: u32, description: &Description) {
    let mut head = FREE.load(Acquire);
    loop {
        description.next_free.store(head as u32, Relaxed);
        match FREE.compare_exchange_weak(head, changed(head, index), AcqRel, Acquire) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

fn changed(head: u64, index: u32) -> u64 {
    ((head >> 32) + 1) << 32 | index as u64
}

impl Description {
    fn begin(&self, flags: i32) {
        self.position.store(0, Relaxed);
        self.flags.store(if flags & libc::O_APPEND != 0 { APPENDS } else { 0 }, Relaxed);
        self.since.store(SHARED.load(Relaxed), Relaxed);
    }

    /// Advances the position by the bytes that a call moved, and returns the position at which the call started.
    #[inline(always)]
    pub fn advance(&self, moved: i64) -> i64 {
        if self.is_followed() { single_thread_atomics::add(&self.position, moved.max(0)) } else { POS_UNKNOWN }
    }

    /// Advances like [`Description::advance`], for a write: in append mode the kernel chooses the position.
    #[inline(always)]
    pub fn advance_by_write(&self, moved: i64) -> i64 {
        if self.flags.load(Relaxed) & APPENDS != 0 {
            self.since.store(0, Relaxed);
            return POS_UNKNOWN;
        }
        self.advance(moved)
    }

    #[inline(always)]
    fn is_followed(&self) -> bool {
        self.since.load(Relaxed) == SHARED.load(Relaxed)
    }
}

/// Returns the file of a descriptor, if it was seen, and its description, with one table lookup for both.
#[inline(always)]
pub fn seen_and_description(fd: i32) -> (u32, Option<&'static Description>) {
    let Some(slot) = place(fd) else { return (number::NONE, None) };
    let entry = slot.descriptor.load(Relaxed);
    // This is usually the descriptor's own.
    let is_own = entry >> 32 == fd as u64 + 1;
    (entry as u32, if is_own { Some(&slot.description) } else { description_of(entry) })
}

/// Returns the position of the next plain read or write, if known.
pub fn position(fd: i32) -> i64 {
    description(fd).filter(|d| d.is_followed()).map_or(POS_UNKNOWN, |d| d.position.load(Relaxed))
}

/// Moves a known position back by `by` bytes.
pub fn step_back(fd: i32, by: i64) {
    if let Some(description) = description(fd).filter(|d| d.is_followed()) {
        description.position.fetch_sub(by, Relaxed);
    }
}

/// Marks the position unknown after a call that moved it by an unknown amount.
pub fn lose_position(fd: i32) {
    if let Some(description) = description(fd) {
        description.since.store(0, Relaxed);
    }
}

/// Marks the description of a pipe or another object without positions.
pub fn has_no_position(fd: i32) {
    lose_position(fd);
}

/// Sets the position after a seek.
#[inline(always)]
pub fn sought(fd: i32, position: i64) {
    if let Some(description) = description(fd) {
        description.position.store(position, Relaxed);
        description.since.store(SHARED.load(Relaxed), Relaxed);
    }
}

/// Notes that a descriptor now appends, or no longer does.
pub fn set_appending(fd: i32, appends: bool) {
    if let Some(description) = description(fd) {
        let rest = description.flags.load(Relaxed) & !APPENDS;
        description.flags.store(rest | if appends { APPENDS } else { 0 }, Relaxed);
    }
}

/// Marks all positions unknown until the next seek, because a child now shares all descriptions.
pub fn shared_with_child() {
    SHARED.fetch_add(1, Relaxed);
}

/// Forgets file numbers, which are no longer valid, so that names are resolved again. Filtered files stay filtered.
pub fn forget_files() {
    TABLE.for_each(|slot| {
        let seen = slot.descriptor.load(Relaxed);
        // A forked child shares the pages that it does not write to.
        if seen as u32 != number::FILTERED && seen as u32 != number::NONE {
            slot.descriptor.store(seen & !0xffff_ffff, Relaxed);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard};

    /// Locks the table and the child counter, which belong to the whole process, for one test at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static TESTS: Mutex<()> = Mutex::new(());
        TESTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn advance(fd: i32, moved: i64) -> i64 {
        description(fd).map_or(POS_UNKNOWN, |description| description.advance(moved))
    }

    #[test]
    fn duplicates_share_a_position() {
        let _alone = alone();
        opened(200, 5, 0);
        duplicated(200, 201);
        assert_eq!((advance(200, 10), advance(201, 10), position(200)), (0, 10, 20));
        closed(200);
        assert_eq!((position(201), seen(201)), (20, 5));
        closed(201);
        assert_eq!(position(201), POS_UNKNOWN);
    }

    #[test]
    fn reopened_number_gets_a_new_position() {
        let _alone = alone();
        for _ in 0..3 {
            opened(210, 5, 0);
            duplicated(210, 211);
            assert_eq!(advance(210, 10), 0);
            closed(210);
            opened(210, 6, 0);
            assert_eq!((advance(210, 1), advance(211, 1), seen(210), seen(211)), (0, 10, 6, 5));
            closed(210);
            closed(211);
        }
        assert!(USED.load(Relaxed) <= 1, "spare descriptions are used again");
    }

    #[test]
    fn a_shared_description_is_unknown_until_a_seek() {
        let _alone = alone();
        opened(300, 5, 0);
        shared_with_child();
        assert_eq!(advance(300, 10), POS_UNKNOWN);
        sought(300, 7);
        assert_eq!(advance(300, 10), 7);
        closed(300);
    }

    #[test]
    fn surviving_description_keeps_its_file() {
        let _alone = alone();
        opened(310, 5, 0);
        renamed(310, 6);
        assert_eq!((seen(310), advance(310, 10)), (6, 0));
        renamed(310, number::NONE);
        note_unless_seen(310, 7);
        note_unless_seen(310, 8);
        assert_eq!((seen(310), advance(310, 10)), (7, 10));
        closed(310);
        renamed(310, 9);
        assert_eq!(seen(310), number::NONE);
    }

    #[test]
    fn eventfds_keep_identity_across_fork_and_dup() {
        let _alone = alone();
        opened(320, 5, 0);
        assert_eq!(eventfd(320), None);
        set_eventfd(320, 77 << 32 | 3);
        duplicated(320, 321);
        shared_with_child();
        set_appending(320, false);
        assert_eq!(advance(320, 8), POS_UNKNOWN);
        closed(320);
        assert_eq!((eventfd(320), eventfd(321)), (None, Some(77 << 32 | 3)));
        closed(321);
    }

    #[test]
    fn numbers_beyond_the_table_are_ignored() {
        let _alone = alone();
        for fd in [-1, i32::MAX, DESCRIPTORS as i32] {
            opened(fd, 5, 0);
            assert_eq!(position(fd), POS_UNKNOWN);
            closed(fd);
        }
        opened(900_000, 6, 0);
        assert_eq!(seen(900_000), 6);
        closed(900_000);
    }
}
