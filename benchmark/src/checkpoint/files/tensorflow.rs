//! The two files of a TensorFlow checkpoint, as `tf.train.load_checkpoint` reads them.
//!
//! ```text
//! STEM.pb-1.data-00000-of-00001    the bytes of the tensors, in the order of their names
//! STEM.pb-1.index                  a sorted table: "" -> number of data files; NAME -> type, shape, offset, checksum
//! ```
//!
//! A third file, `checkpoint`, names the newest checkpoint of a directory.

use crate::checkpoint::files::sorted_table::{self, read_varint, varint};
use crate::checkpoint::files::tensor_file::TensorFile;
use crate::checkpoint::files::torch::State;
use crate::checkpoint::verify::Part;
use crate::system::checksum::{Checksum, masked, unmasked};
use std::collections::BTreeMap;

/// The file that names the newest checkpoint.
pub const NEWEST: &str = "checkpoint";

/// Returns the content of that file for a checkpoint whose file names start with `name`.
pub fn newest(name: &str) -> String {
    format!("model_checkpoint_path: \"{name}\"\nall_model_checkpoint_paths: \"{name}\"\n")
}

/// BundleHeaderProto: one file of data, little-endian, written by version 1.
const HEADER: &[u8] = &[0x08, 1, 0x1a, 2, 0x08, 1];

/// Fields of BundleEntryProto, as number and kind in one byte.
const TYPE: u8 = 1 << 3;
const SHAPE: u8 = 2 << 3 | 2;
const FILE: u8 = 3 << 3;
const OFFSET: u8 = 4 << 3;
const SIZE: u8 = 5 << 3;
const CRC: u8 = 6 << 3 | 5;
/// Fields of TensorShapeProto and its Dim.
const DIM: u8 = 2 << 3 | 2;
const DIM_SIZE: u8 = 1 << 3;

pub struct TensorflowFile {
    kind: u8,
    /// By position in the data: name, count of numbers, bytes, checksum.
    tensors: Vec<(String, u64, u64, u32)>,
}

impl TensorflowFile {
    pub fn new(state: &State) -> TensorflowFile {
        let bytes = state.datatype.bytes;
        let named = state.names("/").into_iter().zip(&state.tensors);
        let mut tensors: Vec<_> = named.map(|(name, numbers)| (name, *numbers, numbers * bytes, 0)).collect();
        tensors.sort();
        TensorflowFile { kind: state.datatype.tensorflow, tensors }
    }

    fn data_bytes(&self) -> u64 {
        self.tensors.iter().map(|(_, _, bytes, _)| bytes).sum()
    }

    fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut offset = 0;
        let mut all = vec![(Vec::new(), HEADER.to_vec())];
        for (name, numbers, bytes, crc) in &self.tensors {
            let mut entry = vec![TYPE, self.kind];
            let mut dim = vec![DIM_SIZE];
            varint(*numbers, &mut dim);
            entry.extend([SHAPE, dim.len() as u8 + 2, DIM, dim.len() as u8]);
            entry.extend(dim);
            for (field, number) in [(OFFSET, offset), (SIZE, *bytes)] {
                // Zeroes are not written.
                if number > 0 {
                    entry.push(field);
                    varint(number, &mut entry);
                }
            }
            entry.push(CRC);
            entry.extend(masked(*crc).to_le_bytes());
            all.push((name.clone().into_bytes(), entry));
            offset += bytes;
        }
        all
    }
}

impl TensorFile for TensorflowFile {
    fn head(&self) -> &[u8] {
        &[]
    }

    fn tensors(&self) -> usize {
        self.tensors.len()
    }

    fn tensor_bytes(&self, tensor: usize) -> u64 {
        self.tensors[tensor].2
    }

    fn set_crc(&mut self, tensor: usize, crc: u32) {
        self.tensors[tensor].3 = crc;
    }

    fn checksum(&self) -> Checksum {
        Checksum::Crc32c
    }

    fn index(&self) -> Option<Vec<u8>> {
        Some(sorted_table::table(&self.entries()))
    }

    fn file_bytes(&self) -> u64 {
        self.data_bytes()
    }
}

/// Returns the tensors that an index lists, or `None` if it is incomplete or refers to data files that are not
/// supported here.
pub fn parts(index: &[u8]) -> Option<Vec<Part>> {
    let entries = sorted_table::entries(index)?;
    let ((first, header), tensors) = entries.split_first()?;
    let files = fields(header)?.get(&TYPE).copied().unwrap_or(1);
    if !first.is_empty() || files != 1 {
        return None;
    }
    let part = |(name, entry): &(Vec<u8>, Vec<u8>)| {
        let fields = fields(entry)?;
        let field = |key: u8| fields.get(&key).copied().unwrap_or(0);
        let crc = Some(unmasked(field(CRC) as u32));
        let name = String::from_utf8_lossy(name).into_owned();
        (field(FILE) == 0).then(|| Part { name, at: field(OFFSET), bytes: field(SIZE), crc })
    };
    tensors.iter().map(part).collect()
}

/// Returns the numbers of a message, by field and kind; nested messages are skipped.
fn fields(mut message: &[u8]) -> Option<BTreeMap<u8, u64>> {
    let mut found = BTreeMap::new();
    while let Some((key, rest)) = message.split_first() {
        message = rest;
        let number = match key & 7 {
            0 => read_varint(&mut message)?,
            2 => {
                let length = usize::try_from(read_varint(&mut message)?).ok()?;
                message = message.get(length..)?;
                continue;
            }
            5 => {
                let (four, rest) = message.split_first_chunk::<4>()?;
                message = rest;
                u64::from(u32::from_le_bytes(*four))
            }
            _ => return None,
        };
        found.insert(*key, number);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Datatype;

    #[test]
    fn index_locates_its_tensors() {
        let state = State::of(Datatype::named("fp16"), &[("b", 300), ("a", 5), ("c", 1 << 33)]);
        let mut file = TensorflowFile::new(&state);
        file.set_crc(1, 0xabcd_ef01);
        let found = parts(&file.index().unwrap()).unwrap();
        let said: Vec<_> = found.iter().map(|part| (part.name.as_str(), part.at, part.bytes, part.crc)).collect();
        let expected = [("a", 0, 10, Some(0)), ("b", 10, 600, Some(0xabcd_ef01)), ("c", 610, 1 << 34, Some(0))];
        assert_eq!(said, expected);
        assert_eq!(file.file_bytes(), 610 + (1 << 34));
    }

    /// The index that TensorFlow's own writer produces for one vector.
    #[test]
    fn an_entry_is_a_message_of_tensorflow() {
        let file = TensorflowFile::new(&State::of(Datatype::named("fp32"), &[("v", 2)]));
        let entry = [8, 1, 18, 4, 18, 2, 8, 2, 40, 8, 53];
        assert_eq!(file.entries()[1].1[..11], entry);
        assert!(parts(b"no index").is_none());
    }
}
