//! `dlio bench size`: prints how much data MLPerf Storage's rules require, or the bytes that each process writes of a
//! checkpoint.

use crate::check::edition::{GIB, STEPS_MIN, TIMES_MEMORY};
use crate::checkpoint::Shards;
use crate::config::Config;
use crate::failure::Outcome;
use crate::system::{host, terminal};
use crate::workload::rules;
use serde_json::{Value, json};
use std::fmt::Write;

/// Many file systems are slow if a directory contains more files than this.
const FILES_IN_A_FOLDER: u64 = 10_000;

/// The hosts and accelerators for which to size a data set or a checkpoint.
pub struct SizeRequest {
    pub accelerators: u64,
    pub hosts: u64,
    /// Memory of each host; the default is the memory of this host.
    pub memory_gibibytes: Option<f64>,
}

/// Parses an option with a number of GiB.
pub fn gibibytes(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches("GiB").trim().parse::<f64>().ok();
    number
        .filter(|number| number.is_finite() && *number > 0.0)
        .ok_or_else(|| "expected a number of GiB, such as 64".into())
}

/// Prints the number of files that a training run needs, or the bytes that each process writes of a checkpoint.
pub fn size(config: &Config, asked: &SizeRequest, as_json: bool) -> Outcome<()> {
    let (json, text) = if config.workflow.train || config.workflow.generate {
        data_size(config, asked)
    } else {
        // A run with that many accelerators would reject the same checkpoints.
        rules::possible_checkpoints(config, asked.accelerators)?;
        checkpoint_size(config, asked.accelerators)
    };
    terminal::answer(&if as_json { serde_json::to_string_pretty(&json).unwrap_or_default() + "\n" } else { text })
}

fn data_size(config: &Config, asked: &SizeRequest) -> (Value, String) {
    let Config { dataset, reader, .. } = config;
    let memory = asked.memory_gibibytes.unwrap_or_else(host::memory_gibibytes) * asked.hosts as f64;
    let file = dataset.samples_per_file as f64 * dataset.record_bytes;
    let by_memory = (TIMES_MEMORY * memory * GIB / file.max(1.0)).ceil() as u64;
    let by_steps = (STEPS_MIN * reader.batch * asked.accelerators).div_ceil(dataset.samples_per_file.max(1));
    let files = by_memory.max(by_steps);
    let folders = if files > FILES_IN_A_FOLDER { files.div_ceil(FILES_IN_A_FOLDER) } else { 0 };
    let gibibytes = files as f64 * file / GIB;
    let reason = if by_memory > by_steps {
        format!("{TIMES_MEMORY} times the {memory:.1} GiB of memory of {}", many(asked.hosts, "host"))
    } else {
        let accelerators = many(asked.accelerators, "accelerator");
        format!("{STEPS_MIN} steps of {accelerators} with a batch size of {}", reader.batch)
    };
    let json = json!({
        "files": files, "subfolders": folders, "gibibytes": gibibytes,
        "files_by_memory": by_memory, "files_by_steps": by_steps,
    });
    let subfolders =
        if folders > 0 { format!(" ++workload.dataset.num_subfolders_train={folders}") } else { String::new() };
    let text = format!(
        "{} files, {gibibytes:.1} GiB: {reason}\n  ++workload.dataset.num_files_train={files}{subfolders}\n",
        grouped(files)
    );
    (json, text)
}

/// Formats a number with its noun.
fn many(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Formats a number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1000), number % 1000),
    }
}

/// Number of ranks that are listed individually. Each of the other ranks writes as much as one of these.
const RANKS_SHOWN: usize = 16;

fn checkpoint_size(config: &Config, ranks: u64) -> (Value, String) {
    let shards = Shards { model: &config.model, checkpoints: &config.checkpoint, framework: config.framework, ranks };
    let of = |rank: u64| {
        let files = shards.of(rank);
        (files.len() as u64, files.iter().map(|shard| shard.bytes()).sum::<u64>())
    };
    let all: Vec<(u64, u64)> = (0..ranks).map(of).collect();
    let total: u64 = all.iter().map(|(_, bytes)| bytes).sum();
    let files: u64 = all.iter().map(|(files, _)| files).sum();
    let json = json!({
        "parameters": shards.parameters(), "files": files, "bytes": total,
        "ranks": all.iter().map(|(files, bytes)| json!({"files": files, "bytes": bytes})).collect::<Vec<_>>(),
    });
    let mut text = format!(
        "{} parameters, {files} files, {:.1} GiB, written by {ranks} process{}\n",
        shards.parameters(),
        total as f64 / GIB,
        if ranks == 1 { "" } else { "es" }
    );
    for (rank, (files, bytes)) in all.iter().enumerate().take(RANKS_SHOWN) {
        let _ = writeln!(text, "  rank {rank}: {files} files, {:.3} GiB", *bytes as f64 / GIB);
    }
    if all.len() > RANKS_SHOWN {
        let largest = all.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let _ = writeln!(text, "  ... (--json lists all); no rank writes more than {:.3} GiB", largest as f64 / GIB);
    }
    (json, text)
}
