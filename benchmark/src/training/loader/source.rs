//! Reads the samples at a range of positions, in order: the work of a loader worker.

use super::order::{Order, SampleId};
use super::replay::Replay;
use crate::config::Reading;
use crate::config::compute_time::Pace;
use crate::data_set::formats::{self, Reader};
use crate::data_set::layout::{Layout, Split};
use crate::failure::{Failure, Outcome};
use crate::files::input::Access;
use crate::spans;
use crate::store::Upcoming;
use crate::system::buffer::SharedSlots;
use crate::system::random::mixed;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// The time and size of reading a unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    pub samples: u64,
    pub bytes: u64,
    pub read_nanos: u64,
    pub preprocess_nanos: u64,
    /// Samples that could not be read.
    pub failed: u64,
    /// The first of the failures, with its file.
    pub failure: Option<Failure>,
}

/// Everything a worker needs in addition to the order.
#[derive(Clone)]
pub struct WorkerInputs {
    pub layout: Layout,
    pub reading: Reading,
    /// A streaming loader keeps a file open while it reads it.
    pub streams: bool,
    /// Objects that are requested ahead.
    pub window: Window,
    pub slots: Arc<SharedSlots>,
}

/// How many objects a reader requests ahead, and the first epoch in which it does: before it, the process that fills
/// the cache does so.
#[derive(Debug, Clone, Copy, Default)]
pub struct Window {
    pub objects: u64,
    pub from_epoch: u64,
}

/// The maximum number of files that stay open until the end of an epoch if `reader.read_type` is memory; beyond it the
/// oldest is closed.
const KEPT_MAX: usize = 64;

pub struct Source {
    supply: WorkerInputs,
    access: Access,
    worker: u64,
    reader: Box<dyn Reader>,
    /// The file that the reader has open.
    open: Option<(Split, u64)>,
    /// Earlier files that stay open, with their readers.
    kept: VecDeque<((Split, u64), Box<dyn Reader>)>,
    keeps_more: bool,
    /// The objects of this epoch, if they are requested ahead.
    upcoming: Option<Upcoming>,
    preprocess: Pace,
}

fn reader(supply: &WorkerInputs, access: Access, worker: u64) -> Outcome<Box<dyn Reader>> {
    let dataset = &supply.layout.dataset;
    match &supply.reading.profile {
        Some(profile) => Ok(Box::new(Replay::new(profile.clone(), dataset.samples_per_file, worker))),
        None => Ok(formats::find(&dataset.format)?.reader(dataset, access)),
    }
}

impl Source {
    pub fn new(supply: WorkerInputs, worker: u64) -> Outcome<Source> {
        let reading = &supply.reading;
        let access = Access {
            transfer: reading.transfer_size as usize,
            direct: reading.direct,
            map: reading.map,
            keep_open: reading.keep_open,
            unchecked: !reading.checksums,
            by_index: !supply.streams,
            collective: reading.collective,
        };
        // Keeping a file that is read whole would keep all its bytes in memory.
        let format = formats::find(&supply.layout.dataset.format)?;
        let by_range = !format.reads_whole() && !format.keeps_files(access);
        let keeps_more = reading.keep_open && reading.profile.is_none() && !supply.streams && by_range;
        let reader = reader(&supply, access, worker)?;
        let preprocess = Pace::new(reading.preprocess, mixed(&[worker, 77]), false);
        let kept = VecDeque::new();
        Ok(Source { access, worker, reader, open: None, kept, keeps_more, upcoming: None, preprocess, supply })
    }

    /// Starts an epoch in which the samples at these positions are read, in this order.
    pub fn begin(&mut self, order: Order, split: Split, positions: impl Iterator<Item = u64> + 'static) {
        self.upcoming = None;
        let window = self.supply.window;
        if window.objects == 0 || order.epoch < window.from_epoch {
            return;
        }
        let layout = self.supply.layout.clone();
        let stays_open = self.supply.streams || self.supply.reading.keep_open;
        let mut last = None;
        let opened = positions.map(move |position| order.at(position).file).filter(move |file| {
            let again = stays_open && last == Some(*file);
            last = Some(*file);
            !again
        });
        self.upcoming = Some(Upcoming::new(opened.map(move |file| layout.path(split, file)), window.objects));
    }

    /// Reads the samples at `positions`; their arrays for the trainer go to `slot`.
    pub fn unit(&mut self, order: &Order, split: Split, positions: Range<u64>, slot: usize) -> Report {
        let mut report = Report::default();
        for (place, position) in positions.enumerate() {
            let id = order.at(position);
            let begun = Instant::now();
            let read = self.sample(split, id, order.epoch);
            report.read_nanos += begun.elapsed().as_nanos() as u64;
            report.bytes += self.reader.take_moved();
            match read {
                Ok(()) => {
                    report.samples += 1;
                    self.hand_over(slot, place);
                    report.preprocess_nanos += self.preprocessed().as_nanos() as u64;
                }
                Err(failure) => {
                    report.failed += 1;
                    report.failure.get_or_insert(failure);
                    self.forget();
                }
            }
        }
        report
    }

    fn preprocessed(&mut self) -> std::time::Duration {
        if self.supply.reading.preprocess.mean() == 0.0 {
            return std::time::Duration::ZERO;
        }
        let _span = spans::span("preprocess", spans::DATA, &[]);
        self.preprocess.step()
    }

    fn hand_over(&self, slot: usize, place: usize) {
        let size = self.supply.reading.handed_bytes as usize;
        if size > 0 {
            let bytes = self.reader.bytes();
            self.supply.slots.fill(slot, place * size, &bytes[..bytes.len().min(size)]);
        }
    }

    fn sample(&mut self, split: Split, id: SampleId, epoch: u64) -> Outcome<()> {
        self.open(split, id.file)?;
        {
            let _span = spans::span("reader.read", spans::READER, &[("epoch", epoch), ("sample", id.index)]);
            self.reader.sample(id.index)?;
        }
        if !self.supply.streams && !self.supply.reading.keep_open {
            self.forget();
        }
        Ok(())
    }

    fn open(&mut self, split: Split, file: u64) -> Outcome<()> {
        if self.open == Some((split, file)) {
            return Ok(());
        }
        if self.keeps_more {
            self.keep()?;
        }
        self.forget();
        if let Some(place) = self.kept.iter().position(|(kept, _)| *kept == (split, file)) {
            let kept = self.kept.remove(place);
            if let Some((file, reader)) = kept {
                (self.open, self.reader) = (Some(file), reader);
            }
            return Ok(());
        }
        let path = self.supply.layout.path(split, file);
        if let Some(upcoming) = &mut self.upcoming {
            upcoming.advance()?;
        }
        let _span = spans::span("reader.open", spans::READER, &[("file", file)]);
        self.reader.open(&path)?;
        self.open = Some((split, file));
        Ok(())
    }

    /// Keeps the current file open for later samples.
    fn keep(&mut self) -> Outcome<()> {
        let Some(file) = self.open.take() else { return Ok(()) };
        let fresh = reader(&self.supply, self.access, self.worker)?;
        self.kept.push_back((file, std::mem::replace(&mut self.reader, fresh)));
        if self.kept.len() >= KEPT_MAX {
            self.let_go(1);
        }
        Ok(())
    }

    fn let_go(&mut self, count: usize) {
        for (_, mut reader) in self.kept.drain(..count) {
            let _span = spans::span("reader.close", spans::READER, &[]);
            reader.close();
            reader.end_epoch();
        }
    }

    fn forget(&mut self) {
        if self.open.take().is_some() {
            let _span = spans::span("reader.close", spans::READER, &[]);
            self.reader.close();
        }
    }

    /// Closes what an epoch left open.
    pub fn end_epoch(&mut self) {
        self.forget();
        self.let_go(self.kept.len());
        self.reader.end_epoch();
    }
}
