//! The parsers of `dlio-schemas`: files of traced processes, files for viewers, masked command lines.

use dlio_schemas::native::block::{Codec, HEADER_SIZE, Header, Kind, Opener};
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::Fields;
use dlio_schemas::native::file::{Image, decode};
use dlio_schemas::native::live::Live;
use dlio_schemas::native::names::Names;
use dlio_schemas::native::ring::Ring;
use dlio_schemas::native::tally::{Tallied, rows};
use dlio_schemas::perfetto::read::{Batch, Reader, chapters};
use dlio_schemas::process_stat::ProcessStat;
use dlio_schemas::secrets::{mask, masked_text};
use dlio_schemas::words::nearest;

pub const ENTRIES: &[crate::rounds::Entry] = &[
    ("block", block),
    ("columns", columns),
    ("names", names),
    ("facts", facts),
    ("counts", counts),
    ("dlt", dlt),
    ("sealed_dlt", sealed_dlt),
    ("ring", ring),
    ("live_ring", live_ring),
    ("perfetto", perfetto),
    ("command_line", command_line),
    ("process_stat", process_stat),
    ("mistyped", mistyped),
];

/// Parses a block as in a file, and the bytes as the payload of a valid block with damaged compression.
pub fn block(bytes: &[u8]) {
    let mut opener = Opener::default();
    if let Ok(header) = Header::from_bytes(bytes) {
        let _ = opener.open(&header, bytes);
    }
    let length = bytes.first().map_or(0, |byte| *byte as usize * 256);
    let sealed = [&Header::new(Kind::Names).seal(Codec::Zstd, length, bytes)[..], bytes].concat();
    let header = Header::from_bytes(&sealed).expect("a header that was just sealed");
    if let Ok(payload) = opener.open(&header, &sealed) {
        assert_eq!(payload.len(), length);
    }
}

fn assert_even(events: &Events) {
    let count = events.len();
    let lengths = [events.start.len(), events.duration.len(), events.file.len(), events.fd.len(), events.a.len()];
    assert_eq!(lengths, [count; 5]);
}

/// Parses the payload of a block of events, preceded by their number.
pub fn columns(bytes: &[u8]) {
    let Some((count, payload)) = bytes.split_first_chunk::<2>() else { return };
    let (mut events, count) = (Events::default(), u16::from_le_bytes(*count) as usize);
    if events.decode(payload, count, 1 << 40).is_ok() {
        assert_eq!(events.len(), count);
        assert_even(&events);
    }
}

/// Parses the payload of a block of strings.
pub fn names(bytes: &[u8]) {
    let mut names = Names::default();
    let _ = names.add(1, bytes);
    assert!(names.iter().all(|(id, kind, text)| names.get(id) == Some((kind, text))));
}

/// Parses the payload of a block of facts.
pub fn facts(bytes: &[u8]) {
    let mut fields = Fields::default();
    let _ = fields.merge(bytes);
    fields.ending();
}

/// Parses a table of counts.
pub fn counts(bytes: &[u8]) {
    rows(bytes);
    if let Ok(tallied) = Tallied::from_bytes(bytes) {
        tallied.shapes.iter().for_each(|shape| drop((shape.durations(|ticks| ticks), shape.sizes())));
    }
}

fn look_through(image: &Image, bytes: &[u8]) {
    let mut opener = Opener::default();
    let mut events = Events::default();
    for block in &image.blocks {
        if decode(block, bytes, &mut opener, &mut events).is_ok() {
            assert_eq!(events.len(), block.header.count as usize);
            assert_even(&events);
        }
    }
    let _ = (image.missing(), image.events());
    if let Some(clock) = image.clock() {
        clock.boot_ns(image.last_tick());
    }
}

/// Parses a whole file: checksums find most damage, and the next block is searched.
pub fn dlt(bytes: &[u8]) {
    if let Ok(image) = Image::from_dlt(bytes) {
        look_through(&image, bytes);
    }
}

/// Parses a whole file with valid checksums, so that the damage reaches the readers of the payloads.
pub fn sealed_dlt(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.windows(4).position(|four| four == b"DLB1")) {
        at += found;
        let Some(block) = bytes.get_mut(at..).filter(|block| block.len() >= HEADER_SIZE) else { break };
        let stored = u32::from_le_bytes([block[8], block[9], block[10], block[11]]) as usize;
        let end = HEADER_SIZE.saturating_add(stored).min(block.len());
        let payload = libdeflater::crc32(&block[HEADER_SIZE..end]);
        block[20..24].copy_from_slice(&payload.to_le_bytes());
        let mut sum = libdeflater::Crc::new();
        sum.update(&block[..16]);
        sum.update(&block[20..HEADER_SIZE]);
        let sum = sum.sum();
        block[16..20].copy_from_slice(&sum.to_le_bytes());
        at += HEADER_SIZE;
    }
    dlt(&bytes);
}

/// Parses the ring of a process that has ended.
pub fn ring(bytes: &[u8]) {
    if let Ok(ring) = Ring::parse(bytes) {
        let image = Image::from_ring(&ring);
        image.leftovers.iter().for_each(|leftover| assert_even(&leftover.events));
        look_through(&image, &[]);
    }
}

/// Parses the ring of a running process.
pub fn live_ring(bytes: &[u8]) {
    if let Ok(live) = Live::read(bytes) {
        let _ = (live.rows(bytes), live.names(bytes));
        live.halves().for_each(|half| drop(half.records(bytes)));
    }
}

/// Parses packets of a Perfetto trace: all at once, and chapter by chapter.
pub fn perfetto(bytes: &[u8]) {
    let mut events = 0;
    let mut take = |batch: Batch| {
        assert_even(batch.events);
        events += batch.events.len();
    };
    let mut reader = Reader::default();
    assert!(reader.read(bytes, &mut take) <= bytes.len());
    reader.finish(&mut take);
    let mut first = Reader::default();
    assert!(first.scan(bytes) <= bytes.len());
    for chapter in chapters(bytes) {
        let mut reader = first.fork();
        reader.read(&bytes[chapter], &mut |_| ());
        reader.finish(&mut |_| ());
    }
}

/// Masks the arguments of a program.
pub fn command_line(bytes: &[u8]) {
    let mut shown = 0;
    mask(bytes, &mut |piece| shown += piece.len());
    masked_text(&String::from_utf8_lossy(bytes));
}

/// Parses the kernel's line about a process.
pub fn process_stat(bytes: &[u8]) {
    ProcessStat::parse(bytes);
}

/// Looks up an unknown word.
pub fn mistyped(bytes: &[u8]) {
    nearest(&String::from_utf8_lossy(bytes), ["read", "write", "DLIO_TRACE_DIR"].into_iter());
}
