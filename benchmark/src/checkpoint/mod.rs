//! Checkpoints: which files of which sizes a rank writes, and a writer that streams them.
//!
//! A mechanism is one implementation of [`Mechanism`]. The built-in one, [`Streamed`], writes each file front to back from
//! generated content ([`mod@piece`]): no tensor is ever held in memory, and nothing but the file system is measured.
//! [`mod@shards`] says which files a rank has, [`mod@shard`] what is in one: a `.pt` is a file that `torch.load` takes,
//! with the dictionary of tensors that DLIO's has; a `.safetensors` has the same tensors, and so have the two files of
//! TensorFlow and those of PyTorch's distributed checkpoints; a `.bin` is their bytes and nothing else.

mod piece;
mod shard;
mod shards;
mod streamed;

pub use shard::{Format, Shard};
pub use shards::Shards;
pub use streamed::{Streamed, copy, is_full};

use crate::failure::{Failure, Kind, Outcome};
use crate::store;
use std::fs;
use std::path::{Path, PathBuf};

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

/// `global_epoch<E>_step<S>` below the checkpoint folder.
pub fn folder(below: &Path, epoch: u64, step: u64) -> PathBuf {
    below.join(format!("global_epoch{epoch}_step{step}"))
}

/// Checks that checkpoints can be written there: better before a run of hours than after its first epoch.
pub fn check_folder(below: &Path) -> Outcome<()> {
    if store::is_object(below) {
        return store::check_writable(below);
    }
    let probe = below.join(format!(".dlio-{}", std::process::id()));
    let tried = fs::create_dir_all(below).and_then(|()| fs::write(&probe, b"")).and_then(|()| fs::remove_file(&probe));
    tried.map_err(|error| {
        let what = format!("cannot write to the checkpoint folder {}: {error}", below.display());
        Failure::new(Kind::System, what).remedy("name another one with ++workload.checkpoint.checkpoint_folder=DIR")
    })
}
