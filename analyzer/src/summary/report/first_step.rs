//! Steps that come before the change of a finding, because they cost less or save more: dividing the data among readers, opening a
//! file once, not sharing data through a process, and stopping other programs.

use std::collections::BTreeSet;

use super::Summary;
use super::files::Use;
use super::findings::Finding;
use super::headline::{Bottleneck, Headline};
use super::next_step::HAND_OVER;
use super::no_cpu::Shortage;
use super::patterns::{OTHERS, PatternUse};
use super::verdict::training_waits;
use super::waits::called;
use crate::summary::figures::units::{bytes, grouped, many};
use crate::summary::waits::parts::{Part, Parts};

/// Readers read all files if each byte was read this many times per reader, unless that is as probable by chance.
const ALL: f64 = 0.95;
const BY_CHANCE: f64 = 0.01;
/// A reader gets about this many files at once: those of a batch, or of a task.
const TOGETHER: f64 = 16.0;

/// A process that opens a file for each sample opens it this often, and an archive or a table needs this many calls each time.
const REOPENED: u64 = 20;
const CALLS_AN_OPEN: u64 = 8;

/// Readers that lacked a CPU for this share of the wait would be faster without other programs.
const OTHER_PROGRAMS: f64 = 0.25;

impl Headline {
    /// Puts first to divide the files among the readers of the only trainer, if each of them reads all.
    pub(super) fn divide_files(&mut self, summary: &Summary) {
        let [group] = summary.training.as_slice() else { return };
        let readers: BTreeSet<u32> = group.readers.iter().map(|reader| reader.proc).collect();
        let number = readers.len() as u64;
        let what = &summary.dataset;
        let passes = what.bytes_read as f64 / what.bytes_reached.max(1) as f64;
        let is_shared = |row: &&PatternUse| {
            // Readers that shared out a shuffled data set would hardly have read all files by now, each of them.
            let misses = number as f64 * (1.0 - 1.0 / number as f64).powf(passes);
            let by_chance = (1.0 - misses).max(0.0).powf(row.files as f64 / TOGETHER);
            row.pattern != OTHERS
                && 2 * row.use_.bytes_read >= what.bytes_read
                && (number * row.files..=(number + 1) * row.files).contains(&row.users)
                && by_chance < BY_CHANCE
        };
        let all_read_all = number > 1
            && !readers.contains(&group.proc)
            && group.readers_at_once() as u64 == number
            && passes >= ALL * number as f64;
        let row = summary.patterns.iter().filter(|_| all_read_all).find(is_shared);
        if let (Some(next), Some(row)) = (&mut self.next, row) {
            let each = if group.torch { " (torch.utils.data.get_worker_info in an IterableDataset)" } else { "" };
            *next = format!(
                "let each reader read its own part of the data{each}: all {number} readers read all {} {}; then {next}",
                many(row.files, "file", "files"),
                row.names
            );
        }
    }

    /// Puts first to keep a file open, if most file calls are for one that is opened again and again: readers of archives and tables
    /// parse its index each time. Returns `true` if that was added.
    pub(super) fn keep_open(&mut self, summary: &Summary) -> bool {
        let calls: u64 = summary.patterns.iter().map(|row| row.use_.events).sum();
        let is_reopened = |row: &&PatternUse| {
            let Use { events, opens, .. } = row.use_;
            row.pattern != OTHERS
                && opens >= REOPENED * row.users.max(1)
                && events >= CALLS_AN_OPEN * opens
                && 2 * events >= calls
        };
        let row = summary.patterns.iter().find(is_reopened);
        if let (Some(next), Some(row), Bottleneck::PreprocessingBound) = (&mut self.next, row, self.bottleneck) {
            let (names, opens, read) = (&row.names, grouped(row.use_.opens), bytes(row.use_.bytes_read as f64));
            *next = format!(
                "open {names} once in each reader, and keep its index or contents: it was opened {opens} times, and {read} were read from it; \
                 then {next}"
            );
            return true;
        }
        false
    }

    /// Puts first what readers exchange with another process than the trainer, if passing data on takes most of the wait.
    pub(super) fn share_less(&mut self, finding: &Finding, summary: &Summary) {
        let keeper =
            summary.training.iter().find_map(|group| group.loading.shared_by).filter(|_| finding.id == HAND_OVER);
        let process = keeper.and_then(|keeper| summary.processes.iter().find(|process| process.proc == keeper));
        if let (Some(next), Some(process)) = (&mut self.next, process) {
            let name = called(&process.called, process.pid, process.pid);
            // Batches, which the change of the rule concerns, are the smaller part.
            *next = format!(
                "keep what readers get from {name} in each reader, in a file or in shared memory: they received most of their data from it \
                 through pipes or sockets (it may be the manager of a shared dictionary)"
            );
        }
    }

    /// Puts first what costs nothing, if other programs kept the readers from running for much of the wait.
    pub(super) fn free_cpus_first(&mut self, summary: &Summary) {
        let waits = training_waits(summary).filter(|_| self.bottleneck == Bottleneck::PreprocessingBound);
        let Some(waits) = waits else { return };
        let lacked = |causes: &Parts| causes.get(Part::NoCpu) as f64 >= OTHER_PROGRAMS * causes.sum() as f64;
        let Some(Shortage::Others { busy: Some(busy), cpus, .. }) = &waits.shortage else { return };
        if let Some(next) = self.next.as_mut().filter(|_| waits.causes.as_ref().is_some_and(lacked)) {
            *next =
                format!("first stop the other programs of this host, which used {busy:.1} of {cpus} CPUs; then {next}");
        }
    }
}
