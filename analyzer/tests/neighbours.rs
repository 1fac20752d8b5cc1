//! Tests that files planted by others next to a trace are not followed, not waited for and not trusted. Users are
//! made of numbers, which requires root; otherwise one user plays both, in a directory that all may write to.

mod generator;
mod support;

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use dlio_analyzer::sidecar::trusted;
use generator::{Plan, generate};
use support::program::text;
use support::temp_dir;

const VICTIM: u32 = 61_001;
const ATTACKER: u32 = 61_002;

fn is_root() -> bool {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        eprintln!("not root: users cannot be made, so one user plays both");
    }
    is_root
}

fn give(path: &Path, mode: u32, user: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    if is_root() {
        chown(path, Some(user), Some(user)).unwrap();
    }
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs the program as the victim, in a directory of the victim.
fn run(home: &Path, arguments: &[&str]) {
    let program = home.join("dlio-analyze");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_dlio-analyze"), &program).unwrap();
    }
    let mut command = Command::new(program);
    command.args(arguments).current_dir(home).env("XDG_CACHE_HOME", home.join("cache")).stdin(Stdio::null());
    if is_root() {
        command.uid(VICTIM).gid(VICTIM);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn planted_links_and_pipes_are_ignored() {
    for kind in ["links", "pipes"] {
        let (home, trace) = (temp_dir("neighbours-home"), temp_dir("neighbours-trace"));
        let plan = Plan { events: 1_200_000, files: 10, ..Plan::default() };
        generate(trace.path(), &plan, &|_, _, _| ()).unwrap();
        for entry in std::fs::read_dir(trace.path()).unwrap() {
            let file = std::fs::File::options().append(true).open(entry.unwrap().path()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        }
        give(home.path(), 0o755, VICTIM);
        let names = [".dlio-cache", ".dlio-cache-blocks"];
        for name in names {
            let precious = home.path().join(format!("precious{name}"));
            std::fs::write(&precious, "theirs").unwrap();
            give(&precious, 0o600, VICTIM);
            match kind {
                "links" => symlink(&precious, trace.path().join(name)).unwrap(),
                _ => mkfifo(&trace.path().join(name)),
            }
        }
        mkfifo(&trace.path().join("zz-host-1-1.dlt"));
        give(trace.path(), if is_root() { 0o755 } else { 0o777 }, ATTACKER);
        let folder = trace.path().display().to_string();
        run(home.path(), &[&folder]);
        for name in names {
            let precious = home.path().join(format!("precious{name}"));
            assert_eq!(std::fs::read_to_string(precious).unwrap(), "theirs", "{kind}");
            assert!(!std::fs::symlink_metadata(trace.path().join(name)).unwrap().is_file(), "{kind}");
        }
        let own = home.path().join("cache/dlio");
        assert_eq!(std::fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_dir(&own).unwrap().count(), 2, "{kind}: the counts, and the positions of blocks");
        std::fs::remove_file(home.path().join("dlio-analyze")).unwrap();
    }
}

#[test]
fn files_writable_by_others_are_not_trusted() {
    let folder = temp_dir("neighbours-believed");
    let place = folder.path().join(".dlio-cache");
    std::fs::write(&place, "kept").unwrap();
    let with = |mode: u32| {
        std::fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
        trusted(&place).is_some()
    };
    assert_eq!([0o600, 0o644, 0o660, 0o666].map(with), [true, true, false, false]);
    give(&place, 0o600, ATTACKER);
    assert_eq!(trusted(&place).is_none(), is_root());
    let (link, pipe) = (folder.path().join("link"), folder.path().join("pipe"));
    std::fs::write(folder.path().join("own"), "kept").unwrap();
    std::fs::set_permissions(folder.path().join("own"), Permissions::from_mode(0o600)).unwrap();
    symlink("own", &link).unwrap();
    mkfifo(&pipe);
    assert!(trusted(&folder.path().join("own")).is_some());
    assert!(trusted(&link).is_none() && trusted(&pipe).is_none());
}
