//! `raw`: consecutive samples of one size and nothing else. It can replace any other format if only file sizes and
//! calls matter.

use super::format::{Format, Output, Reader, content_of};
use crate::config::Dataset;
use crate::data_set::layout::FileSpec;
use crate::failure::Outcome;
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Input};
use crate::system::buffer::AlignedBuffer;
use serde_json::{Value as Json, json};
use std::path::Path;

pub struct Raw;

impl Format for Raw {
    fn name(&self) -> &'static str {
        "raw"
    }

    fn write(&self, spec: &FileSpec, _: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        Output::create(draft, &spec.path)?.write_content(content_of(spec), 0..spec.payload_bytes(), scratch, |_| {})
    }

    fn file_bytes(&self, spec: &FileSpec, _: &Dataset) -> Option<u64> {
        Some(spec.payload_bytes())
    }

    fn made_with(&self, dataset: &Dataset) -> Vec<(&'static str, Json)> {
        let sized = (!dataset.file_bytes.is_empty()).then(|| ("file_bytes", json!(dataset.file_bytes)));
        sized.into_iter().collect()
    }

    fn reader(&self, dataset: &Dataset, access: Access) -> Box<dyn Reader> {
        Box::new(RawReader { samples: dataset.samples_per_file.max(1), access, ..RawReader::default() })
    }
}

#[derive(Default)]
struct RawReader {
    access: Access,
    /// In each file.
    samples: u64,
    input: Option<Input>,
    buffer: AlignedBuffer,
    /// Position of the last sample in the buffer.
    last: (usize, usize),
    moved: u64,
}

impl Reader for RawReader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        self.input = Some(Input::open(path, self.access)?);
        Ok(())
    }

    fn sample(&mut self, index: u64) -> Outcome<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let bytes = input.length()? / self.samples;
        let start = input.read_part(index * bytes, bytes as usize, &mut self.buffer)?;
        self.last = (start, bytes as usize);
        self.moved += input.take_moved();
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        let (start, bytes) = self.last;
        &self.buffer.bytes(start + bytes)[start..]
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.input = None;
    }
}
