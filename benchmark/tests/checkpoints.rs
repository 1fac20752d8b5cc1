//! Checkpoints in every format, from a fast or a slow directory, after a crash: read back, or refused with the reason.

mod program;

use program::needs::{has, needs};
use program::{Folder, command, dlio, stderr, stdout, until};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Checkpoints only, of a small model.
fn typed(writes: i64, reads: i64, more: &[&str]) -> Vec<String> {
    let numbers = [
        format!("++workload.checkpoint.num_checkpoints_write={writes}"),
        format!("++workload.checkpoint.num_checkpoints_read={reads}"),
    ];
    let fixed = [
        "bench",
        "workload=llama_7b",
        "++workload.checkpoint.checkpoint_folder=slow",
        "++workload.checkpoint.time_between_checkpoints=0",
        "++workload.model.num_layers=2",
        "++workload.model.transformer.vocab_size=1000",
        "++workload.model.transformer.hidden_size=256",
        "++workload.model.transformer.ffn_hidden_size=512",
    ];
    fixed.iter().chain(more).map(ToString::to_string).chain(numbers).collect()
}

fn run(folder: &Folder, writes: i64, reads: i64, more: &[&str]) -> Output {
    let typed = typed(writes, reads, more);
    dlio(folder, &typed.iter().map(String::as_str).collect::<Vec<_>>())
}

const FAST: &str = "++workload.checkpoint.fast_folder=fast";
const SAFETENSORS: &str = "++workload.checkpoint.format=safetensors";
const DISTRIBUTED: &str = "++workload.checkpoint.format=distributed";

#[test]
fn reads_written_and_rejects_changed_checkpoints() {
    for (more, ending) in [(&[][..], "pt"), (&[SAFETENSORS], "safetensors"), (&[DISTRIBUTED], "distcp")] {
        let folder = Folder::new("ckpt-verified");
        assert!(run(&folder, 2, 2, more).status.success());
        let mut files = folder.files("slow");
        files.retain(|file| !file.ends_with("/.metadata"));
        assert_eq!(files.len(), 4, "{files:?}");
        assert!(files.iter().all(|file| file.ends_with(ending)), "{files:?}");
        let path = folder.path().join(&files[0]);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let output = run(&folder, -1, 2, more);
        assert_eq!(output.status.code(), Some(5));
        let printed = stderr(&output);
        assert!(printed.contains(&files[0]) && printed.contains("differs from the written one"), "{printed}");
        let unverified = [more, &["++workload.checkpoint.verify=false"]].concat();
        assert!(run(&folder, -1, 2, &unverified).status.success());
        std::fs::File::options().write(true).open(&path).unwrap().set_len(middle as u64).unwrap();
        for more in [more, &unverified] {
            let output = run(&folder, -1, 2, more);
            assert_eq!(output.status.code(), Some(5));
            assert!(stderr(&output).contains("incomplete checkpoint"), "{}", stderr(&output));
        }
    }
}

const TENSORFLOW: &str = "++workload.checkpoint.format=tensorflow";

#[test]
fn checkpoint_report_has_no_steps() {
    let folder = Folder::new("ckpt-report");
    assert!(run(&folder, 1, 1, &[]).status.success());
    let text = stdout(&dlio(&folder, &["bench", "report", "run"]));
    assert!(text.contains("load_checkpoint_duration_mean_seconds: ") && !text.contains("median"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&dlio(&folder, &["bench", "report", "run", "--json"]))).unwrap();
    assert!(json["overall"]["wait_seconds"].is_null(), "{json:#}");
}

#[test]
fn tensorflow_has_data_and_an_index_that_knows_them() {
    let folder = Folder::new("ckpt-tensorflow");
    assert!(run(&folder, 1, 1, &[TENSORFLOW, FAST]).status.success());
    for place in ["slow", "fast"] {
        let files = folder.files(place);
        let endings = [".data-00000-of-00001", ".index", "/checkpoint"];
        let counts = endings.map(|ending| files.iter().filter(|file| file.ends_with(ending)).count());
        assert_eq!((counts, files.len()), ([2, 2, 1], 5), "{files:?}");
    }
    let files = folder.files("slow");
    let newest = std::fs::read_to_string(folder.path().join(&files[0])).unwrap();
    assert!(newest.contains("model_checkpoint_path: \"zero_pp_rank_0_mp_rank_0_optim_states.pb-1\""), "{newest}");
    let changed = |file: &String, at: usize, change: &dyn Fn(&mut Vec<u8>, usize)| {
        let path = folder.path().join(file);
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        change(&mut bytes, at % whole.len());
        std::fs::write(&path, &bytes).unwrap();
        let output = run(&folder, -1, 1, &[TENSORFLOW]);
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(output.status.code(), Some(5), "{file}");
        stderr(&output)
    };
    let flipped = |bytes: &mut Vec<u8>, at: usize| bytes[at] ^= 1;
    let cut = |bytes: &mut Vec<u8>, at: usize| bytes.truncate(at);
    let (data, index) = (&files[1], &files[2]);
    assert!(changed(data, 100_000, &flipped).contains("differs from the written one"));
    assert!(changed(data, 100_000, &cut).contains("incomplete checkpoint"));
    assert!(changed(index, 20, &flipped).contains("incomplete checkpoint"));
    assert!(changed(index, 20, &cut).contains("incomplete checkpoint"));
    assert!(run(&folder, -1, 1, &[TENSORFLOW]).status.success());
}

#[test]
fn files_of_bytes_round_trip() {
    let five = ["++workload.checkpoint.file_bytes=[1024,1024,4096,65536,4194304]", "--ranks=2"];
    let direct = ["++workload.checkpoint.format=raw", "++workload.checkpoint.odirect=true"];
    for (more, count) in [(&five, 5), (&direct, 2)] {
        let folder = Folder::new("ckpt-raw");
        let output = run(&folder, 1, 1, more);
        assert!(output.status.success(), "{}", stderr(&output));
        let files = folder.files("slow");
        assert!(files.len() == count && files.iter().all(|file| file.ends_with(".bin")), "{files:?}");
        let length = |file: &String| std::fs::metadata(folder.path().join(file)).unwrap().len();
        let total: u64 = files.iter().map(length).sum();
        let said = folder.json("run/summary.json")["metric"]["checkpoint_size_GB"].as_f64().unwrap();
        assert_eq!((said * (1u64 << 30) as f64).round() as u64, total);
        let last = folder.path().join(&files[count - 1]);
        std::fs::File::options().write(true).open(last).unwrap().set_len(7).unwrap();
        assert_eq!(run(&folder, -1, 1, more).status.code(), Some(5));
    }
}

#[test]
fn different_parallelism_is_reported() {
    let folder = Folder::new("ckpt-mismatch");
    assert!(run(&folder, 1, -1, &["--ranks=2", "++workload.model.parallelism.zero_stage=3"]).status.success());
    let fewer = run(&folder, -1, 1, &["++workload.model.parallelism.zero_stage=3"]);
    assert_eq!(fewer.status.code(), Some(5));
    assert!(stderr(&fewer).contains("the configuration has"), "{}", stderr(&fewer));
    let more = run(&folder, -1, 1, &["--ranks=3", "++workload.model.parallelism.zero_stage=3"]);
    assert!(!more.status.success());
}

#[test]
fn the_fast_place_has_the_newest_and_the_slow_one_all() {
    let folder = Folder::new("ckpt-tiers");
    let output = run(&folder, 3, 3, &[FAST, "--ranks=2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("in the background: 3 checkpoints"), "{}", stdout(&output));
    let metric = &folder.json("run/summary.json")["metric"];
    let beside = &metric["background_checkpoint"];
    assert_eq!(beside["count"], 3);
    let (all, hidden, waited) = (&beside["seconds"], &beside["hidden_seconds"], &beside["waited_seconds"]);
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!((number(hidden) + number(waited) - number(all)).abs() < 1e-6, "{beside}");
    let slow = folder.files("slow");
    assert_eq!(slow.len(), 3 * 3, "{slow:?}");
    let fast = folder.files("fast");
    assert!(fast.iter().any(|file| file.contains("_step3/")), "{fast:?}");
    // Each directory alone suffices for the checkpoints in it.
    for (gone, kept) in [("fast", "slow"), ("slow", "fast")] {
        std::fs::rename(folder.path().join(gone), folder.path().join("away")).unwrap();
        std::fs::create_dir(folder.path().join(gone)).unwrap();
        if kept == "fast" {
            let newest = folder.path().join("fast/global_epoch1_step3");
            std::fs::rename(&newest, folder.path().join("fast/global_epoch1_step1")).unwrap();
        }
        let output = run(&folder, -1, 1, &[FAST, "--ranks=2"]);
        assert!(output.status.success(), "{kept}: {}", stderr(&output));
        std::fs::remove_dir_all(folder.path().join(gone)).unwrap();
        std::fs::rename(folder.path().join("away"), folder.path().join(gone)).unwrap();
        if gone == "fast" {
            assert!(folder.path().join("fast/global_epoch1_step3").exists());
        }
    }
}

#[test]
fn the_times_of_a_checkpoint_are_those_of_all_ranks() {
    let folder = Folder::new("ckpt-times");
    let output = run(&folder, 2, 2, &["--ranks=3", "++workload.model.parallelism.zero_stage=3"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let stats = folder.json("run/0_per_epoch_stats.json");
    let micros = |time: &serde_json::Value| -> f64 {
        let parts: Vec<f64> = time.as_str().unwrap()[11..].split(':').map(|part| part.parse().unwrap()).collect();
        parts.iter().fold(0.0, |sum, part| sum * 60.0 + part)
    };
    for name in ["save_ckpt1", "save_ckpt2", "load_ckpt1", "load_ckpt2"] {
        let of = &stats["1"][name];
        let (start, end) = (micros(&of["start"]), micros(&of["end"]));
        // Midnight may be in between.
        let apart = (end - start).rem_euclid(86_400.0);
        assert!((apart - of["duration"].as_f64().unwrap()).abs() < 0.001, "{name}: {of}");
    }
}

#[test]
fn training_continues_while_checkpoint_is_written() {
    let folder = Folder::new("ckpt-beside");
    for more in [FAST, "++workload.checkpoint.asynchronous=true"] {
        let output = dlio(
            &folder,
            &[
                "bench",
                "workload=unet3d",
                "++workload.workflow.generate_data=true",
                "++workload.dataset.data_folder=data",
                "++workload.dataset.num_files_train=8",
                "++workload.dataset.record_length_bytes=10000",
                "++workload.dataset.record_length_bytes_stdev=0",
                "++workload.reader.batch_size=2",
                "++workload.train.epochs=2",
                "++workload.train.computation_time=0.01",
                "++workload.model.model_size_bytes=1000000",
                "++workload.checkpoint.checkpoint_folder=slow",
                "++workload.checkpoint.checkpoint_after_epoch=1",
                "++workload.checkpoint.epochs_between_checkpoints=1",
                "++workload.checkpoint.fsync=true",
                more,
            ],
        );
        assert!(output.status.success(), "{more}: {}", stderr(&output));
        let metric = &folder.json("run/summary.json")["metric"];
        assert_eq!(metric["background_checkpoint"]["count"], 2, "{metric:#}");
        assert!(metric["save_checkpoint_fsyncs"].as_u64().unwrap() >= 4, "{metric:#}");
        // A checkpoint written in the background moves nothing within its own time.
        let rate = &metric["save_checkpoint_io_mean_GB_per_second"];
        assert_eq!(rate.is_null(), more != FAST, "{metric:#}");
        let files = folder.files("slow");
        assert_eq!(files.len(), 2, "{files:?}");
        let length = |file: &String| std::fs::metadata(folder.path().join(file)).unwrap().len();
        assert!(files.iter().all(|file| length(file) > 1_000_000), "{files:?}");
        std::fs::remove_dir_all(folder.path().join("slow")).unwrap();
    }
}

#[test]
fn fast_directory_hides_the_slow_one() {
    let folder = Folder::new("ckpt-slow");
    // A checkpoint of 24 MB is copied in 0.9 seconds, and another is due after two.
    let more = [FAST, "++workload.checkpoint.drain_rate=26000000", "++workload.checkpoint.time_between_checkpoints=2"];
    assert!(run(&folder, 2, -1, &more).status.success());
    let summary = folder.json("run/summary.json");
    let beside = &summary["metric"]["background_checkpoint"];
    let number = |key: &str| beside[key].as_f64().unwrap();
    assert!(number("seconds") >= 1.8 && number("hidden_seconds") >= 0.8, "{beside}");
    // Only the last one is waited for.
    assert!(number("waited_seconds") >= 0.8, "{beside}");
}

/// Returns the seconds of the epochs of a training run with a checkpoint of 40 MB after each, and the seconds of the
/// checkpoints.
fn trained(more: &[&str]) -> (f64, f64) {
    let folder = Folder::new("ckpt-burst");
    let typed = [
        "bench",
        "workload=unet3d",
        "++workload.workflow.generate_data=true",
        "++workload.dataset.data_folder=data",
        "++workload.dataset.num_files_train=20",
        "++workload.dataset.record_length_bytes=1000",
        "++workload.dataset.record_length_bytes_stdev=0",
        "++workload.reader.batch_size=1",
        "++workload.train.epochs=3",
        "++workload.train.computation_time=0.05",
        "++workload.model.model_size_bytes=40000000",
        "++workload.checkpoint.checkpoint_after_epoch=1",
        "++workload.checkpoint.epochs_between_checkpoints=1",
    ];
    let output = dlio(&folder, &[&typed[..], more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let summary = folder.json("run/summary.json");
    let epochs = summary["epoch"].as_array().unwrap().iter().map(|epoch| epoch["seconds"].as_f64().unwrap()).sum();
    (epochs, summary["metric"]["save_checkpoint_duration_mean_seconds"].as_f64().unwrap())
}

/// The slow directory takes five times as long as the fast one, but training takes as long as with the fast one alone.
#[test]
fn draining_does_not_slow_training() {
    let ratio = |_| {
        let (alone, save) = trained(&["++workload.checkpoint.checkpoint_folder=slow"]);
        let rate = format!("++workload.checkpoint.drain_rate={}", (40e6 / save.max(0.05) / 5.0) as u64);
        let (drained, _) = trained(&["++workload.checkpoint.checkpoint_folder=slow", FAST, &rate]);
        drained / alone
    };
    // Other work on this host may disturb a pair: the median counts.
    let mut ratios: Vec<f64> = (0..5).map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[2] <= 1.05, "times as long: {ratios:?}");
}

#[test]
fn crash_while_copying_keeps_checkpoints() {
    let folder = Folder::new("ckpt-crash");
    let pause = "++workload.checkpoint.time_between_checkpoints=1";
    let typed = typed(3, -1, &[FAST, pause]);
    let words: Vec<&str> = typed.iter().map(String::as_str).collect();
    let mut child = command(&folder, &words).stdout(Stdio::null()).spawn().unwrap();
    let own = format!("/proc/{0}/task/{0}/children", child.id());
    let beside = || std::fs::read_to_string(&own).unwrap_or_default().split_whitespace().next().map(str::to_string);
    until("somebody beside", || beside().is_some());
    let beside = beside().unwrap();
    let signal = |name: &str, process: &str| {
        assert!(Command::new("kill").args(["-s", name, process]).status().unwrap().success(), "kill -s {name}");
    };
    // The background process makes no progress after this.
    signal("STOP", &beside);
    let log = folder.path().join("run/dlio.log");
    until("two are saved", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Finished saving checkpoint 2"))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    signal("CONT", &beside);
    until("the process has ended", || !Path::new(&format!("/proc/{beside}")).exists());
    let output = run(&folder, -1, 2, &[FAST]);
    assert!(output.status.success(), "{}", stderr(&output));
    // The next run removes incomplete files, and drains its own.
    assert!(run(&folder, 2, 2, &[FAST]).status.success());
    let slow = folder.files("slow");
    assert!(slow.len() == 4 && slow.iter().all(|file| file.ends_with(".pt")), "{slow:?}");
}

#[test]
fn checkpoints_to_read_are_looked_for_before_the_run() {
    let folder = Folder::new("ckpt-nothing");
    let output = run(&folder, 0, 2, &["++workload.checkpoint.time_between_checkpoints=300"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("slow/global_epoch1_step1 does not exist"), "{}", stderr(&output));
    assert!(stderr(&output).contains("num_checkpoints_write=2") && folder.files("").is_empty(), "{}", stderr(&output));
}

#[test]
fn failed_copy_is_missing_from_the_results() {
    let folder = Folder::new("ckpt-copy-failed");
    std::fs::create_dir_all(folder.path().join("slow")).unwrap();
    // A file where the directory of the last checkpoint would be.
    std::fs::write(folder.path().join("slow/global_epoch1_step2"), "").unwrap();
    for more in [FAST, "++workload.checkpoint.asynchronous=true"] {
        let output = run(&folder, 2, 0, &[more]);
        assert_eq!(output.status.code(), Some(4), "{more}: {}", stderr(&output));
        let summary = folder.json("run/summary.json");
        assert_eq!(summary["missing"], serde_json::json!(["1 of 2 background checkpoints"]), "{more}: {summary:#}");
        assert!(summary["error"].as_str().unwrap().contains("global_epoch1_step2"), "{more}: {summary:#}");
        std::fs::remove_dir_all(folder.path().join("slow/global_epoch1_step1")).unwrap();
    }
}

#[test]
fn full_fast_directory_is_reported_and_skipped() {
    if !Command::new("unshare")
        .args(["--mount", "--map-root-user", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        eprintln!("skipped: no mount namespace for this user");
        return;
    }
    let folder = Folder::new("ckpt-full");
    std::fs::create_dir_all(folder.path().join("fast")).unwrap();
    // A checkpoint has 26 MB: none fits in the first disk, two fit in the second.
    for (size, without_room) in [("20m", 3), ("60m", 0)] {
        let mounted = format!("mount -t tmpfs -o size={size} tmpfs fast && \"$@\"");
        let output = Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-c", &mounted, "sh", env!("CARGO_BIN_EXE_dlio")])
            .args(typed(3, 3, &[FAST]))
            .arg("++hydra.run.dir=run")
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{size}: {}", stderr(&output));
        let summary = folder.json("run/summary.json");
        assert_eq!(summary["metric"]["background_checkpoint"]["without_room"], without_room, "{size}: {summary:#}");
        assert_eq!(stderr(&output).matches("no space for a checkpoint in ./fast").count(), without_room, "{size}");
        assert_eq!(folder.files("slow").len(), 6, "{size}");
        std::fs::remove_dir_all(folder.path().join("slow")).unwrap();
    }
}

#[test]
fn as_many_syncs_are_counted_as_are_made() {
    if !needs("strace") {
        return;
    }
    let folder = Folder::new("ckpt-syncs");
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", "calls", env!("CARGO_BIN_EXE_dlio")]);
    traced.args(typed(3, -1, &["++workload.checkpoint.fsync=true", FAST])).arg("++hydra.run.dir=run");
    let output = traced.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
    let made = calls.lines().filter(|line| line.contains("sync") && line.ends_with("= 0")).count();
    // Two files and their directory, in both locations.
    assert_eq!(made, 3 * 2 * 3);
    assert_eq!(folder.json("run/summary.json")["metric"]["save_checkpoint_fsyncs"], made);
}

/// A call on a file of a checkpoint: its name, bytes requested, result.
struct Call {
    kind: String,
    path: String,
    asked: u64,
    returned: u64,
}

/// Parses a line of `strace -y -s 0`.
fn call(line: &str) -> Option<Call> {
    let (kind, rest) = line.split_once('(')?;
    let path = rest.split_once('<')?.1.split_once('>')?.0;
    let (arguments, returned) = rest.rsplit_once(" = ")?;
    let asked = arguments.trim_end().trim_end_matches(')').rsplit_once(", ").map_or("0", |(_, last)| last);
    let number = |text: &str| text.trim().parse().unwrap_or(0);
    Some(Call { kind: kind.into(), path: path.into(), asked: number(asked), returned: number(returned) })
}

#[test]
fn transfers_have_requested_size_and_are_synced() {
    if !needs("strace") {
        return;
    }
    for (size, more) in [(1 << 20, ""), (300_000, ""), (1 << 20, "++workload.checkpoint.odirect=true")] {
        let folder = Folder::new("ckpt-calls");
        let transfer = format!("++workload.checkpoint.transfer_size={size}");
        let asked = ["++workload.checkpoint.fsync=true", &transfer, more];
        let asked: Vec<&str> = asked.into_iter().filter(|word| !word.is_empty()).collect();
        let mut traced = Command::new("strace");
        traced.args(["-ff", "-y", "-s", "0", "-e", "trace=write,read,fsync", "-o", "calls"]);
        traced.arg(env!("CARGO_BIN_EXE_dlio")).args(typed(1, 1, &asked)).arg("++hydra.run.dir=run");
        let output = traced.current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let of_process = |name: &String| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let logs: String = folder.files("").iter().filter(|name| name.starts_with("calls.")).map(of_process).collect();
        let calls: Vec<Call> = logs.lines().filter_map(call).filter(|call| call.path.contains("/slow/")).collect();
        let of = |kind: &str, path: &str| -> Vec<usize> {
            (0..calls.len()).filter(|at| calls[*at].kind == kind && calls[*at].path == path).collect()
        };
        let files = folder.files("slow");
        assert_eq!(files.len(), 2, "{files:?}");
        let mut written: Vec<&str> = calls.iter().filter(|call| call.kind == "write").map(|call| &*call.path).collect();
        written.dedup();
        assert_eq!(written.len(), 2, "each file is written front to back: {written:?}");
        for path in &written {
            let (writes, syncs) = (of("write", path), of("fsync", path));
            let sizes: Vec<u64> = writes.iter().map(|at| calls[*at].returned).collect();
            let (last, others) = sizes.split_last().unwrap();
            assert!(others.iter().all(|bytes| *bytes == size) && *last <= size, "{size} {more}: {sizes:?}");
            assert!(syncs.len() == 1 && syncs[0] > *writes.last().unwrap(), "{size} {more}: {path}");
        }
        // The names are synced last.
        let folders: Vec<usize> = (0..calls.len()).filter(|at| calls[*at].path.ends_with("step1")).collect();
        let last_write = calls.iter().rposition(|call| call.kind == "write").unwrap();
        assert!(folders.len() == 1 && calls[folders[0]].kind == "fsync" && folders[0] > last_write);
        for name in files {
            let length = std::fs::metadata(folder.path().join(&name)).unwrap().len();
            let reads: Vec<&Call> =
                calls.iter().filter(|call| call.kind == "read" && call.path.ends_with(&name)).collect();
            assert_eq!(reads.iter().map(|call| call.returned).sum::<u64>(), length, "{name}");
            let asked: Vec<u64> = reads.iter().map(|call| call.asked).collect();
            let whole = size.next_multiple_of(if more.is_empty() { 1 } else { 4096 });
            assert!(asked.iter().all(|bytes| *bytes == whole), "{size} {more}: {asked:?}");
        }
    }
}

/// Returns the Python of an environment variable, or of an environment in the cache, that has this library.
fn python(library: &str, variable: &str, environment: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let python = named.or_else(|| Some(cache?.join(environment).join("bin/python"))).filter(|python| python.exists());
    has(library, python.is_some());
    python
}

#[test]
fn tensorflow_loads_them() {
    let Some(python) = python("TensorFlow", "DLIO_TENSORFLOW_PYTHON", "dlio-tensorflow-venv") else { return };
    let folder = Folder::new("ckpt-load-tensorflow");
    assert!(run(&folder, 1, -1, &[TENSORFLOW, "++workload.model.model_datatype=bf16"]).status.success());
    let script = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../tests/benchmark/load_tensorflow.py");
    let place = folder.path().join("slow/global_epoch1_step1");
    let output = Command::new(&python).arg(&script).arg(place).output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{}", stderr(&output));
}

#[test]
fn distributed_checkpoint_needs_its_metadata() {
    let folder = Folder::new("ckpt-distributed");
    let ranks =
        ["--ranks=2", DISTRIBUTED, "++workload.model.parallelism.zero_stage=3", "++workload.checkpoint.fsync=true"];
    assert!(run(&folder, 1, 1, &ranks).status.success());
    let mut names = folder.files("slow");
    names.sort();
    let below = |name: &str| format!("slow/global_epoch1_step1/{name}");
    assert_eq!(names, [".metadata", "__0_0.distcp", "__0_1.distcp", "__1_0.distcp", "__1_1.distcp"].map(below));
    // Files and their directory on both ranks, and the file for all ranks with its directory.
    assert_eq!(folder.json("run/summary.json")["metric"]["save_checkpoint_fsyncs"], 2 * (2 + 1) + 2);
    std::fs::remove_file(folder.path().join(below(".metadata"))).unwrap();
    let output = run(&folder, -1, 1, &ranks);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains(".metadata"), "{}", stderr(&output));
}

#[test]
fn its_own_library_loads_a_distributed_checkpoint() {
    let Some(python) = python("PyTorch", "DLIO_TORCH_PYTHON", "dlio-torch-venv") else { return };
    for more in [&["--ranks=1"][..], &["--ranks=2", "++workload.model.parallelism.zero_stage=3"]] {
        let folder = Folder::new("ckpt-load-distributed");
        let bf16 = "++workload.model.model_datatype=bf16";
        assert!(run(&folder, 1, -1, &[more, &[bf16]].concat()).status.success());
        let apart = "++workload.checkpoint.checkpoint_folder=distributed";
        assert!(run(&folder, 1, -1, &[more, &[bf16, DISTRIBUTED, apart]].concat()).status.success());
        let script =
            Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../tests/benchmark/load_distributed.py");
        let mut load = Command::new(&python);
        load.arg(&script).arg("distributed/global_epoch1_step1").args(folder.files("slow"));
        let output = load.current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(42), "{}", stderr(&output));
    }
}

#[test]
fn the_libraries_of_the_formats_load_them() {
    let Some(python) = python("PyTorch", "DLIO_TORCH_PYTHON", "dlio-torch-venv") else { return };
    let folder = Folder::new("ckpt-libraries");
    for more in [&[][..], &[SAFETENSORS]] {
        assert!(run(&folder, 1, -1, more).status.success());
    }
    let script = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../tests/benchmark/load_checkpoint.py");
    let files = folder.files("slow");
    for stem in ["model_0_model_states", "zero_pp_rank_0_mp_rank_0_optim_states"] {
        let of_stem = files.iter().filter(|file| file.contains(stem)).collect::<Vec<_>>();
        assert_eq!(of_stem.len(), 2, "{files:?}");
        let output = Command::new(&python).arg(&script).args(of_stem).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(42), "{}", stderr(&output));
    }
}
