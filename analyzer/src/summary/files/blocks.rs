//! Blocks of files that several processes write to, where ranks may conflict.
//!
//! It keeps the blocks in which a write starts or ends, with their writers and times. If there are too many, half of
//! them are dropped, and each one that is kept counts for two. The selection depends on the block and its file name,
//! not on the order of arrival.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use crate::packed_serde::Columns;
use crate::summary::time::intervals::Interval;

/// A block, as in locks of parallel file systems and stripes: 1 MiB.
const BLOCK_SHIFT: u32 = 20;

/// The maximum number of blocks.
const KEPT_MAX: usize = 1 << 16;

/// The maximum number of processes per block.
const WRITERS_MAX: usize = 8;

/// The writes of one process to a block.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Writer {
    proc: u32,
    calls: u64,
    ns: u64,
    first: i64,
    last: i64,
}

/// The blocks with their writers.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(into = "EncodedBlocks", try_from = "EncodedBlocks")]
pub struct Blocks {
    /// One of 2^shift blocks is kept.
    shift: u32,
    blocks: HashMap<(u32, i64), Block, RandomState>,
}

/// One block.
#[derive(Clone, Default)]
struct Block {
    /// Hash of its file's name.
    hash: u64,
    writers: Vec<Writer>,
}

/// The encoding of blocks, without hashes of names, which the receiver computes.
#[derive(Serialize, Deserialize)]
struct EncodedBlocks {
    shift: u32,
    /// One row per writer of a block, in order: differences of file and block to the previous row, process, calls,
    /// their time, the start of the first, and how long after that plus the time the last one ended.
    writers: Columns,
}

impl From<Blocks> for EncodedBlocks {
    fn from(of: Blocks) -> EncodedBlocks {
        let each = |(place, block): ((u32, i64), Block)| block.writers.into_iter().map(move |writer| (place, writer));
        let mut all: Vec<_> = of.blocks.into_iter().flat_map(each).collect();
        all.sort_unstable_by_key(|(place, writer)| (*place, writer.proc));
        let mut before = (0, 0);
        let row = |((file, at), Writer { proc, calls, ns, first, last }): ((u32, i64), Writer)| {
            let (file_before, at_before) = std::mem::replace(&mut before, (file, at));
            let (file, at) = (file as i64 - file_before as i64, at.wrapping_sub(at_before));
            let later = last.wrapping_sub(first).wrapping_sub(ns as i64);
            [file, at, proc as i64, calls as i64, ns as i64, first, later]
        };
        let rows: Vec<_> = all.into_iter().map(row).collect();
        EncodedBlocks { shift: of.shift, writers: Columns::of(&rows, |row| *row) }
    }
}

impl TryFrom<EncodedBlocks> for Blocks {
    type Error = &'static str;

    fn try_from(from: EncodedBlocks) -> Result<Blocks, &'static str> {
        let rows = from.writers.things(|row: [i64; 7]| row).ok_or("columns of blocks that do not fit")?;
        let mut blocks = Blocks { shift: from.shift, ..Blocks::default() };
        let mut place = (0u32, 0i64);
        for [file, at, proc, calls, ns, first, later] in rows {
            place = (place.0.wrapping_add(file as u32), place.1.wrapping_add(at));
            let last = first.wrapping_add(ns).wrapping_add(later);
            let writer = Writer { proc: proc as u32, calls: calls as u64, ns: ns as u64, first, last };
            blocks.blocks.entry(place).or_default().writers.push(writer);
        }
        Ok(blocks)
    }
}

/// Returns the number that decides which blocks of a file are kept, independent of the file's number.
pub fn name_hash(path: &str) -> u64 {
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Writes to blocks of a file to which another process wrote at the same time.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Common {
    pub writes: u64,
    pub ns: u64,
}

impl Blocks {
    /// Adds a write of some bytes to a file, given by its number and the hash of its name.
    pub fn wrote(&mut self, proc: u32, (file, hash): (u32, u64), (pos, bytes): (i64, i64), interval: Interval) {
        let (first, last) = (pos >> BLOCK_SHIFT, pos.saturating_add(bytes - 1) >> BLOCK_SHIFT);
        let ns = interval.end.saturating_sub(interval.start) as u64;
        let writer = Writer { proc, calls: 1, ns, first: interval.start, last: interval.end };
        self.put((file, first), hash, writer);
        if last != first {
            // It is one write, wherever it ends.
            self.put((file, last), hash, Writer { calls: 0, ns: 0, ..writer });
        }
    }

    pub fn merge(&mut self, other: Blocks) {
        self.thin_to(other.shift);
        for (place, block) in other.blocks {
            block.writers.into_iter().for_each(|writer| self.put(place, block.hash, writer));
        }
    }

    /// Sets the hashes of file names in received blocks.
    pub fn name(&mut self, hash: impl Fn(u32) -> u64) {
        self.blocks.iter_mut().for_each(|((file, _), block)| block.hash = hash(*file));
    }

    /// Renumbers files.
    pub fn renumber(&mut self, mut number: impl FnMut(u32) -> u32) {
        for ((file, at), block) in std::mem::take(&mut self.blocks) {
            let place = (number(file), at);
            block.writers.into_iter().for_each(|writer| self.put(place, block.hash, writer));
        }
    }

    /// Returns the conflicts by file; two processes of one rank do not conflict.
    pub fn common(&self, rank: impl Fn(u32) -> Option<i32>) -> BTreeMap<u32, Common> {
        let mut files: BTreeMap<u32, Common> = BTreeMap::new();
        let shared = self.blocks.iter().filter(|(_, block)| block.writers.len() > 1);
        for (&(file, _), Block { writers, .. }) in shared {
            let meets = |one: &Writer| {
                let is_another = |other: &Writer| rank(other.proc) != rank(one.proc);
                writers.iter().any(|other| is_another(other) && one.first < other.last && other.first < one.last)
            };
            for writer in writers.iter().filter(|writer| meets(writer)) {
                let common = files.entry(file).or_default();
                common.writes += writer.calls << self.shift;
                common.ns += writer.ns << self.shift;
            }
        }
        files
    }

    fn put(&mut self, place: (u32, i64), hash: u64, writer: Writer) {
        if !self.keeps(hash, place.1) {
            return;
        }
        let Block { writers, .. } = self.blocks.entry(place).or_insert_with(|| Block { hash, writers: Vec::new() });
        let known = writers.iter().position(|known| known.proc == writer.proc);
        if let Some(known) = known.map(|at| &mut writers[at]) {
            known.calls += writer.calls;
            known.ns += writer.ns;
            (known.first, known.last) = (known.first.min(writer.first), known.last.max(writer.last));
        } else if writers.len() < WRITERS_MAX {
            writers.push(writer);
        } else if let Some(highest) =
            writers.iter_mut().max_by_key(|known| known.proc).filter(|it| it.proc > writer.proc)
        {
            // The lowest numbers are kept, independent of their order.
            *highest = writer;
        }
        if self.blocks.len() > KEPT_MAX {
            self.thin_to(self.shift + 1);
        }
    }

    fn keeps(&self, hash: u64, block: i64) -> bool {
        // Fibonacci's multiplier separates neighbors.
        let mixed = (hash ^ (block as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.leading_zeros() >= self.shift
    }

    fn thin_to(&mut self, shift: u32) {
        if shift > self.shift {
            self.shift = shift;
            let mut blocks = std::mem::take(&mut self.blocks);
            blocks.retain(|(_, at), block| self.keeps(block.hash, *at));
            self.blocks = blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: i64) -> Interval {
        Interval { start, end: start + 10 }
    }

    #[test]
    fn writes_to_a_block_at_one_time_are_in_common() {
        let mut blocks = Blocks::default();
        // Two processes, record by record, in one file; separate megabytes in another.
        for record in 0..100i64 {
            for proc in 0..2u32 {
                let turn = 2 * record + proc as i64;
                blocks.wrote(proc, (1, 1), (turn * 65_536, 65_536), at(record * 100));
                blocks.wrote(proc, (2, 2), (turn << 20, 1 << 20), at(record * 100));
            }
        }
        // One after the other.
        (0..2u32).for_each(|proc| blocks.wrote(proc, (3, 3), (proc as i64 * 4096, 4096), at(proc as i64 * 1000)));
        let found = blocks.common(|proc| Some(proc as i32));
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [1]);
        assert_eq!(found[&1], Common { writes: 200, ns: 2000 });
    }

    #[test]
    fn blocks_that_travel_are_the_same_where_they_arrive() {
        let mut blocks = Blocks { shift: 1, ..Blocks::default() };
        let hash = |file: u32| name_hash(&format!("/data/{file}"));
        for (turn, proc) in (0..40i64).zip([7, 3, 9].into_iter().cycle()) {
            let file = (turn % 5) as u32;
            blocks.wrote(proc, (file, hash(file)), (turn << 19, 1 << 20), at(turn * 1000 - 7));
        }
        let sent = rmp_serde::to_vec(&blocks).unwrap();
        let mut arrived: Blocks = rmp_serde::from_slice(&sent).unwrap();
        arrived.name(hash);
        let sorted = |blocks: &Blocks| {
            let mut all: Vec<_> = blocks.blocks.iter().map(|(place, block)| (*place, block.clone())).collect();
            all.iter_mut().for_each(|(_, block)| block.writers.sort_by_key(|writer| writer.proc));
            all.sort_by_key(|(place, _)| *place);
            all.into_iter().map(|(place, block)| (place, block.hash, block.writers)).collect::<Vec<_>>()
        };
        assert!(!blocks.blocks.is_empty());
        assert_eq!((arrived.shift, sorted(&arrived)), (blocks.shift, sorted(&blocks)));
    }

    #[test]
    fn too_many_blocks_are_sampled_in_any_order() {
        let blocks = 4 * KEPT_MAX as i64;
        let wrote = |into: &mut Blocks, block: i64| {
            (0..2).for_each(|proc| into.wrote(proc, (1, 1), (block << BLOCK_SHIFT, 10), at(0)));
        };
        let (mut whole, mut parts) = (Blocks::default(), Blocks::default());
        (0..blocks).for_each(|block| wrote(&mut whole, block));
        for part in [3, 0, 2, 1] {
            let mut some = Blocks::default();
            (0..blocks).rev().filter(|block| block % 4 == part).for_each(|block| wrote(&mut some, block));
            parts.merge(some);
        }
        let ranks = |proc: u32| Some(proc as i32);
        assert_eq!(whole.common(ranks), parts.common(ranks));
        assert!(whole.common(|_| Some(1)).is_empty());
        assert!(whole.blocks.len() <= KEPT_MAX);
        let found = whole.common(ranks)[&1].writes as f64;
        assert!((found / (2 * blocks) as f64 - 1.0).abs() < 0.05, "{found}");
    }
}
