//! The safetensors file format: tensors by name, which can be memory-mapped and read without executing code.
//!
//! ```text
//! length      8 bytes, little-endian: length of the header
//! header      JSON: {"__metadata__": {"crc32.NAME": "0a1b2c3d", ...}, "NAME": {"dtype", "shape", "data_offsets"}, ...},
//!             padded with spaces to a multiple of eight bytes
//! tensors     back to back
//! ```
//!
//! The checksums are this benchmark's addition: the format has none, and readers ignore metadata they do not know.

use crate::checkpoint::files::tensor_file::TensorFile;
use crate::checkpoint::files::torch::State;
use crate::files::input::ReadAt;
use serde_json::Value;
use std::fmt::Write;

/// Other readers refuse longer headers too.
const HEADER_MAX: u64 = 100_000_000;

/// Prefix of the metadata keys of checksums.
const CHECKSUM: &str = "crc32.";

pub struct SafetensorsFile {
    head: Vec<u8>,
    /// Size of each tensor in bytes.
    sizes: Vec<u64>,
    /// Offset of the digits of each checksum, and the checksum.
    sums: Vec<(u64, u32)>,
}

impl SafetensorsFile {
    pub fn new(state: &State) -> SafetensorsFile {
        let names = state.names(".");
        let mut header = String::from("{\"__metadata__\":{");
        let mut sums = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let _ = write!(header, "{}\"{CHECKSUM}{name}\":\"", if place > 0 { "," } else { "" });
            sums.push((8 + header.len() as u64, 0));
            header.push_str("00000000\"");
        }
        header.push('}');
        let (kind, mut at) = (state.datatype.safetensors, 0);
        for (name, numbers) in names.iter().zip(&state.tensors) {
            let end = at + numbers * state.datatype.bytes;
            let _ = write!(
                header,
                ",\"{name}\":{{\"dtype\":\"{kind}\",\"shape\":[{numbers}],\"data_offsets\":[{at},{end}]}}"
            );
            at = end;
        }
        header.push('}');
        header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
        let head = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        let sizes = state.tensors.iter().map(|numbers| numbers * state.datatype.bytes).collect();
        SafetensorsFile { head, sizes, sums }
    }
}

impl TensorFile for SafetensorsFile {
    fn head(&self) -> &[u8] {
        &self.head
    }

    fn tensors(&self) -> usize {
        self.sizes.len()
    }

    fn tensor_bytes(&self, tensor: usize) -> u64 {
        self.sizes[tensor]
    }

    fn set_crc(&mut self, tensor: usize, crc: u32) {
        self.sums[tensor].1 = crc;
    }

    fn afterwards(&self, tensor: usize) -> Option<(u64, Vec<u8>)> {
        let (at, crc) = self.sums[tensor];
        Some((at, format!("{crc:08x}").into_bytes()))
    }

    fn file_bytes(&self) -> u64 {
        self.head.len() as u64 + self.sizes.iter().sum::<u64>()
    }
}

/// A tensor of an existing file.
pub struct StoredTensor {
    pub name: String,
    pub at: u64,
    pub bytes: u64,
    /// The checksum, if the writer stored one.
    pub crc: Option<u32>,
}

/// Returns the tensors of a file, or `None` if it is not a complete one.
pub fn tensors(file: &dyn ReadAt) -> Option<Vec<StoredTensor>> {
    let length = file.length().ok()?;
    let mut eight = [0; 8];
    file.read_exact_at(&mut eight, 0).ok()?;
    let header_bytes = u64::from_le_bytes(eight);
    let start = header_bytes.checked_add(8).filter(|start| header_bytes <= HEADER_MAX && *start <= length)?;
    let mut header = vec![0; header_bytes as usize];
    file.read_exact_at(&mut header, 8).ok()?;
    let header: Value = serde_json::from_slice(&header).ok()?;
    let sum = |name: &str| {
        let digits = header["__metadata__"][format!("{CHECKSUM}{name}")].as_str()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let entries = header.as_object()?.iter().filter(|(name, _)| *name != "__metadata__");
    let found = entries.map(|(name, entry)| {
        let offset = |place: usize| entry["data_offsets"][place].as_u64();
        let (from, to) = (offset(0)?, offset(1)?);
        let bytes = to.checked_sub(from).filter(|_| start.checked_add(to).is_some_and(|end| end <= length))?;
        Some(StoredTensor { name: name.clone(), at: start + from, bytes, crc: sum(name) })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::files::torch::Entry;
    use crate::config::Datatype;
    use std::fs::File;

    #[test]
    fn tensors_are_found_by_the_keys_on_their_way() {
        let scratch = tempfile::tempdir().unwrap();
        let mut state = State::new(Datatype::named("fp16"));
        let inner = vec![("0".to_string(), Entry::Tensor(0)), ("1".to_string(), Entry::Tensor(1))];
        state.entries = vec![("7".into(), Entry::Dictionary(inner)), ("again".into(), Entry::Tensor(0))];
        state.tensors = vec![3, 5];
        let mut file = SafetensorsFile::new(&state);
        file.set_crc(1, 0xab);
        let mut bytes = [file.head(), &[1; 16]].concat();
        assert_eq!((bytes.len() as u64, file.head().len() % 8), (file.file_bytes(), 0));
        let (at, digits) = file.afterwards(1).unwrap();
        bytes[at as usize..][..8].copy_from_slice(&digits);
        let path = scratch.path().join("a.safetensors");
        std::fs::write(&path, &bytes).unwrap();
        let found = tensors(&File::open(&path).unwrap()).unwrap();
        let parts: Vec<_> = found.iter().map(|found| (found.name.as_str(), found.bytes, found.crc)).collect();
        assert_eq!(parts, [("7.0", 6, Some(0)), ("7.1", 10, Some(0xab))]);
        assert_eq!(found[1].at, file.head().len() as u64 + 6);
        for cut in [0, 7, 20, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(tensors(&File::open(&path).unwrap()).is_none(), "{cut}");
        }
    }
}
