//! Events of one thread as columns, produced by every reader and counted by every report.
//!
//! Values that a whole batch shares (process, thread) are stored once. A missing number is [`ABSENT`]. Arrow batches
//! are made from these only for SQL and Parquet.

use std::ops::Range;

use dlio_schemas::evidence::Counters;

/// A value that an event does not have.
pub const ABSENT: i64 = i64::MIN;

/// The result of a call that failed with an unknown error.
pub const FAILED: i64 = i64::MIN + 1;

/// A 32-bit value that an event does not have.
pub const ABSENT_32: i32 = i32::MIN;

/// The parts of events that a reader must provide.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Flags, modes, metadata: expensive, and needed only by SQL.
    pub args: bool,
    /// Depths, if they are expensive: texts are read twice for them.
    pub depth: bool,
    /// Other columns may be present or empty.
    pub columns: Columns,
}

/// A set of the columns of a batch; kinds are in every batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns(u16);

impl Columns {
    pub const NONE: Columns = Columns(0);
    pub const TS: Columns = Columns(1);
    pub const DUR: Columns = Columns(1 << 1);
    pub const FILE: Columns = Columns(1 << 2);
    pub const FD: Columns = Columns(1 << 3);
    pub const POS: Columns = Columns(1 << 4);
    pub const REQUESTED: Columns = Columns(1 << 5);
    pub const BYTES: Columns = Columns(1 << 6);
    pub const RET: Columns = Columns(1 << 7);
    /// Epochs and steps.
    pub const STEPS: Columns = Columns(1 << 8);
    /// All columns, and the data of a batch besides them: copies, losses.
    pub const ALL: Columns = Columns(u16::MAX);

    pub fn and(self, other: Columns) -> Columns {
        Columns(self.0 | other.0)
    }

    /// Returns `true` if the sets have a common column.
    #[inline(always)]
    pub fn has(self, any: Columns) -> bool {
        self.0 & any.0 != 0
    }
}

/// All columns: readers of fewer set that explicitly.
impl Default for Columns {
    fn default() -> Columns {
        Columns::ALL
    }
}

/// One entry of the column `args`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    pub row: u32,
    /// Number of a text in the catalog.
    pub key: u32,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i64),
    Float(f64),
    /// Number of a text in the catalog.
    Text(u32),
    /// Printed in octal, like permission bits.
    Octal(i64),
    /// Printed in hexadecimal, like flags.
    Hex(i64),
}

/// The object of a wait and the thread that ended it; for a call on a socket, its peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wake {
    pub row: u32,
    /// An address, or the number of an object that processes share; for a socket the peer process.
    pub object: u64,
    /// Thread, time and flags of the thread that ended the wait, as in the trace; for a pair of sockets the other one.
    pub waker: i64,
}

/// The kernel's counters for the thread of a batch since the previous record, with their time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    pub ts: i64,
    pub counters: Counters,
}

/// Events of one thread. All columns have equal length, except those that were not requested, which are empty.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Batch {
    pub proc: u32,
    pub tid: i32,
    pub ts: Vec<i64>,
    pub dur: Vec<i64>,
    /// Number of a [`crate::catalog::Kind`].
    pub kind: Vec<u32>,
    /// Number of a file, or 0.
    pub file: Vec<u32>,
    pub fd: Vec<i32>,
    pub pos: Vec<i64>,
    pub requested: Vec<i64>,
    pub bytes: Vec<i64>,
    /// Result, or `-errno`, or [`FAILED`].
    pub ret: Vec<i64>,
    pub depth: Vec<u8>,
    /// Empty if no event has one.
    pub epoch: Vec<i32>,
    /// As long as `epoch`.
    pub step: Vec<i32>,
    /// The GPU of a span on one. Empty if no event has one.
    pub device: Vec<i32>,
    /// In order of rows.
    pub args: Vec<Arg>,
    /// Rows whose bytes came from another file, and the number of that file.
    pub sources: Vec<(u32, u32)>,
    /// Rows that sent a file into a pipe or socket, and the number of that, in order of rows.
    pub sent: Vec<(u32, u32)>,
    /// In order of rows.
    pub wakes: Vec<Wake>,
    /// In order of time.
    pub usage: Vec<Usage>,
    /// Events that the writer reports as missing.
    pub lost: u64,
    /// The part of these that was aggregated on purpose.
    pub aggregated: u64,
    /// The process calls libraries above the file system; the arguments of these calls are always there.
    pub has_data_sets: bool,
}

/// One event, for readers that produce them individually.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub ts: i64,
    pub dur: i64,
    pub kind: u32,
    pub file: u32,
    pub fd: i32,
    pub pos: i64,
    pub requested: i64,
    pub bytes: i64,
    pub ret: i64,
    pub depth: u8,
    pub epoch: i32,
    pub step: i32,
    pub device: i32,
}

impl Row {
    /// Creates an event with only its time and kind.
    pub fn new(ts: i64, dur: i64, kind: u32) -> Row {
        Row {
            ts,
            dur,
            kind,
            file: crate::catalog::FILE_NONE,
            fd: ABSENT_32,
            pos: ABSENT,
            requested: ABSENT,
            bytes: ABSENT,
            ret: ABSENT,
            depth: 0,
            epoch: ABSENT_32,
            step: ABSENT_32,
            device: ABSENT_32,
        }
    }
}

impl Batch {
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    pub fn clear(&mut self) {
        self.each(Vec::clear, Vec::clear, Vec::clear, Vec::clear);
        self.args.clear();
        self.sources.clear();
        self.sent.clear();
        self.wakes.clear();
        self.usage.clear();
        (self.lost, self.aggregated) = (0, 0);
        self.has_data_sets = false;
    }

    pub fn push(&mut self, row: &Row) {
        let before = self.len();
        self.ts.push(row.ts);
        self.dur.push(row.dur);
        self.kind.push(row.kind);
        self.file.push(row.file);
        self.fd.push(row.fd);
        self.pos.push(row.pos);
        self.requested.push(row.requested);
        self.bytes.push(row.bytes);
        self.ret.push(row.ret);
        self.depth.push(row.depth);
        let carries = row.epoch != ABSENT_32 || row.step != ABSENT_32;
        if carries || !self.epoch.is_empty() {
            self.epoch.resize(before, ABSENT_32);
            self.step.resize(before, ABSENT_32);
            self.epoch.push(row.epoch);
            self.step.push(row.step);
        }
        if row.device != ABSENT_32 || !self.device.is_empty() {
            self.device.resize(before, ABSENT_32);
            self.device.push(row.device);
        }
    }

    /// Adds the rows of another batch, for `rows` rows in all: kinds, depths and some columns. Process, thread, arguments
    /// and the other parts of a batch are not added.
    pub fn extend(&mut self, more: &Batch, columns: Columns, rows: usize) {
        let before = self.len();
        extend(&mut self.kind, &more.kind, rows);
        extend(&mut self.depth, &more.depth, rows);
        if columns.has(Columns::FILE) {
            extend(&mut self.file, &more.file, rows);
        }
        if columns.has(Columns::FD) {
            extend(&mut self.fd, &more.fd, rows);
        }
        let longs = [
            (Columns::TS, &mut self.ts, &more.ts),
            (Columns::DUR, &mut self.dur, &more.dur),
            (Columns::POS, &mut self.pos, &more.pos),
            (Columns::REQUESTED, &mut self.requested, &more.requested),
            (Columns::BYTES, &mut self.bytes, &more.bytes),
            (Columns::RET, &mut self.ret, &more.ret),
        ];
        for (column, values, more) in longs {
            if columns.has(column) {
                extend(values, more, rows);
            }
        }
        if columns.has(Columns::STEPS) && !(self.epoch.is_empty() && more.epoch.is_empty()) {
            for (values, more) in [(&mut self.epoch, &more.epoch), (&mut self.step, &more.step)] {
                values.resize(before, ABSENT_32);
                values.extend_from_slice(more);
                values.resize(self.kind.len(), ABSENT_32);
            }
        }
    }

    /// Sets the GPU of a row.
    pub fn set_device(&mut self, row: usize, device: i32) {
        self.device.resize(self.len(), ABSENT_32);
        self.device[row] = device;
    }

    /// Keeps the rows for which `keep` is `true`.
    pub fn retain(&mut self, keep: &[bool]) {
        if keep.iter().all(|kept| *kept) {
            return;
        }
        let runs = runs(keep);
        self.each(
            |column| sift(column, &runs),
            |column| sift(column, &runs),
            |column| sift(column, &runs),
            |column| sift(column, &runs),
        );
        let mut moved = 0;
        let rows: Vec<u32> = keep
            .iter()
            .map(|kept| {
                moved += *kept as u32;
                moved.wrapping_sub(1)
            })
            .collect();
        self.args.retain(|arg| keep[arg.row as usize]);
        self.args.iter_mut().for_each(|arg| arg.row = rows[arg.row as usize]);
        for pairs in [&mut self.sources, &mut self.sent] {
            pairs.retain(|(row, _)| keep[*row as usize]);
            pairs.iter_mut().for_each(|(row, _)| *row = rows[*row as usize]);
        }
        self.wakes.retain(|wake| keep[wake.row as usize]);
        self.wakes.iter_mut().for_each(|wake| wake.row = rows[wake.row as usize]);
    }

    fn each(
        &mut self,
        mut i64s: impl FnMut(&mut Vec<i64>),
        mut u32s: impl FnMut(&mut Vec<u32>),
        mut i32s: impl FnMut(&mut Vec<i32>),
        mut u8s: impl FnMut(&mut Vec<u8>),
    ) {
        [&mut self.ts, &mut self.dur, &mut self.pos, &mut self.requested, &mut self.bytes, &mut self.ret]
            .into_iter()
            .for_each(&mut i64s);
        [&mut self.kind, &mut self.file].into_iter().for_each(&mut u32s);
        [&mut self.fd, &mut self.epoch, &mut self.step, &mut self.device].into_iter().for_each(&mut i32s);
        u8s(&mut self.depth);
    }
}

/// Adds values to a column, which gets memory for all its rows at once.
fn extend<T: Copy>(column: &mut Vec<T>, more: &[T], rows: usize) {
    if column.is_empty() {
        column.reserve_exact(rows.max(more.len()));
    }
    column.extend_from_slice(more);
}

/// Returns the maximal ranges of rows to keep.
fn runs(keep: &[bool]) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut at = 0;
    for run in keep.chunk_by(|a, b| a == b) {
        if run[0] {
            runs.push(at..at + run.len());
        }
        at += run.len();
    }
    runs
}

/// Moves ranges together. An unused column is empty and remains so.
fn sift<T: Copy>(column: &mut Vec<T>, runs: &[Range<usize>]) {
    if column.is_empty() {
        return;
    }
    let mut kept = 0;
    for run in runs {
        column.copy_within(run.clone(), kept);
        kept += run.len();
    }
    column.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_take_room_only_where_an_event_carries_them() {
        let mut batch = Batch::default();
        batch.push(&Row::new(1, 1, 0));
        assert!(batch.epoch.is_empty());
        batch.push(&Row { step: 4, ..Row::new(2, 1, 0) });
        batch.push(&Row::new(3, 1, 0));
        assert_eq!(batch.step, [ABSENT_32, 4, ABSENT_32]);
    }

    #[test]
    fn batches_are_put_together() {
        let batch = |ts, step| {
            let mut batch = Batch::default();
            batch.push(&Row { pos: 10 * ts, step, ..Row::new(ts, 1, 7) });
            batch
        };
        let mut all = Batch::default();
        for (ts, step) in [(1, ABSENT_32), (2, 4), (3, ABSENT_32)] {
            all.extend(&batch(ts, step), Columns::TS.and(Columns::STEPS), 8);
        }
        assert_eq!((all.len(), &all.ts[..], &all.step[..]), (3, &[1, 2, 3][..], &[ABSENT_32, 4, ABSENT_32][..]));
        assert_eq!((all.pos.len(), all.dur.len(), all.depth.len()), (0, 0, 3));
    }

    #[test]
    fn rows_that_are_left_out_take_their_args_along() {
        let mut batch = Batch::default();
        (0..4).for_each(|i| batch.push(&Row::new(i, 1, 0)));
        batch.args = (0..4).map(|row| Arg { row, key: 0, value: Value::Int(row as i64) }).collect();
        batch.sources = vec![(0, 7), (3, 8)];
        batch.retain(&[false, true, false, true]);
        assert_eq!(batch.sources, [(1, 8)]);
        assert_eq!(batch.ts, [1, 3]);
        let left: Vec<_> = batch.args.iter().map(|arg| (arg.row, arg.value.clone())).collect();
        assert_eq!(left, [(0, Value::Int(1)), (1, Value::Int(3))]);
    }
}
