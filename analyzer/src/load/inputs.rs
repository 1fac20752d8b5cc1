//! Which files are meant, and what each of them is.
//!
//! Folders are searched to the bottom, patterns are expanded, and a file's kind is told from its first bytes. A file given
//! by name must be a trace; one found in a folder that is none is passed over.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use dlio_schemas::native::{Damage, file, ring};

use super::copies::Copies;
use super::twins::PassedOver;
use super::{LoadError, Note};

/// Bytes looked at to tell what a file is.
const HEAD: usize = 4096;

/// Files of one process image: they share a stem.
#[derive(Clone, Default, Debug)]
pub struct NativeFiles {
    pub dlt: Option<PathBuf>,
    pub ring: Option<PathBuf>,
    /// The same process as a trace for viewers: a kill can leave both.
    pub export: Option<PathBuf>,
}

impl NativeFiles {
    /// Each of its own files, with the trace for viewers that can stand in for it.
    pub fn exported(&self) -> impl Iterator<Item = (&PathBuf, &PathBuf)> {
        let export = self.export.as_ref();
        [&self.dlt, &self.ring].into_iter().flatten().filter_map(move |own| Some((own, export?)))
    }
}

/// What was found.
#[derive(Default, Debug)]
pub struct Found {
    pub natives: Vec<NativeFiles>,
    pub perfettos: Vec<PathBuf>,
    pub parquets: Vec<PathBuf>,
    pub texts: Vec<(PathBuf, Text)>,
    pub files: Vec<PathBuf>,
    pub notes: Vec<Note>,
    /// Copies of files among the others.
    pub copies: Vec<PassedOver>,
    /// Files in folders that are no traces but ought to be: named where there is nothing else.
    pub hollow: Vec<(PathBuf, Hollow)>,
}

/// Why a file is no trace that seems to be meant for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hollow {
    /// It has a trace's name and holds nothing.
    Empty,
    /// What strace prints where nobody asked for times.
    Timeless,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Dlt,
    Ring,
    Perfetto,
    Parquet,
    Text(Text),
    Hollow(Hollow),
    Unknown,
}

/// Formats of lines and objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    /// Chrome's trace events, DFTracer's lines among them.
    Json,
    /// What `darshan-dxt-parser` prints.
    Dxt,
    /// What `strace -f -ttt -T` prints.
    Strace,
}

pub fn find(given: &[String]) -> Result<Found, LoadError> {
    tell(expand(given)?)
}

/// Tells the kinds of files apart.
pub fn tell(files: Vec<(PathBuf, bool)>) -> Result<Found, LoadError> {
    let mut found = Found::default();
    let mut natives: BTreeMap<PathBuf, NativeFiles> = BTreeMap::new();
    let mut exports: Vec<(PathBuf, Content)> = Vec::new();
    let (mut empty, mut copies) = (Vec::new(), Copies::default());
    for (path, named) in files {
        let (content, original) = match look(&path, &mut copies) {
            Ok(None) => continue,
            Ok(Some(seen)) => seen,
            Err(error) if named => return Err(LoadError::Unreadable(path, error)),
            Err(_) => {
                let what = Damage::Broken("the file cannot be read; check its permissions");
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
            Content::Parquet => found.parquets.push(path.clone()),
            Content::Perfetto | Content::Text(_) => exports.push((path.clone(), content)),
            Content::Hollow(why) => {
                if why == Hollow::Empty && is_ours(&path) {
                    empty.push(path.clone());
                } else if named {
                    let what = Damage::Broken("nothing in it can be used");
                    found.notes.push(Note { path: path.clone(), what, events_max: Some(0) });
                }
                found.hollow.push((path, why));
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
    for (path, content) in exports {
        match (natives.get_mut(&stem(&path)), content) {
            (Some(files), _) => files.export = Some(path),
            (None, Content::Text(text)) => found.texts.push((path, text)),
            (None, _) => found.perfettos.push(path),
        }
    }
    // Beside another part of its trace an empty file has lost nothing.
    let stems: HashSet<_> = found.files.iter().map(|path| stem(path)).collect();
    let alone = empty.into_iter().filter(|path| !stems.contains(&stem(path)));
    found.notes.extend(alone.map(|path| Note { path, what: Damage::Empty, events_max: None }));
    found.natives = natives.into_values().collect();
    Ok(found)
}

/// Every file, and whether it was given by name.
pub fn expand(given: &[String]) -> Result<Vec<(PathBuf, bool)>, LoadError> {
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
    if path.is_dir() {
        return walk_folder(path, files);
    }
    if path.is_file() {
        files.push((path.into(), named));
    }
    Ok(())
}

/// Kinds of entries come with their names: a folder of 100,000 files is searched without asking about each.
fn walk_folder(path: &Path, files: &mut Vec<(PathBuf, bool)>) -> Result<(), LoadError> {
    let unreadable = |error| LoadError::Unreadable(path.into(), error);
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let kind = entry.file_type().map_err(unreadable)?;
        let inner = entry.path();
        // A link to a folder above would never end: only links to files are followed.
        if kind.is_dir() {
            walk_folder(&inner, files)?;
        } else if (kind.is_file() || kind.is_symlink() && inner.is_file()) && !crate::cache::is_cache(&inner) {
            files.push((inner, false));
        }
    }
    Ok(())
}

/// What a file is, and of which other one it is a copy; `None` where it was met under another name.
fn look(path: &Path, copies: &mut Copies) -> std::io::Result<Option<(Content, Option<PathBuf>)>> {
    let mut head = Vec::with_capacity(HEAD);
    let file = std::fs::File::open(path)?;
    let facts = file.metadata()?;
    file.take(HEAD as u64).read_to_end(&mut head)?;
    if copies.is_link(&facts) {
        return Ok(None);
    }
    let content = content(path, &head);
    let is_ours = matches!(content, Content::Dlt | Content::Ring | Content::Perfetto);
    Ok(Some((content, if is_ours { copies.original(path, facts.len(), &head) } else { None })))
}

fn content(path: &Path, head: &[u8]) -> Content {
    if head.is_empty() && has_a_traces_name(path) {
        return Content::Hollow(Hollow::Empty);
    }
    match unpacked(head) {
        Some(text) => told_by(&text),
        None => told_by(head),
    }
}

/// Whether a file has the name of what our tracer writes.
fn is_ours(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ["dlt", "ring", "pftrace"].iter().any(|ours| ending == *ours))
}

fn has_a_traces_name(path: &Path) -> bool {
    const ENDINGS: [&str; 6] = [".dlt", ".ring", ".pftrace", ".json.gz", ".pfw", ".pfw.gz"];
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn told_by(head: &[u8]) -> Content {
    if head.starts_with(&file::MAGIC) {
        Content::Dlt
    } else if head.starts_with(&ring::MAGIC.to_le_bytes()) {
        Content::Ring
    } else if head.starts_with(b"PAR1") {
        Content::Parquet
    } else if is_perfetto(head) {
        Content::Perfetto
    } else {
        text_told_by(head)
    }
}

/// The beginning of a packed file, as far as its own beginning goes.
fn unpacked(head: &[u8]) -> Option<Vec<u8>> {
    let mut out = vec![0; HEAD];
    let mut used = 0;
    let mut source: Box<dyn Read> = match head {
        [0x1f, 0x8b, ..] => Box::new(super::gzip::Inflater::new(head)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::new(head).ok()?),
        _ => return None,
    };
    while let Ok(more) = source.read(&mut out[used..]) {
        if more == 0 {
            break;
        }
        used += more;
    }
    out.truncate(used);
    Some(out)
}

/// A trace is a list of packets: a tag, a length, and fields whose lengths fit.
fn is_perfetto(head: &[u8]) -> bool {
    let Some(rest) = head.strip_prefix(&[0x0a]) else { return false };
    let digits = rest.iter().take_while(|byte| **byte >= 0x80).count();
    let Some(body) = rest.get(digits + 1..).filter(|_| digits < 5) else { return false };
    let length = rest[..=digits].iter().rev().fold(0usize, |sum, byte| sum << 7 | (byte & 0x7f) as usize);
    let fields = &body[..length.min(body.len())];
    // A packet that goes beyond what was read is judged by its first field alone.
    let walk = dlio_schemas::perfetto::proto::Walk::new(fields);
    match length <= body.len() {
        true => length > 0 && walk.into_iter().all(|field| field.is_ok()),
        false => fields.first().is_some_and(|tag| matches!(tag & 7, 0..=2 | 5) && tag >> 3 > 0),
    }
}

fn text_told_by(head: &[u8]) -> Content {
    let text = String::from_utf8_lossy(head);
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let is_json = start.starts_with('{')
        || start.strip_prefix('[').is_some_and(|rest| {
            let rest = rest.trim_start();
            rest.is_empty() || rest.starts_with(['{', ']'])
        });
    if is_json {
        Content::Text(Text::Json)
    } else if start.starts_with("# darshan") || start.contains("DXT_POSIX") || start.starts_with("# DXT") {
        Content::Text(Text::Dxt)
    } else if start.lines().take(20).any(super::strace::is_line) {
        Content::Text(Text::Strace)
    } else if start.lines().take(3).any(super::strace::is_timeless) {
        Content::Hollow(Hollow::Timeless)
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
