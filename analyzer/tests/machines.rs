//! Tests workers on separate hosts: network namespaces, each with an address and a link that can be cut, and nothing
//! else.
#![cfg(feature = "cluster")]

mod generator;
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use generator::{Plan, generate};
use support::program::{analyze, printed, text};
use support::temp_dir;
use support::workers::Worker;

/// A network namespace, at the other end of a link from this one.
struct Machine {
    name: String,
    wire: String,
    address: String,
}

fn ip(words: &str) -> bool {
    let run = Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

impl Machine {
    /// Creates a namespace; `None` if that is not permitted.
    fn new(number: u32) -> Option<Machine> {
        let id = std::process::id() % 10_000;
        let (name, wire) = (format!("dlio-test-{id}-{number}"), format!("dlio{id}n{number}"));
        let (here, there) = (format!("10.231.{number}.1"), format!("10.231.{number}.2"));
        let machine = Machine { name, wire, address: format!("{there}:7070") };
        let Machine { name, wire, .. } = &machine;
        let is_made = ip(&format!("netns add {name}"))
            && ip(&format!("link add {wire} type veth peer name eth0 netns {name}"))
            && ip(&format!("address add {here}/30 dev {wire}"))
            && ip(&format!("link set {wire} up"))
            && ip(&format!("-n {name} address add {there}/30 dev eth0"))
            && ip(&format!("-n {name} link set eth0 up"))
            && ip(&format!("-n {name} link set lo up"));
        is_made.then_some(machine)
    }

    fn worker(&self, root: &Path, token: &Path) -> Worker {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, env!("CARGO_BIN_EXE_dlio-analyze"), "worker", "--threads", "1"]);
        command.args(["--until-stdin-ends", "--listen", &self.address, "--root"]).arg(root);
        Worker::started(command.arg("--token").arg(token))
    }

    /// Cuts the link at its own end: this end still believes that it is connected.
    fn cut(&self) {
        assert!(ip(&format!("-n {} link set eth0 down", self.name)));
    }

    fn mend(&self) {
        assert!(ip(&format!("-n {} link set eth0 up", self.name)));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        ip(&format!("link delete {}", self.wire));
        ip(&format!("netns delete {}", self.name));
    }
}

#[test]
fn hosts_with_the_token_work_and_cut_link_is_safe() {
    let (Some(one), Some(other)) = (Machine::new(1), Machine::new(2)) else {
        return println!("not run: this user may not make network namespaces");
    };
    let folder = temp_dir("machines");
    let trace = folder.path().join("trace");
    generate(&trace, &Plan { processes: 16, events: 3_000_000, files: 500, ..Plan::default() }, &|_, _, _| ()).unwrap();
    let (token, wrong) = (folder.path().join("token"), folder.path().join("wrong"));
    std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::write(&wrong, "0123456789abcdef0123456789abcdee\n").unwrap();
    for file in [&token, &wrong] {
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let workers = [one.worker(folder.path(), &token), other.worker(folder.path(), &token)];
    let listed = format!("{},{}", one.address, other.address);
    let ask = |token: &Path| {
        let words = [trace.to_str().unwrap(), "--format", "json", "--no-cache", "--workers", &listed, "--token"];
        [&words.map(str::to_string)[..], &[token.display().to_string()]].concat()
    };
    let refusal = |arguments: &[String]| {
        let output = analyze(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!output.status.success() && output.stdout.is_empty());
        text(&output.stderr)
    };
    let said = refusal(&ask(&wrong));
    assert!(said.contains(&one.address) && said.contains("failed authentication"), "{said}");
    assert!(refusal(&ask(&token)[..6]).contains("need a token"));
    let alone = printed(&[trace.to_str().unwrap(), "--format", "json", "--no-cache"]);
    let began = Instant::now();
    let asking = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"))
        .args(ask(&token))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    workers[1].has_read(1 << 20);
    other.cut();
    let output = asking.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(alone == text(&output.stdout));
    assert!(said.contains(&other.address) && said.contains("no event is missing"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // A host behind a cut link is reported before any request is made.
    let said = refusal(&ask(&token));
    assert!(said.contains(&format!("cannot reach worker {}", other.address)), "{said}");
    assert!(!said.contains(&format!("worker {}", one.address)), "{said}");
    other.mend();
    assert!(alone == printed(&ask(&token).iter().map(String::as_str).collect::<Vec<_>>()));
}
