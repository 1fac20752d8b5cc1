//! What a hook reports about a call that has returned.
//!
//! Reading order: [`meaning`] (file, position and result of each kind of call), [`waits`], [`requests`] (libaio),
//! [`processes`] (fork, exec, chroot and the like).

pub mod meaning;
pub mod processes;
pub mod requests;
pub mod waits;
