//! Tests `dlio top` with programs whose every call is known.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use dlio_tests::compile::compile;
use dlio_tests::needs::needs_module;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::{artefacts, home};
use serde_json::Value;

/// More than three blocks, and some in the ring.
const READS: u64 = 7_777;
const OPENS: u64 = 333;

/// A worker that waits after each of its steps: see `tests/top/worker.c`.
struct Worker {
    process: Child,
    asked: Option<ChildStdin>,
    message: BufReader<ChildStdout>,
}

impl Worker {
    fn start(sandbox: &Sandbox, (reads, opens): (u64, u64), variables: &[(&str, PathBuf)]) -> Worker {
        let binary = sandbox.root().join("worker");
        if !binary.exists() {
            compile(&home().join("top/worker.c"), &binary, &[]).unwrap();
        }
        let mut command = Command::new(&binary);
        command.arg(sandbox.work()).args([reads.to_string(), opens.to_string()]);
        command.env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let asked = process.stdin.take();
        let message = BufReader::new(process.stdout.take().unwrap());
        let mut worker = Worker { process, asked, message };
        worker.wait();
        worker
    }

    /// Waits until a step is done.
    fn wait(&mut self) {
        let mut line = String::new();
        self.message.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }

    fn step(&mut self) {
        self.asked.as_mut().unwrap().write_all(b"\n").unwrap();
        self.wait();
    }

    fn end(mut self) {
        drop(self.asked.take());
        assert_eq!(self.process.wait().unwrap().code(), Some(42));
    }
}

fn top(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let mut command = Command::new(artefacts::command("dlio-top").unwrap());
    let output = command.arg(sandbox.trace()).args(arguments).output().unwrap();
    let (out, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && errors.is_empty(), "{arguments:?}: {out}{errors}");
    out
}

fn seen(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&top(sandbox, &["--once", "--format", "json", "--interval", "0.1"])).unwrap()
}

/// Returns calls, failures and bytes of an operation since the processes started.
fn total(snapshot: &Value, operation: &str) -> [u64; 3] {
    let rows = snapshot["operations"].as_array().unwrap();
    let row =
        rows.iter().find(|row| row["operation"] == operation).unwrap_or_else(|| panic!("{operation}: {snapshot:#}"));
    let number = |field: &str| row["total"][field].as_u64().unwrap();
    [number("calls"), number("failed"), number("bytes_read") + number("bytes_written")]
}

/// Asserts that after `steps` steps every number is what the worker did.
fn assert_exact(snapshot: &Value, workers: u64, steps: u64) {
    let (reads, opens) = (workers * steps * READS, workers * steps * OPENS);
    assert_eq!(total(snapshot, "pread"), [reads, 0, reads * 100]);
    assert_eq!(total(snapshot, "open"), [workers + opens, opens, 0]);
    // To its file once, and to the pipe after each step.
    assert_eq!(total(snapshot, "write"), [workers + workers * steps, 0, workers * 1000 + workers * steps * 5]);
    let processes = snapshot["processes"].as_array().unwrap();
    assert_eq!(
        (processes.len() as u64, snapshot["lost"].as_u64(), snapshot["exact"].as_bool()),
        (workers, Some(0), Some(true))
    );
    for process in processes {
        let files = &process["total"];
        assert_eq!(files["bytes_read"].as_u64(), Some(steps * READS * 100), "{process:#}");
        assert_eq!(files["bytes_written"].as_u64(), Some(1000), "what goes into a pipe is not in a file");
        assert_eq!(process["name"], "worker");
    }
}

fn assert_exact_with(name: &str, variables: &[(&str, &str)]) {
    let sandbox = Sandbox::new(name).unwrap();
    let value = |text: &str| PathBuf::from(text.replace("{root}", &sandbox.root().display().to_string()));
    let variables: Vec<_> = variables.iter().map(|(name, text)| (*name, value(text))).collect();
    let mut worker = Worker::start(&sandbox, (READS, OPENS), &variables);
    assert_exact(&seen(&sandbox), 1, 1);
    worker.step();
    worker.step();
    assert_exact(&seen(&sandbox), 1, 3);
    worker.end();
    let after = seen(&sandbox);
    assert_eq!((after["processes"].as_array().map(Vec::len), after["ended"].as_u64()), (Some(0), Some(1)));
}

#[test]
fn calls_of_a_full_trace_are_counted_once() {
    assert_exact_with("top.full", &[("DLIO_TRACE_FORMAT", "native")]);
}

#[test]
fn calls_of_a_table_are_counted_once() {
    assert_exact_with("top.summary", &[("DLIO_TRACE_MODE", "summary")]);
}

#[test]
fn calls_count_once_across_a_full_trace() {
    assert_exact_with("top.limited", &[("DLIO_TRACE_MAX_MB", "1"), ("DLIO_TRACE_FORMAT", "native")]);
}

#[test]
fn calls_of_a_flight_recorder_are_counted_once() {
    let sandbox = Sandbox::new("top.recorder").unwrap();
    let mut worker = Worker::start(&sandbox, (READS, OPENS), &[("DLIO_TRACE_LAST", "1s".into())]);
    assert_exact(&seen(&sandbox), 1, 1);
    let dlt = || {
        std::fs::read_dir(sandbox.trace())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|e| e == "dlt"))
    };
    let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(dlt().unwrap()).unwrap());
    let (first, mut steps) = (inode(), 1);
    // Until the file has been replaced.
    while inode() == first && steps < 1000 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        worker.step();
        steps += 1;
    }
    assert!(steps < 1000);
    assert_exact(&seen(&sandbox), 1, steps);
    worker.end();
}

#[test]
fn several_processes_are_shown_together() {
    let sandbox = Sandbox::new("top.several").unwrap();
    let mut workers: Vec<_> = (0..3).map(|_| Worker::start(&sandbox, (READS, OPENS), &[])).collect();
    workers.iter_mut().for_each(Worker::step);
    assert_exact(&seen(&sandbox), 3, 2);
    workers.into_iter().for_each(Worker::end);
}

#[test]
fn killed_process_is_no_longer_running() {
    let sandbox = Sandbox::new("top.killed").unwrap();
    let mut worker = Worker::start(&sandbox, (READS, OPENS), &[]);
    worker.process.kill().unwrap();
    worker.process.wait().unwrap();
    let after = seen(&sandbox);
    assert_eq!((after["processes"].as_array().map(Vec::len), after["ended"].as_u64()), (Some(0), Some(1)));
    assert!(top(&sandbox, &[]).contains("No traced process is running: `dlio analyze` reports"));
}

/// While a worker runs all the time, each snapshot is between its counts before and after, and no step is partly
/// counted or counted twice.
#[test]
fn busy_process_is_counted_once() {
    const STEP: (u64, u64) = (20, 10);
    let sandbox = Sandbox::new("top.busy").unwrap();
    let mut worker = Worker::start(&sandbox, STEP, &[("DLIO_TRACE_FORMAT", "native".into())]);
    let trace = sandbox.trace();
    let mut steps = 1u64;
    for _ in 0..5 {
        let before = steps;
        let mut command = Command::new(artefacts::command("dlio-top").unwrap());
        command.arg(&trace).args(["--once", "--format", "json", "--interval", "0.1"]).stdout(Stdio::piped());
        let mut running = command.spawn().unwrap();
        while running.try_wait().unwrap().is_none() {
            worker.step();
            steps += 1;
        }
        let output = running.wait_with_output().unwrap();
        let snapshot: Value = serde_json::from_slice(&output.stdout).unwrap();
        // Each step has the worker's own calls, its report and its command.
        let events = snapshot["processes"][0]["events"].as_u64().unwrap();
        let made = |steps: u64| 2 + steps * (STEP.0 + STEP.1 + 2);
        assert!(
            (made(before) - 1..=made(steps)).contains(&events),
            "{events} events between steps {before} and {steps}"
        );
        if !snapshot["exact"].as_bool().unwrap() || !snapshot["processes"][0]["total_exact"].as_bool().unwrap() {
            // It did more than is sampled.
            continue;
        }
        let [[reads, ..], [opens, ..]] = ["pread", "open"].map(|operation| total(&snapshot, operation));
        assert!(
            (before * STEP.0..=steps * STEP.0).contains(&reads),
            "{reads} reads between steps {before} and {steps}"
        );
        let apart = (reads / STEP.0).abs_diff((opens - 1) / STEP.1);
        assert!(apart <= 1, "{reads} reads and {opens} opens are not of the same steps");
        let recent = snapshot["operations"].as_array().unwrap().iter().find(|row| row["operation"] == "pread").unwrap();
        assert!(recent["calls"].as_u64().unwrap() <= (steps - before + 1) * STEP.0, "{recent:#}");
    }
    worker.end();
}

#[test]
fn spans_show_waiting_and_computing() {
    let sandbox = Sandbox::new("top.spans").unwrap();
    let (source, binary) = (sandbox.root().join("spans.c"), sandbox.root().join("spans"));
    let program = r#"
        #include <dliotrace.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(void) {
            char letter;
            dlio_span wait = dlio_begin("fetch", "data");
            usleep(1000);
            dlio_end(&wait);
            dlio_span stall = dlio_begin("gpu.data_wait", "gpu_idle");
            usleep(2000);
            dlio_end(&stall);
            dlio_span compute = dlio_begin("compute", "compute");
            puts("done");
            fflush(stdout);
            read(0, &letter, 1);
            dlio_end(&compute);
            return 42;
        }"#;
    std::fs::write(&source, program).unwrap();
    let include = format!("-I{}", home().join("../tracer/include").display());
    compile(&source, &binary, &[&include]).unwrap();
    let mut command = Command::new(&binary);
    command.env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let asked = process.stdin.take();
    let message = BufReader::new(process.stdout.take().unwrap());
    let mut worker = Worker { process, asked, message };
    worker.wait();
    let snapshot = seen(&sandbox);
    let process = &snapshot["processes"][0];
    assert_eq!((&process["role"], &process["now"]), (&"trainer".into(), &"compute".into()), "{process:#}");
    let seconds = |field: &str| process[field].as_f64().unwrap();
    let interval = snapshot["interval_s"].as_f64().unwrap();
    assert_eq!(seconds("waiting_s"), 0.0, "it was over before the interval began");
    assert!(seconds("waiting_total_s") >= 0.001 && seconds("waiting_total_s") < 60.0, "{process:#}");
    assert!((0.002..60.0).contains(&seconds("gpu_waiting_total_s")) && seconds("gpu_waiting_s") == 0.0, "{process:#}");
    // It has been computing all the time.
    assert!((seconds("computing_s") / interval - 1.0).abs() < 0.01, "{process:#}");
    assert!(process["checkpoint_s"].is_null(), "none was ever seen");
    let text = top(&sandbox, &["--once", "--interval", "0.1"]);
    assert!(text.contains("COMPUTE-BOUND: spans (") && text.contains("computes 100 % of the time"), "{text}");
    worker.end();
}

#[test]
fn scraper_reads_the_same_numbers() {
    let python = std::env::var("DLIO_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let parser = "import sys, prometheus_client.openmetrics.parser as p\n\
        for f in p.text_string_to_metric_families(sys.stdin.read()):\n    \
            for s in f.samples: print(f.type, s.name, s.labels.get('operation', '-'), s.labels.get('process', '-'), int(s.value))";
    if !needs_module(&python, "prometheus_client") {
        return;
    }
    let sandbox = Sandbox::new("top.metrics").unwrap();
    let worker = Worker::start(&sandbox, (READS, OPENS), &[]);
    let text = top(&sandbox, &["--format", "openmetrics"]);
    let mut command = Command::new(&python);
    let mut parsing = command.args(["-c", parser]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    parsing.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = parsing.wait_with_output().unwrap();
    let parsed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for line in [
        "gauge dlio_processes - - 1".to_string(),
        format!("counter dlio_calls_total pread worker {READS}"),
        format!("counter dlio_read_bytes_total pread worker {}", READS * 100),
        format!("counter dlio_failed_calls_total open worker {OPENS}"),
        "counter dlio_lost_events_total - worker 0".to_string(),
    ] {
        assert!(parsed.lines().any(|found| found == line), "{line} is not in:\n{parsed}");
    }
    worker.end();
}

#[test]
fn terminal_is_restored_after_keys_and_signals() {
    let sandbox = Sandbox::new("top.terminal").unwrap();
    let worker = Worker::start(&sandbox, (READS, OPENS), &[]);
    let new = sandbox.root().join("new");
    for (folder, way) in [(sandbox.trace(), "q"), (sandbox.trace(), "ctrl-c"), (sandbox.trace(), "term"), (new, "q")] {
        let mut command = Command::new("python3");
        command.arg(home().join("top/on_a_terminal.py")).arg(artefacts::command("dlio-top").unwrap());
        let output = command.arg(&folder).arg(way).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} by {way}: {errors}", folder.display());
    }
    worker.end();
}

#[test]
fn non_directory_is_rejected() {
    let sandbox = Sandbox::new("top.refused").unwrap();
    let file = sandbox.root().join("file");
    std::fs::write(&file, "").unwrap();
    for (place, message) in
        [(sandbox.root().join("none"), "the directory does not exist yet"), (file, "not a directory")]
    {
        let output = Command::new(artefacts::command("dlio-top").unwrap()).arg(&place).arg("--once").output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1));
        assert!(errors.contains(message), "{errors}");
    }
}

/// Returns the body of a response, and its status.
fn scrape(port: u16, path: &str) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    let mut response = String::new();
    std::io::Read::read_to_string(&mut stream, &mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().into(), body.into())
}

#[test]
fn gauges_for_prometheus_are_the_rates_between_scrapes() {
    let sandbox = Sandbox::new("top.listen").unwrap();
    let mut worker = Worker::start(&sandbox, (READS, OPENS), &[]);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(artefacts::command("dlio-top").unwrap());
    command.arg(sandbox.trace()).args(["--listen", &port.to_string()]).stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    let mut printed = BufReader::new(server.stderr.take().unwrap());
    printed.read_line(&mut line).unwrap();
    assert!(line.contains(&format!("http://127.0.0.1:{port}/metrics")), "{line}");
    // The next scrape is measured from the first snapshot, which is at least a second old.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    let began = std::time::Instant::now();
    worker.step();
    let (status, body) = scrape(port, "/metrics");
    let longest = began.elapsed().as_secs_f64() + 3.0;
    assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
    let value = |name: &str| -> f64 {
        let start = format!("{name}{{program=\"worker\"}} ");
        let found = body.lines().find_map(|line| line.strip_prefix(&start));
        found.unwrap_or_else(|| panic!("{name} is not in\n{body}")).parse().unwrap()
    };
    let read = value("dlio_read_bytes_per_second");
    let all = (READS * 100) as f64;
    assert!(read > all / longest && read < all, "{read} of {all} bytes in {longest} s at most");
    assert_eq!((value("dlio_program_processes"), value("dlio_lost_events")), (1.0, 0.0));
    assert_eq!(scrape(port, "/").0, "HTTP/1.1 404 Not Found");
    let python = std::env::var("DLIO_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    if needs_module(&python, "prometheus_client") {
        let parser = "import sys; from prometheus_client.parser import text_string_to_metric_families as parse\n\
            print(sum(len(family.samples) for family in parse(sys.stdin.read())))";
        let mut parsing = Command::new(&python);
        let mut parsing = parsing.args(["-c", parser]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        parsing.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        let samples: usize =
            String::from_utf8(parsing.wait_with_output().unwrap().stdout).unwrap().trim().parse().unwrap();
        assert_eq!(samples, body.lines().filter(|line| !line.starts_with('#')).count());
    }
    let mut second = Command::new(artefacts::command("dlio-top").unwrap());
    let output = second.arg(sandbox.trace()).args(["--listen", &port.to_string()]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("cannot listen on 127.0.0.1"), "{message}");
    server.kill().unwrap();
    server.wait().unwrap();
    worker.end();
}
