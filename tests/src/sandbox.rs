//! Runs a program in a separate directory and returns its exit, output and files.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

/// Timeout of a program: the slowest takes a few seconds on a busy host.
const PATIENCE: Duration = Duration::from_secs(300);

/// Directories of one case. Each run finds the same paths, so that its output can be the same.
pub struct Sandbox {
    root: PathBuf,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Run {
    pub exit: String,
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    pub began: SystemTime,
    pub ended: SystemTime,
}

impl Sandbox {
    /// Creates a sandbox below the target directory; leftovers of an earlier run are removed.
    pub fn new(name: &str) -> io::Result<Sandbox> {
        let root = crate::artefacts::target().join("tmp/dlio-tests").join(name);
        let sandbox = Sandbox { root };
        sandbox.clear()?;
        Ok(sandbox)
    }

    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    pub fn trace(&self) -> PathBuf {
        self.root.join("trace")
    }

    /// Returns the directory for files that outlive a run, such as compiled programs.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Creates empty directories for the next run; the tracer creates the trace directory.
    pub fn clear(&self) -> io::Result<()> {
        for folder in [self.work(), self.trace()] {
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::create_dir_all(self.work())
    }

    /// Runs a command to its end and, if `waits`, to the end of all its descendants. Output goes to files, so that a
    /// surviving grandchild blocks nothing.
    pub fn run(&self, command: &mut Command, waits: bool) -> Result<Run, String> {
        let (output, errors) = (self.root.join("stdout"), self.root.join("stderr"));
        let file = |path: &Path| File::create(path).map(Stdio::from).map_err(|e| format!("{}: {e}", path.display()));
        command.current_dir(self.work()).stdin(Stdio::null()).stdout(file(&output)?).stderr(file(&errors)?);
        let began = SystemTime::now();
        let mut child = command.process_group(0).spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let pid = child.id();
        let (told, ended) = mpsc::channel();
        std::thread::spawn(move || told.send(child.wait()));
        let status = match ended.recv_timeout(PATIENCE) {
            Ok(status) => status.map_err(|error| error.to_string())?,
            Err(_) => {
                kill_group(pid);
                return Err(format!("it hangs: no end after {} seconds", PATIENCE.as_secs()));
            }
        };
        if waits && !is_gone_in_time(pid) {
            kill_group(pid);
            return Err(format!("its child processes do not end within {} seconds", PATIENCE.as_secs()));
        }
        let read = |path: &Path| fs::read(path).unwrap_or_default();
        Ok(Run {
            exit: describe(status),
            output: read(&output),
            errors: read(&errors),
            began,
            ended: SystemTime::now(),
        })
    }
}

impl Drop for Sandbox {
    /// Large traces of a failed case are kept, those of a passed one are removed; a panic marks the failure.
    fn drop(&mut self) {
        if std::env::var_os("DLIO_TESTS_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// Waits for the last process of a group.
fn is_gone_in_time(group: u32) -> bool {
    let begun = SystemTime::now();
    while signal_group(group, "-0") {
        if begun.elapsed().is_ok_and(|waited| waited > PATIENCE) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

fn kill_group(group: u32) {
    signal_group(group, "-9");
}

/// Signals a group; returns `true` if it has a process.
fn signal_group(group: u32, signal: &str) -> bool {
    let mut kill = Command::new("kill");
    let status = kill.args([signal, "--", &format!("-{group}")]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_string(),
    }
}
