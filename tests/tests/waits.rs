//! Tests that calls that wait are in the trace, separate from the I/O, in every format.

use std::process::Command;

use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::{artefacts, seen};

/// Writes a file, reads it back, and waits in between: once for long, and many times briefly.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <unistd.h>
int main(void) {
    char bytes[4096] = {0};
    sem_t semaphore;
    struct pollfd one = {-1, POLLIN, 0};
    int fd = open("data", O_CREAT | O_RDWR, 0600);
    write(fd, bytes, sizeof bytes);
    poll(&one, 1, 200);
    sem_init(&semaphore, 0, 1000);
    for (int i = 0; i < 1000; i++) sem_wait(&semaphore), poll(&one, 1, 0);
    pread(fd, bytes, sizeof bytes, 0);
    return 0;
}
"#;

struct Traced {
    sandbox: Sandbox,
}

impl Traced {
    fn new(name: &str, variables: &[(&str, &str)]) -> Traced {
        let sandbox = Sandbox::new(name).unwrap();
        let (source, binary) = (sandbox.root().join("program.c"), sandbox.root().join("program"));
        std::fs::write(&source, PROGRAM).unwrap();
        compile(&source, &binary, &["-pthread"]).unwrap();
        let mut command = Command::new(&binary);
        command.env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
        assert_eq!(sandbox.run(command.envs(variables.iter().copied()), true).unwrap().exit, "0");
        Traced { sandbox }
    }

    fn analyze(&self, arguments: &[&str]) -> String {
        let run =
            self.sandbox.run(Command::new(artefacts::command("dlio-analyze").unwrap()).args(arguments), true).unwrap();
        assert_eq!(run.exit, "0", "{arguments:?}: {}", String::from_utf8_lossy(&run.errors));
        String::from_utf8_lossy(&run.output).into_owned()
    }

    fn sql(&self, trace: &str, query: &str) -> String {
        self.analyze(&[trace, "--format", "csv", "--sql", query])
    }
}

#[test]
fn short_waits_are_counted_and_left_out() {
    let traced = Traced::new("waits.short", &[]);
    let seen = seen::read(&traced.sandbox.trace());
    let waits = seen.count("poll") + seen.count("sem_wait");
    // A busy host delays a few of the short ones.
    assert!((1..200).contains(&waits), "{waits} waits are recorded");
    assert_eq!(waits + seen.processes[0].filtered, 2001);
    let traced = Traced::new("waits.short", &[("DLIO_TRACE_ALL", "1")]);
    let seen = seen::read(&traced.sandbox.trace());
    assert_eq!((seen.count("poll"), seen.count("sem_wait"), seen.processes[0].filtered), (1001, 1000, 0));
}

const WAITED: &str = "select name, class, cat, ret, requested from events where class = 'wait' and dur > 150000000";
const FOUND: &str = "name,class,cat,ret,requested\npoll,wait,wait,0,\n";

#[test]
fn waits_are_waits_in_every_format() {
    for format in ["native", "perfetto", "chrome"] {
        let traced = Traced::new(&format!("waits.{format}"), &[("DLIO_TRACE_FORMAT", format)]);
        let trace = traced.sandbox.trace().display().to_string();
        assert_eq!(traced.sql(&trace, WAITED), FOUND, "{format}");
        if format == "chrome" {
            continue;
        }
        traced.analyze(&[&trace, "--export", "p.pftrace", "--export", "c.json.gz", "--parquet", "tables"]);
        for copy in ["p.pftrace", "c.json.gz", "tables"] {
            assert_eq!(traced.sql(copy, WAITED), FOUND, "{format} as {copy}");
        }
    }
}

#[test]
fn waits_are_not_io() {
    const SPLIT: &str = "select sum(dur) < 100000000 from events where class in ('read', 'write', 'metadata', 'sync')";
    for mode in ["full", "summary"] {
        let traced = Traced::new(&format!("waits.io.{mode}"), &[("DLIO_TRACE_MODE", mode)]);
        let trace = traced.sandbox.trace().display().to_string();
        let report = traced.analyze(&[&trace, "--format", "json"]);
        let number = |key: &str| -> f64 {
            let (_, rest) = report.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("no {key} in {report}"));
            let end = rest.find([',', '}', '\n']).unwrap();
            rest[..end].trim().parse().unwrap_or_else(|_| panic!("{key} is {}", &rest[..end]))
        };
        assert!(number("total_ns") > 2e8 && number("io_ns") < 1e8, "{mode}: {report}");
        if mode == "full" {
            assert!(traced.sql(&trace, SPLIT).ends_with("true\n"));
        }
    }
}
