//! Traces of dlio's own tracer: `.dlt` files and rings.
//!
//! [`files_of_an_image`] groups the files of a process image, [`index`] stores what opening them found, [`reader`]
//! opens and reads them.

pub mod files_of_an_image;
pub mod index;
pub mod reader;
