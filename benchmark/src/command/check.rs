//! `dlio check mlperf DIR`: checks results against MLPerf Storage's rules. `dlio bench check` is its former name.

use super::size::gibibytes;
use crate::check::edition::{Division, Version};
use crate::check::report;
use crate::check::verdict::{self, Request};
use crate::failure::Outcome;
use crate::system::terminal;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum What {
    /// Check results against the MLPerf Storage rules: sizes, runs, utilization, changed keys, files
    Mlperf(Options),
}

#[derive(Args)]
#[command(after_help = "Examples:
  dlio check mlperf hydra_log/unet3d/2026-11-21-00-08-48
  dlio check mlperf results --all                  also rules that pass or are unknown
  dlio check mlperf submission --version v3 --division open
  dlio check mlperf results --format markdown > check.md

DIR is a submission (with `closed` or `open`), results of mlpstorage, or runs of
`dlio bench`. A rule is unknown if the files cannot decide it. Rules without a
number are checked by mlpstorage only. MLCommons decides what it accepts.

Exit status:
  0  no rule fails
  1  a rule fails
  2  DIR cannot be read or has no results; wrong option")]
pub struct Options {
    /// Directory with results
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Version of the rules [default: that of the results, or v3]
    #[arg(long, value_enum)]
    version: Option<VersionName>,
    /// Division to check for [default: that of the results, or closed]
    #[arg(long, value_enum)]
    division: Option<DivisionName>,
    /// Memory of each host in GiB, instead of that in the results
    #[arg(long, value_name = "GIB", value_parser = gibibytes)]
    memory: Option<f64>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Explain also rules that pass, are unknown or do not apply (JSON and Markdown always contain them)
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long, hide = true)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum VersionName {
    V2,
    V3,
}

#[derive(Clone, Copy, ValueEnum)]
enum DivisionName {
    Closed,
    Open,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
}

/// Prints which rules pass and fail. The exit status is 0 if none fails.
pub fn mlperf(options: &Options) -> Outcome<i32> {
    let checked = verdict::check(&Request {
        folder: options.folder.clone(),
        version: options.version.map(|name| match name {
            VersionName::V2 => Version::V2,
            VersionName::V3 => Version::V3,
        }),
        division: options.division.map(|name| match name {
            DivisionName::Closed => Division::Closed,
            DivisionName::Open => Division::Open,
        }),
        memory: options.memory,
    })?;
    terminal::answer(&match options.format {
        Format::Json => report::json(&checked),
        _ if options.json => report::json(&checked),
        Format::Markdown => report::markdown(&checked),
        Format::Text => report::text(&checked, options.all),
    })?;
    Ok(i32::from(checked.counts().fail > 0))
}
