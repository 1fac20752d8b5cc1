//! Scans JSON in place: the fields of one object in order, without building a tree.
//!
//! A trace contains hundreds of millions of small objects, and only few of their fields matter. Scanning for these
//! costs a third of a general parser.

use dlio_schemas::readable::readable;

/// A value as written in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Json<'a> {
    /// Between the quotes, escapes not resolved.
    Text(&'a [u8]),
    /// A number, `true`, `false` or `null`.
    Word(&'a [u8]),
    /// With its brackets.
    Object(&'a [u8]),
    Array(&'a [u8]),
}

impl<'a> Json<'a> {
    /// Returns a text or word as written; empty for objects and lists.
    #[inline]
    pub fn raw(self) -> &'a [u8] {
        match self {
            Json::Text(text) | Json::Word(text) => text,
            Json::Object(_) | Json::Array(_) => b"",
        }
    }

    pub fn integer(self) -> Option<i64> {
        match self {
            Json::Text(text) | Json::Word(text) => integer(text),
            _ => None,
        }
    }

    pub fn float(self) -> Option<f64> {
        match self {
            Json::Text(text) | Json::Word(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// Returns a text with its escapes resolved; any other value as written.
    pub fn text(self) -> std::borrow::Cow<'a, str> {
        match self {
            Json::Text(text) if text.contains(&b'\\') => unescaped(text).into(),
            Json::Text(text) | Json::Word(text) | Json::Object(text) | Json::Array(text) => readable(text),
        }
    }

    /// Parses a timestamp or duration in units of `unit_ns` nanoseconds, with any number of decimals, into nanoseconds.
    pub fn time(self, unit_ns: i64) -> Option<i64> {
        let (Json::Text(text) | Json::Word(text)) = self else { return None };
        if let Some(whole) = digits(text) {
            return whole.checked_mul(unit_ns);
        }
        if text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
            return whole_ns(self.float()? * unit_ns as f64);
        }
        let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
        let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
        let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
        if text.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let whole = if whole.is_empty() { 0 } else { digits(whole)? };
        let ns = whole.checked_mul(unit_ns)?.checked_add(part_ns(fraction, unit_ns)?)?;
        Some(if negative { -ns } else { ns })
    }
}

/// Returns the nearest whole nanosecond; `None` if that does not fit, or for NaN.
pub fn whole_ns(ns: f64) -> Option<i64> {
    // The largest number that fits is not a float, and the next float is too large.
    (ns.abs() < i64::MAX as f64).then(|| ns.round() as i64)
}

/// Returns the nanoseconds of the decimals after a point.
fn part_ns(fraction: &[u8], unit_ns: i64) -> Option<i64> {
    // The ninth decimal of seconds is a nanosecond.
    let fraction = &fraction[..fraction.len().min(9)];
    if fraction.is_empty() {
        return Some(0);
    }
    let part = digits(fraction)?;
    if unit_ns == 1000 && fraction.len() <= 3 {
        return Some(part * POWERS[3 - fraction.len()] as i64);
    }
    let scale = 10i64.pow(fraction.len() as u32);
    Some((part * unit_ns + scale / 2) / scale)
}

/// How numbers in a file are converted to times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The unit of the numbers.
    pub unit_ns: i64,
    /// The origin of the numbers, in Unix time.
    pub zero_ns: i64,
}

impl Scale {
    /// Converts a value to a timestamp; `number` is the value if it is a plain number.
    #[inline(always)]
    pub fn moment(self, value: Json, number: Option<i64>) -> Option<i64> {
        self.length(value, number)?.checked_add(self.zero_ns)
    }

    #[inline(always)]
    pub fn length(self, value: Json, number: Option<i64>) -> Option<i64> {
        match number {
            Some(units) => units.checked_mul(self.unit_ns),
            None => value.time(self.unit_ns),
        }
    }
}

fn integer(text: &[u8]) -> Option<i64> {
    let (negative, rest) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    match digits(rest) {
        Some(number) => Some(if negative { -number } else { number }),
        // Leading zeros, the smallest number and invalid text take the slow path.
        None => {
            let text = std::str::from_utf8(text).ok()?;
            text.parse().ok().or_else(|| whole(text))
        }
    }
}

/// Parses `4096.0`: other tools write all numbers alike.
#[cold]
fn whole(text: &str) -> Option<i64> {
    // Larger numbers are not exact.
    const EXACT: u64 = 1 << 53;
    let (digits, zeros) = text.split_once('.')?;
    let number: i64 = digits.parse().ok()?;
    let is_whole = !zeros.is_empty() && zeros.bytes().all(|digit| digit == b'0');
    (is_whole && number.unsigned_abs() < EXACT).then_some(number)
}

/// Parses a number that consists of digits only.
#[inline]
fn digits(text: &[u8]) -> Option<i64> {
    leading_digits(text).filter(|(_, length)| *length == text.len()).map(|(number, _)| number)
}

/// The number of digits of the largest numbers that fit. Unix time in nanoseconds has as many.
const DIGITS_MAX: usize = 19;

/// Returns the number at the start of a text, and its digits; `None` if there are none, or too many.
#[inline(always)]
pub fn leading_digits(text: &[u8]) -> Option<(i64, usize)> {
    let (mut number, mut at) = (0u64, 0);
    while at <= DIGITS_MAX {
        let eight = eight_bytes(&text[at..]);
        let count = (no_digits(eight).trailing_zeros() / 8) as usize;
        if count == 8 {
            number = number.wrapping_mul(100_000_000).wrapping_add(eight_digits(eight));
            at += 8;
            continue;
        }
        if count > 0 {
            number = number.wrapping_mul(POWERS[count]).wrapping_add(eight_digits(eight << (64 - 8 * count)));
        }
        at += count;
        let fits = (1..=DIGITS_MAX).contains(&at) && number <= i64::MAX as u64;
        return fits.then_some((number as i64, at));
    }
    None
}

const POWERS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Returns the first bytes of a text, padded with zeros.
#[inline(always)]
fn eight_bytes(text: &[u8]) -> u64 {
    match text.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => text.iter().rev().fold(0, |word, byte| word << 8 | *byte as u64),
    }
}

/// Returns a nonzero byte for each byte that is not a digit.
#[inline(always)]
fn no_digits(eight: u64) -> u64 {
    let (high, low) = (eight & 0xf0f0_f0f0_f0f0_f0f0, eight & 0x0f0f_0f0f_0f0f_0f0f);
    high ^ 0x3030_3030_3030_3030 | (low + 0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0
}

/// Parses eight digits at once: pairs become numbers of two digits, those of four, those of eight. A zero byte counts
/// as 0.
#[inline(always)]
fn eight_digits(text: u64) -> u64 {
    let values = text & 0x0f0f_0f0f_0f0f_0f0f;
    let twos = values.wrapping_mul(10).wrapping_add(values >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = twos.wrapping_mul(100).wrapping_add(twos >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff
}

/// Returns text without its escapes. Half a surrogate pair is how Python writes a byte that is not UTF-8.
fn unescaped(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let escape = &rest[at + 1..];
        let length = match escape.first() {
            Some(b'u') => unescaped_unit(escape, &mut out),
            Some(letter) => {
                out.push(unescaped_letter(*letter));
                1
            }
            None => 0,
        };
        rest = &escape[length..];
    }
    out.extend_from_slice(rest);
    // A name that was not UTF-8 was encoded as text by its writer, and remains so.
    String::from_utf8(out).unwrap_or_else(|odd| readable(odd.as_bytes()).into_owned())
}

fn unescaped_letter(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        other => other,
    }
}

/// Writes the character of `\u` and four digits, or of a pair of them; returns the length of the escape.
fn unescaped_unit(text: &[u8], out: &mut Vec<u8>) -> usize {
    let unit = |text: &[u8]| {
        let digits = text.strip_prefix(b"u").and_then(|text| text.get(..4))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let Some(first) = unit(text) else {
        out.push(b'u');
        return 1;
    };
    let second = text[5..].strip_prefix(b"\\").and_then(unit).filter(|second| second >> 10 == 0xdc00 >> 10);
    if let Some(second) = second.filter(|_| first >> 10 == 0xd800 >> 10) {
        let scalar = char::from_u32(0x10000 + ((first & 0x3ff) << 10) + (second & 0x3ff)).unwrap_or('\u{fffd}');
        out.extend_from_slice(scalar.encode_utf8(&mut [0; 4]).as_bytes());
        return 11;
    }
    match char::from_u32(first) {
        Some(scalar) => out.extend_from_slice(scalar.encode_utf8(&mut [0; 4]).as_bytes()),
        None if (0xdc80..=0xdcff).contains(&first) => out.push(first as u8),
        None => out.extend_from_slice(&[
            0xe0 | (first >> 12) as u8,
            0x80 | (first >> 6 & 0x3f) as u8,
            0x80 | (first & 0x3f) as u8,
        ]),
    }
    5
}

/// Returns the end of the value at the start of `text`; `None` if the text ends first.
pub fn value_end(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => string_end(text),
        b'{' | b'[' => nested_end(text),
        _ => text.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')),
    }
}

/// Returns the position after the closing quote.
#[inline]
pub fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        if let Some(eight) = text.get(at..at + 8).and_then(|eight| eight.try_into().ok()) {
            let special = quotes_and_escapes(u64::from_le_bytes(eight));
            if special == 0 {
                at += 8;
                continue;
            }
            at += special.trailing_zeros() as usize / 8;
        }
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the high bit of each byte that is a quote or a backslash; bytes above the first one may be marked too.
#[inline]
fn quotes_and_escapes(eight: u64) -> u64 {
    let zeros = |bytes: u64| bytes.wrapping_sub(0x0101_0101_0101_0101) & !bytes & 0x8080_8080_8080_8080;
    zeros(eight ^ 0x2222_2222_2222_2222) | zeros(eight ^ 0x5c5c_5c5c_5c5c_5c5c)
}

/// Returns the position after the bracket that closes the first one. Brackets are counted, not matched: errors inside
/// are found later.
fn nested_end(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0usize, 0);
    loop {
        match text.get(at)? {
            b'"' => at += string_end(&text[at..])? - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// The fields of an object; ends early if it is malformed.
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// `object` includes its brackets.
    pub fn new(object: &'a [u8]) -> Fields<'a> {
        Fields { rest: object.get(1..).unwrap_or_default() }
    }

    /// Returns the next field's name; its value must be read next.
    #[inline]
    pub fn key(&mut self) -> Option<&'a [u8]> {
        let text = trimmed(self.rest);
        if text.first() != Some(&b'"') {
            return None;
        }
        let end = string_end(text)?;
        self.rest = trimmed(trimmed(&text[end..]).strip_prefix(b":")?);
        Some(&text[1..end - 1])
    }

    #[inline]
    pub fn value(&mut self) -> Option<Json<'a>> {
        let text = self.rest;
        let end = value_end(text)?;
        let value = &text[..end];
        self.rest = &text[end..];
        Some(match value.first()? {
            b'"' => Json::Text(&value[1..end - 1]),
            b'{' => Json::Object(value),
            b'[' => Json::Array(value),
            _ => Json::Word(value),
        })
    }

    /// Passes the fields of an object value to `each`; returns the whole value.
    pub fn inner(&mut self, mut each: impl FnMut(&'a [u8], Json<'a>)) -> Option<&'a [u8]> {
        let all = self.rest.first().filter(|byte| **byte == b'{').map(|_| self.rest)?;
        let mut fields = Fields::new(all);
        fields.by_ref().for_each(|(key, value)| each(key, value));
        self.rest = fields.after()?;
        Some(&all[..all.len() - self.rest.len()])
    }

    /// Returns the text after the object, once all its fields were read; `None` if it has no end here.
    pub fn after(&self) -> Option<&'a [u8]> {
        trimmed(self.rest).strip_prefix(b"}")
    }
}

#[inline]
fn trimmed(text: &[u8]) -> &[u8] {
    let mut text = text;
    while let [b' ' | b'\t' | b'\r' | b'\n' | b',', rest @ ..] = text {
        text = rest;
    }
    text
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], Json<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some((self.key()?, self.value()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_return_in_order_with_values() {
        let text = br#"{"a": "x\"y", "b":-12 ,"c":{"d":[1,"}"]},"e":null}"#;
        let fields: Vec<_> = Fields::new(text).map(|(key, value)| (key, value.text().into_owned())).collect();
        let expected: [(&[u8], &str); 4] = [(b"a", "x\"y"), (b"b", "-12"), (b"c", r#"{"d":[1,"}"]}"#), (b"e", "null")];
        assert_eq!(fields, expected.map(|(key, text)| (key, text.to_string())));
        assert_eq!(value_end(text), Some(text.len()));
    }

    #[test]
    fn escapes_of_every_kind_are_undone() {
        let text = |text: &'static [u8]| Json::Text(text).text().into_owned();
        assert_eq!(text(br#"a\"b\\c\/\n\t"#), "a\"b\\c/\n\t");
        assert_eq!(text(br"\u00e4\ud83d\ude00\u0041"), "\u{e4}\u{1f600}A");
        assert_eq!(text(br"a\udcff"), "a\\xff");
        assert_eq!(text(br"a\\xff"), "a\\xff");
        assert_eq!(text(b"\xff\\n"), "\\xff\n");
        assert_eq!(
            (text(br"\ud83d"), text(br"\u12"), text(b"x\\")),
            ("\\xed\\xa0\\xbd".into(), "u12".into(), "x".into())
        );
    }

    #[test]
    fn truncated_object_has_no_end() {
        let text = br#"{"a":"x\\","b":{"c":[1,2]}}"#;
        for cut in 0..text.len() {
            assert_eq!(value_end(&text[..cut]), None, "{cut}");
            Fields::new(&text[..cut]).for_each(drop);
        }
    }

    #[test]
    fn numbers_of_every_length_are_read() {
        let read = |text: &str| Json::Word(text.as_bytes()).integer();
        for text in [
            "0",
            "7",
            "12345678",
            "123456789",
            "1795219511213560",
            "-42",
            "999999999999999999",
            "9223372036854775807",
            "-9223372036854775808",
        ] {
            assert_eq!(read(text), text.parse().ok(), "{text}");
        }
        for byte in (0..=255u8).filter(|byte| !byte.is_ascii_digit()) {
            for place in 0..8 {
                let mut text = *b"12345678";
                text[place] = byte;
                assert_eq!(digits(&text), None, "{byte} at {place}");
            }
        }
        assert_eq!((read(""), read("-"), read("1e3")), (None, None, None));
    }

    #[test]
    fn only_digits_are_digits() {
        for byte in 0..=255u8 {
            for place in 0..8 {
                let mut text = *b"12345678";
                text[place] = byte;
                let others = no_digits(u64::from_le_bytes(text));
                let found = (others != 0).then(|| others.trailing_zeros() as usize / 8);
                assert_eq!(found, (!byte.is_ascii_digit()).then_some(place), "{byte}");
            }
        }
    }

    #[test]
    fn digits_end_where_something_else_begins() {
        let all = "9223372036854775807";
        for length in 1..=all.len() {
            let number: i64 = all[..length].parse().unwrap();
            for behind in ["", ",", ", and more text", ".5", "e7", "/", ":"] {
                let text = format!("{}{behind}", &all[..length]);
                assert_eq!(leading_digits(text.as_bytes()), Some((number, length)), "{text}");
            }
        }
        for text in ["", "-1", "x", "9223372036854775808", "12345678912345678900", "123456789123456789123456789"] {
            assert_eq!(leading_digits(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn quotes_and_escapes_are_found_at_any_offset() {
        for length in 0..40 {
            let text = format!("\"{}\" tail", "a".repeat(length));
            assert_eq!(string_end(text.as_bytes()), Some(length + 2));
            let text = format!("\"{}\\\"b\" tail", "a".repeat(length));
            assert_eq!(string_end(text.as_bytes()), Some(length + 5));
            assert_eq!(string_end(&text.as_bytes()[..length + 3]), None);
        }
    }

    #[test]
    fn times_keep_their_nanoseconds_in_every_unit() {
        let time = |text: &str, unit| Json::Word(text.as_bytes()).time(unit);
        let us = |text: &str| time(text, 1000);
        assert_eq!(us("12.345"), Some(12_345));
        assert_eq!((us("12.3456"), us("0.0004"), us(".5"), us("7.")), (Some(12_346), Some(0), Some(500), Some(7000)));
        assert_eq!(us("1700000000000000.7"), Some(1_700_000_000_000_000_700));
        assert_eq!((us("-1.5"), us("3"), us("1e3")), (Some(-1500), Some(3000), Some(1_000_000)));
        assert_eq!((us("x"), us("1.2.3"), us(""), us("-"), us("9223372036854776")), (None, None, None, None, None));
        let too_large = ["9223372036854776", "-9223372036854776", "99999999999999999999", "1e300", "-1e300", "1e16"];
        assert!(too_large.iter().all(|text| us(text).is_none()), "{:?}", too_large.map(us));
        assert_eq!(time("1795302384118400123", 1), Some(1_795_302_384_118_400_123));
        assert_eq!((time("1.25", 1_000_000), time("2.5", 1_000_000_000)), (Some(1_250_000), Some(2_500_000_000)));
    }
}
