//! Textual foreign traces: one pass over a file that produces events one by one.

use std::io::Read;
use std::path::{Path, PathBuf};

use dlio_schemas::native::Damage;

use crate::batch::{Batch, Wanted};
use crate::catalog::Catalog;
use crate::load::bytes::file_bytes::{self, ITEM_MAX};
use crate::load::bytes::trace_file;
use crate::load::events::parser::{Parser, Processes, Threads};
use crate::load::sources::errors::Note;
use crate::load::sources::source::{Opening, Reader, Source, Sources};
use crate::unit::Unit;

/// Text is read in pieces of this size.
const WINDOW: usize = 1 << 20;

/// Creates the parser of a file.
pub type MakeParser = fn(&Path) -> Box<dyn Parser>;

/// Creates sources of text files that are read in one pass; nothing is read before their events are requested.
pub fn open_all(paths: &[PathBuf], opening: &mut Opening, parser: MakeParser) -> Sources {
    let mut sources = Sources::new();
    for (path, size) in sizes(paths, opening) {
        let processes = Processes::of(path.display().to_string());
        sources.push(Box::new(TextSource { path, size, processes, parser }));
    }
    sources
}

/// Returns the existing files, with their sizes.
pub fn sizes(paths: &[PathBuf], opening: &mut Opening) -> Vec<(PathBuf, u64)> {
    let mut sizes = Vec::new();
    for path in paths {
        match trace_file::facts(path) {
            Ok(facts) => sizes.push((path.clone(), facts.size)),
            Err(_) => {
                let what = Damage::Broken("cannot open the file");
                opening.notes.push(Note { path: path.clone(), what, events_max: None });
            }
        }
    }
    sizes
}

struct TextSource {
    path: PathBuf,
    size: u64,
    processes: Processes,
    parser: MakeParser,
}

impl Source for TextSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        vec![single_unit(source, self.size)]
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
        let ended = read_whole(&self.path, self.size, (self.parser)(&self.path).as_mut(), &mut into);
        finish(ended, into)
    }
}

/// Approximate bytes of a file per event, by which scans are distributed.
const EVENT_BYTES: u64 = 16;

/// Returns the only unit of a file that is read in one pass.
pub fn single_unit(source: u32, size: u64) -> Unit {
    Unit::new(source, 0, size / EVENT_BYTES, size)
}

/// Passes a whole file, of `size` stored bytes, to a parser.
pub fn read_whole(path: &Path, size: u64, parser: &mut dyn Parser, into: &mut Threads) -> Result<(), Damage> {
    let mut text = file_bytes::unpacked(path).map_err(|_| Damage::Broken("cannot open the file"))?;
    feed(&mut *text, size, parser, into)
}

/// The cause of damage if no other is known.
pub const MISMATCH: &str = "some lines do not match the format";

/// Passes on the collected batches; returns which text could not be used.
pub fn finish(ended: Result<(), Damage>, mut into: Threads) -> Result<(), Damage> {
    into.flush();
    match (ended, into.broken) {
        (Err(damage), _) => Err(damage),
        (Ok(()), _) if into.cut => Err(Damage::Cut),
        (Ok(()), 0) => into.remark.map_or(Ok(()), |what| Err(Damage::Remark(what))),
        (Ok(()), _) => Err(Damage::Broken(into.cause.unwrap_or(MISMATCH))),
    }
}

/// Passes a whole text, of `size` stored bytes, to a parser.
fn feed(text: &mut dyn Read, size: u64, parser: &mut dyn Parser, into: &mut Threads) -> Result<(), Damage> {
    let mut window: Vec<u8> = Vec::new();
    let (mut total, mut result) = (0u64, Ok(()));
    loop {
        let held = window.len();
        window.resize(held + WINDOW.max(held), 0);
        let read = match fill(text, &mut window[held..]) {
            Ok(read) => read,
            Err(read) => {
                result = Err(Damage::Cut);
                read
            }
        };
        window.truncate(held + read);
        total += read as u64;
        let last = read == 0 || result.is_err();
        let used = parser.parse(&window, last, into);
        window.drain(..used.min(window.len()));
        if last {
            return if window.iter().all(u8::is_ascii_whitespace) { result } else { Err(Damage::Cut) };
        }
        if window.len() > ITEM_MAX {
            return Err(Damage::Broken("a line of more than 16 MiB"));
        }
        if total > file_bytes::unpacked_most(size) {
            return Err(Damage::Broken(
                "it decompresses to more than 500 times its size; if that is correct, decompress it to a file first",
            ));
        }
    }
}

/// Reads until the buffer is full or the text ends; an error gives the bytes read before it.
fn fill(text: &mut dyn Read, into: &mut [u8]) -> Result<usize, usize> {
    let mut used = 0;
    while used < into.len() {
        match text.read(&mut into[used..]) {
            Ok(0) => break,
            Ok(more) => used += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(used),
        }
    }
    Ok(used)
}
