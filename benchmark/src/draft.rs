//! A file in the making: written under another name, renamed when complete. A crash, a full disk or Ctrl-C leaves
//! either the whole file or none of it. What a kill leaves is named after its writer, and the next one removes it.

use crate::failure::{Failure, Outcome};
use crate::system::{self, host_name};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The beginning of the endings of unfinished files: host and process follow, which keep two writers apart.
pub const UNFINISHED: &str = ".partial-";

fn ending() -> String {
    format!("{UNFINISHED}{}-{}", host_name(), std::process::id())
}

/// True if the writer of a file of this name is gone: a process of this host that lives no more.
fn is_abandoned(name: &str) -> bool {
    let writer = name.rsplit_once(UNFINISHED).and_then(|(_, writer)| writer.rsplit_once('-'));
    let Some((host, process)) = writer else { return false };
    let process: Option<u32> = process.parse().ok();
    host == host_name() && process.is_some_and(|process| !system::lives(process))
}

/// Removes what killed writers left in a folder. One that cannot be listed or changed is left as it is.
pub fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_abandoned(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

pub struct Draft {
    /// The path it is written to, and the one it will have.
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
        name.push(ending());
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

/// The same for a file that is nobody else's business.
pub fn write_whole_for_user(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let draft = Draft::new(path);
    let created = File::options().write(true).create_new(true).mode(0o600).open(draft.path());
    let written = created.and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| Failure::unwritable("writing", path, error))?;
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
    fn what_a_killed_writer_left_is_removed_and_what_others_write_is_not() {
        let dir = crate::scratch::Folder::new("swept");
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let (host, own) = (host_name(), std::process::id());
        let names = [format!("{host}-{}", gone.id()), format!("{host}-{own}"), format!("{host}x-{}", gone.id())];
        let names = names.map(|writer| format!("img_1_of_8.npz{UNFINISHED}{writer}"));
        names.iter().for_each(|name| fs::write(dir.path().join(name), b"half").unwrap());
        fs::write(dir.path().join("img_1_of_8.npz"), b"whole").unwrap();
        sweep(dir.path());
        let there = |name: &str| dir.path().join(name).exists();
        assert_eq!([&names[0], &names[1], &names[2]].map(|name| there(name)), [false, true, true]);
        assert!(there("img_1_of_8.npz"));
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
