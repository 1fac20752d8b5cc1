//! Tests of GPUs in traces: waits of the host that their work hides, and their own time. Profiles have the form of PyTorch's
//! profiler, with a truth that is known by construction.

mod generator;
mod support;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use dlio_analyzer::compare::metrics::Named;
use dlio_analyzer::compare::run::Run;
use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::Trace;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::analyse;
use dlio_analyzer::summary::devices::DeviceUse;
use dlio_analyzer::summary::report::headline::Bottleneck;
use dlio_analyzer::summary::report::training::Training;
use dlio_analyzer::summary::report::{Section, Summary};
use generator::script::Script;
use generator::{OFFSET, START};
use parquet::arrow::ArrowWriter;
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
    // Kernels take 30 of 100 ms, and the last step ends with its wait.
    let by_step = used.steps.unwrap();
    assert_eq!((by_step.steps, ms(by_step.median_ns), ms(by_step.longest_ns)), (STEPS as u64, 70, 70));
    assert!(text(&summary).contains("Idle time of the GPU per step of"), "{}", text(&summary));
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
    assert!(why.contains("(rank 0) spent 3 s of 4.96 s") && why.contains("(58 %) for rank 0"), "{why}");
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
fn times_of_gpus_are_metrics_of_a_comparison() {
    let report = serde_json::to_string(&read("metrics", &[taking_turns(77)])).unwrap();
    let run = Run::of(&report).unwrap();
    let per_mille = |name: &str| (1000.0 * Named::parse(name).unwrap().of(&run).unwrap()).round();
    assert_eq!(["gpu.busy_share", "gpu.idle_share", "gpu.stall_share"].map(per_mille), [980.0, 20.0, 10.0]);
    let without = Run::of(r#"{"training": [{"trained_ns": 5, "waited_ns": 1, "device": null}]}"#).unwrap();
    assert_eq!(Named::parse("gpu.busy_share").unwrap().of(&without), None);
}

#[test]
fn one_gpu_has_no_rows_of_its_own() {
    let summary = read("one", &[profile(77, None, STEP)]);
    assert_eq!(device(&summary).each.len(), 1);
    assert!(!text(&summary).contains("GPU 0"), "{}", text(&summary));
}

/// A table of a report of Nsight Systems: numbers, some of which are unknown, and texts.
struct Table {
    columns: Vec<(&'static str, ArrayRef)>,
}

impl Table {
    fn new() -> Table {
        Table { columns: Vec::new() }
    }

    fn numbers(mut self, name: &'static str, values: impl IntoIterator<Item = Option<i64>>) -> Table {
        self.columns.push((name, Arc::new(Int64Array::from_iter(values))));
        self
    }

    fn of(self, name: &'static str, values: impl IntoIterator<Item = i64>) -> Table {
        self.numbers(name, values.into_iter().map(Some))
    }

    fn texts(mut self, name: &'static str, values: &[&str]) -> Table {
        self.columns.push((name, Arc::new(StringArray::from_iter_values(values))));
        self
    }

    fn write(self, folder: &Path, name: &str) {
        let rows = RecordBatch::try_from_iter(self.columns).unwrap();
        let file = std::fs::File::create(folder.join(format!("{name}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
    }
}

/// Writes a report of a process with two GPUs: GPU 0 works in each step as [`STEP`] says, and copies from memory that is not
/// pinned; GPU 1 works for 5 ms.
fn write_report(folder: &Path, pid: i64, zero_ns: i64) {
    let global = pid << 24 | 1 << 48;
    let steps = || (0..STEPS).map(|at| at * STEP_MS * 1_000_000);
    let times = |table: Table, after_ms: i64, ms: i64| {
        let start = || steps().map(move |from| from + after_ms * 1_000_000);
        table.of("start", start()).of("end", start().map(move |from| from + ms * 1_000_000))
    };
    let all = |value: i64| steps().map(move |_| value);
    let place = |table: Table, device: i64, stream: i64| {
        table.of("deviceId", all(device)).of("streamId", all(stream)).of("globalPid", all(global))
    };
    let kernels = |device: i64, after: i64, ms: i64| place(times(Table::new(), after, ms), device, 7);
    let (first, second) = (kernels(0, STEP.kernel.0, STEP.kernel.1), kernels(1, 70, 5));
    let mut both = Table::new();
    for (at, name) in ["start", "end", "deviceId", "streamId", "globalPid"].into_iter().enumerate() {
        let values = |table: &Table| {
            let column = table.columns[at].1.as_any().downcast_ref::<Int64Array>().unwrap();
            column.values().to_vec()
        };
        both = both.of(name, [values(&first), values(&second)].concat());
    }
    both.of("demangledName", std::iter::repeat_n(5, 2 * STEPS as usize)).write(folder, "CUPTI_ACTIVITY_KIND_KERNEL");
    place(times(Table::new(), STEP.kernel.0, 1), 0, 8)
        .of("bytes", all(4096))
        .of("copyKind", all(1))
        .of("srcKind", all(0))
        .of("dstKind", all(2))
        .write(folder, "CUPTI_ACTIVITY_KIND_MEMCPY");
    let waits = times(Table::new(), 0, STEP.wait).of("eventType", all(59)).of("globalTid", all(global | pid));
    waits.of("textId", all(6)).numbers("domainId", steps().map(|_| None)).write(folder, "NVTX_EVENTS");
    let strings = ["sgemm", "enumerate(DataLoader)#__next__"];
    Table::new().of("id", [5, 6]).texts("value", &strings).write(folder, "StringIds");
    let kinds = ["Pageable", "Pinned", "Device"];
    Table::new().of("id", [0, 1, 2]).texts("label", &kinds).write(folder, "ENUM_CUDA_MEM_KIND");
    Table::new().of("id", [1]).texts("label", &["Host-to-Device"]).write(folder, "ENUM_CUDA_MEMCPY_OPER");
    let named = Table::new().texts("name", &["Hostname", "OS"]).texts("value", &["node0", "Linux"]);
    named.write(folder, "TARGET_INFO_SYSTEM_ENV");
    Table::new().of("utcEpochNs", [zero_ns]).write(folder, "TARGET_INFO_SESSION_START_TIME");
}

/// Checks the GPUs of [`write_report`], whose training lasts until the end of the last wait.
fn check_report(summary: &Summary) {
    let used = device(summary);
    let each: Vec<_> = used.each.iter().map(|it| (it.device, ms(it.busy_ns), it.kernels)).collect();
    let (whole, steps) = (STEPS - 1, STEPS as u64);
    assert_eq!(each, [(Some(0), whole * STEP.kernel.1, steps), (Some(1), whole * 5, steps)]);
    assert_eq!((ms(used.busy_ns), ms(used.idle_data_ns), ms(used.pageable_ns)), (whole * 30, STEPS * 60, whole));
    assert_eq!(summary.training[0].waited_ns.map(ms), Some(STEPS * 60));
}

#[test]
fn report_of_nsight_systems_is_read() {
    let folder = temp_dir("gpu-nsight");
    write_report(folder.path(), 77, OFFSET);
    let summary = summary_of(folder.path());
    check_report(&summary);
    assert_eq!((summary.training[0].pid, summary.damage.len()), (77, 0), "{:?}", summary.damage);
}

/// Writes the trace of a process, and a report next to it; returns the summary of both.
fn beside_trace(name: &str, pid: i64, zero_ns: i64) -> Summary {
    let folder = temp_dir(name);
    let mut script = Script::new(77, 1);
    for at in 0..STEPS {
        script.at((at * STEP_MS * 1000) as u64).span("fetch", "data_loader", (STEP.wait * 1000) as u64);
        script.load("/data/a", 4096, 100);
    }
    script.write_to(folder.path());
    let report = folder.path().join("report_pqtdir");
    std::fs::create_dir(&report).unwrap();
    write_report(&report, pid, zero_ns);
    summary_of(folder.path())
}

#[test]
fn report_of_nsight_systems_times_the_gpus_of_a_traced_process() {
    let summary = beside_trace("gpu-nsight-joined", 77, OFFSET + START as i64);
    check_report(&summary);
    assert!(
        summary.training[0].readers.iter().any(|reader| reader.bytes_read > 0),
        "{:?}",
        summary.training[0].readers
    );
    assert!(summary.damage.is_empty(), "{:?}", summary.damage);
}

#[test]
fn report_of_another_run_is_refused_with_the_reason() {
    let day = 86_400_000_000_000;
    for (name, pid, zero_ns) in [("pid", 78, OFFSET + START as i64), ("day", 77, OFFSET + START as i64 - day)] {
        let summary = beside_trace(&format!("gpu-nsight-{name}"), pid, zero_ns);
        assert!(summary.training[0].device.is_none(), "{name}");
        let [note] = &summary.damage[..] else { panic!("{:?}", summary.damage) };
        assert!(note.path.ends_with("report_pqtdir") && note.what.contains("another run"), "{note:?}");
    }
}

#[test]
fn report_without_its_start_is_refused_with_the_reason() {
    let folder = temp_dir("gpu-nsight-part");
    write_report(folder.path(), 77, OFFSET);
    std::fs::remove_file(folder.path().join("TARGET_INFO_SESSION_START_TIME.parquet")).unwrap();
    let error = Trace::open(&[folder.path().display().to_string()], 2).err().unwrap().to_string();
    assert!(error.contains("TARGET_INFO_SESSION_START_TIME.parquet is missing"), "{error}");
}
