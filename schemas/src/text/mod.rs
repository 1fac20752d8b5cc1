//! Text that people or the kernel wrote, and how it may be shown.
//!
//! Reading order: [`words`] (a typo and the word it was meant to be), [`readable`] (bytes that are not UTF-8), [`visible`]
//! (text for terminals), [`secrets`] (command lines without passwords), [`process_stat`] (the kernel's line about a process),
//! [`control_groups`] (what a process may use).

pub mod control_groups;
pub mod process_stat;
pub mod readable;
pub mod secrets;
pub mod visible;
pub mod words;
