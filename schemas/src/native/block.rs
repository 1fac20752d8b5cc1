//! The frame around every block of a `.dlt`: a fixed header, a payload, checksums over both.
//!
//! ```text
//!  0  magic "DLB1"        4  kind (1) codec (1) reach (2)    8  stored bytes     12  raw bytes
//! 16  checksum of header 20  checksum of payload            24  stream          28  sequence in the stream
//! 32  thread id          36  count                          40  first tick      48  last tick
//! 56  anchor: ticks, boot ns, real ns                       80  payload ...
//! ```
//!
//! The reach is the distance from the first tick back to the earliest start of an event in the block: see [`reach`].
//!
//! Blocks need nothing from their neighbors except names, so they can be decoded in any order, and a damaged one
//! costs only itself: the next one is found by its magic number and verified by its checksum.

use super::{Damage, u32_at, u64_at};
use crate::event::clock::Anchor;

pub const MAGIC: u32 = u32::from_le_bytes(*b"DLB1");
pub const HEADER_SIZE: usize = 80;

/// Offsets of the fields of a header: see the module.
mod at {
    pub const MAGIC: usize = 0;
    pub const KIND: usize = 4;
    pub const CODEC: usize = 5;
    pub const REACH: usize = 6;
    pub const STORED: usize = 8;
    pub const RAW: usize = 12;
    pub const HEADER_SUM: usize = 16;
    pub const PAYLOAD_SUM: usize = 20;
    pub const STREAM: usize = 24;
    pub const SEQUENCE: usize = 28;
    pub const TID: usize = 32;
    pub const COUNT: usize = 36;
    pub const FIRST: usize = 40;
    pub const LAST: usize = 48;
    pub const ANCHOR: usize = 56;
}

/// Ticks in two bytes, rounded up by less than 0.2 %. Zero means unknown, as in files of writers without a reach.
pub mod reach {
    /// Bits of the number; those above them are its shift.
    const BITS: u32 = 10;

    pub fn of(ticks: u64) -> u16 {
        let shift = (u64::BITS - ticks.leading_zeros()).saturating_sub(BITS);
        let number = ticks.div_ceil(1 << shift);
        // A number rounded up to one more bit continues in the next shift, as half of it.
        let (shift, number) = if number >> BITS == 0 { (shift, number) } else { (shift + 1, number >> 1) };
        1 + ((shift as u16) << BITS | number as u16)
    }

    pub fn ticks(reach: u16) -> Option<u64> {
        let number = (reach.checked_sub(1)? & ((1 << BITS) - 1)) as u128;
        Some((number << ((reach - 1) >> BITS)).try_into().unwrap_or(u64::MAX))
    }
}

/// Maximum length, far above every length we write; a larger one is damage, not a reason to allocate.
pub const PAYLOAD_MAX: usize = 16 << 20;

/// The content of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Facts about the process; later ones replace earlier ones of the same key.
    Process = 1,
    /// Strings; `first` of the header is the id of the first one.
    Names = 2,
    /// Events of one thread.
    Events = 3,
    /// A chunk of a table of counts; `first` of the header is its offset in the table.
    Tally = 4,
}

/// The compression of the payload.
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
    /// The ring of the process that wrote the block, and the block's index within that ring. Together they show a
    /// reader of a leftover ring what has already been written.
    pub stream: u32,
    pub sequence: u32,
    pub tid: u32,
    pub count: u32,
    /// Events: start tick of the first one. Names: id of the first one.
    pub first: u64,
    /// Events: end tick of the last one.
    pub last: u64,
    /// Events: the distance from `first` back to their earliest start, encoded as in [`reach`].
    pub reach: u16,
    pub anchor: Anchor,
}

impl Header {
    /// Returns a header whose lengths and checksum [`Header::seal`] fills in.
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
            reach: 0,
            anchor: Anchor::default(),
        }
    }

    /// Returns the tick before which no event of the block started, if its writer recorded it.
    pub fn earliest(&self) -> Option<u64> {
        reach::ticks(self.reach).map(|ticks| self.first.saturating_sub(ticks))
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
        put(at::MAGIC, &MAGIC.to_le_bytes());
        put(at::KIND, &[self.kind as u8, self.codec as u8]);
        put(at::REACH, &self.reach.to_le_bytes());
        put(at::STORED, &self.stored.to_le_bytes());
        put(at::RAW, &self.raw.to_le_bytes());
        put(at::PAYLOAD_SUM, &self.payload_sum.to_le_bytes());
        put(at::STREAM, &self.stream.to_le_bytes());
        put(at::SEQUENCE, &self.sequence.to_le_bytes());
        put(at::TID, &self.tid.to_le_bytes());
        put(at::COUNT, &self.count.to_le_bytes());
        put(at::FIRST, &self.first.to_le_bytes());
        put(at::LAST, &self.last.to_le_bytes());
        put(at::ANCHOR, &self.anchor.ticks.to_le_bytes());
        put(at::ANCHOR + 8, &self.anchor.boot_ns.to_le_bytes());
        put(at::ANCHOR + 16, &self.anchor.real_ns.to_le_bytes());
        let sum = header_sum(&out);
        out[at::HEADER_SUM..at::PAYLOAD_SUM].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a header and verifies its checksum; the payload is verified when it is opened.
    pub fn from_bytes(bytes: &[u8]) -> Result<Header, Damage> {
        let bytes: &[u8; HEADER_SIZE] = bytes.get(..HEADER_SIZE).and_then(|b| b.try_into().ok()).ok_or(Damage::Cut)?;
        if u32_at(bytes, at::MAGIC) != MAGIC || u32_at(bytes, at::HEADER_SUM) != header_sum(bytes) {
            return Err(Damage::Broken("a block header"));
        }
        let header = Header {
            kind: [Kind::Process, Kind::Names, Kind::Events, Kind::Tally]
                .into_iter()
                .find(|kind| *kind as u8 == bytes[at::KIND])
                .ok_or(Damage::Broken("unknown kind of block"))?,
            codec: [Codec::Raw, Codec::Zstd]
                .into_iter()
                .find(|codec| *codec as u8 == bytes[at::CODEC])
                .ok_or(Damage::Broken("unknown codec"))?,
            stored: u32_at(bytes, at::STORED),
            raw: u32_at(bytes, at::RAW),
            payload_sum: u32_at(bytes, at::PAYLOAD_SUM),
            stream: u32_at(bytes, at::STREAM),
            sequence: u32_at(bytes, at::SEQUENCE),
            tid: u32_at(bytes, at::TID),
            count: u32_at(bytes, at::COUNT),
            first: u64_at(bytes, at::FIRST),
            last: u64_at(bytes, at::LAST),
            reach: u16::from_le_bytes([bytes[at::REACH], bytes[at::REACH + 1]]),
            anchor: Anchor {
                ticks: u64_at(bytes, at::ANCHOR),
                boot_ns: u64_at(bytes, at::ANCHOR + 8),
                real_ns: u64_at(bytes, at::ANCHOR + 16),
            },
        };
        let largest = header.stored.max(header.raw) as usize;
        if largest > PAYLOAD_MAX { Err(Damage::Broken("a block's length")) } else { Ok(header) }
    }

    /// Returns the stored payload of the block at the start of `bytes`, verified by its checksum.
    pub fn proved<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Damage> {
        let payload = bytes.get(HEADER_SIZE..self.size()).ok_or(Damage::Cut)?;
        if libdeflater::crc32(payload) == self.payload_sum {
            Ok(payload)
        } else {
            Err(Damage::Broken("a block's checksum"))
        }
    }

    /// Returns the whole size in the file.
    pub fn size(&self) -> usize {
        HEADER_SIZE + self.stored as usize
    }
}

/// Returns the number of events of a block that was sealed by this process: nothing is verified.
pub fn events_of(block: &[u8]) -> u32 {
    if block[at::KIND] == Kind::Events as u8 { u32_at(block, at::COUNT) } else { 0 }
}

/// Returns the checksum of everything except the checksum itself.
fn header_sum(bytes: &[u8; HEADER_SIZE]) -> u32 {
    let mut crc = libdeflater::Crc::new();
    crc.update(&bytes[..at::HEADER_SUM]);
    crc.update(&bytes[at::PAYLOAD_SUM..]);
    crc.sum()
}

/// A reader of payloads, which keeps one decompressor and one buffer for many of them. A file without compressed blocks,
/// like that of a short-lived process, needs neither.
#[derive(Default)]
pub struct Opener {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    buffer: Vec<u8>,
}

impl Opener {
    /// Returns the raw payload of the block at the start of `bytes`, verified by its checksum.
    pub fn open<'a>(&'a mut self, header: &Header, bytes: &'a [u8]) -> Result<&'a [u8], Damage> {
        let payload = header.proved(bytes)?;
        if header.codec == Codec::Raw {
            return Ok(payload);
        }
        let Opener { zstd, buffer } = self;
        let zstd = match zstd {
            Some(zstd) => zstd,
            none => {
                none.insert(zstd::bulk::Decompressor::new().map_err(|_| Damage::Broken("no memory to decompress"))?)
            }
        };
        buffer.resize(header.raw as usize, 0);
        match zstd.decompress_to_buffer(payload, buffer) {
            Ok(n) if n == header.raw as usize => Ok(buffer),
            _ => Err(Damage::Broken("a block's compression")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            stream: 3,
            sequence: 9,
            tid: 77,
            count: 5,
            first: 100,
            last: 200,
            reach: 8,
            ..Header::new(Kind::Events)
        }
    }

    #[test]
    fn header_round_trips() {
        let mut header = sample();
        let bytes = header.seal(Codec::Raw, 5, b"hello");
        assert_eq!(Header::from_bytes(&bytes).unwrap(), header);
        assert_eq!(events_of(&bytes), 5);
        assert_eq!(events_of(&Header { kind: Kind::Names, ..header }.seal(Codec::Raw, 5, b"hello")), 0);
    }

    #[test]
    fn reach_rounds_up_by_little() {
        let near = |at: u64| [at.saturating_sub(1), at, at.saturating_add(1)];
        let powers = (0..u64::BITS).flat_map(|bit| near(1 << bit).into_iter().chain(near(1023 << bit >> 1)));
        for ticks in powers.chain([0, 1 << 53 | 1, u64::MAX]) {
            let held = reach::ticks(reach::of(ticks)).unwrap();
            assert!(held >= ticks && held - ticks <= ticks / 512, "{ticks} became {held}");
        }
        assert_eq!(reach::ticks(0), None);
        let header = Header { first: 5000, reach: reach::of(300), ..sample() };
        assert_eq!((header.earliest(), sample().earliest()), (Some(4700), Some(93)));
        assert_eq!(Header { reach: 0, ..header }.earliest(), None);
    }

    #[test]
    fn flipped_header_bits_are_detected() {
        let bytes = sample().seal(Codec::Raw, 5, b"hello");
        for bit in 0..HEADER_SIZE * 8 {
            let mut broken = bytes;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::from_bytes(&broken).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn flipped_payload_bit_is_detected() {
        let mut header = sample();
        let mut bytes = header.seal(Codec::Raw, 5, b"hello").to_vec();
        bytes.extend_from_slice(b"hellp");
        assert_eq!(Opener::default().open(&header, &bytes), Err(Damage::Broken("a block's checksum")));
    }
}
