//! Launchers of ranks: the variables they set for each process, and Open MPI's own if it is installed.

use super::Folder;
use super::needs::needs;
use std::path::PathBuf;
use std::process::Command;

/// Variables of launchers for one rank of many, all on one host or, as far as they show, on several.
pub type Variables = fn(u64, u64) -> Vec<(&'static str, String)>;

pub const LAUNCHERS: &[(&str, Variables)] = &[
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

/// Returns the program started by mpirun in a directory, if there is an mpirun.
pub fn mpirun(folder: &Folder, ranks: u64, words: &[&str]) -> Option<Command> {
    needs("mpirun").then_some(())?;
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string(), env!("CARGO_BIN_EXE_dlio")]);
    mpirun.args(words).current_dir(folder.path());
    if let Some(library) = mpi_library() {
        mpirun.env("DLIO_MPI_LIB", library);
    }
    Some(mpirun)
}

/// Returns the library built by `make build-mpi`, if it exists.
pub fn mpi_library() -> Option<PathBuf> {
    let place = PathBuf::from(std::env::var_os("DLIO_DIST")?).join("lib/libdlio_mpi.so");
    place.is_file().then_some(place)
}
