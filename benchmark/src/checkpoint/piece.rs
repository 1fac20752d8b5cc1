//! The bytes of a checkpoint: generated once, varied cheaply, with a checksum that is known without reading them.

use crate::config::{Datatype, Element};
use crate::data_set::content::Content;
use crate::system::checksum::Checksum;
use crate::system::processes;
use crate::system::random::{mixed, word};
use std::io::{self, Write};

/// The size of one write: large enough that the cost of calls is negligible, small enough to fit in the CPU cache.
pub(super) const PIECE: usize = 512 << 10;
const _: () = assert!(PIECE.is_power_of_two());

/// The bytes that are written next. Generating noise takes as long as writing it, so it is generated once, and each
/// piece is the first one xored with an eight-byte key: no two pieces share a block that storage could deduplicate or
/// compress.
///
/// The checksum is linear: the checksum of the xor of two pieces is the xor of their checksums. So one piece is
/// checksummed, and the effect of each key bit on the checksum is precomputed.
pub(super) struct Piece {
    bytes: Vec<u8>,
    /// Draws the keys; with `None` all pieces are equal.
    seed: Option<u64>,
    turned: u64,
    key: u64,
    kind: Checksum,
    first_crc: u32,
    crc_of_bits: [u32; 64],
}

impl Piece {
    fn new(bytes: Vec<u8>, seed: Option<u64>, kind: Checksum) -> Piece {
        let first_crc = kind.of(&bytes);
        Piece { bytes, seed, turned: 0, key: 0, kind, first_crc, crc_of_bits: crc_of_bits(kind) }
    }

    /// Creates the piece for a file of `bytes`, with checksums of a kind: noise, or ones of the data type.
    pub(super) fn of(bytes: u64, datatype: Datatype, random: bool, kind: Checksum) -> Piece {
        match random {
            true => Piece::noise(bytes, kind),
            false => Piece::new(datatype.one.repeat(PIECE / datatype.one.len()), None, kind),
        }
    }

    /// Writes the next `bytes` at the file's position, as a new tensor; returns their checksum.
    pub(super) fn write(&mut self, file: &mut impl Write, bytes: u64) -> io::Result<u32> {
        let mut crc = 0;
        let mut left = bytes;
        while left > 0 {
            let length = left.min(PIECE as u64) as usize;
            crc = match length {
                PIECE => self.kind.join(crc, self.crc_with(self.key), PIECE as u64),
                _ => self.kind.append(crc, &self.bytes[..length]),
            };
            file.write_all(&self.bytes[..length])?;
            left -= length as u64;
            self.turn();
            if processes::interrupted() {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
        }
        Ok(crc)
    }

    fn noise(bytes: u64, kind: Checksum) -> Piece {
        let seed = mixed(&[bytes, 3]);
        let mut piece = vec![0; PIECE];
        Content::new(seed, Element::UINT8).fill(0, &mut piece);
        Piece::new(piece, Some(seed), kind)
    }

    fn turn(&mut self) {
        let Some(seed) = self.seed else { return };
        self.turned += 1;
        let change = word(!seed, self.turned);
        self.key ^= change;
        for eight in self.bytes.as_chunks_mut::<8>().0 {
            *eight = (u64::from_le_bytes(*eight) ^ change).to_le_bytes();
        }
    }

    /// Returns the checksums of the next tensors, given their lengths.
    pub(super) fn crcs_ahead(&self, lengths: &[u64]) -> Vec<u32> {
        let (mut key, mut turned) = (self.key, self.turned);
        let mut one = |length: u64| {
            let (mut sum, mut left) = (0, length);
            while left > 0 {
                let part = left.min(PIECE as u64) as usize;
                sum = match part {
                    PIECE => self.kind.join(sum, self.crc_with(key), PIECE as u64),
                    _ => {
                        let change = (self.key ^ key).to_le_bytes();
                        let bytes =
                            self.bytes[..part].iter().zip(change.iter().cycle()).map(|(byte, change)| byte ^ change);
                        self.kind.append(sum, &bytes.collect::<Vec<_>>())
                    }
                };
                left -= part as u64;
                if let Some(seed) = self.seed {
                    turned += 1;
                    key ^= word(!seed, turned);
                }
            }
            sum
        };
        lengths.iter().map(|length| one(*length)).collect()
    }

    fn crc_with(&self, key: u64) -> u32 {
        let set = (0..64).filter(|bit| key >> bit & 1 == 1);
        set.fold(self.first_crc, |crc, bit: usize| crc ^ self.crc_of_bits[bit])
    }
}

/// Returns, for each bit of a key, its effect on the checksum of a piece.
fn crc_of_bits(kind: Checksum) -> [u32; 64] {
    let of = |key: u64| {
        let (mut crc, mut bytes) = (kind.of(&key.to_le_bytes()), 8);
        while bytes < PIECE as u64 {
            crc = kind.join(crc, crc, bytes);
            bytes *= 2;
        }
        crc
    };
    let nothing = of(0);
    std::array::from_fn(|bit| of(1 << bit) ^ nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Vec<Piece> {
        let ones = |kind| Piece::of(9, Datatype::named("fp16"), false, kind);
        [Checksum::Crc32, Checksum::Crc32c].into_iter().flat_map(|kind| [Piece::noise(9, kind), ones(kind)]).collect()
    }

    #[test]
    fn tensor_checksums_are_known_before_writing() {
        let lengths = [1, PIECE as u64, 77, 0, 3 * PIECE as u64 + 5, 13];
        for mut piece in pieces() {
            piece.turn();
            let ahead = piece.crcs_ahead(&lengths);
            let written = lengths.map(|length| piece.write(&mut io::sink(), length).unwrap());
            assert_eq!(ahead, written);
        }
    }

    #[test]
    fn checksum_of_next_piece_is_known_unread() {
        for mut piece in pieces() {
            for _ in 0..5 {
                assert_eq!(piece.crc_with(piece.key), piece.kind.of(&piece.bytes));
                piece.turn();
            }
        }
    }
}
