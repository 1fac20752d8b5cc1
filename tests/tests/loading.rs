//! Tests the requirements of the shipped files at load time: clusters run systems that are years old.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlio_tests::artefacts;

/// Returns lines of the tool's output about a binary.
fn fields(option: &str, binary: &Path) -> Vec<String> {
    let output = Command::new("objdump").arg(option).arg(binary).output().expect("objdump, of binutils");
    assert!(output.status.success(), "{}: {}", binary.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
}

fn needed(binary: &Path) -> Vec<String> {
    let lines = fields("-p", binary);
    lines.iter().filter_map(|line| line.trim().strip_prefix("NEEDED")).map(|name| name.trim().to_string()).collect()
}

/// Returns the versions of the C library that symbols require, as pairs of numbers, each with its line.
fn versions(binary: &Path) -> Vec<((u32, u32), String)> {
    let version = |line: &String| {
        let (_, rest) = line.split_once("GLIBC_")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').map_or(rest, |end| &rest[..end]);
        let (major, rest) = digits.split_once('.')?;
        let minor = rest.split('.').next()?;
        Some(((major.parse().ok()?, minor.parse().ok()?), line.clone()))
    };
    // Both the symbols and the list of versions that the loader checks first.
    fields("-T", binary).iter().chain(&fields("-p", binary)).filter_map(version).collect()
}

fn assert_oldest(binary: &Path, oldest: (u32, u32)) {
    let all = versions(binary);
    assert!(!all.is_empty(), "{}: no version was found", binary.display());
    let newer: Vec<_> = all.iter().filter(|(version, _)| *version > oldest).map(|(_, line)| line).collect();
    assert!(newer.is_empty(), "{} needs more than {oldest:?}:\n{newer:#?}", binary.display());
}

/// Returns the other shipped files, which run on the same systems.
fn others() -> Vec<PathBuf> {
    let programs = ["dlio", "dlio-analyze", "dlio-top"].map(|name| artefacts::command(name).unwrap());
    let library = artefacts::library().unwrap();
    // Those of Python and of MPI, if they are built; the other one is always built.
    let beside = |name| library.with_file_name(name);
    let optional = [beside("libdlio_mpi.so"), beside("_engine.abi3.so")].into_iter().filter(|file| file.exists());
    programs.into_iter().chain([beside("libdliotrace_inline.so")]).chain(optional).collect()
}

#[test]
fn shipped_files_load_with_glibc_of_2012() {
    assert_oldest(&artefacts::library().unwrap(), (2, 17));
    others().iter().for_each(|binary| assert_oldest(binary, (2, 17)));
}

/// Thread functions that `libc.so.6` itself had in 2.17. The others were in `libpthread.so.0`.
const THREADS_IN_LIBC: &[&str] = &[
    "pthread_attr_destroy",
    "pthread_attr_init",
    "pthread_cond_broadcast",
    "pthread_cond_destroy",
    "pthread_cond_init",
    "pthread_cond_signal",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_condattr_destroy",
    "pthread_condattr_init",
    "pthread_equal",
    "pthread_exit",
    "pthread_getschedparam",
    "pthread_mutex_destroy",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_self",
    "pthread_setcancelstate",
    "pthread_setcanceltype",
    "pthread_setschedparam",
];

/// Returns the library of a function that was not in `libc.so.6` in 2.17 and is now.
fn place_in_2012(name: &str) -> Option<&'static str> {
    const PLACES: &[(&str, &[&str])] = &[
        ("libpthread.so.0", &["pthread_", "sem_"]),
        ("libdl.so.2", &["dladdr", "dlclose", "dlerror", "dlinfo", "dlmopen", "dlopen", "dlsym", "dlvsym"]),
        ("librt.so.1", &["aio_", "lio_", "mq_", "shm_", "timer_"]),
        ("libutil.so.1", &["forkpty", "login_tty", "openpty"]),
    ];
    let is_one = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let (library, _) = PLACES.iter().find(|(_, starts)| is_one(starts))?;
    (!THREADS_IN_LIBC.contains(&name)).then_some(library)
}

/// Returns references with a version: the name, and the library that the linker bound it to.
fn bound_references(binary: &Path) -> Vec<(String, String)> {
    let readelf = |option: &str| {
        let output = Command::new("readelf").args(["--wide", option]).arg(binary).env("LC_ALL", "C").output();
        String::from_utf8(output.expect("readelf, of binutils").stdout).unwrap()
    };
    let mut libraries = BTreeMap::new();
    let mut library = "";
    let versions = readelf("--version-info");
    for line in versions.lines() {
        let after = |key: &str| line.split_once(key).and_then(|(_, rest)| rest.split_whitespace().next());
        library = after("File: ").unwrap_or(library);
        if let (Some(_), Some(number)) = (after("Name: "), after("Version: ")) {
            libraries.insert(number.to_string(), library.to_string());
        }
    }
    let reference = |line: &str| {
        // Number, address, size, kind, binding, visibility, section, name and version, number of the version.
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(&"UND"), Some(name), Some(version)) = (words.get(6), words.get(7), words.get(8)) else { return None };
        let library = libraries.get(version.trim_matches(['(', ')']))?;
        Some((name.split('@').next()?.to_string(), library.clone()))
    };
    readelf("--dyn-syms").lines().filter_map(reference).collect()
}

#[test]
fn functions_are_looked_up_in_their_2012_library() {
    for binary in others() {
        let all = bound_references(&binary);
        assert!(all.iter().any(|(_, library)| library == "libpthread.so.0"), "{}: {all:?}", binary.display());
        let elsewhere = all.iter().filter(|(name, library)| place_in_2012(name).is_some_and(|place| place != library));
        let elsewhere: Vec<_> = elsewhere.collect();
        assert!(elsewhere.is_empty(), "{}: not there in 2.17: {elsewhere:#?}", binary.display());
    }
}

/// Symbols that the preloaded library may require: functions and variables that `libc.so.6` itself has had under this
/// version since 2.17. `dlsym`, `pthread_key_create`, `aio_error` and similar are not among them: they were in other
/// libraries until 2.34. Before 2.30, the loader ends a program whose reference names another library than the one
/// with the symbol, even if the reference is weak. `preload/src/older.c` looks those up.
const IN_LIBC_SINCE_2012: &[&str] = &[
    "__ctype_get_mb_cur_max GLIBC_2.2.5",
    "__cxa_at_quick_exit GLIBC_2.10",
    "__cxa_atexit GLIBC_2.2.5",
    "__cxa_finalize GLIBC_2.2.5",
    "__errno_location GLIBC_2.2.5",
    "__register_atfork GLIBC_2.3.2",
    "__xpg_strerror_r GLIBC_2.3.4",
    "abort GLIBC_2.2.5",
    "bcmp GLIBC_2.2.5",
    "dirfd GLIBC_2.2.5",
    "dl_iterate_phdr GLIBC_2.2.5",
    "environ GLIBC_2.2.5",
    "getauxval GLIBC_2.16",
    "getcwd GLIBC_2.2.5",
    "getenv GLIBC_2.2.5",
    "memcmp GLIBC_2.2.5",
    "memcpy GLIBC_2.14",
    "memmove GLIBC_2.2.5",
    "memset GLIBC_2.2.5",
    "on_exit GLIBC_2.2.5",
    "realpath GLIBC_2.3",
    "setenv GLIBC_2.2.5",
    "sigaddset GLIBC_2.2.5",
    "stdin GLIBC_2.2.5",
    "stdout GLIBC_2.2.5",
    "strcmp GLIBC_2.2.5",
    "strlen GLIBC_2.2.5",
    "syscall GLIBC_2.2.5",
    "sysconf GLIBC_2.2.5",
    "sysinfo GLIBC_2.2.5",
    "uname GLIBC_2.2.5",
];

/// Returns `NAME VERSION` of each undefined symbol that has a version.
fn versioned_references(binary: &Path) -> Vec<String> {
    let reference = |line: &String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let version = words.iter().find(|word| word.contains("GLIBC_"))?.trim_matches(['(', ')']);
        words.contains(&"*UND*").then(|| format!("{} {version}", words[words.len() - 1]))
    };
    fields("-T", binary).iter().filter_map(reference).collect()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn symbols_are_bound_to_their_2012_library() {
    let all = versioned_references(&artefacts::library().unwrap());
    assert!(all.len() > 10, "{all:?}");
    let elsewhere: Vec<_> = all.iter().filter(|one| !IN_LIBC_SINCE_2012.contains(&one.as_str())).collect();
    assert!(elsewhere.is_empty(), "not in the libc.so.6 of 2.17, or not looked at yet: {elsewhere:#?}");
}

#[test]
fn library_loads_no_other_library() {
    let library = artefacts::library().unwrap();
    let further: Vec<_> = needed(&library).into_iter().filter(|name| !name.starts_with("libc.")).collect();
    assert!(further.is_empty(), "{} needs {further:?}", library.display());
}
