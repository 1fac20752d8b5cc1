//! The tracer's part when a process forks, executes another program or drops privileges.

use std::ffi::CStr;

use dlio_schemas::evidence::{Child, ChildEnd};
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

/// Prepares for a vfork. Returns its start time, or zero if it is not recorded.
pub fn before_vfork() -> u64 {
    let began = call::begin(Layer::Process).map_or(0, |_| clock::ticks());
    phase::pass(true);
    began
}

/// Resumes in the parent, after the child executed another program or ended. Returns the result for the caller of
/// vfork.
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

/// Prepares for a child that shares this memory. If `waits` is false, the child runs alongside its parent and its
/// calls count as the parent's. If `waits` is true, the parent is suspended until the child executes another program
/// or ends, as with vfork.
pub fn before_shared(waits: bool) {
    single_thread_atomics::ends();
    image::note_shared();
    // From here on, this distinguishes parent and child.
    if lifecycle::records_anything() {
        stack::on_large_stack(image::ensure);
    }
    if waits {
        phase::pass(true);
    }
}

/// Resumes in the parent.
pub fn after_shared(waits: bool) {
    if waits {
        phase::pass(false);
    }
    descriptors::shared_with_child();
}

/// Records a spawned child, or the failure.
pub fn spawned(done: Done, file: u32, result: i64) {
    let file = if file == crate::known::number::FILTERED { crate::known::number::NONE } else { file };
    done.record(Op::POSIX_SPAWN, file, -1, (0, true), 0, result);
}

/// Records a signal that this process sent to another one; `outcome` is zero or `-errno`.
pub fn signaled(done: Done, pid: i32, signal: i32, outcome: i64) {
    let target = Child { pid: pid as u32, ended: Some(ChildEnd::Signal(signal as u8)) };
    done.record(Op::KILL, crate::known::number::NONE, -1, (target.pack(), true), 0, outcome);
}

/// Finishes the trace of this image, because the process is about to execute another program, if it can. The path is
/// empty if it is not known here; a path without a slash still has to be searched for in `PATH`.
pub fn before_exec(path: &CStr) {
    // An image is not started for this event alone: a child between fork and exec has no other events.
    if image::exists() && !lifecycle::borrows_memory() {
        stack::on_large_stack(|| finish_for_exec(path));
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

/// A call that takes away something the tracer uses: the time-stamp counter, or all but a few system calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Confines {
    Nothing,
    Clock,
    /// All calls that a filter does not allow.
    Unforeseen,
    Calls,
}

const SECCOMP_STRICT: usize = 1;
const SECCOMP_FILTER: usize = 2;

impl Confines {
    /// Returns the restriction that a `prctl` call imposes.
    pub fn by_prctl(option: i32, argument: usize) -> Confines {
        match (option, argument) {
            (libc::PR_SET_TSC, argument) if argument as i32 == libc::PR_TSC_SIGSEGV => Confines::Clock,
            (libc::PR_SET_SECCOMP, SECCOMP_STRICT) => Confines::Calls,
            (libc::PR_SET_SECCOMP, SECCOMP_FILTER) => Confines::Unforeseen,
            _ => Confines::Nothing,
        }
    }

    /// Returns the restriction that a system call imposes, given its number.
    pub fn by_call(number: i64, first: usize, second: usize) -> Confines {
        match number {
            libc::SYS_prctl => Confines::by_prctl(first as i32, second),
            libc::SYS_seccomp if first as u32 == libc::SECCOMP_SET_MODE_STRICT => Confines::Calls,
            libc::SYS_seccomp if first as u32 == libc::SECCOMP_SET_MODE_FILTER => Confines::Unforeseen,
            _ => Confines::Nothing,
        }
    }

    /// Prepares the tracer for the restriction and makes the call.
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

/// Notes that the program pinned a thread, or another process, to CPUs.
pub fn pinned() {
    if lifecycle::records_anything() && !lifecycle::borrows_memory() {
        stack::with_stack_space(latest::at_pin);
    }
}

/// Notes that the program is about to change its root directory, after which paths may resolve differently.
pub fn before_root_change() {
    before_privilege_drop();
    trace_dirs::mark_root_changed();
}

/// Notes that the program is about to drop privileges or change its root directory, and with them loses access to the
/// trace directory.
pub fn before_privilege_drop() {
    process_info::user_changes();
    if lifecycle::records_anything() {
        image::hold();
    }
}
