//! Chrome's trace events, as an array or an object, and DFTracer's lines, which are similar.
//!
//! ```text
//! [{"ph":"X","name":"read","cat":"posix","pid":1,"tid":2,"ts":12.345,"dur":0.678,"args":{"file":"/a","bytes":4096}}, ...
//! {"traceEvents":[ ... ]}
//! {"id":3,"name":"pread","cat":"POSIX","pid":1,"tid":2,"ts":1795219511213560,"dur":738,"ph":1,"args":{"fhash":"4aa1", ...}}
//! ```
//!
//! Complete events, pairs of begin and end, instants and counters become events; flows and display settings do not. A
//! slice that never ends lasts until the end of the trace and is marked `unfinished`. DFTracer names files, hosts and
//! programs by hashes, which separate lines resolve. Its aggregates contain numbers of calls but no times: they count
//! as lost.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use dlio_schemas::chrome::{DEVICE_TRACKS, LOSS, RECORDED_BY};
use dlio_schemas::devices;
use dlio_schemas::native::fields::key as fact;
use dlio_schemas::ops::{Layer, OpInfo};
use foldhash::fast::{FixedState, RandomState};

use super::calls::{self, CallExtras, has_source};
use super::columns::{Column, key, meta, word};
use super::hashes::{Hashes, Line};
use super::json_scanner::{Fields, Json, Scale, value_end};
use super::shapes::Shape;
use super::templates::{Slot, Template, Templates, Values};
use crate::batch::{Row, Value};
use crate::catalog::{Catalog, FILE_NONE, Origin};
use crate::load::events::arguments::SOURCE;
use crate::load::events::parser::{BACKWARD, COUNTS, Parser, Threads};
use crate::load::lines::text::MISMATCH;

type Map<K, V> = HashMap<K, V, RandomState>;

pub struct JsonParser {
    begun: bool,
    list: List,
    /// The meanings of DFTracer's hashes, and the index of this file among those.
    hashes: Arc<Hashes>,
    place: usize,
    header: Header,
    /// Files by hash, so that most events need no access to shared data.
    files: Map<Box<[u8]>, u32>,
    /// Hash and number of the previous event's file.
    file_last: Option<(u128, u32)>,
    /// Numbers of kinds by category and name, so that most events need no catalog lookup.
    kinds: Map<Box<[u8]>, KnownKind>,
    /// Buffer for the key of the kind being looked up.
    key: Vec<u8>,
    processes: Map<(i64, Box<[u8]>), u32>,
    /// Processes of this profile whose calls another file recorded: the events of both belong to one process.
    joined: HashSet<u32, RandomState>,
    /// Processes and threads for which a note was made that they have names instead of numbers.
    named: HashSet<(u32, i64, i64), RandomState>,
    /// Process id, host hash and process number of the previous event.
    process_last: Option<(i64, u128, u32)>,
    paths: Map<Box<[u8]>, u32>,
    open: HashMap<Vec<u8>, Vec<OpenSlice>>,
    /// Ends of slices with ids whose begin follows later in the text.
    ended: HashMap<Vec<u8>, i64>,
    /// The last timestamp of anything.
    last: i64,
}

/// The maximum number of open slices per thread or id; deeper ones are damage.
const OPEN_MAX: usize = 4096;

/// The maximum number of ends that wait for their begin.
const ENDED_MAX: usize = 1 << 20;

/// The fields before the list of events in the object form.
#[derive(Default)]
struct Header {
    /// The origin of times.
    zero_ns: Option<i64>,
    host: Option<String>,
    rank: Option<i32>,
    /// `true` for PyTorch's profiler.
    torch: bool,
}

/// The list of events in the object form, which has an end; the array form needs none.
#[derive(Default)]
struct List {
    begun: bool,
    ended: bool,
    /// `true` if the bracket that ends the object follows the last event.
    closed: bool,
}

impl List {
    /// Handles the text between two objects, or after the last one.
    #[inline]
    fn between(&mut self, text: &[u8]) {
        if self.begun {
            self.ended |= text.contains(&b']');
            self.closed |= text.contains(&b'}');
        }
    }

    /// Returns `true` if the list and the object around it have ended.
    fn is_over(&self) -> bool {
        self.begun && self.ended && self.closed
    }

    fn is_cut(&self) -> bool {
        self.begun && !(self.ended && self.closed)
    }
}

/// Tracks that PyTorch's profiler draws instead of processes.
const TORCH_TRACKS: [&[u8]; 3] = [b"Spans", b"Traces", b""];

/// Categories of PyTorch's profiler for events on the tracks of devices, and what stands for the host of these events.
const DEVICE_CATEGORIES: [&[u8]; 5] = [b"kernel", b"gpu_memcpy", b"gpu_memset", b"cuda_sync", b"gpu_user_annotation"];
const ON_DEVICE: &[u8] = b"\0device";

/// The number of the run to which the device of a profile belongs if a process has the number of that device.
const DEVICE_RUN: i64 = 1;

/// The key for the origin of times.
const BASE_KEY: &[u8] = b"baseTimeNanoseconds";

/// The note on process ids that no system assigns.
const NAMED_PROCESSES: &str = "process ids that are not 32-bit numbers: each becomes a separate process with a \
     negative number, and serves as its program name if there is no other";

/// The note on events without a process id.
const NO_PROCESS: &str = "events without a process id: they count as events of process 0";

/// The causes of events that cannot be used.
const NO_PHASE: &str = "events whose phase (ph) is missing or unknown";
const NO_TIME: &str = "events without a valid time (ts)";

/// The note on ends of slices that started before the window of a profile.
const BEGINLESS: &str = "ends of slices without a start, as in a part of a longer trace: they are left out";

/// An export's note on its source.
const INCOMPLETE: &str = "its source was damaged: an unknown number of events is missing";

/// A kind of event, looked up once.
#[derive(Clone, Copy)]
struct KnownKind {
    kind: u32,
    call: Option<&'static OpInfo>,
    /// It is a span of a GPU in a process that used it.
    on_device: bool,
}

/// A slice that has started.
struct OpenSlice {
    ts: i64,
    known: KnownKind,
    owner: (u32, i32),
    args: Option<Vec<u8>>,
}

/// The relevant fields of an event.
#[derive(Clone, Default)]
struct Event<'a> {
    name: Option<Json<'a>>,
    cat: Option<Json<'a>>,
    ph: u8,
    ts: Option<i64>,
    dur: Option<i64>,
    /// `true` if its duration is not a number, or is too large.
    misses_dur: bool,
    pid: i64,
    tid: i64,
    /// The name instead of a process id, if that is not a number; and a thread's name.
    track: Option<&'a [u8]>,
    thread: Option<&'a [u8]>,
    has_pid: bool,
    id: &'a [u8],
    /// The arguments, and their whole text.
    args: Vec<(&'a [u8], Json<'a>)>,
    args_text: &'a [u8],
    /// The values that may differ between similar events, and where each belongs.
    values: Vec<(&'a [u8], ValueTarget)>,
}

/// The position of a value in an event.
#[derive(Clone, Copy)]
enum ValueTarget {
    Slot(Slot),
    /// An argument, by its index.
    Arg(usize),
}

impl<'a> Event<'a> {
    /// Reads the object at the start of `text` in one pass and returns its length; `None` if it is truncated or
    /// malformed.
    fn read(&mut self, text: &'a [u8], scale: Scale) -> Option<usize> {
        let (args, values) = (std::mem::take(&mut self.args), std::mem::take(&mut self.values));
        *self = Event { args, values, ..Event::default() };
        self.args.clear();
        self.values.clear();
        let mut fields = Fields::new(text);
        while let Some(key) = fields.key() {
            if word(key) == key::ARGS {
                let (args, values) = (&mut self.args, &mut self.values);
                let inner = fields.inner(|key, value| {
                    values.extend(variable(value).map(|value| (value, ValueTarget::Arg(args.len()))));
                    args.push((key, value));
                });
                self.args_text = match inner {
                    Some(args) => args,
                    None => fields.value().map(|_| &b""[..])?,
                };
            } else {
                self.field(key, fields.value()?, scale);
            }
        }
        Some(text.len() - fields.after()?.len())
    }

    #[inline]
    fn field(&mut self, key: &[u8], value: Json<'a>, scale: Scale) {
        let slot = match word(key) {
            key::TS => Some(Slot::Ts),
            key::DUR => Some(Slot::Dur),
            key::PID => Some(Slot::Pid),
            key::TID => Some(Slot::Tid),
            key::ID => Some(Slot::Nowhere),
            _ => None,
        };
        let number = variable(value).filter(|_| matches!(value, Json::Word(_)));
        self.values.extend(number.zip(slot.map(ValueTarget::Slot)));
        match (word(key), value) {
            (key::NAME, value) => self.name = Some(value),
            (key::CAT, value) => self.cat = Some(value),
            (key::PH, Json::Text(phase) | Json::Word(phase)) => self.ph = phase.first().copied().unwrap_or(0),
            (key::TS, value) => self.ts = scale.moment(value, None),
            (key::DUR, value) => {
                self.dur = scale.length(value, None);
                self.misses_dur = self.dur.is_none() && value != Json::Word(b"null");
            }
            (key::PID, value) => {
                (self.pid, self.track) = number_or_name(value);
                self.has_pid = self.pid != 0 || value.integer().is_some();
            }
            (key::TID, value) => (self.tid, self.thread) = number_or_name(value),
            (key::ID | key::ID2, Json::Text(id) | Json::Word(id) | Json::Object(id)) => self.id = id,
            _ => {}
        }
    }

    fn arg(&self, wanted: &[u8]) -> Option<Json<'a>> {
        self.args.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value)
    }

    /// Returns the hash of the host, if the event contains it.
    fn host(&self) -> Option<&'a [u8]> {
        self.args.iter().find(|(key, _)| word(key) == key::HHASH).map(|(_, value)| value.raw())
    }
}

/// Returns the number of a process or thread; for a name, a number derived from it.
#[inline]
fn number_or_name(value: Json<'_>) -> (i64, Option<&[u8]>) {
    match value.integer() {
        Some(number) => (number, None),
        None if value == Json::Word(b"null") => (0, None),
        None => (own_number(value.raw()), Some(value.raw())),
    }
}

/// Returns a negative number derived from a name: unique to that name and identical in every reading.
#[cold]
fn own_number(name: &[u8]) -> i64 {
    if name.is_empty() { 0 } else { -1 - (FixedState::default().hash_one(name) >> 33) as i64 }
}

/// Returns the bytes of a number or a text.
#[inline]
fn variable<'a>(value: Json<'a>) -> Option<&'a [u8]> {
    match value {
        Json::Text(text) => Some(text),
        Json::Word(word) => Some(word).filter(|word| matches!(word.first(), Some(b'0'..=b'9' | b'-'))),
        _ => None,
    }
}

impl Parser for JsonParser {
    fn parse(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize {
        let used = self.objects(text, last, into);
        if last {
            into.cut |= self.list.is_cut();
            self.finish(into);
        }
        used
    }
}

impl JsonParser {
    fn objects(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize {
        let mut at = if self.begun { 0 } else { self.begin_file(text) };
        self.begun = true;
        let mut scale = self.scale();
        let (mut event, mut templates) = (Event::default(), Templates::default());
        loop {
            let Some(start) = text[at..].iter().position(|&byte| byte == b'{') else {
                self.list.between(&text[at..]);
                return text.len();
            };
            self.list.between(&text[at..at + start]);
            at += start;
            if self.list.is_over() && before_events(&text[at..]).is_some() {
                // Two traces were concatenated.
                self.list = List::default();
                at += self.begin_file(&text[at..]);
                (scale, templates) = (self.scale(), Templates::default());
                continue;
            }
            self.list.closed = false;
            if let Some((values, call, length)) = templates.read(&text[at..], into.catalog) {
                into.broken += !self.put_values(values, call, into) as u64;
                at += length;
                continue;
            }
            if let Some(length) = event.read(&text[at..], scale) {
                if !self.event(&event, into) {
                    into.broken += 1;
                    into.cause.get_or_insert(if event.ts.is_none() { NO_TIME } else { MISMATCH });
                }
                if matches!(event.ph, b'M' | b'4') && self.scale() != scale {
                    // It defines the unit of the following times.
                    (scale, templates) = (self.scale(), Templates::default());
                } else if templates.pays() {
                    self.template(&text[at..at + length], &event, into)
                        .into_iter()
                        .for_each(|template| templates.remember(template));
                }
                at += length;
                continue;
            }
            let gives_up = last || text.len() - at > crate::load::bytes::file_bytes::ITEM_MAX / 2;
            match broken_end(&text[at..], gives_up) {
                Some(length) => {
                    into.broken += 1;
                    into.cause.get_or_insert(MISMATCH);
                    at += length;
                }
                None => return at,
            }
        }
    }
}

/// Returns the end of a malformed object, if that is in the text. A missing quote would swallow all that follows, so an
/// object without an end is abandoned with its line.
fn broken_end(text: &[u8], gives_up: bool) -> Option<usize> {
    let line = || text.iter().position(|&byte| byte == b'\n').map(|length| length + 1);
    value_end(text).or_else(|| if gives_up { line() } else { None })
}

/// Returns the start of the list of events in the object form; `None` in any other form.
fn before_events(text: &[u8]) -> Option<usize> {
    let key = b"\"traceEvents\"";
    let first_event = memchr::memmem::find(text, b"\"ph\":").unwrap_or(text.len());
    memchr::memmem::find(&text[..first_event], key).map(|at| at + key.len())
}

impl Header {
    fn read(text: &[u8]) -> Header {
        let mut header = Header::default();
        let mut fields = Fields::new(trimmed_start(text));
        while let Some(key) = fields.key().filter(|key| *key != b"traceEvents") {
            let Some(value) = fields.value() else { break };
            match (key, value) {
                (BASE_KEY, value) => header.zero_ns = value.integer(),
                (b"host_name", Json::Text(_)) => header.host = Some(value.text().into_owned()),
                (b"schemaVersion", _) => header.torch = true,
                (b"distributedInfo", Json::Object(info)) => {
                    let rank = Fields::new(info).find(|(key, _)| *key == b"rank");
                    header.rank = rank.and_then(|(_, rank)| rank.integer()?.try_into().ok());
                }
                _ => {}
            }
        }
        header
    }
}

/// The clock and the host of a profile of torch.profiler.
pub struct ProfileHeader {
    /// Unix time of its zero.
    pub zero_ns: Option<i64>,
    pub host: Option<String>,
}

/// Returns the header of a profile, and the offset at which its events start; `None` if the text has another form.
pub fn profile_header(text: &[u8]) -> Option<(ProfileHeader, usize)> {
    let at = before_events(text)?;
    let Header { zero_ns, host, .. } = Header::read(&text[..at]);
    Some((ProfileHeader { zero_ns, host }, at))
}

impl JsonParser {
    /// Creates a parser of a file, or of one piece of it; `place` is the index of the file in `hashes`.
    pub fn new(hashes: Arc<Hashes>, place: usize) -> JsonParser {
        JsonParser {
            begun: false,
            list: List::default(),
            hashes,
            place,
            header: Header::default(),
            files: Map::default(),
            file_last: None,
            kinds: Map::default(),
            key: Vec::new(),
            processes: Map::default(),
            joined: HashSet::default(),
            named: HashSet::default(),
            process_last: None,
            paths: Map::default(),
            open: HashMap::new(),
            ended: HashMap::new(),
            last: i64::MIN,
        }
    }

    /// Continues in the middle of a file.
    pub fn continues(&mut self) {
        self.begun = true;
    }

    /// Returns the scale of the file's times, as known so far.
    fn scale(&self) -> Scale {
        Scale { unit_ns: self.hashes.unit_ns(self.place), zero_ns: self.header.zero_ns.unwrap_or(0) }
    }

    /// Reads the text before the events; returns where they start.
    fn begin_file(&mut self, text: &[u8]) -> usize {
        let Some(at) = before_events(text) else { return 0 };
        self.list.begun = true;
        self.header = Header::read(&text[..at]);
        if self.header.zero_ns.is_none() {
            // VizTracer writes it after its events.
            self.header.zero_ns = self.hashes.last_number(self.place, BASE_KEY);
        }
        at
    }

    /// Returns `true` if the object was one of the format.
    fn event(&mut self, event: &Event, into: &mut Threads) -> bool {
        if self.header.torch && event.track.is_some_and(|track| TORCH_TRACKS.contains(&track)) {
            return true;
        }
        match event.ph {
            b'X' | b'1' => self.complete(event, into).is_some(),
            b'B' | b'b' | b'S' => self.begin(event, into).is_some(),
            b'E' | b'e' | b'F' => self.end(event, into).is_some(),
            // Snapshots of objects, marks and samples are instants too.
            b'i' | b'I' | b'n' | b'O' | b'R' | b'P' => self.moment(event, Origin::Instant, into).is_some(),
            b'C' | b'2' => self.moment(event, Origin::Counter, into).is_some(),
            b'M' | b'4' => self.describe(event, into),
            b'3' => self.aggregate(event, into).is_some(),
            b's' | b't' | b'f' | b'N' | b'D' | b'V' | b'v' | b'c' | b'(' | b')' | b',' => true,
            // An object without a phase and a time is not an event but data next to the list, such as `otherData`.
            _ if event.ts.is_none() => true,
            _ => {
                into.cause.get_or_insert(NO_PHASE);
                false
            }
        }
    }

    fn process(&mut self, event: &Event, into: &mut Threads) -> u32 {
        let proc = self.process_at((event.pid, self.host(event)), event.ts, into);
        if event.track.is_some() || event.thread.is_some() || !event.has_pid {
            self.name(proc, event, into);
        }
        proc
    }

    /// Sets the name of a process or a thread that has a name instead of a number, if any.
    #[cold]
    fn name(&mut self, proc: u32, event: &Event, into: &mut Threads) {
        let text = |name: &[u8]| Json::Text(name).text().into_owned();
        let (track, thread) =
            (event.track.filter(|name| !name.is_empty()), event.thread.filter(|name| !name.is_empty()));
        if !self.named.insert((proc, event.pid, event.tid)) {
            return;
        }
        match track {
            Some(_) => into.remarks(NAMED_PROCESSES),
            None if !event.has_pid => into.remarks(NO_PROCESS),
            None => {}
        }
        let tid = event.tid as i32;
        into.catalog.amend(proc, |process| {
            process.program = process.program.take().or(track.map(text));
            if let Some(thread) = thread.filter(|_| !process.threads.iter().any(|(known, _)| *known == tid)) {
                process.threads.push((tid, text(thread)));
            }
        });
    }

    /// Returns the hash of an event's host, or the mark of a device's track.
    fn host<'e>(&self, event: &Event<'e>) -> &'e [u8] {
        let is_category = |cat: &[u8]| DEVICE_CATEGORIES.iter().any(|known| known.eq_ignore_ascii_case(cat));
        match event.cat {
            Some(Json::Text(cat)) if self.header.torch && is_category(cat) => ON_DEVICE,
            _ => event.host().unwrap_or(b""),
        }
    }

    /// Returns the number of a process, by its id and the hash of its host.
    #[inline]
    fn process_at(&mut self, (pid, host): (i64, &[u8]), ts: Option<i64>, into: &mut Threads) -> u32 {
        let hash = word(host);
        match self.process_last {
            Some((last, known, proc)) if last == pid && known == hash && hash != u128::MAX => return proc,
            _ => {}
        }
        let key = (pid, Box::from(host));
        let proc = match self.processes.get(&key) {
            Some(&proc) => proc,
            None if host == ON_DEVICE => {
                let own = self.process_at((pid, b""), ts, into);
                // The number of a device may be that of a process.
                let proc = match self.joined.contains(&own) {
                    true => into.process_of_run(&self.host_name(pid, b""), pid as i32, DEVICE_RUN, |_| ()),
                    false => own,
                };
                self.processes.insert(key, proc);
                proc
            }
            None if let Some(traced) = self.traced(pid, host, ts, into.catalog) => {
                let source = into.source();
                into.catalog.amend(traced, |process| process.profile = Some(source));
                self.joined.insert(traced);
                self.processes.insert(key, traced);
                traced
            }
            None => {
                let (rank, wide) = (self.header.rank, (pid as i32 as i64 != pid).then(|| pid.to_string()));
                let shown = wide.as_ref().map_or(pid, |digits| own_number(digits.as_bytes()));
                if wide.is_some() {
                    into.remarks(NAMED_PROCESSES);
                }
                let proc = into.process(&self.host_name(pid, host), shown as i32, |process| {
                    (process.rank, process.program) = (rank, wide);
                });
                self.processes.insert(key, proc);
                proc
            }
        };
        self.process_last = Some((pid, hash, proc));
        proc
    }

    /// Returns the process of another file that is the same as one of this profile: profiles have the numbers of the
    /// system and its clock.
    fn traced(&self, pid: i64, host: &[u8], ts: Option<i64>, catalog: &Catalog) -> Option<u32> {
        let ts = ts.filter(|_| self.header.torch && host.is_empty())?;
        catalog.process_at(pid, ts, self.header.host.as_deref())
    }

    /// Returns the name of a process's host.
    fn host_name(&self, pid: i64, hash: &[u8]) -> String {
        self.header.host.clone().unwrap_or_else(|| self.hashes.host(self.place, pid, hash))
    }

    fn known(&mut self, event: &Event, origin: Origin, into: &Threads) -> Option<KnownKind> {
        let (Json::Text(name) | Json::Word(name)) = event.name? else { return None };
        let cat = match event.cat {
            Some(Json::Text(cat) | Json::Word(cat)) => cat,
            _ => b"app",
        };
        self.key.clear();
        self.key.extend_from_slice(cat);
        self.key.extend_from_slice(&[0, origin as u8]);
        self.key.extend_from_slice(name);
        if let Some(known) = self.kinds.get(self.key.as_slice()) {
            return Some(*known);
        }
        // In a profile from PyTorch each device is a process.
        let on_device = origin == Origin::Span && !self.header.torch && devices::is_of_device(cat);
        let known = kind(&Json::Text(name).text(), &Json::Text(cat).text(), origin, into.catalog);
        let known = KnownKind { on_device, ..known };
        self.kinds.insert(self.key.as_slice().into(), known);
        Some(known)
    }

    fn complete(&mut self, event: &Event, into: &mut Threads) -> Option<()> {
        let known = self.known(event, Origin::Span, into)?;
        if is_of_the_tracer(event) {
            self.lifetime(event, into);
        }
        let dur = Some(event.dur.unwrap_or(0)).filter(|_| !event.misses_dur)?;
        let row = Row::new(event.ts?, length(dur, into), known.kind);
        self.put(event, row, known, into);
        Some(())
    }

    /// Turns slices that never ended into events up to the last timestamp; ends without a begin are dropped.
    fn finish(&mut self, into: &mut Threads) {
        if !std::mem::take(&mut self.ended).is_empty() {
            into.remarks(BEGINLESS);
        }
        let open = std::mem::take(&mut self.open).into_values();
        let mut left: Vec<_> = open.flat_map(|begun| begun.into_iter().zip(0usize..)).collect();
        left.sort_by_key(|(begun, depth)| (begun.ts, *depth));
        for (begun, depth) in left {
            let dur = self.last.saturating_sub(begun.ts).max(0);
            let row = Row { depth: depth.min(255) as u8, ..Row::new(begun.ts, dur, begun.known.kind) };
            let fields = Fields::new(begun.args.as_deref().unwrap_or_default());
            self.write(begun.owner, fields.chain([(&b"unfinished"[..], Json::Text(b"true"))]), row, begun.known, into);
        }
    }

    fn place(event: &Event) -> Vec<u8> {
        let mut place = event.pid.to_le_bytes().to_vec();
        // Slices that do not nest are identified by their id, others by their thread.
        match event.ph {
            b'b' | b'e' | b'S' | b'F' => place.extend_from_slice(event.id),
            _ => place.extend_from_slice(&event.tid.to_le_bytes()),
        }
        place
    }

    fn begin(&mut self, event: &Event, into: &mut Threads) -> Option<()> {
        let known = self.known(event, Origin::Span, into)?;
        let place = Self::place(event);
        if let Some(end) = self.ended.remove(&place) {
            let ts = event.ts?;
            self.put(event, Row::new(ts, length(end.saturating_sub(ts), into), known.kind), known, into);
            return Some(());
        }
        let owner = (self.process(event, into), event.tid as i32);
        let open = self.open.entry(place).or_default();
        let args = (!event.args.is_empty()).then(|| event.args_text.to_vec());
        let begun = OpenSlice { ts: event.ts?, known, owner, args };
        self.last = self.last.max(begun.ts);
        (open.len() < OPEN_MAX).then(|| open.push(begun))
    }

    fn end(&mut self, event: &Event, into: &mut Threads) -> Option<()> {
        let place = Self::place(event);
        let Some(begun) = self.open.get_mut(&place).and_then(Vec::pop) else {
            let end = event.ts?;
            match matches!(event.ph, b'e' | b'F') && self.ended.len() < ENDED_MAX {
                true => drop(self.ended.insert(place, end)),
                false => into.remarks(BEGINLESS),
            }
            return Some(());
        };
        let open = &self.open[&place];
        let depth = open.len().min(255) as u8;
        let dur = length(event.ts?.saturating_sub(begun.ts), into);
        let row = Row { depth, ..Row::new(begun.ts, dur, begun.known.kind) };
        match &begun.args {
            Some(args) => self.put_args(event, Fields::new(args), row, begun.known, into),
            None => self.put(event, row, begun.known, into),
        }
        Some(())
    }

    fn moment(&mut self, event: &Event, origin: Origin, into: &mut Threads) -> Option<()> {
        let known = self.known(event, origin, into)?;
        self.put(event, Row::new(event.ts?, 0, known.kind), KnownKind { call: None, ..known }, into);
        Some(())
    }

    /// Writes an event with the values of its arguments.
    fn put(&mut self, event: &Event, row: Row, known: KnownKind, into: &mut Threads) {
        self.put_args(event, event.args.iter().copied(), row, known, into);
    }

    fn put_args<'t>(
        &mut self,
        event: &Event,
        fields: impl Iterator<Item = (&'t [u8], Json<'t>)>,
        row: Row,
        known: KnownKind,
        into: &mut Threads,
    ) {
        let owner = (self.process(event, into), event.tid as i32);
        self.write(owner, fields, row, known, into);
    }

    fn write<'t>(
        &mut self,
        (proc, mut tid): (u32, i32),
        fields: impl Iterator<Item = (&'t [u8], Json<'t>)>,
        mut row: Row,
        known: KnownKind,
        into: &mut Threads,
    ) {
        self.last = self.last.max(row.ts.saturating_add(row.dur));
        let (mut args, mut source, mut written, mut beside) = (Vec::new(), None, None, CallExtras::NOTHING);
        for (key, value) in fields {
            if known.call.is_some_and(has_source) {
                match word(key) {
                    key::SOURCE => source = Some(self.path(value, into.catalog)),
                    key::IN_FD => source = Some(calls::nameless(value.raw(), into.catalog)),
                    key::FD_OUT => written = Some(calls::nameless(value.raw(), into.catalog)),
                    _ => {}
                }
            }
            match Column::of(key, known.call) {
                Some(column) if column.is_file() => row.file = self.file(column, value, into.catalog),
                Some(column) => column.set(&mut row, &mut beside, value, None),
                None if into.wanted.args && word(key) == key::NEWPATH_HASH => {
                    let target = into.catalog.path(self.hashed(value, into.catalog));
                    args.push((into.catalog.text(TARGET), Value::Text(into.catalog.text(&target))));
                }
                None if known.on_device && key == RECORDED_BY.as_bytes() => {
                    tid = value.integer().and_then(|thread| thread.try_into().ok()).unwrap_or(tid);
                }
                None if word(key) != key::HHASH => {
                    if known.on_device && word(key) == key::DEVICE {
                        row.device = value.integer().and_then(|device| device.try_into().ok()).unwrap_or(row.device);
                    }
                    if into.wanted.args {
                        args.push((into.catalog.text(&Json::Text(key).text()), meta(value, into.catalog)));
                    }
                }
                None => {}
            }
        }
        if let Some(written) = written {
            // The named file is then the one that was read.
            source = Some(std::mem::replace(&mut row.file, written));
        }
        let has = |args: &[(u32, Value)], key: u32| args.iter().any(|(known, _)| *known == key);
        if let Some(source) = source.filter(|source| into.wanted.args && *source != FILE_NONE) {
            let key = into.catalog.text(SOURCE);
            if !has(&args, key) {
                args.push((key, Value::Text(into.catalog.text(&into.catalog.path(source)))));
            }
        }
        calls::complete(&mut row, known.call, &beside);
        into.event_from(proc, tid, &row, source, args);
    }

    /// Writes an event that was read by a template.
    #[inline]
    fn put_values(&mut self, values: &Values, call: Option<&OpInfo>, into: &mut Threads) -> bool {
        if values.timed {
            let mut row = Row { dur: length(values.row.dur, into), ..values.row };
            self.last = self.last.max(row.ts.saturating_add(row.dur));
            let proc = self.process_at((values.pid, values.host), Some(values.row.ts), into);
            row.file = values.file.map_or(row.file, |(column, value)| self.file(column, value, into.catalog));
            calls::complete(&mut row, call, &values.beside);
            into.event(proc, values.tid as i32, &row, values.args.iter().cloned());
        }
        values.timed
    }

    /// Returns a template for events like this one. Excluded are pairs, whose identity is more than numbers, metadata,
    /// which occurs once, copies between files, which are rare, and work of GPUs, whose number is both an argument and a column.
    fn template<'a>(&mut self, object: &'a [u8], event: &Event<'a>, into: &Threads) -> Option<Template<'a>> {
        let origin = match event.ph {
            b'X' | b'1' => Origin::Span,
            b'i' | b'I' => Origin::Instant,
            b'C' => Origin::Counter,
            _ => return None,
        };
        let known = self.known(event, origin, into).filter(|known| !known.call.is_some_and(has_source))?;
        let is_named = known.on_device || event.arg(b"newpath_hash").is_some();
        if is_of_the_tracer(event) || event.track.is_some() && self.header.torch || is_named {
            return None;
        }
        let (call, dur) = match origin {
            Origin::Span => (known.call, event.dur.unwrap_or(0)),
            _ => (None, 0),
        };
        let mut args = Vec::new();
        let places = slots_of_args(event, call, into, &mut args)?;
        let slot = |belongs: &ValueTarget| match *belongs {
            ValueTarget::Slot(Slot::Dur) if origin != Origin::Span => Slot::Nowhere,
            ValueTarget::Slot(slot) => slot,
            ValueTarget::Arg(at) => places[at],
        };
        let row = Row::new(event.ts.unwrap_or(0), dur, known.kind);
        let values = Values {
            row,
            beside: CallExtras::NOTHING,
            scale: self.scale(),
            timed: event.ts.is_some(),
            pid: event.pid,
            tid: event.tid,
            host: self.host(event),
            file: None,
            args,
        };
        let slots = event.values.iter().map(|(_, belongs)| slot(belongs)).collect();
        let shape = Shape::new(object, event.values.iter().map(|(value, _)| *value));
        let timed = event.ts.is_some() || event.values.iter().any(|(_, belongs)| matches!(slot(belongs), Slot::Ts));
        Some(Template { shape, slots, call, row, timed, values })
    }

    fn file(&mut self, column: Column, value: Json, catalog: &Catalog) -> u32 {
        match column {
            Column::Hash => self.hashed(value, catalog),
            _ => self.path(value, catalog),
        }
    }

    fn path(&mut self, value: Json, catalog: &Catalog) -> u32 {
        let (Json::Text(raw) | Json::Word(raw)) = value else { return FILE_NONE };
        if let Some(&file) = self.paths.get(raw) {
            return file;
        }
        let file = catalog.file(&value.text());
        self.paths.insert(raw.into(), file);
        file
    }

    /// Returns a file named by its hash. The line that resolves it may follow later.
    fn hashed(&mut self, value: Json, catalog: &Catalog) -> u32 {
        let (Json::Text(hash) | Json::Word(hash)) = value else { return FILE_NONE };
        let word = word(hash);
        match self.file_last {
            Some((known, file)) if known == word && word != u128::MAX => return file,
            _ => {}
        }
        let file = match self.files.get(hash) {
            Some(&file) => file,
            None => self.look_up(hash, catalog),
        };
        self.file_last = Some((word, file));
        file
    }

    fn look_up(&mut self, hash: &[u8], catalog: &Catalog) -> u32 {
        let file = self.hashes.file(self.place, hash, catalog);
        self.files.insert(hash.into(), file);
        file
    }

    /// Handles lines that describe processes or resolve a hash.
    fn describe(&mut self, event: &Event, into: &mut Threads) -> bool {
        let Some(Json::Text(name)) = event.name else { return false };
        let text = |key: &[u8]| event.arg(key).map(|value| value.text().into_owned());
        self.explain(event, into.catalog);
        match name {
            b"process_name" => {
                let proc = self.process(event, into);
                if self.joined.contains(&proc) {
                    return true;
                }
                into.catalog.amend(proc, |process| process.program = text(b"name"));
            }
            name if name == LOSS.as_bytes() => {
                let proc = self.process(event, into);
                let lost = event.arg(fact::LOST.as_bytes()).and_then(Json::integer).unwrap_or(0);
                let Some(lost) = Some(lost).filter(|lost| COUNTS.contains(lost)) else { return false };
                let lost = lost as u64;
                into.catalog.amend(proc, |process| process.lost = process.lost.max(lost));
                if text(fact::INCOMPLETE.as_bytes()).is_some() {
                    into.remarks(INCOMPLETE);
                }
            }
            b"thread_name" => {
                let proc = self.process(event, into);
                let is_of_device = event.tid >= DEVICE_TRACKS && !self.header.torch;
                if self.joined.contains(&proc) || is_of_device {
                    return true;
                }
                let name = text(b"name").unwrap_or_default();
                into.catalog.amend(proc, |process| {
                    // DFTracer names threads by their numbers.
                    if name != event.tid.to_string() && !process.threads.iter().any(|(tid, _)| *tid == event.tid as i32)
                    {
                        process.threads.push((event.tid as i32, name));
                    }
                });
            }
            _ => {}
        }
        true
    }

    /// Handles DFTracer's lines that explain a name.
    fn explain(&mut self, event: &Event, catalog: &Catalog) {
        let mut line = Line { pid: event.pid, ..Line::default() };
        event.args.iter().for_each(|(key, value)| line.argument(key, *value));
        line.name = event.name.map_or(b"", Json::raw);
        self.hashes.record(self.place, &line, catalog);
        // A hash that was looked up before may now get another name.
        self.files.remove(line.hash);
        self.file_last = None;
    }

    /// Handles start and end of tracing a process, and its name.
    fn lifetime(&mut self, event: &Event, into: &mut Threads) {
        let proc = self.process(event, into);
        let text = |key: &[u8]| event.arg(key).and_then(|hash| self.hashes.text(self.place, hash.raw()));
        let cwd = event.arg(b"cwd").map(|hash| self.hashes.file(self.place, hash.raw(), into.catalog));
        let cwd = cwd.filter(|file| *file != FILE_NONE).map(|file| into.catalog.path(file).to_string());
        let (program, command) = (text(b"exec_hash"), text(b"cmd_hash").map(|words| words.replace(';', " ")));
        let ppid = event.arg(b"ppid").and_then(Json::integer).and_then(|ppid| ppid.try_into().ok());
        into.catalog.amend(proc, |process| match event.name {
            Some(Json::Text(b"start")) => {
                (process.start_ts, process.ppid) = (event.ts, ppid);
                (process.program, process.command, process.cwd) = (program, command, cwd);
            }
            Some(Json::Text(b"end")) => process.end_ts = event.ts,
            _ => {}
        });
    }

    fn aggregate(&mut self, event: &Event, into: &mut Threads) -> Option<()> {
        let calls = event.arg(b"dft_cnt").and_then(Json::integer).filter(|calls| COUNTS.contains(calls))?;
        let proc = self.process(event, into);
        into.aggregated(proc, event.tid as i32, calls as u64);
        Some(())
    }
}

/// Returns where the values of the arguments belong; values without a column are added to `args`, if requested. `None`
/// if an argument with a column has a value that is neither number nor text.
fn slots_of_args(
    event: &Event,
    call: Option<&OpInfo>,
    into: &Threads,
    args: &mut Vec<(u32, Value)>,
) -> Option<Vec<Slot>> {
    let host = event.args.iter().position(|(key, _)| word(key) == key::HHASH);
    let slot = |(at, (key, value)): (usize, &(&[u8], Json))| match Column::of(key, call) {
        Some(column) => variable(*value).map(|_| Slot::Column(column)),
        None if Some(at) == host => Some(Slot::Host),
        None if into.wanted.args && word(key) != key::HHASH => {
            args.push((into.catalog.text(&Json::Text(key).text()), meta(*value, into.catalog)));
            Some(Slot::Arg(args.len() - 1))
        }
        None => Some(Slot::Nowhere),
    };
    event.args.iter().enumerate().map(slot).collect()
}

/// Returns a duration. Other tools also write negative ones: these are noted and count as zero.
#[inline(always)]
fn length(ns: i64, into: &mut Threads) -> i64 {
    if ns < 0 {
        into.remarks(BACKWARD);
    }
    ns.max(0)
}

fn trimmed_start(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|&byte| byte == b'{').unwrap_or(line.len());
    &line[start..]
}

/// Returns `true` for an event of DFTracer itself.
fn is_of_the_tracer(event: &Event) -> bool {
    event.cat == Some(Json::Text(b"dftracer"))
}

/// The key of a second path.
const TARGET: &str = "target";

/// Returns `true` for layers whose names programs also use as their own categories.
fn is_known_by_names(layer: &str) -> bool {
    [Layer::Wait, Layer::Object, Layer::Net].iter().any(|known| known.name() == layer)
}

/// Returns the kind of a call of a known layer, or of a span.
fn kind(name: &str, cat: &str, origin: Origin, catalog: &Catalog) -> KnownKind {
    let layer = cat.to_ascii_lowercase();
    // Programs call their own spans "wait", "object" and "net"; the calls of those layers are known by name.
    let is_listed = || calls::operation(name).is_some_and(|info| info.layer.name() == layer);
    let is_layer = matches!(layer.as_str(), "posix" | "stdio" | "process") || is_known_by_names(&layer) && is_listed();
    if origin != Origin::Span || !is_layer {
        return KnownKind { kind: catalog.app_kind(name, cat, origin), call: None, on_device: false };
    }
    let (kind, call) = calls::kind(name, &layer, catalog);
    KnownKind { kind, call, on_device: false }
}
