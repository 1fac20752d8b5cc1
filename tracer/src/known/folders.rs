//! Directories that relative paths start from: the working directory and open descriptors, by the kernel's own names
//! for them.
//!
//! The kernel is queried once per directory, not once per path. A directory is known by the hash of its path, which
//! seeds the hash of every path below it. The paths themselves are in a small table that forgets old entries. Both
//! are kept valid when this process changes the working directory, renames an open directory, or opens one below a
//! known one. A directory that another process renames keeps its old name, as an open file does.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::kernel::path_buffer::{PATH_MAX, PathBuffer};
use crate::kernel::{hash, sys};
use crate::known::descriptors;
use crate::known::number::UNKNOWN;

/// Longest directory path that is cached.
pub const LENGTH_MAX: usize = 248;

/// Number of cached directories: programs work in one after another and walk back through the parents.
const CACHED_PATHS: usize = 64;
const WORDS: usize = LENGTH_MAX / 8;

/// A cached path, protected by a sequence lock: the writer makes `version` odd; readers accept the path if `version`
/// is even and unchanged.
struct CachedPath {
    version: AtomicU32,
    length: AtomicU32,
    hash: AtomicU64,
    /// A Bloom filter over the names in the path.
    parts: AtomicU64,
    words: [AtomicU64; WORDS],
}

crate::large! {
    static TABLE: [CachedPath; CACHED_PATHS] = [const {
        CachedPath {
            version: AtomicU32::new(0),
            length: AtomicU32::new(0),
            hash: AtomicU64::new(UNKNOWN),
            parts: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }; CACHED_PATHS];
}

/// Hash of the working directory's path.
static WORKING: AtomicU64 = AtomicU64::new(UNKNOWN);
/// Counts changes that may have invalidated a path: a path that was queried before a change is not used after it.
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// Calls in progress that change the working directory unseen.
static CWD_WALKS: AtomicU32 = AtomicU32::new(0);

/// A copy of a directory's path.
pub struct Path {
    bytes: [u8; LENGTH_MAX],
    length: usize,
}

impl Path {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Returns the hash of a directory's path, or [`UNKNOWN`].
#[inline(always)]
pub fn known(dir: i32) -> u64 {
    if dir == libc::AT_FDCWD { WORKING.load(Relaxed) } else { descriptors::folder(dir) }
}

/// Returns a cached path.
pub fn path(hash: u64) -> Option<Path> {
    if hash == UNKNOWN {
        return None;
    }
    let place = place(hash);
    let version = place.version.load(Acquire);
    if !version.is_multiple_of(2) || place.hash.load(Relaxed) != hash {
        return None;
    }
    let mut bytes = [0; LENGTH_MAX];
    let length = (place.length.load(Relaxed) as usize).min(LENGTH_MAX);
    for (part, word) in bytes[..length.next_multiple_of(8)].chunks_exact_mut(8).zip(&place.words) {
        part.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
    }
    std::sync::atomic::fence(Acquire);
    (place.version.load(Relaxed) == version).then_some(Path { bytes, length })
}

/// Returns the path of the working directory; empty if it cannot be determined.
pub fn working(into: &mut PathBuffer) -> &[u8] {
    match path(known(libc::AT_FDCWD)) {
        Some(path) => drop(into.push(path.as_bytes())),
        None => drop(query(libc::AT_FDCWD, into)),
    }
    into.as_bytes()
}

/// Queries the kernel for a directory's path and caches it; empty if it cannot be determined. Returns its hash.
pub fn query(dir: i32, into: &mut PathBuffer) -> u64 {
    let changes = CHANGES.load(Acquire);
    let mut buffer = [0; PATH_MAX];
    let found = match dir {
        libc::AT_FDCWD => working_dir(&mut buffer),
        _ => sys::read_link(sys::descriptor_link(dir, &mut [0; 32]), &mut buffer),
    };
    let found = without_mark(found);
    into.push(found);
    if found.first() != Some(&b'/') {
        return UNKNOWN;
    }
    let hash = remember(found);
    set(dir, hash);
    if CHANGES.load(Acquire) != changes || CWD_WALKS.load(Relaxed) != 0 && dir == libc::AT_FDCWD {
        set(dir, UNKNOWN);
    }
    hash
}

/// A deleted directory no longer has a path for `getcwd`, but /proc still shows its old one.
fn working_dir(buffer: &mut [u8]) -> &[u8] {
    let length = sys::working_dir(buffer).len();
    if length > 0 { &buffer[..length] } else { sys::read_link(c"/proc/self/cwd", buffer) }
}

/// Returns a path without the suffix that the kernel adds for deleted files.
pub fn without_mark(link: &[u8]) -> &[u8] {
    link.strip_suffix(b" (deleted)").unwrap_or(link)
}

/// Notes the opening of a directory by a name that is not a link, below a directory whose path is known.
pub fn opened_below(dir: i32, name: &[u8], fd: i32) {
    let Some(above) = path(known(dir)) else { return };
    let above = above.as_bytes();
    let length = above.len() + 1 + name.len();
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || length > LENGTH_MAX {
        return;
    }
    let mut whole = [0; LENGTH_MAX];
    let start = if above == b"/" { 0 } else { above.len() };
    whole[..start].copy_from_slice(&above[..start]);
    whole[start] = b'/';
    whole[start + 1..start + 1 + name.len()].copy_from_slice(name);
    set(fd, remember(&whole[..start + 1 + name.len()]));
}

/// Notes that the working directory is now that of a descriptor, or unknown.
pub fn moved_to(dir: i32) {
    CHANGES.fetch_add(1, AcqRel);
    WORKING.store(if dir < 0 { UNKNOWN } else { descriptors::folder(dir) }, Release);
}

/// Notes the start or the return of a C library call that changes the working directory while it runs.
pub fn set_cwd_walk(begins: bool) {
    if begins {
        CWD_WALKS.fetch_add(1, AcqRel)
    } else {
        CWD_WALKS.fetch_sub(1, AcqRel)
    };
    moved_to(-1);
}

/// Handles the rename of a path: if it may be a component of a cached path, all cached paths are dropped.
pub fn renamed(path: &[u8]) {
    let part = bit(path.split(|&byte| byte == b'/').rfind(|part| !part.is_empty()).unwrap_or_default());
    if TABLE.iter().any(|place| place.parts.load(Relaxed) & part != 0) {
        TABLE.iter().for_each(|place| place.parts.store(0, Relaxed));
        moved_to(-1);
        descriptors::forget_folders();
    }
}

fn set(dir: i32, hash: u64) {
    match dir {
        libc::AT_FDCWD => WORKING.store(hash, Release),
        _ => descriptors::set_folder(dir, hash),
    }
}

/// Adds a path to the table, if it is not too long, and returns its hash.
fn remember(path: &[u8]) -> u64 {
    let hash = hash::of(path, 0).max(UNKNOWN + 1);
    let place = place(hash);
    // Writing first lets the kernel map the page once; reading first would map it twice.
    place.parts.fetch_or(0, Relaxed);
    let version = place.version.load(Relaxed);
    if path.len() > LENGTH_MAX || !version.is_multiple_of(2) {
        return hash;
    }
    if place.version.compare_exchange(version, version + 1, AcqRel, Relaxed).is_err() {
        return hash;
    }
    let mut word = [0; 8];
    for (to, part) in place.words.iter().zip(path.chunks(8)) {
        word[..part.len()].copy_from_slice(part);
        to.store(u64::from_ne_bytes(word), Relaxed);
    }
    place.length.store(path.len() as u32, Relaxed);
    place.parts.store(path.split(|&byte| byte == b'/').fold(0, |parts, part| parts | bit(part)), Relaxed);
    place.hash.store(hash, Relaxed);
    place.version.store(version + 2, Release);
    hash
}

fn place(hash: u64) -> &'static CachedPath {
    &TABLE[hash as usize % CACHED_PATHS]
}

fn bit(part: &[u8]) -> u64 {
    if part.is_empty() { 0 } else { 1 << (hash::of(part, 0) >> 58) }
}

/// Resets the table in a forked child, whose parent may have had a thread writing an entry.
pub fn after_fork_in_child() {
    for place in &TABLE {
        if place.version.load(Relaxed) % 2 != 0 {
            place.hash.store(UNKNOWN, Relaxed);
            place.version.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cached_up_to_the_limit() {
        let long = [&b"/"[..], &[b'x'; LENGTH_MAX - 1]].concat();
        // Tests run at the same time, and an entry that one of them is writing is unknown to others.
        for text in [&b"/"[..], b"/cached", b"/cached/at/some/depth", &long] {
            let hash = remember(text);
            assert_eq!(path(hash).expect("a path").as_bytes(), text);
        }
        let longer = [&long[..], b"y"].concat();
        assert!(path(remember(&longer)).is_none());
        assert!(path(UNKNOWN).is_none());
    }

    #[test]
    fn folders_below_known_ones_are_known() {
        set(400, remember(b"/data"));
        opened_below(400, b"inner", 401);
        assert_eq!(path(known(401)).expect("a path").as_bytes(), b"/data/inner");
        for name in [&b".."[..], b".", b"", b"a/b"] {
            set(402, UNKNOWN);
            opened_below(400, name, 402);
            assert_eq!(known(402), UNKNOWN);
        }
        renamed(b"/elsewhere/inner");
        assert_eq!((known(400), known(401)), (UNKNOWN, UNKNOWN));
    }
}
