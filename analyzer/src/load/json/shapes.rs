//! Objects in a text that differ only in their numbers and a few strings.
//!
//! A tracer writes each kind of event with one pattern. Once an object has been parsed, the next one of its kind can be
//! read by comparing the constant parts as bytes; the values are between them.
//!
//! ```text
//! {"id":41,"name":"pread","ts":1795,"dur":12,"args":{"fhash":"4aa1","ret":4096}}
//! {"id":..,"name":"pread","ts":....,"dur":..,"args":{"fhash":"....","ret":....}}
//! ```
//!
//! This module does not know the meaning of the values.

use super::json_scanner::{Json, leading_digits, string_end};

/// The constant and variable parts of an object.
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
    /// Creates the shape of an object. `values` are its parts in order: numbers, and strings without their quotes.
    pub fn new(object: &'a [u8], values: impl Iterator<Item = &'a [u8]>) -> Shape<'a> {
        let hole = |value: &[u8]| {
            let start = value.as_ptr() as usize - object.as_ptr() as usize;
            Hole { start, end: start + value.len(), quoted: object[start - 1] == b'"' }
        };
        Shape { text: object, holes: values.map(hole).collect() }
    }

    /// Passes the values of the object at the start of `text` to `each`, with their indexes, and as numbers if they are
    /// whole numbers. Returns the object's length, or `None` if it has another shape, possibly after some of its
    /// values.
    #[inline(always)]
    pub fn fill<'t>(&self, text: &'t [u8], mut each: impl FnMut(usize, Json<'t>, Option<i64>)) -> Option<usize> {
        let (mut at, mut kept) = (0, 0);
        for (i, hole) in self.holes.iter().enumerate() {
            at += same(&text[at..], &self.text[kept..hole.start])?;
            let rest = &text[at..];
            let length = if hole.quoted {
                let length = string_end(&text[at - 1..])? - 2;
                each(i, Json::Text(&rest[..length]), None);
                length
            } else {
                let (number, length) = number(rest)?;
                each(i, Json::Word(&rest[..length]), number);
                length
            };
            (at, kept) = (at + length, hole.end);
        }
        Some(at + same(&text[at..], &self.text[kept..])?)
    }
}

/// Returns the length of `expected` if a text starts with it. It is a few words long: a call to compare would cost
/// more.
#[inline(always)]
fn same(text: &[u8], expected: &[u8]) -> Option<usize> {
    let length = expected.len();
    let text = text.get(..length)?;
    let (eights, last) = expected.as_chunks::<8>();
    let is_same = match length {
        // The last eight bytes overlap the previous ones.
        8.. => {
            eights.iter().zip(text.as_chunks().0).all(|(a, b)| a == b)
                && text.last_chunk::<8>() == expected.last_chunk()
        }
        4.. => text.first_chunk::<4>() == expected.first_chunk() && text.last_chunk::<4>() == expected.last_chunk(),
        _ => text.iter().eq(last),
    };
    is_same.then_some(length)
}

/// Returns the number at the start of a text, if it is a whole one, and its length.
#[inline(always)]
fn number(text: &[u8]) -> Option<(Option<i64>, usize)> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
    if let Some((number, length)) = leading_digits(text)
        && !is_part(text.get(length)?)
    {
        return Some((Some(number), length));
    }
    let length = text.iter().position(|byte| !is_part(byte))?;
    (length > 0).then_some((None, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    static OBJECT: &[u8] = br#"{"id":1,"name":"read","ts":1795219511213560,"args":{"file":"/a","ret":-1}}"#;

    fn shape() -> Shape<'static> {
        let value = |text: &str| {
            let at = memchr::memmem::find(OBJECT, text.as_bytes()).unwrap();
            &OBJECT[at..at + text.len()]
        };
        Shape::new(OBJECT, [&OBJECT[6..7], value("1795219511213560"), value("/a"), value("-1")].into_iter())
    }

    fn values(text: &str) -> Option<Vec<String>> {
        let mut values = Vec::new();
        let length = shape().fill(text.as_bytes(), |i, value, number| {
            assert_eq!(i, values.len());
            assert_eq!(number, value.integer().filter(|number| *number >= 0));
            values.push(String::from_utf8_lossy(value.raw()).into_owned());
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
}
