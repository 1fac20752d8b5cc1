//! One file of a checkpoint, and its possible formats.

use crate::checkpoint::files::distributed::DistributedFile;
use crate::checkpoint::files::safetensors::{self, SafetensorsFile, StoredTensor};
use crate::checkpoint::files::tensor_file::{Bytes, TensorFile};
use crate::checkpoint::files::tensorflow::{self, TensorflowFile};
use crate::checkpoint::files::torch::{Entry, State, TorchFile};
use crate::checkpoint::verify::Part;
use crate::config::{CheckpointFormat, Checkpoints, Framework};
use crate::data_set::formats::containers::zip;
use crate::files::input::ReadAt;
use crate::system::checksum::Checksum;

/// One file of a rank's checkpoint: a dictionary of tensors that all have one data type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// The file name without extension.
    pub stem: String,
    pub format: Format,
    pub state: State,
}

/// The format of a file of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Torch,
    Safetensors,
    /// Two files: the bytes of the tensors, and an index that lists them.
    Tensorflow,
    /// One file for all tensors of a rank's part; one more file describes the files of all ranks.
    Distributed,
    Bytes,
}

impl Format {
    pub(super) fn of(framework: Framework, checkpoints: &Checkpoints) -> Format {
        match (checkpoints.format, framework) {
            (CheckpointFormat::Safetensors, _) => Format::Safetensors,
            (CheckpointFormat::Distributed, _) => Format::Distributed,
            (CheckpointFormat::Raw, _) => Format::Bytes,
            (CheckpointFormat::PyTorch, _) | (CheckpointFormat::Framework, Framework::PyTorch) => Format::Torch,
            (CheckpointFormat::TensorFlow, _) | (CheckpointFormat::Framework, Framework::TensorFlow) => {
                Format::Tensorflow
            }
        }
    }

    pub(super) fn ending(self) -> &'static str {
        match self {
            Format::Torch => "pt",
            Format::Safetensors => "safetensors",
            Format::Tensorflow => "pb-1.data-00000-of-00001",
            Format::Distributed => "distcp",
            Format::Bytes => "bin",
        }
    }

    fn index_ending(self) -> Option<&'static str> {
        (self == Format::Tensorflow).then_some("pb-1.index")
    }

    /// Returns the kind of checksum of its parts.
    pub(super) fn checksum(self) -> Checksum {
        match self {
            Format::Torch | Format::Safetensors | Format::Distributed | Format::Bytes => Checksum::Crc32,
            Format::Tensorflow => Checksum::Crc32c,
        }
    }
}

impl Shard {
    /// Returns the tensors of an existing file, or `None` if it is incomplete. Plain bytes have none, because no list
    /// of tensors exists. `index` contains the bytes of the separate index file, if the format has one.
    pub(super) fn parts(&self, file: &dyn ReadAt, index: &[u8]) -> Option<Vec<Part>> {
        match self.format {
            Format::Torch => zip::entries(file).map(torch_parts),
            Format::Safetensors => safetensors::tensors(file).map(|tensors| {
                let part =
                    |found: StoredTensor| Part { name: found.name, at: found.at, bytes: found.bytes, crc: found.crc };
                tensors.into_iter().map(part).collect()
            }),
            Format::Tensorflow => {
                let length = file.length().ok()?;
                let parts = tensorflow::parts(index)?;
                let inside = |part: &Part| part.at.checked_add(part.bytes).is_some_and(|end| end <= length);
                parts.iter().all(inside).then_some(parts)
            }
            Format::Distributed => DistributedFile::new(&self.state).parts(file),
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
    /// Returns the shard under a number of its rank; its name becomes the first word of its tensors' names.
    pub(super) fn numbered(self, rank: u64, number: usize) -> Shard {
        let Shard { stem, format, state } = self;
        let state = State { entries: vec![(stem, Entry::Dictionary(state.entries))], ..state };
        Shard { stem: format!("__{rank}_{number}"), format, state }
    }

    /// Returns the name of the file with the tensors.
    pub fn name(&self) -> String {
        format!("{}.{}", self.stem, self.format.ending())
    }

    /// Returns the name of the separate index file, if the format has one.
    pub fn index_name(&self) -> Option<String> {
        self.format.index_ending().map(|ending| format!("{}.{ending}", self.stem))
    }

    /// Returns the names of all its files; the last one is written last.
    pub fn names(&self) -> Vec<String> {
        [self.name()].into_iter().chain(self.index_name()).collect()
    }

    /// Returns the name of the file that is written last.
    pub fn last_name(&self) -> String {
        self.index_name().unwrap_or_else(|| self.name())
    }

    /// Returns the bytes of its tensors, each counted as often as it is stored.
    pub fn bytes(&self) -> u64 {
        self.state.tensors.iter().map(|numbers| numbers * self.state.datatype.bytes).sum()
    }

    pub(super) fn file(&self) -> Box<dyn TensorFile> {
        match self.format {
            Format::Torch => Box::new(TorchFile::new(&self.stem, &self.state)),
            Format::Safetensors => Box::new(SafetensorsFile::new(&self.state)),
            Format::Tensorflow => Box::new(TensorflowFile::new(&self.state)),
            Format::Distributed => Box::new(DistributedFile::new(&self.state)),
            Format::Bytes => Box::new(Bytes(self.bytes())),
        }
    }

    /// Returns the size of the file with the tensors.
    pub(super) fn data_bytes(&self) -> u64 {
        self.file().file_bytes()
    }

    /// Returns the size of all its files.
    pub fn file_bytes(&self) -> u64 {
        let file = self.file();
        file.file_bytes() + file.index().map_or(0, |index| index.len() as u64)
    }
}
