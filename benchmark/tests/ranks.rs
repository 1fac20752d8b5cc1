//! Ranks behave identically however they are started: files, numbers, ends.

mod program;
mod store;

use program::launchers::{LAUNCHERS, Variables, mpi_library, mpirun};
use program::{Folder, GENERATE, SOON, command, dlio, stderr, stdout, until};
use std::collections::BTreeMap;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
use store::Store;

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

/// Returns everything that must not depend on how ranks are started: the files of the run, and its numbers except
/// times.
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
fn all_launchers_give_equal_results() {
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

/// Returns the samples that were requested from a store, with repetitions.
fn asked_for(store: &Store) -> Vec<String> {
    let is_sample = |seen: &store::Seen| seen.method == "GET" && seen.key.contains("/train/img_");
    let mut keys: Vec<String> = store.seen().into_iter().filter(is_sample).map(|seen| seen.key).collect();
    keys.sort();
    keys
}

#[test]
fn each_sample_is_read_once_per_epoch() {
    let store = Store::start();
    for (samples, batch) in [(13, 4), (24, 4), (25, 4), (145, 16)] {
        let data = format!("++workload.dataset.data_folder=data-{samples}");
        let more = [
            "++workload.storage.storage_type=s3",
            "++workload.storage.storage_root=bucket",
            "++workload.workflow.checkpoint=false",
            "++workload.train.epochs=1",
            data.as_str(),
        ];
        let typed = small(samples, batch, &more);
        let made = Folder::new("ranks-once");
        let output =
            dlio_of(&store, &made, &[&words(&typed)[..], &[GENERATE, "++workload.workflow.train=false"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        for ranks in [1, 2, 3, 5, 8] {
            let steps = samples / batch / ranks;
            if steps == 0 {
                continue;
            }
            store.forget();
            let folder = Folder::new("ranks-once");
            let count = format!("--ranks={ranks}");
            let output = dlio_of(&store, &folder, &[&words(&typed)[..], &[count.as_str()]].concat());
            assert!(output.status.success(), "{samples}, {ranks}: {}", stderr(&output));
            let asked = asked_for(&store);
            let mut once = asked.clone();
            once.dedup();
            // None twice, and as many as fit into whole batches for all ranks.
            assert_eq!(
                (asked.len(), once.len()),
                ((steps * batch * ranks) as usize, asked.len()),
                "{samples}, {ranks}"
            );
            for talk in TALKS {
                let folder = Folder::new("ranks-once-mpirun");
                let launched = [&words(&typed)[..], &[talk, "++hydra.run.dir=run"]].concat();
                let Some(mut mpirun) = mpirun(&folder, ranks, &launched) else { break };
                store.forget();
                let output = mpirun.envs(store.variables()).output().unwrap();
                assert!(output.status.success(), "{talk}, {samples}, {ranks}: {}", stderr(&output));
                assert_eq!(asked_for(&store), asked, "{talk}, {samples}, {ranks}");
            }
        }
    }
}

fn dlio_of(store: &Store, folder: &Folder, typed: &[&str]) -> Output {
    command(folder, typed).envs(store.variables()).output().unwrap()
}

#[test]
fn refusal_is_printed_once_and_all_ranks_fail() {
    let folder = Folder::new("ranks-refused");
    let typed = small(8, 4, &[GENERATE, "++workload.reader.batchsize=9"]);
    for (name, variables) in LAUNCHERS {
        let outputs = launched(&folder, &typed, 2, *variables);
        assert!(outputs.iter().all(|output| output.status.code() == Some(2)), "{name}");
        assert!(stderr(&outputs[0]).contains("reader.batch_size") && stderr(&outputs[1]).is_empty(), "{name}");
        // Neither results nor the address file.
        assert!(folder.files("").is_empty(), "{:?}", folder.files(""));
    }
}

#[test]
fn different_runs_report_their_difference() {
    let folder = Folder::new("ranks-disagree");
    let of = |rank: u64| vec![("PMI_RANK", rank.to_string()), ("PMI_SIZE", "2".into()), ("SLURM_JOB_ID", "1".into())];
    let first = start_rank(&folder, &small(8, 4, &[GENERATE]), of(0));
    let second = start_rank(&folder, &small(8, 2, &[GENERATE]), of(1));
    let (first, second) = (first.wait_with_output().unwrap(), second.wait_with_output().unwrap());
    assert_eq!((first.status.code(), second.status.code()), (Some(2), Some(2)));
    assert!(stderr(&first).is_empty(), "{}", stderr(&first));
    let printed = stderr(&second);
    assert!(printed.contains("rank 1 belongs to another run") && printed.contains("`batch: 2,`"), "{printed}");
    assert!(folder.files("").is_empty());
}

#[test]
fn a_rank_that_is_alone_does_not_wait_for_ever() {
    let folder = Folder::new("ranks-alone");
    for (name, variables) in &LAUNCHERS[..2] {
        let typed = small(8, 4, &[GENERATE, "--barrier-timeout=1"]);
        let first = start_rank(&folder, &typed, variables(0, 3)).wait_with_output().unwrap();
        assert_eq!(first.status.code(), Some(4), "{name}");
        assert!(stderr(&first).contains("did not connect within 1 s: rank 1, 2"), "{}", stderr(&first));
        let last = start_rank(&folder, &typed, variables(2, 3)).wait_with_output().unwrap();
        assert_eq!(last.status.code(), Some(4), "{name}");
        assert!(stderr(&last).contains("rank 2 did not find rank 0"), "{}", stderr(&last));
        assert!(folder.files("").is_empty(), "{:?}", folder.files(""));
    }
}

#[test]
fn killed_launched_rank_is_named() {
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
        assert!(printed.contains("rank 1 was killed, or crashed; it last started"), "{name}: {printed}");
        assert_eq!((outputs[0].status.code(), outputs[2].status.code()), (Some(4), Some(4)), "{name}");
        assert!(stderr(&outputs[2]).is_empty(), "{name}: {}", stderr(&outputs[2]));
        let summary = folder.json("run/summary.json");
        assert!(summary["error"].as_str().unwrap().contains("rank 1 was killed"), "{summary}");
    }
}

/// The transports of ranks under mpirun: its MPI, and sockets.
const TALKS: [&str; 2] = ["--communicator=auto", "--communicator=sockets"];

fn words(typed: &[String]) -> Vec<&str> {
    typed.iter().map(String::as_str).collect()
}

#[test]
fn under_mpirun_a_run_is_that_of_ranks_of_ones_own() {
    for (samples, batch, ranks) in [(13, 4, 1), (13, 4, 2), (24, 4, 3), (25, 4, 5), (145, 16, 8)] {
        let own = Folder::new("ranks-own-mpirun");
        let typed = small(samples, batch, &[GENERATE]);
        let with_ranks = [&typed[..], &[format!("--ranks={ranks}")]].concat();
        assert!(dlio(&own, &words(&with_ranks)).status.success());
        for talk in TALKS {
            let folder = Folder::new("ranks-mpirun");
            let typed = [&words(&typed)[..], &[talk, "++hydra.run.dir=run"]].concat();
            let Some(mut mpirun) = mpirun(&folder, ranks, &typed) else { return };
            let output = mpirun.output().unwrap();
            assert!(output.status.success(), "{talk}, {ranks} ranks: {}", stderr(&output));
            assert_eq!(left(&folder, ranks), left(&own, ranks), "{talk}");
        }
    }
}

/// Returns the descendants of a process that run a program of this name.
fn below(process: u32, name: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children: Vec<u32> = text.split_whitespace().map(|id| id.parse().unwrap()).collect();
    let named = |id: &u32| std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim() == name);
    children.into_iter().filter(named).collect()
}

/// Returns the rank in a process's environment.
fn rank_of(process: u32) -> Option<u64> {
    let environment = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let text = String::from_utf8_lossy(&environment).into_owned();
    text.split('\0').find_map(|variable| variable.strip_prefix("OMPI_COMM_WORLD_RANK=")?.parse().ok())
}

#[test]
fn killed_mpirun_rank_is_named() {
    for talk in TALKS {
        let folder = Folder::new("ranks-mpirun-killed");
        let typed = small(24, 4, &[GENERATE, "++workload.train.computation_time=300", "++hydra.run.dir=run", talk]);
        let Some(mut mpirun) = mpirun(&folder, 3, &words(&typed)) else { return };
        let started = mpirun.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = folder.path().join("run/dlio.log");
        until("the ranks begin", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Starting block 1")));
        let ranks = below(started.id(), "dlio");
        let second = ranks.into_iter().find(|process| rank_of(*process) == Some(1)).expect("rank 1 is there");
        let killed = Instant::now();
        assert!(Command::new("kill").args(["-s", "KILL", &second.to_string()]).status().unwrap().success());
        let output = started.wait_with_output().unwrap();
        assert!(killed.elapsed() < SOON, "{talk}: {:?}", killed.elapsed());
        assert!(!output.status.success());
        // mpirun may drop the last output of rank 0 when it ends all ranks; files are kept.
        let summary = folder.json("run/summary.json");
        let error = summary["error"].as_str().unwrap();
        assert!(
            error.contains("rank 1 was killed, or crashed; it last started"),
            "{talk}: {summary} {}",
            stderr(&output)
        );
    }
}

/// Ranks end one after another once one of them is gone; the first one is the cause.
#[test]
fn first_of_several_mpirun_ranks_is_named() {
    for talk in TALKS {
        for attempt in 0..6 {
            let folder = Folder::new("ranks-mpirun-first");
            let more = [GENERATE, "++workload.train.computation_time=300", "++hydra.run.dir=run", talk];
            let Some(mut mpirun) = mpirun(&folder, 4, &words(&small(32, 4, &more))) else { return };
            let started = mpirun.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let log = folder.path().join("run/dlio.log");
            until("it begins", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Starting block 1")));
            let ranks = below(started.id(), "dlio");
            let third = ranks.into_iter().find(|process| rank_of(*process) == Some(3)).expect("rank 3 is there");
            assert!(Command::new("kill").args(["-s", "KILL", &third.to_string()]).status().unwrap().success());
            let output = started.wait_with_output().unwrap();
            let error = folder.json("run/summary.json")["error"].clone();
            let named = error.as_str().is_some_and(|error| error.starts_with("rank 3 was killed, or crashed"));
            assert!(named, "{talk}, attempt {attempt}: {error} {}", stderr(&output));
        }
    }
}

#[test]
fn failed_mpirun_rank_is_named_with_its_failure() {
    for talk in TALKS {
        for attempt in 0..4 {
            let folder = Folder::new("ranks-mpirun-failed");
            let keys = [talk, "++hydra.run.dir=run", "++workload.reader.file_shuffle=off"];
            let typed = small(16, 4, &[&keys[..], &["++workload.reader.sample_shuffle=off"]].concat());
            let generated =
                dlio(&folder, &[&words(&typed)[..], &[GENERATE, "++workload.workflow.train=false"]].concat());
            assert!(generated.status.success(), "{}", stderr(&generated));
            // Rank 2 of four reads it.
            let cut = folder.path().join("data/train/img_09_of_16.npz");
            std::fs::File::options().write(true).open(&cut).unwrap().set_len(100).unwrap();
            let Some(mut mpirun) = mpirun(&folder, 4, &words(&typed)) else { return };
            let output = mpirun.output().unwrap();
            assert!(!output.status.success());
            let error = folder.json("run/summary.json")["error"].clone();
            let text = error.as_str().unwrap_or_default();
            assert!(
                text.starts_with("rank 2 exited with status 5: ") && text.contains("img_09_of_16.npz"),
                "{talk}, attempt {attempt}: {error} {}",
                stderr(&output)
            );
        }
    }
}

#[test]
fn interrupted_mpirun_run_has_metrics_of_all_ranks() {
    for talk in TALKS {
        let folder = Folder::new("ranks-mpirun-interrupted");
        let endless = ["++workload.train.epochs=100000", "++workload.checkpoint.checkpoint_after_epoch=200000", talk];
        let typed = small(36, 4, &[&endless[..], &["++hydra.run.dir=run", GENERATE]].concat());
        let Some(mut mpirun) = mpirun(&folder, 3, &words(&typed)) else { return };
        let mut started = mpirun.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let log = folder.path().join("run/dlio.log");
        until("the third epoch", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Starting epoch 3")));
        assert!(Command::new("kill").args(["-s", "INT", &started.id().to_string()]).status().unwrap().success());
        assert!(!started.wait().unwrap().success());
        let summary = folder.json("run/summary.json");
        let last = summary["epoch"].as_array().unwrap().last().unwrap();
        assert_eq!(summary["status"], "interrupted", "{talk}");
        assert_eq!(last["missing_ranks"], serde_json::json!([]), "{talk}: {summary:#}");
        assert_eq!(last["au_percentage_of_ranks"].as_array().unwrap().len(), 3, "{talk}: {summary:#}");
    }
}

#[test]
fn missing_mpirun_rank_is_named() {
    for talk in TALKS {
        let folder = Folder::new("ranks-mpirun-stopped");
        let endless = ["++workload.train.epochs=100000", "--barrier-timeout=1", "++hydra.run.dir=run", talk, GENERATE];
        let typed = small(24, 4, &[&["++workload.workflow.checkpoint=false"], &endless[..]].concat());
        let Some(mut mpirun) = mpirun(&folder, 2, &words(&typed)) else { return };
        let mut started = mpirun.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = folder.path().join("run/dlio.log");
        until("the third epoch", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Starting epoch 3")));
        let ranks = below(started.id(), "dlio");
        let second = ranks.into_iter().find(|process| rank_of(*process) == Some(1)).expect("rank 1 is there");
        let signal = |name: &str, process: u32| {
            assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
        };
        signal("STOP", second);
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(started.stderr.take().unwrap()));
        let named = "rank 1 has not reached the barrier for 1 s: it last started ";
        assert!(lines.any(|line| line.unwrap().contains(named)), "{talk}");
        // The run can continue, and it can end: all ranks, with one Ctrl-C.
        signal("CONT", second);
        signal("INT", started.id());
        std::thread::spawn(move || lines.for_each(drop));
        assert!(!started.wait().unwrap().success());
        assert_eq!(folder.json("run/summary.json")["status"], "interrupted", "{talk}");
    }
}

#[test]
fn missing_or_wrong_mpi_is_explained() {
    let folder = Folder::new("ranks-mpi-absent");
    let source = folder.path().join("library.c");
    std::fs::write(&source, "int dlio_stand_in;").unwrap();
    let library = folder.path().join("libdlio_mpi.so");
    assert!(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap().success());
    let of = |rank: u64, talk: &str| {
        let mut command = command(&folder, &["bench", "ranks", "--json", talk]);
        command.envs([("OMPI_COMM_WORLD_RANK", rank.to_string()), ("OMPI_COMM_WORLD_SIZE", "2".into())]);
        command.env("OMPI_COMM_WORLD_LOCAL_SIZE", "2").env("PMIX_RANK", rank.to_string());
        command.env("DLIO_MPI_LIB", &library).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = |talk: &str| [of(0, talk), of(1, talk)].map(|child| child.wait_with_output().unwrap());
    let [first, second] = both("--communicator=auto");
    assert!(first.status.success() && second.status.success(), "{}", stderr(&first));
    let note = stderr(&first);
    assert!(
        note.starts_with("note: ranks communicate through sockets, not MPI: ") && note.lines().count() == 1,
        "{note}"
    );
    assert!(stdout(&first).contains("\"sockets\"") && stderr(&second).is_empty(), "{}", stderr(&second));
    let [first, _] = both("--communicator=mpi");
    assert_eq!(first.status.code(), Some(2));
    assert!(stderr(&first).contains("--communicator=sockets"), "{}", stderr(&first));
    let alone = dlio(&folder, &["bench", "ranks", "--communicator=mpi"]);
    assert!(alone.status.code() == Some(2) && stderr(&alone).contains("mpirun"), "{}", stderr(&alone));
}

#[test]
fn all_ranks_read_one_file_together_by_mpi() {
    let folder = Folder::new("ranks-collective");
    let one = [
        "bench",
        "workload=dlrm",
        "++workload.dataset.data_folder=data",
        "++workload.dataset.num_files_eval=0",
        "++workload.dataset.num_samples_per_file=60",
        "++workload.dataset.record_length_bytes=10000",
        "++workload.reader.batch_size=4",
        "++workload.train.computation_time=0",
        "++workload.train.epochs=2",
    ];
    let collective = "++workload.reader.file_access=collective";
    let refused = dlio(&folder, &[&one[..], &[collective, "--ranks=2"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("needs MPI"), "{}", stderr(&refused));
    let hdf5 = "++workload.dataset.format=hdf5";
    // Five steps of each rank; the indexes are read once.
    let indexes = 3 * 2 * 8 * 60;
    let ways = [
        (&[GENERATE][..], indexes),
        (&[collective], indexes),
        (&[collective, "++workload.reader.rank_access=strided"], indexes),
        (&["++workload.reader.file_access=mpio", "++workload.reader.sample_shuffle=random"], indexes),
        (&[hdf5, GENERATE], 0),
        (&[hdf5, collective], 0),
        (&[hdf5, collective, "++workload.reader.rank_access=strided"], 0),
    ];
    for (number, (more, indexes)) in ways.into_iter().enumerate() {
        if number > 0 && mpi_library().is_none() {
            return println!("by MPI it is not tried: make build-mpi");
        }
        let typed = [&one[..], more, &["++hydra.run.dir=run"]].concat();
        let Some(mut mpirun) = mpirun(&folder, 3, &typed) else { return };
        let output = mpirun.output().unwrap();
        assert!(output.status.success(), "{more:?}: {}", stderr(&output));
        let summary = folder.json("run/summary.json");
        let bytes = |epoch: usize| summary["epoch"][epoch]["bytes_read"].as_u64().unwrap();
        // Each sample opens the file, and reads its head.
        let heads = if more.contains(&hdf5) { 60 * 1072 } else { 0 };
        assert_eq!((bytes(0), bytes(1)), (600_000 + indexes + heads, 600_000 + heads), "{more:?}");
    }
    for other in ["++workload.dataset.format=npz", "++workload.dataset.format=tfrecord"] {
        let other = [&one[..], &[collective, other, "++hydra.run.dir=run", GENERATE]].concat();
        let output = mpirun(&folder, 2, &other).unwrap().output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains("indexed_binary"), "{}", stderr(&output));
    }
    let in_chunks =
        [&one[..], &[collective, hdf5, "++workload.dataset.compression=gzip", "++hydra.run.dir=run"]].concat();
    let output = mpirun(&folder, 2, &in_chunks).unwrap().output().unwrap();
    assert!(!output.status.success() && stderr(&output).contains("without chunks"), "{}", stderr(&output));
}
