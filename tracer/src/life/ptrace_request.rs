//! A request to `dlio trace --ptrace-static`: a thread that is about to execute a program which the library cannot
//! enter asks to be attached to, so that the calls of that program are recorded by ptrace.
//!
//! ```text
//! thread in the library              supervisor (benchmark/src/ptrace)
//!   connect, send its thread id  ->  PTRACE_SEIZE, stop, continue
//!   wait                         <-  one byte: attached, or refused
//!   execve
//! ```
//!
//! The name of the supervisor's socket is in the environment. Without a supervisor, or if it refuses, the program runs
//! without being recorded.

use crate::kernel::variables::variable;
use crate::kernel::{sockets, sys};
use crate::life::programs::Loading;

use dlio_schemas::env;

/// The supervisor's reply if it has attached.
pub const ATTACHED: u8 = b'y';
/// The supervisor's reply if it cannot attach.
pub const REFUSED: u8 = b'n';

/// How long a thread waits for the supervisor, which may have been stopped by a debugger.
const PATIENCE_SECONDS: i64 = 10;

/// Returns `true` if calls of such a program can be recorded by ptrace. A process under ptrace cannot gain privileges.
pub fn is_possible(loading: Loading) -> bool {
    matches!(loading, Loading::Static | Loading::Go | Loading::OtherLibrary)
}

/// Requests that the supervisor named in the environment attaches to the calling thread.
pub fn attach_this_thread() -> bool {
    variable(env::PTRACE).is_some_and(|name| attach_to(name))
}

/// Requests that the supervisor with this socket attaches to the calling thread; `true` once it has. Allocates nothing:
/// the caller may be the child of a vfork.
pub fn attach_to(supervisor: &[u8]) -> bool {
    let fd = sockets::connect_abstract(supervisor, PATIENCE_SECONDS);
    if fd < 0 {
        return false;
    }
    // The supervisor is not an ancestor, which is what the Yama security module requires by default.
    sys::allow_ptrace(sockets::peer_process(fd));
    let thread = sys::thread_id().to_le_bytes();
    let mut reply = [0];
    let is_attached = sys::write_all(fd, &thread) >= 0 && read_reply(fd, &mut reply) && reply == [ATTACHED];
    sys::allow_ptrace(0);
    sys::close(fd);
    is_attached
}

/// Reads the reply. The stop of this thread by the supervisor interrupts the call.
fn read_reply(fd: i32, reply: &mut [u8; 1]) -> bool {
    loop {
        match sockets::receive(fd, reply) {
            1 => return true,
            error if error == -libc::EINTR as isize => {}
            _ => return false,
        }
    }
}
