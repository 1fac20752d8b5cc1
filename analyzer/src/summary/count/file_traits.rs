//! What a file is to whoever counts calls on it, by its name.

use crate::catalog::{is_hand_over_memory, is_program_part, is_socket, is_stored};
use crate::summary::files::blocks::name_hash;
use crate::summary::waits::timeline::{Object, object_of};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct FileTraits {
    /// True of a file, and no pipe.
    pub stored: bool,
    pub socket: bool,
    /// True of memory that batches are handed over in.
    pub hand_over: bool,
    /// True of a file that programs do not read to start.
    pub data: bool,
    /// Of its name.
    pub hash: u64,
    /// What a call waits on or passes bytes through, where it is no stored file.
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
