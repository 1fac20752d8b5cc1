//! A file in the making: written under another name, renamed when complete. A crash, a full disk or Ctrl-C leaves
//! either the whole file or none of it.

use crate::failure::{Failure, Outcome};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The ending of unfinished files; the number of the process keeps two writers apart.
pub const UNFINISHED: &str = ".partial";

pub struct Draft {
    /// Where it is written, and where it will be.
    names: Vec<(PathBuf, PathBuf)>,
}

impl Draft {
    pub fn new(path: &Path) -> Draft {
        let mut draft = Draft { names: Vec::new() };
        draft.companion(path);
        draft
    }

    /// The temporary name of the main file.
    pub fn path(&self) -> &Path {
        &self.names[0].0
    }

    /// The temporary name of another file that appears together with the main one.
    pub fn companion(&mut self, path: &Path) -> PathBuf {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!("{UNFINISHED}{}", std::process::id()));
        let temporary = path.with_file_name(name);
        self.names.push((temporary.clone(), path.to_path_buf()));
        temporary
    }

    pub fn create(&self) -> Outcome<File> {
        File::create(self.path()).map_err(|error| Failure::unwritable("creating", &self.names[0].1, error))
    }

    /// Companions first: whoever sees the main file sees everything that belongs to it.
    pub fn commit(mut self) -> Outcome<()> {
        for (temporary, path) in std::mem::take(&mut self.names).iter().rev() {
            fs::rename(temporary, path).map_err(|error| Failure::unwritable("renaming", path, error))?;
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        for (temporary, _) in &self.names {
            // It may never have been created; nothing else can be done about it here.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes a small file whole.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let draft = Draft::new(path);
    fs::write(draft.path(), bytes).map_err(|error| Failure::unwritable("writing", path, error))?;
    draft.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_draft_leaves_nothing() {
        let dir = crate::scratch::Folder::new("draft");
        let path = dir.path().join("x");
        let mut draft = Draft::new(&path);
        fs::write(draft.path(), b"half").unwrap();
        let companion = draft.companion(&dir.path().join("x.idx"));
        fs::write(companion, b"half").unwrap();
        drop(draft);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_committed_draft_has_its_own_name() {
        let dir = crate::scratch::Folder::new("commit");
        let path = dir.path().join("x");
        write_whole(&path, b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
