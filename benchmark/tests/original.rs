//! DLIO's own test cases (its main branch of June 2026) as command lines, with the files, sizes and keys they require.
//! Times are shortened: nothing in them depends on those. DIFFERENCES.md explains the differences.

mod program;

use program::{Folder, stderr};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// The condition after the last command of a row.
enum Expectation {
    /// The number of files with this extension below this directory, subdirectories included.
    Files(&'static str, &'static str, usize),
    Bytes(&'static str, u64),
    Folder(&'static str),
    /// Paths of keys that a JSON file has.
    Keys(&'static str, &'static [&'static str]),
    /// A number at a path of a JSON file.
    Number(&'static str, &'static str, f64),
    /// The number of steps in each epoch.
    Steps(u64),
}

use Expectation::*;

const SHORT: &[&str] = &["++workload.train.computation_time=0.001", "++workload.evaluation.eval_time=0.001"];

/// Runs with the arguments of DLIO's own program.
fn run(folder: &Folder, typed: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlio"));
    command.arg0("dlio_benchmark").current_dir(folder.path()).arg("++hydra.run.dir=run").args(typed);
    command.output().unwrap()
}

/// Runs the command lines of a row in order, then checks the result.
fn row(name: &str, commands: &[&[&str]], expected: &[Expectation]) {
    let folder = Folder::new(&format!("original-{name}"));
    for typed in commands {
        let output = run(&folder, typed);
        assert!(output.status.success(), "{name}: {typed:?}: {}", stderr(&output));
    }
    expected.iter().for_each(|holds| look(name, &folder, holds));
}

fn look(name: &str, folder: &Folder, holds: &Expectation) {
    match holds {
        Files(below, ending, count) => {
            let files = folder.files(below).into_iter().filter(|file| file.ends_with(ending)).count();
            assert_eq!(files, *count, "{name}: {ending} below {below}");
        }
        Bytes(file, bytes) => {
            let length = std::fs::metadata(folder.path().join(file)).map(|file| file.len());
            assert_eq!(length.ok(), Some(*bytes), "{name}: {file}");
        }
        Folder(path) => assert!(folder.path().join(path).is_dir(), "{name}: {path}"),
        Keys(file, keys) => {
            let json = folder.json(file);
            keys.iter().for_each(|key| assert!(at(&json, key).is_some(), "{name}: {file} has no {key}"));
        }
        Number(file, key, number) => {
            assert_eq!(at(&folder.json(file), key).and_then(Value::as_f64), Some(*number), "{name}: {key}");
        }
        Steps(steps) => {
            for (epoch, stats) in folder.json("run/0_output.json").as_object().unwrap() {
                if epoch.parse::<u64>().is_ok() {
                    let done: usize = stats["load"]
                        .as_object()
                        .unwrap()
                        .iter()
                        .filter(|(block, _)| *block != "eval")
                        .map(|(_, steps)| steps.as_array().unwrap().len())
                        .sum();
                    assert_eq!(done as u64, *steps, "{name}: steps of epoch {epoch}");
                }
            }
        }
    }
}

fn at<'a>(json: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').try_fold(json, |json, key| match json {
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        json => json.get(key),
    })
}

/// Joins several lists of words, with the short times at the end.
fn words<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    [&parts.concat()[..], SHORT].concat()
}

const GENERATE_ONLY: &[&str] = &["++workload.workflow.train=False", "++workload.workflow.generate_data=True"];
const BOTH: &[&str] = &["++workload.workflow.train=True", "++workload.workflow.generate_data=True"];
const ONE_EPOCH: &[&str] = &["++workload.train.epochs=1"];
const TENSORFLOW: &[&str] = &["++workload.framework=tensorflow", "++workload.reader.data_loader=tensorflow"];
const PYTORCH: &[&str] = &["++workload.framework=pytorch", "++workload.reader.data_loader=pytorch"];

const FORMATS: &[&str] = &["png", "npz", "jpeg", "tfrecord", "hdf5", "indexed_binary", "mmap_indexed_binary"];

fn ending(format: &str) -> &'static str {
    FORMATS.iter().chain(&["csv", "npy"]).find(|known| **known == format).unwrap()
}

#[test]
fn generated_formats_have_their_files_in_both_splits() {
    for format in FORMATS {
        let kind = format!("++workload.dataset.format={format}");
        let files = ["++workload.dataset.num_files_train=8", "++workload.dataset.num_files_eval=8", &kind];
        let both = [Files("data/default/train", ending(format), 8), Files("data/default/valid", ending(format), 8)];
        row(format, &[&words(&[TENSORFLOW, GENERATE_ONLY, &files])], &both);
    }
}

/// 4,096 bytes are 64 x 64: the measured sizes of NumPy's, h5py's and Pillow's files.
#[test]
fn generated_files_have_the_originals_sizes() {
    for (format, file, bytes) in [
        ("npz", "data/default/train/0/img_00_of_64.npz", 4594),
        ("npy", "data/default/train/0/img_00_of_64.npy", 4224),
        ("hdf5", "data/default/train/0/img_00_of_64.hdf5", 6152),
        ("indexed_binary", "data/default/train/0/img_00_of_64.indexed_binary", 4096),
        ("indexed_binary", "data/default/train/0/img_00_of_64.indexed_binary.off.idx", 8),
        ("indexed_binary", "data/default/train/0/img_00_of_64.indexed_binary.sz.idx", 8),
    ] {
        let kind = format!("++workload.dataset.format={format}");
        row(&format!("size-{format}"), &[&words(&[GENERATE_ONLY, &[&kind]])], &[Bytes(file, bytes)]);
    }
    let flat = ["++workload.dataset.num_files_eval=0", "++workload.dataset.num_subfolders_eval=0"];
    row("empty-valid", &[&words(&[GENERATE_ONLY, &flat])], &[Folder("data/default/valid")]);
}

#[test]
fn a_subset_of_the_files_can_be_trained_on() {
    let train = ["++workload.workflow.train=True", "++workload.workflow.generate_data=False"];
    let eight = ["++workload.dataset.num_files_train=8", "++workload.train.epochs=2"];
    let commands = [words(&[GENERATE_ONLY]), words(&[&train, &eight])];
    let read = 8.0 * 4594.0;
    let holds = [
        Steps(2),
        Number("run/summary.json", "num_files_train", 8.0),
        Number("run/summary.json", "epoch/0/bytes_read", read),
        Number("run/summary.json", "epoch/0/evaluation/bytes_read", read),
    ];
    row("subset", &[&commands[0], &commands[1]], &holds);
}

#[test]
fn storage_root_precedes_the_data_directory() {
    for format in FORMATS {
        let kind = format!("++workload.dataset.format={format}");
        let root = ["++workload.storage.storage_root=runs", "++workload.dataset.num_files_train=16", &kind];
        let holds =
            [Files("runs/data/default/train", ending(format), 16), Files("runs/data/default/valid", ending(format), 8)];
        row(&format!("root-{format}"), &[&words(&[TENSORFLOW, GENERATE_ONLY, &root])], &holds);
    }
    let root = ["++workload.storage.storage_root=root_dir", "++workload.dataset.num_files_train=16"];
    row(
        "root-train",
        &[&words(&[BOTH, &root, ONE_EPOCH])],
        &[Steps(4), Files("root_dir/data/default/train", "npz", 16)],
    );
}

const SUMMARY: &[&str] = &[
    "start",
    "num_accelerators",
    "num_hosts",
    "hostname",
    "num_files_train",
    "num_files_eval",
    "num_samples_per_file",
    "host_cpu_count/0",
    "host_processor_name",
    "potential_caching/0",
    "host_cpuinfo",
    "host_meminfo/MemTotal",
    "host_memory_GB/0",
    "data_size_per_host_GB",
    "epochs",
    "end",
    "metric/train_au_percentage/0",
    "metric/train_au_mean_percentage",
    "metric/train_au_meet_expectation",
    "metric/train_au_stdev_percentage",
    "metric/train_throughput_samples_per_second/0",
    "metric/train_throughput_mean_samples_per_second",
    "metric/train_throughput_stdev_samples_per_second",
    "metric/train_io_mean_MB_per_second",
    "metric/train_io_stdev_MB_per_second",
];

const EVALUATION: &[&str] = &[
    "metric/eval_au_percentage/0",
    "metric/eval_au_mean_percentage",
    "metric/eval_au_meet_expectation",
    "metric/eval_au_stdev_percentage",
    "metric/eval_throughput_samples_per_second/0",
    "metric/eval_throughput_mean_samples_per_second",
    "metric/eval_throughput_stdev_samples_per_second",
    "metric/eval_io_mean_MB_per_second",
    "metric/eval_io_stdev_MB_per_second",
];

const OUTPUT: &[&str] = &[
    "host_memory_GB",
    "host_cpu_count",
    "host_processor_name",
    "potential_caching",
    "host_cpuinfo",
    "host_meminfo",
    "hostname",
    "1/load/block1/0",
    "1/proc/block1/0",
    "1/compute/block1/0",
    "1/throughput/block1",
    "1/au/block1",
    "1/host_meminfo",
    "1/end",
    "1/load/eval/0",
    "1/au/eval",
];

const STATS: &[&str] = &[
    "1/start",
    "1/block1/start",
    "1/block1/end",
    "1/block1/duration",
    "1/eval/start",
    "1/eval/duration",
    "1/end",
    "1/duration",
];

const IOSTAT: &[&str] = &[
    "sysstat/hosts/0/nodename",
    "sysstat/hosts/0/sysname",
    "sysstat/hosts/0/release",
    "sysstat/hosts/0/machine",
    "sysstat/hosts/0/number-of-cpus",
    "sysstat/hosts/0/date",
    "sysstat/hosts/0/statistics/0/timestamp",
    "sysstat/hosts/0/statistics/0/avg-cpu/iowait",
    "sysstat/hosts/0/statistics/0/disk",
];

#[test]
fn evaluation_and_profiling_leave_their_keys() {
    let more = ["++workload.workflow.evaluation=True", "++workload.train.epochs=4"];
    let holds = [
        Keys("run/summary.json", SUMMARY),
        Keys("run/summary.json", EVALUATION),
        Keys("run/0_output.json", OUTPUT),
        Keys("run/0_per_epoch_stats.json", STATS),
        Number("run/summary.json", "epochs", 4.0),
    ];
    row("eval", &[&words(&[BOTH, &more])], &holds);
    let train =
        ["++workload.workflow.train=True", "++workload.workflow.generate_data=False", "workload.train.epochs=1"];
    let profiled = ["workload.workflow.profiling=True", "workload.profiling.profiler=iostat"];
    let commands = [words(&[GENERATE_ONLY]), words(&[&train, &profiled])];
    row("iostat", &[&commands[0], &commands[1]], &[Keys("run/iostat.json", IOSTAT), Keys("run/summary.json", SUMMARY)]);
}

#[test]
fn host_fields_are_numbers_per_rank_and_lists_per_run() {
    let folder = Folder::new("original-host");
    assert!(run(&folder, &words(&[BOTH, ONE_EPOCH])).status.success());
    let (rank, summary) = (folder.json("run/0_output.json"), folder.json("run/summary.json"));
    assert!(rank["host_memory_GB"].is_number() && rank["host_cpu_count"].is_u64());
    assert!(rank["potential_caching"].is_u64() && rank["host_cpuinfo"].get("processor").is_none());
    assert!(summary["host_memory_GB"].is_array() && summary["host_cpu_count"].is_array());
    assert_eq!(summary["data_size_per_host_GB"].as_f64(), Some(64.0 * 4096.0 / 1024.0 / 1024.0 / 1024.0));
}

/// Frameworks, lists, layers, zero stages and random tensors as in the original's table, on one rank and on two.
#[test]
fn checkpoints_of_epochs_are_as_many_files() {
    // Three files per rank; with TensorFlow two each, and one for all that names the newest.
    for (framework, files, common) in [(PYTORCH, 3, 0), (TENSORFLOW, 6, 1)] {
        for (groups, layers, zero) in [("[1024,128]", 2, 0), ("[1024,128]", 2, 3), ("[128]", 1, 0)] {
            for (random, ranks) in [("True", 1), ("False", 2)] {
                let typed = [
                    format!("++workload.checkpoint.randomize_tensor={random}"),
                    "++workload.model.model_size=1024".into(),
                    format!("++workload.model.optimization_groups={groups}"),
                    format!("++workload.model.num_layers={layers}"),
                    format!("++workload.model.parallelism.zero_stage={zero}"),
                    "++workload.model.layer_parameters=[16]".into(),
                    format!("++workload.model.parallelism.tensor={ranks}"),
                    format!("--ranks={ranks}"),
                ];
                let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
                let epochs = ["++workload.train.epochs=8", "++workload.checkpoint.epochs_between_checkpoints=2"];
                let checkpoint = ["++workload.workflow.checkpoint=True"];
                let holds = [
                    Files("checkpoints", "", 8 / 2 * (files * ranks + common)),
                    // After sixteen steps of one rank, or eight of two, the next one would be one more.
                    Folder(if ranks == 1 {
                        "checkpoints/global_epoch7_step17"
                    } else {
                        "checkpoints/global_epoch7_step9"
                    }),
                    Files(
                        "checkpoints/global_epoch1_step17",
                        "optim_states.pt",
                        if ranks == 1 && framework == PYTORCH { 1 } else { 0 },
                    ),
                ];
                let name = format!("epochs-{}-{layers}-{zero}-{ranks}", framework[0].len());
                row(&name, &[&words(&[BOTH, framework, &checkpoint, &epochs, &typed])], &holds);
            }
        }
    }
}

#[test]
fn checkpoints_of_steps_are_counted_within_an_epoch() {
    let steps = ["++workload.checkpoint.steps_between_checkpoints=2", "++workload.workflow.checkpoint=True"];
    let holds = [
        Files("checkpoints", "model_states-0.pt", 16 / 2 * 8),
        Folder("checkpoints/global_epoch1_step2"),
        Folder("checkpoints/global_epoch8_step16"),
        Steps(16),
        Keys("run/0_per_epoch_stats.json", &["8/save_ckpt8/duration", "8/save_ckpt8/throughput", "8/block8/duration"]),
    ];
    row("steps", &[&words(&[BOTH, &["++workload.train.epochs=8"], &steps])], &holds);
    let none = ["++workload.checkpoint.steps_between_checkpoints=0", "++workload.workflow.checkpoint=True"];
    row("no-steps", &[&words(&[BOTH, &["++workload.train.epochs=2"], &none])], &[Files("checkpoints", "", 0)]);
}

#[test]
fn checkpoint_runs_have_the_memory_section() {
    let only = [
        "++workload.workflow.checkpoint=True",
        "++workload.workflow.generate_data=False",
        "++workload.workflow.train=False",
    ];
    let counts = ["++workload.checkpoint.num_checkpoints_write=2", "++workload.checkpoint.num_checkpoints_read=2"];
    let ones = ["++workload.checkpoint.randomize_tensor=False"];
    for ksm in [
        &["++workload.checkpoint.ksm={}"][..],
        &["++workload.checkpoint.ksm.high_ram_trigger=25.5", "++workload.checkpoint.ksm.await_time=100"],
        &[],
    ] {
        let holds = [
            Files("checkpoints", "model_states-0.pt", 2),
            Folder("checkpoints/global_epoch1_step2"),
            Keys(
                "run/summary.json",
                &[
                    "metric/save_checkpoint_io_mean_GB_per_second",
                    "metric/save_checkpoint_io_stdev_GB_per_second",
                    "metric/save_checkpoint_duration_mean_seconds",
                    "metric/save_checkpoint_duration_stdev_seconds",
                    "metric/load_checkpoint_io_mean_GB_per_second",
                    "metric/load_checkpoint_duration_mean_seconds",
                    "metric/checkpoint_size_GB",
                ],
            ),
            Keys("run/0_per_epoch_stats.json", &["1/save_ckpt1/duration", "1/load_ckpt2/throughput"]),
        ];
        row("ksm", &[&words(&[&only, &counts, &ones, ksm])], &holds);
    }
}

#[test]
fn every_number_of_threads_and_every_context_trains() {
    let small = ["++workload.dataset.num_files_train=8", "++workload.dataset.num_files_eval=8"];
    for framework in [TENSORFLOW, PYTORCH] {
        for threads in ["0", "1", "2"] {
            let threads = format!("++workload.reader.read_threads={threads}");
            row("threads", &[&words(&[BOTH, framework, ONE_EPOCH, &small, &[&threads]])], &[Steps(2)]);
        }
    }
    for (threads, context) in [(0, "None"), (1, "fork"), (2, "spawn"), (2, "forkserver")] {
        let threads = format!("++workload.reader.read_threads={threads}");
        let context = format!("++workload.reader.multiprocessing_context={context}");
        row("context", &[&words(&[BOTH, PYTORCH, ONE_EPOCH, &small, &[&threads, &context]])], &[Steps(2)]);
    }
}

#[test]
fn every_format_trains_with_every_loader() {
    let dali = [
        &["++workload.framework=tensorflow", "++workload.reader.data_loader=dali"][..],
        &["++workload.framework=pytorch", "++workload.reader.data_loader=dali"],
    ];
    for format in FORMATS.iter().chain(&["csv"]) {
        for (number, loader) in [TENSORFLOW, PYTORCH, dali[0], dali[1]].into_iter().enumerate() {
            if *format == "tfrecord" && number > 0 {
                continue;
            }
            for files in [16, 17] {
                let kind = format!("++workload.dataset.format={format}");
                let files = format!("++workload.dataset.num_files_train={files}");
                let one = ["++workload.reader.read_threads=1", &kind, &files];
                row(&format!("train-{format}-{number}"), &[&words(&[BOTH, loader, ONE_EPOCH, &one])], &[Steps(4)]);
            }
        }
    }
}

#[test]
fn uneven_numbers_of_samples_end() {
    for loader in [PYTORCH, TENSORFLOW] {
        for (files, batch) in [(13, 4), (24, 4), (25, 4), (145, 16)] {
            for ranks in [1, 2, 3] {
                let files_key = format!("++workload.dataset.num_files_train={files}");
                let batch_key = format!("++workload.reader.batch_size={batch}");
                let ranks_option = format!("--ranks={ranks}");
                let typed = [&files_key, &batch_key, &ranks_option, "++workload.train.epochs=3"];
                let steps = [Steps(files / batch / ranks), Number("run/summary.json", "epochs", 3.0)];
                row("uneven", &[&words(&[BOTH, loader, &typed])], &steps);
            }
        }
    }
}

#[test]
fn every_distribution_of_times_is_taken() {
    for keys in [
        &["type=uniform", "min=0.001", "max=0.002"][..],
        &["type=normal", "mean=0.001", "stdev=0.001"],
        &["type=gamma", "shape=1.0", "scale=0.001"],
        &["type=exponential", "scale=0.001"],
        &["type=poisson", "lam=0.001"],
        &["mean=0.001"],
        &["mean=0.001", "stdev=0.001"],
    ] {
        let keys: Vec<String> = keys.iter().map(|key| format!("++workload.train.computation_time.{key}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let evaluation = ["++workload.evaluation.eval_time=0.001"];
        row("times", &[&[BOTH, ONE_EPOCH, &evaluation, &keys].concat()], &[Steps(16)]);
    }
}

/// The arguments of the original's tests of shapes in addition to the shape: eight files, two epochs, everything in one
/// directory.
const SHAPES: &[&str] = &[
    "++workload.framework=pytorch",
    "++workload.reader.data_loader=pytorch",
    "++workload.workflow.generate_data=True",
    "++workload.output.folder=run",
    "++workload.dataset.data_folder=data",
    "++workload.dataset.num_files_train=8",
    "++workload.dataset.num_files_eval=0",
    "++workload.dataset.num_subfolders_train=0",
    "++workload.dataset.num_subfolders_eval=0",
    "++workload.workflow.evaluation=False",
    "++workload.workflow.train=True",
    "++workload.train.epochs=2",
];

const ELEMENTS: &[(&str, u64)] = &[("float32", 4), ("int8", 1), ("float16", 2)];
const DIMENSIONS: &[(&str, u64)] = &[("[3,8]", 24), ("[3,8,5]", 120), ("[3,8,5,2]", 240)];

fn shaped(name: &str, format: &str, element: &str, dims: &str, more: &[&str], expected: &[Expectation]) {
    let typed = [
        format!("++workload.dataset.format={format}"),
        format!("++workload.dataset.record_element_type={element}"),
        format!("++workload.dataset.record_dims={dims}"),
    ];
    let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
    row(name, &[&words(&[SHAPES, &typed, more])], expected);
}

#[test]
fn samples_of_many_dimensions_have_their_bytes() {
    for (element, width) in ELEMENTS {
        for (dims, numbers) in DIMENSIONS {
            let bytes = numbers * width;
            shaped("dims-npy", "npy", element, dims, &[], &[Bytes("data/train/img_0_of_8.npy", 128 + bytes), Steps(2)]);
            shaped("dims-npz", "npz", element, dims, &[], &[Bytes("data/train/img_0_of_8.npz", 498 + bytes), Steps(2)]);
            shaped("dims-csv", "csv", element, dims, &[], &[Files("data/train", ".csv", 8), Steps(2)]);
            shaped("dims-tfrecord", "tfrecord", element, dims, TENSORFLOW, &[Files("data/index", ".idx", 8), Steps(2)]);
            for samples in [1, 2, 3] {
                let key = format!("++workload.dataset.num_samples_per_file={samples}");
                let holds = [
                    Bytes("data/train/img_0_of_8.indexed_binary", bytes * samples),
                    Bytes("data/train/img_0_of_8.indexed_binary.sz.idx", 8 * samples),
                    Steps(2 * samples),
                ];
                shaped("dims-indexed", "indexed_binary", element, dims, &[&key], &holds);
            }
        }
    }
}

#[test]
fn images_have_two_dimensions_or_are_refused() {
    for format in ["png", "jpeg"] {
        for (element, _) in ELEMENTS {
            shaped("dims-image", format, element, "[5,9]", &[], &[Files("data/train", ending(format), 8), Steps(2)]);
        }
        let folder = Folder::new("original-image-dims");
        let typed = [format!("++workload.dataset.format={format}"), "++workload.dataset.record_dims=[2,3,4]".into()];
        let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        let output = run(&folder, &[SHAPES, &typed].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("two dimensions"), "{}", stderr(&output));
    }
}

/// A record of several data sets loses its first dimension if that is one after the division.
#[test]
fn hdf5_shapes_match_the_original() {
    for (element, width) in ELEMENTS {
        for (dims, part) in [("[3,8]", &[1, 8][..]), ("[3,8,5]", &[1, 8, 5]), ("[3,8,5,2]", &[1, 8, 5, 2])] {
            let folder = Folder::new("original-hdf5");
            let typed = [
                "++workload.dataset.format=hdf5".to_string(),
                format!("++workload.dataset.record_element_type={element}"),
                format!("++workload.dataset.record_dims={dims}"),
                "++workload.dataset.hdf5.num_dset_per_record=3".into(),
                "++workload.reader.transformed_record_dims=[7,3]".into(),
                "++workload.reader.transformed_record_element_type=float32".into(),
            ];
            let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
            let output = run(&folder, &words(&[SHAPES, &typed]));
            assert!(output.status.success(), "{dims}: {}", stderr(&output));
            let file = hdf5_metno::File::open(folder.path().join("data/train/img_0_of_8.hdf5")).unwrap();
            let mut names = file.member_names().unwrap();
            names.sort();
            assert_eq!(names, ["labels", "records_0", "records_1", "records_2"]);
            for number in 0..3 {
                let records = file.dataset(&format!("records_{number}")).unwrap();
                assert_eq!(
                    (records.shape().as_slice(), records.dtype().unwrap().size() as u64),
                    (part, *width),
                    "{dims}"
                );
            }
        }
    }
}
