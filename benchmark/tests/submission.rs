//! MLPerf Storage's rules: which of them a run meets and breaks, and the data sizes they require.

mod program;

use program::{Folder, dlio, stderr, stdout};
use serde_json::Value;

/// Returns the verdict of a rule on a run, and the reason.
fn verdict(json: &Value, rule: &str) -> (String, String) {
    let rules = json["rules"].as_array().unwrap();
    let found = rules.iter().find(|found| found["rule"] == rule).unwrap_or_else(|| panic!("{rule}: {json:#}"));
    (found["verdict"].as_str().unwrap().into(), found["why"].as_str().unwrap().into())
}

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
    assert_eq!((code, run["category"].as_str()), (Some(1), Some("invalid")));
    let of = |rule| verdict(&run, rule).0;
    assert_eq!((of("whole"), of("model"), of("steps")), ("kept".into(), "kept".into(), "broken".into()));
    assert_eq!((of("checkpoint"), of("workload"), of("keys")), ("broken".into(), "broken".into(), "open".into()));
    assert!(verdict(&run, "steps").1.starts_with("250 per epoch (1750 samples, batch 7, 1 accelerators)"), "{run:#}");
    let published = verdict(&run, "workload").1;
    assert!(published.contains("unet3d_h100: batch 7, computation 0.323 s") && !published.contains("a100"), "{run:#}");
    let broken = run["rules"].as_array().unwrap().iter().filter(|rule| rule["rule"] == "keys").count();
    assert_eq!(broken, 3, "format and loader may be changed in the open category, the time to compute never: {run:#}");
    // The 239 GiB are five times the memory of a host with 40 GiB but not of one with 48.
    for (memory, expected) in [(40.0, "kept"), (48.0, "broken")] {
        change(&folder, |summary| summary["host_memory_GB"] = serde_json::json!([memory]));
        assert_eq!(verdict(&checked(&folder).1, "memory").0, expected);
    }
    for (au, expected) in [(90.0, "kept"), (89.9, "broken")] {
        change(&folder, |summary| summary["metric"]["train_au_mean_percentage"] = au.into());
        assert_eq!(verdict(&checked(&folder).1, "utilization").0, expected);
    }
    // DLIO's own formula may give the other verdict.
    change(&folder, |summary| summary["metric"]["compat"]["train_au_mean_percentage"] = 90.1.into());
    assert!(verdict(&checked(&folder).1, "utilization").1.ends_with("90.10 %, which keeps it"));
    change(&folder, |summary| summary["host_memory_GB"] = Value::Null);
    assert_eq!(verdict(&checked(&folder).1, "memory").0, "unknown");
    change(&folder, |summary| summary["status"] = "interrupted".into());
    assert_eq!(verdict(&checked(&folder).1, "whole").0, "broken");
}

#[test]
fn training_without_checkpoint_breaks_the_rule() {
    for (epochs, expected) in [(4, "broken"), (5, "kept")] {
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
        assert_eq!(verdict(&checked(&folder).1, "checkpoint").0, expected, "{epochs}");
    }
}

#[test]
fn checkpoints_are_synced_or_break_the_rules() {
    let model =
        ["num_layers=1", "transformer.vocab_size=10", "transformer.hidden_size=64", "transformer.ffn_hidden_size=64"];
    let model = model.map(|key| format!("++workload.model.{key}"));
    for (sync, expected) in [("true", "kept"), ("false", "broken")] {
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
        assert_eq!(verdict(&run, "fsync").0, expected, "{run:#}");
        for rule in ["whole", "model", "processes", "count"] {
            assert_eq!(verdict(&run, rule).0, "kept", "{run:#}");
        }
    }
}

#[test]
fn directory_without_a_run_is_rejected() {
    let folder = Folder::new("check-none");
    let output = dlio(&folder, &["bench", "check", "nowhere"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("nowhere/summary.json") && stderr(&output).contains("hydra.run.dir"));
    std::fs::create_dir_all(folder.path().join("half")).unwrap();
    std::fs::write(folder.path().join("half/summary.json"), "{").unwrap();
    assert_eq!(dlio(&folder, &["bench", "check", "half"]).status.code(), Some(5));
    std::fs::write(folder.path().join("half/summary.json"), "{}").unwrap();
    let output = dlio(&folder, &["bench", "check", "half"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("config.yaml"), "{}", stderr(&output));
}

#[test]
fn data_are_sized_by_steps_or_by_memory() {
    let folder = Folder::new("size");
    let size = |typed: &[&str]| -> Value {
        let output = dlio(&folder, &[&["bench", "size", "--json"], typed].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap()
    };
    // 500 steps of 4 accelerators with batch 7.
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
