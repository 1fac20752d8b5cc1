//! Discrete-event simulation of a pipeline. It is deterministic: the same pipeline always takes the same time.
//!
//! Work on a shared resource advances on the resource's clock, which runs at the rate that each active reader receives.
//! A reader that joins or leaves therefore changes the speed of that clock, but no event that is already scheduled.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use super::pipeline::{ALL_KINDS, Batch, Dispatch, KINDS, Kind, Order, Pass, Pipeline, Work};

/// Conditions under which a pipeline is replayed.
#[derive(Clone, Debug)]
pub struct World {
    pub cores: f64,
    /// Slowdown of storage per additional active reader: 0 if the latency is constant, 1 if readers share the bandwidth.
    pub slope: f64,
    /// Number of readers at which storage reaches its maximum throughput; zero if there is no maximum.
    pub storage_readers: usize,
    /// How much slower than average each reader is, for reasons other than its batches; empty if all readers are equal.
    pub slowness: Vec<f64>,
}

/// The outcome of a replay.
#[derive(Clone, Default, Debug)]
pub struct Played {
    pub time_ns: f64,
    pub wait_ns: f64,
    /// Waits for the readers' interpreter locks.
    pub gil_ns: f64,
    /// For each batch of all passes, the part of its production that other readers slow down, and the step after it.
    pub shared: Vec<f32>,
    pub thought: Vec<f32>,
}

/// Replays a pipeline. If `records` is set, the result contains the duration of each production and step.
pub fn play(pipeline: &Pipeline, world: &World, records: bool) -> Played {
    let mut played = Played::default();
    for pass in &pipeline.passes {
        let mut player = Player::new(pass, pipeline, world);
        player.run();
        played.time_ns += player.now + pass.gap_ns;
        played.wait_ns += player.waited;
        played.gil_ns += player.gil;
        if records {
            played.shared.extend(player.shared);
            played.thought.extend(player.thought);
        }
    }
    played
}

/// An event, and the time on its clock at which it is due.
#[derive(Clone, Copy)]
struct Due {
    at: f64,
    number: u64,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// A reader's phase ends.
    Reader(u32),
    /// A request reaches its reader.
    Request(u32),
    /// A message is complete.
    Message(u32),
    Trainer,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Reversed, so that the earliest event is the greatest.
impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

/// A clock whose rate depends on the number of its users.
#[derive(Default)]
struct Clock {
    time: f64,
    due: BinaryHeap<Due>,
}

/// State of the trainer.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Trainer {
    Leads,
    /// In `next()`, and no message is available.
    Waits,
    Takes(u32),
    Returns,
    Computes,
    Pauses,
    Ends,
    Done,
}

/// State of a reader: its work, and its progress.
struct Reader {
    queue: VecDeque<u32>,
    /// The batch in production; `None` while the reader starts or is idle.
    batch: Option<u32>,
    is_busy: bool,
    work: Work,
    phase: usize,
    /// Start of the phase, start of the production, and the time in phases that other readers slow down.
    began: f64,
    since: f64,
    shared: f64,
    /// CPU work of the production, from which waits for the interpreter lock are computed.
    cpu: f64,
}

/// Phases of a production: first the turnaround, then one phase for each kind of work.
const TURN: usize = 0;
const END: usize = KINDS + 1;

/// A thread releases Python's interpreter lock after at most this time.
const SWITCH_NS: f64 = 5e6;

struct Player<'a> {
    pass: &'a Pass,
    world: &'a World,
    order: Order,
    dispatch: Dispatch,
    now: f64,
    number: u64,
    fixed: BinaryHeap<Due>,
    cpu: Clock,
    io: Clock,
    lock: VecDeque<u32>,
    readers: Vec<Reader>,
    /// The reader that produces each batch.
    maker: Vec<u32>,
    queue: VecDeque<u32>,
    idle: VecDeque<u32>,
    ready: VecDeque<u32>,
    stored: Vec<bool>,
    trainer: Trainer,
    step: usize,
    /// The batch that was received last, and the number of requests sent.
    taken: u32,
    requested: usize,
    /// Arrival of each reader's latest request: requests do not overtake each other.
    arrives: Vec<f64>,
    entered: f64,
    thinks: f64,
    waited: f64,
    gil: f64,
    shared: Vec<f32>,
    thought: Vec<f32>,
}

impl<'a> Player<'a> {
    fn new(pass: &'a Pass, pipeline: &Pipeline, world: &'a World) -> Player<'a> {
        let batches = pass.batches.len();
        let reader = || Reader {
            queue: VecDeque::new(),
            batch: None,
            is_busy: false,
            work: [0.0; KINDS],
            phase: END,
            began: 0.0,
            since: 0.0,
            shared: 0.0,
            cpu: 0.0,
        };
        Player {
            pass,
            world,
            order: pipeline.order,
            dispatch: pipeline.dispatch,
            now: 0.0,
            number: 0,
            fixed: BinaryHeap::new(),
            cpu: Clock::default(),
            io: Clock::default(),
            lock: VecDeque::new(),
            readers: (0..pass.starts.len().max(1)).map(|_| reader()).collect(),
            maker: vec![0; batches],
            queue: VecDeque::new(),
            idle: VecDeque::new(),
            ready: VecDeque::new(),
            stored: vec![false; batches],
            trainer: Trainer::Leads,
            step: 0,
            taken: 0,
            requested: 0,
            arrives: vec![0.0; pass.starts.len().max(1)],
            entered: 0.0,
            thinks: 0.0,
            waited: 0.0,
            gil: 0.0,
            shared: vec![0.0; batches],
            thought: vec![0.0; batches],
        }
    }

    fn run(&mut self) {
        self.after(self.pass.lead_ns, What::Trainer);
        for (reader, start) in self.pass.starts.iter().enumerate() {
            let mut work = start.work;
            work[Kind::Cpu as usize] += start.first_ns;
            self.begin(reader, None, work, start.created_ns);
        }
        while self.trainer != Trainer::Done {
            let Some(what) = self.advance() else { break };
            match what {
                What::Reader(reader) => self.phase_ends(reader as usize),
                What::Request(batch) => self.request_arrives(batch),
                What::Message(batch) => {
                    self.ready.push_back(batch);
                    if self.trainer == Trainer::Waits {
                        self.look();
                    }
                }
                What::Trainer => self.trainer_acts(),
            }
        }
    }

    fn after(&mut self, delay: f64, what: What) {
        self.number += 1;
        self.fixed.push(Due { at: self.now + delay.max(0.0), number: self.number, what });
    }

    /// Returns the rates of the CPU clock and of the storage clock.
    fn rates(&self) -> (f64, f64) {
        let (computing, reading) = (self.cpu.due.len() as f64, self.io.due.len() as f64);
        let cpu = if computing > self.world.cores { self.world.cores / computing } else { 1.0 };
        let rate = |readers: f64| 1.0 / (1.0 + self.world.slope * (readers - 1.0).max(0.0));
        let most = self.world.storage_readers as f64;
        let io = if most > 0.0 && reading > most { rate(most) * most / reading } else { rate(reading) };
        (cpu, io)
    }

    /// Moves to the next event.
    fn advance(&mut self) -> Option<What> {
        let (cpu, io) = self.rates();
        let due = |clock: &Clock, rate: f64, now: f64| {
            clock.due.peek().map_or(f64::INFINITY, |due| now + (due.at - clock.time).max(0.0) / rate)
        };
        let at_fixed = self.fixed.peek().map_or(f64::INFINITY, |due| due.at);
        let (at_cpu, at_io) = (due(&self.cpu, cpu, self.now), due(&self.io, io, self.now));
        let next = at_fixed.min(at_cpu).min(at_io);
        if next.is_infinite() {
            return None;
        }
        let passed = (next - self.now).max(0.0);
        self.cpu.time += passed * cpu;
        self.io.time += passed * io;
        self.now = next.max(self.now);
        let heap = match next {
            _ if next == at_fixed => &mut self.fixed,
            _ if next == at_cpu => &mut self.cpu.due,
            _ => &mut self.io.due,
        };
        heap.pop().map(|due| due.what)
    }

    fn compute(&mut self, work: f64, what: What) {
        self.number += 1;
        self.cpu.due.push(Due { at: self.cpu.time + work, number: self.number, what });
    }

    fn begin(&mut self, reader: usize, batch: Option<u32>, work: Work, turn: f64) {
        let own = &mut self.readers[reader];
        (own.batch, own.is_busy, own.work, own.phase) = (batch, true, work, TURN);
        (own.cpu, own.shared, own.since) = (work[Kind::Cpu as usize], 0.0, self.now);
        self.after(turn, What::Reader(reader as u32));
    }

    /// Ends a phase of a reader and starts the next one that is not empty.
    fn phase_ends(&mut self, reader: usize) {
        let own = &mut self.readers[reader];
        if own.phase != TURN && matches!(ALL_KINDS[own.phase - 1], Kind::Io | Kind::Cpu | Kind::Hand) {
            own.shared += self.now - own.began;
        } else if own.phase == Kind::Lock as usize + 1 {
            self.lock.pop_front();
            if let Some(&next) = self.lock.front() {
                let work = self.readers[next as usize].work[Kind::Lock as usize];
                self.after(work, What::Reader(next));
            }
        }
        let own = &mut self.readers[reader];
        own.phase += 1;
        own.began = self.now;
        while own.phase < END && own.work[own.phase - 1] <= 0.0 {
            own.phase += 1;
        }
        if own.phase == END {
            return self.finish(reader);
        }
        let (kind, work) = (ALL_KINDS[own.phase - 1], own.work[own.phase - 1]);
        let what = What::Reader(reader as u32);
        match kind {
            Kind::Fixed => self.after(work, what),
            Kind::Cpu | Kind::Hand => self.compute(work, what),
            Kind::Io => {
                self.number += 1;
                self.io.due.push(Due { at: self.io.time + work, number: self.number, what });
            }
            Kind::Lock => {
                self.lock.push_back(reader as u32);
                if self.lock.len() == 1 {
                    self.after(work, what);
                }
            }
        }
    }

    /// Handles a reader that has started or has finished its batch.
    fn finish(&mut self, reader: usize) {
        let own = &mut self.readers[reader];
        own.is_busy = false;
        if let Some(batch) = own.batch.take() {
            self.shared[batch as usize] = own.shared as f32;
            self.after(self.pass.batches[batch as usize].ship_ns, What::Message(batch));
        }
        let queue = match self.dispatch {
            Dispatch::Shared => &mut self.queue,
            Dispatch::RoundRobin => &mut self.readers[reader].queue,
        };
        match queue.pop_front() {
            Some(batch) => self.produce(reader, batch),
            None => self.idle.push_back(reader as u32),
        }
    }

    fn produce(&mut self, reader: usize, batch: u32) {
        let own: &Batch = &self.pass.batches[batch as usize];
        let slowness = self.world.slowness.get(reader).copied().unwrap_or(1.0);
        self.maker[batch as usize] = reader as u32;
        self.begin(reader, Some(batch), own.work.map(|ns| ns * slowness), own.turn_ns);
    }

    fn request_arrives(&mut self, batch: u32) {
        match self.dispatch {
            Dispatch::Shared => match self.idle.pop_front() {
                Some(reader) => self.produce(reader as usize, batch),
                None => self.queue.push_back(batch),
            },
            Dispatch::RoundRobin => {
                let reader = self.maker[batch as usize] as usize;
                match self.readers[reader].is_busy {
                    true => self.readers[reader].queue.push_back(batch),
                    false => self.produce(reader, batch),
                }
            }
        }
    }

    /// Sends the next request, if there is one. If batches are taken in any order, the request goes to the given reader.
    fn request(&mut self, free: Option<u32>) {
        let batch = self.requested;
        if batch >= self.pass.batches.len() {
            return;
        }
        self.requested += 1;
        let own = self.pass.batches[batch].reader % self.readers.len() as u32;
        self.maker[batch] = free.filter(|_| self.order == Order::Any).unwrap_or(own);
        let queue = if self.dispatch == Dispatch::Shared { 0 } else { self.maker[batch] as usize };
        let at = (self.now + self.pass.batches[batch].ask_ns.max(0.0)).max(self.arrives[queue]);
        self.arrives[queue] = at;
        self.after(at - self.now, What::Request(batch as u32));
    }

    fn trainer_acts(&mut self) {
        match self.trainer {
            Trainer::Leads => {
                self.waited += self.now;
                for _ in 0..self.pass.requested.max(1) {
                    self.request(None);
                }
                self.enter();
            }
            Trainer::Takes(batch) => {
                self.taken = batch;
                self.stored[batch as usize] = true;
                match self.order {
                    Order::Any => self.returns(batch as usize),
                    Order::InOrder => self.look(),
                }
            }
            Trainer::Returns => self.think(),
            Trainer::Computes => {
                self.trainer = Trainer::Pauses;
                self.after(self.pass.batches[self.step].think_ns, What::Trainer);
            }
            Trainer::Pauses => {
                self.thought[self.step] = (self.now - self.thinks) as f32;
                self.step += 1;
                self.enter();
            }
            Trainer::Ends => {
                self.waited += self.pass.tail_ns;
                self.trainer = Trainer::Done;
            }
            Trainer::Waits | Trainer::Done => {}
        }
    }

    fn enter(&mut self) {
        self.entered = self.now;
        if self.step < self.pass.batches.len() {
            return self.look();
        }
        self.trainer = Trainer::Ends;
        self.after(self.pass.tail_ns, What::Trainer);
    }

    /// Looks for the batch that the trainer needs, first among the stored batches and then in the next message.
    fn look(&mut self) {
        if self.order == Order::InOrder && self.stored[self.step] {
            return self.returns(self.step);
        }
        let Some(batch) = self.ready.pop_front() else {
            self.trainer = Trainer::Waits;
            return;
        };
        let own = &self.pass.batches[batch as usize];
        let maker = &self.readers[self.maker[batch as usize] as usize];
        // A reader that is computing releases its interpreter lock late.
        let usual = own.work[Kind::Cpu as usize].clamp(1.0, SWITCH_NS);
        let gil = if maker.is_busy { own.gil_ns * maker.cpu.min(SWITCH_NS) / usual } else { 0.0 };
        self.trainer = Trainer::Takes(batch);
        // The wait ends at the latest when the reader becomes idle.
        let gil = gil.min(2.0 * own.gil_ns).min(self.left(self.maker[batch as usize] as usize));
        self.gil += gil;
        self.after(own.take_ns + gil, What::Trainer);
    }

    /// Returns how long a reader continues computing with its current requests.
    fn left(&self, reader: usize) -> f64 {
        let own = &self.readers[reader];
        let cpu = |work: &Work| work[Kind::Cpu as usize] + work[Kind::Hand as usize];
        let queued: f64 = own.queue.iter().map(|&batch| cpu(&self.pass.batches[batch as usize].work)).sum();
        let all: f64 = own.work.iter().sum();
        let part = if all > 0.0 { cpu(&own.work) / all } else { 0.0 };
        let current = if own.is_busy { (all - (self.now - own.since)).max(0.0) * part } else { 0.0 };
        current + queued
    }

    fn returns(&mut self, batch: usize) {
        self.trainer = Trainer::Returns;
        self.after(self.pass.batches[batch].return_ns, What::Trainer);
    }

    fn think(&mut self) {
        self.waited += self.now - self.entered;
        self.thinks = self.now;
        let free = self.maker.get(self.taken as usize).copied();
        self.request(free);
        self.trainer = Trainer::Computes;
        match self.pass.batches[self.step].think_cpu_ns {
            ns if ns > 0.0 => self.compute(ns, What::Trainer),
            _ => self.after(0.0, What::Trainer),
        }
    }
}
