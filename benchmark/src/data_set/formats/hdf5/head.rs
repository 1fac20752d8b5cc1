//! Finds the data of a plain HDF5 file without the library.
//!
//! The library clears a table of half a megabyte for every file it opens, among other work: 20 % of the time to read a
//! sample of two megabytes. Training nearly always reads the simplest kind of file, contiguous data sets in the root
//! group in the newest layout; its head takes three small reads, which the library makes too.
//!
//! Nothing is guessed: blocks have checksums, and anything that is not fully understood gives `None`. The library then
//! opens the file and reports what it is, or what is wrong with it. Chunks, filters and the old layout are always left
//! to the library.
//!
//! ```text
//! superblock      signature 8 · version · sizes 2 · flags · base 8 · extension 8 · end 8 · root 8 · checksum 4
//! object header   "OHDR" · 2 · flags · [times 16] · [limits 4] · length 1-8 · messages · checksum 4
//! continuation    "OCHK" · messages · checksum 4
//! message         kind · length 2 · flags · [order 2] · body
//! ```

use crate::files::input::ReadAt;

/// A contiguous data set.
#[derive(Debug, PartialEq, Eq)]
pub struct ContiguousData {
    pub address: u64,
    /// Samples, then the dimensions of one.
    pub shape: Vec<u64>,
    pub sample_bytes: u64,
}

/// Returns the data sets of these names in the root group, or `None` if the library is needed.
pub fn places(file: &dyn ReadAt, names: impl Iterator<Item = String>) -> Option<Vec<ContiguousData>> {
    let end = file.length().ok()?;
    members(file, names, &[])?.iter().map(|messages| place(messages, end)).collect()
}

/// Returns the headers of the data sets of these names; `also` are message kinds that the caller knows in addition to
/// those of plain data sets.
pub fn members(file: &dyn ReadAt, names: impl Iterator<Item = String>, also: &[u8]) -> Option<Vec<Vec<Message>>> {
    let (root, end) = root_of(&bytes_at(file, 0, SUPERBLOCK)?)?;
    if end > file.length().ok()? {
        return None;
    }
    let known = [DATA_SET_KINDS, also].concat();
    let links = messages(file, root, GROUP_KINDS)?;
    names.map(|name| messages(file, linked(&links, &name)?, &known)).collect()
}

const SUPERBLOCK: usize = 48;
/// The bytes of a header that are read before its length is known; most headers are shorter.
const HEADER: usize = 512;
pub const UNDEFINED: u64 = u64::MAX;

const DATASPACE: u8 = 0x01;
const DATATYPE: u8 = 0x03;
const LAYOUT: u8 = 0x08;
const LINK: u8 = 0x06;
const CONTINUATION: u8 = 0x10;
/// Nil, links and their kinds, attributes, references. The library finds other kinds of links.
const GROUP_KINDS: &[u8] = &[0x00, 0x02, LINK, 0x0a, 0x0c, CONTINUATION, 0x15, 0x16];
/// Nil, fill values, times, attributes, references. Not: filters, external files, shared tables.
const DATA_SET_KINDS: &[u8] = &[0x00, DATASPACE, DATATYPE, 0x04, 0x05, LAYOUT, 0x0c, CONTINUATION, 0x12, 0x15, 0x16];

pub fn bytes_at(file: &dyn ReadAt, address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

/// Reads up to `length` bytes, fewer at the end of the file.
fn some_bytes_at(file: &dyn ReadAt, address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let read = file.read_at(&mut bytes, address).ok()?;
    bytes.truncate(read);
    Some(bytes)
}

/// Consecutive little-endian fields.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn number(&mut self, length: usize) -> Option<u64> {
        Some(self.take(length)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub fn is(&mut self, expected: &[u8]) -> Option<()> {
        (self.take(expected.len())? == expected).then_some(())
    }
}

/// Returns a block without its checksum, after verifying it.
pub fn checked(block: &[u8]) -> Option<&[u8]> {
    let (bytes, sum) = block.split_last_chunk::<4>().map(|(bytes, sum)| (bytes, u32::from_le_bytes(*sum)))?;
    (checksum(bytes) == sum).then_some(bytes)
}

/// Returns the address of the root group's header, and the end of the file.
fn root_of(superblock: &[u8]) -> Option<(u64, u64)> {
    let mut fields = Fields(checked(superblock)?);
    fields.is(b"\x89HDF\r\n\x1a\n")?;
    let version = fields.number(1)?;
    // Addresses and lengths of eight bytes; no writer has the file open.
    fields.is(&[8, 8, 0])?;
    let [base, extension, end, root] = [fields.number(8)?, fields.number(8)?, fields.number(8)?, fields.number(8)?];
    (matches!(version, 2 | 3) && base == 0 && extension == UNDEFINED).then_some((root, end))
}

pub struct Message {
    pub kind: u8,
    pub body: Vec<u8>,
}

/// Returns all messages of an object header, or `None` if the kind of one is not in `known`.
fn messages(file: &dyn ReadAt, address: u64, known: &[u8]) -> Option<Vec<Message>> {
    let mut block = some_bytes_at(file, address, HEADER)?;
    let (first, length, ordered) = header_form(&block)?;
    let whole = first.checked_add(length)?.checked_add(4)?;
    if whole > block.len() {
        block = bytes_at(file, address, Some(whole).filter(|whole| *whole < 1 << 20)?)?;
    }
    let mut found = Vec::new();
    let mut continued = collect(&checked(&block[..whole])?[first..], ordered, known, &mut found)?;
    // Also ends a cyclic chain.
    for _ in 0..64 {
        let Some((address, length)) = continued.pop() else { return Some(found) };
        let block = bytes_at(file, address, usize::try_from(length).ok().filter(|length| *length < 1 << 20)?)?;
        let mut fields = Fields(checked(&block)?);
        fields.is(b"OCHK")?;
        continued.extend(collect(fields.0, ordered, known, &mut found)?);
    }
    None
}

/// Returns the offset of the first message, the size of all messages, and whether each has a number.
fn header_form(block: &[u8]) -> Option<(usize, usize, bool)> {
    let mut fields = Fields(block);
    fields.is(b"OHDR\x02")?;
    let flags = fields.number(1)?;
    fields.take(if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 })?;
    let length = fields.number(1 << (flags & 3))?;
    Some((block.len() - fields.0.len(), usize::try_from(length).ok()?, flags & 4 != 0))
}

/// Adds the messages of a block; returns the blocks that continue it.
fn collect(block: &[u8], ordered: bool, known: &[u8], found: &mut Vec<Message>) -> Option<Vec<(u64, u64)>> {
    let mut continued = Vec::new();
    let mut fields = Fields(block);
    let head = if ordered { 6 } else { 4 };
    // A remainder shorter than a message head is a gap.
    while fields.0.len() >= head {
        let kind = fields.number(1)? as u8;
        let (length, flags) = (fields.number(2)?, fields.number(1)?);
        fields.take(head - 4)?;
        let body = fields.take(length as usize)?;
        // Bit 1: the body is stored elsewhere.
        if !known.contains(&kind) || flags & 2 != 0 {
            return None;
        }
        if kind == CONTINUATION {
            let mut place = Fields(body);
            continued.push((place.number(8)?, place.number(8)?));
        } else {
            found.push(Message { kind, body: body.to_vec() });
        }
    }
    Some(continued)
}

/// Returns the object that a group's hard link of this name points to.
fn linked(links: &[Message], name: &str) -> Option<u64> {
    links.iter().filter(|message| message.kind == LINK).find_map(|link| hard_link(&link.body, name))
}

fn hard_link(body: &[u8], wanted: &str) -> Option<u64> {
    let mut fields = Fields(body);
    fields.is(&[1])?;
    let flags = fields.number(1)?;
    if flags & 8 != 0 {
        fields.is(&[0])?;
    }
    fields.take(if flags & 4 != 0 { 8 } else { 0 } + if flags & 16 != 0 { 1 } else { 0 })?;
    let length = fields.number(1 << (flags & 3))?;
    let name = fields.take(usize::try_from(length).ok()?)?;
    if name == wanted.as_bytes() { fields.number(8) } else { None }
}

fn place(messages: &[Message], end: u64) -> Option<ContiguousData> {
    let only = |kind| {
        let mut of_kind = messages.iter().filter(move |message| message.kind == kind).map(|message| &message.body);
        of_kind.next().filter(|_| of_kind.next().is_none())
    };
    let shape = dimensions(only(DATASPACE)?)?;
    let element = element_bytes(only(DATATYPE)?)?;
    let (address, bytes) = contiguous(only(LAYOUT)?)?;
    let sample_bytes = shape[1..].iter().try_fold(element, |bytes, dim| bytes.checked_mul(*dim))?;
    let fits = sample_bytes.checked_mul(shape[0])? == bytes && address.checked_add(bytes)? <= end;
    fits.then_some(ContiguousData { address, shape, sample_bytes })
}

fn dimensions(body: &[u8]) -> Option<Vec<u64>> {
    extent(body).map(|(shape, _)| shape)
}

/// Returns the current size of a data set, and its maximum size.
pub fn extent(body: &[u8]) -> Option<(Vec<u64>, Vec<u64>)> {
    let mut fields = Fields(body);
    fields.is(&[2])?;
    let (rank, flags) = (fields.number(1)?, fields.number(1)?);
    fields.is(&[1])?;
    let mut numbers = || (0..rank).map(|_| fields.number(8)).collect::<Option<Vec<u64>>>();
    let shape = numbers().filter(|shape| !shape.is_empty())?;
    let largest = if flags & 1 != 0 { numbers()? } else { shape.clone() };
    Some((shape, largest))
}

/// Returns the size of integers and floats, whose bytes need no conversion.
pub fn element_bytes(body: &[u8]) -> Option<u64> {
    let mut fields = Fields(body);
    let class = fields.number(1)? & 15;
    fields.take(3)?;
    fields.number(4).filter(|_| class <= 1)
}

fn contiguous(body: &[u8]) -> Option<(u64, u64)> {
    let mut fields = Fields(body);
    let version = fields.number(1)?;
    fields.is(&[1])?;
    let (address, bytes) = (fields.number(8)?, fields.number(8)?);
    (matches!(version, 3 | 4) && address != UNDEFINED).then_some((address, bytes))
}

/// Returns Bob Jenkins' lookup3 over bytes with seed 0: the checksum of HDF5's metadata.
fn checksum(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut words = [start; 3];
    // The last twelve bytes, or fewer, are mixed differently.
    let (body, tail) = bytes.split_at(bytes.len().saturating_sub(1) / 12 * 12);
    for chunk in body.chunks_exact(12) {
        add(&mut words, chunk);
        mix(&mut words);
    }
    if !tail.is_empty() {
        add(&mut words, tail);
        last_mix(&mut words);
    }
    words[2]
}

fn add(words: &mut [u32; 3], bytes: &[u8]) {
    for (word, four) in words.iter_mut().zip(bytes.chunks(4)) {
        let mut whole = [0; 4];
        whole[..four.len()].copy_from_slice(four);
        *word = word.wrapping_add(u32::from_le_bytes(whole));
    }
}

fn mix(words: &mut [u32; 3]) {
    for (round, shift) in [4, 6, 8, 16, 19, 4].into_iter().enumerate() {
        let (own, before, after) = (round % 3, (round + 2) % 3, (round + 1) % 3);
        words[own] = words[own].wrapping_sub(words[before]) ^ words[before].rotate_left(shift);
        words[before] = words[before].wrapping_add(words[after]);
    }
}

fn last_mix(words: &mut [u32; 3]) {
    for (round, shift) in [14, 11, 25, 16, 4, 14, 24].into_iter().enumerate() {
        let (own, before) = ((round + 2) % 3, (round + 1) % 3);
        words[own] = (words[own] ^ words[before]).wrapping_sub(words[before].rotate_left(shift));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::{Path, PathBuf};
    use tempfile::TempDir;

    fn names(parts: u64) -> impl Iterator<Item = String> {
        (0..parts).map(|part| format!("records_{part}"))
    }

    /// Creates a file with data sets of two samples of `side` by 3 bytes, in the newest layout or the oldest.
    fn file(folder: &TempDir, parts: u64, newest: bool, edit: impl Fn(&hdf5_metno::File)) -> PathBuf {
        let path = folder.path().join(format!("{parts}-{newest}.hdf5"));
        let mut options = hdf5_metno::File::with_options();
        options.with_fapl(|access| if newest { access.libver_latest() } else { access.libver_earliest() });
        let file = options.create(&path).unwrap();
        for part in 0..parts {
            let data = vec![part as u8; 2 * 4 * 3];
            let shaped = file.new_dataset::<u8>().shape([2, 4, 3]).create(format!("records_{part}").as_str()).unwrap();
            shaped.write_raw(&data).unwrap();
        }
        edit(&file);
        path
    }

    fn found(path: &Path, parts: u64) -> Option<Vec<ContiguousData>> {
        places(&File::open(path).unwrap(), names(parts))
    }

    #[test]
    fn data_sets_are_located_like_the_library_does() {
        let folder = tempfile::tempdir().unwrap();
        for parts in [1, 2, 5] {
            let path = file(&folder, parts, true, |_| ());
            let library = hdf5_metno::File::open(&path).unwrap();
            for (part, place) in found(&path, parts).unwrap().into_iter().enumerate() {
                let offset = library.dataset(&format!("records_{part}")).unwrap().offset().unwrap();
                assert_eq!(place, ContiguousData { address: offset, shape: vec![2, 4, 3], sample_bytes: 12 });
            }
        }
    }

    #[test]
    fn attributes_do_not_prevent_plain_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, 2, true, |file| {
            for number in 0..4 {
                let name = format!("attribute {number} with a rather long name");
                file.new_attr::<u64>().shape([9]).create(name.as_str()).unwrap();
                file.dataset("records_1").unwrap().new_attr::<u64>().shape([9]).create(name.as_str()).unwrap();
            }
        });
        assert_eq!(found(&path, 2).unwrap().len(), 2);
    }

    #[test]
    fn files_that_are_not_plain_go_to_the_library() {
        let folder = tempfile::tempdir().unwrap();
        assert!(found(&file(&folder, 1, false, |_| ()), 1).is_none(), "the old layout");
        assert!(found(&file(&folder, 1, true, |_| ()), 2).is_none(), "a missing data set");
        assert!(found(&file(&folder, 20, true, |_| ()), 20).is_none(), "a group too large for its header");
        let chunked = |file: &hdf5_metno::File| {
            file.new_dataset::<u8>().chunk([1, 6]).shape([2, 6]).create("records_0").unwrap();
        };
        assert!(found(&file(&folder, 0, true, chunked), 1).is_none(), "chunks");
        let unwritten = |file: &hdf5_metno::File| {
            file.new_dataset::<u8>().shape([2, 6]).create("records_0").unwrap();
        };
        assert!(found(&file(&folder, 0, true, unwritten), 1).is_none(), "nothing was written");
    }

    #[test]
    fn changed_head_gives_equal_locations_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, 2, true, |_| ());
        let (bytes, right) = (std::fs::read(&path).unwrap(), found(&path, 2).unwrap());
        let head = right.iter().map(|place| place.address).min().unwrap() as usize;
        for at in 0..head {
            for bit in [0, 3, 7] {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let path = folder.path().join("changed");
                std::fs::write(&path, changed).unwrap();
                assert!(found(&path, 2).is_none_or(|found| found == right), "byte {at}");
            }
        }
    }

    #[test]
    fn a_file_cut_anywhere_is_left_to_the_library() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, 1, true, |_| ());
        let bytes = std::fs::read(&path).unwrap();
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(found(&path, 1).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn the_checksum_is_the_one_its_author_published() {
        assert_eq!(checksum(b""), 0xdead_beef);
        assert_eq!(checksum(b"Four score and seven years ago"), 0x1777_0551);
    }
}
