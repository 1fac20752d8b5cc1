//! Tests `dlio trace --ptrace-static`: programs that the library cannot enter behave as without it, and their calls are
//! recorded exactly.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use dlio_tests::artefacts;
use dlio_tests::compile::compile;
use dlio_tests::sandbox::{Run, Sandbox};
use dlio_tests::seen::{self, RecordedTrace};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compiles a program without a loader.
fn static_program(sandbox: &Sandbox, name: &str, source: &str) -> PathBuf {
    let (path, binary) = (sandbox.root().join(format!("{name}.c")), sandbox.work().join(name));
    fs::write(&path, source).unwrap();
    compile(&path, &binary, &["-static", "-pthread"]).unwrap();
    binary
}

fn command(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    command.env("DLIO_LIB", artefacts::library().unwrap()).args([
        "trace",
        "--ptrace-static",
        "--format",
        "native",
        "-o",
    ]);
    command.arg(sandbox.trace()).arg("--").args(arguments);
    command
}

fn traced(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    sandbox.run(&mut command(sandbox, arguments), true).unwrap()
}

/// Returns the recorded calls of a kind on files below the working directory: their number and the sum of results.
fn calls(seen: &RecordedTrace, name: &str, file: &str) -> (usize, i64) {
    let is_on = |path: &Option<String>| path.as_deref().is_some_and(|path| path.ends_with(file));
    let found: Vec<i64> = seen.named(name).filter(|event| is_on(&event.file)).map(|event| event.ret).collect();
    (found.len(), found.iter().sum())
}

const THREADS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
static void *reads(void *unused) {
    char bytes[100];
    for (int i = 0; i < 300; i++) {
        int fd = open("data", O_RDONLY);
        struct iovec parts[2] = {{bytes, 10}, {bytes + 10, 20}};
        if (read(fd, bytes, 100) != 100 || pread(fd, bytes, 7, 3) != 7 || readv(fd, parts, 2) != 30) return unused;
        if (lseek(fd, 5, SEEK_SET) != 5 || read(fd, bytes, 1) != 1) return unused;
        close(fd);
    }
    return NULL;
}
int main(void) {
    pthread_t threads[4];
    int fd = open("data", O_WRONLY | O_CREAT, 0600);
    char bytes[1000] = {0};
    if (write(fd, bytes, 1000) != 1000 || fsync(fd)) return 1;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, reads, bytes);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        if (failed) return 2;
    }
    struct stat facts;
    if (stat("absent", &facts) == 0 || rename("data", "renamed") || unlink("renamed")) return 3;
    return 42;
}
"#;

#[test]
fn calls_of_all_threads_of_a_static_program_are_recorded() {
    let sandbox = Sandbox::new("ptrace.threads").unwrap();
    let binary = static_program(&sandbox, "threads", THREADS);
    let run = traced(&sandbox, &[&binary.display().to_string()]);
    assert_eq!(run.exit, "42", "{}", text(&run.errors));
    assert!(
        text(&run.errors).contains("1 program that the library cannot enter was recorded by ptrace"),
        "{}",
        text(&run.errors)
    );
    assert!(!text(&run.errors).contains("cannot be traced"), "{}", text(&run.errors));
    let seen = seen::read(&sandbox.trace());
    assert_eq!(seen.lost(), 0);
    let opened = calls(&seen, "openat", "/data").0 + calls(&seen, "open", "/data").0;
    assert_eq!((opened, calls(&seen, "close", "/data").0), (1201, 1200));
    assert_eq!(calls(&seen, "read", "/data"), (2400, 1200 * 101));
    assert_eq!((calls(&seen, "pread", "/data"), calls(&seen, "readv", "/data")), ((1200, 8400), (1200, 36000)));
    assert_eq!((calls(&seen, "write", "/data"), calls(&seen, "fsync", "/data").0), ((1, 1000), 1));
    assert_eq!((calls(&seen, "rename", "/data").0, calls(&seen, "unlink", "/renamed").0), (1, 1));
    let positions: Vec<i64> = seen.named("readv").filter_map(|event| event.a).collect();
    assert!(positions.len() == 1200 && positions.iter().all(|position| *position == 100), "{positions:?}");
    let failed: Vec<i64> = seen.events().filter(|event| event.ret < 0).map(|event| event.ret).collect();
    assert_eq!(failed, [-2]);
    let threads: std::collections::BTreeSet<_> = seen.named("pread").map(|event| event.tid).collect();
    assert_eq!(threads.len(), 4);
    assert!(seen.processes.iter().any(|process| process.fields.get("recorded_by") == Some("ptrace")));
}

/// Prints the effects of signals, vfork, job control, kill and ptrace.
const BEHAVES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int received;
static void count(int signal) { received++; }
static int debugs(void) {
    int status, child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(1);
        raise(SIGSTOP);
        _exit(open("data", O_RDONLY) < 0 ? 2 : 9);
    }
    waitpid(child, &status, 0);
    printf("debugged child stopped: %d\n", WIFSTOPPED(status));
    ptrace(PTRACE_CONT, child, 0, 0);
    waitpid(child, &status, 0);
    printf("debugged child exited: %d\n", WEXITSTATUS(status));
    child = fork();
    if (child == 0) for (;;) pause();
    printf("attached: %ld\n", ptrace(PTRACE_ATTACH, child, 0, 0));
    waitpid(child, &status, 0);
    ptrace(PTRACE_DETACH, child, 0, 0);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    printf("ended by %d\n", WTERMSIG(status));
    return 42;
}
int main(int count_of_arguments, char **arguments) {
    int status, ends[2];
    char byte;
    if (count_of_arguments > 1 && !strcmp(arguments[1], "debugs")) return debugs();
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
    if (pipe(ends)) return 1;
    alarm(1);
    int result = read(ends[0], &byte, 1);
    printf("%d signals, read %d, interrupted %d\n", received, result, errno == EINTR);
    int child = vfork();
    if (child == 0) { execl("/bin/sh", "sh", "-c", "exit 3", (char *)0); _exit(127); }
    waitpid(child, &status, 0);
    printf("vfork: %d\n", WEXITSTATUS(status));
    child = fork();
    if (child == 0) { raise(SIGSTOP); _exit(8); }
    waitpid(child, &status, WUNTRACED);
    printf("stopped: %d by %d\n", WIFSTOPPED(status), WSTOPSIG(status));
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
    printf("exited: %d\n", WEXITSTATUS(status));
    child = fork();
    if (child == 0) for (;;) close(open("data", O_RDONLY));
    usleep(20000);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    printf("killed by %d\n", WTERMSIG(status));
    fflush(stdout);
    raise(SIGTERM);
    return 1;
}
"#;

#[test]
fn signals_job_control_and_debuggers_work_as_without_the_option() {
    let sandbox = Sandbox::new("ptrace.behaves").unwrap();
    let binary = static_program(&sandbox, "behaves", BEHAVES).display().to_string();
    for mode in ["", "debugs"] {
        fs::write(sandbox.work().join("data"), "data\n").unwrap();
        let alone = sandbox.run(Command::new(&binary).arg(mode), true).unwrap();
        let run = traced(&sandbox, &[&binary, mode]);
        assert_eq!(text(&run.output), text(&alone.output), "{mode}: {}", text(&run.errors));
        let ending = if mode.is_empty() { "143" } else { "42" };
        assert_eq!(run.exit, ending, "{mode}: {}", text(&run.errors));
    }
    let list = fs::read_to_string(sandbox.trace().join("untraced.list")).unwrap();
    assert_eq!(list.lines().filter(|line| line.contains(" own-ptrace ")).count(), 2, "{list}");
}

const CHILD: &str = r#"
#include <fcntl.h>
#include <unistd.h>
int main(void) { char byte; return read(open("data", O_RDONLY), &byte, 1) == 1 ? 42 : 1; }
"#;

/// Every way to start a program: fork, vfork and `posix_spawn` in a traced program, and exec by a program that ptrace
/// records. A program that the library enters is recorded by the library alone, also below a static one.
#[test]
fn static_programs_are_recorded_however_they_are_started() {
    const STARTS: &str = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **arguments) {
    int status, child;
    char *program[] = {arguments[1], NULL};
    if ((child = fork()) == 0) { execv(program[0], program); _exit(127); }
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 42) return 1;
    if ((child = vfork()) == 0) { execv(program[0], program); _exit(127); }
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 42) return 2;
    if (posix_spawn(&child, program[0], NULL, NULL, program, environ)) return 3;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 42) return 4;
    if (posix_spawn(&child, "./absent", NULL, NULL, program, environ) == 0) return 5;
    execv("./absent", program);
    execv(program[0], program);
    return 6;
}
"#;
    let sandbox = Sandbox::new("ptrace.starts").unwrap();
    static_program(&sandbox, "child", CHILD);
    static_program(&sandbox, "static_starts", STARTS);
    let source = sandbox.root().join("static_starts.c");
    compile(&source, &sandbox.work().join("starts"), &[]).unwrap();
    compile(&sandbox.root().join("child.c"), &sandbox.work().join("dynamic_child"), &[]).unwrap();
    fs::write(sandbox.work().join("data"), "data\n").unwrap();
    let cases =
        [("./starts", "./child", 4), ("./static_starts", "./child", 4), ("./static_starts", "./dynamic_child", 0)];
    for (starter, child, by_ptrace) in cases {
        fs::remove_dir_all(sandbox.trace()).ok();
        let run = traced(&sandbox, &[starter, child]);
        assert_eq!(run.exit, "42", "{starter} {child}: {}", text(&run.errors));
        let seen = seen::read(&sandbox.trace());
        assert_eq!(calls(&seen, "read", "/data"), (4, 4), "{starter} {child}");
        let read = |process: &&seen::Process| process.events.iter().any(|event| event.name == "read");
        let from_outside = |process: &&seen::Process| process.fields.get("recorded_by") == Some("ptrace");
        let recorded = seen.processes.iter().filter(read).filter(from_outside).count();
        assert_eq!(recorded, by_ptrace, "{starter} {child}: {}", text(&run.errors));
    }
}

/// The kernel lets tracees run on when their tracer ends.
#[test]
fn program_survives_the_death_of_the_supervisor() {
    const SLOW: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    char byte;
    puts("runs");
    fflush(stdout);
    for (int i = 0; i < 200; i++) { int fd = open("data", O_RDONLY); if (read(fd, &byte, 1) != 1) return 1; close(fd); usleep(10000); }
    return 42;
}
"#;
    let sandbox = Sandbox::new("ptrace.supervisor").unwrap();
    let binary = static_program(&sandbox, "slow", SLOW);
    fs::write(sandbox.work().join("data"), "data\n").unwrap();
    let script = "\"$@\" & while ! t=$(grep -s TracerPid: /proc/$!/status) || [ \"$t\" = 'TracerPid:\t0' ]; do :; done; \
        kill -9 ${t#*:}; wait $!";
    let run = traced(&sandbox, &["bash", "-c", script, "bash", &binary.display().to_string()]);
    assert_eq!((run.exit.as_str(), text(&run.output).as_str()), ("42", "runs\n"), "{}", text(&run.errors));
}
