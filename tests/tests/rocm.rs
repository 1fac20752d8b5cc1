//! Tests the work of AMD's GPUs in a trace, with libraries in place of rocprofiler-sdk and rocprofiler-register, and a program
//! in place of one of HIP (`tests/gpu/rocm`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dlio_tests::artefacts;
use dlio_tests::compile::compile;
use dlio_tests::home;
use dlio_tests::needs;
use dlio_tests::sandbox::Sandbox;
use serde_json::Value;

/// Returns `true` if the library by which ROCm finds the tracer was built.
fn is_built() -> bool {
    needs::has("the library for ROCm", artefacts::library().unwrap().with_file_name("libdliotrace_rocm.so").is_file())
}

/// A host with libraries in place of ROCm's, and a program that uses them.
struct Host {
    sandbox: Sandbox,
    program: PathBuf,
}

impl Host {
    /// Returns a host on which rocprofiler-sdk has these flags; `None` if it is not installed.
    fn new(name: &str, sdk: Option<&[&str]>) -> Host {
        let sandbox = Sandbox::new(&format!("rocm.{name}")).unwrap();
        let root = sandbox.root().to_path_buf();
        let library = |file: &str, source: &str, flags: &[&str]| {
            let soname = format!("-Wl,-soname,{file}");
            let shared = ["-shared", "-fPIC", &soname];
            compile(&home().join("gpu/rocm").join(source), &root.join(file), &[&shared[..], flags].concat()).unwrap();
            root.join(file)
        };
        let path = format!("-Wl,-rpath,{}", root.display());
        if let Some(flags) = sdk {
            library("librocprofiler-sdk.so", "sdk.c", flags);
        }
        let register = library("librocprofiler-register.so.0", "register.c", &[&path]);
        let program = root.join("job");
        compile(&home().join("gpu/rocm/job.c"), &program, &[register.to_str().unwrap(), &path]).unwrap();
        Host { sandbox, program }
    }

    fn trace(&self, options: &[&str], arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut dlio = Command::new(artefacts::command("dlio").unwrap());
        dlio.args(["trace", "--quiet", "-o"]).arg(self.sandbox.trace()).args(options).arg("--").arg(&self.program);
        dlio.args(arguments).env("DLIO_LIB", artefacts::library().unwrap()).envs(variables.iter().copied());
        let output = dlio.env_remove("CUDA_INJECTION64_PATH").output().unwrap();
        assert_eq!(output.status.code(), Some(42), "{output:?}");
        assert!(!errors(&output).contains("flush after the end"), "{output:?}");
        output
    }

    fn rows(&self, sql: &str) -> Vec<String> {
        let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
        let output = command.arg(self.sandbox.trace()).args(["--sql", sql, "--format", "csv"]).output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        String::from_utf8_lossy(&output.stdout).lines().skip(1).map(str::to_string).collect()
    }

    /// Returns the names of the device's work, with their categories, GPUs and number.
    fn work(&self) -> Vec<String> {
        let sql =
            "select name, cat, args['device'], args['stream'], args['bytes'], count(*) from events where layer = 'app'
            group by 1, 2, 3, 4, 5 order by 1";
        self.rows(sql)
    }

    /// Compiles a tool of the user, and returns its path.
    fn tool(&self) -> String {
        let path = self.sandbox.root().join("libtool.so");
        compile(&home().join("gpu/rocm/tool.c"), &path, &["-shared", "-fPIC"]).unwrap();
        path.to_str().unwrap().to_string()
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const WORK: [&str; 7] = [
    "Memcpy DtoD,gpu_memcpy,1,,512,1",
    "Memcpy DtoH,gpu_memcpy,1,,8192,1",
    "Memcpy HtoD,gpu_memcpy,0,,4096,1",
    "Memcpy Unknown,gpu_memcpy,,,1,1",
    "first_kernel,kernel,0,4,,1",
    "second_kernel,kernel,1,5,,1",
    "unnamed,kernel,0,4,,1",
];

#[test]
fn kernels_and_copies_are_recorded_with_their_times_by_both_forms_of_records() {
    if !is_built() {
        return;
    }
    for (name, version) in [("one", "-DVERSION=10100"), ("half", "-DVERSION=500")] {
        let host = Host::new(name, Some(&[version]));
        let output = host.trace(&["--gpu"], &["work"], &[]);
        assert!(!errors(&output).contains("dliotrace"), "{output:?}");
        assert_eq!(host.work(), WORK);
        // The host slept for 40 ms; the kernel ran for 20 ms from 10 ms after the time just before. Clocks agree to 0.1 ms.
        let times = "select abs(kernel.dur - 20e6) < 1e5 and kernel.ts - sleep.ts between 5e6 and 10.1e6,
            abs(other.dur - 30e6) < 1e5 from events kernel, events other, events sleep
            where kernel.name = 'first_kernel' and other.name = 'second_kernel' and sleep.name = 'nanosleep'
            and sleep.dur >= 40e6";
        assert_eq!(host.rows(times), ["true,true"], "{version}");
    }
}

#[test]
fn nothing_is_loaded_without_the_option_or_by_other_programs() {
    if !is_built() {
        return;
    }
    let host = Host::new("off", Some(&[]));
    host.trace(&[], &["work"], &[]);
    assert_eq!(host.work(), [""; 0]);
    let mut dlio = Command::new(artefacts::command("dlio").unwrap());
    dlio.args(["trace", "--gpu", "--quiet", "-o"]).arg(host.sandbox.trace()).args(["--", "cat", "/proc/self/maps"]);
    let output = dlio.env("DLIO_LIB", artefacts::library().unwrap()).output().unwrap();
    let maps = String::from_utf8_lossy(&output.stdout);
    assert!(maps.contains("libdliotrace.so") && !maps.contains("libdliotrace_rocm.so"), "{maps}");
}

#[test]
fn program_runs_unchanged_where_the_library_for_profilers_is_missing_or_unusable() {
    if !is_built() {
        return;
    }
    let message = "dliotrace: cannot record the work of the GPU (--gpu): ";
    let cases: [(&str, Option<&[&str]>, &str); 4] = [
        ("missing", None, "librocprofiler-sdk is not found; install it with ROCm 6.3 or later, or add"),
        ("lacks", Some(&["-DOLD"]), "this version of rocprofiler-sdk lacks a function; ROCm 6.3 and later have it"),
        ("old", Some(&["-DVERSION=400"]), "this version of rocprofiler-sdk is too old; ROCm 6.3 and later work"),
        ("new", Some(&["-DVERSION=20000"]), "this version of rocprofiler-sdk is newer than those that are known; use"),
    ];
    for (name, flags, cause) in cases {
        let host = Host::new(name, flags);
        let output = host.trace(&["--gpu"], &["work"], &[]);
        assert_eq!(errors(&output).matches(&format!("{message}{cause}")).count(), 1, "{name}: {output:?}");
        assert_eq!(host.work(), [""; 0], "{name}");
    }
    let host = Host::new("alone", Some(&[]));
    let library = host.sandbox.root().join("libdliotrace.so");
    std::fs::copy(artefacts::library().unwrap(), &library).unwrap();
    let output = host.trace(&["--gpu"], &["work"], &[("DLIO_LIB", library.to_str().unwrap())]);
    let cause = "libdliotrace_rocm.so is not found next to libdliotrace.so; install both\n";
    assert!(errors(&output).contains(&format!("{message}{cause}")), "{output:?}");
    assert_eq!(host.work(), [""; 0]);
    let host = Host::new("conflict", Some(&[]));
    for (error, cause) in [
        ("11", "Context operation failed due to a conflict with another context"),
        ("1", "rocprofiler-sdk returns an unknown error"),
    ] {
        let output = host.trace(&["--gpu"], &["work"], &[("FAKE_ROCM_ERROR", error)]);
        assert!(errors(&output).contains(&format!("{message}{cause}\n")), "{output:?}");
        assert_eq!(host.work(), [""; 0]);
    }
}

#[test]
fn other_tools_are_called_as_without_the_trace() {
    if !is_built() {
        return;
    }
    // The library ignores the last tool of a list, with and without the trace.
    for (name, before, after, is_called) in [("tool", "", "", true), ("list", "", ":", true), ("last", ":", "", false)]
    {
        let host = Host::new(name, Some(&[]));
        let list = format!("{before}{}{after}", host.tool());
        let output = host.trace(&["--gpu"], &["work"], &[("ROCP_TOOL_LIBRARIES", &list)]);
        for message in ["tool: initialized", "tool: finalized"] {
            assert_eq!(errors(&output).matches(message).count(), usize::from(is_called), "{list}: {output:?}");
        }
        assert_eq!(host.work(), WORK, "{list}");
    }
    let host = Host::new("preloaded", Some(&[]));
    let output = host.trace(&["--gpu"], &["work"], &[("LD_PRELOAD", &host.tool())]);
    assert!(errors(&output).contains("tool: initialized"), "{output:?}");
    assert_eq!(host.work(), WORK);
}

#[test]
fn library_is_also_found_by_the_search_path_and_where_the_user_says() {
    if !is_built() {
        return;
    }
    let moved = |name: &str| {
        let host = Host::new(name, Some(&[]));
        let folder = host.sandbox.root().join("lib");
        std::fs::create_dir(&folder).unwrap();
        std::fs::rename(host.sandbox.root().join("librocprofiler-sdk.so"), folder.join("librocprofiler-sdk.so"))
            .unwrap();
        (host, folder)
    };
    let (host, folder) = moved("path");
    host.trace(&["--gpu"], &["work"], &[("LD_LIBRARY_PATH", folder.to_str().unwrap())]);
    assert_eq!(host.work(), WORK);
    let (host, folder) = moved("chosen");
    let library = folder.join("librocprofiler-sdk.so");
    host.trace(&["--gpu"], &["work"], &[("ROCPROFILER_REGISTER_LIBRARY", library.to_str().unwrap())]);
    assert_eq!(host.work(), WORK);
}

#[test]
fn forked_children_call_nothing_and_executed_programs_start_anew() {
    if !is_built() {
        return;
    }
    let host = Host::new("fork", Some(&[]));
    host.trace(&["--gpu"], &["fork"], &[]);
    assert_eq!(host.work(), WORK);
    let host = Host::new("exec", Some(&[]));
    host.trace(&["--gpu"], &["fork", "exec"], &[]);
    let twice = WORK.map(|row| row.strip_suffix(",1").unwrap().to_string() + ",2");
    assert_eq!(host.work(), twice);
}

#[test]
fn process_that_skips_its_exit_functions_keeps_its_records() {
    if !is_built() {
        return;
    }
    let host = Host::new("quick", Some(&[]));
    host.trace(&["--gpu"], &["_exit"], &[]);
    assert_eq!(host.work(), WORK);
}

#[test]
fn records_of_many_batches_are_complete_and_unusable_ones_are_counted() {
    if !is_built() {
        return;
    }
    let host = Host::new("many", Some(&[]));
    host.trace(&["--gpu"], &["many"], &[]);
    assert_eq!(host.work(), ["first_kernel,kernel,0,4,,2500"]);
    let host = Host::new("invalid", Some(&[]));
    let output = host.trace(&["--gpu"], &["invalid"], &[]);
    assert_eq!(host.work(), ["first_kernel,kernel,0,4,,1"]);
    assert_eq!(host.rows("select sum(lost) from processes"), ["4"]);
    let message = "dliotrace: 4 records of the GPU are lost: records without valid times or of an unknown form";
    assert!(errors(&output).contains(message), "{output:?}");
}

/// Returns the row of the only trainer of a trace.
fn trainer(trace: &Path) -> Value {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = command.arg(trace).args(["--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["training"].as_array().unwrap().len(), 1, "{}", report["training"]);
    report["training"][0].clone()
}

#[test]
fn two_gpus_that_take_turns_are_measured_apart_in_every_format() {
    if !is_built() {
        return;
    }
    let host = Host::new("turns", Some(&[]));
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
    let page = host.sandbox.root().join("page.html");
    let mut analyze = Command::new(artefacts::command("dlio-analyze").unwrap());
    assert!(analyze.arg(host.sandbox.trace()).arg("--html").arg(&page).output().unwrap().status.success());
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("GPU 0") && page.contains("GPU 1"), "a lane per GPU");
}
