//! The files that a program registers with a ring: requests name them by an index instead of a descriptor.

use crate::kernel::sys;
use crate::known::number;

/// Maximum number of files per ring. Requests on additional files are recorded without a file.
const FILES: usize = 1 << 16;

/// File numbers by index.
pub struct Files {
    table: *mut u32,
    length: usize,
}

impl Files {
    pub const NONE: Files = Files { table: std::ptr::null_mut(), length: 0 };

    pub fn new(count: u32) -> Files {
        let length = (count as usize).min(FILES);
        let table: *mut u32 = if length == 0 { std::ptr::null_mut() } else { sys::map_memory(4 * length).cast() };
        Files { table, length: if table.is_null() { 0 } else { length } }
    }

    pub fn release(&mut self) {
        if self.length > 0 {
            sys::unmap(self.table.cast(), 4 * self.length);
        }
        *self = Files::NONE;
    }

    fn all(&mut self) -> &mut [u32] {
        // SAFETY: the mapping has this length, and zeroed memory is a value.
        if self.length == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(self.table, self.length) } }
    }

    pub fn set(&mut self, index: u32, file: u32) {
        if let Some(slot) = self.all().get_mut(index as usize) {
            *slot = file;
        }
    }

    pub fn get(&mut self, index: u32) -> u32 {
        self.all().get(index as usize).copied().unwrap_or(number::NONE)
    }

    /// Forgets the numbers, which are no longer valid.
    pub fn forget(&mut self) {
        self.all().fill(number::NONE);
    }
}
