//! Workers: processes or threads that read ahead, and the trainer's end of their connections.
//!
//! ```text
//! trainer -> worker   begin(split, epoch) · credit(n) · end          24 bytes each
//! worker -> trainer   report of a unit · end of the epoch            56 bytes and the text of a failure
//! ```
//!
//! The connections are sockets used with `read` and `write`, so that a trace shows when a worker waits for its trainer.
//!
//! Each side computes the same plan, so a begin contains only the epoch. A credit is permission to send one more unit:
//! the prefetch depth is the number of credits a worker starts with. Processes are forked before any thread exists;
//! they share the trainer's memory pages and start in a millisecond, so the first epoch is like the others.

use super::order::stream_pieces;
use super::plan::{Batch, Loader, Plan, WorkerKind, checked};
use super::source::{Report, Source};
use crate::data_set::layout::Split;
use crate::failure::{Failure, Kind, Outcome};
use crate::spans;
use crate::system::processes;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

const BEGIN: u64 = 1;
const CREDIT: u64 = 2;
const END: u64 = 3;

enum Command {
    Begin(Split, u64),
    Credit(u64),
    End,
}

fn send(stream: &mut impl Write, command: &Command) -> io::Result<()> {
    let numbers = match command {
        Command::Begin(split, epoch) => [BEGIN, u64::from(*split == Split::Valid), *epoch],
        Command::Credit(count) => [CREDIT, *count, 0],
        Command::End => [END, 0, 0],
    };
    stream.write_all(numbers.map(u64::to_le_bytes).as_flattened())
}

fn receive(stream: &mut impl Read) -> io::Result<Command> {
    let mut bytes = [0; 24];
    stream.read_exact(&mut bytes)?;
    let number = |place: usize| u64::from_le_bytes(bytes[place * 8..place * 8 + 8].try_into().expect("eight bytes"));
    Ok(match number(0) {
        BEGIN => Command::Begin(if number(1) == 1 { Split::Valid } else { Split::Train }, number(2)),
        CREDIT => Command::Credit(number(1)),
        _ => Command::End,
    })
}

/// Sends a report; `None` marks the end of a worker's part of the epoch.
fn send_report(stream: &mut impl Write, report: Option<&Report>) -> io::Result<()> {
    let empty = Report::default();
    let (more, report) = (report.is_some(), report.unwrap_or(&empty));
    let text =
        report.failure.as_ref().map(|failure| format!("{}\n{}", failure.kind as u8, failure)).unwrap_or_default();
    let numbers = [
        u64::from(more),
        report.samples,
        report.bytes,
        report.read_nanos,
        report.preprocess_nanos,
        report.failed,
        text.len() as u64,
    ];
    let mut message = numbers.map(u64::to_le_bytes).as_flattened().to_vec();
    message.extend(text.as_bytes());
    stream.write_all(&message)
}

fn receive_report(stream: &mut impl Read) -> io::Result<Option<Report>> {
    let mut bytes = [0; 56];
    stream.read_exact(&mut bytes)?;
    let number = |place: usize| u64::from_le_bytes(bytes[place * 8..place * 8 + 8].try_into().expect("eight bytes"));
    let mut text = vec![0; number(6) as usize];
    stream.read_exact(&mut text)?;
    Ok((number(0) == 1).then(|| Report {
        samples: number(1),
        bytes: number(2),
        read_nanos: number(3),
        preprocess_nanos: number(4),
        failed: number(5),
        failure: failure_of(&String::from_utf8_lossy(&text)),
    }))
}

fn failure_of(text: &str) -> Option<Failure> {
    let (kind, text) = text.split_once('\n')?;
    let (what, remedy) = text.split_once("\n  ").unwrap_or((text, ""));
    let kinds = [Kind::Refused, Kind::MissingData, Kind::System, Kind::DamagedData];
    let kind = kinds.into_iter().find(|known| (*known as u8).to_string() == kind).unwrap_or(Kind::System);
    Some(Failure::new(kind, what).remedy(remedy))
}

/// The worker's side.
struct Worker {
    plan: Plan,
    number: u64,
    of: u64,
    stream: File,
    credits: u64,
}

impl Worker {
    /// Runs until told to end, or until the trainer is gone.
    fn run(mut self) -> io::Result<()> {
        let mut source = match self.plan.source(self.number) {
            Ok(source) => source,
            Err(failure) => return Err(io::Error::other(failure.what)),
        };
        loop {
            match receive(&mut self.stream)? {
                Command::Begin(split, epoch) => {
                    if !self.epoch(&mut source, split, epoch)? {
                        return Ok(());
                    }
                    source.end_epoch();
                }
                Command::Credit(count) => self.credits += count,
                Command::End => return Ok(()),
            }
        }
    }

    /// Works through an epoch; returns `true` if the worker continues afterwards.
    fn epoch(&mut self, source: &mut Source, split: Split, epoch: u64) -> io::Result<bool> {
        let order = self.plan.order(split, epoch);
        source.begin(order, split, self.units(split).flatten());
        for (slot, positions) in self.units(split).enumerate() {
            while self.credits == 0 {
                match receive(&mut self.stream)? {
                    Command::Credit(count) => self.credits += count,
                    _ => return Ok(false),
                }
            }
            self.credits -= 1;
            let slot = slot * self.of as usize + self.number as usize;
            let report = source.unit(&order, split, positions, slot);
            send_report(&mut self.stream, Some(&report))?;
        }
        send_report(&mut self.stream, None)?;
        Ok(true)
    }

    fn units(&self, split: Split) -> Box<dyn Iterator<Item = Range<u64>>> {
        let share = self.plan.share(split);
        let (number, of) = (self.number, self.of);
        if self.plan.supply.streams {
            let per_file = self.plan.supply.layout.dataset.samples_per_file;
            return Box::new(stream_pieces(share, per_file, of, number, self.plan.piece()));
        }
        Box::new((number..share.steps).step_by(of as usize).map(move |step| share.batch_positions(step)))
    }
}

enum Handle {
    Process(libc::pid_t),
    Thread(JoinHandle<()>),
}

/// The trainer's side of one worker.
struct Line {
    stream: File,
    handle: Handle,
    /// The worker's whole part of the epoch has been received.
    finished: bool,
}

pub struct Pool {
    plan: Plan,
    lines: Vec<Line>,
    /// The worker whose unit is next.
    turn: usize,
    /// Samples received but not yet returned, streams only.
    held: u64,
    mixed: bool,
    batch: u64,
    pending: Batch,
}

impl Pool {
    pub fn start(plan: Plan, count: u64) -> Outcome<Pool> {
        let failed = |error| Failure::new(Kind::System, format!("cannot start a loader worker: {error}"));
        let (mut streams, mut handles) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (ours, theirs) = UnixStream::pair().map_err(failed)?;
            let [ours, theirs] = [ours, theirs].map(|stream| File::from(OwnedFd::from(stream)));
            streams.push(ours);
            let worker = Worker { plan: plan.clone(), number, of: count, stream: theirs, credits: 0 };
            handles.push(match plan.terms.workers {
                WorkerKind::Threads => Handle::Thread(std::thread::spawn(move || drop(worker.run()))),
                WorkerKind::Processes => Handle::Process(forked(worker, &mut streams).map_err(failed)?),
            });
        }
        let line = |(stream, handle)| Line { stream, handle, finished: true };
        let mut lines: Vec<Line> = streams.into_iter().zip(handles).map(line).collect();
        // Every credit used is returned within the epoch, so once is enough.
        let ahead = Pool::ahead(&plan, count);
        for line in &mut lines {
            send(&mut line.stream, &Command::Credit(ahead)).map_err(failed)?;
        }
        Ok(Pool { plan, lines, turn: 0, held: 0, mixed: false, batch: 0, pending: Batch::default() })
    }

    /// A stream needs credits for its part of the shuffle buffer and of the prefetched batches.
    fn ahead(plan: &Plan, workers: u64) -> u64 {
        if !plan.supply.streams {
            return plan.ahead();
        }
        let batches = plan.ahead().saturating_mul(workers).saturating_mul(plan.batch);
        let samples = plan.shuffle_buffer().saturating_add(batches);
        samples.div_ceil(plan.piece() * workers).max(2)
    }

    fn lost(&self, worker: usize, error: &io::Error) -> Failure {
        Failure::new(Kind::System, format!("loader worker {worker} exited before its work was done ({error})"))
            .remedy("it was killed or ran out of memory; check the kernel log")
    }

    /// Returns the next unit in turn; `None` when all workers are done.
    fn unit(&mut self) -> Outcome<Option<Report>> {
        while self.lines.iter().any(|line| !line.finished) {
            let turn = self.turn;
            self.turn = (turn + 1) % self.lines.len();
            if self.lines[turn].finished {
                continue;
            }
            match receive_report(&mut self.lines[turn].stream) {
                Ok(Some(report)) => {
                    // A worker that is done may be gone already; its exit is noticed later.
                    let _ = send(&mut self.lines[turn].stream, &Command::Credit(1));
                    return Ok(Some(report));
                }
                Ok(None) => self.lines[turn].finished = true,
                Err(error) => return Err(self.lost(turn, &error)),
            }
        }
        Ok(None)
    }

    /// Returns pieces of streams until there is a batch; before the first one, until the shuffle buffer is full.
    fn streamed_batch(&mut self) -> Outcome<Batch> {
        let batch = self.batch;
        let wanted = batch + if self.mixed { 0 } else { self.plan.shuffle_buffer() };
        self.mixed = true;
        while self.held < wanted {
            let Some(report) = self.unit()? else { break };
            self.held += report.samples + report.failed;
            self.pending.bytes += report.bytes;
            self.pending.read_nanos += report.read_nanos;
            self.pending.preprocess_nanos += report.preprocess_nanos;
            self.pending.failed += report.failed;
            self.pending.failure = self.pending.failure.take().or(report.failure);
        }
        let given = batch.min(self.held);
        self.held -= given;
        let mut batch = std::mem::take(&mut self.pending);
        batch.samples = given.saturating_sub(batch.failed);
        Ok(batch)
    }

    /// Discards units of an epoch that was stopped by an error or an interrupt.
    fn drain(&mut self) -> Outcome<()> {
        while self.unit()?.is_some() {}
        Ok(())
    }
}

impl Loader for Pool {
    fn begin(&mut self, split: Split, epoch: u64) -> Outcome<()> {
        self.drain()?;
        (self.turn, self.held, self.mixed, self.pending) = (0, 0, false, Batch::default());
        self.batch = self.plan.share(split).batch;
        for number in 0..self.lines.len() {
            let line = &mut self.lines[number];
            line.finished = false;
            send(&mut line.stream, &Command::Begin(split, epoch)).map_err(|error| self.lost(number, &error))?;
        }
        Ok(())
    }

    fn next(&mut self) -> Outcome<Batch> {
        let skip = self.plan.terms.skip_failures;
        let batch = match self.plan.supply.streams {
            true => self.streamed_batch()?,
            false => self.unit()?.ok_or_else(|| Failure::new(Kind::System, "the loader has no more batches"))?,
        };
        checked(batch, skip)
    }

    fn processes(&self) -> Vec<libc::pid_t> {
        let process = |line: &Line| if let Handle::Process(id) = line.handle { Some(id) } else { None };
        self.lines.iter().filter_map(process).collect()
    }
}

/// Forks a worker; `trainers` are the trainer's ends so far.
fn forked(worker: Worker, trainers: &mut Vec<File>) -> io::Result<libc::pid_t> {
    processes::fork(|| {
        // A worker with copies of these would never learn that the trainer is gone: it would be waiting for itself.
        trainers.clear();
        processes::leave_interrupts_to_parent();
        spans::name_rank();
        // An error here means that the trainer ended first.
        i32::from(worker.run().is_err())
    })
}

impl Drop for Pool {
    fn drop(&mut self) {
        // A worker that is gone does not need a message.
        let end = |mut line: Line| {
            let _ = send(&mut line.stream, &Command::End);
            let _ = UnixStream::from(OwnedFd::from(line.stream)).shutdown(Shutdown::Both);
            line.handle
        };
        let handles: Vec<Handle> = self.lines.drain(..).map(end).collect();
        for handle in handles {
            match handle {
                Handle::Process(id) => drop(processes::wait(id)),
                Handle::Thread(thread) => drop(thread.join()),
            }
        }
    }
}
