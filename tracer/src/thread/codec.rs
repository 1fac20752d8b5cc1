//! Compresses payloads into blocks with one of zstd's fast levels, in memory reserved in advance.
//!
//! It uses no allocator, so a block can be made wherever a call can be traced: in a signal handler, in a program with
//! its own malloc, inside that malloc.

use dlio_schemas::native::block::{Codec, HEADER_SIZE, Header, Kind};

use crate::kernel::sys;

/// Enough for [`LEVEL`] on payloads of a block; pages that are not needed are never touched.
const WORKSPACE: usize = 1 << 20;

/// Half the time of level 1, for half a byte more per event: 6 to 7 ns and 2.0 to 2.5 bytes on loops of preads, of
/// opens and closes, and of all kinds of calls.
const LEVEL: i32 = -10;

/// Events that take fewer bytes than this are stored uncompressed: if calls differ only in their times, little but
/// the noise of these times remains, and the compressor would spend seven nanoseconds to save a byte.
const SMALL_EVENT: f64 = 3.5;

/// Shorter payloads are stored uncompressed: a file takes whole pages, and a compressor's tables are larger.
const SMALL_PAYLOAD: usize = 3 << 10;

/// Opaque.
#[repr(C)]
struct Context {
    _private: [u8; 0],
}

// Part of zstd's "static linking only" interface: the Rust crate offers it behind a feature that would rebuild zstd
// for every other user in the workspace, including DataFusion.
unsafe extern "C" {
    fn ZSTD_initStaticCCtx(workspace: *mut u8, size: usize) -> *mut Context;
    fn ZSTD_compressCCtx(
        context: *mut Context,
        into: *mut u8,
        room: usize,
        from: *const u8,
        length: usize,
        level: i32,
    ) -> usize;
    fn ZSTD_isError(code: usize) -> u32;
}

// Keeps the crate with these symbols linked.
use zstd as _;

/// A compressor with a buffer for one block of `RAW` bytes of payload. Zeroed memory is a valid value.
#[repr(C)]
pub struct BlockMaker<const RAW: usize> {
    context: *mut Context,
    workspace: *mut u8,
    header: [u8; HEADER_SIZE],
    /// Follows the header, so that both can be written together.
    stored: [u8; RAW],
}

impl<const RAW: usize> BlockMaker<RAW> {
    /// Returns the whole block. A payload that is small already, or does not shrink, is stored uncompressed.
    pub fn make(&mut self, header: &mut Header, payload: &[u8]) -> &[u8] {
        let small = payload.len() <= SMALL_PAYLOAD
            || header.kind == Kind::Events && payload.len() as f64 <= SMALL_EVENT * header.count as f64;
        let compressed = if small { None } else { self.compress(payload) };
        let (codec, length) = match compressed {
            Some(length) => (Codec::Zstd, length),
            None => {
                self.stored[..payload.len()].copy_from_slice(payload);
                (Codec::Raw, payload.len())
            }
        };
        self.header = header.seal(codec, payload.len(), &self.stored[..length]);
        // SAFETY: `repr(C)` puts `stored` directly after `header`, both are bytes, and `length` is within `stored`.
        unsafe { std::slice::from_raw_parts(self.header.as_ptr(), HEADER_SIZE + length) }
    }

    /// Frees the workspace allocated by [`BlockMaker::make`].
    pub fn free(&mut self) {
        if !self.workspace.is_null() {
            sys::unmap(self.workspace, WORKSPACE);
        }
        self.workspace = std::ptr::null_mut();
        self.context = std::ptr::null_mut();
    }

    fn compress(&mut self, payload: &[u8]) -> Option<usize> {
        if self.workspace.is_null() {
            self.workspace = sys::map_memory(WORKSPACE);
            if self.workspace.is_null() {
                return None;
            }
            // SAFETY: the workspace is ours, aligned to a page, and of the given length.
            self.context = unsafe { ZSTD_initStaticCCtx(self.workspace, WORKSPACE) };
        }
        if self.context.is_null() {
            return None;
        }
        // One byte less than the payload: a payload that does not shrink is an error, and stored uncompressed.
        let room = payload.len().saturating_sub(1).min(RAW);
        // SAFETY: both buffers live for the call and have the given lengths.
        let length = unsafe {
            ZSTD_compressCCtx(self.context, self.stored.as_mut_ptr(), room, payload.as_ptr(), payload.len(), LEVEL)
        };
        // SAFETY: a pure function of its argument.
        (unsafe { ZSTD_isError(length) } == 0).then_some(length)
    }
}
