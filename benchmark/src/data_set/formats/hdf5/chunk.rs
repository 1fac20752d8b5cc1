//! A chunk of a data set, and the format of its entry in an index.

use super::head::{Fields, UNDEFINED};

/// The location of a chunk, or that it was never written.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    pub address: u64,
    pub packed: u64,
    pub skipped: u64,
}

impl Chunk {
    pub const NEVER_WRITTEN: Chunk = Chunk { address: UNDEFINED, packed: 0, skipped: 0 };
}

/// The format of the entries of an index.
pub struct Entries {
    pub length: u64,
    pub packed: bool,
    /// The length of an unfiltered chunk.
    pub bytes: u64,
}

impl Entries {
    pub fn all(&self, bytes: &[u8]) -> Option<Vec<Chunk>> {
        bytes.chunks_exact(self.length as usize).map(|entry| self.one(entry)).collect()
    }

    pub fn one(&self, entry: &[u8]) -> Option<Chunk> {
        let mut fields = Fields(entry);
        let address = fields.number(8)?;
        if !self.packed {
            return Some(Chunk { address, packed: self.bytes, skipped: 0 });
        }
        Some(Chunk { address, packed: fields.number(self.length as usize - 12)?, skipped: fields.number(4)? })
    }
}
