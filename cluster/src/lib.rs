//! Distributes one job over several hosts: workers that run pieces of work, and the coordinator's dispatch.
//!
//! The content of a piece is known only to the program that uses this crate: it passes and receives bytes. This crate
//! contains the connection ([`client`], [`server`], [`wire`]), its access control ([`guard`], [`token`],
//! [`certificate`]) and the recovery from a lost worker ([`dispatch`]): its piece goes to another one.
//!
//! ```text
//!   coordinator                          worker
//!     perform(piece)  ------ gRPC ----->  Work::begin, a thread runs it
//!                     <----- frames ----  events and bytes so far, twice a second
//!                     <----- frames ----  the result
//!     dropped         ----- reset ----->  Piece::stop
//! ```
//!
//! Both sides send each other a keepalive every two seconds, below all of this: a host without power, a stopped
//! process and a cut wire are noticed after [`wire::PATIENCE`].
#![forbid(unsafe_code)]

pub mod certificate;
pub mod client;
pub mod dispatch;
pub mod guard;
pub mod server;
pub mod token;
pub mod wire;
pub mod work;
