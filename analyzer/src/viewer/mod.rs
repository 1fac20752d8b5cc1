//! Traces for viewers: dlio's own traces, filtered, with all processes in one file on one clock.
//!
//! A browser can display about a million slices. Larger exports become an overview, in which runs of short calls are
//! one slice, with a note; `all` writes every event regardless of their number. Traces of other tools are not exported:
//! data that dlio's tables lack would be lost.
//!
//! Reading order: `selection` (which events), `overview` (for too many of them), `profiles` (of PyTorch), `waits` (the waits of trainers),
//! `forms` (the formats), [`serve`] (how a browser opens them).

pub mod forms;
mod overview;
mod profiles;
pub mod request;
mod selection;
pub mod serve;
mod waits;

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::Path;

use dlio_schemas::machine::samples::Samples;
use dlio_schemas::native::fields::key;
use dlio_schemas::ops::Op;

use crate::atomic_file::AtomicFile;
use crate::catalog::Catalog;
use crate::filter::Filter;
use crate::load::companion_files;
use crate::load::inputs::InputFiles;
use crate::load::native::reader::process_of;
use crate::load::recorded::{self, Recorded};
use crate::scan::Progress;
use crate::summary::figures::units::many;
use crate::summary::tree::names;
use crate::summary::waits::trainers::Waits;
use forms::Form;
use overview::{EVENTS_MAX, Lengths, MergeThreshold};
use profiles::Profile;
use waits::PlacedWait;

/// The result of an export.
#[derive(Debug)]
pub struct ExportResult {
    pub events: u64,
    pub processes: usize,
    pub hosts: usize,
    pub bytes: u64,
    /// The note in the trace if it is an overview.
    pub overview: Option<String>,
}

/// The size of an export, before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub events: u64,
    pub bytes: u64,
    pub seconds: u64,
    /// `true` if slices are merged.
    pub is_overview: bool,
}

/// An export: everything that passes a filter, counted and ready to be written.
pub struct Export<'f> {
    processes: Vec<Recorded>,
    filter: &'f Filter,
    events: u64,
    coarseness: Option<MergeThreshold>,
    /// `true` if some of the events may contain who ended waits.
    has_waits: bool,
    waits: Vec<PlacedWait>,
    machines: Vec<Samples>,
    profiles: Vec<Profile>,
}

impl<'f> Export<'f> {
    /// Returns `None` if nothing passes.
    pub fn new(
        found: &InputFiles,
        filter: &'f Filter,
        all: bool,
        threads: usize,
        progress: &Progress,
    ) -> io::Result<Option<Export<'f>>> {
        let mut processes = recorded::all(found, threads)?;
        name(&mut processes);
        processes.retain(|process| selection::asks_for(filter, &process.fields));
        let (lengths, threads, waits) = lengths(&processes, filter, progress)?;
        let has_waits = waits::may_draw(filter) && (waits || processes.iter().any(waits::names_objects));
        let coarseness = if all { None } else { coarseness(&processes, &lengths, threads) };
        let events = lengths.total();
        let (waits, machines) = (Vec::new(), companion_files::samples(&found.machines));
        let profiles = Vec::new();
        let export = Export { processes, filter, events, coarseness, has_waits, waits, machines, profiles };
        Ok((events > 0).then_some(export))
    }

    /// Returns `true` if waits of trainers may be drawn in addition to the events.
    pub fn has_waits(&self) -> bool {
        self.has_waits
    }

    /// Draws these waits in addition to the events.
    pub fn draw(&mut self, waits: &Waits, catalog: &Catalog) {
        self.waits = waits::placed(waits, catalog, &self.processes);
    }

    /// Adds the profiles from torch.profiler among the files; returns why one cannot be placed on the timeline, or a note
    /// on them.
    pub fn add_profiles(&mut self, found: &InputFiles) -> Result<Option<String>, String> {
        self.profiles = profiles::open_all(found, &self.processes)?;
        share_offsets(&mut self.processes);
        let moved: usize = self.profiles.iter().map(Profile::moved).sum();
        Ok((moved > 0).then(|| {
            format!(
                "{} that overlap others of their thread are on further tracks",
                many(moved as u64, "slice", "slices")
            )
        }))
    }

    /// Returns the number of events that will be read again for writing: the total for progress.
    pub fn recorded(&self) -> u64 {
        self.processes.iter().map(|process| process.count).sum()
    }

    pub fn estimate(&self, form: Form) -> Estimate {
        let (bytes, ns) = form.cost();
        let slices = if self.coarseness.is_some() { self.events.min(EVENTS_MAX) } else { self.events };
        let seconds = (slices * ns).div_ceil(1_000_000_000);
        let is_overview = self.coarseness.is_some();
        // A merged slice has annotations: 18 bytes instead of 15 in two million calls that became half a million.
        let bytes = if is_overview { slices * bytes * 4 / 3 } else { slices * bytes };
        Estimate { events: self.events, bytes, seconds, is_overview }
    }

    /// Writes a new file; after a failure the previous file remains.
    pub fn write(&self, form: Form, path: &Path, progress: &Progress) -> io::Result<ExportResult> {
        let draft = AtomicFile::new(path)?;
        let written = self.write_to(form, draft.file(), progress)?;
        draft.commit().map(|()| written)
    }

    pub fn write_to(&self, form: Form, file: &File, progress: &Progress) -> io::Result<ExportResult> {
        let hosts = self.by_host();
        let (events, bytes) = form.write(self, &hosts, file, progress)?;
        let overview = self.overview();
        Ok(ExportResult { events, processes: self.processes(), hosts: hosts.len(), bytes, overview })
    }

    fn overview(&self) -> Option<String> {
        self.coarseness.map(|coarseness| coarseness.remark(self.events))
    }

    /// Returns the number of processes of the images: an exec keeps process id and start.
    fn processes(&self) -> usize {
        let facts = [key::HOST, key::PID, key::START_BOOT_NS];
        let start = |process: &Recorded| facts.map(|key| process.fields.get(key).map(str::to_string));
        self.processes.iter().map(start).collect::<BTreeSet<_>>().len()
    }

    /// Returns processes by boot of their host, in order of appearance.
    fn by_host(&self) -> Vec<Vec<&Recorded>> {
        let mut hosts: Vec<Vec<&Recorded>> = Vec::new();
        for process in &self.processes {
            match hosts.iter_mut().find(|host| host[0].host() == process.host()) {
                Some(host) => host.push(process),
                None => hosts.push(vec![process]),
            }
        }
        hosts
    }
}

/// Gives all processes of a boot the smallest of their offsets to Unix time: a reading that was interrupted between two
/// clocks is too large.
fn share_offsets(processes: &mut [Recorded]) {
    let mut offsets: HashMap<_, i64> = HashMap::new();
    let boot = |process: &Recorded| {
        let (name, boot) = process.host();
        (name.map(str::to_string), boot.map(str::to_string))
    };
    for process in processes.iter() {
        let least = offsets.entry(boot(process)).or_insert(i64::MAX);
        *least = process.clock.real_offset_ns.min(*least);
    }
    processes.iter_mut().for_each(|process| process.clock.real_offset_ns = offsets[&boot(process)]);
}

/// Names processes after their scripts and their indexes among workers.
fn name(processes: &mut [Recorded]) {
    let host = |process: &Recorded| [key::HOST, key::BOOT_ID].map(|key| process.fields.get(key).map(str::to_string));
    let hosts: Vec<_> = processes.iter().map(host).collect();
    let number = |own: &[Option<String>; 2]| hosts.iter().position(|host| host == own).unwrap_or(0) as u32;
    let described = processes.iter().zip(&hosts).map(|(process, host)| {
        process_of(&process.fields, Path::new(""), number(host), process.clock.real_offset_ns, None)
    });
    let names = names(&described.collect::<Vec<_>>());
    processes.iter_mut().zip(names).for_each(|(process, name)| process.fields.set(key::NAME, name));
}

/// Returns the lengths of the events, their number of threads, and whether any of them contains who ended it.
fn lengths(processes: &[Recorded], filter: &Filter, progress: &Progress) -> io::Result<(Lengths, u64, bool)> {
    let mut lengths = Lengths::default();
    let (mut threads, mut waits) = (0, false);
    for process in processes {
        let mut tids = BTreeSet::new();
        selection::events(filter, process, progress, &mut |tid, events| {
            tids.insert(tid);
            waits = waits || events.op.iter().zip(&events.b).any(|(op, b)| waits::has_waker(*op, *b));
            // Metadata belongs to its span and is not a separate event.
            let own = events.op.iter().zip(&events.duration).filter(|(op, _)| **op != Op::META.0);
            own.for_each(|(_, &duration)| lengths.add(duration));
            Ok(())
        })?;
        threads += tids.len() as u64;
    }
    Ok((lengths, threads, waits))
}

fn coarseness(processes: &[Recorded], lengths: &Lengths, threads: u64) -> Option<MergeThreshold> {
    let first = processes.iter().map(|process| process.first_ns).min().unwrap_or(0);
    let last = processes.iter().map(|process| process.last_ns).max().unwrap_or(0);
    MergeThreshold::choose(lengths, threads, last.saturating_sub(first), EVENTS_MAX)
}
