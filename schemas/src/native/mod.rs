//! The native trace: what a process leaves behind, written while it runs.
//!
//! Two files share a stem. `STEM.dlt` is a sequence of self-checking blocks and only ever grows; `STEM.ring` is the memory
//! the events of the last moments lie in, mapped and shared, so that it outlives a kill. When a process ends in an orderly
//! way its ring is emptied into the `.dlt` and removed. FORMAT.md draws both.
//!
//! Reading order of the modules: [`block`] (frame around everything), [`fields`] (what is known of a process), [`names`]
//! (paths and other strings, written once), [`objects`] (names of pipes and sockets), [`columns`] (events), [`mod@file`] (a whole `.dlt`), [`ring`] (a leftover ring),
//! [`live`] (a ring that is being written), [`tally`] (counts in the place of events), [`untraced`] (programs beside the trace).

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

/// Raise this when bytes change their meaning; new keys and new operations need no new version. A reader takes every version up
/// to its own and says of a newer one that a newer dlio is needed; files of every version ever written lie in `tests/formats`
/// and are read by a test.
pub const VERSION: u32 = 2;

/// Why a piece of a trace cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The file does not begin as a trace of ours does.
    NotATrace,
    /// Written by a newer version, which is given.
    TooNew(u32),
    /// There is not one byte in the file.
    Empty,
    /// The file ends in the middle of a piece.
    Cut,
    /// An export of a trace of which nobody knew how much was missing.
    Incomplete,
    /// A process could not write one byte: the name of its file is all there is.
    NoRoom,
    /// A block that was not written whole, with others behind it: the disk was full, and then it was not.
    Torn,
    /// Bytes that do not fit their checksum or their own lengths.
    Broken(&'static str),
    /// Nothing in it can be used: why, and what to do.
    Useless(&'static str),
    /// Nothing is damaged, but what the trace says needs this said.
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
