//! Tests that the trace contains the requests that programs make through io_uring rings, with files, positions and bytes;
//! that requests which are not in it are counted; and that programs do not notice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::{artefacts, home, needs};
use serde_json::Value;

/// Returns a compiled program; `None` if its library is not installed.
fn compiled(sandbox: &Sandbox, source: &str, flags: &[&str]) -> Option<PathBuf> {
    if flags.contains(&"-luring") && !needs::has("liburing", Path::new("/usr/include/liburing.h").is_file()) {
        return None;
    }
    let binary = sandbox.root().join(source);
    compile(&home().join("rings").join(source).with_extension("c"), &binary, flags).unwrap();
    Some(binary)
}

/// Number and bytes of requests by name.
type Counts = BTreeMap<String, (i64, i64)>;

/// Runs a program; `None` if io_uring is not permitted here.
fn counted(command: &mut Command) -> Option<Counts> {
    let output = command.output().unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(77) {
        eprintln!("skipped: io_uring, or a mode of it, is not available here");
        return None;
    }
    assert!(output.status.success() && errors.is_empty(), "{command:?}: {} {errors}", output.status);
    let row = |line: &str| {
        let [name, count, bytes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        (name.to_string(), (count.parse().unwrap(), bytes.parse().unwrap()))
    };
    Some(printed.lines().map(row).filter(|(name, _)| name.starts_with("io_uring")).collect())
}

fn traced<'a>(command: &'a mut Command, sandbox: &Sandbox, variables: &[(&str, &str)]) -> &'a mut Command {
    let library = artefacts::library().unwrap();
    command.current_dir(sandbox.work()).env("LD_PRELOAD", library).env("DLIO_TRACE_DIR", sandbox.trace());
    command.envs(variables.iter().copied())
}

fn analyze(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = command.arg(sandbox.trace()).args(arguments).args(["--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn rows(sandbox: &Sandbox, sql: &str) -> Vec<Value> {
    analyze(sandbox, &["--sql", sql]).as_array().unwrap().clone()
}

/// Returns the requests in a trace.
fn recorded(sandbox: &Sandbox) -> Counts {
    let sql = "select name, count(*) n, coalesce(sum(bytes), 0) bytes from events where name like 'io_uring_%'
        and name not in ('io_uring_setup', 'io_uring_enter', 'io_uring_unseen') group by name";
    let number = |row: &Value, key: &str| row[key].as_i64().unwrap();
    let row = |row: &Value| (row["name"].as_str().unwrap().to_string(), (number(row, "n"), number(row, "bytes")));
    rows(sandbox, sql).iter().map(row).collect()
}

/// Returns the number of processes with requests that are not in a trace, and their number.
fn unseen(sandbox: &Sandbox) -> (i64, i64) {
    let who = &analyze(sandbox, &["--section", "allocation"])["allocation"];
    (who["uring"].as_i64().unwrap(), who["uring_requests"].as_i64().unwrap())
}

/// Results that are descriptors or zero are not bytes.
fn only_bytes(counts: Counts) -> Counts {
    let moves = |name: &str| ["read", "write", "send", "recv"].iter().any(|part| name.contains(part));
    let row = |(name, (count, bytes)): (String, (i64, i64))| {
        let bytes = if moves(&name) { bytes } else { 0 };
        (name, (count, bytes))
    };
    counts.into_iter().map(row).collect()
}

#[test]
fn requests_through_the_library_are_those_that_the_program_counts() {
    let sandbox = Sandbox::new("uring-library").unwrap();
    let Some(program) = compiled(&sandbox, "library", &["-luring"]) else { return };
    let modes = "reads large kinds registered functions peeks polled threads forks ends sockets handlers";
    for mode in modes.split(' ') {
        for format in ["native", "auto"] {
            sandbox.clear().unwrap();
            let mut command = Command::new(&program);
            let command = traced(command.arg(mode), &sandbox, &[("DLIO_TRACE_FORMAT", format)]);
            let Some(wanted) = counted(command) else { continue };
            assert_eq!(recorded(&sandbox), only_bytes(wanted), "{mode} as {format}");
            assert_eq!(unseen(&sandbox), (0, 0), "{mode} as {format}");
        }
    }
}

#[test]
fn files_of_requests_are_known_by_descriptor_and_by_index() {
    let sandbox = Sandbox::new("uring-files").unwrap();
    let Some(program) = compiled(&sandbox, "library", &["-luring"]) else { return };
    if counted(traced(Command::new(&program).arg("registered"), &sandbox, &[])).is_none() {
        return;
    }
    let sql = "select name, split_part(file, '/', -1) file, sum(bytes) bytes, min(pos) lo, max(pos) hi from events
        where name like 'io_uring_%' and class in ('read', 'write') group by 1, 2 order by 1, 2";
    let row = |name: &str, file: &str, bytes: i64, hi: i64| serde_json::json!({"name": name, "file": file, "bytes": bytes, "lo": 0, "hi": hi});
    let wanted = [
        row("io_uring_read_fixed", "data", 10 * 4096, 9 * 4096),
        row("io_uring_write", "direct", 700, 0),
        row("io_uring_write", "third", 300, 0),
        row("io_uring_write_fixed", "other", 10 * 4096, 9 * 4096),
    ];
    assert_eq!(rows(&sandbox, sql), wanted);
    sandbox.clear().unwrap();
    counted(traced(Command::new(&program).arg("kinds"), &sandbox, &[])).unwrap();
    let sql = "select name, split_part(file, '/', -1) file, requested, coalesce(-errno, ret) ret from events
        where name in ('io_uring_readv', 'io_uring_openat', 'io_uring_renameat', 'io_uring_close') order by ts";
    let row = |name: &str, file: Option<&str>, requested: Option<i64>, ret: Option<i64>| {
        let found = rows(&sandbox, sql).into_iter().find(|row| {
            row["name"] == name && row["file"] == Value::from(file) && (ret.is_none() || row["ret"] == Value::from(ret))
        });
        let found = found.unwrap_or_else(|| panic!("no {name} of {file:?}: {:#?}", rows(&sandbox, sql)));
        assert_eq!(found["requested"], Value::from(requested), "{name} of {file:?}");
    };
    row("io_uring_openat", Some("file"), None, None);
    row("io_uring_openat", None, None, Some(-14));
    row("io_uring_readv", Some("file"), Some(3000), Some(3000));
    row("io_uring_readv", Some("file"), Some(0), Some(-14));
    row("io_uring_renameat", Some("file"), None, Some(0));
    row("io_uring_close", Some("file"), None, Some(0));
}

#[test]
fn requests_without_a_library_are_recorded_or_counted() {
    let sandbox = Sandbox::new("uring-direct").unwrap();
    let program = compiled(&sandbox, "direct", &[]).unwrap();
    let run = |how: &str, variables: &[(&str, &str)]| {
        sandbox.clear().unwrap();
        counted(traced(Command::new(&program).arg(how), &sandbox, variables))
    };
    for how in ["function", "index"] {
        let Some(wanted) = run(how, &[]) else { return };
        assert_eq!((recorded(&sandbox), unseen(&sandbox)), (wanted, (0, 0)), "{how}");
    }
    let wanted = run("instruction", &[("DLIO_TRACE_INLINE", "1")]).unwrap();
    let library = artefacts::library().unwrap().with_file_name("libdliotrace_inline.so");
    if needs::has("the patching library", library.is_file()) {
        assert_eq!((recorded(&sandbox), unseen(&sandbox)), (wanted, (0, 0)), "by an instruction");
    }
    // Without patches only the results are counted.
    let wanted = run("instruction", &[]).unwrap();
    let all = wanted.values().map(|(count, _)| count).sum();
    assert_eq!((recorded(&sandbox), unseen(&sandbox)), (Counts::new(), (1, all)));
    let report = analyze(&sandbox, &[]);
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "uring-unseen");
    assert_eq!(finding.unwrap()["state"], "fired");
    let says = finding.unwrap()["says"].as_str().unwrap();
    assert!(says.starts_with("1,600 requests of 1 process through io_uring are not in the trace"), "{says}");
}

#[test]
fn summary_mode_counts_requests() {
    let sandbox = Sandbox::new("uring-summary").unwrap();
    let program = compiled(&sandbox, "direct", &[]).unwrap();
    let mut command = Command::new(&program);
    let Some(wanted) = counted(traced(&mut command, &sandbox, &[("DLIO_TRACE_MODE", "summary")])) else { return };
    let report = analyze(&sandbox, &[]);
    let functions = report["functions"].as_array().unwrap();
    for (name, (count, bytes)) in wanted {
        let row = functions.iter().find(|row| row["name"] == name.as_str()).unwrap();
        assert_eq!((row["count"].as_i64(), row["bytes"].as_i64()), (Some(count), Some(bytes)), "{name}");
    }
}

/// Returns the requests and bytes that fio reports for all its jobs, read and written.
fn reported_by_fio(report: &Path) -> [(i64, i64); 2] {
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let jobs = report["jobs"].as_array().unwrap();
    ["read", "write"].map(|side| {
        let sum = |field: &str| jobs.iter().map(|job| job[side][field].as_i64().unwrap()).sum();
        (sum("total_ios"), sum("io_bytes"))
    })
}

#[test]
fn trace_of_fio_equals_its_own_report() {
    if !needs::needs("fio") {
        return;
    }
    let sandbox = Sandbox::new("uring-fio").unwrap();
    let report = sandbox.root().join("report.json");
    let runs: &[&[&str]] = &[
        &["--rw=randrw"],
        &["--rw=randread", "--fixedbufs", "--registerfiles"],
        &["--rw=randrw", "--numjobs=4"],
        &["--rw=randread", "--numjobs=4", "--thread", "--iodepth_batch=8"],
        &["--rw=randread", "--nonvectored=0"],
        &["--rw=randread", "--fixedbufs", "--registerfiles", "--sqthread_poll"],
    ];
    for run in runs {
        sandbox.clear().unwrap();
        let mut command = Command::new("fio");
        command.args(["--name=job", "--size=4M", "--bs=4k", "--ioengine=io_uring", "--iodepth=16"]);
        command.args(["--output-format=json", "--output"]).arg(&report).args(*run);
        let output = traced(&mut command, &sandbox, &[("DLIO_TRACE_INLINE", "1")]).output().unwrap();
        if !output.status.success() {
            eprintln!("skipped: fio {run:?}: {}", String::from_utf8_lossy(&output.stderr));
            continue;
        }
        let [read, written] = reported_by_fio(&report);
        let recorded = recorded(&sandbox);
        let sum = |part: &str| {
            let of = recorded.iter().filter(|(name, _)| name.contains(part));
            of.fold((0, 0), |sum, (_, counts)| (sum.0 + counts.0, sum.1 + counts.1))
        };
        // A thread of the kernel submits, and fio calls nothing: unseen requests are counted.
        match run.contains(&"--sqthread_poll") {
            true => assert_eq!(sum("read").0 + unseen(&sandbox).1, read.0, "{run:?}"),
            false => assert_eq!((sum("read"), sum("write"), unseen(&sandbox)), (read, written, (0, 0)), "{run:?}"),
        }
    }
}
