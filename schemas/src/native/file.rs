//! One process image: its `.dlt`, its leftover ring, or both, read as one.
//!
//! ```text
//! .dlt:  "DLIOTRC1"  version: u32  zero: u32  block  block  block ...
//! ```
//!
//! Facts and names are read immediately, because every block of events needs them. Events are read only when they are
//! decoded, in any order and on any thread.

use std::collections::BTreeMap;

use super::block::{self, HEADER_SIZE, Header, Kind, Opener};
use super::columns::{ColumnSet, EVENTS_MAX, Events};
use super::fields::{Fields, key};
use super::names::Names;
use super::ring::{self, OpenSpan, Ring};
use super::tally::{self, Tallied};
use super::{Damage, VERSION, u32_at};
use crate::event::clock::{Anchor, Clock};

pub const MAGIC: [u8; 8] = *b"DLIOTRC1";
pub const FILE_HEADER: usize = 16;

/// The text before the number of lost events in the name of an empty ring, whose process could not write a single
/// byte.
pub const LOST_IN_NAME: &str = ".lost-";

/// Returns the number of lost events in a file's name.
pub fn lost_in_name(name: &str) -> Option<u64> {
    numbers_in_name(name)?.0.parse().ok()
}

/// Returns the error behind the loss in a file's name: see [`super::trouble`].
pub fn trouble_in_name(name: &str) -> Option<i32> {
    numbers_in_name(name)?.1?.parse().ok()
}

fn numbers_in_name(name: &str) -> Option<(&str, Option<&str>)> {
    let numbers = name.strip_suffix(".ring")?.rsplit_once(LOST_IN_NAME)?.1;
    Some(numbers.split_once('-').map_or((numbers, None), |(lost, trouble)| (lost, Some(trouble))))
}

/// Number of bytes searched at a time for the next whole block after damage.
const SEARCH_WINDOW: usize = 1 << 20;

/// The bytes of a file, in memory or not: a trace may be larger than memory.
pub trait Store {
    fn size(&self) -> usize;

    /// Fills `into` with the bytes at `at`; returns `false` if the file does not have that many.
    fn load(&self, at: usize, into: &mut [u8]) -> bool;
}

impl Store for [u8] {
    fn size(&self) -> usize {
        self.len()
    }

    fn load(&self, at: usize, into: &mut [u8]) -> bool {
        let found = at.checked_add(into.len()).and_then(|end| self.get(at..end));
        if let Some(bytes) = found {
            into.copy_from_slice(bytes);
        }
        found.is_some()
    }
}

/// Returns the first bytes of a `.dlt`.
pub fn file_header() -> [u8; FILE_HEADER] {
    let mut out = [0; FILE_HEADER];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out
}

/// The location of a block that is decoded later.
#[derive(Clone, Copy, Debug)]
pub struct EventBlock {
    pub offset: usize,
    pub header: Header,
}

/// Events found in a ring and not in a block, with the numbers that the block would have had.
#[derive(Debug, Default)]
pub struct Leftover {
    pub tid: u32,
    pub stream: u32,
    pub sequence: u32,
    pub events: Events,
}

/// Everything known about a process image except its events, and the location of those.
#[derive(Debug, Default)]
pub struct Image {
    pub fields: Fields,
    pub names: Names,
    /// Blocks of strings that were skipped: see [`Image::survey`].
    pub name_blocks: Vec<EventBlock>,
    pub anchors: Vec<Anchor>,
    pub blocks: Vec<EventBlock>,
    pub leftovers: Vec<Leftover>,
    pub open_spans: Vec<OpenSpan>,
    /// The counts that replace events.
    pub tally: Option<Tallied>,
    /// The counts of all events of a flight recorder, including those in blocks.
    pub totals: Option<Tallied>,
    pub lost: u64,
    pub filtered: u64,
    pub misused_spans: u64,
    pub names_lost: u64,
    /// Chunks that could not be used, with their offsets in the file.
    pub damage: Vec<(usize, Damage)>,
    /// The first error that caused a loss.
    pub trouble: Option<i32>,
    pub(crate) has_ring: bool,
    /// `true` if the ring's file is shorter than its header says.
    pub(crate) ring_is_cut: bool,
    /// Number of segments of the ring that were lost with their process.
    pub(crate) unsaved: u64,
    /// Number of events in blocks according to the ring.
    pub(crate) written: u64,
    /// Number of events in blocks whose half was not emptied yet: the process was killed after it wrote them, before
    /// or after it counted them as written.
    pub(crate) maybe_uncounted: u64,
    /// Maximum number of calls that may be both in the table of counts and outside it, because their process was
    /// killed while it added them.
    pub twice_most: u64,
    /// Events in a table of counts that was not written completely.
    pub(crate) torn_table: u64,
}

impl Image {
    /// Reads a `.dlt` in memory: see [`Image::from_store`]. The `.dlt` of a short-lived process is its ring.
    pub fn from_dlt(bytes: &[u8]) -> Result<Image, Damage> {
        match bytes.starts_with(&ring::MAGIC.to_le_bytes()) {
            true => Ring::parse(bytes).map(|ring| Image::from_ring(&ring)),
            false => Image::from_store(bytes),
        }
    }

    /// Reads a `.dlt` except its events, which are skipped. Only a file that is not a trace is an error; damage
    /// inside is noted.
    pub fn from_store<S: Store + ?Sized>(store: &S) -> Result<Image, Damage> {
        let mut image = Image::survey(store)?;
        let mut names = std::mem::take(&mut image.names);
        let mut opener = Opener::default();
        for block in std::mem::take(&mut image.name_blocks) {
            if let Err(damage) = learn(&mut names, &block, store, &mut opener) {
                image.damage.push((block.offset, damage));
            }
        }
        image.names = names;
        Ok(image)
    }

    /// Reads a `.dlt` except its events and strings. Strings are verified by their checksums and read later with
    /// [`learn`]: a query on a trace of many processes often needs only one of them.
    pub fn survey<S: Store + ?Sized>(store: &S) -> Result<Image, Damage> {
        let mut head = [0; FILE_HEADER];
        if !store.load(0, &mut head) || head[..8] != MAGIC {
            return Err(Damage::NotATrace);
        }
        let version = u32_at(&head, 8);
        if version > VERSION {
            return Err(Damage::TooNew(version));
        }
        let mut image = Image::default();
        let mut opener = Opener::default();
        let mut table = Vec::new();
        image.walk(store, &mut opener, &mut table);
        image.counters();
        match image.fields.number::<u64>(key::COUNTED) {
            Some(1..) if !table.is_empty() => image.take_tally(Tallied::from_bytes(&table)),
            // Without an ending these are chunks of a table: its events happened, but their details are unknown.
            None if !table.is_empty() && !image.keeps_last() => {
                image.torn_table = Tallied::from_bytes(&table).map_or(0, |tally| tally.events)
            }
            _ => {}
        }
        Ok(image)
    }

    /// Walks from block to block. A block that is not followed by another one is verified before it is accepted: the
    /// rest of a truncated block may be overwritten by others. That rest may follow them, and belongs to the same
    /// damage.
    fn walk<S: Store + ?Sized>(&mut self, store: &S, opener: &mut Opener, table: &mut Vec<u8>) {
        let mut at = FILE_HEADER;
        let mut found = header_at(store, at);
        let mut rests = Vec::new();
        while at < store.size() {
            let (damage, size) = match found {
                Ok(header) => {
                    let end = at + header.size();
                    let next = header_at(store, end);
                    if next.is_ok() || is_whole(store, at, &header) {
                        if let Err(damage) = self.take(header, at, store, opener, table) {
                            self.damage.push((at, damage));
                        }
                        (at, found) = (end, next);
                        continue;
                    }
                    (Damage::Torn, header.size())
                }
                Err(damage) => (damage, 0),
            };
            let from = at;
            at = next_block(store, from + 1);
            found = header_at(store, at);
            let length = at - from;
            if size > length {
                rests.push(size - length);
            } else if let Some(rest) = rests.iter().position(|rest| *rest == length) {
                rests.swap_remove(rest);
                continue;
            }
            // Fewer bytes than a header are the start of one.
            let torn = at < store.size() && length < HEADER_SIZE;
            self.damage.push((from, if torn { Damage::Torn } else { damage }));
        }
    }

    /// Returns an image whose contents are all known from an earlier [`Image::survey`]: see
    /// [`Image::is_of_blocks_alone`].
    pub fn of_blocks(
        fields: Fields,
        anchors: Vec<Anchor>,
        name_blocks: Vec<EventBlock>,
        blocks: Vec<EventBlock>,
    ) -> Image {
        let mut image = Image { fields, anchors, name_blocks, blocks, ..Image::default() };
        image.counters();
        image
    }

    /// Returns `true` if it contains only the data that [`Image::of_blocks`] accepts.
    pub fn is_of_blocks_alone(&self) -> bool {
        let has_counts = self.tally.is_some() || self.totals.is_some();
        let holds_more = self.has_ring || has_counts || !self.leftovers.is_empty();
        !holds_more && self.open_spans.is_empty() && self.names.iter().next().is_none() && self.damage.is_empty()
    }

    /// Reads a leftover ring without blocks.
    pub fn from_ring(ring: &Ring) -> Image {
        let mut image = Image::default();
        image.add_ring(ring);
        image
    }

    /// Adds the events of a leftover ring that are not in the blocks. A trace with an ending is complete: its ring
    /// merely could not be removed.
    pub fn add_ring(&mut self, ring: &Ring) {
        self.has_ring = true;
        if self.has_ended() {
            return;
        }
        // No hash sets: a traced process runs this, too, and the hash sets of the standard library need a newer C
        // library.
        let written: BTreeMap<_, _> =
            self.blocks.iter().map(|b| ((b.header.stream, b.header.sequence), b.header.count)).collect();
        for (key, value) in ring.fields.iter() {
            if self.fields.get(key).is_none() {
                self.fields.set(key, value);
            }
        }
        self.anchors.extend([ring.first_anchor, ring.last_anchor].into_iter().filter(|a| a.ticks != 0));
        for (first, entries) in &ring.names {
            if let Err(damage) = self.names.add(*first, entries) {
                self.damage.push((0, damage));
            }
        }
        for (stream, segment) in (0u32..).zip(&ring.segments) {
            self.lost += segment.lost;
            self.open_spans.extend(&segment.open_spans);
            for half in segment.halves.iter().filter(|half| !half.records.is_empty()) {
                if let Some(count) = written.get(&(stream, half.sequence)) {
                    self.maybe_uncounted += *count as u64;
                } else {
                    let mut events = Events::default();
                    half.records.iter().for_each(|record| events.push(record));
                    self.leftovers.push(Leftover { tid: segment.tid, stream, sequence: half.sequence, events });
                }
            }
        }
        // The chunks in the blocks belong to a table that was being written.
        (self.tally, self.totals) = (None, None);
        if let Some(tally) = &ring.tally {
            self.take_tally(tally.clone());
        }
        if self.tally.as_ref().is_some_and(|tally| tally.is_unfinished) {
            let halves = ring.segments.iter().flat_map(|segment| &segment.halves);
            let left = halves.map(|half| half.records.len()).max();
            self.twice_most = left.unwrap_or(0).min(tally::TOGETHER_MAX) as u64;
        }
        self.ring_is_cut = ring.cut;
        (self.unsaved, self.written) = (ring.unsaved, ring.written);
        self.trouble = Some(ring.trouble).filter(|trouble| *trouble != 0).or(self.trouble);
        self.lost += ring.lost;
        self.filtered = self.filtered.max(ring.filtered);
        self.misused_spans = self.misused_spans.max(ring.misused_spans);
        self.names_lost = self.names_lost.max(ring.names_lost);
    }

    /// Notes the number of lost events of a process that ended properly, without space to record that in a file.
    pub fn add_lost(&mut self, lost: u64) {
        self.has_ring = true;
        // The events of a table are included in the lost ones.
        self.tally = None;
        self.lost += lost;
    }

    /// Returns `true` if the trace contains the ending of its process.
    pub fn has_ended(&self) -> bool {
        self.fields.get(key::ENDED).is_some()
    }

    /// Returns `true` if its process kept the events of the last period only: a flight recorder.
    pub fn keeps_last(&self) -> bool {
        self.fields.get(key::LAST_NS).is_some()
    }

    /// Returns the number of events missing in addition to those counted as lost; `None` if unknown.
    ///
    /// If the process recorded its ending, its own counts are used. If it was killed, its ring contains the events
    /// that the blocks lack, including those of a block that was not written completely.
    pub fn missing(&self) -> Option<u64> {
        if self.has_ended() {
            let counted = self.fields.number::<u64>(key::EVENTS);
            return counted
                .map(|counted| counted.saturating_sub(self.events()))
                .or_else(|| self.damage.is_empty().then_some(0));
        }
        (self.unsaved == 0 && self.uncertain() == 0).then(|| self.missing_most()).flatten()
    }

    /// Returns the number of [`missing`](Self::missing) events, or an upper limit if it is unknown: the contents of
    /// private memory are lost by a kill, and they are at most as many as the halves of its segments hold.
    pub fn missing_most(&self) -> Option<u64> {
        if self.has_ended() {
            return self.missing();
        }
        let sound = self.written > 0 || self.damage.iter().all(|(_, damage)| is_of_the_writer(damage));
        let in_memory = self.unsaved.saturating_mul(2 * EVENTS_MAX as u64);
        let most = || self.missing_blocks().saturating_add(in_memory).saturating_add(self.uncertain());
        (self.has_ring && !self.ring_is_cut && sound).then(most)
    }

    /// Returns the number of events in blocks that may be missing in addition to
    /// [`missing_blocks`](Self::missing_blocks): if others truncated the file, blocks that were not counted hide as many
    /// lost ones.
    pub fn uncertain(&self) -> u64 {
        let last = self.blocks.last().map_or(0, |block| block.offset);
        let is_cut = self.missing_blocks() > 0 || self.damage.iter().any(|(at, _)| *at < last);
        if is_cut { self.maybe_uncounted } else { 0 }
    }

    /// Returns the number of events that happened and are not recorded, as far as known.
    pub fn lost_in_all(&self) -> u64 {
        let torn = if self.has_ring { 0 } else { self.torn_table };
        self.lost + torn + self.missing().unwrap_or_else(|| self.missing_blocks())
    }

    /// Returns the number of events that went into blocks and are in none, because the file was truncated or removed.
    fn missing_blocks(&self) -> u64 {
        self.written.saturating_sub(self.blocks.iter().map(|block| block.header.count as u64).sum())
    }

    /// Returns the process's clock; `None` if no anchor was found.
    pub fn clock(&self) -> Option<Clock> {
        Clock::new(&self.anchors, self.fields.number(key::CLOCK_HZ))
    }

    /// Returns the number of events in blocks and leftovers, including metadata records, and of counted events.
    pub fn events(&self) -> u64 {
        let blocks: u64 = self.blocks.iter().map(|b| b.header.count as u64).sum();
        let leftovers: u64 = self.leftovers.iter().map(|leftover| leftover.events.len() as u64).sum();
        blocks + leftovers + self.tally.as_ref().map_or(0, |tally| tally.events)
    }

    /// Returns the last tick of any recorded data.
    pub fn last_tick(&self) -> u64 {
        let blocks = self.blocks.iter().map(|b| b.header.last);
        let left =
            self.leftovers.iter().flat_map(|l| l.events.start.iter().zip(&l.events.duration).map(|(s, d)| s + d));
        let counted = self.tally.iter().flat_map(|tally| tally.rows.iter().map(|row| row.last));
        blocks.chain(left).chain(counted).chain(self.anchors.iter().map(|a| a.ticks)).max().unwrap_or(0)
    }

    fn take<S: Store + ?Sized>(
        &mut self,
        header: Header,
        at: usize,
        store: &S,
        opener: &mut Opener,
        table: &mut Vec<u8>,
    ) -> Result<(), Damage> {
        if header.anchor.ticks != 0 {
            self.anchors.push(header.anchor);
        }
        if header.kind == Kind::Events {
            self.blocks.push(EventBlock { offset: at, header });
            return Ok(());
        }
        let mut bytes = vec![0; header.size()];
        if !store.load(at, &mut bytes) {
            return Err(Damage::Cut);
        }
        if header.kind == Kind::Names {
            header.proved(&bytes)?;
            self.name_blocks.push(EventBlock { offset: at, header });
            return Ok(());
        }
        let payload = opener.open(&header, &bytes)?;
        match header.kind {
            Kind::Tally => place(payload, header.first as usize, table),
            _ => self.fields.merge(payload),
        }
    }

    fn take_tally(&mut self, tally: Result<Tallied, Damage>) {
        match tally {
            Ok(tally) if self.keeps_last() => self.totals = Some(tally),
            Ok(tally) => self.tally = Some(tally),
            Err(damage) => self.damage.push((0, damage)),
        }
    }

    fn counters(&mut self) {
        self.lost = self.fields.number(key::LOST).unwrap_or(0);
        self.trouble = self.fields.number(key::TROUBLE);
        self.filtered = self.fields.number(key::FILTERED).unwrap_or(0);
        self.misused_spans = self.fields.number(key::MISUSED_SPANS).unwrap_or(0);
        self.names_lost = self.fields.number(key::NAMES_LOST).unwrap_or(0);
    }
}

/// Returns `true` for damage left by a writer that has no space or is killed: the writer has counted the loss, or the
/// ring has the events.
pub fn is_of_the_writer(damage: &Damage) -> bool {
    matches!(damage, Damage::Cut | Damage::Torn)
}

/// Puts a chunk of a table of counts at its offset.
fn place(piece: &[u8], at: usize, table: &mut Vec<u8>) -> Result<(), Damage> {
    table.resize(tally::SIZE, 0);
    let room = at.checked_add(piece.len()).and_then(|end| table.get_mut(at..end));
    room.ok_or(Damage::Broken("a table of counts"))?.copy_from_slice(piece);
    Ok(())
}

/// Reads one block of strings that [`Image::survey`] skipped.
pub fn learn<S: Store + ?Sized>(
    names: &mut Names,
    block: &EventBlock,
    store: &S,
    opener: &mut Opener,
) -> Result<(), Damage> {
    let mut bytes = vec![0; block.header.size()];
    if !store.load(block.offset, &mut bytes) {
        return Err(Damage::Cut);
    }
    names.add(block.header.first as u32, opener.open(&block.header, &bytes)?)
}

/// Decodes one block of events; `bytes` are those of the file.
pub fn decode(block: &EventBlock, bytes: &[u8], opener: &mut Opener, into: &mut Events) -> Result<(), Damage> {
    decode_block(&block.header, bytes.get(block.offset..).ok_or(Damage::Cut)?, opener, into)
}

/// Decodes one block of events; `bytes` begin with its header.
pub fn decode_block(header: &Header, bytes: &[u8], opener: &mut Opener, into: &mut Events) -> Result<(), Damage> {
    let payload = opener.open(header, bytes)?;
    into.decode(payload, header.count as usize, header.first)
}

/// Decodes a block like [`decode_block`], but only the requested columns, which are chosen once the operations are
/// known.
pub fn decode_some(
    header: &Header,
    bytes: &[u8],
    opener: &mut Opener,
    into: &mut Events,
    ask: impl FnOnce(&[u16]) -> ColumnSet,
) -> Result<(), Damage> {
    let payload = opener.open(header, bytes)?;
    into.decode_some(payload, header.count as usize, header.first, ask)
}

/// Returns a verified header whose whole block is in the file.
pub fn header_at<S: Store + ?Sized>(store: &S, at: usize) -> Result<Header, Damage> {
    let mut head = [0; HEADER_SIZE];
    if !store.load(at, &mut head) {
        return Err(Damage::Cut);
    }
    let header = Header::from_bytes(&head)?;
    if at + header.size() <= store.size() { Ok(header) } else { Err(Damage::Cut) }
}

fn is_whole<S: Store + ?Sized>(store: &S, at: usize, header: &Header) -> bool {
    let mut bytes = vec![0; header.size()];
    store.load(at, &mut bytes) && header.proved(&bytes).is_ok()
}

/// Returns the next offset at or after `from` of a block with a valid header, or the end.
pub fn next_block<S: Store + ?Sized>(store: &S, from: usize) -> usize {
    let magic = block::MAGIC.to_le_bytes();
    let mut window = vec![0; SEARCH_WINDOW];
    let mut at = from;
    while at + HEADER_SIZE <= store.size() {
        window.resize(SEARCH_WINDOW.min(store.size() - at), 0);
        if !store.load(at, &mut window) {
            break;
        }
        let places = window.windows(magic.len()).enumerate().filter(|(_, bytes)| *bytes == magic);
        let found = places.map(|(place, _)| at + place).find(|&place| header_at(store, place).is_ok());
        if let Some(place) = found {
            return place;
        }
        // The last bytes may be the start of a magic number.
        at += (window.len() - magic.len() + 1).max(1);
    }
    store.size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ops::Op;
    use crate::event::record::{Record, word};
    use crate::native::block::Codec;
    use crate::native::fields::FieldWriter;
    use crate::native::names::{NameKind, entry_size, write_entry};

    fn block(kind: Kind, sequence: u32, count: u32, first: u64, payload: &[u8]) -> Vec<u8> {
        let anchor = Anchor { ticks: 1, boot_ns: 1, real_ns: 1 };
        let mut header = Header { sequence, count, first, anchor, ..Header::new(kind) };
        [&header.seal(Codec::Raw, payload.len(), payload)[..], payload].concat()
    }

    fn events_block(sequence: u32) -> Vec<u8> {
        let records: Vec<_> = (0..10)
            .map(|i| Record { word: word(Op::READ, 0, false, 5), start: 100 + i * 10, file: 1, ..Record::default() })
            .collect();
        let mut out = vec![0; super::super::columns::RAW_MAX];
        let used = super::super::columns::encode(&records, &mut Default::default(), &mut out);
        block(Kind::Events, sequence, 10, 100, &out[..used])
    }

    fn sample() -> (Vec<u8>, Vec<usize>) {
        let mut facts = [0; 64];
        let mut writer = FieldWriter::new(&mut facts);
        writer.number(key::PID, 42);
        let used = writer.used();
        let mut name = vec![0; entry_size(b"/data/a")];
        write_entry(NameKind::Path, b"/data/a", &mut name);
        let pieces = [
            file_header().to_vec(),
            block(Kind::Process, 0, 1, 0, &facts[..used]),
            block(Kind::Names, 0, 1, 1, &name),
            events_block(0),
            events_block(1),
        ];
        let mut ends = Vec::new();
        let bytes = pieces.iter().fold(Vec::new(), |mut all, piece| {
            all.extend_from_slice(piece);
            ends.push(all.len());
            all
        });
        (bytes, ends)
    }

    #[test]
    fn a_whole_file_is_read() {
        let (bytes, _) = sample();
        let image = Image::from_dlt(&bytes).unwrap();
        assert_eq!((image.fields.number(key::PID), image.events(), image.damage.len()), (Some(42), 20, 0));
        assert_eq!(image.names.text(1).unwrap(), "/data/a");
        let mut events = Events::default();
        decode(&image.blocks[1], &bytes, &mut Opener::default(), &mut events).unwrap();
        assert_eq!(events.start[9], 190);
    }

    #[test]
    fn truncated_file_loses_only_the_cut_part() {
        let (bytes, ends) = sample();
        for cut in FILE_HEADER..bytes.len() {
            let image = Image::from_dlt(&bytes[..cut]).unwrap();
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(image.events(), 10 * whole.saturating_sub(3) as u64, "cut at {cut}");
            assert_eq!(image.damage.is_empty(), ends.contains(&cut), "cut at {cut}");
        }
    }

    #[test]
    fn truncated_block_loses_only_itself() {
        let (bytes, ends) = sample();
        for cut in ends[2] + 1..ends[3] {
            let torn = [&bytes[..cut], &events_block(3), &events_block(5)].concat();
            let image = Image::from_dlt(&torn).unwrap();
            let found: Vec<_> = image.blocks.iter().map(|block| block.header.sequence).collect();
            assert_eq!((found, image.events()), (vec![3, 5], 20), "cut at {cut}");
            assert_eq!(image.damage, [(ends[2], Damage::Torn)], "cut at {cut}");
        }
    }

    #[test]
    fn torn_block_keeps_the_blocks_inside_it() {
        let (bytes, ends) = sample();
        let (start, end) = (ends[2], ends[3]);
        for cut in start + HEADER_SIZE..end {
            let (before, rest) = bytes[..end].split_at(cut);
            for between in [vec![3], vec![3, 5]] {
                let blocks: Vec<u8> = between.iter().flat_map(|sequence| events_block(*sequence)).collect();
                for after in [vec![], events_block(7)] {
                    let torn = [before, &blocks, rest, &after].concat();
                    let image = Image::from_dlt(&torn).unwrap();
                    let events = 10 * (between.len() + !after.is_empty() as usize);
                    assert_eq!((image.events(), &image.damage[..]), (events as u64, &[(start, Damage::Torn)][..]));
                }
                // A range of another length is not the rest.
                let odd = [before, &blocks, rest, b"x", &events_block(7)].concat();
                assert_eq!(Image::from_dlt(&odd).unwrap().damage.len(), 2, "cut at {cut}");
            }
        }
    }

    #[test]
    fn block_that_may_not_be_counted_makes_the_loss_a_range() {
        let (bytes, ends) = sample();
        let segment = |sequence| {
            let half = ring::Half { sequence, records: vec![Record::default(); 10], tallied: 0 };
            ring::Segment { halves: vec![half], ..ring::Segment::default() }
        };
        // The process was killed when it had written the block 1, and had not emptied its half.
        let killed = |bytes: &[u8], written| {
            let mut image = Image::from_dlt(bytes).unwrap();
            image.add_ring(&Ring { written, segments: vec![segment(1)], ..Ring::default() });
            (image.missing(), image.missing_most())
        };
        assert_eq!(killed(&bytes, 10), (Some(0), Some(0)));
        assert_eq!(killed(&bytes, 20), (Some(0), Some(0)));
        // The block before it is lost: if the later one was not counted, the numbers agree.
        let cut = [&bytes[..ends[2]], &[0; 8], &bytes[ends[3]..]].concat();
        assert_eq!(killed(&cut, 10), (None, Some(10)));
        assert_eq!(killed(&cut, 20), (None, Some(20)));
    }

    #[test]
    fn ring_replaces_a_torn_block_after_a_kill() {
        let (bytes, ends) = sample();
        let cut = (ends[2] + ends[3]) / 2;
        let torn = [&bytes[..cut], &events_block(3), &bytes[cut..ends[3]]].concat();
        let mut image = Image::from_dlt(&torn).unwrap();
        assert_eq!(image.missing(), None);
        image.add_ring(&Ring { lost: 10, ..Ring::default() });
        assert_eq!((image.missing(), image.events(), image.lost), (Some(0), 10, 10));
        // If the ring itself is incomplete, the number is unknown.
        let mut image = Image::from_dlt(&torn).unwrap();
        image.add_ring(&Ring { lost: 10, cut: true, ..Ring::default() });
        assert_eq!(image.missing(), None);
    }

    #[test]
    fn missing_events_of_an_ended_trace_are_counted() {
        let (bytes, ends) = sample();
        let mut facts = [0; 64];
        let mut writer = FieldWriter::new(&mut facts);
        writer.text(key::ENDED, b"exit 0");
        writer.number(key::EVENTS, 20);
        let used = writer.used();
        let mut whole = [&bytes[..], &block(Kind::Process, 0, 1, 0, &facts[..used])].concat();
        assert_eq!(Image::from_dlt(&whole).unwrap().missing(), Some(0));
        whole[ends[2] + 4] ^= 1;
        assert_eq!(Image::from_dlt(&whole).unwrap().missing(), Some(10));
        assert_eq!(Image::from_dlt(&bytes).unwrap().missing(), None);
    }

    #[test]
    fn file_name_contains_the_loss() {
        assert_eq!(lost_in_name("cp-host-1-2.lost-345.ring"), Some(345));
        assert_eq!(lost_in_name("cp-host-1-2.ring"), None);
    }

    #[test]
    fn damaged_byte_loses_at_most_its_block() {
        let (bytes, _) = sample();
        for at in FILE_HEADER..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x55;
            let image = Image::from_dlt(&broken).unwrap();
            let mut opener = Opener::default();
            let mut events = Events::default();
            let good = image.blocks.iter().filter(|b| decode(b, &broken, &mut opener, &mut events).is_ok()).count();
            assert!(good >= 1, "byte {at}");
        }
    }

    #[test]
    fn foreign_and_newer_files_are_distinguished() {
        assert_eq!(Image::from_dlt(b"#!/bin/sh\nexit 0 and more").unwrap_err(), Damage::NotATrace);
        assert_eq!(Image::from_dlt(b"").unwrap_err(), Damage::NotATrace);
        let mut newer = file_header();
        newer[8] = VERSION as u8 + 1;
        assert_eq!(Image::from_dlt(&newer).unwrap_err(), Damage::TooNew(VERSION + 1));
    }
}
