//! Tests that the SQL of every section gives the numbers of the report, whatever the trace is: native, Parquet, or
//! Darshan's text.

mod generator;
mod support;

use std::path::Path;
use std::sync::Arc;

use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::Trace;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::analyse;
use dlio_analyzer::summary::exact_quantiles::refine;
use dlio_analyzer::summary::report::SECTIONS;
use dlio_analyzer::tables::export::{self, ReportOptions};
use dlio_analyzer::tables::output::{Format, RowWriter};
use dlio_analyzer::tables::query::Session;
use dlio_schemas::ops::Op;
use futures::StreamExt;
use generator::script::Script;
use generator::{Plan, generate};
use serde_json::{Map, Value};
use support::temp_dir;
use tempfile::TempDir;

/// Numbers that describe the count itself, not the trace.
const OF_THE_COUNT: [&str; 7] = ["late", "late_ns", "duration_ns.exact", "size.exact", "error", "exposed_ns", "ranks"];

/// Returns `true` for numbers that no table has: of a process its name, its role, its parent and its loop, of an epoch the
/// reads during it, of a file where ranks overlap in it, of a trace which run lost data, which programs ptrace recorded and the number of
/// excess waits, of a data set the remote ends of connections, of a pattern which numbers all of its names have in common.
fn is_of_the_count(section: &str, figure: &str) -> bool {
    let section_has = |name: &str, figures: &[&str]| section == name && figures.contains(&figure);
    OF_THE_COUNT.contains(&figure)
        || section_has("processes", &["name", "role", "parent", "own_loop"])
        || section == "processes"
            && ["own_reads", "first_thread", "resources"].iter().any(|its| figure.starts_with(its))
        || section_has("epochs", &["bytes_read"])
        || section_has("allocation", &["lost_run_unknown", "waits_unexplained", "by_ptrace", "untraced"])
        || section_has("shared", &["common_writes", "common_ns"])
        || section_has("dataset", &["peers", "locked"])
        || section_has("patterns", &["names"])
}

fn opened(path: &Path) -> Arc<Trace> {
    Arc::new(Trace::open(&[path.display().to_string()], 2).unwrap())
}

fn summary(trace: &Trace) -> Value {
    filtered_summary(trace, &Filter::default())
}

fn filtered_summary(trace: &Trace, filter: &Filter) -> Value {
    let progress = Progress::default();
    let mut analysis = analyse(trace, filter, 2, &progress).unwrap();
    refine(trace, filter, 2, &progress, &mut analysis).unwrap();
    serde_json::to_value(analysis.summary(trace)).unwrap()
}

/// Returns the rows of a query, their columns by name.
fn query_rows(trace: &Arc<Trace>, sql: &str) -> Vec<Map<String, Value>> {
    query_filtered(trace, &Filter::default(), sql)
}

fn query_filtered(trace: &Arc<Trace>, filter: &Filter, sql: &str) -> Vec<Map<String, Value>> {
    let session = Session::new(trace.clone(), filter.clone(), 2, 1 << 30).unwrap();
    let mut out = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (schema, mut rows) = session.query(sql).run().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let mut writer = RowWriter::new(Format::Json, schema, &mut out).unwrap();
        while let Some(batch) = rows.next().await {
            writer.write(&batch.unwrap()).unwrap();
        }
        writer.finish().unwrap();
    });
    serde_json::from_slice(&out).unwrap()
}

/// Returns the fields of a row of the report, nested ones by both names.
fn flat(row: &Value) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, value) in row.as_object().expect("a row") {
        match value {
            Value::Object(inner) => {
                fields.extend(inner.iter().map(|(field, value)| (format!("{name}.{field}"), value.clone())));
            }
            value => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    fields
}

fn is_same(one: &Value, other: &Value, slack: f64) -> bool {
    match (one.as_f64(), other.as_f64()) {
        // Nanoseconds since 1970 are integers and too large for a float.
        (Some(_), Some(_)) if one.is_i64() && other.is_i64() => one == other,
        (Some(one), Some(other)) => (one - other).abs() <= slack + 1e-9 * one.abs().max(other.abs()),
        _ => one == other,
    }
}

/// Returns the permitted error of a quantile: DataFusion knows its position between two values to a millionth of
/// their distance. For values counted in buckets, one more may be off by a bucket, and two of them with a gap
/// between.
fn slack(row: &Map<String, Value>, figure: &str) -> f64 {
    let Some((spread, quantile)) = figure.split_once('.') else { return 0.0 };
    let end = |name: &str| row.get(&format!("{spread}.{name}")).and_then(Value::as_f64).unwrap_or(0.0);
    if ["min", "mean", "max"].contains(&quantile) {
        return 0.0;
    }
    let is_exact = row.get(&format!("{spread}.exact")).and_then(Value::as_bool) != Some(false);
    1e-6 * (end("max") - end("min")) + if is_exact { 0.0 } else { 0.008 * end(quantile) }
}

/// Restricts SQL to the window, which the division of time counts: SQL does so if it selects events.
fn within(section: &str, sql: &str, filter: &Filter) -> String {
    if section != "time" || !filter.cuts_runs() {
        return sql.into();
    }
    let (from, to) = (filter.from.unwrap_or(i64::MIN), filter.to.unwrap_or(i64::MAX));
    let cut = format!(
        "(select greatest(ts, {from}) as ts, least(ts + dur, {to}) - greatest(ts, {from}) as dur, name, cat, class, layer, \
         file from events)"
    );
    sql.replace("from events", &format!("from {cut}"))
}

/// Compares every number of every section that has SQL; returns how many there were.
fn compare(name: &str, trace: &Arc<Trace>) -> usize {
    compare_filtered(name, trace, &Filter::default())
}

/// Compares like [`compare`], for the events that pass a filter.
fn compare_filtered(name: &str, trace: &Arc<Trace>, filter: &Filter) -> usize {
    let summary = filtered_summary(trace, filter);
    let mut compared = 0;
    for (section, sql) in SECTIONS.iter().filter_map(|section| Some((section.name, section.query()?))) {
        let printed = match &summary[section] {
            Value::Array(rows) => rows.iter().map(flat).collect(),
            row => vec![flat(row)],
        };
        let found = query_filtered(trace, filter, &within(section, &sql, filter));
        assert_eq!(found.len(), printed.len(), "{name}, {section}: {found:?}");
        for (found, printed) in found.iter().zip(&printed) {
            let unknown: Vec<_> = found.keys().filter(|column| !printed.contains_key(*column)).collect();
            assert!(unknown.iter().all(|column| found[*column].is_null()), "{name}, {section}: no figures {unknown:?}");
            for (figure, value) in printed.iter().filter(|(figure, _)| !is_of_the_count(section, figure)) {
                let column = found.get(figure).unwrap_or(&Value::Null);
                assert!(
                    is_same(column, value, slack(printed, figure)),
                    "{name}, {section}, {figure}: SQL {column}, report {value}\n{found:?}"
                );
                compared += 1;
            }
        }
    }
    compared
}

fn native(name: &str, plan: &Plan) -> TempDir {
    let folder = temp_dir(name);
    generate(folder.path(), plan, &|_, _, _| ()).unwrap();
    folder
}

#[test]
fn sql_matches_for_object_store_requests() {
    let folder = temp_dir("sql-objects");
    for pid in [100, 101] {
        let mut process = Script::new(pid, 1);
        for at in 0..60i64 {
            let object = format!("s3://bucket/data/sample-{}.npy", at % 20);
            if at % 7 == 0 {
                process.call(Op::OBJECT_GET, &object, 300, (0, 0, -16));
            }
            process.get(&object, 100_000, 900).call(Op::OBJECT_GET, &object, 300, (4096 * (at + 1), 4096, 4096));
            process.call(Op::OBJECT_HEAD, &object, 200, (0, 0, -2)).read("/data/index", at * 4096, 4096, 50);
        }
        process.call(Op::OBJECT_PART, "s3://other/ckpt", 4000, (0, 8 << 20, 8 << 20));
        process.call(Op::OBJECT_COMPLETE, "s3://other/ckpt", 700, (0, 0, 0));
        process.write_to(folder.path());
    }
    let trace = opened(folder.path());
    assert!(compare("requests", &trace) > 200);
    let places = query_rows(&trace, "select distinct file, layer from events where name = 'object.part'");
    assert_eq!((&places[0]["file"], &places[0]["layer"]), (&"s3://other/ckpt".into(), &"object".into()));
    let summary = summary(&trace);
    let places: Vec<&str> =
        summary["storage"].as_array().unwrap().iter().map(|row| row["place"].as_str().unwrap()).collect();
    assert_eq!(places, ["s3://bucket", "s3://other", "/data"]);
    // Whole objects restart each time; a part of one continues from there.
    let others =
        summary["access"].as_array().unwrap().iter().find(|row| row["layer"] == "other" && row["class"] == "read");
    assert_eq!(others.unwrap()["calls"]["first"], 120);
}

/// Tests each part that could keep running without a reader: the count of a trace, a scan that finds nothing, a join.
#[test]
fn a_cancelled_query_ends_with_an_error() {
    let folder = native("sql-cancelled", &Plan { events: 1000, ..Plan::default() });
    let session = Session::new(opened(folder.path()), Filter::default(), 2, 1 << 30).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for sql in [
        "select count(*) from files",
        "select * from events where dur > 9000000000000000000",
        "select count(*) from generate_series(1, 9) a(x), generate_series(1, 9) b(y) where x + y < 0",
    ] {
        let query = session.query(sql);
        query.cancel();
        let ended = runtime.block_on(async {
            let (_, mut rows) = query.run().await?;
            while let Some(batch) = rows.next().await {
                batch?;
            }
            Ok::<_, datafusion::error::DataFusionError>(())
        });
        assert!(ended.expect_err(sql).to_string().contains("interrupted"), "{sql}");
    }
}

/// Returns a directory with the trace as Parquet.
fn parquet(name: &str, trace: &Trace) -> TempDir {
    let tables = temp_dir(name);
    let (filter, options, progress) = (Filter::default(), ReportOptions::default(), Progress::default());
    export::write(trace, &filter, (2, 1 << 30), &options, &progress, tables.path()).unwrap();
    tables
}

#[test]
fn sql_matches_for_native_and_parquet() {
    let folder = native("sql-native", &Plan { copies: true, killed: true, ..Plan::default() });
    let trace = opened(folder.path());
    assert!(compare("native", &trace) > 300);
    let tables = parquet("sql-parquet", &trace);
    assert!(compare("Parquet", &opened(tables.path())) > 300);
}

/// Every process that makes calls and one that only records a loss, on separate hosts and ranks.
#[test]
fn sql_matches_with_each_filter() {
    let folder = temp_dir("sql-filtered");
    generate(folder.path(), &Plan { events: 2000, copies: true, moments: true, ..Plan::default() }, &|_, _, _| ())
        .unwrap();
    let events: String = (0..40)
        .map(|at| {
            let (pid, cat) = (at % 4 + 10, ["POSIX", "POSIX", "STDIO", "app"][at % 4]);
            format!(
                r#"{{"ph":"X","name":"{}","cat":"{cat}","pid":{pid},"tid":{pid},"ts":{},"dur":{},"args":{{"fname":"/data/{}/x","ret":{at}}}}},"#,
                ["read", "write", "fread", "step"][at % 4], 1_700_000_000_000_000 + at, at * at, at % 3,
            )
        })
        .collect();
    let lost = r#"{"ph":"M","name":"process_loss","pid":99,"tid":99,"args":{"lost":"7"}}"#;
    std::fs::write(folder.path().join("other.json"), format!("[{events}{lost}]")).unwrap();
    let trace = opened(folder.path());
    let tables = parquet("sql-filtered-parquet", &trace);
    let bounds = &query_rows(&trace, "select min(ts) a, max(ts) b from events where cat <> 'app'")[0];
    let (first, last) = (bounds["a"].as_i64().unwrap(), bounds["b"].as_i64().unwrap());
    let all = Filter::default;
    let pids = query_rows(&trace, "select pid from processes order by proc limit 1");
    let glob = |pattern: &str| vec![glob::Pattern::new(pattern).unwrap()];
    let filters = [
        Filter { pids: vec![pids[0]["pid"].as_i64().unwrap() as i32, 99], ..all() },
        Filter { cats: vec!["posix".into()], ..all() },
        Filter { cats: vec!["stdio".into()], ..all() },
        Filter { files: glob("*/data/*1/*"), ..all() },
        Filter { min_dur_ns: 500_000, ..all() },
        Filter { from: Some(first + (last - first) / 3), ..all() },
        Filter { to: Some(first + (last - first) / 3), ..all() },
        Filter { ranks: vec![0], ..all() },
        Filter { cats: vec!["posix".into()], min_dur_ns: 20_000, from: Some(first), ..all() },
    ];
    for (of, trace) in [("trace", &trace), ("Parquet", &opened(tables.path()))] {
        let step = if of == "trace" { 1 } else { 3 };
        for filter in filters.iter().step_by(step) {
            let compared = compare_filtered(&format!("{of} {filter:?}"), trace, filter);
            assert!(compared > 60, "{of} {filter:?}: {compared}");
        }
        // Fewer processes take part than exist; otherwise the test shows nothing.
        let taking = filtered_summary(trace, &filters[2])["allocation"]["processes"].as_u64().unwrap();
        assert!(taking > 0 && taking < trace.catalog.processes().len() as u64, "{taking}");
    }
}

/// Stored events are read unchanged, except for numbers of files, which are reassigned.
#[test]
fn parquet_directory_equals_its_trace() {
    let folder = native("sql-stored", &Plan { copies: true, ..Plan::default() });
    let trace = opened(folder.path());
    let tables = temp_dir("sql-stored-parquet");
    export::write(
        &trace,
        &Filter::default(),
        (2, 1 << 30),
        &ReportOptions::default(),
        &Progress::default(),
        tables.path(),
    )
    .unwrap();
    let stored = opened(tables.path());
    let of_all =
        "ts, dur, name, cat, class, layer, host, pid, tid, rank, file, fd, pos, requested, bytes, ret, errno, depth";
    for sql in [
        &format!("select {of_all}, epoch, step, args from events order by {of_all} limit 700"),
        "select name, cat, host, count(*) n, sum(bytes) b, max(dur) d from events group by 1, 2, 3 order by n, 1, 2, 3",
        "select count(*) n from events",
        "select count(*) n from events where ts > (select min(ts) + 2000000 from events) and dur >= 10",
        "select count(*) n, min(ts) t from events where cat = 'posix' and name in ('read', 'pread') and file like '%1%'",
        "select path, count(*) n from events join files on events.file_id = files.file_id group by path order by path",
        "select distinct layer from events where rank is null order by 1",
    ] {
        assert_eq!(query_rows(&stored, sql), query_rows(&trace, sql), "{sql}");
    }
    assert_eq!(query_rows(&stored, "select ts from events limit 3").len(), 3);
}

#[test]
fn sql_matches_without_spans() {
    let folder = native("sql-plain", &Plan { events: 3000, spans: false, ..Plan::default() });
    assert!(compare("no spans", &opened(folder.path())) > 100);
}

/// MPI-IO calls count as calls: among functions, in I/O and in bytes, with or without POSIX calls below them.
#[test]
fn sql_matches_for_darshan_text() {
    let folder = temp_dir("sql-dxt");
    let path = folder.path().join("dxt.txt");
    let sample = include_str!("samples/dxt.txt");
    let both = "# DXT, file_id: 9, file_name: /data/shared\n# DXT, rank: 0, hostname: node7\n \
                X_MPIIO 0 write 0 0 5000 3.0 3.5\n X_POSIX 0 write 0 0 5000 3.1 3.4\n";
    std::fs::write(&path, format!("{sample}{both}")).unwrap();
    let trace = opened(&path);
    assert!(compare("DXT", &trace) > 100);
    let found = query_rows(&trace, "select distinct layer from events where name like 'MPI%' or cat = 'mpiio'");
    assert_eq!(found.iter().map(|row| &row["layer"]).collect::<Vec<_>>(), ["mpiio"]);
    let tables = temp_dir("sql-dxt-parquet");
    export::write(
        &trace,
        &Filter::default(),
        (2, 1 << 30),
        &ReportOptions::default(),
        &Progress::default(),
        tables.path(),
    )
    .unwrap();
    assert!(compare("Parquet of DXT", &opened(tables.path())) > 100);
}

#[test]
fn sql_matches_for_aggregated_lines() {
    let folder = temp_dir("sql-dftracer");
    let path = folder.path().join("trace.pfw");
    std::fs::write(&path, include_str!("samples/dftracer.pfw")).unwrap();
    assert!(compare("DFTracer", &opened(&path)) > 50);
}

#[test]
fn sql_matches_without_forward_spans() {
    let folder = temp_dir("sql-parts");
    let path = folder.path().join("trace.json");
    let event = |name: &str, cat: &str, ts: u32| {
        format!(r#"{{"ph":"X","name":"{name}","cat":"{cat}","pid":1,"tid":1,"ts":{ts},"dur":10}}"#)
    };
    let seen = [event("fetch", "data", 0), event("forward", "compute", 20), event("backward", "pipeline", 40)];
    std::fs::write(&path, format!("[{}]", seen.join(","))).unwrap();
    let trace = opened(&path);
    assert!(compare("parts", &trace) > 20);
    let printed = summary(&trace);
    assert_eq!((&printed["time"]["compute_ns"], &printed["training"][0]["computed_ns"]), (&Value::Null, &Value::Null));
    // Together with the excluded events, that is everything.
    std::fs::write(&path, format!("[{}]", seen[..2].join(","))).unwrap();
    let printed = summary(&opened(&path));
    assert_eq!(printed["time"]["compute_ns"], 10_000);
}
