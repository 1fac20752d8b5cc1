//! Events of a loop of reads: the input of the micro-benchmarks.

use dlio_schemas::native::columns::EVENTS_MAX;
use dlio_schemas::ops::Op;
use dlio_schemas::record::{Record, word};

const BLOCK: i64 = 4096;
/// After this many bytes the file is read from its start again.
const REACH: i64 = 4 << 20;

/// Returns one block of consecutive reads, whose times vary like measured ones.
pub fn reads() -> Vec<Record> {
    let mut start = 1_000_000_000;
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    (0..EVENTS_MAX as i64)
        .map(|i| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            let duration = 900 + noise % 120;
            start += duration + 60 + noise % 7;
            read(Op::PREAD, start, duration, i * BLOCK % REACH)
        })
        .collect()
}

fn read(op: Op, start: u64, duration: u64, pos: i64) -> Record {
    Record { word: word(op, 0, true, duration), start, file: 8, fd: 3, a: pos, b: BLOCK, ret: BLOCK }
}
