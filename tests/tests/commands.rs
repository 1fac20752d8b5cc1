//! Tests the output of `dlio trace` and `dlio-analyze` on real programs, from recording to queries.

use std::process::Command;
use std::time::Duration;

use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::{artefacts, home};

/// Runs one of the commands in the sandbox's directory; returns its exit, its output, and its messages on stderr.
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
fn counted_events_are_reported_as_not_in_rows() {
    let sandbox = Sandbox::new("commands.counted").unwrap();
    let program = compiled(&sandbox, "loops_in_threads_are_recorded_call_for_call.c");
    for (mode, folder) in [(["--mode", "summary"], "counted"), (["--max-mb", "1"], "full")] {
        let line = ["trace", "-o", folder, mode[0], mode[1], "--", &program, "mixed", "1", "1000000"];
        run(&sandbox, "dlio", &line);
        let (exit, rows, message) = run(&sandbox, "dlio-analyze", &[folder, "--format", "csv", "--sql", COUNT]);
        let rows: u64 = rows.lines().nth(1).unwrap().parse().unwrap();
        let missing: u64 = message.split(' ').nth(1).unwrap().replace(',', "").parse().unwrap();
        assert!(message.contains("events were counted, not recorded") && message.lines().count() == 1, "{message}");
        // One more if the thread that was joined had to be waited for.
        assert!(exit == "0" && (1_000_001..=1_000_002).contains(&(rows + missing)), "{exit}, {rows}: {message}");
        assert_eq!(run(&sandbox, "dlio-analyze", &[folder]).2, "", "a summary has all of them");
    }
    let (_, _, message) = run(&sandbox, "dlio-analyze", &["full", "--parquet", "tables"]);
    assert!(message.contains("counted, not recorded"), "{message}");
}

/// Returns the output of `dlio trace` on a line of shell.
fn traced(sandbox: &Sandbox, line: &str) -> String {
    run(sandbox, "dlio", &["trace", "--all", "-o", "trace", "--", "sh", "-c", line]).2
}

#[test]
fn processes_are_counted_once_across_exec() {
    let sandbox = Sandbox::new("commands.processes").unwrap();
    std::fs::write(sandbox.work().join("p.c"), "int x;\n").unwrap();
    let message = traced(&sandbox, "cat p.c | wc -c; sleep 0");
    // The number of programs depends on how the shell starts its commands.
    let programs =
        message.strip_prefix("dlio: 4 processes (").and_then(|rest| rest.split_once(" programs) recorded in trace ("));
    let (programs, _) = programs.unwrap_or_else(|| panic!("{message}"));
    let summary = run(&sandbox, "dlio-analyze", &["trace"]).1.replace('\n', " ");
    assert!(summary.contains(&format!(" events of 4 processes ({programs} programs), which used ")), "{summary}");
    let json = run(&sandbox, "dlio-analyze", &["trace", "--format", "json"]).1;
    assert!(json.contains(&format!("\"processes\": {programs},")) && json.contains("\"pids\": 4,"), "{json}");
}

/// Returns the traced command, as the report repeats it.
fn repeated(sandbox: &Sandbox, more: &[&str]) -> serde_json::Value {
    let json = run(sandbox, "dlio-analyze", &[&["trace", "--format", "json"], more].concat()).1;
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    report["headline"]["command"].clone()
}

#[test]
fn traced_command_can_be_repeated() {
    let sandbox = Sandbox::new("commands.repeated").unwrap();
    std::fs::write(sandbox.work().join("a b.txt"), "text").unwrap();
    let line = "cat 'a b.txt' > copy; exec cat copy";
    traced(&sandbox, line);
    // The first image of a process that executed two, in the syntax of a shell.
    assert_eq!(repeated(&sandbox, &[]), r"sh -c 'cat '\''a b.txt'\'' > copy; exec cat copy'");
    run(&sandbox, "dlio", &["trace", "-o", "trace", "--", "cat", "a b.txt"]);
    assert_eq!(repeated(&sandbox, &[]), "cat 'a b.txt'");
    // Two runs, a secret, and a command that is too long for a line.
    assert_eq!(repeated(&sandbox, &["--run", "all"]), serde_json::Value::Null);
    traced(&sandbox, "cat copy; : --password=hunter2");
    assert_eq!(repeated(&sandbox, &[]), serde_json::Value::Null);
    traced(&sandbox, &format!("cat copy; : {}", "x".repeat(200)));
    assert_eq!(repeated(&sandbox, &[]), serde_json::Value::Null);
}

#[test]
fn shells_complete_commands_after_verbs() {
    let sandbox = Sandbox::new("commands.completed").unwrap();
    let programs = artefacts::command("dlio").unwrap().parent().unwrap().display().to_string();
    // As readline calls it.
    let completed = |verb: &str, word: &str| {
        let script = format!(
            "source <(dlio completions bash); COMP_LINE='dlio {verb} {word}'; COMP_POINT=${{#COMP_LINE}}
             COMP_WORDS=(dlio {verb} {word}); COMP_CWORD=2; _dlio_workloads dlio '{word}' '{verb}'; echo ${{COMPREPLY[@]}}"
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).env("PATH", format!("{programs}:/usr/bin:/bin"));
        String::from_utf8_lossy(&sandbox.run(&mut bash, true).unwrap().output).trim().to_string()
    };
    assert_eq!((completed("analyze", "--simi"), completed("top", "--on")), ("--similarity".into(), "--once".into()));
}

/// Reads itself; a daemon that it starts begins after its end, and reads as well.
const DAEMON: &str = r#"
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char byte;
    int ends[2];
    if (pread(open(argv[0], O_RDONLY), &byte, 1, 0) != 1 || syscall(SYS_pipe2, ends, 0)) return 1;
    if (fork()) return 0;
    syscall(SYS_close, ends[1]);
    syscall(SYS_read, ends[0], &byte, 1);
    if (setsid() < 0 || fork()) _exit(0);
    return pread(open(argv[0], O_RDONLY), &byte, 1, 0) != 1;
}
"#;

#[test]
fn daemon_belongs_to_its_run() {
    let sandbox = Sandbox::new("commands.daemon").unwrap();
    let (source, binary) = (sandbox.root().join("daemon.c"), sandbox.root().join("daemon"));
    std::fs::write(&source, DAEMON).unwrap();
    compile(&source, &binary, &[]).unwrap();
    let runs = || {
        let json = run(&sandbox, "dlio-analyze", &["trace", "--format", "json"]).1;
        let summary: serde_json::Value = serde_json::from_str(&json).unwrap();
        let runs = summary["runs"].as_array().unwrap();
        runs.iter().map(|run| run["processes"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    for told in [vec![3], vec![3, 3]] {
        let mut traced = Command::new(artefacts::command("dlio").unwrap());
        traced.args(["trace", "-o", "trace", "--"]).arg(&binary).env("DLIO_LIB", artefacts::library().unwrap());
        // The daemon leaves the process group, but has the pipe of the output open until it ends.
        let exit = traced.current_dir(sandbox.work()).output().unwrap().status;
        assert_eq!((exit.code(), runs()), (Some(0), told));
    }
}

#[test]
fn traced_command_writes_the_requested_page() {
    let sandbox = Sandbox::new("commands.page").unwrap();
    std::fs::write(sandbox.work().join("<b>data"), "some").unwrap();
    // The background process has started when the command ends, and ends shortly afterwards.
    let line = "mkfifo begun; cat '<b>data'; (exec 3< '<b>data'; echo > begun; sleep 0.3; cat '<b>data') > /dev/null & \
                read nothing < begun";
    let (exit, printed, message) =
        run(&sandbox, "dlio", &["trace", "-o", "trace", "--report", "report.html", "--", "sh", "-c", line]);
    assert_eq!((exit.as_str(), printed.as_str()), ("0", "some"), "{message}");
    assert!(message.contains("the report is report.html"), "{message}");
    let page = std::fs::read_to_string(sandbox.work().join("report.html")).unwrap();
    assert!(page.contains("Nothing lost, nothing damaged"), "{page}");
    assert!(page.contains("&lt;b&gt;data") && !page.contains("<b>data"), "{page}");
    let summary = run(&sandbox, "dlio-analyze", &["trace"]).1.replace('\n', " ");
    let (volume, _) = summary[summary.find(" In ").unwrap() + 1..].split_once(". ").unwrap();
    assert!(page.contains(volume), "the page does not say {volume}");
}

#[test]
fn earlier_run_in_the_directory_is_reported() {
    let sandbox = Sandbox::new("commands.mixed").unwrap();
    let first = traced(&sandbox, "cat /dev/null");
    assert!(!first.contains("earlier"), "{first}");
    let second = traced(&sandbox, "cat /dev/null");
    assert!(
        second.contains("the directory also contains earlier runs") && second.contains("use -o DIR to separate runs"),
        "{second}"
    );
}

#[test]
fn each_run_in_a_folder_can_be_shown_alone() {
    let sandbox = Sandbox::new("commands.runs").unwrap();
    let mut command = Command::new("sh");
    let dlio = artefacts::command("dlio").unwrap().display().to_string();
    // The kernel knows the start of a process only to a hundredth of a second: closer runs count as one.
    let line = "for run in 1 2; do \"$0\" trace --all -o trace -- cat /dev/null; sleep 0.1; done";
    command.args(["-c", line, &dlio]).env("DLIO_LIB", artefacts::library().unwrap());
    assert_eq!(sandbox.run(&mut command, true).unwrap().exit, "0");
    let reported = |arguments: &[&str]| {
        let (exit, report, message) =
            run(&sandbox, "dlio-analyze", &[&["trace", "--format", "json"], arguments].concat());
        assert_eq!(exit, "0", "{message}");
        let pids = report.split_once("\"pids\": ").map(|(_, rest)| rest.split(',').next().unwrap().to_string());
        pids.unwrap_or_else(|| panic!("{report}"))
    };
    let (both, first, last) = (reported(&["--run", "all"]), reported(&["--run", "1"]), reported(&["--run", "last"]));
    assert_eq!(reported(&[]), last);
    let number = |text: String| text.parse::<u64>().unwrap();
    assert_eq!(number(both), number(first) + number(last));
    let (exit, _, message) = run(&sandbox, "dlio-analyze", &["trace", "--run", "3"]);
    assert!(exit == "1" && message.contains("--run 1 to 2"), "{exit}: {message}");
}

/// The kernel knows the start of a process only to a hundredth of a second: closer runs count as one.
const APART: Duration = Duration::from_millis(30);

/// Returns the number of bytes read from files according to a report.
fn bytes_read(sandbox: &Sandbox, more: &[&str]) -> u64 {
    let json = run(sandbox, "dlio-analyze", &[&["trace", "--format", "json"], more].concat()).1;
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    report["dataset"]["bytes_read"].as_u64().unwrap()
}

#[test]
fn counted_runs_are_distinguished() {
    let sandbox = Sandbox::new("commands.counted-runs").unwrap();
    let program = compiled(&sandbox, "loops_in_threads_are_recorded_call_for_call.c");
    for calls in ["10000", "30000"] {
        run(&sandbox, "dlio", &["trace", "-o", "trace", "--mode", "summary", "--", &program, "mixed", "1", calls]);
        std::thread::sleep(APART);
    }
    let events = |more: &[&str]| {
        let json = run(&sandbox, "dlio-analyze", &[&["trace", "--format", "json"], more].concat()).1;
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["tally"]["left_out"].as_u64(), Some(0), "{}", report["tally"]);
        report["allocation"]["events"].as_u64().unwrap()
    };
    let (first, last, all) = (events(&["--run", "1"]), events(&[]), events(&["--run", "all"]));
    assert!((10_000..=10_010).contains(&first) && (30_000..=30_010).contains(&last), "{first} {last}");
    assert_eq!(all, first + last);
}

#[test]
fn the_page_of_a_command_is_about_its_run() {
    let sandbox = Sandbox::new("commands.pages").unwrap();
    for (name, bytes) in [("first", 1000), ("second", 20)] {
        std::fs::write(sandbox.work().join(name), vec![b'x'; bytes]).unwrap();
        let line = ["trace", "-o", "trace", "--report", "page.html", "--", "cat", name];
        let (exit, _, message) = run(&sandbox, "dlio", &line);
        assert_eq!(exit, "0", "{message}");
        std::thread::sleep(APART);
    }
    let page = std::fs::read_to_string(sandbox.work().join("page.html")).unwrap();
    assert!(
        page.contains("covers the last one") && page.contains("work/second") && !page.contains("work/first"),
        "{page}"
    );
    let read =
        [bytes_read(&sandbox, &[]), bytes_read(&sandbox, &["--run", "1"]), bytes_read(&sandbox, &["--run", "all"])];
    assert_eq!(read, [20, 1000, 1020]);
}

#[test]
fn closed_stderr_does_not_panic() {
    let sandbox = Sandbox::new("commands.deaf").unwrap();
    traced(&sandbox, "cat /dev/null");
    let mut command = Command::new("sh");
    let analyze = artefacts::command("dlio-analyze").unwrap().display().to_string();
    // The pipe's reader is gone before anything is printed.
    let line = "mkfifo pipe; exec 3<>pipe 4>pipe 3<&-; \"$0\" nothing 2>&4; \"$0\" trace --html page.html 2>&4";
    let run = sandbox.run(command.args(["-c", line, &analyze]), true).unwrap();
    assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
    assert!(sandbox.work().join("page.html").exists());
}

#[test]
fn killed_process_is_reported_with_its_size() {
    let sandbox = Sandbox::new("commands.killed").unwrap();
    let program = compiled(&sandbox, "every_ending_keeps_every_completed_call.c");
    let (exit, _, message) = run(&sandbox, "dlio", &["trace", "-o", "trace", "--", &program, "SIGKILL", "100"]);
    assert_eq!(exit, "137");
    assert!(
        message.contains("1 process was killed, exited without the C library, or ran out of space")
            && !message.contains("(0 B)"),
        "{message}"
    );
}

#[test]
fn descriptor_arguments_have_separate_keys() {
    let sandbox = Sandbox::new("commands.descriptors").unwrap();
    let program = compiled(&sandbox, "descriptors_that_multiply_are_recorded.c");
    let (exit, _, message) = run(&sandbox, "dlio", &["trace", "-o", "trace", "--", &program]);
    assert_eq!(exit, "42", "{message}");
    let query = "select fd, args from events where name = 'dup2' or name = 'close_range'";
    let (_, rows, message) = run(&sandbox, "dlio-analyze", &["trace", "--format", "ndjson", "--sql", query]);
    // For a successful duplicate the original, for a failed one the requested number.
    for args in [r#""other_fd":"3""#, r#""other_fd":"70""#, r#"{"count":"55","second":"65"}"#] {
        assert!(rows.contains(args), "{args}: {rows}{message}");
    }
}

/// Its last call bypasses the C library, and nothing in the process can record it.
#[test]
fn raw_exit_gets_the_status_from_wait() {
    let sandbox = Sandbox::new("commands.past").unwrap();
    let program = compiled(&sandbox, "every_ending_keeps_every_completed_call.c");
    for count in ["100", "100000"] {
        let (exit, _, message) = run(&sandbox, "dlio", &["trace", "-o", count, "--", &program, "exit_group", count]);
        assert_eq!(exit, "42", "{message}");
        let query = "select ended from processes";
        let (exit, table, message) = run(&sandbox, "dlio-analyze", &[count, "--strict", "--sql", query]);
        assert!(exit == "0" && table.contains("exit 42"), "{count}: {table}{message}");
    }
}

#[test]
fn dropped_privileges_do_not_look_like_a_kill() {
    let sandbox = Sandbox::new("commands.rights").unwrap();
    let program = compiled(&sandbox, "chroot_and_setuid_keep_the_trace.c");
    for way in ["setuid", "chroot", "both"] {
        let (exit, _, message) = run(&sandbox, "dlio", &["trace", "-o", way, "--", &program, way]);
        assert_eq!(exit, "42", "{message}");
        assert!(message.contains("1 process recorded") && !message.contains("was killed"), "{way}: {message}");
    }
}

#[test]
fn unknown_option_runs_nothing() {
    let sandbox = Sandbox::new("commands.options").unwrap();
    let (exit, _, message) = run(&sandbox, "dlio", &["trace", "--fromat", "native", "--", "ls"]);
    assert!(exit == "2" && message.contains("--format"), "{exit} {message}");
    assert_eq!(run(&sandbox, "dlio", &["trace", "--bogus", "--", "ls"]).0, "2");
    assert_eq!(run(&sandbox, "dlio", &["trace", "-q", "sh", "-c", "exit 7", "--bogus"]).0, "7");
}

#[test]
fn pipe_traffic_is_reported_separately() {
    let sandbox = Sandbox::new("commands.pipes").unwrap();
    traced(&sandbox, "seq 100000 | cat | wc -c");
    let summary = run(&sandbox, "dlio-analyze", &["trace", "--full"]).1;
    assert!(summary.replace('\n', " ").contains("MB through pipes, sockets and terminals."), "{summary}");
    assert!(summary.contains("written through pipes, sockets and terminals\n"), "{summary}");
}

#[test]
fn fdopen_is_not_a_second_open() {
    const FILES: usize = 128;
    const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        FILE *stream = fdopen(open(argv[i], O_RDONLY), "r");
        if (!stream || fgetc(stream) != 'x' || fclose(stream)) return 1;
    }
    return 0;
}
"#;
    let sandbox = Sandbox::new("commands.fdopen").unwrap();
    let (source, binary) = (sandbox.root().join("streams.c"), sandbox.root().join("streams"));
    std::fs::write(&source, PROGRAM).unwrap();
    compile(&source, &binary, &[]).unwrap();
    let (binary, names) = (binary.display().to_string(), (0..FILES).map(|i| format!("data{i}")).collect::<Vec<_>>());
    names.iter().for_each(|name| std::fs::write(sandbox.work().join(name), "x").unwrap());
    let line = ["trace", "-o", "trace", "--", &binary].into_iter().chain(names.iter().map(String::as_str));
    assert_eq!(run(&sandbox, "dlio", &line.collect::<Vec<_>>()).0, "0");
    let ask = |sql: &str| {
        let (_, printed, message) = run(&sandbox, "dlio-analyze", &["trace", "--format", "csv", "--sql", sql]);
        printed.lines().nth(1).unwrap_or_else(|| panic!("{sql}: {message}")).to_string()
    };
    assert_eq!(ask("select count(*) from events where name = 'fdopen'"), FILES.to_string());
    assert_eq!(ask("select sum(opens) from files where path like '%/data%'"), FILES.to_string());
    let (_, json, _) = run(&sandbox, "dlio-analyze", &["trace", "--format", "json"]);
    let metadata = json.split_once("\"group\": \"open\"").expect("a row of opens").1;
    let count = metadata.split_once("\"count\": ").unwrap().1.split_once(',').unwrap().0;
    assert_eq!(count, FILES.to_string(), "{json}");
}

#[test]
fn options_of_other_tracers_are_answered() {
    let sandbox = Sandbox::new("commands.foreign").unwrap();
    for (words, part) in [
        (&["trace", "-e", "open,read", "--", "true"][..], "dlio-analyze -e open,read"),
        (&["trace", "-f", "--", "true"], "child processes are always traced"),
        (&["trace", "-tt", "--", "true"], "always recorded"),
        (&["trace", "-c", "--", "true"], "use --mode summary"),
        (&["trace", "--for", "10s", "--", "true"], "dlio-analyze --from 5s --for 10s"),
        (&["trace", "--attach", "1"], "strace -f -tt -T -y -p PID"),
        (&["trace", "-p", "1"], "cannot attach to process 1"),
        (&["record", "--", "true"], "dlio trace -- COMMAND"),
        (&["report", "trace"], "dlio analyze TRACE"),
    ] {
        let (exit, _, message) = run(&sandbox, "dlio", words);
        assert!(exit == "2" && message.contains(part), "{words:?}: {exit} {message}");
    }
    assert!(!sandbox.root().join("dlio-trace").exists());
}
