//! The number of a path that is absolute, of a URL, or of something that has neither; and what filters leave out.

use dlio_schemas::native::names::NameKind;
use dlio_schemas::objects::{Kind, Name};

use crate::kernel::hash;
use crate::kernel::path_buffer::{PATH_MAX, PathBuffer};
use crate::known::{name_cache, number};
use crate::naming::names;
use crate::process::config;
use crate::trace::tally;

/// Seed of the hash of absolute paths; that of others is their folder's hash.
pub const ABSOLUTE: u64 = 0;

/// In the place of a folder whose path the kernel does not tell, or behind which a name would be longer than a path can be.
pub const UNKNOWN_FOLDER: &[u8] = b"<unknown folder>";

/// Folders in which names may lead to whatever a descriptor happens to be. What lies in /dev/shm is data.
pub fn is_of_kernel(path: &[u8]) -> bool {
    path.starts_with(b"/dev/fd/") || path.starts_with(b"/proc/")
}

/// The number of an absolute path whose hash is not remembered, or [`number::FILTERED`].
pub fn new_name(path: &[u8], hash: u64) -> u32 {
    let is_unknown = path.starts_with(UNKNOWN_FOLDER);
    let left_out = if is_unknown { leaves_out_unknown(path) } else { config::get().filter().leaves_out(path) };
    if left_out {
        name_cache::remember(hash, number::FILTERED);
        return number::FILTERED;
    }
    names::add(NameKind::Path, path, hash)
}

/// Wherever an unknown folder is, it is below the root.
#[cold]
#[inline(never)]
fn leaves_out_unknown(path: &[u8]) -> bool {
    config::get().filter().leaves_out(PathBuffer::new().push(b"/").push(path).as_bytes())
}

/// The number of an absolute path or a URL, or [`number::FILTERED`].
pub fn intern_path(path: &[u8]) -> u32 {
    let hash = hash::of(path, ABSOLUTE);
    name_cache::find(hash).unwrap_or_else(|| new_name(path, hash))
}

/// The number of something that is named by a URL, as an object of a store; or [`number::FILTERED`].
pub fn of_url(url: &[u8]) -> u32 {
    match url {
        [] => number::NONE,
        _ => intern_path(&url[..url.len().min(PATH_MAX)]),
    }
}

/// The number of something that has no path.
pub fn object(kind: &[u8]) -> u32 {
    names::intern(NameKind::Object, kind, hash::of(kind, 4 << 32))
}

/// The number of an object between processes, which its name tells from all others. Where events are counted and not recorded
/// that of its kind: a row for each of them would fill the table.
pub fn identified(kind: Kind, name: &Name) -> u32 {
    if tally::is_on() { object(kind.name().as_bytes()) } else { object(name.as_bytes()) }
}
