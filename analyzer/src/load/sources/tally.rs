//! The counts that a process kept instead of events (see `dlio_schemas::native::tally`), in catalog numbers and Unix
//! time.

use dlio_schemas::native::tally::{self, Bin, OTHER, Row, Shape, Tallied};
use dlio_schemas::ops::Op;

use super::resolve::Resolver;
use crate::catalog::{Catalog, FILE_NONE};

/// The name for all files without a separate row.
pub const OTHER_FILES: &str = "(other files)";

/// All counts of one process.
pub struct ProcessTally {
    pub proc: u32,
    pub events: u64,
    pub rows: Vec<KindRow>,
    pub shapes: Vec<KindShape>,
    pub threads: Vec<Thread>,
    pub busy: Vec<Busy>,
    pub activity: Activity,
    pub precision: Precision,
}

/// What is known of the distribution of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// Counts in narrow buckets, and intervals of activity.
    Buckets,
    /// The mean and the longest call per file, and no times of single calls.
    Means,
}

/// The events of one thread.
pub struct Thread {
    pub tid: i32,
    pub events: u64,
    pub does_io: bool,
    /// The categories of its spans.
    pub categories: Vec<String>,
}

impl Thread {
    fn new(thread: &tally::Thread, resolver: &Resolver) -> Thread {
        let categories = thread.categories.iter().map(|category| resolver.text(*category).to_string()).collect();
        Thread { tid: thread.tid as i32, events: thread.events, does_io: thread.does_io, categories }
    }
}

/// All events of one kind on one file.
pub struct KindRow {
    pub kind: u32,
    pub file: u32,
    pub time_ns: u64,
    pub first_ts: i64,
    pub last_ts: i64,
    pub row: Row,
    /// How many calls opened the file, if the kind alone does not determine it.
    pub opens: Option<u64>,
}

/// Durations and sizes of one kind, as a distribution. Values are middles of buckets, in ascending order.
pub struct KindShape {
    pub kind: u32,
    pub shortest_ns: u64,
    pub longest_ns: u64,
    pub durations: Vec<(u64, u64)>,
    pub sizes: Vec<(u64, u64)>,
}

/// The times in which at least one event was in progress.
pub struct Busy {
    /// For spans; `None` for I/O.
    pub category: Option<String>,
    /// Gaps up to this long may be part of an interval.
    pub gap_ns: u64,
    /// Start, end, and the busy part.
    pub intervals: Vec<(i64, i64, i64)>,
}

/// The activity per time interval.
#[derive(Default)]
pub struct Activity {
    pub start_ts: i64,
    pub bin_ns: u64,
    pub ns_a_tick: f64,
    pub bins: Vec<Bin>,
}

impl ProcessTally {
    pub fn new(tallied: &Tallied, resolver: &Resolver, catalog: &Catalog) -> ProcessTally {
        let length = |ticks: u64| resolver.length_ns(tallied.origin, ticks);
        let kind = |op: Op, span: Option<(u32, u32)>| resolver.kind_of(op, span, catalog);
        let rows = tallied.rows.iter().map(|row| KindRow {
            kind: kind(row.op, row.category.map(|category| (row.subject, category))),
            file: match (row.category, row.subject) {
                (Some(_), _) => FILE_NONE,
                (None, OTHER) => catalog.file(OTHER_FILES),
                (None, subject) => resolver.file(subject),
            },
            time_ns: length(row.ticks),
            first_ts: resolver.unix_ns(row.first),
            last_ts: resolver.unix_ns(row.last),
            row: *row,
            opens: None,
        });
        let shapes = tallied.shapes.iter().map(|shape| KindShape::new(shape, kind(shape.op, shape.span), length));
        let busy = tallied.busy.iter().map(|busy| Busy {
            category: busy.category.map(|category| resolver.text(category).to_string()),
            gap_ns: length(busy.gap),
            intervals: busy
                .intervals
                .iter()
                .map(|&[start, end, ticks]| (resolver.unix_ns(start), resolver.unix_ns(end), length(ticks) as i64))
                .collect(),
        });
        ProcessTally {
            proc: resolver.proc,
            events: tallied.events,
            rows: rows.collect(),
            shapes: shapes.collect(),
            threads: tallied.threads.iter().map(|thread| Thread::new(thread, resolver)).collect(),
            busy: busy.collect(),
            activity: Activity {
                start_ts: resolver.unix_ns(tallied.origin),
                bin_ns: length(tallied.bin_ticks).max(1),
                ns_a_tick: length(tallied.bin_ticks) as f64 / tallied.bin_ticks.max(1) as f64,
                bins: tallied.bins.clone(),
            },
            precision: Precision::Buckets,
        }
    }
}

impl KindShape {
    fn new(shape: &Shape, kind: u32, length: impl Fn(u64) -> u64) -> KindShape {
        KindShape {
            kind,
            shortest_ns: length(shape.shortest),
            longest_ns: length(shape.longest),
            durations: shape.durations(&length),
            sizes: shape.sizes(),
        }
    }
}
