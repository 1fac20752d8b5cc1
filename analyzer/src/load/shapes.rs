//! Objects of a text that are alike but for their numbers and a few strings.
//!
//! A tracer writes each kind of event by one pattern. Once an object has been taken apart, the next of its kind need not be:
//! what stays is compared as bytes, and what may differ stands between.
//!
//! ```text
//! {"id":41,"name":"pread","ts":1795,"dur":12,"args":{"fhash":"4aa1","ret":4096}}
//! {"id":..,"name":"pread","ts":....,"dur":..,"args":{"fhash":"....","ret":....}}
//! ```
//!
//! What the values mean is not known here.

use super::pull::string_end;

/// See the module.
pub struct Shape<'a> {
    text: &'a [u8],
    holes: Vec<Hole>,
}

/// A value that may differ.
struct Hole {
    start: usize,
    end: usize,
    quoted: bool,
}

impl<'a> Shape<'a> {
    /// The shape of an object. `values` lie in it, in order: numbers, and strings without their quotes.
    pub fn new(object: &'a [u8], values: impl Iterator<Item = &'a [u8]>) -> Shape<'a> {
        let hole = |value: &[u8]| {
            let start = value.as_ptr() as usize - object.as_ptr() as usize;
            Hole { start, end: start + value.len(), quoted: object[start - 1] == b'"' }
        };
        Shape { text: object, holes: values.map(hole).collect() }
    }

    /// Gives the values of the object at the start of `text` to `each`, by their place among all, and says how long it is;
    /// `None` where it has another shape, after any number of its values.
    #[inline]
    pub fn fill<'t>(&self, text: &'t [u8], mut each: impl FnMut(usize, &'t [u8])) -> Option<usize> {
        let (mut at, mut kept) = (0, 0);
        for (i, hole) in self.holes.iter().enumerate() {
            at += same(&text[at..], &self.text[kept..hole.start])?;
            let length = match hole.quoted {
                true => string_end(&text[at - 1..])? - 2,
                false => number_length(&text[at..])?,
            };
            each(i, &text[at..at + length]);
            (at, kept) = (at + length, hole.end);
        }
        Some(at + same(&text[at..], &self.text[kept..])?)
    }
}

#[inline]
fn same(text: &[u8], expected: &[u8]) -> Option<usize> {
    text.starts_with(expected).then_some(expected.len())
}

/// Bytes of the number at the start of a text.
#[inline]
fn number_length(text: &[u8]) -> Option<usize> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
    let mut at = 0;
    while let Some(eight) = text[at..].first_chunk() {
        let others = no_digits(u64::from_le_bytes(*eight));
        at += others.trailing_zeros() as usize / 8;
        if others != 0 {
            break;
        }
    }
    at += text[at..].iter().position(|byte| !is_part(byte))?;
    (at > 0).then_some(at)
}

/// Some bit of each byte that is no digit.
#[inline]
fn no_digits(eight: u64) -> u64 {
    let (high, low) = (eight & 0xf0f0_f0f0_f0f0_f0f0, eight & 0x0f0f_0f0f_0f0f_0f0f);
    high ^ 0x3030_3030_3030_3030 | (low + 0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &[u8] = br#"{"id":1,"name":"read","ts":1795219511213560,"args":{"file":"/a","ret":-1}}"#;

    fn shape() -> Shape<'static> {
        let value = |text: &str| {
            let at = memchr::memmem::find(OBJECT, text.as_bytes()).unwrap();
            &OBJECT[at..at + text.len()]
        };
        Shape::new(OBJECT, [&OBJECT[6..7], value("1795219511213560"), value("/a"), value("-1")].into_iter())
    }

    fn values(text: &str) -> Option<Vec<String>> {
        let mut values = Vec::new();
        let length = shape().fill(text.as_bytes(), |i, value| {
            assert_eq!(i, values.len());
            values.push(String::from_utf8_lossy(value).into_owned());
        })?;
        assert_eq!(&text[length - 1..length], "}");
        Some(values)
    }

    #[test]
    fn values_of_objects_that_are_alike_are_found() {
        let text = r#"{"id":123456789,"name":"read","ts":7.25,"args":{"file":"a \" b","ret":4096}}, {"#;
        assert_eq!(values(text).unwrap(), ["123456789", "7.25", r#"a \" b"#, "4096"]);
        assert_eq!(values(std::str::from_utf8(OBJECT).unwrap()).unwrap(), ["1", "1795219511213560", "/a", "-1"]);
    }

    #[test]
    fn anything_else_has_another_shape() {
        let object = std::str::from_utf8(OBJECT).unwrap();
        for (what, instead) in [("read", "write"), ("-1", "null"), (":1,", ":,"), ("\"/a\"", "7"), ("}}", "},")] {
            assert_eq!(values(&object.replace(what, instead)), None, "{instead}");
        }
        (0..object.len()).for_each(|cut| assert_eq!(values(&object[..cut]), None, "{cut}"));
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
}
