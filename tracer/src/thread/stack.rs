//! The tracer's own stack, for rare work that needs space: the caller may be a thread with the smallest possible
//! stack, or a signal handler on eight kilobytes.
//!
//! While it is in use, signals are blocked. Otherwise a handler would run on it, and a garbage collector that stops
//! threads by signals would search an unknown stack for their variables.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use crate::kernel::{sys, thread_end, valgrind};
use crate::thread::local::{Local, local};

/// Converting a finished trace needs the most; pages that are not needed are never touched.
const SIZE: usize = 256 << 10;

/// The stack of the first thread that needs one, usually the only one: available without a system call.
#[repr(align(4096))]
struct FirstStack(UnsafeCell<[MaybeUninit<u8>; SIZE]>);
// SAFETY: used only by the thread that has taken it.
unsafe impl Sync for FirstStack {}
crate::large! {
    static FIRST: FirstStack = FirstStack(UnsafeCell::new([MaybeUninit::uninit(); SIZE]));
}
static FIRST_IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Runs `work` on the large stack.
pub fn on_large_stack<F: FnOnce() -> R, R>(work: F) -> R {
    let line = local();
    // SAFETY: the line is this thread's own, and signals are blocked while it marks the stack as used.
    unsafe {
        if (*line).on_own_stack != 0 {
            return work();
        }
        while_held(line, || {
            let stack = scratch_of(line);
            if stack.is_null() {
                return work();
            }
            (*line).on_own_stack = 1;
            let mut task = Task { work: Some(work), result: None };
            call_on(stack.add(SIZE), run::<F, R>, (&raw mut task).cast());
            (*line).on_own_stack = 0;
            task.result.expect("the work has been done")
        })
    }
}

/// Runs `work` while signals are blocked.
///
/// # Safety
/// `line` is the caller's own.
unsafe fn while_held<R>(line: *mut Local, work: impl FnOnce() -> R) -> R {
    // SAFETY: the line belongs to the calling thread, and a handler that runs before signals are blocked leaves it
    // unchanged.
    unsafe {
        if (*line).holds_signals != 0 {
            return work();
        }
        (*line).held_before = sys::hold_signals();
        (*line).holds_signals = 1;
        let result = work();
        (*line).holds_signals = 0;
        sys::release_signals((*line).held_before);
        result
    }
}

/// Space left to the caller near the start of the kernel's stack: enough for one-time symbol lookups and for the
/// start of the tracer.
const NEAR: usize = 32 << 10;

/// The start of the first stack; zero before it was determined.
static BEGINNING: AtomicUsize = AtomicUsize::new(0);

/// Runs `work`, which needs a few kilobytes of stack. If this is the first stack and little of it is in use, `work` runs here.
/// Otherwise, it runs on the large stack, with signals blocked.
pub fn with_stack_space<F: FnOnce() -> R, R>(work: F) -> R {
    if is_near_beginning() { work() } else { on_large_stack(work) }
}

/// Runs `work`, which needs some kilobytes and must not be interrupted by a signal, here or on the large stack. Pages
/// of the first stack that were used at the start of a process do not have to be mapped again.
pub fn with_signals_blocked<F: FnOnce() -> R, R>(work: F) -> R {
    if !is_near_beginning() {
        return on_large_stack(work);
    }
    // SAFETY: the line is this thread's own.
    unsafe { while_held(local(), work) }
}

#[inline(always)]
fn is_near_beginning() -> bool {
    let marker = 0u8;
    let here = (&raw const marker).addr();
    beginning().checked_sub(here).is_some_and(|used| used < NEAR)
}

fn beginning() -> usize {
    if BEGINNING.load(Relaxed) == 0 {
        // SAFETY: reads the auxiliary vector: the kernel placed those bytes above everything else.
        BEGINNING.store(unsafe { libc::getauxval(libc::AT_RANDOM) } as usize, Relaxed);
    }
    BEGINNING.load(Relaxed)
}

/// Returns memory of this thread that is used only inside [`on_large_stack`]; null on failure.
pub fn scratch() -> (*mut u8, usize) {
    // SAFETY: the line is this thread's own.
    (unsafe { scratch_of(local()) }, SIZE)
}

/// Releases the stack, because the thread ends.
pub fn give_back() {
    let line = local();
    // SAFETY: as above; nothing runs on the stack now.
    unsafe {
        let stack = (*line).scratch;
        if stack.is_null() || (*line).on_own_stack != 0 {
            return;
        }
        (*line).scratch = std::ptr::null_mut();
        if stack == FIRST.0.get().cast() {
            FIRST_IS_TAKEN.store(false, Release);
        } else {
            sys::unmap(stack, SIZE);
        }
    }
}

/// Returns the memory of the thread's stack, mapping it if necessary.
///
/// # Safety
/// `line` is the caller's own.
unsafe fn scratch_of(line: *mut Local) -> *mut u8 {
    // SAFETY: the line belongs to the calling thread.
    unsafe {
        if (*line).scratch.is_null() {
            let is_first = !FIRST_IS_TAKEN.swap(true, AcqRel);
            (*line).scratch = if is_first { FIRST.0.get().cast() } else { sys::map_memory(SIZE) };
            valgrind::register_stack((*line).scratch, SIZE);
            thread_end::watch();
        }
        (*line).scratch
    }
}

/// Makes a call that may raise a signal in this thread when it fails with `error`, and discards that signal.
pub fn without_signal(signal: i32, error: i32, call: impl FnOnce() -> isize) -> isize {
    let line = local();
    // SAFETY: the line is this thread's own.
    let (is_held, before) = unsafe { ((*line).holds_signals != 0, (*line).held_before) };
    // A signal that the program itself blocks may have been pending before.
    if !is_held || before & 1 << (signal - 1) != 0 {
        return sys::without_signal(signal, call);
    }
    let result = call();
    if result == -error as isize {
        sys::take_signal(signal);
    }
    result
}

struct Task<F, R> {
    work: Option<F>,
    result: Option<R>,
}

extern "C" fn run<F: FnOnce() -> R, R>(task: *mut core::ffi::c_void) {
    // SAFETY: called only by `on_large_stack`, with a task of these types that outlives the call.
    let task = unsafe { &mut *task.cast::<Task<F, R>>() };
    task.result = task.work.take().map(|work| work());
}

/// Calls a function on another stack and returns.
///
/// # Safety
/// `top` is the end of memory that is not used by anything else, aligned to 16; `data` is the argument that
/// `function` expects.
#[cfg(target_arch = "x86_64")]
unsafe fn call_on(top: *mut u8, function: extern "C" fn(*mut core::ffi::c_void), data: *mut core::ffi::c_void) {
    // SAFETY: r12 survives the call, so the old stack is restored; all registers that a call may change are declared.
    unsafe {
        std::arch::asm!("mov r12, rsp", "mov rsp, {top}", "call {function}", "mov rsp, r12",
            top = in(reg) top, function = in(reg) function, in("rdi") data, out("r12") _, clobber_abi("C"));
    }
}

/// Calls a function on another stack and returns.
///
/// # Safety
/// `top` is the end of memory that is not used by anything else, aligned to 16; `data` is the argument that
/// `function` expects.
#[cfg(target_arch = "aarch64")]
unsafe fn call_on(top: *mut u8, function: extern "C" fn(*mut core::ffi::c_void), data: *mut core::ffi::c_void) {
    // SAFETY: x20 survives the call, so the old stack is restored; all registers that a call may change are declared.
    unsafe {
        std::arch::asm!("mov x20, sp", "mov sp, {top}", "blr {function}", "mov sp, x20",
            top = in(reg) top, function = in(reg) function, in("x0") data, out("x20") _, clobber_abi("C"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_the_large_stack_may_nest() {
        let (start, size) = scratch();
        let (sum, place) = on_large_stack(|| {
            let marker = std::hint::black_box(1u64);
            (on_large_stack(|| marker + 41), &raw const marker as usize)
        });
        assert_eq!(sum, 42);
        assert!((start as usize..start as usize + size).contains(&place));
        give_back();
    }
}
