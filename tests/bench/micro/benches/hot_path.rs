//! Measures the parts of a recorded call, each with a lower limit that no implementation of the part could beat.
//!
//! | part | limit |
//! |---|---|
//! | clock: the check whether to record, and two times | two readings of the processor's counter |
//! | record: clock, and a filled slot of the ring | 48 bytes copied |
//! | flush: columns, compression, one append, per event of a block | zstd 1 on the same columns |
//! | encode: records to columns | the records copied |
//! | decode: a stored block to columns of events | zstd's decompression of the same bytes |
//!
//! All results are per event. The engine is linked into this program: it records to `DLIO_TRACE_DIR`, which the
//! caller has to set.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dlio_micro::reads;
use dlio_schemas::native::block::{Codec, HEADER_SIZE, Header, Kind, Opener};
use dlio_schemas::native::columns::{EVENTS_MAX, Events, RAW_MAX, Scratch, encode};
use dlio_schemas::ops::{Layer, Op};
use dlio_tracer::calls::call;
use dlio_tracer::life::lifecycle;

const BLOCK: u64 = EVENTS_MAX as u64;

/// Number of calls between two flushes, without the one that flushes.
const BETWEEN_FLUSHES: u64 = BLOCK - 1;

// ---- while a program runs -------------------------------------------------------------------------------------------

/// A recorder of events of one thread that knows which of them finds the half of the ring full.
struct Recorder {
    recorded: u64,
}

impl Recorder {
    fn record(&mut self) {
        let Some(call) = call::begin(Layer::Posix) else { panic!("nothing is recorded: set DLIO_TRACE_DIR") };
        let pos = self.recorded as i64 * 4096 % (4 << 20);
        call.end().record(Op::PREAD, 8, 3, (pos, true), 4096, 4096);
        self.recorded += 1;
    }

    fn finds_room(&self) -> bool {
        !self.recorded.is_multiple_of(BLOCK)
    }

    /// Returns the time of `events` events, without those that flush.
    fn time_of_records(&mut self, events: u64) -> Duration {
        let (mut left, mut taken) = (events, Duration::ZERO);
        while left > 0 {
            if !self.finds_room() {
                self.record();
            }
            let now = left.min(BETWEEN_FLUSHES);
            while self.recorded % BLOCK > BLOCK - now {
                self.record();
            }
            if self.finds_room() {
                let began = Instant::now();
                (0..now).for_each(|_| self.record());
                taken += began.elapsed();
                left -= now;
            }
        }
        taken
    }

    /// Returns the time of `flushes` flushes, without the events between them.
    fn time_of_flushes(&mut self, flushes: u64) -> Duration {
        (0..flushes)
            .map(|_| {
                while self.finds_room() {
                    self.record();
                }
                let began = Instant::now();
                self.record();
                began.elapsed()
            })
            .sum()
    }
}

fn capture(criterion: &mut Criterion) {
    lifecycle::start();
    let mut recorder = Recorder { recorded: 0 };
    let mut group = criterion.benchmark_group("capture");
    group.throughput(Throughput::Elements(1));
    group.bench_function("clock", |bench| bench.iter(|| black_box(call::begin(Layer::Posix)).map(|call| call.end())));
    #[cfg(target_arch = "x86_64")]
    group.bench_function("clock limit", |bench| bench.iter(two_readings));
    group.bench_function("record", |bench| bench.iter_custom(|events| recorder.time_of_records(events)));
    let (from, mut into) = ([1_u8; 48], [0_u8; 48]);
    group.bench_function("record limit", |bench| bench.iter(|| black_box(&mut into).copy_from_slice(black_box(&from))));
    group.throughput(Throughput::Elements(BLOCK));
    group.bench_function("flush", |bench| bench.iter_custom(|flushes| recorder.time_of_flushes(flushes)));
    let columns = columns();
    let mut zstd = zstd::bulk::Compressor::new(1).expect("a compressor");
    let mut stored = vec![0; RAW_MAX];
    group.bench_function("flush limit", |bench| bench.iter(|| zstd.compress_to_buffer(&columns, &mut stored).is_ok()));
    group.finish();
}

#[cfg(target_arch = "x86_64")]
fn two_readings() -> u64 {
    // SAFETY: every x86-64 processor has this instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc().wrapping_sub(core::arch::x86_64::_rdtsc()) }
}

// ---- stored blocks --------------------------------------------------------------------------------------------------

fn columns() -> Vec<u8> {
    let mut payload = vec![0; RAW_MAX];
    let length = encode(&reads(), &mut Scratch::new(), &mut payload);
    payload.truncate(length);
    payload
}

/// Returns a whole block, as in a `.dlt`.
fn block(columns: &[u8]) -> (Header, Vec<u8>) {
    let compressed = zstd::bulk::compress(columns, 1).expect("a block fits");
    let mut header = Header { stream: 1, count: BLOCK as u32, first: 1_000_000_000, ..Header::new(Kind::Events) };
    let mut bytes = header.seal(Codec::Zstd, columns.len(), &compressed).to_vec();
    bytes.extend_from_slice(&compressed);
    (header, bytes)
}

fn storage(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("storage");
    group.throughput(Throughput::Elements(BLOCK));

    let records = reads();
    let (mut scratch, mut payload) = (Scratch::new(), vec![0; RAW_MAX]);
    group.bench_function("encode", |bench| bench.iter(|| encode(black_box(&records), &mut scratch, &mut payload)));
    let mut copy = records.clone();
    group.bench_function("encode limit", |bench| bench.iter(|| copy.copy_from_slice(black_box(&records))));

    let columns = columns();
    let (header, bytes) = block(&columns);
    let (mut opener, mut events) = (Opener::default(), Events::default());
    group.bench_function("decode", |bench| {
        bench.iter(|| {
            let payload = opener.open(&header, black_box(&bytes)).expect("our own block");
            events.decode(payload, header.count as usize, header.first).expect("our own columns");
        });
    });
    let mut zstd = zstd::bulk::Decompressor::new().expect("a decompressor");
    let mut opened = vec![0; columns.len()];
    let stored = &bytes[HEADER_SIZE..];
    group.bench_function("decode limit", |bench| {
        bench.iter(|| zstd.decompress_to_buffer(black_box(stored), &mut opened).is_ok());
    });
    group.finish();
}

criterion_group!(pieces, capture, storage);
criterion_main!(pieces);
