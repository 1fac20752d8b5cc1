//! Traces of dlio's own tracer: `.dlt` files and rings.
//!
//! [`image_files`] groups the files of a process image, [`index`] stores what opening them found, [`reader`]
//! opens and reads them.

pub mod image_files;
pub mod index;
pub mod reader;
