//! Traces generated from a seed with the writers of `dlio-schemas`, so that every event is known.
//!
//! One tick is one nanosecond, so that written and expected numbers are equal. Sizes and durations have heavy tails,
//! threads run in parallel, and spans of compute are around and between the calls.

// Each test and the example use a part of this.
#![allow(dead_code)]

pub mod ranks;
pub mod runs;
pub mod script;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::block::{Codec, HEADER_SIZE, Header, Kind, reach};
use dlio_schemas::native::columns::{EVENTS_MAX, RAW_MAX, Scratch, encode};
use dlio_schemas::native::fields::{FieldWriter, key};
use dlio_schemas::native::file::file_header;
use dlio_schemas::native::names::{NameKind, entry_size, write_entry};
use dlio_schemas::native::tally::{self, RowIndex, Tally};
use dlio_schemas::ops::Op;
use dlio_schemas::record::{Record, pack_steps, word};

/// The parameters of a trace.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub processes: usize,
    pub threads: usize,
    /// Approximate number for all processes together.
    pub events: u64,
    pub files: u32,
    pub spans: bool,
    /// Include instants and counters.
    pub moments: bool,
    /// Some files begin with bytes that the kernel copied from another file.
    pub copies: bool,
    /// The last process does not record its ending.
    pub killed: bool,
    /// The time after [`START`] at which the trace begins.
    pub after_ns: u64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            seed: 1,
            processes: 2,
            threads: 3,
            events: 20_000,
            files: 50,
            spans: true,
            moments: false,
            copies: false,
            killed: false,
            after_ns: 0,
        }
    }
}

/// Unix time minus boot time.
pub const OFFSET: i64 = 1_700_000_000_000_000_000;

/// Boot time at which processes start.
pub const START: u64 = 5_000_000_000;

const SPAN_NAME: u32 = 1;
const SPAN_CATEGORY: u32 = 2;
const FETCH_NAME: u32 = 3;
const FETCH_CATEGORY: u32 = 4;
const META_KEY: u32 = 5;
const PIPE: u32 = 6;
const FIRST_FILE: u32 = 7;

/// Returns the path of a file by its index.
pub fn path(file: u32) -> String {
    format!("/data/set{}/part-{file:06}.npz", file % 10)
}

/// A small random number generator, equal on all platforms.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns mostly small values, and some a thousand times larger.
    pub fn heavy(&mut self, typical: u64) -> u64 {
        let octave = (self.next() | 1 << 40).trailing_zeros().min(10);
        typical + self.below(typical << octave)
    }
}

/// Returns sizes as programs request them: mostly powers of two, and some odd ones.
fn size(random: &mut Random) -> i64 {
    match random.below(8) {
        0 => random.heavy(100) as i64,
        1 => 65_536,
        2 => 1 << (10 + random.below(12)),
        _ => 4096,
    }
}

/// One thread's stream of events.
struct Stream {
    random: Random,
    now: u64,
    tid: u32,
    index: u32,
    sequence: u32,
    file: u32,
    left_in_file: u64,
    position: i64,
    span_start: u64,
    step: i32,
    records: Vec<Record>,
}

impl Stream {
    /// Returns a stream without generated events.
    fn scripted(index: u32, tid: u32, random: Random) -> Stream {
        Stream {
            random,
            now: START,
            tid,
            index,
            sequence: 0,
            file: 0,
            left_in_file: 0,
            position: 0,
            span_start: START,
            step: 0,
            records: Vec::with_capacity(EVENTS_MAX),
        }
    }

    fn push(&mut self, op: Op, known: bool, record: Record) {
        let duration = self.random.heavy(if op == Op::PREAD { 2000 } else { 300 });
        let start = self.now;
        self.now += duration;
        self.records.push(Record { word: word(op, 0, known, duration), start, ..record });
        self.now += self.random.heavy(200);
    }

    /// Fills one block.
    fn fill(&mut self, plan: &Plan) {
        self.records.clear();
        while self.records.len() + 8 < EVENTS_MAX {
            if self.left_in_file == 0 {
                self.next_file(plan);
            } else {
                self.use_file(plan);
            }
        }
    }

    fn next_file(&mut self, plan: &Plan) {
        let fd = 10 + self.index as i32;
        if self.file != 0 {
            self.push(Op::CLOSE, false, Record { file: self.file, fd, ..Record::default() });
        }
        if plan.spans {
            self.say(plan);
        }
        self.file = FIRST_FILE + self.random.below(plan.files as u64) as u32;
        self.left_in_file = 20 + self.random.below(200);
        self.position = 0;
        let failed = self.random.below(20) == 0;
        let ret = if failed { -2 } else { fd as i64 };
        self.push(Op::OPENAT, true, Record { file: self.file, fd, a: 0o644, b: 0o101, ret, ..Record::default() });
        self.push(Op::FSTAT, false, Record { file: self.file, fd, ..Record::default() });
        if plan.copies && self.random.below(3) == 0 {
            let source = FIRST_FILE + self.random.below(plan.files as u64) as u32;
            let copy = Record { file: self.file, fd, a: source as i64, b: 1 << 20, ret: 700_000, ..Record::default() };
            self.push(Op::COPY_FILE_RANGE, true, copy);
        }
        if self.random.below(10) == 0 {
            self.push(Op::READ, false, Record { file: PIPE, fd: 3, a: -1, b: 512, ret: 100, ..Record::default() });
        }
    }

    fn use_file(&mut self, plan: &Plan) {
        self.left_in_file -= 1;
        let (file, fd, position) = (self.file, 10 + self.index as i32, self.position);
        let requested = size(&mut self.random);
        let event = Record { file, fd, a: position, b: requested, ret: requested, ..Record::default() };
        match self.random.below(if plan.spans { 40 } else { 20 }) {
            0 => self.push(Op::PWRITE, true, event),
            1 => self.push(Op::PREAD, true, Record { ret: -5, ..event }),
            2 => self.push(Op::LSEEK, true, Record { a: 0, b: position, ret: position, ..event }),
            3 => self.push(Op::PREAD, true, Record { ret: requested / 2, ..event }),
            _ => self.push(Op::PREAD, true, event),
        }
        self.position += requested;
    }

    /// Adds a span of compute that started some files ago, and sometimes one around the reading itself.
    fn say(&mut self, plan: &Plan) {
        let start = self.span_start;
        let meta = Record { file: META_KEY, fd: 0, a: self.step as i64, ..Record::default() };
        self.records.push(Record { word: word(Op::META, 0, true, 0), start: self.now, ..meta });
        let span = Record { start, file: SPAN_NAME, fd: SPAN_CATEGORY as i32, ..Record::default() };
        let steps = pack_steps(self.step / 100, self.step);
        self.records.push(Record { word: word(Op::SPAN, 0, true, self.now - start), a: steps, ..span });
        if self.step % 3 == 0 {
            let fetch = Record { file: FETCH_NAME, fd: FETCH_CATEGORY as i32, a: steps, start, ..Record::default() };
            self.records.push(Record { word: word(Op::SPAN, 1, true, (self.now - start) / 2), ..fetch });
        }
        if plan.moments {
            let (word, start) = (|op| word(op, 0, true, 0), self.now);
            let moment = Record { start, fd: SPAN_CATEGORY as i32, ..Record::default() };
            self.records.push(Record { word: word(Op::INSTANT), file: SPAN_NAME, a: steps, ..moment });
            let value = (self.step as f64).to_bits() as i64;
            self.records.push(Record { word: word(Op::COUNTER), file: FETCH_NAME, a: value, ..moment });
        }
        self.step += 1;
        self.now += 100;
        self.span_start = self.now + self.random.heavy(20_000);
        if self.random.below(2) == 0 {
            self.now = self.span_start;
        }
        self.span_start = self.span_start.min(self.now);
    }
}

/// Writes a whole trace; `observe` gets every record with its process and thread.
pub fn generate(folder: &Path, plan: &Plan, observe: &(dyn Fn(usize, u32, &Record) + Sync)) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || -> std::io::Result<()> {
        loop {
            let process = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if process >= plan.processes {
                return Ok(());
            }
            write_process(folder, plan, process, observe)?;
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a writer"))
    })
}

/// Returns the path of a process's file.
pub fn file_of(folder: &Path, process: usize) -> PathBuf {
    folder.join(format!("train-node{}-{}-{START}.dlt", process % 2, 1000 + process))
}

fn write_process(
    folder: &Path,
    plan: &Plan,
    process: usize,
    observe: &dyn Fn(usize, u32, &Record),
) -> std::io::Result<()> {
    let mut out = Blocks::new(file_of(folder, process))?;
    let began = START + plan.after_ns;
    let start = began + process as u64 * 1_000_000;
    out.process(&facts(process, began, None))?;
    out.names(plan.files)?;
    let mut streams: Vec<_> = (0..plan.threads as u32).map(|index| stream(plan, process, index, start)).collect();
    let share = plan.events / plan.processes as u64;
    let mut written = 0;
    while written < share {
        // The thread whose clock is behind goes next, as it would in a program.
        let stream = streams.iter_mut().min_by_key(|stream| stream.now).expect("a thread");
        stream.fill(plan);
        stream.records.iter().for_each(|record| observe(process, stream.tid, record));
        out.events(stream)?;
        written += stream.records.len() as u64;
    }
    let end = streams.iter().map(|stream| stream.now).max().unwrap_or(start);
    if !(plan.killed && process + 1 == plan.processes) {
        out.process(&facts(process, began, Some(end)))?;
    }
    out.file.flush()
}

/// Writes a process that counted its events: it wrote 1,000 bytes to each file and read 100 and some of it again.
pub fn generate_counted(folder: &Path, files: u32) -> std::io::Result<()> {
    let mut out = Blocks::new(file_of(folder, 0))?;
    out.process(&facts(0, START, None))?;
    out.names(files)?;
    let mut words = vec![0; tally::WORDS];
    let index = RowIndex::empty();
    let mut table = Tally::new(&mut words, &index).expect("room for a table");
    let events = (0..files).flat_map(|file| {
        let record = Record { file: FIRST_FILE + file, fd: 3, ..Record::default() };
        let size = 100 + file as i64 % 4;
        let written = Record { b: 1000, ret: 1000, ..record };
        [
            (Op::OPENAT, Record { ret: 3, ..record }),
            (Op::WRITE, written),
            (Op::READ, Record { b: size, ret: size, ..record }),
        ]
    });
    for ((op, record), start) in events.zip((START..).step_by(1000)) {
        table.add(1000, &Record { word: word(op, 0, true, 500), start, ..record }, |_| true);
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (piece, first) in bytes.chunks(32 << 10).zip((0u64..).step_by(32 << 10)) {
        out.block(Header { first, ..Header::new(Kind::Tally) }, piece)?;
    }
    let mut end = facts(0, START, Some(START + files as u64 * 3000));
    let mut counted = vec![0; 64];
    let mut writer = FieldWriter::new(&mut counted);
    writer.number(key::COUNTED, files as i64 * 3);
    let used = writer.used();
    end.extend_from_slice(&counted[..used]);
    out.process(&end)?;
    out.file.flush()
}

fn stream(plan: &Plan, process: usize, index: u32, start: u64) -> Stream {
    let seed = plan.seed.wrapping_mul(1_000_003) ^ (process as u64) << 20 ^ index as u64;
    let now = start + 1000 * index as u64;
    let tid = (1000 + process) as u32 + index * 100_000;
    Stream { now, span_start: now, ..Stream::scripted(index, tid, Random::new(seed + 1)) }
}

fn facts(process: usize, began: u64, end: Option<u64>) -> Vec<u8> {
    let mut out = vec![0; 2048];
    let mut writer = FieldWriter::new(&mut out);
    writer.text(key::HOST, format!("node{}", process % 2).as_bytes());
    writer.text(key::BOOT_ID, format!("boot-{}", process % 2).as_bytes());
    writer.number(key::PID, 1000 + process as i64);
    writer.number(key::PPID, 999);
    writer.number(key::START_BOOT_NS, began as i64);
    writer.number(key::RANK, process as i64);
    writer.text(key::PROGRAM, b"train");
    writer.text(key::COMMAND, b"train\x00--epochs\x005\x00");
    writer.text(key::CWD, b"/home/ada");
    writer.number(key::CLOCK_HZ, 1_000_000_000);
    if let Some(end) = end {
        writer.text(key::ENDED, b"exit 0");
        writer.number(key::END_BOOT_NS, end as i64);
        writer.number(key::LOST, 7);
        writer.number(key::FILTERED, 3);
    }
    let used = writer.used();
    out.truncate(used);
    out
}

/// Writes the blocks of one file.
struct Blocks {
    file: BufWriter<File>,
    compressor: zstd::bulk::Compressor<'static>,
    scratch: Box<Scratch>,
    raw: Vec<u8>,
}

impl Blocks {
    fn new(path: PathBuf) -> std::io::Result<Blocks> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        file.write_all(&file_header())?;
        Ok(Blocks { file, compressor: zstd::bulk::Compressor::new(1)?, scratch: Box::default(), raw: vec![0; RAW_MAX] })
    }

    fn block(&mut self, mut header: Header, payload: &[u8]) -> std::io::Result<()> {
        let stored = self.compressor.compress(payload)?;
        let now = header.last.max(START);
        header.anchor = Anchor { ticks: now, boot_ns: now, real_ns: now + OFFSET as u64 };
        let head: [u8; HEADER_SIZE] = header.seal(Codec::Zstd, payload.len(), &stored);
        self.file.write_all(&head)?;
        self.file.write_all(&stored)
    }

    fn process(&mut self, facts: &[u8]) -> std::io::Result<()> {
        self.block(Header { count: 1, ..Header::new(Kind::Process) }, facts)
    }

    fn names(&mut self, files: u32) -> std::io::Result<()> {
        let message = [
            (NameKind::Span, "step"),
            (NameKind::Category, "compute"),
            (NameKind::Span, "fetch"),
            (NameKind::Category, "dataloader"),
            (NameKind::Text, "batch"),
            (NameKind::Object, "<pipe>"),
        ];
        let message = message.into_iter().map(|(kind, text)| (kind, text.to_string()));
        self.listed(message.chain((0..files).map(|file| (NameKind::Path, path(file)))).collect())
    }

    /// Writes names, numbered from 1.
    fn listed(&mut self, all: Vec<(NameKind, String)>) -> std::io::Result<()> {
        for (chunk, first) in all.chunks(500).zip((1u64..).step_by(500)) {
            let mut payload = Vec::new();
            for (kind, text) in chunk {
                let at = payload.len();
                payload.resize(at + entry_size(text.as_bytes()), 0);
                write_entry(*kind, text.as_bytes(), &mut payload[at..]);
            }
            self.block(Header { count: chunk.len() as u32, first, ..Header::new(Kind::Names) }, &payload)?;
        }
        Ok(())
    }

    fn events(&mut self, stream: &mut Stream) -> std::io::Result<()> {
        let count = stream.records.len();
        let length = encode(&stream.records, &mut self.scratch, &mut self.raw);
        let last = stream.records.iter().map(|record| record.start + record.duration()).max();
        let first = stream.records.first().map_or(0, |record| record.start);
        let earliest = stream.records.iter().map(|record| record.start).min();
        let header = Header {
            stream: stream.index,
            sequence: stream.sequence,
            tid: stream.tid,
            count: count as u32,
            first,
            last: last.unwrap_or(0),
            reach: reach::of(first - earliest.unwrap_or(first)),
            ..Header::new(Kind::Events)
        };
        stream.sequence += 1;
        let raw = std::mem::take(&mut self.raw);
        let result = self.block(header, &raw[..length]);
        self.raw = raw;
        result
    }
}
