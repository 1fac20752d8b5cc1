//! Tests programs with very many events: all are present, whether they are recorded or counted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlio_schemas::native::file::Image;
use dlio_schemas::native::ring::Ring;
use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::{artefacts, home, seen};

/// Calls and bytes by function and file.
type Counts = BTreeMap<(String, String), (u64, u64)>;

struct Program {
    sandbox: Sandbox,
    binary: PathBuf,
    preload: PathBuf,
}

impl Program {
    fn new(test: &str, source: &str) -> Program {
        let sandbox = Sandbox::new(test).unwrap();
        let binary = sandbox.root().join("program");
        compile(&home().join("programs").join(source), &binary, &[]).unwrap();
        Program { sandbox, binary, preload: artefacts::library().unwrap() }
    }

    /// Runs it traced and returns its exit.
    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        self.sandbox.clear().unwrap();
        let mut command = Command::new(&self.binary);
        command.args(arguments).env("LD_PRELOAD", &self.preload).env("DLIO_TRACE_FORMAT", "native");
        // Whether a call waited long enough to be an event depends on the host.
        command.env("DLIO_TRACE_LAYERS", "posix,stdio,process,app");
        command.env("DLIO_TRACE_DIR", self.sandbox.trace()).envs(variables.iter().copied());
        self.sandbox.run(&mut command, true).unwrap().exit
    }

    fn images(&self) -> Vec<Image> {
        let entries = fs::read_dir(self.sandbox.trace()).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| image(&path)).collect()
    }
}

fn image(path: &Path) -> Image {
    let bytes = fs::read(path).unwrap();
    match path.extension().is_some_and(|ending| ending == "ring") {
        true => Image::from_ring(&Ring::parse(&bytes).unwrap()),
        false => Image::from_dlt(&bytes).unwrap(),
    }
}

fn recorded(trace: &Path) -> Counts {
    let mut counts = Counts::new();
    for event in seen::read(trace).events() {
        let place = counts.entry((event.name.into(), event.file.clone().unwrap_or_default())).or_default();
        place.0 += 1;
        place.1 += if ["pread", "read", "write", "fread"].contains(&event.name) { event.ret.max(0) as u64 } else { 0 };
    }
    counts
}

fn counted(images: &[Image]) -> Counts {
    let mut counts = Counts::new();
    for image in images {
        for row in &image.tally.as_ref().expect("a table of counts").rows {
            let name = row.op.info().unwrap().name.to_string();
            let file = image.names.text(row.subject).unwrap_or_default().into_owned();
            let place = counts.entry((name, file)).or_default();
            *place = (place.0 + row.count, place.1 + row.bytes);
        }
    }
    counts
}

#[test]
fn counts_match_the_events() {
    let program = Program::new("counting.loops", "loops_in_threads_are_recorded_call_for_call.c");
    for mode in ["pread", "read", "write", "openclose", "stat", "fread", "mixed"] {
        // Few calls are counted at the end, from a ring that was never full.
        for (threads, calls) in [("1", "4000"), ("8", "4000"), ("1", "20")] {
            program.run(&[mode, threads, calls], &[]);
            let recorded = recorded(&program.sandbox.trace());
            program.run(&[mode, threads, calls], &[("DLIO_TRACE_MODE", "summary")]);
            let images = program.images();
            assert_eq!(counted(&images), recorded, "{calls} {mode} in {threads} threads");
            assert!(images.iter().all(|image| image.blocks.is_empty()), "{mode} recorded events");
        }
    }
}

#[test]
fn ten_million_spans_are_all_recorded() {
    let program = Program::new("counting.spans", "spans_of_many_threads_are_all_there_in_flat_memory.c");
    // The program itself checks its memory.
    assert_eq!(program.run(&["4", "2500000"], &[]), "42");
    let images = program.images();
    assert_eq!((images.len(), images[0].events(), images[0].lost), (1, 10_000_000, 0));
}

#[test]
fn quantiles_of_counts_are_marked_in_every_report() {
    let program = Program::new("counting.marked", "loops_in_threads_are_recorded_call_for_call.c");
    program.run(&["mixed", "1", "4000"], &[("DLIO_TRACE_MODE", "summary")]);
    for words in [&[][..], &["--full"], &["--section", "functions"]] {
        let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
        let output = command.arg(program.sandbox.trace()).args(words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stdout).replace('\n', " ");
        assert!(message.contains("~ is within 6.3 %"), "{words:?}: {message}");
        // A function, the median in the first sentence, and the meaning of the mark.
        assert!(message.matches(" ~").count() >= 3, "{words:?}: {message}");
    }
}

#[test]
fn killed_program_keeps_its_counts() {
    let program = Program::new("counting.killed", "every_ending_keeps_every_completed_call.c");
    assert_eq!(program.run(&["SIGKILL", "100000"], &[("DLIO_TRACE_MODE", "summary")]), "signal 9");
    let images = program.images();
    let left: usize = images.iter().flat_map(|image| &image.leftovers).map(|leftover| leftover.events.len()).sum();
    let counted: u64 = counted(&images).values().map(|(count, _)| count).sum();
    assert!(counted > 0 && left > 0, "{counted} counted, {left} left");
    assert_eq!(counted + left as u64, 100_001, "{counted} counted, {left} left");
}

#[test]
fn full_trace_continues_as_counts() {
    const MEGABYTE: u64 = 1_000_000;
    let program = Program::new("counting.full", "loops_in_threads_are_recorded_call_for_call.c");
    program.run(&["mixed", "2", "1000000"], &[("DLIO_TRACE_MAX_MB", "1")]);
    let images = program.images();
    let recorded: u64 = images[0].blocks.iter().map(|block| block.header.count as u64).sum();
    let table = images[0].tally.as_ref().expect("a table of counts");
    assert!(recorded > 0 && table.events > 0);
    // A stat before the loops; in each loop, one call in ten is an open, stat, seek or close, six are reads.
    assert_eq!(recorded + table.events, 2_000_001);
    assert_eq!(images[0].lost, 0);
    let stored: u64 =
        fs::read_dir(program.sandbox.trace()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!((MEGABYTE / 2..=MEGABYTE).contains(&stored), "{stored} bytes");
}

#[test]
fn counting_uses_constant_memory_and_disk() {
    let program = Program::new("counting.constant", "loops_in_threads_are_recorded_call_for_call.c");
    let size = |operations: &str| {
        program.run(&["mixed", "1", operations], &[("DLIO_TRACE_MODE", "summary")]);
        let entry = fs::read_dir(program.sandbox.trace()).unwrap().next().unwrap().unwrap();
        entry.metadata().unwrap().len()
    };
    let (short, long) = (size("10000"), size("1000000"));
    assert!(long < short + 64 * 1024, "{short} bytes after ten thousand calls, {long} after a million");
}
