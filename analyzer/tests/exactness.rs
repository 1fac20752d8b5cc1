//! Tests every number of a trace whose events are known, and the same numbers by SQL and in every format.

mod generator;
mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::Trace;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::schema::tables::{Column, EVENTS, Type};
use dlio_analyzer::summary::analyse;
use dlio_analyzer::summary::exact_quantiles::refine;
use dlio_analyzer::summary::report::Summary;
use dlio_analyzer::summary::report::heat::Row;
use dlio_analyzer::tables::query::Session;
use dlio_schemas::ops::Op;
use dlio_schemas::record::Record;
use futures::StreamExt;
use generator::script::Script;
use generator::{OFFSET, Plan, generate};
use support::temp_dir;
use tempfile::TempDir;

const THREADS: usize = 3;
const MEMORY: u64 = 1 << 30;

/// The expected numbers: calls by name, and all times.
#[derive(Default)]
struct Truth {
    events: u64,
    calls: BTreeMap<&'static str, Call>,
    compute: Vec<(u64, u64)>,
    io: Vec<(u64, u64)>,
    all: Vec<(u64, u64)>,
}

#[derive(Default)]
struct Call {
    count: u64,
    failed: u64,
    time_ns: u64,
    durations: Vec<u64>,
    sizes: Vec<i64>,
}

impl Truth {
    fn see(&mut self, record: &Record) {
        let times = (record.start, record.start + record.duration());
        match record.op() {
            Op::META => return,
            // The generator's numbers of the names: 1 is `step` of compute, 3 `fetch` of the data loader.
            Op::SPAN if record.file == 1 => self.compute.push(times),
            Op::SPAN => {}
            op => {
                let info = op.info().unwrap();
                let call = self.calls.entry(info.name).or_default();
                call.count += 1;
                call.failed += (record.ret < 0) as u64;
                call.time_ns += record.duration();
                call.durations.push(record.duration());
                if info.moves_bytes() && record.ret >= 0 {
                    call.sizes.push(record.ret);
                }
                // 6 is the generator's pipe.
                if record.file != 6 {
                    self.io.push(times);
                }
            }
        }
        self.events += 1;
        self.all.push(times);
    }
}

/// Returns the length of a union, computed in the simplest way.
fn union(mut times: Vec<(u64, u64)>) -> i64 {
    times.sort_unstable();
    let (mut sum, mut reach) = (0, 0);
    for (start, end) in times {
        sum += end.saturating_sub(start.max(reach));
        reach = reach.max(end);
    }
    sum as i64
}

fn made(name: &str, plan: &Plan) -> (TempDir, Truth) {
    let folder = temp_dir(name);
    let truth = Mutex::new(Truth::default());
    generate(folder.path(), plan, &|_, _, record| truth.lock().unwrap().see(record)).unwrap();
    (folder, truth.into_inner().unwrap())
}

fn opened(folder: &TempDir) -> Arc<Trace> {
    Arc::new(Trace::open(&[folder.path().display().to_string()], THREADS).unwrap())
}

fn summary(trace: &Trace, filter: &Filter) -> Summary {
    analyse(trace, filter, THREADS, &Progress::default()).unwrap().summary(trace)
}

/// Returns all numbers of a query's only row.
fn numbers(trace: &Arc<Trace>, sql: &str) -> Vec<i64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        let session = Session::new(trace.clone(), Filter::default(), THREADS, MEMORY).unwrap();
        let (_, mut rows) = session.query(sql).run().await.unwrap();
        let mut found = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch.unwrap();
            let value = |i: usize| {
                let column = arrow::compute::cast(batch.column(i), &arrow::datatypes::DataType::Int64).unwrap();
                column.as_primitive::<Int64Type>().value(0)
            };
            if batch.num_rows() > 0 {
                found.extend((0..batch.num_columns()).map(value));
            }
        }
        found
    })
}

#[test]
fn window_reads_few_extra_blocks() {
    let (folder, truth) = made("windows", &Plan { processes: 3, events: 600_000, ..Plan::default() });
    let trace = opened(&folder);
    let first = truth.all.iter().map(|(start, _)| *start).min().unwrap();
    let last = truth.all.iter().map(|(_, end)| *end).max().unwrap();
    let length = (last - first) / 40;
    for from in (first..last).step_by(length as usize) {
        let to = from + length;
        let unix = |boot: u64| Some(boot as i64 + OFFSET);
        let filter = Filter { from: unix(from), to: unix(to), ..Filter::default() };
        let expected = truth.all.iter().filter(|(start, end)| *start < to && *end.max(&(start + 1)) > from).count();
        let found = analyse(&trace, &filter, THREADS, &Progress::default()).unwrap().events();
        assert_eq!(found, expected as u64, "{from} to {to}");
        let sieve = trace.sieve(&filter);
        let taken = trace.units.iter().filter(|unit| sieve.may_take(unit)).count();
        assert!(taken * 5 < trace.units.len(), "{taken} of {} blocks", trace.units.len());
    }
}

#[test]
fn every_figure_of_a_known_trace_is_exact() {
    let (folder, truth) = made("exact", &Plan::default());
    let trace = opened(&folder);
    let summary = summary(&trace, &Filter::default());
    assert_eq!(summary.allocation.events, truth.events);
    assert_eq!((summary.allocation.processes, summary.allocation.threads, summary.allocation.hosts), (2, 6, 2));
    assert_eq!((summary.allocation.lost, summary.allocation.filtered), (14, 6));
    assert_eq!(summary.functions.len() + summary.past_files.len(), truth.calls.len());
    for function in summary.functions.iter().chain(&summary.past_files) {
        let known = &truth.calls[function.name.as_str()];
        let name = &function.name;
        assert_eq!(
            (function.count, function.failed, function.time_ns),
            (known.count, known.failed, known.time_ns),
            "{name}"
        );
        let mut sizes = known.sizes.clone();
        sizes.sort_unstable();
        assert_eq!(function.size.is_some(), !sizes.is_empty(), "{name}");
        if let Some(size) = function.size {
            let at = |share: f64| {
                let place = share * (sizes.len() - 1) as f64;
                let (low, high) = (sizes[place.floor() as usize] as f64, sizes[place.ceil() as usize] as f64);
                low + (high - low) * place.fract()
            };
            assert_eq!(
                [size.min, size.p25, size.median, size.p75, size.max],
                [0.0, 0.25, 0.5, 0.75, 1.0].map(at),
                "{name}"
            );
            assert!(size.exact);
        }
    }
}

#[test]
fn unions_of_time_are_exact() {
    let (folder, truth) = made("unions", &Plan { events: 60_000, processes: 3, ..Plan::default() });
    let time = summary(&opened(&folder), &Filter::default()).time;
    let both = union([truth.compute.clone(), truth.io.clone()].concat());
    let (compute, io) = (union(truth.compute), union(truth.io));
    let start = truth.all.iter().map(|(start, _)| *start).min().unwrap();
    let end = truth.all.iter().map(|(_, end)| *end).max().unwrap();
    assert_eq!(time.total_ns, (end - start) as i64);
    assert_eq!((time.compute_ns, time.io_ns, time.late), (Some(compute), Some(io), 0));
    assert_eq!((time.unoverlapped_io_ns, time.unoverlapped_compute_ns), (Some(both - compute), Some(both - io)));
    assert_eq!(time.start_ts, start as i64 + generator::OFFSET);
}

/// Returns a quantile of a sorted list, interpolated between two values.
fn quantile(sorted: &[u64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize] as f64, sorted[place.ceil() as usize] as f64);
    low + (high - low) * place.fract()
}

#[test]
fn duration_quantiles_are_exact() {
    let (folder, truth) = made("precise", &Plan::default());
    let trace = opened(&folder);
    // With few events, their durations are kept.
    let mut analysis = analyse(&trace, &Filter::default(), THREADS, &Progress::default()).unwrap();
    let at_once = analysis.summary(&trace);
    // As if there had been many.
    analysis.durations = None;
    assert!(!analysis.summary(&trace).is_exact());
    refine(&trace, &Filter::default(), THREADS, &Progress::default(), &mut analysis).unwrap();
    let summary = analysis.summary(&trace);
    assert!(at_once.is_exact() && summary.is_exact());
    assert_eq!(format!("{:?}", at_once.functions), format!("{:?}", summary.functions));
    for function in summary.functions.iter().chain(&summary.past_files) {
        let mut sorted = truth.calls[function.name.as_str()].durations.clone();
        sorted.sort_unstable();
        let found = &function.duration_ns;
        let found = [(0.25, found.p25), (0.5, found.median), (0.75, found.p75), (0.95, found.p95), (0.99, found.p99)];
        for (share, found) in found {
            let truth = quantile(&sorted, share);
            assert!((found - truth).abs() < 1e-6, "{} {share}: {found} {truth}", function.name);
        }
        let sql = format!(
            "select cast(1000 * percentile_cont(0.75) within group (order by dur) as bigint) from events where name = '{}'",
            function.name
        );
        let by_sql = numbers(&trace, &sql)[0] as f64 / 1000.0;
        assert!((by_sql - function.duration_ns.p75).abs() < 0.01, "{}: {by_sql}", function.name);
    }
}

fn dataset(summary: &Summary) -> [i64; 8] {
    let what = &summary.dataset;
    [
        what.files,
        what.files_read,
        what.files_written,
        what.bytes_read,
        what.bytes_written,
        what.bytes_reached,
        what.elsewhere_read,
        what.elsewhere_written,
    ]
    .map(|number| number as i64)
}

#[test]
fn kernel_copy_counts_for_both_files() {
    let (folder, truth) = made("copies", &Plan { copies: true, ..Plan::default() });
    let trace = opened(&folder);
    let found = summary(&trace, &Filter::default());
    let bytes = |name: &str| truth.calls[name].sizes.iter().sum::<i64>() as u64;
    assert!(bytes("copy_file_range") > 0);
    assert_eq!(found.dataset.bytes_read, bytes("pread") + bytes("copy_file_range"));
    assert_eq!(found.dataset.bytes_written, bytes("pwrite") + bytes("copy_file_range"));

    let tables = temp_dir("copies-tables");
    let (all, progress) = (Filter::default(), Progress::default());
    dlio_analyzer::tables::export::write(
        &trace,
        &all,
        (THREADS, MEMORY),
        &dlio_analyzer::tables::export::ReportOptions::default(),
        &progress,
        tables.path(),
    )
    .unwrap();
    assert_eq!(dataset(&summary(&opened(&tables), &all)), dataset(&found));
}

#[test]
fn time_columns_add_up_to_the_totals() {
    for plan in [Plan::default(), Plan { copies: true, events: 60_000, processes: 3, ..Plan::default() }] {
        let (folder, truth) = made("columns-of-time", &plan);
        let trace = opened(&folder);
        let found = summary(&trace, &Filter::default());
        let (line, time, what) = (&found.timeline, &found.time, &found.dataset);
        let sum = |column: &[u64]| column.iter().sum::<u64>();
        assert_eq!((sum(&line.bytes_read), sum(&line.bytes_written)), (what.bytes_read, what.bytes_written));
        assert_eq!(sum(&line.calls), truth.io.len() as u64);
        assert_eq!(sum(&line.io_ns), truth.io.iter().map(|(start, end)| end - start).sum::<u64>());
        assert_eq!(
            (Some(sum(&line.busy_ns) as i64), line.compute_ns.as_deref().map(sum)),
            (time.io_ns, time.compute_ns.map(|ns| ns as u64))
        );
        assert!(line.calls.len() <= 1000 && line.busy_ns.iter().all(|ns| *ns <= line.column_ns as u64));
        assert!(line.start_ts <= time.start_ts && line.start_ts + line.column_ns > time.start_ts);
        let heat = &found.heat;
        assert!(heat.columns <= 200 && heat.rows.len() == plan.processes, "{} rows", heat.rows.len());
        let cells = |of: fn(&Row) -> &Vec<u64>| heat.rows.iter().map(|row| sum(of(row))).sum::<u64>();
        assert_eq!(cells(|row| &row.bytes), what.bytes_read + what.bytes_written);
        assert_eq!(cells(|row| &row.io_ns), sum(&line.io_ns));
        let alone = analyse(&trace, &Filter::default(), 1, &Progress::default()).unwrap().summary(&trace);
        assert_eq!(format!("{:?}{:?}", alone.timeline, alone.heat), format!("{line:?}{heat:?}"), "on one thread");
    }
}

#[test]
fn a_trace_written_as_parquet_gives_the_same_summary_again() {
    let (folder, _) = made("parquet", &Plan::default());
    let trace = opened(&folder);
    let tables = temp_dir("parquet-tables");
    let progress = Progress::default();
    dlio_analyzer::tables::export::write(
        &trace,
        &Filter::default(),
        (THREADS, MEMORY),
        &dlio_analyzer::tables::export::ReportOptions::default(),
        &progress,
        tables.path(),
    )
    .unwrap();
    let (before, after) = (summary(&trace, &Filter::default()), summary(&opened(&tables), &Filter::default()));
    let printed = |part: &dyn std::fmt::Debug| format!("{part:?}");
    assert_eq!(printed(&after.time), printed(&before.time));
    assert_eq!(printed(&after.functions), printed(&before.functions));
    assert_eq!(printed(&after.spans), printed(&before.spans));
    assert_eq!(printed(&after.files), printed(&before.files));
    assert_eq!(printed(&after.processes), printed(&before.processes));
}

/// Returns how often each column of the events has a value, and a sum that changes with any value or its position.
fn columns(trace: &Arc<Trace>) -> Vec<(&'static str, Vec<i64>)> {
    let sum = |column: &Column| {
        let name = column.name;
        let value = match column.of {
            Type::Name | Type::Text => format!("character_length({name})"),
            Type::Map => format!("character_length(array_to_string(map_values({name}), ','))"),
            _ => format!("cast({name} as bigint) % 1000003"),
        };
        let sql = format!("select count({name}), coalesce(sum({value} * (ts % 1009)), 0) from events");
        (name, numbers(trace, &sql))
    };
    // Each reader assigns its own file numbers.
    EVENTS.iter().filter(|column| column.name != "file_id").map(sum).collect()
}

#[test]
fn every_column_round_trips_through_parquet() {
    let (folder, _) = made("columns", &Plan::default());
    let trace = opened(&folder);
    // With little memory there are many row groups.
    for (name, memory) in [("columns-groups", 3 << 20), ("columns-group", MEMORY)] {
        let tables = temp_dir(name);
        let progress = Progress::default();
        dlio_analyzer::tables::export::write(
            &trace,
            &Filter::default(),
            (THREADS, memory),
            &dlio_analyzer::tables::export::ReportOptions::default(),
            &progress,
            tables.path(),
        )
        .unwrap();
        assert_eq!(columns(&opened(&tables)), columns(&trace), "{name}");
    }
}

/// Returns lines of DFTracer with values of every kind; the number of spaces from `spaces` makes each unlike the
/// next.
fn lines(spaces: fn(usize) -> usize) -> String {
    let rets = ["4096", "-1", "0", "9223372036854775807", "12345678901234567890", "1e3", "0.5", "\"7\"", "null"];
    let steps = ["3", "-3", "2147483647", "2147483648"];
    let line = |i: usize| {
        let (space, name) = (" ".repeat(spaces(i)), ["read", "open", "fetch"][i % 3]);
        let (ts, dur) = (1_795_260_877_000_000 + 1000 * i, ["7", "7.25", "-1", "0", "123456789"][i % 5]);
        let (host, file, ret, step) = (i / 500, i % 11, rets[i % rets.len()], steps[i % steps.len()]);
        format!(
            "{{{space}\"id\":{i},\"name\":\"{name}\",\"cat\":\"POSIX\",\"pid\":{},\"tid\":{},\"ts\":{ts},\"dur\":{dur},\"ph\":1,\
             \"args\":{{\"hhash\":\"host{host}\",\"ret\":{ret},\"offset\":{i},\"flags\":{},\"mode\":\"a\\\"{file}\",\
             \"fhash\":\"a hash of a file {file}\",\"step\":{step}}}}}\n",
            7 + i / 700,
            8 + i / 300,
            i % 4
        )
    };
    (0..2000).map(line).collect()
}

#[test]
fn similar_and_different_events_read_the_same() {
    let read = |name: &str, spaces: fn(usize) -> usize| {
        let folder = temp_dir(name);
        std::fs::write(folder.path().join("trace.pfw"), lines(spaces)).unwrap();
        let trace = opened(&folder);
        (columns(&trace), trace.notes.lock().unwrap().len())
    };
    let (alike, unlike) = (read("alike", |_| 0), read("unlike", |i| i % 23));
    assert_eq!(alike, unlike);
    // A byte count larger than any file is damage: each ninth result is such a number.
    assert_eq!(alike.0[0].1[0], 2000 - 222);
}

#[test]
fn filters_give_what_sql_gives() {
    let (folder, _) = made("filters", &Plan::default());
    let trace = opened(&folder);
    let start = summary(&trace, &Filter::default()).time.start_ts;
    let (from, to) = (start + 1_000_000, start + 3_000_000);
    let filter = Filter { from: Some(from), to: Some(to), pids: vec![1001], min_dur_ns: 400, ..Filter::default() };
    let filtered = summary(&trace, &filter);
    let sql = format!(
        "select count(*) from events where ts < {to} and ts + greatest(dur, 1) > {from} and pid = 1001 and dur >= 400"
    );
    assert_eq!(numbers(&trace, &sql), [filtered.allocation.events as i64]);
    assert!(filtered.allocation.events > 0);
}

#[test]
fn filter_keeps_processes_with_passing_events() {
    let plan = Plan { processes: 5, killed: true, ..Plan::default() };
    let (folder, _) = made("partakers", &plan);
    let trace = opened(&folder);
    let all = summary(&trace, &Filter::default());
    assert_eq!(
        (all.allocation.processes, all.allocation.pids, all.allocation.killed, all.allocation.hosts),
        (5, 5, 1, 2)
    );
    let one = summary(&trace, &Filter { pids: vec![1001], ..Filter::default() });
    let who = &one.allocation;
    assert_eq!((who.processes, who.pids, who.killed, who.hosts, who.lost, who.filtered), (1, 1, 0, 1, 7, 3));
    assert_eq!((one.processes.len(), one.ranks.len(), one.hosts.len(), one.processes[0].pid), (1, 1, 1, 1001));
    // Events that would have passed may have been lost in any process.
    let none = summary(&trace, &Filter { min_dur_ns: i64::MAX, ..Filter::default() });
    assert_eq!((none.allocation.processes, none.allocation.lost), (0, 28));
}

#[test]
fn file_counts_are_lower_bounds_after_overflow() {
    let folder = temp_dir("counted");
    let figures = |files| {
        generator::generate_counted(folder.path(), files).unwrap();
        summary(&opened(&folder), &Filter::default())
    };
    let few = figures(100);
    assert_eq!((few.dataset.files, few.dataset.files_written, few.dataset.at_least), (100, 100, false));
    assert_eq!((few.dataset.other_events, few.dataset.bytes_reached), (0, 100 * 1000));
    let many = figures(3000);
    let what = &many.dataset;
    assert!(what.at_least && what.files < 3000 && what.files_written <= what.files, "{what:?}");
    let rows: u64 = many.files.iter().map(|file| file.use_.events).sum();
    assert!(what.other_events > 0 && rows >= what.other_events && what.bytes_written == 3_000_000, "{what:?}");
    assert!(what.bytes_reached < 3_000_000 && many.directories.iter().any(|row| row.files == 0), "{what:?}");
    let text = dlio_analyzer::summary::report::text::print(&many, (10, 9999));
    let message = [
        format!("which used at least {} files, ", what.files),
        format!("(at least {} read, at least {} written)", what.files_read, what.files_written),
        "events are on files without a separate row".to_string(),
    ];
    assert!(message.iter().all(|message| text.replace(',', "").contains(&message.replace(',', ""))), "{text}");
    let text = dlio_analyzer::summary::report::text::print(&few, (10, 9999));
    assert!(text.contains("which used 100 files, ") && !text.contains("at least 100 files"), "{text}");
}

#[test]
fn counted_sizes_keep_their_extremes() {
    let folder = temp_dir("counted-sizes");
    generator::generate_counted(folder.path(), 4).unwrap();
    let summary = summary(&opened(&folder), &Filter::default());
    let size = summary.functions.iter().find(|function| function.name == "read").unwrap().size.unwrap();
    assert_eq!((size.min, size.mean, size.max), (100.0, 101.5, 103.0));
}

#[test]
fn truncated_trace_gives_its_events_and_warns() {
    let plan = Plan { processes: 1, threads: 1, events: 8000, ..Plan::default() };
    let (folder, truth) = made("cut", &plan);
    let file = generator::file_of(folder.path(), 0);
    let bytes = std::fs::read(&file).unwrap();
    for share in 1..20 {
        let cut = bytes.len() * share / 20;
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let trace = opened(&folder);
        let summary = summary(&trace, &Filter::default());
        assert!(summary.allocation.events < truth.events, "cut at {cut}");
        assert_eq!(summary.damage.len(), 1, "cut at {cut}");
    }
}

#[test]
fn process_without_ending_was_killed() {
    let (folder, _) = made("killed", &Plan { killed: true, ..Plan::default() });
    let summary = summary(&opened(&folder), &Filter::default());
    let ended: Vec<_> = summary.processes.iter().map(|process| process.ended.as_str()).collect();
    assert_eq!(ended, ["exit 0", "killed"]);
    assert_eq!(summary.allocation.killed, 1);
    // The number of events in its ring is unknown.
    assert_eq!((summary.damage.len(), summary.damage[0].events_max), (1, None));
}

#[test]
fn io_beside_compute_is_exact_for_each_rank() {
    let folder = temp_dir("beside");
    let us = |parts: [i64; 4]| parts.map(|part| part * 1000);
    let mut expected = Vec::new();
    for rank in 0..2i32 {
        let (trainer, reader) = (100 + rank, 200 + rank);
        let mut trains = Script::ranked(trainer, rank);
        // Reads before its training, which do not count, and at its end.
        trains.at(0).read("/data/setup", 0, 100, 50);
        trains.span_at(100, 100, "fetch", "data", (1, 0)).span_at(200, 300, "train", "compute", (1, 0));
        trains.at(480).read("/data/state", 0, 100, 40);
        trains.span_at(550, 50, "train", "compute", (1, 1));
        trains.write_to(folder.path());
        // Reads while its trainer waits, while it computes, and after it has ended: rank 1 for longer.
        let mut reads = Script::new(reader, trainer);
        reads.at(150).read("/data/a", 0, 100, 100 + 10 * rank as u64);
        reads.at(560).read("/data/b", 0, 100, 400);
        reads.write_to(folder.path());
        let both = 50 + 10 * rank as i64 + 20 + 40;
        let io = 100 + 10 * rank as i64 + 40 + 40;
        expected.push(us([both, 350 - both, io - both, 500 - 350 - (io - both)]));
    }
    let summary = summary(&opened(&folder), &Filter::default());
    let found: Vec<_> = summary.training.iter().map(|group| group.overlap.expect("computing is known")).collect();
    let parts = found.iter().map(|it| [it.both_ns, it.compute_only_ns, it.io_only_ns, it.neither_ns]);
    assert_eq!(parts.collect::<Vec<_>>(), expected);
}
