//! Detects whether a launcher started this process. A launcher of parallel programs starts a program many times;
//! environment variables give each process its rank and the number of ranks.

use crate::failure::{Failure, Outcome};

/// One of the processes that a launcher started as the ranks of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchInfo {
    pub rank: u64,
    pub size: u64,
    pub launcher: &'static str,
    /// `true` if all ranks are on this host, as far as the launcher's variables show.
    pub here: bool,
    /// The name that all processes of this launch share and no other process has.
    pub job: String,
    /// How an MPI can join the ranks.
    pub door: Option<MpiRendezvous>,
}

/// The variables of a launcher: the rank, the number of ranks, and the number of ranks on this host.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    here: &'static str,
}

const fn launcher(name: &'static str, rank: &'static str, size: &'static str, here: &'static str) -> Launcher {
    Launcher { name, rank, size, here }
}

/// torchrun may be started by any of the other launchers, and those by Slurm.
const LAUNCHERS: &[Launcher] = &[
    launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    launcher("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    launcher("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"),
    launcher("MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    launcher("PALS", "PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_SIZE"),
    launcher("Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_LOCAL_SIZE"),
    launcher("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_SIZE"),
    launcher("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"),
    launcher("Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE"),
];

/// Variables that name a job, a step or a launch. Together, the variables that are set distinguish two launches.
const JOBS: &[&str] = &[
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "PMI_PORT",
    "PMI_JOBID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PBS_JOBID",
    "PALS_APID",
    "FLUX_JOB_ID",
    "LSB_JOBID",
    "JSM_NAMESPACE_ID",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "MASTER_ADDR",
    "MASTER_PORT",
];

/// How an MPI finds the launcher that started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MpiRendezvous {
    Pmi,
    Pmix,
}

/// Returns the rendezvous of an MPI. torchrun's workers are not ranks of the MPI that may have started torchrun,
/// although they inherit its variables.
fn door(environment: Environment, launcher: &Launcher) -> Option<MpiRendezvous> {
    let has = |name: &str| environment(name).is_some();
    match launcher.name {
        "torchrun" => None,
        _ if has("PMIX_RANK") => Some(MpiRendezvous::Pmix),
        _ if has("PMI_FD") || has("PMI_PORT") => Some(MpiRendezvous::Pmi),
        _ => None,
    }
}

type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the rank that a launcher assigned to this process, if there is a launcher; `ranks` is the number given on
/// the command line.
pub fn world(ranks: Option<u64>) -> Outcome<Option<LaunchInfo>> {
    world_of(&|name| std::env::var(name).ok(), ranks)
}

fn world_of(environment: Environment, ranks: Option<u64>) -> Outcome<Option<LaunchInfo>> {
    let Some((launcher, size)) = started_by(environment, ranks) else {
        return if ranks.is_none() { refuse_without_place(environment).map(|()| None) } else { Ok(None) };
    };
    let Launcher { name, size: variable, .. } = launcher;
    if let Some(typed) = ranks {
        return Err(Failure::refused(format!(
            "--ranks={typed} applies to each of the {size} processes that {name} started ({variable}={size})"
        ))
        .remedy(format!(
            "remove --ranks, so that these processes are the ranks, or start dlio once with --ranks={size}"
        )));
    }
    let rank =
        number(environment, launcher.rank).filter(|rank| *rank < size && !is_batch_script(environment, launcher));
    let Some(rank) = rank else {
        return Err(Failure::refused(format!(
            "this is one of {size} processes that {name} started ({variable}={size}), but its rank is unknown \
                ({} is not a number below {size}, or this is the script and not one of its tasks)",
            launcher.rank
        ))
        .remedy(format!("start dlio once with --ranks={size} for {size} simulated accelerators on this host")));
    };
    let job = JOBS.iter().filter_map(|name| Some(format!("{name}={}\n", environment(name)?))).collect();
    let here = environment(launcher.here).is_some_and(|count| all_here(&count, size));
    let door = door(environment, launcher);
    Ok(Some(LaunchInfo { rank, size, launcher: name, here, job, door }))
}

/// Refuses a rank of several whose environment has nothing in common with the other ranks, or lacks its own number or
/// theirs: each would run alone, all in one directory.
fn refuse_without_place(environment: Environment) -> Outcome<()> {
    let [rank, size] = ["RANK", "WORLD_SIZE"].map(environment);
    let is_one = |size: &str| size.trim().parse() == Ok(1u64);
    let (is_set, is_unset) = match (&rank, &size) {
        (None, None) => return Ok(()),
        (None, Some(size)) if is_one(size) => return Ok(()),
        (Some(rank), Some(size)) if is_one(size) && rank.trim().parse() == Ok(0u64) => return Ok(()),
        (None, Some(size)) => (format!("WORLD_SIZE={size} is set"), "RANK is not"),
        (Some(rank), None) => (format!("RANK={rank} is set"), "WORLD_SIZE is not"),
        (Some(rank), Some(size)) => {
            let numbers = [rank, size].map(|text| text.trim().parse::<u64>().ok());
            let is_rank = matches!(numbers, [Some(rank), Some(size)] if rank < size);
            let why =
                if is_rank { "the address of rank 0 is unknown" } else { "RANK is not a number below WORLD_SIZE" };
            (format!("RANK={rank} and WORLD_SIZE={size} are set"), why)
        }
    };
    let count = size.filter(|size| size.trim().parse::<u64>().is_ok()).unwrap_or_else(|| "N".into());
    Err(Failure::refused(format!("{is_set}, but {is_unset}: this process would run alone")).remedy(format!(
        "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process, start dlio once with --ranks={count}, or \
            unset RANK and WORLD_SIZE for a run with one process"
    )))
}

fn number(environment: Environment, name: &str) -> Option<u64> {
    environment(name)?.trim().parse().ok()
}

/// Returns `true` if all tasks are on this host. Slurm writes "3" for one host with three tasks and "2(x4)" for four
/// hosts with two tasks each.
fn all_here(count: &str, size: u64) -> bool {
    count.trim().parse() == Ok(size)
}

fn started_by(environment: Environment, ranks: Option<u64>) -> Option<(&'static Launcher, u64)> {
    let in_step = number(environment, "SLURM_STEP_NUM_TASKS").is_some();
    let counts = |launcher: &&Launcher| match launcher.size {
        // torchrun sets the size for every program below it; only its own workers have a rank too.
        "WORLD_SIZE" => {
            environment("RANK").is_some()
                && ["LOCAL_RANK", "MASTER_ADDR"].iter().any(|name| environment(name).is_some())
        }
        // A batch script runs once, in a job of many tasks; several ranks there were requested by hand.
        "SLURM_NTASKS" => !in_step && ranks.is_none(),
        _ => true,
    };
    let known = LAUNCHERS.iter().filter(counts);
    known.filter_map(|launcher| Some((launcher, number(environment, launcher.size)?))).find(|(_, size)| *size > 1)
}

/// Returns `true` for a batch script: Slurm gives it rank 0 of its job but no step, and the other ranks are never
/// started.
fn is_batch_script(environment: Environment, launcher: &Launcher) -> bool {
    launcher.size == "SLURM_NTASKS" && environment("SLURM_JOB_ID").is_some() && environment("SLURM_STEP_ID").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)], ranks: Option<u64>) -> Outcome<Option<LaunchInfo>> {
        let environment =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        world_of(&environment, ranks)
    }

    #[test]
    fn rank_is_known_with_every_launcher() {
        for Launcher { rank, size, here, name } in LAUNCHERS {
            let local = ("LOCAL_RANK", "0");
            let world = found(&[(rank, "1"), (size, "2"), (here, "2"), local], None).unwrap().unwrap();
            assert_eq!((world.rank, world.size, world.here, world.launcher), (1, 2, true, *name));
            assert!(!found(&[(rank, "1"), (size, "2"), (here, "1(x2)"), local], None).unwrap().unwrap().here);
            assert_eq!(found(&[(rank, "0"), (size, "1"), local], None), Ok(None), "{name}");
            assert_eq!(found(&[(size, "many"), local], Some(2)), Ok(None), "{name}");
        }
        assert_eq!(found(&[("WORLD_SIZE", "4")], Some(2)), Ok(None));
        assert_eq!(found(&[], Some(8)), Ok(None));
    }

    #[test]
    fn one_of_many_that_does_not_know_which_is_refused() {
        for Launcher { rank, size, .. } in LAUNCHERS.iter().filter(|launcher| launcher.size != "WORLD_SIZE") {
            for given in [&[(*size, "2")][..], &[(*size, "2"), (*rank, "2")], &[(*size, "2"), (*rank, "x")]] {
                assert!(found(given, None).is_err(), "{given:?}");
            }
        }
    }

    #[test]
    fn ranks_that_have_nowhere_to_meet_are_refused() {
        let two = [("RANK", "1"), ("WORLD_SIZE", "2")];
        let failure = found(&two, None).unwrap_err();
        assert!(failure.remedy.contains("MASTER_ADDR") && failure.exit_code() == 2, "{failure}");
        assert!(found(&[("RANK", "0"), ("WORLD_SIZE", "1")], None).is_ok());
        assert!(found(&[two[0], two[1], ("MASTER_ADDR", "here")], None).unwrap().is_some());
        assert_eq!(found(&two, Some(2)), Ok(None));
    }

    #[test]
    fn half_of_a_rank_is_refused() {
        for (set, words) in [
            (&[("WORLD_SIZE", "4")][..], "WORLD_SIZE=4 is set, but RANK is not"),
            (&[("WORLD_SIZE", "4"), ("MASTER_ADDR", "here")], "WORLD_SIZE=4 is set, but RANK is not"),
            (&[("RANK", "0")], "RANK=0 is set, but WORLD_SIZE is not"),
            (&[("RANK", "2"), ("WORLD_SIZE", "2")], "RANK is not a number below WORLD_SIZE"),
            (&[("RANK", "x"), ("WORLD_SIZE", "2")], "RANK is not a number below WORLD_SIZE"),
            (&[("RANK", "0"), ("WORLD_SIZE", "two")], "RANK is not a number below WORLD_SIZE"),
            (&[("RANK", "1"), ("WORLD_SIZE", "1")], "RANK is not a number below WORLD_SIZE"),
        ] {
            let failure = found(set, None).unwrap_err();
            assert!(failure.what.contains(words) && failure.exit_code() == 2, "{set:?}: {failure}");
            assert_eq!(found(set, Some(2)), Ok(None));
        }
        assert_eq!(found(&[("WORLD_SIZE", "1")], None), Ok(None));
    }

    #[test]
    fn ranks_of_ones_own_are_not_started_by_each_of_many() {
        assert!(found(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")], Some(2)).is_err());
        let step = [("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_PROCID", "0")];
        assert!(found(&step, Some(8)).is_err());
    }

    #[test]
    fn batch_script_is_not_a_rank() {
        let script = [("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "7")];
        assert_eq!(found(&script, Some(8)), Ok(None));
        assert!(found(&script, None).is_err());
        assert_eq!(found(&[("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "1")], None), Ok(None));
    }

    #[test]
    fn an_mpi_joins_whom_its_own_kind_started() {
        let door = |variables: &[(&str, &str)]| found(variables, None).unwrap().unwrap().door;
        let open = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2"), ("PMIX_RANK", "0")];
        let mpich = [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMI_FD", "7")];
        assert_eq!((door(&open), door(&open[..2])), (Some(MpiRendezvous::Pmix), None));
        assert_eq!((door(&mpich), door(&mpich[..2])), (Some(MpiRendezvous::Pmi), None));
        let torchrun = [("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0"), ("PMIX_RANK", "0")];
        assert_eq!(door(&torchrun), None);
    }

    #[test]
    fn two_launches_have_different_names() {
        let of = |job: &str| found(&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("SLURM_JOB_ID", job)], None);
        assert_ne!(of("1").unwrap().unwrap().job, of("2").unwrap().unwrap().job);
    }
}
