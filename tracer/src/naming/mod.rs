//! From a path or descriptor that a program passed to the number of its name.
//!
//! Reading order: [`names`] (strings become numbers), [`paths`] (what a path of a call means).

pub mod names;
pub mod paths;
