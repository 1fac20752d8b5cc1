//! `dlio-analyze worker`: reads and counts for clients until it is stopped.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use dlio_cluster::guard::Guard;
use dlio_cluster::server::Listening;
use dlio_cluster::token::{self, Token};

use crate::cluster::fleet::LISTENING;
use crate::cluster::version;
use crate::cluster::worker::{WorkService, Worker};
use crate::unfinished;

/// Read and count on behalf of a `dlio-analyze --workers` on another host
#[derive(Parser, Debug)]
#[command(name = "dlio-analyze worker", bin_name = "dlio-analyze worker", version, max_term_width = 100, after_help = AFTER)]
struct Arguments {
    /// Address to listen on: an address of this host, or 0.0.0.0 for all, and a port (0: any free port)
    #[arg(long, value_name = "ADDR:PORT")]
    listen: String,

    /// Directory below which traces may be read (repeatable), or s3://bucket/prefix with the credentials of this environment; no
    /// other files are read
    #[arg(long, value_name = "DIR", required = true)]
    root: Vec<PathBuf>,

    /// Directory below which a client's --parquet may be written (repeatable); no other files are written
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,

    /// File with the token that clients need [default: DLIO_CLUSTER_TOKEN]
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,

    /// Number of threads that read traces [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Exit when standard input closes; used by `--workers local:N` and `--workers slurm`
    #[arg(long)]
    until_stdin_ends: bool,
}

const AFTER: &str = "\
Workers that listen on other addresses than 127.0.0.1 need a token, the same on all hosts. With a token, all traffic is \
encrypted and both sides authenticate. Workers that listen on 127.0.0.1 do not encrypt; without a token, any user of this \
host may send them requests.

Example with two hosts that share a file system:
  openssl rand -hex 32 > ~/.dlio-token && chmod 600 ~/.dlio-token
  node1$ dlio-analyze worker --listen 0.0.0.0:7070 --root /scratch --token ~/.dlio-token
  node2$ dlio-analyze worker --listen 0.0.0.0:7070 --root /scratch --token ~/.dlio-token
  login$ dlio-analyze /scratch/run/trace --workers node1:7070,node2:7070 --token ~/.dlio-token";

/// Returns `true` for `dlio-analyze worker` with a worker's options or none; with anything else, `worker` is a trace.
pub fn is_meant(typed: &[OsString]) -> bool {
    let asks = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with("--listen") || word == "--help");
    typed.get(1).is_some_and(|word| word == "worker") && (typed.len() == 2 || typed[2..].iter().any(asks))
}

pub fn main(typed: &[OsString]) -> ExitCode {
    let arguments =
        Arguments::try_parse_from(&typed[1..]).unwrap_or_else(|error| crate::terminal::refuse(error, typed));
    match serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            notice!("dlio-analyze worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> Result<(), String> {
    unfinished::watch(true).map_err(|error| format!("cannot start threads: {error}"))?;
    let address = resolved(&arguments.listen)?;
    let token = match &arguments.token {
        Some(file) => Some(Token::read(file)?),
        None => Token::from_environment()?,
    };
    let is_loopback = address.ip().is_loopback();
    if token.is_none() && !is_loopback {
        return Err(format!(
            "{address} is reachable from other hosts, which requires a token: --token FILE or {}; create one: openssl \
             rand -hex 32 > FILE",
            token::VARIABLE
        ));
    }
    let cores = || std::thread::available_parallelism().map_or(2, usize::from);
    let threads = arguments.threads.map_or_else(cores, usize::from);
    let worker = Arc::new(Worker::new(&arguments.root, &arguments.write, threads)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    runtime.block_on(async {
        let listening = Listening::at(address)?;
        announce(listening.address).map_err(|error| format!("standard output: {error}"))?;
        if arguments.until_stdin_ends {
            std::thread::spawn(end_with_stdin);
        }
        let guard = Guard { version: version(), token, encrypted: !is_loopback };
        listening.serve(guard, Arc::new(WorkService(worker))).await
    })
}

fn resolved(typed: &str) -> Result<SocketAddr, String> {
    let found = typed.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| format!("{typed}: not an address to listen on; expected one with a port, such as 0.0.0.0:7070"))
}

/// Prints the address in a form that clients can use: the host name stands in for "all addresses".
fn announce(address: SocketAddr) -> std::io::Result<()> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.filter(|_| address.ip().is_unspecified());
    let line = match name {
        Some(name) => format!("{LISTENING}{}:{}\n", name.trim(), address.port()),
        None => format!("{LISTENING}{address}\n"),
    };
    // Written in one piece: several workers may share this pipe.
    let mut out = crate::terminal::stdout();
    out.write_all(line.as_bytes())?;
    out.flush()
}

fn end_with_stdin() {
    let mut rest = [0; 64];
    let mut stdin = std::io::stdin();
    while stdin.read(&mut rest).is_ok_and(|read| read > 0) {}
    std::process::exit(0);
}
