//! A call as strace writes it.
//!
//! ```text
//! name(argument, argument, ...) = result <seconds>
//!      "a\303\244\n"...         text, truncated if dots follow
//!      3</data/a\76>(deleted)   a descriptor and its target, with -y; 3</dev/full<char 1:7>> and
//!                               3<TCP:[127.0.0.1:80->127.0.0.1:81]> with -yy
//! ```

use std::borrow::Cow;

use dlio_schemas::native::names::URING;

use super::seconds;
use crate::batch::{ABSENT, FAILED};
use crate::errno;
use dlio_schemas::readable::readable;

/// The number of arguments parsed; no call has more that matter.
const ARGUMENTS_MAX: usize = 8;

/// A parsed call.
pub struct Call<'a> {
    pub name: &'a [u8],
    arguments: [&'a [u8]; ARGUMENTS_MAX],
    pub result: Outcome<'a>,
}

/// The part of a line after the equals sign.
#[derive(Debug, PartialEq)]
pub struct Outcome<'a> {
    /// A number, or the negative error number.
    pub ret: i64,
    /// The file of the new descriptor, if `-y` shows it.
    pub made: Option<&'a [u8]>,
    /// The duration of the call, with `-T`.
    pub dur: Option<i64>,
}

impl<'a> Call<'a> {
    pub fn read(text: &'a [u8]) -> Option<Call<'a>> {
        let open = memchr::memchr(b'(', text)?;
        let name = Some(&text[..open]).filter(|name| is_name(name))?;
        let mut arguments = [&b""[..]; ARGUMENTS_MAX];
        let mut rest = &text[open + 1..];
        for place in 0.. {
            rest = rest.trim_ascii_start();
            let end = argument_end(rest)?;
            if let Some(argument) = arguments.get_mut(place) {
                // A call that was split has a blank where its parts are joined.
                *argument = rest[..end].trim_ascii_end();
            }
            let closed = rest[end] == b')';
            rest = &rest[end + 1..];
            if closed {
                break;
            }
        }
        let result = rest.trim_ascii_start().strip_prefix(b"=")?;
        Some(Call { name, arguments, result: Outcome::read(result.trim_ascii())? })
    }

    /// Returns one of its arguments; empty if it has fewer.
    pub fn argument(&self, place: u8) -> &'a [u8] {
        self.arguments.get(place as usize).copied().unwrap_or_default()
    }

    pub fn arguments(&self) -> &[&'a [u8]] {
        &self.arguments
    }
}

impl<'a> Outcome<'a> {
    /// Parses `3</a>`, `-1 EBADF (Bad file descriptor)`, `-1 (errno 512)`, `?`, each followed by `<0.000021>`. Returns
    /// `None` if a number is too large.
    fn read(text: &'a [u8]) -> Option<Outcome<'a>> {
        let shown_time = |at: usize| {
            let digits = text[at + 1..].strip_suffix(b">")?;
            let is_time = digits.contains(&b'.') && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
            is_time.then(|| Some((at, seconds(digits)?)))
        };
        let timed = match memchr::memrchr(b'<', text).and_then(shown_time) {
            Some(time) => Some(time?),
            None => None,
        };
        let text = timed.map_or(text, |(at, _)| text[..at].trim_ascii_end());
        let end = text.iter().position(|byte| matches!(byte, b' ' | b'<')).unwrap_or(text.len());
        let ret = match number(&text[..end]) {
            Some(-1) => errno_of(text[end..].trim_ascii_start()).map_or(FAILED, |number| -number),
            Some(ret) => ret.max(-1),
            None if end > 0 && text[..end].iter().all(u8::is_ascii_digit) => return None,
            None => ABSENT,
        };
        Some(Outcome { ret, made: shown(text), dur: timed.map(|(_, dur)| dur) })
    }
}

/// Parses `EBADF (Bad file descriptor)`, or `(errno 512)` for an error that strace cannot name.
fn errno_of(text: &[u8]) -> Option<i64> {
    if let Some(rest) = text.strip_prefix(b"(errno ") {
        return number(rest.split(|byte| *byte == b')').next()?);
    }
    errno::number(text.split(|byte| *byte == b' ').next()?)
}

pub fn is_name(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_')
}

/// Returns the position of the comma or bracket that ends the argument at the start of a text.
fn argument_end(text: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0usize);
    loop {
        match text.get(at)? {
            b'"' => at += quoted_end(&text[at..])?,
            b'<' if is_descriptor(&text[..at]) => at += shown_end(&text[at..])?,
            b'/' if text[at..].starts_with(b"/*") => at += memchr::memmem::find(&text[at..], b"*/")? + 2,
            b',' | b')' if depth == 0 => return Some(at),
            b'(' | b'[' | b'{' => (at, depth) = (at + 1, depth + 1),
            b')' | b']' | b'}' => (at, depth) = (at + 1, depth.saturating_sub(1)),
            _ => at += 1,
        }
    }
}

/// Returns the position after the closing quote.
fn quoted_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', &text[at..])?;
        match text[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
        if at > text.len() {
            return None;
        }
    }
}

/// Returns `true` if the text before a bracket is a descriptor, so that the bracket shows its target.
fn is_descriptor(before: &[u8]) -> bool {
    before.last().is_some_and(u8::is_ascii_digit) || before.ends_with(b"AT_FDCWD")
}

/// Returns the position after the bracket that closes the first one. Brackets of a path are escaped; a device's are
/// inside, an address has one in its arrow.
fn shown_end(text: &[u8]) -> Option<usize> {
    if is_address(&text[1..]) {
        return memchr::memmem::find(text, b"]>").map(|at| at + 2);
    }
    let mut depth = 0;
    for at in memchr::memchr2_iter(b'<', b'>', text) {
        depth = if text[at] == b'<' { depth + 1 } else { depth - 1 };
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Returns `true` if the shown text is `TCP:[...]`, `pipe:[...]`, `anon_inode:[...]` and not a path.
fn is_address(shown: &[u8]) -> bool {
    let word = shown.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')).count();
    word > 0 && shown[word..].starts_with(b":[")
}

/// Returns the file of the descriptor at the start of an argument, with `-y`.
pub fn shown(argument: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(b'<', argument).filter(|at| is_descriptor(&argument[..*at]))?;
    let end = shown_end(&argument[at..])?;
    Some(&argument[at + 1..at + end - 1]).filter(|shown| !shown.is_empty())
}

/// Returns the name of a descriptor's target: a path, or a kind in angle brackets, as in dlio's own traces.
pub fn object(shown: &[u8]) -> Cow<'static, str> {
    const KINDS: [(&[u8], &str); 9] = [
        (b"pipe:", "<pipe>"),
        (b"socket:", "<socket>"),
        (b"/dev/pts/", "<terminal>"),
        (b"/dev/tty", "<terminal>"),
        (b"/memfd:", "<memory>"),
        (b"anon_inode:[eventfd", "<eventfd>"),
        (b"anon_inode:[io_uring", URING),
        (b"anon_inode:", "<kernel object>"),
        (b"pid:", "<kernel object>"),
    ];
    let plain = match shown.contains(&b'\\') {
        true => Cow::Owned(unescaped(shown)),
        false => Cow::Borrowed(shown),
    };
    match KINDS.iter().find(|(start, _)| plain.starts_with(start)) {
        Some((_, kind)) => Cow::Borrowed(kind),
        None if is_address(&plain) => Cow::Borrowed("<socket>"),
        // A device has its numbers after its path.
        None => {
            let end = memchr::memchr(b'<', shown).filter(|_| shown.ends_with(b">"));
            let path = end.map_or(plain, |end| Cow::Owned(unescaped(&shown[..end])));
            Cow::Owned(readable(&path).into_owned())
        }
    }
}

/// Returns the bytes of the quoted text at the start of an argument; `None` if it is not quoted.
pub fn quoted(argument: &[u8]) -> Option<Cow<'_, [u8]>> {
    let end = quoted_length(argument)?;
    let inside = &argument[1..end - 1];
    Some(if inside.contains(&b'\\') { Cow::Owned(unescaped(inside)) } else { Cow::Borrowed(inside) })
}

/// Returns the length of the quoted text at the start of an argument, with its quotes.
pub fn quoted_length(argument: &[u8]) -> Option<usize> {
    argument.first().filter(|byte| **byte == b'"').and_then(|_| quoted_end(argument))
}

/// Returns bytes without their escapes: `\n`, `\"`, up to three octal digits, or `\x` and two hexadecimal ones.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let escape = &rest[at + 1..];
        let octal = escape.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
        let (byte, length) = match escape {
            _ if octal > 0 => (escape[..octal].iter().fold(0, |sum: u8, digit| sum << 3 | (digit - b'0')), octal),
            [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), 3)
            }
            [b'n', ..] => (b'\n', 1),
            [b't', ..] => (b'\t', 1),
            [b'r', ..] => (b'\r', 1),
            [b'v', ..] => (0x0b, 1),
            [b'f', ..] => (0x0c, 1),
            [other, ..] => (*other, 1),
            [] => (b'\\', 0),
        };
        out.push(byte);
        rest = &escape[length..];
    }
    out.extend_from_slice(rest);
    out
}

fn hex(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or(0) as u8
}

/// Parses a whole number, or an address.
pub fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses an argument that is a descriptor.
pub fn descriptor(argument: &[u8]) -> Option<i32> {
    let end = argument.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(argument.len());
    let ends = argument.get(end).is_none_or(|byte| *byte == b'<');
    std::str::from_utf8(&argument[..end]).ok().filter(|_| ends)?.parse().ok()
}

/// Returns the bytes of all buffers of a vector, if all are shown: `[{iov_base="ab", iov_len=2}, {iov_base="c",
/// iov_len=1}]`.
pub fn vector(argument: &[u8]) -> Option<i64> {
    let key = b"iov_len=";
    let mut sum = None;
    for at in memchr::memmem::find_iter(argument, key) {
        let digits = &argument[at + key.len()..];
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        sum = Some(sum.unwrap_or(0i64).checked_add(number(&digits[..end])?)?);
    }
    sum.filter(|_| !argument.ends_with(b", ...]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Vec<String>, i64, Option<i64>) {
        let call = Call::read(text.as_bytes()).unwrap();
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let arguments = call.arguments().iter().filter(|argument| !argument.is_empty()).map(|argument| show(argument));
        (show(call.name), arguments.collect(), call.result.ret, call.result.dur)
    }

    #[test]
    fn calls_parse_with_any_text() {
        let (name, arguments, ret, dur) =
            read(r#"write(16</d\74i\76r/x\76, \"y>, "a = 5) = 7\n\"", 31) = 31 <0.000021>"#);
        assert_eq!((name.as_str(), arguments.len(), ret, dur), ("write", 3, 31, Some(21_000)));
        assert_eq!(arguments[1], r#""a = 5) = 7\n\"""#);
        let (_, arguments, ret, _) = read("rt_sigprocmask(SIG_BLOCK, ~[RT_1 RT_2], NULL, 8) = 0");
        assert_eq!((&arguments[1][..], arguments.len(), ret), ("~[RT_1 RT_2]", 4, 0));
        let (_, arguments, ..) = read("getdents64(3</a (b>, 0x5 /* 5, entries) */, 32768) = 144 <0.1>");
        assert_eq!(arguments, ["3</a (b>", "0x5 /* 5, entries) */", "32768"]);
        let (_, arguments, ..) = read(r#"sendto(4<UNIX-STREAM:[1->2,"/a>b"]>, "x", 1, 0, NULL, 0) = 1"#);
        assert_eq!(arguments.len(), 6);
        assert!(Call::read(b"write(1, \"abc").is_none() && Call::read(b"Write(1) = 2").is_none());
    }

    #[test]
    fn results_of_every_kind_are_understood() {
        let read = |text: &'static str| Outcome::read(text.as_bytes());
        let ret = |text| read(text).unwrap().ret;
        assert_eq!(ret("3</a b = c> <0.1>"), 3);
        assert_eq!(
            (ret("-1 ELOOP (Too many levels) <0.1>"), ret("-1 (errno 512)"), ret("-1 ENEVERHEARD (x)")),
            (-40, -512, FAILED)
        );
        assert_eq!((ret("?"), ret("? ERESTARTSYS (To be restarted)"), ret("0x10"), ret("0")), (ABSENT, ABSENT, 16, 0));
        let outcome = read("11</dev/full<char 1:7>> <0.000007>").unwrap();
        assert_eq!((outcome.made, outcome.dur), (Some(&b"/dev/full<char 1:7>"[..]), Some(7000)));
        assert_eq!(read("16</t/new.txt>(deleted) <0.5>").unwrap().made, Some(&b"/t/new.txt"[..]));
        assert_eq!((read("0 <99999999999.5>"), read("9223372036854775808 <0.5>")), (None, None));
    }

    #[test]
    fn names_lose_their_escapes_and_kinds_have_one_name() {
        assert_eq!(object(br"/d\74i\76r/n\303\244\n"), "/d<i>r/n\u{e4}\n");
        assert_eq!(object(br"\x2f\x74\xff"), "/t\\xff");
        assert_eq!(object(b"/dev/full<char 1:7>"), "/dev/full");
        let kinds = ["pipe:[1]", "TCP:[1->2]", "socket:[3]", "anon_inode:[eventfd]", "/memfd:x", "/dev/pts/0"];
        let expected = ["<pipe>", "<socket>", "<socket>", "<eventfd>", "<memory>", "<terminal>"];
        assert_eq!(kinds.map(|kind| object(kind.as_bytes()).into_owned()), expected);
        assert_eq!(object(b"anon_inode:[io_uring]"), "<io_uring>");
        assert_eq!(quoted(br#""a\"b"..."#).unwrap().as_ref(), b"a\"b");
        assert_eq!(
            (descriptor(b"3</a>"), descriptor(b"0x55"), descriptor(b"-1"), descriptor(b"17")),
            (Some(3), None, None, Some(17))
        );
    }
}
