//! `.npy`: one array, as `numpy.save` writes it. The sample axis is the last one, as in DLIO's files.
//!
//! ```text
//! 93 'NUMPY' 01 00 | u16 header length | {'descr': '|u1', 'fortran_order': False, 'shape': (s, s, n), } blanks \n | data
//! ```

use super::format::{Format, Output, Reader, content_of, last_axis_sample, other, strided_sample};
use crate::config::{Dataset, Element};
use crate::data_set::layout::FileSpec;
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Input, open_regular};
use crate::system::buffer::AlignedBuffer;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub struct Npy;

impl Format for Npy {
    fn name(&self) -> &'static str {
        "npy"
    }

    fn write(&self, spec: &FileSpec, _: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        let mut output = Output::create(draft, &spec.path)?;
        output.write(&header(spec.element.descr, &shape(spec)))?;
        output.write_content(content_of(spec), 0..spec.payload_bytes(), scratch, |_| {})
    }

    fn file_bytes(&self, spec: &FileSpec, _: &Dataset) -> Option<u64> {
        Some(header(spec.element.descr, &shape(spec)).len() as u64 + spec.payload_bytes())
    }

    fn differs(&self, spec: &FileSpec, _: &Dataset) -> Option<String> {
        differs_from(&spec.path, 0, spec)
    }

    fn expected(&self, spec: &FileSpec, _: &Dataset, sample: u64) -> Outcome<Vec<u8>> {
        Ok(last_axis_sample(spec, sample))
    }

    fn reader(&self, _: &Dataset, access: Access) -> Box<dyn Reader> {
        Box::new(NpyReader { access, ..NpyReader::default() })
    }
}

/// Returns the shape of a file's array: sample dimensions, then the samples.
pub fn shape(spec: &FileSpec) -> Vec<u64> {
    spec.dims.iter().copied().chain([spec.samples]).collect()
}

/// NumPy pads headers to this so that the data are aligned.
const HEADER_ALIGNMENT: usize = 64;
const GROWTH_DIGITS: usize = 21;

pub fn header(descr: &str, shape: &[u64]) -> Vec<u8> {
    let comma = if shape.len() == 1 { "," } else { "" };
    let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}", shape.join(", "));
    // NumPy leaves space for the first axis to grow, and at least one blank before the end of the line.
    let growth = GROWTH_DIGITS - shape.first().map_or(0, String::len);
    let unpadded = 10 + text.len() + growth + 1;
    let length = unpadded + HEADER_ALIGNMENT - unpadded % HEADER_ALIGNMENT;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend(((length - 10) as u16).to_le_bytes());
    header.extend(text.as_bytes());
    header.resize(length - 1, b' ');
    header.push(b'\n');
    header
}

/// The maximum header size of a plain array.
const HEADER_MAX: usize = 4096;

/// Returns the differences between the array at offset `at` of the file and the requested one.
pub fn differs_from(path: &Path, at: u64, spec: &FileSpec) -> Option<String> {
    let mut bytes = vec![0; HEADER_MAX];
    let read = open_regular(path, 0).and_then(|(file, _)| file.read_at(&mut bytes, at)).unwrap_or(0);
    let Some(array) = Array::from_bytes(&bytes[..read]) else {
        return Some("not an array of a simple element type".into());
    };
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    let wanted = at + (array.start + array.bytes()) as u64;
    other("elements of type", &array.element.name, &spec.element.name)
        .or_else(|| other("shape", &array.shape, &shape(spec)))
        .or_else(|| (length < wanted).then(|| format!("truncated: {length} of {wanted} bytes")))
}

/// The array that a header describes.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    pub element: Element,
    pub shape: Vec<u64>,
    /// Offset of the data.
    pub start: usize,
}

impl Array {
    pub fn parse(path: &Path, bytes: &[u8]) -> Outcome<Array> {
        Array::from_bytes(bytes)
            .ok_or_else(|| Failure::damaged(path, "this is not a NumPy array of a simple element type"))
    }

    fn from_bytes(bytes: &[u8]) -> Option<Array> {
        let rest = bytes.strip_prefix(b"\x93NUMPY")?;
        let (length, text_start): (usize, usize) = match rest.first()? {
            1 => (usize::from(u16::from_le_bytes(rest.get(2..4)?.try_into().ok()?)), 10),
            _ => (u32::from_le_bytes(rest.get(2..6)?.try_into().ok()?) as usize, 12),
        };
        let text = std::str::from_utf8(bytes.get(text_start..text_start.checked_add(length)?)?).ok()?;
        let descr = text.split("'descr':").nth(1)?.split('\'').nth(1)?;
        let inside = text.split("'shape': (").nth(1)?.split(')').next()?;
        let shape = inside.split(',').map(str::trim).filter(|part| !part.is_empty());
        let array = Array {
            element: Element::described(descr)?,
            shape: shape.map(|part| part.parse().ok()).collect::<Option<_>>()?,
            start: text_start.checked_add(length)?,
        };
        // A product larger than any file is invalid.
        let bytes = array.shape.iter().try_fold(array.element.bytes, |bytes, dim| bytes.checked_mul(*dim));
        bytes.filter(|bytes| *bytes < 1 << 60).map(|_| array)
    }

    pub fn samples(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    pub fn bytes(&self) -> usize {
        (self.shape.iter().product::<u64>() * self.element.bytes) as usize
    }

    /// Returns the data, or an error if some are missing.
    pub fn data<'a>(&self, path: &Path, bytes: &'a [u8]) -> Outcome<&'a [u8]> {
        let end = self.start + self.bytes();
        bytes.get(self.start..end).ok_or_else(|| {
            Failure::damaged(path, format!("the array needs {end} bytes, but the file has {}", bytes.len()))
        })
    }

    pub fn check_sample(&self, path: &Path, index: u64) -> Outcome<()> {
        if index < self.samples() {
            return Ok(());
        }
        Err(Failure::damaged(path, format!("sample {index} of {} does not exist", self.samples())))
    }
}

#[derive(Default)]
struct NpyReader {
    access: Access,
    input: Option<Input>,
    buffer: AlignedBuffer,
    /// The array of the file in the buffer.
    array: Option<Array>,
    moved: u64,
}

impl Reader for NpyReader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        self.input = Some(Input::open(path, self.access)?);
        self.array = None;
        Ok(())
    }

    /// Reads the whole file. The sample axis is the last one, so every sample is spread over the whole file.
    fn sample(&mut self, index: u64) -> Outcome<()> {
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        if self.array.is_none() || !self.access.keep_open {
            let length = input.read_whole(&mut self.buffer)?;
            self.moved += input.take_moved();
            let array = Array::parse(input.path(), self.buffer.bytes(length))?;
            array.data(input.path(), self.buffer.bytes(length))?;
            self.array = Some(array);
        }
        self.array.as_ref().map_or(Ok(()), |array| array.check_sample(input.path(), index))
    }

    fn bytes(&self) -> &[u8] {
        let Some(array) = &self.array else { return &[] };
        &self.buffer.bytes(array.start + array.bytes())[array.start..]
    }

    fn content(&self, index: u64) -> Vec<u8> {
        let Some(array) = &self.array else { return Vec::new() };
        strided_sample(self.bytes(), array.element, array.samples(), index)
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
    fn headers_are_numpys_128_bytes() {
        let header = header("|u1", &[1448, 1448, 1]);
        assert_eq!(header.len(), 128);
        assert!(header.starts_with(
            b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': False, 'shape': (1448, 1448, 1), }"
        ));
        assert_eq!(header.last(), Some(&b'\n'));
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let array = Array::from_bytes(&header("<f4", &[3, 4, 5])).unwrap();
        assert_eq!((array.element.name, array.shape.as_slice(), array.start), ("float32", &[3, 4, 5][..], 128));
        assert_eq!(Array::from_bytes(&header("<i8", &[7])).unwrap().shape, [7]);
    }

    #[test]
    fn rejects_headers_that_are_not_arrays() {
        assert!(Array::from_bytes(&header("|O", &[1])).is_none());
        assert!(Array::from_bytes(b"\x93NUMPY\x01\x00\xff\xff{").is_none());
        assert!(Array::from_bytes(b"").is_none());
    }
}
