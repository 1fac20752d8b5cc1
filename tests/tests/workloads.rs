//! Tests the way from a trace to a workload and back: a trace of the benchmark gives back its keys, and the workload
//! of a plain program does the same I/O as the program.
//!
//! Values independent of clocks are compared exactly; times only roughly, because hosts stall.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dlio_tests::sandbox::Sandbox;
use dlio_tests::{artefacts, home};
use serde_json::Value;

fn succeeded(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

fn dlio(folder: &Path) -> Command {
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    command.current_dir(folder).env("DLIO_LIB", artefacts::library().unwrap());
    command
}

fn analyze(folder: &Path) -> Command {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    command.current_dir(folder);
    command
}

/// Returns the values of a derived workload by their dotted keys, as written.
fn keys(yaml: &str) -> BTreeMap<String, String> {
    let (mut section, mut found) = (String::new(), BTreeMap::new());
    for line in yaml.lines().filter(|line| !line.starts_with('#')) {
        let value = line.split(" #").next().unwrap_or_default();
        let Some((key, value)) = value.split_once(':') else { continue };
        match line.starts_with(' ') {
            true => drop(found.insert(format!("{section}.{}", key.trim()), value.trim().to_string())),
            false => {
                section = key.to_string();
                found.insert(section.clone(), value.trim().to_string());
            }
        }
    }
    found
}

/// Runs a workload of the benchmark under the tracer and derives it from the trace.
fn derived(sandbox: &Sandbox, overrides: &[&str]) -> BTreeMap<String, String> {
    let generated = ["++workload.workflow.generate_data=true", "++workload.workflow.train=false"];
    let folder = sandbox.root();
    let trains = !overrides.contains(&"++workload.workflow.train=false");
    if trains {
        succeeded(dlio(folder).args(["bench", "--quiet", "++hydra.run.dir=made"]).args(overrides).args(generated));
    }
    succeeded(dlio(folder).args(["bench", "--quiet", "--trace", "++hydra.run.dir=run"]).args(overrides));
    succeeded(analyze(folder).args(["run/trace", "--workload", "job.yaml"]));
    // The benchmark reports no unknown key.
    succeeded(dlio(folder).args(["bench", "--cfg", "job", "workload=job.yaml"]));
    keys(&std::fs::read_to_string(folder.join("job.yaml")).unwrap())
}

fn number(keys: &BTreeMap<String, String>, key: &str) -> f64 {
    let value = keys.get(key).unwrap_or_else(|| panic!("no {key} in {keys:#?}"));
    value.parse().unwrap_or_else(|_| panic!("{key}: {value}"))
}

fn within(keys: &BTreeMap<String, String>, expected: &[(&str, f64)]) {
    for (key, expected) in expected {
        let found = number(keys, key);
        assert!((found - expected).abs() <= 0.05 * expected, "{key}: {found} instead of {expected}\n{keys:#?}");
    }
}

/// Asserts that a time is not below the requested one: sleeps are never shorter, and much longer if the host stalls.
fn not_below(keys: &BTreeMap<String, String>, key: &str, asked: f64) {
    let found = number(keys, key);
    assert!(found >= 0.95 * asked, "{key}: {found} instead of {asked}");
}

#[test]
fn volume_workload_round_trips() {
    let sandbox = Sandbox::new("back-unet3d").unwrap();
    let found = derived(
        &sandbox,
        &[
            "workload=unet3d",
            "++workload.dataset.num_files_train=56",
            "++workload.dataset.record_length_bytes=262144",
            "++workload.dataset.record_length_bytes_stdev=60000",
            "++workload.train.epochs=3",
            "++workload.train.computation_time=0.02",
            "++workload.checkpoint.checkpoint_after_epoch=1",
            "++workload.model.model_size_bytes=2000000",
        ],
    );
    within(
        &found,
        &[
            ("dataset.num_files_train", 56.0),
            ("dataset.num_samples_per_file", 1.0),
            ("reader.batch_size", 7.0),
            ("reader.read_threads", 4.0),
            ("train.epochs", 3.0),
            ("model.model_size_bytes", 2e6),
            ("checkpoint.checkpoint_after_epoch", 1.0),
            ("checkpoint.epochs_between_checkpoints", 2.0),
        ],
    );
    // The drawn number, which differs a little from the requested one.
    let made = sandbox.root().join("data/unet3d/train");
    let sizes: Vec<f64> =
        std::fs::read_dir(made).unwrap().map(|it| it.unwrap().metadata().unwrap().len() as f64).collect();
    let mean = sizes.iter().sum::<f64>() / 56.0;
    let spread = (sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 56.0).sqrt();
    within(&found, &[("dataset.record_length_bytes", mean), ("dataset.record_length_bytes_stdev", spread)]);
    for (key, expected) in [
        ("framework", "pytorch"),
        ("dataset.format", "npz"),
        ("reader.data_loader", "pytorch"),
        ("reader.file_shuffle", "seed"),
        ("workflow.checkpoint", "true"),
    ] {
        assert_eq!(found[key], expected, "{key}");
    }
    assert!(!found.contains_key("reader.profile"), "the reader of npz does it");
    not_below(&found, "train.computation_time", 0.02);
}

#[test]
fn record_workloads_round_trip() {
    for (name, files, samples, length, batch, threads) in
        [("resnet50", 8, 64, 20_000, 16, 2), ("cosmoflow", 48, 1, 300_000, 1, 4), ("bert", 4, 256, 2500, 8, 1)]
    {
        let sandbox = Sandbox::new(&format!("back-{name}")).unwrap();
        let workload = format!("workload={name}");
        let of = |key: &str, value: u64| format!("++workload.{key}={value}");
        let sized = [
            of("dataset.num_files_train", files),
            of("dataset.num_samples_per_file", samples),
            of("dataset.record_length_bytes", length),
            of("dataset.record_length_bytes_stdev", 0),
            of("reader.batch_size", batch),
            of("reader.read_threads", threads),
            of("train.epochs", 2),
            "++workload.train.total_training_steps=-1".into(),
        ];
        let mut overrides = vec![workload.as_str(), "++workload.train.computation_time=0.005"];
        overrides.extend([
            "++workload.checkpoint.steps_between_checkpoints=32",
            "++workload.model.model_size_bytes=1500000",
        ]);
        overrides.extend(sized.iter().map(String::as_str));
        let found = derived(&sandbox, &overrides);
        within(
            &found,
            &[
                ("dataset.num_files_train", files as f64),
                ("dataset.num_samples_per_file", samples as f64),
                ("dataset.record_length_bytes", length as f64),
                ("reader.batch_size", batch as f64),
                ("reader.read_threads", threads as f64),
                ("reader.transfer_size", 262_144.0),
                ("train.epochs", 2.0),
            ],
        );
        assert_eq!((&*found["framework"], &*found["dataset.format"]), ("tensorflow", "tfrecord"), "{name}");
        assert!(!found.contains_key("reader.profile"), "{name}: {found:#?}");
        not_below(&found, "train.computation_time", 0.005);
        if name == "bert" {
            within(&found, &[("checkpoint.steps_between_checkpoints", 32.0), ("model.model_size_bytes", 1.5e6)]);
        }
    }
}

#[test]
fn checkpoint_workload_round_trips() {
    let sandbox = Sandbox::new("back-checkpoints").unwrap();
    let found = derived(
        &sandbox,
        &[
            "workload=llama_7b",
            "++workload.workflow.train=false",
            "++workload.model.type=null",
            "++workload.model.num_layers=-1",
            "++workload.model.model_size_bytes=3000000",
            "++workload.checkpoint.num_checkpoints_write=3",
            "++workload.checkpoint.num_checkpoints_read=2",
            "++workload.checkpoint.time_between_checkpoints=0",
        ],
    );
    within(
        &found,
        &[
            ("model.model_size_bytes", 3e6),
            ("checkpoint.num_checkpoints_write", 3.0),
            ("checkpoint.num_checkpoints_read", 2.0),
        ],
    );
    assert_eq!((&*found["workflow.train"], &*found["checkpoint.fsync"]), ("false", "true"));
}

// ---- programs that know nothing of the benchmark --------------------------------------------------------------------

fn python() -> PathBuf {
    env::var_os("DLIO_TEST_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from)
}

fn job(sandbox: &Sandbox, name: &str) -> Command {
    let mut command = Command::new(python());
    command.current_dir(sandbox.root()).arg(home().join("jobs/plain").join(name)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Traces a job, derives its workload, runs that under the tracer, and returns how similar both are, by feature.
fn similarity(name: &str, spans: bool) -> (f64, BTreeMap<String, f64>) {
    let sandbox = Sandbox::new(&format!("alike-{name}-{spans}")).unwrap();
    let folder = sandbox.root();
    succeeded(job(&sandbox, name).args(["make", "own"]));
    let typed = job(&sandbox, name);
    let mut traced = dlio(folder);
    traced.args(["trace", "-o", "trace", "--"]).arg(python()).args(typed.get_args()).args(["run", "own"]);
    traced
        .args(spans.then_some("--spans"))
        .env("PYTHONPATH", home().join("../python"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    succeeded(&mut traced);
    succeeded(analyze(folder).args(["trace", "--workload", "job.yaml"]));
    let generated = ["++workload.workflow.generate_data=true", "++workload.workflow.train=false"];
    succeeded(dlio(folder).args(["bench", "--quiet", "workload=job.yaml", "++hydra.run.dir=made"]).args(generated));
    succeeded(dlio(folder).args(["bench", "--quiet", "workload=job.yaml", "--trace=again", "++hydra.run.dir=run"]));
    let compared = ["trace", "--compare", "again", "--similarity", "--format", "json"];
    let found: Value = serde_json::from_str(&succeeded(analyze(folder).args(compared))).unwrap();
    let features = found["features"].as_array().unwrap().iter();
    let difference = |it: &Value| (it["feature"].as_str().unwrap().to_string(), it["difference"].as_f64().unwrap());
    (found["cosine"].as_f64().unwrap(), features.map(difference).collect())
}

/// Metrics that depend on clocks.
const TIMED: [&str; 3] = ["io.s", "read.bandwidth", "write.bandwidth"];

#[test]
fn derived_workload_repeats_the_program() {
    for name in ["numpy_loader.py", "hdf5_samples.py", "csv_tables.py", "tfrecords.py", "image_folder.py"] {
        for spans in [true, false] {
            let (cosine, features) = similarity(name, spans);
            assert!((0.0..=1.0 + 1e-9).contains(&cosine));
            let off: Vec<_> =
                features.iter().filter(|(name, off)| !TIMED.contains(&name.as_str()) && **off > 0.15).collect();
            assert!(off.is_empty(), "{name}, spans: {spans}: {off:?}");
        }
    }
}

/// Returns sizes that most reads of the data set have, in ascending order.
fn usual_reads(folder: &Path) -> Vec<u64> {
    let sql = "select bytes, count(*) n from events where name = 'pread' and file like '%/train/%' and bytes > 0 \
               group by bytes having count(*) > 0.1 * (select count(*) from events where name = 'pread' and bytes > 0 \
               and file like '%/train/%') order by bytes";
    let said = succeeded(analyze(folder).args(["run/trace", "--sql", sql, "--format", "csv"]));
    said.lines().skip(1).filter_map(|line| line.split(',').next()?.parse().ok()).collect()
}

#[test]
fn scaled_applications_keep_their_shape() {
    let few = "++workload.dataset.num_samples_per_file=4";
    for (name, scale, more, reads) in [
        ("cosmic_tagger", "0.005", None, vec![2048, 6144]),
        ("dffn", "0.005", None, vec![100, 65_536]),
        ("candle", "0.02", None, vec![262_144]),
        ("imagenet_theta", "0.02", Some(few), vec![262_144]),
        ("cosmoflow_theta", "0.002", Some(few), vec![262_144]),
        ("climate_segmentation", "1", None, vec![500]),
    ] {
        let sandbox = Sandbox::new(&format!("paper-{name}")).unwrap();
        let folder = sandbox.root();
        let mut bench = dlio(folder);
        bench.args(["bench", "--quiet", "--trace", "++hydra.run.dir=run", "++workload.train.computation_time=0"]);
        bench.args([format!("workload={name}"), format!("++workload.scale={scale}")]).args(more);
        succeeded(bench.arg("++workload.train.epochs=1"));
        let found = usual_reads(folder);
        assert!(reads.iter().all(|size| found.contains(size)), "{name}: {found:?} without {reads:?}");
    }
}
