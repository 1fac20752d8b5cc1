//! `dlio trace -- COMMAND`: runs any program under the tracing library, and suggests the next command.
//!
//! Output, exit status and signals of the command are unchanged. This module never reads a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsString};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use dlio_schemas::durations;
use dlio_schemas::env;
use dlio_schemas::native::file::Image;
use dlio_schemas::ops::{Layer, OPS};
use dlio_tracer::convert_run::{self, ConvertRun, Form, RunFacts};
use dlio_tracer::environment;
use dlio_tracer::process::filter::Filter;
use dlio_tracer::programs::{self, Loading};
use dlio_tracer::spool::{self, Stranded};
use dlio_tracer::untraced::{self, Untraced};

use crate::command::flight_recorder::{FlightRecorder, report_kept};
use crate::command::static_programs::StaticPrograms;
use crate::command::trace_gpu::GpuOptions;
use crate::command::trace_tasks::{Task, Turn};
use crate::command::{analyzer, output_places, trace_gpu};
use crate::failure::{Failure, Outcome, reason};
use crate::machine::sampler::{SampleResult, Sampler};
use crate::machine::unusual;
use crate::ptrace::supervisor::Settings;
use crate::system::processes::{self, Outliving, Variables};
use crate::system::{locate, terminal};

#[derive(Args)]
#[command(after_help = "Examples:
  dlio trace -- python3 train.py
  dlio trace --report report.html -- python3 train.py      also writes an HTML report
  dlio trace -o /scratch/trace --include '/data/**' -- ./solver input.nml
  dlio trace --format native -- mpirun -n 4 ./app          always one file per process
  dlio trace --mode summary -- ./runs_for_days             counts in constant memory, without events
  dlio trace --last 10m -- ./runs_for_days                 counts, and the last ten minutes in full

Exit status: that of the command; 128+n if signal n killed it; 127 if the command does not exist, 126 if it cannot be \
executed. Without starting the command: 2 if an option is wrong or the tracer's library cannot be found, 4 if the trace directory \
cannot be used")]
pub struct Options {
    /// Write the trace into this directory, created if missing
    #[arg(short, long, value_name = "DIR", default_value = "dlio-trace")]
    output: PathBuf,
    /// Format of the trace; auto writes .pftrace (perfetto) for processes with at most a million events, and .dlt (native) for
    /// others [default: auto]
    #[arg(long, value_name = "FORMAT", value_parser = ["auto", "native", "perfetto", "chrome"])]
    format: Option<String>,
    /// Record every event (full), or only counts by file and function in constant memory (summary) [default: full]
    #[arg(long, value_name = "MODE", value_parser = ["full", "summary"])]
    mode: Option<String>,
    /// Stop recording events once the trace of a process reaches this size; then only count, as with `--mode summary`
    #[arg(long, value_name = "MEGABYTES", value_parser = megabytes)]
    max_mb: Option<u64>,
    /// For runs that last days: keep only the events of the last DURATION, such as 30s, 10m or 2h, and counts of the whole run
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with_all = ["mode", "max_mb"])]
    last: Option<u64>,
    /// Record only files that match a pattern (`data/**`, `*.npz`, `part-[0-9].{h5,npz}`) or are in a directory; can be
    /// repeated
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Skip matching files; can be repeated
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Also record /proc, /sys, /dev, shared libraries, and files of interpreters and packages
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    gpu: GpuOptions,
    /// Also record, with ptrace, static programs and Go programs, which cannot load the tracer's library. This makes each of
    /// their system calls about 25 us slower
    #[arg(long, conflicts_with_all = ["mode", "max_mb", "last"])]
    ptrace_static: bool,
    /// Make the trace readable by everyone, as with DLIO_TRACE_UMASK=022 [default: only you]
    #[arg(long)]
    share: bool,
    /// Write the report as an HTML page with dlio-analyze; replaces FILE
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Do not print a summary when the command exits
    #[arg(short, long)]
    quiet: bool,
    /// List the environment variables of the tracer
    #[arg(long)]
    help_env: bool,
    /// List the traced functions, and the calls that cannot be traced
    #[arg(long)]
    list: bool,
    /// Option of other tracers; an error message names the alternative.
    #[arg(short, long, hide = true, value_name = "PID")]
    pid: Option<String>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Parses a size in megabytes, for clap.
fn megabytes(typed: &str) -> Result<u64, String> {
    // Units of bytes, as in 512MB; a plain number counts megabytes.
    let units = [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("MB", 1_000_000)];
    let units =
        units.into_iter().chain([("GB", 1_000_000_000), ("TB", 1_000_000_000_000), ("M", 1 << 20), ("G", 1 << 30)]);
    for (unit, bytes) in units {
        if let Some(Ok(number)) = typed.strip_suffix(unit).map(|number| number.trim().parse::<f64>()) {
            let megabytes = number * bytes as f64 / 1e6;
            let is_whole_enough = megabytes.is_finite() && (1.0..1e12).contains(&megabytes);
            return if is_whole_enough { Ok(megabytes as u64) } else { Err("expected at least 1MB".into()) };
        }
    }
    match typed.parse() {
        Ok(0) => Err("0 would record no events; use --mode summary to only count".into()),
        Ok(megabytes) => Ok(megabytes),
        Err(_) => Err("expected a whole number of megabytes, at least 1, or a size such as 2GB".into()),
    }
}

/// Parses the period that a flight recorder keeps, for clap.
fn duration(typed: &str) -> Result<u64, String> {
    durations::parse(typed).ok_or_else(|| format!("expected {}", durations::EXPECTED))
}

/// Refuses features of other tracers, and suggests the alternative.
fn refuse_impossible(options: &Options) -> Outcome<()> {
    if let Some(pid) = &options.pid {
        return Err(Failure::refused(format!(
            "cannot attach to process {pid}: the tracer must be loaded when a program starts"
        ))
        .remedy(
            "start the program with dlio trace -- COMMAND, or trace the running one with \
             `strace -f -tt -T -y -p PID -o FILE`, whose output dlio-analyze can read",
        ));
    }
    if options.output == Path::new("-") {
        let what = "cannot write a trace to standard output: it is a directory with one file per process";
        return Err(Failure::refused(what).remedy("use -o DIR"));
    }
    Ok(())
}

/// Runs the command; returns its exit code.
pub fn run(options: &Options) -> Outcome<i32> {
    if let Some(list) = requested_list(options) {
        return terminal::answer(&list).map(|()| 0);
    }
    refuse_impossible(options)?;
    let Some((program, arguments)) = options.command.split_first() else {
        return Err(Failure::refused("cannot trace: no command was given").remedy("usage: dlio trace -- COMMAND ..."));
    };
    let preload = locate::preload(&locate::library().ok_or_else(missing_library)?)?;
    let analyzer = options.report.is_some().then(|| analyzer::program().ok_or_else(missing_analyzer)).transpose()?;
    let folder = output_places::trace_folder(&options.output, options.umask(), "-o DIR")?;
    options.report.as_ref().map_or(Ok(()), |page| output_places::report_page(page, &folder))?;
    let before = images(&folder);
    let task = Task::begin(&folder, before.keys().cloned());
    let loading = loading(program);
    let mut command = Command::new(program);
    command.args(arguments);
    let converter = converter();
    let mut variables = variables_of(options, &folder, &converter);
    let settings = options.ptrace_static.then(|| options.ptrace_settings(&folder, &converter));
    let static_programs = StaticPrograms::begin(loading, settings)?;
    static_programs.prepare(&mut variables);
    if let Some(reason) = obstacle(loading).filter(|_| !static_programs.record_command()) {
        terminal::warn(format_args!("dlio: {} {reason}", program.to_string_lossy()));
    }
    if loading.is_harmless() {
        variables.set("LD_PRELOAD", &preload.value);
        options.gpu.pass_on(&preload.library, &mut variables);
    }
    let mut sampler = None;
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let started = || sampler = Sampler::start(&folder, options.umask(), options.gpu.gpu);
    let recorder = options.last().map(|last| FlightRecorder::begin(&folder, last, options.umask()));
    let ended = processes::run_in_front(&mut command, &mut variables, Outliving::Allowed, started);
    let kept = recorder.map(FlightRecorder::finish).unwrap_or_default();
    let sampled = |needed| sampler.map(|sampler| sampler.finish(needed)).unwrap_or_default();
    let (pid, status) = match ended {
        Ok(ended) => ended,
        Err(error) => {
            sampled(false).file.into_iter().for_each(|file| drop(fs::remove_file(file)));
            return Ok(not_started(program, &error));
        }
    };
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let stranded = spool::bring_home(&folder);
    let recorded = new_images(&folder, &before);
    let machine = sampled(!recorded.is_empty());
    keep_with_trace(&machine, &recorded);
    if let Some(code) = status.code() {
        convert_run::note_exit(recorded.values().flatten(), pid, code);
    }
    let facts = options.form().map(|form| options.convert_run(&folder, &converter, form).run()).unwrap_or_default();
    let lost = facts.lost;
    let remains = RunLeftovers { recorded: Recorded::of(recorded.keys()), lost, is_elsewhere: stranded.is_some() };
    let turn = task.map_or(Turn::Alone, |task| task.finish(recorded.keys()));
    if !options.quiet && turn != Turn::Earlier {
        report_turn(&turn, &folder, &before, remains, loading, options);
        static_programs.report(Path::new(program));
        report_untraced(&untraced::read(&folder, began), options.ptrace_static);
        report_unusual(&machine, &facts);
        trace_gpu::report_failure(&machine);
    }
    report_kept(if options.quiet { &[] } else { &kept });
    report_missing_parts(lost, stranded.as_ref(), &folder);
    if let Some((analyzer, page)) = analyzer.zip(options.report.as_ref()).filter(|_| turn != Turn::Earlier) {
        wait_for_ends(&folder);
        analyzer::run(&analyzer, &folder, false, Some(page));
    }
    Ok(code)
}

/// Returns the list that is printed instead of running a command, if one was requested.
fn requested_list(options: &Options) -> Option<String> {
    options.help_env.then(variables).or_else(|| options.list.then(operations))
}

/// Returns the variables set for the command, except the library.
fn variables_of(options: &Options, folder: &Path, converter: &str) -> Variables {
    let mut variables = Variables::default();
    variables.set(env::DIR, folder);
    options.pass_on(&mut variables);
    if let Some((name, value)) = environment::of_machine(folder.as_os_str().as_bytes()) {
        variables.set(name, value);
    }
    if options.form().is_some() {
        variables.set(env::CONVERT, format!("{}:{converter}", env::CONVERT_LATER));
    }
    variables
}

/// Keeps the host's samples if there is a trace next to them.
fn keep_with_trace(machine: &SampleResult, recorded: &Images) {
    if recorded.is_empty() {
        machine.file.iter().for_each(|file| drop(fs::remove_file(file)));
    }
}

/// Prints which permissions and resources the command lacked.
fn report_unusual(machine: &SampleResult, facts: &RunFacts) {
    let Some(mut allowance) = machine.allowance.clone() else { return };
    // The traced processes may be in other control groups than this one.
    if !facts.io_limits.is_empty() {
        allowance.read_limits = machine.read_limits(facts.io_limits.iter().map(String::as_str));
    }
    let remarks = unusual::remarks(&allowance, &machine.watched);
    if !remarks.is_empty() {
        terminal::warn(format_args!("      host: {}", remarks.join("; ")));
    }
}

/// Printed even with `--quiet`: a part of the trace is missing.
fn report_missing_parts(lost: u64, stranded: Option<&Stranded>, folder: &Path) {
    // Processes report this themselves if their standard error is still open at the end.
    if lost > 0 {
        terminal::warn(format_args!("dlio: {lost} events were lost; dlio-analyze shows in which processes"));
    }
    stranded.into_iter().for_each(|stranded| report_stranded(stranded, folder));
}

fn report_stranded(stranded: &Stranded, folder: &Path) {
    let processes = many(stranded.rings, "process was", "processes were");
    let (spool, folder, reason) = (stranded.spool.display(), folder.display(), &stranded.error);
    terminal::warn(format_args!("dlio: {processes} killed or ran out of space; the recorded events are in {spool}"));
    terminal::warn(format_args!("      and cannot be moved to {folder} ({reason})."));
    terminal::warn(format_args!("      Free some space; the next `dlio trace -o {folder}` moves them"));
}

/// Prints the programs that the command started and that could not be traced, each once.
fn report_untraced(all: &[Untraced], uses_ptrace: bool) {
    const NAMED: usize = 5;
    if all.is_empty() {
        return;
    }
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for one in all {
        *counts.entry((&one.program, &one.reason)).or_default() += 1;
    }
    let processes = many(all.len(), "process", "processes");
    terminal::warn(format_args!("dlio: {processes} ran a program that cannot be traced; its calls are not recorded:"));
    for ((program, reason), count) in counts.iter().take(NAMED) {
        let times = if *count == 1 { String::new() } else { format!(", {count} times") };
        let reason = match *reason {
            untraced::STATIC => "static: no library can be preloaded",
            untraced::GO => "a Go program: it bypasses the C library",
            untraced::OWN_PTRACE => "uses ptrace itself: recorded until then",
            untraced::PRIVILEGED => "gains privileges: the loader ignores the library",
            untraced::OTHER_MACHINE => "built for another architecture",
            _ => "built for another C library",
        };
        terminal::warn(format_args!("      {program} ({reason}){times}"));
    }
    if !uses_ptrace && all.iter().any(|one| [untraced::STATIC, untraced::GO].contains(&one.reason.as_str())) {
        terminal::warn("      dlio trace --ptrace-static records static programs and Go programs");
    }
    if counts.len() > NAMED {
        let more = many(counts.len() - NAMED, "more program", "more programs");
        terminal::warn(format_args!("      and {more}; {} in the trace directory lists all of them", untraced::LIST));
    }
}

/// Prints the summary of this command, or of the whole job whose last task it is.
fn report_turn(
    turn: &Turn,
    folder: &Path,
    before: &Images,
    remains: RunLeftovers,
    loading: Loading,
    options: &Options,
) {
    let Turn::Last { recorded, traces_before, .. } = turn else {
        return report(folder, before, &remains, loading, options);
    };
    let mut before = before.clone();
    before.retain(|stem, _| traces_before.contains(stem));
    report(folder, &before, &RunLeftovers { recorded: Recorded::of(recorded.iter()), ..remains }, loading, options);
    report_missing(turn);
}

/// Prints which ranks of a job are not in the directory.
fn report_missing(turn: &Turn) {
    const NAMED: usize = 8;
    let Turn::Last { launcher, size, missing, .. } = turn else { return };
    if missing.is_empty() {
        return;
    }
    let named = missing.iter().take(NAMED).map(u64::to_string).collect::<Vec<_>>().join(", ");
    let more = if missing.len() > NAMED { format!(" and {} more", missing.len() - NAMED) } else { String::new() };
    let ranks = if missing.len() == 1 { "rank" } else { "ranks" };
    terminal::warn(format_args!(
        "      {} of {size} ranks of {launcher} are in this directory; {ranks} {named}{more} did not start, or use another one",
        size - missing.len() as u64
    ));
}

fn missing_analyzer() -> Failure {
    Failure::refused("--report: cannot find dlio-analyze next to this program or in PATH")
        .remedy("it is part of dlio: reinstall dlio, or add its directory to PATH")
}

fn loading(program: &OsString) -> Loading {
    let name = CString::new(program.as_bytes());
    name.map_or(Loading::Works, |name| programs::loading_of_command(&name))
}

/// Returns why a program will not leave a trace, before it runs.
fn obstacle(loading: Loading) -> Option<&'static str> {
    match loading {
        Loading::Works | Loading::Privileged => None,
        Loading::Static => Some(
            "is a static program: no library can be preloaded, so only the programs that it starts are traced; \
                    --ptrace-static records it, too",
        ),
        Loading::OtherLibrary => {
            Some("is built for an unsupported C library and would not start with the tracer: it runs untraced")
        }
        Loading::OtherMachine => Some("is built for another architecture than the tracer: it runs untraced"),
        Loading::Go => Some(
            "is a Go program, which bypasses the C library: its I/O is not recorded, but the programs that it starts \
                are traced; --ptrace-static records it, too",
        ),
    }
}

impl Options {
    /// Translates the options into environment variables.
    fn pass_on(&self, variables: &mut Variables) {
        let max_mb = self.max_mb.map(|megabytes| megabytes.to_string());
        let last = self.last.map(|ns| format!("{}ms", ns / 1_000_000));
        let set = [(env::FORMAT, &self.format), (env::MODE, &self.mode), (env::MAX_MB, &max_mb), (env::LAST, &last)];
        for (name, value) in set {
            if let Some(value) = value {
                variables.set(name, value);
            }
        }
        for (name, globs) in [(env::INCLUDE, &self.include), (env::EXCLUDE, &self.exclude)] {
            let asked = if globs.is_empty() { std::env::var_os(name) } else { Some(globs.join(":").into()) };
            // Relative patterns refer to the current directory, regardless of where a program started by the command
            // runs.
            if let Some(list) = asked {
                variables.set(name, environment::patterns_from_here(&list));
            }
        }
        if self.all {
            variables.set(env::ALL, "1");
        }
        if self.share {
            variables.set(env::UMASK, format!("{SHARED:03o}"));
        }
    }

    /// Returns the period whose events are kept, by option or environment; `None` for all.
    fn last(&self) -> Option<Duration> {
        let ns = self.last.or_else(|| durations::parse(&inherited_variable(env::LAST)?))?;
        Some(Duration::from_nanos(ns))
    }

    /// Returns the patterns that restrict recording, if there are any.
    fn included(&self) -> Option<String> {
        if self.include.is_empty() { inherited_variable(env::INCLUDE) } else { Some(self.include.join(":")) }
    }

    /// Returns the format requested by option or environment.
    fn format(&self) -> String {
        self.format.clone().or_else(|| inherited_variable(env::FORMAT)).unwrap_or_else(|| "auto".into())
    }

    /// Returns the format into which the traces are converted after the command has ended; `None` if each process
    /// converts its own, or records in that format.
    fn form(&self) -> Option<Form> {
        match self.format().as_str() {
            "native" => None,
            // A setting inherited from an outer `dlio trace` is for the directory of that one.
            _ if inherited_variable(env::CONVERT).is_some_and(|when| !when.starts_with(env::CONVERT_LATER)) => None,
            "chrome" => Some(Form::Chrome),
            // The tracer treats an invalid format as auto, with a warning.
            _ => Some(Form::Perfetto),
        }
    }

    /// Returns the settings for traces that ptrace records. The library receives the same settings in variables.
    fn ptrace_settings(&self, folder: &Path, converter: &str) -> Settings {
        let patterns = |option: &[String], name| {
            let inherited = || std::env::var_os(name).unwrap_or_default();
            let list = if option.is_empty() { inherited() } else { option.join(":").into() };
            environment::patterns_from_here(&list).into_encoded_bytes()
        };
        let (include, exclude) = (patterns(&self.include, env::INCLUDE), patterns(&self.exclude, env::EXCLUDE));
        let is_all = self.all || inherited_variable(env::ALL).is_some_and(|all| all != "0");
        let own = vec![folder.as_os_str().as_bytes().to_vec()];
        Settings {
            folder: folder.to_path_buf(),
            unique: converter.to_string(),
            is_converted: self.form().is_some(),
            umask: self.umask(),
            label: inherited_variable(env::LABEL).unwrap_or_default(),
            filter: Filter::new(&include, &exclude, b"/", own, is_all),
        }
    }

    fn convert_run<'a>(&self, folder: &'a Path, converter: &'a str, form: Form) -> ConvertRun<'a> {
        let is_auto = !["perfetto", "chrome"].contains(&self.format().as_str());
        let max_mb =
            self.max_mb.or_else(|| inherited_variable(env::MAX_MB)?.parse().ok()).filter(|&megabytes| megabytes > 0);
        ConvertRun {
            folder,
            converter,
            form,
            events_max: if is_auto { ConvertRun::AUTO_EVENTS_MAX } else { u64::MAX },
            bytes_max: max_mb.map_or(u64::MAX, |megabytes| megabytes.saturating_mul(1_000_000)),
            umask: (self.share || inherited_variable(env::UMASK).is_some()).then(|| self.umask()),
        }
    }

    /// Returns the permission bits to remove from the trace directory, parsed as in the tracer, which reports errors in
    /// the variable.
    fn umask(&self) -> u32 {
        if self.share { SHARED } else { inherited_umask() }
    }
}

/// Returns the permission bits to remove that the environment sets, for all other users by default.
pub fn inherited_umask() -> u32 {
    let digits = std::env::var(env::UMASK).ok();
    let asked = digits.and_then(|digits| u32::from_str_radix(&digits, 8).ok()).filter(|mask| *mask <= 0o077);
    asked.unwrap_or(PRIVATE)
}

/// Returns a variable of this process's environment, which the command inherits.
fn inherited_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns a name that is unique to this run of this program.
fn converter() -> String {
    format!("{}-{:x}", std::process::id(), RandomState::new().hash_one(std::time::SystemTime::now()))
}

/// Permission bits to remove: all for other users, or write access only.
const PRIVATE: u32 = 0o077;
const SHARED: u32 = 0o022;

fn missing_library() -> Failure {
    Failure::refused(format!("cannot find {} next to this program or in ../lib", locate::LIBRARY))
        .remedy("set DLIO_LIB to the file or its directory")
}

/// Reports a program that could not be started; returns the exit status that a shell would.
fn not_started(program: &OsString, error: &std::io::Error) -> i32 {
    let remedy = match error.kind() {
        std::io::ErrorKind::NotFound => {
            "check the command after --: there is no such program, or its interpreter is missing"
        }
        std::io::ErrorKind::PermissionDenied if Path::new(program).is_dir() => {
            "it is a directory: check the command after --"
        }
        std::io::ErrorKind::PermissionDenied => "make it executable (chmod +x), or put its interpreter in front of it",
        _ => "check the command after --",
    };
    terminal::warn(format_args!("dlio: cannot run {}: {}; {remedy}", program.to_string_lossy(), reason(error)));
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

/// Returns the images that did not exist before.
fn new_images(folder: &Path, before: &Images) -> Images {
    let mut new = images(folder);
    new.retain(|stem, _| !before.contains_key(stem));
    new
}

/// How long processes that outlive the command have to exit before its report is made without them.
const ENDING: Duration = Duration::from_secs(10);

/// Waits for processes that outlive the command briefly: until they have exited, their traces are incomplete.
fn wait_for_ends(folder: &Path) {
    let start = Instant::now();
    let runs = |file: &PathBuf| ends(file, "ring") && is_alive(file);
    while start.elapsed() < ENDING && images(folder).values().flatten().any(runs) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns `true` if the process that writes this trace is running here: its name is PROGRAM-HOST-PID-TIME.
fn is_alive(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let pid = stem.rsplit('-').nth(1).unwrap_or_default();
    !pid.is_empty() && Path::new("/proc").join(pid).exists()
}

/// Returns how many processes the images belong to: their names are PROGRAM-HOST-PID-TIME, and an exec keeps host and
/// pid. A pid that was reused during the run counts once, because only the trace contains start times.
fn processes<'a>(stems: impl Iterator<Item = &'a String>) -> usize {
    let process = |stem: &'a String| stem.rsplitn(4, '-').skip(1).take(2).collect::<Vec<_>>();
    stems.map(process).collect::<BTreeSet<_>>().len()
}

fn many(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// Processes that were recorded, and the programs that they executed.
#[derive(Clone, Copy)]
struct Recorded {
    processes: usize,
    programs: usize,
}

/// The traces that a command left.
struct RunLeftovers {
    /// The traces of all processes; conversion may have moved them to other files since.
    recorded: Recorded,
    /// Lost events.
    lost: u64,
    /// `true` if some could not be moved to the trace directory.
    is_elsewhere: bool,
}

fn report(folder: &Path, before: &Images, remains: &RunLeftovers, loading: Loading, options: &Options) {
    let is_all = options.all || inherited_variable(env::ALL).is_some_and(|all| all != "0");
    let new = new_images(folder, before);
    let shown = shown_path(folder);
    if new.is_empty() {
        match loading {
            Loading::Works if remains.is_elsewhere => {}
            Loading::Works => match options.included() {
                Some(patterns) => {
                    let patterns = environment::patterns_from_here(patterns.as_ref());
                    let shown = patterns.to_string_lossy().replace(':', ", ");
                    terminal::warn(format_args!("dlio: nothing was recorded: no file matched --include {shown}"));
                    terminal::warn(
                        "      Patterns match the whole path: `*` matches within a directory, `**` across directories",
                    );
                    terminal::warn("      (see `dlio trace --help-env`). Without --include all files are recorded.");
                }
                None if is_all => {
                    terminal::warn("dlio: nothing was recorded: the program made no calls that dlio traces")
                }
                None => {
                    terminal::warn(
                        "dlio: nothing was recorded. By default, /proc, /sys, /dev, libraries and interpreter files",
                    );
                    terminal::warn("      are skipped: `dlio trace --all` records them too.");
                }
            },
            Loading::Privileged => {
                terminal::warn(
                    "dlio: nothing was recorded. The program gains privileges when it starts (setuid, setgid or",
                );
                terminal::warn("      file capabilities), so the loader ignores the tracer.");
            }
            _ => terminal::warn("dlio: nothing was recorded."),
        }
        return;
    }
    let files = || new.values().flatten();
    let bytes: u64 = files().filter_map(|file| fs::metadata(file).ok()).map(|found| found.len()).sum();
    terminal::warn(format_args!("dlio: {} recorded in {shown} ({})", remains.recorded.shown(), human(bytes)));
    let (alive, ended): (Vec<_>, Vec<_>) = files().filter(|file| ends(file, "ring")).partition(|file| is_alive(file));
    // A process that exits just now has removed its ring by the second check.
    let ended: Vec<_> = ended.into_iter().filter(|file| file.exists() && ended_abnormally(file)).collect();
    report_ends(alive.len(), ended.len(), remains.lost > 0);
    if !before.is_empty() {
        terminal::warn(
            "      the directory also contains earlier runs: dlio-analyze reports the last one, --run N another one;",
        );
        terminal::warn("      use -o DIR to separate runs");
    }
    let shown = typed(&shown);
    terminal::warn(format_args!("      next: dlio-analyze {shown}"));
    terminal::warn(format_args!("      timeline of all processes: dlio-analyze {shown} --view"));
}

/// Reports processes that outlived the command, and processes that did not exit normally.
fn report_ends(alive: usize, ended: usize, lost_some: bool) {
    match alive {
        0 => {}
        1 => terminal::warn("      1 process outlived the command; it is traced until it exits"),
        more => {
            terminal::warn(format_args!("      {more} processes outlived the command; they are traced until they exit"))
        }
    }
    let there = if lost_some { "events that did not fit are lost" } else { "everything recorded is kept" };
    match ended {
        0 => {}
        1 => terminal::warn(format_args!(
            "      1 process was killed, exited without the C library, or ran out of space for its trace; {there}"
        )),
        more => terminal::warn(format_args!(
            "      {more} processes were killed, exited without the C library, or ran out of space for their trace; \
                {there}"
        )),
    }
}

/// Returns `true` if a ring was left by a process that did not exit in order. A process that dropped privileges leaves
/// an empty ring, which it could no longer remove, next to a complete trace.
fn ended_abnormally(file: &Path) -> bool {
    let is_empty = || fs::metadata(file).is_ok_and(|found| found.len() == 0);
    let has_ended = || {
        let trace = fs::read(file.with_extension("dlt")).unwrap_or_default();
        Image::survey(&trace[..]).is_ok_and(|image| image.has_ended())
    };
    !(is_empty() && has_ended())
}

fn ends(file: &Path, ending: &str) -> bool {
    file.extension().is_some_and(|own| own == ending)
}

impl Recorded {
    /// Counts the processes of images, which are stems of files or the ends of those.
    fn of<'a>(images: impl Iterator<Item = &'a String> + Clone) -> Recorded {
        Recorded { processes: processes(images.clone()), programs: images.count() }
    }

    /// Returns `4 processes`, and the number of programs if they ran more.
    fn shown(self) -> String {
        let shown = many(self.processes, "process", "processes");
        match self.programs == self.processes {
            true => shown,
            false => format!("{shown} ({})", many(self.programs, "program", "programs")),
        }
    }
}

/// Returns the shortest path from the current directory.
fn shown_path(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let relative = path.strip_prefix(&here).ok().filter(|rest| !rest.as_os_str().is_empty());
    relative.unwrap_or(path).display().to_string()
}

/// Quotes a path as one word for a shell.
fn typed(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if path.chars().all(plain) { path.into() } else { format!("'{}'", path.replace('\'', r"'\''")) }
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
        let meaning = format!("{} (default: {})", variable.meaning, shown_default(variable));
        format!("{}={}\n{}", variable.name, variable.values, terminal::wrapped(meaning.split(' '), "    ", WIDTH))
    };
    env::VARIABLES.iter().map(row).collect()
}

fn shown_default(variable: &env::Variable) -> &str {
    if variable.default.is_empty() { "none" } else { variable.default }
}

/// The limits of this tracer, with the reasons.
const UNSEEN: &[(&str, &str)] = &[
    (
        "raw system calls",
        "inline assembly bypasses the C library; of syscall(), only futex waits and io_uring are recorded",
    ),
    (
        "static programs, Go programs",
        "no library can be preloaded; programs that they start are traced; --ptrace-static records their file calls",
    ),
    ("waits of programs recorded by ptrace", "only their file calls, descriptors and processes are events"),
    ("programs for other architectures", "they run without the library, and so do the programs that they start"),
    (
        "some io_uring requests",
        "of SQPOLL without calls, and of inline assembly without DLIO_TRACE_INLINE=1: reports contain their number; of a \
         static liburing: nothing is known",
    ),
    (
        "calls inside the C library",
        "such as the read inside fread: the program's call is the event (DLIO_TRACE_INLINE=1 records both)",
    ),
    (
        "calls bypassing exported names",
        "through pointers from dlsym, or RTLD_DEEPBIND: recorded with DLIO_TRACE_INLINE=1",
    ),
    (
        "inlined functions",
        "getc_unlocked and putc_unlocked are compiled into the program; the I/O of their buffer is inside the library",
    ),
    (
        "waits of less than 10 us",
        "polls and semaphores that did not block: counted as skipped (DLIO_TRACE_ALL=1 records them)",
    ),
    (
        "waits without a call",
        "mutexes and reader-writer locks of the C library, spinning, futexes in inline assembly (OpenMP, Go)",
    ),
    ("message queues", "msgrcv, mq_receive"),
    (
        "unfinished libaio requests",
        "in flight at the end, or read without io_getevents: these count as lost when they are submitted again",
    ),
    ("calls between vfork and exec", "the child runs in its parent's memory; the program it executes is recorded"),
    ("clone children on their parent's memory", "their calls count as their parent's; their exit is not recorded"),
    (
        "scans of wide or unbuffered pipes",
        "the number of bytes that fwscanf and scanf read is unknown; with musl of all pipes",
    ),
    (
        "calls of a static HDF5",
        "only a separate libhdf5 (1.10 to 2.x) has calls that can be hooked; its file calls are recorded",
    ),
    (
        "programs started under a seccomp filter",
        "if seccomp forbids creating files they are not traced; each prints the number of lost events",
    ),
    ("pages of a mapped file", "the mapping is an event, but page faults are not calls"),
    ("setuid programs", "the loader ignores LD_PRELOAD for them"),
];

/// The width of lists in help.
const WIDTH: usize = 96;

fn operations() -> String {
    let mut out = String::from("Recorded, in all variants (open64 and __open_2 are open):\n");
    for layer in Layer::ALL {
        let names: Vec<_> = OPS.iter().filter(|info| info.layer == layer).map(|info| info.name).collect();
        out +=
            &format!("\n{} ({})\n{}", layer.name(), names.len(), terminal::wrapped(names.iter().copied(), "  ", WIDTH));
    }
    out += "\nNot recorded:\n\n";
    let column = UNSEEN.iter().map(|(what, _)| what.len()).max().unwrap_or(0) + 2;
    UNSEEN.iter().for_each(|(what, why)| out += &format!("  {what:<column$}{why}\n"));
    out
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
    fn exec_keeps_one_process() {
        let stems = ["sh-node.1-7-100", "python3.11-node.1-7-200", "cat-node.1-8-150", "cat-node.2-8-150"];
        assert_eq!(processes(stems.map(String::from).iter()), 3);
    }

    #[test]
    fn zero_limit_is_rejected_with_suggestion() {
        assert_eq!(megabytes("7"), Ok(7));
        assert!(megabytes("0").unwrap_err().contains("--mode summary"));
        assert!(megabytes("1.5").unwrap_err().contains("whole number"));
        assert_eq!((megabytes("2GB"), megabytes("512 MB"), megabytes("1.5GB")), (Ok(2000), Ok(512), Ok(1500)));
        assert_eq!(megabytes("1GiB"), Ok(1073));
        assert!(["10KiB", "-1GB", "1PB", "nanMB"].iter().all(|typed| megabytes(typed).is_err()));
    }

    #[test]
    fn every_variable_is_explained() {
        let explained = variables();
        assert!(env::VARIABLES.iter().all(|variable| explained.contains(variable.name)));
    }
}
