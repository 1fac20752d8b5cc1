//! Samples one running process repeatedly.
//!
//! Its ring contains the latest events, its file the events that became blocks, and a table the events that are only
//! counted. The number of events is always exact, because blocks contain their count and the ring is read whole. The
//! kinds of events are known for the ring and the table, and for as many new blocks as time permits, evenly chosen;
//! these represent the rest.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlio_schemas::clock::Clock;
use dlio_schemas::native::Damage;
use dlio_schemas::native::block::{Kind as BlockKind, Opener};
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::{Fields, key};
use dlio_schemas::native::file::{EventBlock, FILE_HEADER, Store, decode_block, header_at, next_block};
use dlio_schemas::native::live::{Half, Live};
use dlio_schemas::native::ring::OpenSpan;
use dlio_schemas::native::tally::{OTHER, Row};
use dlio_schemas::ops::{Class, Op};
use dlio_schemas::record::Record;

use super::counts::{Call, Count, Counts, Span, Standing, Stretch};
use super::names::NameBook;
use crate::catalog::{Kind, Origin, span_class};
use crate::load::bytes::file_bytes::FileStore;
use crate::summary::count::kinds::{DeviceSpan, device_span, is_next_batch};
use crate::summary::time::intervals::{Interval, length, unite};

/// The activity of a program, from its spans.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Activity {
    Computing,
    /// Waiting for the next batch.
    Waiting,
    /// Writing a checkpoint.
    Saving,
    /// A GPU that waits for the next batch.
    Stalling,
}

pub const ACTIVITIES: [Activity; 4] = [Activity::Computing, Activity::Waiting, Activity::Saving, Activity::Stalling];

impl Activity {
    pub fn name(self) -> &'static str {
        ["computing", "waiting for data", "checkpoint", "GPU waiting for data"][self as usize]
    }

    /// Returns the activity of a span.
    fn of(name: &str, category: &str) -> Option<Activity> {
        let class = span_class(category);
        let kind = Kind { name: name.into(), cat: category.into(), class, origin: Origin::Span };
        match class {
            Class::Compute => Some(Activity::Computing),
            _ if device_span(&kind) == Some(DeviceSpan::DataWait) => Some(Activity::Stalling),
            _ if is_next_batch(&kind) => Some(Activity::Waiting),
            Class::Write => Some(Activity::Saving),
            _ => None,
        }
    }
}

/// The object of a call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    File(Arc<str>),
    /// A pipe, a socket, a terminal, or nothing.
    Other,
}

/// The name for files that do not fit into the counter table, and for files whose name is lost.
const OTHER_FILES: &str = "(other files)";
const NAME_LOST: &str = "(name lost)";

/// The work of a process between two snapshots, or from its start to the first snapshot.
#[derive(Default, Debug)]
pub struct Seen {
    pub seconds: f64,
    /// `true` if all events were decoded.
    pub is_exact: bool,
    pub events: f64,
    /// Here ticks are nanoseconds.
    pub calls: Vec<(Op, Target, Count)>,
    /// Seconds per activity; `None` if no span shows it.
    pub spent: [Option<f64>; ACTIVITIES.len()],
    /// The innermost span that is open now.
    pub now: Option<String>,
    pub activity: Option<Activity>,
}

/// Why a process cannot be sampled.
#[derive(Debug, PartialEq)]
pub enum Unseen {
    /// Its ring was removed: the process has ended.
    Ended,
    /// Its ring or file cannot be read.
    Unreadable(Damage),
}

/// A process that is sampled.
pub struct Watched {
    ring: PathBuf,
    file: PathBuf,
    pub fields: Fields,
    pub lost: u64,
    /// Threads whose ring is private memory: their calls appear only when they are written to the file.
    pub unseen: u64,
    pub threads: usize,
    names: NameBook,
    /// How far the file was read, and whether the previous snapshot stopped at the same position.
    at: usize,
    is_stuck: bool,
    /// The number of the file: a flight recorder replaces it.
    inode: u64,
    /// The sequence numbers of the last blocks per stream.
    written: HashMap<u32, Vec<u32>>,
    standing: Standing,
    /// The boot time of the last snapshot; zero before the first.
    looked_ns: u64,
    /// Whether each activity was ever seen.
    pub known: [bool; ACTIVITIES.len()],
    events: Events,
}

/// Halves of a ring and their records.
type Found = Vec<(Half, Vec<Record>)>;

/// How often a ring is read if its halves are added to its table at the same time.
const TRIES: usize = 3;

/// More blocks per stream than can be in flight from its halves to the file.
const WRITTEN_KEPT: usize = 8;

impl Watched {
    /// Opens a ring; `file` receives its blocks.
    pub fn new(ring: &Path, file: PathBuf) -> Result<Watched, Unseen> {
        let live = Live::read(&store(ring)?).map_err(Unseen::Unreadable)?;
        Ok(Watched {
            ring: ring.into(),
            file,
            fields: live.fields,
            lost: 0,
            unseen: 0,
            threads: 0,
            names: NameBook::default(),
            at: FILE_HEADER,
            is_stuck: false,
            inode: 0,
            written: HashMap::new(),
            standing: Standing::default(),
            looked_ns: 0,
            known: [false; ACTIVITIES.len()],
            events: Events::default(),
        })
    }

    pub fn ring(&self) -> &Path {
        &self.ring
    }

    /// Returns the work since the previous call. `now_ns` is boot time; decodes at most `blocks_max` blocks.
    pub fn look(&mut self, now_ns: u64, blocks_max: usize, opener: &mut Opener) -> Result<Seen, Unseen> {
        let ring = store(&self.ring)?;
        let (live, found, rows) = contents(&ring).map_err(Unseen::Unreadable)?;
        // Read the file after the ring: a half that became a block in between is then in both, and sequence numbers
        // reveal it.
        let file = FileStore::open(&self.file).ok();
        let mut blocks = file.as_ref().map_or(Vec::new(), |file| self.new_blocks(file));
        if live.fields.get(key::LAST_NS).is_some() {
            // The table of a flight recorder counts the events of blocks, too.
            blocks.clear();
        }
        let (decoded, times) = match &file {
            Some(file) => self.decode_some(&blocks, blocks_max, file, opener),
            None => (Counts::default(), 1.0),
        };
        let is_exact = times == 1.0;
        let left = self.left_in_ring(&found);
        let mut standing = Standing::default();
        standing.add_rows(rows.as_deref().unwrap_or_default());
        let counted_spans = rows.is_some();
        standing.add_counts(&left);
        let mut added = standing.since(&self.standing);
        self.standing = standing;

        let mut new = Counts::default();
        new.add(decoded, times);
        let spans = new.spans.into_iter().chain(left.spans);
        let mut stretches: HashMap<Span, Vec<Stretch>> = HashMap::new();
        spans.for_each(|(span, more)| stretches.entry(span).or_default().extend(more));
        for (call, count) in added.calls.drain() {
            new.calls.entry(call).or_default().add(&count, 1.0);
        }
        new.calls.retain(|_, count| *count != Count::default());

        let open: Vec<OpenSpan> = live.segments.iter().flat_map(|segment| segment.open_spans.clone()).collect();
        let of_spans = stretches.keys().chain(added.spans.keys()).flat_map(|(name, category)| [*name, *category]);
        let ids: Vec<u32> = (new.calls.keys().map(|(_, file)| *file).filter(|file| *file != OTHER))
            .chain(of_spans)
            .chain(open.iter().flat_map(|span| [span.name, span.category]))
            .collect();
        self.names.learn(ids.into_iter(), || live.names(&ring), file.as_ref(), opener);

        let clock = Clock::new(&[live.first_anchor, live.last_anchor], live.fields.number(key::CLOCK_HZ));
        let clock = clock.unwrap_or_else(|| Clock::nanoseconds(0));
        let window = Interval { start: self.looked_ns as i64, end: now_ns as i64 };
        // A table has the length of spans, but not their start.
        let stretches = if counted_spans { HashMap::new() } else { stretches };
        let spent = self.spent(&stretches, &added, &open, &clock, window, times);
        let innermost = innermost(&open, self.fields.number(key::PID).unwrap_or(0));
        let texts = innermost.map(|span| (self.text(span.name), self.text(span.category)));
        let seconds = (window.end - window.start).max(0) as f64 / 1e9;
        self.looked_ns = now_ns;
        self.lost = live.lost;
        self.unseen = live.unseen;
        self.threads = live.segments.iter().filter(|segment| segment.tid != 0).count();
        self.fields = live.fields;
        Ok(Seen {
            seconds,
            is_exact,
            events: new.events + added.events,
            calls: new.calls.into_iter().map(|(call, count)| self.resolved(call, count, &clock)).collect(),
            spent,
            activity: texts.as_ref().and_then(|(name, category)| Activity::of(name, category)),
            now: texts.map(|(name, _)| name),
        })
    }

    /// Returns the blocks of events written since the previous call; remembers the blocks of strings.
    fn new_blocks(&mut self, file: &FileStore) -> Vec<EventBlock> {
        let mut found = Vec::new();
        let inode = std::fs::metadata(&self.file).map_or(0, |found| found.ino());
        if std::mem::replace(&mut self.inode, inode) != inode {
            (self.at, self.is_stuck) = (FILE_HEADER, false);
            self.names.forget_blocks();
        }
        let from = self.at;
        // Keep only sequences of earlier calls: halves may have become many blocks since the ring was read.
        for sequences in self.written.values_mut() {
            sequences.drain(..sequences.len().saturating_sub(WRITTEN_KEPT));
        }
        if self.is_stuck && header_at(file, from).is_err() {
            self.at = next_block(file, from + 1);
        }
        while let Ok(header) = header_at(file, self.at) {
            let block = EventBlock { offset: self.at, header };
            match header.kind {
                BlockKind::Events => {
                    self.written.entry(header.stream).or_default().push(header.sequence);
                    found.push(block);
                }
                BlockKind::Names => self.names.note_block(block),
                BlockKind::Process | BlockKind::Tally => {}
            }
            self.at += header.size();
        }
        // A block may be partly written. If it stays so, it was truncated.
        self.is_stuck = self.at == from && self.at < file.size();
        found
    }

    /// Decodes some evenly chosen blocks; returns their totals and the factor by which to scale them.
    fn decode_some(
        &mut self,
        blocks: &[EventBlock],
        blocks_max: usize,
        file: &FileStore,
        opener: &mut Opener,
    ) -> (Counts, f64) {
        let (mut counts, mut bytes, mut decoded) = (Counts::default(), Vec::new(), 0);
        let chosen = blocks.len().min(blocks_max.max(1));
        for block in (0..chosen).map(|i| &blocks[i * blocks.len() / chosen]) {
            bytes.resize(block.header.size(), 0);
            let whole = file.load(block.offset, &mut bytes)
                && decode_block(&block.header, &bytes, opener, &mut self.events).is_ok();
            if whole {
                counts.add_events(&self.events);
                decoded += block.header.count as u64;
            }
        }
        let all: u64 = blocks.iter().map(|block| block.header.count as u64).sum();
        (counts, if decoded == 0 || all == decoded { 1.0 } else { all as f64 / decoded as f64 })
    }

    /// Returns the totals of the records in the ring that are not in a block.
    fn left_in_ring(&self, found: &Found) -> Counts {
        let mut counts = Counts::default();
        let is_written = |half: &Half| self.written.get(&half.stream).is_some_and(|all| all.contains(&half.sequence));
        found.iter().filter(|(half, _)| !is_written(half)).for_each(|(_, records)| counts.add_records(records));
        counts
    }

    fn text(&self, id: u32) -> String {
        self.names.get(id).map_or_else(|| NAME_LOST.into(), |name| name.text.to_string())
    }

    fn resolved(&self, (op, file): Call, count: Count, clock: &Clock) -> (Op, Target, Count) {
        let target = match (file, self.names.get(file)) {
            (0, _) => Target::Other,
            (OTHER, _) => Target::File(OTHER_FILES.into()),
            (_, None) => Target::File(NAME_LOST.into()),
            (_, Some(name)) if name.is_path => Target::File(name.text.clone()),
            _ => Target::Other,
        };
        (op, target, Count { ticks: nanoseconds(count.ticks, clock), ..count })
    }

    /// Returns seconds per activity within a window: in completed spans, open spans, and spans that were only counted.
    fn spent(
        &mut self,
        ended: &HashMap<Span, Vec<Stretch>>,
        counted: &Standing,
        open: &[OpenSpan],
        clock: &Clock,
        window: Interval,
        times: f64,
    ) -> [Option<f64>; ACTIVITIES.len()] {
        let mut within: [Vec<Interval>; ACTIVITIES.len()] = Default::default();
        let mut lengths = [0.0; ACTIVITIES.len()];
        let mut known = self.known;
        let mut activity = |span: Span| {
            let activity = Activity::of(&self.text(span.0), &self.text(span.1))?;
            known[activity as usize] = true;
            Some(activity as usize)
        };
        let clipped = |start: u64, end: u64| Interval {
            start: (clock.boot_ns(start) as i64).max(window.start),
            end: (clock.boot_ns(end) as i64).min(window.end),
        };
        for (span, stretches) in ended {
            let Some(activity) = activity(*span) else { continue };
            within[activity].extend(stretches.iter().map(|(start, length)| clipped(*start, start + length)));
        }
        for span in open {
            let Some(activity) = activity((span.name, span.category)) else { continue };
            within[activity].push(Interval { end: window.end, ..clipped(span.start, span.start) });
        }
        for (span, ticks) in &counted.spans {
            let Some(activity) = activity(*span) else { continue };
            lengths[activity] += nanoseconds(*ticks, clock);
        }
        self.known = known;
        let whole = (window.end - window.start).max(0) as f64;
        ACTIVITIES.map(|activity| {
            let list = &mut within[activity as usize];
            unite(list);
            let spent = (length(list) as f64 * times + lengths[activity as usize]).min(whole) / 1e9;
            known[activity as usize].then_some(spent)
        })
    }
}

fn nanoseconds(ticks: f64, clock: &Clock) -> f64 {
    /// Long enough to determine the tick rate with any clock.
    const LONG: u64 = 1 << 40;
    ticks * clock.duration_ns(0, LONG) as f64 / LONG as f64
}

fn store(path: &Path) -> Result<FileStore, Unseen> {
    FileStore::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Unseen::Ended,
        _ => Unseen::Unreadable(Damage::Broken("the file cannot be read; check its permissions")),
    })
}

/// Reads the heads of a ring, with its records and table in a consistent state.
fn contents(ring: &FileStore) -> Result<(Live, Found, Option<Vec<Row>>), Damage> {
    let mut tries = 0;
    loop {
        tries += 1;
        let live = Live::read(ring)?;
        let found = live.halves().map(|half| (*half, half.records(ring).unwrap_or_default())).collect();
        let rows = live.rows(ring);
        // A half that was added to the table in between would count twice.
        let is_settled = || Live::read(ring).is_ok_and(|again| again.halves().eq(live.halves()));
        if rows.is_none() || tries == TRIES || is_settled() {
            return Ok((live, found, rows));
        }
    }
}

/// Returns the innermost open span of the main thread, or of any thread if the main thread has none.
fn innermost(open: &[OpenSpan], first: u32) -> Option<&OpenSpan> {
    open.iter().max_by_key(|span| (span.tid == first, span.depth))
}
