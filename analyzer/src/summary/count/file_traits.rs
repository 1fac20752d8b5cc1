//! The properties of a file that counting needs, derived from its name.

use crate::catalog::{is_hand_over_memory, is_program_part, is_socket, is_stored};
use crate::summary::files::blocks::name_hash;
use crate::summary::waits::timeline::{Object, object_of};

/// The properties of one file.
#[derive(Clone, Copy, Debug)]
pub struct FileTraits {
    /// `true` for a file, `false` for a pipe.
    pub stored: bool,
    pub socket: bool,
    /// `true` for shared memory that transfers batches.
    pub hand_over: bool,
    /// `true` for a file that programs do not read to start.
    pub data: bool,
    /// Hash of its name.
    pub hash: u64,
    /// The object that a call waits on or passes bytes through, if it is not a stored file.
    pub object: Object,
}

impl FileTraits {
    pub fn of(path: &str) -> FileTraits {
        let stored = is_stored(path);
        FileTraits {
            stored,
            socket: is_socket(path),
            hand_over: is_hand_over_memory(path),
            data: stored && !is_program_part(path),
            hash: name_hash(path),
            object: object_of(path),
        }
    }
}
