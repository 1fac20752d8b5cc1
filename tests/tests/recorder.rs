//! Tests flight recorders: the last events are all in the trace, the counts cover all of them, and nothing counts as
//! lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dlio_schemas::native::fields::key;
use dlio_schemas::native::file::Image;
use dlio_schemas::native::ring::Ring;
use dlio_schemas::slow_step::{KEPT, NOTE};
use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::{artefacts, home, seen};
use serde_json::Value;

/// Longer than the kept second and the half that is allowed in addition.
const RUN_MS: &str = "3600";
const STALL_MS: u64 = 300;

/// A traced program that read at a steady rate: see `tests/recorder/steady.c`.
struct Steady {
    sandbox: Sandbox,
    /// Its calls, and those that ended in its last second.
    calls: u64,
    recent: u64,
}

impl Steady {
    /// Runs it until it ends in this way.
    fn run(test: &str, ending: &str) -> Steady {
        let sandbox = Sandbox::new(test).unwrap();
        let binary = sandbox.root().join("steady");
        compile(&home().join("recorder/steady.c"), &binary, &["-pthread"]).unwrap();
        let file = sandbox.root().join("data");
        fs::write(&file, [7; 4096]).unwrap();
        let mut command = Command::new(&binary);
        command.arg(&file).args([RUN_MS, &STALL_MS.to_string(), ending]);
        command.env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
        let output = command.env("DLIO_TRACE_LAST", "1s").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let mut numbers = printed.split_whitespace().map(|number| number.parse().unwrap());
        let mut number = || numbers.next().unwrap_or_else(|| panic!("{printed:?}, {:?}", output.status));
        Steady { calls: number(), recent: number(), sandbox }
    }

    /// Returns its image, from all of its files.
    fn image(&self) -> Image {
        let mut image = None;
        let files: Vec<_> = fs::read_dir(self.sandbox.trace()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let of = |ending: &str| files.iter().find(|path| path.extension().is_some_and(|found| found == ending));
        if let Some(path) = of("dlt") {
            image = Some(Image::from_dlt(&fs::read(path).unwrap()).unwrap());
        }
        if let Some(path) = of("ring") {
            image.get_or_insert_default().add_ring(&Ring::parse(&fs::read(path).unwrap()).unwrap());
        }
        assert!(of("part").is_none(), "{files:?}");
        image.unwrap_or_else(|| panic!("no trace in {files:?}"))
    }

    fn analyze(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
        command.arg(self.sandbox.trace()).arg("--no-cache").args(arguments).output().unwrap()
    }

    fn report(&self) -> Value {
        let output = self.analyze(&["--format", "json", "--strict"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn preads(image: &Image) -> u64 {
    let table = image.totals.as_ref().expect("counts of the whole run");
    table.rows.iter().filter(|row| row.op.info().unwrap().name == "pread").map(|row| row.count).sum()
}

#[test]
fn last_second_is_whole_and_counts_cover_the_run() {
    let steady = Steady::run("recorder.exit", "exit");
    let image = steady.image();
    assert_eq!((image.lost_in_all(), image.missing(), image.damage.len()), (0, Some(0), 0));
    assert_eq!(preads(&image), steady.calls);
    // Metadata records are not events.
    let events = seen::read(&steady.sandbox.trace());
    let (recorded, dropped) = (events.count("pread"), image.fields.number::<u64>(key::DROPPED).unwrap());
    assert!(dropped > 0 && recorded + dropped >= steady.calls, "{recorded} + {dropped} of {}", steady.calls);
    assert!(recorded >= steady.recent && recorded < steady.calls, "{recorded}, {} recent", steady.recent);
    let end = events.events().map(|event| event.start_ns + event.duration_ns as i64).max().unwrap();
    let in_last_second = events.named("pread").filter(|event| event.start_ns > end - 1_000_000_000).count() as u64;
    let (least, most) = (steady.recent * 98 / 100, steady.recent * 102 / 100);
    assert!((least..=most).contains(&in_last_second), "{in_last_second} of {} recent", steady.recent);
    let stalled = |event: &&seen::Event| event.duration_ns > STALL_MS * 800_000;
    assert_eq!(events.named("read").filter(stalled).count(), 1, "the wait for the pipe");
}

#[test]
fn killed_process_leaves_its_last_second() {
    let steady = Steady::run("recorder.kill", "kill");
    let image = steady.image();
    assert_eq!((image.lost_in_all(), image.missing()), (0, Some(0)));
    let recorded = seen::read(&steady.sandbox.trace()).count("pread");
    assert!(recorded >= steady.recent && recorded < steady.calls, "{recorded}, {} recent", steady.recent);
    let left: usize = image.leftovers.iter().map(|leftover| leftover.events.len()).sum();
    let counted = preads(&image);
    assert!(counted <= steady.calls && counted + left as u64 >= steady.calls, "{counted}, {left} left");
}

#[test]
fn report_covers_the_kept_time_and_says_so() {
    let steady = Steady::run("recorder.report", "exit");
    let report = steady.report();
    let sentence = report["verdict"][0].as_str().unwrap();
    assert!(sentence.contains("The trace holds the last") && sentence.contains("covers that time"), "{sentence}");
    let recording = &report["recorder"];
    let [kept, whole] = ["kept_ns", "whole_ns"].map(|field| recording[field].as_f64().unwrap() / 1e9);
    assert!((1.0..2.2).contains(&kept) && (3.5..9.0).contains(&whole), "{kept} s of {whole} s");
    let counted = |name: &str| {
        let functions = recording["functions"].as_array().unwrap().iter();
        functions.filter(|function| function["name"] == name).map(|f| f["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((counted("pread"), counted("open")), (steady.calls, 2));
    assert_eq!(recording["bytes_read"].as_u64(), Some(steady.calls * 100 + 1));
    let in_report = report["functions"].as_array().unwrap().iter().find(|row| row["name"] == "pread").unwrap();
    let in_report = in_report["count"].as_u64().unwrap();
    assert!(in_report >= steady.recent && in_report < steady.calls, "{in_report}, {} recent", steady.recent);
    let time = report["time"]["total_ns"].as_f64().unwrap() / 1e9;
    assert!((time - kept).abs() < 0.1, "{time} s reported, {kept} s kept");
    let output = steady.analyze(&["--to", "500ms"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("flight recorder"), "{:?} {message}", output.status);
    let text = String::from_utf8(steady.analyze(&["--section", "recorder"]).stdout).unwrap();
    assert!(text.contains("counts of the whole run") && text.contains("pread"), "{text}");
}

#[test]
fn short_process_is_whole_and_counted() {
    let sandbox = Sandbox::new("recorder.short").unwrap();
    let mut command = Command::new("cat");
    command.arg("/etc/passwd").env("LD_PRELOAD", artefacts::library().unwrap());
    command.env("DLIO_TRACE_DIR", sandbox.trace()).env("DLIO_TRACE_LAST", "10m");
    let contents = command.output().unwrap().stdout;
    let steady = Steady { sandbox, calls: 0, recent: 0 };
    let report = steady.report();
    let recording = &report["recorder"];
    assert_eq!((&recording["from_ts"], recording["dropped"].as_u64()), (&Value::Null, Some(0)), "{recording:#}");
    assert_eq!(recording["bytes_read"].as_u64(), Some(contents.len() as u64), "{recording:#}");
    let first = report["verdict"][0].as_str().unwrap();
    assert!(!first.contains("The trace holds"), "{first}");
}

#[test]
fn processes_that_ended_before_the_period_keep_only_counts() {
    let sandbox = Sandbox::new("recorder.expired").unwrap();
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    command.args(["trace", "-q", "--last", "1s", "-o"]).arg(sandbox.trace());
    let job = "cat /etc/passwd >/dev/null; sleep 3; cat /etc/passwd";
    command.env("DLIO_LIB", artefacts::library().unwrap());
    let contents = command.args(["--", "sh", "-c", job]).output().unwrap().stdout;
    let steady = Steady { sandbox, calls: 0, recent: 0 };
    let mut events: Vec<_> = seen::read(&steady.sandbox.trace()).processes.iter().map(of_cat).collect();
    events.sort_unstable();
    assert!(events.len() == 4 && events[2] == 0 && events[3] > 0, "of sh, sleep and the two programs: {events:?}");
    let recording = &steady.report()["recorder"];
    assert!(recording["dropped"].as_u64() > Some(0), "{recording:#}");
    assert_eq!(recording["bytes_read"].as_u64(), Some(2 * contents.len() as u64), "{recording:#}");
}

/// Trains under `dlio trace --last 1s` until long after a step that takes half a second; see `tests/recorder/steps.c`.
fn trained(test: &str, slow_step: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::new(test).unwrap();
    let binary = sandbox.root().join("steps");
    let include = home().join("../tracer/include");
    compile(&home().join("recorder/steps.c"), &binary, &["-I", include.to_str().unwrap()]).unwrap();
    let file = sandbox.root().join("data");
    fs::write(&file, [7; 4096]).unwrap();
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    command.args(["trace", "--last", "1s", "-o"]).arg(sandbox.trace()).arg("--").arg(&binary).arg(&file);
    command.args([slow_step, "500", "4500"]).env("DLIO_LIB", artefacts::library().unwrap());
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !output.stdout.is_empty(), "{} {message}", output.status);
    (sandbox, message)
}

/// Returns the directories with kept events.
fn kept(sandbox: &Sandbox) -> Vec<PathBuf> {
    let files = fs::read_dir(sandbox.trace()).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(KEPT)).collect()
}

fn slow_reads(folder: &Path) -> usize {
    let is_slow = |event: &&seen::Event| event.duration_ns > 400_000_000;
    seen::read(folder).named("read").filter(is_slow).count()
}

/// The slow read, and its fetch.
const SLOW: &str = "select count(*) n from events where dur > 400000000 and name in ('read', 'fetch')";

#[test]
fn step_of_three_medians_is_kept() {
    let (sandbox, message) = trained("recorder.slow_step", "60");
    assert!(message.contains("kept: step 60 took 0.5"), "{message}");
    let [folder] = &kept(&sandbox)[..] else { panic!("one step is kept: {:?}", kept(&sandbox)) };
    assert!(folder.to_string_lossy().contains("/kept-epoch-0-step-60-pid-"), "{}", folder.display());
    assert!(message.contains(&folder.display().to_string()), "{message}");
    assert_eq!(slow_reads(folder), 1, "the slow read is in {}", folder.display());
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let query = ["--no-cache", "--format", "csv", "--sql", SLOW];
    let slow_events = |command: &mut Command| String::from_utf8(command.args(query).output().unwrap().stdout).unwrap();
    assert_eq!(slow_events(command.arg(folder)), "n\n2\n");
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    assert_eq!(slow_events(command.arg(sandbox.trace())), "n\n0\n", "the trace itself has the last second");
    assert!(!sandbox.trace().join(NOTE).exists());
}

#[test]
fn steady_steps_keep_nothing() {
    let (sandbox, message) = trained("recorder.steady_steps", "-1");
    assert!(!message.contains("kept:") && kept(&sandbox).is_empty(), "{message} {:?}", kept(&sandbox));
}

#[test]
fn signal_keeps_the_time_before_it() {
    // Python does not end at this signal, unlike `steps`.
    let sandbox = Sandbox::new("recorder.signal").unwrap();
    let script = "import os, signal, time\nasked = []\nsignal.signal(signal.SIGUSR1, lambda *_: asked.append(1))\n\
        open('/etc/passwd').read()\nos.kill(os.getppid(), signal.SIGUSR1)\n\
        while not os.path.isdir(os.path.join(os.environ['DLIO_TRACE_DIR'], 'kept-signal-1')): time.sleep(0.01)\n";
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    command.args(["trace", "--last", "10m", "--format", "native", "-o"]).arg(sandbox.trace());
    command.args(["--", "python3", "-c", script]).env("DLIO_LIB", artefacts::library().unwrap());
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && message.contains("kept: the time before a signal"), "{message}");
    let recorded = seen::read(&sandbox.trace().join("kept-signal-1"));
    assert!(recorded.events().any(|event| event.file.as_deref() == Some("/etc/passwd")), "{:?}", recorded.faults);
}

fn of_cat(process: &seen::Process) -> usize {
    process.events.iter().filter(|event| event.file.as_deref() == Some("/etc/passwd")).count()
}

#[test]
fn invalid_periods_are_rejected() {
    for (words, message) in [
        (&["--last", "10x"][..], "expected a duration of at least 1s"),
        (&["--last", "0s"], "expected a duration of at least 1s"),
        (&["--last", "10m", "--mode", "summary"], "cannot be used with"),
        (&["--last", "10m", "--max-mb", "5"], "cannot be used with"),
    ] {
        let mut command = Command::new(artefacts::command("dlio").unwrap());
        let output = command.arg("trace").args(words).args(["--", "true"]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && printed.contains(message), "{words:?}: {printed}");
    }
    let mut command = Command::new("true");
    command.env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_LAST", "soon");
    let printed = command.output().unwrap().stderr;
    let printed = String::from_utf8_lossy(&printed);
    assert!(printed.contains("DLIO_TRACE_LAST=soon is invalid"), "{printed}");
}
