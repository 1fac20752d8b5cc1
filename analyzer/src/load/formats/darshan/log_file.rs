//! The container: header, compressed regions, job record, names of files.
//!
//! ```text
//! header    version "3.41", magic number (its byte order is that of the log), compression, flags of partial modules,
//!           offset and length of the names and of each module, version of each module
//! job       user, start, end, processes, job id, metadata (key=value), command line, mounts    to the next region
//! names     record id, path
//! modules   records of one kind, back to back
//! ```
//!
//! Regions are compressed separately: a sequence of zlib or bzip2 streams, or plain bytes.

use std::collections::HashMap;
use std::io::Read;

use dlio_schemas::native::Damage;
use dlio_schemas::readable::readable;

use super::modules::{ALL, Module, Presence};
use crate::load::bytes::file_bytes::UNPACKED_MAX;

/// Identifies a log, and its byte order.
const MAGIC: u64 = 6_567_223;

const JOB_BYTES: u64 = 4096;
const METADATA_BYTES: usize = 1024;

const NO_HEADER: &str = "its header is truncated; copy the log again";
const NO_JOB: &str = "its job record is truncated or damaged; copy the log again";
const NEWER: &str = "a Darshan log of an unknown version, expected 3.00 to 3.41; convert it: darshan-convert OLD NEW";
const COMPRESSION: &str = "an unknown compression method in its header; copy the log again";
const NAMES: &str =
    "its list of file names is truncated or damaged: files without a name appear as <darshan record ID>";

/// The byte order of a log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let word = bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { u64::from_be_bytes(*word) } else { u64::from_le_bytes(*word) })
    }

    pub fn i64(self, bytes: &[u8], at: usize) -> Option<i64> {
        Some(self.u64(bytes, at)? as i64)
    }

    pub fn f64(self, bytes: &[u8], at: usize) -> Option<f64> {
        Some(f64::from_bits(self.u64(bytes, at)?))
    }

    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) })
    }
}

/// Returns the byte order of a log, given its first bytes; `None` for any other file.
pub fn order(head: &[u8]) -> Option<Order> {
    let is_version = head
        .first_chunk::<3>()
        .is_some_and(|[major, dot, minor]| (*major, *dot) == (b'3', b'.') && minor.is_ascii_digit());
    [Order::Little, Order::Big].into_iter().find(|order| is_version && order.u64(head, 8) == Some(MAGIC))
}

/// Returns `true` for a log whose header was not written: zeros, and the compressed job record behind them.
pub fn lacks_header(head: &[u8]) -> bool {
    let follows =
        |size: usize| head.get(size..).is_some_and(|rest| rest.starts_with(&[0x78]) || rest.starts_with(b"BZh"));
    let is_zero = |size: usize| head.get(..size).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
    [360, 1328].into_iter().any(|size| is_zero(size) && follows(size))
}

/// The job that a log describes.
#[derive(Clone, Default, Debug)]
pub struct Job {
    pub uid: i64,
    pub id: i64,
    pub processes: i64,
    pub start_ns: i64,
    pub end_ns: i64,
    pub command: String,
    /// File system type and mount point.
    pub mounts: Vec<(String, String)>,
    /// Such as `lib_ver` and `h`, the hints.
    pub metadata: Vec<(String, String)>,
}

/// A log with its regions decompressed.
pub struct LogFile {
    pub version: String,
    pub order: Order,
    pub job: Job,
    pub names: HashMap<u64, String>,
    pub modules: Vec<Module>,
    /// Missing or unreadable parts.
    pub damage: Vec<Damage>,
}

/// Where a region is, in compressed bytes.
#[derive(Clone, Copy, Default)]
struct Region {
    at: u64,
    size: u64,
}

/// The header, independent of its version.
struct Header {
    minor: u32,
    order: Order,
    compression: u8,
    partial: u64,
    size: u64,
    names: Region,
    /// By number in the list of all modules.
    modules: Vec<(Region, u32)>,
}

impl Header {
    fn read(file: &[u8]) -> Result<Header, Damage> {
        let order = order(file).ok_or(Damage::NotATrace)?;
        let minor = file[2..8].iter().take_while(|byte| byte.is_ascii_digit());
        let minor = minor.fold(0, |number, digit| 10 * number + u32::from(digit - b'0'));
        if ![0, 10, 20, 21, 41].contains(&minor) {
            return Err(Damage::Useless(NEWER));
        }
        // From version 3.41 on: 64 modules instead of 16, and flags of 64 bits.
        let (slots, flags_at) = if minor >= 41 { (64, 24) } else { (16, 20) };
        let names_at = if minor >= 41 { 32 } else { 24 };
        let versions_at = names_at + 16 * (1 + slots);
        let region = |at: usize| Some(Region { at: order.u64(file, at)?, size: order.u64(file, at + 8)? });
        let slot = |slot: usize| Some((region(names_at + 16 * (1 + slot))?, order.u32(file, versions_at + 4 * slot)?));
        let header = || {
            let partial = if minor >= 41 { order.u64(file, flags_at)? } else { order.u32(file, flags_at)?.into() };
            let (mut modules, mut flags) = (Vec::new(), 0);
            let mut stored = 0;
            for number in 0..slots.max(ALL.len()) {
                // Modules that were inserted into the list later have no slot in older logs.
                let is_missing = ALL.get(number).is_some_and(|known| minor < known.since);
                if is_missing || stored >= slots {
                    modules.push((Region::default(), 0));
                    continue;
                }
                modules.push(slot(stored)?);
                flags |= (partial >> stored & 1) << number;
                stored += 1;
            }
            let (compression, size) = (*file.get(16)?, (versions_at + 4 * slots) as u64);
            Some(Header { minor, order, compression, partial: flags, size, names: region(names_at)?, modules })
        };
        header().ok_or(Damage::Useless(NO_HEADER))
    }

    /// Decompresses a region; `false` if a part is missing.
    fn region(&self, file: &[u8], region: Region, most: u64) -> (Vec<u8>, bool) {
        let end = region.at.saturating_add(region.size).min(file.len() as u64);
        let stored = file.get(region.at as usize..end as usize).unwrap_or_default();
        let is_whole = stored.len() as u64 == region.size;
        let mut bytes = Vec::new();
        let ended = match self.compression {
            0 => inflate(stored, most, &mut bytes),
            1 => bzip2::read::MultiBzDecoder::new(stored).take(most).read_to_end(&mut bytes).is_ok(),
            _ => {
                bytes.extend_from_slice(stored);
                true
            }
        };
        (bytes, is_whole && ended)
    }
}

/// Decompresses zlib streams, one after another: each rank of a job compresses its own records.
fn inflate(mut stored: &[u8], most: u64, into: &mut Vec<u8>) -> bool {
    while !stored.is_empty() && (into.len() as u64) < most {
        let mut stream = flate2::bufread::ZlibDecoder::new(&mut stored);
        let before = into.len();
        if (&mut stream).take(most - before as u64).read_to_end(into).is_err() {
            return false;
        }
    }
    true
}

impl LogFile {
    /// Reads a log; damage that leaves parts readable is in the result.
    pub fn read(file: &[u8]) -> Result<LogFile, Damage> {
        let header = Header::read(file)?;
        if header.compression > 2 {
            return Err(Damage::Useless(COMPRESSION));
        }
        let mut damage = Vec::new();
        let used = |region: &Region| region.size > 0;
        let others = header.modules.iter().map(|(region, _)| region).chain([&header.names]);
        let next = others.filter(|region| used(region)).map(|region| region.at).min().unwrap_or(file.len() as u64);
        let job = Region { at: header.size, size: next.saturating_sub(header.size) };
        let (job, _) = header.region(file, job, JOB_BYTES);
        let job = read_job(&job, &header).ok_or(Damage::Useless(NO_JOB))?;
        let (names, whole) = header.region(file, header.names, UNPACKED_MAX);
        if !whole {
            damage.push(Damage::Broken(NAMES));
        }
        let names = if header.minor == 0 { sized_names(&names, header.order) } else { names_of(&names, header.order) };
        let mut modules = Vec::new();
        for (number, (region, version)) in header.modules.iter().enumerate().filter(|(_, (region, _))| used(region)) {
            let (bytes, whole) = header.region(file, *region, UNPACKED_MAX);
            let presence = match header.partial >> number & 1 {
                _ if !whole => Presence::Damaged,
                0 => Presence::Whole,
                _ => Presence::Partial,
            };
            modules.push(Module { number, version: *version, bytes, presence });
        }
        let version = String::from_utf8_lossy(&file[..8]).trim_end_matches('\0').to_string();
        Ok(LogFile { version, order: header.order, job, names, modules, damage })
    }
}

fn read_job(bytes: &[u8], header: &Header) -> Option<Job> {
    let has_ns = header.minor >= 41;
    let fields = if has_ns { 7 } else { 5 };
    let word = |place: usize| header.order.i64(bytes, 8 * place);
    let moment = |place: usize| {
        let seconds = word(place)?.saturating_mul(1_000_000_000);
        Some(seconds.saturating_add(if has_ns { word(place + 1)? } else { 0 }))
    };
    let metadata = bytes.get(8 * fields..)?.get(..METADATA_BYTES)?;
    let (command, mounts) = {
        let text = terminated(bytes.get(8 * fields + METADATA_BYTES..)?);
        let (command, mounts) = text.split_once('\n').map_or((text.clone(), ""), |(line, rest)| (line.into(), rest));
        let mounts = mounts.lines().filter_map(|line| line.split_once('\t'));
        (command, mounts.map(|(kind, place)| (kind.into(), place.into())).collect())
    };
    let facts = terminated(metadata);
    let facts = facts.lines().filter_map(|line| line.split_once('='));
    // Without nanoseconds, the last second is part of the job.
    let end_ns = moment(if has_ns { 3 } else { 2 })?.saturating_add(if has_ns { 0 } else { 1_000_000_000 });
    Some(Job {
        uid: word(0)?,
        id: word(fields - 1)?,
        processes: word(fields - 2)?,
        start_ns: moment(1)?,
        end_ns,
        command,
        mounts,
        metadata: facts.map(|(key, value)| (key.into(), value.into())).collect(),
    })
}

/// Returns the text up to its terminating zero.
pub fn terminated(bytes: &[u8]) -> String {
    readable(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// Reads names that end with a zero. A record may be named twice, first without a path.
fn names_of(mut bytes: &[u8], order: Order) -> HashMap<u64, String> {
    let mut names = HashMap::new();
    while let Some((id, length)) = order.u64(bytes, 0).zip(bytes.get(8..).and_then(|r| r.iter().position(|b| *b == 0)))
    {
        let name: &mut String = names.entry(id).or_default();
        if name.is_empty() {
            *name = terminated(&bytes[8..]);
        }
        bytes = &bytes[8 + length + 1..];
    }
    names
}

/// Reads the names of version 3.00, which contain their length.
fn sized_names(mut bytes: &[u8], order: Order) -> HashMap<u64, String> {
    let mut names = HashMap::new();
    while let Some((id, length)) = order.u64(bytes, 0).zip(order.u32(bytes, 8)) {
        let Some(name) = bytes.get(12..12 + length as usize) else { break };
        names.insert(id, terminated(name));
        bytes = &bytes[12 + length as usize..];
    }
    names
}
