//! What `strace -f -ttt -T` prints, with `-y` or without; `-tt` and `-t` in place of `-ttt`.
//!
//! ```text
//! 1234  1700000000.123456 openat(AT_FDCWD, "/data/a", O_RDONLY) = 3 <0.000021>
//! 1235  1700000000.124000 read(3,  <unfinished ...>
//! 1235  1700000000.125000 <... read resumed>"..."..., 4096) = 4096 <0.001000>
//! 1234  22:13:20.126000 close(3</data/a>) = 0 <0.000021>
//! ```
//!
//! Descriptors are followed through open, dup, close, fork and clone, as far as the text shows them. A clock without a day
//! is that of the day on which the file was last written, or of the day before where that would lie in its future; a clock
//! that falls back by hours has passed midnight.

use std::collections::HashMap;

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
}

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
    let Some((_, stamp, rest)) = start(line) else { return false };
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
fn start(line: &str) -> Option<(i32, Stamp, &str)> {
    let line = line.strip_prefix("[pid").map_or(line, |rest| rest.trim_start()).trim_start();
    let (first, rest) = line.split_once([' ', ']'])?;
    let rest = rest.trim_start();
    if first.contains(['.', ':']) {
        return Some((0, Stamp::of(first)?, rest));
    }
    let (second, rest) = rest.split_once(' ')?;
    Some((first.parse().ok()?, Stamp::of(second)?, rest.trim_start()))
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
        lines(text, last, |line| {
            let line = String::from_utf8_lossy(line);
            if !line.trim().is_empty() && self.line(&line, into).is_none() {
                into.broken += 1;
            }
        })
    }
}

impl StraceParser {
    /// `written` is when the file was last written: the day of clocks that have none.
    pub fn new(written: i64) -> StraceParser {
        StraceParser { clock: Clock { written, ..Clock::default() }, ..StraceParser::default() }
    }

    fn line(&mut self, line: &str, into: &mut Threads) -> Option<()> {
        let (tid, stamp, rest) = start(line)?;
        let ts = match stamp {
            Stamp::Unix(ts) => ts,
            Stamp::OfDay(ns) => self.clock.moment(ns),
        };
        if rest.starts_with("+++") || rest.starts_with("---") {
            return Some(());
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            self.begun.insert(tid, format!("{ts} {begun}"));
            return Some(());
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let (_, after) = resumed.split_once("resumed>")?;
            let begun = self.begun.remove(&tid)?;
            let (ts, before) = begun.split_once(' ')?;
            let whole = format!("{before}{after}");
            return self.call(tid, ts.parse().ok()?, &whole, into);
        }
        self.call(tid, ts, rest, into)
    }

    fn call(&mut self, tid: i32, ts: i64, text: &str, into: &mut Threads) -> Option<()> {
        let (name, rest) = text.split_once('(')?;
        // What an error says of itself may hold brackets, but no equals sign.
        let (arguments, result) = rest.rsplit_once(" = ")?;
        let arguments = arguments.trim_end().strip_suffix(')')?;
        let dur = result.rsplit_once('<').and_then(|(_, time)| seconds(time.strip_suffix('>')?)).unwrap_or(0);
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
        let fd = number(call.arguments);
        if let Some(fd) = fd.filter(|_| info.is_some_and(takes_descriptor)) {
            row.fd = fd as i32;
        }
        row.file = self.file(call, process, fd, into);
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

    fn file(&self, call: &Call, process: i32, fd: Option<i64>, into: &Threads) -> u32 {
        let known = fd.and_then(|fd| self.open.get(&(process, fd)).map(String::as_str));
        let opened = call.made.filter(|_| call.name.starts_with("open") || call.name == "creat");
        let path = opened.or(shown(call.arguments)).or(known).or_else(|| quoted_first(call.arguments));
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
    !matches!(info.op, Op::OPEN | Op::CREAT | Op::OPENAT | Op::MMAP | Op::MUNMAP)
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

/// The number that arguments begin with.
fn number(arguments: &str) -> Option<i64> {
    let end = arguments.find(|c: char| !c.is_ascii_digit()).unwrap_or(arguments.len());
    arguments[..end].parse().ok()
}

fn last_number(arguments: &str) -> Option<i64> {
    arguments.rsplit(',').next()?.trim().parse().ok()
}

/// Bytes asked for: the last number of a read, the last but one where a position follows.
fn size(name: &str, arguments: &str) -> Option<i64> {
    let skipped = matches!(name, "pread64" | "pwrite64") as usize;
    arguments.rsplit(',').nth(skipped)?.trim().parse().ok()
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
