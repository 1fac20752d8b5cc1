//! Where data, checkpoints and results were stored: the results must not be on the system under test.

use super::case::{Case, of};
use crate::check::finding::{Finding, Rule, listed};
use crate::check::results::{Kind, Workload};
use crate::check::run::Run;
use serde_json::Value;

static TRAINING_PATHS: Rule =
    Rule { name: "trainingMlpstoragePathArgs", v2: "", v3: "3.4.1", title: "Directories of data and results" };
static TRAINING_MOUNTS: Rule =
    Rule { name: "trainingMlpstorageFilesystemCheck", v2: "", v3: "3.4.2", title: "File systems differ" };
static CHECKPOINT_PATHS: Rule =
    Rule { name: "checkpointPathArgs", v2: "", v3: "4.4.1", title: "Directories of checkpoints and results" };
static CHECKPOINT_MOUNTS: Rule =
    Rule { name: "checkpointFilesystemCheck", v2: "", v3: "4.4.2", title: "File systems differ" };

pub fn findings(_: &Case, workload: &Workload) -> Vec<Finding> {
    let runs = workload.measured();
    let (paths_rule, mounts_rule, argument): (&'static Rule, &'static Rule, &str) = match workload.kind {
        Kind::Training => (&TRAINING_PATHS, &TRAINING_MOUNTS, "data_dir"),
        Kind::Checkpointing => (&CHECKPOINT_PATHS, &CHECKPOINT_MOUNTS, "checkpoint_folder"),
    };
    if runs.iter().any(|run| run.argument("data_access_protocol") == "object") {
        return [paths_rule, mounts_rule].map(|rule| rule.not_applicable("data are in an object store")).into();
    }
    vec![paths(paths_rule, &runs, argument), mounts(mounts_rule, &runs, argument)]
}

fn paths(rule: &'static Rule, runs: &[&Run], argument: &str) -> Finding {
    let with_arguments: Vec<&&Run> = runs.iter().filter(|run| run.metadata.get("args").is_some()).collect();
    if with_arguments.is_empty() {
        return rule.unknown("the arguments of mlpstorage are not recorded", "include *_metadata.json of each run");
    }
    let mut wrong = Vec::new();
    for run in with_arguments {
        let of_name = |name: &str| {
            run.argument(name).as_str().map(|path| path.trim_end_matches('/')).filter(|path| !path.is_empty())
        };
        match (of_name(argument), of_name("results_dir")) {
            (Some(data), Some(results)) if data == results => wrong.push(of(run, format!("both are {data}"))),
            (Some(_), Some(_)) => {}
            (None, _) => wrong.push(of(run, format!("{argument} is not set"))),
            (_, None) => wrong.push(of(run, "results_dir is not set")),
        }
    }
    rule.unless(
        &wrong,
        format!("{argument} and results_dir differ"),
        format!("set --{} and --results-dir to different directories", argument.replace('_', "-")),
    )
}

fn mounts(rule: &'static Rule, runs: &[&Run], argument: &str) -> Finding {
    let judged: Vec<(&&Run, Option<bool>)> = runs.iter().map(|run| (run, is_separate(run, argument))).collect();
    let same: Vec<String> = judged
        .iter()
        .filter(|(_, separate)| *separate == Some(false))
        .map(|(run, _)| of(run, "data and results are on one file system"))
        .collect();
    let silent: Vec<String> =
        judged.iter().filter(|(_, separate)| separate.is_none()).map(|(run, _)| run.name.clone()).collect();
    if runs.is_empty() {
        return rule.not_applicable("there are no runs");
    }
    if !same.is_empty() || silent.is_empty() {
        return rule.unless(
            &same,
            "as recorded in each run",
            "write the results to another file system, and repeat the runs",
        );
    }
    rule.unknown(
        format!("neither fs_separation.json nor the output of df in {}", listed(&silent)),
        "repeat the runs with a version of mlpstorage that records it; mlpstorage validate rejects runs without it",
    )
}

/// Returns whether data and results of a run were on different file systems, if it was recorded.
fn is_separate(run: &Run, argument: &str) -> Option<bool> {
    if run.files.contains("fs_separation.json") {
        let text = std::fs::read_to_string(run.folder.join("fs_separation.json")).ok()?;
        let recorded: Value = serde_json::from_str(&text).ok()?;
        return recorded.get("same_filesystem")?.as_bool().map(|same| !same);
    }
    let log = run.files.iter().find(|name| name.ends_with("_run.stdout.log"))?;
    let mounts = mounts_of(&std::fs::read_to_string(run.folder.join(log)).ok()?);
    let data = mount(&mounts, run.argument(argument).as_str()?)?;
    let results = mount(&mounts, run.argument("results_dir").as_str()?)?;
    Some(data != results)
}

/// Returns the mount points in the output of df.
fn mounts_of(log: &str) -> Vec<String> {
    let header = |line: &&str| line.starts_with("Filesystem") && line.trim_end().ends_with("Mounted on");
    let rows = log.lines().skip_while(|line| !header(line)).skip(1);
    // The last column may contain blanks.
    let mounted = |line: &str| {
        let mut rest = line;
        for _ in 0..5 {
            rest = rest.trim_start().split_once(char::is_whitespace)?.1;
        }
        let place = rest.trim();
        place.starts_with('/').then(|| place.to_string())
    };
    rows.map_while(mounted).collect()
}

/// Returns the mount point that contains a path: the longest one.
fn mount<'a>(mounts: &'a [String], path: &str) -> Option<&'a String> {
    let contains = |mount: &&String| {
        let mount = mount.trim_end_matches('/');
        path == mount || path.strip_prefix(mount).is_some_and(|rest| rest.starts_with('/'))
    };
    mounts.iter().filter(contains).max_by_key(|mount| mount.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_mount_contains_a_path() {
        let log = "before\nFilesystem 1K-blocks Used Available Use% Mounted on\n/dev/a 9 1 8 2% /\n/dev/b 9 1 8 2% /mnt/data set\n\nFilesystem\n";
        let mounts = mounts_of(log);
        assert_eq!(mounts, ["/", "/mnt/data set"]);
        assert_eq!(mount(&mounts, "/mnt/data set/unet3d").unwrap(), "/mnt/data set");
        assert_eq!(mount(&mounts, "/mnt/data settings").unwrap(), "/");
        assert_eq!(mount(&mounts, "relative"), None);
        assert!(mounts_of("no table").is_empty());
    }
}
