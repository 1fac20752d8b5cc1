//! The ring file: the memory a process records into, as it lies on disk if the process is killed.
//!
//! ```text
//! 0        header page: counters, anchors, facts about the process
//! 4096     two chunks of names, filled in turn
//! 69632    segment 0: a page of state, then two halves: 64 bytes of state and `half_records` records each
//! ...      segment 1 ...            one segment a live thread; a thread that ends leaves it to the next one
//! ```
//!
//! Everything here is written by one process with plain stores while this module may be reading, so a reader believes
//! nothing that does not check: a record counts only if its word is set, a name only below `used`.

use super::fields::Fields;
use super::tally::{self, Tallied};
use super::{Damage, VERSION, u32_at, u64_at};
use crate::clock::Anchor;
use crate::record::{RECORD_SIZE, Record};

pub const MAGIC: u64 = u64::from_le_bytes(*b"DLIORING");
pub const HEADER_SIZE: usize = 4096;

/// Offsets in the header page.
pub mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const HALF_RECORDS: usize = 12;
    pub const SEGMENTS: usize = 16;
    pub const FIELDS_USED: usize = 20;
    pub const FIRST_ANCHOR: usize = 24;
    pub const LAST_ANCHOR: usize = 48;
    pub const LOST: usize = 72;
    pub const FILTERED: usize = 80;
    pub const TRACER_TICKS: usize = 88;
    pub const MISUSED_SPANS: usize = 96;
    /// Names that found no room in a chunk.
    pub const NAMES_LOST: usize = 104;
    /// Zero, or the segment in whose place the table of counts begins, plus one: see [`super::super::tally`].
    pub const TALLY: usize = 112;
    pub const FIELDS: usize = 256;
    pub const FIELDS_MAX: usize = super::HEADER_SIZE - FIELDS;
}

/// One of the two chunks of names: `first: u32, used: u32, count: u32, zero: u32`, then entries.
pub const NAMES_CHUNK: usize = 32 << 10;
pub const NAMES_HEAD: usize = 16;
pub const NAMES_START: usize = HEADER_SIZE;

pub const SEGMENTS_START: usize = NAMES_START + 2 * NAMES_CHUNK;
pub const SEGMENT_HEADER: usize = 4096;

/// Offsets in a segment's page.
pub mod segment {
    pub const TID: usize = 0;
    pub const OPEN_SPANS: usize = 4;
    pub const LOST: usize = 8;
    /// `start: u64, name: u32, category: u32, steps: i64` each.
    pub const SPANS: usize = 64;
    pub const SPAN_SIZE: usize = 24;
    /// Spans nested deeper than this are recorded when they end, but not seen open.
    pub const SPANS_MAX: usize = 64;
}

/// What stands before the records of a half: `next: u32` (slots handed out), `sequence: u32` (of the block it becomes),
/// `counted: u32` (records that are in the table of counts already).
/// It stands there, and not in the segment's page, so that one pointer leads a thread to all it needs.
pub const HALF_HEADER: usize = 64;
pub const HALF_SEQUENCE: usize = 4;
pub const HALF_COUNTED: usize = 8;

/// Bytes of one half.
pub const fn half_size(half_records: usize) -> usize {
    HALF_HEADER + half_records * RECORD_SIZE
}

/// Bytes of a segment: whole pages.
pub const fn segment_size(half_records: usize) -> usize {
    (SEGMENT_HEADER + 2 * half_size(half_records)).next_multiple_of(4096)
}

/// Where segment `index` begins.
pub const fn segment_at(index: usize, half_records: usize) -> usize {
    SEGMENTS_START + index * segment_size(half_records)
}

/// Segments whose place the table of counts takes.
pub const fn tally_segments(half_records: usize) -> usize {
    tally::SIZE.div_ceil(segment_size(half_records))
}

/// A ring as it was found.
#[derive(Debug)]
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
    /// Segments the header promises and the file does not hold.
    pub cut: bool,
}

#[derive(Debug, Default)]
pub struct Segment {
    pub tid: u32,
    pub lost: u64,
    pub halves: [Half; 2],
    pub open_spans: Vec<OpenSpan>,
}

#[derive(Debug, Default)]
pub struct Half {
    pub sequence: u32,
    pub records: Vec<Record>,
}

/// A span that had begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSpan {
    pub tid: u32,
    pub depth: u8,
    pub start: u64,
    pub name: u32,
    pub category: u32,
    pub steps: i64,
}

impl Ring {
    pub fn parse(bytes: &[u8]) -> Result<Ring, Damage> {
        if bytes.len() < 16 || u64_at(bytes, header::MAGIC) != MAGIC {
            return Err(Damage::NotATrace);
        }
        match u32_at(bytes, header::VERSION) {
            version if version > VERSION => return Err(Damage::TooNew(version)),
            _ if bytes.len() < SEGMENTS_START => return Err(Damage::Cut),
            _ => {}
        }
        let half_records = u32_at(bytes, header::HALF_RECORDS) as usize;
        if half_records == 0 || half_records > 1 << 20 {
            return Err(Damage::Broken("the size of a ring"));
        }
        let mut fields = Fields::default();
        let used = (u32_at(bytes, header::FIELDS_USED) as usize).min(header::FIELDS_MAX);
        fields.merge(&bytes[header::FIELDS..header::FIELDS + used])?;
        let promised = u32_at(bytes, header::SEGMENTS) as usize;
        let held = (bytes.len() - SEGMENTS_START) / segment_size(half_records);
        let table = table_in(bytes, half_records);
        let segment = |i| (!table.contains(&i)).then(|| parse_segment(bytes, i, half_records));
        let segments = (0..promised.min(held)).map(|i| segment(i).unwrap_or_default()).collect();
        Ok(Ring {
            fields,
            first_anchor: anchor_at(bytes, header::FIRST_ANCHOR),
            last_anchor: anchor_at(bytes, header::LAST_ANCHOR),
            lost: u64_at(bytes, header::LOST),
            filtered: u64_at(bytes, header::FILTERED),
            misused_spans: u64_at(bytes, header::MISUSED_SPANS),
            names_lost: u64_at(bytes, header::NAMES_LOST),
            tracer_ticks: u64_at(bytes, header::TRACER_TICKS),
            segments,
            tally: (!table.is_empty()).then(|| read_table(bytes, table.start, half_records)),
            names: (0..2).filter_map(|chunk| names_chunk(bytes, chunk)).collect(),
            cut: promised > held,
        })
    }
}

fn anchor_at(bytes: &[u8], at: usize) -> Anchor {
    Anchor { ticks: u64_at(bytes, at), boot_ns: u64_at(bytes, at + 8), real_ns: u64_at(bytes, at + 16) }
}

fn names_chunk(bytes: &[u8], chunk: usize) -> Option<(u32, Vec<u8>)> {
    let bytes = &bytes[NAMES_START + chunk * NAMES_CHUNK..][..NAMES_CHUNK];
    let used = (u32_at(bytes, 4) as usize).min(NAMES_CHUNK - NAMES_HEAD);
    (used > 0).then(|| (u32_at(bytes, 0), bytes[NAMES_HEAD..NAMES_HEAD + used].to_vec()))
}

fn parse_segment(bytes: &[u8], index: usize, half_records: usize) -> Segment {
    let at = segment_at(index, half_records);
    let page = &bytes[at..at + SEGMENT_HEADER];
    let tid = u32_at(page, segment::TID);
    let half = |which: usize| {
        let bytes = &bytes[at + SEGMENT_HEADER + which * half_size(half_records)..][..half_size(half_records)];
        let counted = u32_at(bytes, HALF_COUNTED) as usize * RECORD_SIZE;
        let left = bytes.get(HALF_HEADER + counted..).unwrap_or_default();
        Half { sequence: u32_at(bytes, HALF_SEQUENCE), records: records(left) }
    };
    let mut halves = [half(0), half(1)];
    if halves[0].sequence > halves[1].sequence {
        halves.swap(0, 1);
    }
    let open = (u32_at(page, segment::OPEN_SPANS) as usize).min(segment::SPANS_MAX);
    let open_spans = (0..open).map(|i| open_span(&page[segment::SPANS + i * segment::SPAN_SIZE..], tid, i)).collect();
    Segment { tid, lost: u64_at(page, segment::LOST), halves, open_spans }
}

/// The segments whose place the table of counts takes.
fn table_in(bytes: &[u8], half_records: usize) -> std::ops::Range<usize> {
    match u32_at(bytes, header::TALLY) as usize {
        0 => 0..0,
        first => first - 1..(first - 1).saturating_add(tally_segments(half_records)),
    }
}

fn read_table(bytes: &[u8], first: usize, half_records: usize) -> Result<Tallied, Damage> {
    let at = SEGMENTS_START.saturating_add(first.saturating_mul(segment_size(half_records)));
    let table = bytes.get(at..).ok_or(Damage::Cut)?;
    Tallied::from_bytes(&table[..table.len().min(tally::SIZE)])
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
    use crate::ops::Op;
    use crate::record::word;

    const HALF: usize = 4;

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// A ring with one segment: one complete record, one that was being written, one open span.
    fn sample() -> Vec<u8> {
        let mut bytes = vec![0; segment_at(1, HALF)];
        put(&mut bytes, header::MAGIC, &MAGIC.to_le_bytes());
        put(&mut bytes, header::VERSION, &VERSION.to_le_bytes());
        put(&mut bytes, header::HALF_RECORDS, &(HALF as u32).to_le_bytes());
        put(&mut bytes, header::SEGMENTS, &1u32.to_le_bytes());
        let at = segment_at(0, HALF);
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
    }

    #[test]
    fn a_ring_cut_anywhere_is_read_as_far_as_it_goes() {
        let whole = sample();
        for cut in 0..whole.len() {
            match Ring::parse(&whole[..cut]) {
                Ok(ring) => assert!(ring.cut && ring.segments.is_empty()),
                Err(damage) => assert!(cut < SEGMENTS_START, "{damage} at {cut}"),
            }
        }
    }

    #[test]
    fn a_newer_ring_is_named_as_such() {
        let mut bytes = sample();
        put(&mut bytes, header::VERSION, &(VERSION + 1).to_le_bytes());
        assert_eq!(Ring::parse(&bytes).unwrap_err(), Damage::TooNew(VERSION + 1));
    }
}
