//! The index of blocks: the structure of the larger native files, stored so that the next command does not have to walk
//! from header to header.
//!
//! ```text
//! PLACE-blocks       next to the cached counts: see `crate::cache`
//!
//! magic  version  length  table  |  image  image ...       table and images zstd of MessagePack
//! ```
//!
//! It contains images of whole files whose processes have ended: contiguous blocks without damage, no ring, no table of
//! counts. An entry is valid only for the very file that was walked: path, size, times of change, inode, first and last
//! bytes must match, for an object also the ETag. Anything that does not match (damage, another version, a file that
//! grew) is ignored and the file is walked.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::block::{Codec, HEADER_SIZE, Header, Kind};
use dlio_schemas::native::fields::Fields;
use dlio_schemas::native::file::{EventBlock, FILE_HEADER, Image};
use serde::{Deserialize, Serialize};

use crate::load::bytes::file_identity::FileIdentity;
use crate::load::bytes::trace_file::{self, StoredFile};
use crate::packed_serde::Columns;
use crate::sidecar;

const MAGIC: &[u8; 8] = b"DLIOBLKS";

/// Raise this when the table or the images change.
const VERSION: u32 = 1;

/// The bytes before the table: magic, version, length of the table.
const HEAD: usize = 20;

/// Files with fewer blocks are walked faster than they can be stored.
const BLOCKS_MIN: usize = 64;

/// The last bytes of a file that are compared.
const TAIL: u64 = 256;

/// Stored images, and the images walked in this run.
#[derive(Default)]
pub struct Index {
    /// Paths in this directory are relative to it.
    root: PathBuf,
    kept: Option<(File, HashMap<String, IndexEntry>)>,
    /// Images that were walked because the index lacks them; `None` if they are not collected.
    walked: Option<Mutex<Vec<WalkedImage>>>,
}

/// An image in the index.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct IndexEntry {
    facts: FileIdentity,
    at: u64,
    length: u64,
}

struct WalkedImage {
    path: String,
    facts: FileIdentity,
    packed: Vec<u8>,
}

/// A stored image.
#[derive(Serialize, Deserialize)]
struct StoredImage {
    /// Checksum of the first and last bytes of its file.
    sum: u32,
    fields: Vec<(String, String)>,
    anchors: Columns,
    names: Columns,
    events: Columns,
}

impl Index {
    /// Opens the index in a file, or an empty one without a file. It collects images that have to be walked.
    pub fn of(file: Option<File>, root: &Path) -> Index {
        Index { root: root.into(), kept: file.and_then(opened), walked: Some(Mutex::default()) }
    }

    /// Returns `true` unless the index is disabled.
    pub fn is_used(&self) -> bool {
        self.walked.is_some()
    }

    /// Returns the image of an open file, if this very file was walked before.
    pub fn image(&self, path: &Path, file: &StoredFile) -> Option<Image> {
        let (index, places) = self.kept.as_ref()?;
        let place = places.get(&sidecar::relative(path, &self.root))?;
        let facts = file.facts().ok()?;
        if facts != place.facts {
            return None;
        }
        let kept: StoredImage = sidecar::unpacked(&sidecar::read(index, place.at, place.length)?)?;
        (kept.sum == ends(file, &facts)?).then(|| unpacked(kept, facts.size)).flatten()
    }

    /// Stores the result of walking an open file, if it may be stored.
    pub fn note(&self, path: &Path, file: &StoredFile, before: &FileIdentity, image: &Image) {
        let Some(walked) = &self.walked else { return };
        let Ok(facts) = file.facts() else { return };
        if image.blocks.len() < BLOCKS_MIN || facts != *before || !facts.is_settled(SystemTime::now()) {
            return;
        }
        let packed = ends(file, &facts).and_then(|sum| packed(image, sum)).and_then(|kept| sidecar::packed(&kept));
        if let Some(packed) = packed {
            let path = sidecar::relative(path, &self.root);
            walked.lock().expect("visited blocks").push(WalkedImage { path, facts, packed });
        }
    }

    /// Returns `true` if there are images that the file lacks.
    pub fn is_longer(&self) -> bool {
        self.walked.as_ref().is_some_and(|walked| !walked.lock().expect("visited blocks").is_empty())
    }

    /// Writes all images of unchanged files, including earlier ones.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut images: Vec<(String, FileIdentity, Vec<u8>)> = Vec::new();
        let walked = self.walked.as_ref().map(|walked| std::mem::take(&mut *walked.lock().expect("visited blocks")));
        images.extend(walked.into_iter().flatten().map(|WalkedImage { path, facts, packed }| (path, facts, packed)));
        let walked: HashSet<String> = images.iter().map(|(path, ..)| path.clone()).collect();
        if let Some((file, places)) = &self.kept {
            let is_there = |path: &str, place: &IndexEntry| {
                trace_file::facts(&self.root.join(path)).is_ok_and(|facts| facts == place.facts)
            };
            for (path, place) in places.iter().filter(|(path, place)| !walked.contains(*path) && is_there(path, place))
            {
                let packed = sidecar::read(file, place.at, place.length);
                images.extend(packed.map(|packed| (path.clone(), place.facts, packed)));
            }
        }
        images.sort_by(|a, b| a.0.cmp(&b.0));
        let mut at = 0;
        let place = |(path, facts, packed): &(String, FileIdentity, Vec<u8>)| {
            let place = IndexEntry { facts: *facts, at, length: packed.len() as u64 };
            at += place.length;
            (path.clone(), place)
        };
        let table: Vec<(String, IndexEntry)> = images.iter().map(place).collect();
        let table = sidecar::packed(&table).ok_or(io::ErrorKind::InvalidData)?;
        to.write_all(MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        to.write_all(&(table.len() as u64).to_le_bytes())?;
        to.write_all(&table)?;
        images.iter().try_for_each(|(.., packed)| to.write_all(packed))
    }
}

/// Opens the table of an index; its offsets count from the start of the file.
fn opened(file: File) -> Option<(File, HashMap<String, IndexEntry>)> {
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0).ok()?;
    if head[..8] != MAGIC[..] || head[8..12] != VERSION.to_le_bytes() {
        return None;
    }
    let length = u64::from_le_bytes(*head[12..].first_chunk()?);
    let table: Vec<(String, IndexEntry)> = sidecar::unpacked(&sidecar::read(&file, HEAD as u64, length)?)?;
    let first = HEAD as u64 + length;
    let placed =
        |(path, place): (String, IndexEntry)| Some((path, IndexEntry { at: place.at.checked_add(first)?, ..place }));
    let places = table.into_iter().map(placed).collect::<Option<_>>()?;
    Some((file, places))
}

/// Returns the checksum of a file's first and last bytes. For an object the ETag serves this purpose, and a read would
/// cost a request.
fn ends(file: &StoredFile, facts: &FileIdentity) -> Option<u32> {
    if let StoredFile::Object(_) = file {
        return Some(0);
    }
    let mut sum = libdeflater::Crc::new();
    let last = TAIL.min(facts.size);
    let (mut head, mut tail) = ([0; FILE_HEADER + HEADER_SIZE], vec![0; last as usize]);
    file.read_exact_at(&mut head, 0).ok()?;
    file.read_exact_at(&mut tail, facts.size - last).ok()?;
    sum.update(&head);
    sum.update(&tail);
    Some(sum.sum())
}

/// Blocks as rows: the distance from the previous block, then the header. Fields that no reader needs after opening
/// (the anchor, because the image has all anchors) are left out.
fn columns(blocks: &[EventBlock]) -> Columns {
    let before = |get: fn(&EventBlock) -> i64| {
        let before = std::iter::once(0).chain(blocks.iter().map(get));
        blocks.iter().zip(before).map(|(block, before)| get(block).wrapping_sub(before)).collect::<Vec<_>>()
    };
    let offsets = before(|block| block.offset as i64);
    let firsts = before(|block| block.header.first as i64);
    let sequences = before(|block| block.header.sequence as i64);
    let numbers: Vec<usize> = (0..blocks.len()).collect();
    Columns::of(&numbers, |&at| {
        let header = &blocks[at].header;
        let length = header.last.wrapping_sub(header.first) as i64;
        let (codec, sum) = (header.codec as i64, header.payload_sum as i64);
        let (stored, raw, stream, tid) = (header.stored, header.raw, header.stream, header.tid);
        let small = [stored, raw, stream, tid, header.count, header.reach as u32].map(|value| value as i64);
        let [stored, raw, stream, tid, count, reach] = small;
        [offsets[at], firsts[at], sequences[at], length, codec, sum, stored, raw, stream, tid, count, reach]
    })
}

fn blocks(columns: &Columns, kind: Kind) -> Option<Vec<EventBlock>> {
    let (mut offset, mut first, mut sequence) = (0i64, 0i64, 0i64);
    let rows = columns.things(|row: [i64; 12]| row)?;
    let block = |[offsets, firsts, sequences, length, codec, sum, stored, raw, stream, tid, count, reach]: [i64;
                     12]| {
        offset = offset.wrapping_add(offsets);
        first = first.wrapping_add(firsts);
        sequence = sequence.wrapping_add(sequences);
        let header = Header {
            codec: [Codec::Raw, Codec::Zstd].into_iter().find(|of| *of as i64 == codec)?,
            stored: stored.try_into().ok()?,
            raw: raw.try_into().ok()?,
            payload_sum: sum.try_into().ok()?,
            stream: stream.try_into().ok()?,
            sequence: sequence.try_into().ok()?,
            tid: tid.try_into().ok()?,
            count: count.try_into().ok()?,
            first: first as u64,
            last: first.wrapping_add(length) as u64,
            reach: reach.try_into().ok()?,
            ..Header::new(kind)
        };
        Some(EventBlock { offset: offset.try_into().ok()?, header })
    };
    rows.into_iter().map(block).collect()
}

/// Returns `None` for an image that must not be stored.
fn packed(image: &Image, sum: u32) -> Option<StoredImage> {
    if !image.damage.is_empty() || !image.has_ended() || image.tally.is_some() || !image.is_of_blocks_alone() {
        return None;
    }
    let mut before = Anchor::default();
    let anchors: Vec<[i64; 3]> = image
        .anchors
        .iter()
        .map(|anchor| {
            let Anchor { ticks, boot_ns, real_ns } = std::mem::replace(&mut before, *anchor);
            let moved = |now: u64, before: u64| now.wrapping_sub(before) as i64;
            // All clocks advance at about the same rate.
            let boot = moved(anchor.boot_ns, boot_ns);
            let real = moved(anchor.real_ns, real_ns).wrapping_sub(boot);
            [moved(anchor.ticks, ticks), boot, real]
        })
        .collect();
    Some(StoredImage {
        sum,
        fields: image.fields.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        anchors: Columns::of(&anchors, |anchor| *anchor),
        names: columns(&image.name_blocks),
        events: columns(&image.blocks),
    })
}

/// Returns the image, if its blocks fit in a file of that size.
fn unpacked(kept: StoredImage, size: u64) -> Option<Image> {
    // Each block has a header in the file: more blocks are damage, not a reason to allocate.
    if [&kept.anchors, &kept.names, &kept.events].iter().any(|columns| columns.rows() > size / HEADER_SIZE as u64 + 1) {
        return None;
    }
    let mut at = Anchor::default();
    let anchors = kept.anchors.things(|[ticks, boot, real]: [i64; 3]| [ticks, boot, real.wrapping_add(boot)])?;
    let anchors = anchors.into_iter().map(|[ticks, boot, real]| {
        let on = |before: u64, by: i64| before.wrapping_add(by as u64);
        at = Anchor { ticks: on(at.ticks, ticks), boot_ns: on(at.boot_ns, boot), real_ns: on(at.real_ns, real) };
        at
    });
    let anchors = anchors.collect();
    let (names, events) = (blocks(&kept.names, Kind::Names)?, blocks(&kept.events, Kind::Events)?);
    let lies_there = |block: &EventBlock| {
        let end = (block.offset as u64).checked_add(block.header.size() as u64);
        block.offset >= FILE_HEADER && end.is_some_and(|end| end <= size)
    };
    if !names.iter().chain(&events).all(lies_there) {
        return None;
    }
    let mut fields = Fields::default();
    kept.fields.iter().for_each(|(key, value)| fields.set(key, value));
    Some(Image::of_blocks(fields, anchors, names, events))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use dlio_schemas::native::fields::key;

    use super::*;

    const SIZE: usize = 100_000;

    /// Creates a file of arbitrary bytes, and an image whose blocks are in it.
    fn walked(folder: &Path) -> (PathBuf, Image) {
        let path = folder.join("a.dlt");
        std::fs::write(&path, vec![7; SIZE]).unwrap();
        let age = SystemTime::now() - Duration::from_secs(60);
        File::options().append(true).open(&path).unwrap().set_modified(age).unwrap();
        let mut fields = Fields::default();
        fields.set(key::ENDED, "exit 0");
        fields.set(key::LOST, 3);
        let block = |kind, at: usize| {
            let odd = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let header = Header {
                codec: Codec::Zstd,
                stored: at as u32 % 900,
                raw: odd as u32 >> 9,
                payload_sum: odd as u32,
                stream: at as u32 % 3,
                sequence: at as u32 / 3,
                tid: u32::MAX - at as u32,
                count: 2048,
                first: 1 << 60 | odd >> 20,
                last: 1 << 60 | odd >> 19,
                reach: odd as u16,
                ..Header::new(kind)
            };
            EventBlock { offset: FILE_HEADER + 1000 * at, header }
        };
        let anchor = |at: u64| Anchor { ticks: at * 3000, boot_ns: at * 1000 + 1, real_ns: u64::MAX / 2 + at * 999 };
        let events = (2..90).map(|at| block(Kind::Events, at)).collect();
        let names = vec![block(Kind::Names, 0), block(Kind::Names, 1)];
        (path, Image::of_blocks(fields, [5, 9, 6].map(anchor).to_vec(), names, events))
    }

    fn written(index: &Index, folder: &Path) -> Vec<u8> {
        let mut bytes = Vec::new();
        index.write(&mut bytes).unwrap();
        std::fs::write(folder.join("index"), &bytes).unwrap();
        bytes
    }

    fn read(folder: &Path) -> Index {
        Index::of(File::open(folder.join("index")).ok(), folder)
    }

    /// Creates an index in a directory, with the image of one file.
    fn made(folder: &Path) -> (PathBuf, Image) {
        let (path, image) = walked(folder);
        let index = read(folder);
        let file = StoredFile::open(&path).unwrap();
        index.note(&path, &file, &file.facts().unwrap(), &image);
        assert!(index.is_longer());
        written(&index, folder);
        (path, image)
    }

    fn found(folder: &Path, path: &Path) -> Option<Image> {
        read(folder).image(path, &StoredFile::open(path).unwrap())
    }

    #[test]
    fn stored_image_is_restored_and_kept_in_next_index() {
        let folder = tempfile::tempdir().unwrap();
        let (path, image) = made(folder.path());
        let same = |found: Option<Image>| assert_eq!(format!("{:?}", found.unwrap()), format!("{image:?}"));
        same(found(folder.path(), &path));
        let index = read(folder.path());
        assert!(!index.is_longer());
        written(&index, folder.path());
        same(found(folder.path(), &path));
        // The index drops files that no longer exist.
        std::fs::remove_file(&path).unwrap();
        written(&read(folder.path()), folder.path());
        assert_eq!(read(folder.path()).kept.unwrap().1.len(), 0);
    }

    #[test]
    fn incomplete_or_running_image_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let (path, image) = walked(folder.path());
        let file = StoredFile::open(&path).unwrap();
        let facts = file.facts().unwrap();
        let kept = |before: &FileIdentity, image: &Image| {
            let index = read(folder.path());
            index.note(&path, &file, before, image);
            index.is_longer()
        };
        assert!(kept(&facts, &image));
        let of = |fields: &Fields, blocks: usize| {
            let (anchors, names) = (image.anchors.clone(), image.name_blocks.clone());
            Image::of_blocks(fields.clone(), anchors, names, image.blocks[..blocks].to_vec())
        };
        assert!(!kept(&facts, &of(&Fields::default(), 80)), "of a process that may still write");
        assert!(!kept(&facts, &of(&image.fields, BLOCKS_MIN - 1)), "small");
        assert!(!kept(&FileIdentity { size: facts.size - 1, ..facts }, &image), "grown while it was read");
        let mut damaged = of(&image.fields, 80);
        damaged.damage.push((0, dlio_schemas::native::Damage::Torn));
        assert!(!kept(&facts, &damaged), "damaged");
        File::options().append(true).open(&path).unwrap().set_modified(SystemTime::now()).unwrap();
        assert!(!kept(&file.facts().unwrap(), &image), "changed just now");
    }

    #[test]
    fn changed_file_with_old_times_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = made(folder.path());
        for at in [0, FILE_HEADER + HEADER_SIZE - 1, SIZE - TAIL as usize, SIZE - 1] {
            let mut bytes = vec![7; SIZE];
            bytes[at] = 8;
            std::fs::write(&path, &bytes).unwrap();
            let file = StoredFile::open(&path).unwrap();
            assert!(found(folder.path(), &path).is_none(), "its times have changed");
            let mut index = read(folder.path());
            let places = &mut index.kept.as_mut().unwrap().1;
            places.values_mut().for_each(|place| place.facts = file.facts().unwrap());
            assert!(index.image(&path, &file).is_none(), "byte {at}");
        }
    }

    #[test]
    fn truncated_changed_or_foreign_index_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let (path, image) = made(folder.path());
        let mut whole = Vec::new();
        File::open(folder.path().join("index")).unwrap().read_to_end(&mut whole).unwrap();
        let truth = format!("{image:?}");
        let check = |bytes: &[u8], what: &str| {
            std::fs::write(folder.path().join("index"), bytes).unwrap();
            let found = found(folder.path(), &path);
            assert!(found.as_ref().is_none_or(|found| format!("{found:?}") == truth), "{what}");
            found.is_none()
        };
        let mut noticed = 0;
        for at in 0..whole.len() {
            let mut spoiled = whole.clone();
            spoiled[at] ^= 0x10;
            noticed += check(&spoiled, &format!("byte {at}")) as usize;
            noticed += check(&whole[..at], &format!("cut at {at}")) as usize;
        }
        // Except for a meaningless bit in a frame's header.
        assert!(noticed > 2 * whole.len() - 20, "{noticed} of {}", 2 * whole.len());
        assert!(check(b"", "empty"));
        assert!(check(&[&whole[..8], &[0xff; 100][..]].concat(), "another version"));
        assert!(check(&[&whole[..12], &[0xff; 100][..]].concat(), "a length beyond all"));
        // Blocks beyond the end of their file.
        std::fs::write(folder.path().join("index"), &whole).unwrap();
        let kept = packed(&image, 0).unwrap();
        assert!(unpacked(kept, 10_000).is_none());
    }
}
