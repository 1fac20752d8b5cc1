//! Tests the waits of a recorded training: equal numbers in the report, by SQL, in Parquet and in a trace for
//! Perfetto, in which arrows point to them from the threads that ended them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use dlio_schemas::perfetto::proto::{Walk, field, value};
use dlio_tests::artefacts;
use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use serde_json::Value;

/// A child takes 20 ms for each batch, and its parent 4 ms. Both sleep, so that other load cannot change that.
const PROGRAM: &str = r#"
#include <time.h>
#include <unistd.h>
static void work(long ms) {
    struct timespec length = {0, ms * 1000000};
    nanosleep(&length, 0);
}
int main(void) {
    char batch[100] = {0};
    int ends[2];
    if (pipe(ends) != 0) return 1;
    if (fork() == 0) {
        close(ends[0]);
        for (int i = 0; i < 12; i++) {
            work(20);
            if (write(ends[1], batch, sizeof batch) != sizeof batch) return 1;
        }
        return 0;
    }
    close(ends[1]);
    while (read(ends[0], batch, sizeof batch) == sizeof batch) work(4);
    return 0;
}
"#;

/// A child makes some batches and dies; its parent waits for another one until a time has run out, and learns it then.
const KILLED: &str = r#"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void work(long ms) {
    struct timespec length = {0, ms * 1000000};
    nanosleep(&length, 0);
}
int main(void) {
    char batch[100] = {0};
    int ends[2], status;
    if (pipe(ends) != 0) return 1;
    pid_t child = fork();
    for (int i = 0; child == 0; i++) {
        if (i == 12) raise(SIGKILL);
        work(20);
        if (write(ends[1], batch, sizeof batch) != sizeof batch) return 1;
    }
    struct pollfd ready = {ends[0], POLLIN, 0};
    while (poll(&ready, 1, 700) == 1 && read(ends[0], batch, sizeof batch) == sizeof batch) work(4);
    return waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL ? 0 : 1;
}
"#;

struct Training {
    sandbox: Sandbox,
}

impl Training {
    fn record(name: &str) -> Training {
        Training::of(name, PROGRAM)
    }

    fn of(name: &str, program: &str) -> Training {
        let sandbox = Sandbox::new(name).unwrap();
        let (source, binary) = (sandbox.root().join("program.c"), sandbox.root().join("program"));
        std::fs::write(&source, program).unwrap();
        compile(&source, &binary, &[]).unwrap();
        let mut command = Command::new(&binary);
        command.env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
        assert_eq!(sandbox.run(&mut command, true).unwrap().exit, "0");
        Training { sandbox }
    }

    fn analyze(&self, trace: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
        let run = self.sandbox.run(command.arg(trace).args(arguments), true).unwrap();
        assert_eq!(run.exit, "0", "{arguments:?}: {}", String::from_utf8_lossy(&run.errors));
        String::from_utf8_lossy(&run.output).into_owned()
    }

    /// The rows of a query.
    fn rows(&self, trace: &Path, arguments: &[&str], query: &str) -> Vec<Value> {
        let text = self.analyze(trace, &[arguments, &["--format", "ndjson", "--sql", query]].concat());
        let row = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{query}: {error}: {text}"));
        text.lines().map(row).collect()
    }

    fn report(&self, trace: &Path, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.analyze(trace, &[arguments, &["--format", "json"]].concat())).unwrap()
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.sandbox.root().join(name)
    }
}

/// Returns the columns of the table that are causes.
fn causes(row: &Value) -> BTreeMap<String, i64> {
    let not = ["maker", "limiter", "ns"];
    let cause = |(name, ns): (&String, &Value)| {
        let cause = name.strip_suffix("_ns").filter(|cause| !not.contains(cause))?;
        Some((cause.replace('_', "-"), ns.as_i64()?))
    };
    row.as_object().unwrap().iter().filter_map(cause).filter(|(_, ns)| *ns > 0).collect()
}

/// Returns sums of rows of one kind, by cause.
fn sums(rows: &[Value], kind: &str) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for row in rows.iter().filter(|row| row["kind"] == kind) {
        causes(row).into_iter().for_each(|(cause, ns)| *sums.entry(cause).or_default() += ns);
    }
    sums
}

fn as_map(causes: &Value) -> BTreeMap<String, i64> {
    causes.as_object().unwrap().iter().map(|(cause, ns)| (cause.clone(), ns.as_i64().unwrap())).collect()
}

#[test]
fn a_wait_for_a_killed_reader_is_reported_as_such() {
    let training = Training::of("trainings.killed", KILLED);
    let trace = training.sandbox.trace();
    let ends = training.rows(&trace, &[], "select args from events where name = 'waitpid'");
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["args"]["signal"], "9");
    // Repeats the check on a trace that was exported and read again.
    for name in ["export.pftrace", "export.json"] {
        let export = training.folder(name);
        training.analyze(&trace, &["--export", export.to_str().unwrap()]);
        let again = training.rows(&export, &[], "select args from events where name = 'waitpid'");
        for key in ["child", "signal"] {
            assert_eq!(again[0]["args"][key], ends[0]["args"][key], "{name}");
        }
    }
    let report = training.report(&trace, &[]);
    let causes = &report["training"][0]["causes"];
    assert!(causes["dead-reader"].as_i64().unwrap() > 650_000_000, "{causes}");
    let findings = report["findings"].as_array().unwrap();
    let killed = findings.iter().find(|finding| finding["id"] == "process-killed").unwrap();
    assert_eq!(killed["state"], "fired");
    assert!(killed["says"].as_str().unwrap().starts_with("SIGKILL ended "), "{killed}");
}

#[test]
fn waits_table_sums_match_the_report() {
    let training = Training::record("trainings.table");
    let trace = training.sandbox.trace();
    for window in [&[][..], &["--to", "0.2s"]] {
        let rows = training.rows(&trace, window, "select * from waits order by start_ts");
        let report = training.report(&trace, window);
        let [trainer] = &report["training"].as_array().unwrap()[..] else { panic!("{}", report["training"]) };
        assert!(rows.len() >= 3, "{rows:?}");
        assert_eq!(sums(&rows, "data"), as_map(&trainer["causes"]));
        let waited = |kind: &str| sums(&rows, kind).values().sum::<i64>();
        let kinds = [
            ("data", "waited_ns"),
            ("own-work", "own_work_ns"),
            ("lock", "lock_wait_ns"),
            ("peer", "peer_wait_ns"),
            ("unknown", "unknown_wait_ns"),
        ];
        for (kind, figure) in kinds {
            assert_eq!(waited(kind), trainer[figure].as_i64().unwrap(), "{kind}");
        }
        for row in &rows {
            let number = |column: &str| row[column].as_i64().unwrap();
            assert_eq!(number("ns"), number("end_ts") - number("start_ts"), "{row}");
            assert_eq!(number("ns"), causes(row).values().sum::<i64>(), "{row}");
            assert_eq!((&row["proc"], &row["pid"], &row["tid"]), (&trainer["proc"], &trainer["pid"], &trainer["tid"]));
        }
        let listed = report["waits"].as_array().unwrap();
        assert_eq!(listed.len(), rows.len());
        let made = rows.iter().filter(|row| row["kind"] == "data" && row["maker_proc"] != row["proc"]).count();
        assert!(made >= 2 && made == rows.iter().filter(|row| row["kind"] == "data").count(), "{rows:?}");
    }
}

#[test]
fn parquet_has_the_table_of_waits() {
    let training = Training::record("trainings.parquet");
    let (trace, folder) = (training.sandbox.trace(), training.folder("parquet"));
    training.analyze(&trace, &["--parquet", folder.to_str().unwrap()]);
    let file = folder.join("waits.parquet");
    let create = format!("create external table written stored as parquet location '{}'", file.display());
    let select = "select * from written order by start_ts";
    let written = training.rows(&trace, &["--sql-files", "--sql", &create], select);
    assert_eq!(written, training.rows(&trace, &[], "select * from waits order by start_ts"));
}

#[test]
fn text_contains_the_chain_of_each_wait() {
    let training = Training::record("trainings.text");
    let text = training.analyze(&training.sandbox.trace(), &["--section", "waits"]);
    let chains: Vec<&str> = text.lines().filter(|line| line.contains(" <- ")).collect();
    // The heading, and one line per wait.
    assert!(chains.len() >= 12, "{text}");
    let made = |line: &&&str| line.contains("  data  ") && line.contains("sleep ") && !line.contains("nobody");
    assert!(chains.iter().filter(made).count() >= 10, "{text}");
}

/// The waits in a trace for Perfetto.
#[derive(Default)]
struct Drawn {
    tracks: BTreeMap<u64, String>,
    /// Threads by their tracks.
    threads: BTreeMap<u64, (u64, u64)>,
    events: Vec<DrawnEvent>,
}

#[derive(Default, Debug)]
struct DrawnEvent {
    kind: u64,
    track: u64,
    name: String,
    flow: u64,
    arguments: BTreeMap<String, i64>,
}

impl Drawn {
    fn read(path: &Path) -> Drawn {
        let (bytes, mut drawn) = (std::fs::read(path).unwrap(), Drawn::default());
        for packet in Walk::new(&bytes).map(|packet| packet.unwrap().1) {
            for (number, content) in Walk::new(packet.bytes()).flatten() {
                match number {
                    field::packet::TRACK => drawn.track(content.bytes()),
                    field::packet::TRACK_EVENT => drawn.events.push(DrawnEvent::read(content.bytes())),
                    _ => {}
                }
            }
        }
        drawn
    }

    fn track(&mut self, message: &[u8]) {
        let (mut uuid, mut name, mut thread) = (0, String::new(), None);
        for (number, content) in Walk::new(message).flatten() {
            match number {
                field::track::UUID => uuid = content.number(),
                field::track::NAME => name = text(content.bytes()),
                field::track::THREAD => thread = Some(content.bytes()),
                _ => {}
            }
        }
        if let Some(thread) = thread {
            let found: BTreeMap<u32, u64> = Walk::new(thread)
                .flatten()
                .filter(|(number, _)| *number == field::thread::PID || *number == field::thread::TID)
                .map(|(number, content)| (number, content.number()))
                .collect();
            self.threads.insert(uuid, (found[&field::thread::PID], found[&field::thread::TID]));
        }
        self.tracks.insert(uuid, name);
    }

    fn named(&self, kind: u64, is_it: impl Fn(&DrawnEvent) -> bool) -> Vec<&DrawnEvent> {
        self.events.iter().filter(|event| event.kind == kind && is_it(event)).collect()
    }
}

impl DrawnEvent {
    fn read(message: &[u8]) -> DrawnEvent {
        let mut event = DrawnEvent::default();
        for (number, content) in Walk::new(message).flatten() {
            match number {
                field::event::TYPE => event.kind = content.number(),
                field::event::TRACK => event.track = content.number(),
                field::event::NAME => event.name = text(content.bytes()),
                field::event::FLOWS => event.flow = content.number(),
                field::event::ANNOTATIONS => event.arguments.extend(argument(content.bytes())),
                _ => {}
            }
        }
        event
    }
}

/// Returns the name and the number of an argument, if it is a number.
fn argument(message: &[u8]) -> Option<(String, i64)> {
    let (mut name, mut number) = (None, None);
    for (which, content) in Walk::new(message).flatten() {
        match which {
            field::annotation::NAME => name = Some(text(content.bytes())),
            field::annotation::INT => number = Some(content.number() as i64),
            _ => {}
        }
    }
    name.zip(number)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn arrow_connects_each_wait_with_its_maker() {
    let training = Training::record("trainings.arrows");
    let (trace, copy) = (training.sandbox.trace(), training.folder("copy.pftrace"));
    training.analyze(&trace, &["--export", copy.to_str().unwrap(), "--compress", "none"]);
    let rows = training.rows(&trace, &[], "select * from waits order by start_ts");
    let drawn = Drawn::read(&copy);
    let tracks: Vec<u64> = drawn.tracks.iter().filter(|(_, name)| *name == "waits").map(|(uuid, _)| *uuid).collect();
    let [track] = tracks[..] else { panic!("{:?}", drawn.tracks) };
    let slices = drawn.named(value::SLICE_BEGIN, |event| event.track == track && event.name.starts_with("waits"));
    assert_eq!(slices.len(), rows.len());
    for (slice, row) in slices.iter().zip(&rows) {
        let has = |(cause, ns): (String, i64)| slice.arguments[&format!("{}_ns", cause.replace('-', "_"))] == ns;
        assert!(causes(row).into_iter().all(has), "{slice:?}: {row}");
    }
    assert!(slices.iter().any(|slice| slice.name.starts_with("waits: sleep ")), "{slices:?}");
    let ends = drawn.named(value::SLICE_BEGIN, |event| event.track == track && event.flow != 0);
    let begins = drawn.named(value::INSTANT, |event| event.name == "made");
    let flows = |events: &[&DrawnEvent]| events.iter().map(|event| event.flow).collect::<BTreeSet<_>>();
    assert!(ends.len() >= 12 && flows(&ends).len() == ends.len() && flows(&ends) == flows(&begins));
    let makers: BTreeSet<u64> = begins.iter().map(|event| drawn.threads[&event.track].0).collect();
    let trainer = rows[0]["pid"].as_i64().unwrap() as u64;
    assert!(makers.len() == 1 && !makers.contains(&trainer), "{makers:?}");
    // As many ends as starts: nothing on the track is nested in an earlier slice.
    assert_eq!(drawn.named(value::SLICE_END, |event| event.track == track).len(), slices.len() + ends.len());
}

#[test]
fn drawn_waits_are_ignored_when_read() {
    let training = Training::record("trainings.again");
    let (trace, copy) = (training.sandbox.trace(), training.folder("copy.pftrace"));
    training.analyze(&trace, &["--export", copy.to_str().unwrap()]);
    let (before, after) = (training.report(&trace, &[]), training.report(&copy, &[]));
    for section in ["allocation", "training", "waits", "functions", "spans", "past_files"] {
        assert_eq!(before[section], after[section], "{section}");
    }
    // Events of one kind alone do not show which thread ended a wait.
    let some = training.folder("some.pftrace");
    training.analyze(&trace, &["--export", some.to_str().unwrap(), "--compress", "none", "--cat", "posix"]);
    assert!(!Drawn::read(&some).tracks.values().any(|name| name == "waits"));
}
