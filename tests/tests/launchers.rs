//! Tests `dlio trace` as launchers start it: once per rank, into one directory. One summary is printed, by the last task of
//! the job, and every rank is in the report.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use dlio_tests::artefacts;
use dlio_tests::sandbox::Sandbox;

/// Reads a file, then waits for its standard input to be closed.
const READS: &str = "cat /etc/passwd > /dev/null; cat > /dev/null";

fn dlio(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    command.args(arguments).env("DLIO_LIB", artefacts::library().unwrap()).current_dir(sandbox.work());
    command
}

/// Starts a task as `srun dlio trace -o trace -- sh -c COMMAND` does.
fn task(sandbox: &Sandbox, job: &str, (rank, ranks): (u32, u32), command: &str) -> Child {
    let ranks = ranks.to_string();
    dlio(sandbox, &["trace", "-o", "trace", "--", "sh", "-c", command])
        .envs([("SLURM_JOB_ID", job), ("SLURM_STEP_ID", "0"), ("SLURM_PROCID", &rank.to_string())])
        .envs([("SLURM_NTASKS", &ranks), ("SLURM_STEP_NUM_TASKS", &ranks)])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets a task end, and returns its messages.
fn ended(mut task: Child) -> String {
    drop(task.stdin.take());
    let Output { status, stderr, .. } = task.wait_with_output().unwrap();
    assert!(status.success(), "{status}");
    String::from_utf8(stderr).unwrap()
}

/// Waits until that many tasks have recorded events.
fn wait_for_tasks(sandbox: &Sandbox, tasks: usize) {
    let started = |folder: &Path| {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter(|file| file.file_name().to_string_lossy().starts_with("started-")).count()
    };
    let jobs = || std::fs::read_dir(sandbox.work().join("trace")).into_iter().flatten().flatten();
    while jobs().map(|job| started(&job.path())).sum::<usize>() < tasks {
        std::thread::yield_now();
    }
}

fn query(sandbox: &Sandbox, sql: &str) -> String {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    let output = command.args(["trace", "--format", "csv", "--sql", sql]).current_dir(sandbox.work()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().skip(1).collect::<Vec<_>>().join(" ")
}

const RANKS: &str = "select distinct rank from processes where events > 0 order by rank";

#[test]
fn last_task_of_a_job_prints_one_summary_of_all_ranks() {
    let sandbox = Sandbox::new("launchers.job").unwrap();
    let tasks: Vec<Child> = (0..4).map(|rank| task(&sandbox, "7", (rank, 4), READS)).collect();
    wait_for_tasks(&sandbox, 4);
    let messages: Vec<String> = tasks.into_iter().map(ended).collect();
    assert_eq!(messages[..3], ["", "", ""]);
    assert!(messages[3].starts_with("dlio: ") && messages[3].contains(" recorded in trace ("), "{}", messages[3]);
    for wrong in ["were killed", "outlived", "earlier runs", "did not start"] {
        assert!(!messages[3].contains(wrong), "{}", messages[3]);
    }
    assert_eq!(query(&sandbox, RANKS), "0 1 2 3");
    let pids = query(&sandbox, "select count(distinct pid) from processes");
    assert!(messages[3].starts_with(&format!("dlio: {pids} processes")), "{pids}: {}", messages[3]);
    let hidden = std::fs::read_dir(sandbox.work().join("trace")).unwrap().flatten();
    assert!(hidden.into_iter().all(|file| !file.file_name().to_string_lossy().starts_with(".job")));
}

#[test]
fn two_jobs_in_one_directory_each_print_a_summary() {
    let sandbox = Sandbox::new("launchers.jobs").unwrap();
    let [a, b] = ["7", "8"].map(|job| [0, 1].map(|rank| task(&sandbox, job, (rank, 2), READS)));
    wait_for_tasks(&sandbox, 4);
    let [[a0, a1], [b0, b1]] = [a, b];
    let messages = [a0, b0, a1, b1].map(ended);
    assert_eq!(messages[..2], ["", ""]);
    assert!(messages[2..].iter().all(|message| message.contains("recorded in trace")), "{messages:?}");
    assert_eq!(query(&sandbox, RANKS), "0 1");
}

#[test]
fn ranks_that_never_started_are_named() {
    let sandbox = Sandbox::new("launchers.missing").unwrap();
    let tasks: Vec<Child> = [0, 3].map(|rank| task(&sandbox, "7", (rank, 4), READS)).into();
    wait_for_tasks(&sandbox, 2);
    let messages: Vec<String> = tasks.into_iter().map(ended).collect();
    assert_eq!(messages[0], "");
    let expected = "2 of 4 ranks of Slurm are in this directory; ranks 1, 2 did not start, or use another one";
    assert!(messages[1].contains(expected), "{}", messages[1]);
}

#[test]
fn batch_script_and_single_process_print_their_own_summary() {
    let sandbox = Sandbox::new("launchers.alone").unwrap();
    let script = dlio(&sandbox, &["trace", "-o", "trace", "--", "sh", "-c", READS])
        .envs([("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let message = String::from_utf8(script.stderr).unwrap();
    assert!(message.contains("recorded in trace") && !message.contains("ranks"), "{message}");
}

#[test]
fn ranks_of_mpirun_print_one_summary() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        eprintln!("skipped: mpirun is not installed; make setup-mpi installs it");
        return;
    }
    let sandbox = Sandbox::new("launchers.mpirun").unwrap();
    let program = artefacts::command("dlio").unwrap();
    let output = Command::new("mpirun")
        .args(["--allow-run-as-root", "--oversubscribe", "-n", "3"])
        .arg(program)
        .args(["trace", "-o", "trace", "--", "sh", "-c", "cat /etc/passwd > /dev/null"])
        .env("DLIO_LIB", artefacts::library().unwrap())
        .current_dir(sandbox.work())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && message.matches("recorded in trace").count() == 1, "{message}");
    assert!(!message.contains("did not start") && !message.contains("were killed"), "{message}");
    assert_eq!(query(&sandbox, RANKS), "0 1 2");
}
