//! Templates: calls of one shape differ in a few numbers, which are always at the same offsets.
//!
//! A shape is an operation at a depth, with the parts it shows: a file or none, a descriptor, arguments, the form of
//! its result. The packets of its first call are written with wide numbers: a varint may be longer than necessary,
//! `85 80 80 00` is also 5. After that, a call of that shape changes the numbers that differ from the last time, and
//! copies the rest.
//!
//! The writer declares the bytes that differ, so that nothing has to be searched: see [`crate::deflate`].

use crate::event::ops::{Arg, OpInfo, Ret};
use crate::export::exporter::Call;
use crate::perfetto::pack::{Origin, Packer};
use crate::perfetto::proto::{Message, VARINT};

/// A number of a call with a fixed offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Time since the previous packet.
    Begin,
    File,
    Fd,
    A,
    B,
    Result,
    /// Time since the start.
    End,
}

const PARTS: usize = 8;

/// Width in bytes of each part. A number that does not fit makes its call be written packet by packet: a quarter of a
/// second, two million files, four terabytes, a quarter of a gigabyte per call.
const WIDTHS: [u32; PARTS] = [4, 3, 2, 6, 4, 4, 4, 1];

/// The parts of a call; zero for parts that it does not show.
pub(super) type Parts = [u64; PARTS];

/// Maximum number of shapes per thread; calls of further shapes are written packet by packet. A program that nests
/// spans makes one shape per depth.
const SHAPES_MAX: usize = 32;

/// Buffer size for the packets of a call: lengths have one byte.
const PACKETS_MAX: usize = 120;

/// The width of the numbers that vary among calls of one shape.
pub(super) trait Width {
    fn put(&mut self, message: &mut Message, field: u32, part: Part, number: u64);
}

/// Writes numbers as short as possible.
pub(super) struct Short;

impl Width for Short {
    #[inline(always)]
    fn put(&mut self, message: &mut Message, field: u32, _: Part, number: u64) {
        message.number(field, number);
    }
}

/// Writes numbers with their maximum width, and notes their offsets.
#[derive(Default)]
pub(super) struct Wide {
    slots: [Slot; PARTS],
    used: usize,
}

impl Width for Wide {
    fn put(&mut self, message: &mut Message, field: u32, part: Part, _: u64) {
        let width = WIDTHS[part as usize];
        message.tag(field, VARINT);
        // All bits of the number, without the continuation bits.
        let bits = 0x7f7f_7f7f_7f7f_7f7f & ((1 << (8 * width)) - 1);
        self.slots[self.used] = Slot { number: 0, bits, part: part as u8, at: message.0.len() as u8 };
        self.used += 1;
        message.0.extend((1..=width).map(|byte| if byte < width { 0x80 } else { 0 }));
    }
}

/// An offset in the packets, and the number there.
#[derive(Clone, Copy, Default)]
struct Slot {
    number: u64,
    bits: u64,
    part: u8,
    at: u8,
}

/// The common properties of calls that are written alike.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape(u32);

/// Returns `true` if an argument of the operation is more than a number.
fn is_more(info: &OpInfo) -> bool {
    info.a.is_name() || info.a == Arg::Child || matches!(info.b, Arg::Path | Arg::Waker)
}

impl Shape {
    /// Returns shape and parts of a call; `None` for a call with more than numbers, or with numbers that do not fit.
    #[inline(always)]
    pub(super) fn of(call: &Call, since: u64) -> Option<(Shape, Parts)> {
        let info = call.info?;
        if call.names_itself() || call.unfinished || is_more(info) {
            return None;
        }
        let (shown, result) = match (call.ret, info.ret) {
            (ret, _) if ret < 0 => (2, ret.wrapping_neg()),
            (ret, Ret::Fd) if ret == call.fd as i64 => (0, 0),
            (0, Ret::Status) => (0, 0),
            (ret, _) => (1, ret),
        };
        let has_a = call.a.is_some() && info.a != Arg::None;
        let a = if has_a { call.a.unwrap_or(0) } else { 0 };
        let b = if info.b == Arg::None { 0 } else { call.b };
        let fd = if call.fd == -1 { 0 } else { call.fd };
        let lasted = call.end.wrapping_sub(call.begin);
        let parts = [since, call.file as u64, fd as i64 as u64, a as u64, b as u64, result as u64, lasted, 0];
        let above = |part: Part| parts[part as usize] >> (7 * WIDTHS[part as usize]);
        let beyond = above(Part::Begin)
            | above(Part::File)
            | above(Part::Fd)
            | above(Part::A)
            | above(Part::B)
            | above(Part::Result)
            | above(Part::End);
        let key = (call.op.0 as u32) << 16
            | (call.depth as u32) << 8
            | shown << 4
            | (has_a as u32) << 2
            | ((call.fd != -1) as u32) << 1
            | (call.file != 0) as u32;
        (beyond == 0).then_some((Shape(key), parts))
    }
}

/// The templates of one thread, by shape.
#[derive(Default)]
pub(super) struct Templates {
    all: Vec<Template>,
    /// The index at which a shape was found last, by some bits of the shape.
    near: [u8; 32],
}

impl Templates {
    #[inline(always)]
    pub(super) fn find(&mut self, shape: Shape) -> Option<usize> {
        let near = (shape.0.wrapping_mul(0x9e37_79b1) >> 27) as usize;
        let at = self.near[near] as usize;
        if self.all.get(at).is_some_and(|template| template.shape == shape) {
            return Some(at);
        }
        let at = self.all.iter().position(|template| template.shape == shape)?;
        self.near[near] = at as u8;
        Some(at)
    }

    /// Makes the template of a shape from a call that `put` writes. `None` if there is no space.
    pub(super) fn make(&mut self, shape: Shape, put: impl FnOnce(&mut Message, &mut Wide)) -> Option<usize> {
        let (mut message, mut wide) = (Message::default(), Wide::default());
        put(&mut message, &mut wide);
        if self.all.len() == SHAPES_MAX || message.0.len() > PACKETS_MAX {
            return None;
        }
        let mut template = Template {
            shape,
            slots: wide.slots,
            used: wide.used,
            length: message.0.len(),
            packets: [0; PACKETS_MAX + 8],
            origin: Origin::NOWHERE,
        };
        template.packets[..message.0.len()].copy_from_slice(&message.0);
        self.all.push(template);
        Some(self.all.len() - 1)
    }

    /// Writes a call by its template.
    #[inline(always)]
    pub(super) fn put(&mut self, at: usize, parts: &Parts, packer: &mut Packer) {
        self.all[at].put(parts, packer);
    }
}

struct Template {
    shape: Shape,
    slots: [Slot; PARTS],
    used: usize,
    length: usize,
    /// Eight more bytes, because a number is changed together with the bytes after it.
    packets: [u8; PACKETS_MAX + 8],
    origin: Origin,
}

impl Template {
    #[inline(always)]
    fn put(&mut self, parts: &Parts, packer: &mut Packer) {
        let (mut changes, mut changed) = ([(0, 0); PARTS], 0);
        for slot in &mut self.slots[..self.used] {
            let number = parts[slot.part as usize % PARTS];
            if number == slot.number {
                continue;
            }
            slot.number = number;
            let at = slot.at as usize;
            let Some(place) = self.packets[at..].first_chunk_mut() else { continue };
            let before = u64::from_le_bytes(*place);
            let after = before & !slot.bits | spread(number);
            *place = after.to_le_bytes();
            changes[changed % PARTS] = (at, before ^ after);
            changed += 1;
        }
        packer.repeat(&self.packets[..self.length], &mut self.origin, &changes[..changed]);
    }
}

/// Spreads a number over bytes, seven bits each.
#[inline(always)]
fn spread(number: u64) -> u64 {
    let halves = number & 0x0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let quarters = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
    quarters & 0x007f_007f_007f_007f | (quarters & 0x3f80_3f80_3f80_3f80) << 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::proto::varint;

    #[test]
    fn wide_varints_decode_to_the_same_numbers() {
        for number in [0u64, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0x1234_5678, 0x00ff_ffff_ffff_ffff] {
            let bytes = (spread(number) | 0x0080_8080_8080_8080).to_le_bytes();
            assert_eq!(varint(&mut &bytes[..]), Some(number));
        }
    }
}
