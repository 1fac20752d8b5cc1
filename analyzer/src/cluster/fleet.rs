//! The workers of a question: named ones, or processes that are started for it and end with it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;

use dlio_cluster::guard::Guard;
use dlio_cluster::token::{self, Token};

use crate::unfinished::with_signals;

/// The argument of `--workers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workers {
    /// `host:port,...`, or the lines of `@FILE`.
    Listed(Vec<String>),
    /// `local:N`: N processes on this host.
    Local(usize),
    /// `slurm`: one on each node of the allocation.
    Slurm,
}

/// The start of the line that a started worker prints, followed by its address.
pub const LISTENING: &str = "listening on ";

/// More workers than this on one host must be a typing error.
const LOCAL_MAX: usize = 256;

impl Workers {
    pub fn parse(typed: &str) -> Result<Workers, String> {
        if typed == "slurm" {
            return Ok(Workers::Slurm);
        }
        if let Some(number) = typed.strip_prefix("local:") {
            let number = number.parse().ok().filter(|number| (1..=LOCAL_MAX).contains(number));
            return number.map(Workers::Local).ok_or(format!("local:N expects a number from 1 to {LOCAL_MAX}"));
        }
        let text = match typed.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?,
            None => typed.into(),
        };
        let words = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let words = words.flat_map(|line| line.split([',', ' ', '\t'])).map(str::trim).filter(|word| !word.is_empty());
        let named = |word: &str, why: String| if word == typed { why } else { format!("{word}: {why}") };
        let listed = words.map(|word| address(word).map(|()| word.to_string()).map_err(|why| named(word, why)));
        let listed = listed.collect::<Result<Vec<_>, _>>()?;
        match listed.is_empty() {
            true => Err("it names no worker; expected host:port,host:port, @FILE, local:N or slurm".into()),
            false => Ok(Workers::Listed(listed)),
        }
    }
}

fn address(word: &str) -> Result<(), String> {
    let port = word.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(port)) if port > 0 => Ok(()),
        _ => Err("expected host:port, as in node1:7070, @FILE, local:N or slurm".into()),
    }
}

/// Returns `true` if a worker's address is local to this host, where no one can listen in.
pub fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The directories and buckets below which workers may read, and the directories below which they may write.
pub struct AllowedPaths {
    pub roots: Vec<PathBuf>,
    pub writes: Vec<PathBuf>,
}

/// The workers of a question, and how to reach them. Started workers end when this is dropped.
pub struct Fleet {
    pub addresses: Vec<String>,
    token: Option<Token>,
    started: Vec<StartedWorker>,
}

/// A started process, which exits when its standard input is closed.
struct StartedWorker {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Drop for StartedWorker {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // A stopped process does not notice a closed input.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Fleet {
    /// Returns the requested workers, and starts those that are not named.
    pub fn ready(
        workers: &Workers,
        places: &AllowedPaths,
        token_file: Option<&Path>,
        threads: usize,
    ) -> Result<Fleet, String> {
        let given = match token_file {
            Some(file) => Some(Token::read(file)?),
            None => Token::from_environment()?,
        };
        match workers {
            Workers::Listed(addresses) => {
                if let Some(address) =
                    addresses.iter().find(|address| !is_loopback(address)).filter(|_| given.is_none())
                {
                    return Err(format!(
                        "{address}: workers on other hosts need a token, the same on all hosts: --token FILE or {}; \
                         create one: openssl rand -hex 32 > FILE",
                        token::VARIABLE
                    ));
                }
                Ok(Fleet { addresses: addresses.clone(), token: given, started: Vec::new() })
            }
            Workers::Local(number) => {
                let token = Token::random().map_err(|error| format!("/dev/urandom: {error}"))?;
                let share = (threads / number).max(1).to_string();
                let mut fleet = Fleet { addresses: Vec::new(), token: Some(token), started: Vec::new() };
                for _ in 0..*number {
                    let command = worker(Command::new(this_program()?), "127.0.0.1:0", places, &["--threads", &share]);
                    fleet.start(command)?;
                }
                (0..*number).try_for_each(|at| fleet.read_addresses(at, 1))?;
                Ok(fleet)
            }
            Workers::Slurm => {
                let nodes = std::env::var("SLURM_JOB_NUM_NODES").ok().and_then(|text| text.parse::<usize>().ok());
                let nodes = nodes.ok_or(
                    "not inside a Slurm allocation (SLURM_JOB_NUM_NODES is not set); run the command in salloc or \
                     sbatch",
                )?;
                let token =
                    given.map_or_else(|| Token::random().map_err(|error| format!("/dev/urandom: {error}")), Ok)?;
                let mut fleet = Fleet { addresses: Vec::new(), token: Some(token), started: Vec::new() };
                let mut srun = Command::new("srun");
                let nodes_typed = format!("--nodes={nodes}");
                srun.args(["--overlap", &nodes_typed, "--ntasks-per-node=1", "--kill-on-bad-exit=0"])
                    .arg(this_program()?);
                fleet.start(worker(srun, "0.0.0.0:0", places, &[]))?;
                fleet.read_addresses(0, nodes)?;
                Ok(fleet)
            }
        }
    }

    /// Returns how a worker authenticates.
    pub fn guard(&self, address: &str) -> Guard {
        Guard { version: super::version(), token: self.token.clone(), encrypted: !is_loopback(address) }
    }

    fn start(&mut self, mut command: Command) -> Result<(), String> {
        let program = command.get_program().to_string_lossy().into_owned();
        if let Some(token) = &self.token {
            command.env(token::VARIABLE, token.text());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let spawned = with_signals(|| command.spawn());
        let mut child = spawned.map_err(|error| format!("cannot start {program}: {error}"))?;
        let stdin = child.stdin.take();
        self.started.push(StartedWorker { child, stdin });
        Ok(())
    }

    /// Reads the addresses of started workers, one per line.
    fn read_addresses(&mut self, at: usize, number: usize) -> Result<(), String> {
        let Some(out) = self.started[at].child.stdout.take() else { return Ok(()) };
        let (said, heard) = mpsc::channel();
        // Their later output is discarded, and must not fill the pipe either.
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix(LISTENING) {
                    let _ = said.send(address.to_string());
                }
            }
        });
        for _ in 0..number {
            let address = heard.recv().map_err(|_| "a worker ended before it listened; its error message is above")?;
            self.addresses.push(address);
        }
        Ok(())
    }
}

fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program was moved or removed ({error}); start it again"))
}

fn worker(mut command: Command, listen: &str, places: &AllowedPaths, more: &[&str]) -> Command {
    command.args(["worker", "--until-stdin-ends", "--listen", listen]).args(more);
    command.args(places.roots.iter().flat_map(|root| [OsStr::new("--root"), root.as_os_str()]));
    command.args(places.writes.iter().flat_map(|folder| [OsStr::new("--write"), folder.as_os_str()]));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_listed_or_started() {
        let listed = |words: &[&str]| Ok(Workers::Listed(words.iter().map(|word| word.to_string()).collect()));
        assert_eq!(Workers::parse("a:1,b.c:70,[::1]:7"), listed(&["a:1", "b.c:70", "[::1]:7"]));
        assert_eq!(Workers::parse("local:3"), Ok(Workers::Local(3)));
        assert_eq!(Workers::parse("slurm"), Ok(Workers::Slurm));
        for wrong in ["", "a", "a:", ":1", "a:x", "a:0", "local:0", "local:x", "@/nonexistent", "a:1,,b"] {
            assert!(Workers::parse(wrong).is_err(), "{wrong}");
        }
        assert!(is_loopback("127.0.0.1:1") && is_loopback("[::1]:1") && is_loopback("localhost:1"));
        assert!(!is_loopback("10.0.0.1:1") && !is_loopback("node1:1"));
    }
}
