//! The per-thread state that every call needs: one cache line of initial-exec thread-local storage, followed by a
//! line that waits need and one that calls of libraries need.
//!
//! `thread_local!` costs 5 ns more per call, because a library's ordinary thread-local storage is accessed through a
//! function. The line is all zeros in a new thread, and zero means "nothing yet".

use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::kernel::sys;
use crate::thread::evidence::Evidence;
use crate::thread::thread_state::Thread;

/// The cache lines. Plain fields: only their own thread accesses them.
#[repr(C, align(64))]
pub struct Local {
    /// The thread's recording state, or null.
    pub thread: *mut Thread,
    /// Set between vfork and the child's exec: the child runs on the parent's memory and must leave no trace in it.
    pub passing: i32,
    /// Number of open spans on this thread.
    pub depth: u32,
    /// Set inside the tracer's slow path; a signal handler that interrupts it takes another path.
    pub busy: u32,
    /// Set on the stack of [`crate::thread::stack`], which is not entered twice.
    pub on_own_stack: u32,
    /// Memory of that stack, or null.
    pub scratch: *mut u8,
    /// Hooks this thread is inside of, two bits each, the innermost lowest: see [`crate::calls::call::Inside`].
    pub inside: u32,
    /// Number of names being added by this thread, including handlers that interrupted it: see
    /// [`crate::naming::names`].
    pub naming: u32,
    /// The thread id, once it was queried: see [`own_id`].
    id: u32,
    /// Set inside [`crate::thread::stack`], where signals are blocked.
    pub holds_signals: u32,
    /// The program's own signal mask, while all signals are blocked.
    pub held_before: u64,
    /// The descriptor, plus one, of the stream that is being closed or was just opened, and its file; zero for none.
    /// Known only if the C library is patched: see [`crate::calls::call::Inside`].
    pub changing: i32,
    pub changing_file: u32,
    /// The second line.
    pub evidence: Evidence,
    /// The third line. Set inside a recorded call of MPI, whose own calls of MPI are not recorded.
    pub in_mpi: u32,
    /// The io_uring ring, in a few bits, for which this thread is inside a function that enters the kernel.
    pub in_ring: u32,
    /// Set inside a recorded call that waits for a device: the library may make it by another one.
    pub in_device: u32,
    /// The ranges of NVTX that the thread is in, or null: see [`ranges_or_new`].
    ranges: *mut u8,
}

const _: () = assert!(size_of::<Local>() == 192 && std::mem::offset_of!(Local, evidence) == 64);

std::arch::global_asm!(
    ".section .tbss.dlio_local,\"awT\",@nobits",
    ".hidden dlio_local",
    ".globl dlio_local",
    ".type dlio_local, @object",
    ".size dlio_local, 192",
    ".balign 64",
    "dlio_local:",
    ".zero 192",
    ".text",
);

/// Returns this thread's line; never null.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn local() -> *mut Local {
    let line: *mut Local;
    // SAFETY: reads the thread pointer and the line's offset from it, which the loader has filled in.
    unsafe {
        std::arch::asm!("mov {0}, qword ptr [rip + dlio_local@GOTTPOFF]", "add {0}, qword ptr fs:[0]",
            out(reg) line, options(pure, readonly, nostack));
    }
    line
}

/// Returns this thread's line; never null.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn local() -> *mut Local {
    let line: *mut Local;
    // SAFETY: reads the thread pointer and the line's offset from it, which the loader has filled in.
    unsafe {
        std::arch::asm!("mrs {0}, tpidr_el0", "adrp {1}, :gottprel:dlio_local",
            "ldr {1}, [{1}, :gottprel_lo12:dlio_local]", "add {0}, {0}, {1}",
            out(reg) line, out(reg) _, options(pure, readonly, nostack));
    }
    line
}

/// Returns a number that distinguishes this thread from others of its process, without a system call each time. A
/// child created directly by the kernel's call has the number of the thread that created it, which is sufficient
/// here; query the kernel for a number that is recorded.
#[inline]
pub fn own_id() -> u32 {
    let line = local();
    // SAFETY: the line is this thread's own.
    unsafe {
        if (*line).id == 0 {
            (*line).id = sys::thread_id();
        }
        (*line).id
    }
}

/// The size of the memory for a thread's ranges of NVTX.
pub const RANGES_SIZE: usize = 2 * sys::PAGE;

/// Returns the memory for this thread's ranges of NVTX; null if it has none yet.
pub fn ranges() -> *mut u8 {
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).ranges }
}

/// Returns the memory for this thread's ranges of NVTX, zeroed at first; null if there is none.
pub fn ranges_or_new() -> *mut u8 {
    let line = local();
    // SAFETY: the line is this thread's own.
    unsafe {
        if (*line).ranges.is_null() {
            (*line).ranges = sys::map_memory(RANGES_SIZE);
        }
        (*line).ranges
    }
}

/// Releases that memory when the thread ends.
pub fn release_ranges() {
    let line = local();
    // SAFETY: as above; the memory is used during calls of this thread only.
    let ranges = unsafe { std::mem::replace(&mut (*line).ranges, std::ptr::null_mut()) };
    if !ranges.is_null() {
        sys::unmap(ranges, RANGES_SIZE);
    }
}

/// The line of the process's first thread.
static FIRST: AtomicPtr<Local> = AtomicPtr::new(std::ptr::null_mut());

/// Notes that the caller is the process's first thread.
pub fn note_first_thread() {
    FIRST.store(local(), Relaxed);
}

/// Notes the process id, which is also the id of its first thread and saves a query.
pub fn note_process(pid: u32) {
    let line = local();
    // SAFETY: the line is this thread's own.
    unsafe {
        if line == FIRST.load(Relaxed) && (*line).id == 0 {
            (*line).id = pid;
        }
    }
}

/// Forgets the id in a forked child, whose thread has another one.
pub fn forget_own_id() {
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).id = 0 };
}
