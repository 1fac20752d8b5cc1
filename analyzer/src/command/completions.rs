//! `--completions SHELL` and `--man DIR`: completion scripts and manual pages.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;

use super::arguments::Arguments;
use super::refusals::failure::Failure;

/// Prints completions. They are generated in memory first, because the generator panics when a write fails.
pub fn print_completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "dlio-analyze", &mut script);
    let mut out = crate::terminal::stdout();
    out.write_all(&script).and_then(|()| out.flush()).map_err(Failure::Write)
}

/// Writes the manual page, which has the content of `--help`.
pub fn write_manual(folder: &Path) -> Result<(), Failure> {
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    written.map_err(|error| Failure::unwritable(folder, error))
}
