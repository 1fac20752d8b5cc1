//! Checksums of checkpoint formats: zip's CRC-32, and the CRC-32C of TensorFlow and LevelDB.
//!
//! Both are linear: the checksum of the xor of two texts of equal length is the xor of their checksums and of the
//! checksum of that many zeroes.

/// The checksum that a format uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    Crc32,
    Crc32c,
}

impl Checksum {
    pub fn of(self, bytes: &[u8]) -> u32 {
        self.append(0, bytes)
    }

    /// Extends the checksum of a text by the bytes that follow it.
    pub fn append(self, crc: u32, bytes: &[u8]) -> u32 {
        match self {
            Checksum::Crc32 => {
                let mut hasher = crc32fast::Hasher::new_with_initial(crc);
                hasher.update(bytes);
                hasher.finalize()
            }
            Checksum::Crc32c => crc32c::crc32c_append(crc, bytes),
        }
    }

    /// Combines the checksums of two texts into the checksum of their concatenation; `bytes` is the length of the
    /// second.
    pub fn join(self, first: u32, second: u32, bytes: u64) -> u32 {
        match self {
            Checksum::Crc32 => {
                let mut hasher = crc32fast::Hasher::new_with_initial(first);
                hasher.combine(&crc32fast::Hasher::new_with_initial_len(second, bytes));
                hasher.finalize()
            }
            Checksum::Crc32c => crc32c::crc32c_combine(first, second, bytes as usize),
        }
    }
}

/// Added to a rotated CRC-32C that is stored among the bytes it covers: a checksum over itself would be a constant.
const MASK: u32 = 0xa282_ead8;

/// Returns a CRC-32C as TensorFlow and LevelDB store it.
pub fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK)
}

pub fn unmasked(stored: u32) -> u32 {
    stored.wrapping_sub(MASK).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_two_texts_is_that_of_one() {
        for kind in [Checksum::Crc32, Checksum::Crc32c] {
            let text: Vec<u8> = (0..=255).cycle().take(1000).collect();
            for cut in [0, 1, 500, 1000] {
                let (first, second) = text.split_at(cut);
                assert_eq!(kind.append(kind.of(first), second), kind.of(&text));
                assert_eq!(kind.join(kind.of(first), kind.of(second), second.len() as u64), kind.of(&text));
            }
        }
        assert_eq!((Checksum::Crc32.of(b"123456789"), Checksum::Crc32c.of(b"123456789")), (0xcbf4_3926, 0xe306_9283));
    }

    #[test]
    fn masked_checksum_round_trips() {
        assert_eq!([0, 1, u32::MAX, 0xe306_9283].map(|crc| unmasked(masked(crc))), [0, 1, u32::MAX, 0xe306_9283]);
    }
}
