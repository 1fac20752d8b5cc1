//! The measurements of a run and their JSON: DLIO's keys with corrected metrics, and DLIO's own formulas under
//! `compat`.

use crate::config::{Config, Excluded};
use crate::data_set::layout::{Layout, Split};
use crate::failure::{Failure, Kind, Outcome};
use crate::results::devices::HostUse;
use crate::results::metrics::{self, Block, Figures, Step, mean_stdev};
use crate::store::counts::{Counts, Figure};
use crate::system::clock::{local_time, local_time_before};
use crate::system::host::{self, Host, host_name};
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

/// A point in time on both clocks: one to print, one to subtract.
#[derive(Debug, Clone)]
pub struct Moment {
    pub local_time: String,
    at: Instant,
}

impl Moment {
    pub fn now() -> Moment {
        Moment { local_time: local_time(), at: Instant::now() }
    }

    /// Returns the time `seconds` before now.
    pub fn before_now(seconds: f64) -> Moment {
        let ago = crate::config::compute_time::seconds(seconds);
        let at = Instant::now();
        Moment { local_time: local_time_before(ago), at: at.checked_sub(ago).unwrap_or(at) }
    }

    pub fn since(&self, before: &Moment) -> f64 {
        self.at.duration_since(before.at).as_secs_f64()
    }
}

impl Default for Moment {
    fn default() -> Moment {
        Moment::now()
    }
}

/// One checkpoint written or read, by all ranks together.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The start of the first rank, and the end of the last one.
    pub started: Moment,
    pub ended: Moment,
    /// The time between the two.
    pub seconds: f64,
    pub bytes: u64,
    pub fsyncs: u64,
    /// Bytes per second of the slowest rank; `None` if nothing was moved within that time.
    pub slowest_rank_rate: Option<f64>,
}

/// Checkpoints that were written or copied in the background, by all ranks; times of the slowest.
#[derive(Debug, Clone, Default)]
pub struct BackgroundCheckpoints {
    pub count: u64,
    pub bytes: u64,
    pub fsyncs: u64,
    pub seconds: f64,
    /// The part of those seconds in which training continued, and the part in which it waited.
    pub hidden: f64,
    pub waited: f64,
    /// Checkpoints that did not fit in the fast directory and went directly to the final one.
    pub without_room: u64,
}

const GIB: f64 = (1u64 << 30) as f64;

impl Saved {
    /// Returns `None` if nothing was moved within its time: background writes are timed separately.
    pub fn gibibytes_per_second(&self) -> Option<f64> {
        (self.bytes > 0 && self.seconds > 0.0).then(|| self.bytes as f64 / GIB / self.seconds)
    }
}

type Timed = (Moment, Moment, Block);

#[derive(Debug, Clone, Default)]
pub struct Epoch {
    pub number: u64,
    pub started: Moment,
    /// The end of its training, including checkpoints; `None` if it was stopped earlier.
    pub trained: Option<Moment>,
    /// The end of the whole epoch: its evaluation may follow the training.
    pub ended: Moment,
    pub blocks: Vec<Timed>,
    pub evaluation: Option<Timed>,
    pub saves: Vec<Saved>,
    pub loads: Vec<Saved>,
    /// Share of the data set in the page cache before the epoch.
    pub cached: Option<f64>,
    /// Activity of the first rank's host; `None` on other ranks.
    pub host: Option<HostUse>,
    /// Bytes that storage read for this rank and its workers; `None` if unknown.
    pub storage_bytes: Option<u64>,
    /// By rank: training corrected and compat, evaluation corrected and compat.
    pub ranks: Vec<Vec<Figures>>,
    /// Samples used for training, over all ranks, without unreadable ones.
    pub samples_all_ranks: u64,
    /// Bytes read for training, over all ranks.
    pub bytes_all_ranks: u64,
    /// Samples used for evaluation, over all ranks, without unreadable ones.
    pub evaluated_samples: u64,
    pub evaluated_bytes: u64,
    /// Bytes that were read from storage for all ranks; `None` if this number is unknown for one of the ranks.
    pub storage_bytes_all_ranks: Option<u64>,
    /// Requests to the object store, over all ranks; `None` without a store, or if the epoch was stopped early.
    pub requests: Option<Counts>,
    /// The epoch finished on all ranks.
    pub complete: bool,
    /// Ranks missing from its metrics: they were gone when the epoch was stopped.
    pub missing_ranks: Vec<u64>,
}

impl Epoch {
    /// Returns `true` if its metrics are meaningful: every required step is included, or the epoch was stopped after
    /// some counted steps, on all ranks.
    pub fn counts(&self, excluded: Excluded) -> bool {
        let counted = |(_, _, block): &Timed| block.steps.len() > excluded.start + excluded.end;
        let stepped = |(_, _, block): &Timed| !block.steps.is_empty();
        match self.complete {
            true => self.blocks.iter().any(stepped),
            false => self.missing_ranks.is_empty() && self.blocks.iter().any(counted),
        }
    }

    /// Returns a text about the ranks missing from its metrics.
    pub fn without(&self) -> Option<String> {
        let ranks: Vec<String> = self.missing_ranks.iter().map(u64::to_string).collect();
        let word = if ranks.len() == 1 { "rank" } else { "ranks" };
        (!ranks.is_empty()).then(|| format!("results of {word} {} in epoch {}", ranks.join(", "), self.number))
    }

    /// Returns the corrected metrics of its training on this rank.
    pub fn trained_together(&self, excluded: Excluded) -> Figures {
        metrics::combine_blocks(self.blocks.iter().map(|(_, _, block)| block), excluded)
    }

    /// Returns metrics that weigh blocks by their steps.
    pub fn train_figures(&self, of: impl Fn(&Block) -> Figures) -> Figures {
        metrics::weighted(&self.blocks.iter().map(|(_, _, block)| of(block)).collect::<Vec<_>>())
    }

    pub fn eval_figures(&self, of: impl Fn(&Block) -> Figures) -> Figures {
        self.evaluation.as_ref().map(|(_, _, block)| of(block)).unwrap_or_default()
    }

    /// Returns samples and bytes of its training, and of its evaluation, on this rank.
    pub fn amounts(&self) -> [u64; 4] {
        let [samples, bytes]: [fn(&Step) -> u64; 2] = [|step| step.samples, |step| step.bytes];
        [
            self.steps().map(samples).sum(),
            self.steps().map(bytes).sum(),
            self.evaluation_steps().map(samples).sum(),
            self.evaluation_steps().map(bytes).sum(),
        ]
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.blocks.iter().flat_map(|(_, _, block)| &block.steps)
    }

    fn evaluation_steps(&self) -> impl Iterator<Item = &Step> {
        self.evaluation.iter().flat_map(|(_, _, block)| &block.steps)
    }

    /// Returns the bytes that storage read, and the rest of the bytes that reads returned, in training and evaluation.
    /// `None` unless the data are on a block device: the kernel does not count reads of other file systems.
    pub fn from_storage_and_memory(&self) -> Option<(u64, u64)> {
        self.host.as_ref()?.device.as_ref()?;
        let storage = self.storage_bytes_all_ranks?;
        Some((storage, (self.bytes_all_ranks + self.evaluated_bytes).saturating_sub(storage)))
    }

    /// Returns the seconds of its training and checkpoints, without its evaluation.
    pub fn seconds(&self) -> f64 {
        self.trained.as_ref().unwrap_or(&self.ended).since(&self.started)
    }

    /// Returns the seconds of the whole epoch.
    pub fn whole_seconds(&self) -> f64 {
        self.ended.since(&self.started)
    }

    /// Returns the metrics over all ranks; `which` as in `ranks`.
    pub fn figures(&self, which: usize) -> Figures {
        metrics::over_ranks(&self.ranks.iter().filter_map(|rank| rank.get(which).copied()).collect::<Vec<_>>())
    }
}

/// The state of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Status {
    /// Also the status that a killed run leaves.
    #[default]
    Running,
    Success,
    Interrupted,
    Failed(String),
}

impl Status {
    pub fn of(outcome: &Outcome<()>) -> Status {
        match outcome {
            Ok(()) => Status::Success,
            Err(failure) if failure.kind == Kind::Interrupted => Status::Interrupted,
            Err(failure) => Status::Failed(failure.what.clone()),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Success => "success",
            Status::Interrupted => "interrupted",
            Status::Failed(_) => "failed",
        }
    }

    pub fn reason(&self) -> Option<&str> {
        if let Status::Failed(reason) = self { Some(reason) } else { None }
    }
}

#[derive(Debug, Default)]
pub struct Results {
    pub status: Status,
    pub started: Moment,
    /// The hosts of all ranks.
    pub hosts: Vec<Host>,
    pub epochs: Vec<Epoch>,
    pub checkpoint_bytes: u64,
    pub beside: Option<BackgroundCheckpoints>,
    /// Checkpoints of a failed run that this rank's background process did not finish, and whether the run failed while
    /// ranks waited for theirs.
    pub undrained: u64,
    pub drain_failed: bool,
    /// Samples that could not be read, and the first reasons.
    pub failed: u64,
    pub failures: Vec<String>,
    pub read_nanos: u64,
}

/// Reasons kept: enough to see a pattern.
const REASONS: usize = 20;

impl Results {
    pub fn note_failures(&mut self, count: u64, failure: &Failure) {
        self.failed += count;
        if self.failures.len() < REASONS {
            self.failures.push(failure.what.clone());
        }
    }

    pub fn summary(&self, config: &Config, ranks: u64) -> Value {
        let layout = Layout::new(&config.dataset);
        // As in DLIO: the training data that one host reads.
        let own = [Host::own()];
        let hosts = if self.hosts.is_empty() { &own[..] } else { &self.hosts };
        let payload = layout.samples(Split::Train) as f64 * layout.record_bytes() / GIB / hosts.len() as f64;
        // Columns have individual sizes.
        let sample = if config.dataset.parquet_columns.is_empty() { layout.record_bytes() } else { 0.0 };
        let of_hosts = |of: fn(&Host) -> Value| hosts.iter().map(of).collect::<Vec<_>>();
        let caching: Vec<u8> = hosts.iter().map(|host| u8::from(payload < host.memory_gibibytes)).collect();
        json!({
            "start": self.started.local_time,
            "num_accelerators": ranks,
            "num_hosts": hosts.len(),
            "hostname": host_name(),
            "metric": self.metric(config),
            "num_files_train": config.dataset.files_train,
            "num_files_eval": config.dataset.files_eval,
            "num_samples_per_file": config.dataset.samples_per_file,
            "host_cpu_count": of_hosts(|host| json!(host.processors)),
            "host_processor_name": "",
            "potential_caching": caching,
            "host_cpuinfo": host::processor(),
            "host_meminfo": host::memory(),
            "host_memory_GB": of_hosts(|host| json!(host.memory_gibibytes)),
            "data_size_per_host_GB": payload,
            "status": self.status.name(),
            "error": self.status.reason(),
            "missing": self.missing(config),
            "epochs": self.epochs.len(),
            "epoch": self.epochs.iter().map(|epoch| epoch_facts(epoch, sample)).collect::<Vec<_>>(),
            "failed_samples": self.failed,
            "failures": self.failures,
            "interrupted": self.status == Status::Interrupted,
            "end": local_time(),
        })
    }

    /// Returns a text for each requested part that is missing from the results.
    pub fn missing(&self, config: &Config) -> Vec<String> {
        let samples = (self.failed > 0).then(|| format!("{} unreadable samples", self.failed));
        let ranks = self.epochs.iter().filter_map(Epoch::without);
        self.missing_parts(config).into_iter().chain(samples).chain(ranks).collect()
    }

    /// Returns `true` if the run finished and lacks only samples that it was allowed to skip.
    pub fn is_whole_but_for_samples(&self, config: &Config) -> bool {
        let failed = matches!(self.status, Status::Failed(_));
        failed && self.failed > 0 && self.missing_parts(config).is_empty()
    }

    fn missing_parts(&self, config: &Config) -> Vec<String> {
        let mut missing = Vec::new();
        let mut of = |done: u64, all: u64, what: &str| {
            if done < all {
                missing.push(format!("{} of {all} {what}", all - done));
            }
        };
        if config.workflow.train {
            of(self.epochs.iter().filter(|epoch| epoch.complete).count() as u64, config.train.epochs, "epochs");
        } else if config.workflow.checkpoint {
            let done = |of: fn(&Epoch) -> &Vec<Saved>| self.epochs.iter().map(|epoch| of(epoch).len() as u64).sum();
            of(done(|epoch| &epoch.saves), config.checkpoint.writes.max(0) as u64, "checkpoints to write");
            of(done(|epoch| &epoch.loads), config.checkpoint.reads.max(0) as u64, "checkpoints to read");
        }
        let saved = self.epochs.iter().map(|epoch| epoch.saves.len() as u64).sum::<u64>();
        match self.undrained {
            0 if self.drain_failed => missing.push("background checkpoints of another rank".into()),
            0 => {}
            left => missing.push(format!("{left} of {} background checkpoints", saved.max(left))),
        }
        missing
    }

    /// Returns the epochs whose training metrics are meaningful.
    pub fn counted(&self, config: &Config) -> Vec<&Epoch> {
        let excluded = config.output.excluded();
        self.epochs.iter().filter(|epoch| epoch.counts(excluded)).collect()
    }

    fn metric(&self, config: &Config) -> Value {
        let mut metric = Map::new();
        self.checkpoint_keys(&mut metric);
        if let Some(beside) = &self.beside {
            metric.insert(
                "background_checkpoint".into(),
                json!({
                    "count": beside.count, "GB": beside.bytes as f64 / GIB, "fsyncs": beside.fsyncs,
                    "seconds": beside.seconds, "hidden_seconds": beside.hidden, "waited_seconds": beside.waited,
                    "without_room": beside.without_room,
                }),
            );
        }
        let trained = self.counted(config);
        let evaluated: Vec<&Epoch> = self
            .epochs
            .iter()
            .filter(|epoch| {
                epoch.complete && epoch.evaluation.as_ref().is_some_and(|(.., block)| !block.steps.is_empty())
            })
            .collect();
        let mut compat = Map::new();
        for (into, train, eval) in [(&mut metric, 0, 2), (&mut compat, 1, 3)] {
            let figures =
                |epochs: &[&Epoch], which| epochs.iter().map(|epoch| epoch.figures(which)).collect::<Vec<_>>();
            metrics::phase("train", &figures(&trained, train), config.au, into);
            metrics::phase("eval", &figures(&evaluated, eval), config.au, into);
        }
        for phase in ["train", "eval"] {
            let key = format!("{phase}_au_meet_expectation");
            for figures in [&mut metric, &mut compat] {
                // The expectation is for a whole run; an incomplete one does not meet it, however busy its accelerators
                // were.
                if self.status != Status::Success
                    && let Some(verdict) = figures.get_mut(&key)
                {
                    *verdict = json!("fail");
                }
            }
            if let Some(note) = other_verdict(phase, &metric, &compat) {
                metric.insert(format!("{key}_note"), json!(note));
            }
        }
        if !compat.is_empty() {
            metric.insert("compat".into(), Value::Object(compat));
        }
        Value::Object(metric)
    }

    fn checkpoint_keys(&self, metric: &mut Map<String, Value>) {
        for (word, of) in [
            ("save", (|epoch: &Epoch| &epoch.saves) as fn(&Epoch) -> &Vec<Saved>),
            ("load", |epoch: &Epoch| &epoch.loads),
        ] {
            let done: Vec<&Saved> = self.epochs.iter().flat_map(of).collect();
            if done.is_empty() {
                continue;
            }
            let rates: Vec<f64> = done.iter().filter_map(|saved| saved.gibibytes_per_second()).collect();
            let (rate, rate_stdev) = (!rates.is_empty()).then(|| mean_stdev(&rates)).unzip();
            let (time, time_stdev) = mean_stdev(&done.iter().map(|saved| saved.seconds).collect::<Vec<_>>());
            let slowest = done.iter().filter_map(|saved| saved.slowest_rank_rate).map(|rate| rate / GIB);
            let slowest = slowest.min_by(f64::total_cmp);
            metric.insert(format!("{word}_checkpoint_io_mean_GB_per_second"), json!(rate));
            metric.insert(format!("{word}_checkpoint_io_stdev_GB_per_second"), json!(rate_stdev));
            metric.insert(format!("{word}_checkpoint_duration_mean_seconds"), json!(time));
            metric.insert(format!("{word}_checkpoint_duration_stdev_seconds"), json!(time_stdev));
            metric.insert(format!("{word}_checkpoint_slowest_rank_GB_per_second"), json!(slowest));
            if word == "save" {
                let beside = self.beside.as_ref().map_or(0, |beside| beside.fsyncs);
                let fsyncs = done.iter().map(|saved| saved.fsyncs).sum::<u64>() + beside;
                metric.insert("save_checkpoint_fsyncs".into(), json!(fsyncs));
            }
            metric.insert("checkpoint_size_GB".into(), json!(self.checkpoint_bytes as f64 / GIB));
        }
    }

    /// Returns `<rank>_per_epoch_stats.json`: durations of epochs and blocks are texts, of checkpoints numbers, as in
    /// DLIO.
    pub fn per_epoch_stats(&self) -> Value {
        Value::Object(self.epochs.iter().map(|epoch| (epoch.number.to_string(), epoch_stats(epoch))).collect())
    }

    /// Writes `<rank>_output.json`, every step, as a stream: a tree of millions of numbers would be the largest object
    /// in memory.
    pub fn write_output(&self, config: &Config, out: &mut impl Write) -> io::Result<()> {
        let facts = json!({
            "host_memory_GB": host::memory_gibibytes(),
            "host_cpu_count": host::all_processors(),
            "host_processor_name": "",
            "potential_caching": self.summary(config, 1)["potential_caching"][0],
            "host_cpuinfo": host::processor(),
            "host_meminfo": host::memory(),
            "hostname": host_name(),
        });
        let memory = facts["host_meminfo"].to_string();
        let facts = facts.to_string();
        // The object stays open for the epochs.
        out.write_all(&facts.as_bytes()[..facts.len() - 1])?;
        for epoch in &self.epochs {
            write!(out, ",\n\"{}\": ", epoch.number)?;
            write_epoch(epoch, config, &memory, out)?;
        }
        out.write_all(b"}\n")
    }
}

/// Returns a note if DLIO's own formula gives a different verdict.
fn other_verdict(phase: &str, metric: &Map<String, Value>, compat: &Map<String, Value>) -> Option<String> {
    let verdict = |figures: &Map<String, Value>| figures.get(&format!("{phase}_au_meet_expectation")).cloned();
    let (own, other) = (verdict(metric)?, verdict(compat)?);
    let au = compat.get(&format!("{phase}_au_mean_percentage"))?.as_f64()?;
    let other_word = if other == "success" { "reached" } else { "not reached" };
    (own != other).then(|| format!("DLIO's own formula gives {au:.2} %: {other_word}"))
}

/// Returns how the run of a summary ended, why, and the resulting gaps; `None` if that is not recorded, as in DLIO's
/// own summaries.
pub fn standing(summary: &Value) -> Option<String> {
    let status = match summary["status"].as_str()? {
        "running" => "running, or killed",
        status => status,
    };
    let reason = summary["error"].as_str().and_then(|reason| reason.lines().next());
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let missing: Vec<&str> = summary["missing"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let missing = if missing.is_empty() { String::new() } else { format!("; missing: {}", missing.join(", ")) };
    Some(format!("{status}{reason}{missing}"))
}

/// Reads the summary that a run left.
pub fn summary_in(folder: &Path) -> Outcome<Value> {
    let path = folder.join("summary.json");
    let text = fs::read_to_string(&path).map_err(|error| Failure::io("read", &path, error))?;
    serde_json::from_str(&text).map_err(|error| Failure::damaged(&path, error))
}

/// Returns facts about an epoch that DLIO's files lack: its training, and separately its evaluation. `sample` is the
/// size of a sample; 0 if unknown.
fn epoch_facts(epoch: &Epoch, sample: f64) -> Value {
    let au = |which: usize| epoch.ranks.iter().filter_map(|rank| Some(rank.get(which)?.au)).collect::<Vec<f64>>();
    let seconds = epoch.seconds();
    let mut facts = json!({
        "epoch": epoch.number,
        "seconds": seconds,
        "samples": epoch.samples_all_ranks,
        "samples_per_second": epoch.samples_all_ranks as f64 / seconds.max(f64::MIN_POSITIVE),
        "bytes_read": epoch.bytes_all_ranks,
        "bytes_from_storage": epoch.from_storage_and_memory().map(|(storage, _)| storage),
        "bytes_from_memory": epoch.from_storage_and_memory().map(|(_, memory)| memory),
        "cached_share_before": epoch.cached,
        "batch_wait_ms": metrics::waits(epoch.steps()),
        "au_percentage_of_ranks": au(0),
        "missing_ranks": epoch.missing_ranks,
        "host": epoch.host.as_ref().map(HostUse::facts),
    });
    if let Some((started, ended, _)) = &epoch.evaluation {
        let seconds = ended.since(started);
        facts["evaluation"] = json!({
            "seconds": seconds,
            "samples": epoch.evaluated_samples,
            "samples_per_second": epoch.evaluated_samples as f64 / seconds.max(f64::MIN_POSITIVE),
            "bytes_read": epoch.evaluated_bytes,
            "batch_wait_ms": metrics::waits(epoch.evaluation_steps()),
            "au_percentage_of_ranks": au(2),
        });
    }
    if let Some(requests) = &epoch.requests {
        // Requests are counted for the whole epoch.
        facts["object"] = requests.facts(epoch.whole_seconds());
        let asked = requests.of(Figure::BytesIn) as f64;
        let taken = (epoch.samples_all_ranks + epoch.evaluated_samples) as f64 * sample;
        facts["object"]["read_amplification"] = json!((taken > 0.0).then(|| asked / taken));
    }
    facts
}

fn epoch_stats(epoch: &Epoch) -> Value {
    let mut stats = Map::new();
    let seconds = |started: &Moment, ended: &Moment| format!("{:.2}", ended.since(started));
    let timed = |(started, ended, _): &Timed| json!({"start": started.local_time, "end": ended.local_time, "duration": seconds(started, ended)});
    stats.insert("start".into(), json!(epoch.started.local_time));
    for (number, block) in epoch.blocks.iter().enumerate() {
        stats.insert(format!("block{}", number + 1), timed(block));
    }
    if let Some(evaluation) = &epoch.evaluation {
        stats.insert("eval".into(), timed(evaluation));
    }
    for (word, all) in [("save", &epoch.saves), ("load", &epoch.loads)] {
        for (number, saved) in all.iter().enumerate() {
            let facts = json!({
                "start": saved.started.local_time, "end": saved.ended.local_time,
                "duration": saved.seconds, "throughput": saved.gibibytes_per_second(),
            });
            stats.insert(format!("{word}_ckpt{}", number + 1), facts);
        }
    }
    stats.insert("end".into(), json!(epoch.ended.local_time));
    // As in DLIO: the end is that of the epoch, the duration that of training.
    stats.insert("duration".into(), json!(format!("{:.2}", epoch.seconds())));
    Value::Object(stats)
}

fn write_epoch(epoch: &Epoch, config: &Config, memory: &str, out: &mut impl Write) -> io::Result<()> {
    let excluded = config.output.excluded();
    let blocks = epoch.blocks.iter().enumerate();
    let mut parts: Vec<Part> =
        blocks.map(|(number, (_, _, block))| Part { name: format!("block{}", number + 1), block, excluded }).collect();
    if let Some((_, _, block)) = &epoch.evaluation {
        parts.push(Part { name: "eval".into(), block, excluded: Excluded::NOTHING });
    }
    out.write_all(b"{")?;
    write_lists("load", &parts, |step| step.load, out)?;
    write_lists("proc", &parts, Step::whole, out)?;
    write_lists("compute", &parts, |step| step.compute, out)?;
    write_lists("bytes", &parts, |step| step.bytes as f64, out)?;
    let figures = |of: fn(&Figures) -> f64| -> Map<String, Value> {
        parts.iter().map(|part| (part.name.clone(), json!(of(&part.block.corrected(part.excluded))))).collect()
    };
    let throughput = Value::Object(figures(|figures| figures.samples_per_second));
    let au = Value::Object(figures(|figures| figures.au));
    let end = json!(epoch.ended.local_time);
    write!(out, "\"throughput\": {throughput}, \"au\": {au}, \"host_meminfo\": {memory}, \"end\": {end}}}")
}

/// A block or the evaluation of an epoch, under its DLIO name.
struct Part<'a> {
    name: String,
    block: &'a Block,
    excluded: Excluded,
}

/// Writes one number of each step: "load": {"block1": [0.1, ...], ...},
fn write_lists(what: &str, parts: &[Part], of: impl Fn(&Step) -> f64, out: &mut impl Write) -> io::Result<()> {
    write!(out, "\"{what}\": {{")?;
    for (place, part) in parts.iter().enumerate() {
        write!(out, "{}\"{}\": [", if place > 0 { ", " } else { "" }, part.name)?;
        for (number, step) in part.block.steps.iter().enumerate() {
            write!(out, "{}{}", if number > 0 { ", " } else { "" }, of(step))?;
        }
        out.write_all(b"]")?;
    }
    out.write_all(b"}, ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_dlio_verdict_is_noted() {
        let figures = |au: f64| {
            let mut metric = Map::new();
            metrics::phase("train", &[Figures { au, ..Figures::default() }], 0.9, &mut metric);
            metric
        };
        let said = |own, other| other_verdict("train", &figures(own), &figures(other));
        assert_eq!(said(91.43, 88.26).unwrap(), "DLIO's own formula gives 88.26 %: not reached");
        assert_eq!(said(89.0, 90.5).unwrap(), "DLIO's own formula gives 90.50 %: reached");
        assert_eq!((said(91.0, 92.0), other_verdict("eval", &figures(91.0), &figures(1.0))), (None, None));
    }

    #[test]
    fn checkpoint_without_bytes_has_no_rate() {
        let mut saved = Saved {
            started: Moment::now(),
            ended: Moment::now(),
            seconds: 2.0,
            bytes: 1 << 31,
            fsyncs: 0,
            slowest_rank_rate: None,
        };
        assert_eq!(saved.gibibytes_per_second(), Some(1.0));
        saved.bytes = 0;
        assert_eq!(saved.gibibytes_per_second(), None);
        let epoch = Epoch { saves: vec![saved], ..Epoch::default() };
        let mut metric = Map::new();
        Results { epochs: vec![epoch], ..Results::default() }.checkpoint_keys(&mut metric);
        assert_eq!(metric["save_checkpoint_duration_mean_seconds"], 2.0);
        assert!(metric["save_checkpoint_io_mean_GB_per_second"].is_null());
        assert!(metric["save_checkpoint_slowest_rank_GB_per_second"].is_null());
    }
}
