//! Tests that signals that end the program leave no incomplete file, and that leftovers of a kill are distinguished
//! from complete files.

mod generator;
mod support;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use generator::{Plan, generate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::program::{analyze, begun, printed, text};
use support::temp_dir;
use tempfile::TempDir;

const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

fn made(name: &str, events: u64) -> (TempDir, String) {
    let folder = temp_dir(name);
    generate(folder.path(), &Plan { events, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let path = folder.path().display().to_string();
    (folder, path)
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// Waits until `is_so` returns true; it must, before the process ends.
fn until(child: &mut Child, is_so: impl Fn() -> bool) {
    while !is_so() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
}

/// Returns `true` if a process has a file in a directory open, even an unnamed one.
fn writes_in(child: u32, folder: &Path) -> bool {
    let files = std::fs::read_dir(format!("/proc/{child}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|file| file.starts_with(folder))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns a program that has started its output, and waits for the query.
fn waiting(program: &mut Command, trace: &str, out: &TempDir) -> Child {
    let report = out.path().join("report");
    program.args([trace, "--sql", "-", "-o"]).arg(&report);
    let mut child = program.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    until(&mut child, || writes_in(id, out.path()));
    child
}

#[test]
fn signal_leaves_no_temporary_output() {
    let (_folder, trace) = made("interrupted-output", 1000);
    for signal in ENDING {
        let out = temp_dir("interrupted-out");
        let mut child = waiting(&mut Command::new(env!("CARGO_BIN_EXE_dlio-analyze")), &trace, &out);
        // Waiting would close it, and the program would end on its own.
        let _stdin = child.stdin.take();
        send(&child, signal);
        assert_eq!(child.wait().unwrap().signal(), Some(signal as i32));
        assert_eq!(names(out.path()), Vec::<String>::new(), "{signal}");
    }
}

#[test]
fn old_output_stays_until_the_new_is_complete() {
    let (_folder, trace) = made("nohup-output", 1000);
    let out = temp_dir("nohup-out");
    std::fs::write(out.path().join("report"), "of yesterday").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_dlio-analyze")]);
    let mut child = waiting(&mut command, &trace, &out);
    send(&child, Signal::SIGHUP);
    assert_eq!(std::fs::read_to_string(out.path().join("report")).unwrap(), "of yesterday");
    child.stdin.take().unwrap().write_all(b"select 42 as answer").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(std::fs::read_to_string(out.path().join("report")).unwrap().contains("answer"));
    assert_eq!(names(out.path()), ["report"]);
}

/// Returns a program that was stopped while it wrote Parquet.
fn stopped(trace: &str, folder: &str) -> Child {
    let mut child = begun(&[trace, "--parquet", folder]);
    let events = Path::new(folder).join("events");
    until(&mut child, || std::fs::read_dir(&events).is_ok_and(|mut parts| parts.next().is_some()));
    send(&child, Signal::SIGSTOP);
    child
}

#[test]
fn signal_leaves_no_partial_export() {
    let (_folder, trace) = made("interrupted-parquet", 1_000_000);
    for signal in ENDING {
        let out = temp_dir("interrupted-tables");
        let folder = out.path().join("tables").display().to_string();
        let mut child = stopped(&trace, &folder);
        send(&child, signal);
        send(&child, Signal::SIGCONT);
        assert_eq!(child.wait().unwrap().signal(), Some(signal as i32));
        assert_eq!(names(out.path()), Vec::<String>::new(), "{signal}");
    }
}

#[test]
fn partial_export_is_recognized_and_replaced() {
    let (_folder, trace) = made("killed-parquet", 1_000_000);
    let out = temp_dir("killed-tables");
    let folder = out.path().join("tables").display().to_string();
    let refused = |arguments: &[&str]| {
        let output = analyze(arguments);
        assert!(!output.status.success(), "{}", text(&output.stdout));
        text(&output.stderr)
    };
    let mut child = stopped(&trace, &folder);
    let message = refused(&[&trace, "--parquet", &folder]);
    assert!(message.contains("another dlio-analyze is writing there"), "{message}");
    send(&child, Signal::SIGKILL);
    child.wait().unwrap();
    let message = refused(&[&folder]);
    assert!(message.contains("an unfinished export"), "{message}");
    // A file of the user is not removed.
    let precious = Path::new(&folder).join("events/precious");
    std::fs::write(&precious, "theirs").unwrap();
    let message = refused(&[&trace, "--parquet", &folder]);
    assert!(message.contains("not empty") && precious.exists(), "{message}");
    std::fs::remove_file(&precious).unwrap();
    let output = analyze(&[&trace, "--parquet", &folder]);
    let message = text(&output.stderr);
    assert!(output.status.success() && message.contains("an incomplete export"), "{message}");
    assert!(!names(Path::new(&folder)).contains(&".dlio-unfinished".to_string()));
    let counted = |of: &str| printed(&[of, "--sql", "select count(*) from events", "--format", "csv"]);
    assert_eq!(counted(&folder), counted(&trace));
}
