//! JSON taken apart in place: one object's fields, one after the other, nothing built.
//!
//! A trace holds hundreds of millions of small objects of which few fields matter; a general parser costs three times what
//! finding those does.

/// A value as it stands in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Json<'a> {
    /// Between the quotes, escapes as they are.
    Text(&'a [u8]),
    /// A number, `true`, `false` or `null`.
    Word(&'a [u8]),
    /// With its brackets.
    Object(&'a [u8]),
    Array(&'a [u8]),
}

impl<'a> Json<'a> {
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

    /// Text with its escapes resolved; of anything else how it is written.
    pub fn text(self) -> std::borrow::Cow<'a, str> {
        match self {
            Json::Text(text) if text.contains(&b'\\') => unescaped(text).into(),
            Json::Text(text) | Json::Word(text) | Json::Object(text) | Json::Array(text) => {
                String::from_utf8_lossy(text)
            }
        }
    }

    /// Microseconds with any number of decimals, in nanoseconds.
    pub fn microseconds(self) -> Option<i64> {
        let (Json::Text(text) | Json::Word(text)) = self else { return None };
        let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
        let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
        if fraction.len() > 3 || text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
            return self.float().map(|us| (us * 1000.0).round() as i64);
        }
        let digits = if fraction.is_empty() { 0 } else { integer(fraction)? * 10i64.pow(3 - fraction.len() as u32) };
        let signed = if whole.starts_with(b"-") { -digits } else { digits };
        integer(whole)?.checked_mul(1000)?.checked_add(signed)
    }
}

fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    if digits.is_empty() || digits.len() > 18 {
        // Rare lengths, floating notation and nonsense take the long way.
        return std::str::from_utf8(text).ok()?.parse().ok();
    }
    let mut number = 0i64;
    for &digit in digits {
        number = number * 10 + (digit.is_ascii_digit().then_some((digit - b'0') as i64))?;
    }
    Some(if negative { -number } else { number })
}

fn unescaped(text: &[u8]) -> String {
    let quoted = [b"\"", text, b"\""].concat();
    serde_json::from_slice(&quoted).unwrap_or_else(|_| String::from_utf8_lossy(text).into_owned())
}

/// Where the value at the start of `text` ends; `None` where the text ends before it does.
pub fn value_end(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => string_end(text),
        b'{' | b'[' => nested_end(text),
        _ => text.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')),
    }
}

/// Past the closing quote.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Past the bracket that closes the first one. Brackets are counted, not matched: what is wrong inside is found later.
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

/// Fields of an object; ends early where it is not well formed.
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// `object` has its brackets.
    pub fn new(object: &'a [u8]) -> Fields<'a> {
        Fields { rest: object.get(1..).unwrap_or_default() }
    }
}

fn trimmed(text: &[u8]) -> &[u8] {
    let skipped = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',')).count();
    &text[skipped..]
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let text = trimmed(self.rest);
        if text.first() != Some(&b'"') {
            return None;
        }
        let end = string_end(text)?;
        let key = &text[1..end - 1];
        let after = trimmed(&text[end..]).strip_prefix(b":")?;
        let after = trimmed(after);
        let end = value_end(after)?;
        let value = &after[..end];
        self.rest = &after[end..];
        Some((
            key,
            match value.first()? {
                b'"' => Json::Text(&value[1..end - 1]),
                b'{' => Json::Object(value),
                b'[' => Json::Array(value),
                _ => Json::Word(value),
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_with_their_values() {
        let text = br#"{"a": "x\"y", "b":-12 ,"c":{"d":[1,"}"]},"e":null}"#;
        let fields: Vec<_> = Fields::new(text).map(|(key, value)| (key, value.text().into_owned())).collect();
        let expected: [(&[u8], &str); 4] = [(b"a", "x\"y"), (b"b", "-12"), (b"c", r#"{"d":[1,"}"]}"#), (b"e", "null")];
        assert_eq!(fields, expected.map(|(key, text)| (key, text.to_string())));
        assert_eq!(value_end(text), Some(text.len()));
    }

    #[test]
    fn an_object_cut_anywhere_has_no_end() {
        let text = br#"{"a":"x\\","b":{"c":[1,2]}}"#;
        for cut in 0..text.len() {
            assert_eq!(value_end(&text[..cut]), None, "{cut}");
            Fields::new(&text[..cut]).for_each(drop);
        }
    }

    #[test]
    fn microseconds_keep_their_nanoseconds() {
        let ns = |text: &str| Json::Word(text.as_bytes()).microseconds();
        assert_eq!(ns("12.345"), Some(12_345));
        assert_eq!(ns("1700000000000000.7"), Some(1_700_000_000_000_000_700));
        assert_eq!((ns("-1.5"), ns("3"), ns("1e3")), (Some(-1500), Some(3000), Some(1_000_000)));
        assert_eq!((ns("x"), ns("1.2.3")), (None, None));
    }
}
