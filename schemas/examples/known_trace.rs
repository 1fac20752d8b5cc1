//! Writes a trace whose every number is known, and those numbers: `known_trace SHAPE OUT [EVENTS]
//! [deflate|zstd|none]`
//!
//! The shapes are small programs as a tracer would record them; `hosts` is a tar of two hosts. OUT.dlt is the native
//! trace, OUT.pftrace, OUT.json.gz and OUT.pfw.gz (DFTracer's format) are its exports, and OUT.figures.json contains
//! the numbers that a viewer must find in them. The CPU time of the export is printed on stdout.

#[path = "support/figures.rs"]
mod figures;

use std::collections::BTreeMap;

use dlio_schemas::clock::Anchor;
use dlio_schemas::export::Sink;
use dlio_schemas::export::{Exporter, export, export_image};
use dlio_schemas::native::block::{Codec, Header, Kind};
use dlio_schemas::native::columns::{EVENTS_MAX, RAW_MAX, Survey, encode};
use dlio_schemas::native::fields::{FieldWriter, key};
use dlio_schemas::native::file::{Image, file_header};
use dlio_schemas::native::names::{NameKind, entry_size, write_entry};
use dlio_schemas::ops::Op;
use dlio_schemas::perfetto::bundle;
use dlio_schemas::perfetto::pack::Compression;
use dlio_schemas::perfetto::read::Reader;
use dlio_schemas::perfetto::write::{Options, Writer};
use dlio_schemas::record::{MetaKind, Record, pack_steps, word};
use dlio_schemas::{chrome, dftracer};

use figures::Figures;

/// A host, and its boot time at the start of the trace.
#[derive(Clone, Copy)]
struct Machine {
    name: &'static str,
    boot_id: &'static str,
    boot_ns: u64,
}

const NODE7: Machine =
    Machine { name: "node7", boot_id: "7f1c2a60-0000-4000-8000-5eed5eed5eed", boot_ns: 5_000_000_000_000 };
const NODE8: Machine =
    Machine { name: "node8", boot_id: "81b0c1d2-0000-4000-8000-feedfeedfeed", boot_ns: 40_000_000_000 };

/// Wall time at the start of the trace, on every host.
const REAL_NS: u64 = 1_790_000_000_000_000_000;

/// A process being recorded, as by the tracer.
struct Recorder {
    machine: Machine,
    out: Vec<u8>,
    names: Vec<(NameKind, Vec<u8>)>,
    threads: BTreeMap<u32, Vec<Record>>,
    sequences: BTreeMap<u32, u32>,
    random: u64,
}

impl Recorder {
    fn new(machine: Machine) -> Recorder {
        let (out, names, random) = (file_header().to_vec(), Vec::new(), 0x9e37_79b9_7f4a_7c15);
        Recorder { machine, out, names, threads: BTreeMap::new(), sequences: BTreeMap::new(), random }
    }

    fn name(&mut self, kind: NameKind, text: &str) -> u32 {
        self.names.push((kind, text.into()));
        self.names.len() as u32
    }

    /// Returns the next number of a fixed series, below `limit`.
    fn any(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }

    fn record(&mut self, tid: u32, record: Record) {
        let pending = self.threads.entry(tid).or_default();
        pending.push(record);
        if pending.len() == EVENTS_MAX {
            self.flush(tid);
        }
    }

    fn flush(&mut self, tid: u32) {
        let records = self.threads.insert(tid, Vec::new()).unwrap_or_default();
        let Some(last) = records.last() else { return };
        let mut payload = vec![0; RAW_MAX];
        let used = encode(&records, &mut Default::default(), &mut payload);
        let sequence = self.sequences.entry(tid).or_default();
        let header = Header {
            stream: tid,
            sequence: *sequence,
            tid,
            count: records.len() as u32,
            first: records[0].start,
            reach: Survey::of(&records, &mut Default::default()).reach(records[0].start),
            last: last.start + last.duration(),
            anchor: anchor(self.machine, last.start + last.duration()),
            ..Header::new(Kind::Events)
        };
        *sequence += 1;
        self.block(header, &payload[..used]);
    }

    fn block(&mut self, mut header: Header, payload: &[u8]) {
        let stored = zstd::bulk::compress(payload, 1).expect("memory");
        self.out.extend_from_slice(&header.seal(Codec::Zstd, payload.len(), &stored));
        self.out.extend_from_slice(&stored);
    }

    fn finish(mut self, pid: i64, end: u64) -> Vec<u8> {
        self.threads.keys().copied().collect::<Vec<_>>().into_iter().for_each(|tid| self.flush(tid));
        let mut names = Vec::new();
        for (kind, text) in &self.names {
            let at = names.len();
            names.resize(at + entry_size(text), 0);
            write_entry(*kind, text, &mut names[at..]);
        }
        let header = Header { first: 1, count: self.names.len() as u32, ..Header::new(Kind::Names) };
        self.block(header, &names);
        let mut facts = vec![0; 4096];
        let mut writer = FieldWriter::new(&mut facts);
        facts_of(&mut writer, self.machine, pid, end);
        let used = writer.used();
        facts.truncate(used);
        let header = Header { anchor: anchor(self.machine, 0), ..Header::new(Kind::Process) };
        self.block(header, &facts);
        self.out
    }
}

fn facts_of(writer: &mut FieldWriter, machine: Machine, pid: i64, end: u64) {
    writer.text(key::HOST, machine.name.as_bytes());
    writer.text(key::BOOT_ID, machine.boot_id.as_bytes());
    writer.number(key::PID, pid);
    writer.number(key::PPID, 1);
    writer.number(key::START_BOOT_NS, machine.boot_ns as i64 - 3_000_000);
    writer.text(key::PROGRAM, b"loader");
    writer.text(key::COMMAND, b"loader\0--epochs\x002");
    writer.number(key::RANK, 3);
    writer.text(key::THREADS, format!("{pid}=loader\0{}=worker \"1\"", pid + 1).as_bytes());
    writer.text(key::ENDED, b"exit 0");
    writer.number(key::END_BOOT_NS, (machine.boot_ns + end) as i64);
    writer.number(key::LOST, 0);
}

/// Returns an anchor. Ticks are nanoseconds since the start, plus one so that none is zero.
fn anchor(machine: Machine, tick: u64) -> Anchor {
    Anchor { ticks: tick + 1, boot_ns: machine.boot_ns + tick + 1, real_ns: REAL_NS + tick + 1 }
}

/// Records reads of a thousand files from several threads, each open, some reads, close.
fn mixed(recorder: &mut Recorder, pid: u32, threads: u32, events: u64) -> u64 {
    let files: Vec<_> =
        (0..1000).map(|i| recorder.name(NameKind::Path, &format!("/data/train/part-{i:05}-of-01000.npz"))).collect();
    let mut time = vec![1000u64; threads as usize];
    let mut made = 0;
    while made < events {
        let thread = recorder.any(threads as u64) as usize;
        let file = files[recorder.any(1000) as usize];
        let fd = 3 + thread as i32;
        let reads = 1 + recorder.any(30);
        let random = recorder.any(4) == 0;
        for i in 0..reads + 2 {
            let op = if i == 0 {
                Op::OPEN
            } else if i > reads {
                Op::CLOSE
            } else {
                Op::PREAD
            };
            let duration = 400 + recorder.any(3000) + if recorder.any(20) == 0 { 20_000 } else { 0 };
            let size = if random { 1 + recorder.any(1 << 20) as i64 } else { 131_072 };
            let at = if random { recorder.any(1 << 30) as i64 } else { (i as i64 - 1) * 131_072 };
            let (a, b, ret) = match op {
                Op::OPEN => (-1, 0x80000, fd as i64),
                Op::CLOSE => (-1, 0, 0),
                _ if recorder.any(500) == 0 => (at, size, -5),
                _ => (at, size, size),
            };
            let start = time[thread] + 100 + recorder.any(400);
            recorder.record(
                pid + thread as u32,
                Record { word: word(op, 0, op == Op::PREAD, duration), start, file, fd, a, b, ret },
            );
            time[thread] = start + duration;
            made += 1;
        }
    }
    time.into_iter().max().unwrap_or(0)
}

/// Records epochs and steps of a training loop with reads inside, metadata, an instant, counters, crossing calls.
fn spans(recorder: &mut Recorder, pid: u32, steps: u64) -> u64 {
    let file = recorder.name(NameKind::Path, "/data/a \"b\"\n\\c.npz");
    let [epoch, step, compute, mark, loss] =
        ["epoch", "step", "forward", "checkpoint due", "loss"].map(|text| recorder.name(NameKind::Span, text));
    let category = recorder.name(NameKind::Category, "train");
    let [rate, note, text] = ["rate", "note", "first \"try\""].map(|text| recorder.name(NameKind::Text, text));
    let span = |op: Op, name: u32, depth, start, end, a| Record {
        word: word(op, depth, true, end - start),
        start,
        file: name,
        fd: category as i32,
        a,
        ..Record::default()
    };
    let mut now = 1000;
    let begun = now;
    for i in 0..steps {
        let begin = now;
        for k in 0..3 {
            recorder.record(
                pid,
                Record {
                    word: word(Op::READ, 2, true, 5000),
                    start: now + 1000,
                    file,
                    fd: 5,
                    a: (i * 3 + k) as i64 * 4096,
                    b: 4096,
                    ret: 4096,
                },
            );
            now += 6000;
        }
        recorder.record(pid, span(Op::SPAN, compute, 2, now + 100, now + 40_000, pack_steps(0, i as i32)));
        now += 41_000;
        let meta = |key, kind: MetaKind, value| Record {
            word: word(Op::META, 0, true, 0),
            file: key,
            fd: kind as i32,
            a: value,
            start: now,
            ..Record::default()
        };
        recorder.record(pid, meta(rate, MetaKind::Float, (i as f64 / 8.0).to_bits() as i64));
        recorder.record(pid, meta(note, MetaKind::Text, text as i64));
        recorder.record(pid, span(Op::SPAN, step, 1, begin, now, pack_steps(0, i as i32)));
        recorder.record(pid, span(Op::COUNTER, loss, 0, now, now, (1.0 / (1 + i) as f64).to_bits() as i64));
        // A background read: it started long before its end was seen, and two ran at the same time.
        recorder.record(
            pid + 1,
            Record {
                word: word(Op::AIO_READ_DONE, 0, true, 70_000),
                start: now + 10,
                file,
                fd: 5,
                a: i as i64,
                b: 100,
                ret: 100,
            },
        );
    }
    recorder.record(pid, span(Op::INSTANT, mark, 1, now, now, pack_steps(0, i32::MIN)));
    recorder.record(pid, span(Op::SPAN, epoch, 0, begun - 500, now + 10, pack_steps(0, i32::MIN)));
    now + 100_000
}

/// Writes two hosts in one tar, and in one file on the clock of the first.
fn hosts(stem: &str, events: u64) {
    let mut figures = Figures::default();
    figures.moved = true;
    let mut one_file = Figures::default();
    one_file.moved = true;
    let (mut members, mut packed) = (Vec::new(), Vec::new());
    for (machine, pid) in [(NODE7, 4200), (NODE8, 4200)] {
        let mut recorder = Recorder::new(machine);
        let end = mixed(&mut recorder, pid, 2, events);
        let native = recorder.finish(pid as i64, end);
        let image = Image::from_dlt(&native).expect("a trace of this program");
        figures.add_image(&image, &native).expect("whole blocks");
        one_file.add_image(&image, &native).expect("whole blocks");
        one_file.id_shift += 1 << 22;
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        let writer = Writer::new(&mut sink, &Options { machines: true, ..Options::default() }).expect("memory");
        export(&image, &native, Box::new(writer)).expect("memory");
        std::fs::write(format!("{stem}-{}.dlt", machine.name), &native).expect("a writable directory");
        packed.push(out);
        members.push((format!("{}.pftrace", machine.name), image, native));
    }
    let hosts: Vec<_> =
        members.iter().map(|(path, image, _)| bundle::Host { path, fields: &image.fields, offset_ns: None }).collect();
    let mut tar = Vec::new();
    let manifest = ("manifest.json", bundle::manifest(&hosts, &[]).into_bytes());
    let traces = members.iter().map(|(name, ..)| name.as_str()).zip(packed);
    for (name, bytes) in [manifest].into_iter().chain(traces) {
        tar.extend_from_slice(&bundle::member_head(name, bytes.len() as u64));
        tar.extend_from_slice(&bytes);
        tar.resize(tar.len() + bundle::padding(bytes.len() as u64), 0);
    }
    tar.resize(tar.len() + bundle::END, 0);
    let mut one = Vec::new();
    let mut sink = |bytes: &[u8]| {
        one.extend_from_slice(bytes);
        Ok(())
    };
    let clock = |image: &Image| image.clock().expect("anchors");
    let unix_offset_ns = members.iter().map(|(_, image, _)| clock(image).real_offset_ns).min();
    let mut writer = Writer::new(&mut sink, &Options { unix_offset_ns, ..Options::default() }).expect("memory");
    for (_, image, native) in &members {
        export_image(image, native, &mut writer).expect("memory");
    }
    Box::new(writer).finish().expect("memory");
    std::fs::write(format!("{stem}.one.pftrace"), one).expect("a writable directory");
    std::fs::write(format!("{stem}.one.figures.json"), one_file.to_json()).expect("a writable directory");
    std::fs::write(format!("{stem}.tar"), tar).expect("a writable directory");
    std::fs::write(format!("{stem}.figures.json"), figures.to_json()).expect("a writable directory");
}

/// Returns the file that an exporter makes of an image.
fn exported(image: &Image, native: &[u8], exporter: for<'a> fn(&'a mut Sink<'a>) -> Box<dyn Exporter + 'a>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sink = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    };
    export(image, native, exporter(&mut sink)).expect("memory");
    out
}

/// Returns the CPU time of this thread, which does not include other programs on the host.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, shape, stem, rest @ ..] = &arguments[..] else {
        eprintln!("usage: known_trace mixed|spans|hosts OUT [EVENTS] [deflate|zstd|none]");
        std::process::exit(2);
    };
    let events = rest.first().map_or(1000, |n| n.parse().expect("a number of events"));
    let compression = match rest.get(1).map(String::as_str) {
        Some("zstd") => Compression::Zstd,
        Some("none") => Compression::None,
        _ => Compression::Deflate,
    };
    if shape == "hosts" {
        return hosts(stem, events);
    }
    let mut recorder = Recorder::new(NODE7);
    let end = match shape.as_str() {
        "spans" => spans(&mut recorder, 4200, events),
        _ => mixed(&mut recorder, 4200, 4, events),
    };
    let native = recorder.finish(4200, end);
    let image = Image::from_dlt(&native).expect("a valid trace");
    // Reserves space for the whole output: the export is measured, not the growth of this buffer.
    let mut out = Vec::with_capacity(80 * image.events() as usize);
    let began = cpu_ns();
    let mut sink = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    };
    let writer = Writer::new(&mut sink, &Options { compression, ..Options::default() }).expect("memory");
    let summary = export(&image, &native, Box::new(writer)).expect("memory");
    let took = cpu_ns() - began;
    let began = cpu_ns();
    let mut reader = Reader::default();
    let mut read = 0;
    reader.read(&out, &mut |batch| read += batch.events.len());
    reader.finish(&mut |batch| read += batch.events.len());
    let read_took = cpu_ns() - began;
    println!(
        "{} events, native {:.2} bytes each, exported {:.2} bytes each in {:.1} ns each, {read} read back in {:.1} ns each",
        summary.events,
        native.len() as f64 / summary.events as f64,
        summary.bytes as f64 / summary.events as f64,
        took as f64 / summary.events as f64,
        read_took as f64 / summary.events as f64
    );
    let mut figures = Figures::default();
    figures.add_image(&image, &native).expect("whole blocks");
    let written = [
        ("dlt", native.clone()),
        ("pftrace", out),
        ("figures.json", figures.to_json().into_bytes()),
        (
            "json.gz",
            exported(&image, &native, |sink| {
                Box::new(chrome::Writer::new(sink, &chrome::Options { gzip: true, zero_unix_ns: None }))
            }),
        ),
        ("pfw.gz", exported(&image, &native, |sink| Box::new(dftracer::Writer::new(sink, true)))),
    ];
    for (end, bytes) in written {
        std::fs::write(format!("{stem}.{end}"), bytes).expect("a writable directory");
    }
}
