//! What files that are kept beside a trace have in common: their parts, and whose file is believed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Larger parts are damage: those of a billion events and 100,000 files stay far below.
pub const PART_MAX: u64 = 512 << 20;

pub fn packed(part: &impl Serialize) -> Option<Vec<u8>> {
    let plain = rmp_serde::to_vec_named(part).ok()?;
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).ok()?;
    encoder.include_checksum(true).ok()?;
    encoder.write_all(&plain).ok()?;
    encoder.finish().ok()
}

pub fn unpacked<T: DeserializeOwned>(part: &[u8]) -> Option<T> {
    let mut plain = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(part).ok()?;
    decoder.take(PART_MAX).read_to_end(&mut plain).ok()?;
    rmp_serde::from_slice(&plain).ok()
}

/// A part of a file, if the file is as long as that.
pub fn read(file: &File, at: u64, length: u64) -> Option<Vec<u8>> {
    let end = at.checked_add(length).filter(|_| length <= PART_MAX)?;
    if end > file.metadata().ok()?.len() {
        return None;
    }
    let mut part = vec![0; length as usize];
    file.read_exact_at(&mut part, at).ok()?;
    Some(part)
}

/// A path as it is named in what is kept of a trace, which may be moved as a whole.
pub fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// What lies at a place where others may be able to put something: a file of this user's, or of whose the trace is. A pipe
/// is not waited for, a link not followed.
pub fn trusted(place: &Path, root: &Path) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(place).ok()?;
    let facts = file.metadata().ok()?;
    let owns = |path: &Path| std::fs::metadata(path).is_ok_and(|owner| owner.uid() == facts.uid());
    (facts.is_file() && (owns(Path::new("/proc/self")) || owns(root))).then_some(file)
}
