//! From a Perfetto trace back to events.
//!
//! A [`Reader`] is given packets, in pieces of any length, and hands out [`Batch`]es: events of one thread in the form the
//! native trace has them, times in nanoseconds of boot time. A trace of ours gives back what was recorded. Of any other
//! trace, slices become spans, instants and counters what they are, annotations metadata records before their event, and
//! whatever else it holds is passed over and counted.
//!
//! ```no_run
//! # use dlio_schemas::perfetto::read::{Batch, Reader, chapters};
//! # let bytes: Vec<u8> = Vec::new();
//! // In one go:
//! let mut reader = Reader::default();
//! let used = reader.read(&bytes, &mut |batch: Batch| println!("{} events", batch.events.len()));
//! reader.finish(&mut |batch| println!("{} events", batch.events.len()));
//! println!("{} bytes left over, damage: {:?}", bytes.len() - used, reader.damage);
//!
//! // Or in parallel: what stands outside compressed packets first, then chapter by chapter on any thread.
//! let mut first = Reader::default();
//! first.scan(&bytes);
//! for chapter in chapters(&bytes) {
//!     let mut reader = first.fork();
//!     reader.read(&bytes[chapter], &mut |_batch| ());
//!     reader.finish(&mut |_batch| ());
//! }
//! ```
//!
//! Names are numbers into [`Reader::names`] and processes into [`Reader::processes`]; both belong to one reader. Processes
//! of several readers are the same if their `uuid` is, strings if they are equal. Readers forked from a scan number the
//! processes it found alike.
//!
//! Nothing a file says makes this panic or take memory out of proportion to its length, but for compressed packets, which
//! may each grow to [`PACKED_MAX`] for a moment.

use std::collections::HashMap;
use std::ops::Range;

use super::clocks::Clocks;
use super::interned::{AnnotationName, Category, EventName, Interned};
use super::layout::{
    ATTRIBUTE_CHAPTER, ATTRIBUTE_COMPLETE, ATTRIBUTE_LAYOUT, ATTRIBUTE_OFFSET, ATTRIBUTE_PREFIX, ID_STRIDE, Key, LAYOUT,
};
use super::proto::{Value, Walk, field, value, varint};
use crate::clock::Clock;
use crate::native::Damage;
use crate::native::columns::{EVENTS_MAX, Events};
use crate::native::fields::{Fields, key};
use crate::native::names::{NameKind, Names};
use crate::native::ring::OpenSpan;
use crate::ops::{Op, OpInfo, Ret};
use crate::record::{DEPTH_MAX, MetaKind, POS_UNKNOWN, Record, STEP_NONE, pack_steps, word};

/// Largest a compressed packet may become. Perfetto asks for 512 KB stored; ours hold half a MiB.
pub const PACKED_MAX: usize = 64 << 20;

/// Places of damage remembered; all are counted.
const DAMAGE_MAX: usize = 1000;

/// Slices open at once on a track; deeper ones are passed over.
const OPEN_MAX: usize = 4096;

/// Events of one thread, in the order they ended.
pub struct Batch<'r> {
    /// Into [`Reader::processes`].
    pub process: usize,
    pub tid: u32,
    pub events: &'r Events,
}

/// Takes batches as they fill.
pub type Take<'t> = dyn FnMut(Batch) + 't;

/// A process as the trace describes it.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub uuid: u64,
    /// The facts of a trace of ours; of another pid, program, command and threads.
    pub fields: Fields,
    /// Whether our writer wrote it.
    pub ours: bool,
    /// Unix time minus boot time, if it says so itself.
    pub real_offset_ns: Option<i64>,
    /// Events our writer had written when it finished; `None` in a trace that was cut, or is not ours.
    pub complete: Option<u64>,
    /// Spans that never ended.
    pub open_spans: Vec<OpenSpan>,
}

/// See the module.
#[derive(Default)]
pub struct Reader {
    pub processes: Vec<Process>,
    pub names: Names,
    pub clocks: Clocks,
    /// What could not be used and where, up to a thousand places.
    pub damage: Vec<(usize, Damage)>,
    pub damaged: u64,
    /// Track events of kinds that have no row here.
    pub skipped: u64,
    /// Latest end of any event, in boot time.
    pub last_ns: u64,
    name_ids: NameIds,
    process_ids: HashMap<u64, usize>,
    pids: HashMap<u64, usize>,
    sequences: Vec<Sequence>,
    sequence_ids: HashMap<u64, usize>,
    /// The sequence last seen and its index: packets of one sequence come in runs.
    sequence_last: Option<(u64, usize)>,
    tracks: Vec<Track>,
    track_ids: HashMap<u64, usize>,
    streams: Vec<Stream>,
    stream_ids: HashMap<(usize, u32, u64), usize>,
    unpacker: Unpacker,
    slots: Slots,
    position: usize,
}

/// Number of each string of [`Reader::names`], by kind.
type NameIds = [HashMap<Box<[u8]>, u32>; 6];

#[derive(Clone, Default)]
struct Sequence {
    interned: Interned,
    clock: Option<u64>,
    track: u64,
    /// Index of `track`, once it is known.
    track_at: Option<usize>,
}

impl Sequence {
    fn defaults(&mut self, message: &[u8]) {
        for (number, value) in Walk::new(message).flatten() {
            match number {
                field::defaults::CLOCK_ID => self.clock = Some(value.number()),
                field::defaults::TRACK_EVENT => {
                    let track = Walk::new(value.bytes()).flatten().find(|(number, _)| *number == field::event::TRACK);
                    self.track = track.map_or(0, |(_, uuid)| uuid.number());
                    self.track_at = None;
                }
                _ => (),
            }
        }
    }
}

#[derive(Default)]
struct Track {
    stream: usize,
    process: usize,
    tid: u32,
    name: u32,
    /// A track of a process our writer made: what is on it was derived from the events.
    derived: bool,
    ours: bool,
    open: Vec<Open>,
}

impl Track {
    fn child(&self, open: Vec<Open>) -> Track {
        Track { open, process: self.process, tid: self.tid, derived: self.derived, ours: self.ours, ..Track::default() }
    }
}

/// A slice that has begun.
struct Open {
    record: Record,
    metadata: Vec<Record>,
    unfinished: bool,
}

struct Stream {
    process: usize,
    tid: u32,
    events: Events,
}

/// The parts of a packet, in whatever order they came.
#[derive(Default)]
struct Packet<'a> {
    time: Option<u64>,
    clock: Option<u64>,
    sequence: u64,
    flags: u64,
    snapshot: Option<&'a [u8]>,
    defaults: Option<&'a [u8]>,
    interned: Option<&'a [u8]>,
    track: Option<&'a [u8]>,
    event: Option<&'a [u8]>,
    attributes: Option<&'a [u8]>,
    packed: Option<(u32, &'a [u8])>,
}

impl<'a> Packet<'a> {
    fn parse(message: &'a [u8]) -> Option<Packet<'a>> {
        use field::packet as f;
        let mut packet = Packet::default();
        for part in Walk::new(message) {
            let (number, value) = part.ok()?;
            match number {
                f::TIMESTAMP => packet.time = Some(value.number()),
                f::CLOCK_ID => packet.clock = Some(value.number()),
                f::SEQUENCE => packet.sequence = value.number(),
                f::SEQUENCE_FLAGS => packet.flags = value.number(),
                f::CLOCK_SNAPSHOT => packet.snapshot = Some(value.bytes()),
                f::DEFAULTS => packet.defaults = Some(value.bytes()),
                f::INTERNED_DATA => packet.interned = Some(value.bytes()),
                f::TRACK => packet.track = Some(value.bytes()),
                f::TRACK_EVENT => packet.event = Some(value.bytes()),
                f::ATTRIBUTES => packet.attributes = Some(value.bytes()),
                f::DEFLATED | f::ZSTD => packet.packed = Some((number, value.bytes())),
                _ => (),
            }
        }
        Some(packet)
    }
}

impl Reader {
    /// Reads whole packets from the start of `bytes` and says how many bytes they took; the rest is to be given again with
    /// what follows it, or is the cut end of a file.
    pub fn read(&mut self, bytes: &[u8], take: &mut Take) -> usize {
        self.packets(bytes, true, take)
    }

    /// Reads only what stands outside compressed packets, and no events; says how many bytes that took, as
    /// [`Reader::read`] does.
    pub fn scan(&mut self, bytes: &[u8]) -> usize {
        let used = self.packets(bytes, false, &mut |_| ());
        self.streams.iter_mut().for_each(|stream| stream.events.clear());
        self.tracks.iter_mut().for_each(|track| track.open.clear());
        used
    }

    /// Hands out what is left and notes spans that never ended.
    pub fn finish(&mut self, take: &mut Take) {
        for track in &mut self.tracks {
            let process = &mut self.processes[track.process];
            // A call of ours without its end is the last thing before a cut.
            for open in track.open.drain(..).filter(|open| !track.ours && open.record.op() == Op::SPAN) {
                process.open_spans.push(open_span(track.tid, &open));
            }
        }
        for stream in self.streams.iter_mut().filter(|stream| !stream.events.is_empty()) {
            take(Batch { process: stream.process, tid: stream.tid, events: &stream.events });
            stream.events.clear();
        }
    }

    /// A reader for another chapter, which knows what this one knows and has seen none of its events or damage.
    pub fn fork(&self) -> Reader {
        Reader {
            processes: self.processes.clone(),
            process_ids: self.process_ids.clone(),
            pids: self.pids.clone(),
            names: self.names.clone(),
            name_ids: self.name_ids.clone(),
            clocks: self.clocks.clone(),
            sequences: self.sequences.clone(),
            sequence_ids: self.sequence_ids.clone(),
            tracks: self
                .tracks
                .iter()
                .map(|track| Track { name: track.name, stream: track.stream, ..track.child(Vec::new()) })
                .collect(),
            track_ids: self.track_ids.clone(),
            streams: self
                .streams
                .iter()
                .map(|s| Stream { process: s.process, tid: s.tid, events: Events::default() })
                .collect(),
            stream_ids: self.stream_ids.clone(),
            ..Reader::default()
        }
    }

    /// The clock of a process: events carry boot time, which needs only the offset to Unix time.
    pub fn clock(&self, process: usize) -> Clock {
        let own = self.processes.get(process).and_then(|process| process.real_offset_ns);
        Clock::nanoseconds(own.or(self.clocks.real_offset_ns).unwrap_or(0))
    }

    fn packets(&mut self, bytes: &[u8], events: bool, take: &mut Take) -> usize {
        let mut rest = bytes;
        let start = self.position;
        while let Some(message) = next_packet(&mut rest) {
            let used = bytes.len() - rest.len();
            match message {
                Frame::Packet(message) => self.packet(message, events, take),
                Frame::Other => (),
                Frame::Broken => {
                    self.damage(Damage::Broken("the frame of a packet"));
                    return bytes.len();
                }
            }
            self.position = start + used;
        }
        bytes.len() - rest.len()
    }

    fn packet(&mut self, message: &[u8], events: bool, take: &mut Take) {
        let Some(packet) = Packet::parse(message) else {
            return self.damage(Damage::Broken("a packet"));
        };
        match packet.packed {
            Some((codec, packed)) if events => self.packed(codec, packed, take),
            Some(_) => (),
            None => self.plain(&packet, events, take),
        }
    }

    fn packed(&mut self, codec: u32, packed: &[u8], take: &mut Take) {
        let mut unpacker = std::mem::take(&mut self.unpacker);
        let at = self.position;
        match unpacker.unpack(codec, packed) {
            Some(bytes) => {
                let mut rest = bytes;
                while let Some(frame) = next_packet(&mut rest) {
                    match frame {
                        Frame::Packet(message) => match Packet::parse(message) {
                            Some(packet) if packet.packed.is_none() => self.plain(&packet, true, take),
                            _ => self.damage(Damage::Broken("a packet within a compressed one")),
                        },
                        Frame::Other => (),
                        Frame::Broken => {
                            self.damage(Damage::Broken("the frame of a packet"));
                            break;
                        }
                    }
                }
                if !rest.is_empty() {
                    self.damage(Damage::Broken("the end of a compressed packet"));
                }
            }
            None => self.damage(Damage::Broken("a packet's compression")),
        }
        self.position = at;
        self.unpacker = unpacker;
    }

    fn damage(&mut self, damage: Damage) {
        self.damaged += 1;
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push((self.position, damage));
        }
    }

    fn plain(&mut self, packet: &Packet, events: bool, take: &mut Take) {
        if let Some(attributes) = packet.attributes {
            self.attributes(attributes);
        }
        let sequence = self.sequence(packet.sequence);
        if packet.flags & value::STATE_CLEARED != 0 {
            self.sequences[sequence] = Sequence::default();
        }
        if let Some(snapshot) = packet.snapshot {
            self.clocks.learn(snapshot, packet.sequence);
        }
        if let Some(defaults) = packet.defaults {
            self.sequences[sequence].defaults(defaults);
        }
        if let Some(interned) = packet.interned {
            self.interned(interned, sequence);
        }
        if let Some(track) = packet.track {
            self.describe(track);
        }
        let time = packet.time.map(|time| {
            let clock = packet.clock.or(self.sequences[sequence].clock);
            self.clocks.boot_ns(time, clock, packet.sequence)
        });
        if let (Some(event), true) = (packet.event, events) {
            match time {
                Some(time) => self.event(event, time, sequence, take),
                None => self.skipped += 1,
            }
        }
    }

    /// Facts about processes of ours.
    fn attributes(&mut self, message: &[u8]) {
        for (number, attribute) in Walk::new(message).flatten() {
            if number != field::attributes::ATTRIBUTE {
                continue;
            }
            let (mut name, mut text, mut long) = (&[][..], None, 0);
            for (number, value) in Walk::new(attribute.bytes()).flatten() {
                match number {
                    field::attributes::KEY => name = value.bytes(),
                    field::attributes::STRING => text = Some(value.bytes()),
                    field::attributes::LONG => long = value.number(),
                    _ => (),
                }
            }
            if let Some((uuid, key)) = std::str::from_utf8(name).ok().and_then(our_attribute) {
                self.attribute(uuid, key, text, long);
            }
        }
    }

    fn attribute(&mut self, uuid: u64, key: &str, text: Option<&[u8]>, long: u64) {
        let at = self.process(uuid);
        let process = &mut self.processes[at];
        match (key, text) {
            (ATTRIBUTE_LAYOUT, None) if long > LAYOUT => self.damage(Damage::TooNew(long.min(u32::MAX as u64) as u32)),
            (ATTRIBUTE_LAYOUT, None) => process.ours = true,
            (ATTRIBUTE_OFFSET, None) => process.real_offset_ns = Some(long as i64),
            (ATTRIBUTE_COMPLETE, None) => process.complete = Some(long),
            (key, Some(text)) => {
                process.fields.set(key, String::from_utf8_lossy(text));
                if let (key::PID, Some(pid)) = (key, process.fields.number(key::PID)) {
                    self.pids.insert(pid, at);
                }
            }
            _ => (),
        }
    }

    fn process(&mut self, uuid: u64) -> usize {
        *self.process_ids.entry(uuid).or_insert_with(|| {
            self.processes.push(Process { uuid, ..Process::default() });
            self.processes.len() - 1
        })
    }

    /// The process a thread names by its pid.
    fn process_of_pid(&mut self, pid: u64) -> usize {
        if let Some(&at) = self.pids.get(&pid) {
            return at;
        }
        let at = self.process(super::layout::hash(&[b"pid", &pid.to_le_bytes()]));
        self.processes[at].fields.set(key::PID, pid);
        self.pids.insert(pid, at);
        at
    }

    fn sequence(&mut self, id: u64) -> usize {
        if let Some((_, at)) = self.sequence_last.filter(|(last, _)| *last == id) {
            return at;
        }
        let next = self.sequences.len();
        let at = *self.sequence_ids.entry(id).or_insert(next);
        if at == next {
            self.sequences.push(Sequence::default());
        }
        self.sequence_last = Some((id, at));
        at
    }

    fn interned(&mut self, message: &[u8], sequence: usize) {
        let (names, ids) = (&mut self.names, &mut self.name_ids);
        self.sequences[sequence]
            .interned
            .learn(message, &mut |table, text| name_id(names, ids, kind_of(table, text), text));
    }

    fn describe(&mut self, message: &[u8]) {
        let description = Description::parse(message);
        let known = self.track_ids.get(&description.uuid).copied();
        let parent = description.parent.and_then(|uuid| self.track_ids.get(&uuid).copied());
        let open = known.map_or(Vec::new(), |at| std::mem::take(&mut self.tracks[at].open));
        let mut track = Track { open, ..Track::default() };
        if let Some(process) = description.process {
            track.process = self.describe_process(description.uuid, process);
            track.derived = self.processes[track.process].ours;
        } else if let Some(thread) = description.thread {
            self.describe_thread(&mut track, description.parent, thread);
        } else if let Some(parent) = parent {
            track = self.tracks[parent].child(track.open);
        } else if let Some(&process) = description.parent.and_then(|uuid| self.process_ids.get(&uuid)) {
            track.process = process;
        } else {
            track.process = self.process(0);
        }
        if !description.name.is_empty() {
            let kind = NameKind::Span;
            track.name = name_id(&mut self.names, &mut self.name_ids, kind, description.name);
        }
        // Tracks without a thread nest on their own.
        let own = if track.tid == 0 { description.uuid } else { 0 };
        track.stream = self.stream(track.process, track.tid, own);
        match known {
            Some(at) => self.tracks[at] = track,
            None => self.add_track(description.uuid, track),
        }
    }

    fn add_track(&mut self, uuid: u64, track: Track) {
        self.track_ids.insert(uuid, self.tracks.len());
        self.tracks.push(track);
    }

    fn describe_process(&mut self, uuid: u64, message: &[u8]) -> usize {
        let at = self.process(uuid);
        if self.processes[at].ours {
            return at;
        }
        let mut command: Vec<String> = Vec::new();
        for (number, value) in Walk::new(message).flatten() {
            let fields = &mut self.processes[at].fields;
            match number {
                field::process::PID => {
                    fields.set(key::PID, value.number());
                    self.pids.insert(value.number(), at);
                }
                field::process::NAME => fields.set(key::PROGRAM, String::from_utf8_lossy(value.bytes())),
                field::process::START => fields.set(key::START_BOOT_NS, value.number()),
                field::process::COMMAND => command.push(String::from_utf8_lossy(value.bytes()).into_owned()),
                _ => (),
            }
        }
        if !command.is_empty() {
            self.processes[at].fields.set(key::COMMAND, command.join("\0"));
        }
        at
    }

    fn describe_thread(&mut self, track: &mut Track, parent: Option<u64>, message: &[u8]) {
        let (mut pid, mut name) = (0, None);
        for (number, value) in Walk::new(message).flatten() {
            match number {
                field::thread::PID => pid = value.number(),
                field::thread::TID => track.tid = value.number() as u32,
                field::thread::NAME => name = Some(String::from_utf8_lossy(value.bytes())),
                _ => (),
            }
        }
        let by_parent = parent.and_then(|uuid| self.process_ids.get(&uuid).copied());
        track.process = by_parent.unwrap_or_else(|| self.process_of_pid(pid));
        let process = &mut self.processes[track.process];
        track.ours = process.ours && by_parent.is_some();
        if track.ours {
            track.tid %= ID_STRIDE as u32;
        }
        if let (Some(name), false) = (name, process.ours) {
            let before = process.fields.get(key::THREADS).map_or(String::new(), |before| format!("{before}\0"));
            process.fields.set(key::THREADS, format!("{before}{}={name}", track.tid));
        }
    }

    /// Index of a track, which may not have been described yet.
    fn track(&mut self, uuid: u64) -> usize {
        if let Some(&at) = self.track_ids.get(&uuid) {
            return at;
        }
        let process = self.process(0);
        let stream = self.stream(process, 0, uuid);
        self.add_track(uuid, Track { process, stream, ..Track::default() });
        self.tracks.len() - 1
    }

    fn stream(&mut self, process: usize, tid: u32, own: u64) -> usize {
        *self.stream_ids.entry((process, tid, own)).or_insert_with(|| {
            self.streams.push(Stream { process, tid, events: Events::default() });
            self.streams.len() - 1
        })
    }

    /// One track event at its time.
    fn event(&mut self, message: &[u8], time: u64, sequence: usize, take: &mut Take) {
        let home = match self.sequences[sequence].track_at {
            Some(at) => at,
            None => self.track(self.sequences[sequence].track),
        };
        self.sequences[sequence].track_at = Some(home);
        if self.tracks[home].derived {
            return;
        }
        let mut parser = EventParser {
            interned: &self.sequences[sequence].interned,
            names: &mut self.names,
            ids: &mut self.name_ids,
            slots: &mut self.slots,
            skipped: &mut self.skipped,
        };
        let event = parser.parse(message);
        let at = event.track.map_or(home, |uuid| self.track(uuid));
        self.last_ns = self.last_ns.max(time);
        match event.kind {
            value::SLICE_BEGIN => self.begin(home, at, &event, time),
            value::SLICE_END => self.end(home, at, time, take),
            value::INSTANT | value::COUNTER => {
                let mut open = self.open(home, at, &event, time);
                if self.slots.has(Key::Dur) {
                    open.end(time.wrapping_add(self.slots.number(Key::Dur) as u64));
                }
                self.emit(self.stream_of(home, at), &open, take);
            }
            _ => self.skipped += 1,
        }
    }

    /// Whatever track our writer draws an event on, it belongs to the thread of its sequence.
    fn stream_of(&self, home: usize, at: usize) -> usize {
        if self.tracks[home].ours { self.tracks[home].stream } else { self.tracks[at].stream }
    }

    fn begin(&mut self, home: usize, at: usize, event: &Event, time: u64) {
        if self.tracks[at].open.len() >= OPEN_MAX {
            self.skipped += 1;
            return;
        }
        let open = self.open(home, at, event, time);
        self.tracks[at].open.push(open);
    }

    fn end(&mut self, home: usize, at: usize, time: u64, take: &mut Take) {
        let Some(mut open) = self.tracks[at].open.pop() else {
            self.skipped += 1;
            return;
        };
        open.end(time);
        if open.unfinished {
            let track = &self.tracks[home];
            self.processes[track.process].open_spans.push(open_span(track.tid, &open));
            return;
        }
        self.emit(self.stream_of(home, at), &open, take);
    }

    /// The event as a record without its end.
    fn open(&mut self, home: usize, at: usize, event: &Event, time: u64) -> Open {
        let nested = self.tracks[at].open.len().min(DEPTH_MAX as usize) as u8;
        let depth = event.category.filter(|_| self.tracks[home].ours).map_or(nested, |category| category.depth);
        let op = event.operation();
        let mut record = Record { start: time, fd: -1, ..Record::default() };
        let mut metadata = Vec::new();
        let known = match op {
            Op::SPAN | Op::INSTANT | Op::COUNTER => {
                let track_name = self.tracks[at].name;
                let own_name = event.name.map_or(track_name, |name| name.id);
                record.file = if own_name != 0 { own_name } else { self.name(NameKind::Span, b"unnamed") };
                // Without a category of its own a span is one of the application.
                record.fd = event.category.filter(|category| category.layer.is_none()).map_or(0, |c| c.id as i32);
                self.slots.fill_metadata(time, &mut metadata);
                self.slots.fill_span(&mut record, event.counter)
            }
            op => self.slots.fill_call(&mut record, op.info()),
        };
        record.word = word(op, depth, known, 0);
        Open { record, metadata, unfinished: self.slots.has(Key::Unfinished) }
    }

    fn name(&mut self, kind: NameKind, text: &[u8]) -> u32 {
        name_id(&mut self.names, &mut self.name_ids, kind, text)
    }

    fn emit(&mut self, stream: usize, open: &Open, take: &mut Take) {
        let stream = &mut self.streams[stream];
        if stream.events.len() + open.metadata.len() >= EVENTS_MAX {
            take(Batch { process: stream.process, tid: stream.tid, events: &stream.events });
            stream.events.clear();
        }
        open.metadata.iter().for_each(|meta| stream.events.push(meta));
        stream.events.push(&open.record);
    }
}

impl Open {
    fn end(&mut self, time: u64) {
        let record = &mut self.record;
        let duration = time.saturating_sub(record.start);
        record.word = word(record.op(), record.depth(), record.known(), duration);
    }
}

/// A span of this thread that had not ended.
fn open_span(tid: u32, open: &Open) -> OpenSpan {
    let record = &open.record;
    OpenSpan {
        tid,
        depth: record.depth(),
        start: record.start,
        name: record.file,
        category: record.fd.max(0) as u32,
        steps: if record.known() { record.a } else { pack_steps(STEP_NONE, STEP_NONE) },
    }
}

/// A track event, its strings resolved; its annotations lie in [`Slots`].
#[derive(Default)]
struct Event {
    kind: u64,
    name: Option<EventName>,
    category: Option<Category>,
    track: Option<u64>,
    counter: Option<f64>,
}

impl Event {
    fn operation(&self) -> Op {
        let layer = self.category.and_then(|category| category.layer);
        let ours = self.name.and_then(|name| name.op).filter(|op| op.info().map(|info| info.layer) == layer);
        ours.unwrap_or(match self.kind {
            value::INSTANT => Op::INSTANT,
            value::COUNTER => Op::COUNTER,
            _ => Op::SPAN,
        })
    }
}

struct EventParser<'r> {
    interned: &'r Interned,
    names: &'r mut Names,
    ids: &'r mut NameIds,
    slots: &'r mut Slots,
    skipped: &'r mut u64,
}

impl EventParser<'_> {
    fn parse(&mut self, message: &[u8]) -> Event {
        use field::event as f;
        let mut event = Event::default();
        self.slots.clear();
        for (number, value) in Walk::new(message).flatten() {
            match number {
                f::TYPE => event.kind = value.number(),
                f::NAME_IID => event.name = self.interned.event_names.get(value.number()),
                f::CATEGORY_IIDS => {
                    event.category = first_iid(value).and_then(|iid| self.interned.categories.get(iid));
                }
                f::TRACK => event.track = Some(value.number()),
                f::ANNOTATIONS => self.annotation(value.bytes()),
                f::NAME => event.name = Some(EventName { id: self.name(NameKind::Span, value.bytes()), op: None }),
                f::CATEGORIES if event.category.is_none() => {
                    let id = self.name(NameKind::Category, value.bytes());
                    event.category = Some(Category { id, layer: None, depth: 0 });
                }
                f::COUNTER => event.counter = Some(value.number() as i64 as f64),
                f::COUNTER_DOUBLE => event.counter = Some(f64::from_bits(value.number())),
                _ => (),
            }
        }
        event
    }

    fn annotation(&mut self, message: &[u8]) {
        use field::annotation as f;
        let mut name = None;
        let mut found = None;
        for (number, value) in Walk::new(message).flatten() {
            match number {
                f::NAME_IID => name = self.interned.annotation_names.get(value.number()),
                f::NAME => name = Some(AnnotationName { id: self.name(NameKind::Text, value.bytes()), key: None }),
                f::BOOL | f::UINT | f::INT | f::POINTER => found = Some((MetaKind::Int, value.number() as i64)),
                f::DOUBLE => found = Some((MetaKind::Float, value.number() as i64)),
                f::STRING => found = Some((MetaKind::Text, self.name(NameKind::Text, value.bytes()) as i64)),
                f::STRING_IID => {
                    found = self.interned.strings.get(value.number()).map(|id| (MetaKind::Text, id as i64));
                }
                _ => (),
            }
        }
        match (name, found) {
            (Some(name), Some((kind, value))) => self.slots.put(name, kind, value),
            // Dictionaries, lists and messages, or a string nobody gave a number to.
            _ => *self.skipped += 1,
        }
    }

    fn name(&mut self, kind: NameKind, text: &[u8]) -> u32 {
        name_id(self.names, self.ids, kind, text)
    }
}

/// Interned numbers of categories may come packed; the first is the one that counts.
fn first_iid(value: Value) -> Option<u64> {
    match value {
        Value::Bytes(mut packed) => varint(&mut packed),
        value => Some(value.number()),
    }
}

/// The annotations of one event: those our writer knows by their key, others in turn.
#[derive(Default)]
struct Slots {
    present: u32,
    named: [Slot; Key::ALL.len() + 1],
    others: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    name: u32,
    kind: i32,
    value: i64,
}

impl Slot {
    fn metadata(&self, time: u64) -> Record {
        let word = word(Op::META, 0, true, 0);
        Record { word, start: time, file: self.name, fd: self.kind, a: self.value, ..Record::default() }
    }
}

impl Slots {
    fn clear(&mut self) {
        self.present = 0;
        self.others.clear();
    }

    #[inline]
    fn put(&mut self, name: AnnotationName, kind: MetaKind, value: i64) {
        let slot = Slot { name: name.id, kind: kind as i32, value };
        match name.key {
            Some(key) => {
                self.present |= 1 << key as u32;
                self.named[key as usize] = slot;
            }
            None => self.others.push(slot),
        }
    }

    #[inline]
    fn get(&self, key: Key) -> Option<i64> {
        self.has(key).then(|| self.named[key as usize].value)
    }

    fn has(&self, key: Key) -> bool {
        self.present & 1 << key as u32 != 0
    }

    fn number(&self, key: Key) -> i64 {
        self.get(key).unwrap_or(0)
    }

    /// Annotations of a span that have no column of their own.
    fn fill_metadata(&self, time: u64, into: &mut Vec<Record>) {
        let own_column = |key: &Key| matches!(key, Key::Epoch | Key::Step | Key::Unfinished | Key::Dur);
        let named = Key::ALL.into_iter().filter(|key| self.has(*key) && !own_column(key));
        if self.present != 0 {
            into.extend(named.map(|key| self.named[key as usize].metadata(time)));
        }
        into.extend(self.others.iter().map(|slot| slot.metadata(time)));
    }

    /// Epoch and step, or a counter's value; says whether there was any.
    fn fill_span(&self, record: &mut Record, counter: Option<f64>) -> bool {
        if let Some(value) = counter {
            record.a = value.to_bits() as i64;
            return true;
        }
        let step = |key| self.get(key).map_or(STEP_NONE, |number| number as i32);
        record.a = pack_steps(step(Key::Epoch), step(Key::Step));
        self.has(Key::Epoch) || self.has(Key::Step)
    }

    /// The columns of a call of ours; says whether `a` was known.
    #[inline]
    fn fill_call(&self, record: &mut Record, info: Option<&OpInfo>) -> bool {
        record.file = self.number(Key::File) as u32;
        record.fd = self.get(Key::Fd).map_or(-1, |fd| fd as i32);
        let Some(info) = info else { return false };
        let a = Key::of(info.a, false).and_then(|key| self.get(key));
        record.a = a.unwrap_or(POS_UNKNOWN);
        record.b = Key::of(info.b, true).map_or(0, |key| self.number(key));
        record.ret = match (self.get(Key::Errno), info.ret) {
            (Some(errno), _) => errno.wrapping_neg(),
            (None, Ret::Bytes) => self.number(Key::Bytes),
            (None, Ret::Fd) => self.get(Key::Ret).unwrap_or(record.fd as i64),
            (None, _) => self.number(Key::Ret),
        };
        a.is_some()
    }
}

/// The parts of a track's descriptor.
#[derive(Default)]
struct Description<'a> {
    uuid: u64,
    parent: Option<u64>,
    name: &'a [u8],
    process: Option<&'a [u8]>,
    thread: Option<&'a [u8]>,
}

impl<'a> Description<'a> {
    fn parse(message: &'a [u8]) -> Description<'a> {
        use field::track as f;
        let mut description = Description::default();
        for (number, value) in Walk::new(message).flatten() {
            match number {
                f::UUID => description.uuid = value.number(),
                f::PARENT => description.parent = Some(value.number()),
                f::NAME => description.name = value.bytes(),
                f::PROCESS => description.process = Some(value.bytes()),
                f::THREAD => description.thread = Some(value.bytes()),
                _ => (),
            }
        }
        description
    }
}

/// What stands at the start of a file or of an unpacked packet.
enum Frame<'a> {
    Packet(&'a [u8]),
    /// A field that is no packet.
    Other,
    Broken,
}

/// The next whole field; `None` at the end, or where the rest is not whole.
fn next_packet<'a>(rest: &mut &'a [u8]) -> Option<Frame<'a>> {
    // Long varints that are cut look like broken ones; a head is never longer than this.
    const HEAD_MAX: usize = 20;
    let mut head = *rest;
    let Some(tag) = varint(&mut head) else { return cut(rest, HEAD_MAX) };
    if tag != (field::trace::PACKET << 3 | super::proto::BYTES) as u64 {
        let mut walk = Walk::new(rest);
        let whole = walk.next()?.is_ok();
        let after = walk.rest();
        *rest = if whole { after } else { &[] };
        return Some(if whole { Frame::Other } else { Frame::Broken });
    }
    let Some(length) = varint(&mut head) else { return cut(rest, HEAD_MAX) };
    let message = head.get(..usize::try_from(length).ok()?)?;
    *rest = &head[message.len()..];
    Some(Frame::Packet(message))
}

fn cut<'a>(rest: &mut &'a [u8], head_max: usize) -> Option<Frame<'a>> {
    (rest.len() >= head_max).then_some(Frame::Broken)
}

/// Where readers may begin in a file of ours; one range over all of any other.
pub fn chapters(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut chapters = Chapters::default();
    chapters.feed(bytes);
    chapters.finish(bytes.len())
}

/// Finds the chapters of a file that is given piece by piece.
#[derive(Default)]
pub struct Chapters {
    starts: Vec<usize>,
    at: usize,
}

impl Chapters {
    /// Looks at whole packets, from where the last piece's whole packets ended.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let at = self.at + bytes.len() - rest.len();
            match next_packet(&mut rest) {
                Some(Frame::Packet(message)) if is_chapter(message) => self.starts.push(at),
                Some(Frame::Packet(_) | Frame::Other) => (),
                Some(Frame::Broken) | None => break,
            }
        }
        self.at += bytes.len() - rest.len();
    }

    /// The ranges of a file of this size.
    pub fn finish(self, size: usize) -> Vec<Range<usize>> {
        let starts = || std::iter::once(0).chain(self.starts.iter().copied());
        let ends = starts().skip(1).chain([size]);
        starts().zip(ends).map(|(start, end)| start..end).collect()
    }
}

fn is_chapter(message: &[u8]) -> bool {
    // Chapters are short packets; long ones need no look inside.
    message.len() < 64 && message.windows(ATTRIBUTE_CHAPTER.len()).any(|part| part == ATTRIBUTE_CHAPTER.as_bytes())
}

/// `dlio.UUID.KEY` taken apart.
fn our_attribute(name: &str) -> Option<(u64, &str)> {
    let (uuid, key) = name.strip_prefix(ATTRIBUTE_PREFIX)?.split_once('.')?;
    Some((u64::from_str_radix(uuid, 16).ok()?, key))
}

fn name_id(names: &mut Names, ids: &mut NameIds, kind: NameKind, text: &[u8]) -> u32 {
    let ids = &mut ids[kind as usize];
    if let Some(&id) = ids.get(text) {
        return id;
    }
    let id = names.push(kind, text);
    ids.insert(text.into(), id);
    id
}

fn kind_of(table: u32, text: &[u8]) -> NameKind {
    match table {
        field::interned::EVENT_NAMES => NameKind::Span,
        field::interned::CATEGORIES => NameKind::Category,
        field::interned::STRINGS if text.first() == Some(&b'<') => NameKind::Object,
        field::interned::STRINGS => NameKind::Path,
        _ => NameKind::Text,
    }
}

/// Opens compressed packets into one buffer.
#[derive(Default)]
struct Unpacker {
    deflate: Option<libdeflater::Decompressor>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    buffer: Vec<u8>,
}

impl Unpacker {
    fn unpack(&mut self, codec: u32, packed: &[u8]) -> Option<&[u8]> {
        let length = if codec == field::packet::ZSTD { self.zstd(packed) } else { self.deflate(packed) }?;
        self.buffer.get(..length)
    }

    /// Deflate does not say how much it holds, so room is doubled until it suffices.
    fn deflate(&mut self, packed: &[u8]) -> Option<usize> {
        let deflate = self.deflate.get_or_insert_default();
        self.buffer.resize(self.buffer.len().max(4 * packed.len()).clamp(64 << 10, PACKED_MAX), 0);
        loop {
            let opened = match packed.starts_with(&[0x1f, 0x8b]) {
                true => deflate.gzip_decompress(packed, &mut self.buffer),
                false => deflate.zlib_decompress(packed, &mut self.buffer),
            };
            match opened {
                Ok(length) => return Some(length),
                Err(libdeflater::DecompressionError::InsufficientSpace) if self.buffer.len() < PACKED_MAX => {
                    self.buffer.resize((2 * self.buffer.len()).min(PACKED_MAX), 0);
                }
                Err(_) => return None,
            }
        }
    }

    fn zstd(&mut self, packed: &[u8]) -> Option<usize> {
        if self.zstd.is_none() {
            self.zstd = Some(zstd::bulk::Decompressor::new().ok()?);
        }
        let told = zstd::zstd_safe::get_frame_content_size(packed).ok()?;
        let room = told.unwrap_or(16 * packed.len() as u64).max(64 << 10);
        if room > PACKED_MAX as u64 {
            return None;
        }
        self.buffer.resize(self.buffer.len().max(room as usize), 0);
        self.zstd.as_mut()?.decompress_to_buffer(packed, &mut self.buffer).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Anchor;
    use crate::native::file::{Image, Leftover};
    use crate::ops::{Arg, OPS};
    use crate::perfetto::pack::Compression;
    use crate::perfetto::proto::Message;
    use crate::perfetto::write::{Options, export};

    const BOOT_NS: u64 = 7_000_000;

    /// An event with its numbers resolved, so that traces of different numbering compare.
    #[derive(Debug, PartialEq, Clone, PartialOrd)]
    struct Row {
        tid: u32,
        name: String,
        start: u64,
        dur: u64,
        depth: u8,
        file: String,
        fd: String,
        numbers: Vec<Option<i64>>,
    }

    fn rows(tid: u32, events: &Events, names: &Names, clock: &Clock) -> Vec<Row> {
        let text = |id: i64| names.text(id as u32).map_or("?".to_string(), |text| text.into_owned());
        (0..events.len())
            .map(|i| {
                let op = Op(events.op[i]);
                let info = op.info().unwrap();
                let own_name = matches!(op, Op::SPAN | Op::INSTANT | Op::COUNTER);
                let is_text = op == Op::META && events.fd[i] == MetaKind::Text as i32 || info.a == Arg::Path;
                let a = events.known[i].then_some(events.a[i]).filter(|_| info.a != Arg::None || op == Op::META);
                Row {
                    tid,
                    name: info.name.to_string(),
                    start: if op == Op::META { 0 } else { clock.boot_ns(events.start[i]) },
                    dur: clock.duration_ns(events.start[i], events.duration[i]),
                    depth: if op == Op::META { 0 } else { events.depth[i] },
                    file: if events.file[i] == 0 { String::new() } else { text(events.file[i] as i64) },
                    fd: if own_name && events.fd[i] > 0 { text(events.fd[i] as i64) } else { events.fd[i].to_string() },
                    numbers: vec![
                        a.filter(|_| !is_text),
                        a.filter(|_| is_text).map(|id| text(id).bytes().map(i64::from).sum()),
                        (info.b != Arg::None).then_some(events.b[i]),
                        (op != Op::META).then_some(events.ret[i]),
                    ],
                }
            })
            .collect()
    }

    fn event(op: Op, start: u64, duration: u64, depth: u8) -> Record {
        Record { word: word(op, depth, true, duration), start, fd: 3, file: 1, ..Record::default() }
    }

    /// Every operation once, good and failed; nested spans with metadata; crossing calls; a counter and an instant.
    fn image() -> Image {
        let mut image = Image::default();
        let texts: [(NameKind, &[u8]); 8] = [
            (NameKind::Path, b"/data/\"quoted\"\n\xff\xfe"),
            (NameKind::Object, b"<pipe>"),
            (NameKind::Span, b"read"),
            (NameKind::Category, b"posix"),
            (NameKind::Text, b"loss"),
            (NameKind::Span, b""),
            (NameKind::Category, b"train"),
            (NameKind::Path, b"/data/other"),
        ];
        texts.iter().for_each(|(kind, text)| _ = image.names.push(*kind, text));
        let mut calls = Events::default();
        let mut now = 1000;
        for info in OPS.iter().filter(|info| !matches!(info.op, Op::SPAN | Op::INSTANT | Op::COUNTER | Op::META)) {
            for (known, ret) in [(true, 4096), (false, -5), (true, 0), (false, i64::MAX)] {
                let a = if info.a == Arg::Path { 8 } else { now as i64 - 2000 };
                // Moments have no length.
                let duration = if info.op == Op::LOST { 0 } else { 70 };
                let b = if info.b == Arg::None { 0 } else { -1 - now as i64 };
                let record = Record { a, b, ret, ..event(info.op, now, duration, 0) };
                calls.push(&Record { word: word(info.op, 0, known, duration), ..record });
                now += 100;
            }
        }
        image.leftovers.push(Leftover { tid: 11, events: calls });
        let mut spans = Events::default();
        let span = |op, start, dur, depth, name: u32, category: i32| Record {
            file: name,
            fd: category,
            a: pack_steps(4, 2),
            ..event(op, start, dur, depth)
        };
        let meta = |kind: MetaKind, value| Record { file: 5, fd: kind as i32, a: value, ..event(Op::META, 0, 0, 0) };
        spans.push(&event(Op::READ, 2100, 50, 2));
        [(MetaKind::Int, -7), (MetaKind::Float, 0.25f64.to_bits() as i64), (MetaKind::Text, 8)]
            .iter()
            .for_each(|(kind, value)| spans.push(&meta(*kind, *value)));
        spans.push(&span(Op::SPAN, 2050, 200, 1, 3, 4));
        spans.push(&span(Op::SPAN, 2000, 400, 0, 6, 0));
        spans.push(&span(Op::INSTANT, 2500, 0, 0, 3, 7));
        spans.push(&Record { a: 1.5f64.to_bits() as i64, ..span(Op::COUNTER, 2600, 0, 0, 5, 7) });
        (0..300).for_each(|i| spans.push(&event(Op::AIO_READ_DONE, 3000 + i, 5000, 0)));
        image.leftovers.push(Leftover { tid: 12, events: spans });
        image.open_spans = vec![
            OpenSpan { tid: 12, depth: 0, start: 9000, name: 3, category: 7, steps: pack_steps(1, STEP_NONE) },
            OpenSpan { tid: 12, depth: 1, start: 9100, name: 6, category: 7, steps: pack_steps(STEP_NONE, 3) },
        ];
        image.anchors = vec![
            Anchor { ticks: 1, boot_ns: BOOT_NS, real_ns: 1_700_000_000_000_000_000 },
            Anchor { ticks: 900_000_001, boot_ns: BOOT_NS + 300_000_000, real_ns: 1_700_000_000_300_000_000 },
        ];
        for (key, value) in [(key::HOST, "node7"), (key::PID, "11"), (key::COMMAND, "a\0b"), (key::THREADS, "11=x")] {
            image.fields.set(key, value);
        }
        image
    }

    fn exported(image: &Image, compression: Compression) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        export(image, &[], &mut sink, &Options { compression, ..Options::default() }).unwrap();
        out
    }

    /// All rows of a trace, in the order of each thread, and the reader.
    fn read_all(bytes: &[u8]) -> (Vec<(u32, Events)>, Reader) {
        let mut batches = Vec::new();
        let mut reader = Reader::default();
        let mut take = |batch: Batch| {
            let mut events = Events::default();
            (0..batch.events.len()).for_each(|i| events.push(&record_at(batch.events, i)));
            batches.push((batch.tid, events));
        };
        reader.read(bytes, &mut take);
        reader.finish(&mut take);
        (batches, reader)
    }

    fn record_at(events: &Events, i: usize) -> Record {
        Record {
            word: word(Op(events.op[i]), events.depth[i], events.known[i], events.duration[i]),
            start: events.start[i],
            file: events.file[i],
            fd: events.fd[i],
            a: events.a[i],
            b: events.b[i],
            ret: events.ret[i],
        }
    }

    fn all_rows(batches: &[(u32, Events)], reader: &Reader) -> Vec<Row> {
        let mut found: Vec<_> =
            batches.iter().flat_map(|(tid, events)| rows(*tid, events, &reader.names, &reader.clock(0))).collect();
        found.sort_by_key(|row| row.tid);
        found
    }

    fn native_rows(image: &Image) -> Vec<Row> {
        let clock = image.clock().unwrap();
        image.leftovers.iter().flat_map(|left| rows(left.tid, &left.events, &image.names, &clock)).collect()
    }

    #[test]
    fn everything_recorded_comes_back_from_every_compression() {
        let image = image();
        let expected = native_rows(&image);
        for compression in [Compression::None, Compression::Deflate, Compression::Zstd] {
            let bytes = exported(&image, compression);
            let (batches, reader) = read_all(&bytes);
            for (found, expected) in all_rows(&batches, &reader).iter().zip(&expected) {
                assert_eq!(found, expected);
            }
            assert_eq!(all_rows(&batches, &reader).len(), expected.len());
            assert_eq!((reader.damaged, reader.skipped), (0, 0));
        }
    }

    #[test]
    fn the_process_comes_back_with_every_field() {
        let image = image();
        let (_, reader) = read_all(&exported(&image, Compression::Deflate));
        let process = &reader.processes[0];
        assert_eq!(process.fields, crate::perfetto::write::complete_fields(&image));
        assert_eq!(reader.processes.len(), 1);
        let calls = image.events() - 3 + 2;
        assert_eq!((process.ours, process.complete), (true, Some(calls)));
        assert_eq!(process.real_offset_ns, Some(image.clock().unwrap().real_offset_ns));
    }

    #[test]
    fn spans_that_never_ended_come_back_as_such() {
        let image = image();
        let (_, reader) = read_all(&exported(&image, Compression::Deflate));
        let clock = image.clock().unwrap();
        let mut found: Vec<_> = reader.processes[0].open_spans.clone();
        found.sort_by_key(|span| span.depth);
        for (found, expected) in found.iter().zip(&image.open_spans) {
            assert_eq!(
                (found.start, found.depth, found.steps),
                (clock.boot_ns(expected.start), expected.depth, expected.steps)
            );
            assert_eq!(reader.names.text(found.name), image.names.text(expected.name));
        }
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn pieces_of_any_length_give_the_same_events() {
        let bytes = exported(&image(), Compression::None);
        let whole = all_rows(&read_all(&bytes).0, &read_all(&bytes).1);
        for length in [1, 7, 1000] {
            let mut reader = Reader::default();
            let mut count = 0;
            let (mut from, mut to) = (0, 0);
            while to < bytes.len() {
                to = (to + length).min(bytes.len());
                from += reader.read(&bytes[from..to], &mut |batch| count += batch.events.len());
            }
            reader.finish(&mut |batch| count += batch.events.len());
            assert_eq!((from, count), (bytes.len(), whole.len()));
        }
    }

    #[test]
    fn a_file_cut_at_any_byte_gives_what_stands_before() {
        let bytes = exported(&image(), Compression::None);
        let whole = all_rows(&read_all(&bytes).0, &read_all(&bytes).1).len();
        let mut last = 0;
        for cut in (0..bytes.len()).step_by(41) {
            let (batches, reader) = read_all(&bytes[..cut]);
            let count: usize = batches.iter().map(|(_, events)| events.len()).sum();
            assert!(count >= last && count <= whole);
            assert!(reader.processes.first().is_none_or(|process| process.complete.is_none()));
            last = count;
        }
    }

    #[test]
    fn no_changed_byte_makes_it_panic() {
        for compression in [Compression::None, Compression::Deflate, Compression::Zstd] {
            let bytes = exported(&image(), compression);
            let mut random = 88172645463325252u64;
            for _ in 0..3000 {
                let mut broken = bytes.clone();
                for _ in 0..3 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let at = random as usize % broken.len();
                    broken[at] ^= (random >> 40) as u8;
                }
                read_all(&broken);
            }
        }
    }

    #[test]
    fn chapters_read_apart_give_all_events() {
        let mut image = image();
        let mut events = Events::default();
        (0..600_000).for_each(|i| {
            events.push(&Record { a: 77 * i as i64, b: 4096, ret: 4096, ..event(Op::PREAD, 10_000 + i * 100, 50, 0) })
        });
        image.open_spans.clear();
        image.leftovers.extend((0..3).map(|_| Leftover { tid: 20, events: Events::default() }));
        image.leftovers[3].events = events;
        // As blocks would: batches are small.
        let mut small = Vec::new();
        for left in image.leftovers.drain(..) {
            for from in (0..left.events.len()).step_by(EVENTS_MAX) {
                let mut events = Events::default();
                (from..left.events.len().min(from + EVENTS_MAX)).for_each(|i| events.push(&record_at(&left.events, i)));
                small.push(Leftover { tid: left.tid, events });
            }
        }
        image.leftovers = small;
        let bytes = exported(&image, Compression::Deflate);
        let ranges = chapters(&bytes);
        assert!(ranges.len() > 1 && ranges.first().unwrap().start == 0 && ranges.last().unwrap().end == bytes.len());
        let mut first = Reader::default();
        first.scan(&bytes);
        assert_eq!(first.processes[0].complete, Some(image.events() - 3));
        let mut count = 0;
        for range in ranges.into_iter().rev() {
            let mut reader = first.fork();
            reader.read(&bytes[range], &mut |batch| count += batch.events.len() as u64);
            reader.finish(&mut |batch| count += batch.events.len() as u64);
            assert_eq!((reader.damaged, reader.skipped), (0, 0));
        }
        assert_eq!(count, image.events());
    }

    /// A trace as other tools write them: names in place, a track per process and thread, a counter, nothing interned.
    fn foreign() -> Vec<u8> {
        let mut out = Message::default();
        let track = |out: &mut Message, fill: &dyn Fn(&mut Message)| {
            out.nested(field::trace::PACKET, |packet| packet.nested(field::packet::TRACK, |track| fill(track)));
        };
        track(&mut out, &|track| {
            track.number(field::track::UUID, 1);
            track.nested(field::track::PROCESS, |process| {
                process.number(field::process::PID, 50);
                process.text(field::process::NAME, b"other");
            });
        });
        track(&mut out, &|track| {
            track.number(field::track::UUID, 2);
            track.nested(field::track::THREAD, |thread| {
                thread.number(field::thread::PID, 50);
                thread.number(field::thread::TID, 51);
                thread.text(field::thread::NAME, b"worker");
            });
        });
        track(&mut out, &|track| {
            track.number(field::track::UUID, 3);
            track.number(field::track::PARENT, 1);
            track.text(field::track::NAME, b"heat");
        });
        let mut put = |time: u64, kind: u64, track: u64, name: &str| {
            out.nested(field::trace::PACKET, |packet| {
                packet.number(field::packet::TIMESTAMP, time);
                packet.nested(field::packet::TRACK_EVENT, |event| {
                    event.number(field::event::TYPE, kind);
                    event.number(field::event::TRACK, track);
                    if !name.is_empty() {
                        event.text(field::event::NAME, name.as_bytes());
                        event.text(field::event::CATEGORIES, b"gpu");
                        event.nested(field::event::ANNOTATIONS, |annotation| {
                            annotation.text(field::annotation::NAME, b"file");
                            annotation.text(field::annotation::STRING, b"/x");
                        });
                    }
                    if kind == value::COUNTER {
                        event.number(field::event::COUNTER, 42);
                    }
                });
            });
        };
        put(100, value::SLICE_BEGIN, 2, "outer");
        put(110, value::SLICE_BEGIN, 2, "inner");
        put(120, value::SLICE_END, 2, "");
        put(130, value::SLICE_END, 2, "");
        put(140, value::INSTANT, 2, "mark");
        put(150, value::COUNTER, 3, "");
        put(160, value::SLICE_BEGIN, 2, "open");
        put(170, value::SLICE_END, 9, "");
        out.0
    }

    #[test]
    fn traces_of_other_tools_become_spans() {
        let (batches, reader) = read_all(&foreign());
        let found: Vec<_> = all_rows(&batches, &reader)
            .into_iter()
            .filter(|row| row.name != "meta")
            .map(|row| (row.tid, row.name, row.file, row.start, row.dur, row.depth, row.fd))
            .collect();
        let row = |tid, op: &str, name: &str, start, dur, depth, cat: &str| {
            (tid, op.to_string(), name.to_string(), start, dur, depth, cat.to_string())
        };
        assert_eq!(
            found,
            [
                row(0, "counter", "heat", 150, 0, 0, "0"),
                row(51, "span", "inner", 110, 10, 1, "gpu"),
                row(51, "span", "outer", 100, 30, 0, "gpu"),
                row(51, "instant", "mark", 140, 0, 0, "gpu"),
            ]
        );
        let process = &reader.processes[0];
        assert_eq!(
            (process.fields.get(key::PROGRAM), process.fields.get(key::THREADS)),
            (Some("other"), Some("51=worker"))
        );
        assert_eq!(process.open_spans.len(), 1);
        // The end of a slice that never began.
        assert_eq!(reader.skipped, 1);
    }

    #[test]
    fn what_is_no_trace_is_said_to_be_broken() {
        for bytes in [&b"#!/bin/sh\nexit 0\n and some more of it"[..], &[0; 64], &[0xff; 64]] {
            let (batches, reader) = read_all(bytes);
            assert!(batches.is_empty() && reader.damaged > 0, "{bytes:?}");
        }
    }
}
