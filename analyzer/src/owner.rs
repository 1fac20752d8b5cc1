//! Ownership of files, and which files of other users are trusted.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// Returns `true` for a file of the user that this process runs as.
pub fn is_own(facts: &Metadata) -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == facts.uid())
}

/// Returns `true` for a file of this user or of root, who has full control anyway.
pub fn is_believed(facts: &Metadata) -> bool {
    facts.uid() == ROOT || is_own(facts)
}

/// Returns `true` if no other user can have written it.
pub fn is_closed(facts: &Metadata) -> bool {
    is_believed(facts) && facts.mode() & OTHERS_WRITE == 0
}

/// Returns `true` for a directory of the user in which no other user can remove or replace files.
pub fn keeps_files(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|facts| {
        facts.is_dir() && is_own(&facts) && (facts.mode() & OTHERS_WRITE == 0 || facts.mode() & STICKY != 0)
    })
}
