//! The files of a run directory, with DLIO's names and keys.
//!
//! ```text
//! dlio.log                         one line per action
//! summary.json                     the numbers, rank 0          (rewritten after each epoch: partial results count)
//! <rank>_output.json               every step of every epoch
//! <rank>_per_epoch_stats.json      start and end of epochs, blocks and checkpoints
//! .hydra/{config,overrides,hydra}.yaml
//! ```

use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::{self, AtomicFile, write_whole};
use crate::keys::grammar::Override;
use crate::keys::value::Value as Tree;
use crate::store::settings::{self, without_secrets};
use crate::system::clock::local_time;
use crate::system::terminal;
use serde_json::Value;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Marks a write failure as one of the run directory.
fn of_run<T>(outcome: Outcome<T>) -> Outcome<T> {
    outcome.map_err(|failure| failure.elsewhere("hydra.run.dir"))
}

/// Returns the run directory that a user means: a file of a run stands for its directory.
pub fn run_folder(given: &Path) -> &Path {
    let folder = given.parent().filter(|_| given.is_file()).unwrap_or(given);
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

#[derive(Debug, Clone)]
pub struct RunFolder {
    pub path: PathBuf,
}

impl RunFolder {
    pub fn create(path: PathBuf) -> Outcome<RunFolder> {
        let folder = RunFolder { path };
        folder.make()?;
        // Detects a read-only directory before hours of work, not after.
        let probe = folder.path.join(".writable");
        fs::write(&probe, b"")
            .and_then(|()| fs::remove_file(&probe))
            .map_err(|error| folder.refused("write to the run directory", error))?;
        atomic_file::sweep(&folder.path);
        Ok(folder)
    }

    pub fn make(&self) -> Outcome<()> {
        fs::create_dir_all(&self.path).map_err(|error| self.refused("create the run directory", error))
    }

    fn refused(&self, doing: &str, error: io::Error) -> Failure {
        let failure = Failure::unwritable(doing, &self.path, error);
        failure.remedy("choose another run directory with ++workload.output.folder=DIR")
    }

    /// Keeps other runs out of the directory as long as the file is open, also in forked ranks. `None` if the file
    /// system does not support locks.
    pub fn lock(&self) -> Outcome<Option<File>> {
        let Ok(folder) = File::open(&self.path) else { return Ok(None) };
        match folder.try_lock() {
            Ok(()) => Ok(Some(folder)),
            Err(TryLockError::WouldBlock) => {
                let what = format!("cannot run in {}: another run is using it", self.path.display());
                Err(Failure::refused(what)
                    .remedy("wait for it to end, or choose another directory with ++hydra.run.dir=DIR"))
            }
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    /// Removes the results of an earlier run, which could be mistaken for this one's.
    pub fn clear(&self) -> Outcome<()> {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let of_rank = name.strip_suffix("_output.json").or_else(|| name.strip_suffix("_per_epoch_stats.json"));
            let of_rank = of_rank.is_some_and(|rank| rank.parse::<u64>().is_ok());
            if of_rank || name == "summary.json" || name == "iostat.json" {
                let path = entry.path();
                fs::remove_file(&path).map_err(|error| Failure::unwritable("remove", &path, error))?;
            }
        }
        Ok(())
    }

    pub fn write_json(&self, name: &str, json: &Value) -> Outcome<()> {
        let text = serde_json::to_string_pretty(json).unwrap_or_default();
        of_run(write_whole(&self.path.join(name), text.as_bytes()))
    }

    /// Writes a file that is too long to be built in memory.
    pub fn write_streamed(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Outcome<()> {
        let path = self.path.join(name);
        let draft = AtomicFile::new(&path)?;
        let mut out = BufWriter::new(of_run(draft.create())?);
        let written = write(&mut out).and_then(|()| out.flush());
        of_run(written.map_err(|error| Failure::unwritable("write", &path, error)))?;
        draft.commit()
    }

    /// Writes the requested configuration, as Hydra does.
    pub fn write_configuration(
        &self,
        subfolder: &str,
        workload: &Tree,
        hydra: &Tree,
        overrides: &[Override],
    ) -> Outcome<()> {
        let folder = self.path.join(subfolder);
        let made = fs::create_dir_all(&folder).map_err(|error| Failure::unwritable("create directory", &folder, error));
        of_run(made)?;
        let under = |key: &str, tree: &Tree| Tree::Map(vec![(key.into(), tree.clone())]).to_yaml();
        let write = |name: &str, text: String| of_run(write_whole(&folder.join(name), text.as_bytes()));
        write("config.yaml", under("workload", &without_secrets(workload)))?;
        write("hydra.yaml", under("hydra", hydra))?;
        let typed = overrides
            .iter()
            .filter(|typed| !typed.key.starts_with("hydra."))
            .map(|typed| Tree::Text(settings::masked(&typed.typed)));
        write("overrides.yaml", Tree::List(typed.collect()).to_yaml())
    }
}

/// dlio.log, and its lines on the terminal if requested.
pub struct Log {
    file: Option<File>,
    echo: bool,
}

impl Log {
    /// Creates the log on rank 0; other ranks log nothing.
    pub fn create(path: &Path, rank: u64, echo: bool) -> Outcome<Log> {
        if rank > 0 {
            return Ok(Log { file: None, echo: false });
        }
        let made = File::create(path).map_err(|error| {
            let failure = Failure::unwritable("create", path, error);
            let other = "choose another name in the run directory with ++workload.output.log_file=NAME";
            if failure.remedy.is_empty() { failure.remedy(other) } else { failure }
        });
        let file = of_run(made)?;
        Ok(Log { file: Some(file), echo })
    }

    pub fn output(&mut self, message: &str) {
        self.line(&format!("[OUTPUT] {} {message}", local_time()));
    }

    pub fn metric(&mut self, message: &str) {
        self.line(&format!("[METRIC] {message}"));
    }

    pub fn warning(&mut self, message: &str) {
        self.line(&format!("[WARNING] {message}"));
    }

    /// Returns `true` if lines are printed on the terminal too.
    pub fn echoes(&self) -> bool {
        self.echo
    }

    fn line(&mut self, line: &str) {
        if let Some(file) = &mut self.file {
            // A full disk shows when the results are written, which is checked; the log is a convenience.
            let _ = writeln!(file, "{line}");
        }
        if self.echo {
            terminal::line(line);
        }
    }
}
