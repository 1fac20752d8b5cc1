//! Tests commands at a terminal: `tests/terminal` contains the input and the expected output.

use std::process::Command;

use dlio_tests::{artefacts, home};

/// Tests a query that makes rows endlessly and one that makes none, interrupted immediately and while they work.
#[test]
fn interrupted_query_returns_to_the_shell() {
    let here = home();
    let home = std::env::temp_dir().join(format!("dlio-terminal-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    let typed = Command::new("python3")
        .arg(here.join("terminal/interrupt.py"))
        .arg(artefacts::command("dlio-analyze").unwrap())
        .arg(here.join("../analyzer/tests/samples/strace.txt"))
        .env("HOME", &home)
        .output()
        .expect("python3; `make setup-test` installs it");
    std::fs::remove_dir_all(&home).unwrap();
    assert!(typed.status.success(), "{}", String::from_utf8_lossy(&typed.stderr));
}

/// Tests names of files, processes, threads and spans, arguments, and every form of output.
#[test]
fn names_do_not_control_the_terminal() {
    let typed = Command::new("python3")
        .arg(home().join("terminal/hostile.py"))
        .arg(artefacts::command("dlio-analyze").unwrap().parent().unwrap())
        .arg(home().join("../analyzer/tests/samples"))
        .output()
        .expect("python3; `make setup-test` installs it");
    assert!(typed.status.success(), "{}", String::from_utf8_lossy(&typed.stderr));
}
