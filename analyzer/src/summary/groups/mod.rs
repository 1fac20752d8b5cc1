//! Rank groups: a trainer, which computes, and the readers that make its batches; how long the trainer waited for them.
//!
//! [`lanes`] measures threads against one another while a trace is read;
//! [`io_compute_overlap`] measures how much I/O overlaps compute; [`shared_sweep`] merges the intervals of all threads;
//! [`steps`] divides the time of a trainer. [`super::training`] decides who trains and who reads. Reports and findings take it
//! from there.

pub mod io_compute_overlap;
pub mod lanes;
pub mod shared_sweep;
pub mod steps;
