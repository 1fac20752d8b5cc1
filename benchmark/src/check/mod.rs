//! `dlio check mlperf`: compares a directory of results with the published MLPerf Storage rules.
//!
//! ```text
//! value      numbers and times of result files, which may be missing or impossible
//! edition    versions of the rules: models, limits, keys that a submission may change
//! finding    a rule, and what it found
//! run        the files of one run
//! results    the runs below a directory, by workload
//! rules      one file per area of the rules
//! verdict    all findings, and whether a submission would be accepted
//! report     the verdict as text, Markdown and JSON
//! ```
//!
//! A file that is missing or damaged is a finding, not an error. If the files do not show whether a rule is kept, it is unknown.

pub mod edition;
pub mod finding;
pub mod report;
pub mod results;
pub mod rules;
pub mod run;
pub mod value;
pub mod verdict;
