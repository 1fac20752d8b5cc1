//! Tests that the trace contains the calls of MPI that programs make, with bytes and ranks, for each installed MPI; and that
//! programs do not notice.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlio_tests::artefacts;
use dlio_tests::sandbox::Sandbox;
use serde_json::Value;

const RANKS: usize = 4;

/// An installed MPI.
struct Mpi {
    name: &'static str,
    c: &'static str,
    fortran: &'static str,
    run: &'static str,
}

/// Debian's names of both, and the names that others use.
const KNOWN: [Mpi; 3] = [
    Mpi { name: "openmpi", c: "mpicc.openmpi", fortran: "mpif90.openmpi", run: "mpirun.openmpi" },
    Mpi { name: "mpich", c: "mpicc.mpich", fortran: "mpif90.mpich", run: "mpirun.mpich" },
    Mpi { name: "other", c: "mpicc", fortran: "mpif90", run: "mpirun" },
];

/// Returns `true` if a compiler for MPI exists and finds what it needs.
fn compiles(compiler: &str, source: &Path, into: &Path) -> bool {
    Command::new(compiler).arg(source).arg("-o").arg(into).output().is_ok_and(|output| output.status.success())
}

/// Returns every installed MPI with the compiled program, or prints why there is none.
fn installed(sandbox: &Sandbox, source: &str, compiler: impl Fn(&Mpi) -> &'static str) -> Vec<(&'static Mpi, PathBuf)> {
    let source = dlio_tests::home().join("mpi").join(source);
    let mut found = Vec::new();
    for mpi in KNOWN.iter().filter(|mpi| mpi.name != "other") {
        let program = sandbox.root().join(mpi.name);
        if compiles(compiler(mpi), &source, &program) {
            found.push((mpi, program));
        }
    }
    let (other, program) = (&KNOWN[2], sandbox.root().join("other"));
    if found.is_empty() && compiles(compiler(other), &source, &program) {
        found.push((other, program));
    }
    if found.is_empty() {
        eprintln!("skipped: no MPI is installed that compiles {}; tests/setup.sh mpi installs one", source.display());
    }
    found
}

/// Runs a program with four ranks in an empty directory and returns its output.
fn run(mpi: &Mpi, program: &Path, work: &Path, trace: Option<&Path>) -> String {
    fs::create_dir_all(work).unwrap();
    let mut command = Command::new(mpi.run);
    // Open MPI refuses to run as root, and more ranks than CPUs. Other libraries ignore its variables.
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"] {
        command.env(name, "1");
    }
    command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    command.args(["-n", &RANKS.to_string()]).current_dir(work);
    if let Some(trace) = trace {
        let set = |name: &str, value: &Path| format!("{name}={}", value.display());
        command.arg("env").arg(set("LD_PRELOAD", &artefacts::library().unwrap())).arg(set("DLIO_TRACE_DIR", trace));
    }
    let output = command.arg(program).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {} {errors}", mpi.name, output.status);
    assert!(!errors.contains("dliotrace"), "{}: {errors}", mpi.name);
    String::from_utf8(output.stdout).unwrap()
}

fn analyze(arguments: &[&str]) -> Value {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = command.args(arguments).args(["--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn rows(trace: &Path, sql: &str) -> Vec<Value> {
    analyze(&[trace.to_str().unwrap(), "--sql", sql]).as_array().unwrap().clone()
}

/// By rank and function: calls and bytes.
type Counts = BTreeMap<(i64, String), (i64, i64)>;

fn counted(work: &Path) -> Counts {
    let mut counts = Counts::new();
    for rank in 0..RANKS {
        let text = fs::read_to_string(work.join(format!("counts.{rank}"))).unwrap();
        for line in text.lines() {
            let cells: Vec<_> = line.split(' ').collect();
            let numbers = (cells[1].parse().unwrap(), cells[2].parse().unwrap());
            counts.insert((rank as i64, cells[0].to_string()), numbers);
        }
    }
    counts
}

fn recorded(trace: &Path) -> Counts {
    let sql = "select rank, name, count(*) as n, sum(coalesce(bytes, cast(args['bytes'] as bigint), 0)) as bytes
        from events where layer = 'mpi' or cat = 'communication' group by 1, 2";
    let number = |row: &Value, name: &str| row[name].as_i64().unwrap();
    let of_row = |row: Value| {
        let name = row["name"].as_str().unwrap().to_string();
        ((number(&row, "rank"), name), (number(&row, "n"), number(&row, "bytes")))
    };
    rows(trace, sql).into_iter().map(of_row).collect()
}

#[test]
fn trace_contains_the_calls_that_each_rank_counts() {
    let sandbox = Sandbox::new("mpi-counts").unwrap();
    for (mpi, program) in installed(&sandbox, "calls.c", |mpi| mpi.c) {
        let (plain, work) = (sandbox.work().join(format!("{}-plain", mpi.name)), sandbox.work().join(mpi.name));
        let trace = sandbox.trace().join(mpi.name);
        let untraced = run(mpi, &program, &plain, None);
        assert_eq!(run(mpi, &program, &work, Some(&trace)), untraced, "{}", mpi.name);
        let wanted = counted(&work);
        assert_eq!(wanted, counted(&plain), "{}", mpi.name);
        assert!(wanted.len() > 40 * RANKS, "{}: {wanted:?}", mpi.name);
        assert_eq!(recorded(&trace), wanted, "{}", mpi.name);
        check_report(mpi, &trace);
    }
}

/// Checks that requests contain the file calls, and that only these count as I/O.
fn check_report(mpi: &Mpi, trace: &Path) {
    let path = trace.to_str().unwrap();
    let report = analyze(&[path, "--section", "mpi"]);
    let sections = report["mpi"].as_array().unwrap();
    let collective = sections.iter().find(|row| row["mode"] == "collective").expect("a row of collective requests");
    assert_eq!(collective["processes"], RANKS, "{}", mpi.name);
    let bytes = |row: &Value, key: &str| row[key]["bytes"].as_i64().unwrap();
    // Some libraries store the shared file pointer in a file.
    let more = bytes(collective, "writes_below") - bytes(collective, "writes");
    assert!((0..1000).contains(&more), "{}: {collective:#?}", mpi.name);
    let all = analyze(&[path, "--section", "dataset"]);
    let posix = "select sum(bytes) as bytes from events where layer in ('posix', 'stdio') and class = 'write'
        and file not like '<%'";
    assert_eq!(all["dataset"]["bytes_written"], rows(trace, posix)[0]["bytes"], "{}", mpi.name);
}

#[test]
fn calls_from_fortran_are_recorded_once() {
    let sandbox = Sandbox::new("mpi-fortran").unwrap();
    for (mpi, program) in installed(&sandbox, "calls.f90", |mpi| mpi.fortran) {
        let trace = sandbox.trace().join(mpi.name);
        assert_eq!(run(mpi, &program, &sandbox.work().join(mpi.name), Some(&trace)), "ranks 4\n");
        let mut wanted = Counts::new();
        for (name, calls, bytes) in [
            ("MPI_Init", 1, 0),
            ("MPI_File_open", 1, 0),
            ("MPI_File_write_at_all", 3, 1200),
            ("MPI_File_sync", 2, 0),
            ("MPI_Barrier", 1, 0),
            ("MPI_File_read_at", 1, 400),
            ("MPI_File_iwrite_at", 1, 40),
            ("MPI_Wait", 1, 0),
            ("MPI_File_close", 1, 0),
            ("MPI_Allreduce", 1, 4),
            ("MPI_Finalize", 1, 0),
        ] {
            wanted.extend((0..RANKS).map(|rank| ((rank as i64, name.to_string()), (calls, bytes))));
        }
        assert_eq!(recorded(&trace), wanted, "{}", mpi.name);
    }
}
