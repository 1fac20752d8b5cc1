//! The tracer when the process multiplies, changes or gives up rights.

use std::ffi::CStr;

use dlio_schemas::ops::{Layer, Op};

use crate::calls::call::{self, Call, Done};
use crate::calls::meaning;
use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::{clock, single_thread_atomics, sys};
use crate::known::descriptors;
use crate::life::finish::Ending;
use crate::life::lifecycle;
use crate::life::programs;
use crate::naming::paths;
use crate::process::process_info;
pub use crate::process::process_info::{BORN_MAX, born};
use crate::recording::{image, latest, phase};
use crate::thread::stack;
use crate::trace::trace_dirs;

/// A vfork is about to happen. Returns when it began, or zero if it is not recorded.
pub fn before_vfork() -> u64 {
    let began = call::begin(Layer::Process).map_or(0, |_| clock::ticks());
    phase::pass(true);
    began
}

/// Back in the parent, whose child has become another program or is gone. Returns what the caller of vfork gets.
pub fn after_vfork(result: i64, began: u64) -> i32 {
    phase::pass(false);
    descriptors::shared_with_child();
    if began != 0 {
        Call::since(began).end().record(Op::VFORK, crate::known::number::NONE, -1, (0, true), 0, result);
    }
    if result >= 0 {
        return result as i32;
    }
    // SAFETY: the address of this thread's errno is always valid.
    unsafe { *libc::__errno_location() = -result as i32 };
    -1
}

/// A child on this memory is about to be made. It goes on beside its parent, and its calls count as the parent's; or the parent
/// waits until it has become another program or is gone (`waits`), which is a vfork.
pub fn before_shared(waits: bool) {
    single_thread_atomics::ends();
    image::note_shared();
    // It tells parent and child apart from here on.
    if lifecycle::records_anything() {
        stack::with_room(image::ensure);
    }
    if waits {
        phase::pass(true);
    }
}

/// Back in the parent.
pub fn after_shared(waits: bool) {
    if waits {
        phase::pass(false);
    }
    descriptors::shared_with_child();
}

/// A child was spawned, or could not be.
pub fn spawned(done: Done, file: u32, result: i64) {
    let file = if file == crate::known::number::FILTERED { crate::known::number::NONE } else { file };
    done.record(Op::POSIX_SPAWN, file, -1, (0, true), 0, result);
}

/// The process is about to become another program, if it can: then this image's trace is finished now. An empty path is
/// one that is not known here, a path without a slash one that is still to be searched for.
pub fn before_exec(path: &CStr) {
    // An image is not begun for this event alone: a child between fork and exec has done nothing of its own.
    if image::exists() && !lifecycle::borrows_memory() {
        stack::with_room(|| finish_for_exec(path));
    }
}

fn finish_for_exec(path: &CStr) {
    let possible = match path.to_bytes() {
        b"" => true,
        bytes if bytes.contains(&b'/') => sys::accessible(path, libc::X_OK),
        _ => programs::search(path, &mut PathBuffer::new()),
    };
    if !possible {
        return;
    }
    if let Some(call) = call::begin(Layer::Process) {
        // SAFETY: a terminated string.
        let file = unsafe { paths::of(path.as_ptr()) };
        meaning::on_path(call.end(), Op::EXEC, file, 0, 0, 0);
    }
    lifecycle::end(Ending::Exec);
}

/// A call that takes something away that the tracer uses: the time-stamp counter, or all calls but a few.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Confines {
    Nothing,
    Clock,
    /// All that a filter does not allow.
    Unforeseen,
    Calls,
}

const SECCOMP_STRICT: usize = 1;
const SECCOMP_FILTER: usize = 2;

impl Confines {
    /// Of `prctl`.
    pub fn by_prctl(option: i32, argument: usize) -> Confines {
        match (option, argument) {
            (libc::PR_SET_TSC, argument) if argument as i32 == libc::PR_TSC_SIGSEGV => Confines::Clock,
            (libc::PR_SET_SECCOMP, SECCOMP_STRICT) => Confines::Calls,
            (libc::PR_SET_SECCOMP, SECCOMP_FILTER) => Confines::Unforeseen,
            _ => Confines::Nothing,
        }
    }

    /// Of any call of the kernel's by its number.
    pub fn by_call(number: i64, first: usize, second: usize) -> Confines {
        match number {
            libc::SYS_prctl => Confines::by_prctl(first as i32, second),
            libc::SYS_seccomp if first as u32 == libc::SECCOMP_SET_MODE_STRICT => Confines::Calls,
            libc::SYS_seccomp if first as u32 == libc::SECCOMP_SET_MODE_FILTER => Confines::Unforeseen,
            _ => Confines::Nothing,
        }
    }

    /// Makes the call, and is ready for it before.
    pub fn around<R: Copy>(self, call: impl FnOnce() -> R, failed: impl FnOnce(R) -> bool) -> R {
        match self {
            Confines::Nothing => {}
            Confines::Clock => clock::leave_tsc(),
            Confines::Unforeseen => phase::note_filter(),
            Confines::Calls => lifecycle::before_strict(),
        }
        let result = call();
        if self == Confines::Calls && failed(result) {
            phase::strict_failed();
        }
        result
    }
}

/// The program has pinned a thread to CPUs, or another process.
pub fn pinned() {
    if lifecycle::records_anything() && !lifecycle::borrows_memory() {
        stack::with_some_room(latest::at_pin);
    }
}

/// The program is about to change its root directory: paths may lead elsewhere from now on.
pub fn loses_root() {
    loses_rights();
    trace_dirs::loses_root();
}

/// The program is about to give up rights or its root directory, and with them the way to the trace folder.
pub fn loses_rights() {
    process_info::user_changes();
    if lifecycle::records_anything() {
        image::hold();
    }
}
