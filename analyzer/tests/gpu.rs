//! Tests of GPUs in traces: waits of the host that their work hides, and their own time. Profiles have the form of PyTorch's
//! profiler, with a truth that is known by construction.

mod support;

use std::path::Path;

use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::Trace;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::analyse;
use dlio_analyzer::summary::devices::DeviceUse;
use dlio_analyzer::summary::report::headline::Bottleneck;
use dlio_analyzer::summary::report::training::Training;
use dlio_analyzer::summary::report::{Section, Summary};
use support::temp_dir;

/// The number of steps, and milliseconds in a step.
const STEPS: i64 = 50;
const STEP_MS: i64 = 100;

/// One training step: times in milliseconds.
#[derive(Clone, Copy)]
struct Step {
    /// The host waits for its batch from the start of the step for this time.
    wait: i64,
    /// A kernel, relative to the start of the step: start and duration.
    kernel: (i64, i64),
    /// A kernel of communication, likewise.
    collective: Option<(i64, i64)>,
    copy: &'static str,
}

const PINNED: &str = "Memcpy HtoD (Pinned -> Device)";
const PAGEABLE: &str = "Memcpy HtoD (Pageable -> Device)";
const STEP: Step = Step { wait: 60, kernel: (62, 30), collective: None, copy: PINNED };

fn event((pid, tid): (i64, i64), cat: &str, name: &str, ms: (i64, i64)) -> String {
    let (ts, dur) = (1000 + ms.0 * 1000, ms.1 * 1000);
    format!(r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur}}}"#)
}

/// Returns a profile of a process.
fn profile(pid: i64, rank: Option<i64>, step: Step) -> String {
    const WAIT: &str = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
    let mut events =
        vec![format!(r#"{{"ph":"M","name":"process_name","pid":{pid},"tid":0,"args":{{"name":"train.py"}}}}"#)];
    for at in 0..STEPS {
        let from = at * STEP_MS;
        let host = (pid, pid);
        events.push(event(host, "user_annotation", WAIT, (from, step.wait)));
        events.push(event(host, "cpu_op", "aten::mm", (from + step.wait, 1)));
        events.push(event((0, 7), "gpu_user_annotation", "ProfilerStep#1", (from, STEP_MS)));
        events.push(event((0, 7), "kernel", "sgemm", (from + step.kernel.0, step.kernel.1)));
        events.push(event((0, 8), "gpu_memcpy", step.copy, (from + step.kernel.0, 1)));
        let collective = step.collective;
        events.extend(
            collective.map(|(start, dur)| event((0, 9), "kernel", "ncclDevKernel_AllReduce", (from + start, dur))),
        );
    }
    let rank = rank.map_or(String::new(), |rank| format!(r#""distributedInfo":{{"rank":{rank},"world_size":2}},"#));
    format!(
        r#"{{"schemaVersion":1,"host_name":"node1",{rank}"baseTimeNanoseconds":1700000000000000000,"traceEvents":[{}]}}"#,
        events.join(",")
    )
}

fn read(name: &str, profiles: &[String]) -> Summary {
    let folder = temp_dir(&format!("gpu-{name}"));
    for (number, text) in profiles.iter().enumerate() {
        std::fs::write(folder.path().join(format!("{number}.json")), text).unwrap();
    }
    summary_of(folder.path())
}

fn summary_of(folder: &Path) -> Summary {
    let trace = Trace::open(&[folder.display().to_string()], 2).unwrap();
    analyse(&trace, &Filter::default(), 2, &Progress::default()).unwrap().summary(&trace)
}

fn device(summary: &Summary) -> DeviceUse {
    let [trainer] = &summary.training[..] else { panic!("{:?}", summary.training) };
    trainer.device.clone().unwrap()
}

fn text(summary: &Summary) -> String {
    let mut out = String::new();
    Training::print(summary, 10, &mut out);
    out
}

fn ms(ns: i64) -> i64 {
    ns / 1_000_000
}

#[test]
fn waits_that_the_gpu_hides_cost_nothing() {
    // The host waits 60 % of the time, and the kernels of the step before run until 1 ms before the wait ends.
    let summary = read("hidden", &[profile(77, None, Step { kernel: (61, 98), ..STEP })]);
    let used = device(&summary);
    let first_wait = 60;
    assert_eq!(summary.training[0].waited_ns.map(ms), Some(first_wait + (STEPS - 1)));
    assert_eq!((ms(used.hidden_ns), ms(used.wait_ns)), ((STEPS - 1) * 59, STEPS * 60));
    assert_eq!(summary.headline.bottleneck, Bottleneck::GpuBound, "{}", summary.headline.text);
    assert!(summary.headline.why.contains("cost nothing"), "{}", summary.headline.why);
}

#[test]
fn waits_of_a_starved_gpu_count_in_full() {
    let summary = read("starved", &[profile(77, None, STEP)]);
    let used = device(&summary);
    assert_eq!((ms(used.hidden_ns), ms(used.busy_ns), ms(used.idle_data_ns)), (0, (STEPS - 1) * 30, STEPS * 60));
    assert_eq!(summary.training[0].waited_ns.map(ms), Some(STEPS * 60));
    let text = &summary.headline.text;
    assert!(text.contains("60 % of training") && text.contains("GPU's clock") && !text.contains("up to"), "{text}");
    // A range that the program named covers the whole step, although the device was idle.
    assert_eq!(summary.training[0].computed_ns.map(ms), Some((STEPS - 1) * 30));
}

#[test]
fn a_gpu_without_work_that_waits_for_no_data_is_said_to_be_idle() {
    let summary = read("launch", &[profile(77, None, Step { wait: 1, kernel: (10, 40), ..STEP })]);
    assert_eq!(summary.headline.bottleneck, Bottleneck::GpuIdle, "{}", summary.headline.text);
    let used = device(&summary);
    assert_eq!(ms(used.idle_rest_ns + used.idle_data_ns + used.busy_ns), ms(summary.training[0].trained_ns));
}

#[test]
fn copies_of_memory_that_is_not_pinned_are_measured() {
    let pageable = |copy| ms(device(&read("copies", &[profile(77, None, Step { copy, ..STEP })])).pageable_ns);
    // The training ends before the copy of its last step.
    assert_eq!((pageable(PINNED), pageable(PAGEABLE)), (0, STEPS - 1));
}

#[test]
fn the_rank_that_waits_for_its_data_is_the_cause_and_the_other_one_its_victim() {
    let slow = Step { kernel: (61, 34), collective: Some((95, 5)), ..STEP };
    let victim = Step { wait: 2, kernel: (3, 34), collective: Some((37, 63)), ..STEP };
    let summary = read("ranks", &[profile(77, Some(0), slow), profile(78, Some(1), victim)]);
    let why = &summary.headline.why;
    assert!(
        why.contains("(rank 0) spent 3 s of 4.96 s")
            && why.contains("rank 1 waited at least 58 % of its time for rank 0"),
        "{why}"
    );
}

/// Returns a profile of a process whose GPU 0 works for the first part of each step, and GPU 1 for the rest.
fn taking_turns(pid: i64) -> String {
    let mut events = Vec::new();
    for from in (0..STEPS).map(|at| at * STEP_MS) {
        events.push(event((pid, pid), "user_annotation", "enumerate(DataLoader)#__next__", (from, 1)));
        events.push(event((pid, pid), "cpu_op", "aten::mm", (from + 1, 1)));
        events.push(event((0, 7), "kernel", "sgemm", (from + 1, 59)));
        events.push(event((1, 7), "kernel", "sgemm", (from + 60, 39)));
        events.push(event((1, 20), "kernel", "relu", (from + 70, 10)));
        // A range that the program named: no work.
        events.push(event((2, 7), "gpu_user_annotation", "ProfilerStep#1", (from, STEP_MS)));
    }
    format!(
        r#"{{"schemaVersion":1,"host_name":"node1","baseTimeNanoseconds":1700000000000000000,"traceEvents":[{}]}}"#,
        events.join(",")
    )
}

#[test]
fn gpus_that_take_turns_are_not_one_busy_gpu() {
    let summary = read("turns", &[taking_turns(77)]);
    let used = device(&summary);
    let each: Vec<_> = used.each.iter().map(|it| (it.device, ms(it.busy_ns), it.kernels)).collect();
    // The training ends after the first 2 ms of the last step.
    let (whole, steps) = (STEPS - 1, STEPS as u64);
    assert_eq!(each, [(Some(0), whole * 59 + 1, steps), (Some(1), whole * 39, 2 * steps)]);
    assert_eq!(ms(used.busy_ns), whole * 98 + 1);
    assert!(used.each.iter().all(|it| it.busy_ns + it.idle_ns == summary.training[0].trained_ns));
    let headline = &summary.headline;
    assert_eq!(headline.bottleneck, Bottleneck::GpusTakeTurns, "{}", headline.text);
    assert!(headline.text.contains("each GPU was idle for 51 %"), "{}", headline.text);
    let says = "GPU 0 was busy for 2.89 s (59 %), GPU 1 for 1.91 s (39 %), and at least one of them for 4.80 s (98 %)";
    assert!(headline.why.contains(says), "{}", headline.why);
    let text = text(&summary);
    let row = |start: &str| {
        text.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or_else(|| panic!("{text}"))
    };
    assert!(row("GPU 0").contains("2.89 s (59 %)") && row("GPU 1").contains("1.91 s (39 %)"), "{text}");
}

#[test]
fn one_gpu_has_no_rows_of_its_own() {
    let summary = read("one", &[profile(77, None, STEP)]);
    assert_eq!(device(&summary).each.len(), 1);
    assert!(!text(&summary).contains("GPU 0"), "{}", text(&summary));
}
