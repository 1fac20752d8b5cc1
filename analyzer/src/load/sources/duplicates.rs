//! A process that lies in files of several forms counts once.
//!
//! An export beside what it was made of holds the same processes again: native files are read rather than Perfetto traces,
//! and both rather than Parquet. Files of one form are all read, because a process may well have several: a segment each,
//! one for each program it became, a ring beside its blocks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dlio_schemas::native::fields::{Fields, key};
use dlio_schemas::perfetto::layout::process_uuid;
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, Process};

/// The largest distance between the starts of one process in two forms: they count from clocks that were related anew.
const START_SLACK_NS: u64 = 1_000_000;

/// A file some of whose processes are not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    pub path: String,
    /// Zero where the whole file is a copy of the other one.
    pub processes: u64,
    /// A file that has the first of them too.
    pub instead: String,
}

/// The processes met so far.
#[derive(Default)]
pub struct Duplicates {
    /// The paths of the images of native files.
    images: HashMap<u64, PathBuf>,
    /// Those of the catalogue, by host and process id.
    rows: HashMap<(u32, i32), Vec<Process>>,
    pub passed_over: Vec<PassedOver>,
}

impl Duplicates {
    /// An image of a process that is read from a native file.
    pub fn add_image(&mut self, fields: &Fields, path: &Path) {
        if fields.get(key::PID).is_some() {
            self.images.entry(process_uuid(fields)).or_insert_with(|| path.into());
        }
    }

    /// Everything the catalogue holds by now.
    pub fn add_all(&mut self, catalog: &Catalog) {
        for process in catalog.processes().into_iter().filter(|process| process.start_ts.is_some()) {
            self.rows.entry((process.host, process.pid)).or_default().push(process);
        }
    }

    /// True if an image, by the number it has in Perfetto traces, is read already; if so, that is noted of the file.
    pub fn skips_image(&mut self, uuid: u64, path: &Path) -> bool {
        let Some(instead) = self.images.get(&uuid).map(|instead| instead.display().to_string()) else { return false };
        self.pass(path, instead);
        true
    }

    /// The same for a process of which only its row is known.
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
