//! `dlio bench --trace`: runs the same command again as a child under the tracing library, then the analyzer's summary
//! and page.
//!
//! The library must be loaded before the first file is opened, and preloading it requires starting a program.

use crate::bench::Run;
use crate::command::{analyzer, output_places, trace};
use crate::failure::{Failure, Kind, Outcome};
use crate::ranks::agreement;
use crate::ranks::communicator::{Communicator, Single};
use crate::results::run_folder::RunFolder;
use crate::results::summary;
use crate::system::processes::{self, Outliving, Variables};
use crate::system::{locate, terminal};
use dlio_schemas::env;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Runs the traced child. If a launcher started the ranks, each runs its own part again; `ranks` are the other ranks.
pub fn run(run: &mut Run, folder: Option<&Path>, ranks: Option<&mut dyn Communicator>) -> Outcome<i32> {
    let library = locate::library().ok_or_else(|| {
        Failure::refused(format!("--trace: cannot find {} next to this program", locate::LIBRARY))
            .remedy("install it, or set DLIO_LIB to its path")
    })?;
    let launched = ranks.is_some();
    let mut alone = Single;
    let ranks = ranks.unwrap_or(&mut alone);
    let first = ranks.rank() == 0;
    let usable = |folder: &Path| output_places::trace_folder(folder, trace::inherited_umask(), "--trace=DIR").map(drop);
    let reserved = first.then(|| {
        run.check_disk(launched)?;
        folder.map_or(Ok(()), usable)?;
        run.reserve_folder()?;
        RunFolder::create(run.folder.clone()).map(drop)
    });
    let own = reserved.map(|reserved| reserved.map(|()| run.folder.display().to_string()));
    run.folder = PathBuf::from(agreement::broadcast(ranks, own)?);
    let trace = folder.map_or_else(|| run.folder.join("trace"), PathBuf::from);
    let status = child(run, &library, &trace)?;
    if let Some(signal) = status.signal().filter(|_| first) {
        note_killed(&run.folder, signal);
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ranks.barrier()?;
    if first && trace.exists() {
        summarize(&trace, &run.folder.join(PAGE));
        terminal::line(format_args!("trace: {}", trace.display()));
        terminal::line(format_args!("  on a timeline: dlio-analyze {} --view", trace.display()));
    }
    Ok(code)
}

fn child(run: &Run, library: &Path, trace: &Path) -> Outcome<ExitStatus> {
    let failed = |error| Failure::new(Kind::System, format!("cannot start the traced run: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    // The name this program was called by decides how its arguments are parsed.
    command.args(arguments(run));
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    // The child would put a different time into the name.
    command.arg(format!("++hydra.run.dir='{}'", run.folder.display()));
    let mut variables = Variables::default();
    let preload = locate::preload(library)?;
    variables.set("LD_PRELOAD", &preload.value);
    variables.set(env::DIR, trace);
    if std::env::var_os(env::FORMAT).is_none() {
        // Converting a trace to Perfetto's format is half of the cost of tracing, and the run does not need it.
        variables.set(env::FORMAT, "native");
    }
    // An interrupted run keeps its partial results, and is summarized afterwards.
    Ok(processes::run_in_front(&mut command, &mut variables, Outliving::Prevented, || ()).map_err(failed)?.1)
}

/// Reports that a run was killed, which it could not do itself, and notes it in its summary.
fn note_killed(folder: &Path, signal: i32) {
    let reason = format!("rank 0 was killed by signal {signal}");
    terminal::warn(format_args!("dlio: {reason}"));
    let Ok(mut summary) = summary::summary_in(folder) else { return };
    if summary["status"] != "running" {
        return;
    }
    (summary["status"], summary["error"]) = ("failed".into(), reason.into());
    // If this cannot be written, the status remains "running", as after any kill.
    let _ = RunFolder { path: folder.into() }.write_json("summary.json", &summary);
}

/// Returns the overrides as given, with this run's value instead of a sweep's list.
fn arguments(run: &Run) -> Vec<String> {
    let own: Vec<String> = run.overrides.iter().map(|typed| typed.typed.clone()).collect();
    let typed: Vec<String> = std::env::args().skip(1).filter(|word| word != "--multirun" && word != "-m").collect();
    let is_override = |word: &String| word.contains('=') && !word.starts_with('-');
    let kept: Vec<String> = typed.into_iter().filter(|word| !is_override(word) || own.contains(word)).collect();
    let missing: Vec<String> = own.into_iter().filter(|word| !kept.contains(word)).collect();
    [kept, missing].concat()
}

/// The report page in the run directory.
const PAGE: &str = "report.html";

fn summarize(trace: &Path, page: &Path) {
    let Some(analyzer) = analyzer::program() else {
        terminal::line(format_args!(
            "cannot find dlio-analyze next to this program; `dlio-analyze {} --summary` prints the report",
            trace.display()
        ));
        return;
    };
    analyzer::run(&analyzer, trace, true, Some(page));
}
