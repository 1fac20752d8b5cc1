//! A request to `dlio trace --ptrace-static`. If a thread is about to execute a program into which the library cannot be loaded,
//! it requests that the supervisor attach to it, so that ptrace records the calls of that program.
//!
//! ```text
//! thread in the library              supervisor (benchmark/src/ptrace)
//!   connect, send its id and who ->  PTRACE_SEIZE, stop, continue
//!   wait                         <-  one byte: attached, or refused
//!   execve
//! ```
//!
//! In `posix_spawn` the C library creates the child itself. The supervisor then attaches to the calling thread until that
//! has created the child, and keeps only the child.
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

/// The process that executes the program, in a request: the thread itself, or a child that it is about to create.
pub const THIS_THREAD: u8 = b't';
pub const CHILD: u8 = b'c';
/// Withdraws a request for a child, because there will be none.
pub const NO_CHILD: u8 = b'0';

/// How long a thread waits for the supervisor, which may have been stopped by a debugger.
const PATIENCE_SECONDS: i64 = 10;

/// Returns `true` if calls of such a program can be recorded by ptrace. A process under ptrace cannot gain privileges.
pub fn is_possible(loading: Loading) -> bool {
    matches!(loading, Loading::Static | Loading::Go | Loading::OtherLibrary)
}

/// Sends a request about this thread to the supervisor named in the environment; `true` once it is met.
pub fn send(who: u8) -> bool {
    variable(env::PTRACE).is_some_and(|name| send_to(name, who))
}

/// Sends a request about this thread to the supervisor with this socket; `true` once it is met. Allocates nothing: the
/// caller may be the child of a vfork.
pub fn send_to(supervisor: &[u8], who: u8) -> bool {
    let fd = sockets::connect_abstract(supervisor, PATIENCE_SECONDS);
    if fd < 0 {
        return false;
    }
    // The supervisor is not an ancestor, which is what the Yama security module requires by default.
    sys::allow_ptrace(sockets::peer_process(fd));
    let [a, b, c, d] = sys::thread_id().to_le_bytes();
    let mut reply = [0];
    let is_attached = sys::write_all(fd, &[a, b, c, d, who]) >= 0 && read_reply(fd, &mut reply) && reply == [ATTACHED];
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
