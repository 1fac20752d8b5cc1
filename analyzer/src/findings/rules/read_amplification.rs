//! Detects data sets of HDF5 from which the library reads much more than the program requests.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, EVIDENCE_MAX, Judgement, part};
use crate::summary::figures::units::{bytes, grouped};
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::hdf5::DataSetUse;

pub const RULE: Rule = Rule {
    id: "read-amplification",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "the HDF5 library reads at least 3 times the bytes that the program requests from a data set, in 100 or more \
        requests",
    silences: &[],
    silences_rules: &[],
    remedy: "request whole chunks, write the data set with chunks of the shape that is read (one sample per chunk), or \
        enlarge the chunk cache until it holds the chunks in use (rdcc_nbytes in h5py.File, H5Pset_chunk_cache)",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Change to make if the data set has no chunks.
const CONTIGUOUS: &str = "request neighboring elements together, or use a smaller sieve buffer (H5Pset_sieve_buf_size)";

fn judge(case: &Case) -> Judgement {
    let calls = case.calls(0).limit as u64;
    let limit = case.at_least("ratio", None).limit;
    let is_amplified = |row: &&DataSetUse| {
        row.count.reads.calls >= calls.max(1) && row.amplification().is_some_and(|ratio| ratio >= limit)
    };
    let requested = |row: &&DataSetUse| row.is_data_set() && row.count.reads.calls >= calls.max(1);
    let mut rows: Vec<_> = case.summary.hdf5.iter().filter(requested).collect();
    rows.sort_by(|a, b| extra(b).total_cmp(&extra(a)));
    let amplified: Vec<_> = rows.iter().copied().filter(is_amplified).collect();
    let most = amplified.first().or(rows.first()).copied();
    let ratio = most.and_then(DataSetUse::amplification).unwrap_or(0.0);
    let all = case.moved("read", 0, u64::MAX);
    let share = part(amplified.iter().copied().map(extra).sum(), all.bytes).unwrap_or(0.0).min(1.0);
    let is_chunked = most.is_none_or(|row| row.count.chunk_bytes > 0);
    Judgement {
        measures: vec![case.calls(most.map_or(0, |row| row.count.reads.calls)), case.at_least("ratio", Some(ratio))],
        says: most.map_or(String::new(), |row| {
            format!(
                "{} were requested of {} in {}, and HDF5 read {}, {} times as much",
                bytes(row.count.reads.bytes as f64),
                row.data_set,
                row.file,
                bytes(row.count.reads_below.bytes as f64),
                Unit::Ratio.text(ratio)
            )
        }),
        worth: Some(case.shared_out(all.time_ns * share)),
        evidence: amplified.iter().take(EVIDENCE_MAX).map(|row| evidence(row)).collect(),
        remedy: (!is_chunked).then_some(CONTIGUOUS),
        ..Judgement::default()
    }
}

/// Returns the bytes that were read and not requested.
fn extra(row: &DataSetUse) -> f64 {
    row.count.reads_below.bytes.saturating_sub(row.count.reads.bytes) as f64
}

fn evidence(row: &DataSetUse) -> String {
    let count = &row.count;
    let layout = match (count.chunk.as_str(), count.filters.as_str()) {
        ("", _) => "no chunks".to_string(),
        (chunk, "") => format!("chunks of {chunk} ({})", bytes(count.chunk_bytes as f64)),
        (chunk, filters) => format!("chunks of {chunk} ({}), {filters}", bytes(count.chunk_bytes as f64)),
    };
    let mean = count.reads.bytes as f64 / count.reads.calls.max(1) as f64;
    format!(
        "{} in {}: {} requests of {} on average, {} reads below, {layout}",
        row.data_set,
        row.file,
        grouped(count.reads.calls),
        bytes(mean),
        grouped(count.reads_below.calls)
    )
}
