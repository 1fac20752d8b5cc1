//! Finds the processes that write into a trace directory: their rings are there or in the spool.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use dlio_schemas::env;
use dlio_schemas::native::fields::key;
use dlio_schemas::native::live::Live;

use crate::load::bytes::file_bytes::FileStore;
use crate::load::native::image_files::stem;

/// A ring, and the file that receives its blocks.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    pub ring: PathBuf,
    pub file: PathBuf,
}

/// The content of a trace directory.
#[derive(Default, Debug)]
pub struct Folder {
    pub rings: Vec<Place>,
    /// The number of process images with a trace but no ring: they have ended.
    pub ended: usize,
}

/// Extensions of the files that a process leaves when it ends.
const ENDINGS: [&str; 3] = [".dlt", ".pftrace", ".json.gz"];

impl Folder {
    /// Scans a directory tree and the spool. Returns an error if the directory does not exist.
    pub fn read(dir: &Path) -> io::Result<Folder> {
        let (mut rings, mut traces) = (Vec::new(), HashSet::new());
        walk(dir, &mut |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(".ring") {
                rings.push(Place { file: path.with_extension("dlt"), ring: path });
            } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                traces.insert(stem(&path));
            }
        })?;
        rings.extend(spools().iter().flat_map(|spool| in_spool(spool, dir)));
        rings.sort_by(|a, b| a.ring.cmp(&b.ring));
        let running: HashSet<PathBuf> = rings.iter().map(|place| stem(&place.file)).collect();
        Ok(Folder { ended: traces.iter().filter(|trace| !running.contains(*trace)).count(), rings })
    }
}

/// Visits the files below a directory. Unreadable subdirectories are skipped; links are not followed.
fn walk(dir: &Path, take: &mut dyn FnMut(PathBuf)) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)?.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => drop(walk(&entry.path(), take)),
            Ok(kind) if kind.is_file() => take(entry.path()),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the directories that contain rings whose traces are elsewhere.
fn spools() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(env::SPOOL).filter(|named| !named.is_empty()) {
        return vec![named.into()];
    }
    let Ok(own) = std::fs::metadata("/proc/self").map(|facts| facts.uid()) else { return Vec::new() };
    let root = |root: &CStr| Path::new(OsStr::from_bytes(root.to_bytes())).join(format!("{}{own}", env::SPOOL_NAME));
    let chosen = env::SPOOL_ROOTS.iter().map(|place| root(place));
    // Other users may be able to create a directory of this name.
    chosen.filter(|path| path.symlink_metadata().is_ok_and(|facts| facts.is_dir() && facts.uid() == own)).collect()
}

/// Returns the rings in a spool whose traces go to a directory.
fn in_spool(spool: &Path, dir: &Path) -> Vec<Place> {
    let Ok(dir) = dir.canonicalize() else { return Vec::new() };
    let place = |ring: PathBuf| {
        let live = Live::read(&FileStore::open(&ring).ok()?).ok()?;
        let home = Path::new(live.fields.get(key::TRACE_DIR)?).canonicalize().ok()?;
        let file = home.join(ring.file_name()?).with_extension("dlt");
        (home.starts_with(&dir) && !ring.starts_with(&dir)).then_some(Place { ring, file })
    };
    let entries = std::fs::read_dir(spool).into_iter().flatten().flatten();
    let rings = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())).map(|entry| entry.path());
    rings.filter(|path| path.extension().is_some_and(|ending| ending == "ring")).filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_told_from_what_ended_processes_left() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("host")).unwrap();
        for name in ["a-h-1-2.ring", "a-h-1-2.dlt", "b-h-2-3.pftrace", "host/c-h-3-4.dlt", "host/d-h-4-5.ring", "notes"]
        {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let found = Folder::read(dir.path()).unwrap();
        let names: Vec<_> = found.rings.iter().map(|place| place.file.strip_prefix(dir.path()).unwrap()).collect();
        assert_eq!((found.ended, names), (2, vec![Path::new("a-h-1-2.dlt"), Path::new("host/d-h-4-5.dlt")]));
        assert!(Folder::read(&dir.path().join("not there")).is_err());
    }
}
