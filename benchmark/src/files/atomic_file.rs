//! A file that is written under a temporary name and renamed when complete. A crash, a full disk or Ctrl-C leaves
//! either the whole file or nothing. A file that a killed writer leaves has its pid in the name, and the next run removes it.
//! An object is built in memory and sent when complete.

use crate::failure::{Failure, Outcome};
use crate::store::{self, Upload};
use crate::system::file_calls;
use crate::system::partial_name::{is_abandoned, partial_name};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Removes what killed writers left in a directory. A directory that cannot be listed or changed is skipped.
pub fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_abandoned(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

pub struct AtomicFile {
    /// The temporary location of each file, and its final path.
    names: Vec<(TemporaryFile, PathBuf)>,
}

/// The location of a file until it is complete.
enum TemporaryFile {
    Beside(PathBuf),
    /// In memory, under the name that this process has for it.
    Memory(File, PathBuf),
}

impl TemporaryFile {
    fn path(&self) -> &Path {
        match self {
            TemporaryFile::Beside(path) | TemporaryFile::Memory(_, path) => path,
        }
    }
}

impl AtomicFile {
    pub fn new(path: &Path) -> Outcome<AtomicFile> {
        let mut draft = AtomicFile { names: Vec::new() };
        draft.companion(path)?;
        Ok(draft)
    }

    /// Returns the temporary name of the main file.
    pub fn path(&self) -> &Path {
        self.names[0].0.path()
    }

    /// Returns the temporary name of another file that appears together with the main one.
    pub fn companion(&mut self, path: &Path) -> Outcome<PathBuf> {
        let place = if store::is_object(path) { in_memory(path)? } else { TemporaryFile::Beside(partial_name(path)) };
        let temporary = place.path().to_path_buf();
        self.names.push((place, path.to_path_buf()));
        Ok(temporary)
    }

    pub fn create(&self) -> Outcome<File> {
        File::create(self.path()).map_err(|error| Failure::unwritable("create", &self.names[0].1, error))
    }

    /// Returns the size of all its files so far.
    pub fn bytes(&self) -> u64 {
        self.names.iter().filter_map(|(place, _)| fs::metadata(place.path()).ok()).map(|file| file.len()).sum()
    }

    /// Renames companions first: when the main file is visible, all its companions are too.
    pub fn commit(mut self) -> Outcome<()> {
        for (place, path) in std::mem::take(&mut self.names).iter().rev() {
            match place {
                TemporaryFile::Beside(temporary) => {
                    fs::rename(temporary, path).map_err(|error| Failure::unwritable("rename", path, error))?;
                }
                TemporaryFile::Memory(file, _) => send(file, path)?,
            }
        }
        Ok(())
    }
}

fn in_memory(path: &Path) -> Outcome<TemporaryFile> {
    let file = file_calls::memory_file(c"dlio-object")
        .map_err(|error| Failure::unwritable("allocate memory for", path, error))?;
    let name = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Ok(TemporaryFile::Memory(file, name))
}

/// Bytes of a file in memory that are sent per write.
const PIECE: usize = 1 << 20;

fn send(file: &File, path: &Path) -> Outcome<()> {
    let failed = |error| Failure::io("read the buffer of", path, error);
    let length = file.metadata().map_err(failed)?.len();
    let mut upload = Upload::new(path, length)?;
    let (mut piece, mut at) = (vec![0; PIECE.min(length as usize)], 0);
    while at < length {
        let count = file.read_at(&mut piece, at).map_err(failed)?;
        upload.take(&piece[..count])?;
        at += count as u64;
    }
    upload.finish().map(drop)
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        for (place, _) in &self.names {
            if let TemporaryFile::Beside(temporary) = place {
                // It may never have been created; there is nothing else to do here.
                let _ = fs::remove_file(temporary);
            }
        }
    }
}

/// Writes a whole small file.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let draft = AtomicFile::new(path)?;
    fs::write(draft.path(), bytes).map_err(|error| Failure::unwritable("write", path, error))?;
    draft.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::host::host_name;
    use crate::system::partial_name::PARTIAL;

    #[test]
    fn a_dropped_draft_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let mut draft = AtomicFile::new(&path).unwrap();
        fs::write(draft.path(), b"half").unwrap();
        let companion = draft.companion(&dir.path().join("x.idx")).unwrap();
        fs::write(companion, b"half").unwrap();
        drop(draft);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn sweep_removes_files_of_dead_writers_only() {
        let dir = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let (host, own) = (host_name(), std::process::id());
        let names = [format!("{host}-{}", gone.id()), format!("{host}-{own}"), format!("{host}x-{}", gone.id())];
        let names = names.map(|writer| format!("img_1_of_8.npz{PARTIAL}{writer}"));
        names.iter().for_each(|name| fs::write(dir.path().join(name), b"half").unwrap());
        fs::write(dir.path().join("img_1_of_8.npz"), b"whole").unwrap();
        sweep(dir.path());
        let there = |name: &str| dir.path().join(name).exists();
        assert_eq!([&names[0], &names[1], &names[2]].map(|name| there(name)), [false, true, true]);
        assert!(there("img_1_of_8.npz"));
    }

    #[test]
    fn a_committed_draft_has_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        write_whole(&path, b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
