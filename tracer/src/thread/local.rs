//! The state of one thread that every call needs: one cache line of initial-exec thread-local storage, and behind it one that
//! waits need.
//!
//! `thread_local!` costs 5 ns more a call, because a library's ordinary thread-local storage is found through a function.
//! The line is all zeros in a new thread, and zero means "nothing yet".

use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::kernel::sys;
use crate::thread::evidence::Evidence;
use crate::thread::thread_state::Thread;

/// The lines. Plain fields: only its own thread touches them.
#[repr(C, align(64))]
pub struct Local {
    /// The thread's recording state, or null.
    pub thread: *mut Thread,
    /// Set between vfork and the child's exec: the child runs on the parent's memory and must leave no trace in it.
    pub passing: i32,
    /// Spans open on this thread.
    pub depth: u32,
    /// Inside the tracer's slow path; a signal handler that comes in then finds its way around.
    pub busy: u32,
    /// On the stack of [`crate::thread::stack`], which is not entered twice.
    pub on_own_stack: u32,
    /// Memory of that stack, or null.
    pub scratch: *mut u8,
    /// Hooks this thread is inside of, two bits each, the innermost lowest: see [`crate::calls::call::Inside`].
    pub inside: u32,
    /// Names this thread is adding, itself and in handlers that interrupted it: see [`crate::naming::names`].
    pub naming: u32,
    /// The thread's number, once it was asked for: see [`own_id`].
    id: u32,
    /// Inside of [`crate::thread::stack`], where signals wait.
    pub holds_signals: u32,
    /// Signals the program itself holds back, while all are.
    pub held_before: u64,
    /// The descriptor, plus one, of the stream that is being closed or was just opened, and its file; zero is none. Known only
    /// where the C library is patched: see [`crate::calls::call::Inside`].
    pub changing: i32,
    pub changing_file: u32,
    /// The second line.
    pub evidence: Evidence,
}

const _: () = assert!(size_of::<Local>() == 128 && std::mem::offset_of!(Local, evidence) == 64);

std::arch::global_asm!(
    ".section .tbss.dlio_local,\"awT\",@nobits",
    ".hidden dlio_local",
    ".globl dlio_local",
    ".type dlio_local, @object",
    ".size dlio_local, 128",
    ".balign 64",
    "dlio_local:",
    ".zero 128",
    ".text",
);

/// This thread's line; never null.
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

/// This thread's line; never null.
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

/// A number that tells this thread from the others of its process, without asking the kernel each time. A child made by the
/// kernel's call alone has that of the thread that made it, which serves as well: for what is written down ask the kernel.
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

/// The line of the process's first thread.
static FIRST: AtomicPtr<Local> = AtomicPtr::new(std::ptr::null_mut());

/// The caller is the process's first thread.
pub fn note_first_thread() {
    FIRST.store(local(), Relaxed);
}

/// The number of the process, which is that of its first thread too: one thing less to ask for.
pub fn note_process(pid: u32) {
    let line = local();
    // SAFETY: the line is this thread's own.
    unsafe {
        if line == FIRST.load(Relaxed) && (*line).id == 0 {
            (*line).id = pid;
        }
    }
}

/// In a forked child the thread has another number.
pub fn forget_own_id() {
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).id = 0 };
}
