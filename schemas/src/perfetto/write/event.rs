//! Packets about a thread: its introduction, its events, and the strings they need.

use std::collections::BTreeSet;

use super::process_packets::{Head, Process, SNAPSHOT_NS, put_packet};
use super::template::{Part, Parts, Shape, Short, Templates, Width};
use crate::event::ops::{Arg, Layer, OpInfo, Ret};
use crate::event::record::{MetaKind, POS_UNKNOWN, STEP_NONE, unpack_steps};
use crate::export::exporter::{Call, Meta};
use crate::export::key::{Key, of_child, of_counters, of_waker};
use crate::export::lanes::{Lanes, Placement};
use crate::native::names::Names;
use crate::perfetto::layout::{ANNOTATION_NAMES, CATEGORY_NAMES, DEPTH_BITS, EVENT_NAMES, child_uuid, layer_index};
use crate::perfetto::pack::Packer;
use crate::perfetto::proto::{Message, field, value};

/// A thread being written.
pub(super) struct Thread {
    pub(super) uuid: u64,
    pub(super) head: Head,
    pub(super) tid: u32,
    pub(super) lanes: Lanes,
    pub(super) metadata: Vec<Meta>,
    /// The state of the sequence since the thread was last introduced; `None` if it has to be introduced.
    pub(super) state: Option<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) last_ns: u64,
    pub(super) categories: Numbers,
    pub(super) event_names: Numbers,
    pub(super) keys: Numbers,
    pub(super) strings: Numbers,
    /// Counters, by the ids of their names.
    pub(super) counters: Numbers,
    pub(super) lanes: Numbers,
    /// Tracks of GPUs.
    pub(super) tracks: BTreeSet<u64>,
    pub(super) templates: Templates,
}

/// A set of numbers, most of them small.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) near: Vec<u64>,
    pub(super) far: BTreeSet<u64>,
}

/// Numbers of at least this size are not kept as bits: a damaged trace may contain any number.
pub(super) const FAR: u64 = 1 << 22;

impl Numbers {
    #[inline(always)]
    pub(super) fn has(&self, number: u64) -> bool {
        match self.near.get((number >> 6) as usize) {
            Some(word) => word >> (number & 63) & 1 != 0,
            None => number >= FAR && self.far.contains(&number),
        }
    }

    /// Returns `true` if the number is new.
    #[inline(always)]
    pub(super) fn insert(&mut self, number: u64) -> bool {
        if number >= FAR {
            return self.far.insert(number);
        }
        let (word, bit) = ((number >> 6) as usize, 1u64 << (number & 63));
        if word >= self.near.len() {
            self.near.resize(word + 1, 0);
        }
        let new = self.near[word] & bit == 0;
        self.near[word] |= bit;
        new
    }
}

/// Writes clock, defaults and track of a thread, which a reader needs to understand its events.
pub(super) fn introduce(out: &mut Message, process: &Process, thread: &Thread) -> State {
    put_packet(out, thread.head, |packet| {
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_CLEARED);
        packet.nested(field::packet::CLOCK_SNAPSHOT, |snapshot| {
            snapshot.nested(field::snapshot::CLOCKS, |clock| {
                clock.number(field::clock::ID, value::CLOCK_OF_SEQUENCE);
                clock.number(field::clock::TIMESTAMP, SNAPSHOT_NS);
                clock.number(field::clock::INCREMENTAL, 1);
            });
            snapshot.nested(field::snapshot::CLOCKS, |clock| {
                clock.number(field::clock::ID, value::CLOCK_BOOTTIME);
                clock.number(field::clock::TIMESTAMP, SNAPSHOT_NS);
            });
            snapshot.number(field::snapshot::PRIMARY, value::CLOCK_BOOTTIME);
        });
        packet.nested(field::packet::DEFAULTS, |defaults| {
            defaults.number(field::defaults::CLOCK_ID, value::CLOCK_OF_SEQUENCE);
            defaults.nested(field::defaults::TRACK_EVENT, |event| event.number(field::event::TRACK, thread.uuid));
        });
    });
    put_packet(out, thread.head, |packet| {
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_NEEDED);
        packet.nested(field::packet::TRACK, |track| put_thread_track(track, process, thread));
        packet.nested(field::packet::INTERNED_DATA, |interned| {
            for key in Key::ALL {
                put_interned(interned, field::interned::ANNOTATION_NAMES, key as u64, key.name().as_bytes());
            }
        });
    });
    State { last_ns: SNAPSHOT_NS, ..State::default() }
}

pub(super) fn put_thread_track(track: &mut Message, process: &Process, thread: &Thread) {
    track.number(field::track::UUID, thread.uuid);
    track.number(field::track::PARENT, process.uuid);
    track.nested(field::track::THREAD, |described| {
        described.number(field::thread::PID, process.pid + process.id_shift);
        described.number(field::thread::TID, thread.tid as u64 + process.id_shift);
        if let Some(name) = process.thread_names.get(&thread.tid) {
            described.text(field::thread::NAME, name.as_bytes());
        }
    });
}

pub(super) fn put_interned(interned: &mut Message, table: u32, iid: u64, text: &[u8]) {
    interned.nested(table, |entry| {
        entry.number(field::interned::IID, iid);
        entry.text(field::interned::TEXT, text);
    });
}

pub(super) fn put_counter(out: &mut Message, process: &Process, thread: &mut Thread, call: &Call, names: &Names) {
    let name = names.text(call.file).unwrap_or("counter".into());
    let uuid = child_uuid(process.uuid, "counter", name.as_bytes());
    let head = thread.head;
    let state = thread.state.as_mut().expect("introduced");
    if state.counters.insert(call.file as u64) {
        put_packet(out, head, |packet| {
            packet.nested(field::packet::TRACK, |track| {
                track.number(field::track::UUID, uuid);
                track.number(field::track::PARENT, process.uuid);
                track.text(field::track::NAME, name.as_bytes());
                track.nested(field::track::COUNTER, |_| ());
            });
        });
    }
    let iids = intern(out, head, state, call, names);
    put_event(out, &mut Short, head, state, call.begin, value::COUNTER, |event, _| {
        event.number(field::event::CATEGORY_IIDS, iids.category);
        event.number(field::event::NAME_IID, iids.name);
        event.number(field::event::TRACK, uuid);
        event.double(field::event::COUNTER_DOUBLE, f64::from_bits(call.a.unwrap_or(0) as u64));
        put_metadata(event, call.metadata);
    });
}

pub(super) fn put_instant(out: &mut Message, thread: &mut Thread, call: &Call, flows: &[u64], names: &Names) {
    let state = thread.state.as_mut().expect("introduced");
    let iids = intern(out, thread.head, state, call, names);
    put_event(out, &mut Short, thread.head, state, call.begin, value::INSTANT, |event, width| {
        event.number(field::event::CATEGORY_IIDS, iids.category);
        event.number(field::event::NAME_IID, iids.name);
        put_arguments(event, width, call, flows);
    });
}

#[inline]
pub(super) fn put_slice(
    packer: &mut Packer,
    owner: &Process,
    thread: &mut Thread,
    call: &Call,
    flows: &[u64],
    names: &Names,
) {
    let place = thread.lanes.place(call.begin, call.end, call.depth);
    let lane = match place {
        Placement::Track => None,
        Placement::Lane(lane) => Some(lane_track(packer.out(), owner, thread, lane)),
        Placement::NoTrack => return put_without_track(packer.out(), thread, call, flows, names),
    };
    let state = thread.state.as_mut().expect("introduced");
    if lane.is_none()
        && flows.is_empty()
        && call.metadata.is_empty()
        && let Some((shape, parts)) = Shape::of(call, call.begin.wrapping_sub(state.last_ns))
        && put_by_template(packer, thread.head, state, call, shape, &parts, names)
    {
        return;
    }
    let out = packer.out();
    let iids = intern(out, thread.head, state, call, names);
    put_pair(out, &mut Short, thread.head, state, call, &CallAnnotations { iids, lane, flows });
}

/// Writes a span on a track of its process.
#[cold]
pub(super) fn put_on_track(out: &mut Message, thread: &mut Thread, call: &Call, track: u64, names: &Names) {
    let state = thread.state.as_mut().expect("introduced");
    let iids = intern(out, thread.head, state, call, names);
    put_pair(out, &mut Short, thread.head, state, call, &CallAnnotations { iids, lane: Some(track), flows: &[] });
}

/// Writes a call like the last one of its shape. Returns `false` if there are too many shapes.
#[inline(always)]
fn put_by_template(
    packer: &mut Packer,
    head: Head,
    state: &mut State,
    call: &Call,
    shape: Shape,
    parts: &Parts,
    names: &Names,
) -> bool {
    let mut known = state.templates.find(shape);
    if known.is_none() || call.file != 0 && !state.strings.has(call.file as u64) {
        known = prepare(packer.out(), head, state, call, shape, names);
    }
    let Some(template) = known else { return false };
    state.templates.put(template, parts, packer);
    state.last_ns = call.end;
    true
}

/// Makes sure that a template exists, and that the sequence knows every string of the call.
#[inline(never)]
fn prepare(
    out: &mut Message,
    head: Head,
    state: &mut State,
    call: &Call,
    shape: Shape,
    names: &Names,
) -> Option<usize> {
    let iids = intern(out, head, state, call, names);
    state.templates.find(shape).or_else(|| {
        let (last_ns, mut templates) = (state.last_ns, std::mem::take(&mut state.templates));
        let beside = CallAnnotations { iids, lane: None, flows: &[] };
        let made = templates.make(shape, |out, width| put_pair(out, width, head, state, call, &beside));
        (state.templates, state.last_ns) = (templates, last_ns);
        made
    })
}

/// The annotations of a call in its packets.
struct CallAnnotations<'a> {
    iids: Iids,
    lane: Option<u64>,
    flows: &'a [u64],
}

/// Writes start and end of a call.
#[inline(always)]
fn put_pair(
    out: &mut Message,
    width: &mut impl Width,
    head: Head,
    state: &mut State,
    call: &Call,
    beside: &CallAnnotations,
) {
    put_event(out, width, head, state, call.begin, value::SLICE_BEGIN, |event, width| {
        event.number(field::event::CATEGORY_IIDS, beside.iids.category);
        event.number(field::event::NAME_IID, beside.iids.name);
        if let Some(uuid) = beside.lane {
            event.number(field::event::TRACK, uuid);
        }
        put_arguments(event, width, call, beside.flows);
    });
    put_end(out, width, head, state, call.end, beside.lane);
}

/// Writes a call that overlaps with too many others: an instant with its duration as an argument.
#[cold]
pub(super) fn put_without_track(out: &mut Message, thread: &mut Thread, call: &Call, flows: &[u64], names: &Names) {
    let state = thread.state.as_mut().expect("introduced");
    let iids = intern(out, thread.head, state, call, names);
    put_event(out, &mut Short, thread.head, state, call.begin, value::INSTANT, |event, width| {
        event.number(field::event::CATEGORY_IIDS, iids.category);
        event.number(field::event::NAME_IID, iids.name);
        put_arguments(event, width, call, flows);
        put_number(event, Key::Dur, (call.end - call.begin) as i64);
    });
}

/// Returns the track of a lane, described again with its thread.
#[cold]
pub(super) fn lane_track(out: &mut Message, owner: &Process, thread: &mut Thread, lane: usize) -> u64 {
    let name = owner.thread_names.get(&thread.tid).map_or("Thread", String::as_str);
    let uuid = child_uuid(thread.uuid, "lane", &(lane as u64).to_le_bytes());
    let state = thread.state.as_mut().expect("introduced");
    if state.lanes.insert(lane as u64) {
        put_packet(out, thread.head, |packet| {
            packet.nested(field::packet::TRACK, |track| {
                track.number(field::track::UUID, uuid);
                track.number(field::track::PARENT, thread.uuid);
                track.text(field::track::NAME, format!("{name} in flight").as_bytes());
            });
        });
    }
    uuid
}

#[inline(always)]
pub(super) fn put_event<W: Width>(
    out: &mut Message,
    width: &mut W,
    head: Head,
    state: &mut State,
    time: u64,
    kind: u64,
    fill: impl FnOnce(&mut Message, &mut W),
) {
    let since = time.wrapping_sub(state.last_ns);
    state.last_ns = time;
    put_packet(out, head, |packet| {
        width.put(packet, field::packet::TIMESTAMP, Part::Begin, since);
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_NEEDED);
        packet.nested(field::packet::TRACK_EVENT, |event| {
            event.number(field::event::TYPE, kind);
            fill(event, width);
        });
    });
}

#[inline(always)]
pub(super) fn put_end(
    out: &mut Message,
    width: &mut impl Width,
    head: Head,
    state: &mut State,
    time: u64,
    lane: Option<u64>,
) {
    let since = time.wrapping_sub(state.last_ns);
    state.last_ns = time;
    put_packet(out, head, |packet| {
        width.put(packet, field::packet::TIMESTAMP, Part::End, since);
        packet.nested(field::packet::TRACK_EVENT, |event| {
            event.number(field::event::TYPE, value::SLICE_END);
            if let Some(uuid) = lane {
                event.number(field::event::TRACK, uuid);
            }
        });
    });
}

/// The numbers by which an event refers to its strings.
pub(super) struct Iids {
    pub(super) category: u64,
    pub(super) name: u64,
}

/// Makes sure that the sequence knows every string of the event.
#[inline]
pub(super) fn intern(out: &mut Message, head: Head, state: &mut State, call: &Call, names: &Names) -> Iids {
    let (category, category_name) = category_of(call);
    let name = if call.names_itself() { EVENT_NAMES + call.file as u64 } else { call.op.0 as u64 };
    let category = category << DEPTH_BITS | call.depth as u64;
    let file = (call.file != 0 && !call.names_itself()).then_some(call.file);
    let target = target_of(call);
    let new_category = state.categories.insert(category);
    let new_name = state.event_names.insert(name);
    let new_file = file.filter(|&id| state.strings.insert(id as u64));
    let new_target = target.filter(|&id| state.strings.insert(id as u64));
    if new_category || new_name || new_file.is_some() || new_target.is_some() {
        put_strings(out, head, |interned| {
            use field::interned::{CATEGORIES, EVENT_NAMES as NAMES, STRINGS};
            if new_category {
                put_interned(interned, CATEGORIES, category, &text_of(category_name, names));
            }
            if new_name {
                put_interned(interned, NAMES, name, &event_name(call, names));
            }
            for id in [new_file, new_target].into_iter().flatten() {
                put_interned(interned, STRINGS, id as u64, path_of(id, names));
            }
        });
    }
    for meta in call.metadata {
        intern_meta(out, head, state, meta, names);
    }
    Iids { category, name }
}

#[cold]
pub(super) fn put_strings(out: &mut Message, head: Head, fill: impl FnOnce(&mut Message)) {
    put_packet(out, head, |packet| {
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_NEEDED);
        packet.nested(field::packet::INTERNED_DATA, fill);
    });
}

pub(super) fn intern_meta(out: &mut Message, head: Head, state: &mut State, meta: &Meta, names: &Names) {
    if meta.counters().is_some() {
        return;
    }
    let key = ANNOTATION_NAMES + meta.key as u64;
    let new_key = state.keys.insert(meta.key as u64);
    let text = text_value(meta);
    let new_text = text.filter(|&id| state.strings.insert(id as u64));
    if new_key || new_text.is_some() {
        put_strings(out, head, |interned| {
            if new_key {
                let name = names.text(meta.key).unwrap_or("unknown".into());
                put_interned(interned, field::interned::ANNOTATION_NAMES, key, name.as_bytes());
            }
            if let Some(id) = new_text {
                put_interned(interned, field::interned::STRINGS, id as u64, path_of(id, names));
            }
        });
    }
}

pub(super) fn text_value(meta: &Meta) -> Option<u32> {
    (MetaKind::from_fd(meta.kind) == Some(MetaKind::Text)).then_some(meta.value as u32)
}

/// The origin of a category's text.
pub(super) enum CategoryName {
    Of(Layer),
    Recorded(u32),
}

#[inline(always)]
pub(super) fn category_of(call: &Call) -> (u64, CategoryName) {
    if call.names_itself() && call.fd > 0 {
        return (CATEGORY_NAMES + call.fd as u64, CategoryName::Recorded(call.fd as u32));
    }
    let layer = call.info.map_or(Layer::App, |info| info.layer);
    (layer_index(layer), CategoryName::Of(layer))
}

pub(super) fn text_of(category: CategoryName, names: &Names) -> Vec<u8> {
    match category {
        CategoryName::Of(layer) => layer.name().into(),
        CategoryName::Recorded(id) => names.text(id).unwrap_or("app".into()).as_bytes().into(),
    }
}

pub(super) fn event_name(call: &Call, names: &Names) -> Vec<u8> {
    if call.names_itself() {
        return names.text(call.file).unwrap_or("unnamed".into()).as_bytes().into();
    }
    call.info.map_or_else(|| format!("operation {}", call.op.0).into(), |info| info.name.into())
}

/// Returns a path as its stored bytes, UTF-8 or not.
pub(super) fn path_of(id: u32, names: &Names) -> &[u8] {
    names.get(id).map_or(b"<unknown>", |(_, text)| text)
}

/// Returns the second path of a rename or a link, or the source of bytes.
#[inline(always)]
pub(super) fn target_of(call: &Call) -> Option<u32> {
    let info = call.info?;
    let of_a = call.a.filter(|_| info.a.is_name());
    of_a.or((info.b == Arg::Path).then_some(call.b)).map(|id| id as u32)
}

#[inline(always)]
pub(super) fn put_arguments(event: &mut Message, width: &mut impl Width, call: &Call, flows: &[u64]) {
    let Some(info) = call.info else {
        return put_all(event, call);
    };
    if call.names_itself() {
        put_steps(event, call.a);
    } else {
        put_file(event, width, call);
        match (Key::of(info.a, false), call.a) {
            (Some(Key::Child), Some(a)) => of_child(a).for_each(|(key, number)| put_number(event, key, number)),
            (Some(key), Some(a)) => put_value(event, width, key, Part::A, a),
            _ => {}
        }
        match Key::of(info.b, true) {
            Some(Key::Waker) => of_waker(call.b).for_each(|(key, number)| put_number(event, key, number)),
            Some(key) => put_value(event, width, key, Part::B, call.b),
            None => {}
        }
        put_result(event, width, info, call);
    }
    if call.unfinished {
        put_number(event, Key::Unfinished, 1);
    }
    flows.iter().for_each(|&flow| event.fixed(field::event::FLOWS, flow));
    put_metadata(event, call.metadata);
}

/// Writes all fields, for an unknown operation.
#[cold]
pub(super) fn put_all(event: &mut Message, call: &Call) {
    put_file(event, &mut Short, call);
    put_number(event, Key::Count, call.a.unwrap_or(POS_UNKNOWN));
    put_number(event, Key::Second, call.b);
    put_number(event, Key::Ret, call.ret);
    put_metadata(event, call.metadata);
}

#[inline(always)]
pub(super) fn put_file(event: &mut Message, width: &mut impl Width, call: &Call) {
    if call.file != 0 {
        put_annotation(event, width, Key::File, field::annotation::STRING_IID, Part::File, call.file as u64);
    }
    if call.fd != -1 {
        put_value(event, width, Key::Fd, Part::Fd, call.fd as i64);
    }
}

/// Writes a result, unless it is the expected one (zero, or the descriptor that `fd` contains).
#[inline(always)]
pub(super) fn put_result(event: &mut Message, width: &mut impl Width, info: &OpInfo, call: &Call) {
    let mut put = |key, number| put_value(event, width, key, Part::Result, number);
    match (call.ret, info.ret) {
        (ret, _) if ret < 0 => put(Key::Errno, ret.wrapping_neg()),
        (ret, Ret::Bytes) => put(Key::Bytes, ret),
        (ret, Ret::Fd) if ret == call.fd as i64 => (),
        (0, Ret::Status) => (),
        (ret, _) => put(Key::Ret, ret),
    }
}

pub(super) fn put_steps(event: &mut Message, packed: Option<i64>) {
    let (epoch, step) = packed.map_or((STEP_NONE, STEP_NONE), unpack_steps);
    for (key, number) in [(Key::Epoch, epoch), (Key::Step, step)] {
        if number != STEP_NONE {
            put_number(event, key, number as i64);
        }
    }
}

#[inline(always)]
pub(super) fn put_value(event: &mut Message, width: &mut impl Width, key: Key, part: Part, number: i64) {
    let as_kind = match key {
        Key::Target | Key::Source => field::annotation::STRING_IID,
        // Shown in hexadecimal.
        Key::Flags | Key::Object => field::annotation::POINTER,
        _ => field::annotation::INT,
    };
    let number = if as_kind == field::annotation::STRING_IID { number as u32 as u64 } else { number as u64 };
    put_annotation(event, width, key, as_kind, part, number);
}

#[inline(always)]
fn put_annotation(event: &mut Message, width: &mut impl Width, key: Key, kind: u32, part: Part, number: u64) {
    event.nested(field::event::ANNOTATIONS, |annotation| {
        annotation.number(field::annotation::NAME_IID, key as u64);
        width.put(annotation, kind, part, number);
    });
}

#[inline(always)]
pub(super) fn put_number(event: &mut Message, key: Key, number: i64) {
    event.nested(field::event::ANNOTATIONS, |annotation| {
        annotation.number(field::annotation::NAME_IID, key as u64);
        annotation.number(field::annotation::INT, number as u64);
    });
}

pub(super) fn put_metadata(event: &mut Message, metadata: &[Meta]) {
    for meta in metadata {
        if let Some(counters) = meta.counters() {
            of_counters(&counters).for_each(|(key, number)| put_number(event, key, number));
            continue;
        }
        event.nested(field::event::ANNOTATIONS, |annotation| {
            annotation.number(field::annotation::NAME_IID, ANNOTATION_NAMES + meta.key as u64);
            match MetaKind::from_fd(meta.kind) {
                Some(MetaKind::Float) => {
                    annotation.double(field::annotation::DOUBLE, f64::from_bits(meta.value as u64))
                }
                Some(MetaKind::Text) => annotation.number(field::annotation::STRING_IID, meta.value as u32 as u64),
                _ => annotation.number(field::annotation::INT, meta.value as u64),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_take_no_memory() {
        let mut numbers = Numbers::default();
        for number in [0, 63, 64, FAR - 1, FAR, FAR + 1, u64::MAX] {
            assert!(numbers.insert(number));
            assert!(!numbers.insert(number));
        }
        assert_eq!(numbers.near.len() as u64, FAR / 64);
    }
}
