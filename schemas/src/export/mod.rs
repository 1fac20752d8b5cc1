//! Exports to the formats of other programs.
//!
//! ```text
//! image -> exporter (batches, joined metadata, boot time) -> chrome, dftracer (lines of json), perfetto::write
//! ```
//!
//! Reading order: [`exporter`] (the trait of a format, and one image written whole), [`key`] (names that formats
//! share), [`lanes`] (the calls that may share a track), `device_tracks` (the tracks of GPUs), [`json`] (text output),
//! [`chrome`] and [`dftracer`] (the formats). The Perfetto format has a separate directory, [`crate::perfetto`].

pub mod chrome;
pub(crate) mod device_tracks;
pub mod dftracer;
pub mod exporter;
mod json;
pub mod key;
pub mod lanes;

pub use exporter::{
    DrawnAct, DrawnWait, Exporter, ProcessId, Sink, Summary, clock_of, complete_fields, export, export_image,
    export_on, forget_unnamed,
};
