//! What a hook asks before a call, and reports when it has returned.
//!
//! Reading order: [`call`] (the question before a call and the event after it), [`meaning`] (file, position and result of
//! each kind of call), [`waits`], [`network`] (sockets), [`requests`] (libaio), [`processes`] (fork, exec, chroot and the like).

pub mod call;
pub mod meaning;
pub mod network;
pub mod processes;
pub mod requests;
pub mod waits;
