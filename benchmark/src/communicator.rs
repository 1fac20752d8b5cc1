//! Ranks talking to each other. One operation is enough: everyone gives some bytes and gets everyone's.
//!
//! [`Single`] is one rank alone; [`Local`] is several processes of this machine around rank 0. A message-passing library
//! is another implementation of the same trait.

use crate::failure::{Failure, Kind, Outcome};
use crate::system;
use crate::terminal;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub trait Communicator {
    fn rank(&self) -> u64;
    fn size(&self) -> u64;

    /// Gives `bytes` to all ranks; returns what each gave, by rank.
    fn exchange(&mut self, bytes: &[u8]) -> Outcome<Vec<Vec<u8>>>;

    /// Returns when every rank has come here.
    fn barrier(&mut self) -> Outcome<()> {
        self.exchange(&[]).map(drop)
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

/// A star of sockets: rank 0 collects, then tells all.
pub struct Local {
    rank: u64,
    size: u64,
    /// Rank 0: to ranks 1, 2, ...; the others: to rank 0.
    streams: Vec<UnixStream>,
    children: Vec<libc::pid_t>,
}

/// After this long rank 0 says which rank it is waiting for.
const PATIENCE: Duration = Duration::from_secs(60);

impl Local {
    /// Forks `size - 1` times; every process returns from here, each with its own rank. `body` runs in the children.
    pub fn spawn(size: u64, body: &dyn Fn(Local) -> i32) -> io::Result<Local> {
        let (mut streams, mut children) = (Vec::new(), Vec::new());
        for rank in 1..size {
            let (ours, theirs) = UnixStream::pair()?;
            streams.push(ours);
            let child = Local { rank, size, streams: vec![theirs], children: Vec::new() };
            children.push(system::fork(|| {
                // Only rank 0 holds these, so that its end is seen by all.
                streams.clear();
                body(child)
            })?);
        }
        Ok(Local { rank: 0, size, streams, children })
    }

    /// Rank 0 waits for the others to end; the first exit code that is not zero.
    pub fn join(&mut self) -> i32 {
        // Whoever still waits for rank 0 learns that it is through. Closing would not do: its writers or workers may hold copies.
        for stream in self.streams.drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let codes: Vec<i32> = self.children.drain(..).map(system::wait).collect();
        codes.into_iter().find(|code| *code != 0).unwrap_or(0)
    }

    fn lost(rank: u64, error: &io::Error) -> Failure {
        if system::interrupted() {
            return Failure::interrupted();
        }
        Failure::new(Kind::System, format!("rank {rank} ended before the others ({error})"))
    }

    fn collect(&mut self, own: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        let mut all = vec![own.to_vec()];
        for (place, stream) in self.streams.iter_mut().enumerate() {
            let rank = place as u64 + 1;
            while !system::readable_within(stream, PATIENCE) && !system::interrupted() {
                terminal::warn(format_args!("still waiting for rank {rank} at a barrier"));
            }
            all.push(receive(stream).map_err(|error| Local::lost(rank, &error))?);
        }
        Ok(all)
    }
}

fn send(stream: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    let mut message = (bytes.len() as u64).to_le_bytes().to_vec();
    message.extend(bytes);
    stream.write_all(&message)
}

fn receive(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Communicator for Local {
    fn rank(&self) -> u64 {
        self.rank
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn exchange(&mut self, bytes: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        if self.rank > 0 {
            let root = &mut self.streams[0];
            let talk = send(root, bytes).and_then(|()| (0..self.size).map(|_| receive(root)).collect());
            return talk.map_err(|error| Local::lost(0, &error));
        }
        let all = self.collect(bytes)?;
        for (place, stream) in self.streams.iter_mut().enumerate() {
            for part in &all {
                send(stream, part).map_err(|error| Local::lost(place as u64 + 1, &error))?;
            }
        }
        Ok(all)
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
