//! The two traits of a file format, and helpers that several formats share.

use crate::config::{Dataset, Element};
use crate::data_set::content::Content;
use crate::data_set::layout::{FileSpec, Layout, Split};
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::Access;
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

pub trait Format: Send + Sync {
    fn name(&self) -> &'static str;

    /// Writes the file of `spec` into `draft`. `scratch` is reused across files.
    fn write(&self, spec: &FileSpec, dataset: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()>;

    /// Returns the exact size of the main file, if it follows from the shape alone.
    fn file_bytes(&self, spec: &FileSpec, dataset: &Dataset) -> Option<u64>;

    /// Returns the approximate bytes of a file per byte of samples.
    fn growth(&self, _: &Dataset) -> f64 {
        1.001
    }

    /// Returns the settings (keys below `dataset`) that change the bytes of its files, except for the shape of a sample, its
    /// element type and the number of samples.
    fn made_with(&self, _: &Dataset) -> Vec<(&'static str, Json)> {
        Vec::new()
    }

    /// Returns the first difference between a file, written by any program, and the requested one.
    fn differs(&self, spec: &FileSpec, dataset: &Dataset) -> Option<String> {
        let length = std::fs::metadata(&spec.path).ok()?.len();
        let expected = self.file_bytes(spec, dataset).filter(|expected| *expected != length)?;
        Some(format!("{length} bytes instead of {expected}"))
    }

    /// Returns the reader's expected `content` for an intact sample.
    fn expected(&self, spec: &FileSpec, _: &Dataset, sample: u64) -> Outcome<Vec<u8>> {
        Ok(sample_of(spec, sample))
    }

    /// Returns the path and bytes of the file that lists all files of a split, if the format has one.
    fn index(&self, _: &Layout, _: Split) -> Option<(PathBuf, Vec<u8>)> {
        None
    }

    /// Returns the version of the files, which is raised when equal settings produce different bytes.
    fn writer(&self) -> u64 {
        1
    }

    /// Returns the other files that belong to the one of `spec`.
    fn companions(&self, _: &FileSpec) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns `true` if files are read from the first byte to the last, so that an object needs one request, which can
    /// be sent ahead.
    fn reads_whole(&self) -> bool {
        true
    }

    /// Returns `true` if the reader keeps files open until the end of an epoch.
    fn keeps_files(&self, _: Access) -> bool {
        false
    }

    fn reader(&self, dataset: &Dataset, access: Access) -> Box<dyn Reader>;
}

pub trait Reader: Send {
    fn open(&mut self, path: &Path) -> Outcome<()>;

    /// Reads and decodes one sample of the open file.
    fn sample(&mut self, index: u64) -> Outcome<()>;

    /// Returns the buffer that the last sample was read into; the array for the trainer is copied from it.
    fn bytes(&self) -> &[u8];

    /// Returns the bytes that verification compares: the elements of the last sample in order, little-endian, or the
    /// file's own bytes if decoding changes elements.
    fn content(&self, _index: u64) -> Vec<u8> {
        self.bytes().to_vec()
    }

    /// Returns the bytes read from files since the last call.
    fn take_moved(&mut self) -> u64;

    fn close(&mut self);

    /// Ends an epoch: closes files that remained open after `close`.
    fn end_epoch(&mut self) {}
}

/// A file being written front to back, with the name that errors use.
pub(super) struct Output<'a> {
    pub(super) file: File,
    pub(super) path: &'a Path,
    pub(super) at: u64,
}

impl<'a> Output<'a> {
    pub(super) fn create(draft: &AtomicFile, path: &'a Path) -> Outcome<Output<'a>> {
        Ok(Output { file: draft.create()?, path, at: 0 })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.file.write_all(bytes).map_err(|error| Failure::io("write", self.path, error))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Writes a file's content stream from `from` to `to`; every piece is also passed to `see` (for a checksum).
    pub(super) fn write_content(
        &mut self,
        content: Content,
        range: std::ops::Range<u64>,
        scratch: &mut Vec<u8>,
        mut see: impl FnMut(&[u8]),
    ) -> Outcome<()> {
        content.pieces(range.start, range.end, scratch, |piece| {
            see(piece);
            self.write(piece)
        })
    }
}

/// Returns the name of the compressor of a file, by its first bytes.
pub(super) fn packer_of(bytes: &[u8]) -> Option<&'static str> {
    let kinds: [(&[u8], &str); 5] = [
        (b"\x1f\x8b\x08", "gzip"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ", "xz"),
        (b"PK\x03\x04", "zip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
    ];
    kinds.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, name)| *name)
}

/// Returns the compression settings; the level matters only if the format compresses.
pub(super) fn packed_with(dataset: &Dataset, has_levels: bool) -> Vec<(&'static str, Json)> {
    let level = ("compression_level", json!(dataset.compression_level));
    let compression = ("compression", json!(dataset.compression));
    if dataset.compression == "none" || !has_levels { vec![compression] } else { vec![compression, level] }
}

/// Returns a difference between two values, or `None` if they are equal.
pub(super) fn other<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, asked: &T) -> Option<String> {
    (found != asked).then(|| format!("{what} {found:?} instead of {asked:?}"))
}

pub(super) fn content_of(spec: &FileSpec) -> Content {
    Content::new(spec.content_seed, spec.element)
}

/// Returns bytes `from..to` of a file's content, for formats that cannot stream.
pub(super) fn gathered(spec: &FileSpec, from: u64, to: u64, scratch: &mut Vec<u8>) -> Vec<u8> {
    let mut all = Vec::with_capacity((to - from) as usize);
    let _ = content_of(spec).pieces(from, to, scratch, |piece| -> Result<(), ()> {
        all.extend_from_slice(piece);
        Ok(())
    });
    all
}

/// Returns the bytes of a sample in files with consecutive samples.
pub(super) fn sample_of(spec: &FileSpec, sample: u64) -> Vec<u8> {
    gathered(spec, sample * spec.sample_bytes(), (sample + 1) * spec.sample_bytes(), &mut Vec::new())
}

/// Returns the bytes of a sample in files whose arrays have the sample as their last axis.
pub(super) fn last_axis_sample(spec: &FileSpec, sample: u64) -> Vec<u8> {
    let all = gathered(spec, 0, spec.payload_bytes(), &mut Vec::new());
    strided_sample(&all, spec.element, spec.samples, sample)
}

/// Above this size of a sample, the reader checks the file before it trusts an index.
pub(super) const LARGE: u64 = 256 << 20;

/// Returns sample `index` of an array whose last axis is the sample, in the order of NumPy's `x[..., index]`.
pub fn strided_sample(array: &[u8], element: Element, samples: u64, index: u64) -> Vec<u8> {
    let (size, stride) = (element.bytes as usize, (element.bytes * samples) as usize);
    let first = index as usize * size;
    array.chunks_exact(stride).flat_map(|row| row[first..first + size].iter().copied()).collect()
}
