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

#[test]
fn the_library_brings_no_other_library_into_a_process() {
    let library = artefacts::library().unwrap();
    let further: Vec<_> = needed(&library)
        .into_iter()
        .filter(|name| !name.starts_with("libc.") && !name.starts_with("ld-linux"))
        .collect();
    assert!(further.is_empty(), "{} needs {further:?}", library.display());
}
