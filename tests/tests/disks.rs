//! Tests full disks: nothing of an old file is lost, no partial file remains, and messages name the file and a
//! remedy.
//!
//! Each disk is a small tmpfs that is visible only to the commands of one test.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use dlio_tests::artefacts;
use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;

/// Reads its own file 5,000 times: 5,002 events, or the number of reads in its argument.
const READS: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char byte;
    int fd = open(argv[0], O_RDONLY), reads = argc > 1 ? atoi(argv[1]) : 5000;
    for (int i = 0; i < reads; i++) if (pread(fd, &byte, 1, i % 1000) != 1) return 1;
    return close(fd);
}
"#;

/// Reads its own file as often as the first argument says. After a third of that it creates a file `ready` and waits
/// for one named `go`; with a second argument it kills itself at its end. Everything else it does by direct system
/// calls.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static char **arguments;
static void *work(void *unused) {
    char byte;
    int fd = open(arguments[0], O_RDONLY), reads = atoi(arguments[1]);
    struct timespec nap = {0, 1000000};
    for (int i = 0; i < reads; i++) {
        if (i == reads / 3) {
            syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, "ready", O_CREAT | O_WRONLY, 0600));
            while (syscall(SYS_access, "go", F_OK)) syscall(SYS_nanosleep, &nap, 0);
        }
        if (pread(fd, &byte, 1, i % 1000) != 1) exit(1);
    }
    return unused;
}
int main(int argc, char **argv) {
    pthread_t thread;
    arguments = argv;
    if (argc > 2 && *argv[2] == 't') {
        pthread_create(&thread, 0, work, 0);
        pthread_exit(0);
    }
    work(0);
    if (argc > 2) syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    return 0;
}
"#;

/// Runs that program in the background until it waits, runs commands in the meantime, and waits for its end.
const MEANWHILE: &str = r#"
export DLIO_TRACE_DIR=$PWD/small/trace DLIO_TRACE_FORMAT=native
rm -f ready go
{ LD_PRELOAD=$library $waits $reads_made $ending; } 2> message & child=$!
while [ ! -e ready ]; do kill -0 $child || exit 90; sleep 0.005; done
eval "$meanwhile"
: > go; wait $child
$analyze small --no-cache --format json > report 2> complaint
$analyze small --no-cache > text 2>&1
exit 0"#;

/// The end of that program: by itself, killed, or by itself long after its first thread.
#[derive(Clone, Copy)]
enum Ending {
    Own,
    Kill,
    Thread,
}

/// A directory with a program to be traced and a mount point for a small disk.
struct Scene {
    sandbox: Sandbox,
    program: PathBuf,
    waits: PathBuf,
}

/// The result of a line of shell.
struct ShellResult {
    exit: String,
    message: String,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let sandbox = Sandbox::new(&format!("disks.{name}")).unwrap();
        let (source, program) = (sandbox.root().join("reads.c"), sandbox.root().join("reads"));
        fs::write(&source, READS).unwrap();
        compile(&source, &program, &[]).unwrap();
        let (source, waits) = (sandbox.root().join("waits.c"), sandbox.root().join("waits"));
        fs::write(&source, WAITS).unwrap();
        compile(&source, &waits, &[]).unwrap();
        fs::create_dir(sandbox.work().join("small")).unwrap();
        Scene { sandbox, program, waits }
    }

    /// Runs a line of shell with a disk of `size` at `small`. Its variables are `$reads`, `$dlio`, `$analyze` and
    /// `$library`.
    fn shell(&self, size: &str, line: &str) -> ShellResult {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c"]);
        command.arg(format!("mount -t tmpfs -o size={size} tmpfs small || exit 99\n{line}"));
        command.env("reads", &self.program).env("library", artefacts::library().unwrap());
        command.env("dlio", artefacts::command("dlio").unwrap());
        command.env("analyze", artefacts::command("dlio-analyze").unwrap());
        command.env("DLIO_LIB", artefacts::library().unwrap()).env("XDG_CACHE_HOME", self.sandbox.work().join("home"));
        let run = self.sandbox.run(&mut command, true).unwrap();
        let message = [run.output, run.errors].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        ShellResult { exit: run.exit, message }
    }

    /// Runs the program that waits; see [`MEANWHILE`].
    fn meanwhile(&self, size: &str, reads: u64, ending: Ending, meanwhile: &str) -> ShellResult {
        let ending = ["", "kill", "thread"][ending as usize];
        let set = format!("waits={} reads_made={reads} ending={ending} meanwhile='{meanwhile}'", self.waits.display());
        let left = self.shell(size, &format!("{set}\n{MEANWHILE}"));
        assert_eq!(left.exit, "0", "{meanwhile}: {}", left.message);
        left
    }

    /// Returns events and losses of the report of the last program.
    fn counted(&self) -> (u64, u64) {
        let report = self.file("report");
        let allocation = report.split_once("\"allocation\":").map_or("", |(_, rest)| rest);
        let number = |key: &str| {
            let rest = allocation.split_once(&format!("\"{key}\": ")).map_or("", |(_, rest)| rest);
            rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(0)].parse().unwrap_or(0)
        };
        (number("events"), number("lost"))
    }

    fn file(&self, name: &str) -> String {
        let path = self.sandbox.work().join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Creates a trace on the large disk.
    fn trace(&self, folder: &str, form: &str, reads: usize) {
        let mut command = Command::new(&self.program);
        command.arg(reads.to_string()).env("LD_PRELOAD", artefacts::library().unwrap());
        command.env("DLIO_TRACE_DIR", self.sandbox.work().join(folder)).env("DLIO_TRACE_FORMAT", form);
        assert_eq!(self.sandbox.run(&mut command, true).unwrap().exit, "0");
    }
}

#[test]
fn complete_loss_is_reported_with_its_cause() {
    let scene = Scene::new("lost");
    let left = scene.shell(
        "4k",
        "echo full > small/filler
         LD_PRELOAD=$library DLIO_TRACE_DIR=small/trace $reads 2>message; ls small/trace > names
         $analyze small/trace > report 2>&1 || exit 1
         $analyze small/trace --html page > page-message 2>&1 || exit 2
         $analyze small/trace --strict > strict 2>&1; [ $? = 3 ] || exit 3
         $analyze small/trace --export all.pftrace > export 2>&1 && exit 4
         $analyze small/trace --pid 1 > filtered 2>&1
         $analyze small/trace --compare small/trace > compared 2>&1 && exit 5
         exit 0",
    );
    assert_eq!(left.exit, "0", "{}", left.message);
    assert!(scene.file("message").contains("5002 events were lost"), "{}", scene.file("message"));
    assert!(scene.file("names").contains(".lost-5002-28.ring"), "{}", scene.file("names"));
    for name in ["report", "page", "strict", "export", "filtered"] {
        let text = scene.file(name).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("5,002 events were lost"), "{name}: {text}");
        assert!(text.contains("disk of the trace directory was full") && text.contains("free space"), "{name}: {text}");
        assert!(!text.contains("no calls that are traced"), "{name}: {text}");
    }
    assert!(scene.file("compared").contains("all 5,002 were lost"), "{}", scene.file("compared"));
}

#[test]
fn closed_stderr_hides_no_loss() {
    let scene = Scene::new("unsaid");
    let left = scene.shell(
        "300k",
        "$dlio trace -o small/trace -- sh -c 'exec find /usr -maxdepth 4 2>&- > /dev/null' 2> message
         $analyze small/trace --findings --no-cache > found
         $dlio trace -o none --include '/nothing/**' -- true 2> nothing",
    );
    assert_eq!(left.exit, "0", "{}", left.message);
    assert!(
        scene.file("message").contains("events were lost; dlio-analyze shows in which"),
        "{}",
        scene.file("message")
    );
    let found = scene.file("found").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(found.contains("events were lost ") && found.contains("space on the disk of the trace"), "{found}");
    let nothing = scene.file("nothing");
    assert!(nothing.contains("no file matched --include /nothing/**") && !nothing.contains("--all"), "{nothing}");
}

#[test]
fn stranded_ring_is_reported_and_moved_later() {
    let scene = Scene::new("stranded");
    let left = scene.shell(
        "64k",
        "export DLIO_TRACE_SPOOL=$PWD/spool
         $dlio trace -o small/trace -- sh -c 'echo $$ > pid; exec 7< /etc/passwd
             head -c 1m /dev/zero > small/filler 2> /dev/null; kill -9 $$' 2> message
         ls spool > stranded; rm small/filler
         $dlio trace -o small/trace -- true 2> later; ls spool > after; ls small/trace > names",
    );
    assert_eq!(left.exit, "0", "{}", left.message);
    let (message, killed) = (scene.file("message"), format!("-{}-", scene.file("pid").trim()));
    assert!(
        scene.file("stranded").contains(&killed)
            && message.contains("killed or ran out of space; the recorded events are in"),
        "{message}"
    );
    assert!(message.contains("No space left on device") && message.contains("Free some space; the next"), "{message}");
    assert!(!message.contains("nothing was recorded"), "{message}");
    assert!(
        !scene.file("later").contains("recorded events are in") && scene.file("after").is_empty(),
        "{}",
        scene.file("later")
    );
    assert!(scene.file("names").contains(&killed), "{}", scene.file("names"));
}

/// Asserts that a directory contains only the files from before a result that could not be written.
fn holds_only(folder: &str, names: [&str; 2]) {
    let (mut found, mut names): (Vec<_>, Vec<_>) = (folder.lines().collect(), names.to_vec());
    found.sort_unstable();
    names.sort_unstable();
    assert_eq!(found, names);
}

#[test]
fn failed_export_keeps_the_old_file() {
    let scene = Scene::new("exports");
    scene.trace("trace", "native", 200_000);
    // Formats whose whole output does not fit on the disk, each replacing an old file.
    for (option, name) in [
        ("--compress none --export", "all.pftrace"),
        ("--compress none --export", "all.tar"),
        ("--export", "all.json"),
        ("--export", "all.pfw"),
        ("--html", "report.html"),
        ("--format json -o", "report.json"),
        ("--sql 'select * from events' -o", "rows.txt"),
        ("--sql 'select * from events' --format arrow -o", "rows.arrow"),
    ] {
        let force = if option.ends_with("-o") { "" } else { "--force" };
        let left = scene.shell(
            "32k",
            &format!(
                "echo old > small/{name}; mkdir small/other; head -c 20k /dev/zero > small/other/filler
                 $analyze trace --no-cache {force} {option} small/{name} > message 2>&1; echo $? > status
                 cat small/{name} > content; ls -A small > names"
            ),
        );
        assert_eq!(left.exit, "0", "{name}: {}", left.message);
        let (message, status) = (scene.file("message"), scene.file("status"));
        assert_eq!(status.trim(), "1", "{option}: {message}");
        assert_eq!(scene.file("content"), "old\n", "{option}");
        holds_only(&scene.file("names"), [name, "other"]);
        let sentence = message.lines().find(|line| line.contains("No space left on device"));
        let sentence = sentence.unwrap_or_else(|| panic!("{option}: {message}"));
        assert!(sentence.contains(&format!("small/{name}")), "{option}: {sentence}");
        assert!(sentence.contains("free some space"), "{option} names no remedy: {sentence}");
    }
}

#[test]
fn failed_parquet_leaves_no_partial_directory() {
    let scene = Scene::new("parquet");
    scene.trace("trace", "native", 200_000);
    for folder in ["small/tables", "small"] {
        let left = scene.shell(
            "64k",
            &format!(
                "$analyze trace --no-cache --parquet {folder} > message 2>&1; echo $? > status
                 find small -type f > left; ls -A small > names
                 rm -rf small/filler; mount -o remount,size=100m small
                 $analyze trace --no-cache --parquet {folder} > again 2>&1; echo $? > status-again"
            ),
        );
        assert_eq!(left.exit, "0", "{folder}: {}", left.message);
        let message = scene.file("message");
        assert_eq!(scene.file("status").trim(), "1", "{folder}: {message}");
        assert_eq!((scene.file("left").as_str(), scene.file("names").as_str()), ("", ""), "{folder}");
        let sentence = message.lines().find(|line| line.contains("No space left on device"));
        let sentence = sentence.unwrap_or_else(|| panic!("{folder}: {message}"));
        assert!(sentence.contains(folder) && sentence.contains("free some space"), "{folder}: {sentence}");
        assert_eq!(scene.file("status-again").trim(), "0", "{folder}: {}", scene.file("again"));
    }
}

#[test]
fn full_disk_costs_only_the_cache() {
    let scene = Scene::new("cache");
    // Enough events to be worth keeping; and a trace old enough to be trusted.
    let left = scene.shell(
        "12m",
        "LD_PRELOAD=$library DLIO_TRACE_DIR=$PWD/small/trace DLIO_TRACE_FORMAT=native $reads 1000500 || exit 1
         touch -d '1 minute ago' small/trace/*
         head -c 100m /dev/zero > small/filler 2> /dev/null; echo > home
         $analyze small/trace > first 2>&1 || exit 2
         ls -A small/trace > names; rm small/filler
         $analyze small/trace > second 2>&1 || exit 3
         $analyze small/trace > third 2>&1 || exit 4",
    );
    assert_eq!(left.exit, "0", "{} {}", left.message, scene.file("first"));
    let names = scene.file("names");
    assert!(names.lines().count() == 1 && names.trim().ends_with(".dlt"), "{names}");
    assert!(scene.file("first").contains("1,000,502 events"), "{}", scene.file("first"));
    assert_eq!(scene.file("first"), scene.file("second"));
    assert!(scene.file("third").contains("From an earlier run"), "{}", scene.file("third"));
}

#[test]
fn failed_conversion_keeps_its_source() {
    for form in ["auto", "perfetto", "chrome"] {
        let scene = Scene::new(&format!("conversion.{form}"));
        // The ring is removed when the trace is complete; a filler that takes its space leaves none for the new
        // format.
        let left = scene.shell(
            "320k",
            &format!(
                "export DLIO_TRACE_SPOOL=$PWD/spool
                 LD_PRELOAD=$library DLIO_TRACE_DIR=$PWD/small/trace DLIO_TRACE_FORMAT=native $reads 60000 2> /dev/null
                 size=$(stat -c %s small/trace/*.dlt); rm -r small/trace
                 head -c $((320 * 1024 - size - size / 3)) /dev/zero > small/filler
                 LD_PRELOAD=$library DLIO_TRACE_DIR=$PWD/small/trace DLIO_TRACE_FORMAT={form} $reads 60000 2> message
                 echo $? > status; ls -A small/trace > names; ls -A spool > spooled
                 $analyze small/trace --no-cache --strict --format json > report 2> complaint; echo $? > strict"
            ),
        );
        assert_eq!((left.exit.as_str(), scene.file("status").trim()), ("0", "0"), "{form}: {}", left.message);
        let names = scene.file("names");
        assert!(names.lines().count() == 1 && names.trim().ends_with(".dlt"), "{form}: {names}");
        assert_eq!(scene.file("spooled"), "", "{form}");
        let report = scene.file("report");
        assert!(report.contains("\"events\": 60002") && report.contains("\"lost\": 0"), "{form}: {report}");
        assert_eq!(scene.file("strict").trim(), "0", "{form}: {}", scene.file("complaint"));
    }
}

/// Calls of the program that waits: the reads, and one open.
const READS_MADE: u64 = 60_000;
const CALLS: u64 = READS_MADE + 1;

#[test]
fn events_in_removed_files_count_as_lost() {
    let scene = Scene::new("removed");
    for (meanwhile, names_ring) in
        [("rm small/trace/*.dlt", true), ("rm small/trace/*", false), ("rm -r small/trace; mkdir small/trace", false)]
    {
        scene.meanwhile("64m", READS_MADE, Ending::Own, meanwhile);
        assert_eq!(scene.counted(), (0, CALLS), "{meanwhile}: {}", scene.file("message"));
        let message = scene.file("message");
        assert!(message.contains(&format!(
            "{CALLS} events were lost (the directory is missing or cannot be created, or files of the trace were removed"
        )));
        assert_eq!(message.contains(".ring"), names_ring, "{meanwhile}: {message}");
        let text = scene.file("text").replace('\n', " ");
        assert!(text.contains("60,001 events were lost") && text.contains("removed or renamed"), "{text}");
        assert!(!text.contains("disk of the trace directory was full"), "{text}");
    }
}

#[test]
fn removed_blocks_of_a_killed_process_are_lost() {
    let scene = Scene::new("removed.killed");
    for meanwhile in ["rm small/trace/*.dlt", "truncate -s 3000 small/trace/*.dlt", "truncate -s 16 small/trace/*.dlt"]
    {
        scene.meanwhile("64m", READS_MADE, Ending::Kill, meanwhile);
        let (events, lost) = scene.counted();
        assert_eq!(events + lost, CALLS, "{meanwhile}: {events} and {lost}; {}", scene.file("complaint"));
        assert!(lost > CALLS / 4 && scene.file("complaint").contains("no event is missing beyond the lost ones"));
        assert!(!scene.file("text").contains("no calls that are traced"), "{}", scene.file("text"));
    }
}

#[test]
fn renamed_directory_is_followed() {
    let scene = Scene::new("renamed");
    for ending in [Ending::Own, Ending::Kill, Ending::Thread] {
        scene.meanwhile("64m", READS_MADE, ending, "mv small/trace small/elsewhere");
        assert_eq!(scene.counted(), (CALLS, 0), "{}", scene.file("complaint"));
        let message = scene.file("message");
        assert!(message.contains("renamed") && message.contains("/small/elsewhere/"), "{message}");
        assert!(!message.contains("this process has no trace"), "{message}");
    }
}

#[test]
fn kill_on_full_disk_reports_all_losses() {
    let scene = Scene::new("killed");
    for size in ["16k", "64k"] {
        scene.meanwhile(size, 300_000, Ending::Kill, ":");
        let (events, lost) = scene.counted();
        assert!(events + lost <= 300_001 && events + lost + 4096 >= 300_001, "{size}: {events} and {lost}");
        assert!(scene.file("complaint").contains("at most 4,096 events lost"), "{size}: {}", scene.file("complaint"));
        let remark = "events were lost: the disk of the trace directory was full";
        assert!(scene.file("report").contains(remark), "{size}: {}", scene.file("report"));
    }
}

#[test]
fn stranded_counts_are_lost_until_moved() {
    let scene = Scene::new("counts");
    let left = scene.shell(
        "4k",
        "export DLIO_TRACE_SPOOL=$PWD/spool DLIO_TRACE_DIR=$PWD/small/trace DLIO_TRACE_FORMAT=native
         LD_PRELOAD=$library DLIO_TRACE_MODE=summary $reads 58280 2> message
         $analyze small/trace --no-cache --format json > report 2> complaint || exit 1
         mount -o remount,size=8m small
         LD_PRELOAD=$library $reads 10
         $analyze small/trace --no-cache --format json > later 2> complaint || exit 2",
    );
    assert_eq!(left.exit, "0", "{}", left.message);
    assert_eq!(scene.counted(), (0, 58_282), "{}", scene.file("complaint"));
    let message = scene.file("message");
    assert!(message.contains("cannot write the trace (no space left)") && message.contains("/spool/"), "{message}");
    assert!(scene.file("later").contains(&format!("\"events\": {}", 58_282 + 12)), "{}", scene.file("later"));
}

#[test]
fn counts_without_space_remain_as_events() {
    let scene = Scene::new("few");
    let left = scene.shell(
        "16k",
        "export DLIO_TRACE_DIR=$PWD/small/trace DLIO_TRACE_FORMAT=native
         LD_PRELOAD=$library DLIO_TRACE_MODE=summary $reads 50 2> message
         $analyze small/trace --no-cache --format json > report 2> complaint || exit 1",
    );
    assert_eq!(left.exit, "0", "{} {}", left.message, scene.file("complaint"));
    assert_eq!(scene.counted(), (52, 0), "{}", scene.file("complaint"));
}

#[test]
fn report_gives_the_actual_reason() {
    let scene = Scene::new("reasons");
    // Four descriptors are permitted: the shell's redirections take three, and the program the last one.
    for (limit, said, remark) in [
        ("-n 4", "no descriptor left", "out of file descriptors"),
        ("-f 16", "the file size limit", "the file size limit was reached"),
    ] {
        let left = scene.shell(
            "8m",
            &format!(
                "export DLIO_TRACE_DIR=$PWD/small/trace DLIO_TRACE_FORMAT=native
                 sh -c 'exec 2> message; ulimit {limit}; LD_PRELOAD=$library exec $reads 100000'
                 $analyze small/trace --no-cache --section damage > damage 2>&1; exit 0"
            ),
        );
        assert_eq!(left.exit, "0", "{}", left.message);
        let (message, damage) = (scene.file("message"), scene.file("damage").replace('\n', " "));
        assert!(message.contains(said), "{limit}: {message}");
        assert!(damage.contains(remark) && !damage.contains("was full"), "{limit}: {damage}");
    }
}
