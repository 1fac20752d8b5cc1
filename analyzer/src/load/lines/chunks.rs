//! Large texts with one object per line, split into chunks that any thread can read independently.
//!
//! ```text
//! plain  |------ chunk ------|------ chunk ------|      of equal length
//! gzip   |member|member|member|member|member|...|      enough members to make a chunk; each is unpacked at once
//!              line
//! ```
//!
//! A line belongs to the chunk in which the previous line ends: a chunk starts after its first line feed and extends to
//! the first one of the next chunk. Members are found by the first bytes they share. If a guess is wrong, the member
//! does not unpack, is read as a stream as far as possible, and is noted as damage; the text after it is not lost.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use dlio_schemas::native::Damage;
use flate2::bufread::GzDecoder;

use crate::load::bytes::trace_file::StoredFile;

/// Smaller files are read at once.
const SPLIT_FROM: u64 = 4 << 20;

/// Bytes of a chunk of an uncompressed file.
const PLAIN: u64 = 16 << 20;

/// The minimum stored bytes of a chunk of a compressed file.
const STORED: u64 = 512 << 10;

/// The maximum unpacked size of a chunk: DFTracer's members have 16 MiB. A file with larger ones is read as a stream.
const UNPACKED_MAX: usize = 64 << 20;

/// Bytes of a member's head that all members of a file share: magic, method, flags, time, system.
const MEMBER_HEAD: usize = 10;

/// Bytes of a member that usually contain its first line.
const FIRST_LINE: u64 = 4 << 10;

/// Bytes searched for members at a time.
const WINDOW: usize = 4 << 20;

/// The start of a text, which shows whether it has one object per line.
const SAMPLE: usize = 256 << 10;

/// The chunks of one file.
pub struct Chunks {
    packed: bool,
    /// Members, or ranges of an uncompressed file.
    places: Vec<Range<u64>>,
    /// The places that make a chunk.
    chunks: Vec<Range<usize>>,
    /// Bytes of text of each place, if known.
    lengths: Vec<usize>,
}

impl Chunks {
    /// Returns the chunks of a file; `None` if it is small, or if lines depend on each other.
    pub fn of(path: &Path, size: u64) -> Option<Chunks> {
        let file = StoredFile::open(path).ok().filter(|_| size >= SPLIT_FROM)?;
        let mut head = vec![0; SAMPLE.min(size as usize)];
        file.read_exact_at(&mut head, 0).ok()?;
        let packed = head.starts_with(&[0x1f, 0x8b, 0x08]);
        let (places, lengths) = match packed {
            true => members(&file, size, &head[..MEMBER_HEAD])?,
            false => ranges(size),
        };
        let sample = if packed { begin_of_member(&head, SAMPLE).0 } else { head };
        let chunks =
            if packed { grouped(&places, &lengths) } else { (0..places.len()).map(|place| place..place + 1).collect() };
        (chunks.len() > 1 && has_lines(&sample)).then_some(Chunks { packed, places, chunks, lengths })
    }

    pub fn count(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the stored bytes of a chunk.
    pub fn size(&self, chunk: usize) -> u64 {
        let places = &self.chunks[chunk];
        self.places[places.end - 1].end - self.places[places.start].start
    }

    /// Returns the approximate bytes of text in a chunk.
    pub fn length(&self, chunk: usize) -> u64 {
        self.lengths[self.chunks[chunk].clone()].iter().map(|length| *length as u64).sum()
    }

    /// Loads the lines of a chunk into `memory`, which may be reused for the next chunk, and returns their range. For a
    /// damaged chunk, returns the readable lines and the damage.
    pub fn load(&self, path: &Path, chunk: usize, memory: &mut Vec<u8>) -> (Range<usize>, Result<(), Damage>) {
        let mut out = RawBuffer { memory, used: 0 };
        let (from, result) = match StoredFile::open(path) {
            Ok(file) => self.lines(&file, chunk, &mut out),
            Err(_) => (0, Err(Damage::Broken("the file can no longer be opened"))),
        };
        (from..out.used, result)
    }

    /// Loads a chunk; returns where its first line starts.
    fn lines(&self, file: &StoredFile, chunk: usize, out: &mut RawBuffer) -> (usize, Result<(), Damage>) {
        let mut result = Ok(());
        for place in self.chunks[chunk].clone() {
            result = result.and(self.append(file, place, out));
        }
        let first = memchr::memchr(b'\n', out.text()).filter(|_| chunk > 0);
        if chunk > 0 && first.is_none() {
            return (out.used, result);
        }
        for place in self.chunks[chunk].end..self.places.len() {
            match self.append_first_line(file, place, out) {
                Ok(true) => break,
                Ok(false) => {}
                Err(damage) => result = result.and(Err(damage)),
            }
        }
        (first.map_or(0, |first| first + 1), result)
    }

    fn append(&self, file: &StoredFile, place: usize, out: &mut RawBuffer) -> Result<(), Damage> {
        let range = &self.places[place];
        if self.packed {
            return unpack(&load(file, range)?, out);
        }
        let length = (range.end - range.start) as usize;
        file.read_exact_at(out.more(length), range.start).map_err(|_| Damage::Cut)?;
        out.used += length;
        Ok(())
    }

    /// Appends the text up to the first line feed of a place; returns `false` if it has none.
    fn append_first_line(&self, file: &StoredFile, place: usize, out: &mut RawBuffer) -> Result<bool, Damage> {
        let range = &self.places[place];
        let mut length = FIRST_LINE;
        loop {
            let stored = load(file, &(range.start..range.end.min(range.start + length)))?;
            let begin = if self.packed { begin_of_member(&stored, UNPACKED_MAX).0 } else { stored };
            if let Some(end) = memchr::memchr(b'\n', &begin) {
                out.append(&begin[..=end]);
                return Ok(true);
            }
            if range.start + length >= range.end {
                out.append(&begin);
                return Ok(false);
            }
            length *= 4;
        }
    }
}

/// Returns the parts of an uncompressed file, and their lengths.
fn ranges(size: u64) -> (Vec<Range<u64>>, Vec<usize>) {
    let ranges = (0..size).step_by(PLAIN as usize).map(|at| at..(at + PLAIN).min(size));
    ranges.map(|range| (range.clone(), (range.end - range.start) as usize)).unzip()
}

/// Memory that grows and is never cleared: clearing bytes that are overwritten immediately costs as much as reading
/// them.
struct RawBuffer<'m> {
    memory: &'m mut Vec<u8>,
    used: usize,
}

impl RawBuffer<'_> {
    fn text(&self) -> &[u8] {
        &self.memory[..self.used]
    }

    /// Returns `length` bytes after the used part.
    fn more(&mut self, length: usize) -> &mut [u8] {
        let end = self.used + length;
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        &mut self.memory[self.used..end]
    }

    fn append(&mut self, bytes: &[u8]) {
        self.more(bytes.len()).copy_from_slice(bytes);
        self.used += bytes.len();
    }
}

fn load(file: &StoredFile, range: &Range<u64>) -> Result<Vec<u8>, Damage> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start).map_err(|_| Damage::Cut)?;
    Ok(bytes)
}

/// Unpacks one member, whole or as far as possible.
fn unpack(member: &[u8], out: &mut RawBuffer) -> Result<(), Damage> {
    let claimed = unpacked_length(member);
    if claimed <= UNPACKED_MAX {
        let unpacked = libdeflater::Decompressor::new().gzip_decompress(member, out.more(claimed));
        if unpacked.is_ok_and(|length| length == claimed) {
            out.used += claimed;
            return Ok(());
        }
    }
    let (begin, whole) = begin_of_member(member, UNPACKED_MAX);
    out.append(&begin);
    if whole { Ok(()) } else { Err(Damage::Cut) }
}

/// Returns the length in the last bytes of a member.
fn unpacked_length(member: &[u8]) -> usize {
    member.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

/// Returns the start of a member, up to `most` bytes, and whether that is all of it.
fn begin_of_member(member: &[u8], most: usize) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let ended = GzDecoder::new(member).take(most as u64).read_to_end(&mut out);
    let whole = ended.is_ok() && out.len() < most;
    (out, whole)
}

/// Returns range and unpacked length of members; `None` if there is only one, or a too large one.
fn members(file: &StoredFile, size: u64, head: &[u8]) -> Option<(Vec<Range<u64>>, Vec<usize>)> {
    let mut starts = Vec::new();
    let finder = memchr::memmem::Finder::new(head);
    let (mut at, mut window) = (0u64, vec![0; WINDOW]);
    while at + MEMBER_HEAD as u64 <= size {
        window.resize(WINDOW.min((size - at) as usize), 0);
        file.read_exact_at(&mut window, at).ok()?;
        starts.extend(finder.find_iter(&window).map(|place| at + place as u64));
        // The last bytes may be the start of a head.
        at += (window.len() - MEMBER_HEAD + 1) as u64;
    }
    let ends = starts.iter().skip(1).copied().chain([size]);
    let members: Vec<_> = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
    let length = |member: &Range<u64>| {
        let mut tail = [0; 4];
        file.read_exact_at(&mut tail, member.end.saturating_sub(4)).map(|()| u32::from_le_bytes(tail) as usize).ok()
    };
    let mut lengths = members.iter().map(length).collect::<Option<Vec<_>>>()?;
    // The last member of a killed writer has no length at its end.
    *lengths.last_mut()? = UNPACKED_MAX;
    let fits = members.len() > 1 && lengths.iter().all(|length| *length <= UNPACKED_MAX);
    fits.then_some((members, lengths))
}

/// Groups neighboring places into chunks.
fn grouped(places: &[Range<u64>], lengths: &[usize]) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let (mut from, mut unpacked) = (0, 0);
    for (i, place) in places.iter().enumerate() {
        unpacked += lengths[i];
        let next = lengths.get(i + 1).map_or(usize::MAX, |next| unpacked.saturating_add(*next));
        if place.end - places[from].start >= STORED || next > UNPACKED_MAX {
            chunks.push(from..i + 1);
            (from, unpacked) = (i + 1, 0);
        }
    }
    chunks
}

/// Returns `true` if each line is an object that does not pair with another line. Lines of the object form depend on
/// the first, which describes all of them and how they end.
fn has_lines(sample: &[u8]) -> bool {
    let is_line = |line: &[u8]| {
        let line = line.trim_ascii();
        let line = line.strip_suffix(b",").unwrap_or(line);
        line.is_empty() || line == b"[" || line.starts_with(b"{\"") && line.ends_with(b"}")
    };
    let pairs = ["B", "E", "b", "e"].map(|phase| format!("\"ph\":\"{phase}\""));
    let whole = memchr::memrchr(b'\n', sample).map_or(&sample[..0], |end| &sample[..end]);
    let mut lines = whole.split(|&byte| byte == b'\n');
    lines.clone().count() > 1
        && lines.all(is_line)
        && memchr::memmem::find(whole, b"\"traceEvents\"").is_none()
        && pairs.iter().all(|pair| memchr::memmem::find(sample, pair.as_bytes()).is_none())
}
