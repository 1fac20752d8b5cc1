//! Ranks talking to each other. One operation is enough: everyone gives some bytes and gets everyone's.
//!
//! [`Single`] is one rank alone; [`crate::ranks::star::Star`] is several processes around rank 0, whoever started them: this
//! program (`child_ranks`) or a launcher of parallel programs (`socket_ranks`).

use crate::failure::{Failure, Outcome};

pub trait Communicator {
    fn rank(&self) -> u64;
    fn size(&self) -> u64;

    /// Gives `bytes` to all ranks; returns what each gave, by rank.
    fn exchange(&mut self, bytes: &[u8]) -> Outcome<Vec<Vec<u8>>>;

    /// Checks that all others are alive, as far as it is known without asking them.
    fn check(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// Returns when every rank has come here.
    fn barrier(&mut self) -> Outcome<()> {
        self.exchange(&[]).map(drop)
    }

    /// The end of a run that has failed: why, as far as it can be found out, and what the ranks give that are still there, by
    /// rank. None of one that is gone or cannot be asked.
    fn conclude(&mut self, failure: Failure, bytes: &[u8]) -> (Failure, Vec<Option<Vec<u8>>>) {
        let own = |rank| (rank == self.rank()).then(|| bytes.to_vec());
        (failure, (0..self.size()).map(own).collect())
    }

    /// The outcome that really ended this rank: it may have been stopped because another rank is gone.
    fn explained(&mut self, outcome: Outcome<()>) -> Outcome<()> {
        outcome
    }
}

pub struct Single;

impl Communicator for Single {
    fn rank(&self) -> u64 {
        0
    }

    fn size(&self) -> u64 {
        1
    }

    fn exchange(&mut self, bytes: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        Ok(vec![bytes.to_vec()])
    }

    fn barrier(&mut self) -> Outcome<()> {
        Ok(())
    }
}

/// Numbers of all ranks, by rank.
pub fn numbers(all: &[Vec<u8>]) -> Vec<Vec<f64>> {
    let number = |eight: &[u8; 8]| f64::from_le_bytes(*eight);
    all.iter().map(|bytes| bytes.as_chunks::<8>().0.iter().map(number).collect()).collect()
}

pub fn as_bytes(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
