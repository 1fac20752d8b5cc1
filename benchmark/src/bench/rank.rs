//! One rank of a run: the requested phases, in order.

use super::request::Request;
use super::run::Run;
use super::run_summary;
use crate::checkpoint::Shards;
use crate::checkpoint::tiers::Tiered;
use crate::config::{Checkpoints, Config};
use crate::data_set::generate::{self, Keep, Part};
use crate::data_set::layout::Layout;
use crate::failure::{Failure, Kind, Outcome};
use crate::keys::value::Value;
use crate::ranks::communicator::{Communicator, as_bytes, numbers};
use crate::ranks::status;
use crate::results::devices::Sampler;
use crate::results::run_folder::{Log, RunFolder};
use crate::results::summary::{Results, Status};
use crate::spans;
use crate::store;
use crate::store::cache::{self, CacheGuard, PrefetchProcess};
use crate::system::host::{self, Host};
use crate::system::random::mixed;
use crate::system::{processes, terminal};
use crate::training::loader::{self, Terms};
use crate::training::progress::Progress;
use crate::training::trainer::{self, Trainer};
use std::fs::File;
use std::time::{Duration, Instant};

/// One rank of a run.
pub(super) struct Rank<'a> {
    pub run: &'a Run,
    pub request: &'a Request,
    pub folder: RunFolder,
    /// By split, whether another program's files are among the existing files.
    pub foreign: [bool; 2],
}

impl Rank<'_> {
    pub fn work(&self, communicator: &mut dyn Communicator) -> Outcome<()> {
        spans::name_rank();
        let _span = spans::span("root", spans::PIPELINE, &[("rank", communicator.rank())]);
        let config = &self.run.config;
        if config.store.is_some() {
            store::take_rank(communicator.rank(), communicator.size())?;
        }
        let mut log = Log::create(
            &self.folder.path.join(&config.output.log_file),
            communicator.rank(),
            self.request.as_original,
        )?;
        let what = match (config.workflow.train, config.workflow.checkpoint) {
            (true, true) => "Training & Checkpointing",
            (true, false) => "Training",
            (false, true) => "Checkpointing",
            _ if config.workflow.generate => "Generating data",
            _ => "Reading data back",
        };
        log.output(&format!("Running DLIO [{what}] with {} process(es)", communicator.size()));
        for note in &self.run.notes {
            log.warning(note);
        }
        let mut results = Results::default();
        let (rank, ranks) = (communicator.rank(), communicator.size());
        results.hosts = Host::all(&communicator.exchange(Host::own().to_text().as_bytes())?);
        if config.measures() && rank == 0 {
            // From now on a killed run leaves a record that it did not finish.
            self.folder.write_json("summary.json", &results.summary(config, ranks))?;
        }
        let outcome = self.phases(communicator, &mut log, &mut results);
        let outcome = communicator.explained(outcome);
        if let Err(failure) = &outcome {
            status::note_failure(failure);
        }
        if config.measures() {
            results.status = Status::of(&outcome);
            let written = self.write(&results, rank, ranks);
            if rank == 0 {
                let summary = results.summary(config, ranks);
                run_summary::log(&summary, &mut log);
                if !self.request.quiet && !self.request.as_original {
                    terminal::say(run_summary::table(&results, &summary, config));
                    terminal::line(format_args!("results: {}", self.folder.path.join("summary.json").display()));
                }
            }
            // The first failure is the one to report.
            outcome.clone().and(written)?;
        }
        if !config.dataset.keep_files && communicator.rank() == 0 {
            generate::remove(&Layout::new(&config.dataset))?;
        }
        outcome
    }

    /// Runs the requested phases in order.
    fn phases(&self, communicator: &mut dyn Communicator, log: &mut Log, results: &mut Results) -> Outcome<()> {
        if self.run.config.workflow.generate {
            self.generate(communicator, log)?;
        }
        if self.request.verify {
            self.verify(communicator)?;
        }
        communicator.barrier()?;
        if self.run.config.measures() { self.measured(communicator, log, results) } else { Ok(()) }
    }

    fn shown(&self, communicator: &dyn Communicator) -> bool {
        communicator.rank() == 0 && !self.request.quiet
    }

    fn part(&self, communicator: &dyn Communicator) -> Part {
        let writers = match self.run.composed.workload.at(&["reader", "write_threads"]) {
            Some(Value::Int(writers)) if *writers > 0 => *writers as u64,
            _ => (host::processors() / communicator.size()).max(1),
        };
        Part { rank: communicator.rank(), ranks: communicator.size(), writers }
    }

    fn generate(&self, communicator: &mut dyn Communicator, log: &mut Log) -> Outcome<()> {
        let _span = spans::span("generate", spans::PIPELINE, &[]);
        let layout = Layout::new(&self.run.config.dataset);
        let part = self.part(communicator);
        log.output("Starting data generation");
        let progress = Progress::new(self.shown(communicator), "generate", layout.total_files() / part.ranks, "files");
        let mut total = 0;
        let keep = if self.request.regenerate { Keep::Nothing } else { Keep::Complete { foreign: self.foreign } };
        let done = generate::generate(&layout, part, keep, &mut |files, bytes| {
            total += bytes;
            progress.advance(files);
            progress
                .set_message(format!("{:.0} MB/s", total as f64 / 1e6 / progress.elapsed().as_secs_f64().max(1e-3)));
        });
        communicator.check()?;
        let done = done.map_err(|failure| self.interrupted_generation(failure, &layout))?;
        let own = [done.written as f64, done.bytes as f64, done.kept as f64, progress.elapsed().as_secs_f64()];
        drop(progress);
        log.output("Generation done");
        let ranks = numbers(&communicator.exchange(&as_bytes(&own))?);
        if communicator.rank() == 0 {
            generate::write_indexes(&layout)?;
        }
        let [written, bytes, kept] = [0, 1, 2].map(|place| sum(&ranks, place));
        let seconds = ranks.iter().map(|rank| rank[3]).fold(0.0, f64::max);
        if self.shown(communicator) {
            let kept = if kept > 0.0 { format!(", {kept} existed already") } else { String::new() };
            let (size, folder) = (generate::in_units(bytes as u64), layout.dataset.folder.display());
            terminal::line(format_args!("generated {written} files, {size} in {seconds:.2} s{kept}: {folder}"));
        }
        if !self.run.config.dataset.settle.is_zero() {
            processes::sleep(self.run.config.dataset.settle);
        }
        communicator.barrier()?;
        // Other ranks and writers may have the file open too.
        self.run
            .data_lock
            .as_ref()
            .map_or(Ok(()), File::unlock)
            .map_err(|error| Failure::io("unlock", &layout.dataset.folder, error))
    }

    /// Adds to the failure of an interrupted generation how far it came and how to continue.
    fn interrupted_generation(&self, failure: Failure, layout: &Layout) -> Failure {
        let Some(files) = generate::existing_files(layout).filter(|_| failure.kind == Kind::Interrupted) else {
            return failure;
        };
        let what = format!("{}: {files} of {} files exist", failure.what, layout.total_files());
        // Data generated because none existed now exist in part.
        let more = if self.run.generate_first { " with ++workload.workflow.generate_data=true" } else { "" };
        Failure { what, remedy: format!("run the same command{more} to continue"), ..failure }
    }

    fn verify(&self, communicator: &mut dyn Communicator) -> Outcome<()> {
        let layout = Layout::new(&self.run.config.dataset);
        let progress = Progress::new(self.shown(communicator), "verify", layout.total_files(), "files");
        let done = generate::verify(&layout, self.part(communicator), &mut |files, _| progress.advance(files))?;
        drop(progress);
        let ranks = numbers(&communicator.exchange(&as_bytes(&[done.kept as f64, done.bytes as f64]))?);
        if self.shown(communicator) {
            terminal::line(format_args!("verified {} files, {:.1} MB", sum(&ranks, 0), sum(&ranks, 1) / 1e6));
        }
        Ok(())
    }

    /// Runs training or checkpoints, the phases that summary.json covers.
    fn measured(&self, communicator: &mut dyn Communicator, log: &mut Log, results: &mut Results) -> Outcome<()> {
        let config = &self.run.config;
        let terms = self.terms(communicator)?;
        // Before anything that has threads.
        let tiers = self.tiers(terms)?;
        let _cache = self.cache(terms)?;
        let (rank, ranks) = (communicator.rank(), communicator.size());
        let options = trainer::Options { shown: self.shown(communicator), ..self.request.training };
        let mut trainer = Trainer::new(config, options, terms, tiers, communicator, log, results)?;
        // Objects it fetches are counted from the first one.
        let _filler = self.filler(terms)?;
        let mut loader = if config.workflow.train { Some(loader::build(config, terms)?) } else { None };
        let sampler = (config.workflow.profile && terms.rank == 0 && config.profiler == "iostat")
            .then(|| Sampler::start(config.iostat_devices.clone()));
        let outcome = match &mut loader {
            Some(loader) => {
                let mut seldom = CostThrottle::default();
                trainer.train(loader.as_mut(), &mut |results| seldom.done(|| self.write(results, rank, ranks)))
            }
            None => trainer.checkpoints_only(),
        };
        if outcome.is_err() {
            trainer.note_unfinished_checkpoints();
        }
        drop(trainer);
        drop(loader);
        if let Some(sampler) = sampler {
            sampler.finish(&self.folder)?;
        }
        outcome?;
        match results.failed {
            0 => Ok(()),
            failed => Err(Failure::new(
                Kind::DamagedData,
                format!("cannot read {failed} samples; the first: {}", results.failures[0]),
            )),
        }
    }

    /// Opens the cache in front of the store: a temporary one for this run, or a persistent one for these data.
    fn cache(&self, terms: Terms) -> Outcome<Option<CacheGuard>> {
        let Config { cache: Some(cache), dataset, store: Some(store), workflow, .. } = &self.run.config else {
            return Ok(None);
        };
        if !workflow.train {
            return Ok(None);
        }
        let of_data = || {
            let text = format!("{:?} {dataset:?}", store.endpoints);
            text.bytes().fold(0, |name, byte| mixed(&[name, u64::from(byte)]))
        };
        let name = if cache.keep { of_data() } else { terms.run_seed };
        cache::enter(cache, &dataset.folder, name, terms.rank).map(Some)
    }

    /// Starts the process that fills the cache during training, if prefetch is on.
    fn filler(&self, terms: Terms) -> Outcome<Option<PrefetchProcess>> {
        let config = &self.run.config;
        let ahead = config.workflow.train && config.cache.as_ref().is_some_and(|cache| cache.ahead);
        let window = config.store.as_ref().map_or(0, |store| store.prefetch_window as usize);
        if ahead { PrefetchProcess::start(loader::first_files(config, terms)?, window).map(Some) } else { Ok(None) }
    }

    fn tiers(&self, terms: Terms) -> Outcome<Tiered> {
        let config = &self.run.config;
        let (model, checkpoints) = (&config.model, &config.checkpoint);
        let shards = Shards { model, checkpoints, framework: config.framework, ranks: terms.ranks }.of(terms.rank);
        let idle = Checkpoints { fast_folder: None, asynchronous: false, ..checkpoints.clone() };
        Tiered::new(if config.workflow.checkpoint { checkpoints } else { &idle }, &shards)
    }

    /// Makes all ranks agree on the seed of random shuffles: rank 0 draws it.
    fn terms(&self, communicator: &mut dyn Communicator) -> Outcome<Terms> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let own = mixed(&[now.as_nanos() as u64, u64::from(std::process::id())]);
        let all = communicator.exchange(&own.to_le_bytes())?;
        let first = all.first().and_then(|bytes| bytes.first_chunk::<8>()).copied().unwrap_or_default();
        Ok(Terms {
            rank: communicator.rank(),
            ranks: communicator.size(),
            run_seed: u64::from_le_bytes(first),
            original_order: self.request.original_order,
            workers: self.request.workers,
            skip_failures: self.request.training.skip_failures,
        })
    }

    fn write(&self, results: &Results, rank: u64, ranks: u64) -> Outcome<()> {
        let config = &self.run.config;
        self.folder.write_json(&format!("{rank}_per_epoch_stats.json"), &results.per_epoch_stats())?;
        self.folder.write_streamed(&format!("{rank}_output.json"), |out| results.write_output(config, out))?;
        if rank == 0 {
            self.folder.write_json("summary.json", &results.summary(config, ranks))?;
        }
        Ok(())
    }
}

/// Throttles work that is done after an epoch and grows with the number of epochs, so that it takes a small share of
/// the time.
#[derive(Default)]
struct CostThrottle {
    last: Option<(Instant, Duration)>,
}

impl CostThrottle {
    /// The work may take one part in this many of the time.
    const PARTS: u32 = 20;

    fn done(&mut self, work: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
        if self.last.is_some_and(|(ended, took)| ended.elapsed() < took * CostThrottle::PARTS) {
            return Ok(());
        }
        let begun = Instant::now();
        work()?;
        self.last = Some((Instant::now(), begun.elapsed()));
        Ok(())
    }
}

/// Sums one element of each rank's numbers.
fn sum(ranks: &[Vec<f64>], place: usize) -> f64 {
    ranks.iter().map(|rank| rank[place]).sum()
}
