//! Tests that the results of many workers are exactly those of one process, even if a worker disconnects in the
//! meantime.
#![cfg(feature = "cluster")]

mod generator;
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::Trace;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::tables::export::{self, ReportOptions};
use dlio_analyzer::viewer::forms::Form;
use dlio_schemas::perfetto::pack::Compression;
use generator::runs::scenarios;
use generator::{Plan, generate, generate_counted};
use support::exported::exported;
use support::program::{analyze, printed, text};
use support::temp_dir;
use support::workers::{Worker, listed, without_any, without_one, workers};
use tempfile::TempDir;

/// Returns the report of a trace as JSON, counted with the given options.
fn report(trace: &Path, more: &[&str]) -> String {
    printed(&[&[trace.to_str().unwrap(), "--format", "json", "--no-cache"], more].concat())
}

fn assert_same(trace: &Path, by: &[Worker], more: &[&str]) {
    let alone = report(trace, more);
    for number in [1, 2, 3, 8] {
        let together = report(trace, &[&["--workers", &listed(&by[..number])], more].concat());
        let differs = alone.lines().zip(together.lines()).find(|(alone, together)| alone != together);
        assert!(alone == together, "{}, {number} workers, {more:?}: {differs:?}", trace.display());
    }
}

#[test]
fn native_traces_count_the_same_with_any_workers() {
    let folder = temp_dir("cluster-native");
    let by = workers(8, folder.path());
    let plans = [
        ("many", Plan { processes: 20, events: 200_000, moments: true, copies: true, ..Plan::default() }),
        ("killed", Plan { processes: 3, killed: true, ..Plan::default() }),
        ("one", Plan { processes: 1, ..Plan::default() }),
    ];
    for (name, plan) in plans {
        let trace = folder.path().join(name);
        generate(&trace, &plan, &|_, _, _| ()).unwrap();
        assert_same(&trace, &by, &[]);
    }
    let many = folder.path().join("many");
    assert_same(&many, &by, &["--from", "1ms", "--to", "3ms"]);
    assert_same(&many, &by, &["--pid", "1003,1004", "--file", "*set3*"]);
    assert_same(&many, &by, &["--cat", "compute", "--min-dur", "10us"]);
    let counted = folder.path().join("counted");
    std::fs::create_dir(&counted).unwrap();
    generate_counted(&counted, 30).unwrap();
    assert_same(&counted, &by, &[]);
}

#[test]
fn process_tree_split_over_workers_is_joined() {
    let folder = temp_dir("cluster-families");
    let by = workers(8, folder.path());
    for (name, scripts, _) in scenarios() {
        let trace = folder.path().join(name);
        std::fs::create_dir(&trace).unwrap();
        scripts.into_iter().for_each(|script| script.write_to(&trace));
        let alone = report(&trace, &[]);
        let together = report(&trace, &["--workers", &listed(&by[..3])]);
        assert!(alone == together, "{name}");
    }
}

#[test]
fn other_formats_count_the_same_with_workers() {
    let folder = temp_dir("cluster-forms");
    let by = workers(8, folder.path());
    let native = folder.path().join("native");
    generate(&native, &Plan { processes: 5, events: 60_000, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let forms = [
        ("t.pftrace", Form::named("pftrace", Compression::Deflate, false)),
        ("t.pfw", Form::named("pfw", Compression::None, false)),
        ("t.pfw.gz", Form::named("pfw", Compression::None, true)),
        ("t.json.gz", Form::named("json", Compression::None, true)),
    ];
    for (name, form) in forms {
        assert_same(&exported(&native, form, folder.path().join(name)), &by, &[]);
    }
    let (trace, tables) = (Trace::open(&[native.display().to_string()], 2).unwrap(), folder.path().join("tables"));
    export::write(&trace, &Filter::default(), (2, 1 << 30), &ReportOptions::default(), &Progress::default(), &tables)
        .unwrap();
    assert_same(&tables, &by, &[]);
    // All of them at once, most of which are skipped. Processes with several texts are numbered in the order in which
    // threads reach them, and one thread has one order.
    assert_same(folder.path(), &by, &["--threads", "1"]);
}

#[test]
fn foreign_samples_count_the_same_with_workers() {
    let samples = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("tests/samples");
    let by = workers(3, &samples);
    for name in
        ["dftracer.pfw", "dftracer-fork", "dftracer-ns", "strace.txt", "dxt.txt", "torch.json.gz", "chrome-array.json"]
    {
        let trace = samples.join(name);
        let alone = report(&trace, &[]);
        assert!(alone == report(&trace, &["--workers", &listed(&by)]), "{name}");
    }
}

#[test]
fn temporary_workers_give_the_same_report() {
    let folder = temp_dir("cluster-local");
    let trace = folder.path().join("trace");
    generate(&trace, &Plan { processes: 4, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let trace = trace.to_str().unwrap();
    for asked in [&["--full"][..], &["--findings"], &["--section", "files,processes"]] {
        let alone = printed(&[&[trace, "--no-cache"], asked].concat());
        assert_eq!(alone, printed(&[&[trace, "--no-cache", "--workers", "local:2"], asked].concat()));
    }
    let (page, other) = (folder.path().join("a.html"), folder.path().join("b.html"));
    printed(&[trace, "--no-cache", "--html", page.to_str().unwrap()]);
    printed(&[trace, "--no-cache", "--workers", "local:3", "--html", other.to_str().unwrap()]);
    assert_eq!(std::fs::read(page).unwrap(), std::fs::read(other).unwrap());
}

/// Local workers share the CPUs of this process: one that reads the only file would be slower than this process.
#[test]
fn single_process_is_read_without_local_workers() {
    let folder = temp_dir("cluster-single");
    let trace = folder.path().join("trace");
    generate(&trace, &Plan { processes: 1, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let trace = trace.to_str().unwrap();
    for asked in [&["--full"][..], &["--sql", "select count(*) from events", "--format", "csv"]] {
        let output = analyze(&[&[trace, "--no-cache", "--workers", "local:2"], asked].concat());
        assert!(text(&output.stderr).contains("--workers local:2 is not used"), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), printed(&[&[trace, "--no-cache"], asked].concat()));
    }
}

/// Returns a trace that keeps a worker busy for a while.
fn long(folder: &TempDir) -> PathBuf {
    let trace = folder.path().join("long");
    let plan = Plan { processes: 16, events: 4_000_000, files: 500, ..Plan::default() };
    generate(&trace, &plan, &|_, _, _| ()).unwrap();
    trace
}

#[test]
fn lost_worker_costs_no_event() {
    let folder = temp_dir("cluster-lost");
    let trace = long(&folder);
    let alone = report(&trace, &[]);
    for signal in ["KILL", "STOP"] {
        let by = workers(4, folder.path());
        let question = [trace.to_str().unwrap(), "--format", "json", "--no-cache"];
        assert!(alone == without_one(&by, signal, &question), "{signal}");
    }
}

#[test]
fn report_fails_without_workers() {
    let folder = temp_dir("cluster-nobody");
    let trace = long(&folder);
    without_any(&workers(2, folder.path()), &[trace.to_str().unwrap(), "--no-cache"]);
}

#[test]
fn worker_stops_when_its_client_disconnects() {
    let folder = temp_dir("cluster-given-up");
    let trace = long(&folder);
    let worker = Worker::below(folder.path());
    let mut asking = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"))
        .args([trace.to_str().unwrap(), "--no-cache", "--workers", &worker.address])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    worker.has_read(1 << 20);
    asking.kill().unwrap();
    asking.wait().unwrap();
    // A cancelled query neither blocks the next one nor changes its result.
    let small = folder.path().join("small");
    generate(&small, &Plan::default(), &|_, _, _| ()).unwrap();
    assert!(report(&small, &[]) == report(&small, &["--workers", &worker.address]));
}

#[test]
fn exact_quantiles_match_one_process() {
    let folder = temp_dir("cluster-exact");
    let trace = long(&folder);
    let by = workers(3, folder.path());
    let exact = report(&trace, &["--exact"]);
    assert!(exact != report(&trace, &[]), "so few events that quantiles are exact anyway");
    for more in [&[][..], &["--pid", "1003,1004", "--min-dur", "1us"]] {
        let alone = report(&trace, &[&["--exact"], more].concat());
        let together = report(&trace, &[&["--exact", "--workers", &listed(&by)], more].concat());
        assert!(alone == together, "{more:?}");
    }
}

/// Returns the error message if workers do not respond.
fn refusal(arguments: &[&str]) -> String {
    let output = analyze(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    text(&output.stderr)
}

#[test]
fn failing_workers_report_the_reason() {
    let (folder, elsewhere) = (temp_dir("cluster-refused"), temp_dir("cluster-elsewhere"));
    let trace = folder.path().join("trace");
    generate(&trace, &Plan::default(), &|_, _, _| ()).unwrap();
    let trace = trace.to_str().unwrap();
    // No process listens at a port that was released.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let said = refusal(&[trace, "--workers", &format!("127.0.0.1:{port}")]);
    assert!(said.contains(&format!("cannot reach worker 127.0.0.1:{port}")), "{said}");
    assert!(said.contains(&format!("dlio-analyze worker --listen 0.0.0.0:{port} --root DIR")), "{said}");
    let other = Worker::below(elsewhere.path());
    let said = refusal(&[trace, "--workers", &other.address]);
    assert!(said.contains("is not below one of its roots") && said.contains("--root"), "{said}");
    let token = folder.path().join("token");
    std::fs::write(&token, "a token of one host").unwrap();
    let said = refusal(&[trace, "--workers", "node1:7070"]);
    assert!(said.contains("need a token") && said.contains("openssl rand"), "{said}");
    std::fs::write(&token, "short").unwrap();
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let said = refusal(&[trace, "--workers", &other.address, "--token", token.to_str().unwrap()]);
    assert!(said.contains("chmod 600"), "{said}");
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let said = refusal(&[trace, "--workers", &other.address, "--token", token.to_str().unwrap()]);
    assert!(said.contains("5 characters"), "{said}");
    let said = refusal(&[trace, "--workers", "slurm"]);
    assert!(said.contains("salloc"), "{said}");
    for (typed, why) in [("node1", "host:port"), ("local:0", "1 to"), ("@/nonexistent/hosts", "cannot read")] {
        let said = refusal(&[trace, "--workers", typed]);
        assert!(said.contains(why), "{typed}: {said}");
    }
    let said = refusal(&["worker", "--listen", "0.0.0.0:0", "--root", trace]);
    assert!(said.contains("requires a token"), "{said}");
    let said = refusal(&["worker", "--listen", "127.0.0.1:0", "--root", "/nonexistent/folder"]);
    assert!(said.contains("the root does not exist"), "{said}");
}

#[test]
fn worker_with_a_token_requires_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = temp_dir("cluster-token");
    let trace = folder.path().join("trace");
    generate(&trace, &Plan::default(), &|_, _, _| ()).unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    for (file, text) in [(&one, "0123456789abcdef0123456789abcdef"), (&other, "0123456789abcdef0123456789abcdee")] {
        std::fs::write(file, text).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
    command.args(["worker", "--listen", "127.0.0.1:0", "--until-stdin-ends", "--token"]).arg(&one);
    let worker = Worker::started(command.arg("--root").arg(folder.path()));
    let ask = [trace.to_str().unwrap(), "--workers", &worker.address];
    assert!(refusal(&ask).contains("it uses another token"));
    let with = |file| [&ask[..], &["--token", file]].concat();
    assert!(refusal(&with(other.to_str().unwrap())).contains("it uses another token"));
    printed(&with(one.to_str().unwrap()));
}

/// Slurm's own command in a form that starts the tasks of two nodes here.
const SRUN: &str = "#!/bin/sh
while case $1 in --*) true;; *) false;; esac; do shift; done
exec 3<&0
\"$@\" <&3 & \"$@\" <&3 & wait
";

#[test]
fn an_allocation_of_slurm_is_its_workers() {
    use std::os::unix::fs::PermissionsExt;
    let folder = temp_dir("cluster-slurm");
    let trace = folder.path().join("trace");
    generate(&trace, &Plan { processes: 4, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let bin = temp_dir("cluster-slurm-bin");
    let srun = bin.path().join("srun");
    std::fs::write(&srun, SRUN).unwrap();
    std::fs::set_permissions(&srun, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"))
        .args([trace.to_str().unwrap(), "--format", "json", "--no-cache", "--workers", "slurm"])
        .envs([("PATH", path.as_str()), ("SLURM_JOB_NUM_NODES", "2")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout) == report(&trace, &[]));
}
