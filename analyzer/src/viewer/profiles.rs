//! Profiles of torch.profiler in an archive: their events get times on the clock of dlio's events.
//!
//! A profile has times since an origin in Unix time (`baseTimeNanoseconds`). Viewers before v58 place such times as they
//! are next to those of other files, and later ones at the offset that the manifest gives; so the times are rewritten
//! and the offset is zero. Everything else stays as it is, except slices that overlap without nesting, which viewers
//! would drop: they move to another track.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::load::bytes::file_bytes;
use crate::load::formats::json_file;
use crate::load::inputs::InputFiles;
use crate::load::json::events::{ProfileHeader, profile_header};
use crate::load::json::json_scanner::{Fields, Json, value_end};
use crate::load::recorded::Recorded;

/// Times are in microseconds.
const UNIT_NS: i64 = 1000;

/// Slices that end this much later than the slice around them are shortened instead of moved: times are rounded.
const ROUNDED_NS: i64 = 1000;

/// The distance of the numbers of threads that stand for further tracks: larger than any thread id.
const LANE: i64 = 100_000_000;

/// The largest difference of the wall clock between processes of one host at which a profile counts as aligned.
const STEP_MAX_NS: i64 = 50_000;

/// A profile that can be placed.
pub struct Profile {
    pub path: PathBuf,
    /// The name of its host among those of the export, as recorded.
    pub host: (Option<String>, Option<String>),
    text: Vec<u8>,
    /// Offset of the events in the text.
    events_at: usize,
    /// Unix time of its zero.
    zero_ns: i64,
    changes: HashMap<usize, Change>,
    /// Tracks for slices that overlap: process, thread and number of each.
    lanes: BTreeMap<(String, String), String>,
}

/// A change of one event, by its offset in the text.
#[derive(Clone, Debug, Default, PartialEq)]
struct Change {
    tid: Option<String>,
    dur_ns: Option<i64>,
}

/// An event with a duration.
struct Slice {
    track: usize,
    ts: i64,
    dur: i64,
    at: usize,
}

/// Opens the profiles among the files; returns why one cannot be placed.
pub fn open_all(found: &InputFiles, processes: &[Recorded]) -> Result<Vec<Profile>, String> {
    found.of(&json_file::FORMAT).iter().map(|path| Profile::open(path, processes)).collect()
}

impl Profile {
    fn open(path: &Path, processes: &[Recorded]) -> Result<Profile, String> {
        let refused = |why: String| format!("cannot place {} on the timeline: {why}", path.display());
        let mut text = Vec::new();
        let read = file_bytes::unpacked(path).and_then(|mut file| file.read_to_end(&mut text));
        read.map_err(|error| refused(format!("it cannot be read: {error}")))?;
        let (header, events_at) = profile_header(&text).ok_or_else(|| {
            refused("it has no list traceEvents; only profiles from torch.profiler are supported".into())
        })?;
        let zero_ns = header.zero_ns.ok_or_else(|| {
            refused(
                "it has no baseTimeNanoseconds, so the relation of its clock to other clocks is unknown; \
                 torch.profiler of PyTorch 2.3 or later writes it"
                    .into(),
            )
        })?;
        let mut profile = Profile {
            path: path.into(),
            host: (None, None),
            text,
            events_at,
            zero_ns,
            changes: HashMap::new(),
            lanes: BTreeMap::new(),
        };
        let (first, last) = profile.arrange().map_err(refused)?;
        profile.host = host_of(&header, (first, last), processes).map_err(refused)?;
        Ok(profile)
    }

    /// Returns the start and the end in Unix time, and decides which slices move to other tracks.
    fn arrange(&mut self) -> Result<(i64, i64), String> {
        let mut numbers: HashMap<(&[u8], &[u8]), usize> = HashMap::new();
        let (mut slices, mut tracks, mut bounds) = (Vec::new(), Vec::new(), (i64::MAX, i64::MIN));
        each_event(&self.text, self.events_at, |at, event| {
            let event = Event::of(event);
            let (Some(ts), b"X") = (event.ts, event.ph) else { return };
            let (ts, dur) = (ts.saturating_add(self.zero_ns), event.dur.unwrap_or(0));
            bounds = (bounds.0.min(ts), bounds.1.max(ts.saturating_add(dur)));
            let track = *numbers.entry((event.pid, event.tid)).or_insert_with(|| {
                tracks.push((event.pid, event.tid));
                tracks.len() - 1
            });
            slices.push(Slice { track, ts, dur, at });
        })?;
        if slices.is_empty() {
            return Err("it has no events with a duration".into());
        }
        slices.sort_by_key(|slice| (slice.track, slice.ts, Reverse(slice.dur), slice.at));
        let (mut changes, mut lanes) = (HashMap::new(), BTreeMap::new());
        for slices in slices.chunk_by(|a, b| a.track == b.track) {
            let (pid, tid) = tracks[slices[0].track];
            nest(slices, |at, lane, dur_ns| {
                let moved = (lane > 0).then(|| further_track(tid, lane));
                if let Some(tid_of_lane) = &moved {
                    let readable = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
                    lanes.insert((readable(pid), tid_of_lane.clone()), readable(tid));
                }
                changes.insert(at, Change { tid: moved, dur_ns });
            });
        }
        (self.changes, self.lanes) = (changes, lanes);
        Ok(bounds)
    }

    /// Returns the number of slices that move to further tracks.
    pub fn moved(&self) -> usize {
        self.changes.values().filter(|change| change.tid.is_some()).count()
    }

    /// Writes it with times since `unix_offset_ns` in Unix time.
    pub fn write(&self, unix_offset_ns: i64, out: &mut dyn Write) -> io::Result<()> {
        let shift_ns = self.zero_ns.wrapping_sub(unix_offset_ns);
        let (head, base) = (&self.text[..self.events_at], self.zero_ns.to_string());
        // The origin of the new times.
        let at = memchr::memmem::find(head, base.as_bytes()).unwrap_or(0);
        out.write_all(&head[..at])?;
        out.write_all(unix_offset_ns.to_string().as_bytes())?;
        out.write_all(&head[at + base.len()..])?;
        let (mut written, mut result) = (self.events_at, Ok(()));
        let end = each_event(&self.text, self.events_at, |at, event| {
            let change = self.changes.get(&at).cloned().unwrap_or_default();
            for (place, value) in replacements(event, shift_ns, &change) {
                let put =
                    out.write_all(&self.text[written..at + place.start]).and_then(|()| out.write_all(value.as_bytes()));
                result = std::mem::replace(&mut result, Ok(())).and(put);
                written = at + place.end;
            }
        });
        result?;
        let end = end.map_err(io::Error::other)?;
        out.write_all(&self.text[written..end])?;
        for ((pid, lane), tid) in &self.lanes {
            write!(
                out,
                ",{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{lane},\"args\":{{\"name\":\"thread {} \
                 (overlapping)\"}}}}",
                tid.trim_matches('"')
            )?;
        }
        out.write_all(&self.text[end..])
    }
}

/// Returns the host of a profile: the one it names, or the only one. Its times must be within the run.
fn host_of(
    header: &ProfileHeader,
    (first, last): (i64, i64),
    processes: &[Recorded],
) -> Result<(Option<String>, Option<String>), String> {
    let mut hosts: BTreeMap<(Option<&str>, Option<&str>), Vec<&Recorded>> = BTreeMap::new();
    processes.iter().for_each(|process| hosts.entry(process.host()).or_default().push(process));
    let names = || hosts.keys().map(|(name, _)| name.unwrap_or("unknown")).collect::<Vec<_>>().join(", ");
    let unix = |process: &Recorded, ns: u64| process.clock.real_offset_ns.saturating_add_unsigned(ns);
    let overlaps = |on_it: &Vec<&Recorded>| {
        let from = on_it.iter().map(|process| unix(process, process.first_ns)).min().unwrap_or(0);
        let to = on_it.iter().map(|process| unix(process, process.last_ns)).max().unwrap_or(0);
        first <= to && last >= from
    };
    let named = hosts.iter().filter(|((name, _), _)| match &header.host {
        Some(host) => *name == Some(host.as_str()),
        None => hosts.len() == 1,
    });
    let named: Vec<_> = named.collect();
    let fitting: Vec<_> = named.iter().filter(|(_, on_it)| overlaps(on_it)).collect();
    match (&header.host, named.len(), &fitting[..]) {
        (Some(host), 0, _) => Err(format!("it was recorded on {host}, and the traces on {}", names())),
        (None, 0, _) => {
            Err(format!("it does not name its host, and the traces are of {}; pass those of one host", names()))
        }
        (_, _, []) => Err("its events are before or after those of the trace of its host: it is from another run, or \
                           the wall clock was set in between"
            .into()),
        (_, _, [((name, boot), on_it)]) => steady(on_it).map(|()| (name.map(str::to_string), boot.map(str::to_string))),
        _ => Err(format!("several hosts are named {}", header.host.as_deref().unwrap_or("unknown"))),
    }
}

/// Rejects a host whose wall clock was set while it was traced. A single odd reading is one that was interrupted.
fn steady(processes: &[&Recorded]) -> Result<(), String> {
    let mut offsets: Vec<i64> = processes.iter().map(|process| process.clock.real_offset_ns).collect();
    offsets.sort_unstable();
    let (Some(least), Some(median)) = (offsets.first(), offsets.get(offsets.len() / 2)) else { return Ok(()) };
    let step_ns = median - least;
    if step_ns <= STEP_MAX_NS {
        return Ok(());
    }
    Err(format!("the wall clock of its host was set by {:.3} ms while it was traced", step_ns as f64 / 1e6))
}

/// Passes on each event with its offset; returns the offset of the bracket after the last one.
fn each_event<'a>(text: &'a [u8], from: usize, mut take: impl FnMut(usize, &'a [u8])) -> Result<usize, String> {
    let mut at = from + text[from..].iter().position(|&byte| byte == b'[').ok_or("it has no list of events")? + 1;
    loop {
        at += text[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
        match text.get(at) {
            Some(b'{') => {
                let length = value_end(&text[at..]).ok_or("it is truncated")?;
                take(at, &text[at..at + length]);
                at += length;
            }
            Some(b']') => return Ok(at),
            Some(_) => return Err(format!("it is damaged at byte {at}")),
            None => return Err("it is truncated".into()),
        }
    }
}

/// The fields of an event that place it, as written.
#[derive(Default)]
struct Event<'a> {
    ph: &'a [u8],
    pid: &'a [u8],
    tid: &'a [u8],
    ts: Option<i64>,
    dur: Option<i64>,
}

impl<'a> Event<'a> {
    fn of(text: &'a [u8]) -> Event<'a> {
        let mut event = Event::default();
        for (key, value) in Fields::new(text) {
            match key {
                b"ph" => event.ph = value.raw(),
                b"pid" => event.pid = &text[place(text, value)],
                b"tid" => event.tid = &text[place(text, value)],
                b"ts" => event.ts = value.time(UNIT_NS),
                b"dur" => event.dur = value.time(UNIT_NS),
                _ => {}
            }
        }
        event
    }
}

/// Returns the place of a number or a text, with its quotes, in the text around it.
fn place(around: &[u8], value: Json) -> Range<usize> {
    let quotes = matches!(value, Json::Text(_)) as usize;
    let at = value.raw().as_ptr().addr().saturating_sub(around.as_ptr().addr() + quotes);
    at..(at + value.raw().len() + 2 * quotes).min(around.len())
}

/// Returns the number, or the name, of a further track of a thread.
fn further_track(tid: &[u8], lane: usize) -> String {
    let tid = String::from_utf8_lossy(tid);
    match tid.parse::<i64>() {
        Ok(number) => (number + lane as i64 * LANE).to_string(),
        Err(_) => format!("\"{} {}\"", tid.trim_matches('"'), lane + 1),
    }
}

/// Nests the slices of a track, in order of start: calls `change` with the offset of each that cannot remain as it is,
/// the track it moves to, and its new duration.
fn nest(slices: &[Slice], mut change: impl FnMut(usize, usize, Option<i64>)) {
    let mut lanes: Vec<Vec<i64>> = vec![Vec::new()];
    for slice in slices {
        let end = slice.ts.saturating_add(slice.dur);
        let mut lane = 0;
        loop {
            if lane == lanes.len() {
                lanes.push(Vec::new());
            }
            let open = &mut lanes[lane];
            while open.last().is_some_and(|end| *end <= slice.ts) {
                open.pop();
            }
            let around = open.last().copied().unwrap_or(i64::MAX);
            let fits = end.min(around);
            if end - fits <= ROUNDED_NS {
                open.push(fits);
                if lane > 0 || fits < end {
                    change(slice.at, lane, (fits < end).then_some(fits - slice.ts));
                }
                break;
            }
            lane += 1;
        }
    }
}

/// Returns the changed values of an event, in order: their places, and the new texts.
fn replacements(event: &[u8], shift_ns: i64, change: &Change) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    for (key, value) in Fields::new(event) {
        if !matches!(value, Json::Word(_) | Json::Text(_)) {
            continue;
        }
        let new = match key {
            b"ts" => value.time(UNIT_NS).map(|ns| microseconds(ns.saturating_add(shift_ns))),
            b"dur" => change.dur_ns.map(microseconds),
            b"tid" => change.tid.clone(),
            _ => None,
        };
        found.extend(new.map(|new| (place(event, value), new)));
    }
    found
}

/// Returns exact microseconds: viewers keep nanoseconds that are written as decimals.
fn microseconds(ns: i64) -> String {
    format!("{}{}.{:03}", if ns < 0 { "-" } else { "" }, ns.unsigned_abs() / 1000, ns.unsigned_abs() % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(slices: &[(i64, i64)]) -> Vec<(usize, usize, Option<i64>)> {
        let slices: Vec<_> =
            slices.iter().enumerate().map(|(at, &(ts, dur))| Slice { track: 0, ts, dur, at }).collect();
        let mut changes = Vec::new();
        nest(&slices, |at, lane, dur| changes.push((at, lane, dur)));
        changes
    }

    #[test]
    fn only_slices_that_overlap_without_nesting_move() {
        assert_eq!(placed(&[(0, 100_000), (0, 50_000), (50_000, 50_000), (100_000, 5)]), []);
        assert_eq!(placed(&[(0, 100_000), (50_000, 100_000), (60_000, 10_000)]), [(1, 1, None)]);
        assert_eq!(placed(&[(0, 100_000), (50_000, 50_900)]), [(1, 0, Some(50_000))], "rounded");
        assert_eq!(placed(&[(0, 100_000), (50_000, 100_000), (60_000, 200_000)]), [(1, 1, None), (2, 2, None)]);
    }

    #[test]
    fn times_and_threads_of_an_event_are_replaced() {
        let event = br#"{"ph": "X", "ts": 12.5, "pid": 3, "tid": 4, "dur": 7, "args": {"ts": 1}}"#;
        let change = Change { tid: Some("100000004".into()), dur_ns: Some(6_999) };
        let mut text = String::from_utf8_lossy(event).into_owned();
        for (place, value) in replacements(event, 1_000_000, &change).into_iter().rev() {
            text.replace_range(place, &value);
        }
        assert_eq!(text, r#"{"ph": "X", "ts": 1012.500, "pid": 3, "tid": 100000004, "dur": 6.999, "args": {"ts": 1}}"#);
        assert_eq!(microseconds(-1_005), "-1.005");
        assert_eq!(further_track(b"\"stream 7\"", 1), "\"stream 7 2\"");
    }

    #[test]
    fn truncated_and_damaged_lists_are_rejected() {
        let ends = |text: &[u8]| each_event(text, 0, |_, _| ());
        assert_eq!(ends(b"[{\"ph\":1},{}]}"), Ok(12));
        assert!(ends(b"[{\"ph\":1},{}").is_err() && ends(b"[{\"ph\":1},{").is_err() && ends(b"[{},x]").is_err());
        assert!(ends(b"").is_err());
    }
}
