//! Tests that damaged input does not make a reader of this crate panic: the entry points of `tests/fuzz` for a
//! bounded number of rounds.

mod generator;
#[path = "../../tests/fuzz/src/analyzer.rs"]
mod parsers;
#[path = "../../tests/fuzz/src/rounds.rs"]
mod rounds;
mod support;

use dlio_analyzer::cache::Cache;
use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::Trace;
use dlio_analyzer::load::bytes::file_bytes::unpacked;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::analyse;
use dlio_analyzer::tables::export::{self, ReportOptions};
use dlio_analyzer::viewer;
use dlio_analyzer::viewer::forms::Form;
use dlio_schemas::perfetto::pack::Compression;
use std::io::Read;
use std::path::Path;
use support::darshan;
use support::temp_dir;
use tempfile::TempDir;

fn sample(name: &str) -> Vec<u8> {
    std::fs::read(std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/tests/samples/" + name).unwrap()
}

fn stored(name: &str) -> Vec<u8> {
    std::fs::read(std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/../tests/formats/" + name).unwrap()
}

/// Returns the start of a text, which may be compressed, up to the end of a line.
fn beginning(name: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let path = std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/tests/samples/" + name;
    unpacked(Path::new(&path)).unwrap().read_to_end(&mut text).unwrap();
    let end = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').take(40).last().map_or(0, |(at, _)| at + 1);
    text[..end].to_vec()
}

/// Returns a small native trace, opened.
fn native(folder: &TempDir) -> Trace {
    let plan = generator::Plan { processes: 1, threads: 2, events: 300, files: 5, ..generator::Plan::default() };
    generator::generate(folder.path(), &plan, &|_, _, _| ()).unwrap();
    Trace::open(&[folder.path().display().to_string()], 1).unwrap()
}

fn perfetto() -> Vec<u8> {
    let folder = temp_dir("fuzz-perfetto");
    let (out, all) = (folder.path().join("out.pftrace"), Filter::default());
    native(&folder);
    let found = dlio_analyzer::load::inputs::find(&[folder.path().display().to_string()]).unwrap();
    let progress = Progress::default();
    let export = viewer::Export::new(&found, &all, true, 1, &progress).unwrap().unwrap();
    export.write(Form::named("pftrace", Compression::Deflate, false), &out, &progress).unwrap();
    std::fs::read(out).unwrap()
}

fn parquet() -> Vec<u8> {
    let (folder, tables) = (temp_dir("fuzz-parquet"), temp_dir("fuzz-tables"));
    export::write(
        &native(&folder),
        &Filter::default(),
        (1, 1 << 28),
        &ReportOptions::default(),
        &Progress::default(),
        tables.path(),
    )
    .unwrap();
    let events = std::fs::read_dir(tables.path().join("events")).unwrap().next().unwrap().unwrap();
    std::fs::read(events.path()).unwrap()
}

/// Returns the sidecar of a trace without files.
fn kept() -> Vec<u8> {
    let folder = temp_dir("fuzz-kept");
    let trace = native(&folder);
    let analysis = analyse(&trace, &Filter::default(), 1, &Progress::default()).unwrap();
    let cache = Cache::of(&[folder.path().display().to_string()], &[]).unwrap();
    assert!(cache.store(&trace, &analysis, &analysis.summary(&trace)), "nothing was kept");
    std::fs::read(folder.path().join(".dlio-cache")).unwrap()
}

fn samples(entry: &str) -> Vec<Vec<u8>> {
    let texts = |all: &[&str]| all.iter().map(|text| text.as_bytes().to_vec()).collect();
    match entry {
        "native_file" => vec![stored("v1.dlt"), stored("v2.dlt")],
        "ring_file" => vec![stored("v1.ring"), stored("v2.ring")],
        "perfetto_file" => vec![perfetto()],
        "chrome_json" => {
            ["chrome-array.json", "chrome-object.json", "viztracer.json", "torch.json.gz"].map(beginning).into()
        }
        "dftracer_lines" => vec![sample("dftracer.pfw")],
        "gzip_lines" => vec![
            sample("dftracer-ns/own-b7efa460fa83e9bb-preload.pfw.gz"),
            sample("dftracer-fork/own-b346fdd468e4b5aa-fork.pfw.gz"),
        ],
        "strace_text" => ["strace.txt", "strace-clock.txt", "strace-known-y.txt.gz"].map(beginning).into(),
        "darshan_log" => [darshan::Compression::None, darshan::Compression::Zlib, darshan::Compression::Bzip2]
            .map(darshan::small)
            .into(),
        "darshan_text" => ["dxt.txt", "dxt-darshan.txt"].map(beginning).into(),
        "parquet_file" => vec![parquet()],
        "amounts" => texts(&[
            "512MB",
            "1.5 GiB",
            "10us",
            "2026-11-21T02:08:07.25Z",
            "1795226887.5",
            "1795226887250000000",
            "/data/**/[a-z]*.npz",
        ]),
        "limits" => texts(&[
            "wait.share > 5%",
            "io.exposed_s > +10%",
            "function.read.p50_s < 1ms",
            "[input-bound]\nwait = 0.2\ntrust.lost = 3 # more\n",
        ]),
        "kept" => vec![kept()],
        other => panic!("no samples for {other}"),
    }
}

#[test]
fn damaged_input_does_not_panic_readers() {
    rounds::run(parsers::ENTRIES, samples, 80);
}
