//! A half of a ring: slots that a thread takes with one instruction and then fills.
//!
//! Drawn in `dlio_schemas::native::ring`. A signal handler cannot split that instruction, so it takes another slot. A
//! slot is complete once its word is written, which is done last.

use std::sync::atomic::{AtomicU32, Ordering::*, compiler_fence};

use dlio_schemas::native::columns::EVENTS_MAX;
use dlio_schemas::native::ring::HALF_HEADER;
use dlio_schemas::record::Record;

/// One half of a segment, in shared memory; the half of a small segment ends after fewer records.
#[repr(C)]
pub struct Half {
    /// Number of slots taken; with [`dlio_schemas::native::ring::HALF_SEALED`] no more can be taken.
    pub next: u32,
    pub sequence: u32,
    /// Number of records that are in the table of counts, or counted as lost.
    pub counted: AtomicU32,
    pad: [u32; 13],
    pub records: [Record; EVENTS_MAX],
}

const _: () = assert!(std::mem::offset_of!(Half, records) == HALF_HEADER);

/// Adds to a number and returns its previous value. This is one instruction, so that a signal handler on this thread
/// gets another number; other threads never get here, so it needs no bus lock.
///
/// # Safety
/// `number` is live, aligned, and changed only by the calling thread.
#[inline(always)]
pub unsafe fn take(number: *mut u64, count: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut before = count;
        // SAFETY: by the contract above.
        unsafe { std::arch::asm!("xadd qword ptr [{0}], {1}", in(reg) number, inout(reg) before, options(nostack)) };
        before
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: by the contract above.
    unsafe {
        std::sync::atomic::AtomicU64::from_ptr(number).fetch_add(count, Relaxed)
    }
}

/// Takes a slot number with one instruction, like [`take`].
///
/// # Safety
/// `next` is the counter of a live half of the calling thread.
#[inline(always)]
pub unsafe fn take_slot(next: *mut u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut slot = 1u32;
        // SAFETY: the caller passes the counter of a live half.
        unsafe { std::arch::asm!("xadd dword ptr [{0}], {1:e}", in(reg) next, inout(reg) slot, options(nostack)) };
        slot
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as above; the counter is aligned.
    unsafe {
        AtomicU32::from_ptr(next).fetch_add(1, Relaxed)
    }
}

/// Fills a slot; its word is written last.
///
/// # Safety
/// `half` is mapped, and the caller took `slot` below [`EVENTS_MAX`] in it.
#[inline(always)]
pub unsafe fn fill(half: *mut Half, slot: u32, record: &Record) {
    // SAFETY: the caller took `slot` below EVENTS_MAX in this half.
    unsafe {
        let place = (&raw mut (*half).records).cast::<Record>().add(slot as usize);
        (*place).start = record.start;
        (*place).file = record.file;
        (*place).fd = record.fd;
        (*place).a = record.a;
        (*place).b = record.b;
        (*place).ret = record.ret;
        // The record is now complete for a signal handler and for a reader after a kill.
        compiler_fence(Release);
        (*place).word = record.word;
    }
}
