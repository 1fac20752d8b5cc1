//! Communication between ranks. One operation is enough: each rank gives some bytes and receives the bytes of every
//! rank.
//!
//! [`Single`] is one rank alone. [`crate::ranks::star::Star`] is several processes around rank 0, started by this
//! program (`child_ranks`) or by a launcher (`socket_ranks`).

use crate::failure::{Failure, Outcome};

pub trait Communicator {
    fn rank(&self) -> u64;
    fn size(&self) -> u64;

    /// Sends `bytes` to all ranks; returns the bytes of each, by rank.
    fn exchange(&mut self, bytes: &[u8]) -> Outcome<Vec<Vec<u8>>>;

    /// Checks that all other ranks are alive, as far as that is known without contacting them.
    fn check(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// Returns when every rank has arrived.
    fn barrier(&mut self) -> Outcome<()> {
        self.exchange(&[]).map(drop)
    }

    /// Ends a run that has failed. Returns the cause, as far as it can be determined, and the final bytes of each
    /// surviving rank; `None` for a rank that is gone or cannot be reached.
    fn conclude(&mut self, failure: Failure, bytes: &[u8]) -> (Failure, Vec<Option<Vec<u8>>>) {
        let own = |rank| (rank == self.rank()).then(|| bytes.to_vec());
        (failure, (0..self.size()).map(own).collect())
    }

    /// Returns the outcome that really ended this rank, which may have been stopped because another rank is gone.
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

/// Returns the numbers of all ranks, by rank.
pub fn numbers(all: &[Vec<u8>]) -> Vec<Vec<f64>> {
    let number = |eight: &[u8; 8]| f64::from_le_bytes(*eight);
    all.iter().map(|bytes| bytes.as_chunks::<8>().0.iter().map(number).collect()).collect()
}

pub fn as_bytes(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
