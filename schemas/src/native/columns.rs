//! Events of one thread as columns.
//!
//! Eight columns, each turned into the difference from what was to be expected, so that most are constant and the rest
//! are small. A column is stored as its smallest value and as many byte planes as its range needs: a constant column has
//! none. Planes of noise lie together and planes of zeros too, which is what makes zstd's fastest level enough.
//!
//! ```text
//!  8 x (smallest: i64, planes: u8)    the heads
//!  planes of column 0, each `count` bytes, lowest byte first
//!  planes of column 1 ...
//! ```
//!
//! | column | holds the difference from |
//! |---|---|
//! | head   | 0 (operation, depth and whether `a` is known: the upper 16 bits of the record's word) |
//! | start  | the end of the event before; the first from `first` of the block's header |
//! | length | 0 |
//! | file   | the file of the event before |
//! | fd     | 0 |
//! | a      | for positions, where the last event of this file and descriptor ended; else 0 |
//! | b      | 0 |
//! | ret    | [`expected_result`] |

use super::Damage;
use crate::ops::{Arg, Op, OpInfo};
use crate::record::{DEPTH_MAX, DURATION_MAX, POS_UNKNOWN, Record, expected_result};

/// Events in a block. 2048 keep two halves of a ring, the compressor and its output within half a MiB a thread; 4096
/// cost 2 ns an event less and twice the memory.
pub const EVENTS_MAX: usize = 2048;

const COLUMNS: usize = 8;
const HEAD_SIZE: usize = 9;

/// Largest payload of a block before compression.
pub const RAW_MAX: usize = COLUMNS * HEAD_SIZE + COLUMNS * 8 * EVENTS_MAX;

/// Where the next event of a file is expected to begin, for sixteen files in turn.
#[derive(Default)]
struct Expected([i64; 16]);

impl Expected {
    #[inline(always)]
    fn of(&mut self, file: u32, fd: i32) -> &mut i64 {
        &mut self.0[(file.wrapping_mul(7) ^ fd as u32) as usize & 15]
    }
}

/// Whether `a` of this event is a position in a file.
#[inline(always)]
fn has_position(info: Option<&OpInfo>) -> bool {
    info.is_some_and(|info| info.a == Arg::Position)
}

/// Encodes up to [`EVENTS_MAX`] complete records; returns the length of the payload. `values` is scratch of the same
/// count. Allocates nothing, so that it can run wherever an event can.
pub fn encode(records: &[Record], values: &mut [i64], out: &mut [u8]) -> usize {
    let count = records.len();
    let values = &mut values[..count];
    let mut at = COLUMNS * HEAD_SIZE;
    for column in 0..COLUMNS {
        differences(column, records, values);
        let (smallest, planes) = extent(values);
        let head = &mut out[column * HEAD_SIZE..(column + 1) * HEAD_SIZE];
        head[..8].copy_from_slice(&smallest.to_le_bytes());
        head[8] = planes;
        for plane in 0..planes as u32 {
            let bytes = &mut out[at..at + count];
            for (byte, value) in bytes.iter_mut().zip(values.iter()) {
                *byte = (value.wrapping_sub(smallest) as u64 >> (8 * plane)) as u8;
            }
            at += count;
        }
    }
    at
}

/// Fills `values` with one column.
#[inline(always)]
fn differences(column: usize, records: &[Record], values: &mut [i64]) {
    let pairs = values.iter_mut().zip(records);
    match column {
        0 => pairs.for_each(|(value, r)| *value = (r.word >> 48) as i64),
        1 => {
            let mut end = records.first().map_or(0, |r| r.start);
            for (value, r) in pairs {
                *value = r.start.wrapping_sub(end) as i64;
                end = r.start.wrapping_add(r.duration());
            }
        }
        2 => pairs.for_each(|(value, r)| *value = r.duration() as i64),
        3 => {
            let mut file = 0;
            for (value, r) in pairs {
                *value = r.file as i64 - file;
                file = r.file as i64;
            }
        }
        4 => pairs.for_each(|(value, r)| *value = r.fd as i64),
        5 => positions(records, values),
        6 => pairs.for_each(|(value, r)| *value = r.b),
        _ => {
            for (value, r) in pairs {
                *value = r.ret.wrapping_sub(expected_result(r.op().info(), r.b, r.fd));
            }
        }
    }
}

fn positions(records: &[Record], values: &mut [i64]) {
    let mut expected = Expected::default();
    for (value, r) in values.iter_mut().zip(records) {
        if !r.known() {
            *value = 0;
        } else if has_position(r.op().info()) {
            let next = expected.of(r.file, r.fd);
            *value = r.a.wrapping_sub(*next);
            *next = r.a.wrapping_add(r.ret.max(0));
        } else {
            *value = r.a;
        }
    }
}

/// Smallest value and the bytes the range needs.
#[inline(always)]
fn extent(values: &[i64]) -> (i64, u8) {
    let (mut low, mut high) = (i64::MAX, i64::MIN);
    for &value in values.iter() {
        low = low.min(value);
        high = high.max(value);
    }
    if values.is_empty() {
        return (0, 0);
    }
    let range = high.wrapping_sub(low) as u64;
    (low, (64 - range.leading_zeros()).div_ceil(8) as u8)
}

/// The events of one block, column by column. Reused from block to block.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Events {
    pub op: Vec<u16>,
    pub depth: Vec<u8>,
    /// Whether `a` holds what the operation's row promises.
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

    pub fn clear(&mut self) {
        *self = Events { scratch: std::mem::take(&mut self.scratch), ..Events::default() };
    }

    /// Adds one record, as a leftover ring holds them.
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

    /// Replaces the contents by those of a block's payload. `first` is that of its header.
    pub fn decode(&mut self, payload: &[u8], count: usize, first: u64) -> Result<(), Damage> {
        let mut planes = Planes::new(payload, count)?;
        planes.next(&mut self.scratch)?;
        self.heads();
        planes.next(&mut self.scratch)?;
        let gaps = std::mem::take(&mut self.scratch);
        planes.next(&mut self.scratch)?;
        self.duration.clear();
        self.duration.extend(self.scratch.iter().map(|&value| value as u64 & DURATION_MAX));
        self.starts(&gaps, first);
        planes.next(&mut self.scratch)?;
        self.files();
        planes.next(&mut self.scratch)?;
        self.fd.clear();
        self.fd.extend(self.scratch.iter().map(|&value| value as i32));
        planes.next(&mut self.a)?;
        planes.next(&mut self.b)?;
        planes.next(&mut self.ret)?;
        self.results();
        self.positions();
        Ok(())
    }

    fn heads(&mut self) {
        self.op.clear();
        self.op.extend(self.scratch.iter().map(|&head| (head as u16) >> 6));
        self.known.clear();
        self.known.extend(self.scratch.iter().map(|&head| head >> 5 & 1 != 0));
        self.depth.clear();
        self.depth.extend(self.scratch.iter().map(|&head| head as u8 & DEPTH_MAX));
    }

    fn starts(&mut self, gaps: &[i64], first: u64) {
        self.start.clear();
        let mut end = first;
        for (&gap, &duration) in gaps.iter().zip(&self.duration) {
            let start = end.wrapping_add(gap as u64);
            self.start.push(start);
            end = start.wrapping_add(duration);
        }
    }

    fn files(&mut self) {
        self.file.clear();
        let mut file = 0i64;
        for &step in &self.scratch {
            file = file.wrapping_add(step);
            self.file.push(file as u32);
        }
    }

    fn results(&mut self) {
        for i in 0..self.len() {
            self.ret[i] = self.ret[i].wrapping_add(expected_result(Op(self.op[i]).info(), self.b[i], self.fd[i]));
        }
    }

    fn positions(&mut self) {
        let mut expected = Expected::default();
        for i in 0..self.len() {
            if !self.known[i] {
                self.a[i] = POS_UNKNOWN;
            } else if has_position(Op(self.op[i]).info()) {
                let next = expected.of(self.file[i], self.fd[i]);
                self.a[i] = self.a[i].wrapping_add(*next);
                *next = self.a[i].wrapping_add(self.ret[i].max(0));
            }
        }
    }
}

/// Walks the columns of a payload.
struct Planes<'a> {
    payload: &'a [u8],
    count: usize,
    column: usize,
    at: usize,
}

impl<'a> Planes<'a> {
    /// Proves all lengths before anything is read.
    fn new(payload: &'a [u8], count: usize) -> Result<Planes<'a>, Damage> {
        let heads = payload.get(..COLUMNS * HEAD_SIZE).ok_or(Damage::Broken("the heads of columns"))?;
        let planes = heads.chunks_exact(HEAD_SIZE).map(|head| head[8] as usize);
        let fits =
            planes.clone().all(|n| n <= 8) && COLUMNS * HEAD_SIZE + planes.sum::<usize>() * count == payload.len();
        // A block without planes could claim any count; no block of ours is larger than this.
        if !fits || count > EVENTS_MAX * 32 {
            return Err(Damage::Broken("the lengths of columns"));
        }
        Ok(Planes { payload, count, column: 0, at: COLUMNS * HEAD_SIZE })
    }

    fn next(&mut self, values: &mut Vec<i64>) -> Result<(), Damage> {
        let head = &self.payload[self.column * HEAD_SIZE..][..HEAD_SIZE];
        let smallest = i64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
        values.clear();
        values.resize(self.count, smallest);
        for plane in 0..head[8] as u32 {
            let bytes = &self.payload[self.at..self.at + self.count];
            for (value, &byte) in values.iter_mut().zip(bytes) {
                *value = value.wrapping_add((byte as i64) << (8 * plane));
            }
            self.at += self.count;
        }
        self.column += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::word;

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
        let mut values = vec![0; records.len()];
        let mut out = vec![0; RAW_MAX];
        let length = encode(records, &mut values, &mut out);
        let mut events = Events::default();
        let first = records.first().map_or(0, |r| r.start);
        events.decode(&out[..length], records.len(), first).unwrap();
        let mut expected = Events::default();
        records.iter().for_each(|record| expected.push(record));
        events.scratch.clear();
        assert_eq!(events, expected);
    }

    #[test]
    fn blocks_of_every_boundary_size_come_back() {
        for count in [0, 1, 2, EVENTS_MAX - 1, EVENTS_MAX] {
            round_trip(&mixed(count));
        }
    }

    #[test]
    fn the_largest_and_smallest_values_come_back() {
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
        // Planes remain for the first event alone: its gap, and the jump from no file to the first one.
        assert!(encode(&records, &mut [0; 100], &mut out) <= COLUMNS * HEAD_SIZE + 3 * 100);
    }

    #[test]
    fn a_payload_cut_or_stretched_is_refused() {
        let records = mixed(100);
        let mut out = vec![0; RAW_MAX];
        let length = encode(&records, &mut [0; 100], &mut out);
        let mut events = Events::default();
        for wrong in [0, 1, COLUMNS * HEAD_SIZE - 1, length - 1, length + 1] {
            assert!(events.decode(&out[..wrong], 100, 0).is_err());
        }
        assert!(events.decode(&out[..length], 99, 0).is_err());
    }
}
