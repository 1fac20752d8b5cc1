//! Semaphores and conditions shared by processes, by address, with an id that is the same in every process: the inode of a
//! named semaphore, otherwise a hash of the mapped file and the offset in it.
//!
//! A child inherits the table together with the mappings. Without such an object, the overhead is one check of a
//! counter.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::sys;
use crate::known::wakers;

const SLOTS: usize = 1 << 10;
/// Number of slots searched for an address.
const NEAR: usize = 32;

const FREE: usize = 0;
/// Instead of an address: the slot was used before.
const GONE: usize = 1;

/// Instead of an id: to be determined at the first wait or post.
const UNKNOWN: u64 = 0;

struct Slot {
    address: AtomicUsize,
    id: AtomicU64,
    /// Number of opens minus closes.
    opens: AtomicU32,
}

crate::large! {
    static TABLE: [Slot; SLOTS] = [const {
        Slot { address: AtomicUsize::new(FREE), id: AtomicU64::new(UNKNOWN), opens: AtomicU32::new(0) }
    }; SLOTS];
}

/// Number of semaphores and conditions in the table.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// `true` once there was a condition: the interpreter lock of Python is a condition that is signaled all the time.
static CONDITIONS: AtomicBool = AtomicBool::new(false);

/// Returns `true` if this process knows any shared semaphore.
#[inline(always)]
pub fn are_any() -> bool {
    COUNT.load(Relaxed) != 0
}

/// Returns `true` if this process knows any shared condition.
#[inline(always)]
pub fn are_conditions() -> bool {
    CONDITIONS.load(Relaxed)
}

fn near(address: usize) -> impl Iterator<Item = &'static Slot> {
    let at = ((address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    (0..NEAR).map(move |i| &TABLE[(at + i) % SLOTS])
}

fn find(address: usize) -> Option<&'static Slot> {
    let until_free = near(address).take_while(|place| place.address.load(Acquire) != FREE);
    until_free.into_iter().find(|place| place.address.load(Acquire) == address)
}

/// Notes a semaphore returned by `sem_open`. Its name may be unlinked immediately afterwards.
pub fn opened(address: usize, name: &CStr) {
    let name = name.to_bytes();
    let after_slashes = name.iter().position(|byte| *byte != b'/').unwrap_or(name.len());
    let mut path = PathBuffer::new();
    path.push(b"/dev/shm/sem.").push(&name[after_slashes..]);
    if let Some(found) = sys::status_at(path.as_c_str()) {
        note(address, found.identity[1]);
    }
}

/// Handles `sem_init`: notes a semaphore shared by processes, or forgets one if its memory was reused for a private
/// one.
pub fn made(address: usize, is_shared: bool) {
    if are_any() {
        gone(address);
    }
    if is_shared {
        note(address, UNKNOWN);
    }
}

/// Handles `pthread_cond_init`, in the same way.
pub fn condition_made(address: usize, is_shared: bool) {
    if is_shared {
        CONDITIONS.store(true, Relaxed);
    }
    made(address, is_shared);
}

fn note(address: usize, id: u64) {
    // The last taker must be known from the start, even if it takes the semaphore without a wait.
    wakers::use_table();
    if let Some(place) = find(address) {
        place.id.store(id, Relaxed);
        place.opens.fetch_add(1, Relaxed);
        return;
    }
    let take = |place: &&Slot| {
        let was = place.address.load(Relaxed);
        was <= GONE && place.address.compare_exchange(was, address, AcqRel, Relaxed).is_ok()
    };
    // If the table is full, the semaphore is treated as private to this process.
    if let Some(place) = near(address).find(take) {
        place.id.store(id, Relaxed);
        place.opens.store(1, Relaxed);
        COUNT.fetch_add(1, Relaxed);
    }
}

/// Handles a `sem_close` that is about to be called.
pub fn closed(address: usize) {
    if let Some(place) = find(address)
        && place.opens.fetch_sub(1, AcqRel) == 1
    {
        remove(place);
    }
}

/// Forgets a semaphore or condition: it is about to be destroyed, or the memory was reused.
pub fn gone(address: usize) {
    find(address).into_iter().for_each(remove);
}

fn remove(place: &Slot) {
    place.address.store(GONE, Release);
    COUNT.fetch_sub(1, Relaxed);
}

/// Returns the id of a semaphore shared by processes; `None` for a private one.
pub fn id(address: usize) -> Option<u64> {
    let place = find(address).filter(|_| are_any())?;
    match place.id.load(Relaxed) {
        UNKNOWN => {
            let id = mapped_id(address);
            place.id.store(id, Relaxed);
            Some(id)
        }
        id => Some(id),
    }
}

/// Returns the id of mapped memory: a hash of device, inode and offset in the file, or the address itself if the
/// kernel does not list the mapping.
fn mapped_id(address: usize) -> u64 {
    let fd = sys::open(c"/proc/self/maps", libc::O_RDONLY) as i32;
    if fd < 0 {
        return address as u64;
    }
    let (mut text, mut kept, mut at, mut found) = ([0u8; 2048], 0, 0, None);
    loop {
        let read = sys::read_at(fd, &mut text[kept..], at).len();
        let end = kept + read;
        at += read;
        let lines = text[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        found = found.or(text[..lines].split(|byte| *byte == b'\n').find_map(|line| id_in(line, address)));
        // A line longer than the buffer is skipped.
        let rest = if lines == 0 && end == text.len() { end } else { lines };
        text.copy_within(rest..end, 0);
        kept = end - rest;
        if read == 0 || found.is_some() {
            break;
        }
    }
    sys::close(fd);
    found.unwrap_or(address as u64)
}

/// Returns the id from one line of the list: `7f00-7f10 rw-s 00001000 00:17 1234 /dev/shm/x`.
fn id_in(line: &[u8], address: usize) -> Option<u64> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let mut ends = words.next()?.split(|byte| *byte == b'-');
    let (start, end) = (hexadecimal(ends.next()?)?, hexadecimal(ends.next()?)?);
    if !(start..end).contains(&(address as u64)) {
        return None;
    }
    let (_, offset, device, inode) = (words.next()?, hexadecimal(words.next()?)?, words.next()?, words.next()?);
    let place = offset + (address as u64 - start);
    Some(dlio_schemas::export::key::hash(&[device, inode, &place.to_le_bytes()]))
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semaphore_is_known_until_the_last_close() {
        note(0x7f00_0000_1000, 77);
        note(0x7f00_0000_1000, 77);
        assert!(are_any());
        closed(0x7f00_0000_1000);
        assert_eq!(id(0x7f00_0000_1000), Some(77));
        closed(0x7f00_0000_1000);
        assert_eq!(id(0x7f00_0000_1000), None);
        closed(0x7f00_0000_1000);
    }

    #[test]
    fn semaphores_beyond_the_table_are_ignored() {
        let address = |i: usize| 0x5500_0000_0000 + i * 32;
        (0..4 * SLOTS).for_each(|i| note(address(i), 5));
        (0..4 * SLOTS).for_each(|i| gone(address(i)));
        assert!((0..4 * SLOTS).all(|i| id(address(i)).is_none()));
    }

    #[test]
    fn shared_offset_has_one_id_in_all_mappings() {
        let line = b"7f0000001000-7f0000003000 rw-s 00004000 00:17 1234                       /dev/shm/x";
        let other = b"7e0000001000-7e0000002000 rw-s 00005000 00:17 1234 /dev/shm/x (deleted)";
        let id = id_in(line, 0x7f00_0000_2010);
        assert!(id.is_some());
        assert_eq!(id_in(other, 0x7e00_0000_1010), id);
        assert_ne!(id_in(other, 0x7e00_0000_1020), id);
        assert_eq!(id_in(line, 0x7f00_0000_3000), None);
    }

    #[test]
    fn memory_of_this_process_has_an_id() {
        let memory = sys::map_memory(2 * sys::PAGE);
        assert_ne!(mapped_id(memory.addr()), memory.addr() as u64);
        sys::unmap(memory, 2 * sys::PAGE);
    }
}
