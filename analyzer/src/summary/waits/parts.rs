//! Parts of a wait: the activities during it, as exact sums of nanoseconds.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One cause of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Calls on stored files.
    Storage,
    /// Off the CPU outside calls, while pages were read from storage.
    PageFaults,
    /// Calls on network sockets, and name lookups.
    Network,
    /// CPU time of the thread that made the batch, outside file calls.
    Cpu,
    /// CPU time in file calls, which were served from memory.
    FileCalls,
    /// Ready to run, but no CPU was free.
    NoCpu,
    /// Python's global interpreter lock.
    Gil,
    /// A lock that another thread or process held.
    Lock,
    Sleep,
    /// A program that the reader started and waited for.
    Child,
    /// Serialization, pipes, shared memory, passing descriptors.
    HandOver,
    /// The thread that takes batches worked in the loader itself: it chose samples.
    Sampling,
    /// Until readers had started.
    Start,
    /// The readers that would have made the batch had ended.
    Dead,
    /// The reader that had to make the batch was still alive, but made no call any more until the run ended.
    NeverSent,
    /// A file did not exist yet, and the trace does not show who made it.
    NoFile,
    /// Readers were idle until they received a request.
    NotAsked,
    /// Between calls, if the trace has no CPU times: computing, page faults or waiting for a CPU.
    OutsideCalls,
    /// The thread that made the batch waited for a GPU.
    Device,
    /// The GPU computed during the wait, which therefore cost nothing.
    Hidden,
    /// The trace does not show what ended the wait.
    Unknown,
    /// Blocked for input. Only a step of a timeline, never a part of an explained wait.
    Idle,
}

pub const PARTS: usize = Part::Idle as usize + 1;

impl Part {
    /// All causes that an explained wait can have.
    pub const CAUSES: [Part; PARTS - 1] = [
        Part::Storage,
        Part::PageFaults,
        Part::Network,
        Part::Cpu,
        Part::FileCalls,
        Part::NoCpu,
        Part::Gil,
        Part::Lock,
        Part::Sleep,
        Part::Child,
        Part::HandOver,
        Part::Sampling,
        Part::Start,
        Part::Dead,
        Part::NeverSent,
        Part::NoFile,
        Part::NotAsked,
        Part::OutsideCalls,
        Part::Device,
        Part::Hidden,
        Part::Unknown,
    ];

    /// Returns its name in tables and JSON.
    pub fn name(self) -> &'static str {
        [
            "storage",
            "page-faults",
            "network",
            "cpu",
            "file-calls",
            "no-cpu",
            "gil",
            "lock",
            "sleep",
            "child",
            "hand-over",
            "sampling",
            "start",
            "dead-reader",
            "never-sent",
            "missing-file",
            "not-asked",
            "outside-calls",
            "gpu",
            "gpu-busy",
            "unknown",
            "idle",
        ][self as usize]
    }
}

/// Nanoseconds by part.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Parts(pub [i64; PARTS]);

impl Parts {
    pub fn of(part: Part, ns: i64) -> Parts {
        let mut parts = Parts::default();
        parts.0[part as usize] = ns;
        parts
    }

    pub fn get(&self, part: Part) -> i64 {
        self.0[part as usize]
    }

    pub fn add(&mut self, part: Part, ns: i64) {
        self.0[part as usize] += ns;
    }

    pub fn sum(&self) -> i64 {
        self.0.iter().sum()
    }

    /// Removes one of the parts.
    pub fn without(mut self, part: Part) -> Parts {
        self.0[part as usize] = 0;
        self
    }

    /// Returns the time in which data were fetched.
    pub fn fetched(&self) -> i64 {
        [Part::Storage, Part::Network, Part::PageFaults].iter().map(|part| self.get(*part)).sum()
    }

    /// Moves what is in one part to another.
    pub fn relabel(mut self, from: Part, to: Part) -> Parts {
        let ns = std::mem::take(&mut self.0[from as usize]);
        self.0[to as usize] += ns;
        self
    }

    /// Returns the same proportions with another sum, in whole numbers: the remainder of rounding goes to the largest
    /// fractions, and to the first of equal ones. `None` if all parts are zero.
    pub fn scaled(&self, sum: i64) -> Option<Parts> {
        let own: i128 = self.0.iter().map(|&ns| ns.max(0) as i128).sum();
        if own == 0 || sum < 0 {
            return (sum == 0).then(Parts::default);
        }
        let mut parts = Parts::default();
        let mut fractions: [(i128, usize); PARTS] = [(0, 0); PARTS];
        for (i, &ns) in self.0.iter().enumerate() {
            let exact = ns.max(0) as i128 * sum as i128;
            parts.0[i] = (exact / own) as i64;
            fractions[i] = (-(exact % own), i);
        }
        fractions.sort_unstable();
        let left = (sum - parts.sum()) as usize;
        fractions[..left].iter().for_each(|&(_, i)| parts.0[i] += 1);
        Some(parts)
    }

    /// Returns the cause with the most time.
    pub fn largest(&self) -> Part {
        Part::CAUSES.into_iter().rev().max_by_key(|&part| self.get(part)).unwrap_or(Part::Unknown)
    }
}

/// Serializes the parts that took any time, by name.
impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let some = Part::CAUSES.into_iter().filter(|part| self.get(*part) != 0);
        some.map(|part| (part.name(), self.get(part))).collect::<BTreeMap<_, _>>().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Parts, D::Error> {
        let by_name = BTreeMap::<String, i64>::deserialize(deserializer)?;
        let part = |part: Part| Parts::of(part, by_name.get(part.name()).copied().unwrap_or(0));
        Ok(Part::CAUSES.into_iter().fold(Parts::default(), |sum, of| sum + part(of)))
    }
}

impl Add for Parts {
    type Output = Parts;

    fn add(mut self, other: Parts) -> Parts {
        self += other;
        self
    }
}

impl AddAssign for Parts {
    fn add_assign(&mut self, other: Parts) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }
}

impl Sub for Parts {
    type Output = Parts;

    fn sub(mut self, other: Parts) -> Parts {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own -= other);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_parts_have_the_sum_that_was_asked_for() {
        let parts = Parts::of(Part::Storage, 1) + Parts::of(Part::Cpu, 1) + Parts::of(Part::Lock, 1);
        for sum in [0, 1, 2, 3, 100, 1_000_000_007] {
            assert_eq!(parts.scaled(sum).unwrap().sum(), sum);
        }
        assert_eq!(parts.scaled(100).unwrap().0[..4], [34, 0, 0, 33]);
        assert_eq!(Parts::default().scaled(5), None);
    }

    #[test]
    fn the_largest_part_comes_first_of_equals() {
        assert_eq!((Parts::of(Part::Cpu, 5) + Parts::of(Part::Storage, 5)).largest(), Part::Storage);
        assert_eq!(Parts::of(Part::Unknown, 5).largest(), Part::Unknown);
    }
}
