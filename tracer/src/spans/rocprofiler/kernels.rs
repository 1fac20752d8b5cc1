//! The names of kernels by their numbers. The library numbers the kernels in all code that it loads, although most of them never
//! run, and keeps their names until it is unloaded.

use std::ffi::c_char;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use crate::kernel::sys;

/// A part of the table, which is in memory only once a kernel has a number in it.
const PART: usize = 4096;
type Part = [AtomicPtr<c_char>; PART];

/// More kernels than the libraries of ROCm contain; later ones have no name.
const PARTS: usize = 512;

static TABLE: [AtomicPtr<Part>; PARTS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; PARTS];

/// Keeps the name of a kernel.
pub fn put(number: u64, name: *const c_char) {
    if let Some(place) = place(number, true) {
        place.store(name.cast_mut(), Release);
    }
}

/// Returns the name of a kernel; null if it has none.
pub fn get(number: u64) -> *const c_char {
    place(number, false).map_or(std::ptr::null(), |place| place.load(Acquire))
}

fn place(number: u64, makes: bool) -> Option<&'static AtomicPtr<c_char>> {
    let number = usize::try_from(number).ok()?;
    let part = TABLE.get(number / PART)?;
    let mut memory = part.load(Acquire);
    if memory.is_null() && makes {
        let new: *mut Part = sys::map_memory(size_of::<Part>()).cast();
        memory = match part.compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire) {
            Ok(_) => new,
            Err(other) => {
                if !new.is_null() {
                    sys::unmap(new.cast(), size_of::<Part>());
                }
                other
            }
        };
    }
    // SAFETY: zeroed memory of this size, aligned to pages, which is never freed once it is in the table.
    unsafe { memory.as_ref() }.map(|part| &part[number % PART])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_by_number_in_every_part_and_not_beyond() {
        let names = [c"first", c"second", c"third"];
        let numbers = [1, PART as u64 + 1, (PART * PARTS - 1) as u64];
        assert!(numbers.iter().all(|number| get(*number).is_null()));
        for (number, name) in numbers.iter().zip(names) {
            put(*number, name.as_ptr());
            assert_eq!(get(*number), name.as_ptr());
        }
        put(u64::MAX, names[0].as_ptr());
        put((PART * PARTS) as u64, names[0].as_ptr());
        assert!(get(u64::MAX).is_null() && get((PART * PARTS) as u64).is_null() && get(2).is_null());
    }
}
