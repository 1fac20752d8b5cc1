//! A process as an MPI rank. A waiting rank polls for the end of a collective. Between two polls, it can check on the other ranks
//! and can be stopped, so no rank waits forever for a rank that is gone.
//!
//! [`super::table`] is the interface of `libdlio_mpi.so`, [`super::library`] loads it. Memory that the ranks of one
//! host share ([`SharedBarrier`]) shows which rank is missing; for other hosts this is unknown.

use super::library::{CollectiveResult, Library, SharedFile};
use crate::failure::{Failure, Kind, Outcome};
use crate::ranks::communicator::Communicator;
use crate::ranks::launcher::{self, LaunchInfo, MpiRendezvous};
use crate::ranks::liveness::{Process, Processes};
use crate::ranks::shared_barrier::SharedBarrier;
use crate::ranks::star::{LOOK, Peers, ended, killed, soon};
use crate::ranks::status::{self, StatusBoard};
use crate::system::{locate, processes, terminal};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// This process as a rank of an MPI, which it joins once.
struct Member {
    library: Library,
    rank: u64,
    size: u64,
    patience: Duration,
    /// The barrier of this host's ranks.
    gate: Option<SharedBarrier>,
    processes: Processes,
    /// Files that all ranks have open together.
    files: Vec<(PathBuf, SharedFile)>,
}

thread_local! {
    /// Only the trainer's thread uses the MPI: for the loop, and for its reader.
    static MEMBER: RefCell<Option<Member>> = const { RefCell::new(None) };
}

/// True if this process is a rank of an MPI.
pub fn is_joined() -> bool {
    MEMBER.with_borrow(Option::is_some)
}

/// Returns `true` if an MPI could connect this process to others: a launcher made it a rank, and the library is
/// installed.
pub fn is_offered() -> bool {
    launcher::world(None).is_ok_and(|world| world.is_some_and(|world| world.door.is_some()))
        && locate::mpi_library().is_some()
}

fn with<T>(act: impl FnOnce(&mut Member) -> Outcome<T>) -> Outcome<T> {
    let absent = || Failure::refused("collective reads need ranks of an MPI").remedy("start dlio with mpirun");
    MEMBER.with_borrow_mut(|member| act(member.as_mut().ok_or_else(absent)?))
}

/// Fills `into` from a file at `offset` while all other ranks read theirs; returns the number of bytes read.
pub fn read_together(path: &Path, offset: u64, into: &mut [u8]) -> Outcome<usize> {
    with(|member| {
        let file = member.file(path)?;
        member.library.start_read(file, offset, into.len())?;
        let CollectiveResult { bytes, count } = member.finish()?;
        let count = count.min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        member.library.recycle(bytes);
        Ok(count)
    })
}

/// The ranks of an MPI as the ranks of a run.
pub struct Mpi {
    rank: u64,
    size: u64,
}

/// The bytes of a message that are sent along with its length; a longer message needs a second round.
const SHORT: usize = 120;
const SLOT: usize = SHORT + 8;

/// How long a waiting rank yields its processor at every poll before it sleeps between polls.
const EAGER: Duration = Duration::from_millis(2);
const NAP: Duration = Duration::from_micros(100);
const LONG_NAP: Duration = Duration::from_millis(1);

/// How long rank 0 waits for the final bytes of the others. A launcher does not give it much more time.
const LAST_BYTES: Duration = Duration::from_millis(500);

/// How long a failed rank leaves rank 0 to finish. mpirun itself does not give a rank more time.
const GRACE: Duration = Duration::from_secs(1);

impl Mpi {
    /// Joins the ranks that the launcher started.
    pub fn join(world: &LaunchInfo, mut library: Library, patience: Duration) -> Outcome<Mpi> {
        let (rank, size) = library.begin()?;
        if (rank, size) != (world.rank, world.size) {
            let LaunchInfo { launcher, size: started, .. } = world;
            let what = format!("{launcher} started {started} processes, but {} reports {size}", library.name());
            return Err(Failure::refused(what).remedy(SOCKETS));
        }
        let (gate, processes, files) = (None, Processes::default(), Vec::new());
        let mut member = Member { library, rank, size, patience, gate, processes, files };
        member.find_host_ranks()?;
        MEMBER.set(Some(member));
        Ok(Mpi { rank, size })
    }

    /// Returns the MPI's own name.
    pub fn name(&self) -> String {
        MEMBER.with_borrow(|member| member.as_ref().map(|member| member.library.name()).unwrap_or_default())
    }

    /// Ends this rank's part of the run. After a success all ranks call this together.
    pub fn part(self, outcome: Outcome<i32>) -> Outcome<i32> {
        with(|member| member.part(outcome))
    }
}

impl Member {
    /// Finds the ranks of this host and sets up memory shared with them.
    fn find_host_ranks(&mut self) -> Outcome<()> {
        let own = Process::own();
        let shared = if self.rank == 0 {
            SharedBarrier::public(self.size).ok().zip(StatusBoard::public(self.size).ok())
        } else {
            None
        };
        let paths = shared.as_ref().map(|((_, gate), (_, board))| format!("{gate}\n{board}")).unwrap_or_default();
        let texts = self.exchange(format!("{}\n{}\n{paths}", own.number, own.machine).as_bytes())?;
        let lines: Vec<Vec<String>> =
            texts.iter().map(|text| String::from_utf8_lossy(text).split('\n').map(str::to_string).collect()).collect();
        let near = |lines: &Vec<String>| lines.get(1) == Some(&own.machine);
        let shared = match (shared, &lines[0][..]) {
            (Some(((gate, _), (board, _))), _) => Some((gate, board)),
            (None, [_, machine, gate, board]) if *machine == own.machine => {
                let at = |path: &String| PathBuf::from(path);
                SharedBarrier::at(&at(gate), self.size).ok().zip(StatusBoard::at(&at(board), self.size).ok())
            }
            _ => None,
        };
        let seen = self.exchange(&[u8::from(shared.is_some())])?;
        let watched = |(lines, seen): (&Vec<String>, &Vec<u8>)| match near(lines) && *seen == [1] {
            true => lines[0].parse().ok(),
            false => None,
        };
        let Some((gate, board)) = shared else { return Ok(()) };
        board.join(self.rank);
        self.gate = Some(gate);
        self.processes = Processes::watched(lines.iter().zip(&seen).map(watched).collect());
        Ok(())
    }

    fn part(&mut self, outcome: Outcome<i32>) -> Outcome<i32> {
        let outcome = outcome.and_then(|code| self.exchange(&code.to_le_bytes()).map(|_| code));
        // Without the other ranks an orderly end is impossible: the launcher sees the exit status and stops them.
        let outcome = outcome.and_then(|code| self.leave().map(|()| code));
        self.note_farewell(outcome.as_ref().map_or_else(Failure::exit_code, |code| *code));
        if outcome.is_err() && self.rank > 0 {
            self.let_first_finish();
        }
        outcome
    }

    /// Lets rank 0 finish first: a launcher stops all ranks once one has failed, and rank 0 has results and messages to
    /// write.
    fn let_first_finish(&mut self) {
        let Some(gate) = self.gate else { return };
        let until = Instant::now() + GRACE;
        while gate.farewell(0).is_none() && !self.processes.has_ended(0) && Instant::now() < until {
            std::thread::sleep(LONG_NAP);
        }
    }

    fn leave(&mut self) -> Outcome<()> {
        for (_, file) in std::mem::take(&mut self.files) {
            self.library.close(file)?;
        }
        self.library.end()
    }

    /// Opens a file that stays open until the end.
    fn file(&mut self, path: &Path) -> Outcome<SharedFile> {
        if let Some((_, file)) = self.files.iter().find(|(known, _)| known == path) {
            return Ok(*file);
        }
        let file = self.library.open(path)?;
        self.files.push((path.to_path_buf(), file));
        Ok(file)
    }

    fn note_farewell(&self, code: i32) {
        if let Some(gate) = self.gate {
            gate.note_farewell(self.rank, code);
        }
    }

    /// Waits for the operation in flight; returns its result.
    fn finish(&mut self) -> Outcome<CollectiveResult> {
        let turn = self.gate.map(|gate| gate.note(self.rank));
        let begun = Instant::now();
        let (mut looked, mut told) = (begun, begun);
        loop {
            if let Some(done) = self.library.test()? {
                return Ok(done);
            }
            if processes::interrupted() {
                return Err(Failure::interrupted());
            }
            let waited = begun.elapsed();
            match waited {
                short if short < EAGER => std::thread::yield_now(),
                short if short < 100 * EAGER => std::thread::sleep(NAP),
                _ => std::thread::sleep(LONG_NAP),
            }
            if looked.elapsed() < LOOK {
                continue;
            }
            looked = Instant::now();
            self.find_dead()?;
            if self.rank == 0 && told.elapsed() >= self.patience {
                self.warn_missing(turn);
                told = Instant::now();
            }
        }
    }

    fn warn_missing(&self, turn: Option<u64>) {
        let missing = self.gate.zip(turn).map(|(gate, turn)| gate.missing(turn)).unwrap_or_default();
        let missing: Vec<u64> = missing.into_iter().filter(|rank| self.processes.of(*rank).is_some()).collect();
        match missing.is_empty() {
            true => {
                let waited = self.patience.as_secs_f64();
                terminal::warn(format_args!("a rank on another host has not reached the barrier for {waited:.0} s"));
            }
            false => missing.iter().for_each(|rank| terminal::warn(status::missing(*rank, self.patience))),
        }
    }

    fn find_dead(&mut self) -> Outcome<()> {
        match self.first_gone(|code| code != 0) {
            Some(rank) => Err(self.rank_failure(rank)),
            None => Ok(()),
        }
    }

    /// Returns the code with which a rank left or is about to leave.
    fn code(&self, rank: u64) -> Option<i32> {
        let farewell = self.gate.and_then(|gate| gate.farewell(rank));
        farewell.or_else(|| status::failure(rank).map(|(code, _)| code))
    }

    /// Returns the rank whose end is the cause of the others': the first that failed on its own, else one that was
    /// killed, else any that left with a code that `counts`.
    fn first_gone(&mut self, counts: impl Fn(i32) -> bool) -> Option<u64> {
        let others = || (0..self.size).filter(|rank| *rank != self.rank);
        let leaves = |rank: &u64| self.code(*rank).is_some_and(&counts);
        let mut processes = self.processes.clone();
        let killed = |rank: &u64| self.code(*rank).is_none() && processes.has_ended(*rank);
        let first = status::first_failed().filter(|first| *first != self.rank && leaves(first));
        first.or_else(|| others().find(killed)).or_else(|| others().find(leaves))
    }

    /// Returns the failure of a rank that is gone. The first of the remaining ranks reports the failure, unless the rank that is
    /// gone has reported it itself.
    fn rank_failure(&self, rank: u64) -> Failure {
        let (failure, is_reported) = match self.code(rank) {
            Some(code) => (ended(rank, code), rank == 0),
            None => (killed(rank), false),
        };
        let first = u64::from(rank == 0);
        if self.rank == first && !is_reported { failure } else { Failure::new(failure.kind, "") }
    }

    /// Leaves the final bytes of this rank. Rank 0 collects those of the ranks on its host.
    fn conclude(&mut self, failure: Failure, bytes: &[u8]) -> (Failure, Vec<Option<Vec<u8>>>) {
        let own = |rank| (rank == self.rank).then(|| bytes.to_vec());
        let all: Vec<_> = (0..self.size).map(own).collect();
        status::note_last_bytes(bytes);
        // The other ranks learn from this that the run has failed.
        status::note_failure(&failure);
        if self.rank > 0 {
            return (failure, all);
        }
        let until = Instant::now() + LAST_BYTES;
        let mut processes = self.processes.clone();
        let mut is_awaited =
            |rank| processes.of(rank).is_some() && status::last_bytes(rank).is_none() && !processes.has_ended(rank);
        while (1..self.size).any(&mut is_awaited) && Instant::now() < until {
            std::thread::sleep(LONG_NAP);
        }
        let given = (0..self.size).zip(all).map(|(rank, own)| own.or_else(|| status::last_bytes(rank))).collect();
        (failure, given)
    }

    fn gather(&mut self, own: Vec<u8>, counts: &[usize]) -> Outcome<Vec<u8>> {
        self.library.start_gather(own, counts)?;
        self.finish().map(|done| done.bytes)
    }

    fn exchange(&mut self, bytes: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        let mut slot = vec![0; SLOT];
        let short = &bytes[..bytes.len().min(SHORT)];
        slot[..8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        slot[8..8 + short.len()].copy_from_slice(short);
        let slots = self.gather(slot, &vec![SLOT; self.size as usize])?;
        let (slots, _) = slots.as_chunks::<SLOT>();
        let length = |slot: &[u8; SLOT]| slot.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
        let lengths: Vec<usize> = slots.iter().map(length).collect();
        if lengths.iter().all(|length| *length <= SHORT) {
            return Ok(slots.iter().zip(&lengths).map(|(slot, length)| slot[8..8 + length].to_vec()).collect());
        }
        let all = self.gather(bytes.to_vec(), &lengths)?;
        let mut rest = &all[..];
        let mut part = |length: &usize| {
            let (part, left) = rest.split_at(*length);
            rest = left;
            part.to_vec()
        };
        Ok(lengths.iter().map(&mut part).collect())
    }

    fn barrier(&mut self) -> Outcome<()> {
        self.library.start_barrier()?;
        self.finish().map(drop)
    }

    fn check(&mut self) -> Outcome<()> {
        match self.processes.lost() {
            Some(_) => self.find_dead(),
            None => Ok(()),
        }
    }

    /// Replaces the failure of this rank if another rank is gone: launchers then stop all ranks, and the missing rank
    /// is the cause.
    fn explained(&mut self, outcome: Outcome<()>) -> Outcome<()> {
        let stopped = outcome.as_ref().is_err_and(|failure| failure.kind == Kind::Interrupted);
        if !stopped {
            return outcome;
        }
        let failed = |code| code != 0 && code != Kind::Interrupted as i32;
        match soon(|| self.first_gone(failed)) {
            Some(rank) => Err(self.rank_failure(rank)),
            None => outcome,
        }
    }
}

/// The remedy if the MPI is not the launcher's.
pub const SOCKETS: &str = "build libdlio_mpi.so with the mpicc of that launcher (make build-mpi), or use \
    --communicator=sockets";

/// Checks that the library at `path` is the MPI of the launcher; returns the reason if it is not.
pub fn library_for(world: &LaunchInfo, path: &Path) -> Result<Library, String> {
    let library = Library::load(path)?;
    let name = library.name();
    let open = name.starts_with("Open MPI");
    let fits = match world.launcher {
        "Open MPI" => open,
        "MVAPICH" => name.contains("MVAPICH"),
        // Open MPI supports only one of the two rendezvous. Whether other MPIs support this one shows in `join`.
        _ => !open || world.door == Some(MpiRendezvous::Pmix),
    };
    match fits {
        true => Ok(library),
        false => Err(format!("{} started these processes, but {} is built for {name}", world.launcher, path.display())),
    }
}

impl Communicator for Mpi {
    fn rank(&self) -> u64 {
        self.rank
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn exchange(&mut self, bytes: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        with(|member| member.exchange(bytes))
    }

    fn barrier(&mut self) -> Outcome<()> {
        with(Member::barrier)
    }

    fn check(&mut self) -> Outcome<()> {
        with(Member::check)
    }

    fn conclude(&mut self, failure: Failure, bytes: &[u8]) -> (Failure, Vec<Option<Vec<u8>>>) {
        let mut given = None;
        // This process is a rank, so the call is made.
        let _ = with(|member| {
            given = Some(member.conclude(failure.clone(), bytes));
            Ok(())
        });
        given.unwrap_or_else(|| (failure, vec![None; self.size as usize]))
    }

    fn explained(&mut self, outcome: Outcome<()>) -> Outcome<()> {
        with(|member| member.explained(outcome))
    }
}
