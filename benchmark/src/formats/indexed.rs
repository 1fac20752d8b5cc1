//! `indexed_binary` and `mmap_indexed_binary`: raw samples in one file, and two index files of u64: where each sample
//! begins (`.off.idx`) and how long it is (`.sz.idx`). Offsets count from the start of the file, however large it is.
//!
//! The mapped reader copies the sample out of the map: a slice that nobody looks at reads nothing from storage.

use super::{Format, Output, Reader, content_of};
use crate::buffer::{AlignedBuffer, FileMap};
use crate::config::Dataset;
use crate::draft::Draft;
use crate::failure::{Failure, Outcome};
use crate::input::{Access, Input};
use crate::layout::FileSpec;
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

    fn write(&self, spec: &FileSpec, _: &Dataset, draft: &mut Draft, scratch: &mut Vec<u8>) -> Outcome<()> {
        let size = spec.sample_bytes();
        let offsets = draft.companion(&beside(&spec.path, OFFSETS));
        let sizes = draft.companion(&beside(&spec.path, SIZES));
        write_index(&offsets, &spec.path, (0..spec.samples).map(|sample| sample * size))?;
        write_index(&sizes, &spec.path, (0..spec.samples).map(|_| size))?;
        let mut output = Output::create(draft, &spec.path)?;
        output.write_content(content_of(spec), 0..spec.payload_bytes(), scratch, |_| {})
    }

    fn file_bytes(&self, spec: &FileSpec, _: &Dataset) -> Option<u64> {
        Some(spec.payload_bytes())
    }

    fn reader(&self, _: &Dataset, access: Access) -> Box<dyn Reader> {
        let map = self.map && access.map && !access.direct;
        Box::new(IndexedReader { access, map, ..IndexedReader::default() })
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    PathBuf::from(name)
}

fn write_index(temporary: &Path, data: &Path, numbers: impl Iterator<Item = u64>) -> Outcome<()> {
    let failed = |error| Failure::io("writing the index of", data, error);
    let mut file = BufWriter::new(File::create(temporary).map_err(failed)?);
    for number in numbers {
        file.write_all(&number.to_le_bytes()).map_err(failed)?;
    }
    file.flush().map_err(failed)
}

/// One of the two index files, seen through a window: an index of a quarter of a billion samples is never loaded.
struct Index {
    input: Input,
    window: Vec<u8>,
    first: u64,
}

/// Numbers of an index read at once.
const INDEX_WINDOW: u64 = 512;

impl Index {
    fn open(path: &Path) -> Outcome<Index> {
        Ok(Index { input: Input::open(path, Access::default())?, window: Vec::new(), first: 0 })
    }

    fn number(&mut self, index: u64) -> Outcome<u64> {
        let count = self.input.length() / 8;
        if index >= count {
            return Err(Failure::damaged(self.input.path(), format!("sample {index} of {count} does not exist")));
        }
        if self.window.is_empty() || !(self.first..self.first + INDEX_WINDOW).contains(&index) {
            self.first = index - index % INDEX_WINDOW;
            self.window.resize((INDEX_WINDOW.min(count - self.first) * 8) as usize, 0);
            self.input.read_exact_at(self.first * 8, &mut self.window)?;
        }
        let at = ((index - self.first) * 8) as usize;
        Ok(u64::from_le_bytes(self.window[at..at + 8].try_into().expect("eight bytes")))
    }
}

struct Open {
    path: PathBuf,
    data: Input,
    map: Option<FileMap>,
    offsets: Index,
    sizes: Index,
}

#[derive(Default)]
struct IndexedReader {
    access: Access,
    map: bool,
    open: Option<Open>,
    buffer: AlignedBuffer,
    start: usize,
    length: usize,
    moved: u64,
}

impl Reader for IndexedReader {
    /// Index files stay open with the file itself: frameworks load them once.
    fn open(&mut self, path: &Path) -> Outcome<()> {
        let data = Input::open(path, self.access)?;
        let map = match self.map {
            true => Some(
                FileMap::new(data.file(), data.length() as usize)
                    .map_err(|error| Failure::io("mapping", path, error))?,
            ),
            false => None,
        };
        let offsets = Index::open(&beside(path, OFFSETS))?;
        let sizes = Index::open(&beside(path, SIZES))?;
        self.open = Some(Open { path: path.to_path_buf(), data, map, offsets, sizes });
        Ok(())
    }

    fn sample(&mut self, index: u64) -> Outcome<()> {
        let open = self.open.as_mut().expect("a reader is opened before it reads");
        let (offset, length) = (open.offsets.number(index)?, open.sizes.number(index)? as usize);
        // Counted also where the index says nonsense: those bytes were read.
        self.moved += open.offsets.input.take_moved() + open.sizes.input.take_moved();
        let end = offset.checked_add(length as u64).filter(|end| *end <= open.data.length());
        if end.is_none() {
            let what = format!("sample {index} would end beyond the {} bytes of the file", open.data.length());
            return Err(Failure::damaged(&open.path, what));
        }
        self.length = length;
        match &open.map {
            Some(map) => {
                map.copy(offset as usize, &mut self.buffer.space(length)[..length]);
                self.start = 0;
                self.moved += length as u64;
            }
            None => {
                self.start = open.data.read_part(offset, length, &mut self.buffer)?;
                self.moved += open.data.take_moved();
            }
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer.bytes(self.start + self.length)[self.start..]
    }

    fn content(&self, _: u64) -> Vec<u8> {
        self.bytes().to_vec()
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.open = None;
    }
}
