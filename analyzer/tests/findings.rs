//! Tests that each rule fires on a trace made for it and on no other, that a healthy run has no findings, and that
//! poor traces are judged with care.

mod generator;
mod support;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use dlio_analyzer::findings::limits::Limits;
use dlio_analyzer::findings::rules::RULES;
use dlio_analyzer::findings::{conclude as judge_all, judge};
use dlio_analyzer::summary::report::Summary;
use dlio_analyzer::summary::report::allocation::UntracedProgram;
use dlio_analyzer::summary::report::findings::{Finding, Severity, State};
use dlio_analyzer::summary::report::functions::Function;
use dlio_analyzer::summary::report::headline::{Bottleneck, Certainty, Headline, Level, conclude};
use dlio_analyzer::summary::report::screen::Page;
use dlio_analyzer::summary::training::WaitedFor;
use dlio_analyzer::summary::waits::first_threads::FirstThread;
use dlio_analyzer::summary::waits::parts::{Part, Parts};
use dlio_analyzer::summary::waits::thread::Mapped;
use dlio_analyzer::summary::waits::trainers::WaitKind;
use dlio_schemas::ops::Op;
use dlio_schemas::record::POS_UNKNOWN;
use generator::runs::{Loader, MIB, sample, scenarios, slow_storage, slow_store};
use generator::script::Script;
use serde_json::{Value, json};
use support::temp_dir;
use tempfile::TempDir;

fn analyze(trace: &TempDir, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
    let output = command.arg(trace.path()).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn written(name: &str, processes: Vec<Script>) -> TempDir {
    let folder = temp_dir(&format!("findings-{name}"));
    processes.into_iter().for_each(|process| process.write_to(folder.path()));
    folder
}

fn report(trace: &TempDir, arguments: &[&str]) -> Value {
    serde_json::from_str(&analyze(trace, &[&["--format", "json"], arguments].concat())).unwrap()
}

/// Returns the row of a table of the screen that begins with a name, with single spaces.
fn row(screen: &str, name: &str) -> String {
    let rows = screen.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    rows.into_iter().find(|row| row.starts_with(name)).unwrap_or_default()
}

fn ids(report: &Value, state: &str) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["state"] == state);
    let mut ids: Vec<_> = findings.map(|finding| finding["id"].as_str().unwrap().to_string()).collect();
    ids.sort();
    ids
}

fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id).unwrap()
}

#[test]
fn each_rule_fires_on_its_trace_and_on_no_others() {
    let all: BTreeSet<_> = scenarios().iter().flat_map(|(_, _, expected)| expected.iter().copied()).collect();
    let rules: BTreeSet<_> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(all, rules, "a trace for each rule");
    let mut wrong = Vec::new();
    for (name, processes, expected) in scenarios() {
        let trace = written(name, processes);
        let report = report(&trace, &[]);
        let mut expected = expected.to_vec();
        expected.sort();
        if ids(&report, "fired") != expected {
            wrong.push(format!(
                "{name}: {:?} and not {expected:?}\n{}",
                ids(&report, "fired"),
                analyze(&trace, &["--findings"])
            ));
        }
        for finding in report["findings"].as_array().unwrap() {
            let message = finding["says"].as_str().unwrap();
            assert!(finding["state"] != "fired" || message.contains(|c: char| c.is_ascii_digit()), "{name}: {message}");
            assert!(!message.contains("NaN") && !message.contains("inf "), "{name}: {message}");
            assert!(finding["evidence"].as_array().unwrap().len() <= 5, "{name}: {finding}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn healthy_run_has_no_findings() {
    let (name, processes, _) = scenarios().swap_remove(0);
    let trace = written(&format!("{name}-text"), processes);
    let screen = analyze(&trace, &[]);
    assert!(screen.contains("Findings: none"), "{screen}");
    assert!(!["warning", "critical"].iter().any(|word| screen.contains(word)), "{screen}");
    assert!(analyze(&trace, &["--findings"]).contains("\n  none\n"));
}

#[test]
fn savings_equal_the_waited_time() {
    let trace = written("worth", slow_storage(&Loader::starved()));
    let report = report(&trace, &[]);
    let bound = finding(&report, "input-bound");
    assert_eq!((bound["worth_ns"].as_i64(), bound["severity"].as_str()), (Some(5_000_000_000), Some("critical")));
    assert!((bound["worth_share"].as_f64().unwrap() - 0.5).abs() < 0.01, "{bound}");
    let measure = &bound["measures"][0];
    assert_eq!((measure["value"].as_f64(), measure["limit"].as_f64()), (Some(0.5), Some(0.05)));
}

#[test]
fn object_store_requests_count_as_storage() {
    let trace = written("store", slow_store(&Loader::starved()));
    let report = report(&trace, &[]);
    assert!(report["verdict"][1].as_str().unwrap().contains("storage was the bottleneck"), "{}", report["verdict"]);
    let asked = analyze(&trace, &["--sql", include_str!("../sql/time.sql"), "--format", "json"]);
    let asked: Value = serde_json::from_str(&asked).unwrap();
    assert!(report["time"]["io_ns"].as_i64().unwrap() > 9_000_000_000, "{}", report["time"]);
    assert_eq!(asked[0]["io_ns"], report["time"]["io_ns"]);
}

#[test]
fn first_screen_has_advice_and_fits() {
    let trace = written("screen", slow_storage(&Loader::starved()));
    let screen = analyze(&trace, &[]);
    assert!(
        screen.starts_with("STORAGE-BOUND: 50 % of training is ")
            && screen.contains("  critical: loader-")
            && screen.contains(", saves at most 5 s (50 % of training): "),
        "{screen}"
    );
    // A command to be copied has one line, as long as it may be.
    let fits = |line: &str| line.chars().count() <= 80 || line.ends_with(" --compare after");
    assert!(screen.lines().count() < 40 && screen.lines().all(fits), "{screen}");
    let all = analyze(&trace, &["--findings"]);
    assert!(all.contains(" rules did not fire") && !all.contains("Did not fire ("), "{all}");
    assert!(all.lines().count() < 60, "{all}");
    let all = analyze(&trace, &["--full"]);
    for part in [
        "measured: ",
        "(threshold: at least 5.0 %)",
        "change:   ",
        "verify:   ",
        "Did not fire (",
        "metadata-bound",
        "FINDINGS.md",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let findings = all.lines().skip_while(|line| *line != "Findings").take_while(|line| !line.contains("FINDINGS.md"));
    assert!(findings.clone().all(fits), "{all}");
}

#[test]
fn suppressed_rules_are_marked() {
    let all = analyze(&written("marks", slow_storage(&Loader::starved())), &["--full"]);
    let quiet = &all[all.find("Did not fire").unwrap()..];
    let of = |rule: &str| -> Vec<&str> {
        let below = quiet.lines().skip_while(|line| line.trim() != rule).skip(1);
        below.take_while(|line| line.starts_with("      ")).collect()
    };
    let rows = of("loader-cpu-bound");
    assert!(rows[0].starts_with("        wait for readers that had started"), "{rows:?}");
    assert!(
        rows.iter().any(|row| row.starts_with("      x readers' I/O, as a share of their busy time: 99 %")),
        "{rows:?}"
    );
}

/// A trainer without spans that receives the output of two readers through a pipe, and works for the same time.
fn taking(bytes: i64, memory: &str) -> Vec<Script> {
    const STEPS: u64 = 40;
    let worker = |number: u64| {
        let mut worker = Script::new(200 + number as i32, 100);
        worker.at(20);
        for step in 0..STEPS {
            message(&mut worker, Op::READ, 90);
            worker.load(&sample(number, step), MIB, 18_000);
            if !memory.is_empty() {
                worker.load(memory, MIB, 100);
            }
            worker.call(Op::WRITE, "<pipe>", 10, (POS_UNKNOWN, bytes, bytes));
            worker.at((step + 1) * 40_000);
        }
        worker
    };
    let mut trainer = Script::new(100, 1);
    for step in 0..STEPS {
        trainer.at(step * 40_000 + 10).call(Op::READ, "<pipe>", 20_000, (POS_UNKNOWN, bytes, bytes)).rest(19_000);
    }
    vec![trainer, worker(0), worker(1)]
}

/// A trainer with spans of compute, 10 ms per step. It loads much before, reads its batch itself in each step, writes
/// a line and syncs it for 5 ms, and saves for a long time at the end.
fn reading_for_itself() -> Vec<Script> {
    const STEPS: u64 = 40;
    let mut trainer = Script::new(100, 1);
    (0..100).for_each(|number| {
        trainer.load(&sample(0, number), MIB, 9000);
    });
    for step in 0..STEPS {
        trainer.load(&sample(1, step), MIB, 990).span("step", "compute", 10_000);
        trainer.write("/out/log.txt", step as i64 * 100, 100, 1000).call(Op::FSYNC, "/out/log.txt", 4000, (0, 0, 0));
    }
    trainer.open("/out/model.pt", 5).write("/out/model.pt", 0, 8 * MIB, 100_000);
    trainer.call(Op::FSYNC, "/out/model.pt", 400_000, (0, 0, 0)).close("/out/model.pt", 2);
    vec![trainer]
}

#[test]
fn trainer_reading_itself_waits_in_its_reads() {
    let report = report(&written("reads-itself", reading_for_itself()), &[]);
    let training = &report["training"][0];
    let of = |field: &str| training[field].as_i64().unwrap() / 1000;
    // Forty steps; before the first and after the last there is no training.
    assert_eq!((of("waited_ns"), of("wait_io_ns"), of("wait_elsewhere_ns")), (39 * 997, 39 * 997, 0), "{training}");
    assert_eq!((of("computed_ns"), of("written_ns")), (400_000, 39 * 5000), "{training}");
    assert!(of("waited_ns") + of("computed_ns") + of("written_ns") <= of("trained_ns"), "{training}");
    // No span marks its saving as a checkpoint.
    assert!(training["checkpoint_ns"].is_null(), "{training}");
    let bound = &finding(&report, "no-overlap");
    assert_eq!(bound["worth_ns"].as_i64().unwrap() / 1000, 39 * 997, "{bound}");
    let said = report["verdict"].to_string();
    assert!(said.contains("Training was stalled for 195 ms (31 %) while its own thread wrote"), "{said}");
}

#[test]
fn reads_before_training_are_not_waits() {
    let mut trainer = Script::new(100, 1);
    (0..100).for_each(|number| {
        trainer.load(&sample(0, number), MIB, 9000);
    });
    (0..40).for_each(|_| {
        trainer.span("step", "compute", 10_000);
    });
    let report = report(&written("reads-before", vec![trainer]), &[]);
    assert_eq!(report["training"][0]["waited_ns"], 0, "{}", report["training"]);
    assert_eq!(report["training"][0]["checkpoint_ns"], 0, "{}", report["training"]);
    assert!(!ids(&report, "fired").iter().any(|id| id == "input-bound" || id == "no-overlap"), "{report}");
}

/// A trainer without spans that finds its batches ready and runs `step` for each; it ends its readers at the end.
fn feeding(step: impl Fn(&mut Script, u64)) -> Vec<Script> {
    const STEPS: u64 = 40;
    let worker = |number: u64| {
        let mut worker = Script::new(200 + number as i32, 100);
        worker.at(20);
        for at in (number..STEPS).step_by(2) {
            message(&mut worker, Op::READ, 90);
            worker.load(&sample(number, at), MIB, 1000);
            message(&mut worker, Op::WRITE, 10);
            worker.at((at + 2) * 20_000);
        }
        // It receives the message that there is no more work.
        message(worker.at((STEPS + 1) * 20_000), Op::READ, 90);
        worker
    };
    let mut trainer = Script::new(100, 1);
    for at in 0..STEPS {
        trainer.at(5000 + at * 20_000);
        message(&mut trainer, Op::READ, 50);
        step(&mut trainer, at);
    }
    trainer.call(Op::WAITPID, "", 1000, (0, 0, 0));
    trainer.write("/out/results.txt", 0, 100, 50_000);
    vec![trainer, worker(0), worker(1)]
}

#[test]
fn training_stalls_while_its_thread_writes() {
    let synced = report(
        &written(
            "stands",
            feeding(|trainer, step| {
                trainer.rest(5000).write("/out/log.txt", step as i64 * 100, 100, 1000);
                trainer.call(Op::FSYNC, "/out/log.txt", 9000, (0, 0, 0));
            }),
        ),
        &[],
    );
    let training = &synced["training"][0];
    assert_eq!((training["written_ns"].as_i64(), training["checkpoint_ns"].as_i64()), (Some(400_000_000), Some(0)));
    assert!(training["waited_ns"].as_i64().unwrap() <= 3_000_000, "{training}");
    let share = finding(&synced, "fsync-share");
    // Its part of all writing, 360 ms of 450, is divided between the 400 ms within the training and 27 us that
    // readers wrote in the meantime.
    assert_eq!((share["state"].as_str(), share["worth_ns"].as_i64()), (Some("fired"), Some(320_021_266)), "{share}");
    let saved = report(
        &written(
            "saves",
            feeding(|trainer, step| {
                if step % 10 == 9 {
                    let path = format!("/out/model-{step}.pt");
                    trainer.write(&path, 0, 8 * MIB, 15_000);
                }
            }),
        ),
        &[],
    );
    let training = &saved["training"][0];
    assert_eq!((training["written_ns"].as_i64(), training["checkpoint_ns"].as_i64()), (Some(60_000_000), None));
    let stalls = finding(&saved, "checkpoint-stalls");
    assert_eq!((stalls["state"].as_str(), stalls["worth_ns"].as_i64()), (Some("fired"), Some(60_000_000)), "{stalls}");
    let said = saved["verdict"].to_string();
    assert!(said.contains("Training was stalled for 60.0 ms"), "{said}");
    // A batch of events that only removes a file does not write it.
    let removed = report(
        &written(
            "removes",
            feeding(|trainer, step| {
                trainer.rest(5000).call(Op::UNLINK, &format!("/out/journal-{step}"), 10_000, (0, 0, 0));
            }),
        ),
        &[],
    );
    assert_eq!(removed["training"][0]["written_ns"], 400_000_000, "{}", removed["training"]);
}

#[test]
fn socket_response_is_no_batch_with_pipes() {
    let mut processes = feeding(|trainer, _| {
        trainer.call(Op::WRITE, "<socket>", 10, (POS_UNKNOWN, 8, 8));
        trainer.call(Op::READ, "<socket>", 15_000, (POS_UNKNOWN, 8, 8));
    });
    let mut peer = Script::new(300, 100);
    for step in 0..40 {
        peer.at(5050 + step * 20_000).call(Op::READ, "<socket>", 20, (POS_UNKNOWN, 8, 8)).rest(14_900);
        peer.call(Op::WRITE, "<socket>", 10, (POS_UNKNOWN, 8, 8));
    }
    processes.push(peer);
    let report = report(&written("exchanges", processes), &[]);
    let said = report["verdict"].to_string();
    assert!(said.contains("Training hardly waited for its readers") && !said.contains("show that it trains"), "{said}");
    let training = &report["training"][0];
    assert!(training["waited_ns"].as_i64().unwrap() <= 3_000_000, "{training}");
    assert_eq!(training["readers"].as_array().unwrap().len(), 2, "{training}");
}

#[test]
fn inferred_wait_mentions_missing_unpickling() {
    let said = |name: &str, bytes: i64| {
        let verdict = report(&written(name, taking(bytes, "")), &[])["verdict"].to_string();
        assert!(verdict.contains("(inferred from calls)"), "{verdict}");
        verdict.contains("Unpickling a batch is not part of this wait")
    };
    assert_eq!((said("pickled", 2 * MIB), said("shared", 200)), (true, false));
}

#[test]
fn remedies_use_pytorch_terms_for_pytorch() {
    let words = |name: &str, processes: Vec<Script>| {
        let report = report(&written(name, processes), &[]);
        let all: Vec<_> =
            report["findings"].as_array().unwrap().iter().filter_map(|it| it["remedy"].as_str()).collect();
        all.join(" ")
    };
    let (any, torch) = (words("any", taking(MIB, "")), words("torch", taking(MIB, "/dev/shm/torch_7_1_2")));
    let own = ["num_workers", "prefetch_factor", "persistent_workers", "torch.", "DataLoader", "Dataset", "drop_last"];
    assert!(own.iter().all(|word| !any.contains(word)), "{any}");
    assert!(any.contains("more readers") && torch.contains("increase num_workers"), "{torch}");
}

/// A trainer without spans that waits for each batch, and readers that run `batch` for it, given their number and
/// that of the step.
fn fed(readers: u64, step_us: u64, batch: impl Fn(&mut Script, u64, u64)) -> Vec<Script> {
    const STEPS: u64 = 60;
    let reader = |number: u64| {
        let mut reader = Script::new(200 + number as i32, 100);
        reader.at(20);
        for step in 0..STEPS {
            // It has nothing to do until its task comes, and makes its batch by the end of the step.
            let waited = (step * step_us + 100).saturating_sub(reader.now()).max(90);
            message(&mut reader, Op::READ, waited);
            batch(&mut reader, number, step);
            message(&mut reader, Op::WRITE, 10);
        }
        reader
    };
    let mut trainer = Script::new(100, 1);
    for step in 0..STEPS {
        trainer.at(step * step_us + 10).call(Op::READ, "<pipe>", step_us - 2010, (POS_UNKNOWN, 64, 64)).rest(1900);
    }
    [trainer].into_iter().chain((0..readers).map(reader)).collect()
}

#[test]
fn lock_waits_are_not_storage() {
    // One of four has the lock and reads; the others wait.
    for op in [Op::FLOCK, Op::FCNTL_SETLKW] {
        let processes = fed(4, 20_000, |reader, number, step| {
            reader.call(op, "/data/lock", 12_000 + 1000 * number, (2, 0, 0)).load(&sample(number, step), MIB, 200);
            reader.rest(3500);
        });
        let trace = written(&format!("lock-{}", op.0), processes);
        let report = report(&trace, &[]);
        let fired = ids(&report, "fired");
        assert!(fired.contains(&"lock-wait".into()) && !fired.contains(&"hot-file".into()), "{fired:?}");
        assert!(!fired.contains(&"loader-cpu-bound".into()), "{fired:?}");
        let verdict = report["verdict"].to_string();
        assert!(
            !verdict.contains("storage was the bottleneck") && !verdict.contains("storage and what else"),
            "{verdict}"
        );
        // Readers waited for the lock for most of the time: the cause of the wait is not among their calls.
        assert!(report["training"][0]["wait_io_ns"].is_null(), "{}", report["training"][0]);
        let screen = analyze(&trace, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(screen.contains("next: find the program that holds the lock of this file"), "{screen}");
        // Waiting is not I/O in any number, and SQL agrees.
        let sql = "select events, time_ns from files where path = '/data/lock'";
        assert_eq!(analyze(&trace, &["--sql", sql, "--format", "csv"]).lines().last(), Some("0,0"));
        assert!(report["functions"].as_array().unwrap().iter().all(|row| row["name"] != op.info().unwrap().name));
        for (sql, section) in
            [(include_str!("../sql/metadata.sql"), "metadata"), (include_str!("../sql/processes.sql"), "processes")]
        {
            let asked: Value = serde_json::from_str(&analyze(&trace, &["--sql", sql, "--format", "json"])).unwrap();
            let rows = report[section].as_array().unwrap();
            let sum = |rows: &[Value], field: &str| -> i64 { rows.iter().filter_map(|row| row[field].as_i64()).sum() };
            for field in ["time_ns", "metadata_ns", "wait_ns"] {
                assert_eq!(sum(rows, field), sum(asked.as_array().unwrap(), field), "{section} {field}");
            }
        }
    }
}

#[test]
fn long_small_reads_are_latency_bound() {
    let of = |us: u64, bytes: i64| {
        let processes = fed(2, us + 600, |reader, number, step| {
            reader.load(&sample(number, step), bytes, us);
        });
        report(&written(&format!("single-reads-{us}-{bytes}"), processes), &[])
    };
    let slow = of(8000, 40_000);
    let found = finding(&slow, "storage-latency-bound");
    assert_eq!((&found["state"], &found["confidence"]), (&"fired".into(), &"inferred".into()), "{found}");
    assert!(found["says"].as_str().unwrap().contains("a read of 40.0 kB took 8"), "{found}");
    assert!(found["remedy"].as_str().unwrap().contains("twice as many readers"), "{found}");
    assert_eq!(finding(&slow, "storage-saturated")["state"], "unknown");
    // Large reads are not evidence of latency.
    assert_eq!(finding(&of(8000, 8 * MIB), "storage-latency-bound")["state"], "unknown");
}

#[test]
fn start_without_io_is_not_storage() {
    let start = |name: &str, us: u64| {
        let mut processes = fed(2, 10_000, |reader, number, step| {
            reader.load(&sample(number, step), MIB, 300);
        });
        let mut other = Script::new(300, 1);
        other.load("/data/list", MIB, us).at(2_000_000).load("/data/list", MIB, 100);
        processes.iter_mut().for_each(|process| process.delay(2_000_000));
        processes.push(other);
        finding(&report(&written(name, processes), &[]), "slow-start").clone()
    };
    let (computes, reads) = (start("start-computes", 1000), start("start-reads", 1_500_000));
    assert_eq!((&computes["state"], &reads["state"]), (&"fired".into(), &"fired".into()), "{computes} {reads}");
    assert!(!computes["remedy"].as_str().unwrap().contains("local disk"), "{computes}");
    assert!(reads["remedy"].as_str().unwrap().contains("local disk"), "{reads}");
    assert_eq!((&computes["severity"], &reads["severity"]), (&"note".into(), &"warning".into()));
    assert!(reads["says"].as_str().unwrap().contains("file I/O active for 75 % of that"), "{reads}");
}

#[test]
fn single_busy_reader_is_the_bottleneck() {
    let processes = fed(3, 30_000, |reader, number, step| {
        reader.load(&sample(number, step), MIB, 100).rest(if number == 1 { 29_000 } else { 50 });
    });
    let report = report(&written("one-works", processes), &[]);
    let (slow, decoding) = (finding(&report, "slow-worker"), finding(&report, "loader-cpu-bound"));
    assert_eq!((&slow["state"], &decoding["state"]), (&"fired".into(), &"fired".into()), "{slow} {decoding}");
    assert!(decoding["remedy"].as_str().unwrap().contains("nor more readers"), "{decoding}");
    let rules: Vec<_> = report["findings"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(rules[..2], ["input-bound", "slow-worker"], "{rules:?}");
    // If all have equal work, none is slow.
    let even = fed(3, 30_000, |reader, number, step| {
        reader.load(&sample(number, step), MIB, 100).rest(29_000);
    });
    let report = self::report(&written("all-work", even), &[]);
    assert_eq!(finding(&report, "slow-worker")["state"], "quiet", "{report}");
    assert!(
        finding(&report, "loader-cpu-bound")["remedy"].as_str().unwrap().contains("add readers where CPUs are idle")
    );
}

#[test]
fn file_with_several_damages_counts_once() {
    let mut process = Script::new(100, 1);
    (0..5000).for_each(|at| {
        process.load(&sample(0, at % 5), 4096 + at as i64, 100 + at % 7);
    });
    let trace = written("pieces", vec![process]);
    let file = std::fs::read_dir(trace.path()).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    for part in 8..16 {
        let at = bytes.len() / 16 * part;
        bytes[at] ^= 0xff;
    }
    std::fs::write(&file, bytes).unwrap();
    let report = report(&trace, &["--no-cache"]);
    let (trust, pieces) = (finding(&report, "trust"), report["damage"].as_array().unwrap().len());
    assert!(pieces > 1, "{}", report["damage"]);
    assert!(trust["says"].as_str().unwrap().contains(&format!("1 file is damaged in {pieces} places")), "{trust}");
}

#[test]
fn limits_are_changed_and_rules_left_out() {
    let trace = written("limits", slow_storage(&Loader::starved()));
    let rules = trace.path().join("mine.rules");
    std::fs::write(&rules, "input-bound.wait = 0.6\n").unwrap();
    let judged = report(&trace, &["--rules", rules.to_str().unwrap()]);
    assert_eq!(finding(&judged, "input-bound")["state"], "quiet");
    assert_eq!(finding(&judged, "input-bound")["measures"][0]["limit"], 0.6);
    assert_eq!(finding(&report(&trace, &["--ignore", "input-bound"]), "input-bound")["state"], "ignored");
    std::fs::write(&rules, "input-bound.wiat = 0.6\n").unwrap();
    for arguments in [["--rules", rules.to_str().unwrap()], ["--ignore", "input-bond"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlio-analyze"));
        let output = command.arg(trace.path()).args(arguments).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn unknown_values_are_reported_not_zero() {
    let mut reader = Script::new(100, 1);
    (0..200).for_each(|step| {
        reader.load(&sample(0, step), 8 * MIB, 30_000);
    });
    let trace = written("no-spans", vec![reader]);
    let report = report(&trace, &[]);
    for id in
        ["input-bound", "compute-bound", "loader-capacity", "loader-cpu-bound", "slow-worker", "checkpoint-stalls"]
    {
        let finding = finding(&report, id);
        assert_eq!(finding["state"], "unknown", "{finding}");
        assert!(finding["says"].as_str().unwrap().starts_with("not measured ("), "{finding}");
        assert!(finding["measures"].as_array().unwrap().iter().any(|measure| measure["value"].is_null()));
    }
    let hidden = report["findings"].as_array().unwrap().iter().filter(|finding| finding["state"] == "fired");
    assert!(hidden.clone().all(|finding| finding["exposed"] == false && finding["severity"] != "critical"));
}

#[test]
fn poor_traces_are_judged() {
    let one = |script: &mut Script| {
        script.read("/data/a", 0, 4096, 50);
    };
    let failing = |script: &mut Script| {
        (0..200).for_each(|at| {
            script.call(Op::OPENAT, &format!("/data/{at}"), 20, (0, 0, -2));
        });
    };
    for (name, work, ends) in
        [("one-event", &one as &dyn Fn(&mut Script), true), ("failing", &failing, true), ("killed", &one, false)]
    {
        let mut script = Script::new(100, 1);
        script.ends = ends;
        work(&mut script);
        let trace = written(name, vec![script]);
        let report = report(&trace, &[]);
        assert!(report["findings"].as_array().unwrap().len() > 5, "{name}");
        assert!(ids(&report, "fired").iter().all(|id| id != "input-bound"), "{name}");
        assert!(analyze(&trace, &[]).lines().count() < 40, "{name}");
    }
}

/// Returns the report of one of the scenarios.
fn reported(name: &str) -> Value {
    let (_, processes, _) = scenarios().into_iter().find(|(known, ..)| *known == name).unwrap();
    report(&written(&format!("{name}-figures"), processes), &[])
}

#[test]
fn step_time_is_divided_exactly() {
    let report = reported("one-saves");
    let steps = report["steps"].as_array().unwrap();
    let spent = |rank: usize, part: &str| steps[rank]["sum"][part].as_i64().unwrap() / 1000;
    // A hundred steps of 1 ms and 79 ms; after every tenth 200 ms, in which one rank saves and the other waits for
    // it.
    for (rank, saves) in [(0, true), (1, false)] {
        assert_eq!((spent(rank, "compute_ns"), spent(rank, "wait_ns")), (7_900_000, 100_000));
        let (saved, talked) = (spent(rank, "checkpoint_ns"), spent(rank, "communication_ns"));
        // The last one comes after the last span of waiting or computing.
        assert_eq!((saved, talked), if saves { (1_800_000, 0) } else { (0, 1_800_000) });
        assert_eq!((spent(rank, "total_ns"), spent(rank, "io_ns"), spent(rank, "other_ns")), (9_800_000, 0, 0));
        assert_eq!(steps[rank]["columns"].as_array().unwrap().len(), 100);
    }
    let saved = &report["checkpoints"];
    assert_eq!(
        (saved["spans"].as_u64(), saved["files"].as_u64(), saved["inferred"].as_bool()),
        (Some(10), Some(10), Some(false))
    );
    assert_eq!(saved["bytes_written"], 640 * MIB);
}

#[test]
fn accesses_of_known_traces_are_counted_exactly() {
    let random = reported("random");
    let calls = &random["access"][0]["calls"];
    assert_eq!(
        (calls["first"].as_u64(), calls["backward"].as_u64(), calls["forward"].as_u64()),
        (Some(20), Some(1980), Some(0))
    );
    let small = reported("small-reads");
    let (bin, calls) = (&small["sizes"][0], &small["access"][0]["calls"]);
    assert_eq!(
        (bin["from"].as_u64(), bin["count"].as_u64(), bin["time_ns"].as_u64()),
        (Some(4096), Some(3000), Some(600_000_000))
    );
    assert_eq!((calls["first"].as_u64(), calls["consecutive"].as_u64()), (Some(3), Some(2997)));
    assert_eq!(small["access"][0]["off_both"], 0);
    let broken = reported("broken");
    let failure = &broken["failures"][0];
    assert_eq!(
        (failure["error"].as_str(), failure["count"].as_u64(), failure["name"].as_str()),
        (Some("EIO"), Some(200), Some("read"))
    );
    let same = reported("same-files");
    assert_eq!(
        (same["dataset"]["files_shared"].as_u64(), same["dataset"]["bytes_reread"].as_i64()),
        (Some(100), Some(800 * MIB))
    );
    assert_eq!(
        (same["patterns"][0]["pattern"].as_str(), same["patterns"][0]["users"].as_u64()),
        (Some("/data/one/sample-#.npy"), Some(200))
    );
}

/// Records a message between processes.
fn message(process: &mut Script, op: Op, us: u64) {
    process.call(op, "<pipe>", us, (POS_UNKNOWN, 64, 64));
}

/// Returns a trainer whose readers import for a while before they take their first task, and then are in I/O all the
/// time. Each wait ends with the message it was for.
fn readers_that_start() -> Vec<Script> {
    const START_US: u64 = 300_000;
    const STEPS: u64 = 40;
    let mut trainer = Script::new(100, 1);
    for step in 0..STEPS {
        let (now, wait) = (trainer.now(), if step == 0 { START_US + 20_000 } else { 10_000 });
        trainer.span_at(now, wait, "fetch", "data", (0, step as i32));
        trainer.at(now + wait).span("step", "compute", 10_000);
    }
    let worker = |number: u64| {
        let mut worker = Script::new(200 + number as i32, 100);
        worker.at(10).load("/env/packages.bin", 100_000, 50).at(START_US - 100);
        for step in 0..STEPS {
            message(&mut worker, Op::READ, 90);
            worker.load(&sample(number, step), MIB, 19_700);
            message(&mut worker, Op::WRITE, 10);
            worker.at(START_US + (step + 1) * 20_000);
        }
        worker
    };
    vec![trainer, worker(0), worker(1)]
}

#[test]
fn reader_start_is_wait_and_not_work() {
    let trace = written("starting", readers_that_start());
    let report = report(&trace, &[]);
    let (said, input) = (report["verdict"][0].as_str().unwrap(), finding(&report, "input-bound"));
    let training = &report["training"][0];
    let of = |field: &str| training[field].as_f64().unwrap();
    assert!((of("waited_ns") - 710e6).abs() < 1e6 && (of("wait_start_ns") - 300e6).abs() < 20e6, "{training}");
    for text in [said, input["says"].as_str().unwrap()] {
        assert!(
            text.contains("710 ms")
                && text.contains(
                    " of the wait passed while its readers were starting (including their one-time work) or ending"
                ),
            "{text}"
        );
    }
    assert!(said.starts_with("Training waited for data: "), "{said}");
    assert!(report["verdict"][1].as_str().unwrap().contains("torage was the bottleneck"), "{report}");
    let fired = ids(&report, "fired");
    assert!(!fired.contains(&"loader-cpu-bound".to_string()), "{fired:?}");
    let screen = analyze(&trace, &[]);
    assert!(row(&screen, "waiting for batches").starts_with("waiting for batches 710 ms "), "{screen}");
    assert!(row(&screen, "waiting for batches").ends_with(" 64 %"), "{screen}");
    assert!(row(&screen, "readers starting").starts_with("readers starting or ending 300 ms "), "{screen}");
    assert!(row(&screen, "readers starting").ends_with(" 27 %"), "{screen}");
}

#[test]
fn verdict_and_findings_agree_on_the_wait() {
    for (name, processes, _) in scenarios() {
        let trace = written(&format!("one-wait-{name}"), processes);
        let report = report(&trace, &[]);
        let Some(group) = report["training"].as_array().unwrap().first() else { continue };
        let sum = |field: &str| -> f64 {
            let groups = report["training"].as_array().unwrap().iter();
            groups.map(|group| group[field].as_f64().unwrap_or(0.0)).sum()
        };
        let share = sum("waited_ns") / sum("trained_ns");
        // A longer stall of another kind comes first.
        let mut sentences = report["verdict"].as_array().unwrap().iter().filter_map(Value::as_str);
        let said = sentences.find(|sentence| sentence.contains(" trained for ")).unwrap();
        assert_eq!(share < 0.05, said.starts_with("Training hardly waited"), "{name}: {said} {group}");
        for (id, holds) in [("input-bound", share >= 0.05), ("compute-bound", share < 0.05)] {
            let measures = finding(&report, id)["measures"].as_array().unwrap();
            let measured = measures.iter().find(|measure| measure["key"] == "wait").unwrap();
            assert!((measured["value"].as_f64().unwrap() - share).abs() < 1e-6, "{name}: {measured}");
            assert!(holds || finding(&report, id)["state"] != "fired", "{name}: {id}");
        }
        assert!(finding(&report, "slow-start")["worth_share"].as_f64().unwrap_or(0.0) <= 1.0, "{name}");
    }
}

#[test]
fn data_generation_is_not_a_training_start() {
    let mut trainer = Script::new(100, 1);
    trainer.write("/data/train/img-0.npz.partial-vm-100", 0, 8 * MIB, 4_000_000);
    trainer.at(0).span("generate", "pipeline", 5_000_000).span("cache.drop", "pipeline", 3_000_000).rest(1000);
    (0..100).for_each(|_| {
        trainer.span("fetch", "data", 100).span("step", "compute", 20_000);
    });
    // Before the next epoch the cache is dropped again, which is not a start.
    trainer.span("cache.drop", "pipeline", 500_000).span("fetch", "data", 100).span("step", "compute", 20_000);
    let trace = written("generate", vec![trainer]);
    let report = report(&trace, &[]);
    let start = finding(&report, "slow-start");
    assert_eq!(start["state"], "quiet", "{start}");
    let says = start["says"].as_str().unwrap();
    assert!(says.contains("in addition to 5 s of generating data and 3 s of emptying the cache"), "{start}");
    assert_eq!(report["checkpoints"]["files"], 0, "{}", report["checkpoints"]);
    let asked = analyze(&trace, &["--sql", include_str!("../sql/checkpoints.sql"), "--format", "json"]);
    let asked: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(asked[0]["files"], 0, "{asked}");
}

#[test]
fn ranks_waiting_for_each_other_lose_one_wait() {
    let rank = |rank: i32| {
        let mut process = Script::ranked(100 + rank, rank);
        for step in 0..100 {
            // Once the last one has no batch, and the others wait at the barrier.
            let (waited, stood) = match (step, rank) {
                (50, 3) => (2_000_000, 10),
                (50, _) => (10, 2_000_000),
                _ => (10, 10),
            };
            process.span("fetch", "data", waited).span("compute", "compute", 20_000);
            process.span("barrier", "communication", stood);
        }
        process
    };
    let trace = written("held", (0..4).map(rank).collect());
    let report = report(&trace, &[]);
    let bound = finding(&report, "input-bound");
    let worth = bound["worth_ns"].as_i64().unwrap();
    assert!((1_990_000_000..2_010_000_000).contains(&worth), "{bound}");
    assert_eq!(bound["severity"], "critical");
    let verdict = report["verdict"][0].as_str().unwrap();
    assert!(verdict.contains("which cost up to 2.00 s (50 %)"), "{verdict}");
    let evidence = finding(&report, "straggler-rank")["evidence"].as_array().unwrap();
    let ranks: Vec<_> = evidence.iter().filter_map(|row| row.as_str()?.split(':').next()).collect();
    assert_eq!(ranks.len(), ranks.iter().collect::<BTreeSet<_>>().len(), "{evidence:?}");
    assert!(analyze(&trace, &[]).contains("waiting for each other"));
}

#[test]
fn faster_reads_save_at_most_the_wait() {
    let (mut trainer, mut worker) = (Script::new(100, 1), Script::new(200, 100));
    for step in 0..100 {
        trainer.span("fetch", "data", 100).span("train", "compute", 20_000);
        worker.at(trainer.now());
        for number in 0..20 {
            worker.load(&sample(0, step * 20 + number), MIB, 100).rest(10);
        }
        worker.open(&sample(0, step * 20), 5000).close(&sample(0, step * 20), 5000);
        trainer.span("save", "checkpoint", 20_000);
    }
    let report = report(&written("beside-saving", vec![trainer, worker]), &[]);
    let asking = finding(&report, "metadata-bound");
    assert_eq!(asking["state"], "quiet", "{asking}");
    assert!(asking["measures"][1]["value"].as_f64().unwrap() > 0.5, "{asking}");
}

#[test]
fn trainer_without_readers_gets_advice() {
    let (_, processes, _) = scenarios().into_iter().find(|(name, ..)| *name == "no-workers").unwrap();
    let trace = written("by-itself", processes);
    let verdict = report(&trace, &[])["verdict"].to_string();
    assert!(verdict.contains("It reads its data itself. Of that wait, it spent"), "{verdict}");
    assert!(!verdict.contains("1 reader"), "{verdict}");
}

#[test]
fn cached_data_gets_no_copy_advice() {
    let run = |folder: &str| {
        let mut reader = Script::new(100, 1);
        reader.memory = Some(64 << 30);
        (0..400).for_each(|at| {
            reader.load(&format!("{folder}/sample-{}.npy", at % 100), 8 * MIB, 20_000);
        });
        let trace = written(&format!("fits{}", folder.replace('/', "-")), vec![reader]);
        finding(&report(&trace, &[]), "would-fit")["state"].clone()
    };
    assert_eq!((run("/data"), run("/dev/shm/data")), (Value::from("fired"), Value::from("quiet")));
}

#[test]
fn checkpoints_without_training_are_not_waits() {
    let mut saver = Script::new(100, 1);
    for step in 0..5 {
        let now = saver.now();
        saver.write(&format!("/out/{step}.pt"), 0, 64 * MIB, 100_000);
        saver.span_at(now, 110_000, "checkpoint.save", "checkpoint", (0, step)).at(now + 200_000);
    }
    let trace = written("checkpoints", vec![saver]);
    let screen = analyze(&trace, &[]).replace('\n', " ");
    assert!(screen.contains("The trace shows no training: 5 spans of checkpoints took 550 ms"), "{screen}");
    assert!(screen.contains("checkpoints, 5 spans  550 ms") && !screen.contains("is not known"), "{screen}");
}

/// Returns a training run of 100 s in the span of its epoch, which reads its data itself.
fn in_an_epoch() -> Script {
    let mut trainer = Script::new(100, 1);
    trainer.span_at(0, 100_000_000, "epoch", "epoch", (1, -1)).at(20_000_000);
    for step in 0..80 {
        let now = trainer.now();
        trainer.span_at(now, 900_000, "fetch", "data", (1, step));
        trainer.load(&sample(0, step as u64), MIB, 890_000).at(now + 900_000).span("step", "compute", 100_000);
    }
    trainer
}

#[test]
fn time_filter_makes_the_window_the_run() {
    let trace = written("window", vec![in_an_epoch()]);
    let whole = report(&trace, &[]);
    assert_eq!(finding(&whole, "slow-start")["state"], "fired");
    for window in [&["--window", "50s..60s"][..], &["--from", "50s", "--to", "60s"]] {
        let report = report(&trace, window);
        let (time, training) = (&report["time"], &report["training"][0]);
        assert_eq!(time["total_ns"].as_i64(), Some(10_000_000_000), "{time}");
        assert!(
            ["io_ns", "compute_ns", "other_ns"]
                .iter()
                .all(|part| (0..=10_000_000_000).contains(&time[part].as_i64().unwrap()))
        );
        assert!(
            training["startup_ns"].is_null() && training["trained_ns"].as_i64() <= Some(10_000_000_000),
            "{training}"
        );
        assert_eq!(finding(&report, "slow-start")["state"], "unknown");
        assert_eq!(finding(&report, "input-bound")["worth_share"].as_f64().map(|share| share.round()), Some(1.0));
        assert!(!report["verdict"].to_string().contains("Training started after"), "{}", report["verdict"]);
    }
    // A step's reads are within it, and its epoch is around it.
    let step = report(&trace, &["--step", "40..42"]);
    assert_eq!(
        (step["time"]["total_ns"].as_i64(), step["training"][0]["startup_ns"].as_i64()),
        (Some(2_900_000_000), None)
    );
    // A whole run is not a window.
    let run = report(&trace, &["--run", "last"]);
    assert_eq!(run["training"][0]["startup_ns"], whole["training"][0]["startup_ns"]);
}

#[test]
fn trace_without_calls_has_no_call_findings() {
    let mut trainer = Script::new(100, 1);
    for _ in 0..20 {
        trainer.span("fetch", "data", 80_000).span("step", "compute", 20_000);
    }
    let trace = written("spans", vec![trainer]);
    let found = report(&trace, &[]);
    assert!(found["training"][0]["wait_io_ns"].is_null(), "{}", found["training"]);
    let cause = found["verdict"][1].as_str().unwrap();
    assert_eq!(cause, "The work of its readers during that wait is unknown: calls were not recorded.");
    assert_eq!(ids(&found, "fired"), ["input-bound"]);
    assert!(!analyze(&trace, &[]).contains("file I/O"));
    let quiet = ["checkpoint-stalls", "compute-bound", "slow-start", "straggler-rank", "trust"];
    assert_eq!(ids(&found, "quiet"), quiet);
    let mut other = Script::new(100, 1);
    other.span("parse", "frontend", 1000);
    let screen = analyze(&written("other-spans", vec![other]), &[]);
    assert!(
        screen.contains("Findings: no rule fired; most rules check calls, and the trace contains none"),
        "{screen}"
    );
}

#[test]
fn locks_and_seeks_are_not_metadata_calls() {
    for op in [Op::FLOCK, Op::LSEEK, Op::FTRUNCATE] {
        let mut program = Script::new(100, 1);
        for at in 0..200 {
            program.call(op, "/d/l", 9000, (0, 0, 0)).write("/d/l", at * MIB, MIB, 900);
        }
        let report = report(&written("no-asking", vec![program]), &[]);
        assert_ne!(finding(&report, "metadata-bound")["state"], "fired", "{op:?}");
    }
}

#[test]
fn failed_opens_are_not_unread_files() {
    let mut program = Script::new(100, 1);
    for at in 0..500 {
        program.call(Op::OPENAT, &format!("/d/none{at}"), 900, (0, 0, -2));
        program.open(&format!("/d/unread{at}"), 100).open(&format!("/d/read{at}"), 100);
        program.read(&format!("/d/read{at}"), 0, 100_000, 100);
    }
    let report = report(&written("failed-opens", vec![program]), &[]);
    let found = finding(&report, "opened-never-read");
    assert_eq!(found["state"], "fired", "{found}");
    let worth = found["worth_ns"].as_i64().unwrap();
    assert!((49_000_000..51_000_000).contains(&worth), "{worth}");
}

#[test]
fn waits_without_a_batch_are_not_steps() {
    let mut trainer = Script::new(100, 1);
    for epoch in 0..2 {
        for step in 0..5 {
            let now = trainer.now();
            trainer.span_at(now, 1000, "fetch", "data", (epoch, step)).at(now + 1000).span("step", "compute", 9000);
        }
        let now = trainer.now();
        trainer.span_at(now, 2000, "fetch.end", "data", (epoch, 5)).at(now + 2000);
    }
    let trace = written("vain", vec![trainer]);
    let report = report(&trace, &[]);
    let (steps, training) = (&report["steps"][0]["sum"], &report["training"][0]);
    assert_eq!((steps["steps"].as_u64(), steps["total_ns"].as_u64()), (Some(10), Some(104_000_000)), "{steps}");
    assert_eq!(steps["wait_ns"], training["waited_ns"], "{steps} {training}");
    assert_eq!((training["batches"].as_u64(), report["epochs"][0]["batches"].as_u64()), (Some(10), Some(5)));
}

/// Returns a trainer that waits for each batch, and readers that are restarted for each epoch of 20 steps; the last
/// one is slow if `is_one_slow`.
fn fed_anew(epochs: u64, readers: u64, is_one_slow: bool) -> Vec<Script> {
    const STEPS: u64 = 20;
    const STEP_US: u64 = 30_000;
    let length = STEPS * STEP_US;
    let reader = |epoch: u64, number: u64| {
        let mut reader = Script::new((200 + 10 * epoch + number) as i32, 100);
        reader.at(epoch * length + 20 + number);
        for step in 0..STEPS - 1 {
            let task = epoch * length + step * STEP_US + 100;
            let waited = task.saturating_sub(reader.now()).max(90);
            message(&mut reader, Op::READ, waited);
            let is_slow = !is_one_slow || number + 1 == readers;
            reader.load(&sample(number, epoch * STEPS + step), MIB, 100).rest(if is_slow { 27_000 } else { 50 });
            message(&mut reader, Op::WRITE, 10);
        }
        reader
    };
    let mut trainer = Script::new(100, 1);
    for step in 0..epochs * STEPS {
        trainer.at(step * STEP_US + 10).call(Op::READ, "<pipe>", STEP_US - 2010, (POS_UNKNOWN, 64, 64)).rest(1900);
    }
    let all = (0..epochs).flat_map(|epoch| (0..readers).map(move |number| (epoch, number)));
    [trainer].into_iter().chain(all.map(|(epoch, number)| reader(epoch, number))).collect()
}

#[test]
fn slow_reader_is_found_across_restarts() {
    let found = |name: &str, is_one_slow| report(&written(name, fed_anew(4, 3, is_one_slow)), &[]);
    let slow = found("slow-anew", true);
    let rule = finding(&slow, "slow-worker");
    assert_eq!(rule["state"], "fired", "{rule}");
    assert!(rule["says"].as_str().unwrap().starts_with("reader 3 of 3 (started 4 times) was busy "), "{rule}");
    // All readers read the same amount.
    let remedy = |summary: &Summary| {
        let found = judge(summary, &Limits::default());
        found.into_iter().find(|finding| finding.id == "slow-worker").unwrap().remedy
    };
    let mut summary: Summary = serde_json::from_value(slow.clone()).unwrap();
    let even = remedy(&summary);
    assert!(even.contains("reads no more bytes than the others") && !even.contains("equally large"), "{even}");
    summary.training[0].readers.iter_mut().filter(|reader| reader.pid % 10 == 2).for_each(|it| it.bytes_read *= 2);
    let uneven = remedy(&summary);
    assert!(uneven.contains("shard by bytes") && uneven.contains("as they become ready"), "{uneven}");
    summary.training[0].loading.out_of_order = true;
    assert!(!remedy(&summary).contains("as they become ready"), "{}", remedy(&summary));
    assert_eq!(finding(&found("even-anew", false), "slow-worker")["state"], "quiet");
}

#[test]
fn evaluation_readers_are_not_compared() {
    let mut processes = fed(2, 30_000, |reader, number, step| {
        reader.load(&sample(number, step), MIB, 100).rest(28_000);
    });
    // An evaluation's readers live for two steps and have little to do.
    for number in 0..3 {
        let mut reader = Script::new(300 + number, 100);
        reader.at(900_000 + number as u64);
        for step in 0..4 {
            message(&mut reader, Op::READ, 14_000);
            reader.load(&sample(3, number as u64 * 4 + step), MIB, 100);
            message(&mut reader, Op::WRITE, 10);
        }
        processes.push(reader);
    }
    let found = report(&written("evaluated", processes), &[]);
    assert_eq!(found["training"][0]["readers"].as_array().unwrap().len(), 5, "{}", found["training"][0]["readers"]);
    let rule = finding(&found, "slow-worker");
    assert_eq!(rule["state"], "quiet", "{rule}");
    assert!(
        rule["measures"][1]["value"].as_f64() < Some(0.55) && rule["measures"][2]["value"].as_f64() < Some(1.1),
        "{rule}"
    );
}

#[test]
fn restarted_readers_cost_their_start_waits() {
    let found = report(&written("start-anew", fed_anew(4, 3, false)), &[]);
    let mut summary: Summary = serde_json::from_value(found).unwrap();
    let trained = summary.training[0].trained_ns;
    let judged = |summary: &Summary| judge(summary, &Limits::default());
    let rule = |summary: &Summary| serde_json::to_value(judged(summary)).unwrap();
    let share = |summary: &Summary| {
        let all = rule(summary);
        let found = all.as_array().unwrap().iter().find(|it| it["id"] == "workers-restart").unwrap().clone();
        assert_eq!(found["measures"][0]["value"].as_f64(), Some(3.0), "{found}");
        (found["measures"][1]["value"].as_f64().unwrap(), found["state"].as_str().unwrap().to_string())
    };
    let (gaps, state) = share(&summary);
    assert!(gaps < 0.06, "{gaps} {state}");
    // Readers make calls while they start: all are present, and training waits. The first start is not a restart.
    summary.training[0].causes = Some(Parts::of(Part::Start, trained * 8 / 10));
    let (waited, state) = share(&summary);
    assert!((waited - 0.6).abs() < 0.01 && state == "fired", "{waited} {state}");
    // A fork is no slower than a fork server.
    let remedy = |summary: &Summary| judged(summary).into_iter().find(|it| it.id == "workers-restart").unwrap().remedy;
    assert!(remedy(&summary).contains("import in the main program"), "{}", remedy(&summary));
    summary.training[0].loading.forks_readers = false;
    assert!(!remedy(&summary).contains("forked"), "{}", remedy(&summary));
}

/// Returns the report on a scenario.
fn report_on(scenario: &str) -> Value {
    let (name, processes, _) = scenarios().into_iter().find(|(name, ..)| *name == scenario).unwrap();
    report(&written(&format!("{name}-changed"), processes), &[])
}

#[test]
fn no_other_reads_help_under_an_io_limit() {
    let mut summary: Summary = serde_json::from_value(report_on("limited-device")).unwrap();
    let mut other = summary.findings.iter_mut().find(|finding| finding.id == "small-reads");
    let other = other.as_mut().unwrap();
    (other.state, other.severity, other.worth_ns) = (State::Fired, Some(Severity::Warning), Some(i64::MAX));
    other.remedy = "read a sample in one call".into();
    let next = |summary: &mut Summary| {
        let mut headline = std::mem::take(&mut summary.headline);
        headline.recommend(summary);
        summary.headline = headline;
        summary.headline.next.clone().unwrap()
    };
    assert!(next(&mut summary).starts_with("raise the I/O limit"), "{}", next(&mut summary));
    summary.findings.iter_mut().find(|finding| finding.id == "io-limit").unwrap().state = State::Quiet;
    assert!(next(&mut summary).starts_with("read a sample in one call"), "{}", next(&mut summary));
}

/// Returns a rule's finding on a changed report.
fn judged(id: &str, found: &Value, change: impl FnOnce(&mut Summary)) -> Finding {
    let mut summary: Summary = serde_json::from_value(found.clone()).unwrap();
    change(&mut summary);
    judge(&summary, &Limits::default()).into_iter().find(|finding| finding.id == id).unwrap()
}

#[test]
fn a_limit_is_compared_with_what_the_job_itself_read_while_training_waited() {
    let found = report_on("limited-device");
    let read = |bytes: i64| judged("io-limit", &found, |summary| summary.machine[0].storage_read = Some(bytes as u64));
    assert_eq!((read(40 * MIB).state, read(12 * MIB).state), (State::Fired, State::Quiet));
    // Other programs cannot lift a job above its limit.
    let busy = judged("io-limit", &found, |summary| {
        let course = summary.timeline.hosts[0].devices[0].read_bytes.as_mut().unwrap();
        course.iter_mut().flatten().for_each(|bytes| *bytes *= 3);
    });
    assert!(
        busy.state == State::Fired && busy.says.ends_with("the job read 10.5 MB/s, 100 % of this limit"),
        "{}",
        busy.says
    );
}

#[test]
fn readers_that_are_idle_when_training_does_not_wait_need_a_longer_queue() {
    let found = report_on("limited-device");
    let jitter = |idle: i64, part: Part| {
        judged("loader-jitter", &found, |summary| {
            summary.what_if = None;
            let group = &mut summary.training[0];
            group.causes = Some(Parts::of(part, group.waited_ns.unwrap()));
            group.inferred = true;
            let idle_ns = idle * group.trained_ns / 4;
            group.readers.iter_mut().for_each(|it| (it.idle_ns, it.wait_idle_ns) = (idle_ns, 0));
        })
    };
    // Readers that work only while training waits, although it does not wait for most of its time, make no batches ahead.
    let on_request = judged("loader-jitter", &found, |summary| {
        summary.what_if = None;
        let group = &mut summary.training[0];
        group.waited_ns = Some(group.trained_ns * 2 / 5);
        group.causes = Some(Parts::of(Part::Cpu, group.waited_ns.unwrap()));
        group.inferred = true;
        let waited = group.waited_ns.unwrap();
        for reader in &mut group.readers {
            (reader.wait_alive_ns, reader.wait_start_ns, reader.wait_idle_ns) = (waited, 0, 0);
            reader.idle_ns = reader.last_ts - reader.first_ts - waited;
        }
    });
    assert!(on_request.says.ends_with("they make no batches ahead"), "{on_request:?}");
    assert!(on_request.remedy.starts_with("request the next batch"), "{on_request:?}");
    let uneven = jitter(1, Part::Cpu);
    assert!(uneven.state == State::Fired && uneven.says.starts_with("each reader was idle for at least"), "{uneven:?}");
    assert_eq!([jitter(0, Part::Cpu).state, jitter(1, Part::Network).state], [State::Quiet, State::Unknown]);
}

#[test]
fn a_limit_is_found_for_a_main_thread_that_reads_its_data_itself() {
    let limit = |read: usize| {
        judged("io-limit", &report_on("limited-device"), |summary| {
            summary.training.clear();
            summary.timeline.waited_ns = None;
            (summary.headline.bottleneck, summary.headline.share) = (Bottleneck::StorageBound, Some(0.8));
            summary.machine[0].storage_read = Some(read as u64);
        })
    };
    let (full, half) = (limit(1 << 40), limit(1 << 20));
    assert!(full.state == State::Fired && full.says.contains("over the whole run, the job read"), "{full:?}");
    assert_eq!(half.state, State::Quiet);
}

#[test]
fn readers_that_wait_for_their_own_writes_are_told_to_write_less() {
    let mut summary: Summary = serde_json::from_value(report_on("limited-device")).unwrap();
    let reader = summary.training[0].readers[0].proc;
    let process = summary.processes.iter_mut().find(|process| process.proc == reader).unwrap();
    (process.work.sync_ns, process.work.read_ns) = (process.work.read_ns, 0);
    let machine = &mut summary.machine[0];
    (machine.storage_read, machine.storage_written) = (Some(0), Some(40 * MIB as u64));
    for mount in &mut machine.sampled.as_mut().unwrap().mounts {
        mount.write_bytes_limit = mount.read_bytes_limit;
    }
    let course = &mut summary.timeline.hosts[0].devices[0];
    course.write_bytes = course.read_bytes.take();
    let findings = judge(&summary, &Limits::default());
    let limit = findings.iter().find(|finding| finding.id == "io-limit").unwrap();
    assert!(
        limit.state == State::Fired && limit.says.contains("limited to writing 10.5 MB/s to device vdb"),
        "{}",
        limit.says
    );
    assert!(limit.remedy.starts_with("let readers write and sync less"), "{}", limit.remedy);
    // A copy from file to file may wait for its source.
    let mut copies: Summary = serde_json::from_value(serde_json::to_value(&summary).unwrap()).unwrap();
    let mut copy: Function = serde_json::from_value(serde_json::to_value(&summary.functions[0]).unwrap()).unwrap();
    copy.time_ns = copies.processes.iter().map(|process| process.work.sync_ns).sum();
    copy.name = "sendfile".into();
    copies.functions.push(copy);
    let of_copies = judge(&copies, &Limits::default());
    let limit = of_copies.iter().find(|finding| finding.id == "io-limit").unwrap();
    assert!(!limit.remedy.starts_with("let readers write"), "{}", limit.remedy);
    summary.findings = findings;
    let mut headline = std::mem::take(&mut summary.headline);
    headline.recommend(&summary);
    assert!(headline.next.as_ref().unwrap().starts_with("let readers write and sync less"), "{:?}", headline.next);
    assert!(headline.why.contains("The readers' own writes and syncs took most"), "{}", headline.why);
}

/// Storage served bytes to mappings: readers may have waited for page faults that the kernel does not count.
#[test]
fn bytes_that_storage_served_to_mappings_are_a_possible_cause() {
    let mut found = report_on("limited-device");
    let mut next = |stored: i64| {
        for process in found["processes"].as_array_mut().unwrap() {
            process["resources"]["storage_read"] = json!(stored);
            process["bytes_read"] = json!(1_000);
            let mapped = json!({"from_ts": 0, "to_ts": 1, "faults": 0, "fault_ns": 0});
            process["first_thread"] = json!({"sleeps": 0, "slept_ns": 0, "polled_ns": 0, "mapped": mapped});
        }
        let mut summary: Summary = serde_json::from_value(found.clone()).unwrap();
        summary.findings.clear();
        summary.what_if = Default::default();
        let (bottleneck, certainty) = (Bottleneck::DataBoundUnknown, Certainty::Inferred);
        let mut headline = Headline { bottleneck, certainty, ..Headline::default() };
        headline.recommend(&summary);
        headline.next.unwrap()
    };
    assert!(next(100 * MIB).starts_with("read the mapped files with calls"), "{}", next(100 * MIB));
    assert!(next(MIB).starts_with("mark the code that gets a batch"), "{}", next(MIB));
}

#[test]
fn a_reader_that_only_waits_longer_is_no_slow_worker() {
    let found = report(&written("slow-or-asleep", fed_anew(4, 3, true)), &[]);
    let with = |part: Part| {
        judged("slow-worker", &found, |summary| {
            summary.training[0].waited_for.clear();
            summary.training[0].causes = Some(Parts::of(part, 1_000_000_000));
        })
    };
    assert_eq!([Part::Cpu, Part::Storage].map(|part| with(part).state), [State::Fired, State::Fired]);
    assert_eq!([Part::Sleep, Part::Lock, Part::Network].map(|part| with(part).state), [State::Quiet; 3]);
}

#[test]
fn a_used_up_quota_is_raised_first() {
    let found = report_on("under-a-quota");
    let next = found["headline"]["next"].as_str().unwrap();
    assert!(
        next.starts_with("raise the CPU quota") && next.ends_with("one reader per CPU of the quota, and at least one"),
        "{next}"
    );
}

#[test]
fn results_of_processes_that_hold_the_interpreter_are_made_cheaper() {
    let mut summary: Summary = serde_json::from_value(report_on("healthy")).unwrap();
    let next = |summary: &mut Summary, tid: Option<i32>| {
        let (kind, name, causes) = (WaitKind::Data, "worker 0".into(), Parts::default());
        let row = WaitedFor { kind, name, processes: 1, pid: 200, tid, threads: 0, waits: 9, wait_ns: 9, causes };
        summary.training[0].waited_for = vec![row];
        let mut headline = Headline { bottleneck: Bottleneck::OwnGil, ..Headline::default() };
        headline.recommend(summary);
        headline.next.unwrap()
    };
    // A thread unpickles the results of processes.
    let (of_processes, of_both) = (next(&mut summary, None), next(&mut summary, Some(7)));
    summary.processes.retain(|process| process.parent.is_none());
    let of_threads = next(&mut summary, Some(7));
    assert_eq!(of_processes, of_both);
    assert!(of_processes.starts_with("pass fewer Python objects from the worker processes"), "{of_processes}");
    assert!(of_threads.starts_with("do the Python work of the other threads in processes"), "{of_threads}");
}

#[test]
fn waits_for_requests_are_reads_of_the_main_thread() {
    let mut program = Script::new(100, 1);
    program.open("/data/one.bin", 10);
    for step in 0..40 {
        program.call(Op::AIO_READ, "/data/one.bin", 10, (step * MIB, MIB, 0));
        program.call(Op::AIO_SUSPEND, "", 50_000, (1, 0, 0));
        program.call(Op::AIO_READ_DONE, "/data/one.bin", 2, (step * MIB, MIB, MIB)).rest(10_000);
    }
    let found = report(&written("requests", vec![program]), &[]);
    let reads = &found["processes"][0]["own_reads"];
    assert_eq!(reads["read_ns"], 40 * 50_002 * 1000, "{reads}");
    assert!(found["time"]["io_ns"].as_i64().unwrap() >= 40 * 50_000 * 1000, "{}", found["time"]);
}

#[test]
fn a_device_is_named_only_if_it_has_the_files_that_took_the_time() {
    let found = report_on("idle-device");
    let state = |found: &Value| {
        let summary: Summary = serde_json::from_value(found.clone()).unwrap();
        judge(&summary, &Limits::default()).into_iter().find(|it| it.id == "slow-but-idle-device").unwrap().state
    };
    assert_eq!(state(&found), State::Fired);
    let mut elsewhere = found.clone();
    let folders = elsewhere["directories"].as_array_mut().unwrap();
    let mut other = folders[0].clone();
    other["directory"] = "/elsewhere".into();
    other["bytes_read"] = (other["bytes_read"].as_u64().unwrap() / 2).into();
    other["time_ns"] = (other["time_ns"].as_u64().unwrap() * 100).into();
    folders.push(other);
    assert_eq!(state(&elsewhere), State::Unknown);
}

/// Returns trainers of two ranks that wait for half of 10 s.
fn two_ranks() -> Vec<Script> {
    let rank = |number: i32| {
        let mut trainer = Script::ranked(100 + number, number);
        for step in 0..100 {
            let now = trainer.now();
            trainer.span_at(now, 50_000, "fetch", "dataloader", (0, step));
            trainer.at(now + 50_000).load(&format!("/data/{number}/{step}"), MIB, 10_000);
            trainer.at(now + 50_000).span("train", "compute", 50_000);
        }
        trainer
    };
    (0..2).map(rank).collect()
}

#[test]
fn times_of_several_ranks_are_averaged() {
    let trace = written("two-ranks", two_ranks());
    let found = report(&trace, &[]);
    let answer = found["verdict"][0].as_str().unwrap();
    let said = "2 trainers trained for 10.0 s on average and spent 5 s (50 %) of this time waiting for batches";
    assert!(answer.contains(said), "{answer}");
    let screen = analyze(&trace, &[]);
    assert_eq!(row(&screen, "training, mean"), "training, mean of 2 trainers 10.0 s 100 % 100 %", "{screen}");
    assert_eq!(row(&screen, "waiting for batches"), "waiting for batches 5 s 50 % 50 %", "{screen}");
    // The values are sums by trainer, unchanged.
    let trained = |at: usize| found["training"][at]["trained_ns"].as_i64();
    assert_eq!((trained(0), trained(1)), (Some(10_000_000_000), Some(10_000_000_000)));
    let other_folder = temp_dir("findings-two-ranks-page");
    let page = other_folder.path().join("page.html");
    analyze(&trace, &["--html", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("5 s of 10.0 s of training, the mean of 2 trainers"));
}

#[test]
fn too_many_waits_report_missing_causes() {
    let trace = written("many-waits", two_ranks());
    let mut summary: Summary = serde_json::from_value(report(&trace, &[])).unwrap();
    let said = |summary: &Summary| conclude(summary, &[]).0.join(" ");
    let sentence = "The causes of waits were not computed: the trace has more than 8 million waits and messages. Select a \
                    smaller part: --run, or --from and --to.";
    assert!(!said(&summary).contains("not worked out"), "{}", said(&summary));
    summary.allocation.waits_unexplained = true;
    assert!(said(&summary).contains(sentence), "{}", said(&summary));
    let mut section = String::new();
    summary.print_section("waits", (Some(10), 80), &mut section);
    assert!(section.contains("None: the trace has too many waits and messages"), "{section}");
}

/// The headline of a report: bottleneck, certainty and the first line.
fn headline(report: &Value) -> (&str, &str, &str) {
    let of = |field: &str| report["headline"][field].as_str().unwrap();
    (of("bottleneck"), of("certainty"), of("text"))
}

#[test]
fn headline_names_bottleneck_evidence_and_next_step() {
    let (name, processes, _) = scenarios().swap_remove(0);
    let healthy = report(&written(&format!("{name}-headline"), processes), &[]);
    let (bottleneck, certainty, text) = headline(&healthy);
    assert!(["compute-bound", "not-data-bound"].contains(&bottleneck), "{healthy}");
    assert!(certainty == "measured" && text.contains("measured by spans"), "{text}");
    assert!(healthy["headline"]["next"].as_str().unwrap().starts_with("leave data loading unchanged"), "{healthy}");
    let mut findings = 0;
    for (name, processes, _) in scenarios() {
        let trace = written(&format!("{name}-headline"), processes);
        let found = report(&trace, &[]);
        let (bottleneck, _, text) = headline(&found);
        let capitals = text.split([':', '(']).next().unwrap();
        assert!(!capitals.chars().any(char::is_lowercase) && !capitals.is_empty(), "{name}: {text}");
        let share = found["headline"]["share"].as_f64();
        assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{name}: {}", found["headline"]);
        // A cause that the trace does not show is never named.
        let is_unknown = ["unknown", "no-training", "no-events", "shared-memory-full"].contains(&bottleneck);
        assert_eq!(share.is_none(), is_unknown, "{name}: {}", found["headline"]);
        let why = found["headline"]["why"].as_str().unwrap();
        assert!(why.ends_with('.') && why.chars().any(|c| c.is_ascii_digit()), "{name}: {why}");
        // A failure that ends runs leads, whatever the run waited for.
        assert_eq!(name == "full-shared-memory", bottleneck == "shared-memory-full", "{name}: {text}");
        // The next step is the one of a finding that fired.
        if let Some(id) = found["headline"]["finding"].as_str() {
            let finding = finding(&found, id);
            let (next, remedy) = (found["headline"]["next"].as_str().unwrap(), finding["remedy"].as_str().unwrap());
            let (before, rest) = next.split_once(remedy).unwrap_or_else(|| panic!("{name}: {next} is not {remedy}"));
            // If two causes are large, the other one has a step, too.
            assert!(before.is_empty() || before.ends_with("; then "), "{name}: {next}");
            assert!(
                rest.is_empty() || rest.starts_with("; this concerns ") || rest.starts_with("; then "),
                "{name}: {next}"
            );
            assert_eq!(finding["state"], "fired", "{name}");
            findings += 1;
        }
        let screen = analyze(&trace, &[]);
        assert!(screen.starts_with(&capitals.trim().to_string()), "{name}: {screen}");
    }
    assert!(findings > 10, "{findings}");
}

/// Returns the confidence of a report and its reason, after a change of the report.
fn confidence(report: &Value, change: impl FnOnce(&mut Summary)) -> (Level, String) {
    let mut summary: Summary = serde_json::from_value(report.clone()).unwrap();
    change(&mut summary);
    summary.headline = conclude(&summary, &[]).1;
    judge_all(&mut summary, &Limits::default());
    summary.headline.confidence.zip(summary.headline.confidence_reason).unwrap()
}

#[test]
fn confidence_falls_with_each_gap_of_the_trace() {
    let found = report(&written("confidence", slow_storage(&Loader::starved())), &[]);
    let causes = |part: Part, ns: i64| {
        move |summary: &mut Summary| {
            let waited = summary.training[0].waited_ns.unwrap();
            summary.training[0].causes = Some(Parts::of(part, ns) + Parts::of(Part::Storage, waited - ns));
        }
    };
    let (level, reason) = confidence(&found, causes(Part::Unknown, 0));
    assert_eq!((level, reason.as_str()), (Level::High, "measured by spans; the cause of 100 % of the wait is known"));
    let untraced = |program: &str| UntracedProgram { program: program.into(), reason: "static".into(), times: 1 };
    let inferred = |summary: &mut Summary| summary.training[0].inferred = true;
    let of_long = |summary: &mut Summary| {
        inferred(summary);
        summary.training[0].trained_ns *= 4;
    };
    let without_cpu = |summary: &mut Summary| {
        summary.training[0].inferred = true;
        summary.training[0].own_no_cpu_ns = Some(summary.training[0].trained_ns / 5);
    };
    type Change<'a> = Box<dyn Fn(&mut Summary) + 'a>;
    let cases: Vec<(Change, Level, &str)> = vec![
        (Box::new(|_: &mut Summary| {}), Level::High, "measured by spans"),
        (Box::new(inferred), Level::Medium, "inferred from calls"),
        (Box::new(causes(Part::Unknown, 1_000_000_000)), Level::Medium, "20 % of the wait is unexplained"),
        (Box::new(causes(Part::Unknown, 3_000_000_000)), Level::Low, "60 % of the wait is unexplained"),
        (
            Box::new(|summary: &mut Summary| summary.training[0].gpu_untimed = true),
            Level::Low,
            "a GPU was used and not timed",
        ),
        (
            Box::new(|summary: &mut Summary| summary.allocation.uring = 2),
            Level::Medium,
            "requests of 2 processes through io_uring are not in the trace",
        ),
        (
            Box::new(|summary: &mut Summary| summary.allocation.lost = summary.allocation.events / 50),
            Level::Medium,
            "events are lost",
        ),
        (
            Box::new(|summary: &mut Summary| summary.allocation.waits_unexplained = true),
            Level::Medium,
            "not all waits were analyzed",
        ),
        (
            Box::new(move |summary: &mut Summary| summary.allocation.untraced = vec![untraced("/opt/server")]),
            Level::Medium,
            "/opt/server could not be traced",
        ),
        // The limit of inferred waits is reported next to the facts that lower the confidence further.
        (Box::new(of_long), Level::Medium, "; work on data in the training thread is not counted"),
        (Box::new(without_cpu), Level::Low, "for a CPU, perhaps while it received batches"),
        // ldconfig runs for milliseconds.
        (
            Box::new(move |summary: &mut Summary| summary.allocation.untraced = vec![untraced("/sbin/ldconfig")]),
            Level::High,
            "measured by spans",
        ),
    ];
    for (change, level, text) in cases {
        let found = confidence(&found, |summary| {
            causes(Part::Unknown, 0)(summary);
            change(summary);
        });
        assert!(found.0 == level && found.1.contains(text), "{text}: {found:?}");
    }
    // A trace that does not show whether anything waits has a low confidence.
    let (level, reason) = confidence(&found, |summary| summary.training.clear());
    assert!(level == Level::Low && !reason.is_empty(), "{level:?}: {reason}");
}

/// Returns the first line and the reason of a verdict after a change of the report.
fn concluded(report: &Value, change: impl FnOnce(&mut Summary)) -> (String, String) {
    let mut summary: Summary = serde_json::from_value(report.clone()).unwrap();
    change(&mut summary);
    let headline = conclude(&summary, &[]).1;
    (headline.text, headline.why)
}

#[test]
fn checkpoints_without_spans_took_at_least_the_time_of_their_calls() {
    let found = report(&written("checkpoints-at-least", slow_storage(&Loader::starved())), &[]);
    let text = |checkpoint_ns: Option<i64>| {
        let saves = |summary: &mut Summary| {
            let training = &mut summary.training[0];
            (training.waited_ns, training.written_ns) = (Some(0), Some(training.trained_ns / 2));
            (training.checkpoint_ns, summary.checkpoints.files) = (checkpoint_ns, 1);
        };
        concluded(&found, saves).0
    };
    assert!(text(None).starts_with("CHECKPOINT-BOUND: at least 50 % of training is spent writing"), "{}", text(None));
    assert!(text(Some(1)).starts_with("CHECKPOINT-BOUND: 50 % of training is spent writing"), "{}", text(Some(1)));
}

#[test]
fn a_main_thread_may_wait_for_page_faults_or_in_sleeps() {
    let found = report(&written("main-thread", slow_storage(&Loader::starved())), &[]);
    let with = |sleeps: u64, slept_ns: i64, fault_ns: i64| {
        let (from_ts, to_ts, faults) = (0, 1_000, 70);
        let mapped = (fault_ns > 0).then_some(Mapped { from_ts, to_ts, faults, fault_ns });
        concluded(&found, |summary| {
            summary.training.clear();
            summary.time.unoverlapped_io_ns = None;
            summary.processes.truncate(1);
            let process = &mut summary.processes[0];
            (process.program, process.called, process.parent) = ("python3".into(), "train.py".into(), None);
            (process.own_reads, process.first_thread) =
                (None, Some(FirstThread { sleeps, slept_ns, polled_ns: 0, mapped }));
        })
    };
    let (text, why) = with(0, 0, 300);
    assert!(text.starts_with("POSSIBLY STORAGE-BOUND: at least 30 % of the time after the first mapping"), "{text}");
    assert!(why.contains("70 page faults that storage served took at least 300 ns (30 %) of the 1 us"), "{why}");
    let (text, why) = with(0, 0, 100);
    assert!(text.starts_with("UNKNOWN") && why.contains("at least 100 ns (10 %)"), "{text} {why}");
    let run = found["time"]["total_ns"].as_i64().unwrap();
    let (text, why) = with(20, run / 2, 0);
    assert!(text.starts_with("UNKNOWN") && why.contains("main thread of train.py slept 20 times"), "{text} {why}");
    assert!(why.contains("(50 %)") && !with(19, run / 2, 0).1.contains("slept"), "{why}");
}

#[test]
fn every_verdict_says_how_sure_it_is() {
    for (name, processes, _) in scenarios() {
        let trace = written(&format!("sure-{name}"), processes);
        let found = report(&trace, &[]);
        let level = found["headline"]["confidence"].as_str().unwrap();
        let reason = found["headline"]["confidence_reason"].as_str().unwrap();
        assert!(["high", "medium", "low"].contains(&level) && !reason.is_empty(), "{name}: {}", found["headline"]);
        let screen = analyze(&trace, &[]);
        assert!(screen.contains(&format!("  sure: {level}: ")), "{name}: {screen}");
    }
}

#[test]
fn phases_of_a_run_add_up_to_it() {
    let (name, processes, _) = scenarios().swap_remove(0);
    let found = report(&written(&format!("{name}-phases"), processes), &[]);
    let mut summary: Summary = serde_json::from_value(found).unwrap();
    let run = summary.time.total_ns;
    let training = &mut summary.training[0];
    (training.start_ts, training.trained_ns) = (summary.time.start_ts + run / 4, run / 2);
    let screen = dlio_analyzer::summary::report::screen::print(&summary, Page { width: 80, rows: None });
    for (phase, share) in [("before training", " 25 %"), ("training", " 50 % 100 %"), ("after training", " 25 %")] {
        assert!(row(&screen, phase).ends_with(share), "{phase}: {screen}");
    }
}
