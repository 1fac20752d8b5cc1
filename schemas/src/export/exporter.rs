//! Exports a trace to a format that other programs read: the parts shared by all formats.
//!
//! A format is an [`Exporter`] in a separate file: [`crate::perfetto::write`], [`crate::export::chrome`],
//! [`crate::export::dftracer`]. It receives the announcement of each process, then batches of events of one thread,
//! in any order of threads, then spans that never ended. The work common to all formats is done here: ticks become
//! boot time, metadata joins its span, which follows it, and a span without an end becomes a call up to the last
//! tick.
//!
//! [`export`] writes one whole process image and runs inside the traced process when it ends: it keeps one block of
//! events in memory.

use std::io;

use crate::event::clock::Clock;
use crate::event::evidence::Counters;
use crate::event::ops::{Op, OpInfo};
use crate::event::record::MetaKind;
use crate::machine::tracks::Tracks;
use crate::native::block::Opener;
use crate::native::columns::Events;
use crate::native::fields::{Fields, key};
use crate::native::file::{Image, decode};
use crate::native::names::Names;
use crate::native::ring::OpenSpan;
use crate::text::secrets::masked_text;

/// A function that accepts bytes; an error ends the export.
pub type Sink<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// Maximum number of metadata pairs kept per span; further pairs are omitted and counted.
const META_MAX: usize = 256;

/// A writer of processes and their events in one format.
pub trait Exporter {
    /// Announces a process that recorded from `first_ns` to `last_ns` of boot time.
    fn process(&mut self, fields: &Fields, clock: &Clock, first_ns: u64, last_ns: u64) -> io::Result<ProcessId>;

    /// Writes events of one thread, in the order they ended. Batches of one thread come in order.
    fn batch(&mut self, process: ProcessId, tid: u32, events: &Events, clock: &Clock, names: &Names) -> io::Result<()>;

    /// Counts events that are merged before they are written, if the format has counters.
    fn count(&mut self, _process: ProcessId, _events: &Events, _clock: &Clock, _names: &Names) {}

    /// Writes spans that never ended, up to the last tick and marked `unfinished`. Called after all batches.
    fn open_spans(
        &mut self,
        process: ProcessId,
        spans: &[OpenSpan],
        last_tick: u64,
        clock: &Clock,
        names: &Names,
    ) -> io::Result<()>;

    /// Writes waits that were found in the events, if the format draws them. Called after all events of these
    /// processes.
    fn waits(&mut self, _waits: &[DrawnWait]) -> io::Result<()> {
        Ok(())
    }

    /// Writes counters of a host, if the format draws them. Called after the processes of that host.
    fn machine(&mut self, _tracks: &Tracks) -> io::Result<()> {
        Ok(())
    }

    /// Marks the output as complete.
    fn finish(self: Box<Self>) -> io::Result<Summary>;
}

/// The process of a batch in an [`Exporter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(pub(crate) usize);

/// A wait of a thread, drawn next to its events. Times are boot times of its process.
#[derive(Clone, Debug)]
pub struct DrawnWait {
    pub process: ProcessId,
    pub tid: u32,
    pub begin: u64,
    pub end: u64,
    pub name: String,
    pub texts: Vec<(&'static str, String)>,
    pub numbers: Vec<(String, i64)>,
    /// The acts that led to its end, from the first to the last.
    pub acts: Vec<DrawnAct>,
}

/// An act of a thread for another thread that waited.
#[derive(Clone, Copy, Debug)]
pub struct DrawnAct {
    pub process: ProcessId,
    pub tid: u32,
    pub at: u64,
    pub name: &'static str,
}

/// The summary of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Calls, spans, instants and counters; metadata belongs to its span.
    pub events: u64,
    pub bytes: u64,
    /// Blocks of the native trace that could not be read.
    pub damaged: u64,
    pub metadata_dropped: u64,
}

/// Writes one process image as a whole file. `bytes` is the `.dlt` with its blocks.
pub fn export(image: &Image, bytes: &[u8], mut exporter: Box<dyn Exporter + '_>) -> io::Result<Summary> {
    let damaged = export_image(image, bytes, &mut *exporter)?;
    Ok(Summary { damaged, ..exporter.finish()? })
}

/// Writes one of the process images of a file; returns how many of its blocks could not be read.
pub fn export_image(image: &Image, bytes: &[u8], exporter: &mut dyn Exporter) -> io::Result<u64> {
    let clock = clock_of(image)?;
    export_on(image, &clock, bytes, exporter).map(|(_, damaged)| damaged)
}

/// Returns the clock of an image; an image without one cannot be exported.
pub fn clock_of(image: &Image) -> io::Result<Clock> {
    let none = || io::Error::new(io::ErrorKind::InvalidData, "the trace contains no timestamp of a clock");
    image.clock().ok_or_else(none)
}

/// Writes an image like [`export_image`], on a clock with another relation to Unix time, such as the one that all
/// processes of a host share.
pub fn export_on(
    image: &Image,
    clock: &Clock,
    bytes: &[u8],
    exporter: &mut dyn Exporter,
) -> io::Result<(ProcessId, u64)> {
    let last_ns = clock.boot_ns(image.last_tick());
    let first_ns = image.anchors.iter().map(|anchor| anchor.boot_ns).min().unwrap_or(0);
    let process = exporter.process(&complete_fields(image), clock, first_ns, last_ns)?;
    let mut opener = Opener::default();
    let mut events = Events::default();
    let mut damaged = 0;
    for block in &image.blocks {
        match decode(block, bytes, &mut opener, &mut events) {
            Ok(()) => {
                forget_unnamed(&mut events, &image.names);
                exporter.batch(process, block.header.tid, &events, clock, &image.names)?;
            }
            Err(_) => damaged += 1,
        }
    }
    for leftover in &image.leftovers {
        let mut events = leftover.events.clone();
        forget_unnamed(&mut events, &image.names);
        exporter.batch(process, leftover.tid, &events, clock, &image.names)?;
    }
    exporter.open_spans(process, &image.open_spans, image.last_tick(), clock, &image.names)?;
    Ok((process, damaged))
}

/// Replaces a number whose name is lost by the number of no name, as readers of the native format do, so that every
/// format of a trace has the same files.
pub fn forget_unnamed(events: &mut Events, names: &Names) {
    let mut last = (0, true);
    for file in &mut events.file {
        if *file != last.0 {
            last = (*file, names.get(*file).is_some());
        }
        if !last.1 {
            *file = 0;
        }
    }
}

/// Returns the fields of an image with those that only its ring and its blocks together provide, and its command line
/// with secrets masked.
pub fn complete_fields(image: &Image) -> Fields {
    let mut fields = image.fields.clone();
    if let Some(command) = image.fields.get(key::COMMAND) {
        fields.set(key::COMMAND, masked_text(command));
    }
    match image.missing() {
        Some(missing) => fields.set(key::LOST, image.lost + missing),
        None => {
            fields.set(key::LOST, image.lost);
            fields.set(key::INCOMPLETE, "an unknown number of events is missing");
        }
    }
    fields.set(key::FILTERED, image.filtered);
    fields.set(key::MISUSED_SPANS, image.misused_spans);
    fields.set(key::NAMES_LOST, image.names_lost);
    fields
}

/// One event with its times in nanoseconds, shifted as the format requires.
pub(crate) struct Call<'e> {
    pub(crate) op: Op,
    pub(crate) info: Option<&'static OpInfo>,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) depth: u8,
    pub(crate) file: u32,
    pub(crate) fd: i32,
    pub(crate) a: Option<i64>,
    pub(crate) b: i64,
    pub(crate) ret: i64,
    pub(crate) unfinished: bool,
    pub(crate) metadata: &'e [Meta],
}

impl Call<'_> {
    /// Returns `true` for spans and similar events, which have their own name in `file` and their category in `fd`.
    #[inline(always)]
    pub(crate) fn names_itself(&self) -> bool {
        matches!(self.op, Op::SPAN | Op::INSTANT | Op::COUNTER)
    }
}

/// A value that belongs to the next span, or counters that belong to the next event.
#[derive(Clone, Copy)]
pub(crate) struct Meta {
    pub(crate) key: u32,
    pub(crate) kind: i32,
    pub(crate) value: i64,
    /// The other numbers of counters, which are three.
    more: [i64; 2],
}

impl Meta {
    /// Returns the counters, if the record contains counters and not a named value.
    pub(crate) fn counters(&self) -> Option<Counters> {
        let is_it = MetaKind::from_fd(self.kind) == Some(MetaKind::Counters);
        is_it.then(|| Counters::unpack(self.value, self.more[0], self.more[1]))
    }
}

/// A converter of batches to calls. Its memory is reused from batch to batch.
#[derive(Default)]
pub(crate) struct Calls {
    starts: Vec<i64>,
    ends: Vec<i64>,
    end_ticks: Vec<u64>,
    pub(crate) metadata_dropped: u64,
}

impl Calls {
    /// Passes each call of a batch to a function. `waiting` is the thread's metadata whose event has not been read
    /// yet.
    #[inline(always)]
    pub(crate) fn each(
        &mut self,
        events: &Events,
        clock: &Clock,
        shift_ns: i64,
        waiting: &mut Vec<Meta>,
        mut put: impl FnMut(&Call) -> io::Result<()>,
    ) -> io::Result<()> {
        clock.convert(&events.start, &mut self.starts);
        self.end_ticks.clear();
        self.end_ticks.extend(events.start.iter().zip(&events.duration).map(|(s, d)| s.saturating_add(*d)));
        clock.convert(&self.end_ticks, &mut self.ends);
        for i in 0..events.len() {
            let op = Op(events.op[i]);
            if op == Op::META {
                let more = [events.b[i], events.ret[i]];
                let meta = Meta { key: events.file[i], kind: events.fd[i], value: events.a[i], more };
                if waiting.len() < META_MAX {
                    waiting.push(meta)
                } else {
                    self.metadata_dropped += 1
                }
                continue;
            }
            put(&Call {
                op,
                info: op.info(),
                begin: self.starts[i].wrapping_add(shift_ns) as u64,
                end: self.ends[i].max(self.starts[i]).wrapping_add(shift_ns) as u64,
                depth: events.depth[i],
                file: events.file[i],
                fd: events.fd[i],
                a: events.known[i].then_some(events.a[i]),
                b: events.b[i],
                ret: events.ret[i],
                unfinished: false,
                metadata: waiting,
            })?;
            waiting.clear();
        }
        Ok(())
    }
}

/// Returns spans that never ended as calls with their threads: the innermost first, as if it had ended first.
pub(crate) fn unfinished(
    spans: &[OpenSpan],
    last_tick: u64,
    clock: &Clock,
    shift_ns: i64,
) -> impl Iterator<Item = (u32, Call<'static>)> {
    let at = move |tick| clock.boot_ns(tick).wrapping_add_signed(shift_ns);
    spans.iter().rev().map(move |span| {
        let begin = at(span.start);
        let call = Call {
            op: Op::SPAN,
            info: Op::SPAN.info(),
            begin,
            end: at(last_tick).max(begin),
            depth: span.depth,
            file: span.name,
            fd: span.category as i32,
            a: Some(span.steps),
            b: 0,
            ret: 0,
            unfinished: true,
            metadata: &[],
        };
        (span.tid, call)
    })
}

/// Returns an image of one thread: a call with a hostile path, a failed call, a span and a counter without a value.
#[cfg(test)]
pub(crate) fn example() -> Image {
    use crate::event::clock::Anchor;
    use crate::event::record::{Record, pack_steps, word};
    use crate::native::file::Leftover;
    use crate::native::names::NameKind;

    let mut image = Image::default();
    image.names.push(NameKind::Path, b"/a \"b\"\n\x01\\\xff");
    image.names.push(NameKind::Span, b"step");
    image.fields.set(key::PID, 42);
    image.fields.set(key::HOST, "node7");
    image.anchors = vec![Anchor { ticks: 1, boot_ns: 5_000_001, real_ns: 1_700_000_000_005_000_001 }];
    let mut events = Events::default();
    let record = |op, start, dur, depth| Record {
        word: word(op, depth, true, dur),
        start,
        file: 1,
        fd: 3,
        a: 10,
        b: 20,
        ret: 20,
    };
    events.push(&record(Op::PREAD, 1_000, 1_234, 0));
    events.push(&Record { ret: -2, ..record(Op::OPEN, 2_000, 1_000, 0) });
    events.push(&Record { file: 2, fd: 0, a: pack_steps(1, 5), ..record(Op::SPAN, 4_000, 10, 0) });
    events.push(&Record { file: 2, fd: 0, a: f64::NAN.to_bits() as i64, ..record(Op::COUNTER, 5_000, 0, 0) });
    image.leftovers.push(Leftover { tid: 43, events, ..Leftover::default() });
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_with_lost_name_is_no_file_in_all_formats() {
        let mut image = example();
        image.leftovers[0].events.file[0] = 77;
        let mut written = Vec::new();
        let mut sink = |bytes: &[u8]| {
            written.extend_from_slice(bytes);
            Ok(())
        };
        let options = crate::export::chrome::Options::default();
        export(&image, &[], Box::new(crate::export::chrome::Writer::new(&mut sink, &options))).unwrap();
        let text = String::from_utf8_lossy(&written);
        assert!(text.contains("pread") && !text.contains("<unknown>"), "{text}");
        let mut events = Events::default();
        events.file = vec![1, 77, 2, 77, 0];
        forget_unnamed(&mut events, &image.names);
        assert_eq!(events.file, [1, 0, 2, 0, 0]);
    }
}
