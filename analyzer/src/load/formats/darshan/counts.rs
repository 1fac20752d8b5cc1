//! From records to the counts that replace events.
//!
//! A record has the number of calls, their bytes and the sum of their times, per file and rank, and not one time of a
//! call except the longest. So durations are represented by their mean per record, and by the longest. Sizes are known
//! by range, and exactly for the four most frequent ones. Calls that were also traced are subtracted: they are events.

use std::collections::{BTreeMap, HashMap};

use dlio_schemas::native::tally::{Bin, Row};
use dlio_schemas::ops::{Class, Op};

use super::log_file::LogFile;
use super::records::{Number, Record, SIZES};
use crate::catalog::Catalog;
use crate::load::sources::tally::{Activity, KindRow, KindShape, Precision, ProcessTally};

/// The counters of a module that count file calls.
struct Interface {
    module: &'static str,
    prefix: &'static str,
    /// The layer, as the column `layer` names it.
    layer: &'static str,
    reads: &'static [&'static str],
    writes: &'static [&'static str],
    opens: &'static [&'static str],
    /// Other calls whose time is metadata time.
    others: &'static [&'static str],
    /// The part of a name between the direction and the range of sizes.
    sizes: &'static str,
}

const INTERFACES: &[Interface] = &[
    Interface {
        module: "POSIX",
        prefix: "POSIX_",
        layer: "posix",
        // Only the first version has streams among them.
        reads: &["POSIX_READS", "POSIX_FREADS"],
        writes: &["POSIX_WRITES", "POSIX_FWRITES"],
        opens: &["POSIX_OPENS", "POSIX_FOPENS"],
        others: &["POSIX_SEEKS", "POSIX_FSEEKS", "POSIX_STATS", "POSIX_MMAPS", "POSIX_RENAME_SOURCES"],
        sizes: "",
    },
    Interface {
        module: "STDIO",
        prefix: "STDIO_",
        layer: "stdio",
        reads: &["STDIO_READS"],
        writes: &["STDIO_WRITES"],
        opens: &["STDIO_OPENS"],
        others: &["STDIO_SEEKS"],
        sizes: "",
    },
    Interface {
        module: "MPI-IO",
        prefix: "MPIIO_",
        layer: "mpiio",
        reads: &["MPIIO_INDEP_READS", "MPIIO_COLL_READS", "MPIIO_SPLIT_READS", "MPIIO_NB_READS"],
        writes: &["MPIIO_INDEP_WRITES", "MPIIO_COLL_WRITES", "MPIIO_SPLIT_WRITES", "MPIIO_NB_WRITES"],
        opens: &["MPIIO_INDEP_OPENS", "MPIIO_COLL_OPENS"],
        others: &[],
        sizes: "AGG_",
    },
    Interface {
        module: "DFS",
        prefix: "DFS_",
        layer: "dfs",
        reads: &["DFS_READS", "DFS_READXS"],
        writes: &["DFS_WRITES", "DFS_WRITEXS"],
        opens: &["DFS_OPENS", "DFS_GLOBAL_OPENS"],
        others: &["DFS_LOOKUPS", "DFS_GET_SIZES", "DFS_PUNCHES", "DFS_REMOVES", "DFS_STATS"],
        sizes: "",
    },
];

/// Sums of traced calls of one direction.
#[derive(Clone, Copy, Default, Debug)]
pub struct TracedSum {
    pub calls: u64,
    pub bytes: u64,
    pub ns: u64,
}

/// Sums of traced reads and writes, by module, file and rank, and by module and file for all ranks.
pub type TracedSums = HashMap<(&'static str, u64, i64), [TracedSum; 2]>;

/// One direction of the calls on a file.
struct Direction {
    name: &'static str,
    upper: &'static str,
    class: Class,
    index: usize,
}

const DIRECTIONS: [Direction; 2] = [
    Direction { name: "read", upper: "READ", class: Class::Read, index: 0 },
    Direction { name: "write", upper: "WRITE", class: Class::Write, index: 1 },
];

/// Collects the counts of one process.
pub struct Counts<'a> {
    catalog: &'a Catalog,
    log: &'a LogFile,
    traced: &'a TracedSums,
    rows: Vec<KindRow>,
    shapes: BTreeMap<u32, KindShape>,
}

impl<'a> Counts<'a> {
    pub fn new(catalog: &'a Catalog, log: &'a LogFile, traced: &'a TracedSums) -> Counts<'a> {
        Counts { catalog, log, traced, rows: Vec::new(), shapes: BTreeMap::new() }
    }

    pub fn add(&mut self, record: &Record, file: u32) {
        let Some(interface) = INTERFACES.iter().find(|interface| interface.module == record.module) else { return };
        for direction in &DIRECTIONS {
            self.transfers(interface, direction, record, file);
        }
        let opens = record.sum(interface.opens);
        let count = opens.saturating_add(record.sum(interface.others));
        let time_ns = record.time_ns(&format!("{}F_META_TIME", interface.prefix));
        if count > 0 {
            let kind = self.catalog.call_of_class("metadata", interface.layer, Class::Metadata);
            let row = Row { count, ..empty_row(Op::OPEN) };
            let moments = ["OPEN_START", "OPEN_END", "CLOSE_START", "CLOSE_END"];
            self.row(
                record,
                interface,
                &moments,
                KindRow { opens: Some(opens), ..self.kind_row(kind, file, time_ns, row) },
            );
            self.shape(kind, &mean_times(count, time_ns, 0), &[]);
        }
    }

    fn transfers(&mut self, interface: &Interface, direction: &Direction, record: &Record, file: u32) {
        let name = |end: &str| format!("{}{end}", interface.prefix);
        let (upper, calls) = (direction.upper, [interface.reads, interface.writes][direction.index]);
        let bytes = record.count(&name(if direction.index == 0 { "BYTES_READ" } else { "BYTES_WRITTEN" }));
        let (all, time_ns) = (record.sum(calls), record.time_ns(&name(&format!("F_{upper}_TIME"))));
        let key = (record.module, record.id, record.rank);
        let traced = self.traced.get(&key).map_or(TracedSum::default(), |sums| sums[direction.index]);
        let count = all.saturating_sub(traced.calls);
        if count == 0 {
            return;
        }
        let (bytes, time_ns) = (bytes.saturating_sub(traced.bytes), time_ns.saturating_sub(traced.ns));
        let kind = self.catalog.moving(direction.name, interface.layer);
        let highest = record.count(&name(if direction.index == 0 { "MAX_BYTE_READ" } else { "MAX_BYTE_WRITTEN" }));
        let is_placed = interface.layer == "posix" && traced.calls == 0;
        let placed = |end: &str| if is_placed { record.count(&name(&format!("{end}_{upper}S"))) } else { 0 };
        let row = Row {
            count,
            bytes,
            sized: count,
            reached: if bytes > 0 && highest > 0 { highest + 1 } else { 0 },
            placed: if is_placed { count } else { 0 },
            sequential: placed("SEQ"),
            consecutive: placed("CONSEC"),
            ..empty_row(if direction.class == Class::Read { Op::READ } else { Op::WRITE })
        };
        let moments = [format!("{upper}_START"), format!("{upper}_END")];
        self.row(record, interface, &[&moments[0], &moments[1]], self.kind_row(kind, file, time_ns, row));
        let longest = if traced.calls == 0 { record.time_ns(&name(&format!("F_MAX_{upper}_TIME"))) } else { 0 };
        let sizes = match traced.calls {
            0 => sizes(record, interface, direction, count, bytes),
            _ => vec![(bytes / count, count)],
        };
        self.shape(kind, &mean_times(count, time_ns, longest), &sizes);
    }

    fn kind_row(&self, kind: u32, file: u32, time_ns: u64, row: Row) -> KindRow {
        let start = self.log.job.start_ns;
        KindRow { kind, file, time_ns, first_ts: start, last_ts: start, row, opens: None }
    }

    /// Adds a row, with the first and last of its times that are known.
    fn row(&mut self, record: &Record, interface: &Interface, moments: &[&str], row: KindRow) {
        let name = |moment: &&str| format!("{}F_{moment}_TIMESTAMP", interface.prefix);
        let times: Vec<u64> = moments.iter().map(|m| record.time_ns(&name(m))).filter(|ns| *ns > 0).collect();
        let start = self.log.job.start_ns;
        let at = |ns: Option<&u64>| ns.map_or(start, |ns| start.saturating_add(*ns as i64));
        self.rows.push(KindRow { first_ts: at(times.iter().min()), last_ts: at(times.iter().max()), ..row });
    }

    fn shape(&mut self, kind: u32, durations: &[(u64, u64)], sizes: &[(u64, u64)]) {
        let empty = || KindShape { kind, shortest_ns: u64::MAX, longest_ns: 0, durations: vec![], sizes: vec![] };
        let shape = self.shapes.entry(kind).or_insert_with(empty);
        for (ns, _) in durations {
            shape.shortest_ns = shape.shortest_ns.min(*ns);
            shape.longest_ns = shape.longest_ns.max(*ns);
        }
        shape.durations.extend(durations);
        shape.sizes.extend(sizes);
    }

    /// Returns the counts, with the activity that heatmaps show.
    pub fn finish(self, proc: u32, heatmaps: &[&Record]) -> ProcessTally {
        ProcessTally {
            proc,
            events: self.rows.iter().map(|row| row.row.count).sum(),
            rows: self.rows,
            shapes: self.shapes.into_values().collect(),
            threads: Vec::new(),
            busy: Vec::new(),
            activity: activity(self.log.job.start_ns, heatmaps),
            precision: Precision::Means,
        }
    }
}

fn empty_row(op: Op) -> Row {
    Row {
        op,
        subject: 0,
        category: None,
        count: 0,
        failed: 0,
        ticks: 0,
        bytes: 0,
        sized: 0,
        reached: 0,
        placed: 0,
        sequential: 0,
        consecutive: 0,
        first: 0,
        last: 0,
    }
}

/// Returns the longest call, if it is known, and the mean of all others.
fn mean_times(count: u64, time_ns: u64, longest: u64) -> Vec<(u64, u64)> {
    match count {
        0 => Vec::new(),
        _ if longest == 0 || longest > time_ns => vec![(time_ns / count, count)],
        1 => vec![(time_ns, 1)],
        _ => vec![((time_ns - longest) / (count - 1), count - 1), (longest, 1)],
    }
}

/// Returns the sizes of calls: the four most frequent ones exactly if only one direction can have them, and the middle
/// of the range for all others.
fn sizes(record: &Record, of: &Interface, direction: &Direction, count: u64, bytes: u64) -> Vec<(u64, u64)> {
    let range = |upper: &str, size: &str| record.count(&format!("{}SIZE_{upper}_{}{size}", of.prefix, of.sizes));
    let other = DIRECTIONS[1 - direction.index].upper;
    let frequent = (1..=4).map(|number| {
        let [size, count] = ["ACCESS", "COUNT"].map(|end| record.count(&format!("{}ACCESS{number}_{end}", of.prefix)));
        (size, count)
    });
    let frequent: Vec<(u64, u64)> = frequent.filter(|(_, count)| *count > 0).collect();
    let (mut sizes, mut lower) = (Vec::new(), 0);
    for (place, (name, upper)) in SIZES.into_iter().enumerate() {
        let mut left = range(direction.upper, name);
        let is_last = place + 1 == SIZES.len();
        if range(other, name) == 0 {
            for (size, count) in &frequent {
                let count = *count.min(&left);
                let fits = (*size > lower || place == 0) && (*size <= upper || is_last);
                if fits && count > 0 {
                    sizes.push((*size, count));
                    left -= count;
                }
            }
        }
        if left > 0 {
            sizes.push((if is_last { lower } else { (lower + upper) / 2 }, left));
        }
        lower = upper;
    }
    let known: u64 = sizes.iter().map(|(_, count)| count).sum();
    if known == count { sizes } else { vec![(bytes / count, count)] }
}

fn activity(start_ts: i64, heatmaps: &[&Record]) -> Activity {
    let width = heatmaps.first().map_or(0, |record| record.time_ns("HEATMAP_F_BIN_WIDTH_SECONDS"));
    let mut bins: Vec<Bin> = Vec::new();
    for record in heatmaps.iter().filter(|r| r.time_ns("HEATMAP_F_BIN_WIDTH_SECONDS") == width && width > 0) {
        let count = record.numbers.len() / 2;
        if bins.len() < count {
            bins.resize(count, Bin::default());
        }
        let bytes = |place: usize| match record.numbers.get(place) {
            Some(Number::Int(bytes)) => (*bytes).max(0) as u64,
            _ => 0,
        };
        for (place, bin) in bins.iter_mut().enumerate().take(count) {
            bin.bytes_read += bytes(1 + place);
            bin.bytes_written += bytes(1 + count + place);
        }
    }
    Activity { start_ts, bin_ns: width.max(1), ns_a_tick: 1.0, bins }
}
