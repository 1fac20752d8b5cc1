//! Events of one thread as columns.
//!
//! Eight columns, each converted to differences from the expected values, so that most are constant and the rest are
//! small. A column is stored as a base and as many byte planes as most of its values need above it. The few larger
//! values are exceptions, so that one call in a thousand that waited does not make all others wide. A constant column
//! has no planes. Planes of noise are adjacent, and so are planes of zeros, which is why a fast level of zstd is
//! sufficient.
//!
//! ```text
//!  8 x (base: i64, planes: u8, exceptions: u8)                          the heads
//!  planes of column 0, each `count` bytes, lowest byte first; then its exceptions, (index: u16, value - base: u64) each
//!  planes of column 1 ...
//! ```
//!
//! | column | contains the difference from |
//! |---|---|
//! | head   | 0 (operation, depth and whether `a` is known: the upper 16 bits of the record's word) |
//! | start  | the end of the previous event; the first event starts at `first` of the block's header |
//! | length | 0 |
//! | file   | the file of the previous event |
//! | fd     | 0 |
//! | a      | for positions, the position at which the last event of this file and descriptor ended; otherwise 0 |
//! | b      | 0 |
//! | ret    | `b` for bytes and positions, `fd` for descriptors, otherwise 0 |

use super::Damage;
use super::block::reach;
use crate::event::ops::{Arg, OP_MAX, OPS, Ret};
use crate::event::record::{DEPTH_MAX, DURATION_MAX, POS_UNKNOWN, Record};

/// Events per block. With 2048, two halves of a ring, the compressor and its output take half a MiB per thread; 4096
/// would save 2 ns per event and need twice the memory.
pub const EVENTS_MAX: usize = 2048;

const COLUMNS: usize = 8;
const HEAD_SIZE: usize = 10;
const EXCEPTION_SIZE: usize = 10;

/// Maximum number of values outside a column's planes. One plane less saves `count` bytes, so ten bytes each are
/// worth it.
const EXCEPTIONS_MAX: usize = 48;

/// Number of values sampled for a base: enough to find the lower end of the common range.
const SAMPLES: usize = 64;
/// Number of samples that may be outliers.
const ODD_SAMPLES: usize = 4;
/// The distance of the base below that sample, for values that were not sampled.
const BELOW_SAMPLES: i64 = 64;
/// A column with this many planes cannot get smaller.
const FEW_PLANES: u32 = 2;

/// Largest payload of a block before compression.
pub const RAW_MAX: usize = COLUMNS * (HEAD_SIZE + EXCEPTIONS_MAX * EXCEPTION_SIZE + 8 * EVENTS_MAX);

/// The expected start of the next event of a file, for sixteen files.
#[derive(Default)]
struct Expected([i64; 16]);

impl Expected {
    #[inline(always)]
    fn of(&mut self, file: u32, fd: i32) -> &mut i64 {
        &mut self.0[(file.wrapping_mul(7) ^ fd as u32) as usize & 15]
    }
}

/// The traits of operations that the encoding needs, in one byte each: looked up for every event.
static TRAITS: [u8; OP_MAX as usize + 1] = {
    let mut traits = [0; OP_MAX as usize + 1];
    let mut i = 0;
    while i < OPS.len() {
        let result = match OPS[i].ret {
            Ret::Bytes | Ret::Position => RESULT_IS_B,
            Ret::Fd => RESULT_IS_FD,
            Ret::Status | Ret::Pid => 0,
        };
        let position = if matches!(OPS[i].a, Arg::Position) { HAS_POSITION } else { 0 };
        traits[OPS[i].op.0 as usize] = result | position;
        i += 1;
    }
    traits
};
const HAS_POSITION: u8 = 1;
const RESULT_IS_B: u8 = 2;
const RESULT_IS_FD: u8 = 4;

/// Returns the most common result of a kind of call, which makes the difference zero.
#[inline(always)]
fn expected_result(op: u16, b: i64, fd: i32) -> i64 {
    let traits = TRAITS[(op & OP_MAX) as usize];
    let b = if traits & RESULT_IS_B != 0 { b } else { 0 };
    if traits & RESULT_IS_FD != 0 { fd as i64 } else { b }
}

#[inline(always)]
fn has_position(op: u16) -> bool {
    TRAITS[(op & OP_MAX) as usize] & HAS_POSITION != 0
}

/// Memory for [`encode`]. Zeroed memory is a valid value.
pub struct Scratch {
    /// Time since the end of the previous event, for each event.
    gaps: [i64; EVENTS_MAX],
    durations: [i64; EVENTS_MAX],
    values: [i64; EVENTS_MAX],
    /// Values above the base; a value that does not fit is stored as the largest number.
    above: [u32; EVENTS_MAX],
}

impl Scratch {
    pub const fn new() -> Scratch {
        Scratch { gaps: [0; EVENTS_MAX], durations: [0; EVENTS_MAX], values: [0; EVENTS_MAX], above: [0; EVENTS_MAX] }
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

/// Encodes up to [`EVENTS_MAX`] complete records; returns the length of the payload, at most [`RAW_MAX`]. Allocates
/// nothing, so that it can run wherever an event can. Inlined with all its callees, so that a caller on a processor
/// with wider registers can have it compiled for them.
#[inline(always)]
pub fn encode(records: &[Record], scratch: &mut Scratch, out: &mut [u8]) -> usize {
    Survey::of(records, scratch).encode(records, scratch, out)
}

/// A survey of the records in one pass, because they are in a slower cache: it mainly shows which columns need no
/// second pass.
#[derive(Default)]
pub struct Survey {
    /// `true` if every slot contains an event.
    pub complete: bool,
    /// The earliest start: a long event may end after many that started later.
    pub earliest: u64,
    /// The latest end.
    pub last: u64,
    /// The bits in which any record differs from the first, field by field.
    word: u64,
    file: u32,
    fd: i32,
    a: i64,
    b: i64,
    ret: i64,
}

impl Survey {
    #[inline(always)]
    pub fn of(records: &[Record], scratch: &mut Scratch) -> Survey {
        let mut survey = Survey { complete: true, ..Survey::default() };
        let Some(first) = records.first() else { return survey };
        survey.earliest = first.start;
        let mut end = first.start;
        for ((r, gap), duration) in records.iter().zip(&mut scratch.gaps).zip(&mut scratch.durations) {
            *gap = r.start.wrapping_sub(end) as i64;
            *duration = r.duration() as i64;
            end = r.start.wrapping_add(r.duration());
            survey.earliest = survey.earliest.min(r.start);
            survey.last = survey.last.max(end);
            survey.complete &= r.is_complete();
            survey.word |= r.word ^ first.word;
            survey.file |= r.file ^ first.file;
            survey.fd |= r.fd ^ first.fd;
            survey.a |= r.a ^ first.a;
            survey.b |= r.b ^ first.b;
            survey.ret |= r.ret ^ first.ret;
        }
        // The first event starts where the header says; its own gap may have any convenient value.
        scratch.gaps[0] = scratch.gaps[1.min(records.len() - 1)];
        survey
    }

    /// Encodes like [`encode`], the records of this survey with its scratch memory.
    #[inline(always)]
    pub fn encode(&self, records: &[Record], scratch: &mut Scratch, out: &mut [u8]) -> usize {
        let Scratch { gaps, durations, values, above } = scratch;
        let mut at = COLUMNS * HEAD_SIZE;
        for column in 0..COLUMNS {
            let varies = records.len() > 1 && self.varies(column);
            let looked_at = if varies { records } else { &records[..records.len().min(1)] };
            let values = match column {
                1 => &gaps[..looked_at.len()],
                2 => &durations[..looked_at.len()],
                _ => differences(column, looked_at, self, values),
            };
            let stored = match values {
                [] => Stored::default(),
                [only] => Stored { base: *only, ..Stored::default() },
                several => store(several, above, &mut out[at..]),
            };
            let head = &mut out[column * HEAD_SIZE..(column + 1) * HEAD_SIZE];
            head[..8].copy_from_slice(&stored.base.to_le_bytes());
            head[8..].copy_from_slice(&[stored.planes, stored.exceptions]);
            at += stored.length;
        }
        at
    }

    /// Returns the distance from the first record's start, which is a tick, back to the earliest start.
    pub fn reach(&self, first: u64) -> u16 {
        reach::of(first.saturating_sub(self.earliest))
    }

    #[inline(always)]
    fn head(&self) -> bool {
        self.word >> 48 != 0
    }

    #[inline(always)]
    fn same_file(&self) -> bool {
        self.file == 0 && self.fd == 0
    }

    /// Returns `true` if a column of more than one event is not constant.
    #[inline(always)]
    fn varies(&self, column: usize) -> bool {
        match column {
            0 => self.head(),
            2 => self.word & DURATION_MAX != 0,
            1 | 3 | 5 => true,
            4 => self.fd != 0,
            6 => self.b != 0,
            _ => self.head() || self.b != 0 || self.fd != 0 || self.ret != 0,
        }
    }
}

/// Fills `values` with a column that the survey did not fill.
#[inline(always)]
fn differences<'a>(column: usize, records: &[Record], survey: &Survey, values: &'a mut [i64; EVENTS_MAX]) -> &'a [i64] {
    let values = &mut values[..records.len()];
    let pairs = values.iter_mut().zip(records);
    match column {
        0 => pairs.for_each(|(value, r)| *value = (r.word >> 48) as i64),
        3 => {
            let mut file = 0;
            for (value, r) in pairs {
                *value = r.file as i64 - file;
                file = r.file as i64;
            }
        }
        4 => pairs.for_each(|(value, r)| *value = r.fd as i64),
        5 => positions(records, survey, values),
        6 => pairs.for_each(|(value, r)| *value = r.b),
        _ => pairs.for_each(|(value, r)| *value = r.ret.wrapping_sub(expected_result(r.op().0, r.b, r.fd))),
    }
    values
}

/// Fills in the distances of positions from the end of their file's last event; other arguments are unchanged.
#[inline(always)]
fn positions(records: &[Record], survey: &Survey, values: &mut [i64]) {
    let Some(first) = records.first() else { return };
    let pairs = values.iter_mut().zip(records);
    if !survey.same_file() {
        let mut expected = Expected::default();
        return pairs.for_each(|(value, r)| *value = position(r, expected.of(r.file, r.fd)));
    }
    if survey.head() {
        let mut next = 0;
        return pairs.for_each(|(value, r)| *value = position(r, &mut next));
    }
    match (first.known(), has_position(first.op().0)) {
        (false, _) => pairs.for_each(|(value, _)| *value = 0),
        (true, false) => pairs.for_each(|(value, r)| *value = r.a),
        (true, true) => {
            // With one file, the expected position needs no lookup.
            let mut next = 0;
            for (value, r) in pairs {
                *value = r.a.wrapping_sub(next);
                next = r.a.wrapping_add(r.ret.max(0));
            }
        }
    }
}

/// Returns the distance of a position from the end of its file's last event; other arguments are unchanged.
#[inline(always)]
fn position(r: &Record, next: &mut i64) -> i64 {
    match (r.known(), has_position(r.op().0)) {
        (false, _) => 0,
        (true, false) => r.a,
        (true, true) => {
            let value = r.a.wrapping_sub(*next);
            *next = r.a.wrapping_add(r.ret.max(0));
            value
        }
    }
}

/// The stored form of a column.
#[derive(Default)]
struct Stored {
    base: i64,
    planes: u8,
    exceptions: u8,
    /// Bytes of planes and exceptions.
    length: usize,
}

/// Stores one column.
#[inline(always)]
fn store(values: &[i64], above: &mut [u32; EVENTS_MAX], out: &mut [u8]) -> Stored {
    let above = &mut above[..values.len()];
    let usual = values[values.len() / 2];
    let (odd, changed) = values
        .iter()
        .fold((0u64, 0), |(odd, changed), value| (odd + (*value != usual) as u64, changed | (value ^ usual)));
    if odd <= EXCEPTIONS_MAX as u64 {
        return store_constant(values, usual, odd as usize, out);
    }
    let mask = (u64::MAX >> (changed as u64).leading_zeros()) as i64;
    if mask <= u32::MAX as i64 >> 1 && mask >= 0 {
        // All values have the same upper bits: the lower bits are the values above the base.
        let base = usual & !mask;
        if let Some(planes) = narrow_planes(values, above, |value| value as u32 & mask as u32) {
            return store_narrow(values, base, planes, above, out);
        }
    }
    let smallest = values.iter().copied().min().unwrap_or(0);
    let planes = rise_above(values, smallest, above);
    if let Some(planes) = planes
        && planes.planes <= FEW_PLANES
    {
        return store_narrow(values, smallest, planes, above, out);
    }
    // The smallest value may be an outlier.
    let common = low_sample(values).wrapping_sub(BELOW_SAMPLES);
    match rise_above(values, common, above) {
        Some(planes) => store_narrow(values, common, planes, above, out),
        None => store_wide(values, out),
    }
}

/// Stores a column of one value with a few exceptions.
#[inline(always)]
fn store_constant(values: &[i64], usual: i64, odd: usize, out: &mut [u8]) -> Stored {
    let mut at = 0;
    if odd > 0 {
        for (index, value) in values.iter().enumerate().filter(|(_, value)| **value != usual) {
            at += store_exception(index, value.wrapping_sub(usual), &mut out[at..]);
        }
    }
    Stored { base: usual, planes: 0, exceptions: odd as u8, length: at }
}

#[inline(always)]
fn store_exception(index: usize, above: i64, out: &mut [u8]) -> usize {
    out[..2].copy_from_slice(&(index as u16).to_le_bytes());
    out[2..EXCEPTION_SIZE].copy_from_slice(&above.to_le_bytes());
    EXCEPTION_SIZE
}

/// Returns a low value that is not among the very lowest.
fn low_sample(values: &[i64]) -> i64 {
    let mut samples = [i64::MAX; SAMPLES];
    let stride = values.len().div_ceil(SAMPLES);
    samples.iter_mut().zip(values.iter().step_by(stride)).for_each(|(sample, value)| *sample = *value);
    *samples.select_nth_unstable(ODD_SAMPLES.min(values.len() - 1)).1
}

/// Notes the values above a base and returns the number of planes they need.
#[inline(always)]
fn rise_above(values: &[i64], base: i64, above: &mut [u32]) -> Option<Narrow> {
    narrow_planes(values, above, |value| (value.wrapping_sub(base) as u64).min(u32::MAX as u64) as u32)
}

/// The number of planes of a column, and the number of values that do not fit into them.
struct Narrow {
    planes: u32,
    exceptions: u32,
}

/// Returns the smallest number of planes, one to three, that leaves few exceptions.
#[inline(always)]
fn narrow_planes(values: &[i64], above: &mut [u32], rise: impl Fn(i64) -> u32) -> Option<Narrow> {
    let mut beyond = [0u32; 3];
    for (above, value) in above.iter_mut().zip(values) {
        *above = rise(*value);
        for (fewer, beyond) in beyond.iter_mut().enumerate() {
            *beyond += (*above >> (8 * (fewer + 1)) != 0) as u32;
        }
    }
    let few = beyond.iter().position(|&beyond| beyond as usize <= EXCEPTIONS_MAX)?;
    Some(Narrow { planes: few as u32 + 1, exceptions: beyond[few] })
}

#[inline(always)]
fn store_narrow(values: &[i64], base: i64, narrow: Narrow, above: &[u32], out: &mut [u8]) -> Stored {
    let mut at = store_planes(above, narrow.planes, out);
    if narrow.exceptions > 0 {
        let limit = 1u32 << (8 * narrow.planes);
        for (index, _) in above.iter().enumerate().filter(|(_, above)| **above >= limit) {
            at += store_exception(index, values[index].wrapping_sub(base), &mut out[at..]);
        }
    }
    Stored { base, planes: narrow.planes as u8, exceptions: narrow.exceptions as u8, length: at }
}

#[inline(always)]
fn store_planes(above: &[u32], planes: u32, out: &mut [u8]) -> usize {
    for (plane, bytes) in out.chunks_exact_mut(above.len()).take(planes as usize).enumerate() {
        for (byte, above) in bytes.iter_mut().zip(above) {
            *byte = (above >> (8 * plane as u32)) as u8;
        }
    }
    planes as usize * above.len()
}

/// Stores a column whose values have little in common: from the smallest to the largest, all planes.
#[inline(always)]
fn store_wide(values: &[i64], out: &mut [u8]) -> Stored {
    let smallest = values.iter().copied().min().unwrap_or(0);
    let largest = values.iter().copied().max().unwrap_or(0);
    let planes = (64 - (largest.wrapping_sub(smallest) as u64).leading_zeros()).div_ceil(8);
    for (plane, bytes) in out.chunks_exact_mut(values.len()).take(planes as usize).enumerate() {
        for (byte, value) in bytes.iter_mut().zip(values) {
            *byte = (value.wrapping_sub(smallest) as u64 >> (8 * plane as u32)) as u8;
        }
    }
    Stored { base: smallest, planes: planes as u8, exceptions: 0, length: planes as usize * values.len() }
}

/// The columns of a block to decode, in addition to those of the heads.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct ColumnSet {
    /// Starts and durations.
    pub times: bool,
    pub file: bool,
    pub fd: bool,
    pub a: bool,
    pub b: bool,
    pub ret: bool,
}

impl ColumnSet {
    pub const ALL: ColumnSet = ColumnSet { times: true, file: true, fd: true, a: true, b: true, ret: true };

    /// Adds the columns that these are stored as differences from.
    fn whole(self) -> ColumnSet {
        let ret = self.ret || self.a;
        ColumnSet { ret, file: self.file || self.a, fd: self.fd || ret, b: self.b || ret, ..self }
    }
}

/// The events of one block, column by column. Reused from block to block.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Events {
    pub op: Vec<u16>,
    pub depth: Vec<u8>,
    /// `true` if `a` contains the value that the operation's row promises.
    pub known: Vec<bool>,
    pub start: Vec<u64>,
    pub duration: Vec<u64>,
    pub file: Vec<u32>,
    pub fd: Vec<i32>,
    pub a: Vec<i64>,
    pub b: Vec<i64>,
    pub ret: Vec<i64>,
    scratch: Vec<i64>,
}

impl Events {
    pub fn len(&self) -> usize {
        self.op.len()
    }

    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    /// Removes the events and keeps the memory.
    pub fn clear(&mut self) {
        self.op.clear();
        self.depth.clear();
        self.known.clear();
        self.clear_but_heads();
    }

    /// Adds one record of a leftover ring.
    pub fn push(&mut self, record: &Record) {
        self.op.push(record.op().0);
        self.depth.push(record.depth());
        self.known.push(record.known());
        self.start.push(record.start);
        self.duration.push(record.duration());
        self.file.push(record.file);
        self.fd.push(record.fd);
        self.a.push(if record.known() { record.a } else { POS_UNKNOWN });
        self.b.push(record.b);
        self.ret.push(record.ret);
    }

    /// Replaces the contents by the events of a block's payload. `first` is that of its header.
    pub fn decode(&mut self, payload: &[u8], count: usize, first: u64) -> Result<(), Damage> {
        self.decode_some(payload, count, first, |_| ColumnSet::ALL)
    }

    /// Decodes like [`decode`](Self::decode), but only the requested columns, which are chosen once the operations
    /// are known. Other columns are empty, except those of the heads: operations, depths, and whether `a` is known.
    pub fn decode_some(
        &mut self,
        payload: &[u8],
        count: usize,
        first: u64,
        ask: impl FnOnce(&[u16]) -> ColumnSet,
    ) -> Result<(), Damage> {
        let mut planes = Planes::new(payload, count)?;
        planes.next(&mut self.scratch)?;
        self.heads();
        let asked = ask(&self.op).whole();
        self.clear_but_heads();
        if asked.times {
            planes.next(&mut self.scratch)?;
            self.start.extend(self.scratch.iter().map(|&gap| gap as u64));
            planes.next(&mut self.scratch)?;
            self.duration.extend(self.scratch.iter().map(|&value| value as u64 & DURATION_MAX));
            self.starts(first);
        } else {
            planes.skip(2);
        }
        if asked.file {
            planes.next(&mut self.scratch)?;
            self.files();
        } else {
            planes.skip(1);
        }
        if asked.fd {
            planes.next(&mut self.scratch)?;
            self.fd.extend(self.scratch.iter().map(|&value| value as i32));
        } else {
            planes.skip(1);
        }
        for (asked, column) in [(asked.a, &mut self.a), (asked.b, &mut self.b), (asked.ret, &mut self.ret)] {
            if asked { planes.next(column)? } else { planes.skip(1) }
        }
        if asked.ret {
            self.results();
        }
        if asked.a {
            self.positions();
        }
        Ok(())
    }

    fn clear_but_heads(&mut self) {
        self.start.clear();
        self.duration.clear();
        self.file.clear();
        self.fd.clear();
        self.a.clear();
        self.b.clear();
        self.ret.clear();
    }

    fn heads(&mut self) {
        self.op.clear();
        self.op.extend(self.scratch.iter().map(|&head| (head as u16) >> 6));
        self.known.clear();
        self.known.extend(self.scratch.iter().map(|&head| head >> 5 & 1 != 0));
        self.depth.clear();
        self.depth.extend(self.scratch.iter().map(|&head| head as u8 & DEPTH_MAX));
    }

    /// Converts the gaps between events to start times.
    fn starts(&mut self, first: u64) {
        self.start.iter_mut().take(1).for_each(|start| *start = first);
        let mut end = 0u64;
        for (start, &duration) in self.start.iter_mut().zip(&self.duration) {
            *start = start.wrapping_add(end);
            end = start.wrapping_add(duration);
        }
    }

    fn files(&mut self) {
        let mut file = 0i64;
        for &step in &self.scratch {
            file = file.wrapping_add(step);
            self.file.push(file as u32);
        }
    }

    fn results(&mut self) {
        for i in 0..self.len() {
            self.ret[i] = self.ret[i].wrapping_add(expected_result(self.op[i], self.b[i], self.fd[i]));
        }
    }

    fn positions(&mut self) {
        let mut expected = Expected::default();
        for i in 0..self.len() {
            if !self.known[i] {
                self.a[i] = POS_UNKNOWN;
            } else if has_position(self.op[i]) {
                let next = expected.of(self.file[i], self.fd[i]);
                self.a[i] = self.a[i].wrapping_add(*next);
                *next = self.a[i].wrapping_add(self.ret[i].max(0));
            }
        }
    }
}

/// A cursor over the columns of a payload.
struct Planes<'a> {
    payload: &'a [u8],
    count: usize,
    column: usize,
    at: usize,
}

impl<'a> Planes<'a> {
    /// Verifies all lengths before anything is read.
    fn new(payload: &'a [u8], count: usize) -> Result<Planes<'a>, Damage> {
        let heads = payload.get(..COLUMNS * HEAD_SIZE).ok_or(Damage::Broken("the heads of columns"))?;
        let heads = heads.chunks_exact(HEAD_SIZE);
        let lengths = heads.clone().map(|head| head[8] as usize * count + head[9] as usize * EXCEPTION_SIZE);
        let fits =
            heads.clone().all(|head| head[8] <= 8) && COLUMNS * HEAD_SIZE + lengths.sum::<usize>() == payload.len();
        // A block without planes could claim any count; our blocks are never larger than this.
        if !fits || count > EVENTS_MAX * 32 {
            return Err(Damage::Broken("the lengths of columns"));
        }
        Ok(Planes { payload, count, column: 0, at: COLUMNS * HEAD_SIZE })
    }

    fn head(&self) -> &'a [u8] {
        &self.payload[self.column * HEAD_SIZE..][..HEAD_SIZE]
    }

    fn skip(&mut self, columns: usize) {
        for _ in 0..columns {
            let head = self.head();
            self.at += head[8] as usize * self.count + head[9] as usize * EXCEPTION_SIZE;
            self.column += 1;
        }
    }

    fn next(&mut self, values: &mut Vec<i64>) -> Result<(), Damage> {
        let head = self.head();
        let base = i64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
        values.clear();
        values.resize(self.count, base);
        for plane in 0..head[8] as u32 {
            let bytes = &self.payload[self.at..self.at + self.count];
            for (value, &byte) in values.iter_mut().zip(bytes) {
                *value = value.wrapping_add((byte as i64) << (8 * plane));
            }
            self.at += self.count;
        }
        for _ in 0..head[9] {
            let exception = &self.payload[self.at..self.at + EXCEPTION_SIZE];
            let index = u16::from_le_bytes([exception[0], exception[1]]) as usize;
            let above = u64::from_le_bytes(exception[2..].try_into().expect("eight bytes"));
            *values.get_mut(index).ok_or(Damage::Broken("an exception of a column"))? = base.wrapping_add(above as i64);
            self.at += EXCEPTION_SIZE;
        }
        self.column += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ops::Op;
    use crate::event::record::word;

    fn mixed(count: usize) -> Vec<Record> {
        let ops = [Op::OPEN, Op::FSTAT, Op::PREAD, Op::READ, Op::LSEEK, Op::CLOSE, Op::SPAN];
        (0..count)
            .map(|i| Record {
                word: word(ops[i % ops.len()], (i % 3) as u8, i % 5 != 0, 1000 + (i as u64 * 7919) % 5000),
                start: 1 << 40 | (i as u64 * 10_000),
                file: 1 + (i / 7) as u32 % 300,
                fd: (i % 11) as i32 - 1,
                a: if i % 5 != 0 { i as i64 * 4096 } else { POS_UNKNOWN },
                b: 4096,
                ret: if i % 13 == 0 { -2 } else { 4096 },
            })
            .collect()
    }

    fn round_trip(records: &[Record]) {
        let mut out = vec![0; RAW_MAX];
        let length = encode(records, &mut Scratch::new(), &mut out);
        let mut events = Events::default();
        let first = records.first().map_or(0, |r| r.start);
        events.decode(&out[..length], records.len(), first).unwrap();
        let mut expected = Events::default();
        records.iter().for_each(|record| expected.push(record));
        events.scratch.clear();
        assert_eq!(events, expected);
    }

    #[test]
    fn blocks_of_boundary_sizes_round_trip() {
        for count in [0, 1, 2, EVENTS_MAX - 1, EVENTS_MAX] {
            round_trip(&mixed(count));
        }
    }

    #[test]
    fn column_decoded_alone_matches_full_decode() {
        let records = mixed(EVENTS_MAX);
        let mut out = vec![0; RAW_MAX];
        let length = encode(&records, &mut Scratch::new(), &mut out);
        let mut all = Events::default();
        all.decode(&out[..length], records.len(), records[0].start).unwrap();
        let mut some = all.clone();
        for bits in 0..64u8 {
            let [times, file, fd, a, b, ret] = std::array::from_fn(|column| bits >> column & 1 == 1);
            let asked = ColumnSet { times, file, fd, a, b, ret };
            some.decode_some(&out[..length], records.len(), records[0].start, |_| asked).unwrap();
            assert_eq!((&some.op, &some.depth, &some.known), (&all.op, &all.depth, &all.known));
            let whole = asked.whole();
            let is_alike = |asked: bool, some: &[i64], all: &[i64]| if asked { some == all } else { some.is_empty() };
            assert!(is_alike(whole.a, &some.a, &all.a), "{asked:?}");
            assert!(is_alike(whole.b, &some.b, &all.b), "{asked:?}");
            assert!(is_alike(whole.ret, &some.ret, &all.ret), "{asked:?}");
            assert_eq!(some.start, if times { &all.start[..] } else { &[] }, "{asked:?}");
            assert_eq!(some.duration, if times { &all.duration[..] } else { &[] }, "{asked:?}");
            assert_eq!(some.file, if whole.file { &all.file[..] } else { &[] }, "{asked:?}");
            assert_eq!(some.fd, if whole.fd { &all.fd[..] } else { &[] }, "{asked:?}");
        }
    }

    #[test]
    fn extreme_values_round_trip() {
        let extreme = Record {
            word: word(Op(1023), DEPTH_MAX, true, DURATION_MAX),
            start: u64::MAX,
            file: u32::MAX,
            fd: i32::MIN,
            a: i64::MIN,
            b: i64::MAX,
            ret: i64::MIN,
        };
        let zero = Record { word: word(Op::READ, 0, true, 0), ..Record::default() };
        round_trip(&[zero, extreme, zero, extreme]);
        round_trip(&[extreme]);
    }

    #[test]
    fn repeated_calls_need_no_planes() {
        let records: Vec<_> = (0..100)
            .map(|i| Record {
                word: word(Op::PREAD, 0, true, 500),
                start: i * 1000,
                file: 1,
                fd: 3,
                a: i as i64 * 4096,
                b: 4096,
                ret: 4096,
            })
            .collect();
        let mut out = vec![0; RAW_MAX];
        // Only the first event is an exception: its gap, and the jump from no file to the first one.
        assert!(encode(&records, &mut Scratch::new(), &mut out) <= COLUMNS * HEAD_SIZE + 3 * EXCEPTION_SIZE);
    }

    #[test]
    fn few_slow_calls_do_not_widen_the_column() {
        let records: Vec<_> = (0..EVENTS_MAX as u64)
            .map(|i| Record {
                word: word(Op::PREAD, 0, true, if i % 100 == 7 { 1 << 40 } else { 500 + i % 50 }),
                start: i * 1000,
                ..Record::default()
            })
            .collect();
        let mut out = vec![0; RAW_MAX];
        let narrow = COLUMNS * HEAD_SIZE + 4 * EVENTS_MAX + 4 * EXCEPTIONS_MAX * EXCEPTION_SIZE;
        assert!(encode(&records, &mut Scratch::new(), &mut out) < narrow);
        round_trip(&records);
    }

    #[test]
    fn survey_finds_the_earliest_start() {
        let of = |start| Record { word: word(Op::READ, 0, false, 10), start, ..Record::default() };
        let mut scratch = Scratch::new();
        let survey = Survey::of(&[of(500), of(200), of(700)], &mut scratch);
        assert_eq!((survey.earliest, survey.last, survey.reach(500)), (200, 710, reach::of(300)));
        let survey = Survey::of(&[of(500), of(600)], &mut scratch);
        assert_eq!(survey.reach(500), reach::of(0));
    }

    #[test]
    fn payload_of_wrong_length_is_rejected() {
        let records = mixed(100);
        let mut out = vec![0; RAW_MAX];
        let length = encode(&records, &mut Scratch::new(), &mut out);
        let mut events = Events::default();
        for wrong in [0, 1, COLUMNS * HEAD_SIZE - 1, length - 1, length + 1] {
            assert!(events.decode(&out[..wrong], 100, 0).is_err());
        }
        assert!(events.decode(&out[..length], 99, 0).is_err());
    }
}
