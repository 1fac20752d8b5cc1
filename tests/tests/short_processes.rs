//! What tracing costs a process that does little, in system calls: builds and shells start thousands of those.

use std::process::Command;

use dlio_tests::artefacts;
use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;

/// Reads its own file as often as it is told, if at all.
const READS: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char byte;
    if (argc < 2) return 0;
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < atoi(argv[1]); i++) if (pread(fd, &byte, 1, i) != 1) return 1;
    return close(fd);
}
"#;

/// System calls of the program with a library before it.
fn calls(sandbox: &Sandbox, library: &str, arguments: &[&str]) -> Vec<String> {
    let told = sandbox.root().join("told");
    let mut command = Command::new("strace");
    command.arg("-o").arg(&told).args(["-E", &format!("LD_PRELOAD={library}")]).arg(sandbox.root().join("reads"));
    command.args(arguments).env("DLIO_TRACE_DIR", sandbox.trace()).env("DLIO_TRACE_FORMAT", "native");
    assert_eq!(sandbox.run(&mut command, true).unwrap().exit, "0");
    let text = std::fs::read_to_string(told).unwrap();
    text.lines().filter(|line| !line.starts_with("+++")).map(str::to_string).collect()
}

/// Without an event: the clock and the folder are looked at, and how threads are stopped in the end is said. With events:
/// beside that two files are made, and one of them is removed; the kernel is asked for six facts.
const WITHOUT_EVENTS: usize = 11;
const WITH_EVENTS: usize = 58;

#[test]
fn a_short_process_is_traced_in_few_system_calls() {
    let sandbox = Sandbox::new("short").unwrap();
    let (source, empty) = (sandbox.root().join("reads.c"), sandbox.root().join("empty.so"));
    std::fs::write(&source, READS).unwrap();
    compile(&source, &sandbox.root().join("reads"), &[]).unwrap();
    std::fs::write(&source, "int nothing;\n").unwrap();
    compile(&source, &empty, &["-shared", "-fPIC"]).unwrap();
    std::fs::create_dir(sandbox.trace()).unwrap();
    let (empty, library) = (empty.display().to_string(), artefacts::library().unwrap().display().to_string());
    for (arguments, most) in [(&[][..], WITHOUT_EVENTS), (&["50"], WITH_EVENTS)] {
        let (bare, traced) = (calls(&sandbox, &empty, arguments), calls(&sandbox, &library, arguments));
        let own = traced.len() - bare.len();
        assert!(own <= most, "{own} system calls of ours with {arguments:?}, at most {most}: {traced:#?}");
    }
}
