//! Tests that the trace contains how long a device waited for data, against a simulated device whose times are known; and that
//! the driver is used only where it may be: the simulated one ends a process that makes a mistake.

use std::path::{Path, PathBuf};
use std::process::Command;

use dlio_tests::sandbox::{Run, Sandbox};
use dlio_tests::{artefacts, compile, home};
use serde_json::Value;

const PASSED: &str = "42";

/// Returns a driver that is compiled with the given options.
fn driver(sandbox: &Sandbox, name: &str, options: &[&str]) -> PathBuf {
    let file = sandbox.root().join(name);
    let soname = format!("-Wl,-soname,{name}");
    let flags = [&["-shared", "-fPIC", &soname], options].concat();
    compile::compile(&home().join("device/driver.c"), &file, &flags).unwrap();
    file
}

fn cuda(sandbox: &Sandbox) -> PathBuf {
    driver(sandbox, "libcuda.so.1", &[])
}

/// Runs a training in a mode.
fn train(sandbox: &Sandbox, driver: &Path, mode: &str, format: &str) -> Run {
    let program = sandbox.root().join("training");
    compile::compile(&home().join("device/training.c"), &program, &[]).unwrap();
    sandbox.clear().unwrap();
    let mut command = Command::new(program);
    command.arg(driver).arg(mode).env("LD_PRELOAD", artefacts::library().unwrap());
    command.env("DLIO_TRACE_DIR", sandbox.trace()).env("DLIO_TRACE_FORMAT", format);
    sandbox.run(&mut command, true).unwrap()
}

fn errors(run: &Run) -> String {
    String::from_utf8_lossy(&run.errors).into_owned()
}

/// Runs a training that must pass, and returns its output.
fn passed(sandbox: &Sandbox, driver: &Path, mode: &str, format: &str) -> String {
    let run = train(sandbox, driver, mode, format);
    assert_eq!((run.exit.as_str(), errors(&run).as_str()), (PASSED, ""), "{mode}");
    String::from_utf8(run.output).unwrap()
}

fn rows(sandbox: &Sandbox, sql: &str) -> Vec<Value> {
    // A process without events leaves no trace.
    if !sandbox.trace().exists() {
        return Vec::new();
    }
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    command.arg(sandbox.trace()).args(["--sql", sql, "--format", "json"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap().as_array().unwrap().clone()
}

/// A span of the device: start and end, on the clock of the program.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: i64,
    end: i64,
    step: i64,
}

/// The spans of the trace and the times of the events that the program printed.
struct Timeline {
    steps: Vec<Span>,
    waits: Vec<Span>,
    events: Vec<i64>,
}

impl Timeline {
    fn of(sandbox: &Sandbox, output: &str) -> Timeline {
        let numbers = |name: &str| -> Vec<i64> {
            output.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse().ok()).collect()
        };
        let sql =
            "select name, ts, dur, step, cast(args['device'] as bigint) device, cast(args['stream'] as bigint) stream,
            cat from events where cat in ('gpu', 'gpu_idle') or name = 'zero' order by ts";
        let rows = rows(sandbox, sql);
        let number = |row: &Value, key: &str| row[key].as_i64().unwrap_or_else(|| panic!("{key} of {row}"));
        let zero = rows.iter().find(|row| row["name"] == "zero").expect("the instant of the program");
        let shift = numbers("zero")[0] - number(zero, "ts");
        let spans = |name: &str, category: &str| -> Vec<Span> {
            let of_name = rows.iter().filter(|row| row["name"] == *name);
            let span = |row: &Value| {
                assert_eq!((row["cat"].as_str().unwrap(), number(row, "device")), (category, 3), "{row}");
                let start = number(row, "ts") + shift;
                Span { start, end: start + number(row, "dur"), step: number(row, "step") }
            };
            of_name.map(span).collect()
        };
        Timeline {
            steps: spans("gpu.step", "gpu"),
            waits: spans("gpu.data_wait", "gpu_idle"),
            events: numbers("event"),
        }
    }

    /// Checks every wait and step against the events: durations to 1 %, positions to `within`.
    fn check(&self, within: i64) {
        let pairs: Vec<_> = self.events.chunks_exact(2).collect();
        assert_eq!(self.waits.len(), pairs.len());
        assert_eq!(self.steps.len(), pairs.len() - 1);
        for (wait, pair) in self.waits.iter().zip(&pairs) {
            near(wait, pair[0], pair[1], within);
        }
        for (step, pair) in self.steps.iter().zip(self.events[1..].chunks_exact(2)) {
            near(step, pair[0], pair[1], within);
        }
        assert!(self.waits.iter().map(|wait| wait.step).eq(0..pairs.len() as i64));
        assert!(self.steps.iter().map(|step| step.step).eq(0..pairs.len() as i64 - 1));
    }

    fn waited(&self) -> i64 {
        self.waits.iter().map(|wait| wait.end - wait.start).sum()
    }
}

fn near(span: &Span, start: i64, end: i64, within: i64) {
    let error = (span.end - span.start - (end - start)).abs();
    // The driver's times have steps of less than a tenth of a microsecond.
    assert!(error <= (end - start) / 100 + 200, "{span:?} lasts {} ns, not {}", span.end - span.start, end - start);
    assert!((span.start - start).abs() <= within, "{span:?} starts {} ns late", span.start - start);
}

/// Returns the number of calls of `next()` for which the wait is unknown.
fn unresolved(sandbox: &Sandbox) -> Vec<i64> {
    let sql = "select cast(args['count'] as bigint) n from events where name = 'gpu.unresolved' and cat = 'gpu_idle'";
    rows(sandbox, sql).iter().map(|row| row["n"].as_i64().unwrap()).collect()
}

fn count(sandbox: &Sandbox, name: &str) -> i64 {
    let rows = rows(sandbox, &format!("select count(*) n from events where name = '{name}'"));
    rows.first().map_or(0, |row| row["n"].as_i64().unwrap())
}

#[test]
fn wait_of_the_host_behind_queued_work_is_no_wait_of_the_device() {
    let sandbox = Sandbox::new("device-hidden").unwrap();
    let driver = cuda(&sandbox);
    for format in ["native", "auto"] {
        let output = passed(&sandbox, &driver, "hidden", format);
        let timeline = Timeline::of(&sandbox, &output);
        // Events that complete late are anchored by the few that are seen to complete.
        timeline.check(500_000);
        // All but the first wait, before which there is no work.
        let hidden: i64 = timeline.waits[1..].iter().map(|wait| wait.end - wait.start).sum();
        assert!(hidden < 6_000, "{hidden} ns in {format}");
        assert_eq!(unresolved(&sandbox), [0; 0]);
    }
}

#[test]
fn wait_of_a_starved_device_is_exact() {
    let sandbox = Sandbox::new("device-starved").unwrap();
    let driver = cuda(&sandbox);
    for format in ["native", "auto"] {
        let output = passed(&sandbox, &driver, "starved", format);
        let timeline = Timeline::of(&sandbox, &output);
        timeline.check(100_000);
        assert!(timeline.waited() > 60 * 1_000_000, "{} ns", timeline.waited());
        assert_eq!(unresolved(&sandbox), [0; 0]);
    }
}

#[test]
fn driver_of_amd_is_used_like_that_of_nvidia() {
    let sandbox = Sandbox::new("device-hip").unwrap();
    let driver = driver(&sandbox, "libamdhip64.so.6", &["-DHIP"]);
    let output = passed(&sandbox, &driver, "starved", "native");
    Timeline::of(&sandbox, &output).check(100_000);
    // An error that the program has not read yet is left to it.
    passed(&sandbox, &driver, "error", "native");
    assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (0, vec![61]));
}

#[test]
fn drifting_clock_is_followed() {
    let sandbox = Sandbox::new("device-drifting").unwrap();
    let output = passed(&sandbox, &cuda(&sandbox), "drifting", "native");
    Timeline::of(&sandbox, &output).check(100_000);
}

#[test]
fn capture_of_a_graph_contains_no_event() {
    let sandbox = Sandbox::new("device-captured").unwrap();
    passed(&sandbox, &cuda(&sandbox), "captured", "native");
    assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (51, vec![10]));
    // None covers a wait that was not measured.
    assert_eq!(count(&sandbox, "gpu.step"), 49);
}

#[test]
fn pair_on_two_streams_is_dropped() {
    let sandbox = Sandbox::new("device-streams").unwrap();
    passed(&sandbox, &cuda(&sandbox), "stream-changes", "native");
    assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (55, vec![6]));
}

#[test]
fn events_of_a_destroyed_context_are_not_touched() {
    let sandbox = Sandbox::new("device-contexts").unwrap();
    let driver = cuda(&sandbox);
    for mode in ["context-destroyed", "context-destroyed-within"] {
        passed(&sandbox, &driver, mode, "native");
        let known = count(&sandbox, "gpu.data_wait");
        assert_eq!(known + unresolved(&sandbox)[0], 61, "{mode}");
        let least = if mode == "context-destroyed" { 45 } else { 55 };
        assert!((least..=60).contains(&known), "{mode}: {known}");
    }
}

#[test]
fn lost_device_ends_the_measurement() {
    let sandbox = Sandbox::new("device-lost").unwrap();
    passed(&sandbox, &cuda(&sandbox), "device-lost", "native");
    let known = count(&sandbox, "gpu.data_wait");
    assert!((5..=10).contains(&known), "{known}");
    assert_eq!(known + unresolved(&sandbox)[0], 61);
}

#[test]
fn events_that_never_complete_are_counted() {
    let sandbox = Sandbox::new("device-unresolved").unwrap();
    let driver = cuda(&sandbox);
    passed(&sandbox, &driver, "killed-queue", "native");
    assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (31, vec![30]));
    // More pairs than may be in flight.
    passed(&sandbox, &driver, "full", "native");
    let known = count(&sandbox, "gpu.data_wait");
    assert!((64..200).contains(&known), "{known}");
    assert_eq!(known + unresolved(&sandbox)[0], 201);
}

#[test]
fn children_leave_the_device_alone() {
    let sandbox = Sandbox::new("device-children").unwrap();
    let driver = cuda(&sandbox);
    passed(&sandbox, &driver, "fork", "native");
    assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (64, vec![]));
    passed(&sandbox, &driver, "exec", "native");
    let known = count(&sandbox, "gpu.data_wait");
    assert_eq!(known + unresolved(&sandbox).first().unwrap_or(&0), 61);
    passed(&sandbox, &driver, "quick", "native");
    assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (61, vec![]));
}

#[test]
fn calls_within_and_beside_another_are_told_apart() {
    let sandbox = Sandbox::new("device-nested").unwrap();
    let driver = cuda(&sandbox);
    passed(&sandbox, &driver, "nested", "native");
    assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (61, vec![]));
    passed(&sandbox, &driver, "thread", "native");
    assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (62, vec![7]));
}

#[test]
fn process_without_a_usable_driver_is_left_alone() {
    let sandbox = Sandbox::new("device-none").unwrap();
    let driver_of = |name: &str, options: &[&str]| driver(&sandbox, name, options);
    let current = cuda(&sandbox);
    for mode in ["no-driver", "not-initialized"] {
        passed(&sandbox, &current, mode, "native");
        assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (0, vec![]), "{mode}");
    }
    // Before CUDA 12, contexts and streams have no numbers.
    passed(&sandbox, &driver_of("libcuda.so.1", &["-DOLD"]), "starved", "native");
    assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (61, vec![]));
    // A driver that cannot report captures.
    passed(&sandbox, &driver_of("libcuda.so.1", &["-DOLD", "-DOLDEST"]), "starved", "native");
    assert_eq!((count(&sandbox, "gpu.data_wait"), unresolved(&sandbox)), (0, vec![61]));
}

#[test]
fn step_costs_few_calls_of_the_driver() {
    let sandbox = Sandbox::new("device-cost").unwrap();
    let output = passed(&sandbox, &cuda(&sandbox), "cost", "native");
    let calls: u64 = output.trim().rsplit(' ').next().unwrap().parse().unwrap();
    // Two events are recorded, queried and timed; the rest checks context, capture and mode.
    assert!(calls <= 20, "{output}");
}

/// Returns a library that is linked with a version of the runtime.
fn part(sandbox: &Sandbox, version: u32, options: &[&str]) -> PathBuf {
    let source = home().join("device/runtime.c");
    let (runtime, part) = (format!("libcudart.so.{version}"), sandbox.root().join(format!("part{version}.so")));
    let folder = sandbox.root().to_str().unwrap();
    let soname = format!("-Wl,-soname,{runtime}");
    compile::compile(&source, &sandbox.root().join(&runtime), &["-shared", "-fPIC", &soname]).unwrap();
    let (linked, path) = (format!("-l:{runtime}"), format!("-Wl,-rpath,{folder}"));
    let flags = [&["-shared", "-fPIC", "-DPART", "-L", folder, &linked, &path], options].concat();
    compile::compile(&source, &part, &flags).unwrap();
    part
}

/// Runs a program that waits, and returns its calls by name: their number, the shortest and longest in microseconds, their
/// bytes, and their largest error.
fn wait_with(sandbox: &Sandbox, how: &str, parts: &[PathBuf]) -> Vec<(String, i64, i64, i64, i64, i64)> {
    let program = sandbox.root().join("waits");
    compile::compile(&home().join("device/waits.c"), &program, &[]).unwrap();
    sandbox.clear().unwrap();
    let mut command = Command::new(program);
    command.arg(how).arg(cuda(sandbox)).args(parts).env("LD_PRELOAD", artefacts::library().unwrap());
    command.env("DLIO_TRACE_DIR", sandbox.trace());
    let run = sandbox.run(&mut command, true).unwrap();
    assert_eq!((run.exit.as_str(), errors(&run).as_str()), (PASSED, ""));
    let sql =
        "select name, count(*) n, min(dur) / 1000 shortest, max(dur) / 1000 longest, sum(coalesce(requested, 0)) bytes,
        max(coalesce(errno, 0)) error, min(class) as class from events where layer = 'device' group by name order by name";
    let of_row = |row: &Value| {
        assert_eq!(row["class"], "wait", "{row}");
        let number = |key: &str| row[key].as_i64().unwrap_or_else(|| panic!("{key} of {row}"));
        let name = row["name"].as_str().unwrap().to_string();
        (name, number("n"), number("shortest"), number("longest"), number("bytes"), number("error"))
    };
    rows(sandbox, sql).iter().map(of_row).collect()
}

/// Checks calls against names, numbers, microseconds that each takes at least, bytes and errors.
fn check_waits(found: &[(String, i64, i64, i64, i64, i64)], wanted: &[(&str, i64, i64, i64, i64)]) {
    assert_eq!(found.len(), wanted.len(), "{found:?}");
    for ((name, count, shortest, _, bytes, error), wanted) in found.iter().zip(wanted) {
        assert_eq!((name.as_str(), *count, *bytes, *error), (wanted.0, wanted.1, wanted.3, wanted.4), "{found:?}");
        assert!(*shortest >= wanted.2, "{name} took {shortest} us");
    }
}

#[test]
fn waits_by_two_versions_of_the_runtime_are_recorded() {
    let sandbox = Sandbox::new("device-waits").unwrap();
    let parts = [part(&sandbox, 12, &[]), part(&sandbox, 13, &["-Wl,-z,now"])];
    let found = wait_with(&sandbox, "runtime", &parts);
    check_waits(
        &found,
        &[
            ("cudaDeviceSynchronize", 2, 700, 0, 0),
            ("cudaEventSynchronize", 3, 1500, 0, 0),
            ("cudaMemcpy", 3, 500, 40 + 4096, 400),
            ("cudaStreamSynchronize", 8, 1000, 0, 0),
        ],
    );
}

#[test]
fn calls_of_the_driver_are_recorded_unless_the_runtime_makes_them() {
    let sandbox = Sandbox::new("device-driver").unwrap();
    let found = wait_with(&sandbox, "driver", &[part(&sandbox, 12, &[])]);
    check_waits(
        &found,
        &[
            ("cuCtxSynchronize", 1, 900, 0, 0),
            ("cuEventSynchronize", 1, 900, 0, 0),
            ("cuMemcpyHtoD_v2", 1, 900, 64, 0),
            ("cuStreamSynchronize", 1, 1900, 0, 0),
            ("cudaDeviceSynchronize", 1, 700, 0, 0),
            ("cudaEventSynchronize", 1, 3000, 0, 0),
            ("cudaMemcpy", 1, 500, 20, 0),
            ("cudaStreamSynchronize", 4, 1000, 0, 0),
        ],
    );
}
