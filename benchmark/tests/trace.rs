//! Runs and commands under a tracer: output, signals and environment are the same as without one, and nothing outlives
//! them.

mod program;

use dlio_benchmark::system::processes::lives;
use program::{Folder, GENERATE, command, run, small, stderr, stdout, until};
use std::process::{Child, Command, Stdio};

#[test]
fn traced_run_prints_one_run_and_its_summary() {
    let folder = Folder::new("trace");
    let library = stand_in(&folder);
    // The tracer itself creates this directory.
    std::fs::create_dir_all(folder.path().join("run/trace")).unwrap();
    std::fs::create_dir_all(folder.path().join("elsewhere")).unwrap();
    let analyzer = folder.path().join("dlio-analyze");
    std::fs::write(&analyzer, "#!/bin/sh\necho analyzed $*\n").unwrap();
    std::fs::set_permissions(&analyzer, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Programs are looked up next to the executable first, so the stand-in needs a copy of the program next to it.
    let own = folder.path().join("dlio");
    std::fs::copy(env!("CARGO_BIN_EXE_dlio"), &own).unwrap();
    let traced = |more: &[&str], library: &std::path::Path| {
        let typed: Vec<String> = small(&[&[GENERATE], more].concat());
        let mut command = Command::new(&own);
        command.args(&typed).arg("++hydra.run.dir=run").current_dir(folder.path());
        command.env("DLIO_LIB", library).output().unwrap()
    };
    let output = traced(&["--trace"], &library);
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = stdout(&output);
    assert_eq!(printed.matches("results: run/summary.json").count(), 1, "{printed}");
    assert!(printed.contains("analyzed run/trace --summary") && printed.contains("trace: run/trace\n"), "{printed}");
    assert!(stdout(&traced(&["--trace=elsewhere"], &library)).contains("trace: elsewhere\n"));
    std::fs::remove_file(&library).unwrap();
    let output = traced(&["--trace"], &folder.path().join("absent"));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// Returns the living descendants of this process.
fn descendants(process: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().map(|id| id.parse().unwrap()).collect();
    children.iter().flat_map(|child| [vec![*child], descendants(*child)].concat()).collect()
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

fn in_epoch_three(folder: &Folder) -> bool {
    let log = std::fs::read_to_string(folder.path().join("run/dlio.log"));
    log.is_ok_and(|text| text.contains("Starting epoch 3"))
}

const ENDLESS: [&str; 2] = ["++workload.train.epochs=100000", "++workload.train.computation_time=0.01"];

#[test]
fn nothing_of_a_run_outlives_it_however_it_ends() {
    for name in ["KILL", "HUP", "TERM"] {
        let folder = Folder::new(&format!("outlive-{name}"));
        run(&folder, &[GENERATE]);
        let more = [&ENDLESS[..], &["--ranks=2", "++workload.reader.read_threads=2"]].concat();
        let typed = small(&more);
        let mut child = command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the run reaches its third epoch", || in_epoch_three(&folder));
        let others = descendants(child.id());
        assert_eq!(others.len(), 5, "a rank, and two workers of each");
        signal(name, child.id());
        let status = child.wait().unwrap();
        until("all of them end", || !others.iter().any(|process| lives(*process)));
        if name != "KILL" {
            assert_eq!(
                (status.code(), folder.json("run/summary.json")["interrupted"].as_bool()),
                (Some(130), Some(true))
            );
        }
    }
}

/// Builds a library with the tracer's name that does nothing.
fn stand_in(folder: &Folder) -> std::path::PathBuf {
    let source = folder.path().join("library.c");
    std::fs::write(&source, "int dlio_stand_in;").unwrap();
    let library = folder.path().join("libdliotrace.so");
    assert!(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap().success());
    library
}

#[test]
fn traced_run_stops_on_the_usual_signals() {
    for name in ["INT", "TERM", "HUP", "KILL"] {
        let folder = Folder::new(&format!("stop-{name}"));
        run(&folder, &[GENERATE]);
        let typed = small(&[&ENDLESS[..], &["--trace"]].concat());
        let mut child = command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>())
            .env("DLIO_LIB", stand_in(&folder))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the run reaches its third epoch", || in_epoch_three(&folder));
        let others = descendants(child.id());
        signal(name, child.id());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), (name != "KILL").then_some(130), "{name}");
        until("all of them end", || !others.iter().any(|process| lives(*process)));
        assert_eq!(folder.json("run/summary.json")["interrupted"], true, "{name}");
    }
}

#[test]
fn killed_traced_run_is_reported_by_its_parent() {
    let folder = Folder::new("killed-traced");
    run(&folder, &[GENERATE]);
    let typed = small(&[&ENDLESS[..], &["--trace"]].concat());
    let child = command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>())
        .env("DLIO_LIB", stand_in(&folder))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the run reaches its third epoch", || in_epoch_three(&folder));
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    signal("KILL", children.split_whitespace().next().unwrap().parse().unwrap());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137));
    let reason = "rank 0 was killed by signal 9";
    assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    let summary = folder.json("run/summary.json");
    assert_eq!((&summary["status"], &summary["error"]), (&"failed".into(), &reason.into()));
}

/// Runs `dlio trace` on a script in the directory. The tests may run in the background, where Ctrl-C is ignored.
const TRACED: &str = "exec env --default-signal=INT,QUIT $DLIO trace -q -- bash ./script";

#[test]
fn a_traced_command_ends_by_the_signal_its_tracer_got() {
    let folder = Folder::new("handed");
    std::fs::write(folder.path().join("script"), "echo $PPID > tracer; exec sleep 60").unwrap();
    let library = stand_in(&folder);
    for (name, code) in [("INT", 130), ("QUIT", 131), ("TERM", 143), ("HUP", 129)] {
        let mut traced = Command::new("bash");
        traced.args(["-c", TRACED]).env("DLIO", env!("CARGO_BIN_EXE_dlio")).env("DLIO_LIB", &library);
        let mut child = traced.current_dir(folder.path()).spawn().unwrap();
        let tracer = folder.path().join("tracer");
        until("the command begins", || std::fs::read_to_string(&tracer).is_ok_and(|text| text.ends_with('\n')));
        signal(name, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
        std::fs::remove_file(&tracer).unwrap();
    }
}

/// A terminal with a command in it. Closing the terminal hangs up the command.
struct Terminal(Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns whether a sent signal still waits for the process to run. A second one of its kind would be lost.
fn is_pending(signal: u32, process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let shared = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
    u64::from_str_radix(shared.trim(), 16).unwrap() & 1 << (signal - 1) != 0
}

#[test]
fn ctrl_c_reaches_a_traced_command_once() {
    let folder = Folder::new("terminal");
    // Bash can lose a signal that arrives while it runs the trap, so the loop writes the count.
    let counts = "n=0; told=0; trap 'n=$((n + 1))' INT; echo $PPID > tracer
        while [ ! -e end ]; do if [ $n != $told ]; then told=$n; echo $n > count; fi; done";
    std::fs::write(folder.path().join("script"), counts).unwrap();
    let mut terminal = Command::new("script");
    terminal.args(["-qec", TRACED, "/dev/null"]).env("DLIO", env!("CARGO_BIN_EXE_dlio"));
    terminal.env("DLIO_LIB", stand_in(&folder)).current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut terminal = Terminal(terminal.spawn().unwrap());
    let number = |name: &str| {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        text.strip_suffix('\n').and_then(|text| text.parse::<u32>().ok())
    };
    until("the command begins", || number("tracer").is_some());
    std::io::Write::write_all(terminal.0.stdin.as_mut().unwrap(), b"\x03").unwrap();
    until("Ctrl-C arrives", || number("count").is_some());
    let tracer = number("tracer").unwrap();
    until("the tracer has received Ctrl-C, too", || !is_pending(libc::SIGINT.cast_unsigned(), tracer));
    // This one is for the tracer alone; a forwarded copy of the first would have arrived before it.
    signal("INT", tracer);
    until("the other arrives", || number("count") >= Some(2));
    std::fs::write(folder.path().join("end"), "").unwrap();
    terminal.0.wait().unwrap();
    assert_eq!(number("count"), Some(2));
}

/// Returns the outputs of a line of bash with `$TRACE` before a command, once without a tracer and once with it.
fn without_and_with(folder: &Folder, line: &str) -> [String; 2] {
    ["", "$DLIO trace -q -- "].map(|trace| {
        let mut command = Command::new("bash");
        command.args(["-c", &line.replace("$TRACE ", trace)]).env("DLIO", env!("CARGO_BIN_EXE_dlio"));
        command.env("DLIO_LIB", stand_in(folder)).current_dir(folder.path());
        let output = command.output().unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
    })
}

#[test]
fn ignored_signals_remain_ignored_when_traced() {
    let folder = Folder::new("ignored");
    for signals in ["INT HUP", "PIPE HUP USR1", "PIPE", ""] {
        let line = format!("[ -z '{signals}' ] || trap '' {signals}; $TRACE grep -E 'Sig(Ign|Blk)' /proc/self/status");
        let [plain, traced] = without_and_with(&folder, &line);
        assert!(plain.contains("SigIgn:") && plain == traced, "{signals}: {plain} and {traced}");
    }
    let [plain, traced] =
        without_and_with(&folder, "trap '' PIPE; $TRACE yes 2>said | head -1; echo ${PIPESTATUS[0]}; cat said");
    assert!(plain.contains("Broken pipe") && plain == traced, "{plain} and {traced}");
}

#[test]
fn closed_descriptors_remain_closed_when_traced() {
    let folder = Folder::new("closed");
    for closed in ["", "<&-", ">&-", "2>&-", "<&- 2>&-"] {
        let line = format!("$TRACE ls /proc/self/fd {closed} | wc -l; $TRACE cat {closed} < /dev/null; echo $?");
        let [plain, traced] = without_and_with(&folder, &line);
        assert_eq!(plain, traced, "{closed}");
    }
    let [plain, traced] = without_and_with(&folder, "$TRACE /bin/echo x >&-; echo $?; $TRACE cat <&-; echo $?");
    assert!(plain.contains("Bad file descriptor") && plain == traced, "{plain} and {traced}");
}

#[test]
fn traced_environment_keeps_its_order() {
    let folder = Folder::new("environment");
    let [plain, traced] = without_and_with(&folder, "env -i Z=1 B=2 _=x A=3 DLIO=$DLIO DLIO_LIB=$DLIO_LIB $TRACE env");
    let kept: String =
        traced.lines().filter(|line| !line.starts_with("DLIO_TRACE_")).map(|l| l.to_string() + "\n").collect();
    assert!(
        plain.starts_with("Z=1\nB=2\n") && kept.replace("LD_PRELOAD=", "\0").split('\0').next() == Some(&plain),
        "{traced}"
    );
}

#[test]
fn full_log_keeps_the_exit_code() {
    let folder = Folder::new("full-log");
    // Units of `ulimit -f` are 1024 bytes.
    let line = "ulimit -f 1; head -c 1020 /dev/zero > log; $DLIO trace -- sh -c 'exit 5' 2>> log";
    let mut command = Command::new("bash");
    command.args(["-c", line]).env("DLIO", env!("CARGO_BIN_EXE_dlio")).env("DLIO_LIB", stand_in(&folder));
    assert_eq!(command.current_dir(folder.path()).status().unwrap().code(), Some(5));
}
