//! Compares a trace with the expectations of a case, and reports every difference.

use std::collections::{BTreeMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use dlio_schemas::native::fields::key;
use dlio_schemas::objects::shared_name;
use dlio_schemas::ops::{Layer, Op};

use crate::directives::{Case, Counts, Number};
use crate::sandbox::Run;
use crate::seen::{Event, Process, RecordedTrace, tally};

/// With up to this many events, a process leaves a `.pftrace` under `auto`.
const AUTO_EVENTS_MAX: usize = 1_000_000;

/// Clocks are compared across two files and a process: this much is noise.
const CLOCK_SLACK_NS: i64 = 20_000_000;

/// The start of the tracer's messages.
const VOICE: &str = "dliotrace: ";

/// Returns all differences between a traced run and its expectations.
pub fn differences(case: &Case, format: &str, untraced: &Run, traced: &Run, seen: &RecordedTrace) -> Vec<String> {
    let mut found = if case.damage { Vec::new() } else { seen.faults.clone() };
    found.retain(|fault| !(case.leftovers && fault.ends_with(".part")));
    outputs(case, untraced, traced, &mut found);
    counts(case, seen, &mut found);
    arguments(case, seen, &mut found);
    processes(case, format, seen, &mut found);
    times(traced, seen, &mut found);
    found
}

fn outputs(case: &Case, untraced: &Run, traced: &Run, found: &mut Vec<String>) {
    if untraced.exit != traced.exit {
        found.push(format!("it ends with {} untraced and with {} traced", untraced.exit, traced.exit));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if untraced.output != traced.output {
        found.push(format!("stdout untraced:\n{}traced:\n{}", text(&untraced.output), text(&traced.output)));
    }
    let (said, errors): (Vec<_>, Vec<_>) =
        text(&traced.errors).lines().map(str::to_string).partition(|line| line.starts_with(VOICE));
    if errors != text(&untraced.errors).lines().collect::<Vec<_>>() {
        found.push(format!("stderr untraced:\n{}traced:\n{}", text(&untraced.errors), text(&traced.errors)));
    }
    for expected in &case.says {
        if !said.iter().any(|line| line.contains(expected)) {
            found.push(format!("the tracer does not say `{expected}` but {said:?}"));
        }
    }
    let foreseen = |line: &String| case.says.iter().chain(&case.may_say).any(|text| line.contains(text.as_str()));
    let unforeseen: Vec<_> = said.iter().filter(|line| !foreseen(line)).collect();
    if !unforeseen.is_empty() {
        found.push(format!("the tracer says {unforeseen:?}"));
    }
}

/// Returns `true` for a file whose path has this suffix, and for an object of this kind.
fn is_on(file: &str, suffix: &str) -> bool {
    file.ends_with(suffix) || shared_name(file) == Some(suffix)
}

fn counts(case: &Case, seen: &RecordedTrace, found: &mut Vec<String>) {
    let all = tally(seen.events());
    if let Some(expected) = &case.events {
        exactly("events", expected, &all, found);
    }
    for (name, number) in &case.among {
        differ("events", name, *number, all.get(name.as_str()).copied().unwrap_or(0), found);
    }
    for (suffix, expected) in &case.on {
        let on_file = |event: &&Event| event.file.as_deref().is_some_and(|file| is_on(file, suffix));
        exactly(&format!("events on {suffix}"), expected, &tally(seen.events().filter(on_file)), found);
    }
    for (name, number) in &case.bytes {
        let bytes: i64 = seen.named(name).map(|event| event.ret.max(0)).sum();
        differ("bytes", name, *number, bytes as u64, found);
    }
    if let Some(expected) = case.files {
        let files: HashSet<_> = seen.events().filter(|event| event.is_path).map(|event| &event.file).collect();
        differ("different", "files", expected, files.len() as u64, found);
    }
    if case.no_files {
        let files: Vec<_> = seen.events().filter(|event| event.is_path).take(5).collect();
        if !files.is_empty() {
            found.push(format!("events on files that are excluded: {files:?}"));
        }
    }
}

fn exactly(what: &str, expected: &Counts, all: &BTreeMap<&'static str, u64>, found: &mut Vec<String>) {
    for (name, number) in expected {
        differ(what, name, *number, all.get(name.as_str()).copied().unwrap_or(0), found);
    }
    for (name, count) in all.iter().filter(|(name, _)| !expected.contains_key(**name) && !is_wait(name)) {
        found.push(format!("{what}: {name} {count} times, expected never"));
    }
}

/// Returns `true` for calls that wait: their duration, and so whether they are events, depends on the host.
fn is_wait(name: &str) -> bool {
    Op::from_name(name).and_then(Op::info).is_some_and(|info| info.layer == Layer::Wait)
}

fn differ(what: &str, name: &str, expected: Number, count: u64, found: &mut Vec<String>) {
    if !expected.allows(count) {
        found.push(format!("{what}: {name} {count}, expected {expected}"));
    }
}

fn arguments(case: &Case, seen: &RecordedTrace, found: &mut Vec<String>) {
    for (name, expected) in &case.positions {
        let positions: Vec<_> = seen.named(name).map(|event| event.a).collect();
        if positions != *expected {
            found.push(format!("positions of {name}: {positions:?}, expected {expected:?}"));
        }
    }
    for (name, expected) in &case.results {
        let results: Vec<_> = seen.named(name).map(|event| event.ret).collect();
        if results != *expected {
            found.push(format!("results of {name}: {results:?}, expected {expected:?}"));
        }
    }
}

fn processes(case: &Case, format: &str, seen: &RecordedTrace, found: &mut Vec<String>) {
    let count = seen.processes.len();
    let expected = case.processes.unwrap_or(Number::Exactly(1));
    if !expected.allows(count as u64) {
        let endings: Vec<_> = seen.processes.iter().map(|p| (&p.ending, tally(p.events.iter()))).collect();
        found.push(format!("{count} process images, expected {expected}: {endings:?}"));
    }
    let mut endings: Vec<_> = seen.processes.iter().map(|process| process.ending.clone()).collect();
    let mut wanted = case.endings.clone().unwrap_or_else(|| vec![default_ending(case); count]);
    endings.sort();
    wanted.sort();
    // `*` matches any endings of any number of processes.
    if wanted != ["*"] && wanted != endings {
        found.push(format!("endings {endings:?}, expected {wanted:?}"));
    }
    if let Some(expected) = &case.threads {
        let mut names: Vec<_> = seen.processes.iter().flat_map(thread_names).collect();
        names.sort_unstable();
        if names != *expected {
            found.push(format!("threads called {names:?}, expected {expected:?}"));
        }
    }
    if !case.lost.unwrap_or(Number::Exactly(0)).allows(seen.lost()) {
        found.push(format!("{} events are lost", seen.lost()));
    }
    if let Some(expected) = case.done {
        differ("events", "there and lost", expected, seen.events().count() as u64 + seen.lost(), found);
    }
    seen.processes.iter().for_each(|process| files(case, process, format, found));
}

/// Returns the names that a process's threads were given, sorted.
fn thread_names(process: &Process) -> impl Iterator<Item = &str> {
    let pairs = process.fields.get(key::THREADS).unwrap_or_default().split('\0');
    pairs.filter_map(|pair| pair.split_once('=')).map(|(_, name)| name)
}

fn default_ending(case: &Case) -> String {
    match case.exit.as_deref().unwrap_or("42") {
        signal if signal.starts_with("signal") => "killed".to_string(),
        code => format!("exit {code}"),
    }
}

/// Checks that a normal end leaves one file of the requested format, with the tracer's own overhead.
fn files(case: &Case, process: &Process, format: &str, found: &mut Vec<String>) {
    let path = process.path.display();
    let is_pftrace = process.path.extension().is_some_and(|ending| ending == "pftrace");
    let orderly = process.ending.starts_with("exit") || process.ending == "exec";
    let small = process.events.len() <= AUTO_EVENTS_MAX;
    // A process that is ended by others may have recorded its ending, and be killed before its ring is removed, or
    // during the conversion.
    let ended_by_others = case.endings.as_ref().is_some_and(|endings| *endings == ["*"]);
    let is_due = orderly && format == "auto" && small;
    if !case.leftovers && is_pftrace != is_due && (is_pftrace || !ended_by_others) {
        found.push(format!("{path}: not the form that {format} asks for after `{}`", process.ending));
    }
    if !case.leftovers && orderly && process.has_ring && !ended_by_others {
        found.push(format!("{path}: its ring was left behind"));
    }
    let claimed: Option<usize> = process.fields.number(key::EVENTS);
    let held = process.events.len() + process.counters;
    // Counters at the end of a thread have no event to accompany into another format.
    let ends = if is_pftrace { process.events.iter().map(|event| event.tid).collect::<HashSet<_>>().len() } else { 0 };
    if orderly && !claimed.is_some_and(|claimed| (held..=held + ends).contains(&claimed)) {
        found.push(format!("{path}: holds {held} records and claims {claimed:?}"));
    }
    if orderly && process.fields.number::<u64>(key::TRACER_NS).is_none() {
        found.push(format!("{path}: does not say what the tracer itself took"));
    }
}

/// Checks that events are within the run, and that none with a system call took no time at all. A call that the C
/// library handles alone may take less than the clock can measure: the counters of some processors advance in steps
/// of several nanoseconds.
fn times(traced: &Run, seen: &RecordedTrace, found: &mut Vec<String>) {
    let ns = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let (began, ended) = (ns(traced.began) - CLOCK_SLACK_NS, ns(traced.ended) + CLOCK_SLACK_NS);
    let outside = |event: &&Event| event.start_ns < began || event.start_ns + event.duration_ns as i64 > ended;
    let strays: Vec<_> = seen.events().filter(outside).take(3).collect();
    let asks_the_kernel = |name| {
        let layer = Op::from_name(name).and_then(Op::info).map(|info| info.layer);
        layer == Some(Layer::Posix) && name != "readdir"
    };
    let instant: Vec<_> =
        seen.events().filter(|event| event.duration_ns == 0 && asks_the_kernel(event.name)).take(3).collect();
    if !instant.is_empty() {
        found.push(format!("events that took no time: {instant:?}"));
    }
    if !strays.is_empty() {
        found.push(format!("events outside the run ({began} to {ended}): {strays:?}"));
    }
}
