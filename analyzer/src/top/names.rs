//! The names of a running process by number: the newest strings are in its ring, older ones in blocks of its file.
//!
//! Blocks are indexed by their first number and read when a number in them is needed.

use std::collections::HashMap;
use std::sync::Arc;

use dlio_schemas::native::block::Opener;
use dlio_schemas::native::file::{EventBlock, Store, learn};
use dlio_schemas::native::names::{NameKind, Names};
use foldhash::fast::RandomState;

use dlio_schemas::readable::readable;

/// A string, and whether it is a file path.
#[derive(Clone, PartialEq, Debug)]
pub struct Name {
    pub text: Arc<str>,
    pub is_path: bool,
}

/// The largest number of strings cached per process. Beyond it the cache is cleared, and needed strings are read again.
const KEPT_MAX: usize = 1 << 16;

/// The strings of one process.
#[derive(Default)]
pub struct NameBook {
    kept: HashMap<u32, Name, RandomState>,
    /// Blocks by their first number.
    blocks: Vec<EventBlock>,
}

impl NameBook {
    pub fn get(&self, id: u32) -> Option<&Name> {
        self.kept.get(&id)
    }

    /// Adds a block of strings that is now in the file.
    pub fn note_block(&mut self, block: EventBlock) {
        let at = self.blocks.partition_point(|known| known.header.first <= block.header.first);
        self.blocks.insert(at, block);
    }

    /// Forgets where blocks of strings are, because the file was replaced.
    pub fn forget_blocks(&mut self) {
        self.blocks.clear();
    }

    /// Looks up these numbers in the ring and the file.
    pub fn learn<S: Store>(
        &mut self,
        ids: impl Iterator<Item = u32>,
        in_ring: impl Fn() -> Vec<(u32, Vec<u8>)>,
        file: Option<&S>,
        opener: &mut Opener,
    ) {
        if self.kept.len() > KEPT_MAX {
            self.kept.clear();
        }
        let mut unknown: Vec<u32> = ids.filter(|id| *id != 0 && !self.kept.contains_key(id)).collect();
        if unknown.is_empty() {
            return;
        }
        for (first, entries) in in_ring() {
            let mut names = Names::default();
            // A torn chunk is skipped; the next snapshot reads it whole.
            if names.add(first, &entries).is_ok() {
                self.keep(&names);
            }
        }
        let Some(file) = file else { return };
        unknown.sort_unstable();
        for id in unknown {
            if self.kept.contains_key(&id) {
                continue;
            }
            let mut names = Names::default();
            if let Some(block) = self.block_of(id)
                && learn(&mut names, &block, file, opener).is_ok()
            {
                self.keep(&names);
            }
        }
    }

    fn keep(&mut self, names: &Names) {
        for (id, kind, text) in names.iter() {
            let is_path = kind == NameKind::Path;
            self.kept.insert(id, Name { text: readable(text).into(), is_path });
        }
    }

    fn block_of(&self, id: u32) -> Option<EventBlock> {
        let after = self.blocks.partition_point(|block| block.header.first <= id as u64);
        let block = self.blocks[..after].last()?;
        (id as u64 - block.header.first < block.header.count as u64).then_some(*block)
    }
}
