//! How runs end and what they leave: who failed, what is missing, and no results that look complete but are not.

mod program;

use program::{Folder, GENERATE, SOON, command, dlio, dlio_owned, eight_files, stderr, stdout, until};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

/// A training run on eight small files in batches of two.
fn small(more: &[&str]) -> Vec<String> {
    let sizes = [
        "++workload.dataset.record_length_bytes=10000",
        "++workload.reader.read_threads=1",
        "++workload.train.epochs=3",
        "++workload.train.computation_time=0.001",
    ];
    eight_files(&sizes, more)
}

fn run(folder: &Folder, more: &[&str]) -> Output {
    dlio_owned(folder, &small(more))
}

fn started(folder: &Folder, more: &[&str]) -> Child {
    let typed = small(more);
    let mut command = command(folder, &typed.iter().map(String::as_str).collect::<Vec<_>>());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn logged(folder: &Folder, words: &str) -> bool {
    std::fs::read_to_string(folder.path().join("run/dlio.log")).is_ok_and(|text| text.contains(words))
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

fn children(process: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

#[test]
fn finished_run_reports_success() {
    let folder = Folder::new("end-success");
    assert!(run(&folder, &[GENERATE]).status.success());
    let summary = folder.json("run/summary.json");
    assert_eq!(
        (&summary["status"], &summary["error"], &summary["missing"]),
        (&"success".into(), &().into(), &serde_json::json!([]))
    );
    assert!(logged(&folder, "[METRIC] Run status: success\n"));
    let report = stdout(&dlio(&folder, &["bench", "report", "run"]));
    assert!(report.contains("\nrun status: success\n"), "{report}");
}

#[test]
fn excluding_all_steps_is_noted_and_counts_all() {
    let folder = Folder::new("end-window");
    let printed = |more: &str| stdout(&run(&folder, &[GENERATE, more]));
    let none = "++workload.output.metric.exclude_start_steps=50";
    let (usual, all) = (printed("++workload.output.metric.exclude_start_steps=1"), printed(none));
    assert!(usual.contains("without the first 1 ") && !usual.contains("would leave none"), "{usual}");
    assert!(all.contains("AU and rates include all 4 steps of an epoch: excluding 50 at the start"), "{all}");
    assert!(!all.contains("without the first"), "{all}");
    let metric = &folder.json("run/summary.json")["metric"];
    assert!(metric["compat"]["train_au_mean_percentage"].as_f64().unwrap().is_sign_positive(), "{metric}");
}

#[test]
fn failed_run_reports_cause_and_gaps() {
    let folder = Folder::new("end-failed");
    let more = ["++workload.metric.au=0", "++workload.reader.file_shuffle=off", "++workload.reader.sample_shuffle=off"];
    assert!(run(&folder, &[&[GENERATE, "++workload.workflow.train=false"], &more[..]].concat()).status.success());
    let cut = folder.path().join("data/train/img_5_of_8.npz");
    std::fs::File::options().write(true).open(&cut).unwrap().set_len(100).unwrap();
    let output = run(&folder, &more);
    assert_eq!(output.status.code(), Some(5));
    let summary = folder.json("run/summary.json");
    assert_eq!(summary["status"], "failed");
    assert!(summary["error"].as_str().unwrap().contains("img_5_of_8.npz"), "{summary}");
    assert_eq!(summary["missing"], serde_json::json!(["3 of 3 epochs"]));
    let verdict = &summary["metric"]["train_au_meet_expectation"];
    assert!(verdict.is_null() || verdict == "fail", "{summary}");
    assert!(logged(&folder, "[METRIC] Run status: failed: ") && logged(&folder, "missing: 3 of 3 epochs"));
    assert!(stdout(&output).contains("these are partial results: failed"), "{}", stdout(&output));
    assert_eq!(reported(&folder), ("failed".into(), "run status: failed: ".into()));
    // Without the samples it succeeds, and reports what it skipped.
    let output = run(&folder, &[&more[..], &["--on-error=skip"]].concat());
    assert_eq!(output.status.code(), Some(5));
    let summary = folder.json("run/summary.json");
    assert_eq!((&summary["status"], summary["epochs"].as_u64()), (&"failed".into(), Some(3)));
    assert_eq!(summary["metric"]["train_au_meet_expectation"], "fail");
    assert!(summary["missing"][0].as_str().unwrap().contains("unreadable samples"), "{summary}");
    let printed = stdout(&output);
    assert!(printed.contains("the results are complete except for them") && !printed.contains("partial"), "{printed}");
    assert!(printed.contains("expected: not reached: samples are missing"), "{printed}");
}

/// Returns the status of a run from its report: as JSON, and the words before the first colon of a reason in its text.
fn reported(folder: &Folder) -> (String, String) {
    let json = dlio(folder, &["bench", "report", "run", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let text = stdout(&dlio(folder, &["bench", "report", "run"]));
    let line = text.lines().nth(1).unwrap();
    let end = line.match_indices([':', ';']).nth(1).map_or(line.len(), |(place, mark)| place + mark.len());
    (json["status"].as_str().unwrap().into(), format!("{} ", &line[..end]))
}

#[test]
fn killed_run_never_reports_success() {
    let folder = Folder::new("end-killed");
    assert!(run(&folder, &[GENERATE, "--ranks=2"]).status.success());
    assert!(folder.path().join("run/1_output.json").exists());
    std::fs::remove_file(folder.path().join("run/dlio.log")).unwrap();
    let mut child = started(&folder, &["++workload.train.epochs=100000", "++workload.train.computation_time=0.01"]);
    until("the third epoch", || logged(&folder, "Starting epoch 3"));
    signal("KILL", child.id());
    child.wait().unwrap();
    let summary = folder.json("run/summary.json");
    assert_eq!(summary["status"], "running");
    assert!(summary["missing"][0].as_str().unwrap().ends_with("of 100000 epochs"), "{summary}");
    assert_eq!(reported(&folder), ("running".into(), "run status: running, or killed; ".into()));
    assert!(!folder.path().join("run/1_output.json").exists(), "of the run before");
}

#[test]
fn an_epoch_without_a_counted_step_is_not_in_the_mean() {
    let folder = Folder::new("end-mean");
    assert!(run(&folder, &[GENERATE, "++workload.workflow.train=false"]).status.success());
    let more = ["++workload.train.epochs=100", "++workload.train.computation_time=0.3", "++workload.metric.au=0.001"];
    let typed = small(&more);
    let mut child = command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>());
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the second epoch", || logged(&folder, "Starting epoch 2"));
    signal("INT", child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let expected = "0.1 % expected: not reached: the run is incomplete";
    assert!(stdout(&output).contains(expected), "{}", stdout(&output));
    let summary = folder.json("run/summary.json");
    let metric = &summary["metric"];
    assert_eq!(metric["train_au_percentage"].as_array().unwrap().len(), 1, "{summary}");
    assert_eq!(metric["train_au_mean_percentage"], metric["train_au_percentage"][0]);
    assert_eq!((&summary["status"], &metric["train_au_meet_expectation"]), (&"interrupted".into(), &"fail".into()));
    assert_eq!(summary["missing"], serde_json::json!(["99 of 100 epochs"]));
}

#[test]
fn evaluation_time_does_not_count_as_training() {
    let folder = Folder::new("end-evaluation");
    let more = [
        GENERATE,
        "++workload.train.epochs=2",
        "++workload.workflow.evaluation=true",
        "++workload.dataset.num_files_eval=8",
        "++workload.evaluation.eval_time=0.1",
        "++workload.workflow.checkpoint=true",
        "++workload.model.model_size_bytes=1000",
        "++workload.checkpoint.steps_between_checkpoints=3",
    ];
    let output = run(&folder, &more);
    assert!(output.status.success(), "{}", stderr(&output));
    let bytes = |below: &str| -> u64 {
        let size = |file: &String| std::fs::metadata(folder.path().join(file)).unwrap().len();
        folder.files(below).iter().map(size).sum()
    };
    let (summary, stats) = (folder.json("run/summary.json"), folder.json("run/0_per_epoch_stats.json"));
    let training = &summary["epoch"][1];
    let evaluation = &training["evaluation"];
    assert_eq!((&training["samples"], &training["bytes_read"]), (&8.into(), &bytes("data/train").into()));
    assert_eq!((&evaluation["samples"], &evaluation["bytes_read"]), (&8.into(), &bytes("data/valid").into()));
    for part in [training, evaluation] {
        let number = |key: &str| part[key].as_f64().unwrap();
        assert!((number("samples_per_second") * number("seconds") - 8.0).abs() < 1e-6, "{part}");
    }
    let seconds = |of: &serde_json::Value| of["duration"].as_str().unwrap().parse::<f64>().unwrap();
    assert!(seconds(&stats["2"]["eval"]) >= 0.8 && seconds(&stats["2"]) < 0.8, "{stats}");
    assert!(logged(&folder, "Epoch 2 [Eval] Accelerator Utilization [AU] (%): "));
    assert!(logged(&folder, "Epoch 2 [Eval] Throughput (samples/second): "));
    // Numbers and steps of checkpoints are counted per epoch.
    assert!(logged(&folder, "Starting saving checkpoint 1 after total step 3 for epoch 2\n"));
    let row = |name: &str| stdout(&output).lines().filter(|line| line.split_whitespace().next() == Some(name)).count();
    assert_eq!((row("1"), row("2"), row("eval")), (1, 1, 2), "{}", stdout(&output));
}

#[test]
fn one_of_many_that_a_launcher_started_is_refused() {
    let folder = Folder::new("end-launcher");
    for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"] {
        let typed = small(&[GENERATE]);
        let mut started = command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>());
        let output = started.env(name, "4").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}");
        let printed = stderr(&output);
        assert!(printed.contains(name) && printed.contains("--ranks=4"), "{printed}");
        assert!(folder.files("").is_empty() && folder.files("data").is_empty());
    }
    let typed = small(&[GENERATE]);
    let mut alone = command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(alone.env("SLURM_NTASKS", "1").output().unwrap().status.success());
}

const LONG: [&str; 3] = ["--ranks=3", "++workload.train.computation_time=300", "++workload.dataset.num_files_train=12"];

#[test]
fn killed_rank_ends_the_run_and_is_named() {
    let folder = Folder::new("end-rank");
    assert!(run(&folder, &[&[GENERATE, "++workload.workflow.train=false"], &LONG[2..]].concat()).status.success());
    for victim in 0..2 {
        let _ = std::fs::remove_file(folder.path().join("run/dlio.log"));
        let mut child = started(&folder, &LONG);
        until("all ranks compute", || logged(&folder, "Starting block 1") && children(child.id()).len() >= 3);
        // The first children are the ranks, the last ones rank 0's workers.
        let rank = children(child.id())[victim];
        let begun = Instant::now();
        signal("KILL", rank);
        let mut printed = String::new();
        std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut printed).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(4), "{printed}");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        let named = format!("rank {} was killed by signal 9", victim + 1);
        assert!(printed.contains(&named) && printed.matches("rank ").count() == 1, "{printed}");
        let summary = folder.json("run/summary.json");
        assert!(summary["error"].as_str().unwrap().contains(&named), "{summary}");
        // The metrics contain the surviving ranks, and name the missing one.
        let epoch = &summary["epoch"][0];
        assert_eq!(epoch["missing_ranks"], serde_json::json!([victim + 1]), "{summary}");
        assert_eq!(epoch["au_percentage_of_ranks"].as_array().unwrap().len(), 2, "{summary}");
        let without = format!("results of rank {} in epoch 1", victim + 1);
        assert!(summary["missing"].as_array().unwrap().contains(&without.into()), "{summary}");
    }
}

/// In batches of two without shuffling, rank 1 of two reads the last four files.
const IN_ORDER: [&str; 3] = ["--ranks=2", "++workload.reader.file_shuffle=off", "++workload.reader.sample_shuffle=off"];

#[test]
fn failure_of_another_rank_is_the_error_of_the_run() {
    let folder = Folder::new("end-other-rank");
    assert!(run(&folder, &[GENERATE, "++workload.workflow.train=false"]).status.success());
    let cut = folder.path().join("data/train/img_7_of_8.npz");
    let whole = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &whole[..100]).unwrap();
    let output = run(&folder, &IN_ORDER);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    let error = folder.json("run/summary.json")["error"].clone();
    let error = error.as_str().unwrap();
    assert!(error.starts_with("rank 1 exited with status 5: ") && error.contains("img_7_of_8.npz"), "{error}");
    std::fs::write(&cut, whole).unwrap();
    let endless = ["++workload.train.epochs=100000", "++workload.train.computation_time=0.01"];
    let mut child = started(&folder, &[&IN_ORDER[..], &endless].concat());
    until("both ranks compute", || logged(&folder, "Starting epoch 3") && children(child.id()).len() >= 2);
    let rank = children(child.id())[0];
    until("rank 1 has a worker", || !children(rank).is_empty());
    let begun = Instant::now();
    signal("KILL", children(rank)[0]);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let error = folder.json("run/summary.json")["error"].clone();
    assert!(error.as_str().unwrap().starts_with("rank 1 exited with status 4: loader worker 0 "), "{error}");
}

#[test]
fn interrupted_run_has_metrics_of_all_ranks() {
    let folder = Folder::new("end-figures");
    assert!(run(&folder, &[GENERATE, "++workload.workflow.train=false"]).status.success());
    let more = ["--ranks=2", "++workload.train.epochs=100000", "++workload.train.computation_time=0.02"];
    for name in ["TERM", "INT", "HUP"] {
        let _ = std::fs::remove_file(folder.path().join("run/dlio.log"));
        let mut child = started(&folder, &more);
        until("the third epoch", || logged(&folder, "Starting epoch 3"));
        signal(name, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{name}");
        let summary = folder.json("run/summary.json");
        let last = summary["epoch"].as_array().unwrap().last().unwrap();
        assert_eq!(last["missing_ranks"], serde_json::json!([]), "{name}: {summary}");
        assert_eq!(last["au_percentage_of_ranks"].as_array().unwrap().len(), 2, "{name}: {summary}");
        let steps = |rank: u64| -> usize {
            let output = folder.json(&format!("run/{rank}_output.json"));
            output[last["epoch"].to_string()]["load"]["block1"].as_array().map_or(0, Vec::len)
        };
        assert_eq!(last["samples"].as_u64(), Some(2 * (steps(0) + steps(1)) as u64), "{name}: {summary}");
    }
}

/// A terminal sends Ctrl-C to all processes of a run, and `timeout` its signal.
#[test]
fn signal_to_all_ranks_is_an_interrupt() {
    let folder = Folder::new("end-group");
    assert!(run(&folder, &[GENERATE, "++workload.workflow.train=false"]).status.success());
    for name in ["INT", "TERM", "HUP"] {
        let _ = std::fs::remove_file(folder.path().join("run/dlio.log"));
        let typed = small(&["--ranks=4", "++workload.reader.batch_size=1", "++workload.train.computation_time=300"]);
        let mut command = command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>());
        let child = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until("all ranks compute", || logged(&folder, "Starting block 1") && children(child.id()).len() >= 4);
        assert!(Command::new("kill").args(["-s", name, "--", &format!("-{}", child.id())]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).trim()), (Some(130), "dlio: interrupted"), "{name}");
        let summary = folder.json("run/summary.json");
        assert_eq!(summary["status"], "interrupted", "{name}: {summary:#}");
        assert_eq!(summary["epoch"][0]["missing_ranks"], serde_json::json!([]), "{name}: {summary:#}");
    }
}

#[test]
fn missing_rank_is_named_with_its_last_span() {
    let folder = Folder::new("end-barrier");
    assert!(run(&folder, &[GENERATE, "++workload.workflow.train=false"]).status.success());
    let more = ["--ranks=2", "--barrier-timeout=1", "++workload.train.epochs=100000"];
    let mut child = started(&folder, &more);
    until("the third epoch", || logged(&folder, "Starting epoch 3"));
    let rank = children(child.id())[0];
    signal("STOP", rank);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let printed = lines.next().unwrap().unwrap();
    assert!(printed.starts_with("rank 1 has not reached the barrier for 1 s: it last started "), "{printed}");
    assert!(printed.contains("(epoch "), "{printed}");
    // The run can continue, and it can end.
    signal("CONT", rank);
    signal("INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn runs_of_the_same_second_have_folders_of_their_own() {
    let folder = Folder::new("end-second");
    assert!(run(&folder, &[GENERATE]).status.success());
    let start = |_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlio"));
        command.current_dir(folder.path()).args(small(&["-q"])).spawn().unwrap()
    };
    let runs: Vec<Child> = (0..5).map(start).collect();
    for mut run in runs {
        assert!(run.wait().unwrap().success());
    }
    let folders = std::fs::read_dir(folder.path().join("hydra_log/unet3d")).unwrap().count();
    assert_eq!(folders, 5);
}

#[test]
fn under_the_original_name_a_run_can_be_traced() {
    let folder = Folder::new("end-trace");
    let library = stand_in(&folder);
    // The library writes no trace.
    std::fs::create_dir_all(folder.path().join("run/trace")).unwrap();
    let mut traced = Command::new(env!("CARGO_BIN_EXE_dlio"));
    traced.arg0("dlio_benchmark").args(&small(&[GENERATE, "--trace", "++hydra.run.dir=run"])[1..]);
    let output = traced.env("DLIO_LIB", &library).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(folder.json("run/summary.json")["status"], "success");
    assert!(stdout(&output).contains("trace: run/trace"), "{}", stdout(&output));
}

/// Builds a library that can be preloaded and does nothing.
fn stand_in(folder: &Folder) -> PathBuf {
    let (source, library) = (folder.path().join("library.c"), folder.path().join("libdliotrace.so"));
    std::fs::write(&source, "int dlio_stand_in;").unwrap();
    assert!(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap().success());
    library
}

#[test]
fn unwritable_trace_is_rejected_before_the_run() {
    let folder = Folder::new("end-no-trace");
    let library = stand_in(&folder);
    let occupied = format!("--trace={}", library.display());
    let traced = |more: &[&str]| {
        let typed = small(&[&[GENERATE], more].concat());
        let words: Vec<&str> = typed.iter().map(String::as_str).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlio"));
        command.current_dir(folder.path()).args(words).env("DLIO_LIB", &library).output().unwrap()
    };
    let output = traced(&["--trace", "++hydra.run.dir=/proc/x"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).starts_with("dlio: cannot create the run directory /proc/x"), "{}", stderr(&output));
    assert!(!stdout(&output).contains("trace: "), "{}", stdout(&output));
    for place in ["--trace=/proc/x", &occupied] {
        let output = traced(&[place, "++hydra.run.dir=run"]);
        assert_eq!(output.status.code(), Some(4), "{place}: {}", stderr(&output));
        let printed = stderr(&output);
        assert!(
            printed.contains("cannot write to the trace directory") && printed.contains("--trace=DIR"),
            "{printed}"
        );
        assert!(folder.files("data").is_empty() && folder.files("run").is_empty());
    }
}

#[test]
fn unwritable_report_is_rejected_before_the_command() {
    let folder = Folder::new("end-no-report");
    let library = stand_in(&folder);
    let analyzer = folder.path().join("dlio-analyze");
    std::fs::write(&analyzer, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&analyzer, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let traced = |page: &str| {
        let mut traced = command(&folder, &["trace", "--report", page, "--", "touch", "ran"]);
        let path = format!("{}:/bin:/usr/bin", folder.text());
        traced.env("DLIO_LIB", &library).env("PATH", path).output().unwrap()
    };
    for (page, code) in [("/proc/x/report.html", 4), (".", 2), ("library.c/report.html", 4), ("dlio-trace/r.html", 2)] {
        let output = traced(page);
        assert_eq!(output.status.code(), Some(code), "{page}: {}", stderr(&output));
        assert!(stderr(&output).contains("cannot write "), "{page}: {}", stderr(&output));
        assert!(!folder.path().join("ran").exists(), "{page}");
    }
    assert_eq!(traced("new/place/report.html").status.code(), Some(0));
    assert!(folder.path().join("ran").exists() && folder.path().join("new/place").is_dir());
}

#[test]
fn indexes_are_read_once_and_counted_once() {
    let folder = Folder::new("end-indexes");
    for format in ["indexed_binary", "mmap_indexed_binary"] {
        let format = format!("++workload.dataset.format={format}");
        let many =
            ["++workload.dataset.num_samples_per_file=64", "++workload.dataset.record_length_bytes=100", &format];
        assert!(run(&folder, &[&[GENERATE], &many[..]].concat()).status.success());
        let summary = folder.json("run/summary.json");
        let bytes = |epoch: usize| summary["epoch"][epoch]["bytes_read"].as_u64().unwrap();
        let (data, indexes) = (8 * 64 * 100, 8 * 64 * 16);
        assert_eq!((bytes(0), bytes(1), bytes(2)), (data + indexes, data, data), "{format}");
    }
}

#[test]
fn references_and_empty_arguments_are_parsed() {
    let folder = Folder::new("end-words");
    let folder_key = "++workload.dataset.data_folder=sets/${workload.model.name}/${workload.dataset.format}";
    let output = run(&folder, &[GENERATE, folder_key, "hydra.job.chdir=true", "++workload.reader.pin_memory=false"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(folder.files("sets/unet3d/npz/train").len(), 8);
    let printed = stdout(&output);
    assert!(printed.contains("`hydra.job.chdir=true` is a setting of Hydra and has no effect"), "{printed}");
    assert!(printed.contains("`++workload.reader.pin_memory=false` has no effect"), "{printed}");
    let kept = std::fs::read_to_string(folder.path().join("run/.hydra/config.yaml")).unwrap();
    assert!(kept.contains("sets/${workload.model.name}"), "{kept}");
    let endless = run(&folder, &["++workload.dataset.num_samples_per_file=9223372036854775807"]);
    assert_eq!(endless.status.code(), Some(2), "{}", stderr(&endless));
    let laughs = folder.path().join("configs/workload");
    std::fs::create_dir_all(&laughs).unwrap();
    let ten = |of: usize| vec![format!("*a{of}"); 10].join(",");
    let lines: String = (1..10).map(|level| format!("a{level}: &a{level} [{}]\n", ten(level - 1))).collect();
    std::fs::write(laughs.join("laughs.yaml"), format!("a0: &a0 lol\n{lines}")).unwrap();
    let output = dlio(&folder, &["bench", "workload=laughs", "--config-dir=configs"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("aliases"), "{}", stderr(&output));
}
