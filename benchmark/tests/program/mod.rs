//! Runs the program in a temporary directory.

// Each test program uses a part of this.
#![allow(dead_code)]

pub mod launchers;
#[path = "../../../tests/src/needs.rs"]
pub mod needs;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Far less than a step of `computation_time=300`, which a run would finish first if it did not end immediately.
pub const SOON: Duration = Duration::from_secs(60);

/// Longer than anything takes that does not hang.
pub const HANGS: Duration = Duration::from_secs(300);

/// A directory of a test, removed when the test ends.
pub struct Folder(TempDir);

impl Folder {
    pub fn new(name: &str) -> Folder {
        Folder(TempDir::with_prefix_in(format!("{name}-"), env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn text(&self) -> &str {
        self.path().to_str().unwrap()
    }

    pub fn json(&self, name: &str) -> Value {
        let path = self.path().join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the files below, without directories, sorted; without the fingerprint of a data set.
    pub fn files(&self, below: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![self.path().join(below)];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.extend((!path.ends_with(".dlio")).then_some(path))
                } else {
                    found.push(path.strip_prefix(self.path()).unwrap().display().to_string())
                }
            }
        }
        found.sort();
        found
    }
}

/// Returns the program with the directory as working directory; by default results go to `run` below it.
pub fn command(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlio"));
    command.current_dir(folder.path()).args(arguments);
    let asks = arguments.get(1).is_some_and(|verb| ["report", "check", "size", "ranks"].contains(verb));
    if arguments.first() == Some(&"bench") && !asks {
        command.arg("++hydra.run.dir=run");
    }
    command
}

pub fn dlio(folder: &Folder, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

pub const GENERATE: &str = "++workload.workflow.generate_data=true";

/// Returns a training run on eight small files in `data`, in batches of two: with the sizes and times of a test
/// program, and then with `more`.
pub fn eight_files(sizes: &[&str], more: &[&str]) -> Vec<String> {
    let common = [
        "bench",
        "workload=unet3d",
        "++workload.dataset.data_folder=data",
        "++workload.dataset.num_files_train=8",
        "++workload.dataset.record_length_bytes_stdev=0",
        "++workload.reader.batch_size=2",
        "++workload.workflow.checkpoint=false",
    ];
    common.iter().chain(sizes).chain(more).map(ToString::to_string).collect()
}

/// Runs the program with owned arguments.
pub fn dlio_owned(folder: &Folder, arguments: &[String]) -> Output {
    dlio(folder, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the arguments for eight files of a small npz data set in `data`, and a short training on it.
pub fn small(more: &[&str]) -> Vec<String> {
    let sizes = [
        "++workload.dataset.record_length_bytes=40000",
        "++workload.train.epochs=2",
        "++workload.train.computation_time=0.001",
    ];
    eight_files(&sizes, more)
}

/// Runs a training run on them.
pub fn run(folder: &Folder, more: &[&str]) -> Output {
    dlio_owned(folder, &small(more))
}

/// Waits until the condition holds, up to a limit that only a hang reaches: the host may be slow.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < HANGS, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
