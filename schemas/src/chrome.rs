//! Chrome's trace event format, and DFTracer's lines, which are a relative of it.
//!
//! [`Form::Chrome`] is one JSON object that chrome://tracing, Perfetto and speedscope load: a call is an `X` event, times
//! are microseconds with three decimals, so that nothing is rounded. [`Form::Dftracer`] is one object a line, with
//! times of whole microseconds since 1970 and paths as hashes that lines named `FH` resolve, for DFTracer's own tools.
//!
//! ```text
//! {"displayTimeUnit":"ns","traceEvents":[
//! {"ph":"X","name":"pread","cat":"posix","pid":1,"tid":1,"ts":12.345,"dur":0.678,"args":{"file":"/data/a", ...}},
//! ...
//! ],"otherData":{...}}
//! ```
//!
//! Like the Perfetto exporter this may run inside a traced process: it holds one piece of output and no event.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::clock::Clock;
use crate::native::block::Opener;
use crate::native::columns::Events;
use crate::native::fields::{Fields, decimal, key};
use crate::native::file::{Image, decode};
use crate::native::names::Names;
use crate::native::ring::OpenSpan;
use crate::ops::{Arg, Layer, Op, OpInfo, Ret};
use crate::perfetto::lanes::{Lanes, Place};
use crate::perfetto::layout::{Key, hash};
use crate::perfetto::pack::Sink;
use crate::perfetto::write::{Summary, complete_fields};
use crate::record::{MetaKind, STEP_NONE, unpack_steps};

/// Text gathered before it is compressed and handed over; one member of a gzip file each.
const GATHERED: usize = 256 << 10;

const META_MAX: usize = 256;

const GZIP_LEVEL: i32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    #[default]
    Chrome,
    Dftracer,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub form: Form,
    /// Members of about a quarter MiB of text, one after the other: a cut file loses its last.
    pub gzip: bool,
    /// Unix time of zero, for files of several hosts. Left out, times are the boot time of the first process: numbers small
    /// enough that viewers, which keep them as floating point, keep the nanoseconds too.
    pub zero_unix_ns: Option<i64>,
}

/// Writes one process image whole. `bytes` is the `.dlt` its blocks lie in.
pub fn export(image: &Image, bytes: &[u8], sink: &mut Sink, options: &Options) -> io::Result<Summary> {
    let Some(clock) = image.clock() else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the trace holds no moment on a clock"));
    };
    let mut writer = Writer::new(sink, options)?;
    let process = writer.process(&complete_fields(image), &clock)?;
    let mut opener = Opener::new()?;
    let mut events = Events::default();
    let mut damaged = 0;
    for block in &image.blocks {
        match decode(block, bytes, &mut opener, &mut events) {
            Ok(()) => writer.batch(process, block.header.tid, &events, &clock, &image.names)?,
            Err(_) => damaged += 1,
        }
    }
    for leftover in &image.leftovers {
        writer.batch(process, leftover.tid, &leftover.events, &clock, &image.names)?;
    }
    writer.open_spans(process, &image.open_spans, image.last_tick(), &clock, &image.names)?;
    Ok(Summary { damaged, ..writer.finish()? })
}

/// Which process of a [`Writer`] a batch belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(usize);

/// Many processes in one file: announce each, then give batches of events of one thread in any order of threads.
pub struct Writer<'a> {
    out: Output<'a>,
    form: Form,
    zero_unix_ns: Option<i64>,
    processes: Vec<Process>,
    threads: BTreeMap<(ProcessId, u32), Thread>,
    hashed: BTreeSet<u64>,
    summary: Summary,
    starts: Vec<i64>,
    ends: Vec<i64>,
    end_ticks: Vec<u64>,
}

struct Process {
    pid: i64,
    host_hash: u64,
    fields: Fields,
    /// What is added to boot time.
    shift_ns: i64,
}

#[derive(Default)]
struct Thread {
    lanes: Lanes,
    metadata: Vec<Meta>,
}

#[derive(Clone, Copy)]
struct Meta {
    key: u32,
    kind: i32,
    value: i64,
}

struct Call<'e> {
    op: Op,
    info: Option<&'static OpInfo>,
    tid: u32,
    begin: u64,
    end: u64,
    depth: u8,
    file: u32,
    fd: i32,
    a: Option<i64>,
    b: i64,
    ret: i64,
    unfinished: bool,
    metadata: &'e [Meta],
}

impl Call<'_> {
    fn names_itself(&self) -> bool {
        matches!(self.op, Op::SPAN | Op::INSTANT | Op::COUNTER)
    }
}

impl<'a> Writer<'a> {
    pub fn new(sink: &'a mut Sink<'a>, options: &Options) -> io::Result<Writer<'a>> {
        let mut out = Output::new(sink, options.gzip);
        if options.form == Form::Chrome {
            out.raw("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        }
        Ok(Writer {
            out,
            form: options.form,
            zero_unix_ns: options.zero_unix_ns,
            processes: Vec::new(),
            threads: BTreeMap::new(),
            hashed: BTreeSet::new(),
            summary: Summary::default(),
            starts: Vec::new(),
            ends: Vec::new(),
            end_ticks: Vec::new(),
        })
    }

    /// Announces a process and its threads.
    pub fn process(&mut self, fields: &Fields, clock: &Clock) -> io::Result<ProcessId> {
        let zero = match self.form {
            Form::Chrome => *self.zero_unix_ns.get_or_insert(clock.real_offset_ns),
            Form::Dftracer => 0,
        };
        let process = Process {
            pid: fields.number(key::PID).unwrap_or(0),
            host_hash: hash(&[fields.get(key::HOST).unwrap_or("").as_bytes()]),
            fields: fields.clone(),
            shift_ns: clock.real_offset_ns.wrapping_sub(zero),
        };
        match self.form {
            Form::Chrome => self.announce(&process),
            Form::Dftracer => self.announce_hashed(&process),
        }
        self.processes.push(process);
        self.out.breathe()?;
        Ok(ProcessId(self.processes.len() - 1))
    }

    fn announce(&mut self, process: &Process) {
        let fields = &process.fields;
        let program = fields.get(key::PROGRAM).unwrap_or("process");
        self.chrome_metadata("process_name", process.pid, process.pid, "name", program);
        let rank = fields.get(key::RANK).map(|rank| format!("rank {rank}"));
        let host = fields.get(key::HOST).map(|host| format!("host {host}"));
        let said = [key::LABEL, key::OVERVIEW].map(|key| fields.get(key).map(str::to_string));
        let labels: Vec<_> = [rank, host].into_iter().chain(said).flatten().collect();
        self.chrome_metadata("process_labels", process.pid, process.pid, "labels", &labels.join(", "));
        let command = fields.get(key::COMMAND).unwrap_or("").replace('\0', " ");
        self.chrome_metadata("process_command", process.pid, process.pid, "command", &command);
        for (tid, name) in
            fields.get(key::THREADS).unwrap_or("").split_terminator('\0').filter_map(|p| p.split_once('='))
        {
            self.chrome_metadata("thread_name", process.pid, tid.parse().unwrap_or(0), "name", name);
        }
    }

    fn chrome_metadata(&mut self, name: &str, pid: i64, tid: i64, key: &str, text: &str) {
        let out = &mut self.out;
        out.next();
        out.raw("{\"ph\":\"M\",\"name\":\"");
        out.raw(name);
        out.raw("\",\"pid\":");
        out.number(pid);
        out.raw(",\"tid\":");
        out.number(tid);
        out.raw(",\"args\":{\"");
        out.raw(key);
        out.raw("\":");
        out.text(text.as_bytes());
        out.raw("}}");
    }

    fn announce_hashed(&mut self, process: &Process) {
        let host = process.fields.get(key::HOST).unwrap_or("").to_string();
        self.hash_line("HH", process, host.as_bytes());
        let command = process.fields.get(key::COMMAND).unwrap_or("").replace('\0', " ");
        self.hash_line("SH", process, command.as_bytes());
        let cwd = process.fields.get(key::CWD).unwrap_or("").to_string();
        self.hash_line("SH", process, cwd.as_bytes());
    }

    /// Resolves a hash, once a process.
    fn hash_line(&mut self, name: &str, process: &Process, text: &[u8]) -> u64 {
        let value = hash(&[text]);
        let once = hash(&[name.as_bytes(), &process.pid.to_le_bytes(), &process.host_hash.to_le_bytes(), text]);
        if self.hashed.insert(once) {
            let out = &mut self.out;
            out.raw("{\"name\":\"");
            out.raw(name);
            out.raw("\",\"cat\":\"dftracer\",\"type\":1,\"pid\":");
            out.number(process.pid);
            out.raw(",\"tid\":");
            out.number(process.pid);
            out.raw(",\"ph\":4,\"args\":{\"hhash\":");
            out.hash(process.host_hash);
            out.raw(",\"name\":");
            out.text(text);
            out.raw(",\"value\":");
            out.hash(value);
            out.raw("}}\n");
        }
        value
    }

    /// Writes events of one thread, in the order they ended. Batches of one thread come in order.
    pub fn batch(
        &mut self,
        process: ProcessId,
        tid: u32,
        events: &Events,
        clock: &Clock,
        names: &Names,
    ) -> io::Result<()> {
        clock.convert(&events.start, &mut self.starts);
        self.end_ticks.clear();
        self.end_ticks.extend(events.start.iter().zip(&events.duration).map(|(s, d)| s.saturating_add(*d)));
        clock.convert(&self.end_ticks, &mut self.ends);
        let mut thread = self.threads.remove(&(process, tid)).unwrap_or_default();
        let mut metadata = std::mem::take(&mut thread.metadata);
        for i in 0..events.len() {
            let op = Op(events.op[i]);
            if op == Op::META {
                let meta = Meta { key: events.file[i], kind: events.fd[i], value: events.a[i] };
                if metadata.len() < META_MAX {
                    metadata.push(meta)
                } else {
                    self.summary.metadata_dropped += 1
                }
                continue;
            }
            let call = Call {
                op,
                info: op.info(),
                tid,
                begin: self.starts[i] as u64,
                end: (self.ends[i] as u64).max(self.starts[i] as u64),
                depth: events.depth[i],
                file: events.file[i],
                fd: events.fd[i],
                a: events.known[i].then_some(events.a[i]),
                b: events.b[i],
                ret: events.ret[i],
                unfinished: false,
                metadata: &metadata,
            };
            self.put(process, &mut thread.lanes, &call, names)?;
            metadata.clear();
        }
        thread.metadata = metadata;
        self.threads.insert((process, tid), thread);
        Ok(())
    }

    /// Writes spans that never ended as events up to the last tick, marked `unfinished`. Comes after all batches.
    pub fn open_spans(
        &mut self,
        process: ProcessId,
        spans: &[OpenSpan],
        last_tick: u64,
        clock: &Clock,
        names: &Names,
    ) -> io::Result<()> {
        let end = clock.boot_ns(last_tick);
        for span in spans.iter().rev() {
            let begin = clock.boot_ns(span.start);
            let call = Call {
                op: Op::SPAN,
                info: Op::SPAN.info(),
                tid: span.tid,
                begin,
                end: end.max(begin),
                depth: span.depth,
                file: span.name,
                fd: span.category as i32,
                a: Some(span.steps),
                b: 0,
                ret: 0,
                unfinished: true,
                metadata: &[],
            };
            let mut thread = self.threads.remove(&(process, span.tid)).unwrap_or_default();
            self.put(process, &mut thread.lanes, &call, names)?;
            self.threads.insert((process, span.tid), thread);
        }
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<Summary> {
        if self.form == Form::Chrome {
            self.out.raw("\n],\"otherData\":{");
            for (i, process) in self.processes.iter().enumerate() {
                self.out.raw(if i > 0 { ",\n\"" } else { "\n\"" });
                self.out.number(process.pid);
                self.out.raw("\":{");
                for (k, (key, text)) in process.fields.iter().enumerate() {
                    self.out.raw(if k > 0 { "," } else { "" });
                    self.out.text(key.as_bytes());
                    self.out.raw(":");
                    self.out.text(text.as_bytes());
                }
                self.out.raw("}");
            }
            self.out.raw("\n}}\n");
        }
        self.out.flush()?;
        Ok(Summary { bytes: self.out.written, ..self.summary })
    }

    fn put(&mut self, process: ProcessId, lanes: &mut Lanes, call: &Call, names: &Names) -> io::Result<()> {
        self.summary.events += 1;
        let owner = &self.processes[process.0];
        match self.form {
            Form::Chrome => put_chrome(&mut self.out, owner, lanes, call, names, self.summary.events),
            Form::Dftracer => self.put_line(process, call, names),
        }
        self.out.breathe()
    }

    fn put_line(&mut self, process: ProcessId, call: &Call, names: &Names) {
        if call.op == Op::LOST {
            self.summary.events -= 1;
            return;
        }
        let owner = self.processes.swap_remove(process.0);
        let path = |id: u32| names.get(id).map_or(&b"<unknown>"[..], |(_, text)| text);
        let file = (!call.names_itself() && call.file != 0).then(|| self.hash_line("FH", &owner, path(call.file)));
        put_dftracer(&mut self.out, &owner, call, names, file, self.summary.events);
        self.processes.push(owner);
        let last = self.processes.len() - 1;
        self.processes.swap(process.0, last);
    }
}

fn put_name_and_category(out: &mut Output, call: &Call, names: &Names) {
    if call.names_itself() {
        out.name(call.file, names, "unnamed");
        out.raw(",\"cat\":");
        if call.fd > 0 {
            out.name(call.fd as u32, names, "app")
        } else {
            out.raw("\"app\"")
        }
        return;
    }
    out.raw("\"");
    out.raw(call.info.map_or("operation", |info| info.name));
    out.raw("\",\"cat\":\"");
    out.raw(call.info.map_or(Layer::App, |info| info.layer).name());
    out.raw("\"");
}

/// An event, or two for a call that crosses others: chrome://tracing draws those as asynchronous.
fn put_chrome(out: &mut Output, owner: &Process, lanes: &mut Lanes, call: &Call, names: &Names, number: u64) {
    let shift = |ns: u64| (ns as i64).wrapping_add(owner.shift_ns);
    let head = |out: &mut Output, kind: &str, at: u64| {
        out.next();
        out.raw("{\"ph\":\"");
        out.raw(kind);
        out.raw("\",\"name\":");
        put_name_and_category(out, call, names);
        out.raw(",\"pid\":");
        out.number(owner.pid);
        out.raw(",\"tid\":");
        out.number(call.tid as i64);
        out.raw(",\"ts\":");
        out.microseconds(shift(at));
    };
    let mut beside = false;
    match call.op {
        Op::COUNTER => {
            head(out, "C", call.begin);
            out.raw(",\"args\":{\"value\":");
            out.float(f64::from_bits(call.a.unwrap_or(0) as u64));
            out.raw("}}");
            return;
        }
        Op::INSTANT | Op::LOST => {
            head(out, "i", call.begin);
            out.raw(",\"s\":\"t\"");
        }
        _ if lanes.place(call.begin, call.end, call.depth) == Place::Track => {
            head(out, "X", call.begin);
            out.raw(",\"dur\":");
            out.microseconds((call.end - call.begin) as i64);
        }
        _ => {
            // Numbers of a process: others may use them too.
            let id = |out: &mut Output| {
                out.raw(",\"id2\":{\"local\":\"");
                out.number(number as i64);
                out.raw("\"}");
            };
            head(out, "e", call.end);
            id(out);
            out.raw("}");
            head(out, "b", call.begin);
            id(out);
            beside = true;
        }
    }
    out.raw(",\"args\":{");
    let mut list = List { out, empty: true };
    if beside {
        // Viewers draw asynchronous events with their process, so the thread is said.
        list.number("tid", call.tid as i64);
    }
    put_arguments(&mut list, call, names);
    out.raw("}}");
}

fn put_arguments(list: &mut List, call: &Call, names: &Names) {
    if call.names_itself() {
        let (epoch, step) = call.a.map_or((STEP_NONE, STEP_NONE), unpack_steps);
        for (key, number) in [(Key::Epoch, epoch), (Key::Step, step)] {
            if number != STEP_NONE {
                list.number(key.name(), number as i64);
            }
        }
    } else {
        if call.file != 0 {
            list.name(Key::File.name(), call.file, names);
        }
        if call.fd != -1 {
            list.number(Key::Fd.name(), call.fd as i64);
        }
        put_numbers(list, call, names);
    }
    if call.unfinished {
        list.number(Key::Unfinished.name(), 1);
    }
    put_metadata(list, call.metadata, names);
}

fn put_numbers(list: &mut List, call: &Call, names: &Names) {
    let Some(info) = call.info else {
        list.number("operation", call.op.0 as i64);
        list.number(Key::Ret.name(), call.ret);
        return;
    };
    let arguments = [(info.a, false, call.a), (info.b, true, Some(call.b))];
    for (arg, second, number) in arguments {
        match (Key::of(arg, second), number) {
            (Some(key), Some(id)) if arg.is_name() => list.name(key.name(), id as u32, names),
            (Some(key), Some(number)) => list.number(key.name(), number),
            _ => (),
        }
    }
    match (call.ret, info.ret) {
        (ret, _) if ret < 0 => list.number(Key::Errno.name(), ret.wrapping_neg()),
        (ret, Ret::Bytes) => list.number(Key::Bytes.name(), ret),
        (ret, _) => list.number(Key::Ret.name(), ret),
    }
}

fn put_metadata(list: &mut List, metadata: &[Meta], names: &Names) {
    for meta in metadata {
        list.key(names.get(meta.key).map_or(&b"unknown"[..], |(_, text)| text));
        match MetaKind::from_fd(meta.kind) {
            Some(MetaKind::Float) => list.out.float(f64::from_bits(meta.value as u64)),
            Some(MetaKind::Text) => list.out.name(meta.value as u32, names, "unknown"),
            _ => list.out.number(meta.value),
        }
    }
}

/// One of DFTracer's lines: category in capitals, times in whole microseconds, the file as a hash.
fn put_dftracer(out: &mut Output, owner: &Process, call: &Call, names: &Names, file: Option<u64>, id: u64) {
    // Each end is rounded by itself, so that calls that lie apart stay apart.
    let us = |ns: u64| (ns as i64).wrapping_add(owner.shift_ns).div_euclid(1000);
    let layer = call.info.map_or(Layer::App, |info| info.layer);
    out.raw("{\"id\":");
    out.number(id as i64);
    out.raw(",\"name\":");
    if call.names_itself() {
        put_name_and_category(out, call, names);
    } else {
        out.raw("\"");
        out.raw(call.info.map_or("operation", |info| info.name));
        out.raw("\",\"cat\":\"");
        out.raw(match layer {
            Layer::Posix | Layer::Process => "POSIX",
            Layer::Stdio => "STDIO",
            Layer::App => "APP",
        });
        out.raw("\"");
    }
    out.raw(",\"type\":");
    out.number(if call.names_itself() { 6 } else { 3 });
    out.raw(",\"pid\":");
    out.number(owner.pid);
    out.raw(",\"tid\":");
    out.number(call.tid as i64);
    out.raw(",\"ts\":");
    out.number(us(call.begin));
    out.raw(",\"dur\":");
    out.number(us(call.end) - us(call.begin));
    out.raw(",\"ph\":1,\"args\":{\"hhash\":");
    out.hash(owner.host_hash);
    put_dftracer_arguments(out, call, names, file);
    out.raw("}}\n");
}

fn put_dftracer_arguments(out: &mut Output, call: &Call, names: &Names, file: Option<u64>) {
    let mut list = List { out, empty: false };
    if call.names_itself() {
        let (epoch, step) = call.a.filter(|_| call.op != Op::COUNTER).map_or((STEP_NONE, STEP_NONE), unpack_steps);
        for (key, number) in [(Key::Epoch, epoch), (Key::Step, step)] {
            if number != STEP_NONE {
                list.number(key.name(), number as i64);
            }
        }
        if call.op == Op::COUNTER {
            list.key(b"value");
            list.out.float(f64::from_bits(call.a.unwrap_or(0) as u64));
        }
    } else {
        list.number("ret", call.ret.max(-1));
        if let (Some(Arg::Position), Some(pos)) = (call.info.map(|info| info.a), call.a) {
            list.number("offset", pos);
        }
        if let Some(Arg::Size) = call.info.map(|info| info.b) {
            list.number("count", call.b);
        }
        if let Some(hash) = file {
            list.key(b"fhash");
            list.out.hash(hash);
        }
    }
    put_metadata(&mut list, call.metadata, names);
}

/// The inside of a JSON object.
struct List<'l, 'a> {
    out: &'l mut Output<'a>,
    empty: bool,
}

impl List<'_, '_> {
    fn key(&mut self, key: &[u8]) {
        if !self.empty {
            self.out.raw(",");
        }
        self.empty = false;
        self.out.text(key);
        self.out.raw(":");
    }

    fn number(&mut self, key: &str, number: i64) {
        self.key(key.as_bytes());
        self.out.number(number);
    }

    fn name(&mut self, key: &str, id: u32, names: &Names) {
        self.key(key.as_bytes());
        self.out.name(id, names, "<unknown>");
    }
}

/// JSON on its way out.
struct Output<'a> {
    sink: &'a mut Sink<'a>,
    gathered: Vec<u8>,
    gzip: Option<libdeflater::Compressor>,
    compressed: Vec<u8>,
    /// Whether an event stands before the next one.
    begun: bool,
    written: u64,
}

impl<'a> Output<'a> {
    fn new(sink: &'a mut Sink<'a>, gzip: bool) -> Output<'a> {
        let level = libdeflater::CompressionLvl::new(GZIP_LEVEL).unwrap_or_default();
        let gzip = gzip.then(|| libdeflater::Compressor::new(level));
        Output { sink, gathered: Vec::with_capacity(GATHERED), gzip, compressed: Vec::new(), begun: false, written: 0 }
    }

    fn breathe(&mut self) -> io::Result<()> {
        if self.gathered.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = match &mut self.gzip {
            None => &self.gathered,
            Some(gzip) => {
                self.compressed.resize(gzip.gzip_compress_bound(self.gathered.len()), 0);
                let used = gzip
                    .gzip_compress(&self.gathered, &mut self.compressed)
                    .map_err(|_| io::Error::other("gzip had too little room"))?;
                self.compressed.truncate(used);
                &self.compressed
            }
        };
        self.written += bytes.len() as u64;
        (self.sink)(bytes)?;
        self.gathered.clear();
        Ok(())
    }

    /// Between two events of a list.
    fn next(&mut self) {
        self.raw(if self.begun { ",\n" } else { "\n" });
        self.begun = true;
    }

    fn raw(&mut self, text: &str) {
        self.gathered.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, number: i64) {
        self.gathered.extend_from_slice(decimal(number, &mut [0; 20]));
    }

    /// JSON has no word for what is not a number.
    fn float(&mut self, number: f64) {
        if number.is_finite() { self.raw(&number.to_string()) } else { self.raw("null") }
    }

    /// Nanoseconds as microseconds with three decimals.
    fn microseconds(&mut self, ns: i64) {
        self.raw(if ns < 0 { "-" } else { "" });
        let ns = ns.unsigned_abs();
        self.number((ns / 1000) as i64);
        let rest = ns % 1000;
        self.gathered.extend_from_slice(&[
            b'.',
            b'0' + (rest / 100) as u8,
            b'0' + (rest / 10 % 10) as u8,
            b'0' + (rest % 10) as u8,
        ]);
    }

    fn hash(&mut self, hash: u64) {
        self.raw(&format!("\"{hash:016x}\""));
    }

    fn name(&mut self, id: u32, names: &Names, otherwise: &str) {
        self.text(names.get(id).map_or(otherwise.as_bytes(), |(_, text)| text));
    }

    /// A string in quotes. What is not UTF-8 becomes replacement characters, for JSON has no bytes.
    fn text(&mut self, text: &[u8]) {
        self.gathered.push(b'"');
        for piece in text.utf8_chunks() {
            piece.valid().bytes().for_each(|byte| self.escaped(byte));
            if !piece.invalid().is_empty() {
                self.raw("\u{fffd}");
            }
        }
        self.gathered.push(b'"');
    }

    fn escaped(&mut self, byte: u8) {
        match byte {
            b'"' | b'\\' => self.gathered.extend_from_slice(&[b'\\', byte]),
            b'\n' => self.raw("\\n"),
            0..0x20 => {
                let hex = b"0123456789abcdef";
                self.raw("\\u00");
                self.gathered.extend_from_slice(&[hex[byte as usize >> 4], hex[byte as usize & 15]]);
            }
            byte => self.gathered.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Anchor;
    use crate::native::file::Leftover;
    use crate::native::names::NameKind;
    use crate::record::{Record, pack_steps, word};

    fn image() -> Image {
        let mut image = Image::default();
        image.names.push(NameKind::Path, b"/a \"b\"\n\x01\\\xff");
        image.names.push(NameKind::Span, b"step");
        image.fields.set(key::PID, 42);
        image.fields.set(key::HOST, "node7");
        image.anchors = vec![Anchor { ticks: 1, boot_ns: 5_000_001, real_ns: 1_700_000_000_005_000_001 }];
        let mut events = Events::default();
        let record = |op, start, dur, depth| Record {
            word: word(op, depth, true, dur),
            start,
            file: 1,
            fd: 3,
            a: 10,
            b: 20,
            ret: 20,
        };
        events.push(&record(Op::PREAD, 1_000, 1_234, 0));
        events.push(&Record { ret: -2, ..record(Op::OPEN, 2_000, 1_000, 0) });
        events.push(&Record { file: 2, fd: 0, a: pack_steps(1, 5), ..record(Op::SPAN, 4_000, 10, 0) });
        events.push(&Record { file: 2, fd: 0, a: f64::NAN.to_bits() as i64, ..record(Op::COUNTER, 5_000, 0, 0) });
        image.leftovers.push(Leftover { tid: 43, events });
        image
    }

    fn exported(options: &Options) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        assert_eq!(export(&image(), &[], &mut sink, options).unwrap().events, 4);
        out
    }

    #[test]
    fn calls_become_complete_events_to_the_nanosecond() {
        let text = String::from_utf8(exported(&Options::default())).unwrap();
        assert!(text.ends_with("\n}}\n") && !text.contains(",\n]"));
        let lines: Vec<_> = text.lines().filter(|line| line.contains("\"tid\":43")).collect();
        assert_eq!(
            lines[0],
            "{\"ph\":\"X\",\"name\":\"pread\",\"cat\":\"posix\",\"pid\":42,\"tid\":43,\"ts\":5001.000,\"dur\":1.234,\
            \"args\":{\"file\":\"/a \\\"b\\\"\\n\\u0001\\\\\u{fffd}\",\"fd\":3,\"pos\":10,\"requested\":20,\"bytes\":20}},"
        );
        // It begins before the one above has ended.
        assert!(lines[1].starts_with("{\"ph\":\"e\"") && lines[2].starts_with("{\"ph\":\"b\""));
        assert!(lines[2].ends_with("\"mode\":10,\"flags\":20,\"errno\":2}},"));
        assert!(lines[3].ends_with("\"args\":{\"epoch\":1,\"step\":5}},"));
        assert!(lines[4].ends_with("\"args\":{\"value\":null}}"));
    }

    #[test]
    fn dftracer_lines_name_files_by_hash() {
        let text = String::from_utf8(exported(&Options { form: Form::Dftracer, ..Options::default() })).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let hash = format!("{:016x}", hash(&[b"/a \"b\"\n\x01\\\xff"]));
        let file = lines.iter().find(|line| line.contains("\"FH\"")).unwrap();
        assert!(file.ends_with(&format!("\"value\":\"{hash}\"}}}}")));
        let read = lines.iter().find(|line| line.contains("\"pread\"")).unwrap();
        assert!(read.contains("\"ts\":1700000000005001,\"dur\":1,\"ph\":1") && read.contains(&hash));
    }

    #[test]
    fn gzip_members_hold_the_same_text() {
        let plain = exported(&Options::default());
        let packed = exported(&Options { gzip: true, ..Options::default() });
        let mut text = vec![0; plain.len()];
        libdeflater::Decompressor::new().gzip_decompress(&packed, &mut text).unwrap();
        assert_eq!(text, plain);
    }
}
