//! Hooks in the C library itself, for calls that bypass the exported names: through pointers that a program has
//! looked up, from libraries loaded so that they do not find our hooks, and from inside the C library.
//!
//! ```text
//! program -> our read -> libc's read -> patch -> inside one of our calls: passed on, it is recorded already
//! library that bypasses us -> libc's read -> patch -> our read -> ... as above
//! program -> our fread -> libc's fread -> libc's read -> patch -> recorded as `__read`, within the fread
//! ```
//!
//! Off unless `DLIO_TRACE_INLINE=1`: code is written into the C library once, before `main`. A function that cannot
//! be patched is left unchanged, with a message. The patching code is in a separate library, [`Patcher`], so that it
//! is loaded only into processes that requested it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::*};

use dlio_tracer::calls::call::{self, Inside};
use dlio_tracer::calls::meaning::on_file;
use dlio_tracer::life::lifecycle;
use dlio_tracer::naming::paths;
use dlio_tracer::ops::{Layer, Op};
use libc::{iovec, mode_t, off_t, size_t, ssize_t};

use crate::{own_files, posix, process};

/// The patcher, which redirects the calls of a function: a library in the same directory as this one.
struct Patcher {
    redirect: Redirect,
    /// Null if it has no such function: see [`crate::syscall`].
    redirect_instructions: *mut c_void,
}

type Redirect = unsafe extern "C" fn(*mut c_void, *const c_void) -> *const c_void;
#[cfg(target_arch = "x86_64")]
type RedirectInstructions = unsafe extern "C" fn(u32, *const c_void) -> usize;

const LIBRARY: &[u8] = b"libdliotrace_inline.so";

impl Patcher {
    /// Loads the patcher; on failure returns the loader's message: it is missing, or requires a newer C library.
    fn load() -> Result<Patcher, &'static CStr> {
        let path = own_files::beside(LIBRARY).ok_or(c"the directory of libdliotrace.so is unknown")?;
        // SAFETY: terminated names; the library stays loaded, and its function of this name has this signature. The
        // loader's message is valid until the next call into the loader, and it is printed before that.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            let found = if library.is_null() { library } else { libc::dlsym(library, c"dlio_redirect_v1".as_ptr()) };
            if found.is_null() {
                let said = libc::dlerror();
                return Err(if said.is_null() { c"the loader reports no reason" } else { CStr::from_ptr(said) });
            }
            let redirect_instructions = libc::dlsym(library, c"dlio_redirect_instructions_v1".as_ptr());
            Ok(Patcher { redirect: std::mem::transmute::<*mut c_void, Redirect>(found), redirect_instructions })
        }
    }

    /// Redirects the instructions by which programs enter the kernel for io_uring rings.
    fn redirect_rings(&self) {
        #[cfg(target_arch = "x86_64")]
        if !self.redirect_instructions.is_null() {
            let handler = crate::syscall::enter_by_instruction as *const c_void;
            // SAFETY: the function of this name has this signature; the handler is made for it.
            unsafe {
                let redirect = std::mem::transmute::<*mut c_void, RedirectInstructions>(self.redirect_instructions);
                redirect(libc::SYS_io_uring_enter as u32, handler);
            }
        }
    }

    /// Returns the entry to the original function; `None` if it cannot be patched.
    ///
    /// # Safety
    /// `function` is null or a function, and `instead` is a function with the same signature.
    unsafe fn redirect(&self, function: *mut c_void, instead: *const ()) -> Option<*const ()> {
        // SAFETY: by the contract.
        let original = unsafe { (self.redirect)(function, instead.cast()) };
        (!original.is_null()).then_some(original.cast())
    }
}

/// A function of the C library and the entry to the original.
struct Patched {
    name: &'static CStr,
    instead: fn() -> *const (),
    original: &'static AtomicPtr<()>,
    /// Some C libraries lack it.
    is_optional: bool,
}

/// Patches every function in the list that exists.
pub fn start() {
    // SAFETY: the C library is already loaded; its handle is kept.
    let libc = unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if libc.is_null() {
        return lifecycle::say(&[b"libc.so.6 is not loaded: nothing is patched"]);
    }
    let patcher = match Patcher::load() {
        Ok(patcher) => patcher,
        Err(why) => return lifecycle::say(&[b"cannot load ", LIBRARY, b": ", why.to_bytes(), b"; nothing is patched"]),
    };
    lifecycle::patched();
    patcher.redirect_rings();
    for patched in PATCHED.iter().chain([&QUIET_CLOSE]) {
        // SAFETY: a terminated name.
        let function = unsafe { libc::dlsym(libc, patched.name.as_ptr()) };
        if function.is_null() && patched.is_optional {
            continue;
        }
        // SAFETY: the list pairs each name with a function of its signature.
        match unsafe { patcher.redirect(function, (patched.instead)()) } {
            Some(original) if !function.is_null() => patched.original.store(original.cast_mut(), Release),
            _ => lifecycle::say(&[b"cannot patch ", patched.name.to_bytes(), b" of the C library"]),
        }
    }
}

/// A row is `name: our hook, the operation of a stream's own call to it`.
macro_rules! patches {
    ($($name:ident($($arg:ident: $of:ty),*) -> $ret:ty: $hook:path, $inner:expr;)*) => {
        static PATCHED: &[Patched] = &[$(Patched {
            name: crate::c_name!($name),
            instead: || $name::instead as *const (),
            original: &$name::ORIGINAL,
            is_optional: false,
        }),*];
        $(mod $name {
            use super::*;

            pub static ORIGINAL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

            /// # Safety
            /// As the function it replaces.
            pub unsafe extern "C" fn instead($($arg: $of),*) -> $ret {
                // SAFETY: the entry to a function of this signature.
                let original = unsafe {
                    std::mem::transmute::<*mut (), unsafe extern "C" fn($($of),*) -> $ret>(way_to(&ORIGINAL))
                };
                // SAFETY: the arguments are passed on unchanged.
                unsafe {
                    match Inside::now() {
                        Inside::Call => original($($arg),*),
                        Inside::Nothing => {
                            Inside::enter(Layer::Posix);
                            let ret = $hook($($arg),*);
                            Inside::leave();
                            ret
                        }
                        Inside::Stream => {
                            let Some(call) = call::begin(Layer::Stdio) else { return original($($arg),*) };
                            let ret = original($($arg),*);
                            let record: fn(call::Done, $($of,)* $ret) = $inner;
                            record(call.end(), $($arg,)* ret);
                            ret
                        }
                    }
                }
            }
        })*
    };
}

patches! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int: posix::open, inner_open;
    openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int: posix::openat, |_, _, _, _, _, _| {};
    close(fd: c_int) -> c_int: process::close, |done, fd, ret| inner(done, Op::INNER_CLOSE, fd, 0, 0, ret as i64);
    read(fd: c_int, into: *mut c_void, size: size_t) -> ssize_t: posix::read,
        |done, fd, _, size, ret| inner(done, Op::INNER_READ, fd, 0, size as i64, ret as i64);
    write(fd: c_int, from: *const c_void, size: size_t) -> ssize_t: posix::write,
        |done, fd, _, size, ret| inner(done, Op::INNER_WRITE, fd, 0, size as i64, ret as i64);
    lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t: posix::lseek,
        |done, fd, offset, whence, ret| inner(done, Op::INNER_LSEEK, fd, whence as i64, offset, ret);
    pread(fd: c_int, into: *mut c_void, size: size_t, at: off_t) -> ssize_t: posix::pread, |_, _, _, _, _, _| {};
    pwrite(fd: c_int, from: *const c_void, size: size_t, at: off_t) -> ssize_t: posix::pwrite, |_, _, _, _, _, _| {};
    readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t: posix::readv, |_, _, _, _, _| {};
    writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t: posix::writev, |_, _, _, _, _| {};
}

/// Returns the entry to an original function. It is always known here, except on a thread that ran before `main`,
/// between the two stores; such a thread has to wait.
fn way_to(original: &AtomicPtr<()>) -> *mut () {
    let mut way = original.load(Acquire);
    while way.is_null() {
        way = original.load(Acquire);
    }
    way
}

/// The function by which the C library closes the descriptor of a stream: a `close` without a cancellation point, not
/// the exported one. Other descriptors that the C library closes with it were also opened unseen, possibly for the
/// tracer.
static QUIET_CLOSE: Patched = Patched {
    name: c"__close_nocancel",
    instead: || quiet_close as *const (),
    original: &QUIETLY_CLOSED,
    is_optional: true,
};
static QUIETLY_CLOSED: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// # Safety
/// As `close`.
unsafe extern "C" fn quiet_close(fd: c_int) -> c_int {
    // SAFETY: the entry to a function of this signature.
    let original =
        unsafe { std::mem::transmute::<*mut (), unsafe extern "C" fn(c_int) -> c_int>(way_to(&QUIETLY_CLOSED)) };
    let is_streams = Inside::now() == Inside::Stream && Inside::changes(fd);
    let call = if is_streams { call::begin(Layer::Stdio) } else { None };
    // SAFETY: the argument is passed on unchanged.
    let ret = unsafe { original(fd) };
    if let Some(call) = call {
        inner(call.end(), Op::INNER_CLOSE, fd, 0, 0, ret as i64);
    }
    ret
}

fn inner(done: call::Done, op: Op, fd: c_int, a: i64, b: i64, ret: i64) {
    on_file(done, op, Inside::file(fd), fd, a, b, ret);
}

fn inner_open(done: call::Done, path: *const c_char, flags: c_int, _mode: mode_t, fd: c_int) {
    // SAFETY: the path that the C library has just been given.
    let file = unsafe { paths::of(path) };
    Inside::note_changing(fd, file);
    on_file(done, Op::INNER_OPEN, file, fd, 0, flags as i64, fd as i64);
}
