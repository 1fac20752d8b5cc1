//! The report as plain values, by section: `--format json` writes them, text and CSV print them.
//!
//! A section is one file here and one line in the list below: its values, how they are computed from an [`Analysis`],
//! how they are printed, what they mean, and the SQL that computes the same numbers. [`screen`], [`text`] and [`flat`]
//! print all sections, [`brief`] the most important values; [`layout`] and [`folders`] are helpers for printing.
//!
//! Times are in nanoseconds, sizes in bytes, shares are fractions of one. Raise [`VERSION`] when the meaning of a field
//! changes or a field is removed; new fields do not need a new version.

pub mod access;
pub mod allocation;
pub mod brief;
mod causes;
pub mod checkpoints;
pub mod commands;
pub mod communication;
pub mod confidence;
pub mod counted;
pub mod damage;
pub mod dataset;
pub mod directories;
pub mod duplicate_files;
pub mod epochs;
pub mod failures;
pub mod files;
pub mod findings;
mod first_step;
pub mod flat;
pub mod folders;
pub mod functions;
mod gpu;
pub mod gpu_course;
pub mod hdf5;
pub mod headline;
pub mod heat;
pub mod host_course;
pub mod hosts;
pub mod jobs;
pub mod latency;
pub mod layout;
pub mod locked;
pub mod machine;
mod main_programs;
pub mod markdown;
pub mod metadata;
pub mod mpi;
pub mod named_pipe;
pub mod next_step;
pub mod no_cpu;
pub mod non_file_calls;
pub mod own_loop;
mod own_reads;
pub mod patterns;
pub mod processes;
pub mod ranks;
pub mod reader_writes;
pub mod recorder;
pub mod runs;
pub mod sampled;
pub mod screen;
pub mod shared;
pub mod sizes;
pub mod spans;
pub mod steps;
pub mod storage;
mod subject;
mod targets;
pub mod text;
pub mod time;
mod time_rows;
pub mod timeline;
pub mod training;
pub mod verdict;
mod wait_enders;
pub mod wait_pieces;
pub mod waits;
pub mod what_if;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::analysis::Analysis;
use super::count::kinds::OBJECT;
use super::figures::quantiles::sql_columns;
use super::training::pools;
use crate::load::Trace;

pub const VERSION: u32 = 2;

/// The default number of rows per table.
pub const ROWS: usize = 15;

/// A section of the report.
pub trait Section {
    /// The values in JSON.
    type Values;

    /// The meaning of its numbers, for `--explain`.
    const MEANING: &'static str;

    /// The fields of its values, for SUMMARY.md.
    const FIELDS: &'static str;

    /// The query that computes the same numbers, with columns named like the fields; `None` if the tables lack the
    /// data.
    const SQL: Option<&'static str> = None;

    /// The default number of rows per table if the section is requested.
    const ROWS: usize = ROWS;

    /// `true` if it is printed before all numbers, even if there are none.
    const FIRST: bool = false;

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values;

    /// Prints the section as text, with the first `top` rows of long tables.
    fn print(summary: &Summary, top: usize, out: &mut String);

    /// Prints the section with prose in lines of at most `width` characters; the width of tables does not change.
    fn print_within(summary: &Summary, top: usize, _width: usize, out: &mut String) {
        Self::print(summary, top, out);
    }

    /// Prints the section as a part of the whole report, which `--full` prints.
    fn print_in_full(summary: &Summary, top: usize, width: usize, out: &mut String) {
        Self::print_within(summary, top, width, out);
    }
}

/// The description of a section, independent of a trace.
pub struct About {
    pub name: &'static str,
    pub meaning: &'static str,
    pub fields: &'static str,
    /// The query that computes its numbers, if there is one, in short form; [`About::query`] expands it.
    pub sql: Option<&'static str>,
}

impl About {
    /// Returns the query that computes its numbers.
    pub fn query(&self) -> Option<String> {
        self.sql.map(with_quantiles)
    }
}

/// Expands `quantiles(COLUMN) as NAME` in a query to one column per quantile.
fn with_quantiles(query: &str) -> String {
    let spelled = |line: &str| {
        let named = line.strip_prefix("  quantiles(").and_then(|rest| rest.split_once(") as "));
        let Some((column, name)) = named else { return line.to_string() };
        let (name, comma) = name.strip_suffix(',').map_or((name, ""), |name| (name, ","));
        format!("  {}{comma}", sql_columns(column, name).join(",\n  "))
    };
    query.lines().map(|line| spelled(line) + "\n").collect()
}

macro_rules! report {
    ($($(#[$attribute:meta])* $name:ident: $section:ty,)*) => {
        #[derive(Serialize, Deserialize, Debug)]
        pub struct Summary {
            /// `dlio-summary`.
            pub schema: Cow<'static, str>,
            pub version: u32,
            /// The verdict box.
            #[serde(default)]
            pub headline: headline::Headline,
            pub verdict: Vec<String>,
            $($(#[$attribute])* pub $name: <$section as Section>::Values,)*
        }

        /// All sections, in order.
        pub const SECTIONS: &[About] = &[$(About {
            name: stringify!($name),
            meaning: <$section>::MEANING,
            fields: <$section>::FIELDS,
            sql: <$section>::SQL,
        },)*];

        impl Summary {
            fn new(analysis: &Analysis, trace: &Trace) -> Summary {
                Summary {
                    schema: "dlio-summary".into(),
                    version: VERSION,
                    headline: headline::Headline::default(),
                    verdict: Vec::new(),
                    $($name: <$section>::values(analysis, trace),)*
                }
            }

            /// Prints the section of this name, with prose in lines of this width.
            pub fn print_section(&self, name: &str, (top, width): (Option<usize>, usize), out: &mut String) {
                $(if stringify!($name) == name {
                    <$section>::print_within(self, top.unwrap_or(<$section>::ROWS), width, out);
                })*
            }

            /// Prints the sections that precede all numbers, or all other sections.
            pub fn print_sections(&self, first: bool, (top, width): (usize, usize), out: &mut String) {
                $(if <$section>::FIRST == first {
                    <$section>::print_in_full(self, top, width, out);
                })*
            }
        }
    };
}

report! {
    #[serde(default)]
    findings: findings::Findings,
    #[serde(default)]
    runs: runs::Runs,
    #[serde(default)]
    training: training::Training,
    #[serde(default)]
    waits: waits::Waits,
    #[serde(default)]
    what_if: what_if::WhatIf,
    #[serde(default)]
    steps: steps::Steps,
    #[serde(default)]
    jobs: jobs::Jobs,
    #[serde(default)]
    epochs: epochs::Epochs,
    allocation: allocation::Allocation,
    dataset: dataset::Dataset,
    time: time::Time,
    #[serde(default)]
    timeline: timeline::Timeline,
    #[serde(default)]
    heat: heat::HeatMap,
    functions: functions::Functions,
    #[serde(default)]
    past_files: non_file_calls::PastFiles,
    spans: spans::Spans,
    #[serde(default)]
    access: access::AccessPatterns,
    #[serde(default)]
    sizes: sizes::Sizes,
    #[serde(default)]
    latency: latency::Latency,
    #[serde(default)]
    metadata: metadata::Metadata,
    #[serde(default)]
    failures: failures::Failures,
    #[serde(default)]
    checkpoints: checkpoints::Checkpoints,
    #[serde(default)]
    storage: storage::Storage,
    #[serde(default)]
    hdf5: hdf5::Hdf5,
    #[serde(default)]
    mpi: mpi::MpiFiles,
    directories: directories::Directories,
    #[serde(default)]
    patterns: patterns::Patterns,
    files: files::Files,
    #[serde(default)]
    shared: shared::SharedFiles,
    processes: processes::Processes,
    ranks: ranks::Ranks,
    #[serde(default)]
    communication: communication::Communication,
    hosts: hosts::Hosts,
    #[serde(default)]
    machine: machine::Machine,
    damage: damage::Damages,
    #[serde(default)]
    passed_over: duplicate_files::PassedOvers,
    tally: counted::CountedInstead,
    #[serde(default)]
    recorder: recorder::Recorder,
}

impl Analysis {
    /// Builds the report: its sections and their interpretation.
    pub fn summary(&self, trace: &Trace) -> Summary {
        let mut summary = Summary::new(self, trace);
        processes::assign_roles(&mut summary);
        (summary.verdict, summary.headline) = headline::conclude(&summary, &pools(&trace.catalog, self));
        summary.headline.command = commands::traced_command(&summary, &trace.catalog.processes());
        recorder::qualify(&mut summary);
        summary
    }
}

impl Summary {
    /// Returns the number of recorded calls of any kind.
    pub fn calls(&self) -> u64 {
        self.functions.iter().chain(&self.past_files).map(|function| function.count).sum()
    }

    /// Returns the values by section.
    pub fn values(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(values)) => values,
            _ => Map::new(),
        }
    }

    /// Returns `true` if calls or requests to object stores were recorded; otherwise I/O is unknown.
    pub fn knows_calls(&self) -> bool {
        self.calls() > 0 || self.spans.iter().any(|span| span.cat == OBJECT)
    }

    /// Returns `false` if no call has a duration, so that all times are unknown.
    pub fn knows_times(&self) -> bool {
        let mut calls = self.functions.iter().chain(&self.past_files).peekable();
        calls.peek().is_none() || calls.any(|function| function.time_ns > 0)
    }

    /// Returns `true` if every quantile is exact.
    pub fn is_exact(&self) -> bool {
        let functions = self.functions.iter().chain(&self.past_files).chain(&self.spans);
        functions.flat_map(|function| [Some(function.duration_ns), function.size]).flatten().all(|spread| spread.exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_md_lists_every_section_as_it_is() {
        let written = include_str!("../../../SUMMARY.md");
        for section in SECTIONS {
            let row = format!("| `{}` | {} |", section.name, section.fields);
            assert!(written.lines().any(|line| line == row), "SUMMARY.md lacks the row\n{row}");
        }
    }
}
