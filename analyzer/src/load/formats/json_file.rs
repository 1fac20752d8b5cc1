//! JSON files: small ones are read at once, large ones with one object per line in chunks, on any thread.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use dlio_schemas::native::Damage;

use crate::batch::{Batch, Columns, Wanted};
use crate::catalog::Catalog;
use crate::load::events::nesting::Nesting;
use crate::load::events::parser::{Parser, Processes, Threads};
use crate::load::json::events::JsonParser;
use crate::load::json::hashes::Hashes;
use crate::load::lines::chunks::Chunks;
use crate::load::lines::text::{finish, read_whole, single_unit, sizes};
use crate::load::sources::source::{Format, Opening, Reader, Source, Sources};
use crate::unit::Unit;

/// Chrome's trace events, including DFTracer's lines.
pub const FORMAT: Format = Format {
    name: "Chrome JSON, DFTracer .pfw",
    recognises: |head| is_json(head).into(),
    open: open_all,
    names_processes: false,
};

/// Keys at the start of a trace, at least one of which must exist: keys of an event, and of a file with a list of
/// events.
const KEYS: [&str; 9] = [
    "\"ph\"",
    "\"traceEvents\"",
    "\"otherData\"",
    "\"displayTimeUnit\"",
    "\"metadata\"",
    "\"stackFrames\"",
    "\"samples\"",
    "\"schemaVersion\"",
    "\"deviceProperties\"",
];

/// Recognizes JSON with events. Unrelated files may be JSON too.
fn is_json(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let objects = match start.strip_prefix('[') {
        Some(list) => list.trim_start(),
        None => start,
    };
    if start.starts_with('[') && (objects.is_empty() || objects.starts_with(']')) {
        return true;
    }
    objects.starts_with('{') && (KEYS.iter().any(|key| objects.contains(key)) || is_cut(objects))
}

/// Returns `true` if the text ends within its first object, so that more text may decide.
fn is_cut(text: &str) -> bool {
    let first = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>().next();
    matches!(first, Some(Err(error)) if error.is_eof())
}

fn open_all(paths: &[PathBuf], opening: &mut Opening) -> Sources {
    let files = sizes(paths, opening);
    let hashes = Arc::new(Hashes::new(files.iter().cloned()));
    let source = |(place, (path, size)): (usize, (PathBuf, u64))| {
        let processes = Processes::of(path.display().to_string());
        Box::new(JsonFile { path, size, processes, hashes: hashes.clone(), place, nesting: OnceLock::new() })
            as Box<dyn Source>
    };
    files.into_iter().enumerate().map(source).collect()
}

struct JsonFile {
    path: PathBuf,
    size: u64,
    processes: Processes,
    /// The meanings of hashes in the command's files, and the index of this file among them.
    hashes: Arc<Hashes>,
    place: usize,
    /// Its spans, read when depths are requested.
    nesting: OnceLock<Nesting>,
}

impl JsonFile {
    fn parser(&self) -> JsonParser {
        JsonParser::new(self.hashes.clone(), self.place)
    }

    /// Reads one chunk. Its hashes may be explained in an earlier one, which is searched if that has not been done.
    fn read_chunk(
        &self,
        chunks: &Chunks,
        chunk: usize,
        memory: &mut Vec<u8>,
        into: &mut Threads,
    ) -> Result<(), Damage> {
        let learned = self.hashes.learn_chunk(self.place, chunk, memory, into.catalog);
        let (lines, result) = learned.unwrap_or_else(|| chunks.load(&self.path, chunk, memory));
        // Damage in earlier chunks is noted when they are read.
        let mut other = Vec::new();
        for earlier in 0..chunk {
            self.hashes.learn_chunk(self.place, earlier, &mut other, into.catalog);
        }
        let mut parser = self.parser();
        if chunk > 0 {
            parser.continues();
        }
        let text = &memory[lines];
        let used = parser.parse(text, true, into);
        result.and(if text[used..].iter().all(u8::is_ascii_whitespace) { Ok(()) } else { Err(Damage::Cut) })
    }
}

impl JsonFile {
    /// Reads one chunk, or the whole file if it has one only.
    fn read_part(&self, index: u32, memory: &mut Vec<u8>, mut into: Threads) -> Result<(), Damage> {
        let ended = match self.hashes.chunks(self.place) {
            Some(chunks) => self.read_chunk(chunks, index as usize, memory, &mut into),
            None => read_whole(&self.path, self.size, &mut self.parser(), &mut into),
        };
        finish(ended, into)
    }

    /// Returns the spans of all chunks. Damage is noted when the events are read.
    fn spans(&self, catalog: &Catalog) -> Nesting {
        let wanted = Wanted { columns: Columns::TS.and(Columns::DUR), ..Wanted::default() };
        let count = self.hashes.chunks(self.place).map_or(1, Chunks::count);
        let (next, parts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let gather = || {
            let (mut spans, mut memory) = (Nesting::default(), Vec::new());
            loop {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                if chunk >= count {
                    break;
                }
                let mut take = |batch: &mut Batch| spans.add(batch, catalog);
                let into = Threads::new(catalog, wanted, &self.processes, &mut take);
                let _ = self.read_part(chunk as u32, &mut memory, into);
            }
            parts.lock().expect("spans").push(spans);
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
        std::thread::scope(|scope| {
            (1..threads).for_each(|_| drop(scope.spawn(gather)));
            gather();
        });
        Nesting::of(parts.into_inner().expect("spans"))
    }
}

impl Source for JsonFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        match self.hashes.chunks(self.place) {
            Some(chunks) => (0..chunks.count()).map(|chunk| unit_of(source, chunks, chunk)).collect(),
            None => vec![single_unit(source, self.size)],
        }
    }

    fn read(
        &self,
        index: u32,
        reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage> {
        if !wanted.depth {
            return self.read_part(index, &mut reader.text, Threads::new(catalog, wanted, &self.processes, take));
        }
        let nesting = self.nesting.get_or_init(|| self.spans(catalog));
        let mut kinds = nesting.kinds();
        let mut told = |batch: &mut Batch| {
            nesting.fill_depths(batch, &mut kinds, catalog);
            take(batch);
        };
        self.read_part(index, &mut reader.text, Threads::new(catalog, wanted, &self.processes, &mut told))
    }
}

/// The minimum bytes of text per event. The value is so small that each chunk is assigned separately: neighboring
/// chunks wait for the hashes learned from a chunk, which a thread with two chunks would reach late.
const LINE_BYTES: u64 = 32;

fn unit_of(source: u32, chunks: &Chunks, chunk: usize) -> Unit {
    Unit::new(source, chunk as u32, chunks.length(chunk) / LINE_BYTES, chunks.size(chunk))
}

#[cfg(test)]
mod tests {
    use super::is_json;

    #[test]
    fn traces_are_distinguished_from_other_json() {
        let long = format!("{{\"nodes\": \"{}", "x".repeat(5000));
        for head in [
            "[",
            "[\n",
            "[]",
            "\u{feff}[\n{\"id\":0,\"name\":\"FH\",\"ph\":\"M\"}",
            "{\"traceEvents\":[]}",
            "{\"displayTimeUnit\":\"ns\",",
            "{\"schemaVersion\": 1, \"deviceProperties\": [",
            "{\"name\":\"read\",\"ph\":\"X\"}\n{",
            "[{\"name\": \"re",
            &long,
        ] {
            assert!(is_json(head.as_bytes()), "{head}");
        }
        for head in [
            "{\"a\": 1}",
            "[1, 2]",
            "[{\"question\": \"why?\"}, {",
            "{\"text\": \"a\"}\n{\"text\": \"b\"}\n",
            "{}",
            "plain text",
            "",
            "[[1]]",
        ] {
            assert!(!is_json(head.as_bytes()), "{head}");
        }
    }
}
