//! Tests traces in a bucket: the numbers are those of the files, and only the needed part of a large trace is
//! fetched.

#[path = "../../benchmark/tests/store/mod.rs"]
mod store;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use dlio_tests::artefacts;
use dlio_tests::sandbox::Sandbox;
use store::{Fault, Store};

/// The store accepts only keys of its own bucket.
const BUCKET: &str = "s3://bucket";

fn traced(folder: &Path, form: &str, program: &[&str]) {
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    command.args(["trace", "--all", "-o", "trace", "--format", form, "--"]).args(program).current_dir(folder);
    let output = command.env("DLIO_LIB", artefacts::library().unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn upload(store: &Store, folder: &Path) {
    for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap()) {
        store.put(&format!("runs/one/{}", file.file_name().to_string_lossy()), fs::read(file.path()).unwrap());
    }
}

/// Returns the total size of the files in a directory.
fn size(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

fn analyze(store: &Store, arguments: &[&str]) -> Output {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let scratch = std::env::temp_dir();
    command.args(arguments).arg("--no-cache").envs(store.variables()).env("XDG_CACHE_HOME", scratch).output().unwrap()
}

fn answer(store: &Store, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = analyze(store, arguments);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn complaint(store: &Store, arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = analyze(store, arguments);
    assert!(!status.success(), "{arguments:?}");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn bucket_counts_like_a_directory() {
    let sandbox = Sandbox::new("bucket").unwrap();
    let folder = sandbox.root();
    fs::write(folder.join("data"), vec![7; 300_000]).unwrap();
    traced(folder, "native", &["dd", "if=data", "of=copy", "bs=4k"]);
    traced(folder, "perfetto", &["cat", "data"]);
    traced(folder, "chrome", &["cksum", "data"]);
    fs::copy(folder.join("data"), folder.join("trace/no-trace.bin")).unwrap();
    let store = Store::start();
    upload(&store, &folder.join("trace"));
    let (there, here) = (format!("{BUCKET}/runs/one"), folder.join("trace").display().to_string());
    for question in [
        &["--format", "json"][..],
        &["--sql", "select name, file, pos, bytes, ts from events order by ts, name, pos", "--format", "csv"],
        &["--sql", "select * from processes order by pid", "--format", "csv"],
    ] {
        let asked = |place: &str| answer(&store, &[&[place], question].concat()).replace(place, "TRACE");
        assert_eq!(asked(&there), asked(&here), "{question:?}");
    }
    let pattern = format!("{BUCKET}/runs/*/dd-*");
    let counted = answer(&store, &[&pattern, "--sql", "select count(distinct pid) n from events", "--format", "csv"]);
    assert_eq!(counted, "n\n1\n");
}

#[test]
fn query_for_one_process_fetches_its_files() {
    let sandbox = Sandbox::new("bucket-process").unwrap();
    let folder = sandbox.root();
    fs::write(folder.join("data"), vec![7; 1 << 20]).unwrap();
    traced(folder, "native", &["dd", "if=data", "of=copy", "bs=1"]);
    traced(folder, "native", &["cksum", "data"]);
    let store = Store::start();
    upload(&store, &folder.join("trace"));
    let size = size(&folder.join("trace"));
    let (there, of_all) = (format!("{BUCKET}/runs/one/"), "select count(*) n from events");
    let counted = answer(&store, &[&there, "--sql", of_all, "--format", "csv"]);
    assert!(counted.trim_start_matches("n\n").trim().parse::<u64>().unwrap() > 2 << 20, "{counted}");
    // Threads that continue in the windows of other threads fetch some bytes twice.
    let whole = store.sent() as u64;
    assert!(whole < size * 2, "{whole} bytes of {size} for all of it");
    let of_processes = "select pid from processes where program = 'cksum'";
    let pid = answer(&store, &[&there, "--sql", of_processes, "--format", "csv"]);
    let pid = pid.trim_start_matches("pid\n").trim();
    store.forget();
    let of_one = "select sum(bytes) n from events where name like '%read'";
    assert_eq!(answer(&store, &[&there, "--pid", pid, "--sql", of_one, "--format", "csv"]), "n\n1048576\n");
    let part = store.sent() as u64;
    assert!(part < size / 10, "{part} bytes of {size} for one process");
}

#[test]
fn time_window_fetches_only_its_blocks() {
    let sandbox = Sandbox::new("bucket-window").unwrap();
    let folder = sandbox.root();
    fs::write(folder.join("data"), vec![7; 2 << 20]).unwrap();
    traced(folder, "native", &["dd", "if=data", "of=copy", "bs=1"]);
    let store = Store::start();
    upload(&store, &folder.join("trace"));
    let size = size(&folder.join("trace"));
    let there = format!("{BUCKET}/runs/one/");
    // A share of the events, not of the time: a busy host makes few events for a while.
    let at = |share| format!("cast(approx_percentile_cont({share}) within group (order by ts) as bigint)");
    let bounds = format!("select {} a, {} b from events", at(0.5), at(0.51));
    let bounds = answer(&store, &[&there, "--sql", &bounds, "--format", "csv"]);
    let (from, to) = bounds.lines().nth(1).and_then(|row| row.split_once(',')).unwrap();
    let counted = format!("select count(*) n from events where ts >= {from} and ts < {to}");
    let here = folder.join("trace").display().to_string();
    let expected = answer(&store, &[&here, "--sql", &counted, "--format", "csv"]);
    store.forget();
    assert_eq!(answer(&store, &[&there, "--sql", &counted, "--format", "csv"]), expected);
    let part = store.sent() as u64;
    assert!(part < size / 6, "{part} bytes of {size} for a hundredth of the events: {from} to {to}");
}

#[test]
fn workers_read_their_bucket() {
    let sandbox = Sandbox::new("bucket-workers").unwrap();
    let folder = sandbox.root();
    fs::write(folder.join("data"), vec![7; 300_000]).unwrap();
    traced(folder, "native", &["dd", "if=data", "of=copy", "bs=1k"]);
    traced(folder, "native", &["cksum", "data"]);
    traced(folder, "perfetto", &["cat", "data"]);
    let store = Store::start();
    upload(&store, &folder.join("trace"));
    let (whole, pattern) = (format!("{BUCKET}/runs/one"), format!("{BUCKET}/runs/*/dd-*"));
    for place in [&whole, &pattern] {
        for question in [
            &["--format", "json"][..],
            &["--sql", "select name, file, pos, bytes, ts from events order by ts, name, pos", "--format", "csv"],
            &["--sql", "select name, sum(bytes) b from events group by 1 order by 1", "--format", "csv"],
        ] {
            let alone = answer(&store, &[&[place.as_str()], question].concat());
            let together = answer(&store, &[&[place.as_str()], question, &["--workers", "local:2"]].concat());
            assert_eq!(alone, together, "{place}, {question:?}");
        }
    }
    let worker = Worker::of(&store, &format!("{BUCKET}/runs/one"));
    let asked = |place: &str| analyze(&store, &[place, "--workers", &worker.address]);
    assert!(asked(&whole).status.success());
    let refused = String::from_utf8(asked(&format!("{BUCKET}/runs")).stderr).unwrap();
    assert!(refused.contains("is not below one of its roots (s3://bucket/runs/one)"), "{refused}");
}

/// A worker that reads a location in a bucket, and ends with this.
struct Worker {
    child: Child,
    address: String,
}

impl Worker {
    fn of(store: &Store, root: &str) -> Worker {
        let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
        command.args(["worker", "--listen", "127.0.0.1:0", "--until-stdin-ends", "--root", root]);
        let started = command.envs(store.variables()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Worker { child, address: line.trim().trim_start_matches("listening on ").to_string() }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn bucket_errors_have_a_remedy() {
    let store = Store::start();
    let nothing = complaint(&store, &["s3://bucket/nothing"]);
    assert!(nothing.contains("contains no such objects") && nothing.contains("aws s3 ls"), "{nothing}");
    store.put("runs/a.dlt", vec![0; 5000]);
    store.plan("GET", "", 1, Fault::Answer(403, "InvalidAccessKeyId", Vec::new()));
    let refused = complaint(&store, &["s3://bucket/runs"]);
    assert!(refused.contains("AWS_ACCESS_KEY_ID") && refused.lines().count() == 1, "{refused}");
    let no_trace = complaint(&store, &["s3://bucket/runs/a.dlt"]);
    assert!(no_trace.contains("s3://bucket/runs/a.dlt: it starts with zero bytes"), "{no_trace}");
}
