//! Programs and libraries that some tests use and not every host has. The benchmark's tests include this file, too.

/// The script that `make test` runs first. It then sets `DLIO_TESTS_WHOLE=1`.
const SETUP: &str = "tests/setup.sh test";

/// Programs that may be missing, and the commands that install them.
const INSTALLED_BY: &[(&str, &str)] = &[
    ("strace", SETUP),
    ("viztracer", SETUP),
    ("prometheus_client", SETUP),
    ("nvtx", SETUP),
    ("liburing", SETUP),
    ("fio", "apt-get install fio"),
    ("the patching library", "cargo build --profile preload --package dlio-inline"),
    ("the library for ROCm", "cargo build --profile preload --package dlio-rocm"),
    ("groff", "apt-get install groff"),
    ("mpirun", "make setup-mpi"),
    ("DFTracer", "make bench-peers"),
    ("PyTorch", "make setup-torch"),
    ("TensorFlow", "pip (DLIO_TENSORFLOW_PYTHON names the Python that has it)"),
];

/// Returns `true` if a program is on the PATH; see [`has`].
pub fn needs(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    has(program, std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// Returns `true` if a Python imports a module; see [`has`].
pub fn needs_module(python: &str, module: &str) -> bool {
    let imported = std::process::Command::new(python).args(["-c", &format!("import {module}")]).output();
    has(module, imported.is_ok_and(|output| output.status.success()))
}

/// Returns `is_there`. If it is `false`, prints that the test is skipped, or fails the test if `make test` has installed it.
pub fn has(name: &str, is_there: bool) -> bool {
    let (_, by) = INSTALLED_BY.iter().find(|(known, _)| *known == name).expect("a name of the list");
    let is_whole = std::env::var("DLIO_TESTS_WHOLE").is_ok_and(|value| value == "1");
    assert!(is_there || *by != SETUP || !is_whole, "{name} is not installed: {by} installs it");
    if !is_there {
        eprintln!("skipped: {name} is not installed; {by} installs it");
    }
    is_there
}
