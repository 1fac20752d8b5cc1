//! The part of the zip format that `numpy.savez` and pandas use: members stored or deflated, each with the zip64 field
//! that Python's `force_zip64` writes, no encryption, no comments.
//!
//! ```text
//! local header 30 | name | zip64 extra 20 | data        (for each member)
//! central entry 46 | name [| zip64 extra]               (for each member)
//! [zip64 end 56 | locator 20]  end 22
//! ```

use crate::failure::{Failure, Outcome};
use crate::files::input::ReadAt;
use libdeflater::DecompressionError;
use std::path::Path;

/// Midnight of the first day that zip can represent: generating a data set twice gives identical bytes.
const DOS_DATE: u16 = 0x0021;
const ZIP64_EXTRA: u16 = 20;
const NEEDS_ZIP64: u16 = 45;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Stored = 0,
    Deflated = 8,
}

/// A member, as listed in the directory.
#[derive(Debug, Clone)]
pub struct Member {
    pub name: String,
    pub method: Method,
    pub crc: u32,
    pub packed: u64,
    pub size: u64,
    /// Offset of its local header.
    pub at: u64,
}

pub fn local_header_bytes(name: &str) -> u64 {
    30 + name.len() as u64 + u64::from(ZIP64_EXTRA)
}

pub fn local_header(member: &Member) -> Vec<u8> {
    let mut header = Vec::with_capacity(96);
    header.extend(b"PK\x03\x04");
    put16(&mut header, &[NEEDS_ZIP64, 0, member.method as u16, 0, DOS_DATE]);
    header.extend(member.crc.to_le_bytes());
    header.extend([0xff; 8]);
    put16(&mut header, &[member.name.len() as u16, ZIP64_EXTRA]);
    header.extend(member.name.as_bytes());
    put16(&mut header, &[1, 16]);
    header.extend(member.size.to_le_bytes());
    header.extend(member.packed.to_le_bytes());
    header
}

/// Returns a local header padded so that the data after it start at a multiple of `alignment` bytes of the file.
pub fn aligned_local_header(member: &Member, alignment: u64) -> Vec<u8> {
    const EXTRA_LENGTH: std::ops::Range<usize> = 28..30;
    let mut header = local_header(member);
    let begins = member.at + header.len() as u64 + 4;
    let padding = (begins.next_multiple_of(alignment) - begins) as u16;
    header[EXTRA_LENGTH].copy_from_slice(&(ZIP64_EXTRA + 4 + padding).to_le_bytes());
    // The field's name is the one that torch gives its padding.
    header.extend(b"FB");
    put16(&mut header, &[padding]);
    header.resize(header.len() + usize::from(padding), 0);
    header
}

/// Returns the size of the directory of a file below four gigabytes.
pub fn narrow_directory_bytes(names: &[&str]) -> u64 {
    names.iter().map(|name| 46 + name.len() as u64).sum::<u64>() + 22
}

/// Returns everything after the members' data.
pub fn directory(members: &[Member], start: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for member in members {
        central_entry(member, &mut bytes);
    }
    let size = bytes.len() as u64;
    let large = start >= u64::from(u32::MAX);
    if large {
        zip64_end(members.len() as u64, size, start, &mut bytes);
    }
    bytes.extend(b"PK\x05\x06");
    put16(&mut bytes, &[0, 0, members.len() as u16, members.len() as u16]);
    bytes.extend((size as u32).to_le_bytes());
    bytes.extend((if large { u32::MAX } else { start as u32 }).to_le_bytes());
    put16(&mut bytes, &[0]);
    bytes
}

fn central_entry(member: &Member, bytes: &mut Vec<u8>) {
    let wide: Vec<u64> =
        [member.size, member.packed, member.at].into_iter().filter(|n| *n >= u64::from(u32::MAX)).collect();
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    bytes.extend(b"PK\x01\x02");
    // Made by: Unix, version 4.5.
    put16(bytes, &[0x0300 | NEEDS_ZIP64, NEEDS_ZIP64, 0, member.method as u16, 0, DOS_DATE]);
    bytes.extend(member.crc.to_le_bytes());
    bytes.extend(narrow(member.packed));
    bytes.extend(narrow(member.size));
    let extra = if wide.is_empty() { 0 } else { 4 + 8 * wide.len() as u16 };
    put16(bytes, &[member.name.len() as u16, extra, 0, 0, 0]);
    bytes.extend((0o600u32 << 16).to_le_bytes());
    bytes.extend(narrow(member.at));
    bytes.extend(member.name.as_bytes());
    if !wide.is_empty() {
        put16(bytes, &[1, 8 * wide.len() as u16]);
        wide.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    }
}

fn zip64_end(members: u64, size: u64, start: u64, bytes: &mut Vec<u8>) {
    let end_at = start + size;
    bytes.extend(b"PK\x06\x06");
    bytes.extend(44u64.to_le_bytes());
    put16(bytes, &[NEEDS_ZIP64, NEEDS_ZIP64]);
    bytes.extend([0; 8]);
    for number in [members, members, size, start] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(b"PK\x06\x07");
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(end_at.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
}

fn put16(bytes: &mut Vec<u8>, numbers: &[u16]) {
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
}

/// A member, as listed in the directory of a file on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub name: String,
    pub method: Method,
    pub size: u64,
    /// The checksum of its unpacked bytes.
    pub crc: u32,
    /// Offset of its packed bytes in the file.
    pub data_at: u64,
}

/// The part of a file's end that contains its end record: the record, a comment, and the records before it in a large
/// file.
const END_MAX: u64 = 22 + 65_535 + 20 + 56;

/// No data set or checkpoint has a larger directory.
const DIRECTORY_MAX: u64 = 64 << 20;

/// Returns all members of a file, or `None` if it is not a complete zip file. Reads the directory and local headers,
/// not the data.
pub fn entries(file: &dyn ReadAt) -> Option<Vec<Entry>> {
    let length = file.length().ok()?;
    let tail_at = length.saturating_sub(END_MAX);
    let tail = part_of(file, tail_at, length)?;
    let (start, count) = directory_place(&tail, tail_at)?;
    let directory = part_of(file, start, length).filter(|_| length - start.min(length) <= DIRECTORY_MAX)?;
    let (mut found, mut at) = (Vec::new(), 0);
    for _ in 0..count {
        let name_length = usize::from(le16(&directory, at + 28)?);
        let extra_length = usize::from(le16(&directory, at + 30)?);
        let behind = at + 46 + name_length;
        let name = std::str::from_utf8(directory.get(at + 46..behind)?).ok()?;
        let place = MemberLocation::of(&directory, at, directory.get(behind..behind + extra_length)?)?;
        let head = part_of(file, place.local, place.local.checked_add(30)?)?;
        let data_at = place.local + 30 + u64::from(le16(&head, 26)?) + u64::from(le16(&head, 28)?);
        if !head.starts_with(b"PK\x03\x04") || data_at.checked_add(place.packed)? > start {
            return None;
        }
        let crc = le32(&directory, at + 16)?;
        found.push(Entry { name: name.into(), method: place.method, size: place.size, crc, data_at });
        at = behind + extra_length + usize::from(le16(&directory, at + 32)?);
    }
    Some(found)
}

fn part_of(file: &dyn ReadAt, from: u64, to: u64) -> Option<Vec<u8>> {
    let length = to.checked_sub(from).filter(|length| *length <= DIRECTORY_MAX)?;
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, from).ok()?;
    Some(bytes)
}

/// Returns the offset of the directory and the number of its entries, from the last bytes of a file, which start at
/// `tail_at`.
fn directory_place(tail: &[u8], tail_at: u64) -> Option<(u64, u64)> {
    let end = tail.windows(4).rposition(|four| four == b"PK\x05\x06")?;
    // A file without its last bytes is truncated.
    tail.get(end..end + 22)?;
    let (count, start) = (le16(tail, end + 10)?, le32(tail, end + 16)?);
    if start != u32::MAX && count != u16::MAX {
        return Some((u64::from(start), u64::from(count)));
    }
    let zip64 = le64(tail, end.checked_sub(20)? + 8)?.checked_sub(tail_at)? as usize;
    Some((le64(tail, zip64 + 48)?, le64(tail, zip64 + 32)?))
}

/// A member of a file in memory: its compression, its checksum and its stored bytes.
pub struct MemberData<'a> {
    pub method: Method,
    pub crc: u32,
    pub size: u64,
    /// Offset of the packed bytes in the file.
    pub start: usize,
    pub packed: &'a [u8],
}

/// Finds a member through the central directory, as every zip reader must.
pub fn find<'a>(path: &Path, file: &'a [u8], wanted: impl Fn(&str) -> bool) -> Outcome<MemberData<'a>> {
    member_in(file, wanted).ok_or_else(|| Failure::damaged(path, "not a complete zip file with the expected member"))
}

fn member_in(file: &[u8], wanted: impl Fn(&str) -> bool) -> Option<MemberData<'_>> {
    // The end record is the last 22 bytes unless there is a comment of up to 64 KiB.
    let tail = file.len().saturating_sub(22 + 65_535);
    let end = tail + file[tail..].windows(4).rposition(|four| four == b"PK\x05\x06")?;
    let count = le16(file, end + 10)?;
    let mut at = le32(file, end + 16)? as usize;
    if at == u32::MAX as usize {
        let locator = end.checked_sub(20)?;
        let zip64 = le64(file, locator + 8)? as usize;
        at = le64(file, zip64 + 48)? as usize;
    }
    for _ in 0..count {
        let name_length = usize::from(le16(file, at + 28)?);
        let extra_length = usize::from(le16(file, at + 30)?);
        let name = std::str::from_utf8(file.get(at + 46..at + 46 + name_length)?).ok()?;
        if wanted(name) {
            return found(file, at, file.get(at + 46 + name_length..at + 46 + name_length + extra_length)?);
        }
        at += 46 + name_length + extra_length + usize::from(le16(file, at + 32)?);
    }
    None
}

/// The location of a member, from its directory entry.
struct MemberLocation {
    method: Method,
    packed: u64,
    size: u64,
    /// Offset of its local header.
    local: u64,
}

impl MemberLocation {
    fn of(directory: &[u8], entry: usize, extra: &[u8]) -> Option<MemberLocation> {
        let wide = zip64_field(extra);
        let mut next = 0;
        let mut number = |at: usize| -> Option<u64> {
            let narrow = le32(directory, at)?;
            if narrow != u32::MAX {
                return Some(u64::from(narrow));
            }
            next += 8;
            le64(wide?, next - 8)
        };
        // The order of the zip64 field: size, packed size, offset.
        let size = number(entry + 24)?;
        let packed = number(entry + 20)?;
        let local = number(entry + 42)?;
        let method = match le16(directory, entry + 10)? {
            0 => Method::Stored,
            8 => Method::Deflated,
            _ => return None,
        };
        Some(MemberLocation { method, packed, size, local })
    }
}

/// Returns the zip64 field among the extra fields.
fn zip64_field(mut extra: &[u8]) -> Option<&[u8]> {
    loop {
        let (kind, length) = (le16(extra, 0)?, usize::from(le16(extra, 2)?));
        let body = extra.get(4..4 + length)?;
        if kind == 1 {
            return Some(body);
        }
        extra = &extra[4 + length..];
    }
}

fn found<'a>(file: &'a [u8], entry: usize, extra: &[u8]) -> Option<MemberData<'a>> {
    let MemberLocation { method, packed, size, local } = MemberLocation::of(file, entry, extra)?;
    let local = local as usize;
    let start = local.checked_add(30)? + usize::from(le16(file, local + 26)?) + usize::from(le16(file, local + 28)?);
    let packed = file.get(start..start.checked_add(packed as usize)?)?;
    Some(MemberData { method, crc: le32(file, entry + 16)?, size, start, packed })
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Deflates `bytes`; levels above nine are libdeflate's slower ones.
pub fn deflated(bytes: &[u8], level: u32) -> Vec<u8> {
    let level = libdeflater::CompressionLvl::new(level as i32).unwrap_or_default();
    let mut packer = libdeflater::Compressor::new(level);
    let mut packed = vec![0; packer.deflate_compress_bound(bytes.len())];
    let size = packer.deflate_compress(bytes, &mut packed).expect("the bound is large enough");
    packed.truncate(size);
    packed
}

/// The maximum expansion of one byte: a run of 258 bytes takes two bits.
pub const EXPANSION_MAX: u64 = 1032;

/// Returns `size` unpacked bytes. Refuses a size that the packed bytes cannot reach before allocating memory.
pub fn inflated(path: &Path, packed: &[u8], size: u64) -> Outcome<Vec<u8>> {
    if size > (packed.len() as u64 + 1).saturating_mul(EXPANSION_MAX) {
        let bytes = packed.len();
        return Err(Failure::damaged(
            path,
            format!("the header announces {size} bytes, too many for {bytes} compressed bytes"),
        ));
    }
    // Memory grows with the output: a header with an inflated size gets little more than the data need.
    let mut room = size.min((packed.len() as u64).saturating_mul(8) + (1 << 16));
    loop {
        let mut bytes = vec![0; room as usize];
        match libdeflater::Decompressor::new().deflate_decompress(packed, &mut bytes) {
            Ok(length) if length as u64 == size => return Ok(bytes),
            Err(DecompressionError::InsufficientSpace) if room < size => room = size.min(room.saturating_mul(8)),
            Ok(length) => {
                let what =
                    format!("the compressed member is damaged: it has {length} bytes, but the header announces {size}");
                return Err(Failure::damaged(path, what));
            }
            Err(_) => return Err(Failure::damaged(path, "the compressed member is damaged")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, data: &[u8], at: u64) -> Member {
        let size = data.len() as u64;
        Member { name: name.into(), method: Method::Stored, crc: crc32fast::hash(data), packed: size, size, at }
    }

    #[test]
    fn inflated_size_is_damage_and_takes_little_memory() {
        let packed = deflated(&[7; 100], 6);
        let promised = (packed.len() as u64 + 1) * EXPANSION_MAX;
        let failure = inflated(Path::new("a.npz"), &packed, promised).unwrap_err();
        assert!(failure.what.contains("has 100 bytes"), "{failure}");
        let zeroes = vec![0; 1 << 22];
        assert!(inflated(Path::new("a.npz"), &deflated(&zeroes, 6), 1 << 22).is_ok_and(|bytes| bytes == zeroes));
    }

    #[test]
    fn rejects_a_size_that_the_packed_bytes_cannot_reach() {
        let data = vec![0; 1 << 20];
        let packed = deflated(&data, 6);
        let path = Path::new("a.npz");
        assert!(inflated(path, &packed, 1 << 20).is_ok_and(|bytes| bytes == data));
        let refused = |size| inflated(path, &packed, size).unwrap_err().to_string();
        assert!(refused((1 << 20) + 1).contains("damaged"), "{}", refused((1 << 20) + 1));
        for size in [4 << 30, u64::MAX] {
            assert!(refused(size).contains("too many for"), "{}", refused(size));
        }
    }

    #[test]
    fn finds_second_member() {
        let mut file = Vec::new();
        let members = [("a", &b"first"[..]), ("b", &b"second"[..])].map(|(name, data)| {
            let member = member(name, data, file.len() as u64);
            file.extend(local_header(&member));
            file.extend(data);
            member
        });
        let start = file.len() as u64;
        file.extend(directory(&members, start));
        let found = member_in(&file, |name| name == "b").unwrap();
        assert_eq!((found.packed, found.crc), (&b"second"[..], crc32fast::hash(b"second")));
        assert!(member_in(&file, |name| name == "c").is_none());
        for cut in 0..file.len() {
            let _ = member_in(&file[..cut], |name| name == "b");
        }
    }

    #[test]
    fn places_beyond_four_gigabytes_take_the_wide_fields() {
        let mut far = member("x", b"data", 5 << 32);
        far.size = 6 << 32;
        let mut entry = Vec::new();
        central_entry(&far, &mut entry);
        assert_eq!(entry.len(), 46 + 1 + 4 + 16);
        let end = directory(&[far], 7 << 32);
        assert!(end.windows(4).any(|four| four == b"PK\x06\x07"));
    }
}
