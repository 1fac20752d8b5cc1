//! The parsers of `dlio-analyzer`: files of every supported format, and user input.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use dlio_analyzer::amount::{Amount, SIZES, TIMES};
use dlio_analyzer::cache::Cache;
use dlio_analyzer::command::{size, time_argument};
use dlio_analyzer::compare::gate::Limit;
use dlio_analyzer::filter::Filter;
use dlio_analyzer::findings::limits::Limits;
use dlio_analyzer::load::Trace;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::analyse;
use dlio_analyzer::summary::report::text;

pub const ENTRIES: &[crate::rounds::Entry] = &[
    ("native_file", native_file),
    ("ring_file", ring_file),
    ("perfetto_file", perfetto_file),
    ("chrome_json", chrome_json),
    ("dftracer_lines", dftracer_lines),
    ("gzip_lines", gzip_lines),
    ("strace_text", strace_text),
    ("darshan_log", darshan_log),
    ("darshan_text", darshan_text),
    ("parquet_file", parquet_file),
    ("amounts", amounts),
    ("limits", limits),
    ("kept", kept),
];

/// A directory with one file in it, removed when dropped.
struct InputDirectory(PathBuf);

impl InputDirectory {
    fn new(name: &str, bytes: &[u8]) -> InputDirectory {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("dlio-fuzz-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        std::fs::write(folder.join(name), bytes).expect("room for temporary files");
        InputDirectory(folder)
    }
}

impl Drop for InputDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens a file of this name, summarizes all of it and prints the result.
fn summarised(name: &str, bytes: &[u8]) {
    let given = InputDirectory::new(name, bytes);
    let path = given.0.join(name).display().to_string();
    let Ok(trace) = Trace::open(&[path], 1) else { return };
    for filter in [Filter::default(), Filter { cats: vec!["posix".into()], min_dur_ns: 1, ..Filter::default() }] {
        let Ok(analysis) = analyse(&trace, &filter, 1, &Progress::default()) else { continue };
        let summary = analysis.summary(&trace);
        text::print(&summary, (10, 80));
        serde_json::to_string(&summary).expect("a summary is JSON");
    }
}

pub fn native_file(bytes: &[u8]) {
    summarised("program-host-1-2.dlt", bytes);
}

pub fn ring_file(bytes: &[u8]) {
    summarised("program-host-1-2.ring", bytes);
}

pub fn perfetto_file(bytes: &[u8]) {
    summarised("trace.pftrace", bytes);
}

pub fn chrome_json(bytes: &[u8]) {
    summarised("trace.json", bytes);
}

pub fn dftracer_lines(bytes: &[u8]) {
    summarised("trace.pfw", bytes);
}

pub fn gzip_lines(bytes: &[u8]) {
    summarised("trace.pfw.gz", bytes);
}

pub fn strace_text(bytes: &[u8]) {
    summarised("strace.txt", bytes);
}

pub fn darshan_log(bytes: &[u8]) {
    summarised("job.darshan", bytes);
}

pub fn darshan_text(bytes: &[u8]) {
    summarised("dxt.txt", bytes);
}

pub fn parquet_file(bytes: &[u8]) {
    summarised("events.parquet", bytes);
}

/// Parses sizes, durations, times.
pub fn amounts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for amount in [TIMES, SIZES].into_iter().filter_map(|units| Amount::parse(&text, units)) {
        assert!(amount.number.is_finite());
    }
    assert!(
        time_argument::parse_duration(&text).is_ok_and(|ns| ns >= 0) || time_argument::parse_duration(&text).is_err()
    );
    let _ = size::parse_size(&text);
    let _ = time_argument::parse_when(&text).map(|when| when.ts(0));
    let _ = glob::Pattern::new(&text).is_ok_and(|pattern| pattern.matches("/data/a"));
}

/// Parses limits of comparisons, and files of rules.
pub fn limits(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = Limit::parse(&text);
    let _ = Limits::default().amend(&text);
}

/// Parses the sidecar that an earlier reading left next to a trace.
pub fn kept(bytes: &[u8]) {
    let given = InputDirectory::new(".dlio-cache", bytes);
    let typed = [given.0.display().to_string()];
    let kept = Cache::of(&typed, &[]).expect("a folder without traces");
    if let Some(remembered) = kept.load() {
        remembered.summary();
    }
}
