//! Tests that one run gives one summary in every format, and that the leftovers of a dying process next to its trace
//! change nothing.

mod generator;
mod support;

use std::path::{Path, PathBuf};

use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::Trace;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::analyse;
use dlio_analyzer::summary::exact_quantiles::refine;
use dlio_analyzer::summary::report::Summary;
use dlio_analyzer::tables::export::{self, ReportOptions};
use dlio_analyzer::viewer::forms::Form;
use dlio_schemas::native::ring;
use dlio_schemas::perfetto::pack::Compression;
use generator::{Plan, file_of, generate};
use support::exported::exported;
use support::temp_dir;
use tempfile::TempDir;

fn made(name: &str) -> TempDir {
    let folder = temp_dir(name);
    generate(folder.path(), &Plan::default(), &|_, _, _| ()).unwrap();
    folder
}

fn given(path: &Path) -> Vec<String> {
    vec![path.display().to_string()]
}

fn summary(path: &Path) -> Summary {
    let trace = Trace::open(&given(path), 2).unwrap();
    let (all, progress) = (Filter::default(), Progress::default());
    let mut analysis = analyse(&trace, &all, 2, &progress).unwrap();
    refine(&trace, &all, 2, &progress, &mut analysis).unwrap();
    analysis.summary(&trace)
}

fn shown(part: &impl std::fmt::Debug) -> String {
    format!("{part:?}")
}

/// Returns the division of the run time.
fn split(summary: &Summary) -> [Option<i64>; 7] {
    let time = &summary.time;
    let (total, io, other) = (Some(time.total_ns), time.io_ns, time.other_ns);
    [total, time.compute_ns, time.app_io_ns, io, time.unoverlapped_io_ns, time.unoverlapped_compute_ns, other]
}

/// Returns the waits of trainers.
fn waits(summary: &Summary) -> Vec<(i64, Option<i64>, Option<i64>)> {
    summary.training.iter().map(|group| (group.trained_ns, group.waited_ns, group.wait_io_ns)).collect()
}

fn moved(summary: &Summary) -> (u64, u64, u64) {
    (summary.dataset.files, summary.dataset.bytes_read, summary.dataset.bytes_written)
}

#[test]
fn every_format_of_a_run_gives_the_same_figures() {
    let folder = made("equal");
    let truth = summary(folder.path());
    let exports = temp_dir("equal-exports");
    let forms = [
        ("deflate.pftrace", Form::named("pftrace", Compression::Deflate, false)),
        ("zstd.pftrace", Form::named("pftrace", Compression::Zstd, false)),
        ("plain.pftrace", Form::named("pftrace", Compression::None, false)),
        ("chrome.json", Form::named("json", Compression::None, false)),
        ("chrome.json.gz", Form::named("json", Compression::None, true)),
    ];
    for (name, form) in forms {
        let found = summary(&exported(folder.path(), form, exports.path().join(name)));
        assert_eq!(shown(&found.functions), shown(&truth.functions), "{name}");
        assert_eq!(shown(&found.past_files), shown(&truth.past_files), "{name}");
        assert_eq!(shown(&found.spans), shown(&truth.spans), "{name}");
        assert_eq!(waits(&found), waits(&truth), "{name}");
        assert_eq!(split(&found), split(&truth), "{name}");
        assert_eq!(moved(&found), moved(&truth), "{name}");
        assert_eq!(found.time.start_ts, truth.time.start_ts, "{name}");
        assert_eq!(found.allocation.processes, truth.allocation.processes, "{name}");
        assert_eq!(found.allocation.threads, truth.allocation.threads, "{name}");
        assert!(found.damage.is_empty(), "{name}");
    }
}

#[test]
fn kernel_copies_survive_export() {
    let folder = temp_dir("equal-copies");
    generate(folder.path(), &Plan { copies: true, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let exports = temp_dir("equal-copies-exports");
    for (name, form) in [
        ("t.pftrace", Form::named("pftrace", Compression::Zstd, false)),
        ("t.json.gz", Form::named("json", Compression::None, true)),
    ] {
        let found = summary(&exported(folder.path(), form, exports.path().join(name)));
        assert_eq!(moved(&found), moved(&summary(folder.path())), "{name}");
    }
}

/// Its times are whole microseconds, and its lines contain no ranks, thread names or exit statuses.
#[test]
fn dftracer_export_gives_same_counts_and_bytes() {
    let folder = made("equal-dftracer");
    let truth = summary(folder.path());
    let exports = temp_dir("equal-dftracer-exports");
    for (name, gzip) in [("t.pfw", false), ("t.pfw.gz", true)] {
        let found =
            summary(&exported(folder.path(), Form::named("pfw", Compression::None, gzip), exports.path().join(name)));
        let counts = |summary: &Summary| {
            let all = summary.functions.iter().chain(&summary.past_files).chain(&summary.spans);
            let mut counts: Vec<_> = all
                .map(|f| (f.cat.to_lowercase(), f.name.clone(), f.count, f.failed, f.bytes, shown(&f.size)))
                .collect();
            counts.sort();
            counts
        };
        assert_eq!(counts(&found), counts(&truth), "{name}");
        assert_eq!(moved(&found), moved(&truth), "{name}");
        assert_eq!(found.allocation.events, truth.allocation.events, "{name}");
        assert_eq!(found.allocation.processes, truth.allocation.processes, "{name}");
        assert_eq!(found.allocation.threads, truth.allocation.threads, "{name}");
        // Each event may start and end up to a microsecond off.
        let slack = 2_000 * truth.allocation.events as i64;
        for (found, truth) in split(&found).into_iter().zip(split(&truth)) {
            assert_eq!(found.is_some(), truth.is_some(), "{name}");
            assert!(found.unwrap_or(0).abs_diff(truth.unwrap_or(0)) <= slack as u64, "{name}");
        }
        assert!(found.damage.is_empty(), "{name}");
    }
}

fn tables(folder: &Path, into: &Path) {
    let trace = Trace::open(&given(folder), 2).unwrap();
    export::write(&trace, &Filter::default(), (2, 1 << 30), &ReportOptions::default(), &Progress::default(), into)
        .unwrap();
}

#[test]
fn export_next_to_its_source_is_skipped() {
    let folder = made("duplicates");
    let truth = summary(folder.path());
    let exports = temp_dir("duplicates-exports");
    let merged = exported(
        folder.path(),
        Form::named("pftrace", Compression::Deflate, false),
        exports.path().join("all.pftrace"),
    );
    tables(folder.path(), &exports.path().join("tables"));
    let inside = folder.path().join("all.pftrace");
    std::fs::copy(&merged, &inside).unwrap();
    std::fs::rename(exports.path().join("tables"), folder.path().join("tables")).unwrap();
    let found = summary(folder.path());
    assert_eq!(shown(&found.functions), shown(&truth.functions));
    assert_eq!(shown(&found.allocation), shown(&truth.allocation));
    assert!(found.damage.is_empty());
    let passed: Vec<_> = found.passed_over.iter().map(|passed| (passed.path.clone(), passed.processes)).collect();
    let named = |path: PathBuf| (path.display().to_string(), truth.allocation.processes);
    assert_eq!(passed, [named(inside.clone()), named(folder.path().join("tables"))]);
    assert!(dlio_analyzer::summary::report::text::print(&found, (5, 9999)).contains("all.pftrace: "));
    // Without one of the native files, its process is read from the export, and the rest is not.
    std::fs::remove_dir_all(folder.path().join("tables")).unwrap();
    std::fs::remove_file(file_of(folder.path(), 0)).unwrap();
    let found = summary(folder.path());
    assert_eq!(shown(&found.functions), shown(&truth.functions));
    assert_eq!(found.allocation.events, truth.allocation.events);
    assert_eq!(found.passed_over[0].processes, truth.allocation.processes - 1);
    // Parquet next to a Perfetto trace only.
    tables(&merged, &exports.path().join("again"));
    let both = summary(exports.path());
    assert_eq!((both.allocation.events, both.passed_over.len()), (truth.allocation.events, 1));
}

#[test]
fn leftovers_of_a_complete_trace_are_not_counted() {
    let folder = made("beside");
    let truth = summary(folder.path());
    let stem = file_of(folder.path(), 0).with_extension("");
    let export =
        exported(folder.path(), Form::named("pftrace", Compression::Deflate, false), folder.path().join("x.pftrace"));
    let export_bytes = std::fs::read(&export).unwrap();
    std::fs::remove_file(&export).unwrap();
    let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", stem.display()));
    // An export that was being written when its process was killed, and one that was finished.
    std::fs::write(beside("pftrace.part"), &export_bytes[..export_bytes.len() / 2]).unwrap();
    std::fs::write(beside("pftrace"), &export_bytes).unwrap();
    // Rings without any data yet.
    std::fs::write(beside("ring"), "").unwrap();
    std::fs::write(folder.path().join("other.ring"), vec![0; 4096]).unwrap();
    let found = summary(folder.path());
    assert_eq!(shown(&found.functions), shown(&truth.functions));
    assert_eq!(shown(&found.allocation), shown(&truth.allocation));
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    // A damaged ring is reported, and costs only itself.
    let mut spoiled = ring::MAGIC.to_le_bytes().to_vec();
    spoiled.extend_from_slice(&[0xff; 5000]);
    std::fs::write(beside("ring"), &spoiled).unwrap();
    let found = summary(folder.path());
    assert_eq!(shown(&found.functions), shown(&truth.functions));
    assert_eq!(found.damage.len(), 1, "{:?}", found.damage);
}

/// `dfanalyzer` treats the time of the last event since 1970 as the duration of the job, and a bucket's edge as a
/// quantile.
#[test]
fn dfanalyzer_misreadings_are_avoided() {
    let folder = temp_dir("absurd");
    let line = |ts: u64, dur: u64| {
        format!(
            "{{\"name\":\"read\",\"cat\":\"POSIX\",\"pid\":1,\"tid\":1,\"ts\":{ts},\"dur\":{dur},\"ph\":1,\"args\":{{\"ret\":1048576,\"fname\":\"/data/f\"}}}}\n"
        )
    };
    let start = 1_795_219_511_000_000;
    let lines: Vec<_> = (0..1000).map(|i| line(start + 10 * i, if i < 980 { 1 } else { 3 })).collect();
    let path = folder.path().join("trace.pfw");
    std::fs::write(&path, lines.concat()).unwrap();
    let summary = summary(&path);
    assert_eq!(summary.time.total_ns, 9_993_000);
    let read = &summary.functions[0];
    assert_eq!((read.duration_ns.median, read.duration_ns.p99, read.duration_ns.max), (1000.0, 3000.0, 3000.0));
    assert_eq!((read.time_ns, summary.time.io_ns), (1_040_000, Some(1_040_000)));
    // MB is a million bytes, MiB 2^20.
    assert_eq!(summary.dataset.bytes_read, 1000 << 20);
    assert!(dlio_analyzer::summary::report::text::print(&summary, (5, 9999)).contains("1.05 GB"));
}
