//! Rank groups: a trainer, which computes, and the readers that make its batches; how long the trainer waited for them.
//!
//! [`lanes`] measures threads against one another while a trace is read; [`tree`] knows who started whom; [`training`] says
//! who is what, and what that means; [`steps`] what the time of a trainer was spent on, [`beside`] how much I/O lay beside
//! compute. Reports and findings take it from there.

pub mod beside;
pub mod lanes;
pub mod steps;
pub mod training;
pub mod tree;
