//! Process tree and process names: `train.py` instead of `python3`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, Process};
pub use crate::process_tree::{above, parents};

/// A thread of a process image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct LaneId {
    pub proc: u32,
    pub tid: i32,
}

/// Parents of processes, if known before the trace is read.
pub struct Ancestry {
    /// The image that started each process.
    parents: Vec<Option<u32>>,
    /// The main thread of each process.
    firsts: Vec<i32>,
    /// The first process of each process's group.
    groups: Vec<u32>,
}

impl Ancestry {
    pub fn new(catalog: &Catalog) -> Ancestry {
        let processes = catalog.processes();
        let parents = parents(&processes);
        let groups = (0..processes.len() as u32).map(|proc| group(&processes, &parents, proc)).collect();
        Ancestry { parents, firsts: processes.iter().map(|process| process.pid).collect(), groups }
    }

    /// Returns the group of a process; see the function [`group`].
    pub fn group(&self, proc: u32) -> u32 {
        self.groups.get(proc as usize).copied().unwrap_or(proc)
    }

    /// Returns a process's parent, grandparent and so on.
    pub fn above(&self, proc: u32) -> Vec<u32> {
        above(&self.parents, proc)
    }

    pub fn is_below(&self, proc: u32, ancestor: u32) -> bool {
        proc == ancestor || self.above(proc).contains(&ancestor)
    }

    /// Returns the lanes whose waits may be for this one: the lane itself, the main threads of its process and of its
    /// ancestors, and further threads there that record waits.
    pub fn partners(&self, lane: LaneId, waiters: &BTreeSet<LaneId>) -> Vec<LaneId> {
        let family: Vec<u32> = [lane.proc].into_iter().chain(self.above(lane.proc)).collect();
        let first = |&proc: &u32| Some(LaneId { proc, tid: *self.firsts.get(proc as usize)? });
        let waiting = waiters.iter().filter(|waiter| family.contains(&waiter.proc)).copied();
        let found: BTreeSet<LaneId> = family.iter().filter_map(first).chain(waiting).chain([lane]).collect();
        found.into_iter().collect()
    }
}

/// Returns the group of a process: the outermost process with its rank among itself and its ancestors, or the outermost
/// of all if none has a rank. A process without a rank inherits the rank of its nearest ancestor.
pub fn group(processes: &[Process], parents: &[Option<u32>], proc: u32) -> u32 {
    let chain: Vec<u32> = [proc].into_iter().chain(above(parents, proc)).collect();
    let rank = |proc: &&u32| processes[**proc as usize].rank;
    let own = chain.iter().find_map(|proc| rank(&proc));
    let of_it = |proc: &&u32| own.is_none() || rank(proc) == own;
    chain.iter().rfind(of_it).copied().unwrap_or(proc)
}

/// Returns the names of processes: workers are numbered per parent, others are named after their program or script.
pub fn names(processes: &[Process]) -> Vec<String> {
    let parents = parents(processes);
    let mut names: Vec<String> = processes.iter().map(called).collect();
    let mut workers: Vec<u32> =
        (0..processes.len() as u32).filter(|&proc| is_worker(processes, &parents, proc)).collect();
    workers.sort_by_key(|&proc| processes[proc as usize].start_ts);
    let mut numbers: BTreeMap<Option<u32>, usize> = BTreeMap::new();
    for proc in workers {
        let maker = above(&parents, proc).into_iter().find(|&maker| !is_fork_server(processes, &parents, maker));
        let number = numbers.entry(maker).or_default();
        names[proc as usize] = format!("worker {number}");
        *number += 1;
    }
    names
}

/// Returns `true` if a process is a fork of its parent that did not exec, or Python's substitute for such a fork.
pub fn is_worker(processes: &[Process], parents: &[Option<u32>], proc: u32) -> bool {
    let process = &processes[proc as usize];
    let Some(command) = process.command.as_deref() else { return false };
    let parent = parents[proc as usize].and_then(|parent| processes[parent as usize].command.as_deref());
    let first = base(command.split_whitespace().next().unwrap_or_default());
    // A shell's fork is about to exec another program.
    let is_copy = parent == Some(command) && process.ended != "exec" && !is_shell(first);
    is_copy || command.contains(SPAWNED)
}

/// Returns `true` if a process only creates workers for another one.
pub fn is_fork_server(processes: &[Process], parents: &[Option<u32>], proc: u32) -> bool {
    let is_its = |command: &str| command.contains(FORK_SERVER);
    processes[proc as usize].command.as_deref().is_some_and(is_its) && !is_worker(processes, parents, proc)
}

/// Programs that run training. Other programs that receive messages from their own forks, such as rsync and PostgreSQL,
/// do not train.
const TRAINING: [&str; 3] = ["python", "pypy", "julia"];

/// Returns `true` if a program may train without spans.
pub fn may_train(program: &str) -> bool {
    TRAINING.iter().any(|known| program.starts_with(known))
}

/// Programs that start other programs and wait for them.
const SHELLS: [&str; 11] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "make", "gmake", "ninja", "xargs"];

/// Returns `true` if a program only starts other programs.
pub fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program)
}

/// Programs with threads of their own that read, compress or copy.
const TOOLS: [&str; 24] = [
    "zstd", "pzstd", "xz", "pixz", "lzma", "gzip", "pigz", "bzip2", "pbzip2", "lbzip2", "lz4", "brotli", "tar",
    "bsdtar", "zip", "unzip", "7z", "7za", "7zz", "rsync", "sort", "git", "ffmpeg", "ld",
];

/// Returns `true` if a program is known to process files, not to train.
pub fn is_tool(program: &str) -> bool {
    TOOLS.contains(&program)
}

/// Programs that read files and work on them: they print, search, check, compile, or answer queries.
const READERS: [&str; 33] = [
    "cat",
    "cp",
    "mv",
    "dd",
    "tee",
    "wc",
    "head",
    "tail",
    "cmp",
    "diff",
    "grep",
    "rg",
    "awk",
    "gawk",
    "mawk",
    "sed",
    "find",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "b3sum",
    "cc1",
    "cc1plus",
    "rustc",
    "postgres",
    "mysqld",
    "mariadbd",
    "mongod",
    "redis-server",
    "sqlite3",
    "duckdb",
    "fsck",
];

/// Returns `true` if a program is known to have another purpose than training.
pub fn has_other_purpose(program: &str) -> bool {
    is_tool(program) || is_shell(program) || READERS.contains(&program)
}

/// Folders of installed programs, in any place.
const FOLDERS: [&str; 6] = ["bin", "sbin", "lib", "lib64", "libexec", "opt"];

/// Returns `true` if a command names an installed program: without a folder, or in one of those for them.
pub fn is_installed(command: &str) -> bool {
    let mut folders: Vec<&str> = command.split('/').collect();
    folders.pop();
    let is_hidden = |folder: &&str| folder.len() > 1 && folder.starts_with('.') && *folder != "..";
    let is_its = |folder: &&str| FOLDERS.contains(folder) || is_hidden(folder);
    folders.is_empty() || command.starts_with('/') && folders.iter().any(is_its)
}

/// A part of the command line of a process that Python spawned, which imports everything again.
pub const SPAWNED: &str = "multiprocessing.spawn";

/// A part of the command line of a process that creates workers for another process.
const FORK_SERVER: &str = "multiprocessing.forkserver";

/// Programs that are named after the script they run.
const INTERPRETERS: [&str; 10] = ["python", "pypy", "ruby", "perl", "node", "bash", "sh", "dash", "Rscript", "julia"];

/// Interpreter options that take an argument.
const WITH_A_WORD: [&str; 5] = ["-X", "-W", "-O", "-o", "--require"];

/// The processes that Python's multiprocessing starts, by a part of their command line.
const HELPERS: [(&str, &str); 3] = [
    (FORK_SERVER, "fork server"),
    ("multiprocessing.resource_tracker", "resource tracker"),
    (SPAWNED, "spawned process"),
];

/// Returns the name of a process: its script or module, or else its program.
pub fn called(process: &Process) -> String {
    let program = process.program.as_deref().unwrap_or_default();
    let Some(command) = process.command.as_deref() else { return program.into() };
    if let Some((_, name)) = HELPERS.iter().find(|(piece, _)| command.contains(piece)) {
        return name.to_string();
    }
    let mut words = command.split_whitespace();
    let first = words.next().map_or(program, base);
    let is_interpreter = |name: &str| INTERPRETERS.iter().any(|known| is_version_of(name, known));
    if !is_interpreter(first) && !is_interpreter(program) {
        return program.into();
    }
    while let Some(word) = words.next() {
        match word {
            "-m" => return words.next().unwrap_or(program).into(),
            "-c" | "-e" | "-" => return format!("{program} {word}"),
            _ if WITH_A_WORD.contains(&word) => drop(words.next()),
            _ if word.starts_with('-') => {}
            script => return base(script.trim_matches('\'')).into(),
        }
    }
    program.into()
}

/// Returns `true` for `python3.11` and `python`, for example.
fn is_version_of(name: &str, program: &str) -> bool {
    name.strip_prefix(program).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn base(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(program: &str, command: &str) -> Process {
        Process { program: Some(program.into()), command: Some(command.into()), ..Process::default() }
    }

    #[test]
    fn programs_that_somebody_builds_are_started_by_a_path() {
        let installed =
            ["train", "/usr/bin/train", "/opt/net/train", "/home/me/.cargo/bin/rustc", "/home/me/env/bin/train"];
        assert!(installed.into_iter().all(is_installed));
        assert!(
            ["./train", "../train", "bin/train", "/home/me/train"].into_iter().all(|command| !is_installed(command))
        );
    }

    #[test]
    fn processes_are_named_after_their_script() {
        let names = [
            ("python3.11", "/usr/bin/python3 -u -X dev /data/jobs/train.py --epochs 3", "train.py"),
            ("python3", "python3 -m torch.distributed.run train.py", "torch.distributed.run"),
            ("python3", "python3 -c print(1)", "python3 -c"),
            ("python3", "python3", "python3"),
            ("python3", "python3 -c from multiprocessing.forkserver import main; main(3)", "fork server"),
            ("bash", "bash ./run.sh", "run.sh"),
            ("dd", "dd if=/dev/zero of=a", "dd"),
            ("shred", "shred -n 1 file", "shred"),
        ];
        for (program, command, name) in names {
            assert_eq!(called(&process(program, command)), name, "{command}");
        }
        assert_eq!(called(&Process { program: Some("tar".into()), ..Process::default() }), "tar");
    }

    #[test]
    fn workers_have_the_number_of_their_start() {
        let process = |pid, ppid, start, command: &str| Process {
            pid,
            ppid: Some(ppid),
            start_ts: Some(start),
            ..process("python3", command)
        };
        let server = "python3 -c 'from multiprocessing.forkserver import main; main()'";
        let processes = [
            process(1, 0, 0, "python3 train.py"),
            process(3, 1, 20, "python3 train.py"),
            process(2, 1, 10, "python3 train.py"),
            process(4, 1, 30, server),
            process(5, 4, 40, server),
            process(6, 1, 50, "python3 -c 'from multiprocessing.spawn import spawn_main; spawn_main()'"),
            process(7, 1, 60, "python3 -m tarfile -l x"),
        ];
        assert_eq!(
            names(&processes),
            ["train.py", "worker 1", "worker 0", "fork server", "worker 2", "worker 3", "tarfile"]
        );
        let parents = parents(&processes);
        let servers = (0..7).filter(|&proc| is_fork_server(&processes, &parents, proc));
        assert_eq!(servers.collect::<Vec<_>>(), [3], "its worker has the same command line");
    }

    #[test]
    fn a_group_is_a_rank_with_those_below_it() {
        let process = |rank| Process { rank, ..Process::default() };
        // A launcher starts two ranks with one worker each; the second rank's worker knows its rank.
        let processes = [process(None), process(Some(0)), process(Some(1)), process(None), process(Some(1))];
        let parents = [None, Some(0), Some(0), Some(1), Some(2)];
        let groups: Vec<u32> = (0..5).map(|proc| group(&processes, &parents, proc)).collect();
        assert_eq!(groups, [0, 1, 2, 1, 2]);
    }
}
