//! How a rank's shards become files and are read back.

use crate::checkpoint::shard::Shard;
use crate::failure::Outcome;
use std::path::Path;

/// The bytes of a checkpoint that a rank moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferStats {
    pub bytes: u64,
    /// Calls that wait for the device, on files and on their directory.
    pub fsyncs: u64,
}

/// Writes a rank's shards to files and reads them back.
pub trait Mechanism {
    fn save(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<TransferStats>;
    fn load(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<TransferStats>;
}
