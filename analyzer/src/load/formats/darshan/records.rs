//! Records of modules that count: one per file and rank, or one for all ranks of a shared file.
//!
//! Every record starts with the record id of its file and the rank. Fixed numbers of integers and floats follow, whose
//! names are listed here in their order. Older versions of a module lack some of them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::log_file::{Order, terminated};
use super::modules::Module;

/// The rank of a record that sums all ranks.
pub const ALL_RANKS: i64 = -1;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    Int(i64),
    Float(f64),
}

/// The numbers of one file, as one module counted them.
#[derive(Clone, Debug)]
pub struct Record {
    pub module: &'static str,
    pub id: u64,
    pub rank: i64,
    pub names: Arc<Vec<String>>,
    pub numbers: Vec<Number>,
}

impl Record {
    fn find(&self, name: &str) -> Option<Number> {
        self.names.iter().position(|known| known == name).map(|at| self.numbers[at])
    }

    /// Returns a count. Negative numbers mean that it was not counted.
    pub fn count(&self, name: &str) -> u64 {
        match self.find(name) {
            Some(Number::Int(number)) => number.max(0) as u64,
            _ => 0,
        }
    }

    /// Returns the sum of counts.
    pub fn sum(&self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.count(name)).fold(0, u64::saturating_add)
    }

    /// Returns a time in nanoseconds; zero if it is missing or not a time.
    pub fn time_ns(&self, name: &str) -> u64 {
        match self.find(name) {
            Some(Number::Float(seconds)) if seconds > 0.0 && seconds < 1e9 => (seconds * 1e9).round() as u64,
            _ => 0,
        }
    }
}

/// The ranges of sizes that calls are counted in, as part of names, and their upper limits.
pub const SIZES: [(&str, u64); 10] = [
    ("0_100", 100),
    ("100_1K", 1 << 10),
    ("1K_10K", 10 << 10),
    ("10K_100K", 100 << 10),
    ("100K_1M", 1 << 20),
    ("1M_4M", 4 << 20),
    ("4M_10M", 10 << 20),
    ("10M_100M", 100 << 20),
    ("100M_1G", 1 << 30),
    ("1G_PLUS", 1 << 30),
];

/// The numbers of a module in its newest version. `*` represents all ranges of sizes, `#` the numbers 1 to 4, and
/// `HYPERSLABS` four shapes of accesses.
struct Layout {
    module: &'static str,
    prefix: &'static str,
    ints: &'static str,
    floats: &'static str,
    /// Bytes between the rank and the first number, and after the last number.
    around: (usize, usize),
    newest: u32,
    /// Numbers that versions up to the given one lack.
    added: &'static [(u32, &'static str)],
}

const IO_FLOATS: &str = "F_OPEN_START_TIMESTAMP F_READ_START_TIMESTAMP F_WRITE_START_TIMESTAMP \
    F_CLOSE_START_TIMESTAMP F_OPEN_END_TIMESTAMP F_READ_END_TIMESTAMP F_WRITE_END_TIMESTAMP F_CLOSE_END_TIMESTAMP \
    F_READ_TIME F_WRITE_TIME F_META_TIME F_MAX_READ_TIME F_MAX_WRITE_TIME F_FASTEST_RANK_TIME F_SLOWEST_RANK_TIME \
    F_VARIANCE_RANK_TIME F_VARIANCE_RANK_BYTES";

const DAOS_FLOATS: &str = "F_OPEN_START_TIMESTAMP F_READ_START_TIMESTAMP F_WRITE_START_TIMESTAMP \
    F_CLOSE_START_TIMESTAMP F_OPEN_END_TIMESTAMP F_READ_END_TIMESTAMP F_WRITE_END_TIMESTAMP F_CLOSE_END_TIMESTAMP \
    F_READ_TIME F_WRITE_TIME F_META_TIME F_MAX_READ_TIME F_MAX_WRITE_TIME F_FASTEST_RANK_TIME F_SLOWEST_RANK_TIME";

/// Timestamps that were added to all modules in one release.
const LATER_TIMES: &str = "F_CLOSE_START_TIMESTAMP F_OPEN_END_TIMESTAMP";

const LAYOUTS: &[Layout] = &[
    Layout {
        module: "POSIX",
        prefix: "POSIX_",
        ints: "OPENS FILENOS DUPS READS WRITES SEEKS STATS MMAPS FOPENS FREADS FWRITES FSEEKS FSYNCS FDSYNCS \
            RENAME_SOURCES RENAME_TARGETS RENAMED_FROM MODE BYTES_READ BYTES_WRITTEN MAX_BYTE_READ MAX_BYTE_WRITTEN \
            CONSEC_READS CONSEC_WRITES SEQ_READS SEQ_WRITES RW_SWITCHES MEM_NOT_ALIGNED MEM_ALIGNMENT \
            FILE_NOT_ALIGNED FILE_ALIGNMENT MAX_READ_TIME_SIZE MAX_WRITE_TIME_SIZE SIZE_READ_* SIZE_WRITE_* \
            STRIDE#_STRIDE STRIDE#_COUNT ACCESS#_ACCESS ACCESS#_COUNT FASTEST_RANK FASTEST_RANK_BYTES SLOWEST_RANK \
            SLOWEST_RANK_BYTES",
        floats: IO_FLOATS,
        around: (0, 0),
        newest: 4,
        added: &[(3, "FILENOS DUPS RENAME_SOURCES RENAME_TARGETS RENAMED_FROM"), (2, LATER_TIMES)],
    },
    Layout {
        module: "STDIO",
        prefix: "STDIO_",
        ints: "OPENS FDOPENS READS WRITES SEEKS FLUSHES BYTES_WRITTEN BYTES_READ MAX_BYTE_READ MAX_BYTE_WRITTEN \
            FASTEST_RANK FASTEST_RANK_BYTES SLOWEST_RANK SLOWEST_RANK_BYTES",
        floats: "F_META_TIME F_WRITE_TIME F_READ_TIME F_OPEN_START_TIMESTAMP F_CLOSE_START_TIMESTAMP \
            F_WRITE_START_TIMESTAMP F_READ_START_TIMESTAMP F_OPEN_END_TIMESTAMP F_CLOSE_END_TIMESTAMP \
            F_WRITE_END_TIMESTAMP F_READ_END_TIMESTAMP F_FASTEST_RANK_TIME F_SLOWEST_RANK_TIME F_VARIANCE_RANK_TIME \
            F_VARIANCE_RANK_BYTES",
        around: (0, 0),
        newest: 2,
        added: &[(1, "FDOPENS")],
    },
    Layout {
        module: "MPI-IO",
        prefix: "MPIIO_",
        ints: "INDEP_OPENS COLL_OPENS INDEP_READS INDEP_WRITES COLL_READS COLL_WRITES SPLIT_READS SPLIT_WRITES \
            NB_READS NB_WRITES SYNCS HINTS VIEWS MODE BYTES_READ BYTES_WRITTEN RW_SWITCHES MAX_READ_TIME_SIZE \
            MAX_WRITE_TIME_SIZE SIZE_READ_AGG_* SIZE_WRITE_AGG_* ACCESS#_ACCESS ACCESS#_COUNT FASTEST_RANK \
            FASTEST_RANK_BYTES SLOWEST_RANK SLOWEST_RANK_BYTES",
        floats: IO_FLOATS,
        around: (0, 0),
        newest: 3,
        added: &[(2, LATER_TIMES)],
    },
    Layout {
        module: "H5F",
        prefix: "H5F_",
        ints: "OPENS FLUSHES USE_MPIIO",
        floats: "F_OPEN_START_TIMESTAMP F_CLOSE_START_TIMESTAMP F_OPEN_END_TIMESTAMP F_CLOSE_END_TIMESTAMP F_META_TIME",
        around: (0, 0),
        newest: 3,
        added: &[(2, "FLUSHES USE_MPIIO F_META_TIME"), (1, LATER_TIMES)],
    },
    Layout {
        module: "H5D",
        prefix: "H5D_",
        ints: "OPENS READS WRITES FLUSHES BYTES_READ BYTES_WRITTEN RW_SWITCHES REGULAR_HYPERSLAB_SELECTS \
            IRREGULAR_HYPERSLAB_SELECTS POINT_SELECTS MAX_READ_TIME_SIZE MAX_WRITE_TIME_SIZE SIZE_READ_AGG_* \
            SIZE_WRITE_AGG_* HYPERSLABS ACCESS#_COUNT DATASPACE_NDIMS DATASPACE_NPOINTS DATATYPE_SIZE CHUNK_SIZE_D1 \
            CHUNK_SIZE_D2 CHUNK_SIZE_D3 CHUNK_SIZE_D4 CHUNK_SIZE_D5 USE_MPIIO_COLLECTIVE USE_DEPRECATED FASTEST_RANK \
            FASTEST_RANK_BYTES SLOWEST_RANK SLOWEST_RANK_BYTES",
        floats: IO_FLOATS,
        around: (8, 0),
        newest: 2,
        added: &[],
    },
    Layout {
        module: "PNETCDF_FILE",
        prefix: "PNETCDF_FILE_",
        ints: "INDEP_OPENS COLL_OPENS CREATES OPENS REDEFS INDEP_WAITS COLL_WAITS SYNCS BYTES_READ BYTES_WRITTEN WAIT_FAILURES",
        floats: "F_OPEN_START_TIMESTAMP F_CLOSE_START_TIMESTAMP F_WAIT_START_TIMESTAMP F_OPEN_END_TIMESTAMP \
            F_CLOSE_END_TIMESTAMP F_WAIT_END_TIMESTAMP F_META_TIME F_WAIT_TIME",
        around: (0, 0),
        newest: 3,
        added: &[
            (
                2,
                "CREATES OPENS REDEFS INDEP_WAITS COLL_WAITS SYNCS BYTES_READ BYTES_WRITTEN WAIT_FAILURES F_WAIT_START_TIMESTAMP \
                F_WAIT_END_TIMESTAMP F_META_TIME F_WAIT_TIME",
            ),
            (1, LATER_TIMES),
        ],
    },
    Layout {
        module: "PNETCDF_VAR",
        prefix: "PNETCDF_VAR_",
        ints: "OPENS INDEP_READS INDEP_WRITES COLL_READS COLL_WRITES NB_READS NB_WRITES BYTES_READ BYTES_WRITTEN \
            RW_SWITCHES PUT_VAR PUT_VAR1 PUT_VARA PUT_VARS PUT_VARM PUT_VARN PUT_VARD GET_VAR GET_VAR1 GET_VARA \
            GET_VARS GET_VARM GET_VARN GET_VARD IPUT_VAR IPUT_VAR1 IPUT_VARA IPUT_VARS IPUT_VARM IPUT_VARN IGET_VAR \
            IGET_VAR1 IGET_VARA IGET_VARS IGET_VARM IGET_VARN BPUT_VAR BPUT_VAR1 BPUT_VARA BPUT_VARS BPUT_VARM \
            BPUT_VARN MAX_READ_TIME_SIZE MAX_WRITE_TIME_SIZE SIZE_READ_AGG_* SIZE_WRITE_AGG_* HYPERSLABS \
            ACCESS#_COUNT NDIMS NPOINTS DATATYPE_SIZE IS_RECORD_VAR FASTEST_RANK FASTEST_RANK_BYTES SLOWEST_RANK \
            SLOWEST_RANK_BYTES",
        floats: IO_FLOATS,
        around: (8, 0),
        newest: 1,
        added: &[],
    },
    Layout {
        module: "BG/Q",
        prefix: "BGQ_",
        ints: "CSJOBID NNODES RANKSPERNODE DDRPERNODE INODES ANODES BNODES CNODES DNODES ENODES TORUSENABLED",
        floats: "F_TIMESTAMP",
        around: (0, 0),
        newest: 2,
        added: &[],
    },
    Layout {
        module: "DFS",
        prefix: "DFS_",
        ints: "OPENS GLOBAL_OPENS LOOKUPS DUPS READS READXS WRITES WRITEXS NB_READS NB_WRITES GET_SIZES PUNCHES \
            REMOVES STATS BYTES_READ BYTES_WRITTEN RW_SWITCHES MAX_READ_TIME_SIZE MAX_WRITE_TIME_SIZE SIZE_READ_* \
            SIZE_WRITE_* ACCESS#_ACCESS ACCESS#_COUNT CHUNK_SIZE FASTEST_RANK FASTEST_RANK_BYTES SLOWEST_RANK \
            SLOWEST_RANK_BYTES",
        floats: DAOS_FLOATS,
        around: (0, 32),
        newest: 1,
        added: &[],
    },
    Layout {
        module: "DAOS",
        prefix: "DAOS_",
        ints: "OBJ_OPENS OBJ_FETCHES OBJ_UPDATES OBJ_PUNCHES OBJ_DKEY_PUNCHES OBJ_AKEY_PUNCHES OBJ_DKEY_LISTS \
            OBJ_AKEY_LISTS OBJ_RECX_LISTS ARRAY_OPENS ARRAY_READS ARRAY_WRITES ARRAY_GET_SIZES ARRAY_SET_SIZES \
            ARRAY_STATS ARRAY_PUNCHES ARRAY_DESTROYS KV_OPENS KV_GETS KV_PUTS KV_REMOVES KV_LISTS KV_DESTROYS NB_OPS \
            BYTES_READ BYTES_WRITTEN RW_SWITCHES MAX_READ_TIME_SIZE MAX_WRITE_TIME_SIZE SIZE_READ_* SIZE_WRITE_* \
            ACCESS#_ACCESS ACCESS#_COUNT OBJ_OTYPE ARRAY_CELL_SIZE ARRAY_CHUNK_SIZE FASTEST_RANK FASTEST_RANK_BYTES \
            SLOWEST_RANK SLOWEST_RANK_BYTES",
        floats: DAOS_FLOATS,
        around: (0, 48),
        newest: 1,
        added: &[],
    },
];

/// Numbers that only versions up to the given one have.
const REMOVED: [(&str, u32, &str); 2] =
    [("POSIX", 1, "FOPENS FREADS FWRITES FSEEKS"), ("PNETCDF_FILE", 2, "INDEP_OPENS COLL_OPENS")];

/// A layout of one version.
struct Fields {
    names: Arc<Vec<String>>,
    ints: usize,
    around: (usize, usize),
}

static FIELDS: LazyLock<HashMap<(&'static str, u32), Fields>> = LazyLock::new(|| {
    let versions = LAYOUTS.iter().flat_map(|layout| (1..=layout.newest).map(move |version| (layout, version)));
    versions.map(|(layout, version)| ((layout.module, version), Fields::of(layout, version))).collect()
});

impl Fields {
    fn of(layout: &Layout, version: u32) -> Fields {
        let later = layout.added.iter().filter(|(last, _)| version <= *last).flat_map(|(_, names)| words(names));
        let removed = REMOVED.iter().filter(|(module, last, _)| *module == layout.module && version > *last);
        let removed = removed.flat_map(|(.., names)| words(names));
        let missing: Vec<String> = later.chain(removed).collect();
        let present = |text: &str| words(text).into_iter().filter(|name| !missing.contains(name)).collect::<Vec<_>>();
        let (ints, floats) = (present(layout.ints), present(layout.floats));
        // A file of a data set, and on BG/Q a number of unknown meaning.
        let before = match (layout.module, version) {
            ("H5D", 1) => 0,
            ("BG/Q", 1) => 8,
            _ => layout.around.0,
        };
        let count = ints.len();
        let names = ints.into_iter().chain(floats).map(|name| format!("{}{name}", layout.prefix)).collect();
        Fields { names: Arc::new(names), ints: count, around: (before, layout.around.1) }
    }

    fn read(&self, module: &'static str, bytes: &[u8], order: Order) -> Option<(Record, usize)> {
        let numbers = self.names.iter().enumerate().map(|(place, _)| {
            let at = 16 + self.around.0 + 8 * place;
            if place < self.ints {
                order.i64(bytes, at).map(Number::Int)
            } else {
                order.f64(bytes, at).map(Number::Float)
            }
        });
        let numbers = numbers.collect::<Option<Vec<_>>>()?;
        let size = 16 + self.around.0 + 8 * numbers.len() + self.around.1;
        let (id, rank) = (order.u64(bytes, 0)?, order.i64(bytes, 8)?);
        (size <= bytes.len()).then_some((Record { module, id, rank, names: self.names.clone(), numbers }, size))
    }
}

/// Returns the names that a layout abbreviates.
fn words(text: &str) -> Vec<String> {
    text.split_whitespace().flat_map(expand).collect()
}

fn expand(word: &str) -> Vec<String> {
    if word == "HYPERSLABS" {
        let dimensions = |of: &'static str| (1..=5).map(move |number| format!("_{of}_D{number}"));
        let parts = || ["_ACCESS".to_string()].into_iter().chain(dimensions("LENGTH")).chain(dimensions("STRIDE"));
        return (1..=4).flat_map(|number| parts().map(move |part| format!("ACCESS{number}{part}"))).collect();
    }
    if let Some(start) = word.strip_suffix('*') {
        return SIZES.iter().map(|(size, _)| format!("{start}{size}")).collect();
    }
    match word.split_once('#') {
        Some((start, end)) => (1..=4).map(|number| format!("{start}{number}{end}")).collect(),
        None => vec![word.into()],
    }
}

/// Reads the records of a module; `None` if the module has no numbers, or not in this version. The flag is `false` if
/// a record is incomplete.
pub fn read(module: &Module, order: Order) -> Option<(Vec<Record>, bool)> {
    let fields = FIELDS.get(&(module.name(), module.version));
    let one = |bytes: &[u8]| match (module.name(), fields) {
        (name, Some(fields)) => fields.read(name, bytes, order),
        ("LUSTRE", _) if module.version == 1 => striping(bytes, order),
        ("LUSTRE", _) => components(bytes, order),
        ("HEATMAP", _) => heatmap(bytes, order),
        _ => None,
    };
    let is_known = fields.is_some() || matches!((module.name(), module.version), ("LUSTRE", 1 | 2) | ("HEATMAP", 1));
    if !is_known {
        return None;
    }
    let (mut records, mut rest) = (Vec::new(), module.bytes.as_slice());
    while let Some((record, size)) = one(rest) {
        records.push(record);
        rest = &rest[size..];
    }
    Some((records, rest.is_empty()))
}

fn varying(module: &'static str, bytes: &[u8], order: Order, numbers: Vec<(String, Number)>) -> Option<Record> {
    let (names, numbers) = numbers.into_iter().unzip();
    Some(Record { module, id: order.u64(bytes, 0)?, rank: order.i64(bytes, 8)?, names: Arc::new(names), numbers })
}

/// The largest valid number of bins, stripes and components, against damaged counts.
const PARTS_MAX: u64 = 1 << 20;

fn parts(order: Order, bytes: &[u8], at: usize) -> Option<usize> {
    order.u64(bytes, at).filter(|parts| *parts <= PARTS_MAX).map(|parts| parts as usize)
}

/// The bytes that were moved in each interval of time, by all files of an interface.
fn heatmap(bytes: &[u8], order: Order) -> Option<(Record, usize)> {
    // Two pointers, which are meaningless in a file, follow the number of bins.
    const HEAD: usize = 48;
    let bins = parts(order, bytes, 24)?;
    let mut numbers = vec![("HEATMAP_F_BIN_WIDTH_SECONDS".into(), Number::Float(order.f64(bytes, 16)?))];
    for (name, first) in [("READ", HEAD + 8 * bins), ("WRITE", HEAD)] {
        for bin in 0..bins {
            numbers.push((format!("HEATMAP_{name}_BIN_{bin}"), Number::Int(order.i64(bytes, first + 8 * bin)?)));
        }
    }
    Some((varying("HEATMAP", bytes, order, numbers)?, HEAD + 16 * bins))
}

/// The stripes of a file on Lustre: its servers, and the only component that old versions know.
fn striping(bytes: &[u8], order: Order) -> Option<(Record, usize)> {
    let stripes = parts(order, bytes, 48)?;
    let mut numbers = vec![
        ("LUSTRE_COMP1_STRIPE_SIZE".to_string(), Number::Int(order.i64(bytes, 40)?)),
        ("LUSTRE_COMP1_STRIPE_COUNT".to_string(), Number::Int(stripes as i64)),
    ];
    for stripe in 0..stripes {
        let server = Number::Int(order.i64(bytes, 56 + 8 * stripe)?);
        numbers.push((format!("LUSTRE_COMP1_OST_ID_{stripe}"), server));
    }
    Some((varying("LUSTRE", bytes, order, numbers)?, 56 + 8 * stripes))
}

/// The components of a file on Lustre. Unused ones have a stripe size of -1.
fn components(bytes: &[u8], order: Order) -> Option<(Record, usize)> {
    const NAMES: [&str; 7] =
        ["STRIPE_SIZE", "STRIPE_COUNT", "STRIPE_PATTERN", "FLAGS", "EXT_START", "EXT_END", "MIRROR_ID"];
    const COMPONENT: usize = 8 * NAMES.len() + 16;
    let (count, stripes) = (parts(order, bytes, 16)?, parts(order, bytes, 24)?);
    let (mut numbers, mut server) = (Vec::new(), 32 + COMPONENT * count);
    let end = server + 8 * stripes;
    for (component, number) in (0..count).zip(1..) {
        let at = 32 + COMPONENT * component;
        if order.i64(bytes, at)? == -1 {
            break;
        }
        for (place, name) in NAMES.iter().enumerate() {
            let value = Number::Int(order.i64(bytes, at + 8 * place)?);
            numbers.push((format!("LUSTRE_COMP{number}_{name}"), value));
        }
        for stripe in 0..parts(order, bytes, at + 8)? {
            if server < end {
                let value = Number::Int(order.i64(bytes, server)?);
                numbers.push((format!("LUSTRE_COMP{number}_OST_ID_{stripe}"), value));
                server += 8;
            }
        }
    }
    (end <= bytes.len()).then_some(())?;
    Some((varying("LUSTRE", bytes, order, numbers)?, end))
}

/// Reads and writes of one file by one rank, one after another.
pub struct Traced {
    pub id: u64,
    pub rank: i64,
    pub host: String,
    pub writes: usize,
    pub reads: usize,
    /// Where the segments are in the bytes of the module, writes first.
    pub at: usize,
    pub segment_bytes: usize,
}

/// One read or write.
pub struct Segment {
    pub offset: i64,
    pub length: i64,
    pub start: f64,
    pub end: f64,
    pub thread: Option<u64>,
}

/// Returns the records of a module that traces; `None` if its version is unknown. The flag is `false` if a record is
/// incomplete, whose first segments are used.
pub fn traced(module: &Module, order: Order) -> Option<(Vec<Traced>, bool)> {
    let segment_bytes = match (module.name(), module.version) {
        ("DXT_POSIX", 2) | ("DXT_MPIIO", 3) => 40,
        ("DXT_POSIX", 1) | ("DXT_MPIIO", 1 | 2) => 32,
        _ => return None,
    };
    const HEAD: usize = 104;
    let (mut records, mut at) = (Vec::new(), 0);
    while at < module.bytes.len() {
        let rest = &module.bytes[at..];
        let Some(head) = rest.get(..HEAD) else { return Some((records, false)) };
        let count = |at: usize| order.u64(head, at).map_or(0, |count| count.min(1 << 40) as usize);
        let (writes, reads) = (count(88), count(96));
        let stored = (rest.len() - HEAD) / segment_bytes;
        let (id, rank) = (order.u64(head, 0).unwrap_or(0), order.i64(head, 8).unwrap_or(0));
        let (host, at_segments) = (terminated(&head[24..88]), at + HEAD);
        let is_whole = writes + reads <= stored;
        let (writes, reads) = (writes.min(stored), reads.min(stored.saturating_sub(writes)));
        records.push(Traced { id, rank, host, writes, reads, at: at_segments, segment_bytes });
        if !is_whole {
            return Some((records, false));
        }
        at += HEAD + segment_bytes * (writes + reads);
    }
    Some((records, true))
}

impl Traced {
    /// Returns the segment at an index.
    pub fn segment(&self, module: &Module, order: Order, index: usize) -> Option<Segment> {
        let at = self.at + self.segment_bytes * index;
        let (bytes, has_thread) = (&module.bytes, self.segment_bytes == 40);
        // The first version of MPI-IO did not store offsets.
        let has_offset = (module.name(), module.version) != ("DXT_MPIIO", 1);
        Some(Segment {
            offset: if has_offset { order.i64(bytes, at)? } else { -1 },
            length: order.i64(bytes, at + 8)?,
            start: order.f64(bytes, at + 16)?,
            end: order.f64(bytes, at + 24)?,
            thread: if has_thread { order.u64(bytes, at + 32) } else { None },
        })
    }
}
