//! A measured input pipeline: passes over a loader, the loader's readers and batches, and the trainer's steps.

use serde::{Deserialize, Serialize};

/// Kinds of work. Each kind has its own rule for several readers that do it at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Sleeping, network, other programs: the duration does not depend on other readers.
    Fixed,
    /// Storage calls: other storage calls slow them down.
    Io,
    /// Work under a lock: one reader at a time.
    Lock,
    /// Computing: readers share the CPUs.
    Cpu,
    /// Serializing and copying into shared memory: readers share the CPUs here, too.
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
    /// Each reader has its own queue, and requests go to the queues in round-robin order.
    #[default]
    RoundRobin,
    /// All readers take from one queue.
    Shared,
}

/// One batch, and the step with the same number.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The reader that made it, as an index into the readers of the pass.
    pub reader: u32,
    /// Its production, by kind of work.
    pub work: Work,
    /// The measured duration of its production.
    pub made_ns: f64,
    /// Time from sending the request to its arrival at the reader.
    pub ask_ns: f64,
    /// The reader's work between the previous batch, or the request, and the production.
    pub turn_ns: f64,
    /// Time from the end of the production until the message is complete.
    pub ship_ns: f64,
    /// The trainer's time to receive a complete message, including waits for the reader's interpreter lock.
    pub take_ns: f64,
    pub gil_ns: f64,
    /// The remaining time of `next()`.
    pub return_ns: f64,
    /// The step after the batch: the trainer's CPU time, and its waiting.
    pub think_cpu_ns: f64,
    pub think_ns: f64,
    /// The part of that waiting that is for the trainer's own threads, programs or files. A faster device does not shorten
    /// this part.
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
    /// Time from the start of the pass until the process exists.
    pub created_ns: f64,
    /// The reader's work until it can take a request.
    pub work: Work,
    /// Additional cost of its first batch.
    pub first_ns: f64,
}

/// One pass over a loader.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Pass {
    /// One start per reader. Readers that existed before the pass have an empty start.
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
    /// Time from the end of this pass to the start of the next one.
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
    /// Number of CPUs available to the processes, and the CPU quota of their cgroup as a number of CPUs.
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
    /// For each storage call, the mean number of readers in storage calls during this call, including the calling reader,
    /// and the duration of the call.
    pub reads: Vec<(f64, f64)>,
    /// Share of the readers' CPU time that was spent in file calls.
    #[serde(default)]
    pub in_calls: f64,
    /// Share of the readers' computing time in which they were ready to run but had no free CPU.
    pub starved: f64,
    /// Time in which readers waited for a server, another process or a program that they had started; the sum over all
    /// readers.
    #[serde(default)]
    pub served_ns: f64,
    /// Number of pipes or sockets through which batches arrived. The trainer reads from them one after the other.
    #[serde(default)]
    pub channels: usize,
    /// Batches whose readers mapped files and had major page faults.
    pub mapped: usize,
    /// Measured duration of the training, and of the wait in it.
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

    /// Returns the number of CPUs that the processes can use at the same time; infinity if it is unknown.
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
