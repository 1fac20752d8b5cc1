//! The frame around every piece of a `.dlt`: a fixed header, a payload, checksums over both.
//!
//! ```text
//!  0  magic "DLB1"        4  kind (1) codec (1) zero (2)     8  stored bytes     12  raw bytes
//! 16  checksum of header 20  checksum of payload            24  stream          28  sequence in the stream
//! 32  thread id          36  count                          40  first tick      48  last tick
//! 56  anchor: ticks, boot ns, real ns                       80  payload ...
//! ```
//!
//! Blocks need nothing from their neighbours but names, so they can be decoded in any order, and a damaged one costs only
//! itself: the next is found by its magic and proved by its checksum.

use super::{Damage, u32_at, u64_at};
use crate::clock::Anchor;

pub const MAGIC: u32 = u32::from_le_bytes(*b"DLB1");
pub const HEADER_SIZE: usize = 80;

/// Nothing we write comes near this; a larger length is damage, not a reason to allocate.
pub const PAYLOAD_MAX: usize = 16 << 20;

/// What a block holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Facts about the process; later ones replace earlier ones of the same key.
    Process = 1,
    /// Strings; `first` of the header is the id of the first one.
    Names = 2,
    /// Events of one thread.
    Events = 3,
    /// A piece of a table of counts; `first` of the header is where it begins in there.
    Tally = 4,
}

/// How the payload is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Codec {
    Raw = 0,
    Zstd = 1,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub kind: Kind,
    pub codec: Codec,
    pub stored: u32,
    pub raw: u32,
    pub payload_sum: u32,
    /// Which ring of the process wrote it, and the how-manieth block of that ring it is: together they tell a reader of
    /// a leftover ring what has been written already.
    pub stream: u32,
    pub sequence: u32,
    pub tid: u32,
    pub count: u32,
    /// Events: tick the first one began at. Names: id of the first one.
    pub first: u64,
    /// Events: tick the last one ended at.
    pub last: u64,
    pub anchor: Anchor,
}

impl Header {
    /// A header whose lengths and sum [`Header::seal`] fills in.
    pub fn new(kind: Kind) -> Header {
        Header {
            kind,
            codec: Codec::Raw,
            stored: 0,
            raw: 0,
            payload_sum: 0,
            stream: 0,
            sequence: 0,
            tid: 0,
            count: 0,
            first: 0,
            last: 0,
            anchor: Anchor::default(),
        }
    }

    /// Notes the payload as it will be stored and returns the header's bytes.
    pub fn seal(&mut self, codec: Codec, raw: usize, payload: &[u8]) -> [u8; HEADER_SIZE] {
        self.codec = codec;
        self.raw = raw as u32;
        self.stored = payload.len() as u32;
        self.payload_sum = libdeflater::crc32(payload);
        self.to_bytes()
    }

    fn to_bytes(self) -> [u8; HEADER_SIZE] {
        let mut out = [0; HEADER_SIZE];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(4, &[self.kind as u8, self.codec as u8]);
        put(8, &self.stored.to_le_bytes());
        put(12, &self.raw.to_le_bytes());
        put(20, &self.payload_sum.to_le_bytes());
        put(24, &self.stream.to_le_bytes());
        put(28, &self.sequence.to_le_bytes());
        put(32, &self.tid.to_le_bytes());
        put(36, &self.count.to_le_bytes());
        put(40, &self.first.to_le_bytes());
        put(48, &self.last.to_le_bytes());
        put(56, &self.anchor.ticks.to_le_bytes());
        put(64, &self.anchor.boot_ns.to_le_bytes());
        put(72, &self.anchor.real_ns.to_le_bytes());
        let sum = header_sum(&out);
        out[16..20].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a header and proves it by its checksum; the payload is proved when it is opened.
    pub fn from_bytes(bytes: &[u8]) -> Result<Header, Damage> {
        let bytes: &[u8; HEADER_SIZE] = bytes.get(..HEADER_SIZE).and_then(|b| b.try_into().ok()).ok_or(Damage::Cut)?;
        if u32_at(bytes, 0) != MAGIC || u32_at(bytes, 16) != header_sum(bytes) {
            return Err(Damage::Broken("a block header"));
        }
        let header = Header {
            kind: [Kind::Process, Kind::Names, Kind::Events, Kind::Tally]
                .into_iter()
                .find(|kind| *kind as u8 == bytes[4])
                .ok_or(Damage::Broken("unknown kind of block"))?,
            codec: [Codec::Raw, Codec::Zstd]
                .into_iter()
                .find(|codec| *codec as u8 == bytes[5])
                .ok_or(Damage::Broken("unknown codec"))?,
            stored: u32_at(bytes, 8),
            raw: u32_at(bytes, 12),
            payload_sum: u32_at(bytes, 20),
            stream: u32_at(bytes, 24),
            sequence: u32_at(bytes, 28),
            tid: u32_at(bytes, 32),
            count: u32_at(bytes, 36),
            first: u64_at(bytes, 40),
            last: u64_at(bytes, 48),
            anchor: Anchor { ticks: u64_at(bytes, 56), boot_ns: u64_at(bytes, 64), real_ns: u64_at(bytes, 72) },
        };
        let largest = header.stored.max(header.raw) as usize;
        if largest > PAYLOAD_MAX { Err(Damage::Broken("a block's length")) } else { Ok(header) }
    }

    /// The stored payload of the block at the start of `bytes`, proved by its checksum.
    pub fn proved<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Damage> {
        let payload = bytes.get(HEADER_SIZE..self.size()).ok_or(Damage::Cut)?;
        if libdeflater::crc32(payload) == self.payload_sum {
            Ok(payload)
        } else {
            Err(Damage::Broken("a block's checksum"))
        }
    }

    /// Whole size in the file.
    pub fn size(&self) -> usize {
        HEADER_SIZE + self.stored as usize
    }
}

/// Over everything but the sum itself.
fn header_sum(bytes: &[u8; HEADER_SIZE]) -> u32 {
    let mut crc = libdeflater::Crc::new();
    crc.update(&bytes[..16]);
    crc.update(&bytes[20..]);
    crc.sum()
}

/// Opens payloads, keeping one decompressor and one buffer for many of them.
pub struct Opener {
    zstd: zstd::bulk::Decompressor<'static>,
    buffer: Vec<u8>,
}

impl Opener {
    pub fn new() -> std::io::Result<Opener> {
        Ok(Opener { zstd: zstd::bulk::Decompressor::new()?, buffer: Vec::new() })
    }

    /// The raw payload of the block at the start of `bytes`, proved by its checksum.
    pub fn open<'a>(&'a mut self, header: &Header, bytes: &'a [u8]) -> Result<&'a [u8], Damage> {
        let payload = header.proved(bytes)?;
        if header.codec == Codec::Raw {
            return Ok(payload);
        }
        self.buffer.resize(header.raw as usize, 0);
        match self.zstd.decompress_to_buffer(payload, &mut self.buffer) {
            Ok(n) if n == header.raw as usize => Ok(&self.buffer),
            _ => Err(Damage::Broken("a block's compression")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header { stream: 3, sequence: 9, tid: 77, count: 5, first: 100, last: 200, ..Header::new(Kind::Events) }
    }

    #[test]
    fn a_header_comes_back_as_it_was_written() {
        let mut header = sample();
        let bytes = header.seal(Codec::Raw, 5, b"hello");
        assert_eq!(Header::from_bytes(&bytes).unwrap(), header);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let bytes = sample().seal(Codec::Raw, 5, b"hello");
        for bit in 0..HEADER_SIZE * 8 {
            let mut broken = bytes;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::from_bytes(&broken).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_flipped_bit_of_the_payload_is_noticed() {
        let mut header = sample();
        let mut bytes = header.seal(Codec::Raw, 5, b"hello").to_vec();
        bytes.extend_from_slice(b"hellp");
        assert_eq!(Opener::new().unwrap().open(&header, &bytes), Err(Damage::Broken("a block's checksum")));
    }
}
