//! The function `syscall`, by which programs make any system call: most pass through, a few affect the tracer.
//!
//! Rust's locks, C++'s futures and semaphores wait and wake by `futex` through this function, and programs without
//! liburing use io_uring rings through it.

use std::ffi::{c_int, c_long};

use dlio_tracer::calls::call;
use dlio_tracer::calls::meaning::outcome;
use dlio_tracer::calls::processes;
use dlio_tracer::calls::uring::rings;
use dlio_tracer::calls::waits::{posted, waited_for_condition};
use dlio_tracer::known::wakers;
use dlio_tracer::ops::{Layer, Op};

/// Makes no event, and runs the C library's instructions except for six numbers: a process forked or cloned by this
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
        "lea rax, [rdi - {uring}]",
        "cmp rax, 2",
        "jbe {on_ring}",
        "jmp {bare}",
        prctl = const libc::SYS_prctl,
        seccomp = const libc::SYS_seccomp,
        futex = const libc::SYS_futex,
        // Then those for entering the kernel and for registering.
        uring = const libc::SYS_io_uring_setup,
        on_futex = sym futex,
        on_ring = sym uring,
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

/// Records the requests of an io_uring ring.
///
/// # Safety
/// As [`syscall`].
unsafe extern "C" fn uring(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    // SAFETY: the arguments are passed on unchanged.
    let next = || unsafe { bare_syscall(number, a, b, c, d, e, f) };
    let Some(call) = call::begin(Layer::Posix) else { return next() };
    if number == libc::SYS_io_uring_enter {
        return rings::enter(call, a as i32, d as u32, next, outcome);
    }
    let ret = next();
    let done = call.end();
    // SAFETY: the arguments of the call, which has returned.
    unsafe {
        match number {
            libc::SYS_io_uring_setup => {
                rings::created(done, a as u32, std::ptr::with_exposed_provenance(b), outcome(ret));
            }
            _ if ret >= 0 => rings::registered(a as i32, b as u32, c, d as u32, ret),
            _ => {}
        }
    }
    ret
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

/// Stands in for a `syscall` instruction of a program that enters the kernel for an io_uring ring, see [`crate::inline`]:
/// changes no register but those that the kernel changes, not even those for floating-point numbers.
///
/// # Safety
/// The registers contain the arguments of the kernel's call.
#[unsafe(naked)]
pub unsafe extern "C" fn enter_by_instruction() {
    std::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push r8",
        "push r9",
        "push r10",
        "push r12",
        "push r13",
        // The standard layout of these parts ends before this size; the header must be zero.
        "sub rsp, 2816",
        "and rsp, -64",
        "xor eax, eax",
        "mov qword ptr [rsp + 512], rax",
        "mov qword ptr [rsp + 520], rax",
        "mov qword ptr [rsp + 528], rax",
        "mov qword ptr [rsp + 536], rax",
        "mov qword ptr [rsp + 544], rax",
        "mov qword ptr [rsp + 552], rax",
        "mov qword ptr [rsp + 560], rax",
        "mov qword ptr [rsp + 568], rax",
        "mov eax, {parts}",
        "xor edx, edx",
        "xsave [rsp]",
        "mov rdx, qword ptr [rbp - 24]",
        "mov rcx, r10",
        "call {recorded}",
        "mov r12, rax",
        "mov eax, {parts}",
        "xor edx, edx",
        "xrstor [rsp]",
        "mov rax, r12",
        "lea rsp, [rbp - 64]",
        "pop r13",
        "pop r12",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "ret",
        // x87, SSE, AVX and the three parts of AVX-512.
        parts = const 0xe7,
        recorded = sym entered,
    )
}

/// # Safety
/// As the kernel's call.
unsafe extern "C" fn entered(fd: c_int, submit: u32, count: u32, flags: u32, argument: usize, size: usize) -> i64 {
    let next = || {
        let ret: i64;
        // SAFETY: the program's own arguments.
        unsafe {
            std::arch::asm!("syscall", inlateout("rax") libc::SYS_io_uring_enter => ret, in("rdi") fd as isize,
                in("rsi") submit as usize, in("rdx") count as usize, in("r10") flags as usize, in("r8") argument,
                in("r9") size, lateout("rcx") _, lateout("r11") _, options(nostack));
        }
        ret
    };
    let Some(call) = call::begin(Layer::Posix) else { return next() };
    rings::enter(call, fd, flags, next, |ret| ret)
}
