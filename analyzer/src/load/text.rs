//! Foreign traces that are text: one pass over a file, from which events come one by one.
//!
//! A [`Parser`] is given the text in pieces and says how much of it it could use. Its events go to [`Threads`], which
//! gathers those of each thread into batches, because a batch is of one thread.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use dlio_schemas::native::Damage;

use super::inputs::Text;
use super::store::UNPACKED_MAX;
use super::{Note, Reader, Source, Unit, dxt, gzip, json, strace};
use crate::batch::{Arg, Batch, Row, Value, Wanted};
use crate::catalog::{Catalog, Host, Process};

/// Text is read in pieces of this size.
const WINDOW: usize = 1 << 20;

/// A line or object longer than this is damage.
pub const ITEM_MAX: usize = 16 << 20;

/// Rows after which a thread's batch is handed on.
const ROWS_MAX: usize = 8192;

/// Rows of all threads together, after which all are handed on: a file may name any number of threads.
const GATHERED_MAX: usize = 1 << 20;

/// Something that makes events of text.
pub trait Parser {
    /// Uses whole lines or objects from the start of `text` and says how many bytes they were. `last`: nothing follows.
    fn parse(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize;
}

/// Makes sources of text files; nothing is read before their events are asked for.
pub fn open_all(found: &[(PathBuf, Text)], notes: &mut Vec<Note>) -> Vec<Box<dyn Source>> {
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    for (path, text) in found {
        match std::fs::metadata(path) {
            Ok(facts) => sources.push(Box::new(TextSource {
                path: path.clone(),
                text: *text,
                size: facts.len(),
                numbers: Mutex::default(),
            })),
            Err(_) => {
                let what = Damage::Broken("the file cannot be opened");
                notes.push(Note { path: path.clone(), what, events_max: 0 });
            }
        }
    }
    sources
}

struct TextSource {
    path: PathBuf,
    text: Text,
    size: u64,
    /// Numbers of processes by host and process id, the same however often the file is read.
    numbers: Numbers,
}

type Numbers = Mutex<HashMap<(String, i32), u32>>;

/// Gathers events by thread.
pub struct Threads<'a> {
    pub catalog: &'a Catalog,
    pub wanted: Wanted,
    /// Pieces that could not be used.
    pub broken: u64,
    source: &'a TextSource,
    batches: HashMap<(u32, i32), Batch>,
    gathered: usize,
    take: &'a mut dyn FnMut(&mut Batch),
}

impl Threads<'_> {
    /// The number of a process, new or known.
    pub fn process(&mut self, host: &str, pid: i32, describe: impl FnOnce(&mut Process)) -> u32 {
        let mut numbers = self.source.numbers.lock().expect("numbers of processes");
        *numbers.entry((host.to_string(), pid)).or_insert_with(|| {
            let host = self.catalog.host(Host { name: host.into(), ..Host::default() });
            let mut process = Process { host, pid, ended: "unknown".into(), ..Process::default() };
            process.source = self.source.path.display().to_string();
            describe(&mut process);
            self.catalog.add_process(process)
        })
    }

    pub fn event(&mut self, proc: u32, tid: i32, row: &Row, args: impl IntoIterator<Item = (u32, Value)>) {
        let batch = self.batches.entry((proc, tid)).or_insert_with(|| Batch { proc, tid, ..Batch::default() });
        let place = batch.len() as u32;
        batch.push(row);
        batch.args.extend(args.into_iter().map(|(key, value)| Arg { row: place, key, value }));
        self.gathered += 1;
        if batch.len() >= ROWS_MAX {
            self.gathered -= batch.len();
            (self.take)(batch);
            batch.clear();
        } else if self.gathered >= GATHERED_MAX {
            self.flush();
        }
    }

    /// Events of which only the number is known.
    pub fn lost(&mut self, proc: u32, tid: i32, events: u64) {
        let mut batch = Batch { proc, tid, lost: events, ..Batch::default() };
        (self.take)(&mut batch);
    }

    fn flush(&mut self) {
        for (_, mut batch) in self.batches.drain() {
            (self.take)(&mut batch);
        }
        self.gathered = 0;
    }
}

impl TextSource {
    fn parser(&self) -> Box<dyn Parser> {
        match self.text {
            Text::Json => Box::new(json::JsonParser::default()),
            Text::Dxt => Box::new(dxt::DxtParser::default()),
            Text::Strace => Box::new(strace::StraceParser::default()),
        }
    }

    fn text(&self) -> std::io::Result<Box<dyn Read>> {
        let mut head = [0; 4];
        let mut file = std::fs::File::open(&self.path)?;
        let read = file.read(&mut head)?;
        let file = std::fs::File::open(&self.path)?;
        Ok(match head {
            [0x1f, 0x8b, ..] if read >= 2 => Box::new(gzip::Inflater::new(file)),
            [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::stream::read::Decoder::new(file)?),
            _ => Box::new(file),
        })
    }
}

impl Source for TextSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        vec![Unit { source, index: 0, last_end: i64::MAX, proc: None, events: 1 << 20, size: self.size }]
    }

    fn read(
        &self,
        _index: u32,
        _reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage> {
        let mut text = self.text().map_err(|_| Damage::Broken("the file cannot be opened"))?;
        let mut into = Threads { catalog, wanted, broken: 0, source: self, batches: HashMap::new(), gathered: 0, take };
        let ended = feed(&mut *text, self.parser().as_mut(), &mut into);
        into.flush();
        match (ended, into.broken) {
            (Err(damage), _) => Err(damage),
            (Ok(()), 0) => Ok(()),
            (Ok(()), _) => Err(Damage::Broken("lines that do not read as their format has them")),
        }
    }
}

/// Gives a parser all of a text.
fn feed(text: &mut dyn Read, parser: &mut dyn Parser, into: &mut Threads) -> Result<(), Damage> {
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
        if total > UNPACKED_MAX * 64 {
            return Err(Damage::Broken("it unpacks to more than 256 GiB"));
        }
    }
}

/// Reads until the buffer is full or the text ends; an error gives what was read before it.
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

/// Gives whole lines to `each`; returns how many bytes they were. A last line needs no line feed.
pub fn lines(text: &[u8], last: bool, mut each: impl FnMut(&[u8])) -> usize {
    let mut at = 0;
    while let Some(length) = text[at..].iter().position(|&byte| byte == b'\n') {
        each(&text[at..at + length]);
        at += length + 1;
    }
    if last && at < text.len() {
        each(&text[at..]);
        at = text.len();
    }
    at
}
