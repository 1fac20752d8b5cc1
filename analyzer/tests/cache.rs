//! Tests that the cache between two openings of a trace is used if nothing has changed, and only then.

mod generator;
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dlio_analyzer::cache::Cache;
use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::{Trace, inputs};
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::analyse;
use dlio_analyzer::summary::report::Summary;
use generator::{Plan, file_of, generate};
use support::temp_dir;
use tempfile::TempDir;

/// Returns a trace whose files have not changed for a while.
fn made(name: &str) -> TempDir {
    let folder = temp_dir(name);
    generate(folder.path(), &Plan::default(), &|_, _, _| ()).unwrap();
    age(folder.path());
    folder
}

fn age(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let file = std::fs::File::options().append(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        }
    }
}

fn given(folder: &Path) -> Vec<String> {
    vec![folder.display().to_string()]
}

fn cache_of(folder: &Path) -> Cache {
    let given = given(folder);
    Cache::of(&given, &inputs::expand(&given).unwrap()).unwrap()
}

/// Counts everything and keeps it; returns the counts and whether they were kept.
fn count(folder: &Path) -> (Summary, bool) {
    let cache = cache_of(folder);
    let trace = Trace::open(&given(folder), 2).unwrap();
    let analysis = analyse(&trace, &Filter::default(), 2, &Progress::default()).unwrap();
    let summary = analysis.summary(&trace);
    let kept = cache.store(&trace, &analysis, &summary);
    (summary, kept)
}

fn remembered(folder: &Path) -> Option<Summary> {
    cache_of(folder).load()?.summary()
}

fn shown(summary: &Summary) -> String {
    serde_json::to_string(summary).unwrap()
}

#[test]
fn unchanged_trace_uses_the_cached_summary() {
    let folder = made("cache-same");
    let (counted, kept) = count(folder.path());
    assert!(kept);
    assert_eq!(shown(&remembered(folder.path()).unwrap()), shown(&counted));
    // The cache is not part of the trace, however often it is written.
    assert!(count(folder.path()).1);
    assert!(remembered(folder.path()).is_some());
}

#[test]
fn changed_new_and_removed_files_are_noticed() {
    let folder = made("cache-changes");
    let first = file_of(folder.path(), 0);
    let bytes = std::fs::read(&first).unwrap();
    let changes: [&dyn Fn(); 5] = [
        &|| std::fs::write(&first, &bytes[..bytes.len() - 1]).unwrap(),
        &|| std::fs::write(&first, &bytes).unwrap(),
        &|| assert!(std::fs::copy(&first, folder.path().join("another.dlt")).is_ok()),
        &|| std::fs::remove_file(folder.path().join("another.dlt")).unwrap(),
        // Equal bytes and times under an equal name in another file.
        &|| {
            let modified = std::fs::metadata(&first).unwrap().modified().unwrap();
            let copy = folder.path().join("copy");
            std::fs::write(&copy, &bytes).unwrap();
            std::fs::File::options().append(true).open(&copy).unwrap().set_modified(modified).unwrap();
            std::fs::rename(&copy, &first).unwrap();
        },
    ];
    for (number, change) in changes.iter().enumerate() {
        assert!(count(folder.path()).1);
        assert!(remembered(folder.path()).is_some());
        change();
        age(folder.path());
        assert!(remembered(folder.path()).is_none(), "change {number}");
    }
}

#[test]
fn recently_changed_trace_is_not_cached() {
    let folder = temp_dir("cache-fresh");
    generate(folder.path(), &Plan::default(), &|_, _, _| ()).unwrap();
    assert!(!count(folder.path()).1);
    assert!(remembered(folder.path()).is_none());
}

#[test]
fn file_that_grows_during_count_is_not_cached() {
    let folder = made("cache-grew");
    let cache = cache_of(folder.path());
    let trace = Trace::open(&given(folder.path()), 2).unwrap();
    let analysis = analyse(&trace, &Filter::default(), 2, &Progress::default()).unwrap();
    let file = file_of(folder.path(), 1);
    let longer = [std::fs::read(&file).unwrap(), vec![0; 100]].concat();
    std::fs::write(&file, longer).unwrap();
    assert!(!cache.store(&trace, &analysis, &analysis.summary(&trace)));
}

#[test]
fn damaged_cache_is_ignored() {
    let folder = made("cache-damaged");
    count(folder.path());
    let place = folder.path().join(".dlio-cache");
    let whole = std::fs::read(&place).unwrap();
    let truth = shown(&remembered(folder.path()).unwrap());
    for at in (0..whole.len()).step_by(7) {
        let mut spoiled = whole.clone();
        spoiled[at] ^= 0x10;
        std::fs::write(&place, &spoiled).unwrap();
        let read = remembered(folder.path());
        assert!(read.is_none_or(|summary| shown(&summary) == truth), "byte {at}");
        std::fs::write(&place, &whole[..at]).unwrap();
        assert!(remembered(folder.path()).is_none_or(|summary| shown(&summary) == truth), "cut at {at}");
    }
    std::fs::write(&place, "").unwrap();
    assert!(remembered(folder.path()).is_none());
}

/// Creates a directory of that name, which cannot be replaced by a file, even by root.
fn block(folder: &Path) -> PathBuf {
    let place = folder.join(".dlio-cache");
    std::fs::create_dir_all(place.join("taken")).unwrap();
    place
}

#[test]
fn read_only_directory_uses_the_user_cache() {
    let home = temp_dir("cache-home");
    let folder = made("cache-read-only");
    block(folder.path());
    // Variables belong to a whole process: the test runs itself again in a separate one.
    if std::env::var_os("XDG_CACHE_HOME")
        .is_none_or(|path| !path.to_string_lossy().contains("dlio-analyzer-cache-home"))
    {
        let name = "read_only_directory_uses_the_user_cache";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env("XDG_CACHE_HOME", home.path())
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let (counted, kept) = count(folder.path());
    assert!(kept);
    assert_eq!(shown(&remembered(folder.path()).unwrap()), shown(&counted));
    let users = PathBuf::from(std::env::var_os("XDG_CACHE_HOME").unwrap()).join("dlio");
    assert_eq!(std::fs::read_dir(users).unwrap().count(), 1);
}

#[test]
fn concurrent_readers_find_a_complete_cache() {
    let folder = made("cache-many");
    let truth = shown(&count(folder.path()).0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert!(remembered(folder.path()).is_none_or(|summary| shown(&summary) == truth));
                    count(folder.path());
                }
            });
        }
    });
    assert_eq!(shown(&remembered(folder.path()).unwrap()), truth);
    let left = std::fs::read_dir(folder.path()).unwrap().flatten().filter(|entry| entry.path().is_file());
    assert_eq!(left.count(), 3, "two traces and their cache");
}

#[test]
fn window_of_one_process_reads_few_blocks() {
    let folder = made("cache-window");
    count(folder.path());
    let cache = cache_of(folder.path());
    let mut trace = Trace::open(&given(folder.path()), 2).unwrap();
    let start = trace.start();
    let filter =
        Filter { from: Some(start + 2_000_000), to: Some(start + 2_500_000), pids: vec![1001], ..Filter::default() };
    let before = analyse(&trace, &filter, 2, &Progress::default()).unwrap();
    let truth = before.summary(&trace);
    cache.recall(&cache.load().unwrap(), &mut trace);
    let sieve = trace.sieve(&filter);
    let read = trace.units.iter().filter(|unit| sieve.may_take(unit)).count();
    assert!(read * 2 < trace.units.len(), "{read} of {}", trace.units.len());
    let progress = Progress::default();
    let found = analyse(&trace, &filter, 2, &progress).unwrap().summary(&trace);
    assert_eq!((shown(&found), truth.allocation.events > 0), (shown(&truth), true));
}

#[test]
fn categories_choose_blocks() {
    let folder = made("cache-categories");
    count(folder.path());
    let cache = cache_of(folder.path());
    let mut trace = Trace::open(&given(folder.path()), 2).unwrap();
    cache.recall(&cache.load().unwrap(), &mut trace);
    let taken = |cat: &str| {
        let filter = Filter { cats: vec![cat.into()], ..Filter::default() };
        let sieve = trace.sieve(&filter);
        trace.units.iter().filter(|unit| sieve.may_take(unit)).count()
    };
    assert_eq!((taken("POSIX"), taken("stdio"), taken("nonsense")), (trace.units.len(), 0, 0));
    let trace = Arc::new(trace);
    let filter = Filter { cats: vec!["compute".into()], ..Filter::default() };
    assert!(analyse(&trace, &filter, 2, &Progress::default()).unwrap().summary(&trace).allocation.events > 0);
}

/// Returns a trace of files with enough blocks to be in an index.
fn made_long(name: &str) -> TempDir {
    let folder = temp_dir(name);
    let plan = Plan { events: 500_000, files: 500, moments: true, copies: true, ..Plan::default() };
    generate(folder.path(), &plan, &|_, _, _| ()).unwrap();
    age(folder.path());
    folder
}

/// Opens a trace by its index, adds the data that the index lacked, and returns whether there was any.
fn open_by_index(folder: &Path) -> (Trace, bool) {
    let (given, cache) = (given(folder), cache_of(folder));
    let index = cache.index();
    let trace = Trace::of(inputs::find(&given).unwrap(), &given, 2, &index).unwrap();
    (trace, cache.store_index(&index))
}

/// Returns the description of a trace before its events are read.
fn described(trace: &Trace) -> String {
    let notes = trace.notes.lock().unwrap();
    format!("{} {:?} {:?} {:?} {notes:?}", trace.start(), trace.units, trace.catalog.processes(), trace.catalog.hosts())
}

fn walked(folder: &Path) -> Trace {
    Trace::open(&given(folder), 2).unwrap()
}

#[test]
fn index_gives_the_same_trace_as_a_walk() {
    let folder = made_long("cache-index");
    let truth = walked(folder.path());
    let (first, kept) = open_by_index(folder.path());
    assert!(kept);
    let (second, longer) = open_by_index(folder.path());
    assert!(!longer, "every file was found in the index");
    let start = truth.start();
    let window = Filter { from: Some(start + 3_000_000), to: Some(start + 5_000_000), ..Filter::default() };
    let of_one = Filter { pids: vec![1001], ..window.clone() };
    for trace in [&first, &second] {
        assert_eq!(described(trace), described(&truth));
    }
    for filter in [Filter::default(), window, of_one] {
        let summary = |trace: &Trace| analyse(trace, &filter, 2, &Progress::default()).unwrap().summary(trace);
        let expected = summary(&truth);
        assert!(expected.allocation.events > 0);
        assert_eq!(shown(&summary(&second)), shown(&expected));
    }
    // The index is not part of the trace, and is next to its cache.
    let names = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().starts_with(".dlio-cache")).count(), 1);
}

#[test]
fn index_of_a_changed_file_is_rejected() {
    let folder = made_long("cache-index-changes");
    let first = file_of(folder.path(), 0);
    let bytes = std::fs::read(&first).unwrap();
    let middle = bytes.len() / 2;
    let changes: [&dyn Fn(); 5] = [
        // Truncated, longer by an event's block, with another byte, other files, and unchanged.
        &|| std::fs::write(&first, &bytes[..middle]).unwrap(),
        &|| std::fs::write(&first, [&bytes[..], &bytes[16..middle]].concat()).unwrap(),
        &|| std::fs::write(&first, [&bytes[..middle], &[!bytes[middle]], &bytes[middle + 1..]].concat()).unwrap(),
        &|| assert!(std::fs::rename(&first, folder.path().join("moved.dlt")).is_ok()),
        &|| std::fs::write(&first, &bytes).unwrap(),
    ];
    for (number, change) in changes.iter().enumerate() {
        open_by_index(folder.path());
        change();
        age(folder.path());
        let truth = described(&walked(folder.path()));
        for _ in 0..2 {
            assert_eq!(described(&open_by_index(folder.path()).0), truth, "change {number}");
        }
    }
}

#[test]
fn new_file_needs_only_its_own_index() {
    let folder = made_long("cache-index-came");
    open_by_index(folder.path());
    let plan = Plan { events: 200_000, processes: 1, seed: 2, ..Plan::default() };
    let beside = temp_dir("cache-index-beside");
    generate(beside.path(), &plan, &|_, _, _| ()).unwrap();
    std::fs::copy(file_of(beside.path(), 0), folder.path().join("later.dlt")).unwrap();
    age(folder.path());
    let (trace, longer) = open_by_index(folder.path());
    assert_eq!((described(&trace), longer), (described(&walked(folder.path())), true));
    assert!(!open_by_index(folder.path()).1);
}

#[test]
fn an_index_of_other_files_or_none_at_all_changes_nothing() {
    let (folder, other) = (made_long("cache-index-own"), made_long("cache-index-foreign"));
    open_by_index(other.path());
    let name = ".dlio-cache-blocks";
    let truth = described(&walked(folder.path()));
    // Files of equal names and sizes, in another directory.
    std::fs::copy(other.path().join(name), folder.path().join(name)).unwrap();
    let (trace, longer) = open_by_index(folder.path());
    assert_eq!((described(&trace), longer), (truth.clone(), true));
    let whole = std::fs::read(folder.path().join(name)).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut spoiled = whole.clone();
        spoiled[at] ^= 0x10;
        for bytes in [&spoiled[..], &whole[..at], b"no index"] {
            std::fs::write(folder.path().join(name), bytes).unwrap();
            assert_eq!(described(&open_by_index(folder.path()).0), truth, "byte {at}");
        }
    }
}
