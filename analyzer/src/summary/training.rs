//! Training: finds trainers and their readers, and measures how long each trainer waited for its readers.
//!
//! If spans show that a process waits for batches or computes, it is a trainer, and it trains from the first of these
//! spans to the end of the last. Without spans, training is inferred. A process is then a trainer if it receives
//! messages from processes of its own program that read files, works after those messages, and runs in a language used
//! for training. It waits when its main thread waits for a message or a lock while the readers are alive. After the
//! last message, it trains until its next wait, or until its readers have ended. A process that only receives messages
//! is not a trainer but the parent of a pool: it collects results.
//!
//! The activity of the readers during a wait shows its cause. Idle readers make no batch, so the wait is divided in
//! proportion to the time of the busy ones: into I/O and everything else (decoding, copying, sleeping). Everything a
//! reader does before it takes the task of its first batch counts as its start, which is mostly imports.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::groups::io_compute_overlap::Beside;
use super::groups::lanes::{LaneMeasure, Overlap, Own, Track, WORK_NS};
use super::tree::{LaneId, SPAWNED, above, group, is_fork_server, is_worker, may_train, parents};
use crate::catalog::{Catalog, Kind, Origin, Process, is_gpu_driver, is_stored};
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::{Counted, FileCount, ThreadCount};
use crate::summary::devices::{DeviceUse, Devices};
use crate::summary::time::intervals::{Interval, Set};
use crate::summary::waits::parts::{Part, Parts};
use crate::summary::waits::service_children::{HELPER, HELPERS};
use crate::summary::waits::thread::Faults;
use crate::summary::waits::trainers::{TrainerWaits, WaitKind, Waits};

/// How the readers of a trainer get their work and their data.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Loading {
    /// `true` if its readers are forks of it, which have the modules that it had imported.
    pub forks_readers: bool,
    /// `true` if its readers get another request whenever they have made a batch, instead of in turns.
    pub out_of_order: bool,
    /// `true` if batches from several pipes alternate, as those of several loaders do in one loop.
    pub mixes_loaders: bool,
    /// The longest time, over the processes of its readers, in which one waited for files while it waited for data.
    pub reader_file_wait_ns: i64,
    /// The process that slept while its readers waited for it; `null` if its readers slept, or no process did.
    pub sleeper: Option<u32>,
    /// A process that sends its readers much more through pipes and sockets than they send to it; `null` if none does.
    pub shared_by: Option<u32>,
    /// `true` if batches were ready long before the training that calls show: it may have started earlier.
    pub may_start_earlier: bool,
}

/// A trainer with its readers.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct RankGroup {
    /// Key in the table of processes.
    pub proc: u32,
    pub host: String,
    pub pid: i32,
    /// The thread that trains.
    #[serde(default)]
    pub tid: i32,
    pub rank: Option<i32>,
    /// Name of the trainer: its script, if it runs one.
    pub trainer: String,
    /// `true` if the wait is inferred from calls instead of spans.
    pub inferred: bool,
    /// `true` if the trace shows PyTorch.
    #[serde(default)]
    pub torch: bool,
    /// `true` if the run used a GPU but the trace has no GPU timing: GPU work may have hidden a wait of the host.
    #[serde(default)]
    pub gpu_untimed: bool,
    /// The time of its GPU, if something timed it.
    #[serde(default)]
    pub device: Option<DeviceUse>,
    /// Start of the training, and how long the process had been running before it, within the run; `null` if a time
    /// window excludes that.
    pub start_ts: i64,
    pub startup_ns: Option<i64>,
    pub trained_ns: i64,
    /// Waits for data without those that the work of its GPU hid; `null` if unknown.
    pub waited_ns: Option<i64>,
    /// The wait until readers had started, and then the parts in which they were in I/O and busy with other work;
    /// `null` if unknown.
    #[serde(default)]
    pub wait_start_ns: Option<i64>,
    pub wait_io_ns: Option<i64>,
    pub wait_elsewhere_ns: Option<i64>,
    /// Causes of the wait, which sum to the wait. `null` if the trace does not show who ended it.
    #[serde(default)]
    pub causes: Option<Parts>,
    /// Page faults of the threads that made its batches, in intervals in which storage served some.
    #[serde(default)]
    pub faults: Option<Faults>,
    /// `true` if waits include the work of the training thread on batches that it had received.
    #[serde(default)]
    pub counts_receipts: bool,
    /// The part of the wait in which it made batches itself, as spans show it.
    #[serde(skip)]
    pub own_fetch_ns: i64,
    /// How often the training thread created readers, as calls show it.
    #[serde(default)]
    pub generations: u64,
    #[serde(flatten)]
    pub loading: Loading,
    /// Waits during the training that are not for data, if only calls show waits: for threads or programs that worked
    /// on input from the trainer, for locks that they held, for other ranks or remote peers, and waits with an unknown
    /// end.
    #[serde(default)]
    pub own_work_ns: Option<i64>,
    #[serde(default)]
    pub lock_wait_ns: Option<i64>,
    #[serde(default)]
    pub peer_wait_ns: Option<i64>,
    #[serde(default)]
    pub unknown_wait_ns: Option<i64>,
    /// The training thread outside its waits: waiting for Python's interpreter lock, and ready to run without a free CPU.
    #[serde(default)]
    pub own_gil_ns: Option<i64>,
    #[serde(default)]
    pub own_no_cpu_ns: Option<i64>,
    /// Its waits for files that did not exist yet.
    #[serde(default)]
    pub file_waits: u64,
    /// The training thread before the training, by cause.
    #[serde(default)]
    pub startup_causes: Option<Parts>,
    /// The part of the waits for peers that other trainers ended, longest first.
    #[serde(default)]
    pub peers: Vec<PeerWait>,
    /// The threads and programs that ended its waits, the longest waits first.
    #[serde(default)]
    pub waited_for: Vec<WaitedFor>,
    /// Upper bound of the time that waits of any rank cost this one: its own waits plus communication, in which ranks
    /// wait for one another, limited to the time in which any rank waited. `null` if the rank does not communicate.
    #[serde(default)]
    pub held_ns: Option<i64>,
    /// `null` if no span shows it. The clock of a GPU counts instead of spans of the host around launches, which do not time its work.
    pub computed_ns: Option<i64>,
    /// Time in communication spans.
    #[serde(default)]
    pub communicated_ns: i64,
    /// Time in checkpoint spans; `null` if there are none but large files were written.
    #[serde(default)]
    pub checkpoint_ns: Option<i64>,
    /// Time in which the trainer's own thread wrote and synchronized files during training, without compute or a wait
    /// at the same time; `null` if calls were not recorded.
    #[serde(default)]
    pub written_ns: Option<i64>,
    /// The part of it in calls that write or sync; the rest lies between opening and closing these files. `null` if unknown.
    #[serde(default)]
    pub written_calls_ns: Option<i64>,
    /// The part of it after the last batch; `null` if spans show waits.
    #[serde(default)]
    pub written_last_ns: Option<i64>,
    /// Its own thread in calls that read files during the training, in addition to its readers, and in page faults of mapped
    /// files; `null` if spans show waits.
    #[serde(default)]
    pub own_read_ns: Option<i64>,
    /// The part of it in page faults, at least.
    #[serde(default)]
    pub own_fault_ns: i64,
    /// I/O of the trainer and its readers that overlaps its compute; `null` if compute is unknown, or if the process
    /// group has several trainers.
    #[serde(default)]
    pub overlap: Option<Beside>,
    /// Number of waits that spans show.
    pub batches: u64,
    /// Number of epochs, from the first that spans number to the last; zero if spans number none.
    #[serde(default)]
    pub epochs: u64,
    pub readers: Vec<ReaderUse>,
}

/// The waits of a trainer for one thread of its own, or for processes of one name.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct WaitedFor {
    pub kind: WaitKind,
    /// The name of the process.
    pub name: String,
    /// The number of processes with this name, and one of them.
    pub processes: u64,
    pub pid: i32,
    /// The thread, if it belongs to the trainer's process.
    pub tid: Option<i32>,
    /// The number of threads of the trainer's process, if each ended few waits.
    #[serde(default)]
    pub threads: u64,
    pub waits: u64,
    pub wait_ns: i64,
    /// The activities of the thread in the meantime.
    pub causes: Parts,
}

impl WaitedFor {
    /// Returns `true` for child processes that are not readers.
    pub fn is_helper(&self) -> bool {
        self.tid.is_none() && [HELPER, HELPERS].contains(&self.name.as_str())
    }
}

/// Total time that a trainer waited for another trainer.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct PeerWait {
    pub proc: u32,
    pub pid: i32,
    pub rank: Option<i32>,
    pub wait_ns: i64,
}

/// Returns `true` if there are readers, and all of them are forks of their trainers.
pub fn fork_all_readers(groups: &[RankGroup]) -> bool {
    let mut with_readers = groups.iter().filter(|group| !group.readers.is_empty()).peekable();
    with_readers.peek().is_some() && with_readers.all(|group| group.loading.forks_readers)
}

impl RankGroup {
    /// Returns the least part of its writes in which it was ready to run without a free CPU: the time of both that does not fit
    /// into the training.
    pub fn written_without_cpu_ns(&self) -> i64 {
        let written = self.written_ns.unwrap_or(0);
        let outside = self.trained_ns - self.waited_ns.unwrap_or(0);
        (written + self.own_no_cpu_ns.unwrap_or(0) - outside).clamp(0, written)
    }

    /// Returns `true` if the sleeps in its wait for data are those of a process that serves its readers.
    pub fn waits_for_sleeper(&self) -> bool {
        self.loading.sleeper.is_some() || self.waits_for_helper()
    }

    /// Returns `true` if a child process that serves its readers set their pace for most of its wait for data.
    fn waits_for_helper(&self) -> bool {
        let row = self.waited_for.iter().find(|row| row.kind == WaitKind::Data && row.is_helper());
        row.is_some_and(|row| 2 * row.wait_ns > self.waited_ns.unwrap_or(0))
    }

    /// Returns `true` if readers slept until files existed for most of its wait for data.
    pub fn awaits_files(&self) -> bool {
        let slept = self.loading.reader_file_wait_ns;
        slept > 0 && self.waited_ns.is_some_and(|waited| 2 * slept >= waited)
    }

    /// Returns the time that it waited for another trainer.
    pub fn waited_for(&self, proc: u32) -> i64 {
        self.peers.iter().filter(|peer| peer.proc == proc).map(|peer| peer.wait_ns).sum()
    }

    /// Returns `true` if the trainer's own thread is the only one that reads for it, or makes most of its batches: a second
    /// loader, without workers, may take the time.
    pub fn reads_itself(&self) -> bool {
        let is_own = |reader: &ReaderUse| (reader.proc, reader.tid) == (self.proc, self.tid);
        let makes_most =
            self.waited_ns.is_some_and(|waited| waited > 0 && MOSTLY_OWN * waited as f64 <= self.own_fetch_ns as f64);
        makes_most || !self.readers.is_empty() && self.readers.iter().all(is_own)
    }

    /// Returns `true` if its wait may not be for data: the wait was inferred from calls, and its readers were idle
    /// during it, as they are while their trainer waits for a thread, a child or a rank.
    pub fn is_doubtful(&self) -> bool {
        let is_guessed = self.inferred && self.causes.is_none() && !self.reads_itself();
        let Some(waited) = self.waited_ns.filter(|_| is_guessed) else { return false };
        let busiest = self.readers.iter().filter_map(ReaderUse::busy_part).max_by(f64::total_cmp);
        let at_work = waited - self.wait_start_ns.unwrap_or(0);
        at_work as f64 >= DOUBTED * self.trained_ns as f64 && busiest.is_some_and(|part| part < DOUBTED_BUSY)
    }

    /// Returns the time before the training that is within the run: a process starts before its first event.
    pub fn startup_within(&self, run_start: i64) -> Option<i64> {
        Some(self.startup_ns?.min((self.start_ts - run_start).max(0)))
    }

    /// Returns the largest number of readers that were alive at the same time: processes, and threads of the trainer's process. The
    /// trainer itself counts if there are no others.
    pub fn readers_at_once(&self) -> usize {
        let is_trainer = |reader: &ReaderUse| (reader.proc, reader.tid) == (self.proc, self.tid);
        let is_alone = self.readers.iter().all(is_trainer);
        let mut lives: BTreeMap<(u32, Option<i32>), (i64, i64)> = BTreeMap::new();
        for reader in self.readers.iter().filter(|reader| is_alone || !is_trainer(reader)) {
            let key = (reader.proc, (reader.proc == self.proc).then_some(reader.tid));
            let life = lives.entry(key).or_insert((reader.first_ts, reader.last_ts));
            *life = (life.0.min(reader.first_ts), life.1.max(reader.last_ts));
        }
        let alive = |at: i64| lives.values().filter(|(first, last)| *first <= at && at < *last).count();
        lives.values().map(|(first, _)| alive(*first)).max().unwrap_or(0)
    }
}

impl ReaderUse {
    /// Returns the share of its trainer's wait in which the reader was busy, once it had started; `None` if it was not
    /// alive then.
    pub fn busy_part(&self) -> Option<f64> {
        let alive = self.wait_alive_ns - self.wait_start_ns;
        (alive > 0).then(|| (alive - self.wait_idle_ns).max(0) as f64 / alive as f64)
    }
}

/// Returns `true` if any trainer's wait may not be for data.
pub fn are_doubtful(groups: &[RankGroup]) -> bool {
    groups.iter().any(RankGroup::is_doubtful)
}

/// Returns the trainers whose wait is known, or all trainers if no wait is known.
pub fn told(groups: &[RankGroup]) -> Vec<&RankGroup> {
    let knows = |group: &&RankGroup| group.waited_ns.is_some();
    let any = groups.iter().any(|group| knows(&group));
    groups.iter().filter(|group| !any || knows(group)).collect()
}

/// Returns an upper bound of the time that interdependent ranks lost to waits for batches: without those waits, the
/// rank that loses least would be no slower. `None` if the ranks do not wait for one another.
pub fn held(groups: &[&RankGroup]) -> Option<i64> {
    groups.iter().map(|group| group.held_ns).collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// Role of a process.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Trainer,
    Reader,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Trainer => "trainer",
            Role::Reader => "reader",
        }
    }

    /// Returns the role of a process; `None` if it is neither trainer nor reader.
    pub fn of(proc: u32, groups: &[RankGroup]) -> Option<Role> {
        let reads = |group: &RankGroup| group.readers.iter().any(|reader| reader.proc == proc);
        let trains = groups.iter().any(|group| group.proc == proc);
        let is_reader = || groups.iter().any(reads).then_some(Role::Reader);
        trains.then_some(Role::Trainer).or_else(is_reader)
    }
}

/// A thread that reads for a trainer, or the trainer's own thread if it reads itself.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ReaderUse {
    pub proc: u32,
    pub pid: i32,
    pub tid: i32,
    pub name: String,
    /// The pipe through which its process sends batches, by number: the workers of one PyTorch loader share it.
    #[serde(default)]
    pub channel: Option<u64>,
    pub bytes_read: u64,
    pub io_ns: i64,
    /// Time in calls that block, while it was alive.
    #[serde(default)]
    pub idle_ns: i64,
    #[serde(default)]
    pub first_ts: i64,
    #[serde(default)]
    pub last_ts: i64,
    /// Time during its trainer's wait in which it was alive, starting, in I/O, and idle.
    pub wait_alive_ns: i64,
    #[serde(default)]
    pub wait_start_ns: i64,
    pub wait_io_ns: i64,
    pub wait_idle_ns: i64,
}

/// Fewer messages than this do not show a pattern.
const MESSAGES_MIN: u64 = 3;

/// A process that waited this share of its wait for others to start took no batches.
const ONLY_START: f64 = 0.9;

/// A process that did anything but wait for less than one part in this many of its time does not train.
const ONLY_WAITS: i64 = 200;

/// A trainer works after at least this many messages, and after one in this many: a message may arrive in chunks.
const WORKS_MIN: u64 = 3;
const MESSAGES_A_WORK: u64 = 4;

/// Fewer batches than this of threads of the same process do not show a training.
const BATCHES_MIN: u64 = 8;

/// A trainer works after at least one in this many waits for data, or for results of its threads.
const WAITS_A_WORK: u64 = 10;
const RESULTS_A_WORK: u64 = 2;

/// Name prefix of the shared memory that contains the batches of PyTorch workers.
const TORCH_MEMORY: &str = "/dev/shm/torch_";

/// Name prefixes of spans that only PyTorch programs have: from its profiler, from Lightning, and from our own
/// instrumentation.
const TORCH_SPANS: [&str; 6] =
    ["enumerate(DataLoader)", "aten::", "Optimizer.step#", "[_TrainingEpochLoop]", "optimizer.step", "collate"];

/// If the busiest reader was busy for less than this share of a wait, the readers' activity does not explain it: one of
/// them makes the awaited batch.
const BUSY_LEAST: f64 = 0.5;

/// A trainer makes its batches itself if that is this share of its wait.
const MOSTLY_OWN: f64 = 0.6;

/// Below this busy share, an inferred wait may not be for data, if it takes this share of the training.
const DOUBTED_BUSY: f64 = 0.25;
const DOUBTED: f64 = 0.05;

/// A reader that is busy for this share of its life has never been ahead of its trainer.
const SATURATED: f64 = 0.8;

/// A thread that makes less than this share of all awaited batches is not a reader.
const MAKER_MIN: f64 = 0.02;

/// A process that reads less than this share of the busiest reader's bytes is not a reader: it occasionally reads a
/// setting.
const READER_MIN: f64 = 0.01;

/// Input of all training metrics.
struct Scene<'a> {
    processes: &'a [Process],
    parents: Vec<Option<u32>>,
    names: Vec<String>,
    hosts: Vec<String>,
    counted: &'a Counted,
    lanes: &'a BTreeMap<LaneId, LaneMeasure>,
    /// Waits of trainers, if the trace shows who ended them.
    waits: &'a Waits,
    /// I/O that overlaps compute, per process group.
    beside: &'a BTreeMap<u32, Beside>,
    /// `true` if the trace shows PyTorch.
    torch: bool,
    /// `true` if a GPU was used.
    uses_gpu: bool,
    devices: Devices<'a>,
    /// `true` if trainers were inferred: then their readers are the processes that the inference is based on.
    by_rhythm: bool,
    /// `true` if spans cover all compute.
    knows_computing: bool,
    /// Time in which any trainer waited for its batch, according to spans.
    waited_ns: i64,
    /// `true` if calls were recorded.
    knows_calls: bool,
    /// `true` if spans show checkpoints, or if no written file could be a checkpoint.
    knows_saving: bool,
    /// `true` if no time window excludes the start of the run.
    knows_start: bool,
    /// First event of the run: a process starts before its own first event.
    run_start: i64,
}

/// The overlap to use: with the waits in the trainer's spans, with all its idle calls, or with its idle calls that are
/// not on a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basis {
    Spans = 0,
    Idle = 1,
    Piped = 2,
}

/// Returns every trainer of a trace with its readers; empty if nothing shows training.
pub fn rank_groups(catalog: &Catalog, analysis: &Analysis) -> Vec<RankGroup> {
    found(catalog, analysis).0
}

/// Returns the parents of pools whose workers read files, with these workers: they receive messages as a trainer does,
/// but nothing shows that they train.
pub fn pools(catalog: &Catalog, analysis: &Analysis) -> Vec<RankGroup> {
    found(catalog, analysis).1
}

/// Returns trainers and parents of pools.
fn found(catalog: &Catalog, analysis: &Analysis) -> (Vec<RankGroup>, Vec<RankGroup>) {
    let (counted, knows_start) = (&analysis.counted, !analysis.filter.cuts_runs());
    let (lanes, beside) = (&analysis.measured.lanes, &analysis.measured.beside);
    let processes = catalog.processes();
    let processes = processes.as_slice();
    let (parents, names) = (parents(processes), analysis.measured.waits.names(processes));
    let hosts = catalog.hosts().into_iter().map(|host| host.name).collect();
    let kinds = catalog.kinds();
    let (knows_computing, knows_calls) = (counted.knows_computing(&kinds), counted.knows_calls(&kinds));
    let (torch, by_rhythm) = (tells_of_torch(catalog, &kinds), false);
    let saves = lanes.values().any(|lane| lane.of(Track::Save) > 0);
    let scene = Scene {
        processes,
        parents,
        names,
        hosts,
        counted,
        lanes,
        waits: &analysis.measured.waits,
        beside,
        torch,
        uses_gpu: uses_gpu(catalog, counted),
        devices: Devices::new(counted, processes),
        by_rhythm,
        knows_computing,
        waited_ns: analysis.measured.measures.of(Set::Wait),
        knows_calls,
        knows_saving: saves || knows_calls && !writes_much(catalog, counted),
        knows_start,
        run_start: analysis.bounds().map_or(i64::MIN, |(start, _)| start),
    };
    let by_spans = scene.trainers_by_spans();
    let by_rhythm = by_spans.is_empty();
    let trainers = if by_rhythm { scene.trainers_by_rhythm() } else { by_spans };
    let procs: BTreeSet<u32> = trainers.iter().map(|lane| lane.proc).collect();
    let scene = Scene { by_rhythm, ..scene };
    let groups = trainers.iter().filter_map(|&trainer| scene.group(trainer, &procs));
    let groups = groups.filter(|group| !by_rhythm || !scene.only_launches(group));
    if !by_rhythm {
        return (bounded_by_devices(groups.collect()), Vec::new());
    }
    let (works, others): (Vec<_>, Vec<_>) = groups.partition(|group| scene.works(group));
    match works.is_empty() && !others.is_empty() && hands_over_tensors(catalog) {
        true => (others, works),
        false => (works, others),
    }
}

/// Limits the loss of ranks that wait for each other to the sum of all waits that no GPU hid: each step loses the longest of
/// them at most.
fn bounded_by_devices(mut groups: Vec<RankGroup>) -> Vec<RankGroup> {
    let are_timed = groups.iter().all(|group| group.device.as_ref().is_some_and(DeviceUse::is_covered));
    let exposed: i64 = groups.iter().filter_map(|group| group.waited_ns).sum();
    for group in groups.iter_mut().filter(|_| are_timed) {
        group.held_ns = group.held_ns.map(|held| held.min(exposed));
    }
    groups
}

/// Returns `true` if the run wrote a file that is large enough for a checkpoint and that it did not generate to read
/// itself.
fn writes_much(catalog: &Catalog, counted: &Counted) -> bool {
    let saved =
        |(number, count): (u32, &FileCount)| counted.may_be_checkpoint(count) && is_stored(&catalog.path(number));
    (0u32..).zip(&counted.files).any(saved)
}

/// Returns `true` if a file is PyTorch shared memory.
fn hands_over_tensors(catalog: &Catalog) -> bool {
    catalog.has_file_like(TORCH_MEMORY)
}

/// Returns `true` if a GPU driver was opened.
fn uses_gpu(catalog: &Catalog, counted: &Counted) -> bool {
    let opened = (0u32..).zip(&counted.files).filter(|(_, count)| count.opens > 0);
    opened.into_iter().any(|(number, _)| is_gpu_driver(&catalog.path(number)))
}

fn tells_of_torch(catalog: &Catalog, kinds: &[Kind]) -> bool {
    let is_its = |kind: &Kind| TORCH_SPANS.iter().any(|name| kind.name.starts_with(name));
    kinds.iter().any(|kind| kind.origin == Origin::Span && is_its(kind)) || hands_over_tensors(catalog)
}

impl Scene<'_> {
    fn thread(&self, lane: LaneId) -> ThreadCount {
        let process = self.counted.processes.get(lane.proc as usize);
        process.and_then(|process| process.threads.get(&lane.tid)).map(|thread| **thread).unwrap_or_default()
    }

    fn above(&self, proc: u32) -> Vec<u32> {
        above(&self.parents, proc)
    }

    fn is_fork_server(&self, proc: u32) -> bool {
        is_fork_server(self.processes, &self.parents, proc)
    }

    /// Returns, per process, the thread that waits most for batches, or computes most. A thread that passes batches on to
    /// another one is not a trainer.
    fn trainers_by_spans(&self) -> Vec<LaneId> {
        let spans = |lane: &LaneMeasure| (lane.of(Track::Wait), lane.of(Track::Compute));
        let mut found: BTreeMap<u32, LaneId> = BTreeMap::new();
        for (id, lane) in self.lanes.iter().filter(|(_, lane)| spans(lane) != (0, 0)) {
            let best = found.entry(id.proc).or_insert(*id);
            if spans(lane) > spans(&self.lanes[best]) {
                *best = *id;
            }
        }
        for lane in found.values_mut().filter(|lane| self.waits.of(**lane).is_none()) {
            let is_fed = |waits: &&TrainerWaits| waits.lane.proc == lane.proc && self.lanes.contains_key(&waits.lane);
            if let Some(trainer) = self.waits.trainers.iter().find(is_fed) {
                *lane = trainer.lane;
            }
        }
        // A reader may mark its own waits with spans. A process that computes below another trainer is a reader of that
        // trainer.
        let computes = |lane: &LaneId| self.lanes[lane].of(Track::Compute) > 0;
        let below = |lane: &LaneId| self.above(lane.proc).iter().any(|proc| found.contains_key(proc));
        found.values().filter(|lane| computes(lane) || !below(lane)).copied().collect()
    }

    /// Returns processes that receive messages from readers they started, and run in a language used for training.
    fn trainers_by_rhythm(&self) -> Vec<LaneId> {
        let known = self.trainers_by_waits();
        if !known.is_empty() {
            return known;
        }
        let procs = 0..self.processes.len() as u32;
        let may_train = |proc: &u32| {
            let process = &self.processes[*proc as usize];
            process.rank.is_some() || process.program.as_deref().is_none_or(may_train)
        };
        let trainers: BTreeSet<u32> = procs.filter_map(|proc| self.hands_over_to(proc)).filter(may_train).collect();
        let takes = |proc: &u32| self.sum(*proc, |thread| thread.taken) >= MESSAGES_MIN;
        let first = |proc: u32| LaneId { proc, tid: self.processes[proc as usize].pid };
        trainers.into_iter().filter(takes).map(first).filter(|lane| self.lanes.contains_key(lane)).collect()
    }

    /// Returns main threads whose waits are ended by the output of their own threads and children, in a language used
    /// for training.
    fn trainers_by_waits(&self) -> Vec<LaneId> {
        let may_train = |waits: &&TrainerWaits| {
            let process = &self.processes[waits.lane.proc as usize];
            process.program.as_deref().is_none_or(may_train)
                || waits.works >= WORKS_MIN && (waits.is_fed() || waits.has_twins)
                || waits.finds_data_ready()
        };
        let found = self.waits.trainers.iter().filter(|waits| !waits.by_spans).filter(may_train);
        found.map(|waits| waits.lane).filter(|lane| self.lanes.contains_key(lane)).collect()
    }

    /// Returns `true` if a process only waited for others to start, although the trace shows what ended waits: it
    /// launches ranks, for example, and received no batch.
    fn only_launches(&self, group: &RankGroup) -> bool {
        let waited = group.waited_ns.unwrap_or(0);
        let is_told = self.waits.of(LaneId { proc: group.proc, tid: group.tid }).is_some();
        self.waits.is_known && !is_told && group.wait_start_ns.unwrap_or(0) as f64 >= ONLY_START * waited as f64
    }

    /// Returns `true` if a process works after its messages, as a trainer does with a batch.
    fn works(&self, group: &RankGroup) -> bool {
        let told = self.waits.of(LaneId { proc: group.proc, tid: group.tid });
        let waits_only =
            group.waited_ns.is_some_and(|waited| (group.trained_ns - waited) * ONLY_WAITS < group.trained_ns);
        if told.is_some() && waits_only {
            return false;
        }
        // Threads of a library, such as those of a database, may read for the main thread, which reads too, without being readers.
        let are_own = group.readers.iter().all(|reader| reader.proc == group.proc);
        let reads_too = self.thread(LaneId { proc: group.proc, tid: group.tid }).data_reads.are_a_loop();
        if self.waits.is_known && told.is_none() && are_own && reads_too {
            return false;
        }
        // A program that waits for its threads a few times, or does nothing with most of their results, may be any program.
        let by_own_threads = |waits: &TrainerWaits| waits.makers().keys().all(|lane| lane.proc == group.proc);
        let works_often = |waits: &TrainerWaits| {
            let data = waits.waits.iter().filter(|wait| wait.kind == WaitKind::Data).count() as u64;
            let part = if by_own_threads(waits) { RESULTS_A_WORK } else { WAITS_A_WORK };
            // The threads of a library may compute the steps.
            let own = waits.waits.iter().filter(|wait| wait.kind == WaitKind::OwnWork);
            let computed = own
                .filter(|wait| 2 * (wait.parts.get(Part::Cpu) + wait.parts.get(Part::NoCpu)) > wait.end - wait.start);
            let works = waits.works + computed.count() as u64;
            works >= WORKS_MIN && works * part >= data
        };
        let mostly_waits = group.waited_ns.is_some_and(|waited| 2 * waited >= group.trained_ns);
        let is_pool = |waits: &TrainerWaits| waits.messages < BATCHES_MIN || !works_often(waits);
        if mostly_waits && told.is_some_and(|waits| by_own_threads(waits) && is_pool(waits)) {
            return false;
        }
        if told.is_some_and(works_often) {
            return true;
        }
        let readers: BTreeSet<u32> = group.readers.iter().map(|reader| reader.proc).collect();
        let handed: u64 = readers.iter().map(|&proc| self.sum(proc, |thread| thread.handed)).sum();
        let messages = self.sum(group.proc, |thread| thread.taken).min(handed);
        let works = self.lanes[&LaneId { proc: group.proc, tid: group.tid }].works;
        let is_rhythm = works >= WORKS_MIN && works * MESSAGES_A_WORK >= messages;
        // A trainer whose batches are always ready does not wait between them.
        let worked_ns = group.trained_ns - group.waited_ns.unwrap_or(group.trained_ns);
        is_rhythm || 2 * worked_ns >= group.trained_ns && worked_ns >= WORK_NS * messages as i64
    }

    /// Returns the process for which this one reads files: its parent, of the same program, which receives its
    /// output.
    fn hands_over_to(&self, proc: u32) -> Option<u32> {
        let reads = self.sum(proc, |thread| thread.bytes_read + thread.requests) > 0;
        let (taken, handed) = (self.sum(proc, |thread| thread.taken), self.sum(proc, |thread| thread.handed));
        // A reader that receives tasks may send few batches; a reader that knows its share from the start sends
        // many.
        let talks = taken > 0 && handed > 0 || handed >= MESSAGES_MIN;
        let maker = self.above(proc).into_iter().find(|&proc| !self.is_fork_server(proc))?;
        (reads && talks && is_worker(self.processes, &self.parents, proc)).then_some(maker)
    }

    fn requests(&self, lane: LaneId) -> bool {
        self.thread(lane).requests > 0
    }

    /// Returns `true` if a process makes its first batch as soon as it exists: a fork of its trainer that receives no
    /// tasks.
    fn begins_at_once(&self, proc: u32) -> bool {
        let is_spawned = || self.processes[proc as usize].command.as_deref().is_some_and(|it| it.contains(SPAWNED));
        self.sum(proc, |thread| thread.taken) == 0 && !is_spawned()
    }

    fn sum(&self, proc: u32, of: fn(&ThreadCount) -> u64) -> u64 {
        self.counted
            .processes
            .get(proc as usize)
            .map_or(0, |process| process.threads.values().map(|thread| of(thread)).sum())
    }

    fn group(&self, trainer: LaneId, trainers: &BTreeSet<u32>) -> Option<RankGroup> {
        let (lane, thread) = (&self.lanes[&trainer], self.thread(trainer));
        let process = &self.processes[trainer.proc as usize];
        let by_spans = lane.of(Track::Wait) > 0;
        let (basis, readers) = self.basis_of(trainer, trainers, by_spans);
        let told = self.waits.of(trainer);
        let readers = self.with_makers(readers, told.filter(|_| !by_spans), trainer);
        let (from, to) = self.bounds(trainer, told, &readers).filter(|(from, to)| from <= to)?;
        let wait = told.filter(|waits| waits.by_spans == by_spans).map(Wait::told);
        let wait = wait.unwrap_or_else(|| Wait::of(self, trainer, basis, &readers));
        let device = self.devices.used(trainer, (from, to), told.map(data_waits));
        let wait = wait.without(device.as_ref().map_or(0, |device| device.hidden_ns));
        let by_calls = told.filter(|waits| !waits.by_spans);
        let [others, own] = [by_calls, told].map(|waits| move |kind: WaitKind| waits.map(|waits| waits.ns(kind)));
        let (written, last) = self.written(trainer, by_calls, &readers, to - from - wait.waited.unwrap_or(0));
        let in_calls = told.and_then(|waits| waits.written).map(|known| known.in_calls_ns.min(written));
        let began = process.start_ts.unwrap_or(self.counted.processes[trainer.proc as usize].first_ts);
        let communicated_ns = lane.of(Track::Comm);
        let computed = if self.knows_computing { lane.of(Track::Compute) } else { 0 };
        let (own_read_ns, own_fault_ns) = self.own_reads(trainer, (told, written), &readers, (from, to));
        Some(RankGroup {
            proc: trainer.proc,
            host: self.hosts.get(process.host as usize).cloned().unwrap_or_default(),
            pid: process.pid,
            tid: trainer.tid,
            rank: process.rank,
            trainer: self.names[trainer.proc as usize].clone(),
            inferred: !by_spans,
            torch: self.torch,
            gpu_untimed: device.as_ref().map_or(self.uses_gpu, |device| !device.is_covered()),
            start_ts: from,
            startup_ns: self.knows_start.then_some((from - began.max(self.run_start)).max(0)),
            trained_ns: to - from,
            waited_ns: wait.waited,
            wait_start_ns: wait.shares.map(|shares| shares.start),
            wait_io_ns: wait.shares.and_then(|shares| shares.io),
            wait_elsewhere_ns: wait.elsewhere(),
            causes: wait.causes,
            faults: told.and_then(|waits| waits.faults),
            generations: told.map_or(0, |waits| waits.generations),
            loading: self.loading(trainer.proc, told, &readers),
            counts_receipts: by_calls.is_some_and(|waits| waits.counts_receipts),
            own_fetch_ns: told.map_or(0, |waits| waits.own_fetch_ns),
            own_work_ns: own(WaitKind::OwnWork),
            lock_wait_ns: own(WaitKind::Lock),
            peer_wait_ns: others(WaitKind::Peer),
            unknown_wait_ns: others(WaitKind::Unknown),
            own_gil_ns: told.map(|waits| waits.outside.get(Part::Gil)),
            file_waits: told.map_or(0, |waits| waits.file_waits),
            own_no_cpu_ns: told.map(|waits| waits.outside.get(Part::NoCpu)),
            startup_causes: told.map(|waits| waits.before),
            peers: by_calls.map_or(Vec::new(), |waits| self.peers(waits, trainers)),
            waited_for: Vec::new(),
            held_ns: (trainers.len() > 1 && communicated_ns > 0 && by_spans)
                .then(|| (lane.of(Track::Wait) + communicated_ns).min(self.waited_ns)),
            computed_ns: device.as_ref().map(|device| device.busy_ns).or((computed > 0).then_some(computed)),
            device,
            communicated_ns,
            checkpoint_ns: self.knows_saving.then_some(lane.of(Track::Save)),
            written_ns: self.knows_calls.then_some(written),
            written_calls_ns: in_calls.filter(|_| self.knows_calls),
            written_last_ns: last.filter(|_| self.knows_calls),
            own_read_ns,
            own_fault_ns,
            overlap: self.overlap(trainer.proc, trainers).filter(|_| computed > 0),
            batches: thread.batches,
            epochs: thread.epochs(),
            readers: readers.iter().map(|reader| self.reader(reader, told)).collect(),
        })
    }

    fn loading(&self, trainer: u32, told: Option<&TrainerWaits>, readers: &[Reading]) -> Loading {
        Loading {
            forks_readers: self.forks(trainer, readers),
            out_of_order: told.is_some_and(|waits| waits.loaders.is_out_of_order),
            mixes_loaders: told.is_some_and(|waits| waits.loaders.alternates),
            reader_file_wait_ns: told.map_or(0, |waits| waits.reader_file_wait_ns),
            sleeper: told.and_then(|waits| waits.sleeper),
            shared_by: told.and_then(|waits| waits.shared_by),
            may_start_earlier: told.is_some_and(|waits| waits.may_start_earlier),
        }
    }

    /// Returns `true` if all readers of a trainer are its forks, which run its command line.
    fn forks(&self, trainer: u32, readers: &[Reading]) -> bool {
        let command = |proc: u32| self.processes[proc as usize].command.as_deref();
        let is_fork = |proc: u32| self.parents[proc as usize] == Some(trainer) && command(proc) == command(trainer);
        let mut others = readers.iter().map(|reader| reader.lane.proc).filter(|proc| *proc != trainer).peekable();
        command(trainer).is_some() && others.peek().is_some() && others.all(is_fork)
    }

    /// Returns the waits of a trainer that count, and its readers.
    fn basis_of(&self, trainer: LaneId, trainers: &BTreeSet<u32>, by_spans: bool) -> (Basis, Vec<Reading>) {
        match by_spans {
            true => (Basis::Spans, self.readers(trainer, trainers, Basis::Spans)),
            false => self.waits_for(trainer, self.readers(trainer, trainers, Basis::Idle), trainers),
        }
    }

    /// Returns how long the training thread read files itself, and the part of it in page faults of mapped files. Spans that wait for
    /// data include such reads.
    fn own_reads(
        &self,
        trainer: LaneId,
        (waits, written): (Option<&TrainerWaits>, i64),
        readers: &[Reading],
        (from, to): (i64, i64),
    ) -> (Option<i64>, i64) {
        if waits.is_some_and(|waits| waits.by_spans) {
            return (None, 0);
        }
        let faults = self.faults_within(trainer, waits, (from, to));
        let read = reads_within(&self.thread(trainer), (from, to));
        let in_calls = waits.filter(|_| !readers.is_empty()).map(|waits| (waits.own_storage - written).max(read));
        let in_calls = in_calls.or((faults > 0).then_some(0));
        (in_calls.map(|ns| (ns.max(0) + faults).min(to - from)), faults)
    }

    /// Returns the least time in which the training thread waited for page faults of mapped files during its training: those before
    /// and after it, and in its waits, took at most the time there.
    fn faults_within(&self, trainer: LaneId, waits: Option<&TrainerWaits>, (from, to): (i64, i64)) -> i64 {
        let firsts = &self.waits.first_threads;
        let first = firsts.iter().find(|(lane, _)| *lane == trainer).and_then(|(_, thread)| thread.mapped);
        let Some(mapped) = first else { return 0 };
        let outside = (from - mapped.from_ts).max(0) + (mapped.to_ts - to).max(0);
        let in_waits = waits.filter(|waits| waits.counts_receipts).map_or(0, |waits| waits.ns(WaitKind::Data));
        (mapped.fault_ns - outside - in_waits).max(0)
    }

    /// Returns the start and the end of a training.
    fn bounds(&self, trainer: LaneId, told: Option<&TrainerWaits>, readers: &[Reading]) -> Option<(i64, i64)> {
        let thread = self.thread(trainer);
        match told.filter(|waits| !waits.by_spans) {
            _ if thread.spans_from < thread.spans_to => Some((thread.spans_from, thread.spans_to)),
            Some(waits) => Some((waits.from, waits.to)),
            None => self.life(trainer, readers),
        }
    }

    /// Returns the trainer's waits for other trainers.
    fn peers(&self, waits: &TrainerWaits, trainers: &BTreeSet<u32>) -> Vec<PeerWait> {
        let mut found: BTreeMap<u32, i64> = BTreeMap::new();
        for wait in waits.waits.iter().filter(|wait| wait.kind == WaitKind::Peer) {
            let Some(proc) = wait.maker.map(|maker| maker.proc).filter(|proc| trainers.contains(proc)) else {
                continue;
            };
            *found.entry(proc).or_default() += wait.end - wait.start;
        }
        let peer = |(proc, wait_ns): (u32, i64)| {
            let process = &self.processes[proc as usize];
            PeerWait { proc, pid: process.pid, rank: process.rank, wait_ns }
        };
        let mut peers: Vec<PeerWait> = found.into_iter().map(peer).collect();
        peers.sort_by_key(|peer| (std::cmp::Reverse(peer.wait_ns), peer.proc));
        peers
    }

    /// Returns the overlap of a trainer that is the only one of its group.
    fn overlap(&self, proc: u32, trainers: &BTreeSet<u32>) -> Option<Beside> {
        let group_of = |proc: u32| group(self.processes, &self.parents, proc);
        let own = group_of(proc);
        let of_it = trainers.iter().filter(|trainer| group_of(**trainer) == own);
        self.beside.get(&own).copied().filter(|_| of_it.count() == 1)
    }

    /// Selects the overlap to use: if all reader output goes through pipes, waits on sockets are for another peer.
    fn waits_for(&self, trainer: LaneId, readers: Vec<Reading>, trainers: &BTreeSet<u32>) -> (Basis, Vec<Reading>) {
        let others: BTreeSet<u32> =
            readers.iter().map(|reader| reader.lane.proc).filter(|proc| *proc != trainer.proc).collect();
        let sum = |of: fn(&ThreadCount) -> u64| others.iter().map(|&proc| self.sum(proc, of)).sum::<u64>();
        match (sum(|thread| thread.handed), sum(|thread| thread.handed_by_socket)) {
            (1.., 0) => (Basis::Piped, self.readers(trainer, trainers, Basis::Piped)),
            _ => (Basis::Idle, readers),
        }
    }

    /// Returns the time a trainer wrote during training, at most `room`, and the part of it after the last batch, if that is known.
    fn written(
        &self,
        trainer: LaneId,
        by_calls: Option<&TrainerWaits>,
        readers: &[Reading],
        room: i64,
    ) -> (i64, Option<i64>) {
        let known = by_calls.and_then(|waits| waits.written);
        let ns = known.map_or_else(|| self.written_between(trainer, readers), |written| written.ns);
        let ns = ns.clamp(0, room.max(0));
        (ns, known.map(|written| written.after_last_ns.min(ns)))
    }

    /// Returns the time a trainer wrote during training: as its spans delimit it, or from its readers' first event
    /// until it had processed the last message, or they had ended.
    fn written_between(&self, trainer: LaneId, readers: &[Reading]) -> i64 {
        let lane = &self.lanes[&trainer];
        if let Some(own) = lane.own {
            return own.put;
        }
        let overlaps = || readers.iter().map(|reader| &reader.overlap);
        let after_takes = if lane.after_takes_ts.is_some() { lane.put_after_takes } else { 0 };
        let after = overlaps().map(|overlap| overlap.put_after_last).min().unwrap_or(0).max(after_takes);
        overlaps().map(|overlap| overlap.put_after_first).max().unwrap_or(0) - after
    }

    /// Returns the interval from the first reader's first event until the trainer has processed the last message.
    /// Readers may have made that message long before, so training ends at the trainer's next wait, or when its readers
    /// have ended.
    fn life(&self, trainer: LaneId, readers: &[Reading]) -> Option<(i64, i64)> {
        let measures = || readers.iter().map(|reader| &self.lanes[&reader.lane]);
        let hands = readers
            .iter()
            .filter_map(|reader| self.lanes_of(reader.lane.proc).filter_map(|(_, lane)| lane.last_hand_ts).max());
        let last = hands.max().or_else(|| measures().map(|lane| lane.last_ts).max());
        let done = self.lanes[&trainer].after_takes_ts.map(|ts| ts.min(self.end_of(readers)));
        measures().map(|lane| lane.first_ts).min().zip(last.max(done))
    }

    /// Returns the end of the reader that ended last, if their ends are known.
    fn end_of(&self, readers: &[Reading]) -> i64 {
        let end = |reader: &Reading| self.processes[reader.lane.proc as usize].end_ts.unwrap_or(i64::MAX);
        readers.iter().map(end).max().unwrap_or(i64::MAX)
    }

    fn lanes_of(&self, proc: u32) -> impl Iterator<Item = (&LaneId, &LaneMeasure)> {
        self.lanes.range(LaneId { proc, tid: i32::MIN }..=LaneId { proc, tid: i32::MAX })
    }

    /// Returns the time a trainer waited after the last message of a reader's process, from any thread of that process.
    fn after_last_hand(&self, reader: &Reading, trainer: LaneId, basis: Basis) -> Option<i64> {
        let lanes = self.lanes_of(reader.lane.proc);
        lanes.filter_map(|(_, lane)| lane.with(&trainer)?[basis as usize].after_last_hand).min()
    }

    /// Returns the threads below and alongside a trainer that read files or request objects from a store, and the
    /// trainer's own thread if it reads as much as they do.
    fn readers(&self, trainer: LaneId, trainers: &BTreeSet<u32>, basis: Basis) -> Vec<Reading> {
        let is_its = |proc: u32| {
            let nearest = self.above(proc).into_iter().find(|above| trainers.contains(above));
            proc == trainer.proc || !trainers.contains(&proc) && nearest == Some(trainer.proc)
        };
        let reading = |(lane, measure): (&LaneId, &LaneMeasure)| {
            let mut overlap = measure.with(&trainer)?[basis as usize];
            // Messages do not show the start and end of a thread alongside the trainer.
            if lane.proc == trainer.proc {
                (overlap.since_ready, overlap.since_end) = (None, None);
            }
            if self.begins_at_once(lane.proc) {
                overlap.since_ready = None;
            }
            let bytes = self.thread(*lane).bytes_read;
            let is_reader = if self.by_rhythm {
                self.hands_over_to(lane.proc) == Some(trainer.proc)
            } else {
                // A reader that ended before the training started read for another purpose.
                is_its(lane.proc) && overlap.alive() > 0
            };
            let takes_part = *lane != trainer && (bytes > 0 || self.requests(*lane)) && is_reader;
            takes_part.then(|| Reading { lane: *lane, bytes, overlap, io_part: io_part(measure, &overlap) })
        };
        let mut found: Vec<Reading> = self.lanes.iter().filter_map(reading).collect();
        let most = found.iter().map(|reader| reader.bytes).max().unwrap_or(0) as f64;
        found.retain(|reader| reader.bytes as f64 >= most * READER_MIN || self.requests(reader.lane));
        let own = self.thread(trainer).bytes_read;
        // If the trainer was inferred, its own reads are not batches: batches come from the readers that it was
        // inferred from.
        let reads_itself = !self.by_rhythm && (own > 0 || self.requests(trainer) && found.is_empty());
        if reads_itself && own >= found.iter().map(|reader| reader.bytes).sum() {
            let overlap = self.lanes[&trainer].with(&trainer).map_or(Overlap::default(), |both| both[basis as usize]);
            let overlap = Overlap { since_ready: None, since_end: None, ..overlap };
            found.push(Reading { lane: trainer, bytes: own, overlap, io_part: None });
        }
        found.sort_by_key(|reader| (self.processes[reader.lane.proc as usize].start_ts, reader.lane));
        found
    }

    /// Adds the threads that make batches as readers, whether or not they read files, or the trainer waited for them.
    fn with_makers(&self, mut readers: Vec<Reading>, told: Option<&TrainerWaits>, trainer: LaneId) -> Vec<Reading> {
        let makers = told.map(TrainerWaits::makers).unwrap_or_default();
        let all: u64 = makers.values().sum();
        let is_reader = |count: u64| count >= MESSAGES_MIN && count as f64 >= MAKER_MIN * all as f64;
        let mut by_count: Vec<_> = makers.into_iter().filter(|(_, count)| is_reader(*count)).collect();
        by_count.sort_by_key(|(lane, count)| (std::cmp::Reverse(*count), *lane));
        // Processes that neither read files nor were waited for are its readers, too, if there are no others.
        let is_alone = readers.is_empty() && by_count.is_empty();
        let known = told.into_iter().flat_map(|told| &told.readers);
        let beside = known.filter(|lane| lane.proc == trainer.proc || is_alone);
        for lane in by_count.into_iter().map(|(lane, _)| lane).chain(beside.copied()) {
            // One thread represents another process.
            let is_its =
                |reader: &Reading| reader.lane == lane || lane.proc != trainer.proc && reader.lane.proc == lane.proc;
            let is_server = self.is_fork_server(lane.proc);
            let is_new = lane != trainer && !is_server && !readers.iter().any(is_its);
            if let Some(measure) = self.lanes.get(&lane).filter(|_| is_new) {
                let overlap = measure.with(&trainer).map_or(Overlap::default(), |both| both[Basis::Idle as usize]);
                let bytes = self.thread(lane).bytes_read;
                readers.push(Reading { lane, bytes, overlap, io_part: None });
            }
        }
        // Threads of its own process that read nothing pass on what other processes make.
        let is_beside = |reader: &Reading| reader.lane.proc == trainer.proc && reader.lane != trainer;
        if readers.iter().any(|reader| reader.lane.proc != trainer.proc) {
            readers.retain(|reader| !is_beside(reader) || reader.bytes > 0);
        }
        readers
    }

    fn reader(&self, reader: &Reading, told: Option<&TrainerWaits>) -> ReaderUse {
        let lane = &self.lanes[&reader.lane];
        let process = &self.processes[reader.lane.proc as usize];
        ReaderUse {
            proc: reader.lane.proc,
            pid: process.pid,
            tid: reader.lane.tid,
            name: self.names[reader.lane.proc as usize].clone(),
            channel: told.and_then(|waits| waits.loaders.number(reader.lane.proc)),
            bytes_read: reader.bytes,
            io_ns: lane.of(Track::Io),
            idle_ns: lane.of(Track::Idle),
            first_ts: lane.first_ts,
            last_ts: lane.last_ts,
            wait_alive_ns: reader.overlap.alive(),
            wait_start_ns: reader.overlap.starting(),
            wait_io_ns: reader.overlap.io,
            wait_idle_ns: reader.overlap.idle,
        }
    }

    /// Returns `true` if the trace shows which process started this one.
    fn knows_the_tree(&self, trainer: LaneId) -> bool {
        self.processes.len() == 1 || self.processes[trainer.proc as usize].ppid.is_some()
    }
}

/// A thread that reads, and its activity while its trainer waited.
struct Reading {
    lane: LaneId,
    bytes: u64,
    overlap: Overlap,
    /// Share of I/O in the work of its whole life, if it was never ahead of its trainer: batches then wait for all the
    /// work in a batch, not only for the part that happens to be last. `None` if it was ahead.
    io_part: Option<f64>,
}

impl Reading {
    /// Returns the time it worked while its trainer waited, once it had started.
    fn work(&self) -> i64 {
        (self.overlap.busy() - self.overlap.starting()).max(0)
    }

    /// Returns the share of that time in which it was alive and had started.
    fn at_work(&self) -> f64 {
        let alive = self.overlap.alive() - self.overlap.starting();
        if alive > 0 { self.work() as f64 / alive as f64 } else { 0.0 }
    }

    /// Returns the part of its work that counts as I/O.
    fn io(&self) -> i64 {
        self.io_part.map_or(self.overlap.working_io(), |part| (self.work() as f64 * part) as i64)
    }

    /// Returns the time its trainer waited before it received its first task.
    fn waited_for_start(&self) -> i64 {
        self.overlap.since_ready.map_or(0, |ready| self.overlap.after_first - ready.after)
    }
}

/// Returns the share of I/O in all work of a lane, if it was rarely idle.
fn io_part(measure: &LaneMeasure, overlap: &Overlap) -> Option<f64> {
    let life = measure.last_ts - measure.first_ts - overlap.starting();
    let busy = life - measure.of(Track::Idle);
    let is_saturated = busy > 0 && busy as f64 >= SATURATED * life as f64;
    is_saturated.then(|| (measure.of(Track::Io) as f64 / busy as f64).min(1.0))
}

/// The wait of a trainer, and the activity of its readers during it.
#[derive(Default)]
struct Wait {
    waited: Option<i64>,
    shares: Option<Shares>,
    causes: Option<Parts>,
}

/// Parts of a wait in which readers were starting and in I/O; `None` if they were idle: then the wait is not for their
/// work.
#[derive(Clone, Copy)]
struct Shares {
    start: i64,
    io: Option<i64>,
}

impl Shares {
    /// No reader was starting or in I/O.
    const NOTHING: Shares = Shares { start: 0, io: Some(0) };

    fn of(causes: &Parts) -> Shares {
        Shares { start: causes.get(Part::Start), io: Some(causes.get(Part::Storage) + causes.get(Part::FileCalls)) }
    }
}

/// Returns the intervals of a trainer's waits for data.
fn data_waits(waits: &TrainerWaits) -> Vec<Interval> {
    let waits = waits.waits.iter().filter(|wait| wait.kind == WaitKind::Data);
    waits.map(|wait| Interval { start: wait.start, end: wait.end }).collect()
}

impl Wait {
    /// Computes the wait from the threads that ended it.
    fn told(waits: &TrainerWaits) -> Wait {
        let causes = waits.parts(WaitKind::Data);
        Wait { waited: Some(waits.ns(WaitKind::Data)), shares: Some(Shares::of(&causes)), causes: Some(causes) }
    }

    /// Returns the part of the wait that readers, once they had started, were not in I/O.
    fn elsewhere(&self) -> Option<i64> {
        let (waited, shares) = self.waited.zip(self.shares)?;
        Some(waited - shares.io? - shares.start)
    }

    /// Returns the wait without the part that the work of a GPU hid.
    fn without(self, hidden_ns: i64) -> Wait {
        let Some(waited) = self.waited.filter(|_| hidden_ns > 0) else { return self };
        let left = (waited - hidden_ns).max(0);
        let scaled = |ns: i64| (ns as i128 * left as i128 / waited.max(1) as i128) as i64;
        match self.causes.map(|causes| causes.without(Part::Hidden)) {
            // Its parts were divided wait by wait.
            Some(causes) => Wait {
                waited: Some(causes.sum()),
                shares: self.shares.map(|_| Shares::of(&causes)),
                causes: Some(causes),
            },
            None => Wait {
                waited: Some(left),
                shares: self.shares.map(|shares| Shares { start: scaled(shares.start), io: shares.io.map(scaled) }),
                causes: None,
            },
        }
    }

    fn of(scene: &Scene, trainer: LaneId, basis: Basis, readers: &[Reading]) -> Wait {
        let lane = &scene.lanes[&trainer];
        let reads_itself = readers.iter().any(|reader| reader.lane == trainer);
        let others: Vec<&Reading> = readers.iter().filter(|reader| reader.lane != trainer).collect();
        let waited = match basis {
            Basis::Spans => Some(lane.of(Track::Wait)),
            // Count only the time in which its readers were alive and working: a trainer that starts or stops readers
            // waits for something else.
            _ => {
                let first = others.iter().map(|reader| reader.overlap.after_first).max();
                let after_hand = |reader: &&Reading| scene.after_last_hand(reader, trainer, basis);
                let last = others.iter().map(|reader| after_hand(reader).unwrap_or(reader.overlap.after_last)).min();
                let waited = first.zip(last).map(|(first, last)| first - last);
                // If spans delimit the training, the trainer waits within it, and not while it computes.
                match lane.own {
                    Some(own) => return Wait::beside(own, waited, reads_itself, &others),
                    None => waited,
                }
            }
        };
        let Some(waited) = waited else { return Wait::default() };
        let shares = shared_out(waited, readers).or_else(|| scene.none_reads(trainer, readers));
        Wait { waited: Some(waited), shares, causes: None }
    }

    /// Computes the wait of a trainer whose spans show its compute: it waits for peers, and reads itself when it needs
    /// data.
    fn beside(own: Own, waited: Option<i64>, reads_itself: bool, others: &[&Reading]) -> Wait {
        let idle = waited.map_or(0, |waited| waited.min(own.idle));
        if waited.is_none() && !reads_itself {
            return Wait::default();
        }
        let read = if reads_itself { own.read } else { 0 };
        let shares = if idle > 0 { shared_out(idle, others) } else { Some(Shares::NOTHING) };
        let shares = shares.map(|shares| Shares { io: shares.io.map(|io| io + read), ..shares });
        Wait { waited: Some(idle + read), shares, causes: None }
    }
}

impl Scene<'_> {
    /// Returns shares without I/O for a trainer that has no readers, if the trace would show them.
    fn none_reads(&self, trainer: LaneId, readers: &[Reading]) -> Option<Shares> {
        (readers.is_empty() && self.knows_calls && self.knows_the_tree(trainer)).then_some(Shares::NOTHING)
    }
}

/// Divides a wait in proportion to the busy time of the readers.
fn shared_out<R: std::borrow::Borrow<Reading>>(waited: i64, readers: &[R]) -> Option<Shares> {
    let sum = |of: fn(&Reading) -> i64| readers.iter().map(|reader| of(reader.borrow())).sum::<i64>();
    let busy = sum(|reader| reader.overlap.busy());
    let start = sum(|reader| reader.overlap.starting()).clamp(0, busy.max(0));
    let io = sum(Reading::io);
    let part = |of: i64| (waited as i128 * of as i128 / busy as i128) as i64;
    let at_work = readers.iter().map(|reader| reader.borrow().at_work()).fold(0.0, f64::max);
    let is_theirs = at_work >= BUSY_LEAST && 2 * sum(|reader| reader.overlap.alive()) >= waited;
    (busy > 0).then(|| Shares {
        start: part(start).min(sum(Reading::waited_for_start)),
        io: is_theirs.then(|| part(io.clamp(0, busy - start))),
    })
}

/// Returns the least time in which a thread read data files during its training: reads before and after it took at most
/// the time there.
fn reads_within(thread: &ThreadCount, (from, to): (i64, i64)) -> i64 {
    let reads = &thread.data_reads;
    if !reads.are_a_loop() {
        return 0;
    }
    let outside = (from - reads.from_ts).max(0) + (reads.to_ts - to).max(0);
    (reads.read_ns - outside).max(0)
}
