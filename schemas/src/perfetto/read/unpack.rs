//! Compressed packets.

use crate::perfetto::proto::field;

/// Maximum size of an expanded packet. Perfetto requires at most 512 KB stored; ours contain half a MiB.
pub const PACKED_MAX: usize = 64 << 20;

/// Opens compressed packets into one buffer.
#[derive(Default)]
pub(super) struct Unpacker {
    deflate: Option<libdeflater::Decompressor>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    buffer: Vec<u8>,
}

impl Unpacker {
    pub(super) fn unpack(&mut self, codec: u32, packed: &[u8]) -> Option<&[u8]> {
        let length = if codec == field::packet::ZSTD { self.zstd(packed) } else { self.deflate(packed) }?;
        self.buffer.get(..length)
    }

    /// Expands deflate, which does not record the size, so the buffer is doubled until it is large enough.
    fn deflate(&mut self, packed: &[u8]) -> Option<usize> {
        let deflate = self.deflate.get_or_insert_default();
        self.buffer.resize(self.buffer.len().max(4 * packed.len()).clamp(64 << 10, PACKED_MAX), 0);
        loop {
            let opened = match packed.starts_with(&[0x1f, 0x8b]) {
                true => deflate.gzip_decompress(packed, &mut self.buffer),
                false => deflate.zlib_decompress(packed, &mut self.buffer),
            };
            match opened {
                Ok(length) => return Some(length),
                Err(libdeflater::DecompressionError::InsufficientSpace) if self.buffer.len() < PACKED_MAX => {
                    self.buffer.resize((2 * self.buffer.len()).min(PACKED_MAX), 0);
                }
                Err(_) => return None,
            }
        }
    }

    fn zstd(&mut self, packed: &[u8]) -> Option<usize> {
        if self.zstd.is_none() {
            self.zstd = Some(zstd::bulk::Decompressor::new().ok()?);
        }
        let known = zstd::zstd_safe::get_frame_content_size(packed).ok()?;
        let room = known.unwrap_or(16 * packed.len() as u64).max(64 << 10);
        if room > PACKED_MAX as u64 {
            return None;
        }
        self.buffer.resize(self.buffer.len().max(room as usize), 0);
        self.zstd.as_mut()?.decompress_to_buffer(packed, &mut self.buffer).ok()
    }
}
