//! A file open for reading, the way the workload says: plain, in transfers of a given size, or past the page cache.
//! Counts the bytes it moved, which is what every MB/s of the benchmark is made of.

use crate::buffer::{ALIGNMENT, AlignedBuffer};
use crate::failure::{Failure, Outcome};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The way files are read. Formats take it as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access {
    /// Bytes of one read; 0: all at once.
    pub transfer: usize,
    pub direct: bool,
    pub map: bool,
    /// Keep the last file open, decoded where the format needs it.
    pub keep_open: bool,
    /// Compare checksums also where that costs a pass over the sample.
    pub check: bool,
}

pub struct Input {
    file: File,
    path: PathBuf,
    length: u64,
    access: Access,
    moved: u64,
}

impl Input {
    pub fn open(path: &Path, access: Access) -> Outcome<Input> {
        let mut options = OpenOptions::new();
        options.read(true);
        if access.direct {
            options.custom_flags(libc::O_DIRECT);
        }
        let file = options.open(path).map_err(|error| Input::refused_open(path, access, error))?;
        let length = file.metadata().map_err(|error| Failure::io("reading", path, error))?.len();
        Ok(Input { file, path: path.to_path_buf(), length, access, moved: 0 })
    }

    fn refused_open(path: &Path, access: Access, error: io::Error) -> Failure {
        let direct_refused = access.direct && error.raw_os_error() == Some(libc::EINVAL);
        let failure = Failure::io("opening", path, error);
        if direct_refused {
            return failure.remedy("this file system has no O_DIRECT; set ++workload.reader.odirect=false");
        }
        failure
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Bytes read since the last call.
    pub fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    /// The whole file into `buffer`; returns its length.
    pub fn read_whole(&mut self, buffer: &mut AlignedBuffer) -> Outcome<usize> {
        let length = self.length as usize;
        let space = buffer.space(length);
        let end = if self.access.direct { length.next_multiple_of(ALIGNMENT).min(space.len()) } else { length };
        let moved = self.transfers(0, &mut space[..end])?;
        if moved < length {
            return Err(Failure::damaged(&self.path, format!("ends at byte {moved} of {length}")));
        }
        Ok(length)
    }

    /// Exactly `into.len()` bytes from `offset`. Not for O_DIRECT, whose offsets are pages.
    pub fn read_exact_at(&mut self, offset: u64, into: &mut [u8]) -> Outcome<()> {
        if offset + into.len() as u64 > self.length {
            let what = format!("needs bytes {offset} to {} of a file of {}", offset + into.len() as u64, self.length);
            return Err(Failure::damaged(&self.path, what));
        }
        let wanted = into.len();
        if self.transfers(offset, into)? < wanted {
            return Err(Failure::damaged(&self.path, format!("ends before byte {}", offset + wanted as u64)));
        }
        Ok(())
    }

    /// A part at any offset into `buffer`, with whole pages around it where O_DIRECT needs them. Returns where in the
    /// buffer the part begins.
    pub fn read_part(&mut self, offset: u64, length: usize, buffer: &mut AlignedBuffer) -> Outcome<usize> {
        if !self.access.direct {
            self.read_exact_at(offset, &mut buffer.space(length)[..length])?;
            return Ok(0);
        }
        let before = (offset % ALIGNMENT as u64) as usize;
        let end = (before + length).next_multiple_of(ALIGNMENT);
        let moved = self.transfers(offset - before as u64, &mut buffer.space(end)[..end])?;
        if moved < before + length {
            return Err(Failure::damaged(&self.path, format!("ends before byte {}", offset + length as u64)));
        }
        Ok(before)
    }

    /// Reads until the buffer is full or the file ends.
    fn transfers(&mut self, offset: u64, into: &mut [u8]) -> Outcome<usize> {
        let size = if self.access.transfer == 0 { into.len() } else { self.access.transfer };
        let size = if self.access.direct { size.next_multiple_of(ALIGNMENT) } else { size }.max(1);
        let mut done = 0;
        while done < into.len() {
            let end = into.len().min(done + size);
            match self.file.read_at(&mut into[done..end], offset + done as u64) {
                Ok(0) => break,
                Ok(moved) => done += moved,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::io("reading", &self.path, error)),
            }
            // A direct read ends unaligned only at the end of the file; another one there would be refused.
            if self.access.direct && !done.is_multiple_of(ALIGNMENT) {
                break;
            }
        }
        self.moved += done as u64;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_of_any_size_give_the_same_bytes() {
        let dir = crate::scratch::Folder::new("input");
        let path = dir.path().join("f");
        let content: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        std::fs::write(&path, &content).unwrap();
        for transfer in [0, 1000, 4096, 20_000] {
            let mut input = Input::open(&path, Access { transfer, ..Access::default() }).unwrap();
            let mut buffer = AlignedBuffer::default();
            let length = input.read_whole(&mut buffer).unwrap();
            assert_eq!(buffer.bytes(length), content);
            assert_eq!(input.take_moved(), 10_000);
            assert_eq!(input.take_moved(), 0);
        }
    }

    #[test]
    fn a_read_beyond_the_end_names_the_file() {
        let dir = crate::scratch::Folder::new("short");
        let path = dir.path().join("f");
        std::fs::write(&path, b"short").unwrap();
        let mut input = Input::open(&path, Access::default()).unwrap();
        let failure = input.read_exact_at(3, &mut [0; 10]).unwrap_err();
        assert!(failure.what.contains(path.to_str().unwrap()));
        assert_eq!(failure.exit_code(), 5);
    }
}
