//! A part of a trace that is counted elsewhere, and how parts are merged into one analysis.
//!
//! A part consists of whole process trees: comparisons between their threads are final when it is sent, and only the
//! unions over all processes remain to be computed. Everything else is merged like the counts of threads. So the result
//! is exactly that of one process.
//!
//! Every worker opens the whole trace, so processes, hosts and clocks are identical everywhere. Files and kinds of
//! events are numbered in order of appearance, which differs everywhere: parts contain their names, and are renumbered.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use dlio_schemas::ops::Class;
use serde::{Deserialize, Serialize};

use super::analysis::Analysis;
use super::count::counted::{Counted, kind_of, row};
use super::count::counter::{Counter, Lengths};
use super::count::tally::Tallies;
use super::files::blocks::name_hash;
use super::groups::shared_sweep::{PartMeasured, PartsSweep, SharedSweep};
use super::{concluded, waits_in_window};
use crate::batch::Wanted;
use crate::catalog::{Catalog, FILE_NONE, Host, Kind, Origin, Process};
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::{Progress, scan_some};
use crate::unit::{Categories, Unit};

/// The part of a trace to count, and the requested results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartRequest {
    /// Numbers of sources: `from..to`, ascending.
    pub sources: Vec<(u32, u32)>,
    /// The lengths of all events, for exact quantiles of a small trace.
    pub lengths: bool,
    /// The content of each unit, to be cached with the trace.
    pub units: bool,
    /// The processes of some of these sources are unknown before reading.
    pub meets_processes: bool,
}

/// Returns `true` if a unit belongs to these sources: `from..to`, ascending.
pub fn contains_unit(sources: &[(u32, u32)], unit: &Unit) -> bool {
    let at = sources.partition_point(|(_, to)| *to <= unit.source);
    sources.get(at).is_some_and(|(from, _)| *from <= unit.source)
}

/// The counts of a part, with names instead of the catalog's numbers.
#[derive(Serialize, Deserialize)]
pub struct Partial {
    counted: Counted,
    measured: PartMeasured,
    lengths: Option<Vec<Lengths>>,
    /// By the numbers used here.
    files: Vec<Arc<str>>,
    kinds: Vec<SentKind>,
    /// The meaning of the bits of units.
    categories: Vec<Arc<str>>,
    /// All processes known now, if some were discovered while reading.
    met: Option<Discovered>,
}

/// Processes and hosts in order of their numbers.
type Discovered = (Vec<Process>, Vec<Host>);

/// The encoding of a kind: name, category, class and origin.
pub type SentKind = (Arc<str>, Arc<str>, u8, u8);

const ORIGINS: [Origin; 4] = [Origin::Call, Origin::Span, Origin::Instant, Origin::Counter];

pub fn sent(kind: &Kind) -> SentKind {
    let class = Class::ALL.into_iter().position(|class| class == kind.class).unwrap_or(0);
    let origin = ORIGINS.into_iter().position(|origin| origin == kind.origin).unwrap_or(0);
    (kind.name.clone(), kind.cat.clone(), class as u8, origin as u8)
}

pub fn arrived((name, cat, class, origin): SentKind) -> Kind {
    let class = Class::ALL.into_iter().nth(class.into()).unwrap_or(Class::Other);
    Kind { name, cat, class, origin: ORIGINS[usize::from(origin) % ORIGINS.len()] }
}

/// Assigns new numbers in the order in which old ones are requested.
#[derive(Default)]
struct Renumbering<T> {
    numbers: HashMap<u32, u32>,
    things: Vec<T>,
}

impl<T> Renumbering<T> {
    fn number(&mut self, old: u32, thing: impl FnOnce() -> T) -> u32 {
        let things = &mut self.things;
        *self.numbers.entry(old).or_insert_with(|| {
            things.push(thing());
            things.len() as u32 - 1
        })
    }
}

/// Counts a part of a trace.
pub fn analyse_part(
    trace: &Trace,
    filter: &Filter,
    threads: usize,
    progress: &Progress,
    asked: &PartRequest,
) -> std::io::Result<Partial> {
    let catalog = &trace.catalog;
    let sweep = SharedSweep::of_a_part(catalog);
    let counter = || match asked.lengths {
        true => Counter::new(catalog, &sweep).within(filter).keeping_lengths(),
        false => Counter::new(catalog, &sweep).within(filter),
    };
    let takes = |unit: &Unit| contains_unit(&asked.sources, unit);
    let sieve = trace.sieve(filter);
    let mut counters = scan_some(trace, &sieve, Wanted::default(), threads, progress, takes, counter)?;
    let lengths: Option<Vec<_>> = counters.iter_mut().map(Counter::take_lengths).collect();
    let mut counted = Counted::default();
    counters.into_iter().for_each(|counter| counted.merge(counter.counted));
    counted.access.join_passes();
    if !asked.units {
        counted.units = Vec::new();
    }
    let mut measured = sweep.finish_part(catalog);
    if let Some(waits) = waits_in_window(trace, filter, (threads, progress), takes)? {
        measured.waits = waits;
    }
    let met = asked.meets_processes.then(|| (catalog.processes(), catalog.hosts()));
    Ok(named(catalog, counted, lengths, (measured, met)))
}

/// Renumbers the counts, and adds names.
fn named(
    catalog: &Catalog,
    mut counted: Counted,
    mut lengths: Option<Vec<Lengths>>,
    (measured, met): (PartMeasured, Option<Discovered>),
) -> Partial {
    let (paths, all) = (catalog.files(), catalog.kinds());
    let (mut files, mut kinds) = (Renumbering::default(), Renumbering::default());
    files.number(FILE_NONE, || paths[FILE_NONE as usize].clone());
    // In the order of a catalog, where neighbors share prefixes.
    for (file, _) in (0u32..).zip(&counted.files).filter(|(_, count)| count.is_used()) {
        files.number(file, || paths[file as usize].clone());
    }
    counted.renumber(
        |kind| kinds.number(kind, || sent(&all[kind as usize])),
        |file| files.number(file, || paths[file as usize].clone()),
    );
    for lengths in lengths.iter_mut().flatten() {
        lengths.renumber(|kind| kinds.number(kind, || sent(&all[kind as usize])));
    }
    let categories = catalog.categories();
    Partial { counted, measured, lengths, files: files.things, kinds: kinds.things, categories, met }
}

impl Lengths {
    fn renumber(&mut self, mut kind: impl FnMut(u32) -> u32) {
        for at in &mut self.rows {
            let (of, past_files) = kind_of(*at);
            *at = row(kind(of), past_files);
        }
    }
}

impl Partial {
    /// Renames the files of discovered processes.
    pub fn rename_sources(&mut self, name: impl Fn(&str) -> String) {
        let met = self.met.iter_mut().flat_map(|(processes, _)| processes);
        met.for_each(|process| process.source = name(&process.source));
    }
}

/// Parts being merged into one analysis.
pub struct Merging<'t> {
    trace: &'t Trace,
    filter: Filter,
    tallies: Tallies,
    counted: Counted,
    lengths: Option<Vec<Lengths>>,
    sweep: PartsSweep,
}

impl<'t> Merging<'t> {
    pub fn new(trace: &'t Trace, filter: &Filter) -> Merging<'t> {
        let tallies = Tallies::open(trace, filter, &trace.sieve(filter));
        let mut sweep = PartsSweep::default();
        sweep.add(tallies.intervals());
        let lengths = Some(Vec::new());
        Merging { trace, filter: filter.clone(), tallies, counted: Counted::default(), lengths, sweep }
    }

    /// Adds a part; each once, in any order.
    pub fn add(&mut self, part: Partial) -> Result<(), &'static str> {
        let Partial { mut counted, measured, mut lengths, files, kinds, categories, met } = part;
        let catalog = &self.trace.catalog;
        counted.blocks.name(|file| files.get(file as usize).map_or(0, |path| name_hash(path)));
        if let Some((processes, hosts)) = met {
            catalog.take_over(processes, hosts);
        }
        let files = catalog.file_numbers(files.iter().map(|path| path.as_ref().into()));
        let kinds: Vec<u32> = kinds.into_iter().map(|kind| catalog.kind(arrived(kind))).collect();
        // An unknown number is damage and reported; until then any number will do.
        let is_whole = Cell::new(counted.processes.len() <= catalog.map_processes(|_| ()).len());
        let look_up = |numbers: &[u32], number: u32| {
            let found = numbers.get(number as usize).copied();
            is_whole.set(is_whole.get() && found.is_some());
            found.unwrap_or(0)
        };
        counted.renumber(|kind| look_up(&kinds, kind), |file| look_up(&files, file));
        lengths.iter_mut().flatten().for_each(|lengths| lengths.renumber(|kind| look_up(&kinds, kind)));
        if !is_whole.get() {
            return Err("its counts name what it does not list");
        }
        let bits = Bits::new(&categories, &catalog.categories());
        counted.units.iter_mut().for_each(|(.., seen)| seen.categories = bits.translate(seen.categories));
        self.counted.merge(counted);
        self.lengths = self.lengths.take().zip(lengths).map(|(mut all, more)| {
            all.extend(more);
            all
        });
        self.sweep.take(measured);
        Ok(())
    }

    /// Returns the analysis of all parts.
    pub fn finish(self) -> Analysis {
        let Merging { trace, filter, tallies, counted, lengths, sweep } = self;
        concluded(trace, &filter, (counted, lengths), tallies, sweep.finish())
    }
}

/// Translates the bits of categories from one catalog to another.
struct Bits(Vec<u64>);

impl Bits {
    fn new(theirs: &[Arc<str>], ours: &[Arc<str>]) -> Bits {
        let ours = Categories::new(ours.to_vec());
        let mut bits = vec![0; u64::BITS as usize];
        for (place, name) in (0u32..).zip(theirs) {
            bits[Categories::bit_at(place).trailing_zeros() as usize] |= ours.mask(|ours| ours == name.as_ref());
        }
        Bits(bits)
    }

    fn translate(&self, categories: u64) -> u64 {
        let set = (0..u64::BITS).filter(|bit| categories >> bit & 1 == 1);
        set.fold(0, |all, bit| all | self.0[bit as usize])
    }
}
