//! What `dlio-analyze` answers to what people type, right and wrong.

mod generator;
mod support;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use generator::{Plan, generate};
use support::Folder;

fn analyze(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dlio-analyze")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is said of something that is refused.
fn refused(arguments: &[&str]) -> String {
    let output = analyze(arguments);
    assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn printed(arguments: &[&str]) -> String {
    let output = analyze(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn made(name: &str) -> (Folder, String) {
    let folder = Folder::new(name);
    generate(folder.path(), &Plan { events: 1000, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let path = folder.path().display().to_string();
    (folder, path)
}

#[test]
fn a_wrong_query_is_answered_with_its_place_and_the_tables() {
    let (_folder, trace) = made("queries");
    let said = |sql: &str| refused(&[&trace, "--sql", sql]);
    let unknown = said("select * from event");
    assert!(unknown.contains("there is no table event; did you mean events? The tables are events,"), "{unknown}");
    let unread = said("select (name\n  from events");
    assert!(unread.contains(", line 2, column ") && unread.contains('^'), "{unread}");
    for wrong in [&unknown, &unread, &said("selec 1"), &said("select 'a"), &said("select nothing from events")] {
        assert!(!["ParserError", "TokenizerError", "datafusion."].iter().any(|word| wrong.contains(word)), "{wrong}");
    }
    for change in ["drop table events", "insert into files values (1)", "create table events (x int)"] {
        assert!(said(change).contains("a trace is only read"), "{change}");
    }
    assert!(["", "  ", ";", "\n"].iter().all(|sql| said(sql).contains("is empty")));
    assert!(printed(&[&trace, "--sql", "select count(*) from events", "--format", "csv"]).lines().count() == 2);
}

#[test]
fn the_tables_can_be_looked_up_without_a_trace() {
    let tables = printed(&["--tables"]);
    assert!(
        ["events: one row", "tracer_ns", "CPU time the tracer itself took"].iter().all(|part| tables.contains(part))
    );
    assert!(printed(&["--help"]).contains("--tables"));
}

#[test]
fn completions_end_quietly_where_nobody_reads_and_fail_on_a_full_disk() {
    let to = |output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
        command.args(["--completions", "bash"]).stdout(output).output().unwrap()
    };
    let (_, deserted) = std::io::pipe().unwrap();
    let left = to(deserted.into());
    assert_eq!((left.status.code(), left.stderr.len()), (Some(0), 0));
    let full = to(std::fs::File::options().write(true).open("/dev/full").unwrap().into());
    assert_eq!(full.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&full.stderr).contains("cannot be written: No space left"));
}

#[test]
fn completions_are_printed_whichever_way_they_are_asked_for() {
    assert_eq!(printed(&["completions", "bash"]), printed(&["--completions", "bash"]));
}

#[test]
fn queries_and_commands_come_through_a_pipe() {
    let (_folder, trace) = made("shell");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
    command.args([&trace, "--shell", "--format", "csv"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let typed = ".tables\nselect 1 as one; select ';' as two;\n.schema hosts\nselect 3\nas three;\nbad;\nquit\nselect 4 as four;\n";
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (said, wrong) = (text(&output.stdout), text(&output.stderr));
    let parts = ["one row a machine\n", "one\n1\n", "two\n;\n", "boot_id", "three\n3\n"];
    let places: Vec<_> = parts.iter().map(|part| said.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{said}");
    assert!(!said.contains("four") && wrong.contains("the query cannot be read"), "{said}{wrong}");
}

#[test]
fn filters_that_nothing_passes_are_told_what_there_is() {
    let (_folder, trace) = made("filters");
    let said = printed(&[&trace, "--cat", "process", "--min-dur", "1h"]);
    let parts = ["No event passes the filters (--cat, --min-dur)", "posix", "process ids 1000, 1001", "it begins at"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    for wrong in [&["--pid", "1"][..], &["--rank", "77"], &["--from", "1h"], &["--file", "/nowhere/*"]] {
        let said = printed(&[&[&*trace][..], wrong].concat());
        assert!(said.starts_with(&format!("No event passes the filters ({})", wrong[0])), "{said}");
    }
    let unknown = refused(&[&trace, "--cat", "nosuch"]);
    assert!(unknown.contains("no event has the category nosuch (--cat); the trace has ") && unknown.contains("posix"));
    assert!(refused(&[&trace, "--cat", "nosuch", "--chrome", "/dev/null", "--force"]).contains("category nosuch"));
    let before = refused(&[&trace, "--from", "-1s"]);
    assert!(before.contains("times count from the beginning of the trace"), "{before}");
    assert!(refused(&[&trace, "--window", "-1s..2s"]).contains("from the beginning of the trace"));
}
