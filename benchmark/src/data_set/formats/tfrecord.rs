//! `.tfrecord`: TensorFlow's framed records, each an `Example` with the features `image` (bytes) and `size` (its
//! length), and the text index that DALI reads.
//!
//! ```text
//! u64 length | u32 masked crc32c of the 8 bytes | Example | u32 masked crc32c of the Example       (a record)
//! <offset> <bytes with frame>\n                                                                    (index, one line each)
//! ```

use super::containers::window::Window;
use super::format::{Format, LARGE, Output, Reader, content_of};
use crate::config::Dataset;
use crate::data_set::layout::FileSpec;
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Input};
use crate::store;
use crate::system::checksum::masked;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub struct TfRecord;

const HEAD: usize = 12;
const FRAME: u64 = 16;

impl Format for TfRecord {
    fn name(&self) -> &'static str {
        "tfrecord"
    }

    fn write(&self, spec: &FileSpec, _: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        let index_path = draft.companion(&spec.index_path)?;
        let mut output = Output::create(draft, &spec.path)?;
        let mut index = String::new();
        for sample in 0..spec.samples {
            let at = output.at;
            record(spec, sample, &mut output, scratch)?;
            let _ = writeln!(index, "{at} {}", output.at - at);
        }
        std::fs::write(&index_path, index).map_err(|error| Failure::io("write", &spec.index_path, error))
    }

    fn file_bytes(&self, spec: &FileSpec, _: &Dataset) -> Option<u64> {
        let (before, after) = example(spec.sample_bytes());
        Some(spec.samples * (FRAME + before.len() as u64 + spec.sample_bytes() + after.len() as u64))
    }

    fn companions(&self, spec: &FileSpec) -> Vec<PathBuf> {
        vec![spec.index_path.clone()]
    }

    fn reader(&self, _: &Dataset, access: Access) -> Box<dyn Reader> {
        Box::new(RecordReader { access, ..RecordReader::default() })
    }
}

fn record(spec: &FileSpec, sample: u64, output: &mut Output, scratch: &mut Vec<u8>) -> Outcome<()> {
    let bytes = spec.sample_bytes();
    let (before, after) = example(bytes);
    let length = (before.len() as u64 + bytes + after.len() as u64).to_le_bytes();
    let mut head = length.to_vec();
    head.extend(masked(crc32c::crc32c(&length)).to_le_bytes());
    head.extend(&before);
    output.write(&head)?;
    let mut crc = crc32c::crc32c(&before);
    let range = sample * bytes..(sample + 1) * bytes;
    output.write_content(content_of(spec), range, scratch, |piece| crc = crc32c::crc32c_append(crc, piece))?;
    crc = crc32c::crc32c_append(crc, &after);
    let mut tail = after;
    tail.extend(masked(crc).to_le_bytes());
    output.write(&tail)
}

/// Returns an `Example`'s bytes before and after an image of `bytes`.
///
/// ```text
/// Example{1: Features{1: map entry{1: "image", 2: Feature{1: BytesList{1: ...}}}, 1: entry{1: "size", 2: Feature{3: Int64List{1: [n]}}}}}
/// ```
fn example(bytes: u64) -> (Vec<u8>, Vec<u8>) {
    let list = field(1, bytes);
    let feature = field(1, list.len() as u64 + bytes);
    let value = field(2, (feature.len() + list.len()) as u64 + bytes);
    let name = text_field(1, "image");
    let image_bytes = (name.len() + value.len() + feature.len() + list.len()) as u64 + bytes;
    let image = field(1, image_bytes);

    let number = varint(bytes);
    let packed = [field(1, number.len() as u64), number].concat();
    let list64 = [field(3, packed.len() as u64), packed].concat();
    let entry = [text_field(1, "size"), field(2, list64.len() as u64), list64].concat();
    let after = [field(1, entry.len() as u64), entry].concat();

    let features = field(1, image.len() as u64 + image_bytes + after.len() as u64);
    ([features, image, name, value, feature, list].concat(), after)
}

/// Returns the tag and length of a length-delimited field.
fn field(number: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    bytes.extend(varint(length));
    bytes
}

fn text_field(number: u8, text: &str) -> Vec<u8> {
    [field(number, text.len() as u64), text.as_bytes().to_vec()].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Returns the bytes of the feature `image`, at any position in an Example.
fn image_in(example: &[u8]) -> Option<&[u8]> {
    let features = fields(example).find(|(number, _)| *number == 1)?.1;
    let entry = fields(features).map(|(_, entry)| entry).find(|entry| fields(entry).next() == Some((1, b"image")))?;
    let feature = fields(entry).find(|(number, _)| *number == 2)?.1;
    let list = fields(feature).find(|(number, _)| *number == 1)?.1;
    fields(list).find(|(number, _)| *number == 1).map(|(_, bytes)| bytes)
}

/// Iterates over the length-delimited fields of a message, up to the first field of another kind.
fn fields(mut message: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, rest) = take_varint(message)?;
        let (length, rest) = take_varint(rest).filter(|_| tag & 7 == 2)?;
        let inside = rest.get(..length as usize)?;
        message = &rest[length as usize..];
        Some((tag >> 3, inside))
    })
}

fn take_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[place + 1..]));
        }
    }
    None
}

/// Offset and length of each record, including the frame.
type RecordPositions = Vec<(u64, u64)>;

/// The maximum number of records whose offsets a reader keeps, for all its files: 64 MiB. Beyond this it drops them
/// all.
const KEPT_PLACES: usize = 4 << 20;

/// Reads records in order through a window of one transfer. A record out of order, or the first one of a file when
/// samples are requested by index, gets a separate read: the index has its offset and length.
#[derive(Default)]
struct RecordReader {
    access: Access,
    input: Option<Input>,
    window: Window,
    next: u64,
    /// Nothing was read since the file was opened.
    fresh: bool,
    /// Bytes of the record after its head, and of the whole record: the window consumed it last.
    record: usize,
    whole: usize,
    places: HashMap<PathBuf, RecordPositions>,
    kept: usize,
    moved: u64,
}

impl RecordReader {
    fn input(&mut self) -> &mut Input {
        self.input.as_mut().expect("a reader is opened before it reads")
    }

    fn go_to(&mut self, offset: u64, index: u64) {
        self.window.go_to(offset);
        (self.record, self.whole, self.next) = (0, 0, index);
    }

    /// Makes `length` unused bytes available in the window.
    fn need(&mut self, length: usize) -> Outcome<()> {
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        let result = self.window.need(input, length, self.access.transfer);
        self.moved += input.take_moved();
        result
    }

    fn next_record(&mut self) -> Outcome<()> {
        self.need(HEAD)?;
        let head = self.window.next(HEAD);
        let length = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
        let crc = u32::from_le_bytes(head[8..].try_into().expect("four bytes"));
        if crc != masked(crc32c::crc32c(&head[..8])) {
            return Err(self.damaged("the length of a record has a wrong checksum"));
        }
        let record = length as usize;
        let whole = HEAD + record + 4;
        self.need(whole)?;
        let data = self.window.part(HEAD, record);
        let crc = u32::from_le_bytes(self.window.part(HEAD + record, 4).try_into().expect("four bytes"));
        if !self.access.unchecked && crc != masked(crc32c::crc32c(data)) {
            return Err(self.damaged("a record has a wrong checksum"));
        }
        (self.record, self.whole) = (record, whole);
        self.window.pass(whole);
        self.next += 1;
        Ok(())
    }

    fn damaged(&mut self, what: &str) -> Failure {
        let (record, at) = (self.next, self.window.position());
        Failure::damaged(self.input().path(), format!("{what} (record {record} at byte {at})"))
    }

    fn place_of(&mut self, index: u64) -> Outcome<(u64, u64)> {
        let path = self.input().path().to_path_buf();
        if !self.places.contains_key(&path) {
            let places = match index_path(&path).map(|path| read_index(&path)).transpose()?.flatten() {
                Some(places) => places,
                None => self.walk()?,
            };
            // Path and table entry have a cost too.
            let kept = places.len() + 16;
            if self.kept + kept > KEPT_PLACES {
                (self.places, self.kept) = (HashMap::new(), 0);
            }
            self.kept += kept;
            self.places.insert(path.clone(), places);
        }
        let places = self.places.get(&path).map_or(&[][..], Vec::as_slice);
        match places.get(index as usize) {
            Some(place) => Ok(*place),
            None => Err(Failure::damaged(&path, format!("sample {index} of {} does not exist", places.len()))),
        }
    }

    /// Makes exactly one record available. If the index has a wrong length, the record's head corrects it.
    fn go_to_record(&mut self, index: u64) -> Outcome<()> {
        let (offset, length) = self.place_of(index)?;
        self.go_to(offset, index);
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        // The range request on an object reports missing bytes itself; for a large record, check the size before
        // allocating memory.
        let there = match input.file().is_some() || length > LARGE {
            true => input.length()?.saturating_sub(offset),
            false => length,
        };
        let result = self.window.take(input, length.min(there) as usize);
        self.moved += input.take_moved();
        result
    }

    /// Finds the records by their frames, for data without an index.
    fn walk(&mut self) -> Outcome<RecordPositions> {
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        let (mut at, mut places) = (0u64, Vec::new());
        while at < input.length()? {
            let mut length = [0; 8];
            input.read_exact_at(at, &mut length)?;
            let whole = u64::from_le_bytes(length).saturating_add(FRAME);
            places.push((at, whole));
            at = at.saturating_add(whole);
        }
        self.moved += input.take_moved();
        Ok(places)
    }
}

/// Returns the index path: `<data>/index/train/.../f.idx` for `<data>/train/.../f`.
fn index_path(path: &Path) -> Option<PathBuf> {
    let split =
        path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "train" || name == "valid"))?;
    let below = path.strip_prefix(split.parent()?).ok()?;
    let mut name = split.parent()?.join("index").join(below).into_os_string();
    name.push(".idx");
    Some(PathBuf::from(name))
}

/// Returns `None` if the index does not exist or is invalid.
fn read_index(path: &Path) -> Outcome<Option<RecordPositions>> {
    let bytes = if store::is_object(path) { store::get(path)? } else { std::fs::read(path).ok() };
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let place = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse);
        // Without a length, the record's head contains it.
        Some((numbers.next()?.ok()?, numbers.next().and_then(Result::ok).unwrap_or(0)))
    };
    Ok(text.and_then(|text| text.lines().map(place).collect()))
}

impl Reader for RecordReader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        self.input = Some(Input::open(path, self.access)?);
        self.fresh = true;
        self.go_to(0, 0);
        Ok(())
    }

    fn sample(&mut self, index: u64) -> Outcome<()> {
        let fresh = std::mem::take(&mut self.fresh);
        if index != self.next || fresh && self.access.by_index {
            self.go_to_record(index)?;
        }
        self.next_record()
    }

    fn bytes(&self) -> &[u8] {
        if self.whole == 0 {
            return &[];
        }
        image_in(self.window.passed(self.whole - HEAD, self.record)).unwrap_or_default()
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
    fn example_contains_image_and_size() {
        for bytes in [0u64, 1, 127, 128, 300, 70_000] {
            let (before, after) = example(bytes);
            let image = vec![7u8; bytes as usize];
            let whole = [before, image.clone(), after].concat();
            assert_eq!(image_in(&whole), Some(&image[..]), "{bytes}");
        }
    }

    #[test]
    fn checksums_are_masked_like_tensorflows() {
        // The frame of an empty record, as written by TensorFlow.
        assert_eq!(masked(crc32c::crc32c(&0u64.to_le_bytes())).to_le_bytes(), [0x29, 0x03, 0x98, 0x07]);
    }

    #[test]
    fn index_path_follows_the_split() {
        assert_eq!(
            index_path(Path::new("/d/train/03/f.tfrecord")),
            Some(PathBuf::from("/d/index/train/03/f.tfrecord.idx"))
        );
        assert_eq!(index_path(Path::new("/elsewhere/f.tfrecord")), None);
    }
}
