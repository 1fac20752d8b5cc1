//! Counts a process once if files of several formats contain it.
//!
//! An export next to its source contains the same processes again: native files take precedence over Perfetto traces,
//! and both over Parquet. Files of one format are all read, because a process may have several: one per segment, one
//! per program it executed, a ring next to its blocks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dlio_schemas::native::fields::{Fields, key};
use dlio_schemas::perfetto::layout::process_uuid;
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, Process};

/// The maximum difference between the starts of one process in two formats, whose clocks were related separately.
const START_SLACK_NS: u64 = 1_000_000;

/// A file with processes that are not read from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    pub path: String,
    /// Zero if the whole file is a copy of the other one.
    pub processes: u64,
    /// A file that also contains the first of them.
    pub instead: String,
}

/// The processes seen so far.
#[derive(Default)]
pub struct Duplicates {
    /// The paths of the images of native files.
    images: HashMap<u64, PathBuf>,
    /// The processes of the catalog, by host and process id.
    rows: HashMap<(u32, i32), Vec<Process>>,
    pub passed_over: Vec<PassedOver>,
}

impl Duplicates {
    /// Adds an image of a process that is read from a native file.
    pub fn add_image(&mut self, fields: &Fields, path: &Path) {
        if fields.get(key::PID).is_some() {
            self.images.entry(process_uuid(fields)).or_insert_with(|| path.into());
        }
    }

    /// Adds all processes in the catalog so far.
    pub fn add_all(&mut self, catalog: &Catalog) {
        for process in catalog.processes().into_iter().filter(|process| process.start_ts.is_some()) {
            self.rows.entry((process.host, process.pid)).or_default().push(process);
        }
    }

    /// Returns `true` if an image, given by its number in Perfetto traces, is already read; then notes that for the
    /// file.
    pub fn skips_image(&mut self, uuid: u64, path: &Path) -> bool {
        let Some(instead) = self.images.get(&uuid).map(|instead| instead.display().to_string()) else { return false };
        self.pass(path, instead);
        true
    }

    /// Returns `true` if a process is already read, and then records the duplicate for the file. Compares process rows
    /// only.
    pub fn skips_process(&mut self, process: &Process, path: &Path) -> bool {
        let is_same = |other: &&Process| {
            let starts = process.start_ts.zip(other.start_ts);
            starts.is_some_and(|(one, other)| one.abs_diff(other) <= START_SLACK_NS)
                && (&process.program, &process.command) == (&other.program, &other.command)
        };
        let met = self.rows.get(&(process.host, process.pid)).and_then(|rows| rows.iter().find(is_same));
        let Some(instead) = met.map(|process| process.source.clone()) else { return false };
        self.pass(path, instead);
        true
    }

    fn pass(&mut self, path: &Path, instead: String) {
        let path = path.display().to_string();
        match self.passed_over.iter_mut().find(|passed| passed.path == path) {
            Some(passed) => passed.processes += 1,
            None => self.passed_over.push(PassedOver { path, processes: 1, instead }),
        }
    }
}
