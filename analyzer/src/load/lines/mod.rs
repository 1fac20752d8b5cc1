//! Text files, read as a whole or in parts.
//!
//! [`text`] reads a file from its start to its end, [`chunks`] divides a large file of one object per line, so that threads read
//! its parts independently.

pub mod chunks;
pub mod text;
