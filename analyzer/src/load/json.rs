//! Chrome's trace events, as an array or an object, and DFTracer's lines, which are a relative of them.
//!
//! ```text
//! [{"ph":"X","name":"read","cat":"posix","pid":1,"tid":2,"ts":12.345,"dur":0.678,"args":{"file":"/a","bytes":4096}}, ...
//! {"traceEvents":[ ... ]}
//! {"id":3,"name":"pread","cat":"POSIX","pid":1,"tid":2,"ts":1795219511213560,"dur":738,"ph":1,"args":{"fhash":"4aa1", ...}}
//! ```
//!
//! Complete events, pairs of begin and end, instants and counters become events; flows and what describes the view do not.
//! A slice that never ends lasts to the end of the trace and is marked `unfinished`. DFTracer names files, hosts and programs
//! by hashes, which lines of their own resolve. Its aggregates say how many calls there were and not when: they count as
//! lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use dlio_schemas::ops::{Op, OpInfo};
use foldhash::fast::RandomState;

use super::alike::{Alike, Like, Plan, Slot};
use super::arguments::SOURCE;
use super::pull::{Fields, Json, value_end};
use super::shapes::Shape;
use super::text::{Parser, Threads};
use crate::batch::{ABSENT, Row, Value};
use crate::catalog::{Catalog, FILE_NONE, Origin};

type Map<K, V> = HashMap<K, V, RandomState>;

/// What the lines of a file say of its hashes and processes: the same for all pieces of the file.
#[derive(Default)]
pub struct Said {
    files: Map<Box<[u8]>, u32>,
    hosts: Map<Box<[u8]>, String>,
    /// The host of each process, by hash: an event without arguments does not name it.
    pids: Map<i64, Box<[u8]>>,
}

pub struct JsonParser {
    begun: bool,
    said: Arc<Mutex<Said>>,
    /// Files by hash, so that most events need no look at what is shared.
    files: Map<Box<[u8]>, u32>,
    /// Hash and number of the file of the event before.
    file_last: Option<(u128, u32)>,
    /// Numbers of kinds by category and name, so that most events need no look at the catalogue.
    kinds: Map<Box<[u8]>, Known>,
    /// Of the kind being looked up.
    key: Vec<u8>,
    processes: Map<(i64, Box<[u8]>), u32>,
    /// Process id, hash of the host and number of the process of the event before.
    process_last: Option<(i64, u128, u32)>,
    paths: Map<Box<[u8]>, u32>,
    open: HashMap<Vec<u8>, Vec<Begun>>,
    /// Ends of slices that are told apart by an id and whose begin stands behind.
    ended: HashMap<Vec<u8>, i64>,
    /// The last moment of anything.
    last: i64,
}

/// Begun slices of one thread or id that are remembered; deeper ones are damage.
const OPEN_MAX: usize = 4096;

/// Ends that wait for their begin.
const ENDED_MAX: usize = 1 << 20;

/// What becomes of process ids that no system gives.
const WIDE_NUMBERS: &str =
    "process ids of more than 32 bits: their lower 32 bits are shown, and those alike in these count as one process";

/// What a kind of event is, looked up once.
#[derive(Clone, Copy)]
struct Known {
    kind: u32,
    call: Option<&'static OpInfo>,
}

/// A slice that has begun.
struct Begun {
    ts: i64,
    known: Known,
    owner: (u32, i32),
    args: Option<Vec<u8>>,
}

/// The fields of an event that matter.
#[derive(Clone, Default)]
struct Event<'a> {
    name: Option<Json<'a>>,
    cat: Option<Json<'a>>,
    ph: u8,
    ts: Option<i64>,
    dur: Option<i64>,
    pid: i64,
    tid: i64,
    id: &'a [u8],
    /// The arguments, and all of them as they stand in the text.
    args: Vec<(&'a [u8], Json<'a>)>,
    args_text: &'a [u8],
    /// The values that may differ in events that are alike, and where each belongs.
    values: Vec<(&'a [u8], Belongs)>,
}

/// Where a value belongs in an event.
#[derive(Clone, Copy)]
enum Belongs {
    Slot(Slot),
    /// To the arguments, by its place among them.
    Arg(usize),
}

/// A column of an event that an argument may fill.
#[derive(Clone, Copy)]
pub enum Column {
    /// The hash of a file.
    Hash,
    /// The name of a file.
    Path,
    Epoch,
    Step,
    Fd,
    Pos,
    Requested,
    Bytes,
    Ret,
    Errno,
}

impl Column {
    /// The column an argument has of its own.
    fn of(key: &[u8], call: Option<&OpInfo>) -> Option<Column> {
        Some(match word(key) {
            key::EPOCH => Column::Epoch,
            key::STEP => Column::Step,
            key::FHASH => Column::Hash,
            key::FILE | key::FNAME | key::FILENAME | key::PATH if call.is_some() => Column::Path,
            key::FD if call.is_some() => Column::Fd,
            key::POS | key::OFFSET if call.is_some_and(has_position) => Column::Pos,
            key::REQUESTED | key::COUNT | key::SIZE if call.is_some_and(has_size) => Column::Requested,
            key::BYTES => Column::Bytes,
            key::RET => Column::Ret,
            key::ERRNO => Column::Errno,
            _ => return None,
        })
    }

    /// Whether its value is a text that stands for a file.
    #[inline(always)]
    pub fn is_file(self) -> bool {
        matches!(self, Column::Hash | Column::Path)
    }

    /// Writes a number; `None` where the value is none.
    #[inline(always)]
    pub fn set(self, row: &mut Row, number: Option<i64>) {
        let short = |kept: i32| number.and_then(|number| number.try_into().ok()).unwrap_or(kept);
        match self {
            Column::Hash | Column::Path => {}
            Column::Epoch => row.epoch = short(row.epoch),
            Column::Step => row.step = short(row.step),
            Column::Fd => row.fd = short(row.fd),
            Column::Pos => row.pos = number.unwrap_or(ABSENT),
            Column::Requested => row.requested = number.unwrap_or(ABSENT),
            Column::Bytes => row.bytes = number.unwrap_or(ABSENT),
            Column::Ret => row.ret = number.unwrap_or(ABSENT),
            Column::Errno => row.ret = number.and_then(i64::checked_neg).unwrap_or(row.ret),
        }
    }
}

/// A key of up to sixteen bytes as one number, which is compared with many others at once; longer ones are all the same.
#[inline(always)]
const fn word(key: &[u8]) -> u128 {
    let length = key.len();
    let whole = match length {
        0 => 0,
        1..4 => key[0] as u128 | (key[length / 2] as u128) << 8 | (key[length - 1] as u128) << 16,
        4..8 => four(key, 0) as u128 | (four(key, length - 4) as u128) << 32,
        8..=16 => eight(key, 0) as u128 | (eight(key, length - 8) as u128) << 64,
        _ => return u128::MAX,
    };
    // The first and last bytes overlap where there are few: the length tells those keys apart.
    whole ^ (length as u128) << 123
}

#[inline(always)]
const fn four(key: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]])
}

#[inline(always)]
const fn eight(key: &[u8], at: usize) -> u64 {
    four(key, at) as u64 | (four(key, at + 4) as u64) << 32
}

/// The keys that mean something.
mod key {
    use super::word;

    pub const NAME: u128 = word(b"name");
    pub const CAT: u128 = word(b"cat");
    pub const PH: u128 = word(b"ph");
    pub const TS: u128 = word(b"ts");
    pub const DUR: u128 = word(b"dur");
    pub const PID: u128 = word(b"pid");
    pub const TID: u128 = word(b"tid");
    pub const ID: u128 = word(b"id");
    pub const ID2: u128 = word(b"id2");
    pub const ARGS: u128 = word(b"args");
    pub const HHASH: u128 = word(b"hhash");
    pub const FHASH: u128 = word(b"fhash");
    pub const EPOCH: u128 = word(b"epoch");
    pub const STEP: u128 = word(b"step");
    pub const FILE: u128 = word(b"file");
    pub const FNAME: u128 = word(b"fname");
    pub const FILENAME: u128 = word(b"filename");
    pub const PATH: u128 = word(b"path");
    pub const FD: u128 = word(b"fd");
    pub const POS: u128 = word(b"pos");
    pub const OFFSET: u128 = word(b"offset");
    pub const REQUESTED: u128 = word(b"requested");
    pub const COUNT: u128 = word(b"count");
    pub const SIZE: u128 = word(b"size");
    pub const BYTES: u128 = word(b"bytes");
    pub const RET: u128 = word(b"ret");
    pub const ERRNO: u128 = word(b"errno");
    pub const SOURCE: u128 = word(super::SOURCE.as_bytes());
}

impl<'a> Event<'a> {
    /// Reads the object at the start of `text` in one go and says how long it is; `None` where it is cut or malformed.
    fn read(&mut self, text: &'a [u8]) -> Option<usize> {
        let (args, values) = (std::mem::take(&mut self.args), std::mem::take(&mut self.values));
        *self = Event { args, values, ..Event::default() };
        self.args.clear();
        self.values.clear();
        let mut fields = Fields::new(text);
        while let Some(key) = fields.key() {
            if word(key) == key::ARGS {
                let (args, values) = (&mut self.args, &mut self.values);
                let inner = fields.inner(|key, value| {
                    values.extend(variable(value).map(|value| (value, Belongs::Arg(args.len()))));
                    args.push((key, value));
                });
                self.args_text = match inner {
                    Some(args) => args,
                    None => fields.value().map(|_| &b""[..])?,
                };
            } else {
                self.field(key, fields.value()?);
            }
        }
        Some(text.len() - fields.after()?.len())
    }

    #[inline]
    fn field(&mut self, key: &[u8], value: Json<'a>) {
        let slot = match word(key) {
            key::TS => Some(Slot::Ts),
            key::DUR => Some(Slot::Dur),
            key::PID => Some(Slot::Pid),
            key::TID => Some(Slot::Tid),
            key::ID => Some(Slot::Nowhere),
            _ => None,
        };
        let number = variable(value).filter(|_| matches!(value, Json::Word(_)));
        self.values.extend(number.zip(slot.map(Belongs::Slot)));
        match (word(key), value) {
            (key::NAME, value) => self.name = Some(value),
            (key::CAT, value) => self.cat = Some(value),
            (key::PH, Json::Text(phase) | Json::Word(phase)) => self.ph = phase.first().copied().unwrap_or(0),
            (key::TS, value) => self.ts = value.microseconds(),
            (key::DUR, value) => self.dur = value.microseconds(),
            (key::PID, value) => self.pid = value.integer().unwrap_or(0),
            (key::TID, value) => self.tid = value.integer().unwrap_or(0),
            (key::ID | key::ID2, Json::Text(id) | Json::Word(id) | Json::Object(id)) => self.id = id,
            _ => {}
        }
    }

    fn arg(&self, wanted: &[u8]) -> Option<Json<'a>> {
        self.args.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value)
    }

    /// The hash of the host, where the event names it.
    fn host(&self) -> Option<&'a [u8]> {
        self.args.iter().find(|(key, _)| word(key) == key::HHASH).map(|(_, value)| value.raw())
    }
}

/// The bytes of a number or a text.
#[inline]
fn variable<'a>(value: Json<'a>) -> Option<&'a [u8]> {
    match value {
        Json::Text(text) => Some(text),
        Json::Word(word) => Some(word).filter(|word| matches!(word.first(), Some(b'0'..=b'9' | b'-'))),
        _ => None,
    }
}

impl Parser for JsonParser {
    fn parse(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize {
        let used = self.objects(text, last, into);
        if last {
            self.finish(into);
        }
        used
    }
}

impl JsonParser {
    fn objects(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize {
        let mut at = if self.begun { 0 } else { before_events(text) };
        self.begun = true;
        let (mut event, mut alike) = (Event::default(), Alike::default());
        loop {
            let Some(start) = text[at..].iter().position(|&byte| byte == b'{') else {
                return text.len();
            };
            at += start;
            if let Some((like, call, length)) = alike.read(&text[at..], into.catalog) {
                into.broken += !self.put_like(like, call, into) as u64;
                at += length;
                continue;
            }
            if let Some(length) = event.read(&text[at..]) {
                into.broken += !self.event(&event, into) as u64;
                if alike.pays() {
                    self.plan(&text[at..at + length], &event, into).into_iter().for_each(|plan| alike.remember(plan));
                }
                at += length;
                continue;
            }
            let gives_up = last || text.len() - at > super::text::ITEM_MAX / 2;
            match broken_end(&text[at..], gives_up) {
                Some(length) => {
                    into.broken += 1;
                    at += length;
                }
                None => return at,
            }
        }
    }
}

/// Where an object that is not well formed ends, if it is here at all. A quote that is missing would swallow all that
/// follows: what has no end is given up with its line.
fn broken_end(text: &[u8], gives_up: bool) -> Option<usize> {
    let line = || text.iter().position(|&byte| byte == b'\n').map(|length| length + 1);
    value_end(text).or_else(|| if gives_up { line() } else { None })
}

/// Where the list of events begins in the object form; 0 in any other.
fn before_events(text: &[u8]) -> usize {
    let key = b"\"traceEvents\"";
    let first_event = text.windows(5).position(|window| window == b"\"ph\":").unwrap_or(text.len());
    let found = text[..first_event].windows(key.len()).position(|window| window == key);
    found.map_or(0, |at| at + key.len())
}

impl JsonParser {
    /// A parser of one piece of a file; `said` is what all pieces of the file share.
    pub fn new(said: Arc<Mutex<Said>>) -> JsonParser {
        JsonParser {
            begun: false,
            said,
            files: Map::default(),
            file_last: None,
            kinds: Map::default(),
            key: Vec::new(),
            processes: Map::default(),
            process_last: None,
            paths: Map::default(),
            open: HashMap::new(),
            ended: HashMap::new(),
            last: i64::MIN,
        }
    }

    /// What follows is not the beginning of a file.
    pub fn continues(&mut self) {
        self.begun = true;
    }

    /// Takes note of what a piece says of hashes and processes, and of nothing else in it.
    pub fn learn(&mut self, text: &[u8], catalog: &Catalog) {
        let mut event = Event::default();
        for at in memchr::memmem::find_iter(text, b"\"cat\":\"dftracer\"") {
            let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |at| at + 1);
            if event.read(trimmed_start(&text[start..])).is_some() {
                self.resolve_hashes(&event, catalog);
            }
        }
    }

    /// Whether the object was one of the format.
    fn event(&mut self, event: &Event, into: &mut Threads) -> bool {
        match event.ph {
            b'X' | b'1' => self.complete(event, into).is_some(),
            b'B' | b'b' => self.begin(event, into).is_some(),
            b'E' | b'e' => self.end(event, into).is_some(),
            b'i' | b'I' | b'n' => self.moment(event, Origin::Instant, into).is_some(),
            b'C' => self.moment(event, Origin::Counter, into).is_some(),
            b'M' | b'4' => self.describe(event, into),
            b'3' => self.aggregate(event, into).is_some(),
            // Without a phase it is no event: what stands beside the list, as `otherData`.
            _ => true,
        }
    }

    fn process(&mut self, event: &Event, into: &mut Threads) -> u32 {
        self.process_at(event.pid, event.host().unwrap_or(b""), into)
    }

    #[inline]
    fn process_at(&mut self, pid: i64, host: &[u8], into: &mut Threads) -> u32 {
        let hash = word(host);
        match self.process_last {
            Some((last, known, proc)) if last == pid && known == hash && hash != u128::MAX => return proc,
            _ => {}
        }
        let key = (pid, Box::from(host));
        let proc = match self.processes.get(&key) {
            Some(&proc) => proc,
            None => {
                if pid as i32 as i64 != pid {
                    into.remarks(WIDE_NUMBERS);
                }
                let proc = into.process(&self.host_name(pid, host), pid as i32, |_| ());
                self.processes.insert(key, proc);
                proc
            }
        };
        self.process_last = Some((pid, hash, proc));
        proc
    }

    /// The name behind the hash of a host; where an event has none, that of its process.
    fn host_name(&self, pid: i64, hash: &[u8]) -> String {
        let said = self.said.lock().expect("what was said");
        let hash = if hash.is_empty() { said.pids.get(&pid).map_or(hash, |hash| hash) } else { hash };
        said.hosts.get(hash).cloned().unwrap_or_else(|| "unknown".into())
    }

    fn known(&mut self, event: &Event, origin: Origin, into: &Threads) -> Option<Known> {
        let (Json::Text(name) | Json::Word(name)) = event.name? else { return None };
        let cat = match event.cat {
            Some(Json::Text(cat) | Json::Word(cat)) => cat,
            _ => b"app",
        };
        self.key.clear();
        self.key.extend_from_slice(cat);
        self.key.extend_from_slice(&[0, origin as u8]);
        self.key.extend_from_slice(name);
        if let Some(known) = self.kinds.get(self.key.as_slice()) {
            return Some(*known);
        }
        let known = kind(&Json::Text(name).text(), &Json::Text(cat).text(), origin, into.catalog);
        self.kinds.insert(self.key.as_slice().into(), known);
        Some(known)
    }

    fn complete(&mut self, event: &Event, into: &mut Threads) -> Option<()> {
        let known = self.known(event, Origin::Span, into)?;
        let row = Row::new(event.ts?, event.dur.unwrap_or(0).max(0), known.kind);
        self.put(event, row, known, into);
        Some(())
    }

    /// Slices that never ended become events up to the last moment; ends without a begin are damage.
    fn finish(&mut self, into: &mut Threads) {
        into.broken += std::mem::take(&mut self.ended).len() as u64;
        let open = std::mem::take(&mut self.open).into_values();
        let mut left: Vec<_> = open.flat_map(|begun| begun.into_iter().zip(0usize..)).collect();
        left.sort_by_key(|(begun, depth)| (begun.ts, *depth));
        for (begun, depth) in left {
            let dur = self.last.saturating_sub(begun.ts).max(0);
            let row = Row { depth: depth.min(255) as u8, ..Row::new(begun.ts, dur, begun.known.kind) };
            let said = Fields::new(begun.args.as_deref().unwrap_or_default());
            self.write(begun.owner, said.chain([(&b"unfinished"[..], Json::Text(b"true"))]), row, begun.known, into);
        }
    }

    fn place(event: &Event) -> Vec<u8> {
        let mut place = event.pid.to_le_bytes().to_vec();
        // Slices that do not nest are told apart by their id, the others by their thread.
        match event.ph {
            b'b' | b'e' => place.extend_from_slice(event.id),
            _ => place.extend_from_slice(&event.tid.to_le_bytes()),
        }
        place
    }

    fn begin(&mut self, event: &Event, into: &mut Threads) -> Option<()> {
        let known = self.known(event, Origin::Span, into)?;
        let place = Self::place(event);
        if let Some(end) = self.ended.remove(&place) {
            let ts = event.ts?;
            self.put(event, Row::new(ts, end.saturating_sub(ts).max(0), known.kind), known, into);
            return Some(());
        }
        let owner = (self.process(event, into), event.tid as i32);
        let open = self.open.entry(place).or_default();
        let args = (!event.args.is_empty()).then(|| event.args_text.to_vec());
        let begun = Begun { ts: event.ts?, known, owner, args };
        self.last = self.last.max(begun.ts);
        (open.len() < OPEN_MAX).then(|| open.push(begun))
    }

    fn end(&mut self, event: &Event, into: &mut Threads) -> Option<()> {
        let place = Self::place(event);
        let Some(begun) = self.open.get_mut(&place).and_then(Vec::pop) else {
            let waits = event.ph == b'e' && self.ended.len() < ENDED_MAX;
            return waits.then(|| {
                self.ended.insert(place, event.ts.unwrap_or(0));
            });
        };
        let open = &self.open[&place];
        let depth = open.len().min(255) as u8;
        let dur = event.ts?.saturating_sub(begun.ts).max(0);
        let row = Row { depth, ..Row::new(begun.ts, dur, begun.known.kind) };
        match &begun.args {
            Some(args) => self.put_args(event, Fields::new(args), row, begun.known, into),
            None => self.put(event, row, begun.known, into),
        }
        Some(())
    }

    fn moment(&mut self, event: &Event, origin: Origin, into: &mut Threads) -> Option<()> {
        let known = self.known(event, origin, into)?;
        self.put(event, Row::new(event.ts?, 0, known.kind), Known { call: None, ..known }, into);
        Some(())
    }

    /// Writes an event with what its arguments say.
    fn put(&mut self, event: &Event, row: Row, known: Known, into: &mut Threads) {
        self.put_args(event, event.args.iter().copied(), row, known, into);
    }

    fn put_args<'t>(
        &mut self,
        event: &Event,
        said: impl Iterator<Item = (&'t [u8], Json<'t>)>,
        row: Row,
        known: Known,
        into: &mut Threads,
    ) {
        let owner = (self.process(event, into), event.tid as i32);
        self.write(owner, said, row, known, into);
    }

    fn write<'t>(
        &mut self,
        (proc, tid): (u32, i32),
        said: impl Iterator<Item = (&'t [u8], Json<'t>)>,
        mut row: Row,
        known: Known,
        into: &mut Threads,
    ) {
        self.last = self.last.max(row.ts.saturating_add(row.dur));
        let (mut args, mut source) = (Vec::new(), None);
        for (key, value) in said {
            if word(key) == key::SOURCE && known.call.is_some_and(has_source) {
                source = Some(self.path(value, into.catalog));
            }
            match Column::of(key, known.call) {
                Some(column) if column.is_file() => row.file = self.file(column, value, into.catalog),
                Some(column) => column.set(&mut row, whole(value)),
                None if into.wanted.args && word(key) != key::HHASH => {
                    args.push((into.catalog.text(&Json::Text(key).text()), meta(value, into.catalog)));
                }
                None => {}
            }
        }
        settle(&mut row, known.call);
        into.event_from(proc, tid, &row, source, args);
    }

    /// Writes an event that is like another.
    #[inline]
    fn put_like(&mut self, like: &Like, call: Option<&OpInfo>, into: &mut Threads) -> bool {
        if like.timed {
            let mut row = like.row;
            self.last = self.last.max(row.ts.saturating_add(row.dur));
            let proc = self.process_at(like.pid, like.host, into);
            row.file = like.file.map_or(row.file, |(column, value)| self.file(column, value, into.catalog));
            settle(&mut row, call);
            into.event(proc, like.tid as i32, &row, like.args.iter().cloned());
        }
        like.timed
    }

    /// How to read events like this one. Pairs are told apart by more than numbers; what describes others comes but once,
    /// and copies from file to file are few.
    fn plan<'a>(&mut self, object: &'a [u8], event: &Event<'a>, into: &Threads) -> Option<Plan<'a>> {
        let origin = match event.ph {
            b'X' | b'1' => Origin::Span,
            b'i' | b'I' => Origin::Instant,
            b'C' => Origin::Counter,
            _ => return None,
        };
        let known = self.known(event, origin, into).filter(|known| !known.call.is_some_and(has_source))?;
        let (call, dur) = match origin {
            Origin::Span => (known.call, event.dur.unwrap_or(0).max(0)),
            _ => (None, 0),
        };
        let mut args = Vec::new();
        let places = slots_of_args(event, call, into, &mut args)?;
        let slot = |belongs: &Belongs| match *belongs {
            Belongs::Slot(Slot::Dur) if origin != Origin::Span => Slot::Nowhere,
            Belongs::Slot(slot) => slot,
            Belongs::Arg(at) => places[at],
        };
        let row = Row::new(event.ts.unwrap_or(0), dur, known.kind);
        let like = Like {
            row,
            timed: event.ts.is_some(),
            pid: event.pid,
            tid: event.tid,
            host: event.host().unwrap_or(b""),
            file: None,
            args,
        };
        let slots = event.values.iter().map(|(_, belongs)| slot(belongs)).collect();
        let shape = Shape::new(object, event.values.iter().map(|(value, _)| *value));
        Some(Plan { shape, slots, call, row, like })
    }

    fn file(&mut self, column: Column, value: Json, catalog: &Catalog) -> u32 {
        match column {
            Column::Hash => self.hashed(value, catalog),
            _ => self.path(value, catalog),
        }
    }

    fn path(&mut self, value: Json, catalog: &Catalog) -> u32 {
        let (Json::Text(raw) | Json::Word(raw)) = value else { return FILE_NONE };
        if let Some(&file) = self.paths.get(raw) {
            return file;
        }
        let file = catalog.file(&value.text());
        self.paths.insert(raw.into(), file);
        file
    }

    /// A file named by its hash. The line that resolves it may stand behind.
    fn hashed(&mut self, value: Json, catalog: &Catalog) -> u32 {
        let (Json::Text(hash) | Json::Word(hash)) = value else { return FILE_NONE };
        let word = word(hash);
        match self.file_last {
            Some((known, file)) if known == word && word != u128::MAX => return file,
            _ => {}
        }
        let file = match self.files.get(hash) {
            Some(&file) => file,
            None => self.look_up(hash, catalog),
        };
        self.file_last = Some((word, file));
        file
    }

    fn look_up(&mut self, hash: &[u8], catalog: &Catalog) -> u32 {
        let mut said = self.said.lock().expect("what was said");
        let file = *said.files.entry(hash.into()).or_insert_with(|| catalog.file(&unresolved(hash)));
        self.files.insert(hash.into(), file);
        file
    }

    /// Lines that say something of processes or resolve a hash.
    fn describe(&mut self, event: &Event, into: &mut Threads) -> bool {
        let Some(Json::Text(name)) = event.name else { return false };
        let text = |key: &[u8]| event.arg(key).map(|value| value.text().into_owned());
        self.resolve_hashes(event, into.catalog);
        match name {
            b"process_name" => {
                let proc = self.process(event, into);
                into.catalog.amend(proc, |process| process.program = text(b"name"));
            }
            b"thread_name" => {
                let proc = self.process(event, into);
                let name = text(b"name").unwrap_or_default();
                into.catalog.amend(proc, |process| {
                    if !process.threads.iter().any(|(tid, _)| *tid == event.tid as i32) {
                        process.threads.push((event.tid as i32, name));
                    }
                });
            }
            _ => {}
        }
        true
    }

    /// Lines of DFTracer that give a hash its name, and a process its host.
    fn resolve_hashes(&mut self, event: &Event, catalog: &Catalog) {
        let hash = match event.arg(b"value") {
            Some(Json::Text(hash) | Json::Word(hash)) => hash,
            _ => b"",
        };
        let text = || event.arg(b"name").map_or_else(String::new, |value| value.text().into_owned());
        let mut said = self.said.lock().expect("what was said");
        if let Some(host) = event.host() {
            said.pids.entry(event.pid).or_insert_with(|| host.into());
        }
        match event.name {
            Some(Json::Text(b"FH")) => match said.files.get(hash) {
                Some(&file) => catalog.rename_file(file, &text()),
                None => drop(said.files.insert(hash.into(), catalog.file(&text()))),
            },
            Some(Json::Text(b"HH")) => drop(said.hosts.insert(hash.into(), text())),
            _ => {}
        }
    }

    fn aggregate(&mut self, event: &Event, into: &mut Threads) -> Option<()> {
        let calls = event.arg(b"dft_cnt").and_then(Json::integer)?;
        let proc = self.process(event, into);
        into.aggregated(proc, event.tid as i32, calls.max(0) as u64);
        Some(())
    }
}

/// Where the values of the arguments belong; those without a column are added to `args`, where they are wanted. `None` if
/// an argument has a column and a value that is neither number nor text.
fn slots_of_args(
    event: &Event,
    call: Option<&OpInfo>,
    into: &Threads,
    args: &mut Vec<(u32, Value)>,
) -> Option<Vec<Slot>> {
    let host = event.args.iter().position(|(key, _)| word(key) == key::HHASH);
    let slot = |(at, (key, value)): (usize, &(&[u8], Json))| match Column::of(key, call) {
        Some(column) => variable(*value).map(|_| Slot::Column(column)),
        None if Some(at) == host => Some(Slot::Host),
        None if into.wanted.args && word(key) != key::HHASH => {
            args.push((into.catalog.text(&Json::Text(key).text()), meta(*value, into.catalog)));
            Some(Slot::Arg(args.len() - 1))
        }
        None => Some(Slot::Nowhere),
    };
    event.args.iter().enumerate().map(slot).collect()
}

fn trimmed_start(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|&byte| byte == b'{').unwrap_or(line.len());
    &line[start..]
}

fn unresolved(hash: &[u8]) -> String {
    format!("<file {}>", String::from_utf8_lossy(hash))
}

fn has_position(info: &OpInfo) -> bool {
    info.a == dlio_schemas::ops::Arg::Position
}

fn has_size(info: &OpInfo) -> bool {
    info.b == dlio_schemas::ops::Arg::Size
}

/// Whether its bytes come from another file.
fn has_source(info: &OpInfo) -> bool {
    info.a == dlio_schemas::ops::Arg::Source
}

/// A whole number, though some write it with a point.
#[inline]
pub fn whole(value: Json) -> Option<i64> {
    let pointed = || value.float().filter(|number| number.fract() == 0.0 && number.abs() < EXACT_MAX);
    value.integer().or_else(|| pointed().map(|number| number as i64))
}

/// Beyond this a number with a point may not be the one that was meant.
const EXACT_MAX: f64 = (1u64 << 53) as f64;

/// Bytes follow from the result, and the result from bytes.
fn settle(row: &mut Row, call: Option<&OpInfo>) {
    if !call.is_some_and(OpInfo::moves_bytes) {
        return;
    }
    if row.bytes == ABSENT && row.ret >= 0 {
        row.bytes = row.ret;
    } else if row.ret == ABSENT {
        row.ret = row.bytes;
    }
}

/// A call of a known layer, or a span.
fn kind(name: &str, cat: &str, origin: Origin, catalog: &Catalog) -> Known {
    let layer = cat.to_ascii_lowercase();
    let is_layer = matches!(layer.as_str(), "posix" | "stdio" | "process");
    if origin != Origin::Span || !is_layer {
        return Known { kind: catalog.said(name, cat, origin), call: None };
    }
    let call = operation(name);
    let kind = call.and_then(|info| Catalog::kind_of_op(info.op)).unwrap_or_else(|| catalog.call(name, &layer));
    Known { kind, call }
}

/// The operation behind a name with the decorations of large files and of old C libraries.
fn operation(name: &str) -> Option<&'static OpInfo> {
    let plain = name.strip_prefix("__x").or_else(|| name.strip_prefix("__")).unwrap_or(name);
    let plain = plain.strip_suffix("64").filter(|_| plain != "getdents64").unwrap_or(plain);
    [name, plain].iter().find_map(|name| Op::from_name(name)).and_then(Op::info)
}

/// The value of an argument without a column.
pub fn meta(value: Json, catalog: &Catalog) -> Value {
    match value {
        Json::Word(_) if value.integer().is_some() => Value::Int(value.integer().unwrap_or(0)),
        Json::Word(_) if value.float().is_some() => Value::Float(value.float().unwrap_or(0.0)),
        other => Value::Text(catalog.text(&other.text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_same_ends_are_told_apart() {
        let keys = [
            "",
            "a",
            "aa",
            "aaa",
            "aaaa",
            "aaaaaaaa",
            "aaaaaaaaaaaaaaaa",
            "ts",
            "tid",
            "pid",
            "id",
            "id2",
            "dur",
            "errno",
        ];
        let words: std::collections::HashSet<_> = keys.iter().map(|key| word(key.as_bytes())).collect();
        assert_eq!(words.len(), keys.len());
    }
}
