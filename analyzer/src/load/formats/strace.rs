//! The output of `strace -f -ttt -T`, with `-y` or without; `-tt` or `-t` instead of `-ttt`.
//!
//! ```text
//! 1234  1700000000.123456 openat(AT_FDCWD, "/data/a", O_RDONLY) = 3 <0.000021>
//! 1235  1700000000.124000 read(3,  <unfinished ...>
//! 1235  1700000000.125000 <... read resumed>"..."..., 4096) = 4096 <0.001000>
//! 1234  22:13:20.126000 close(3</data/a>) = 0 <0.000021>
//! 1234<cat> 22:13:20.127000 write(1, "x", 1) = 1 <0.000021>            with -Y
//! 1234  22:13:20.128000 [   3] [00007f12] close(3) = 0 <0.000021>        with -n and -i
//! 1234  22:13:20.128000 (+     0.000385) close(4) = 0 <0.000021>           with -r
//! [pid  1234] 22:13:20.128000 close(5) = 0 <0.000021>                      without -o, as long as there are several
//! 1234  22:13:20.129000 +++ exited with 0 +++
//! ```
//!
//! With `-ff` each thread has a separate file, whose name ends in its number; files of one run are read together, in
//! the order of their times. Without `-T` calls have no duration, not even those shown on two lines, which are only the
//! calls interrupted by another thread's line.
//!
//! An exec starts a new image of its process, unless the process has made no call before.
//!
//! Descriptors and working directories are tracked through open, dup, close, chdir, fork, clone and exit, as far as the
//! text shows them; a path is made absolute if its directory is known. A clock without a date gets the date of the
//! file's last write, or the day before if that would be in its future; a clock that falls back by hours has passed
//! midnight.

mod clock;
mod descriptors;
mod syscalls;
mod text;
mod thread_files;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use dlio_schemas::native::fields::Ending;
use dlio_schemas::native::names::URING;
use dlio_schemas::ops::OpInfo;
use foldhash::fast::RandomState;

use crate::batch::{ABSENT, Row, Value};
use crate::catalog::{Catalog, FILE_NONE};
use crate::load::bytes::file_bytes;
use crate::load::bytes::trace_file;
use crate::load::events::arguments::SOURCE;
use crate::load::events::parser::{BACKWARD, DURATIONLESS, Parser, Threads, lines};
use crate::load::lines::text as text_file;
use crate::load::sources::source::{Format, Opening, Recognition, Sources};
use clock::Clock;
use descriptors::Descriptors;
use dlio_schemas::readable::readable;
use syscalls::{File, Size, Syscall};
use text::{Call, descriptor, is_name, number, object, quoted, shown, vector};

/// strace's format.
pub const FORMAT: Format = Format {
    name: "strace text",
    recognises,
    open: |paths: &[PathBuf], opening: &mut Opening| -> Sources {
        let (together, alone) = thread_files::runs(paths);
        let mut sources = text_file::open_all(&alone, opening, |path| {
            let tid = Some(thread_of_name(path)).filter(|tid| *tid > 0);
            Box::new(StraceParser::new(written(path), tid.unwrap_or_else(|| first_thread(path))))
        });
        sources.extend(together.into_iter().filter_map(|run| thread_files::open(&run, opening)));
        sources
    },
    names_processes: false,
};

/// The note on a text whose times are differences.
const RELATIVE: &str = "strace output with only relative times (-r), which do not show when a call began; record it \
                        with strace -f -ttt -T -y -o FILE PROGRAM";

/// The note on a text without usable times.
const TIMELESS: &str = "strace output without times, which cannot be analyzed; record it with strace -f -ttt -T -y -o \
                        FILE PROGRAM";

fn recognises(head: &[u8]) -> Recognition {
    let text = String::from_utf8_lossy(head);
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.lines().take(20).any(is_line) {
        Recognition::Yes
    } else if start.lines().take(20).any(is_relative) {
        Recognition::Useless(RELATIVE)
    } else if start.lines().take(3).any(is_timeless) {
        Recognition::Useless(TIMELESS)
    } else {
        Recognition::No
    }
}

/// Returns the time of the last write to the file, in Unix time; the epoch if unknown.
fn written(path: &Path) -> i64 {
    trace_file::facts(path).map_or(0, |facts| facts.modified.0 * 1_000_000_000 + facts.modified.1)
}

/// Returns the number at the end of the file's name; 0 if there is none.
fn thread_of_name(path: &Path) -> i32 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = [".gz", ".zst"].iter().find_map(|packed| name.strip_suffix(packed)).unwrap_or(&name);
    name.rsplit_once('.').and_then(|(_, ending)| ending.parse().ok()).filter(|number| *number > 0).unwrap_or(0)
}

/// Bytes of a text that are searched for its first thread.
const FIRST_THREAD_WITHIN: u64 = 64 << 20;

/// Returns the thread of the first lines of a text that do not name theirs. Without `-o` threads are named as long as
/// there are several: it is the first named one that no other thread created. 0 if unknown.
fn first_thread(path: &Path) -> i32 {
    let Ok(text) = file_bytes::unpacked(path) else { return 0 };
    let (mut made, mut calls, mut line) = (Vec::new(), 0, Vec::new());
    let mut text = BufReader::with_capacity(1 << 16, text).take(FIRST_THREAD_WITHIN);
    while text.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let attached = line.strip_prefix(b"strace: ").unwrap_or(&line).strip_prefix(b"Process ");
        if let Some(pid) = attached.and_then(|rest| number(rest.split(|byte| *byte == b' ').next()?)) {
            if calls == 0 {
                // With -p the first thread was not created by another one.
                return pid.try_into().unwrap_or(0);
            }
            made.push(pid);
        } else if let Some(Line { tid, rest, .. }) = start(&line) {
            match tid {
                Some(tid) if !line.starts_with(b"[pid") => return if calls == 0 { tid } else { 0 },
                Some(tid) if !made.contains(&i64::from(tid)) => return tid,
                Some(_) => {}
                None if memchr::memchr(b'(', rest).is_some_and(|at| forks(&rest[..at])) => {
                    made.extend(Call::read(rest.trim_ascii_end()).map(|call| call.result.ret));
                }
                None => {}
            }
            calls += 1;
        }
        line.clear();
    }
    0
}

type Map<K, V> = HashMap<K, V, RandomState>;

#[derive(Default)]
pub struct StraceParser {
    /// Calls that have started, by thread: the time, and the part of the call that was shown.
    begun: Map<i32, (i64, Vec<u8>)>,
    /// Calls among them that create a process or thread which has not appeared yet.
    forking: Vec<i32>,
    /// The process of each thread, unless the thread is its own leader.
    leaders: Map<i32, i32>,
    processes: Map<i32, Process>,
    /// The number of images started per process id.
    images: Map<i32, i64>,
    /// The number of processes that use another's descriptors.
    sharing: usize,
    clock: Clock,
    /// The last timestamp of each thread.
    moments: Map<i32, i64>,
    /// The thread of lines that do not name theirs, and whether it has ended.
    tid: i32,
    tid_ended: bool,
    /// `true` within the table of `-C`.
    counts: bool,
    /// Kinds of calls by name.
    kinds: Map<Box<[u8]>, Kind>,
    /// Files by the text shown for a descriptor.
    objects: Map<Box<[u8]>, u32>,
    /// Calls, and the number of them with a duration.
    calls: u64,
    timed: u64,
}

/// A process that is alive.
#[derive(Default)]
struct Process {
    /// The number of its image in the catalog; `None` if it was created but never appeared.
    proc: Option<u32>,
    /// Calls of that image.
    calls: u64,
    /// When it first appeared.
    start: Option<i64>,
    parent: Option<i32>,
    /// The process whose descriptors it shares, if any.
    shares: Option<i32>,
    descriptors: Descriptors,
    /// Its working directory, if known.
    cwd: Option<u32>,
    program: Option<String>,
    command: Option<String>,
    /// `true` if `-Y` shows its program.
    is_named: bool,
}

#[derive(Clone, Copy)]
struct Kind {
    number: u32,
    call: Option<&'static Syscall>,
}

impl Kind {
    fn info(&self) -> Option<&'static OpInfo> {
        self.call.and_then(|call| call.info)
    }
}

/// A line's time as written, in nanoseconds.
#[derive(Clone, Copy)]
enum Stamp {
    Unix(i64),
    OfDay(i64),
}

impl Stamp {
    fn of(text: &[u8]) -> Option<Stamp> {
        of_day(text).map(Stamp::OfDay).or_else(|| seconds(text).map(Stamp::Unix))
    }

    fn moment(self, clock: &mut Clock) -> i64 {
        match self {
            Stamp::Unix(ts) => ts,
            Stamp::OfDay(ns) => clock.moment(ns),
        }
    }
}

/// A parsed line.
struct Line<'a> {
    tid: Option<i32>,
    program: Option<&'a [u8]>,
    stamp: Stamp,
    rest: &'a [u8],
}

/// A call that a line completed: its thread and time.
struct CompletedCall<'a> {
    tid: i32,
    process: i32,
    ts: i64,
    dur: i64,
    call: Call<'a>,
    kind: Kind,
}

/// Returns `true` if a line looks like one of strace's with times.
fn is_line(line: &str) -> bool {
    let Some(Line { stamp, rest, .. }) = start(line.as_bytes()) else { return false };
    !matches!(stamp, Stamp::Unix(..DISTANCE_END))
        && (is_call(rest) || ["<...", "+++", "---"].iter().any(|mark| rest.starts_with(mark.as_bytes())))
}

/// Returns `true` for a line whose time is the difference from the previous line.
fn is_relative(line: &str) -> bool {
    start(line.as_bytes()).is_some_and(|line| matches!(line.stamp, Stamp::Unix(..DISTANCE_END)) && is_call(line.rest))
}

/// A smaller number of seconds, before 1973, cannot be a timestamp of a trace.
const DISTANCE_END: i64 = 100_000_000 * 1_000_000_000;

/// Returns `true` if a text starts like a call.
fn is_call(text: &[u8]) -> bool {
    memchr::memchr(b'(', text).is_some_and(|at| is_name(&text[..at]))
}

/// Returns `true` for a strace line from which no time can be derived: without `-t`, or of `-c`.
fn is_timeless(line: &str) -> bool {
    let line = line.strip_prefix("[pid").map_or(line, str::trim_start).trim_start();
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ']' || c == ' ');
    let is_call = line.split_once('(').is_some_and(|(name, rest)| is_name(name.as_bytes()) && rest.contains(") = "));
    is_call || line.as_bytes().starts_with(COUNTS_HEAD)
}

/// The head of the table of `-c` and `-C`.
const COUNTS_HEAD: &[u8] = b"% time     seconds  usecs/call";

/// Returns `true` for a line that is not a call: a message of strace, or a stack frame.
fn is_remark(line: &[u8]) -> bool {
    line.is_empty()
        || [&b"strace: "[..], b" > ", b"[ Process PID=", b"System call usage summary"]
            .iter()
            .any(|start| line.starts_with(start))
        || line.starts_with(b"Process ") && [&b" attached"[..], b" detached"].iter().any(|end| line.ends_with(end))
}

/// Parses thread and time; also returns the rest of the line.
fn start(line: &[u8]) -> Option<Line<'_>> {
    let line = line.strip_prefix(b"[pid").unwrap_or(line).trim_ascii_start();
    let (tid, program, line) = match thread(line) {
        Some((tid, program, rest)) => (Some(tid), program, rest),
        None => (None, None, line),
    };
    let space = memchr::memchr(b' ', line)?;
    Some(Line {
        tid,
        program,
        stamp: Stamp::of(&line[..space])?,
        rest: skip_prefixes(line[space..].trim_ascii_start()),
    })
}

/// Skips the difference from the previous line, the number of the call and the instruction pointer, if they are shown.
fn skip_prefixes(mut text: &[u8]) -> Remainder<'_> {
    let is_number = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b' ' | b'?');
    let is_distance = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b' ' | b'.');
    loop {
        let inside = text.strip_prefix(b"[").and_then(|rest| bracket(rest, b']', is_number));
        let inside = inside.or_else(|| text.strip_prefix(b"(+").and_then(|rest| bracket(rest, b')', is_distance)));
        match inside {
            Some(rest) => text = rest,
            None => return text,
        }
    }
}

/// Skips a bracket that contains only bytes accepted by `takes`.
fn bracket(text: &[u8], end: u8, takes: impl Fn(&u8) -> bool) -> Option<Remainder<'_>> {
    let end = memchr::memchr(end, text).filter(|end| *end > 0 && text[..*end].iter().all(takes))?;
    Some(text[end + 1..].trim_ascii_start())
}

/// The part of a line that is not parsed yet.
type Remainder<'a> = &'a [u8];

/// Parses the thread at the start of a line, and its program; also returns the rest.
fn thread(line: &[u8]) -> Option<(i32, Option<&[u8]>, Remainder<'_>)> {
    let digits = line.iter().position(|byte| !byte.is_ascii_digit())?;
    let (tid, rest) = (number(&line[..digits])?.try_into().ok()?, &line[digits..]);
    let (program, rest) = match rest.strip_prefix(b"<") {
        None => (None, rest),
        // A program's name may contain any character.
        Some(named) => {
            let end = memchr::memmem::find(named, b"> ").or_else(|| memchr::memmem::find(named, b">]"))?;
            (Some(&named[..end]), &named[end + 1..])
        }
    };
    let rest = rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"]"))?;
    Some((tid, program, rest.trim_ascii_start()))
}

/// Parses `22:13:20` or `22:13:20.123456` into nanoseconds.
fn of_day(text: &[u8]) -> Option<i64> {
    let mut parts = text.splitn(3, |byte| *byte == b':');
    let (hour, minute, rest) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
    let second = seconds(rest).or_else(|| number(rest)?.checked_mul(1_000_000_000))?;
    let valid = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..61_000_000_000).contains(&second);
    valid.then_some((hour * 3600 + minute * 60) * 1_000_000_000 + second)
}

/// Parses `1700000000.123456` into nanoseconds.
fn seconds(text: &[u8]) -> Option<i64> {
    let point = memchr::memchr(b'.', text)?;
    let (whole, fraction) = (&text[..point], &text[point + 1..]);
    let digits = &fraction[..fraction.len().min(9)];
    let all_digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if !all_digits(whole) || !all_digits(digits) {
        return None;
    }
    let nanos = number(digits)? * 10i64.pow(9 - digits.len() as u32);
    number(whole)?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Returns the name under which a call is counted: `fcntl` that waits for a lock is separate from other `fcntl`.
fn operation<'a>(call: &Call<'a>) -> &'a [u8] {
    let waits = || [&b"F_SETLKW"[..], b"F_OFD_SETLKW"].iter().any(|command| call.argument(1).starts_with(command));
    match call.name {
        b"fcntl" | b"fcntl64" if waits() => b"fcntl_setlkw",
        name => name,
    }
}

/// Returns `true` for calls that create a process or thread.
fn forks(call: &[u8]) -> bool {
    [&b"clone"[..], b"clone3", b"fork", b"vfork"].contains(&call)
}

fn has(text: &[u8], word: &str) -> bool {
    memchr::memmem::find(text, word.as_bytes()).is_some()
}

impl Parser for StraceParser {
    fn parse(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize {
        let used = lines(text, last, |line| {
            self.text_line(line, None, into);
        });
        if last {
            self.end(into);
        }
        used
    }
}

impl StraceParser {
    /// Creates a parser. `written` is when the file was last written, the date of clocks without one. `tid` is the
    /// thread of lines that do not name theirs.
    pub fn new(written: i64, tid: i32) -> StraceParser {
        StraceParser { clock: Clock::new(written), tid, ..StraceParser::default() }
    }

    /// Parses a line of the text; `of` is its thread and time, if known from another source.
    fn text_line(&mut self, line: &[u8], of: Option<(i32, i64)>, into: &mut Threads) {
        let line = line.trim_ascii_end();
        if self.is_counted(line) {
            return;
        }
        if !is_remark(line) && self.line(line, of, into).is_none() {
            into.broken += 1;
        }
    }

    /// Returns `true` for a line of the table that `-C` prints at the end.
    fn is_counted(&mut self, line: &[u8]) -> bool {
        let begins = line.starts_with(COUNTS_HEAD);
        let counted = self.counts || begins;
        self.counts = counted && !line.ends_with(b" total");
        counted
    }

    /// Ends the text.
    fn end(&mut self, into: &mut Threads) {
        if self.calls > 0 && self.timed == 0 {
            into.remarks(DURATIONLESS);
        }
    }

    fn line(&mut self, line: &[u8], of: Option<(i32, i64)>, into: &mut Threads) -> Option<()> {
        let Line { tid, program, stamp, rest } = start(line)?;
        let (tid, ts) = match of {
            Some(of) => of,
            None => (tid.unwrap_or_else(|| self.nameless()), stamp.moment(&mut self.clock)),
        };
        self.note_thread(tid, ts, into);
        let last = self.moments.insert(tid, ts).unwrap_or(ts);
        if ts < last {
            // Lines of a thread are written in order, so the clock was set back.
            let proc = self.image(self.process_of(tid), into);
            into.catalog.stepped(proc, last.saturating_sub(ts));
        }
        if let Some(program) = program.filter(|_| self.process_of(tid) == tid) {
            self.runs(tid, program, into);
        }
        if let Some(ending) = rest.strip_prefix(b"+++ ") {
            self.ended(tid, ts, ending, into);
            return Some(());
        }
        if rest.starts_with(b"---") {
            return Some(());
        }
        if let Some(begun) = rest.strip_suffix(b"<unfinished ...>") {
            if memchr::memchr(b'(', begun).is_some_and(|at| forks(&begun[..at])) {
                self.forking.push(tid);
            }
            self.begun.insert(tid, (ts, begun.to_vec()));
            return Some(());
        }
        if let Some(resumed) = rest.strip_prefix(b"<... ") {
            let after = memchr::memmem::find(resumed, b"resumed>")? + b"resumed>".len();
            let (begin, mut whole) = self.begun.remove(&tid)?;
            whole.extend_from_slice(&resumed[after..]);
            let dur = ts.saturating_sub(begin);
            if dur < 0 {
                into.remarks(BACKWARD);
            }
            return self.call(tid, (begin, dur.max(0)), &whole, into);
        }
        self.call(tid, (ts, 0), rest, into)
    }

    /// Returns the thread of a line that does not name one: without `-o` it is the only one.
    fn nameless(&mut self) -> i32 {
        if self.tid_ended {
            let mut left = self.processes.keys().chain(self.leaders.keys()).copied();
            if let (Some(only), None) = (left.next(), left.next()) {
                (self.tid, self.tid_ended) = (only, false);
            }
        }
        self.tid
    }

    /// Notes a thread that appears. A new thread belongs to a pending call that creates one, if there is any.
    fn note_thread(&mut self, tid: i32, ts: i64, into: &mut Threads) {
        let is_known = self.processes.contains_key(&tid) || self.leaders.contains_key(&tid);
        if !is_known && !self.forking.is_empty() {
            let maker = self.forking.remove(0);
            let flags = self.begun.get(&maker).map_or(Vec::new(), |(_, text)| text.clone());
            self.begin(self.process_of(maker), tid, &flags, into);
        }
        let pid = self.process_of(tid);
        if self.processes.get(&pid).is_none_or(|process| process.proc.is_none()) {
            self.process(pid).start.get_or_insert(ts);
            self.image(pid, into);
        }
    }

    /// Returns a process, new or known.
    fn process(&mut self, pid: i32) -> &mut Process {
        self.processes.entry(pid).or_default()
    }

    /// Returns the number of a process's image, which is created if needed.
    fn image(&mut self, pid: i32, into: &mut Threads) -> u32 {
        let begun = self.images.entry(pid).or_insert(1);
        let process = self.processes.entry(pid).or_default();
        *process.proc.get_or_insert_with(|| {
            into.process_of_run("unknown", pid, *begun, |image| {
                (image.ppid, image.start_ts) = (process.parent, process.start);
                (image.program, image.command) = (process.program.clone(), process.command.clone());
            })
        })
    }

    fn process_of(&self, tid: i32) -> i32 {
        self.leaders.get(&tid).copied().unwrap_or(tid)
    }

    /// Notes that a process runs another program from now on.
    fn runs(&mut self, pid: i32, program: &[u8], into: &mut Threads) {
        let (program, proc) = (readable(program), self.image(pid, into));
        let process = self.process(pid);
        if !process.is_named || process.program.as_deref() != Some(&program) {
            process.is_named = true;
            process.program = Some(program.clone().into_owned());
            into.catalog.amend(proc, |process| process.program = Some(program.into_owned()));
        }
    }

    /// Ends a thread; a process ends with its first thread.
    fn ended(&mut self, tid: i32, ts: i64, ending: &[u8], into: &mut Threads) {
        if let Some(rest) = ending.strip_prefix(b"superseded by execve in pid ") {
            // Another thread takes over the number, and the calls in progress.
            let other = rest.split(|byte| *byte == b' ').next().and_then(number).unwrap_or(0) as i32;
            self.leaders.remove(&other);
            self.begun.remove(&other).map(|begun| self.begun.insert(tid, begun));
            return;
        }
        let exited = ending.strip_prefix(b"exited with ").and_then(|rest| rest.split(|byte| *byte == b' ').next());
        let ended = match exited.and_then(number) {
            Some(status) => Ending::Exit(status as i32),
            None if ending.starts_with(b"killed by ") => Ending::Killed,
            None => return,
        };
        self.tid_ended |= tid == self.tid;
        self.begun.remove(&tid);
        self.forking.retain(|maker| *maker != tid);
        if self.leaders.remove(&tid).is_none() {
            let proc = self.image(tid, into);
            into.catalog.amend(proc, |process| (process.ended, process.end_ts) = (ended.to_string(), Some(ts)));
            self.forget(tid);
        }
    }

    /// Drops a process's state, unless others share it.
    fn forget(&mut self, pid: i32) {
        let shared = self.sharing > 0 && self.processes.values().any(|process| process.shares == Some(pid));
        if !shared && let Some(process) = self.processes.remove(&pid) {
            self.sharing -= process.shares.is_some() as usize;
        }
    }

    /// Adds a call with its start and its minimum duration, as shown by its lines.
    fn call(&mut self, tid: i32, (ts, shown_dur): (i64, i64), text: &[u8], into: &mut Threads) -> Option<()> {
        let call = Call::read(text)?;
        self.calls += 1;
        self.timed += call.result.dur.is_some() as u64;
        // If only some calls had durations, sums of time would be meaningless.
        let dur = call.result.dur.unwrap_or(if self.timed > 0 { shown_dur } else { 0 });
        let kind = self.kind(operation(&call), into.catalog);
        let ended = CompletedCall { tid, process: self.process_of(tid), ts, dur, call, kind };
        let file = self.event(&ended, into);
        self.follow(&ended, file, into);
        Some(())
    }

    fn kind(&mut self, name: &[u8], catalog: &Catalog) -> Kind {
        if let Some(kind) = self.kinds.get(name) {
            return *kind;
        }
        let call = syscalls::known(name);
        let operation = call.and_then(|call| call.info).and_then(|info| Catalog::kind_of_op(info.op));
        let kind = Kind { number: operation.unwrap_or_else(|| catalog.call(&readable(name), "posix")), call };
        self.kinds.insert(name.into(), kind);
        kind
    }

    fn event(&mut self, ended: &CompletedCall, into: &mut Threads) -> u32 {
        let CompletedCall { process, call, kind, .. } = ended;
        let mut row = Row::new(ended.ts, ended.dur, kind.number);
        row.ret = call.result.ret;
        let (mut source, mut args) = (None, Vec::new());
        if let Some(known) = kind.call {
            if let Some(File::Descriptor(place) | File::At(place)) = known.file {
                row.fd = descriptor(call.argument(place)).unwrap_or(row.fd);
            }
            row.file = known.file.map_or(FILE_NONE, |place| self.file(*process, call, place, into.catalog));
            if let Some(made) = call.result.made {
                row.file = self.object(made, into.catalog);
            }
            row.requested = requested(known, call).unwrap_or(ABSENT);
            row.pos =
                known.pos.and_then(|place| number(call.argument(place))).filter(|pos| *pos >= 0).unwrap_or(ABSENT);
            source = known.source.map(|place| self.file(*process, call, File::Descriptor(place), into.catalog));
            if let Some(source) = source.filter(|source| into.wanted.args && *source != FILE_NONE) {
                let path = into.catalog.path(source);
                args.push((into.catalog.text(SOURCE), Value::Text(into.catalog.text(&path))));
            }
            if let Some(target) = known.target.filter(|_| into.wanted.args) {
                let target = into.catalog.path(self.file(*process, call, target, into.catalog));
                args.push((into.catalog.text("target"), Value::Text(into.catalog.text(&target))));
            }
        }
        if kind.info().is_some_and(OpInfo::moves_bytes) && row.ret >= 0 {
            row.bytes = row.ret;
        }
        let proc = self.image(*process, into);
        self.process(*process).calls += 1;
        into.event_from(proc, ended.tid, &row, source, args);
        row.file
    }

    /// Returns the file that an argument names.
    fn file(&mut self, process: i32, call: &Call, place: File, catalog: &Catalog) -> u32 {
        match place {
            File::Descriptor(place) => self.file_of_descriptor(process, call.argument(place), catalog),
            File::Path(place) => match quoted(call.argument(place)) {
                Some(path) => self.path(self.cwd(process), &path, catalog),
                None => FILE_NONE,
            },
            File::At(place) => {
                let folder = call.argument(place);
                let at = self.file_of_descriptor(process, folder, catalog);
                if at != FILE_NONE
                    && folder.starts_with(b"AT_FDCWD")
                    && let Some(process) = self.processes.get_mut(&process)
                {
                    process.cwd = Some(at);
                }
                let at = if at == FILE_NONE && folder.starts_with(b"AT_FDCWD") { self.cwd(process) } else { at };
                match quoted(call.argument(place + 1)) {
                    Some(path) if path.is_empty() => at,
                    Some(path) => self.path(at, &path, catalog),
                    None => at,
                }
            }
        }
    }

    /// Returns the file of a descriptor: as shown, or as it was opened.
    fn file_of_descriptor(&mut self, process: i32, argument: &[u8], catalog: &Catalog) -> u32 {
        if let Some(shown) = shown(argument) {
            return self.object(shown, catalog);
        }
        let fd = descriptor(argument).unwrap_or(-1);
        self.table(process).and_then(|process| process.descriptors.get(fd)).unwrap_or(FILE_NONE)
    }

    fn object(&mut self, shown: &[u8], catalog: &Catalog) -> u32 {
        if let Some(&file) = self.objects.get(shown) {
            return file;
        }
        let file = catalog.file(&object(shown));
        self.objects.insert(shown.into(), file);
        file
    }

    fn cwd(&self, process: i32) -> u32 {
        self.processes.get(&process).and_then(|process| process.cwd).unwrap_or(FILE_NONE)
    }

    /// Returns a path, made absolute if its directory is known.
    fn path(&self, folder: u32, path: &[u8], catalog: &Catalog) -> u32 {
        let path = readable(path);
        if path.starts_with('/') || folder == FILE_NONE {
            return catalog.file(&clean("", &path));
        }
        catalog.file(&clean(&catalog.path(folder), &path))
    }

    /// Tracks descriptors and working directories.
    fn follow(&mut self, ended: &CompletedCall, file: u32, into: &mut Threads) {
        let CompletedCall { tid, process, call, .. } = ended;
        if forks(call.name) {
            self.forking.retain(|maker| maker != tid);
        }
        let (process, ret) = (*process, call.result.ret);
        if call.name == b"close" {
            let fd = descriptor(call.argument(0)).unwrap_or(-1);
            if let Some(process) = self.table_mut(process) {
                process.descriptors.close(fd);
            }
            return;
        }
        if ret < 0 {
            return;
        }
        match call.name {
            b"open" | b"openat" | b"openat2" | b"creat" => self.opens(process, ret, file),
            b"dup" | b"dup2" | b"dup3" => self.opens(process, ret, file),
            b"fcntl" | b"fcntl64" if call.argument(1).starts_with(b"F_DUPFD") => self.opens(process, ret, file),
            b"close_range" if !has_flag(call, "CLOSE_RANGE_CLOEXEC") => self.closes_range(process, call),
            b"pipe" | b"pipe2" | b"socketpair" => self.opens_pair(process, call, into.catalog),
            b"chdir" | b"fchdir" if file != FILE_NONE => self.process(process).cwd = Some(file),
            b"getcwd" => {
                let cwd = quoted(call.argument(0)).map(|path| into.catalog.file(&readable(&path)));
                self.process(process).cwd = cwd;
            }
            b"execve" | b"execveat" => self.executes(ended, into),
            name if forks(name) => {
                let child = ret as i32;
                let parent = if has_flag(call, "CLONE_THREAD") {
                    self.leaders.get(&child).copied()
                } else {
                    self.processes.get(&child).and_then(|child| child.parent)
                };
                // A process that has already appeared was assigned to its apparent creator.
                if parent != Some(process) {
                    let flags = call.arguments().concat();
                    self.begin(process, child, &flags, into);
                }
            }
            name => {
                let made = made_by(name).map(|kind| into.catalog.file(kind));
                made.into_iter().for_each(|file| self.opens(process, ret, file));
            }
        }
    }

    /// Returns the process whose table of descriptors a process uses.
    fn table(&self, process: i32) -> Option<&Process> {
        let process = self.processes.get(&process)?;
        process.shares.and_then(|other| self.processes.get(&other)).or(Some(process))
    }

    fn table_mut(&mut self, process: i32) -> Option<&mut Process> {
        let owner = self.processes.get(&process)?.shares.filter(|other| self.processes.contains_key(other));
        self.processes.get_mut(&owner.unwrap_or(process))
    }

    fn opens(&mut self, process: i32, fd: i64, file: u32) {
        if let (Some(table), Ok(fd)) = (self.table_mut(process), fd.try_into()) {
            table.descriptors.open(fd, file);
        }
    }

    /// Parses `[3<pipe:[1]>, 4<pipe:[1]>]`.
    fn opens_pair(&mut self, process: i32, call: &Call, catalog: &Catalog) {
        let list = if call.name == b"socketpair" { call.argument(3) } else { call.argument(0) };
        let kind = catalog.file(if call.name == b"socketpair" { "<socket>" } else { "<pipe>" });
        for part in list.trim_ascii_start().strip_prefix(b"[").unwrap_or(list).split(|byte| *byte == b',') {
            let digits = part.trim_ascii().split(|byte| !byte.is_ascii_digit()).next().and_then(number);
            digits.into_iter().for_each(|fd| self.opens(process, fd, kind));
        }
    }

    fn closes_range(&mut self, process: i32, call: &Call) {
        let (first, last) = (number(call.argument(0)), number(call.argument(1)));
        if let (Some(first), Some(table)) = (first, self.table_mut(process)) {
            table.descriptors.close_range(first, last.unwrap_or(i64::MAX));
        }
    }

    /// Starts a new image for a process that runs another program.
    fn executes(&mut self, ended: &CompletedCall, into: &mut Threads) {
        let CompletedCall { process: pid, call, .. } = ended;
        let place = if call.name == b"execveat" { 1 } else { 0 };
        let program = quoted(call.argument(place))
            .filter(|path| !path.is_empty())
            .map(|path| readable(path.rsplit(|byte| *byte == b'/').next().unwrap_or(&path)).into_owned());
        let words = texts(call.argument(place + 1)).map(|word| readable(&word).into_owned());
        let (command, proc) = (words.collect::<Vec<_>>().join(" "), self.image(*pid, into));
        let process = self.process(*pid);
        process.command = Some(command).filter(|command| !command.is_empty());
        // The program that -Y shows is the kernel's name for it.
        if !process.is_named {
            process.program = program;
        }
        if process.calls > 1 {
            (process.proc, process.calls) = (None, 0);
            *self.images.entry(*pid).or_default() += 1;
            let end = ended.ts.saturating_add(ended.dur);
            into.catalog.amend(proc, |image| (image.ended, image.end_ts) = (Ending::Exec.to_string(), Some(end)));
            self.image(*pid, into);
            return;
        }
        let (program, command) = (process.program.clone(), process.command.clone());
        into.catalog.amend(proc, |image| (image.program, image.command) = (program, command));
    }

    fn begin(&mut self, parent: i32, child: i32, flags: &[u8], into: &mut Threads) {
        if has(flags, "CLONE_THREAD") {
            self.leaders.insert(child, parent);
            self.forget(child);
            return;
        }
        self.leaders.remove(&child);
        if !self.processes.contains_key(&child) {
            // Another process had the number before.
            self.images.entry(child).and_modify(|images| *images += 1);
        }
        let maker = self.process(parent);
        let owner = maker.shares.unwrap_or(parent);
        let shares = has(flags, "CLONE_FILES").then_some(owner);
        let (cwd, program, command) = (maker.cwd, maker.program.clone(), maker.command.clone());
        let descriptors = self.table_mut(parent).filter(|_| shares.is_none()).map(|process| process.descriptors.fork());
        let process = self.process(child);
        let shared_before = process.shares.is_some();
        (process.parent, process.shares, process.cwd) = (Some(parent), shares, cwd);
        process.descriptors = descriptors.unwrap_or_default();
        if process.program.is_none() {
            (process.program, process.command) = (program, command);
        }
        let (program, command) = (process.program.clone(), process.command.clone());
        if let Some(proc) = process.proc {
            into.catalog.amend(proc, |image| {
                (image.ppid, image.program, image.command) = (Some(parent), program, command);
            });
        }
        self.sharing = self.sharing + shares.is_some() as usize - shared_before as usize;
    }
}

fn has_flag(call: &Call, flag: &str) -> bool {
    call.arguments().iter().any(|argument| has(argument, flag))
}

/// Returns all texts of a list: `["cat", "/a"]`.
fn texts(list: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let at = memchr::memchr(b'"', rest)?;
        let text = quoted(&rest[at..])?;
        rest = &rest[at + text::quoted_length(&rest[at..])?..];
        Some(text)
    })
}

/// Returns the name of the object that a call creates with a descriptor but without a file.
fn made_by(call: &[u8]) -> Option<&'static str> {
    Some(match call {
        b"socket" | b"accept" | b"accept4" => "<socket>",
        b"eventfd" | b"eventfd2" => "<eventfd>",
        b"memfd_create" => "<memory>",
        b"io_uring_setup" => URING,
        b"epoll_create" | b"epoll_create1" | b"signalfd" | b"signalfd4" | b"timerfd_create" | b"inotify_init" => {
            "<kernel object>"
        }
        b"inotify_init1" | b"pidfd_open" | b"userfaultfd" | b"perf_event_open" | b"fanotify_init" => "<kernel object>",
        _ => return None,
    })
}

/// Returns the bytes that a call requests.
fn requested(known: &Syscall, call: &Call) -> Option<i64> {
    match known.size? {
        Size::Number(place) => number(call.argument(place)),
        Size::Vector(place) => vector(call.argument(place)),
    }
}

/// Returns a path below a directory, without its empty and `.` components.
fn clean(folder: &str, path: &str) -> String {
    let mut out = String::with_capacity(folder.len() + path.len() + 1);
    out.push_str(folder.trim_end_matches('/'));
    let relative = folder.is_empty() && !path.starts_with('/');
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if !(relative && out.is_empty()) {
            out.push('/');
        }
        out.push_str(part);
    }
    match (out.is_empty(), relative) {
        (true, true) => path.into(),
        (true, false) => "/".into(),
        _ => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_times_are_recognized() {
        let timed =
            ["1 1700000000.1 read(3, 4) = 0", "22:13:20 read(3, 4) = 0", "[pid 7] 22:13:20.5 <... read resumed>) = 0"];
        assert!(timed.iter().all(|line| is_line(line)));
        let timeless = [
            "read(3, 4) = 0",
            "123 read(3, 4) = 0",
            "[pid 7] close(3) = 0",
            "% time     seconds  usecs/call     calls",
        ];
        assert!(timeless.iter().all(|line| is_timeless(line) && !is_line(line)));
        assert!(
            ["10:00:00 hello (world)", "# Notes", "f(x) is 3"].iter().all(|line| !is_line(line) && !is_timeless(line))
        );
    }

    #[test]
    fn paths_are_joined_and_cleaned() {
        assert_eq!(
            (clean("/d", "x"), clean("/d/", "./x//y"), clean("/", "x")),
            ("/d/x".into(), "/d/x/y".into(), "/x".into())
        );
        assert_eq!(
            (clean("", "/a//b/"), clean("", "/"), clean("", "a/./b")),
            ("/a/b".into(), "/".into(), "a/b".into())
        );
        assert_eq!(
            (clean("", "."), clean("/d", "."), clean("/d", "../x")),
            (".".into(), "/d".into(), "/d/../x".into())
        );
    }
}
