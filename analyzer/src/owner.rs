//! Whose a file is, and what of others' is believed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// True of what belongs to the user that this process runs as.
pub fn is_own(facts: &Metadata) -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == facts.uid())
}

/// True of what belongs to the user or to root, who could do to the user whatever they like anyway.
pub fn is_believed(facts: &Metadata) -> bool {
    facts.uid() == ROOT || is_own(facts)
}

/// True if nobody else can have written it.
pub fn is_closed(facts: &Metadata) -> bool {
    is_believed(facts) && facts.mode() & OTHERS_WRITE == 0
}

/// True of a folder of the user's in which nobody else takes away or exchanges what is put there.
pub fn keeps_files(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|facts| {
        facts.is_dir() && is_own(&facts) && (facts.mode() & OTHERS_WRITE == 0 || facts.mode() & STICKY != 0)
    })
}
