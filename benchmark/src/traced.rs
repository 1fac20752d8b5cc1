//! `dlio bench --trace`: the same run again as a child under the tracing library, then the analyzer's summary.
//!
//! The library must be there before the first file is opened, and a library is only preloaded by starting a program.

use crate::bench::Run;
use crate::failure::{Failure, Kind, Outcome};
use crate::locate;
use crate::{system, terminal};
use dlio_schemas::env;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn run(run: &Run, folder: Option<&Path>) -> Outcome<i32> {
    let library = locate::library().ok_or_else(|| {
        Failure::refused(format!("--trace needs {}, which is not beside this program", locate::LIBRARY))
            .remedy("install it, or set DLIO_LIB to where it is")
    })?;
    let trace = folder.map_or_else(|| run.folder.join("trace"), PathBuf::from);
    run.check_disk()?;
    let code = child(run, &library, &trace)?;
    if trace.exists() {
        summarize(&trace);
    }
    terminal::line(format_args!("trace: {}", trace.display()));
    terminal::line(format_args!("  for ui.perfetto.dev: dlio-analyze {} --perfetto all.pftrace", trace.display()));
    Ok(code)
}

fn child(run: &Run, library: &Path, trace: &Path) -> Outcome<i32> {
    let failed = |error| Failure::new(Kind::System, format!("starting the traced run: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(arguments(run));
    // The time in its name would be another one in the child.
    command.arg(format!("++hydra.run.dir='{}'", run.folder.display()));
    command.env("LD_PRELOAD", locate::preload(library)).env(env::DIR, trace);
    if std::env::var_os(env::FORMAT).is_none() {
        // Turning a trace into Perfetto's is half of what tracing costs; nobody needs it inside the run.
        command.env(env::FORMAT, "native");
    }
    system::ends_with_us(&mut command);
    // A run that is stopped keeps what it has, and the summary of that comes afterwards.
    let status = system::run_in_front(&mut command).map_err(failed)?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

/// What was typed, with this run's own value in the place of a sweep.
fn arguments(run: &Run) -> Vec<String> {
    let own: Vec<String> = run.overrides.iter().map(|typed| typed.typed.clone()).collect();
    let typed: Vec<String> = std::env::args().skip(1).filter(|word| word != "--multirun" && word != "-m").collect();
    let is_override = |word: &String| word.contains('=') && !word.starts_with('-');
    let kept: Vec<String> = typed.into_iter().filter(|word| !is_override(word) || own.contains(word)).collect();
    let missing: Vec<String> = own.into_iter().filter(|word| !kept.contains(word)).collect();
    [kept, missing].concat()
}

fn summarize(trace: &Path) {
    let Some(analyzer) = locate::program("dlio-analyze") else {
        terminal::line(format_args!(
            "dlio-analyze is not installed beside this program; `dlio-analyze {} --summary` says more",
            trace.display()
        ));
        return;
    };
    if let Err(error) = system::run_in_front(Command::new(&analyzer).arg(trace).arg("--summary")) {
        terminal::warn(format_args!("dlio: {}: {error}", analyzer.display()));
    }
}
