//! Tests `make build` with a build directory that was restored in part, as by caches of CI services.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use dlio_tests::sandbox::Sandbox;

/// A crate: its directory, its manifest after the name, and its sources.
type Crate = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Programs and libraries with the names that are built, and a crate whose build script makes the library that the
/// next one links.
const CRATES: &[Crate] = &[
    (
        "maker",
        "links = \"made\"\n[features]",
        &[
            (
                "build.rs",
                r#"fn main() {
    let out = std::env::var("OUT_DIR").unwrap();
    std::fs::write(format!("{out}/made.c"), "int made(void) { return 42; }").unwrap();
    let run = |name: &str, rest: &[&str]| {
        assert!(std::process::Command::new(name).args(rest).current_dir(&out).status().unwrap().success());
    };
    run("cc", &["-c", "-fPIC", "made.c"]);
    run("ar", &["rcs", "libmade.a", "made.o"]);
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=root={out}");
}"#,
            ),
            ("src/lib.rs", ""),
        ],
    ),
    (
        "linker",
        "[dependencies]\nmaker = { path = \"../maker\" }",
        &[
            (
                "build.rs",
                r#"fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-search=native={}", std::env::var("DEP_MADE_ROOT").unwrap());
    println!("cargo::rustc-link-lib=static=made");
}"#,
            ),
            ("src/lib.rs", "pub use maker as _;"),
        ],
    ),
    (
        "programs",
        "[dependencies]\nlinker = { path = \"../linker\" }",
        &[
            ("src/bin/dlio.rs", "use linker as _; fn main() {}"),
            ("src/bin/dlio-analyze.rs", "fn main() {}"),
            ("src/bin/dlio-top.rs", "fn main() {}"),
        ],
    ),
    ("dlio-preload", "[lib]\nname = \"dliotrace\"\ncrate-type = [\"cdylib\"]", &[("src/lib.rs", "")]),
    ("dlio-inline", "[lib]\nname = \"dliotrace_inline\"\ncrate-type = [\"cdylib\"]", &[("src/lib.rs", "")]),
    ("dlio-rocm", "[lib]\nname = \"dliotrace_rocm\"\ncrate-type = [\"cdylib\"]", &[("src/lib.rs", "")]),
];

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn build(project: &Path, target: &Path) -> Output {
    let script = dlio_tests::home().parent().unwrap().join("examples/build.sh");
    Command::new(script)
        .current_dir(project)
        .env("CARGO_TARGET_DIR", target)
        .env("DLIO_DIST", project.join("target/dist"))
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap()
}

/// Creates a workspace of those crates.
fn clone(project: &Path) {
    let members: Vec<&str> = CRATES.iter().map(|(name, ..)| *name).collect();
    let workspace = "[profile.preload]\ninherits = \"release\"";
    write(&project.join("Cargo.toml"), &format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n{workspace}\n"));
    for (name, manifest, sources) in CRATES {
        let head = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        write(&project.join(name).join("Cargo.toml"), &(head + manifest));
        for (path, text) in *sources {
            write(&project.join(name).join(path), text);
        }
    }
}

#[test]
fn missing_library_is_rebuilt() {
    let sandbox = Sandbox::new("building.lost").unwrap();
    let (project, target) = (sandbox.work().join("project"), sandbox.work().join("target"));
    clone(&project);
    let first = build(&project, &target);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));

    for folder in fs::read_dir(target.join("release/build")).unwrap() {
        let _ = fs::remove_file(folder.unwrap().path().join("out/libmade.a"));
    }
    // The crate above is compiled again for another reason, which is when the missing library is noticed.
    write(&project.join("linker/src/lib.rs"), "pub use maker;");
    let again = build(&project, &target);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success(), "{said}");
    assert!(said.contains("libmade.a is missing from the build directory; rebuilding maker"), "{said}");

    // An error in the sources remains one.
    write(&project.join("linker/src/lib.rs"), "no Rust");
    assert!(!build(&project, &target).status.success());
}

#[test]
fn mpicc_without_headers_is_not_an_mpi() {
    let sandbox = Sandbox::new("building.mpicc").unwrap();
    let probe = dlio_tests::home().join("builds-mpi.sh");
    let said = |body: &str| {
        let mpicc = sandbox.root().join("mpicc");
        fs::write(&mpicc, body).unwrap();
        fs::set_permissions(&mpicc, fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(&probe).env("MPICC", &mpicc).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    // Debian's openmpi-bin without the headers: mpicc exists and cannot compile.
    assert!(said("#!/bin/sh\necho 'mpi.h: No such file' >&2; exit 1\n").contains("mpicc finds no mpi.h"));
    let output = Command::new(&probe).env("MPICC", sandbox.root().join("gone")).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("no mpicc"), "{output:?}");
}

/// Returns the directory, in this clone, of the crate whose programs all clones build.
fn programs_of(clone: &Path) -> std::path::PathBuf {
    clone.join("dlio-programs")
}

#[test]
fn each_clone_has_its_own_build() {
    let sandbox = Sandbox::new("building.clones").unwrap();
    let target = sandbox.work().join("target");
    let clones = ["older", "newer"].map(|name| sandbox.work().join(name));
    for (project, says) in clones.iter().zip(["the older clone", "the newer clone"]) {
        clone(project);
        // Our crates have such names; the build directory distinguishes them by these.
        fs::rename(project.join("programs"), programs_of(project)).unwrap();
        let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
        fs::write(project.join("Cargo.toml"), manifest.replace("\"programs\"", "\"dlio-programs\"")).unwrap();
        let manifest = programs_of(project).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap().replace("name = \"programs\"", "name = \"dlio-programs\"");
        fs::write(&manifest, text).unwrap();
        let source = programs_of(project).join("src/bin/dlio.rs");
        fs::write(&source, format!("use linker as _; fn main() {{ println!({says:?}) }}")).unwrap();
        // Older than everything that is built here.
        let file = fs::File::options().write(true).open(&source).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000)).unwrap();
    }
    let says = |project: &Path| {
        let output = Command::new(project.join("target/dist/bin/dlio")).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    for project in [&clones[1], &clones[0]] {
        let built = build(project, &target);
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    assert_eq!(clones.each_ref().map(|project| says(project)), ["the older clone", "the newer clone"]);
}

#[test]
fn install_does_not_build_and_uninstall_removes() {
    let sandbox = Sandbox::new("building.install").unwrap();
    let root = dlio_tests::home().parent().unwrap().to_path_buf();
    let make = |target: &str, dist: &Path| {
        let mut command = Command::new("make");
        command.arg("-C").arg(&root).arg(target).arg(format!("DESTDIR={}", sandbox.work().display()));
        command.arg("PREFIX=/opt/dlio").env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
        command.env("DLIO_DIST", dist).output().unwrap()
    };
    let refused = make("install", &sandbox.work().join("nothing"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("run `make build` first"), "{said}");
    let Some(dist) = std::env::var_os("DLIO_DIST") else {
        println!("left out: DLIO_DIST names nothing that `make build` made");
        return;
    };
    let done = make("install", Path::new(&dist));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let prefix = sandbox.work().join("opt/dlio");
    for name in ["bin/dlio", "bin/dlio-analyze", "lib/libdliotrace.so", "share/man/man1/dlio.1"] {
        assert!(prefix.join(name).is_file(), "{name}");
    }
    // The locations that shells search, each with its own language.
    let completions = [
        "bash-completion/completions/dlio-top",
        "zsh/site-functions/_dlio",
        "fish/vendor_completions.d/dlio-analyze.fish",
    ];
    for (name, word) in completions.iter().zip(["complete -F", "#compdef dlio", "complete -c dlio-analyze"]) {
        let script = fs::read_to_string(prefix.join("share").join(name)).unwrap();
        assert!(script.contains(word), "{name}");
    }
    fs::write(prefix.join("bin/other"), "").unwrap();
    let gone = make("uninstall", Path::new(&dist));
    assert!(gone.status.success(), "{}", String::from_utf8_lossy(&gone.stderr));
    let left = Command::new("find").arg(&prefix).args(["-type", "f", "-o", "-type", "l"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), prefix.join("bin/other").display().to_string());
}
