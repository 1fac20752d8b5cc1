//! Tests traces of other tools: small samples whose every event is known, and inputs that must be rejected.

mod generator;
mod support;

use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::{Trace, inputs};
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::analyse;
use dlio_analyzer::summary::report::Summary;
use dlio_analyzer::summary::report::functions::beneath;
use dlio_analyzer::viewer;
use dlio_analyzer::viewer::forms::Form;
use dlio_schemas::perfetto::pack::Compression;
use support::temp_dir;

fn sample(name: &str) -> String {
    format!("{}/tests/samples/{name}", std::env::var("CARGO_MANIFEST_DIR").unwrap())
}

fn read(path: &str) -> (Trace, Summary) {
    let trace = Trace::open(&[path.to_string()], 2).unwrap();
    let summary = analyse(&trace, &Filter::default(), 2, &Progress::default()).unwrap().summary(&trace);
    (trace, summary)
}

/// Returns name, count, total time and bytes of every function and span.
fn rows(summary: &Summary) -> Vec<(String, u64, u64, Option<u64>)> {
    let both = summary.functions.iter().chain(&summary.past_files).chain(&summary.spans);
    let mut rows: Vec<_> = both.map(|row| (row.name.clone(), row.count, row.time_ns, row.bytes)).collect();
    rows.sort();
    rows
}

fn row(name: &str, count: u64, time_ns: u64, bytes: Option<u64>) -> (String, u64, u64, Option<u64>) {
    (name.into(), count, time_ns, bytes)
}

#[test]
fn chrome_array_gives_all_kinds_of_events() {
    let (_, summary) = read(&sample("chrome-array.json"));
    let expected = [
        row("aio_read_done", 1, 100_000, Some(8)),
        row("loss", 1, 0, None),
        row("note", 1, 0, None),
        row("openat", 1, 1000, None),
        row("read", 1, 678, Some(20)),
        row("step", 1, 2_000_500, None),
    ];
    assert_eq!(rows(&summary), expected);
    assert_eq!(summary.processes[0].program, "train");
    assert_eq!(summary.functions.iter().map(|function| function.failed).sum::<u64>(), 1);
    assert_eq!(summary.time.compute_ns, Some(2_000_500));
    assert!(summary.files.iter().any(|file| file.path == "/a \"b\""));
    assert!(summary.damage.is_empty());
}

/// Returns the summary of a text whose file is not needed afterwards.
fn read_text(name: &str, text: &str) -> Summary {
    let folder = temp_dir(&format!("text-{name}"));
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    read(&path.display().to_string()).1
}

/// Returns results of SQL as text, one line per row.
fn query_lines(name: &str, text: &str, sql: &str) -> Vec<String> {
    let folder = temp_dir(&format!("ask-{name}"));
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let program = env!("CARGO_BIN_EXE_dlio-analyze");
    let output = std::process::Command::new(program)
        .args([&path.display().to_string(), "--no-cache", "--format", "csv", "--sql", sql])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().skip(1).map(str::to_string).collect()
}

#[test]
fn open_slice_lasts_to_the_end() {
    let text = r#"[{"name":"read","cat":"POSIX","ph":"X","ts":1000,"dur":10,"pid":1,"tid":1,"args":{"fname":"/d/a","ret":100}},
        {"name":"step","cat":"compute","ph":"B","ts":1020,"pid":1,"tid":1,"args":{"n":7}},
        {"name":"inner","cat":"x","ph":"B","ts":1030,"pid":1,"tid":1},
        {"name":"load","cat":"data","ph":"b","id":"7","ts":1035,"pid":1,"tid":2},
        {"name":"read","cat":"POSIX","ph":"X","ts":1040,"dur":10,"pid":1,"tid":1,"args":{"fname":"/d/a","ret":100}}]"#;
    let summary = read_text("unfinished.json", text);
    let expected = [
        row("inner", 1, 20_000, None),
        row("load", 1, 15_000, None),
        row("read", 2, 20_000, Some(200)),
        row("step", 1, 30_000, None),
    ];
    assert_eq!(rows(&summary), expected);
    assert_eq!((summary.time.compute_ns, summary.damage.len()), (Some(30_000), 0));
    let message = query_lines(
        "unfinished-sql.json",
        text,
        "select name, depth from events where args['unfinished'] = 'true' order by ts",
    );
    assert_eq!(message, ["step,0", "inner,1", "load,0"]);
    let unbegun = r#"[{"name":"read","cat":"POSIX","ph":"X","ts":1000,"dur":10,"pid":1,"tid":1},
        {"name":"load","cat":"data","ph":"e","id":"7","ts":1035,"pid":1,"tid":2}]"#;
    assert_eq!(read_text("unbegun.json", unbegun).damage.len(), 1);
}

#[test]
fn complete_events_get_depth_in_any_order() {
    let event = |name: &str, cat: &str, tid: u32, ts: u32, dur: u32| {
        format!(r#"{{"name":"{name}","cat":"{cat}","ph":"X","ts":{ts},"dur":{dur},"pid":1,"tid":{tid}}}"#)
    };
    let events = [
        event("inner", "x", 1, 20, 10),
        event("read", "posix", 1, 22, 4),
        event("read", "posix", 1, 15, 5),
        event("outer", "x", 1, 10, 30),
        event("next", "x", 1, 40, 10),
        event("other", "x", 2, 21, 10),
        r#"{"name":"mark","ph":"i","ts":25,"pid":1,"tid":1}"#.into(),
        r#"{"name":"pair","ph":"B","ts":41,"pid":1,"tid":1},{"name":"pair","ph":"E","ts":45,"pid":1,"tid":1}"#.into(),
    ];
    let sql = "select name, ts, depth from events order by ts, name";
    let expected = [
        "outer,10000,0",
        "read,15000,1",
        "inner,20000,1",
        "other,21000,0",
        "read,22000,2",
        "mark,25000,2",
        "next,40000,0",
        "pair,41000,1",
    ];
    let mut behind = events.clone();
    behind.reverse();
    for events in [events, behind] {
        assert_eq!(query_lines("depths.json", &format!("[{}]", events.join(",")), sql), expected);
    }
}

#[test]
fn decimal_integers_and_wide_pids_are_exact() {
    let text = r#"[{"name":"read","cat":"POSIX","ph":"X","ts":1000,"dur":10,"pid":1,"tid":1,"args":{"ret":10.0}},
        {"name":"read","cat":"POSIX","ph":"X","ts":1040,"dur":10,"pid":99999999999,"tid":1,"args":{"ret":5}}]"#;
    let summary = read_text("numbers.json", text);
    assert_eq!(rows(&summary), [row("read", 2, 20_000, Some(15))]);
    let [remark] = &summary.damage[..] else { panic!("{:?}", summary.damage) };
    assert!(remark.remark && remark.what.contains("not 32-bit numbers") && remark.events_max == Some(0), "{remark:?}");
    assert_eq!(dlio_analyzer::summary::report::damage::damage_sentence(&summary.damage), None);
}

#[test]
fn zero_result_survives_export() {
    let folder = temp_dir("zero");
    generator::generate(folder.path(), &generator::Plan { events: 2000, ..Default::default() }, &|_, _, _| ()).unwrap();
    let (trace, out) = (folder.path().display().to_string(), folder.path().join("out"));
    std::fs::create_dir(&out).unwrap();
    let run = |arguments: &[&str]| {
        let program = env!("CARGO_BIN_EXE_dlio-analyze");
        let output = std::process::Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let sql = "select name, count(ret), sum(ret) from events where cat = 'posix' group by name order by name";
    let count = |of: &str| run(&[of, "--no-cache", "--format", "csv", "--sql", sql]);
    let before = count(&trace);
    let chrome = std::env::temp_dir().join(format!("dlio-zero-{}.json.gz", std::process::id()));
    run(&[&trace, "--export", chrome.to_str().unwrap(), "--force"]);
    let after = count(chrome.to_str().unwrap());
    std::fs::remove_file(&chrome).unwrap();
    assert!(before.contains("close,"));
    assert_eq!(before, after);
}

#[test]
fn chrome_object_form_is_read() {
    let (_, summary) = read(&sample("chrome-object.json"));
    assert_eq!(rows(&summary), [row("write", 2, 4000, Some(11))]);
    assert_eq!(summary.allocation.threads, 2);
}

#[test]
fn dftracer_hashes_are_resolved() {
    let (_, summary) = read(&sample("dftracer.pfw"));
    let expected = [
        row("open", 1, 8000, None),
        row("pread", 1, 738_000, Some(4096)),
        row("read", 1, 2000, Some(10)),
        row("step", 1, 96_000, None),
    ];
    assert_eq!(rows(&summary), expected);
    let mut paths: Vec<_> = summary.files.iter().map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/data/f", "/data/late", "/data/old"]);
    assert_eq!((summary.allocation.lost, summary.processes[0].host.as_str()), (2000, "node7"));
    assert_eq!(summary.allocation.aggregated, 2000);
    let text = dlio_analyzer::summary::report::text::print(&summary, (10, 9999));
    assert!(text.contains("DFTracer aggregated 2,000 calls") && !text.contains("found no room"), "{text}");
    assert_eq!(summary.time.start_ts, 1_795_219_511_213_000_000);
}

#[test]
fn darshans_segments_become_reads_and_writes() {
    let (_, summary) = read(&sample("dxt.txt"));
    let expected = [
        row("read", 1, 100_000, Some(10)),
        row("read", 1, 250_000_000, Some(1000)),
        row("write", 1, 100_000, Some(4096)),
    ];
    assert_eq!(rows(&summary), expected);
    assert_eq!((summary.allocation.hosts, summary.ranks.len()), (2, 2));
    assert_eq!(summary.time.start_ts, 1_700_000_000_002_300_000);
}

#[test]
fn bytes_of_two_layers_count_once() {
    let folder = temp_dir("dxt-layers");
    let path = folder.path().join("dxt.txt");
    let text = "# darshan log version: 3.41\n# start_time: 1700000000\n# DXT, file_id: 1, file_name: /data/a\n# DXT, rank: 0, hostname: h\n \
        X_MPIIO 0 read 0 500 2000 1.25 1.5\n X_POSIX 0 read 0 500 1000 1.26 1.3\n X_POSIX 0 read 1 1500 1000 1.3 1.4\n\
        # DXT, file_id: 2, file_name: /data/b\n# DXT, rank: 0, hostname: h\n X_MPIIO 0 write 0 0 70 2.0 2.1\n\
        # DXT, file_id: 1, file_name: /data/a\n# DXT, rank: 1, hostname: h\n X_MPIIO 1 read 0 0 300 2.0 2.1\n";
    std::fs::write(&path, text).unwrap();
    let (_, summary) = read(&path.display().to_string());
    assert_eq!((summary.dataset.bytes_read, summary.dataset.bytes_written), (2300, 70));
    let a = summary.files.iter().find(|file| file.path == "/data/a").unwrap();
    assert_eq!((a.use_.bytes_read, a.use_.events, summary.dataset.bytes_reached), (2300, 3, 2570));
    let ranks: Vec<_> = summary.ranks.iter().map(|rank| (rank.work.bytes_read, rank.work.bytes_written)).collect();
    assert_eq!(ranks, [(2000, 70), (300, 0)]);
    // Their time counts, too, and SQL agrees.
    let ms = |ns: u64| ns / 1_000_000;
    let ranks: Vec<_> = summary.ranks.iter().map(|rank| (ms(rank.work.read_ns), ms(rank.work.write_ns))).collect();
    assert_eq!((ranks, ms(a.use_.time_ns)), (vec![(140, 100), (100, 0)], 240));
    for sql in [include_str!("../sql/ranks.sql"), include_str!("../sql/processes.sql")] {
        let of_section = sql.trim().trim_end_matches(';');
        let sql = format!("select rank, read_ns / 1000000, write_ns / 1000000 from ({of_section}) order by rank");
        assert_eq!(query_lines("dxt-layers.txt", text, &sql), ["0,140,100", "1,100,0"]);
    }
    let read = |cat: &str| summary.functions.iter().find(|row| row.name == "read" && row.cat == cat).unwrap();
    assert_eq!(read("mpiio").named(&summary.functions), "read (mpiio)");
    let beneath: Vec<_> = beneath(&summary.functions).map(|row| &*row.cat).collect();
    assert_eq!(beneath, ["posix"]);
}

#[test]
fn strace_calls_are_matched_with_files() {
    let (_, summary) = read(&sample("strace.txt"));
    let find = |name: &str| rows(&summary).into_iter().find(|row| row.0 == name).unwrap();
    assert_eq!(find("read"), row("read", 1, 1_000_000, Some(4096)));
    assert_eq!(find("pread"), row("pread", 1, 1_000_000, Some(100)));
    let data = summary.files.iter().find(|file| file.path == "/data/a").unwrap();
    assert_eq!((data.use_.bytes_read, data.use_.opens, data.use_.events), (4196, 1, 4));
    assert_eq!((summary.allocation.processes, summary.allocation.threads), (1, 2));
    assert!(summary.damage.is_empty());
}

#[test]
fn strace_gives_programs_and_endings() {
    let text = "7<strace> 1700000000.1 execve(\"/bin/cat\", [\"cat\"], 0x7f /* 3 vars */) = 0 <0.000100>\n\
        7<my cat> 1700000000.2 openat(AT_FDCWD, \"/lib/x\", O_RDONLY) = 3</lib/x> <0.000010>\n\
        7<my cat> 1700000000.3 mmap(NULL, 832, PROT_READ, MAP_PRIVATE, 3</lib/x>, 0) = 0x7f12 <0.000010>\n\
        7<my cat> 1700000000.4 munmap(0x7f1200000000, 832) = 0 <0.000010>\n\
        7<my cat> 1700000000.5 writev(1</d/out>, [{iov_base=\"ab\"..., iov_len=4000}, {iov_base=\"c\", iov_len=96}], 2) = 4096 <0.000010>\n\
        7<my cat> 1700000000.6 writev(1</d/out>, [{iov_base=\"ab\", iov_len=2}, ...], 2000) = 5 <0.000010>\n\
        8<my cat> 1700000000.7 +++ killed by SIGKILL +++\n7<my cat> 1700000000.8 +++ exited with 3 +++\n";
    let summary = read_text("strace-y.txt", text);
    assert!(summary.damage.is_empty(), "{:?}", summary.damage);
    let who: Vec<_> = summary.processes.iter().map(|p| (p.pid, p.program.as_str(), p.ended.as_str())).collect();
    assert_eq!(who, [(7, "my cat", "exit 3"), (8, "my cat", "killed")]);
    let sql = "select name, coalesce(file, '-'), coalesce(requested, -1), fd from events where name in ('mmap', 'munmap', 'writev') order by ts";
    let message = query_lines("strace-y-sql.txt", text, sql);
    assert_eq!(message, ["mmap,/lib/x,832,3", "munmap,-,832,", "writev,/d/out,4096,1", "writev,/d/out,-1,1"]);
}

#[test]
fn strace_ff_file_name_gives_the_process() {
    let text = "1700000000.1 read(3</a>, \"x\"..., 10) = 10 <0.000100>\n1700000000.2 +++ killed by SIGTERM +++\n";
    let summary = read_text("s.24536", text);
    assert_eq!((summary.processes[0].pid, summary.processes[0].ended.as_str()), (24536, "killed"));
}

#[test]
fn strace_without_durations_warns_once() {
    let text = "7 1700000000.1 read(3</a>, \"x\"..., 10) = 10\n7 1700000000.2 read(3</a>,  <unfinished ...>\n\
        7 1700000000.5 <... read resumed>\"\", 10) = 0\n";
    let summary = read_text("durationless.txt", text);
    // A call interrupted by another thread's line is no longer evidence of the duration of calls.
    assert_eq!(rows(&summary), [row("read", 2, 0, Some(10))]);
    let verdict = summary.verdict.join(" ");
    assert!(verdict.contains("No call in the trace has a duration") && !verdict.contains(" % "), "{verdict}");
    assert!(summary.findings.iter().all(|finding| finding.worth_ns.is_none()), "{:?}", summary.findings);
    let [remark] = &summary.damage[..] else { panic!("{:?}", summary.damage) };
    assert!(remark.remark && remark.what.contains("without -T"), "{remark:?}");
    assert!(dlio_analyzer::summary::report::text::print(&summary, (10, 9999)).contains("\nNotes\n"));
}

#[test]
fn ends_of_earlier_slices_are_not_damage() {
    let event = |ph: char, more: &str| format!(r#"{{"ph":"{ph}","name":"a","pid":1,"tid":1,{more}}}"#);
    let events = [event('X', r#""ts":5,"dur":1"#), event('E', r#""ts":7"#), event('e', r#""ts":8,"id":3"#)];
    let summary = read_text("cut-window.json", &format!("[{}]", events.join(",\n")));
    assert_eq!(summary.allocation.events, 1);
    let [remark] = &summary.damage[..] else { panic!("{:?}", summary.damage) };
    assert!(remark.remark && remark.what.contains("ends of slices without a start"), "{remark:?}");
}

#[test]
fn dftracer_without_metadata_has_no_files() {
    let call = |name: &str, ts: u32| {
        format!(r#"{{"id":{ts},"name":"{name}","cat":"POSIX","pid":7,"tid":7,"ts":{ts},"dur":3,"ph":"X"}}"#)
    };
    let text = format!("[\n{}\n{}\n{}\n", call("open", 1), call("read", 5), call("close", 9));
    let summary = read_text("no-metadata.pfw", &text);
    let verdict = summary.verdict.join(" ");
    assert!(verdict.contains("the trace contains neither file names nor sizes"), "{verdict}");
    assert!(!verdict.contains("0 files") && !verdict.contains("0 B"), "{verdict}");
}

#[test]
fn strace_times_get_the_date_of_their_file() {
    let folder = temp_dir("strace-clock");
    let path = folder.path().join("strace.txt");
    std::fs::copy(sample("strace-clock.txt"), &path).unwrap();
    let file = std::fs::File::options().append(true).open(&path).unwrap();
    // Half a second past midnight.
    let written = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_700_006_400_500);
    file.set_modified(written).unwrap();
    let (_, summary) = read(&path.display().to_string());
    assert_eq!(summary.time.start_ts, 1_700_006_399_900_000_000);
    assert_eq!(summary.time.total_ns, 500_004_000);
    let mut files: Vec<_> = summary.files.iter().map(|file| (file.path.as_str(), file.use_.bytes_read)).collect();
    files.sort_unstable();
    assert_eq!(files, [("/data/b", 0), ("/home/u/a", 4106)]);
    assert!(summary.damage.is_empty());
}

#[test]
fn strace_without_times_suggests_the_option() {
    let folder = temp_dir("strace-timeless");
    for text in [
        "openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n",
        "% time     seconds  usecs/call     calls    errors syscall\n",
        "7      0.000000 brk(NULL) = 0x5 <0.1>\n7      0.000541 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3 <0.1>\n",
    ] {
        let path = folder.path().join("strace.txt");
        std::fs::write(&path, text).unwrap();
        for given in [path.as_path(), folder.path()] {
            let refused = Trace::open(&[given.display().to_string()], 1).err().unwrap().to_string();
            assert!(refused.contains("strace.txt") && refused.contains("strace -f -ttt -T -y"), "{refused}");
        }
    }
}

#[test]
fn empty_file_is_reported() {
    let folder = temp_dir("hollow");
    let refused = || Trace::open(&[folder.path().display().to_string()], 1).err().unwrap().to_string();
    for name in ["python3.11-host-1-2.dlt", "a-host-1-3.ring", "b-host-1-4.pftrace"] {
        let path = folder.path().join(name);
        std::fs::write(&path, "").unwrap();
        assert!(refused().contains(name) && refused().contains("empty"), "{}", refused());
        std::fs::remove_file(&path).unwrap();
    }
    // Even a user who may read all files cannot read this one.
    std::os::unix::fs::symlink("/proc/self/mem", folder.path().join("c-host-1-5.dlt")).unwrap();
    assert!(refused().contains("c-host-1-5.dlt") && refused().contains("cannot read the file"), "{}", refused());
    generator::generate(folder.path(), &generator::Plan { events: 100, ..Default::default() }, &|_, _, _| ()).unwrap();
    let (_, summary) = read(&folder.path().display().to_string());
    assert!(summary.allocation.events > 0 && summary.damage.len() == 1, "{:?}", summary.damage);
    // Next to a trace it is reported, too, unless its ring has everything.
    let whole = generator::file_of(folder.path(), 0);
    for (name, notes) in [("d-host-1-6.dlt", 2), ("d-host-1-7.pftrace", 3), ("README.txt", 3)] {
        std::fs::write(folder.path().join(name), "").unwrap();
        let (_, summary) = read(&folder.path().display().to_string());
        assert_eq!(summary.damage.len(), notes, "{name}: {:?}", summary.damage);
    }
    std::fs::write(whole.with_extension("ring"), "").unwrap();
    let (_, summary) = read(&folder.path().display().to_string());
    assert_eq!(summary.damage.len(), 3, "{:?}", summary.damage);
    let named = summary.damage.iter().find(|note| note.path.ends_with("d-host-1-6.dlt")).unwrap();
    assert!(named.what.starts_with("empty: ") && named.events_max.is_none(), "{named:?}");
}

#[test]
fn duplicate_files_count_once() {
    let folder = temp_dir("copies");
    let first = folder.path().join("first");
    let plan = generator::Plan { processes: 2, events: 500, ..Default::default() };
    generator::generate(&first, &plan, &|_, _, _| ()).unwrap();
    let given = |path: &std::path::Path| path.display().to_string();
    let read = |names: &[&str]| {
        let given: Vec<_> = names.iter().map(|name| given(&folder.path().join(name))).collect();
        let trace = Trace::open(&given, 2).unwrap();
        analyse(&trace, &Filter::default(), 2, &Progress::default()).unwrap().summary(&trace)
    };
    let events = read(&["first"]).allocation.events;
    std::os::unix::fs::symlink(&first, folder.path().join("link")).unwrap();
    let whole = generator::file_of(&first, 0);
    std::fs::create_dir(folder.path().join("hard")).unwrap();
    std::fs::hard_link(&whole, folder.path().join("hard/other-name.dlt")).unwrap();
    let linked = read(&["first", "link", "hard"]);
    assert_eq!((linked.allocation.events, linked.passed_over.len()), (events, 0));
    for (copy, form) in [("copy", false), ("export-copy", true)] {
        let (from, into) = (folder.path().join("from"), folder.path().join(copy));
        let source = if form { from.as_path() } else { first.as_path() };
        if form {
            generator::generate(&from, &plan, &|_, _, _| ()).unwrap();
            export(&from);
            std::fs::read_dir(&from).unwrap().map(|entry| entry.unwrap().path()).for_each(|path| {
                if path.extension().is_some_and(|ending| ending == "dlt") {
                    std::fs::remove_file(path).unwrap();
                }
            });
        }
        std::fs::create_dir(&into).unwrap();
        for entry in std::fs::read_dir(source).unwrap().map(|entry| entry.unwrap()) {
            std::fs::copy(entry.path(), into.join(entry.file_name())).unwrap();
        }
        let name = source.file_name().unwrap().to_str().unwrap();
        let both = read(&[name, copy]);
        assert_eq!(both.allocation.events, read(&[name]).allocation.events, "{copy}");
        assert!(!both.passed_over.is_empty() && both.passed_over.iter().all(|passed| passed.processes == 0), "{copy}");
    }
    // A copy that was extended is another part.
    let longer = folder.path().join("copy").join(whole.file_name().unwrap());
    let mut bytes = std::fs::read(&longer).unwrap();
    bytes.extend_from_slice(&[0; 8]);
    std::fs::write(&longer, bytes).unwrap();
    assert!(read(&["first", "copy"]).allocation.events > events);
}

#[test]
fn truncated_gzip_gives_its_start() {
    let folder = temp_dir("gzip");
    let text = std::fs::read(sample("dftracer.pfw")).unwrap();
    let mut packed = Vec::new();
    for half in text.chunks(text.len() / 2 + 1) {
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut member = vec![0; compressor.gzip_compress_bound(half.len())];
        let used = compressor.gzip_compress(half, &mut member).unwrap();
        packed.extend_from_slice(&member[..used]);
    }
    let path = folder.path().join("trace.pfw.gz");
    std::fs::write(&path, &packed).unwrap();
    assert_eq!(read(&path.display().to_string()).1.allocation.events, 4);
    std::fs::write(&path, &packed[..packed.len() - 60]).unwrap();
    let (_, cut) = read(&path.display().to_string());
    assert!(cut.allocation.events >= 1 && cut.damage.len() == 1);
}

/// Returns DFTracer's lines: the definitions of the hashes first, then `count` reads of growing size.
fn dftracer_lines(count: u64) -> String {
    let mut text = String::from(
        "{\"name\":\"HH\",\"cat\":\"dftracer\",\"pid\":7,\"tid\":7,\"ph\":4,\"args\":{\"hhash\":\"aa\",\"name\":\"node1\",\"value\":\"aa\"}}\n\
         {\"name\":\"FH\",\"cat\":\"dftracer\",\"pid\":7,\"tid\":7,\"ph\":4,\"args\":{\"hhash\":\"aa\",\"name\":\"/data/f\",\"value\":\"ff\"}}\n",
    );
    for i in 0..count {
        let args = format!("{{\"hhash\":\"aa\",\"ret\":{i},\"offset\":{i},\"count\":{i},\"fhash\":\"ff\"}}");
        text.push_str(&format!(
            "{{\"id\":{i},\"name\":\"pread\",\"cat\":\"POSIX\",\"type\":3,\"pid\":7,\"tid\":{},\"ts\":{},\"dur\":3,\"ph\":1,\"args\":{args}}}\n",
            7 + i % 3,
            1_795_219_511_000_000 + 10 * i
        ));
    }
    text
}

const LINES: u64 = 150_000;

fn check_lines(summary: &Summary) {
    assert_eq!(rows(summary), [row("pread", LINES, 3000 * LINES, Some(LINES * (LINES - 1) / 2))]);
    let paths: Vec<_> = summary.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!((paths, summary.allocation.processes, summary.allocation.threads), (vec!["/data/f"], 1, 3));
    assert_eq!((summary.processes[0].host.as_str(), summary.time.io_ns), ("node1", Some(3000 * LINES as i64)));
    assert!(summary.damage.is_empty());
}

/// Returns gzip members with their text stored uncompressed, split at any position.
fn members(text: &[u8], length: usize) -> Vec<Vec<u8>> {
    let member = |part: &[u8]| {
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::new(0).unwrap());
        let mut out = vec![0; compressor.gzip_compress_bound(part.len())];
        let used = compressor.gzip_compress(part, &mut out).unwrap();
        out.truncate(used);
        out
    };
    text.chunks(length).map(member).collect()
}

#[test]
fn large_text_file_is_read_without_gaps() {
    let folder = temp_dir("pieces");
    let text = dftracer_lines(LINES);
    let path = folder.path().join("trace.pfw");
    std::fs::write(&path, &text).unwrap();
    let (trace, summary) = read(&path.display().to_string());
    assert!(trace.units.len() > 1);
    check_lines(&summary);
    for length in [1 << 20, 333_333, 3 << 20] {
        std::fs::write(&path, members(text.as_bytes(), length).concat()).unwrap();
        let (trace, summary) = read(&path.display().to_string());
        assert!(trace.units.len() > 1);
        check_lines(&summary);
    }
}

#[test]
fn damaged_member_loses_only_its_lines() {
    let folder = temp_dir("member");
    let text = dftracer_lines(LINES);
    let path = folder.path().join("trace.pfw.gz");
    let mut parts = members(text.as_bytes(), 1 << 20);
    let middle = parts.len() / 2;
    parts[middle][20_000..20_010].fill(0xff);
    std::fs::write(&path, parts.concat()).unwrap();
    let (_, summary) = read(&path.display().to_string());
    let lost = LINES - summary.allocation.events;
    assert!(lost < 8000 && !summary.damage.is_empty(), "{lost} lost");
    // The writer was killed in its last member.
    let mut parts = members(text.as_bytes(), 1 << 20);
    let last = parts.last_mut().unwrap();
    last.truncate(last.len() / 2);
    std::fs::write(&path, parts.concat()).unwrap();
    let (_, summary) = read(&path.display().to_string());
    assert!(LINES - summary.allocation.events < 8000 && summary.damage.len() == 1);
}

#[test]
fn file_with_one_hash_in_two_processes_is_one() {
    let folder = temp_dir("aliases");
    let line = |name: &str, ph: u32, args: &str| {
        format!(
            "{{\"name\":\"{name}\",\"cat\":\"POSIX\",\"pid\":{ph},\"tid\":1,\"ts\":5,\"dur\":1,\"ph\":{ph},\"args\":{{{args}}}}}\n"
        )
    };
    let explains = line("FH", 4, "\"name\":\"/data/f\",\"value\":\"ff\"");
    let uses = line("read", 1, "\"ret\":5,\"fhash\":\"ff\"");
    std::fs::write(folder.path().join("a.pfw"), format!("{explains}{uses}")).unwrap();
    std::fs::write(folder.path().join("b.pfw"), format!("{uses}{explains}{uses}")).unwrap();
    let (_, summary) = read(&folder.path().display().to_string());
    let files: Vec<_> = summary.files.iter().map(|file| (file.path.as_str(), file.use_.bytes_read)).collect();
    assert_eq!((files, summary.dataset.files), (vec![("/data/f", 15)], 1));
}

/// Exports a native trace for viewers.
fn export(folder: &std::path::Path) -> std::path::PathBuf {
    let found = inputs::find(&[folder.display().to_string()]).unwrap();
    let path = folder.join("all.pftrace");
    let form = Form::named("pftrace", Compression::Deflate, false);
    let (filter, progress) = (Filter::default(), Progress::default());
    let plan = viewer::Export::new(&found, &filter, true, 2, &progress).unwrap().unwrap();
    plan.write(form, &path, &progress).unwrap();
    path
}

#[test]
fn decompression_bomb_is_rejected() {
    let folder = temp_dir("bomb");
    let line = b"{\"name\":\"read\",\"cat\":\"POSIX\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":1,\"ph\":\"X\"}\n";
    let spaces = vec![b' '; 96 << 20];
    for (name, text) in [("lines", [&line[..], &spaces].concat()), ("one", [&line[..9], &spaces].concat())] {
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::best());
        let mut packed = vec![0; compressor.gzip_compress_bound(text.len())];
        let used = compressor.gzip_compress(&text, &mut packed).unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, &packed[..used]).unwrap();
        let (_, summary) = read(&path.display().to_string());
        assert_eq!(summary.damage.len(), 1, "{name}");
        let what = &summary.damage[0].what;
        assert!(what.contains("500 times its size") || what.contains("more than 16 MiB"), "{what}");
    }
}

#[test]
fn truncated_export_has_unknown_loss() {
    let folder = temp_dir("cut-export");
    let plan = generator::Plan { processes: 1, threads: 2, events: 20_000, files: 5, ..generator::Plan::default() };
    generator::generate(folder.path(), &plan, &|_, _, _| ()).unwrap();
    let bytes = std::fs::read(export(folder.path())).unwrap();
    let path = folder.path().join("cut.pftrace");
    std::fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let (_, summary) = read(&path.display().to_string());
    assert!(summary.damage[0].cut && summary.damage[0].events_max.is_none());
}

#[test]
fn non_trace_is_reported_with_a_remedy() {
    let folder = temp_dir("nothing");
    let error = |path: &str| Trace::open(&[path.to_string()], 1).err().unwrap().to_string();
    let empty = folder.path().display().to_string();
    assert!(error(&empty).contains("this directory contains no readable trace"));
    assert!(error(&format!("{empty}/none")).contains("no such file"));
    assert!(error(&format!("{empty}/*.dlt")).contains("no file matches"));
    let text = folder.path().join("notes.md");
    std::fs::write(&text, "# Notes\n").unwrap();
    assert!(error(&text.display().to_string()).contains("its content is in no format that dlio-analyze reads"));
    assert!(error(&empty).contains("this directory contains no readable trace"));
}
