//! The plan that all loaders share: the samples of each batch of each rank, and the workers that read them.

use super::order::{Order, Share, Shuffling};
use super::source::{Report, Source, Window, WorkerInputs};
use crate::config::{Config, LoaderKind, Shuffle};
use crate::data_set::formats;
use crate::data_set::layout::{Layout, Split};
use crate::failure::{Failure, Kind, Outcome};
use crate::system::buffer::SharedSlots;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerKind {
    Processes,
    Threads,
}

/// The decisions of a run for all its loaders.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub rank: u64,
    pub ranks: u64,
    pub run_seed: u64,
    /// DLIO's order: nothing is shuffled.
    pub original_order: bool,
    pub workers: WorkerKind,
    pub skip_failures: bool,
}

/// One batch, as the trainer sees it.
pub type Batch = Report;

pub trait Loader {
    /// Starts an epoch. Workers start to read immediately.
    fn begin(&mut self, split: Split, epoch: u64) -> Outcome<()>;

    /// Returns the next batch; never called more often than the share has steps.
    fn next(&mut self) -> Outcome<Batch>;

    /// Returns the ids of its worker processes.
    fn processes(&self) -> Vec<libc::pid_t> {
        Vec::new()
    }
}

/// The plan that loaders of all kinds share.
#[derive(Clone)]
pub struct Plan {
    pub(super) supply: WorkerInputs,
    pub(super) shuffling: Shuffling,
    pub(super) terms: Terms,
    pub(super) batch: u64,
    pub(super) batch_eval: u64,
    pub(super) steps_max: Option<u64>,
}

impl Plan {
    pub fn new(config: &Config, terms: Terms) -> Outcome<Plan> {
        let reading = &config.reader;
        // Shards of webdataset are streams with any loader.
        let by_shard = config.dataset.format == "webdataset" && reading.loader != LoaderKind::Synthetic;
        let streams = by_shard || matches!(reading.loader, LoaderKind::TensorFlow | LoaderKind::NativeDali);
        let shuffle = |kind| if terms.original_order { Shuffle::Off } else { kind };
        let slots = slots(config).map_err(|error| {
            Failure::new(Kind::System, format!("cannot allocate memory for batches: {error}"))
                .remedy("reduce read_threads, batch_size, prefetch_size or record_length_bytes_resize")
        })?;
        Ok(Plan {
            supply: WorkerInputs {
                layout: Layout::new(&config.dataset),
                reading: reading.clone(),
                streams,
                window: window(config),
                slots: Arc::new(slots),
            },
            shuffling: Shuffling {
                files: shuffle(reading.file_shuffle),
                samples: shuffle(reading.sample_shuffle),
                seed: config.train.seed,
                seed_change_epoch: config.train.seed_change_epoch,
                run_seed: terms.run_seed,
                streams,
            },
            terms,
            batch: reading.batch,
            batch_eval: reading.batch_eval,
            steps_max: config.train.steps_max,
        })
    }

    pub fn share(&self, split: Split) -> Share {
        let total = self.supply.layout.samples(split);
        let (batch, steps_max) = match split {
            Split::Train => (self.batch, self.steps_max),
            Split::Valid => (self.batch_eval, None),
        };
        let share = Share::new(total, batch, self.terms.rank, self.terms.ranks, steps_max);
        match self.supply.reading.strided && !self.supply.streams {
            true => share.strided(self.terms.rank, self.terms.ranks),
            false => share,
        }
    }

    pub(super) fn order(&self, split: Split, epoch: u64) -> Order {
        let layout = &self.supply.layout;
        Order::new(layout.files(split), layout.dataset.samples_per_file, &self.shuffling, split, epoch)
    }

    /// Returns the number of batches that one worker may have in flight.
    pub(super) fn ahead(&self) -> u64 {
        let workers = self.supply.reading.workers.max(1) as u64;
        match self.supply.reading.prefetch {
            0 => 2,
            prefetch => prefetch.div_ceil(workers),
        }
    }

    /// Returns the samples in a piece of a stream: small samples are sent together, because each message costs
    /// microseconds.
    pub(super) fn piece(&self) -> u64 {
        const PIECE_BYTES: f64 = 1024.0 * 1024.0;
        let record = self.supply.layout.record_bytes().max(1.0);
        ((PIECE_BYTES / record) as u64).clamp(1, 256)
    }

    /// Returns the samples a streaming loader buffers to mix them.
    pub(super) fn shuffle_buffer(&self) -> u64 {
        let shuffled = self.supply.streams && self.shuffling.samples != Shuffle::Off;
        if shuffled { self.supply.reading.shuffle_size } else { 0 }
    }

    pub(super) fn source(&self, worker: u64) -> Outcome<Source> {
        Source::new(self.supply.clone(), self.terms.rank << 16 | worker)
    }
}

/// Returns how many objects are requested ahead: the store's window, if objects are read whole. If a cache is
/// prefetched, its own process does so in the first epoch.
fn window(config: &Config) -> Window {
    let objects = config.store.as_ref().map_or(0, |store| store.prefetch_window);
    let whole = formats::find(&config.dataset.format).is_ok_and(|format| format.reads_whole());
    let filled = config.cache.as_ref().is_some_and(|cache| cache.ahead);
    match config.reader.profile.is_none() && whole {
        true => Window { objects, from_epoch: if filled { 2 } else { 1 } },
        false => Window::default(),
    }
}

/// Allocates space for every array that may be in use at the same time.
fn slots(config: &Config) -> std::io::Result<SharedSlots> {
    let reading = &config.reader;
    let workers = reading.workers.max(1) as u64;
    let ahead = reading.prefetch.max(2).div_ceil(workers) * workers;
    let batch = if reading.loader == LoaderKind::Synthetic { 0 } else { reading.batch.max(reading.batch_eval) };
    SharedSlots::new(batch.saturating_mul(reading.handed_bytes) as usize, ahead as usize)
}

/// Returns the files of a rank's first epoch, each as often as it is read.
pub fn first_files(config: &Config, terms: Terms) -> Outcome<impl Iterator<Item = PathBuf>> {
    let plan = Plan::new(config, terms)?;
    let (order, share) = (plan.order(Split::Train, 1), plan.share(Split::Train));
    let positions = (0..share.steps).flat_map(move |step| share.batch_positions(step));
    let mut last = None;
    let files =
        positions.map(move |position| order.at(position).file).filter(move |file| last.replace(*file) != Some(*file));
    Ok(files.map(move |file| plan.supply.layout.path(Split::Train, file)))
}

pub(super) fn checked(mut batch: Batch, skip: bool) -> Outcome<Batch> {
    match batch.failure.take() {
        Some(failure) if !skip => Err(failure),
        failure => Ok(Batch { failure, ..batch }),
    }
}
