//! `.npz`: a zip of `x.npy` (the samples, sample axis last) and `y.npy` (labels, zeros), as `numpy.savez` lays it out.

use super::containers::zip::{self, Member, Method};
use super::format::{
    Format, Output, Reader, content_of, gathered, last_axis_sample, other, packed_with, strided_sample,
};
use super::npy::{self, Array, header, shape};
use crate::config::Dataset;
use crate::data_set::layout::FileSpec;
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Input, open_regular};
use crate::system::buffer::AlignedBuffer;
use serde_json::Value as Json;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub struct Npz;

const SAMPLES: &str = "x.npy";
const LABELS: &str = "y.npy";
const WRONG_CRC: &str = "the samples have a wrong checksum";

impl Format for Npz {
    fn name(&self) -> &'static str {
        "npz"
    }

    fn write(&self, spec: &FileSpec, dataset: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        let level = (dataset.compression == "zip").then_some(dataset.compression_level);
        let mut output = Output::create(draft, &spec.path)?;
        let samples = match level {
            None => stored_samples(spec, &mut output, scratch)?,
            Some(level) => {
                let mut bytes = header_of(spec);
                bytes.extend(gathered(spec, 0, spec.payload_bytes(), scratch));
                member(SAMPLES, &bytes, Some(level), &mut output)?
            }
        };
        let labels = member(LABELS, &labels(spec), level, &mut output)?;
        let start = output.at;
        output.write(&zip::directory(&[samples, labels], start))
    }

    fn file_bytes(&self, spec: &FileSpec, dataset: &Dataset) -> Option<u64> {
        if dataset.compression == "zip" {
            return None;
        }
        let samples = header_of(spec).len() as u64 + spec.payload_bytes();
        let labels = labels(spec).len() as u64;
        let start = zip::local_header_bytes(SAMPLES) + samples + zip::local_header_bytes(LABELS) + labels;
        // Beyond four gigabytes the directory has wider fields; such files are recognized by their content.
        (start < u64::from(u32::MAX)).then_some(start + zip::narrow_directory_bytes(&[SAMPLES, LABELS]))
    }

    fn made_with(&self, dataset: &Dataset) -> Vec<(&'static str, Json)> {
        packed_with(dataset, true)
    }

    fn differs(&self, spec: &FileSpec, dataset: &Dataset) -> Option<String> {
        let asked = if dataset.compression == "zip" { Method::Deflated } else { Method::Stored };
        let Some(samples) = samples_of(&spec.path) else { return Some("not a complete npz file".into()) };
        other("method", &samples.method, &asked).or_else(|| match samples.method {
            Method::Stored => npy::differs_from(&spec.path, samples.data_at, spec),
            Method::Deflated => {
                other("bytes of samples", &samples.size, &(header_of(spec).len() as u64 + spec.payload_bytes()))
            }
        })
    }

    fn expected(&self, spec: &FileSpec, _: &Dataset, sample: u64) -> Outcome<Vec<u8>> {
        Ok(last_axis_sample(spec, sample))
    }

    fn reader(&self, _: &Dataset, access: Access) -> Box<dyn Reader> {
        Box::new(NpzReader { access, ..NpzReader::default() })
    }
}

fn header_of(spec: &FileSpec) -> Vec<u8> {
    header(spec.element.descr, &shape(spec))
}

/// Returns the member with the samples, written by any program.
fn samples_of(path: &Path) -> Option<zip::Entry> {
    let (file, _) = open_regular(path, 0).ok()?;
    zip::entries(&file)?.into_iter().find(|entry| entry.name == SAMPLES)
}

fn labels(spec: &FileSpec) -> Vec<u8> {
    let mut bytes = header("<i8", &[spec.samples]);
    bytes.resize(bytes.len() + spec.samples as usize * 8, 0);
    bytes
}

/// Streams the samples; then fills in their checksum, which precedes them.
fn stored_samples(spec: &FileSpec, output: &mut Output, scratch: &mut Vec<u8>) -> Outcome<Member> {
    let array_header = header_of(spec);
    let size = array_header.len() as u64 + spec.payload_bytes();
    let mut member = Member { name: SAMPLES.into(), method: Method::Stored, crc: 0, packed: size, size, at: output.at };
    output.write(&zip::local_header(&member))?;
    output.write(&array_header)?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&array_header);
    output.write_content(content_of(spec), 0..spec.payload_bytes(), scratch, |piece| crc.update(piece))?;
    member.crc = crc.finalize();
    let header = zip::local_header(&member);
    output.file.write_all_at(&header, member.at).map_err(|error| Failure::io("write", output.path, error))?;
    Ok(member)
}

fn member(name: &str, bytes: &[u8], level: Option<u32>, output: &mut Output) -> Outcome<Member> {
    let packed = level.map(|level| zip::deflated(bytes, level));
    let method = if level.is_some() { Method::Deflated } else { Method::Stored };
    let stored = packed.as_deref().unwrap_or(bytes);
    let member = Member {
        name: name.into(),
        method,
        crc: crc32fast::hash(bytes),
        packed: stored.len() as u64,
        size: bytes.len() as u64,
        at: output.at,
    };
    output.write(&zip::local_header(&member))?;
    output.write(stored)?;
    Ok(member)
}

/// The location of the samples in the buffer.
enum Samples {
    InFile { array: Array, start: usize },
    Inflated { array: Array, bytes: Vec<u8> },
}

impl Samples {
    fn array(&self) -> &Array {
        match self {
            Samples::InFile { array, .. } | Samples::Inflated { array, .. } => array,
        }
    }
}

#[derive(Default)]
struct NpzReader {
    access: Access,
    input: Option<Input>,
    buffer: AlignedBuffer,
    length: usize,
    samples: Option<Samples>,
    moved: u64,
}

impl NpzReader {
    /// Reads the whole file at once, because the member makes up most of the file, and the directory at its end is needed, too.
    fn load(&mut self) -> Outcome<()> {
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        self.length = input.read_whole(&mut self.buffer)?;
        self.moved += input.take_moved();
        let path = input.path();
        let found = zip::find(path, self.buffer.bytes(self.length), |name| name == SAMPLES)?;
        // As in Python's zipfile, which checks a member that is read to its end.
        let wrong = |bytes| !self.access.unchecked && crc32fast::hash(bytes) != found.crc;
        self.samples = Some(match found.method {
            Method::Stored if wrong(found.packed) => return Err(Failure::damaged(path, WRONG_CRC)),
            Method::Stored => {
                let array = Array::parse(path, found.packed)?;
                array.data(path, found.packed)?;
                Samples::InFile { start: found.start + array.start, array }
            }
            Method::Deflated => {
                let bytes = zip::inflated(path, found.packed, found.size)?;
                if wrong(&bytes) {
                    return Err(Failure::damaged(path, WRONG_CRC));
                }
                let array = Array::parse(path, &bytes)?;
                array.data(path, &bytes)?;
                Samples::Inflated { array, bytes }
            }
        });
        Ok(())
    }
}

impl Reader for NpzReader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        self.input = Some(Input::open(path, self.access)?);
        self.samples = None;
        Ok(())
    }

    fn sample(&mut self, index: u64) -> Outcome<()> {
        if self.samples.is_none() || !self.access.keep_open {
            self.load()?;
        }
        match (&self.samples, &self.input) {
            (Some(samples), Some(input)) => samples.array().check_sample(input.path(), index),
            _ => Ok(()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.samples {
            None => &[],
            Some(Samples::InFile { array, start }) => &self.buffer.bytes(self.length)[*start..start + array.bytes()],
            Some(Samples::Inflated { array, bytes }) => &bytes[array.start..array.start + array.bytes()],
        }
    }

    fn content(&self, index: u64) -> Vec<u8> {
        let Some(samples) = &self.samples else { return Vec::new() };
        strided_sample(self.bytes(), samples.array().element, samples.array().samples(), index)
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.input = None;
    }
}
