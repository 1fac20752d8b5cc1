//! Files stored next to a trace to speed up later commands: their parts, and which files are trusted.
//!
//! `.dlio-cache` contains the summary and the content of each unit ([`crate::cache`]), `.dlio-cache-blocks` the
//! positions of all blocks ([`crate::load::native::index`]). Both are complete or absent, and removing them costs time
//! and never a number.
//!
//! They are written next to a trace only if the directory belongs to the user and no other user may write to it (or it
//! is sticky), as new files; otherwise into `$XDG_CACHE_HOME/dlio` (mode 0700; above 1 GiB the oldest are removed).
//! They are trusted only if the user or root owns them and no other user may write them. They are opened without
//! following links or waiting for pipes, and may unpack to at most a hundred times their size.
//!
//! They are not a block at the end of the `.dlt`: the tracer would have to keep the headers of all blocks in the traced
//! program's memory until its end, and a killed process would leave none.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::owner;

/// Larger parts are damage: those of a billion events and 100,000 files are much smaller.
pub const PART_MAX: u64 = 512 << 20;

/// Parts compress to a tenth, rarely to a fiftieth. Anything that unpacks to more was made to exhaust memory.
const UNPACKED_RATIO: u64 = 100;

/// The limit for any part, however small.
const UNPACKED_LEAST: u64 = 1 << 20;

fn unpacked_max(packed: usize) -> u64 {
    UNPACKED_LEAST.max(packed as u64 * UNPACKED_RATIO).min(PART_MAX)
}

pub fn packed(part: &impl Serialize) -> Option<Vec<u8>> {
    let plain = rmp_serde::to_vec_named(part).ok()?;
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).ok()?;
    encoder.include_checksum(true).ok()?;
    encoder.write_all(&plain).ok()?;
    encoder.finish().ok().filter(|packed| plain.len() as u64 <= unpacked_max(packed.len()))
}

pub fn unpacked<T: DeserializeOwned>(part: &[u8]) -> Option<T> {
    unpacked_below(part, PART_MAX)
}

/// Unpacks a part with a known maximum size.
pub fn unpacked_below<T: DeserializeOwned>(part: &[u8], most: u64) -> Option<T> {
    let most = most.min(unpacked_max(part.len()));
    let mut plain = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(part).ok()?;
    decoder.take(most + 1).read_to_end(&mut plain).ok()?;
    if plain.len() as u64 > most {
        return None;
    }
    rmp_serde::from_slice(&plain).ok()
}

/// Reads a part of a file, if the file is long enough.
pub fn read(file: &File, at: u64, length: u64) -> Option<Vec<u8>> {
    let end = at.checked_add(length).filter(|_| length <= PART_MAX)?;
    if end > file.metadata().ok()?.len() {
        return None;
    }
    let mut part = vec![0; length as usize];
    file.read_exact_at(&mut part, at).ok()?;
    Some(part)
}

/// Returns a path relative to the trace, which may be moved as a whole.
pub fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// Opens a file at a location where other users may be able to create one. Only files that this user or root can write
/// are trusted, because no other user may determine the content. Does not wait for a pipe or follow a link.
pub fn trusted(place: &Path) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(place).ok()?;
    let facts = file.metadata().ok()?;
    (facts.is_file() && owner::is_closed(&facts)).then_some(file)
}

/// The maximum bytes in the user's cache directory; beyond it the oldest files are removed.
const OWN_MAX: u64 = 1 << 30;

/// Creates the cache directory, if it is the user's own.
pub fn make_own(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Removes the oldest files of a cache directory until the remaining ones fit.
pub fn prune(folder: &Path) {
    prune_to(folder, OWN_MAX);
}

fn prune_to(folder: &Path, most: u64) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let facts = entry.metadata().ok().filter(Metadata::is_file)?;
        Some(((facts.mtime(), facts.mtime_nsec()), facts.len(), entry.path()))
    });
    let mut files: Vec<_> = files.collect();
    files.sort_by(|a, b| b.cmp(a));
    let mut held = 0;
    for (_, size, path) in files {
        held += size;
        if held > most {
            // If another process has removed it, that is fine too.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decompression_bombs_are_not_unpacked() {
        let bomb = zstd::stream::encode_all(io::repeat(0xc0).take(64 << 20), 19).unwrap();
        assert!(bomb.len() < 16 << 10, "{}", bomb.len());
        let rows = [&[0xdd, 0, 0x10, 0, 0][..], &[0xc0; 1 << 20]].concat();
        assert!(unpacked::<Vec<Option<u8>>>(&zstd::stream::encode_all(&rows[..], 3).unwrap()).is_none());
        assert!(unpacked::<Vec<Option<u8>>>(&bomb).is_none());
        // A part that fits is restored, unless its maximum is lower.
        let words: Vec<u32> = (0..1000).collect();
        let packed = packed(&words).unwrap();
        assert_eq!(unpacked::<Vec<u32>>(&packed), Some(words));
        assert!(unpacked_below::<Vec<u32>>(&packed, 1000).is_none());
    }

    #[test]
    fn the_oldest_go_where_there_is_too_much() {
        let folder = tempfile::tempdir().unwrap();
        for (name, age) in [("old", 30), ("older", 60), ("new", 1)] {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
        prune_to(folder.path(), 250);
        let there = |name: &str| folder.path().join(name).exists();
        assert_eq!(["new", "old", "older"].map(there), [true, true, false]);
        prune_to(folder.path(), 250);
        assert!(there("old"));
    }
}
