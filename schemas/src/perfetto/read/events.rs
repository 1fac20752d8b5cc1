//! Conversion from track events to records.

use super::annotations::Slots;
use super::interned::{AnnotationName, Category, EventName, Interned};
use super::{NameIds, Reader, Take, name_id};
use crate::event::devices;
use crate::event::ops::{Layer, Op};
use crate::event::record::{DEPTH_MAX, MetaKind, Record, STEP_NONE, pack_steps, word};
use crate::export::key::Key;
use crate::native::columns::EVENTS_MAX;
use crate::native::names::{NameKind, Names};
use crate::native::ring::OpenSpan;
use crate::perfetto::proto::{self, Value, Walk, field, value, varint};

/// Maximum number of open slices on a track; deeper ones are ignored.
const OPEN_MAX: usize = 4096;

/// The end of the innermost slice of its sequence's own track, as our writer writes it: every other event.
const PLAIN_END: [u8; 2] = [(field::event::TYPE << 3) as u8, value::SLICE_END as u8];

/// An open slice.
pub(super) struct Open {
    pub(super) record: Record,
    pub(super) metadata: Vec<Record>,
    pub(super) unfinished: bool,
}

impl Reader {
    /// Reads one track event at its time.
    pub(super) fn event(&mut self, message: &[u8], time: u64, sequence: usize, take: &mut Take) {
        let home = match self.sequences[sequence].track_at {
            Some(at) => at,
            None => self.track(self.sequences[sequence].track),
        };
        self.sequences[sequence].track_at = Some(home);
        if self.tracks[home].derived {
            return;
        }
        self.last_ns = self.last_ns.max(time);
        if message == PLAIN_END {
            return self.end(home, home, time, take);
        }
        let mut parser = EventParser {
            interned: &self.sequences[sequence].interned,
            names: &mut self.names,
            ids: &mut self.name_ids,
            slots: &mut self.slots,
            skipped: &mut self.skipped,
        };
        let event = parser.parse(message);
        let at = event.track.map_or(home, |uuid| self.track(uuid));
        match event.kind {
            value::SLICE_BEGIN => self.begin(home, at, &event, time),
            value::SLICE_END => self.end(home, at, time, take),
            value::INSTANT | value::COUNTER => {
                let mut open = self.open(home, at, &event, time);
                if self.slots.has(Key::Dur) {
                    open.end(time.wrapping_add(self.slots.number(Key::Dur) as u64));
                }
                self.emit(self.stream_of(home, at), &open, take);
            }
            _ => self.skipped += 1,
        }
    }

    /// Returns the stream of an event: regardless of the track that our writer draws it on, it belongs to the thread
    /// of its sequence.
    fn stream_of(&self, home: usize, at: usize) -> usize {
        if self.tracks[home].ours { self.tracks[home].stream } else { self.tracks[at].stream }
    }

    fn begin(&mut self, home: usize, at: usize, event: &Event, time: u64) {
        if self.tracks[at].open.len() >= OPEN_MAX {
            self.skipped += 1;
            return;
        }
        let open = self.open(home, at, event, time);
        self.tracks[at].open.push(open);
    }

    fn end(&mut self, home: usize, at: usize, time: u64, take: &mut Take) {
        let Some(mut open) = self.tracks[at].open.pop() else {
            self.skipped += 1;
            return;
        };
        open.end(time);
        if open.unfinished {
            let track = &self.tracks[home];
            self.processes[track.process].open_spans.push(open_span(track.tid, &open));
            return;
        }
        self.emit(self.stream_of(home, at), &open, take);
    }

    /// Returns the event as a record without its end.
    fn open(&mut self, home: usize, at: usize, event: &Event, time: u64) -> Open {
        let nested = self.tracks[at].open.len().min(DEPTH_MAX as usize) as u8;
        let depth = event.category.filter(|_| self.tracks[home].ours).map_or(nested, |category| category.depth);
        let op = event.operation();
        let mut record = Record { start: time, fd: -1, ..Record::default() };
        let mut metadata = Vec::new();
        let ours = self.tracks[home].ours;
        let known = match op {
            Op::SPAN | Op::INSTANT | Op::COUNTER => {
                let track_name = self.tracks[at].name;
                let own_name = event.name.map_or(track_name, |name| name.id);
                record.file = if own_name != 0 { own_name } else { self.name(NameKind::Span, b"unnamed") };
                // A span without a category belongs to the application.
                record.fd = event.category.filter(|category| category.layer.is_none()).map_or(0, |c| c.id as i32);
                if !self.without_metadata {
                    self.slots.fill_metadata(time, ours, &mut metadata);
                    metadata.iter_mut().for_each(|meta| self.retype_text(meta));
                } else if event.category.is_some_and(|category| self.is_of_device(category.id)) {
                    // Work of GPUs is counted by its metadata.
                    self.slots.fill_others(time, &mut metadata);
                }
                self.slots.fill_span(&mut record, event.counter)
            }
            op => {
                let layer = op.info().map(|info| info.layer);
                // Calls of libraries are counted by their metadata.
                let is_told = layer.is_some_and(Layer::is_library)
                    || layer.is_some_and(Layer::has_metadata) && !self.without_metadata;
                if is_told {
                    self.slots.fill_others(time, &mut metadata);
                    metadata.iter_mut().for_each(|meta| self.retype_text(meta));
                }
                self.slots.fill_call(&mut record, op.info())
            }
        };
        if ours {
            metadata.extend(self.slots.counters(time));
        }
        record.word = word(op, depth, known, 0);
        Open { record, metadata, unfinished: self.slots.has(Key::Unfinished) }
    }

    fn is_of_device(&self, category: u32) -> bool {
        self.names.get(category).is_some_and(|(_, text)| devices::is_of_device(text))
    }

    /// Files and texts are interned in one table, and treated as files until a span defines otherwise.
    fn retype_text(&mut self, meta: &mut Record) {
        if meta.fd == MetaKind::Text as i32
            && let Some((NameKind::Path | NameKind::Object, text)) = self.names.get(meta.a as u32)
        {
            let text = text.to_vec();
            meta.a = self.name(NameKind::Text, &text) as i64;
        }
    }

    fn name(&mut self, kind: NameKind, text: &[u8]) -> u32 {
        name_id(&mut self.names, &mut self.name_ids, kind, text)
    }

    fn emit(&mut self, stream: usize, open: &Open, take: &mut Take) {
        let stream = &mut self.streams[stream];
        if stream.events.len() + open.metadata.len() >= EVENTS_MAX {
            take(stream.batch(&self.names, &self.processes, &self.clocks));
            stream.events.clear();
        }
        open.metadata.iter().for_each(|meta| stream.events.push(meta));
        stream.events.push(&open.record);
    }
}

impl Open {
    fn end(&mut self, time: u64) {
        let record = &mut self.record;
        let duration = time.saturating_sub(record.start);
        record.word = word(record.op(), record.depth(), record.known(), duration);
        // Counters are read when their event ends.
        let is_counters = |meta: &&mut Record| meta.fd == MetaKind::Counters as i32;
        self.metadata.iter_mut().filter(is_counters).for_each(|counters| counters.start = time);
    }
}

/// Returns a span of this thread that had not ended.
pub(super) fn open_span(tid: u32, open: &Open) -> OpenSpan {
    let record = &open.record;
    OpenSpan {
        tid,
        depth: record.depth(),
        start: record.start,
        name: record.file,
        category: record.fd.max(0) as u32,
        steps: if record.known() { record.a } else { pack_steps(STEP_NONE, STEP_NONE) },
    }
}

/// A track event with its strings resolved; its annotations are in [`Slots`].
#[derive(Default)]
struct Event {
    kind: u64,
    name: Option<EventName>,
    category: Option<Category>,
    track: Option<u64>,
    counter: Option<f64>,
}

impl Event {
    fn operation(&self) -> Op {
        let layer = self.category.and_then(|category| category.layer);
        let ours = self.name.and_then(|name| name.op).filter(|op| op.info().map(|info| info.layer) == layer);
        ours.unwrap_or(match self.kind {
            value::INSTANT => Op::INSTANT,
            value::COUNTER => Op::COUNTER,
            _ => Op::SPAN,
        })
    }
}

struct EventParser<'r> {
    interned: &'r Interned,
    names: &'r mut Names,
    ids: &'r mut NameIds,
    slots: &'r mut Slots,
    skipped: &'r mut u64,
}

impl EventParser<'_> {
    fn parse(&mut self, message: &[u8]) -> Event {
        use field::event as f;
        let mut event = Event::default();
        self.slots.clear();
        let mut walk = Walk::new(message);
        while let Some(Ok((number, value))) = walk.next() {
            match number {
                f::TYPE => event.kind = value.number(),
                f::NAME_IID => event.name = self.interned.event_names.get(value.number()),
                f::CATEGORY_IIDS => {
                    event.category = first_iid(value).and_then(|iid| self.interned.categories.get(iid));
                }
                f::TRACK => event.track = Some(value.number()),
                f::ANNOTATIONS => self.annotation(value.bytes()),
                f::NAME => event.name = Some(EventName { id: self.name(NameKind::Span, value.bytes()), op: None }),
                f::CATEGORIES if event.category.is_none() => {
                    let id = self.name(NameKind::Category, value.bytes());
                    event.category = Some(Category { id, layer: None, depth: 0 });
                }
                f::COUNTER => event.counter = Some(value.number() as i64 as f64),
                f::COUNTER_DOUBLE => event.counter = Some(f64::from_bits(value.number())),
                _ => (),
            }
        }
        event
    }

    fn annotation(&mut self, message: &[u8]) {
        use field::annotation as f;
        if let Some((name, field, value)) = two_numbers(message) {
            let name = self.interned.annotation_names.get(name);
            let found = match field {
                f::STRING_IID => self.interned.strings.get(value).map(|id| (MetaKind::Text, id as i64)),
                _ => Some((MetaKind::Int, value as i64)),
            };
            return match (name, found) {
                (Some(name), Some((kind, value))) => self.slots.put(name, kind, value),
                _ => *self.skipped += 1,
            };
        }
        let mut name = None;
        let mut found = None;
        for (number, value) in Walk::new(message).flatten() {
            match number {
                f::NAME_IID => name = self.interned.annotation_names.get(value.number()),
                f::NAME => name = Some(AnnotationName { id: self.name(NameKind::Text, value.bytes()), key: None }),
                f::BOOL | f::UINT | f::INT | f::POINTER => found = Some((MetaKind::Int, value.number() as i64)),
                f::DOUBLE => found = Some((MetaKind::Float, value.number() as i64)),
                f::STRING => found = Some((MetaKind::Text, self.name(NameKind::Text, value.bytes()) as i64)),
                f::STRING_IID => {
                    found = self.interned.strings.get(value.number()).map(|id| (MetaKind::Text, id as i64));
                }
                _ => (),
            }
        }
        match (name, found) {
            (Some(name), Some((kind, value))) => self.slots.put(name, kind, value),
            // Dictionaries, lists and messages, or a string that was not interned.
            _ => *self.skipped += 1,
        }
    }

    fn name(&mut self, kind: NameKind, text: &[u8]) -> u32 {
        name_id(self.names, self.ids, kind, text)
    }
}

/// Reads the most common annotation: the number of its name, then a value's field and number.
#[inline(always)]
fn two_numbers(annotation: &[u8]) -> Option<(u64, u32, u64)> {
    use field::annotation as f;
    const NAME_IID: u8 = (f::NAME_IID << 3) as u8;
    let mut rest = annotation.strip_prefix(&[NAME_IID])?;
    let name = varint(&mut rest)?;
    let tag = varint(&mut rest)?;
    let value = varint(&mut rest)?;
    let field = u32::try_from(tag >> 3).ok().filter(|_| tag & 7 == proto::VARINT as u64)?;
    let known = matches!(field, f::BOOL | f::UINT | f::INT | f::POINTER | f::STRING_IID);
    (known && rest.is_empty()).then_some((name, field, value))
}

/// Returns the first interned category, which is the one that counts; they may be packed.
fn first_iid(value: Value) -> Option<u64> {
    match value {
        Value::Bytes(mut packed) => varint(&mut packed),
        value => Some(value.number()),
    }
}
