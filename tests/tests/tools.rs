//! Tests common programs, each run three times: alone, under strace, and traced. They must have the same output and
//! leave the same files, and the trace must agree with the system calls.
//!
//! strace sees system calls, the trace sees calls of the C library. If they differ, the difference is known and
//! listed in [`ROWS`]: `opendir` calls `openat` and `newfstatat`, a stream reads when its buffer is empty. Only files
//! in the working directory are compared: the loader's own files are opened by calls that no library can see.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use dlio_tests::sandbox::{Run, Sandbox};
use dlio_tests::{artefacts, seen};
use libtest_mimic::{Arguments, Failed, Trial};

/// One kind of request to the kernel.
struct Row {
    what: &'static str,
    /// Names of system calls.
    asked: &'static [&'static str],
    /// Names of events, each of which is one such call; listed twice if it is two.
    recorded: &'static [&'static str],
    /// Names of events that may make one more such call inside the C library.
    may_ask: &'static [&'static str],
}

/// Events of streams that read, write or seek when their buffer requires it and not when the program does.
const STREAMS: &[&str] = &[
    "fopen", "fdopen", "fread", "fgets", "fgetc", "getline", "getdelim", "fwrite", "fputs", "fputc", "puts", "fprintf",
    "printf", "fflush", "fseek", "fclose", "ftell", "rewind", "freopen", "fscanf", "setvbuf",
];

/// A directory that could not be opened: it caused no further call.
const FAILED: &str = "failed opendir";

const MORE_STATS: &[&str] =
    &["fopen", "fread", "fgets", "fgetc", "getline", "getdelim", "fwrite", "fputs", "fprintf", "fchmodat"];

const ROWS: &[Row] = &[
    row(
        "open",
        &["open", "openat", "creat"],
        &["open", "openat", "creat", "fopen", "freopen", "opendir", FAILED, "mkstemp"],
        &["scandir", "fchmodat"],
    ),
    row("close", &["close"], &["close", "fclose", "closedir"], &["scandir", "freopen", "fchmodat"]),
    row("read", &["read", "readv"], &["read", "readv"], STREAMS),
    row("pread", &["pread64", "preadv", "preadv2"], &["pread", "preadv", "preadv2"], &[]),
    row("write", &["write", "writev"], &["write", "writev"], STREAMS),
    row("pwrite", &["pwrite64", "pwritev", "pwritev2"], &["pwrite", "pwritev", "pwritev2"], &[]),
    row("lseek", &["lseek"], &["lseek"], STREAMS),
    row(
        "stat",
        &["stat", "lstat", "fstat", "newfstatat", "statx"],
        &["stat", "lstat", "fstat", "fstatat", "statx", "opendir", "fdopendir"],
        MORE_STATS,
    ),
    row("access", &["access", "faccessat", "faccessat2"], &["access", "faccessat"], &[]),
    row("mkdir", &["mkdir", "mkdirat"], &["mkdir", "mkdirat", "mkdtemp"], &[]),
    row("rename", &["rename", "renameat", "renameat2"], &["rename", "renameat"], &[]),
    row("link", &["link", "linkat", "symlink", "symlinkat"], &["link", "linkat", "symlink", "symlinkat"], &[]),
    row("unlink", &["unlink", "unlinkat", "rmdir"], &["unlink", "unlinkat", "rmdir", "remove"], &[]),
    // The C library does not follow a link through a descriptor's name in /proc.
    row("chmod", &["chmod", "fchmod", "fchmodat"], &["chmod", "fchmod"], &["fchmodat"]),
    row("chown", &["chown", "lchown", "fchown", "fchownat"], &["chown", "lchown", "fchown", "fchownat"], &[]),
    row(
        "times",
        &["utimensat", "utime", "utimes"],
        &["utimensat", "futimens", "utime", "utimes", "lutimes", "futimes"],
        &[],
    ),
    row("sync", &["fsync", "fdatasync"], &["fsync", "fdatasync"], &[]),
    row(
        "sizes",
        &["ftruncate", "truncate", "fallocate", "fadvise64"],
        &["ftruncate", "truncate", "fallocate", "posix_fallocate", "posix_fadvise"],
        &[],
    ),
    row("copies", &["copy_file_range", "sendfile", "splice"], &["copy_file_range", "sendfile", "splice"], &[]),
    row(
        "fcntl",
        &["fcntl", "flock"],
        &["fcntl", "fcntl_setlkw", "flock", "lockf", "fdopendir", "fdopendir"],
        &["fdopen"],
    ),
    // The C library checks for a terminal without a call that is hooked.
    row("ioctl", &["ioctl"], &["ioctl"], &["open", "openat", "fopen"]),
    row("mmap", &["mmap"], &["mmap"], &[]),
    row("chdir", &["chdir", "fchdir"], &["chdir", "fchdir"], &[]),
];

const fn row(
    what: &'static str,
    asked: &'static [&'static str],
    recorded: &'static [&'static str],
    may_ask: &'static [&'static str],
) -> Row {
    Row { what, asked, recorded, may_ask }
}

/// A test: the preparation, and the command.
struct Tool {
    name: &'static str,
    prepare: &'static str,
    run: &'static str,
}

const TREE: &str = "mkdir -p tree/a/b tree/c; for i in 1 2 3 4 5 6 7 8 9; do seq $i 2000 > tree/a/$i; seq $i > tree/a/b/$i; done; ln -s a/1 tree/link; mkfifo tree/c/pipe";

const TOOLS: &[Tool] = &[
    Tool { name: "dd_copies", prepare: "seq 5000 > in", run: "dd if=in of=out bs=1000 status=none" },
    Tool { name: "tar_packs", prepare: TREE, run: "tar cf out.tar tree" },
    Tool {
        name: "tar_unpacks",
        prepare: "mkdir x; seq 9999 > x/a; seq 99 > x/b; tar cf in.tar x; rm -r x",
        run: "tar xf in.tar",
    },
    Tool { name: "find_walks", prepare: TREE, run: "find tree -type f -size +1k" },
    Tool { name: "cp_copies_a_tree", prepare: TREE, run: "cp -r tree copy" },
    Tool { name: "rm_removes_a_tree", prepare: TREE, run: "rm -r tree" },
    Tool { name: "sort_sorts", prepare: "seq 50000 > in", run: "sort -r -o out in" },
    Tool {
        name: "git_clones",
        prepare: GIT,
        run: "git -c advice.detachedHead=false clone --quiet --no-hardlinks origin clone",
    },
    Tool { name: "git_collects_garbage", prepare: GIT, run: "git -C origin -c pack.threads=1 gc --quiet" },
    Tool { name: "git_says_its_status", prepare: GIT, run: "git -C origin status --short" },
    Tool { name: "sqlite_commits", prepare: "true", run: "sqlite3 base.db .read\\ script" },
    Tool {
        name: "gcc_compiles",
        prepare: "echo 'int main(void) { return 42; }' > main.c",
        run: "gcc -O1 -o main main.c",
    },
    Tool {
        name: "python_compiles_all",
        prepare: "mkdir m; for i in 1 2 3; do echo \"x = $i\" > m/m$i.py; done",
        run: "{python} -m compileall -q m",
    },
    Tool { name: "forked_workers_of_python_load_arrays", prepare: ARRAYS, run: "{numpy} pool.py" },
];

/// Files older than the index: git reads newer ones again.
const GIT: &str = "git init --quiet origin; cd origin; git config user.email a@b; git config user.name a; git config gc.auto 0;
    for i in 1 2 3; do seq $i 500 > file$i; git add .; GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z' git commit --quiet -m $i; done;
    touch -d 2020-01-01 file*; git update-index --refresh";

/// Forty arrays, and four workers that take them one after the other.
const ARRAYS: &str = r#"mkdir d
    "${DLIO_TEST_PYTHON:-python3}" -c 'import numpy; [numpy.save(f"d/{i}.npy", numpy.arange(i * 500)) for i in range(40)]'
    cat > pool.py <<END
import multiprocessing, numpy
def total(i):
    return int(numpy.load(f"d/{i}.npy").sum())
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        print(sum(pool.map(total, range(40), chunksize=1)))
END"#;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(3));
    let trial = |tool: &'static Tool| Trial::test(tool.name, move || check(tool).map_err(Failed::from));
    libtest_mimic::run(&arguments, TOOLS.iter().map(trial).collect()).exit();
}

fn check(tool: &Tool) -> Result<(), String> {
    let preload = artefacts::library()?;
    let sandbox = Sandbox::new(&format!("tool.{}", tool.name)).map_err(|error| error.to_string())?;
    let line: Vec<String> = words(tool.run)?;
    let log = sandbox.root().join("strace");
    let strace = ["-f", "-y", "-qq", "-s", "4096", "-e", "signal=none", "-o"].map(str::to_string);

    let alone = run(tool, &sandbox, &line, &[])?;
    let left = files(&sandbox.work());
    let under: Vec<_> =
        [vec!["strace".to_string()], strace.to_vec(), vec![log.display().to_string()], line.clone()].concat();
    let watched = run(tool, &sandbox, &under, &[])?;
    let calls = std::fs::read_to_string(&log).map_err(|error| format!("strace: {error}"))?;
    let variables = [
        ("LD_PRELOAD", preload.as_path()),
        ("DLIO_TRACE_DIR", &sandbox.trace()),
        ("DLIO_TRACE_FORMAT", Path::new("native")),
        ("DLIO_TRACE_ALL", Path::new("1")),
    ];
    let traced = run(tool, &sandbox, &line, &variables)?;
    let mut found = Vec::new();
    if (&alone.exit, &alone.output, &alone.errors) != (&traced.exit, &traced.output, &traced.errors)
        || alone.exit != watched.exit
    {
        found.push(format!("alone: {alone:?}\n  traced: {traced:?}"));
    }
    if left != files(&sandbox.work()) {
        found.push(format!("alone it leaves {left:?}, traced {:?}", files(&sandbox.work())));
    }
    compare(&sandbox, &calls, &mut found);
    if found.is_empty() { Ok(()) } else { Err(found.join("\n  ")) }
}

fn words(line: &str) -> Result<Vec<String>, String> {
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable, end='')"]).output();
    let python = python.map_err(|error| format!("python3: {error}"))?;
    let python = String::from_utf8_lossy(&python.stdout).into_owned();
    // The one with NumPy, as `make test` sets it up.
    let numpy = std::env::var("DLIO_TEST_PYTHON").unwrap_or_else(|_| python.clone());
    let word = |word: &str| word.replace("\\ ", " ").replace("{python}", &python).replace("{numpy}", &numpy);
    // A space after a backslash belongs to its word.
    let mut all: Vec<String> = Vec::new();
    for part in line.split(' ') {
        match all.last_mut().filter(|last| last.ends_with('\\')) {
            Some(last) => *last = format!("{last} {part}"),
            None => all.push(part.to_string()),
        }
    }
    Ok(all.iter().map(|part| word(part)).collect())
}

/// Runs a line in a freshly prepared directory.
fn run(tool: &Tool, sandbox: &Sandbox, line: &[String], variables: &[(&str, &Path)]) -> Result<Run, String> {
    sandbox.clear().map_err(|error| error.to_string())?;
    let script =
        "begin; create table t(x); commit; begin; insert into t values(1), (2); commit; select sum(x) from t;\n";
    std::fs::write(sandbox.work().join("script"), script).map_err(|error| error.to_string())?;
    let mut prepare = Command::new("sh");
    let prepared = clean(prepare.args(["-ec", tool.prepare]).current_dir(sandbox.work())).output();
    let prepared = prepared.map_err(|error| error.to_string())?;
    if !prepared.status.success() {
        return Err(format!("preparing: {}", String::from_utf8_lossy(&prepared.stderr)));
    }
    sandbox.run(clean(&mut Command::new(&line[0])).args(&line[1..]).envs(variables.iter().copied()), true)
}

fn clean(command: &mut Command) -> &mut Command {
    command.env_remove("LD_PRELOAD").env("HOME", "/nonexistent").env("LC_ALL", "C").env("GIT_CONFIG_NOSYSTEM", "1")
}

/// Returns names and sizes of all files below a directory. Those files of git that contain times may differ in
/// content.
fn files(folder: &Path) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(facts) if facts.is_dir() => folders.push(entry.path()),
                Ok(facts) => drop(all.insert(entry.path().display().to_string(), facts.len())),
                Err(_) => {}
            }
        }
    }
    all
}

/// Compares the system calls with the recorded events, row by row.
fn compare(sandbox: &Sandbox, calls: &str, found: &mut Vec<String>) {
    let work = sandbox.work().display().to_string();
    let trace = seen::read(&sandbox.trace());
    found.extend(trace.faults.iter().cloned());
    if trace.lost() != 0 {
        found.push(format!("{} events are lost", trace.lost()));
    }
    let within = |path: &str| path == work || path.strip_prefix(&work).is_some_and(|rest| rest.starts_with('/'));
    let mut asked: BTreeMap<&str, u64> = BTreeMap::new();
    for call in calls.lines().filter_map(|line| Call::parse(line, &work)) {
        if within(&call.path) {
            *asked.entry(call.name).or_default() += 1;
        }
    }
    let mut ours: BTreeMap<&str, u64> = BTreeMap::new();
    for event in trace.events().filter(|event| event.file.as_deref().is_some_and(within)) {
        let name = if event.name == "opendir" && event.ret < 0 { FAILED } else { event.name };
        *ours.entry(name).or_default() += 1;
    }
    let sum = |names: &[&str], counts: &BTreeMap<&str, u64>| -> u64 {
        names.iter().filter_map(|name| counts.get(name)).sum()
    };
    for row in ROWS {
        let (asked, recorded) = (sum(row.asked, &asked), sum(row.recorded, &ours));
        let explained = if sum(row.may_ask, &ours) > 0 { u64::MAX } else { recorded };
        if asked < recorded || asked > explained {
            found.push(format!("{}: {asked} asked of the kernel, {recorded} recorded", row.what));
        }
    }
    if ours.values().sum::<u64>() == 0 {
        found.push("nothing is recorded".to_string());
    }
}

/// A line of strace's log.
struct Call<'a> {
    name: &'a str,
    /// Its file: a given path, otherwise the target of a descriptor.
    path: String,
}

impl Call<'_> {
    /// Parses `123 openat(AT_FDCWD</data>, "x", O_RDONLY) = 3</data/x>`. The second half of a call that was
    /// interrupted by another process's is ignored; its first half has all necessary data.
    fn parse<'a>(line: &'a str, work: &str) -> Option<Call<'a>> {
        let line = line
            .split_once(' ')
            .filter(|(pid, _)| pid.parse::<u32>().is_ok())
            .map_or(line, |(_, rest)| rest.trim_start());
        let (name, rest) = line.split_once('(')?;
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return None;
        }
        let arguments = rest.rsplit_once(" = ").map_or(rest, |(arguments, _)| arguments);
        let first = arguments.split(", ").next()?;
        let folder = bracketed(first);
        // The text of a read or write is not a path.
        let moves = ["read", "write", "pread64", "pwrite64", "sendto", "recvfrom"].contains(&name);
        let given = if moves { None } else { quoted(arguments).filter(|path| !path.is_empty()) };
        let path = match given {
            Some(path) if path.starts_with('/') => path.to_string(),
            Some(path) => format!("{}/{path}", folder.unwrap_or(work)),
            None if name == "mmap" => bracketed(arguments)?.to_string(),
            None => folder?.to_string(),
        };
        Some(Call { name, path })
    }
}

/// Returns the text between `<` and `>`: strace's name of a descriptor.
fn bracketed(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('<')?;
    rest.split_once('>').map(|(path, _)| path.trim_end_matches(" (deleted)"))
}

fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('"')?;
    rest.split_once('"').map(|(path, _)| path)
}
