//! Writes Darshan logs. It knows the layout of the container, and shares no code with the reader.

// Not every test uses it.
#![allow(dead_code)]

use std::io::Write;

/// The compression of regions.
#[derive(Clone, Copy)]
pub enum Compression {
    Zlib = 0,
    Bzip2 = 1,
    None = 2,
}

/// A byte order.
pub trait Order {
    fn word(number: u64) -> [u8; 8];
    fn half(number: u32) -> [u8; 4];
}

pub struct Little;
pub struct Big;

impl Order for Little {
    fn word(number: u64) -> [u8; 8] {
        number.to_le_bytes()
    }

    fn half(number: u32) -> [u8; 4] {
        number.to_le_bytes()
    }
}

impl Order for Big {
    fn word(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    fn half(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }
}

/// A part of a region: words depend on the byte order, bytes do not.
#[derive(Clone)]
enum Part {
    Word(u64),
    Bytes(Vec<u8>),
}

/// The content of a module.
#[derive(Clone)]
pub struct Module(Vec<Part>);

impl Module {
    pub fn records(records: impl IntoIterator<Item = Record>) -> Module {
        let words = |record: Record| [vec![record.id, record.rank as u64], record.ints, record.floats].concat();
        Module(records.into_iter().flat_map(words).map(Part::Word).collect())
    }

    pub fn bytes(bytes: &[u8]) -> Module {
        Module(vec![Part::Bytes(bytes.into())])
    }

    /// Writes and reads of a file by one rank, without threads.
    pub fn traced(id: u64, rank: i64, host: &str, writes: &[Segment], reads: &[Segment]) -> Module {
        let mut name = host.as_bytes().to_vec();
        name.resize(64, 0);
        let mut parts = [id, rank as u64, 0].map(Part::Word).to_vec();
        parts.push(Part::Bytes(name));
        parts.extend([writes.len() as u64, reads.len() as u64].map(Part::Word));
        for segment in writes.iter().chain(reads) {
            let times = [segment.start.to_bits(), segment.end.to_bits()];
            parts.extend([segment.offset as u64, segment.length as u64].into_iter().chain(times).map(Part::Word));
        }
        Module(parts)
    }
}

/// One read or write.
#[derive(Clone, Copy)]
pub struct Segment {
    pub offset: i64,
    pub length: i64,
    pub start: f64,
    pub end: f64,
}

/// The numbers of one file; those that are not set are zero.
pub struct Record {
    id: u64,
    rank: i64,
    ints: Vec<u64>,
    floats: Vec<u64>,
}

impl Record {
    pub fn new(id: u64, rank: i64) -> Record {
        Record { id, rank, ints: vec![0; 128], floats: vec![0; 128] }
    }

    pub fn int(mut self, place: usize, number: i64) -> Record {
        self.ints[place] = number as u64;
        self
    }

    pub fn float(mut self, place: usize, number: f64) -> Record {
        self.floats[place] = number.to_bits();
        self
    }

    /// Sets how many integers and floats it has.
    pub fn of(mut self, ints: usize, floats: usize) -> Record {
        self.ints.truncate(ints);
        self.floats.truncate(floats);
        self
    }
}

/// A log: version 3.41 unless set otherwise.
pub struct Log {
    version: &'static str,
    compression: Compression,
    job: (i64, i64),
    partial: u64,
    names: Vec<(u64, String)>,
    modules: Vec<(usize, u32, Module)>,
}

impl Log {
    pub fn new(compression: Compression) -> Log {
        Log { version: "3.41", compression, job: (1, 1000), partial: 0, names: Vec::new(), modules: Vec::new() }
    }

    pub fn version(self, version: &'static str) -> Log {
        Log { version, ..self }
    }

    /// Sets the job and the user.
    pub fn job(self, id: i64, uid: i64) -> Log {
        Log { job: (id, uid), ..self }
    }

    pub fn partial(self, number: usize) -> Log {
        Log { partial: 1 << number, ..self }
    }

    pub fn name(mut self, id: u64, path: &str) -> Log {
        self.names.push((id, path.into()));
        self
    }

    pub fn module(mut self, number: usize, version: u32, module: Module) -> Log {
        self.modules.push((number, version, module));
        self
    }

    pub fn write<O: Order>(&self) -> Vec<u8> {
        let is_old = self.version == "3.00";
        let slots = if is_old { 16 } else { 64 };
        let header = if is_old { 24 } else { 32 } + 16 * (1 + slots) + 4 * slots;
        let mut body = self.packed(&self.job_region::<O>(is_old));
        let place = |body: &mut Vec<u8>, region: &[u8]| {
            let packed = self.packed(region);
            let at = (header + body.len()) as u64;
            body.extend(&packed);
            [at, packed.len() as u64]
        };
        let names = place(&mut body, &self.name_region::<O>(is_old));
        let (mut maps, mut versions) = (vec![[0; 2]; slots], vec![0; slots]);
        for (number, version, module) in &self.modules {
            let bytes = module.0.iter().flat_map(|part| match part {
                Part::Word(word) => O::word(*word).to_vec(),
                Part::Bytes(bytes) => bytes.clone(),
            });
            (maps[*number], versions[*number]) = (place(&mut body, &bytes.collect::<Vec<_>>()), *version);
        }
        let mut log = self.version.as_bytes().to_vec();
        log.resize(8, 0);
        log.extend(O::word(6_567_223));
        log.push(self.compression as u8);
        match is_old {
            true => log.extend([0; 3].into_iter().chain(O::half(self.partial as u32))),
            false => log.extend([0; 7].into_iter().chain(O::word(self.partial))),
        }
        for word in names.iter().chain(maps.iter().flatten()) {
            log.extend(O::word(*word));
        }
        versions.iter().for_each(|version| log.extend(O::half(*version)));
        assert_eq!(log.len(), header);
        log.extend(body);
        log
    }

    fn job_region<O: Order>(&self, is_old: bool) -> Vec<u8> {
        let (id, uid) = self.job;
        let start = [1_700_000_000, 0];
        let end = [1_700_000_002, 500_000_000];
        let words: Vec<i64> = match is_old {
            true => vec![uid, start[0], end[0], 2, id],
            false => vec![uid, start[0], start[1], end[0], end[1], 2, id],
        };
        let mut region: Vec<u8> = words.into_iter().flat_map(|word| O::word(word as u64)).collect();
        let mut metadata = b"lib_ver=3.4.0\nh=romio_no_indep_rw=true\n".to_vec();
        metadata.resize(1024, 0);
        region.extend(metadata);
        region.extend(b"/opt/ior -a POSIX\next4\t/\nlustre\t/data\n");
        region.resize(4096, 0);
        region
    }

    fn name_region<O: Order>(&self, is_old: bool) -> Vec<u8> {
        let name = |(id, path): &(u64, String)| match is_old {
            true => [&O::word(*id)[..], &O::half(path.len() as u32), path.as_bytes()].concat(),
            false => [&O::word(*id)[..], path.as_bytes(), &[0]].concat(),
        };
        self.names.iter().flat_map(name).collect()
    }

    /// Compresses a region in two streams, as two ranks do.
    fn packed(&self, region: &[u8]) -> Vec<u8> {
        let (first, second) = region.split_at(region.len() / 2);
        let zlib = |part: &[u8]| {
            let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(part).unwrap();
            packer.finish().unwrap()
        };
        let bzip2 = |part: &[u8]| {
            let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            packer.write_all(part).unwrap();
            packer.finish().unwrap()
        };
        match self.compression {
            Compression::Zlib => [zlib(first), zlib(second)].concat(),
            Compression::Bzip2 => [bzip2(first), bzip2(second)].concat(),
            Compression::None => region.into(),
        }
    }
}

/// A file that one rank reads, and one that all ranks write.
pub fn sample(log: Log) -> Log {
    let own = Record::new(7, 0).int(3, 4).int(14, 4096 * 4).float(8, 0.5).float(11, 0.2);
    let shared = Record::new(9, -1).int(0, 2).int(4, 10).int(15, 1 << 20).float(9, 1.25).float(10, 0.125);
    let files = Module::records([own, shared].map(|record| record.of(69, 17)));
    let stdio = Record::new(11, 0).int(0, 1).int(3, 3).int(6, 300).float(1, 0.001).of(14, 15);
    let log = log.name(7, "/data/a").name(9, "/data/shared").name(11, "<STDOUT>");
    log.module(1, 4, files).module(9, 2, Module::records([stdio]))
}

/// A log with counters and traced reads.
pub fn small(compression: Compression) -> Vec<u8> {
    let segment = Segment { offset: 0, length: 4096, start: 0.25, end: 0.375 };
    sample(Log::new(compression)).module(10, 1, Module::traced(7, 0, "node7", &[segment], &[segment])).write::<Little>()
}
