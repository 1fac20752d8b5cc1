//! Chrome's trace events, as an array or an object, and DFTracer's lines, which are a relative of them.
//!
//! ```text
//! [{"ph":"X","name":"read","cat":"posix","pid":1,"tid":2,"ts":12.345,"dur":0.678,"args":{"file":"/a","bytes":4096}}, ...
//! {"traceEvents":[ ... ]}
//! {"id":3,"name":"pread","cat":"POSIX","pid":1,"tid":2,"ts":1795219511213560,"dur":738,"ph":1,"args":{"fhash":"4aa1", ...}}
//! ```
//!
//! Complete events, pairs of begin and end, instants and counters become events; flows and what describes the view do not.
//! DFTracer names files, hosts and programs by hashes, which lines of their own resolve. Its aggregates say how many calls
//! there were and not when: they count as lost.

use std::collections::HashMap;

use dlio_schemas::ops::{Op, OpInfo};

use super::pull::{Fields, Json, value_end};
use super::text::{Parser, Threads};
use crate::batch::{ABSENT, Row, Value};
use crate::catalog::{Catalog, FILE_NONE, Origin};

#[derive(Default)]
pub struct JsonParser {
    begun: bool,
    /// Names by hash.
    files: HashMap<Box<[u8]>, u32>,
    hosts: HashMap<Box<[u8]>, String>,
    /// Numbers of kinds by category and name, so that most events need no look at the catalogue.
    kinds: HashMap<Box<[u8]>, Known>,
    processes: HashMap<(i64, Box<[u8]>), u32>,
    paths: HashMap<Box<[u8]>, u32>,
    open: HashMap<Vec<u8>, Vec<Begun>>,
    /// Ends of slices that are told apart by an id and whose begin stands behind.
    ended: HashMap<Vec<u8>, i64>,
}

/// Begun slices of one thread or id that are remembered; deeper ones are damage.
const OPEN_MAX: usize = 4096;

/// Ends that wait for their begin.
const ENDED_MAX: usize = 1 << 20;

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
    args: Option<Vec<u8>>,
}

/// The fields of an event that matter.
#[derive(Default, Clone, Copy)]
struct Event<'a> {
    name: Option<Json<'a>>,
    cat: Option<Json<'a>>,
    ph: u8,
    ts: Option<i64>,
    dur: Option<i64>,
    pid: i64,
    tid: i64,
    id: &'a [u8],
    args: Option<&'a [u8]>,
}

impl<'a> Event<'a> {
    fn of(object: &'a [u8]) -> Event<'a> {
        let mut event = Event::default();
        for (key, value) in Fields::new(object) {
            match (key, value) {
                (b"name", value) => event.name = Some(value),
                (b"cat", value) => event.cat = Some(value),
                (b"ph", Json::Text(phase) | Json::Word(phase)) => event.ph = phase.first().copied().unwrap_or(0),
                (b"ts", value) => event.ts = value.microseconds(),
                (b"dur", value) => event.dur = value.microseconds(),
                (b"pid", value) => event.pid = value.integer().unwrap_or(0),
                (b"tid", value) => event.tid = value.integer().unwrap_or(0),
                (b"id" | b"id2", Json::Text(id) | Json::Word(id) | Json::Object(id)) => event.id = id,
                (b"args", Json::Object(args)) => event.args = Some(args),
                _ => {}
            }
        }
        event
    }

    fn arg(&self, wanted: &[u8]) -> Option<Json<'a>> {
        Fields::new(self.args?).find(|(key, _)| *key == wanted).map(|(_, value)| value)
    }
}

impl Parser for JsonParser {
    fn parse(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize {
        let mut at = if self.begun { 0 } else { before_events(text) };
        self.begun = true;
        loop {
            let Some(start) = text[at..].iter().position(|&byte| byte == b'{') else {
                return text.len();
            };
            at += start;
            let line = text[at..].iter().position(|&byte| byte == b'\n');
            match value_end(&text[at..]) {
                Some(length) => {
                    if !self.event(Event::of(&text[at..at + length]), into) {
                        into.broken += 1;
                    }
                    at += length;
                }
                // A quote that is missing would swallow all that follows: a line of its own is then given up.
                None if (last || text.len() - at > super::text::ITEM_MAX / 2) && line.is_some() => {
                    into.broken += 1;
                    at += line.unwrap_or(0) + 1;
                }
                None => return at,
            }
        }
    }
}

/// Where the list of events begins in the object form; 0 in any other.
fn before_events(text: &[u8]) -> usize {
    let key = b"\"traceEvents\"";
    let first_event = text.windows(5).position(|window| window == b"\"ph\":").unwrap_or(text.len());
    let found = text[..first_event].windows(key.len()).position(|window| window == key);
    found.map_or(0, |at| at + key.len())
}

impl JsonParser {
    /// Whether the object was one of the format.
    fn event(&mut self, event: Event, into: &mut Threads) -> bool {
        match event.ph {
            b'X' | b'1' => self.complete(&event, into).is_some(),
            b'B' | b'b' => self.begin(&event, into).is_some(),
            b'E' | b'e' => self.end(&event, into).is_some(),
            b'i' | b'I' | b'n' => self.moment(&event, Origin::Instant, into).is_some(),
            b'C' => self.moment(&event, Origin::Counter, into).is_some(),
            b'M' | b'4' => self.describe(&event, into),
            b'3' => self.aggregate(&event, into).is_some(),
            // Without a phase it is no event: what stands beside the list, as `otherData`.
            _ => true,
        }
    }

    fn process(&mut self, event: &Event, into: &mut Threads) -> u32 {
        let host = match event.arg(b"hhash") {
            Some(Json::Text(hash) | Json::Word(hash)) => hash,
            _ => b"",
        };
        if let Some(&proc) = self.processes.get(&(event.pid, Box::from(host))) {
            return proc;
        }
        let name = self.hosts.get(host).cloned().unwrap_or_else(|| "unknown".into());
        let proc = into.process(&name, event.pid as i32, |_| ());
        self.processes.insert((event.pid, host.into()), proc);
        proc
    }

    fn known(&mut self, event: &Event, origin: Origin, into: &Threads) -> Option<Known> {
        let (Json::Text(name) | Json::Word(name)) = event.name? else { return None };
        let cat = match event.cat {
            Some(Json::Text(cat) | Json::Word(cat)) => cat,
            _ => b"app",
        };
        let key = [cat, &[0, origin as u8], name].concat();
        if let Some(known) = self.kinds.get(key.as_slice()) {
            return Some(*known);
        }
        let known = kind(&Json::Text(name).text(), &Json::Text(cat).text(), origin, into.catalog);
        self.kinds.insert(key.into(), known);
        Some(known)
    }

    fn complete(&mut self, event: &Event, into: &mut Threads) -> Option<()> {
        let known = self.known(event, Origin::Span, into)?;
        let row = Row::new(event.ts?, event.dur.unwrap_or(0).max(0), known.kind);
        self.put(event, row, known, into);
        Some(())
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
        let open = self.open.entry(place).or_default();
        let begun = Begun { ts: event.ts?, known, args: event.args.map(<[u8]>::to_vec) };
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
        let whole = Event { args: begun.args.as_deref().or(event.args), ..*event };
        self.put(&whole, row, begun.known, into);
        Some(())
    }

    fn moment(&mut self, event: &Event, origin: Origin, into: &mut Threads) -> Option<()> {
        let known = self.known(event, origin, into)?;
        self.put(event, Row::new(event.ts?, 0, known.kind), Known { call: None, ..known }, into);
        Some(())
    }

    /// Writes an event with what its arguments say.
    fn put(&mut self, event: &Event, mut row: Row, known: Known, into: &mut Threads) {
        let proc = self.process(event, into);
        let mut args = Vec::new();
        for (key, value) in event.args.map(Fields::new).into_iter().flatten() {
            let used = self.argument(&mut row, key, value, known.call, into.catalog);
            if !used && into.wanted.args && key != b"hhash" {
                args.push((into.catalog.text(&Json::Text(key).text()), meta(value, into.catalog)));
            }
        }
        settle(&mut row, known.call);
        into.event(proc, event.tid as i32, &row, args);
    }

    /// Whether an argument has a column of its own.
    fn argument(&mut self, row: &mut Row, key: &[u8], value: Json, call: Option<&OpInfo>, catalog: &Catalog) -> bool {
        match key {
            b"epoch" => row.epoch = value.integer().and_then(|n| n.try_into().ok()).unwrap_or(row.epoch),
            b"step" => row.step = value.integer().and_then(|n| n.try_into().ok()).unwrap_or(row.step),
            b"fhash" => row.file = self.hashed(value, catalog),
            b"file" | b"fname" | b"filename" | b"path" if call.is_some() => row.file = self.path(value, catalog),
            b"fd" if call.is_some() => row.fd = value.integer().and_then(|n| n.try_into().ok()).unwrap_or(row.fd),
            b"pos" | b"offset" if call.is_some_and(has_position) => row.pos = value.integer().unwrap_or(ABSENT),
            b"requested" | b"count" | b"size" if call.is_some_and(has_size) => {
                row.requested = value.integer().unwrap_or(ABSENT);
            }
            b"bytes" => row.bytes = value.integer().unwrap_or(ABSENT),
            b"ret" => row.ret = value.integer().unwrap_or(ABSENT),
            b"errno" => row.ret = value.integer().and_then(i64::checked_neg).unwrap_or(row.ret),
            _ => return false,
        }
        true
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
        if let Some(&file) = self.files.get(hash) {
            return file;
        }
        let file = catalog.file(&unresolved(hash));
        self.files.insert(hash.into(), file);
        file
    }

    /// Lines that say something of processes or resolve a hash.
    fn describe(&mut self, event: &Event, into: &mut Threads) -> bool {
        let Some(Json::Text(name)) = event.name else { return false };
        let text = |key: &[u8]| event.arg(key).map(|value| value.text().into_owned());
        let hash = match event.arg(b"value") {
            Some(Json::Text(hash) | Json::Word(hash)) => hash,
            _ => b"",
        };
        match name {
            b"FH" => self.resolve(hash, &text(b"name").unwrap_or_default(), into.catalog),
            b"HH" => drop(self.hosts.insert(hash.into(), text(b"name").unwrap_or_default())),
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

    fn resolve(&mut self, hash: &[u8], path: &str, catalog: &Catalog) {
        match self.files.get(hash) {
            Some(&file) => catalog.rename_file(file, path),
            None => drop(self.files.insert(hash.into(), catalog.file(path))),
        }
    }

    fn aggregate(&mut self, event: &Event, into: &mut Threads) -> Option<()> {
        let calls = event.arg(b"dft_cnt").and_then(Json::integer)?;
        let proc = self.process(event, into);
        into.lost(proc, event.tid as i32, calls.max(0) as u64);
        Some(())
    }
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

fn meta(value: Json, catalog: &Catalog) -> Value {
    match value {
        Json::Word(_) if value.integer().is_some() => Value::Int(value.integer().unwrap_or(0)),
        Json::Word(_) if value.float().is_some() => Value::Float(value.float().unwrap_or(0.0)),
        other => Value::Text(catalog.text(&other.text())),
    }
}
