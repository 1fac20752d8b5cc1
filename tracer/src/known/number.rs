//! Numbers that mean "no name" and "no directory".

/// No name: unknown, or no space for it.
pub const NONE: u32 = 0;
/// A name that filters exclude.
pub const FILTERED: u32 = u32::MAX;

/// The hash of an unknown directory.
pub const UNKNOWN: u64 = 0;
