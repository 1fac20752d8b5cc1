//! Runs `dlio-analyze`, the program next to this one, on a trace.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::system::processes::{self, Outliving, Variables};
use crate::system::{locate, terminal};

/// Returns the path of `dlio-analyze` if it is installed.
pub fn program() -> Option<PathBuf> {
    locate::program("dlio-analyze")
}

/// Makes the analyzer print its summary, write its page, or both. If it cannot, a warning is printed and the run does
/// not fail.
pub fn run(analyzer: &Path, trace: &Path, summary: bool, page: Option<&Path>) {
    let mut command = Command::new(analyzer);
    command.arg(trace).args(summary.then_some("--summary"));
    if let Some(page) = page {
        command.arg("--html").arg(page).arg("--force");
    }
    if let Err(error) = processes::run_in_front(&mut command, &mut Variables::default(), Outliving::Allowed, || ()) {
        terminal::warn(format_args!("dlio: {}: {error}", analyzer.display()));
    }
}
