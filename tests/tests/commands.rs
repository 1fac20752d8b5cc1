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
