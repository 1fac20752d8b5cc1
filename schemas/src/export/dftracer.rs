//! DFTracer's format, for its own tools: one JSON object per line, with times of whole microseconds since 1970 and
//! paths as hashes that lines named `FH` resolve.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::event::clock::Clock;
use crate::event::ops::{Arg, Layer, Op};
use crate::export::exporter::{Call, Calls, Exporter, Meta, ProcessId, Sink, Summary, unfinished};
use crate::export::json::{List, Output};
use crate::export::key::hash;
use crate::native::columns::Events;
use crate::native::fields::{Fields, key};
use crate::native::names::Names;
use crate::native::ring::OpenSpan;

/// The writer: see the module.
pub struct Writer<'a> {
    out: Output<'a>,
    processes: Vec<Process>,
    /// Metadata whose span has not been read yet.
    waiting: BTreeMap<(ProcessId, u32), Vec<Meta>>,
    hashed: BTreeSet<u64>,
    summary: Summary,
    calls: Calls,
}

#[derive(Clone, Copy)]
struct Process {
    pid: i64,
    host_hash: u64,
    /// Unix time minus boot time.
    unix_offset_ns: i64,
}

impl Exporter for Writer<'_> {
    fn process(&mut self, fields: &Fields, clock: &Clock, _first_ns: u64, _last_ns: u64) -> io::Result<ProcessId> {
        let process = Process {
            pid: fields.number(key::PID).unwrap_or(0),
            host_hash: hash(&[fields.get(key::HOST).unwrap_or("").as_bytes()]),
            unix_offset_ns: clock.real_offset_ns,
        };
        self.announce(process, fields);
        self.processes.push(process);
        self.out.breathe()?;
        Ok(ProcessId(self.processes.len() - 1))
    }

    fn batch(&mut self, process: ProcessId, tid: u32, events: &Events, clock: &Clock, names: &Names) -> io::Result<()> {
        let owner = self.processes[process.0];
        let mut waiting = self.waiting.remove(&(process, tid)).unwrap_or_default();
        let mut calls = std::mem::take(&mut self.calls);
        let written =
            calls.each(events, clock, owner.unix_offset_ns, &mut waiting, |call| self.put(owner, tid, call, names));
        self.calls = calls;
        self.waiting.insert((process, tid), waiting);
        written
    }

    fn open_spans(
        &mut self,
        process: ProcessId,
        spans: &[OpenSpan],
        last_tick: u64,
        clock: &Clock,
        names: &Names,
    ) -> io::Result<()> {
        let owner = self.processes[process.0];
        unfinished(spans, last_tick, clock, owner.unix_offset_ns)
            .try_for_each(|(tid, call)| self.put(owner, tid, &call, names))
    }

    fn finish(mut self: Box<Self>) -> io::Result<Summary> {
        self.out.flush()?;
        let metadata_dropped = self.calls.metadata_dropped;
        Ok(Summary { bytes: self.out.written, metadata_dropped, ..self.summary })
    }
}

impl<'a> Writer<'a> {
    pub fn new(sink: &'a mut Sink<'a>, gzip: bool) -> Writer<'a> {
        Writer {
            out: Output::new(sink, gzip),
            processes: Vec::new(),
            waiting: BTreeMap::new(),
            hashed: BTreeSet::new(),
            summary: Summary::default(),
            calls: Calls::default(),
        }
    }

    fn announce(&mut self, process: Process, fields: &Fields) {
        self.resolve("HH", process, fields.get(key::HOST).unwrap_or("").as_bytes());
        self.resolve("SH", process, fields.get(key::COMMAND).unwrap_or("").replace('\0', " ").as_bytes());
        self.resolve("SH", process, fields.get(key::CWD).unwrap_or("").as_bytes());
    }

    /// Returns the hash of a text, after writing a line that resolves it, once per process.
    fn resolve(&mut self, name: &str, process: Process, text: &[u8]) -> u64 {
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

    fn put(&mut self, owner: Process, tid: u32, call: &Call, names: &Names) -> io::Result<()> {
        if call.op == Op::LOST {
            return Ok(());
        }
        self.summary.events += 1;
        let path = |id: u32| names.get(id).map_or(&b"<unknown>"[..], |(_, text)| text);
        let file = (!call.names_itself() && call.file != 0).then(|| self.resolve("FH", owner, path(call.file)));
        put_line(&mut self.out, owner, tid, call, names, file, self.summary.events);
        self.out.breathe()
    }
}

/// Returns DFTracer's category for a layer.
fn category(layer: Layer) -> &'static str {
    match layer {
        Layer::Posix | Layer::Process => "POSIX",
        Layer::Stdio => "STDIO",
        Layer::App => "APP",
        Layer::Wait => "WAIT",
        Layer::Object => "OBJECT",
        Layer::Net => "NET",
        Layer::Hdf5 => "HDF5",
        Layer::Mpi => "MPI",
        Layer::Device => "DEVICE",
    }
}

fn put_line(out: &mut Output, owner: Process, tid: u32, call: &Call, names: &Names, file: Option<u64>, id: u64) {
    // Each end is rounded separately, so that calls that do not touch still do not touch.
    let us = |ns: u64| (ns as i64).div_euclid(1000);
    out.raw("{\"id\":");
    out.number(id as i64);
    out.raw(",\"name\":");
    out.name_and_category(call, names, category);
    out.raw(",\"type\":");
    out.number(if call.names_itself() { 6 } else { 3 });
    out.raw(",\"pid\":");
    out.number(owner.pid);
    out.raw(",\"tid\":");
    out.number(tid as i64);
    out.raw(",\"ts\":");
    out.number(us(call.begin));
    out.raw(",\"dur\":");
    out.number(us(call.end) - us(call.begin));
    out.raw(",\"ph\":1,\"args\":{\"hhash\":");
    out.hash(owner.host_hash);
    put_arguments(out, call, names, file);
    out.raw("}}\n");
}

fn put_arguments(out: &mut Output, call: &Call, names: &Names, file: Option<u64>) {
    let mut list = List { out, empty: false };
    if call.names_itself() {
        list.steps(call.a.filter(|_| call.op != Op::COUNTER));
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
    list.metadata(call.metadata, names);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::exporter::{example, export};

    #[test]
    fn dftracer_lines_name_files_by_hash() {
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        assert_eq!(export(&example(), &[], Box::new(Writer::new(&mut sink, false))).unwrap().events, 4);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let hash = format!("{:016x}", hash(&[b"/a \"b\"\n\x01\\\xff"]));
        let file = lines.iter().find(|line| line.contains("\"FH\"")).unwrap();
        assert!(file.ends_with(&format!("\"value\":\"{hash}\"}}}}")));
        let read = lines.iter().find(|line| line.contains("\"pread\"")).unwrap();
        assert!(read.contains("\"ts\":1700000000005001,\"dur\":1,\"ph\":1") && read.contains(&hash));
    }
}
