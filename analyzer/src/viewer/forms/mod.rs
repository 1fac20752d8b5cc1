//! The formats of exports, and the iteration over an [`Export`] that all of them share.
//!
//! To add one: a file here with its [`Kind`], and its lines below. An [`Exporter`] writes it.

mod archive;
mod bundle;
mod chrome;
mod dftracer;
mod perfetto;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use dlio_schemas::clock::Clock;
use dlio_schemas::export::{Exporter, ProcessId, Summary};
use dlio_schemas::machine::samples::Samples;
use dlio_schemas::machine::tracks::Tracks;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::key;
use dlio_schemas::native::names::Names;
use dlio_schemas::perfetto::pack::Compression;

use super::overview::{MergeThreshold, Overview, OverviewNames};
use super::{Export, ExportResult, selection, waits};
use crate::load::recorded::Recorded;
use crate::scan::Progress;

/// In the order in which they are listed.
pub const KINDS: &[&Kind] = &[&perfetto::KIND, &bundle::KIND, &archive::KIND, &chrome::KIND, &dftracer::KIND];

/// A kind of export file.
pub struct Kind {
    /// The extension of its files, without that of a compressor.
    pub ending: &'static str,
    /// `true` if it can be compressed with gzip as a whole, which an additional `.gz` requests.
    gzip: bool,
    /// Measured bytes and nanoseconds of CPU per event, for an estimate.
    cost: fn(Packing) -> (u64, u64),
    /// Writes processes, host by host.
    write: Write,
    /// `true` if waits of trainers are drawn in addition to the events.
    draws_waits: bool,
    /// `true` if profiles among the traces are added to it.
    holds_profiles: bool,
    /// A note on the written file.
    remark: fn(&ExportResult, Packing) -> Option<String>,
}

type Write = fn(&Export, &[Vec<&Recorded>], Packing, &mut BufWriter<&File>, &Progress) -> io::Result<Summary>;

/// The compression: of packets in the file, or of the whole file.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    pub packets: Compression,
    pub gzip: bool,
}

/// A kind of file, and its compression.
#[derive(Clone, Copy)]
pub struct Form {
    kind: &'static Kind,
    packing: Packing,
}

impl Form {
    /// Returns the format for the extension of a file's name.
    pub fn of(path: &Path, packets: Compression) -> Option<Form> {
        let name = path.file_name()?.to_str()?;
        let (name, gzip) = name.strip_suffix(".gz").map_or((name, false), |name| (name, true));
        let kind = KINDS.iter().find(|kind| name.rsplit_once('.').is_some_and(|(_, ending)| ending == kind.ending))?;
        if gzip && !kind.gzip {
            return None;
        }
        Some(Form { kind, packing: Packing { packets, gzip } })
    }

    /// Returns a kind by its extension, for a file with any name.
    pub fn named(ending: &str, packets: Compression, gzip: bool) -> Form {
        let kind = KINDS.iter().find(|kind| kind.ending == ending).expect("a kind with this extension");
        Form { kind, packing: Packing { packets, gzip } }
    }

    pub fn ending(self) -> &'static str {
        self.kind.ending
    }

    pub fn remark(self, written: &ExportResult) -> Option<String> {
        (self.kind.remark)(written, self.packing)
    }

    /// Returns `true` if waits of trainers are drawn in it.
    pub fn draws_waits(self) -> bool {
        self.kind.draws_waits
    }

    /// Returns `true` if profiles among the traces are added to it.
    pub fn holds_profiles(self) -> bool {
        self.kind.holds_profiles
    }

    pub(super) fn cost(self) -> (u64, u64) {
        (self.kind.cost)(self.packing)
    }

    /// Writes all hosts; returns the number of events and bytes.
    pub(super) fn write(
        self,
        export: &Export,
        hosts: &[Vec<&Recorded>],
        file: &File,
        progress: &Progress,
    ) -> io::Result<(u64, u64)> {
        let mut out = BufWriter::new(file);
        let written = (self.kind.write)(export, hosts, self.packing, &mut out, progress)?;
        io::Write::flush(&mut out)?;
        Ok((written.events, written.bytes))
    }
}

/// Parses a path whose extension selects a format.
pub fn parse_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if Form::of(&path, Compression::None).is_some() {
        return Ok(path);
    }
    Err(format!("the extension selects the format: {}", endings()))
}

/// Returns all extensions as a list in a sentence.
fn endings() -> String {
    let packed = |kind: &&Kind| kind.gzip.then(|| format!(".{}.gz", kind.ending));
    let endings = KINDS.iter().flat_map(|kind| [Some(format!(".{}", kind.ending)), packed(kind)]);
    endings.flatten().collect::<Vec<_>>().join(", ")
}

/// Extensions of compressed files, which would be misleading for other files.
const PACKED: [&str; 7] = ["gz", "zst", "xz", "bz2", "lz4", "zip", "tgz"];

/// Parses a path for a format given by an option: any path except one with the extension of another format.
pub fn path_of(option: &str, endings: &[&str], text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let packing = path.extension().and_then(|ending| ending.to_str()).filter(|ending| PACKED.contains(ending));
    let gzip = KINDS.iter().any(|kind| kind.ending == endings[0] && kind.gzip);
    if let Some(packing) = packing.filter(|packing| !gzip || *packing != "gz") {
        return Err(format!("{option} writes .{}, without the compression that .{packing} implies", endings[0]));
    }
    match Form::of(&path, Compression::None).map(Form::ending).filter(|ending| !endings.contains(ending)) {
        None => Ok(path),
        Some(other) => Err(format!("{option} writes .{}; --export writes .{other}", endings[0])),
    }
}

/// Returns the processes of all hosts.
fn all<'r>(export: &'r Export) -> Vec<&'r Recorded> {
    export.processes.iter().collect()
}

fn write_processes(
    export: &Export,
    processes: &[&Recorded],
    mut exporter: Box<dyn Exporter + '_>,
    progress: &Progress,
) -> io::Result<Summary> {
    let overview = export.overview();
    let mut numbers: HashMap<*const Recorded, ProcessId> = HashMap::new();
    for recorded in processes {
        let clock = Clock::nanoseconds(recorded.clock.real_offset_ns);
        let mut fields = recorded.fields.clone();
        overview.iter().for_each(|text| fields.set(key::OVERVIEW, text));
        let process = exporter.process(&fields, &clock, recorded.first_ns, recorded.last_ns)?;
        numbers.insert(std::ptr::from_ref(*recorded), process);
        match export.coarseness {
            None => selection::events(export.filter, recorded, progress, &mut |tid, events| {
                put(&mut *exporter, process, tid, events, &clock, &recorded.names)
            })?,
            Some(coarseness) => write_overview(&mut *exporter, process, recorded, export, coarseness, progress)?,
        }
        let open = selection::open_spans(export.filter, recorded);
        exporter.open_spans(process, &open, recorded.last_tick, &recorded.clock, &recorded.names)?;
    }
    let number = |process: &Recorded| numbers.get(&std::ptr::from_ref(process)).copied();
    exporter.waits(&waits::of_written(&export.waits, |at| number(&export.processes[at])))?;
    for samples in &export.machines {
        write_machine(&mut *exporter, samples, processes)?;
    }
    exporter.finish()
}

/// Writes the counters of a host, while its exported processes ran: other commands may have been traced into the
/// directory.
fn write_machine(exporter: &mut dyn Exporter, samples: &Samples, processes: &[&Recorded]) -> io::Result<()> {
    let host = [key::HOST, key::BOOT_ID].map(|key| samples.fact(key));
    let here: Vec<_> = processes.iter().filter(|process| <[_; 2]>::from(process.host()) == host).collect();
    let (first, last) =
        (here.iter().map(|process| process.first_ns).min(), here.iter().map(|process| process.last_ns).max());
    match first.zip(last) {
        Some((first, last)) => exporter.machine(&Tracks::of(samples, first, last)),
        None => Ok(()),
    }
}

fn write_overview(
    exporter: &mut dyn Exporter,
    process: ProcessId,
    recorded: &Recorded,
    export: &Export,
    coarseness: MergeThreshold,
    progress: &Progress,
) -> io::Result<()> {
    let clock = Clock::nanoseconds(recorded.clock.real_offset_ns);
    let mut names = recorded.names.clone();
    let own = OverviewNames::add(&mut names);
    let mut threads: BTreeMap<u32, Overview> = BTreeMap::new();
    let mut merged = Events::default();
    selection::events(export.filter, recorded, progress, &mut |tid, events| {
        merged.clear();
        exporter.count(process, events, &clock, &names);
        threads.entry(tid).or_insert_with(|| Overview::new(coarseness, own)).merge(events, &mut merged);
        put(exporter, process, tid, &merged, &clock, &names)
    })?;
    for (tid, mut overview) in threads {
        merged.clear();
        overview.finish(&mut merged);
        put(exporter, process, tid, &merged, &clock, &names)?;
    }
    Ok(())
}

/// Adds a batch; an empty one does not announce its thread.
fn put(
    exporter: &mut dyn Exporter,
    process: ProcessId,
    tid: u32,
    events: &Events,
    clock: &Clock,
    names: &Names,
) -> io::Result<()> {
    if events.is_empty() { Ok(()) } else { exporter.batch(process, tid, events, clock, names) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_selects_the_format() {
        let of =
            |name: &str| Form::of(Path::new(name), Compression::Zstd).map(|form| (form.ending(), form.packing.gzip));
        assert_eq!(of("a/b.pftrace"), Some(("pftrace", false)));
        assert_eq!(of("x.json.gz"), Some(("json", true)));
        assert_eq!([of("pftrace"), of("x.gz"), of("x.txt"), of("")], [None; 4]);
        // An uncompressed file must not have a compressor's extension.
        assert_eq!([of("x.tar.gz"), of("x.pftrace.gz"), of("x.json.zst")], [None; 3]);
        let asked = |option, endings: &[&str], name| path_of(option, endings, name).is_ok();
        assert!(asked("--chrome", &["json", "pfw"], "x.json.gz") && asked("--perfetto", &["pftrace", "tar"], "x"));
        assert!(!asked("--chrome", &["json", "pfw"], "x.json.xz"));
        assert!(!asked("--perfetto", &["pftrace", "tar"], "x.pftrace.gz"));
        assert!(parse_path("x.txt").unwrap_err().contains(".pftrace, .tar, .zip, .json, .json.gz, .pfw, .pfw.gz"));
    }

    #[test]
    fn every_kind_is_found_by_its_ending_alone() {
        for kind in KINDS {
            assert_eq!(
                Form::of(Path::new(&format!("x.{}", kind.ending)), Compression::None).unwrap().ending(),
                kind.ending
            );
        }
    }
}
