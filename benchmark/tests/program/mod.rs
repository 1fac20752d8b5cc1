//! Running the program in a folder of its own.

// Each test program uses its part of this.
#![allow(dead_code)]

pub mod launchers;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Far less than a step of `computation_time=300`, which whoever does not end at once would finish first.
pub const SOON: Duration = Duration::from_secs(60);

/// Longer than anything takes that does not hang.
pub const HANGS: Duration = Duration::from_secs(300);

pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        // Two tests of one name at the same time are two folders.
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub fn json(&self, name: &str) -> Value {
        let path = self.0.join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap()
    }

    /// Files below, without folders, sorted; without what is noted of how a data set was made.
    pub fn files(&self, below: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![self.0.join(below)];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.extend((!path.ends_with(".dlio")).then_some(path))
                } else {
                    found.push(path.strip_prefix(&self.0).unwrap().display().to_string())
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program with the folder as working directory; results go to `run` below it unless it is told otherwise.
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

/// Waits until the condition holds. Only what hangs waits this long: a machine may be as slow as it likes.
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
