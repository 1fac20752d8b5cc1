//! Arithmetic over intervals of time.
//!
//! Reading order: [`intervals`] (unions), [`unordered`] (intervals that arrive late), [`bins`] (time divided evenly),
//! [`time_series`] (activity per bin), [`sweep`] (all intervals of a trace, from the last to the first).

pub mod bins;
pub mod intervals;
pub mod sweep;
pub mod time_series;
pub mod unordered;
