//! Puts the native traces of a folder together: `merge DIR OUT.pftrace`. What `dlio-analyze --perfetto` does, without its
//! filters, as a test of the writer.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

use dlio_schemas::native::block::Opener;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::file::{Image, decode};
use dlio_schemas::native::ring::Ring;
use dlio_schemas::perfetto::write::{Options, Writer, complete_fields};

/// A process image with the bytes its blocks lie in.
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

/// The name of a program may hold dots, so its last one is not the file's ending.
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
    let [_, folder, out] = &arguments[..] else { return Err("usage: merge DIR OUT.pftrace".into()) };
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
    let mut file = std::fs::File::create(out)?;
    let mut sink = |bytes: &[u8]| file.write_all(bytes);
    let mut writer = Writer::new(&mut sink, &Options { total: Some((first, last)), ..Options::default() })?;
    for process in &loaded {
        write(&mut writer, process)?;
    }
    let summary = writer.finish()?;
    println!("{} events of {} processes in {} bytes", summary.events, loaded.len(), summary.bytes);
    Ok(())
}

fn write(writer: &mut Writer, process: &Loaded) -> Result<(), Box<dyn Error>> {
    let image = &process.image;
    let clock = image.clock().ok_or("no clock")?;
    let first = image.anchors.iter().map(|anchor| anchor.boot_ns).min().unwrap_or(0);
    let id = writer.process(&complete_fields(image), &clock, first, clock.boot_ns(image.last_tick()))?;
    let (mut opener, mut events) = (Opener::new()?, Events::default());
    for block in &image.blocks {
        decode(block, &process.bytes, &mut opener, &mut events)?;
        writer.batch(id, block.header.tid, &events, &clock, &image.names)?;
    }
    for left in &image.leftovers {
        writer.batch(id, left.tid, &left.events, &clock, &image.names)?;
    }
    writer.open_spans(id, &image.open_spans, image.last_tick(), &clock, &image.names)?;
    Ok(())
}
