//! Detects ranks that make many small requests of MPI-IO, each alone, in interleaved parts of a file.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, EVIDENCE_MAX, Judgement};
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::findings::Confidence;
use crate::summary::report::mpi::MpiFileUse;

pub const RULE: Rule = Rule {
    id: "independent-requests",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "ranks make 100 or more independent requests of MPI-IO for a file, of less than 64 KiB on average, and the \
        parts of the file that 2 or more ranks reach are interleaved",
    silences: &[],
    silences_rules: &[],
    remedy: "describe all records of a rank by one file view (MPI_Type_vector, MPI_File_set_view) and move them by one \
        collective request (MPI_File_write_all, MPI_File_read_all): the library then merges those of all ranks; a \
        collective request per record would be slower",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let calls = case.calls(0).limit as u64;
    let (small, ranks) = (case.below("bytes", None).limit, case.at_least("ranks", None).limit);
    let alone = || case.summary.mpi.iter().filter(|row| row.is_independent() && row.requests() >= calls.max(1));
    let is_small = |row: &&MpiFileUse| mean(row) < small && row.interleaved as f64 >= ranks;
    let mut found: Vec<_> = alone().filter(is_small).collect();
    found.sort_by_key(|row| std::cmp::Reverse(row.count.time_ns));
    let most = found.first().copied().or_else(|| alone().max_by_key(|row| row.requests()));
    let ns: f64 = found.iter().map(|row| row.count.below_ns as f64).sum();
    Judgement {
        measures: vec![
            case.calls(most.map_or(0, MpiFileUse::requests)),
            case.below("bytes", most.map(mean)),
            case.at_least("ranks", Some(most.map_or(0.0, |row| row.interleaved as f64))),
        ],
        says: most.map_or(String::new(), |row| {
            format!(
                "{} ranks made {} independent requests of {} on average, interleaved in {}",
                row.interleaved,
                grouped(row.requests()),
                bytes(mean(row)),
                row.file
            )
        }),
        worth: Some(case.shared_out(ns)),
        evidence: found.iter().take(EVIDENCE_MAX).map(|row| evidence(row)).collect(),
        ..Judgement::default()
    }
}

fn mean(row: &MpiFileUse) -> f64 {
    row.bytes() as f64 / row.requests().max(1) as f64
}

fn evidence(row: &MpiFileUse) -> String {
    let below = &row.count;
    format!(
        "{}: {} reads and {} writes of {} ranks take {}, {} of it in {} file calls",
        row.file,
        grouped(below.reads.calls),
        grouped(below.writes.calls),
        grouped(row.processes),
        time(below.time_ns as f64),
        time(below.below_ns as f64),
        grouped(below.reads_below.calls + below.writes_below.calls)
    )
}
