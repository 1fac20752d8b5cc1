//! Tests the benchmark's requests to an object store: its trace, its own results and the store's counts agree, epoch
//! by epoch.

#[path = "../../benchmark/tests/store/mod.rs"]
mod store;

use std::fs;
use std::path::Path;
use std::process::Command;

use dlio_tests::artefacts;
use dlio_tests::sandbox::Sandbox;
use serde_json::Value;
use store::{Fault, Seen, Store};

/// Returns rows of the analyzer's output, as numbers.
fn query_rows(trace: &Path, sql: &str) -> Vec<Vec<i64>> {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = command.arg(trace).args(["--sql", sql, "--format", "csv"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let number =
        |word: &str| if word.is_empty() { 0 } else { word.parse().unwrap_or_else(|_| panic!("{sql}: {text}")) };
    text.lines().skip(1).map(|line| line.split(',').map(number).collect()).collect()
}

fn bench(store: &Store, sandbox: &Sandbox, run: &str, more: &[&str]) -> std::path::PathBuf {
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    let output = command
        .args([
            "bench",
            "workload=unet3d",
            "++workload.storage.storage_type=s3",
            "++workload.storage.storage_root=bucket",
        ])
        .args(["++workload.dataset.data_folder=data", "++workload.dataset.num_files_train=16"])
        .args(["++workload.dataset.record_length_bytes=200000", "++workload.dataset.record_length_bytes_stdev=0"])
        .args(["++workload.reader.batch_size=2", "++workload.train.computation_time=0.001"])
        .args(["++workload.workflow.checkpoint=false", &format!("++hydra.run.dir={run}")])
        .args(more)
        .envs(store.variables())
        .env("DLIO_LIB", artefacts::library().unwrap())
        .current_dir(sandbox.root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    sandbox.root().join(run)
}

fn of_data(seen: &Seen) -> bool {
    seen.method == "GET" && seen.key.contains("/train/")
}

/// Returns GETs and their bytes in each epoch.
fn reported(run: &Path) -> Vec<Vec<i64>> {
    let summary: Value = serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap();
    let of = |epoch: &Value| {
        ["get_requests", "bytes_read"].iter().map(|name| epoch["object"][name].as_i64().unwrap()).collect()
    };
    summary["epoch"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn trace_report_and_store_agree_on_requests() {
    for (workers, ranks) in [(0, 1), (2, 1), (2, 2)] {
        let (store, sandbox) = (Store::start(), Sandbox::new(&format!("objects-{workers}-{ranks}")).unwrap());
        bench(&store, &sandbox, "made", &["++workload.workflow.generate_data=true", "++workload.workflow.train=false"]);
        store.forget();
        // Refused, cut within a body, cut before a response, redirected: each is one more request.
        store.plan("GET", "/img_03", 2, Fault::Answer(503, "SlowDown", Vec::new()));
        store.plan("GET", "/img_05", 1, Fault::CutAt(70_000));
        store.plan("GET", "/img_07", 1, Fault::Reset);
        store.plan("GET", "/img_09", 1, Fault::SentOn);
        let (workers, ranks) = (format!("++workload.reader.read_threads={workers}"), format!("--ranks={ranks}"));
        let run = bench(&store, &sandbox, "run", &["--trace", "++workload.train.epochs=3", &workers, &ranks]);
        assert_eq!(store.unmet(), 0);
        let trace = run.join("trace");
        // The time of an epoch, over all ranks.
        let epochs = query_rows(
            &trace,
            "select epoch, min(ts), max(ts + dur) from events where name = 'epoch' group by epoch order by epoch",
        );
        let gets = "select count(*), coalesce(sum(bytes), 0) from events
            where layer = 'object' and name = 'object.get' and file like 's3://bucket/data/train/%'";
        let epoch = |times: &Vec<i64>| {
            query_rows(&trace, &format!("{gets} and ts >= {} and ts < {}", times[1], times[2])).swap_remove(0)
        };
        let traced: Vec<Vec<i64>> = epochs.iter().map(epoch).collect();
        let served = |times: &Vec<i64>| {
            let seen: Vec<Seen> = store.seen().into_iter().filter(of_data).collect();
            let within = || seen.iter().filter(|seen| seen.at >= times[1] && seen.at < times[2]);
            vec![within().count() as i64, within().map(|seen| seen.sent as i64).sum()]
        };
        let served: Vec<Vec<i64>> = epochs.iter().map(served).collect();
        assert_eq!(traced, served, "the trace and the store");
        assert_eq!(traced, reported(&run), "the trace and the report");
        assert_eq!(traced.iter().map(|epoch| epoch[0]).sum::<i64>(), 3 * 16 + 5);
        whole(&store, &trace);
        // A broken body counts with the bytes that arrived; the request that resumes gives its start.
        let resumed = "select pos, bytes from events where name = 'object.get' and pos > 0";
        assert_eq!(query_rows(&trace, resumed).len(), 1);
        let short = "select bytes from events where name = 'object.get' and bytes < requested and bytes > 0";
        assert_eq!(query_rows(&trace, short), [[70_000]]);
    }
}

/// Checks all requests of a run by method, since its first traced event: before, the command checks whether data and
/// store exist.
fn whole(store: &Store, trace: &Path) {
    let gets = "select count(*), coalesce(sum(bytes), 0) from events where name = 'object.get'";
    let begun = query_rows(trace, "select min(ts) from events")[0][0];
    let of_run = |seen: &Seen| !seen.key.is_empty() && seen.at >= begun;
    let seen: Vec<Seen> = store.seen().into_iter().filter(of_run).collect();
    let of = |method: &str| seen.iter().filter(|seen| seen.method == method).count() as i64;
    let sent: usize = seen.iter().filter(|seen| seen.method == "GET").map(|seen| seen.sent).sum();
    assert_eq!(query_rows(trace, gets), [[of("GET"), sent as i64]]);
    let others = "select count(*) filter (where name = 'object.head'), count(*) filter (where name in ('object.put', 'object.part')),
        count(*) filter (where name in ('object.begin', 'object.complete')),
        count(*) filter (where name in ('object.delete', 'object.abort')) from events";
    assert_eq!(query_rows(trace, others), [[of("HEAD"), of("PUT"), of("POST"), of("DELETE")]]);
}

#[test]
fn multipart_checkpoints_have_positions_and_bytes() {
    let (store, sandbox) = (Store::start(), Sandbox::new("objects-checkpoint").unwrap());
    let saving = [
        "--trace",
        "++workload.workflow.generate_data=true",
        "++workload.workflow.checkpoint=true",
        "++workload.checkpoint.checkpoint_folder=ckpt",
        "++workload.checkpoint.checkpoint_after_epoch=1",
        "++workload.model.model_size_bytes=30000000",
        "++workload.train.epochs=1",
        "++workload.storage.storage_options.part_size=8388608",
        "++workload.storage.storage_options.multipart_threshold=8388608",
    ];
    let run = bench(&store, &sandbox, "run", &saving);
    let trace = run.join("trace");
    whole(&store, &trace);
    let written = store.seen().iter().filter(|seen| seen.method == "PUT").map(|seen| seen.received as i64).sum::<i64>();
    let moved = "select sum(bytes) from events where name in ('object.put', 'object.part')";
    assert_eq!(query_rows(&trace, moved), [[written]]);
    // The parts of an object are consecutive.
    let parts =
        "select count(*), min(pos), max(pos + bytes), sum(bytes) from events where name = 'object.part' group by file";
    for part in query_rows(&trace, parts) {
        assert!(part[0] >= 4 && part[1] == 0 && part[2] == part[3], "{part:?}");
    }
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = command.arg(&trace).args(["--format", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let places = report["storage"].as_array().unwrap();
    let bucket = places.iter().find(|place| place["place"] == "s3://bucket").expect("the bucket is a place of storage");
    assert_eq!(bucket["bytes_written"], written);
    assert_eq!(bucket["bytes_read"], store.sent());
    let files = report["files"].as_array().unwrap().iter().filter_map(|file| file["path"].as_str());
    assert!(files.clone().any(|path| path.starts_with("s3://bucket/ckpt/")), "{:?}", files.collect::<Vec<_>>());
}
