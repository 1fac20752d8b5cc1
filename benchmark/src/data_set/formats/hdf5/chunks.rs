//! Chunked data sets as written by HDF5 2, which h5py uses since 3.16: version 5 of the layout, which the bundled
//! library is too old to open. Their structure has not changed: chunks, filtered or not, and an index of them.
//!
//! ```text
//! layout       5 · 2 · flags · rank+1 · n · chunk dimensions n each, the element last · index · its own fields · address 8
//! one chunk    [packed length 8 · skipped filters 4]
//! fixed array  "FAHD" 0 · client · entry length · page bits · entries 8 · block 8 · sum 4
//! its block    "FADB" 0 · client · header 8 · [one bit per page · sum 4] · entries or pages of them, each with a sum 4
//! entry        address 8 [· packed length · skipped filters 4]
//! ```
//!
//! As in [`head`], nothing is guessed: `None` for anything that is not fully understood, such as filters other than the
//! ones below. The indexes of data sets of unlimited size are in [`growing`].

use super::chunk::{Chunk, Entries};
use super::growing;
use super::head::{self, Fields, Message, UNDEFINED, checked};
use crate::data_set::formats::containers::zip::EXPANSION_MAX;
use crate::files::input::ReadAt;

const DATASPACE: u8 = 0x01;
const DATATYPE: u8 = 0x03;
const LAYOUT: u8 = 0x08;
const FILTERS: u8 = 0x0b;

/// The versions this module reads; the first one only for its tests, because the library writes it.
const VERSIONS: [u64; 2] = [4, 5];

/// The maximum number of chunks in a data set: a larger index is not kept in memory.
const CHUNKS_MAX: u64 = 1 << 24;

/// The maximum size of a chunk or a sample: a header with more is wrong, even if its checksum matches.
const LARGEST: u64 = 1 << 36;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Filter {
    Deflate,
    Shuffle,
    Fletcher32,
    Lzf,
}

/// A data set in chunks.
pub struct Chunked {
    /// Samples, then the dimensions of one.
    pub shape: Vec<u64>,
    pub sample_bytes: u64,
    element: u64,
    chunk: Vec<u64>,
    /// Chunks along each dimension: for the maximum size, or for the current size of an unlimited dimension.
    counts: Vec<u64>,
    filters: Vec<Filter>,
    chunks: Vec<Chunk>,
    /// The chunk that was unpacked last, by its address.
    last: (u64, Vec<u8>),
}

/// Returns the data sets of these names in the root group, or `None` if the library is needed.
pub fn data_sets(file: &dyn ReadAt, names: impl Iterator<Item = String>) -> Option<Vec<Chunked>> {
    let all = head::members(file, names, &[FILTERS])?;
    all.iter().map(|messages| Chunked::of(file, messages, &VERSIONS[1..])).collect()
}

impl Chunked {
    fn of(file: &dyn ReadAt, messages: &[Message], versions: &[u64]) -> Option<Chunked> {
        let body = |kind| messages.iter().find(|message| message.kind == kind).map(|message| &message.body[..]);
        let (shape, largest) = head::extent(body(DATASPACE)?)?;
        let element = head::element_bytes(body(DATATYPE)?)?;
        let filters = body(FILTERS).map_or(Some(Vec::new()), filters)?;
        let layout = Layout::of(body(LAYOUT)?, shape.len(), versions)?;
        if layout.element != element {
            return None;
        }
        let counts = layout.counts(&shape, &largest);
        let bytes = layout.chunk.iter().try_fold(element, |bytes, dim| bytes.checked_mul(*dim))?;
        let grows = largest.iter().position(|dim| *dim == UNDEFINED);
        let chunks = layout.chunks(file, &counts, grows, bytes)?;
        let sample_bytes = shape[1..].iter().try_fold(element, |bytes, dim| bytes.checked_mul(*dim))?;
        if bytes > LARGEST || sample_bytes > LARGEST || shape.iter().zip(&largest).any(|(dim, largest)| dim > largest) {
            return None;
        }
        Some(Chunked {
            shape,
            sample_bytes,
            element,
            chunk: layout.chunk,
            counts,
            filters,
            chunks,
            last: (UNDEFINED, Vec::new()),
        })
    }

    /// Reads a sample; returns the bytes read from the file, or `None` if a chunk is damaged.
    pub fn read(&mut self, file: &dyn ReadAt, index: u64, into: &mut [u8]) -> Option<u64> {
        // Missing chunks, and missing parts of chunks, read as zeros.
        into.fill(0);
        let mut moved = 0;
        let mut place = vec![0; self.shape.len()];
        place[0] = index / self.chunk[0];
        loop {
            let number = place.iter().zip(&self.counts).fold(0, |number, (at, count)| number * count + at);
            let chunk = self.chunks[number as usize];
            if chunk.address != UNDEFINED {
                moved += self.unpack(file, chunk)?;
                self.copy(index, &place, into);
            }
            if !self.next(&mut place) {
                return Some(moved);
            }
        }
    }

    /// Advances to the next chunk of the same samples, the last dimension first; returns `false` after the last one.
    fn next(&self, place: &mut [u64]) -> bool {
        for axis in (1..place.len()).rev() {
            place[axis] += 1;
            if place[axis] * self.chunk[axis] < self.shape[axis] {
                return true;
            }
            place[axis] = 0;
        }
        false
    }

    fn unpack(&mut self, file: &dyn ReadAt, chunk: Chunk) -> Option<u64> {
        if self.last.0 == chunk.address {
            return Some(0);
        }
        let whole = self.chunk.iter().try_fold(self.element, |bytes, length| bytes.checked_mul(*length))?;
        let end = chunk.address.checked_add(chunk.packed)?;
        if end > file.length().ok()? {
            return None;
        }
        let mut bytes = vec![0; chunk.packed as usize];
        file.read_exact_at(&mut bytes, chunk.address).ok()?;
        for (number, filter) in self.filters.iter().enumerate().rev() {
            if chunk.skipped >> number & 1 == 0 {
                bytes = filter.undone(bytes, whole as usize, self.element as usize)?;
            }
        }
        self.last = (chunk.address, bytes);
        (self.last.1.len() as u64 == whole).then_some(chunk.packed)
    }

    /// Copies the part of a sample that the last unpacked chunk contains, one run of the last dimension at a time.
    fn copy(&self, index: u64, place: &[u64], into: &mut [u8]) {
        let rank = self.shape.len();
        let mut within = vec![0; rank];
        within[0] = index % self.chunk[0];
        let ends: Vec<u64> =
            (0..rank).map(|axis| self.chunk[axis].min(self.shape[axis] - place[axis] * self.chunk[axis])).collect();
        let run = if rank > 1 { ends[rank - 1] } else { 1 };
        loop {
            let from = within.iter().zip(&self.chunk).fold(0, |at, (within, chunk)| at * chunk + within);
            let to =
                (1..rank).fold(0, |at, axis| at * self.shape[axis] + place[axis] * self.chunk[axis] + within[axis]);
            let [from, to, run] = [from, to, run].map(|number| (number * self.element) as usize);
            into[to..to + run].copy_from_slice(&self.last.1[from..from + run]);
            let axis = (1..rank.saturating_sub(1)).rev().find(|axis| within[*axis] + 1 < ends[*axis]);
            let Some(axis) = axis else { return };
            within[axis] += 1;
            within[axis + 1..].fill(0);
        }
    }
}

enum Index {
    Single { packed: u64, skipped: u64 },
    FixedArray { page_bits: u64 },
    ExtensibleArray,
    Tree,
}

struct Layout {
    chunk: Vec<u64>,
    element: u64,
    index: Index,
    filtered: bool,
    address: u64,
}

impl Layout {
    fn of(body: &[u8], rank: usize, versions: &[u64]) -> Option<Layout> {
        let mut fields = Fields(body);
        let version = fields.number(1)?;
        fields.is(&[2])?;
        let flags = fields.number(1)?;
        fields.is(&[rank as u8 + 1])?;
        let width = fields.number(1).filter(|width| (1..=8).contains(width))? as usize;
        let mut chunk: Vec<u64> = (0..=rank).map(|_| fields.number(width)).collect::<Option<_>>()?;
        let element = chunk.pop()?;
        let filtered = flags & 2 != 0;
        let index = match fields.number(1)? {
            1 if filtered => Index::Single { packed: fields.number(8)?, skipped: fields.number(4)? },
            1 => Index::Single { packed: 0, skipped: 0 },
            3 => Index::FixedArray { page_bits: fields.number(1).filter(|bits| *bits < 32)? },
            4 => fields.take(5).map(|_| Index::ExtensibleArray)?,
            5 => fields.take(6).map(|_| Index::Tree)?,
            _ => return None,
        };
        let address = fields.number(8)?;
        // Bit 0: chunks at the edge are not filtered.
        let known = versions.contains(&version) && flags & !2 == 0 && !chunk.contains(&0);
        known.then_some(Layout { chunk, element, index, filtered, address })
    }

    fn counts(&self, shape: &[u64], largest: &[u64]) -> Vec<u64> {
        let of_now = matches!(self.index, Index::Tree);
        let limits = shape.iter().zip(largest).map(|(now, most)| if of_now || *most == UNDEFINED { now } else { most });
        limits.zip(&self.chunk).map(|(dim, chunk)| dim.div_ceil(*chunk)).collect()
    }

    /// Returns all chunks in the order of their positions; `grows` is the unlimited dimension, `bytes` the length of an
    /// unfiltered chunk.
    fn chunks(&self, file: &dyn ReadAt, counts: &[u64], grows: Option<usize>, bytes: u64) -> Option<Vec<Chunk>> {
        let count = counts.iter().try_fold(1u64, |all, count| all.checked_mul(*count))?;
        if count > CHUNKS_MAX {
            return None;
        }
        if self.address == UNDEFINED {
            return Some(vec![Chunk::NEVER_WRITTEN; count as usize]);
        }
        match self.index {
            Index::Single { packed, skipped } => {
                let packed = if self.filtered { packed } else { bytes };
                (count == 1).then(|| vec![Chunk { address: self.address, packed, skipped }])
            }
            Index::FixedArray { page_bits } if grows.is_none() => {
                fixed_array(file, self.address, count, page_bits, bytes)
            }
            Index::FixedArray { .. } => None,
            Index::ExtensibleArray => {
                let listed = growing::array(file, self.address, count, bytes)?;
                Some(by_place(&listed, counts, grows?))
            }
            Index::Tree => growing::tree(file, self.address, counts, bytes),
        }
    }
}

/// Sorts chunks by position: an extensible array lists the unlimited dimension first.
fn by_place(listed: &[Chunk], counts: &[u64], grows: usize) -> Vec<Chunk> {
    let after: u64 = counts[grows + 1..].iter().product();
    let before: u64 = counts[..grows].iter().product();
    let number = |place: u64| {
        let (first, grown, last) = (place / after / counts[grows], place / after % counts[grows], place % after);
        (grown * before + first) * after + last
    };
    (0..listed.len() as u64).map(|place| listed[number(place) as usize]).collect()
}

fn fixed_array(file: &dyn ReadAt, address: u64, count: u64, page_bits: u64, bytes: u64) -> Option<Vec<Chunk>> {
    let header = head::bytes_at(file, address, 28)?;
    let mut fields = Fields(checked(&header)?);
    fields.is(b"FAHD\0")?;
    let packed = fields.number(1)? == 1;
    let entry = fields.number(1)?;
    let (bits, entries, block) = (fields.number(1)?, fields.number(8)?, fields.number(8)?);
    let wide_enough = if packed { (13..=20).contains(&entry) } else { entry == 8 };
    if bits != page_bits || entries != count || !wide_enough || block == UNDEFINED {
        return None;
    }
    let form = Entries { length: entry, packed, bytes };
    let per_page = 1u64 << page_bits;
    if count <= per_page {
        let block = head::bytes_at(file, block, (14 + count * entry + 4) as usize)?;
        return form.all(block_entries(&block, packed)?);
    }
    let pages = count.div_ceil(per_page);
    let head = 14 + pages.div_ceil(8);
    let prefix = head::bytes_at(file, block, (head + 4) as usize)?;
    let written = block_entries(&prefix, packed)?;
    let (mut all, mut at) = (Vec::new(), block + head + 4);
    for page in 0..pages {
        let here = per_page.min(count - page * per_page);
        let length = here * entry + 4;
        // The first page is the highest bit.
        if written[(page / 8) as usize] >> (7 - page % 8) & 1 == 1 {
            let bytes = head::bytes_at(file, at, length as usize)?;
            all.extend(form.all(checked(&bytes)?)?);
        } else {
            all.extend(std::iter::repeat_n(Chunk::NEVER_WRITTEN, here as usize));
        }
        at += length;
    }
    Some(all)
}

/// Returns the entries after the head of a block.
fn block_entries(block: &[u8], packed: bool) -> Option<&[u8]> {
    let mut fields = Fields(checked(block)?);
    fields.is(b"FADB\0")?;
    fields.is(&[u8::from(packed)])?;
    fields.take(8)?;
    Some(fields.0)
}

/// Returns why a data set cannot be read, as far as its header shows; `None` if it can.
pub fn unread(file: &dyn ReadAt, name: String) -> Option<String> {
    let members = head::members(file, std::iter::once(name), &[FILTERS])?;
    let body = |kind| members[0].iter().find(|message| message.kind == kind).map(|message| &message.body[..]);
    let ids = body(FILTERS).and_then(filter_ids).unwrap_or_default();
    if let Some(id) = ids.iter().find(|id| Filter::of(**id).is_none()) {
        return Some(format!("its chunks use {}, which is not built in", filter_name(*id)));
    }
    let version = body(LAYOUT).and_then(|layout| layout.first().copied())?;
    let newer = u64::from(version) >= VERSIONS[1];
    newer.then(|| format!("its layout has version {version} of HDF5 2, with an unsupported index"))
}

/// Returns the name of a filter, by its number in HDF5's registry.
pub fn filter_name(id: u64) -> String {
    let known = [
        (1, "gzip"),
        (2, "shuffle"),
        (3, "fletcher32"),
        (4, "szip"),
        (5, "nbit"),
        (6, "scaleoffset"),
        (307, "bzip2"),
        (32_000, "lzf"),
        (32_001, "blosc"),
        (32_004, "lz4"),
        (32_008, "bitshuffle"),
        (32_013, "zfp"),
        (32_015, "zstd"),
        (32_017, "sz"),
        (32_026, "blosc2"),
    ];
    let name = known.iter().find(|(number, _)| *number == id);
    name.map_or_else(|| format!("filter number {id}"), |(_, name)| format!("the filter {name}"))
}

fn filters(body: &[u8]) -> Option<Vec<Filter>> {
    filter_ids(body)?.into_iter().map(Filter::of).collect()
}

fn filter_ids(body: &[u8]) -> Option<Vec<u64>> {
    let mut fields = Fields(body);
    fields.is(&[2])?;
    let count = fields.number(1)?;
    let mut all = Vec::new();
    for _ in 0..count {
        let id = fields.number(2)?;
        let name = if id >= 256 { fields.number(2)? } else { 0 };
        let (_flags, values) = (fields.number(2)?, fields.number(2)?);
        fields.take(name as usize + 4 * values as usize)?;
        all.push(id);
    }
    Some(all)
}

impl Filter {
    fn of(id: u64) -> Option<Filter> {
        match id {
            1 => Some(Filter::Deflate),
            2 => Some(Filter::Shuffle),
            3 => Some(Filter::Fletcher32),
            32_000 => Some(Filter::Lzf),
            _ => None,
        }
    }

    /// Reverses the filter; `whole` is the length of a chunk.
    fn undone(self, bytes: Vec<u8>, whole: usize, element: usize) -> Option<Vec<u8>> {
        match self {
            Filter::Deflate => {
                // A checksum may have been packed with the chunk.
                let most = bytes.len().saturating_mul(EXPANSION_MAX as usize);
                let mut out = vec![0; whole.checked_add(4)?.min(most)];
                let length = libdeflater::Decompressor::new().zlib_decompress(&bytes, &mut out).ok()?;
                out.truncate(length);
                Some(out)
            }
            Filter::Lzf => lzf(&bytes, whole.checked_add(4)?),
            Filter::Fletcher32 => {
                let (data, sum) = bytes.split_last_chunk::<4>()?;
                (fletcher32(data) == u32::from_le_bytes(*sum)).then(|| data.to_vec())
            }
            Filter::Shuffle => Some(unshuffled(&bytes, element)),
        }
    }
}

/// Returns Fletcher's sum over pairs of bytes, high byte first, as in HDF5.
fn fletcher32(data: &[u8]) -> u32 {
    let (pairs, rest) = data.as_chunks::<2>();
    let (mut low, mut high) = (0u32, 0u32);
    // The sums of this many pairs do not overflow.
    for some in pairs.chunks(360) {
        for pair in some {
            low += u32::from(u16::from_be_bytes(*pair));
            high += low;
        }
        low = (low & 0xffff) + (low >> 16);
        high = (high & 0xffff) + (high >> 16);
    }
    if let [last] = rest {
        low += u32::from(*last) << 8;
        high += low;
        low = (low & 0xffff) + (low >> 16);
        high = (high & 0xffff) + (high >> 16);
    }
    low = (low & 0xffff) + (low >> 16);
    high = (high & 0xffff) + (high >> 16);
    high << 16 | low
}

/// Reverses the shuffle filter: the first bytes of all elements, then their second ones, ...; the remainder at the end
/// is unchanged.
fn unshuffled(bytes: &[u8], element: usize) -> Vec<u8> {
    let count = bytes.len() / element.max(1);
    let mut out = bytes.to_vec();
    for number in 0..count {
        for byte in 0..element {
            out[number * element + byte] = bytes[byte * count + number];
        }
    }
    out
}

/// Unpacks LZF: a byte below 32 starts a run of literals; others start a copy of output at most 8 KiB back.
fn lzf(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    // Three bytes become at most 264.
    let mut out: Vec<u8> = Vec::with_capacity(most.min(bytes.len().saturating_mul(88)));
    let mut fields = Fields(bytes);
    while !fields.0.is_empty() {
        let control = fields.number(1)? as usize;
        if control < 32 {
            out.extend(fields.take(control + 1)?);
        } else {
            let length = if control >> 5 == 7 { 7 + fields.number(1)? as usize } else { control >> 5 } + 2;
            let back = ((control & 31) << 8 | fields.number(1)? as usize) + 1;
            let from = out.len().checked_sub(back)?;
            (from..from + length).for_each(|at| out.push(out[at]));
        }
        if out.len() > most {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdf5_metno::{DatasetBuilderEmptyShape as Builder, Extent};
    use std::fs::File;

    /// Writes numbers in chunks with the library and reads every sample here, in the version the library writes.
    fn comes_back(shape: &[usize], chunk: &[usize], form: impl Fn(Builder) -> Builder) {
        grown_comes_back(shape, shape.iter().map(|dim| Extent::fixed(*dim)).collect(), chunk, form)
    }

    /// Writes and reads a data set that may grow.
    fn grown_comes_back(shape: &[usize], extents: Vec<Extent>, chunk: &[usize], form: impl Fn(Builder) -> Builder) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.hdf5");
        let count: usize = shape.iter().product();
        let numbers: Vec<u16> = (0..count).map(|number| (number / 3 * 7) as u16).collect();
        let file = hdf5_metno::File::with_options().with_fapl(|access| access.libver_latest()).create(&path).unwrap();
        // A live builder keeps the file open.
        let builder =
            |file: &hdf5_metno::File| form(file.new_dataset::<u16>().chunk(chunk.to_vec()).shape(extents.clone()));
        builder(&file).create("records_0").unwrap().write_raw(&numbers).unwrap();
        file.close().unwrap();
        let file = File::open(&path).unwrap();
        let members = head::members(&file, ["records_0".to_string()].into_iter(), &[FILTERS]).unwrap();
        let mut read = Chunked::of(&file, &members[0], &VERSIONS[..1]).unwrap();
        assert_eq!(read.shape, shape.iter().map(|dim| *dim as u64).collect::<Vec<_>>());
        let mut sample = vec![0; read.sample_bytes as usize];
        for (index, expected) in numbers.chunks(count / shape[0]).enumerate() {
            read.read(&file, index as u64, &mut sample).unwrap();
            let found: Vec<u16> = sample.as_chunks::<2>().0.iter().map(|two| u16::from_le_bytes(*two)).collect();
            assert_eq!(found, expected, "{shape:?} {chunk:?} sample {index}");
        }
    }

    #[test]
    fn chunks_of_every_shape_round_trip() {
        for (shape, chunk) in [
            (&[3, 8, 9][..], &[1, 8, 9][..]),
            (&[3, 8, 9], &[3, 8, 9]),
            (&[5, 8, 9], &[2, 3, 4]),
            (&[4, 7], &[3, 2]),
            (&[6], &[4]),
            (&[2, 3, 4, 5], &[1, 2, 3, 2]),
            (&[3, 100, 100], &[1, 1, 7]),
        ] {
            comes_back(shape, chunk, |builder| builder);
        }
    }

    #[test]
    fn filtered_chunks_round_trip() {
        for chunk in [&[1, 30, 31][..], &[5, 30, 31], &[2, 7, 31]] {
            comes_back(&[5, 30, 31], chunk, |builder| builder.deflate(4));
            comes_back(&[5, 30, 31], chunk, |builder| builder.lzf());
            comes_back(&[5, 30, 31], chunk, |builder| builder.shuffle().deflate(9));
            comes_back(&[5, 30, 31], chunk, |builder| builder.shuffle().lzf().fletcher32());
        }
    }

    #[test]
    fn a_changed_byte_of_a_chunk_with_a_checksum_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.hdf5");
        let file = hdf5_metno::File::with_options().with_fapl(|access| access.libver_latest()).create(&path).unwrap();
        let set = file.new_dataset::<u8>().chunk([1, 301]).fletcher32().shape([2, 301]).create("records_0").unwrap();
        set.write_raw(&(0..602).map(|number| number as u8).collect::<Vec<_>>()).unwrap();
        drop(set);
        file.close().unwrap();
        let read = |at: Option<usize>| {
            let mut bytes = std::fs::read(&path).unwrap();
            let start = bytes.windows(200).position(|some| some.iter().zip(0u8..).all(|(byte, n)| *byte == n)).unwrap();
            at.iter().for_each(|at| bytes[start + at] ^= 64);
            let changed = folder.path().join("y.hdf5");
            std::fs::write(&changed, bytes).unwrap();
            let file = File::open(&changed).unwrap();
            let members = head::members(&file, ["records_0".to_string()].into_iter(), &[FILTERS]).unwrap();
            let mut set = Chunked::of(&file, &members[0], &VERSIONS[..1]).unwrap();
            set.read(&file, 0, &mut [0; 301])
        };
        assert!(read(None).is_some());
        assert_eq!([0, 1, 150, 300].map(|at| read(Some(at))), [None; 4]);
    }

    #[test]
    fn an_index_of_pages_is_read() {
        comes_back(&[3000, 5], &[1, 2], |builder| builder);
        comes_back(&[2100, 3], &[1, 3], |builder| builder.deflate(1));
    }

    /// Data sets with unlimited dimensions, and the limits of their other dimensions.
    #[test]
    fn chunks_of_unlimited_data_sets_round_trip() {
        let grow = |dims: &[usize], which: &[usize], limit: usize| {
            let extent = |(axis, dim): (usize, &usize)| {
                let most = (!which.contains(&axis)).then_some(dim + limit);
                Extent::new(*dim, most)
            };
            dims.iter().enumerate().map(extent).collect::<Vec<_>>()
        };
        for which in [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[0, 1, 2]] {
            for (shape, chunk) in [
                ([5, 8, 9], [2, 3, 4]),
                ([3, 8, 9], [1, 8, 9]),
                ([6000, 2, 3], [1, 1, 3]),
                ([2, 9000, 1], [1, 2, 1]),
                ([70_000, 1, 2], [1, 1, 2]),
            ] {
                for limit in [0, 7] {
                    // The long one is for the pages of an array.
                    if shape[0] > 10_000 && (limit > 0 || which != &[0][..]) {
                        continue;
                    }
                    let extents = || grow(&shape, which, limit);
                    grown_comes_back(&shape, extents(), &chunk, |builder| builder.deflate(1).fletcher32());
                    grown_comes_back(&shape, extents(), &chunk, |builder| builder);
                }
            }
        }
    }

    #[test]
    fn damaged_chunks_are_never_read_out_of_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.hdf5");
        let file = hdf5_metno::File::with_options().with_fapl(|access| access.libver_latest()).create(&path).unwrap();
        let packed = file.new_dataset::<u8>().chunk([1, 16]).lzf().shape([4, 32]).create("records_0").unwrap();
        packed.write_raw(&[7u8; 4 * 32]).unwrap();
        drop(packed);
        file.close().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let tried = |bytes: &[u8]| {
            let path = folder.path().join("y.hdf5");
            std::fs::write(&path, bytes).unwrap();
            let file = File::open(&path).unwrap();
            let members = head::members(&file, ["records_0".to_string()].into_iter(), &[FILTERS])?;
            let mut set = Chunked::of(&file, &members[0], &VERSIONS[..1])?;
            (0..4).map(|index| set.read(&file, index, &mut [0; 32])).collect::<Option<Vec<_>>>()
        };
        assert!(tried(&bytes).is_some());
        (0..bytes.len()).step_by(7).for_each(|length| assert!(tried(&bytes[..length]).is_none(), "{length}"));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            tried(&changed);
        }
    }
}
