//! Reads all units of a trace on several threads, in parts with ever earlier ends.
//!
//! A part is a sequence of units; parts are assigned in order, so that at any time the threads hold a short period of
//! the trace, however long it is.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::batch::{Batch, Wanted};
use crate::filter::Sieve;
use crate::load::Trace;
use crate::load::sources::source::Reader;
use crate::unit::Unit;

/// Events in a part: enough that assigning one costs nothing, few enough that the period held remains short.
const PART_EVENTS: u64 = 128 << 10;

/// The progress of a scan; another thread may read it or stop the scan.
#[derive(Default)]
pub struct Progress {
    pub events: AtomicU64,
    pub bytes: AtomicU64,
    pub stopped: AtomicBool,
}

/// The processing of one thread's batches.
pub trait Consumer: Send {
    fn batch(&mut self, batch: &mut Batch);

    /// Called after all batches of a unit.
    fn unit_done(&mut self, _unit: &Unit) {}

    /// Called after part number `part`; nothing in later parts ends after `horizon`.
    fn part_done(&mut self, part: usize, horizon: i64);
}

/// Two consumers of the same batches.
pub struct Both<A, B>(pub A, pub B);

impl<A: Consumer, B: Consumer> Consumer for Both<A, B> {
    fn batch(&mut self, batch: &mut Batch) {
        self.0.batch(batch);
        self.1.batch(batch);
    }

    fn unit_done(&mut self, unit: &Unit) {
        self.0.unit_done(unit);
        self.1.unit_done(unit);
    }

    fn part_done(&mut self, part: usize, horizon: i64) {
        self.0.part_done(part, horizon);
        self.1.part_done(part, horizon);
    }
}

/// A consumer that ignores all batches.
impl Consumer for () {
    fn batch(&mut self, _: &mut Batch) {}

    fn part_done(&mut self, _: usize, _: i64) {}
}

/// Returns sequences of units of about [`PART_EVENTS`] events each.
pub fn parts(units: &[Unit]) -> Vec<&[Unit]> {
    let mut parts = Vec::new();
    let (mut from, mut events) = (0, 0);
    for (i, unit) in units.iter().enumerate() {
        events += unit.events.max(1);
        if events >= PART_EVENTS {
            parts.push(&units[from..=i]);
            (from, events) = (i + 1, 0);
        }
    }
    if from < units.len() {
        parts.push(&units[from..]);
    }
    parts
}

/// Reads everything that may pass the sieve; returns the consumers, one per thread.
pub fn scan<C: Consumer>(
    trace: &Trace,
    sieve: &Sieve,
    wanted: Wanted,
    threads: usize,
    progress: &Progress,
    consumer: impl Fn() -> C + Sync,
) -> std::io::Result<Vec<C>> {
    scan_some(trace, sieve, wanted, threads, progress, |_| true, consumer)
}

/// Reads the units that `takes` selects, in the same parts and up to the same horizons as if all were read.
pub fn scan_some<C: Consumer>(
    trace: &Trace,
    sieve: &Sieve,
    wanted: Wanted,
    threads: usize,
    progress: &Progress,
    takes: impl Fn(&Unit) -> bool + Sync,
    consumer: impl Fn() -> C + Sync,
) -> std::io::Result<Vec<C>> {
    let parts = parts(&trace.units);
    let next = AtomicUsize::new(0);
    let work = || -> std::io::Result<C> {
        let mut reader = Reader::new()?;
        let mut consumer = consumer();
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            let Some(units) = parts.get(part).filter(|_| !progress.stopped.load(Ordering::Relaxed)) else {
                return Ok(consumer);
            };
            // Units are ordered from last to first: read in reverse, a thread's events ascend and need no sorting.
            for unit in units.iter().rev().filter(|unit| takes(unit)) {
                trace.read(unit, &mut reader, wanted, sieve, &mut |batch| {
                    progress.events.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    consumer.batch(batch);
                });
                consumer.unit_done(unit);
                progress.bytes.fetch_add(unit.size, Ordering::Relaxed);
            }
            let after = parts.get(part + 1).and_then(|units| units.first());
            consumer.part_done(part, after.map_or(i64::MIN, |unit| unit.last_end));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that reads")).collect()
    })
}
