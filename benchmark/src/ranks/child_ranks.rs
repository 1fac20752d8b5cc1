//! Ranks that this program starts itself: processes of this machine, children of rank 0.

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

/// The time ranks have to end by themselves once the run has failed.
const GRACE: Duration = Duration::from_secs(3);

/// The children of rank 0, by rank; of the others nobody knows any.
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
        processes::tell_children(&self.0);
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
            child.meet_at(gate);
            children.push(processes::fork(|| {
                // Only rank 0 holds these, so that its end is seen by all.
                sockets.clear();
                board.join(rank);
                body(&mut child)
            })?);
        }
        board.join(0);
        processes::watch_children(&children);
        let mut star = Star::new(0, size, sockets, Box::new(Children(children.clone())), patience);
        star.meet_at(gate);
        Ok(ChildRanks { star, children })
    }

    pub fn communicator(&mut self) -> &mut dyn Communicator {
        &mut self.star
    }

    /// Rank 0 waits for the others to end. Where the run has failed they are stopped: they may be far from any barrier.
    pub fn join(mut self, outcome: Outcome<()>) -> Outcome<()> {
        let code = outcome.as_ref().map_or_else(|failure| failure.exit_code(), |()| 0);
        let told = self.star.has_concluded();
        for mut socket in self.star.sockets.drain(..) {
            // Whoever still waits for rank 0 learns that it is through. Closing would not do: its writers or workers may
            // hold copies. A rank that is gone needs no word.
            let _ = socket.send_farewell(code);
            socket.shutdown();
        }
        if outcome.is_err() && !told {
            // Twice would end them in the middle of their files.
            processes::tell_children(&self.children);
        }
        if outcome.is_err() {
            processes::end_children(&self.children, GRACE);
        }
        let codes = self.children.into_iter().map(processes::wait);
        let failed = (1..).zip(codes).filter(|(_, code)| *code != 0).min_by_key(|(_, code)| *code > 128);
        outcome.and_then(|()| failed.map_or(Ok(()), |(rank, code)| Err(ended(rank, code))))
    }
}
