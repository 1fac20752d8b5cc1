//! Checkpoints: processes, numbers, flushes and times.

use super::case::{ALL_RUNS, Case, agreed, of};
use crate::check::edition::{
    CHECKPOINT_TIMES_MEMORY, CHECKPOINTS, Division, FAILOVER_SECONDS, LanguageModel, SUBSET, Version,
    accelerator_memory, language_model,
};
use crate::check::finding::{Finding, Rule};
use crate::check::results::Workload;
use crate::check::run::Run;
use crate::check::value::{count, flag, number};

static CACHE: Rule =
    Rule { name: "checkpointDataSizeRatio", v2: "2.2.2", v3: "4.3.1", title: "Cache between write and read" };
static FSYNC: Rule = Rule { name: "checkpointFsyncVerification", v2: "2.2.2", v3: "4.3.2", title: "fsync" };
static MEMORY: Rule = Rule {
    name: "checkpointAggregateAcceleratorMemory",
    v2: "2.2.1",
    v3: "4.3.4",
    title: "Checkpoint fits into accelerators",
};
static PART: Rule = Rule { name: "checkpointSubsetRunValidation", v2: "2.2.2", v3: "4.3.5", title: "Subset" };
static PROCESSES: Rule =
    Rule { name: "checkpointClosedMpiProcesses", v2: "2.2.1", v3: "4.6.1", title: "Number of processes" };
static SCALING: Rule =
    Rule { name: "checkpointOpenSubmissionScaling", v2: "2.2.5", v3: "4.6.4", title: "Number of processes, open" };
static PER_HOST: Rule =
    Rule { name: "checkpointClosedAcceleratorsPerHost", v2: "2.2.1", v3: "4.6.2", title: "Processes per host" };
static INVOCATIONS: Rule =
    Rule { name: "checkpointInvocations", v2: "2.2.2", v3: "4.7.1", title: "Ten writes, then ten reads" };
static FAILOVER: Rule =
    Rule { name: "checkpointCacheFlushValidation", v2: "", v3: "4.7.1", title: "30 s between write and read" };
static DURATION: Rule =
    Rule { name: "checkpointTotalTestDuration", v2: "", v3: "4.7.2", title: "Duration of the whole test" };

pub fn findings(case: &Case, workload: &Workload) -> Vec<Finding> {
    let runs = workload.measured();
    let division = case.division_of(workload);
    let mut found = vec![
        cache(case, &runs),
        fsync(&runs),
        invocations(case, &runs, division),
        failover(case, &runs),
        duration(&runs),
    ];
    if let Some(model) = language_model(&workload.model) {
        found.push(memory(&runs));
        found.push(part(case, model, &runs, division));
        found.push(processes(case, model, &runs, division));
        found.push(per_host(&runs, division));
    }
    found
}

fn is_subset(run: &Run) -> bool {
    run.setting("checkpoint.mode").as_str() == Some("subset") || flag(run.argument("checkpoint_subset")) == Some(true)
}

fn cache(case: &Case, runs: &[&Run]) -> Finding {
    let ratios = runs.iter().filter_map(|run| {
        let size = number(run.metric("checkpoint_size_GB"))?;
        Some(size / case.memory(run)?)
    });
    let smallest = ratios.reduce(f64::min);
    let action = "empty the cache of each host between writing and reading, and describe how; or write on fewer hosts";
    match smallest {
        None => CACHE.unknown("the size of a checkpoint or the memory is not recorded", "include summary.json of each run"),
        Some(ratio) if ratio > CHECKPOINT_TIMES_MEMORY => {
            CACHE.pass(format!("a checkpoint is {ratio:.1} times as large as the memory"))
        }
        Some(ratio) => CACHE.unknown(
            format!("a checkpoint is {ratio:.2} times as large as the memory; the files do not show whether the cache was emptied"),
            action,
        ),
    }
}

fn fsync(runs: &[&Run]) -> Finding {
    let writing: Vec<&&Run> = runs.iter().filter(|run| run.checkpoints().0 != Some(0)).collect();
    let wrong = writing.iter().filter(|run| flag(run.setting("checkpoint.fsync")) == Some(false));
    let mut wrong: Vec<String> = wrong.map(|run| of(run, "checkpoint.fsync is false")).collect();
    let none = |run: &&&&Run| {
        count(run.metric("save_checkpoint_fsyncs")).is_none() && !run.metric("save_checkpoint_fsyncs").is_null()
    };
    wrong.extend(writing.iter().filter(none).map(|run| of(run, "no fsync was called")));
    let set = writing.iter().all(|run| flag(run.setting("checkpoint.fsync")) == Some(true));
    match writing.len() {
        0 => FSYNC.not_applicable("no run writes"),
        _ if !wrong.is_empty() || set => {
            FSYNC.unless(&wrong, "checkpoint.fsync is true", "repeat the writes with checkpoint.fsync=true")
        }
        _ => FSYNC.unknown("checkpoint.fsync is not recorded", "include dlio_config/config.yaml of each run"),
    }
}

/// Judges how many checkpoints the runs write and read.
fn invocations(case: &Case, runs: &[&Run], division: Division) -> Finding {
    let counts: Option<Vec<(u64, u64)>> = runs
        .iter()
        .map(|run| match run.checkpoints() {
            (Some(writes), Some(reads)) => Some((writes, reads)),
            _ => None,
        })
        .collect();
    let Some(counts) = counts else {
        return INVOCATIONS.unknown("the numbers are not recorded", "include dlio_config/config.yaml of each run");
    };
    let text = counts
        .iter()
        .map(|(writes, reads)| format!("{writes} written and {reads} read"))
        .collect::<Vec<_>>()
        .join("; then ");
    let separate = [(CHECKPOINTS, 0), (0, CHECKPOINTS)];
    let action = match case.version {
        Version::V2 => {
            "write 10 with --num-checkpoints-read=0, empty the cache, read 10 with --num-checkpoints-write=0"
        }
        Version::V3 => "write 10 and read 10 in one run, or write 10 in one run and read 10 in the next one",
    };
    match counts.as_slice() {
        _ if division == Division::Open && case.version == Version::V3 => INVOCATIONS.pass(text),
        counts if counts == separate => INVOCATIONS.pass(text),
        [(CHECKPOINTS, CHECKPOINTS)] if case.version == Version::V3 => INVOCATIONS.pass(text),
        [one] if case.one_run && separate.contains(one) => INVOCATIONS.unknown(text, ALL_RUNS),
        _ if case.version == Version::V3 => INVOCATIONS.open_only(text, action),
        _ => INVOCATIONS.fail(text, action),
    }
}

/// Returns the run that writes checkpoints and the run that reads them, if these runs are separate.
fn phases<'a>(runs: &[&'a Run]) -> Option<(&'a Run, &'a Run)> {
    let [write, read] = runs else { return None };
    (write.checkpoints().1 == Some(0) && read.checkpoints().0 == Some(0)).then_some((write, read))
}

fn failover(case: &Case, runs: &[&Run]) -> Finding {
    let Some((write, read)) = phases(runs) else {
        return match case.one_run {
            true => FAILOVER.unknown("DIR is one run", ALL_RUNS),
            false => FAILOVER.not_applicable("one run writes and reads"),
        };
    };
    let gap = write.end_of_command().zip(read.start_of_command()).map(|(end, start)| start - end);
    let recorded =
        read.metadata.get("invocation_start_time").is_some() && write.metadata.get("invocation_end_time").is_some();
    match gap {
        None => FAILOVER.unknown("the times are not recorded", "include summary.json and *_metadata.json of both runs"),
        Some(gap) if gap < 0.0 => FAILOVER.unknown(
            format!("reading starts {:.1} s before writing ends: the clocks of the hosts differ", -gap),
            "synchronize the clocks, and repeat both runs",
        ),
        Some(gap) if gap <= FAILOVER_SECONDS => FAILOVER.pass(format!("{gap:.1} s")),
        Some(gap) if !recorded => FAILOVER.unknown(
            format!("{gap:.1} s between the benchmarks; that includes the start of the program"),
            "use a version of mlpstorage that records invocation_start_time and invocation_end_time",
        ),
        Some(gap) => FAILOVER.fail(
            format!("{gap:.1} s between the end of the writes and the start of the reads"),
            "let a script start the reads within 30 s",
        ),
    }
}

fn duration(runs: &[&Run]) -> Finding {
    let started = runs.iter().filter_map(|run| run.started()).reduce(f64::min);
    let ended = runs.iter().filter_map(|run| run.ended()).reduce(f64::max);
    match started.zip(ended) {
        Some((started, ended)) if ended >= started => DURATION.pass(format!("{:.0} s", ended - started)),
        _ => DURATION.unknown("the times are not recorded", "summary.json needs `start` and `end`"),
    }
}

/// Memory of an accelerator in GB if no file names it: MLPerf assumes the smallest one.
const ASSUMED_MEMORY: f64 = 80.0;

fn memory(runs: &[&Run]) -> Finding {
    let size = runs.iter().filter_map(|run| number(run.metric("checkpoint_size_GB"))).reduce(f64::max);
    let processes = runs.iter().filter_map(|run| run.accelerators()).min();
    let named = agreed(runs.iter().filter_map(|run| run.accelerator()));
    let each = named.as_deref().and_then(accelerator_memory);
    let Some((size, processes)) = size.zip(processes) else {
        return MEMORY.unknown("the size of a checkpoint is not recorded", "include summary.json of each run");
    };
    let total = processes as f64 * each.unwrap_or(ASSUMED_MEMORY);
    let name = named.as_deref().filter(|_| each.is_some()).unwrap_or("accelerators with 80 GB");
    let found = format!("{size:.0} GiB of checkpoint, {total:.0} GB in {processes} {name}");
    match (total >= size, each) {
        (true, _) => MEMORY.pass(found),
        (false, Some(_)) => MEMORY.fail(found, "use as many processes as the model needs"),
        (false, None) => MEMORY.unknown(found, "name the accelerator with --accelerator-type"),
    }
}

fn part(case: &Case, model: &LanguageModel, runs: &[&Run], division: Division) -> Finding {
    let subsets: Vec<&&Run> = runs.iter().filter(|run| is_subset(run)).collect();
    let wrong_count: Vec<String> = subsets
        .iter()
        .filter(|run| run.accelerators() != Some(SUBSET))
        .map(|run| of(run, format!("{} processes", run.accelerators().unwrap_or(0))))
        .collect();
    match subsets.len() {
        0 => PART.not_applicable("no run is a subset"),
        _ if case.version == Version::V2 => {
            PART.unless(&wrong_count, "8 processes", "run a subset with 8 processes on one host")
        }
        _ if division == Division::Open => PART.not_applicable("the rule is for the closed division"),
        _ if model.name != "llama3-8b" => PART.open_only(
            format!("a subset of {}", model.name),
            format!("run all {} processes; version 3 defines a subset for llama3-8b only", model.processes),
        ),
        _ => PART.unless(&wrong_count, "8 processes", "run the subset with 8 processes on one host"),
    }
}

fn processes(case: &Case, model: &LanguageModel, runs: &[&Run], division: Division) -> Finding {
    let rule: &'static Rule = if division == Division::Open { &SCALING } else { &PROCESSES };
    let Some(counts) = runs.iter().map(|run| run.accelerators()).collect::<Option<Vec<u64>>>() else {
        return rule.unknown("the number of processes is not recorded", "include summary.json of each run");
    };
    let closed = |run: &Run, count: u64| {
        count == model.processes || case.version == Version::V2 && count == SUBSET && is_subset(run)
    };
    let right = runs.iter().zip(&counts).all(|(run, count)| closed(run, *count));
    let multiple = counts.iter().all(|count| count % model.copy == 0);
    let text = counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" and ");
    match (right, multiple, agreed(counts.iter())) {
        (.., None) => rule.fail(format!("{text} processes"), "write and read with equally many processes"),
        (true, ..) => rule.pass(text),
        (false, true, _) => rule.open_only(
            format!("{} of {} processes", counts[0], model.processes),
            format!("run {} processes, or submit to the open division", model.processes),
        ),
        (false, false, _) => rule.fail(
            format!("{} processes", counts[0]),
            format!("run {} processes; open submissions may run a multiple of {}", model.processes, model.copy),
        ),
    }
}

fn per_host(runs: &[&Run], division: Division) -> Finding {
    let fewest = runs.iter().filter_map(|run| Some(run.accelerators()? as f64 / run.hosts()? as f64)).reduce(f64::min);
    match fewest {
        None => PER_HOST.unknown("processes or hosts are not recorded", "include summary.json of each run"),
        Some(_) if division == Division::Open => PER_HOST.not_applicable("the rule is for the closed division"),
        Some(each) if each > 4.0 => PER_HOST.pass(format!("{each}")),
        // The text says more than 4, the table at least 4; results with 4 were published.
        Some(4.0) => PER_HOST.unknown(
            "4 processes per host: the rule requires more than 4, its table at least 4",
            "ask MLCommons (mlcommons/storage issue 866), or use fewer hosts",
        ),
        Some(each) => PER_HOST
            .open_only(format!("{each:.1} processes per host"), "use fewer hosts: more than 4 processes on each"),
    }
}
