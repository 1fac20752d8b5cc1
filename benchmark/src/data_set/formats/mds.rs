//! `mds`: the shards of Mosaic's streaming data sets, `shard.00000.mds`, ..., and `index.json`, which its reader opens
//! first. A sample has two columns: `image` (its bytes) and `label` (an integer).
//!
//! ```text
//! u32 samples | u32 offset of each sample, and of the end | configuration as JSON | samples
//! sample: u32 size of each column whose size varies | columns, by name
//! ```
//!
//! A sample is read by its number: two offsets, then its bytes. Offsets are kept, as Mosaic's reader keeps the index.

use super::format::{Format, LARGE, Output, Reader, content_of, packer_of};
use crate::config::Dataset;
use crate::data_set::layout::{FileSpec, Layout, Split};
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Input};
use crate::system::buffer::AlignedBuffer;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

pub struct Mds;

/// The bytes of a sample's size and label.
const AROUND: u64 = 4 + 8;
/// The maximum size of the offsets that are kept; beyond this a reader drops them all.
const KEPT_MAX: usize = 64 << 20;

/// Returns the configuration in a shard, its keys sorted.
fn configuration() -> Json {
    json!({
        "column_encodings": ["bytes", "int"],
        "column_names": ["image", "label"],
        "column_sizes": [null, 8],
        "compression": null,
        "format": "mds",
        "hashes": [],
        "size_limit": 67_108_864,
        "version": 2,
    })
}

fn head_bytes(samples: u64) -> u64 {
    4 + 4 * (samples + 1) + configuration().to_string().len() as u64
}

fn shard_bytes(spec: &FileSpec) -> u64 {
    head_bytes(spec.samples) + spec.samples * (spec.sample_bytes() + AROUND)
}

/// Returns `true` if the shard's offsets fit into 32 bits.
pub fn fits(spec: &FileSpec) -> bool {
    shard_bytes(spec) <= u64::from(u32::MAX)
}

impl Format for Mds {
    fn name(&self) -> &'static str {
        "mds"
    }

    fn write(&self, spec: &FileSpec, _: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        if !fits(spec) {
            return Err(Failure::refused(format!("{}: shards of mds must be smaller than 4 GiB", spec.path.display()))
                .remedy("use fewer samples per file: ++workload.dataset.num_samples_per_file"));
        }
        let (size, first) = (spec.sample_bytes(), head_bytes(spec.samples));
        let mut output = Output::create(draft, &spec.path)?;
        let offsets = (0..=spec.samples).map(|sample| (first + sample * (size + AROUND)) as u32);
        let numbers: Vec<u8> = std::iter::once(spec.samples as u32).chain(offsets).flat_map(u32::to_le_bytes).collect();
        output.write(&numbers)?;
        output.write(configuration().to_string().as_bytes())?;
        for sample in 0..spec.samples {
            output.write(&(size as u32).to_le_bytes())?;
            output.write_content(content_of(spec), sample * size..(sample + 1) * size, scratch, |_| {})?;
            output.write(&0i64.to_le_bytes())?;
        }
        Ok(())
    }

    fn file_bytes(&self, spec: &FileSpec, _: &Dataset) -> Option<u64> {
        Some(shard_bytes(spec))
    }

    /// Returns the list of all shards, which its reader opens first.
    fn index(&self, layout: &Layout, split: Split) -> Option<(PathBuf, Vec<u8>)> {
        let mut shapes = layout.shapes();
        let first = if split == Split::Valid { layout.files(Split::Train) } else { 0 };
        let shard = |within: u64| {
            let number = first + within;
            let spec = layout.spec(number, shapes.at(layout.drawn(number)));
            let name = spec.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut shard = configuration();
            shard["raw_data"] = json!({"basename": name, "bytes": shard_bytes(&spec), "hashes": {}});
            shard["samples"] = json!(spec.samples);
            shard["zip_data"] = Json::Null;
            shard
        };
        let shards: Vec<Json> = (0..layout.files(split)).map(shard).collect();
        let path = layout.folders_of(split).first()?.join("index.json");
        Some((path, json!({"shards": shards, "version": 2}).to_string().into_bytes()))
    }

    fn reads_whole(&self) -> bool {
        false
    }

    fn reader(&self, _: &Dataset, access: Access) -> Box<dyn Reader> {
        Box::new(MdsReader { access, ..MdsReader::default() })
    }
}

#[derive(Default)]
struct MdsReader {
    access: Access,
    input: Option<Input>,
    /// The offsets of the shards that a reader has visited.
    offsets: HashMap<PathBuf, Vec<u32>>,
    kept: usize,
    buffer: AlignedBuffer,
    /// The range of the last sample's bytes in the buffer.
    place: std::ops::Range<usize>,
    moved: u64,
}

impl MdsReader {
    fn learn(&mut self, path: &Path) -> Outcome<()> {
        if self.offsets.contains_key(path) {
            return Ok(());
        }
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        let mut four = [0; 4];
        input.read_exact_at(0, &mut four)?;
        let count = u32::from_le_bytes(four) as usize + 1;
        if count * 4 > KEPT_MAX {
            if let Some(packer) = packer_of(&four) {
                return Err(Failure::damaged(
                    path,
                    format!("its samples are compressed with {packer}, which is not supported"),
                )
                .remedy("write the shards without compression"));
            }
            return Err(Failure::damaged(path, format!("its header announces {} samples", count - 1)));
        }
        let mut bytes = vec![0; count * 4];
        input.read_exact_at(4, &mut bytes)?;
        self.moved += input.take_moved();
        let offsets: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four)).collect();
        if self.kept + bytes.len() > KEPT_MAX {
            (self.offsets, self.kept) = (HashMap::new(), 0);
        }
        self.kept += bytes.len() + path.as_os_str().len() + 128;
        self.offsets.insert(path.to_path_buf(), offsets);
        Ok(())
    }
}

impl Reader for MdsReader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        self.input = Some(Input::open(path, self.access)?);
        self.learn(path)
    }

    fn sample(&mut self, index: u64) -> Outcome<()> {
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        let path = input.path().to_path_buf();
        let offsets = self.offsets.get(&path).map_or(&[][..], Vec::as_slice);
        let damaged = |what: String| Failure::damaged(&path, what);
        let ends = offsets.get(index as usize).zip(offsets.get(index as usize + 1));
        let (begin, end) = ends.ok_or_else(|| damaged(format!("sample {index} does not exist")))?;
        let length = end.checked_sub(*begin).filter(|length| u64::from(*length) >= AROUND);
        let length = length.ok_or_else(|| damaged(format!("the offsets of sample {index} are invalid")))? as usize;
        // The range request on an object reports missing bytes itself; for a large sample, check the size before
        // allocating memory.
        let is_told = input.file().is_some() || length as u64 > LARGE;
        if is_told && u64::from(*end) > input.length()? {
            return Err(damaged(format!("sample {index} ends after the end of the shard")));
        }
        let space = &mut self.buffer.space(length)[..length];
        input.read_exact_at(u64::from(*begin), space)?;
        self.moved += input.take_moved();
        let size = u32::from_le_bytes(*space.first_chunk::<4>().expect("longer than the shard")) as usize;
        if size > length - 4 {
            return Err(damaged(format!("sample {index} has {length} bytes, but its header announces {size}")));
        }
        self.place = 4..4 + size;
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer.bytes(self.place.end)[self.place.start..]
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.input = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_offsets_are_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard.00000.mds");
        let write = |numbers: &[u32]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).chain([0; 100]).collect();
            std::fs::write(&path, bytes).unwrap();
            let mut reader = MdsReader::default();
            reader.open(&path).and_then(|()| reader.sample(0)).unwrap_err()
        };
        for numbers in [&[1, 12, 4000][..], &[1, 40, 20], &[0, 4], &[u32::MAX, 1], &[9]] {
            let failure = write(numbers);
            assert!(failure.exit_code() == 5 && failure.what.contains("shard.00000.mds"), "{numbers:?}: {failure}");
        }
    }

    #[test]
    fn the_configuration_has_its_keys_in_order() {
        let text = configuration().to_string();
        let places: Vec<usize> =
            ["column_encodings", "column_names", "column_sizes", "compression", "format", "version"]
                .iter()
                .map(|key| text.find(key).unwrap())
                .collect();
        assert!(places.is_sorted(), "{text}");
    }
}
