//! Writing what a [`Plan`] holds, in one of the forms viewers read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use dlio_schemas::chrome;
use dlio_schemas::clock::Clock;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::key;
use dlio_schemas::native::names::Names;
use dlio_schemas::native::ring::OpenSpan;
use dlio_schemas::perfetto::bundle;
use dlio_schemas::perfetto::pack::Compression;
use dlio_schemas::perfetto::select::{Coarseness, Overview, OverviewNames};
use dlio_schemas::perfetto::write::{self, Summary};

use super::part::Part;
use super::{Form, Plan};
use crate::scan::Progress;

/// Writes all hosts; says how many events and bytes that were.
pub(super) fn write(
    plan: &Plan,
    hosts: &[Vec<&Part>],
    form: Form,
    file: &File,
    progress: &Progress,
) -> io::Result<(u64, u64)> {
    let mut out = BufWriter::new(file);
    let parts: Vec<&Part> = plan.parts.iter().collect();
    let written = match form {
        Form::Perfetto(compression) => {
            let options = options(&parts, hosts.len() > 1, compression);
            perfetto(plan, &parts, &options, &mut out, progress)?
        }
        Form::Bundle(compression) => {
            let events = bundle(plan, hosts, compression, &mut out, progress)?;
            Summary { events, bytes: out.stream_position()?, ..Summary::default() }
        }
        Form::Chrome { gzip } => chrome(plan, chrome::Form::Chrome, gzip, &mut out, progress)?,
        Form::Dftracer { gzip } => chrome(plan, chrome::Form::Dftracer, gzip, &mut out, progress)?,
    };
    out.flush()?;
    Ok((written.events, written.bytes))
}

fn perfetto(
    plan: &Plan,
    parts: &[&Part],
    options: &write::Options,
    out: &mut impl Write,
    progress: &Progress,
) -> io::Result<Summary> {
    let mut sink = |piece: &[u8]| out.write_all(piece);
    let writer = write::Writer::new(&mut sink, options)?;
    write_parts(plan, parts, Box::new(Perfetto(writer, None)), progress)
}

fn chrome(
    plan: &Plan,
    form: chrome::Form,
    gzip: bool,
    out: &mut impl Write,
    progress: &Progress,
) -> io::Result<Summary> {
    let parts: Vec<&Part> = plan.parts.iter().collect();
    let zero_unix_ns = parts.iter().map(|part| part.clock.real_offset_ns).min();
    let mut sink = |piece: &[u8]| out.write_all(piece);
    let writer = chrome::Writer::new(&mut sink, &chrome::Options { form, gzip, zero_unix_ns })?;
    write_parts(plan, &parts, Box::new(Chrome(writer, None)), progress)
}

/// A manifest and a file a host. A member's size stands before it and is known after it, so its head is written twice.
fn bundle(
    plan: &Plan,
    hosts: &[Vec<&Part>],
    compression: Compression,
    out: &mut BufWriter<&File>,
    progress: &Progress,
) -> io::Result<u64> {
    let paths: Vec<String> = (0..hosts.len()).map(|i| member_name(hosts, i)).collect();
    let mut listed = Vec::new();
    for (path, parts) in paths.iter().zip(hosts) {
        listed.push(bundle::Host { path, fields: &parts[0].fields, offset_ns: None });
    }
    let manifest = bundle::manifest(&listed);
    member(out, "manifest.json", |out| out.write_all(manifest.as_bytes()))?;
    let mut events = 0;
    for (path, parts) in paths.iter().zip(hosts) {
        let options = write::Options { machines: true, ..options(parts, false, compression) };
        member(out, path, |out| {
            events += perfetto(plan, parts, &options, out, progress)?.events;
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
fn member_name(hosts: &[Vec<&Part>], at: usize) -> String {
    let host = |parts: &Vec<&Part>| {
        let name = parts[0].fields.get(key::HOST).unwrap_or("host");
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        name.chars().take(64).map(plain).collect::<String>()
    };
    let own = host(&hosts[at]);
    match hosts[..at].iter().filter(|before| host(before) == own).count() {
        0 => format!("{own}.pftrace"),
        before => format!("{own}-{}.pftrace", before + 1),
    }
}

fn options(parts: &[&Part], several: bool, compression: Compression) -> write::Options {
    let offset = parts.iter().map(|part| part.clock.real_offset_ns).min().filter(|_| several);
    let shifted = |part: &Part, ns: u64| match offset {
        Some(offset) => ns.saturating_add_signed(part.clock.real_offset_ns - offset),
        None => ns,
    };
    let first = parts.iter().map(|part| shifted(part, part.first_ns)).min().unwrap_or(0);
    let last = parts.iter().map(|part| shifted(part, part.last_ns)).max().unwrap_or(0);
    write::Options { compression, unix_offset_ns: offset, total: Some((first, last)), ..Default::default() }
}

/// What both writers can do.
trait Picture {
    /// Announces a process; what it says of an overview is seen before its events.
    fn process(&mut self, part: &Part, clock: &Clock, overview: Option<&str>) -> io::Result<()>;
    fn batch(&mut self, tid: u32, events: &Events, clock: &Clock, names: &Names) -> io::Result<()>;
    /// Counts events that are merged before they are written, where there are counters.
    fn count(&mut self, _events: &Events, _clock: &Clock) {}
    fn open_spans(&mut self, part: &Part, open: &[OpenSpan]) -> io::Result<()>;
    fn finish(self: Box<Self>) -> io::Result<Summary>;
}

struct Perfetto<'a>(write::Writer<'a>, Option<write::ProcessId>);
struct Chrome<'a>(chrome::Writer<'a>, Option<chrome::ProcessId>);

fn write_parts(
    plan: &Plan,
    parts: &[&Part],
    mut picture: Box<dyn Picture + '_>,
    progress: &Progress,
) -> io::Result<Summary> {
    let overview = plan.overview();
    for part in parts {
        let clock = Clock::nanoseconds(part.clock.real_offset_ns);
        picture.process(part, &clock, overview.as_deref())?;
        match plan.coarseness {
            None => part.each_selected(plan.filter, progress, &mut |tid, events| {
                picture.batch(tid, events, &clock, &part.names)
            })?,
            Some(coarseness) => write_overview(&mut *picture, part, plan, coarseness, progress)?,
        }
        picture.open_spans(part, &part.open_selected(plan.filter))?;
    }
    picture.finish()
}

fn write_overview(
    picture: &mut dyn Picture,
    part: &Part,
    plan: &Plan,
    coarseness: Coarseness,
    progress: &Progress,
) -> io::Result<()> {
    let clock = Clock::nanoseconds(part.clock.real_offset_ns);
    let mut names = part.names.clone();
    let own = OverviewNames::add(&mut names);
    let mut threads: BTreeMap<u32, Overview> = BTreeMap::new();
    let mut merged = Events::default();
    part.each_selected(plan.filter, progress, &mut |tid, events| {
        merged.clear();
        picture.count(events, &clock);
        threads.entry(tid).or_insert_with(|| Overview::new(coarseness, own)).merge(events, &mut merged);
        picture.batch(tid, &merged, &clock, &names)
    })?;
    for (tid, mut overview) in threads {
        merged.clear();
        overview.finish(&mut merged);
        picture.batch(tid, &merged, &clock, &names)?;
    }
    Ok(())
}

macro_rules! picture {
    ($of:ident, |$self:ident, $part:ident, $clock:ident, $fields:ident| $process:block, $($count:tt)*) => {
        impl Picture for $of<'_> {
            fn process(&mut $self, $part: &Part, $clock: &Clock, overview: Option<&str>) -> io::Result<()> {
                let mut $fields = $part.fields.clone();
                overview.iter().for_each(|text| $fields.set(key::OVERVIEW, text));
                $process
            }

            fn batch(&mut self, tid: u32, events: &Events, clock: &Clock, names: &Names) -> io::Result<()> {
                let process = self.1.expect("a process is announced before its events");
                if events.is_empty() { Ok(()) } else { self.0.batch(process, tid, events, clock, names) }
            }

            $($count)*

            fn open_spans(&mut self, part: &Part, open: &[OpenSpan]) -> io::Result<()> {
                let process = self.1.expect("a process is announced before its spans");
                self.0.open_spans(process, open, part.last_tick, &part.clock, &part.names)
            }

            fn finish(self: Box<Self>) -> io::Result<Summary> {
                self.0.finish()
            }
        }
    };
}

picture!(
    Perfetto,
    |self, part, clock, fields| {
        let process = self.0.process(&fields, clock, part.first_ns, part.last_ns)?;
        self.1 = Some(process);
        fields.get(key::OVERVIEW).map_or(Ok(()), |overview| self.0.remark(process, overview))
    },
    fn count(&mut self, events: &Events, clock: &Clock) {
        if let Some(process) = self.1 {
            self.0.count(process, events, clock);
        }
    }
);
picture!(Chrome, |self, part, clock, fields| {
    self.1 = Some(self.0.process(&fields, clock)?);
    Ok(())
},);
