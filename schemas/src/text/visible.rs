//! Text for a terminal: names come from traced programs, and a terminal executes some characters instead of showing
//! them.

use std::io::{self, IoSlice, Write};

/// Returns `true` if a terminal executes a character or shows nothing for it: control characters, characters that
/// change the direction of text, and invisible ones, with which two names look alike.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e000}'..='\u{f8ff}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{10ffff}')
}

/// Returns text of several lines, with a mark instead of each character that [`is_obeyed`].
pub fn visible(text: &str) -> String {
    let shown = |c| if is_obeyed(c) && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// A writer that passes on its input as [`visible`] text if `is_terminal`, otherwise unchanged.
pub struct Visible<W: Write> {
    out: W,
    is_terminal: bool,
    /// The start of a character whose other bytes have not been written yet.
    begun: Vec<u8>,
}

impl<W: Write> Visible<W> {
    pub fn new(out: W, is_terminal: bool) -> Visible<W> {
        Visible { out, is_terminal, begun: Vec::new() }
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(bytes);
        }
        self.begun.extend_from_slice(bytes);
        let begun = std::mem::take(&mut self.begun);
        let mut text = String::with_capacity(begun.len());
        let mut chunks = begun.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let is_cut = chunks.peek().is_none() && is_begun(chunk.invalid());
            match chunk.invalid() {
                b"" => {}
                invalid if is_cut => self.begun = invalid.to_vec(),
                _ => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        self.out.write_all(visible(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, slices: &[IoSlice]) -> io::Result<usize> {
        let first = slices.iter().find(|slice| !slice.is_empty());
        match self.is_terminal {
            true => self.write(first.map_or(&[], |slice| &slice[..])),
            false => self.out.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns `true` if bytes can be the start of a character.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_characters_remain() {
        let hidden = "\u{1b}\u{7}\u{9b}\u{85}\r\u{8}\u{7f}\u{ad}\u{61c}\u{200b}\u{200f}\u{202e}\u{2028}\u{2066}\u{2060}\
                      \u{feff}\u{fe0f}\u{fff9}\u{3164}\u{e0041}\u{e0100}\u{e000}";
        assert_eq!(visible(hidden), "\u{fffd}".repeat(hidden.chars().count()));
        let shown = "/data/a b\t\u{e4}\u{65e5}\u{672c}\u{2026}\u{1f600} ~!\n";
        assert_eq!(visible(shown), shown);
    }

    #[test]
    fn split_characters_are_written_whole() {
        let text = "a\u{202e}\u{e4}\x1b]0;x\x07\u{1f600}\n";
        for size in 1..8 {
            let (mut terminal, mut file) = (Visible::new(Vec::new(), true), Visible::new(Vec::new(), false));
            for piece in text.as_bytes().chunks(size) {
                terminal.write_all(piece).unwrap();
                file.write_all(piece).unwrap();
            }
            assert_eq!(String::from_utf8(terminal.out).unwrap(), visible(text));
            assert_eq!(file.out, text.as_bytes());
        }
        let mut terminal = Visible::new(Vec::new(), true);
        terminal.write_all(b"a\xffb\xc2\x9bc").unwrap();
        assert_eq!(terminal.out, "a\u{fffd}b\u{fffd}c".as_bytes());
    }
}
