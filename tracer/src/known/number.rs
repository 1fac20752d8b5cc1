//! Numbers that stand for no name and no folder.

/// No name: not known, or no room.
pub const NONE: u32 = 0;
/// A name that filters leave out.
pub const FILTERED: u32 = u32::MAX;

/// The hash of a folder nothing is known of.
pub const UNKNOWN: u64 = 0;
