//! Writes a Parquet column with few distinct values, by keys that are known in advance.
//!
//! A normal Parquet writer looks up each value of each row to find its index in the dictionary of the column. Here
//! values already have numbers, and one list lookup turns a number into a key.
//!
//! ```text
//! dictionary page   value value value ...         in order of their first row
//! data page         [length levels] width keys    levels show which rows have a value, if some may have none
//!
//! levels, keys      rows << 1, value              that many rows of one value
//!                   groups << 1 | 1, bits         groups of eight values, each `width` bits
//! ```
//!
//! This module does not know the values.

use std::io::Write;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

/// Rows of a data page, which a reader unpacks at once.
const PAGE_ROWS: usize = 1 << 17;

/// The minimum number of equal rows written as a run; fewer take hardly more space as bits.
const RUN_MIN: usize = 16;

/// No key yet, or no value.
const NONE: u32 = u32::MAX;

/// The column in the rows of the current row group.
#[derive(Default)]
pub struct Keys {
    /// The key of each number in the rows.
    known: Vec<u32>,
    /// The number of each key.
    numbers: Vec<u32>,
    rows: Vec<u32>,
}

impl Keys {
    /// Adds one value per row.
    #[inline]
    pub fn extend(&mut self, numbers: impl ExactSizeIterator<Item = Option<u32>>) {
        self.rows.reserve(numbers.len());
        for number in numbers {
            let key = self.key(number);
            self.rows.push(key);
        }
    }

    /// Adds one value for several rows.
    pub fn repeat(&mut self, number: Option<u32>, rows: usize) {
        let key = self.key(number);
        self.rows.resize(self.rows.len() + rows, key);
    }

    #[inline(always)]
    fn key(&mut self, number: Option<u32>) -> u32 {
        let Some(number) = number else { return NONE };
        match self.known.get(number as usize) {
            Some(&key) if key != NONE => key,
            _ => self.new_key(number),
        }
    }

    #[cold]
    fn new_key(&mut self, number: u32) -> u32 {
        let at = number as usize;
        self.known.resize(self.known.len().max(at + 1), NONE);
        self.known[at] = self.numbers.len() as u32;
        self.numbers.push(number);
        self.known[at]
    }

    /// Returns the distinct numbers, in order of their keys.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// Returns its memory in bytes.
    pub fn memory(&self) -> usize {
        (self.known.capacity() + self.numbers.capacity() + self.rows.capacity()) * size_of::<u32>()
    }

    /// Clears the rows for the next row group.
    pub fn clear(&mut self) {
        self.numbers.drain(..).for_each(|number| self.known[number as usize] = NONE);
        self.rows.clear();
    }

    /// Returns the bits of a key.
    fn width(&self) -> u32 {
        let largest = self.numbers.len().saturating_sub(1) as u32;
        (u32::BITS - largest.leading_zeros()).max(1)
    }
}

/// The values of a column, in order of their keys.
pub struct Values {
    plain: Vec<u8>,
    range: Option<(i32, i32)>,
}

impl Values {
    pub fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> Values {
        let mut plain = Vec::new();
        for text in texts {
            plain.extend_from_slice(&(text.len() as u32).to_le_bytes());
            plain.extend_from_slice(text.as_bytes());
        }
        Values { plain, range: None }
    }

    pub fn longs(longs: impl Iterator<Item = i64>) -> Values {
        Values { plain: longs.flat_map(i64::to_le_bytes).collect(), range: None }
    }

    /// Returns integers, with the minimum and maximum by which readers select.
    pub fn integers(integers: impl Iterator<Item = i32> + Clone) -> Values {
        let range = integers.clone().min().zip(integers.clone().max());
        Values { plain: integers.flat_map(i32::to_le_bytes).collect(), range }
    }
}

/// Writes a column of a row group.
pub fn append<W: Write + Send>(
    keys: &Keys,
    values: &Values,
    column: &ColumnDescPtr,
    packer: &mut Compressor,
    group: &mut SerializedRowGroupWriter<W>,
) -> Result<()> {
    let mut sink = TrackedWrite::new(Vec::new());
    let mut pages = Pages { writer: SerializedPageWriter::new(&mut sink), packer, packed: 0, unpacked: 0 };
    let dictionary = pages.dictionary(keys, values)?;
    let first = pages.rows(keys, column.max_def_level() > 0)?;
    let nulls = keys.rows.iter().filter(|key| **key == NONE).count() as u64;
    let mut metadata = ColumnChunkMetaData::builder(column.clone())
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_num_values(keys.rows.len() as i64)
        .set_total_compressed_size(pages.packed)
        .set_total_uncompressed_size(pages.unpacked)
        .set_dictionary_page_offset(dictionary)
        .set_data_page_offset(first);
    if let Some((smallest, largest)) = values.range {
        let statistics = Statistics::int32(Some(smallest), Some(largest), None, Some(nulls), false);
        metadata = metadata.set_statistics(statistics);
    }
    let close = ColumnCloseResult {
        bytes_written: pages.packed as u64,
        rows_written: keys.rows.len() as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    group.append_column(&Bytes::from(sink.into_inner()?), close)
}

/// Writes the pages of a column in order.
struct Pages<'a, 'c> {
    writer: SerializedPageWriter<'a, Vec<u8>>,
    packer: &'a mut Compressor<'c>,
    packed: i64,
    unpacked: i64,
}

impl Pages<'_, '_> {
    /// Writes the dictionary; returns its offset, or `None` for a column without values.
    fn dictionary(&mut self, keys: &Keys, values: &Values) -> Result<Option<i64>> {
        if keys.numbers.is_empty() {
            return Ok(None);
        }
        let num_values = keys.numbers.len() as u32;
        let page = |buf| Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false };
        self.write(&values.plain, page).map(Some)
    }

    /// Writes all rows; returns the offset of the first page.
    fn rows(&mut self, keys: &Keys, optional: bool) -> Result<i64> {
        let mut first = None;
        for rows in keys.rows.chunks(PAGE_ROWS) {
            let page = |buf| Page::DataPage {
                buf,
                num_values: rows.len() as u32,
                encoding: if keys.numbers.is_empty() { Encoding::PLAIN } else { Encoding::RLE_DICTIONARY },
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let at = self.write(&data_page(rows, optional, keys), page)?;
            first.get_or_insert(at);
        }
        Ok(first.unwrap_or(0))
    }

    fn write(&mut self, unpacked: &[u8], page: impl FnOnce(Bytes) -> Page) -> Result<i64> {
        let packed = self.packer.compress(unpacked)?;
        let written = self.writer.write_page(CompressedPage::new(page(packed.into()), unpacked.len()))?;
        self.packed += written.compressed_size as i64;
        self.unpacked += written.uncompressed_size as i64;
        Ok(written.offset as i64)
    }
}

/// Returns levels and keys of some rows.
fn data_page(rows: &[u32], optional: bool, keys: &Keys) -> Vec<u8> {
    let mut page = Vec::new();
    if optional {
        let levels: Vec<u32> = rows.iter().map(|key| (*key != NONE) as u32).collect();
        page.extend_from_slice(&[0; 4]);
        encode(&levels, 1, &mut page);
        let length = page.len() as u32 - 4;
        page[..4].copy_from_slice(&length.to_le_bytes());
    }
    if keys.numbers.is_empty() {
        return page;
    }
    page.push(keys.width() as u8);
    match optional && rows.contains(&NONE) {
        true => {
            let there: Vec<u32> = rows.iter().copied().filter(|key| *key != NONE).collect();
            encode(&there, keys.width(), &mut page);
        }
        false => encode(rows, keys.width(), &mut page),
    }
    page
}

/// Encodes values of `width` bits, with runs for repetitions.
fn encode(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut at, mut waiting) = (0usize, 0);
    for run in values.chunk_by(|a, b| a == b) {
        // Pending values are completed to whole groups from the run.
        let fill = (at - waiting).next_multiple_of(8) - (at - waiting);
        if run.len() >= RUN_MIN + fill {
            pack(&values[waiting..at + fill], width, out);
            number(((run.len() - fill) << 1) as u32, out);
            out.extend_from_slice(&run[0].to_le_bytes()[..width.div_ceil(8) as usize]);
            waiting = at + run.len();
        }
        at += run.len();
    }
    pack(&values[waiting..], width, out);
}

/// Packs values as bits; the last group is padded with zeros.
fn pack(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    number((groups << 1 | 1) as u32, out);
    let (mut held, mut bits) = (0u64, 0);
    let zeros = std::iter::repeat_n(&0, groups * 8 - values.len());
    for &value in values.iter().chain(zeros) {
        held |= (value as u64) << bits;
        bits += width;
        if bits >= 32 {
            out.extend_from_slice(&(held as u32).to_le_bytes());
            held >>= 32;
            bits -= 32;
        }
    }
    out.extend_from_slice(&held.to_le_bytes()[..bits as usize / 8]);
}

/// Writes a number in seven bits per byte, the lowest first.
fn number(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes the output of `encode`.
    fn decode(mut text: &[u8], width: u32) -> Vec<u32> {
        let mut values = Vec::new();
        while !text.is_empty() {
            let length = text.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
            let head = text[..length].iter().rev().fold(0usize, |n, byte| n << 7 | (byte & 0x7f) as usize);
            text = &text[length..];
            let bytes = if head & 1 == 1 { (head >> 1) * width as usize } else { width.div_ceil(8) as usize };
            let (body, rest) = text.split_at(bytes);
            let bit = |at: usize| (body[at / 8] >> (at % 8) & 1) as u32;
            let value = |at: usize| (0..width as usize).map(|i| bit(at * width as usize + i) << i).sum::<u32>();
            match head & 1 {
                1 => values.extend((0..(head >> 1) * 8).map(value)),
                _ => values.extend(std::iter::repeat_n(value(0), head >> 1)),
            }
            text = rest;
        }
        values
    }

    #[test]
    fn runs_and_values_of_any_width_round_trip() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for width in 1..=20u32 {
            let mut values = Vec::new();
            for _ in 0..50 {
                let (value, most) = (random(1 << width) as u32, if random(2) == 0 { 3 } else { 200 });
                values.extend(std::iter::repeat_n(value, random(most) as usize));
            }
            let mut out = Vec::new();
            encode(&values, width, &mut out);
            let mut found = decode(&out, width);
            assert!(found.len() < values.len() + 8 && found.split_off(values.len()).iter().all(|filled| *filled == 0));
            assert_eq!(found, values, "{width}");
        }
    }

    #[test]
    fn a_number_has_one_key_until_the_next_row_group() {
        let mut keys = Keys::default();
        keys.extend([Some(7), Some(3), None, Some(7)].into_iter());
        keys.repeat(Some(3), 2);
        assert_eq!((keys.numbers(), &keys.rows[..]), (&[7, 3][..], &[0, 1, NONE, 0, 1, 1][..]));
        keys.clear();
        keys.repeat(Some(3), 1);
        assert_eq!((keys.numbers(), &keys.rows[..]), (&[3][..], &[0][..]));
    }
}
