//! A submission that passes, made of real files of `dlio bench`. Tests damage it.

use crate::program::{Folder, command, dlio, stderr, stdout};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

pub const TRAINING: &str = "s/closed/ACME/results/sys-a/training/unet3d";
pub const RUN: &str = "s/closed/ACME/results/sys-a/training/unet3d/run";
pub const CHECKPOINTS: &str = "s/closed/ACME/results/sys-a/checkpointing/llama3-8b";
pub const WRITE: &str = "s/closed/ACME/results/sys-a/checkpointing/llama3-8b/20260801_200000";
pub const READ: &str = "s/closed/ACME/results/sys-a/checkpointing/llama3-8b/20260801_201015";

/// 500 steps of 8 accelerators with a batch size of 7; the memory of both hosts needs fewer.
pub const FILES: u64 = 28_000;
const HOSTS: u64 = 2;
const ACCELERATORS: u64 = 8;
const GIB_OF_HOST: f64 = 64.0;

/// Six runs of 20 minutes, with a pause of 15 seconds.
pub const TIMES: [&str; 6] =
    ["20260801_100000", "20260801_102015", "20260801_104030", "20260801_110045", "20260801_112100", "20260801_114115"];

pub struct Made {
    pub folder: Folder,
}

impl Made {
    /// Makes a training and a checkpointing of version 3 that break no rule.
    pub fn new(name: &str) -> Made {
        let made = Made { folder: Folder::new(name) };
        let config = made.configuration("unet3d_b200", &[&format!("++workload.dataset.num_files_train={FILES}")]);
        let summary = made.summary();
        made.write("s/code-images/.mlps-image-pool", "");
        made.write("s/code-images/code-0a1b2c3d/.code-hash.json", r#"{"hash": "0a1b2c3d"}"#);
        made.write("s/closed/ACME/systems/sys-a.yaml", SYSTEM);
        made.write("s/closed/ACME/systems/sys-a.pdf", "%PDF-1.7");
        made.write(&format!("{RUN}/results.json"), "[]");
        made.write(&format!("{CHECKPOINTS}/results.json"), "[]");
        let parts = [("datasize", "20260801_080000"), ("datagen", "20260801_080500")];
        for (phase, time) in parts.into_iter().chain(TIMES.map(|time| ("run", time))) {
            made.training_run(phase, time, &config, &summary);
        }
        let config = made.configuration("llama3_8b", &[]);
        made.checkpoint_run(WRITE, &config, (10, 0), ("20:00:00", "20:10:00"));
        made.checkpoint_run(READ, &config, (0, 10), ("20:10:15", "20:20:00"));
        made
    }

    /// Returns the configuration as `dlio bench` writes it.
    fn configuration(&self, workload: &str, more: &[&str]) -> String {
        let workload = format!("workload={workload}");
        let typed: Vec<&str> = ["bench", &workload].into_iter().chain(more.iter().copied()).chain(["--cfg"]).collect();
        let output = command(&self.folder, &typed).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    }

    /// Returns the summary of a real run on a small synthetic data set, with the numbers of a large one.
    fn summary(&self) -> Value {
        let typed = [
            "bench",
            "workload=unet3d_b200",
            "++workload.dataset.num_files_train=14",
            "++workload.reader.data_loader=synthetic",
            "++workload.train.computation_time=0",
        ];
        let output = dlio(&self.folder, &typed);
        assert!(output.status.success(), "{}", stderr(&output));
        let mut summary = self.folder.json("run/summary.json");
        fs::remove_dir_all(self.path("run")).unwrap();
        summary["num_accelerators"] = ACCELERATORS.into();
        summary["num_hosts"] = HOSTS.into();
        summary["num_files_train"] = FILES.into();
        // DLIO adds the memory of two hosts in one place.
        summary["host_memory_GB"] = json!([HOSTS as f64 * GIB_OF_HOST, 0.0]);
        summary["metric"]["train_au_mean_percentage"] = 95.5.into();
        summary["metric"]["train_au_meet_expectation"] = "success".into();
        summary["metric"]["compat"] = json!({});
        summary
    }

    fn training_run(&self, phase: &str, time: &str, config: &str, summary: &Value) {
        let folder = format!("{TRAINING}/{phase}/{time}");
        let changes = json!({"dataset.num_files_train": FILES.to_string(), "dataset.skip_listing": "True"});
        let mut metadata = self.metadata(phase, time, "training", &changes);
        metadata["model"] = "unet3d".into();
        metadata["accelerator"] = "b200".into();
        metadata["parameters"] = json!({"dataset": {"num_files_train": FILES.to_string()}});
        metadata["args"]["data_dir"] = "/mnt/data".into();
        metadata["args"]["max_accelerators"] = ACCELERATORS.into();
        let start = clock(time);
        if phase == "run" {
            let end = clock_after(time, 1200);
            metadata["invocation_start_time"] = start.as_str().into();
            metadata["invocation_end_time"] = clock_after(time, 1205).into();
            let mut summary = summary.clone();
            summary["start"] = start.as_str().into();
            summary["end"] = end.into();
            self.write(&format!("{folder}/summary.json"), &summary.to_string());
            self.write(&format!("{folder}/0_output.json"), "{}");
            self.write(&format!("{folder}/0_per_epoch_stats.json"), "{}");
            self.write(&format!("{folder}/fs_separation.json"), r#"{"version": 1, "same_filesystem": false}"#);
        }
        self.write(&format!("{folder}/training_{time}_metadata.json"), &metadata.to_string());
        self.write(&format!("{folder}/.mlps-code-image"), "0a1b2c3d\n");
        if phase == "datasize" {
            return;
        }
        let overrides = format!("- workload=unet3d_b200\n- ++workload.dataset.num_files_train={FILES}\n");
        self.logs(&folder, &format!("training_{phase}"), config, &overrides);
    }

    fn checkpoint_run(&self, folder: &str, config: &str, (writes, reads): (u64, u64), (start, end): (&str, &str)) {
        let config = config.replace("num_checkpoints_write: 10", &format!("num_checkpoints_write: {writes}"));
        let config = config.replace("num_checkpoints_read: 10", &format!("num_checkpoints_read: {reads}"));
        let changes = json!({"checkpoint.num_checkpoints_write": writes, "checkpoint.num_checkpoints_read": reads});
        let time = folder.rsplit('/').next().unwrap();
        let mut metadata = self.metadata("run", time, "checkpointing", &changes);
        metadata["model"] = "llama3-8b".into();
        metadata["accelerator"] = "b200".into();
        metadata["args"]["checkpoint_folder"] = "/mnt/data/checkpoints".into();
        metadata["invocation_start_time"] = format!("2026-08-01T{start}").into();
        metadata["invocation_end_time"] = format!("2026-08-01T{end}").into();
        let word = if writes > 0 { "save" } else { "load" };
        let mut metric = json!({"checkpoint_size_GB": 105.0});
        metric[format!("{word}_checkpoint_duration_mean_seconds")] = 3.5.into();
        metric[format!("{word}_checkpoint_io_mean_GB_per_second")] = 30.0.into();
        let summary = json!({
            "start": format!("2026-08-01T{start}"), "end": format!("2026-08-01T{end}"), "status": "success",
            "num_accelerators": 8, "num_hosts": 1, "host_memory_GB": [16.0], "metric": metric,
        });
        self.write(&format!("{folder}/checkpointing_{time}_metadata.json"), &metadata.to_string());
        self.write(&format!("{folder}/summary.json"), &summary.to_string());
        for name in ["0_output.json", "0_per_epoch_stats.json"] {
            self.write(&format!("{folder}/{name}"), "{}");
        }
        self.write(&format!("{folder}/fs_separation.json"), r#"{"same_filesystem": false}"#);
        self.write(&format!("{folder}/.mlps-code-image"), "0a1b2c3d");
        let overrides = format!(
            "- workload=llama3_8b\n- ++workload.checkpoint.num_checkpoints_write={writes}\n- ++workload.checkpoint.num_checkpoints_read={reads}\n"
        );
        self.logs(folder, "checkpointing_run", &config, &overrides);
    }

    fn metadata(&self, phase: &str, time: &str, kind: &str, changes: &Value) -> Value {
        json!({
            "benchmark_type": kind, "command": phase, "run_datetime": time, "verification": "CLOSED",
            "override_parameters": changes,
            "system_info": {"min_memory_bytes": 64u64 << 30, "max_memory_bytes": 64u64 << 30},
            "args": {
                "mode": "closed", "hosts": ["a", "b"], "num_client_hosts": HOSTS, "accelerator_type": "b200",
                "results_dir": "/srv/results", "data_access_protocol": "file",
            },
        })
    }

    fn logs(&self, folder: &str, prefix: &str, config: &str, overrides: &str) {
        for name in [format!("{prefix}.stdout.log"), format!("{prefix}.stderr.log"), "dlio.log".into()] {
            self.write(&format!("{folder}/{name}"), "");
        }
        self.write(&format!("{folder}/dlio_config/config.yaml"), config);
        self.write(&format!("{folder}/dlio_config/hydra.yaml"), "hydra: {}\n");
        self.write(&format!("{folder}/dlio_config/overrides.yaml"), overrides);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }

    /// Changes a JSON file.
    pub fn edit(&self, name: &str, edit: impl Fn(&mut Value)) {
        let mut tree = self.folder.json(name);
        edit(&mut tree);
        self.write(name, &tree.to_string());
    }

    /// Changes the summary of each run of the training.
    pub fn edit_summaries(&self, edit: impl Fn(&mut Value)) {
        TIMES.iter().for_each(|time| self.edit(&format!("{RUN}/{time}/summary.json"), &edit));
    }

    /// Replaces a text that a file contains.
    pub fn replace(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "{name} contains {from}: {text}");
        self.write(name, &text.replace(from, to));
    }

    pub fn rename(&self, from: &str, to: &str) {
        fs::create_dir_all(self.path(to).parent().unwrap()).unwrap();
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    pub fn remove(&self, name: &str) {
        let path = self.path(name);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }

    pub fn check(&self, more: &[&str]) -> (Option<i32>, Value) {
        let typed = [&["check", "mlperf", "s", "--format", "json"], more].concat();
        let output = dlio(&self.folder, &typed);
        let json = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        (output.status.code(), json)
    }
}

/// Returns the names of the rules with a verdict.
pub fn rules<'a>(json: &'a Value, verdict: &str) -> Vec<&'a str> {
    let rules = json["rules"].as_array().unwrap().iter().filter(|rule| rule["verdict"] == verdict);
    rules.map(|rule| rule["name"].as_str().unwrap()).collect()
}

/// Returns the time that a directory is named after.
pub fn clock(name: &str) -> String {
    clock_after(name, 0)
}

/// Returns that time plus some seconds, within one day.
pub fn clock_after(name: &str, seconds: u64) -> String {
    let part = |from: usize| name[from..from + 2].parse::<u64>().unwrap();
    let total = part(9) * 3600 + part(11) * 60 + part(13) + seconds;
    format!(
        "{}-{}-{}T{:02}:{:02}:{:02}.500000",
        &name[..4],
        &name[4..6],
        &name[6..8],
        total / 3600,
        total / 60 % 60,
        total % 60
    )
}

const SYSTEM: &str = "system_under_test:
  solution:
    submission_name: sys-a
    capabilities: {multi_host: true, simultaneous_write: true, simultaneous_read: true, remap_time_in_seconds: 0}
";
