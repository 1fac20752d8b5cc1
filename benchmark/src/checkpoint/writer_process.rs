//! A background process per rank that writes checkpoints, or copies them to a slower directory, while the rank trains.
//!
//! ```text
//! rank -> process    write FOLDER            or    copy FROM \n TO
//! process -> rank    done: seconds, bytes, fsyncs   or   the failure
//! ```
//!
//! It is forked before the rank has threads, knows the rank's files from then on, and exits with the rank.

use crate::checkpoint::{Mechanism, Shard, Streamed, TransferStats, copy};
use crate::failure::{Failure, Kind, Outcome};
use crate::ranks::socket::{Message, Socket};
use crate::ranks::star::{LOOK, kind_of};
use crate::spans;
use crate::system::{file_calls, processes};
use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    Write(PathBuf),
    Copy { from: PathBuf, to: PathBuf },
}

/// The work in the background, and how long training waited for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct BackgroundWork {
    pub count: u64,
    pub seconds: f64,
    /// The part of those seconds in which the rank waited.
    pub waited: f64,
    pub moved: TransferStats,
}

pub struct Background {
    socket: Socket,
    process: libc::pid_t,
    given: VecDeque<Work>,
    pub hidden: BackgroundWork,
}

/// How long the process has to exit once the rank does.
const GRACE: Duration = Duration::from_secs(1);

impl Background {
    /// Starts the process, from a process with one thread. It copies at most `rate` bytes per second.
    pub fn start(streamed: Streamed, shards: &[Shard], rate: Option<f64>) -> Outcome<Background> {
        let failed =
            |error: io::Error| Failure::new(Kind::System, format!("cannot start the background writer: {error}"));
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let (mut socket, mut theirs) = (Some(Socket::Unix(ours)), Socket::Unix(theirs));
        let process = processes::fork(|| {
            processes::leave_interrupts_to_parent();
            spans::name_rank();
            // Only the rank keeps this end, so that its exit is noticed.
            drop(socket.take());
            serve(&mut theirs, streamed, shards, rate)
        });
        let socket = socket.ok_or_else(|| failed(io::ErrorKind::NotConnected.into()))?;
        Ok(Background {
            socket,
            process: process.map_err(failed)?,
            given: VecDeque::new(),
            hidden: BackgroundWork::default(),
        })
    }

    pub fn submit(&mut self, work: Work) -> Outcome<()> {
        let text = match &work {
            Work::Write(folder) => format!("{}", folder.display()),
            Work::Copy { from, to } => format!("{}\n{}", from.display(), to.display()),
        };
        self.socket.send(text.as_bytes()).map_err(|error| exit_failure(&error))?;
        self.given.push_back(work);
        Ok(())
    }

    pub fn is_busy(&self) -> bool {
        !self.given.is_empty()
    }

    /// Returns the number of tasks whose success was not reported.
    pub fn unfinished(&self) -> u64 {
        self.given.len() as u64
    }

    /// Returns the work finished since the last call, without waiting.
    pub fn done(&mut self) -> Outcome<Vec<Work>> {
        let mut done = Vec::new();
        while self.is_busy() && file_calls::readable(&[&self.socket], Duration::ZERO)[0] {
            done.push(self.answer()?);
        }
        Ok(done)
    }

    /// Waits until all work is done; this is time in which training waits.
    pub fn drain(&mut self) -> Outcome<Vec<Work>> {
        let (begun, mut done) = (Instant::now(), Vec::new());
        while self.is_busy() {
            if file_calls::readable(&[&self.socket], LOOK)[0] {
                done.push(self.answer()?);
            } else if processes::interrupted() {
                return Err(Failure::interrupted());
            } else if processes::has_ended(self.process) {
                return Err(exit_failure(&io::ErrorKind::UnexpectedEof.into()));
            }
        }
        self.hidden.waited += begun.elapsed().as_secs_f64();
        Ok(done)
    }

    fn answer(&mut self) -> Outcome<Work> {
        let message = self.socket.receive().map_err(|error| exit_failure(&error))?;
        let Message::Bytes(text) = message else { return Err(exit_failure(&io::ErrorKind::UnexpectedEof.into())) };
        let text = String::from_utf8_lossy(&text).into_owned();
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        if let Some(code) = first.strip_prefix("failed ") {
            return Err(Failure::new(kind_of(code.parse().unwrap_or(0)), rest));
        }
        let work = self.given.pop_front().ok_or_else(|| exit_failure(&io::ErrorKind::InvalidData.into()))?;
        let numbers: Vec<f64> = rest.split(' ').filter_map(|number| number.parse().ok()).collect();
        if let [seconds, bytes, fsyncs] = numbers[..] {
            self.hidden.count += 1;
            self.hidden.seconds += seconds;
            self.hidden.moved.bytes += bytes as u64;
            self.hidden.moved.fsyncs += fsyncs as u64;
        }
        Ok(work)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.socket.shutdown();
        if self.is_busy() {
            // The work is no longer needed; unfinished files do not have their final name yet.
            processes::stop_children(&[self.process], GRACE);
        }
        processes::wait(self.process);
    }
}

fn exit_failure(error: &io::Error) -> Failure {
    match processes::interrupted() {
        true => Failure::interrupted(),
        false => Failure::new(Kind::System, format!("the background writer has exited ({error})")),
    }
}

/// The main loop of the process: runs one task after another until the rank closes the socket.
fn serve(socket: &mut Socket, mut streamed: Streamed, shards: &[Shard], rate: Option<f64>) -> i32 {
    while let Some(Message::Bytes(text)) = next_task(socket) {
        let text = String::from_utf8_lossy(&text).into_owned();
        let begun = Instant::now();
        let done = match text.split_once('\n') {
            None => streamed.save(Path::new(&text), shards),
            Some((from, to)) => copy(Path::new(from), Path::new(to), shards, rate),
        };
        let seconds = begun.elapsed().as_secs_f64();
        let answer = match done {
            Ok(TransferStats { bytes, fsyncs }) => format!("done\n{seconds} {bytes} {fsyncs}"),
            Err(failure) => format!("failed {}\n{failure}", failure.exit_code()),
        };
        if socket.send(answer.as_bytes()).is_err() {
            break;
        }
    }
    0
}

/// Returns the next task; `None` once the rank is gone or this process is to exit.
fn next_task(socket: &mut Socket) -> Option<Message> {
    while !file_calls::readable(&[&*socket], LOOK)[0] {
        if processes::interrupted() {
            return None;
        }
    }
    socket.receive().ok()
}
