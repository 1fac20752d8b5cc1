//! A file that is written front to back in writes of one size, optionally with O_DIRECT, which requires addresses,
//! offsets and lengths in whole pages. An aligned buffer collects the bytes.

use crate::system::buffer::{ALIGNMENT, AlignedBuffer};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The default size of a direct write: with less, a device waits for the next write longer than it writes.
const DIRECT_SIZE: usize = 4 << 20;
const _: () = assert!(DIRECT_SIZE.is_multiple_of(ALIGNMENT));

pub struct BufferedFile {
    file: File,
    direct: bool,
    /// Size of one write.
    size: usize,
    buffer: AlignedBuffer,
    held: usize,
    total: u64,
}

fn direct_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(libc::O_DIRECT);
    options
}

impl BufferedFile {
    /// Creates a file that is written through the page cache.
    pub fn create(path: &Path, size: usize) -> io::Result<BufferedFile> {
        Ok(BufferedFile::new(File::create(path)?, false, size))
    }

    /// Creates a file that bypasses the page cache; `size` in whole pages.
    pub fn create_direct(path: &Path, size: Option<usize>) -> io::Result<BufferedFile> {
        let file = direct_options().write(true).create(true).truncate(true).open(path)?;
        let size = size.map_or(DIRECT_SIZE, |size| size.next_multiple_of(ALIGNMENT));
        Ok(BufferedFile::new(file, true, size))
    }

    fn new(file: File, direct: bool, size: usize) -> BufferedFile {
        BufferedFile { file, direct, size, buffer: AlignedBuffer::default(), held: 0, total: 0 }
    }

    /// Writes the remaining bytes. A direct write is in whole pages, so the file is then truncated to its size.
    pub fn finish(mut self) -> io::Result<File> {
        let whole = if self.direct { self.held.next_multiple_of(ALIGNMENT) } else { self.held };
        if whole > 0 {
            let held = self.held;
            let page = self.buffer.space(self.size);
            page[held..whole].fill(0);
            self.file.write_all(&page[..whole])?;
        }
        if self.direct {
            self.file.set_len(self.total)?;
        }
        Ok(self.file)
    }
}

impl Write for BufferedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.size - self.held);
        let page = self.buffer.space(self.size);
        page[self.held..self.held + taken].copy_from_slice(&bytes[..taken]);
        self.held += taken;
        self.total += taken as u64;
        if self.held == self.size {
            self.file.write_all(&page[..self.size])?;
            self.held = 0;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a file for reads that bypass the page cache, as long as they are whole pages at page offsets.
pub fn open_direct(path: &Path) -> io::Result<impl Read> {
    direct_options().read(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_all_bytes_for_any_size() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x");
        for length in [0, 1, ALIGNMENT, ALIGNMENT + 1, DIRECT_SIZE, 2 * DIRECT_SIZE + 77] {
            let bytes: Vec<u8> = (0..length).map(|place| (place % 251) as u8).collect();
            let direct = BufferedFile::create_direct(&path, None).unwrap();
            let odd = BufferedFile::create_direct(&path, Some(5000)).unwrap();
            for mut file in [direct, odd, BufferedFile::create(&path, 777_777).unwrap()] {
                // The previous file has left its bytes there.
                file.file.set_len(0).unwrap();
                for part in bytes.chunks(99_991) {
                    file.write_all(part).unwrap();
                }
                file.finish().unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), bytes, "{length}");
            }
            let (mut buffer, mut read) = (AlignedBuffer::default(), Vec::<u8>::new());
            let mut file = open_direct(&path).unwrap();
            loop {
                let page = buffer.space(DIRECT_SIZE);
                match file.read(page).unwrap() {
                    0 => break,
                    count => read.extend(&page[..count]),
                }
            }
            assert_eq!(read, bytes, "{length}");
        }
    }
}
