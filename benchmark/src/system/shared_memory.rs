//! Numbers in memory that several processes share.

use crate::system::file_calls::memory_file;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Numbers that several processes see and change, zero at first.
pub struct SharedNumbers {
    start: *const AtomicU64,
    count: usize,
}

// SAFETY: the pointer is to a mapping that lives as long as the value, and atomics may be used from any thread.
unsafe impl Sync for SharedNumbers {}

// SAFETY: as above; the mapping belongs to no thread.
unsafe impl Send for SharedNumbers {}

impl SharedNumbers {
    /// Creates numbers for this process and its forks.
    pub fn new(count: usize) -> io::Result<SharedNumbers> {
        SharedNumbers::mapped(count, libc::MAP_ANONYMOUS, -1)
    }

    /// Creates numbers in an unnamed file, which other processes open as `/proc/PROCESS/fd/DESCRIPTOR`.
    pub fn in_memory_file(count: usize) -> io::Result<(SharedNumbers, File)> {
        let file = memory_file(c"dlio-numbers")?;
        file.set_len((count * size_of::<AtomicU64>()) as u64)?;
        Ok((SharedNumbers::mapped(count, 0, file.as_raw_fd())?, file))
    }

    /// Opens the numbers of another process.
    pub fn of_file(count: usize, path: &Path) -> io::Result<SharedNumbers> {
        let file = File::options().read(true).write(true).open(path)?;
        // Memory beyond the end of the file must not be accessed.
        if file.metadata()?.len() < (count * size_of::<AtomicU64>()) as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        SharedNumbers::mapped(count, 0, file.as_raw_fd())
    }

    fn mapped(count: usize, kind: libc::c_int, descriptor: libc::c_int) -> io::Result<SharedNumbers> {
        // SAFETY: a new mapping overlaps nothing. Its content is zeroes, or a file that is long enough and known only
        // to ranks of this run, which change it as atomics. Any bytes are valid atomics.
        let raw = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let shared = libc::MAP_SHARED | kind;
            libc::mmap(std::ptr::null_mut(), count * size_of::<AtomicU64>(), access, shared, descriptor, 0)
        };
        if raw == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(SharedNumbers { start: raw.cast(), count })
        }
    }

    /// Sleeps while a number equals `value`, until another process wakes the sleepers, the limit passes, or a signal
    /// arrives.
    pub fn sleep_on(&self, place: usize, value: u64, limit: Duration) {
        let time = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
        };
        // SAFETY: the kernel reads the low half of the number, which lives as long as the mapping, and the one timespec.
        unsafe { libc::syscall(libc::SYS_futex, self.low_half(place), libc::FUTEX_WAIT, value as u32, &time) };
    }

    /// Wakes all processes that sleep on a number.
    pub fn wake(&self, place: usize) {
        // SAFETY: an address inside the mapping, which the kernel only looks up.
        unsafe { libc::syscall(libc::SYS_futex, self.low_half(place), libc::FUTEX_WAKE, libc::c_int::MAX) };
    }

    /// Returns the four bytes of a number that change first: the kernel sleeps on four bytes.
    fn low_half(&self, place: usize) -> *const u32 {
        let number = self.at(place).as_ptr().cast::<u32>();
        if cfg!(target_endian = "big") { number.wrapping_add(1) } else { number }
    }

    pub fn at(&self, place: usize) -> &AtomicU64 {
        assert!(place < self.count, "one of the numbers");
        // SAFETY: inside the mapping, as just checked, which is alive and aligned to a page.
        unsafe { &*self.start.add(place) }
    }
}

impl Drop for SharedNumbers {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; no reference outlives a borrow of this value.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.count * size_of::<AtomicU64>()) };
    }
}
