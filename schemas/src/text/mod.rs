//! Text written by users or the kernel, and how it may be shown.
//!
//! Reading order: [`words`] (a typo and the intended word), `usage_errors` (errors in command lines), [`readable`]
//! (bytes that are not UTF-8), [`visible`] (text for terminals), [`secrets`] (command lines without passwords),
//! [`process_stat`] (the kernel's line about a process), [`decimal`] (digits), [`durations`] (`10m`), [`control_groups`]
//! (the resources of a process), [`io_limits`] (its limits on block devices), [`slow_step`] (what a flight recorder
//! should keep).

pub mod control_groups;
pub mod decimal;
pub mod durations;
pub mod io_limits;
pub mod process_stat;
pub mod readable;
pub mod secrets;
pub mod slow_step;
#[cfg(feature = "command-line")]
pub mod usage_errors;
pub mod visible;
pub mod words;
