//! The program as users run it.

// Not every test runs it.
#![allow(dead_code)]

use std::process::{Child, Command, Output, Stdio};

pub fn analyze(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dlio-analyze")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// The program while it runs.
pub fn begun(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn printed(arguments: &[&str]) -> String {
    let output = analyze(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}
