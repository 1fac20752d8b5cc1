//! How a rank's shards become files, and come back.

use crate::checkpoint::shard::Shard;
use crate::failure::Outcome;
use std::path::Path;

/// The bytes a rank moved of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub bytes: u64,
    /// Calls that wait for the device: of files, and of the folder that names them.
    pub fsyncs: u64,
}

/// The way a rank's shards become files, and come back.
pub trait Mechanism {
    fn save(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<Moved>;
    fn load(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<Moved>;
}
