//! The meanings of DFTracer's hashes of files, hosts and processes.
//!
//! ```text
//! {"name":"FH","cat":"dftracer","pid":7,"ph":4,"args":{"hhash":"68","name":"/data/f","value":"4aa1"}}       a file
//! {"name":"HH", ...}  a host     {"name":"SH", ...}  a text     {"name":"CM", ... "name":"time_metric","value":"NS"}  the unit
//! ```
//!
//! A name is explained once, by the first process that uses it: a forked child uses hashes that only its parent's file
//! explains. So each file is searched first, and then, if it lacks the hash, all other files of the command; each of
//! them is searched at most once. A hash without an explanation is a file without a name.

use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, Once};

use dlio_schemas::native::Damage;
use foldhash::fast::RandomState;

use super::json_scanner::{Fields, Json};
use crate::catalog::{Catalog, FILE_NONE};
use crate::load::bytes::file_bytes;
use crate::load::lines::chunks::Chunks;
use dlio_schemas::readable::readable;

type Map<K, V> = std::collections::HashMap<K, V, RandomState>;

/// All JSON files of a command.
pub struct Hashes {
    files: Vec<FileHashes>,
    /// Files by hash, explained in any file.
    found: Mutex<Map<Box<[u8]>, u32>>,
    /// The first file that was not yet searched on behalf of another one.
    next: Mutex<usize>,
}

/// One file, and its explanations.
struct FileHashes {
    path: PathBuf,
    size: u64,
    /// The chunks of a large file with one object per line.
    chunks: Option<Chunks>,
    /// The chunks that have been searched; one entry for a file without chunks.
    learned: Vec<Once>,
    meanings: Mutex<Meanings>,
}

#[derive(Default)]
struct Meanings {
    files: Map<Box<[u8]>, NamedFile>,
    hosts: Map<Box<[u8]>, String>,
    texts: Map<Box<[u8]>, String>,
    /// The host of each process, by hash: an event without arguments lacks it.
    pids: Map<i64, Box<[u8]>>,
    unit_ns: Option<i64>,
}

/// The number of a file, and whether its name is known.
#[derive(Clone, Copy)]
struct NamedFile {
    file: u32,
    known: bool,
}

/// The relevant fields of a line that explains a name.
#[derive(Default)]
pub struct Line<'a> {
    pub name: &'a [u8],
    pub pid: i64,
    pub host: Option<&'a [u8]>,
    pub hash: &'a [u8],
    pub text: Option<Json<'a>>,
}

/// The unit of DFTracer and Chrome's viewers, unless a file sets another.
pub const MICROSECOND: i64 = 1000;

/// Text is searched in chunks of this size.
const WINDOW: usize = 1 << 20;

/// Marks a line of DFTracer's own.
const MARK: &[u8] = b"\"dftracer\"";

impl Hashes {
    /// Creates the table for files and their sizes.
    pub fn new(files: impl Iterator<Item = (PathBuf, u64)>) -> Hashes {
        let explained = |(path, size): (PathBuf, u64)| {
            let chunks = Chunks::of(&path, size);
            let learned = (0..chunks.as_ref().map_or(1, Chunks::count)).map(|_| Once::new()).collect();
            FileHashes { path, size, chunks, learned, meanings: Mutex::default() }
        };
        Hashes { files: files.map(explained).collect(), found: Mutex::default(), next: Mutex::default() }
    }

    pub fn chunks(&self, file: usize) -> Option<&Chunks> {
        self.files[file].chunks.as_ref()
    }

    /// Loads a chunk and reads its names on first use. If another thread is reading them, the caller waits, which costs
    /// less than unpacking the chunk twice.
    pub fn learn_chunk(
        &self,
        file: usize,
        chunk: usize,
        memory: &mut Vec<u8>,
        catalog: &Catalog,
    ) -> Option<(Range<usize>, Result<(), Damage>)> {
        let explained = &self.files[file];
        let chunks = explained.chunks.as_ref()?;
        let mut loaded = None;
        explained.learned[chunk].call_once(|| {
            let (lines, result) = chunks.load(&explained.path, chunk, memory);
            self.learn(file, &memory[lines.clone()], catalog);
            loaded = Some((lines, result));
        });
        loaded
    }

    /// Learns the explanations in a text and ignores everything else.
    fn learn(&self, file: usize, text: &[u8], catalog: &Catalog) {
        for at in memchr::memmem::find_iter(text, MARK) {
            let start = memchr::memrchr(b'{', &text[..at]).unwrap_or(at);
            if let Some(line) = Line::read(&text[start..]) {
                self.record(file, &line, catalog);
            }
        }
    }

    /// Searches a whole file. Damage is noted when the file is read.
    fn learn_all(&self, file: usize, catalog: &Catalog) {
        let explained = &self.files[file];
        if explained.chunks.is_some() {
            let mut memory = Vec::new();
            for chunk in 0..explained.learned.len() {
                let _ = self.learn_chunk(file, chunk, &mut memory, catalog);
            }
            return;
        }
        explained.learned[0].call_once(|| {
            let Ok(text) = file_bytes::unpacked(&explained.path) else { return };
            let mut text = text.take(file_bytes::unpacked_most(explained.size));
            let (mut window, mut more) = (Vec::new(), true);
            while more {
                more = (&mut text).take(WINDOW as u64).read_to_end(&mut window).is_ok_and(|read| read > 0);
                // A line that is split here is whole in the next window.
                let last = memchr::memrchr(b'\n', &window).map_or(0, |end| end + 1);
                let whole = if more { last } else { window.len() };
                self.learn(file, &window[..whole], catalog);
                window.drain(..whole);
                more &= window.len() < file_bytes::ITEM_MAX;
            }
        });
    }

    /// Adds the explanation in one line.
    pub fn record(&self, file: usize, line: &Line, catalog: &Catalog) {
        let text = || line.text.map_or_else(String::new, |text| text.text().into_owned());
        let mut meanings = self.files[file].meanings.lock().expect("meanings of hashes");
        if let Some(host) = line.host {
            meanings.pids.entry(line.pid).or_insert_with(|| host.into());
        }
        match line.name {
            b"FH" => {
                let number = meanings.name(line.hash, &text(), catalog);
                self.found.lock().expect("files by hash").entry(line.hash.into()).or_insert(number);
            }
            b"HH" => drop(meanings.hosts.insert(line.hash.into(), text())),
            b"SH" => drop(meanings.texts.insert(line.hash.into(), text())),
            b"CM" if text() == "time_metric" => meanings.unit_ns = unit_ns(line.hash),
            _ => {}
        }
    }

    /// Returns the number of the file for a hash.
    pub fn file(&self, file: usize, hash: &[u8], catalog: &Catalog) -> u32 {
        if matches!(hash, b"" | b"0") {
            return FILE_NONE;
        }
        let known = self.files[file].meanings.lock().expect("meanings of hashes").files.get(hash).copied();
        if let Some(named) = known.filter(|named| named.known) {
            return named.file;
        }
        if let Some(number) = self.find(hash, catalog) {
            return number;
        }
        let mut meanings = self.files[file].meanings.lock().expect("meanings of hashes");
        let unknown = || NamedFile { file: catalog.file(&unnamed(hash)), known: false };
        meanings.files.entry(hash.into()).or_insert_with(unknown).file
    }

    /// Searches all files.
    fn find(&self, hash: &[u8], catalog: &Catalog) -> Option<u32> {
        let found = || self.found.lock().expect("files by hash").get(hash).copied();
        if let Some(number) = found() {
            return Some(number);
        }
        let mut next = self.next.lock().expect("the next file to search");
        while *next < self.files.len() && found().is_none() {
            self.learn_all(*next, catalog);
            *next += 1;
        }
        found()
    }

    /// Returns the name of a process's host; `hash` is empty if an event does not contain it.
    pub fn host(&self, file: usize, pid: i64, hash: &[u8]) -> String {
        let meanings = self.files[file].meanings.lock().expect("meanings of hashes");
        let hash = if hash.is_empty() { meanings.pids.get(&pid).map_or(hash, |hash| hash) } else { hash };
        meanings.hosts.get(hash).cloned().unwrap_or_else(|| "unknown".into())
    }

    /// Returns the text for a hash, if the file explains it.
    pub fn text(&self, file: usize, hash: &[u8]) -> Option<String> {
        self.files[file].meanings.lock().expect("meanings of hashes").texts.get(hash).cloned()
    }

    /// Returns the number after the last occurrence of a key in a file, where everything else may precede it.
    pub fn last_number(&self, file: usize, key: &[u8]) -> Option<i64> {
        let after = file_bytes::last_after(&self.files[file].path, self.files[file].size, key)?;
        let digits = after.iter().position(u8::is_ascii_digit)?;
        let between = after[..digits].trim_ascii();
        let number = &after[digits..];
        let end = number.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(number.len());
        Json::Word(&number[..end]).integer().filter(|_| matches!(between, b"\":" | b"\" :" | b"\": "))
    }

    /// Returns the time unit of a file.
    pub fn unit_ns(&self, file: usize) -> i64 {
        self.files[file].meanings.lock().expect("meanings of hashes").unit_ns.unwrap_or(MICROSECOND)
    }
}

impl Meanings {
    /// Sets the name of a hash; events may have used it before, if it could not be searched for.
    fn name(&mut self, hash: &[u8], name: &str, catalog: &Catalog) -> u32 {
        let file = match self.files.get(hash) {
            Some(named) if !named.known => {
                catalog.rename_file(named.file, name);
                named.file
            }
            _ => catalog.file(name),
        };
        self.files.insert(hash.into(), NamedFile { file, known: true });
        file
    }
}

impl<'a> Line<'a> {
    /// Reads the object at the start of a text, if it is one of DFTracer's own.
    fn read(text: &'a [u8]) -> Option<Line<'a>> {
        let (mut line, mut own) = (Line::default(), false);
        let mut fields = Fields::new(text);
        while let Some(key) = fields.key() {
            if key == b"args" {
                fields.inner(|key, value| line.argument(key, value))?;
                continue;
            }
            match (key, fields.value()?) {
                (b"name", Json::Text(name)) => line.name = name,
                (b"cat", Json::Text(cat)) => own = cat == b"dftracer",
                (b"pid", pid) => line.pid = pid.integer().unwrap_or(0),
                _ => {}
            }
        }
        (own && fields.after().is_some()).then_some(line)
    }

    pub fn argument(&mut self, key: &[u8], value: Json<'a>) {
        match key {
            b"value" => self.hash = value.raw(),
            b"name" => self.text = Some(value),
            b"hhash" => self.host = Some(value.raw()),
            _ => {}
        }
    }
}

/// Returns the length of a unit that DFTracer knows.
fn unit_ns(name: &[u8]) -> Option<i64> {
    Some(match name {
        b"NS" => 1,
        b"US" => MICROSECOND,
        b"MS" => 1_000_000,
        b"SEC" => 1_000_000_000,
        _ => return None,
    })
}

/// Returns the name of a file whose hash is not explained.
fn unnamed(hash: &[u8]) -> String {
    format!("(file without a name, hash {})", readable(hash))
}
