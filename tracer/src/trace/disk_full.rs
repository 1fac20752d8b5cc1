//! What the end of a trace gives up on a disk that is full, so that what matters more finds room: the names of files, and
//! how many events are lost.
//!
//! ```text
//! block  block  block  block  blo|        a torn block goes first, then the last events
//!                    ^ end of what stays
//! ```

use dlio_schemas::native::block::{HEADER_SIZE, Header, Kind, MAGIC};
use dlio_schemas::native::file::FILE_HEADER;

/// Pieces that may be given up at a time.
const PIECES_MAX: usize = 64;

/// The room a file system may keep of what was freed.
const KEPT: usize = 8 << 10;

/// A whole block, or what a full disk has left of one.
#[derive(Clone, Copy)]
struct Piece {
    at: usize,
    /// The events that giving it up costs: none where it is torn, for that is lost already. `None`: it stays.
    events: Option<u64>,
}

/// The last pieces of a file.
pub struct Tail {
    pieces: [Piece; PIECES_MAX],
    count: usize,
    /// The end of the file.
    length: usize,
}

impl Tail {
    pub fn of(bytes: &[u8]) -> Tail {
        let none = Piece { at: FILE_HEADER, events: None };
        let mut tail = Tail { pieces: [none; PIECES_MAX], count: 0, length: bytes.len() };
        let mut at = FILE_HEADER;
        while at < bytes.len() {
            let (end, events) = match whole_block(bytes, at) {
                Some(header) => (at + header.size(), (header.kind == Kind::Events).then_some(header.count as u64)),
                None => (next_block(bytes, at + 1), Some(0)),
            };
            tail.pieces[tail.count % PIECES_MAX] = Piece { at, events };
            tail.count += 1;
            at = end;
        }
        tail
    }

    /// The end of the file that leaves so much room free, and how many events that costs. Only events are given up.
    pub fn give_up(&self, needed: usize) -> Option<(usize, u64)> {
        let (mut end, mut cost) = (self.length, 0);
        for back in 0..PIECES_MAX.min(self.count) {
            let piece = self.pieces[(self.count - 1 - back) % PIECES_MAX];
            let Some(events) = piece.events else { break };
            if self.length - end >= needed + KEPT {
                break;
            }
            (end, cost) = (piece.at, cost + events);
        }
        (end < self.length).then_some((end, cost))
    }
}

/// A header that proves itself, of a block that ends within the file.
fn header_at(bytes: &[u8], at: usize) -> Option<Header> {
    let header = Header::from_bytes(bytes.get(at..at + HEADER_SIZE)?).ok()?;
    (at + header.size() <= bytes.len()).then_some(header)
}

/// As a reader sees it: of a block that was cut short others take the place of the rest, so that one behind which none
/// begins has to prove itself.
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

    #[test]
    fn a_torn_block_costs_nothing_wherever_it_stands() {
        let events = |length| file(&[(Kind::Events, length)])[FILE_HEADER..].to_vec();
        let head = file(&[(Kind::Process, 100)]);
        for cut in 1..9000 + HEADER_SIZE {
            // A small block found the room that the large one before it did not.
            let bytes = [&head[..], &events(9000)[..cut], &events(50)].concat();
            assert_eq!(Tail::of(&bytes).give_up(9000), Some((head.len(), 10)), "cut at {cut}");
        }
    }
}
