//! One run from request to results: compose, check, generate, train, write. The order is the promise: nothing is written
//! before everything typed has been understood and found possible.

use crate::agreement;
use crate::checkpoint::{self, Shards};
use crate::communicator::{Communicator, Single, as_bytes, numbers};
use crate::config::{Checkpoints, Config, LoaderKind};
use crate::devices::Sampler;
use crate::failure::{Failure, Kind, Outcome};
use crate::fingerprint::{self, Difference, Fingerprint};
use crate::generate::{self, Keep, Part};
use crate::grammar::{self, Override};
use crate::host::{self, Host};
use crate::interpolation;
use crate::keys;
use crate::layout::{Layout, Split};
use crate::loader::{self, Terms, WorkerKind};
use crate::local::Local;
use crate::locate;
use crate::metrics;
use crate::outputs::{Log, RunFolder};
use crate::progress::Progress;
use crate::random::mixed;
use crate::results::{Results, Status};
use crate::rules;
use crate::spans;
use crate::system;
use crate::terminal;
use crate::tiers::Tiered;
use crate::training::{Habits, Trainer};
use crate::value::Value;
use crate::workload::{self, Composed};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything that was typed.
#[derive(Debug, Clone)]
pub struct Request {
    /// What the program was called by, with the verb: the words a command to type begins with.
    pub called: Vec<String>,
    pub overrides: Vec<String>,
    pub config_dir: Option<PathBuf>,
    /// Unknown keys are told and left out instead of refused.
    pub lenient: bool,
    pub habits: Habits,
    pub original_order: bool,
    pub workers: WorkerKind,
    pub verify: bool,
    pub regenerate: bool,
    pub ranks: u64,
    /// After this long at a barrier it is said who is missing.
    pub barrier_timeout: Duration,
    /// Several values of a key are several runs.
    pub multirun: bool,
    /// Called by DLIO's own name: its lines on the terminal, its reading of every key.
    pub as_original: bool,
    pub quiet: bool,
}

/// A run ready to begin.
#[derive(Debug)]
pub struct Run {
    pub config: Config,
    pub composed: Composed,
    pub overrides: Vec<Override>,
    pub folder: PathBuf,
    /// Nobody said where: the folder is made anew, whoever else begins in the same second.
    own_folder: bool,
    /// What differs from what the words may suggest, a line each.
    pub notes: Vec<String>,
    /// The words of this very command that come before its overrides.
    pub called: Vec<String>,
    /// The data set is to be made first, though nobody asked: there is none and the place is our own.
    pub generate_first: bool,
}

/// The runs a request asks for: one, or one for each combination of a sweep.
pub fn prepare(request: &Request) -> Outcome<Vec<Run>> {
    let combinations = combinations(&parsed(request)?, request.multirun)?;
    let many = combinations.len() > 1;
    let mut runs = Vec::new();
    for (number, overrides) in combinations.into_iter().enumerate() {
        let mut run = prepare_one(request, overrides)?;
        if many {
            run.folder.push(number.to_string());
        }
        runs.push(run);
    }
    Ok(runs)
}

/// The composed configuration of each run as YAML. Whether such a run is possible here does not matter.
pub fn configurations(request: &Request) -> Outcome<Vec<String>> {
    combinations(&parsed(request)?, request.multirun)?
        .iter()
        .map(|overrides| {
            let (composed, _) = composed(request, overrides)?;
            Ok(Value::Map(vec![("workload".into(), composed.written)]).to_yaml())
        })
        .collect()
}

fn parsed(request: &Request) -> Outcome<Vec<Override>> {
    request.overrides.iter().map(|text| grammar::parse(text)).collect()
}

fn combinations(typed: &[Override], multirun: bool) -> Outcome<Vec<Vec<Override>>> {
    if let Some(sweep) = typed.iter().find(|typed| typed.values.len() > 1 && !multirun) {
        let what = format!("`{}` has several values", sweep.typed);
        return Err(Failure::refused(what)
            .remedy("quote the value if it is one, write a list as [a,b], or add --multirun for a run each"));
    }
    let runs = typed.iter().fold(1usize, |runs, typed| runs.saturating_mul(typed.values.len().max(1)));
    if runs > grammar::SWEEP_MAX {
        return Err(Failure::refused(format!(
            "that is a sweep of {runs} runs, and {} are the most",
            grammar::SWEEP_MAX
        )));
    }
    let mut all: Vec<Vec<Override>> = vec![Vec::new()];
    for typed in typed {
        let variants: Vec<Override> = match typed.values.len() {
            0 | 1 => vec![typed.clone()],
            _ => typed.values.iter().map(|value| one_of(typed, value)).collect(),
        };
        all = all
            .iter()
            .flat_map(|before| variants.iter().map(|variant| [before.clone(), vec![variant.clone()]].concat()))
            .collect();
    }
    Ok(all)
}

fn one_of(sweep: &Override, value: &Value) -> Override {
    let key = sweep.typed.split('=').next().unwrap_or_default();
    Override { typed: format!("{key}={}", value.inline()), values: vec![value.clone()], ..sweep.clone() }
}

/// A folder that all machines of a run see: the one that its results go to, if it was typed, or the one it was typed in.
pub fn shared_folder(request: &Request) -> PathBuf {
    let place = |typed: &Override| match &typed.values[..] {
        [Value::Text(folder)] if !folder.contains("${") => Some(PathBuf::from(folder)),
        _ => None,
    };
    let folders = ["hydra.run.dir", "workload.output.folder"];
    let typed = request.overrides.iter().rev().filter_map(|text| grammar::parse(text).ok());
    let found = typed.filter(|typed| folders.contains(&typed.key.as_str())).find_map(|typed| place(&typed));
    found.unwrap_or_else(|| PathBuf::from("."))
}

/// What words come to that are no run.
pub fn configuration(overrides: Vec<String>, config_dir: Option<PathBuf>) -> Outcome<Config> {
    let typed: Vec<Override> = overrides.iter().map(|text| grammar::parse(text)).collect::<Outcome<_>>()?;
    let mut composed = workload::compose(&typed, config_dir.as_deref())?;
    match composed.complaints.is_empty() {
        true => Config::read(&composed.workload),
        false => Err(joined(&mut composed.complaints)),
    }
}

/// What the words come to, and what that means.
fn composed(request: &Request, overrides: &[Override]) -> Outcome<(Composed, Config)> {
    let mut composed = workload::compose(overrides, request.config_dir.as_deref())?;
    settle_complaints(&mut composed, request)?;
    if !request.as_original {
        scale_spread(&mut composed, overrides, request);
    }
    let config = Config::read(&composed.workload)?;
    Ok((composed, config))
}

fn prepare_one(request: &Request, overrides: Vec<Override>) -> Outcome<Run> {
    let (composed, mut config) = composed(request, &overrides)?;
    let mut complaints = rules::complaints(&config, request.ranks);
    if !complaints.is_empty() {
        return Err(joined(&mut complaints));
    }
    let generate_first = should_generate_first(&config, &overrides, request);
    config.workflow.generate |= generate_first;
    let (folder, own_folder) = run_folder(&config, &composed)?;
    let notes = composed.ignored.clone();
    let mut run =
        Run { config, composed, overrides, folder, own_folder, notes, generate_first, called: called(request) };
    if run.answer().is_none() {
        run.settle_data_set()?;
    }
    Ok(run)
}

/// The program, and the options without which the overrides would mean something else.
fn called(request: &Request) -> Vec<String> {
    let folder = request.config_dir.iter().flat_map(|folder| ["--config-dir".into(), folder.display().to_string()]);
    let lenient = request.lenient.then(|| "--lenient".to_string());
    request.called.iter().cloned().chain(folder).chain(lenient).collect()
}

fn settle_complaints(composed: &mut Composed, request: &Request) -> Outcome<()> {
    if composed.complaints.is_empty() {
        return Ok(());
    }
    if !request.lenient {
        return Err(joined(&mut composed.complaints));
    }
    for complaint in composed.take_complaints() {
        terminal::warn(format_args!("warning: {} (left out)", complaint.what));
    }
    Ok(())
}

fn joined(complaints: &mut Vec<Failure>) -> Failure {
    let first = complaints.remove(0);
    let rest: String = complaints.drain(..).map(|failure| format!("\n{failure}")).collect();
    Failure { what: format!("{first}{rest}"), remedy: String::new(), kind: first.kind }
}

/// A smaller record typed over a workload that spreads its sizes would keep the spread of the large one, and most files
/// would be a byte or a gigabyte. The spread follows the length unless it was typed too.
fn scale_spread(composed: &mut Composed, overrides: &[Override], request: &Request) {
    let number = |tree: &Value, key| match tree.at(&["dataset", key]) {
        Some(Value::Int(number)) => Some(*number as f64),
        Some(Value::Float(number)) => Some(*number),
        _ => None,
    };
    let typed = |key: &str| overrides.iter().any(|typed| typed.key == format!("workload.dataset.{key}"));
    let (Some(own), Some(spread)) =
        (number(&composed.found.tree, "record_length_bytes"), number(&composed.workload, "record_length_bytes_stdev"))
    else {
        return;
    };
    let Some(asked) = number(&composed.workload, "record_length_bytes") else { return };
    if typed("record_length_bytes_stdev") || !typed("record_length_bytes") || spread <= asked || own <= 0.0 {
        return;
    }
    let scaled = (spread * asked / own).round();
    for tree in [&mut composed.workload, &mut composed.written] {
        tree.put(&["dataset", "record_length_bytes_stdev"], Value::Int(scaled as i64));
    }
    // The traced run was told of it before it began anew under the library.
    if !request.quiet && !locate::is_traced() {
        terminal::warn(format_args!(
            "note: record_length_bytes_stdev follows the record length: {scaled} instead of {spread}"
        ));
    }
}

/// Where nobody said where the data are and there are none, they are made: the first run is one line to type.
fn should_generate_first(config: &Config, overrides: &[Override], request: &Request) -> bool {
    let place_typed = overrides.iter().any(|typed| {
        matches!(
            typed.key.as_str(),
            "workload.dataset.data_folder" | "workload.storage.storage_root" | "workload.workflow.generate_data"
        )
    });
    let reads = config.workflow.train && config.reader.loader != LoaderKind::Synthetic;
    reads && !config.workflow.generate && !place_typed && !request.as_original && !config.dataset.folder.exists()
}

/// `output.folder`, or Hydra's run folder, or its default; whether it is the default.
fn run_folder(config: &Config, composed: &Composed) -> Outcome<(PathBuf, bool)> {
    if let Some(folder) = &config.output.folder {
        return Ok((folder.clone(), false));
    }
    let (template, default) = match composed.hydra.at(&["run", "dir"]) {
        Some(template) => (template.clone(), false),
        None => (Value::Text("./hydra_log/${workload.model.name}/${now:%Y-%m-%d}-${now:%H-%M-%S}".into()), true),
    };
    let root = [("workload", &composed.workload), ("hydra", &composed.hydra)];
    let root = Value::Map(root.map(|(key, tree)| (key.to_string(), tree.clone())).into());
    match interpolation::resolved(&root, &template, &["hydra", "run", "dir"])? {
        Value::Text(folder) => Ok((PathBuf::from(folder), default)),
        other => Ok((PathBuf::from(other.inline()), default)),
    }
}

impl Run {
    /// The value of the key that `workflow.query` asks for.
    pub fn answer(&self) -> Option<String> {
        let key = self.config.workflow.query.as_deref()?;
        let path: Vec<&str> = key.split('.').collect();
        let said = self.composed.workload.at(&path).map(Value::inline);
        said.or_else(|| keys::find(key).map(|key| key.default.to_string())).or(Some("None".into()))
    }

    /// The command that makes the data set this run misses.
    fn generate_command(&self) -> String {
        let typed = self.called.iter().chain(self.overrides.iter().map(|typed| &typed.typed));
        let words: Vec<String> = typed.map(|word| shell_word(word)).collect();
        format!("{} ++workload.workflow.generate_data=true ++workload.workflow.train=false", words.join(" "))
    }

    /// Whether the data are there, or there is room for them; whether checkpoints can be written.
    pub fn check_disk(&mut self) -> Outcome<()> {
        self.check_data()?;
        let Config { workflow, checkpoint, .. } = &self.config;
        // Without training checkpoints may be asked for that are only read.
        let saves = workflow.checkpoint && (workflow.train || checkpoint.writes > 0);
        let folders = [&checkpoint.folder].into_iter().chain(&checkpoint.fast_folder);
        folders.filter(|_| saves).try_for_each(|folder| checkpoint::check_folder(folder))
    }

    /// Makes the run folder where nobody said which: one that no other run has, even of the same second.
    pub fn reserve_folder(&mut self) -> Outcome<()> {
        if !self.own_folder {
            return Ok(());
        }
        let failed = |path: &Path, error| Failure::unwritable("making the run folder", path, error);
        let wanted = self.folder.clone();
        if let Some(above) = wanted.parent() {
            std::fs::create_dir_all(above).map_err(|error| failed(above, error))?;
        }
        for number in 1.. {
            match std::fs::create_dir(&self.folder) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    let mut name = wanted.clone().into_os_string();
                    name.push(format!("-{number}"));
                    self.folder = PathBuf::from(name);
                }
                made => {
                    made.map_err(|error| failed(&self.folder, error))?;
                    break;
                }
            }
        }
        self.own_folder = false;
        Ok(())
    }

    /// Holds what is asked for against what is known of the files that are there. What was said must be so; what was not
    /// is as it was made.
    fn settle_data_set(&mut self) -> Outcome<()> {
        if !self.reads_data() || self.config.workflow.generate {
            return Ok(());
        }
        for split in self.splits() {
            self.read_in_part(split);
            let layout = Layout::new(&self.config.dataset);
            let Some(made) = Fingerprint::found(&layout, split)? else { continue };
            let differences = made.differences(&Fingerprint::of(&layout, split)?);
            let (said, unsaid): (Vec<_>, Vec<_>) =
                differences.into_iter().partition(|difference| self.is_said(difference));
            if !said.is_empty() {
                return Err(self.other_data_set(&said));
            }
            self.take_over(&unsaid)?;
        }
        Ok(())
    }

    /// Where there are more files than asked for the first of them are read, as DLIO does.
    fn read_in_part(&mut self, split: Split) {
        let layout = Layout::new(&self.config.dataset);
        if layout.path(split, 0).exists() {
            return;
        }
        if let Some(total) = layout.larger_set(split) {
            self.config.dataset.named[split as usize] = total;
            let folder = layout.dataset.folder.join(split.folder());
            self.notes.push(format!(
                "the first {} of {total} files in {} are read",
                layout.files(split),
                folder.display()
            ));
        }
    }

    fn reads_data(&self) -> bool {
        self.config.workflow.train && self.config.reader.loader != LoaderKind::Synthetic
    }

    fn splits(&self) -> impl Iterator<Item = Split> + use<> {
        let evaluates = self.config.workflow.evaluate;
        [Split::Train, Split::Valid].into_iter().filter(move |split| *split == Split::Train || evaluates)
    }

    /// Whether the configuration says the key, which is another one for the shape.
    fn is_said(&self, difference: &Difference) -> bool {
        let says = |key: &str| {
            let path: Vec<&str> = ["dataset"].into_iter().chain(key.split('.')).collect();
            !matches!(self.composed.workload.at(&path), None | Some(Value::Null))
        };
        match difference.key.as_str() {
            "record_dims" | "record_length_bytes" | "record_length_bytes_stdev" => {
                says("record_dims") || says("record_length_bytes") || says("record_length_bytes_stdev")
            }
            "writer" => false,
            key => says(key),
        }
    }

    fn other_data_set(&self, differences: &[Difference]) -> Failure {
        let place = self.config.dataset.folder.display();
        let what = format!("the data set at {place} was made with {}", fingerprint::told(differences));
        Failure::new(Kind::MissingData, what).remedy(format!(
            "say what it was made with to measure it, or make the other one with\n    {}",
            self.generate_command()
        ))
    }

    fn take_over(&mut self, differences: &[Difference]) -> Outcome<()> {
        let known = differences.iter().filter(|difference| difference.key != "writer");
        for (difference, made) in known.filter_map(|difference| Some((difference, difference.made.as_ref()?))) {
            self.composed.workload.put(&difference.path(), Value::from(made));
            let note = format!("the data set was made with {}, and is read so", difference.told());
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        let mut config = Config { workflow: self.config.workflow.clone(), ..Config::read(&self.composed.workload)? };
        config.dataset.named = self.config.dataset.named;
        self.config = config;
        Ok(())
    }

    fn check_data(&mut self) -> Outcome<()> {
        let layout = Layout::new(&self.config.dataset);
        if self.config.workflow.generate {
            return generate::check_space(&layout);
        }
        if !self.reads_data() {
            return Ok(());
        }
        if let Some(path) = generate::missing_file(&layout) {
            let what = format!("the data set is not there: {} is missing", path.display());
            return Err(Failure::new(Kind::MissingData, what)
                .remedy(format!("generate it with\n    {}", self.generate_command())));
        }
        for split in self.splits() {
            // Of those made here it is known how.
            if Fingerprint::found(&layout, split)?.is_none()
                && let Some(difference) = fingerprint::looked_at(&layout, split)?
            {
                self.notes.push(format!("the data set is not as asked for and is read as it is: {difference}"));
            }
        }
        Ok(())
    }

    /// Runs on all ranks, which are processes of this machine.
    pub fn start(&mut self, request: &Request) -> Outcome<()> {
        let (folder, foreign) = self.open(request)?;
        let rank = Rank { run: self, request, folder, foreign };
        if request.ranks <= 1 {
            return rank.work(&mut Single);
        }
        let started = Local::spawn(request.ranks, request.barrier_timeout, &|local| code_of(&rank.work(local)));
        let mut local = started.map_err(|error| Failure::new(Kind::System, format!("starting the ranks: {error}")))?;
        let outcome = rank.work(local.communicator());
        local.join(outcome)
    }

    /// Runs as one of the ranks that somebody else started.
    pub fn start_as(&mut self, request: &Request, communicator: &mut dyn Communicator) -> Outcome<()> {
        let first = communicator.rank() == 0;
        let opened = if first { Some(self.open(request)) } else { None };
        let said = opened.map(|opened| {
            opened.map(|(folder, [train, valid])| {
                format!("{}{}{}", u8::from(train), u8::from(valid), folder.path.display())
            })
        });
        system::note_interrupts();
        let told = agreement::told_by_first(communicator, said)?;
        let foreign = [0, 1].map(|split| told.as_bytes().get(split) == Some(&b'1'));
        self.folder = PathBuf::from(told.get(2..).unwrap_or_default());
        let folder = RunFolder { path: self.folder.clone() };
        if !first {
            // Another machine may have a folder of its own there.
            folder.make()?;
        }
        Rank { run: self, request, folder, foreign }.work(communicator)
    }

    /// What the ranks of a run must agree on.
    pub fn terms(&self) -> String {
        let mut config = self.config.clone();
        // It may have the time in it, and is what rank 0 says.
        config.output.folder = None;
        format!("{config:#?}")
    }

    /// Makes what all ranks write into: the run folder, whether files of another program are among the data set's.
    fn open(&mut self, request: &Request) -> Outcome<(RunFolder, [bool; 2])> {
        self.check_disk()?;
        system::note_interrupts();
        self.reserve_folder()?;
        let folder = RunFolder::create(self.folder.clone())?;
        folder.clear()?;
        let foreign = self.prepare_generation(request)?;
        if !request.quiet {
            self.notes.iter().for_each(|note| terminal::line(format_args!("note: {note}")));
        }
        let subfolder = match self.composed.hydra.get("output_subdir") {
            Some(Value::Text(name)) => name.as_str(),
            _ => ".hydra",
        };
        folder.write_configuration(subfolder, &self.composed.written, &self.composed.hydra, &self.overrides)?;
        Ok((folder, foreign))
    }

    /// Sees to it that no file stays that was made otherwise.
    fn prepare_generation(&mut self, request: &Request) -> Outcome<[bool; 2]> {
        if !self.config.workflow.generate {
            return Ok([false; 2]);
        }
        let layout = Layout::new(&self.config.dataset);
        generate::make_folders(&layout)?;
        let prepared = fingerprint::prepare(&layout, request.regenerate)?;
        self.notes.extend(prepared.words);
        Ok(prepared.foreign)
    }

    /// What is run, where that is not what was typed.
    pub fn introduce(&self, request: &Request) {
        if request.quiet || locate::is_traced() {
            return;
        }
        if let Some(alias) = &self.composed.found.alias {
            terminal::line(format_args!("workload {alias} is {}", self.composed.found.name));
        }
        if self.generate_first {
            terminal::line(format_args!(
                "there is no data set at {}; it is generated first",
                self.config.dataset.folder.display()
            ));
        }
    }
}

/// In a child nobody else prints what went wrong.
fn code_of(outcome: &Outcome<()>) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            // Without a word: rank 0 has said it.
            if failure.kind != Kind::Interrupted && !failure.what.is_empty() {
                terminal::warn(format_args!("dlio: {failure}"));
            }
            failure.exit_code()
        }
    }
}

fn shell_word(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_alphanumeric() || "+=._/:-~,@%".contains(c));
    if plain { text.to_string() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// One rank of a run.
struct Rank<'a> {
    run: &'a Run,
    request: &'a Request,
    folder: RunFolder,
    /// By split: files of another program may be among those that are there.
    foreign: [bool; 2],
}

impl Rank<'_> {
    fn work(&self, communicator: &mut dyn Communicator) -> Outcome<()> {
        let _span = spans::span("root", spans::PIPELINE, &[("rank", communicator.rank())]);
        let config = &self.run.config;
        let mut log = Log::create(
            &self.folder.path.join(&config.output.log_file),
            communicator.rank(),
            self.request.as_original,
        )?;
        let what = match (config.workflow.train, config.workflow.checkpoint) {
            (true, true) => "Training & Checkpointing",
            (true, false) => "Training",
            (false, true) => "Checkpointing",
            _ => "Generating data",
        };
        log.output(&format!("Running DLIO [{what}] with {} process(es)", communicator.size()));
        for note in &self.run.notes {
            log.warning(note);
        }
        let mut results = Results::default();
        let (rank, ranks) = (communicator.rank(), communicator.size());
        results.hosts = Host::all(&communicator.exchange(Host::own().told().as_bytes())?);
        if config.measures() && rank == 0 {
            // From now on a run that is killed has said that it was not through.
            self.folder.write_json("summary.json", &results.summary(config, ranks))?;
        }
        let outcome = self.phases(communicator, &mut log, &mut results);
        let outcome = communicator.explained(outcome);
        if config.measures() {
            results.status = Status::of(&outcome);
            let written = self.write(&results, rank, ranks);
            if rank == 0 {
                self.tell(&results, ranks, &mut log);
            }
            // What went wrong first is what is told.
            outcome.clone().and(written)?;
        }
        if !config.dataset.keep_files && communicator.rank() == 0 {
            let folder = &config.dataset.folder;
            std::fs::remove_dir_all(folder).map_err(|error| Failure::io("removing", folder, error))?;
        }
        outcome
    }

    /// What is asked for, one after another.
    fn phases(&self, communicator: &mut dyn Communicator, log: &mut Log, results: &mut Results) -> Outcome<()> {
        if self.run.config.workflow.generate {
            self.generate(communicator, log)?;
        }
        if self.request.verify {
            self.verify(communicator)?;
        }
        communicator.barrier()?;
        if self.run.config.measures() { self.measured(communicator, log, results) } else { Ok(()) }
    }

    fn shown(&self, communicator: &dyn Communicator) -> bool {
        communicator.rank() == 0 && !self.request.quiet
    }

    fn part(&self, communicator: &dyn Communicator) -> Part {
        let writers = match self.run.composed.workload.at(&["reader", "write_threads"]) {
            Some(Value::Int(writers)) if *writers > 0 => *writers as u64,
            _ => (host::processors() / communicator.size()).max(1),
        };
        Part { rank: communicator.rank(), ranks: communicator.size(), writers }
    }

    fn generate(&self, communicator: &mut dyn Communicator, log: &mut Log) -> Outcome<()> {
        let _span = spans::span("generate", spans::PIPELINE, &[]);
        let layout = Layout::new(&self.run.config.dataset);
        let part = self.part(communicator);
        log.output("Starting data generation");
        let progress = Progress::new(self.shown(communicator), "generate", layout.total_files() / part.ranks, "files");
        let mut total = 0;
        let keep = if self.request.regenerate { Keep::Nothing } else { Keep::Complete { foreign: self.foreign } };
        let done = generate::generate(&layout, part, keep, &mut |files, bytes| {
            total += bytes;
            progress.advance(files);
            progress.say(format!("{:.0} MB/s", total as f64 / 1e6 / progress.elapsed().as_secs_f64().max(1e-3)));
        });
        communicator.check()?;
        let done = done?;
        let own = [done.written as f64, done.bytes as f64, done.kept as f64, progress.elapsed().as_secs_f64()];
        drop(progress);
        log.output("Generation done");
        let ranks = numbers(&communicator.exchange(&as_bytes(&own))?);
        let [written, bytes, kept] = [0, 1, 2].map(|place| sum(&ranks, place));
        let seconds = ranks.iter().map(|rank| rank[3]).fold(0.0, f64::max);
        if self.shown(communicator) {
            let kept = if kept > 0.0 { format!(", {kept} were there already") } else { String::new() };
            let (megabytes, folder) = (bytes / 1e6, layout.dataset.folder.display());
            terminal::line(format_args!(
                "generated {written} files, {megabytes:.1} MB in {seconds:.2} s{kept}: {folder}"
            ));
        }
        if !self.run.config.dataset.settle.is_zero() {
            system::sleep(self.run.config.dataset.settle);
        }
        communicator.barrier()
    }

    fn verify(&self, communicator: &mut dyn Communicator) -> Outcome<()> {
        let layout = Layout::new(&self.run.config.dataset);
        let progress = Progress::new(self.shown(communicator), "verify", layout.total_files(), "files");
        let done = generate::verify(&layout, self.part(communicator), &mut |files, _| progress.advance(files))?;
        drop(progress);
        let ranks = numbers(&communicator.exchange(&as_bytes(&[done.kept as f64, done.bytes as f64]))?);
        if self.shown(communicator) {
            terminal::line(format_args!("verified {} files, {:.1} MB", sum(&ranks, 0), sum(&ranks, 1) / 1e6));
        }
        Ok(())
    }

    /// Training or checkpoints: what summary.json is about.
    fn measured(&self, communicator: &mut dyn Communicator, log: &mut Log, results: &mut Results) -> Outcome<()> {
        let config = &self.run.config;
        let terms = self.terms(communicator)?;
        // Before anything that has threads.
        let tiers = self.tiers(terms)?;
        let mut loader = if config.workflow.train { Some(loader::build(config, terms)?) } else { None };
        let sampler = (config.workflow.profile && terms.rank == 0 && config.profiler == "iostat")
            .then(|| Sampler::start(config.iostat_devices.clone()));
        let habits = Habits { shown: self.shown(communicator), ..self.request.habits };
        let (rank, ranks) = (communicator.rank(), communicator.size());
        let mut trainer = Trainer::new(config, habits, terms, tiers, communicator, log, results)?;
        let outcome = match &mut loader {
            Some(loader) => trainer.train(loader.as_mut(), &mut |results| self.write(results, rank, ranks)),
            None => trainer.checkpoints_only(),
        };
        drop(trainer);
        drop(loader);
        if let Some(sampler) = sampler {
            sampler.finish(&self.folder)?;
        }
        outcome?;
        match results.failed {
            0 => Ok(()),
            failed => Err(Failure::new(
                Kind::DamagedData,
                format!("{failed} samples could not be read; the first: {}", results.failures[0]),
            )),
        }
    }

    fn tiers(&self, terms: Terms) -> Outcome<Tiered> {
        let config = &self.run.config;
        let (model, checkpoints) = (&config.model, &config.checkpoint);
        let shards = Shards { model, checkpoints, framework: config.framework, ranks: terms.ranks }.of(terms.rank);
        let idle = Checkpoints { fast_folder: None, asynchronous: false, ..checkpoints.clone() };
        Tiered::new(if config.workflow.checkpoint { checkpoints } else { &idle }, &shards)
    }

    /// Ranks agree on the seed of random shuffles: rank 0 draws it.
    fn terms(&self, communicator: &mut dyn Communicator) -> Outcome<Terms> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let own = mixed(&[now.as_nanos() as u64, u64::from(std::process::id())]);
        let all = communicator.exchange(&own.to_le_bytes())?;
        let first = all.first().and_then(|bytes| bytes.first_chunk::<8>()).copied().unwrap_or_default();
        Ok(Terms {
            rank: communicator.rank(),
            ranks: communicator.size(),
            run_seed: u64::from_le_bytes(first),
            original_order: self.request.original_order,
            workers: self.request.workers,
            skip_failures: self.request.habits.skip_failures,
        })
    }

    fn write(&self, results: &Results, rank: u64, ranks: u64) -> Outcome<()> {
        let config = &self.run.config;
        self.folder.write_json(&format!("{rank}_per_epoch_stats.json"), &results.per_epoch_stats())?;
        self.folder.write_streamed(&format!("{rank}_output.json"), |out| results.write_output(config, out))?;
        if rank == 0 {
            self.folder.write_json("summary.json", &results.summary(config, ranks))?;
        }
        Ok(())
    }

    fn tell(&self, results: &Results, ranks: u64, log: &mut Log) {
        let summary = results.summary(&self.run.config, ranks);
        let metric = &summary["metric"];
        log.metric(&format!("Number of Simulated Accelerators: {ranks}"));
        for (key, label) in [
            ("train_au", "Training Accelerator Utilization [AU] (%)"),
            ("train_throughput", "Training Throughput (samples/second)"),
            ("train_io", "Training I/O Throughput (MB/second)"),
            ("eval_au", "Eval Accelerator Utilization [AU] (%)"),
            ("eval_throughput", "Eval Throughput (samples/second)"),
        ] {
            if let Some((mean, stdev)) = mean_and_stdev(metric, key) {
                log.metric(&format!("{label}: {mean:.4} ({stdev:.4})"));
            }
        }
        for phase in ["train", "eval"] {
            if let Some(verdict) = metric[format!("{phase}_au_meet_expectation")].as_str() {
                log.metric(&format!("{phase}_au_meet_expectation: {verdict}"));
            }
        }
        log.metric(&format!("Run status: {}", standing(results, &self.run.config)));
        if !self.request.quiet && !self.request.as_original {
            terminal::say(table(results, &summary, &self.run.config));
            terminal::line(format_args!("results: {}", self.folder.path.join("summary.json").display()));
        }
    }
}

fn mean_and_stdev(metric: &serde_json::Value, key: &str) -> Option<(f64, f64)> {
    let unit = match key.rsplit('_').next()? {
        "au" => "percentage",
        "io" => "MB_per_second",
        _ => "samples_per_second",
    };
    let number = |which: &str| metric[format!("{key}_{which}_{unit}")].as_f64();
    Some((number("mean")?, number("stdev")?))
}

/// How the run ended, why, and what it therefore lacks.
fn standing(results: &Results, config: &Config) -> String {
    let reason = results.status.reason().map(|reason| format!(": {}", first_line(reason))).unwrap_or_default();
    let missing = results.missing(config);
    let missing = if missing.is_empty() { String::new() } else { format!("; missing: {}", missing.join(", ")) };
    format!("{}{reason}{missing}", results.status.name())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The short table at the end of a run.
fn table(results: &Results, summary: &serde_json::Value, config: &Config) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let trained = results.epochs.iter().any(|epoch| !epoch.blocks.is_empty());
    if trained {
        let _ = writeln!(
            text,
            "{:>6} {:>9} {:>8} {:>11} {:>10} {:>10} {:>9} {:>9} {:>7}",
            "epoch", "seconds", "AU %", "samples/s", "MB/s", "MB read", "wait p50", "wait p99", "cached"
        );
        for (epoch, facts) in results.epochs.iter().zip(summary["epoch"].as_array().into_iter().flatten()) {
            let figures = epoch.figures(0);
            let wait = |share: &str| format!("{:.2} ms", facts["batch_wait_ms"][share].as_f64().unwrap_or(0.0));
            let cached = epoch.cached.map_or("?".into(), |share| format!("{:.0} %", 100.0 * share));
            let _ = writeln!(
                text,
                "{:>6} {:>9.2} {:>8.2} {:>11.2} {:>10.1} {:>10.1} {:>9} {:>9} {:>7}",
                epoch.number,
                epoch.ended.since(&epoch.started),
                figures.au,
                figures.samples_per_second,
                figures.megabytes_per_second,
                epoch.bytes_all_ranks as f64 / 1e6,
                wait("p50"),
                wait("p99"),
                cached
            );
        }
        let counted = results.counted(config);
        let mean = metrics::mean_stdev(&counted.iter().map(|epoch| epoch.figures(0).au).collect::<Vec<_>>()).0;
        let verdict = if mean >= 100.0 * config.au { "reached" } else { "not reached" };
        if !counted.is_empty() {
            let _ = writeln!(text, "AU {mean:.2} %, {:.0} % expected: {verdict}", 100.0 * config.au);
        }
    }
    for (word, key) in [("saved", "save"), ("loaded", "load")] {
        let number = |what: &str| summary["metric"][format!("{key}_checkpoint_{what}")].as_f64();
        if let (Some(seconds), Some(rate)) = (number("duration_mean_seconds"), number("io_mean_GB_per_second")) {
            let size = summary["metric"]["checkpoint_size_GB"].as_f64().unwrap_or(0.0);
            let _ = match rate > 0.0 {
                true => writeln!(text, "checkpoints of {size:.3} GiB {word} in {seconds:.3} s each, {rate:.3} GiB/s"),
                false => writeln!(text, "checkpoints of {size:.3} GiB begun in {seconds:.3} s each"),
            };
        }
    }
    if let Some(beside) = &results.beside {
        let _ = writeln!(
            text,
            "beside that {} checkpoints, {:.3} GiB, in {:.3} s: {:.3} s hidden, {:.3} s waited for",
            beside.count,
            beside.bytes as f64 / (1u64 << 30) as f64,
            beside.seconds,
            beside.hidden,
            beside.waited
        );
    }
    if results.failed > 0 {
        let _ = writeln!(text, "{} samples could not be read; the first: {}", results.failed, results.failures[0]);
    }
    if results.status != Status::Success {
        let _ = writeln!(text, "these are partial results: {}", standing(results, config));
    }
    text
}

/// Over all ranks, what each gave in this place.
fn sum(ranks: &[Vec<f64>], place: usize) -> f64 {
    ranks.iter().map(|rank| rank[place]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(typed: &[&str]) -> Request {
        Request {
            called: vec!["dlio".into(), "bench".into()],
            overrides: typed.iter().map(ToString::to_string).collect(),
            config_dir: None,
            lenient: false,
            habits: Habits { drop_caches: false, busy: false, skip_failures: false, shown: false },
            original_order: false,
            workers: WorkerKind::Processes,
            verify: false,
            regenerate: false,
            ranks: 1,
            barrier_timeout: Duration::from_secs(60),
            multirun: false,
            as_original: false,
            quiet: true,
        }
    }

    #[test]
    fn a_sweep_is_a_run_each_and_only_when_asked() {
        let sweep =
            request(&["workload=unet3d", "++workload.reader.batch_size=1,2", "++workload.reader.read_threads=0,1,2"]);
        assert!(prepare(&sweep).unwrap_err().to_string().contains("--multirun"));
        let runs = prepare(&Request { multirun: true, ..sweep }).unwrap();
        assert_eq!(runs.len(), 6);
        assert_eq!((runs[5].config.reader.batch, runs[5].config.reader.workers), (2, 2));
        assert!(runs[5].folder.ends_with("5"));
    }

    #[test]
    fn the_run_folder_is_what_was_said_to_hydra() {
        let runs = prepare(&request(&["workload=unet3d", "++hydra.run.dir=/tmp/${workload.model.name}/x"])).unwrap();
        assert_eq!(runs[0].folder, PathBuf::from("/tmp/unet3d/x"));
        let runs = prepare(&request(&["workload=unet3d"])).unwrap();
        assert!(runs[0].folder.starts_with("./hydra_log/unet3d/"));
    }

    #[test]
    fn the_spread_of_sizes_follows_a_typed_length() {
        let spread = |typed: &[&str]| prepare(&request(typed)).unwrap()[0].config.dataset.record_bytes_stdev;
        assert_eq!(spread(&["workload=unet3d"]), 68_341_808.0);
        assert_eq!(spread(&["workload=unet3d", "++workload.dataset.record_length_bytes=2097152"]), 977_644.0);
        let both = [
            "workload=unet3d",
            "++workload.dataset.record_length_bytes=2097152",
            "++workload.dataset.record_length_bytes_stdev=5",
        ];
        assert_eq!(spread(&both), 5.0);
    }

    #[test]
    fn lenient_leaves_out_what_it_does_not_know() {
        let typed = request(&["workload=unet3d", "++workload.reader.batchsize=9", "++workload.reader.batch_size=[1]"]);
        let failure = prepare(&typed).unwrap_err();
        assert!(failure.to_string().matches("workload.reader.batch").count() >= 3, "{failure}");
        let runs = prepare(&Request { lenient: true, ..typed }).unwrap();
        assert_eq!(runs[0].config.reader.batch, 1);
    }

    #[test]
    fn the_command_that_generates_can_be_pasted() {
        let runs = prepare(&request(&[
            "workload=unet3d",
            "++workload.dataset.record_dims=[2, 3]",
            "++workload.dataset.record_length_bytes_stdev=0",
        ]))
        .unwrap();
        let command = runs[0].generate_command();
        assert!(
            command.contains("'++workload.dataset.record_dims=[2, 3]'")
                && command.ends_with("++workload.workflow.train=false"),
            "{command}"
        );
    }
}
