//! `dlio trace -- COMMAND`: any program under the tracing library, and what to type next.
//!
//! The command's output, its exit status and its signals are its own. Nothing of the trace is read here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use dlio_schemas::env;
use dlio_schemas::ops::{Layer, OPS};

use crate::failure::{Failure, Kind, Outcome};
use crate::{locate, system, terminal};

#[derive(Args)]
#[command(after_help = "Examples:
  dlio trace -- python3 train.py
  dlio trace -o /scratch/trace --include '/data/**' -- ./solver input.nml
  dlio trace --format native -- mpirun -n 4 ./app          one file a process, whatever their number
  dlio trace --mode summary -- ./runs_for_days             counts in constant memory, no events

Exit codes: the command's own; 128+n if signal n ended it; 127 if there is no such command, 126 if it cannot be
executed; 2 or 4 if the trace folder or the library cannot be used (nothing was started then)")]
pub struct Options {
    /// Folder for the trace; made if need be
    #[arg(short, long, value_name = "DIR", default_value = "dlio-trace")]
    output: PathBuf,
    /// What each process leaves: auto is a .pftrace up to a million events and a .dlt above
    #[arg(long, value_name = "FORMAT", value_parser = ["auto", "native", "perfetto", "chrome"])]
    format: Option<String>,
    /// full records every event; summary keeps counts by file and function in constant memory
    #[arg(long, value_name = "MODE", value_parser = ["full", "summary"])]
    mode: Option<String>,
    /// Record until a process's trace has this size, then count as `--mode summary` does
    #[arg(long, value_name = "MEGABYTES")]
    max_mb: Option<u64>,
    /// Record only files that match; may be repeated
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Leave out files that match; may be repeated
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Record also /proc, /sys, /dev, shared libraries, interpreter and package files
    #[arg(long)]
    all: bool,
    /// Say nothing afterwards
    #[arg(short, long)]
    quiet: bool,
    /// List the environment variables of a traced program
    #[arg(long)]
    help_env: bool,
    /// List what is recorded, and what cannot be
    #[arg(long)]
    list: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command; the exit code is its own.
pub fn run(options: &Options) -> Outcome<i32> {
    if options.help_env {
        return terminal::answer(&variables()).map(|()| 0);
    }
    if options.list {
        return terminal::answer(&operations()).map(|()| 0);
    }
    let Some((program, arguments)) = options.command.split_first() else {
        return Err(Failure::refused("no command to trace").remedy("dlio trace -- COMMAND ..."));
    };
    let library = locate::library().ok_or_else(missing_library)?;
    let folder = usable_folder(&options.output)?;
    let before = images(&folder);
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", locate::preload(&library)).env(env::DIR, &folder);
    options.pass_on(&mut command);
    let code = match system::run_in_front(&mut command) {
        Ok(status) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        Err(error) => return Ok(not_started(program, &error)),
    };
    dlio_tracer::spool::bring_home(&folder);
    if !options.quiet {
        report(&folder, &before);
    }
    Ok(code)
}

impl Options {
    /// Options become the variables they stand for.
    fn pass_on(&self, command: &mut Command) {
        let max_mb = self.max_mb.map(|megabytes| megabytes.to_string());
        for (name, value) in [(env::FORMAT, &self.format), (env::MODE, &self.mode), (env::MAX_MB, &max_mb)] {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        for (name, globs) in [(env::INCLUDE, &self.include), (env::EXCLUDE, &self.exclude)] {
            if !globs.is_empty() {
                command.env(name, globs.join(":"));
            }
        }
        if self.all {
            command.env(env::ALL, "1");
        }
    }
}

fn missing_library() -> Failure {
    Failure::refused(format!("{} is neither beside this program nor in ../lib", locate::LIBRARY))
        .remedy("set DLIO_LIB to the file or its folder")
}

/// Made, absolute, and proved by a file: better before a run of hours than after it.
fn usable_folder(folder: &Path) -> Outcome<PathBuf> {
    let cannot = |error| {
        Failure::new(Kind::System, format!("cannot write to the trace folder {}: {error}", folder.display()))
            .remedy("name another one with -o DIR")
    };
    fs::create_dir_all(folder).map_err(cannot)?;
    let probe = folder.join(format!(".dlio-{}", std::process::id()));
    fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe)).map_err(cannot)?;
    folder.canonicalize().map_err(cannot)
}

/// As a shell says it.
fn not_started(program: &OsString, error: &std::io::Error) -> i32 {
    terminal::warn(format_args!("dlio: {}: {error}", program.to_string_lossy()));
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}

/// Files of each process image in the folder, by the stem of their names.
type Images = BTreeMap<String, Vec<PathBuf>>;

fn images(folder: &Path) -> Images {
    const ENDINGS: [&str; 4] = [".dlt", ".ring", ".pftrace", ".json.gz"];
    let mut images = Images::new();
    for file in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(stem) = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)) {
            images.entry(stem.to_string()).or_default().push(file);
        }
    }
    images
}

/// How many processes images belong to: their names are PROGRAM-HOST-PID-TIME, and an exec keeps host and process id. A
/// process id that comes twice in one run is not told apart from that: when it began stands in the trace only.
fn processes<'a>(stems: impl Iterator<Item = &'a String>) -> usize {
    let process = |stem: &'a String| stem.rsplitn(4, '-').skip(1).take(2).collect::<Vec<_>>();
    stems.map(process).collect::<BTreeSet<_>>().len()
}

fn many(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

fn report(folder: &Path, before: &Images) {
    let mut new = images(folder);
    new.retain(|stem, _| !before.contains_key(stem));
    let shown = shown_path(folder);
    if new.is_empty() {
        terminal::warn(
            "dlio: nothing was recorded. Static programs cannot be traced, and by default /proc, /sys, /dev,",
        );
        terminal::warn("      libraries and interpreter files are left out: `dlio trace --all` records them too.");
        return;
    }
    let files = || new.values().flatten();
    let bytes: u64 = files().filter_map(|file| fs::metadata(file).ok()).map(|found| found.len()).sum();
    terminal::warn(format_args!("dlio: {} recorded in {shown} ({})", shown_processes(&new), human(bytes)));
    match files().filter(|file| ends(file, "ring")).count() {
        0 => {}
        1 => terminal::warn("      1 process was killed or found no room for its trace; all it recorded is there"),
        more => terminal::warn(format_args!(
            "      {more} processes were killed or found no room for their traces; all they recorded is there"
        )),
    }
    if !before.is_empty() {
        let earlier = many(processes(before.keys()), "process of earlier runs lies", "processes of earlier runs lie");
        terminal::warn(format_args!(
            "      {earlier} there too, and dlio-analyze shows them together; -o DIR keeps runs apart"
        ));
    }
    terminal::warn(format_args!("      next: dlio-analyze {shown} --summary"));
    if let Some(file) = files().find(|file| ends(file, "pftrace")) {
        terminal::warn(format_args!("      or open {} in ui.perfetto.dev", shown_path(file)));
    }
}

fn ends(file: &Path, ending: &str) -> bool {
    file.extension().is_some_and(|own| own == ending)
}

/// `4 processes`, and the programs they ran where those are more.
fn shown_processes(images: &Images) -> String {
    let (processes, programs) = (processes(images.keys()), images.len());
    let shown = many(processes, "process", "processes");
    if programs == processes { shown } else { format!("{shown} ({})", many(programs, "program", "programs")) }
}

/// As short as it can be typed from here.
fn shown_path(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let relative = path.strip_prefix(&here).ok().filter(|rest| !rest.as_os_str().is_empty());
    relative.unwrap_or(path).display().to_string()
}

fn human(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

fn variables() -> String {
    let row = |variable: &env::Variable| {
        format!(
            "{}={}\n    {} (default: {})\n",
            variable.name,
            variable.values,
            variable.meaning,
            shown_default(variable)
        )
    };
    env::VARIABLES.iter().map(row).collect()
}

fn shown_default(variable: &env::Variable) -> &str {
    if variable.default.is_empty() { "none" } else { variable.default }
}

/// What this tracer cannot see, and why.
const UNSEEN: &[(&str, &str)] = &[
    ("raw system calls", "syscall() and inline assembly do not pass the C library"),
    ("static programs, Go programs", "no library can be put before them"),
    ("io_uring", "requests go through memory shared with the kernel; only the files' opening is seen"),
    (
        "calls inside the C library",
        "fread's own read: the call the program made is the event (DLIO_TRACE_INLINE=1 shows both)",
    ),
    ("calls past exported names", "through dlsym'ed pointers, RTLD_DEEPBIND: seen with DLIO_TRACE_INLINE=1"),
    (
        "calls that are none",
        "getc_unlocked and putc_unlocked are compiled into the program; their buffer's I/O is inside the library",
    ),
    ("pages of a mapped file", "the mapping is an event, touching it is not a call"),
    ("setuid programs", "the loader ignores LD_PRELOAD for them"),
];

fn operations() -> String {
    let mut out = String::from("Recorded, whatever the spelling (open64 and __open_2 are open):\n");
    for layer in Layer::ALL {
        let names: Vec<_> = OPS.iter().filter(|info| info.layer == layer).map(|info| info.name).collect();
        out += &format!("\n{} ({})\n{}", layer.name(), names.len(), wrapped(&names));
    }
    out += "\nNot recorded:\n\n";
    UNSEEN.iter().for_each(|(what, why)| out += &format!("  {what:<30}{why}\n"));
    out
}

fn wrapped(names: &[&str]) -> String {
    const WIDTH: usize = 96;
    let mut out = String::new();
    let mut line = String::from(" ");
    for name in names {
        if line.len() + name.len() + 1 > WIDTH {
            out += &line;
            out.push('\n');
            line = String::from(" ");
        }
        line = line + " " + name;
    }
    out + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_listed() {
        let listed = operations();
        assert!(OPS.iter().all(|info| listed.contains(info.name)));
    }

    #[test]
    fn a_process_is_one_whatever_it_runs() {
        let stems = ["sh-node.1-7-100", "python3.11-node.1-7-200", "cat-node.1-8-150", "cat-node.2-8-150"];
        assert_eq!(processes(stems.map(String::from).iter()), 3);
    }

    #[test]
    fn every_variable_is_explained() {
        let explained = variables();
        assert!(env::VARIABLES.iter().all(|variable| explained.contains(variable.name)));
    }
}
