//! Files next to traces that contain no events: counters of hosts, and programs that left no trace.

use std::io::Read;
use std::path::{Path, PathBuf};

use dlio_schemas::machine::samples::Samples;
use dlio_schemas::native::untraced::{self, Untraced};

use super::bytes::trace_file::StoredFile;

/// The maximum bytes read of a file: a year of samples is less.
const SIZE_MAX: u64 = 256 << 20;

/// Returns the counters of hosts sampled while commands ran. A file that is unreadable or of a later version
/// contributes nothing.
pub fn samples(paths: &[PathBuf]) -> Vec<Samples> {
    paths.iter().filter_map(|path| Samples::parse(&read(path)?)).collect()
}

/// Returns the programs that traced programs started and that left no trace.
pub fn untraced(paths: &[PathBuf]) -> Vec<Untraced> {
    let lists = paths.iter().filter_map(|path| read(path));
    lists.flat_map(|list| untraced::parse(&list).collect::<Vec<_>>()).collect()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    StoredFile::open(path).ok()?.reader(0).take(SIZE_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
