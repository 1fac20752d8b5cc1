//! Checks of the code itself: dependencies between crates, `unsafe` and its arguments, and forbidden words.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use dlio_tests::imports::Imports;
use dlio_tests::{artefacts, home};

fn root() -> PathBuf {
    home().parent().expect("the crate is in the workspace").to_path_buf()
}

// ---- dependencies ---------------------------------------------------------------------------------------------------

/// Returns every package below `package`, as cargo would build it without its tests.
fn below(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package", package])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_string).filter(|name| !name.is_empty()).collect()
}

fn assert_never(package: &str, forbidden: &[&str]) {
    let all = below(package);
    assert!(all.contains(package), "{package} is a package of the workspace");
    let found: Vec<_> = forbidden.iter().filter(|name| all.contains(**name)).collect();
    assert!(found.is_empty(), "{package} depends on {found:?}");
}

#[test]
fn capture_depends_on_no_analysis() {
    for package in ["dlio-schemas", "dlio-tracer", "dlio-preload"] {
        assert_never(
            package,
            &["arrow", "arrow-array", "parquet", "datafusion", "tokio", "serde", "clap", "log", "tracing"],
        );
        assert_never(package, &["dlio-analyzer", "dlio-benchmark"]);
    }
}

#[test]
fn patching_code_is_only_in_its_own_library() {
    assert_never("dlio-preload", &["retour", "iced-x86", "mmap-fixed-fixed", "region", "slice-pool2", "dlio-inline"]);
}

#[test]
fn analysis_depends_on_no_capture() {
    assert_never("dlio-analyzer", &["dlio-tracer", "dlio-preload", "dlio-benchmark"]);
}

#[test]
fn benchmark_reads_no_traces() {
    assert_never("dlio-benchmark", &["dlio-analyzer", "dlio-preload", "datafusion", "arrow"]);
}

#[test]
fn cluster_depends_on_no_crate_of_ours() {
    assert_never(
        "dlio-cluster",
        &["dlio-schemas", "dlio-tracer", "dlio-preload", "dlio-analyzer", "dlio-benchmark", "clap"],
    );
}

#[test]
fn schemas_depend_on_no_crate_of_ours() {
    assert_never("dlio-schemas", &["dlio-tracer", "dlio-preload", "dlio-analyzer", "dlio-benchmark"]);
}

#[test]
fn preload_crate_is_only_a_cdylib() {
    let manifest = std::fs::read_to_string(root().join("preload/Cargo.toml")).expect("the manifest of preload");
    assert!(manifest.contains("crate-type = [\"cdylib\"]"), "an rlib's `read` would replace libc's in every program");
    for other in members().iter().filter(|member| *member != "preload") {
        let text = std::fs::read_to_string(root().join(other).join("Cargo.toml")).expect("a member's manifest");
        assert!(!text.contains("dlio-preload"), "{other} depends on dlio-preload");
    }
}

#[test]
fn there_is_one_arrow() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    for package in ["arrow", "arrow-array", "parquet", "datafusion"] {
        let count = lock.lines().filter(|line| *line == format!("name = \"{package}\"")).count();
        assert_eq!(count, 1, "{package} stands {count} times in Cargo.lock");
    }
}

/// Returns the directories of the workspace's members.
fn members() -> Vec<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let line = manifest.lines().find(|line| line.starts_with("members = [")).expect("a list of members");
    line.split('"').skip(1).step_by(2).map(str::to_string).collect()
}

/// Returns the names in a manifest's tables of dependencies, including those of tests and build scripts.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let (mut names, mut inside) = (BTreeSet::new(), false);
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]");
        } else if inside && line.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            names.extend(line.split(['.', ' ', '=']).next().map(str::to_string));
        }
    }
    names
}

/// Returns the Rust code of a member, and of the files of others that it includes by `#[path]`.
fn code_of(member: &str, sources: &[(PathBuf, String)]) -> String {
    let mut code = String::new();
    for (file, text) in sources.iter().filter(|(file, _)| file.starts_with(member)) {
        code += text;
        for path in text.split("#[path = \"").skip(1).filter_map(|rest| rest.split('"').next()) {
            code += &std::fs::read_to_string(root().join(file).with_file_name(path)).unwrap_or_default();
        }
    }
    code
}

#[test]
fn every_dependency_is_used() {
    let manifest = |folder: &str| std::fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("a manifest");
    let (sources, mut taken) = (sources(&[".rs"]), BTreeSet::new());
    for member in members() {
        let code = code_of(&member, &sources);
        for name in dependencies(&manifest(&member)) {
            let krate = name.replace('-', "_");
            let used = [format!("{krate}::"), format!("use {krate} as")].iter().any(|form| code.contains(form));
            assert!(used, "{member} does not use {name}");
            taken.insert(name);
        }
    }
    let unused: Vec<_> = dependencies(&manifest("")).into_iter().filter(|name| !taken.contains(name)).collect();
    assert!(unused.is_empty(), "no member depends on {unused:?}");
}

// ---- sources --------------------------------------------------------------------------------------------------------

/// Returns all files under version control with one of these extensions.
fn sources(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let output = Command::new("git").current_dir(root()).args(["ls-files", "-z"]).output().expect("git runs");
    let names = String::from_utf8(output.stdout).expect("names of files are UTF-8");
    let wanted = |name: &&str| endings.iter().any(|ending| name.ends_with(ending));
    let read = |name: &str| std::fs::read_to_string(root().join(name)).ok().map(|text| (PathBuf::from(name), text));
    names.split('\0').filter(wanted).filter_map(read).collect()
}

/// The crates in which no files import each other in a circle, directly or not: such a circle can only be read and
/// changed as a whole.
const WITHOUT_CIRCLES: &[&str] =
    &["schemas", "tracer", "preload", "benchmark", "analyzer", "cluster", "linking", "python", "tests"];

#[test]
fn files_do_not_import_in_a_circle() {
    let sources = sources(&[".rs"]);
    for member in WITHOUT_CIRCLES {
        let all = sources.iter().map(|(path, text)| (path.to_str().expect("a name in UTF-8"), text.as_str()));
        let imports = Imports::of(&format!("{member}/src/"), all);
        let circles = imports.circles();
        assert!(circles.is_empty(), "{member}: files that import each other: {circles:#?}");
    }
}

/// The subdirectories of a source directory, from the ground up; the empty name represents the files next to them,
/// except those that are listed by their names. A file may import from its own directory and from those listed before
/// it.
const FLOORS: &[(&str, &[&str])] = &[
    ("schemas/src/", &["event", "text", "machine", "deflate", "native", "export", "perfetto", ""]),
    (
        "tracer/src/",
        &["kernel", "process", "thread", "known", "trace", "recording", "naming", "life", "calls", "spans", ""],
    ),
    (
        "benchmark/src/",
        &[
            "failure",
            "system",
            "machine",
            "ptrace",
            "keys",
            "ranks",
            "spans",
            "store",
            "files",
            "config",
            "data_set",
            "checkpoint",
            "results",
            "workload",
            "check",
            "training",
            "bench",
            "command",
            "",
        ],
    ),
    (
        "analyzer/src/",
        &[
            "amount",
            "argument_key",
            "shell_word",
            "resources",
            "replay",
            "catalog",
            "process_tree",
            "errno",
            "owner",
            "packed_serde",
            "schema",
            "foreign_options",
            "terminal",
            "text_table",
            "unfinished",
            "unit",
            "atomic_file",
            "batch",
            "sidecar",
            "filter",
            "load",
            "scan",
            "summary",
            "cache",
            "compare",
            "findings",
            "io_profile",
            "tables",
            "viewer",
            "top",
            "cluster",
            "html",
            "similarity",
            "workload",
            "command",
            "",
        ],
    ),
    (
        "analyzer/src/load/",
        &[
            "bytes",
            "events",
            "sources",
            "lines",
            "native",
            "json",
            "formats",
            "inputs",
            "recorded",
            "companion_files",
            "",
        ],
    ),
    (
        "analyzer/src/summary/",
        &[
            "figures",
            "time",
            "files",
            "tree",
            "waits",
            "groups",
            "count",
            "analysis",
            "devices",
            "training",
            "wording",
            "partial",
            "exact_quantiles",
            "report",
            "",
        ],
    ),
];

/// Returns the index of a file's floor: that of the longest listed directory that contains it.
fn floor(place: &str, rooms: &[&str], file: &str) -> Option<usize> {
    let file = file.strip_prefix(place)?.trim_end_matches(".rs");
    let is_in = |room: &str| file.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let contains = |room: &str| if room.is_empty() { !file.contains('/') } else { is_in(room) };
    (0..rooms.len()).filter(|at| contains(rooms[*at])).max_by_key(|at| rooms[*at].len())
}

#[test]
fn directories_import_only_from_lower_ones() {
    let sources = sources(&[".rs"]);
    for (place, rooms) in FLOORS {
        let below = |path: &PathBuf| path.to_str().is_some_and(|path| path.starts_with(place));
        for (path, _) in sources.iter().filter(|(path, _)| below(path)) {
            let file = path.to_str().expect("a name in UTF-8");
            assert!(floor(place, rooms, file).is_some(), "{file}: its folder is not in the list of {place}");
        }
        let all = sources.iter().map(|(path, text)| (path.to_str().expect("a name in UTF-8"), text.as_str()));
        let source = place.find("src/").map_or(*place, |at| &place[..at + "src/".len()]);
        let imports = Imports::of(source, all);
        let arrows = imports.arrows();
        let is_up = |(from, to): &&(&str, &str)| floor(place, rooms, from) < floor(place, rooms, to);
        let inside = |(from, to): &&(&str, &str)| from.starts_with(place) && to.starts_with(place);
        let up: Vec<_> = arrows.iter().filter(inside).filter(is_up).collect();
        assert!(up.is_empty(), "{place}: imports from a folder above: {up:#?}");
    }
}

/// The files that may contain `unsafe`: see the module documentation of `dlio-tracer` and of the benchmark's buffers.
const UNSAFE: &[&str] = &[
    "preload/src/",
    "preload/inline/src/",
    "preload/rocm/src/",
    "tracer/src/calls/call.rs",
    "tracer/src/calls/device.rs",
    "tracer/src/calls/meaning.rs",
    "tracer/src/calls/network.rs",
    "tracer/src/calls/processes.rs",
    "tracer/src/calls/requests.rs",
    "tracer/src/calls/uring/",
    "tracer/src/kernel/clock.rs",
    "tracer/src/kernel/large_statics.rs",
    "tracer/src/kernel/limits.rs",
    "tracer/src/kernel/machine.rs",
    "tracer/src/kernel/pages.rs",
    "tracer/src/kernel/single_thread_atomics.rs",
    "tracer/src/kernel/sockets.rs",
    "tracer/src/kernel/sys.rs",
    "tracer/src/kernel/thread_end.rs",
    "tracer/src/kernel/valgrind.rs",
    "tracer/src/kernel/variables.rs",
    "tracer/src/kernel/vdso.rs",
    "tracer/src/known/descriptors.rs",
    "tracer/src/known/mappings.rs",
    "tracer/src/known/name_cache.rs",
    "tracer/src/known/wakers.rs",
    "tracer/src/life/environment.rs",
    "tracer/src/life/finish.rs",
    "tracer/src/life/lifecycle.rs",
    "tracer/src/life/shutdown.rs",
    "tracer/src/naming/names.rs",
    "tracer/src/naming/paths.rs",
    "tracer/src/process/config.rs",
    "tracer/src/process/process_info.rs",
    "tracer/src/recording/counters.rs",
    "tracer/src/recording/drain.rs",
    "tracer/src/recording/image.rs",
    "tracer/src/recording/phase.rs",
    "tracer/src/recording/ring.rs",
    "tracer/src/recording/signal_queue.rs",
    "tracer/src/recording/wiped_page.rs",
    "tracer/src/spans/app.rs",
    "tracer/src/spans/cupti/",
    "tracer/src/spans/device/driver.rs",
    "tracer/src/spans/device/mod.rs",
    "tracer/src/spans/engine_lookup.rs",
    "tracer/src/spans/library_calls.rs",
    "tracer/src/spans/mpi.rs",
    "tracer/src/spans/nvtx/kept.rs",
    "tracer/src/spans/nvtx/message.rs",
    "tracer/src/spans/nvtx/stack.rs",
    "tracer/src/spans/io.rs",
    "tracer/src/spans/own.rs",
    "tracer/src/spans/rocprofiler/client.rs",
    "tracer/src/spans/rocprofiler/functions.rs",
    "tracer/src/spans/rocprofiler/kernels.rs",
    "tracer/src/spans/span.rs",
    "tracer/src/spans/table.rs",
    "tracer/src/thread/chunk.rs",
    "tracer/src/thread/codec.rs",
    "tracer/src/thread/evidence.rs",
    "tracer/src/thread/local.rs",
    "tracer/src/thread/slots.rs",
    "tracer/src/thread/stack.rs",
    "tracer/src/thread/thread_state.rs",
    "tracer/src/trace/blocks.rs",
    "tracer/src/trace/files.rs",
    "tracer/src/trace/header_page.rs",
    "tracer/src/trace/recent.rs",
    "tracer/src/trace/ring_file.rs",
    "tracer/src/trace/sigbus.rs",
    "tracer/src/trace/spool.rs",
    "tracer/src/trace/tally.rs",
    "benchmark/mpi/src/",
    "benchmark/src/data_set/formats/hdf5.rs",
    "benchmark/src/machine/nvml.rs",
    "benchmark/src/ptrace/kernel.rs",
    "benchmark/src/ranks/mpi/library.rs",
    "benchmark/src/ranks/mpi/table.rs",
    "benchmark/src/system/buffer.rs",
    "benchmark/src/system/clock.rs",
    "benchmark/src/system/file_calls.rs",
    "benchmark/src/system/processes.rs",
    "benchmark/src/system/shared_memory.rs",
    "python/src/",
    // Programs that show or measure the library's overhead.
    "examples/rust/src/",
    "tests/bench/micro/",
];

/// Returns lines of Rust with an `unsafe` that is code.
fn unsafe_lines(text: &str) -> Vec<usize> {
    let code = |line: &str| line.split("//").next().unwrap_or("").to_string();
    let word = |line: &str| {
        line.match_indices("unsafe").any(|(at, _)| {
            let around = |byte: Option<&u8>| {
                byte.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_' && *byte != b'"')
            };
            let bytes = line.as_bytes();
            around(at.checked_sub(1).and_then(|before| bytes.get(before))) && around(bytes.get(at + 6))
        })
    };
    text.lines().enumerate().filter(|(_, line)| word(&code(line))).map(|(number, _)| number).collect()
}

#[test]
fn files_listed_for_unsafe_contain_unsafe() {
    let sources = sources(&[".rs"]);
    for start in UNSAFE {
        let has = |(path, text): &(PathBuf, String)| {
            path.to_string_lossy().starts_with(start) && !unsafe_lines(text).is_empty()
        };
        assert!(sources.iter().any(has), "{start} has no unsafe any more: it may be a file like all others");
    }
}

#[test]
fn unsafe_is_only_in_listed_files() {
    for (path, text) in sources(&[".rs"]) {
        let name = path.to_string_lossy().into_owned();
        let expected = UNSAFE.iter().any(|start| name.starts_with(start));
        let found: Vec<_> = unsafe_lines(&text).iter().map(|line| line + 1).collect();
        assert!(
            expected || name.ends_with("tests/tests/tidy.rs") || found.is_empty(),
            "{name}: unsafe in lines {found:?}"
        );
    }
}

/// Returns `true` for a block or impl with a SAFETY comment above it, and for a function, private or not, with a `#
/// Safety` section; declarations of foreign functions, attributes and function types need none.
fn is_argued(lines: &[&str], at: usize) -> bool {
    let line = lines[at];
    let declares =
        ["unsafe(no_mangle)", "unsafe(naked)", "unsafe(link_section", "unsafe extern \"C\" {", "unsafe_op", "r#unsafe"];
    let is_type = line.contains("unsafe extern \"C\" fn(") || line.contains("unsafe fn(");
    if declares.iter().any(|word| line.contains(word)) || is_type {
        return true;
    }
    let is_function = line.contains("unsafe fn ") || line.contains("unsafe extern \"C\" fn ");
    if is_function {
        let above = lines[..at].iter().rev().map(|line| line.trim_start());
        return above
            .take_while(|line| line.starts_with("///") || line.starts_with("#["))
            .any(|line| line.contains("# Safety"));
    }
    lines[at.saturating_sub(14)..=at].iter().rev().any(|line| line.contains("SAFETY:"))
}

#[test]
fn every_unsafe_has_an_argument() {
    let mut without = BTreeMap::new();
    for (path, text) in sources(&[".rs"]).into_iter().filter(|(path, _)| !path.ends_with("tests/tests/tidy.rs")) {
        let lines: Vec<&str> = text.lines().collect();
        let bare: Vec<_> =
            unsafe_lines(&text).into_iter().filter(|at| !is_argued(&lines, *at)).map(|at| at + 1).collect();
        if !bare.is_empty() {
            without.insert(path, bare);
        }
    }
    assert!(without.is_empty(), "unsafe without an argument: {without:?}");
}

/// Maximum number of lines of a function, from its signature to its closing brace.
const LINES_MAX: usize = 70;

/// Returns the name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    const QUALIFIERS: [&str; 7] =
        ["pub ", "pub(crate) ", "pub(super) ", "const ", "async ", "unsafe ", "extern \"C\" "];
    let mut rest = line.trim_start();
    while let Some(shorter) = QUALIFIERS.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter;
    }
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// Returns the name and the number of lines of each function outside tests. Sources are formatted, so a function ends
/// with a brace indented like its first line.
fn functions(text: &str) -> Vec<(String, usize)> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines: Vec<&str> = code.lines().collect();
    let begins = lines.iter().enumerate().filter_map(|(at, line)| Some((at, *line, function(line)?)));
    let length = |(at, line, name): (usize, &str, &str)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let ends = |line: &&str| {
            line.strip_prefix(indent).is_some_and(|rest| rest == "}" || rest.starts_with(')') && rest.ends_with(';'))
        };
        let more = if line.ends_with(['}', ';']) { 0 } else { lines[at..].iter().position(ends)? };
        Some((name.to_string(), more + 1))
    };
    begins.filter_map(length).collect()
}

#[test]
fn functions_have_at_most_70_lines() {
    let is_test = |path: &Path| path.starts_with("tests") || path.components().any(|part| part.as_os_str() == "tests");
    let mut long = BTreeSet::new();
    for (path, text) in sources(&[".rs"]).into_iter().filter(|(path, _)| !is_test(path) && !path.ends_with("tests.rs"))
    {
        let member = path.iter().next().unwrap_or_default().to_string_lossy().into_owned();
        let of_file = functions(&text).into_iter().filter(|(_, lines)| *lines > LINES_MAX);
        long.extend(of_file.map(|(name, _)| (member.clone(), name)));
    }
    assert!(long.is_empty(), "functions of more than {LINES_MAX} lines: {long:?}");
}

#[test]
fn the_lines_of_functions_are_counted() {
    let text = "pub(crate) fn one(\n    a: u32,\n) {\n    fn two() {\n        a\n    }\n}\n    fn three(\n    ) -> u32;\nfn four() {}\n";
    let expected = [("one", 7), ("two", 3), ("three", 2), ("four", 1)];
    assert_eq!(functions(text), expected.map(|(name, lines)| (name.to_string(), lines)));
}

#[test]
fn no_todo_remains() {
    let words = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[", "ignore"),
        concat!("FIX", "ME"),
        concat!("XX", "X "),
    ];
    for (path, text) in sources(&[".rs", ".py", ".sh", ".c", ".h"]) {
        for word in words {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

#[test]
fn files_contain_no_developer_paths() {
    // Home directories and workplaces, written so that this file does not contain them.
    let places = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/ub"), concat!("/Us", "ers/")];
    for (path, text) in sources(&[".rs", ".py", ".sh", ".toml", ".md", ".c", ".h", ".sql", ".yaml", ".js", "Makefile"])
    {
        for place in places {
            let found: Vec<_> = text.lines().filter(|line| line.contains(place)).take(2).collect();
            assert!(found.is_empty(), "{}: {found:?}", path.display());
        }
    }
}

/// Cargo does not rebuild a test for another clone that shares its target directory.
#[test]
fn tests_do_not_embed_their_clone() {
    let kept = concat!("env!(\"CARGO_", "MANIFEST_DIR\")");
    let found: Vec<_> =
        sources(&[".rs"]).into_iter().filter(|(_, text)| text.contains(kept)).map(|(path, _)| path).collect();
    assert!(found.is_empty(), "std::env::var says it when the test runs: {found:?}");
}

#[test]
fn names_are_not_vague() {
    let vague = ["utils", "util", "common", "manager", "helpers", "misc"];
    for (path, _) in sources(&[".rs", ".py"]) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        assert!(!vague.contains(&stem.as_str()), "{}", path.display());
    }
}

// ---- hooks ----------------------------------------------------------------------------------------------------------

/// Returns the names that a shared object defines, or requires.
fn symbols(object: &Path, which: &str) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", which]).arg(object).output().expect("nm runs; binutils has it");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name =
        |line: &str| line.split_whitespace().last().map(|name| name.split('@').next().unwrap_or(name).to_string());
    text.lines().filter_map(name).collect()
}

/// Hooks that no program here can reach: newer than the C library that the tests were written with, and tested by
/// their older names.
const NOT_CALLED: &[&str] = &[
    "__isoc23_fscanf",
    "__isoc23_scanf",
    "__isoc23_vfscanf",
    "__isoc23_vscanf",
    "__isoc23_fwscanf",
    "__isoc23_wscanf",
    "__isoc23_vfwscanf",
    "__isoc23_vwscanf",
];

#[test]
fn every_hook_is_called_by_a_program() {
    let library = artefacts::library().unwrap_or_else(|error| panic!("{error}"));
    let hooks: BTreeSet<String> =
        symbols(&library, "--defined-only").into_iter().filter(|name| !name.contains("dlio_")).collect();
    assert!(hooks.len() > 200, "{} hooks are far too few", hooks.len());
    let mut called = BTreeSet::new();
    let folders = ["tests/programs", "tests/rings", "tests/gpu"];
    let is_program = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
    for (_, text) in sources(&[".c", ".h"]).into_iter().filter(|(path, _)| is_program(path)) {
        let code: String = text.lines().filter(|line| !line.starts_with("//=")).collect::<Vec<_>>().join("\n");
        let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        called.extend(words.map(str::to_string));
    }
    let missing: Vec<_> =
        hooks.iter().filter(|name| !called.contains(*name) && !NOT_CALLED.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "no program of {folders:?} calls {missing:?}");
}

/// The files that write to a terminal themselves: the edge of each program, and the screen of `dlio top`.
const EDGES: &[&str] =
    &["analyzer/src/terminal.rs", "analyzer/src/top/terminal.rs", "benchmark/src/system/terminal.rs"];

#[test]
fn all_output_uses_the_terminal_writer() {
    for (path, text) in sources(&[".rs"]) {
        let name = path.to_str().expect("a name in UTF-8");
        let ours = ["analyzer/src/", "benchmark/src/", "cluster/src/"].iter().any(|start| name.starts_with(start));
        if !ours || EDGES.contains(&name) {
            continue;
        }
        let without_tests = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for line in without_tests.lines().map(|line| line.split("//").next().unwrap_or_default()) {
            let asks = line.contains("is_terminal()") || line.contains("terminal_size_of(");
            let writes =
                ["println!(", "print!(", "io::stdout()", "io::stderr()"].iter().any(|call| line.contains(call));
            assert!(!writes || asks, "{name}: {line}");
        }
    }
}
