//! Bytes of files, read where they are needed.
//!
//! Traces are read with positioned reads and not mapped: a mapped trace would count as memory of this program, and one that
//! is cut while it is read (its program still runs) would end it with a signal.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlio_schemas::native::file::Store;

/// Files a thread keeps open. A trace of 23,000 processes has more files than a process may open.
const OPEN_MAX: usize = 128;

/// A file as a store of bytes; its size is that of the moment it was opened.
pub struct FileStore {
    file: File,
    size: usize,
}

impl FileStore {
    pub fn open(path: &Path) -> std::io::Result<FileStore> {
        let file = File::open(path)?;
        let size = file.metadata()?.len() as usize;
        Ok(FileStore { file, size })
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

/// Open files of one thread, forgotten all at once when there are too many.
#[derive(Default)]
pub struct OpenFiles {
    open: HashMap<PathBuf, Arc<File>>,
}

impl OpenFiles {
    pub fn get(&mut self, path: &Path) -> std::io::Result<Arc<File>> {
        if let Some(file) = self.open.get(path) {
            return Ok(file.clone());
        }
        if self.open.len() >= OPEN_MAX {
            self.open.clear();
        }
        let file = Arc::new(File::open(path)?);
        self.open.insert(path.into(), file.clone());
        Ok(file)
    }
}
