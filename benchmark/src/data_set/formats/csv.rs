//! `.csv`: one row per sample, decimal numbers separated by commas, no header and no index, as DLIO has pandas write
//! them. An existing header is skipped. Compressed files have the extension that tells pandas how to read them
//! (`.csv.gz`, ...).

use super::containers::zip::{self, EXPANSION_MAX, Member, Method};
use super::format::{Format, Output, Reader, content_of, other, packed_with, packer_of};
use crate::config::{Dataset, Element};
use crate::data_set::layout::{FileSpec, Layout};
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Input, open_regular};
use crate::system::buffer::AlignedBuffer;
use serde_json::Value as Json;
use std::io::{BufReader, Read, Write};
use std::path::Path;

pub struct Csv;

/// The bytes of samples from which the text size of all samples is estimated.
const SAMPLED: u64 = 1 << 16;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn write(&self, spec: &FileSpec, dataset: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        let mut output = Output::create(draft, &spec.path)?;
        if dataset.compression == "none" {
            return rows(spec, scratch, |text| output.write(text));
        }
        // Compressors get the whole text: pieces would be separate streams in gzip and zip.
        let mut text = Vec::new();
        rows(spec, scratch, |piece| {
            text.extend_from_slice(piece);
            Ok(())
        })?;
        output.write(&packed(spec, dataset, &text)?)
    }

    fn file_bytes(&self, _: &FileSpec, _: &Dataset) -> Option<u64> {
        None
    }

    /// Estimates the growth from the first bytes of a data set: all values have one distribution.
    fn growth(&self, dataset: &Dataset) -> f64 {
        let row = vec![SAMPLED / dataset.element.bytes];
        let spec = Layout::new(dataset).spec(0, row);
        let (spec, mut text) = (FileSpec { samples: 1, ..spec }, Vec::new());
        let _ = rows(&spec, &mut Vec::new(), |piece| {
            text.extend_from_slice(piece);
            Ok(())
        });
        let bytes = match dataset.compression.as_str() {
            "none" => text.len(),
            _ => packed(&spec, dataset, &text).map_or(text.len(), |bytes| bytes.len()),
        };
        1.01 * bytes as f64 / SAMPLED as f64
    }

    fn made_with(&self, dataset: &Dataset) -> Vec<(&'static str, Json)> {
        packed_with(dataset, true)
    }

    /// Compares the numbers of the first row, if they can be read without unpacking.
    fn differs(&self, spec: &FileSpec, dataset: &Dataset) -> Option<String> {
        if dataset.compression != "none" {
            return None;
        }
        let mut columns = 1;
        for byte in BufReader::new(open_regular(&spec.path, 0).ok()?.0).bytes() {
            match byte.ok()? {
                b',' => columns += 1,
                b'\n' => break,
                _ => {}
            }
        }
        other("numbers in a row:", &columns, &spec.sample_elements())
    }

    fn reader(&self, dataset: &Dataset, access: Access) -> Box<dyn Reader> {
        Box::new(CsvReader {
            access,
            element: dataset.element,
            compression: dataset.compression.clone(),
            ..CsvReader::default()
        })
    }
}

/// Writes the text of all samples in pieces.
fn rows(spec: &FileSpec, scratch: &mut Vec<u8>, mut write: impl FnMut(&[u8]) -> Outcome<()>) -> Outcome<()> {
    let bytes = spec.sample_bytes();
    let table = byte_texts();
    let mut text = Vec::new();
    for sample in 0..spec.samples {
        let mut left = bytes;
        content_of(spec).pieces(sample * bytes, (sample + 1) * bytes, scratch, |piece| {
            text.clear();
            numbers(piece, spec.element, &table, &mut text);
            left -= piece.len() as u64;
            if left == 0 {
                // The last comma of a row becomes its line end.
                *text.last_mut().expect("a sample is not empty") = b'\n';
            }
            write(&text)
        })?;
    }
    Ok(())
}

/// Returns each byte's digits and comma in four bytes, and how many of them count.
fn byte_texts() -> Vec<([u8; 4], u8)> {
    let text = |byte: u8| {
        let mut four = [b' '; 4];
        let digits = format!("{byte},");
        four[..digits.len()].copy_from_slice(digits.as_bytes());
        (four, digits.len() as u8)
    };
    (0..=255).map(text).collect()
}

fn numbers(piece: &[u8], element: Element, table: &[([u8; 4], u8)], text: &mut Vec<u8>) {
    if element.name == "uint8" {
        return bytes_as_numbers(piece, table, text);
    }
    for one in piece.chunks_exact(element.bytes as usize) {
        write_number(one, element, text);
        text.push(b',');
    }
}

/// Writes four bytes for every number, and advances by the number of bytes that belong to it, so no branch depends on a value.
fn bytes_as_numbers(piece: &[u8], table: &[([u8; 4], u8)], text: &mut Vec<u8>) {
    text.resize(piece.len() * 4, 0);
    let mut at = 0;
    for byte in piece {
        let (four, length) = table[usize::from(*byte)];
        text[at..at + 4].copy_from_slice(&four);
        at += usize::from(length);
    }
    text.truncate(at);
}

fn write_number(bytes: &[u8], element: Element, text: &mut Vec<u8>) {
    let wide = |sign: bool| {
        let mut eight = if sign && bytes.last().is_some_and(|last| *last >= 0x80) { [0xff; 8] } else { [0; 8] };
        eight[..bytes.len()].copy_from_slice(bytes);
        eight
    };
    // Writing into a vector cannot fail.
    let _ = match element.name {
        "float32" => write!(text, "{}", f32::from_le_bytes(wide(false)[..4].try_into().expect("four bytes"))),
        "float64" => write!(text, "{}", f64::from_le_bytes(wide(false))),
        "float16" => write!(text, "{}", half_value(u16::from_le_bytes([bytes[0], bytes[1]]))),
        name if name.starts_with('u') => write!(text, "{}", u64::from_le_bytes(wide(false))),
        _ => write!(text, "{}", i64::from_le_bytes(wide(true))),
    };
}

/// Converts a half-precision number. Numbers of dlio's content are normal and below one; other content may have any
/// value.
fn half_value(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let size = match exponent {
        0 => fraction / 1024.0 * 2f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -size } else { size }
}

fn packed(spec: &FileSpec, dataset: &Dataset, text: &[u8]) -> Outcome<Vec<u8>> {
    let failed = |error| Failure::io("compress", &spec.path, error);
    let level = dataset.compression_level;
    match dataset.compression.as_str() {
        "gzip" => {
            let mut packer =
                libdeflater::Compressor::new(libdeflater::CompressionLvl::new(level as i32).unwrap_or_default());
            let mut bytes = vec![0; packer.gzip_compress_bound(text.len())];
            let size = packer.gzip_compress(text, &mut bytes).expect("the bound is large enough");
            bytes.truncate(size);
            Ok(bytes)
        }
        "bz2" => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(level.clamp(1, 9)));
            encoder.write_all(text).map_err(failed)?;
            encoder.finish().map_err(failed)
        }
        "xz" => {
            let options = lzma_rust2::XzOptions::with_preset(level.min(9));
            let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).map_err(failed)?;
            encoder.write_all(text).map_err(failed)?;
            encoder.finish().map_err(failed)
        }
        _ => Ok(zipped(spec, text, level)),
    }
}

/// Returns a zip file with one member of the file's name, as pandas does.
fn zipped(spec: &FileSpec, text: &[u8], level: u32) -> Vec<u8> {
    let name = spec.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let deflated = zip::deflated(text, level);
    let (crc, packed, size) = (crc32fast::hash(text), deflated.len() as u64, text.len() as u64);
    let member = Member { name, method: Method::Deflated, crc, packed, size, at: 0 };
    let mut file = zip::local_header(&member);
    file.extend(&deflated);
    let start = file.len() as u64;
    file.extend(zip::directory(&[member], start));
    file
}

struct CsvReader {
    access: Access,
    element: Element,
    compression: String,
    input: Option<Input>,
    buffer: AlignedBuffer,
    /// Elements of the row last read.
    row: Vec<u8>,
    moved: u64,
}

impl Default for CsvReader {
    fn default() -> CsvReader {
        CsvReader {
            access: Access::default(),
            element: Element::UINT8,
            compression: String::new(),
            input: None,
            buffer: AlignedBuffer::default(),
            row: Vec::new(),
            moved: 0,
        }
    }
}

impl Reader for CsvReader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        self.input = Some(Input::open(path, self.access)?);
        Ok(())
    }

    /// Reads the whole file, because rows are found by counting.
    fn sample(&mut self, index: u64) -> Outcome<()> {
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        let length = input.read_whole(&mut self.buffer)?;
        self.moved += input.take_moved();
        let path = input.path();
        let bytes = self.buffer.bytes(length);
        if let Some(packer) = packer_of(bytes).filter(|_| self.compression == "none") {
            return Err(Failure::damaged(
                path,
                format!("it is not text: it is compressed with {packer}, but its extension does not show that"),
            )
            .remedy(
                "rename it to .csv.gz, .csv.bz2, .csv.xz or .csv.zip and set ++workload.dataset.compression to match",
            ));
        }
        let unpacked = unpacked(path, &self.compression, bytes)?;
        let text = unpacked.as_deref().unwrap_or(bytes);
        let mut rows = text.split(|byte| *byte == b'\n').filter(|row| !row.is_empty()).peekable();
        let _header = rows.next_if(|row| is_header(row));
        let row = rows.nth(index as usize);
        let row = row.ok_or_else(|| Failure::damaged(path, format!("row {index} does not exist")))?;
        self.row.clear();
        parse_row(row, self.element, &mut self.row).ok_or_else(|| {
            Failure::damaged(path, format!("row {index} contains a value that is not a {}", self.element.name))
        })
    }

    fn bytes(&self) -> &[u8] {
        &self.row
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.input = None;
    }
}

/// Returns `None` if the text is stored uncompressed.
fn unpacked(path: &Path, compression: &str, bytes: &[u8]) -> Outcome<Option<Vec<u8>>> {
    let damaged = |_: std::io::Error| Failure::damaged(path, format!("not a complete {compression} stream"));
    let mut text = Vec::new();
    match compression {
        "gzip" => {
            // The last four bytes of a gzip member are its length.
            let size = bytes.last_chunk::<4>().map_or(0, |four| u32::from_le_bytes(*four));
            if u64::from(size) > (bytes.len() as u64).saturating_mul(EXPANSION_MAX) {
                return Err(damaged(std::io::ErrorKind::InvalidData.into()));
            }
            text.resize(size as usize, 0);
            let result = libdeflater::Decompressor::new().gzip_decompress(bytes, &mut text);
            result.map_err(|_| damaged(std::io::ErrorKind::InvalidData.into()))?;
        }
        "bz2" => drop(bzip2::read::BzDecoder::new(bytes).read_to_end(&mut text).map_err(damaged)?),
        "xz" => drop(lzma_rust2::XzReader::new(bytes, true).read_to_end(&mut text).map_err(damaged)?),
        "zip" => {
            let found = zip::find(path, bytes, |_| true)?;
            text = match found.method {
                Method::Stored => found.packed.to_vec(),
                Method::Deflated => zip::inflated(path, found.packed, found.size)?,
            };
        }
        _ => return Ok(None),
    }
    Ok(Some(text))
}

/// Returns `true` for column names, which pandas writes above the rows by default. An index has an empty name; columns
/// without names are 0, 1, 2, and so on.
fn is_header(row: &[u8]) -> bool {
    let fields = || row.split(|byte| *byte == b',').map(|field| std::str::from_utf8(field).unwrap_or("?").trim());
    let is_number = |field: &str| field.is_empty() || field.parse::<f64>().is_ok();
    let of_digits = row.iter().all(|byte| byte.is_ascii_digit() || b",.-\r".contains(byte));
    let named = row.starts_with(b",") || !of_digits && !fields().all(is_number);
    named || fields().enumerate().all(|(column, field)| field.parse() == Ok(column)) && fields().count() >= COUNTED_MIN
}

/// A shorter row of numbers that count from zero may be a sample.
const COUNTED_MIN: usize = 16;

fn parse_row(row: &[u8], element: Element, into: &mut Vec<u8>) -> Option<()> {
    if element.name == "uint8" {
        return parse_bytes(row, into);
    }
    for number in row.split(|byte| *byte == b',') {
        let text = std::str::from_utf8(number).ok()?.trim();
        match element.name {
            "float32" => into.extend(text.parse::<f32>().ok()?.to_le_bytes()),
            "float64" => into.extend(text.parse::<f64>().ok()?.to_le_bytes()),
            "float16" => into.extend(half_bits(text.parse().ok()?).to_le_bytes()),
            "uint64" => into.extend(text.parse::<u64>().ok()?.to_le_bytes()),
            _ => into.extend(&text.parse::<i64>().ok()?.to_le_bytes()[..element.bytes as usize]),
        }
    }
    Some(())
}

/// Rounds towards zero; exact for output of `half_value`.
fn half_bits(number: f32) -> u16 {
    let bits = number.to_bits();
    let exponent = ((bits >> 23) & 255) as i32 - 127;
    let sign = (bits >> 16 & 0x8000) as u16;
    match exponent {
        -14..=15 => sign | ((exponent + 15) as u16) << 10 | (bits >> 13 & 1023) as u16,
        16.. => sign | 0x7c00,
        _ => sign | (number.abs() * 2f32.powi(24)) as u16,
    }
}

fn parse_bytes(row: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let (mut number, mut digits) = (0u32, 0);
    for byte in row.iter().chain(b",") {
        match byte {
            b'0'..=b'9' => {
                number = number * 10 + u32::from(byte - b'0');
                digits += 1;
            }
            b',' if digits > 0 && number < 256 => {
                into.push(number as u8);
                (number, digits) = (0, 0);
            }
            b'\r' => {}
            _ => return None,
        }
        if digits > 3 {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_survive_their_text() {
        for bits in [0x3800u16, 0x3bff, 0x3c00, 0x0001, 0xb800] {
            assert_eq!(half_bits(half_value(bits)), bits, "{bits:#x}");
        }
    }

    #[test]
    fn csv_header_is_not_a_sample() {
        let names = |names: &[String]| names.join(",");
        let counted: Vec<String> = (0..300).map(|column| column.to_string()).collect();
        let folder = tempfile::tempdir().unwrap();
        for header in ["a,b,c", ",0,1", "x", "label,1x1", "'1',2\r", &names(&counted), &names(&counted[..16])] {
            assert!(is_header(header.as_bytes()), "{header}");
            let path = folder.path().join("f.csv");
            std::fs::write(&path, format!("{header}\n1,2,3\n4,5,6\n")).unwrap();
            let mut reader = CsvReader::default();
            reader.open(&path).unwrap();
            reader.sample(1).unwrap();
            assert_eq!(reader.bytes(), [4, 5, 6]);
            assert!(reader.sample(2).is_err());
        }
        for row in ["1,2,3", "0,1,2", "-1.5,2e9,nan,inf", "1.5,,2", "7\r", "1,,2"] {
            assert!(!is_header(row.as_bytes()), "{row}");
        }
    }

    #[test]
    fn rejects_rows_that_are_not_numbers() {
        for row in ["", "1,,2", "256", "1,x", "1234"] {
            assert!(parse_bytes(row.as_bytes(), &mut Vec::new()).is_none(), "{row}");
        }
        let mut bytes = Vec::new();
        parse_bytes(b"0,255,7", &mut bytes).unwrap();
        assert_eq!(bytes, [0, 255, 7]);
    }
}
