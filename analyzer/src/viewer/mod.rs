//! Traces for viewers: our own traces once more, filtered, all processes in one file on one clock.
//!
//! A browser bears about a million slices. What is asked for beyond that becomes an overview, in which runs of short calls
//! are one slice, and says so; `all` writes every event whatever their number. Traces of other tools are not written: what
//! they hold beyond our tables would be lost on the way.
//!
//! Reading order: `part` (what is read), `picture` (what is written of it), [`serve`] (how a browser comes to it).

mod part;
mod picture;
pub mod serve;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;

use dlio_schemas::native::fields::key;
use dlio_schemas::ops::Op;
use dlio_schemas::perfetto::pack::Compression;
use dlio_schemas::perfetto::select::{self, Coarseness, Lengths};

use crate::filter::Filter;
use crate::load::inputs::Found;
use crate::scan::Progress;
use part::Part;

/// What is written.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    Perfetto(Compression),
    /// A file a host in one tar, which viewers from v58 on merge, machine by machine.
    Bundle(Compression),
    Chrome {
        gzip: bool,
    },
    Dftracer {
        gzip: bool,
    },
}

impl Form {
    /// Bytes and nanoseconds of CPU that an event takes, as measured, for an estimate.
    fn cost(self) -> (u64, u64) {
        match self {
            Form::Perfetto(Compression::None) | Form::Bundle(Compression::None) => (65, 250),
            Form::Perfetto(_) | Form::Bundle(_) => (select::BYTES_PER_EVENT, 500),
            Form::Chrome { gzip: true } | Form::Dftracer { gzip: true } => (22, 1500),
            Form::Chrome { gzip: false } | Form::Dftracer { gzip: false } => (190, 700),
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Written {
    pub events: u64,
    pub processes: usize,
    pub hosts: usize,
    pub bytes: u64,
    /// What the trace says of itself where it is an overview.
    pub overview: Option<String>,
}

/// What an export will be, before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub events: u64,
    pub bytes: u64,
    pub seconds: u64,
    /// Whether fewer slices than events are written.
    pub is_overview: bool,
}

/// What passes a filter, counted and ready to be written.
pub struct Plan<'f> {
    parts: Vec<Part>,
    filter: &'f Filter,
    events: u64,
    coarseness: Option<Coarseness>,
}

impl<'f> Plan<'f> {
    /// `None` where nothing passes.
    pub fn new(found: &Found, filter: &'f Filter, all: bool, progress: &Progress) -> io::Result<Option<Plan<'f>>> {
        let parts = part::parts(found, filter)?;
        let (lengths, threads) = lengths(&parts, filter, progress)?;
        let coarseness = if all { None } else { coarseness(&parts, &lengths, threads) };
        let events = lengths.total();
        Ok((events > 0).then_some(Plan { parts, filter, events, coarseness }))
    }

    /// Events that are read once more to be written: what progress counts to.
    pub fn recorded(&self) -> u64 {
        self.parts.iter().map(|part| part.recorded).sum()
    }

    pub fn estimate(&self, form: Form) -> Estimate {
        let (bytes, ns) = form.cost();
        let slices = if self.coarseness.is_some() { self.events.min(select::EVENTS_MAX) } else { self.events };
        let seconds = (slices * ns).div_ceil(1_000_000_000);
        let is_overview = self.coarseness.is_some();
        // A merged slice says what it holds: 18 bytes instead of 15 in two million calls that became half a million.
        let bytes = if is_overview { slices * bytes * 4 / 3 } else { slices * bytes };
        Estimate { events: self.events, bytes, seconds, is_overview }
    }

    /// Writes a new file; one that could not be finished is taken away again.
    pub fn write(&self, form: Form, path: &Path, progress: &Progress) -> io::Result<Written> {
        self.write_to(form, &File::create(path)?, progress).inspect_err(|_| {
            if path.is_file() {
                // What failed is said; that the rest could not be removed adds nothing.
                let _ = std::fs::remove_file(path);
            }
        })
    }

    pub fn write_to(&self, form: Form, file: &File, progress: &Progress) -> io::Result<Written> {
        let hosts = self.by_host();
        let (events, bytes) = picture::write(self, &hosts, form, file, progress)?;
        let overview = self.overview();
        Ok(Written { events, processes: self.processes(), hosts: hosts.len(), bytes, overview })
    }

    fn overview(&self) -> Option<String> {
        self.coarseness.map(|coarseness| coarseness.remark(self.events))
    }

    /// How many processes the images belong to: an exec keeps process id and start.
    fn processes(&self) -> usize {
        let start =
            |part: &Part| [key::HOST, key::PID, key::START_BOOT_NS].map(|key| part.fields.get(key).map(str::to_string));
        self.parts.iter().map(start).collect::<BTreeSet<_>>().len()
    }

    /// Processes by the boot of the machine they ran on, in the order in which they turn up.
    fn by_host(&self) -> Vec<Vec<&Part>> {
        let mut hosts: Vec<Vec<&Part>> = Vec::new();
        for part in &self.parts {
            match hosts.iter_mut().find(|host| host[0].host() == part.host()) {
                Some(host) => host.push(part),
                None => hosts.push(vec![part]),
            }
        }
        hosts
    }
}

/// How long the events are, and how many threads they are of.
fn lengths(parts: &[Part], filter: &Filter, progress: &Progress) -> io::Result<(Lengths, u64)> {
    let mut lengths = Lengths::default();
    let mut threads = 0;
    for part in parts {
        let mut tids = BTreeSet::new();
        part.each_selected(filter, progress, &mut |tid, events| {
            tids.insert(tid);
            // Metadata belongs to its span and is no event of its own.
            let own = events.op.iter().zip(&events.duration).filter(|(op, _)| **op != Op::META.0);
            own.for_each(|(_, &duration)| lengths.add(duration));
            Ok(())
        })?;
        threads += tids.len() as u64;
    }
    Ok((lengths, threads))
}

fn coarseness(parts: &[Part], lengths: &Lengths, threads: u64) -> Option<Coarseness> {
    let first = parts.iter().map(|part| part.first_ns).min().unwrap_or(0);
    let last = parts.iter().map(|part| part.last_ns).max().unwrap_or(0);
    Coarseness::choose(lengths, threads, last.saturating_sub(first), select::EVENTS_MAX)
}
