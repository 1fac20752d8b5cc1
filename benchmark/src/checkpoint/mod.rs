//! Checkpoints: the files that a rank writes, with their sizes, and a writer that streams them.
//!
//! ```text
//! folder           the directories, and how many of them a run writes
//! verify           compares the bytes read with the checksums stored at write time
//! files            the file formats
//! piece            the bytes, with a checksum that is known before they are written
//! shard, shards    one file; the files of each rank
//! mechanism        how shards become files
//! streamed         the built-in mechanism: each file is written and read front to back
//! writer_process   a process that writes or copies while the rank trains
//! tiers            a fast directory first, copied to a slow one in the background
//! ```
//!
//! A mechanism is one implementation of [`Mechanism`]. The built-in one, [`Streamed`], writes each file front to back
//! from generated content ([`mod@piece`]): no tensor is ever held in memory, and only the file system is measured. A
//! `.pt` can be read by `torch.load` and has the dictionary of tensors that DLIO's has. A `.safetensors`, TensorFlow's
//! two files and PyTorch's distributed checkpoints have the same tensors; a `.bin` has only their bytes.

pub mod files;
pub mod folder;
mod mechanism;
mod piece;
mod shard;
mod shards;
mod streamed;
pub mod tiers;
pub mod verify;
pub mod writer_process;

pub use folder::{check_existence, check_folder, existing_bytes, folder, written};
pub use mechanism::{Mechanism, TransferStats};
pub use shard::{Format, Shard};
pub use shards::Shards;
pub use streamed::{Streamed, copy, is_full};
