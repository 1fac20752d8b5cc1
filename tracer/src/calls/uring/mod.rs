//! Requests through io_uring rings. A request is written into memory that the program shares with the kernel, and so is
//! its result: neither is a call. The memory is read, never written, whenever the program enters the kernel for a ring.
//!
//! ```text
//! program: request -> submission queue            enter             result <- completion queue
//!                          |                     /     \                            |
//! tracer:            read before the call: a note       read after the call: the note becomes an event
//! ```
//!
//! A request is one event, from its submission until its result is seen. If no call was made in between, the
//! result may have been there earlier, so the duration is an upper bound. Results without a note (the submission was
//! not seen, or the result was overwritten) are counted, and reports contain their number.
//!
//! Reading order: [`queues`] (the memory), `requests` (the meaning of a request), `notes` (requests in flight),
//! `registered` (files known by an index), [`rings`] (the known rings, and when they are read).

pub mod queues;

mod notes;
mod registered;
mod requests;

pub mod rings;
