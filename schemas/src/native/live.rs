//! A ring whose process is still writing, read in place and only as far as necessary.
//!
//! [`Ring::parse`](super::ring::Ring::parse) reads a whole file, of a process that has ended. A program that watches
//! dozens of processes every second reads the heads of their halves, and records only up to the last taken slot.
//!
//! Nothing is locked, and the process does not notice. The records read from a half are valid only if its head is
//! unchanged afterwards; a half that became a block in the meantime is found there, by stream and sequence.

use super::fields::Fields;
use super::file::Store;
use super::ring::{
    HALF_COUNTED, HALF_HEADER, HALF_LOST, HALF_SEALED, HALF_SEQUENCE, HEADER_SIZE, MAGIC, NAMES_HEAD, OpenSpan,
    SEGMENT_HEADER, SEGMENTS_START, Shape, VERSION, anchor_at, half_size, header, names_chunk, open_spans, segment,
};
use super::tally::{self, Row};
use super::{Damage, u32_at, u64_at};
use crate::event::clock::Anchor;
use crate::event::record::{RECORD_SIZE, Record};

/// Number of used bytes in a segment's page.
const PAGE_USED: usize = segment::SPANS + segment::SPANS_MAX * segment::SPAN_SIZE;

/// The heads of a ring at one point in time.
#[derive(Debug)]
pub struct Live {
    pub fields: Fields,
    pub first_anchor: Anchor,
    pub last_anchor: Anchor,
    pub lost: u64,
    /// Segments in private memory, whose events are not visible before they are written.
    pub unseen: u64,
    pub segments: Vec<Segment>,
}

#[derive(Debug)]
pub struct Segment {
    pub tid: u32,
    pub open_spans: Vec<OpenSpan>,
    pub halves: Vec<Half>,
    /// Offset and length of the chunk of names.
    names: Option<(usize, usize)>,
    /// Offset of the table of counts.
    table: Option<usize>,
}

/// The head of a half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Half {
    at: usize,
    pub stream: u32,
    pub sequence: u32,
    /// Number of taken slots.
    taken: u32,
    /// Records that are in the table of counts.
    counted: u32,
}

impl Live {
    /// Reads the heads. Segments that are in the header but not yet in the file are left for the next time.
    pub fn read<S: Store + ?Sized>(store: &S) -> Result<Live, Damage> {
        let mut page = [0; HEADER_SIZE];
        if !store.load(0, &mut page) || u64_at(&page, header::MAGIC) != MAGIC {
            return Err(Damage::NotATrace);
        }
        match u32_at(&page, header::VERSION) {
            VERSION => {}
            version if version > VERSION => return Err(Damage::TooNew(version)),
            _ => return Err(Damage::Broken("a ring of an older version")),
        }
        let mut fields = Fields::default();
        let used = (u32_at(&page, header::FIELDS_USED) as usize).min(header::FIELDS_MAX);
        fields.merge(&page[header::FIELDS..header::FIELDS + used])?;
        let mut live = Live {
            fields,
            first_anchor: anchor_at(&page, header::FIRST_ANCHOR),
            last_anchor: anchor_at(&page, header::LAST_ANCHOR),
            lost: u64_at(&page, header::LOST),
            unseen: u64_at(&page, header::SEGMENTS_UNSAVED),
            segments: Vec::new(),
        };
        let mut at = SEGMENTS_START;
        for stream in 0..u32_at(&page, header::SEGMENTS) {
            let Some((segment, lost, size)) = read_segment(store, at, stream) else { break };
            live.lost += lost;
            live.segments.push(segment);
            at += size;
        }
        Ok(live)
    }

    pub fn halves(&self) -> impl Iterator<Item = &Half> {
        self.segments.iter().flat_map(|segment| &segment.halves)
    }

    /// Returns the rows of the table of counts; `None` if there is no table.
    pub fn rows<S: Store + ?Sized>(&self, store: &S) -> Option<Vec<Row>> {
        let at = self.segments.iter().find_map(|segment| segment.table)?;
        let mut bytes = vec![0; tally::ROWS_END];
        store.load(at, &mut bytes).then(|| tally::rows(&bytes))
    }

    /// Returns the strings that are not in a block yet: first number and entries.
    pub fn names<S: Store + ?Sized>(&self, store: &S) -> Vec<(u32, Vec<u8>)> {
        let chunk = |(at, length): (usize, usize)| {
            let mut bytes = vec![0; length];
            store.load(at, &mut bytes).then(|| names_chunk(&bytes))?
        };
        self.segments.iter().filter_map(|segment| segment.names).filter_map(chunk).collect()
    }
}

/// Returns a segment, its number of lost events, and its size. `None` if it does not exist yet.
fn read_segment<S: Store + ?Sized>(store: &S, at: usize, stream: u32) -> Option<(Segment, u64, usize)> {
    let mut page = [0; PAGE_USED];
    if !store.load(at, &mut page) {
        return None;
    }
    let shape = Shape::read(&page)?;
    let (tid, first) = (u32_at(&page, segment::TID), at + SEGMENT_HEADER);
    let half = |which: usize| read_half(store, first + which * half_size(shape.half_records), stream, &shape);
    let found = Segment {
        tid,
        open_spans: open_spans(&page, tid),
        halves: (0..shape.halves).map(half).collect::<Option<_>>()?,
        names: (shape.names > NAMES_HEAD).then_some((at + shape.names_at(), shape.names)),
        table: shape.has_table.then_some(first),
    };
    Some((found, u64_at(&page, segment::LOST), shape.size()))
}

fn read_half<S: Store + ?Sized>(store: &S, at: usize, stream: u32, shape: &Shape) -> Option<Half> {
    let mut head = [0; HALF_COUNTED + 4];
    let taken = |head: &[u8]| (u32_at(head, 0) & !HALF_SEALED).min(shape.half_records as u32);
    store.load(at, &mut head).then(|| Half {
        at,
        stream,
        sequence: u32_at(&head, HALF_SEQUENCE),
        taken: taken(&head),
        counted: u32_at(&head, HALF_COUNTED),
    })
}

impl Half {
    /// Returns the complete records that are in no table; `None` if the half has been reused in the meantime.
    pub fn records<S: Store + ?Sized>(&self, store: &S) -> Option<Vec<Record>> {
        let from = if self.counted == HALF_LOST { self.taken } else { self.counted.min(self.taken) };
        let mut bytes = vec![0; (self.taken - from) as usize * RECORD_SIZE];
        let mut head = [0; HALF_COUNTED + 4];
        let whole = store.load(self.at + HALF_HEADER + from as usize * RECORD_SIZE, &mut bytes)
            && store.load(self.at, &mut head)
            && (u32_at(&head, HALF_SEQUENCE), u32_at(&head, HALF_COUNTED)) == (self.sequence, self.counted);
        let records = || bytes.as_chunks::<RECORD_SIZE>().0.iter().map(Record::from_bytes);
        whole.then(|| records().filter(Record::is_complete).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ops::Op;
    use crate::event::record::word;
    use crate::native::names::{NameKind, write_entry};
    use crate::native::ring::NAMES_USED;
    use std::cell::RefCell;

    const SHAPE: Shape = Shape { half_records: 4, halves: 2, names: 64, has_table: false };

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// Returns the offset of a half of the first segment.
    fn half_at(which: usize) -> usize {
        SEGMENTS_START + SEGMENT_HEADER + which * half_size(SHAPE.half_records)
    }

    fn record(half: usize, slot: usize, bytes: &mut [u8]) {
        let at = half_at(half) + HALF_HEADER + slot * RECORD_SIZE;
        put(bytes, at, &word(Op::READ, 0, false, 5).to_le_bytes());
        put(bytes, at + 8, &(100 + slot as u64).to_le_bytes());
    }

    fn ring() -> Vec<u8> {
        let mut bytes = vec![0; SEGMENTS_START + SHAPE.size()];
        put(&mut bytes, header::MAGIC, &MAGIC.to_le_bytes());
        put(&mut bytes, header::VERSION, &VERSION.to_le_bytes());
        put(&mut bytes, header::SEGMENTS, &1u32.to_le_bytes());
        SHAPE.describe(&mut bytes[SEGMENTS_START..]);
        put(&mut bytes, SEGMENTS_START + segment::TID, &7u32.to_le_bytes());
        // The second half is full, with more slots requested; the first has two slots taken, one of them filled.
        put(&mut bytes, half_at(0), &2u32.to_le_bytes());
        put(&mut bytes, half_at(0) + HALF_SEQUENCE, &2u32.to_le_bytes());
        put(&mut bytes, half_at(1), &9u32.to_le_bytes());
        put(&mut bytes, half_at(1) + HALF_SEQUENCE, &1u32.to_le_bytes());
        record(0, 0, &mut bytes);
        (0..4).for_each(|slot| record(1, slot, &mut bytes));
        bytes
    }

    #[test]
    fn only_taken_and_filled_slots_are_read() {
        let bytes = ring();
        let live = Live::read(&bytes[..]).unwrap();
        let counts: Vec<_> =
            live.halves().map(|half| (half.sequence, half.records(&bytes[..]).unwrap().len())).collect();
        assert_eq!((live.segments[0].tid, counts), (7, vec![(2, 1), (1, 4)]));
    }

    #[test]
    fn tallied_and_lost_records_are_skipped() {
        let mut bytes = ring();
        put(&mut bytes, half_at(0) + HALF_COUNTED, &HALF_LOST.to_le_bytes());
        put(&mut bytes, half_at(1) + HALF_COUNTED, &3u32.to_le_bytes());
        let live = Live::read(&bytes[..]).unwrap();
        let counts: Vec<_> = live.halves().map(|half| half.records(&bytes[..]).unwrap().len()).collect();
        assert_eq!(counts, [0, 1]);
    }

    /// A ring whose half is reused as soon as a part of it has been read.
    struct Moving(RefCell<Vec<u8>>);

    impl Store for Moving {
        fn size(&self) -> usize {
            self.0.borrow().len()
        }

        fn load(&self, at: usize, into: &mut [u8]) -> bool {
            let mut bytes = self.0.borrow_mut();
            let loaded = bytes.load(at, into);
            put(&mut bytes, half_at(1) + HALF_SEQUENCE, &3u32.to_le_bytes());
            loaded
        }
    }

    #[test]
    fn reused_half_is_rejected() {
        let bytes = ring();
        let live = Live::read(&bytes[..]).unwrap();
        let moving = Moving(RefCell::new(bytes));
        let read: Vec<_> = live.halves().map(|half| half.records(&moving).is_some()).collect();
        assert_eq!(read, [true, false]);
    }

    #[test]
    fn unwritten_names_are_found() {
        let mut bytes = ring();
        let at = SEGMENTS_START + SHAPE.names_at();
        put(&mut bytes, at, &5u32.to_le_bytes());
        put(&mut bytes, at + NAMES_USED, &6u32.to_le_bytes());
        write_entry(NameKind::Path, b"/ab", &mut bytes[at + NAMES_HEAD..]);
        let names = Live::read(&bytes[..]).unwrap().names(&bytes[..]);
        assert_eq!((names.len(), names[0].0, &names[0].1[3..]), (1, 5, &b"/ab"[..]));
    }

    #[test]
    fn truncated_ring_does_not_panic() {
        let bytes = ring();
        for length in 0..bytes.len() {
            if let Ok(live) = Live::read(&bytes[..length]) {
                live.halves().for_each(|half| drop(half.records(&bytes[..length])));
                live.names(&bytes[..length]);
            }
        }
    }
}
