//! Tests a traced run of the benchmark: its trace agrees with the benchmark's own results.

use std::fs;
use std::path::Path;
use std::process::Command;

use dlio_tests::artefacts;
use dlio_tests::needs::needs;
use dlio_tests::sandbox::Sandbox;

/// The utilization of each epoch: computing, from the end of the first step to the end of the last.
const AU: &str = "
    SELECT block.epoch, 100.0 * sum(step.dur) / (max(step.ts + step.dur) - min(first.ts + first.dur)) AS au
    FROM events block
    JOIN events first ON first.name = 'compute' AND first.step = 0
        AND first.ts >= block.ts AND first.ts < block.ts + block.dur
    JOIN events step ON step.name = 'compute' AND step.step > 0
        AND step.ts >= block.ts AND step.ts < block.ts + block.dur
    WHERE block.name = 'block'
    GROUP BY block.epoch ORDER BY block.epoch";

const BYTES: &str = "SELECT 0 AS zero, sum(bytes) AS bytes FROM events
    WHERE name IN ('read', 'pread') AND file LIKE '%/data/unet3d/train/%'";

const STEPS: &str = "SELECT epoch, count(DISTINCT step) AS steps FROM events
    WHERE name = 'fetch' GROUP BY epoch ORDER BY epoch";

/// Returns the second column of the analyzer's output.
fn query_rows(trace: &Path, sql: &str) -> Vec<f64> {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = command.arg(trace).args(["--sql", sql, "--format", "csv"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    message.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse().unwrap()).collect()
}

/// Returns the numbers of a list in summary.json.
fn numbers(summary: &str, key: &str) -> Vec<f64> {
    let (_, list) = summary.split_once(&format!("\"{key}\": [")).unwrap();
    let list = list.split(']').next().unwrap();
    list.split(',').map(|number| number.trim().parse().unwrap()).collect()
}

fn agrees(batch: u64, samples_read: f64) {
    let sandbox = Sandbox::new(&format!("benchmark-{batch}")).unwrap();
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    let output = command
        .args(["bench", "workload=unet3d", "--trace", "++hydra.run.dir=run"])
        .args(["++workload.dataset.num_files_train=16", "++workload.dataset.record_length_bytes=2097152"])
        .args(["++workload.dataset.record_length_bytes_stdev=0", "++workload.train.epochs=2"])
        .arg(format!("++workload.reader.batch_size={batch}"))
        .arg("++workload.train.computation_time=0.05")
        .env("DLIO_LIB", artefacts::library().unwrap())
        .current_dir(sandbox.root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = sandbox.root().join("run");
    let own = numbers(&fs::read_to_string(run.join("summary.json")).unwrap(), "train_au_percentage");
    let traced = query_rows(&run.join("trace"), AU);
    assert_eq!((own.len(), traced.len()), (2, 2));
    for (own, traced) in own.iter().zip(&traced) {
        assert!((own - traced).abs() < 1.0, "AU of the benchmark {own}, of its trace {traced}");
    }
    let file = fs::metadata(sandbox.root().join("data/unet3d/train/img_00_of_16.npz")).unwrap().len();
    let steps = samples_read / batch as f64;
    assert_eq!(query_rows(&run.join("trace"), STEPS), [steps, steps]);
    assert_eq!(query_rows(&run.join("trace"), BYTES), [2.0 * samples_read * file as f64]);
}

#[test]
fn trace_matches_the_benchmarks_results() {
    agrees(4, 16.0);
}

#[test]
fn samples_without_a_full_batch_are_not_read() {
    agrees(7, 14.0);
}

/// Barriers of each rank, in the order of ranks.
const BARRIERS: &str = "SELECT rank, count(*) AS barriers FROM events
    WHERE name = 'barrier' AND cat = 'communication' GROUP BY rank ORDER BY rank";

/// Ranks whose workers read.
const READERS: &str = "SELECT 0 AS zero, count(DISTINCT rank) AS ranks FROM events WHERE name = 'reader.read'";

/// Returns the trace of a run of three ranks, started by a launcher with its arguments.
fn trace_of_ranks(program: &str, before: &[&str], more: &[&str]) {
    let sandbox = Sandbox::new(&format!("benchmark-ranks-{}", before.len())).unwrap();
    let mut command = Command::new(program);
    command.args(before).args(["bench", "workload=unet3d", "--trace", "++hydra.run.dir=run"]).args(more);
    command.args(["++workload.dataset.num_files_train=24", "++workload.dataset.record_length_bytes=10000"]);
    command.args(["++workload.dataset.record_length_bytes_stdev=0", "++workload.train.epochs=2"]);
    command.args(["++workload.reader.batch_size=4", "++workload.train.computation_time=0.01"]);
    if let Some(library) = artefacts::mpi_library() {
        command.env("DLIO_MPI_LIB", library);
    }
    let output = command.env("DLIO_LIB", artefacts::library().unwrap()).current_dir(sandbox.root()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(printed.matches("Findings").count(), 1, "one summary: {printed}");
    let trace = sandbox.root().join("run/trace");
    // Two steps in each of two epochs.
    assert_eq!(query_rows(&trace, BARRIERS), [4.0, 4.0, 4.0]);
    assert_eq!(query_rows(&trace, READERS), [3.0]);
}

#[test]
fn trace_of_ranks_names_them() {
    let dlio = artefacts::command("dlio").unwrap();
    trace_of_ranks(dlio.to_str().unwrap(), &[], &["--ranks=3"]);
    if !needs("mpirun") {
        return;
    }
    let before = ["--allow-run-as-root", "--oversubscribe", "-n", "3", dlio.to_str().unwrap()];
    trace_of_ranks("mpirun", &before, &[]);
    trace_of_ranks("mpirun", &before, &["--communicator=sockets"]);
}
