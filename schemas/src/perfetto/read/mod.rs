//! Converts a Perfetto trace back to events.
//!
//! A [`Reader`] reads packets, in chunks of any length, and returns [`Batch`]es: events of one thread in the form of
//! the native trace, with times in nanoseconds of boot time. A trace from our writer is restored as it was recorded. In any
//! other trace, slices become spans, instants and counters are kept, annotations become metadata records before their
//! event, and everything else is ignored and counted.
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
//! // Or in parallel: the data outside compressed packets first, then chapter by chapter on any thread.
//! let mut first = Reader::default();
//! first.scan(&bytes);
//! for chapter in chapters(&bytes) {
//!     let mut reader = first.fork();
//!     reader.read(&bytes[chapter], &mut |_batch| ());
//!     reader.finish(&mut |_batch| ());
//! }
//! ```
//!
//! Names are indexes into [`Reader::names`] and processes into [`Reader::processes`]; both belong to one reader.
//! Processes of several readers are identical if their `uuid` is, strings if they are equal. Readers forked from a
//! scan use the same numbers for the processes it found.
//!
//! No content of a file causes a panic or memory use out of proportion to its length, except compressed packets, each
//! of which may temporarily expand to [`PACKED_MAX`].
mod annotations;
pub mod clocks;
mod events;
mod frames;
pub mod interned;
mod tracks;
mod unpack;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use self::annotations::Slots;
use self::frames::{Frame, Packet, TrackEventPacket, next_packet};
use self::tracks::{Sequence, Stream, Track};
use self::unpack::Unpacker;
use super::proto::{field, value};
use super::read::clocks::Clocks;
use crate::event::clock::Clock;
use crate::event::ops::Op;
use crate::native::Damage;
use crate::native::columns::Events;
use crate::native::fields::Fields;
use crate::native::names::{NameKind, Names};
use crate::native::ring::OpenSpan;

pub use self::frames::{Chapters, chapters};
pub use self::unpack::PACKED_MAX;

/// A time outside the valid range.
const NO_TIME: Damage = Damage::Broken("a time that no clock shows");

/// Number of damaged offsets that are kept; all are counted.
const DAMAGE_MAX: usize = 1000;

/// Events of one thread, in the order they ended.
pub struct Batch<'r> {
    /// An index into [`Reader::processes`].
    pub process: usize,
    pub tid: u32,
    pub events: &'r Events,
    /// The strings and the process that the events refer to, as far as the reader knows them.
    pub names: &'r Names,
    pub owner: &'r Process,
    /// Unix time minus boot time, if the process does not define it itself.
    pub real_offset_ns: Option<i64>,
}

/// A function that accepts batches as they fill.
pub type Take<'t> = dyn FnMut(Batch) + 't;

/// A process as the trace describes it.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub uuid: u64,
    /// The facts in a trace from our writer; in another trace: pid, program, command and threads.
    pub fields: Fields,
    /// `true` if our writer wrote it.
    pub ours: bool,
    /// Unix time minus boot time, if the process defines it.
    pub real_offset_ns: Option<i64>,
    /// Number of events our writer had written when it finished; `None` in a trace that was truncated or is not ours.
    pub complete: Option<u64>,
    /// Spans that never ended.
    pub open_spans: Vec<OpenSpan>,
}

/// The reader: see the module.
#[derive(Default)]
pub struct Reader {
    pub processes: Vec<Process>,
    pub names: Names,
    pub clocks: Clocks,
    /// Damage by offset, up to a thousand offsets.
    pub damage: Vec<(usize, Damage)>,
    pub damaged: u64,
    /// Track events of kinds that are not supported.
    pub skipped: u64,
    /// Latest end of any event, in boot time.
    pub last_ns: u64,
    /// Leaves out the annotations of spans that have no column, for callers that do not use them.
    pub without_metadata: bool,
    name_ids: NameIds,
    process_ids: HashMap<u64, usize>,
    pids: HashMap<u64, usize>,
    sequences: Vec<Sequence>,
    sequence_ids: HashMap<u64, usize>,
    /// The last sequence and its index: consecutive packets usually belong to one sequence.
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

impl Reader {
    /// Reads whole packets from the start of `bytes` and returns the number of bytes read. The rest must be passed
    /// again with the bytes after it, or is the truncated end of a file.
    pub fn read(&mut self, bytes: &[u8], take: &mut Take) -> usize {
        self.packets(bytes, true, take)
    }

    /// Reads only the data outside compressed packets, and no events; returns the number of bytes like
    /// [`Reader::read`].
    pub fn scan(&mut self, bytes: &[u8]) -> usize {
        let used = self.packets(bytes, false, &mut |_| ());
        self.streams.iter_mut().for_each(|stream| stream.events.clear());
        self.tracks.iter_mut().for_each(|track| track.open.clear());
        used
    }

    /// Returns the remaining events and notes spans that never ended.
    pub fn finish(&mut self, take: &mut Take) {
        for track in &mut self.tracks {
            let process = &mut self.processes[track.process];
            // In dlio's own traces, a call without an end is the last one before a truncation.
            for open in track.open.drain(..).filter(|open| !track.ours && open.record.op() == Op::SPAN) {
                process.open_spans.push(events::open_span(track.tid, &open));
            }
        }
        for stream in self.streams.iter_mut().filter(|stream| !stream.events.is_empty()) {
            take(stream.batch(&self.names, &self.processes, &self.clocks));
            stream.events.clear();
        }
    }

    /// Returns a reader for another chapter, which knows the names and processes of this one and none of its events
    /// or damage.
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
            without_metadata: self.without_metadata,
            ..Reader::default()
        }
    }

    /// Returns the clock of a process: events have boot time, which only needs the offset to Unix time.
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
        if let Some(moment) = TrackEventPacket::parse(message).filter(|_| events) {
            return self.moment(&moment, take);
        }
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
                        Frame::Packet(message) => self.unpacked(message, take),
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

    /// Reads a packet that was in a compressed one.
    #[inline(always)]
    fn unpacked(&mut self, message: &[u8], take: &mut Take) {
        if let Some(moment) = TrackEventPacket::parse(message) {
            return self.moment(&moment, take);
        }
        match Packet::parse(message) {
            Some(packet) if packet.packed.is_none() => self.plain(&packet, true, take),
            _ => self.damage(Damage::Broken("a packet within a compressed one")),
        }
    }

    #[inline(always)]
    fn moment(&mut self, moment: &TrackEventPacket, take: &mut Take) {
        let sequence = self.sequence(moment.sequence);
        let clock = self.sequences[sequence].clock;
        match self.clocks.boot_ns(moment.time, clock, moment.sequence) {
            Some(time) => self.event(moment.event, time, sequence, take),
            None => self.damage(NO_TIME),
        }
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
                Some(Some(time)) => self.event(event, time, sequence, take),
                Some(None) => self.damage(NO_TIME),
                None => self.skipped += 1,
            }
        }
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
