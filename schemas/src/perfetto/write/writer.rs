//! Converts native events to a `.pftrace`.
//!
//! [`Writer`] is an [`Exporter`]. It may run inside a traced process that ends: it keeps one packet of packets (about
//! a MiB), starts no thread and keeps no event.
//!
//! ```text
//! raw packets        per process: clocks, attributes, track, start and end        found without decompressing
//! packed packets     per thread, at its first use: clock, track; then its events and the names they need
//! raw packet         "chapter": after it every thread is introduced again, so that a reader can start here
//! packed packets     ...
//! packed packets     waits that were found in the events, and counters
//! raw packet         per process: "complete" and the number of events
//! ```
//!
//! Times are boot time in nanoseconds, stored as the difference from the previous packet (an incremental clock that
//! belongs to the sequence). An outer call ends and is written after the calls within it, so differences may be
//! negative.

use std::collections::BTreeMap;
use std::io;

use super::activity::{Activity, FileCall};
use super::devices::put_work;
use super::event::{Thread, introduce, put_counter, put_instant, put_slice, put_without_track};
use super::process_packets::{
    Flows, Head, Process, moved, put_activity, put_attributes, put_chapter, put_clocks, put_complete, put_life,
    put_machine, put_packet, put_process_instant, put_process_track, thread_names,
};
use super::waits;
use crate::event::clock::Clock;
use crate::event::ops::Op;
use crate::export::device_tracks::DeviceTrack;
use crate::export::exporter::{Call, Calls, DrawnAct, DrawnWait, Exporter, ProcessId, Sink, Summary, unfinished};
use crate::export::key::hash;
use crate::export::lanes::{Lanes, Placement};
use crate::machine::tracks::Tracks;
use crate::native::columns::Events;
use crate::native::fields::{Fields, key};
use crate::native::names::Names;
use crate::native::ring::OpenSpan;
use crate::perfetto::layout::{ID_STRIDE, child_uuid, machine_id, process_uuid};
use crate::perfetto::pack::{Compression, GATHERED, Packer};
use crate::perfetto::proto::field;

/// Size of the packed packets between two offsets at which a reader can start: so large that introducing threads
/// again costs almost nothing.
const CHAPTER: u64 = 64 * GATHERED as u64;

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub compression: Compression,
    /// Writes the host into every packet. Without it, all processes are assumed to share one boot clock, which is
    /// correct for one host and wrong for several; with it, viewers add "(machine 1)" to each title.
    pub machines: bool,
    /// For processes of several hosts in one file: Unix time minus the boot time that all of them are written in,
    /// preferably that of the host that booted first. Without it, each process keeps its own boot time.
    pub unix_offset_ns: Option<i64>,
    /// Boot time, as written, of the first and last event of all processes, for counters of the total.
    pub total: Option<(u64, u64)>,
}

/// The exporter: see the module.
pub struct Writer<'a> {
    packer: Packer<'a>,
    processes: Vec<Process>,
    threads: BTreeMap<(ProcessId, u32), Thread>,
    /// Several threads may record work of one GPU.
    devices: BTreeMap<(ProcessId, DeviceTrack), Lanes>,
    sequences: u64,
    chapter_ends: u64,
    packed: u64,
    summary: Summary,
    machines: bool,
    /// Boots seen so far, if they share one file as one host.
    hosts: Vec<u64>,
    unix_offset_ns: Option<i64>,
    total: Option<Activity>,
    calls: Calls,
}

impl Exporter for Writer<'_> {
    fn process(&mut self, fields: &Fields, clock: &Clock, first_ns: u64, last_ns: u64) -> io::Result<ProcessId> {
        self.flush()?;
        let offset_ns = self.unix_offset_ns.unwrap_or(clock.real_offset_ns);
        let shift_ns = clock.real_offset_ns.wrapping_sub(offset_ns);
        let (first_ns, last_ns) = (first_ns.wrapping_add_signed(shift_ns), last_ns.wrapping_add_signed(shift_ns));
        let process = Process {
            uuid: process_uuid(fields),
            head: Head { sequence: self.next_sequence(), machine: self.machines.then(|| machine_id(fields)) },
            pid: fields.number(key::PID).unwrap_or(0),
            machine: machine_id(fields),
            id_shift: self.id_shift(fields),
            thread_names: thread_names(fields),
            first_ns,
            shift_ns,
            events: 0,
            activity: Activity::new(first_ns, last_ns),
            file_last: (0, true),
            is_complete: false,
            merged: fields.get(key::OVERVIEW).is_some(),
            flows: Flows::new(fields),
        };
        let fields = &moved(fields, shift_ns);
        let out = self.packer.out();
        put_clocks(out, &process, offset_ns);
        put_attributes(out, &process, fields, offset_ns);
        put_process_track(out, &process, fields);
        put_life(out, &process, fields, last_ns);
        if let Some(overview) = fields.get(key::OVERVIEW) {
            put_process_instant(out, &process, process.first_ns, overview);
        }
        self.packer.flush_raw()?;
        self.processes.push(process);
        Ok(ProcessId(self.processes.len() - 1))
    }

    fn batch(&mut self, process: ProcessId, tid: u32, events: &Events, clock: &Clock, names: &Names) -> io::Result<()> {
        self.turn_chapter()?;
        let shift_ns = self.processes[process.0].shift_ns;
        let mut thread = self.take_thread(process, tid);
        let mut waiting = std::mem::take(&mut thread.metadata);
        let mut calls = std::mem::take(&mut self.calls);
        let written =
            calls.each(events, clock, shift_ns, &mut waiting, |call| self.put(process, &mut thread, call, names));
        self.calls = calls;
        thread.metadata = waiting;
        self.threads.insert((process, tid), thread);
        written
    }

    /// Counts the events that an overview merges: its slices show less than the counters, which include every byte.
    fn count(&mut self, process: ProcessId, events: &Events, clock: &Clock, names: &Names) {
        let owner = &mut self.processes[process.0];
        for i in 0..events.len() {
            let op = Op(events.op[i]);
            let Some(info) = op.info() else { continue };
            let at = |tick| clock.boot_ns(tick).wrapping_add_signed(owner.shift_ns);
            let (begin, end) = (at(events.start[i]), at(events.start[i].saturating_add(events.duration[i])));
            let call = FileCall { op, begin, end: end.max(begin), fd: events.fd[i], ret: events.ret[i] };
            owner.act(info, call, events.file[i], names, self.total.as_mut());
        }
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
            let mut thread = self.take_thread(process, tid);
            self.put(process, &mut thread, &call, names)?;
            self.threads.insert((process, tid), thread);
        }
        Ok(())
    }

    fn waits(&mut self, waits: &[DrawnWait]) -> io::Result<()> {
        let threads = waits::threads(waits);
        for &(process, tid) in threads.keys() {
            let is_only = threads.keys().filter(|(other, _)| *other == process).count() == 1;
            waits::put_track(self.packer.out(), &self.processes[process.0], tid, is_only);
        }
        for wait in waits {
            let known = &self.threads;
            // A thread without an event has no track.
            let thread_of = |act: &DrawnAct| known.get(&(act.process, act.tid)).map(|thread| thread.uuid);
            let owner = &self.processes[wait.process.0];
            waits::put_wait(self.packer.out(), owner, wait, thread_of, |process| {
                let process = &self.processes[process.0];
                (process.head, process.shift_ns)
            });
            self.packer.breathe()?;
        }
        Ok(())
    }

    /// In the sequence of a process of that host, which our readers ignore.
    fn machine(&mut self, tracks: &Tracks) -> io::Result<()> {
        let mut fields = Fields::default();
        fields.set(key::HOST, &tracks.host);
        tracks.boot_id.iter().for_each(|boot| fields.set(key::BOOT_ID, boot));
        let machine = machine_id(&fields);
        if let Some(process) = self.processes.iter().find(|process| process.machine == machine) {
            put_machine(self.packer.out(), process.head, process.shift_ns, tracks);
            self.packer.breathe()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<Summary> {
        self.counters()?;
        for process in self.processes.iter().filter(|process| !process.is_complete) {
            put_complete(self.packer.out(), process);
        }
        self.packer.flush_raw()?;
        self.packer.finish()?;
        let metadata_dropped = self.calls.metadata_dropped;
        Ok(Summary { bytes: self.packer.written, metadata_dropped, ..self.summary })
    }
}

impl<'a> Writer<'a> {
    pub fn new(sink: &'a mut Sink<'a>, options: &Options) -> io::Result<Writer<'a>> {
        Ok(Writer {
            packer: Packer::new(sink, options.compression)?,
            processes: Vec::new(),
            threads: BTreeMap::new(),
            devices: BTreeMap::new(),
            sequences: 0,
            chapter_ends: CHAPTER,
            packed: 0,
            summary: Summary::default(),
            machines: options.machines,
            hosts: Vec::new(),
            unix_offset_ns: options.unix_offset_ns,
            total: options.total.map(|(first_ns, last_ns)| Activity::new(first_ns, last_ns)),
            calls: Calls::default(),
        })
    }

    /// Completes a process: its counters are written, and the memory for it and its threads is freed. So a file of
    /// thousands of processes needs no more memory than that of one.
    pub fn complete(&mut self, process: ProcessId) -> io::Result<()> {
        let owner = &mut self.processes[process.0];
        let activity = std::mem::take(&mut owner.activity);
        put_activity(self.packer.out(), owner.head, owner.uuid, &activity);
        owner.is_complete = true;
        self.threads.retain(|(owner, _), _| *owner != process);
        self.devices.retain(|(owner, _), _| *owner != process);
        self.flush()?;
        put_complete(self.packer.out(), &self.processes[process.0]);
        self.packer.flush_raw()
    }

    /// Writes counters of every process and of the total.
    fn counters(&mut self) -> io::Result<()> {
        for process in self.processes.iter().filter(|process| !process.is_complete) {
            put_activity(self.packer.out(), process.head, process.uuid, &process.activity);
            self.packer.breathe()?;
        }
        if let (Some(total), [first, _, ..]) = (&self.total, &self.processes[..]) {
            let (out, head) = (self.packer.out(), first.head);
            let uuid = child_uuid(head.machine.unwrap_or(0) as u64, "total", b"");
            put_packet(out, head, |packet| {
                packet.nested(field::packet::TRACK, |track| {
                    track.number(field::track::UUID, uuid);
                    track.text(field::track::NAME, b"all processes");
                });
            });
            put_activity(out, head, uuid, total);
        }
        self.flush()
    }

    /// Returns an offset that separates the ids of several hosts.
    fn id_shift(&mut self, fields: &Fields) -> u64 {
        if self.machines {
            return 0;
        }
        let host = hash(&[key::HOST, key::BOOT_ID].map(|key| fields.get(key).unwrap_or("").as_bytes()));
        let at = self.hosts.iter().position(|known| *known == host).unwrap_or(self.hosts.len());
        if at == self.hosts.len() {
            self.hosts.push(host);
        }
        at as u64 * ID_STRIDE
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequences += 1;
        self.sequences
    }

    fn flush(&mut self) -> io::Result<()> {
        self.packed += self.packer.out().0.len() as u64;
        self.packer.flush()
    }

    /// Starts a chapter if the last one has grown long.
    fn turn_chapter(&mut self) -> io::Result<()> {
        if self.packer.out().0.len() < GATHERED {
            return Ok(());
        }
        self.flush()?;
        let Some(process) = self.processes.first().filter(|_| self.packed >= self.chapter_ends) else {
            return Ok(());
        };
        self.chapter_ends += CHAPTER;
        self.threads.values_mut().for_each(|thread| thread.state = None);
        put_packet(self.packer.out(), process.head, |packet| packet.nested(field::packet::ATTRIBUTES, put_chapter));
        self.packer.flush_raw()
    }

    /// Takes the thread, which is introduced by the next event if it is unknown; it must be put back.
    fn take_thread(&mut self, process: ProcessId, tid: u32) -> Thread {
        if let Some(thread) = self.threads.remove(&(process, tid)) {
            return thread;
        }
        let sequence = self.next_sequence();
        let owner = &self.processes[process.0];
        Thread {
            uuid: child_uuid(owner.uuid, "thread", &tid.to_le_bytes()),
            head: Head { sequence, machine: owner.head.machine },
            tid,
            lanes: Lanes::default(),
            metadata: Vec::new(),
            state: None,
        }
    }

    #[inline]
    fn put(&mut self, process: ProcessId, thread: &mut Thread, call: &Call, names: &Names) -> io::Result<()> {
        let owner = &mut self.processes[process.0];
        owner.events += 1;
        self.summary.events += 1;
        if let Some(info) = call.info.filter(|_| !owner.merged) {
            let seen = FileCall { op: call.op, begin: call.begin, end: call.end, fd: call.fd, ret: call.ret };
            owner.act(info, seen, call.file, names, self.total.as_mut());
        }
        let mut flows = Vec::from_iter(owner.flows.leaving(call.info, call.op, call.ret));
        if call.op != Op::COUNTER {
            flows.append(&mut owner.flows.entering);
        }
        if thread.state.is_none() {
            thread.state = Some(introduce(self.packer.out(), owner, thread));
        }
        match call.op {
            Op::COUNTER => put_counter(self.packer.out(), owner, thread, call, names),
            Op::INSTANT | Op::LOST => put_instant(self.packer.out(), thread, call, &flows, names),
            _ => match DeviceTrack::of(call, names) {
                Some(track) => {
                    let lanes = self.devices.entry((process, track)).or_default();
                    let lane = match lanes.place(call.begin, call.end, 0) {
                        Placement::Track => Some(0),
                        Placement::Lane(lane) => Some(lane + 1),
                        Placement::NoTrack => None,
                    };
                    match lane {
                        Some(lane) => put_work(self.packer.out(), owner, thread, (track, lane), call, names),
                        None => put_without_track(self.packer.out(), thread, call, &flows, names),
                    }
                }
                None => put_slice(&mut self.packer, owner, thread, call, &flows, names),
            },
        }
        // A batch is small compared with the collected packets, but the names in it are not limited.
        if self.packer.out().0.len() >= 2 * GATHERED { self.flush() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::clock::Anchor;
    use crate::event::record::{Record, word};
    use crate::export::exporter::{complete_fields, export};
    use crate::native::file::{Image, Leftover};
    use crate::perfetto::proto::{Value, Walk, value};

    fn image(events: u64) -> Image {
        let mut leftover = Leftover { tid: 7, ..Leftover::default() };
        for i in 0..events {
            leftover.events.push(&Record {
                word: word(Op::PREAD, 0, true, 50),
                start: 1 + i * 100,
                file: 1 + (i % 3) as u32,
                fd: 3,
                a: i as i64 * 10,
                b: 10,
                ret: 10,
            });
        }
        let anchors = vec![Anchor { ticks: 1, boot_ns: 1_000_000, real_ns: 9_000_000 }];
        Image { anchors, leftovers: vec![leftover], ..Image::default() }
    }

    fn exported(image: &Image, compression: Compression) -> (Vec<u8>, Summary) {
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        let writer = Writer::new(&mut sink, &Options { compression, ..Options::default() }).unwrap();
        let summary = export(image, &[], Box::new(writer)).unwrap();
        (out, summary)
    }

    /// Returns the packets of a file, and those within its packed ones.
    fn packets(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        for packet in Walk::new(bytes) {
            let (number, packet) = packet.unwrap();
            assert_eq!(number, field::trace::PACKET);
            match Walk::new(packet.bytes()).next() {
                Some(Ok((field::packet::DEFLATED, packed))) => {
                    let mut raw = vec![0; 3 * GATHERED];
                    let length = libdeflater::Decompressor::new().zlib_decompress(packed.bytes(), &mut raw).unwrap();
                    let inner = packets(&raw[..length]);
                    assert!(inner.iter().all(|packet| packet[0] >> 3 == field::packet::SEQUENCE as u8));
                    found.extend(inner);
                }
                _ => found.push(packet.bytes().to_vec()),
            }
        }
        found
    }

    fn events(packets: &[Vec<u8>], kind: u64) -> usize {
        let is_kind = |event: &[u8]| Walk::new(event).any(|f| f == Ok((field::event::TYPE, Value::Number(kind))));
        let event = |packet: &Vec<u8>| {
            Walk::new(packet).flatten().any(|(n, v)| n == field::packet::TRACK_EVENT && is_kind(v.bytes()))
        };
        packets.iter().filter(|packet| event(packet)).count()
    }

    #[test]
    fn every_call_becomes_a_pair_of_packets() {
        for compression in [Compression::None, Compression::Deflate] {
            for count in [0, 1, 2, 100_000] {
                let (bytes, summary) = exported(&image(count), compression);
                assert_eq!((summary.events, summary.bytes), (count, bytes.len() as u64));
                let packets = packets(&bytes);
                // Includes start and end of the process, and counters on other tracks.
                assert_eq!(events(&packets, value::SLICE_BEGIN), count as usize);
                assert_eq!(events(&packets, value::SLICE_END), count as usize);
                assert_eq!(events(&packets, value::INSTANT), 2);
            }
        }
    }

    /// Returns the packets that are values of counters.
    fn samples(bytes: &[u8]) -> Vec<Vec<u8>> {
        packets(bytes).into_iter().filter(|packet| events(std::slice::from_ref(packet), value::COUNTER) == 1).collect()
    }

    #[test]
    fn overview_keeps_counters_of_merged_events() {
        let image = image(50_000);
        let (whole, _) = exported(&image, Compression::None);
        let (clock, leftover) = (image.clock().unwrap(), &image.leftovers[0]);
        let mut fields = complete_fields(&image);
        fields.set(key::OVERVIEW, "overview");
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        let mut writer =
            Writer::new(&mut sink, &Options { compression: Compression::None, ..Options::default() }).unwrap();
        let process = writer.process(&fields, &clock, 1_000_000, clock.boot_ns(image.last_tick())).unwrap();
        writer.count(process, &leftover.events, &clock, &image.names);
        let mut merged = Events::default();
        merged.push(&Record { word: word(Op::PREAD, 0, true, 5_000_000), start: 1, ret: 500_000, ..Record::default() });
        writer.batch(process, 7, &merged, &clock, &image.names).unwrap();
        assert_eq!(Box::new(writer).finish().unwrap().events, 1);
        assert!(!samples(&whole).is_empty());
        assert_eq!(samples(&out), samples(&whole));
    }

    #[test]
    fn image_without_a_clock_is_rejected() {
        let mut sink = |_: &[u8]| Ok(());
        let writer = Writer::new(&mut sink, &Options::default()).unwrap();
        let error = export(&Image::default(), &[], Box::new(writer)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn failing_sink_ends_the_export() {
        let mut room = 1000;
        let mut sink = |bytes: &[u8]| {
            room -= bytes.len() as i64;
            if room < 0 { Err(io::Error::other("no space")) } else { Ok(()) }
        };
        let writer = Writer::new(&mut sink, &Options::default()).unwrap();
        assert!(export(&image(100_000), &[], Box::new(writer)).is_err());
    }
}
