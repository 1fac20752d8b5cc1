//! Ranks that this program forks: processes of this host, children of rank 0.

use crate::failure::Outcome;
use crate::ranks::communicator::Communicator;
use crate::ranks::shared_barrier::SharedBarrier;
use crate::ranks::socket::Socket;
use crate::ranks::star::{Peers, Star, ended};
use crate::ranks::status;
use crate::system::processes;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long ranks have to exit on their own after the run has failed.
const GRACE: Duration = Duration::from_secs(3);

/// The child processes of rank 0, by rank. On other ranks the list is empty.
struct Children(Vec<libc::pid_t>);

impl Children {
    fn of(&self, rank: u64) -> Option<libc::pid_t> {
        self.0.get((rank as usize).checked_sub(1)?).copied()
    }
}

impl Peers for Children {
    fn has_ended(&mut self, rank: u64) -> bool {
        self.of(rank).is_some_and(processes::has_ended)
    }

    fn code_of(&mut self, rank: u64) -> Option<i32> {
        self.of(rank).map(|child| processes::status_of(child, GRACE))
    }

    fn stop(&mut self) -> Duration {
        processes::signal_children(&self.0);
        GRACE
    }

    fn lost(&mut self) -> Option<u64> {
        if !processes::lost_child() {
            return None;
        }
        (1..).zip(&self.0).find(|(_, child)| processes::ended_badly(**child)).map(|(rank, _)| rank)
    }
}

pub struct ChildRanks {
    star: Star,
    children: Vec<libc::pid_t>,
}

impl ChildRanks {
    /// Forks `size - 1` times; every process returns from here, each with its own rank. `body` runs in the children.
    pub fn spawn(size: u64, patience: Duration, body: &dyn Fn(&mut dyn Communicator) -> i32) -> io::Result<ChildRanks> {
        let (mut sockets, mut children) = (Vec::new(), Vec::new());
        let (board, gate) = (status::StatusBoard::new(size)?, SharedBarrier::new(size)?);
        for rank in 1..size {
            let (ours, theirs) = UnixStream::pair()?;
            sockets.push(Socket::Unix(ours));
            let mut child = Star::new(rank, size, vec![Socket::Unix(theirs)], Box::new(Children(Vec::new())), patience);
            child.use_barrier(gate);
            children.push(processes::fork(|| {
                // Only rank 0 keeps these sockets, so that all ranks notice when it exits.
                sockets.clear();
                board.join(rank);
                body(&mut child)
            })?);
        }
        board.join(0);
        processes::watch_children(&children);
        let mut star = Star::new(0, size, sockets, Box::new(Children(children.clone())), patience);
        star.use_barrier(gate);
        Ok(ChildRanks { star, children })
    }

    pub fn communicator(&mut self) -> &mut dyn Communicator {
        &mut self.star
    }

    /// Makes rank 0 wait until all other ranks have exited. If the run has failed, rank 0 stops them, because they may
    /// be far from any barrier.
    pub fn join(mut self, outcome: Outcome<()>) -> Outcome<()> {
        let code = outcome.as_ref().map_or_else(|failure| failure.exit_code(), |()| 0);
        let told = self.star.has_concluded();
        for mut socket in self.star.sockets.drain(..) {
            // Ranks that still wait for rank 0 learn from this message that it is done. Closing the socket would not be
            // enough, because writers or workers of rank 0 may hold copies of it. A rank that is gone does not need the
            // message.
            let _ = socket.send_farewell(code);
            socket.shutdown();
        }
        if outcome.is_err() && !told {
            // A second signal would end them in the middle of their files.
            processes::signal_children(&self.children);
        }
        if outcome.is_err() {
            processes::end_children(&self.children, GRACE);
        }
        let codes = self.children.into_iter().map(processes::wait);
        let failed = (1..).zip(codes).filter(|(_, code)| *code != 0).min_by_key(|(_, code)| *code > 128);
        outcome.and_then(|()| failed.map_or(Ok(()), |(rank, code)| Err(ended(rank, code))))
    }
}
