//! Tests the work of GPUs in a trace, with a library in place of CUPTI (`tests/gpu/cupti.c`) and a program in place of CUDA
//! (`tests/gpu/cuda_job.c`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dlio_tests::artefacts;
use dlio_tests::compile::compile;
use dlio_tests::home;
use dlio_tests::sandbox::Sandbox;
use serde_json::Value;

/// A host with a library in place of CUPTI, and a program that uses it.
struct Host {
    sandbox: Sandbox,
    program: PathBuf,
}

impl Host {
    /// Returns a host with a program that knows version 1 of CUPTI.
    fn new(name: &str, flags: &[&str]) -> Host {
        Host::with_program(name, flags, &[])
    }

    /// Returns a host with a program that knows version 2 of CUPTI.
    fn new_of_two(name: &str, flags: &[&str]) -> Host {
        Host::with_program(name, flags, &["-DTWO"])
    }

    fn with_program(name: &str, flags: &[&str], program_flags: &[&str]) -> Host {
        let sandbox = Sandbox::new(&format!("cupti.{name}")).unwrap();
        let (library, program) = (sandbox.root().join("libcupti.so.12"), sandbox.root().join("job"));
        let shared = ["-shared", "-fPIC", "-Wl,-soname,libcupti.so.12"];
        compile(&home().join("gpu/cupti.c"), &library, &[&shared[..], flags].concat()).unwrap();
        let path = format!("-Wl,-rpath,{}", sandbox.root().display());
        let program_flags = [&[library.to_str().unwrap(), &path], program_flags].concat();
        compile(&home().join("gpu/cuda_job.c"), &program, &program_flags).unwrap();
        Host { sandbox, program }
    }

    fn trace(&self, options: &[&str], arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut dlio = Command::new(artefacts::command("dlio").unwrap());
        dlio.args(["trace", "--quiet", "-o"]).arg(self.sandbox.trace()).args(options).arg("--").arg(&self.program);
        dlio.args(arguments).env("DLIO_LIB", artefacts::library().unwrap()).envs(variables.iter().copied());
        let output = dlio.env_remove("CUDA_INJECTION64_PATH").output().unwrap();
        assert_eq!(output.status.code(), Some(42), "{output:?}");
        output
    }

    fn rows(&self, sql: &str) -> Vec<String> {
        rows(&self.sandbox.trace(), sql)
    }

    /// Returns the names of the device's work, with their categories and number.
    fn work(&self) -> Vec<String> {
        self.rows("select left(name, 40), cat, count(*) from events where layer = 'app' group by 1, 2 order by 1")
    }
}

fn rows(trace: &Path, sql: &str) -> Vec<String> {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = command.arg(trace).args(["--sql", sql, "--format", "csv"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().skip(1).map(str::to_string).collect()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const WORK: [&str; 8] = [
    "Memcpy DtoH (Device -> Pinned),gpu_memcpy,1",
    "Memcpy HtoD (Pageable -> Device),gpu_memcpy,1",
    "Memcpy Unknown (Unknown -> Unknown),gpu_memcpy,1",
    "Memset (Device),gpu_memset,1",
    "copied_kernel,kernel,1",
    "graph,kernel,1",
    "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk,kernel,1",
    "unnamed,kernel,1",
];

#[test]
fn work_of_the_device_is_recorded_with_its_times() {
    let host = Host::new("work", &[]);
    let output = host.trace(&["--gpu"], &["work"], &[]);
    assert!(!errors(&output).contains("dliotrace"), "{output:?}");
    assert_eq!(host.work(), WORK);
    let metadata = "select args['device'], args['stream'], args['bytes'] from events
        where name in ('copied_kernel', 'graph', 'Memcpy HtoD (Pageable -> Device)') order by name";
    assert_eq!(host.rows(metadata), ["1,14,4096", "1,7,", "0,7,"]);
    // The host slept for 40 ms; the kernel ran for 20 ms from 10 ms after the time just before. Clocks agree to 0.1 ms.
    let times = "select abs(kernel.dur - 20e6) < 1e5 and kernel.ts - sleep.ts between 5e6 and 10.1e6,
        abs(graph.dur - 30e6) < 1e5 from events kernel, events graph, events sleep
        where kernel.name = 'copied_kernel' and graph.name = 'graph' and sleep.name = 'nanosleep' and sleep.dur >= 40e6";
    assert_eq!(host.rows(times), ["true,true"]);
    assert_eq!(host.rows("select max(length(name)) from events"), ["1024"]);
}

#[test]
fn nothing_is_recorded_without_the_option() {
    let host = Host::new("off", &[]);
    host.trace(&[], &["work"], &[]);
    assert_eq!(host.work(), [""; 0]);
}

#[test]
fn invalid_and_dropped_records_are_counted() {
    let host = Host::new("invalid", &[]);
    let output = host.trace(&["--gpu"], &["invalid"], &[]);
    assert_eq!(host.work(), ["valid,kernel,1"]);
    assert_eq!(host.rows("select sum(lost) from processes"), ["1005"]);
    for message in [
        "dliotrace: 1000 records of the GPU are lost: records for which CUPTI had no memory",
        "dliotrace: 5 records of the GPU are lost: records without valid times",
    ] {
        assert!(errors(&output).contains(message), "{output:?}");
    }
}

#[test]
fn profiler_of_the_program_gets_its_records() {
    let host = Host::new("profiler", &[]);
    let output = host.trace(&["--gpu"], &["profiler"], &[]);
    assert_eq!(host.work(), WORK, "those before the profiler");
    let message = "dliotrace: another tool uses CUPTI from now on: later work of the GPU is not recorded";
    assert!(errors(&output).contains(message), "{output:?}");
}

#[test]
fn forked_children_call_nothing_and_executed_programs_start_anew() {
    let host = Host::new("fork", &[]);
    host.trace(&["--gpu"], &["fork"], &[]);
    assert_eq!(host.work(), WORK);
    let host = Host::new("exec", &[]);
    host.trace(&["--gpu"], &["fork", "exec"], &[]);
    let twice: Vec<String> = WORK.iter().map(|row| row.replace(",1", ",2")).collect();
    assert_eq!(host.work(), twice);
}

#[test]
fn process_that_skips_its_exit_functions_keeps_its_records() {
    let host = Host::new("quick", &[]);
    host.trace(&["--gpu"], &["_exit"], &[]);
    assert_eq!(host.work(), WORK);
}

#[test]
fn reason_is_printed_if_nothing_can_be_recorded() {
    let message = "dliotrace: cannot record the work of the GPU (--gpu): ";
    let host = Host::new("taken", &[]);
    for (error, cause) in [
        ("39", "another tool uses CUPTI; end it, or trace without --gpu"),
        ("15", "CUPTI cannot use the driver; check that one is loaded and as new as libcupti"),
        ("35", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
    ] {
        let output = host.trace(&["--gpu"], &["work"], &[("FAKE_CUPTI_ERROR", error)]);
        assert!(errors(&output).contains(&format!("{message}{cause}\n")), "{output:?}");
    }
    let old = Host::new("old", &["-DOLD"]);
    let output = old.trace(&["--gpu"], &["work"], &[]);
    let cause = "this version of libcupti lacks a function; CUDA 11 to 13 have it\n";
    assert!(errors(&output).contains(&format!("{message}{cause}")), "{output:?}");
    assert_eq!((host.work(), old.work()), (vec![], vec![]));
}

#[test]
fn another_tool_of_cuda_stays_in_place() {
    let host = Host::new("other", &[]);
    let mut dlio = Command::new(artefacts::command("dlio").unwrap());
    dlio.args(["trace", "--gpu", "--quiet", "-o"]).arg(host.sandbox.trace());
    dlio.args(["--", "sh", "-c", "echo $CUDA_INJECTION64_PATH"]).env("DLIO_LIB", artefacts::library().unwrap());
    let output = dlio.env("CUDA_INJECTION64_PATH", "/opt/nsys.so").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/opt/nsys.so\n");
    let message = "cannot record the work of GPUs (--gpu): CUDA_INJECTION64_PATH names another tool, /opt/nsys.so";
    assert!(errors(&output).contains(message), "{output:?}");
}

/// The library in place of CUPTI prints which version its first client used.
const SAY: (&str, &str) = ("FAKE_CUPTI_SAY", "1");

/// The work of a program whose graphs version 2 reports kernel by kernel.
fn work_of_two() -> Vec<String> {
    let mut rows: Vec<String> =
        WORK.iter().map(|row| row.replace("graph,kernel", "kernel of a graph,kernel")).collect();
    rows.sort();
    rows
}

#[test]
fn version_two_is_used_where_it_is_complete() {
    let details = "select name, cat, dur, ts - first_value(ts) over (order by name), args['device'], args['stream'],
        args['bytes'] from events where layer = 'app' and name not like '%graph%' and name <> 'nanosleep' order by name";
    let host = Host::new_of_two("two", &[]);
    let output = host.trace(&["--gpu"], &["work"], &[SAY]);
    assert!(errors(&output).contains("first client: version 2; 0 forced flushes"), "{output:?}");
    assert!(!errors(&output).contains("dliotrace"), "{output:?}");
    assert_eq!(host.work(), work_of_two());
    let metadata = "select args['device'], args['stream'], args['bytes'] from events
        where name in ('copied_kernel', 'kernel of a graph', 'Memcpy HtoD (Pageable -> Device)') order by name";
    assert_eq!(host.rows(metadata), ["1,14,4096", "1,7,", "0,7,"]);
    // Both versions report the same work in the same records.
    let one = Host::new("one", &[]);
    let output = one.trace(&["--gpu"], &["work"], &[SAY]);
    assert!(errors(&output).contains("first client: version 1; 1 forced flushes"), "{output:?}");
    let (of_two, of_one) = (host.rows(details), one.rows(details));
    assert_eq!((of_two.len(), of_one.len()), (7, 7));
    for (two, one) in of_two.iter().zip(&of_one) {
        let [two, one] = [two, one].map(|row| row.split(',').collect::<Vec<_>>());
        let differs = |at: usize| (two[at].parse::<i64>().unwrap() - one[at].parse::<i64>().unwrap()).abs();
        assert!(two[..2] == one[..2] && two[4..] == one[4..], "{two:?} {one:?}");
        assert!(differs(2) < 100_000 && differs(3) < 100_000, "{two:?} {one:?}");
    }
}

#[test]
fn version_one_is_used_where_two_is_incomplete_or_refused_or_gives_no_time() {
    let partly = Host::new_of_two("partly", &["-DPARTLY"]);
    let output = partly.trace(&["--gpu"], &["work"], &[SAY]);
    assert!(errors(&output).contains("first client: version 1;"), "{output:?}");
    assert_eq!(partly.work(), WORK);
    for (name, variable) in [("refused", "FAKE_CUPTI_ERROR_2"), ("no-time", "FAKE_CUPTI_TIME_2")] {
        for error in ["27", "39", "999"] {
            let host = Host::new_of_two(&format!("{name}.{error}"), &[]);
            let output = host.trace(&["--gpu"], &["work"], &[SAY, (variable, error)]);
            assert!(errors(&output).contains("first client: version 1;"), "{output:?}");
            assert!(!errors(&output).contains("dliotrace"), "{output:?}");
            assert_eq!(host.work(), WORK, "{variable}={error}");
        }
    }
    let host = Host::new_of_two("both", &[]);
    let output = host.trace(&["--gpu"], &["work"], &[("FAKE_CUPTI_ERROR", "39"), ("FAKE_CUPTI_ERROR_2", "27")]);
    let message =
        "cannot record the work of the GPU (--gpu): another tool uses CUPTI; end it, or trace without --gpu\n";
    assert!(errors(&output).contains(message), "{output:?}");
    assert_eq!(host.work(), [""; 0]);
}

#[test]
fn profiler_of_version_two_gets_its_records_beside_the_trace() {
    let host = Host::new_of_two("beside", &[]);
    let output = host.trace(&["--gpu"], &["profiler"], &[SAY]);
    assert!(!errors(&output).contains("dliotrace"), "{output:?}");
    let mut both = work_of_two();
    both.push("while profiled,kernel,1".to_string());
    both.sort();
    assert_eq!(host.work(), both);
}

#[test]
fn trace_leaves_cupti_to_profilers_that_are_alone_or_of_another_version() {
    let message = "dliotrace: another tool uses CUPTI from now on: later work of the GPU is not recorded";
    let of_one = || WORK.map(str::to_string).to_vec();
    let cases = [
        ("alone", &[][..], "alone", work_of_two()),
        ("looked-up", &[], "looked up", work_of_two()),
        ("newer", &["-DPARTLY"], "", of_one()),
        ("looked-up-one", &["-DPARTLY"], "looked up", of_one()),
    ];
    for (name, flags, how, work) in cases {
        let host = Host::new_of_two(name, flags);
        let output = host.trace(&["--gpu"], &["profiler", how], &[]);
        assert!(errors(&output).contains(message), "{name}: {output:?}");
        assert_eq!(host.work(), work, "{name}: those before the profiler");
    }
}

#[test]
fn graphs_stay_whole_where_an_earlier_client_has_chosen_that() {
    let host = Host::new_of_two("graphs", &[]);
    host.trace(&["--gpu"], &["work"], &[("FAKE_CUPTI_GRAPHS", "1")]);
    assert_eq!(host.work(), WORK);
}

#[test]
fn flush_is_forced_only_for_unfinished_records_of_version_two() {
    let host = Host::new_of_two("unfinished", &[]);
    let output = host.trace(&["--gpu"], &["unfinished"], &[SAY]);
    assert!(errors(&output).contains("first client: version 2; 1 forced flushes"), "{output:?}");
    assert_eq!((host.work(), host.rows("select sum(lost) from processes")), (work_of_two(), vec!["1".to_string()]));
    let host = Host::new_of_two("invalid-two", &[]);
    let output = host.trace(&["--gpu"], &["invalid"], &[]);
    assert_eq!(
        (host.work(), host.rows("select sum(lost) from processes")),
        (vec!["valid,kernel,1".to_string()], vec!["1005".to_string()])
    );
    assert!(errors(&output).contains("dliotrace: 1000 records of the GPU are lost"), "{output:?}");
}

#[test]
fn forked_and_executed_programs_are_recorded_alike_by_version_two() {
    let host = Host::new_of_two("fork-two", &[]);
    host.trace(&["--gpu"], &["fork"], &[]);
    assert_eq!(host.work(), work_of_two());
    let host = Host::new_of_two("exec-two", &[]);
    host.trace(&["--gpu"], &["fork", "exec"], &[]);
    let twice: Vec<String> = work_of_two().iter().map(|row| row.replace(",1", ",2")).collect();
    assert_eq!(host.work(), twice);
    let host = Host::new_of_two("quick-two", &[]);
    host.trace(&["--gpu"], &["_exit"], &[]);
    assert_eq!(host.work(), work_of_two());
}

/// Returns the row of the only trainer of a trace.
fn trainer(trace: &Path) -> Value {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = command.arg(trace).args(["--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["training"].as_array().unwrap().len(), 1, "{}", report["training"]);
    report["training"][0].clone()
}

#[test]
fn two_gpus_that_take_turns_are_measured_apart_in_every_format() {
    let host = Host::new("turns", &[]);
    host.trace(&["--gpu"], &["turns"], &[]);
    let truth = trainer(&host.sandbox.trace());
    let each = truth["device"]["each"].as_array().unwrap();
    let numbers = |key: &str| each.iter().map(|device| device[key].as_i64().unwrap()).collect::<Vec<_>>();
    assert_eq!((numbers("device"), numbers("kernels")), (vec![0, 1], vec![20, 40]));
    // The training ends with the last wait, before the work of the last step.
    let (busy, steps) = (numbers("busy_ns"), 19);
    let near = |ns: i64, ms: i64| (ns - ms * 1_000_000).abs() < ms * 10_000;
    assert!(near(busy[0], 5 * steps) && near(busy[1], 4 * steps), "{truth}");
    assert!(near(truth["device"]["busy_ns"].as_i64().unwrap(), 9 * steps), "{truth}");
    // Each step ends with a wait of the host that no recorded call shows.
    assert_eq!(truth["device"]["syncs"], 20, "{truth}");
    assert!(near(truth["device"]["sync_ns"].as_i64().unwrap(), steps), "{truth}");
    let trained = truth["trained_ns"].as_i64().unwrap();
    assert!(
        each.iter().all(|device| device["busy_ns"].as_i64().unwrap() + device["idle_ns"].as_i64().unwrap() == trained)
    );
    let copies = host.sandbox.root().join("copies");
    for (option, name) in [("--export", "copy.pftrace"), ("--export", "copy.json"), ("--parquet", "tables")] {
        let _ = std::fs::remove_dir_all(&copies);
        std::fs::create_dir_all(&copies).unwrap();
        let copy = copies.join(name);
        let mut analyze = Command::new(artefacts::command("dlio-analyze").unwrap());
        let output = analyze.arg(host.sandbox.trace()).arg(option).arg(&copy).output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        assert_eq!(trainer(&copy)["device"], truth["device"], "{name}");
    }
}
