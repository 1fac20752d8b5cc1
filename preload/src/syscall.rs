//! The function `syscall`, by which programs make any system call: most pass through, a few affect the tracer.
//!
//! Rust's locks, C++'s futures and semaphores wait and wake by `futex` through this function.

use std::ffi::{c_int, c_long};

use dlio_tracer::calls::call;
use dlio_tracer::calls::meaning::outcome;
use dlio_tracer::calls::processes;
use dlio_tracer::calls::waits::{posted, waited_for_condition};
use dlio_tracer::known::wakers;
use dlio_tracer::ops::{Layer, Op};

/// Makes no event, and runs the C library's instructions except for three numbers: a process forked or cloned by this
/// function may return on another stack, or twice on one.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall(number: c_long) -> c_long {
    std::arch::naked_asm!(
        "cmp rdi, {prctl}",
        "je {confining}",
        "cmp rdi, {seccomp}",
        "je {confining}",
        "cmp rdi, {futex}",
        "je {on_futex}",
        "jmp {bare}",
        prctl = const libc::SYS_prctl,
        seccomp = const libc::SYS_seccomp,
        futex = const libc::SYS_futex,
        on_futex = sym futex,
        confining = sym confining_syscall,
        bare = sym bare_syscall,
    )
}

/// # Safety
/// As [`syscall`].
unsafe extern "C" fn confining_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the arguments are passed on unchanged.
    processes::Confines::by_call(number, a, b)
        .around(|| unsafe { bare_syscall(number, a, b, c, d, e, f) }, |ret| ret != 0)
}

/// Records a wait as an event, like one for a condition; a call that wakes notes the waker.
///
/// # Safety
/// As [`syscall`].
unsafe extern "C" fn futex(
    number: c_long,
    word: usize,
    operation: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the arguments are passed on unchanged.
    let next = || unsafe { bare_syscall(number, word, operation, c, d, e, f) };
    match operation as c_int & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            let Some(call) = call::begin(Layer::Wait) else { return next() };
            let waiting = wakers::wait(word);
            let ret = next();
            waited_for_condition(call.end(), Op::FUTEX_WAIT, waiting, outcome(ret));
            ret
        }
        libc::FUTEX_WAKE
        | libc::FUTEX_WAKE_BITSET
        | libc::FUTEX_WAKE_OP
        | libc::FUTEX_REQUEUE
        | libc::FUTEX_CMP_REQUEUE => {
            let is_awaited = wakers::post(word);
            let ret = next();
            if is_awaited {
                posted(Op::FUTEX_WAKE, word);
            }
            ret
        }
        _ => next(),
    }
}

/// # Safety
/// As [`syscall`].
#[unsafe(naked)]
unsafe extern "C" fn bare_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    std::arch::naked_asm!(
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, qword ptr [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "neg eax",
        "push rax",
        "call {errno}",
        "pop rcx",
        "mov dword ptr [rax], ecx",
        "mov rax, -1",
        "ret",
        errno = sym libc::__errno_location,
    )
}
