//! The part of protocol buffers that Perfetto's traces need: the numbers of the fields, a writer, a reader.
//!
//! Written by hand because the writer runs inside traced programs, where the runtime of a code generator is not
//! acceptable. This module is independent of events.
//!
//! ```text
//! field    = tag varint (number << 3 | wire), then by wire:
//!            0 varint   1 eight bytes   2 length varint + bytes   5 four bytes
//! ```

/// Numbers of the fields that are written or read, by message, as in google/perfetto's `protos/perfetto/trace`.
pub mod field {
    pub mod trace {
        pub const PACKET: u32 = 1;
    }
    pub mod packet {
        pub const CLOCK_SNAPSHOT: u32 = 6;
        pub const TIMESTAMP: u32 = 8;
        pub const SEQUENCE: u32 = 10;
        pub const TRACK_EVENT: u32 = 11;
        pub const INTERNED_DATA: u32 = 12;
        pub const SEQUENCE_FLAGS: u32 = 13;
        pub const DEFLATED: u32 = 50;
        pub const CLOCK_ID: u32 = 58;
        pub const DEFAULTS: u32 = 59;
        pub const TRACK: u32 = 60;
        pub const MACHINE: u32 = 98;
        pub const ATTRIBUTES: u32 = 126;
        /// Read by viewers since v58; older ones silently drop it.
        pub const ZSTD: u32 = 133;
    }
    pub mod defaults {
        pub const TRACK_EVENT: u32 = 11;
        pub const CLOCK_ID: u32 = 58;
    }
    pub mod snapshot {
        pub const CLOCKS: u32 = 1;
        pub const PRIMARY: u32 = 2;
    }
    pub mod clock {
        pub const ID: u32 = 1;
        pub const TIMESTAMP: u32 = 2;
        pub const INCREMENTAL: u32 = 3;
        pub const MULTIPLIER: u32 = 4;
    }
    pub mod track {
        pub const UUID: u32 = 1;
        pub const NAME: u32 = 2;
        pub const PROCESS: u32 = 3;
        pub const THREAD: u32 = 4;
        pub const PARENT: u32 = 5;
        pub const COUNTER: u32 = 8;
        pub const RANK: u32 = 12;
        pub const DESCRIPTION: u32 = 14;
    }
    pub mod process {
        pub const PID: u32 = 1;
        pub const COMMAND: u32 = 2;
        pub const NAME: u32 = 6;
        pub const START: u32 = 7;
        pub const LABELS: u32 = 8;
    }
    pub mod thread {
        pub const PID: u32 = 1;
        pub const TID: u32 = 2;
        pub const NAME: u32 = 5;
    }
    pub mod counter {
        pub const UNIT: u32 = 3;
        pub const INCREMENTAL: u32 = 5;
        pub const UNIT_NAME: u32 = 6;
    }
    pub mod event {
        pub const CATEGORY_IIDS: u32 = 3;
        pub const ANNOTATIONS: u32 = 4;
        pub const TYPE: u32 = 9;
        pub const NAME_IID: u32 = 10;
        pub const TRACK: u32 = 11;
        pub const CATEGORIES: u32 = 22;
        pub const NAME: u32 = 23;
        pub const COUNTER: u32 = 30;
        pub const COUNTER_DOUBLE: u32 = 44;
        pub const FLOWS: u32 = 47;
    }
    pub mod annotation {
        pub const NAME_IID: u32 = 1;
        pub const BOOL: u32 = 2;
        pub const UINT: u32 = 3;
        pub const INT: u32 = 4;
        pub const DOUBLE: u32 = 5;
        pub const STRING: u32 = 6;
        pub const POINTER: u32 = 7;
        pub const NAME: u32 = 10;
        pub const STRING_IID: u32 = 17;
    }
    pub mod interned {
        pub const CATEGORIES: u32 = 1;
        pub const EVENT_NAMES: u32 = 2;
        pub const ANNOTATION_NAMES: u32 = 3;
        pub const STRINGS: u32 = 29;
        /// A field of each entry.
        pub const IID: u32 = 1;
        pub const TEXT: u32 = 2;
    }
    pub mod attributes {
        pub const ATTRIBUTE: u32 = 1;
        pub const KEY: u32 = 1;
        pub const LONG: u32 = 2;
        pub const STRING: u32 = 3;
    }
}

/// Values of enumerations.
pub mod value {
    pub const CLOCK_REALTIME: u64 = 1;
    pub const CLOCK_MONOTONIC: u64 = 3;
    pub const CLOCK_BOOTTIME: u64 = 6;
    /// The first of the clocks that belong to one sequence.
    pub const CLOCK_OF_SEQUENCE: u64 = 64;

    pub const STATE_CLEARED: u64 = 1;
    pub const STATE_NEEDED: u64 = 2;

    pub const SLICE_BEGIN: u64 = 1;
    pub const SLICE_END: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const COUNTER: u64 = 4;
}

pub const VARINT: u32 = 0;
pub const FIXED64: u32 = 1;
pub const BYTES: u32 = 2;
pub const FIXED32: u32 = 5;

/// A message being written. The length of a nested message has one byte until it turns out to be longer, which is
/// rare.
#[derive(Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    #[inline(always)]
    pub fn varint(&mut self, value: u64) {
        if value < 0x80 {
            self.0.push(value as u8);
        } else if value < 0x4000 {
            self.0.extend_from_slice(&[value as u8 | 0x80, (value >> 7) as u8]);
        } else {
            self.long_varint(value);
        }
    }

    fn long_varint(&mut self, mut value: u64) {
        let mut bytes = [0; 10];
        let mut used = 0;
        while value >= 0x80 {
            bytes[used] = value as u8 | 0x80;
            value >>= 7;
            used += 1;
        }
        bytes[used] = value as u8;
        self.0.extend_from_slice(&bytes[..=used]);
    }

    #[inline(always)]
    pub(super) fn tag(&mut self, field: u32, wire: u32) {
        self.varint((field << 3 | wire) as u64);
    }

    #[inline(always)]
    pub fn number(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    pub fn fixed(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn text(&mut self, field: u32, text: &[u8]) {
        self.tag(field, BYTES);
        self.varint(text.len() as u64);
        self.0.extend_from_slice(text);
    }

    /// Writes a nested message, filled in by `fill`.
    #[inline(always)]
    pub fn nested(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        self.tag(field, BYTES);
        let at = self.0.len();
        self.0.push(0);
        fill(self);
        let length = self.0.len() - at - 1;
        if length < 0x80 { self.0[at] = length as u8 } else { self.lengthen(at, length) }
    }

    /// Makes space for a length of more than one byte.
    #[cold]
    fn lengthen(&mut self, at: usize, length: usize) {
        let mut prefix = Message::default();
        prefix.varint(length as u64);
        self.0.splice(at..=at, prefix.0);
    }
}

/// The value of a field as read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Number(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns a number of any width.
    pub fn number(self) -> u64 {
        match self {
            Value::Number(value) | Value::Fixed64(value) => value,
            Value::Fixed32(value) => value as u64,
            Value::Bytes(_) => 0,
        }
    }

    pub fn bytes(self) -> &'a [u8] {
        if let Value::Bytes(bytes) = self { bytes } else { &[] }
    }
}

/// The message violates the rules of its encoding, or ends too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// An iterator over the fields of a message. It ends at the first malformed one, which is an error.
pub struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    pub fn new(message: &'a [u8]) -> Walk<'a> {
        Walk { rest: message }
    }

    /// Returns the bytes that have not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|&number| number != 0)?;
        let value = match tag as u32 & 7 {
            VARINT => Value::Number(varint(&mut self.rest)?),
            FIXED64 => Value::Fixed64(u64::from_le_bytes(*take(&mut self.rest, 8)?.first_chunk()?)),
            BYTES => {
                let length = varint(&mut self.rest)?;
                Value::Bytes(take(&mut self.rest, usize::try_from(length).ok()?)?)
            }
            FIXED32 => Value::Fixed32(u32::from_le_bytes(*take(&mut self.rest, 4)?.first_chunk()?)),
            _ => return None,
        };
        Some((number, value))
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field().ok_or(Malformed);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Reads the varint at the start of `rest`, and advances `rest` past it.
#[inline(always)]
pub fn varint(rest: &mut &[u8]) -> Option<u64> {
    let (&first, after) = rest.split_first()?;
    if first < 0x80 {
        *rest = after;
        return Some(first as u64);
    }
    eight_byte_varint(first_eight(rest), rest)
}

/// Returns the first eight bytes; missing bytes look like continued ones.
#[inline(always)]
fn first_eight(bytes: &[u8]) -> u64 {
    const GOES_ON: u64 = 0x8080_8080_8080_8080;
    // Combines both ends of a shorter slice, which overlap, without a loop: a varint is usually the last of its
    // message.
    let missing = |there: u64| there | GOES_ON << (8 * bytes.len());
    match (bytes.first_chunk(), bytes.first_chunk(), bytes.last_chunk(), bytes.first_chunk(), bytes.last_chunk()) {
        (Some(eight), ..) => u64::from_le_bytes(*eight),
        (_, Some(first), Some(last), ..) => {
            let (first, last) = (u32::from_le_bytes(*first) as u64, u32::from_le_bytes(*last) as u64);
            missing(first | last << (8 * (bytes.len() - 4)))
        }
        (.., Some(first), Some(last)) => {
            let (first, last) = (u16::from_le_bytes(*first) as u64, u16::from_le_bytes(*last) as u64);
            missing(first | last << (8 * (bytes.len() - 2)))
        }
        _ => GOES_ON,
    }
}

/// Reads a varint whose first eight bytes are known, without a branch for each: adjacent groups of seven bits become
/// numbers of 14, those of 28, those of 56.
#[inline(always)]
fn eight_byte_varint(eight: u64, rest: &mut &[u8]) -> Option<u64> {
    let ends = !eight & 0x8080_8080_8080_8080;
    if ends == 0 {
        return long_varint(rest);
    }
    let value = eight & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
    let value = value & 0x007f_007f_007f_007f | (value & 0x7f00_7f00_7f00_7f00) >> 1;
    let value = value & 0x0000_3fff_0000_3fff | (value & 0x3fff_0000_3fff_0000) >> 2;
    *rest = &rest[ends.trailing_zeros() as usize / 8 + 1..];
    Some(value & 0x0fff_ffff | (value & 0x0fff_ffff_0000_0000) >> 4)
}

fn long_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (i, &byte) in rest.iter().take(10).enumerate() {
        value |= ((byte & 0x7f) as u64) << (7 * i);
        if byte < 0x80 {
            *rest = &rest[i + 1..];
            return Some(value);
        }
    }
    None
}

#[inline(always)]
fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length_round_trip() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX << shift] {
                let mut message = Message::default();
                message.varint(value);
                assert_eq!(varint(&mut &message.0[..]), Some(value));
                for behind in 0..10 {
                    let with_more = [&message.0[..], &[0xff; 10][..behind]].concat();
                    let mut rest = &with_more[..];
                    assert_eq!((varint(&mut rest), rest.len()), (Some(value), behind));
                }
                (0..message.0.len()).for_each(|cut| assert_eq!(varint(&mut &message.0[..cut]), None));
            }
        }
    }

    #[test]
    fn nested_messages_near_one_byte_length_round_trip() {
        for length in [0, 1, 125, 126, 127, 128, 129, 16_383, 16_384, 70_000] {
            let text = vec![7; length];
            let mut message = Message::default();
            message.nested(3, |inner| inner.nested(4, |inner| inner.text(5, &text)));
            let outer = Walk::new(&message.0).next().unwrap().unwrap();
            let inner = Walk::new(outer.1.bytes()).next().unwrap().unwrap();
            assert_eq!(Walk::new(inner.1.bytes()).next().unwrap(), Ok((5, Value::Bytes(&text))), "{length}");
        }
    }

    #[test]
    fn truncated_message_is_an_error() {
        let mut message = Message::default();
        message.number(1, 300);
        message.fixed(2, 9);
        message.text(3, b"text");
        let whole: Vec<_> = Walk::new(&message.0).collect();
        assert!(whole.len() == 3 && whole.iter().all(Result::is_ok));
        let ends = [0, 3, 12, 18];
        for cut in 0..message.0.len() {
            let clean = Walk::new(&message.0[..cut]).all(|field| field.is_ok());
            assert_eq!(clean, ends.contains(&cut), "cut at {cut}");
        }
    }

    #[test]
    fn endless_varints_and_unknown_wires_are_errors() {
        assert_eq!(Walk::new(&[0xff; 11]).next(), Some(Err(Malformed)));
        assert_eq!(Walk::new(&[1 << 3 | 3]).next(), Some(Err(Malformed)));
        assert_eq!(Walk::new(&[0, 0]).next(), Some(Err(Malformed)));
    }
}
