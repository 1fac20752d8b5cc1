//! MLPerf Storage's rules: which of them a run meets and breaks, and the data sizes they require.

mod program;

use program::{Folder, dlio, stderr, stdout};
use serde_json::Value;

/// Returns the verdict of a rule on a run, and what it found.
fn verdict(json: &Value, rule: &str) -> (String, String) {
    let rules = json["rules"].as_array().unwrap();
    let found = rules.iter().find(|found| found["name"] == rule).unwrap_or_else(|| panic!("{rule}: {json:#}"));
    (found["verdict"].as_str().unwrap().into(), found["found"].as_str().unwrap().into())
}

/// Checks the run under the former name of the command.
fn checked(folder: &Folder) -> (Option<i32>, Value) {
    let output = dlio(folder, &["bench", "check", "run", "--json"]);
    (output.status.code(), serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output))))
}

/// Changes the numbers of a run's summary to those of a longer run on a smaller host.
fn change(folder: &Folder, change: impl Fn(&mut Value)) {
    let mut summary = folder.json("run/summary.json");
    change(&mut summary);
    std::fs::write(folder.path().join("run/summary.json"), summary.to_string()).unwrap();
}

#[test]
fn a_training_keeps_the_rules_it_keeps() {
    let folder = Folder::new("check-training");
    let small = ["++workload.dataset.num_files_train=1750", "++workload.dataset.format=npz"];
    let synthetic = ["++workload.reader.data_loader=synthetic", "++workload.train.computation_time=0"];
    let typed = [&["bench", "workload=unet3d_h100", "++workload.workflow.checkpoint=false"], &small[..], &synthetic];
    let output = dlio(&folder, &typed.concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let (code, run) = checked(&folder);
    assert_eq!((code, &run["version"], run["accepted"]["open"].as_str()), (Some(1), &"v2.0".into(), Some("no")));
    let of = |rule| verdict(&run, rule).0;
    let [size, keys] = ["trainingRecalculateDatasetSize", "trainingClosedSubmissionParameters"];
    assert_eq!(
        (of("successfulRuns"), of("trainingWorkloads"), of(size)),
        ("pass".into(), "pass".into(), "fail".into())
    );
    assert_eq!(
        (of("unet3dCheckpoint"), of("workloadDefinition"), of(keys)),
        ("fail".into(), "fail".into(), "fail".into())
    );
    let published = verdict(&run, "workloadDefinition").1;
    assert!(published.contains("computation_time=0, not 0.323, unlike unet3d_h100"), "{run:#}");
    // Format and loader may be changed in the open division, the time to compute never.
    assert_eq!(verdict(&run, keys).1, "train.computation_time=0", "{run:#}");
    // One run cannot show the others.
    assert_eq!((of("runTimestamps"), of("trainingPhases")), ("unknown".into(), "unknown".into()));
    for (memory, expected) in [(40.0, "500 steps per epoch"), (1000.0, "5 times 1000.0 GiB")] {
        change(&folder, |summary| summary["host_memory_GB"] = serde_json::json!([memory]));
        let found = verdict(&checked(&folder).1, size).1;
        assert!(found.contains(expected), "{found}");
    }
    for (au, expected) in [(90.0, "pass"), (89.9, "fail")] {
        change(&folder, |summary| summary["metric"]["train_au_mean_percentage"] = au.into());
        change(&folder, |summary| summary["metric"]["train_au_meet_expectation"] = "success".into());
        assert_eq!(verdict(&checked(&folder).1, "trainingAcceleratorUtilizationCheck").0, expected);
    }
    // DLIO's own formula may give the other verdict.
    change(&folder, |summary| summary["metric"]["compat"]["train_au_mean_percentage"] = 90.1.into());
    let found = verdict(&checked(&folder).1, "trainingAcceleratorUtilizationCheck").1;
    assert!(found.contains("90.10 % by DLIO's own formula"), "{found}");
    change(&folder, |summary| summary["status"] = "interrupted".into());
    assert_eq!(verdict(&checked(&folder).1, "successfulRuns").0, "fail");
    // Enough files, but the memory is unknown.
    let config = folder.path().join("run/.hydra/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap().replace("num_files_train: 1750", "num_files_train: 3500");
    std::fs::write(&config, text).unwrap();
    change(&folder, |summary| summary["host_memory_GB"] = Value::Null);
    assert_eq!(verdict(&checked(&folder).1, size).0, "unknown");
    let output = dlio(&folder, &["check", "mlperf", "run", "--memory", "64", "--format", "json"]);
    assert_eq!(verdict(&serde_json::from_str(&stdout(&output)).unwrap(), size).0, "pass");
}

#[test]
fn training_without_checkpoint_breaks_the_rule() {
    for (epochs, expected) in [(4, "fail"), (5, "pass")] {
        let folder = Folder::new("check-written");
        let epochs = format!("++workload.train.epochs={epochs}");
        let typed = [
            "bench",
            "workload=unet3d_h100",
            "++workload.reader.data_loader=synthetic",
            "++workload.train.computation_time=0",
            "++workload.model.model_size_bytes=1000",
            "++workload.checkpoint.checkpoint_folder=checkpoints",
            &epochs,
        ];
        let output = dlio(&folder, &typed);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(verdict(&checked(&folder).1, "unet3dCheckpoint").0, expected, "{epochs}");
    }
}

#[test]
fn checkpoints_are_synced_or_break_the_rules() {
    let model =
        ["num_layers=1", "transformer.vocab_size=10", "transformer.hidden_size=64", "transformer.ffn_hidden_size=64"];
    let model = model.map(|key| format!("++workload.model.{key}"));
    for (sync, expected) in [("true", "pass"), ("false", "fail")] {
        let folder = Folder::new("check-checkpoints");
        let sync = format!("++workload.checkpoint.fsync={sync}");
        let mut typed = vec!["bench", "workload=llama3_8b", "--ranks=8", &sync];
        typed.extend(model.iter().map(String::as_str));
        typed.extend([
            "++workload.checkpoint.num_checkpoints_write=10",
            "++workload.checkpoint.num_checkpoints_read=-1",
        ]);
        typed.extend(["++workload.checkpoint.time_between_checkpoints=0", "++workload.checkpoint.checkpoint_folder=c"]);
        let output = dlio(&folder, &typed);
        assert!(output.status.success(), "{}", stderr(&output));
        let run = checked(&folder).1;
        assert_eq!(verdict(&run, "checkpointFsyncVerification").0, expected, "{run:#}");
        for rule in ["successfulRuns", "checkpointingWorkloads", "checkpointClosedMpiProcesses"] {
            assert_eq!(verdict(&run, rule).0, "pass", "{run:#}");
        }
        // The reads are in another run.
        assert_eq!(verdict(&run, "checkpointInvocations").0, "unknown", "{run:#}");
    }
}

#[test]
fn data_are_sized_by_steps_or_by_memory() {
    let folder = Folder::new("size");
    let size = |typed: &[&str]| -> Value {
        let output = dlio(&folder, &[&["bench", "size", "--json"], typed].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap()
    };
    // 500 steps of 4 accelerators with a batch size of 7.
    let of_steps = size(&["workload=unet3d", "--accelerators=4", "--memory=64"]);
    assert_eq!((of_steps["files"].as_u64(), of_steps["subfolders"].as_u64()), (Some(14_000), Some(2)));
    // Five times 2 x 1 TiB in files of 146,600,628 bytes.
    let of_memory = size(&["workload=unet3d", "--accelerators=1", "--memory=1024", "--hosts=2"]);
    assert_eq!(of_memory["files"].as_u64(), Some((5 * 2 * (1u64 << 40)).div_ceil(146_600_628)));
    let whole = size(&["workload=llama3_1t", "--accelerators=1024"]);
    assert_eq!(whole["ranks"].as_array().unwrap().len(), 1024);
    let sum: u64 = whole["ranks"].as_array().unwrap().iter().map(|rank| rank["bytes"].as_u64().unwrap()).sum();
    assert_eq!(whole["bytes"].as_u64(), Some(sum));
    // A part of 405 billion parameters in halves; a number of processes that no run accepts has no size.
    let subset = ["workload=llama3_405b", "--accelerators=8", "++workload.checkpoint.mode=subset"];
    let part = size(&[&subset[..], &["++workload.model.parallelism.data=2"]].concat());
    assert!(part["bytes"].as_u64().unwrap() < 100 << 30, "{part}");
    for (typed, key) in [(&subset[..2], "checkpoint.mode=subset"), (&subset[..], "model.parallelism.data=2")] {
        let output = dlio(&folder, &[&["bench", "size"], typed].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        assert!(stderr(&output).contains(key), "{}", stderr(&output));
    }
    assert_eq!(dlio(&folder, &["bench", "size", "workload=unet4d"]).status.code(), Some(2));
    assert_eq!(dlio(&folder, &["bench", "size", "workload=unet3d", "--memory=0"]).status.code(), Some(2));
}
