//! The two traits of a file format, and what several formats need.

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

    /// Writes the file of `spec` into `draft`. `scratch` is reused from file to file.
    fn write(&self, spec: &FileSpec, dataset: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()>;

    /// The exact size of the main file, where it follows from the shape alone.
    fn file_bytes(&self, spec: &FileSpec, dataset: &Dataset) -> Option<u64>;

    /// Bytes of a file that come from one byte of samples, about.
    fn growth(&self, _: &Dataset) -> f64 {
        1.001
    }

    /// What of the configuration changes the bytes of its files, besides the shape of a sample, its element type and the
    /// number of samples: keys below `dataset`.
    fn made_with(&self, _: &Dataset) -> Vec<(&'static str, Json)> {
        Vec::new()
    }

    /// The first difference between a file, whoever made it, and what is asked for.
    fn differs(&self, spec: &FileSpec, dataset: &Dataset) -> Option<String> {
        let length = std::fs::metadata(&spec.path).ok()?.len();
        let expected = self.file_bytes(spec, dataset).filter(|expected| *expected != length)?;
        Some(format!("{length} bytes instead of {expected}"))
    }

    /// What the reader's `content` is of a sample that came back whole.
    fn expected(&self, spec: &FileSpec, _: &Dataset, sample: u64) -> Outcome<Vec<u8>> {
        Ok(sample_of(spec, sample))
    }

    /// The file that lists all files of a split, where the format has one: its place and its bytes.
    fn index(&self, _: &Layout, _: Split) -> Option<(PathBuf, Vec<u8>)> {
        None
    }

    /// The other files that belong to the one of `spec`.
    fn companions(&self, _: &FileSpec) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Its files are read from the first byte to the last, so that an object is one request, which can be sent before its turn.
    fn reads_whole(&self) -> bool {
        true
    }

    /// Its reader keeps by itself what it has had open, until the end of an epoch.
    fn keeps_files(&self, _: Access) -> bool {
        false
    }

    fn reader(&self, dataset: &Dataset, access: Access) -> Box<dyn Reader>;
}

pub trait Reader: Send {
    fn open(&mut self, path: &Path) -> Outcome<()>;

    /// Reads and decodes one sample of the open file.
    fn sample(&mut self, index: u64) -> Outcome<()>;

    /// The buffer the last sample was read into; the array handed to the trainer is taken from here.
    fn bytes(&self) -> &[u8];

    /// What a check compares: the elements of the last sample in order, little endian, or where decoding changes them the
    /// file's own bytes.
    fn content(&self, _index: u64) -> Vec<u8> {
        self.bytes().to_vec()
    }

    /// Bytes moved from files since the last call.
    fn take_moved(&mut self) -> u64;

    fn close(&mut self);

    /// An epoch is over: what stayed open beyond `close` is closed.
    fn rest(&mut self) {}
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

    /// The stream of a file's content from `from` to `to`; every piece also goes to `see` (a checksum).
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

/// Returns the name of what packed a file, by its first bytes.
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

/// The facts of a format that packs: the level only matters where something is packed.
pub(super) fn packed_with(dataset: &Dataset, has_levels: bool) -> Vec<(&'static str, Json)> {
    let level = ("compression_level", json!(dataset.compression_level));
    let compression = ("compression", json!(dataset.compression));
    if dataset.compression == "none" || !has_levels { vec![compression] } else { vec![compression, level] }
}

/// A difference in one thing, with both sides.
pub(super) fn other<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, asked: &T) -> Option<String> {
    (found != asked).then(|| format!("{what} {found:?} instead of {asked:?}"))
}

pub(super) fn content_of(spec: &FileSpec) -> Content {
    Content::new(spec.content_seed, spec.element)
}

/// Bytes `from..to` of a file's content at once, for formats that cannot stream.
pub(super) fn gathered(spec: &FileSpec, from: u64, to: u64, scratch: &mut Vec<u8>) -> Vec<u8> {
    let mut all = Vec::with_capacity((to - from) as usize);
    let _ = content_of(spec).pieces(from, to, scratch, |piece| -> Result<(), ()> {
        all.extend_from_slice(piece);
        Ok(())
    });
    all
}

/// The bytes of a sample in files that have one after another.
pub(super) fn sample_of(spec: &FileSpec, sample: u64) -> Vec<u8> {
    gathered(spec, sample * spec.sample_bytes(), (sample + 1) * spec.sample_bytes(), &mut Vec::new())
}

/// The same in files whose arrays have the sample as their last axis.
pub(super) fn last_axis_sample(spec: &FileSpec, sample: u64) -> Vec<u8> {
    let all = gathered(spec, 0, spec.payload_bytes(), &mut Vec::new());
    strided_sample(&all, spec.element, spec.samples, sample)
}

/// Bytes of a sample that no index is believed without a look at its file.
pub(super) const LARGE: u64 = 256 << 20;

/// Sample `index` of an array whose last axis is the sample, as NumPy's `x[..., index]` in order.
pub fn strided_sample(array: &[u8], element: Element, samples: u64, index: u64) -> Vec<u8> {
    let (size, stride) = (element.bytes as usize, (element.bytes * samples) as usize);
    let first = index as usize * size;
    array.chunks_exact(stride).flat_map(|row| row[first..first + size].iter().copied()).collect()
}
