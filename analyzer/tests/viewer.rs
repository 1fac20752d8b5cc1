//! Tests exports by the command as users run it: filters, windows, several hosts, overviews, a browser; and wrong
//! command lines.

mod generator;
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use generator::Plan;
use support::temp_dir;
use tempfile::TempDir;

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
    command.args(words).env_remove("BROWSER").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command
}

fn run(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

fn succeeds(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the message of a command that fails.
fn fails(words: &[&str]) -> String {
    let output = run(words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn query_rows(trace: &str, filters: &[&str], sql: &str) -> String {
    let output = run(&[&[trace, "--format", "csv", "--sql", sql], filters].concat());
    assert!(output.status.success(), "{filters:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().skip(1).collect::<Vec<_>>().join("\n")
}

fn count(trace: &str, filters: &[&str]) -> u64 {
    query_rows(trace, filters, "select count(*) from events").parse().unwrap()
}

fn trace(folder: &TempDir, plan: &Plan) -> String {
    let path = folder.path().join("trace");
    generator::generate(&path, plan, &|_, _, _| ()).unwrap();
    path.display().to_string()
}

#[test]
fn filtered_export_matches_filtered_counts() {
    let folder = temp_dir("filters");
    let trace = trace(&folder, &Plan { events: 40_000, moments: true, ..Plan::default() });
    let filters: [&[&str]; 11] = [
        &[],
        &["--window", "2ms..5ms"],
        &["--from", "2ms", "--to", "5ms"],
        &["--epoch", "0"],
        &["--step", "3..5", "--rank", "1"],
        &["--pid", "1001"],
        &["--cat", "Compute,posix"],
        &["--min-dur", "5us"],
        &["--window", "..4ms", "--cat", "posix", "--min-dur", "3us"],
        &["--file", "*"],
        &["--file", "/data/set3/*", "--min-dur", "1ns"],
    ];
    let all = count(&trace, &[]);
    for (i, filter) in filters.into_iter().enumerate() {
        let counted = count(&trace, filter);
        assert!(counted > 0 && (counted < all || matches!(i, 0 | 3)), "{filter:?}: {counted} of {all}");
        for extension in ["pftrace", "json.gz"] {
            let out = folder.path().join(format!("{i}.{extension}")).display().to_string();
            succeeds(&[&[trace.as_str(), "--export", &out], filter].concat());
            assert_eq!(count(&out, &[]), counted, "{filter:?} {extension}");
        }
    }
    assert_eq!(count(&trace, filters[1]), count(&trace, filters[2]));
    // Times relative to the start mean the same in every format, even if its head does not contain the start.
    for whole in ["0.pftrace", "0.json.gz"] {
        let whole = folder.path().join(whole).display().to_string();
        for filter in [filters[1], filters[2], filters[8]] {
            assert_eq!(count(&whole, filter), count(&trace, filter), "{whole} {filter:?}");
        }
    }
}

#[test]
fn format_options_write_the_same_as_export() {
    let folder = temp_dir("formats");
    let trace = trace(&folder, &Plan { events: 3000, ..Plan::default() });
    let all = count(&trace, &[]);
    for (options, name) in [
        (&["--perfetto"][..], "all"),
        (&["--perfetto"], "all.tar"),
        (&["--chrome"], "calls"),
        (&["--chrome"], "calls.gz"),
        (&["--dftracer", "--chrome"], "lines"),
    ] {
        let out = folder.path().join(name).display().to_string();
        succeeds(&[&[trace.as_str()], options, &[&out]].concat());
        assert_eq!(count(&out, &[]), all, "{options:?} {name}");
    }
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    assert!(help.contains("--export <FILE>"), "{help}");
    for option in ["--perfetto", "--chrome", "--dftracer"] {
        assert!(!help.contains(option), "{option} is in --help");
    }
    let message = run(&[&trace, "--workload", "job.yaml", "--export", "all.pftrace"]);
    assert_eq!(message.status.code(), Some(2), "{message:?}");
}

#[test]
fn export_contains_each_process_once() {
    let folder = temp_dir("once");
    let trace = trace(&folder, &Plan { events: 3000, ..Plan::default() });
    let all = count(&trace, &[]);
    let named = |name: &str| folder.path().join(name).display().to_string();
    let (one, again, packed, unpacked) = (named("1.pftrace"), named("2.pftrace"), named("1.zst"), named("3.pftrace"));
    succeeds(&[&trace, "--export", &one]);
    // All processes in another format, next to its source.
    std::fs::copy(&one, Path::new(&trace).join("all.pftrace")).unwrap();
    succeeds(&[&trace, "--export", &again]);
    assert_eq!(count(&again, &[]), all);
    std::fs::write(&packed, zstd::encode_all(&*std::fs::read(&one).unwrap(), 1).unwrap()).unwrap();
    succeeds(&[&packed, "--export", &unpacked]);
    assert_eq!(count(&unpacked, &[]), all);
}

#[test]
fn step_window_covers_first_to_last_step() {
    let folder = temp_dir("steps");
    let trace = trace(&folder, &Plan { events: 40_000, ..Plan::default() });
    let bounds = "select min(ts), max(ts + dur) from events where step between 3 and 5";
    let bounds = query_rows(&trace, &[], bounds);
    let (from, to) = bounds.split_once(',').unwrap();
    assert_eq!(count(&trace, &["--step", "3..5"]), count(&trace, &["--from", from, "--to", to]));
}

#[test]
fn empty_windows_and_filters_are_reported() {
    let folder = temp_dir("nothing-there");
    let trace = trace(&folder, &Plan::default());
    let out = folder.path().join("out.pftrace");
    let export = |filter: &[&str]| {
        let message = fails(&[&[trace.as_str(), "--export", out.to_str().unwrap()], filter].concat());
        assert!(!out.exists(), "{filter:?} left a file");
        message
    };
    assert!(export(&["--from", "1h"]).contains("the window is empty"));
    assert!(export(&["--to", "1970-01-01T00:00"]).contains("the window is empty"));
    assert!(export(&["--from", "2s", "--to", "1s"]).contains("ends before it starts"));
    assert!(export(&["--epoch", "900"]).contains("no span has epoch 900; the trace has epochs 0"));
    assert!(export(&["--pid", "77"]).contains("no process has this id (--pid); the trace has 1000, 1001"));
    assert!(export(&["--rank", "77"]).contains("the trace has 0, 1"));
    assert!(export(&["--cat", "nonsense"]).contains("no event has the category nonsense"));
    // If nothing is exported, the output is empty, and a message gives the reason.
    assert!(fails(&[&trace, "--summary", "--window", "1h..2h"]).contains("the window is empty"));
    assert!(fails(&[&trace, "--sql", "select 1 from events", "--rank", "9"]).contains("no process has this rank"));
    let wrong = run(&[&trace, "--window", "10s"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn existing_output_is_kept_unless_forced() {
    let folder = temp_dir("exists");
    let trace = trace(&folder, &Plan::default());
    let out = folder.path().join("out.pftrace");
    std::fs::write(&out, "mine").unwrap();
    let out = out.to_str().unwrap();
    assert!(fails(&[&trace, "--export", out]).contains("exists; --force replaces it"));
    assert_eq!(std::fs::read(out).unwrap(), b"mine");
    succeeds(&[&trace, "--export", out, "--force"]);
    assert_eq!(count(out, &[]), count(&trace, &[]));
    assert!(fails(&[&trace, "--export", "/nowhere/out.pftrace"]).contains("cannot write /nowhere/out.pftrace"));
}

#[test]
fn output_among_the_traces_is_rejected() {
    let folder = temp_dir("among");
    let trace = trace(&folder, &Plan::default());
    let all = count(&trace, &[]);
    let within = format!("{trace}/all.pftrace");
    assert!(fails(&[&trace, "--export", &within]).contains("is among the traces"));
    assert!(fails(&[&trace, "--export", &format!("{trace}/../trace/all.json"), "--force"]).contains("is among"));
    assert_eq!(count(&trace, &[]), all);
    let export = folder.path().join("export.pftrace");
    let export = export.to_str().unwrap();
    succeeds(&[&trace, "--export", export]);
    let before = std::fs::read(export).unwrap();
    assert!(fails(&[export, "--export", export, "--force"]).contains("is among"));
    assert_eq!(std::fs::read(export).unwrap(), before);
}

/// Returns name and content of each member.
fn members(tar: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut rest = tar;
    while rest[0] != 0 {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
        let size = usize::from_str_radix(&text(&rest[124..135]), 8).unwrap();
        found.push((text(&rest[..100]), rest[512..512 + size].to_vec()));
        rest = &rest[512 + size.next_multiple_of(512)..];
    }
    assert_eq!(rest, [0; 1024]);
    found
}

#[test]
fn several_hosts_become_a_tar() {
    let folder = temp_dir("hosts");
    let trace = trace(&folder, &Plan { processes: 5, ..Plan::default() });
    let tar = folder.path().join("all.tar");
    succeeds(&[&trace, "--export", tar.to_str().unwrap()]);
    let members = members(&std::fs::read(&tar).unwrap());
    let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["manifest.json", "node0.pftrace", "node1.pftrace"]);
    let manifest: serde_json::Value = serde_json::from_slice(&members[0].1).unwrap();
    let files = manifest["perfetto_manifest"]["files"].as_array().unwrap();
    assert_eq!((files.len(), &files[1]["machines"][0]["name"]), (2, &serde_json::json!("node1")));
    assert_ne!(files[0]["machines"][0]["id"], files[1]["machines"][0]["id"]);
    let hosts: u64 = members[1..]
        .iter()
        .map(|(name, bytes)| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            count(path.to_str().unwrap(), &[])
        })
        .sum();
    assert_eq!(hosts, count(&trace, &[]));
    // The tar itself is a trace, of both hosts, which can be exported again.
    let (tar, again) = (tar.to_str().unwrap(), folder.path().join("again.tar"));
    let told = "select host, count(*) from events group by host order by host";
    assert_eq!(query_rows(tar, &[], told), query_rows(&trace, &[], told));
    succeeds(&[tar, "--export", again.to_str().unwrap()]);
    assert_eq!(query_rows(again.to_str().unwrap(), &[], told), query_rows(&trace, &[], told));
    let cut = folder.path().join("cut.tar");
    let whole = std::fs::read(tar).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 3000]).unwrap();
    let damage = run(&[cut.to_str().unwrap(), "--section", "damage"]);
    assert!(String::from_utf8_lossy(&damage.stdout).contains("ends in the middle"), "{damage:?}");
    let one = folder.path().join("one.pftrace");
    let message = succeeds(&[&trace, "--export", one.to_str().unwrap()]);
    assert!(message.contains("2 hosts on one clock"), "{message}");
}

#[test]
fn compressed_input_is_read_or_reported() {
    let folder = temp_dir("packed");
    let trace = trace(&folder, &Plan { events: 40_000, ..Plan::default() });
    let named = |name: &str| folder.path().join(name).display().to_string();
    let (plain, packed, other) = (named("a.json"), named("a.json.zst"), named("a.json.xz"));
    succeeds(&[&trace, "--export", &plain]);
    // Its first block is larger than the part of a file that is inspected to recognize it.
    std::fs::write(&packed, zstd::encode_all(&*std::fs::read(&plain).unwrap(), 3).unwrap()).unwrap();
    assert_eq!(count(&packed, &[]), count(&trace, &[]));
    std::fs::write(&other, b"\xfd7zXZ\0\0\x04 and so on").unwrap();
    let message = fails(&[&other]);
    assert!(message.contains("compressed with xz") && message.contains("xz -dk"), "{message}");
}

#[test]
fn too_many_events_become_an_overview() {
    let folder = temp_dir("too-many");
    let trace = trace(&folder, &Plan { events: 1_100_000, processes: 1, threads: 2, ..Plan::default() });
    let all = count(&trace, &[]);
    let out = |name: &str| folder.path().join(name).display().to_string();
    let message = succeeds(&[&trace, "--export", &out("few.pftrace")]);
    assert!(message.contains("events, as an overview: at most"), "{message}");
    assert!(message.contains(&format!("overview of {all} events: calls shorter than")), "{message}");
    assert!(count(&out("few.pftrace"), &[]) <= 1_000_000);
    let text = String::from_utf8_lossy(&std::fs::read(out("few.pftrace")).unwrap()).into_owned();
    assert!(text.contains(&format!("overview of {all} events")), "the trace itself does not say what it is");
    let message = succeeds(&[&trace, "--export", &out("all.pftrace"), "--all"]);
    assert!(message.contains("events to write: at most") && !message.contains("overview"), "{message}");
    assert_eq!(count(&out("all.pftrace"), &[]), all);
    succeeds(&[&trace, "--export", &out("few.json")]);
    assert!(std::fs::read_to_string(out("few.json")).unwrap().contains(&format!("overview of {all} events")));
}

/// A running `--view`.
struct Viewing {
    child: Child,
    url: String,
}

impl Viewing {
    fn begin(words: &[&str], settings: &[(&str, &Path)]) -> Viewing {
        let mut command = command(words);
        command.envs(settings.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Viewing { child, url: url.trim().into() }
    }

    /// Returns port and path of the trace, as the viewer reads them.
    fn place(&self) -> (u16, String) {
        let own = self.url.split("127.0.0.1%3A").last().unwrap().split('&').next().unwrap();
        let (port, path) = own.split_once("%2F").unwrap();
        (port.parse().unwrap(), format!("/{}", path.replace("%2F", "/")))
    }

    fn fetch_trace(&self) -> (String, Vec<u8>) {
        self.fetch(&self.place().1)
    }

    fn fetch(&self, path: &str) -> (String, Vec<u8>) {
        let (port, _) = self.place();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
        (String::from_utf8_lossy(&answer[..end]).into(), answer[end + 4..].to_vec())
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn browser_gets_the_trace_and_offline_viewer() {
    let folder = temp_dir("view");
    let trace = trace(&folder, &Plan::default());
    let ui = folder.path().join("ui");
    std::fs::create_dir(&ui).unwrap();
    std::fs::write(ui.join("index.html"), "the viewer").unwrap();
    let words = [trace.as_str(), "--view", "--rank", "1", "--ui", ui.to_str().unwrap()];
    // The browser only stores what it is given; the test waits by reading until the file is complete.
    let browser = folder.path().join("browser");
    let pipe = folder.path().join("address");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::write(&browser, format!("#!/bin/sh\nexec echo \"$1\" > {}\n", pipe.display())).unwrap();
    std::fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let viewing = Viewing::begin(&words, &[("BROWSER", &browser)]);
    assert_eq!(std::fs::read_to_string(&pipe).unwrap().trim(), viewing.url);
    assert_eq!(viewing.fetch("/").1, b"the viewer");
    let (head, bytes) = viewing.fetch_trace();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let copy = folder.path().join("copy.pftrace");
    std::fs::write(&copy, bytes).unwrap();
    assert_eq!(count(copy.to_str().unwrap(), &[]), count(&trace, &["--rank", "1"]));
    assert!(viewing.fetch("/../browser").0.starts_with("HTTP/1.1 404"));
}

/// Requests the trace as another user who read the address from a command line. Only root can be another user.
fn a_stranger_is_not_answered(place: &str) {
    use std::os::unix::process::CommandExt;
    if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) != 0) {
        eprintln!("not tried: only root can ask as another user");
        return;
    }
    let script =
        "exec 3<>/dev/tcp/127.0.0.1/9001; printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1:9001\r\n\r\n' \"$0\" >&3; cat <&3";
    let stranger =
        Command::new("bash").args(["-c", script, place]).uid(65534).gid(65534).current_dir("/").output().unwrap();
    assert!(stranger.stdout.is_empty(), "{}", String::from_utf8_lossy(&stranger.stdout));
}

/// The viewer's policy allows one port, so this is one test.
#[test]
fn public_viewer_fetches_once_from_its_port() {
    let folder = temp_dir("port");
    let trace = trace(&folder, &Plan::default());
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 9001));
    let message = fails(&[&trace, "--view"]);
    assert!(message.contains("cannot listen on 127.0.0.1:9001") && message.contains("--ui"), "{message}");
    // Another program on this host uses the port.
    let Ok(taken) = taken else { return };
    drop(taken);
    let mut viewing = Viewing::begin(&[&trace, "--view"], &[]);
    let (port, place) = viewing.place();
    assert!(
        viewing.url.starts_with("https://ui.perfetto.dev/#!/?url=http%3A%2F%2F127.0.0.1%3A9001%2F"),
        "{}",
        viewing.url
    );
    let token = place.trim_start_matches('/').strip_suffix("/trace.pftrace").unwrap_or_default();
    assert!(port == 9001 && token.len() == 32 && token.bytes().all(|c| c.is_ascii_hexdigit()), "{place}");
    // A client that does not know the address gets nothing, and the viewer is still served.
    for path in ["/trace.pftrace".into(), "/".into(), format!("/{}/trace.pftrace", "0".repeat(32))] {
        assert!(viewing.fetch(&path).0.starts_with("HTTP/1.1 404"), "{path}");
    }
    a_stranger_is_not_answered(&place);
    assert!(viewing.child.try_wait().unwrap().is_none(), "it ended before a browser fetched the trace");
    let (head, bytes) = viewing.fetch_trace();
    assert!(head.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n"), "{head}");
    assert!(!bytes.is_empty());
    assert!(viewing.child.wait().unwrap().success());
    let mut message = String::new();
    viewing.child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(
        message.contains("until the viewer has fetched") && message.contains("open the address above"),
        "{message}"
    );
    let no_ui = run(&[&trace, "--view", "--ui", folder.path().to_str().unwrap()]);
    assert_eq!(no_ui.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&no_ui.stderr).contains("no index.html there"));
}

/// Returns the message of a command line that is rejected before any work.
fn is_rejected(words: &[&str]) -> String {
    let output = run(words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn cut_trace_has_the_selected_events_and_its_origin_and_can_be_cut_again() {
    let folder = temp_dir("cut");
    let trace = trace(&folder, &Plan { events: 40_000, moments: true, ..Plan::default() });
    let samples = Path::new(&trace).join("machine-a-1-2.machine");
    std::fs::write(&samples, "dlio-machine 1\n").unwrap();
    let small = folder.path().join("small trace").display().to_string();
    let filter = ["--step", "3..5", "--rank", "1"];
    let counted = count(&trace, &filter);
    assert!((1..count(&trace, &[]) / 2).contains(&counted), "{counted}");
    succeeds(&[&[trace.as_str(), "--cut", &small], &filter[..]].concat());
    assert_eq!(count(&small, &[]), counted);
    let processes = "select pid, rank, host, command from processes where events > 0 order by pid";
    assert_eq!(query_rows(&small, &[], processes), query_rows(&trace, &["--rank", "1"], processes));
    let copied = Path::new(&small).join("machine-a-1-2.machine");
    assert_eq!(std::fs::read(copied).unwrap(), std::fs::read(samples).unwrap());
    // Every report names the whole trace, and the printed command cuts it again.
    let message = succeeds(&[&small]);
    let line = message.lines().find(|line| line.contains(" is a part of ")).unwrap_or_else(|| panic!("{message}"));
    let again = line.split_once("cut by: ").unwrap().1.replace("small trace", "again");
    assert!(line.contains(&format!(" is a part of {trace}, ")), "{line}");
    assert!(Command::new("sh").args(["-c", &again]).output().unwrap().status.success(), "{again}");
    assert_eq!(count(&folder.path().join("again").display().to_string(), &[]), counted);
    // A part of a part.
    let tiny = folder.path().join("tiny").display().to_string();
    succeeds(&[&small, "--cut", &tiny, "--cat", "posix"]);
    assert_eq!(count(&tiny, &[]), count(&small, &["--cat", "posix"]));
}

#[test]
fn cut_without_a_filter_or_a_free_directory_is_rejected() {
    let folder = temp_dir("cut-wrong");
    let trace = trace(&folder, &Plan { events: 2_000, ..Plan::default() });
    let small = folder.path().join("small").display().to_string();
    let message = is_rejected(&[&trace, "--cut", &small]);
    assert!(message.contains("no filter selects one; add --step"), "{message}");
    let message = fails(&[&trace, "--cut", &trace, "--rank", "1"]);
    assert!(message.contains("part of the trace") || message.contains("among"), "{message}");
    let message = fails(&[&trace, "--cut", &small, "--call", "no_such_call"]);
    assert!(!message.is_empty() && !Path::new(&small).exists(), "{message}");
    std::fs::create_dir(&small).unwrap();
    std::fs::write(Path::new(&small).join("notes"), "mine").unwrap();
    let message = fails(&[&trace, "--cut", &small, "--rank", "1"]);
    assert!(message.contains("is not an empty directory; give --cut a new one"), "{message}");
    assert_eq!(std::fs::read_to_string(Path::new(&small).join("notes")).unwrap(), "mine");
}

/// Returns the members of a zip, by its list: name and contents.
fn zip_members(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let number =
        |at: usize, length: usize| bytes[at..at + length].iter().rev().fold(0, |sum, b| sum << 8 | *b as usize);
    let end = bytes.len() - 22;
    assert_eq!(&bytes[end..end + 4], b"PK\x05\x06");
    let (count, mut at) = (number(end + 10, 2), number(end + 16, 4));
    let mut members = Vec::new();
    for _ in 0..count {
        assert_eq!(&bytes[at..at + 4], b"PK\x01\x02");
        let (method, stored, name) = (number(at + 10, 2), number(at + 20, 4), number(at + 28, 2));
        let (raw, head) = (number(at + 24, 4), number(at + 42, 4));
        let start = head + 30 + number(head + 26, 2);
        let stored = &bytes[start..start + stored];
        let mut contents = Vec::new();
        match method {
            0 => contents.extend(stored),
            _ => drop(flate2::read::DeflateDecoder::new(stored).read_to_end(&mut contents).unwrap()),
        }
        let mut sum = flate2::Crc::new();
        sum.update(&contents);
        assert_eq!((sum.sum() as usize, contents.len()), (number(at + 16, 4), raw));
        members.push((String::from_utf8_lossy(&bytes[at + 46..at + 46 + name]).into_owned(), contents));
        at += 46 + name;
    }
    members
}

/// Writes a profile of torch.profiler, with its zero a day before the events: an operator in a step, a step that overlaps
/// it, and a marker.
fn profile(path: &Path, host: &str, start_ts: i64) {
    let zero = start_ts - 86_400_000_000_000;
    let ts = |after_us: f64| 86_400_000_000.0 + after_us;
    let text = format!(
        r#"{{"schemaVersion": 1, "host_name": "{host}", "baseTimeNanoseconds": {zero}, "displayTimeUnit": "ms",
        "traceEvents": [
        {{"ph": "M", "name": "process_name", "ts": {:.3}, "pid": 1000, "tid": 0, "args": {{"name": "python"}}}},
        {{"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1000, "tid": 1000, "ts": {:.3}, "dur": 500.25}},
        {{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1000, "tid": 1000, "ts": {:.3}, "dur": 100.001,
          "args": {{"ts": 5, "shape": [1, "]"]}}}},
        {{"ph": "X", "cat": "user_annotation", "name": "late", "pid": 1000, "tid": 1000, "ts": {:.3}, "dur": 900}},
        {{"ph": "i", "name": "end", "s": "g", "pid": 1000, "tid": 1000, "ts": {:.3}}}
        ], "traceName": "t.json"}}"#,
        ts(0.0),
        ts(1.5),
        ts(2.125),
        ts(400.0),
        ts(2000.0)
    );
    std::fs::write(path, text).unwrap();
}

fn start_of(trace: &str) -> i64 {
    query_rows(trace, &[], "select min(ts) from events").parse().unwrap()
}

#[test]
fn archive_has_hosts_and_profiles_on_one_clock() {
    let folder = temp_dir("archive");
    let trace = trace(&folder, &Plan { processes: 5, ..Plan::default() });
    let path = |name: &str| folder.path().join(name).display().to_string();
    let start = start_of(&trace);
    profile(Path::new(&path("torch.json")), "node1", start);
    let message = succeeds(&[&trace, &path("torch.json"), "--export", &path("run.zip")]);
    assert!(message.contains("1 slice that overlap"), "{message}");
    let members = zip_members(&std::fs::read(path("run.zip")).unwrap());
    let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["perfetto_manifest.json", "node0.pftrace", "node1.pftrace", "node1-torch.json"]);
    let manifest: serde_json::Value = serde_json::from_slice(&members[0].1).unwrap();
    let pinned = &manifest["perfetto_manifest"]["files"][2];
    assert_eq!((&pinned["machine"]["name"], &pinned["path"]), (&"node1".into(), &"node1-torch.json".into()));
    let clock = serde_json::json!({"file": "node1.pftrace", "machine": "node1", "clock": "BOOTTIME"});
    assert_eq!((&pinned["clocks"]["sync_to"], &pinned["clocks"]["offset_ns"]), (&clock, &0.into()));
    // All events of dlio are there, at their times.
    for (name, bytes) in &members[1..3] {
        std::fs::write(path(name), bytes).unwrap();
    }
    let hosts = [path("node0.pftrace"), path("node1.pftrace")];
    assert_eq!(count(&hosts[0], &[]) + count(&hosts[1], &[]), count(&trace, &[]));
    assert_eq!(start_of(&hosts[0]).min(start_of(&hosts[1])), start);
    // Times of the profile count from the same zero, exact to the nanosecond; the rest is unchanged.
    let shown: serde_json::Value = serde_json::from_slice(&members[3].1).unwrap();
    assert_eq!(shown["baseTimeNanoseconds"], generator::OFFSET);
    let events = shown["traceEvents"].as_array().unwrap();
    let after = |event: &serde_json::Value| {
        let us = event["ts"].as_f64().unwrap();
        ((us * 1000.0).round() as i64 + generator::OFFSET) - start
    };
    assert_eq!(events[..5].iter().map(after).collect::<Vec<_>>(), [0, 1_500, 2_125, 400_000, 2_000_000]);
    assert_eq!(events[2]["args"], serde_json::json!({"ts": 5, "shape": [1, "]"]}));
    assert_eq!((&events[1]["tid"], &events[3]["tid"]), (&1000.into(), &100_001_000.into()));
    assert_eq!(events[5]["args"]["name"], "thread 1000 (overlapping)");
    assert_eq!((shown["traceName"].as_str(), events.len()), (Some("t.json"), 6));
}

#[test]
fn profiles_that_cannot_be_aligned_are_rejected() {
    let folder = temp_dir("unaligned");
    let trace = trace(&folder, &Plan { events: 3000, ..Plan::default() });
    let (start, path) = (start_of(&trace), folder.path().join("torch.json"));
    let text = path.display().to_string();
    let out = folder.path().join("run.zip").display().to_string();
    let refusal = || {
        let message = fails(&[&trace, &text, "--export", &out]);
        assert!(message.contains("cannot place") && message.contains("torch.json"), "{message}");
        assert!(!Path::new(&out).exists());
        message
    };
    profile(&path, "elsewhere", start);
    assert!(refusal().contains("recorded on elsewhere, and the traces on node0, node1"));
    profile(&path, "node0", start + 3_600_000_000_000);
    assert!(refusal().contains("another run"));
    profile(&path, "node0", start);
    let whole = std::fs::read_to_string(&path).unwrap();
    for (old, new, why) in [
        ("\"baseTimeNanoseconds\"", "\"base\"", "no baseTimeNanoseconds"),
        ("\"host_name\"", "\"host\"", "does not name its host"),
    ] {
        std::fs::write(&path, whole.replace(old, new)).unwrap();
        let message = refusal();
        assert!(message.contains(why), "{message}");
    }
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(refusal().contains("truncated"));
}
