//! Collective operations of ranks over every transport: `dlio bench ranks` exchanges and waits, and compares the
//! results with the input.

mod program;

use program::launchers::{LAUNCHERS, Variables, mpi_library, mpirun};
use program::{Folder, command, dlio, stderr, stdout};
use serde_json::Value;
use std::process::{Child, Output, Stdio};

const COUNTS: [u64; 5] = [1, 2, 3, 5, 8];

fn said(output: &Output, ranks: u64) -> Value {
    assert!(output.status.success(), "{ranks} ranks: {}", stderr(output));
    let said: Value =
        serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)));
    assert_eq!(said["ranks"], ranks, "{said}");
    let hosts = said["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), &hosts[0]["ranks"]), (1, &ranks.into()), "{said}");
    assert!(hosts[0]["processors"].as_u64().unwrap() > 0 && hosts[0]["memory_GB"].as_f64().unwrap() > 0.0, "{said}");
    assert!(said["barrier_us"].as_f64().unwrap() > 0.0 || ranks == 1, "{said}");
    said
}

#[test]
fn ranks_of_ones_own_exchange_and_wait() {
    let folder = Folder::new("collectives-local");
    for ranks in [&COUNTS[..], &[64]].concat() {
        let output = dlio(&folder, &["bench", "ranks", "--json", &format!("--ranks={ranks}")]);
        let talk = if ranks == 1 { "itself" } else { "shared memory and sockets" };
        assert_eq!(said(&output, ranks)["communicator"], talk);
    }
    assert_eq!(dlio(&folder, &["bench", "ranks", "--ranks=100000"]).status.code(), Some(2));
}

fn launched(folder: &Folder, ranks: u64, variables: Variables) -> Vec<Output> {
    let start = |rank: u64| {
        let mut command = command(folder, &["bench", "ranks", "--json"]);
        command.envs(variables(rank, ranks)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<Child> = (0..ranks).map(start).collect();
    started.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

#[test]
fn ranks_of_every_launcher_exchange_and_wait() {
    let folder = Folder::new("collectives-launched");
    for (name, variables) in LAUNCHERS {
        for ranks in &COUNTS[1..] {
            let outputs = launched(&folder, *ranks, *variables);
            assert_eq!(said(&outputs[0], *ranks)["communicator"], "sockets", "{name}");
            for (rank, output) in outputs.iter().enumerate().skip(1) {
                assert!(output.status.success(), "{name}, rank {rank}: {}", stderr(output));
                assert!(stdout(output).is_empty(), "{name}, rank {rank}: {}", stdout(output));
            }
        }
    }
}

#[test]
fn mpirun_ranks_communicate_with_and_without_mpi() {
    let folder = Folder::new("collectives-mpirun");
    for ranks in &COUNTS[1..] {
        for talk in ["auto", "sockets"] {
            let words = ["bench", "ranks", "--json", &format!("--communicator={talk}")];
            let Some(mut mpirun) = mpirun(&folder, *ranks, &words) else { return };
            let name = said(&mpirun.output().unwrap(), *ranks)["communicator"].as_str().unwrap().to_string();
            match mpi_library() {
                Some(_) if talk == "auto" => assert!(name.starts_with("Open MPI v"), "{name}"),
                None if talk == "auto" => println!("by MPI it is not tried: make build-mpi"),
                _ => assert_eq!(name, "sockets"),
            }
        }
    }
}
