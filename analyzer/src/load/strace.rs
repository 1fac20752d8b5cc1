//! What `strace -f -ttt -T` prints, with `-y` or without; `-tt` and `-t` in place of `-ttt`.
//!
//! ```text
//! 1234  1700000000.123456 openat(AT_FDCWD, "/data/a", O_RDONLY) = 3 <0.000021>
//! 1235  1700000000.124000 read(3,  <unfinished ...>
//! 1235  1700000000.125000 <... read resumed>"..."..., 4096) = 4096 <0.001000>
//! 1234  22:13:20.126000 close(3</data/a>) = 0 <0.000021>
//! 1234<cat> 22:13:20.127000 write(1, "x", 1) = 1 <0.000021>            with -Y
//! 1234  22:13:20.128000 +++ exited with 0 +++
//! ```
//!
//! With `-ff` each thread has a file of its own, whose name ends in its number. Without `-T` no call has a duration, but for
//! those that are shown in two lines.
//!
//! Descriptors are followed through open, dup, close, fork and clone, as far as the text shows them. A clock without a day
//! is that of the day on which the file was last written, or of the day before where that would lie in its future; a clock
//! that falls back by hours has passed midnight.

use std::collections::HashMap;

use dlio_schemas::native::fields::Ending;
use dlio_schemas::ops::{Arg, Op, OpInfo};

use super::text::{Parser, Threads, lines};
use crate::batch::{ABSENT, Row};
use crate::catalog::{Catalog, FILE_NONE};

#[derive(Default)]
pub struct StraceParser {
    /// Calls that have begun, by thread.
    begun: HashMap<i32, String>,
    /// Process of each thread that is not one of its own.
    leaders: HashMap<i32, i32>,
    /// Path of each descriptor of a process.
    open: HashMap<(i32, i64), String>,
    clock: Clock,
    /// The thread of lines that name none.
    tid: i32,
    /// Programs of processes, as `-Y` shows them.
    programs: HashMap<i32, String>,
    /// Calls, and those of them that say how long they took.
    calls: u64,
    timed: u64,
}

/// What is said of a trace without durations.
const DURATIONLESS: &str =
    "strace without -T: no call has a duration, and figures of time are zero; record with strace -f -ttt -T -y";

/// What makes moments of clocks without a day.
#[derive(Default)]
struct Clock {
    /// When the file was last written, in Unix time.
    written: i64,
    /// The day that the clock is of, and where it stood last.
    day: i64,
    last: Option<i64>,
}

const MINUTE: i64 = 60 * 1_000_000_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// A clock may be set back by an hour when summer ends; one that falls back by more has passed midnight.
const SET_BACK_MAX: i64 = 120 * MINUTE;

/// How far a line may stand behind others that happened later.
const DISORDER_MAX: i64 = MINUTE;

impl Clock {
    fn moment(&mut self, of_day: i64) -> i64 {
        match self.last {
            None => {
                let today = self.written.div_euclid(DAY) * DAY;
                self.day = if today + of_day > self.written { today - DAY } else { today };
            }
            Some(last) if last - of_day > SET_BACK_MAX => self.day += DAY,
            // Threads may be written a little out of order, about midnight too.
            Some(last) if of_day - last > DAY - DISORDER_MAX => return self.day - DAY + of_day,
            Some(_) => {}
        }
        self.last = Some(of_day);
        self.day + of_day
    }
}

/// A line's time as it stands there, in nanoseconds.
#[derive(Clone, Copy)]
enum Stamp {
    Unix(i64),
    OfDay(i64),
}

impl Stamp {
    fn of(text: &str) -> Option<Stamp> {
        of_day(text).map(Stamp::OfDay).or_else(|| seconds(text).map(Stamp::Unix))
    }
}

/// A line, taken apart.
struct Line<'a> {
    tid: Option<i32>,
    program: Option<&'a str>,
    stamp: Stamp,
    rest: &'a str,
}

/// A line that ended a call.
struct Call<'a> {
    tid: i32,
    ts: i64,
    dur: i64,
    name: &'a str,
    arguments: &'a str,
    /// Path of the descriptor that came of it, where `-y` shows it.
    made: Option<&'a str>,
    ret: i64,
}

/// Whether a line reads like one of strace's with times.
pub fn is_line(line: &str) -> bool {
    let Some(Line { stamp, rest, .. }) = start(line) else { return false };
    let is_call = || rest.split_once('(').is_some_and(|(name, _)| is_name(name));
    !matches!(stamp, Stamp::Unix(..=0))
        && (is_call() || ["<...", "+++", "---"].iter().any(|mark| rest.starts_with(mark)))
}

/// Whether a line is one of strace's from which nobody learns when something happened: without `-t`, or of `-c`.
pub fn is_timeless(line: &str) -> bool {
    let line = line.strip_prefix("[pid").map_or(line, str::trim_start).trim_start();
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ']' || c == ' ');
    let is_call = line.split_once('(').is_some_and(|(name, rest)| is_name(name) && rest.contains(") = "));
    is_call || line.starts_with("% time     seconds  usecs/call")
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Thread, time and what follows.
fn start(line: &str) -> Option<Line<'_>> {
    let line = line.strip_prefix("[pid").unwrap_or(line).trim_start();
    let (tid, program, line) = match thread(line) {
        Some((tid, program, rest)) => (Some(tid), program, rest),
        None => (None, None, line),
    };
    let (stamp, rest) = line.split_once(' ')?;
    Some(Line { tid, program, stamp: Stamp::of(stamp)?, rest: rest.trim_start() })
}

/// The thread that a line begins with, its program, and what follows.
fn thread(line: &str) -> Option<(i32, Option<&str>, &str)> {
    let (number, rest) = line.split_at(line.find(|c: char| !c.is_ascii_digit())?);
    let (program, rest) = match rest.strip_prefix('<') {
        None => (None, rest),
        // A program's name may hold anything.
        Some(named) => {
            let end = named.find("> ").or_else(|| named.find(">]"))?;
            (Some(&named[..end]), &named[end + 1..])
        }
    };
    Some((number.parse().ok()?, program, rest.strip_prefix([' ', ']'])?.trim_start()))
}

/// `22:13:20` or `22:13:20.123456` in nanoseconds.
fn of_day(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let (hour, minute, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (hour, minute): (i64, i64) = (hour.parse().ok()?, minute.parse().ok()?);
    let second = seconds(rest).or_else(|| rest.parse::<i64>().ok()?.checked_mul(1_000_000_000))?;
    let valid = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..61_000_000_000).contains(&second);
    valid.then_some((hour * 3600 + minute * 60) * 1_000_000_000 + second)
}

/// `1700000000.123456` in nanoseconds.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.')?;
    let digits = fraction.get(..fraction.len().min(9))?;
    let nanos = digits.parse::<u32>().ok()? as i64 * 10i64.pow(9 - digits.len() as u32);
    whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

impl Parser for StraceParser {
    fn parse(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize {
        let used = lines(text, last, |line| {
            let line = String::from_utf8_lossy(line);
            if !line.trim().is_empty() && self.line(&line, into).is_none() {
                into.broken += 1;
            }
        });
        if last && self.calls > 0 && self.timed == 0 {
            into.remarks(DURATIONLESS);
        }
        used
    }
}

impl StraceParser {
    /// `written` is when the file was last written: the day of clocks that have none. `tid` is whose lines those are that
    /// do not say it.
    pub fn new(written: i64, tid: i32) -> StraceParser {
        StraceParser { clock: Clock { written, ..Clock::default() }, tid, ..StraceParser::default() }
    }

    fn line(&mut self, line: &str, into: &mut Threads) -> Option<()> {
        let Line { tid, program, stamp, rest } = start(line)?;
        let tid = tid.unwrap_or(self.tid);
        let ts = match stamp {
            Stamp::Unix(ts) => ts,
            Stamp::OfDay(ns) => self.clock.moment(ns),
        };
        if let Some(program) = program.filter(|_| self.process_of(tid) == tid) {
            self.runs(tid, program, into);
        }
        if let Some(ending) = rest.strip_prefix("+++ ") {
            self.ended(tid, ending, into);
            return Some(());
        }
        if rest.starts_with("---") {
            return Some(());
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            self.begun.insert(tid, format!("{ts} {begun}"));
            return Some(());
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let (_, after) = resumed.split_once("resumed>")?;
            let begun = self.begun.remove(&tid)?;
            let (begin, before) = begun.split_once(' ')?;
            let begin = begin.parse().ok()?;
            let whole = format!("{before}{after}");
            return self.call(tid, (begin, ts.saturating_sub(begin).max(0)), &whole, into);
        }
        self.call(tid, (ts, 0), rest, into)
    }

    /// What a process runs now.
    fn runs(&mut self, pid: i32, program: &str, into: &mut Threads) {
        if self.programs.get(&pid).is_none_or(|known| known != program) {
            let proc = into.process("unknown", pid, |_| ());
            into.catalog.amend(proc, |process| process.program = Some(program.into()));
            self.programs.insert(pid, program.into());
        }
    }

    /// How a thread ended; with its first thread a process does.
    fn ended(&self, tid: i32, ending: &str, into: &mut Threads) {
        let exited = ending.strip_prefix("exited with ").and_then(|rest| rest.split(' ').next());
        let ended = match exited.and_then(|status| status.parse().ok()) {
            Some(status) => Ending::Exit(status),
            None if ending.starts_with("killed by ") => Ending::Killed,
            None => return,
        };
        if self.process_of(tid) == tid {
            let proc = into.process("unknown", tid, |_| ());
            into.catalog.amend(proc, |process| process.ended = ended.to_string());
        }
    }

    /// A call whose lines say that it began then, and took as long as that at least.
    fn call(&mut self, tid: i32, (ts, shown_dur): (i64, i64), text: &str, into: &mut Threads) -> Option<()> {
        let (name, rest) = text.split_once('(')?;
        // What an error says of itself may hold brackets, but no equals sign.
        let (arguments, result) = rest.rsplit_once(" = ")?;
        let arguments = arguments.trim_end().strip_suffix(')')?;
        let timed = result.rsplit_once('<').and_then(|(_, time)| seconds(time.strip_suffix('>')?));
        self.calls += 1;
        self.timed += timed.is_some() as u64;
        let dur = timed.unwrap_or(shown_dur);
        let call = Call { tid, ts, dur, name, arguments, made: shown(result), ret: value(result) };
        self.event(&call, into);
        self.follow(&call);
        Some(())
    }

    fn process_of(&self, tid: i32) -> i32 {
        self.leaders.get(&tid).copied().unwrap_or(tid)
    }

    /// Keeps track of who owns which descriptor.
    fn follow(&mut self, call: &Call) {
        let process = self.process_of(call.tid);
        if call.ret < 0 {
            return;
        }
        match call.name {
            "open" | "openat" | "creat" => {
                if let Some(path) = call.made.or_else(|| quoted(call.arguments)) {
                    self.open.insert((process, call.ret), path.into());
                }
            }
            "dup" | "dup2" | "dup3" => {
                let path = self.open.get(&(process, number(call.arguments).unwrap_or(-1))).cloned();
                path.map(|path| self.open.insert((process, call.ret), path));
            }
            "close" => drop(number(call.arguments).and_then(|fd| self.open.remove(&(process, fd)))),
            "clone" | "clone3" | "fork" | "vfork" => self.begin(process, call.ret as i32, call.arguments),
            _ => {}
        }
    }

    fn begin(&mut self, parent: i32, child: i32, arguments: &str) {
        if arguments.contains("CLONE_THREAD") {
            self.leaders.insert(child, parent);
            return;
        }
        let inherited: Vec<_> = self
            .open
            .iter()
            .filter(|((owner, _), _)| *owner == parent)
            .map(|((_, fd), path)| (*fd, path.clone()))
            .collect();
        self.open.extend(inherited.into_iter().map(|(fd, path)| ((child, fd), path)));
    }

    fn event(&self, call: &Call, into: &mut Threads) {
        let process = self.process_of(call.tid);
        let proc = into.process("unknown", process, |_| ());
        let info = operation(call.name);
        let kind = info.and_then(|info| Catalog::kind_of_op(info.op));
        let mut row = Row::new(call.ts, call.dur, kind.unwrap_or_else(|| into.catalog.call(call.name, "posix")));
        row.ret = call.ret;
        let descriptor = match call.name {
            "mmap" => call.arguments.split(", ").nth(4).unwrap_or_default(),
            _ => call.arguments,
        };
        let fd = number(descriptor);
        if let Some(fd) = fd.filter(|_| info.is_some_and(takes_descriptor)) {
            row.fd = fd as i32;
        }
        row.file = self.file(call, process, descriptor, into);
        if info.is_some_and(|info| info.b == Arg::Size) {
            row.requested = size(call.name, call.arguments).unwrap_or(ABSENT);
        }
        if info.is_some_and(OpInfo::moves_bytes) && call.ret >= 0 {
            row.bytes = call.ret;
        }
        if matches!(call.name, "pread64" | "pwrite64" | "preadv" | "pwritev") {
            row.pos = last_number(call.arguments).unwrap_or(ABSENT);
        }
        into.event(proc, call.tid, &row, []);
    }

    fn file(&self, call: &Call, process: i32, descriptor: &str, into: &Threads) -> u32 {
        let known = number(descriptor).and_then(|fd| self.open.get(&(process, fd)).map(String::as_str));
        let opened = call.made.filter(|_| call.name.starts_with("open") || call.name == "creat");
        let path = opened.or(shown(descriptor)).or(known).or_else(|| quoted_first(call.arguments));
        path.map_or(FILE_NONE, |path| match path.starts_with("pipe:") || path.starts_with("socket:") {
            true => into.catalog.file(&format!("<{}>", path.split(':').next().unwrap_or(path))),
            false => into.catalog.file(path),
        })
    }
}

/// The kernel's names of calls that the C library calls otherwise.
fn operation(name: &str) -> Option<&'static OpInfo> {
    let name = match name {
        "pread64" => "pread",
        "pwrite64" => "pwrite",
        "newfstatat" => "fstatat",
        "fadvise64" => "posix_fadvise",
        "_llseek" => "lseek",
        other => other,
    };
    Op::from_name(name).and_then(Op::info)
}

/// Calls whose first argument is a descriptor.
fn takes_descriptor(info: &OpInfo) -> bool {
    !matches!(info.op, Op::OPEN | Op::CREAT | Op::OPENAT | Op::MUNMAP)
}

/// A result: a number, or `-1 EBADF (...)` as the negative error number.
fn value(result: &str) -> i64 {
    let mut words = result.split_whitespace();
    let number = words.next().and_then(|word| word.split('<').next());
    let number = number.and_then(|word| match word.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    });
    match (number, words.next().and_then(errno)) {
        (Some(-1), Some(errno)) => -errno,
        (Some(number), _) => number.max(-1),
        (None, _) => ABSENT,
    }
}

/// The commonest; what is not here is -1, as the call itself says.
fn errno(name: &str) -> Option<i64> {
    const ERRORS: [(&str, i64); 16] = [
        ("EPERM", 1),
        ("ENOENT", 2),
        ("EINTR", 4),
        ("EIO", 5),
        ("EBADF", 9),
        ("EAGAIN", 11),
        ("ENOMEM", 12),
        ("EACCES", 13),
        ("EEXIST", 17),
        ("ENOTDIR", 20),
        ("EISDIR", 21),
        ("EINVAL", 22),
        ("ENOTTY", 25),
        ("ENOSPC", 28),
        ("ESPIPE", 29),
        ("EPIPE", 32),
    ];
    ERRORS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The number that arguments begin with; an address is none.
fn number(arguments: &str) -> Option<i64> {
    let end = arguments.find(|c: char| !c.is_ascii_digit()).unwrap_or(arguments.len());
    arguments[..end].parse().ok().filter(|_| !arguments[end..].starts_with('x'))
}

fn last_number(arguments: &str) -> Option<i64> {
    arguments.rsplit(',').next()?.trim().parse().ok()
}

/// Bytes asked for: the last number of a read, the last but one where a position follows.
fn size(name: &str, arguments: &str) -> Option<i64> {
    if matches!(name, "readv" | "writev" | "preadv" | "pwritev" | "preadv2" | "pwritev2") {
        return vector(arguments);
    }
    if name == "mmap" {
        return arguments.split(", ").nth(1)?.parse().ok();
    }
    let skipped = matches!(name, "pread64" | "pwrite64") as usize;
    arguments.rsplit(',').nth(skipped)?.trim().parse().ok()
}

/// Bytes of all buffers of a vector, where all are shown: `[{iov_base="ab", iov_len=2}, {iov_base="c", iov_len=1}], 2`.
fn vector(arguments: &str) -> Option<i64> {
    let mut lengths = arguments.split("iov_len=").skip(1).map(number).peekable();
    let all = lengths.peek().is_some() && !arguments.contains(", ...]");
    lengths.try_fold(0i64, |sum, length| sum.checked_add(length?)).filter(|_| all)
}

/// With -y the path stands behind a descriptor: `3</data/a>`, of a device with more in brackets of its own.
fn shown(text: &str) -> Option<&str> {
    let (before, rest) = text.split_once('<')?;
    let is_descriptor = !before.is_empty() && before.bytes().all(|byte| byte.is_ascii_digit());
    rest.split(['<', '>']).next().filter(|path| is_descriptor && !path.is_empty())
}

/// The first text in quotes.
fn quoted(arguments: &str) -> Option<&str> {
    let (_, rest) = arguments.split_once('"')?;
    rest.split_once('"').map(|(path, _)| path)
}

/// A path that is the first or, after a folder's descriptor, the second argument.
fn quoted_first(arguments: &str) -> Option<&str> {
    let after = arguments.strip_prefix("AT_FDCWD");
    // With -y the folder is shown behind it.
    let after =
        after.map(|rest| rest.strip_prefix('<').and_then(|rest| rest.split_once('>')).map_or(rest, |(_, rest)| rest));
    let relative = after.map(|rest| rest.trim_start_matches([',', ' ']));
    relative.unwrap_or(arguments).strip_prefix('"').and_then(|rest| rest.split_once('"')).map(|(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_without_a_day_are_of_the_day_the_file_was_written() {
        const SECOND: i64 = MINUTE / 60;
        let clock = || Clock { written: 10 * DAY + MINUTE, ..Clock::default() };
        assert_eq!(clock().moment(0), 10 * DAY);
        let mut over_midnight = clock();
        let late = DAY - SECOND;
        let moments = [late, 0, late, SECOND, 23 * 60 * MINUTE].map(|of_day| over_midnight.moment(of_day) - 10 * DAY);
        assert_eq!(moments, [-SECOND, 0, -SECOND, SECOND, 23 * 60 * MINUTE]);
    }

    #[test]
    fn lines_with_times_and_without_are_told_apart() {
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
}
