//! The numbers that a viewer must find in a trace: per thread and name, the slices, their time, their depth, and the
//! sums of their arguments.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dlio_schemas::clock::Clock;
use dlio_schemas::native::Damage;
use dlio_schemas::native::block::Opener;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::key;
use dlio_schemas::native::file::{Image, decode};
use dlio_schemas::native::names::Names;
use dlio_schemas::ops::{Arg, Op, Ret};
use dlio_schemas::perfetto::lanes::{Lanes, Placement};

/// The expected numbers of a trace: see the module.
#[derive(Default)]
pub struct Figures {
    rows: BTreeMap<(i64, u32, String), Row>,
    /// By process and thread.
    lanes: BTreeMap<(i64, u32), Lanes>,
    unfinished: usize,
    /// `true` if times come from several clocks, so that limits cannot be compared.
    pub moved: bool,
    /// The offset of process and thread ids.
    pub id_shift: u32,
}

struct Row {
    count: u64,
    dur: u64,
    /// Sum of depths: 0 for calls beside their thread's track, where nothing nests.
    depth: u64,
    bytes: i64,
    pos: i64,
    first: u64,
    last: u64,
}

impl Figures {
    /// Adds all events of a process. `bytes` is the `.dlt` with its blocks.
    pub fn add_image(&mut self, image: &Image, bytes: &[u8]) -> Result<(), Damage> {
        let Some(clock) = image.clock() else { return Ok(()) };
        let pid = image.fields.number(key::PID).unwrap_or(0);
        let mut opener = Opener::default();
        let mut events = Events::default();
        for block in &image.blocks {
            decode(block, bytes, &mut opener, &mut events)?;
            self.add(pid, block.header.tid, &events, &clock, &image.names);
        }
        for left in &image.leftovers {
            self.add(pid, left.tid, &left.events, &clock, &image.names);
        }
        let end = clock.boot_ns(image.last_tick());
        // In the order of the file: the innermost as if it had ended first.
        for span in image.open_spans.iter().rev() {
            let name = image.names.text(span.name).unwrap_or_default().into_owned();
            let begin = clock.boot_ns(span.start);
            let depth = self.depth(pid, span.tid, begin, end.max(begin), span.depth);
            self.row(pid, span.tid, name).take(begin, end.max(begin), depth, 0, 0);
            self.unfinished += 1;
        }
        Ok(())
    }

    /// Adds events of one thread.
    pub fn add(&mut self, pid: i64, tid: u32, events: &Events, clock: &Clock, names: &Names) {
        for i in 0..events.len() {
            let op = Op(events.op[i]);
            let Some(info) = op.info().filter(|_| !matches!(op, Op::META | Op::COUNTER)) else { continue };
            let named = matches!(op, Op::SPAN | Op::INSTANT);
            let name =
                if named { names.text(events.file[i]).unwrap_or_default().into_owned() } else { info.name.into() };
            let bytes = if info.ret == Ret::Bytes { events.ret[i].max(0) } else { 0 };
            let pos = if info.a == Arg::Position && events.known[i] { events.a[i] } else { 0 };
            let begin = clock.boot_ns(events.start[i]);
            let end = clock.boot_ns(events.start[i] + events.duration[i]);
            let depth = match op {
                Op::INSTANT | Op::LOST => events.depth[i] as u64,
                _ => self.depth(pid, tid, begin, end, events.depth[i]),
            };
            self.row(pid, tid, name).take(begin, end, depth, bytes, pos);
        }
    }

    fn depth(&mut self, pid: i64, tid: u32, begin: u64, end: u64, depth: u8) -> u64 {
        let lanes = self.lanes.entry((pid + self.id_shift as i64, tid)).or_default();
        if lanes.place(begin, end, depth) == Placement::Track { depth as u64 } else { 0 }
    }

    fn row(&mut self, pid: i64, tid: u32, name: String) -> &mut Row {
        let none = Row { count: 0, dur: 0, depth: 0, bytes: 0, pos: 0, first: u64::MAX, last: 0 };
        self.rows.entry((pid + self.id_shift as i64, tid + self.id_shift, name)).or_insert(none)
    }

    pub fn to_json(&self) -> String {
        let mut out = format!("{{\"unfinished\": {}, \"slices\": [", self.unfinished);
        for (i, ((pid, tid, name), row)) in self.rows.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let Row { count, dur, depth, bytes, pos, first, last } = row;
            let bounds = if self.moved { String::new() } else { format!(", \"first\": {first}, \"last\": {last}") };
            let _ = write!(
                out,
                "{comma}\n{{\"pid\": {pid}, \"tid\": {tid}, \"name\": {name:?}, \"count\": {count}, \"dur\": {dur}, \
                 \"depth\": {depth}, \"bytes\": {bytes}, \"pos\": {pos}{bounds}}}"
            );
        }
        out + "\n]}\n"
    }
}

impl Row {
    fn take(&mut self, begin: u64, end: u64, depth: u64, bytes: i64, pos: i64) {
        self.count += 1;
        self.depth += depth;
        self.dur += end - begin;
        self.bytes += bytes;
        self.pos = self.pos.wrapping_add(pos);
        self.first = self.first.min(begin);
        self.last = self.last.max(end);
    }
}
