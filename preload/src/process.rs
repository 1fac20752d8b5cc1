//! Calls that create, replace and end processes, and those that close descriptors.
//!
//! Most are written out, because their effect on the process is more than an event.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicI32, Ordering::*};

use dlio_tracer::calls::call;
use dlio_tracer::calls::meaning::*;
use dlio_tracer::calls::processes;
use dlio_tracer::known::{descriptors, folders, number};
use dlio_tracer::life::environment::{self, Starter};
use dlio_tracer::life::finish::Ending;
use dlio_tracer::life::{lifecycle, ptrace_request};
use dlio_tracer::naming::paths;
use dlio_tracer::ops::{Layer, Op};
use dlio_tracer::recording::{image, phase};
use dlio_tracer::thread::reserved_fds;
use dlio_tracer::trace::sigbus;
use libc::{FILE, pid_t};

use crate::next::Missing;
use crate::{real, rows};

// ---- closing and replacing descriptors ----------------------------------------------------------------------------

fn bad_descriptor() -> c_int {
    <c_int as Missing>::missing();
    // SAFETY: the address of this thread's errno is always valid.
    unsafe { *libc::__errno_location() = libc::EBADF };
    -1
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    real!(next: close(c_int) -> c_int);
    // Does not exist for the program.
    if reserved_fds::is_reserved(fd) {
        return bad_descriptor();
    }
    // SAFETY: the argument is passed on unchanged.
    unsafe {
        let Some(call) = call::begin(Layer::Posix) else { return next(fd) };
        let file = closing(fd);
        let ret = next(fd);
        plain(call.end(), Op::CLOSE, file, fd, ret as i64);
        ret
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    real!(next: dup2(c_int, c_int) -> c_int);
    reserved_fds::move_away(to);
    // SAFETY: the arguments are passed on unchanged.
    unsafe {
        let Some(call) = call::begin(Layer::Posix) else { return next(from, to) };
        let ret = next(from, to);
        duplicated(call.end(), Op::DUP2, from, to as i64, 0, ret);
        ret
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    real!(next: dup3(c_int, c_int, c_int) -> c_int);
    reserved_fds::move_away(to);
    // SAFETY: the arguments are passed on unchanged.
    unsafe {
        let Some(call) = call::begin(Layer::Posix) else { return next(from, to, flags) };
        let ret = next(from, to, flags);
        duplicated(call.end(), Op::DUP3, from, to as i64, flags as i64, ret);
        ret
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    real!(next: close_range(c_uint, c_uint, c_int) -> c_int);
    const CLOSE_RANGE_CLOEXEC: c_int = 4;
    // SAFETY: the arguments are passed on unchanged, around the tracer's own descriptors if there are any.
    unsafe {
        let Some(call) = call::begin(Layer::Posix) else { return next(first, last, flags) };
        if flags & CLOSE_RANGE_CLOEXEC == 0 {
            descriptors::closed_range(first, last);
        }
        let (mut from, mut ret) = (first, 0);
        while let Some(held) = reserved_fds::first_reserved(from, last) {
            ret |= if held > from { next(from, held - 1, flags) } else { 0 };
            from = held + 1;
        }
        if from <= last || first > last {
            ret |= next(from, last, flags);
        }
        on_nothing(call.end(), Op::CLOSE_RANGE, first as i64, last as i64, ret as i64);
        ret
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    real!(next: closefrom(c_int) -> ());
    if reserved_fds::first_reserved(first.max(0) as c_uint, c_uint::MAX).is_some() {
        // SAFETY: has the same effect, around the tracer's own descriptors.
        unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
        return;
    }
    // SAFETY: the argument is passed on unchanged.
    unsafe {
        let Some(call) = call::begin(Layer::Posix) else { return next(first) };
        descriptors::closed_range(first.max(0) as u32, u32::MAX);
        next(first);
        on_nothing(call.end(), Op::CLOSEFROM, 0, 0, 0);
    }
}

/// # Safety
/// As the C library's; the third argument is an integer or a pointer, which are passed the same way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    real!(next: fcntl(c_int, c_int, usize) -> c_int);
    // SAFETY: the arguments are passed on unchanged.
    unsafe {
        let Some(call) = call::begin(Layer::Posix) else { return next(fd, command, argument) };
        let ret = next(fd, command, argument);
        controlled(call.end(), fd, command, argument, ret);
        ret
    }
}

/// # Safety
/// As [`fcntl`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the same function by another name.
    unsafe { fcntl(fd, command, argument) }
}

fn controlled(done: call::Done, fd: c_int, command: c_int, argument: usize, ret: c_int) {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => descriptors::duplicated(fd, ret),
        libc::F_SETFL => descriptors::set_appending(fd, argument as c_int & libc::O_APPEND != 0),
        _ => {}
    }
    if !leaves_out(fd) {
        // SAFETY: the argument of the real call.
        let number = unsafe { number_of(command, argument, ret) };
        let op = match command {
            libc::F_SETLKW | libc::F_OFD_SETLKW => Op::FCNTL_SETLKW,
            _ => Op::FCNTL,
        };
        on_descriptor(done, op, fd, command as i64, number, ret as i64);
    }
}

/// Returns the argument of a command if it is a number, or the length of a lock. Other addresses have no meaning.
///
/// # Safety
/// The real call has just been given the argument.
unsafe fn number_of(command: c_int, argument: usize, ret: c_int) -> i64 {
    match command {
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW if ret == 0 => {
            // SAFETY: the kernel has read it there.
            unsafe { (*(argument as *const libc::flock)).l_len }
        }
        libc::F_DUPFD
        | libc::F_DUPFD_CLOEXEC
        | libc::F_SETFD
        | libc::F_SETFL
        | libc::F_SETOWN
        | F_SETSIG
        | libc::F_SETLEASE
        | libc::F_NOTIFY
        | libc::F_SETPIPE_SZ
        | libc::F_ADD_SEALS => argument as c_int as i64,
        _ => 0,
    }
}

const F_SETSIG: c_int = 10;

// ---- dropping privileges: access to the trace is kept ---------------------------------------------------------------

macro_rules! holding {
    ($loses:ident $($name:ident ($($arg:ident: $of:ty),*);)*) => {$(
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $of),*) -> c_int {
            real!(next: $name($($of),*) -> c_int);
            if !phase::is_passing() {
                processes::$loses();
            }
            // SAFETY: the arguments are passed on unchanged.
            unsafe { next($($arg),*) }
        }
    )*};
}

holding! { before_root_change
    chroot(path: *const c_char);
    unshare(flags: c_int);
    setns(fd: c_int, kind: c_int);
}

holding! { before_privilege_drop
    setuid(user: c_uint);
    seteuid(user: c_uint);
    setreuid(real_user: c_uint, user: c_uint);
    setresuid(real_user: c_uint, user: c_uint, saved: c_uint);
    setgid(group: c_uint);
    setegid(group: c_uint);
    setregid(real_group: c_uint, group: c_uint);
    setresgid(real_group: c_uint, group: c_uint, saved: c_uint);
    setfsuid(user: c_uint);
    setfsgid(group: c_uint);
    initgroups(user: *const c_char, group: c_uint);
    setgroups(count: usize, groups: *const c_uint);
    capset(header: *mut c_void, data: *const c_void);
}

// ---- calls that take away the tracer's clock or system calls ---------------------------------------------------------

/// Makes no event. Arguments that an option does not have are the contents of the caller's registers.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    real!(next: prctl(c_int, usize, usize, usize, usize) -> c_int);
    // SAFETY: the arguments are passed on unchanged.
    processes::Confines::by_prctl(option, a).around(|| unsafe { next(option, a, b, c, d) }, |ret| ret != 0)
}

// ---- the program's action for SIGBUS, behind the tracer's handler ----------------------------------------------------

/// Makes no event.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    real!(next: sigaction(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int);
    // SAFETY: the arguments are passed on unchanged, except for SIGBUS, whose actions are read and written as the C
    // library would.
    unsafe {
        if signal != libc::SIGBUS || !sigbus::watches() {
            return next(signal, new, old);
        }
        let before = sigbus::shown();
        // The child of a vfork has separate actions and its parent's memory.
        let ret = if new.is_null() || lifecycle::borrows_memory() {
            next(signal, new, old)
        } else {
            let new = *new;
            let ret = next(signal, &sigbus::in_place_of(&new), old);
            if ret == 0 {
                sigbus::note_set(&new);
            }
            ret
        };
        if ret == 0 && !old.is_null() && sigbus::is_own(&*old) {
            *old = before;
        }
        ret
    }
}

macro_rules! signals {
    ($($name:ident $flags:expr;)*) => {$(
        /// Makes no event.
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, handler: usize) -> usize {
            real!(next: $name(c_int, usize) -> usize);
            // SAFETY: the arguments are passed on unchanged, or as the C library itself would pass them on.
            unsafe {
                if signal != libc::SIGBUS || !sigbus::watches() || handler == libc::SIG_ERR {
                    return next(signal, handler);
                }
                let (mut new, mut old): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
                (new.sa_sigaction, new.sa_flags) = (handler, $flags);
                if $flags & libc::SA_NODEFER == 0 {
                    libc::sigaddset(&mut new.sa_mask, signal);
                }
                if sigaction(signal, &new, &mut old) == 0 { old.sa_sigaction } else { libc::SIG_ERR }
            }
        }
    )*};
}

signals! {
    signal libc::SA_RESTART;
    bsd_signal libc::SA_RESTART;
    ssignal libc::SA_RESTART;
    sysv_signal libc::SA_RESETHAND | libc::SA_NODEFER;
    __sysv_signal libc::SA_RESETHAND | libc::SA_NODEFER;
}

// ---- directory walks, which change the working directory inside the C library ----------------------------------------

macro_rules! walking {
    ($($name:ident ($($arg:ident: $of:ty),*) -> $ret:ty;)*) => {$(
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $of),*) -> $ret {
            real!(next: $name($($of),*) -> $ret);
            folders::set_cwd_walk(true);
            // SAFETY: the arguments are passed on unchanged.
            let result = unsafe { next($($arg),*) };
            folders::set_cwd_walk(false);
            result
        }
    )*};
}

walking! {
    nftw(path: *const c_char, visit: *const c_void, descriptors: c_int, flags: c_int) -> c_int;
    nftw64(path: *const c_char, visit: *const c_void, descriptors: c_int, flags: c_int) -> c_int;
    fts_read(walk: *mut c_void) -> *mut c_void;
    fts64_read(walk: *mut c_void) -> *mut c_void;
    fts_children(walk: *mut c_void, options: c_int) -> *mut c_void;
    fts64_children(walk: *mut c_void, options: c_int) -> *mut c_void;
    fts_close(walk: *mut c_void) -> c_int;
    fts64_close(walk: *mut c_void) -> c_int;
}

// ---- new processes ------------------------------------------------------------------------------------------------

rows! { Process
    [system] (command: *const c_char) -> c_int; {
        |done, ret| { descriptors::shared_with_child(); on_nothing(done, Op::SYSTEM, 0, 0, ret as i64) }
    }
    [popen] (command: *const c_char, mode: *const c_char) -> *mut FILE; {
        |done, stream| piped(done, Op::POPEN, (crate::stdio::of(stream), -1), 0)
    }
    [pclose] (stream: *mut FILE) -> c_int; {
        with at = (crate::stdio::of(stream), closing(crate::stdio::of(stream)));
        |done, ret| plain(done, Op::PCLOSE, at.1, at.0, ret as i64)
    }
    [kill] (pid: pid_t, signal: c_int) -> c_int; {
        |done, ret| signaled(done, pid, signal, ret)
    }
}

/// Records a signal sent to one other process. Groups of processes have negative numbers, and signal 0 only asks whether the
/// process exists.
fn signaled(done: call::Done, pid: pid_t, signal: c_int, ret: c_int) {
    if pid > 0 && signal > 0 {
        processes::signaled(done, pid, signal, outcome(ret as i64));
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> pid_t {
    real!(next: fork() -> pid_t);
    // SAFETY: no arguments.
    unsafe {
        let Some(call) = call::begin(Layer::Process) else { return next() };
        let child = next();
        if child != 0 {
            descriptors::shared_with_child();
            on_nothing(call.end(), Op::FORK, 0, 0, child as i64);
        }
        child
    }
}

/// Makes no event; see [`crate::next::find_all`].
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut c_ulong,
    attributes: *const c_void,
    function: *const c_void,
    argument: *mut c_void,
) -> c_int {
    real!(next: pthread_create(*mut c_ulong, *const c_void, *const c_void, *mut c_void) -> c_int);
    crate::next::find_all();
    lifecycle::before_thread();
    // SAFETY: the arguments are passed on unchanged.
    unsafe { next(thread, attributes, function, argument) }
}

/// Defines the functions that pin a thread to CPUs. They make no event.
macro_rules! pinning {
    ($($name:ident($of:ty);)*) => {$(
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(thread: $of, size: usize, cpus: *const c_void) -> c_int {
            real!(next: $name($of, usize, *const c_void) -> c_int);
            // SAFETY: the arguments are passed on unchanged.
            let ret = unsafe { next(thread, size, cpus) };
            if ret == 0 {
                processes::pinned();
            }
            ret
        }
    )*};
}

pinning! {
    sched_setaffinity(pid_t);
    pthread_setaffinity_np(c_ulong);
}

/// Forks a child that uses its parent's memory and stack. The return address is kept in a register across the system
/// call, because the child overwrites the stack it returns on. The kernel's result distinguishes the parent from the
/// child, and only the parent runs tracer code afterwards.
///
/// # Safety
/// As the C library's.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn vfork() -> pid_t {
    extern "C" fn before() -> u64 {
        processes::before_vfork()
    }
    extern "C" fn after(result: i64, began: u64) -> c_int {
        processes::after_vfork(result, began)
    }
    std::arch::naked_asm!(
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop rdi",
        "mov rsi, rax",
        "mov eax, {number}",
        "syscall",
        "push rdi",
        "test rax, rax",
        "jz 2f",
        "mov rdi, rax",
        "sub rsp, 8",
        "call {after}",
        "add rsp, 8",
        "2:",
        "ret",
        before = sym before,
        after = sym after,
        number = const libc::SYS_vfork,
    )
}

/// Makes no event. The last three arguments exist only if the flags require them; otherwise they are unused contents
/// of the caller's registers and stack.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clone(
    function: *const c_void,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent: *mut c_void,
    storage: *mut c_void,
    child: *mut c_void,
) -> c_int {
    real!(next: clone(*const c_void, *mut c_void, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_void) -> c_int);
    let next = || {
        // SAFETY: the arguments are passed on unchanged. The child runs on a separate stack and never returns here.
        unsafe { next(function, stack, flags, argument, parent, storage, child) }
    };
    let shares = flags & (libc::CLONE_VM | libc::CLONE_THREAD) == libc::CLONE_VM;
    if !shares || lifecycle::borrows_memory() {
        return next();
    }
    // A child with separate thread-local storage cannot be mistaken for the caller.
    let waits = flags & (libc::CLONE_VFORK | libc::CLONE_SETTLS) == libc::CLONE_VFORK;
    processes::before_shared(waits);
    let result = next();
    processes::after_shared(waits);
    result
}

/// Finishes the parent's trace first, because the parent ends inside the C library.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn daemon(stay: c_int, keep: c_int) -> c_int {
    real!(next: daemon(c_int, c_int) -> c_int);
    if image::exists() {
        lifecycle::end(Ending::Detach);
    }
    // SAFETY: the arguments are passed on unchanged.
    let result = unsafe { next(stay, keep) };
    paths::moved();
    result
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    child: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *const c_char,
    variables: *const *const c_char,
) -> c_int {
    real!(next: posix_spawn(*mut pid_t, *const c_char, *const c_void, *const c_void, *const *const c_char, *const *const c_char) -> c_int);
    // SAFETY: the arguments are passed on unchanged, the environment with our variables added.
    unsafe {
        spawn(child, path, variables, |child, variables| next(child, path, actions, attributes, arguments, variables))
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    child: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *const c_char,
    variables: *const *const c_char,
) -> c_int {
    real!(next: posix_spawnp(*mut pid_t, *const c_char, *const c_void, *const c_void, *const *const c_char, *const *const c_char) -> c_int);
    // SAFETY: the arguments are passed on unchanged, the environment with our variables added.
    unsafe {
        spawn(child, file, variables, |child, variables| next(child, file, actions, attributes, arguments, variables))
    }
}

/// Spawns a child and records it.
///
/// # Safety
/// The pointers are as `posix_spawn` accepts them.
unsafe fn spawn(
    child: *mut pid_t,
    path: *const c_char,
    variables: *const *const c_char,
    next: impl FnOnce(*mut pid_t, *const *const c_char) -> c_int,
) -> c_int {
    let mut id = 0;
    // SAFETY: the caller's pointers are as the C library accepts them; the pointer for the child's process id may be
    // null.
    unsafe {
        let place = if child.is_null() { &raw mut id } else { child };
        let program = paths::is_readable(path).then(|| CStr::from_ptr(path));
        environment::with_inherited(program, Starter::Child, variables, None, |variables| {
            let Some(call) = call::begin(Layer::Process) else { return next(place, variables) };
            let error = next(place, variables);
            let done = call.end();
            if error != 0 {
                ptrace_request::send(ptrace_request::NO_CHILD);
            }
            descriptors::shared_with_child();
            let result = if error == 0 { *place as i64 } else { -error as i64 };
            let named = error != libc::EFAULT || paths::is_readable(path);
            let file = if named { paths::of(path) } else { number::NONE };
            processes::spawned(done, file, result);
            error
        })
    }
}

// ---- another program in this process ----------------------------------------------------------------------------------

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Runs every variant of `execve`: the trace is finished if the program can be executed at all, and tracing is
/// inherited through the environment.
///
/// # Safety
/// The pointers are as `execve` accepts them.
unsafe fn exec(
    path: *const c_char,
    variables: *const *const c_char,
    next: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    // SAFETY: the caller's pointers are as the C library accepts them.
    unsafe {
        let program = paths::is_readable(path).then(|| CStr::from_ptr(path));
        if let Some(program) = program {
            processes::before_exec(program);
        }
        // A child on its parent's memory has not started its own record yet.
        let mut room = [0; processes::BORN_MAX];
        let born = if lifecycle::borrows_memory() { None } else { Some(processes::born(&mut room)) };
        let program = program.filter(|name| !name.is_empty());
        let result = environment::with_inherited(program, Starter::ThisThread, variables, born, next);
        phase::exec_failed();
        result
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    variables: *const *const c_char,
) -> c_int {
    real!(next: execve(*const c_char, *const *const c_char, *const *const c_char) -> c_int);
    // SAFETY: the arguments are passed on unchanged, the environment with our variables added.
    unsafe { exec(path, variables, |variables| next(path, arguments, variables)) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: by definition `execve` with the process's environment.
    unsafe { execve(path, arguments, environ) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(
    file: *const c_char,
    arguments: *const *const c_char,
    variables: *const *const c_char,
) -> c_int {
    real!(next: execvpe(*const c_char, *const *const c_char, *const *const c_char) -> c_int);
    // SAFETY: the arguments are passed on unchanged, the environment with our variables added.
    unsafe { exec(file, variables, |variables| next(file, arguments, variables)) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: by definition `execvpe` with the process's environment.
    unsafe { execvpe(file, arguments, environ) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, arguments: *const *const c_char, variables: *const *const c_char) -> c_int {
    real!(next: fexecve(c_int, *const *const c_char, *const *const c_char) -> c_int);
    // SAFETY: the arguments are passed on unchanged, the environment with our variables added.
    unsafe { exec(c"".as_ptr(), variables, |variables| next(fd, arguments, variables)) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    dir: c_int,
    path: *const c_char,
    arguments: *const *const c_char,
    variables: *const *const c_char,
    flags: c_int,
) -> c_int {
    real!(next: execveat(c_int, *const c_char, *const *const c_char, *const *const c_char, c_int) -> c_int);
    // SAFETY: the arguments are passed on unchanged, the environment with our variables added.
    unsafe { exec(c"".as_ptr(), variables, |variables| next(dir, path, arguments, variables, flags)) }
}

/// Executes for `execl` and `execle` in `variadic.c`.
///
/// # Safety
/// The pointers are as `execve` accepts them.
#[unsafe(no_mangle)]
unsafe extern "C" fn dlio_execl(
    path: *const c_char,
    arguments: *const *const c_char,
    variables: *const *const c_char,
) -> c_int {
    // SAFETY: the list was collected from the caller's arguments.
    unsafe { execve(path, arguments, variables) }
}

/// Executes for `execlp` in `variadic.c`.
///
/// # Safety
/// The pointers are as `execvp` accepts them.
#[unsafe(no_mangle)]
unsafe extern "C" fn dlio_execlp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: the list was collected from the caller's arguments.
    unsafe { execvp(file, arguments) }
}

crate::variadic! {
    execl -> dlio_variadic_execl;
    execlp -> dlio_variadic_execlp;
    execle -> dlio_variadic_execle;
}

// ---- the end ----------------------------------------------------------------------------------------------------------

/// Ends the process. A second thread that calls `exit` would find no handlers left to run, and would end the process
/// while the first thread still works.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exit(status: c_int) -> ! {
    phase::wait_for_shutdown();
    static NEXT: crate::next::Next = crate::next::Next::new("exit");
    // SAFETY: the C library's function of this name; every C library has it.
    let next = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> !>(NEXT.get()) };
    // SAFETY: the argument is passed on unchanged.
    unsafe { next(status) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    lifecycle::end(Ending::Exit(status));
    static NEXT: crate::next::Next = crate::next::Next::new("_exit");
    // SAFETY: the C library's function of this name; every C library has it.
    let next = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> !>(NEXT.get()) };
    // SAFETY: the argument is passed on unchanged.
    unsafe { next(status) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the same function by another name.
    unsafe { _exit(status) }
}

static QUICK_STATUS: AtomicI32 = AtomicI32::new(0);

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quick_exit(status: c_int) -> ! {
    QUICK_STATUS.store(status, Relaxed);
    static NEXT: crate::next::Next = crate::next::Next::new("quick_exit");
    // SAFETY: the C library's function of this name; the program that calls it was linked against it.
    let next = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> !>(NEXT.get()) };
    // SAFETY: the argument is passed on unchanged.
    unsafe { next(status) }
}

/// Makes `quick_exit` finish the trace, after every handler that the program registered.
pub fn watch_quick_exit() {
    unsafe extern "C" {
        fn at_quick_exit(function: extern "C" fn()) -> c_int;
    }
    extern "C" fn ends() {
        lifecycle::end(Ending::Exit(QUICK_STATUS.load(Relaxed)));
    }
    // SAFETY: registers a function that lives as long as the process.
    unsafe { at_quick_exit(ends) };
}
