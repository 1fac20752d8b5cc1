//! Tests programs whose every call is known (`tests/foreign`), traced by us and by another tool: both traces are read
//! by dlio-analyze, and must contain the same calls, bytes, files and times. strace and VizTracer observe the run
//! that we trace. DFTracer intercepts the calls itself, so it has a separate run if it is installed (`make
//! bench-peers`), and otherwise a stored trace of the program.
//!
//! Darshan's runtime is not among them: neither Debian nor PyPI has it. `apt-cache search darshan` finds nothing, and
//! the package `darshan` of PyPI reads logs (`libdarshan-util`) and writes none. So there is a stored log
//! (`analyzer/tests/samples/dxt-darshan.txt`); with a self-built `libdarshan.so`, `DARSHAN_LIB` and `make bench`
//! measure it, too.

use std::path::{Path, PathBuf};
use std::process::Command;

use dlio_tests::compile::compile;
use dlio_tests::needs::{has, needs, needs_module};
use dlio_tests::sandbox::Sandbox;
use dlio_tests::{artefacts, home};

/// Returns the rows of a query, without its heading.
fn query_rows(trace: &Path, sql: &str) -> Vec<String> {
    let mut analyze = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = analyze.arg(trace).args(["--no-cache", "--format", "csv", "--sql", sql]).output().unwrap();
    assert!(output.status.success(), "{}: {}", trace.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().skip(1).map(String::from).collect()
}

/// Returns start and end of the chosen events.
fn times(trace: &Path, condition: &str) -> Vec<(i64, i64)> {
    let rows = query_rows(trace, &format!("select ts, ts + dur as till from events where {condition} order by ts"));
    let number = |text: &str| text.parse::<i64>().unwrap();
    rows.iter().map(|row| row.split_once(',').unwrap()).map(|(from, to)| (number(from), number(to))).collect()
}

/// Asserts that each inner event is within its outer one, except for the permitted difference of clocks.
fn assert_within(inner: &[(i64, i64)], outer: &[(i64, i64)], shift: i64) {
    const SLACK_NS: i64 = 1_000_000;
    assert_eq!(inner.len(), outer.len());
    for ((from, to), (after, before)) in inner.iter().zip(outer) {
        let is_within = from + shift >= after - SLACK_NS && to + shift <= before + SLACK_NS;
        assert!(is_within, "{from} to {to}, by {shift} later, is not within {after} to {before}");
    }
}

/// Runs the program in C under strace and the tracer at the same time; returns the texts and the trace.
fn run_known(sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let (program, data) = (sandbox.root().join("known"), sandbox.work().join("data"));
    compile(&home().join("foreign/known.c"), &program, &[]).unwrap();
    std::fs::create_dir(&data).unwrap();
    let texts = sandbox.root().join("strace.txt");
    let mut command = Command::new("strace");
    command.args(["-f", "-ttt", "-T", "-o"]).arg(&texts);
    for (name, value) in [("LD_PRELOAD", artefacts::library().unwrap()), ("DLIO_TRACE_DIR", sandbox.trace())] {
        command.arg("-E").arg(format!("{name}={}", value.display()));
    }
    let run = sandbox.run(command.arg(&program).arg(&data), true).unwrap();
    assert_eq!(run.exit, "42", "{}", String::from_utf8_lossy(&run.errors));
    (texts, sandbox.trace())
}

#[test]
fn strace_and_tracer_agree_on_one_run() {
    if !needs("strace") {
        return;
    }
    let sandbox = Sandbox::new("known.strace").unwrap();
    let (theirs, ours) = run_known(&sandbox);
    let same = |sql: &str| {
        let both = [query_rows(&theirs, sql), query_rows(&ours, sql)];
        assert_eq!(both[0], both[1], "{sql}");
        both[1].len()
    };
    assert_eq!(
        same("select path, bytes_read, bytes_written from files where path like '%/data/%' order by path"),
        3,
        "those that exist at the end, or existed before"
    );
    // By descriptor, for calls of the library that are system calls.
    let calls = "select name, count(*), count(*) filter (where ret < 0), sum(bytes) from events where file like '%/odd%' \
                 and name not in ('open', 'openat', 'fstat', 'fstatat') group by name order by name";
    assert_eq!(same(calls), 10);
    let failed = "select errno from events where file = '/nonexistent/file'";
    assert_eq!((same(failed), query_rows(&ours, failed)), (1, vec!["2".to_string()]));
    // strace stops a call within the time that we measure.
    let preads = "name = 'pread' and file like '%/items'";
    let (inner, outer) = (times(&theirs, preads), times(&ours, preads));
    assert_eq!(outer.len(), 100);
    assert_within(&inner, &outer, 0);
}

/// Asserts that DFTracer's trace contains the calls, bytes and files that ours does.
fn assert_dftracer_agrees(theirs: &Path, ours: &Path) {
    let calls = "select name, count(*), count(*) filter (where ret < 0), coalesce(sum(bytes), 0) from events \
                 where name in ('fopen', 'fclose', 'fwrite', 'fread', 'fputc', 'fgets', 'fgetc', 'write', 'pwrite', \
                 'writev', 'read', 'pread', 'copy_file_range', 'unlink', 'rename') \
                 and (file is null or file not like '<%') group by name order by name";
    let rows = query_rows(ours, calls);
    assert_eq!((rows.len(), &rows), (15, &query_rows(theirs, calls)));
    let files = "select regexp_replace(path, '^.*/', '') as name, bytes_read, bytes_written from files \
                 where path like '%/items' or path like '%/text' order by name";
    let rows = query_rows(ours, files);
    assert_eq!((rows.len(), &rows), (2, &query_rows(theirs, files)));
}

#[test]
fn stored_dftracer_trace_agrees_with_ours() {
    if !needs("strace") {
        return;
    }
    let sandbox = Sandbox::new("known.dftracer").unwrap();
    let (_, ours) = run_known(&sandbox);
    assert_dftracer_agrees(&home().join("../analyzer/tests/samples/dftracer-fork"), &ours);
}

/// Returns the library of DFTracer installed by `make bench-peers`.
fn dftracer() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let pythons = std::fs::read_dir(cache.join("dlio-venv-dftracer/lib")).ok()?;
    let library = "site-packages/dftracer/lib64/libdftracer_preload.so";
    pythons.flatten().map(|python| python.path().join(library)).find(|library| library.exists())
}

#[test]
fn run_under_dftracer_agrees_with_ours() {
    let library = dftracer();
    if !needs("strace") || !has("DFTracer", library.is_some()) {
        return;
    }
    let ours = Sandbox::new("known.ours").unwrap();
    let (_, our_trace) = run_known(&ours);
    let theirs = Sandbox::new("known.theirs").unwrap();
    let (data, trace) = (theirs.work().join("data"), theirs.root().join("dftracer"));
    std::fs::create_dir(&data).unwrap();
    std::fs::create_dir(&trace).unwrap();
    let mut command = Command::new(ours.root().join("known"));
    command.arg(&data).envs(library.map(|library| ("LD_PRELOAD", library))).env("DFTRACER_LOG_FILE", trace.join("own"));
    for (name, value) in [("ENABLE", "1"), ("INIT", "PRELOAD"), ("DATA_DIR", "all"), ("INC_METADATA", "1")] {
        command.env(format!("DFTRACER_{name}"), value);
    }
    let run = theirs.run(&mut command, true).unwrap();
    assert_eq!(run.exit, "42", "{}", String::from_utf8_lossy(&run.errors));
    assert_dftracer_agrees(&trace, &our_trace);
}

#[test]
fn viztracer_calls_contain_ours() {
    let python = std::env::var("DLIO_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    if !needs_module(&python, "viztracer") {
        return;
    }
    let sandbox = Sandbox::new("known.viztracer").unwrap();
    let theirs = sandbox.root().join("viztracer.json");
    let mut command = Command::new(&python);
    command.args(["-m", "viztracer", "--quiet", "-o"]).arg(&theirs).arg(home().join("foreign/known.py"));
    command.env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
    let run = sandbox.run(command.arg(sandbox.work()), true).unwrap();
    assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
    let ours = sandbox.trace();
    let mut shift = None;
    for (name, count) in [("pread", 50), ("write", 20), ("open", 1), ("close", 1)] {
        let inner = times(&ours, &format!("name = '{name}' and file like '%/blocks'"));
        let outer = times(&theirs, &format!("name = 'posix.{name}'"));
        assert_eq!((inner.len(), outer.len()), (count, count), "{name}");
        // Its clock has our clock's rate and an unknown start.
        let shift = *shift.get_or_insert(outer[0].0 - inner[0].0);
        assert_within(&inner, &outer, shift);
    }
    let moved = query_rows(&ours, "select bytes_read, bytes_written from files where path like '%/blocks'");
    assert_eq!(moved, ["5000,20000"]);
}
