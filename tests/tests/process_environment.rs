//! Tests unusual programs: under another clock, with another C library, interpreted.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use dlio_schemas::native::fields::{Ending, key};
use dlio_tests::compile::compile;
use dlio_tests::sandbox::{Run, Sandbox};
use dlio_tests::{artefacts, seen};

/// Returns the path of a command; `make setup-test` installs those that are available everywhere.
fn found(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(command)).find(|file| file.is_file())
}

fn needed(command: &str) -> PathBuf {
    found(command).unwrap_or_else(|| panic!("needs {command}: `make setup-test` installs it"))
}

fn program(sandbox: &Sandbox, name: &str, text: &str) -> PathBuf {
    let (source, binary) = (sandbox.root().join(format!("{name}.c")), sandbox.root().join(name));
    fs::write(&source, text).unwrap();
    compile(&source, &binary, &[]).unwrap();
    binary
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const READS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char byte;
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < 5000; i++) if (pread(fd, &byte, 1, i) != 1) return 1;
    printf("%ld\n", time(NULL));
    return 42;
}
"#;

#[test]
fn interposed_clock_does_not_change_times() {
    let sandbox = Sandbox::new("process_environment.clock").unwrap();
    let binary = program(&sandbox, "reads", READS);
    let faketime = Command::new(needed("faketime")).args(["2001-02-03 04:05:06", "printenv", "LD_PRELOAD"]).output();
    let library = text(&faketime.unwrap().stdout).trim().to_string();
    let preload = format!("{}:{library}", artefacts::library().unwrap().display());
    let mut command = Command::new(&binary);
    command
        .env("LD_PRELOAD", preload)
        .env("FAKETIME", "@2001-02-03 04:05:06 x1000")
        .env("DLIO_TRACE_DIR", sandbox.trace());
    let run = sandbox.run(&mut command, true).unwrap();
    assert_eq!(run.exit, "42", "{}", text(&run.errors));
    assert!(text(&run.output).trim().parse::<i64>().unwrap() < 1_000_000_000, "the program sees the year 2001");
    let ns = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    let (began, ended) = (ns(run.began) - 20_000_000, ns(run.ended) + 20_000_000);
    let seen = seen::read(&sandbox.trace());
    assert_eq!(seen.count("pread"), 5000);
    for event in seen.events() {
        let end = event.start_ns + event.duration_ns as i64;
        assert!(event.start_ns >= began && end <= ended, "{event:?} outside of {began} to {ended}");
    }
}

fn dlio(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    command.args(["trace", "-o"]).arg(sandbox.trace()).arg("--").args(arguments);
    sandbox.run(command.env("DLIO_LIB", artefacts::library().unwrap()), true).unwrap()
}

/// Compiles a program with musl.
fn musl_program(sandbox: &Sandbox, name: &str, text: &str) -> String {
    let (source, binary) = (sandbox.root().join(format!("{name}.c")), sandbox.root().join(name));
    fs::write(&source, text).unwrap();
    let built = Command::new(needed("musl-gcc")).arg("-o").args([&binary, &source]).status().unwrap();
    assert!(built.success());
    binary.display().to_string()
}

const THREADS_OF_MUSL: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ready;
static void *reads(void *path) {
    char bytes[10];
    int fd = open(path, O_RDONLY);
    for (int i = 0; i < 50; i++) if (pread(fd, bytes, 5, 0) != 5) _exit(1);
    close(fd);
    pthread_mutex_lock(&mutex);
    ready++;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t threads[4];
    struct stat facts;
    char line[20];
    int status, number;
    if (argc > 2) return stat(argv[1], &facts) == 0 ? 42 : 1;
    for (int i = 0; i < 4; i++) if (pthread_create(&threads[i], NULL, reads, argv[1])) return 2;
    pthread_mutex_lock(&mutex);
    while (ready < 4) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    FILE *stream = fopen("made", "w+");
    fprintf(stream, "line %d\n", 7);
    rewind(stream);
    if (fscanf(stream, "line %d", &number) != 1 || number != 7) return 3;
    fclose(stream);
    stream = popen("cat made", "r");
    if (!fgets(line, sizeof line, stream) || strcmp(line, "line 7\n") || pclose(stream)) return 4;
    if (fork() == 0) execl(argv[0], argv[0], argv[1], "again", (char *)NULL);
    if (wait(&status) < 0 || !WIFEXITED(status)) return 5;
    puts("done");
    return WEXITSTATUS(status);
}
"#;

#[test]
fn musl_programs_are_traced_and_unchanged() {
    let sandbox = Sandbox::new("process_environment.musl").unwrap();
    let program = musl_program(&sandbox, "threads", THREADS_OF_MUSL);
    fs::write(sandbox.work().join("data"), "data\n").unwrap();
    let untraced = sandbox.run(Command::new(&program).arg("data"), true).unwrap();
    assert_eq!((untraced.exit.as_str(), text(&untraced.output).as_str()), ("42", "done\n"));
    let run = dlio(&sandbox, &[&program, "data"]);
    assert_eq!((run.exit.as_str(), text(&run.output).as_str()), ("42", "done\n"));
    assert!(!text(&run.errors).contains("is built for musl"), "{}", text(&run.errors));
    let seen = seen::read(&sandbox.trace());
    assert_eq!(seen.count("pread"), 200);
    let of_program = |process: &&seen::Process| process.fields.get(key::PROGRAM) == Some("threads");
    let processes: Vec<_> = seen.processes.iter().filter(of_program).collect();
    assert!(processes.len() >= 2, "the program, and what it becomes again: {}", processes.len());
    // Streams, by the layout of musl: their file, bytes and positions. The program starts with the shell of `popen`.
    let on_stream = |name: &str| {
        let events = processes.iter().flat_map(|process| &process.events);
        let is_on = |file: &Option<String>| file.as_deref().is_some_and(|file| file.ends_with("/made"));
        events
            .filter(|event| event.name == name && is_on(&event.file))
            .map(|event| (event.a, event.ret))
            .collect::<Vec<_>>()
    };
    assert_eq!(on_stream("fopen").len(), 1);
    assert_eq!(on_stream("fprintf"), [(Some(0), 7)]);
    assert_eq!(on_stream("fscanf"), [(Some(0), 6)]);
    assert_eq!(on_stream("fclose"), [(None, 0)]);
    assert!(processes.iter().any(|process| process.fields.ending() == Ending::Exited));
}

#[test]
fn musl_programs_start_from_any_program() {
    let sandbox = Sandbox::new("process_environment.tree").unwrap();
    let other = musl_program(&sandbox, "other", "#include <stdio.h>\nint main(void) { puts(\"other\"); return 42; }\n");
    // Deep in a process tree, by each way to start a program, as the interpreter of a script, and by a program that
    // is not traced.
    fs::write(sandbox.work().join("script"), format!("#!{other}\n")).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(sandbox.work().join("script")).status().unwrap().success());
    fs::write(sandbox.work().join("data"), "data\n").unwrap();
    let (source, starter) = (sandbox.root().join("starter.c"), sandbox.root().join("starter"));
    fs::write(&source, "#include <unistd.h>\nint main(int n, char **a) { execv(a[1], a + 1); return 1; }\n").unwrap();
    compile(&source, &starter, &["-static"]).unwrap();
    let line = format!("{other}; cat data; ./script; env {other}; {} {other}; exec {other}", starter.display());
    let run = dlio(&sandbox, &["sh", "-c", &line]);
    assert_eq!((run.exit.as_str(), text(&run.output).as_str()), ("42", "other\ndata\nother\nother\nother\nother\n"));
    assert!(!text(&run.errors).contains("relocating"), "{}", text(&run.errors));
    let seen = seen::read(&sandbox.trace());
    assert!(seen.events().any(|event| event.file.as_deref().is_some_and(|file| file.ends_with("/data"))));
}

/// As a shell would: `execvp` passes such a file to `sh`.
#[test]
fn script_without_an_interpreter_runs() {
    let sandbox = Sandbox::new("process_environment.script").unwrap();
    let script = sandbox.work().join("script");
    fs::write(&script, "cat < $0 > copy\nexit 42\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let run = dlio(&sandbox, &[&script.display().to_string()]);
    assert_eq!(run.exit, "42", "{}", text(&run.errors));
    assert_eq!(fs::read(sandbox.work().join("copy")).unwrap(), fs::read(&script).unwrap());
    assert!(seen::read(&sandbox.trace()).count("read") > 0);
}

#[test]
fn static_programs_are_reported() {
    let sandbox = Sandbox::new("process_environment.static").unwrap();
    let (source, binary) = (sandbox.root().join("static.c"), sandbox.root().join("static"));
    fs::write(&source, "int main(void) { return 42; }\n").unwrap();
    compile(&source, &binary, &["-static"]).unwrap();
    let run = dlio(&sandbox, &[&binary.display().to_string()]);
    assert_eq!(run.exit, "42");
    assert!(text(&run.errors).contains("is a static program"), "{}", text(&run.errors));
}

#[test]
fn untraceable_programs_are_reported() {
    let sandbox = Sandbox::new("process_environment.untraced").unwrap();
    let (source, binary) = (sandbox.root().join("quiet.c"), sandbox.work().join("quiet"));
    fs::write(&source, "int main(void) { return 42; }\n").unwrap();
    compile(&source, &binary, &["-static"]).unwrap();
    fs::write(sandbox.work().join("data"), "data\n").unwrap();
    let path = binary.display().to_string();
    // By its absolute path, by a relative one, and in a directory of the PATH.
    let line = format!("cat data; {path}; ./quiet; PATH={}:$PATH; exec quiet", sandbox.work().display());
    let run = dlio(&sandbox, &["sh", "-c", &line]);
    assert_eq!((run.exit.as_str(), text(&run.output).as_str()), ("42", "data\n"));
    let said = text(&run.errors);
    assert!(said.contains("3 processes ran a program that cannot be traced"), "{said}");
    assert!(said.contains(&format!("{path} (static: no library can be preloaded), 3 times")), "{said}");
    // About this run only, and about nothing else.
    let run = dlio(&sandbox, &["sh", "-c", "cat data"]);
    assert!(!text(&run.errors).contains("cannot be traced"), "{}", text(&run.errors));
    let list = fs::read_to_string(sandbox.trace().join("untraced.list")).unwrap();
    assert_eq!(list.lines().filter(|line| line.contains(" static /") && line.ends_with("quiet")).count(), 3, "{list}");
    // It is not a trace, and not damage to one.
    let analyzed =
        Command::new(artefacts::command("dlio-analyze").unwrap()).arg("--strict").arg(sandbox.trace()).output();
    assert!(analyzed.unwrap().status.success());
}

/// The loader ignores the library if the program runs as another user than the one who started it. Root's own
/// programs are not such programs, nor is one that gains nothing because of `no_new_privs`.
#[test]
fn programs_that_gain_privileges_are_reported_inside_a_tree() {
    let sandbox = Sandbox::new("process_environment.privileged").unwrap();
    let (source, binary) = (sandbox.root().join("quiet.c"), sandbox.work().join("gains"));
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("skipped: only root can make a program that gains another user's privileges");
        return;
    }
    let reads = "#include <fcntl.h>\n#include <unistd.h>\nint main(void) { char b; return read(open(\"data\", 0), &b, 1) == 1 ? 42 : 1; }\n";
    fs::write(&source, reads).unwrap();
    compile(&source, &binary, &[]).unwrap();
    fs::write(sandbox.work().join("data"), "data\n").unwrap();
    let own = sandbox.work().join("own");
    fs::copy(&binary, &own).unwrap();
    std::os::unix::fs::chown(&binary, Some(65534), None).unwrap();
    for path in [&binary, &own] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o4755)).unwrap();
    }
    let line = "./own; ./gains; setpriv --no-new-privs ./gains; exec ./own";
    let run = dlio(&sandbox, &["sh", "-c", line]);
    assert_eq!(run.exit, "42", "{}", text(&run.errors));
    let said = text(&run.errors);
    assert!(
        said.contains(&format!("{} (gains privileges: the loader ignores the library)\n", binary.display())),
        "{said}"
    );
    assert!(said.contains("1 process ran a program that cannot be traced"), "{said}");
    assert_eq!(seen::read(&sandbox.trace()).events().filter(|event| event.name == "read").count(), 3);
}

#[test]
fn process_title_is_not_a_program_name() {
    const TITLED: &str = r#"
#include <string.h>
#include <sys/stat.h>
int main(int argc, char **argv) {
    struct stat facts;
    strcpy(argv[0], "worker: process /etc/server/auto.conf");
    return stat("/etc/passwd", &facts) == 0 ? 42 : 1;
}
"#;
    let sandbox = Sandbox::new("process_environment.title").unwrap();
    let binary = program(&sandbox, "server", TITLED);
    let mut command = Command::new(&binary);
    command
        .arg("x".repeat(100))
        .env("LD_PRELOAD", artefacts::library().unwrap())
        .env("DLIO_TRACE_DIR", sandbox.trace());
    assert_eq!(sandbox.run(&mut command, true).unwrap().exit, "42");
    let [process] = &seen::read(&sandbox.trace()).processes[..] else { panic!("one process") };
    assert!(process.path.file_name().unwrap().to_string_lossy().starts_with("server-"), "{}", process.path.display());
}

#[test]
fn chrooted_children_are_traced_outside_the_root() {
    // Below a root without /proc a process cannot read its own name; the kernel's name for it is still available.
    const CONFINED: &str = r#"
#define _GNU_SOURCE
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct stat facts;
    int status;
    strcpy(argv[0], "worker: process of /etc/confined.conf");
    if (chroot(argv[1]) || chdir("/")) return 2;
    if (fork() == 0) {
        // Closes all descriptors of the program: those through which the trace is reached are not among them.
        closefrom(3);
        if (stat("/data", &facts)) _exit(3);
        if (fork() == 0) {
            for (int i = 0; i < 20000; i++) stat("/data", &facts);
            _exit(42);
        }
    }
    return wait(&status) > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}
"#;
    let sandbox = Sandbox::new("process_environment.confined").unwrap();
    let binary = program(&sandbox, "server", CONFINED);
    let root = sandbox.work().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("data"), "").unwrap();
    // A process with a new root is root in a user namespace of its own; the tools that lead there are not traced.
    const LINE: &str = "LD_PRELOAD=$LIBRARY exec \"$@\"";
    let mut command = Command::new(needed("unshare"));
    command.args(["--map-root-user", "sh", "-c", LINE, "sh"]).arg(&binary).arg(&root).arg("x".repeat(100));
    command.env("LIBRARY", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
    let run = sandbox.run(&mut command, true).unwrap();
    assert_eq!(run.exit, "42", "{}", text(&run.errors));
    // The program's own directory contains no file of the tracer.
    let names: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["data"]);
    let found = seen::read(&sandbox.trace());
    let stats =
        |process: &seen::Process| process.events.iter().filter(|event| event.file.as_deref() == Some("/data")).count();
    let mut counts: Vec<usize> = found.processes.iter().map(stats).collect();
    counts.sort();
    assert_eq!(counts, [0, 1, 20_000]);
    for process in &found.processes {
        let file = process.path.file_name().unwrap().to_string_lossy();
        assert!(file.starts_with("server-") && process.fields.get(key::PROGRAM) == Some("server"), "{file}");
    }
    // Each has ended, and no ring is left over.
    let left =
        fs::read_dir(sandbox.trace()).unwrap().flatten().filter(|file| file.path().extension().unwrap() == "ring");
    assert_eq!(left.count(), 0);
}

#[test]
fn failed_directory_is_reported_once() {
    let sandbox = Sandbox::new("process_environment.refused").unwrap();
    let binary = program(&sandbox, "reads", READS);
    fs::write(sandbox.work().join("file"), "").unwrap();
    for (folder, reason) in [("file/trace", "is not a directory"), ("/proc/dlio/a/b", "cannot be created")] {
        let mut command = Command::new(&binary);
        command.env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", folder);
        let run = sandbox.run(&mut command, true).unwrap();
        let message = text(&run.errors);
        assert_eq!((run.exit.as_str(), message.lines().count()), ("42", 1), "{message}");
        assert!(message.contains(reason) && message.contains(folder), "{message}");
    }
}

/// Runs a script that reads `data` and writes `out`; returns the files in the trace.
fn files_of(name: &str, interpreter: &Path, arguments: &[&str]) -> BTreeSet<String> {
    let sandbox = Sandbox::new(&format!("process_environment.{name}")).unwrap();
    let ruby = "require 'json'\nrequire 'csv'\nrequire 'fileutils'\nrequire 'time'\nd = File.read('data')\nFile.write('out', JSON.generate({a: d}))\n";
    let node = "const fs = require('fs'), zlib = require('zlib'), crypto = require('crypto');\nfs.writeFileSync('out', JSON.stringify({a: fs.readFileSync('data', 'utf8')}));\n";
    let java = "import java.nio.file.*;\npublic class T { public static void main(String[] a) throws Exception { Files.writeString(Paths.get(\"out\"), Files.readString(Paths.get(\"data\"))); } }\n";
    for (file, content) in [("data", "data\n"), ("t.rb", ruby), ("t.js", node), ("T.java", java)] {
        fs::write(sandbox.work().join(file), content).unwrap();
    }
    if name == "java" {
        let built = Command::new("javac").arg("T.java").current_dir(sandbox.work()).status().unwrap();
        assert!(built.success());
    }
    let mut command = Command::new(interpreter);
    command.args(arguments).env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
    let run = sandbox.run(&mut command, true).unwrap();
    assert_eq!(run.exit, "0", "{}", text(&run.errors));
    let seen = seen::read(&sandbox.trace());
    seen.events().filter(|event| event.is_path).filter_map(|event| event.file.clone()).collect()
}

#[test]
fn interpreter_files_are_excluded_and_data_kept() {
    // Directories on the path to a script are queried, as are the C library's files about the host.
    const MORE: usize = 20;
    for (name, arguments) in [("ruby", &["t.rb"][..]), ("node", &["t.js"]), ("java", &["-cp", ".", "T"])] {
        let interpreter = match (found(name), name) {
            (Some(path), _) => path,
            (None, "ruby") => needed("ruby"),
            (None, _) => {
                eprintln!("{name} is not installed: not tried");
                continue;
            }
        };
        if name == "java" && found("javac").is_none() {
            eprintln!("javac is not installed: not tried");
            continue;
        }
        let files = files_of(name, &interpreter, arguments);
        let has = |file: &str| files.iter().any(|path| path.ends_with(file));
        assert!(has("/data") && has("/out"), "{name}: {files:?}");
        assert!(files.len() <= MORE, "{name} shows {} files: {files:#?}", files.len());
    }
}

#[test]
fn pattern_variants_mean_the_same() {
    let sandbox = Sandbox::new("process_environment.patterns").unwrap();
    let work = sandbox.work();
    fs::create_dir_all(work.join("data/deep")).unwrap();
    fs::create_dir(work.join("other")).unwrap();
    std::os::unix::fs::symlink("data", work.join("link")).unwrap();
    for file in ["data/a.txt", "data/b.txt", "data/deep/c.txt", "other/a.txt"] {
        fs::write(work.join(file), file).unwrap();
    }
    let below_root = work.strip_prefix("/").unwrap().display().to_string();
    // The working directory, the pattern, and the files that are read then.
    let cases = [
        (".", "data/*.txt", "data/a.txt data/b.txt"),
        (".", "./data/*.txt", "data/a.txt data/b.txt"),
        ("other", "../data//*.txt", "data/a.txt data/b.txt"),
        (".", "data/", "data/a.txt data/b.txt data/deep/c.txt"),
        (".", "{data/[b-z],other/?}.txt", "data/b.txt other/a.txt"),
        ("/", "WORK/data/**", "data/a.txt data/b.txt data/deep/c.txt"),
        (".", "link/**", "data/a.txt data/b.txt data/deep/c.txt"),
    ];
    for (place, pattern, expected) in cases {
        let pattern = pattern.replace("WORK", &below_root);
        for (way, others) in [("--include", false), ("--exclude", true)] {
            let trace = sandbox.root().join("patterns");
            let mut command = Command::new(artefacts::command("dlio").unwrap());
            command
                .args(["trace", "-q", "--format", "native", "-o"])
                .arg(&trace)
                .args([way, &pattern, "--", "sh", "-c"]);
            let script =
                "cd \"$0\" && cat ./data/a.txt data/b.txt other/../data/deep/c.txt; cd other && cat ../other/a.txt";
            command.arg(script).arg(&work).current_dir(work.join(place));
            command.env("DLIO_LIB", artefacts::library().unwrap());
            let run = command.output().unwrap();
            assert!(run.status.success(), "{}", text(&run.stderr));
            let all = ["data/a.txt", "data/b.txt", "data/deep/c.txt", "other/a.txt"];
            let read = |file: &str| expected.split(' ').any(|one| one == file) != others;
            let expected: BTreeSet<String> = all.into_iter().filter(|file| read(file)).map(String::from).collect();
            let seen = seen::read(&trace);
            let found: BTreeSet<String> = seen
                .named("read")
                .filter_map(|event| Path::new(event.file.as_deref()?).strip_prefix(&work).ok())
                .map(|file| file.display().to_string())
                .collect();
            assert_eq!(found, expected, "{way} {pattern} in {place}");
            let _ = fs::remove_dir_all(&trace);
        }
    }
}
