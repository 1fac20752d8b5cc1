//! Errors about runs that cannot be compared, or not as requested.

use std::path::PathBuf;

use crate::tables::output::Format;

/// The reason why `--compare`, `--fail-if` or `--similarity` has no result.
#[derive(Debug)]
pub enum Incomparable {
    /// Comparisons, and limits alone, do not support this format.
    Format(Format),
    /// Similarities do not support this format.
    SimilarityFormat(Format),
    /// A similarity needs one run per side.
    TwoRuns,
    /// A page shows one run or two sides, but limits were set for more runs.
    PageOfSeveral(usize),
    /// The file is neither a trace nor a report.
    Report(PathBuf, String),
    /// A limit on a change needs a run to change from.
    OneSide(String),
}

impl Incomparable {
    /// Returns `true` if the command line is wrong, whatever the runs contain.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Incomparable::Report(..))
    }
}

impl std::fmt::Display for Incomparable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Incomparable::Format(format) => {
                write!(
                    f,
                    "cannot write a comparison as {format:?}; use text, json or markdown (limits only: text or json)"
                )
            }
            Incomparable::SimilarityFormat(format) => {
                write!(f, "cannot write a similarity as {format:?}; use text or json")
            }
            Incomparable::TwoRuns => {
                write!(f, "--similarity compares two runs; pass one trace, and one to --compare")
            }
            Incomparable::PageOfSeveral(runs) => write!(
                f,
                "{runs} runs are checked against limits, but --html makes a page of one run or of two sides: pass one \
                 run, or --compare"
            ),
            Incomparable::Report(path, why) => write!(
                f,
                "cannot compare {}: {why}; pass a trace, or a report written with --format json",
                path.display()
            ),
            Incomparable::OneSide(limit) => write!(f, "{limit:?} limits a change; pass the baseline with --compare"),
        }
    }
}
