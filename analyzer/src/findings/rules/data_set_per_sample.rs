//! Detects programs that open a data set of HDF5 for every sample.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, EVIDENCE_MAX, Judgement, part};
use crate::summary::figures::units::{grouped, time};
use crate::summary::report::findings::Confidence;
use crate::summary::report::hdf5::DataSetUse;

pub const RULE: Rule = Rule {
    id: "data-set-per-sample",
    group: Group::Metadata,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "data sets of HDF5 are opened 100 times or more, once or more for every two requests to read them, and \
        opening takes 20 % or more of the time in HDF5",
    silences: &[],
    silences_rules: &[],
    remedy: "store all samples in one data set with one row per sample, or open each data set once per worker and keep \
        it open",
    torch: "",
    elsewhere: "store the data in fewer data sets, or open each data set once and keep it open",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let calls = case.calls(0).limit as u64;
    let limit = case.at_least("ratio", None).limit;
    let per_read = |row: &DataSetUse| part(row.count.opens as f64, row.count.reads.calls as f64).unwrap_or(0.0);
    let rows = case.summary.hdf5.iter().filter(|row| row.is_data_set());
    let often: Vec<_> = rows.filter(|row| row.count.opens >= calls.max(1) && per_read(row) >= limit).collect();
    let most = often.iter().copied().max_by_key(|row| row.count.opens);
    let opens = most.map_or(0, |row| row.count.opens);
    let open_ns: f64 = often.iter().map(|row| row.count.open_ns as f64).sum();
    let all_ns: f64 = case.summary.hdf5.iter().map(|row| row.count.time_ns as f64).sum();
    let share = part(open_ns, all_ns).unwrap_or(0.0);
    Judgement {
        measures: vec![
            case.calls(opens),
            case.at_least("ratio", Some(most.map_or(0.0, per_read))),
            case.at_least("time", Some(share)),
        ],
        says: most.map_or(String::new(), |row| {
            format!(
                "data sets {} in {} were opened {} times for {} requests to read them",
                row.data_set,
                row.file,
                grouped(opens),
                grouped(row.count.reads.calls)
            )
        }),
        worth: Some(case.shared_out(open_ns)),
        evidence: often.iter().take(EVIDENCE_MAX).map(|row| evidence(row)).collect(),
        ..Judgement::default()
    }
}

fn evidence(row: &DataSetUse) -> String {
    format!(
        "{} in {}: {} opens take {}, {} requests to read take {}",
        row.data_set,
        row.file,
        grouped(row.count.opens),
        time(row.count.open_ns as f64),
        grouped(row.count.reads.calls),
        time(row.count.read_ns as f64)
    )
}
