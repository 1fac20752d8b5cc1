//! Processes scripted event by event: traces with obvious expected values, for rules and numbers.
//!
//! Times are microseconds since the run began. Each call and span is placed at the clock of its thread, or at an
//! explicit time.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use dlio_schemas::evidence::Counters;
use dlio_schemas::native::columns::EVENTS_MAX;
use dlio_schemas::native::fields::{FieldWriter, key};
use dlio_schemas::native::names::NameKind;
use dlio_schemas::ops::Op;
use dlio_schemas::record::{MetaKind, POS_UNKNOWN, Record, STEP_NONE, pack_steps, word};

use super::{Blocks, Random, START, Stream};

/// One process.
pub struct Script {
    pid: i32,
    parent: i32,
    pub rank: Option<i32>,
    pub program: &'static str,
    pub command: &'static str,
    pub lost: i64,
    /// The time after [`START`] at which it begins, for a later run.
    pub begins_us: u64,
    /// `true` if it records its ending.
    pub ends: bool,
    pub cores: i64,
    pub memory: Option<i64>,
    /// Lines of the file of host counters next to the trace; the file is written if there are any.
    pub machine: Vec<String>,
    /// Further facts, by their keys.
    pub more_facts: Vec<(&'static str, String)>,
    /// The time of each thread, in microseconds.
    now: BTreeMap<u32, u64>,
    records: BTreeMap<u32, Vec<Record>>,
    names: BTreeMap<(u8, String), u32>,
    listed: Vec<(NameKind, String)>,
}

/// Descriptor of all files here.
const FD: i32 = 7;

impl Script {
    pub fn new(pid: i32, parent: i32) -> Script {
        Script {
            pid,
            parent,
            rank: None,
            program: "python",
            command: "python\0train.py\0",
            lost: 0,
            begins_us: 0,
            ends: true,
            cores: 64,
            memory: None,
            machine: Vec::new(),
            more_facts: Vec::new(),
            now: BTreeMap::new(),
            records: BTreeMap::new(),
            names: BTreeMap::new(),
            listed: Vec::new(),
        }
    }

    pub fn ranked(pid: i32, rank: i32) -> Script {
        Script { rank: Some(rank), ..Script::new(pid, 1) }
    }

    fn name(&mut self, kind: NameKind, text: &str) -> u32 {
        let next = self.listed.len() as u32 + 1;
        let key = (kind as u8, text.to_string());
        let id = *self.names.entry(key).or_insert(next);
        if id == next {
            self.listed.push((kind, text.to_string()));
        }
        id
    }

    /// Sets the clock of a thread; the first one's id is the process id.
    pub fn at(&mut self, us: u64) -> &mut Script {
        self.now.insert(self.pid as u32, us);
        self
    }

    pub fn now(&self) -> u64 {
        self.now.get(&(self.pid as u32)).copied().unwrap_or(0)
    }

    /// Advances the clock.
    pub fn rest(&mut self, us: u64) -> &mut Script {
        let now = self.now() + us;
        self.at(now)
    }

    /// Delays everything recorded so far, including the start of the process.
    pub fn delay(&mut self, us: u64) {
        self.records.values_mut().flatten().for_each(|record| record.start += us * 1000);
        self.now.values_mut().for_each(|now| *now += us);
    }

    fn push(&mut self, start: u64, us: u64, op: Op, known: bool, record: Record) {
        let (tid, start) = (self.pid as u32, START + start * 1000);
        let record = Record { word: word(op, 0, known, us * 1000), start, ..record };
        self.records.entry(tid).or_default().push(record);
    }

    /// Records a call on a path that ends now plus `us`; the clock advances a little further.
    pub fn call(&mut self, op: Op, path: &str, us: u64, (a, b, ret): (i64, i64, i64)) -> &mut Script {
        let kind = if path.starts_with('<') { NameKind::Object } else { NameKind::Path };
        let file = if path.is_empty() { 0 } else { self.name(kind, path) };
        let now = self.now();
        self.push(now, us, op, a != POS_UNKNOWN, Record { file, fd: FD, a, b, ret, ..Record::default() });
        self.at(now + us + 1)
    }

    /// Sets the kernel's counts for the thread until its next event ends.
    pub fn counted(&mut self, cpu_us: u64, major_faults: u64) -> &mut Script {
        self.counters(Counters { cpu_us, major_faults, run_delay_us: Some(0), ..Counters::default() })
    }

    /// Sets the counts of a thread that was runnable without a CPU for `run_delay_us`.
    pub fn delayed(&mut self, cpu_us: u64, run_delay_us: u64) -> &mut Script {
        self.counters(Counters { cpu_us, run_delay_us: Some(run_delay_us), ..Counters::default() })
    }

    fn counters(&mut self, counters: Counters) -> &mut Script {
        let (tid, record) = (self.pid as u32, counters.record(START + self.now() * 1000));
        self.records.entry(tid).or_default().push(record);
        self
    }

    /// Records a call of HDF5 or MPI-IO that takes `us`, with a text for each key, and the reads of the file that it makes.
    pub fn library_call(
        &mut self,
        (op, path): (Op, &str),
        us: u64,
        bytes: i64,
        told: &[(&str, &str)],
        below: &[(i64, i64)],
    ) -> &mut Script {
        let (tid, start) = (self.pid as u32, self.now());
        self.name(NameKind::Category, op.info().expect("an operation").layer.name());
        for (at, (pos, size)) in (1..).zip(below) {
            let file = self.name(NameKind::Path, path);
            let record = Record { file, fd: FD, a: *pos, b: *size, ret: *size, ..Record::default() };
            let each = us / (below.len() as u64 + 1);
            self.push(start + at * each - each / 2, each / 2, Op::PREAD, true, record);
            let inner = self.records.get_mut(&tid).and_then(|records| records.last_mut()).expect("the call just added");
            inner.word = word(Op::PREAD, 1, true, each / 2 * 1000);
        }
        for (key, text) in told {
            let (key, kind, value) = match text.parse::<i64>() {
                Ok(number) => (self.name(NameKind::Text, key), MetaKind::Int, number),
                Err(_) => (self.name(NameKind::Text, key), MetaKind::Text, self.name(NameKind::Text, text) as i64),
            };
            self.push(start, us, Op::META, true, Record { file: key, fd: kind as i32, a: value, ..Record::default() });
        }
        self.call(op, path, us, (0, bytes, bytes))
    }

    /// Records a request for a whole object.
    pub fn get(&mut self, url: &str, size: i64, us: u64) -> &mut Script {
        self.call(Op::OBJECT_GET, url, us, (0, size, size))
    }

    pub fn open(&mut self, path: &str, us: u64) -> &mut Script {
        self.call(Op::OPENAT, path, us, (0, 0, FD as i64))
    }

    pub fn close(&mut self, path: &str, us: u64) -> &mut Script {
        self.call(Op::CLOSE, path, us, (POS_UNKNOWN, 0, 0))
    }

    pub fn read(&mut self, path: &str, pos: i64, size: i64, us: u64) -> &mut Script {
        self.call(Op::READ, path, us, (pos, size, size))
    }

    pub fn write(&mut self, path: &str, pos: i64, size: i64, us: u64) -> &mut Script {
        self.call(Op::WRITE, path, us, (pos, size, size))
    }

    /// Opens a file, reads it in one call, and closes it.
    pub fn load(&mut self, path: &str, size: i64, us: u64) -> &mut Script {
        self.open(path, 5).read(path, 0, size, us).close(path, 2)
    }

    /// Records a span that starts now; the clock is then at its end.
    pub fn span(&mut self, name: &str, category: &str, us: u64) -> &mut Script {
        let now = self.now();
        self.span_at(now, us, name, category, (STEP_NONE, STEP_NONE));
        self.at(now + us)
    }

    pub fn span_at(&mut self, start: u64, us: u64, name: &str, category: &str, steps: (i32, i32)) -> &mut Script {
        let (file, fd) = (self.name(NameKind::Span, name), self.name(NameKind::Category, category) as i32);
        let a = pack_steps(steps.0, steps.1);
        self.push(start, us, Op::SPAN, true, Record { file, fd, a, ..Record::default() });
        self
    }

    fn facts(&self) -> Vec<u8> {
        let mut out = vec![0; 2048];
        let mut writer = FieldWriter::new(&mut out);
        writer.text(key::HOST, b"node0");
        writer.text(key::BOOT_ID, b"boot-0");
        writer.number(key::PID, self.pid as i64);
        writer.number(key::PPID, self.parent as i64);
        writer.number(key::START_BOOT_NS, (START + self.begins_us * 1000) as i64);
        writer.number(key::CORES, self.cores);
        if let Some(memory) = self.memory {
            writer.number(key::MEMORY, memory);
        }
        for (key, value) in &self.more_facts {
            writer.text(key, value.as_bytes());
        }
        if let Some(rank) = self.rank {
            writer.number(key::RANK, rank as i64);
        }
        writer.text(key::PROGRAM, self.program.as_bytes());
        writer.text(key::COMMAND, self.command.as_bytes());
        writer.text(key::CWD, b"/job");
        writer.number(key::CLOCK_HZ, 1_000_000_000);
        if self.ends {
            let ends = self.records.values().flatten().map(|record| record.start + record.duration());
            writer.text(key::ENDED, b"exit 0");
            let last = ends.max().unwrap_or(START) + self.begins_us * 1000;
            writer.number(key::END_BOOT_NS, last as i64);
            writer.number(key::LOST, self.lost);
        }
        let used = writer.used();
        out.truncate(used);
        out
    }

    /// Writes the process's file.
    pub fn write_to(mut self, folder: &Path) {
        if !self.machine.is_empty() {
            let head = "dlio-machine 1\nfact\thost\tnode0\nfact\tboot_id\tboot-0\n";
            let text = format!("{head}{}\nend\n", self.machine.join("\n"));
            std::fs::write(folder.join("node0.machine"), text).expect("counters of a machine");
        }
        let path = folder.join(format!("train-node0-{}-{START}.dlt", self.pid));
        let facts = self.facts();
        let mut out = Blocks::new(path).expect("a file of a process");
        out.process(&facts).expect("facts of a process");
        out.listed(std::mem::take(&mut self.listed)).expect("names");
        for (index, (tid, mut records)) in (0u32..).zip(std::mem::take(&mut self.records)) {
            records.iter_mut().for_each(|record| record.start += self.begins_us * 1000);
            // In the order of recording: by end time, inner events before outer ones.
            records.sort_by_key(|record| (record.start + record.duration(), std::cmp::Reverse(record.start)));
            let mut stream = Stream::scripted(index, tid, Random::new(1));
            for block in records.chunks(EVENTS_MAX) {
                stream.records.clear();
                stream.records.extend_from_slice(block);
                out.events(&mut stream).expect("a block of events");
            }
        }
        out.file.flush().expect("a file of a process");
    }
}
