//! The owners of events: processes, threads and their tracks, as a trace describes them.

use super::clocks::Clocks;
use super::events::Open;
use super::interned::Interned;
use super::{Batch, Process, Reader, name_id};
use crate::export::key::hash;
use crate::native::Damage;
use crate::native::columns::Events;
use crate::native::fields::key;
use crate::native::names::{NameKind, Names};
use crate::perfetto::layout::{
    ATTRIBUTE_COMPLETE, ATTRIBUTE_LAYOUT, ATTRIBUTE_OFFSET, ATTRIBUTE_PREFIX, ID_STRIDE, LAYOUT,
};
use crate::perfetto::proto::{Walk, field};

#[derive(Clone, Default)]
pub(super) struct Sequence {
    pub(super) interned: Interned,
    pub(super) clock: Option<u64>,
    pub(super) track: u64,
    /// Index of `track`, once it is known.
    pub(super) track_at: Option<usize>,
}

impl Sequence {
    pub(super) fn defaults(&mut self, message: &[u8]) {
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
pub(super) struct Track {
    pub(super) stream: usize,
    pub(super) process: usize,
    pub(super) tid: u32,
    pub(super) name: u32,
    /// A track of a process that our writer derived from the events.
    pub(super) derived: bool,
    pub(super) ours: bool,
    pub(super) open: Vec<Open>,
}

impl Track {
    pub(super) fn child(&self, open: Vec<Open>) -> Track {
        Track { open, process: self.process, tid: self.tid, derived: self.derived, ours: self.ours, ..Track::default() }
    }
}

pub(super) struct Stream {
    pub(super) process: usize,
    pub(super) tid: u32,
    pub(super) events: Events,
}

impl Stream {
    pub(super) fn batch<'r>(&'r self, names: &'r Names, processes: &'r [Process], clocks: &Clocks) -> Batch<'r> {
        let owner = &processes[self.process];
        let Stream { process, tid, ref events } = *self;
        Batch { process, tid, events, names, owner, real_offset_ns: clocks.real_offset_ns }
    }
}

impl Reader {
    /// Reads process information from dlio's own traces.
    pub(super) fn attributes(&mut self, message: &[u8]) {
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

    /// Returns the process that a thread refers to by its pid.
    fn process_of_pid(&mut self, pid: u64) -> usize {
        if let Some(&at) = self.pids.get(&pid) {
            return at;
        }
        let at = self.process(hash(&[b"pid", &pid.to_le_bytes()]));
        self.processes[at].fields.set(key::PID, pid);
        self.pids.insert(pid, at);
        at
    }

    pub(super) fn describe(&mut self, message: &[u8]) {
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
        // Tracks without a thread nest separately.
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

    /// Returns the index of a track, which may not have been described yet.
    pub(super) fn track(&mut self, uuid: u64) -> usize {
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

/// Splits `dlio.UUID.KEY`.
fn our_attribute(name: &str) -> Option<(u64, &str)> {
    let (uuid, key) = name.strip_prefix(ATTRIBUTE_PREFIX)?.split_once('.')?;
    Some((u64::from_str_radix(uuid, 16).ok()?, key))
}
