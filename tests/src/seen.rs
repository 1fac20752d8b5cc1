//! The content of a trace directory, event by event, in any format of its files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dlio_schemas::clock::Clock;
use dlio_schemas::evidence::Counters;
use dlio_schemas::native::block::Opener;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::{Fields, key};
use dlio_schemas::native::file::{self, Image};
use dlio_schemas::native::names::{NameKind, Names};
use dlio_schemas::native::ring::Ring;
use dlio_schemas::ops::Op;
use dlio_schemas::perfetto::read::{Batch, Reader};
use dlio_schemas::record::MetaKind;

/// One event, with all references resolved.
#[derive(Clone, Debug)]
pub struct Event {
    pub name: &'static str,
    pub tid: u32,
    /// Unix time.
    pub start_ns: i64,
    pub duration_ns: u64,
    pub file: Option<String>,
    pub is_path: bool,
    pub fd: i32,
    /// The first argument, if known.
    pub a: Option<i64>,
    /// The first argument as the name it refers to.
    pub second: Option<String>,
    pub b: i64,
    pub ret: i64,
    /// The thread's work before, if it was counted.
    pub counters: Option<Counters>,
}

/// One process image.
#[derive(Debug)]
pub struct Process {
    pub path: PathBuf,
    pub fields: Fields,
    pub ending: String,
    pub events: Vec<Event>,
    /// Records in addition to the events: counters of threads.
    pub counters: usize,
    pub lost: u64,
    pub filtered: u64,
    pub has_ring: bool,
}

/// The content of a directory.
#[derive(Debug, Default)]
pub struct RecordedTrace {
    pub processes: Vec<Process>,
    /// The faults that a valid trace does not have: damage, files of other names.
    pub faults: Vec<String>,
}

impl RecordedTrace {
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.processes.iter().flat_map(|process| &process.events)
    }

    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events().filter(move |event| event.name == name)
    }

    pub fn count(&self, name: &str) -> u64 {
        self.named(name).count() as u64
    }

    pub fn lost(&self) -> u64 {
        self.processes.iter().map(|process| process.lost).sum()
    }
}

/// Reads a directory; one that does not exist is empty.
pub fn read(folder: &Path) -> RecordedTrace {
    let mut seen = RecordedTrace::default();
    for stem in stems(folder, &mut seen.faults) {
        let (dlt, ring) = (path(folder, &stem, ".dlt"), path(folder, &stem, ".ring"));
        let pftrace = path(folder, &stem, ".pftrace");
        if dlt.exists() || ring.exists() {
            native(&mut seen, &dlt, &ring);
        }
        if pftrace.exists() {
            perfetto(&mut seen, &pftrace);
        }
    }
    seen
}

fn path(folder: &Path, stem: &str, ending: &str) -> PathBuf {
    folder.join(format!("{stem}{ending}"))
}

fn stems(folder: &Path, faults: &mut Vec<String>) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all = BTreeSet::new();
    for name in entries.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        // Not part of any process's trace: see `tracer/src/life/untraced.rs`.
        if name == dlio_schemas::native::untraced::LIST {
            continue;
        }
        match [".dlt", ".ring", ".pftrace"].iter().find_map(|ending| name.strip_suffix(ending)) {
            Some(stem) => drop(all.insert(stem.to_string())),
            None if name.ends_with(".machine") => {}
            None => faults.push(format!("a file that does not belong here: {name}")),
        }
    }
    all
}

fn native(seen: &mut RecordedTrace, dlt: &Path, ring: &Path) {
    let bytes = std::fs::read(dlt).unwrap_or_default();
    let mut fault = |what: String| seen.faults.push(format!("{}: {what}", dlt.display()));
    let mut image = match Image::from_dlt(&bytes) {
        Ok(image) => image,
        Err(_) if bytes.is_empty() => Image::default(),
        Err(damage) => return fault(damage.to_string()),
    };
    // An empty one has no meaning: access to it was lost, and the trace is complete without it.
    let has_ring = ring.metadata().is_ok_and(|facts| facts.len() > 0);
    if has_ring {
        match std::fs::read(ring).map_err(|e| e.to_string()).and_then(|b| Ring::parse(&b).map_err(|e| e.to_string())) {
            Ok(ring) => image.add_ring(&ring),
            Err(error) => fault(format!("its ring: {error}")),
        }
    }
    image.damage.iter().for_each(|(at, damage)| fault(format!("{damage} at {at}")));
    let Some(clock) = image.clock() else { return fault("no anchor".into()) };
    let mut events = EventCollector::default();
    let mut opener = Opener::default();
    for block in &image.blocks {
        let mut decoded = Events::default();
        match file::decode(block, &bytes, &mut opener, &mut decoded) {
            Ok(()) => events.add(&decoded, block.header.tid, &image.names, &clock),
            Err(damage) => fault(format!("{damage} in the block at {}", block.offset)),
        }
    }
    for left in &image.leftovers {
        events.add(&left.events, left.tid, &image.names, &clock);
    }
    seen.processes.push(Process {
        path: dlt.to_path_buf(),
        ending: image.fields.ending().to_string(),
        events: events.all,
        counters: events.counted,
        lost: image.lost,
        filtered: image.filtered,
        fields: image.fields,
        has_ring,
    });
}

fn perfetto(seen: &mut RecordedTrace, path: &Path) {
    let bytes = std::fs::read(path).unwrap_or_default();
    let mut reader = Reader::default();
    let mut batches: Vec<(usize, u32, Events)> = Vec::new();
    let mut keep = |batch: Batch| batches.push((batch.process, batch.tid, batch.events.clone()));
    let used = reader.read(&bytes, &mut keep);
    reader.finish(&mut keep);
    let mut fault = |what: String| seen.faults.push(format!("{}: {what}", path.display()));
    if used != bytes.len() {
        fault(format!("{} bytes left over", bytes.len() - used));
    }
    reader.damage.iter().for_each(|(at, damage)| fault(format!("{damage} at {at}")));
    if reader.skipped != 0 {
        fault(format!("{} events of no known kind", reader.skipped));
    }
    for (index, process) in reader.processes.iter().enumerate() {
        let clock = reader.clock(index);
        let mut found = EventCollector::default();
        for (_, tid, batch) in batches.iter().filter(|(owner, ..)| *owner == index) {
            found.add(batch, *tid, &reader.names, &clock);
        }
        let EventCollector { all: events, counted, .. } = found;
        if process.complete != Some(events.len() as u64) {
            fault(format!("holds {} events and claims {:?}", events.len(), process.complete));
        }
        let number = |name| process.fields.number(name).unwrap_or(0);
        seen.processes.push(Process {
            path: path.to_path_buf(),
            ending: process.fields.ending().to_string(),
            events,
            counters: counted,
            lost: number(key::LOST),
            filtered: number(key::FILTERED),
            fields: process.fields.clone(),
            has_ring: false,
        });
    }
}

/// The events of a process, and counters of threads that precede their event.
#[derive(Default)]
struct EventCollector {
    all: Vec<Event>,
    counted: usize,
    counters: BTreeMap<u32, Counters>,
}

impl EventCollector {
    fn add(&mut self, events: &Events, tid: u32, names: &Names, clock: &Clock) {
        for i in 0..events.len() {
            if events.op[i] == Op::META.0 && events.fd[i] == MetaKind::Counters as i32 {
                self.counted += 1;
                self.counters.insert(tid, Counters::unpack(events.a[i], events.b[i], events.ret[i]));
                continue;
            }
            let info = Op(events.op[i]).info();
            let text = |id: u32| names.text(id).map(|text| text.into_owned());
            let a = events.known[i].then_some(events.a[i]);
            self.all.push(Event {
                name: info.map_or("?", |info| info.name),
                tid,
                start_ns: clock.boot_ns(events.start[i]) as i64 + clock.real_offset_ns,
                duration_ns: clock.duration_ns(events.start[i], events.duration[i]),
                file: text(events.file[i]),
                is_path: names.get(events.file[i]).is_some_and(|(kind, _)| kind == NameKind::Path),
                fd: events.fd[i],
                second: a.filter(|_| info.is_some_and(|info| info.a.is_name())).and_then(|id| text(id as u32)),
                a,
                b: events.b[i],
                ret: events.ret[i],
                counters: self.counters.remove(&tid),
            });
        }
    }
}

/// Returns the number of times each name occurs.
pub fn tally<'a>(events: impl Iterator<Item = &'a Event>) -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::new();
    events.for_each(|event| *all.entry(event.name).or_default() += 1);
    all
}
