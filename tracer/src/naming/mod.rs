//! From a path or descriptor that a program passed to the number of its name.
//!
//! ```text
//! path -> paths (made absolute) ------------------.
//!           | /dev/fd/3                            |-> path_numbers (filtered?) -> names
//! fd -----> descriptor_files -> descriptor_names --'
//!                                 `-> object_names (pipes, sockets) -> names
//! ```
//!
//! Reading order: [`paths`] (the meaning of a call's path), [`descriptor_files`] (the file and position of a
//! descriptor), [`descriptor_names`], [`object_names`], [`path_numbers`], [`names`] (strings become numbers).

pub mod descriptor_files;
pub(crate) mod descriptor_names;
pub mod names;
pub mod object_names;
pub mod path_numbers;
pub mod paths;
