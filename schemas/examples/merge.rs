//! Merges the native traces of a directory: `merge DIR OUT` writes OUT.pftrace and OUT.figures.json, the numbers that
//! a viewer must find in it. Given a `.pftrace` instead of a directory, it writes the numbers that our own reader
//! finds there. It tests the writer by doing the work of `dlio-analyze --export`, without filters.

#[path = "support/figures.rs"]
mod figures;

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

use dlio_schemas::export::{Exporter, export_image};
use dlio_schemas::native::fields::key;
use dlio_schemas::native::file::Image;
use dlio_schemas::native::ring::Ring;
use dlio_schemas::perfetto::read::Reader;
use dlio_schemas::perfetto::write::{Options, Writer};

use figures::Figures;

/// A process image with the bytes that contain its blocks.
struct Loaded {
    image: Image,
    bytes: Vec<u8>,
}

fn load(stem: &Path) -> Result<Loaded, Box<dyn Error>> {
    let bytes = std::fs::read(ending(stem, "dlt")).unwrap_or_default();
    let mut image = if bytes.is_empty() { Image::default() } else { Image::from_dlt(&bytes)? };
    if let Ok(ring) = std::fs::read(ending(stem, "ring")) {
        image.add_ring(&Ring::parse(&ring)?);
    }
    Ok(Loaded { image, bytes })
}

/// Appends an extension. The name of a program may contain dots, so its last part is not an extension.
fn ending(stem: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}.{end}", stem.display()))
}

fn stems(folder: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let ours = entries.filter(|path| path.extension().is_some_and(|end| end == "dlt" || end == "ring"));
    Ok(ours.map(|path| path.with_extension("")).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, folder, out] = &arguments[..] else { return Err("usage: merge DIR|FILE.pftrace OUT".into()) };
    if Path::new(folder).is_file() {
        std::fs::write(format!("{out}.figures.json"), read(Path::new(folder))?.to_json())?;
        return Ok(());
    }
    let mut loaded = Vec::new();
    for stem in stems(Path::new(folder))? {
        let process = load(&stem)?;
        if process.image.events() > 0 && process.image.clock().is_some() {
            loaded.push(process);
        }
    }
    let first = loaded.iter().flat_map(|p| p.image.anchors.iter().map(|anchor| anchor.boot_ns)).min().unwrap_or(0);
    let end = |p: &Loaded| p.image.clock().map_or(0, |clock| clock.boot_ns(p.image.last_tick()));
    let last = loaded.iter().map(end).max().unwrap_or(0);
    let mut file = std::fs::File::create(format!("{out}.pftrace"))?;
    let mut sink = |bytes: &[u8]| file.write_all(bytes);
    let mut writer = Writer::new(&mut sink, &Options { total: Some((first, last)), ..Options::default() })?;
    let mut figures = Figures::default();
    for process in &loaded {
        export_image(&process.image, &process.bytes, &mut writer)?;
        figures.add_image(&process.image, &process.bytes)?;
    }
    let summary = Box::new(writer).finish()?;
    std::fs::write(format!("{out}.figures.json"), figures.to_json())?;
    println!("{} events of {} processes in {} bytes", summary.events, loaded.len(), summary.bytes);
    Ok(())
}

/// Returns the numbers of one of our Perfetto traces.
fn read(path: &Path) -> Result<Figures, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let mut figures = Figures::default();
    let mut reader = Reader::default();
    let mut batches = Vec::new();
    let mut keep = |batch: dlio_schemas::perfetto::read::Batch| {
        batches.push((batch.process, batch.tid, batch.events.clone()));
    };
    reader.read(&bytes, &mut keep);
    reader.finish(&mut keep);
    for (process, tid, events) in &batches {
        let pid = reader.processes[*process].fields.number(key::PID).unwrap_or(0);
        figures.add(pid, *tid, events, &reader.clock(*process), &reader.names);
    }
    if reader.damaged + reader.skipped > 0 {
        return Err(format!("{}: {} pieces damaged, {} skipped", path.display(), reader.damaged, reader.skipped).into());
    }
    Ok(figures)
}
