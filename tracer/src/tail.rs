//! What the end of a trace gives up on a disk that is full, so that what matters more finds room: the names of files, and
//! how many events are lost.
//!
//! ```text
//! block  block  block  block  blo|        a torn block goes first, then the last events
//!                    ^ end of what stays
//! ```

use dlio_schemas::native::block::{HEADER_SIZE, Header, Kind};
use dlio_schemas::native::columns::RAW_MAX;
use dlio_schemas::native::file::FILE_HEADER;
use dlio_schemas::native::ring::NAMES_CHUNK;

/// Blocks that may be given up at a time.
const BLOCKS_MAX: usize = 64;

/// What a file system may keep of the room that was freed.
const KEPT: usize = 8 << 10;

/// The last blocks of a file.
pub struct Tail {
    blocks: [(usize, Header); BLOCKS_MAX],
    count: usize,
    /// Where the last whole one ends.
    end: usize,
    /// Where the file ends.
    length: usize,
}

impl Tail {
    pub fn of(bytes: &[u8]) -> Tail {
        let blocks = [(0, Header::new(Kind::Names)); BLOCKS_MAX];
        let mut tail = Tail { blocks, count: 0, end: FILE_HEADER, length: bytes.len() };
        while let Some(header) = bytes.get(tail.end..).and_then(|rest| Header::from_bytes(rest).ok()) {
            if tail.end + header.size() > bytes.len() {
                break;
            }
            tail.blocks[tail.count % BLOCKS_MAX] = (tail.end, header);
            tail.count += 1;
            tail.end += header.size();
        }
        tail
    }

    /// Where the file is to end so that so much room is free, and how many events that costs. Only events are given up,
    /// and nothing where the file is torn in its middle.
    pub fn give_up(&self, needed: usize) -> Option<(usize, u64)> {
        let (mut end, mut events) = (self.end, 0);
        if self.length.checked_sub(end)? > HEADER_SIZE + NAMES_CHUNK.max(RAW_MAX) {
            return None;
        }
        for back in 0..BLOCKS_MAX.min(self.count) {
            let (at, header) = &self.blocks[(self.count - 1 - back) % BLOCKS_MAX];
            if self.length - end >= needed + KEPT || header.kind != Kind::Events {
                break;
            }
            (end, events) = (*at, events + header.count as u64);
        }
        (end < self.length).then_some((end, events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dlio_schemas::native::block::Codec;
    use dlio_schemas::native::file::file_header;

    fn file(blocks: &[(Kind, usize)]) -> Vec<u8> {
        let mut bytes = file_header().to_vec();
        for (kind, length) in blocks {
            let payload = vec![7; *length];
            bytes.extend(Header { count: 10, ..Header::new(*kind) }.seal(Codec::Raw, *length, &payload));
            bytes.extend(payload);
        }
        bytes
    }

    #[test]
    fn a_torn_block_is_given_up_before_events_and_names_never() {
        let whole = file(&[(Kind::Process, 100), (Kind::Names, 500), (Kind::Events, 9000), (Kind::Events, 9000)]);
        let one = 9000 + HEADER_SIZE;
        assert_eq!(Tail::of(&whole).give_up(100), Some((whole.len() - one, 10)));
        assert_eq!(Tail::of(&whole).give_up(one), Some((whole.len() - 2 * one, 20)));
        assert_eq!(Tail::of(&whole).give_up(1 << 20), Some((whole.len() - 2 * one, 20)));
        let torn = [&whole[..], &whole[whole.len() - one..][..8900]].concat();
        assert_eq!(Tail::of(&torn).give_up(100), Some((whole.len(), 0)));
        assert_eq!(Tail::of(&file(&[(Kind::Process, 100)])).give_up(100), None);
    }
}
