//! One question, many machines: workers that do pieces of work, and the hand that gives them out.
//!
//! What a piece is, only the program that uses this crate knows: it gives bytes and takes bytes. Here stand the connection
//! ([`client`], [`server`], [`wire`]), who may use it ([`guard`], [`token`], [`certificate`]) and what happens when a worker
//! goes away ([`dispatch`]): its piece goes to another one.
//!
//! ```text
//!   coordinator                          worker
//!     perform(piece)  ------ gRPC ----->  Work::begin, a thread runs it
//!                     <----- frames ----  events and bytes so far, twice a second
//!                     <----- frames ----  the result
//!     dropped         ----- reset ----->  Piece::stop
//! ```
//!
//! Both sides ask each other for a sign of life every two seconds, below all of this: a machine that was switched off, a
//! stopped process and a cut wire are noticed after [`wire::PATIENCE`].
#![forbid(unsafe_code)]

pub mod certificate;
pub mod client;
pub mod dispatch;
pub mod guard;
pub mod server;
pub mod token;
pub mod wire;
pub mod work;
