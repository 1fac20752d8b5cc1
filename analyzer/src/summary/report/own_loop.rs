//! Compiled programs that may train: calls show a loop over data, and nothing that shows another purpose.

use serde::{Deserialize, Serialize};

use crate::catalog::Process;
use crate::summary::count::counted::ProcessCount;
use crate::summary::tree::{has_other_purpose, is_installed, may_train};

/// The folder of a compiled program that may train: its main thread reads data in a loop, and it does nothing that shows
/// another purpose.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum OwnLoop {
    /// It was started by a path, like a program that its user built: `./train`.
    Local,
    /// Its folder is one of installed programs.
    Installed,
}

/// Programs of any kind read some files between other work: fewer pauses than this show no loop.
const ROUNDS_MIN: u64 = 20;

/// A program that writes at least one byte for this many bytes that it reads copies or converts data.
const WRITING_PART: u64 = 10;

impl OwnLoop {
    /// Returns the folder of such a program; `None` for scripts, known tools, and programs that serve others or write much.
    pub(super) fn of(process: &Process, count: &ProcessCount, bytes: (u64, u64)) -> Option<OwnLoop> {
        let program = process.program.as_deref().unwrap_or_default();
        let is_known = may_train(program) || has_other_purpose(program);
        let thread = count.threads.get(&process.pid).filter(|_| !is_known && process.rank.is_none())?;
        let rounds = thread.data_reads.pauses;
        let talks = thread.taken.max(thread.handed) >= rounds;
        let (read, written) = bytes;
        let is_loop = rounds >= ROUNDS_MIN && !talks && WRITING_PART * written < read;
        let first = process.command.as_deref().and_then(|command| command.split_whitespace().next());
        is_loop.then(|| if is_installed(first.unwrap_or_default()) { OwnLoop::Installed } else { OwnLoop::Local })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::count::counted::{DataReads, ThreadCount};

    fn found(program: &str, command: &str, change: impl Fn(&mut ThreadCount)) -> Option<OwnLoop> {
        let [program, command] = [program, command].map(|text| Some(text.to_string()));
        let process = Process { pid: 1, program, command, ..Process::default() };
        let data_reads = DataReads { from_ts: 0, to_ts: 1_000, read_ns: 700, pauses: 50 };
        let mut thread = ThreadCount { data_reads, ..ThreadCount::default() };
        change(&mut thread);
        let mut count = ProcessCount::default();
        count.threads.insert(1, Box::new(thread));
        OwnLoop::of(&process, &count, (1_000, thread.events))
    }

    #[test]
    fn a_compiled_program_that_reads_in_a_loop_may_train() {
        assert_eq!(found("train", "./train data", |_| {}), Some(OwnLoop::Local));
        assert_eq!(found("train", "/home/me/net/train", |_| {}), Some(OwnLoop::Local));
        assert_eq!(found("train", "train", |_| {}), Some(OwnLoop::Installed));
        assert_eq!(found("cc1plus", "/usr/lib/gcc/cc1plus", |_| {}), None);
        assert_eq!([found("tar", "./tar", |_| {}), found("python3", "./python3", |_| {})], [None, None]);
    }

    #[test]
    fn a_program_that_copies_serves_or_hardly_loops_has_another_purpose() {
        let of = |change: fn(&mut ThreadCount)| found("train", "./train", change);
        // The number of events stands for the bytes that it wrote.
        assert_eq!(of(|thread| thread.events = 100), None);
        assert_eq!([of(|thread| thread.taken = 50), of(|thread| thread.handed = 50)], [None, None]);
        assert_eq!(of(|thread| thread.data_reads.pauses = 19), None);
        assert_eq!(of(|thread| thread.taken = 9), Some(OwnLoop::Local));
    }
}
