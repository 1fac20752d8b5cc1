//! Checkpoints in the layout of torch.distributed.checkpoint: one file of tensors per part of a rank, and one file for
//! all ranks that lists the tensors and where they are.
//!
//! ```text
//! __RANK_NUMBER.distcp   the output of `torch.save` for the first tensor, then for the second, ...
//! .metadata              pickle 2: a Metadata with each tensor's type and size, and its file, offset and length
//! ```
//!
//! Tensors are not split here: each is one chunk, under the names that a `.pt` of the same part would have for its file
//! and its keys. The checkpoint is complete when `.metadata` exists.

use crate::checkpoint::files::tensor_file::TensorFile;
use crate::checkpoint::files::torch::{State, TorchFile, global, integer, text};
use crate::checkpoint::verify::Part;
use crate::config::Datatype;
use crate::files::input::ReadAt;

/// The file that describes the content of all others.
pub const METADATA: &str = ".metadata";

/// Several files of one tensor each, concatenated.
pub struct DistributedFile {
    names: Vec<String>,
    archives: Vec<TorchFile>,
    /// Offset of each file.
    starts: Vec<u64>,
    bytes: u64,
}

impl DistributedFile {
    pub fn new(state: &State) -> DistributedFile {
        let archives: Vec<TorchFile> =
            state.tensors.iter().map(|numbers| TorchFile::of_tensor("archive", state.datatype, *numbers)).collect();
        let mut bytes = 0;
        let mut place = |archive: &TorchFile| {
            let start = bytes;
            bytes += archive.file_bytes();
            start
        };
        let starts = archives.iter().map(&mut place).collect();
        DistributedFile { names: state.names("."), archives, starts, bytes }
    }

    /// Returns the tensors of such a file with the checksums stored before them; `None` if it is a different file or
    /// truncated.
    pub fn parts(&self, file: &dyn ReadAt) -> Option<Vec<Part>> {
        if file.length().ok()? != self.bytes {
            return None;
        }
        let part = |tensor: usize| {
            let (at, header) = self.afterwards(tensor)?;
            let mut found = vec![0; header.len()];
            file.read_exact_at(&mut found, at).ok()?;
            let crc = found.get_mut(14..18)?;
            let number = u32::from_le_bytes(crc.try_into().ok()?);
            crc.fill(0);
            let bytes = self.tensor_bytes(tensor);
            let part =
                Part { name: self.names[tensor].clone(), at: at + header.len() as u64, bytes, crc: Some(number) };
            // Everything in the header except its checksum is known.
            (found == header).then_some(part)
        };
        (0..self.tensors()).map(part).collect()
    }
}

impl TensorFile for DistributedFile {
    fn head(&self) -> &[u8] {
        self.archives.first().map_or(&[], |archive| archive.head())
    }

    fn tensors(&self) -> usize {
        self.archives.len()
    }

    fn tensor_bytes(&self, tensor: usize) -> u64 {
        self.archives[tensor].tensor_bytes(0)
    }

    fn before(&self, tensor: usize) -> Vec<u8> {
        let own = self.archives[tensor].before(0);
        match tensor.checked_sub(1) {
            Some(last) => [&self.archives[last].tail(), self.archives[tensor].head(), &own].concat(),
            None => own,
        }
    }

    fn set_crc(&mut self, tensor: usize, crc: u32) {
        self.archives[tensor].set_crc(0, crc);
    }

    fn afterwards(&self, tensor: usize) -> Option<(u64, Vec<u8>)> {
        let (at, header) = self.archives[tensor].afterwards(0)?;
        Some((self.starts[tensor] + at, header))
    }

    fn tail(&self) -> Vec<u8> {
        self.archives.last().map_or(Vec::new(), TensorFile::tail)
    }

    fn file_bytes(&self) -> u64 {
        self.bytes
    }
}

/// A tensor in the files of all ranks.
struct StoredTensor {
    name: String,
    datatype: Datatype,
    numbers: u64,
    file: String,
    at: u64,
    length: u64,
}

/// Returns the bytes of `.metadata` for files of these names with these tensors.
pub fn metadata<'a>(files: impl Iterator<Item = (String, &'a State)>) -> Vec<u8> {
    let of_file = |(file, state): (String, &State)| {
        let written = DistributedFile::new(state);
        let one = |tensor: usize| StoredTensor {
            name: written.names[tensor].clone(),
            datatype: state.datatype,
            numbers: state.tensors[tensor],
            file: file.clone(),
            at: written.starts[tensor],
            length: written.archives[tensor].file_bytes(),
        };
        (0..written.tensors()).map(one).collect::<Vec<_>>()
    };
    let all: Vec<StoredTensor> = files.flat_map(of_file).collect();
    let mut code = b"\x80\x02".to_vec();
    object(MODULE, "Metadata", &mut code);
    code.extend(b"}(");
    text("state_dict_metadata", &mut code);
    each(&all, &mut code, |stored, code| text(&stored.name, code), described);
    text("planner_data", &mut code);
    each(
        &all,
        &mut code,
        |stored, code| text(&stored.name, code),
        |stored, code| {
            text(&stored.name, code);
            code.push(ONE);
        },
    );
    text("storage_data", &mut code);
    each(&all, &mut code, index, placed);
    code.extend(b"ub.");
    code
}

const MODULE: &str = "torch.distributed.checkpoint.metadata";
/// Makes a tuple of the last value pushed; calls with a tuple of arguments.
const ONE: u8 = b'\x85';
const CALL: u8 = b'R';

/// Pushes a dictionary of all tensors.
fn each(
    all: &[StoredTensor],
    code: &mut Vec<u8>,
    key: fn(&StoredTensor, &mut Vec<u8>),
    value: fn(&StoredTensor, &mut Vec<u8>),
) {
    code.extend(b"}(");
    for stored in all {
        key(stored, code);
        value(stored, code);
    }
    code.push(b'u');
}

/// Pushes an object of a class, without its attributes.
fn object(module: &str, class: &str, code: &mut Vec<u8>) {
    global(module, class, code);
    code.extend(b")\x81");
}

/// Pushes `torch.Size((number,))`.
fn size(number: u64, code: &mut Vec<u8>) {
    global("torch", "Size", code);
    integer(number, code);
    code.extend([ONE, ONE, CALL]);
}

/// Pushes a TensorStorageMetadata of one chunk.
fn described(stored: &StoredTensor, code: &mut Vec<u8>) {
    object(MODULE, "TensorStorageMetadata", code);
    code.extend(b"}(");
    text("properties", code);
    object(MODULE, "TensorProperties", code);
    code.push(b'(');
    global("torch", stored.datatype.torch, code);
    global("torch.serialization", "_get_layout", code);
    text("torch.strided", code);
    code.extend([ONE, CALL, b'\x89']);
    global(MODULE, "_MEM_FORMAT_ENCODING", code);
    code.extend([b'K', 0, ONE, CALL]);
    // No pinned memory, then the end of the tuple, which is the object's state.
    code.extend(b"\x89tb");
    text("size", code);
    size(stored.numbers, code);
    text("chunks", code);
    code.push(b']');
    object(MODULE, "ChunkStorageMetadata", code);
    code.extend(b"}(");
    text("offsets", code);
    size(0, code);
    text("sizes", code);
    size(stored.numbers, code);
    code.extend(b"ubaub");
}

/// Pushes a MetadataIndex: the tensor's name, and the chunk that starts at 0.
fn index(stored: &StoredTensor, code: &mut Vec<u8>) {
    object(MODULE, "MetadataIndex", code);
    code.extend(b"}(");
    text("fqn", code);
    text(&stored.name, code);
    text("offset", code);
    size(0, code);
    text("index", code);
    code.extend(b"K\x00ub");
}

/// Pushes a _StorageInfo.
fn placed(stored: &StoredTensor, code: &mut Vec<u8>) {
    object("torch.distributed.checkpoint.filesystem", "_StorageInfo", code);
    code.extend(b"}(");
    text("relative_path", code);
    text(&stored.file, code);
    text("offset", code);
    integer(stored.at, code);
    text("length", code);
    integer(stored.length, code);
    code.extend(b"ub");
}
