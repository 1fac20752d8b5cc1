//! Perfetto traces: dlio's own exports, from which the recorded trace can be restored, and traces of other tools.
//!
//! A tar with one such file per host is read like the files in it.
//!
//! A file of dlio's is read in chapters; any other file is one unit, because the meaning of a packet depends on earlier
//! ones.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use dlio_schemas::clock::Clock;
use dlio_schemas::native::Damage;
use dlio_schemas::native::fields::key;
use dlio_schemas::native::names::Names;
use dlio_schemas::perfetto::bundle;
use dlio_schemas::perfetto::proto::Walk;
use dlio_schemas::perfetto::read::{self, Chapters};

use crate::batch::{Batch, Wanted};
use crate::catalog::{Catalog, Host};
use crate::load::bytes::file_bytes::Bytes;
use crate::load::native::reader::process_of;
use crate::load::sources::duplicates::Duplicates;
use crate::load::sources::errors::Note;
use crate::load::sources::resolve::Resolver;
use crate::load::sources::source::{Format, Opening, Reader, Source, Sources};
use crate::unit::Unit;

/// Bytes passed to the reader at a time; in between, its batches are passed on.
const WINDOW: usize = 1 << 20;

/// A longer packet is damage: memory of its length would be allocated.
const PACKET_MAX: usize = 256 << 20;
const PACKET_TOO_LONG: Damage = Damage::Broken("a packet of more than 256 MiB");

/// Perfetto's format.
pub const FORMAT: Format =
    Format { name: ".pftrace", recognises: |head| is_ours(head).into(), open: open_all, names_processes: true };

fn is_ours(head: &[u8]) -> bool {
    is_perfetto(head) || bundle::is_bundle(head)
}

/// Returns the traces in a file: itself, or those in a tar of dlio's. A truncated file gives its beginning, and damage.
pub fn traces_in(path: &Path) -> Result<(Vec<Bytes>, Option<Damage>), Damage> {
    let bytes = Bytes::open(path)?;
    let mut head = [0; bundle::HEAD];
    if bytes.load(0, &mut head).is_err() || !bundle::is_bundle(&head) {
        return Ok((vec![bytes], None));
    }
    let (mut traces, mut at) = (Vec::new(), 0);
    while bytes.load(at, &mut head).is_ok()
        && let Some(member) = bundle::Member::read(&head)
    {
        let (from, size) = (at + head.len(), member.size as usize);
        if member.is_trace() {
            traces.push(bytes.part(from, size));
        }
        at = from.saturating_add(size).saturating_add(bundle::padding(member.size));
        if at > bytes.size() {
            return Ok((traces, Some(Damage::Cut)));
        }
    }
    let is_whole = bytes.load(at, &mut head).is_ok();
    Ok((traces, (!is_whole).then_some(Damage::Cut)))
}

/// Returns `true` for a list of packets: a tag, a length, and fields whose lengths fit.
fn is_perfetto(head: &[u8]) -> bool {
    let Some(rest) = head.strip_prefix(&[0x0a]) else { return false };
    let digits = rest.iter().take_while(|byte| **byte >= 0x80).count();
    let Some(body) = rest.get(digits + 1..).filter(|_| digits < 5) else { return false };
    let length = rest[..=digits].iter().rev().fold(0usize, |sum, byte| sum << 7 | (byte & 0x7f) as usize);
    let fields = &body[..length.min(body.len())];
    // A packet that extends beyond the bytes read is judged by its first field only.
    let walk = Walk::new(fields);
    match length <= body.len() {
        true => length > 0 && walk.into_iter().all(|field| field.is_ok()),
        false => fields.first().is_some_and(|tag| matches!(tag & 7, 0..=2 | 5) && tag >> 3 > 0),
    }
}

/// Opens exports in order of their processes.
fn open_all(paths: &[PathBuf], opening: &mut Opening) -> Sources {
    let Opening { catalog, notes, duplicates } = opening;
    let mut opened: Vec<PerfettoSource> = Vec::new();
    for path in paths {
        let mut note = |what| notes.push(Note { path: path.clone(), what, events_max: None });
        let (traces, damage) = traces_in(path).unwrap_or_else(|what| (Vec::new(), Some(what)));
        damage.into_iter().for_each(&mut note);
        for bytes in traces {
            match PerfettoSource::open(path, bytes) {
                Ok(source) => opened.push(source),
                Err(what) => note(what),
            }
        }
    }
    opened.sort_by_cached_key(PerfettoSource::order);
    opened.iter_mut().for_each(|source| source.pass_over(duplicates));
    opened.retain(|source| source.passed_over.is_empty() || source.described().next().is_some());
    for source in &opened {
        if source.described().any(|process| process.fields.get(key::INCOMPLETE).is_some()) {
            notes.push(Note { path: source.path.clone(), what: Damage::Incomplete, events_max: None });
        }
        // The facts of dlio's processes are outside the compressed part, and numbered in order of their starts. A
        // process without facts is a track that the file's writer added, which gets a number with its first event.
        for process in source.described() {
            source.number(process, source.first.clocks.real_offset_ns, catalog);
        }
    }
    let (mut files, mut places): (Vec<PerfettoFile>, HashMap<PathBuf, usize>) = Default::default();
    for source in opened {
        let place = *places.entry(source.path.clone()).or_insert(files.len());
        match files.get_mut(place) {
            Some(file) => file.traces.push(source),
            None => files.push(PerfettoFile { traces: vec![source] }),
        }
    }
    files.into_iter().map(|file| Box::new(file) as Box<dyn Source>).collect()
}

/// The traces of one file as one source: cached results of a file are stored by its path.
struct PerfettoFile {
    traces: Vec<PerfettoSource>,
}

impl Source for PerfettoFile {
    fn path(&self) -> &Path {
        &self.traces[0].path
    }

    /// dlio's own files start with their processes.
    fn knows_processes(&self) -> bool {
        self.traces.iter().all(PerfettoSource::knows_processes)
    }

    fn processes(&self) -> Option<Vec<u32>> {
        let all: Option<Vec<_>> = self.traces.iter().map(PerfettoSource::processes).collect();
        all.map(|all| all.concat())
    }

    fn knows_events(&self) -> bool {
        self.traces.iter().all(PerfettoSource::knows_events)
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        let units = self.traces.iter().flat_map(|trace| trace.units(source));
        (0..).zip(units).map(|(index, unit)| Unit { index, ..unit }).collect()
    }

    fn read(
        &self,
        index: u32,
        reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage> {
        let mut index = index as usize;
        for trace in &self.traces {
            if index < trace.chapters.len() {
                return trace.read(index, reader, catalog, wanted, take);
            }
            index -= trace.chapters.len();
        }
        Ok(())
    }
}

struct PerfettoSource {
    path: PathBuf,
    bytes: Bytes,
    first: read::Reader,
    chapters: Vec<Range<usize>>,
    numbers: Mutex<HashMap<u64, NumberedProcess>>,
    /// Processes that are read from other files.
    passed_over: HashSet<u64>,
}

/// A process's number and the offset of its host.
#[derive(Clone, Copy)]
struct NumberedProcess {
    proc: u32,
    offset: i64,
}

impl PerfettoSource {
    fn open(path: &Path, bytes: Bytes) -> Result<PerfettoSource, Damage> {
        let (mut first, mut chapters) = (read::Reader::default(), Chapters::default());
        let (mut window, mut at) = (Vec::new(), 0);
        while at < bytes.size() {
            let held = window.len();
            let more = WINDOW.max(held).min(bytes.size() - at);
            window.resize(held + more, 0);
            bytes.load(at, &mut window[held..])?;
            at += more;
            let used = first.scan(&window);
            chapters.feed(&window[..used]);
            window.drain(..used);
            if window.len() > PACKET_MAX {
                return Err(PACKET_TOO_LONG);
            }
        }
        let chapters = chapters.finish(bytes.size());
        Ok(PerfettoSource {
            path: path.into(),
            bytes,
            first,
            chapters,
            numbers: Mutex::default(),
            passed_over: HashSet::new(),
        })
    }

    fn pass_over(&mut self, duplicates: &mut Duplicates) {
        let ours = self.first.processes.iter().filter(|process| process.ours).map(|process| process.uuid);
        self.passed_over = ours.filter(|uuid| duplicates.skips_image(*uuid, &self.path)).collect();
    }

    /// Returns processes with known facts that are not skipped.
    fn described(&self) -> impl Iterator<Item = &read::Process> {
        let is_described = |process: &&read::Process| process.fields.iter().next().is_some();
        self.first.processes.iter().filter(is_described).filter(|process| !self.passed_over.contains(&process.uuid))
    }

    fn order(&self) -> (String, u64, PathBuf) {
        let fact = |key| self.first.processes.first().and_then(|process| process.fields.get(key));
        let start = fact(key::START_BOOT_NS).and_then(|text| text.parse().ok());
        (fact(key::HOST).unwrap_or_default().into(), start.unwrap_or(0), self.path.clone())
    }

    /// Returns the number of a process, new or known.
    fn number(&self, process: &read::Process, real_offset_ns: Option<i64>, catalog: &Catalog) -> NumberedProcess {
        let mut numbers = self.numbers.lock().expect("numbers of processes");
        *numbers.entry(process.uuid).or_insert_with(|| {
            let offset = process.real_offset_ns.or(real_offset_ns).unwrap_or(0);
            let host = catalog.host(host(process, offset));
            let offset = catalog.hosts()[host as usize].clock_offset_ns;
            let mut row = process_of(&process.fields, &self.path, host, offset, None);
            if !process.ours {
                row.ended = "unknown".into();
            }
            NumberedProcess { proc: catalog.add_process(row), offset }
        })
    }

    /// Passes on the reader's batches.
    fn hand_on(
        &self,
        read: read::Batch,
        unit: &mut Resolvers,
        reader: &mut Reader,
        context: (&Catalog, Wanted),
        take: &mut dyn FnMut(&mut Batch),
    ) {
        if self.passed_over.contains(&read.owner.uuid) {
            return;
        }
        let numbered = self.number(read.owner, read.real_offset_ns, context.0);
        let resolver = unit.get(read.owner.uuid, numbered, read.names, context.0);
        resolver.fill(read.tid, read.events, Vec::new(), reader.split(), context.0, context.1);
        take(&mut reader.batch);
    }
}

fn host(process: &read::Process, offset: i64) -> Host {
    let fact = |key| process.fields.get(key);
    Host {
        name: fact(key::HOST).unwrap_or("unknown").into(),
        boot_id: fact(key::BOOT_ID).map(str::to_string),
        cores: fact(key::CORES).and_then(|text| text.parse().ok()),
        memory: fact(key::MEMORY).and_then(|text| text.parse().ok()),
        kernel: fact(key::KERNEL).map(str::to_string),
        clock_offset_ns: offset,
        clock_spread_ns: 0,
    }
}

/// One resolver per process, with the number of strings that the reader had at its last use.
#[derive(Default)]
struct Resolvers(HashMap<u64, (Resolver, u32)>);

impl Resolvers {
    fn get(&mut self, uuid: u64, numbered: NumberedProcess, names: &Names, catalog: &Catalog) -> &Resolver {
        let new = || (Resolver::new(numbered.proc, Clock::nanoseconds(0), numbered.offset), 0);
        let (resolver, known) = self.0.entry(uuid).or_insert_with(new);
        if *known < names.end() {
            resolver.learn(names, *known, catalog);
            *known = names.end();
        }
        resolver
    }
}

impl PerfettoSource {
    /// dlio's own files start with their processes.
    fn knows_processes(&self) -> bool {
        !self.first.processes.is_empty() && self.first.processes.iter().all(|process| process.ours)
    }

    fn processes(&self) -> Option<Vec<u32>> {
        let is_numbered = |numbers: &HashMap<u64, NumberedProcess>| {
            let read = self.first.processes.iter().filter(|process| !self.passed_over.contains(&process.uuid));
            read.into_iter().all(|process| numbers.contains_key(&process.uuid))
        };
        let numbers = self.numbers.lock().expect("numbers of processes");
        let is_known = self.knows_processes() && is_numbered(&numbers);
        is_known.then(|| numbers.values().map(|numbered| numbered.proc).collect())
    }

    /// For several chapters only the sum is known.
    fn knows_events(&self) -> bool {
        self.chapters.len() == 1 && self.first.processes.iter().any(|process| process.complete.is_some())
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        let written: u64 = self.first.processes.iter().filter_map(|process| process.complete).sum();
        let proc = match self.numbers.lock().expect("numbers of processes").values().collect::<Vec<_>>()[..] {
            [only] if self.chapters.len() > 1 || self.first.processes.first().is_some_and(|p| p.ours) => {
                Some(only.proc)
            }
            _ => None,
        };
        let events = written / self.chapters.len().max(1) as u64;
        let unit = |(index, chapter): (usize, &Range<usize>)| Unit {
            proc,
            ..Unit::new(source, index as u32, events, chapter.len() as u64)
        };
        self.chapters.iter().enumerate().map(unit).collect()
    }

    fn read(
        &self,
        index: usize,
        reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage> {
        let chapter = self.chapters[index].clone();
        let mut from = self.first.fork();
        from.without_metadata = !wanted.args;
        let mut unit = Resolvers::default();
        let mut window = Vec::new();
        let (mut at, mut held) = (chapter.start, 0);
        while at < chapter.end {
            // Bytes that the reader could not use yet are at the start of the window.
            let more = WINDOW.max(held).min(chapter.end - at);
            window.resize(held + more, 0);
            self.bytes.load(at, &mut window[held..])?;
            at += more;
            let used = from.read(&window, &mut |batch| self.hand_on(batch, &mut unit, reader, (catalog, wanted), take));
            window.drain(..used);
            held = window.len();
            if held > PACKET_MAX {
                return Err(PACKET_TOO_LONG);
            }
        }
        from.finish(&mut |batch| self.hand_on(batch, &mut unit, reader, (catalog, wanted), take));
        self.open_spans(&mut unit, &from, (catalog, wanted), take);
        match (from.damage.first(), held) {
            (Some((_, what)), _) => Err(what.clone()),
            (None, 1..) => Err(Damage::Cut),
            (None, 0) => Ok(()),
        }
    }
}

impl PerfettoSource {
    /// Adds spans that never ended, each to the chapter where it was found first.
    fn open_spans(
        &self,
        unit: &mut Resolvers,
        from: &read::Reader,
        context: (&Catalog, Wanted),
        take: &mut dyn FnMut(&mut Batch),
    ) {
        let is_read = |(_, process): &(usize, &read::Process)| !self.passed_over.contains(&process.uuid);
        for (i, process) in from.processes.iter().enumerate().filter(is_read) {
            let known = self.first.processes.get(i).map_or(0, |process| process.open_spans.len());
            for span in process.open_spans.iter().skip(known) {
                let numbered = self.number(process, from.clocks.real_offset_ns, context.0);
                let resolver = unit.get(process.uuid, numbered, &from.names, context.0);
                let end = resolver.unix_ns(from.last_ns.max(span.start));
                take(&mut resolver.open_span(span, end, context.0, context.1));
            }
        }
    }
}
