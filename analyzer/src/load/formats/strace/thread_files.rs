//! The files of one run of `strace -ff`, one per thread. The creator of a thread, its inherited state and its process
//! are recorded in other files, so all lines are read in the order of their times.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::Read;
use std::path::{Path, PathBuf};

use dlio_schemas::native::Damage;

use super::clock::Clock;
use super::{StraceParser, start, thread_of_name, written};
use crate::batch::{Batch, Wanted};
use crate::catalog::Catalog;
use crate::load::bytes::file_bytes::{self, ITEM_MAX};
use crate::load::bytes::trace_file::StoredFile;
use crate::load::events::parser::{Processes, Threads};
use crate::load::lines::text::{finish, single_unit, sizes};
use crate::load::sources::source::{Opening, Reader, Source};
use crate::unit::Unit;

/// Bytes inspected to detect whether lines name their threads.
const HEAD: u64 = 4096;

/// Bytes of a file that are read at a time: as many files may be open as there are threads.
const WINDOW: usize = 64 << 10;

/// The files of one run, with the numbers of their threads, in that order.
type Run = Vec<(i32, PathBuf)>;

/// Returns the files that belong to runs, and separate files.
pub fn runs(paths: &[PathBuf]) -> (Vec<Run>, Vec<PathBuf>) {
    let (mut runs, mut alone) = (BTreeMap::<_, Run>::new(), Vec::new());
    for path in paths {
        match (thread_of_name(path), path.to_str().and_then(|path| path.rsplit_once('.'))) {
            (tid, Some((run, _))) if tid > 0 && !names_threads(path) => {
                runs.entry(run.to_string()).or_default().push((tid, path.clone()));
            }
            _ => alone.push(path.clone()),
        }
    }
    let (mut runs, single): (Vec<Run>, Vec<Run>) = runs.into_values().partition(|run| run.len() > 1);
    runs.iter_mut().for_each(|run| run.sort());
    alone.extend(single.into_iter().flatten().map(|(_, path)| path));
    (runs, alone)
}

/// Returns `true` if a file's lines start with a thread's number, or if that is unknown.
fn names_threads(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = file_bytes::unpacked(path).and_then(|text| text.take(HEAD).read_to_end(&mut head));
    let line = head.split(|byte| *byte == b'\n').find_map(start);
    read.is_err() || line.is_none_or(|line| line.tid.is_some())
}

/// Opens the files of a run; `None` if none of them exists.
pub fn open(run: &Run, opening: &mut Opening) -> Option<Box<dyn Source>> {
    let paths: Vec<PathBuf> = run.iter().map(|(_, path)| path.clone()).collect();
    let files: Vec<_> =
        sizes(&paths, opening).into_iter().map(|(path, size)| (thread_of_name(&path), path, size)).collect();
    let processes = Processes::of(files.first()?.1.display().to_string());
    Some(Box::new(ThreadFiles { files, processes }))
}

struct ThreadFiles {
    /// Thread, path and size of each file.
    files: Vec<(i32, PathBuf, u64)>,
    processes: Processes,
}

impl Source for ThreadFiles {
    fn path(&self) -> &Path {
        &self.files[0].1
    }

    fn paths(&self) -> Vec<&Path> {
        self.files.iter().map(|(_, path, _)| path.as_path()).collect()
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        vec![single_unit(source, self.files.iter().map(|(_, _, size)| size).sum())]
    }

    fn read(
        &self,
        _index: u32,
        _reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage> {
        let mut into = Threads::new(catalog, wanted, &self.processes, take);
        let mut parser = StraceParser::default();
        let ended = self.merge(&mut parser, &mut into);
        parser.end(&mut into);
        finish(ended, into)
    }
}

impl ThreadFiles {
    /// Passes the lines of all files to a parser in the order of their times. Lines of one time are ordered by thread,
    /// because parents usually have lower numbers.
    fn merge(&self, parser: &mut StraceParser, into: &mut Threads) -> Result<(), Damage> {
        let mut files: Vec<_> = self.files.iter().map(|(_, path, size)| Lines::new(path, *size)).collect();
        let mut next = BinaryHeap::new();
        let mut result = Ok(());
        for (at, file) in files.iter_mut().enumerate() {
            match file.moment() {
                Ok(ts) => next.extend(ts.map(|ts| Reverse((ts, at)))),
                Err(damage) => result = result.and(Err(damage)),
            }
        }
        while let Some(Reverse((ts, at))) = next.pop() {
            let (tid, file) = (self.files[at].0, &mut files[at]);
            parser.text_line(file.line(), Some((tid, ts)), into);
            match file.step() {
                Ok(ts) => next.extend(ts.map(|ts| Reverse((ts, at)))),
                Err(damage) => result = result.and(Err(damage)),
            }
        }
        result
    }
}

/// The lines of a file. An uncompressed file is not kept open: a run has as many files as threads.
struct Lines<'a> {
    path: &'a Path,
    size: u64,
    clock: Clock,
    packed: Option<Box<dyn Read>>,
    /// Bytes that were read.
    read: u64,
    text: Vec<u8>,
    /// The next line, and the start of the one after it.
    from: usize,
    end: usize,
    last_ts: i64,
    has_ended: bool,
}

impl<'a> Lines<'a> {
    fn new(path: &'a Path, size: u64) -> Lines<'a> {
        let packed = path.extension().is_some_and(|ending| ending == "gz" || ending == "zst");
        Lines {
            path,
            size,
            clock: Clock::new(written(path)),
            packed: packed.then(|| file_bytes::unpacked(path).ok()).flatten(),
            read: 0,
            text: Vec::new(),
            from: 0,
            end: 0,
            last_ts: i64::MIN,
            has_ended: false,
        }
    }

    fn line(&self) -> &[u8] {
        let line = &self.text[self.from..self.end];
        line.strip_suffix(b"\n").unwrap_or(line)
    }

    /// Advances to the next line; returns its time.
    fn step(&mut self) -> Result<Option<i64>, Damage> {
        self.from = self.end;
        self.moment()
    }

    /// Returns the time of the next line, or the previous time if it has none; `None` at the end.
    fn moment(&mut self) -> Result<Option<i64>, Damage> {
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.text[self.from..]) {
                self.end = self.from + length + 1;
                break;
            }
            if self.has_ended {
                self.end = self.text.len();
                break;
            }
            self.fill()?;
        }
        if self.from == self.end {
            self.text = Vec::new();
            return Ok(None);
        }
        if let Some(line) = start(&self.text[self.from..self.end]) {
            self.last_ts = line.stamp.moment(&mut self.clock);
        }
        Ok(Some(self.last_ts))
    }

    fn fill(&mut self) -> Result<(), Damage> {
        if self.text.len() - self.from > ITEM_MAX {
            return Err(Damage::Broken("a line of more than 16 MiB"));
        }
        if self.read > file_bytes::unpacked_most(self.size) {
            return Err(Damage::Broken(
                "it decompresses to more than 500 times its size; if that is correct, decompress it to a file first",
            ));
        }
        self.text.drain(..std::mem::take(&mut self.from));
        let held = self.text.len();
        self.text.resize(held + WINDOW, 0);
        let room = &mut self.text[held..];
        let read = match &mut self.packed {
            Some(packed) => packed.read(room),
            None => StoredFile::open(self.path).and_then(|file| file.reader(self.read).read(room)),
        };
        let length = *read.as_ref().unwrap_or(&0);
        self.text.truncate(held + length);
        self.read += length as u64;
        self.has_ended = length == 0;
        read.map(|_| ()).map_err(|_| Damage::Cut)
    }
}
