//! The events dropped at the end of a trace on a full disk, to make space for more important data: the names of
//! files, and the number of lost events.
//!
//! ```text
//! block  block  block  block  blo|        a torn block is dropped first, then the last events
//!                    ^ end of the remaining part
//! ```

use dlio_schemas::native::block::{HEADER_SIZE, Header, Kind, MAGIC};
use dlio_schemas::native::file::FILE_HEADER;

/// Maximum number of pieces dropped at a time.
const BLOCKS_MAX: usize = 64;

/// Freed space that a file system may not make available again.
const KEPT: usize = 8 << 10;

/// A whole block, or the part of one that fit on a full disk.
#[derive(Clone, Copy)]
struct Piece {
    at: usize,
    /// Number of events lost by dropping it: none if it is torn, because it is already lost. `None` if it is kept.
    events: Option<u64>,
}

/// The last pieces of a file.
pub struct Tail {
    pieces: [Piece; BLOCKS_MAX],
    count: usize,
    /// The end of the file.
    length: usize,
}

impl Tail {
    pub fn of(bytes: &[u8]) -> Tail {
        let none = Piece { at: FILE_HEADER, events: None };
        let mut tail = Tail { pieces: [none; BLOCKS_MAX], count: 0, length: bytes.len() };
        let mut at = FILE_HEADER;
        while at < bytes.len() {
            let (end, events) = match whole_block(bytes, at) {
                Some(header) => (at + header.size(), (header.kind == Kind::Events).then_some(header.count as u64)),
                None => (next_block(bytes, at + 1), Some(0)),
            };
            tail.pieces[tail.count % BLOCKS_MAX] = Piece { at, events };
            tail.count += 1;
            at = end;
        }
        tail
    }

    /// Returns the length of the file that frees the needed space, and the number of events lost. Only events are
    /// dropped.
    pub fn give_up(&self, needed: usize) -> Option<(usize, u64)> {
        let (mut end, mut cost) = (self.length, 0);
        for back in 0..BLOCKS_MAX.min(self.count) {
            let piece = self.pieces[(self.count - 1 - back) % BLOCKS_MAX];
            let Some(events) = piece.events else { break };
            if self.length - end >= needed + KEPT {
                break;
            }
            (end, cost) = (piece.at, cost + events);
        }
        (end < self.length).then_some((end, cost))
    }
}

/// Returns a header with a valid checksum, if its block ends within the file.
fn header_at(bytes: &[u8], at: usize) -> Option<Header> {
    let header = Header::from_bytes(bytes.get(at..at + HEADER_SIZE)?).ok()?;
    (at + header.size() <= bytes.len()).then_some(header)
}

/// Returns a whole block, as a reader sees it: the rest of a truncated block is overwritten by later ones, so a block
/// that is not followed by another one must have a valid checksum.
fn whole_block(bytes: &[u8], at: usize) -> Option<Header> {
    let header = header_at(bytes, at)?;
    let end = at + header.size();
    (header_at(bytes, end).is_some() || header.proved(&bytes[at..end]).is_ok()).then_some(header)
}

fn next_block(bytes: &[u8], from: usize) -> usize {
    let magic = MAGIC.to_le_bytes();
    let begins = |at: &usize| bytes[*at..].starts_with(&magic) && header_at(bytes, *at).is_some();
    (from..bytes.len()).find(begins).unwrap_or(bytes.len())
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
    fn torn_block_is_dropped_before_events() {
        let whole = file(&[(Kind::Process, 100), (Kind::Names, 500), (Kind::Events, 9000), (Kind::Events, 9000)]);
        let one = 9000 + HEADER_SIZE;
        assert_eq!(Tail::of(&whole).give_up(100), Some((whole.len() - one, 10)));
        assert_eq!(Tail::of(&whole).give_up(one), Some((whole.len() - 2 * one, 20)));
        assert_eq!(Tail::of(&whole).give_up(1 << 20), Some((whole.len() - 2 * one, 20)));
        let torn = [&whole[..], &whole[whole.len() - one..][..8900]].concat();
        assert_eq!(Tail::of(&torn).give_up(100), Some((whole.len(), 0)));
        assert_eq!(Tail::of(&file(&[(Kind::Process, 100)])).give_up(100), None);
    }

    #[test]
    fn dropping_a_torn_block_costs_no_events() {
        let events = |length| file(&[(Kind::Events, length)])[FILE_HEADER..].to_vec();
        let head = file(&[(Kind::Process, 100)]);
        for cut in 1..9000 + HEADER_SIZE {
            // A small block fit into the space that the large one before it did not.
            let bytes = [&head[..], &events(9000)[..cut], &events(50)].concat();
            assert_eq!(Tail::of(&bytes).give_up(9000), Some((head.len(), 10)), "cut at {cut}");
        }
    }
}
