//! Packets on their way out: gathered, compressed in packets of packets, handed to the sink.
//!
//! ```text
//! field 1 (packet): field 50 (deflated): zlib( field 1 ... field 1 ... )      about 256 KiB of packets each
//! ```
//!
//! Compressing inside packets and not the file keeps a cut file readable up to the cut. A viewer aborts on compressed
//! packets within compressed packets and refuses a file that mixes codecs; neither can be written here.

use std::io;

use super::proto::{Message, field};

/// Packets gathered before they are compressed. Larger ones gain less than 1 % and cost memory in the traced process.
pub const GATHERED: usize = 256 << 10;

/// The compression of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    None,
    /// Every viewer reads it.
    #[default]
    Deflate,
    /// Viewers before v58 drop these packets without a word.
    Zstd,
}

/// Takes bytes; returns an error that ends the export.
pub type Sink<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

enum Codec {
    None,
    Deflate(libdeflater::Compressor),
    Zstd(zstd::bulk::Compressor<'static>),
}

/// See the module's drawing.
pub struct Packer<'a> {
    sink: &'a mut Sink<'a>,
    codec: Codec,
    gathered: Message,
    compressed: Vec<u8>,
    pub written: u64,
}

impl<'a> Packer<'a> {
    pub fn new(sink: &'a mut Sink<'a>, compression: Compression, level: i32) -> io::Result<Packer<'a>> {
        let codec = match compression {
            Compression::None => Codec::None,
            Compression::Deflate => Codec::Deflate(libdeflater::Compressor::new(
                libdeflater::CompressionLvl::new(level).unwrap_or_default(),
            )),
            Compression::Zstd => Codec::Zstd(zstd::bulk::Compressor::new(level)?),
        };
        let gathered = Message(Vec::with_capacity(GATHERED + (GATHERED >> 3)));
        Ok(Packer { sink, codec, gathered, compressed: Vec::new(), written: 0 })
    }

    /// The place of the next packet.
    #[inline(always)]
    pub fn out(&mut self) -> &mut Message {
        &mut self.gathered
    }

    /// To be called between packets; hands over what is enough.
    #[inline(always)]
    pub fn breathe(&mut self) -> io::Result<()> {
        if self.gathered.0.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    /// Hands over what has been gathered as it is; for the few packets a reader should find without decompressing.
    pub fn flush_raw(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.gathered.0);
        self.hand_over(&bytes)?;
        self.gathered.0 = bytes;
        self.gathered.0.clear();
        Ok(())
    }

    /// Compresses and hands over what has been gathered.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.gathered.0.is_empty() {
            return Ok(());
        }
        let field = match &mut self.codec {
            Codec::None => return self.flush_raw(),
            Codec::Deflate(deflate) => {
                self.compressed.resize(deflate.zlib_compress_bound(self.gathered.0.len()), 0);
                let used = deflate
                    .zlib_compress(&self.gathered.0, &mut self.compressed)
                    .map_err(|_| io::Error::other("deflate had too little room"))?;
                self.compressed.truncate(used);
                field::packet::DEFLATED
            }
            Codec::Zstd(zstd) => {
                self.compressed.resize(zstd::zstd_safe::compress_bound(self.gathered.0.len()), 0);
                let used = zstd.compress_to_buffer(&self.gathered.0, &mut self.compressed)?;
                self.compressed.truncate(used);
                field::packet::ZSTD
            }
        };
        self.gathered.0.clear();
        let head = packet_head(field, self.compressed.len());
        let compressed = std::mem::take(&mut self.compressed);
        self.hand_over(&head)?;
        self.hand_over(&compressed)?;
        self.compressed = compressed;
        Ok(())
    }

    fn hand_over(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        (self.sink)(bytes)
    }
}

/// The bytes before those of a packet's only field.
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
