//! Errors at the start, in the middle, and caused by the user: reported with a name and a remedy, and files on disk
//! remain whole.

mod program;

use program::{Folder, GENERATE, SOON, command, dlio, dlio_owned, eight_files, stderr, stdout, until};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// A training run on eight small files.
fn small(more: &[&str]) -> Vec<String> {
    let sizes = [
        "++workload.dataset.record_length_bytes=40000",
        "++workload.train.epochs=1",
        "++workload.train.computation_time=0",
    ];
    eight_files(&sizes, more)
}

fn run(folder: &Folder, more: &[&str]) -> Output {
    dlio_owned(folder, &small(more))
}

/// Impossible arguments, and the name in the refusal.
const IMPOSSIBLE: &[(&[&str], &str)] = &[
    (&["train.epochs=abc"], "workload.train.epochs: expected an integer"),
    (&["train.epochs=1.5"], "workload.train.epochs: expected an integer"),
    (&["train.epochs=0"], "workload.train.epochs must be at least 1"),
    (&["workflow.train=maybe"], "workload.workflow.train: expected true or false"),
    (&["metric.au=much"], "workload.metric.au: expected a number"),
    (&["metric.au=2"], "workload.metric.au must be between 0 and 1"),
    (&["model.name=[1,2]"], "workload.model.name: expected a string"),
    (&["storage.storage_options.region_name=x"], "workload.storage.storage_options.region_name: unknown option"),
    (&["dataset.format=hdf6"], "did you mean hdf5?"),
    (&["dataset.record_dims=abc"], "workload.dataset.record_dims: expected a list of integers"),
    (&["dataset.record_dims=[4,0]"], "workload.dataset.record_dims has a dimension of 0"),
    (&["dataset.record_dims=[4,-1]"], "workload.dataset.record_dims: [4, -1] is less than the minimum 0"),
    (&["train.computation_time=soon"], "workload.train.computation_time: expected a number of seconds"),
    (&["train.computation_time=-1"], "workload.train.computation_time: expected a time"),
    (&["train.computation_time={mean:0.1,stdev:nan}"], "workload.train.computation_time: expected a time"),
    (&["reader.batch_size=0"], "workload.reader.batch_size must be at least 1"),
    (&["reader.batch_size=9"], "8 training samples are not enough for a step of 9"),
    (&["reader.read_threads=-1"], "workload.reader.read_threads: -1 is less than the minimum 0"),
    (&["reader.prefetch_size=-1"], "workload.reader.prefetch_size: -1 is less than the minimum 0"),
    (&["reader.transfer_size=-4096"], "workload.reader.transfer_size: -4096 is less than the minimum 0"),
    (&["dataset.num_files_train=0"], "workload.dataset.num_files_train must be at least 1"),
    (&["dataset.num_files_train=0", "workflow.evaluation=true"], "workload.dataset.num_files_train must be at least 1"),
    (&["dataset.num_files_train=99999999999"], "num_files_train=99999999999: at most 4294967296 files are supported"),
    (&["dataset.keep_files=false", "dataset.listing=true"], "dataset.listing reads existing files"),
    (&["dataset.num_files_train=-8"], "workload.dataset.num_files_train: -8 is less than the minimum 0"),
    (&["dataset.num_samples_per_file=0"], "workload.dataset.num_samples_per_file must be at least 1"),
    (&["dataset.record_length_bytes=0"], "workload.dataset.record_length_bytes must be at least 1"),
    (&["train.total_training_steps=1000"], "an epoch has 4 steps"),
    (&["workflow.evaluation=true"], "0 evaluation samples are not enough for a step of 1"),
    (&["dataset.format=tfrecord"], "tfrecord has no PyTorch reader"),
    (&["reader.data_loader=tensorflow", "framework=pytorch"], "does not match workload.framework"),
    (&["dataset.format=csv", "dataset.compression=lzf"], "workload.dataset.compression=lzf does not exist for csv"),
    (
        &["dataset.data_folder=s3://bucket/data"],
        "data_folder=s3://bucket/data is in an object store, but workload.storage.storage_type=local_fs is for files",
    ),
    (
        &["storage.storage_root=s3://bucket"],
        "set ++workload.storage.storage_type=s3 ++workload.storage.storage_root=bucket",
    ),
    (&["dataset.data_folder=gs://bucket/data"], "is not a path"),
    (&["reader.bach_size=2"], "did you mean workload.reader.batch_size?"),
];

#[test]
fn smaller_data_set_suggests_its_key() {
    let folder = Folder::new("smaller");
    assert!(run(&folder, &[GENERATE, "++workload.workflow.train=false"]).status.success());
    let refused = run(&folder, &["++workload.dataset.num_files_train=20"]);
    let message = stderr(&refused);
    assert_eq!(refused.status.code(), Some(3), "{message}");
    assert!(message.contains("data/train contains a data set with 8 files, but the configuration has 20"), "{message}");
    assert!(message.contains("read it with ++workload.dataset.num_files_train=8, or"), "{message}");
    assert!(message.contains("workflow.generate_data=true"), "{message}");
}

#[test]
fn pipe_or_directory_as_file_is_rejected() {
    let loaders =
        [("npz", "pytorch"), ("npy", "pytorch"), ("hdf5", "pytorch"), ("png", "pytorch"), ("tfrecord", "native_dali")];
    for (format, loader) in loaders {
        let folder = Folder::new(&format!("pipe-{format}"));
        let keys = [("dataset.format", format), ("reader.data_loader", loader)];
        let keys = keys.map(|(key, value)| format!("++workload.{key}={value}"));
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        assert!(run(&folder, &[&keys[..], &[GENERATE]].concat()).status.success(), "{format}");
        let data = std::fs::read_dir(folder.path().join("data/train")).unwrap().map(|entry| entry.unwrap().path());
        let third = data.into_iter().find(|path| path.to_string_lossy().contains("img_3_of_8")).unwrap();
        std::fs::remove_file(&third).unwrap();
        assert!(Command::new("mkfifo").arg(&third).status().unwrap().success());
        let refused = run(&folder, &keys);
        assert!(!refused.status.success(), "{format}");
        assert!(stderr(&refused).contains("img_3_of_8"), "{format}: {}", stderr(&refused));
        std::fs::remove_file(&third).unwrap();
        std::fs::create_dir(&third).unwrap();
        let refused = run(&folder, &keys);
        assert!(refused.status.code().is_some_and(|code| code != 0 && code < 128), "{format}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("img_3_of_8"), "{format}: {}", stderr(&refused));
    }
}

#[test]
fn impossible_values_are_rejected_by_name() {
    let folder = Folder::new("impossible");
    for (keys, named) in IMPOSSIBLE {
        let typed: Vec<String> = keys.iter().map(|key| format!("++workload.{key}")).collect();
        let typed: Vec<&str> = [GENERATE].into_iter().chain(typed.iter().map(String::as_str)).collect();
        let output = run(&folder, &typed);
        assert_eq!(output.status.code(), Some(2), "{keys:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(named), "{keys:?}: {}", stderr(&output));
        assert!(folder.files("").is_empty(), "{keys:?}");
    }
}

#[test]
fn nothing_at_zero_means_the_usual() {
    let folder = Folder::new("zero");
    let zeros =
        ["++workload.reader.read_threads=0", "++workload.reader.transfer_size=0", "++workload.reader.prefetch_size=0"];
    let output = run(&folder, &[&[GENERATE], &zeros[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn generate_command_can_be_pasted() {
    let folder = Folder::new("pasted");
    std::fs::create_dir_all(folder.path().join("own configs/workload")).unwrap();
    let yaml = "framework: pytorch\nmodel: {name: mine}\nworkflow: {train: True}\nnonsense: {key: 1}\n\
        dataset: {data_folder: data, format: npz, num_files_train: 4, record_length_bytes: 4096}\n\
        reader: {data_loader: pytorch, batch_size: 2}\ntrain: {epochs: 1}\n";
    std::fs::write(folder.path().join("own configs/workload/mine.yaml"), yaml).unwrap();
    let typed = [
        "bench",
        "workload=mine",
        "--config-dir",
        "own configs",
        "--lenient",
        "++workload.dataset.data_folder=data",
        "++workload.dataset.record_dims=[8,8]",
    ];
    let output = dlio(&folder, &typed);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let printed = stderr(&output);
    let line = printed.lines().find(|line| line.contains("generate_data=true")).unwrap();
    let pasted = Command::new("sh").args(["-c", line]).current_dir(folder.path()).output().unwrap();
    assert!(pasted.status.success(), "{line}: {}", stderr(&pasted));
    assert!(dlio(&folder, &typed).status.success());
}

#[test]
fn unreadable_file_stops_the_run_or_is_counted() {
    for format in ["npz", "npy", "hdf5", "csv", "png", "jpeg", "indexed_binary"] {
        let folder = Folder::new(&format!("unreadable-{format}"));
        let format_key = format!("++workload.dataset.format={format}");
        assert!(run(&folder, &[GENERATE, &format_key]).status.success());
        let file = folder.path().join(format!("data/train/img_3_of_8.{format}"));
        let length = std::fs::metadata(&file).unwrap().len();
        std::fs::File::options().write(true).open(&file).unwrap().set_len(length / 3).unwrap();
        // A dangling name is like a file without read permission, and works for root too.
        let other = folder.path().join(format!("data/train/img_5_of_8.{format}"));
        std::fs::remove_file(&other).unwrap();
        std::os::unix::fs::symlink(&other, &other).unwrap();
        let output = run(&folder, &[&format_key]);
        assert!(matches!(output.status.code(), Some(4 | 5)), "{format}: {}", stderr(&output));
        assert!(stderr(&output).contains("_of_8."), "{format}: {}", stderr(&output));
        let output = run(&folder, &[&format_key, "--on-error=skip"]);
        assert_eq!(output.status.code(), Some(5), "{format}: {}", stderr(&output));
        assert_eq!(folder.json("run/summary.json")["failed_samples"], 2, "{format}");
    }
}

/// One bit in the middle of a file: found by the format's own checksums, as in its usual readers.
#[test]
fn flipped_bit_is_found_by_checksums() {
    let (zip, gzip) = ("++workload.dataset.compression=zip", "++workload.dataset.compression=gzip");
    let none = "++workload.dataset.compression=none";
    let found = [("npz", none), ("npz", zip), ("png", none), ("tfrecord", none), ("hdf5", gzip), ("csv", gzip)];
    let unseen = [("npy", none), ("hdf5", none), ("indexed_binary", none), ("parquet", none), ("mds", none)];
    let all = found.iter().map(|case| (case, 5)).chain(unseen.iter().map(|case| (case, 0)));
    for (&(format, compression), code) in all {
        let folder = Folder::new(&format!("flipped-{format}"));
        let key = format!("++workload.dataset.format={format}");
        let by_tensorflow = ["++workload.framework=tensorflow", "++workload.reader.data_loader=tensorflow"];
        let more = if format == "tfrecord" { &by_tensorflow[..] } else { &[] };
        let output = run(&folder, &[&[GENERATE, &key, compression][..], more].concat());
        assert!(output.status.success(), "{format}: {}", stderr(&output));
        let largest = |name: &String| std::fs::metadata(folder.path().join(name)).unwrap().len();
        let name = folder.files("data").into_iter().max_by_key(largest).unwrap();
        let file = folder.path().join(&name);
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 16;
        std::fs::write(&file, bytes).unwrap();
        let output = run(&folder, &[&[&key, compression][..], more].concat());
        assert_eq!(output.status.code(), Some(code), "{format} {compression}: {}", stderr(&output));
        if code == 5 {
            assert!(stderr(&output).contains(file.file_name().unwrap().to_str().unwrap()), "{}", stderr(&output));
        }
    }
}

#[test]
fn checksums_are_skipped_on_request() {
    let folder = Folder::new("unchecked");
    assert!(run(&folder, &[GENERATE]).status.success());
    let file = folder.path().join("data/train/img_3_of_8.npz");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[20_000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let output = run(&folder, &["++workload.reader.checksums=false"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(run(&folder, &[]).status.code(), Some(5));
}

#[test]
fn disk_full_in_generation_keeps_whole_files() {
    for format in ["npz", "npy", "hdf5", "csv", "png", "indexed_binary"] {
        let folder = Folder::new(&format!("fills-{format}"));
        std::fs::create_dir_all(folder.path().join("small")).unwrap();
        // A file takes at least a page, which its length does not show: a hundred seem to fit.
        let typed = small(&[
            GENERATE,
            "++workload.workflow.train=false",
            "++workload.dataset.data_folder=small/data",
            "++workload.dataset.num_files_train=100",
            "++workload.dataset.record_length_bytes=64",
            &format!("++workload.dataset.format={format}"),
        ]);
        let mounted =
            "mount -t tmpfs -o size=300k tmpfs small && \"$@\"; code=$?; find small -type f >left; exit $code";
        let output = Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-c", mounted, "sh", env!("CARGO_BIN_EXE_dlio")])
            .args(typed)
            .arg("++hydra.run.dir=run")
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(4), "{format}: {}", stderr(&output));
        let printed = stderr(&output);
        assert!(printed.contains("_of_100.") && printed.contains("data_folder"), "{format}: {printed}");
        let left = std::fs::read_to_string(folder.path().join("left")).unwrap();
        assert!(!left.is_empty() && !left.contains("partial"), "{format}: {left}");
    }
}

/// Runs the arguments with a file system of `size` at `small`.
fn beside_a_small_disk(folder: &Folder, size: &str, typed: &[String]) -> Output {
    std::fs::create_dir_all(folder.path().join("small")).unwrap();
    let mounted = format!("mount -t tmpfs -o size={size} tmpfs small && \"$@\"");
    let mut started = Command::new("unshare");
    started.args(["--mount", "--map-root-user", "sh", "-c", &mounted, "sh", env!("CARGO_BIN_EXE_dlio")]);
    started.args(typed).current_dir(folder.path()).output().unwrap()
}

#[test]
fn full_run_directory_names_its_key() {
    let folder = Folder::new("full-run");
    let typed = small(&[GENERATE, "++workload.train.epochs=2000", "++hydra.run.dir=small/run"]);
    let output = beside_a_small_disk(&folder, "128k", &typed);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("point hydra.run.dir at a larger disk"), "{}", stderr(&output));
}

#[test]
fn csv_is_generated_where_its_text_has_room() {
    let folder = Folder::new("csv-room");
    let csv = [GENERATE, "++workload.dataset.format=csv", "++workload.dataset.record_length_bytes=250000"];
    let more = ["++workload.workflow.train=false", "++workload.dataset.data_folder=small/data", "++hydra.run.dir=run"];
    let typed = small(&[&csv[..], &more[..]].concat());
    // 250,000 bytes are 892,500 of text, eight times.
    let output = beside_a_small_disk(&folder, "8M", &typed);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = beside_a_small_disk(&folder, "6M", &typed);
    assert!(stderr(&output).contains("the data set needs 7.2 MB"), "{}", stderr(&output));
}

#[test]
fn generation_reports_bytes_of_files() {
    for (format, more) in [("csv", "compression=none"), ("csv", "compression=gzip"), ("jpeg", "compression=none")] {
        let folder = Folder::new(&format!("told-{format}"));
        let format = format!("++workload.dataset.format={format}");
        let more = format!("++workload.dataset.{more}");
        let output = run(&folder, &[GENERATE, "++workload.workflow.train=false", &format, &more]);
        let size = |file: &String| std::fs::metadata(folder.path().join(file)).unwrap().len();
        let bytes: u64 = folder.files("data").iter().map(size).sum();
        let expected = format!("generated 8 files, {:.1} MB", bytes as f64 / 1e6);
        assert!(stdout(&output).contains(&expected), "{expected}: {}", stdout(&output));
    }
}

#[test]
fn evaluation_data_are_required_only_to_evaluate() {
    let folder = Folder::new("no-valid");
    let evaluates = ["++workload.dataset.num_files_eval=4", "++workload.workflow.evaluation=true"];
    assert!(run(&folder, &[GENERATE, "++workload.workflow.train=false"]).status.success());
    let output = run(&folder, &evaluates[..1]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(run(&folder, &evaluates).status.code(), Some(3));
    let listed = ["--data=data/train", evaluates[0]];
    let output = run(&folder, &listed);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = run(&folder, &[&listed[..], &evaluates[1..]].concat());
    assert!(stderr(&output).contains("data/train: no files of the split `valid`"), "{}", stderr(&output));
}

#[test]
fn different_data_are_described_as_typed() {
    let folder = Folder::new("other-length");
    assert!(run(&folder, &[GENERATE, "++workload.workflow.train=false"]).status.success());
    let told = |more: &[&str]| stderr(&run(&folder, more));
    let length = told(&["++workload.dataset.record_length_bytes=10000"]);
    assert!(length.contains("generated with record_length_bytes=40000 instead of 10000\n"), "{length}");
    let spread = told(&["++workload.dataset.record_length_bytes_stdev=500"]);
    assert!(spread.contains("generated with record_length_bytes_stdev=0 instead of 500\n"), "{spread}");
    let dims = told(&["++workload.dataset.record_dims=[100, 100]"]);
    assert!(dims.contains("generated with record_dims=[200, 200] instead of [100, 100]\n"), "{dims}");
}

/// Starts a run, presses Ctrl-C once `begun` holds, and waits for its end.
fn interrupted(folder: &Folder, typed: &[String], begun: impl Fn() -> bool) -> Output {
    let words: Vec<&str> = typed.iter().map(String::as_str).collect();
    let child = command(folder, &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the run gets that far", begun);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn ctrl_c_while_data_are_made_leaves_whole_files_only() {
    let folder = Folder::new("interrupted-generation");
    let typed = small(&[
        GENERATE,
        "++workload.workflow.train=false",
        "++workload.dataset.num_files_train=20000",
        "++workload.dataset.record_length_bytes=400000",
    ]);
    let first = folder.path().join("data/train/img_00001_of_20000.npz");
    let output = interrupted(&folder, &typed, || first.exists());
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let length = |file: &String| std::fs::metadata(folder.path().join(file)).unwrap().len();
    let files = folder.files("data");
    assert!(files.len() < 20_000, "{} files", files.len());
    let told = format!("interrupted: {} of 20000 files exist\n  run the same command to continue", files.len());
    assert!(stderr(&output).contains(&told), "{told}: {}", stderr(&output));
    assert!(files.iter().all(|file| file.ends_with(".npz") && length(file) == length(&files[0])), "{files:?}");
    std::fs::remove_dir_all(folder.path().join("data")).unwrap();
}

#[test]
fn ctrl_c_in_a_checkpoint_keeps_results_only() {
    let folder = Folder::new("interrupted-checkpoint");
    let typed = small(&[
        GENERATE,
        "++workload.workflow.checkpoint=true",
        "++workload.model.model_size_bytes=4000000000",
        "++workload.checkpoint.checkpoint_folder=checkpoints",
        "++workload.checkpoint.checkpoint_after_epoch=1",
    ]);
    let writing = || folder.files("checkpoints").iter().any(|file| file.contains("model_states"));
    let output = interrupted(&folder, &typed, writing);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(folder.files("checkpoints").is_empty(), "{:?}", folder.files("checkpoints"));
    let summary = folder.json("run/summary.json");
    assert_eq!((summary["interrupted"].as_bool(), summary["epochs"].as_u64()), (Some(true), Some(1)));
}

#[test]
fn a_run_folder_holds_one_run_at_a_time() {
    let folder = Folder::new("two-runs");
    assert!(run(&folder, &[GENERATE]).status.success());
    let endless = small(&["++workload.train.epochs=100000", "++workload.train.computation_time=0.01"]);
    let words: Vec<&str> = endless.iter().map(String::as_str).collect();
    let mut first = command(&folder, &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let log = folder.path().join("run/dlio.log");
    until("it trains", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Starting epoch 2")));
    let second = run(&folder, &[]);
    assert_eq!(second.status.code(), Some(2), "{}", stderr(&second));
    assert!(stderr(&second).contains("another run is using it"), "{}", stderr(&second));
    first.kill().unwrap();
    first.wait().unwrap();
    // Processes of the killed run end with it, but a moment later.
    until("the directory is free", || run(&folder, &[]).status.success());
}

#[test]
fn ranks_with_nowhere_to_meet_do_not_run_alone() {
    let folder = Folder::new("no-place");
    let typed = small(&[GENERATE]);
    let words: Vec<&str> = typed.iter().map(String::as_str).collect();
    let output = command(&folder, &words).env("RANK", "0").env("WORLD_SIZE", "2").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("MASTER_ADDR"), "{}", stderr(&output));
    assert!(folder.files("data").is_empty());
    for (name, words) in [("WORLD_SIZE", "RANK is not"), ("RANK", "WORLD_SIZE is not")] {
        let output = command(&folder, &words_of(&typed)).env(name, "2").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert!(folder.files("").is_empty());
    }
}

/// Runs the arguments in the run directory that they name, or the default one.
fn in_given_folder(folder: &Folder, typed: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlio"));
    command.current_dir(folder.path()).args(typed).output().unwrap()
}

fn words_of(typed: &[String]) -> Vec<&str> {
    typed.iter().map(String::as_str).collect()
}

/// No draw, no name and no bit for each of the files: the answer comes at once.
#[test]
fn impossible_numbers_of_files_are_rejected_soon() {
    let folder = Folder::new("many-files");
    let many = ["++workload.dataset.num_files_train=4294967296", "++workload.dataset.record_length_bytes_stdev=1000"];
    let begun = Instant::now();
    let output = run(&folder, &[&many[..], &[GENERATE]].concat());
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("the data set needs ") && stderr(&output).contains(" free"),
        "{}",
        stderr(&output)
    );
    let output = run(&folder, &many);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    std::fs::create_dir_all(folder.path().join("data/train")).unwrap();
    std::fs::write(folder.path().join("data/train/img_0000000007_of_4294967296.npz"), "").unwrap();
    let output = run(&folder, &many);
    assert!(stderr(&output).contains("4294967295 of 4294967296 training files are missing"), "{}", stderr(&output));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn file_system_without_inodes_is_rejected_early() {
    let folder = Folder::new("no-inodes");
    let many = ["++workload.dataset.num_files_train=100", "++workload.dataset.record_length_bytes=64"];
    let more = [GENERATE, "++workload.dataset.data_folder=small/data", "++hydra.run.dir=run"];
    let output = beside_a_small_disk(&folder, "4m,nr_inodes=50", &small(&[&many[..], &more].concat()));
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("needs 100 files, ./small has inodes for "), "{}", stderr(&output));
    assert!(stderr(&output).contains("num_samples_per_file"), "{}", stderr(&output));
}

#[test]
fn removed_data_set_leaves_other_files() {
    for format in ["npz", "indexed_binary", "mds"] {
        let folder = Folder::new("not-kept");
        let format = format!("++workload.dataset.format={format}");
        let more = [GENERATE, &format, "++workload.dataset.keep_files=false"];
        assert!(run(&folder, &more).status.success());
        assert!(!folder.path().join("data").exists(), "{format}: {:?}", folder.files("data"));
        std::fs::create_dir_all(folder.path().join("data/train/mine")).unwrap();
        std::fs::write(folder.path().join("data/train/mine/thesis.txt"), "years of work").unwrap();
        let output = run(&folder, &more);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(folder.files("data"), ["data/train/mine/thesis.txt"]);
        assert!(!folder.path().join("data/.dlio").exists());
    }
}

#[test]
fn data_set_is_generated_by_one_run_at_a_time() {
    let folder = Folder::new("two-generations");
    let many = ["++workload.dataset.num_files_train=100000", "++workload.workflow.train=false", GENERATE];
    let typed = small(&many);
    let mut first = command(&folder, &words_of(&typed)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it generates", || folder.path().join("data/train/img_000001_of_100000.npz").exists());
    // With another record size, the record of how the files were generated would be that of the other run.
    let other =
        small(&[&many[..], &["++workload.dataset.record_length_bytes=90000", "++hydra.run.dir=other"]].concat());
    for typed in [&other[..], &small(&[many[0], "++hydra.run.dir=other"])] {
        let output = in_given_folder(&folder, typed);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot use ./data: another run is generating it"), "{}", stderr(&output));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    // Its writers end with it, but a moment later. A run that has generated its data lets others generate.
    until("it can be generated", || run(&folder, &[GENERATE]).status.success());
    let endless = small(&[GENERATE, "++workload.train.epochs=100000", "++workload.train.computation_time=0.01"]);
    let mut first = command(&folder, &words_of(&endless)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let log = folder.path().join("run/dlio.log");
    until("it trains", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Starting epoch 2")));
    let output = in_given_folder(&folder, &small(&[GENERATE, "++hydra.run.dir=other"]));
    assert!(output.status.success(), "{}", stderr(&output));
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn mistaken_places_are_refused_before_anything_is_written() {
    let folder = Folder::new("places");
    std::fs::write(folder.path().join("file"), "").unwrap();
    for (typed, words) in [
        ("++workload.dataset.data_folder=~/data", "~ is not expanded"),
        ("++workload.dataset.data_folder=$SCRATCH/data", "${oc.env:SCRATCH}"),
        ("++workload.dataset.data_folder=", "data_folder is empty"),
        ("++workload.dataset.data_folder=file", "it is not a directory"),
        ("++workload.output.folder=~/run", "~ is not expanded"),
        ("++hydra.run.dir=~/run", "~ is not expanded"),
    ] {
        let output = in_given_folder(&folder, &small(&[GENERATE, typed]));
        assert_eq!(output.status.code(), Some(2), "{typed}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{typed}: {}", stderr(&output));
        assert_eq!(folder.files(""), ["file"], "{typed}");
    }
    let output = run(&folder, &["++workload.dataset.data_folder=file/data", GENERATE]);
    assert!(stderr(&output).contains("++workload.dataset.data_folder=DIR"), "{}", stderr(&output));
}

#[test]
fn missing_data_set_message_names_what_is_there() {
    let folder = Folder::new("other-names");
    assert!(run(&folder, &[GENERATE, "++workload.workflow.train=false"]).status.success());
    for other in ["++workload.dataset.num_subfolders_train=4", "++workload.dataset.format=npy"] {
        let output = run(&folder, &[other]);
        assert_eq!(output.status.code(), Some(3), "{other}: {}", stderr(&output));
        let printed = stderr(&output);
        assert!(printed.contains("data/train contains img_0_of_8.npz, img_1_of_8.npz, ..."), "{other}: {printed}");
    }
}

#[test]
fn unknown_device_is_noted() {
    let folder = Folder::new("no-device");
    let sampled = ["++workload.workflow.profiling=true", "++workload.profiling.profiler=iostat"];
    let output = run(&folder, &[&sampled[..], &[GENERATE, "++workload.profiling.iostat_devices=[sdzz]"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("no numbers of `sdzz`"), "{}", stdout(&output));
}

#[test]
fn exceeded_file_size_limit_names_the_file() {
    let folder = Folder::new("size-limit");
    let typed = small(&[GENERATE, "++workload.workflow.train=false", "++hydra.run.dir=run"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 16 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_dlio")]).args(typed);
    let output = limited.current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("_of_8.npz") && stderr(&output).contains("File too large"), "{}", stderr(&output));
}

#[test]
fn unsupported_options_suggest_alternatives() {
    let folder = Folder::new("no-attaching");
    for (typed, words) in [
        (&["trace", "-p", "1"][..], "cannot attach to process 1"),
        (&["trace", "-o", "-", "--", "true"], "cannot write a trace to standard output"),
    ] {
        let output = dlio(&folder, typed);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert!(!folder.path().join("-").exists());
}

#[test]
fn compressed_files_are_recognized_by_content() {
    let packed = [("csv", "img_3_of_8.csv", &b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], "compressed with gzip")];
    let shards = [("mds", "shard.00003.mds", &b"\x28\xb5\x2f\xfd\0\0\0\0\0\0"[..], "compressed with zstd")];
    for (format, name, magic, words) in packed.into_iter().chain(shards) {
        let folder = Folder::new("packed");
        let format = format!("++workload.dataset.format={format}");
        assert!(run(&folder, &[GENERATE, &format]).status.success());
        let file = folder.path().join("data/train").join(name);
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[..magic.len()].copy_from_slice(magic);
        std::fs::write(&file, bytes).unwrap();
        let output = run(&folder, &[&format]);
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        assert!(stderr(&output).contains(words) && stderr(&output).contains(name), "{}", stderr(&output));
    }
}
