//! The open files and data sets of HDF5 libraries, by their identifiers, so that a read does not have to query the
//! library for names.
//!
//! A table of fixed size, without a lock. It forgets old entries when it is full; callers query the library again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};

use crate::kernel::hash;
use crate::recording::wiped_page;

/// The properties of a file or data set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataSet {
    /// Number of the file's name.
    pub file: u32,
    /// Number of the data set's name; [`crate::known::number::NONE`] for a file.
    pub name: u32,
    /// Number of elements, if it is known and no data set was resized since.
    pub elements: Option<u64>,
}

struct Slot {
    /// Hash of the identifier; [`FREE`], or [`BUSY`] while the other fields are written.
    key: AtomicU64,
    file: AtomicU32,
    name: AtomicU32,
    elements: AtomicU64,
    /// Number of resizes when `elements` was queried.
    resizes: AtomicU64,
}

const FREE: u64 = 0;
const BUSY: u64 = 1;
const UNKNOWN: u64 = u64::MAX;
const SLOTS: usize = 1024;
/// Number of slots in which an entry can be.
const NEAR: usize = 8;

crate::large! {
    static TABLE: [Slot; SLOTS] = [const {
        Slot {
            key: AtomicU64::new(FREE),
            file: AtomicU32::new(0),
            name: AtomicU32::new(0),
            elements: AtomicU64::new(0),
            resizes: AtomicU64::new(0),
        }
    }; SLOTS];
}

/// Number of calls that may have changed the number of elements of a data set.
static RESIZES: AtomicU64 = AtomicU64::new(0);
/// The slot that is replaced next if all near ones are used.
static TURN: AtomicU32 = AtomicU32::new(0);
/// Changes when identifiers may be used again, because a library was loaded after another was unloaded.
static SALT: AtomicU64 = AtomicU64::new(0);

/// Returns the key of an identifier of a library. It differs between images, in which names have other numbers.
#[inline]
pub fn key(library: usize, id: i64) -> u64 {
    salted(library, &id.to_le_bytes())
}

/// Returns the key of a file by the path with which it was opened.
pub fn key_of_path(library: usize, path: &[u8]) -> u64 {
    !salted(library, path)
}

#[inline]
fn salted(library: usize, text: &[u8]) -> u64 {
    let image = (wiped_page::generation() as u64) << 24;
    hash::of(text, (library as u64) << 56 ^ image ^ SALT.load(Relaxed)).clamp(BUSY + 1, u64::MAX - BUSY - 1)
}

fn near(key: u64) -> impl Iterator<Item = &'static Slot> {
    let first = (key >> 40) as usize;
    (0..NEAR).map(move |i| &TABLE[(first + i) % SLOTS])
}

/// Returns an entry.
#[inline]
pub fn find(key: u64) -> Option<DataSet> {
    let slot = near(key).find(|slot| slot.key.load(Acquire) == key)?;
    let elements = slot.elements.load(Relaxed);
    let is_current = elements != UNKNOWN && slot.resizes.load(Relaxed) == RESIZES.load(Relaxed);
    let set = DataSet {
        file: slot.file.load(Relaxed),
        name: slot.name.load(Relaxed),
        elements: is_current.then_some(elements),
    };
    fence(Acquire);
    (slot.key.load(Relaxed) == key).then_some(set)
}

/// Adds or replaces an entry. If another thread writes to the chosen slot, nothing is added.
pub fn remember(key: u64, set: DataSet) {
    let holds = |wanted: u64| move |slot: &&Slot| slot.key.load(Relaxed) == wanted;
    let found = near(key).find(holds(key)).or_else(|| near(key).find(holds(FREE)));
    let slot = found.or_else(|| near(key).nth(TURN.fetch_add(1, Relaxed) as usize % NEAR));
    let Some(slot) = slot else { return };
    let before = slot.key.load(Relaxed);
    if before == BUSY || slot.key.compare_exchange(before, BUSY, Acquire, Relaxed).is_err() {
        return;
    }
    fence(Release);
    slot.file.store(set.file, Relaxed);
    slot.name.store(set.name, Relaxed);
    slot.elements.store(set.elements.unwrap_or(UNKNOWN), Relaxed);
    slot.resizes.store(RESIZES.load(Relaxed), Relaxed);
    slot.key.store(key, Release);
}

/// Removes an entry.
pub fn forget(key: u64) {
    if let Some(slot) = near(key).find(|slot| slot.key.load(Relaxed) == key) {
        let _ = slot.key.compare_exchange(key, FREE, AcqRel, Relaxed);
    }
}

/// Makes all numbers of elements unknown: a data set is resized through any of its identifiers.
pub fn resized() {
    RESIZES.fetch_add(1, Relaxed);
}

/// Makes all entries and numbers unknown.
pub fn forget_all() {
    SALT.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
}

/// A small number by identifier: 40 bits of the key, and the number. An identifier has one place only.
static NUMBERS: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];
const NUMBER_BITS: u32 = 24;

/// Returns the number kept for an identifier: the size of a data type, or the kind of selection of a space. Zero if it
/// is unknown.
#[inline]
pub fn number_of(key: u64) -> usize {
    let known = NUMBERS[key as usize % NUMBERS.len()].load(Relaxed);
    if known >> NUMBER_BITS == key >> NUMBER_BITS { known as usize & ((1 << NUMBER_BITS) - 1) } else { 0 }
}

/// Keeps the number of an identifier if it is small; zero to forget it.
#[inline]
pub fn keep_number(key: u64, number: usize) {
    let number = if number < 1 << NUMBER_BITS { number as u64 } else { 0 };
    NUMBERS[key as usize % NUMBERS.len()].store(key >> NUMBER_BITS << NUMBER_BITS | number, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_kept_until_they_are_forgotten() {
        keep_number(key(2, 77), 8);
        keep_number(key(2, 78), 1 << 30);
        assert_eq!((number_of(key(2, 77)), number_of(key(2, 78)), number_of(key(3, 77))), (8, 0, 0));
        keep_number(key(2, 77), 0);
        assert_eq!(number_of(key(2, 77)), 0);
    }

    #[test]
    fn entries_are_found_until_forgotten_resized_or_replaced() {
        let set = |name| DataSet { file: 7, name, elements: Some(name as u64 * 10) };
        let keys: Vec<u64> = (0..20_000).map(|id| key(0, id)).collect();
        remember(keys[0], set(1));
        assert_eq!(find(keys[0]), Some(set(1)));
        assert_eq!(find(key(1, 0)), None);
        assert_eq!(find(key_of_path(0, &0i64.to_le_bytes())), None);
        resized();
        assert_eq!(find(keys[0]), Some(DataSet { elements: None, ..set(1) }));
        forget(keys[0]);
        assert_eq!(find(keys[0]), None);
        for (key, name) in keys.iter().zip(0..) {
            remember(*key, set(name));
            assert_eq!(find(*key), Some(set(name)));
        }
        let left =
            keys.iter().zip(0..).filter(|(key, name)| find(**key).is_some_and(|found| found == set(*name))).count();
        assert!((SLOTS / 2..=SLOTS).contains(&left), "{left} entries are left");
        forget_all();
        assert!((0..20_000).all(|id| find(key(0, id)).is_none()));
    }
}
