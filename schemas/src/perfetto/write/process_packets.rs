//! Packets about a process: clocks, facts, its track, its start and end, its counters.

use std::collections::BTreeMap;

use super::activity::{Activity, Counter, FileCall};
use crate::event::ops::{Layer, Op, OpInfo, Ret};
use crate::export::key::hash;
use crate::machine::tracks::Tracks;
use crate::native::fields::{Ending, Fields, key};
use crate::native::names::{NameKind, Names};
use crate::perfetto::layout::{
    ATTRIBUTE_CHAPTER, ATTRIBUTE_COMPLETE, ATTRIBUTE_LAYOUT, ATTRIBUTE_OFFSET, ATTRIBUTE_PREFIX, LAYOUT, child_uuid,
};
use crate::perfetto::proto::{Message, field, value};

/// A process being written.
pub(super) struct Process {
    pub(super) uuid: u64,
    pub(super) head: Head,
    pub(super) pid: u64,
    /// The host it ran on, whether or not its packets contain it.
    pub(super) machine: u32,
    /// The offset of ids of the process and its threads.
    pub(super) id_shift: u64,
    pub(super) thread_names: BTreeMap<u32, String>,
    pub(super) first_ns: u64,
    /// The offset of its boot times.
    pub(super) shift_ns: i64,
    pub(super) events: u64,
    pub(super) activity: Activity,
    /// The file of the previous event, and whether it is a stored file: most events are on the same one.
    pub(super) file_last: (u32, bool),
    /// `true` once all of it is written.
    pub(super) is_complete: bool,
    /// `true` if its slices are merged ones, so that its activity is counted separately.
    pub(super) merged: bool,
    pub(super) flows: Flows,
}

impl Process {
    /// Returns the track that shows its start and its end.
    pub(super) fn life(&self) -> u64 {
        child_uuid(self.uuid, "life", b"")
    }

    /// Adds a call to the activity of the process, and to the total. Traffic through pipes and sockets is not I/O.
    #[inline]
    pub(super) fn act(
        &mut self,
        info: &OpInfo,
        call: FileCall,
        file: u32,
        names: &Names,
        total: Option<&mut Activity>,
    ) {
        if self.file_last.0 != file {
            self.file_last = (file, names.get(file).is_none_or(|(kind, _)| kind != NameKind::Object));
        }
        if self.file_last.1 {
            self.activity.add(self.uuid, info, call);
            if let Some(total) = total {
                total.add(self.uuid, info, call);
            }
        }
    }
}

/// Arrows between processes: from a fork to the first event of the child, from an exec to that of the new image. Both
/// ends compute the same number, so arrows appear when files of several processes are merged.
pub(super) struct Flows {
    pub(super) boot: u64,
    pub(super) pid: u64,
    /// Arrows that end in this process, until its first event takes them.
    pub(super) entering: Vec<u64>,
}

impl Flows {
    pub(super) fn new(fields: &Fields) -> Flows {
        let boot =
            hash(&[fields.get(key::HOST).unwrap_or("").as_bytes(), fields.get(key::BOOT_ID).unwrap_or("").as_bytes()]);
        let number = |key| fields.number(key).unwrap_or(0);
        let pid = number(key::PID);
        let mut flows = Flows { boot, pid, entering: Vec::new() };
        flows.entering = vec![flows.fork(number(key::PPID), pid), flows.exec()];
        flows
    }

    pub(super) fn fork(&self, parent: u64, child: u64) -> u64 {
        hash(&[b"fork", &self.boot.to_le_bytes(), &parent.to_le_bytes(), &child.to_le_bytes()])
    }

    /// Returns one number for all images of a process: viewers connect the events with it in the order of time, and
    /// draw nothing if there is only one.
    pub(super) fn exec(&self) -> u64 {
        hash(&[b"exec", &self.boot.to_le_bytes(), &self.pid.to_le_bytes()])
    }

    /// Returns the arrow that begins at this call.
    #[inline(always)]
    pub(super) fn leaving(&self, info: Option<&OpInfo>, op: Op, ret: i64) -> Option<u64> {
        match info?.ret {
            Ret::Pid if ret > 0 => Some(self.fork(self.pid, ret as u64)),
            _ if op == Op::EXEC && ret >= 0 => Some(self.exec()),
            _ => None,
        }
    }
}

/// The fields that every packet of a sequence begins or ends with.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) sequence: u64,
    pub(super) machine: Option<u32>,
}

/// Writes a packet of a sequence; `fill` writes its content.
#[inline(always)]
pub(super) fn put_packet(out: &mut Message, head: Head, fill: impl FnOnce(&mut Message)) {
    out.nested(field::trace::PACKET, |packet| {
        packet.number(field::packet::SEQUENCE, head.sequence);
        if let Some(machine) = head.machine {
            packet.number(field::packet::MACHINE, machine as u64);
        }
        fill(packet);
    });
}

/// The time at which all clocks are related. Viewers reject snapshots that go back in time, which would happen when
/// threads and files are merged. Related at one boot time, they never do.
pub(super) const SNAPSHOT_NS: u64 = 1;

/// Writes the clocks of one process. CLOCK_MONOTONIC differs from boot time by the time the host was suspended, which
/// is not recorded, so it is omitted rather than guessed.
pub(super) fn put_clocks(out: &mut Message, process: &Process, offset_ns: i64) {
    let real_ns = offset_ns.wrapping_add_unsigned(SNAPSHOT_NS) as u64;
    put_packet(out, process.head, |packet| {
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_CLEARED);
        packet.number(field::packet::TIMESTAMP, process.first_ns);
        packet.number(field::packet::CLOCK_ID, value::CLOCK_BOOTTIME);
        packet.nested(field::packet::CLOCK_SNAPSHOT, |snapshot| {
            for (id, time) in [(value::CLOCK_BOOTTIME, SNAPSHOT_NS), (value::CLOCK_REALTIME, real_ns)] {
                snapshot.nested(field::snapshot::CLOCKS, |clock| {
                    clock.number(field::clock::ID, id);
                    clock.number(field::clock::TIMESTAMP, time);
                });
            }
            snapshot.number(field::snapshot::PRIMARY, value::CLOCK_BOOTTIME);
        });
    });
}

/// Returns the facts with their times on the clock that is written. The image keeps its number, which is part of its
/// name.
pub(super) fn moved(fields: &Fields, shift_ns: i64) -> Fields {
    let mut fields = fields.clone();
    for key in [key::START_BOOT_NS, key::END_BOOT_NS] {
        if let Some(time) = fields.number::<u64>(key) {
            fields.set(key, time.wrapping_add_signed(shift_ns));
        }
    }
    fields
}

pub(super) fn attribute_key(uuid: u64, name: &str) -> String {
    format!("{ATTRIBUTE_PREFIX}{uuid:016x}.{name}")
}

pub(super) fn put_attribute(attributes: &mut Message, key: &str, number: u64) {
    attributes.nested(field::attributes::ATTRIBUTE, |attribute| {
        attribute.text(field::attributes::KEY, key.as_bytes());
        attribute.number(field::attributes::LONG, number);
    });
}

pub(super) fn put_chapter(attributes: &mut Message) {
    put_attribute(attributes, ATTRIBUTE_CHAPTER, 1);
}

/// Writes everything known about the process, so that a reader can rebuild its row.
pub(super) fn put_attributes(out: &mut Message, process: &Process, fields: &Fields, offset_ns: i64) {
    put_packet(out, process.head, |packet| {
        packet.nested(field::packet::ATTRIBUTES, |attributes| {
            put_attribute(attributes, &attribute_key(process.uuid, ATTRIBUTE_LAYOUT), LAYOUT);
            put_attribute(attributes, &attribute_key(process.uuid, ATTRIBUTE_OFFSET), offset_ns as u64);
            for (name, text) in fields.iter() {
                attributes.nested(field::attributes::ATTRIBUTE, |attribute| {
                    attribute.text(field::attributes::KEY, attribute_key(process.uuid, name).as_bytes());
                    attribute.text(field::attributes::STRING, text.as_bytes());
                });
            }
        });
    });
}

pub(super) fn put_process_track(out: &mut Message, process: &Process, fields: &Fields) {
    put_packet(out, process.head, |packet| {
        packet.number(field::packet::TIMESTAMP, process.first_ns);
        packet.number(field::packet::CLOCK_ID, value::CLOCK_BOOTTIME);
        packet.nested(field::packet::DEFAULTS, |defaults| {
            defaults.number(field::defaults::CLOCK_ID, value::CLOCK_BOOTTIME);
            defaults.nested(field::defaults::TRACK_EVENT, |event| event.number(field::event::TRACK, process.life()));
        });
        packet.nested(field::packet::TRACK, |track| {
            track.number(field::track::UUID, process.uuid);
            track.nested(field::track::PROCESS, |described| put_process(described, process, fields));
        });
    });
    put_packet(out, process.head, |packet| {
        packet.nested(field::packet::TRACK, |track| {
            track.number(field::track::UUID, process.life());
            track.number(field::track::PARENT, process.uuid);
            track.text(field::track::NAME, b"start and end");
        });
    });
}

pub(super) fn put_process(described: &mut Message, process: &Process, fields: &Fields) {
    described.number(field::process::PID, process.pid + process.id_shift);
    for word in fields.get(key::COMMAND).unwrap_or("").split_terminator('\0') {
        described.text(field::process::COMMAND, word.as_bytes());
    }
    described.text(field::process::NAME, shown_name(fields).unwrap_or("process").as_bytes());
    if let Some(start) = fields.number(key::START_BOOT_NS) {
        described.number(field::process::START, start);
    }
    let rank = fields.get(key::RANK).map(|rank| format!("rank {rank}"));
    let host = fields.get(key::HOST).map(|host| format!("host {host}"));
    let label = fields.get(key::LABEL).map(str::to_string);
    let pid = (process.id_shift > 0).then(|| format!("pid {}", process.pid));
    let overview = fields.get(key::OVERVIEW).map(str::to_string);
    for text in [rank, host, pid, label, overview].into_iter().flatten() {
        described.text(field::process::LABELS, text.as_bytes());
    }
}

/// Writes the start of the process and its ending, on its own track.
pub(super) fn put_life(out: &mut Message, process: &Process, fields: &Fields, last_ns: u64) {
    let first_ns = process.first_ns;
    // The image's own start; the kernel knows that of its process only to a hundredth of a second.
    let loaded: Option<u64> = fields.number(key::IMAGE).filter(|&image| image > 0);
    let started = loaded.map(|image| image.wrapping_add_signed(process.shift_ns)).filter(|&start| start <= first_ns);
    let ended: u64 = fields.number(key::END_BOOT_NS).unwrap_or(last_ns);
    let lost: u64 = fields.number(key::LOST).unwrap_or(0);
    put_process_instant(out, process, started.unwrap_or(first_ns), "start");
    let ending = match fields.ending() {
        Ending::Running => "still running".to_string(),
        ending => format!("end: {ending}"),
    };
    put_process_instant(out, process, ended, &ending);
    if lost > 0 {
        put_process_instant(out, process, ended, &format!("{lost} events lost"));
    }
}

pub(super) fn put_process_instant(out: &mut Message, process: &Process, boot_ns: u64, name: &str) {
    put_packet(out, process.head, |packet| {
        packet.number(field::packet::TIMESTAMP, boot_ns);
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_NEEDED);
        packet.nested(field::packet::TRACK_EVENT, |event| {
            event.number(field::event::TYPE, value::INSTANT);
            event.text(field::event::CATEGORIES, Layer::Process.name().as_bytes());
            event.text(field::event::NAME, name.as_bytes());
        });
    });
}

/// Returns the name of a process.
fn shown_name(fields: &Fields) -> Option<&str> {
    fields.get(key::NAME).or_else(|| fields.get(key::PROGRAM))
}

/// Returns the names of threads; the first thread has its process's name if it was not named.
pub(super) fn thread_names(fields: &Fields) -> BTreeMap<u32, String> {
    let main = fields.number(key::PID).zip(shown_name(fields)).map(|(tid, name)| (tid, name.to_string()));
    let named = fields.get(key::THREADS).unwrap_or("").split_terminator('\0');
    let named = named.filter_map(|pair| pair.split_once('=')).filter_map(|(t, n)| Some((t.parse().ok()?, n.into())));
    main.into_iter().chain(named).collect()
}

/// Writes the number of events of a process, after all of it is written.
pub(super) fn put_complete(out: &mut Message, process: &Process) {
    put_packet(out, process.head, |packet| {
        packet.nested(field::packet::ATTRIBUTES, |attributes| {
            put_attribute(attributes, &attribute_key(process.uuid, ATTRIBUTE_COMPLETE), process.events);
        });
    });
}

/// Writes counters below a track of a process, or of the total.
pub(super) fn put_activity(out: &mut Message, head: Head, parent: u64, activity: &Activity) {
    for counter in Counter::ALL {
        let samples = activity.samples(counter);
        if samples.is_empty() {
            continue;
        }
        let uuid = child_uuid(parent, "activity", counter.name().as_bytes());
        put_counter_track(out, head, (uuid, parent), [counter.name(), counter.meaning(), counter.unit()]);
        samples.iter().for_each(|sample| put_sample(out, head, uuid, sample.boot_ns, sample.value));
    }
}

/// Writes counters of a host below a separate track. `shift_ns` is the offset of its boot times.
pub(super) fn put_machine(out: &mut Message, head: Head, shift_ns: i64, tracks: &Tracks) {
    let boot = tracks.boot_id.as_deref().unwrap_or(&tracks.host);
    let machine = child_uuid(0, "machine", boot.as_bytes());
    put_packet(out, head, |packet| {
        packet.nested(field::packet::TRACK, |track| {
            track.number(field::track::UUID, machine);
            track.text(field::track::NAME, format!("machine {}", tracks.host).as_bytes());
        });
    });
    for track in &tracks.all {
        let uuid = child_uuid(machine, "machine counter", track.name.as_bytes());
        put_counter_track(out, head, (uuid, machine), [&track.name, track.meaning, track.unit]);
        for (boot_ns, value) in &track.values {
            put_sample(out, head, uuid, boot_ns.wrapping_add_signed(shift_ns), *value);
        }
    }
}

/// Describes a track of a counter, with its parent: name, meaning and unit.
fn put_counter_track(out: &mut Message, head: Head, (uuid, parent): (u64, u64), [name, meaning, unit]: [&str; 3]) {
    put_packet(out, head, |packet| {
        packet.nested(field::packet::TRACK, |track| {
            track.number(field::track::UUID, uuid);
            track.number(field::track::PARENT, parent);
            track.text(field::track::NAME, name.as_bytes());
            track.text(field::track::DESCRIPTION, meaning.as_bytes());
            track.nested(field::track::COUNTER, |described| {
                described.text(field::counter::UNIT_NAME, unit.as_bytes());
            });
        });
    });
}

fn put_sample(out: &mut Message, head: Head, track: u64, boot_ns: u64, number: f64) {
    put_packet(out, head, |packet| {
        packet.number(field::packet::TIMESTAMP, boot_ns);
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_NEEDED);
        packet.nested(field::packet::TRACK_EVENT, |event| {
            event.number(field::event::TYPE, value::COUNTER);
            event.number(field::event::TRACK, track);
            event.double(field::event::COUNTER_DOUBLE, number);
        });
    });
}
