//! Paths and other strings, each written once and referred to by a number afterwards.
//!
//! Numbers of a process count up from 1; a chunk contains consecutive ones: `kind: u8, length: u16, bytes` each. The
//! layout is used both in the ring file (the chunk being filled) and in blocks (chunks that were full). One string
//! may have several numbers, because the tracer forgets old ones rather than grow; readers compare strings.

use std::sync::atomic::{Ordering::Release, compiler_fence};

use super::Damage;

/// The kind of a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NameKind {
    Path = 1,
    /// Not a path: `<pipe>`, `<socket>`, `<terminal>`, `<memory>` ...
    Object = 2,
    /// The name of a span, instant or counter.
    Span = 3,
    Category = 4,
    /// A key or text of metadata.
    Text = 5,
}

/// The name of an io_uring ring as an object: requests through it bypass every hooked function, and reports list the
/// processes that have one.
pub const URING: &str = "<io_uring>";

const HEAD: usize = 3;

/// Longer strings are truncated: a path cannot be longer, and a span's name should not be.
pub const NAME_MAX: usize = 4096;

/// Returns the size of an entry.
pub fn entry_size(text: &[u8]) -> usize {
    HEAD + text.len().min(NAME_MAX)
}

/// Writes one entry at the start of `out`, which has [`entry_size`] bytes. The kind is written last: in shared
/// memory, an entry whose kind is zero is still being written.
#[inline]
pub fn write_entry(kind: NameKind, text: &[u8], out: &mut [u8]) {
    let text = &text[..text.len().min(NAME_MAX)];
    out[1..HEAD].copy_from_slice(&(text.len() as u16).to_le_bytes());
    out[HEAD..HEAD + text.len()].copy_from_slice(text);
    compiler_fence(Release);
    out[0] = kind as u8;
}

/// Returns the entries before the first incomplete one, and their count.
pub fn complete(entries: &[u8]) -> (&[u8], u32) {
    let (mut rest, mut count) = (entries, 0);
    while rest.first().is_some_and(|kind| *kind != 0) && take(&mut rest).is_some() {
        count += 1;
    }
    (&entries[..entries.len() - rest.len()], count)
}

/// All strings of a process by number.
#[derive(Clone, Default, Debug)]
pub struct Names {
    /// Chunks in the order they were read; found by their first number.
    chunks: Vec<Chunk>,
}

#[derive(Clone, Debug)]
struct Chunk {
    first: u32,
    entries: Vec<(NameKind, Box<[u8]>)>,
}

impl Names {
    /// Adds a chunk. An entry of an unknown kind is kept as text.
    pub fn add(&mut self, first: u32, payload: &[u8]) -> Result<(), Damage> {
        let mut entries = Vec::new();
        let mut rest = payload;
        while !rest.is_empty() {
            let (kind, text) = take(&mut rest).ok_or(Damage::Broken("a list of names"))?;
            entries.push((kind, text.into()));
        }
        let at = self.chunks.partition_point(|chunk| chunk.first < first);
        // A ring may contain a chunk that has also been written as a block; the longer one is the later one.
        match self.chunks.get_mut(at).filter(|chunk| chunk.first == first) {
            Some(chunk) if chunk.entries.len() >= entries.len() => {}
            Some(chunk) => chunk.entries = entries,
            None => self.chunks.insert(at, Chunk { first, entries }),
        }
        Ok(())
    }

    /// Adds one string after all others and returns its number; for readers of other formats.
    pub fn push(&mut self, kind: NameKind, text: &[u8]) -> u32 {
        if self.chunks.is_empty() {
            self.chunks.push(Chunk { first: 1, entries: Vec::new() });
        }
        let last = self.chunks.last_mut().expect("one chunk at least");
        last.entries.push((kind, text[..text.len().min(NAME_MAX)].into()));
        last.first + last.entries.len() as u32 - 1
    }

    pub fn get(&self, id: u32) -> Option<(NameKind, &[u8])> {
        let after = self.chunks.partition_point(|chunk| chunk.first <= id);
        let chunk = &self.chunks[after.checked_sub(1)?];
        let (kind, text) = chunk.entries.get((id - chunk.first) as usize)?;
        Some((*kind, text))
    }

    /// Returns the string as text, with replacement characters if it is not UTF-8.
    pub fn text(&self, id: u32) -> Option<std::borrow::Cow<'_, str>> {
        self.get(id).map(|(_, text)| String::from_utf8_lossy(text))
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, NameKind, &[u8])> {
        self.iter_from(0)
    }

    /// Iterates over the strings with numbers from `from`, without reading the rest.
    pub fn iter_from(&self, from: u32) -> impl Iterator<Item = (u32, NameKind, &[u8])> {
        self.chunks.iter().flat_map(move |chunk| {
            let known = (from.saturating_sub(chunk.first) as usize).min(chunk.entries.len());
            let new = chunk.entries[known..].iter().zip(chunk.first + known as u32..);
            new.map(|((kind, text), id)| (id, *kind, &text[..]))
        })
    }

    /// Returns one more than the largest number.
    pub fn end(&self) -> u32 {
        self.chunks.last().map_or(1, |chunk| chunk.first + chunk.entries.len() as u32)
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<(NameKind, &'a [u8])> {
    let head = rest.first_chunk::<HEAD>()?;
    let length = u16::from_le_bytes([head[1], head[2]]) as usize;
    let kinds = [NameKind::Path, NameKind::Object, NameKind::Span, NameKind::Category];
    let kind = kinds.into_iter().find(|kind| *kind as u8 == head[0]).unwrap_or(NameKind::Text);
    let text = rest.get(HEAD..HEAD + length)?;
    *rest = &rest[HEAD + length..];
    Some((kind, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(texts: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for text in texts {
            let at = out.len();
            out.resize(at + entry_size(text), 0);
            write_entry(NameKind::Path, text, &mut out[at..]);
        }
        out
    }

    #[test]
    fn names_are_found_in_any_order_of_chunks() {
        let mut names = Names::default();
        names.add(3, &chunk(&[b"c", b"d"])).unwrap();
        names.add(1, &chunk(&[b"a", b""])).unwrap();
        let texts: Vec<_> = (0..6).map(|id| names.text(id).map(|text| text.into_owned())).collect();
        assert_eq!(texts, [None, Some("a".into()), Some("".into()), Some("c".into()), Some("d".into()), None]);
        assert_eq!(names.end(), 5);
        let from = |from| names.iter_from(from).map(|(id, ..)| id).collect::<Vec<_>>();
        assert_eq!((from(0), from(2), from(4), from(5)), (vec![1, 2, 3, 4], vec![2, 3, 4], vec![4], vec![]));
    }

    #[test]
    fn pushed_names_follow_existing_ones() {
        let mut names = Names::default();
        assert_eq!(names.push(NameKind::Path, b"a"), 1);
        names.add(5, &chunk(&[b"e"])).unwrap();
        assert_eq!(names.push(NameKind::Text, b"f"), 6);
        assert_eq!(names.get(6), Some((NameKind::Text, &b"f"[..])));
    }

    #[test]
    fn a_longer_copy_of_a_chunk_replaces_a_shorter_one() {
        let mut names = Names::default();
        names.add(1, &chunk(&[b"a"])).unwrap();
        names.add(1, &chunk(&[b"a", b"b"])).unwrap();
        names.add(1, &chunk(&[b"a"])).unwrap();
        assert_eq!(names.text(2).unwrap(), "b");
    }

    #[test]
    fn names_are_truncated_at_the_maximum() {
        for (length, kept) in [(NAME_MAX - 1, NAME_MAX - 1), (NAME_MAX, NAME_MAX), (NAME_MAX + 1, NAME_MAX)] {
            let mut names = Names::default();
            names.add(1, &chunk(&[&vec![b'x'; length]])).unwrap();
            assert_eq!(names.text(1).unwrap().len(), kept);
        }
    }

    #[test]
    fn truncated_chunk_is_rejected() {
        let whole = chunk(&[b"abc"]);
        for cut in 1..whole.len() {
            assert!(Names::default().add(1, &whole[..cut]).is_err());
        }
    }
}
