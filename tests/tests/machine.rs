//! Tests the resources of a process and the activity of the host, against a second reader of the same files,
//! `tests/machine/second_reader.py`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dlio_schemas::machine::counters::COUNTERS;
use dlio_schemas::machine::samples::Samples;
use dlio_schemas::native::fields::Fields;
use dlio_tests::sandbox::{Run, Sandbox};
use dlio_tests::{artefacts, home, seen};
use serde_json::Value;

fn python() -> PathBuf {
    std::env::var_os("DLIO_TEST_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from)
}

fn reader(sandbox: &Sandbox, arguments: &[&str]) -> Vec<std::ffi::OsString> {
    let script = home().join("machine/second_reader.py");
    let mut all = vec![python().into(), script.into(), arguments[0].into(), sandbox.work().into_os_string()];
    all.extend(arguments[1..].iter().map(std::ffi::OsString::from));
    all
}

/// Runs the second reader with only the library.
fn alone(sandbox: &Sandbox, arguments: &[&str]) -> (Run, Fields) {
    let all = reader(sandbox, arguments);
    let mut command = Command::new(&all[0]);
    command.args(&all[1..]).env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
    command.env("DLIO_TRACE_FORMAT", "native").env("OMP_NUM_THREADS", "7").env_remove("OMP_PROC_BIND");
    let run = sandbox.run(&mut command, true).unwrap();
    (run, facts(&sandbox.trace()))
}

/// Returns the facts about the only process.
fn facts(folder: &Path) -> Fields {
    let mut seen = seen::read(folder);
    assert_eq!((seen.processes.len(), seen.lost()), (1, 0), "{:?}", seen.faults);
    seen.processes.remove(0).fields
}

/// Runs a command under `dlio trace`.
fn traced(sandbox: &Sandbox, command: &[std::ffi::OsString]) -> Run {
    let mut dlio = Command::new(artefacts::command("dlio").unwrap());
    dlio.args(["trace", "--format", "native", "-o"]).arg(sandbox.trace()).arg("--").args(command);
    dlio.env("DLIO_LIB", artefacts::library().unwrap());
    sandbox.run(&mut dlio, true).unwrap()
}

fn parse_output(run: &Run) -> Value {
    let text = String::from_utf8_lossy(&run.output);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text} {}", String::from_utf8_lossy(&run.errors)))
}

fn samples(folder: &Path) -> Vec<Samples> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let ours = files.filter(|path| path.extension().is_some_and(|ending| ending == "machine"));
    // One that has just been created is empty.
    ours.filter_map(|path| Samples::parse(&fs::read(path).unwrap())).collect()
}

fn cpus() -> Vec<u32> {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_string();
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap()
    };
    list.split(',').flat_map(range).collect()
}

/// Returns the NUMA nodes of this host with their CPUs; `None` if the kernel does not list them.
fn cpus_by_node() -> Option<String> {
    let entries = fs::read_dir("/sys/devices/system/node").ok()?;
    let node = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse::<u32>().ok()?;
        Some((number, fs::read_to_string(entry.path().join("cpulist")).ok()?))
    };
    let nodes: BTreeMap<u32, String> = entries.filter_map(|entry| node(entry.ok()?)).collect();
    let texts: Vec<String> = nodes.iter().map(|(node, cpus)| format!("{node}:{}", cpus.trim())).collect();
    (!texts.is_empty()).then(|| texts.join(";"))
}

#[test]
fn process_records_limits_and_usage() {
    let sandbox = Sandbox::new("machine.own").unwrap();
    let (run, facts) = alone(&sandbox, &["plain"]);
    let own = &parse_output(&run)["own"];
    let expected = |key: &str| own[key].as_i64().unwrap();
    for key in ["cpus_allowed", "nice", "shm_size"] {
        assert_eq!(facts.number(key), Some(expected(key)), "{key}: {facts:?}");
    }
    for key in ["max_open_files", "max_processes", "max_locked_memory"] {
        let limit = if expected(key) < 0 { "unlimited".into() } else { expected(key).to_string() };
        assert_eq!(facts.get(key), Some(limit.as_str()), "{key}");
    }
    assert_eq!((facts.get("scheduling"), facts.get("omp_num_threads")), (Some("other"), Some("7")));
    assert_eq!(facts.get("omp_proc_bind"), None);
    assert_eq!(facts.number("cpus_allowed_end"), Some(expected("cpus_allowed")));
    assert_eq!(facts.number("threads_end"), Some(expected("threads")));
    assert_eq!(OWN_LIMITS.map(|key| facts.get(key)), [None; 3], "unchanged");
    let nodes = cpus_by_node();
    assert_eq!(facts.get("numa_nodes").map(str::to_string), nodes, "{facts:?}");
    let memory = fs::read_to_string("/proc/self/status").unwrap();
    let memory = memory.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:")).map(str::trim);
    assert_eq!(facts.get("numa_memory_nodes"), memory.filter(|_| nodes.is_some()));
    // The script ends soon after its reading.
    let later = |key: &str, most: i64| {
        let (found, seen) = (facts.number::<i64>(&format!("{key}_end")).unwrap(), expected(key));
        assert!((seen..=seen + most).contains(&found), "{key}: {found}, {seen}");
    };
    later("cpu_ns", 2_000_000_000);
    if expected("read_bytes") >= 0 {
        later("read_bytes", 64 << 20);
        later("write_bytes", 64 << 20);
    }
}

#[test]
fn pinning_is_recorded_before_a_kill() {
    let sandbox = Sandbox::new("machine.pin").unwrap();
    let last = cpus().pop().unwrap().to_string();
    let (run, facts) = alone(&sandbox, &["pin", &last]);
    assert!(run.exit.contains('9'), "{}", run.exit);
    assert_eq!(facts.number("cpus_allowed"), Some(cpus().len()));
    assert_eq!((facts.number("cpus_allowed_end"), facts.get("cpus_list_end")), (Some(1), Some(last.as_str())));
}

/// Keys of limits that a program may change.
const OWN_LIMITS: [&str; 3] = ["max_open_files_end", "max_processes_end", "max_locked_memory_end"];

#[test]
fn a_changed_limit_is_recorded_again() {
    let sandbox = Sandbox::new("machine.limit").unwrap();
    for (how, status) in [("limit", "0"), ("limit-kill", "9")] {
        sandbox.clear().unwrap();
        let (run, facts) = alone(&sandbox, &[how]);
        assert!(run.exit.contains(status), "{how}: {}", run.exit);
        let before: u64 = facts.number("max_open_files").unwrap();
        // The other limits have not changed.
        let changed = OWN_LIMITS.map(|key| facts.number::<u64>(key));
        assert_eq!(changed, [Some(before - 1), None, None], "{how}: {facts:?}");
    }
}

#[test]
fn separately_pinned_threads_share_their_cpus() {
    let [first, second, ..] = cpus()[..] else { return eprintln!("skipped: there is one CPU") };
    let sandbox = Sandbox::new("machine.threads").unwrap();
    let (_, facts) = alone(&sandbox, &["threads", &first.to_string(), &second.to_string()]);
    assert_eq!((facts.number("cpus_allowed_end"), facts.number("threads_end")), (Some(2), Some(2)), "{facts:?}");
}

#[test]
fn host_counters_match_a_second_reader() {
    let sandbox = Sandbox::new("machine.counters").unwrap();
    let run = traced(&sandbox, &reader(&sandbox, &["sampled"]));
    let told = parse_output(&run);
    let [samples] = &samples(&sandbox.trace())[..] else { panic!("one file of samples") };
    assert!(samples.has_ended && samples.moments.len() >= 2, "{samples:?}");
    assert_eq!(samples.fact("cpus_allowed"), Some(cpus().len().to_string().as_str()));
    assert!(samples.mounts.iter().any(|mount| mount.folder == "/"), "{:?}", samples.mounts);
    let mut compared = 0;
    for series in samples.series.iter().filter(|series| COUNTERS[series.counter].accumulates) {
        let name = format!("{} {}", COUNTERS[series.counter].name, series.scope).trim().to_string();
        let (Some(begin), Some(end)) = (told["begin"][&name].as_u64(), told["end"][&name].as_u64()) else { continue };
        let (first, last) = (series.values[0].1, series.values.last().unwrap().1);
        // The last sample is taken after the command has ended.
        assert!(first <= begin && begin <= end && end <= last, "{name}: {first} {begin} {end} {last}");
        compared += 1;
    }
    assert!(compared >= 4, "{compared} of {told}");
}

/// Returns the result of SQL on a trace.
fn rows(sandbox: &Sandbox, folder: &Path, sql: &str) -> String {
    let mut analyze = Command::new(artefacts::command("dlio-analyze").unwrap());
    analyze.arg(folder).args(["--format", "csv", "--sql", sql]).env("DLIO_CACHE", sandbox.root());
    let run = sandbox.run(&mut analyze, true).unwrap();
    assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
    String::from_utf8(run.output).unwrap()
}

#[test]
fn host_counters_are_neither_process_nor_events() {
    let sandbox = Sandbox::new("machine.apart").unwrap();
    traced(&sandbox, &reader(&sandbox, &["sampled"]));
    let [samples] = &samples(&sandbox.trace())[..] else { panic!("one file of samples") };
    let counts = "select (select count(*) from processes) a, (select count(*) from events) b, (select count(*) from hosts) c, \
                  (select processes from hosts) d, (select count(*) from events where cat = 'machine') e";
    let with = rows(&sandbox, &sandbox.trace(), counts);
    let values: usize = samples.series.iter().map(|series| series.values.len()).sum();
    let table = rows(&sandbox, &sandbox.trace(), "select count(*), count(distinct counter), min(host) from machine");
    let names: std::collections::BTreeSet<_> = samples.series.iter().map(|series| series.counter).collect();
    let expected = format!("{values},{},{}", names.len(), samples.fact("host").unwrap());
    assert_eq!(table.lines().last(), Some(expected.as_str()));
    // Values on the clock of the events: the first sample comes soon after the start of the command.
    let near = "select (select min(ts) from machine) <= (select max(ts) from events) and (select max(ts) from machine) >= \
                (select max(ts) from events)";
    assert_eq!(rows(&sandbox, &sandbox.trace(), near).lines().last(), Some("true"));
    // Tracks of an export, which reads like the trace.
    let copy = sandbox.root().join("copy.pftrace");
    let mut analyze = Command::new(artefacts::command("dlio-analyze").unwrap());
    analyze.arg(sandbox.trace()).args(["--compress", "none", "--export"]).arg(&copy);
    assert_eq!(sandbox.run(&mut analyze, true).unwrap().exit, "0");
    let bytes = fs::read(&copy).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has(&format!("machine {}", samples.fact("host").unwrap())) && has("cpu_busy_ns"));
    let events = "select count(*), sum(case when name like 'cpu%' then 1 else 0 end) from events";
    assert_eq!(rows(&sandbox, &copy, events), rows(&sandbox, &sandbox.trace(), events));
    for entry in fs::read_dir(sandbox.trace()).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|ending| ending == "machine") {
            fs::remove_file(entry).unwrap();
        }
    }
    assert_eq!(rows(&sandbox, &sandbox.trace(), counts), with);
    assert_eq!(rows(&sandbox, &sandbox.trace(), "select count(*) from machine").lines().last(), Some("0"));
}

#[test]
fn one_of_two_commands_samples_per_directory() {
    let sandbox = Sandbox::new("machine.two").unwrap();
    let mut first = Command::new(artefacts::command("dlio").unwrap());
    first.args(["trace", "-o"]).arg(sandbox.trace()).args([
        "--",
        "sh",
        "-c",
        "cat /etc/passwd > /dev/null; echo ready; cat",
    ]);
    first.env("DLIO_LIB", artefacts::library().unwrap());
    let mut first = first.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(first.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let second = traced(&sandbox, &reader(&sandbox, &["sampled"]));
    assert_eq!(second.exit, "0", "{}", String::from_utf8_lossy(&second.errors));
    assert_eq!(samples(&sandbox.trace()).len(), 1);
    drop(first.stdin.take());
    output.read_to_string(&mut line).unwrap();
    assert!(first.wait().unwrap().success());
    let [samples] = &samples(&sandbox.trace())[..] else { panic!("one file of samples") };
    assert!(samples.has_ended);
}

#[test]
fn top_shows_current_host_activity() {
    let sandbox = Sandbox::new("machine.top").unwrap();
    let mut command = Command::new(artefacts::command("dlio").unwrap());
    command.args(["trace", "-o"]).arg(sandbox.trace()).args([
        "--",
        "sh",
        "-c",
        "echo begun > /dev/null; cat /etc/passwd; cat",
    ]);
    command
        .env("DLIO_LIB", artefacts::library().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    let has_two = || {
        fs::read_dir(sandbox.trace()).is_ok_and(|_| samples(&sandbox.trace()).iter().any(|one| one.moments.len() > 1))
    };
    while !has_two() {
        assert!(running.try_wait().unwrap().is_none(), "the command runs until it is told to end");
        std::thread::yield_now();
    }
    let mut top = Command::new(artefacts::command("dlio-top").unwrap());
    top.arg(sandbox.trace()).args(["--once", "--format", "json", "--interval", "0.1"]);
    let run = sandbox.run(&mut top, true).unwrap();
    let seen: Value = serde_json::from_slice(&run.output).unwrap();
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
    let [machine] = &seen["machines"].as_array().unwrap()[..] else { panic!("{seen:#}") };
    let [samples] = &samples(&sandbox.trace())[..] else { panic!("one file of samples") };
    assert_eq!(machine["host"].as_str(), samples.fact("host"));
    let cores = machine["cores"].as_f64().unwrap();
    // Ticks of a hundredth of a second, and samples that are not taken atomically.
    assert!((0.0..=cores + 0.5).contains(&machine["cpus_busy"].as_f64().unwrap()), "{machine}");
    assert!(machine["memory_available"].as_u64().unwrap() > 0);
}

#[test]
fn command_without_events_leaves_no_files() {
    let sandbox = Sandbox::new("machine.nothing").unwrap();
    assert_eq!(traced(&sandbox, &["true".into()]).exit, "0");
    assert_eq!(traced(&sandbox, &["/no/such/program".into()]).exit, "127");
    assert_eq!(fs::read_dir(sandbox.trace()).unwrap().count(), 0);
}

/// A control group of version 1 below this process's own, which is removed with it.
struct Group(PathBuf);

impl Group {
    fn new(controller: &str, name: &str) -> Option<Group> {
        let text = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mine = text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            (parts.next()? == controller).then(|| parts.next().map(str::to_string)).flatten()
        })?;
        let folder = Path::new("/sys/fs/cgroup").join(controller).join(mine.trim_start_matches('/')).join(name);
        fs::create_dir(&folder).ok()?;
        Some(Group(folder))
    }

    fn set(&self, file: &str, value: &str) -> Option<()> {
        fs::write(self.0.join(file), value).ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn control_group_limits_are_recorded() {
    let name = format!("dlio-test-{}", std::process::id());
    let groups = Group::new("cpu", &name).zip(Group::new("memory", &name));
    let set = |(cpu, memory): &(Group, Group)| {
        cpu.set("cpu.cfs_period_us", "20000")?;
        cpu.set("cpu.cfs_quota_us", "5000")?;
        cpu.set("cpu.shares", "512")?;
        memory.set("memory.limit_in_bytes", "2147483648")
    };
    let Some((cpu, memory)) = groups.filter(|groups| set(groups).is_some()) else {
        return eprintln!("skipped: no control group of version 1 can be made here");
    };
    let sandbox = Sandbox::new("machine.groups").unwrap();
    let enter = format!(
        "echo $$ > {0}/cgroup.procs; echo $$ > {1}/cgroup.procs; exec \"$@\"",
        cpu.0.display(),
        memory.0.display()
    );
    let within = |command: &[std::ffi::OsString]| -> Vec<std::ffi::OsString> {
        ["sh", "-c", &enter, "sh"].map(Into::into).into_iter().chain(command.iter().cloned()).collect()
    };
    // As a job in a group; then as a command that is moved into one by a child of `dlio trace`.
    let dlio =
        [artefacts::command("dlio").unwrap().into(), "trace".into(), "--format".into(), "native".into(), "-o".into()];
    let mut whole: Vec<_> = dlio.into();
    whole.extend([sandbox.trace().into_os_string(), "--".into()]);
    whole.extend(reader(&sandbox, &["plain"]));
    let all = within(&whole);
    let mut command = Command::new(&all[0]);
    command.args(&all[1..]).env("DLIO_LIB", artefacts::library().unwrap());
    let run = sandbox.run(&mut command, true).unwrap();
    assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
    check_limits(&facts(&sandbox.trace()), [&cpu.0, &memory.0]);
    let said = String::from_utf8_lossy(&run.errors).into_owned();
    assert!(said.contains("this job may use 0.25 of"), "{said}");
    let [samples] = &samples(&sandbox.trace())[..] else { panic!("one file of samples") };
    let throttled = samples.of("group_throttled_ns").next().unwrap().growth().unwrap();
    let stat = fs::read_to_string(cpu.0.join("cpu.stat")).unwrap();
    let total: u64 = stat.lines().find_map(|line| line.strip_prefix("throttled_time ")).unwrap().parse().unwrap();
    assert!(throttled > 0 && throttled <= total, "{throttled} {total}");
    sandbox.clear().unwrap();
    let run = traced(&sandbox, &within(&reader(&sandbox, &["plain"])));
    assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
    let seen = seen::read(&sandbox.trace());
    let inside = seen
        .processes
        .iter()
        .find(|process| process.fields.get("program").is_some_and(|name| name.starts_with("python")));
    check_limits(&inside.unwrap().fields, [&cpu.0, &memory.0]);
}

fn check_limits(facts: &Fields, [cpu, memory]: [&Path; 2]) {
    let found: BTreeMap<&str, &str> = facts.iter().collect();
    assert_eq!((found["cpu_quota"], found["memory_limit"]), ("0.25", "2147483648"), "{found:?}");
    assert_eq!((found["cpu_weight"], found["cpu_weight_default"]), ("512", "1024"), "{found:?}");
    assert_eq!((Path::new(found["cpu_cgroup"]), Path::new(found["memory_cgroup"])), (cpu, memory));
    let grown = |key: &str| {
        let at = |key: &str| facts.number::<u64>(key).unwrap_or_else(|| panic!("{key}: {found:?}"));
        at(&format!("{key}_end")).checked_sub(at(key)).unwrap()
    };
    assert!(grown("throttled_periods") <= grown("cpu_periods"));
    assert!(grown("throttled_ns") > 0, "{found:?}");
}

/// Returns the number of a block device, `8:0`.
fn any_disk() -> Option<String> {
    let disks = fs::read_dir("/sys/block").ok()?;
    disks
        .filter_map(|disk| fs::read_to_string(disk.ok()?.path().join("dev")).ok())
        .map(|it| it.trim().to_string())
        .min()
}

#[test]
fn io_limits_are_those_of_the_group_of_each_process() {
    let group = Group::new("blkio", &format!("dlio-test-{}", std::process::id())).zip(any_disk());
    let set = |(group, disk): &(Group, String)| {
        group.set("blkio.throttle.read_bps_device", &format!("{disk} 900000000"))?;
        group.set("blkio.throttle.write_iops_device", &format!("{disk} 90000"))
    };
    let Some((group, disk)) = group.filter(|it| set(it).is_some()) else {
        return eprintln!("skipped: no control group of version 1 for I/O can be made here");
    };
    let expected = format!("{disk} rbps=900000000 wiops=90000");
    let sandbox = Sandbox::new("machine.io").unwrap();
    let limits = |script: &str| {
        sandbox.clear().unwrap();
        let mut command = vec![python().into(), "-c".into(), script.into()];
        if script.is_empty() {
            let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
            command =
                ["sh", "-c", &enter, "sh"].map(Into::into).into_iter().chain(reader(&sandbox, &["plain"])).collect();
        }
        let run = traced(&sandbox, &command);
        assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
        let seen = seen::read(&sandbox.trace());
        let of = |it: &&seen::Process| it.fields.get("program").is_some_and(|name| name.starts_with("python"));
        seen.processes.iter().find(of).unwrap().fields.get("io_limits").map(str::to_string)
    };
    // Started in the group; in none; and moved into it before the end.
    assert_eq!(limits("").as_deref(), Some(expected.as_str()));
    assert_eq!(limits("open('/etc/passwd').read()").as_deref(), Some("none"));
    let moves = format!("open('{}/cgroup.procs', 'w').write('0')", group.0.display());
    assert_eq!(limits(&moves).as_deref(), Some(expected.as_str()));
}

/// Reads 8 MB that are not in the page cache, in the control group of its argument.
const LIMITED_READS: &str = "
import os, sys
with open('cold', 'wb') as file:
    file.write(os.urandom(8_000_000))
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
with open(sys.argv[1] + '/cgroup.procs', 'w') as file:
    file.write('0')
with open('cold', 'rb', buffering=0) as file:
    while file.read(1_000_000):
        pass
";

#[test]
fn last_line_mentions_io_limits_of_the_group_of_the_traced_processes() {
    let sandbox = Sandbox::new("machine.io-line").unwrap();
    let device = fs::metadata(sandbox.root()).unwrap().dev();
    let disk = format!("{}:{}", device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    let group = Group::new("blkio", &format!("dlio-test-line-{}", std::process::id()));
    let set = |group: &Group| group.set("blkio.throttle.read_bps_device", &format!("{disk} 4000000"));
    let Some(group) = group.filter(|group| set(group).is_some()) else {
        return eprintln!("skipped: no control group of version 1 can limit I/O on the disk of the test here");
    };
    let mut dlio = Command::new(artefacts::command("dlio").unwrap());
    dlio.args(["trace", "-o"]).arg(sandbox.trace()).arg("--").arg(python()).args(["-c", LIMITED_READS]).arg(&group.0);
    dlio.env("DLIO_LIB", artefacts::library().unwrap());
    let run = sandbox.run(&mut dlio, true).unwrap();
    let said = String::from_utf8_lossy(&run.errors).into_owned();
    assert!(run.exit == "0" && said.contains("its control group is limited to reading 4.0 MB/s"), "{said}");
}

/// A file system on a loop device in memory, which is removed with it.
struct Disk {
    folder: PathBuf,
    image: PathBuf,
    device: String,
}

/// Runs a command, and returns its output if it succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let run = Command::new(program).args(arguments).stderr(Stdio::null()).output().ok()?;
    run.status.success().then(|| String::from_utf8_lossy(&run.stdout).trim().to_string())
}

impl Disk {
    /// Makes a file system with 40 files of 4 MiB; `None` if that is not permitted.
    fn new(sandbox: &Sandbox) -> Option<Disk> {
        let (folder, image) =
            (sandbox.root().join("disk"), PathBuf::from(format!("/dev/shm/dlio-{}", std::process::id())));
        fs::create_dir_all(&folder).ok()?;
        fs::File::create(&image).ok()?.set_len(300 << 20).ok()?;
        let mut disk = Disk { folder, image, device: String::new() };
        disk.device = output("losetup", &["--find", "--show", disk.image.to_str()?])?;
        output("mkfs.ext4", &["-q", &disk.device])?;
        output("mount", &[&disk.device, disk.folder.to_str()?])?;
        let content: Vec<u8> = (0..4u32 << 20).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        for number in 0..40 {
            fs::write(disk.folder.join(format!("{number:03}.sample")), &content).ok()?;
        }
        output("sync", &[]).map(|_| disk)
    }

    /// Sets the read-ahead in sectors of 512 bytes.
    fn set_read_ahead(&self, sectors: u32) {
        output("blockdev", &["--setra", &sectors.to_string(), &self.device]).expect("blockdev of root");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        output("umount", &[&self.folder.display().to_string()]);
        output("losetup", &["--detach", &self.device]);
        let _ = fs::remove_file(&self.image);
    }
}

/// Trains with the files of a disk. Returns the time that it waited, the findings by rule, and the section `machine`.
fn trained(sandbox: &Sandbox, disk: &Disk, how: &str) -> (f64, BTreeMap<String, Value>, String) {
    sandbox.clear().unwrap();
    let script = home().join("machine/read_ahead.py");
    let run = traced(sandbox, &[python().into(), script.into(), disk.folder.clone().into(), how.into()]);
    assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
    let waited = String::from_utf8_lossy(&run.output).trim().parse().unwrap();
    let report = |arguments: &[&str]| {
        let mut analyze = Command::new(artefacts::command("dlio-analyze").unwrap());
        analyze.arg(sandbox.trace()).args(arguments).env("DLIO_CACHE", sandbox.root());
        let run = sandbox.run(&mut analyze, true).unwrap();
        assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
        String::from_utf8(run.output).unwrap()
    };
    let all: Value = serde_json::from_str(&report(&["--format", "json"])).unwrap();
    let fired = all["findings"].as_array().unwrap().iter().filter(|it| it["state"] == "fired");
    let named = fired.map(|it| (it["id"].as_str().unwrap().to_string(), it.clone()));
    let machine = report(&["--section", "machine"]);
    (waited, named.collect(), machine.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn read_ahead_that_does_not_match_the_reads_is_found() {
    let sandbox = Sandbox::new("machine.read-ahead").unwrap();
    let Some(disk) = Disk::new(&sandbox) else {
        return eprintln!("skipped: no file system on a loop device can be made here");
    };
    // Without read-ahead, the device reads single pages.
    disk.set_read_ahead(0);
    let (slow, found, machine) = trained(&sandbox, &disk, "order");
    let finding = found.get("readahead").unwrap_or_else(|| panic!("{found:#?}"));
    let name = disk.device.strip_prefix("/dev/").unwrap();
    assert!(finding["says"].as_str().unwrap().contains(&format!("device {name} read 4.10 kB")), "{finding:#}");
    assert!(finding["remedy"].as_str().unwrap().contains("blockdev --setra"), "{finding:#}");
    assert!(machine.contains(&format!("ext4 on device {name}, read-ahead 0 B")), "{machine}");
    disk.set_read_ahead(256);
    let (fast, found, machine) = trained(&sandbox, &disk, "order");
    assert!(!found.contains_key("readahead"), "{found:#?}");
    assert!(machine.contains("read-ahead 131 kB"), "{machine}");
    assert!(fast < slow / 2.0, "{slow} s without read-ahead, {fast} s with it");
    // Single pages of mappings, for each of which the device reads 128 KiB, unless the program gives its advice.
    let (_, found, _) = trained(&sandbox, &disk, "map");
    let finding = found.get("readahead").unwrap_or_else(|| panic!("{found:#?}"));
    assert!(finding["remedy"].as_str().unwrap().contains("MADV_RANDOM"), "{finding:#}");
    let (_, found, _) = trained(&sandbox, &disk, "advised");
    assert!(!found.contains_key("readahead"), "{found:#?}");
}
