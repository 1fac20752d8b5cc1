//! Rank groups: a trainer, which computes, with the readers that make its batches, and the time the trainer waited for
//! them.
//!
//! [`lanes`] measures how threads overlap while a trace is read; [`io_compute_overlap`] measures how much I/O overlaps
//! compute; [`shared_sweep`] merges the intervals of all threads; [`steps`] divides a trainer's time.
//! [`super::training`] decides which processes train and which read. Reports and findings use its result.

pub mod io_compute_overlap;
pub mod lanes;
pub mod shared_sweep;
pub mod steps;
