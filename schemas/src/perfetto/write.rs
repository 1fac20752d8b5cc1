//! From native events to a `.pftrace`.
//!
//! [`export`] turns one process image into a file and runs inside the traced process when it ends: it holds one block of
//! events and one packet of packets (about a MiB), starts no thread and keeps no event. [`Writer`] is the same a level
//! lower, for merged files: processes are announced, then batches of events of one thread come in any order of threads.
//!
//! ```text
//! raw packets        per process: clocks, attributes, track, start and end        found without decompressing
//! packed packets     per thread, when it first comes up: clock, track; then its events and the names they need
//! raw packet         "chapter": from here every thread is introduced anew, so that a reader can begin here
//! packed packets     ...
//! raw packet         per process: "complete" and the number of events
//! ```
//!
//! Times are boot time in nanoseconds, stored as the difference from the packet before (an incremental clock that belongs
//! to the sequence). An outer call ends and is written after the calls within it, so differences may be negative.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::activity::{Activity, Counter};
use super::lanes::{Lanes, Place};
use super::layout::{
    ANNOTATION_NAMES, ATTRIBUTE_COMPLETE, ATTRIBUTE_LAYOUT, ATTRIBUTE_OFFSET, ATTRIBUTE_PREFIX, CATEGORY_NAMES,
    DEPTH_BITS, EVENT_NAMES, Key, LAYOUT, child_uuid, hash, machine_id, process_uuid,
};
use super::pack::{Compression, GATHERED, Packer, Sink};
use super::proto::{Message, field, value};
use crate::clock::Clock;
use crate::native::block::Opener;
use crate::native::columns::Events;
use crate::native::fields::{Ending, Fields, key};
use crate::native::file::{Image, decode};
use crate::native::names::Names;
use crate::native::ring::OpenSpan;
use crate::ops::{Arg, Layer, Op, OpInfo, Ret};
use crate::record::{MetaKind, POS_UNKNOWN, STEP_NONE, unpack_steps};

/// Packed packets between two places a reader can begin at: enough that introducing threads anew costs nothing.
const CHAPTER: u64 = 64 * GATHERED as u64;

/// Metadata kept for one span; more is left out and counted.
const META_MAX: usize = 256;

/// Measured on a million calls: 1 takes 0.6 of the time of 6 and stores 10 % more, which is within the budget of both.
const DEFLATE_LEVEL: i32 = 1;
const ZSTD_LEVEL: i32 = 3;

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub compression: Compression,
    /// Instead of the one that was found best.
    pub level: Option<i32>,
    /// Names the machine in every packet. Without it all processes are taken to share one boot clock, which is right for
    /// one host and wrong for several; with it viewers add "(machine 1)" to each title.
    pub machines: bool,
    /// Boot time of the first and last event of all processes, to count over all of them too.
    pub total: Option<(u64, u64)>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Calls, spans, instants and counters; metadata belongs to its span.
    pub events: u64,
    pub bytes: u64,
    /// Blocks of the native trace that could not be read.
    pub damaged: u64,
    pub metadata_dropped: u64,
}

/// Writes one process image whole. `bytes` is the `.dlt` its blocks lie in.
pub fn export(image: &Image, bytes: &[u8], sink: &mut Sink, options: &Options) -> io::Result<Summary> {
    let Some(clock) = image.clock() else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the trace holds no moment on a clock"));
    };
    let mut writer = Writer::new(sink, options)?;
    let last_ns = clock.boot_ns(image.last_tick());
    let first_ns = image.anchors.iter().map(|anchor| anchor.boot_ns).min().unwrap_or(0);
    let process = writer.process(&complete_fields(image), &clock, first_ns, last_ns)?;
    let mut opener = Opener::new()?;
    let mut events = Events::default();
    let mut damaged = 0;
    for block in &image.blocks {
        match decode(block, bytes, &mut opener, &mut events) {
            Ok(()) => writer.batch(process, block.header.tid, &events, &clock, &image.names)?,
            Err(_) => damaged += 1,
        }
    }
    for leftover in &image.leftovers {
        writer.batch(process, leftover.tid, &leftover.events, &clock, &image.names)?;
    }
    writer.open_spans(process, &image.open_spans, image.last_tick(), &clock, &image.names)?;
    Ok(Summary { damaged, ..writer.finish()? })
}

/// The fields of an image with what only its ring knew.
pub fn complete_fields(image: &Image) -> Fields {
    let mut fields = image.fields.clone();
    fields.set(key::LOST, image.lost);
    fields.set(key::FILTERED, image.filtered);
    fields.set(key::MISUSED_SPANS, image.misused_spans);
    fields
}

/// Which process of a [`Writer`] a batch belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(usize);

/// See the module.
pub struct Writer<'a> {
    packer: Packer<'a>,
    processes: Vec<Process>,
    threads: BTreeMap<(ProcessId, u32), Thread>,
    sequences: u64,
    chapter_ends: u64,
    packed: u64,
    summary: Summary,
    machines: bool,
    total: Option<Activity>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    end_ticks: Vec<u64>,
}

struct Process {
    uuid: u64,
    head: Head,
    pid: u64,
    thread_names: BTreeMap<u32, String>,
    first_ns: u64,
    events: u64,
    activity: Activity,
    flows: Flows,
}

impl Process {
    /// The track that shows when it began and how it ended.
    fn life(&self) -> u64 {
        child_uuid(self.uuid, "life", b"")
    }
}

/// Arrows between processes: from a fork to the first event of the child, from an exec to that of the new image. Both
/// ends compute the same number, so arrows appear when files of several processes are put together.
struct Flows {
    boot: u64,
    pid: u64,
    /// Arrows that end in this process, until its first event takes them.
    entering: Vec<u64>,
}

impl Flows {
    fn new(fields: &Fields) -> Flows {
        let boot =
            hash(&[fields.get(key::HOST).unwrap_or("").as_bytes(), fields.get(key::BOOT_ID).unwrap_or("").as_bytes()]);
        let number = |key| fields.number(key).unwrap_or(0);
        let pid = number(key::PID);
        let mut flows = Flows { boot, pid, entering: Vec::new() };
        flows.entering = vec![flows.fork(number(key::PPID), pid), flows.exec()];
        flows
    }

    fn fork(&self, parent: u64, child: u64) -> u64 {
        hash(&[b"fork", &self.boot.to_le_bytes(), &parent.to_le_bytes(), &child.to_le_bytes()])
    }

    /// One number for all images of a process: viewers join what carries it in the order of time, and nothing where there
    /// is but one.
    fn exec(&self) -> u64 {
        hash(&[b"exec", &self.boot.to_le_bytes(), &self.pid.to_le_bytes()])
    }

    /// The arrow that begins at this call.
    #[inline(always)]
    fn leaving(&self, info: Option<&OpInfo>, op: Op, ret: i64) -> Option<u64> {
        match info?.ret {
            Ret::Pid if ret > 0 => Some(self.fork(self.pid, ret as u64)),
            _ if op == Op::EXEC && ret >= 0 => Some(self.exec()),
            _ => None,
        }
    }
}

/// What every packet of a sequence begins or ends with.
#[derive(Clone, Copy)]
struct Head {
    sequence: u64,
    machine: Option<u32>,
}

struct Thread {
    uuid: u64,
    head: Head,
    tid: u32,
    lanes: Lanes,
    metadata: Vec<Meta>,
    /// What the sequence knows since it was last introduced; `None` if it has to be.
    state: Option<State>,
}

#[derive(Default)]
struct State {
    last_ns: u64,
    categories: Numbers,
    event_names: Numbers,
    keys: Numbers,
    strings: Numbers,
    /// Counters, by the ids of their names.
    counters: Numbers,
    lanes: Numbers,
}

#[derive(Clone, Copy)]
struct Meta {
    key: u32,
    kind: i32,
    value: i64,
}

/// A set of numbers, most of them small.
#[derive(Default)]
struct Numbers {
    near: Vec<u64>,
    far: BTreeSet<u64>,
}

/// Numbers from here on are not kept as bits: a damaged trace may name any.
const FAR: u64 = 1 << 22;

impl Numbers {
    /// Whether the number is new.
    #[inline(always)]
    fn insert(&mut self, number: u64) -> bool {
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

/// One event with its times converted.
struct Call<'e> {
    op: Op,
    info: Option<&'static OpInfo>,
    begin: u64,
    end: u64,
    depth: u8,
    file: u32,
    fd: i32,
    a: Option<i64>,
    b: i64,
    ret: i64,
    unfinished: bool,
    metadata: &'e [Meta],
    flows: Vec<u64>,
}

impl<'a> Writer<'a> {
    pub fn new(sink: &'a mut Sink<'a>, options: &Options) -> io::Result<Writer<'a>> {
        let level = match options.compression {
            Compression::Zstd => ZSTD_LEVEL,
            _ => DEFLATE_LEVEL,
        };
        Ok(Writer {
            packer: Packer::new(sink, options.compression, options.level.unwrap_or(level))?,
            processes: Vec::new(),
            threads: BTreeMap::new(),
            sequences: 0,
            chapter_ends: CHAPTER,
            packed: 0,
            summary: Summary::default(),
            machines: options.machines,
            total: options.total.map(|(first_ns, last_ns)| Activity::new(first_ns, last_ns)),
            starts: Vec::new(),
            ends: Vec::new(),
            end_ticks: Vec::new(),
        })
    }

    /// Announces a process that recorded from `first_ns` to `last_ns` of boot time.
    pub fn process(&mut self, fields: &Fields, clock: &Clock, first_ns: u64, last_ns: u64) -> io::Result<ProcessId> {
        self.flush()?;
        let process = Process {
            uuid: process_uuid(fields),
            head: Head { sequence: self.next_sequence(), machine: self.machines.then(|| machine_id(fields)) },
            pid: fields.number(key::PID).unwrap_or(0),
            thread_names: thread_names(fields),
            first_ns,
            events: 0,
            activity: Activity::new(first_ns, last_ns),
            flows: Flows::new(fields),
        };
        let out = self.packer.out();
        put_clocks(out, &process, clock, first_ns);
        put_attributes(out, &process, fields, clock);
        put_process_track(out, &process, fields, first_ns);
        put_life(out, &process, fields, first_ns, last_ns);
        self.packer.flush_raw()?;
        self.processes.push(process);
        Ok(ProcessId(self.processes.len() - 1))
    }

    /// Says something about the whole trace at the start of a process, such as what it leaves out.
    pub fn remark(&mut self, process: ProcessId, text: &str) -> io::Result<()> {
        self.flush()?;
        let owner = &self.processes[process.0];
        put_moment(self.packer.out(), owner, owner.first_ns, text);
        self.packer.flush_raw()
    }

    /// Writes events of one thread, in the order they ended. Batches of one thread come in order.
    pub fn batch(
        &mut self,
        process: ProcessId,
        tid: u32,
        events: &Events,
        clock: &Clock,
        names: &Names,
    ) -> io::Result<()> {
        self.turn_chapter()?;
        clock.convert(&events.start, &mut self.starts);
        self.end_ticks.clear();
        self.end_ticks.extend(events.start.iter().zip(&events.duration).map(|(s, d)| s.saturating_add(*d)));
        clock.convert(&self.end_ticks, &mut self.ends);
        let mut thread = self.take_thread(process, tid);
        let mut metadata = std::mem::take(&mut thread.metadata);
        for i in 0..events.len() {
            let op = Op(events.op[i]);
            if op == Op::META {
                let meta = Meta { key: events.file[i], kind: events.fd[i], value: events.a[i] };
                if metadata.len() < META_MAX {
                    metadata.push(meta)
                } else {
                    self.summary.metadata_dropped += 1
                }
                continue;
            }
            let mut call = Call {
                op,
                info: op.info(),
                begin: self.starts[i] as u64,
                end: (self.ends[i] as u64).max(self.starts[i] as u64),
                depth: events.depth[i],
                file: events.file[i],
                fd: events.fd[i],
                a: events.known[i].then_some(events.a[i]),
                b: events.b[i],
                ret: events.ret[i],
                unfinished: false,
                metadata: &metadata,
                flows: Vec::new(),
            };
            self.put(process, &mut thread, &mut call, names)?;
            metadata.clear();
        }
        thread.metadata = metadata;
        self.threads.insert((process, tid), thread);
        Ok(())
    }

    /// Writes spans that never ended as slices up to the last tick, marked `unfinished`. Comes after all batches.
    pub fn open_spans(
        &mut self,
        process: ProcessId,
        spans: &[OpenSpan],
        last_tick: u64,
        clock: &Clock,
        names: &Names,
    ) -> io::Result<()> {
        let end = clock.boot_ns(last_tick);
        // The innermost span is written first, as if it had ended first.
        for span in spans.iter().rev() {
            let begin = clock.boot_ns(span.start);
            let mut call = Call {
                op: Op::SPAN,
                info: Op::SPAN.info(),
                begin,
                end: end.max(begin),
                depth: span.depth,
                file: span.name,
                fd: span.category as i32,
                a: Some(span.steps),
                b: 0,
                ret: 0,
                unfinished: true,
                metadata: &[],
                flows: Vec::new(),
            };
            let mut thread = self.take_thread(process, span.tid);
            self.put(process, &mut thread, &mut call, names)?;
            self.threads.insert((process, span.tid), thread);
        }
        Ok(())
    }

    /// Marks the file as whole.
    pub fn finish(mut self) -> io::Result<Summary> {
        self.counters()?;
        for process in &self.processes {
            let out = self.packer.out();
            put_packet(out, process.head, |packet| {
                packet.nested(field::packet::ATTRIBUTES, |attributes| {
                    put_attribute(attributes, &attribute_key(process.uuid, ATTRIBUTE_COMPLETE), process.events);
                });
            });
        }
        self.packer.flush_raw()?;
        Ok(Summary { bytes: self.packer.written, ..self.summary })
    }

    /// Counters of every process and of all together.
    fn counters(&mut self) -> io::Result<()> {
        for process in &self.processes {
            put_activity(self.packer.out(), process.head, process.uuid, &process.activity);
            self.packer.breathe()?;
        }
        if let (Some(total), Some(first)) = (&self.total, self.processes.first()) {
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

    fn next_sequence(&mut self) -> u64 {
        self.sequences += 1;
        self.sequences
    }

    fn flush(&mut self) -> io::Result<()> {
        self.packed += self.packer.out().0.len() as u64;
        self.packer.flush()
    }

    /// Begins a chapter where the last one has grown long.
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

    /// The thread, introduced by the next event written if it is not known; to be put back.
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
    fn put(&mut self, process: ProcessId, thread: &mut Thread, call: &mut Call, names: &Names) -> io::Result<()> {
        let owner = &mut self.processes[process.0];
        owner.events += 1;
        self.summary.events += 1;
        if let Some(info) = call.info {
            owner.activity.add(call.op, info, call.begin, call.end, call.ret);
            if let Some(total) = &mut self.total {
                total.add(call.op, info, call.begin, call.end, call.ret);
            }
        }
        call.flows.extend(owner.flows.leaving(call.info, call.op, call.ret));
        if call.op != Op::COUNTER {
            call.flows.append(&mut owner.flows.entering);
        }
        let out = self.packer.out();
        if thread.state.is_none() {
            thread.state = Some(introduce(out, owner, thread));
        }
        match call.op {
            Op::COUNTER => put_counter(out, owner, thread, call, names),
            Op::INSTANT | Op::LOST => put_instant(out, thread, call, names),
            _ => put_slice(out, owner, thread, call, names),
        }
        // A batch is small against what is gathered, but nothing bounds the names it brings.
        if out.0.len() >= 2 * GATHERED { self.flush() } else { Ok(()) }
    }
}

/// A packet of a sequence; `fill` writes what it carries.
#[inline(always)]
fn put_packet(out: &mut Message, head: Head, fill: impl FnOnce(&mut Message)) {
    out.nested(field::trace::PACKET, |packet| {
        packet.number(field::packet::SEQUENCE, head.sequence);
        if let Some(machine) = head.machine {
            packet.number(field::packet::MACHINE, machine as u64);
        }
        fill(packet);
    });
}

/// The moment all clocks are related at. Viewers refuse snapshots that go back in time, which those of threads and of
/// files put together would; related at the same moment of boot time they never do.
const SNAPSHOT_NS: u64 = 1;

/// Clocks as one process knows them. CLOCK_MONOTONIC stands apart from boot time by the time the machine slept, which
/// nobody noted, so it is left out rather than guessed.
fn put_clocks(out: &mut Message, process: &Process, clock: &Clock, boot_ns: u64) {
    let real_ns = clock.real_offset_ns.wrapping_add_unsigned(SNAPSHOT_NS) as u64;
    put_packet(out, process.head, |packet| {
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_CLEARED);
        packet.number(field::packet::TIMESTAMP, boot_ns);
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

fn attribute_key(uuid: u64, name: &str) -> String {
    format!("{ATTRIBUTE_PREFIX}{uuid:016x}.{name}")
}

fn put_attribute(attributes: &mut Message, key: &str, number: u64) {
    attributes.nested(field::attributes::ATTRIBUTE, |attribute| {
        attribute.text(field::attributes::KEY, key.as_bytes());
        attribute.number(field::attributes::LONG, number);
    });
}

fn put_chapter(attributes: &mut Message) {
    put_attribute(attributes, super::layout::ATTRIBUTE_CHAPTER, 1);
}

/// Everything known of the process, so that a reader can rebuild its row.
fn put_attributes(out: &mut Message, process: &Process, fields: &Fields, clock: &Clock) {
    put_packet(out, process.head, |packet| {
        packet.nested(field::packet::ATTRIBUTES, |attributes| {
            put_attribute(attributes, &attribute_key(process.uuid, ATTRIBUTE_LAYOUT), LAYOUT);
            let offset = clock.real_offset_ns as u64;
            put_attribute(attributes, &attribute_key(process.uuid, ATTRIBUTE_OFFSET), offset);
            for (name, text) in fields.iter() {
                attributes.nested(field::attributes::ATTRIBUTE, |attribute| {
                    attribute.text(field::attributes::KEY, attribute_key(process.uuid, name).as_bytes());
                    attribute.text(field::attributes::STRING, text.as_bytes());
                });
            }
        });
    });
}

fn put_process_track(out: &mut Message, process: &Process, fields: &Fields, boot_ns: u64) {
    put_packet(out, process.head, |packet| {
        packet.number(field::packet::TIMESTAMP, boot_ns);
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

fn put_process(described: &mut Message, process: &Process, fields: &Fields) {
    described.number(field::process::PID, process.pid);
    for word in fields.get(key::COMMAND).unwrap_or("").split_terminator('\0') {
        described.text(field::process::COMMAND, word.as_bytes());
    }
    described.text(field::process::NAME, fields.get(key::PROGRAM).unwrap_or("process").as_bytes());
    if let Some(start) = fields.number(key::START_BOOT_NS) {
        described.number(field::process::START, start);
    }
    let rank = fields.get(key::RANK).map(|rank| format!("rank {rank}"));
    let host = fields.get(key::HOST).map(|host| format!("host {host}"));
    let label = fields.get(key::LABEL).map(str::to_string);
    for text in [rank, host, label].into_iter().flatten() {
        described.text(field::process::LABELS, text.as_bytes());
    }
}

/// When the process began and how it ended, on its own track.
fn put_life(out: &mut Message, process: &Process, fields: &Fields, first_ns: u64, last_ns: u64) {
    // The image's own beginning; the kernel knows that of its process only to a hundredth of a second.
    let started = fields.number(key::IMAGE).filter(|&start| start > 0 && start <= first_ns);
    let ended: u64 = fields.number(key::END_BOOT_NS).unwrap_or(last_ns);
    let lost: u64 = fields.number(key::LOST).unwrap_or(0);
    put_moment(out, process, started.unwrap_or(first_ns), "start");
    let ending = match fields.ending() {
        Ending::Running => "still running".to_string(),
        ending => format!("end: {ending}"),
    };
    put_moment(out, process, ended, &ending);
    if lost > 0 {
        put_moment(out, process, ended, &format!("{lost} events lost"));
    }
}

fn put_moment(out: &mut Message, process: &Process, boot_ns: u64, name: &str) {
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

fn thread_names(fields: &Fields) -> BTreeMap<u32, String> {
    let named = fields.get(key::THREADS).unwrap_or("").split_terminator('\0');
    named.filter_map(|pair| pair.split_once('=')).filter_map(|(t, n)| Some((t.parse().ok()?, n.into()))).collect()
}

/// Clock, defaults and track of a thread: after this its events are understood.
fn introduce(out: &mut Message, process: &Process, thread: &Thread) -> State {
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

fn put_thread_track(track: &mut Message, process: &Process, thread: &Thread) {
    track.number(field::track::UUID, thread.uuid);
    track.number(field::track::PARENT, process.uuid);
    track.nested(field::track::THREAD, |described| {
        described.number(field::thread::PID, process.pid);
        described.number(field::thread::TID, thread.tid as u64);
        if let Some(name) = process.thread_names.get(&thread.tid) {
            described.text(field::thread::NAME, name.as_bytes());
        }
    });
}

fn put_interned(interned: &mut Message, table: u32, iid: u64, text: &[u8]) {
    interned.nested(table, |entry| {
        entry.number(field::interned::IID, iid);
        entry.text(field::interned::TEXT, text);
    });
}

fn put_counter(out: &mut Message, process: &Process, thread: &mut Thread, call: &Call, names: &Names) {
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
    put_event(out, head, state, call.begin, value::COUNTER, |event| {
        event.number(field::event::CATEGORY_IIDS, iids.category);
        event.number(field::event::NAME_IID, iids.name);
        event.number(field::event::TRACK, uuid);
        event.double(field::event::COUNTER_DOUBLE, f64::from_bits(call.a.unwrap_or(0) as u64));
        put_metadata(event, call.metadata);
    });
}

/// Counters below a track of a process, or of all of them.
fn put_activity(out: &mut Message, head: Head, parent: u64, activity: &Activity) {
    for counter in Counter::ALL {
        let samples = activity.samples(counter);
        if samples.is_empty() {
            continue;
        }
        let uuid = child_uuid(parent, "activity", counter.name().as_bytes());
        put_packet(out, head, |packet| {
            packet.nested(field::packet::TRACK, |track| {
                track.number(field::track::UUID, uuid);
                track.number(field::track::PARENT, parent);
                track.text(field::track::NAME, counter.name().as_bytes());
                track.text(field::track::DESCRIPTION, counter.meaning().as_bytes());
                track.nested(field::track::COUNTER, |described| {
                    described.text(field::counter::UNIT_NAME, counter.unit().as_bytes());
                });
            });
        });
        for sample in samples {
            put_packet(out, head, |packet| {
                packet.number(field::packet::TIMESTAMP, sample.boot_ns);
                packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_NEEDED);
                packet.nested(field::packet::TRACK_EVENT, |event| {
                    event.number(field::event::TYPE, value::COUNTER);
                    event.number(field::event::TRACK, uuid);
                    event.double(field::event::COUNTER_DOUBLE, sample.value);
                });
            });
        }
    }
}

fn put_instant(out: &mut Message, thread: &mut Thread, call: &Call, names: &Names) {
    let state = thread.state.as_mut().expect("introduced");
    let iids = intern(out, thread.head, state, call, names);
    put_event(out, thread.head, state, call.begin, value::INSTANT, |event| {
        event.number(field::event::CATEGORY_IIDS, iids.category);
        event.number(field::event::NAME_IID, iids.name);
        put_arguments(event, call);
    });
}

#[inline]
fn put_slice(out: &mut Message, owner: &Process, thread: &mut Thread, call: &Call, names: &Names) {
    let place = thread.lanes.place(call.begin, call.end, call.depth);
    let lane = match place {
        Place::Track => None,
        Place::Lane(lane) => Some(lane_track(out, owner, thread, lane)),
        Place::Nowhere => return put_homeless(out, thread, call, names),
    };
    let state = thread.state.as_mut().expect("introduced");
    let iids = intern(out, thread.head, state, call, names);
    put_event(out, thread.head, state, call.begin, value::SLICE_BEGIN, |event| {
        event.number(field::event::CATEGORY_IIDS, iids.category);
        event.number(field::event::NAME_IID, iids.name);
        if let Some(uuid) = lane {
            event.number(field::event::TRACK, uuid);
        }
        put_arguments(event, call);
    });
    put_end(out, thread.head, state, call.end, lane);
}

/// A call that overlaps with too many others: a moment with its duration as an argument.
#[cold]
fn put_homeless(out: &mut Message, thread: &mut Thread, call: &Call, names: &Names) {
    let state = thread.state.as_mut().expect("introduced");
    let iids = intern(out, thread.head, state, call, names);
    put_event(out, thread.head, state, call.begin, value::INSTANT, |event| {
        event.number(field::event::CATEGORY_IIDS, iids.category);
        event.number(field::event::NAME_IID, iids.name);
        put_arguments(event, call);
        put_number(event, Key::Dur, (call.end - call.begin) as i64);
    });
}

/// The track of a lane, described again with its thread.
#[cold]
fn lane_track(out: &mut Message, owner: &Process, thread: &mut Thread, lane: usize) -> u64 {
    let name = owner.thread_names.get(&thread.tid).map_or("Thread", String::as_str);
    let uuid = child_uuid(thread.uuid, "lane", &(lane as u64).to_le_bytes());
    let state = thread.state.as_mut().expect("introduced");
    if state.lanes.insert(lane as u64) {
        put_packet(out, thread.head, |packet| {
            packet.nested(field::packet::TRACK, |track| {
                track.number(field::track::UUID, uuid);
                track.number(field::track::PARENT, thread.uuid);
                track.text(field::track::NAME, format!("{name} overlapping").as_bytes());
            });
        });
    }
    uuid
}

#[inline(always)]
fn put_event(out: &mut Message, head: Head, state: &mut State, time: u64, kind: u64, fill: impl FnOnce(&mut Message)) {
    let since = time.wrapping_sub(state.last_ns);
    state.last_ns = time;
    put_packet(out, head, |packet| {
        packet.number(field::packet::TIMESTAMP, since);
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_NEEDED);
        packet.nested(field::packet::TRACK_EVENT, |event| {
            event.number(field::event::TYPE, kind);
            fill(event);
        });
    });
}

#[inline(always)]
fn put_end(out: &mut Message, head: Head, state: &mut State, time: u64, lane: Option<u64>) {
    let since = time.wrapping_sub(state.last_ns);
    state.last_ns = time;
    put_packet(out, head, |packet| {
        packet.number(field::packet::TIMESTAMP, since);
        packet.nested(field::packet::TRACK_EVENT, |event| {
            event.number(field::event::TYPE, value::SLICE_END);
            if let Some(uuid) = lane {
                event.number(field::event::TRACK, uuid);
            }
        });
    });
}

/// The numbers an event refers to its strings by.
struct Iids {
    category: u64,
    name: u64,
}

/// Makes sure the sequence knows every string of the event.
#[inline]
fn intern(out: &mut Message, head: Head, state: &mut State, call: &Call, names: &Names) -> Iids {
    let (category, category_name) = category_of(call);
    let name = if names_itself(call) { EVENT_NAMES + call.file as u64 } else { call.op.0 as u64 };
    let category = category << DEPTH_BITS | call.depth as u64;
    let file = (call.file != 0 && !names_itself(call)).then_some(call.file);
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
fn put_strings(out: &mut Message, head: Head, fill: impl FnOnce(&mut Message)) {
    put_packet(out, head, |packet| {
        packet.number(field::packet::SEQUENCE_FLAGS, value::STATE_NEEDED);
        packet.nested(field::packet::INTERNED_DATA, fill);
    });
}

fn intern_meta(out: &mut Message, head: Head, state: &mut State, meta: &Meta, names: &Names) {
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

fn text_value(meta: &Meta) -> Option<u32> {
    (MetaKind::from_fd(meta.kind) == Some(MetaKind::Text)).then_some(meta.value as u32)
}

/// Spans and their kin bring their own name in `file` and their category in `fd`.
#[inline(always)]
fn names_itself(call: &Call) -> bool {
    matches!(call.op, Op::SPAN | Op::INSTANT | Op::COUNTER)
}

/// Where a category's text comes from.
enum CategoryName {
    Of(Layer),
    Given(u32),
}

#[inline(always)]
fn category_of(call: &Call) -> (u64, CategoryName) {
    if names_itself(call) && call.fd > 0 {
        return (CATEGORY_NAMES + call.fd as u64, CategoryName::Given(call.fd as u32));
    }
    let layer = call.info.map_or(Layer::App, |info| info.layer);
    (1 + layer as u64, CategoryName::Of(layer))
}

fn text_of(category: CategoryName, names: &Names) -> Vec<u8> {
    match category {
        CategoryName::Of(layer) => layer.name().into(),
        CategoryName::Given(id) => names.text(id).unwrap_or("app".into()).as_bytes().into(),
    }
}

fn event_name(call: &Call, names: &Names) -> Vec<u8> {
    if names_itself(call) {
        return names.text(call.file).unwrap_or("unnamed".into()).as_bytes().into();
    }
    call.info.map_or_else(|| format!("operation {}", call.op.0).into(), |info| info.name.into())
}

/// Paths are stored as the bytes they are, UTF-8 or not.
fn path_of(id: u32, names: &Names) -> &[u8] {
    names.get(id).map_or(b"<unknown>", |(_, text)| text)
}

/// The second path of a rename or a link.
#[inline(always)]
fn target_of(call: &Call) -> Option<u32> {
    let info = call.info?;
    let of_a = call.a.filter(|_| info.a == Arg::Path);
    of_a.or((info.b == Arg::Path).then_some(call.b)).map(|id| id as u32)
}

#[inline(always)]
fn put_arguments(event: &mut Message, call: &Call) {
    let Some(info) = call.info else {
        return put_all(event, call);
    };
    if names_itself(call) {
        put_steps(event, call.a);
    } else {
        put_file(event, call);
        if let (Some(key), Some(a)) = (Key::of(info.a, false), call.a) {
            put_value(event, key, a);
        }
        if let Some(key) = Key::of(info.b, true) {
            put_value(event, key, call.b);
        }
        put_result(event, info, call);
    }
    if call.unfinished {
        put_number(event, Key::Unfinished, 1);
    }
    call.flows.iter().for_each(|&flow| event.fixed(field::event::FLOWS, flow));
    put_metadata(event, call.metadata);
}

/// An operation this version does not know: nothing is left out.
#[cold]
fn put_all(event: &mut Message, call: &Call) {
    put_file(event, call);
    put_number(event, Key::Count, call.a.unwrap_or(POS_UNKNOWN));
    put_number(event, Key::Second, call.b);
    put_number(event, Key::Ret, call.ret);
}

#[inline(always)]
fn put_file(event: &mut Message, call: &Call) {
    if call.file != 0 {
        event.nested(field::event::ANNOTATIONS, |annotation| {
            annotation.number(field::annotation::NAME_IID, Key::File as u64);
            annotation.number(field::annotation::STRING_IID, call.file as u64);
        });
    }
    if call.fd != -1 {
        put_number(event, Key::Fd, call.fd as i64);
    }
}

/// What is as it has to be (zero, the descriptor that `fd` says) is left out.
#[inline(always)]
fn put_result(event: &mut Message, info: &OpInfo, call: &Call) {
    match (call.ret, info.ret) {
        (ret, _) if ret < 0 => put_number(event, Key::Errno, ret.wrapping_neg()),
        (ret, Ret::Bytes) => put_number(event, Key::Bytes, ret),
        (ret, Ret::Fd) if ret == call.fd as i64 => (),
        (0, Ret::Status) => (),
        (ret, _) => put_number(event, Key::Ret, ret),
    }
}

fn put_steps(event: &mut Message, packed: Option<i64>) {
    let (epoch, step) = packed.map_or((STEP_NONE, STEP_NONE), unpack_steps);
    for (key, number) in [(Key::Epoch, epoch), (Key::Step, step)] {
        if number != STEP_NONE {
            put_number(event, key, number as i64);
        }
    }
}

#[inline(always)]
fn put_value(event: &mut Message, key: Key, number: i64) {
    let as_kind = match key {
        Key::Target => field::annotation::STRING_IID,
        // Shown in hexadecimal.
        Key::Flags => field::annotation::POINTER,
        _ => field::annotation::INT,
    };
    let number = if key == Key::Target { number as u32 as u64 } else { number as u64 };
    event.nested(field::event::ANNOTATIONS, |annotation| {
        annotation.number(field::annotation::NAME_IID, key as u64);
        annotation.number(as_kind, number);
    });
}

#[inline(always)]
fn put_number(event: &mut Message, key: Key, number: i64) {
    event.nested(field::event::ANNOTATIONS, |annotation| {
        annotation.number(field::annotation::NAME_IID, key as u64);
        annotation.number(field::annotation::INT, number as u64);
    });
}

fn put_metadata(event: &mut Message, metadata: &[Meta]) {
    for meta in metadata {
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
    use crate::clock::Anchor;
    use crate::native::file::Leftover;
    use crate::perfetto::proto::{Value, Walk};
    use crate::record::{Record, word};

    fn image(events: u64) -> Image {
        let mut leftover = Leftover { tid: 7, events: Events::default() };
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
        let summary = export(image, &[], &mut sink, &Options { compression, ..Options::default() }).unwrap();
        (out, summary)
    }

    /// The packets of a file, and those within its packed ones.
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
                // Start and end of the process too, and counters beside.
                assert_eq!(events(&packets, value::SLICE_BEGIN), count as usize);
                assert_eq!(events(&packets, value::SLICE_END), count as usize);
                assert_eq!(events(&packets, value::INSTANT), 2);
            }
        }
    }

    #[test]
    fn an_image_without_a_clock_is_refused() {
        let error = export(&Image::default(), &[], &mut |_| Ok(()), &Options::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_sink_that_fails_ends_the_export() {
        let mut room = 1000;
        let mut sink = |bytes: &[u8]| {
            room -= bytes.len() as i64;
            if room < 0 { Err(io::Error::other("no space")) } else { Ok(()) }
        };
        assert!(export(&image(100_000), &[], &mut sink, &Options::default()).is_err());
    }

    #[test]
    fn far_numbers_take_no_memory() {
        let mut numbers = Numbers::default();
        for number in [0, 63, 64, FAR - 1, FAR, FAR + 1, u64::MAX] {
            assert!(numbers.insert(number));
            assert!(!numbers.insert(number));
        }
        assert_eq!(numbers.near.len() as u64, FAR / 64);
    }
}
