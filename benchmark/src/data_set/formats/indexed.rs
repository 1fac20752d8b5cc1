//! `indexed_binary` and `mmap_indexed_binary`: raw samples in one file, and two index files of u64: the offset of each
//! sample (`.off.idx`) and its length (`.sz.idx`). Offsets count from the start of the file, however large it is.
//!
//! The mapped reader copies the sample out of the map: a slice that is never accessed reads nothing from storage. It
//! maps a file once per epoch, regardless of `reader.read_type`, as in DLIO. Index files are read once and kept, as in
//! frameworks; large ones are mapped.

use super::format::{Format, LARGE, Output, Reader, content_of, other};
use crate::config::Dataset;
use crate::data_set::layout::FileSpec;
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Input};
use crate::system::buffer::{AlignedBuffer, FileMap};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub struct Indexed {
    pub map: bool,
}

const OFFSETS: &str = ".off.idx";
const SIZES: &str = ".sz.idx";

impl Format for Indexed {
    fn name(&self) -> &'static str {
        if self.map { "mmap_indexed_binary" } else { "indexed_binary" }
    }

    fn write(&self, spec: &FileSpec, _: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        let size = spec.sample_bytes();
        let offsets = draft.companion(&beside(&spec.path, OFFSETS))?;
        let sizes = draft.companion(&beside(&spec.path, SIZES))?;
        write_index(&offsets, &spec.path, (0..spec.samples).map(|sample| sample * size))?;
        write_index(&sizes, &spec.path, (0..spec.samples).map(|_| size))?;
        let mut output = Output::create(draft, &spec.path)?;
        output.write_content(content_of(spec), 0..spec.payload_bytes(), scratch, |_| {})
    }

    fn file_bytes(&self, spec: &FileSpec, _: &Dataset) -> Option<u64> {
        Some(spec.payload_bytes())
    }

    fn differs(&self, spec: &FileSpec, _: &Dataset) -> Option<String> {
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        let index = 8 * spec.samples;
        other("bytes:", &length(&spec.path), &spec.payload_bytes())
            .or_else(|| other("bytes of the index:", &length(&beside(&spec.path, OFFSETS)), &index))
            .or_else(|| other("bytes of the index:", &length(&beside(&spec.path, SIZES)), &index))
    }

    fn companions(&self, spec: &FileSpec) -> Vec<PathBuf> {
        vec![beside(&spec.path, OFFSETS), beside(&spec.path, SIZES)]
    }

    fn reads_whole(&self) -> bool {
        false
    }

    fn keeps_files(&self, access: Access) -> bool {
        self.map && access.map && !access.direct
    }

    fn reader(&self, _: &Dataset, access: Access) -> Box<dyn Reader> {
        let map = self.keeps_files(access);
        Box::new(IndexedReader { access, map, ..IndexedReader::default() })
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    PathBuf::from(name)
}

fn write_index(temporary: &Path, data: &Path, numbers: impl Iterator<Item = u64>) -> Outcome<()> {
    let failed = |error| Failure::io("write the index of", data, error);
    let mut file = BufWriter::new(File::create(temporary).map_err(failed)?);
    for number in numbers {
        file.write_all(&number.to_le_bytes()).map_err(failed)?;
    }
    file.flush().map_err(failed)
}

/// The numbers of one of the two index files.
enum Numbers {
    Read(Vec<u8>),
    /// An index of a quarter of a billion samples is mapped, so that its pages can be evicted.
    Mapped(FileMap, u64),
}

/// The maximum size of an index that is kept in memory, enough for four million samples.
const KEPT_FILE: u64 = 32 << 20;
/// The maximum size of all indexes that a reader keeps; beyond this it drops them all.
const KEPT_ALL: u64 = 64 << 20;

impl Numbers {
    /// Opens an index; returns the numbers, and the bytes read for them. A mapped file counts in full, because all of
    /// it will be read once.
    fn open(path: &Path) -> Outcome<(Numbers, u64)> {
        let mut input = Input::open(path, Access::default())?;
        // An object takes one request, which also returns its size.
        let length = input.length_of_stream(0)?;
        if let Some(file) = input.file().filter(|_| length > KEPT_FILE) {
            let map = FileMap::new(file, length as usize);
            return Ok((Numbers::Mapped(map.map_err(|error| Failure::io("map", path, error))?, length), length));
        }
        let mut bytes = vec![0; length as usize];
        input.read_on_at(0, &mut bytes)?;
        Ok((Numbers::Read(bytes), input.take_moved()))
    }

    fn get(&self, index: u64) -> Option<u64> {
        let at = usize::try_from(index.checked_mul(8)?).ok()?;
        let mut eight = [0; 8];
        match self {
            Numbers::Read(bytes) => eight.copy_from_slice(bytes.get(at..at.checked_add(8)?)?),
            Numbers::Mapped(_, length) if at as u64 + 8 > *length => return None,
            Numbers::Mapped(map, _) => map.copy(at, &mut eight),
        }
        Some(u64::from_le_bytes(eight))
    }

    fn kept_bytes(&self) -> u64 {
        if let Numbers::Read(bytes) = self { bytes.len() as u64 } else { 0 }
    }
}

/// The offsets and lengths of the samples of a file.
struct Index {
    offsets: Numbers,
    sizes: Numbers,
}

/// The indexes of the files that a reader has visited.
#[derive(Default)]
struct Indexes {
    known: HashMap<PathBuf, Index>,
    kept: u64,
}

impl Indexes {
    /// Reads the index of a new file; returns the bytes read.
    fn learn(&mut self, path: &Path) -> Outcome<u64> {
        if self.known.contains_key(path) {
            return Ok(0);
        }
        let (offsets, first) = Numbers::open(&beside(path, OFFSETS))?;
        let (sizes, second) = Numbers::open(&beside(path, SIZES))?;
        // Path and table entry have a cost too: a million small files have small indexes.
        let kept = offsets.kept_bytes() + sizes.kept_bytes() + 2 * path.as_os_str().len() as u64 + 256;
        if self.kept + kept > KEPT_ALL {
            (self.known, self.kept) = (HashMap::new(), 0);
        }
        self.kept += kept;
        self.known.insert(path.to_path_buf(), Index { offsets, sizes });
        Ok(first + second)
    }

    /// Returns the offset and length of a sample.
    fn place(&self, path: &Path, index: u64) -> Outcome<(u64, u64)> {
        let known = self.known.get(path);
        let place = known.and_then(|known| Some((known.offsets.get(index)?, known.sizes.get(index)?)));
        place.ok_or_else(|| Failure::damaged(&beside(path, OFFSETS), format!("sample {index} does not exist")))
    }
}

/// The maximum number of files that a reader keeps mapped; beyond this the oldest is unmapped.
const MAPS_MAX: usize = 1024;

/// The maps that a reader created in an epoch, by number, oldest first.
#[derive(Default)]
struct Maps {
    numbers: HashMap<PathBuf, u64>,
    maps: VecDeque<(PathBuf, FileMap, u64)>,
    /// The number of the oldest map.
    first: u64,
}

impl Maps {
    /// Returns the number of a file's map, which is created if needed. `None` for an object.
    fn of(&mut self, path: &Path, access: Access) -> Outcome<Option<u64>> {
        if let Some(number) = self.numbers.get(path) {
            return Ok(Some(*number));
        }
        let mut data = Input::open(path, access)?;
        let length = if data.file().is_some() { data.length()? } else { 0 };
        let Some(file) = data.file() else { return Ok(None) };
        let map = FileMap::new(file, length as usize).map_err(|error| Failure::io("map", path, error))?;
        if self.maps.len() >= MAPS_MAX
            && let Some((oldest, ..)) = self.maps.pop_front()
        {
            self.numbers.remove(&oldest);
            self.first += 1;
        }
        let number = self.first + self.maps.len() as u64;
        self.numbers.insert(path.to_path_buf(), number);
        self.maps.push_back((path.to_path_buf(), map, length));
        Ok(Some(number))
    }

    /// Returns the map with the number returned last, and its length.
    fn get(&self, number: u64) -> Option<(&FileMap, u64)> {
        self.maps.get((number - self.first) as usize).map(|(_, map, length)| (map, *length))
    }
}

struct Open {
    path: PathBuf,
    origin: Origin,
}

/// The source of samples.
enum Origin {
    Read(Input),
    /// The number of the map.
    Mapped(u64),
}

#[derive(Default)]
struct IndexedReader {
    access: Access,
    map: bool,
    open: Option<Open>,
    maps: Maps,
    indexes: Indexes,
    buffer: AlignedBuffer,
    start: usize,
    length: usize,
    moved: u64,
}

impl Reader for IndexedReader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        let mapped = if self.map { self.maps.of(path, self.access)? } else { None };
        let origin = match mapped {
            Some(number) => Origin::Mapped(number),
            None => Origin::Read(Input::open(path, self.access)?),
        };
        self.moved += self.indexes.learn(path)?;
        self.open = Some(Open { path: path.to_path_buf(), origin });
        Ok(())
    }

    fn sample(&mut self, index: u64) -> Outcome<()> {
        let open = self.open.as_mut().expect("a reader is opened before it reads");
        let (offset, length) = self.indexes.place(&open.path, index)?;
        let there = match &mut open.origin {
            Origin::Mapped(number) => self.maps.get(*number).map_or(0, |(_, length)| length),
            // The range request on an object reports missing bytes itself; for a large sample, check the size before
            // allocating memory.
            Origin::Read(data) if data.file().is_some() || length > LARGE => data.length()?,
            Origin::Read(_) => u64::MAX,
        };
        if offset.checked_add(length).is_none_or(|end| end > there) {
            let what = format!("sample {index} would end after the {there} bytes of the file");
            return Err(Failure::damaged(&open.path, what));
        }
        let length = length as usize;
        self.length = length;
        match &mut open.origin {
            Origin::Mapped(number) => {
                if let Some((map, _)) = self.maps.get(*number) {
                    map.copy(offset as usize, &mut self.buffer.space(length)[..length]);
                }
                self.start = 0;
                self.moved += length as u64;
            }
            Origin::Read(data) => {
                self.start = data.read_part(offset, length, &mut self.buffer)?;
                self.moved += data.take_moved();
            }
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer.bytes(self.start + self.length)[self.start..]
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.open = None;
    }

    fn end_epoch(&mut self) {
        self.maps = Maps::default();
    }
}
