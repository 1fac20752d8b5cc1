//! Reads the samples of a run of positions, one after another: what a worker does all day.

use super::order::{Order, SampleId};
use super::replay::Replay;
use crate::buffer::SharedSlots;
use crate::config::Reading;
use crate::failure::{Failure, Outcome};
use crate::formats::{self, Reader};
use crate::input::Access;
use crate::layout::{Layout, Split};
use crate::pace::Pace;
use crate::random::mixed;
use crate::spans;
use crate::store;
use std::ops::Range;
use std::path::PathBuf;
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

/// Everything a worker needs besides the order.
#[derive(Clone)]
pub struct Supply {
    pub layout: Layout,
    pub reading: Reading,
    /// A streaming loader keeps a file open while it goes through it.
    pub streams: bool,
    /// Objects are asked for before their turn.
    pub asks_ahead: bool,
    pub slots: Arc<SharedSlots>,
}

pub struct Source {
    supply: Supply,
    reader: Box<dyn Reader>,
    open: Option<(Split, u64, PathBuf)>,
    /// The objects of this epoch that nobody has asked for yet, where they are asked for before their turn.
    upcoming: Option<Box<dyn Iterator<Item = PathBuf>>>,
    preprocess: Pace,
}

impl Source {
    pub fn new(supply: Supply, worker: u64) -> Outcome<Source> {
        let reading = &supply.reading;
        let access = Access {
            transfer: reading.transfer_size as usize,
            direct: reading.direct,
            map: reading.map,
            keep_open: reading.keep_open,
            check: false,
            collective: reading.collective,
        };
        let dataset = &supply.layout.dataset;
        let reader: Box<dyn Reader> = match &reading.profile {
            Some(profile) => Box::new(Replay::new(profile.clone(), dataset.samples_per_file, worker)),
            None => formats::find(&dataset.format)?.reader(dataset, access),
        };
        let preprocess = Pace::new(reading.preprocess, mixed(&[worker, 77]), false);
        Ok(Source { reader, open: None, upcoming: None, preprocess, supply })
    }

    /// An epoch begins, in which the samples at these positions are read, in this order.
    pub fn begin(&mut self, order: Order, split: Split, positions: impl Iterator<Item = u64> + 'static) {
        if !self.supply.asks_ahead {
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
        self.upcoming = Some(Box::new(opened.map(move |file| layout.path(split, file))));
    }

    /// Reads the samples at `positions`; the arrays they are handed over as go to `slot`.
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
        if self.open.as_ref().is_some_and(|(open_split, number, _)| (*open_split, *number) == (split, file)) {
            return Ok(());
        }
        self.forget();
        let path = self.supply.layout.path(split, file);
        if let Some(upcoming) = &mut self.upcoming {
            store::ask_ahead(upcoming)?;
        }
        let _span = spans::span("reader.open", spans::READER, &[("file", file)]);
        self.reader.open(&path)?;
        self.open = Some((split, file, path));
        Ok(())
    }

    fn forget(&mut self) {
        if self.open.take().is_some() {
            let _span = spans::span("reader.close", spans::READER, &[]);
            self.reader.close();
        }
    }

    /// Closes what an epoch left open.
    pub fn rest(&mut self) {
        self.preprocess.rest();
        self.forget();
    }
}
