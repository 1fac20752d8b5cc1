//! LevelDB's sorted table, which TensorFlow uses for the index of a checkpoint.
//!
//! ```text
//! blocks      entries: bytes shared with the previous key, other bytes of the key, bytes of the value (varints), key, value;
//!             offset of each run of 16 (u32), number of runs (u32); kind 0, u32 masked crc32c of block and kind
//! filters     a block without entries
//! index       a key not below the last of a block -> the block's offset and size (varints)
//! footer      offset and size of filters and index, padded to 40 bytes, and the magic number of all tables
//! ```

use crate::system::checksum::{Checksum, masked, unmasked};

const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const FOOTER: usize = 48;
/// Bytes after a block that are not part of its size.
const TRAILER: usize = 5;
/// Every sixteenth key is written in full, without sharing bytes with the previous one.
const RUN: usize = 16;
/// A block of at least this size is closed: TensorFlow's own choice.
const BLOCK: usize = 256 << 10;

type Entry = (Vec<u8>, Vec<u8>);

pub fn varint(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Reads the number at the start of `bytes` and advances `bytes` past it.
pub fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    runs: Vec<u32>,
    count: usize,
    last: Vec<u8>,
}

impl Block {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let begins = self.count.is_multiple_of(RUN);
        if begins {
            self.runs.push(self.bytes.len() as u32);
        }
        let same = self.last.iter().zip(key).take_while(|(before, now)| before == now).count();
        let shared = if begins { 0 } else { same };
        for number in [shared, key.len() - shared, value.len()] {
            varint(number as u64, &mut self.bytes);
        }
        self.bytes.extend(&key[shared..]);
        self.bytes.extend(value);
        self.last = key.to_vec();
        self.count += 1;
    }

    /// Appends the block to a table; returns its offset and size as the index stores them.
    fn close(mut self, table: &mut Vec<u8>) -> Vec<u8> {
        if self.runs.is_empty() {
            self.runs.push(0);
        }
        self.bytes.extend(self.runs.iter().flat_map(|run| run.to_le_bytes()));
        self.bytes.extend((self.runs.len() as u32).to_le_bytes());
        let mut place = Vec::new();
        varint(table.len() as u64, &mut place);
        varint(self.bytes.len() as u64, &mut place);
        self.bytes.push(0);
        let crc = Checksum::Crc32c.of(&self.bytes);
        table.extend(&self.bytes);
        table.extend(masked(crc).to_le_bytes());
        place
    }
}

/// Returns a table of these entries, whose keys are sorted.
pub fn table(entries: &[Entry]) -> Vec<u8> {
    let (mut table, mut index, mut block) = (Vec::new(), Block::default(), Block::default());
    for (place, (key, value)) in entries.iter().enumerate() {
        block.add(key, value);
        if block.bytes.len() >= BLOCK || place + 1 == entries.len() {
            let last = std::mem::take(&mut block);
            let key = last.last.clone();
            index.add(&key, &last.close(&mut table));
        }
    }
    let mut footer = Block::default().close(&mut table);
    footer.extend(index.close(&mut table));
    footer.resize(FOOTER - 8, 0);
    table.extend(footer);
    table.extend(MAGIC.to_le_bytes());
    table
}

/// Returns the entries of a table, or `None` if it is not complete.
pub fn entries(table: &[u8]) -> Option<Vec<Entry>> {
    let (_, footer) = table.split_last_chunk::<FOOTER>()?;
    let (mut places, magic) = footer.split_last_chunk::<8>()?;
    if u64::from_le_bytes(*magic) != MAGIC {
        return None;
    }
    let _filters = block_at(table, &mut places)?;
    let mut all = Vec::new();
    for (_, place) in block_at(table, &mut places)? {
        all.extend(block_at(table, &mut &place[..])?);
    }
    Some(all)
}

/// Returns the entries of the block whose offset and size are next in `place`.
fn block_at(table: &[u8], place: &mut &[u8]) -> Option<Vec<Entry>> {
    let at = usize::try_from(read_varint(place)?).ok()?;
    let size = usize::try_from(read_varint(place)?).ok()?;
    let whole = table.get(at..at.checked_add(size)?.checked_add(TRAILER)?)?;
    let (block, crc) = whole.split_last_chunk::<4>()?;
    let (kind, block) = block.split_last()?;
    if *kind != 0 || unmasked(u32::from_le_bytes(*crc)) != Checksum::Crc32c.of(&whole[..size + 1]) {
        return None;
    }
    let (block, runs) = block.split_last_chunk::<4>()?;
    let runs = (u32::from_le_bytes(*runs) as usize).checked_mul(4)?;
    let mut left = block.get(..block.len().checked_sub(runs)?)?;
    let (mut entries, mut last) = (Vec::new(), Vec::new());
    while !left.is_empty() {
        let mut number = || usize::try_from(read_varint(&mut left)?).ok();
        let (shared, other, value) = (number()?, number()?, number()?);
        let (rest_of_key, behind) = left.split_at_checked(other)?;
        let (value, behind) = behind.split_at_checked(value)?;
        left = behind;
        let key = [last.get(..shared)?, rest_of_key].concat();
        entries.push((key.clone(), value.to_vec()));
        last = key;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(count: usize, value: usize) -> Vec<Entry> {
        (0..count).map(|number| (format!("layer/{number:06}/w").into_bytes(), vec![number as u8; value])).collect()
    }

    #[test]
    fn table_round_trips() {
        for entries in [vec![], many(1, 0), many(17, 3), many(40_000, 30), many(3, 300 << 10)] {
            assert_eq!(super::entries(&table(&entries)), Some(entries));
        }
    }

    #[test]
    fn damaged_table_is_rejected() {
        let whole = table(&many(40, 5));
        for cut in 0..whole.len() {
            assert_eq!(entries(&whole[..cut]), None);
        }
        // The bytes of the footer after the offsets are never read.
        for at in (0..whole.len() - FOOTER + 4).chain(whole.len() - 8..whole.len()) {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert_ne!(entries(&changed), Some(many(40, 5)), "{at}");
        }
    }
}
