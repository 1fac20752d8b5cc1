//! The bytes of samples: incompressible, reproducible from a seed at any position, and generated faster than they can
//! be written.
//!
//! A file is one stream of 64-bit words. Integers use them directly; floating-point elements become numbers in [0, 1),
//! because arbitrary bits would be NaNs and infinities. This module does not know file formats.

use crate::config::Element;
use crate::system::random::word;

/// Pieces of this size are generated, checksummed and written while they are in the second-level cache.
pub const PIECE: usize = 256 * 1024;

#[derive(Debug, Clone, Copy)]
pub struct Content {
    seed: u64,
    element: Element,
}

impl Content {
    pub fn new(seed: u64, element: Element) -> Content {
        Content { seed, element }
    }

    /// Fills `bytes` with the stream starting at byte `offset`, a multiple of eight.
    pub fn fill(&self, offset: u64, bytes: &mut [u8]) {
        debug_assert!(offset.is_multiple_of(8));
        let first = offset / 8;
        match self.element.name {
            "float64" => fill_with(self.seed, first, bytes, |word| (unit_f64(word)).to_bits()),
            "float32" => fill_with(self.seed, first, bytes, two_floats),
            "float16" => fill_with(self.seed, first, bytes, four_halves),
            _ => fill_with(self.seed, first, bytes, |word| word),
        }
    }

    /// Calls `use_piece` with the stream's bytes `from..to` in pieces, in order.
    pub fn pieces<E>(
        &self,
        from: u64,
        to: u64,
        scratch: &mut Vec<u8>,
        mut use_piece: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        scratch.resize(PIECE + 8, 0);
        let mut at = from;
        while at < to {
            // A sample may start anywhere in the stream, but words are aligned.
            let slack = (at % 8) as usize;
            let take = (PIECE as u64).min(to - at) as usize;
            self.fill(at - slack as u64, &mut scratch[..slack + take]);
            use_piece(&scratch[slack..slack + take])?;
            at += take as u64;
        }
        Ok(())
    }
}

#[inline(always)]
fn fill_with(seed: u64, first: u64, bytes: &mut [u8], shape: impl Fn(u64) -> u64) {
    let (words, rest) = bytes.as_chunks_mut::<8>();
    let count = words.len() as u64;
    for (index, place) in words.iter_mut().enumerate() {
        *place = shape(word(seed, first + index as u64)).to_le_bytes();
    }
    let last = shape(word(seed, first + count)).to_le_bytes();
    let length = rest.len();
    rest.copy_from_slice(&last[..length]);
}

fn unit_f64(word: u64) -> f64 {
    f64::from_bits(word >> 12 | 0x3ff0_0000_0000_0000) - 1.0
}

fn unit_f32(bits: u32) -> u32 {
    (f32::from_bits(bits >> 9 | 0x3f80_0000) - 1.0).to_bits()
}

fn two_floats(word: u64) -> u64 {
    u64::from(unit_f32((word >> 32) as u32)) << 32 | u64::from(unit_f32(word as u32))
}

/// Turns a word into four half-precision numbers with exponent 14, in [0.5, 1): ten random bits each, no denormals.
fn four_halves(word: u64) -> u64 {
    word & 0x03ff_03ff_03ff_03ff | 0x3800_3800_3800_3800
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_the_stream_is_the_same_part() {
        let content = Content::new(5, Element::UINT8);
        let mut whole = vec![0; 4096];
        content.fill(0, &mut whole);
        let mut part = vec![0; 100];
        content.fill(1024, &mut part);
        assert_eq!(part, whole[1024..1124]);
    }

    #[test]
    fn pieces_join_to_the_stream_wherever_they_begin() {
        let content = Content::new(5, Element::UINT8);
        let mut whole = vec![0; PIECE * 2 + 100];
        content.fill(0, &mut whole);
        let mut joined: Vec<u8> = Vec::new();
        content
            .pieces(13, whole.len() as u64, &mut Vec::new(), |piece| -> Result<(), ()> {
                joined.extend(piece);
                Ok(())
            })
            .unwrap();
        assert!(joined == whole[13..]);
    }

    #[test]
    fn floating_elements_are_numbers_in_the_unit_interval() {
        let mut bytes = vec![0; 8000];
        Content::new(1, Element::named("float32")).fill(0, &mut bytes);
        assert!(bytes.as_chunks::<4>().0.iter().all(|four| (0.0..1.0).contains(&f32::from_le_bytes(*four))));
        Content::new(1, Element::named("float64")).fill(0, &mut bytes);
        assert!(bytes.as_chunks::<8>().0.iter().all(|eight| (0.0..1.0).contains(&f64::from_le_bytes(*eight))));
    }

    #[test]
    fn bytes_do_not_compress() {
        let mut bytes = vec![0; 1 << 20];
        Content::new(3, Element::UINT8).fill(0, &mut bytes);
        let mut packer = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut packed = vec![0; packer.zlib_compress_bound(bytes.len())];
        let size = packer.zlib_compress(&bytes, &mut packed).unwrap();
        assert!(size > bytes.len());
    }
}
