//! The protocol: one call whose bytes belong to the caller, and frames in response.
//!
//! ```text
//! 1  events (8)  bytes (8)      progress of the piece
//! 2  bytes                      next part of its result
//! 3                             end of the result
//! ```

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::work::Done;

/// The service, and its only method.
pub const SERVICE: &str = "dlio.cluster.Work";
pub const METHOD: &str = "/dlio.cluster.Work/Perform";

/// The header with the version of the program, and that with the token.
pub const VERSION: &str = "dlio-version";
pub const TOKEN: &str = "authorization";

/// Size of the largest piece that can be sent: a list of a million files takes a tenth.
pub const PIECE_MAX: usize = 1 << 30;

/// Maximum number of bytes in a frame with a part of a result.
pub const FRAME_MAX: usize = 1 << 20;

/// Interval of keepalives, and time without one after which the other side is considered lost.
pub const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
pub const PATIENCE: Duration = Duration::from_secs(8);

/// Interval of progress reports.
pub const PROGRESS: Duration = Duration::from_millis(500);

/// A part of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Progress(Done),
    Part(Bytes),
    End,
}

impl Frame {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Frame::Progress(done) => {
                out.put_u8(1);
                out.put_u64(done.events);
                out.put_u64(done.bytes);
            }
            Frame::Part(bytes) => {
                out.put_u8(2);
                out.put_slice(bytes);
            }
            Frame::End => out.put_u8(3),
        }
        out.freeze()
    }

    /// Decodes a frame; `None` if the bytes are not a frame.
    pub fn decode(mut bytes: Bytes) -> Option<Frame> {
        let kind = bytes.try_get_u8().ok()?;
        match kind {
            1 => Some(Frame::Progress(Done { events: bytes.try_get_u64().ok()?, bytes: bytes.try_get_u64().ok()? })),
            2 => Some(Frame::Part(bytes)),
            3 if bytes.is_empty() => Some(Frame::End),
            _ => None,
        }
    }
}

/// A codec that passes bytes unchanged, because the connection does not interpret them.
#[derive(Clone, Copy, Default, Debug)]
pub struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = RawCodec;
    type Decoder = RawCodec;

    fn encoder(&mut self) -> RawCodec {
        RawCodec
    }

    fn decoder(&mut self) -> RawCodec {
        RawCodec
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = from.remaining();
        Ok(Some(from.copy_to_bytes(length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_decode_and_they_round_trip() {
        let frames = [
            Frame::Progress(Done { events: 7, bytes: u64::MAX }),
            Frame::Part(Bytes::from_static(b"abc")),
            Frame::Part(Bytes::new()),
            Frame::End,
        ];
        for frame in frames {
            assert_eq!(Frame::decode(frame.encode()), Some(frame));
        }
        for damaged in [&b""[..], b"\x01123", b"\x03x", b"\x09"] {
            assert_eq!(Frame::decode(Bytes::from_static(damaged)), None);
        }
    }
}
