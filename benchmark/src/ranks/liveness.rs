//! Watches the processes of ranks that a launcher started. For processes on this host, it can check whether they are alive. For
//! other hosts, only their messages are known.

use crate::ranks::star::Peers;
use crate::system::processes;
use crate::system::random::mixed;

/// A process of a rank, and the host on which its pid is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub number: u32,
    pub machine: String,
}

impl Process {
    pub fn own() -> Process {
        Process { number: std::process::id(), machine: machine() }
    }

    /// Returns the host as a number that is sent along with others.
    pub fn machine_number(&self) -> f64 {
        let name: Vec<u64> = self.machine.bytes().map(u64::from).collect();
        (mixed(&name) >> 12) as f64
    }
}

/// Identifies this boot of this host and the pid namespace of this process.
fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), space.display())
}

/// The pids of this host's processes, by rank.
#[derive(Debug, Clone, Default)]
pub struct Processes(Vec<Option<u32>>);

impl Processes {
    /// Makes sleeps end early when one of these processes is gone.
    pub fn watched(numbers: Vec<Option<u32>>) -> Processes {
        processes::watch_processes(numbers.iter().flatten().copied().collect());
        Processes(numbers)
    }

    pub fn of(&self, rank: u64) -> Option<u32> {
        self.0.get(rank as usize).copied().flatten()
    }
}

impl Peers for Processes {
    fn has_ended(&mut self, rank: u64) -> bool {
        self.of(rank).is_some_and(|process| !processes::lives(process))
    }

    fn code_of(&mut self, _: u64) -> Option<i32> {
        None
    }

    fn lost(&mut self) -> Option<u64> {
        if !processes::lost_child() {
            return None;
        }
        (0..self.0.len() as u64).find(|rank| self.has_ended(*rank))
    }
}
