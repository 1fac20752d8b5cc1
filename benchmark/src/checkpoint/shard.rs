//! One file of a checkpoint, and the formats it may have.

use crate::config::{Checkpoints, Framework};
use crate::formats::zip;
use crate::input::ReadAt;
use crate::restored::Part;
use crate::safetensors_file::{self, Found, SafetensorsFile};
use crate::tensor_file::{Bytes, TensorFile};
use crate::torch_file::{State, TorchFile};

/// One file of a rank's checkpoint: a dictionary of tensors, whose numbers are all of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Without its ending.
    pub stem: String,
    pub format: Format,
    pub state: State,
}

/// The format of a file of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Torch,
    Safetensors,
    Bytes,
}

impl Format {
    pub(super) fn of(framework: Framework, checkpoints: &Checkpoints) -> Format {
        match framework {
            _ if checkpoints.safetensors => Format::Safetensors,
            Framework::PyTorch => Format::Torch,
            Framework::TensorFlow => Format::Bytes,
        }
    }

    pub(super) fn ending(self) -> &'static str {
        match self {
            Format::Torch => "pt",
            Format::Safetensors => "safetensors",
            Format::Bytes => "pb",
        }
    }

    /// The tensors of a file that is there, or None where it is no complete one. Not of bytes alone: nothing says there
    /// what they are.
    pub(super) fn parts(self, file: &dyn ReadAt) -> Option<Vec<Part>> {
        match self {
            Format::Torch => zip::entries(file).map(torch_parts),
            Format::Safetensors => safetensors_file::tensors(file).map(|tensors| {
                let part = |found: Found| Part { name: found.name, at: found.at, bytes: found.bytes, crc: found.crc };
                tensors.into_iter().map(part).collect()
            }),
            Format::Bytes => Some(Vec::new()),
        }
    }
}

fn torch_parts(entries: Vec<zip::Entry>) -> Vec<Part> {
    let is_tensor = |name: &str| name.rsplit_once("/data/").is_some_and(|(_, number)| number.parse::<u64>().is_ok());
    let tensors = entries.into_iter().filter(|entry| is_tensor(&entry.name));
    let crc = |entry: &zip::Entry| matches!(entry.method, zip::Method::Stored).then_some(entry.crc);
    let part = |entry: zip::Entry| Part { crc: crc(&entry), name: entry.name, at: entry.data_at, bytes: entry.size };
    tensors.map(part).collect()
}

impl Shard {
    pub fn name(&self) -> String {
        format!("{}.{}", self.stem, self.format.ending())
    }

    /// Of its tensors, each as often as it is stored.
    pub fn bytes(&self) -> u64 {
        self.state.tensors.iter().map(|numbers| numbers * self.state.datatype.bytes).sum()
    }

    pub(super) fn file(&self) -> Box<dyn TensorFile> {
        match self.format {
            Format::Torch => Box::new(TorchFile::new(&self.stem, &self.state)),
            Format::Safetensors => Box::new(SafetensorsFile::new(&self.state)),
            Format::Bytes => Box::new(Bytes(self.bytes())),
        }
    }

    pub fn file_bytes(&self) -> u64 {
        self.file().file_bytes()
    }
}
