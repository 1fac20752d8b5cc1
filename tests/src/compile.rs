//! Compiles small C programs.

use std::path::Path;
use std::process::Command;

use crate::home;

/// Compiles a program with the common options, which prevent the compiler from replacing calls.
pub fn compile(source: &Path, into: &Path, flags: &[&str]) -> Result<(), String> {
    let common = ["-O1", "-g", "-w", "-D_GNU_SOURCE", "-pthread", "-fno-builtin", "-I"];
    let mut command = Command::new("cc");
    command
        .args(common)
        .arg(home().join("libraries"))
        .arg("-o")
        .arg(into)
        .arg(source)
        .args(flags)
        .args(["-ldl", "-lrt"]);
    let output = command.output().map_err(|error| format!("cc: {error}; a C compiler is needed"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&output.stderr))),
    }
}
