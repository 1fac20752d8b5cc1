//! Ranks, whoever started them: the same files and figures, the same ends.

mod program;

use program::{Folder, SOON, command, dlio, stderr, stdout, until};
use std::collections::BTreeMap;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

/// Variables of launchers for one rank of many; all on one machine or, as far as they say, on several.
type Variables = fn(u64, u64) -> Vec<(&'static str, String)>;

const LAUNCHERS: &[(&str, Variables)] = &[
    ("Open MPI", |rank, size| {
        let of = [("OMPI_COMM_WORLD_RANK", rank), ("OMPI_COMM_WORLD_SIZE", size), ("OMPI_COMM_WORLD_LOCAL_SIZE", size)];
        of.map(|(name, value)| (name, value.to_string())).into()
    }),
    ("MPICH on several machines", |rank, size| {
        [("PMI_RANK", rank), ("PMI_SIZE", size)].map(|(name, value)| (name, value.to_string())).into()
    }),
    ("Slurm", |rank, size| {
        let of = [("SLURM_PROCID", rank), ("SLURM_STEP_NUM_TASKS", size), ("SLURM_STEP_TASKS_PER_NODE", size)];
        of.map(|(name, value)| (name, value.to_string())).into_iter().chain([("SLURM_JOB_ID", "7".into())]).collect()
    }),
    ("torchrun", |rank, size| {
        let of = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", size), ("LOCAL_WORLD_SIZE", size)];
        let place = [("MASTER_ADDR", "localhost".into()), ("MASTER_PORT", "29500".into())];
        of.map(|(name, value)| (name, value.to_string())).into_iter().chain(place).collect()
    }),
];

fn small(samples: u64, batch: u64, more: &[&str]) -> Vec<String> {
    let files = format!("++workload.dataset.num_files_train={samples}");
    let batch = format!("++workload.reader.batch_size={batch}");
    let typed = [
        "bench",
        "workload=unet3d",
        "++workload.dataset.data_folder=data",
        &files,
        &batch,
        "++workload.dataset.record_length_bytes=10000",
        "++workload.dataset.record_length_bytes_stdev=0",
        "++workload.reader.read_threads=1",
        "++workload.train.epochs=2",
        "++workload.train.computation_time=0.001",
        "++workload.model.model_size_bytes=100000",
        "++workload.checkpoint.checkpoint_folder=checkpoints",
        "++workload.checkpoint.checkpoint_after_epoch=1",
    ];
    typed.iter().chain(more).map(ToString::to_string).collect()
}

const GENERATE: &str = "++workload.workflow.generate_data=true";

fn start_rank(folder: &Folder, typed: &[String], variables: Vec<(&'static str, String)>) -> Child {
    let mut command = command(folder, &typed.iter().map(String::as_str).collect::<Vec<_>>());
    command.envs(variables).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn launched(folder: &Folder, typed: &[String], ranks: u64, variables: Variables) -> Vec<Output> {
    // The last one first: rank 0 may be late.
    let mut started: Vec<Child> =
        (0..ranks).rev().map(|rank| start_rank(folder, typed, variables(rank, ranks))).collect();
    started.reverse();
    started.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

/// What must be the same however ranks are started: the files of the run, and what of its numbers is no time.
fn left(folder: &Folder, ranks: u64) -> (Vec<String>, BTreeMap<String, String>) {
    let summary = folder.json("run/summary.json");
    let keys = ["num_accelerators", "num_hosts", "status", "missing", "epochs", "host_memory_GB", "host_cpu_count"];
    let mut facts: BTreeMap<String, String> =
        keys.iter().map(|key| (key.to_string(), summary[key].to_string())).collect();
    for epoch in 0..2 {
        facts.insert(format!("bytes of {epoch}"), summary["epoch"][epoch]["bytes_read"].to_string());
    }
    facts.insert("checkpoint".into(), summary["metric"]["checkpoint_size_GB"].to_string());
    for rank in 0..ranks {
        let output = folder.json(&format!("run/{rank}_output.json"));
        let steps = output["1"]["bytes"]["block1"].as_array().unwrap().len();
        facts.insert(format!("steps of {rank}"), steps.to_string());
    }
    (folder.files(""), facts)
}

#[test]
fn ranks_of_every_launcher_leave_what_ranks_of_ones_own_leave() {
    for (samples, batch, ranks) in [(13, 4, 2), (25, 4, 3), (145, 16, 5)] {
        let own = Folder::new("ranks-own");
        let typed = small(samples, batch, &[GENERATE]);
        let with_ranks = [&typed[..], &[format!("--ranks={ranks}")]].concat();
        let output = dlio(&own, &with_ranks.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{}", stderr(&output));
        let expected = left(&own, ranks);
        for (name, variables) in LAUNCHERS {
            let folder = Folder::new("ranks-launched");
            let outputs = launched(&folder, &typed, ranks, *variables);
            for (rank, output) in outputs.iter().enumerate() {
                assert!(output.status.success(), "{name}, rank {rank}: {}", stderr(output));
                assert_eq!(stdout(output).is_empty(), rank > 0, "{name}, rank {rank}: {}", stdout(output));
            }
            assert_eq!(left(&folder, ranks), expected, "{name}, {samples} samples, {ranks} ranks");
        }
    }
}

#[test]
fn uneven_samples_end_with_any_number_of_ranks() {
    for (samples, batch) in [(13, 4), (24, 4), (25, 4), (145, 16)] {
        for ranks in [1, 2, 3, 5, 8] {
            let folder = Folder::new("ranks-uneven");
            let typed = small(samples, batch, &[GENERATE]);
            let with_ranks = [&typed[..], &[format!("--ranks={ranks}")]].concat();
            let output = dlio(&folder, &with_ranks.iter().map(String::as_str).collect::<Vec<_>>());
            let steps = samples / batch / ranks;
            if steps == 0 {
                assert_eq!(output.status.code(), Some(2), "{samples}, {ranks}: {}", stderr(&output));
                continue;
            }
            assert!(output.status.success(), "{samples}, {ranks}: {}", stderr(&output));
            for rank in 0..ranks {
                let of_rank = folder.json(&format!("run/{rank}_output.json"));
                assert_eq!(of_rank["2"]["bytes"]["block1"].as_array().unwrap().len() as u64, steps);
            }
        }
    }
}

#[test]
fn what_is_refused_is_said_once_and_by_all_exit_codes() {
    let folder = Folder::new("ranks-refused");
    let typed = small(8, 4, &[GENERATE, "++workload.reader.batchsize=9"]);
    for (name, variables) in LAUNCHERS {
        let outputs = launched(&folder, &typed, 2, *variables);
        assert!(outputs.iter().all(|output| output.status.code() == Some(2)), "{name}");
        assert!(stderr(&outputs[0]).contains("reader.batch_size") && stderr(&outputs[1]).is_empty(), "{name}");
        // Neither results nor the file they met at.
        assert!(folder.files("").is_empty(), "{:?}", folder.files(""));
    }
}

#[test]
fn ranks_that_were_started_for_different_runs_say_in_what() {
    let folder = Folder::new("ranks-disagree");
    let of = |rank: u64| vec![("PMI_RANK", rank.to_string()), ("PMI_SIZE", "2".into()), ("SLURM_JOB_ID", "1".into())];
    let first = start_rank(&folder, &small(8, 4, &[GENERATE]), of(0));
    let second = start_rank(&folder, &small(8, 2, &[GENERATE]), of(1));
    let (first, second) = (first.wait_with_output().unwrap(), second.wait_with_output().unwrap());
    assert_eq!((first.status.code(), second.status.code()), (Some(2), Some(2)));
    assert!(stderr(&first).is_empty(), "{}", stderr(&first));
    let printed = stderr(&second);
    assert!(printed.contains("rank 1 was started for another run") && printed.contains("`batch: 2,`"), "{printed}");
    assert!(folder.files("").is_empty());
}

#[test]
fn a_rank_that_is_alone_does_not_wait_for_ever() {
    let folder = Folder::new("ranks-alone");
    for (name, variables) in &LAUNCHERS[..2] {
        let typed = small(8, 4, &[GENERATE, "--barrier-timeout=1"]);
        let first = start_rank(&folder, &typed, variables(0, 3)).wait_with_output().unwrap();
        assert_eq!(first.status.code(), Some(4), "{name}");
        assert!(stderr(&first).contains("have not come within 1 s: rank 1, 2"), "{}", stderr(&first));
        let last = start_rank(&folder, &typed, variables(2, 3)).wait_with_output().unwrap();
        assert_eq!(last.status.code(), Some(4), "{name}");
        assert!(stderr(&last).contains("rank 2 has not found rank 0"), "{}", stderr(&last));
        assert!(folder.files("").is_empty(), "{:?}", folder.files(""));
    }
}

#[test]
fn a_launched_rank_that_is_killed_ends_the_run_and_is_named() {
    for (name, variables) in &LAUNCHERS[..2] {
        let folder = Folder::new("ranks-killed");
        let typed = small(24, 4, &[GENERATE, "++workload.train.computation_time=300"]);
        let mut children: Vec<Child> = (0..3).map(|rank| start_rank(&folder, &typed, variables(rank, 3))).collect();
        let log = folder.path().join("run/dlio.log");
        until("the ranks begin", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Starting block 1")));
        let killed = Instant::now();
        children[1].kill().unwrap();
        let outputs: Vec<Output> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        assert!(killed.elapsed() < SOON, "{name}: {:?}", killed.elapsed());
        let printed = stderr(&outputs[0]);
        assert!(printed.contains("rank 1 was killed, or crashed; it last began"), "{name}: {printed}");
        assert_eq!((outputs[0].status.code(), outputs[2].status.code()), (Some(4), Some(4)), "{name}");
        assert!(stderr(&outputs[2]).is_empty(), "{name}: {}", stderr(&outputs[2]));
        let summary = folder.json("run/summary.json");
        assert!(summary["error"].as_str().unwrap().contains("rank 1 was killed"), "{summary}");
    }
}

#[test]
fn under_mpirun_a_run_is_that_of_ranks_of_ones_own() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("without mpirun its own start is not tried: apt-get install openmpi-bin");
        return;
    }
    let (own, folder) = (Folder::new("ranks-own-mpirun"), Folder::new("ranks-mpirun"));
    let typed = small(24, 4, &[GENERATE]);
    let with_ranks = [&typed[..], &["--ranks=3".to_string()]].concat();
    assert!(dlio(&own, &with_ranks.iter().map(String::as_str).collect::<Vec<_>>()).status.success());
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["--allow-run-as-root", "--oversubscribe", "-n", "3", env!("CARGO_BIN_EXE_dlio")]);
    let output = mpirun.args(&typed).arg("++hydra.run.dir=run").current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(left(&folder, 3), left(&own, 3));
}
