//! The cache: the result of a whole reading of a trace, stored next to it: the summary, and the content of each unit.
//!
//! ```text
//! DIR/.dlio-cache                    for a directory
//! DIR/.NAME.dlio-cache               for a file
//! $XDG_CACHE_HOME/dlio/NUMBER.dlio-cache   for several inputs, or if the directory is not the user's
//! PLACE-blocks                       next to any of these: the index of blocks, `load::index`
//!
//! magic  version  |  length  files  |  length  summary  |  length  units        each part zstd of MessagePack
//! ```
//!
//! It is valid only if every file is the very one that was read: path, size, times of change and inode must match.
//! Otherwise (a file more or less, damage, another version) it is ignored. Removing it costs a count, never a number.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, IntoInnerError, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::atomic_file::AtomicFile;
use crate::load::Trace;
use crate::load::bytes::bucket;
use crate::load::bytes::file_identity::FileIdentity;
use crate::load::bytes::trace_file;
use crate::load::inputs::CACHE_NAME;
use crate::load::native::index::Index;
use crate::owner;
use crate::sidecar::{self, PART_MAX, packed, relative, trusted, unpacked, unpacked_below};
use crate::summary::analysis::Analysis;
use crate::summary::report::Summary;
use crate::unit::{Categories, Seen};

const MAGIC: &[u8; 8] = b"DLIOKEPT";

/// Raise this when the parts change, or when a number of the summary changes its meaning.
const VERSION: u32 = 41;

/// The suffix of the index of blocks, see [`crate::load::native::index`].
const BLOCKS: &str = "-blocks";

/// Identifies a file and detects changes to it.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Identity {
    path: String,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
    device: u64,
}

/// The files of a trace at one point in time, and the location of their cache.
pub struct Cache {
    given: Vec<String>,
    root: PathBuf,
    /// Identifies inputs from several places.
    key: String,
    files: Vec<Identity>,
    places: Vec<PathBuf>,
    settled: bool,
}

/// The first part: the files that the other parts describe.
#[derive(Serialize, Deserialize)]
struct About {
    program: String,
    given: Vec<String>,
    key: String,
    files: Vec<Identity>,
}

#[derive(Serialize, Deserialize)]
struct Units {
    categories: Vec<Arc<str>>,
    sources: Vec<String>,
    /// In order of source and index.
    seen: Vec<(u32, u32, Seen)>,
}

/// The result of an earlier reading.
pub struct CachedResult {
    summary: Vec<u8>,
    units: Vec<u8>,
    same_words: bool,
}

impl Cache {
    /// Identifies the files in their current state; `None` if one of them cannot be accessed.
    pub fn of(given: &[String], files: &[(PathBuf, bool)]) -> Option<Cache> {
        let now = SystemTime::now();
        let root = match given {
            [only] if Path::new(only).exists() => PathBuf::from(only),
            _ => PathBuf::new(),
        };
        let mut settled = true;
        let identity = |(path, _): &(PathBuf, bool)| {
            let facts = trace_file::facts(path).ok()?;
            settled &= facts.is_settled(now);
            let FileIdentity { size, modified, changed, inode, device } = facts;
            Some(Identity { path: relative(path, &root), size, modified, changed, inode, device })
        };
        let files = files.iter().map(identity).collect::<Option<Vec<_>>>()?;
        let places = places(&root, given);
        let key = if root.as_os_str().is_empty() { spelled(given) } else { String::new() };
        Some(Cache { given: given.to_vec(), root, key, files, places, settled })
    }

    /// Returns the cached result for these very files.
    pub fn load(&self) -> Option<CachedResult> {
        self.places.iter().find_map(|place| self.load_from(place))
    }

    fn load_from(&self, place: &Path) -> Option<CachedResult> {
        let mut file = trusted(place)?;
        let mut head = [0; 12];
        file.read_exact(&mut head).ok()?;
        if head != header() {
            return None;
        }
        let mut part = || read_part(&mut file);
        let about: About = unpacked_below(&part()?, self.about_max())?;
        let same = about.program == program() && about.key == self.key && about.files == self.files;
        let (summary, units) = (part()?, part()?);
        same.then(|| CachedResult { summary, units, same_words: about.given == self.given })
    }

    /// Returns the cached index of blocks, or an empty one. It lacks files that were added or changed since.
    pub fn index(&self) -> Index {
        Index::of(self.index_places().find_map(|place| trusted(&place)), &self.root)
    }

    /// Stores an index, if a file was walked that it lacked.
    pub fn store_index(&self, index: &Index) -> bool {
        index.is_longer() && self.index_places().any(|place| write_index(&place, index).is_ok())
    }

    fn index_places(&self) -> impl Iterator<Item = PathBuf> {
        let beside = |place: &PathBuf| {
            let mut name = place.file_name().unwrap_or_default().to_os_string();
            name.push(BLOCKS);
            place.with_file_name(name)
        };
        self.places.iter().map(beside)
    }

    /// Stores the results of a reading of all events. Returns `false` if they cannot be stored, which is not an error.
    pub fn store(&self, trace: &Trace, analysis: &Analysis, summary: &Summary) -> bool {
        let unchanged = || {
            let files: Vec<_> = self.files.iter().map(|file| (self.root.join(&file.path), false)).collect();
            let files = if self.is_file() { vec![(self.root.clone(), true)] } else { files };
            Cache::of(&self.given, &files).is_some_and(|now| now.files == self.files)
        };
        if !trace.settled || !self.settled || !unchanged() {
            return false;
        }
        let parts = self.parts(trace, analysis, summary);
        parts.is_some_and(|parts| self.places.iter().any(|place| write(place, &parts).is_ok()))
    }

    /// Returns the maximum size of the first part for these files and inputs. A larger one belongs to other files.
    fn about_max(&self) -> u64 {
        const NUMBERS: u64 = 256;
        const TYPED: u64 = 1 << 20;
        self.files.iter().map(|file| file.path.len() as u64 + NUMBERS).sum::<u64>() + self.key.len() as u64 + TYPED
    }

    fn is_file(&self) -> bool {
        self.root.is_file()
    }

    fn parts(&self, trace: &Trace, analysis: &Analysis, summary: &Summary) -> Option<[Vec<u8>; 3]> {
        let identity = |file: &Identity| Identity { path: file.path.clone(), ..*file };
        let files = self.files.iter().map(identity).collect();
        let about = About { program: program(), given: self.given.clone(), key: self.key.clone(), files };
        let mut seen = analysis.counted.units.clone();
        seen.sort_unstable_by_key(|(source, index, _)| (*source, *index));
        let sources = trace.sources.iter().map(|source| relative(source.path(), &self.root)).collect();
        let units = Units { categories: trace.catalog.categories(), sources, seen };
        Some([packed(&about)?, packed(summary)?, packed(&units)?])
    }

    /// Passes the cached content of units to a trace.
    pub fn recall(&self, remembered: &CachedResult, trace: &mut Trace) {
        let Some(units) = unpacked::<Units>(&remembered.units) else { return };
        let numbers: HashMap<&str, u32> = units.sources.iter().map(String::as_str).zip(0u32..).collect();
        let root = &self.root;
        let known = |path: &Path, index: u32| {
            let source = *numbers.get(relative(path, root).as_str())?;
            let at = units.seen.binary_search_by_key(&(source, index), |(source, index, _)| (*source, *index)).ok()?;
            Some(&units.seen[at].2)
        };
        trace.recall(Categories::new(units.categories.clone()), known);
    }
}

impl CachedResult {
    /// Returns the summary of a whole trace without options. The names of damaged files in it are as first given.
    pub fn summary(&self) -> Option<Summary> {
        unpacked::<Summary>(&self.summary).filter(|summary| self.same_words || summary.damage.is_empty())
    }
}

fn header() -> [u8; 12] {
    let mut head = [0; 12];
    head[..8].copy_from_slice(MAGIC);
    head[8..].copy_from_slice(&VERSION.to_le_bytes());
    head
}

/// Identifies the program, because another version may count differently.
fn program() -> String {
    format!("{} {}", env!("CARGO_PKG_VERSION"), crate::summary::report::VERSION)
}

/// Returns the given paths as one text that does not depend on the current directory.
fn spelled(given: &[String]) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let whole = |path: &String| match bucket::is_object(Path::new(path)) {
        true => path.clone(),
        false => here.join(path).to_string_lossy().into_owned(),
    };
    given.iter().map(whole).collect::<Vec<_>>().join("\0")
}

/// Returns the possible locations: next to the trace, then in the user's cache directory.
fn places(root: &Path, given: &[String]) -> Vec<PathBuf> {
    let beside = match root.file_name() {
        _ if root.is_dir() => Some(root.join(CACHE_NAME)),
        Some(name) => Some(root.with_file_name(format!(".{}{CACHE_NAME}", name.to_string_lossy()))),
        None => None,
    };
    let whole = std::fs::canonicalize(root).map_or_else(|_| spelled(given), |path| path.to_string_lossy().into_owned());
    let own = own_folder().map(|folder| folder.join(format!(".{:016x}{CACHE_NAME}", number(&whole))));
    beside.into_iter().chain(own).collect()
}

/// Returns the user's cache directory.
fn own_folder() -> Option<PathBuf> {
    let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    home.map(|home| home.join("dlio"))
}

/// Returns an FNV-1a hash, which is identical in every version of this program.
fn number(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3))
}

fn read_part(file: &mut File) -> Option<Vec<u8>> {
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let length = Some(u64::from_le_bytes(length)).filter(|length| *length <= PART_MAX)?;
    let mut part = Vec::new();
    file.take(length).read_to_end(&mut part).ok()?;
    (part.len() as u64 == length).then_some(part)
}

fn write_index(place: &Path, index: &Index) -> std::io::Result<()> {
    keep(place, |draft| {
        let mut out = BufWriter::new(draft);
        index.write(&mut out)?;
        out.into_inner().map_err(IntoInnerError::into_error).map(drop)
    })
}

/// Creates a file atomically in a directory that belongs to the user. Other users' directories are skipped: a file of
/// this name may be a link there, and written data may be replaced.
fn keep(place: &Path, write: impl FnOnce(&mut AtomicFile) -> std::io::Result<()>) -> std::io::Result<()> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_own = own_folder().is_some_and(|own| own == folder);
    if is_own {
        sidecar::make_own(folder)?;
    }
    if !owner::keeps_files(folder) {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    let mut draft = AtomicFile::private(place)?;
    write(&mut draft)?;
    draft.commit()?;
    if is_own {
        sidecar::prune(folder);
    }
    Ok(())
}

/// Writes a file atomically, even with concurrent writers.
fn write(place: &Path, parts: &[Vec<u8>]) -> std::io::Result<()> {
    keep(place, |draft| {
        draft.write_all(&header())?;
        parts.iter().try_for_each(|part| {
            draft.write_all(&(part.len() as u64).to_le_bytes())?;
            draft.write_all(part)
        })
    })
}
