//! A file of a trace: in a file system, or an object in a bucket, which is read in ranges.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use super::bucket::{self, FindHeader, Object};
use super::file_identity::FileIdentity;

/// Returns the current identity of a file, or that of an object when it was listed.
pub fn facts(path: &Path) -> io::Result<FileIdentity> {
    match bucket::is_object(path) {
        true => bucket::object(path).map(|object| object.facts),
        false => std::fs::metadata(path).map(FileIdentity::from),
    }
}

pub fn exists(path: &Path) -> bool {
    if bucket::is_object(path) { bucket::object(path).is_ok() } else { path.exists() }
}

/// Opens a regular file. Does not block on a pipe that has replaced it.
fn regular(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// An open file that several threads may read.
#[derive(Clone)]
pub enum StoredFile {
    Local(Arc<File>),
    Object(Arc<Object>),
}

impl StoredFile {
    pub fn open(path: &Path) -> io::Result<StoredFile> {
        match bucket::is_object(path) {
            true => bucket::object(path).map(StoredFile::Object),
            false => regular(path).map(|file| StoredFile::Local(Arc::new(file))),
        }
    }

    pub fn facts(&self) -> io::Result<FileIdentity> {
        match self {
            StoredFile::Local(file) => file.metadata().map(FileIdentity::from),
            StoredFile::Object(object) => Ok(object.facts),
        }
    }

    pub fn size(&self) -> io::Result<u64> {
        self.facts().map(|facts| facts.size)
    }

    pub fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            StoredFile::Local(file) => file.read_exact_at(into, at),
            StoredFile::Object(object) => object.read_exact_at(into, at),
        }
    }

    /// Reads the bytes at an offset into `into`; returns their number, which is smaller at the end.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            StoredFile::Local(file) => file.read_at(into, at),
            StoredFile::Object(object) => {
                let left = object.facts.size.saturating_sub(at).min(into.len() as u64) as usize;
                object.read_exact_at(&mut into[..left], at).map(|()| left)
            }
        }
    }

    /// Fetches the headers of its blocks together, if each would require a wait.
    pub fn gather_headers(&self, length: usize, first: FindHeader) -> io::Result<()> {
        match self {
            StoredFile::Local(_) => Ok(()),
            StoredFile::Object(object) => object.gather_headers(length as u64, first),
        }
    }

    /// Returns a reader from an offset to the end.
    pub fn reader(&self, at: u64) -> FrontToBack {
        FrontToBack { file: self.clone(), at }
    }
}

/// Reads a file front to back.
pub struct FrontToBack {
    file: StoredFile,
    at: u64,
}

impl Read for FrontToBack {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Length for StoredFile {
    fn len(&self) -> u64 {
        self.size().unwrap_or(0)
    }
}

impl ChunkReader for StoredFile {
    type T = io::BufReader<FrontToBack>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(io::BufReader::new(self.reader(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, start).map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(bytes.into())
    }
}
