//! The file that `torch.save` writes for a dictionary of tensors, so that a checkpoint has the size, the layout and the
//! readers of a real one.
//!
//! ```text
//! STEM/data.pkl     pickle 2: {"a": tensor whose storage is "0", "1": {"0": tensor of storage "1", ...}}
//! STEM/byteorder    little
//! STEM/data/0       the first tensor, stored, at a multiple of 64 bytes
//! STEM/data/1 ...   further tensors
//! STEM/version      3
//! directory
//! ```
//!
//! This module produces everything except the tensors; the caller streams each of them after [`TorchFile::before`].

use crate::checkpoint::files::tensor_file::TensorFile;
use crate::config::Datatype;
use crate::data_set::formats::containers::zip::{self, Member, Method};

/// Tensors start at a multiple of this, so that they can be used directly from a memory map.
const ALIGNMENT: u64 = 64;

/// A value in a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A tensor, by its number. Several entries may refer to one tensor.
    Tensor(usize),
    Dictionary(Vec<(String, Entry)>),
}

/// A dictionary of tensors of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub datatype: Datatype,
    /// The count of numbers in each tensor.
    pub tensors: Vec<u64>,
    pub entries: Vec<(String, Entry)>,
}

impl State {
    pub fn new(datatype: Datatype) -> State {
        State { datatype, tensors: Vec::new(), entries: Vec::new() }
    }

    /// Returns a state with these named tensors; empty tensors are left out.
    pub fn of(datatype: Datatype, named: &[(&str, u64)]) -> State {
        let mut state = State::new(datatype);
        for (name, numbers) in named.iter().filter(|(_, numbers)| *numbers > 0) {
            state.entries.push((name.to_string(), Entry::Tensor(state.tensors.len())));
            state.tensors.push(*numbers);
        }
        state
    }

    /// Returns the path of keys to each tensor, joined by `between`. A tensor with several paths gets the first.
    pub fn names(&self, between: &str) -> Vec<String> {
        let mut names = vec![String::new(); self.tensors.len()];
        name_below("", between, &self.entries, &mut names);
        names
    }
}

fn name_below(before: &str, between: &str, entries: &[(String, Entry)], names: &mut [String]) {
    for (key, entry) in entries {
        let name = format!("{before}{key}");
        match entry {
            Entry::Tensor(number) if names[*number].is_empty() => names[*number] = name,
            Entry::Tensor(_) => {}
            Entry::Dictionary(below) => name_below(&format!("{name}{between}"), between, below, names),
        }
    }
}

pub struct TorchFile {
    stem: String,
    head: Vec<u8>,
    before: Vec<Member>,
    tensors: Vec<Member>,
}

impl TorchFile {
    /// Creates a file whose name without extension is `stem`.
    pub fn new(stem: &str, state: &State) -> TorchFile {
        TorchFile::of(stem, state, |code| dictionary(&state.entries, state, code))
    }

    /// Creates a file of one tensor, without a dictionary around it.
    pub fn of_tensor(stem: &str, datatype: Datatype, numbers: u64) -> TorchFile {
        let state = State { tensors: vec![numbers], ..State::new(datatype) };
        TorchFile::of(stem, &state, |code| tensor(0, &state, code))
    }

    fn of(stem: &str, state: &State, said: impl FnOnce(&mut Vec<u8>)) -> TorchFile {
        let mut head = Vec::new();
        let mut pickle = b"\x80\x02".to_vec();
        said(&mut pickle);
        pickle.push(b'.');
        let before = vec![
            small(format!("{stem}/data.pkl"), &pickle, 0, &mut head),
            small(format!("{stem}/byteorder"), b"little", 0, &mut head),
        ];
        let mut at = head.len() as u64;
        let tensor = |(number, numbers): (usize, &u64)| {
            let size = numbers * state.datatype.bytes;
            let name = format!("{stem}/data/{number}");
            let member = Member { name, method: Method::Stored, crc: 0, packed: size, size, at };
            at += zip::aligned_local_header(&member, ALIGNMENT).len() as u64 + size;
            member
        };
        let tensors = state.tensors.iter().enumerate().map(tensor).collect();
        TorchFile { stem: stem.into(), head, before, tensors }
    }

    fn tail_at(&self) -> u64 {
        self.tensors.last().map_or(self.head.len() as u64, |last| {
            last.at + zip::aligned_local_header(last, ALIGNMENT).len() as u64 + last.size
        })
    }
}

impl TensorFile for TorchFile {
    fn head(&self) -> &[u8] {
        &self.head
    }

    fn tensors(&self) -> usize {
        self.tensors.len()
    }

    fn tensor_bytes(&self, tensor: usize) -> u64 {
        self.tensors[tensor].size
    }

    /// Returns the header of a tensor, without a checksum yet.
    fn before(&self, tensor: usize) -> Vec<u8> {
        zip::aligned_local_header(&self.tensors[tensor], ALIGNMENT)
    }

    fn set_crc(&mut self, tensor: usize, crc: u32) {
        self.tensors[tensor].crc = crc;
    }

    /// Returns the header of a tensor with its checksum.
    fn afterwards(&self, tensor: usize) -> Option<(u64, Vec<u8>)> {
        Some((self.tensors[tensor].at, self.before(tensor)))
    }

    fn tail(&self) -> Vec<u8> {
        let behind = self.tail_at();
        let mut tail = Vec::new();
        let version = small(format!("{}/version", self.stem), b"3\n", behind, &mut tail);
        let members = [&self.before[..], &self.tensors, &[version]].concat();
        let start = behind + tail.len() as u64;
        tail.extend(zip::directory(&members, start));
        tail
    }

    fn file_bytes(&self) -> u64 {
        self.tail_at() + self.tail().len() as u64
    }
}

/// Appends a member that fits in memory to `into`, whose first byte is at offset `from` of the file.
fn small(name: String, bytes: &[u8], from: u64, into: &mut Vec<u8>) -> Member {
    let (size, at) = (bytes.len() as u64, from + into.len() as u64);
    let member = Member { name, method: Method::Stored, crc: crc32fast::hash(bytes), packed: size, size, at };
    into.extend(zip::local_header(&member));
    into.extend(bytes);
    member
}

fn dictionary(entries: &[(String, Entry)], state: &State, code: &mut Vec<u8>) {
    code.extend(b"}(");
    for (name, entry) in entries {
        text(name, code);
        match entry {
            Entry::Tensor(number) => tensor(*number, state, code),
            Entry::Dictionary(below) => dictionary(below, state, code),
        }
    }
    code.push(b'u');
}

/// Pushes `_rebuild_tensor_v2(storage on the CPU, offset 0, (numbers,), (1,), False, OrderedDict())`.
fn tensor(number: usize, state: &State, code: &mut Vec<u8>) {
    let numbers = state.tensors[number];
    global("torch._utils", "_rebuild_tensor_v2", code);
    code.extend(b"((");
    text("storage", code);
    global("torch", state.datatype.storage, code);
    text(&number.to_string(), code);
    text("cpu", code);
    integer(numbers, code);
    // The tuple becomes the storage; then offset, shape, stride, no gradient, no hooks.
    code.extend(b"tQK\x00");
    integer(numbers, code);
    code.extend(b"\x85K\x01\x85\x89");
    global("collections", "OrderedDict", code);
    code.extend(b")RtR");
}

/// Appends the pickle instruction that pushes a text.
pub fn text(text: &str, code: &mut Vec<u8>) {
    code.push(b'X');
    code.extend((text.len() as u32).to_le_bytes());
    code.extend(text.as_bytes());
}

/// Appends the pickle instruction that pushes a module's attribute.
pub fn global(module: &str, name: &str, code: &mut Vec<u8>) {
    code.extend(format!("c{module}\n{name}\n").as_bytes());
}

/// Four signed bytes if they suffice, else eight.
pub fn integer(number: u64, code: &mut Vec<u8>) {
    match i32::try_from(number) {
        Ok(number) => {
            code.push(b'J');
            code.extend(number.to_le_bytes());
        }
        Err(_) => {
            code.extend(b"\x8a\x08");
            code.extend(number.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_aligned_and_the_size_known_beforehand() {
        for bytes in [1, 10_240, 499_153_191, 5 << 32] {
            let state = State::of(Datatype::named("fp16"), &[("a", bytes), ("none", 0), ("b", 3)]);
            let file = TorchFile::new("model_states-0", &state);
            assert_eq!(file.tensors(), 2);
            let mut at = file.head().len() as u64;
            for tensor in 0..file.tensors() {
                assert_eq!(file.afterwards(tensor).unwrap().0, at);
                at += file.before(tensor).len() as u64;
                assert!(at.is_multiple_of(ALIGNMENT));
                at += file.tensor_bytes(tensor);
            }
            assert_eq!(file.file_bytes(), at + file.tail().len() as u64);
        }
    }

    #[test]
    fn the_members_are_found_by_their_names() {
        let mut file = TorchFile::new("x", &State::of(Datatype::INT8, &[("a", 3)]));
        file.set_crc(0, crc32fast::hash(b"abc"));
        let bytes = [file.head(), &file.before(0), b"abc", &file.tail()].concat();
        let of = |wanted: &str| {
            let found = zip::find(std::path::Path::new("x.pt"), &bytes, |name| name == wanted).unwrap();
            (found.packed.to_vec(), found.crc)
        };
        assert_eq!(of("x/data/0"), (b"abc".to_vec(), crc32fast::hash(b"abc")));
        assert_eq!(of("x/version").0, b"3\n");
        assert!(of("x/data.pkl").0.ends_with(b"."));
    }
}
