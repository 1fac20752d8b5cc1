//! Foreign traces that are text: one pass over a file, from which events come one by one.
//!
//! A [`Parser`] is given the text in pieces and says how much of it it could use. Its events go to [`Threads`], which
//! gathers those of each thread into batches, because a batch is of one thread.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once};

use dlio_schemas::native::Damage;
use foldhash::fast::RandomState;

use super::inputs::Text;
use super::pieces::Pieces;
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
            Ok(facts) => sources.push(Box::new(TextSource::new(path, *text, facts.len()))),
            Err(_) => {
                let what = Damage::Broken("the file cannot be opened");
                notes.push(Note { path: path.clone(), what, events_max: None });
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
    /// Of large JSON with one object a line.
    pieces: Option<Pieces>,
    /// What lines of JSON say of hashes, and which pieces have been searched for that.
    said: Arc<Mutex<json::Said>>,
    learned: Vec<Once>,
}

type Numbers = Mutex<HashMap<(String, i32), u32>>;

/// Gathers events by thread.
pub struct Threads<'a> {
    pub catalog: &'a Catalog,
    pub wanted: Wanted,
    /// Pieces that could not be used.
    pub broken: u64,
    /// What must be said of the trace though nothing of it is lost.
    remark: Option<&'static str>,
    source: &'a TextSource,
    batches: Vec<Batch>,
    /// Places in `batches` by process and thread, and that of the event before.
    places: HashMap<(u32, i32), usize, RandomState>,
    place_last: usize,
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

    #[inline]
    pub fn event(&mut self, proc: u32, tid: i32, row: &Row, args: impl IntoIterator<Item = (u32, Value)>) {
        self.event_from(proc, tid, row, None, args);
    }

    /// An event whose bytes may have come from another file.
    #[inline]
    pub fn event_from(
        &mut self,
        proc: u32,
        tid: i32,
        row: &Row,
        source: Option<u32>,
        args: impl IntoIterator<Item = (u32, Value)>,
    ) {
        let at = self.place(proc, tid);
        let batch = &mut self.batches[at];
        let place = batch.len() as u32;
        batch.push(row);
        batch.args.extend(args.into_iter().map(|(key, value)| Arg { row: place, key, value }));
        batch.sources.extend(source.map(|file| (place, file)));
        self.gathered += 1;
        if batch.len() >= ROWS_MAX {
            self.gathered -= batch.len();
            (self.take)(batch);
            batch.clear();
        } else if self.gathered >= GATHERED_MAX {
            self.flush();
        }
    }

    #[inline]
    fn place(&mut self, proc: u32, tid: i32) -> usize {
        match self.batches.get(self.place_last) {
            Some(batch) if batch.proc == proc && batch.tid == tid => {}
            _ => {
                let batches = &mut self.batches;
                self.place_last = *self.places.entry((proc, tid)).or_insert_with(|| {
                    batches.push(Batch { proc, tid, ..Batch::default() });
                    batches.len() - 1
                });
            }
        }
        self.place_last
    }

    /// Events of which only the number is known.
    pub fn aggregated(&mut self, proc: u32, tid: i32, events: u64) {
        let mut batch = Batch { proc, tid, lost: events, aggregated: events, ..Batch::default() };
        (self.take)(&mut batch);
    }

    /// Has something said of the trace, once; the first remark is the one.
    pub fn remarks(&mut self, what: &'static str) {
        self.remark.get_or_insert(what);
    }

    fn flush(&mut self) {
        for mut batch in self.batches.drain(..).filter(|batch| !batch.is_empty()) {
            (self.take)(&mut batch);
        }
        self.places.clear();
        self.gathered = 0;
    }
}

impl TextSource {
    fn new(path: &Path, text: Text, size: u64) -> TextSource {
        let pieces = if text == Text::Json { Pieces::of(path, size) } else { None };
        let learned = (0..pieces.as_ref().map_or(0, Pieces::count)).map(|_| Once::new()).collect();
        let (numbers, said) = Default::default();
        TextSource { path: path.into(), text, size, numbers, pieces, said, learned }
    }

    /// Reads one piece. Its hashes may be explained in an earlier one, which is searched for that if nobody has: who
    /// reads that one on another thread is waited for, which costs less than to unpack it twice.
    fn read_piece(
        &self,
        pieces: &Pieces,
        piece: usize,
        memory: &mut Vec<u8>,
        into: &mut Threads,
    ) -> Result<(), Damage> {
        let mut parser = json::JsonParser::new(self.said.clone());
        let learned = self.learn(pieces, piece, &mut parser, memory, into.catalog);
        let (lines, result) = learned.unwrap_or_else(|| pieces.load(&self.path, piece, memory));
        // What is damaged in earlier ones is noted when they are read.
        let mut other = Vec::new();
        for earlier in 0..piece {
            self.learn(pieces, earlier, &mut parser, &mut other, into.catalog);
        }
        if piece > 0 {
            parser.continues();
        }
        let text = &memory[lines];
        let used = parser.parse(text, true, into);
        result.and(if text[used..].iter().all(u8::is_ascii_whitespace) { Ok(()) } else { Err(Damage::Cut) })
    }

    /// Loads a piece and learns from it, the first time it is asked for.
    fn learn(
        &self,
        pieces: &Pieces,
        piece: usize,
        parser: &mut json::JsonParser,
        memory: &mut Vec<u8>,
        catalog: &Catalog,
    ) -> Option<(Range<usize>, Result<(), Damage>)> {
        let mut loaded = None;
        self.learned[piece].call_once(|| {
            let (lines, result) = pieces.load(&self.path, piece, memory);
            parser.learn(&memory[lines.clone()], catalog);
            loaded = Some((lines, result));
        });
        loaded
    }

    fn parser(&self) -> Box<dyn Parser> {
        match self.text {
            Text::Json => Box::new(json::JsonParser::new(self.said.clone())),
            Text::Dxt => Box::new(dxt::DxtParser::default()),
            Text::Strace => Box::new(strace::StraceParser::new(self.written(), self.number())),
        }
    }

    /// When the file was last written, in Unix time; the epoch where nobody knows.
    fn written(&self) -> i64 {
        let written = std::fs::metadata(&self.path).and_then(|facts| facts.modified()).ok();
        let since = written.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        since.map_or(0, |since| since.as_nanos() as i64)
    }

    /// The number at the end of the file's name; 0 where there is none.
    fn number(&self) -> i32 {
        let ending = self.path.extension().and_then(|ending| ending.to_str());
        ending.and_then(|ending| ending.parse().ok()).filter(|number| *number > 0).unwrap_or(0)
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
        match &self.pieces {
            Some(pieces) => (0..pieces.count()).map(|piece| unit_of(source, pieces, piece)).collect(),
            None => vec![Unit::new(source, 0, self.size / EVENT_BYTES, self.size)],
        }
    }

    fn read(
        &self,
        index: u32,
        reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage> {
        let (batches, places) = Default::default();
        let mut into = Threads {
            catalog,
            wanted,
            broken: 0,
            remark: None,
            source: self,
            batches,
            places,
            place_last: 0,
            gathered: 0,
            take,
        };
        let ended = match &self.pieces {
            Some(pieces) => self.read_piece(pieces, index as usize, &mut reader.text, &mut into),
            None => {
                let mut text = self.text().map_err(|_| Damage::Broken("the file cannot be opened"))?;
                feed(&mut *text, self.size, self.parser().as_mut(), &mut into)
            }
        };
        into.flush();
        match (ended, into.broken) {
            (Err(damage), _) => Err(damage),
            (Ok(()), 0) => into.remark.map_or(Ok(()), |what| Err(Damage::Remark(what))),
            (Ok(()), _) => Err(Damage::Broken("lines that do not read as their format has them")),
        }
    }
}

/// How many bytes of a file an event takes, about: what scans are shared out by.
const EVENT_BYTES: u64 = 16;

/// How many bytes of text an event takes, at least. So small that each piece is handed out on its own: neighbours wait for
/// what is learned of a piece, which a thread that had two of them would come to late.
const LINE_BYTES: u64 = 32;

fn unit_of(source: u32, pieces: &Pieces, piece: usize) -> Unit {
    Unit::new(source, piece as u32, pieces.length(piece) / LINE_BYTES, pieces.size(piece))
}

/// Traces pack to a tenth or a hundredth. What grows far beyond that is made to fill memory or time.
const UNPACKED_RATIO: u64 = 500;

/// What any text may unpack to, however small the file.
const UNPACKED_LEAST: u64 = 64 << 20;

/// Gives a parser all of a text, of which `size` bytes are stored.
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
        if total > UNPACKED_LEAST.max(size.saturating_mul(UNPACKED_RATIO)) {
            return Err(Damage::Broken(
                "it unpacks to more than 500 times its size; unpack it to a file if that is right",
            ));
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
