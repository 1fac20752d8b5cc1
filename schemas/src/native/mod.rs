//! The native trace: the files of a process, written while it runs.
//!
//! Two files share a stem. `STEM.dlt` is a sequence of self-checking blocks and only ever grows. `STEM.ring` is the
//! memory with the latest events, mapped and shared, so that it survives a kill. When a process ends normally, its
//! ring is drained into the `.dlt` and removed. FORMAT.md draws both.
//!
//! Reading order of the modules: [`block`] (the frame around everything), [`fields`] (facts about a process),
//! [`names`] (paths and other strings, written once), [`objects`] (names of pipes and sockets), [`columns`] (events),
//! [`mod@file`] (a whole `.dlt`), [`ring`] (a leftover ring), [`live`] (a ring that is being written), [`tally`]
//! (counts instead of events), [`untraced`] (programs without a trace).

pub mod block;
pub mod columns;
pub mod fields;
pub mod file;
pub mod live;
pub mod names;
pub mod objects;
pub mod ring;
pub mod tally;
pub mod trouble;
pub mod untraced;

/// Raise this when bytes change their meaning; new keys and new operations need no new version. A reader accepts
/// every version up to its own, and reports for a newer one that a newer dlio is needed. Files of every version ever
/// written are in `tests/formats` and are read by a test.
pub const VERSION: u32 = 2;

/// The reason why a part of a trace cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The file does not begin like one of our traces.
    NotATrace,
    /// Written by the given, newer version.
    TooNew(u32),
    /// The file is empty.
    Empty,
    /// The file ends in the middle of a part.
    Cut,
    /// An export of a trace whose number of missing events was unknown.
    Incomplete,
    /// A process could not write a single byte: only the name of its file has information.
    NoRoom,
    /// A block that was not written completely, followed by others: the disk was full for a while.
    Torn,
    /// Bytes that do not match their checksum or their own lengths.
    Broken(&'static str),
    /// Nothing in it can be used: the reason, and the remedy.
    Useless(&'static str),
    /// Nothing is damaged, but the trace needs this note.
    Remark(&'static str),
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Damage::NotATrace => write!(f, "not a dlio trace"),
            Damage::TooNew(version) => {
                write!(f, "format version {version} is newer than this program; use a newer dlio")
            }
            Damage::Empty => write!(f, "empty: its process recorded nothing, or had no space"),
            Damage::Cut => write!(f, "the file ends in the middle of a block"),
            Damage::Incomplete => write!(f, "the file it was converted from was damaged"),
            Damage::NoRoom => write!(f, "all events of its process are lost: only the file name contains their number"),
            Damage::Torn => write!(f, "an incomplete block"),
            Damage::Useless(what) | Damage::Remark(what) => write!(f, "{what}"),
            Damage::Broken(what) => write!(f, "damaged: {what}"),
        }
    }
}

impl std::error::Error for Damage {}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
