//! Tests the answers of `dlio-analyze` to command lines, right and wrong.

mod generator;
mod support;

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use generator::{Plan, generate};
use support::program::{analyze, printed, text};
use support::temp_dir;
use tempfile::TempDir;

/// Returns the message of a command that is rejected.
fn refused(arguments: &[&str]) -> String {
    let output = analyze(arguments);
    assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn made(name: &str) -> (TempDir, String) {
    let folder = temp_dir(name);
    generate(folder.path(), &Plan { events: 1000, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let path = folder.path().display().to_string();
    (folder, path)
}

#[test]
fn wrong_query_reports_position_and_tables() {
    let (_folder, trace) = made("queries");
    let message = |sql: &str| refused(&[&trace, "--sql", sql]);
    let unknown = message("select * from event");
    assert!(unknown.contains("unknown table event; did you mean events? The tables are events,"), "{unknown}");
    let unread = message("select (name\n  from events");
    assert!(unread.contains("line 2, column ") && unread.contains('^'), "{unread}");
    for wrong in [&unknown, &unread, &message("selec 1"), &message("select 'a"), &message("select nothing from events")]
    {
        assert!(!["ParserError", "TokenizerError", "datafusion."].iter().any(|word| wrong.contains(word)), "{wrong}");
    }
    for change in ["drop table events", "insert into files values (1)", "create table events (x int)"] {
        assert!(message(change).contains("read-only"), "{change}");
    }
    assert!(["", "  ", ";", "\n"].iter().all(|sql| message(sql).contains("is empty")));
    assert!(printed(&[&trace, "--sql", "select count(*) from events", "--format", "csv"]).lines().count() == 2);
}

#[test]
fn only_requested_sections_are_in_any_format() {
    let (_folder, trace) = made("sections");
    let keys = |arguments: &[&str]| -> Vec<String> {
        let printed = printed(&[&[&trace[..], "--format", "json"], arguments].concat());
        serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(&printed).unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&["--section", "time,files"]), ["schema", "version", "time", "files"]);
    let elsewhere = temp_dir("sections-report");
    let report = elsewhere.path().join("report.json").display().to_string();
    printed(&[&trace, "--format", "json", "-o", &report]);
    assert!(refused(&[&report]).contains("this is a report of dlio-analyze"), "{}", refused(&[&report]));
    assert_eq!(keys(&["--findings"]), ["schema", "version", "findings"]);
    assert!(keys(&["--full"]).len() > 20 && keys(&[]).len() > 20);
    let csv = printed(&[&trace, "--format", "csv", "--section", "time"]);
    let named = |line: &str| ["schema,", "version,", "time,"].iter().any(|section| line.starts_with(section));
    assert!(csv.lines().skip(1).all(named) && csv.contains("time,,total_ns,"), "{csv}");
    // The text of the hosts is a row for each, also for a single one.
    let first = printed(&[&trace, "--format", "csv", "--sql", "select pid from processes order by proc limit 1"]);
    for hosts in [2, 1] {
        let pid = if hosts == 1 { &["--pid", first.lines().nth(1).unwrap()][..] } else { &[] };
        let of_hosts = [&[&trace[..], "--section", "hosts"], pid].concat();
        let found: serde_json::Value =
            serde_json::from_str(&printed(&[&of_hosts[..], &["--format", "json"]].concat())).unwrap();
        let names: Vec<&str> =
            found["hosts"].as_array().unwrap().iter().map(|it| it["host"].as_str().unwrap()).collect();
        let text = printed(&of_hosts);
        let lines: Vec<&str> = text.lines().collect();
        assert!(names.len() == hosts && lines.len() == hosts + 2 && lines[0] == "Hosts", "{found} {text}");
        assert!(lines[2..].iter().zip(&names).all(|(row, name)| row.trim_start().starts_with(name)), "{text}");
    }
}

#[test]
fn page_matches_summary_and_replaces_no_file() {
    let (_folder, trace) = made("page");
    let elsewhere = temp_dir("page-elsewhere");
    let path = elsewhere.path().join("report.html");
    let page = path.display().to_string();
    assert_eq!(printed(&[&trace, "--html", &page]), "", "a page is all that was asked for");
    let written = std::fs::read_to_string(&path).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&printed(&[&trace, "--format", "json"])).unwrap();
    for sentence in summary["verdict"].as_array().unwrap() {
        let sentence = sentence.as_str().unwrap();
        let (answer, figures) = sentence.split_once(": ").unwrap_or((sentence, ""));
        assert!(written.contains(answer) && written.contains(figures), "{sentence}");
    }
    for section in ["functions", "files", "processes", "ranks"] {
        assert!(written.contains(&format!("id=\"s-{section}\"")), "{section}");
    }
    assert!(refused(&[&trace, "--html", &page]).contains("exists"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
    assert!(printed(&[&trace, "--html", &page, "--force", "--summary"]).contains("\nTime\n"));
    assert!(refused(&[&trace, "--html", &format!("{trace}/report.html")]).contains("among"));
    let names: Vec<_> = std::fs::read_dir(elsewhere.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["report.html"], "nothing half made is left");
}

#[test]
fn queries_read_the_trace_and_nothing_else() {
    let (_folder, trace) = made("read-only");
    let elsewhere = temp_dir("read-only-elsewhere");
    let csv = elsewhere.path().join("own.csv");
    std::fs::write(&csv, "a\n1\n").unwrap();
    let copy = format!("copy (select 7 as b) to '{}/copy.csv' stored as csv", elsewhere.path().display());
    let table = format!("create external table own stored as csv location '{}'", csv.display());
    for sql in [&copy, &table, &format!("explain analyze {copy}")] {
        assert!(refused(&[&trace, "--sql", sql]).contains("--sql-files allows it"), "{sql}");
    }
    assert!(!elsewhere.path().join("copy.csv").exists());
    let from_file = format!("select * from '{}'", csv.display());
    assert!(refused(&[&trace, "--sql", &from_file]).contains("unknown table"));
    for sql in [
        "set datafusion.runtime.memory_limit = '64G'",
        "set datafusion.execution.batch_size = 100000000",
        "create schema other",
        "with x as (select * from files) insert into files select * from x",
    ] {
        refused(&[&trace, "--sql", sql]);
    }
    // Tables of the user are in memory, and allowed; so is everything with the option.
    let own = ["create table mine as select 1 as a", "create view seen as select * from mine", "select * from seen"];
    let words: Vec<&str> = own.iter().flat_map(|sql| ["--sql", sql]).collect();
    assert!(printed(&[&[&*trace, "--format", "csv"][..], &words].concat()).ends_with("a\n1\n"));
    let asked = ["--sql-files", "--format", "csv", "--sql", &table, "--sql", &copy, "--sql", "select * from own"];
    assert!(printed(&[&[&*trace][..], &asked].concat()).ends_with("1\n"));
    assert_eq!(std::fs::read_to_string(elsewhere.path().join("copy.csv")).unwrap(), "b\n7\n");
}

/// Returns the peak memory of a process, in KiB.
fn peak(process: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a process that runs");
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A shell that runs queries, with its peak memory.
struct ShellProcess {
    shell: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl ShellProcess {
    fn new(trace: &Path, memory: &str) -> ShellProcess {
        let mut shell = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"))
            .arg(trace)
            .args(["--shell", "--no-cache", "--format", "csv", "--memory", memory])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        ShellProcess { shell, lines }
    }

    /// Returns the only row of a result.
    fn row(&mut self, sql: &str) -> (String, u64) {
        writeln!(self.shell.stdin.as_ref().unwrap(), "{sql};").unwrap();
        self.lines.next().unwrap().unwrap();
        (self.lines.next().unwrap().unwrap(), peak(&self.shell))
    }

    fn end(mut self) {
        drop(self.shell.stdin.take());
        assert!(self.shell.wait().unwrap().success());
    }
}

/// It was 10 KiB per process, mostly memory for maps with one thread each.
#[test]
fn many_processes_take_little_memory_each() {
    const PROCESSES: u64 = 100_000;
    const EACH_KIB: u64 = 6;
    let folder = temp_dir("many-processes");
    let path = folder.path().join("processes.json");
    let mut file = BufWriter::new(std::fs::File::create(&path).unwrap());
    for i in 1..=PROCESSES {
        writeln!(
            file,
            "{{\"name\":\"read\",\"cat\":\"posix\",\"ph\":\"X\",\"ts\":{i},\"dur\":1,\"pid\":{i},\"tid\":{i}}}"
        )
        .unwrap();
    }
    drop(file);
    let mut shell_process = ShellProcess::new(&path, "1GiB");
    let (_, before) = shell_process.row("select 1 as one");
    let (count, after) = shell_process.row("select count(*) from processes");
    shell_process.end();
    assert_eq!(count, PROCESSES.to_string());
    assert!(after - before < PROCESSES * EACH_KIB, "{before} KiB became {after}");
}

#[test]
fn sorts_continue_on_disk_with_little_memory() {
    let folder = temp_dir("sorts");
    generate(folder.path(), &Plan { events: 2_000_000, ..Plan::default() }, &|_, _, _| ()).unwrap();
    for memory in ["64MiB", "128MiB"] {
        for sql in
            ["select * from events order by dur desc, ts", "select ts, count(*) from events group by ts order by ts"]
        {
            let mut analyze = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
            analyze.arg(folder.path()).args([
                "--no-cache",
                "--threads",
                "2",
                "--memory",
                memory,
                "--format",
                "csv",
                "--sql",
                sql,
            ]);
            let output = analyze.stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "{memory} {sql}: {}", text(&output.stderr));
        }
    }
    // The merge of threads would hold the strings of all sorted files, and fail depending on their timing.
    let trace = folder.path().display().to_string();
    let plan = printed(&[&trace, "--threads", "2", "--sql", "explain select * from events order by dur desc, ts"]);
    assert!(plan.contains("CompactViewsExec"), "{plan}");
}

/// Without a limit it is twice as much.
#[test]
fn query_over_many_names_respects_memory_limit() {
    const NAMES: u64 = 400_000;
    const MEMORY_KIB: u64 = 128 << 10;
    let folder = temp_dir("many-names");
    let path = folder.path().join("names.json");
    let mut file = BufWriter::new(std::fs::File::create(&path).unwrap());
    for i in 0..NAMES {
        let line = format!(
            "{{\"name\":\"step number {i}\",\"cat\":\"c\",\"ph\":\"X\",\"ts\":{i},\"dur\":1,\"pid\":1,\"tid\":1}}"
        );
        writeln!(file, "{line}").unwrap();
    }
    drop(file);
    let mut shell_process = ShellProcess::new(&path, &format!("{MEMORY_KIB}KiB"));
    let (_, before) = shell_process.row("select 1 as one");
    let grouped = "select name, count(*) n, sum(dur) from events group by name";
    let (counted, after) = shell_process.row(&format!("select sum(n), count(*) from ({grouped})"));
    shell_process.end();
    let (events, names) = counted.split_once(',').unwrap();
    assert_eq!(events, NAMES.to_string(), "no event is lost if names do not fit");
    assert!(names.parse::<u64>().unwrap() > 10_000, "{names}");
    assert!(after - before < MEMORY_KIB, "{before} KiB became {after}");
}

#[test]
fn functions_respect_the_query_memory_limit() {
    let (_folder, trace) = made("bounded");
    for much in [
        "length(repeat('x', 2000000000))",
        "length(lpad('x', 2000000000))",
        "length(rpad('x', 2000000000, 'ab'))",
        "array_length(array_repeat(1, 2000000000))",
        "array_length(generate_series(1, 9000000000))",
        "array_length(range(9000000000))",
        "array_length(array_resize(make_array(1), 2000000000))",
        "length(replace(repeat('x', 100000), 'x', repeat('y', 100000)))",
        "length(regexp_replace(repeat('x', 100000), 'x', repeat('y', 100000), 'g'))",
        "sum(length(repeat(name, 10000000))) from events",
    ] {
        let message = refused(&[&trace, "--memory", "64MB", "--sql", &format!("select {much}")]);
        assert!(message.contains("needs more memory than --memory allows"), "{much}: {message}");
    }
    let little = "select repeat('ab', 2) a, lpad('x', 3, '-') b, rpad('x', 2, '-') c, array_length(range(10)) d, \
                  replace('aXb', 'X', '--') e, regexp_replace('aXb', 'X', '') f, array_to_string(make_array(1, 2), ';') g";
    let rows = printed(&[&trace, "--memory", "64MB", "--format", "csv", "--sql", little]);
    assert_eq!(rows, "a,b,c,d,e,f,g\nabab,--x,x-,10,a--b,ab,1;2\n");
    let by_row = "select count(distinct repeat(name, 3)) n from events";
    printed(&[&trace, "--memory", "64MB", "--sql", by_row]);
}

#[test]
fn missing_argument_means_trace_in_this_directory() {
    let (folder, _) = made("default");
    let run = |at: &std::path::Path| {
        Command::new(env!("CARGO_BIN_EXE_dlio-analyze")).current_dir(at).args(["--format", "json"]).output().unwrap()
    };
    let none = run(folder.path());
    assert!(!none.status.success() && text(&none.stderr).contains("dlio-trace: no such file or directory"));
    let above = temp_dir("default-above");
    generate(&above.path().join("dlio-trace"), &Plan { events: 1000, ..Plan::default() }, &|_, _, _| ()).unwrap();
    assert!(text(&run(above.path()).stdout).contains("\"dlio-summary\""));
}

#[test]
fn first_screen_fits_and_tables_are_optional() {
    let folder = temp_dir("screen");
    let plan = Plan { processes: 40, events: 200_000, files: 3000, ..Plan::default() };
    generate(folder.path(), &plan, &|_, _, _| ()).unwrap();
    let trace = folder.path().display().to_string();
    let screen = printed(&[&trace]);
    let longest = screen.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(screen.lines().count() < 40 && longest <= 80, "{} lines, {longest} wide\n{screen}", screen.lines().count());
    for part in ["BOUND: ", "Training ", "\nFindings\n", "\nTime\n", "--full", "--view"] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    // The answer precedes the tables, which need space or a number of rows.
    let few = printed(&[
        &trace,
        "--ignore",
        "slow-start,input-bound,loader-capacity,storage-latency-bound,small-reads,straggler-rank,failing-io,trust",
    ]);
    assert!(few.contains("\nFindings: none\n") && few.lines().count() < 40, "{few}");
    let tables = printed(&[&trace, "--top", "3"]);
    assert!(tables.contains("\nFile calls\n") && tables.contains("\nDirectories\n"), "{tables}");
    let full = printed(&[&trace, "--full", "--top", "100"]);
    assert!(full.contains("\nBy process\n") && full.contains("\nBy rank\n") && full.lines().count() > 150, "{full}");
    let one = printed(&[&trace, "--section", "ranks"]);
    assert!(one.starts_with("By rank\n") && !one.contains("By process"), "{one}");
    assert!(printed(&[&trace, "--top", "20"]).lines().count() > 60);
}

#[test]
fn runs_of_one_directory_are_distinguished() {
    let folder = temp_dir("runs");
    let (early, late) = (Plan { events: 1000, ..Plan::default() }, Plan { events: 5000, seed: 2, ..Plan::default() });
    generate(folder.path(), &early, &|_, _, _| ()).unwrap();
    generate(&folder.path().join("later"), &Plan { after_ns: 3_600_000_000_000, ..late }, &|_, _, _| ()).unwrap();
    let trace = folder.path().display().to_string();
    let count = |filters: &[&str]| {
        let rows =
            printed(&[&[&*trace, "--format", "csv", "--sql", "select count(*) n from events"][..], filters].concat());
        rows.lines().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let first_lines = |more: &[&str]| printed(&[&[&*trace], more].concat()).replace('\n', " ");
    let about_last = "This trace contains 2 runs; this report covers the last one, which started ";
    for asked in [&[][..], &["--full"], &["--section", "files"], &["--findings"]] {
        assert!(first_lines(asked).contains(about_last), "{asked:?}: {}", first_lines(asked));
    }
    let (first, last) = (count(&["--run", "1"]), count(&["--run", "last"]));
    assert!(first > 0 && last > first && first + last == count(&[]) && last == count(&["--run", "2"]));
    assert_eq!(printed(&[&trace, "--run", "last"]), printed(&[&trace]));
    assert!(first_lines(&["--run", "all"]).contains("This trace contains 2 runs, and this report combines them"));
    assert!(refused(&[&trace, "--run", "3"]).contains("this trace contains 2 runs"));
}

#[test]
fn empty_filter_results_exit_the_same() {
    let (_folder, trace) = made("alike");
    for filters in
        [&["--pid", "1"][..], &["--rank", "77"], &["--cat", "nosuch"], &["--from", "1h"], &["--epoch", "900"]]
    {
        for asked in
            [&[][..], &["--format", "json"], &["--chrome", "/dev/null", "--force"], &["--sql", "select 1 from events"]]
        {
            let output = analyze(&[&[&*trace][..], filters, asked].concat());
            let is_query = asked.first() == Some(&"--sql") && filters[0] == "--cat";
            assert_eq!(output.status.code(), Some(!is_query as i32), "{filters:?} {asked:?}: {}", text(&output.stderr));
        }
    }
    assert!(refused(&[&trace, "--from", "10"]).contains("10s is a time since the start of the trace"));
}

#[test]
fn tables_are_listed_without_a_trace() {
    let tables = printed(&["--tables"]);
    assert!(["events: one row", "tracer_ns", "CPU time of the tracer itself"].iter().all(|part| tables.contains(part)));
    assert!(printed(&["--help"]).contains("--tables"));
}

#[test]
fn completions_handle_closed_pipe_and_full_disk() {
    let to = |output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
        command.args(["--completions", "bash"]).stdout(output).output().unwrap()
    };
    let (_, deserted) = std::io::pipe().unwrap();
    let left = to(deserted.into());
    assert_eq!((left.status.code(), left.stderr.len()), (Some(0), 0));
    let full = to(std::fs::File::options().write(true).open("/dev/full").unwrap().into());
    assert_eq!(full.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&full.stderr).contains("cannot write the result: No space left"));
}

#[test]
fn completions_are_printed_in_both_ways() {
    assert_eq!(printed(&["completions", "bash"]), printed(&["--completions", "bash"]));
    let top = |words: &[&str]| Command::new(env!("CARGO_BIN_EXE_dlio-top")).args(words).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&top(&["completions", "fish"])).contains("complete -c dlio-top -l once"));
    assert_eq!(top(&["completions", "zsh"]), top(&["--completions", "zsh"]));
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
    let (message, wrong) = (text(&output.stdout), text(&output.stderr));
    let parts = ["one row per host\n", "one\n1\n", "two\n;\n", "boot_id", "three\n3\n"];
    let places: Vec<_> = parts.iter().map(|part| message.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{message}");
    assert!(!message.contains("four") && wrong.contains("cannot run the query"), "{message}{wrong}");
}

#[test]
fn empty_filter_result_lists_available_values() {
    let (_folder, trace) = made("filters");
    let unmatched = |words: &[&str]| {
        let output = analyze(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}: {}", text(&output.stdout));
        text(&output.stderr).replace('\n', " ")
    };
    let message = unmatched(&[&trace, "--cat", "process", "--min-dur", "1h"]);
    assert!(message.contains("no event matches the filters (--cat, --min-dur)"), "{message}");
    assert!(!message.contains("process ids") && !message.contains("it starts at"), "{message}");
    assert!(unmatched(&[&trace, "--pid", "1"]).contains("; process ids 1000, 1001"));
    assert!(unmatched(&[&trace, "--from", "1h"]).contains("; it starts at "));
    // The events and categories that a query finds.
    let column =
        |sql: &str| printed(&[&trace, "--format", "csv", "--sql", sql]).lines().skip(1).collect::<Vec<_>>().join(" ");
    let (events, cats) =
        (column("select count(*) n from events"), column("select distinct cat from events order by cat"));
    assert!(
        message.replace(',', "").contains(&format!("The trace has {events} events; categories {cats}.")),
        "{message}"
    );
    for wrong in [&["--pid", "1"][..], &["--rank", "77"], &["--from", "1h"], &["--file", "/nowhere/*"]] {
        let message = unmatched(&[&[&*trace][..], wrong].concat());
        assert!(message.contains(&format!("dlio-analyze: no event matches the filters ({})", wrong[0])), "{message}");
    }
    let path = column("select min(path) path from files where path like '/%'");
    let (_, name) = path.rsplit_once('/').unwrap();
    let message = unmatched(&[&trace, "--file", name]);
    assert!(message.contains(&format!("whole path: --file '*/{name}' has ")), "{message}");
    assert!(unmatched(&[&trace, "--file", "/nowhere/*"]).contains("whole path, such as /"));
    let unknown = refused(&[&trace, "--cat", "nosuch"]);
    assert!(unknown.contains("no event has the category nosuch (--cat); the trace has ") && unknown.contains("posix"));
    assert!(refused(&[&trace, "--cat", "nosuch", "--chrome", "/dev/null", "--force"]).contains("category nosuch"));
    let before = refused(&[&trace, "--from", "-1s"]);
    assert!(before.contains("relative to the start of the trace"), "{before}");
    assert!(refused(&[&trace, "--window", "-1s..2s"]).contains("relative to the start of the trace"));
}

#[test]
fn top_lists_as_many_files_as_it_says() {
    let folder = temp_dir("top");
    generate(folder.path(), &Plan { events: 20_000, files: 500, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let trace = folder.path().display().to_string();
    for number in [3, 120] {
        let listed = printed(&[&trace, "--section", "files", "--top", &number.to_string()]);
        let rows = listed.lines().filter(|line| line.trim_start().starts_with("/data/")).count();
        assert_eq!(rows, number, "{listed}");
        assert!(listed.contains("more"), "{listed}");
    }
}

#[test]
fn pipe_is_rejected_and_file_on_stdin_is_read() {
    let (_folder, trace) = made("stdin");
    let tables = temp_dir("stdin-fifo");
    let fifo = tables.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reason = "a pipe or device, but a trace is read more than once; write it to a file first";
    assert!(refused(&[&fifo.display().to_string()]).contains(reason));
    let given = |input: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
        command.arg("/dev/stdin").stdin(input).output().unwrap()
    };
    let (pipe, _writer) = std::io::pipe().unwrap();
    let piped = given(pipe.into());
    assert!(!piped.status.success() && text(&piped.stderr).contains(reason), "{}", text(&piped.stderr));
    let native = std::fs::read_dir(&trace).unwrap().map(|entry| entry.unwrap().path());
    let native = native.into_iter().find(|path| path.extension().is_some_and(|end| end == "dlt")).unwrap();
    let read = given(std::fs::File::open(native).unwrap().into());
    assert!(read.status.success() && text(&read.stdout).contains("the tracer"), "{}", text(&read.stderr));
}

#[test]
fn closed_pipe_is_silent_in_every_format() {
    let (_folder, trace) = made("deserted");
    let query = ["--sql", "select * from events"];
    let (reports, tables) = (["text", "json", "csv"], ["text", "json", "csv", "ndjson", "parquet", "arrow"]);
    let asked = reports.map(|form| vec!["--format", form]).into_iter();
    let asked = asked.chain(tables.map(|form| vec!["--format", form, query[0], query[1]]));
    for words in asked {
        let (_, deserted) = std::io::pipe().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
        let left = command.arg(&trace).args(&words).stdin(Stdio::null()).stdout(deserted).output().unwrap();
        assert_eq!((left.status.code(), text(&left.stderr).as_str()), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn progress_lines_accompany_queries_and_reports() {
    let (_folder, trace) = made("drawn");
    for words in [&["--sql", "select name, dur from events", "--format", "arrow"][..], &["--format", "json"]] {
        let [plain, drawn] = [&[][..], &["--progress-lines"]].map(|more| {
            let arguments = [&[trace.as_str(), "--no-cache", "--threads", "1"], words, more].concat();
            analyze(&arguments)
        });
        assert_eq!((&drawn.stdout, text(&plain.stderr).as_str()), (&plain.stdout, ""), "{words:?}");
        let lines = text(&drawn.stderr);
        assert!(!lines.is_empty(), "{words:?}");
        for line in lines.lines() {
            let rest = line.strip_prefix("progress ").expect("a line of progress");
            let numbers: Vec<u64> = rest.split(' ').map(|number| number.parse().expect("a number")).collect();
            assert!(numbers.len() == 3 && numbers[0] <= numbers[1] && numbers[1] > 0, "{line}");
        }
    }
}

#[test]
fn output_of_show_sql_is_a_valid_query() {
    let (_folder, trace) = made("shown");
    let mut asked = 0;
    for section in dlio_analyzer::summary::report::SECTIONS.iter().filter(|section| section.sql.is_some()) {
        let query = printed(&["--show-sql", section.name]);
        let rows: serde_json::Value =
            serde_json::from_str(&printed(&[&trace, "--format", "json", "--sql", &query])).unwrap();
        assert!(rows.is_array(), "{}: {rows}", section.name);
        asked += 1;
    }
    assert!(asked > 8 && in_one_line(&printed(&["--explain"])).contains("There is no SQL for this section"));
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn rule_section_and_metric_are_explained_by_name() {
    let (_folder, trace) = made("explained");
    let rule = printed(&["--explain", "small-reads"]);
    assert!(rule.starts_with("small-reads: a rule of the findings.") && rule.contains("(small-reads.time)"), "{rule}");
    assert!(printed(&["--explain", "Split of time"]).starts_with("time\n  Split of time: "));
    assert!(printed(&["--explain", "wait.share"]).starts_with("wait.share (share): "));
    assert!(refused(&["--explain", "smal-reads"]).contains("did you mean small-reads?"));
    for text in [printed(&["--explain"]), rule] {
        assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains("FINDINGS.md"), "{text}");
    }
    // The trace may come after it as well as before it.
    for words in [[&trace[..], "--explain"], ["--explain", &trace]] {
        let both = printed(&words);
        assert!(both.starts_with("Sections of the report") && both.contains("\nTime\n"), "{both}");
    }
}

#[test]
fn sections_are_found_by_their_heading() {
    let (_folder, trace) = made("titles");
    let full = printed(&[&trace, "--full"]);
    let lines: Vec<&str> = full.lines().collect();
    let is_title = |line: &str| line.starts_with(char::is_alphabetic) && !line.contains('.');
    let titles = lines.windows(2).filter(|pair| pair[0].is_empty() && is_title(pair[1])).map(|pair| pair[1]);
    let titles: Vec<&str> = titles.collect();
    assert!(titles.len() > 12 && titles.contains(&"By process"), "{titles:?}");
    for title in titles {
        let typed = title.split(',').next().unwrap_or_default();
        for typed in [typed, &typed.to_lowercase()] {
            assert!(printed(&[&trace, "--section", typed]).starts_with(title), "{typed}");
        }
    }
}

#[test]
fn damaged_parquet_reports_a_remedy() {
    let (_folder, trace) = made("parquet");
    let tables = temp_dir("parquet-damaged");
    let (whole, hurt) = (tables.path().join("whole"), tables.path().join("hurt"));
    printed(&[&trace, "--parquet", &whole.display().to_string()]);
    let part = "events/part-000.parquet";
    let content = |file: &str| std::fs::read(whole.join(file)).unwrap();
    let message = |file: &str, bytes: &[u8]| {
        let _ = std::fs::remove_dir_all(&hurt);
        std::fs::create_dir_all(hurt.join("events")).unwrap();
        for name in [part, "files.parquet", "processes.parquet", "hosts.parquet"] {
            std::fs::copy(whole.join(name), hurt.join(name)).unwrap();
        }
        std::fs::write(hurt.join(file), bytes).unwrap();
        let output = analyze(&[&hurt.display().to_string(), "--no-cache"]);
        let message = text(&output.stderr);
        assert!(message.lines().count() <= 1 && !message.contains("panicked"), "{file}: {message}");
        message
    };
    let events = content(part);
    let cut = message(part, &events[..events.len() / 2]);
    assert!(cut.contains(part) && cut.contains("is not valid Parquet; write it again"), "{cut}");
    let processes = content("processes.parquet");
    let unlisted = message("processes.parquet", &processes[..processes.len() / 2]);
    assert!(unlisted.contains("hosts.parquet and processes.parquet that belong to it are not valid"), "{unlisted}");
    for at in (0..events.len() - 64).step_by(events.len() / 60) {
        let mut flipped = events.clone();
        flipped[at..at + 64].iter_mut().for_each(|byte| *byte ^= 0x5a);
        message(part, &flipped);
    }
    let alone = tables.path().join("alone.parquet");
    std::fs::write(&alone, &events).unwrap();
    assert!(refused(&[&alone.display().to_string()]).contains("pass the directory that --parquet wrote"));
}

/// Lines of prose end where the next word does not fit, or where a paragraph ends.
#[test]
fn texts_of_help_are_wrapped_once() {
    let is_prose = |line: &str| line.starts_with(|c: char| c.is_alphabetic());
    for words in [&["--help"][..], &["worker", "--help"]] {
        let help = printed(words);
        let lines: Vec<&str> = help.lines().collect();
        for pair in
            lines.windows(2).filter(|pair| pair.iter().all(|line| is_prose(line)) && !pair[0].ends_with([':', '.']))
        {
            let word = pair[1].split(' ').next().unwrap_or_default();
            assert!(pair[0].len() + 1 + word.len() > 99, "{words:?}: {pair:?}");
        }
        assert!(lines.iter().all(|line| line.chars().count() <= 116), "{words:?}");
        assert!(words.len() == 1 || help.contains("Usage: dlio-analyze worker [OPTIONS]"), "{help}");
    }
}

#[test]
fn a_dash_is_standard_output() {
    let (folder, trace) = made("dash");
    let rows = printed(&[&trace, "--sql", "select count(*) n from events", "--format", "csv"]);
    assert_eq!(printed(&[&trace, "--sql", "select count(*) n from events", "--format", "csv", "-o", "-"]), rows);
    let page = printed(&[&trace, "--html", "-"]);
    assert!(page.starts_with("<!") && page.trim_end().ends_with("</html>"), "{}", &page[..100]);
    assert!(!Path::new("-").exists() && !folder.path().join("-").exists());
    let both = refused(&[&trace, "--html", "-", "--summary"]);
    assert!(both.contains("--html - writes a page to standard output"), "{both}");
    let limits = refused(&["--", "--fail-if", "wall_s > 5"]);
    assert!(limits.contains("put this option before it"), "{limits}");
}

/// Returns the cells of a query without the heads.
fn rows(trace: &str, sql: &str) -> Vec<String> {
    printed(&[trace, "--format", "csv", "--sql", sql]).lines().skip(1).map(String::from).collect()
}

#[test]
fn times_are_timestamps_in_queries() {
    let (_folder, trace) = made("times");
    let all = rows(&trace, "select count(*) from events");
    let exact = &rows(&trace, "select arrow_cast(min(ts), 'Timestamp(Nanosecond, None)') from events")[0];
    for same in [
        "select min(ts)::timestamp from events",
        "select to_timestamp(min(ts)) from events",
        "select min(to_timestamp(ts)) from events",
        "select cast(x.t as timestamp) from (select min(ts) t from events) x",
        "with w as (select ts from events) select to_timestamp(ts) from w order by ts limit 1",
        "select min(to_timestamp(coalesce(ts, 0))) from events",
        "select to_timestamp(first_value(ts order by ts)) from events",
    ] {
        assert_eq!(rows(&trace, same), std::slice::from_ref(exact), "{same}");
    }
    let (day, second) = (&exact[..10], &exact[..19]);
    for every in [
        &format!("select count(*) from events where ts >= '{day}'"),
        &format!("select count(*) from events where '{second}' <= ts"),
        &format!("select count(*) from events where ts between '{day}' and '2200-01-01 00:00:00'"),
        &format!("select count(*) from events where ts >= date '{day}'"),
        &format!("select count(*) from events where ts >= timestamp '{second}'"),
        "select count(*) from events where ts < now()",
        "select count(*) from events where ts::date = (select min(ts)::date from events)",
    ] {
        assert_eq!(rows(&trace, every), all, "{every}");
    }
    let none = format!("select count(*) from events where ts < '{day}'");
    assert_eq!(rows(&trace, &none), ["0"]);
    // Numbers are numbers: nanoseconds in comparisons, seconds in to_timestamp.
    assert_eq!(rows(&trace, "select count(*) from events where ts > '5'"), all);
    let seconds = rows(&trace, "select min(to_timestamp(ts / 1000000000)) from events");
    assert!(seconds[0].starts_with(second), "{seconds:?}");
    assert_eq!(rows(&trace, "select count(distinct ts - (select min(ts) from events)) > 100 from events"), ["true"]);
    let wrong = refused(&[&trace, "--sql", "select 1 from events where ts > 'yesterday'"]);
    assert!(wrong.contains("cannot compare a time with 'yesterday': expected a date such as '2026-11-23'"), "{wrong}");
    let integer = refused(&[&trace, "--sql", "select date_trunc('hour', ts) from events"]);
    assert!(integer.contains("convert a time with to_timestamp(ts)"), "{integer}");
    assert!(printed(&["--tables"]).contains("approx_percentile_cont(dur, 0.99)"));
}

#[test]
fn names_roles_and_the_report_are_tables() {
    let (_folder, trace) = made("named");
    let names = rows(&trace, "select proc, name, parent is null, role from processes order by proc");
    assert!(names.len() > 1 && names.iter().all(|row| row.split(',').nth(1).is_some_and(|name| !name.is_empty())));
    let roles = "select name, role from processes where role is not null order by proc";
    let json = printed(&[&trace, "--format", "json", "--section", "processes"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let reported: Vec<_> =
        report["processes"].as_array().unwrap().iter().filter(|row| !row["role"].is_null()).collect();
    assert_eq!(rows(&trace, roles).len(), reported.len());
    // The numbers of the report, also in Parquet, where quantiles are as exact.
    let csv = printed(&[&trace, "--format", "csv"]);
    let all = "select section, \"row\", figure, value from summary";
    let queried = printed(&[&trace, "--format", "csv", "--sql", all]);
    assert_eq!(queried.lines().count(), csv.lines().count());
    let events = rows(&trace, "select number from summary where section = 'allocation' and figure = 'events'");
    assert_eq!(events[0].trim_end_matches(".0"), rows(&trace, "select count(*) from events")[0]);
    let tables = temp_dir("named-tables");
    let folder = tables.path().join("t").display().to_string();
    printed(&[&trace, "--parquet", &folder]);
    let file = std::fs::File::open(tables.path().join("t/summary.parquet")).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let mut stored = String::from("section,row,figure,value\n");
    for batch in reader {
        let batch = batch.unwrap().project(&[0, 1, 2, 3]).unwrap();
        let mut out = Vec::new();
        arrow::csv::WriterBuilder::new().with_header(false).build(&mut out).write(&batch).unwrap();
        stored += &text(&out);
    }
    let lines = |text: &str| text.lines().map(|line| line.replace('"', "")).collect::<Vec<_>>();
    let (stored, csv) = (lines(&stored), lines(&csv));
    let differing: Vec<_> = stored.iter().zip(&csv).filter(|(one, other)| one != other).take(3).collect();
    assert!(stored.len() == csv.len() && differing.is_empty(), "{differing:?}");
}

#[test]
fn calls_are_selected_by_name() {
    let (_folder, trace) = made("named-calls");
    let counted = |sql: &str| rows(&trace, sql)[0].clone();
    let reads = counted("select count(*) from events where name in ('read', 'open')");
    for words in [&["--call", "read,open"][..], &["-e", "trace=open,read"], &["--call", "READ", "--call", "open"]] {
        let words = [&[&*trace, "--format", "csv", "--sql", "select count(*) from events"], words].concat();
        assert_eq!(printed(&words).lines().nth(1), Some(reads.as_str()), "{words:?}");
    }
    let json = printed(&[&trace, "--call", "read,open", "--format", "json", "--section", "allocation"]);
    assert!(json.contains(&format!("\"events\": {reads},")), "{json}");
    let pages = temp_dir("named-export");
    let export = pages.path().join("x.json").display().to_string();
    assert!(analyze(&[&trace, "--call", "read,open", "--export", &export, "--all"]).status.success());
    let exported = std::fs::read_to_string(&export).unwrap();
    let events = exported.matches("\"ph\":\"X\"").count();
    assert_eq!(events.to_string(), reads);
    let unknown = refused(&[&trace, "--call", "reed"]);
    assert!(unknown.contains("no event has the name reed (--call); did you mean read? The trace has "), "{unknown}");
    // A length of time, from the start or from a time.
    let half = |words: &[&str]| {
        let words = [&[&*trace, "--format", "csv", "--sql", "select count(*), min(ts), max(ts) from events"], words];
        printed(&words.concat()).lines().nth(1).unwrap().to_string()
    };
    assert_eq!(half(&["--for", "1ms"]), half(&["--to", "1ms"]));
    assert_eq!(half(&["--from", "1ms", "--for", "1ms"]), half(&["--from", "1ms", "--to", "2ms"]));
    assert!(refused(&[&trace, "--for", "1ms", "--to", "1ms"]).contains("cannot be used with"));
}

#[test]
fn mistakes_are_answered_with_the_right_option() {
    let (_folder, trace) = made("mistakes");
    for (words, part) in [
        (&["--json"][..], "unknown option --json; use --format json"),
        (&["-n", "5"], "use --top N"),
        (&["-v"], "use --full"),
        (&["--start", "1s"], "use --from TIME"),
        (&["--duration", "1s"], "use --for TIME"),
        (&["--query", "select 1"], "use --sql QUERY"),
        (&["--pid", "x"], "expected the number of a process"),
        (&["--top", "many"], "expected a number of rows"),
        (&["--from", "10"], "--from 10: it has no unit; 10s is"),
        (&["--what-if", "worker=4"], "unknown key (did you mean `workers`?)"),
        (&["--workers", "somewhere"], "--workers somewhere: expected host:port"),
        (&["--compare", &trace, "--sql", "select 1"], "--sql has no effect with --compare"),
        (&["--tables", "--findings"], "--findings has no effect with --tables"),
        (&["--format", "parquet"], "use text, markdown, json or csv"),
        (&["--sql", " ; "], "is empty"),
        (&["--ignore", "nosuch"], "cannot ignore rule nosuch: there is no such rule"),
        (&["--explain", "nosuch"], "cannot explain \"nosuch\": no section, rule"),
    ] {
        let output = analyze(&[&[&*trace], words].concat());
        let message = text(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(part), "{words:?}: {message}");
        // The value is not repeated after the error that contains it.
        let value = words[1..].first().filter(|value| value.len() > 3 && message.starts_with("dlio-analyze: --"));
        assert!(value.is_none_or(|value| message.matches(*value).count() < 2), "{words:?}: {message}");
    }
    let unranked = temp_dir("unranked");
    let file = unranked.path().join("t.json");
    std::fs::write(
        &file,
        "[{\"ph\":\"X\",\"name\":\"read\",\"cat\":\"posix\",\"ts\":1,\"dur\":2,\"pid\":1,\"tid\":1}]",
    )
    .unwrap();
    let none = refused(&[file.to_str().unwrap(), "--rank", "7"]);
    assert!(none.contains("no process has a rank"), "{none}");
    let top = Command::new(env!("CARGO_BIN_EXE_dlio-top")).args(["-n", "1"]).output().unwrap();
    assert!(text(&top.stderr).contains("dlio-top: unknown option -n; use --once"));
}

#[test]
fn reports_are_markdown_too() {
    let (_folder, trace) = made("markdown");
    for words in [&["--format", "markdown"][..], &["--format", "markdown", "--section", "functions,files"]] {
        let page = printed(&[&[&*trace], words].concat());
        assert!(page.contains("### ") && page.matches("```").count() >= 4, "{page}");
        assert_eq!(page.matches("```").count() % 2, 0, "{page}");
    }
}

#[test]
fn elements_of_lists_are_completed() {
    // As readline calls it: the word starts after the last separator.
    let completed = |line: &str, word: &str| {
        let script = format!(
            "source <({} --completions bash); COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({line})
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _dlio_analyze_lists dlio-analyze '{word}' ''; echo ${{COMPREPLY[@]}}",
            env!("CARGO_BIN_EXE_dlio-analyze")
        );
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        text(&output.stdout).trim().to_string()
    };
    assert_eq!(completed("dlio-analyze --section files,proc", "files,proc"), "files,processes");
    assert_eq!(
        completed("dlio-analyze t --ignore=small-reads,small-w", "small-reads,small-w"),
        "small-reads,small-writes"
    );
    assert_eq!(completed("dlio-analyze --what-if storage=2,wor", "2,wor"), "2,workers=");
    assert_eq!(completed("dlio-analyze --simi", "--simi"), "--similarity");
}
