//! Workers: separate processes, at addresses that the system chose.

// Not every test uses all of it.
#![allow(dead_code)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::program::{begun, text};

/// A worker that ends with the test.
pub struct Worker {
    pub child: Child,
    pub address: String,
}

impl Worker {
    /// Starts a worker that reads below a directory, on one thread.
    pub fn below(root: &Path) -> Worker {
        let listen = ["worker", "--listen", "127.0.0.1:0", "--threads", "1", "--until-stdin-ends", "--root"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
        Worker::started(command.args(listen).arg(root))
    }

    /// Starts a worker with this command.
    pub fn started(command: &mut Command) -> Worker {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("where it listens").to_string();
        Worker { child, address }
    }

    /// Sends it a signal: KILL, STOP.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it has read `bytes` bytes.
    pub fn has_read(&self, bytes: u64) {
        while self.read_so_far() < bytes {
            std::thread::yield_now();
        }
    }

    pub fn read_so_far(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
        line.parse().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts several workers.
pub fn workers(number: usize, root: &Path) -> Vec<Worker> {
    (0..number).map(|_| Worker::below(root)).collect()
}

/// Returns their addresses as given on the command line.
pub fn listed(workers: &[Worker]) -> String {
    workers.iter().map(|worker| worker.address.as_str()).collect::<Vec<_>>().join(",")
}

/// Returns the complete output while one of the workers is ended or stopped by a signal during its work; the message
/// names that worker.
pub fn without_one(by: &[Worker], signal: &str, arguments: &[&str]) -> String {
    let began = Instant::now();
    let asking = begun(&[arguments, &["--workers", &listed(by)]].concat());
    by[1].has_read(1 << 20);
    by[1].signal(signal);
    let output = asking.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{signal}: {said}");
    assert!(said.contains(&by[1].address) && said.contains("no event is missing"), "{signal}: {said}");
    assert!(began.elapsed() < Duration::from_secs(30), "{signal}: {:?}", began.elapsed());
    text(&output.stdout)
}

/// Asserts that nothing is printed when all workers disconnect, and that all of them are named.
pub fn without_any(by: &[Worker], arguments: &[&str]) {
    let asking = begun(&[arguments, &["--workers", &listed(by)]].concat());
    by.iter().for_each(|worker| worker.has_read(1 << 20));
    by.iter().for_each(|worker| worker.signal("KILL"));
    let output = asking.wait_with_output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("all workers disconnected, and part of the trace was not read"), "{said}");
    assert!(by.iter().all(|worker| said.contains(&worker.address)), "{said}");
}
