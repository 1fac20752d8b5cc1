//! Counts instead of events: the record of a run of days in constant memory.
//!
//! A table of fixed size is in the ring file, so that it survives a kill, and is written to the `.dlt` when the
//! process ends. It is an array of 64-bit numbers, so that a writer in shared memory and a reader of a torn file can
//! both be safe code: any bytes are a valid table, and only its sums can be wrong.
//!
//! ```text
//! head      magic, counters, the start and the width of the bins
//! rows      one per operation and file, in the order of their first event: counts, times, bytes, how sequential
//! shapes    one per operation or span: how many durations and sizes in each eighth of a doubling
//! threads   one per thread: its events and whether it did I/O
//! bins      one per interval of time: the activity in it; a bin doubles when the last one is full
//! busy      for I/O and for each category of spans: when at least one was active, as disjoint intervals in order
//! ```
//!
//! Data without space is never dropped: further files are counted together as [`OTHER`], further threads as one, and
//! intervals are merged over the shortest gaps, which are noted.

mod repeated_calls;

pub use repeated_calls::TOGETHER_MAX;

use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use super::Damage;
use crate::event::ops::{Arg, Class, Layer, Op, OpInfo};
use crate::event::record::{POS_UNKNOWN, Record};

pub const MAGIC: u64 = u64::from_le_bytes(*b"DLIOTALY");

/// The file of a row that represents all files without a separate row.
pub const OTHER: u32 = u32::MAX;

pub const ROWS: usize = 4096;
/// Number of rows for files; the rest is for those counted together.
const ROWS_OF_FILES: usize = ROWS - ROWS / 8;
pub const SHAPES: usize = 96;
pub const THREADS: usize = 512;
pub const BINS: usize = 512;
/// I/O, and categories of spans in the order of their first use.
pub const SETS: usize = 8;
const INTERVALS: usize = 1024;

/// Eighths of a doubling, as a power of two: a quantile is accurate within 6.3 %.
pub const FINE_BITS: u32 = 3;
pub const BUCKETS: usize = 400;

/// Initial width of a bin: two milliseconds at 2 GHz.
const FIRST_BIN_TICKS: u64 = 1 << 22;
/// The shortest gap over which intervals are merged when there are too many.
const FIRST_GAP_TICKS: u64 = 1 << 8;

mod head {
    pub const MAGIC: usize = 0;
    pub const EVENTS: usize = 1;
    pub const ROWS_USED: usize = 2;
    pub const ORIGIN: usize = 3;
    pub const BIN_TICKS: usize = 4;
    pub const LAST_ROW: usize = 5;
    pub const SHAPES_LOST: usize = 6;
    /// Not zero while records are added: if the process is killed then, at most [`super::TOGETHER_MAX`] of them are in
    /// the table and in their half.
    pub const ADDING: usize = 7;
    /// One word per set: category, number of intervals, shortest gap that is kept.
    pub const CATEGORY: usize = 16;
    pub const INTERVALS: usize = 24;
    pub const GAP: usize = 32;
    pub const WORDS: usize = 64;
}

mod row {
    /// Operation in the upper half, file or name in the lower, plus one, so that no key is zero.
    pub const KEY: usize = 0;
    /// Category of a span in the lower half; its shape, plus one, in the upper half.
    pub const CATEGORY: usize = 1;
    pub const COUNT: usize = 2;
    pub const FAILED: usize = 3;
    pub const TICKS: usize = 4;
    pub const BYTES: usize = 5;
    pub const SIZED: usize = 6;
    pub const REACHED: usize = 7;
    pub const SEQUENTIAL: usize = 8;
    pub const CONSECUTIVE: usize = 9;
    pub const NEXT: usize = 10;
    pub const FIRST: usize = 11;
    pub const LAST: usize = 12;
    pub const PLACED: usize = 13;
    pub const WORDS: usize = 16;
}

mod shape {
    pub const KEY: usize = 0;
    pub const CATEGORY: usize = 1;
    pub const SHORTEST: usize = 2;
    pub const LONGEST: usize = 3;
    pub const SMALLEST: usize = 4;
    pub const LARGEST: usize = 5;
    pub const DURATIONS: usize = 8;
    pub const SIZES: usize = DURATIONS + super::BUCKETS;
    pub const WORDS: usize = SIZES + super::BUCKETS;
}

mod thread {
    /// Thread id, and above it one bit per set of intervals that the thread added to: the first shows whether it did
    /// I/O.
    pub const KEY: usize = 0;
    pub const EVENTS: usize = 1;
    pub const WORDS: usize = 2;
    pub const SETS_FROM: usize = 32;
}

mod bin {
    pub const EVENTS: usize = 0;
    pub const BYTES_READ: usize = 1;
    pub const BYTES_WRITTEN: usize = 2;
    pub const READ_TICKS: usize = 3;
    pub const WRITE_TICKS: usize = 4;
    pub const OTHER_TICKS: usize = 5;
    pub const WORDS: usize = 6;
}

mod interval {
    pub const START: usize = 0;
    pub const END: usize = 1;
    /// Ticks of activity in it: less than its length if it was merged over gaps.
    pub const BUSY: usize = 2;
    pub const WORDS: usize = 3;
}

const ROWS_AT: usize = head::WORDS;
const SHAPES_AT: usize = ROWS_AT + ROWS * row::WORDS;
const THREADS_AT: usize = SHAPES_AT + SHAPES * shape::WORDS;
const BINS_AT: usize = THREADS_AT + THREADS * thread::WORDS;
const BUSY_AT: usize = BINS_AT + BINS * bin::WORDS;
/// Size of a table in numbers of eight bytes.
pub const WORDS: usize = BUSY_AT + SETS * INTERVALS * interval::WORDS;
pub const SIZE: usize = WORDS * 8;

/// Returns the bucket of a value: exact below eight, then eight per doubling.
pub fn bucket(value: u64) -> usize {
    let octave = (63 - (value | 1).leading_zeros()).saturating_sub(FINE_BITS);
    (((octave as u64) << FINE_BITS) + (value >> octave)).min(BUCKETS as u64 - 1) as usize
}

/// Returns the middle of a bucket.
pub fn middle(bucket: usize) -> u64 {
    let fine = 1u64 << FINE_BITS;
    let bucket = bucket as u64;
    if bucket < 2 * fine {
        return bucket;
    }
    let octave = bucket / fine - 1;
    ((bucket - octave * fine) << octave) + ((1u64 << octave) - 1) / 2
}

/// Finds the rows of a table that is being written. It is not part of the table: rows are next to each other, so that a
/// process with few files touches few pages, and no row ever moves, because the process may be killed at any time.
pub struct RowIndex([AtomicU16; SLOTS]);

/// At least twice the number of rows.
const SLOTS: usize = 2 * ROWS;
/// Slots in use while there are few rows.
const FIRST_SLOTS: usize = 64;

impl RowIndex {
    /// Creates an index of no rows.
    pub const fn empty() -> RowIndex {
        RowIndex([const { AtomicU16::new(0) }; SLOTS])
    }

    /// Returns the slots in use for this number of rows; at most half of them are taken.
    fn slots(&self, rows: usize) -> &[AtomicU16] {
        &self.0[..(2 * rows).next_power_of_two().clamp(FIRST_SLOTS, SLOTS)]
    }

    fn clear(slots: &[AtomicU16]) {
        slots.iter().for_each(|slot| slot.store(0, Relaxed));
    }
}

/// A table that is being written.
pub struct Tally<'a>(&'a mut [u64; WORDS], &'a RowIndex);

impl<'a> Tally<'a> {
    /// Creates a table; `words` are zero, or contain the table that was last written with this index. `None` if they are
    /// too few.
    pub fn new(words: &'a mut [u64], index: &'a RowIndex) -> Option<Tally<'a>> {
        let words = words.first_chunk_mut::<WORDS>()?;
        if words[head::MAGIC] != MAGIC {
            RowIndex::clear(index.slots(0));
            words[head::BIN_TICKS] = FIRST_BIN_TICKS;
            words[head::MAGIC] = MAGIC;
        }
        Some(Tally(words, index))
    }

    /// Returns the number of events in the table. Records that belong to another event do not count.
    pub fn events(&self) -> u64 {
        self.0[head::EVENTS]
    }

    /// Counts one event of a thread. `is_stored` returns whether a number is that of a file on a file system.
    pub fn add(&mut self, tid: u32, record: &Record, is_stored: impl Fn(u32) -> bool) {
        let Some(info) = record.op().info() else { return };
        if matches!(record.op(), Op::META | Op::LOST) {
            return;
        }
        let event = Event::of(record, info, is_stored);
        let at = self.row(&event);
        self.count(at, &event);
        self.measure(at, &event);
        self.bin(&event);
        let set = match event.info.layer {
            Layer::App if event.ticks > 0 => Some(self.busy(event.category, &event)),
            Layer::App => None,
            _ => event.is_io().then(|| self.busy(0, &event)),
        };
        self.thread(tid, set, 1);
        self.0[head::EVENTS] += 1;
    }

    /// Returns the start of an event's row. Most events have the same row as the previous one.
    fn row(&mut self, event: &Event) -> usize {
        let last = self.0[head::LAST_ROW] as usize;
        let at = if last != 0 && self.has(last, event.key(), event.category) { last } else { self.find_row(event) };
        self.0[head::LAST_ROW] = at as u64;
        at
    }

    fn find_row(&mut self, event: &Event) -> usize {
        let full = self.0[head::ROWS_USED] as usize >= ROWS_OF_FILES;
        self.search(event.key(), event.category, full)
            .or_else(|| self.search(event.key_of_others(), event.category, false))
            .unwrap_or(ROWS_AT)
    }

    /// Returns the row of a key, allocated now if it is new and that is allowed.
    fn search(&mut self, key: u64, category: u64, only_known: bool) -> Option<usize> {
        let used = (self.0[head::ROWS_USED] as usize).min(ROWS);
        let slots = self.1.slots(used);
        for slot in places(slots, key, category) {
            let Some(row) = (slot.load(Relaxed) as usize).checked_sub(1) else {
                if only_known || used == ROWS {
                    return None;
                }
                let at = row_at(used);
                self.0[at + row::CATEGORY] = category | self.shape(key, category) << 32;
                self.0[at + row::FIRST] = u64::MAX;
                self.0[at + row::KEY] = key;
                self.0[head::ROWS_USED] = used as u64 + 1;
                slot.store(used as u16 + 1, Relaxed);
                if self.1.slots(used + 1).len() > slots.len() {
                    self.index_rows(used + 1);
                }
                return Some(at);
            };
            if self.has(row_at(row), key, category) {
                return Some(row_at(row));
            }
        }
        None
    }

    /// Fills the index, which has more slots now.
    fn index_rows(&self, used: usize) {
        let slots = self.1.slots(used);
        RowIndex::clear(slots);
        for row in 0..used {
            let at = row_at(row);
            let (key, category) = (self.0[at + row::KEY], self.0[at + row::CATEGORY] as u32 as u64);
            let free = places(slots, key, category).find(|slot| slot.load(Relaxed) == 0);
            free.into_iter().for_each(|slot| slot.store(row as u16 + 1, Relaxed));
        }
    }

    fn has(&self, at: usize, key: u64, category: u64) -> bool {
        self.0[at + row::KEY] == key && self.0[at + row::CATEGORY] as u32 as u64 == category
    }

    /// Returns the number of the shape for a row's operation or span, plus one; zero if there is no space.
    fn shape(&mut self, key: u64, category: u64) -> u64 {
        let key = if category == 0 { key & !0xffff_ffff | 1 } else { key };
        for i in 0..SHAPES {
            let at = SHAPES_AT + i * shape::WORDS;
            if self.0[at + shape::KEY] == 0 {
                self.0[at + shape::CATEGORY] = category;
                self.0[at + shape::SHORTEST] = u64::MAX;
                self.0[at + shape::SMALLEST] = u64::MAX;
                self.0[at + shape::KEY] = key;
            }
            if (self.0[at + shape::KEY], self.0[at + shape::CATEGORY]) == (key, category) {
                return i as u64 + 1;
            }
        }
        self.0[head::SHAPES_LOST] += 1;
        0
    }

    fn count(&mut self, at: usize, event: &Event) {
        let Some(row) = self.0[at..].first_chunk_mut::<{ row::WORDS }>() else { return };
        row[row::COUNT] += 1;
        row[row::FAILED] += event.failed as u64;
        row[row::TICKS] += event.ticks;
        row[row::FIRST] = row[row::FIRST].min(event.start);
        row[row::LAST] = row[row::LAST].max(event.end());
        let Some(bytes) = event.bytes else { return };
        row[row::SIZED] += 1;
        row[row::BYTES] += bytes;
        let Some(position) = event.position else { return };
        if row[row::PLACED] > 0 {
            row[row::SEQUENTIAL] += (position >= row[row::NEXT]) as u64;
            row[row::CONSECUTIVE] += (position == row[row::NEXT]) as u64;
        }
        row[row::PLACED] += 1;
        row[row::NEXT] = position.saturating_add(bytes);
        if bytes > 0 {
            row[row::REACHED] = row[row::REACHED].max(row[row::NEXT]);
        }
    }

    fn measure(&mut self, at: usize, event: &Event) {
        let number = (self.0[at + row::CATEGORY] >> 32) as usize;
        if number == 0 || number > SHAPES {
            return;
        }
        let at = SHAPES_AT + (number - 1) * shape::WORDS;
        let Some(shape) = self.0[at..].first_chunk_mut::<{ shape::WORDS }>() else { return };
        shape[shape::SHORTEST] = shape[shape::SHORTEST].min(event.ticks);
        shape[shape::LONGEST] = shape[shape::LONGEST].max(event.ticks);
        shape[shape::DURATIONS + bucket(event.ticks)] += 1;
        if let Some(bytes) = event.bytes {
            shape[shape::SMALLEST] = shape[shape::SMALLEST].min(bytes);
            shape[shape::LARGEST] = shape[shape::LARGEST].max(bytes);
            shape[shape::SIZES + bucket(bytes)] += 1;
        }
    }

    fn thread(&mut self, tid: u32, set: Option<usize>, count: u64) {
        let place = |i: usize| THREADS_AT + i * thread::WORDS;
        let known =
            |words: &[u64; WORDS], at: usize| words[at + thread::KEY] == 0 || words[at + thread::KEY] as u32 == tid;
        let start = tid as usize % THREADS;
        // Threads that do not fit are counted as the thread that occupies their slot.
        let found = (0..THREADS).map(|i| place((start + i) % THREADS)).find(|&at| known(self.0, at));
        let at = found.unwrap_or(place(start));
        if self.0[at + thread::KEY] == 0 {
            self.0[at + thread::KEY] = tid as u64;
        }
        self.0[at + thread::KEY] |= set.map_or(0, |set| 1 << (thread::SETS_FROM + set));
        self.0[at + thread::EVENTS] += count;
    }

    fn bin(&mut self, event: &Event) {
        let at = self.bin_of(event.start);
        let Some(bin) = self.0[at..].first_chunk_mut::<{ bin::WORDS }>() else { return };
        event.add_to(bin, 1, event.bytes.unwrap_or(0), event.ticks);
    }

    /// Returns the start of the bin of a time. Bins are doubled until it has one.
    fn bin_of(&mut self, start: u64) -> usize {
        if self.0[head::ORIGIN] == 0 {
            self.0[head::ORIGIN] = start.max(1);
        }
        let since = start.saturating_sub(self.0[head::ORIGIN]);
        // The width of a bin is a power of two.
        while since >> self.0[head::BIN_TICKS].max(1).ilog2() >= BINS as u64 {
            self.double_bins();
        }
        BINS_AT + (since >> self.0[head::BIN_TICKS].max(1).ilog2()) as usize * bin::WORDS
    }

    fn double_bins(&mut self) {
        for i in 0..BINS {
            for word in 0..bin::WORDS {
                let pair = |half: usize| BINS_AT + (2 * i + half) * bin::WORDS + word;
                let sum = if i < BINS / 2 { self.0[pair(0)] + self.0[pair(1)] } else { 0 };
                self.0[BINS_AT + i * bin::WORDS + word] = sum;
            }
        }
        self.0[head::BIN_TICKS] = self.0[head::BIN_TICKS].max(1) * 2;
    }

    /// Notes activity of a category. Categories beyond the last set share it. Returns the set.
    fn busy(&mut self, category: u64, event: &Event) -> usize {
        let set = match category {
            0 => 0,
            _ => {
                let place = (1..SETS - 1).find(|&set| [0, category].contains(&self.0[head::CATEGORY + set]));
                let set = place.unwrap_or(SETS - 1);
                self.0[head::CATEGORY + set] = if set == SETS - 1 { u32::MAX as u64 } else { category };
                set
            }
        };
        if event.ticks > 0 {
            self.insert(set, event.start, event.end());
        }
        set
    }

    /// Adds an interval to a set. Usually it follows the last one, or overlaps only that.
    fn insert(&mut self, set: usize, start: u64, end: u64) {
        let list = BUSY_AT + set * INTERVALS * interval::WORDS;
        let count = (self.0[head::INTERVALS + set] as usize).min(INTERVALS);
        let gap = self.0[head::GAP + set];
        let at = |i: usize| list + i * interval::WORDS;
        if (1..INTERVALS).contains(&count)
            && let Some([last, next]) = pair_at(self.0, at(count - 1))
            && start >= last[interval::START]
        {
            match last[interval::END].saturating_add(gap) < start {
                true => {
                    *next = [start, end, end - start];
                    self.0[head::INTERVALS + set] = count as u64 + 1;
                }
                false => *last = join(*last, [start, end, end - start]),
            }
            return;
        }
        // The first interval that does not end before this one begins.
        let mut first = count;
        while first > 0 && self.0[at(first - 1) + interval::END].saturating_add(gap) >= start {
            first -= 1;
        }
        let mut merged = [start, end, end - start];
        let mut last = first;
        while last < count && self.0[at(last) + interval::START] <= end.saturating_add(gap) {
            let other = [interval::START, interval::END, interval::BUSY].map(|word| self.0[at(last) + word]);
            merged = join(merged, other);
            last += 1;
        }
        if last == first && count == INTERVALS {
            self.thin_out(set);
            return self.insert(set, start, end);
        }
        // The intervals after it move by one, up or down, unless exactly one was merged.
        self.0.copy_within(at(last)..at(count), at(first + 1));
        self.0[at(first)..at(first) + interval::WORDS].copy_from_slice(&merged);
        self.0[head::INTERVALS + set] = (count - (last - first) + 1) as u64;
    }

    /// Merges intervals until half of them are left.
    fn thin_out(&mut self, set: usize) {
        let list = BUSY_AT + set * INTERVALS * interval::WORDS;
        while self.0[head::INTERVALS + set] as usize > INTERVALS / 2 {
            let gap = (self.0[head::GAP + set] * 2).max(FIRST_GAP_TICKS);
            self.0[head::GAP + set] = gap;
            let count = (self.0[head::INTERVALS + set] as usize).min(INTERVALS);
            let mut kept = 0;
            for i in 1..count {
                let [mine, next] = [kept, i].map(|i| list + i * interval::WORDS);
                let next = [self.0[next], self.0[next + 1], self.0[next + 2]];
                let before = [self.0[mine], self.0[mine + 1], self.0[mine + 2]];
                let merges = before[interval::END].saturating_add(gap) >= next[interval::START];
                kept += !merges as usize;
                let place = list + kept * interval::WORDS;
                let value = if merges { join(before, next) } else { next };
                self.0[place..place + interval::WORDS].copy_from_slice(&value);
            }
            self.0[head::INTERVALS + set] = kept as u64 + 1;
        }
    }
}

/// Returns the start of a row.
fn row_at(row: usize) -> usize {
    ROWS_AT + row * row::WORDS
}

/// Returns the slots that may contain a key, in the order in which they are filled.
fn places(slots: &[AtomicU16], key: u64, category: u64) -> impl Iterator<Item = &AtomicU16> {
    let start = ((key ^ category << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    (0..slots.len()).map(move |i| &slots[(start + i) % slots.len()])
}

/// Returns the parts of a table that are not all zero, as offsets in bytes. Parts that were never used are not read:
/// most of the table of a short-lived process.
pub fn used_parts(words: &[u64; WORDS]) -> impl Iterator<Item = Range<usize>> {
    let rows = (words[head::ROWS_USED] as usize).min(ROWS);
    let shapes = (0..SHAPES).take_while(|shape| words[SHAPES_AT + shape * shape::WORDS + shape::KEY] != 0).count();
    // No event of a bin starts after the last one ended.
    let last = (0..rows).map(|row| words[row_at(row) + row::LAST]).max().unwrap_or(0);
    let last_bin = last.saturating_sub(words[head::ORIGIN]) >> words[head::BIN_TICKS].max(1).ilog2();
    let bins = if rows == 0 { 0 } else { (last_bin as usize).min(BINS - 1) + 1 };
    let parts = [
        (0, if rows == 0 { 0 } else { row_at(rows) }),
        (SHAPES_AT, shapes * shape::WORDS),
        (THREADS_AT, if rows == 0 { 0 } else { THREADS * thread::WORDS }),
        (BINS_AT, bins * bin::WORDS),
    ];
    let sets = (0..SETS).map(|set| {
        let intervals = (words[head::INTERVALS + set] as usize).min(INTERVALS);
        (BUSY_AT + set * INTERVALS * interval::WORDS, intervals * interval::WORDS)
    });
    parts.into_iter().chain(sets).flat_map(|(at, length)| runs(words, at..at + length))
}

/// Separates a part of a table at zeros that are longer than the header of a block.
fn runs(words: &[u64; WORDS], part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    const GAP: usize = super::block::HEADER_SIZE / 8 + 2;
    let mut at = part.start;
    std::iter::from_fn(move || {
        at += words[at..part.end].iter().position(|word| *word != 0)?;
        let (start, mut end) = (at, at);
        while let Some(next) = words[end..part.end].iter().take(GAP).position(|word| *word != 0) {
            end += next + 1;
        }
        at = end;
        Some(start * 8..end * 8)
    })
}

/// Returns an interval and the one after it.
fn pair_at(words: &mut [u64; WORDS], at: usize) -> Option<&mut [[u64; interval::WORDS]; 2]> {
    words.get_mut(at..)?.as_chunks_mut::<{ interval::WORDS }>().0.first_chunk_mut()
}

/// Merges two intervals. Their activity is added if they are disjoint; for the overlap it is at most its length.
fn join(a: [u64; interval::WORDS], b: [u64; interval::WORDS]) -> [u64; interval::WORDS] {
    let start = a[interval::START].min(b[interval::START]);
    let end = a[interval::END].max(b[interval::END]);
    let overlap = a[interval::END].min(b[interval::END]).saturating_sub(a[interval::START].max(b[interval::START]));
    let busy = a[interval::BUSY].saturating_add(b[interval::BUSY]);
    // The overlap with an interval without gaps is known; with gaps it may be less.
    let dense = [a, b].iter().all(|i| i[interval::BUSY] == i[interval::END].saturating_sub(i[interval::START]));
    let busy = if dense { busy.saturating_sub(overlap) } else { busy };
    [start, end, busy.min(end.saturating_sub(start))]
}

/// The data of an event that counting needs.
struct Event {
    info: &'static OpInfo,
    op: Op,
    /// File of a call, name of a span.
    subject: u32,
    /// Category of a span, plus one; zero for a call.
    category: u64,
    start: u64,
    ticks: u64,
    failed: bool,
    stored: bool,
    bytes: Option<u64>,
    position: Option<u64>,
}

impl Event {
    fn of(record: &Record, info: &'static OpInfo, is_stored: impl Fn(u32) -> bool) -> Event {
        let call = info.layer != Layer::App;
        let moved = info.moves_bytes() && record.ret >= 0;
        let placed = info.a == Arg::Position && record.known() && record.a != POS_UNKNOWN && record.a >= 0;
        Event {
            info,
            op: record.op(),
            subject: record.file,
            category: if call { 0 } else { record.fd as u32 as u64 + 1 },
            start: record.start,
            ticks: record.duration(),
            failed: call && record.ret < 0,
            stored: call && record.file != 0 && is_stored(record.file),
            bytes: moved.then_some(record.ret as u64),
            position: placed.then_some(record.a as u64),
        }
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.ticks)
    }

    fn is_call(&self) -> bool {
        self.info.layer != Layer::App
    }

    /// Returns `true` for a call on a stored file that moves data, waits for it or reads metadata.
    fn is_io(&self) -> bool {
        self.stored && matches!(self.info.class, Class::Read | Class::Write | Class::Metadata | Class::Sync)
    }

    /// Adds `events` events like this one, with their bytes and ticks, to a bin.
    fn add_to(&self, bin: &mut [u64; bin::WORDS], events: u64, bytes: u64, ticks: u64) {
        bin[bin::EVENTS] += events;
        let (bytes_at, ticks_at) = match self.info.class {
            // Traffic through sockets is not I/O on files, and the calls below a library's are counted themselves.
            _ if self.info.layer == Layer::Net || self.info.layer.is_library() => return,
            Class::Read if self.is_call() => (bin::BYTES_READ, bin::READ_TICKS),
            Class::Write if self.is_call() => (bin::BYTES_WRITTEN, bin::WRITE_TICKS),
            _ if self.is_io() => return bin[bin::OTHER_TICKS] += ticks,
            _ => return,
        };
        bin[bytes_at] += bytes;
        bin[ticks_at] += ticks;
    }

    fn key(&self) -> u64 {
        (self.op.0 as u64 + 1) << 32 | self.subject as u64
    }

    fn key_of_others(&self) -> u64 {
        (self.op.0 as u64 + 1) << 32 | OTHER as u64
    }
}

/// A table that has been read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tallied {
    pub events: u64,
    /// `true` if the process was killed while it added records.
    pub is_unfinished: bool,
    pub rows: Vec<Row>,
    pub shapes: Vec<Shape>,
    pub threads: Vec<Thread>,
    pub origin: u64,
    pub bin_ticks: u64,
    pub bins: Vec<Bin>,
    pub busy: Vec<Busy>,
}

/// All events of one operation on one file, or of one span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub op: Op,
    /// Number of the file or of the span's name; [`OTHER`] for those without a separate row.
    pub subject: u32,
    /// Number of a span's category.
    pub category: Option<u32>,
    pub count: u64,
    pub failed: u64,
    pub ticks: u64,
    pub bytes: u64,
    /// Calls that moved bytes or could have.
    pub sized: u64,
    /// Largest position reached.
    pub reached: u64,
    /// Calls with a known position; calls that started at the end of the previous one or beyond; and those that
    /// started exactly there.
    pub placed: u64,
    pub sequential: u64,
    pub consecutive: u64,
    pub first: u64,
    pub last: u64,
}

/// Distributions of one operation or span: counts by [`bucket`].
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub op: Op,
    /// Name and category of a span.
    pub span: Option<(u32, u32)>,
    pub shortest: u64,
    pub longest: u64,
    pub smallest: u64,
    pub largest: u64,
    pub durations: Vec<u64>,
    pub sizes: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    pub tid: u32,
    pub events: u64,
    pub does_io: bool,
    /// Categories of its spans; further ones share the last set, and are not listed.
    pub categories: Vec<u32>,
}

/// An interval of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    pub events: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub read_ticks: u64,
    pub write_ticks: u64,
    pub other_ticks: u64,
}

/// The times when at least one call or span of a set was active.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// Category of spans; `None` for I/O.
    pub category: Option<u32>,
    /// Gaps up to this many ticks may be part of an interval.
    pub gap: u64,
    /// Start, end, and active ticks in between.
    pub intervals: Vec<[u64; 3]>,
}

impl Tallied {
    /// Reads a table; missing bytes at its end count as zero. A table of zeros is unused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Tallied, Damage> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(Tallied::default());
        }
        let mut words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        words.resize(WORDS, 0);
        if words[head::MAGIC] != MAGIC {
            return Err(Damage::Broken("a table of counts"));
        }
        let pieces = |at: usize, count: usize, size: usize| words[at..at + count * size].chunks_exact(size);
        let rows = pieces(ROWS_AT, ROWS, row::WORDS).filter(|row| row[row::KEY] != 0 && row[row::COUNT] > 0);
        let shapes = pieces(SHAPES_AT, SHAPES, shape::WORDS).filter(|shape| shape[shape::KEY] != 0);
        let threads = pieces(THREADS_AT, THREADS, thread::WORDS).filter(|thread| thread[thread::KEY] != 0);
        Ok(Tallied {
            events: words[head::EVENTS],
            is_unfinished: words[head::ADDING] != 0,
            rows: rows.map(Row::of).collect(),
            shapes: shapes.map(Shape::of).collect(),
            threads: threads.map(|thread| Thread::of(thread, &words)).collect(),
            origin: words[head::ORIGIN],
            bin_ticks: words[head::BIN_TICKS],
            bins: pieces(BINS_AT, BINS, bin::WORDS).map(Bin::of).collect(),
            busy: (0..SETS).filter_map(|set| Busy::of(&words, set)).collect(),
        })
    }
}

/// Size in bytes of a table up to the end of its rows.
pub const ROWS_END: usize = SHAPES_AT * 8;

/// Returns the rows of a table that is available only up to the end of its rows, and that may be written at the same
/// time.
pub fn rows(bytes: &[u8]) -> Vec<Row> {
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let rows = words.get(ROWS_AT..).unwrap_or_default().chunks_exact(row::WORDS).take(ROWS);
    rows.filter(|row| row[row::KEY] != 0 && row[row::COUNT] > 0).map(Row::of).collect()
}

fn op_of(key: u64) -> Op {
    Op(((key >> 32) as u16).wrapping_sub(1))
}

fn category_of(word: u64) -> Option<u32> {
    (word as u32).checked_sub(1)
}

impl Row {
    fn of(row: &[u64]) -> Row {
        Row {
            op: op_of(row[row::KEY]),
            subject: row[row::KEY] as u32,
            category: category_of(row[row::CATEGORY]),
            count: row[row::COUNT],
            failed: row[row::FAILED],
            ticks: row[row::TICKS],
            bytes: row[row::BYTES],
            sized: row[row::SIZED],
            reached: row[row::REACHED],
            placed: row[row::PLACED],
            sequential: row[row::SEQUENTIAL],
            consecutive: row[row::CONSECUTIVE],
            first: row[row::FIRST],
            last: row[row::LAST],
        }
    }
}

impl Shape {
    fn of(shape: &[u64]) -> Shape {
        Shape {
            op: op_of(shape[shape::KEY]),
            span: category_of(shape[shape::CATEGORY]).map(|category| (shape[shape::KEY] as u32, category)),
            shortest: shape[shape::SHORTEST],
            longest: shape[shape::LONGEST],
            smallest: shape[shape::SMALLEST],
            largest: shape[shape::LARGEST],
            durations: shape[shape::DURATIONS..shape::SIZES].to_vec(),
            sizes: shape[shape::SIZES..].to_vec(),
        }
    }
}

impl Shape {
    /// Returns durations converted by `convert`, between the shortest and the longest, with their counts.
    pub fn durations(&self, convert: impl Fn(u64) -> u64) -> Vec<(u64, u64)> {
        steps(&self.durations, self.shortest, self.longest).map(|(value, count)| (convert(value), count)).collect()
    }

    /// Returns sizes in bytes with their counts; the first and the last are exact.
    pub fn sizes(&self) -> Vec<(u64, u64)> {
        let mut found: Vec<_> = steps(&self.sizes, self.smallest, self.largest).collect();
        if let Some(first) = found.first().copied().filter(|(value, _)| *value > self.smallest) {
            found.splice(..1, apart(first, self.smallest));
        }
        if let Some(last) = found.last().copied().filter(|(value, _)| *value < self.largest) {
            found.splice(found.len() - 1.., apart(last, self.largest).into_iter().rev());
        }
        found
    }
}

/// Separates one known value of a step, which comes first.
fn apart((value, count): (u64, u64), known: u64) -> Vec<(u64, u64)> {
    [(known, 1), (value, count - 1)].into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Returns the middles of non-empty buckets, within the observed range.
fn steps(counts: &[u64], least: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
    let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    used.map(move |(bucket, count)| (middle(bucket).clamp(least.min(most), most), *count))
}

impl Thread {
    /// Reads a thread; `words` are those of the whole table.
    fn of(thread: &[u64], words: &[u64]) -> Thread {
        let key = thread[thread::KEY];
        let is_in = |set: usize| key >> (thread::SETS_FROM + set) & 1 == 1;
        let categories = (1..SETS).filter(|set| is_in(*set));
        let categories = categories.filter_map(|set| category_of(words[head::CATEGORY + set])).collect();
        Thread { tid: key as u32, events: thread[thread::EVENTS], does_io: is_in(0), categories }
    }
}

impl Bin {
    fn of(bin: &[u64]) -> Bin {
        Bin {
            events: bin[bin::EVENTS],
            bytes_read: bin[bin::BYTES_READ],
            bytes_written: bin[bin::BYTES_WRITTEN],
            read_ticks: bin[bin::READ_TICKS],
            write_ticks: bin[bin::WRITE_TICKS],
            other_ticks: bin[bin::OTHER_TICKS],
        }
    }
}

impl Busy {
    fn of(words: &[u64], set: usize) -> Option<Busy> {
        let count = (words[head::INTERVALS + set] as usize).min(INTERVALS);
        let list = &words[BUSY_AT + set * INTERVALS * interval::WORDS..][..count * interval::WORDS];
        let intervals: Vec<[u64; 3]> = list.as_chunks::<3>().0.to_vec();
        let category = category_of(words[head::CATEGORY + set]);
        (count > 0).then_some(Busy { category, gap: words[head::GAP + set], intervals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::record::word;

    fn read(file: u32, start: u64, ticks: u64, position: i64, bytes: i64) -> Record {
        Record { word: word(Op::PREAD, 0, true, ticks), start, file, fd: 3, a: position, b: bytes, ret: bytes }
    }

    #[test]
    fn kill_during_an_addition_leaves_a_mark() {
        let (mut words, index) = (vec![0; WORDS], RowIndex::empty());
        let is_marked = |words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Tallied::from_bytes(&bytes).unwrap().is_unfinished
        };
        let records = [read(1, 100, 10, 0, 64), read(2, 120, 10, 0, 64)];
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Tally::new(&mut words, &index).unwrap().add_all(7, &records, |_| true, |_| panic!("killed"));
        }));
        assert!(killed.is_err() && is_marked(&words));
        Tally::new(&mut words, &index).unwrap().add_all(7, &records, |_| true, |_| ());
        assert!(!is_marked(&words));
    }

    fn tallied(records: &[Record]) -> Tallied {
        let mut words = vec![0; WORDS];
        let index = RowIndex::empty();
        let mut tally = Tally::new(&mut words, &index).unwrap();
        records.iter().for_each(|record| tally.add(7, record, |_| true));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found = Tallied::from_bytes(&bytes).unwrap();
        assert_eq!(Tallied::from_bytes(&without_unused(&words, &bytes)).unwrap(), found);
        found
    }

    /// Returns the bytes of a table with zeros in the parts that need not be written.
    fn without_unused(words: &[u64], bytes: &[u8]) -> Vec<u8> {
        let mut rest = vec![0; bytes.len()];
        let mut end = 0;
        for part in used_parts(words.first_chunk().unwrap()) {
            assert!(part.start >= end && !part.is_empty(), "{part:?}");
            end = part.end;
            rest[part.clone()].copy_from_slice(&bytes[part]);
        }
        rest
    }

    #[test]
    fn counts_sums_and_positions_are_those_of_the_events() {
        let found = tallied(&[read(1, 100, 10, 0, 64), read(1, 120, 10, 64, 64), read(1, 140, 20, 4096, 32)]);
        let row = found.rows[0];
        assert_eq!((row.op, row.subject, row.count, row.bytes, row.ticks), (Op::PREAD, 1, 3, 160, 40));
        assert_eq!((row.consecutive, row.sequential, row.reached), (1, 2, 4128));
        assert_eq!((found.events, found.threads[0].events, found.threads[0].does_io), (3, 3, true));
        assert_eq!(found.busy[0].intervals, [[100, 110, 10], [120, 130, 10], [140, 160, 20]]);
    }

    #[test]
    fn position_without_data_is_not_reached() {
        let ends = [read(1, 100, 10, 0, 64), read(1, 120, 10, 1 << 40, 0), read(1, 140, 10, 1 << 41, -5)];
        assert_eq!(tallied(&ends).rows[0].reached, 64);
    }

    #[test]
    fn files_beyond_the_rows_are_counted_together() {
        let records: Vec<_> = (1..10_000).map(|i| read(i, i as u64 * 10, 5, 0, 100)).collect();
        let found = tallied(&records);
        assert_eq!(found.rows.iter().map(|row| row.count).sum::<u64>(), 9_999);
        let others = found.rows.iter().find(|row| row.subject == OTHER).unwrap();
        assert_eq!(others.count as usize, 9_999 - ROWS_OF_FILES);
    }

    #[test]
    fn merged_intervals_keep_exact_busy_time() {
        let records: Vec<_> = (0..100_000).map(|i| read(1, 1000 + i * 1000, 300, 0, 1)).collect();
        let busy = &tallied(&records).busy[0];
        assert_eq!(busy.intervals.iter().map(|interval| interval[2]).sum::<u64>(), 100_000 * 300);
        assert!(busy.gap >= 700 && busy.intervals.len() <= INTERVALS);
    }

    #[test]
    fn overlapping_intervals_count_once_in_any_order() {
        let found = tallied(&[read(1, 500, 100, 0, 1), read(1, 100, 450, 0, 1), read(1, 550, 10, 0, 1)]);
        assert_eq!(found.busy[0].intervals, [[100, 600, 500]]);
    }

    #[test]
    fn bins_double_and_keep_every_byte() {
        let records: Vec<_> = (0..5000).map(|i| read(1, 1 + i * FIRST_BIN_TICKS, 5, 0, 10)).collect();
        let found = tallied(&records);
        assert_eq!(found.bin_ticks, FIRST_BIN_TICKS * 16);
        assert_eq!(found.bins.iter().map(|bin| bin.bytes_read).sum::<u64>(), 50_000);
    }

    #[test]
    fn extreme_sizes_are_exact() {
        for sizes in [&[100, 101, 102, 103][..], &[1, 2, 3, 50], &[103, 100], &[50], &[49, 50, 51, 51]] {
            let records: Vec<_> = sizes.iter().map(|&size| read(1, 100, 10, 0, size)).collect();
            let steps = tallied(&records).shapes[0].sizes();
            let ends = (steps[0].0 as i64, steps[steps.len() - 1].0 as i64);
            assert_eq!(ends, (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap()), "{sizes:?}");
            assert_eq!(steps.iter().map(|(_, count)| count).sum::<u64>(), sizes.len() as u64, "{sizes:?}");
            assert!(steps.is_sorted(), "{steps:?}");
        }
    }

    #[test]
    fn bucket_middles_are_within_6_percent() {
        for value in (0..48).flat_map(|bits| [(1u64 << bits) - 1, 1 << bits, (1 << bits) + (1 << bits) / 3]) {
            let middle = middle(bucket(value));
            assert!(middle.abs_diff(value) * 16 <= value, "{value} {middle}");
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic() {
        let mut bytes = vec![0xff; SIZE];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        Tallied::from_bytes(&bytes).unwrap();
        assert!(Tallied::from_bytes(&bytes[1..]).is_err());
        assert_eq!(Tallied::from_bytes(&[0; 4096]), Ok(Tallied::default()));
    }
}
