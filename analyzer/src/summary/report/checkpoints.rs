//! Checkpoints, separate from reads.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::catalog::{FILE_NONE, Origin, is_stored};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::FileCount;
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::groups::steps::CHECKPOINT;
use crate::summary::report::layout::{heading, pairs};
use dlio_schemas::ops::Class;

/// Checkpoints that were saved.
#[derive(Serialize, Deserialize, Debug, Clone, Default)]
pub struct Checkpoints {
    /// `true` if no span shows checkpoints: then large written files are treated as checkpoints.
    pub inferred: bool,
    pub spans: u64,
    pub span_ns: u64,
    /// Part of the trainers' steps spent saving without compute; `null` if steps are not measured.
    pub exposed_ns: Option<i64>,
    pub files: u64,
    pub bytes_written: u64,
    pub time_ns: u64,
}

impl Section for Checkpoints {
    type Values = Self;

    const MEANING: &'static str = "\
        Checkpoints: spans whose category begins with checkpoint, with their number and total time. Exposed: the part \
        of the trainers' steps spent in checkpoints while nothing computed. Files: all files that received 1 MiB or \
        more of writes, from any process, except logs (files with less than 4 KiB per call) and files that a benchmark \
        writes in spans called generate. If the trace has no checkpoint spans, these files are assumed to be \
        checkpoints; the section is then inferred.";
    const FIELDS: &'static str = "\
        `inferred` (the trace has no checkpoint spans), `spans`, `span_ns`, `exposed_ns` (the part of the trainers' \
        steps; `null` if steps are not measured), `files` (with 1 MiB or more written), `bytes_written`, `time_ns` \
        (of all calls on them)";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/checkpoints.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let kinds = trace.catalog.kinds();
        let mut found = Checkpoints::default();
        for (_, kind, count) in analysis.rows(&kinds) {
            if kind.origin == Origin::Span && kind.class == Class::Write {
                found.spans += count.durations.count;
                found.span_ns += count.durations.sum as u64;
            }
        }
        found.inferred = found.spans == 0;
        let steps = analysis.measured.lanes.values().filter_map(|lane| lane.steps.sum());
        found.exposed_ns = steps.map(|sum| sum.parts[CHECKPOINT]).reduce(|a, b| a + b);
        let paths = trace.catalog.files();
        let candidates = (0u32..).zip(&analysis.counted.files).filter(|(file, count)| {
            let may_be = analysis.counted.may_be_checkpoint(count) && is_stored(&paths[*file as usize]);
            *file > FILE_NONE && count.is_used() && may_be && !is_input(analysis, *file, count)
        });
        for (_, count) in candidates {
            found.files += 1;
            found.bytes_written += count.bytes_written;
            found.time_ns += count.time_ns;
        }
        found
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        let found = &summary.checkpoints;
        if found.spans + found.files == 0 {
            return;
        }
        heading("Checkpoints", out);
        let mut rows = Vec::new();
        if found.inferred {
            rows.push(("spans", "no checkpoint spans: large files are assumed to be checkpoints".to_string()));
        } else {
            rows.push(("spans", format!("{}, {} in total", grouped(found.spans), time(found.span_ns as f64))));
        }
        rows.extend(found.exposed_ns.map(|ns| ("exposed", time(ns as f64))));
        rows.push(("files", format!("{} with 1 MiB or more written", grouped(found.files))));
        rows.push((
            "written",
            format!("{}, {} in calls", bytes(found.bytes_written as f64), time(found.time_ns as f64)),
        ));
        pairs(&rows, out);
    }
}

/// Returns `true` if other processes read what one wrote: a copy of input for readers.
fn is_input(analysis: &Analysis, file: u32, count: &FileCount) -> bool {
    let procs = 0..analysis.counted.processes.len() as u32;
    count.bytes_read > 0 && procs.filter(|proc| analysis.counted.has_moved(*proc, file)).take(2).count() > 1
}
