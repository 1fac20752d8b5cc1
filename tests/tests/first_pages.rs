//! The linker script that puts the code of a short-lived process together. The linker ignores a pattern that matches nothing,
//! so a function that is renamed or moved silently costs every traced process several page faults.

use std::process::Command;

use dlio_tests::{artefacts, home};

/// Returns the names of input sections that the script places, without those of given object files.
fn patterns(script: &str) -> Vec<String> {
    let mut code = String::new();
    for part in script.split("/*") {
        code.push_str(part.split_once("*/").map_or(part, |(_, after)| after));
    }
    // `*(SECTION SECTION)` matches sections of every file, `*variadic.o(SECTION)` those of one.
    let mut patterns = Vec::new();
    for (before, inside) in code.split('(').zip(code.split('(').skip(1)) {
        let file = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        if file == "*" {
            let sections = inside.split(')').next().unwrap_or_default();
            patterns.extend(sections.split_whitespace().map(str::to_string));
        }
    }
    patterns
}

/// Returns `true` if a name matches a pattern in which `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    let mut ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    ends.any(|at| matches(rest, &name[at..]))
}

#[test]
fn every_pattern_of_the_linker_script_matches_a_function() {
    let script = std::fs::read_to_string(home().join("../preload/src/first.ld")).expect("the script of the linker");
    let patterns = patterns(&script);
    assert!(patterns.len() > 100, "{} patterns are far too few: the script is not understood", patterns.len());

    let library = artefacts::library().unwrap_or_else(|error| panic!("{error}"));
    let output = Command::new("nm").arg("--defined-only").arg(&library).output().expect("nm runs; binutils has it");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Each function has a separate section, `.text.` and its name.
    let function = |line: &str| {
        let (kind, name) = line.split_once(' ').and_then(|(_, rest)| rest.split_once(' '))?;
        "tTwWi".contains(kind).then(|| format!(".text.{name}"))
    };
    let functions: Vec<String> = text.lines().filter_map(function).collect();
    assert!(functions.len() > 1000, "{} has {} functions: it is stripped", library.display(), functions.len());

    let code = patterns.iter().filter(|pattern| pattern.starts_with(".text"));
    let dead: Vec<_> = code.filter(|pattern| !functions.iter().any(|name| matches(pattern, name))).collect();
    assert!(dead.is_empty(), "preload/src/first.ld names what the library does not have: {dead:#?}");
}

#[test]
fn patterns_match_like_the_linker() {
    assert!(matches(".text*_ZN6tracer3sys*", ".text._ZN6tracer3sys4openE"));
    assert!(matches(".text*_ZN6tracer3sys*", ".text.unlikely._ZN6tracer3sys4openE"));
    assert!(!matches(".text*_ZN6tracer3sys*", ".text._ZN6tracer4life4openE"));
    assert!(matches(".text.open", ".text.open") && !matches(".text.open", ".text.open64"));
    let script = "/* *(.text.no) */ x : { *(.plt) *a.o(.text) *(.text.b* .text.c) }";
    assert_eq!(patterns(script), [".plt", ".text.b*", ".text.c"]);
}
