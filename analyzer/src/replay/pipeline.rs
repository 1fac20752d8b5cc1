//! An input pipeline as measured: passes over a loader, its readers, batches and the steps of the trainer.

use serde::{Deserialize, Serialize};

/// Kinds of work. Each has a separate rule for concurrent work of several readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Sleeping, network, other programs: its duration does not depend on other readers.
    Fixed,
    /// Storage: slowed by other storage calls.
    Io,
    /// A lock: one reader at a time.
    Lock,
    /// Computing: shares the CPUs.
    Cpu,
    /// Serializing and copying into shared memory: also shares the CPUs.
    Hand,
}

pub const KINDS: usize = Kind::Hand as usize + 1;

pub const ALL_KINDS: [Kind; KINDS] = [Kind::Fixed, Kind::Io, Kind::Lock, Kind::Cpu, Kind::Hand];

/// Nanoseconds by kind of work.
pub type Work = [f64; KINDS];

/// The order in which batches reach the trainer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Step `k` needs batch `k`; batches that arrive early are stored.
    #[default]
    InOrder,
    /// A step takes the first batch that arrives.
    Any,
}

/// How batches are assigned to readers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Dispatch {
    /// Each reader has a queue, served round-robin.
    #[default]
    RoundRobin,
    /// All readers take from one queue.
    Shared,
}

/// One batch, and the step of the same number.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The reader that made it, as an index into the readers of the pass.
    pub reader: u32,
    /// Its production, by kind of work.
    pub work: Work,
    /// The measured duration of its production.
    pub made_ns: f64,
    /// From the request's dispatch to its arrival at the reader.
    pub ask_ns: f64,
    /// The reader's work between the previous batch, or the request, and the production.
    pub turn_ns: f64,
    /// From the end of the production until the message is complete.
    pub ship_ns: f64,
    /// The trainer's time to receive a complete message, including waits for the reader's interpreter lock.
    pub take_ns: f64,
    pub gil_ns: f64,
    /// The remaining time of `next()`.
    pub return_ns: f64,
    /// The step after the batch: CPU time of the trainer, and waiting.
    pub think_cpu_ns: f64,
    pub think_ns: f64,
    /// Part of that waiting that is for the trainer's own threads, programs or files: a faster device does not shorten
    /// it.
    pub own_ns: f64,
    /// Measured duration of `next()` in the step with this number.
    pub wait_ns: f64,
}

impl Batch {
    /// Returns the measured duration of the step with this number, including its wait.
    pub fn step_ns(&self) -> f64 {
        self.wait_ns + self.think_cpu_ns + self.think_ns
    }
}

/// The start of a reader.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub struct Start {
    /// From the start of the pass until the process exists.
    pub created_ns: f64,
    /// Its work until it can take a request.
    pub work: Work,
    /// Additional cost of its first batch.
    pub first_ns: f64,
}

/// One pass over a loader.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Pass {
    /// One per reader. Readers that existed before the pass have an empty start.
    pub starts: Vec<Start>,
    /// `true` if the readers were created for this pass.
    pub is_fresh: bool,
    /// Number of requests sent before the first batch was received.
    pub requested: usize,
    /// The trainer's time from the start of the pass until the first requests.
    pub lead_ns: f64,
    pub batches: Vec<Batch>,
    /// The trainer's time to find that there are no more batches, and to stop the readers.
    pub tail_ns: f64,
    /// Time from there to the next pass.
    pub gap_ns: f64,
}

impl Pass {
    /// Returns the number of requests in flight per reader.
    pub fn prefetch(&self) -> usize {
        self.requested.div_ceil(self.starts.len().max(1)).max(1)
    }
}

/// A measured pipeline with the conditions of its run.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Pipeline {
    pub passes: Vec<Pass>,
    pub order: Order,
    pub dispatch: Dispatch,
    /// CPUs available to the processes, and the quota of their cgroup in CPUs.
    pub cpus: Option<f64>,
    pub quota: Option<f64>,
    /// The average number of CPUs that processes outside the trace kept busy; zero if unknown.
    #[serde(default)]
    pub taken_cpus: f64,
    /// `true` if it is known whether a quota exists.
    pub is_quota_known: bool,
    /// `true` if the kernel's counters show the CPU time of the readers.
    pub is_counted: bool,
    /// `true` if spans show when the trainer waits.
    pub by_spans: bool,
    /// Storage calls: the mean number of readers in storage calls during the call, including its own, and its duration.
    pub reads: Vec<(f64, f64)>,
    /// Share of the readers' CPU time that calls on files took.
    #[serde(default)]
    pub in_calls: f64,
    /// Share of the readers' computing in which they were ready to run but no CPU was free.
    pub starved: f64,
    /// The time in which readers waited for a server, another process or a program they had started, summed over readers.
    #[serde(default)]
    pub served_ns: f64,
    /// Number of pipes or sockets through which batches arrived; the trainer reads from one after the other.
    #[serde(default)]
    pub channels: usize,
    /// Batches whose readers mapped files and had major page faults.
    pub mapped: usize,
    /// Measured duration of the training, and its wait.
    pub measured_ns: f64,
    pub wait_ns: f64,
}

impl Pipeline {
    pub fn batches(&self) -> usize {
        self.passes.iter().map(|pass| pass.batches.len()).sum()
    }

    pub fn readers(&self) -> usize {
        self.passes.iter().map(|pass| pass.starts.len()).max().unwrap_or(0)
    }

    pub fn prefetch(&self) -> usize {
        self.passes.iter().map(Pass::prefetch).max().unwrap_or(1)
    }

    /// Returns the number of CPUs that may run at the same time; no limit if unknown.
    pub fn cores(&self) -> f64 {
        let [cpus, quota] = [self.cpus, self.quota].map(|limit| limit.unwrap_or(f64::INFINITY));
        cpus.min(quota)
    }

    /// Returns the measured time of all passes.
    pub fn passes_ns(&self) -> f64 {
        let steps = |pass: &Pass| pass.batches.iter().map(Batch::step_ns).sum::<f64>();
        self.passes.iter().map(|pass| pass.lead_ns + steps(pass) + pass.tail_ns + pass.gap_ns).sum()
    }

    /// Returns the measured wait in all passes.
    pub fn waited_ns(&self) -> f64 {
        let waits = |pass: &Pass| pass.batches.iter().map(|batch| batch.wait_ns).sum::<f64>();
        self.passes.iter().map(|pass| pass.lead_ns + waits(pass) + pass.tail_ns).sum()
    }

    /// Returns the work of all batches.
    pub fn work(&self) -> Work {
        let all = self.passes.iter().flat_map(|pass| &pass.batches);
        all.fold([0.0; KINDS], |sum, batch| std::array::from_fn(|kind| sum[kind] + batch.work[kind]))
    }

    /// Returns a part of a long pipeline: a block from the middle of each pass, with at most `most` batches in total.
    pub fn sample(&self, most: usize) -> Option<Pipeline> {
        let all = self.batches();
        if all <= most {
            return None;
        }
        let mut sampled = self.clone();
        if sampled.passes.len() > MOST_PASSES {
            let stride = sampled.passes.len().div_ceil(MOST_PASSES);
            let mut number = 0;
            sampled.passes.retain(|_| {
                number += 1;
                (number - 1) % stride == 0
            });
        }
        let share = most as f64 / sampled.batches() as f64;
        for pass in sampled.passes.iter_mut().filter(|_| share < 1.0) {
            let keep = ((pass.batches.len() as f64 * share) as usize).max(1);
            let from = (pass.batches.len() - keep) / 2;
            pass.batches = pass.batches[from..from + keep].to_vec();
        }
        Some(sampled)
    }
}

/// Maximum number of passes in a sampled pipeline.
const MOST_PASSES: usize = 50;
