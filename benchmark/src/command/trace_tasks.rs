//! The tasks of one job: a launcher starts `dlio trace` once per rank, all of them write into one directory, and the
//! last to finish prints the summary of the job.
//!
//! The tasks share nothing but the directory, so they count one another there: each has a file for its start and one
//! for its end in `.job-KEY`, where KEY represents the variables of the launcher that name the job. Two jobs in one
//! directory have different keys. Files are created with operations that are atomic on network file systems, too.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::ranks::launcher::{self, LaunchInfo};

/// A `dlio trace` that a launcher started as one of several.
pub struct Task {
    folder: PathBuf,
    rank: u64,
    size: u64,
    launcher: &'static str,
    /// The traces that the directory contained before the job.
    traces_before: Vec<String>,
}

/// Which task of a job this was, at its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// The only task, or a task of a job whose tasks cannot be counted.
    Alone,
    /// The last of the tasks that have started. `missing` lists ranks that did not start. `recorded` lists the traces of
    /// all other tasks, as HOST-PID-TIME.
    Last {
        launcher: &'static str,
        size: u64,
        missing: Vec<u64>,
        recorded: BTreeSet<String>,
        traces_before: Vec<String>,
    },
    /// Others still run, and the last of them prints the summary.
    Earlier,
}

impl Task {
    /// Counts this process as a task of its job. `stems` are the traces in the directory. `None` if no launcher started
    /// it as one of several, or nothing names the job.
    pub fn begin(folder: &Path, stems: impl Iterator<Item = String>) -> Option<Task> {
        let LaunchInfo { rank, size, launcher, job, .. } = launcher::world(None).ok().flatten()?;
        if job.is_empty() {
            return None;
        }
        let folder = folder.join(format!(".job-{:016x}", key(&job)));
        Task { folder, rank, size, launcher, traces_before: vec![] }.counted(stems).ok()
    }

    fn counted(mut self, stems: impl Iterator<Item = String>) -> io::Result<Task> {
        fs::DirBuilder::new().create(&self.folder).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        })?;
        self.traces_before = self.found_first(stems)?;
        // A rank that was started again has not finished.
        let _ = fs::remove_file(self.mark("finished", self.rank));
        fs::write(self.mark("started", self.rank), format!("{} {}", host(), std::process::id()))?;
        Ok(self)
    }

    /// Returns the traces that the first task found. A link has its content from the start.
    fn found_first(&self, stems: impl Iterator<Item = String>) -> io::Result<Vec<String>> {
        let (list, draft) = (self.folder.join("before"), self.mark("draft", self.rank));
        if !list.exists() {
            fs::write(&draft, stems.collect::<Vec<_>>().join("\n"))?;
            let linked = fs::hard_link(&draft, &list);
            fs::remove_file(&draft)?;
            linked.or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })?;
        }
        Ok(fs::read_to_string(list)?.lines().map(str::to_string).collect())
    }

    /// Counts this task as finished, with the stems of the traces that it found. The last one of all removes the files of
    /// the job.
    pub fn finish<'a>(self, stems: impl Iterator<Item = &'a String>) -> Turn {
        // Tasks that share a directory see each other's traces, so each task lists only traces that no other task has listed.
        let known = self.recorded();
        let own: BTreeSet<String> = stems.map(|stem| identity(stem)).filter(|own| !known.contains(own)).collect();
        // The file appears with its content.
        let draft = self.mark("draft", self.rank);
        let written = fs::write(&draft, own.into_iter().collect::<Vec<_>>().join("\n"));
        if written.and_then(|()| fs::rename(&draft, self.mark("finished", self.rank))).is_err() {
            return Turn::Earlier;
        }
        let started: Vec<u64> = (0..self.size).filter(|rank| self.mark("started", *rank).exists()).collect();
        if started.iter().any(|rank| !self.mark("finished", *rank).exists() && !self.has_died(*rank)) {
            return Turn::Earlier;
        }
        let missing: Vec<u64> = (0..self.size).filter(|rank| !started.contains(rank)).collect();
        if missing.is_empty() && fs::create_dir(self.folder.join("summary")).is_err() {
            // Another task has just finished, and prints it.
            return Turn::Earlier;
        }
        let recorded = self.recorded();
        if missing.is_empty() {
            let _ = fs::remove_dir_all(&self.folder);
        }
        let Task { launcher, size, traces_before, .. } = self;
        Turn::Last { launcher, size, missing, recorded, traces_before }
    }

    /// Returns the traces that finished tasks have listed.
    fn recorded(&self) -> BTreeSet<String> {
        let lists = (0..self.size).filter_map(|rank| fs::read_to_string(self.mark("finished", rank)).ok());
        lists.flat_map(|list| list.lines().map(str::to_string).collect::<Vec<_>>()).collect()
    }

    /// Returns `true` if a task on this host was killed.
    fn has_died(&self, rank: u64) -> bool {
        let text = fs::read_to_string(self.mark("started", rank)).unwrap_or_default();
        let Some((its_host, pid)) = text.rsplit_once(' ') else { return false };
        its_host == host() && !pid.is_empty() && !Path::new("/proc").join(pid).exists()
    }

    fn mark(&self, what: &str, rank: u64) -> PathBuf {
        self.folder.join(format!("{what}-{rank}"))
    }
}

/// Returns HOST-PID-TIME of a stem PROGRAM-HOST-PID-TIME, which is unchanged when traces are merged into one file.
fn identity(stem: &str) -> String {
    let mut parts: Vec<&str> = stem.rsplitn(4, '-').take(3).collect();
    parts.reverse();
    parts.join("-")
}

/// Returns a name of this host that no other one has, unlike its host name: the kernel makes it at the boot.
fn host() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // Containers of one host have other process ids.
    let pids = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), pids.display())
}

/// Returns the FNV-1a hash of a job's name, which is the same on each host.
fn key(job: &str) -> u64 {
    job.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(folder: &Path, rank: u64) -> Task {
        let (folder, launcher) = (folder.join(".job-1"), "Slurm");
        let task = Task { folder, rank, size: 3, launcher, traces_before: vec![] };
        task.counted([format!("before-{rank}")].into_iter()).unwrap()
    }

    /// Lets tasks finish one after another. Each task sees the merged traces of the previous tasks.
    fn finished<const N: usize>(tasks: [Task; N], first: usize) -> [Turn; N] {
        let mut seen: Vec<String> = (0..first).map(|number| format!("more-a-host-{number}-9")).collect();
        tasks.map(|task| {
            seen.push(format!("sh-a-host-{}-9", seen.len()));
            task.finish(seen.iter())
        })
    }

    /// The last turn, if rank `first` started first and `all` have finished.
    fn last(first: u64, all: usize, missing: &[u64]) -> Turn {
        let recorded = (0..all).map(|number| format!("host-{number}-9")).collect();
        let traces_before = vec![format!("before-{first}")];
        Turn::Last { launcher: "Slurm", size: 3, missing: missing.to_vec(), recorded, traces_before }
    }

    #[test]
    fn last_task_to_finish_reports_and_removes_the_files_of_the_job() {
        let folder = tempfile::tempdir().unwrap();
        let turns = finished([0, 1, 2].map(|rank| task(folder.path(), rank)), 0);
        assert_eq!(turns, [Turn::Earlier, Turn::Earlier, last(0, 3, &[])]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn ranks_that_never_started_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let turns = finished([2, 0].map(|rank| task(folder.path(), rank)), 0);
        assert_eq!(turns, [Turn::Earlier, last(2, 2, &[1])]);
        // It started late.
        assert_eq!(finished([task(folder.path(), 1)], 2), [last(2, 3, &[])]);
    }

    #[test]
    fn killed_task_of_this_host_does_not_hold_up_the_summary() {
        let folder = tempfile::tempdir().unwrap();
        let [killed, first, second] = [0, 1, 2].map(|rank| task(folder.path(), rank));
        let mark = killed.mark("started", 0);
        fs::write(&mark, "another-host 1").unwrap();
        assert_eq!(finished([first], 0), [Turn::Earlier]);
        fs::write(&mark, format!("{} 999999999", host())).unwrap();
        assert_eq!(finished([second], 1), [last(0, 2, &[])]);
    }

    #[test]
    fn rank_that_was_started_again_runs() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, third] = [0, 1, 2].map(|rank| task(folder.path(), rank));
        assert_eq!(finished([first, second], 0), [Turn::Earlier, Turn::Earlier]);
        let again = task(folder.path(), 0);
        assert_eq!(finished([third], 2), [Turn::Earlier]);
        assert_eq!(finished([again], 2), [last(0, 3, &[])]);
    }
}
