//! The program `dlio`: its verbs and their options. The work is done in the library.
//!
//! `dlio analyze`, `dlio top` and any unknown verb X run the program `dlio-X`. If `dlio` is started under the name
//! `dlio_benchmark`, it accepts DLIO's own arguments.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use dlio_benchmark::bench::{self, Request, Run};
use dlio_benchmark::command::size::{self, SizeRequest};
use dlio_benchmark::command::sweep::{self, Knob};
use dlio_benchmark::command::{
    bench_traced, check, compare_layouts, completions, foreign_options, manual, ranks, report, trace, workloads,
};
use dlio_benchmark::failure::{Failure, Kind, Outcome};
use dlio_benchmark::ranks::agreement;
use dlio_benchmark::ranks::child_ranks::ChildRanks;
use dlio_benchmark::ranks::communicator::{Communicator, Single};
use dlio_benchmark::ranks::external_ranks::{ExternalRanks, Talk};
use dlio_benchmark::ranks::launcher::{self, LaunchInfo};
use dlio_benchmark::system::{locate, terminal};
use dlio_benchmark::training::loader::WorkerKind;
use dlio_benchmark::training::trainer;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

#[derive(Parser)]
#[command(name = "dlio", version, about = "Traces, explains and reproduces the I/O of deep learning training")]
#[command(after_help = "Examples:
  dlio bench workload=unet3d ++workload.dataset.num_files_train=16 ++workload.dataset.record_length_bytes=2097152
  dlio trace -- python3 train.py
  dlio workloads show resnet50
  dlio check mlperf results            check results against the MLPerf Storage rules
  dlio analyze                         report on the trace in ./dlio-trace
  dlio top                             show what the programs traced into ./dlio-trace are doing

If X is not one of these commands, dlio X runs the program dlio-X.")]
struct Dlio {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a workload: generate its data, train, evaluate, checkpoint
    Bench(Box<BenchVerb>),
    /// Run any program and record its I/O
    Trace(trace::Options),
    /// Report where a traced program spent its time (`dlio analyze --help` lists the options)
    #[command(disable_help_flag = true)]
    Analyze {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT", value_hint = clap::ValueHint::AnyPath)]
        arguments: Vec<OsString>,
    },
    /// Show what traced programs are doing now (`dlio top --help` lists the options)
    #[command(disable_help_flag = true)]
    Top {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT", value_hint = clap::ValueHint::AnyPath)]
        arguments: Vec<OsString>,
    },
    /// Check results against the rules of a benchmark before you submit them
    Check {
        #[command(subcommand)]
        what: check::What,
    },
    /// List workloads, print them, and explain their keys
    Workloads {
        #[command(subcommand)]
        what: Option<Workloads>,
    },
    /// Print the completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// Write the manual pages into a directory
    Man {
        /// Directory, which is created if missing (for the pages of dlio-analyze and dlio-top, use their option --man)
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

// Without arguments, DLIO generates and reads one gigabyte for the workload `default`. `dlio bench` prints its help instead.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "Examples:
  dlio bench workload=unet3d                          generates 25 GB of data if the data set is missing
  dlio bench workload=unet3d ++workload.dataset.num_files_train=16 ++workload.dataset.record_length_bytes=2097152
  dlio bench workload=resnet50 ++workload.workflow.generate_data=true ++workload.workflow.train=false
  dlio bench workload=unet3d ++workload.reader.read_threads=1,2,4 --multirun
  dlio bench workload=llama_7b ++workload.model.num_layers=2
  dlio bench report hydra_log/unet3d/2026-11-21-00-08-48
  dlio bench size workload=unet3d --accelerators 4 --memory 64
  dlio bench ranks --ranks 8

Table of results: each row is one epoch, including its checkpoints; `eval` is the evaluation after the epoch.
  AU      share of the step time in which the accelerators computed
  wait    time that a step waited for its batch
  cached  share of the data that was in the page cache before the epoch
  MB/s    bytes that all ranks read from files per second, in units of 10^6 (in summary.json: 1024 * 1024,
          as in DLIO); for files read through the HDF5 library, such as chunked files, only the bytes of
          samples count

Exit status:
  0    done
  2    the request was rejected before any work started
  3    data are missing
  4    system error (disk full, no permission)
  5    samples could not be read: the first of them ended the run, or --on-error skip counted them
  130  interrupted (partial results are kept)"
)]
struct BenchVerb {
    #[command(subcommand)]
    what: Option<BenchWhat>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum BenchWhat {
    /// Print the results of a finished run
    Report {
        /// Directory of the run
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The former name of `dlio check mlperf`
    #[command(hide = true)]
    Check(check::Options),
    /// Compute the data size that MLPerf Storage's rules require, or each process's share of a checkpoint
    #[command(after_help = "Examples:
  dlio bench size workload=unet3d --accelerators 4 --hosts 2 --memory 64
  dlio bench size workload=llama3_1t --accelerators 1024")]
    Size {
        /// workload=NAME and overrides
        #[arg(value_name = "OVERRIDE", required = true)]
        overrides: Vec<String>,
        /// Directory with your own workload/NAME.yaml files (also `-cd DIR` and `-cp DIR`, as in Hydra)
        #[arg(long, visible_alias = "cd", alias = "config-path", value_name = "DIR")]
        config_dir: Option<PathBuf>,
        /// Number of simulated accelerators
        #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
        accelerators: u64,
        /// Number of hosts
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
        hosts: u64,
        /// Memory of each host in GiB [default: this host's memory]
        #[arg(long, value_name = "GIB", value_parser = size::gibibytes)]
        memory: Option<f64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the ranks a run would use, how they communicate and how long a barrier takes
    #[command(after_help = "Examples:
  dlio bench ranks --ranks 64
  mpirun -n 4 dlio bench ranks")]
    Ranks {
        #[command(flatten)]
        ranks: RanksOptions,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The maximum number of ranks. A larger number is probably a typing error.
const RANKS_MAX: u64 = 4096;

/// The ranks of a run, and how they communicate.
#[derive(Args)]
struct RanksOptions {
    /// Number of simulated accelerators, each with its own process; not needed under mpirun, srun or torchrun, whose
    /// processes become the ranks
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number_of_ranks)]
    ranks: Option<u64>,
    /// How ranks started by a launcher communicate: through its MPI (needs libdlio_mpi.so) or through sockets
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = ["auto", "mpi", "sockets"])]
    communicator: String,
    /// If a barrier takes longer than this, report the missing rank and its last activity, and keep waiting
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    barrier_timeout: u64,
}

impl RanksOptions {
    fn patience(&self) -> Duration {
        Duration::from_secs(self.barrier_timeout)
    }

    fn talk(&self) -> Talk {
        match self.communicator.as_str() {
            "mpi" => Talk::Mpi,
            "sockets" => Talk::Sockets,
            _ => Talk::Auto,
        }
    }

    /// Returns the rank that a launcher assigned to this process, if a launcher started it.
    fn world(&self) -> Outcome<Option<LaunchInfo>> {
        let world = launcher::world(self.ranks)?;
        if world.is_none() && self.talk() == Talk::Mpi {
            return Err(Failure::refused("--communicator=mpi: no launcher started dlio as several processes")
                .remedy("start dlio with mpirun, or use --ranks N, which does not need MPI"));
        }
        Ok(world)
    }
}

fn number_of_ranks(text: &str) -> Result<u64, String> {
    let number = text.trim().parse::<u64>().ok().filter(|number| (1..=RANKS_MAX).contains(number));
    number.ok_or_else(|| format!("expected a number from 1 to {RANKS_MAX}"))
}

#[derive(Subcommand)]
enum Workloads {
    /// List the workloads, one per line
    List,
    /// Print the YAML of a workload
    Show {
        /// Name of the workload, or a path to a .yaml file
        name: String,
    },
    /// Explain a key (its meaning, default and effects), or list the keys of a section or all keys
    Explain {
        /// A key such as reader.read_threads, or a section such as reader [default: all keys]
        key: Option<String>,
    },
}

#[derive(Args)]
struct Options {
    /// workload=NAME and overrides: key=value, +key=value, ++key=value, ~key
    #[arg(value_name = "OVERRIDE", allow_hyphen_values = false)]
    overrides: Vec<String>,
    /// Directory with your own workload/NAME.yaml files (also `-cd DIR` and `-cp DIR`, as in Hydra)
    #[arg(long, visible_alias = "cd", alias = "config-path", value_name = "DIR")]
    config_dir: Option<PathBuf>,
    /// Read all files under this directory, whatever their names, instead of generated files
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the configuration instead of running; KIND is `job`, as in Hydra
    #[arg(long, short = 'c', value_name = "KIND", num_args = 0..=1, default_missing_value = "job", value_parser = kind)]
    cfg: Option<String>,
    /// Run once for each combination of values; give the values of a key as a,b,c
    #[arg(long, short = 'm')]
    multirun: bool,
    /// Run each value of KEY several times, in random order, and report the best: KEY=a,b,c or KEY=64K..8M
    #[arg(long, value_name = "KEY=VALUES", conflicts_with_all = ["multirun", "trace", "cfg"])]
    sweep: Vec<String>,
    /// Number of runs per setting of a sweep
    #[arg(long, value_name = "N", default_value_t = 3, requires = "sweep", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeat: u16,
    /// Store the same samples once in one file per sample and once in SHARDS shards [default: 20], and compare the two;
    /// uses the file system and also, if the workload has one, the object store
    #[arg(long, value_name = "SHARDS", num_args = 0..=1, require_equals = true, default_missing_value = "20", conflicts_with_all = ["multirun", "trace", "cfg", "sweep"], value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    compare_layouts: Option<u64>,
    /// Ignore unknown keys, with a warning
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    ranks: RanksOptions,
    /// Drop the data set from the page cache before each epoch
    #[arg(long)]
    drop_caches: bool,
    /// Keep the CPU busy during simulated computation instead of sleeping
    #[arg(long)]
    busy_compute: bool,
    /// Read in DLIO's order, without shuffling
    #[arg(long)]
    dlio_order: bool,
    /// Run loader workers as processes or as threads
    #[arg(long, value_name = "KIND", default_value = "processes", value_parser = ["processes", "threads"])]
    workers: String,
    /// What to do if a sample cannot be read: stop, or skip and count the sample; the exit status is 5 in both cases
    #[arg(long, value_name = "WHAT", default_value = "stop", value_parser = ["stop", "skip"])]
    on_error: String,
    /// Before the run, read the data set back and check its contents
    #[arg(long)]
    verify: bool,
    /// Rewrite existing files
    #[arg(long)]
    regenerate: bool,
    /// Trace the run into DIR [default: `trace` in the run directory]
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    trace: Option<Option<PathBuf>>,
    /// Print neither progress nor tables
    #[arg(long, short)]
    quiet: bool,
}

/// Parses the word after `--cfg`, which is one of Hydra's kinds or, if no kind is given, the first override.
fn kind(word: &str) -> Result<String, String> {
    match word {
        "job" | "all" | "hydra" => Ok(word.into()),
        _ if word.contains('=') => Ok(word.into()),
        _ => Err("expected `job`, or no value".into()),
    }
}

/// The command line of DLIO's own program.
#[derive(Parser)]
#[command(name = "dlio_benchmark", version, about = "DLIO's command line: workload=NAME ++workload.section.key=value")]
struct Original {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let own_name =
        arguments.first().map(PathBuf::from).and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let outcome = if own_name.as_deref() == Some("dlio_benchmark") {
        let typed = spelt_out(arguments, 1);
        let original = Original::try_parse_from(&typed).unwrap_or_else(|error| refuse(error, &typed));
        run(&original.options, true)
    } else {
        match trace_options(&arguments) {
            Some(options) => trace::run(&options),
            None => parse_and_act(arguments),
        }
    };
    ExitCode::from(code_of(outcome) as u8)
}

/// Parses the command line if the verb is `trace`, without building the options of all verbs, which would take longer than many
/// traced commands do. Returns `None` for another verb, for `--help`, and for an error. The parser of all verbs then
/// handles the command line.
fn trace_options(arguments: &[OsString]) -> Option<trace::Options> {
    let words = arguments.get(1..).filter(|words| words.first().is_some_and(|verb| verb == "trace"))?;
    let matches = trace::Options::augment_args(clap::Command::new("trace")).try_get_matches_from(words).ok()?;
    trace::Options::from_arg_matches(&matches).ok()
}

fn parse_and_act(arguments: Vec<OsString>) -> Outcome<i32> {
    run_other_program(&arguments);
    let typed = plain(arguments);
    act(Dlio::try_parse_from(&typed).unwrap_or_else(|error| refuse(error, &typed)).verb)
}

/// Ends the program because of an error in its command line. If an option or verb belongs to another program, the message names
/// dlio's equivalent.
fn refuse(mut error: clap::Error, typed: &[OsString]) -> ! {
    let words: Vec<String> = typed.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(message) = foreign_options::message(&error, &words) {
        terminal::warn(message);
        std::process::exit(error.exit_code());
    }
    let is_bench = words.get(1).is_some_and(|verb| verb == "bench")
        || words.first().is_some_and(|program| Path::new(program).file_name() == Some("dlio_benchmark".as_ref()));
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if error.kind() == ErrorKind::UnknownArgument && is_bench => option.clone(),
        _ => terminal::refuse(error, typed),
    };
    // clap reports the option without its value, but the hint also needs the value.
    let whole = words.iter().rfind(|word| word.split('=').next() == Some(&unknown)).unwrap_or(&unknown);
    if let Some(hint) = foreign_options::bench_hint(whole) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    terminal::refuse(error, typed)
}

/// Rewrites `dlio --completions bash` to `dlio completions bash`, because users know the former syntax from dlio-analyze.
fn plain(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if let Some(first) = arguments.get_mut(1).filter(|first| *first == "--completions") {
        *first = "completions".into();
    }
    if arguments.get(1).is_some_and(|verb| verb == "bench") { spelt_out(arguments, 2) } else { arguments }
}

/// Hydra's options with one dash and two letters, which clap would parse as `-c` with a value, and their equivalents in dlio.
const TWO_LETTERS: [(&str, &str); 3] = [("-cd", "--config-dir"), ("-cp", "--config-dir"), ("-cn", "--config-name")];

/// Replaces Hydra's two-letter options with their long forms.
fn spelt_out(mut arguments: Vec<OsString>, first: usize) -> Vec<OsString> {
    for word in arguments.iter_mut().skip(first).take_while(|word| *word != "--") {
        let Some(typed) = word.to_str() else { continue };
        let (option, value) = typed.split_at(typed.find('=').unwrap_or(typed.len()));
        if let Some((_, full)) = TWO_LETTERS.iter().find(|(short, _)| *short == option) {
            *word = format!("{full}{value}").into();
        }
    }
    arguments
}

fn code_of(outcome: Outcome<i32>) -> i32 {
    outcome.unwrap_or_else(|failure| {
        // If there is no message, another rank has reported the failure.
        if !failure.what.is_empty() {
            terminal::warn(format_args!("dlio: {failure}"));
        }
        failure.exit_code()
    })
}

/// The verbs that other programs implement.
const ELSEWHERE: [&str; 2] = ["analyze", "top"];

/// Replaces this program with `dlio-X` if the first word X is not a verb implemented here and `dlio-X` exists.
fn run_other_program(arguments: &[OsString]) {
    let Some(word) = arguments.get(1).and_then(|word| word.to_str()) else { return };
    let ours = Dlio::command().get_subcommands().any(|verb| verb.get_name() == word) || word == "help";
    if ours && !ELSEWHERE.contains(&word) || word.starts_with('-') {
        return;
    }
    if let Some(program) = locate::program(&format!("dlio-{word}")) {
        let error = Command::new(&program).args(&arguments[2..]).exec();
        terminal::warn(format_args!("dlio: {}: {error}", program.display()));
    }
}

fn missing(program: &str) -> Failure {
    Failure::refused(format!("cannot find {program} next to this program or in PATH"))
        .remedy("it is part of dlio: reinstall dlio, or add its directory to PATH")
}

fn act(verb: Verb) -> Outcome<i32> {
    match verb {
        Verb::Bench(verb) => match verb.what {
            Some(BenchWhat::Report { folder, json }) => report::print(&folder, json).map(|()| 0),
            Some(BenchWhat::Check(options)) => check::mlperf(&options),
            Some(BenchWhat::Size { overrides, config_dir, accelerators, hosts, memory, json }) => {
                let config = bench::configuration(overrides, config_dir)?;
                size::size(&config, &SizeRequest { accelerators, hosts, memory_gibibytes: memory }, json).map(|()| 0)
            }
            Some(BenchWhat::Ranks { ranks: options, json }) => ranks(&options, json),
            None => run(&verb.options, false),
        },
        Verb::Trace(options) => trace::run(&options),
        Verb::Check { what: check::What::Mlperf(options) } => check::mlperf(&options),
        // These two verbs are reached only if their programs are missing.
        Verb::Analyze { .. } => Err(missing("dlio-analyze")),
        Verb::Top { .. } => Err(missing("dlio-top")),
        Verb::Workloads { what } => {
            let text = match what.unwrap_or(Workloads::List) {
                Workloads::List => workloads::list(),
                Workloads::Show { name } => workloads::show(&name)?,
                Workloads::Explain { key } => workloads::explain(key.as_deref())?,
            };
            terminal::answer(&text).map(|()| 0)
        }
        Verb::Man { folder } => manual::write(Dlio::command(), &ELSEWHERE, &folder).map(|()| 0),
        Verb::Completions { shell } => terminal::answer(&completions::script(shell, &mut Dlio::command())).map(|()| 0),
    }
}

impl Options {
    /// Returns the overrides, including those that `--data` stands for. If `-c` has no value of its own, the word after it is the
    /// first override.
    fn overrides(&self) -> Vec<String> {
        let data = |folder: &PathBuf| {
            let folder = folder.display().to_string().replace('"', "\\\"");
            [format!("++workload.dataset.data_folder=\"{folder}\""), "++workload.dataset.listing=true".into()]
        };
        let typed = self.cfg.iter().filter(|word| word.contains('=')).chain(&self.overrides).cloned();
        typed.chain(self.data.iter().flat_map(data)).collect()
    }

    /// Returns `true` if the run should be traced and this process is not traced yet, so that it has to restart itself.
    fn starts_again(&self) -> bool {
        self.trace.is_some() && !locate::is_traced()
    }

    /// Returns the request for a run. Only rank 0 prints.
    fn request(&self, as_original: bool, world: Option<&LaunchInfo>) -> Request {
        let program = std::env::args().next().unwrap_or_else(|| "dlio".into());
        let verb = (!as_original).then(|| "bench".to_string());
        let quiet = self.quiet || !is_first(world);
        Request {
            called: [program].into_iter().chain(verb).collect(),
            overrides: self.overrides(),
            config_dir: self.config_dir.clone(),
            lenient: self.lenient,
            training: trainer::Options {
                drop_caches: self.drop_caches,
                busy: self.busy_compute,
                skip_failures: self.on_error == "skip",
                shown: !quiet,
            },
            original_order: self.dlio_order,
            workers: if self.workers == "threads" { WorkerKind::Threads } else { WorkerKind::Processes },
            verify: self.verify,
            regenerate: self.regenerate,
            ranks: world.map_or(self.ranks.ranks.unwrap_or(1), |world| world.size),
            barrier_timeout: self.ranks.patience(),
            multirun: self.multirun,
            as_original,
            quiet,
        }
    }
}

fn is_first(world: Option<&LaunchInfo>) -> bool {
    world.is_none_or(|world| world.rank == 0)
}

fn run(options: &Options, as_original: bool) -> Outcome<i32> {
    if !options.sweep.is_empty() {
        return sweep(options, as_original);
    }
    if let Some(shards) = options.compare_layouts {
        return compare_layouts(options, shards, as_original);
    }
    let world = options.ranks.world()?;
    let request = options.request(as_original, world.as_ref());
    if options.cfg.is_some() {
        return answer(&bench::configurations(&request)?.concat(), world.as_ref());
    }
    let Some(world) = world else { return run_all(bench::prepare(&request)?, options, &request, None) };
    // A process can join MPI only once. If the run restarts in a traced process, that process has to join.
    let talk = if options.starts_again() { Talk::Sockets } else { options.ranks.talk() };
    let mut joined = ExternalRanks::connect(&world, &bench::shared_folder(&request), request.barrier_timeout, talk)?;
    let prepared = bench::prepare(&request);
    let terms = |runs: &Vec<Run>| runs.iter().map(Run::terms).collect::<String>();
    let outcome = agreement::all_prepared(joined.ranks(), prepared, terms)
        .and_then(|runs| run_all(runs, options, &request, Some(&mut joined)));
    joined.part(outcome)
}

/// Reports the ranks, which are processes on this host or the processes that a launcher started.
fn ranks(options: &RanksOptions, as_json: bool) -> Outcome<i32> {
    let Some(world) = options.world()? else {
        let count = options.ranks.unwrap_or(1);
        if count == 1 {
            return ranks::report(&mut Single, "itself", as_json).map(|()| 0);
        }
        let name = "shared memory and sockets";
        let body = |ranks: &mut dyn Communicator| code_of(ranks::report(ranks, name, as_json).map(|()| 0));
        let started = ChildRanks::spawn(count, options.patience(), &body);
        let mut local =
            started.map_err(|error| Failure::new(Kind::System, format!("cannot start the ranks: {error}")))?;
        let outcome = ranks::report(local.communicator(), name, as_json);
        return local.join(outcome).map(|()| 0);
    };
    let mut joined = ExternalRanks::connect(&world, &PathBuf::from("."), options.patience(), options.talk())?;
    let name = joined.name();
    let outcome = ranks::report(joined.ranks(), &name, as_json).map(|()| 0);
    joined.part(outcome)
}

/// Runs the sweep in a new directory under `hydra_log`.
fn sweep(options: &Options, as_original: bool) -> Outcome<i32> {
    if options.ranks.world()?.is_some() {
        return Err(Failure::refused("--sweep starts its own ranks").remedy("use --ranks instead of a launcher"));
    }
    let knobs: Vec<Knob> = options.sweep.iter().map(|typed| Knob::parse(typed)).collect::<Outcome<_>>()?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = since.as_nanos() as u64;
    let folder = PathBuf::from(format!("hydra_log/sweep-{}-{}", since.as_secs(), std::process::id()));
    sweep::run(&options.request(as_original, None), &knobs, usize::from(options.repeat), seed, &folder)?;
    let folder = folder.display();
    terminal::line(format_args!("results: {folder}/sweep.json; page: {folder}/sweep.html"));
    Ok(0)
}

/// Runs the comparison in a new directory under `hydra_log`.
fn compare_layouts(options: &Options, shards: u64, as_original: bool) -> Outcome<i32> {
    if options.ranks.world()?.is_some() {
        let refused = Failure::refused("--compare-layouts starts its own ranks");
        return Err(refused.remedy("use --ranks instead of a launcher"));
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let folder = PathBuf::from(format!("hydra_log/layouts-{}-{}", since.as_secs(), std::process::id()));
    compare_layouts::run(&options.request(as_original, None), shards, &folder)?;
    terminal::line(format_args!("results: {}/layouts.json", folder.display()));
    Ok(0)
}

fn answer(text: &str, world: Option<&LaunchInfo>) -> Outcome<i32> {
    if is_first(world) { terminal::answer(text).map(|()| 0) } else { Ok(0) }
}

/// Executes all runs in order, either alone or as a rank that a launcher started.
fn run_all(
    runs: Vec<Run>,
    options: &Options,
    request: &Request,
    mut joined: Option<&mut ExternalRanks>,
) -> Outcome<i32> {
    for mut run in runs {
        if let Some(text) = run.answer() {
            if joined.as_mut().is_none_or(|joined| joined.ranks().rank() == 0) {
                terminal::answer(&format!("{text}\n"))?;
            }
            continue;
        }
        run.introduce(request);
        let ranks = joined.as_mut().map(|joined| joined.ranks());
        if let Some(folder) = options.trace.as_ref().filter(|_| options.starts_again()) {
            let code = bench_traced::run(&mut run, folder.as_deref(), ranks)?;
            if code != 0 {
                return Ok(code);
            }
            continue;
        }
        match ranks {
            Some(ranks) => run.start_as(request, ranks)?,
            None => run.start(request)?,
        }
    }
    Ok(0)
}
