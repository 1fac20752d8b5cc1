//! Which files are meant, and what each of them is.
//!
//! Folders are searched to the bottom, patterns are expanded, and a file's kind is told from its first bytes. A file given
//! by name must be a trace; one found in a folder that is none is passed over.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use dlio_schemas::native::{Damage, file, ring};

use super::{LoadError, Note};

/// Bytes looked at to tell what a file is.
const HEAD: usize = 4096;

/// Files of one process image: they share a stem.
#[derive(Clone, Default, Debug)]
pub struct NativeFiles {
    pub dlt: Option<PathBuf>,
    pub ring: Option<PathBuf>,
}

/// What was found.
#[derive(Default, Debug)]
pub struct Found {
    pub natives: Vec<NativeFiles>,
    pub files: Vec<PathBuf>,
    pub notes: Vec<Note>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Dlt,
    Ring,
    Unknown,
}

pub fn find(given: &[String]) -> Result<Found, LoadError> {
    let mut found = Found::default();
    let mut natives: BTreeMap<PathBuf, NativeFiles> = BTreeMap::new();
    for (path, named) in expand(given)? {
        let content = content(&path).map_err(|error| LoadError::Unreadable(path.clone(), error))?;
        match content {
            Content::Dlt => natives.entry(stem(&path)).or_default().dlt = Some(path.clone()),
            Content::Ring => natives.entry(stem(&path)).or_default().ring = Some(path.clone()),
            Content::Unknown if named => {
                found.notes.push(Note { path, what: Damage::NotATrace, events_max: 0 });
                continue;
            }
            Content::Unknown => continue,
        }
        found.files.push(path);
    }
    found.natives = natives.into_values().collect();
    Ok(found)
}

/// Every file, and whether it was given by name.
fn expand(given: &[String]) -> Result<Vec<(PathBuf, bool)>, LoadError> {
    let mut files = Vec::new();
    for input in given {
        let path = Path::new(input);
        if path.exists() {
            walk(path, true, &mut files)?;
        } else if input.contains(['*', '?', '[']) {
            matches(input, &mut files)?;
        } else {
            return Err(LoadError::Missing(path.into()));
        }
    }
    files.sort();
    files.dedup_by(|a, b| a.0 == b.0);
    Ok(files)
}

fn matches(pattern: &str, files: &mut Vec<(PathBuf, bool)>) -> Result<(), LoadError> {
    let paths = glob::glob(pattern).map_err(|error| LoadError::BadPattern(pattern.into(), error.to_string()))?;
    let before = files.len();
    for path in paths.flatten() {
        walk(&path, false, files)?;
    }
    if files.len() == before { Err(LoadError::NoMatch(pattern.into())) } else { Ok(()) }
}

fn walk(path: &Path, named: bool, files: &mut Vec<(PathBuf, bool)>) -> Result<(), LoadError> {
    if !path.is_dir() {
        if path.is_file() {
            files.push((path.into(), named));
        }
        return Ok(());
    }
    let unreadable = |error| LoadError::Unreadable(path.into(), error);
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        // A link to a folder above would never end.
        let is_linked_folder = entry.file_type().is_ok_and(|kind| kind.is_symlink()) && entry.path().is_dir();
        if !is_linked_folder {
            walk(&entry.path(), false, files)?;
        }
    }
    Ok(())
}

fn content(path: &Path) -> std::io::Result<Content> {
    let mut head = Vec::with_capacity(HEAD);
    std::fs::File::open(path)?.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(told_by(&head))
}

fn told_by(head: &[u8]) -> Content {
    if head.starts_with(&file::MAGIC) {
        Content::Dlt
    } else if head.starts_with(&ring::MAGIC.to_le_bytes()) {
        Content::Ring
    } else {
        Content::Unknown
    }
}

/// Path without the ending that tells the parts of one trace apart, and whatever a writer appended while it wrote.
fn stem(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = [".dlt", ".ring", ".pftrace", ".json"].into_iter().filter_map(|ending| name.rfind(ending)).min();
    path.with_file_name(&name[..ending.unwrap_or(name.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_process_share_a_stem() {
        for name in ["a-h-1-2.dlt", "a-h-1-2.ring", "a-h-1-2.pftrace", "a-h-1-2.json.gz", "a-h-1-2.pftrace.tmp"] {
            assert_eq!(stem(&Path::new("/t").join(name)), Path::new("/t/a-h-1-2"));
        }
    }

    #[test]
    fn kinds_are_told_by_content() {
        assert_eq!(told_by(&file::file_header()), Content::Dlt);
        assert_eq!(told_by(b"DLIORING and more"), Content::Ring);
        assert_eq!(told_by(b"#!/bin/sh"), Content::Unknown);
        assert_eq!(told_by(b""), Content::Unknown);
    }
}
