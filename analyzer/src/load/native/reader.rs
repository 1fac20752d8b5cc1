//! dlio's own traces: `.dlt` files and the rings that killed processes leave.
//!
//! Opening reads the facts of all processes and skips their strings and events; afterwards every block is a unit. The
//! strings of a process are read with the first of its blocks, so a query about one of a thousand processes needs no
//! others. Process-specific numbers (names, ticks) become catalog numbers and Unix time when a block is decoded.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock};
use std::time::Duration;

use dlio_schemas::clock::Clock;
use dlio_schemas::native::Damage;
use dlio_schemas::native::block::{HEADER_SIZE, Header, MAGIC, Opener};
use dlio_schemas::native::columns::ColumnSet;
use dlio_schemas::native::fields::{Ending, Fields, key};
use dlio_schemas::native::file::{EventBlock, Image, Leftover, decode_some, is_of_the_writer, learn, trouble_in_name};
use dlio_schemas::native::names::Names;
use dlio_schemas::native::ring::{OpenSpan, Ring};
use dlio_schemas::native::tally::Tallied;
use dlio_schemas::native::trouble;
use dlio_schemas::ops::Op;
use dlio_schemas::process_stat::ProcessStat;
use dlio_schemas::secrets::masked_text;

use super::image_files::{Export, FindSuccessors, NativeFiles, changed_just_now, stem};
use super::index::Index;
use crate::batch::{Batch, Columns, Wanted};
use crate::catalog::{Catalog, Host, Process, Recorder};
use crate::load::bytes::file_bytes::FileStore;
use crate::load::bytes::trace_file::{self, StoredFile};
use crate::load::sources::duplicates::Duplicates;
use crate::load::sources::errors::Note;
use crate::load::sources::resolve::{self, Meta, Resolver};
use crate::load::sources::source::{Format, Reader, Source};
use crate::load::sources::tally::ProcessTally;
use crate::resources::Resources;
use crate::shell_word::shell_word;
use crate::unit::Unit;

/// An opened image, before it has a number.
pub struct OpenedImage {
    pub path: PathBuf,
    pub image: Image,
    clock: Clock,
    has_ring: bool,
    is_running: bool,
    /// The `.dlt` of a running process: it may be replaced by another file while it is read.
    held: Option<StoredFile>,
}

/// The native files, as sources.
pub struct Natives {
    pub sources: Vec<Box<dyn Source>>,
    /// Exports that are read instead of damaged images.
    pub stand_ins: Vec<(PathBuf, &'static Format)>,
    /// `true` if no process still writes, as far as is known.
    pub settled: bool,
}

/// How files are opened: again if they changed in between, and not at all if they are indexed.
#[derive(Clone, Copy)]
pub struct OpenMode<'a> {
    pub again: FindSuccessors,
    pub index: &'a Index,
}

/// Opens all images and numbers them in order of host, start and process id.
pub fn open_all(
    found: &[NativeFiles],
    look: OpenMode,
    catalog: &Catalog,
    threads: usize,
    notes: &mut Vec<Note>,
    duplicates: &mut Duplicates,
) -> Natives {
    let Images { opened, stand_ins, failed } = open_images(found, threads, look);
    notes.extend(failed);
    let settled = opened.iter().all(is_settled);
    for opened in &opened {
        duplicates.add_image(&opened.image.fields, &opened.path);
        notes.extend(damage_of(opened));
        notes.extend(cause_of(opened));
        notes.extend(twice_in(opened));
    }
    let hosts = hosts(&opened, catalog);
    let sources = opened.into_iter().zip(hosts).map(|(opened, host)| {
        let offset = catalog.hosts()[host as usize].clock_offset_ns;
        Box::new(NativeSource::new(opened, host, offset, catalog)) as Box<dyn Source>
    });
    Natives { sources: sources.collect(), stand_ins, settled }
}

/// Readable images, and exports to read instead of other images.
pub struct Images {
    pub opened: Vec<OpenedImage>,
    /// Exports that are read instead of damaged images.
    pub stand_ins: Vec<(PathBuf, &'static Format)>,
    /// Images that are not usable at all.
    pub failed: Vec<Note>,
}

/// Opens images, in order of host, start and process id. If an image is damaged or unreadable and was exported before,
/// the export is read instead.
pub fn open_images(found: &[NativeFiles], threads: usize, look: OpenMode) -> Images {
    let (opened, failed, became) = open_some(found, threads, look);
    let paths: HashSet<&PathBuf> = opened.iter().map(|opened| &opened.path).collect();
    let is_opened = |files: &NativeFiles| files.own().any(|own| paths.contains(own));
    let lost: Vec<(PathBuf, &Format)> =
        found.iter().filter(|files| !is_opened(files)).filter_map(|files| files.export.clone()).collect();
    let exports: HashMap<&PathBuf, &(PathBuf, &'static Format)> =
        found.iter().flat_map(|files| files.own().filter_map(|own| Some((own, files.export.as_ref()?)))).collect();
    let export = |opened: &OpenedImage| exports.get(&opened.path).map(|&export| export.clone());
    let (damaged, opened): (Vec<_>, Vec<_>) =
        opened.into_iter().partition(|opened| !opened.image.damage.is_empty() && export(opened).is_some());
    let stand_ins = damaged.iter().filter_map(export).chain(lost).chain(became).collect();
    Images { opened, stand_ins, failed }
}

/// Returns the unusable parts of an image. The events they cost count as lost if their number is known; otherwise it is
/// unknown.
fn damage_of(opened: &OpenedImage) -> Vec<Note> {
    let missing = opened.image.missing();
    let ending = ending(&opened.image.fields);
    let known = missing.is_some() || ending == Ending::Running;
    let most = missing.map(|_| 0).or_else(|| opened.image.missing_most());
    let note = |what| Note { path: opened.path.clone(), what, events_max: most };
    let counts = |what: &&Damage| !(known && is_of_the_writer(what));
    let notes: Vec<_> = opened.image.damage.iter().map(|(_, what)| what).filter(counts).cloned().map(note).collect();
    match missing {
        _ if !notes.is_empty() || ending == Ending::Running => notes,
        Some(0) => notes,
        Some(_) if opened.image.has_ended() => vec![note(Damage::Broken("it lacks blocks that its end refers to"))],
        _ if missing.is_some() || opened.image.uncertain() > 0 => {
            vec![note(Damage::Broken("it lacks blocks that its ring refers to: they were truncated or removed"))]
        }
        _ if opened.has_ring => {
            vec![note(Damage::Broken("its process was killed, and not everything fit into its ring"))]
        }
        _ => vec![note(Damage::Broken("its end is missing, and no ring contains it"))],
    }
}

/// Returns a note for a process that was killed while it added calls to its table: some may be both in the table and in
/// a block.
fn twice_in(opened: &OpenedImage) -> Option<Note> {
    const TWICE: &str = "its process was killed while it counted: at most 64 calls may count twice";
    let may_be = opened.image.twice_most > 0 && ending(&opened.image.fields) == Ending::Killed;
    may_be.then(|| Note { path: opened.path.clone(), what: Damage::Remark(TWICE), events_max: Some(0) })
}

/// Returns why events were lost, if the process recorded it.
fn cause_of(opened: &OpenedImage) -> Option<Note> {
    let trouble = opened.image.trouble.filter(|_| opened.image.lost > 0)?;
    Some(Note { path: opened.path.clone(), what: Damage::Remark(trouble::remark(trouble)), events_max: Some(0) })
}

/// Returns `true` if nothing writes to an image any more: its process has ended, here or by its own record. For a ring
/// left on another host this is unknown, and its times of change are useless, because it is mapped.
fn is_settled(opened: &OpenedImage) -> bool {
    match ending(&opened.image.fields) {
        Ending::Killed => !opened.has_ring || is_here(&opened.image.fields),
        ending => ending != Ending::Running,
    }
}

/// Reads images on several threads; returns notes on unusable ones, and exports that replaced images.
fn open_some(found: &[NativeFiles], threads: usize, look: OpenMode) -> (Vec<OpenedImage>, Vec<Note>, Vec<Export>) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Vec::new(), Vec::new(), Vec::new()));
    let open_next = || {
        while let Some(files) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = open_image(files, look);
            let mut done = done.lock().expect("opened images");
            match result {
                Ok((opened, notes)) => {
                    done.0.push(opened);
                    done.1.extend(notes);
                }
                Err(OpenError::Became(export)) => done.2.push(export),
                Err(OpenError::Useless(notes)) => done.1.extend(notes),
            }
        }
    };
    std::thread::scope(|scope| (0..threads.min(found.len()).max(1)).for_each(|_| drop(scope.spawn(open_next))));
    let (mut opened, mut notes, became) = done.into_inner().expect("opened images");
    opened.sort_by_cached_key(|opened| order(&opened.image.fields, &opened.path));
    notes.sort_by(|a, b| a.path.cmp(&b.path));
    (opened, notes, became)
}

/// Why an image was not opened.
enum OpenError {
    /// It has been replaced by an export.
    Became(Export),
    Useless(Vec<Note>),
}

/// How often an image that changes is opened.
const OPENED_MAX: usize = 8;

/// Longer than any of the tracer's steps from one format of a file to the next. A busy host may suspend the tracer in such
/// a step, so each further wait is twice as long.
const BETWEEN_FORMS: Duration = Duration::from_millis(2);

/// Opens an image. When its process exits, its files are replaced by others, and are looked up again.
fn open_image(files: &NativeFiles, look: OpenMode) -> Result<(OpenedImage, Vec<Note>), OpenError> {
    let mut files = files.clone();
    let mut has_rested = false;
    for tries in 0..OPENED_MAX as u32 - 1 {
        let result = open_files(&files, look.index);
        // A part that could not be read may have been moved into another file.
        if result.as_ref().is_ok_and(|(opened, notes)| notes.is_empty() && is_final(opened, &files)) {
            return result.map_err(OpenError::Useless);
        }
        let Some(path) = files.own().next() else { break };
        match (look.again)(path) {
            (Some(now), _) if !now.is_alike(&files) => (files, has_rested) = (now, false),
            (None, Some(export)) => return Err(OpenError::Became(export)),
            // It may have been killed since its ring was read.
            _ if result.is_ok() && !has_rested => has_rested = true,
            // One file is gone and its successor does not exist yet, or a ring was created but not allocated yet.
            _ if result.is_err() && changed_just_now(path) => std::thread::sleep(BETWEEN_FORMS * (1 << tries)),
            _ => return result.map_err(OpenError::Useless),
        }
    }
    // A process without events removes its ring.
    let is_gone = !files.own().any(|path| trace_file::exists(path));
    open_files(&files, look.index).map_err(|notes| OpenError::Useless(if is_gone { Vec::new() } else { notes }))
}

/// Returns `true` if the image cannot become outdated: its end was read, or its process still runs.
fn is_final(opened: &OpenedImage, files: &NativeFiles) -> bool {
    match opened.is_running {
        // A `.dlt` created after the ring was read contains blocks that the ring has lost since.
        true => {
            opened.image.has_ended() || files.dlt.is_some() || !trace_file::exists(&opened.path.with_extension("dlt"))
        }
        false => opened.image.has_ended() && files.own().all(|path| trace_file::exists(path)),
    }
}

fn order(fields: &Fields, path: &Path) -> (String, u64, i64, i64, PathBuf) {
    let number = |key| fields.number::<i64>(key).unwrap_or(0);
    let host = fields.get(key::HOST).unwrap_or_default().to_string();
    (host, fields.number(key::START_BOOT_NS).unwrap_or(0), number(key::PID), number(key::IMAGE), path.into())
}

fn open_files(files: &NativeFiles, index: &Index) -> Result<(OpenedImage, Vec<Note>), Vec<Note>> {
    let mut notes = Vec::new();
    let mut image = None;
    let mut ring_of = |path: &PathBuf| {
        let ring = read_ring(path);
        ring.map_err(|what| notes.push(Note { path: path.clone(), what, events_max: None })).ok()
    };
    let ring = files.ring.as_ref().and_then(&mut ring_of);
    let mut file = None;
    if let Some(path) = &files.dlt {
        match open_with_index(path, index) {
            Ok((opened, store)) => (image, file) = (Some((path, opened)), Some(store)),
            Err(what) => notes.push(Note { path: path.clone(), what, events_max: None }),
        }
    }
    if let (Some(path), Some(ring)) = (&files.ring, &ring) {
        image.get_or_insert_with(|| (path, Image::default())).1.add_ring(ring);
    }
    if let Some((path, lost)) = &files.lost {
        notes.push(Note { path: path.clone(), what: Damage::NoRoom, events_max: Some(0) });
        image.get_or_insert_with(|| (path, named_image(path))).1.add_lost(*lost);
        if let Some((_, image)) = &mut image {
            image.trouble = trouble_in_name(&path.file_name().unwrap_or_default().to_string_lossy()).or(image.trouble);
        }
    }
    let Some((path, mut image)) = image else { return Err(notes) };
    let clock = image.clock().unwrap_or_else(|| {
        if image.events() > 0 {
            image.damage.push((0, Damage::Broken("the offset of its clock is unknown, so its times are wrong")));
        }
        Clock::nanoseconds(0)
    });
    let is_running = is_running(&image.fields);
    let held = file.filter(|_| is_running);
    let has_ring = ring.is_some() || files.lost.is_some();
    Ok((OpenedImage { path: path.clone(), image, clock, has_ring, is_running, held }, notes))
}

/// Returns the image of a file, and the open file.
fn open_with_index(path: &Path, index: &Index) -> Result<(Image, StoredFile), Damage> {
    let not_open = |_| Damage::Broken("cannot open the file");
    let file = StoredFile::open(path).map_err(not_open)?;
    if let Some(image) = index.image(path, &file) {
        return Ok((image, file));
    }
    let before = file.facts().map_err(not_open)?;
    file.gather_headers(HEADER_SIZE, first_header).map_err(not_open)?;
    let image = Image::survey(&FileStore::of(file.clone()).map_err(not_open)?)?;
    index.note(path, &file, &before, &image);
    Ok((image, file))
}

/// Returns the first header of a block in some bytes, and the length of its block.
fn first_header(bytes: &[u8]) -> Option<(usize, u64)> {
    let magic = MAGIC.to_le_bytes();
    memchr::memmem::find_iter(bytes, &magic).find_map(|place| {
        let header = Header::from_bytes(bytes.get(place..)?).ok()?;
        Some((place, header.size() as u64))
    })
}

/// Returns an image from its file name alone, which ends in a process id and a time.
fn named_image(path: &Path) -> Image {
    let mut image = Image::default();
    let whole = stem(path);
    let name = whole.file_name().unwrap_or_default().to_string_lossy();
    if let Some(pid) = name.rsplit('-').nth(1) {
        image.fields.set(key::PID, pid);
    }
    image
}

fn read_ring(path: &Path) -> Result<Ring, Damage> {
    let mut bytes = Vec::new();
    let read = StoredFile::open(path).and_then(|file| file.reader(0).read_to_end(&mut bytes));
    read.map_err(|_| Damage::Broken("cannot read the file"))?;
    Ring::parse(&bytes)
}

/// Returns the host of each image. All images of one boot share one offset to Unix time, that of the earliest known
/// time, so that a step of the wall clock does not move them relative to each other.
fn hosts(opened: &[OpenedImage], catalog: &Catalog) -> Vec<u32> {
    let key_of = |fields: &Fields| {
        (fields.get(key::HOST).unwrap_or("unknown").to_string(), fields.get(key::BOOT_ID).map(str::to_string))
    };
    let mut boots: HashMap<_, Vec<&OpenedImage>> = HashMap::new();
    for image in opened {
        boots.entry(key_of(&image.image.fields)).or_default().push(image);
    }
    // Once per boot, not once per image: there may be thousands of both, and hosts are numbered in order of appearance.
    let mut numbers = HashMap::new();
    let number = |image: &OpenedImage| {
        let key = key_of(&image.image.fields);
        *numbers.entry(key.clone()).or_insert_with(|| catalog.host(host(key.0.clone(), key.1.clone(), &boots[&key])))
    };
    opened.iter().map(number).collect()
}

fn host(name: String, boot_id: Option<String>, images: &[&OpenedImage]) -> Host {
    let earliest =
        |image: &&&OpenedImage| image.image.anchors.iter().map(|anchor| anchor.boot_ns).min().unwrap_or(u64::MAX);
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
    held: Option<StoredFile>,
    proc: u32,
    clock: Clock,
    offset: i64,
    /// Strings found in a ring, and blocks of strings.
    names: Names,
    name_blocks: Vec<EventBlock>,
    resolver: OnceLock<Resolver>,
    /// A resolver without files, for queries that need none: most strings are paths.
    fileless: OnceLock<Resolver>,
    blocks: Vec<EventBlock>,
    leftovers: Vec<Leftover>,
    /// Blocks and ring contents by stream and sequence.
    order: OnceLock<BTreeMap<(u32, u32), usize>>,
    open_spans: Vec<OpenSpan>,
    tally: Option<Tallied>,
    totals: Option<Tallied>,
    last_tick: u64,
}

/// The stream of the segment that is created with a ring.
const FIRST_STREAM: u32 = 0;

impl NativeSource {
    fn new(opened: OpenedImage, host: u32, offset: i64, catalog: &Catalog) -> NativeSource {
        let OpenedImage { path, image, clock, held, .. } = opened;
        NativeSource {
            proc: catalog.add_process(process(&image, &path, host, &clock, offset)),
            clock,
            offset,
            last_tick: image.last_tick(),
            path,
            held,
            names: image.names,
            name_blocks: image.name_blocks,
            resolver: OnceLock::new(),
            fileless: OnceLock::new(),
            blocks: image.blocks,
            leftovers: image.leftovers,
            order: OnceLock::new(),
            open_spans: image.open_spans,
            tally: image.tally,
            totals: image.totals,
        }
    }

    fn unix_ns(&self, ticks: u64) -> i64 {
        (self.clock.boot_ns(ticks) as i64).wrapping_add(self.offset)
    }

    /// Returns the resolver, with the strings of the process.
    fn resolver(&self, catalog: &Catalog) -> &Resolver {
        self.resolver.get_or_init(|| self.learned(|resolver, names| resolver.learn(names, 0, catalog)))
    }

    /// Returns the resolver for the requested columns of some events.
    fn resolver_for(&self, wanted: Wanted, catalog: &Catalog) -> &Resolver {
        match self.resolver.get() {
            Some(resolver) => resolver,
            None if wanted.args || wanted.columns.has(Columns::FILE) => self.resolver(catalog),
            None => self.fileless.get_or_init(|| self.learned(|resolver, names| resolver.learn_texts(names, 0))),
        }
    }

    fn learned(&self, learn_from: impl FnOnce(&mut Resolver, &Names)) -> Resolver {
        let mut names = self.names.clone();
        let store = self.held.clone().map_or_else(|| FileStore::open(&self.path), FileStore::of);
        if let Ok(store) = store {
            let mut opener = Opener::default();
            // Their checksums were verified when the file was opened; a string that has been lost since then has no
            // name.
            self.name_blocks.iter().for_each(|block| drop(learn(&mut names, block, &store, &mut opener)));
        }
        let mut resolver = Resolver::new(self.proc, self.clock.clone(), self.offset);
        learn_from(&mut resolver, &names);
        resolver
    }

    /// Loads a block and decodes the requested columns, chosen once its operations are known, into the reader's
    /// scratch.
    fn decode(
        &self,
        block: &EventBlock,
        reader: &mut Reader,
        ask: impl FnOnce(&[u16]) -> ColumnSet,
    ) -> Result<(), Damage> {
        let file = self.held.clone().map_or_else(|| reader.files.get(&self.path), Ok);
        let file = file.map_err(|_| Damage::Broken("the file can no longer be opened"))?;
        let scratch = &mut reader.native;
        scratch.bytes.resize(block.header.size(), 0);
        file.read_exact_at(&mut scratch.bytes, block.offset as u64).map_err(|_| Damage::Cut)?;
        decode_some(&block.header, &scratch.bytes, &mut scratch.opener, &mut scratch.events, ask)
    }

    fn read_block(&self, index: usize, reader: &mut Reader, catalog: &Catalog, wanted: Wanted) -> Result<(), Damage> {
        let block = &self.blocks[index];
        let resolver = self.resolver_for(wanted, catalog);
        let carried = if resolver.wants_carried(wanted) { self.carried_into(index, reader) } else { Vec::new() };
        self.decode(block, reader, |ops| resolve::needed_columns(ops, wanted))?;
        let events = std::mem::take(&mut reader.native.events);
        resolver.fill(block.header.tid, &events, carried, reader.split(), catalog, wanted);
        reader.native.events = events;
        Ok(())
    }

    /// Returns metadata at the end of the previous piece that belong to the first span of this one.
    fn carried_into(&self, index: usize, reader: &mut Reader) -> Vec<Meta> {
        let Some(before) = self.piece_before(index) else { return Vec::new() };
        let events = match before.checked_sub(self.blocks.len()) {
            Some(leftover) => &self.leftovers[leftover].events,
            None if self.decode(&self.blocks[before], reader, |_| ColumnSet::ALL).is_ok() => &reader.native.events,
            None => return Vec::new(),
        };
        let trailing = (0..events.len()).rev().take_while(|&i| events.op[i] == Op::META.0).count();
        (events.len() - trailing..events.len()).map(|i| Meta::of(events, i)).collect()
    }

    /// Returns the previous piece of a thread: of the same stream, or of the small segment in which the first thread of
    /// a process starts before it switches to a large one.
    fn piece_before(&self, index: usize) -> Option<usize> {
        let order = self.order.get_or_init(|| {
            let pieces = 0..self.blocks.len() + self.leftovers.len();
            pieces.map(|index| (self.place_of(index).0, index)).collect()
        });
        let ((stream, sequence), tid) = self.place_of(index);
        let at = |before| sequence.checked_sub(before).and_then(|sequence| order.get(&(stream, sequence)));
        let before = match (stream, sequence) {
            // The halves of a small segment follow each other if there was no memory for a large one.
            (FIRST_STREAM, _) => at(1).or_else(|| at(2)),
            (_, 0) => order.range((FIRST_STREAM, 0)..(FIRST_STREAM + 1, 0)).next_back().map(|(_, index)| index),
            _ => at(1),
        };
        before.copied().filter(|&before| self.place_of(before).1 == tid)
    }

    /// Returns stream and sequence of a piece, and its thread.
    fn place_of(&self, index: usize) -> ((u32, u32), u32) {
        match index.checked_sub(self.blocks.len()).map(|leftover| &self.leftovers[leftover]) {
            Some(leftover) => ((leftover.stream, leftover.sequence), leftover.tid),
            None => {
                let header = &self.blocks[index].header;
                ((header.stream, header.sequence), header.tid)
            }
        }
    }
}

impl Source for NativeSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn tally(&self, catalog: &Catalog) -> Option<ProcessTally> {
        self.tally.as_ref().map(|tallied| ProcessTally::new(tallied, self.resolver(catalog), catalog))
    }

    fn totals(&self, catalog: &Catalog) -> Option<ProcessTally> {
        self.totals.as_ref().map(|tallied| ProcessTally::new(tallied, self.resolver(catalog), catalog))
    }

    fn start(&self) -> Option<i64> {
        let counted = self.tally.iter().flat_map(|tally| tally.rows.iter().map(|row| row.first));
        let blocks = self.blocks.iter().map(|block| block.header.first).chain(counted);
        let leftovers = self.leftovers.iter().filter_map(|leftover| leftover.events.start.iter().min().copied());
        let spans = self.open_spans.iter().map(|span| span.start);
        blocks.chain(leftovers).chain(spans).min().map(|tick| self.unix_ns(tick))
    }

    /// A process that recorded nothing still has a start time.
    fn knows_processes(&self) -> bool {
        true
    }

    fn knows_events(&self) -> bool {
        true
    }

    fn processes(&self) -> Option<Vec<u32>> {
        Some(vec![self.proc])
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        let unit = |index: usize, earliest: Option<u64>, last: u64, events: usize, size: usize| Unit {
            first_start: earliest.map_or(i64::MIN, |tick| self.unix_ns(tick)),
            last_end: self.unix_ns(last),
            proc: Some(self.proc),
            ..Unit::new(source, index as u32, events as u64, size as u64)
        };
        let of_block = |(index, block): (usize, &EventBlock)| {
            let header = &block.header;
            unit(index, header.earliest(), header.last, header.count as usize, header.size())
        };
        let mut units: Vec<_> = self.blocks.iter().enumerate().map(of_block).collect();
        for (index, Leftover { events, .. }) in (self.blocks.len()..).zip(&self.leftovers) {
            let ends = events.start.iter().zip(&events.duration).map(|(s, d)| s.wrapping_add(*d));
            let earliest = events.start.iter().min().copied();
            units.push(unit(index, earliest, ends.max().unwrap_or(0), events.len(), 0));
        }
        if let Some(earliest) = self.open_spans.iter().map(|span| span.start).min() {
            let index = self.blocks.len() + self.leftovers.len();
            units.push(unit(index, Some(earliest), self.last_tick, self.open_spans.len(), 0));
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
            let resolver = self.resolver(catalog);
            let carried = if resolver.wants_carried(wanted) { self.carried_into(index, reader) } else { Vec::new() };
            resolver.fill(leftover.tid, &leftover.events, carried, reader.split(), catalog, wanted);
        } else {
            let (resolver, end) = (self.resolver(catalog), self.unix_ns(self.last_tick));
            self.open_spans.iter().for_each(|span| take(&mut resolver.open_span(span, end, catalog, wanted)));
            return Ok(());
        }
        take(&mut reader.batch);
        Ok(())
    }
}

fn process(image: &Image, path: &Path, host: u32, clock: &Clock, offset: i64) -> Process {
    let last = clock.boot_ns(image.last_tick()) as i64;
    Process {
        lost: image.lost_in_all(),
        filtered: image.filtered,
        names_lost: image.names_lost,
        misused_spans: image.misused_spans,
        clock_offset_ns: (!image.anchors.is_empty()).then_some(clock.real_offset_ns),
        profile: None,
        recorder: recorder(image, offset),
        ..process_of(&image.fields, path, host, offset, Some(last).filter(|_| image.events() > 0))
    }
}

/// Returns what a flight recorder kept; `None` for other processes.
fn recorder(image: &Image, offset: i64) -> Option<Recorder> {
    let number = |key| image.fields.number::<i64>(key);
    let uncounted =
        if image.has_ended() { 0 } else { image.leftovers.iter().map(|left| left.events.len() as u64).sum() };
    image.keeps_last().then(|| Recorder {
        kept_from: number(key::KEPT_FROM_BOOT_NS).map(|boot_ns| boot_ns.wrapping_add(offset)),
        dropped: image.fields.number(key::DROPPED).unwrap_or(0),
        uncounted,
    })
}

/// Returns a process as described by its facts. `last` is the last boot time at which anything is known about it.
pub fn process_of(fields: &Fields, path: &Path, host: u32, offset: i64, last: Option<i64>) -> Process {
    let unix = |boot_ns: i64| boot_ns.wrapping_add(offset);
    let text = |key| fields.get(key).map(str::to_string);
    Process {
        host,
        pid: fields.number(key::PID).unwrap_or(0),
        ppid: fields.number(key::PPID),
        rank: fields.number(key::RANK),
        run: text(key::RUN).or_else(|| text(key::CONVERTER)),
        job: text(key::JOB),
        program: text(key::PROGRAM),
        command: fields.get(key::COMMAND).map(|arguments| command_line(&masked_text(arguments))),
        cwd: text(key::CWD),
        start_ts: fields.number(key::START_BOOT_NS).map(unix),
        end_ts: fields.number(key::END_BOOT_NS).or(last).map(unix),
        ended: ending(fields).to_string(),
        lost: fields.number(key::LOST).unwrap_or(0),
        aggregated: 0,
        filtered: fields.number(key::FILTERED).unwrap_or(0),
        names_lost: fields.number(key::NAMES_LOST).unwrap_or(0),
        misused_spans: fields.number(key::MISUSED_SPANS).unwrap_or(0),
        tracer_ns: fields.number(key::TRACER_NS),
        by_ptrace: fields.get(key::RECORDED_BY) == Some("ptrace"),
        clock_offset_ns: None,
        source: path.display().to_string(),
        threads: threads(fields),
        resources: Resources::of(fields),
        profile: None,
        recorder: None,
    }
}

/// Returns arguments in the syntax of a shell.
fn command_line(arguments: &str) -> String {
    arguments.trim_end_matches('\0').split('\0').map(shell_word).collect::<Vec<_>>().join(" ")
}

fn threads(fields: &Fields) -> Vec<(i32, String)> {
    let pairs = fields.get(key::THREADS).unwrap_or_default().split('\0').filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(tid, name)| Some((tid.parse().ok()?, name.to_string()))).collect()
}

/// Returns how a process ended. One without a recorded end was killed, unless it is still running.
fn ending(fields: &Fields) -> Ending {
    match fields.ending() {
        Ending::Killed if is_running(fields) => Ending::Running,
        ending => ending,
    }
}

/// The maximum difference between a process's start times in the kernel and in its trace: the kernel counts hundredths
/// of a second.
const START_SLACK_NS: u64 = 50_000_000;

/// Returns `true` if the process ran on this host during its current boot.
pub fn is_here(fields: &Fields) -> bool {
    static HERE: LazyLock<String> =
        LazyLock::new(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default());
    fields.get(key::BOOT_ID) == Some(HERE.trim())
}

/// Returns `true` if a process is running on this host; for another host that is unknown. A running process with its
/// pid is the same one if the kernel started it before its image.
pub fn is_running(fields: &Fields) -> bool {
    if !is_here(fields) {
        return false;
    }
    let start = fields.number::<i32>(key::PID).and_then(start_boot_ns);
    let ours = fields.number::<u64>(key::START_BOOT_NS).max(fields.number(key::IMAGE));
    start.zip(ours).is_some_and(|(kernel, ours)| kernel <= ours.saturating_add(START_SLACK_NS))
}

/// Returns the kernel's start time of a living process.
fn start_boot_ns(pid: i32) -> Option<u64> {
    let stat = ProcessStat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?;
    stat.lives().then_some(stat.start_boot_ns)
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
