//! Reads the bytes of files on demand.
//!
//! Traces are read with positioned reads and not mapped: a mapped trace would count as memory of this program, and
//! truncating it during a read (its program may still run) would kill this program with a signal.

use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlio_schemas::native::Damage;
use dlio_schemas::native::file::Store;

use super::trace_file::StoredFile;

/// The number of files that a thread keeps open. A trace of 23,000 processes has more files than a process may open.
const OPEN_MAX: usize = 128;

/// A file as a byte store; its size is that at opening.
pub struct FileStore {
    file: StoredFile,
    size: usize,
}

impl FileStore {
    pub fn open(path: &Path) -> std::io::Result<FileStore> {
        FileStore::of(StoredFile::open(path)?)
    }

    /// Creates a store from an open file.
    pub fn of(file: StoredFile) -> std::io::Result<FileStore> {
        let size = file.size()? as usize;
        Ok(FileStore { file, size })
    }

    pub fn file(&self) -> StoredFile {
        self.file.clone()
    }
}

impl Store for FileStore {
    fn size(&self) -> usize {
        self.size
    }

    fn load(&self, at: usize, into: &mut [u8]) -> bool {
        self.file.read_exact_at(into, at as u64).is_ok()
    }
}

/// The open files of one thread, all closed together when there are too many.
#[derive(Default)]
pub struct OpenFiles {
    open: HashMap<PathBuf, StoredFile>,
}

impl OpenFiles {
    pub fn get(&mut self, path: &Path) -> std::io::Result<StoredFile> {
        if let Some(file) = self.open.get(path) {
            return Ok(file.clone());
        }
        if self.open.len() >= OPEN_MAX {
            self.open.clear();
        }
        let file = StoredFile::open(path)?;
        self.open.insert(path.into(), file.clone());
        Ok(file)
    }
}

/// A longer line or object in a text is damage.
pub const ITEM_MAX: usize = 16 << 20;

/// Traces compress to 1 to 10 %. A text that expands far more is made to exhaust memory or time.
const UNPACKED_RATIO: u64 = 500;

/// The limit for any text, however small the file.
const UNPACKED_LEAST: u64 = 64 << 20;

/// Returns the maximum unpacked size of a text with `size` stored bytes.
pub fn unpacked_most(size: u64) -> u64 {
    UNPACKED_LEAST.max(size.saturating_mul(UNPACKED_RATIO))
}

/// The compression of a file, by its first bytes.
enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    fn of(head: &[u8]) -> Option<Packing> {
        match head {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
            _ => None,
        }
    }

    fn unpack<'a>(self, source: impl Read + 'a) -> std::io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Packing::Gzip => Box::new(super::gzip::Inflater::new(source)),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(source)?),
        })
    }
}

/// Returns `true` if a file with this start is compressed; readers unpack it.
pub fn is_packed(head: &[u8]) -> bool {
    Packing::of(head).is_some()
}

/// Returns a reader of the bytes, unpacked if they are compressed.
pub fn unpacking<'a>(bytes: &'a [u8]) -> std::io::Result<Box<dyn Read + 'a>> {
    match Packing::of(bytes) {
        Some(packing) => packing.unpack(bytes),
        None => Ok(Box::new(bytes)),
    }
}

/// Returns a reader of a file, unpacked if it is compressed.
pub fn unpacked(path: &Path) -> std::io::Result<Box<dyn Read>> {
    let mut head = [0; 4];
    let file = StoredFile::open(path)?;
    let read = file.reader(0).read(&mut head)?;
    match Packing::of(&head[..read]) {
        Some(packing) => packing.unpack(file.reader(0)),
        None => Ok(Box::new(file.reader(0))),
    }
}

/// The bytes returned after the last occurrence of a word.
const BEHIND: usize = 64;

/// Returns the text after the last occurrence of a word in a text of `size` stored bytes.
pub fn last_after(path: &Path, size: u64, word: &[u8]) -> Option<Vec<u8>> {
    let mut text = unpacked(path).ok()?.take(unpacked_most(size));
    let (mut window, mut found) = (Vec::new(), None);
    while (&mut text).take(1 << 20).read_to_end(&mut window).is_ok_and(|read| read > 0) {
        if let Some(at) = memchr::memmem::rfind(&window, word) {
            let behind = &window[at + word.len()..];
            found = Some(behind[..behind.len().min(BEHIND)].to_vec());
        }
        // A word that is split here, or its following text, is whole in the next window.
        let kept = window.len().saturating_sub(word.len() + BEHIND);
        window.drain(..kept);
    }
    found
}

/// The maximum size of a file decompressed in memory: a decompression bomb is refused.
pub const UNPACKED_MAX: u64 = 1 << 30;

/// The bytes of a file that is read in pieces, or of a part of it.
pub struct Bytes {
    held: Arc<ByteSource>,
    part: Range<usize>,
}

/// A file compressed as a whole is unpacked in memory.
enum ByteSource {
    File(FileStore),
    Memory(Vec<u8>),
}

impl Bytes {
    pub fn open(path: &Path) -> Result<Bytes, Damage> {
        let store = FileStore::open(path).map_err(|_| Damage::Broken("cannot open the file"))?;
        let mut head = [0; 4];
        let whole = store.load(0, &mut head);
        match Packing::of(&head).filter(|_| whole) {
            Some(packing) => {
                unpack(packing.unpack(reader(path)?).map_err(|_| Damage::Broken("no memory to decompress"))?)
            }
            None => Ok(Bytes::of(ByteSource::File(store))),
        }
    }

    fn of(held: ByteSource) -> Bytes {
        let size = match &held {
            ByteSource::File(store) => store.size(),
            ByteSource::Memory(bytes) => bytes.len(),
        };
        Bytes { held: Arc::new(held), part: 0..size }
    }

    /// Returns a part of the bytes, up to their end.
    pub fn part(&self, from: usize, size: usize) -> Bytes {
        let start = self.part.start.saturating_add(from).min(self.part.end);
        Bytes { held: self.held.clone(), part: start..start.saturating_add(size).min(self.part.end) }
    }

    pub fn load(&self, at: usize, into: &mut [u8]) -> Result<(), Damage> {
        if into.len() > self.size().saturating_sub(at) {
            return Err(Damage::Cut);
        }
        let at = self.part.start + at;
        let whole = match &*self.held {
            ByteSource::File(store) => store.load(at, into),
            ByteSource::Memory(bytes) => bytes.as_slice().load(at, into),
        };
        if whole { Ok(()) } else { Err(Damage::Cut) }
    }

    pub fn size(&self) -> usize {
        self.part.len()
    }
}

fn reader(path: &Path) -> Result<impl Read, Damage> {
    let file = StoredFile::open(path).map_err(|_| Damage::Broken("cannot open the file"))?;
    Ok(BufReader::with_capacity(1 << 18, file.reader(0)))
}

/// Returns the unpacked text; a truncated file gives its beginning.
fn unpack(source: impl Read) -> Result<Bytes, Damage> {
    let mut out = Vec::new();
    let ended = source.take(UNPACKED_MAX + 1).read_to_end(&mut out);
    match (ended, out.len() as u64) {
        (_, length) if length > UNPACKED_MAX => {
            Err(Damage::Broken("it unpacks to more than 1 GiB; unpack it to a file"))
        }
        (Err(_), 0) => Err(Damage::Broken("its compression")),
        _ => Ok(Bytes::of(ByteSource::Memory(out))),
    }
}
