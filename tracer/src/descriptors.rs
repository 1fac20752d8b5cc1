//! What each descriptor refers to: a file's number, and the position of plain reads and writes.
//!
//! A descriptor leads to an *open file description*, which its duplicates share, and with it the position. Positions are
//! followed by arithmetic: what was read or written is added, a seek sets. Where others may move them unseen (a description
//! that was inherited, shared with a child, or opened for appending) they are unknown until a seek tells.
//!
//! Tables grow by chunks and never move, so that looking up is two loads without a lock, whatever the number.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::record::POS_UNKNOWN;

use crate::{names, paths, sys};

const CHUNK: usize = 1024;
const CHUNKS: usize = 1024;

/// A table of up to a million zeroed entries. The first chunk, which most programs never leave, is found without a pointer.
struct Table<T: 'static> {
    first: MaybeUninit<[T; CHUNK]>,
    chunks: [AtomicPtr<T>; CHUNKS],
}

impl<T> Table<T> {
    const fn new() -> Table<T> {
        Table { first: MaybeUninit::zeroed(), chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS] }
    }

    #[inline(always)]
    fn get(&self, index: usize) -> Option<&T> {
        let chunk = if index < CHUNK { self.first.as_ptr().cast() } else { self.chunk(index / CHUNK)? };
        // SAFETY: a chunk has CHUNK entries, for which zeroed memory is a value, and is never unmapped.
        Some(unsafe { &*chunk.add(index % CHUNK) })
    }

    fn chunk(&self, number: usize) -> Option<*const T> {
        let chunk = self.chunks.get(number)?.load(Acquire);
        (!chunk.is_null()).then_some(chunk.cast_const())
    }

    fn get_or_make(&self, index: usize) -> Option<&T> {
        let place = self.chunks.get(index / CHUNK)?;
        if index >= CHUNK && place.load(Acquire).is_null() {
            let fresh = sys::map_memory(CHUNK * size_of::<T>()).cast::<T>();
            if fresh.is_null() || place.compare_exchange(std::ptr::null_mut(), fresh, AcqRel, Acquire).is_err() {
                sys::unmap(fresh.cast(), CHUNK * size_of::<T>());
            }
        }
        self.get(index)
    }

    /// The entries of every chunk there is.
    fn for_each(&self, visit: impl Fn(&T)) {
        for chunk in (0..CHUNKS).filter(|number| self.has(*number)) {
            (0..CHUNK).filter_map(|index| self.get(chunk * CHUNK + index)).for_each(&visit);
        }
    }

    /// Whether there is a chunk of this number.
    fn has(&self, number: usize) -> bool {
        number == 0 || self.chunk(number).is_some()
    }
}

/// File id in the lower half, description in the upper; zero is a descriptor never seen.
static DESCRIPTORS: Table<AtomicU64> = Table::new();
static DESCRIPTIONS: Table<Description> = Table::new();

/// An open file description. Number 0 stands for "none": position unknown. A line of the cache each: threads that read
/// files of their own would otherwise take it from each other on every call.
#[repr(align(64))]
struct Description {
    position: AtomicI64,
    holders: AtomicU32,
    /// Value of [`SHARED`] since when the position is followed; 0 is "not followed".
    since: AtomicU32,
    next_free: AtomicU32,
    flags: AtomicU32,
}

/// Number of times that all descriptions may have come to be shared with another process, plus one.
static SHARED: AtomicU32 = AtomicU32::new(1);
/// Free descriptions: a change counter in the upper half, so that a list that changed and changed back is noticed.
static FREE: AtomicU64 = AtomicU64::new(0);
static USED: AtomicU32 = AtomicU32::new(1);

const APPENDS: u32 = 1;

/// The file a descriptor refers to, found out now if it was never seen; [`names::NONE`] where it refers to nothing.
#[inline(always)]
pub fn file(fd: i32) -> u32 {
    match DESCRIPTORS.get(fd as usize).map(|entry| entry.load(Relaxed) as u32) {
        Some(id) if id != names::NONE => id,
        _ => first_sight(fd),
    }
}

/// The file a descriptor refers to as far as it was seen; the kernel is not asked.
#[inline(always)]
pub fn seen(fd: i32) -> u32 {
    DESCRIPTORS.get(fd as usize).map_or(names::NONE, |entry| entry.load(Relaxed) as u32)
}

/// Whether a filter leaves this descriptor's file out. Never looks for a name.
#[inline(always)]
pub fn is_filtered(fd: i32) -> bool {
    DESCRIPTORS.get(fd as usize).is_some_and(|entry| entry.load(Relaxed) as u32 == names::FILTERED)
}

#[cold]
fn first_sight(fd: i32) -> u32 {
    if fd < 0 {
        return names::NONE;
    }
    let id = paths::of_descriptor(fd);
    if let Some(entry) = DESCRIPTORS.get_or_make(fd as usize) {
        // Only if it is still unseen: another thread may have opened it in between.
        let _ = entry.compare_exchange(0, id as u64, AcqRel, Relaxed);
    }
    id
}

/// A descriptor that a call has just opened.
pub fn opened(fd: i32, file: u32, flags: i32) {
    if fd < 0 {
        return;
    }
    let description = if file == names::FILTERED { 0 } else { take_description(flags) };
    replace(fd, file as u64 | (description as u64) << 32);
}

/// `to` is now a duplicate of `from`.
pub fn duplicated(from: i32, to: i32) {
    if to < 0 || from == to {
        return;
    }
    let Some(entry) = DESCRIPTORS.get(from as usize).map(|entry| entry.load(Relaxed)) else {
        return closed(to);
    };
    if let Some(description) = description_of(entry) {
        description.holders.fetch_add(1, Relaxed);
    }
    replace(to, entry);
}

/// A descriptor that is about to be closed: to be said *before* the real call, after which the number may be another
/// thread's.
#[inline]
pub fn closed(fd: i32) {
    if let Some(entry) = DESCRIPTORS.get(fd as usize) {
        release(entry.swap(0, AcqRel));
    }
}

/// Everything from `first` to `last` is about to be closed.
pub fn closed_range(first: u32, last: u32) {
    for fd in first as usize..=(last as usize).min(CHUNK * CHUNKS - 1) {
        if !DESCRIPTORS.has(fd / CHUNK) {
            continue;
        }
        closed(fd as i32);
    }
}

fn replace(fd: i32, entry: u64) {
    if let Some(place) = DESCRIPTORS.get_or_make(fd as usize) {
        release(place.swap(entry, AcqRel));
    }
}

fn description_of(entry: u64) -> Option<&'static Description> {
    let index = (entry >> 32) as usize;
    if index == 0 { None } else { DESCRIPTIONS.get(index) }
}

#[inline(always)]
fn description(fd: i32) -> Option<&'static Description> {
    description_of(DESCRIPTORS.get(fd as usize)?.load(Relaxed))
}

fn take_description(flags: i32) -> u32 {
    let index = pop_free().unwrap_or_else(|| USED.fetch_add(1, Relaxed));
    let Some(description) = DESCRIPTIONS.get_or_make(index as usize) else { return 0 };
    description.position.store(0, Relaxed);
    description.holders.store(1, Relaxed);
    description.flags.store(if flags & libc::O_APPEND != 0 { APPENDS } else { 0 }, Relaxed);
    description.since.store(SHARED.load(Relaxed), Relaxed);
    index
}

fn release(entry: u64) {
    let Some(description) = description_of(entry) else { return };
    if description.holders.fetch_sub(1, AcqRel) == 1 {
        push_free((entry >> 32) as u32, description);
    }
}

fn pop_free() -> Option<u32> {
    let mut head = FREE.load(Acquire);
    loop {
        let index = head as u32;
        let next = DESCRIPTIONS.get(index as usize).filter(|_| index != 0)?.next_free.load(Relaxed);
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
    #[inline(always)]
    fn is_followed(&self) -> bool {
        self.since.load(Relaxed) == SHARED.load(Relaxed)
    }
}

/// Moves the position by what a call has read and says where it began.
#[inline(always)]
pub fn advance(fd: i32, moved: i64) -> i64 {
    match description(fd) {
        Some(description) if description.is_followed() => description.position.fetch_add(moved.max(0), Relaxed),
        _ => POS_UNKNOWN,
    }
}

/// As [`advance`], for a write: where appending is on, the kernel chooses the place.
#[inline(always)]
pub fn advance_write(fd: i32, moved: i64) -> i64 {
    match description(fd) {
        Some(description) if description.flags.load(Relaxed) & APPENDS != 0 => {
            description.since.store(0, Relaxed);
            POS_UNKNOWN
        }
        _ => advance(fd, moved),
    }
}

/// Where the next plain read or write begins, as far as it is known.
pub fn position(fd: i32) -> i64 {
    description(fd).filter(|d| d.is_followed()).map_or(POS_UNKNOWN, |d| d.position.load(Relaxed))
}

/// A known position moves back by so many bytes.
pub fn step_back(fd: i32, by: i64) {
    if let Some(description) = description(fd).filter(|d| d.is_followed()) {
        description.position.fetch_sub(by, Relaxed);
    }
}

/// A call has moved the position to where nobody knows.
pub fn lose_position(fd: i32) {
    if let Some(description) = description(fd) {
        description.since.store(0, Relaxed);
    }
}

/// A seek has told the position.
#[inline(always)]
pub fn sought(fd: i32, position: i64) {
    if let Some(description) = description(fd) {
        description.position.store(position, Relaxed);
        description.since.store(SHARED.load(Relaxed), Relaxed);
    }
}

/// Whether a descriptor appends has changed.
pub fn set_appending(fd: i32, appends: bool) {
    if let Some(description) = description(fd) {
        description.flags.store(if appends { APPENDS } else { 0 }, Relaxed);
    }
}

/// A child shares all descriptions from now on, so positions are unknown until a seek tells.
pub fn shared_with_child() {
    SHARED.fetch_add(1, Relaxed);
}

/// File numbers have lost their meaning: names are looked up again. What filters leave out stays out.
pub fn forget_files() {
    DESCRIPTORS.for_each(|entry| {
        let seen = entry.load(Relaxed);
        if seen as u32 != names::FILTERED {
            entry.store(seen & !0xffff_ffff, Relaxed);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_share_a_position_and_outlive_each_other() {
        opened(200, 5, 0);
        duplicated(200, 201);
        assert_eq!((advance(200, 10), advance(201, 10), position(200)), (0, 10, 20));
        closed(200);
        assert_eq!((position(201), file(201)), (20, 5));
        closed(201);
        assert_eq!(position(201), POS_UNKNOWN);
    }

    #[test]
    fn a_shared_description_is_unknown_until_a_seek() {
        opened(300, 5, 0);
        shared_with_child();
        assert_eq!(advance(300, 10), POS_UNKNOWN);
        sought(300, 7);
        assert_eq!(advance(300, 10), 7);
        closed(300);
    }

    #[test]
    fn numbers_beyond_every_table_are_passed_over() {
        for fd in [-1, i32::MAX, (CHUNK * CHUNKS) as i32] {
            opened(fd, 5, 0);
            assert_eq!(position(fd), POS_UNKNOWN);
            closed(fd);
        }
        opened(900_000, 6, 0);
        assert_eq!(file(900_000), 6);
        closed(900_000);
    }
}
