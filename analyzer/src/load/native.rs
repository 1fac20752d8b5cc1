//! Our own traces: `.dlt` files and the rings that killed processes leave.
//!
//! Opening reads facts and names of all processes and passes over their events; afterwards every block is a unit. The
//! numbers of a process (names, ticks) become numbers of the catalogue and Unix time while a block is decoded.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use dlio_schemas::clock::Clock;
use dlio_schemas::native::Damage;
use dlio_schemas::native::block::Opener;
use dlio_schemas::native::columns::{EVENTS_MAX, Events};
use dlio_schemas::native::fields::{Ending, Fields, key};
use dlio_schemas::native::file::{EventBlock, Image, Leftover, decode_block};
use dlio_schemas::native::names::NameKind;
use dlio_schemas::native::ring::{OpenSpan, Ring};
use dlio_schemas::ops::{Arg as Meaning, OP_MAX, Op};
use dlio_schemas::record::{MetaKind, POS_UNKNOWN, STEP_NONE, unpack_steps};

use super::arguments::arguments;
use super::inputs::NativeFiles;
use super::store::FileStore;
use super::{LoadError, Note, Reader, Source, Unit};
use crate::batch::{ABSENT, ABSENT_32, Arg, Batch, Row, Value, Wanted};
use crate::catalog::{Catalog, FILE_NONE, Host, Origin, Process};

/// What a thread keeps between blocks.
pub struct Scratch {
    opener: Opener,
    events: Events,
    bytes: Vec<u8>,
    ends: Vec<u64>,
    end_ns: Vec<i64>,
}

impl Scratch {
    pub fn new() -> std::io::Result<Scratch> {
        Ok(Scratch {
            opener: Opener::new()?,
            events: Events::default(),
            bytes: Vec::new(),
            ends: Vec::new(),
            end_ns: Vec::new(),
        })
    }
}

/// An image as it was opened, before it has a number.
struct Opened {
    path: PathBuf,
    image: Image,
    clock: Clock,
}

/// Opens all images and gives them numbers in order of host, start and process id.
pub fn open_all(
    found: &[NativeFiles],
    catalog: &Catalog,
    threads: usize,
    notes: &mut Vec<Note>,
) -> Result<Vec<Box<dyn Source>>, LoadError> {
    let (opened, failed) = open_images(found, threads)?;
    notes.extend(failed);
    for opened in &opened {
        notes.extend(opened.image.damage.iter().map(|(_, what)| Note {
            path: opened.path.clone(),
            what: what.clone(),
            events_max: EVENTS_MAX as u64,
        }));
    }
    let hosts = hosts(&opened, catalog);
    let sources = opened.into_iter().zip(hosts).map(|(opened, host)| {
        let offset = catalog.hosts()[host as usize].clock_offset_ns;
        Box::new(NativeSource::new(opened, host, offset, catalog)) as Box<dyn Source>
    });
    Ok(sources.collect())
}

/// Reads images on several threads; those that cannot be used are noted.
fn open_images(found: &[NativeFiles], threads: usize) -> Result<(Vec<Opened>, Vec<Note>), LoadError> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Vec::new(), Vec::new()));
    let open_some = || {
        while let Some(files) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = open_image(files);
            let mut done = done.lock().expect("opened images");
            match result {
                Ok((opened, notes)) => {
                    done.0.push(opened);
                    done.1.extend(notes);
                }
                Err(notes) => done.1.extend(notes),
            }
        }
    };
    std::thread::scope(|scope| (0..threads.min(found.len()).max(1)).for_each(|_| drop(scope.spawn(open_some))));
    let (mut opened, mut notes) = done.into_inner().expect("opened images");
    opened.sort_by_cached_key(|opened| order(&opened.image.fields, &opened.path));
    notes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((opened, notes))
}

fn order(fields: &Fields, path: &Path) -> (String, u64, i64, i64, PathBuf) {
    let number = |key| fields.number::<i64>(key).unwrap_or(0);
    let host = fields.get(key::HOST).unwrap_or_default().to_string();
    (host, fields.number(key::START_BOOT_NS).unwrap_or(0), number(key::PID), number(key::IMAGE), path.into())
}

fn open_image(files: &NativeFiles) -> Result<(Opened, Vec<Note>), Vec<Note>> {
    let mut notes = Vec::new();
    let mut image = None;
    let mut ring_of = |path: &PathBuf| {
        let ring = read_ring(path);
        ring.map_err(|what| notes.push(Note { path: path.clone(), what, events_max: 0 })).ok()
    };
    let ring = files.ring.as_ref().and_then(&mut ring_of);
    if let Some(path) = &files.dlt {
        let store = FileStore::open(path).map_err(|_| Damage::Broken("the file cannot be opened"));
        match store.and_then(|store| Image::from_store(&store)) {
            Ok(opened) => image = Some((path, opened)),
            Err(what) => notes.push(Note { path: path.clone(), what, events_max: 0 }),
        }
    }
    if let (Some(path), Some(ring)) = (&files.ring, &ring) {
        image.get_or_insert_with(|| (path, Image::default())).1.add_ring(ring);
    }
    let Some((path, mut image)) = image else { return Err(notes) };
    let clock = image.clock().unwrap_or_else(|| {
        image.damage.push((0, Damage::Broken("no moment of its clock is known, its times are wrong")));
        Clock::nanoseconds(0)
    });
    Ok((Opened { path: path.clone(), image, clock }, notes))
}

fn read_ring(path: &Path) -> Result<Ring, Damage> {
    let bytes = std::fs::read(path).map_err(|_| Damage::Broken("the file cannot be read"))?;
    Ring::parse(&bytes)
}

/// The host of each image. All images of one boot share one offset to Unix time: that of the earliest moment known, so
/// that a step of the wall clock moves nothing against anything else.
fn hosts(opened: &[Opened], catalog: &Catalog) -> Vec<u32> {
    let key_of = |fields: &Fields| {
        (fields.get(key::HOST).unwrap_or("unknown").to_string(), fields.get(key::BOOT_ID).map(str::to_string))
    };
    let mut boots: HashMap<_, Vec<&Opened>> = HashMap::new();
    for image in opened {
        boots.entry(key_of(&image.image.fields)).or_default().push(image);
    }
    let number = |image: &Opened| {
        let key = key_of(&image.image.fields);
        catalog.host(host(key.0.clone(), key.1.clone(), &boots[&key]))
    };
    opened.iter().map(number).collect()
}

fn host(name: String, boot_id: Option<String>, images: &[&Opened]) -> Host {
    let earliest = |image: &&&Opened| image.image.anchors.iter().map(|anchor| anchor.boot_ns).min().unwrap_or(u64::MAX);
    let offsets = || images.iter().filter(|i| !i.image.anchors.is_empty()).map(|image| image.clock.real_offset_ns);
    let fact = |key| images.iter().find_map(|image| image.image.fields.get(key));
    Host {
        name,
        boot_id,
        cores: fact(key::CORES).and_then(|text| text.parse().ok()),
        memory: fact(key::MEMORY).and_then(|text| text.parse().ok()),
        kernel: fact(key::KERNEL).map(str::to_string),
        clock_offset_ns: images.iter().min_by_key(earliest).map_or(0, |image| image.clock.real_offset_ns),
        clock_spread_ns: offsets().max().unwrap_or(0) - offsets().min().unwrap_or(0),
    }
}

/// One process image.
struct NativeSource {
    path: PathBuf,
    proc: u32,
    clock: Clock,
    /// Unix time minus boot time.
    offset: i64,
    /// Numbers of files by the process's own numbers.
    files: Vec<u32>,
    /// Strings that are no files: of spans, categories, metadata.
    texts: HashMap<u32, String>,
    blocks: Vec<EventBlock>,
    leftovers: Vec<Leftover>,
    open_spans: Vec<OpenSpan>,
    last_tick: u64,
    says_spans: bool,
    /// Kinds of what the program said of itself, by operation, name and category.
    said: Mutex<HashMap<Said, u32>>,
}

type Said = (u16, u32, i32);

/// What a block needs to know of an operation, without looking at its row.
#[derive(Clone, Copy, Default)]
struct Traits {
    kind: u32,
    position: bool,
    size: bool,
    moves: bool,
    /// Says something of the program itself, or of other events.
    app: bool,
    known: bool,
}

static TRAITS: LazyLock<Vec<Traits>> = LazyLock::new(|| (0..=OP_MAX).map(|op| traits(Op(op))).collect());

fn traits(op: Op) -> Traits {
    let Some(info) = op.info() else { return Traits::default() };
    Traits {
        kind: Catalog::kind_of_op(op).unwrap_or(0),
        position: info.a == Meaning::Position,
        size: info.b == Meaning::Size,
        moves: info.moves_bytes(),
        app: op.0 >= Op::SPAN.0,
        known: true,
    }
}

impl NativeSource {
    fn new(opened: Opened, host: u32, offset: i64, catalog: &Catalog) -> NativeSource {
        let Opened { path, image, clock } = opened;
        let proc = catalog.add_process(process(&image, &path, host, &clock, offset));
        let says_spans = image.names.iter().any(|(_, kind, _)| kind == NameKind::Span);
        NativeSource {
            proc,
            offset,
            files: file_numbers(&image, catalog),
            texts: texts(&image),
            last_tick: image.last_tick(),
            path,
            clock,
            blocks: image.blocks,
            leftovers: image.leftovers,
            open_spans: image.open_spans,
            says_spans,
            said: Mutex::default(),
        }
    }

    fn unix_ns(&self, ticks: u64) -> i64 {
        (self.clock.boot_ns(ticks) as i64).wrapping_add(self.offset)
    }

    /// Loads and decodes a block into the reader's scratch.
    fn decode(&self, block: &EventBlock, reader: &mut Reader) -> Result<(), Damage> {
        let file = reader.files.get(&self.path).map_err(|_| Damage::Broken("the file cannot be opened any more"))?;
        let scratch = &mut reader.native;
        scratch.bytes.resize(block.header.size(), 0);
        file.read_exact_at(&mut scratch.bytes, block.offset as u64).map_err(|_| Damage::Cut)?;
        decode_block(&block.header, &scratch.bytes, &mut scratch.opener, &mut scratch.events)
    }

    fn read_block(&self, index: usize, reader: &mut Reader, catalog: &Catalog, wanted: Wanted) -> Result<(), Damage> {
        let block = &self.blocks[index];
        let carried = if wanted.args && self.says_spans { self.carried_into(block, reader) } else { Vec::new() };
        self.decode(block, reader)?;
        let events = std::mem::take(&mut reader.native.events);
        self.fill(block.header.tid, &events, carried, reader, catalog, wanted);
        reader.native.events = events;
        Ok(())
    }

    /// Metadata at the end of the block before, whose span begins this one.
    fn carried_into(&self, block: &EventBlock, reader: &mut Reader) -> Vec<Meta> {
        let before = self.blocks.iter().find(|other| {
            other.header.stream == block.header.stream && other.header.sequence.wrapping_add(1) == block.header.sequence
        });
        let Some(before) = before.filter(|before| before.header.tid == block.header.tid) else { return Vec::new() };
        if self.decode(before, reader).is_err() {
            return Vec::new();
        }
        let events = &reader.native.events;
        let trailing = (0..events.len()).rev().take_while(|&i| events.op[i] == Op::META.0).count();
        (events.len() - trailing..events.len()).map(|i| Meta::of(events, i)).collect()
    }

    /// Turns decoded events into the reader's batch.
    fn fill(
        &self,
        tid: u32,
        events: &Events,
        carried: Vec<Meta>,
        reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
    ) {
        let batch = &mut reader.batch;
        batch.clear();
        batch.proc = self.proc;
        batch.tid = tid as i32;
        let scratch = &mut reader.native;
        self.clock.convert(&events.start, &mut batch.ts);
        scratch.ends.clear();
        scratch.ends.extend(events.start.iter().zip(&events.duration).map(|(start, dur)| start.wrapping_add(*dur)));
        self.clock.convert(&scratch.ends, &mut scratch.end_ns);
        batch.dur.extend(scratch.end_ns.iter().zip(&batch.ts).map(|(end, start)| end.wrapping_sub(*start).max(0)));
        batch.ts.iter_mut().for_each(|ts| *ts = ts.wrapping_add(self.offset));
        self.fill_calls(events, batch);
        if events.op.iter().any(|&op| TRAITS[op as usize & OP_MAX as usize].needs_care()) {
            self.fill_said(events, carried, batch, catalog, wanted);
        } else if wanted.args {
            (0..events.len()).for_each(|i| self.call_args(events, i, batch, catalog));
        }
    }

    /// The columns of calls, all rows alike.
    fn fill_calls(&self, events: &Events, batch: &mut Batch) {
        let of = |op: u16| &TRAITS[op as usize & OP_MAX as usize];
        batch.kind.extend(events.op.iter().map(|&op| of(op).kind));
        batch.file.extend(events.file.iter().map(|&id| self.files.get(id as usize).copied().unwrap_or(FILE_NONE)));
        batch.fd.extend(events.fd.iter().map(|&fd| if fd < 0 { ABSENT_32 } else { fd }));
        let positions = events.op.iter().zip(&events.a).zip(&events.known);
        batch.pos.extend(
            positions.map(|((&op, &a), &known)| if known && of(op).position && a != POS_UNKNOWN { a } else { ABSENT }),
        );
        batch.requested.extend(events.op.iter().zip(&events.b).map(|(&op, &b)| if of(op).size { b } else { ABSENT }));
        batch
            .bytes
            .extend(events.op.iter().zip(&events.ret).map(|(&op, &r)| if of(op).moves && r >= 0 { r } else { ABSENT }));
        batch.ret.extend_from_slice(&events.ret);
        batch.depth.extend_from_slice(&events.depth);
    }

    /// Corrects the rows that are no calls, and takes those out that are no events.
    fn fill_said(&self, events: &Events, carried: Vec<Meta>, batch: &mut Batch, catalog: &Catalog, wanted: Wanted) {
        let mut metas = carried;
        let mut keep = vec![true; events.len()];
        let mut said = self.said.lock().expect("kinds of spans");
        for i in 0..events.len() {
            let op = Op(events.op[i]);
            match op {
                Op::META => {
                    keep[i] = false;
                    metas.push(Meta::of(events, i));
                }
                Op::LOST => {
                    keep[i] = false;
                    batch.lost += events.a[i].max(0) as u64;
                }
                Op::SPAN | Op::INSTANT | Op::COUNTER => {
                    let key = (op.0, events.file[i], events.fd[i]);
                    let kind = *said.entry(key).or_insert_with(|| self.said_kind(key, catalog));
                    say(batch, i, kind, if op == Op::COUNTER { None } else { Some(events.a[i]) });
                    let metas = std::mem::take(&mut metas);
                    if wanted.args {
                        self.said_args(events, i, metas, batch, catalog);
                    }
                }
                _ => {
                    if op.info().is_none() {
                        batch.kind[i] = catalog.call(&format!("operation {}", op.0), "posix");
                    }
                    if wanted.args {
                        self.call_args(events, i, batch, catalog);
                    }
                }
            }
        }
        drop(said);
        batch.retain(&keep);
    }

    fn said_kind(&self, (op, name, category): Said, catalog: &Catalog) -> u32 {
        let text = |id: u32, missing| self.texts.get(&id).map_or(missing, String::as_str);
        let origin = match Op(op) {
            Op::INSTANT => Origin::Instant,
            Op::COUNTER => Origin::Counter,
            _ => Origin::Span,
        };
        catalog.said(text(name, "<name lost>"), text(category.max(0) as u32, "app"), origin)
    }

    fn call_args(&self, events: &Events, i: usize, batch: &mut Batch, catalog: &Catalog) {
        let Some(info) = Op(events.op[i]).info() else { return };
        let files = || catalog.files();
        let path = |id: u32| {
            let file = self.files.get(id as usize).copied().unwrap_or(FILE_NONE);
            catalog.text(&files()[file as usize])
        };
        for (key, value) in arguments(info, events.known[i], events.a[i], events.b[i], path) {
            batch.args.push(Arg { row: i as u32, key: catalog.text(key), value });
        }
    }

    fn said_args(&self, events: &Events, i: usize, metas: Vec<Meta>, batch: &mut Batch, catalog: &Catalog) {
        let row = i as u32;
        if Op(events.op[i]) == Op::COUNTER {
            let value = Value::Float(f64::from_bits(events.a[i] as u64));
            batch.args.push(Arg { row, key: catalog.text("value"), value });
        }
        for meta in metas {
            let text = |id: u32| catalog.text(self.texts.get(&id).map_or("<name lost>", String::as_str));
            let value = match meta.kind {
                MetaKind::Int => Value::Int(meta.value),
                MetaKind::Float => Value::Float(f64::from_bits(meta.value as u64)),
                MetaKind::Text => Value::Text(text(meta.value as u32)),
            };
            batch.args.push(Arg { row, key: text(meta.key), value });
        }
    }

    /// Spans that had begun when the process was killed end with the last that is known of it.
    fn read_open_spans(&self, take: &mut dyn FnMut(&mut Batch), catalog: &Catalog, wanted: Wanted) {
        let end = self.unix_ns(self.last_tick);
        for span in &self.open_spans {
            let mut batch = Batch { proc: self.proc, tid: span.tid as i32, ..Batch::default() };
            let kind = self.said_kind((Op::SPAN.0, span.name, span.category as i32), catalog);
            let start = self.unix_ns(span.start);
            batch.push(&Row { depth: span.depth, ..Row::new(start, end.saturating_sub(start).max(0), kind) });
            say(&mut batch, 0, kind, Some(span.steps));
            if wanted.args {
                let (key, value) = (catalog.text("unfinished"), Value::Text(catalog.text("true")));
                batch.args.push(Arg { row: 0, key, value });
            }
            take(&mut batch);
        }
    }
}

impl Traits {
    fn needs_care(&self) -> bool {
        self.app || !self.known
    }
}

/// Makes row `i` one that the program said of itself.
fn say(batch: &mut Batch, i: usize, kind: u32, steps: Option<i64>) {
    batch.kind[i] = kind;
    batch.file[i] = FILE_NONE;
    batch.fd[i] = ABSENT_32;
    batch.pos[i] = ABSENT;
    batch.requested[i] = ABSENT;
    batch.bytes[i] = ABSENT;
    batch.ret[i] = ABSENT;
    let (epoch, step) = steps.map_or((STEP_NONE, STEP_NONE), unpack_steps);
    if epoch != STEP_NONE || step != STEP_NONE {
        batch.epoch.resize(batch.ts.len(), ABSENT_32);
        batch.step.resize(batch.ts.len(), ABSENT_32);
        batch.epoch[i] = epoch;
        batch.step[i] = step;
    }
}

/// One piece of metadata, waiting for its span.
struct Meta {
    key: u32,
    kind: MetaKind,
    value: i64,
}

impl Meta {
    fn of(events: &Events, i: usize) -> Meta {
        let kind = MetaKind::from_fd(events.fd[i]).unwrap_or(MetaKind::Int);
        Meta { key: events.file[i], kind, value: events.a[i] }
    }
}

impl Source for NativeSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn start(&self) -> Option<i64> {
        let blocks = self.blocks.iter().map(|block| block.header.first);
        let leftovers = self.leftovers.iter().filter_map(|leftover| leftover.events.start.iter().min().copied());
        let spans = self.open_spans.iter().map(|span| span.start);
        blocks.chain(leftovers).chain(spans).min().map(|tick| self.unix_ns(tick))
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        let unit = |index: usize, last: u64, events: usize, size: usize| Unit {
            source,
            index: index as u32,
            last_end: self.unix_ns(last),
            proc: Some(self.proc),
            events: events as u64,
            size: size as u64,
        };
        let blocks = self.blocks.iter().zip(0..);
        let mut units: Vec<_> =
            blocks.map(|(b, i)| unit(i, b.header.last, b.header.count as usize, b.header.size())).collect();
        for (leftover, i) in self.leftovers.iter().zip(self.blocks.len()..) {
            let ends = leftover.events.start.iter().zip(&leftover.events.duration).map(|(s, d)| s.wrapping_add(*d));
            units.push(unit(i, ends.max().unwrap_or(0), leftover.events.len(), 0));
        }
        if !self.open_spans.is_empty() {
            units.push(unit(self.blocks.len() + self.leftovers.len(), self.last_tick, self.open_spans.len(), 0));
        }
        units
    }

    fn read(
        &self,
        index: u32,
        reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage> {
        let index = index as usize;
        if index < self.blocks.len() {
            self.read_block(index, reader, catalog, wanted)?;
        } else if let Some(leftover) = self.leftovers.get(index - self.blocks.len()) {
            self.fill(leftover.tid, &leftover.events, Vec::new(), reader, catalog, wanted);
        } else {
            self.read_open_spans(take, catalog, wanted);
            return Ok(());
        }
        take(&mut reader.batch);
        Ok(())
    }
}

/// The process's numbers of files, as the catalogue numbers them.
fn file_numbers(image: &Image, catalog: &Catalog) -> Vec<u32> {
    let is_file = |kind| matches!(kind, NameKind::Path | NameKind::Object);
    let ids: Vec<u32> = image.names.iter().filter(|(_, kind, _)| is_file(*kind)).map(|(id, ..)| id).collect();
    let texts = image.names.iter().filter(|(_, kind, _)| is_file(*kind));
    let numbers = catalog.file_numbers(texts.map(|(_, _, text)| String::from_utf8_lossy(text)));
    // A damaged chunk of names could claim any number: the table is as long as what was found, not as what was claimed.
    let mut files = vec![FILE_NONE; (image.names.end() as usize).min(ids.len() + NAME_GAP_MAX)];
    for (id, number) in ids.into_iter().zip(numbers) {
        if let Some(slot) = files.get_mut(id as usize) {
            *slot = number;
        }
    }
    files
}

/// How far the numbers of files may lie beyond their count, for the names in between that are no files.
const NAME_GAP_MAX: usize = 1 << 22;

fn texts(image: &Image) -> HashMap<u32, String> {
    let is_text = |kind| matches!(kind, NameKind::Span | NameKind::Category | NameKind::Text);
    let names = image.names.iter().filter(|(_, kind, _)| is_text(*kind));
    names.map(|(id, _, text)| (id, String::from_utf8_lossy(text).into_owned())).collect()
}

fn process(image: &Image, path: &Path, host: u32, clock: &Clock, offset: i64) -> Process {
    let fields = &image.fields;
    let unix = |boot_ns: i64| boot_ns.wrapping_add(offset);
    let text = |key| fields.get(key).map(str::to_string);
    let last = clock.boot_ns(image.last_tick()) as i64;
    Process {
        host,
        pid: fields.number(key::PID).unwrap_or(0),
        ppid: fields.number(key::PPID),
        rank: fields.number(key::RANK),
        program: text(key::PROGRAM),
        command: fields.get(key::COMMAND).map(command_line),
        cwd: text(key::CWD),
        start_ts: fields.number(key::START_BOOT_NS).map(unix),
        end_ts: Some(unix(fields.number(key::END_BOOT_NS).unwrap_or(last))),
        ended: ending(fields).to_string(),
        lost: image.lost,
        filtered: image.filtered,
        tracer_ns: fields.number(key::TRACER_NS),
        source: path.display().to_string(),
        threads: threads(fields),
    }
}

/// Arguments as one would type them.
fn command_line(arguments: &str) -> String {
    let quoted = |argument: &str| match argument.is_empty() || argument.contains([' ', '"', '\'', '\n', '\t']) {
        true => format!("'{}'", argument.replace('\'', "'\\''")),
        false => argument.to_string(),
    };
    arguments.trim_end_matches('\0').split('\0').map(quoted).collect::<Vec<_>>().join(" ")
}

fn threads(fields: &Fields) -> Vec<(i32, String)> {
    let pairs = fields.get(key::THREADS).unwrap_or_default().split('\0').filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(tid, name)| Some((tid.parse().ok()?, name.to_string()))).collect()
}

/// A process that did not say how it ended was killed, unless it is still there.
fn ending(fields: &Fields) -> Ending {
    match fields.ending() {
        Ending::Killed if is_running(fields) => Ending::Running,
        ending => ending,
    }
}

/// How far the kernel's start time of a process may lie from ours: it counts in hundredths of a second.
const START_SLACK_NS: u64 = 50_000_000;

fn is_running(fields: &Fields) -> bool {
    let here = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if fields.get(key::BOOT_ID) != Some(here.trim()) {
        return false;
    }
    let start = fields.number::<i32>(key::PID).and_then(start_boot_ns);
    let ours = fields.number::<u64>(key::START_BOOT_NS);
    start.zip(ours).is_some_and(|(kernel, ours)| kernel.abs_diff(ours) <= START_SLACK_NS)
}

/// When the kernel says that a living process began.
fn start_boot_ns(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold anything.
    let mut fields = stat.get(stat.rfind(')')? + 2..)?.split(' ');
    let state = fields.next()?;
    let start: u64 = fields.nth(18)?.parse().ok()?;
    (state != "Z").then_some(start * 10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_read_as_typed() {
        assert_eq!(command_line("python\0train.py\0--name\0a b\0"), "python train.py --name 'a b'");
        assert_eq!(command_line("sh\0-c\0it's"), "sh -c 'it'\\''s'");
    }

    #[test]
    fn this_process_has_a_start() {
        assert!(start_boot_ns(std::process::id() as i32).is_some());
        assert!(start_boot_ns(0).is_none());
    }
}
