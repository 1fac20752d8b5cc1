//! A stack of the tracer's own, for what it seldom does and what takes room: the caller may be a thread with the smallest
//! stack there is, or a signal handler on eight kilobytes.
//!
//! While it is in use signals wait. A handler would run on it otherwise, and a collector of garbage that stops threads by
//! signals would look for their variables on a stack it does not know.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use crate::kernel::{sys, thread_end, valgrind};
use crate::thread::local::{Local, local};

/// Converting a finished trace takes the most; pages that are not needed are never touched.
const SIZE: usize = 256 << 10;

/// The stack of the first thread that needs one, most often the only one: there without a system call.
#[repr(align(4096))]
struct First(UnsafeCell<[MaybeUninit<u8>; SIZE]>);
// SAFETY: used by the thread alone that has taken it.
unsafe impl Sync for First {}
crate::large! {
    static FIRST: First = First(UnsafeCell::new([MaybeUninit::uninit(); SIZE]));
}
static FIRST_IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Runs `work` with room to spare.
pub fn with_room<F: FnOnce() -> R, R>(work: F) -> R {
    let line = local();
    // SAFETY: the line is this thread's own, and signals are held back while it says that the stack is in use.
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

/// Runs `work` while signals are held back.
///
/// # Safety
/// `line` is the caller's own.
unsafe fn while_held<R>(line: *mut Local, work: impl FnOnce() -> R) -> R {
    // SAFETY: the caller's line is its thread's own, and a handler that comes in before signals are held back leaves it as it
    // was.
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

/// What is left to the caller near the beginning of the stack that the kernel made: what is looked up there once a function
/// fits in, and what starts the tracer does.
const NEAR: usize = 32 << 10;

/// Where the first stack begins; zero before it was asked for.
static BEGINNING: AtomicUsize = AtomicUsize::new(0);

/// Runs `work`, which needs some kilobytes, here if this is the first stack and little of it is in use; else with room to
/// spare. Signals are held back only there.
pub fn with_some_room<F: FnOnce() -> R, R>(work: F) -> R {
    if is_near_beginning() { work() } else { with_room(work) }
}

/// Runs `work`, which needs some kilobytes and no signal in between, here or with room to spare as above. What the start of a
/// process has used of the first stack the kernel need not find once more.
pub fn undisturbed<F: FnOnce() -> R, R>(work: F) -> R {
    if !is_near_beginning() {
        return with_room(work);
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
        // SAFETY: asks what the kernel told this process at its start: it put those bytes above everything else.
        BEGINNING.store(unsafe { libc::getauxval(libc::AT_RANDOM) } as usize, Relaxed);
    }
    BEGINNING.load(Relaxed)
}

/// Memory of this thread that nobody uses outside [`with_room`]; null where there is none.
pub fn scratch() -> (*mut u8, usize) {
    // SAFETY: the line is this thread's own.
    (unsafe { scratch_of(local()) }, SIZE)
}

/// The thread ends.
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

/// # Safety
/// `line` is the caller's own.
unsafe fn scratch_of(line: *mut Local) -> *mut u8 {
    // SAFETY: the caller's line is its thread's own.
    unsafe {
        if (*line).scratch.is_null() {
            let is_first = !FIRST_IS_TAKEN.swap(true, AcqRel);
            (*line).scratch = if is_first { FIRST.0.get().cast() } else { sys::map_memory(SIZE) };
            valgrind::tell_of_stack((*line).scratch, SIZE);
            thread_end::watch();
        }
        (*line).scratch
    }
}

/// Makes a call that may raise a signal in this thread when it fails with an error, and takes that signal away unseen.
pub fn without_signal(signal: i32, error: i32, call: impl FnOnce() -> isize) -> isize {
    let line = local();
    // SAFETY: the line is this thread's own.
    let (is_held, before) = unsafe { ((*line).holds_signals != 0, (*line).held_before) };
    // One that the program holds back itself may have been waiting before.
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
    // SAFETY: called by `with_room` alone, with a task of these types that outlives the call.
    let task = unsafe { &mut *task.cast::<Task<F, R>>() };
    task.result = task.work.take().map(|work| work());
}

/// Calls a function on another stack and comes back.
///
/// # Safety
/// `top` is the end of memory that nobody else uses, aligned to 16; `data` is what `function` expects.
#[cfg(target_arch = "x86_64")]
unsafe fn call_on(top: *mut u8, function: extern "C" fn(*mut core::ffi::c_void), data: *mut core::ffi::c_void) {
    // SAFETY: r12 survives the call, so the old stack is found again; everything a call may change is declared.
    unsafe {
        std::arch::asm!("mov r12, rsp", "mov rsp, {top}", "call {function}", "mov rsp, r12",
            top = in(reg) top, function = in(reg) function, in("rdi") data, out("r12") _, clobber_abi("C"));
    }
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn call_on(top: *mut u8, function: extern "C" fn(*mut core::ffi::c_void), data: *mut core::ffi::c_void) {
    // SAFETY: x20 survives the call, so the old stack is found again; everything a call may change is declared.
    unsafe {
        std::arch::asm!("mov x20, sp", "mov sp, {top}", "blr {function}", "mov sp, x20",
            top = in(reg) top, function = in(reg) function, in("x0") data, out("x20") _, clobber_abi("C"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_the_own_stack_returns_and_may_nest() {
        let (start, size) = scratch();
        let (sum, place) = with_room(|| {
            let marker = std::hint::black_box(1u64);
            (with_room(|| marker + 41), &raw const marker as usize)
        });
        assert_eq!(sum, 42);
        assert!((start as usize..start as usize + size).contains(&place));
        give_back();
    }
}
