//! Jobs of many ranks on several hosts, which are namespaces of this one: one directory, and a report with the right ranks
//! and hosts, the slow rank and its cause. `DLIO_TESTS_RANKS` sets the number of ranks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dlio_schemas::native::block::{HEADER_SIZE, Header};
use dlio_schemas::native::fields::key;
use dlio_schemas::native::file::{FILE_HEADER, Image};
use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::{artefacts, home};
use serde_json::Value;

const HOSTS: usize = 4;
const STEPS: &str = "40";
/// The additional time of a read of the slow rank, far above what the others need for a step.
const SLOW_US: &str = "60000";

fn ranks() -> usize {
    std::env::var("DLIO_TESTS_RANKS").ok().and_then(|ranks| ranks.parse().ok()).unwrap_or(8)
}

/// A host as a script of a shell in namespaces of its own sees it: its name, its boot, and the offset of the clock that
/// counts from its boot.
struct Host {
    name: &'static str,
    boot_id: &'static str,
    up_s: u64,
}

const CLUSTER: [Host; HOSTS] = [
    Host { name: "node0", boot_id: "00000000-0000-4000-8000-000000000000", up_s: 100 },
    Host { name: "node1", boot_id: "00000000-0000-4000-8000-000000000001", up_s: 2_000_000 },
    Host { name: "node2", boot_id: "00000000-0000-4000-8000-000000000002", up_s: 30_000 },
    Host { name: "node3", boot_id: "00000000-0000-4000-8000-000000000003", up_s: 4_000_000 },
];

impl Host {
    /// Returns a command that runs a script on this host.
    fn shell(&self, sandbox: &Sandbox, script: &str) -> Command {
        // A mount on the file itself would come and go: the kernel replaces the entries below this directory.
        let sys = sandbox.root().join(format!("sys-{}", self.boot_id));
        fs::create_dir_all(sys.join("kernel/random")).unwrap();
        fs::write(sys.join("kernel/random/boot_id"), format!("{}\n", self.boot_id)).unwrap();
        // One command per line: joined by `&&`, all of them would be part of the first one that runs in the background.
        let setup = format!("hostname {}\nmount --bind {} /proc/sys\n{script}", self.name, sys.display());
        let mut command = Command::new("unshare");
        command.args(["--mount", "--uts", "--net", "--pid", "--fork", "--mount-proc", "--time"]);
        command.args(["--boottime", &self.up_s.to_string(), "--monotonic", &self.up_s.to_string()]);
        command.args(["sh", "-ec", &setup]);
        command
    }
}

/// Returns `true` if this user may make namespaces; prints why a test is skipped otherwise.
fn has_namespaces() -> bool {
    let works =
        Command::new("unshare").args(["--mount", "--uts", "--net", "--pid", "--fork", "--time", "true"]).output();
    let works = works.is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("skipped: this user cannot make namespaces; run the test as root");
    }
    works
}

/// The files of a job: a sample per rank, the program, and the library that makes reads slow.
struct Job {
    sandbox: Sandbox,
    ranks: usize,
    slow_rank: usize,
}

impl Job {
    fn new(name: &str, ranks: usize) -> Job {
        let sandbox = Sandbox::new(name).unwrap();
        let include = home().join("../tracer/include");
        let include = ["-I", include.to_str().unwrap()];
        compile(&home().join("job/rank.c"), &sandbox.root().join("rank"), &include).unwrap();
        let library = ["-shared", "-fPIC"];
        compile(&home().join("jobs/slow_reads.c"), &sandbox.root().join("slow_reads.so"), &library).unwrap();
        let job = Job { sandbox, ranks, slow_rank: ranks * 5 / 8 };
        for rank in 0..ranks {
            fs::write(job.path(&format!("{rank}.sample")), [7; 65536]).unwrap();
        }
        fs::write(job.path("barrier"), "").unwrap();
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sandbox.work().join(name)
    }

    /// Returns the words of a shell that run a rank under `dlio trace`.
    fn traced_rank(&self) -> String {
        let [program, work] =
            [self.sandbox.root().join("rank"), self.sandbox.work()].map(|path| path.display().to_string());
        let dlio = artefacts::command("dlio").unwrap();
        let trace = self.sandbox.trace();
        format!(
            "{} trace --format native -o {} -- {program} {work} {} {STEPS}",
            Path::new(dlio.as_os_str()).display(),
            trace.display(),
            self.ranks
        )
    }

    /// Adds what makes one rank slow to a command that runs all of them.
    fn prepare<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("DLIO_LIB", artefacts::library().unwrap())
            .env("LD_PRELOAD", self.sandbox.root().join("slow_reads.so"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).current_dir(self.sandbox.root())
    }

    /// Runs the ranks as `srun` does, spread over hosts in blocks; ranks for which `starts` is false never start.
    /// Returns the messages of all.
    fn under_slurm(&self, hosts: &[Host], job: &str, starts: impl Fn(usize) -> bool) -> String {
        let per_host = self.ranks / hosts.len();
        let mut running = Vec::new();
        for (number, host) in hosts.iter().enumerate() {
            let mut script = String::new();
            for rank in (number * per_host..(number + 1) * per_host).filter(|rank| starts(*rank)) {
                let slow =
                    if rank == self.slow_rank { format!("DLIO_SLOW_READS_US={SLOW_US} ") } else { String::new() };
                script += &format!("{slow}SLURM_PROCID={rank} {} & ", self.traced_rank());
            }
            let mut command = host.shell(&self.sandbox, &(script + "wait"));
            let ranks = self.ranks.to_string();
            command.envs([
                ("SLURM_JOB_ID", job),
                ("SLURM_STEP_ID", "0"),
                ("SLURM_STEP_NUM_TASKS", &ranks),
                ("SLURM_NTASKS", &ranks),
            ]);
            running.push(self.prepare(&mut command).spawn().unwrap());
        }
        running.into_iter().map(|host| messages(host.wait_with_output().unwrap())).collect()
    }

    fn under_mpirun(&self) -> String {
        let script = format!(
            "if [ $OMPI_COMM_WORLD_RANK = {} ]; then export DLIO_SLOW_READS_US={SLOW_US}; fi; exec {}",
            self.slow_rank,
            self.traced_rank()
        );
        let mut command = Command::new("mpirun");
        command.args(["--allow-run-as-root", "--oversubscribe", "-x", "LD_PRELOAD", "-n", &self.ranks.to_string()]);
        messages(self.prepare(command.args(["sh", "-c", &script])).output().unwrap())
    }

    fn analyze(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
        let output = command.arg(self.sandbox.trace()).arg("--no-cache").args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", messages(output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn report(&self) -> Value {
        serde_json::from_str(&self.analyze(&["--format", "json"])).unwrap()
    }

    /// Returns the rows of a query, one per line.
    fn rows(&self, sql: &str) -> Vec<String> {
        self.analyze(&["--format", "csv", "--sql", sql]).lines().skip(1).map(str::to_string).collect()
    }

    /// Asserts that every rank is in the report, with its host.
    fn expect_ranks(&self, host_of: impl Fn(usize) -> String) {
        let sql = "select distinct rank, host from processes where events > 0 order by rank";
        let expected: Vec<_> = (0..self.ranks).map(|rank| format!("{rank},{}", host_of(rank))).collect();
        assert_eq!(self.rows(sql), expected);
        let listed = self.report()["ranks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rank| rank["rank"].as_u64().unwrap())
            .collect::<Vec<_>>();
        assert_eq!(listed, (0..self.ranks as u64).collect::<Vec<_>>());
    }

    /// Asserts that the report blames the slow rank and its storage, and no other rank.
    fn expect_culprit(&self) {
        let text = self.brief();
        assert!(text.starts_with("STORAGE-BOUND"), "{text}");
        let is_named =
            |rank: &usize| [" ", ",", ".", ";"].iter().any(|end| text.contains(&format!("rank {rank}{end}")));
        let named: Vec<usize> = (0..self.ranks).filter(is_named).collect();
        assert_eq!(named, [self.slow_rank], "{text}");
    }

    /// Returns the report of one screen, as one line.
    fn brief(&self) -> String {
        self.analyze(&[]).split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn messages(output: Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{} {text}", output.status);
    text
}

/// Sets the wall clock of a host by rewriting the times of its processes, as if it had been wrong all the time.
fn set_clock(trace: &Path, host: &str, late_ns: u64) {
    for path in fs::read_dir(trace).unwrap().map(|entry| entry.unwrap().path()) {
        let is_native = path.extension().is_some_and(|ending| ending == "dlt");
        let mut bytes = if is_native { fs::read(&path).unwrap() } else { continue };
        if Image::from_dlt(&bytes).unwrap().fields.get(key::HOST) != Some(host) {
            continue;
        }
        let mut at = FILE_HEADER;
        while at < bytes.len() {
            let mut header = Header::from_bytes(&bytes[at..]).unwrap();
            let payload = at + HEADER_SIZE..at + header.size();
            header.anchor.real_ns += late_ns;
            let sealed = header.seal(header.codec, header.raw as usize, &bytes[payload.clone()]);
            bytes[at..at + HEADER_SIZE].copy_from_slice(&sealed);
            at = payload.end;
        }
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn slow_rank_of_four_hosts_is_named_with_its_cause() {
    if !has_namespaces() {
        return;
    }
    let job = Job::new("job.slurm", ranks());
    let messages = job.under_slurm(&CLUSTER, "7", |_| true);
    assert_eq!(messages.matches("recorded in").count(), 1, "one summary: {messages}");
    assert!(!messages.contains("did not start") && !messages.contains("were killed"), "{messages}");
    let per_host = job.ranks / HOSTS;
    job.expect_ranks(|rank| CLUSTER[rank / per_host].name.to_string());
    job.expect_culprit();
    // A host whose wall clock is wrong by minutes.
    set_clock(&job.sandbox.trace(), "node3", 300_000_000_000);
    job.expect_ranks(|rank| CLUSTER[rank / per_host].name.to_string());
    job.expect_culprit();
    let text = job.brief();
    assert!(text.contains("apart by the clocks of their hosts"), "{text}");
}

#[test]
fn hosts_of_one_name_are_two() {
    if !has_namespaces() {
        return;
    }
    let same = [Host { name: "localhost", ..CLUSTER[0] }, Host { name: "localhost", ..CLUSTER[1] }];
    let job = Job::new("job.same_name", 4);
    let messages = job.under_slurm(&same, "7", |_| true);
    assert_eq!(messages.matches("recorded in").count(), 1, "{messages}");
    let hosts = job.rows("select host, boot_id from hosts order by boot_id");
    assert_eq!(hosts, same.each_ref().map(|host| format!("localhost,{}", host.boot_id)));
    assert_eq!(job.rows("select distinct rank from processes where events > 0").len(), 4);
    job.expect_culprit();
}

#[test]
fn slow_rank_under_mpirun_is_named_with_its_cause() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        eprintln!("skipped: mpirun is not installed; make setup-mpi installs it");
        return;
    }
    let job = Job::new("job.mpirun", ranks());
    let messages = job.under_mpirun();
    assert_eq!(messages.matches("recorded in").count(), 1, "one summary: {messages}");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_string();
    job.expect_ranks(|_| host.clone());
    job.expect_culprit();
}
