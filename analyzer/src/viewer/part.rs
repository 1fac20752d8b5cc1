//! Process images as they are read for a picture: their facts, and their events as often as they are asked for.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use dlio_schemas::clock::Clock;
use dlio_schemas::native::block::Opener;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::{Fields, key};
use dlio_schemas::native::file::{Image, decode};
use dlio_schemas::native::names::Names;
use dlio_schemas::native::ring::{OpenSpan, Ring};
use dlio_schemas::perfetto::read::{Batch, Reader};
use dlio_schemas::perfetto::select::{self, Selection};
use dlio_schemas::perfetto::write::complete_fields;

use crate::filter::Filter;
use crate::load::inputs::{Found, NativeFiles};
use crate::scan::Progress;

/// One process image, ready to be written.
pub(super) struct Part {
    pub(super) fields: Fields,
    pub(super) names: Names,
    pub(super) clock: Clock,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    pub(super) last_tick: u64,
    pub(super) open_spans: Vec<OpenSpan>,
    /// Events recorded, before any filter.
    pub(super) recorded: u64,
    events: Held,
}

/// Where a part's events are.
enum Held {
    /// In blocks, decoded when they are needed.
    Native(Box<Image>, Vec<u8>),
    /// In batches of threads, as a trace for viewers gave them.
    Batches(Vec<(u32, Events)>),
}

/// All processes that the filter asks for.
pub(super) fn parts(found: &Found, filter: &Filter) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    for files in &found.natives {
        match (native(files)?, &files.export) {
            (Some(part), _) => parts.push(part),
            // What was exported before stands in for a trace that cannot be read.
            (None, Some(export)) => parts.extend(perfetto(export)?),
            (None, None) => (),
        }
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
        recorded: image.events(),
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
        let ends = batches
            .iter()
            .flat_map(|(_, e)| e.start.iter().zip(&e.duration).map(|(s, length)| s.saturating_add(*length)));
        let (first, last_tick) = (starts.min().unwrap_or(0), ends.max().unwrap_or(0));
        let found = &reader.processes[process];
        found.ours.then(|| Part {
            fields: found.fields.clone(),
            names: reader.names.clone(),
            recorded: batches.iter().map(|(_, events)| events.len() as u64).sum(),
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

/// What is done with a batch of one thread.
type Take<'t> = &'t mut dyn FnMut(u32, &Events) -> io::Result<()>;

impl Part {
    /// Names the boot of a machine.
    pub(super) fn host(&self) -> (Option<&str>, Option<&str>) {
        (self.fields.get(key::HOST), self.fields.get(key::BOOT_ID))
    }

    /// Hands on all events, a batch of one thread at a time. A block that is damaged has been noted already.
    fn each(&self, take: Take) -> io::Result<()> {
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

    /// Spans that never ended, as far as they are asked for: they reach to the end of the run.
    pub(super) fn open_selected(&self, filter: &Filter) -> Vec<OpenSpan> {
        let own = self.filter(filter);
        let ends_in = self.last_ns >= own.from_ns;
        let asked_for = |span: &&OpenSpan| {
            let begin = self.clock.boot_ns(span.start);
            let category = self.names.text(span.category).unwrap_or("app".into());
            let named = filter.cats.is_empty() || filter.cats.iter().any(|cat| cat.eq_ignore_ascii_case(&category));
            named && ends_in && begin < own.to_ns && self.last_ns.saturating_sub(begin) >= own.min_dur_ns
        };
        self.open_spans.iter().filter(asked_for).cloned().collect()
    }

    /// As [`Part::each`], only what passes the filter, in nanoseconds.
    pub(super) fn each_selected(&self, filter: &Filter, progress: &Progress, take: Take) -> io::Result<()> {
        let own = self.filter(filter);
        let matches = |path: &[u8]| filter.files.iter().any(|glob| glob.matches(&String::from_utf8_lossy(path)));
        let file = |path: &[u8]| filter.files.is_empty() || matches(path);
        let mut selection = Selection::new(&own, &file);
        let mut selected = Events::default();
        self.each(&mut |tid, events| {
            selection.select(tid, events, &self.clock, &self.names, &mut selected);
            progress.events.fetch_add(events.len() as u64, Ordering::Relaxed);
            take(tid, &selected)
        })
    }
}
