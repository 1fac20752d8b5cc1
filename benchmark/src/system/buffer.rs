//! Memory that the allocator does not provide: aligned for O_DIRECT, mapped from a file, or shared between processes.
//!
//! Apart from libc calls in this directory and the HDF5 library, this is the only `unsafe` code of the data path.

use std::alloc::{Layout, alloc, dealloc};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// The alignment that O_DIRECT requires of addresses, offsets and lengths: no device in use needs more than a page.
pub const ALIGNMENT: usize = 4096;

/// A growing buffer whose first byte is page-aligned. It contains the bytes of the last read.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the buffer owns its memory alone and lends it only through `&self` and `&mut self`.
unsafe impl Send for AlignedBuffer {}

impl Default for AlignedBuffer {
    fn default() -> AlignedBuffer {
        AlignedBuffer { start: NonNull::dangling(), capacity: 0 }
    }
}

impl AlignedBuffer {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGNMENT).expect("a buffer of a file's size fits the address space")
    }

    /// Returns at least `length` bytes, in whole pages.
    pub fn space(&mut self, length: usize) -> &mut [u8] {
        let wanted = length.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        if wanted > self.capacity {
            self.grow(wanted);
        }
        // SAFETY: `start` points to `capacity >= wanted` bytes that this buffer owns; they were zeroed when allocated,
        // so every byte is initialized; `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), wanted) }
    }

    fn grow(&mut self, wanted: usize) {
        let layout = AlignedBuffer::layout(wanted);
        // SAFETY: the layout is not empty, `space` rounds up to a page.
        let raw = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(raw) else { std::alloc::handle_alloc_error(layout) };
        // SAFETY: the allocation above is `wanted` bytes long and has no other owner.
        unsafe { start.as_ptr().write_bytes(0, wanted) };
        self.release();
        *self = AlignedBuffer { start, capacity: wanted };
    }

    fn release(&mut self) {
        if self.capacity > 0 {
            // SAFETY: allocated by `grow` with this very layout, and forgotten right after.
            unsafe { dealloc(self.start.as_ptr(), AlignedBuffer::layout(self.capacity)) };
            self.capacity = 0;
        }
    }

    pub fn bytes(&self, length: usize) -> &[u8] {
        assert!(length <= self.capacity, "more bytes asked for than were read");
        // SAFETY: inside the owned, initialized memory, as just checked; with no capacity the length is zero and the
        // dangling pointer is aligned and never read.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), length) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        self.release();
    }
}

/// A file mapped for reading. Before reading, check that the file is as long as the map: accessing a page beyond the
/// end of a truncated file kills the process, as in any program that maps files.
pub struct FileMap {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a private read-only mapping has no thread affinity and is unmapped once, by its owner.
unsafe impl Send for FileMap {}

impl FileMap {
    pub fn new(file: &File, length: usize) -> io::Result<FileMap> {
        if length == 0 {
            return Ok(FileMap { start: NonNull::dangling(), length });
        }
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing; the descriptor is open.
        let raw =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        match NonNull::new(raw.cast()) {
            Some(start) if raw != libc::MAP_FAILED => Ok(FileMap { start, length }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Copies a range of bytes, which makes the kernel fetch its pages.
    pub fn copy(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= self.length, "part of the map");
        // SAFETY: the source is inside the mapping, as just checked; the target is a separate slice. The copy uses raw
        // pointers because another process may write the file at the same time: a torn value is possible, but no
        // reference to changing memory is created.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), into.as_mut_ptr(), into.len()) };
    }
}

/// Returns how many pages of a file are in memory, and how many it has. Maps the file without the C library, because a
/// trace counts any other mapping as input that the workload reads unseen.
pub fn resident_pages(file: &impl AsRawFd, length: usize) -> io::Result<(u64, u64)> {
    let pages = length.div_ceil(ALIGNMENT);
    let mut resident = vec![0u8; pages];
    if pages == 0 {
        return Ok((0, 0));
    }
    let (protection, sharing) = (libc::PROT_READ, libc::MAP_SHARED);
    let (anywhere, from) = (0usize, 0usize);
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing, and the descriptor is open.
    let start = unsafe { libc::syscall(libc::SYS_mmap, anywhere, length, protection, sharing, file.as_raw_fd(), from) };
    if start == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range is that mapping, the vector has one byte per page; it is not used afterwards.
    let asked = unsafe {
        let asked = match libc::mincore(start as *mut libc::c_void, length, resident.as_mut_ptr()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        libc::syscall(libc::SYS_munmap, start, length);
        asked
    };
    asked.map(|()| (resident.iter().filter(|page| **page & 1 == 1).count() as u64, pages as u64))
}

impl Drop for FileMap {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: mapped by `new` with this length; nothing borrowed from it can outlive `self`.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

/// Anonymous memory that remains shared after a fork: workers put the arrays for the trainer here, as PyTorch's do in
/// /dev/shm.
pub struct SharedSlots {
    start: NonNull<u8>,
    slot: usize,
    count: usize,
}

// SAFETY: the worker that has a slot's credit writes it through `&mut [u8]`, and nothing reads it at that time; the
// mapping itself has no thread affinity.
unsafe impl Send for SharedSlots {}
// SAFETY: see above; `fill` takes the slot's number, and the credit protocol gives a slot to one writer at a time.
unsafe impl Sync for SharedSlots {}

impl SharedSlots {
    pub fn new(slot: usize, count: usize) -> io::Result<SharedSlots> {
        let length = slot.checked_mul(count).ok_or(io::ErrorKind::OutOfMemory)?;
        if length == 0 {
            return Ok(SharedSlots { start: NonNull::dangling(), slot: 0, count: 0 });
        }
        // SAFETY: a new anonymous mapping overlaps nothing.
        let raw = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
        };
        match NonNull::new(raw.cast()) {
            Some(start) if raw != libc::MAP_FAILED => Ok(SharedSlots { start, slot, count }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Copies as much of `bytes` as fits into a slot, starting at `offset`.
    pub fn fill(&self, slot: usize, offset: usize, bytes: &[u8]) {
        if self.slot == 0 || offset >= self.slot {
            return;
        }
        let length = bytes.len().min(self.slot - offset);
        let start = (slot % self.count) * self.slot + offset;
        // SAFETY: slot and offset are inside the mapping by the two reductions above; the source is ordinary memory of
        // this process and does not overlap the mapping.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(start), length) };
    }
}

impl Drop for SharedSlots {
    fn drop(&mut self) {
        if self.slot > 0 {
            // SAFETY: mapped by `new` with this length; `fill` keeps no pointer.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.slot * self.count) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_page_aligned_and_keeps_growing() {
        let mut buffer = AlignedBuffer::default();
        for length in [1, ALIGNMENT, ALIGNMENT + 1, 10 * ALIGNMENT] {
            let space = buffer.space(length);
            assert!(space.len() >= length && space.as_ptr().addr().is_multiple_of(ALIGNMENT));
            space[length - 1] = 7;
        }
        assert_eq!(buffer.bytes(10 * ALIGNMENT).last(), Some(&7));
    }

    #[test]
    fn slots_truncate_to_their_size() {
        let slots = SharedSlots::new(8, 2).unwrap();
        slots.fill(3, 4, &[1; 100]);
        slots.fill(0, 9, &[1; 100]);
        assert_eq!(SharedSlots::new(0, 5).unwrap().count, 0);
    }
}
