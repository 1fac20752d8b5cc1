//! A file past the page cache, front to back: O_DIRECT wants addresses, offsets and lengths in whole pages, so bytes are
//! gathered in a buffer that is.

use crate::buffer::{ALIGNMENT, AlignedBuffer};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes of one write: below this a device waits for the next one longer than it writes.
const BUFFER: usize = 4 << 20;
const _: () = assert!(BUFFER.is_multiple_of(ALIGNMENT));

pub struct DirectFile {
    file: File,
    buffer: AlignedBuffer,
    held: usize,
    total: u64,
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(libc::O_DIRECT);
    options
}

impl DirectFile {
    pub fn create(path: &Path) -> io::Result<DirectFile> {
        let file = options().write(true).create(true).truncate(true).open(path)?;
        Ok(DirectFile { file, buffer: AlignedBuffer::default(), held: 0, total: 0 })
    }

    /// Writes what is left, and cuts off what was written to fill the last page.
    pub fn finish(mut self) -> io::Result<File> {
        let whole = self.held.next_multiple_of(ALIGNMENT);
        if whole > 0 {
            let held = self.held;
            let page = self.buffer.space(BUFFER);
            page[held..whole].fill(0);
            self.file.write_all(&page[..whole])?;
            self.file.set_len(self.total)?;
        }
        Ok(self.file)
    }
}

impl Write for DirectFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BUFFER - self.held);
        let page = self.buffer.space(BUFFER);
        page[self.held..self.held + taken].copy_from_slice(&bytes[..taken]);
        self.held += taken;
        self.total += taken as u64;
        if self.held == BUFFER {
            self.file.write_all(&page[..BUFFER])?;
            self.held = 0;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file so, as long as it is read into whole pages at the start of one.
pub fn open(path: &Path) -> io::Result<impl Read> {
    options().read(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_bytes_that_were_written_whatever_their_number() {
        let scratch = crate::scratch::Folder::new("direct");
        let path = scratch.path().join("x");
        for length in [0, 1, ALIGNMENT, ALIGNMENT + 1, BUFFER, 2 * BUFFER + 77] {
            let bytes: Vec<u8> = (0..length).map(|place| (place % 251) as u8).collect();
            let mut file = DirectFile::create(&path).unwrap();
            for part in bytes.chunks(99_991) {
                file.write_all(part).unwrap();
            }
            file.finish().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{length}");
            let (mut buffer, mut read) = (AlignedBuffer::default(), Vec::<u8>::new());
            let mut file = open(&path).unwrap();
            loop {
                let page = buffer.space(BUFFER);
                match file.read(page).unwrap() {
                    0 => break,
                    count => read.extend(&page[..count]),
                }
            }
            assert_eq!(read, bytes, "{length}");
        }
    }
}
