//! Training runs: the data size, utilization, and whether datasize, datagen and run agree.

use super::case::{ALL_RUNS, ByText, Case, has_generation_logs, of, range};
use crate::check::edition::{GIB, RUNS, STEPS_MIN, TIMES_MEMORY, Version};
use crate::check::finding::{Finding, Rule, listed};
use crate::check::results::Workload;
use crate::check::run::{Phase, Run};
use crate::check::value::{at, count, number};

static SIZED: Rule = Rule { name: "trainingVerifyDatasizeUsage", v2: "", v3: "3.1.1", title: "datasize was used" };
static SIZE: Rule = Rule { name: "trainingRecalculateDatasetSize", v2: "7", v3: "3.1.2", title: "Data set size" };
static GENERATED: Rule = Rule { name: "trainingDatagenMinimumSize", v2: "7", v3: "3.2.1", title: "Generated data" };
static AGREE: Rule =
    Rule { name: "trainingRunDataMatchesDatasize", v2: "7", v3: "3.3.1", title: "datasize, datagen and run agree" };
static UTILIZATION: Rule =
    Rule { name: "trainingAcceleratorUtilizationCheck", v2: "4", v3: "3.3.2", title: "Accelerator utilization" };
static ONE_HOST: Rule =
    Rule { name: "trainingSingleHostClientLimit", v2: "8", v3: "3.3.4", title: "Hosts of a single-host run" };
static PER_HOST: Rule =
    Rule { name: "trainingIdenticalAcceleratorsPerNode", v2: "9", v3: "3.3.6", title: "Accelerators per host" };
static ALIKE: Rule =
    Rule { name: "trainingNodeCapabilityConsistency", v2: "", v3: "3.3.7", title: "Hosts are similar" };
static SEED: Rule = Rule { name: "randomSeed", v2: "6.6", v3: "", title: "New seed for each run" };
static REPLICABLE: Rule = Rule { name: "replicability", v2: "6.7", v3: "", title: "Runs within 5 %" };

pub fn findings(case: &Case, workload: &Workload) -> Vec<Finding> {
    let runs = workload.measured();
    let mut found = vec![sized(case, workload), size(case, &runs)];
    found.push(generated(case, workload, &runs));
    found.push(agree(case, workload, &runs));
    found.push(utilization(case, workload, &runs));
    found.push(one_host(&runs));
    found.push(per_host(&runs));
    found.push(alike(&runs));
    found.push(SEED.unknown("the files do not show it", "start all runs with mlpstorage, which changes the seed"));
    found.push(replicable(&runs));
    found
}

fn sized(case: &Case, workload: &Workload) -> Finding {
    let datasize: Vec<&Run> = workload.of(Phase::Datasize).collect();
    match datasize.first() {
        _ if case.one_run => SIZED.unknown("DIR is one run", ALL_RUNS),
        None => SIZED.fail("no datasize directory", "run mlpstorage training datasize, and keep its directory"),
        Some(run) if run.files_train().is_none() => SIZED.fail(
            format!("{} has no dataset.num_files_train", run.name),
            "repeat mlpstorage training datasize; its *_metadata.json must contain the result",
        ),
        Some(run) => SIZED.pass(format!("{} files", run.files_train().unwrap_or(0))),
    }
}

/// Files that a run needs for enough steps, and to exceed the memory of the hosts.
struct Needed {
    by_steps: u64,
    by_memory: Option<u64>,
    memory: Option<f64>,
}

impl Needed {
    fn of(case: &Case, run: &Run) -> Option<Needed> {
        let (samples, bytes) = run.file()?;
        let batch = count(run.setting("reader.batch_size"))?;
        let steps = STEPS_MIN.checked_mul(batch)?.checked_mul(run.accelerators()?)?;
        let memory = case.memory(run);
        let by_memory = memory.map(|memory| (TIMES_MEMORY * memory * GIB / (samples as f64 * bytes)).ceil() as u64);
        Some(Needed { by_steps: steps.div_ceil(samples), by_memory, memory })
    }

    fn files(&self) -> u64 {
        self.by_steps.max(self.by_memory.unwrap_or(0))
    }

    fn reason(&self) -> String {
        match (self.by_memory, self.memory) {
            (Some(files), Some(memory)) if files > self.by_steps => {
                format!("{TIMES_MEMORY} times {memory:.1} GiB of memory of all hosts")
            }
            _ => format!("{STEPS_MIN} steps per epoch"),
        }
    }
}

fn size(case: &Case, runs: &[&Run]) -> Finding {
    let (mut small, mut enough, mut unknown) = (ByText::default(), None, ByText::default());
    let mut action = String::new();
    for run in runs {
        let (Some(needed), Some(files)) = (Needed::of(case, run), run.files_train()) else {
            unknown.add(run, "files, batch size, record length or accelerators are missing");
            continue;
        };
        if files < needed.files() {
            small.add(run, format!("{files} files; {} are needed for {}", needed.files(), needed.reason()));
            action = format!("generate and read {} files (dlio bench size), with the same hosts", needed.files());
        } else if needed.by_memory.is_none() {
            unknown.add(run, "enough steps, but the memory of the hosts is unknown");
        } else {
            enough = Some(format!("{files} files; {} are needed for {}", needed.files(), needed.reason()));
        }
    }
    let (small, unknown) = (small.list(), unknown.list());
    if !small.is_empty() {
        return SIZE.fail(listed(&small), action);
    }
    match (unknown.is_empty(), enough) {
        (true, Some(enough)) => SIZE.pass(enough),
        (true, None) => SIZE.not_applicable("there are no runs"),
        _ => SIZE.unknown(
            listed(&unknown),
            "include summary.json and dlio_config/config.yaml of each run, or give the memory of a host with --memory",
        ),
    }
}

fn generated(case: &Case, workload: &Workload, runs: &[&Run]) -> Finding {
    let datagen: Vec<&Run> = workload.of(Phase::Datagen).collect();
    let wanted = workload.of(Phase::Datasize).filter_map(Run::files_train).max();
    let wanted = wanted.or_else(|| runs.iter().filter_map(|run| run.files_train()).max());
    let made = datagen.iter().filter_map(|run| run.files_train()).max();
    match (made, wanted) {
        _ if datagen.is_empty() && case.one_run => GENERATED.unknown("DIR is one run", ALL_RUNS),
        _ if datagen.is_empty() && has_generation_logs(case, workload) => GENERATED.unknown(
            "the logs in generation_logs are not compared",
            "compare their number of files with that of the runs",
        ),
        _ if datagen.is_empty() => {
            GENERATED.fail("no datagen directory", "include the directory of mlpstorage training datagen")
        }
        (Some(made), Some(wanted)) if made < wanted => GENERATED.fail(
            format!("{made} files were generated, {wanted} are needed"),
            "generate the missing files, and repeat the runs",
        ),
        (Some(made), Some(wanted)) => GENERATED.pass(format!("{made} files were generated, {wanted} are needed")),
        _ => GENERATED.unknown("the number of files is not recorded", "include dlio_config/config.yaml of datagen"),
    }
}

fn agree(case: &Case, workload: &Workload, runs: &[&Run]) -> Finding {
    let datasize: Vec<&Run> = workload.of(Phase::Datasize).collect();
    let datagen: Option<&Run> = workload.of(Phase::Datagen).last();
    if datagen.is_none() && datasize.is_empty() {
        return AGREE.unknown("there is neither datasize nor datagen to compare with", ALL_RUNS);
    }
    let mut wrong = Vec::new();
    let mut larger = 0;
    for run in runs {
        let place = run.argument("data_dir").as_str();
        let is_for = |size: &&&Run| place.is_none() || size.argument("data_dir").as_str() == place;
        let sizes: Vec<&&Run> = datasize.iter().filter(is_for).collect();
        if sizes.len() > 1 {
            wrong.push(of(run, format!("{} datasize results are for its data_dir", sizes.len())));
        } else if let Some(size) = sizes.first() {
            wrong.extend(against_datasize(run, size));
            larger += u64::from(run.files_train() > size.files_train());
        } else if !datasize.is_empty() {
            wrong.push(of(run, "no datasize result is for its data_dir"));
        }
        wrong.extend(datagen.into_iter().flat_map(|datagen| against_datagen(run, datagen)));
    }
    let note = match larger {
        0 => String::new(),
        // Rules.md requires equal numbers; its validator allows more.
        _ => "; more files than datasize computed, which the validator allows".into(),
    };
    let phases = if datasize.is_empty() { "datagen and run agree" } else { "datasize, datagen and run agree" };
    let action = match case.version {
        Version::V2 => "give datagen and run the same num_files_train, num_subfolders_train and sizes",
        Version::V3 => "repeat datasize, datagen and the runs with the same data_dir, files, subfolders and hosts",
    };
    AGREE.unless(&wrong, format!("{phases}{note}"), action)
}

/// Returns how a run differs from the size that was computed for it.
fn against_datasize(run: &Run, size: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    if let (Some(own), Some(sized)) = (run.files_train(), size.files_train())
        && own < sized
    {
        wrong.push(of(run, format!("{own} files, {sized} in datasize")));
    }
    let accelerators = count(size.argument("max_accelerators"));
    if let (Some(own), Some(sized)) = (run.accelerators(), accelerators)
        && own > sized
    {
        wrong.push(of(run, format!("{own} accelerators, at most {sized} in datasize")));
    }
    if let (Some(own), Some(sized)) = (run.hosts(), count(size.argument("num_client_hosts")))
        && own > sized
    {
        wrong.push(of(run, format!("{own} hosts, {sized} in datasize")));
    }
    wrong
}

/// Returns how a run differs from the data that were generated for it.
fn against_datagen(run: &Run, datagen: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    if let (Some(own), Some(made)) = (run.files_train(), datagen.files_train())
        && own > made
    {
        wrong.push(of(run, format!("{own} files, {made} in datagen")));
    }
    // The runs read a part of the data only if they know all directories.
    for key in ["dataset.num_subfolders_train", "dataset.num_samples_per_file", "dataset.record_length_bytes"] {
        let of_key =
            |run: &Run| if run.has_settings() { number(run.setting(key)).or(Some(default_of(key))) } else { None };
        if let (Some(own), Some(made)) = (of_key(run), of_key(datagen))
            && own != made
        {
            wrong.push(of(run, format!("{key}={own}, {made} in datagen")));
        }
    }
    let places = [run.argument("data_dir").as_str(), datagen.argument("data_dir").as_str()];
    if let [Some(own), Some(made)] = places
        && own.trim_end_matches('/') != made.trim_end_matches('/')
    {
        wrong.push(of(run, format!("data_dir {own}, {made} in datagen")));
    }
    wrong
}

fn default_of(key: &str) -> f64 {
    if key.ends_with("per_file") { 1.0 } else { 0.0 }
}

fn utilization(case: &Case, workload: &Workload, runs: &[&Run]) -> Finding {
    let least = case.version.trained().iter().find(|(name, _)| *name == workload.model).map(|(_, least)| *least);
    let Some(least) = least else {
        return UTILIZATION.not_applicable(format!("{} has no minimum in {}", workload.model, case.version.name()));
    };
    let known = |run: &&&Run| number(run.metric("train_au_mean_percentage"));
    let values = range(runs.iter().filter_map(|run| known(&run)));
    if runs.is_empty() {
        return UTILIZATION.not_applicable("there are no runs");
    }
    let Some((low, high)) = values else {
        return UTILIZATION.fail("no run has a utilization", "repeat the runs until at least one epoch is complete");
    };
    // With a warm-up in front of five runs, only the five count.
    let first = usize::from(runs.len() == RUNS);
    let wrong: Vec<String> = runs[first..].iter().filter_map(|run| below(run, least)).collect();
    let found = format!("{low:.2} to {high:.2} %; at least {least:.0} % is required");
    if !wrong.is_empty() {
        return UTILIZATION.fail(
            format!("{}; at least {least:.0} % is required", listed(&wrong)),
            "use fewer accelerators per host or faster storage, and repeat all runs; dlio-analyze shows the bottleneck",
        );
    }
    match runs[..first].iter().find_map(|run| below(run, least)) {
        Some(warm_up) => UTILIZATION.unknown(
            format!("only the warm-up is below {least:.0} %: {warm_up}"),
            "the rules do not count it, but mlpstorage validate checks it too; run again after a longer warm-up",
        ),
        None => UTILIZATION.pass(found),
    }
}

/// Returns what is wrong with the utilization of a run.
fn below(run: &Run, least: f64) -> Option<String> {
    let Some(own) = number(run.metric("train_au_mean_percentage")) else { return Some(of(run, "no utilization")) };
    let expectation = run.metric("train_au_meet_expectation").as_str();
    let other = number(at(run.metric("compat"), "train_au_mean_percentage"))
        .filter(|other| (*other >= least) != (own >= least));
    let other = other.map(|other| format!(" ({other:.2} % by DLIO's own formula)")).unwrap_or_default();
    if own < least {
        return Some(of(run, format!("{own:.2} %{other}")));
    }
    let contradicts = expectation.is_some_and(|expectation| expectation != "success");
    contradicts
        .then(|| of(run, format!("{own:.2} %, but train_au_meet_expectation is `{}`", expectation.unwrap_or(""))))
}

fn one_host(runs: &[&Run]) -> Finding {
    let single: Vec<&&Run> = runs.iter().filter(|run| run.hosts() == Some(1)).collect();
    let hosts = |run: &Run| run.argument("hosts").as_array().map_or(0, Vec::len);
    let wrong = single.iter().filter(|run| hosts(run) > 1);
    let wrong: Vec<String> = wrong.map(|run| of(run, format!("{} hosts were given, one ran", hosts(run)))).collect();
    match single.len() {
        0 => ONE_HOST.not_applicable("the runs use several hosts"),
        _ => ONE_HOST.unless(&wrong, "one host", "give --hosts only the host that runs"),
    }
}

fn per_host(runs: &[&Run]) -> Finding {
    let numbers: Vec<(&Run, u64, u64)> =
        runs.iter().filter_map(|run| Some((*run, run.accelerators()?, run.hosts()?))).collect();
    let wrong = numbers.iter().filter(|(_, accelerators, hosts)| accelerators % hosts != 0);
    let wrong: Vec<String> = wrong
        .map(|(run, accelerators, hosts)| of(run, format!("{accelerators} accelerators on {hosts} hosts")))
        .collect();
    match numbers.first() {
        None => PER_HOST.unknown("the runs lack accelerators or hosts", "include summary.json of each run"),
        Some((_, accelerators, hosts)) => PER_HOST.unless(
            &wrong,
            format!("{} on each of {hosts} hosts", accelerators / hosts),
            "run equally many accelerators on each host",
        ),
    }
}

/// The ratio of the memory of two hosts above which they differ widely.
const WIDELY: f64 = 1.5;

fn alike(runs: &[&Run]) -> Finding {
    let ratio = |run: &&Run| {
        let of = |key: &str| {
            number(at(&run.metadata, &format!("system_info.{key}_memory_bytes"))).filter(|bytes| *bytes > 0.0)
        };
        Some(of("max")? / of("min")?)
    };
    let largest = runs.iter().filter_map(ratio).reduce(f64::max);
    match largest {
        _ if runs.iter().all(|run| run.hosts() == Some(1)) => ALIKE.not_applicable("one host"),
        Some(ratio) if ratio <= WIDELY => ALIKE.pass(format!("memory differs by a factor of {ratio:.2}")),
        Some(ratio) => ALIKE.unknown(
            format!("memory differs by a factor of {ratio:.2}"),
            "explain it in the system description; reviewers are warned",
        ),
        None => ALIKE.unknown("no file describes each host", "include *_metadata.json of mlpstorage"),
    }
}

fn replicable(runs: &[&Run]) -> Finding {
    let counted = if runs.len() == RUNS { &runs[1..] } else { runs };
    let rates = counted.iter().filter_map(|run| number(run.metric("train_throughput_mean_samples_per_second")));
    match range(rates) {
        Some((low, high)) if counted.len() > 1 && low > 0.0 => {
            let percent = 100.0 * (high - low) / low;
            match percent <= 5.0 {
                true => REPLICABLE.pass(format!("throughput differs by {percent:.1} %")),
                false => REPLICABLE.unknown(
                    format!("throughput differs by {percent:.1} %"),
                    "a replication must be within 5 % of the result in five tries",
                ),
            }
        }
        _ => REPLICABLE.unknown("fewer than two runs with a throughput", ALL_RUNS),
    }
}
