//! The directories and files of a submission.

use super::case::{ALL_RUNS, Case, WHOLE_SUBMISSION, has_generation_logs};
use crate::check::edition::{Division, LANGUAGE_MODELS, Version, language_model};
use crate::check::finding::{Finding, Rule, TOOL};
use crate::check::results::{Kind, Submitter, Workload};
use crate::check::run::{Phase, Run, names};
use std::path::Path;

static SUBMITTER: Rule = Rule { name: "submitterRootDirectory", v2: "", v3: "2.1.1", title: "Name of the submitter" };
static TOP: Rule = Rule { name: "topLevelSubdirectories", v2: "11.3", v3: "2.1.2", title: "closed and open" };
static REQUIRED: Rule = Rule { name: "requiredSubdirectories", v2: "11.1", v3: "2.1.5", title: "Required directories" };
static CODE: Rule = Rule { name: "codeDirectoryContents", v2: "11.1", v3: "2.1.6", title: "Code of the benchmark" };
static CATEGORIES: Rule = Rule { name: "workloadCategories", v2: "", v3: "2.1.10", title: "Categories of workloads" };
static TRAINED: Rule = Rule { name: "trainingWorkloads", v2: "2.1", v3: "2.1.11", title: "Model that is trained" };
static PHASES: Rule = Rule { name: "trainingPhases", v2: "7", v3: "2.1.12", title: "datasize, datagen and run" };
static CHECKPOINTED: Rule =
    Rule { name: "checkpointingWorkloads", v2: "2.2.1", v3: "2.1.21", title: "Model of the checkpoints" };
static UNCHANGED: Rule =
    Rule { name: "closedSubmissionChecksum", v2: "10.1", v3: "3.6.1", title: "Code is not changed" };
static OTHERS: Rule = Rule { name: "otherBenchmarks", v2: TOOL, v3: "5, 6", title: "Other benchmarks" };

/// Returns the findings about a whole submission.
pub fn findings(case: &Case) -> Vec<Finding> {
    let results = case.results;
    let mut found = Vec::new();
    if !results.other_benchmarks.is_empty() {
        found.push(OTHERS.unknown(
            results.other_benchmarks.join(" and "),
            "run mlpstorage validate; dlio checks training and checkpointing only",
        ));
    }
    if !results.is_submission() {
        let rules = [&SUBMITTER, &TOP, &REQUIRED, &CODE];
        found.extend(rules.map(|rule| rule.unknown("DIR is not a submission", WHOLE_SUBMISSION)));
        return found;
    }
    let wrong: Vec<String> =
        results.submitters.iter().map(|submitter| submitter.name.clone()).filter(|name| !is_plain(name)).collect();
    let right = results.submitters.iter().map(|submitter| submitter.name.clone()).collect::<Vec<_>>().join(", ");
    found.push(SUBMITTER.unless(&wrong, right, "use letters, digits, `.`, `_` and `-` only"));
    found.push(top(case));
    let missing: Vec<String> = results.submitters.iter().flat_map(|submitter| required(case, submitter)).collect();
    found.push(REQUIRED.unless(
        &missing,
        "results and systems",
        match case.version {
            Version::V2 => "a submitter needs code, results and systems",
            Version::V3 => "a submitter has results and systems, and no other directories; code belongs to code-images",
        },
    ));
    found.push(code(case));
    found
}

fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

fn top(case: &Case) -> Finding {
    let root = &case.results.root;
    let allowed = |name: &str| match case.version {
        Version::V2 => Division::parse(name).is_some(),
        Version::V3 => {
            let pool = root.join(name).join(".mlps-image-pool").is_file();
            ["closed", "open", "code-images"].contains(&name) || pool
        }
    };
    let extra: Vec<String> = folders(root).into_iter().filter(|name| !allowed(name)).collect();
    let names = match case.version {
        Version::V2 => "Closed and Open",
        Version::V3 => "closed, open and code-images, in lower case",
    };
    TOP.unless(&extra, names, format!("keep only the directories {names}"))
}

fn required(case: &Case, submitter: &Submitter) -> Vec<String> {
    let present = folders(&submitter.folder);
    let needed: &[&str] = match case.version {
        Version::V2 => &["code", "results", "systems"],
        Version::V3 => &["results", "systems"],
    };
    let missing = needed.iter().filter(|name| !present.iter().any(|have| have == *name));
    let missing = missing.map(|name| format!("{} has no {name}", submitter.name));
    let extra = present.iter().filter(|name| case.version == Version::V3 && !needed.contains(&name.as_str()));
    missing.chain(extra.map(|name| format!("{} has {name} in addition", submitter.name))).collect()
}

/// Returns the directories below, without hidden ones.
pub fn folders(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|name| !name.starts_with('.') && folder.join(name).is_dir()).collect()
}

/// Checks that each run names an image of the code that exists.
fn code(case: &Case) -> Finding {
    if case.version == Version::V2 {
        let empty = case.results.submitters.iter().filter(|submitter| names(&submitter.folder.join("code")).is_empty());
        let empty: Vec<String> = empty.map(|submitter| format!("{} has no code", submitter.name)).collect();
        return CODE.unless(&empty, "present", "include the source code of the benchmark");
    }
    let root = &case.results.root;
    let mut wrong = Vec::new();
    for workload in &case.results.workloads {
        let pools = [Some(root.join("code-images")), workload.submitter.as_ref().map(|name| root.join(name))];
        for (_, run) in &workload.runs {
            let pointer = std::fs::read_to_string(run.folder.join(".mlps-code-image"));
            let Ok(pointer) = pointer else {
                wrong.push(format!("{} has no .mlps-code-image", run.name));
                continue;
            };
            let image = pointer.trim();
            let image = if image.starts_with("code-") { image.to_string() } else { format!("code-{image}") };
            let exists = pools.iter().flatten().any(|pool| pool.join(&image).join(".code-hash.json").is_file());
            if !exists {
                wrong.push(format!("{} names {image}, which is not in code-images", run.name));
            }
        }
    }
    CODE.unless(
        &wrong,
        "each run names its image",
        "include the directory code-images and the .mlps-code-image of each run, as mlpstorage wrote them",
    )
}

/// Returns the findings about the directories of a workload.
pub fn of_workload(case: &Case, workload: &Workload) -> Vec<Finding> {
    let mut found = vec![model(case, workload)];
    if workload.kind == Kind::Training {
        found.push(phases(case, workload));
    }
    if let Some(folder) =
        workload.folder.as_deref().and_then(|folder| folder.parent()?.parent()).filter(|_| workload.system.is_some())
    {
        let known = ["training", "checkpointing", "vector_database", "kv_cache"];
        let extra: Vec<String> = folders(folder).into_iter().filter(|name| !known.contains(&name.as_str())).collect();
        found.push(CATEGORIES.unless(&extra, known[..2].join(", "), "keep only directories of categories"));
    }
    found.push(match case.division_of(workload) {
        Division::Closed => UNCHANGED.unknown(
            "the files do not show it",
            "mlpstorage validate compares the checksum of the code; results of `dlio bench` are of another program, so they are for tests only",
        ),
        Division::Open => UNCHANGED.not_applicable("open submissions may change the code and must disclose it"),
    });
    found
}

fn model(case: &Case, workload: &Workload) -> Finding {
    let of_runs = |run: &Run| run.model().filter(|model| !is_one_model(model, &workload.model));
    let others: Vec<String> =
        workload.runs.iter().filter_map(|(_, run)| Some(format!("{} is of {}", run.name, of_runs(run)?))).collect();
    let (rule, known): (&'static Rule, Vec<&str>) = match workload.kind {
        Kind::Training => (&TRAINED, case.version.trained().iter().map(|(name, _)| *name).collect()),
        Kind::Checkpointing => (&CHECKPOINTED, LANGUAGE_MODELS.iter().map(|model| model.name).collect()),
    };
    if !known.iter().any(|name| is_one_model(name, &workload.model)) {
        return rule.fail(
            format!("{} is not a model of {}", workload.model, case.version.name()),
            format!("submit results of {}", known.join(", ")),
        );
    }
    rule.unless(&others, workload.model.clone(), "keep runs of one model in its directory")
}

fn is_one_model(left: &str, right: &str) -> bool {
    match (language_model(left), language_model(right)) {
        (Some(left), Some(right)) => left.name == right.name,
        _ => left.eq_ignore_ascii_case(right),
    }
}

fn phases(case: &Case, workload: &Workload) -> Finding {
    if case.one_run {
        return PHASES.unknown("DIR is one run", ALL_RUNS);
    }
    let needed: &[Phase] = match case.version {
        Version::V2 => &[Phase::Datagen, Phase::Run],
        Version::V3 => &Phase::ALL,
    };
    let logged = has_generation_logs(case, workload);
    let missing = needed.iter().filter(|phase| workload.of(**phase).next().is_none());
    let missing = missing.filter(|phase| **phase != Phase::Datagen || !logged);
    let mut wrong: Vec<String> = missing.map(|phase| format!("no {}", phase.name())).collect();
    if let Some(folder) = workload.folder.as_deref().filter(|_| case.version == Version::V3) {
        let extra = folders(folder).into_iter().filter(|name| Phase::parse(name).is_none());
        wrong.extend(extra.map(|name| format!("{name} in addition")));
    }
    let right = needed.iter().map(|phase| phase.name()).collect::<Vec<_>>().join(", ");
    PHASES.unless(&wrong, right, "include the directories that mlpstorage wrote for datasize, datagen and run")
}
