//! Tests the ranges of NVTX in a trace: by a small client of its protocol, and by the real package for Python.

use std::path::Path;
use std::process::{Command, Output};

use dlio_tests::artefacts;
use dlio_tests::compile::compile;
use dlio_tests::home;
use dlio_tests::needs::needs_module;
use dlio_tests::sandbox::Sandbox;

const TOOL: &str = "NVTX_INJECTION64_PATH";

fn trace(sandbox: &Sandbox, options: &[&str], command: &[&Path]) -> Output {
    let mut dlio = Command::new(artefacts::command("dlio").unwrap());
    dlio.args(["trace", "--quiet", "-o"]).arg(sandbox.trace()).args(options).arg("--").args(command);
    dlio.env("DLIO_LIB", artefacts::library().unwrap()).env_remove(TOOL).current_dir(sandbox.root()).output().unwrap()
}

/// Returns the rows of a query, without the head.
fn rows(trace: &Path, sql: &str) -> Vec<String> {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = command.arg(trace).args(["--sql", sql, "--format", "csv"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().skip(1).map(str::to_string).collect()
}

fn client(sandbox: &Sandbox) -> std::path::PathBuf {
    let program = sandbox.root().join("ranges");
    compile(&home().join("gpu/nvtx_ranges.c"), &program, &[]).unwrap();
    program
}

#[test]
fn ranges_of_every_kind_are_spans() {
    let sandbox = Sandbox::new("nvtx.ranges").unwrap();
    let program = client(&sandbox);
    let output = trace(&sandbox, &["--nvtx"], &[&program]);
    assert_eq!(output.status.code(), Some(42), "{output:?}");
    let sql = "select name, cat, count(*), count(distinct pid) from events where layer = 'app' and name not like 'kk%'
        group by name, cat order by name";
    let expected = [
        "across threads,nvtx,1,1",
        "all_reduce,comm.nccl,1,1",
        "copied at once,nvtx,1,1",
        "deep,nvtx,128,1",
        "größe,nvtx,1,1",
        "mark,nvtx,1,1",
        "own step,nvtx,2,1",
        "pushed before the fork,nvtx,1,1",
        "registered before the fork,nvtx,1,1",
        "started before the fork,nvtx,1,1",
        "step 0,nvtx,1,1",
        "step 19999,nvtx,1,1",
        "unnamed,nvtx,4,1",
        "wide event,nvtx,1,1",
    ];
    assert_eq!(rows(&sandbox.trace(), sql), expected);
    // The name of a mebibyte is truncated.
    let long = "select length(name), count(*) from events where name like 'kk%' group by 1";
    assert_eq!(rows(&sandbox.trace(), long), ["1024,1"]);
    // Ranges deeper than the stack of a thread are counted.
    assert_eq!(rows(&sandbox.trace(), "select sum(lost) from processes"), ["72"]);
    let of_domains = "select name, args from events where args is not null and layer = 'app' order by name, ts";
    let domains = ["all_reduce,{domain: NCCL}", "own step,{domain: own}", "own step,{domain: own}"];
    assert_eq!(rows(&sandbox.trace(), of_domains), domains);
    // Times: of the program's own pauses, and of a range inside another one.
    let times = "select count(*) from events where (name = 'copied at once' and dur between 5e6 and 2e9)
        or (name = 'across threads' and dur between 20e6 and 2e9)";
    assert_eq!(rows(&sandbox.trace(), times), ["2"]);
    let child = "select count(*) from events a, events b where a.name = 'registered before the fork'
        and b.name = 'pushed before the fork' and a.pid <> b.pid and a.ts > b.ts and a.ts + a.dur < b.ts + b.dur";
    assert_eq!(rows(&sandbox.trace(), child), ["1"]);
}

#[test]
fn nothing_is_attached_without_the_option() {
    let sandbox = Sandbox::new("nvtx.off").unwrap();
    let program = client(&sandbox);
    let output = trace(&sandbox, &[], &[&program]);
    assert_eq!(output.status.code(), Some(42), "{output:?}");
    assert_eq!(rows(&sandbox.trace(), "select count(*) from events where layer = 'app'"), ["0"]);
}

#[test]
fn another_tool_stays_in_place() {
    let sandbox = Sandbox::new("nvtx.other").unwrap();
    let mut dlio = Command::new(artefacts::command("dlio").unwrap());
    dlio.args(["trace", "--nvtx", "--quiet", "-o"]).arg(sandbox.trace()).args([
        "--",
        "sh",
        "-c",
        "echo $NVTX_INJECTION64_PATH",
    ]);
    let output = dlio.env("DLIO_LIB", artefacts::library().unwrap()).env(TOOL, "/opt/nsys.so").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/opt/nsys.so\n");
    let errors = String::from_utf8_lossy(&output.stderr);
    let message = "dlio: cannot record NVTX ranges (--nvtx): NVTX_INJECTION64_PATH names another tool, /opt/nsys.so";
    assert!(errors.contains(message), "{errors}");
}

/// A program whose environment names the library without preloading it loads the library when it has started.
#[test]
fn library_that_is_not_preloaded_records_ranges() {
    let sandbox = Sandbox::new("nvtx.loaded").unwrap();
    let mut program = Command::new(client(&sandbox));
    program.env(TOOL, artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
    let output = program.output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{output:?}");
    assert_eq!(rows(&sandbox.trace(), "select count(*) from events where name = 'across threads'"), ["1"]);
}

/// The package contains NVTX itself.
const PYTHON: &str = r#"
import threading, time
import nvtx

@nvtx.annotate("step", domain="training", color="blue", payload=7)
def step():
    with nvtx.annotate("inside"):
        time.sleep(0.002)

for _ in range(3):
    step()
across = nvtx.start_range(message="across", domain="training")
thread = threading.Thread(target=nvtx.end_range, args=[across])
thread.start()
thread.join()
nvtx.push_range("pushed")
nvtx.pop_range()
nvtx.mark(message="marked", domain="training")
"#;

#[test]
fn ranges_of_the_package_for_python_are_spans() {
    let python = std::env::var("DLIO_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    if !needs_module(&python, "nvtx") {
        return;
    }
    let sandbox = Sandbox::new("nvtx.python").unwrap();
    let script = sandbox.root().join("ranges.py");
    std::fs::write(&script, PYTHON).unwrap();
    let output = trace(&sandbox, &["--nvtx"], &[Path::new(&python), &script]);
    assert!(output.status.success(), "{output:?}");
    let sql = "select name, coalesce(args['domain'], ''), count(*), count(*) filter (where dur > 2e6 and name <> 'across') from events
        where cat = 'nvtx' group by 1, 2 order by 1";
    let expected = ["across,training,1,0", "inside,,3,3", "marked,training,1,0", "pushed,,1,0", "step,training,3,3"];
    assert_eq!(rows(&sandbox.trace(), sql), expected);
}
