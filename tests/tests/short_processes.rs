//! Tests the cost of tracing a short-lived process, in system calls: builds and shells start thousands of those.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use dlio_tests::artefacts;
use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::seen::{self, RecordedTrace};

/// Reads its own file as often as its argument says, if at all.
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

/// Builds the program `reads` from a source, in a directory.
fn build(sandbox: &Sandbox, source: &str, folder: &Path) {
    let file = sandbox.root().join("reads.c");
    std::fs::write(&file, source).unwrap();
    compile(&file, &folder.join("reads"), &[]).unwrap();
}

/// Returns the system calls of the program with a preloaded library. `machine` contains the inherited facts about the
/// host.
fn calls(sandbox: &Sandbox, library: &str, arguments: &[&str], convert: &str, machine: &str) -> Vec<String> {
    let counts = sandbox.root().join("counts");
    let mut command = Command::new("strace");
    command.arg("-o").arg(&counts).args(["-E", &format!("LD_PRELOAD={library}")]).arg(sandbox.root().join("reads"));
    command.args(arguments).env("DLIO_TRACE_DIR", sandbox.trace());
    let format = if convert == "exit" { "native" } else { "auto" };
    command.env("DLIO_TRACE_FORMAT", format).env("DLIO_TRACE_CONVERT", convert).env("DLIO_TRACE_MACHINE", machine);
    assert_eq!(sandbox.run(&mut command, true).unwrap().exit, "0");
    let text = std::fs::read_to_string(counts).unwrap();
    text.lines().filter(|line| !line.starts_with("+++")).map(str::to_string).collect()
}

/// Queries of each process with an event: CPUs, scheduling and limits at its start, its id, CPUs and CPU time at its
/// end; and the names of its control groups, whose limits are read unless they were inherited for these groups.
const OWN_FACTS: usize = 12;
const GROUPS: usize = 3;

/// Without an event: the end is handled by one thread, and the directory is checked. With events: in addition a file
/// is created, and the process's own facts are queried; facts about the host are queried unless they are inherited;
/// and if the file is not converted, it is renamed. A handler is installed in case the file is truncated.
const WITHOUT_EVENTS: usize = 2;
const WITH_EVENTS: usize = 23 + OWN_FACTS + GROUPS;
const WITH_EVENTS_NATIVE: usize = WITH_EVENTS + 1;
/// Calls of a program that has inherited the facts from another one of the run, or from `dlio trace`.
const TOLD_WITHOUT_EVENTS: usize = 1;
const TOLD_WITH_EVENTS: usize = 13 + OWN_FACTS;
/// Each group up to the root, and each NUMA node, takes three calls for each of its files.
const GROUP_FILE: usize = 3;
/// If the kernel's clock is slow to read, its name is queried.
const CLOCK: usize = 3;
/// On a busy host, a process under strace may live for 10 ms, and then reads more facts at its end: it is run again.
const TRIES: usize = 100;

#[test]
fn short_process_needs_few_system_calls() {
    let sandbox = Sandbox::new("short").unwrap();
    build(&sandbox, READS, sandbox.root());
    let (source, empty) = (sandbox.root().join("empty.c"), sandbox.root().join("empty.so"));
    std::fs::write(&source, "int nothing;\n").unwrap();
    compile(&source, &empty, &["-shared", "-fPIC"]).unwrap();
    let machine = inherited_from_dlio(&sandbox);
    let (empty, library) = (empty.display().to_string(), artefacts::library().unwrap().display().to_string());
    for (arguments, convert, machine, most) in [
        (&[][..], "exit", "", WITHOUT_EVENTS),
        (&["50"], "later", "", WITH_EVENTS),
        (&["50"], "exit", "", WITH_EVENTS_NATIVE),
        (&[], "later", &machine, TOLD_WITHOUT_EVENTS),
        (&["50"], "later", &machine, TOLD_WITH_EVENTS),
        (&["50"], "exit", &machine, TOLD_WITH_EVENTS + 1),
    ] {
        let bare = calls(&sandbox, &empty, arguments, convert, machine);
        let traced = (0..TRIES)
            .map(|_| calls(&sandbox, &library, arguments, convert, machine))
            .find(|traced| !traced.iter().any(|line| line.contains("/proc/self/io")))
            .expect("a process that lives for less than 10 ms");
        let asks_for_clock = traced.iter().any(|line| line.contains("current_clocksource"));
        let of_host = |line: &&String| line.contains("/sys/fs/cgroup") || line.contains("/sys/devices/system/node");
        let of_groups = traced.iter().filter(of_host).count();
        let most = most + if asks_for_clock { CLOCK } else { 0 } + GROUP_FILE * of_groups;
        let own = traced.len().saturating_sub(bare.len());
        assert!(own <= most, "{own} system calls of the tracer with {arguments:?}, at most {most}: {traced:#?}");
    }
}

/// Returns the facts about the host that `dlio trace` passes to a command whose trace goes to the sandbox's
/// directory.
fn inherited_from_dlio(sandbox: &Sandbox) -> String {
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    command.args(["trace", "-q", "-o"]).arg(sandbox.trace()).args(["--", "env"]);
    command.env("DLIO_LIB", artefacts::library().unwrap());
    let run = sandbox.run(&mut command, true).unwrap();
    let output = String::from_utf8(run.output).unwrap();
    let value = output.lines().find_map(|line| line.strip_prefix("DLIO_TRACE_MACHINE="));
    value.expect("a variable with the machine's facts").to_string()
}

/// Opens its own file; called with one argument it executes itself without one, and with two a child of it does so.
const BECOMES: &str = r#"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    close(open(argv[0], O_RDONLY));
    if (argc > 2 && fork() > 0) return wait(0) < 0;
    if (argc > 1) execl(argv[0], argv[0], (char *)0);
    return 0;
}
"#;

/// A process started when its first image did, whatever it executes; a child has a new start.
#[test]
fn images_of_a_process_agree_on_its_start() {
    let sandbox = Sandbox::new("short.born").unwrap();
    build(&sandbox, BECOMES, sandbox.root());
    let library = artefacts::library().unwrap().display().to_string();
    for (arguments, processes) in [(&["once"][..], 1), (&["in", "child"], 2)] {
        _ = std::fs::remove_dir_all(sandbox.trace());
        calls(&sandbox, &library, arguments, "later", "");
        let seen = seen::read(&sandbox.trace());
        let facts = |keys: [&str; 2]| -> BTreeSet<[Option<String>; 2]> {
            let of = |process: &seen::Process| keys.map(|key| process.fields.get(key).map(str::to_string));
            seen.processes.iter().map(of).collect()
        };
        assert_eq!(facts(["pid", "start_boot_ns"]).len(), processes, "{arguments:?}: {:?}", seen.processes);
        assert_eq!(facts(["pid", "image"]).len(), seen.processes.len(), "{arguments:?}: {:?}", seen.processes);
        assert!(seen.processes.len() > 1, "{arguments:?}: {:?}", seen.processes);
    }
}

/// Inherited facts equal those that the program would determine itself, and those of another host are not trusted.
#[test]
fn inherited_host_facts_equal_queried_ones() {
    let sandbox = Sandbox::new("short.told").unwrap();
    build(&sandbox, READS, sandbox.root());
    let (told, library) = (inherited_from_dlio(&sandbox), artefacts::library().unwrap().display().to_string());
    // Changed only in the boot, the cores or the host's name.
    let (booted, rest) = told.split_once(':').unwrap();
    let parts: Vec<&str> = told.split(':').collect();
    let changed = |at: usize, to: &str| {
        let mut parts = parts.clone();
        parts[at] = to;
        parts.join(":")
    };
    let other_boot =
        format!("{}:{rest}", booted.parse::<u64>().unwrap() - 60_000_000_000).replace(parts[4], &"0".repeat(36));
    let facts = |machine: &str| {
        std::fs::remove_dir_all(sandbox.trace()).unwrap();
        calls(&sandbox, &library, &["3"], "later", machine);
        let seen = seen::read(&sandbox.trace());
        let [process] = &seen.processes[..] else { panic!("{:?}", seen.faults) };
        ["host", "boot_id", "kernel", "memory", "cores", "clock"].map(|key| process.fields.get(key).map(str::to_string))
    };
    let found = facts("");
    assert!(found.iter().all(|fact| fact.as_ref().is_some_and(|fact| !fact.is_empty())), "{found:?}");
    assert_eq!(facts(&told), found);
    assert_eq!(facts(&other_boot), found);
    assert_eq!(facts(&changed(6, "elsewhere")), found);
    assert_eq!(facts("nonsense"), found);
    // And inherited facts are recorded, if they are trusted.
    assert_eq!(facts(&changed(2, "99"))[4].as_deref(), Some("99"));
}

/// Many short-lived processes, one that is killed, and one that does more than the others.
const MANY: &str = "
for i in 0 1 2 3 4 5 6 7 8 9 a b c d e f g h i j; do ./reads 5 || exit 1; done
./reads 12000 || exit 1
sh -c 'echo x > f; kill -9 $$'
exit 0
";

#[test]
fn short_processes_share_a_complete_file() {
    let sandbox = Sandbox::new("short.shared").unwrap();
    build(&sandbox, READS, &sandbox.work());
    let traced = |folder: &str, convert: Option<&str>| {
        let mut command = Command::new(artefacts::command("dlio").unwrap());
        command.args(["trace", "-o", folder, "--", "sh", "-c", MANY]).env("DLIO_LIB", artefacts::library().unwrap());
        command.envs(convert.map(|value| ("DLIO_TRACE_CONVERT", value)));
        let run = sandbox.run(&mut command, true).unwrap();
        (run.exit, String::from_utf8_lossy(&run.errors).into_owned(), seen::read(&sandbox.work().join(folder)))
    };
    let ((exit, said, shared), (_, said_of_each, each)) = (traced("shared", None), traced("each", Some("exit")));
    assert_eq!((&exit[..], &shared.faults, shared.lost()), ("0", &vec![], 0), "{said}");
    let files: BTreeSet<_> = shared.processes.iter().map(|process| &process.path).collect();
    // The shared file of the short ones, the one that does more, and the leftovers of the killed one.
    assert_eq!(files.len(), 3, "{files:?}");
    assert_eq!(shared.processes.iter().filter(|process| process.ending == "killed").count(), 1);
    assert!(shared.processes.iter().all(|process| process.fields.get("converter").is_none() || process.has_ring));
    // The number of times the shell checks for ended children is random; the reads of the children are not.
    let told = |seen: &RecordedTrace| (seen.processes.len(), seen.count("pread"));
    assert_eq!((told(&shared), told(&each)), ((23, 12_100), (23, 12_100)));
    let processes = |said: &str| said.split(" recorded in ").next().map(str::to_string);
    assert_eq!(processes(&said), processes(&said_of_each), "{said}");
    assert!(said.contains("1 process was killed"), "{said}");
}

/// The native trace of a short-lived process is its renamed ring, for every reader; the ring of a killed one is not
/// renamed.
#[test]
fn a_native_trace_of_a_short_process_is_its_ring() {
    let sandbox = Sandbox::new("short.native").unwrap();
    build(&sandbox, READS, &sandbox.work());
    let mut command = Command::new("sh");
    command.args(["-c", "./reads 5; ./reads 12000; sh -c 'echo x > f; kill -9 $$'; exit 0"]);
    command.env("LD_PRELOAD", artefacts::library().unwrap());
    command.env("DLIO_TRACE_DIR", sandbox.trace()).env("DLIO_TRACE_FORMAT", "native");
    let run = sandbox.run(&mut command, true).unwrap();
    assert_eq!(run.exit, "0");
    let mut left = BTreeMap::new();
    for file in std::fs::read_dir(sandbox.trace()).unwrap().map(|entry| entry.unwrap().path()) {
        let (program, ending) = (file.file_name().unwrap().to_string_lossy().into_owned(), file.extension().unwrap());
        let head = String::from_utf8_lossy(&std::fs::read(&file).unwrap()[..8]).into_owned();
        let program = program.split('-').next().unwrap().to_string();
        *left.entry((program, ending.to_string_lossy().into_owned(), head)).or_insert(0) += 1;
    }
    let number = |program: &str, ending: &str, head: &str| {
        left.get(&(program.to_string(), ending.to_string(), head.to_string())).copied().unwrap_or(0)
    };
    assert_eq!((number("reads", "dlt", "DLIORING"), number("reads", "dlt", "DLIOTRC1")), (1, 1), "{left:?}");
    assert_eq!((number("sh", "ring", "DLIORING"), number("sh", "dlt", "DLIORING")), (1, 1), "{left:?}");
    let seen = seen::read(&sandbox.trace());
    assert_eq!((&seen.faults, seen.lost(), seen.count("pread")), (&vec![], 0, 12_005));
    let mut analyze = Command::new(artefacts::command("dlio-analyze").unwrap());
    analyze.arg(sandbox.trace()).args(["--format", "csv", "--sql"]);
    analyze.arg("select count(*) from events where name = 'pread'");
    let told = sandbox.run(&mut analyze, true).unwrap();
    let rows = String::from_utf8_lossy(&told.output).into_owned();
    assert_eq!(rows.lines().last(), Some("12005"), "{rows} {}", String::from_utf8_lossy(&told.errors));
}
