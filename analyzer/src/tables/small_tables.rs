//! The small tables: files, processes, hosts, waits, jobs, counters, summary. Their numbers come from one count over all events.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::array::{Float64Builder, Int32Builder, Int64Builder, StringBuilder};
use arrow::error::ArrowError;
use dlio_schemas::machine::counters::COUNTERS;
use dlio_schemas::machine::samples::{SampleTime, Samples, Series};
use dlio_schemas::native::fields::key;

use crate::batch::ABSENT;
use crate::catalog::{Catalog, FILE_NONE, Host, Process, is_stored};
use crate::load::Trace;
use crate::load::sources::job_log::CounterValue;
use crate::schema::arrow_schema::schema;
use crate::schema::tables;
use crate::summary::analysis::{Analysis, directory};
use crate::summary::count::counted::{FileCount, ProcessCount};
use crate::summary::report::flat::{Figure, figures};
use crate::summary::report::jobs::JobUse;
use crate::summary::report::{self, Summary};
use crate::summary::training::{Role, rank_groups};
use crate::summary::tree::{LaneId, parents};
use crate::summary::waits::parts::Part;
use crate::summary::waits::trainers::Wait;

fn int64(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

fn int32(values: impl Iterator<Item = Option<i32>>) -> ArrayRef {
    Arc::new(values.collect::<Int32Array>())
}

fn text<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

/// Returns every file that an event names.
pub fn files(catalog: &Catalog, analysis: &Analysis) -> Result<RecordBatch, ArrowError> {
    let paths = catalog.files();
    let mut processes = vec![0i64; paths.len()];
    analysis.counted.users.iter().for_each(|user| processes[(user >> 32) as usize] += 1);
    let counted = paths.iter().zip(&analysis.counted.files).zip(0i32..);
    let used: Vec<(&str, &FileCount, i32)> = counted
        .filter(|((_, count), file)| *file != FILE_NONE as i32 && count.is_used())
        .map(|((path, count), file)| (path.as_ref(), count, file))
        .collect();
    let number = |of: fn(&FileCount) -> u64| int64(used.iter().map(|(_, count, _)| Some(of(count) as i64)));
    let moment = |of: fn(&FileCount) -> i64| int64(used.iter().map(|(_, count, _)| Some(of(count))));
    let columns = vec![
        int32(used.iter().map(|(_, _, file)| Some(*file))),
        text(used.iter().map(|(path, ..)| Some(*path))),
        text(used.iter().map(|(path, ..)| if is_stored(path) { directory(path) } else { None })),
        number(|count| count.opens),
        moment(|count| count.first_ts),
        moment(|count| count.last_ts),
        number(|count| count.bytes_read),
        number(|count| count.bytes_written),
        int64(used.iter().map(|(_, count, _)| (count.size != ABSENT).then_some(count.size))),
        number(|count| count.events),
        number(|count| count.time_ns),
        int64(used.iter().map(|(_, _, file)| Some(processes[*file as usize]))),
    ];
    RecordBatch::try_new(schema(tables::FILES), columns)
}

/// Returns every process image that the filter selects, with or without events: lost events may have passed.
pub fn processes(catalog: &Catalog, analysis: &Analysis) -> Result<RecordBatch, ArrowError> {
    let hosts = catalog.hosts();
    let all = catalog.processes();
    let (names, parents, roles) = (analysis.measured.waits.names(&all), parents(&all), roles(catalog, analysis));
    let nothing = ProcessCount::default();
    let counted = |i: usize| analysis.counted.processes.get(i).unwrap_or(&nothing);
    let asked = |process: &Process| analysis.filter.takes(process);
    let asked: Vec<(usize, &Process)> = all.iter().enumerate().filter(|(_, process)| asked(process)).collect();
    let rows = || asked.iter().map(|(i, process)| (*process, counted(*i)));
    let processes = || asked.iter().map(|(_, process)| *process);
    let word = |of: fn(&Process) -> Option<&str>| text(processes().map(of));
    let whole = |of: fn(&Process, &ProcessCount) -> i64| int64(rows().map(|(p, c)| Some(of(p, c))));
    let columns = vec![
        int32(asked.iter().map(|(proc, _)| Some(*proc as i32))),
        text(processes().map(|process| hosts.get(process.host as usize).map(|host| host.name.as_str()))),
        int32(processes().map(|process| Some(process.pid))),
        int32(processes().map(|process| process.ppid)),
        int32(asked.iter().map(|(proc, _)| parents[*proc].map(|parent| parent as i32))),
        int32(processes().map(|process| process.rank)),
        word(|process| process.job.as_deref()),
        word(|process| process.program.as_deref()),
        text(asked.iter().map(|(proc, _)| Some(names[*proc].as_str()))),
        text(asked.iter().map(|(proc, _)| roles.get(&(*proc as u32)).map(|role| role.name()))),
        word(|process| process.command.as_deref()),
        word(|process| process.cwd.as_deref()),
        whole(|process, count| process.start_ts.unwrap_or(if count.events > 0 { count.first_ts } else { 0 })),
        whole(|process, count| process.end_ts.unwrap_or(if count.events > 0 { count.last_ts } else { 0 })),
        word(|process| Some(&process.ended)),
        whole(|_, count| count.threads.len() as i64),
        whole(|_, count| count.events as i64),
        whole(|_, count| count.bytes_read as i64),
        whole(|_, count| count.bytes_written as i64),
        whole(|process, count| (process.lost + count.lost) as i64),
        whole(|process, count| (process.aggregated + count.aggregated) as i64),
        whole(|process, _| process.filtered as i64),
        whole(|process, _| process.names_lost as i64),
        whole(|process, _| process.misused_spans as i64),
        int64(processes().map(|process| process.tracer_ns)),
        word(|process| Some(&process.source)),
    ];
    RecordBatch::try_new(schema(tables::PROCESSES), columns)
}

/// Returns the roles of trainers and readers.
fn roles(catalog: &Catalog, analysis: &Analysis) -> HashMap<u32, Role> {
    let groups = rank_groups(catalog, analysis);
    let readers = groups.iter().flat_map(|group| group.readers.iter().map(|reader| (reader.proc, Role::Reader)));
    // A trainer that reads itself is a trainer.
    readers.chain(groups.iter().map(|group| (group.proc, Role::Trainer))).collect()
}

/// Returns every host; after a filtered count, only hosts with matching events, and the processes of those events.
pub fn hosts(catalog: &Catalog, analysis: Option<&Analysis>) -> Result<RecordBatch, ArrowError> {
    let (hosts, processes) = (catalog.hosts(), catalog.processes());
    let mut taking = vec![0i64; hosts.len()];
    match analysis {
        Some(analysis) => {
            analysis.partakers(&processes).iter().for_each(|(process, _)| taking[process.host as usize] += 1);
        }
        None => processes.iter().for_each(|process| taking[process.host as usize] += 1),
    }
    let is_filtered = analysis.is_some_and(|analysis| !analysis.filter.is_empty());
    let rows = hosts.into_iter().zip(taking).filter(|(_, taking)| !is_filtered || *taking > 0);
    let (hosts, processes): (Vec<_>, Vec<_>) = rows.unzip();
    let columns = vec![
        text(hosts.iter().map(|host| Some(host.name.as_str()))),
        text(hosts.iter().map(|host| host.boot_id.as_deref())),
        int32(hosts.iter().map(|host| host.cores)),
        int64(hosts.iter().map(|host| host.memory)),
        text(hosts.iter().map(|host| host.kernel.as_deref())),
        int64(processes.into_iter().map(Some)),
        int64(hosts.iter().map(|host| Some(host.clock_offset_ns))),
        int64(hosts.iter().map(|host| Some(host.clock_spread_ns))),
    ];
    RecordBatch::try_new(schema(tables::HOSTS), columns)
}

/// Returns every wait of a trainer, ordered by trainer and time: the sections `training` and `waits` of the report sum
/// these up.
pub fn waits(catalog: &Catalog, analysis: &Analysis) -> Result<RecordBatch, ArrowError> {
    let processes = catalog.processes();
    let trainers = analysis.measured.waits.trainers.iter();
    let waits: Vec<(LaneId, &Wait)> =
        trainers.flat_map(|trainer| trainer.waits.iter().map(|wait| (trainer.lane, wait))).collect();
    let trainer = |of: fn(&Process) -> Option<i32>| {
        int32(waits.iter().map(|(lane, _)| processes.get(lane.proc as usize).and_then(of)))
    };
    let whole = |of: fn(&Wait) -> i64| int64(waits.iter().map(|(_, wait)| Some(of(wait))));
    let thread = |of: fn(&Wait) -> Option<LaneId>| {
        let lanes = || waits.iter().map(|(_, wait)| of(wait));
        [int32(lanes().map(|lane| Some(lane?.proc as i32))), int32(lanes().map(|lane| Some(lane?.tid)))]
    };
    let mut columns = vec![
        int32(waits.iter().map(|(lane, _)| Some(lane.proc as i32))),
        trainer(|process| Some(process.pid)),
        int32(waits.iter().map(|(lane, _)| Some(lane.tid))),
        trainer(|process| process.rank),
        whole(|wait| wait.start),
        whole(|wait| wait.end),
        whole(|wait| wait.end - wait.start),
        text(waits.iter().map(|(_, wait)| Some(wait.kind.name()))),
    ];
    columns.extend(thread(|wait| wait.maker));
    columns.extend(thread(|wait| wait.limiter));
    columns.push(int32(waits.iter().map(|(_, wait)| Some(wait.depth as i32))));
    let causes = Part::CAUSES.iter().map(|part| int64(waits.iter().map(|(_, wait)| Some(wait.parts.get(*part)))));
    columns.extend(causes);
    RecordBatch::try_new(schema(tables::WAITS), columns)
}

/// Returns every job that a log describes, with its I/O.
pub fn jobs(trace: &Trace, analysis: &Analysis) -> Result<RecordBatch, ArrowError> {
    let jobs = report::jobs::jobs(trace, analysis);
    let word = |of: fn(&JobUse) -> &str| text(jobs.iter().map(|job| Some(of(job))));
    let whole = |of: fn(&JobUse) -> i64| int64(jobs.iter().map(|job| Some(of(job))));
    let mounts = |job: &JobUse| job.mounts.iter().map(|(kind, place)| format!("{place} ({kind})")).collect::<Vec<_>>();
    let (mounts, modules): (Vec<_>, Vec<_>) =
        jobs.iter().map(|job| (mounts(job).join(", "), job.modules.join(", "))).unzip();
    let columns = vec![
        whole(|job| job.job_id),
        whole(|job| job.uid),
        word(|job| &job.program),
        word(|job| &job.command),
        whole(|job| job.processes),
        whole(|job| job.start_ts),
        whole(|job| job.end_ts),
        whole(|job| job.bytes_read as i64),
        whole(|job| job.bytes_written as i64),
        whole(|job| job.io_ns as i64),
        text(mounts.iter().map(|text| Some(text.as_str()))),
        text(modules.iter().map(|text| Some(text.as_str()))),
        word(|job| &job.version),
        text(jobs.iter().map(|job| job.library.as_deref())),
        word(|job| &job.file),
    ];
    RecordBatch::try_new(schema(tables::JOBS), columns)
}

/// Returns every number that a log has for its files.
pub fn counters(trace: &Trace) -> Result<RecordBatch, ArrowError> {
    let paths = trace.catalog.files();
    let (mut source, mut module, mut path, mut name) =
        (StringBuilder::new(), StringBuilder::new(), StringBuilder::new(), StringBuilder::new());
    let (mut rank, mut value, mut number) = (Int32Builder::new(), Int64Builder::new(), Float64Builder::new());
    for of in &trace.sources {
        let log = of.path().display().to_string();
        of.counters(&mut |counter| {
            source.append_value(&log);
            module.append_value(counter.module);
            rank.append_option(counter.rank.map(|rank| rank as i32));
            path.append_value(paths.get(counter.file as usize).map_or("", |path| path));
            name.append_value(counter.name);
            let (exact, float) = match counter.value {
                CounterValue::Int(exact) => (Some(exact), exact as f64),
                CounterValue::Float(float) => (None, float),
            };
            value.append_option(exact);
            number.append_value(float);
        });
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(source.finish()),
        Arc::new(module.finish()),
        Arc::new(rank.finish()),
        Arc::new(path.finish()),
        Arc::new(name.finish()),
        Arc::new(value.finish()),
        Arc::new(number.finish()),
    ];
    RecordBatch::try_new(schema(tables::COUNTERS), columns)
}

/// Returns the numbers of the report, one per row.
pub fn summary(summary: &Summary) -> Result<RecordBatch, ArrowError> {
    let figures = figures(&summary.values());
    let column = |of: fn(&Figure) -> &str| text(figures.iter().map(|figure| Some(of(figure))));
    let number = |figure: &Figure| figure.value.parse::<f64>().ok().filter(|number| number.is_finite());
    let columns = vec![
        column(|figure| &figure.section),
        column(|figure| &figure.row),
        column(|figure| &figure.figure),
        column(|figure| &figure.value),
        Arc::new(figures.iter().map(number).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(schema(tables::SUMMARY), columns)
}

/// Returns every value of a host's counters, in order of time.
pub fn machine(trace: &Trace) -> Result<RecordBatch, ArrowError> {
    let hosts = trace.catalog.hosts();
    let mut rows: Vec<(i64, &Samples, &Series, u64)> = Vec::new();
    for samples in &trace.machines {
        let (name, boot) = (samples.fact(key::HOST), samples.fact(key::BOOT_ID));
        let is_it = |host: &&Host| Some(host.name.as_str()) == name && host.boot_id.as_deref() == boot;
        let offset = hosts.iter().find(is_it).map(|host| host.clock_offset_ns);
        // On the clock of the events, where there are any of that host.
        let unix = |moment: &SampleTime| {
            offset.map_or(moment.unix_ns as i64, |offset| (moment.boot_ns as i64).wrapping_add(offset))
        };
        let values = samples.series.iter().flat_map(|series| series.values.iter().map(move |value| (series, value)));
        rows.extend(values.map(|(series, (moment, value))| (unix(&samples.moments[*moment]), samples, series, *value)));
    }
    rows.sort_by_key(|(ts, ..)| *ts);
    let counter = |series: &Series| &COUNTERS[series.counter];
    let columns = vec![
        int64(rows.iter().map(|(ts, ..)| Some(*ts))),
        text(rows.iter().map(|(_, samples, ..)| Some(samples.fact(key::HOST).unwrap_or("unknown")))),
        text(rows.iter().map(|(_, _, series, _)| Some(series.scope.as_str()).filter(|scope| !scope.is_empty()))),
        text(rows.iter().map(|(_, _, series, _)| Some(counter(series).name))),
        int64(rows.iter().map(|(.., value)| i64::try_from(*value).ok().or(Some(i64::MAX)))),
        text(rows.iter().map(|(_, _, series, _)| Some(counter(series).unit.name()))),
        int32(rows.iter().map(|(_, _, series, _)| Some(i32::from(counter(series).accumulates)))),
    ];
    RecordBatch::try_new(schema(tables::MACHINE), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_a_machine_is_described() {
        let described = include_str!("../../SUMMARY.md");
        for counter in COUNTERS {
            let kind = if counter.accumulates { "grows" } else { "level" };
            let row = format!("| `{}` | {} | {kind} |", counter.name, counter.unit.name());
            let line = described.lines().find(|line| line.starts_with(&row));
            assert!(line.is_some_and(|line| line.contains(counter.meaning)), "SUMMARY.md lacks {row}");
        }
    }

    #[test]
    fn the_table_of_waits_has_a_column_for_every_cause() {
        let causes = Part::CAUSES.map(|part| format!("{}_ns", part.name().replace('-', "_")));
        let columns = &tables::WAITS[tables::WAITS.len() - causes.len()..];
        assert_eq!(columns.iter().map(|column| column.name).collect::<Vec<_>>(), causes);
    }
}
