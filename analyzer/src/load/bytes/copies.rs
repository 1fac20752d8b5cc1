//! Detects links to a file and copies of it, so that each is read once.
//!
//! Links are recognized by device and inode. A copy has the length of an earlier file, the same start (where dlio's
//! traces name their process) and the same end. Parts of one trace differ in these: their blocks contain checksums and
//! times.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

use foldhash::fast::{FixedState, RandomState};

use super::file_identity::FileIdentity;
use super::trace_file::StoredFile;

/// Files up to this length are compared whole: a ring may differ anywhere.
const WHOLE_MAX: u64 = 16 << 20;

/// The length of the compared end of longer files.
const TAIL: u64 = 64 << 10;

/// Shorter files contain no block yet, and all look alike.
const LEAST: u64 = 256;

/// The maximum number of files of equal length and start that are compared with a new one; beyond it, files count as
/// distinct.
const COMPARED_MAX: usize = 8;

/// The files seen so far.
#[derive(Default)]
pub struct Copies {
    inodes: HashSet<(u64, u64), RandomState>,
    /// By length and hash of the start.
    heads: HashMap<(u64, u64), Vec<PathBuf>, RandomState>,
}

impl Copies {
    /// Returns `true` if the file was seen under another name.
    pub fn is_link(&mut self, facts: &FileIdentity) -> bool {
        !self.inodes.insert((facts.device, facts.inode))
    }

    /// Returns the earlier file that this file is a copy of.
    pub fn original(&mut self, path: &Path, length: u64, head: &[u8]) -> Option<PathBuf> {
        if length < LEAST {
            return None;
        }
        let met = self.heads.entry((length, FixedState::default().hash_one(head))).or_default();
        // Errors are noted when the file is opened.
        let original = met.iter().find(|other| same_end(other, path, length).unwrap_or(false)).cloned();
        if original.is_none() && met.len() < COMPARED_MAX {
            met.push(path.into());
        }
        original
    }
}

fn same_end(one: &Path, other: &Path, length: u64) -> std::io::Result<bool> {
    let (one, other) = (StoredFile::open(one)?, StoredFile::open(other)?);
    let mut buffers = [vec![0; TAIL as usize], vec![0; TAIL as usize]];
    let mut at = if length <= WHOLE_MAX { 0 } else { length - TAIL };
    while at < length {
        let [mine, theirs] = buffers.each_mut().map(|buffer| &mut buffer[..TAIL.min(length - at) as usize]);
        one.read_exact_at(mine, at)?;
        other.read_exact_at(theirs, at)?;
        if mine != theirs {
            return Ok(false);
        }
        at += TAIL;
    }
    Ok(true)
}
