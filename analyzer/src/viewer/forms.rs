//! Writing what a [`Plan`] holds, in one of the forms viewers read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use dlio_schemas::clock::Clock;
use dlio_schemas::export::{Exporter, ProcessId, Summary};
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::key;
use dlio_schemas::native::names::Names;
use dlio_schemas::perfetto::bundle;
use dlio_schemas::perfetto::pack::Compression;
use dlio_schemas::perfetto::select::{Coarseness, Overview, OverviewNames};
use dlio_schemas::perfetto::write;
use dlio_schemas::{chrome, dftracer};

use super::{Form, Plan, selection};
use crate::load::recorded::Recorded;
use crate::scan::Progress;

/// Writes all hosts; says how many events and bytes that were.
pub(super) fn write(
    plan: &Plan,
    hosts: &[Vec<&Recorded>],
    form: Form,
    file: &File,
    progress: &Progress,
) -> io::Result<(u64, u64)> {
    let mut out = BufWriter::new(file);
    let processes: Vec<&Recorded> = plan.processes.iter().collect();
    let written = match form {
        Form::Perfetto(compression) => {
            let options = options(&processes, hosts.len() > 1, compression);
            perfetto(plan, &processes, &options, &mut out, progress)?
        }
        Form::Bundle(compression) => {
            let events = bundle(plan, hosts, compression, &mut out, progress)?;
            Summary { events, bytes: out.stream_position()?, ..Summary::default() }
        }
        Form::Chrome { gzip } => {
            let zero_unix_ns = processes.iter().map(|recorded| recorded.clock.real_offset_ns).min();
            let mut sink = |piece: &[u8]| out.write_all(piece);
            let writer = chrome::Writer::new(&mut sink, &chrome::Options { gzip, zero_unix_ns });
            write_processes(plan, &processes, Box::new(writer), progress)?
        }
        Form::Dftracer { gzip } => {
            let mut sink = |piece: &[u8]| out.write_all(piece);
            write_processes(plan, &processes, Box::new(dftracer::Writer::new(&mut sink, gzip)), progress)?
        }
    };
    out.flush()?;
    Ok((written.events, written.bytes))
}

fn perfetto(
    plan: &Plan,
    processes: &[&Recorded],
    options: &write::Options,
    out: &mut impl Write,
    progress: &Progress,
) -> io::Result<Summary> {
    let mut sink = |piece: &[u8]| out.write_all(piece);
    let writer = write::Writer::new(&mut sink, options)?;
    write_processes(plan, processes, Box::new(writer), progress)
}

/// A manifest and a file a host. A member's size stands before it and is known after it, so its head is written twice.
fn bundle(
    plan: &Plan,
    hosts: &[Vec<&Recorded>],
    compression: Compression,
    out: &mut BufWriter<&File>,
    progress: &Progress,
) -> io::Result<u64> {
    let paths: Vec<String> = (0..hosts.len()).map(|i| member_name(hosts, i)).collect();
    let mut listed = Vec::new();
    for (path, processes) in paths.iter().zip(hosts) {
        listed.push(bundle::Host { path, fields: &processes[0].fields, offset_ns: None });
    }
    let manifest = bundle::manifest(&listed);
    member(out, "manifest.json", |out| out.write_all(manifest.as_bytes()))?;
    let mut events = 0;
    for (path, processes) in paths.iter().zip(hosts) {
        let options = write::Options { machines: true, ..options(processes, false, compression) };
        member(out, path, |out| {
            events += perfetto(plan, processes, &options, out, progress)?.events;
            Ok(())
        })?;
    }
    out.write_all(&[0; bundle::END])?;
    Ok(events)
}

fn member(
    out: &mut BufWriter<&File>,
    name: &str,
    fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let head_at = out.stream_position()?;
    let head = bundle::member_head(name, 0);
    out.write_all(&head)?;
    fill(out)?;
    let end = out.stream_position()?;
    let size = end - head_at - head.len() as u64;
    out.seek(SeekFrom::Start(head_at))?;
    out.write_all(&bundle::member_head(name, size))?;
    out.seek(SeekFrom::Start(end))?;
    out.write_all(&vec![0; bundle::padding(size)])
}

/// Called like its host, in letters that every tar and viewer takes; the second boot of a host gets a number.
fn member_name(hosts: &[Vec<&Recorded>], at: usize) -> String {
    let host = |processes: &Vec<&Recorded>| {
        let name = processes[0].fields.get(key::HOST).unwrap_or("host");
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        name.chars().take(64).map(plain).collect::<String>()
    };
    let own = host(&hosts[at]);
    match hosts[..at].iter().filter(|before| host(before) == own).count() {
        0 => format!("{own}.pftrace"),
        before => format!("{own}-{}.pftrace", before + 1),
    }
}

fn options(processes: &[&Recorded], several: bool, compression: Compression) -> write::Options {
    let offset = processes.iter().map(|recorded| recorded.clock.real_offset_ns).min().filter(|_| several);
    let shifted = |recorded: &Recorded, ns: u64| match offset {
        Some(offset) => ns.saturating_add_signed(recorded.clock.real_offset_ns - offset),
        None => ns,
    };
    let first = processes.iter().map(|recorded| shifted(recorded, recorded.first_ns)).min().unwrap_or(0);
    let last = processes.iter().map(|recorded| shifted(recorded, recorded.last_ns)).max().unwrap_or(0);
    write::Options { compression, unix_offset_ns: offset, total: Some((first, last)), ..Default::default() }
}

fn write_processes(
    plan: &Plan,
    processes: &[&Recorded],
    mut exporter: Box<dyn Exporter + '_>,
    progress: &Progress,
) -> io::Result<Summary> {
    let overview = plan.overview();
    for recorded in processes {
        let clock = Clock::nanoseconds(recorded.clock.real_offset_ns);
        let mut fields = recorded.fields.clone();
        overview.iter().for_each(|text| fields.set(key::OVERVIEW, text));
        let process = exporter.process(&fields, &clock, recorded.first_ns, recorded.last_ns)?;
        match plan.coarseness {
            None => selection::events(plan.filter, recorded, progress, &mut |tid, events| {
                put(&mut *exporter, process, tid, events, &clock, &recorded.names)
            })?,
            Some(coarseness) => write_overview(&mut *exporter, process, recorded, plan, coarseness, progress)?,
        }
        let open = selection::open_spans(plan.filter, recorded);
        exporter.open_spans(process, &open, recorded.last_tick, &recorded.clock, &recorded.names)?;
    }
    exporter.finish()
}

fn write_overview(
    exporter: &mut dyn Exporter,
    process: ProcessId,
    recorded: &Recorded,
    plan: &Plan,
    coarseness: Coarseness,
    progress: &Progress,
) -> io::Result<()> {
    let clock = Clock::nanoseconds(recorded.clock.real_offset_ns);
    let mut names = recorded.names.clone();
    let own = OverviewNames::add(&mut names);
    let mut threads: BTreeMap<u32, Overview> = BTreeMap::new();
    let mut merged = Events::default();
    selection::events(plan.filter, recorded, progress, &mut |tid, events| {
        merged.clear();
        exporter.count(process, events, &clock, &names);
        threads.entry(tid).or_insert_with(|| Overview::new(coarseness, own)).merge(events, &mut merged);
        put(exporter, process, tid, &merged, &clock, &names)
    })?;
    for (tid, mut overview) in threads {
        merged.clear();
        overview.finish(&mut merged);
        put(exporter, process, tid, &merged, &clock, &names)?;
    }
    Ok(())
}

/// A batch of which nothing is left does not announce its thread.
fn put(
    exporter: &mut dyn Exporter,
    process: ProcessId,
    tid: u32,
    events: &Events,
    clock: &Clock,
    names: &Names,
) -> io::Result<()> {
    if events.is_empty() { Ok(()) } else { exporter.batch(process, tid, events, clock, names) }
}
