//! Chrome's trace event format: one JSON object that chrome://tracing, Perfetto and speedscope load.
//!
//! A call is an `X` event. Times are microseconds with three decimals, so nothing is rounded. They are relative to
//! the base time, which is given as Unix time in a key that PyTorch's profiler also uses and that viewers ignore.
//!
//! ```text
//! {"displayTimeUnit":"ns","baseTimeNanoseconds":1700000000000000000,"traceEvents":[
//! {"ph":"X","name":"pread","cat":"posix","pid":1,"tid":1,"ts":12.345,"dur":0.678,"args":{"file":"/data/a", ...}},
//! ...
//! ],"otherData":{...}}
//! ```

use std::collections::BTreeMap;
use std::io;

use crate::event::clock::Clock;
use crate::event::ops::{Layer, Op, Ret};
use crate::export::device_tracks::DeviceTrack;
use crate::export::exporter::{Call, Calls, Exporter, Meta, ProcessId, Sink, Summary, unfinished};
use crate::export::json::{List, Output};
use crate::export::key::{Key, of_child, of_waker};
use crate::export::lanes::{Lanes, Placement};
use crate::native::columns::Events;
use crate::native::fields::{Fields, key};
use crate::native::names::Names;
use crate::native::ring::OpenSpan;

/// The first number of the tracks of GPUs, which are listed among the threads of their process. Linux assigns no numbers this
/// large to threads.
pub const DEVICE_TRACKS: i64 = 1 << 24;

/// The argument with the thread that recorded a span of a GPU.
pub const RECORDED_BY: &str = "recorded_by";

/// The metadata event with the number of lost events of a process.
pub const LOSS: &str = "process_loss";

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Compresses into members of about a quarter MiB of text, one after another: a truncated file loses only its
    /// last one.
    pub gzip: bool,
    /// Unix time of zero, for files of several hosts. Without it, times are relative to the boot time of the first
    /// process: numbers so small that viewers, which store them as floating point, also keep the nanoseconds.
    pub zero_unix_ns: Option<i64>,
}

/// The writer: see the module.
pub struct Writer<'a> {
    out: Output<'a>,
    has_begun: bool,
    zero_unix_ns: Option<i64>,
    processes: Vec<Process>,
    threads: BTreeMap<(ProcessId, u32), Thread>,
    /// The numbers of tracks of GPUs, and their lanes.
    devices: BTreeMap<(ProcessId, DeviceTrack), (i64, Lanes)>,
    summary: Summary,
    calls: Calls,
}

struct Process {
    pid: i64,
    fields: Fields,
    /// Added to boot time.
    shift_ns: i64,
}

#[derive(Default)]
struct Thread {
    lanes: Lanes,
    metadata: Vec<Meta>,
}

impl Exporter for Writer<'_> {
    fn process(&mut self, fields: &Fields, clock: &Clock, _first_ns: u64, _last_ns: u64) -> io::Result<ProcessId> {
        let zero = *self.zero_unix_ns.get_or_insert(clock.real_offset_ns);
        self.begin();
        let process = Process {
            pid: fields.number(key::PID).unwrap_or(0),
            fields: fields.clone(),
            shift_ns: clock.real_offset_ns.wrapping_sub(zero),
        };
        self.announce(&process);
        self.processes.push(process);
        self.out.breathe()?;
        Ok(ProcessId(self.processes.len() - 1))
    }

    fn batch(&mut self, process: ProcessId, tid: u32, events: &Events, clock: &Clock, names: &Names) -> io::Result<()> {
        let shift_ns = self.processes[process.0].shift_ns;
        let Thread { mut lanes, metadata: mut waiting } = self.threads.remove(&(process, tid)).unwrap_or_default();
        let mut calls = std::mem::take(&mut self.calls);
        let written =
            calls.each(events, clock, shift_ns, &mut waiting, |call| self.put(process, tid, &mut lanes, call, names));
        self.calls = calls;
        self.threads.insert((process, tid), Thread { lanes, metadata: waiting });
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
        let shift_ns = self.processes[process.0].shift_ns;
        for (tid, call) in unfinished(spans, last_tick, clock, shift_ns) {
            let mut thread = self.threads.remove(&(process, tid)).unwrap_or_default();
            self.put(process, tid, &mut thread.lanes, &call, names)?;
            self.threads.insert((process, tid), thread);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<Summary> {
        self.begin();
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
        self.out.flush()?;
        let metadata_dropped = self.calls.metadata_dropped;
        Ok(Summary { bytes: self.out.written, metadata_dropped, ..self.summary })
    }
}

impl<'a> Writer<'a> {
    pub fn new(sink: &'a mut Sink<'a>, options: &Options) -> Writer<'a> {
        Writer {
            out: Output::new(sink, options.gzip),
            has_begun: false,
            zero_unix_ns: options.zero_unix_ns,
            processes: Vec::new(),
            threads: BTreeMap::new(),
            devices: BTreeMap::new(),
            summary: Summary::default(),
            calls: Calls::default(),
        }
    }

    /// Writes the part before the events; the base is known with the first process.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        self.out.raw("{\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":");
        self.out.number(self.zero_unix_ns.unwrap_or(0));
        self.out.raw(",\"traceEvents\":[");
    }

    fn announce(&mut self, process: &Process) {
        let fields = &process.fields;
        let name = fields.get(key::NAME).or_else(|| fields.get(key::PROGRAM)).unwrap_or("process");
        self.describe("process_name", process.pid, process.pid, "name", name);
        let rank = fields.get(key::RANK).map(|rank| format!("rank {rank}"));
        let host = fields.get(key::HOST).map(|host| format!("host {host}"));
        let labels = [key::LABEL, key::OVERVIEW].map(|key| fields.get(key).map(str::to_string));
        let labels: Vec<_> = [rank, host].into_iter().chain(labels).flatten().collect();
        self.describe("process_labels", process.pid, process.pid, "labels", &labels.join(", "));
        let command = fields.get(key::COMMAND).unwrap_or("").replace('\0', " ");
        self.describe("process_command", process.pid, process.pid, "command", &command);
        self.announce_loss(process);
        for (tid, name) in
            fields.get(key::THREADS).unwrap_or("").split_terminator('\0').filter_map(|p| p.split_once('='))
        {
            self.describe("thread_name", process.pid, tid.parse().unwrap_or(0), "name", name);
        }
    }

    /// Writes what is missing of a process. Images of one process are one process in this format: the last one
    /// reports for all.
    fn announce_loss(&mut self, process: &Process) {
        let same = |other: &&Process| other.pid == process.pid;
        let images = || self.processes.iter().filter(same).chain([process]);
        let lost: u64 = images().filter_map(|image| image.fields.number::<u64>(key::LOST)).sum();
        let incomplete = images().find_map(|image| image.fields.get(key::INCOMPLETE)).map(str::to_string);
        if lost > 0 {
            self.describe(LOSS, process.pid, process.pid, key::LOST, &lost.to_string());
        }
        if let Some(why) = incomplete {
            self.describe(LOSS, process.pid, process.pid, key::INCOMPLETE, &why);
        }
    }

    fn describe(&mut self, name: &str, pid: i64, tid: i64, key: &str, text: &str) {
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

    fn put(&mut self, process: ProcessId, tid: u32, lanes: &mut Lanes, call: &Call, names: &Names) -> io::Result<()> {
        self.summary.events += 1;
        let (pid, tid, number) = (self.processes[process.0].pid, tid as i64, self.summary.events);
        match DeviceTrack::of(call, names) {
            None => put_call(&mut self.out, Place { pid, tid, recorded_by: None }, lanes, call, names, number),
            Some(track) => {
                let (own, mut lanes) = self.device_track(process, track);
                let place = Place { pid, tid: own, recorded_by: Some(tid) };
                let call = Call { depth: 0, ..*call };
                put_call(&mut self.out, place, &mut lanes, &call, names, number);
                self.devices.insert((process, track), (own, lanes));
            }
        }
        self.out.breathe()
    }

    /// Takes the track of a GPU, which gets its name at its first use; it must be put back.
    fn device_track(&mut self, process: ProcessId, track: DeviceTrack) -> (i64, Lanes) {
        if let Some(known) = self.devices.remove(&(process, track)) {
            return known;
        }
        let tid = DEVICE_TRACKS + self.devices.len() as i64;
        let name = format!("{}, {}", track.gpu(), track.name(0));
        self.describe("thread_name", self.processes[process.0].pid, tid, "name", &name);
        (tid, Lanes::default())
    }
}

/// The process and the track of an event, and the thread that recorded it if that is another one.
struct Place {
    pid: i64,
    tid: i64,
    recorded_by: Option<i64>,
}

/// Writes an event, or two for a call that crosses others: chrome://tracing draws those as asynchronous.
fn put_call(out: &mut Output, place: Place, lanes: &mut Lanes, call: &Call, names: &Names, number: u64) {
    let Place { pid, tid, recorded_by } = place;
    let head = |out: &mut Output, kind: &str, at: u64| {
        out.next();
        out.raw("{\"ph\":\"");
        out.raw(kind);
        out.raw("\",\"name\":");
        out.name_and_category(call, names, Layer::name);
        out.raw(",\"pid\":");
        out.number(pid);
        out.raw(",\"tid\":");
        out.number(tid);
        out.raw(",\"ts\":");
        out.microseconds(at as i64);
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
        _ if lanes.place(call.begin, call.end, call.depth) == Placement::Track => {
            head(out, "X", call.begin);
            out.raw(",\"dur\":");
            out.microseconds((call.end - call.begin) as i64);
        }
        _ => {
            // Ids are unique only within a process.
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
    if beside && recorded_by.is_none() {
        // Viewers draw asynchronous events with their process, so the thread is added.
        list.number("tid", tid);
    }
    if let Some(thread) = recorded_by {
        list.number(RECORDED_BY, thread);
    }
    put_arguments(&mut list, call, names);
    out.raw("}}");
}

fn put_arguments(list: &mut List, call: &Call, names: &Names) {
    if call.names_itself() {
        list.steps(call.a);
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
    list.metadata(call.metadata, names);
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
            (Some(Key::Waker), Some(packed)) => {
                of_waker(packed).for_each(|(key, number)| list.number(key.name(), number))
            }
            (Some(Key::Child), Some(packed)) => {
                of_child(packed).for_each(|(key, number)| list.number(key.name(), number))
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::exporter::{example, export};

    fn exported(options: &Options) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        assert_eq!(export(&example(), &[], Box::new(Writer::new(&mut sink, options))).unwrap().events, 4);
        out
    }

    #[test]
    fn calls_become_complete_events_to_the_nanosecond() {
        let text = String::from_utf8(exported(&Options::default())).unwrap();
        assert!(text.ends_with("\n}}\n") && !text.contains(",\n]"));
        let head = "{\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":1700000000000000000,\"traceEvents\":[";
        assert!(text.starts_with(head), "{}", &text[..head.len()]);
        let lines: Vec<_> = text.lines().filter(|line| line.contains("\"tid\":43")).collect();
        assert_eq!(
            lines[0],
            "{\"ph\":\"X\",\"name\":\"pread\",\"cat\":\"posix\",\"pid\":42,\"tid\":43,\"ts\":5001.000,\"dur\":1.234,\
            \"args\":{\"file\":\"/a \\\"b\\\"\\n\\u0001\\\\\\\\xff\",\"fd\":3,\"pos\":10,\"requested\":20,\"bytes\":20}},"
        );
        // It starts before the one above has ended.
        assert!(lines[1].starts_with("{\"ph\":\"e\"") && lines[2].starts_with("{\"ph\":\"b\""));
        assert!(lines[2].ends_with("\"mode\":10,\"flags\":20,\"errno\":2}},"));
        assert!(lines[3].ends_with("\"args\":{\"epoch\":1,\"step\":5}},"));
        assert!(lines[4].ends_with("\"args\":{\"value\":null}}"));
    }

    #[test]
    fn work_of_gpus_has_tracks_of_its_own() {
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        let image = crate::export::device_tracks::example();
        export(&image, &[], Box::new(Writer::new(&mut sink, &Options::default()))).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines =
            |part: &str| text.lines().filter(|line| line.contains(part)).map(str::to_string).collect::<Vec<_>>();
        let named = lines("\"thread_name\"");
        for (line, (tid, name)) in named.iter().zip([
            (DEVICE_TRACKS, "GPU 0, stream 7"),
            (DEVICE_TRACKS + 1, "GPU 1, stream 7"),
            (DEVICE_TRACKS + 2, "GPU 1, steps of stream 7"),
        ]) {
            assert!(line.contains(&format!("\"tid\":{tid},")) && line.contains(name), "{line}");
        }
        assert_eq!(named.len(), 3, "{text}");
        // The second kernel of the stream starts before the end of the first one.
        assert_eq!((lines("\"ph\":\"X\"").len(), lines("\"ph\":\"b\"").len()), (3, 1), "{text}");
        assert_eq!(lines("\"recorded_by\":43").len() + lines("\"recorded_by\":44").len(), 4, "{text}");
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
