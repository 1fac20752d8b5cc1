//! A file or an object open for reading, as the workload requests: buffered, in transfers of a given size, or direct;
//! an object whole, as a stream, or in ranges. Counts the bytes read, from which every MB/s of the benchmark is
//! computed.

use crate::failure::{Failure, Kind, Outcome};
use crate::ranks::mpi;
use crate::store::cache::Tiered;
use crate::store::{self, Body, Ranges};
use crate::system::buffer::{ALIGNMENT, AlignedBuffer};
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How files are read. Formats pass it on unchanged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access {
    /// Size of one read; 0: no limit.
    pub transfer: usize,
    pub direct: bool,
    pub map: bool,
    /// Keeps the last file open, decoded if the format requires it.
    pub keep_open: bool,
    /// Skips the checksums of samples that a format's own readers verify.
    pub unchecked: bool,
    /// Samples are requested by index, in any order: nothing is read ahead of the first.
    pub by_index: bool,
    /// Every read is a collective of all ranks, through MPI-IO.
    pub collective: bool,
}

/// Opens a data file; returns it with its length. Refuses anything else, such as a pipe, whose open would wait for a
/// writer.
pub fn open_regular(path: &Path, flags: i32) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().read(true).custom_flags(flags | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok((file, found.len()))
}

/// Bytes that can be read at any offset, of a file or an object.
pub trait ReadAt {
    fn length(&self) -> io::Result<u64>;

    /// Reads up to `into.len()` bytes, fewer at the end.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        if self.read_at(into, offset)? < into.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl ReadAt for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, into, offset)
    }
}

/// A reader that counts the bytes read through it.
pub struct Counted<'a> {
    file: &'a dyn ReadAt,
    moved: Cell<u64>,
}

impl Counted<'_> {
    pub fn new(file: &dyn ReadAt) -> Counted<'_> {
        Counted { file, moved: Cell::new(0) }
    }

    pub fn moved(&self) -> u64 {
        self.moved.get()
    }
}

impl ReadAt for Counted<'_> {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(into, offset)?;
        self.moved.set(self.moved.get() + read as u64);
        Ok(read)
    }
}

impl ReadAt for Ranges {
    fn length(&self) -> io::Result<u64> {
        Ok(self.total())
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let there = self.total().saturating_sub(offset).min(into.len() as u64) as usize;
        if there > 0 {
            self.fill(offset, &mut into[..there]).map_err(io::Error::other)?;
        }
        Ok(there)
    }
}

/// An object that is read in parts, in any order, from the store or the cache in front of it.
pub enum Parts {
    Store(Ranges),
    Tier(Mutex<InTier>),
}

pub struct InTier {
    object: Tiered,
    moved: u64,
}

impl Parts {
    pub fn open(path: &Path) -> Outcome<Parts> {
        match Tiered::of(path) {
            Some(object) => Ok(Parts::Tier(Mutex::new(InTier { object, moved: 0 }))),
            None => Ranges::open(path).map(Parts::Store),
        }
    }

    pub fn total(&self) -> Outcome<u64> {
        match self {
            Parts::Store(ranges) => Ok(ranges.total()),
            Parts::Tier(tier) => locked(tier).object.length(),
        }
    }

    pub fn fill(&self, offset: u64, into: &mut [u8]) -> Outcome<()> {
        match self {
            Parts::Store(ranges) => ranges.fill(offset, into),
            Parts::Tier(tier) => {
                let mut tier = locked(tier);
                tier.moved += into.len() as u64;
                tier.object.fill(offset, into)
            }
        }
    }

    /// Returns the bytes read since the last call.
    pub fn take_moved(&self) -> u64 {
        match self {
            Parts::Store(ranges) => ranges.take_moved(),
            Parts::Tier(tier) => std::mem::take(&mut locked(tier).moved),
        }
    }
}

fn locked(tier: &Mutex<InTier>) -> MutexGuard<'_, InTier> {
    tier.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReadAt for Parts {
    fn length(&self) -> io::Result<u64> {
        self.total().map_err(io::Error::other)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let there = self.length()?.saturating_sub(offset).min(into.len() as u64) as usize;
        if there > 0 {
            self.fill(offset, &mut into[..there]).map_err(io::Error::other)?;
        }
        Ok(there)
    }
}

pub struct Input {
    bytes: Bytes,
    path: PathBuf,
    access: Access,
    moved: u64,
}

enum Bytes {
    File {
        file: File,
        length: u64,
    },
    /// An object. Its length is in the first response. Once a stream of the object is started, it stays open.
    Object {
        length: Option<u64>,
        stream: Option<Box<Body>>,
    },
    /// An object that is cached on this host, piece by piece.
    Tiered(Box<Tiered>),
}

impl Input {
    /// Opens a file. An object causes no request before the first read.
    pub fn open(path: &Path, access: Access) -> Outcome<Input> {
        let path_kept = path.to_path_buf();
        if store::is_object(path) {
            let bytes = match Tiered::of(path) {
                Some(tiered) => Bytes::Tiered(Box::new(tiered)),
                None => Bytes::Object { length: None, stream: None },
            };
            return Ok(Input { bytes, path: path_kept, access, moved: 0 });
        }
        let flags = if access.direct { libc::O_DIRECT } else { 0 };
        let (file, length) = open_regular(path, flags).map_err(|error| Input::refused_open(path, access, error))?;
        Ok(Input { bytes: Bytes::File { file, length }, path: path_kept, access, moved: 0 })
    }

    fn refused_open(path: &Path, access: Access, error: io::Error) -> Failure {
        let direct_refused = access.direct && error.raw_os_error() == Some(libc::EINVAL);
        let failure = Failure::io("open", path, error);
        if direct_refused {
            return failure.remedy("this file system has no O_DIRECT; set ++workload.reader.odirect=false");
        }
        failure
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file, for operations of files only; `None` for an object.
    pub fn file(&self) -> Option<&File> {
        match &self.bytes {
            Bytes::File { file, .. } => Some(file),
            Bytes::Object { .. } | Bytes::Tiered(_) => None,
        }
    }

    pub fn length(&mut self) -> Outcome<u64> {
        match &mut self.bytes {
            Bytes::File { length, .. } => Ok(*length),
            Bytes::Object { length: Some(length), .. } => Ok(*length),
            Bytes::Tiered(tiered) => tiered.length(),
            Bytes::Object { length, .. } => {
                let missing = || Failure::new(Kind::MissingData, format!("{} does not exist", self.path.display()));
                let there = store::length(&self.path)?.ok_or_else(missing)?;
                Ok(*length.insert(there))
            }
        }
    }

    /// Returns the length for a caller that will read on from `offset`: for an object, that stream is started.
    pub fn length_of_stream(&mut self, offset: u64) -> Outcome<u64> {
        if let Bytes::Object { length: length @ None, stream } = &mut self.bytes {
            let begun = Body::open(&self.path, offset, None)?;
            *length = Some(begun.total());
            *stream = Some(Box::new(begun));
        }
        self.length()
    }

    /// Returns the bytes read since the last call.
    pub fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    /// Reads the whole file into `buffer`; returns its length.
    pub fn read_whole(&mut self, buffer: &mut AlignedBuffer) -> Outcome<usize> {
        let Bytes::File { length, .. } = &self.bytes else { return self.receive_whole(buffer) };
        let length = *length as usize;
        let space = buffer.space(length);
        let end = if self.access.direct { length.next_multiple_of(ALIGNMENT).min(space.len()) } else { length };
        let moved = self.transfers(0, &mut space[..end])?;
        if moved < length {
            return Err(Failure::damaged(&self.path, format!("ends at byte {moved} of {length}")));
        }
        Ok(length)
    }

    /// Receives a whole object with one request, directly into the buffer.
    fn receive_whole(&mut self, buffer: &mut AlignedBuffer) -> Outcome<usize> {
        let length = if let Bytes::Tiered(tiered) = &mut self.bytes {
            let length = tiered.length()? as usize;
            tiered.fill(0, &mut buffer.space(length)[..length])?;
            length
        } else {
            let mut body = Body::open(&self.path, 0, None)?;
            let length = body.total() as usize;
            body.fill(&mut buffer.space(length)[..length])?;
            length
        };
        self.moved += length as u64;
        Ok(length)
    }

    /// Reads exactly `into.len()` bytes from `offset`; for an object, with a range request. Not for O_DIRECT, whose
    /// offsets are whole pages.
    pub fn read_exact_at(&mut self, offset: u64, into: &mut [u8]) -> Outcome<()> {
        if let Bytes::Tiered(tiered) = &mut self.bytes {
            self.moved += into.len() as u64;
            return tiered.fill(offset, into);
        }
        let Bytes::File { length, .. } = &self.bytes else {
            if !into.is_empty() {
                Body::open(&self.path, offset, Some(into.len() as u64))?.fill(into)?;
            }
            self.moved += into.len() as u64;
            return Ok(());
        };
        if offset + into.len() as u64 > *length {
            let what = format!("needs bytes {offset} to {}, but the file has {length}", offset + into.len() as u64);
            return Err(Failure::damaged(&self.path, what));
        }
        let wanted = into.len();
        if self.transfers(offset, into)? < wanted {
            return Err(Failure::damaged(&self.path, format!("ends before byte {}", offset + wanted as u64)));
        }
        Ok(())
    }

    /// Reads exactly `into.len()` bytes for a caller that continues where the last read ended: then an object needs one
    /// request only.
    pub fn read_on_at(&mut self, offset: u64, into: &mut [u8]) -> Outcome<()> {
        let Bytes::Object { stream, length } = &mut self.bytes else { return self.read_exact_at(offset, into) };
        let mut body = match stream.take().filter(|stream| stream.at() == offset) {
            Some(stream) => stream,
            None => Box::new(Body::open(&self.path, offset, None)?),
        };
        *length = Some(body.total());
        body.fill(into)?;
        self.moved += into.len() as u64;
        *stream = Some(body);
        Ok(())
    }

    /// Reads a part at any offset into `buffer`, with whole pages around it if O_DIRECT requires them. Returns the
    /// position of the part in the buffer.
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
        if self.access.collective {
            let done = mpi::read_together(&self.path, offset, into)?;
            self.moved += done as u64;
            return Ok(done);
        }
        let size = if self.access.transfer == 0 { into.len() } else { self.access.transfer };
        let size = if self.access.direct { size.next_multiple_of(ALIGNMENT) } else { size }.max(1);
        let Bytes::File { file, .. } = &self.bytes else { return Ok(0) };
        let mut done = 0;
        while done < into.len() {
            let end = into.len().min(done + size);
            match FileExt::read_at(file, &mut into[done..end], offset + done as u64) {
                Ok(0) => break,
                Ok(moved) => done += moved,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::io("read", &self.path, error)),
            }
            // A direct read is unaligned only at the end of the file, where another one would be refused.
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
        let dir = tempfile::tempdir().unwrap();
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
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"short").unwrap();
        let mut input = Input::open(&path, Access::default()).unwrap();
        let failure = input.read_exact_at(3, &mut [0; 10]).unwrap_err();
        assert!(failure.what.contains(path.to_str().unwrap()));
        assert_eq!(failure.exit_code(), 5);
    }
}
