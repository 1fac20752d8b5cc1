use super::*;
use crate::event::clock::Anchor;
use crate::event::evidence::Counters;
use crate::event::ops::{Arg, OPS};
use crate::event::record::{MetaKind, Record, STEP_NONE, pack_steps, word};
use crate::export::exporter::export;
use crate::native::columns::EVENTS_MAX;
use crate::native::fields::key;
use crate::native::file::{Image, Leftover};
use crate::perfetto::pack::Compression;
use crate::perfetto::proto::Message;
use crate::perfetto::write::writer::{Options, Writer};

const BOOT_NS: u64 = 7_000_000;

/// An event with its numbers resolved, so that traces of different numbering compare.
#[derive(Debug, PartialEq, Clone, PartialOrd)]
struct Row {
    tid: u32,
    name: String,
    start: u64,
    dur: u64,
    depth: u8,
    file: String,
    fd: String,
    numbers: Vec<Option<i64>>,
}

fn rows(tid: u32, events: &Events, names: &Names, clock: &Clock) -> Vec<Row> {
    let text = |id: i64| names.text(id as u32).map_or("?".to_string(), |text| text.into_owned());
    (0..events.len())
        .map(|i| {
            let op = Op(events.op[i]);
            let info = op.info().unwrap();
            let own_name = matches!(op, Op::SPAN | Op::INSTANT | Op::COUNTER);
            let is_text = op == Op::META && events.fd[i] == MetaKind::Text as i32 || info.a.is_name();
            let a = events.known[i].then_some(events.a[i]).filter(|_| info.a != Arg::None || op == Op::META);
            // Counters have a time of their own, and use every number.
            let counts = op == Op::META && events.fd[i] == MetaKind::Counters as i32;
            Row {
                tid,
                name: info.name.to_string(),
                start: if op == Op::META && !counts { 0 } else { clock.boot_ns(events.start[i]) },
                dur: clock.duration_ns(events.start[i], events.duration[i]),
                depth: if op == Op::META { 0 } else { events.depth[i] },
                file: if events.file[i] == 0 { String::new() } else { text(events.file[i] as i64) },
                fd: if own_name && events.fd[i] > 0 { text(events.fd[i] as i64) } else { events.fd[i].to_string() },
                numbers: vec![
                    a.filter(|_| !is_text),
                    a.filter(|_| is_text).map(|id| text(id).bytes().map(i64::from).sum()),
                    // Texts and files are separate kinds of names.
                    a.filter(|_| is_text).and_then(|id| names.get(id as u32)).map(|(kind, _)| kind as i64),
                    (info.b != Arg::None || counts).then_some(events.b[i]),
                    (op != Op::META || counts).then_some(events.ret[i]),
                ],
            }
        })
        .collect()
}

fn event(op: Op, start: u64, duration: u64, depth: u8) -> Record {
    Record { word: word(op, depth, true, duration), start, fd: 3, file: 1, ..Record::default() }
}

fn counters(large: bool) -> Counters {
    let some = Counters { cpu_us: 50_000, run_delay_us: Some(0), voluntary: 1, ..Counters::default() };
    let more =
        Counters { cpu_us: 0, major_faults: 3, minor_faults: 9, run_delay_us: Some(8), involuntary: 4000, ..some };
    if large { more } else { Counters { run_delay_us: None, ..some } }
}

/// Returns an image with every operation once, successful and failed; nested spans with metadata; crossing calls; a
/// counter and an instant.
fn image() -> Image {
    let mut image = Image::default();
    let texts: [(NameKind, &[u8]); 8] = [
        (NameKind::Path, b"/data/\"quoted\"\n\xff\xfe"),
        (NameKind::Object, b"<pipe>"),
        (NameKind::Span, b"read"),
        (NameKind::Category, b"posix"),
        (NameKind::Text, b"loss"),
        (NameKind::Span, b""),
        (NameKind::Category, b"train"),
        (NameKind::Path, b"/data/other"),
    ];
    texts.iter().for_each(|(kind, text)| _ = image.names.push(*kind, text));
    let mut calls = Events::default();
    let mut now = 1000;
    for info in OPS.iter().filter(|info| !matches!(info.op, Op::SPAN | Op::INSTANT | Op::COUNTER | Op::META)) {
        for (known, ret) in [(true, 4096), (false, -5), (true, 0), (false, i64::MAX)] {
            let a = if info.a.is_name() { 8 } else { now as i64 - 2000 };
            // Instants have no duration.
            let duration = if info.op == Op::LOST { 0 } else { 70 };
            let b = if info.b == Arg::None { 0 } else { -1 - now as i64 };
            let record = Record { a, b, ret, ..event(info.op, now, duration, 0) };
            // Counters come before any event, read at its end.
            if known {
                calls.push(&counters(ret > 0).record(now + duration));
            }
            calls.push(&Record { word: word(info.op, 0, known, duration), ..record });
            now += 100;
        }
    }
    image.leftovers.push(Leftover { tid: 11, events: calls, ..Leftover::default() });
    let mut spans = Events::default();
    let span = |op, start, dur, depth, name: u32, category: i32| Record {
        file: name,
        fd: category,
        a: pack_steps(4, 2),
        ..event(op, start, dur, depth)
    };
    let meta = |kind: MetaKind, value| Record { file: 5, fd: kind as i32, a: value, ..event(Op::META, 0, 0, 0) };
    spans.push(&event(Op::READ, 2100, 50, 2));
    [(MetaKind::Int, -7), (MetaKind::Float, 0.25f64.to_bits() as i64), (MetaKind::Text, 5)]
        .iter()
        .for_each(|(kind, value)| spans.push(&meta(*kind, *value)));
    spans.push(&counters(true).record(2250));
    spans.push(&span(Op::SPAN, 2050, 200, 1, 3, 4));
    spans.push(&span(Op::SPAN, 2000, 400, 0, 6, 0));
    spans.push(&span(Op::INSTANT, 2500, 0, 0, 3, 7));
    spans.push(&Record { a: 1.5f64.to_bits() as i64, ..span(Op::COUNTER, 2600, 0, 0, 5, 7) });
    (0..300).for_each(|i| spans.push(&event(Op::AIO_READ_DONE, 3000 + i, 5000, 0)));
    image.leftovers.push(Leftover { tid: 12, events: spans, ..Leftover::default() });
    image.open_spans = vec![
        OpenSpan { tid: 12, depth: 0, start: 9000, name: 3, category: 7, steps: pack_steps(1, STEP_NONE) },
        OpenSpan { tid: 12, depth: 1, start: 9100, name: 6, category: 7, steps: pack_steps(STEP_NONE, 3) },
    ];
    image.anchors = vec![
        Anchor { ticks: 1, boot_ns: BOOT_NS, real_ns: 1_700_000_000_000_000_000 },
        Anchor { ticks: 900_000_001, boot_ns: BOOT_NS + 300_000_000, real_ns: 1_700_000_000_300_000_000 },
    ];
    for (key, value) in [(key::HOST, "node7"), (key::PID, "11"), (key::COMMAND, "a\0b"), (key::THREADS, "11=x")] {
        image.fields.set(key, value);
    }
    image
}

/// Counts records that belong to the event after them.
fn metadata(image: &Image) -> u64 {
    let ops = image.leftovers.iter().flat_map(|left| &left.events.op);
    ops.filter(|op| **op == Op::META.0).count() as u64
}

fn exported(image: &Image, compression: Compression) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sink = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    };
    let writer = Writer::new(&mut sink, &Options { compression, ..Options::default() }).unwrap();
    export(image, &[], Box::new(writer)).unwrap();
    out
}

/// Returns all rows of a trace, in the order of each thread, and the reader.
fn read_all(bytes: &[u8]) -> (Vec<(u32, Events)>, Reader) {
    let mut batches = Vec::new();
    let mut reader = Reader::default();
    let mut take = |batch: Batch| {
        let mut events = Events::default();
        (0..batch.events.len()).for_each(|i| events.push(&record_at(batch.events, i)));
        batches.push((batch.tid, events));
    };
    reader.read(bytes, &mut take);
    reader.finish(&mut take);
    (batches, reader)
}

fn record_at(events: &Events, i: usize) -> Record {
    Record {
        word: word(Op(events.op[i]), events.depth[i], events.known[i], events.duration[i]),
        start: events.start[i],
        file: events.file[i],
        fd: events.fd[i],
        a: events.a[i],
        b: events.b[i],
        ret: events.ret[i],
    }
}

fn all_rows(batches: &[(u32, Events)], reader: &Reader) -> Vec<Row> {
    let mut found: Vec<_> =
        batches.iter().flat_map(|(tid, events)| rows(*tid, events, &reader.names, &reader.clock(0))).collect();
    found.sort_by_key(|row| row.tid);
    found
}

fn native_rows(image: &Image) -> Vec<Row> {
    let clock = image.clock().unwrap();
    image.leftovers.iter().flat_map(|left| rows(left.tid, &left.events, &image.names, &clock)).collect()
}

#[test]
fn all_events_round_trip_with_every_compression() {
    let image = image();
    let expected = native_rows(&image);
    for compression in [Compression::None, Compression::Deflate, Compression::Zstd] {
        let bytes = exported(&image, compression);
        let (batches, reader) = read_all(&bytes);
        for (found, expected) in all_rows(&batches, &reader).iter().zip(&expected) {
            assert_eq!(found, expected);
        }
        assert_eq!(all_rows(&batches, &reader).len(), expected.len());
        assert_eq!((reader.damaged, reader.skipped), (0, 0));
    }
}

/// Tests calls of more shapes than there are templates, with numbers of every width, and of a width beyond that of a
/// template.
#[test]
fn calls_of_any_shape_and_width_round_trip() {
    let mut image = image();
    image.leftovers.clear();
    image.open_spans.clear();
    let mut random = 88172645463325252u64;
    let mut below = |end: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % end
    };
    let ops = [Op::PREAD, Op::OPEN, Op::CLOSE, Op::LSEEK, Op::FSTAT, Op::WRITE, Op::FORK, Op::FCNTL];
    for tid in [42, 77, 43] {
        let (mut events, mut start) = (Events::default(), 1_000_000);
        for i in 0..20_000 {
            let number = |random: u64, width: u64| (random & ((1 << width) - 1)) as i64;
            let (duration, width) = (number(below(u64::MAX), 8 + below(24)), 1 + below(50));
            start += 1 + below(1 << 12) + if i % 997 == 0 { 1 << 30 } else { 0 };
            let failed = below(10) == 0;
            events.push(&Record {
                word: word(ops[below(8) as usize], below(3) as u8, below(4) > 0, duration as u64),
                start,
                file: below(4) as u32,
                fd: below(200) as i32 - 1,
                a: number(below(u64::MAX), width),
                b: number(below(u64::MAX), width.min(40)),
                ret: if failed { -2 } else { number(below(u64::MAX), width.min(33)) },
            });
            start += duration as u64;
        }
        image.leftovers.push(Leftover { tid, events, ..Leftover::default() });
    }
    let mut expected = native_rows(&image);
    expected.sort_by_key(|row| row.tid);
    for compression in [Compression::None, Compression::Deflate] {
        let (batches, reader) = read_all(&exported(&image, compression));
        assert_eq!(reader.skipped, 0);
        assert!(all_rows(&batches, &reader) == expected);
    }
}

#[test]
fn process_round_trips_with_every_field() {
    let image = image();
    let (_, reader) = read_all(&exported(&image, Compression::Deflate));
    let process = &reader.processes[0];
    assert_eq!(process.fields, crate::export::exporter::complete_fields(&image));
    assert_eq!(reader.processes.len(), 1);
    let calls = image.events() - metadata(&image) + 2;
    assert_eq!((process.ours, process.complete), (true, Some(calls)));
    assert_eq!(process.real_offset_ns, Some(image.clock().unwrap().real_offset_ns));
}

#[test]
fn open_spans_round_trip() {
    let image = image();
    let (_, reader) = read_all(&exported(&image, Compression::Deflate));
    let clock = image.clock().unwrap();
    let mut found: Vec<_> = reader.processes[0].open_spans.clone();
    found.sort_by_key(|span| span.depth);
    for (found, expected) in found.iter().zip(&image.open_spans) {
        assert_eq!(
            (found.start, found.depth, found.steps),
            (clock.boot_ns(expected.start), expected.depth, expected.steps)
        );
        assert_eq!(reader.names.text(found.name), image.names.text(expected.name));
    }
    assert_eq!(found.len(), 2);
}

#[test]
fn chunks_of_any_length_give_the_same_events() {
    let bytes = exported(&image(), Compression::None);
    let whole = all_rows(&read_all(&bytes).0, &read_all(&bytes).1);
    for length in [1, 7, 1000] {
        let mut reader = Reader::default();
        let mut count = 0;
        let (mut from, mut to) = (0, 0);
        while to < bytes.len() {
            to = (to + length).min(bytes.len());
            from += reader.read(&bytes[from..to], &mut |batch| count += batch.events.len());
        }
        reader.finish(&mut |batch| count += batch.events.len());
        assert_eq!((from, count), (bytes.len(), whole.len()));
    }
}

#[test]
fn truncated_file_gives_the_events_before_the_cut() {
    let bytes = exported(&image(), Compression::None);
    let whole = all_rows(&read_all(&bytes).0, &read_all(&bytes).1).len();
    let mut last = 0;
    for cut in (0..bytes.len()).step_by(41) {
        let (batches, reader) = read_all(&bytes[..cut]);
        let count: usize = batches.iter().map(|(_, events)| events.len()).sum();
        assert!(count >= last && count <= whole);
        assert!(reader.processes.first().is_none_or(|process| process.complete.is_none()));
        last = count;
    }
}

#[test]
fn changed_bytes_do_not_panic() {
    for compression in [Compression::None, Compression::Deflate, Compression::Zstd] {
        let bytes = exported(&image(), compression);
        let mut random = 88172645463325252u64;
        for _ in 0..3000 {
            let mut broken = bytes.clone();
            for _ in 0..3 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = random as usize % broken.len();
                broken[at] ^= (random >> 40) as u8;
            }
            read_all(&broken);
        }
    }
}

#[test]
fn chapters_read_separately_give_all_events() {
    let mut image = image();
    let mut events = Events::default();
    (0..600_000).for_each(|i| {
        events.push(&Record { a: 77 * i as i64, b: 4096, ret: 4096, ..event(Op::PREAD, 10_000 + i * 100, 50, 0) })
    });
    image.open_spans.clear();
    image.leftovers.extend((0..3).map(|_| Leftover { tid: 20, ..Leftover::default() }));
    image.leftovers[3].events = events;
    // As blocks would: batches are small.
    let mut small = Vec::new();
    for left in image.leftovers.drain(..) {
        for from in (0..left.events.len()).step_by(EVENTS_MAX) {
            let mut events = Events::default();
            (from..left.events.len().min(from + EVENTS_MAX)).for_each(|i| events.push(&record_at(&left.events, i)));
            small.push(Leftover { tid: left.tid, events, ..Leftover::default() });
        }
    }
    image.leftovers = small;
    let bytes = exported(&image, Compression::Deflate);
    let ranges = chapters(&bytes);
    assert!(ranges.len() > 1 && ranges.first().unwrap().start == 0 && ranges.last().unwrap().end == bytes.len());
    let mut first = Reader::default();
    first.scan(&bytes);
    assert_eq!(first.processes[0].complete, Some(image.events() - metadata(&image)));
    let mut count = 0;
    for range in ranges.into_iter().rev() {
        let mut reader = first.fork();
        reader.read(&bytes[range], &mut |batch| count += batch.events.len() as u64);
        reader.finish(&mut |batch| count += batch.events.len() as u64);
        assert_eq!((reader.damaged, reader.skipped), (0, 0));
    }
    assert_eq!(count, image.events());
}

/// Returns a trace as other tools write it: inline names, one track per process and thread, a counter, nothing
/// interned.
fn foreign() -> Vec<u8> {
    let mut out = Message::default();
    let track = |out: &mut Message, fill: &dyn Fn(&mut Message)| {
        out.nested(field::trace::PACKET, |packet| packet.nested(field::packet::TRACK, |track| fill(track)));
    };
    track(&mut out, &|track| {
        track.number(field::track::UUID, 1);
        track.nested(field::track::PROCESS, |process| {
            process.number(field::process::PID, 50);
            process.text(field::process::NAME, b"other");
        });
    });
    track(&mut out, &|track| {
        track.number(field::track::UUID, 2);
        track.nested(field::track::THREAD, |thread| {
            thread.number(field::thread::PID, 50);
            thread.number(field::thread::TID, 51);
            thread.text(field::thread::NAME, b"worker");
        });
    });
    track(&mut out, &|track| {
        track.number(field::track::UUID, 3);
        track.number(field::track::PARENT, 1);
        track.text(field::track::NAME, b"heat");
    });
    let mut put = |time: u64, kind: u64, track: u64, name: &str| {
        out.nested(field::trace::PACKET, |packet| {
            packet.number(field::packet::TIMESTAMP, time);
            packet.nested(field::packet::TRACK_EVENT, |event| {
                event.number(field::event::TYPE, kind);
                event.number(field::event::TRACK, track);
                if !name.is_empty() {
                    event.text(field::event::NAME, name.as_bytes());
                    event.text(field::event::CATEGORIES, b"gpu");
                    event.nested(field::event::ANNOTATIONS, |annotation| {
                        annotation.text(field::annotation::NAME, b"file");
                        annotation.text(field::annotation::STRING, b"/x");
                    });
                }
                if kind == value::COUNTER {
                    event.number(field::event::COUNTER, 42);
                }
            });
        });
    };
    put(100, value::SLICE_BEGIN, 2, "outer");
    put(110, value::SLICE_BEGIN, 2, "inner");
    put(120, value::SLICE_END, 2, "");
    put(130, value::SLICE_END, 2, "");
    put(140, value::INSTANT, 2, "mark");
    put(150, value::COUNTER, 3, "");
    put(160, value::SLICE_BEGIN, 2, "open");
    put(170, value::SLICE_END, 9, "");
    out.0
}

#[test]
fn traces_of_other_tools_become_spans() {
    let (batches, reader) = read_all(&foreign());
    let found: Vec<_> = all_rows(&batches, &reader)
        .into_iter()
        .filter(|row| row.name != "meta")
        .map(|row| (row.tid, row.name, row.file, row.start, row.dur, row.depth, row.fd))
        .collect();
    let row = |tid, op: &str, name: &str, start, dur, depth, cat: &str| {
        (tid, op.to_string(), name.to_string(), start, dur, depth, cat.to_string())
    };
    assert_eq!(
        found,
        [
            row(0, "counter", "heat", 150, 0, 0, "0"),
            row(51, "span", "inner", 110, 10, 1, "gpu"),
            row(51, "span", "outer", 100, 30, 0, "gpu"),
            row(51, "instant", "mark", 140, 0, 0, "gpu"),
        ]
    );
    let process = &reader.processes[0];
    assert_eq!(
        (process.fields.get(key::PROGRAM), process.fields.get(key::THREADS)),
        (Some("other"), Some("51=worker"))
    );
    assert_eq!(process.open_spans.len(), 1);
    // The end of a slice that never began.
    assert_eq!(reader.skipped, 1);
}

#[test]
fn non_trace_is_reported_as_broken() {
    for bytes in [&b"#!/bin/sh\nexit 0\n and some more of it"[..], &[0; 64], &[0xff; 64]] {
        let (batches, reader) = read_all(bytes);
        assert!(batches.is_empty() && reader.damaged > 0, "{bytes:?}");
    }
}

#[test]
fn work_of_gpus_is_drawn_on_their_tracks_and_read_as_that_of_its_threads() {
    let image = crate::export::device_tracks::example();
    let bytes = exported(&image, Compression::None);
    let (batches, reader) = read_all(&bytes);
    assert_eq!(all_rows(&batches, &reader), native_rows(&image));
    let named = |text: &str| bytes.windows(text.len()).filter(|part| *part == text.as_bytes()).count();
    // Two threads describe the tracks of their own work.
    assert_eq!((named("GPU 0"), named("GPU 1"), named("stream 7 (2)"), named("steps of stream 7")), (1, 1, 1, 1));
    assert_eq!(named("in flight"), 0);
}

#[test]
fn readers_that_want_no_metadata_still_learn_the_gpu() {
    let bytes = exported(&crate::export::device_tracks::example(), Compression::None);
    let mut reader = Reader { without_metadata: true, ..Reader::default() };
    let mut devices = Vec::new();
    let mut take = |batch: Batch| {
        let is_device = |i: &usize| batch.names.text(batch.events.file[*i]).is_some_and(|name| name == "device");
        let metas = (0..batch.events.len()).filter(|i| batch.events.op[*i] == Op::META.0).filter(is_device);
        devices.extend(metas.map(|i| batch.events.a[i]));
    };
    reader.read(&bytes, &mut take);
    reader.finish(&mut take);
    devices.sort_unstable();
    assert_eq!(devices, [0, 0, 1, 1]);
}
