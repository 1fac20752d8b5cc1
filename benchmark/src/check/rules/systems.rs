//! Descriptions of systems, and whether runs agree with them.

use super::case::{ALL_RUNS, Case, WHOLE_SUBMISSION, agreed, of};
use super::package::folders;
use crate::check::edition::{MEMORY_TOLERANCE, Version};
use crate::check::finding::{Finding, Rule};
use crate::check::results::{Kind, Submitter, Workload};
use crate::check::run::{Run, names, yaml};
use crate::check::value::{at, flag, number};
use serde_json::Value;
use std::collections::BTreeSet;

static FILES: Rule = Rule { name: "systemsDirectoryFiles", v2: "11.4", v3: "2.1.7", title: "System descriptions" };
static NAMES: Rule = Rule { name: "resultsDirectorySystems", v2: "11.1", v3: "2.1.8", title: "Names of systems" };
static ALIKE: Rule = Rule { name: "identicalSystemConfig", v2: "3", v3: "2.1.9", title: "Runs on one system" };
static REMAP: Rule = Rule { name: "checkpointRemappingTimeReporting", v2: "", v3: "4.7.3", title: "Time of remapping" };
static SHARED: Rule =
    Rule { name: "checkpointSimultaneousRwSupport", v2: "", v3: "4.7.4", title: "Simultaneous reads and writes" };

/// Returns the findings about all descriptions of a submission.
pub fn findings(case: &Case) -> Vec<Finding> {
    if !case.results.is_submission() {
        return [&FILES, &NAMES].map(|rule| rule.unknown("DIR is not a submission", WHOLE_SUBMISSION)).into();
    }
    let submitters = &case.results.submitters;
    let unpaired: Vec<String> = submitters.iter().flat_map(|submitter| unpaired(case, submitter)).collect();
    let unnamed: Vec<String> = submitters.iter().flat_map(|submitter| unnamed(case, submitter)).collect();
    vec![
        FILES.unless(
            &unpaired,
            "each has its pdf",
            "write SYSTEM.yaml and SYSTEM.pdf for each system, and nothing else",
        ),
        NAMES.unless(
            &unnamed,
            "results and descriptions have the same names",
            "give results/SYSTEM, SYSTEM.yaml, SYSTEM.pdf and submission_name one name",
        ),
    ]
}

/// Returns the names of descriptions, and of documents, without extensions.
fn described(case: &Case, submitter: &Submitter) -> (BTreeSet<String>, BTreeSet<String>, Vec<String>) {
    let (mut descriptions, mut documents, mut others) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for name in names(&submitter.folder.join("systems")).into_iter().filter(|name| !name.starts_with('.')) {
        match name.rsplit_once('.') {
            Some((stem, "yaml")) => drop(descriptions.insert(stem.to_string())),
            // Version 2 names both forms in different sections.
            Some((stem, "json")) if case.version == Version::V2 => drop(descriptions.insert(stem.to_string())),
            Some((stem, "pdf")) => drop(documents.insert(stem.to_string())),
            Some((_, "md")) => {}
            _ => others.push(name),
        }
    }
    (descriptions, documents, others)
}

fn unpaired(case: &Case, submitter: &Submitter) -> Vec<String> {
    let (descriptions, documents, others) = described(case, submitter);
    let without = |stem: &String, extension: &str| format!("{stem} has no .{extension}");
    let mut wrong: Vec<String> = descriptions.difference(&documents).map(|stem| without(stem, "pdf")).collect();
    wrong.extend(documents.difference(&descriptions).map(|stem| without(stem, "yaml")));
    wrong.extend(others.into_iter().map(|name| format!("{name} in addition")));
    wrong
}

fn unnamed(case: &Case, submitter: &Submitter) -> Vec<String> {
    let (descriptions, ..) = described(case, submitter);
    let results: BTreeSet<String> = folders(&submitter.folder.join("results")).into_iter().collect();
    let mut wrong: Vec<String> =
        results.difference(&descriptions).map(|name| format!("results of {name} have no description")).collect();
    wrong.extend(descriptions.difference(&results).map(|name| format!("{name} is described but has no results")));
    for name in results.intersection(&descriptions).filter(|_| case.version == Version::V3) {
        let own = at(&description(submitter, name), "system_under_test.solution.submission_name").clone();
        if own.as_str() != Some(name) {
            wrong.push(format!("submission_name of {name} is {own}"));
        }
    }
    wrong
}

fn description(submitter: &Submitter, system: &str) -> Value {
    yaml(&submitter.folder.join(format!("systems/{system}.yaml")), &mut Vec::new()).to_json()
}

/// Returns the description of the system of a workload.
fn description_of(case: &Case, workload: &Workload) -> Option<Value> {
    let submitters = &case.results.submitters;
    let own = |submitter: &&Submitter| {
        Some(submitter.division) == workload.division && Some(&submitter.name) == workload.submitter.as_ref()
    };
    let tree = description(submitters.iter().find(own)?, workload.system.as_deref()?);
    tree.get("system_under_test").is_some().then_some(tree)
}

/// Returns the findings about the system that a workload ran on.
pub fn of_workload(case: &Case, workload: &Workload) -> Vec<Finding> {
    let runs = workload.measured();
    let description = description_of(case, workload);
    let mut found = vec![alike(case, &runs, description.as_ref())];
    if workload.kind == Kind::Checkpointing {
        found.extend(capabilities(&runs, description.as_ref()));
    }
    found
}

fn alike(case: &Case, runs: &[&Run], description: Option<&Value>) -> Finding {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    let mut differ = |what: &str, values: Vec<String>| {
        let differs = !values.is_empty() && agreed(values.iter()).is_none();
        compared += usize::from(!values.is_empty());
        if differs {
            let distinct: BTreeSet<String> = values.into_iter().collect();
            wrong.push(format!("{what}: {}", distinct.into_iter().collect::<Vec<_>>().join(" and ")));
        }
    };
    differ("hosts", runs.iter().filter_map(|run| run.hosts()).map(|hosts| hosts.to_string()).collect());
    differ("accelerators", runs.iter().filter_map(|run| run.accelerators()).map(|count| count.to_string()).collect());
    // The kernel may report some pages more or less after a restart.
    differ("GiB of memory", runs.iter().filter_map(|run| run.memory()).map(|memory| format!("{memory:.0}")).collect());
    if let Some(clients) = description.map(|tree| at(tree, "system_under_test.clients")).and_then(Value::as_array) {
        let quantity: f64 = clients.iter().filter_map(|client| number(at(client, "quantity"))).sum();
        let memory: f64 = clients
            .iter()
            .filter_map(|client| Some(number(at(client, "quantity"))? * number(at(client, "chassis.memory_capacity"))?))
            .sum();
        for run in runs {
            wrong.extend(against_description(run, quantity, memory));
        }
    }
    match (compared, runs.len()) {
        (0, _) => ALIKE.unknown("the runs do not describe their hosts", "include summary.json of each run"),
        (_, 1) if wrong.is_empty() && case.one_run => ALIKE.unknown("DIR is one run", ALL_RUNS),
        _ => ALIKE.unless(
            &wrong,
            "equal hosts, accelerators and memory",
            "repeat the runs on one set of hosts; correct the description, or give other hosts another system name",
        ),
    }
}

/// Returns how a run differs from the number of hosts and the memory in the description of its system.
fn against_description(run: &Run, quantity: f64, memory: f64) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(hosts) = run.hosts()
        && quantity > 0.0
        && hosts as f64 != quantity
    {
        wrong.push(of(run, format!("{hosts} hosts, {quantity} in the description")));
    }
    if let Some(measured) = run.memory()
        && memory > 0.0
        && (measured - memory).abs() > memory * MEMORY_TOLERANCE
    {
        wrong.push(of(run, format!("{measured:.0} GiB of memory, {memory:.0} in the description")));
    }
    wrong
}

fn capabilities(runs: &[&Run], description: Option<&Value>) -> [Finding; 2] {
    let Some(tree) = description else {
        return [&REMAP, &SHARED].map(|rule| rule.unknown("there is no description of the system", WHOLE_SUBMISSION));
    };
    let of = |name: &str| at(tree, &format!("system_under_test.solution.capabilities.{name}"));
    let (write, read) = (flag(of("simultaneous_write")), flag(of("simultaneous_read")));
    let shared = match (write, read, flag(of("multi_host"))) {
        (Some(write), Some(read), Some(hosts)) => {
            let several = runs.iter().any(|run| run.hosts() > Some(1));
            let text = format!("simultaneous_write={write}, simultaneous_read={read}, multi_host={hosts}");
            match several && !hosts {
                true => SHARED
                    .fail(format!("{text}, but the runs used several hosts"), "correct multi_host in the description"),
                false => SHARED.pass(text),
            }
        }
        _ => SHARED.fail(
            "capabilities lack simultaneous_write, simultaneous_read or multi_host",
            "add them to solution.capabilities of the description",
        ),
    };
    let remap = match (number(of("remap_time_in_seconds")), write == Some(true) && read == Some(true)) {
        (None, _) => {
            REMAP.fail("remap_time_in_seconds is missing", "add it to solution.capabilities; 0 if nothing is remapped")
        }
        (Some(0.0), true) => REMAP.pass("0 s: reads and writes are simultaneous"),
        (Some(seconds), true) => REMAP.fail(
            format!("{seconds} s, although reads and writes are simultaneous"),
            "set it to 0, or correct the capabilities",
        ),
        (Some(seconds), false) if seconds > 0.0 => REMAP.pass(format!("{seconds} s")),
        (Some(_), false) => {
            REMAP.fail("0 s, although reads and writes are not simultaneous", "measure and report the time")
        }
    };
    [remap, shared]
}
