//! What `dlio trace` and `dlio-analyze` say of real programs, from recording to questions.

use std::process::Command;

use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::{artefacts, home};

/// Runs one of the commands in the sandbox's folder; gives its exit, what it printed, and what it said on stderr.
fn run(sandbox: &Sandbox, program: &str, arguments: &[&str]) -> (String, String, String) {
    let mut command = Command::new(artefacts::command(program).unwrap());
    command.args(arguments).env("DLIO_LIB", artefacts::library().unwrap());
    let run = sandbox.run(&mut command, true).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (run.exit, text(&run.output), text(&run.errors))
}

fn compiled(sandbox: &Sandbox, source: &str) -> String {
    let binary = sandbox.root().join("program");
    compile(&home().join("programs").join(source), &binary, &[]).unwrap();
    binary.display().to_string()
}

const COUNT: &str = "select count(*) from events";

#[test]
fn events_that_were_only_counted_are_said_to_be_in_no_row() {
    let sandbox = Sandbox::new("commands.counted").unwrap();
    let program = compiled(&sandbox, "loops_in_threads_are_recorded_call_for_call.c");
    for (mode, folder) in [(["--mode", "summary"], "counted"), (["--max-mb", "1"], "full")] {
        let line = ["trace", "-o", folder, mode[0], mode[1], "--", &program, "mixed", "1", "500000"];
        run(&sandbox, "dlio", &line);
        let (exit, rows, said) = run(&sandbox, "dlio-analyze", &[folder, "--format", "csv", "--sql", COUNT]);
        let rows: u64 = rows.lines().nth(1).unwrap().parse().unwrap();
        let missing: u64 = said.split(' ').nth(1).unwrap().replace(',', "").parse().unwrap();
        assert!(said.contains("events were counted and not recorded") && said.lines().count() == 1, "{said}");
        assert_eq!((exit.as_str(), rows + missing), ("0", 500_001), "{said}");
        assert_eq!(run(&sandbox, "dlio-analyze", &[folder]).2, "", "a summary has all of them");
    }
    let (_, _, said) = run(&sandbox, "dlio-analyze", &["full", "--parquet", "tables"]);
    assert!(said.contains("counted and not recorded"), "{said}");
}

/// What `dlio trace` says of a line of shell.
fn traced(sandbox: &Sandbox, line: &str) -> String {
    run(sandbox, "dlio", &["trace", "--all", "-o", "trace", "--", "sh", "-c", line]).2
}

#[test]
fn processes_are_counted_once_whatever_they_run() {
    let sandbox = Sandbox::new("commands.processes").unwrap();
    std::fs::write(sandbox.work().join("p.c"), "int x;\n").unwrap();
    let said = traced(&sandbox, "cat p.c | wc -c; sleep 0");
    // How many programs depends on how the shell starts its commands.
    let programs =
        said.strip_prefix("dlio: 4 processes (").and_then(|rest| rest.split_once(" programs) recorded in trace ("));
    let (programs, _) = programs.unwrap_or_else(|| panic!("{said}"));
    let summary = run(&sandbox, "dlio-analyze", &["trace"]).1;
    assert!(summary.contains(&format!(" 4 processes ({programs} programs) made ")), "{summary}");
    let json = run(&sandbox, "dlio-analyze", &["trace", "--format", "json"]).1;
    assert!(json.contains(&format!("\"processes\": {programs},")) && json.contains("\"pids\": 4,"), "{json}");
}

#[test]
fn an_earlier_run_in_the_folder_is_told_of() {
    let sandbox = Sandbox::new("commands.mixed").unwrap();
    let first = traced(&sandbox, "cat /dev/null");
    assert!(!first.contains("earlier"), "{first}");
    let second = traced(&sandbox, "cat /dev/null");
    assert!(second.contains("of earlier runs lie") && second.contains("-o DIR keeps runs apart"), "{second}");
}

#[test]
fn a_killed_process_is_told_of_with_the_size_of_what_it_left() {
    let sandbox = Sandbox::new("commands.killed").unwrap();
    let program = compiled(&sandbox, "every_ending_keeps_every_completed_call.c");
    let (exit, _, said) = run(&sandbox, "dlio", &["trace", "-o", "trace", "--", &program, "SIGKILL", "100"]);
    assert_eq!(exit, "137");
    assert!(said.contains("1 process was killed or found no room") && !said.contains("(0 B)"), "{said}");
}

#[test]
fn an_option_nobody_knows_is_not_run() {
    let sandbox = Sandbox::new("commands.options").unwrap();
    let (exit, _, said) = run(&sandbox, "dlio", &["trace", "--fromat", "native", "--", "ls"]);
    assert!(exit == "2" && said.contains("--format"), "{exit} {said}");
    assert_eq!(run(&sandbox, "dlio", &["trace", "--bogus", "--", "ls"]).0, "2");
    assert_eq!(run(&sandbox, "dlio", &["trace", "-q", "sh", "-c", "exit 7", "--bogus"]).0, "7");
}

#[test]
fn what_goes_through_pipes_is_said_beside_the_data_set() {
    let sandbox = Sandbox::new("commands.pipes").unwrap();
    traced(&sandbox, "seq 100000 | cat | wc -c");
    let summary = run(&sandbox, "dlio-analyze", &["trace"]).1;
    assert!(summary.contains("MB through pipes, sockets and terminals."), "{summary}");
    assert!(summary.contains("written through pipes, sockets and terminals\n"), "{summary}");
}
