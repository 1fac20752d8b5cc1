//! What `strace -f -ttt -T` prints, with `-y` or without.
//!
//! ```text
//! 1234  1700000000.123456 openat(AT_FDCWD, "/data/a", O_RDONLY) = 3 <0.000021>
//! 1235  1700000000.124000 read(3,  <unfinished ...>
//! 1235  1700000000.125000 <... read resumed>"..."..., 4096) = 4096 <0.001000>
//! ```
//!
//! Descriptors are followed through open, dup, close, fork and clone, as far as the text shows them.

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
}

/// A line that ended a call.
struct Call<'a> {
    tid: i32,
    ts: i64,
    dur: i64,
    name: &'a str,
    arguments: &'a str,
    ret: i64,
}

/// Whether a line reads like one of strace's with times.
pub fn is_line(line: &str) -> bool {
    let Some((_, ts, rest)) = start(line) else { return false };
    ts > 0 && (rest.contains('(') || rest.starts_with("<...") || rest.starts_with("+++") || rest.starts_with("---"))
}

/// Thread, time and what follows.
fn start(line: &str) -> Option<(i32, i64, &str)> {
    let line = line.strip_prefix("[pid").map_or(line, |rest| rest.trim_start()).trim_start();
    let (first, rest) = line.split_once([' ', ']'])?;
    let rest = rest.trim_start();
    if first.contains('.') {
        return Some((0, seconds(first)?, rest));
    }
    let (second, rest) = rest.split_once(' ')?;
    Some((first.parse().ok()?, seconds(second)?, rest.trim_start()))
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
    fn line(&mut self, line: &str, into: &mut Threads) -> Option<()> {
        let (tid, ts, rest) = start(line)?;
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
        let call = Call { tid, ts, dur, name, arguments, ret: value(result) };
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
                if let Some(path) = quoted(call.arguments) {
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
        // With -y the path stands behind the descriptor.
        let shown = call.arguments.split_once('<').filter(|(before, _)| before.bytes().all(|b| b.is_ascii_digit()));
        let shown = shown.filter(|(before, _)| !before.is_empty()).and_then(|(_, rest)| rest.split_once('>'));
        let known = fd.and_then(|fd| self.open.get(&(process, fd)).map(String::as_str));
        let path = shown.map(|(path, _)| path).or(known).or_else(|| quoted_first(call.arguments));
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

/// The first text in quotes.
fn quoted(arguments: &str) -> Option<&str> {
    let (_, rest) = arguments.split_once('"')?;
    rest.split_once('"').map(|(path, _)| path)
}

/// A path that is the first or, after a folder's descriptor, the second argument.
fn quoted_first(arguments: &str) -> Option<&str> {
    let relative = arguments.strip_prefix("AT_FDCWD").map(|rest| rest.trim_start_matches([',', ' ']));
    relative.unwrap_or(arguments).strip_prefix('"').and_then(|rest| rest.split_once('"')).map(|(path, _)| path)
}
