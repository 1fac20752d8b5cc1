//! The ring file: the memory a process records into, as found on disk if the process was killed, or if it was so
//! short-lived that the ring became its trace.
//!
//! ```text
//! 0        header page: counters, anchors, facts about the process
//! 4096     segment 0: a page of state | one half or two | a chunk of names
//! ...      segment 1 ...
//!
//! half     64 bytes of state and its records
//! chunk    first number: u32, 0: u32, bytes used: u32, entries: u32; then entries as in `super::names`
//! ```
//!
//! The page of a segment describes the segment's parts. The first segment is small, with one half: most processes are
//! short. A thread that fills it continues in a large one of two halves, which alternate; a thread that ends leaves
//! its segment to the next one. The table of counts is a separate segment.
//!
//! Everything here is written by one process with plain stores while this module may be reading, so a reader accepts
//! only verified data: a record counts only if its word is set, a name only if its kind is.
//!
//! In version 1 all segments were alike, with two halves of as many records as the header specified. Two chunks of
//! names of 32 KiB preceded the first segment.

use super::columns::EVENTS_MAX;
use super::fields::{Fields, LATEST};
use super::tally::{self, Tallied};
use super::{Damage, names, u32_at, u64_at};
use crate::event::clock::Anchor;
use crate::event::record::{RECORD_SIZE, Record};

pub const MAGIC: u64 = u64::from_le_bytes(*b"DLIORING");
/// Raise this when bytes change their meaning, like [`super::VERSION`] for a `.dlt`.
pub const VERSION: u32 = 2;
pub const HEADER_SIZE: usize = 4096;

/// Offsets in the header page.
pub mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    /// In version 1, whose segments were all alike.
    pub const HALF_RECORDS: usize = 12;
    pub const SEGMENTS: usize = 16;
    pub const FIELDS_USED: usize = 20;
    pub const FIRST_ANCHOR: usize = 24;
    pub const LAST_ANCHOR: usize = 48;
    pub const LOST: usize = 72;
    pub const FILTERED: usize = 80;
    pub const TRACER_TICKS: usize = 88;
    pub const MISUSED_SPANS: usize = 96;
    /// Number of names that did not fit into a chunk.
    pub const NAMES_LOST: usize = 104;
    /// In version 1: zero, or the segment at which the table of counts begins, plus one.
    pub const TALLY: usize = 112;
    /// Number of segments in private memory, for lack of space or access to the file: their contents are lost by a
    /// kill, and their number of events is unknown.
    pub const SEGMENTS_UNSAVED: usize = 120;
    /// Not zero if the table of counts is in private memory.
    pub const TALLY_UNSAVED: usize = 128;
    /// Number of events added to the table of counts, from halves that were added completely.
    pub const TALLIED: usize = 136;
    /// Number of events in the blocks of the `.dlt`: those missing there were removed by others.
    pub const WRITTEN: usize = 144;
    /// The first error that caused a loss: see [`super::super::trouble`].
    pub const TROUBLE: usize = 152;
    /// Values that change while the process runs, as of the last reading: each one plus one, zero if it was never
    /// read. Their keys are [`super::super::fields::LATEST`].
    pub const LATEST: usize = 160;
    pub const FIELDS: usize = 256;
    pub const FIELDS_MAX: usize = super::HEADER_SIZE - FIELDS;
}

/// The bytes before the entries of a chunk of names.
pub const NAMES_HEAD: usize = 16;
pub const NAMES_USED: usize = 8;

pub const SEGMENTS_START: usize = HEADER_SIZE;
pub const SEGMENT_HEADER: usize = 4096;

/// Offsets in a segment's page.
pub mod segment {
    pub const TID: usize = 0;
    pub const OPEN_SPANS: usize = 4;
    pub const LOST: usize = 8;
    /// Size of the segment in bytes, including its page.
    pub const SIZE: usize = 16;
    pub const HALF_RECORDS: usize = 20;
    pub const HALVES: usize = 24;
    /// Size of the chunk of names in bytes, including its head.
    pub const NAMES: usize = 28;
    /// Not zero if only a table of counts follows the page: see [`super::super::tally`].
    pub const TABLE: usize = 32;
    /// `start: u64, name: u32, category: u32, steps: i64` each.
    pub const SPANS: usize = 64;
    pub const SPAN_SIZE: usize = 24;
    /// Spans nested deeper than this are recorded when they end, but not listed while they are open.
    pub const SPANS_MAX: usize = 64;
}

/// Size of the head before the records of a half: `next: u32` (number of taken slots, [`HALF_SEALED`]), `sequence:
/// u32` (of the block it becomes), `counted: u32` (records that are already in the table of counts, or
/// [`HALF_LOST`]). It is not in the segment's page, so that a thread needs only one pointer.
pub const HALF_HEADER: usize = 64;
pub const HALF_SEQUENCE: usize = 4;
pub const HALF_COUNTED: usize = 8;

/// In `next` of a half whose image is being closed: no more slots can be taken.
pub const HALF_SEALED: u32 = 1 << 31;
/// In `counted` of a half that could not be written: its records have been counted as lost.
pub const HALF_LOST: u32 = u32::MAX;

/// Returns the size of one half in bytes.
pub const fn half_size(half_records: usize) -> usize {
    HALF_HEADER + half_records * RECORD_SIZE
}

/// The sizes of a segment's parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub half_records: usize,
    pub halves: usize,
    /// Size of the chunk of names in bytes, including its head.
    pub names: usize,
    pub has_table: bool,
}

impl Shape {
    /// Three pages: enough for a process of a hundred calls.
    pub const SMALL: Shape = Shape { half_records: 128, halves: 1, names: 8192 - half_size(128), has_table: false };
    pub const LARGE: Shape = Shape { half_records: EVENTS_MAX, halves: 2, names: 32 << 10, has_table: false };
    pub const TABLE: Shape = Shape { half_records: 0, halves: 0, names: 0, has_table: true };

    /// Returns the size in whole pages.
    pub const fn size(self) -> usize {
        let table = if self.has_table { tally::SIZE } else { 0 };
        (SEGMENT_HEADER + self.halves * half_size(self.half_records) + self.names + table).next_multiple_of(4096)
    }

    /// Returns the offset of the chunk of names in a segment.
    pub const fn names_at(self) -> usize {
        SEGMENT_HEADER + self.halves * half_size(self.half_records)
    }

    /// Writes the segment's sizes into its page.
    pub fn describe(self, page: &mut [u8]) {
        let numbers = [
            (segment::SIZE, self.size()),
            (segment::HALF_RECORDS, self.half_records),
            (segment::HALVES, self.halves),
            (segment::NAMES, self.names),
            (segment::TABLE, self.has_table as usize),
        ];
        for (at, number) in numbers {
            page[at..at + 4].copy_from_slice(&(number as u32).to_le_bytes());
        }
    }

    /// Returns the sizes in the segment's page, if they are valid.
    pub(super) fn read(page: &[u8]) -> Option<Shape> {
        let number = |at| u32_at(page, at) as usize;
        let shape = Shape {
            half_records: number(segment::HALF_RECORDS),
            halves: number(segment::HALVES),
            names: number(segment::NAMES),
            has_table: number(segment::TABLE) != 0,
        };
        let sane = shape.half_records <= RECORDS_MAX && shape.halves <= 2 && shape.names <= NAMES_MAX;
        (sane && shape.size() == number(segment::SIZE)).then_some(shape)
    }
}

/// More than any segment has.
const RECORDS_MAX: usize = 1 << 20;
const NAMES_MAX: usize = 1 << 20;

/// The contents of a ring.
#[derive(Debug, Default)]
pub struct Ring {
    pub fields: Fields,
    pub first_anchor: Anchor,
    pub last_anchor: Anchor,
    pub lost: u64,
    pub filtered: u64,
    pub misused_spans: u64,
    pub names_lost: u64,
    pub tracer_ticks: u64,
    pub segments: Vec<Segment>,
    pub tally: Option<Result<Tallied, Damage>>,
    /// First number and entries.
    pub names: Vec<(u32, Vec<u8>)>,
    /// `true` if segments listed in the header are missing in the file.
    pub cut: bool,
    /// Number of segments whose events are lost.
    pub unsaved: u64,
    /// Number of events that went into blocks.
    pub written: u64,
    pub trouble: i32,
}

#[derive(Debug, Default)]
pub struct Segment {
    pub tid: u32,
    pub lost: u64,
    /// In the order in which they were filled.
    pub halves: Vec<Half>,
    pub open_spans: Vec<OpenSpan>,
}

#[derive(Debug, Default)]
pub struct Half {
    pub sequence: u32,
    pub records: Vec<Record>,
    /// Number of records that are in the table of counts, and not among those above.
    pub tallied: u32,
}

/// A span that had started and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSpan {
    pub tid: u32,
    pub depth: u8,
    pub start: u64,
    pub name: u32,
    pub category: u32,
    pub steps: i64,
}

impl Segment {
    fn tallied(&self) -> u64 {
        self.halves.iter().map(|half| half.tallied as u64).sum()
    }
}

impl Ring {
    pub fn parse(bytes: &[u8]) -> Result<Ring, Damage> {
        if bytes.len() < 16 || u64_at(bytes, header::MAGIC) != MAGIC {
            return Err(Damage::NotATrace);
        }
        let version = u32_at(bytes, header::VERSION);
        match version {
            version if version > VERSION => return Err(Damage::TooNew(version)),
            _ if bytes.len() < HEADER_SIZE => return Err(Damage::Cut),
            _ => {}
        }
        let mut fields = Fields::default();
        let used = (u32_at(bytes, header::FIELDS_USED) as usize).min(header::FIELDS_MAX);
        fields.merge(&bytes[header::FIELDS..header::FIELDS + used])?;
        for (place, key) in LATEST.iter().enumerate() {
            let latest = u64_at(bytes, header::LATEST + 8 * place).checked_sub(1);
            latest.filter(|_| fields.get(key).is_none()).into_iter().for_each(|value| fields.set(key, value));
        }
        let mut ring = Ring {
            fields,
            first_anchor: anchor_at(bytes, header::FIRST_ANCHOR),
            last_anchor: anchor_at(bytes, header::LAST_ANCHOR),
            lost: u64_at(bytes, header::LOST),
            filtered: u64_at(bytes, header::FILTERED),
            misused_spans: u64_at(bytes, header::MISUSED_SPANS),
            names_lost: u64_at(bytes, header::NAMES_LOST),
            tracer_ticks: u64_at(bytes, header::TRACER_TICKS),
            segments: Vec::new(),
            tally: None,
            names: Vec::new(),
            cut: false,
            unsaved: u64_at(bytes, header::SEGMENTS_UNSAVED),
            written: u64_at(bytes, header::WRITTEN),
            trouble: u64_at(bytes, header::TROUBLE) as i32,
        };
        match version {
            1 => first_version::read(bytes, &mut ring)?,
            _ => ring.read_segments(bytes),
        }
        if u64_at(bytes, header::TALLY_UNSAVED) != 0 {
            ring.lost += u64_at(bytes, header::TALLIED) + ring.segments.iter().map(Segment::tallied).sum::<u64>();
        }
        Ok(ring)
    }

    /// Reads one segment after another, as long as each one specifies where the next one begins.
    fn read_segments(&mut self, bytes: &[u8]) {
        let mut rest = &bytes[SEGMENTS_START..];
        for _ in 0..u32_at(bytes, header::SEGMENTS) {
            let shape = rest.get(..SEGMENT_HEADER).and_then(Shape::read);
            let Some((shape, (segment, after))) =
                shape.and_then(|shape| Some((shape, rest.split_at_checked(shape.size())?)))
            else {
                self.cut = true;
                return;
            };
            rest = after;
            self.segments.push(parse_segment(segment, shape.half_records, shape.halves));
            if shape.has_table {
                self.tally = Some(Tallied::from_bytes(&segment[SEGMENT_HEADER..][..tally::SIZE]));
            }
            if shape.names > NAMES_HEAD {
                self.names.extend(names_chunk(&segment[shape.names_at()..][..shape.names]));
            }
        }
    }
}

pub(super) fn anchor_at(bytes: &[u8], at: usize) -> Anchor {
    Anchor { ticks: u64_at(bytes, at), boot_ns: u64_at(bytes, at + 8), real_ns: u64_at(bytes, at + 16) }
}

/// Returns a chunk's first number and its complete entries.
pub(super) fn names_chunk(chunk: &[u8]) -> Option<(u32, Vec<u8>)> {
    entries_of(chunk, NAMES_USED)
}

fn entries_of(chunk: &[u8], used_at: usize) -> Option<(u32, Vec<u8>)> {
    let used = (u32_at(chunk, used_at) as usize).min(chunk.len() - NAMES_HEAD);
    let (entries, _) = names::complete(&chunk[NAMES_HEAD..NAMES_HEAD + used]);
    (!entries.is_empty()).then(|| (u32_at(chunk, 0), entries.to_vec()))
}

fn parse_segment(bytes: &[u8], half_records: usize, halves: usize) -> Segment {
    let page = &bytes[..SEGMENT_HEADER];
    let tid = u32_at(page, segment::TID);
    let half = |which: usize| {
        let bytes = &bytes[SEGMENT_HEADER + which * half_size(half_records)..][..half_size(half_records)];
        let counted = u32_at(bytes, HALF_COUNTED);
        let left = bytes.get(HALF_HEADER + counted as usize * RECORD_SIZE..).unwrap_or_default();
        let tallied = if counted == HALF_LOST { 0 } else { counted };
        Half { sequence: u32_at(bytes, HALF_SEQUENCE), records: records(left), tallied }
    };
    let mut halves: Vec<Half> = (0..halves).map(half).collect();
    halves.sort_by_key(|half| half.sequence);
    Segment { tid, lost: u64_at(page, segment::LOST), halves, open_spans: open_spans(page, tid) }
}

/// Returns the open spans in a segment's page, outermost first.
pub(super) fn open_spans(page: &[u8], tid: u32) -> Vec<OpenSpan> {
    let open = (u32_at(page, segment::OPEN_SPANS) as usize).min(segment::SPANS_MAX);
    (0..open).map(|i| open_span(&page[segment::SPANS + i * segment::SPAN_SIZE..], tid, i)).collect()
}

/// The offsets before each segment described itself.
mod first_version {
    use super::*;

    const NAMES_START: usize = HEADER_SIZE;
    const NAMES_CHUNK: usize = 32 << 10;
    const NAMES_USED: usize = 4;
    const SEGMENTS_START: usize = NAMES_START + 2 * NAMES_CHUNK;

    pub fn read(bytes: &[u8], ring: &mut Ring) -> Result<(), Damage> {
        if bytes.len() < SEGMENTS_START {
            return Err(Damage::Cut);
        }
        let half_records = u32_at(bytes, header::HALF_RECORDS) as usize;
        if half_records == 0 || half_records > RECORDS_MAX {
            return Err(Damage::Broken("the size of a ring"));
        }
        let size = (SEGMENT_HEADER + 2 * half_size(half_records)).next_multiple_of(4096);
        let promised = u32_at(bytes, header::SEGMENTS) as usize;
        let held = (bytes.len() - SEGMENTS_START) / size;
        let table = match u32_at(bytes, header::TALLY) as usize {
            0 => 0..0,
            first => first - 1..(first - 1).saturating_add(tally::SIZE.div_ceil(size)),
        };
        let segment = |i| {
            let bytes = &bytes[SEGMENTS_START + i * size..][..size];
            if table.contains(&i) { Segment::default() } else { parse_segment(bytes, half_records, 2) }
        };
        ring.segments = (0..promised.min(held)).map(segment).collect();
        ring.tally = (!table.is_empty()).then(|| {
            let at = SEGMENTS_START.saturating_add(table.start.saturating_mul(size));
            let table = bytes.get(at..).ok_or(Damage::Cut)?;
            Tallied::from_bytes(&table[..table.len().min(tally::SIZE)])
        });
        let chunks = bytes[NAMES_START..SEGMENTS_START].chunks_exact(NAMES_CHUNK);
        ring.names = chunks.filter_map(|chunk| entries_of(chunk, NAMES_USED)).collect();
        ring.cut = promised > held;
        Ok(())
    }
}

fn records(half: &[u8]) -> Vec<Record> {
    half.as_chunks::<RECORD_SIZE>().0.iter().map(Record::from_bytes).filter(Record::is_complete).collect()
}

fn open_span(bytes: &[u8], tid: u32, depth: usize) -> OpenSpan {
    OpenSpan {
        tid,
        depth: depth as u8,
        start: u64_at(bytes, 0),
        name: u32_at(bytes, 8),
        category: u32_at(bytes, 12),
        steps: u64_at(bytes, 16) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ops::Op;
    use crate::event::record::word;

    const HALF: usize = 4;

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    const SHAPE: Shape = Shape { half_records: HALF, halves: 2, names: 64, has_table: false };

    /// Returns a ring with one segment: one complete record, one that was being written, one open span, one name and
    /// another that was being written.
    fn sample() -> Vec<u8> {
        let mut bytes = vec![0; SEGMENTS_START + SHAPE.size()];
        put(&mut bytes, header::MAGIC, &MAGIC.to_le_bytes());
        put(&mut bytes, header::VERSION, &VERSION.to_le_bytes());
        put(&mut bytes, header::SEGMENTS, &1u32.to_le_bytes());
        let at = SEGMENTS_START;
        SHAPE.describe(&mut bytes[at..]);
        let names = at + SHAPE.names_at();
        put(&mut bytes, names, &9u32.to_le_bytes());
        put(&mut bytes, names + NAMES_USED, &12u32.to_le_bytes());
        names::write_entry(names::NameKind::Path, b"/a", &mut bytes[names + NAMES_HEAD..][..5]);
        put(&mut bytes, at + segment::TID, &77u32.to_le_bytes());
        put(&mut bytes, at + segment::OPEN_SPANS, &1u32.to_le_bytes());
        put(&mut bytes, at + segment::SPANS, &5u64.to_le_bytes());
        let records = at + SEGMENT_HEADER + HALF_HEADER;
        put(&mut bytes, records, &word(Op::READ, 0, true, 9).to_le_bytes());
        put(&mut bytes, records + RECORD_SIZE + 8, &1234u64.to_le_bytes());
        bytes
    }

    #[test]
    fn complete_records_and_open_spans_are_found() {
        let ring = Ring::parse(&sample()).unwrap();
        let segment = &ring.segments[0];
        let found: Vec<_> = segment.halves.iter().map(|half| half.records.len()).collect();
        assert_eq!((segment.tid, found, ring.cut), (77, vec![1, 0], false));
        assert_eq!(segment.open_spans[0].start, 5);
        assert_eq!(ring.names, [(9, b"\x01\x02\x00/a".to_vec())]);
    }

    #[test]
    fn a_table_of_counts_is_a_segment_between_others() {
        let mut bytes = sample();
        let at = bytes.len();
        bytes.resize(at + Shape::TABLE.size(), 0);
        Shape::TABLE.describe(&mut bytes[at..]);
        put(&mut bytes, at + SEGMENT_HEADER, &tally::MAGIC.to_le_bytes());
        bytes.extend_from_slice(&sample()[SEGMENTS_START..]);
        put(&mut bytes, header::SEGMENTS, &3u32.to_le_bytes());
        let ring = Ring::parse(&bytes).unwrap();
        let records: Vec<usize> =
            ring.segments.iter().map(|s| s.halves.iter().map(|h| h.records.len()).sum()).collect();
        assert_eq!((records, ring.tally.is_some(), ring.cut), (vec![1, 0, 1], true, false));
    }

    #[test]
    fn ring_reports_private_losses() {
        let mut bytes = sample();
        put(&mut bytes, header::LOST, &5u64.to_le_bytes());
        put(&mut bytes, header::SEGMENTS_UNSAVED, &2u64.to_le_bytes());
        // Events that went into a table, which only counts as lost if it was in private memory.
        put(&mut bytes, header::TALLIED, &30u64.to_le_bytes());
        let half = SEGMENTS_START + SEGMENT_HEADER;
        put(&mut bytes, half + HALF_COUNTED, &1u32.to_le_bytes());
        let ring = Ring::parse(&bytes).unwrap();
        assert_eq!((ring.lost, ring.unsaved, ring.segments[0].halves[0].records.len()), (5, 2, 0));
        put(&mut bytes, header::TALLY_UNSAVED, &1u64.to_le_bytes());
        assert_eq!(Ring::parse(&bytes).unwrap().lost, 5 + 30 + 1);
        // All events of a half that could not be written have been counted as lost.
        put(&mut bytes, half + HALF_COUNTED, &HALF_LOST.to_le_bytes());
        let ring = Ring::parse(&bytes).unwrap();
        assert_eq!((ring.lost, ring.segments[0].halves[0].records.len()), (5 + 30, 0));
        assert_eq!((header::SEGMENTS_UNSAVED, header::TALLY_UNSAVED, header::TALLIED), (120, 128, 136));
    }

    #[test]
    fn invalid_segment_ends_the_reading() {
        for (at, number) in [(segment::SIZE, 0), (segment::HALF_RECORDS, u32::MAX), (segment::NAMES, 4096)] {
            let mut bytes = sample();
            put(&mut bytes, SEGMENTS_START + at, &number.to_le_bytes());
            let ring = Ring::parse(&bytes).unwrap();
            assert!(ring.cut && ring.segments.is_empty(), "{at}");
        }
    }

    #[test]
    fn truncated_ring_is_read_to_its_end() {
        let whole = sample();
        for cut in 0..whole.len() {
            match Ring::parse(&whole[..cut]) {
                Ok(ring) => assert!(ring.cut && ring.segments.is_empty()),
                Err(damage) => assert!(cut < SEGMENTS_START, "{damage} at {cut}"),
            }
        }
    }

    #[test]
    fn newer_ring_is_reported() {
        let mut bytes = sample();
        put(&mut bytes, header::VERSION, &(VERSION + 1).to_le_bytes());
        assert_eq!(Ring::parse(&bytes).unwrap_err(), Damage::TooNew(VERSION + 1));
    }
}
