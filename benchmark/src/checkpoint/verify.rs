//! Reads a checkpoint file once, front to back, and compares its bytes with the checksums stored at write time while
//! they are in the CPU cache.

use crate::system::checksum::Checksum;
use crate::system::processes;
use std::io::{self, Read};

/// A tensor of a file, and the checksum of its bytes if it is known.
#[derive(Debug, Clone)]
pub struct Part {
    pub name: String,
    pub at: u64,
    pub bytes: u64,
    pub crc: Option<u32>,
}

/// The content of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Whole {
    pub bytes: u64,
    /// The first part whose bytes differ from the bytes written.
    pub damaged: Option<String>,
}

/// Reads a whole file through `piece`; parts do not overlap, and their checksums are all of one kind.
pub fn read(file: &mut impl Read, mut parts: Vec<Part>, kind: Checksum, piece: &mut [u8]) -> io::Result<Whole> {
    parts.retain(|part| part.crc.is_some() && part.bytes > 0);
    parts.sort_by_key(|part| part.at);
    let mut check = Check { parts: parts.into_iter().peekable(), kind, sum: 0, damaged: None };
    let mut at = 0;
    loop {
        match file.read(piece) {
            Ok(0) => break,
            Ok(read) => {
                check.take(at, &piece[..read]);
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted && !processes::interrupted() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Whole { bytes: at, damaged: check.finished() })
}

struct Check {
    parts: std::iter::Peekable<std::vec::IntoIter<Part>>,
    kind: Checksum,
    sum: u32,
    damaged: Option<String>,
}

impl Check {
    /// Processes the next bytes of the file, which start at offset `at`.
    fn take(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        while let Some(part) = self.parts.peek().filter(|part| part.at < end) {
            let (from, to) = (part.at.max(at), (part.at + part.bytes).min(end));
            self.sum = self.kind.append(self.sum, &bytes[(from - at) as usize..(to - at) as usize]);
            if to < part.at + part.bytes {
                return;
            }
            self.close();
        }
    }

    fn close(&mut self) {
        let sum = std::mem::take(&mut self.sum);
        if let Some(part) = self.parts.next().filter(|part| part.crc != Some(sum)) {
            self.damaged.get_or_insert(part.name);
        }
    }

    /// Returns the first damaged part. A part in which the file ended is damaged too.
    fn finished(mut self) -> Option<String> {
        let cut = self.parts.next().map(|part| part.name);
        self.damaged.or(cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_changed_byte_is_found_wherever_pieces_end() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x");
        let bytes: Vec<u8> = (0..1000u32).map(|number| (number * 7 % 251) as u8).collect();
        let part = |name: &str, at: usize, length: usize| Part {
            name: name.into(),
            at: at as u64,
            bytes: length as u64,
            crc: Some(crc32fast::hash(&bytes[at..at + length])),
        };
        let parts = vec![part("c", 500, 400), part("a", 10, 90), part("b", 100, 1), part("none", 950, 0)];
        for piece in [1, 7, 100, 101, 500, 4096] {
            let read_back = |changed: Option<usize>| {
                let mut bytes = bytes.clone();
                changed.into_iter().for_each(|at| bytes[at] ^= 1);
                std::fs::write(&path, bytes).unwrap();
                read(&mut File::open(&path).unwrap(), parts.clone(), Checksum::Crc32, &mut vec![0; piece]).unwrap()
            };
            assert_eq!(read_back(None), Whole { bytes: 1000, damaged: None }, "{piece}");
            for (at, name) in [(10, Some("a")), (99, Some("a")), (100, Some("b")), (899, Some("c")), (900, None)] {
                assert_eq!(read_back(Some(at)).damaged.as_deref(), name, "{piece}, {at}");
            }
            std::fs::write(&path, &bytes[..300]).unwrap();
            let cut =
                read(&mut File::open(&path).unwrap(), parts.clone(), Checksum::Crc32, &mut vec![0; piece]).unwrap();
            assert_eq!(cut, Whole { bytes: 300, damaged: Some("c".into()) });
        }
    }
}
