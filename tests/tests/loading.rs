//! The needs of what is shipped when the dynamic loader loads it: clusters run systems that are years old.

use std::path::Path;
use std::process::Command;

use dlio_tests::artefacts;

/// Lines that the tool says of a binary.
fn fields(option: &str, binary: &Path) -> Vec<String> {
    let output = Command::new("objdump").arg(option).arg(binary).output().expect("objdump, of binutils");
    assert!(output.status.success(), "{}: {}", binary.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
}

fn needed(binary: &Path) -> Vec<String> {
    let lines = fields("-p", binary);
    lines.iter().filter_map(|line| line.trim().strip_prefix("NEEDED")).map(|name| name.trim().to_string()).collect()
}

/// Versions of the C library that symbols ask for, as pairs of numbers, each with its line.
fn versions(binary: &Path) -> Vec<((u32, u32), String)> {
    let version = |line: &String| {
        let (_, rest) = line.split_once("GLIBC_")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').map_or(rest, |end| &rest[..end]);
        let (major, rest) = digits.split_once('.')?;
        let minor = rest.split('.').next()?;
        Some(((major.parse().ok()?, minor.parse().ok()?), line.clone()))
    };
    // Both the symbols and the list of versions the loader looks for first.
    fields("-T", binary).iter().chain(&fields("-p", binary)).filter_map(version).collect()
}

fn assert_oldest(binary: &Path, oldest: (u32, u32)) {
    let all = versions(binary);
    assert!(!all.is_empty(), "{}: no version was found", binary.display());
    let newer: Vec<_> = all.iter().filter(|(version, _)| *version > oldest).map(|(_, line)| line).collect();
    assert!(newer.is_empty(), "{} needs more than {oldest:?}:\n{newer:#?}", binary.display());
}

#[test]
fn the_library_loads_with_a_c_library_of_2012() {
    assert_oldest(&artefacts::library().unwrap(), (2, 17));
}

/// What the preloaded library may ask of the loader: functions and variables that `libc.so.6` itself has had under this
/// version since 2.17, and one of the loader. `dlsym`, `pthread_key_create`, `aio_error` and their kin are none of them: they
/// lay in other libraries until 2.34, and before 2.30 the loader ends a program whose reference names another library than
/// the one that has the symbol, be it weak. `preload/src/older.c` looks those up.
const IN_LIBC_SINCE_2012: &[&str] = &[
    "__ctype_get_mb_cur_max GLIBC_2.2.5",
    "__cxa_at_quick_exit GLIBC_2.10",
    "__cxa_atexit GLIBC_2.2.5",
    "__cxa_finalize GLIBC_2.2.5",
    "__errno_location GLIBC_2.2.5",
    "__register_atfork GLIBC_2.3.2",
    "__tls_get_addr GLIBC_2.3",
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

/// `NAME VERSION` of each undefined symbol that has a version.
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
fn every_symbol_is_bound_to_the_library_that_has_it_in_the_oldest_c_library() {
    let all = versioned_references(&artefacts::library().unwrap());
    assert!(all.len() > 10, "{all:?}");
    let elsewhere: Vec<_> = all.iter().filter(|one| !IN_LIBC_SINCE_2012.contains(&one.as_str())).collect();
    assert!(elsewhere.is_empty(), "not in the libc.so.6 of 2.17, or not looked at yet: {elsewhere:#?}");
}

#[test]
fn the_library_brings_no_other_library_into_a_process() {
    let library = artefacts::library().unwrap();
    let further: Vec<_> = needed(&library)
        .into_iter()
        .filter(|name| !name.starts_with("libc.") && !name.starts_with("ld-linux"))
        .collect();
    assert!(further.is_empty(), "{} needs {further:?}", library.display());
}
