//! The formats of traces that are read in addition to the tracer's own files, in the order in which they are tried and
//! opened.
//!
//! To add one: a file here with its [`Format`], and its lines here.

pub mod darshan;
pub mod dxt;
pub mod json_file;
pub mod nsight;
pub mod parquet;
pub mod perfetto;
pub mod strace;

use std::path::Path;

use super::sources::source::Format;

/// A process that several files contain is read from the first of them.
pub const FORMATS: &[&Format] = &[
    &perfetto::FORMAT,
    &parquet::FORMAT,
    &nsight::FORMAT,
    &json_file::FORMAT,
    &darshan::FORMAT,
    &dxt::FORMAT,
    &strace::FORMAT,
];

/// Returns the format of a file whose first bytes have a format: another one if its name shows that another program wrote it.
pub fn by_name(format: &'static Format, path: &Path) -> &'static Format {
    let is_nsight = *format == parquet::FORMAT && nsight::is_table(path);
    if is_nsight { &nsight::FORMAT } else { format }
}

/// Returns the names as a list in a sentence.
pub fn names() -> String {
    let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
    let (last, others) = names.split_last().expect("formats");
    format!("{} and {last}", others.join(", "))
}
