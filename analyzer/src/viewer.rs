//! Traces for viewers: our own traces once more, filtered, all processes in one file on one clock.
//!
//! A browser bears about a million slices. What is asked for beyond that becomes an overview, in which runs of short calls
//! are one slice, and says so; `all` writes every event whatever their number. Traces of other tools are not written: what
//! they hold beyond our tables would be lost on the way.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use dlio_schemas::chrome;
use dlio_schemas::clock::Clock;
use dlio_schemas::native::block::Opener;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::{Fields, key};
use dlio_schemas::native::file::{Image, decode};
use dlio_schemas::native::names::Names;
use dlio_schemas::native::ring::{OpenSpan, Ring};
use dlio_schemas::perfetto::pack::Compression;
use dlio_schemas::perfetto::read::{Batch, Reader};
use dlio_schemas::perfetto::select::{self, Coarseness, Lengths, Overview, OverviewNames, Selection};
use dlio_schemas::perfetto::write::{self, Summary, complete_fields};

use crate::filter::Filter;
use crate::load::inputs::{Found, NativeFiles};

/// What is written.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    Perfetto(Compression),
    Chrome { gzip: bool },
    Dftracer { gzip: bool },
}

/// What came of it.
#[derive(Debug)]
pub struct Written {
    pub events: u64,
    pub processes: usize,
    pub bytes: u64,
    /// What the trace says of itself where it is an overview.
    pub overview: Option<String>,
}

/// One process image, ready to be written.
struct Part {
    fields: Fields,
    names: Names,
    clock: Clock,
    first_ns: u64,
    last_ns: u64,
    last_tick: u64,
    open_spans: Vec<OpenSpan>,
    events: Held,
}

/// Where a part's events are.
enum Held {
    /// In blocks, decoded when they are needed.
    Native(Box<Image>, Vec<u8>),
    /// In batches of threads, as a trace for viewers gave them.
    Batches(Vec<(u32, Events)>),
}

/// Writes what passes the filter to a new file. `None` where nothing does.
pub fn export(found: &Found, filter: &Filter, form: Form, all: bool, path: &Path) -> io::Result<Option<Written>> {
    let mut parts = parts(found, filter)?;
    let lengths = lengths(&parts, filter)?;
    if lengths.total() == 0 {
        return Ok(None);
    }
    let coarseness = if all { None } else { coarseness(&parts, &lengths) };
    let mut file = BufWriter::new(File::create(path)?);
    let mut bytes = 0;
    let mut sink = |piece: &[u8]| {
        bytes += piece.len() as u64;
        file.write_all(piece)
    };
    let written = match form {
        Form::Perfetto(compression) => {
            let options = options(&parts, compression);
            let writer = write::Writer::new(&mut sink, &options)?;
            write_parts(Box::new(Perfetto(writer, None)), &mut parts, filter, coarseness)?
        }
        Form::Chrome { gzip } | Form::Dftracer { gzip } => {
            let form = if matches!(form, Form::Chrome { .. }) { chrome::Form::Chrome } else { chrome::Form::Dftracer };
            let zero_unix_ns = parts.iter().map(|part| part.clock.real_offset_ns).min();
            let writer = chrome::Writer::new(&mut sink, &chrome::Options { form, gzip, zero_unix_ns })?;
            write_parts(Box::new(Chrome(writer, None)), &mut parts, filter, coarseness)?
        }
    };
    file.flush()?;
    let overview = coarseness.map(|coarseness| coarseness.remark());
    Ok(Some(Written { events: written.events, processes: parts.len(), bytes, overview }))
}

// ---- reading --------------------------------------------------------------------------------------------------------

fn parts(found: &Found, filter: &Filter) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    for files in &found.natives {
        parts.extend(native(files)?);
    }
    for path in &found.perfettos {
        parts.extend(perfetto(path)?);
    }
    parts.retain(|part| asked_for(&part.fields, filter));
    Ok(parts)
}

fn asked_for(fields: &Fields, filter: &Filter) -> bool {
    let among = |wanted: &[i32], key| wanted.is_empty() || fields.number(key).is_some_and(|own| wanted.contains(&own));
    among(&filter.pids, key::PID) && among(&filter.ranks, key::RANK)
}

/// An image that cannot be used has been noted when the trace was opened.
fn native(files: &NativeFiles) -> io::Result<Option<Part>> {
    let bytes = files.dlt.as_ref().map(std::fs::read).transpose()?.unwrap_or_default();
    let mut image = Image::from_dlt(&bytes).unwrap_or_default();
    if let Some(Ok(ring)) = files.ring.as_ref().map(std::fs::read).transpose()?.map(|bytes| Ring::parse(&bytes)) {
        image.add_ring(&ring);
    }
    let Some(clock) = image.clock().filter(|_| image.events() > 0) else { return Ok(None) };
    let last_tick = image.last_tick();
    Ok(Some(Part {
        fields: complete_fields(&image),
        names: std::mem::take(&mut image.names),
        first_ns: image.anchors.iter().map(|anchor| anchor.boot_ns).min().unwrap_or(0),
        last_ns: clock.boot_ns(last_tick),
        last_tick,
        open_spans: std::mem::take(&mut image.open_spans),
        clock,
        events: Held::Native(Box::new(image), bytes),
    }))
}

fn perfetto(path: &PathBuf) -> io::Result<Vec<Part>> {
    let bytes = std::fs::read(path)?;
    let mut reader = Reader::default();
    let mut batches: BTreeMap<usize, Vec<(u32, Events)>> = BTreeMap::new();
    let mut keep = |batch: Batch| batches.entry(batch.process).or_default().push((batch.tid, batch.events.clone()));
    reader.read(&bytes, &mut keep);
    reader.finish(&mut keep);
    let part = |(process, batches): (usize, Vec<(u32, Events)>)| {
        let clock = reader.clock(process);
        let starts = batches.iter().flat_map(|(_, events)| events.start.iter().copied());
        let ends =
            batches.iter().flat_map(|(_, e)| e.start.iter().zip(&e.duration).map(|(start, length)| start + length));
        let (first, last_tick) = (starts.min().unwrap_or(0), ends.max().unwrap_or(0));
        let found = &reader.processes[process];
        found.ours.then(|| Part {
            fields: found.fields.clone(),
            names: reader.names.clone(),
            first_ns: clock.boot_ns(first),
            last_ns: clock.boot_ns(last_tick),
            last_tick,
            open_spans: found.open_spans.clone(),
            clock,
            events: Held::Batches(batches),
        })
    };
    Ok(batches.into_iter().filter_map(part).collect())
}

impl Part {
    /// Hands on all events, a batch of one thread at a time. A block that is damaged has been noted already.
    fn each(&self, take: &mut dyn FnMut(u32, &Events) -> io::Result<()>) -> io::Result<()> {
        match &self.events {
            Held::Batches(batches) => batches.iter().try_for_each(|(tid, events)| take(*tid, events)),
            Held::Native(image, bytes) => {
                let (mut opener, mut events) = (Opener::new()?, Events::default());
                for block in &image.blocks {
                    if decode(block, bytes, &mut opener, &mut events).is_ok() {
                        take(block.header.tid, &events)?;
                    }
                }
                image.leftovers.iter().try_for_each(|left| take(left.tid, &left.events))
            }
        }
    }

    /// The filter in this process's own time.
    fn filter(&self, filter: &Filter) -> select::Filter {
        let boot = |unix: i64| unix.saturating_sub(self.clock.real_offset_ns).max(0) as u64;
        select::Filter {
            from_ns: filter.from.map_or(0, boot),
            to_ns: filter.to.map_or(u64::MAX, boot),
            min_dur_ns: filter.min_dur_ns.max(0) as u64,
            categories: filter.cats.clone(),
        }
    }

    /// As [`Part::each`], only what passes the filter, in nanoseconds.
    fn each_selected(&self, filter: &Filter, take: &mut dyn FnMut(u32, &Events) -> io::Result<()>) -> io::Result<()> {
        let own = self.filter(filter);
        let file = |path: &[u8]| {
            filter.files.is_empty() || filter.files.iter().any(|glob| glob.matches(&String::from_utf8_lossy(path)))
        };
        let mut selection = Selection::new(&own, &file);
        let mut selected = Events::default();
        self.each(&mut |tid, events| {
            selection.select(tid, events, &self.clock, &self.names, &mut selected);
            take(tid, &selected)
        })
    }
}

// ---- writing --------------------------------------------------------------------------------------------------------

fn lengths(parts: &[Part], filter: &Filter) -> io::Result<Lengths> {
    let mut lengths = Lengths::default();
    for part in parts {
        part.each_selected(filter, &mut |_, events| {
            events.duration.iter().for_each(|&duration| lengths.add(duration));
            Ok(())
        })?;
    }
    Ok(lengths)
}

fn coarseness(parts: &[Part], lengths: &Lengths) -> Option<Coarseness> {
    let first = parts.iter().map(|part| part.first_ns).min().unwrap_or(0);
    let last = parts.iter().map(|part| part.last_ns).max().unwrap_or(0);
    // Every process has at least one thread; more of them make the overview finer than it need be, not coarser.
    Coarseness::choose(lengths, parts.len() as u64, last.saturating_sub(first), select::EVENTS_MAX)
}

fn options(parts: &[Part], compression: Compression) -> write::Options {
    let hosts = |part: &Part| part.fields.get(key::BOOT_ID).map(str::to_string);
    let several = parts.iter().any(|part| hosts(part) != hosts(&parts[0]));
    let offset = parts.iter().map(|part| part.clock.real_offset_ns).min().filter(|_| several);
    let shifted = |part: &Part, ns: u64| match offset {
        Some(offset) => ns.saturating_add_signed(part.clock.real_offset_ns - offset),
        None => ns,
    };
    let first = parts.iter().map(|part| shifted(part, part.first_ns)).min().unwrap_or(0);
    let last = parts.iter().map(|part| shifted(part, part.last_ns)).max().unwrap_or(0);
    write::Options { compression, unix_offset_ns: offset, total: Some((first, last)), ..Default::default() }
}

/// What both writers can do.
trait Picture {
    fn process(&mut self, part: &Part, clock: &Clock, remark: Option<&str>) -> io::Result<()>;
    fn batch(&mut self, tid: u32, events: &Events, clock: &Clock, names: &Names) -> io::Result<()>;
    fn open_spans(&mut self, part: &Part) -> io::Result<()>;
    fn finish(self: Box<Self>) -> io::Result<Summary>;
}

struct Perfetto<'a>(write::Writer<'a>, Option<write::ProcessId>);
struct Chrome<'a>(chrome::Writer<'a>, Option<chrome::ProcessId>);

fn write_parts(
    mut picture: Box<dyn Picture + '_>,
    parts: &mut [Part],
    filter: &Filter,
    coarseness: Option<Coarseness>,
) -> io::Result<Summary> {
    let remark = coarseness.map(|coarseness| coarseness.remark());
    for part in parts.iter_mut() {
        let clock = Clock::nanoseconds(part.clock.real_offset_ns);
        picture.process(part, &clock, remark.as_deref())?;
        match coarseness {
            None => part.each_selected(filter, &mut |tid, events| picture.batch(tid, events, &clock, &part.names))?,
            Some(coarseness) => write_overview(&mut *picture, part, filter, coarseness, &clock)?,
        }
        picture.open_spans(part)?;
    }
    picture.finish()
}

fn write_overview(
    picture: &mut dyn Picture,
    part: &mut Part,
    filter: &Filter,
    coarseness: Coarseness,
    clock: &Clock,
) -> io::Result<()> {
    let mut names = part.names.clone();
    let own = OverviewNames::add(&mut names);
    let mut threads: BTreeMap<u32, Overview> = BTreeMap::new();
    let mut merged = Events::default();
    part.each_selected(filter, &mut |tid, events| {
        merged.clear();
        threads.entry(tid).or_insert_with(|| Overview::new(coarseness, own)).merge(events, &mut merged);
        picture.batch(tid, &merged, clock, &names)
    })?;
    for (tid, mut overview) in threads {
        merged.clear();
        overview.finish(&mut merged);
        picture.batch(tid, &merged, clock, &names)?;
    }
    Ok(())
}

macro_rules! picture {
    ($of:ident, |$self:ident, $part:ident, $clock:ident, $remark:ident| $process:block) => {
        impl Picture for $of<'_> {
            fn process(&mut $self, $part: &Part, $clock: &Clock, $remark: Option<&str>) -> io::Result<()> $process

            fn batch(&mut self, tid: u32, events: &Events, clock: &Clock, names: &Names) -> io::Result<()> {
                let process = self.1.expect("a process is announced before its events");
                if events.is_empty() { Ok(()) } else { self.0.batch(process, tid, events, clock, names) }
            }

            fn open_spans(&mut self, part: &Part) -> io::Result<()> {
                let process = self.1.expect("a process is announced before its spans");
                self.0.open_spans(process, &part.open_spans, part.last_tick, &part.clock, &part.names)
            }

            fn finish(self: Box<Self>) -> io::Result<Summary> {
                self.0.finish()
            }
        }
    };
}

picture!(Perfetto, |self, part, clock, remark| {
    let process = self.0.process(&part.fields, clock, part.first_ns, part.last_ns)?;
    self.1 = Some(process);
    remark.map_or(Ok(()), |remark| self.0.remark(process, remark))
});
picture!(Chrome, |self, part, clock, _remark| {
    self.1 = Some(self.0.process(&part.fields, clock)?);
    Ok(())
});
