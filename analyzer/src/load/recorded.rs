//! dlio's own traces as they were recorded, to be written again: facts, strings and events of each process, with its
//! own numbers and clock.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use dlio_schemas::clock::Clock;
use dlio_schemas::export::complete_fields;
use dlio_schemas::native::Damage;
use dlio_schemas::native::block::Opener;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::{Fields, key};
use dlio_schemas::native::file::{Image, decode_block, learn};
use dlio_schemas::native::names::Names;
use dlio_schemas::native::ring::OpenSpan;
use dlio_schemas::perfetto::read;

use super::bytes::file_bytes::{Bytes, FileStore};
use super::bytes::trace_file::StoredFile;
use super::formats::perfetto;
use super::inputs::{self, InputFiles};
use super::native::index::Index;
use super::native::reader::{self, OpenedImage};
use super::sources::duplicates::Duplicates;

/// Bytes of a trace for viewers read at a time.
const WINDOW: usize = 1 << 20;

/// One process image.
pub struct Recorded {
    pub fields: Fields,
    pub names: Names,
    pub clock: Clock,
    pub first_ns: u64,
    pub last_ns: u64,
    pub last_tick: u64,
    pub open_spans: Vec<OpenSpan>,
    /// The number of events.
    pub count: u64,
    events: RecordedEvents,
}

/// The location of the events.
enum RecordedEvents {
    /// In blocks of a file, decoded when they are needed.
    Blocks(PathBuf, Box<Image>),
    /// In batches of threads, from a trace for viewers.
    Batches(Vec<(u32, Events)>),
}

/// Returns all processes that were found, each once. Damage is noted when the trace is read for its numbers.
pub fn all(found: &InputFiles, threads: usize) -> io::Result<Vec<Recorded>> {
    let look = reader::OpenMode { again: inputs::find_successors, index: &Index::default() };
    let images = reader::open_images(&found.natives, threads, look);
    let mut duplicates = Duplicates::default();
    images.opened.iter().for_each(|opened| duplicates.add_image(&opened.image.fields, &opened.path));
    let mut all = Vec::new();
    for opened in images.opened {
        all.extend(of_image(opened)?);
    }
    for (path, _) in found.others.iter().chain(&images.stand_ins).filter(|(_, format)| **format == perfetto::FORMAT) {
        all.extend(of_perfetto(path, &mut duplicates)?);
    }
    Ok(all)
}

/// Returns `None` if it has no events, or no clock to order them by.
fn of_image(opened: OpenedImage) -> io::Result<Option<Recorded>> {
    let OpenedImage { path, mut image, .. } = opened;
    let Some(clock) = image.clock().filter(|_| image.events() > 0) else { return Ok(None) };
    let mut names = std::mem::take(&mut image.names);
    if !image.name_blocks.is_empty() {
        let (store, mut opener) = (FileStore::open(&path)?, Opener::default());
        // Their checksums were verified when the file was opened; a string that has been lost since then has no name.
        image.name_blocks.iter().for_each(|block| drop(learn(&mut names, block, &store, &mut opener)));
    }
    let last_tick = image.last_tick();
    Ok(Some(Recorded {
        fields: complete_fields(&image),
        names,
        count: image.events(),
        first_ns: image.anchors.iter().map(|anchor| anchor.boot_ns).min().unwrap_or(0),
        last_ns: clock.boot_ns(last_tick),
        last_tick,
        open_spans: std::mem::take(&mut image.open_spans),
        clock,
        events: RecordedEvents::Blocks(path, Box::new(image)),
    }))
}

fn of_perfetto(path: &Path, duplicates: &mut Duplicates) -> io::Result<Vec<Recorded>> {
    let broken = |damage| io::Error::other(format!("{}: {damage}", path.display()));
    let (traces, _) = perfetto::traces_in(path).map_err(broken)?;
    let mut all = Vec::new();
    for bytes in traces {
        all.extend(of_bytes(&bytes, path, duplicates).map_err(broken)?);
    }
    Ok(all)
}

fn of_bytes(bytes: &Bytes, path: &Path, duplicates: &mut Duplicates) -> Result<Vec<Recorded>, Damage> {
    let mut reader = read::Reader::default();
    let mut batches: BTreeMap<usize, Vec<(u32, Events)>> = BTreeMap::new();
    let mut keep =
        |batch: read::Batch| batches.entry(batch.process).or_default().push((batch.tid, batch.events.clone()));
    let (mut window, mut at) = (Vec::new(), 0);
    while at < bytes.size() {
        let held = window.len();
        let more = WINDOW.max(held).min(bytes.size() - at);
        window.resize(held + more, 0);
        bytes.load(at, &mut window[held..])?;
        at += more;
        let used = reader.read(&window, &mut keep);
        window.drain(..used);
    }
    reader.finish(&mut keep);
    batches.retain(|process, _| {
        let process = &reader.processes[*process];
        process.ours && !duplicates.skips_image(process.uuid, path)
    });
    Ok(batches.into_iter().map(|(process, batches)| of_batches(&reader, process, batches)).collect())
}

fn of_batches(reader: &read::Reader, process: usize, batches: Vec<(u32, Events)>) -> Recorded {
    let clock = reader.clock(process);
    let starts = batches.iter().flat_map(|(_, events)| events.start.iter().copied());
    let ends =
        batches.iter().flat_map(|(_, e)| e.start.iter().zip(&e.duration).map(|(s, length)| s.saturating_add(*length)));
    let (first, last_tick) = (starts.min().unwrap_or(0), ends.max().unwrap_or(0));
    let found = &reader.processes[process];
    Recorded {
        fields: found.fields.clone(),
        names: reader.names.clone(),
        count: batches.iter().map(|(_, events)| events.len() as u64).sum(),
        first_ns: clock.boot_ns(first),
        last_ns: clock.boot_ns(last_tick),
        last_tick,
        open_spans: found.open_spans.clone(),
        clock,
        events: RecordedEvents::Batches(batches),
    }
}

impl Recorded {
    /// Returns the names of the host and its boot.
    pub fn host(&self) -> (Option<&str>, Option<&str>) {
        (self.fields.get(key::HOST), self.fields.get(key::BOOT_ID))
    }

    /// Passes on all events, a batch of one thread at a time. Damaged blocks have been noted already.
    pub fn each(&self, take: &mut dyn FnMut(u32, &Events) -> io::Result<()>) -> io::Result<()> {
        match &self.events {
            RecordedEvents::Batches(batches) => batches.iter().try_for_each(|(tid, events)| take(*tid, events)),
            RecordedEvents::Blocks(path, image) => {
                let file = if image.blocks.is_empty() { None } else { Some(StoredFile::open(path)?) };
                let (mut opener, mut events, mut bytes) = (Opener::default(), Events::default(), Vec::new());
                for (block, file) in image.blocks.iter().zip(file.iter().cycle()) {
                    bytes.resize(block.header.size(), 0);
                    file.read_exact_at(&mut bytes, block.offset as u64)?;
                    if decode_block(&block.header, &bytes, &mut opener, &mut events).is_ok() {
                        take(block.header.tid, &events)?;
                    }
                }
                image.leftovers.iter().try_for_each(|left| take(left.tid, &left.events))
            }
        }
    }
}
