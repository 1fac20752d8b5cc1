//! Converts a process's own numbers to the catalog's, and its clock to Unix time.
//!
//! dlio's traces, native or exported, contain events in one representation: operations, ticks, numbers of strings. A
//! [`Resolver`] knows one process and converts that representation into batches.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, OnceLock};

use dlio_schemas::clock::Clock;
use dlio_schemas::devices::DEVICE;
use dlio_schemas::evidence::Counters;
use dlio_schemas::native::columns::{ColumnSet, Events};
use dlio_schemas::native::names::{NameKind, Names};
use dlio_schemas::native::ring::OpenSpan;
use dlio_schemas::ops::{Arg as Meaning, Layer, OP_MAX, Op};
use dlio_schemas::readable::readable;
use dlio_schemas::record::{MetaKind, POS_UNKNOWN, STEP_NONE, unpack_steps};
use foldhash::fast::RandomState;

use crate::argument_key::ArgumentKey;
use crate::batch::{ABSENT, ABSENT_32, Arg, Batch, Columns, Row, Usage, Value, Wake, Wanted};
use crate::catalog::{Catalog, FILE_NONE, Origin};
use crate::load::events::arguments::{self, arguments};
use crate::load::events::parser::COUNTS;
use crate::load::events::transfers::note_source;

/// The largest gap of the numbers of files beyond their count, for the numbers in between that are not files.
const NAME_GAP_MAX: usize = 1 << 22;

fn is_file(kind: NameKind) -> bool {
    matches!(kind, NameKind::Path | NameKind::Object)
}

/// Ends of events, kept between batches.
#[derive(Default)]
pub struct Times {
    ends: Vec<u64>,
    end_ns: Vec<i64>,
}

/// Converts the events of one process.
pub struct Resolver {
    pub proc: u32,
    clock: Clock,
    /// Unix time minus boot time.
    offset: i64,
    /// Numbers of files by the process's own numbers.
    files: Vec<u32>,
    /// Strings that are not files: of spans, categories, metadata.
    texts: HashMap<u32, Text, RandomState>,
    /// The process calls libraries above the file system.
    has_data_sets: bool,
    /// Metadata of its spans may name a GPU.
    has_devices: bool,
    /// Kinds of the program's own events, by operation, name and category.
    app_kinds: Mutex<HashMap<AppKey, u32, RandomState>>,
}

type AppKey = (u16, u32, i32);

/// Stands for a string that is missing in the trace.
const NAME_LOST: &str = "<name lost>";

/// A string of a process.
struct Text {
    text: String,
    /// Its number among the texts of the catalog, once an argument has used it.
    number: OnceLock<u32>,
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text { text, number: OnceLock::new() }
    }
}

/// The properties of an operation that a block needs, without a lookup of its row.
#[derive(Clone, Copy, Default)]
struct Traits {
    kind: u32,
    position: bool,
    size: bool,
    moves: bool,
    /// Moves bytes from another file.
    source: bool,
    /// Records which thread ended it, and what it waited on.
    woken: bool,
    /// Was recorded by the program itself, or describes other events.
    app: bool,
    /// Has metadata, although it is a call.
    told: bool,
    /// Is a call of a library above the file system, which is always counted with its metadata.
    library: bool,
    known: bool,
}

/// Calls that record the peer of a socket.
const TELLS_PEER: [Op; 4] = [Op::ACCEPT, Op::ACCEPT4, Op::CONNECT, Op::SOCKETPAIR];

static TRAITS: LazyLock<Vec<Traits>> = LazyLock::new(|| (0..=OP_MAX).map(|op| traits(Op(op))).collect());

fn traits(op: Op) -> Traits {
    let Some(info) = op.info() else { return Traits::default() };
    Traits {
        kind: Catalog::kind_of_op(op).unwrap_or(0),
        position: info.a == Meaning::Position,
        size: info.b == Meaning::Size,
        moves: info.moves_bytes(),
        source: info.a == Meaning::Source,
        woken: info.b == Meaning::Waker || info.a == Meaning::Child || TELLS_PEER.contains(&op),
        app: info.layer == Layer::App,
        told: info.layer.has_metadata(),
        library: info.layer.is_library(),
        known: true,
    }
}

impl Resolver {
    pub fn new(proc: u32, clock: Clock, offset: i64) -> Resolver {
        Resolver {
            proc,
            clock,
            offset,
            files: Vec::new(),
            texts: HashMap::default(),
            has_data_sets: false,
            has_devices: false,
            app_kinds: Mutex::default(),
        }
    }

    pub fn unix_ns(&self, ticks: u64) -> i64 {
        (self.clock.boot_ns(ticks) as i64).wrapping_add(self.offset)
    }

    /// Returns the length of a duration that started at a tick.
    pub fn length_ns(&self, start: u64, ticks: u64) -> u64 {
        self.clock.duration_ns(start, ticks)
    }

    /// Returns the number of a file by the process's own number.
    pub fn file(&self, id: u32) -> u32 {
        self.files.get(id as usize).copied().unwrap_or(FILE_NONE)
    }

    /// Returns a string that is not a file.
    pub fn text(&self, id: u32) -> &str {
        self.texts.get(&id).map_or(NAME_LOST, |text| &text.text)
    }

    /// Returns the kind of an operation, or of the span of a name and category.
    pub fn kind_of(&self, op: Op, span: Option<(u32, u32)>, catalog: &Catalog) -> u32 {
        match span {
            Some((name, category)) => self.app_kind((op.0, name, category as i32), catalog),
            None => Catalog::kind_of_op(op).unwrap_or_else(|| catalog.call(&format!("operation {}", op.0), "posix")),
        }
    }

    /// Adds the strings of a process from number `from`; known ones are kept.
    pub fn learn(&mut self, names: &Names, from: u32, catalog: &Catalog) {
        let new = || names.iter_from(from);
        let ids: Vec<u32> = new().filter(|(_, kind, _)| is_file(*kind)).map(|(id, ..)| id).collect();
        let paths = new().filter(|(_, kind, _)| is_file(*kind)).map(|(_, _, text)| readable(text));
        let numbers = catalog.file_numbers(paths);
        // A damaged chunk of names could claim any number: the table is as long as the strings found, not as claimed.
        let longest = self.files.len().max((names.end() as usize).min(self.files.len() + ids.len() + NAME_GAP_MAX));
        self.files.resize(longest, FILE_NONE);
        for (id, number) in ids.into_iter().zip(numbers) {
            if let Some(slot) = self.files.get_mut(id as usize) {
                *slot = number;
            }
        }
        self.learn_texts(names, from);
    }

    /// Adds only those strings that are not files.
    pub fn learn_texts(&mut self, names: &Names, from: u32) {
        let texts = || names.iter_from(from).filter(|(_, kind, _)| !is_file(*kind));
        let is_layer = |text: &[u8]| [Layer::Hdf5, Layer::Mpi].iter().any(|layer| text == layer.name().as_bytes());
        let is_library = |kind: NameKind, text: &[u8]| kind == NameKind::Category && is_layer(text);
        self.has_data_sets |= texts().any(|(_, kind, text)| is_library(kind, text));
        self.has_devices |= texts().any(|(_, kind, text)| kind == NameKind::Text && text == DEVICE.as_bytes());
        self.texts.extend(texts().map(|(id, _, text)| (id, Text::from(readable(text).into_owned()))));
    }

    /// Returns `true` if metadata at the end of the previous block are needed.
    pub fn wants_carried(&self, wanted: Wanted) -> bool {
        self.keeps_metadata(wanted) && self.has_spans()
    }

    /// Returns `true` if metadata are needed: by SQL, or to count calls of libraries and work of GPUs, for which all columns
    /// are read.
    fn keeps_metadata(&self, wanted: Wanted) -> bool {
        wanted.args || (self.has_data_sets || self.has_devices) && wanted.columns == Columns::ALL
    }

    /// Returns `true` if the process recorded anything itself, to which metadata may belong.
    fn has_spans(&self) -> bool {
        !self.texts.is_empty()
    }

    /// Converts decoded events into a batch.
    pub fn fill(
        &self,
        tid: u32,
        events: &Events,
        carried: Vec<Meta>,
        into: (&mut Times, &mut Batch),
        catalog: &Catalog,
        wanted: Wanted,
    ) {
        let (times, batch) = into;
        batch.clear();
        batch.proc = self.proc;
        batch.tid = tid as i32;
        batch.has_data_sets = self.has_data_sets && wanted.columns == Columns::ALL;
        if wanted.columns.has(Columns::TS.and(Columns::DUR)) {
            self.fill_times(events, times, batch, wanted.columns);
        }
        fill_calls(events, batch, wanted.columns);
        if wanted.columns.has(Columns::FILE) {
            batch.file.extend(events.file.iter().map(|&id| self.file(id)));
        }
        if events.op.iter().any(|&op| traits_of(op).needs_care()) {
            self.fill_app(events, carried, batch, catalog, wanted);
        } else if wanted.args {
            (0..events.len()).for_each(|i| self.call_args(events, i, batch, catalog));
        }
    }

    fn fill_times(&self, events: &Events, times: &mut Times, batch: &mut Batch, columns: Columns) {
        self.clock.convert(&events.start, &mut batch.ts);
        if columns.has(Columns::DUR) {
            times.ends.clear();
            times.ends.extend(events.start.iter().zip(&events.duration).map(|(start, dur)| start.wrapping_add(*dur)));
            self.clock.convert(&times.ends, &mut times.end_ns);
            batch.dur.extend(times.end_ns.iter().zip(&batch.ts).map(|(end, start)| end.wrapping_sub(*start).max(0)));
        }
        batch.ts.iter_mut().for_each(|ts| *ts = ts.wrapping_add(self.offset));
    }

    /// Corrects the rows that are not calls, and removes those that are not events.
    fn fill_app(&self, events: &Events, carried: Vec<Meta>, batch: &mut Batch, catalog: &Catalog, wanted: Wanted) {
        let mut metas = carried;
        let mut keep = vec![true; events.len()];
        let mut app_kinds = self.app_kinds.lock().expect("kinds of spans");
        // A column that is not requested is missing.
        let a = |i: usize| events.a.get(i).copied();
        for (i, keep) in keep.iter_mut().enumerate() {
            let op = Op(events.op[i]);
            let traits = traits_of(op.0);
            if !wanted.args && !traits.needs_care() {
                continue;
            }
            match op {
                Op::META if events.fd[i] == MetaKind::Counters as i32 => {
                    *keep = false;
                    let usage = counters_of(events, i).map(|(at, counters)| Usage { ts: self.unix_ns(at), counters });
                    batch.usage.extend(usage);
                    if wanted.args {
                        metas.push(Meta::of(events, i));
                    }
                }
                Op::META => {
                    *keep = false;
                    if self.keeps_metadata(wanted) {
                        metas.push(Meta::of(events, i));
                    }
                }
                Op::LOST => {
                    *keep = false;
                    batch.lost += a(i).unwrap_or(0).max(0) as u64;
                }
                Op::SPAN | Op::INSTANT | Op::COUNTER => {
                    let key = (op.0, events.file[i], events.fd[i]);
                    let kind = *app_kinds.entry(key).or_insert_with(|| self.app_kind(key, catalog));
                    let steps = a(i).filter(|_| op != Op::COUNTER && events.known[i]);
                    set_app_row(batch, i, kind, steps);
                    let metas = std::mem::take(&mut metas);
                    self.set_device(&metas, i, batch);
                    if wanted.args {
                        self.app_args(events, i, metas, batch, catalog);
                    }
                }
                _ => {
                    if traits.woken
                        && let Some((object, waker)) = a(i).zip(events.b.get(i).copied())
                    {
                        batch.wakes.push(Wake { row: i as u32, object: object as u64, waker });
                    }
                    if !traits.known {
                        batch.kind[i] = catalog.call(&format!("operation {}", op.0), "posix");
                    }
                    if wanted.args {
                        self.call_args(events, i, batch, catalog);
                    }
                    if let Some(source) = a(i).filter(|_| events.known[i] && traits.source) {
                        let (source, target) = (self.file(source as u32), self.file(events.file[i]));
                        note_source(batch, i as u32, (source, target), wanted.args, catalog);
                    }
                    // Counters belong to any event, named values to events of the program itself.
                    let is_its_own = |meta: &mut Meta| traits.told || meta.kind == MetaKind::Counters;
                    let metas: Vec<_> = metas.extract_if(.., is_its_own).collect();
                    if wanted.args || traits.library {
                        self.app_args(events, i, metas, batch, catalog);
                    }
                }
            }
        }
        drop(app_kinds);
        batch.retain(&keep);
    }

    /// Sets the GPU that metadata name.
    fn set_device(&self, metas: &[Meta], row: usize, batch: &mut Batch) {
        let is_device = |meta: &&Meta| meta.kind == MetaKind::Int && self.text(meta.key) == DEVICE;
        let device = metas.iter().find(is_device).filter(|_| self.has_devices);
        if let Some(device) = device.and_then(|meta| meta.value.try_into().ok()) {
            batch.set_device(row, device);
        }
    }

    pub fn app_kind(&self, (op, name, category): AppKey, catalog: &Catalog) -> u32 {
        let text = |id: u32, missing| self.texts.get(&id).map_or(missing, |text| text.text.as_str());
        let origin = match Op(op) {
            Op::INSTANT => Origin::Instant,
            Op::COUNTER => Origin::Counter,
            _ => Origin::Span,
        };
        catalog.app_kind(text(name, NAME_LOST), text(category.max(0) as u32, "app"), origin)
    }

    fn call_args(&self, events: &Events, i: usize, batch: &mut Batch, catalog: &Catalog) {
        let Some(info) = Op(events.op[i]).info() else { return };
        let path = |id: u32| {
            let file = self.files.get(id as usize).copied().unwrap_or(FILE_NONE);
            catalog.text(&catalog.path(file))
        };
        for (key, value) in arguments(info, events.known[i], events.a[i], events.b[i], path) {
            batch.args.push(Arg { row: i as u32, key: key.number(), value });
        }
    }

    fn app_args(&self, events: &Events, i: usize, metas: Vec<Meta>, batch: &mut Batch, catalog: &Catalog) {
        let row = i as u32;
        if Op(events.op[i]) == Op::COUNTER {
            let value = Value::Float(f64::from_bits(events.a[i] as u64));
            batch.args.push(Arg { row, key: ArgumentKey::Value.number(), value });
        }
        for meta in metas {
            let text = |id: u32| match self.texts.get(&id) {
                Some(text) => *text.number.get_or_init(|| catalog.text(&text.text)),
                None => catalog.text(NAME_LOST),
            };
            let value = match meta.kind {
                MetaKind::Int => Value::Int(meta.value),
                MetaKind::Float => Value::Float(f64::from_bits(meta.value as u64)),
                MetaKind::Text => Value::Text(text(meta.value as u32)),
                MetaKind::Counters => {
                    let found = arguments::counters(&Counters::unpack(meta.value, meta.more[0], meta.more[1]));
                    batch.args.extend(found.map(|(key, value)| Arg { row, key: key.number(), value }));
                    continue;
                }
            };
            batch.args.push(Arg { row, key: text(meta.key), value });
        }
    }

    /// Ends a span that was open when the process was killed at the last known time.
    pub fn open_span(&self, span: &OpenSpan, end: i64, catalog: &Catalog, wanted: Wanted) -> Batch {
        let mut batch = Batch { proc: self.proc, tid: span.tid as i32, ..Batch::default() };
        let kind = self.app_kind((Op::SPAN.0, span.name, span.category as i32), catalog);
        let start = self.unix_ns(span.start);
        batch.push(&Row { depth: span.depth, ..Row::new(start, end.saturating_sub(start).max(0), kind) });
        set_app_row(&mut batch, 0, kind, Some(span.steps));
        if wanted.args {
            let (key, value) = (ArgumentKey::Unfinished.number(), Value::Text(catalog.text("true")));
            batch.args.push(Arg { row: 0, key, value });
        }
        batch
    }
}

impl Traits {
    fn needs_care(&self) -> bool {
        self.app || self.source || self.woken || self.library || !self.known
    }
}

/// Returns the columns of a block of these operations that a batch needs for the requested ones.
pub fn needed_columns(ops: &[u16], wanted: Wanted) -> ColumnSet {
    if wanted.args || wanted.columns == Columns::ALL {
        return ColumnSet::ALL;
    }
    let has = |columns| wanted.columns.has(columns);
    // Spans use the columns of files and descriptors for their names, and that of positions for steps.
    let says = ops.iter().any(|&op| traits_of(op).needs_care());
    ColumnSet {
        times: has(Columns::TS.and(Columns::DUR)),
        file: has(Columns::FILE) || says,
        fd: has(Columns::FD) || says,
        a: has(Columns::POS) || says && has(Columns::STEPS),
        b: has(Columns::REQUESTED),
        ret: has(Columns::BYTES.and(Columns::RET)),
    }
}

#[inline(always)]
fn traits_of(op: u16) -> &'static Traits {
    &TRAITS[op as usize & OP_MAX as usize]
}

/// Fills the columns of calls, treating all rows alike.
fn fill_calls(events: &Events, batch: &mut Batch, columns: Columns) {
    let ops = || events.op.iter();
    batch.kind.extend(ops().map(|&op| traits_of(op).kind));
    batch.depth.extend_from_slice(&events.depth);
    if columns.has(Columns::FD) {
        batch.fd.extend(events.fd.iter().map(|&fd| if fd < 0 { ABSENT_32 } else { fd }));
    }
    if columns.has(Columns::POS) {
        let is_position = |op, a, known| known && traits_of(op).position && a != POS_UNKNOWN;
        let positions = ops().zip(&events.a).zip(&events.known);
        batch.pos.extend(positions.map(|((&op, &a), &known)| if is_position(op, a, known) { a } else { ABSENT }));
    }
    if columns.has(Columns::REQUESTED) {
        batch.requested.extend(ops().zip(&events.b).map(|(&op, &b)| if traits_of(op).size { b } else { ABSENT }));
    }
    if columns.has(Columns::BYTES) {
        let moved = |op, ret| if traits_of(op).moves && COUNTS.contains(&ret) { ret } else { ABSENT };
        batch.bytes.extend(ops().zip(&events.ret).map(|(&op, &ret)| moved(op, ret)));
    }
    if columns.has(Columns::RET) {
        batch.ret.extend_from_slice(&events.ret);
    }
}

/// Returns the counters of a thread and their time, if all their columns exist.
fn counters_of(events: &Events, i: usize) -> Option<(u64, Counters)> {
    let counters = Counters::unpack(*events.a.get(i)?, *events.b.get(i)?, *events.ret.get(i)?);
    Some((*events.start.get(i)?, counters))
}

/// Turns row `i` into one that the program recorded itself.
pub fn set_app_row(batch: &mut Batch, i: usize, kind: u32, steps: Option<i64>) {
    batch.kind[i] = kind;
    // Columns that are not requested are empty.
    batch.file.get_mut(i).into_iter().for_each(|file| *file = FILE_NONE);
    batch.fd.get_mut(i).into_iter().for_each(|fd| *fd = ABSENT_32);
    for column in [&mut batch.pos, &mut batch.requested, &mut batch.bytes, &mut batch.ret] {
        column.get_mut(i).into_iter().for_each(|value| *value = ABSENT);
    }
    let (epoch, step) = steps.map_or((STEP_NONE, STEP_NONE), unpack_steps);
    if epoch != STEP_NONE || step != STEP_NONE {
        batch.epoch.resize(batch.len(), ABSENT_32);
        batch.step.resize(batch.len(), ABSENT_32);
        batch.epoch[i] = epoch;
        batch.step[i] = step;
    }
}

/// One piece of metadata, waiting for its span.
pub struct Meta {
    key: u32,
    kind: MetaKind,
    value: i64,
    /// The further numbers of counters, which are three.
    more: [i64; 2],
}

impl Meta {
    pub fn of(events: &Events, i: usize) -> Meta {
        let kind = MetaKind::from_fd(events.fd[i]).unwrap_or(MetaKind::Int);
        Meta { key: events.file[i], kind, value: events.a[i], more: [events.b[i], events.ret[i]] }
    }
}
