//! Files by storage location, as far as paths show it, and objects by bucket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::load::sources::tally::OTHER_FILES;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{bytes, time};
use crate::summary::report::layout::{dash, heading, more};
use crate::text_table::Grid;

/// The use of one location.
#[derive(Serialize, Deserialize, Debug, Clone, Default)]
pub struct StorageUse {
    pub place: String,
    pub files: u64,
    pub opens: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub time_ns: u64,
    /// The part of it in metadata calls.
    pub asked_ns: u64,
}

/// The section on storage locations.
pub struct Storage;

/// Returns the first directory of a path, or the bucket of an object.
fn place(path: &str) -> &str {
    if path == OTHER_FILES {
        return path;
    }
    if let Some(start) = path.find("://").map(|at| at + 3).filter(|_| !path.starts_with('/')) {
        return path[start..].find('/').map_or(path, |end| &path[..start + end]);
    }
    match path.strip_prefix('/').map(|below| below.find('/')) {
        Some(Some(end)) => &path[..=end],
        Some(None) => "/",
        None => ".",
    }
}

impl Section for Storage {
    type Values = Vec<StorageUse>;

    const MEANING: &'static str = "\
        Storage: files by the first directory of their path, since traces do not contain mount points. Relative paths \
        are listed under a dot; objects by their bucket (s3://bucket). Times are summed over calls; metadata: the part \
        spent in metadata calls.";
    const FIELDS: &'static str = "\
        a list, by `place` (first directory of the path, since traces do not contain mount points; `s3://bucket` for \
        objects): `files`, `opens`, `bytes_read`, `bytes_written`, `time_ns`, `asked_ns` (of it, in metadata calls)";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/storage.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let paths = trace.catalog.files();
        let mut found: BTreeMap<&str, StorageUse> = BTreeMap::new();
        for (path, count) in analysis.used_files(&paths) {
            let place = place(path);
            let fresh = || StorageUse { place: place.into(), ..StorageUse::default() };
            let sum = found.entry(place).or_insert_with(fresh);
            sum.files += (path != OTHER_FILES) as u64;
            sum.opens += count.opens;
            sum.bytes_read += count.bytes_read;
            sum.bytes_written += count.bytes_written;
            sum.time_ns += count.time_ns;
            sum.asked_ns += count.asked_ns;
        }
        let mut rows: Vec<_> = found.into_values().collect();
        rows.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.place.cmp(&b.place)));
        rows
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        if summary.storage.is_empty() {
            return;
        }
        heading("Storage, by first directory or bucket", out);
        let mut grid = Grid::new(&["<", "files", "opens", "read", "written", "time", "metadata"]);
        for row in summary.storage.iter().take(top) {
            let [read, written] = [row.bytes_read, row.bytes_written].map(|moved| bytes(moved as f64));
            let [all, asked] = [row.time_ns, row.asked_ns].map(|ns| time(ns as f64));
            grid.row(vec![row.place.clone(), dash(row.files), dash(row.opens), read, written, all, asked]);
        }
        grid.print(out);
        more(summary.storage.len(), top, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_first_folder() {
        assert_eq!(["/data/a/b", "/data/a", "/a", "a/b", "a"].map(place), ["/data", "/data", "/", ".", "."]);
        assert_eq!(
            ["s3://b/data/x", "s3://b", "s3://b/", "/d/s3://b/x"].map(place),
            ["s3://b", "s3://b", "s3://b", "/d"]
        );
    }
}
