//! The functions that a hook calls before a call and after it returns.
//!
//! Reading order: [`call`] (the check before a call and the event after it), [`meaning`] (file, position and result
//! of each kind of call), [`waits`], [`device`] (waits for a device), [`network`] (sockets), [`requests`] (libaio), [`uring`] (io_uring),
//! [`processes`] (fork, exec, chroot and similar).

pub mod call;
pub mod device;
pub mod meaning;
pub mod network;
pub mod processes;
pub mod requests;
pub mod uring;
pub mod waits;
