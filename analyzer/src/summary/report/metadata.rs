//! Metadata calls, by the information they request.

use std::collections::BTreeMap;

use dlio_schemas::ops::Class;
use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::catalog::Origin;
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::kind_of;
use crate::summary::figures::units::{grouped, share, time};
use crate::summary::report::layout::{dash, heading};
use crate::text_table::Grid;

/// The calls of one group.
#[derive(Serialize, Deserialize, Debug, Clone, Default)]
pub struct MetadataUse {
    pub group: String,
    pub count: u64,
    pub failed: u64,
    pub time_ns: u64,
}

/// The functions of each group; the SQL has the same groups. `fdopen` creates a stream for an open file, so it does not
/// count as an open.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "open",
        &[
            "open",
            "openat",
            "creat",
            "mkstemp",
            "fopen",
            "freopen",
            "tmpfile",
            "MPI_File_open",
            "io_uring_openat",
            "io_uring_openat2",
        ],
    ),
    ("close", &["close", "fclose", "close_range", "closefrom", "MPI_File_close", "io_uring_close"]),
    ("stat", &STATS),
    ("list", &["opendir", "fdopendir", "readdir", "closedir", "scandir", "getdents64"]),
    ("seek", &["lseek", "fseek", "ftell", "rewind", "fgetpos", "fsetpos"]),
    (
        "rename",
        &[
            "rename",
            "renameat",
            "link",
            "linkat",
            "symlink",
            "symlinkat",
            "io_uring_renameat",
            "io_uring_linkat",
            "io_uring_symlinkat",
        ],
    ),
    ("delete", &["unlink", "unlinkat", "remove", "rmdir", "io_uring_unlinkat"]),
    ("map", &["mmap", "munmap", "mremap", "madvise"]),
];

/// Calls that check whether a file exists, or read its size and other attributes.
pub const STATS: [&str; 8] = ["stat", "lstat", "fstat", "fstatat", "statx", "access", "faccessat", "io_uring_statx"];

/// The section on metadata calls.
pub struct Metadata;

/// Returns the group of a function.
pub fn group(name: &str) -> &'static str {
    GROUPS.iter().find(|(_, names)| names.contains(&name)).map_or("other", |(group, _)| group)
}

impl Section for Metadata {
    type Values = Vec<MetadataUse>;

    const MEANING: &'static str = "\
        Metadata: calls of the class metadata on files, by operation: open, close, stat (including access), list, \
        seek, rename, delete, map, other. Times are summed over calls. By function: see Metrics by function; by \
        error: Failures.";
    const FIELDS: &'static str = "\
        a list, by `group` (`open`, `close`, `stat`, `list`, `seek`, `rename`, `delete`, `map`, `other`): \
        `count`, `failed`, `time_ns`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/metadata.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let kinds = trace.catalog.kinds();
        let mut found: BTreeMap<&str, MetadataUse> = BTreeMap::new();
        for (row, kind, count) in analysis.rows(&kinds) {
            if kind.origin == Origin::Call && kind.class == Class::Metadata && !kind_of(row).1 {
                let group = group(&kind.name);
                let sum = found.entry(group).or_insert(MetadataUse { group: group.into(), ..MetadataUse::default() });
                sum.count += count.durations.count;
                sum.failed += count.failed;
                sum.time_ns += count.durations.sum as u64;
            }
        }
        let mut rows: Vec<_> = found.into_values().collect();
        rows.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.group.cmp(&b.group)));
        rows
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        if summary.metadata.is_empty() {
            return;
        }
        heading("Metadata", out);
        let all: u64 = summary.metadata.iter().map(|row| row.time_ns).sum();
        let mut grid = Grid::new(&["<", "calls", "failed", "time", "of time"]);
        for row in &summary.metadata {
            let part = share(row.time_ns as i64, all as i64);
            grid.row(vec![row.group.clone(), grouped(row.count), dash(row.failed), time(row.time_ns as f64), part]);
        }
        grid.print(out);
    }
}
