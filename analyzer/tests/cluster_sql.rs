//! Tests queries run by workers: the rows are those of one process, even if a worker disconnects in the meantime.
#![cfg(feature = "cluster")]

mod generator;
mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::Trace;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::report::{About, SECTIONS};
use dlio_analyzer::tables::export::{self, ReportOptions};
use dlio_analyzer::unit::Unit;
use dlio_analyzer::viewer::forms::Form;
use dlio_schemas::perfetto::pack::Compression;
use generator::{Plan, generate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::exported::exported;
use support::program::{analyze, begun, printed, text};
use support::temp_dir;
use support::workers::{Worker, listed, without_any, without_one, workers};
use tempfile::TempDir;

/// Returns the results of queries, as JSON; of several, row by row.
fn query_rows(trace: &Path, queries: &[impl AsRef<str>], more: &[&str]) -> String {
    let words = queries.iter().flat_map(|sql| ["--sql", sql.as_ref()]).collect::<Vec<_>>();
    let format = if queries.len() == 1 { "json" } else { "ndjson" };
    printed(&[&[trace.to_str().unwrap(), "--format", format, "--no-cache"], &words[..], more].concat())
}

/// Numbers of workers.
const ALL: [usize; 4] = [1, 2, 3, 8];

fn assert_same(trace: &Path, (by, numbers): (&[Worker], &[usize]), queries: &[impl AsRef<str>], more: &[&str]) {
    let alone = query_rows(trace, queries, more);
    for &number in numbers {
        let together = query_rows(trace, queries, &[&["--workers", &listed(&by[..number])], more].concat());
        let differs = alone.lines().zip(together.lines()).find(|(alone, together)| alone != together);
        assert!(alone == together, "{}, {number} workers: {differs:?}", trace.display());
    }
}

/// Queries of no section: operators that workers run and operators that they do not, and values that differ between
/// workers.
const QUERIES: [&str; 24] = [
    "select count(*) n, sum(dur) d, min(ts) t, max(bytes) b, avg(dur) a from events",
    "select ts, dur, name, cat, class, layer, host, pid, tid, rank, file, fd, pos, requested, bytes, ret, errno, depth, epoch, step, \
     args from events order by ts, dur, pid, tid, name, pos, cat, class, depth, step, args['batch'], args['value'] limit 500",
    "select name, cat, host, count(*) n, sum(bytes) b, max(dur) d from events group by 1, 2, 3 order by n, 1, 2, 3",
    "select count(*) n from events where ts > (select min(ts) + 2000000 from events) and dur >= 10",
    "select count(*) n, min(ts) t from events where cat = 'posix' and name in ('read', 'pread') and file like '%1%'",
    "select path, count(*) n from events join files on events.file_id = files.file_id group by path order by path",
    "select f.path, e.n from (select file_id, count(*) n from events group by file_id) e join files f using (file_id) order by 1",
    "select path, bytes_read, events from files where file_id in (select file_id from events where dur > 1000) order by 1",
    "select program, p.pid, count(*) n from events e join processes p on e.proc = p.proc group by 1, 2 order by 2",
    "select file, count(distinct file_id) n, count(distinct tid) t from events where file is not null group by file order by 1",
    "select max(e.file_id) - max(f.file_id) d from events e, files f where false",
    "select median(dur) m, approx_distinct(pid) p, stddev(dur) > 0 s from events",
    "select pid, tid, ts, row_number() over (partition by pid, tid order by ts, dur) r from events where name = 'read' order by 1, 2, 3, 4 \
     limit 300",
    "select name from events where errno is not null union select cat from events union all select 'x' order by 1",
    "select distinct layer from events where rank is null order by 1",
    "select name, pid, grouping(name) g, count(*) n from events group by rollup (name, pid) order by 1 nulls last, 2 nulls last, 3",
    "select count(*) n from (select 1 from events where bytes > 100 limit 70) x",
    "select round(sum(bytes) / 1e6, 3) mb, substr(file, 1, 9) f from events group by 2 order by 2",
    "select repeat(name, 2) n, count(*) c from events group by 1 order by 1",
    "select args['x'] a, count(*) n from events group by 1 order by 1",
    "select e.ts, e.name, e.dur from events e where e.dur = (select max(dur) from events) order by 1, 2",
    "select count(*) n from events a join events b on a.ts = b.ts and a.tid = b.tid and a.dur = b.dur and a.name = b.name",
    "select h.host, sum(e.bytes) b from events e join hosts h on e.host = h.host group by 1 order by 1",
    "select count(*) n from events where pid < 0",
];

fn all_queries() -> Vec<String> {
    SECTIONS.iter().filter_map(About::query).chain(QUERIES.map(str::to_string)).collect()
}

#[test]
fn native_traces_give_the_same_rows_with_workers() {
    let folder = temp_dir("cluster-sql-native");
    let by = workers(8, folder.path());
    let trace = folder.path().join("trace");
    let plan = Plan { processes: 12, events: 110_000, moments: true, copies: true, killed: true, ..Plan::default() };
    generate(&trace, &plan, &|_, _, _| ()).unwrap();
    assert_same(&trace, (&by, &ALL), &all_queries(), &[]);
    // No block has events in that time: nothing passes.
    assert_same(&trace, (&by, &[3]), &QUERIES, &["--from", "1ms", "--to", "3ms", "--pid", "1003,1004"]);
    assert_some_pass(&trace, &by[..3]);
    assert_same(&trace, (&by, &[2]), &QUERIES, &["--threads", "1"]);
    // One file is truncated after its events were indexed.
    let one = folder.path().join("one");
    generate(&one, &Plan { processes: 1, events: 150_000, ..Plan::default() }, &|_, _, _| ()).unwrap();
    assert_same(&one, (&by, &[2]), &QUERIES, &[]);
}

/// Tests a time with some events of some blocks: rows of the queried processes, read from only a part of their
/// blocks.
fn assert_some_pass(trace: &Path, by: &[Worker]) {
    let opened = Trace::open(&[trace.display().to_string()], 2).unwrap();
    let processes = opened.catalog.processes();
    let of_both = |unit: &&Unit| unit.proc.is_some_and(|proc| [1003, 1004].contains(&processes[proc as usize].pid));
    let all: Vec<Unit> = opened.units.iter().filter(of_both).copied().collect();
    // The start of their first blocks, and none of the later ones.
    let first = all.iter().map(|unit| unit.first_start).min().unwrap();
    let next = all.iter().map(|unit| unit.last_end).min().unwrap();
    let (from, to) = (Some(first), Some(first + (next - first) / 2));
    let window = Filter { from, to, pids: vec![1003, 1004], ..Filter::default() };
    let sieve = opened.sieve(&window);
    let taken = opened.units.iter().filter(|unit| sieve.may_take(unit)).count();
    assert!(taken > 2 && taken < all.len(), "{taken} of {}", all.len());
    let relative = |at: Option<i64>| format!("{}ns", at.unwrap() - opened.start());
    let (from, to) = (relative(window.from), relative(window.to));
    let filter = ["--from", from.as_str(), "--to", to.as_str(), "--pid", "1003,1004"];
    assert_same(trace, (by, &[by.len()]), &QUERIES, &filter);
    let rows = query_rows(trace, &["select pid, count(*) n from events group by pid order by pid"], &filter);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows.iter().map(|row| row["pid"].as_i64().unwrap()).collect::<Vec<_>>(), [1003, 1004]);
    let passed: i64 = rows.iter().map(|row| row["n"].as_i64().unwrap()).sum();
    let all: u64 = all.iter().map(|unit| unit.events).sum();
    assert!(passed > 0 && passed < all as i64, "{passed} of {all}");
}

#[test]
fn other_formats_give_the_same_rows_with_workers() {
    let folder = temp_dir("cluster-sql-forms");
    let by = workers(8, folder.path());
    let native = folder.path().join("native");
    generate(&native, &Plan { processes: 5, events: 12_000, copies: true, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let forms = [
        ("t.pftrace", Form::named("pftrace", Compression::Deflate, false)),
        ("t.pfw", Form::named("pfw", Compression::None, false)),
        ("t.json.gz", Form::named("json", Compression::None, true)),
    ];
    for (name, form) in forms {
        assert_same(&exported(&native, form, folder.path().join(name)), (&by, &ALL), &all_queries(), &[]);
    }
    let (trace, tables) = (Trace::open(&[native.display().to_string()], 2).unwrap(), folder.path().join("tables"));
    export::write(&trace, &Filter::default(), (2, 1 << 30), &ReportOptions::default(), &Progress::default(), &tables)
        .unwrap();
    assert_same(&tables, (&by, &ALL), &all_queries(), &[]);
    assert_same(&tables, (&by, &[2]), &QUERIES, &["--cat", "posix"]);
    assert_same(&tables, (&by, &[2]), &QUERIES, &["--pid", "1003"]);
    let counted =
        query_rows(&tables, &["select pid, count(*) > 1000 many from events group by pid"], &["--pid", "1003"]);
    assert_eq!(counted.trim(), r#"[{"pid":1003,"many":true}]"#);
}

#[test]
fn foreign_samples_give_the_same_rows_with_workers() {
    let samples = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("tests/samples");
    let by = workers(3, &samples);
    for name in ["dftracer.pfw", "strace.txt", "dxt.txt", "torch.json.gz"] {
        assert_same(&samples.join(name), (&by, &[3]), &all_queries(), &[]);
    }
    // Processes of its files are numbered in the order in which threads reach them, even in one process.
    let several = samples.join("dftracer-fork");
    let alone = query_rows(&several, &all_queries(), &[]);
    let together = query_rows(&several, &all_queries(), &["--workers", &listed(&by[..3])]);
    assert_eq!(unnumbered(&alone), unnumbered(&together));
}

/// Returns rows without numbers of processes, in the order of their text.
fn unnumbered(rows: &str) -> Vec<String> {
    let without = |row: &str| {
        let mut row: serde_json::Value = serde_json::from_str(row).unwrap();
        row.as_object_mut().unwrap().remove("proc");
        row.to_string()
    };
    let mut texts: Vec<_> = rows.lines().map(without).collect();
    texts.sort_unstable();
    texts
}

/// Returns rows in the order of their text.
fn sorted(rows: &str) -> Vec<&str> {
    let mut rows: Vec<&str> = rows.lines().collect();
    rows.sort_unstable();
    rows
}

#[test]
fn all_rows_of_a_trace_come_once_in_every_format() {
    let folder = temp_dir("cluster-sql-all");
    let trace = folder.path().join("trace");
    generate(&trace, &Plan { processes: 4, events: 100_000, ..Plan::default() }, &|_, _, _| ()).unwrap();
    // Files and the columns that refer to them have other numbers each time.
    let columns = "select * exclude (file_id) from events";
    for format in ["csv", "ndjson"] {
        let ask = |more: &[&str]| {
            printed(&[&[trace.to_str().unwrap(), "--no-cache", "--sql", columns, "--format", format], more].concat())
        };
        let (alone, together) = (ask(&[]), ask(&["--workers", "local:3"]));
        assert!(sorted(&alone) == sorted(&together), "{format}");
    }
    let count = "select count(*) n, count(distinct file_id) f, count(distinct file) p from events";
    let counted = query_rows(&trace, &[count], &[]);
    assert_eq!(counted, query_rows(&trace, &[count], &["--workers", "local:2"]));
}

/// Returns a trace that keeps a worker busy for a while.
fn long(folder: &TempDir) -> PathBuf {
    let trace = folder.path().join("long");
    let plan = Plan { processes: 16, events: 4_000_000, files: 500, ..Plan::default() };
    generate(&trace, &plan, &|_, _, _| ()).unwrap();
    trace
}

const SLOW: &str =
    "select name, file, count(*) n, sum(dur) d, min(ts) t, max(length(file)) l from events group by 1, 2 order by 1, 2";

fn question<'a>(trace: &'a Path, sql: &'a str) -> [&'a str; 6] {
    [trace.to_str().unwrap(), "--format", "json", "--no-cache", "--sql", sql]
}

#[test]
fn lost_worker_costs_no_row() {
    let folder = temp_dir("cluster-sql-lost");
    let trace = long(&folder);
    // Rows that are sent while the worker disconnects, and groups.
    let every =
        "select ts, dur, name, pid, tid, file, pos from events where pos % 3 = 0 order by ts, dur, pid, tid, name, pos";
    for sql in [SLOW, every] {
        let alone = query_rows(&trace, &[sql], &[]);
        for signal in ["KILL", "STOP"] {
            let by = workers(4, folder.path());
            assert!(alone == without_one(&by, signal, &question(&trace, sql)), "{signal}, {sql}");
        }
    }
}

#[test]
fn query_fails_without_workers() {
    let folder = temp_dir("cluster-sql-nobody");
    let trace = long(&folder);
    without_any(&workers(2, folder.path()), &question(&trace, SLOW));
}

#[test]
fn limit_stops_reading() {
    let folder = temp_dir("cluster-sql-limit");
    let trace = long(&folder);
    let by = workers(2, folder.path());
    let rows = query_rows(&trace, &["select ts, name from events limit 5"], &["--workers", &listed(&by)]);
    assert_eq!(rows.matches("\"ts\"").count(), 5, "{rows}");
    let size: u64 = std::fs::read_dir(&trace).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    let read: u64 = by.iter().map(Worker::read_so_far).sum();
    // Opening reads the facts of all processes, and both open all of it.
    assert!(read < size, "{read} bytes read of {size}");
}

fn failure(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = analyze(arguments);
    assert!(!status.success() && stdout.is_empty(), "{arguments:?}: {}", text(&stdout));
    text(&stderr)
}

#[test]
fn wrong_query_gives_the_same_error_with_workers() {
    let folder = temp_dir("cluster-sql-wrong");
    let trace = folder.path().join("trace");
    generate(&trace, &Plan::default(), &|_, _, _| ()).unwrap();
    for sql in [
        "selct ts from events",
        "select path from events",
        "select * from evens",
        "drop table events",
        "copy events to 'x.csv'",
        "set datafusion.execution.batch_size = 7",
        "select count(*) from events where dur / (tid - tid) > 1",
        "select repeat(name, 4000000000) from events",
    ] {
        let words = [trace.to_str().unwrap(), "--sql", sql];
        assert_eq!(failure(&words), failure(&[&words[..], &["--workers", "local:2"]].concat()), "{sql}");
    }
}

#[test]
fn plan_shows_the_work_of_workers() {
    let folder = temp_dir("cluster-sql-plan");
    let trace = folder.path().join("trace");
    generate(&trace, &Plan::default(), &|_, _, _| ()).unwrap();
    let plan = |sql: &str| query_rows(&trace, &[&format!("explain {sql}")], &["--workers", "local:3"]);
    for (sql, does) in [
        (
            "select name, count(*) from events where dur > 9 group by 1",
            "workers=3, does=[AggregateExec, FilterExec, EventsExec]",
        ),
        ("select * from events order by dur limit 9", "does=[SortExec(TopK), EventsExec]"),
        ("select * from events order by file_id limit 9", "does=[EventsExec]"),
        ("select file_id, count(*) from events group by 1", "does=[AggregateExec, EventsExec]"),
        ("select count(*) from events where file_id > 9", "does=[EventsExec]"),
    ] {
        assert!(plan(sql).contains(does), "{sql}: {}", plan(sql));
    }
}

#[test]
fn shell_uses_workers_and_keeps_its_tables() {
    let folder = temp_dir("cluster-sql-shell");
    let trace = folder.path().join("trace");
    generate(&trace, &Plan { processes: 3, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let typed = "create view slow as select * from events where dur > 500;\n\
                 create table names as select name, count(*) n from slow group by 1;\n\
                 select * from names order by 1; select count(*) from files;\n\
                 select wrong from slow;\n\
                 select pid, max(ts) t from slow group by 1 order by 1;\n";
    let ask = |more: &[&str]| {
        let mut shell = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"))
            .args([&[trace.to_str().unwrap(), "--shell", "--format", "csv"], more].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        shell.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(ask(&[]), ask(&["--workers", "local:2"]));
}

/// Returns the running processes that were started by this one.
fn children(of: u32) -> Vec<u32> {
    let listed = Command::new("ps").args(["-o", "pid=", "--ppid", &of.to_string()]).output().unwrap();
    text(&listed.stdout).split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn interrupted_query_leaves_no_workers() {
    let folder = temp_dir("cluster-sql-interrupted");
    let trace = long(&folder);
    let mut asking = begun(&[&question(&trace, SLOW)[..], &["--workers", "local:2"]].concat());
    let asker = Pid::from_raw(asking.id() as i32);
    let by = loop {
        let by = children(asking.id());
        if by.len() == 2 {
            break by;
        }
        assert!(asking.try_wait().unwrap().is_none(), "the question has ended");
    };
    let has_read = |pid: &u32| {
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok());
        read.is_some_and(|read| read > 1 << 20)
    };
    // During their work, with one of them stopped, so that the result never arrives before the signal.
    let held = Pid::from_raw(by[1] as i32);
    while !has_read(&by[1]) {
        assert!(asking.try_wait().unwrap().is_none(), "the question has ended");
        std::thread::yield_now();
    }
    kill(held, Signal::SIGSTOP).unwrap();
    kill(asker, Signal::SIGINT).unwrap();
    asking.wait().unwrap();
    // It may have ended already.
    let _ = kill(held, Signal::SIGCONT);
    let output = asking.wait_with_output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    let began = Instant::now();
    while by.iter().any(|pid| Path::new(&format!("/proc/{pid}/exe")).exists()) {
        assert!(began.elapsed() < Duration::from_secs(10), "a worker is still there");
        std::thread::yield_now();
    }
}

#[test]
fn groups_take_few_bytes_on_the_wire() {
    let folder = temp_dir("cluster-sql-bytes");
    let trace = folder.path().join("trace");
    generate(&trace, &Plan { processes: 4, events: 500_000, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"))
        .args([
            trace.to_str().unwrap(),
            "--no-cache",
            "--sql",
            "select name, count(*) n, sum(bytes) b from events group by 1",
        ])
        .args(["--workers", "local:2"])
        .env("DLIO_CLUSTER_MEASURE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = text(&output.stderr);
    let received = said.split(" sent to workers, ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(received.is_some_and(|bytes| bytes < 500_000 / 20), "{said}");
}

/// Returns the shell's output of queries, which may read files.
fn shell(trace: &Path, sql: &str) -> String {
    let mut shell = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"))
        .args([trace.to_str().unwrap(), "--shell", "--sql-files", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    text(&shell.wait_with_output().unwrap().stdout)
}

/// Returns the rows of the directory's tables, each in the order of its text.
fn tables(folder: &Path) -> Vec<String> {
    let of = |sql: &str| {
        let rows = printed(&[folder.to_str().unwrap(), "--no-cache", "--format", "csv", "--sql", sql]);
        sorted(&rows).join("\n")
    };
    // Numbers of files are those of the table next to the events, and refer to equal paths.
    let events = std::fs::read_dir(folder.join("events")).unwrap().map(|file| file.unwrap().path());
    let names: Vec<_> = events.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert!(names.iter().all(|name| name.starts_with("part-") && name.ends_with(".parquet")), "{names:?}");
    let stored = |table: &str| {
        let place = folder.join(table).display().to_string();
        let sql = format!("create external table t stored as parquet location '{place}'; select * from t;");
        shell(folder, &sql)
    };
    let joined = format!(
        "create external table e stored as parquet location '{}/'; \
         create external table f stored as parquet location '{}';",
        folder.join("events").display(),
        folder.join("files.parquet").display()
    );
    let wrong = {
        let sql = "select count(*) n, count(case when e.file = f.path then 1 end) same from e join f on e.file_id = f.file_id;";
        shell(folder, &format!("{joined}{sql}"))
    };
    let figures: Vec<&str> = wrong.lines().last().unwrap().split(',').collect();
    assert_eq!(figures[0], figures[1], "{wrong}");
    vec![
        of("select * exclude (file_id) from events"),
        of("select * exclude (file_id) from files"),
        of("select * from processes"),
        of("select * from hosts"),
        stored("summary.parquet"),
        figures[0].to_string(),
    ]
}

#[test]
fn workers_write_the_same_parquet() {
    let folder = temp_dir("cluster-parquet");
    let trace = folder.path().join("trace");
    let plan = Plan { processes: 6, events: 300_000, copies: true, ..Plan::default() };
    generate(&trace, &plan, &|_, _, _| ()).unwrap();
    let write = |name: &str, more: &[&str]| {
        let tables = folder.path().join(name);
        let words = [trace.to_str().unwrap(), "--no-cache", "--parquet", tables.to_str().unwrap()];
        (analyze(&[&words[..], more].concat()), tables)
    };
    let (_, alone) = write("alone", &[]);
    let expected = tables(&alone);
    for (name, by) in [("two", "local:2"), ("three", "local:3")] {
        let (output, together) = write(name, &["--workers", by]);
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        assert!(std::fs::read_dir(together.join("events")).unwrap().count() > 1);
        assert!(tables(&together) == expected, "{name}");
    }
    // Workers without write access do not write there, and the result is still written.
    let by = workers(2, folder.path());
    let (output, together) = write("not-theirs", &["--workers", &listed(&by)]);
    let said = text(&output.stderr);
    assert!(
        output.status.success() && said.contains("written by this process only") && said.contains("--write"),
        "{said}"
    );
    assert!(tables(&together) == expected);
}

#[test]
fn parquet_is_complete_or_absent_after_a_loss() {
    let folder = temp_dir("cluster-parquet-lost");
    let trace = long(&folder);
    let writer = |to: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
        let listen = ["worker", "--listen", "127.0.0.1:0", "--threads", "1", "--until-stdin-ends", "--root"];
        Worker::started(command.args(listen).arg(folder.path()).arg("--write").arg(to))
    };
    let begun = |tables: &Path| {
        let began = Instant::now();
        while std::fs::read_dir(tables.join("events")).map_or(0, |files| files.count()) < 2 {
            assert!(began.elapsed() < Duration::from_secs(120), "nothing is written");
            std::thread::yield_now();
        }
    };
    let write = |tables: &Path, by: &[Worker]| {
        Command::new(env!("CARGO_BIN_EXE_dlio-analyze"))
            .args([
                trace.to_str().unwrap(),
                "--no-cache",
                "--parquet",
                tables.to_str().unwrap(),
                "--workers",
                &listed(by),
            ])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let count = "select count(*) n, sum(dur) d, count(file) f from events";
    for signal in ["KILL", "STOP"] {
        let tables = folder.path().join(signal);
        let by: Vec<_> = (0..3).map(|_| writer(&tables)).collect();
        let asking = write(&tables, &by);
        begun(&tables);
        by[0].signal(signal);
        let output = asking.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains("no event is missing"), "{signal}: {said}");
        assert_eq!(query_rows(&tables, &[count], &[]), query_rows(&trace, &[count], &[]), "{signal}");
        let names = std::fs::read_dir(tables.join("events")).unwrap().map(|file| file.unwrap().file_name());
        assert!(names.into_iter().all(|name| name.to_string_lossy().starts_with("part-")), "{signal}");
    }
    let tables = folder.path().join("nobody");
    let by: Vec<_> = (0..2).map(|_| writer(&tables)).collect();
    let asking = write(&tables, &by);
    begun(&tables);
    by.iter().for_each(|worker| worker.signal("KILL"));
    let output = asking.wait_with_output().unwrap();
    assert!(!output.status.success() && text(&output.stderr).contains("all workers disconnected"));
    assert!(!tables.exists());
}
