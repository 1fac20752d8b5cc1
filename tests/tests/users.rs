//! Tests two users on one host, one of them hostile: neither can prevent the other's trace, read it, or have it
//! written into the other's files. Users are made of numbers, which requires root; otherwise one user plays both as
//! far as possible.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use dlio_tests::compile::compile;
use dlio_tests::{artefacts, seen};

const VICTIM: u32 = 61_001;
const ATTACKER: u32 = 61_002;

/// Timeout: even a program that was made to wait without reason ends long before.
const PATIENCE: Duration = Duration::from_secs(300);

/// Reads a file 5,000 times; with an argument it waits for a file of that name, then reads again. With two arguments
/// the first time is short.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char byte;
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < (argc == 3 ? 10 : 5000); i++) if (pread(fd, &byte, 1, i) != 1) return 1;
    if (argc == 2 || argc == 3) {
        puts("ready");
        fflush(stdout);
        while (access(argv[1], F_OK) != 0) usleep(1000);
        for (int i = 0; i < 5000; i++) if (pread(fd, &byte, 1, i) != 1) return 1;
    }
    return 42;
}
"#;

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A directory that all users can access, with the library and the program in it.
struct Scene {
    folder: PathBuf,
}

impl Scene {
    fn new(name: &str) -> Scene {
        if !is_root() {
            eprintln!("not root: users cannot be made, so one user plays both");
        }
        let folder = std::env::temp_dir().join(format!("dlio-users-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir(&folder).unwrap();
        let scene = Scene { folder };
        scene.rights(&scene.folder, 0o755, 0);
        fs::copy(artefacts::library().unwrap(), scene.at("libdliotrace.so")).unwrap();
        fs::write(scene.at("program.c"), PROGRAM).unwrap();
        compile(&scene.at("program.c"), &scene.at("program"), &[]).unwrap();
        scene.make("work", 0o700, VICTIM);
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn rights(&self, path: &Path, mode: u32, user: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        if is_root() {
            chown(path, Some(user), Some(user)).unwrap();
        }
    }

    /// Creates a directory of a user.
    fn make(&self, name: &str, mode: u32, user: u32) -> PathBuf {
        fs::create_dir(self.at(name)).unwrap();
        self.rights(&self.at(name), mode, user);
        self.at(name)
    }

    /// Creates a file of a user.
    fn write(&self, name: &str, content: &str, user: u32) -> PathBuf {
        fs::write(self.at(name), content).unwrap();
        self.rights(&self.at(name), 0o600, user);
        self.at(name)
    }

    fn command(&self, program: &Path, user: u32) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.at("work")).stdout(Stdio::piped()).stderr(Stdio::piped());
        if is_root() {
            command.uid(user).gid(user);
        }
        command
    }

    /// Returns the victim's program with the library.
    fn traced(&self, arguments: &[&str], variables: &[(&str, &Path)]) -> Command {
        let mut command = self.command(&self.at("program"), VICTIM);
        command.args(arguments).env("LD_PRELOAD", self.at("libdliotrace.so")).env("DLIO_TRACE_FORMAT", "native");
        command.envs(variables.iter().copied());
        command
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Waits for the end, but not too long.
fn ended(mut child: Child) -> (ExitStatus, String) {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let message = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
            return (status, message);
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn run(mut command: Command) -> String {
    let (status, message) = ended(command.spawn().unwrap());
    assert_eq!(status.code(), Some(42), "{status}: {message}");
    message
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Copies a program in a separate process: a file that this process has open for writing cannot be executed by a
/// parallel test.
fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn files_named_like_rings_are_rejected() {
    let scene = Scene::new("spool");
    let (spool, trace) = (scene.make("spool", 0o1777, ATTACKER), scene.make("trace", 0o700, VICTIM));
    let precious = scene.write("precious", "theirs", VICTIM);
    // No process has these ids.
    mkfifo(&spool.join("a-host-999999991-1.ring"));
    symlink(&precious, spool.join("b-host-999999992-1.ring")).unwrap();
    let large = fs::File::create(spool.join("c-host-999999993-1.ring")).unwrap();
    large.set_len(20 << 30).unwrap();
    fs::create_dir(spool.join("d-host-999999994-1.ring")).unwrap();
    let before = files(&spool);
    before.iter().filter(|path| !path.is_symlink()).for_each(|path| scene.rights(path, 0o777, ATTACKER));
    let message = run(scene.traced(&[], &[("DLIO_TRACE_DIR", &trace), ("DLIO_TRACE_SPOOL", &spool)]));
    assert_eq!(message, "");
    let seen = seen::read(&trace);
    assert_eq!((seen.count("pread"), seen.lost(), seen.faults.len()), (5000, 0, 0), "{:?}", seen.faults);
    assert_eq!((files(&spool), fs::read_to_string(precious).unwrap()), (before, "theirs".into()));
}

#[test]
fn ring_of_another_user_is_not_moved() {
    if !is_root() {
        return eprintln!("not root: there is one user");
    }
    let scene = Scene::new("foreign");
    let (spool, trace) = (scene.make("spool", 0o1777, ATTACKER), scene.make("trace", 0o700, VICTIM));
    // A real ring that claims to belong to the victim's trace: the victim's own, killed; then given away.
    let variables: [(&str, &Path); 2] = [("DLIO_TRACE_DIR", &trace), ("DLIO_TRACE_SPOOL", &spool)];
    let mut child = scene.traced(&["never"], &variables).spawn().unwrap();
    wait_until_ready(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let [ring] = &files(&spool)[..] else { panic!("one ring") };
    assert_eq!((mode(ring), mode(&files(&trace)[0])), (0o600, 0o600));
    chown(ring, Some(ATTACKER), Some(ATTACKER)).unwrap();
    fs::set_permissions(ring, Permissions::from_mode(0o644)).unwrap();
    run(scene.traced(&[], &variables));
    assert!(ring.exists() && files(&trace).iter().all(|file| file.file_name() != ring.file_name()));
    // This ring, owned by the victim, is moved to the trace.
    chown(ring, Some(VICTIM), Some(VICTIM)).unwrap();
    run(scene.traced(&[], &variables));
    assert!(!ring.exists() && files(&trace).iter().any(|file| file.file_name() == ring.file_name()));
}

fn wait_until_ready(child: &mut Child) {
    let mut line = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    assert_eq!(&line, b"ready\n");
}

#[test]
fn planted_files_are_not_written_to() {
    for kind in ["symbolic link", "hard link", "pipe", "another file"] {
        let scene = Scene::new("swapped");
        // A group works in it together: all users may remove and rename everything.
        let trace = scene.make("trace", 0o777, VICTIM);
        let precious = scene.write("precious", "theirs", VICTIM);
        let mut child = scene.traced(&["go"], &[("DLIO_TRACE_DIR", &trace)]).spawn().unwrap();
        wait_until_ready(&mut child);
        let dlt = files(&trace).into_iter().find(|path| path.extension().is_some_and(|e| e == "dlt")).unwrap();
        fs::rename(&dlt, scene.at("taken")).unwrap();
        match kind {
            "symbolic link" => symlink(&precious, &dlt).unwrap(),
            "hard link" => fs::hard_link(&precious, &dlt).unwrap(),
            "pipe" => mkfifo(&dlt),
            _ => fs::write(&dlt, "theirs").unwrap(),
        }
        fs::write(scene.at("work/go"), "").unwrap();
        let (status, message) = ended(child);
        assert_eq!(status.code(), Some(42), "{kind}: {message}");
        assert!(message.contains("events were lost"), "{kind}: {message}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "theirs", "{kind}");
        if kind == "another file" {
            assert_eq!(fs::read_to_string(&dlt).unwrap(), "theirs");
        }
    }
}

#[test]
fn planted_file_is_reported_as_the_cause() {
    let scene = Scene::new("planted");
    let trace = scene.make("trace", 0o777, VICTIM);
    let mut child = scene.traced(&["go", "short"], &[("DLIO_TRACE_DIR", &trace)]).spawn().unwrap();
    wait_until_ready(&mut child);
    let planted = files(&trace)[0].with_extension("dlt");
    fs::write(&planted, "theirs").unwrap();
    scene.rights(&planted, 0o644, ATTACKER);
    fs::write(scene.at("work/go"), "").unwrap();
    let (status, message) = ended(child);
    assert_eq!(status.code(), Some(42), "{message}");
    let owner = if is_root() { format!("owned by user {ATTACKER}") } else { "owned by user".into() };
    for part in ["another file has its name", &planted.display().to_string(), &owner] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(fs::read_to_string(&planted).unwrap(), "theirs");
    let analyze = scene.at("dlio-analyze");
    copy_program(&artefacts::command("dlio-analyze").unwrap(), &analyze);
    let report = scene.command(&analyze, VICTIM).arg(&trace).env("HOME", scene.at("work")).output().unwrap();
    let text = String::from_utf8_lossy(&report.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("another file had the name of a trace file"), "{text}");
    assert!(!text.contains("disk of the trace directory was full"), "{text}");
}

#[test]
fn trace_is_private_unless_shared() {
    for (mask, folder_mode, file_mode) in
        [(None, 0o700, 0o600), (Some("022"), 0o755, 0o644), (Some("027"), 0o750, 0o640)]
    {
        let scene = Scene::new("rights");
        let trace = scene.at("work/trace/of/today");
        // Permissions removed by the shell's mask are restored if requested.
        let mut command = scene.command(Path::new("sh"), VICTIM);
        command.args(["-c", "umask 077; LD_PRELOAD=$LIBRARY exec \"$@\"", "sh"]).arg(scene.at("program"));
        command.args(["--password=hunter2", "--token", "hunter2"]);
        command.env("LIBRARY", scene.at("libdliotrace.so")).env("DLIO_TRACE_DIR", &trace);
        if let Some(mask) = mask {
            command.env("DLIO_TRACE_UMASK", mask);
        }
        run(command);
        let file = files(&trace).pop().unwrap();
        assert_eq!((mode(&trace), mode(trace.parent().unwrap()), mode(&file)), (folder_mode, folder_mode, file_mode));
        let bytes = fs::read(&file).unwrap();
        let holds = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        assert!(holds(b"--password=***") && holds(b"--token\0***"), "the arguments are in it");
        assert!(!holds(b"hunter2"));
        if is_root() {
            let mut reader = scene.command(Path::new("cat"), ATTACKER);
            let (status, _) = ended(reader.arg(&file).current_dir("/").stdout(Stdio::null()).spawn().unwrap());
            assert!(!status.success(), "the folder `work` is closed");
            fs::set_permissions(scene.at("work"), Permissions::from_mode(0o755)).unwrap();
            let mut reader = scene.command(Path::new("cat"), ATTACKER);
            let (status, _) = ended(reader.arg(&file).current_dir("/").stdout(Stdio::null()).spawn().unwrap());
            assert_eq!(status.success(), mask == Some("022"));
        }
    }
}

#[test]
fn planted_files_do_not_affect_the_reader() {
    let scene = Scene::new("reader");
    let trace = scene.make("trace", 0o777, VICTIM);
    run(scene.traced(&[], &[("DLIO_TRACE_DIR", &trace)]));
    let analyze = scene.at("dlio-analyze");
    copy_program(&artefacts::command("dlio-analyze").unwrap(), &analyze);
    let precious = scene.write("precious", "theirs", VICTIM);
    mkfifo(&trace.join(".dlio-cache"));
    let report = scene.at("work/report");
    symlink(&precious, &report).unwrap();
    let mut command = scene.command(&analyze, VICTIM);
    command.arg(&trace).args(["--format", "json", "-o"]).arg(&report).env("HOME", scene.at("work"));
    let (status, message) = ended(command.spawn().unwrap());
    assert!(status.success(), "{message}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "theirs");
    assert!(
        fs::read_to_string(&report).unwrap().contains("5000") || fs::read_to_string(&report).unwrap().contains("5,000")
    );
    let export = scene.at("work/all.pftrace");
    symlink(&precious, &export).unwrap();
    let mut command = scene.command(&analyze, VICTIM);
    let (status, message) = ended(command.arg(&trace).args(["--force", "--export"]).arg(&export).spawn().unwrap());
    assert!(status.success(), "{message}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "theirs");
}
