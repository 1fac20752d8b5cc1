//! `dlio check mlperf`: a submission that passes, one damage per rule, and input without results.

#[path = "mlperf/made.rs"]
mod made;
mod program;

use made::{CHECKPOINTS, FILES, Made, READ, RUN, TIMES, TRAINING, WRITE, clock_after, rules};
use program::{Folder, dlio, stderr, stdout};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Rules of version 3 that no file can decide.
const UNDECIDED: [&str; 2] = ["closedSubmissionChecksum", "closedSubmissionChecksum"];

#[test]
fn good_submission_passes_every_rule_that_files_show() {
    let made = Made::new("mlperf-good");
    let (code, json) = made.check(&[]);
    assert_eq!(rules(&json, "fail"), [""; 0], "{json:#}");
    assert_eq!(rules(&json, "unknown"), UNDECIDED, "{json:#}");
    assert_eq!((code, &json["version"], &json["division"]), (Some(0), &json!("v3.0"), &json!("closed")));
    // The checksum of the code is for the closed division only.
    assert_eq!((&json["accepted"]["closed"], &json["accepted"]["open"]), (&json!("unknown"), &json!("yes")));
    assert_eq!(json["workloads"].as_array().unwrap().len(), 2);
    // Without the submission around it, the results alone pass too.
    let inner = dlio(&made.folder, &["check", "mlperf", "s/closed/ACME/results", "--format", "json"]);
    assert_eq!(inner.status.code(), Some(0), "{}", stdout(&inner));
}

/// A damage, and the rule that must notice it.
type Damage = (&'static str, &'static str, fn(&Made));

fn first(name: &str) -> String {
    format!("{RUN}/{}/{name}", TIMES[1])
}

const DAMAGES: &[Damage] = &[
    ("2.1.1", "submitterRootDirectory", |made| made.rename("s/closed/ACME", "s/closed/A B")),
    ("2.1.2", "topLevelSubdirectories", |made| made.write("s/extra/x", "")),
    ("2.1.5", "requiredSubdirectories", |made| made.write("s/closed/ACME/code/x.py", "")),
    ("2.1.6", "codeDirectoryContents", |made| made.write(&first(".mlps-code-image"), "ffffffff")),
    ("2.1.7", "systemsDirectoryFiles", |made| made.remove("s/closed/ACME/systems/sys-a.pdf")),
    ("2.1.8", "resultsDirectorySystems", |made| {
        made.replace("s/closed/ACME/systems/sys-a.yaml", "submission_name: sys-a", "submission_name: sys-b")
    }),
    ("2.1.9", "identicalSystemConfig", |made| {
        made.edit(&first("summary.json"), |run| run["host_memory_GB"] = json!([100.0, 0.0]))
    }),
    ("2.1.10", "workloadCategories", |made| made.write("s/closed/ACME/results/sys-a/notes/x", "")),
    ("2.1.11", "trainingWorkloads", |made| {
        made.edit(&first(&format!("training_{}_metadata.json", TIMES[1])), |run| run["model"] = "retinanet".into())
    }),
    ("2.1.12", "trainingPhases", |made| made.write(&format!("{TRAINING}/tuning/x"), "")),
    ("2.1.13", "datagenTimestamp", |made| {
        made.rename(&format!("{TRAINING}/datagen/20260801_080500"), &format!("{TRAINING}/datagen/first"))
    }),
    ("2.1.14", "datagenFiles", |made| {
        made.remove(&format!("{TRAINING}/datagen/20260801_080500/training_datagen.stderr.log"))
    }),
    ("2.1.15", "datagenDlioConfig", |made| {
        made.write(&format!("{TRAINING}/datagen/20260801_080500/dlio_config/notes"), "")
    }),
    ("2.1.16", "runResultsJson", |made| made.remove(&format!("{RUN}/results.json"))),
    ("2.1.17", "runTimestamps", |made| made.remove(&format!("{RUN}/{}", TIMES[5]))),
    ("2.1.18", "runTimestampGap", |made| {
        let name = first("summary.json");
        made.edit(&name, |run| run["end"] = clock_after(TIMES[2], 30).into());
    }),
    ("2.1.19", "runFiles", |made| made.remove(&first("dlio.log"))),
    ("2.1.20", "runDlioConfig", |made| made.remove(&first("dlio_config/hydra.yaml"))),
    ("2.1.21", "checkpointingWorkloads", |made| {
        made.edit(&format!("{READ}/checkpointing_20260801_201015_metadata.json"), |run| {
            run["model"] = "llama3-70b".into()
        })
    }),
    ("2.1.22", "checkpointingResultsJson", |made| made.remove(&format!("{CHECKPOINTS}/results.json"))),
    ("2.1.25", "checkpointingFiles", |made| made.remove(&format!("{READ}/checkpointing_run.stdout.log"))),
    ("2.1.26", "checkpointingDlioConfig", |made| made.write(&format!("{READ}/dlio_config/x"), "")),
    ("3.1.2", "trainingRecalculateDatasetSize", |made| {
        // 28,000 files of 137 MiB are five times 765 GiB.
        made.edit_summaries(|run| run["host_memory_GB"] = json!([766.0, 0.0]))
    }),
    ("3.3.1", "trainingRunDataMatchesDatasize", |made| {
        let name = format!("{TRAINING}/datasize/20260801_080000/training_20260801_080000_metadata.json");
        made.edit(&name, |size| size["args"]["max_accelerators"] = 4.into())
    }),
    ("3.3.2", "trainingAcceleratorUtilizationCheck", |made| {
        made.edit(&first("summary.json"), |run| run["metric"]["train_au_mean_percentage"] = 89.99.into())
    }),
    ("3.3.6", "trainingIdenticalAcceleratorsPerNode", |made| {
        made.edit_summaries(|run| {
            run["num_accelerators"] = 7.into();
        })
    }),
    ("3.4.1", "trainingMlpstoragePathArgs", |made| {
        let name = first(&format!("training_{}_metadata.json", TIMES[1]));
        made.edit(&name, |run| run["args"]["results_dir"] = "/mnt/data/".into())
    }),
    ("3.4.2", "trainingMlpstorageFilesystemCheck", |made| {
        made.write(&first("fs_separation.json"), r#"{"same_filesystem": true}"#)
    }),
    ("3.6.2", "trainingClosedSubmissionParameters", |made| {
        made.write(
            &first("dlio_config/overrides.yaml"),
            "- workload=unet3d_b200\n- ++workload.reader.batch_shuffle=1\n",
        )
    }),
    ("3.6.2", "workloadDefinition", |made| {
        made.replace(&first("dlio_config/config.yaml"), "computation_time: 0.162", "computation_time: 0.2")
    }),
    ("4.3.2", "checkpointFsyncVerification", |made| {
        made.replace(&format!("{WRITE}/dlio_config/config.yaml"), "fsync: true", "fsync: false")
    }),
    ("4.4.1", "checkpointPathArgs", |made| {
        let name = format!("{READ}/checkpointing_20260801_201015_metadata.json");
        made.edit(&name, |run| run["args"]["checkpoint_folder"] = Value::Null)
    }),
    ("4.4.2", "checkpointFilesystemCheck", |made| {
        made.write(&format!("{READ}/fs_separation.json"), r#"{"same_filesystem": true}"#)
    }),
    ("4.6.3", "checkpointClosedCheckpointParameters", |made| {
        made.write(&format!("{READ}/dlio_config/overrides.yaml"), "- ++workload.model.num_layers=2\n")
    }),
    ("4.7.1", "checkpointCacheFlushValidation", |made| {
        let name = format!("{READ}/checkpointing_20260801_201015_metadata.json");
        made.edit(&name, |run| run["invocation_start_time"] = "2026-08-01T20:10:31".into())
    }),
    ("4.7.1", "checkpointInvocations", |made| {
        made.replace(
            &format!("{WRITE}/dlio_config/config.yaml"),
            "num_checkpoints_write: 10",
            "num_checkpoints_write: 9",
        )
    }),
    ("4.7.3", "checkpointRemappingTimeReporting", |made| {
        made.replace("s/closed/ACME/systems/sys-a.yaml", "remap_time_in_seconds: 0", "remap_time_in_seconds: 5")
    }),
    ("4.7.4", "checkpointSimultaneousRwSupport", |made| {
        made.replace("s/closed/ACME/systems/sys-a.yaml", "multi_host: true, ", "")
    }),
    ("tool", "acceleratorType", |made| {
        for time in TIMES {
            let name = format!("{RUN}/{time}/training_{time}_metadata.json");
            made.edit(&name, |run| run["accelerator"] = "b100".into());
        }
    }),
    ("tool", "readableFiles", |made| {
        made.write(&first(&format!("training_{}_metadata.json", TIMES[1])), "{\"model\": ")
    }),
    ("tool", "plausibleNumbers", |made| {
        made.edit(&first("summary.json"), |run| run["metric"]["train_throughput_mean_samples_per_second"] = (-5).into())
    }),
    ("tool", "successfulRuns", |made| made.edit(&first("summary.json"), |run| run["status"] = "interrupted".into())),
    ("tool", "rulesEdition", |made| made.write(&first("provenance.json"), r#"{"rules_edition": "2.0"}"#)),
];

#[test]
fn each_damage_fails_its_rule_and_no_other() {
    let good = Made::new("mlperf-damages");
    let mut wrong = Vec::new();
    for (number, name, damage) in DAMAGES {
        let made = Made { folder: Folder::new("mlperf-damage") };
        copy(&good.path("s"), &made.path("s"));
        damage(&made);
        let (code, json) = made.check(&["--version", "v3"]);
        let failed = rules(&json, "fail");
        if code != Some(1) || failed.iter().any(|failed| failed != name) || failed.is_empty() {
            wrong.push(format!("{number} {name}: {code:?} {failed:?}"));
            continue;
        }
        let finding =
            json["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == *name && rule["verdict"] == "fail");
        let finding = finding.unwrap();
        assert_eq!(finding["rule"], *number, "{finding}");
        assert!(finding["do"].as_str().is_some_and(|action| !action.is_empty()), "{finding}");
        assert_ne!(finding["found"], "", "{finding}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Damages that several rules notice.
#[test]
fn absent_phases_and_generated_data_are_noticed() {
    let made = Made::new("mlperf-phases");
    made.remove(&format!("{TRAINING}/datasize"));
    let failed = made.check(&[]).1;
    assert_eq!(rules(&failed, "fail"), ["trainingPhases", "trainingVerifyDatasizeUsage"], "{failed:#}");
    let name = format!("{TRAINING}/datagen/20260801_080500/dlio_config/config.yaml");
    made.replace(&name, &format!("num_files_train: {FILES}"), "num_files_train: 27999");
    let failed = made.check(&[]).1;
    for rule in ["trainingDatagenMinimumSize", "trainingRunDataMatchesDatasize"] {
        assert!(rules(&failed, "fail").contains(&rule), "{failed:#}");
    }
    // A generation with more directories than the runs know makes them read a part of the data.
    made.replace(&name, "num_files_train: 27999", &format!("num_files_train: {FILES}\n    num_subfolders_train: 4"));
    let failed = made.check(&[]).1;
    let found = finding(&failed, "trainingRunDataMatchesDatasize")["found"].as_str().unwrap().to_string();
    assert!(found.contains("num_subfolders_train=0, 4 in datagen"), "{found}");
}

/// Returns what a rule found; of several workloads, the first one that fails it.
fn finding<'a>(json: &'a Value, name: &str) -> &'a Value {
    let own = || json["rules"].as_array().unwrap().iter().filter(|rule| rule["name"] == name);
    let failed = own().find(|rule| rule["verdict"] == "fail");
    failed.or(own().next()).unwrap_or_else(|| panic!("{name}: {json:#}"))
}

fn verdict(json: &Value, name: &str) -> String {
    finding(json, name)["verdict"].as_str().unwrap().to_string()
}

/// Points on which users and MLPerf's own programs disagreed in public.
#[test]
fn disputed_points_have_a_verdict_with_a_reason() {
    let made = Made::new("mlperf-disputed");
    let text = |name: &str| {
        let json = made.check(&[]).1;
        let found = finding(&json, name);
        format!("{}: {} {}", found["verdict"].as_str().unwrap(), found["found"], found["do"])
    };
    // Storage 796: five times the memory is rounded up, not down. 4,688 files fill it, 4,687 do not.
    made.edit_summaries(|run| run["num_accelerators"] = 1.into());
    made.edit_summaries(|run| run["num_hosts"] = 1.into());
    for (files, expected) in [(4688, "pass"), (4687, "fail")] {
        for time in TIMES {
            let name = format!("{RUN}/{time}/dlio_config/config.yaml");
            let old = std::fs::read_to_string(made.path(&name)).unwrap();
            let line = old.lines().find(|line| line.contains("num_files_train")).unwrap();
            made.write(&name, &old.replace(line, &format!("    num_files_train: {files}")));
        }
        assert!(
            text("trainingRecalculateDatasetSize").starts_with(expected),
            "{}",
            text("trainingRecalculateDatasetSize")
        );
    }
    // Storage 866: more than 4, or at least 4 processes per host.
    for (hosts, expected) in [(1, "pass"), (2, "unknown"), (4, "fail")] {
        made.edit(&format!("{READ}/summary.json"), |run| run["num_hosts"] = hosts.into());
        assert!(text("checkpointClosedAcceleratorsPerHost").starts_with(expected), "{hosts}");
    }
    // Storage 679: six runs of each of two accelerators.
    let made = Made::new("mlperf-two");
    for (index, time) in TIMES.iter().enumerate() {
        let other = format!("20260802_1{index}0000");
        copy(&made.path(&format!("{RUN}/{time}")), &made.path(&format!("{RUN}/{other}")));
        let metadata = format!("{RUN}/{other}/training_{time}_metadata.json");
        made.edit(&metadata, |run| run["accelerator"] = "mi355".into());
    }
    assert_eq!(verdict(&made.check(&[]).1, "runTimestamps"), "unknown");
    // The warm-up does not count, but the validator looks at it.
    let made = Made::new("mlperf-warm-up");
    made.edit(&format!("{RUN}/{}/summary.json", TIMES[0]), |run| run["metric"]["train_au_mean_percentage"] = 50.into());
    assert_eq!(verdict(&made.check(&[]).1, "trainingAcceleratorUtilizationCheck"), "unknown");
    // Storage 842: the division is written in any case. Storage 503: keys that mlpstorage sets do not count as changes.
    let overrides = "- ++workload.dataset.format=npy\n- ++workload.dataset.skip_listing=True\n";
    made.write(&format!("{RUN}/{}/dlio_config/overrides.yaml", TIMES[2]), overrides);
    let json = made.check(&[]).1;
    assert_eq!(verdict(&json, "trainingClosedSubmissionParameters"), "fail");
    assert!(!finding(&json, "trainingClosedSubmissionParameters")["found"].as_str().unwrap().contains("skip_listing"));
    assert_eq!(
        (
            &json["accepted"]["closed"],
            verdict(&made.check(&["--division", "open"]).1, "trainingOpenSubmissionParameters")
        ),
        (&json!("no"), "pass".into())
    );
}

/// Storage 841: a subset is for the 8B model only in version 3, and for each model in version 2.
#[test]
fn subset_of_a_large_model_is_for_the_open_division() {
    let made = Made::new("mlperf-subset");
    let large = CHECKPOINTS.replace("8b", "70b");
    made.rename(CHECKPOINTS, &large);
    for time in ["20260801_200000", "20260801_201015"] {
        let metadata = format!("{large}/{time}/checkpointing_{time}_metadata.json");
        made.edit(&metadata, |run| run["model"] = "llama3-70b".into());
        let overrides = format!("{large}/{time}/dlio_config/overrides.yaml");
        made.replace(&overrides, "workload=llama3_8b\n", "workload=llama3_70b\n- ++workload.checkpoint.mode=subset\n");
        let config = format!("{large}/{time}/dlio_config/config.yaml");
        made.replace(&config, "fsync: true", "fsync: true\n    mode: subset");
    }
    let json = made.check(&[]).1;
    let expected =
        ["checkpointSubsetRunValidation", "checkpointClosedMpiProcesses", "checkpointClosedCheckpointParameters"];
    assert_eq!(rules(&json, "fail"), expected, "{json:#}");
    assert_eq!((&json["accepted"]["closed"], &json["accepted"]["open"]), (&json!("no"), &json!("yes")), "{json:#}");
    let older = made.check(&["--version", "v2"]).1;
    for rule in expected {
        assert_eq!(verdict(&older, rule), "pass", "{rule}");
    }
}

#[test]
fn results_of_version_2_have_its_rules() {
    let made = Made::new("mlperf-v2");
    let source = format!("{RUN}/{}", TIMES[0]);
    for (index, time) in TIMES.iter().enumerate() {
        let run = format!("v2/training/unet3d/run/{time}");
        copy(&made.path(&format!("{RUN}/{time}")), &made.path(&run));
        made.remove(&format!("{run}/training_{time}_metadata.json"));
        made.write(
            &format!("{run}/dlio_config/overrides.yaml"),
            "- workload=unet3d_h100\n- ++workload.reader.odirect=True\n",
        );
        let config = std::fs::read_to_string(made.path(&format!("{source}/dlio_config/config.yaml"))).unwrap();
        let config = config
            .replace("computation_time: 0.162", "computation_time: 0.323")
            .replace("checkpoint: false", "checkpoint: true");
        made.write(&format!("{run}/dlio_config/config.yaml"), &config);
        made.edit(&format!("{run}/summary.json"), |run| {
            run["metric"]["train_throughput_mean_samples_per_second"] = (100.0 + index as f64).into();
            run["status"] = Value::Null;
        });
    }
    made.write("v2/results.json", "[]");
    let check = || {
        let output = dlio(&made.folder, &["check", "mlperf", "v2", "--format", "json"]);
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()
    };
    let json = check();
    assert_eq!(json["version"], "v2.0");
    assert_eq!(
        rules(&json, "fail"),
        ["trainingPhases", "trainingDatagenMinimumSize"],
        "generation logs are required: {json:#}"
    );
    made.write("v2/generation_logs/unet3d.log", "");
    let json = check();
    assert_eq!(rules(&json, "fail"), [""; 0], "{json:#}");
    let number = |name: &str| finding(&json, name)["rule"].as_str().unwrap().to_string();
    assert_eq!((number("trainingRecalculateDatasetSize"), number("runTimestamps")), ("7".into(), "6.6".into()));
    assert_eq!(verdict(&json, "replicability"), "pass");
    assert_eq!(verdict(&json, "unet3dCheckpoint"), "pass");
    // Version 2 requires checkpoints of unet3d, version 3 does not.
    made.replace(
        &format!("v2/training/unet3d/run/{}/dlio_config/config.yaml", TIMES[3]),
        "checkpoint: true",
        "checkpoint: false",
    );
    assert_eq!(verdict(&check(), "unet3dCheckpoint"), "fail");
}

#[test]
fn input_without_results_is_a_usage_error() {
    let folder = Folder::new("mlperf-none");
    std::fs::create_dir_all(folder.path().join("empty/below")).unwrap();
    std::fs::write(folder.path().join("empty/notes.txt"), "x").unwrap();
    for (place, expected) in [("nowhere", "No such file"), ("empty", "no directory has a summary.json")] {
        let output = dlio(&folder, &["check", "mlperf", place]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(place) && text.contains(expected) && text.contains("hydra.run.dir"), "{text}");
    }
    for wrong in [&["--version", "v9"][..], &["--memory=-1"], &["--format", "xml"], &[]] {
        let typed = [&["check", "mlperf"], wrong].concat();
        assert_eq!(dlio(&folder, &typed).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn damaged_and_invented_numbers_are_findings() {
    let made = Made::new("mlperf-invented");
    let summary = format!("{RUN}/{}/summary.json", TIMES[4]);
    made.edit(&summary, |run| {
        run["num_accelerators"] = (-8).into();
        run["num_hosts"] = "two".into();
        run["host_memory_GB"] = json!(["lots", null]);
        run["metric"]["train_au_mean_percentage"] = 250.into();
        run["end"] = "2020-01-01T00:00:00".into();
    });
    let json = made.check(&[]).1;
    let found = finding(&json, "plausibleNumbers")["found"].as_str().unwrap();
    assert!(found.contains("num_accelerators is -8") && found.contains("num_hosts is \"two\""), "{found}");
    assert!(found.contains("and ") && found.contains(" more"), "{found}");
    for text in ["", "{", "[]", "null", "\u{0}\u{1}", "{\"metric\": 5, \"start\": [], \"host_memory_GB\": {}}"] {
        made.write(&summary, text);
        let (code, json) = made.check(&[]);
        assert_eq!(code, Some(1), "{text:?}");
        assert!(rules(&json, "fail").contains(&"successfulRuns"), "{text:?}: {json:#}");
    }
    made.write(&format!("{RUN}/{}/dlio_config/config.yaml", TIMES[4]), "workload: [");
    assert!(rules(&made.check(&[]).1, "fail").contains(&"readableFiles"));
}

#[test]
fn thousand_runs_are_counted_not_listed() {
    let made = Made::new("mlperf-thousand");
    for index in 0..1000 {
        let name = format!("{RUN}/202609{:02}_{:02}{:02}00", 1 + index / 200, index / 10 % 20, index % 10);
        copy(&made.path(&format!("{RUN}/{}", TIMES[index % 6])), &made.path(&name));
        made.edit(&format!("{name}/summary.json"), |run| run["metric"]["train_au_mean_percentage"] = 10.into());
    }
    let output = dlio(&made.folder, &["check", "mlperf", "s"]);
    let text = stdout(&output);
    assert!(text.contains("1006 runs") && text.lines().count() < 80, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80 || !line.contains(' ')), "{text}");
}

#[test]
fn text_starts_with_the_conclusion_and_fits_a_terminal() {
    let made = Made::new("mlperf-text");
    made.edit_summaries(|run| run["host_memory_GB"] = json!([5000.0, 0.0]));
    let output = dlio(&made.folder, &["check", "mlperf", "s"]);
    let text = stdout(&output);
    assert!(text.starts_with("1 rule fails, "), "{text}");
    assert!(text.contains("Accepted as CLOSED: no.") && text.contains("FAIL") && text.contains("3.1.2"), "{text}");
    assert!(text.contains("--all"), "{text}");
    for more in [&[][..], &["--all"], &["--version", "v2", "--all"]] {
        let text = stdout(&dlio(&made.folder, &[&["check", "mlperf", "s"], more].concat()));
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{long:#?}");
    }
    let all = stdout(&dlio(&made.folder, &["check", "mlperf", "s", "--all"]));
    assert!(!all.contains("--all") && all.lines().count() > 3 * text.lines().count(), "{all}");
    let markdown = stdout(&dlio(&made.folder, &["check", "mlperf", "s", "--format", "markdown"]));
    assert!(
        markdown.starts_with("# 1 rule fails") && markdown.contains("| fail | 3.1.2 Data set size |"),
        "{markdown}"
    );
}

/// Every rule must have a damage: a rule that cannot fail checks nothing.
#[test]
fn every_rule_with_a_number_fails_somewhere() {
    let made = Made::new("mlperf-every");
    let json = made.check(&[]).1;
    let damaged: Vec<&str> = DAMAGES.iter().map(|(_, name, _)| *name).collect();
    // These have tests of their own, are advice, or cannot be decided.
    let elsewhere = [
        "checkpointingTimestamps",
        "checkpointingTimestampGap",
        "trainingVerifyDatasizeUsage",
        "trainingDatagenMinimumSize",
        "trainingSingleHostClientLimit",
        "trainingNodeCapabilityConsistency",
        "checkpointDataSizeRatio",
        "checkpointAggregateAcceleratorMemory",
        "checkpointSubsetRunValidation",
        "checkpointClosedMpiProcesses",
        "checkpointClosedAcceleratorsPerHost",
        "checkpointTotalTestDuration",
        "closedSubmissionChecksum",
        "odirectModel",
    ];
    let names: BTreeMap<&str, ()> =
        json["rules"].as_array().unwrap().iter().map(|rule| (rule["name"].as_str().unwrap(), ())).collect();
    let without: Vec<_> = names.keys().filter(|name| !damaged.contains(name) && !elsewhere.contains(name)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn remaining_rules_fail_too() {
    let check = |damage: &dyn Fn(&Made)| {
        let made = Made::new("mlperf-more");
        damage(&made);
        made.check(&[]).1
    };
    let third = format!("{CHECKPOINTS}/20260801_210000");
    let json = check(&|made| copy(&made.path(READ), &made.path(&third)));
    assert_eq!(verdict(&json, "checkpointingTimestamps"), "fail");
    let late = "2026-08-01T23:00:00";
    let json = check(&|made| {
        made.edit(&format!("{READ}/checkpointing_20260801_201015_metadata.json"), |run| {
            run["invocation_start_time"] = late.into()
        });
        made.edit(&format!("{READ}/summary.json"), |run| {
            run["start"] = late.into();
            run["end"] = "2026-08-01T23:10:00".into();
        });
    });
    assert_eq!(verdict(&json, "checkpointingTimestampGap"), "fail");
    let json = check(&|made| {
        made.edit_summaries(|run| run["num_hosts"] = 1.into());
    });
    assert_eq!(verdict(&json, "trainingSingleHostClientLimit"), "fail");
    let json = check(&|made| {
        for place in [WRITE, READ] {
            made.edit(&format!("{place}/summary.json"), |run| {
                run["metric"]["checkpoint_size_GB"] = 2000.0.into();
                run["num_accelerators"] = 6.into();
            });
        }
    });
    assert_eq!(verdict(&json, "checkpointAggregateAcceleratorMemory"), "fail");
    assert_eq!(verdict(&json, "checkpointClosedMpiProcesses"), "fail");
    let json = check(&|made| made.edit(&format!("{WRITE}/summary.json"), |run| run["host_memory_GB"] = json!([64.0])));
    assert_eq!(verdict(&json, "checkpointDataSizeRatio"), "unknown");
    let json = check(&|made| made.edit(&format!("{WRITE}/summary.json"), |run| run["end"] = Value::Null));
    assert_eq!(verdict(&json, "checkpointingTimestampGap"), "unknown");
}

/// Copies a directory.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
