//! Output of packets: collected, compressed in packets of packets, passed to the sink.
//!
//! ```text
//! field 1 (packet): field 50 (deflated): zlib( field 1 ... field 1 ... )      about 256 KiB of packets each
//! ```
//!
//! Compressing inside packets rather than the whole file keeps a truncated file readable up to its end. A viewer
//! aborts on compressed packets within compressed packets and rejects a file that mixes codecs; neither can be
//! written here.

use std::io;

use super::proto::{Message, field};
use crate::deflate::compressor::{Deflate, REACH};
use crate::export::exporter::Sink;

/// Size of the packets collected before compression. Larger ones gain less than 1 % and need memory in the traced
/// process.
pub const GATHERED: usize = 256 << 10;

/// Most traces are those of short-lived processes, and each page of memory costs as much as many packets.
const FIRST_GATHERED: usize = 8 << 10;

/// Fewer bytes than this are passed on uncompressed: a file takes whole pages, and compressing them takes as long as the
/// rest of the conversion.
const SMALL: usize = 4 << 10;

/// Bytes that the sink gets at once.
const OUTGOING: usize = 64 << 10;

/// The compression of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    None,
    /// Every viewer reads it.
    #[default]
    Deflate,
    /// Viewers before v58 silently drop these packets.
    Zstd,
}

/// Measured: a fast level, because a traced program may be waiting.
const ZSTD_LEVEL: i32 = 1;

enum Codec {
    None,
    /// Created when there is more than [`SMALL`].
    Deflate(Option<Box<Deflate>>),
    Zstd(zstd::bulk::Compressor<'static>),
}

/// The output: see the module's drawing.
pub struct Packer<'a> {
    sink: &'a mut Sink<'a>,
    codec: Codec,
    gathered: Message,
    /// How often collected packets were passed on.
    rounds: u64,
    /// Buffer for zstd.
    compressed: Vec<u8>,
    /// Bytes for the next call of the sink: a short-lived process writes its file with one call.
    outgoing: Vec<u8>,
    pub written: u64,
}

/// The position where bytes were written last, and the round: those of an earlier round are no longer available.
#[derive(Clone, Copy)]
pub struct Origin {
    round: u64,
    at: usize,
}

impl Origin {
    pub const NOWHERE: Origin = Origin { round: u64::MAX, at: 0 };
}

impl<'a> Packer<'a> {
    pub fn new(sink: &'a mut Sink<'a>, compression: Compression) -> io::Result<Packer<'a>> {
        let codec = match compression {
            Compression::None => Codec::None,
            Compression::Deflate => Codec::Deflate(None),
            Compression::Zstd => Codec::Zstd(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
        };
        let gathered = Message(Vec::with_capacity(FIRST_GATHERED));
        Ok(Packer { sink, codec, gathered, rounds: 0, compressed: Vec::new(), outgoing: Vec::new(), written: 0 })
    }

    /// Returns the buffer for the next packet.
    #[inline(always)]
    pub fn out(&mut self) -> &mut Message {
        &mut self.gathered
    }

    /// Appends whole packets that were written before, at `origin`, except for some bytes: `changes` contains the
    /// positions of eight bytes, in order, and the differing bits.
    #[inline(always)]
    pub fn repeat(&mut self, packets: &[u8], origin: &mut Origin, changes: &[(usize, u64)]) {
        let at = self.gathered.0.len();
        self.gathered.0.extend_from_slice(packets);
        let before = std::mem::replace(origin, Origin { round: self.rounds, at });
        let Codec::Deflate(deflate) = &mut self.codec else { return };
        let distance = at.wrapping_sub(before.at);
        if before.round != self.rounds || distance > REACH || at < SMALL {
            return;
        }
        deflate.get_or_insert_default().repeat(&self.gathered.0, packets.len(), distance, changes);
    }

    /// Passes on the packets once there are enough; call this between packets.
    #[inline(always)]
    pub fn breathe(&mut self) -> io::Result<()> {
        if self.gathered.0.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    /// Passes on the collected packets uncompressed; for the few packets that a reader should find without
    /// decompressing.
    pub fn flush_raw(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.gathered.0);
        let handed_over = self.hand_over(&bytes);
        self.gathered.0 = bytes;
        self.clear();
        handed_over
    }

    fn clear(&mut self) {
        self.gathered.0.clear();
        self.rounds += 1;
    }

    /// Compresses and passes on the collected packets, if there is more than a few of them.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.gathered.0.is_empty() {
            return Ok(());
        }
        if self.gathered.0.len() < SMALL {
            return self.flush_raw();
        }
        let field = match &mut self.codec {
            Codec::None => return self.flush_raw(),
            Codec::Deflate(deflate) => {
                let compressed = deflate.get_or_insert_default().finish(&self.gathered.0);
                let head = packet_head(field::packet::DEFLATED, compressed.len());
                self.written += (head.len() + compressed.len()) as u64;
                [&head, compressed].into_iter().for_each(|bytes| self.outgoing.extend_from_slice(bytes));
                self.clear();
                return self.pass_on(OUTGOING);
            }
            Codec::Zstd(zstd) => {
                self.compressed.resize(zstd::zstd_safe::compress_bound(self.gathered.0.len()), 0);
                let used = zstd.compress_to_buffer(&self.gathered.0, &mut self.compressed)?;
                self.compressed.truncate(used);
                field::packet::ZSTD
            }
        };
        self.clear();
        let head = packet_head(field, self.compressed.len());
        let compressed = std::mem::take(&mut self.compressed);
        self.hand_over(&head)?;
        self.hand_over(&compressed)?;
        self.compressed = compressed;
        Ok(())
    }

    fn hand_over(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.outgoing.extend_from_slice(bytes);
        self.pass_on(OUTGOING)
    }

    /// Passes everything to the sink; call this last.
    pub fn finish(&mut self) -> io::Result<()> {
        self.pass_on(0)
    }

    /// Passes what is waiting to the sink if it has at least this many bytes.
    fn pass_on(&mut self, least: usize) -> io::Result<()> {
        if self.outgoing.len() < least {
            return Ok(());
        }
        let passed = (self.sink)(&self.outgoing);
        self.outgoing.clear();
        passed
    }
}

/// Returns the bytes before those of a packet's only field.
fn packet_head(number: u32, length: usize) -> Vec<u8> {
    let mut inner = Message::default();
    inner.varint((number << 3 | super::proto::BYTES) as u64);
    inner.varint(length as u64);
    let mut head = Message::default();
    head.varint((field::trace::PACKET << 3 | super::proto::BYTES) as u64);
    head.varint((inner.0.len() + length) as u64);
    head.0.extend_from_slice(&inner.0);
    head.0
}
