//! The number of an absolute path, of a URL, or of an object that has neither, and the names that filters exclude.

use dlio_schemas::native::names::NameKind;
use dlio_schemas::objects::{Kind, Name};

use crate::kernel::hash;
use crate::kernel::path_buffer::{PATH_MAX, PathBuffer};
use crate::known::{name_cache, number};
use crate::naming::names;
use crate::process::config;
use crate::trace::tally;

/// Seed for the hash of absolute paths; the seed of a relative path is its directory's hash.
pub const ABSOLUTE: u64 = 0;

/// Replaces a directory whose path the kernel does not report, or with which a name would exceed the longest path.
pub const UNKNOWN_FOLDER: &[u8] = b"<unknown folder>";

/// Returns `true` for paths in directories of the kernel, where a name may resolve to any object. Files in /dev/shm
/// are data.
pub fn is_of_kernel(path: &[u8]) -> bool {
    path.starts_with(b"/dev/fd/") || path.starts_with(b"/proc/")
}

/// Returns the number of an absolute path whose hash is not cached, or [`number::FILTERED`].
pub fn new_name(path: &[u8], hash: u64) -> u32 {
    let is_unknown = path.starts_with(UNKNOWN_FOLDER);
    let left_out = if is_unknown { leaves_out_unknown(path) } else { config::get().filter().leaves_out(path) };
    if left_out {
        name_cache::remember(hash, number::FILTERED);
        return number::FILTERED;
    }
    names::add(NameKind::Path, path, hash)
}

/// Returns `true` if filters exclude a path in an unknown directory, which is treated as a directory below the root.
#[cold]
#[inline(never)]
fn leaves_out_unknown(path: &[u8]) -> bool {
    config::get().filter().leaves_out(PathBuffer::new().push(b"/").push(path).as_bytes())
}

/// Returns the number of an absolute path or a URL, or [`number::FILTERED`].
pub fn intern_path(path: &[u8]) -> u32 {
    let hash = hash::of(path, ABSOLUTE);
    name_cache::find(hash).unwrap_or_else(|| new_name(path, hash))
}

/// Returns the number of an object named by a URL, such as an object of a store, or [`number::FILTERED`].
pub fn of_url(url: &[u8]) -> u32 {
    match url {
        [] => number::NONE,
        _ => intern_path(&url[..url.len().min(PATH_MAX)]),
    }
}

/// Returns the number of an object without a path.
pub fn object(kind: &[u8]) -> u32 {
    names::intern(NameKind::Object, kind, hash::of(kind, 4 << 32))
}

/// Returns the number of an object shared by processes, whose name is unique. If events are counted rather than
/// recorded, returns the number of its kind instead: one row per object would fill the table.
pub fn identified(kind: Kind, name: &Name) -> u32 {
    if tally::is_on() { object(kind.name().as_bytes()) } else { object(name.as_bytes()) }
}
