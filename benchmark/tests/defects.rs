//! One test for each known defect of the original (its main branch of June 2026), with the correct behavior.

mod program;

use program::{Folder, command, dlio, stderr, stdout};
use std::path::PathBuf;
use std::process::Command;

/// Runs a small training run of `files` x `samples` records of 2,500 bytes with `more` on the command line.
fn run(folder: &Folder, files: u64, samples: u64, more: &[&str]) -> String {
    let output = dlio(folder, &arguments(folder, files, samples, more).iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

const ONE: &str = "++workload.reader.batch_size=1";

fn arguments(folder: &Folder, files: u64, samples: u64, more: &[&str]) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["bench", "workload=unet3d", "++workload.workflow.generate_data=true", "++workload.workflow.checkpoint=false"]
            .map(String::from)
            .to_vec();
    arguments.push(format!("++workload.dataset.data_folder={}/data", folder.text()));
    arguments.push(format!("++workload.dataset.num_files_train={files}"));
    arguments.push(format!("++workload.dataset.num_samples_per_file={samples}"));
    arguments.extend(
        ["++workload.dataset.record_length_bytes=2500", "++workload.dataset.record_length_bytes_stdev=0"]
            .map(String::from),
    );
    arguments.extend(
        ["++workload.train.epochs=2", "++workload.train.computation_time=0.001", "++workload.reader.read_threads=2"]
            .map(String::from),
    );
    arguments.extend(more.iter().map(ToString::to_string));
    arguments
}

/// Builds a library that logs the program's file calls, with the C compiler that linked this test.
fn witness(folder: &Folder) -> PathBuf {
    let source = folder.path().join("witness.c");
    let library = folder.path().join("witness.so");
    let code = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <stdarg.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        static void note(const char *what, const char *path) {
            char line[4096];
            int length = snprintf(line, sizeof line, "%s %s\n", what, path);
            int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
            int fd = real(getenv("WITNESS"), O_WRONLY | O_CREAT | O_APPEND, 0644);
            if (fd >= 0) { if (write(fd, line, length) < 0) {} close(fd); }
        }
        int open64(const char *path, int flags, ...) {
            va_list list; va_start(list, flags); int mode = va_arg(list, int); va_end(list);
            int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
            if (strstr(path, "/train/") && (flags & O_ACCMODE) == O_RDONLY) note("open", path);
            return real(path, flags, mode);
        }
        int statx(int dir, const char *path, int flags, unsigned mask, void *found) {
            int (*real)(int, const char *, int, unsigned, void *) = dlsym(RTLD_NEXT, "statx");
            if (path && strstr(path, "/train/img")) note("stat", path);
            return real(dir, path, flags, mask, found);
        }
        int fsync(int fd) { int (*real)(int) = dlsym(RTLD_NEXT, "fsync"); note("fsync", ""); return real(fd); }
        int fdatasync(int fd) { int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync"); note("fsync", ""); return real(fd); }
    "#;
    std::fs::write(&source, code).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl").status().unwrap();
    assert!(built.success(), "the C compiler builds a shared library");
    library
}

fn witnessed(folder: &Folder, arguments: &[&str]) -> Vec<String> {
    let notes = folder.path().join("notes");
    let _ = std::fs::remove_file(&notes);
    let output = command(folder, arguments).env("LD_PRELOAD", witness(folder)).env("WITNESS", &notes).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    std::fs::read_to_string(&notes).unwrap_or_default().lines().map(String::from).collect()
}

#[test]
fn d01_steps_count_samples_and_not_files() {
    let folder = Folder::new("d01");
    run(&folder, 16, 8, &["++workload.reader.batch_size=8"]);
    let output = folder.json("run/0_output.json");
    assert_eq!(output["1"]["load"]["block1"].as_array().unwrap().len(), 16);
}

#[test]
fn d02_generate_and_train_reports_real_bytes() {
    let folder = Folder::new("d02");
    run(&folder, 16, 1, &["++workload.reader.batch_size=4"]);
    let summary = folder.json("run/summary.json");
    assert!(summary["metric"]["train_io_mean_MB_per_second"].as_f64().unwrap() > 0.0);
    let bytes: u64 = folder.files("data").iter().map(|file| folder.path().join(file).metadata().unwrap().len()).sum();
    assert_eq!(summary["epoch"][0]["bytes_read"].as_u64().unwrap(), bytes);
}

#[test]
fn d03_fsync_reaches_the_file_system() {
    let folder = Folder::new("d03");
    let llama = |fsync: &str| {
        let fsync = format!("++workload.checkpoint.fsync={fsync}");
        let typed = [
            "bench",
            "-q",
            "workload=llama_7b",
            "++workload.checkpoint.time_between_checkpoints=0",
            "++workload.checkpoint.num_checkpoints_write=2",
            "++workload.checkpoint.num_checkpoints_read=2",
            "++workload.model.num_layers=1",
            "++workload.model.transformer.vocab_size=100",
            "++workload.model.transformer.hidden_size=64",
            "++workload.model.transformer.ffn_hidden_size=64",
            &fsync,
        ];
        witnessed(&folder, &typed).iter().filter(|line| line.starts_with("fsync")).count()
    };
    // Two files and their directory, twice.
    assert_eq!(llama("true"), 6);
    assert_eq!(llama("false"), 0);
}

#[test]
fn d04_a_run_folder_can_be_reported() {
    let folder = Folder::new("d04");
    run(&folder, 16, 1, &["++workload.reader.batch_size=4", "++workload.workflow.profiling=true"]);
    let output = dlio(&folder, &["bench", "report", "run"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("wait for a batch") && stdout(&output).contains("cpu idle"));
    let json: serde_json::Value =
        serde_json::from_slice(&dlio(&folder, &["bench", "report", "run", "--json"]).stdout).unwrap();
    assert_eq!(json["epochs"]["2"]["block1"]["steps"], 4);
    assert_eq!(dlio(&folder, &["bench", "report", "nowhere"]).status.code(), Some(3));
}

#[test]
fn d05_shuffled_file_order_differs_per_epoch() {
    let folder = Folder::new("d05");
    let more = ["-q", "++workload.reader.batch_size=4", "++workload.reader.read_threads=0"];
    run(&folder, 16, 1, &more);
    let opened = |extra: &[&str]| {
        let arguments = arguments(&folder, 16, 1, &[&more, extra].concat());
        let lines = witnessed(&folder, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let names: Vec<String> = lines.iter().filter(|line| line.starts_with("open")).cloned().collect();
        // The page cache query before each epoch is not part of the workload.
        assert_eq!(names.len(), 32);
        (names[..16].to_vec(), names[16..].to_vec())
    };
    let (first, second) = opened(&[]);
    let mut sorted = first.clone();
    sorted.sort();
    assert_ne!(first, sorted);
    assert_ne!(first, second);
    let (first, second) = opened(&["--dlio-order"]);
    assert_eq!((&first, &second), (&sorted, &sorted));
}

/// Looking at each file before the first epoch would make its metadata warm.
#[test]
fn d05_files_are_not_examined_before_they_are_read() {
    let folder = Folder::new("d05-examined");
    let more = ["-q", ONE, "++workload.reader.read_threads=0"];
    run(&folder, 16, 1, &more);
    let arguments: Vec<String> = arguments(&folder, 16, 1, &more);
    let typed: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !word.contains("generate_data")).collect();
    let lines = witnessed(&folder, &typed);
    assert_eq!(lines.iter().filter(|line| line.starts_with("open")).count(), 2 * 16);
    let examined: Vec<&String> = lines.iter().filter(|line| line.starts_with("stat")).collect();
    assert!(examined.is_empty(), "{examined:?}");
}

#[test]
fn d06_unknown_key_is_rejected_before_writing() {
    let folder = Folder::new("d06");
    let arguments = arguments(&folder, 16, 1, &["++workload.reader.batchsize=9"]);
    let output = dlio(&folder, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean workload.reader.batch_size?"), "{}", stderr(&output));
    assert!(folder.files(".").is_empty());
    run(&folder, 16, 1, &["++workload.reader.batchsize=9", "--lenient"]);
}

#[test]
fn d06_shipped_model_size_sets_checkpoint_size() {
    let folder = Folder::new("d06b");
    run(
        &folder,
        16,
        1,
        &[
            "++workload.workflow.checkpoint=true",
            "++workload.model.model_size=123456",
            "++workload.checkpoint.checkpoint_after_epoch=2",
        ],
    );
    let file = folder.path().join("checkpoints/unet3d/global_epoch2_step3/model_states-0.pt");
    // torch.load needs less than 1,000 bytes around the tensor.
    assert!((123_456..124_456).contains(&file.metadata().unwrap().len()));
}

#[test]
fn d07_throughput_of_two_steps_is_a_throughput() {
    let folder = Folder::new("d07");
    run(&folder, 8, 1, &["++workload.reader.batch_size=4"]);
    let metric = &folder.json("run/summary.json")["metric"];
    assert!(metric["train_throughput_mean_samples_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(metric["compat"]["train_throughput_mean_samples_per_second"], 0.0);
}

#[test]
fn d08_mapped_samples_are_fetched_from_storage() {
    let folder = Folder::new("d08");
    let more = [
        "-q",
        "++workload.dataset.format=mmap_indexed_binary",
        "++workload.reader.batch_size=4",
        "++workload.train.epochs=1",
    ];
    run(&folder, 8, 64, &more);
    for file in folder.files("data") {
        let file = std::fs::File::open(folder.path().join(file)).unwrap();
        dlio_benchmark::system::file_calls::forget_pages(&file).unwrap();
    }
    run(&folder, 8, 64, &more);
    // Pages that were not cached came from the device, unless the file system has no device that the kernel counts.
    let epoch = &folder.json("run/summary.json")["epoch"][0];
    let host = &epoch["host"];
    assert!(host["device"].is_null() || host["device_read_bytes"].as_u64().unwrap() >= 8 * 64 * 2500, "{host}");
    let own = &epoch["bytes_from_storage"];
    assert!(own.is_null() || own.as_u64().unwrap() >= 8 * 64 * 2500, "{epoch}");
    run(&folder, 8, 64, &more);
    let epoch = &folder.json("run/summary.json")["epoch"][0];
    assert_eq!(epoch["cached_share_before"], 1.0);
    let [storage, memory] = ["bytes_from_storage", "bytes_from_memory"].map(|key| epoch[key].as_u64());
    assert_eq!((storage.is_none(), memory.is_none()), (own.is_null(), own.is_null()), "{epoch}");
    // Cached data come from memory.
    assert!(memory.is_none_or(|memory| memory >= 8 * 64 * 2500 && storage < Some(8 * 64 * 2500)), "{epoch}");
    assert!(epoch["bytes_read"].as_u64().unwrap() >= 8 * 64 * 2500);
}

#[test]
fn d08_worker_maps_each_file_once_per_epoch() {
    let folder = Folder::new("d08-maps");
    let more = ["-q", ONE, "++workload.dataset.format=mmap_indexed_binary", "++workload.reader.read_threads=0"];
    run(&folder, 2, 16, &more);
    for read_type in ["++workload.reader.read_type=on_demand", "++workload.reader.read_type=memory"] {
        let arguments = arguments(&folder, 2, 16, &[&more[..], &[read_type]].concat());
        let lines = witnessed(&folder, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let data = lines.iter().filter(|line| line.starts_with("open") && line.ends_with(".mmap_indexed_binary"));
        // Two files in each of two epochs; the page cache query before an epoch is not part of the workload.
        assert_eq!(data.count(), 2 * 2, "{read_type}: {lines:?}");
    }
}

#[test]
fn d09_ranks_and_streams_read_every_sample_once() {
    let folder = Folder::new("d09");
    let more = [
        "-q",
        "--ranks=2",
        "++workload.framework=tensorflow",
        "++workload.reader.data_loader=tensorflow",
        "++workload.dataset.format=tfrecord",
        "++workload.reader.batch_size=4",
        "++workload.train.epochs=1",
    ];
    run(&folder, 6, 8, &more);
    let bytes: u64 =
        folder.files("data/train").iter().map(|file| folder.path().join(file).metadata().unwrap().len()).sum();
    assert_eq!(folder.json("run/summary.json")["epoch"][0]["bytes_read"].as_u64().unwrap(), bytes);
    for rank in 0..2 {
        let output = folder.json(&format!("run/{rank}_output.json"));
        assert_eq!(output["1"]["load"]["block1"].as_array().unwrap().len(), 6);
    }
}

#[test]
fn d09_kept_files_are_opened_once_per_epoch() {
    let folder = Folder::new("d09-open");
    let more = |read_type: &'static str| {
        let words = ["-q", ONE, "++workload.dataset.format=hdf5", "++workload.reader.read_threads=0", read_type];
        [&words[..], &["++workload.reader.sample_shuffle=random", "++workload.reader.file_shuffle=off"]].concat()
    };
    let opened = |read_type| {
        let arguments = arguments(&folder, 4, 16, &more(read_type));
        let lines = witnessed(&folder, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        lines.iter().filter(|line| line.starts_with("open")).count()
    };
    run(&folder, 4, 16, &more("++workload.reader.read_type=memory"));
    // Two epochs, and files in any order.
    assert_eq!(opened("++workload.reader.read_type=memory"), 2 * 4);
    assert_eq!(opened("++workload.reader.read_type=on_demand"), 2 * 64);
}

#[test]
fn d09_offsets_count_from_the_file_start() {
    let folder = Folder::new("d09b");
    run(
        &folder,
        4,
        5,
        &[
            "++workload.dataset.format=indexed_binary",
            "++workload.dataset.generation_buffer_size=3000",
            "++workload.reader.batch_size=4",
        ],
    );
    let bytes = std::fs::read(folder.path().join("data/train/img_0_of_4.indexed_binary.off.idx")).unwrap();
    let offsets: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight)).collect();
    assert_eq!(offsets, [0, 2500, 5000, 7500, 10_000]);
}

#[test]
fn d10_read_only_checkpoints_give_valid_json() {
    let folder = Folder::new("d10");
    let llama = |writes: &str, reads: &str| {
        let (writes, reads) = (
            format!("++workload.checkpoint.num_checkpoints_write={writes}"),
            format!("++workload.checkpoint.num_checkpoints_read={reads}"),
        );
        let typed = [
            "bench",
            "-q",
            "workload=llama_7b",
            "++workload.checkpoint.time_between_checkpoints=0",
            "++workload.model.num_layers=1",
            "++workload.model.transformer.vocab_size=100",
            "++workload.model.transformer.hidden_size=64",
            "++workload.model.transformer.ffn_hidden_size=64",
            "++workload.checkpoint.recovery_rank_shift=true",
            &writes,
            &reads,
        ];
        let output = dlio(&folder, &typed);
        assert!(output.status.success(), "{}", stderr(&output));
    };
    llama("2", "0");
    llama("0", "2");
    let metric = &folder.json("run/summary.json")["metric"];
    assert!(metric["load_checkpoint_io_mean_GB_per_second"].as_f64().unwrap() > 0.0);
    assert!(metric.get("save_checkpoint_io_mean_GB_per_second").is_none());
}

#[test]
fn d11_fractional_record_length_is_rounded_to_a_square() {
    let folder = Folder::new("d11");
    run(&folder, 4, 1, &["++workload.dataset.format=npy", "++workload.dataset.record_length_bytes=2500.07", ONE]);
    assert_eq!(folder.path().join("data/train/img_0_of_4.npy").metadata().unwrap().len(), 128 + 2500);
}

#[test]
fn d12_compression_matches_its_name() {
    let folder = Folder::new("d12");
    run(&folder, 4, 1, &["++workload.dataset.compression=zip", ONE]);
    let bytes = std::fs::read(folder.path().join("data/train/img_0_of_4.npz")).unwrap();
    assert_eq!(bytes[8], 8, "the method of the first member is deflate");
    run(&folder, 4, 1, &["++workload.dataset.format=hdf5", "++workload.dataset.compression=none", ONE]);
    run(&folder, 4, 1, &["++workload.dataset.format=csv", "++workload.dataset.compression=gzip", ONE]);
    let packed = std::fs::read(folder.path().join("data/train/img_0_of_4.csv.gz")).unwrap();
    assert!(packed.starts_with(&[0x1f, 0x8b]));
}
