//! The selected files, and the format of each.
//!
//! Directories are searched recursively, patterns are expanded, and a file's format is recognized by its first bytes. A
//! file given by name must be a trace; other files found in a directory are skipped.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dlio_schemas::machine::samples;
use dlio_schemas::native::{Damage, block, file, ring, untraced};
use dlio_schemas::slow_step::KEPT;
use glob::{MatchOptions, Pattern, PatternError};

use super::bytes::bucket;
use super::bytes::copies::Copies;
use super::bytes::file_bytes;
use super::bytes::trace_file::{self, StoredFile};
use super::formats::{self, FORMATS};
use super::native::image_files::{Export, NativeFiles, changed_just_now, stem};
use super::sources::duplicates::PassedOver;
use super::sources::errors::{LoadError, Note};
use super::sources::source::{Format, Recognition};

/// Bytes inspected to recognize a file.
const HEAD: usize = 4096;

/// The extension of this program's cache files: see [`crate::cache`].
pub const CACHE_NAME: &str = ".dlio-cache";

/// Marks a directory of Parquet that is being written: see [`crate::tables::export`].
pub const UNFINISHED: &str = ".dlio-unfinished";

/// The files that were found.
#[derive(Default, Debug)]
pub struct InputFiles {
    pub natives: Vec<NativeFiles>,
    /// Files of other formats.
    pub others: Vec<(PathBuf, &'static Format)>,
    pub files: Vec<PathBuf>,
    pub notes: Vec<Note>,
    /// Copies of files among the others.
    pub copies: Vec<PassedOver>,
    /// Files with counters of hosts, next to traces.
    pub machines: Vec<PathBuf>,
    /// Lists of programs that left no trace, next to traces.
    pub untraced: Vec<PathBuf>,
    /// Files that should be traces but are not, and why: reported if nothing else was found.
    pub useless: Vec<(PathBuf, &'static str)>,
}

impl InputFiles {
    /// Returns the files of a format.
    pub fn of(&self, format: &Format) -> Vec<PathBuf> {
        self.others.iter().filter(|(_, of)| *of == format).map(|(path, _)| path.clone()).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Content {
    Dlt,
    Ring,
    /// Blocks without the head of their file, which was truncated while it was written.
    Headless,
    Other(&'static Format),
    /// Counters of a host, stored next to traces.
    Machine,
    /// Programs that left no trace.
    Untraced,
    Empty,
    Useless(&'static str),
    Unknown,
}

/// The note on an empty file with a trace's name.
const EMPTY: &str =
    "the file is empty: the tracer was killed before it wrote anything, or had no space; record it again";

/// The note on an empty file with any other name.
const NOTHING: &str = "it contains nothing: it is empty, or nothing of it can be decompressed; record it again";

const HEADLESS: &str = "its beginning is missing: it was truncated while it was written, so its events cannot be read";

const NO_OBJECTS: &str = "the bucket contains no such objects; check the spelling, or list them: aws s3 ls \
    s3://BUCKET/";

pub fn find(given: &[String]) -> Result<InputFiles, LoadError> {
    classify(expand(given)?)
}

/// Classifies files.
///
/// Processes may exit during this time: if a file that was found in a directory has disappeared, it was converted to
/// its next format, and the converted file is used.
pub fn classify(mut files: Vec<(PathBuf, bool)>) -> Result<InputFiles, LoadError> {
    let mut found = InputFiles::default();
    let (mut gone, mut beginning) = (VanishedFiles::default(), EmptyFiles::default());
    let mut natives: BTreeMap<PathBuf, NativeFiles> = BTreeMap::new();
    let mut others: Vec<(PathBuf, &'static Format)> = Vec::new();
    let (mut empty, mut copies) = (Vec::new(), Copies::default());
    files.reverse();
    while let Some((path, named)) = files.pop() {
        let (content, original) = match identify(&path, &mut copies) {
            Ok(None) => continue,
            Ok(Some(seen)) => seen,
            Err(error) if error.kind() == ErrorKind::NotFound && !named && gone.has_next(&path, &mut files) => continue,
            Err(error) if named => return Err(LoadError::Unreadable(path, error)),
            Err(_) => {
                let what = Damage::Broken("cannot read the file; check its permissions");
                found.notes.push(Note { path, what, events_max: None });
                continue;
            }
        };
        if let Some(original) = original {
            let (path, instead) = (path.display().to_string(), original.display().to_string());
            found.copies.push(PassedOver { path, processes: 0, instead });
            continue;
        }
        match content {
            Content::Dlt => natives.entry(stem(&path)).or_default().dlt = Some(path.clone()),
            Content::Ring => natives.entry(stem(&path)).or_default().ring = Some(path.clone()),
            Content::Headless => {
                found.notes.push(Note { path, what: Damage::Broken(HEADLESS), events_max: None });
                continue;
            }
            Content::Other(format) => others.push((path.clone(), formats::by_name(format, &path))),
            Content::Empty if lost_in_name(&path).is_some() => {
                natives.entry(stem(&path)).or_default().lost = lost_in_name(&path).map(|lost| (path.clone(), lost));
            }
            Content::Empty if is_ours(&path) && beginning.comes_to_something(&path) => {
                files.push((path, named));
                continue;
            }
            Content::Empty if is_ours(&path) => {
                empty.push(path.clone());
                found.useless.push((path, EMPTY));
                continue;
            }
            Content::Empty | Content::Useless(_) => {
                let why = if let Content::Useless(why) = content { why } else { EMPTY };
                if named {
                    found.notes.push(Note { path: path.clone(), what: Damage::Useless(why), events_max: Some(0) });
                }
                found.useless.push((path, why));
                continue;
            }
            Content::Machine | Content::Untraced => {
                let beside = if content == Content::Machine { &mut found.machines } else { &mut found.untraced };
                beside.push(path);
                continue;
            }
            Content::Unknown if named => {
                found.notes.push(Note { path, what: Damage::NotATrace, events_max: Some(0) });
                continue;
            }
            Content::Unknown => continue,
        }
        found.files.push(path);
    }
    place_exports(others, &mut natives, &mut found);
    note_empty(empty, &mut found);
    found.natives = natives.into_values().collect();
    Ok(found)
}

/// Assigns an export to the native files of its image; other exports are separate.
fn place_exports(
    exports: Vec<(PathBuf, &'static Format)>,
    natives: &mut BTreeMap<PathBuf, NativeFiles>,
    found: &mut InputFiles,
) {
    for (path, format) in exports {
        match natives.get_mut(&stem(&path)) {
            Some(files) => files.export = Some((path, format)),
            None => found.others.push((path, format)),
        }
    }
}

/// Notes empty files. An empty file next to another part of its trace means no loss.
fn note_empty(empty: Vec<PathBuf>, found: &mut InputFiles) {
    let stems: HashSet<_> = found.files.iter().map(|path| stem(path)).collect();
    let alone = empty.into_iter().filter(|path| !stems.contains(&stem(path)));
    found.notes.extend(alone.map(|path| Note { path, what: Damage::Empty, events_max: None }));
}

/// Files that were created recently and are still empty.
#[derive(Default)]
struct EmptyFiles {
    waited: Duration,
}

/// Longer than any process takes between creating its ring and allocating it, unless the host is very busy; waited
/// once, however many files are empty.
const BEGINNING_MAX: Duration = Duration::from_millis(100);

impl EmptyFiles {
    /// Waits briefly for a new file; returns `true` if it is no longer empty, or gone.
    fn comes_to_something(&mut self, path: &Path) -> bool {
        const STEP: Duration = Duration::from_millis(2);
        loop {
            if !trace_file::facts(path).is_ok_and(|facts| facts.size == 0) {
                return true;
            }
            if bucket::is_object(path) || self.waited >= BEGINNING_MAX || !changed_just_now(path) {
                return false;
            }
            std::thread::sleep(STEP);
            self.waited += STEP;
        }
    }
}

/// Files that existed a short time ago.
#[derive(Default)]
struct VanishedFiles {
    /// How often each was looked up.
    looked: HashMap<PathBuf, u32>,
}

/// A trace has three formats over time, and the next process may get the same name: no further lookup is made.
const LOOKED_MAX: u32 = 4;

impl VanishedFiles {
    /// Returns `true` if other parts of a file's trace exist, which are then inspected.
    fn has_next(&mut self, path: &Path, files: &mut Vec<(PathBuf, bool)>) -> bool {
        let looked = self.looked.entry(stem(path)).or_default();
        *looked += 1;
        let next = if *looked > LOOKED_MAX { Vec::new() } else { parts_of(&stem(path)) };
        // A file seen before is recognized by its inode.
        files.extend(next.iter().map(|path| (path.clone(), false)));
        !next.is_empty()
    }
}

/// Returns the existing parts of a trace.
fn parts_of(stem: &Path) -> Vec<PathBuf> {
    let (Some(name), Some(folder)) = (stem.file_name(), stem.parent()) else { return Vec::new() };
    let with = |ending| folder.join(format!("{}{ending}", name.to_string_lossy()));
    let usual: Vec<_> = PARTS.iter().map(with).filter(|path| path.exists()).collect();
    if !usual.is_empty() {
        return usual;
    }
    // A name that contains the number of lost events is not known in advance.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| !is_unfinished(path) && self::stem(path) == stem).collect()
}

/// Returns the existing parts of a trace, classified: see [`super::native::image_files::FindSuccessors`].
pub fn find_successors(path: &Path) -> (Option<NativeFiles>, Option<Export>) {
    let parts = parts_of(&stem(path)).into_iter().map(|path| (path, false));
    let found = classify(parts.collect()).unwrap_or_default();
    (found.natives.into_iter().next(), found.others.into_iter().next())
}

/// In the order in which they are created, so that a file's successor is inspected after it.
const PARTS: [&str; 4] = [".ring", ".dlt", ".pftrace", ".json.gz"];

/// Returns every file, and whether it was given by name.
pub fn expand(given: &[String]) -> Result<Vec<(PathBuf, bool)>, LoadError> {
    let mut files = Vec::new();
    for input in given {
        let path = Path::new(input);
        if bucket::is_object(path) {
            let found = bucket::list(input).map_err(|error| LoadError::Bucket(input.clone(), error.to_string()))?;
            if found.is_empty() {
                return Err(LoadError::Bucket(input.clone(), NO_OBJECTS.into()));
            }
            files.extend(found.into_iter().filter(|(path, _)| !is_cache(path) && !is_unfinished(path)));
        } else if path.exists() {
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
    let bad = |error: PatternError| LoadError::BadPattern(pattern.into(), error.to_string());
    let paths = glob::glob(pattern).map_err(bad)?;
    let before = files.len();
    match pattern.split_once("**") {
        Some((above, _)) => walk_below(above, &Pattern::new(pattern).map_err(bad)?, files)?,
        None => paths.flatten().try_for_each(|path| walk(&path, false, files))?,
    }
    if files.len() == before { Err(LoadError::NoMatch(pattern.into())) } else { Ok(()) }
}

/// Adds the files that match a pattern of `above` followed by `**`, starting at its first wildcard.
fn walk_below(above: &str, pattern: &Pattern, files: &mut Vec<(PathBuf, bool)>) -> Result<(), LoadError> {
    let fixed = &above[..above.find(['*', '?', '[']).unwrap_or(above.len())];
    let start = fixed.rfind('/').map(|slash| &fixed[..slash + 1]);
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    let is_match = |path: &Path| {
        let path = if start.is_none() { path.strip_prefix("./").unwrap_or(path) } else { path };
        pattern.matches_path_with(path, options)
    };
    walk_matches(Path::new(start.unwrap_or("./")), &is_match, files)
}

/// Adds the files below directories whose path, or a parent's, matches. Unlike `glob`, follows no links to directories:
/// a few links to a parent would make infinite paths.
fn walk_matches(
    folder: &Path,
    is_match: &dyn Fn(&Path) -> bool,
    files: &mut Vec<(PathBuf, bool)>,
) -> Result<(), LoadError> {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match is_match(&path) {
            true if is_folder => walk_folder(&path, files)?,
            true if path.is_file() && !is_cache(&path) && !is_unfinished(&path) => files.push((path, false)),
            false if is_folder => walk_matches(&path, is_match, files)?,
            _ => {}
        }
    }
    Ok(())
}

fn walk(path: &Path, named: bool, files: &mut Vec<(PathBuf, bool)>) -> Result<(), LoadError> {
    if path.is_dir() {
        return walk_folder(path, files);
    }
    if path.is_file() {
        files.push((path.into(), named));
    } else if named {
        return Err(LoadError::NoFile(path.into()));
    }
    Ok(())
}

/// Searches a directory. Entry types come with the names, so 100,000 files are searched without a stat for each.
fn walk_folder(path: &Path, files: &mut Vec<(PathBuf, bool)>) -> Result<(), LoadError> {
    let unreadable = |error| LoadError::Unreadable(path.into(), error);
    if std::fs::symlink_metadata(path.join(UNFINISHED)).is_ok() {
        return Err(LoadError::Unfinished(path.into()));
    }
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let kind = entry.file_type().map_err(unreadable)?;
        let inner = entry.path();
        // A link to a parent directory would never end, so only links to files are followed.
        if kind.is_dir() && is_kept_copy(&inner) {
            continue;
        }
        if kind.is_dir() {
            walk_folder(&inner, files)?;
        } else if (kind.is_file() || kind.is_symlink() && inner.is_file())
            && !is_cache(&inner)
            && !is_unfinished(&inner)
        {
            files.push((inner, false));
        }
    }
    Ok(())
}

/// Returns `true` if a flight recorder copied a part of the trace into this directory. It is read if it is named.
fn is_kept_copy(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(KEPT))
}

/// Returns `true` if a file is such a cache, or an incomplete one.
fn is_cache(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        name.starts_with('.') && name.contains(CACHE_NAME)
    })
}

/// Returns `true` if a file is an incomplete export of a process that is exiting: until it is complete, its source
/// remains.
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".part") && (name.contains(".pftrace.") || name.contains(".json.gz."))
}

fn lost_in_name(path: &Path) -> Option<u64> {
    file::lost_in_name(&path.file_name()?.to_string_lossy())
}

/// Returns the content of a file, and the file it is a copy of; `None` if it was seen under another name.
fn identify(path: &Path, copies: &mut Copies) -> std::io::Result<Option<(Content, Option<PathBuf>)>> {
    let mut head = Vec::with_capacity(HEAD);
    let file = StoredFile::open(path)?;
    let facts = file.facts()?;
    file.reader(0).take(HEAD as u64).read_to_end(&mut head)?;
    if copies.is_link(&facts) {
        return Ok(None);
    }
    let content = content(path, &head)?;
    let names_processes = match content {
        Content::Dlt | Content::Ring => true,
        Content::Other(format) => format.names_processes,
        _ => false,
    };
    Ok(Some((content, if names_processes { copies.original(path, facts.size, &head) } else { None })))
}

fn content(path: &Path, head: &[u8]) -> std::io::Result<Content> {
    if head.is_empty() && has_a_traces_name(path) {
        return Ok(Content::Empty);
    }
    if path.file_name().is_some_and(|name| name == untraced::LIST) {
        return Ok(Content::Untraced);
    }
    let text = unpacked(path, head)?;
    Ok(match text.as_deref().unwrap_or(head) {
        [] => Content::Useless(NOTHING),
        text => content_of(text),
    })
}

/// Returns `true` if a file's name is one that dlio's tracer writes.
fn is_ours(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ["dlt", "ring", "pftrace"].iter().any(|ours| ending == *ours))
}

fn has_a_traces_name(path: &Path) -> bool {
    const ENDINGS: [&str; 6] = [".dlt", ".ring", ".pftrace", ".json.gz", ".pfw", ".pfw.gz"];
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn content_of(head: &[u8]) -> Content {
    if head.starts_with(&file::MAGIC) {
        Content::Dlt
    } else if head.starts_with(&ring::MAGIC.to_le_bytes()) {
        Content::Ring
    } else if head.starts_with(&block::MAGIC.to_le_bytes()) {
        Content::Headless
    } else if head.starts_with(samples::MAGIC) {
        Content::Machine
    } else {
        let all = FORMATS.iter().map(|&format| match (format.recognises)(head) {
            Recognition::Yes => Content::Other(format),
            Recognition::Useless(why) => Content::Useless(why),
            Recognition::No => Content::Unknown,
        });
        let known = all.into_iter().find(|content| *content != Content::Unknown);
        known.or_else(|| packed_otherwise(head).map(Content::Useless)).unwrap_or(Content::Unknown)
    }
}

/// Returns a remedy for compressed formats that are not supported, by their first bytes.
fn packed_otherwise(head: &[u8]) -> Option<&'static str> {
    const TAR_AT: usize = 257;
    const UTF_16_LE: &str = "UTF-16 text, which is not supported; convert it first: iconv -f UTF-16LE -t UTF-8 FILE";
    const UTF_16_BE: &str = "UTF-16 text, which is not supported; convert it first: iconv -f UTF-16BE -t UTF-8 FILE";
    const UTF_32: &str = "UTF-32 text, which is not supported; convert it first: iconv -f UTF-32 -t UTF-8 FILE";
    const KINDS: [(usize, &[u8], &str); 23] = [
        (
            0,
            b"\x1f\x8b",
            "compressed twice with gzip, which is not supported; decompress it once: gzip -dc FILE > \
            FILE.json.gz",
        ),
        (0, b"\xff\xfe\0\0", UTF_32),
        (0, b"\0\0\xfe\xff", UTF_32),
        (0, b"{\0\0\0", UTF_32),
        (0, b"\0\0\0{", UTF_32),
        (0, b"[\0\0\0", UTF_32),
        (0, b"\0\0\0[", UTF_32),
        (0, b"{\0", UTF_16_LE),
        (0, b"[\0", UTF_16_LE),
        (0, b"\0{", UTF_16_BE),
        (0, b"\0[", UTF_16_BE),
        (0, b"PERFILE2", "samples of perf, which contain no I/O calls; record the program with dlio trace or strace"),
        (0, b"SQLite format 3\0", "an SQLite database, which is not supported; record the program with dlio trace"),
        (
            0,
            b"\0\0\0\0\0\0\0\0",
            "it starts with zero bytes: its beginning was never written, as after a crash of the host",
        ),
        (0, b"\xff\xfe", "UTF-16 text, which is not supported; convert it first: iconv -f UTF-16 -t UTF-8 FILE"),
        (0, b"\xfe\xff", "UTF-16 text, which is not supported; convert it first: iconv -f UTF-16 -t UTF-8 FILE"),
        (0, b"\xfd7zXZ\0", "compressed with xz, which is not supported; decompress it first: xz -dk FILE"),
        (0, b"BZh", "compressed with bzip2, which is not supported; decompress it first: bzip2 -dk FILE"),
        (0, b"\x04\x22\x4d\x18", "compressed with lz4, which is not supported; decompress it first: lz4 -d FILE"),
        (0, b"\x5d\0\0", "compressed with lzma, which is not supported; decompress it first: xz -dk FILE"),
        (0, b"PK\x03\x04", "a zip archive, which is not supported; unpack it first: unzip FILE"),
        (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive, which is not supported; unpack it first: 7z x FILE"),
        (TAR_AT, b"ustar", "a tar archive that dlio-analyze did not export; unpack it and pass its files: tar xf FILE"),
    ];
    let is_at = |at: usize, magic: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    KINDS.iter().find(|(at, magic, _)| is_at(*at, magic)).map(|(.., why)| *why)
}

/// Returns the start of a compressed file. Usually its own first bytes suffice; if they contain less than a block of
/// the compressor, more of the file is read.
fn unpacked(path: &Path, head: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
    if !file_bytes::is_packed(head) {
        return Ok(None);
    }
    let text = beginning(file_bytes::unpacking(head)?);
    Ok(Some(if text.len() < HEAD && head.len() == HEAD { beginning(file_bytes::unpacked(path)?) } else { text }))
}

/// Returns enough of a text to recognize it; of a truncated or damaged one, as much as is readable.
fn beginning(mut source: impl Read) -> Vec<u8> {
    let mut out = vec![0; HEAD];
    let mut used = 0;
    while let Ok(more) = source.read(&mut out[used..]) {
        if more == 0 {
            break;
        }
        used += more;
    }
    out.truncate(used);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_process_share_a_stem() {
        for name in [
            "a-h-1-2.dlt",
            "a-h-1-2.ring",
            "a-h-1-2.pftrace",
            "a-h-1-2.json.gz",
            "a-h-1-2.pftrace.tmp",
            "a-h-1-2.lost-34.ring",
        ] {
            assert_eq!(stem(&Path::new("/t").join(name)), Path::new("/t/a-h-1-2"));
        }
    }

    #[test]
    fn formats_are_recognised_by_content() {
        assert_eq!(content_of(&file::file_header()), Content::Dlt);
        assert_eq!(content_of(b"DLIORING and more"), Content::Ring);
        assert_eq!(content_of(b"DLB1 and more"), Content::Headless);
        assert_eq!(content_of(b"#!/bin/sh"), Content::Unknown);
        for (head, program) in
            [(&b"\xfd7zXZ\0\0\x04"[..], "xz -dk"), (b"BZh91AY&SY", "bzip2 -dk"), (b"PK\x03\x04..", "unzip")]
        {
            assert!(matches!(content_of(head), Content::Useless(why) if why.contains(program)), "{program}");
        }
        assert_eq!(content_of(b""), Content::Unknown);
    }

    #[test]
    fn recursive_patterns_skip_links_to_directories() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("runs/one/trace");
        std::fs::create_dir_all(&inner).unwrap();
        for file in ["runs/one/trace/a.dlt", "runs/b.dlt"] {
            std::fs::write(folder.path().join(file), "trace").unwrap();
        }
        for link in ["x", "y", "z"] {
            std::os::unix::fs::symlink(folder.path(), inner.join(link)).unwrap();
        }
        let found = |pattern: &str| {
            let mut files = Vec::new();
            matches(&format!("{}/{pattern}", folder.path().display()), &mut files).unwrap();
            files.sort();
            let names = files.iter().map(|(path, _)| path.strip_prefix(folder.path()).unwrap().display().to_string());
            names.collect::<Vec<_>>()
        };
        assert_eq!(found("**/*.dlt"), ["runs/b.dlt", "runs/one/trace/a.dlt"]);
        assert_eq!(found("**"), ["runs/b.dlt", "runs/one/trace/a.dlt"]);
        assert_eq!(found("ru*/**/trace"), ["runs/one/trace/a.dlt"]);
        assert_eq!(found("runs/**/one/*"), ["runs/one/trace/a.dlt"]);
        assert_eq!(found("runs/*/*/*.dlt"), ["runs/one/trace/a.dlt"]);
    }
}
