//! `--completions SHELL` and `--man DIR`: what a shell and `man` need to know of the command.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;

use super::arguments::Arguments;
use super::refusals::failure::Failure;

/// Prints what a shell needs. Made in memory first: the generator takes every write for granted.
pub fn print_completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "dlio-analyze", &mut script);
    let mut out = crate::terminal::stdout();
    out.write_all(&script).and_then(|()| out.flush()).map_err(Failure::Write)
}

/// Writes the manual page: `--help` for `man`.
pub fn write_manual(folder: &Path) -> Result<(), Failure> {
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    written.map_err(|error| Failure::unwritable(folder, error))
}
