//! Names as text. A path may contain any bytes except zero; tables and reports contain text.
//!
//! Bytes that are not UTF-8 are written as `\xff`, so that different names stay different. For that reason, a name
//! that contains such a sequence itself gets its backslash written as `\x5c`.

use std::borrow::Cow;

/// Returns a name as text, unchanged if possible.
pub fn readable(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) if !has_sequence(name) => Cow::Borrowed(text),
        _ => Cow::Owned(written(name)),
    }
}

fn written(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len() + 16);
    for chunk in name.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find('\\') {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            out.push_str(if is_sequence(after.as_bytes()) { "\\x5c" } else { "\\" });
            rest = &after[1..];
        }
        out.push_str(rest);
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out
}

fn has_sequence(name: &[u8]) -> bool {
    (0..name.len()).any(|at| name[at] == b'\\' && is_sequence(&name[at..]))
}

/// Returns `true` if a text begins with the sequence written for a byte.
fn is_sequence(text: &[u8]) -> bool {
    matches!(text, [b'\\', b'x', b'8' | b'9' | b'a'..=b'f', b'0'..=b'9' | b'a'..=b'f', ..] | [b'\\', b'x', b'5', b'c', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_stay_different() {
        let names: [&[u8]; 9] = [
            b"/data/a",
            b"/data/\xff",
            b"/data/\xfe",
            b"/data/\\xff",
            b"/data/\\x5cxff",
            b"/data/\\x5cx5cxff",
            b"\\",
            b"a\\xf",
            b"\xc3\xa4\xc3",
        ];
        let written = names.map(readable);
        let different: std::collections::HashSet<_> = written.iter().collect();
        assert_eq!(different.len(), names.len(), "{written:?}");
        assert_eq!(written[1..4], ["/data/\\xff", "/data/\\xfe", "/data/\\x5cxff"]);
        assert_eq!((&*written[6], &*written[7], &*written[8]), ("\\", "a\\xf", "\u{e4}\\xc3"));
        assert!(matches!(written[0], Cow::Borrowed(_)));
    }
}
