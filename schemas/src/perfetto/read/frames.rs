//! Packets and their frames, and the offsets in a file at which a reader may start.

use std::ops::Range;

use crate::perfetto::layout::ATTRIBUTE_CHAPTER;
use crate::perfetto::proto::{self, Walk, field, value, varint};

/// The parts of a packet, in any order.
#[derive(Default)]
pub(super) struct Packet<'a> {
    pub(super) time: Option<u64>,
    pub(super) clock: Option<u64>,
    pub(super) sequence: u64,
    pub(super) flags: u64,
    pub(super) snapshot: Option<&'a [u8]>,
    pub(super) defaults: Option<&'a [u8]>,
    pub(super) interned: Option<&'a [u8]>,
    pub(super) track: Option<&'a [u8]>,
    pub(super) event: Option<&'a [u8]>,
    pub(super) attributes: Option<&'a [u8]>,
    pub(super) packed: Option<(u32, &'a [u8])>,
}

impl<'a> Packet<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Option<Packet<'a>> {
        use field::packet as f;
        let mut packet = Packet::default();
        for part in Walk::new(message) {
            let (number, value) = part.ok()?;
            match number {
                f::TIMESTAMP => packet.time = Some(value.number()),
                f::CLOCK_ID => packet.clock = Some(value.number()),
                f::SEQUENCE => packet.sequence = value.number(),
                f::SEQUENCE_FLAGS => packet.flags = value.number(),
                f::CLOCK_SNAPSHOT => packet.snapshot = Some(value.bytes()),
                f::DEFAULTS => packet.defaults = Some(value.bytes()),
                f::INTERNED_DATA => packet.interned = Some(value.bytes()),
                f::TRACK => packet.track = Some(value.bytes()),
                f::TRACK_EVENT => packet.event = Some(value.bytes()),
                f::ATTRIBUTES => packet.attributes = Some(value.bytes()),
                f::DEFLATED | f::ZSTD => packet.packed = Some((number, value.bytes())),
                _ => (),
            }
        }
        Some(packet)
    }
}

/// A packet with one track event and nothing else, as nearly all are.
pub(super) struct TrackEventPacket<'a> {
    pub(super) time: u64,
    pub(super) sequence: u64,
    pub(super) event: &'a [u8],
}

impl<'a> TrackEventPacket<'a> {
    /// Parses such a packet; `None` if the packet contains more and has to be parsed as a whole.
    #[inline(always)]
    pub(super) fn parse(message: &'a [u8]) -> Option<TrackEventPacket<'a>> {
        const SEQUENCE: u8 = (field::packet::SEQUENCE << 3 | proto::VARINT) as u8;
        const TIMESTAMP: u8 = (field::packet::TIMESTAMP << 3 | proto::VARINT) as u8;
        const FLAGS: u8 = (field::packet::SEQUENCE_FLAGS << 3 | proto::VARINT) as u8;
        const EVENT: u8 = (field::packet::TRACK_EVENT << 3 | proto::BYTES) as u8;
        let (mut rest, mut time, mut sequence, mut event) = (message, None, 0, None);
        while let Some((&tag, after)) = rest.split_first() {
            rest = after;
            let number = varint(&mut rest)?;
            match tag {
                SEQUENCE => sequence = number,
                TIMESTAMP => time = Some(number),
                FLAGS if number & value::STATE_CLEARED == 0 => (),
                EVENT => {
                    let (inner, after) = rest.split_at_checked(usize::try_from(number).ok()?)?;
                    (event, rest) = (Some(inner), after);
                }
                _ => return None,
            }
        }
        Some(TrackEventPacket { time: time?, sequence, event: event? })
    }
}

/// The start of a file or of an unpacked packet.
pub(super) enum Frame<'a> {
    Packet(&'a [u8]),
    /// A field that is not a packet.
    Other,
    Broken,
}

/// Returns the next whole field; `None` at the end, or if the rest is incomplete.
#[inline(always)]
pub(super) fn next_packet<'a>(rest: &mut &'a [u8]) -> Option<Frame<'a>> {
    // Truncated long varints look like malformed ones; a head is never longer than this.
    const HEAD_MAX: usize = 20;
    const PACKET: u8 = (field::trace::PACKET << 3 | proto::BYTES) as u8;
    let mut head = *rest;
    // The most common case: a packet of less than 128 bytes.
    if let [PACKET, length @ ..0x80, after @ ..] = head {
        let (message, after) = after.split_at_checked(*length as usize)?;
        *rest = after;
        return Some(Frame::Packet(message));
    }
    let Some(tag) = varint(&mut head) else { return cut(rest, HEAD_MAX) };
    if tag != PACKET as u64 {
        let mut walk = Walk::new(rest);
        let whole = walk.next()?.is_ok();
        let after = walk.rest();
        *rest = if whole { after } else { &[] };
        return Some(if whole { Frame::Other } else { Frame::Broken });
    }
    let Some(length) = varint(&mut head) else { return cut(rest, HEAD_MAX) };
    let message = head.get(..usize::try_from(length).ok()?)?;
    *rest = &head[message.len()..];
    Some(Frame::Packet(message))
}

fn cut<'a>(rest: &mut &'a [u8], head_max: usize) -> Option<Frame<'a>> {
    (rest.len() >= head_max).then_some(Frame::Broken)
}

/// Returns the ranges where readers may start in a file from our writer; one range for any other file.
pub fn chapters(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut chapters = Chapters::default();
    chapters.feed(bytes);
    chapters.finish(bytes.len())
}

/// A search for the chapters of a file that is read in chunks.
#[derive(Default)]
pub struct Chapters {
    starts: Vec<usize>,
    at: usize,
}

impl Chapters {
    /// Searches whole packets, starting at the end of the previous chunk's whole packets.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let at = self.at + bytes.len() - rest.len();
            match next_packet(&mut rest) {
                Some(Frame::Packet(message)) if is_chapter(message) => self.starts.push(at),
                Some(Frame::Packet(_) | Frame::Other) => (),
                Some(Frame::Broken) | None => break,
            }
        }
        self.at += bytes.len() - rest.len();
    }

    /// Returns the ranges of a file of this size.
    pub fn finish(self, size: usize) -> Vec<Range<usize>> {
        let starts = || std::iter::once(0).chain(self.starts.iter().copied());
        let ends = starts().skip(1).chain([size]);
        starts().zip(ends).map(|(start, end)| start..end).collect()
    }
}

fn is_chapter(message: &[u8]) -> bool {
    // Chapters are short packets; long ones do not have to be searched.
    message.len() < 64 && message.windows(ATTRIBUTE_CHAPTER.len()).any(|part| part == ATTRIBUTE_CHAPTER.as_bytes())
}
