//! The chunk indexes of data sets with unlimited dimensions: an extensible array for one such dimension, a B-tree for
//! several.
//!
//! ```text
//! array        "EAHD" 0 · client · entry length · index bits · in index · in smallest · least pointers · page bits
//!              · 6 counts 8 each · index block 8 · sum 4
//! index block  "EAIB" 0 · client · header 8 · entries · data blocks 8 each · secondary blocks 8 each · sum 4
//! secondary    "EASB" 0 · client · header 8 · offset · [one bit per page] · data blocks 8 each · sum 4
//! data block   "EADB" 0 · client · header 8 · offset · [sum 4 · pages, each with] entries · sum 4
//! tree         "BTHD" 0 · kind · node 4 · record 2 · depth 2 · split · merge · root 8 · its records 2 · all 8 · sum 4
//! leaf         "BTLF" 0 · kind · records · sum 4
//! inner node   "BTIN" 0 · kind · records · children (address 8 · records · [records below it]) · sum 4
//! record       address 8 · [packed length · skipped filters 4] · position 8 each
//! ```

use super::chunk::{Chunk, Entries};
use super::head::{Fields, UNDEFINED, bytes_at, checked};
use crate::files::input::ReadAt;

/// The maximum size of an index block: a header with more is wrong.
const BLOCK_MAX: u64 = 1 << 28;

/// The maximum depth of a tree: a deeper one would have more chunks than a file has bytes.
const DEPTH_MAX: u64 = 16;

/// The maximum number of nodes read, which ends a cyclic tree.
const NODES_MAX: u64 = 1 << 22;

fn block_at(file: &dyn ReadAt, address: u64, length: u64) -> Option<Vec<u8>> {
    let is_there = length <= BLOCK_MAX && address.checked_add(length)? <= file.length().ok()?;
    bytes_at(file, address, usize::try_from(length).ok().filter(|_| is_there)?)
}

/// An extensible array, whose blocks grow with it.
struct Array<'a> {
    file: &'a dyn ReadAt,
    entries: Entries,
    /// Bytes of an offset in the array.
    offset: u64,
    smallest: u64,
    page: u64,
    wanted: usize,
    found: Vec<Chunk>,
}

/// Reads the first `count` entries of an extensible array; `bytes` is the length of an unfiltered chunk.
pub fn array(file: &dyn ReadAt, address: u64, count: u64, bytes: u64) -> Option<Vec<Chunk>> {
    let header = bytes_at(file, address, 72)?;
    let mut fields = Fields(checked(&header)?);
    fields.is(b"EAHD\0")?;
    let (packed, length) = (fields.number(1)? == 1, fields.number(1)?);
    let [bits, in_index, smallest, pointers, page_bits] =
        [fields.number(1)?, fields.number(1)?, fields.number(1)?, fields.number(1)?, fields.number(1)?];
    fields.take(48)?;
    let index = fields.number(8)?;
    let powers = smallest.is_power_of_two() && pointers.is_power_of_two();
    let wide_enough = if packed { (13..=20).contains(&length) } else { length == 8 };
    if !powers || !wide_enough || bits > 64 || page_bits >= 32 || bits < u64::from(smallest.ilog2()) {
        return None;
    }
    let mut array = Array {
        file,
        entries: Entries { length, packed, bytes },
        offset: bits.div_ceil(8),
        smallest,
        page: 1 << page_bits,
        wanted: count as usize,
        found: Vec::new(),
    };
    if index != UNDEFINED {
        array.index_block(index, bits, in_index, pointers)?;
    }
    array.skip(count);
    Some(array.found)
}

impl Array<'_> {
    fn is_done(&self) -> bool {
        self.found.len() >= self.wanted
    }

    fn add(&mut self, entries: &[u8]) -> Option<()> {
        self.found.extend(self.entries.all(entries)?);
        self.found.truncate(self.wanted);
        Some(())
    }

    /// Adds chunks that were never written.
    fn skip(&mut self, count: u64) {
        let left = (self.wanted - self.found.len()).min(usize::try_from(count).unwrap_or(usize::MAX));
        self.found.extend(std::iter::repeat_n(Chunk::NEVER_WRITTEN, left));
    }

    /// Returns the fields after the head of a block.
    fn body<'b>(&self, block: &'b [u8], signature: &[u8], with_offset: bool) -> Option<Fields<'b>> {
        let mut fields = Fields(checked(block)?);
        fields.is(signature)?;
        fields.is(&[u8::from(self.entries.packed)])?;
        fields.take(8 + if with_offset { self.offset as usize } else { 0 })?;
        Some(fields)
    }

    fn index_block(&mut self, address: u64, bits: u64, in_index: u64, pointers: u64) -> Option<()> {
        // The first groups of data blocks are attached to the index block, each later group to a secondary block.
        let direct = 2 * u64::from(pointers.ilog2());
        let groups = 1 + bits - u64::from(self.smallest.ilog2());
        let (blocks, secondary) = (2 * (pointers - 1), groups.saturating_sub(direct));
        let length = 14 + in_index * self.entries.length + 8 * (blocks + secondary) + 4;
        let block = block_at(self.file, address, length)?;
        let mut fields = self.body(&block, b"EAIB\0", false)?;
        self.add(fields.take((in_index * self.entries.length) as usize)?)?;
        for group in 0..direct.min(groups) {
            for _ in 0..1u64 << (group / 2) {
                let address = fields.number(8)?;
                self.data_block(address, self.in_block(group)?, &[])?;
            }
        }
        for group in direct..groups {
            if self.is_done() {
                break;
            }
            let address = fields.number(8)?;
            self.secondary_block(address, group)?;
        }
        Some(())
    }

    /// Returns the number of entries in a data block of a group.
    fn in_block(&self, group: u64) -> Option<u64> {
        1u64.checked_shl(u32::try_from(group.div_ceil(2)).ok()?)?.checked_mul(self.smallest)
    }

    fn secondary_block(&mut self, address: u64, group: u64) -> Option<()> {
        let (blocks, each) = (1u64.checked_shl(u32::try_from(group / 2).ok()?)?, self.in_block(group)?);
        if address == UNDEFINED {
            self.skip(blocks.saturating_mul(each));
            return Some(());
        }
        let pages = if each > self.page { each / self.page } else { 0 };
        let bits = blocks.checked_mul(pages.div_ceil(8))?;
        let length = blocks.checked_mul(8)?.checked_add(bits)?.checked_add(14 + self.offset + 4)?;
        let block = block_at(self.file, address, length)?;
        let mut fields = self.body(&block, b"EASB\0", true)?;
        let bits = fields.take(bits as usize)?;
        for number in 0..blocks {
            let at = number * pages;
            // The first page is the highest bit.
            let needed = (self.wanted - self.found.len()) as u64 / self.page + 1;
            let written: Vec<bool> =
                (at..at + pages.min(needed)).map(|page| bits[(page / 8) as usize] >> (7 - page % 8) & 1 == 1).collect();
            let address = fields.number(8)?;
            self.data_block(address, each, &written)?;
        }
        Some(())
    }

    /// Adds the entries of a data block; `written` marks the written pages of a paged block.
    fn data_block(&mut self, address: u64, each: u64, written: &[bool]) -> Option<()> {
        if self.is_done() || address == UNDEFINED {
            self.skip(each);
            return Some(());
        }
        let head = 14 + self.offset;
        if written.is_empty() {
            let block = block_at(self.file, address, each.checked_mul(self.entries.length)?.checked_add(head + 4)?)?;
            let entries = self.body(&block, b"EADB\0", true)?;
            return self.add(entries.0);
        }
        let block = block_at(self.file, address, head + 4)?;
        self.body(&block, b"EADB\0", true)?;
        let length = self.page.checked_mul(self.entries.length)?.checked_add(4)?;
        let mut at = address.checked_add(head + 4)?;
        for page in written {
            if self.is_done() {
                break;
            }
            match page {
                true => self.add(checked(&block_at(self.file, at, length)?)?)?,
                false => self.skip(self.page),
            }
            at = at.checked_add(length)?;
        }
        Some(())
    }
}

/// A B-tree of chunks by their positions.
struct Tree<'a> {
    file: &'a dyn ReadAt,
    kind: u8,
    record: usize,
    entries: Entries,
    /// The current number of chunks along each dimension.
    counts: &'a [u64],
    /// Width in bytes of a node's record count, and of the count of records below a node at each depth.
    own_width: usize,
    below_widths: Vec<usize>,
    nodes_left: u64,
    found: Vec<Chunk>,
}

/// Reads all chunks of a B-tree, in the order of their positions; `bytes` is the length of an unfiltered chunk.
pub fn tree(file: &dyn ReadAt, address: u64, counts: &[u64], bytes: u64) -> Option<Vec<Chunk>> {
    let header = bytes_at(file, address, 38)?;
    let mut fields = Fields(checked(&header)?);
    fields.is(b"BTHD\0")?;
    let kind = fields.number(1).filter(|kind| matches!(kind, 10 | 11))?;
    let (node, record, depth) = (fields.number(4)?, fields.number(2)?, fields.number(2)?);
    fields.take(2)?;
    let (root, in_root) = (fields.number(8)?, fields.number(2)?);
    let length = record.checked_sub(8 * counts.len() as u64)?;
    let packed = kind == 11;
    let wide_enough = if packed { (13..=20).contains(&length) } else { length == 8 };
    if !wide_enough || depth > DEPTH_MAX || node <= 10 + record {
        return None;
    }
    let most_in_leaf = (node - 10) / record;
    let own_width = width(most_in_leaf);
    let (mut below, mut below_widths) = (most_in_leaf, vec![0]);
    for level in 1..=depth as usize {
        let child = 8 + own_width as u64 + below_widths[level - 1] as u64;
        let most = node.checked_sub(10 + child)? / (record + child);
        below = (most + 1).checked_mul(below)?.checked_add(most)?;
        below_widths.push(width(below));
    }
    let all = counts.iter().product::<u64>() as usize;
    let mut tree = Tree {
        file,
        kind: kind as u8,
        record: record as usize,
        entries: Entries { length, packed, bytes },
        counts,
        own_width,
        below_widths,
        nodes_left: NODES_MAX,
        found: vec![Chunk::NEVER_WRITTEN; all],
    };
    if root != UNDEFINED {
        tree.node(root, in_root, depth as usize)?;
    }
    Some(tree.found)
}

/// Returns the width in bytes of numbers up to `most`.
fn width(most: u64) -> usize {
    most.max(1).ilog2() as usize / 8 + 1
}

impl Tree<'_> {
    fn node(&mut self, address: u64, records: u64, depth: usize) -> Option<()> {
        self.nodes_left = self.nodes_left.checked_sub(1)?;
        let child = if depth > 0 { 8 + self.own_width + self.below_widths[depth - 1] } else { 0 };
        let own = records.checked_mul(self.record as u64)?;
        let children = if depth > 0 { (records + 1).checked_mul(child as u64)? } else { 0 };
        let block = block_at(self.file, address, own.checked_add(children)?.checked_add(10)?)?;
        let mut fields = Fields(checked(&block)?);
        fields.is(if depth > 0 { b"BTIN\0" } else { b"BTLF\0" })?;
        fields.is(&[self.kind])?;
        for _ in 0..records {
            let record = fields.take(self.record)?;
            self.add(record)?;
        }
        for _ in 0..if depth > 0 { records + 1 } else { 0 } {
            let (address, records) = (fields.number(8)?, fields.number(self.own_width)?);
            fields.take(self.below_widths[depth - 1])?;
            self.node(address, records, depth - 1)?;
        }
        Some(())
    }

    fn add(&mut self, record: &[u8]) -> Option<()> {
        let (entry, place) = record.split_at_checked(self.entries.length as usize)?;
        let mut fields = Fields(place);
        let mut number = Some(0);
        for count in self.counts {
            let at = fields.number(8)?;
            // A chunk outside of the current extent remains from a larger one.
            number = number.filter(|_| at < *count).map(|number| number * count + at);
        }
        if let Some(number) = number {
            self.found[number as usize] = self.entries.one(entry)?;
        }
        Some(())
    }
}
