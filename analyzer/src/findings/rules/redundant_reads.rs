//! Detects bytes that are read repeatedly within an epoch.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::{bytes, grouped};
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::shared::SharedFile;

pub const RULE: Rule = Rule {
    id: "redundant-reads",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "an epoch reads at least 1.5 times the number of distinct bytes; without epochs, the number of \
        times that most of the data was read counts as the number of passes",
    silences: &[],
    silences_rules: &[],
    remedy: "let each rank read its own shard, use one reader per host, a shared cache, or keep data that is read \
        twice in memory",
    torch: "use a sampler that shards (DistributedSampler), one reader per host, a shared cache, or keep data that is \
        read twice in memory",
    elsewhere: "keep data that is read twice in memory, or let one process read it and share it",
    verify: COMPARE,
    judge,
};

/// Change to make if a single rank trains: no other rank reads its files, so it reopens them itself, for example for
/// each of several samples in a file.
const ONE_RANK: &str = "read a file with several samples once for all of them: keep it open or in memory, or use a \
    format that reads single samples (TFRecord, HDF5, MDS)";

/// A file that is read this many times as often as usual is an index or a header that every sample reads again.
const INDEX_TIMES: f64 = 10.0;
const KEEP_INDEX: &str = "read the file that every sample reads (an index, labels, metadata) once per worker, and keep \
    its contents in memory";

fn judge(case: &Case) -> Judgement {
    let what = &case.summary.dataset;
    let unique = case.unique_bytes();
    let all = part(what.bytes_read as f64, unique).unwrap_or(1.0);
    // Without epoch numbers, repeated reads may belong to another epoch, but not reads beyond those of most data.
    let exceeds = |ratio: f64| case.at_least("ratio", Some(ratio)).holds() == Some(true);
    let passes = what.usual_reads.unwrap_or(1.0).max(1.0);
    let ratio = match case.epochs() {
        0 if exceeds(all) && !exceeds(all / passes) => None,
        0 => Some(all / passes),
        epochs => Some(all / epochs as f64),
    };
    let again = what.bytes_read as f64 - passes * unique;
    let processes = |path: &str| {
        let shared = case.summary.shared.iter().find(|file| file.path == path);
        shared.map_or(1, |file| file.processes).max(1) as f64
    };
    let index = case.summary.files.iter().find(|file| {
        let opens = file.use_.opens as f64 / processes(&file.path) / case.epochs().max(1) as f64;
        opens >= INDEX_TIMES * passes && again > 0.0 && 2.0 * file.use_.bytes_read as f64 >= again
    });
    let time_ns = case.moved("read", 1, u64::MAX).time_ns * (1.0 - 1.0 / ratio.unwrap_or(1.0).max(1.0));
    // Files that are read repeatedly may come from memory, and take less time than the others.
    let time_ns = if what.bytes_reread > 0 { time_ns.min(what.reread_ns as f64) } else { time_ns };
    Judgement {
        measures: vec![case.at_least("ratio", ratio)],
        says: match index {
            Some(file) => format!(
                "{} was opened {} times: {} of {} read come from it",
                file.path,
                grouped(file.use_.opens),
                bytes(file.use_.bytes_read as f64),
                bytes(what.bytes_read as f64)
            ),
            None => format!(
                "{} were read of at most {} distinct, {} times in each epoch",
                bytes(what.bytes_read as f64),
                bytes(unique),
                Unit::Ratio.text(ratio.unwrap_or(all))
            ),
        },
        worth: Some(case.shared_out(time_ns)),
        evidence: case.summary.shared.iter().map(row).collect(),
        remedy: match index {
            Some(_) => Some(KEEP_INDEX),
            None => (case.summary.training.len() == 1).then_some(ONE_RANK),
        },
        decide: "bytes were read again, maybe in the next epoch: record spans that number epochs",
        ..Judgement::default()
    }
}

fn row(file: &SharedFile) -> String {
    let (processes, read) = (grouped(file.processes), bytes(file.use_.bytes_read as f64));
    format!("{}: {processes} processes read {read}", file.path)
}
