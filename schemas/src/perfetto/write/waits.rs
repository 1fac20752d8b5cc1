//! Waits of threads that train: a separate track, and arrows to each wait from the thread that ended it.
//!
//! All of it is in the packets of the process and ignored by our readers: it was derived from the events, and is
//! derived again.

use std::collections::BTreeMap;

use super::process_packets::{Head, Process, put_packet};
use crate::export::exporter::{DrawnAct, DrawnWait, ProcessId};
use crate::export::key::hash;
use crate::perfetto::layout::child_uuid;
use crate::perfetto::proto::{Message, field, value};

const CATEGORY: &[u8] = b"waits";

/// Describes the track of a thread's waits. Its name contains the thread if a process has several.
pub(super) fn put_track(out: &mut Message, process: &Process, tid: u32, is_only: bool) {
    let name = if is_only { "waits".to_string() } else { format!("waits of thread {tid}") };
    put_packet(out, process.head, |packet| {
        packet.nested(field::packet::TRACK, |track| {
            track.number(field::track::UUID, uuid(process, tid));
            track.number(field::track::PARENT, process.uuid);
            track.text(field::track::NAME, name.as_bytes());
            track.text(field::track::DESCRIPTION, MEANING.as_bytes());
        });
    });
}

const MEANING: &str = "Waits of the training thread, each named after its largest cause. An arrow comes from the \
    thread that made the awaited item and ends where the training thread takes it over.";

/// Returns the number of waits by thread.
pub(super) fn threads(waits: &[DrawnWait]) -> BTreeMap<(ProcessId, u32), u64> {
    let mut threads = BTreeMap::new();
    waits.iter().for_each(|wait| *threads.entry((wait.process, wait.tid)).or_default() += 1);
    threads
}

/// Writes one wait, the acts that ended it, each on the track of its thread, and within the wait the time from the
/// last act to the end. The arrow points there: viewers draw arrows from earlier to later starts, and the wait itself
/// starts before all of the acts.
pub(super) fn put_wait(
    out: &mut Message,
    owner: &Process,
    wait: &DrawnWait,
    thread_of: impl Fn(&DrawnAct) -> Option<u64>,
    process_of: impl Fn(ProcessId) -> (Head, i64),
) {
    let track = uuid(owner, wait.tid);
    let (begin, end) = (wait.begin.wrapping_add_signed(owner.shift_ns), wait.end.wrapping_add_signed(owner.shift_ns));
    put_event(out, owner.head, begin, value::SLICE_BEGIN, |event| {
        put_name(event, track, &wait.name);
        put_arguments(event, wait);
    });
    let flow = hash(&[b"wait", &owner.uuid.to_le_bytes(), &wait.tid.to_le_bytes(), &wait.begin.to_le_bytes()]);
    let mut last = None;
    for (act, thread) in wait.acts.iter().filter_map(|act| Some((act, thread_of(act)?))) {
        let (head, shift_ns) = process_of(act.process);
        let at = act.at.wrapping_add_signed(shift_ns).clamp(last.unwrap_or(0), end);
        put_event(out, head, at, value::INSTANT, |event| {
            put_name(event, thread, act.name);
            event.fixed(field::event::FLOWS, flow);
        });
        last = Some(at);
    }
    if let Some(at) = last {
        put_event(out, owner.head, at.max(begin), value::SLICE_BEGIN, |event| {
            put_name(event, track, TAKEN);
            event.fixed(field::event::FLOWS, flow);
        });
        put_event(out, owner.head, end, value::SLICE_END, |event| event.number(field::event::TRACK, track));
    }
    put_event(out, owner.head, end, value::SLICE_END, |event| event.number(field::event::TRACK, track));
}

/// The time from the last act that led to the end of a wait to that end.
const TAKEN: &str = "taken over";

fn put_name(event: &mut Message, track: u64, name: &str) {
    event.number(field::event::TRACK, track);
    event.text(field::event::CATEGORIES, CATEGORY);
    event.text(field::event::NAME, name.as_bytes());
}

fn uuid(process: &Process, tid: u32) -> u64 {
    child_uuid(process.uuid, "waits", &tid.to_le_bytes())
}

fn put_event(out: &mut Message, head: Head, boot_ns: u64, kind: u64, fill: impl FnOnce(&mut Message)) {
    put_packet(out, head, |packet| {
        packet.number(field::packet::TIMESTAMP, boot_ns);
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_NEEDED);
        packet.nested(field::packet::TRACK_EVENT, |event| {
            event.number(field::event::TYPE, kind);
            fill(event);
        });
    });
}

fn put_arguments(event: &mut Message, wait: &DrawnWait) {
    for (name, text) in &wait.texts {
        event.nested(field::event::ANNOTATIONS, |annotation| {
            annotation.text(field::annotation::NAME, name.as_bytes());
            annotation.text(field::annotation::STRING, text.as_bytes());
        });
    }
    for (name, number) in &wait.numbers {
        event.nested(field::event::ANNOTATIONS, |annotation| {
            annotation.text(field::annotation::NAME, name.as_bytes());
            annotation.number(field::annotation::INT, *number as u64);
        });
    }
}
