//! Checkpoints: which files of which sizes a rank writes, and a writer that streams them.
//!
//! ```text
//! folder           the directories, and how many of them a run writes
//! verify           compares what is read with the checksums of what was written
//! files            the file formats
//! piece            the bytes, with a checksum that is known before they are written
//! shard, shards    one file; the files of each rank
//! mechanism        how shards become files
//! streamed         the built-in mechanism: each file is written and read front to back
//! writer_process   a process that writes or copies while the rank trains
//! tiers            a fast place first, copied to a slow one in the background
//! ```
//!
//! A mechanism is one implementation of [`Mechanism`]. The built-in one, [`Streamed`], writes each file front to back from
//! generated content ([`mod@piece`]): no tensor is ever held in memory, and nothing but the file system is measured.
//! A `.pt` is a file that `torch.load` takes, with the dictionary of tensors that DLIO's has; a `.safetensors` has the same
//! tensors, and so have the two files of TensorFlow and those of PyTorch's distributed checkpoints; a `.bin` is their bytes
//! and nothing else.

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

pub use folder::{bytes_there, check_folder, folder, written};
pub use mechanism::{Mechanism, Moved};
pub use shard::{Format, Shard};
pub use shards::Shards;
pub use streamed::{Streamed, copy, is_full};
