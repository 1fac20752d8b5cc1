//! Tests traces that other tools made of programs whose every call is known, including texts whose meaning is
//! surprising. samples/README.md lists the origin of the samples.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::Trace;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::analyse;
use dlio_analyzer::summary::report::Summary;
use support::temp_dir;

fn sample(name: &str) -> String {
    format!("{}/tests/samples/{name}", std::env::var("CARGO_MANIFEST_DIR").unwrap())
}

fn read(given: &[String]) -> Summary {
    let trace = Trace::open(given, 2).unwrap();
    analyse(&trace, &Filter::default(), 2, &Progress::default()).unwrap().summary(&trace)
}

fn read_sample(name: &str) -> Summary {
    read(&[sample(name)])
}

/// Returns the summary of texts in one directory.
fn read_texts(name: &str, texts: &[(&str, &[u8])]) -> Summary {
    let folder = temp_dir(&format!("foreign-{name}"));
    texts.iter().for_each(|(file, text)| std::fs::write(folder.path().join(file), text).unwrap());
    read(&[folder.path().display().to_string()])
}

fn read_text(name: &str, text: impl AsRef<[u8]>) -> Summary {
    read_texts(name, &[(name, text.as_ref())])
}

/// Returns count, failures and bytes by name.
fn calls(summary: &Summary) -> BTreeMap<&str, (u64, u64, u64)> {
    let rows = summary.functions.iter();
    rows.map(|row| (row.name.as_str(), (row.count, row.failed, row.bytes.unwrap_or(0)))).collect()
}

/// Returns bytes read and written by path.
fn files(summary: &Summary) -> BTreeMap<&str, (u64, u64)> {
    let files = summary.files.iter();
    files.map(|file| (file.path.as_str(), (file.use_.bytes_read, file.use_.bytes_written))).collect()
}

#[test]
fn processes_with_names_as_ids_are_distinguished() {
    let event =
        |pid: &str, ts: u32| format!(r#"{{"name":"a","cat":"compute","ph":"X",{pid}"tid":1,"ts":{ts},"dur":2}}"#);
    let pids =
        [r#""pid":"rank 3","#, r#""pid":"rank 4","#, r#""pid":4294967303,"#, r#""pid":8589934599,"#, r#""pid":7,"#, ""];
    let events = |many: u32| {
        let events: Vec<_> = (0..many).flat_map(|at| pids.map(|pid| event(pid, at))).collect();
        format!("[{}]", events.join(",\n"))
    };
    let summary = read_text("named.json", events(20));
    let mut told: Vec<_> =
        summary.processes.iter().map(|row| (row.called.as_str(), row.pid, row.work.events)).collect();
    told.sort_unstable();
    let names: Vec<_> = told.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["", "", "4294967303", "8589934599", "rank 3", "rank 4"]);
    assert!(told[2..].iter().all(|(_, pid, _)| *pid < 0) && told.iter().all(|(.., events)| *events == 20), "{told:?}");
    assert_eq!((told[0].1, told[1].1, summary.allocation.pids), (0, 7, 6));
    // However long it is, and in however many chunks it is read.
    let long = read_text("named-long.json", events(20_000));
    let again: Vec<_> = long.processes.iter().map(|row| (row.called.as_str(), row.pid)).collect();
    assert!(told.iter().all(|(name, pid, _)| again.contains(&(*name, *pid))) && again.len() == 6, "{again:?}");
}

#[test]
fn events_without_a_process_are_reported() {
    let summary = read_text("nobodys.json", r#"[{"name":"a","ph":"X","tid":"main","ts":1,"dur":2}]"#);
    let remark = summary.damage.iter().find(|note| note.remark).unwrap();
    assert!(remark.what.contains("without a process id"), "{remark:?}");
    assert_eq!((summary.allocation.pids, summary.allocation.threads), (1, 1));
}

fn dftracer_line(name: &str, cat: &str, pid: u32, ph: u32, args: &str) -> String {
    format!(
        "{{\"name\":\"{name}\",\"cat\":\"{cat}\",\"pid\":{pid},\"tid\":{pid},\"ts\":5,\"dur\":1,\"ph\":{ph},\"args\":{{{args}}}}}\n"
    )
}

fn explains(hash: &str, path: &str) -> String {
    dftracer_line("FH", "dftracer", 1, 4, &format!("\"name\":\"{path}\",\"value\":\"{hash}\""))
}

/// Checks the run of samples/README.md's program, recorded as calls of the C library.
fn check_known(summary: &Summary) {
    let calls = calls(summary);
    let known = [
        ("fopen", (5, 0, 0)),
        ("fclose", (5, 0, 0)),
        ("fwrite", (15, 0, 81_980)),
        ("fread", (20, 0, 81_920)),
        ("fputc", (5, 0, 5)),
        ("fgets", (7, 0, 65)),
        ("fgetc", (66, 0, 65)),
        ("write", (1, 0, 5000)),
        ("pwrite", (1, 0, 500)),
        ("writev", (1, 0, 30)),
        ("read", (2, 0, 1050)),
        ("pread", (101, 0, 102_700)),
        ("copy_file_range", (1, 0, 700)),
        ("unlink", (2, 0, 0)),
        ("rename", (1, 0, 0)),
    ];
    for (name, expected) in known {
        assert_eq!(calls.get(name), Some(&expected), "{name}");
    }
    let files = files(summary);
    assert_eq!((files["/tmp/sample/items"], files["/tmp/sample/text"]), ((185_020, 81_920), (180, 65)));
    assert_eq!((summary.dataset.bytes_read, summary.dataset.bytes_written), (186_500, 88_215));
    assert_eq!((summary.dataset.elsewhere_read, summary.allocation.processes), (0, 2));
    assert!(summary.damage.is_empty(), "{:?}", summary.damage);
}

#[test]
fn forked_child_uses_its_parents_hashes() {
    let summary = read_sample("dftracer-fork");
    check_known(&summary);
    assert_eq!((summary.allocation.events, summary.time.start_ts / 1_000_000_000), (250, 1_795_306_950));
    // Each of the two files alone contains less.
    let folder = std::fs::read_dir(sample("dftracer-fork")).unwrap();
    let child = folder
        .map(|entry| entry.unwrap().path().display().to_string())
        .find(|path| path.contains("-fork.pfw"))
        .unwrap();
    let alone = read(&[child]);
    assert_eq!((alone.dataset.bytes_read, alone.dataset.elsewhere_read, alone.dataset.files), (102_450, 0, 2));
    assert!(alone.files.iter().all(|file| file.path.contains("without a name")));
}

#[test]
fn dftracer_unit_comes_from_its_file() {
    let summary = read_sample("dftracer-ns");
    check_known(&summary);
    assert_eq!(summary.time.start_ts / 1_000_000_000, 1_795_306_951);
    assert!((1_000_000..1_000_000_000).contains(&summary.time.total_ns), "{}", summary.time.total_ns);
    let unit = |unit: &str| {
        let message = dftracer_line("CM", "dftracer", 1, 4, &format!("\"name\":\"time_metric\",\"value\":\"{unit}\""));
        let time = read_text("unit.pfw", message + &dftracer_line("read", "POSIX", 1, 1, "\"ret\":1")).time;
        (time.start_ts, time.total_ns)
    };
    assert_eq!(["NS", "US", "MS", "SEC"].map(unit), [1, 1000, 1_000_000, 1_000_000_000].map(|ns| (5 * ns, ns)));
}

#[test]
fn dftracer_aggregates_count_as_lost() {
    let summary = read_sample("dftracer-aggregated");
    assert_eq!((summary.allocation.lost, summary.allocation.aggregated), (377, 377));
}

#[test]
fn dftracer_hashes_resolve_per_file() {
    let uses = dftracer_line("read", "POSIX", 2, 1, "\"ret\":5,\"fhash\":\"ff\"");
    let many = uses.repeat((5 << 20) / uses.len());
    let summary = read_texts("large", &[("a.pfw", many.as_bytes()), ("b.pfw", explains("ff", "/data/f").as_bytes())]);
    assert_eq!(files(&summary).keys().copied().collect::<Vec<_>>(), ["/data/f"]);
    let own = |path| explains("ff", path) + &uses;
    let summary = read_texts("two", &[("a.pfw", own("/a").as_bytes()), ("b.pfw", own("/b").as_bytes())]);
    assert_eq!(files(&summary), BTreeMap::from([("/a", (5, 0)), ("/b", (5, 0))]));
}

#[test]
fn dftracer_results_are_not_byte_counts() {
    let lines = [
        ("fread", "\"ret\":20,\"size\":4096,\"count\":20"),
        ("fputs", "\"ret\":1,\"str_len\":7"),
        ("fgets", "\"ret_len\":12,\"num\":100"),
        ("fgets", "\"num\":100"),
        ("getc", "\"ret\":120"),
        ("putc", "\"ret\":120"),
        ("fgetc", "\"ret\":-1"),
        ("ungetc", "\"ret\":97"),
        ("flockfile", "\"x\":1"),
        ("dirfd", "\"ret\":4"),
        ("realpath", "\"x\":1"),
        ("open", "\"ret\":-1"),
    ];
    let line = |(name, args): (&str, &str)| dftracer_line(name, "STDIO", 1, 1, args);
    let summary = read_text("returns.pfw", lines.map(line).concat());
    let found = calls(&summary);
    assert_eq!((found["fread"], found["fputs"], found["fgets"]), ((1, 0, 81_920), (1, 0, 7), (2, 0, 12)));
    assert_eq!((found["fgetc"], found["fputc"], found["open"]), ((2, 0, 1), (1, 0, 1), (1, 1, 0)));
    for (name, class) in [("flockfile", "metadata"), ("dirfd", "metadata"), ("realpath", "metadata")] {
        let row = summary.functions.iter().find(|row| row.name == name).unwrap();
        assert_eq!(row.class, class, "{name}");
    }
}

#[test]
fn strace_of_the_known_program_is_exact() {
    for (name, folder) in [("strace-known.txt.gz", "/tmp/sample"), ("strace-known-y.txt.gz", "/tmp/sample")] {
        let summary = read_sample(name);
        let (calls, files) = (calls(&summary), files(&summary));
        assert_eq!(
            (calls["copy_file_range"], calls["pwrite"], calls["writev"]),
            ((1, 0, 700), (1, 0, 500), (1, 0, 30))
        );
        let odd = format!("{folder}/odd \"\u{e4}\\xff<1>");
        let all = [format!("{folder}/items"), format!("{folder}/text"), odd].map(|path| files[path.as_str()]);
        assert_eq!(all, [(185_020, 81_920), (180, 65), (1300, 6230)], "{name}");
        let child = &summary.processes[1];
        assert_eq!((summary.processes.len(), child.ended.as_str(), child.work.events > 100), (2, "exit 0", true));
        assert_eq!((summary.processes[0].program.as_str(), summary.processes[0].ended.as_str()), ("known", "exit 42"));
        assert!(summary.damage.is_empty(), "{name}: {:?}", summary.damage);
    }
}

#[test]
fn strace_copies_count_on_both_sides() {
    let text = "1 1700000000.1 openat(AT_FDCWD</w>, \"in\", O_RDONLY) = 3</w/in> <0.1>\n\
        1 1700000000.2 splice(3</w/in>, [0], 6<pipe:[1]>, NULL, 1000, 0) = 1000 <0.1>\n\
        1 1700000000.3 tee(5<pipe:[1]>, 9<pipe:[2]>, 500, 0) = 500 <0.1>\n\
        1 1700000000.4 splice(8<pipe:[2]>, NULL, 4</w/out>(deleted), [0], 400, 0) = 400 <0.1>\n\
        1 1700000000.5 copy_file_range(3</w/in>, [100], 4</w/out>, [500], 77, 0) = 77 <0.1>\n\
        1 1700000000.6 sendfile(4</w/out>, 3</w/in>, NULL, 7) = 7 <0.1>\n";
    let summary = read_text("copies.txt", text);
    assert_eq!(files(&summary), BTreeMap::from([("/w/in", (1084, 0)), ("/w/out", (0, 484))]));
    assert_eq!(
        (summary.dataset.elsewhere_read, summary.dataset.elsewhere_written),
        (900, 500),
        "a file that goes into a pipe is read"
    );
}

#[test]
fn strace_paths_are_absolute_and_unescaped() {
    let text = "1 1700000000.1 openat(AT_FDCWD</w/d\\74i\\76r>, \"./a\", O_RDONLY) = 3</w/d\\74i\\76r/a> <0.1>\n\
        1 1700000000.2 newfstatat(7</w>, \"b\\303\\244\\\"\\377\", {st_mode=S_IFREG|0600, ...}, 0) = 0 <0.1>\n\
        1 1700000000.3 unlink(\"c\") = 0 <0.1>\n\
        1 1700000000.4 chdir(\"/else\") = 0 <0.1>\n\
        1 1700000000.5 mkdir(\"\\x64\", 0777) = 0 <0.1>\n\
        1 1700000000.6 newfstatat(7</w/e f = 3>, \"\", {st_mode=S_IFREG|0600, ...}, AT_EMPTY_PATH) = 0 <0.1>\n\
        1 1700000000.7 kill(3, SIGTERM) = 0 <0.1>\n";
    let summary = read_text("folders.txt", text);
    let found: Vec<_> = files(&summary).into_keys().map(str::to_string).collect();
    assert_eq!(found, ["/else", "/else/d", "/w/b\u{e4}\"\\xff", "/w/d<i>r/a", "/w/d<i>r/c", "/w/e f = 3"]);
    assert_eq!(summary.files.iter().map(|file| file.use_.events).sum::<u64>(), 6);
}

#[test]
fn strace_descriptors_survive_forks_in_any_order() {
    let text = "1 1700000000.1 open(\"/a\", O_RDONLY) = 3 <0.1>\n\
        1 1700000000.2 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>\n\
        2 1700000000.3 read(3, \"x\", 10) = 10 <0.1>\n\
        2 1700000000.4 close(3) = 0 <0.1>\n\
        2 1700000000.5 open(\"/b\", O_RDONLY) = 3 <0.1>\n\
        1 1700000000.6 <... clone resumed>) = 2 <0.1>\n\
        2 1700000000.7 read(3, \"x\", 20) = 20 <0.1>\n\
        1 1700000000.8 read(3, \"x\", 30) = 30 <0.1>\n\
        2 1700000000.9 +++ exited with 0 +++\n\
        1 1700000001.0 close(3) = 0 <0.1>\n\
        1 1700000001.1 read(3, \"x\", 40) = 40 <0.1>\n\
        strace: Process 3 attached\nProcess 4 attached\n";
    let summary = read_text("forks.txt", text);
    assert_eq!(files(&summary), BTreeMap::from([("/a", (40, 0)), ("/b", (20, 0))]));
    assert!(summary.damage.is_empty(), "{:?}", summary.damage);
}

#[test]
fn strace_split_call_keeps_its_descriptor() {
    let text = "1 1700000000.1 open(\"/a\", O_RDWR) = 3 <0.1>\n1 1700000000.2 fsync(3 <unfinished ...>\n\
        1 1700000000.3 <... fsync resumed>) = 0 <0.1>\n1 1700000000.4 dup(3 <unfinished ...>\n\
        1 1700000000.5 <... dup resumed>) = 4 <0.1>\n1 1700000000.6 close(3 <unfinished ...>\n\
        1 1700000000.7 <... close resumed>) = 0 <0.1>\n1 1700000000.8 write(4, \"abc\", 3) = 3 <0.1>\n\
        1 1700000000.9 write(3, \"abc\", 3) = -1 EBADF (Bad file descriptor) <0.1>\n";
    let summary = read_text("cut.txt", text);
    assert_eq!(files(&summary), BTreeMap::from([("/a", (0, 3))]));
    assert_eq!(summary.files[0].use_.events, 5);
}

#[test]
fn strace_ff_files_form_one_run() {
    let files_of_run = [
        (
            "t.100",
            "1700000000.1 execve(\"/bin/sh\", [\"sh\"], 0x1) = 0 <0.01>\n1700000000.2 open(\"/a\", O_RDONLY) = 3 <0.01>\n\
            1700000000.3 clone(child_stack=NULL, flags=SIGCHLD) = 101 <0.01>\n\
            1700000000.4 clone(child_stack=0x7, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 102 <0.01>\n\
            1700000000.5 close(3) = 0 <0.01>\n1700000001.9 +++ exited with 0 +++\n",
        ),
        (
            "t.101",
            "1700000000.6 read(3, \"x\", 10) = 10 <0.01>\n1700000000.7 execve(\"/bin/cat\", [\"cat\"], 0x1) = 0 <0.01>\n\
            1700000000.8 read(3, \"x\", 20) = 20 <0.01>\n1700000000.9 +++ exited with 1 +++\n",
        ),
        ("t.102", "1700000000.45 read(3, \"x\", 40) = 40 <0.01>\n1700000001.8 +++ exited with 0 +++\n"),
    ];
    let folder = temp_dir("foreign-ff-paths");
    files_of_run.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
    let trace = Trace::open(&[folder.path().display().to_string()], 1).unwrap();
    // The check for changes covers all of its files.
    let paths: Vec<_> = trace.sources[0].paths().iter().map(|path| path.extension().unwrap().to_owned()).collect();
    assert_eq!((trace.sources.len(), paths), (1, ["100", "101", "102"].map(Into::into).to_vec()));
    let summary = read_texts("ff", &files_of_run.map(|(name, text)| (name, text.as_bytes())));
    assert_eq!(files(&summary)["/a"], (70, 0));
    let who: Vec<_> = summary.processes.iter().map(|p| (p.pid, p.program.as_str(), p.ended.as_str())).collect();
    assert_eq!(who, [(100, "sh", "exit 0"), (101, "sh", "exec"), (101, "cat", "exit 1")]);
    let allocation = &summary.allocation;
    assert_eq!((allocation.processes, allocation.pids, allocation.threads), (3, 2, 3));
    assert!(summary.damage.is_empty(), "{:?}", summary.damage);
}

#[test]
fn strace_backward_clock_step_is_reported() {
    let step = |ts: &str| {
        let text = format!(
            "5 1700000001.0 read(3</a>, \"x\", 10) = 10 <0.1>\n6 1700000000.5 getpid() = 6 <0.1>\n5 {ts} close(3</a>) = 0 <0.1>\n"
        );
        read_text("step.txt", text).hosts[0].clock_spread_ns
    };
    assert_eq!(["1700000001.5", "1699999991.0"].map(step), [0, 10_000_000_000]);
}

#[test]
fn strace_options_are_read() {
    let lines =
        ["", "[   3] ", "[00007f96b33f8c47] ", "(+     0.000385378) ", "(+ 0.1) [ 3] [????????] "].map(|shown| {
            format!("1 1700000000.1 {shown}close(3</a>) = 0 <0.1>\n1 1700000000.3 {shown}+++ exited with 0 +++\n")
        });
    let table = "% time     seconds  usecs/call     calls    errors syscall\n\
        ------ ----------- ----------- --------- --------- ----------------\n\
        100.00    0.000408          10         1           close\n\
        ------ ----------- ----------- --------- --------- ----------------\n100.00    0.000408          10         1           total\n";
    for text in lines {
        let summary = read_text("forms.txt", text.clone() + table);
        assert_eq!(calls(&summary), BTreeMap::from([("close", (1, 0, 0))]), "{text}");
        assert_eq!((summary.files[0].path.as_str(), summary.processes[0].ended.as_str()), ("/a", "exit 0"), "{text}");
        assert!(summary.damage.is_empty(), "{text}: {:?}", summary.damage);
    }
}

#[test]
fn strace_first_process_has_its_id() {
    let text = "1700000000.1 open(\"/a\", O_RDONLY) = 3 <0.01>\n1700000000.2 clone(child_stack=NULL, flags=SIGCHLD) = 8 <0.01>\n\
        strace: Process 8 attached\n[pid     8] 1700000000.3 read(3, \"x\", 10) = 10 <0.01>\n\
        [pid     7] 1700000000.4 read(3, \"x\", 20) = 20 <0.01>\n[pid     7] 1700000000.5 +++ exited with 0 +++\n\
        1700000000.6 read(3, \"x\", 40) = 40 <0.01>\n1700000000.7 +++ exited with 1 +++\n";
    let summary = read_text("stderr.txt", text);
    let who: Vec<_> =
        summary.processes.iter().map(|p| (p.pid, p.work.events, p.work.bytes_read, p.ended.as_str())).collect();
    assert_eq!(who, [(7, 3, 20, "exit 0"), (8, 2, 50, "exit 1")]);
    let attached = "strace: Process 9 attached\n1700000000.1 read(3, \"x\", 10) = 10 <0.01>\n";
    assert_eq!(read_text("attached.txt", attached).processes[0].pid, 9);
}

#[test]
fn strace_errors_are_known_or_unknown() {
    let text = "1 1700000000.1 open(\"/a\", O_RDONLY) = -1 ELOOP (Too many levels of symbolic links) <0.1>\n\
        1 1700000000.2 read(3</a>, 0x1, 5) = -1 ENEVERHEARDOF (Something) <0.1>\n\
        1 1700000000.3 read(3</a>, 0x1, 5) = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <0.1>\n";
    let summary = read_text("errors.txt", text);
    assert_eq!((calls(&summary)["open"].1, calls(&summary)["read"]), (1, (2, 1, 0)));
    let mut found = Vec::new();
    let folder = temp_dir("foreign-errno");
    let path = folder.path().join("errors.txt");
    std::fs::write(&path, text).unwrap();
    let trace = Trace::open(&[path.display().to_string()], 1).unwrap();
    let mut reader = dlio_analyzer::load::sources::source::Reader::new().unwrap();
    let (filter, wanted) = (Filter::default(), Default::default());
    for unit in &trace.units {
        trace.read(unit, &mut reader, wanted, &trace.sieve(&filter), &mut |batch| found.extend_from_slice(&batch.ret));
    }
    use dlio_analyzer::batch::{ABSENT, FAILED};
    assert_eq!(found, [-40, FAILED, ABSENT]);
}

/// Asserts that the second of two times is at most `most` times the first. The host may be busy, so one pair of five
/// within the limit is enough; quadratic work exceeds it in all of them.
fn assert_grows(pair: impl Fn() -> (Duration, Duration), most: u32) {
    let mut seen = Vec::new();
    let kept = (0..5).any(|_| {
        let (few, many) = pair();
        seen.push((few, many));
        many < few * most
    });
    assert!(kept, "{seen:?}");
}

#[test]
fn many_forks_take_linear_time() {
    let text = |forks: u32| {
        let opens = (3..1003).map(|fd| format!("1 1700000000.1 open(\"/f{fd}\", O_RDONLY) = {fd} <0.1>\n"));
        let fork = |child: u32| {
            format!(
                "1 1700000001.1 fork() = {child} <0.1>\n{child} 1700000001.2 close(500) = 0 <0.1>\n\
                 {child} 1700000001.3 read(600, \"x\", 1) = 1 <0.1>\n{child} 1700000001.4 +++ exited with 0 +++\n"
            )
        };
        opens.chain((0..forks).map(|child| fork(child + 2))).collect::<String>()
    };
    let took = |forks: u32| {
        let text = text(forks);
        let begun = std::time::Instant::now();
        let summary = read_text("many-forks.txt", &text);
        assert_eq!(files(&summary)["/f600"], (forks as u64, 0));
        begun.elapsed()
    };
    // Ten times as many took a hundred times as long.
    assert_grows(|| (took(1000), took(10_000)), 40);
}

#[test]
fn torch_profiler_gives_clock_host_and_compute() {
    let summary = read_sample("torch.json.gz");
    let counts: BTreeMap<_, _> =
        summary.spans.iter().map(|row| (row.name.as_str(), (row.count, &*row.class))).collect();
    assert_eq!((counts["aten::addmm"], counts["train_step"]), ((4, "compute"), (4, "other")));
    assert_eq!(counts["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"], (5, "read"));
    // The program printed the time before and after.
    let (before, after) = (1_795_303_279_128_863_000, 1_795_303_279_139_744_000);
    assert!(before < summary.time.start_ts && summary.time.end_ts < after);
    assert!(summary.time.compute_ns.is_some_and(|ns| ns > 1_000_000));
    assert_eq!((summary.allocation.processes, summary.processes[0].host.as_str()), (1, "vm"));
    let ranked = r#"{"schemaVersion": 1, "distributedInfo": {"backend": "gloo", "rank": 3, "world_size": 4},
        "baseTimeNanoseconds": 1000, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
        "ts": "2.5", "dur": 1.25}, {"ph": "X", "name": "x", "pid": "Spans", "tid": "a", "ts": 1, "dur": 1}]}"#;
    let summary = read_text("ranked.json", ranked);
    assert_eq!((summary.allocation.events, summary.ranks.len(), summary.ranks[0].rank), (1, 1, 3));
    assert_eq!((summary.time.start_ts, summary.time.compute_ns), (3500, Some(1250)));
}

#[test]
fn viztracer_clock_follows_its_events() {
    let summary = read_sample("viztracer.json");
    let mut rows: Vec<_> = summary.spans.iter().map(|row| (row.name.as_str(), row.count)).collect();
    rows.sort_unstable();
    let expected = [
        ("block (/tmp/sample/step.py:16)", 1),
        ("builtins.sum", 6),
        ("load (/tmp/sample/step.py:5)", 6),
        ("loss", 1),
        ("mark", 1),
        ("state", 1),
        ("step (/tmp/sample/step.py:7)", 5),
    ];
    assert_eq!(rows, expected);
    // The program printed the time when it was done.
    let end = 1_795_307_033_847_098_705;
    assert!((end - 100_000_000..end).contains(&summary.time.start_ts), "{}", summary.time.start_ts);
}

#[test]
fn darshan_logs_are_separate_runs() {
    let summary = read_sample("dxt-darshan.txt");
    let rows: Vec<_> = summary.functions.iter().map(|row| (row.name.as_str(), &*row.cat, row.count)).collect();
    assert_eq!(rows, [("write", "mpiio", 1), ("write", "posix", 2)]);
    assert_eq!(summary.time.start_ts, 1_619_109_091_103_400_000);
    assert_eq!(summary.processes[0].program, "a.out");
    let log = |job: u32, start: u32| {
        format!(
            "# darshan log version: 3.50\n# exe: /bin/ior -a\n# jobid: {job}\n# start_time: {start}\n# end_time: {start}\n\
             # DXT, file_id: 1, file_name: /data/a b\n# DXT, rank: 0, hostname: n1\n\
             # Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)  Pthread-ID\n \
             X_POSIX 0 read 0 0 10 0.1 0.2 139912345678912\n X_POSIX 0 read 1 10 10 0.2 0.3 139912345678913\n"
        )
    };
    for texts in [vec![log(7, 100) + &log(8, 200)], vec![log(7, 100), log(8, 200)]] {
        let named: Vec<_> = ["a.txt", "b.txt"].into_iter().zip(texts.iter().map(String::as_bytes)).collect();
        let summary = read_texts("two-logs", &named);
        assert_eq!((summary.allocation.pids, summary.allocation.processes), (2, 2));
        assert_eq!((summary.allocation.events, files(&summary)["/data/a b"]), (4, (40, 0)));
        let threads: Vec<_> = summary.processes.iter().map(|process| process.threads).collect();
        assert_eq!(threads, [2, 2]);
    }
}

#[test]
fn names_with_different_non_utf8_stay_different() {
    let strace = b"1 1700000000.1 unlink(\"/d/a\\377\") = 0 <0.1>\n1 1700000000.2 unlink(\"/d/a\\376\") = 0 <0.1>\n\
        1 1700000000.3 unlink(\"/d/a\xfd\") = 0 <0.1>\n";
    let json = b"[{\"ph\":\"X\",\"name\":\"read\",\"cat\":\"posix\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1,\"args\":{\"file\":\"/d/a\xff\"}},\
        {\"ph\":\"X\",\"name\":\"read\",\"cat\":\"posix\",\"pid\":1,\"tid\":1,\"ts\":2,\"dur\":1,\"args\":{\"file\":\"/d/a\xfe\"}},\
        {\"ph\":\"X\",\"name\":\"read\",\"cat\":\"posix\",\"pid\":1,\"tid\":1,\"ts\":3,\"dur\":1,\"args\":{\"file\":\"/d/a\\udcfd\"}}]";
    let dxt = b"# DXT, file_id: 1, file_name: /d/a\xff\n X_POSIX 0 read 0 0 1 1 2\n\
        # DXT, file_id: 2, file_name: /d/a\xfe\n X_POSIX 0 read 0 0 1 1 2\n# DXT, file_id: 3, file_name: /d/a\xfd\n X_POSIX 0 read 0 0 1 1 2\n";
    for (name, text) in [("bytes.txt", &strace[..]), ("bytes.json", &json[..]), ("bytes-dxt.txt", &dxt[..])] {
        let summary = read_text(name, text);
        let found: Vec<_> = files(&summary).into_keys().map(str::to_string).collect();
        assert_eq!(found, ["/d/a\\xfd", "/d/a\\xfe", "/d/a\\xff"], "{name}");
    }
}

#[test]
fn many_names_take_linear_time() {
    let text = |names: u64| {
        let line = |i: u64| {
            let (ts, dur) = (10 * i, i % 977);
            format!(
                "{{\"name\":\"step {i}\",\"cat\":\"x\",\"ph\":\"X\",\"ts\":{ts},\"dur\":{dur},\"pid\":1,\"tid\":1}}\n"
            )
        };
        (0..names).map(line).collect::<String>()
    };
    let took = |names: u64| {
        let text = text(names);
        let begun = std::time::Instant::now();
        let summary = read_text("names.json", &text);
        assert_eq!(summary.spans.len() as u64, names);
        for row in summary.spans.iter().step_by(997) {
            let i: u64 = row.name["step ".len()..].parse().unwrap();
            assert_eq!((row.count, row.time_ns), (1, 1000 * (i % 977)), "{}", row.name);
        }
        begun.elapsed()
    };
    assert_grows(|| (took(10_000), took(200_000)), 80);
}

#[test]
fn names_beyond_the_limit_are_counted_together() {
    let folder = temp_dir("foreign-other-names");
    let path = folder.path().join("names.json");
    let line = |i: u64| {
        format!("{{\"name\":\"n{i}\",\"cat\":\"c{}\",\"ph\":\"X\",\"ts\":{i},\"dur\":1,\"pid\":1,\"tid\":1}}\n", i % 5)
    };
    std::fs::write(&path, (0..5000).map(line).collect::<String>()).unwrap();
    let trace = Trace::open(&[path.display().to_string()], 1).unwrap();
    trace.catalog.allow_names(2 << 20);
    let summary = analyse(&trace, &Filter::default(), 1, &Progress::default()).unwrap().summary(&trace);
    assert!(trace.catalog.lacks_names() && summary.spans.len() < 1100, "{}", summary.spans.len());
    let all: u64 = summary.spans.iter().map(|row| row.count).sum();
    let together = summary.spans.iter().filter(|row| row.name == dlio_analyzer::catalog::OTHER_NAMES);
    assert_eq!((all, together.count()), (5000, 5));
    let [remark] = &summary.damage[..] else { panic!("{:?}", summary.damage) };
    assert!(remark.remark && remark.what.contains("--memory"), "{remark:?}");
}

#[test]
fn extreme_times_do_not_overflow() {
    let line = |ts: &str, dur: &str| {
        format!("{{\"ph\":\"X\",\"name\":\"read\",\"cat\":\"posix\",\"pid\":1,\"tid\":1,\"ts\":{ts},\"dur\":{dur}}}\n")
    };
    let ends =
        ["9223372036854775", "-9223372036854775", "9223372036854775.807", "1e300", "-1e300", "9223372036854775807"];
    let lines = ends.iter().flat_map(|ts| ["1", "9223372036854775"].map(|dur| line(ts, dur)));
    let summary = read_text("ends.json", lines.collect::<String>());
    assert!(summary.time.total_ns >= 0 && summary.time.io_ns >= Some(0));
    dlio_analyzer::summary::report::text::print(&summary, (5, 9999));
}

/// Each is tested among events of its form, which are read by a template, and alone.
#[test]
fn numbers_out_of_range_are_damage() {
    let event = |ts: &str, dur: &str, ret: &str| {
        let args = format!("{{\"ret\":{ret},\"fname\":\"/a\"}}");
        format!(
            "{{\"ph\":\"X\",\"name\":\"read\",\"cat\":\"posix\",\"pid\":1,\"tid\":1,\"ts\":{ts},\"dur\":{dur},\"args\":{args}}}"
        )
    };
    let good = || event("5", "1", "10");
    let too_large = ["10000000000000000", "9223372036854775807", "99999999999999999999", "1e16", "1e300", "-1e300"];
    let times = too_large.iter().flat_map(|number| [event(number, "1", "10"), event("5", number, "10")]);
    let sizes = ["281474976710656", "9223372036854775807", "18446744073709551615", "1e300"];
    let bad = times.chain(sizes.iter().map(|number| event("5", "1", number)));
    for (at, bad) in bad.enumerate() {
        for (before, behind) in [(0, 0), (0, 2), (3, 2)] {
            let all: Vec<_> =
                (0..before).map(|_| good()).chain([bad.clone()]).chain((0..behind).map(|_| good())).collect();
            let summary = read_text(&format!("large-{at}-{before}-{behind}.json"), format!("[{}]", all.join(",")));
            let bytes: u64 = summary.functions.iter().filter_map(|row| row.bytes).sum();
            assert_eq!((summary.allocation.events, bytes), (before + behind, 10 * (before + behind)), "{bad}");
            assert!(matches!(&summary.damage[..], [damage] if !damage.remark), "{bad}: {:?}", summary.damage);
        }
    }
    let strace = |ts: &str, dur: &str, ret: &str| format!("1 {ts} read(3</a>, \"\"..., 4096) = {ret} <{dur}>\n");
    for bad in [
        strace("99999999999.000001", "0.1", "7"),
        strace("1700000000.000001", "99999999999.5", "7"),
        strace("1700000000.000001", "0.1", "9223372036854775807"),
        strace("1700000000.000001", "0.1", "99999999999999999999"),
    ] {
        let summary = read_text("large.strace", strace("1700000000.1", "0.1", "7") + &bad);
        assert_eq!((summary.allocation.events, summary.damage.len()), (1, 1), "{bad}");
    }
    let segment = |length: &str, start: &str, end: &str| format!(" X_POSIX 0 read 0 0 {length} {start} {end}\n");
    let head = "# DXT, file_id: 9, file_name: /data/shared\n# DXT, rank: 0, hostname: node7\n";
    for bad in [
        segment("9223372036854775807", "1.0", "2.0"),
        segment("-7", "1.0", "2.0"),
        segment("7", "1e300", "2.0"),
        segment("7", "1.0", "1e300"),
        segment("7", "nan", "2.0"),
    ] {
        let summary = read_text("large.txt", format!("{head}{}{bad}", segment("7", "1.0", "2.0")));
        assert_eq!((summary.allocation.events, summary.damage.len()), (1, 1), "{bad}");
    }
}

/// PyTorch's profiler: a process waits 60 of each 100 ms, while a device works.
fn profiled(operators: &[(u32, u32)], device: bool) -> Summary {
    let span = |(pid, cat, name, ts, dur): (u32, &str, &str, u32, u32)| {
        format!(r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{},"ts":{ts},"dur":{dur}}}"#, pid + 7)
    };
    let mut events = Vec::new();
    for step in 0..10 {
        let at = 1000 + step * 100_000;
        let wait = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        events.push(span((77, "user_annotation", wait, at, 60_000)));
        events.extend(operators.iter().map(|(from, dur)| span((77, "cpu_op", "aten::stack", at + from, *dur))));
        if device {
            events.push(span((0, "gpu_user_annotation", "ProfilerStep#0", at + 63_000, 30_000)));
            events.push(span((0, "kernel", "sgemm", at + 63_000, 30_000)));
            events.push(span((0, "gpu_memcpy", "Memcpy HtoD", at + 62_000, 500)));
        }
    }
    if device {
        events.push(r#"{"ph":"M","name":"process_labels","pid":0,"tid":0,"ts":1,"args":{"labels":"GPU 0"}}"#.into());
    }
    read_text("profiled.json", format!(r#"{{"schemaVersion":1,"traceEvents":[{}]}}"#, events.join(",")))
}

#[test]
fn device_track_is_not_a_trainer() {
    let summary = profiled(&[(60_000, 40_000)], true);
    let [trainer] = &summary.training[..] else { panic!("{:?}", summary.training) };
    assert_eq!((trainer.pid, trainer.waited_ns, trainer.trained_ns), (77, Some(600_000_000), 1_000_000_000));
    assert!(summary.verdict[0].contains("spent 600 ms (60 %)"), "{:?}", summary.verdict);
    assert_eq!(summary.processes.iter().filter(|process| process.role.is_some()).count(), 1);
}

#[test]
fn compute_within_a_wait_does_not_count() {
    let summary = profiled(&[(5000, 55_000), (60_000, 40_000)], false);
    let [trainer] = &summary.training[..] else { panic!("{:?}", summary.training) };
    assert_eq!((trainer.waited_ns, trainer.computed_ns), (Some(600_000_000), Some(400_000_000)));
}

#[test]
fn negative_durations_are_reported_and_ignored() {
    let event = |dur: i32| {
        format!("{{\"ph\":\"X\",\"name\":\"read\",\"cat\":\"posix\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":{dur}}}")
    };
    let summary = read_text("backward.json", format!("[{},{},{}]", event(1), event(1), event(-7)));
    assert_eq!((summary.allocation.events, summary.functions[0].time_ns), (3, 2000));
    assert!(
        matches!(&summary.damage[..], [note] if note.remark && note.what.contains("negative durations")),
        "{:?}",
        summary.damage
    );
}

/// The object form marks its end; the array form does not have to.
#[test]
fn event_list_in_unclosed_object_is_truncated() {
    let event = "{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":2,\"pid\":1,\"tid\":1}";
    let is_cut = |text: &str| {
        let summary = read_text("cut.json", text);
        assert_eq!(summary.allocation.events, 2, "{text}");
        !summary.damage.is_empty()
    };
    let list = format!("{{\"a\":1,\"traceEvents\":[{event},{event}");
    for ends in ["]}", "\n]\n}\n", "],\"displayTimeUnit\":\"ms\"}", "],\"otherData\":{\"b\":[1]}}"] {
        assert!(!is_cut(&format!("{list}{ends}")), "{ends}");
    }
    for ends in ["", ",", "\n", "]", "],\"displayTimeUnit\":\"ms\"", "],\"otherData\":{\"b\":[1]}"] {
        assert!(is_cut(&format!("{list}{ends}")), "{ends}");
    }
    for ends in ["", ",", ",\n", "]"] {
        assert!(!is_cut(&format!("[{event},{event}{ends}")), "{ends}");
    }
}

#[test]
fn two_consecutive_objects_are_both_read() {
    let event = |ts: u32| {
        format!(r#"{{"name":"read","cat":"POSIX","ph":"X","ts":{ts},"dur":5,"pid":1,"tid":1,"args":{{"ret":10}}}}"#)
    };
    let trace =
        |from: u32| format!(r#"{{"traceEvents":[{},{}],"displayTimeUnit":"ms"}}"#, event(from), event(from + 10));
    let summary = read_text("two.json", trace(0) + "\n" + &trace(20));
    assert_eq!(calls(&summary)["read"], (4, 0, 40));
    assert!(summary.damage.is_empty(), "{:?}", summary.damage);
}

#[test]
fn negative_sizes_are_unknown() {
    let event =
        r#"{"name":"read","cat":"POSIX","ph":"X","ts":1,"dur":5,"pid":1,"tid":1,"args":{"bytes":-1,"size":4096}}"#;
    let summary = read_text("negative.json", format!("[{event},\n{event}]"));
    assert_eq!(calls(&summary)["read"].0, 2);
    assert!(summary.damage.is_empty(), "{:?}", summary.damage);
}

#[test]
fn double_compression_and_utf_16_are_reported() {
    let folder = temp_dir("foreign-packed");
    let utf_16: Vec<u8> = "\u{feff}[{\"ph\":\"X\"}]".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let path = folder.path().join("a.json");
    std::fs::write(&path, utf_16).unwrap();
    let message = Trace::open(&[path.display().to_string()], 1).err().unwrap().to_string();
    assert!(message.contains("UTF-16"), "{message}");
}

#[test]
fn unusable_text_is_named() {
    let folder = temp_dir("foreign-unusable");
    let open = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Trace::open(&[path.display().to_string()], 1).err().unwrap().to_string()
    };
    let json = "[{\"ph\":\"X\"}]";
    let wide = |bytes: fn(u16) -> [u8; 2]| json.encode_utf16().flat_map(bytes).collect::<Vec<_>>();
    let darshan = [b"3.41\0\0\0\0".as_slice(), &6_567_223u64.to_le_bytes(), b"more"].concat();
    for (name, bytes, part) in [
        ("le.json", wide(u16::to_le_bytes), "UTF-16LE"),
        ("be.json", wide(u16::to_be_bytes), "UTF-16BE"),
        ("32.json", json.chars().flat_map(|c| (c as u32).to_le_bytes()).collect(), "UTF-32"),
        ("zero.json", [&[0; 600], json.as_bytes()].concat(), "starts with zero bytes"),
        ("empty.json", Vec::new(), "it contains nothing"),
        ("a.darshan", darshan, "its header is truncated"),
    ] {
        let message = open(name, &bytes);
        assert!(message.contains(part), "{name}: {message}");
    }
}

#[test]
fn events_without_phase_or_time_are_reported() {
    let event = |fields: &str| format!("{{\"name\":\"read\",\"cat\":\"POSIX\",\"dur\":5,\"pid\":1,\"tid\":1{fields}}}");
    let good = event(",\"ph\":\"X\",\"ts\":1");
    for (fields, cause) in [
        (",\"ts\":1", "phase (ph) is missing or unknown"),
        (",\"ph\":\"x\",\"ts\":1", "phase (ph) is missing or unknown"),
        (",\"ph\":\"X\"", "without a valid time (ts)"),
        (",\"ph\":\"X\",\"ts\":\"soon\"", "without a valid time (ts)"),
    ] {
        let summary = read_text("odd.json", format!("[{good},\n{}]", event(fields)));
        assert_eq!(summary.allocation.events, 1, "{fields}");
        let damage = format!("{:?}", summary.damage);
        assert!(damage.contains(cause), "{fields}: {damage}");
    }
    // Flows and objects are known and no calls; other objects are not events.
    let others = [",\"ph\":\"s\",\"ts\":1", ",\"ph\":\"N\",\"ts\":1", ""].map(event).join(",");
    let summary = read_text("known.json", format!("[{good},{others}]"));
    assert!(summary.damage.is_empty(), "{:?}", summary.damage);
}

#[test]
fn numbers_with_a_point_are_numbers() {
    let event = |ts: u32| {
        format!(
            r#"{{"name":"read","cat":"POSIX","ph":"X","ts":{ts}.0,"dur":5.0,"pid":7.0,"tid":8.0,"args":{{"ret":10.0}}}}"#
        )
    };
    let summary = read_text("points.json", format!("[{}]", (0..9).map(event).collect::<Vec<_>>().join(",")));
    let pids: Vec<_> = summary.processes.iter().map(|process| (process.pid, process.work.events)).collect();
    assert_eq!((pids, calls(&summary)["read"]), (vec![(7, 9)], (9, 0, 90)));
    assert!(summary.damage.is_empty(), "{:?}", summary.damage);
}

/// Starting a program and waiting for a lock name a file, but are not I/O on it.
#[test]
fn events_and_time_of_a_file_are_of_the_same_calls() {
    let strace = "1 1795226810.000000 execve(\"/bin/a\", [\"a\"], 0x0) = 0 <0.500000>\n\
                  1 1795226811.000000 openat(AT_FDCWD, \"/bin/a\", O_RDONLY) = 3</bin/a> <0.000010>\n\
                  1 1795226811.100000 flock(3</bin/a>, LOCK_EX) = 0 <0.250000>\n\
                  1 1795226812.000000 read(3</bin/a>, \"\", 10) = 10 <0.000020>\n";
    let summary = read_text("strace.txt", strace);
    let file = summary.files.iter().find(|file| file.path == "/bin/a").unwrap();
    assert_eq!((file.use_.events, file.use_.time_ns), (2, 30_000));
    let only = read_text("started.txt", "1 1795226810.000000 execve(\"/bin/b\", [\"b\"], 0x0) = 0 <0.500000>\n");
    assert_eq!(only.dataset.files, 1);
}
