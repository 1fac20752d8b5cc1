//! Names of ranges as programs pass them: terminated strings of bytes or wide characters, or strings registered before.
//!
//! A string is copied before the call returns, and a long one is truncated.

use std::ffi::{c_char, c_void};

use dlio_schemas::native::names::NameKind;

use crate::recording::wiped_page;
use crate::spans::library_calls::{self, Number};

use super::kept::{Handle, Table};

/// Longer names are truncated: a range's name should be readable in a timeline.
const LONGEST: usize = 1024;

crate::large! {
    /// More strings than programs register, except for programs that register one string per step: see [`register`].
    static STRINGS: Table<16384> = Table::new();
}
static UNNAMED: Number = Number::new();

/// `nvtxEventAttributes_t` as it is since version 1 of NVTX.
#[repr(C)]
pub struct Attributes {
    _version: u16,
    size: u16,
    _category: u32,
    _color: [u32; 2],
    _payload: [u32; 2],
    _value: u64,
    kind: i32,
    message: *const c_void,
}

const _: () = assert!(size_of::<Attributes>() == 48 && std::mem::offset_of!(Attributes, message) == 40);

/// The values of `nvtxMessageType_t`.
const BYTES: i32 = 1;
const WIDE: i32 = 2;
const REGISTERED: i32 = 3;

/// A string of a program, valid during the call.
#[derive(Clone, Copy)]
pub enum Message {
    Bytes(*const c_char),
    Wide(*const i32),
    Registered(Handle),
    Missing,
}

impl Message {
    /// Returns the message of an event.
    ///
    /// # Safety
    /// `attributes` is null or points to attributes, whose size they contain.
    pub unsafe fn of(attributes: *const Attributes) -> Message {
        // SAFETY: by the contract above; every version begins with its size.
        unsafe {
            if attributes.is_null() || (&raw const (*attributes).size).read() < size_of::<Attributes>() as u16 {
                return Message::Missing;
            }
            let message = (*attributes).message;
            match (*attributes).kind {
                BYTES => Message::Bytes(message.cast()),
                WIDE => Message::Wide(message.cast()),
                REGISTERED => Message::Registered(message),
                _ => Message::Missing,
            }
        }
    }

    /// Returns the number of the name.
    pub(in crate::spans) fn number(self) -> u32 {
        let number = match self {
            Message::Registered(handle) => registered(handle),
            text => text.with_text(|text| library_calls::intern(NameKind::Span, text)),
        };
        number.unwrap_or_else(|| UNNAMED.get(NameKind::Span, "unnamed"))
    }

    /// Passes the text to `use_it`; `None` if there is no text.
    pub(in crate::spans) fn with_text<R>(self, use_it: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match self {
            Message::Bytes(text) if !text.is_null() => {
                // SAFETY: the program passes a terminated string, which is read up to its end.
                let text = unsafe {
                    let is_inside = |at: &usize| text.add(*at).read() != 0;
                    let length = (0..LONGEST).take_while(is_inside).count();
                    std::slice::from_raw_parts(text.cast::<u8>(), length)
                };
                Some(use_it(whole_letters(text)))
            }
            Message::Wide(text) if !text.is_null() => {
                let mut space = [0; LONGEST];
                Some(use_it(narrowed(text, &mut space)))
            }
            _ => None,
        }
    }
}

/// Returns a text without the part of a letter at which it was truncated.
fn whole_letters(text: &[u8]) -> &[u8] {
    let is_part = |byte: &u8| byte & 0xc0 == 0x80;
    let parts = text.iter().rev().take_while(|byte| is_part(byte)).take(4).count();
    if text.len() < LONGEST || parts == 4 {
        return text;
    }
    let first = text[text.len() - parts - 1];
    let expected = if first < 0x80 { 0 } else { first.leading_ones() as usize - 1 };
    if parts == expected { text } else { &text[..text.len() - parts - 1] }
}

/// Returns a text of wide characters as UTF-8, up to the space for it.
fn narrowed(text: *const i32, space: &mut [u8; LONGEST]) -> &[u8] {
    let (mut length, mut at) = (0, text);
    loop {
        // SAFETY: the program passes a terminated string, and the loop ends at its end.
        let (wide, next) = unsafe { (at.read_unaligned() as u32, at.add(1)) };
        let letter = char::from_u32(wide).unwrap_or(char::REPLACEMENT_CHARACTER);
        if wide == 0 || length + letter.len_utf8() > LONGEST {
            return &space[..length];
        }
        length += letter.encode_utf8(&mut space[length..]).len();
        at = next;
    }
}

/// Keeps a string for messages that refer to it. If the table is full, the handle contains the string's number, which
/// is valid until the process forks: some programs register one string per step.
pub(super) fn register(text: Message) -> Handle {
    let handle = |text: &[u8]| match STRINGS.keep(text) {
        Some(kept) => kept.handle(),
        None => packed(library_calls::intern(NameKind::Span, text), wiped_page::generation()),
    };
    text.with_text(handle).unwrap_or(std::ptr::null())
}

/// Returns the number of the string that a handle refers to.
fn registered(handle: Handle) -> Option<u32> {
    if let Some(kept) = STRINGS.find(handle) {
        return Some(kept.number(NameKind::Span));
    }
    let (number, generation) = unpacked(handle)?;
    (generation == wiped_page::generation() & GENERATIONS).then_some(number)
}

/// An odd address is never that of a table's entry.
fn packed(number: u32, generation: u32) -> Handle {
    let bits = (number as usize) << 32 | ((generation & GENERATIONS) as usize) << 1 | 1;
    std::ptr::without_provenance(bits)
}

const GENERATIONS: u32 = u32::MAX >> 1;

fn unpacked(handle: Handle) -> Option<(u32, u32)> {
    let bits = handle.addr();
    (bits & 1 == 1).then_some(((bits >> 32) as u32, bits as u32 >> 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_text_ends_with_a_letter() {
        let text = |tail: &str| [vec![b'a'; LONGEST - tail.len()], tail.as_bytes().to_vec()].concat();
        for tail in ["é", "€", "𝄞", "z"] {
            let whole = text(tail);
            assert_eq!(whole_letters(&whole), whole);
            for missing in 1..tail.len() {
                let cut = [&vec![b'a'; missing], &whole[..LONGEST - missing]].concat();
                let kept = LONGEST - (tail.len() - missing);
                assert_eq!(whole_letters(&cut), &cut[..kept], "{tail} without {missing} bytes");
            }
        }
        assert_eq!(whole_letters(&[0x80; LONGEST]).len(), LONGEST);
        assert_eq!(whole_letters("kurzé".as_bytes()), "kurzé".as_bytes());
    }

    #[test]
    fn wide_text_becomes_utf_8_and_is_truncated() {
        let wide = |text: &str| text.chars().map(|letter| letter as i32).chain([0]).collect::<Vec<i32>>();
        let mut space = [0; LONGEST];
        assert_eq!(narrowed(wide("größe 𝄞").as_ptr(), &mut space), "größe 𝄞".as_bytes());
        assert_eq!(narrowed([-1, 65, 0].as_ptr(), &mut space), "\u{fffd}A".as_bytes());
        assert_eq!(narrowed(wide(&"€".repeat(4000)).as_ptr(), &mut space), "€".repeat(LONGEST / 3).as_bytes());
    }

    #[test]
    fn handles_of_a_full_table_contain_the_number() {
        assert_eq!(unpacked(packed(77, 5)), Some((77, 5)));
        assert_eq!(unpacked(packed(u32::MAX, u32::MAX)), Some((u32::MAX, GENERATIONS)));
        assert_eq!(unpacked(std::ptr::null()), None);
    }
}
