//! Ranks around rank 0, each connected to it by a socket. Rank 0 collects the bytes of all ranks, then sends the result
//! to all. If all ranks are on one host, a barrier sends no messages: ranks meet at a [`SharedBarrier`].
//!
//! No rank waits forever for a rank that is gone. Sockets do not show that a rank is gone, because its workers hold copies of its
//! socket. Therefore a waiting rank checks repeatedly whether the ranks it waits for are alive, as far as [`Peers`] know.

use crate::failure::{Failure, Kind, Outcome};
use crate::ranks::communicator::Communicator;
use crate::ranks::shared_barrier::SharedBarrier;
use crate::ranks::socket::{Message, Socket};
use crate::ranks::status;
use crate::system::{file_calls, processes, terminal};
use std::io;
use std::time::{Duration, Instant};

/// The processes of the other ranks, independent of their messages.
pub trait Peers {
    /// Returns `true` if that rank's process is known to be gone, and `false` if nothing is known about it.
    fn has_ended(&mut self, rank: u64) -> bool;

    /// Returns the exit code, as a shell reports it, of a rank whose socket is closed; waits a little for it.
    fn code_of(&mut self, rank: u64) -> Option<i32>;

    /// Returns a rank whose exit was noted since the last check, without waiting and at almost no cost.
    fn lost(&mut self) -> Option<u64>;

    /// Stops the other ranks if that is possible without a message; returns how long they may take. A launcher does not
    /// give rank 0 more time than this.
    fn stop(&mut self) -> Duration {
        Duration::from_millis(500)
    }
}

pub struct Star {
    rank: u64,
    size: u64,
    /// On rank 0: the sockets to ranks 1, 2, ...; on other ranks: the socket to rank 0.
    pub sockets: Vec<Socket>,
    peers: Box<dyn Peers>,
    /// After this long, rank 0 reports which ranks it is waiting for.
    patience: Duration,
    /// The barrier, if all ranks are on one host.
    gate: Option<SharedBarrier>,
    /// The final bytes of each rank after the run failed.
    last: Vec<Option<Vec<u8>>>,
    /// `true` once the other ranks were informed of the failure.
    concluded: bool,
}

/// How long a rank that has sent its final bytes may take to report its exit code.
const PARTING: Duration = Duration::from_secs(3);

/// Pause between two checks of several ranks for messages or exits.
const GLANCE: Duration = Duration::from_millis(20);

/// Pause between two checks of a waiting rank that the ranks it waits for are alive.
pub const LOOK: Duration = Duration::from_millis(250);

impl Star {
    pub fn new(rank: u64, size: u64, sockets: Vec<Socket>, peers: Box<dyn Peers>, patience: Duration) -> Star {
        let last = vec![None; size as usize];
        Star { rank, size, sockets, peers, patience, gate: None, last, concluded: false }
    }

    /// Returns `true` if the other ranks were informed that the run has failed.
    pub fn has_concluded(&self) -> bool {
        self.concluded
    }

    /// Uses this barrier from now on. All ranks share it.
    pub fn use_barrier(&mut self, gate: SharedBarrier) {
        self.gate = Some(gate);
    }

    fn socket(&mut self, rank: u64) -> &mut Socket {
        &mut self.sockets[rank as usize - 1]
    }

    /// Returns the reason why rank 0 no longer receives messages from this rank.
    fn lost(&mut self, rank: u64, error: &io::Error) -> Failure {
        if processes::interrupted() {
            return Failure::interrupted();
        }
        let noted = |rank| status::failure(rank).map(|(code, _)| code);
        match self.peers.code_of(rank).or_else(|| noted(rank)) {
            Some(code) => ended(rank, code),
            // A rank announces an orderly exit.
            None if self.peers.has_ended(rank) => killed(rank),
            None => Failure::new(Kind::System, format!("lost connection to rank {rank} ({error}){}", doing(rank))),
        }
    }

    /// Collects the bytes of each rank. Polls all ranks together: the first one that is gone is the one to name.
    fn collect(&mut self, own: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        let mut all: Vec<Option<Vec<u8>>> = vec![None; self.size as usize];
        all[0] = Some(own.to_vec());
        let mut missing: Vec<u64> = (1..self.size).collect();
        let (mut begun, patience) = (Instant::now(), self.patience);
        while !missing.is_empty() {
            let waited_for: Vec<&Socket> = missing.iter().map(|rank| &self.sockets[*rank as usize - 1]).collect();
            let ready = file_calls::readable(&waited_for, LOOK.min(patience));
            if processes::interrupted() {
                return Err(Failure::interrupted());
            }
            for rank in missing.iter().zip(&ready).filter_map(|(rank, ready)| ready.then_some(*rank)) {
                match self.socket(rank).receive() {
                    Ok(Message::Bytes(bytes)) => all[rank as usize] = Some(bytes),
                    Ok(Message::Last(bytes)) => return Err(self.leaving(rank, bytes)),
                    Ok(Message::Farewell(code)) => return Err(ended(rank, code)),
                    Err(error) => return Err(self.lost(rank, &error)),
                }
            }
            missing.retain(|rank| all[*rank as usize].is_none());
            if !ready.contains(&true) {
                self.find_dead(&missing)?;
                if begun.elapsed() >= patience {
                    missing.iter().for_each(|rank| terminal::warn(status::missing(*rank, patience)));
                    begun = Instant::now();
                }
            }
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// Returns the failure of a rank that has sent its final bytes, from its exit code or the end of its process.
    fn leaving(&mut self, rank: u64, bytes: Vec<u8>) -> Failure {
        self.last[rank as usize] = Some(bytes);
        let until = Instant::now() + PARTING;
        loop {
            // Once the rank has exited, all its messages are in the socket.
            let over = self.peers.has_ended(rank) || Instant::now() >= until;
            if file_calls::readable(&[&*self.socket(rank)], GLANCE)[0] {
                match self.socket(rank).receive() {
                    Ok(Message::Farewell(code)) => return ended(rank, code),
                    Ok(_) => continue,
                    Err(error) => return self.lost(rank, &error),
                }
            }
            if over {
                return self.lost(rank, &io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Collects the final bytes of the other ranks until the deadline.
    fn collect_last(&mut self, until: Instant) {
        let given = |star: &Star, rank: u64| star.last[rank as usize].is_some();
        let mut missing: Vec<u64> = (1..self.size).filter(|rank| !given(self, *rank)).collect();
        while !missing.is_empty() && Instant::now() < until {
            let ended: Vec<bool> = missing.iter().map(|rank| self.peers.has_ended(*rank)).collect();
            let sockets: Vec<&Socket> = missing.iter().map(|rank| &self.sockets[*rank as usize - 1]).collect();
            let ready = file_calls::readable(&sockets, GLANCE);
            let mut through = Vec::new();
            for ((rank, ready), ended) in missing.iter().zip(ready).zip(ended) {
                let is_through = match ready.then(|| self.socket(*rank).receive()) {
                    None => ended,
                    // Left over from an exchange that was aborted.
                    Some(Ok(Message::Bytes(_))) => false,
                    Some(Ok(Message::Last(bytes))) => {
                        self.last[*rank as usize] = Some(bytes);
                        true
                    }
                    Some(Ok(Message::Farewell(_)) | Err(_)) => true,
                };
                through.extend(is_through.then_some(*rank));
            }
            missing.retain(|rank| !through.contains(rank));
        }
    }

    fn find_dead(&mut self, missing: &[u64]) -> Outcome<()> {
        let dead = missing.iter().filter(|rank| **rank > 0).find(|rank| self.peers.has_ended(**rank)).copied();
        match dead {
            // The rank has exited, so its final bytes are already here if it sent any.
            Some(rank) if !file_calls::readable(&[&*self.socket(rank)], Duration::ZERO)[0] => {
                Err(self.lost(rank, &io::ErrorKind::UnexpectedEof.into()))
            }
            _ => Ok(()),
        }
    }

    /// Waits at the barrier of one host. Rank 0 watches the other ranks, and they watch rank 0.
    fn pass(&mut self, gate: SharedBarrier) -> Outcome<()> {
        let turn = gate.arrive(self.rank);
        let (mut begun, patience) = (Instant::now(), self.patience);
        while !gate.is_open(turn) {
            gate.wait(turn, LOOK.min(patience));
            // A signal also ends the wait. Check first whether the barrier is open: the rank that opened it may already
            // be gone.
            if gate.is_open(turn) {
                break;
            }
            if processes::interrupted() {
                return Err(Failure::interrupted());
            }
            if self.rank > 0 {
                self.check_rank_zero()?;
                continue;
            }
            let missing = gate.missing(turn);
            self.receive_farewells(&missing)?;
            self.find_dead(&missing)?;
            if begun.elapsed() >= patience {
                missing.iter().for_each(|rank| terminal::warn(status::missing(*rank, patience)));
                begun = Instant::now();
            }
        }
        Ok(())
    }

    /// Reads from ranks that have not arrived at a barrier. Their only possible message is that they never will.
    fn receive_farewells(&mut self, missing: &[u64]) -> Outcome<()> {
        for rank in missing {
            if file_calls::readable(&[&*self.socket(*rank)], Duration::ZERO)[0] {
                return Err(match self.socket(*rank).receive() {
                    Ok(Message::Last(bytes)) => self.leaving(*rank, bytes),
                    Ok(Message::Farewell(code)) => ended(*rank, code),
                    Ok(Message::Bytes(_)) => self.lost(*rank, &io::ErrorKind::InvalidData.into()),
                    Err(error) => self.lost(*rank, &error),
                });
            }
        }
        Ok(())
    }

    fn check_rank_zero(&mut self) -> Outcome<()> {
        if file_calls::readable(&[&self.sockets[0]], Duration::ZERO)[0] {
            return Err(match self.sockets[0].receive() {
                Ok(Message::Farewell(code)) => already_reported(kind_of(code)),
                Ok(Message::Last(code)) => already_reported(kind_of(number_in(&code))),
                _ if processes::interrupted() => Failure::interrupted(),
                _ => already_reported(Kind::System),
            });
        }
        match self.peers.has_ended(0) {
            true => Err(Failure::new(Kind::System, "lost connection to rank 0")),
            false => Ok(()),
        }
    }

    /// Receives the bytes of all ranks from rank 0.
    fn receive_all(&mut self) -> Outcome<Vec<Vec<u8>>> {
        while !file_calls::readable(&[&self.sockets[0]], LOOK)[0] {
            if processes::interrupted() {
                return Err(Failure::interrupted());
            }
            if self.peers.has_ended(0) {
                return Err(Failure::new(Kind::System, "lost connection to rank 0"));
            }
        }
        match self.sockets[0].receive() {
            Ok(Message::Bytes(packed)) => unpacked(&packed, self.size).ok_or_else(|| already_reported(Kind::System)),
            Ok(Message::Farewell(code)) => Err(already_reported(kind_of(code))),
            Ok(Message::Last(code)) => Err(already_reported(kind_of(number_in(&code)))),
            Err(_) if processes::interrupted() => Err(Failure::interrupted()),
            Err(_) => Err(already_reported(Kind::System)),
        }
    }
}

/// A launcher learns from a process's connections that it is dying, a little before the process is gone.
const DYING: Duration = Duration::from_millis(300);

/// Returns the result of `find`, which is retried for a short time.
pub fn soon(mut find: impl FnMut() -> Option<u64>) -> Option<u64> {
    let until = Instant::now() + DYING;
    loop {
        let found = find();
        if found.is_some() || Instant::now() >= until {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns a failure that rank 0 reports in detail, once.
fn already_reported(kind: Kind) -> Failure {
    Failure::new(kind, "")
}

/// Returns the kind of failure that ends with this exit code.
pub fn kind_of(code: i32) -> Kind {
    let kinds = [Kind::Refused, Kind::MissingData, Kind::DamagedData, Kind::Interrupted];
    kinds.into_iter().find(|kind| *kind as i32 == code).unwrap_or(Kind::System)
}

fn number_in(bytes: &[u8]) -> i32 {
    bytes.first_chunk::<4>().map_or(Kind::System as i32, |four| i32::from_le_bytes(*four))
}

fn doing(rank: u64) -> String {
    status::last(rank).map(|doing| format!("; it {doing}")).unwrap_or_default()
}

/// Returns the failure for a rank that exited with this status, with its own failure if it noted that.
pub fn ended(rank: u64, code: i32) -> Failure {
    let kind = kind_of(code);
    let cause = status::failure(rank).map(|(_, text)| text).filter(|text| !text.is_empty());
    let how = match (code, cause) {
        (signal, _) if signal > 128 && kind != Kind::Interrupted => {
            format!("was killed by signal {}{}", signal - 128, doing(rank))
        }
        (code, Some(cause)) => format!("exited with status {code}: {cause}"),
        (code, None) => format!("exited with status {code} before the other ranks{}", doing(rank)),
    };
    Failure::new(kind, format!("rank {rank} {how}"))
}

/// Returns the failure for a rank that ended without a message and whose exit status is unknown.
pub fn killed(rank: u64) -> Failure {
    Failure::new(Kind::System, format!("rank {rank} was killed, or crashed{}", doing(rank)))
}

/// Packs the bytes of all ranks into one message, empty if no rank gave any, as at a barrier.
fn packed(all: &[Vec<u8>]) -> Vec<u8> {
    if all.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    all.iter().flat_map(|part| [&(part.len() as u64).to_le_bytes()[..], part].concat()).collect()
}

fn unpacked(mut packed: &[u8], size: u64) -> Option<Vec<Vec<u8>>> {
    if packed.is_empty() {
        return Some(vec![Vec::new(); size as usize]);
    }
    let mut part = || {
        let (length, rest) = packed.split_first_chunk::<8>()?;
        let (part, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
        packed = rest;
        Some(part.to_vec())
    };
    (0..size).map(|_| part()).collect()
}

impl Communicator for Star {
    fn rank(&self) -> u64 {
        self.rank
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn check(&mut self) -> Outcome<()> {
        match self.peers.lost() {
            None => Ok(()),
            Some(0) => Err(already_reported(Kind::System)),
            Some(rank) => {
                // Several may be gone; the others followed the first.
                let first = status::first_failed().filter(|first| *first > 0 && self.peers.has_ended(*first));
                Err(self.lost(first.unwrap_or(rank), &io::ErrorKind::UnexpectedEof.into()))
            }
        }
    }

    fn exchange(&mut self, bytes: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        if self.rank > 0 {
            return match self.sockets[0].send(bytes) {
                // Messages sent before the close can still be read.
                Ok(()) => self.receive_all(),
                Err(_) if processes::interrupted() => Err(Failure::interrupted()),
                Err(_) => self.receive_all().and(Err(already_reported(Kind::System))),
            };
        }
        let all = self.collect(bytes)?;
        let packed = packed(&all);
        for rank in 1..self.size {
            self.socket(rank).send(&packed).map_err(|error| self.lost(rank, &error))?;
        }
        Ok(all)
    }

    fn barrier(&mut self) -> Outcome<()> {
        match self.gate {
            Some(gate) => self.pass(gate),
            None => self.exchange(&[]).map(drop),
        }
    }

    fn conclude(&mut self, failure: Failure, bytes: &[u8]) -> (Failure, Vec<Option<Vec<u8>>>) {
        self.last[self.rank as usize] = Some(bytes.to_vec());
        status::note_failure(&failure);
        if self.rank > 0 {
            // Rank 0 may be gone.
            let _ = self.sockets[0].send_last(bytes);
            return (failure, self.last.clone());
        }
        let failure = self.explained(Err(failure.clone())).err().unwrap_or(failure);
        self.concluded = true;
        for socket in &mut self.sockets {
            // A rank that is gone does not need the message. If a rank stops in the middle of its own message, this rank does
            // not wait for the rest.
            let _ = socket.send_last(&failure.exit_code().to_le_bytes()).and_then(|()| socket.set_limit(Some(PARTING)));
        }
        let until = Instant::now() + self.peers.stop();
        self.collect_last(until);
        (failure, self.last.clone())
    }

    /// Replaces the failure of this rank if another rank is gone: launchers then stop all ranks, and the missing rank
    /// is the cause.
    fn explained(&mut self, outcome: Outcome<()>) -> Outcome<()> {
        let stopped = outcome.as_ref().is_err_and(|failure| failure.kind == Kind::Interrupted);
        if !stopped || self.rank > 0 || self.concluded {
            return outcome;
        }
        match soon(|| (1..self.size).find(|rank| self.peers.has_ended(*rank) && !self.has_sent_farewell(*rank))) {
            Some(rank) => Err(killed(rank)),
            None => outcome,
        }
    }
}

impl Star {
    /// Returns `true` if a rank announced its exit. Messages before the announcement are no longer needed.
    fn has_sent_farewell(&mut self, rank: u64) -> bool {
        // An earlier call may have received the announcement.
        if self.last[rank as usize].is_some() {
            return true;
        }
        while file_calls::readable(&[&*self.socket(rank)], Duration::ZERO)[0] {
            match self.socket(rank).receive() {
                Ok(Message::Bytes(_)) => {}
                Ok(Message::Last(bytes)) => {
                    self.last[rank as usize] = Some(bytes);
                    return true;
                }
                Ok(Message::Farewell(_)) => {
                    self.last[rank as usize] = Some(Vec::new());
                    return true;
                }
                Err(_) => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks that end when rank 0 has received their messages.
    struct LivePeers;

    impl Peers for LivePeers {
        fn has_ended(&mut self, _: u64) -> bool {
            false
        }

        fn code_of(&mut self, _: u64) -> Option<i32> {
            None
        }

        fn lost(&mut self) -> Option<u64> {
            None
        }

        fn stop(&mut self) -> Duration {
            PARTING
        }
    }

    #[test]
    fn bytes_of_surviving_ranks_are_collected() {
        let pair = || {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            (Socket::Unix(ours), Socket::Unix(theirs))
        };
        let [(first, its_first), (second, its_second)] = [pair(), pair()];
        let star = |rank, sockets| Star::new(rank, 3, sockets, Box::new(LivePeers), PARTING);
        let mut root = star(0, vec![first, second]);
        // Rank 2 is gone; rank 1 has arrived at an exchange that will not happen.
        drop(its_second);
        let given = std::thread::scope(|threads| {
            threads.spawn(move || {
                let mut one = star(1, vec![its_first]);
                let failure = one.exchange(b"step").unwrap_err();
                assert_eq!(failure.kind, Kind::DamagedData);
                one.conclude(failure, b"one");
            });
            root.conclude(Failure::new(Kind::DamagedData, "a file"), b"root")
        });
        assert_eq!(given.1, [Some(b"root".to_vec()), Some(b"one".to_vec()), None]);
        assert_eq!(given.0.what, "a file");
    }

    #[test]
    fn packed_bytes_round_trip() {
        for all in [vec![vec![]; 3], vec![vec![1, 2], vec![], vec![3]], vec![vec![9; 70_000]]] {
            assert_eq!(unpacked(&packed(&all), all.len() as u64), Some(all));
        }
        assert!(packed(&[vec![], vec![]]).is_empty());
        assert_eq!(unpacked(&[1, 0, 0, 0, 0, 0, 0, 0], 1), None);
    }
}
