//! The training loop: epochs of steps, each waiting for a batch and computing on it; evaluations and checkpoints
//! between them.
//!
//! Every rank runs this. Measurements are recorded as they happen and passed to `results` after each epoch, so that an
//! interrupted run keeps its results.

use crate::checkpoint::tiers::Tiered;
use crate::checkpoint::{self, Mechanism, Shard, Shards, TransferStats};
use crate::config::compute_time::Pace;
use crate::config::{Config, Excluded};
use crate::data_set::layout::{Layout, Split};
use crate::data_set::page_cache;
use crate::failure::{Failure, Outcome};
use crate::ranks::communicator::{Communicator, as_bytes, numbers};
use crate::ranks::liveness::Process;
use crate::results::devices::HostCounters;
use crate::results::metrics::{Block, Figures, Step};
use crate::results::run_folder::Log;
use crate::results::storage_reads;
use crate::results::summary::{BackgroundCheckpoints, Epoch, Moment, Results, Saved};
use crate::spans;
use crate::store::counts::Counts;
use crate::system::random::mixed;
use crate::system::{clock, processes, terminal};
use crate::training::loader::order::Share;
use crate::training::loader::{Loader, Plan, Terms};
use crate::training::progress::Progress;
use crate::training::run_warnings;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

/// Options of a run in addition to its workload.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub drop_caches: bool,
    pub busy: bool,
    pub skip_failures: bool,
    /// Whether progress is shown.
    pub shown: bool,
}

/// Steps whose memory is allocated in advance.
const STEPS_RESERVED: u64 = 1 << 16;

pub struct Trainer<'a> {
    pub config: &'a Config,
    pub options: Options,
    pub communicator: &'a mut dyn Communicator,
    pub log: &'a mut Log,
    pub results: &'a mut Results,
    layout: Layout,
    shares: [Share; 2],
    checkpoints: Vec<Shard>,
    /// The file that describes the files of all ranks, if the checkpoint format has one.
    global_metadata: Option<(&'static str, Vec<u8>)>,
    mechanism: Tiered,
    /// The requests of the epochs so far, and of the time before the first.
    requests_told: Counts,
    /// The host of this rank, as a number.
    machine: f64,
    /// Counters of the host of the first rank.
    host: Option<HostCounters>,
}

impl<'a> Trainer<'a> {
    pub fn new(
        config: &'a Config,
        options: Options,
        terms: Terms,
        mechanism: Tiered,
        communicator: &'a mut dyn Communicator,
        log: &'a mut Log,
        results: &'a mut Results,
    ) -> Outcome<Trainer<'a>> {
        let plan = Plan::new(config, terms)?;
        let shards = Shards {
            model: &config.model,
            checkpoints: &config.checkpoint,
            framework: config.framework,
            ranks: terms.ranks,
        };
        results.checkpoint_bytes = shards.total_bytes();
        Ok(Trainer {
            layout: Layout::new(&config.dataset),
            shares: [plan.share(Split::Train), plan.share(Split::Valid)],
            checkpoints: shards.of(terms.rank),
            global_metadata: shards.global_metadata(terms.rank),
            mechanism,
            config,
            options,
            communicator,
            log,
            results,
            requests_told: Counts::now(),
            machine: Process::own().machine_number(),
            host: (terms.rank == 0).then(|| HostCounters::of(&config.dataset.folder)),
        })
    }

    fn share(&self, split: Split) -> Share {
        self.shares[usize::from(split == Split::Valid)]
    }

    pub fn train(
        &mut self,
        loader: &mut dyn Loader,
        after_epoch: &mut dyn FnMut(&Results) -> Outcome<()>,
    ) -> Outcome<()> {
        self.log_plan();
        let seed = mixed(&[self.config.train.seed, self.communicator.rank(), 11]);
        let mut compute = Pace::new(self.config.train.computation, seed, self.options.busy);
        let mut evaluate = Pace::new(self.config.evaluation.time, seed ^ 1, self.options.busy);
        let mut before = Vec::new();
        for number in 1..=self.config.train.epochs {
            let prepared = self.prepare_cache();
            let has_begun = prepared.is_ok();
            let mut epoch = Epoch { number, started: Moment::now(), ..Epoch::default() };
            let read_before = storage_reads::so_far(&loader.processes());
            let outcome = prepared.and_then(|cached| {
                epoch.cached = cached;
                self.host.iter_mut().for_each(HostCounters::begin);
                self.epoch(&mut epoch, loader, &mut compute, &mut evaluate)
            });
            epoch.ended = Moment::now();
            epoch.host = self.host.as_ref().map(HostCounters::end);
            let read = storage_reads::so_far(&loader.processes()).zip(read_before);
            epoch.storage_bytes = read.and_then(|(after, before)| after.checked_sub(before));
            if has_begun && epoch.trained.is_none() {
                self.log_end(&epoch);
            }
            let figures = self.own_figures(&epoch);
            // A rank that stopped early cannot wait for the other ranks, which are in a different place.
            let (ended, all) = match outcome.and_then(|()| self.communicator.exchange(&figures)) {
                Ok(all) => (Ok(()), all.into_iter().map(Some).collect()),
                Err(failure) => {
                    // Some ranks may have passed the last exchange and others not.
                    let (failure, given) = self.communicator.conclude(failure, &[&figures[..], &before].concat());
                    (Err(failure), given)
                }
            };
            epoch.complete = ended.is_ok();
            take_figures(&mut epoch, all);
            if ended.is_ok() && self.config.store.is_some() {
                epoch.requests = Some(self.new_requests()?);
            }
            if has_begun {
                self.results.epochs.push(epoch);
            }
            ended?;
            before = figures;
            after_epoch(self.results)?;
        }
        self.settle_checkpoints()
    }

    /// Returns the requests of all ranks to the store since the last call. Prefetches during a training run also happen
    /// between epochs.
    fn new_requests(&mut self) -> Outcome<Counts> {
        let now = Counts::now();
        let own = now.since(&self.requests_told);
        self.requests_told = now;
        Ok(Counts::sum(&numbers(&self.communicator.exchange(&as_bytes(own.numbers()))?)))
    }

    /// Waits until the last checkpoint is in its final directory, which ends a run.
    fn settle_checkpoints(&mut self) -> Outcome<()> {
        if !self.mechanism.has_one_beside() {
            return Ok(());
        }
        self.results.drain_failed = true;
        self.drain_checkpoints()?;
        self.results.drain_failed = false;
        Ok(())
    }

    fn drain_checkpoints(&mut self) -> Outcome<()> {
        let _span = spans::span("checkpoint.drain", spans::CHECKPOINT, &[]);
        let hidden = of_checkpoints(self.mechanism.drain())?;
        let own = [
            hidden.count as f64,
            hidden.moved.bytes as f64,
            hidden.moved.fsyncs as f64,
            hidden.seconds,
            hidden.waited.min(hidden.seconds),
            self.mechanism.direct as f64,
        ];
        let ranks = numbers(&self.communicator.exchange(&as_bytes(&own))?);
        let sum = |place: usize| ranks.iter().map(|rank| rank[place]).sum::<f64>() as u64;
        let most = |place: usize| ranks.iter().map(|rank| rank[place]).fold(0.0, f64::max);
        let (seconds, waited) = (most(3), most(4));
        self.results.beside = Some(BackgroundCheckpoints {
            // Each rank has a part of each.
            count: most(0) as u64,
            bytes: sum(1),
            fsyncs: sum(2),
            seconds,
            hidden: seconds - waited,
            waited,
            without_room: most(5) as u64,
        });
        self.log.output(&format!("Background checkpoints: {seconds:.4} s; training waited {waited:.4} s"));
        Ok(())
    }

    /// Notes the checkpoints that are still in the background when a run fails: they are not in their directory.
    pub fn note_unfinished_checkpoints(&mut self) {
        self.results.undrained = self.mechanism.unfinished();
    }

    fn log_plan(&mut self) {
        let dataset = &self.config.dataset;
        let (batch, ranks) = (self.config.reader.batch, self.communicator.size());
        let line = format!(
            "Max steps per epoch: {} = {} * {} / {batch} / {ranks} (samples per file * num files / batch size / comm size)",
            self.share(Split::Train).steps,
            dataset.samples_per_file,
            dataset.files_train
        );
        self.log.output(&line);
        for remark in run_warnings::about(self.config, self.share(Split::Train), self.share(Split::Valid), ranks) {
            self.log.warning(&remark);
            if self.options.shown && !self.log.echoes() {
                terminal::line(format_args!("note: {remark}"));
            }
        }
    }

    fn prepare_cache(&mut self) -> Outcome<Option<f64>> {
        let first = self.communicator.rank() == 0;
        // Other ranks wait for it, so this time must not count as the start of a training run.
        let span = self.options.drop_caches.then(|| spans::span("cache.drop", spans::PIPELINE, &[]));
        if self.options.drop_caches && first {
            let folder = &self.layout.dataset.folder;
            page_cache::empty(&self.layout).map_err(|error| Failure::io("drop the cached pages of", folder, error))?;
        }
        self.communicator.barrier()?;
        drop(span);
        let _span = first.then(|| spans::span("cache.share", spans::PIPELINE, &[]));
        Ok(if first { page_cache::share(&self.layout) } else { None })
    }

    fn epoch(
        &mut self,
        epoch: &mut Epoch,
        loader: &mut dyn Loader,
        compute: &mut Pace,
        evaluate: &mut Pace,
    ) -> Outcome<()> {
        let _span = spans::span("epoch", spans::PIPELINE, &[("epoch", epoch.number)]);
        let steps = self.share(Split::Train).steps;
        self.log.output(&format!("Starting epoch {}: {steps} steps expected", epoch.number));
        let progress = Progress::new(
            self.options.shown,
            &format!("epoch {}/{}", epoch.number, self.config.train.epochs),
            steps,
            "steps",
        );
        loader.begin(Split::Train, epoch.number)?;
        let mut left = steps;
        while left > 0 {
            let done = steps - left;
            let due = self.block_steps(done, left);
            self.block(epoch, done..done + due, loader, compute, &progress)?;
            left -= due;
            if self.checkpoint_by_steps(done + due) {
                self.save(epoch, done + due, done + due)?;
            }
        }
        drop(progress);
        if self.checkpoint_by_epoch(epoch.number) {
            // DLIO names it after the step that would follow.
            self.save(epoch, steps, steps + 1)?;
        }
        epoch.trained = Some(Moment::now());
        self.log_end(epoch);
        if self.evaluation_is_due(epoch.number) {
            self.evaluate(epoch, loader, evaluate)?;
        }
        Ok(())
    }

    /// Returns the steps of a block, which ends when a checkpoint is due or the epoch ends.
    fn block_steps(&self, done: u64, left: u64) -> u64 {
        match self.steps_between_checkpoints() {
            Some(every) => left.min(every - done % every),
            None => left,
        }
    }

    /// Returns `true` if a checkpoint is due after this many steps, which are counted per epoch.
    fn checkpoint_by_steps(&self, done: u64) -> bool {
        self.steps_between_checkpoints().is_some_and(|every| done.is_multiple_of(every))
    }

    fn steps_between_checkpoints(&self) -> Option<u64> {
        self.config.checkpoint.every_steps.filter(|every| *every > 0 && self.config.workflow.checkpoint)
    }

    fn checkpoint_by_epoch(&self, epoch: u64) -> bool {
        let checkpoint = &self.config.checkpoint;
        let due = epoch >= checkpoint.after_epoch
            && (epoch - checkpoint.after_epoch).is_multiple_of(checkpoint.every_epochs.max(1));
        self.config.workflow.checkpoint && checkpoint.every_steps.is_none() && due
    }

    fn evaluation_is_due(&self, epoch: u64) -> bool {
        let evaluation = &self.config.evaluation;
        let due =
            epoch >= evaluation.after_epoch && (epoch - evaluation.after_epoch).is_multiple_of(evaluation.every.max(1));
        self.config.workflow.evaluate && due
    }

    fn block(
        &mut self,
        epoch: &mut Epoch,
        steps: Range<u64>,
        loader: &mut dyn Loader,
        pace: &mut Pace,
        progress: &Progress,
    ) -> Outcome<()> {
        let number = epoch.blocks.len() + 1;
        self.log.output(&format!("Starting block {number}"));
        let _span = spans::span("block", spans::PIPELINE, &[("epoch", epoch.number), ("block", number as u64)]);
        let started = Moment::now();
        let mut block = Block::default();
        let outcome = self.steps(&mut block, epoch.number, steps, loader, pace, progress);
        let ended = Moment::now();
        block.duration = ended.since(&started);
        self.log_block(epoch.number, number, &block);
        epoch.blocks.push((started, ended, block));
        outcome
    }

    fn steps(
        &mut self,
        block: &mut Block,
        epoch: u64,
        steps: Range<u64>,
        loader: &mut dyn Loader,
        pace: &mut Pace,
        progress: &Progress,
    ) -> Outcome<()> {
        // A run without input may have steps without end.
        block.steps.reserve_exact((steps.end - steps.start).min(STEPS_RESERVED) as usize);
        let begun = Instant::now();
        for number in steps {
            if processes::interrupted() {
                return Err(Failure::interrupted());
            }
            self.communicator.check()?;
            block.steps.push(self.step([("epoch", epoch), ("step", number)], begun, loader, pace)?);
            progress.advance(1);
        }
        Ok(())
    }

    /// Runs one step; `place` is the epoch and the step for its spans.
    fn step(
        &mut self,
        place: [(&'static str, u64); 2],
        begun: Instant,
        loader: &mut dyn Loader,
        pace: &mut Pace,
    ) -> Outcome<Step> {
        let start = Instant::now();
        let batch = {
            let _span = spans::span("fetch", spans::DATA, &place);
            loader.next()?
        };
        let load = start.elapsed();
        let compute = {
            let _span = spans::span("compute", spans::COMPUTE, &place);
            pace.step()
        };
        if let Some(failure) = &batch.failure {
            self.results.note_failures(batch.failed, failure);
        }
        self.results.read_nanos += batch.read_nanos;
        self.wait_for_all(&place)?;
        Ok(Step {
            load: load.as_secs_f64(),
            compute: compute.as_secs_f64(),
            end: begun.elapsed().as_secs_f64(),
            samples: batch.samples,
            bytes: batch.bytes,
        })
    }

    /// Waits for the other ranks, like the gradient exchange of a real step. The slowest rank waits least.
    fn wait_for_all(&mut self, place: &[(&'static str, u64)]) -> Outcome<()> {
        let together = self.communicator.size() > 1;
        let _span = together.then(|| spans::span("barrier", spans::COMMUNICATION, place));
        self.communicator.barrier()
    }

    fn evaluate(&mut self, epoch: &mut Epoch, loader: &mut dyn Loader, pace: &mut Pace) -> Outcome<()> {
        let _span = spans::span("evaluate", spans::PIPELINE, &[("epoch", epoch.number)]);
        let steps = self.share(Split::Valid).steps;
        self.log.output(&format!("Starting eval - {steps} steps expected"));
        let progress = Progress::new(self.options.shown, "evaluate", steps, "steps");
        let started = Moment::now();
        let mut block = Block::default();
        loader.begin(Split::Valid, epoch.number)?;
        let outcome = self.steps(&mut block, epoch.number, 0..steps, loader, pace, &progress);
        let ended = Moment::now();
        block.duration = ended.since(&started);
        self.log.output(&format!("Ending eval - {steps} steps completed in {:.2} s", block.duration));
        self.log_rates(&format!("Epoch {} [Eval]", epoch.number), block.corrected(Excluded::NOTHING));
        epoch.evaluation = Some((started, ended, block));
        outcome
    }

    /// Writes a checkpoint after `done` steps of the epoch, with the step `name` in its name. Its number is that of the
    /// block it ends.
    fn save(&mut self, epoch: &mut Epoch, done: u64, name: u64) -> Outcome<()> {
        let folder = checkpoint::folder(&self.config.checkpoint.folder, epoch.number, name);
        let place = [("epoch", epoch.number), ("checkpoint", epoch.blocks.len() as u64)];
        self.log_begin("saving", place, done);
        let saved = of_checkpoints(self.timed("checkpoint.save", &place, |trainer| trainer.save_whole(&folder)))?;
        self.log_moved("saving", place, &saved);
        epoch.saves.push(saved);
        Ok(())
    }

    fn log_begin(&mut self, doing: &str, [(_, epoch), (_, number)]: [(&str, u64); 2], steps: u64) {
        let line = format!("Starting {doing} checkpoint {number} after total step {steps} for epoch {epoch}");
        self.log.output(&line);
    }

    fn log_moved(&mut self, doing: &str, [(_, epoch), (_, number)]: [(&str, u64); 2], moved: &Saved) {
        let (seconds, rate) = (moved.seconds, moved.gibibytes_per_second());
        let rate = rate.map(|rate| format!("; Throughput: {rate:.4} GB/s")).unwrap_or_default();
        self.log.output(&format!("Finished {doing} checkpoint {number} for epoch {epoch} in {seconds:.4} s{rate}"));
    }

    /// Writes this rank's files. Rank 0 then writes the file for all ranks, if the format has one, once all files
    /// exist.
    fn save_whole(&mut self, folder: &Path) -> Outcome<TransferStats> {
        let moved = self.mechanism.save(folder, &self.checkpoints)?;
        if self.global_metadata.is_some() {
            self.wait_for_all(&[])?;
        }
        let Some((name, bytes)) = self.global_metadata.as_ref().filter(|_| self.communicator.rank() == 0) else {
            return Ok(moved);
        };
        let last = self.mechanism.conclude(folder, name, bytes)?;
        Ok(TransferStats { bytes: moved.bytes + last.bytes, fsyncs: moved.fsyncs + last.fsyncs })
    }

    /// Times a checkpoint from the start of the first rank to the end of the last; its size is that of all ranks. A
    /// rank's span covers its own part.
    fn timed(
        &mut self,
        span: &'static str,
        place: &[(&'static str, u64)],
        work: impl FnOnce(&mut Trainer<'a>) -> Outcome<TransferStats>,
    ) -> Outcome<Saved> {
        self.wait_for_all(place)?;
        let (moved, begun, done) = {
            let _span = spans::span(span, spans::CHECKPOINT, place);
            let begun = clock::monotonic_nanos() as f64;
            let moved = work(self)?;
            (moved, begun, clock::monotonic_nanos() as f64)
        };
        let own = [self.machine, begun, done, moved.bytes as f64, moved.fsyncs as f64];
        let ranks = {
            let together = self.communicator.size() > 1;
            let _span = together.then(|| spans::span("barrier", spans::COMMUNICATION, place));
            numbers(&self.communicator.exchange(&as_bytes(&own))?)
        };
        let parts: Vec<Part> = ranks.iter().filter_map(|rank| Part::of(rank)).collect();
        let moved_all = |of: fn(&Part) -> f64| parts.iter().map(of).sum::<f64>() as u64;
        let (seconds, first) = span_of(&parts, self.machine).unwrap_or((done - begun, begun));
        let ago = (clock::monotonic_nanos() as f64 - first) / 1e9;
        let rates = parts.iter().filter(|part| part.bytes > 0.0).map(|part| part.bytes / part.seconds().max(1e-9));
        Ok(Saved {
            seconds,
            bytes: moved_all(|part| part.bytes),
            fsyncs: moved_all(|part| part.fsyncs),
            slowest_rank_rate: rates.min_by(f64::total_cmp),
            started: Moment::before_now(ago),
            ended: Moment::before_now(ago - seconds),
        })
    }

    /// Runs checkpoints only: all writes, then all reads.
    pub fn checkpoints_only(&mut self) -> Outcome<()> {
        let checkpoint = &self.config.checkpoint;
        let (writes, reads) = (checkpoint.writes.max(0) as u64, checkpoint.reads.max(0) as u64);
        let pause = checkpoint.pause;
        let below = checkpoint.folder.clone();
        let read_shards = self.shards_to_read();
        let mut epoch = Epoch { number: 1, started: Moment::now(), ..Epoch::default() };
        let progress = Progress::new(self.options.shown, "checkpoints", writes + reads, "");
        let outcome = (0..writes + reads).try_for_each(|number| {
            processes::sleep(pause);
            if processes::interrupted() {
                return Err(Failure::interrupted());
            }
            let writing = number < writes;
            let which = if writing { number } else { number - writes };
            let folder = checkpoint::folder(&below, 1, which + 1);
            let (name, doing) = if writing { ("checkpoint.save", "saving") } else { ("checkpoint.load", "loading") };
            let place = [("epoch", 1), ("checkpoint", which + 1)];
            self.log_begin(doing, place, which + 1);
            let done = of_checkpoints(self.timed(name, &place[1..], |trainer| match writing {
                true => trainer.save_whole(&folder),
                false => trainer.mechanism.load(&folder, &read_shards),
            }))?;
            self.log_moved(doing, place, &done);
            if writing {
                epoch.saves.push(done)
            } else {
                epoch.loads.push(done)
            }
            progress.advance(1);
            Ok(())
        });
        let outcome = outcome.and_then(|()| self.settle_checkpoints());
        epoch.ended = Moment::now();
        if outcome.is_ok() && self.config.store.is_some() {
            epoch.requests = Some(self.new_requests()?);
        }
        self.results.epochs.push(epoch);
        outcome
    }

    /// Returns the shards to read. With a rank shift each rank reads its neighbor's, so that nothing comes from its own
    /// cache.
    fn shards_to_read(&self) -> Vec<Shard> {
        let (rank, ranks) = (self.communicator.rank(), self.communicator.size());
        let shift = u64::from(self.config.checkpoint.rank_shift);
        let shards = Shards {
            model: &self.config.model,
            checkpoints: &self.config.checkpoint,
            framework: self.config.framework,
            ranks,
        };
        shards.of((rank + shift) % ranks)
    }

    fn log_block(&mut self, epoch: u64, number: usize, block: &Block) {
        let figures = block.corrected(self.config.output.excluded());
        let name = format!("Epoch {epoch} - Block {number} [Training]");
        let steps = block.steps.len();
        self.log.output(&format!("Ending block {number} - {steps} steps completed in {:.2} s", block.duration));
        self.log_rates(&name, figures);
        let compute: Vec<f64> = block.steps.iter().map(|step| step.compute).collect();
        let (mean, stdev) = crate::results::metrics::mean_stdev(&compute);
        let set = self.config.train.computation.mean();
        self.log
            .output(&format!("{name} Computation time per step (second): {mean:.4}+/-{stdev:.4} (set value: {set})"));
    }

    /// Logs the utilization of this rank, and its throughput times the number of ranks, as DLIO does before the numbers
    /// of other ranks are known.
    fn log_rates(&mut self, name: &str, figures: Figures) {
        let rate = figures.samples_per_second * self.communicator.size() as f64;
        self.log.output(&format!("{name} Accelerator Utilization [AU] (%): {:.4}", figures.au));
        self.log.output(&format!("{name} Throughput (samples/second): {rate:.4}"));
    }

    /// Logs the end of an epoch's training, including its checkpoints.
    fn log_end(&mut self, epoch: &Epoch) {
        let steps: usize = epoch.blocks.iter().map(|(_, _, block)| block.steps.len()).sum();
        self.log.output(&format!(
            "Ending epoch {} - {steps} steps completed in {:.2} s",
            epoch.number,
            epoch.seconds()
        ));
    }

    /// Returns the metrics of this rank's epoch for the other ranks.
    fn own_figures(&self, epoch: &Epoch) -> Vec<u8> {
        let (excluded, reader) = (self.config.output.excluded(), &self.config.reader);
        let record = self.layout.record_bytes();
        let own = [
            epoch.trained_together(excluded),
            epoch.train_figures(|block| block.compat(excluded, reader.batch, record)),
            epoch.eval_figures(|block| block.corrected(Excluded::NOTHING)),
            epoch.eval_figures(|block| block.compat_evaluation(excluded, reader.batch_eval, record)),
        ];
        let mut flat = vec![epoch.number as f64];
        flat.extend(own.iter().flat_map(figures_as_numbers));
        flat.extend(epoch.amounts().map(|amount| amount as f64));
        // A rank that does not know its number makes the sum unknown.
        flat.push(epoch.storage_bytes.map_or(f64::NAN, |bytes| bytes as f64));
        as_bytes(&flat)
    }
}

/// A rank's part of a checkpoint.
struct Part {
    /// The host whose clock is used.
    machine: f64,
    /// In nanoseconds.
    begun: f64,
    done: f64,
    bytes: f64,
    fsyncs: f64,
}

impl Part {
    fn of(numbers: &[f64]) -> Option<Part> {
        let &[machine, begun, done, bytes, fsyncs] = numbers else { return None };
        Some(Part { machine, begun, done, bytes, fsyncs })
    }

    fn seconds(&self) -> f64 {
        (self.done - self.begun) / 1e9
    }
}

/// Returns the seconds from the first start to the last end, and the first start on this host. Clocks of hosts are
/// unrelated: for several hosts this is the longest time on one, because all started together.
fn span_of(parts: &[Part], machine: f64) -> Option<(f64, f64)> {
    let of = |machine: f64| parts.iter().filter(move |part| part.machine == machine);
    let first = |machine| of(machine).map(|part| part.begun).min_by(f64::total_cmp);
    let last = |machine| of(machine).map(|part| part.done).max_by(f64::total_cmp);
    let whole = |part: &Part| Some((last(part.machine)? - first(part.machine)?) / 1e9);
    Some((parts.iter().filter_map(whole).max_by(f64::total_cmp)?, first(machine)?))
}

/// Marks a write failure as one of a checkpoint.
fn of_checkpoints<T>(outcome: Outcome<T>) -> Outcome<T> {
    outcome.map_err(|failure| failure.elsewhere("workload.checkpoint.checkpoint_folder"))
}

/// Numbers that a rank sends for an epoch: its number, four kinds of figures, the amounts and bytes from storage.
const FIGURES: usize = 1 + 4 * 4 + AMOUNTS;
const AMOUNTS: usize = 5;

/// Takes the metrics of this epoch from each rank, and notes which ranks sent none. A rank whose last epoch is an
/// earlier one was stopped before it began this one: all its metrics are zero.
fn take_figures(epoch: &mut Epoch, all: Vec<Option<Vec<u8>>>) {
    let given: Vec<Vec<u8>> = all.into_iter().map(Option::unwrap_or_default).collect();
    let mut sums = [0.0; AMOUNTS];
    epoch.ranks.clear();
    epoch.missing_ranks.clear();
    for (rank, numbers) in (0..).zip(numbers(&given)) {
        let (sent, _) = numbers.as_chunks::<FIGURES>();
        let of_this = sent.iter().find(|own| own[0] == epoch.number as f64);
        let is_before = || sent.first().is_some_and(|own| own[0] < epoch.number as f64);
        let Some(own) = of_this.copied().or_else(|| is_before().then_some([0.0; FIGURES])) else {
            epoch.missing_ranks.push(rank);
            continue;
        };
        let (figures, amounts) = own[1..].split_at(FIGURES - 1 - AMOUNTS);
        epoch.ranks.push(figures.as_chunks::<4>().0.iter().map(figures_of_numbers).collect());
        sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
    }
    let [.., storage_bytes] = sums;
    epoch.storage_bytes_all_ranks = (!storage_bytes.is_nan()).then_some(storage_bytes as u64);
    [epoch.samples_all_ranks, epoch.bytes_all_ranks, epoch.evaluated_samples, epoch.evaluated_bytes, _] =
        sums.map(|sum| sum as u64);
}

fn figures_as_numbers(figures: &Figures) -> [f64; 4] {
    [figures.au, figures.samples_per_second, figures.mebibytes_per_second, figures.steps]
}

fn figures_of_numbers(numbers: &[f64; 4]) -> Figures {
    Figures { au: numbers[0], samples_per_second: numbers[1], mebibytes_per_second: numbers[2], steps: numbers[3] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_rank_may_be_one_epoch_behind_or_ahead() {
        let sent = |number: f64| {
            let mut own = vec![1.0; FIGURES];
            own[0] = number;
            own
        };
        let both = |number: f64| Some(as_bytes(&[sent(number), sent(number - 1.0)].concat()));
        let mut epoch = Epoch { number: 5, ..Epoch::default() };
        take_figures(&mut epoch, vec![both(5.0), both(6.0), both(4.0), both(7.0), None]);
        // The first two send this epoch's numbers, the third had not begun it, and of the others nothing is known.
        assert_eq!(epoch.missing_ranks, [3, 4]);
        assert_eq!(epoch.ranks.iter().map(|figures| figures[0].au).collect::<Vec<_>>(), [1.0, 1.0, 0.0]);
        assert_eq!(epoch.samples_all_ranks, 2);
    }

    #[test]
    fn bytes_from_storage_are_unknown_if_one_rank_does_not_know_them() {
        let sent = |bytes: f64| {
            let mut own = vec![5.0; FIGURES];
            own[FIGURES - 1] = bytes;
            Some(as_bytes(&own))
        };
        let mut epoch = Epoch { number: 5, ..Epoch::default() };
        take_figures(&mut epoch, vec![sent(7.0), sent(8.0)]);
        assert_eq!((epoch.storage_bytes_all_ranks, epoch.evaluated_bytes), (Some(15), 10));
        take_figures(&mut epoch, vec![sent(7.0), sent(f64::NAN)]);
        assert_eq!((epoch.storage_bytes_all_ranks, epoch.evaluated_bytes), (None, 10));
    }

    #[test]
    fn checkpoint_lasts_from_first_start_to_last_end() {
        let part = |machine, begun, done| Part { machine, begun, done, bytes: 1.0, fsyncs: 0.0 };
        // In sequence on one host; longer on another host with a different clock.
        let mut parts = vec![part(1.0, 5e9, 6e9), part(1.0, 6e9, 8e9), part(1.0, 5.5e9, 6e9)];
        assert_eq!(span_of(&parts, 1.0), Some((3.0, 5e9)));
        parts.push(part(2.0, 100e9, 104e9));
        assert_eq!(span_of(&parts, 1.0), Some((4.0, 5e9)));
        assert_eq!(span_of(&parts, 3.0), None);
    }
}
