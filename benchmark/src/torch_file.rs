//! The file that `torch.save` makes of a dictionary with one tensor, so that a checkpoint has the size, the layout and
//! the readers of a real one.
//!
//! ```text
//! STEM/data.pkl     pickle 2: {"a": tensor of int8 whose storage is "0"}
//! STEM/byteorder    little
//! STEM/data/0       the tensor, stored, at a multiple of 64 bytes
//! STEM/version      3
//! directory
//! ```
//!
//! Everything but the tensor is made here; whoever writes the tensor streams it between `head` and `tail`.

use crate::formats::zip::{self, Member, Method};

/// Tensors begin at a multiple of this, so that they can be used where they are mapped.
const ALIGNMENT: u64 = 64;

pub struct TorchFile {
    stem: String,
    head: Vec<u8>,
    before: Vec<Member>,
    tensor: Member,
}

impl TorchFile {
    /// A file whose name without its ending is `stem`, with a tensor of `bytes`.
    pub fn new(stem: &str, bytes: u64) -> TorchFile {
        let mut head = Vec::new();
        let before = vec![
            small(format!("{stem}/data.pkl"), &pickle(bytes), 0, &mut head),
            small(format!("{stem}/byteorder"), b"little", 0, &mut head),
        ];
        let name = format!("{stem}/data/0");
        let at = head.len() as u64;
        let tensor = Member { name, method: Method::Stored, crc: 0, packed: bytes, size: bytes, at };
        head.extend(zip::aligned_local_header(&tensor, ALIGNMENT));
        TorchFile { stem: stem.into(), head, before, tensor }
    }

    /// What stands before the tensor.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The header in front of the tensor once its checksum is known, and where it belongs.
    pub fn tensor_header(&self, crc: u32) -> (u64, Vec<u8>) {
        let tensor = Member { crc, ..self.tensor.clone() };
        (tensor.at, zip::aligned_local_header(&tensor, ALIGNMENT))
    }

    /// What stands behind the tensor.
    pub fn tail(&self, crc: u32) -> Vec<u8> {
        let behind = self.head.len() as u64 + self.tensor.size;
        let mut tail = Vec::new();
        let version = small(format!("{}/version", self.stem), b"3\n", behind, &mut tail);
        let tensor = Member { crc, ..self.tensor.clone() };
        let members = [&self.before[..], &[tensor, version]].concat();
        let start = behind + tail.len() as u64;
        tail.extend(zip::directory(&members, start));
        tail
    }

    pub fn file_bytes(&self) -> u64 {
        self.head.len() as u64 + self.tensor.size + self.tail(0).len() as u64
    }
}

/// Appends a member that fits in memory to `into`, whose first byte is byte `from` of the file.
fn small(name: String, bytes: &[u8], from: u64, into: &mut Vec<u8>) -> Member {
    let (size, at) = (bytes.len() as u64, from + into.len() as u64);
    let member = Member { name, method: Method::Stored, crc: crc32fast::hash(bytes), packed: size, size, at };
    into.extend(zip::local_header(&member));
    into.extend(bytes);
    member
}

/// `{"a": _rebuild_tensor_v2(storage 0 of `bytes` int8 on the CPU, offset 0, (bytes,), (1,), False, OrderedDict())}`.
fn pickle(bytes: u64) -> Vec<u8> {
    let mut code = b"\x80\x02}".to_vec();
    text("a", &mut code);
    global("torch._utils", "_rebuild_tensor_v2", &mut code);
    code.extend(b"((");
    text("storage", &mut code);
    global("torch", "CharStorage", &mut code);
    text("0", &mut code);
    text("cpu", &mut code);
    integer(bytes, &mut code);
    // The tuple becomes the storage; then its offset, the shape, the stride, no gradient, no hooks.
    code.extend(b"tQK\x00");
    integer(bytes, &mut code);
    code.extend(b"\x85K\x01\x85\x89");
    global("collections", "OrderedDict", &mut code);
    code.extend(b")RtRs.");
    code
}

fn text(text: &str, code: &mut Vec<u8>) {
    code.push(b'X');
    code.extend((text.len() as u32).to_le_bytes());
    code.extend(text.as_bytes());
}

fn global(module: &str, name: &str, code: &mut Vec<u8>) {
    code.extend(format!("c{module}\n{name}\n").as_bytes());
}

/// Four signed bytes where they suffice, else eight.
fn integer(number: u64, code: &mut Vec<u8>) {
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
    fn the_tensor_is_aligned_and_the_size_known_beforehand() {
        for bytes in [0, 1, 10_240, 499_153_191, 5 << 32] {
            let file = TorchFile::new("model_states-0", bytes);
            assert_eq!(file.head().len() as u64 % ALIGNMENT, 0);
            assert_eq!(file.file_bytes(), file.head().len() as u64 + bytes + file.tail(77).len() as u64);
            assert_eq!(file.tensor_header(9).1.len() as u64 + file.tensor_header(9).0, file.head().len() as u64);
        }
    }

    #[test]
    fn the_members_are_found_by_their_names() {
        let file = TorchFile::new("x", 3);
        let bytes = [file.head(), b"abc", &file.tail(crc32fast::hash(b"abc"))].concat();
        let of = |wanted: &str| {
            let found = zip::find(std::path::Path::new("x.pt"), &bytes, |name| name == wanted).unwrap();
            (found.packed.to_vec(), found.crc)
        };
        assert_eq!(of("x/data/0"), (b"abc".to_vec(), crc32fast::hash(b"abc")));
        assert_eq!(of("x/version").0, b"3\n");
        assert!(of("x/data.pkl").0.ends_with(b"."));
    }
}
