//! Training: every loader reads the same bytes, ranks share the work, and a failure in the middle keeps the results.

mod program;

use program::{Folder, GENERATE, command, run, small, stderr, stdout, until};
use std::process::{Command, Stdio};

#[test]
fn time_distributions_work_and_wrong_parts_fail() {
    let folder = Folder::new("distributions");
    assert!(run(&folder, &[GENERATE]).status.success());
    for time in [
        "++workload.train.computation_time={mean: 0.001, stdev: 0.0001}",
        "++workload.train.computation_time={type: gamma, shape: 2.0, scale: 0.0005}",
        "++workload.train.computation_time.mean=0.001",
        "++workload.reader.preprocess_time={type: uniform, min: 0.0, max: 0.001}",
    ] {
        let output = run(&folder, &[time]);
        assert!(output.status.success(), "{time}: {}", stderr(&output));
    }
    let wrong = run(&folder, &["++workload.train.computation_time={mean: 0.001, width: 1}"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("a normal distribution has no `width`"), "{}", stderr(&wrong));
}

#[test]
fn dropped_samples_are_reported() {
    let folder = Folder::new("left");
    let output = run(&folder, &[GENERATE, "++workload.reader.batch_size=7"]);
    assert!(
        stdout(&output).contains("note: 1 of 8 samples are dropped each epoch (batch size 7)"),
        "{}",
        stdout(&output)
    );
    let log = std::fs::read_to_string(folder.path().join("run/dlio.log")).unwrap();
    assert!(log.contains("[WARNING] 1 of 8 samples"), "{log}");
}

#[test]
fn verify_finds_a_changed_file() {
    let folder = Folder::new("verify");
    run(&folder, &[GENERATE]);
    assert!(run(&folder, &["--verify"]).status.success());
    let file = folder.path().join("data/train/img_3_of_8.npz");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[20_000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let output = run(&folder, &["--verify"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(stderr(&output).contains("img_3_of_8.npz"), "{}", stderr(&output));
}

#[test]
fn a_cut_sample_stops_the_run_or_is_counted() {
    for workers in ["0", "2"] {
        let folder = Folder::new(&format!("cut{workers}"));
        run(&folder, &[GENERATE]);
        let file = folder.path().join("data/train/img_3_of_8.npz");
        std::fs::File::options().write(true).open(&file).unwrap().set_len(1000).unwrap();
        let threads = format!("++workload.reader.read_threads={workers}");
        let output = run(&folder, &[&threads]);
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        assert!(stderr(&output).contains("img_3_of_8.npz"), "{}", stderr(&output));
        let output = run(&folder, &[&threads, "--on-error=skip"]);
        assert_eq!(output.status.code(), Some(5));
        let summary = folder.json("run/summary.json");
        assert_eq!((summary["failed_samples"].as_u64(), summary["epochs"].as_u64()), (Some(2), Some(2)));
        assert_eq!((&summary["epoch"][0]["samples"], &summary["epoch"][1]["samples"]), (&7.into(), &7.into()));
    }
}

#[test]
fn ctrl_c_keeps_the_results() {
    let folder = Folder::new("interrupt");
    run(&folder, &[GENERATE]);
    let typed = small(&["++workload.train.epochs=100000", "++workload.train.computation_time=0.01"]);
    let child =
        command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>()).stderr(Stdio::piped()).spawn().unwrap();
    let log = folder.path().join("run/dlio.log");
    until("the run reaches its third epoch", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Starting epoch 3"))
    });
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let summary = folder.json("run/summary.json");
    assert_eq!(summary["interrupted"], true);
    assert!(summary["epochs"].as_u64().unwrap() >= 2);
}

#[test]
fn a_killed_worker_is_an_error_and_not_a_hang() {
    let folder = Folder::new("killed");
    run(&folder, &[GENERATE]);
    let typed = small(&["++workload.train.epochs=100000", "++workload.reader.read_threads=1"]);
    let child =
        command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>()).stderr(Stdio::piped()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let log = folder.path().join("run/dlio.log");
    let mut worker = String::new();
    until("the run has a worker", || {
        let training = std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Starting epoch 2"));
        worker = std::fs::read_to_string(&children).unwrap_or_default().trim().to_string();
        training && !worker.is_empty()
    });
    Command::new("kill").args(["-KILL", &worker]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("loader worker 0"), "{}", stderr(&output));
}

#[test]
fn all_loaders_read_equal_bytes() {
    let folder = Folder::new("loaders");
    run(&folder, &[GENERATE, "++workload.workflow.train=false"]);
    let mut all = Vec::new();
    for (framework, loader) in [
        ("pytorch", "pytorch"),
        ("pytorch", "none"),
        ("tensorflow", "tensorflow"),
        ("pytorch", "dali"),
        ("pytorch", "native_dali"),
    ] {
        for workers in ["--workers=processes", "--workers=threads"] {
            let (framework, loader) =
                (format!("++workload.framework={framework}"), format!("++workload.reader.data_loader={loader}"));
            let output = run(&folder, &["-q", workers, &framework, &loader, "++workload.reader.read_threads=2"]);
            assert!(output.status.success(), "{loader}: {}", stderr(&output));
            let summary = folder.json("run/summary.json");
            all.push((
                summary["epoch"][0]["bytes_read"].as_u64().unwrap(),
                summary["epoch"][1]["bytes_read"].as_u64().unwrap(),
            ));
        }
    }
    let bytes = 8 * folder.path().join("data/train/img_3_of_8.npz").metadata().unwrap().len();
    assert!(all.iter().all(|pair| *pair == (bytes, bytes)), "{all:?}");
}

#[test]
fn direct_reads_and_small_transfers_read_the_same() {
    let folder = Folder::new("direct");
    for format in ["npz", "npy", "indexed_binary"] {
        let format = format!("++workload.dataset.format={format}");
        for how in [
            "++workload.reader.odirect=true",
            "++workload.reader.transfer_size=1000",
            "++workload.reader.read_type=memory",
        ] {
            let output = run(&folder, &["-q", GENERATE, &format, how, "++workload.dataset.num_samples_per_file=3"]);
            assert!(output.status.success(), "{format} {how}: {}", stderr(&output));
        }
    }
}

#[test]
fn ranks_share_the_work_and_report_together() {
    let folder = Folder::new("ranks");
    let output = run(
        &folder,
        &[
            GENERATE,
            "--ranks=2",
            "++workload.reader.read_threads=1",
            "++workload.workflow.evaluation=true",
            "++workload.dataset.num_files_eval=4",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let size = |file: &String| std::fs::metadata(folder.path().join(file)).unwrap().len();
    let bytes: u64 = folder.files("data").iter().map(size).sum();
    let expected = format!("generated 12 files, {:.1} MB", bytes as f64 / 1e6);
    assert!(stdout(&output).contains(&expected), "{expected}: {}", stdout(&output));
    let summary = folder.json("run/summary.json");
    assert_eq!(summary["num_accelerators"], 2);
    assert_eq!(summary["epoch"][0]["au_percentage_of_ranks"].as_array().unwrap().len(), 2);
    assert!(summary["metric"]["eval_throughput_mean_samples_per_second"].as_f64().unwrap() > 0.0);
    assert!(folder.path().join("run/1_output.json").exists());
}

#[test]
fn a_rank_that_fails_ends_the_others() {
    let folder = Folder::new("rankfail");
    run(&folder, &[GENERATE, "++workload.workflow.train=false"]);
    for file in ["img_0_of_8.npz", "img_7_of_8.npz"] {
        let path = folder.path().join("data/train").join(file);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..100]).unwrap();
        let output =
            run(&folder, &["--ranks=2", "++workload.reader.file_shuffle=off", "++workload.reader.sample_shuffle=off"]);
        assert!(matches!(output.status.code(), Some(4 | 5)), "{}", stderr(&output));
        assert!(stderr(&output).contains(file), "{}", stderr(&output));
        std::fs::write(&path, &whole).unwrap();
    }
}

/// As in DLIO: an epoch without training files has no training steps and is evaluated.
#[test]
fn evaluation_runs_without_training_files() {
    let folder = Folder::new("evaluation-alone");
    let alone = [
        "++workload.dataset.num_files_train=0",
        "++workload.dataset.num_files_eval=8",
        "++workload.workflow.evaluation=true",
        "++workload.reader.batch_size_eval=2",
        "++workload.evaluation.eval_time=0.001",
    ];
    for more in [&[][..], &["--ranks=2"], &["++workload.reader.read_threads=0"]] {
        let output = run(&folder, &[&alone[..], more, &[GENERATE]].concat());
        assert!(output.status.success(), "{more:?}: {}", stderr(&output));
        assert!(folder.files("data/train").is_empty() && folder.files("data/valid").len() == 8);
        let summary = folder.json("run/summary.json");
        assert_eq!((&summary["status"], &summary["epochs"]), (&"success".into(), &2.into()), "{summary}");
        assert_eq!(summary["epoch"][1]["evaluation"]["samples"], 8, "{summary}");
        let metric = summary["metric"].as_object().unwrap();
        assert!(metric["eval_au_mean_percentage"].as_f64().unwrap() > 0.0, "{summary}");
        assert!(metric.keys().all(|key| !key.starts_with("train_")), "{summary}");
        let printed = stdout(&output);
        assert!(printed.contains("no training steps, only an evaluation") && printed.contains("  eval "), "{printed}");
        assert!(!folder.json("run/0_output.json")["1"]["load"]["eval"].as_array().unwrap().is_empty());
    }
    // Training files that exist are not read.
    assert!(run(&folder, &[GENERATE, "++workload.workflow.train=false"]).status.success());
    let output = run(&folder, &alone);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(folder.json("run/summary.json")["epoch"][0]["bytes_read"], 0);
    let refused = run(&folder, &[&alone[..], &["++workload.workflow.train=false"]].concat());
    assert!(stderr(&refused).contains("num_files_train=0 to only evaluate"), "{}", stderr(&refused));
}
