//! From what a program passes to the name a trace shows: absolute, with a kind in place of a path where there is none.
//!
//! A path is looked up by the hash of its spelling and of the folder it is relative to, so that opening the same file
//! again costs one hash and no system call. Only a spelling seen for the first time is made absolute. `..` stays: what it
//! means depends on links.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU32, Ordering::*};

use dlio_schemas::native::names::NameKind;

use crate::path_buffer::PathBuffer;
use crate::{config, descriptors, names, stack, sys};

/// Counts changes of the working directory; a relative path means something else after each.
static MOVES: AtomicU32 = AtomicU32::new(0);

/// The working directory has changed.
pub fn moved() {
    MOVES.fetch_add(1, Relaxed);
}

/// The name of a path relative to the working directory.
///
/// # Safety
/// `path` is null or a string as the C library takes it.
#[inline]
pub unsafe fn of(path: *const c_char) -> u32 {
    // SAFETY: by the contract above.
    unsafe { of_at(libc::AT_FDCWD, path) }
}

/// The name of a path relative to a folder's descriptor.
///
/// # Safety
/// `path` is null or a string as the C library takes it.
#[inline]
pub unsafe fn of_at(dir: i32, path: *const c_char) -> u32 {
    if path.is_null() || leads_nowhere(path) {
        return names::NONE;
    }
    // SAFETY: by the contract above.
    let text = unsafe { CStr::from_ptr(path) }.to_bytes();
    if text.is_empty() {
        return if dir >= 0 { descriptors::file(dir) } else { names::NONE };
    }
    let seed = match (text[0], dir) {
        (b'/', _) => 0,
        (_, libc::AT_FDCWD) => 1 << 32 | MOVES.load(Relaxed) as u64,
        _ => 2 << 32 | descriptors::file(dir) as u64,
    };
    let hash = names::hash(text, seed);
    match names::find(hash) {
        Some(id) => id,
        None => stack::with_room(|| new_spelling(dir, text, hash)),
    }
}

/// Whether the call has just failed for an address that cannot be read. errno may be older, so the kernel has the last word.
#[inline(always)]
pub fn leads_nowhere(path: *const c_char) -> bool {
    // SAFETY: the address of this thread's errno is always valid.
    unsafe { *libc::__errno_location() == libc::EFAULT && !sys::is_readable(path.cast()) }
}

/// Whether a path can be read before the kernel has said so.
pub fn is_readable(path: *const c_char) -> bool {
    !path.is_null() && sys::is_readable(path.cast())
}

#[cold]
#[inline(never)]
fn new_spelling(dir: i32, text: &[u8], hash: u64) -> u32 {
    let mut path = PathBuffer::new();
    if text[0] != b'/' {
        folder(dir, &mut path);
    }
    append_clean(&mut path, text);
    let id = match path.as_bytes().strip_prefix(b"/dev/fd/").or(path.as_bytes().strip_prefix(b"/proc/self/fd/")) {
        Some(number) => parse(number).map_or(names::NONE, descriptors::file),
        None => intern_path(path.as_bytes()),
    };
    if id != names::NONE && !is_descriptor_path(path.as_bytes()) {
        names::remember(hash, id);
    }
    id
}

/// Names that lead to whatever a descriptor happens to be may not be remembered by their spelling.
fn is_descriptor_path(path: &[u8]) -> bool {
    path.starts_with(b"/dev/fd/") || path.starts_with(b"/proc/self/fd/") || path.starts_with(b"/dev/std")
}

fn parse(number: &[u8]) -> Option<i32> {
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The number of an absolute path, or [`names::FILTERED`].
fn intern_path(path: &[u8]) -> u32 {
    let hash = names::hash(path, 3 << 32);
    match names::find(hash) {
        Some(id) => id,
        None if config::get().filter().leaves_out(path) => {
            names::remember(hash, names::FILTERED);
            names::FILTERED
        }
        None => names::intern(NameKind::Path, path, hash),
    }
}

/// The path of a folder a relative path starts from.
fn folder(dir: i32, into: &mut PathBuffer) {
    let mut buffer = [0; crate::path_buffer::PATH_MAX];
    let text = match dir {
        libc::AT_FDCWD => sys::working_dir(&mut buffer),
        _ => sys::read_link(descriptor_link(dir).as_c_str(), &mut buffer),
    };
    into.push(text);
}

/// Appends a path without its empty and `.` components.
fn append_clean(path: &mut PathBuffer, text: &[u8]) {
    for part in text.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
        if !path.as_bytes().ends_with(b"/") {
            path.push(b"/");
        }
        path.push(part);
    }
    if path.as_bytes().is_empty() {
        path.push(b"/");
    }
}

fn descriptor_link(fd: i32) -> PathBuffer {
    let mut link = PathBuffer::new();
    let mut digits = [0; 20];
    link.push(b"/proc/self/fd/").push(dlio_schemas::native::fields::decimal(fd as i64, &mut digits));
    link
}

/// The name of what a descriptor refers to, asked of the kernel: for descriptors nobody was seen opening.
pub fn of_descriptor(fd: i32) -> u32 {
    stack::with_room(|| ask_for_name(fd))
}

fn ask_for_name(fd: i32) -> u32 {
    let mut buffer = [0; crate::path_buffer::PATH_MAX];
    let text = sys::read_link(descriptor_link(fd).as_c_str(), &mut buffer);
    match kind_of(text) {
        Some(kind) => object(kind),
        None if text.is_empty() => names::NONE,
        None => intern_path(text.strip_suffix(b" (deleted)").unwrap_or(text)),
    }
}

/// The number of something that has no path.
pub fn object(kind: &[u8]) -> u32 {
    stack::with_room(|| names::intern(NameKind::Object, kind, names::hash(kind, 4 << 32)))
}

/// A kind, where a descriptor is no file: one name for all pipes, so that they can be counted together.
fn kind_of(link: &[u8]) -> Option<&'static [u8]> {
    const KINDS: &[(&[u8], &[u8])] = &[
        (b"pipe:", b"<pipe>"),
        (b"socket:", b"<socket>"),
        (b"/dev/pts/", b"<terminal>"),
        (b"/dev/tty", b"<terminal>"),
        (b"/memfd:", b"<memory>"),
        (b"anon_inode:[eventfd", b"<eventfd>"),
        (b"anon_inode:", b"<kernel object>"),
    ];
    KINDS.iter().find(|(start, _)| link.starts_with(start)).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(start: &[u8], text: &[u8]) -> Vec<u8> {
        let mut path = PathBuffer::new();
        path.push(start);
        append_clean(&mut path, text);
        path.as_bytes().to_vec()
    }

    #[test]
    fn needless_components_go_and_dots_that_matter_stay() {
        assert_eq!(clean(b"", b"//a/./b//c/"), b"/a/b/c");
        assert_eq!(clean(b"/data", b"./x"), b"/data/x");
        assert_eq!(clean(b"/", b"x"), b"/x");
        assert_eq!(clean(b"/data", b"../x"), b"/data/../x");
        assert_eq!(clean(b"", b"/"), b"/");
    }

    #[test]
    fn things_without_a_path_are_named_by_kind() {
        assert_eq!(kind_of(b"pipe:[123]"), Some(&b"<pipe>"[..]));
        assert_eq!(kind_of(b"/memfd:x (deleted)"), Some(&b"<memory>"[..]));
        assert_eq!(kind_of(b"/data/file"), None);
    }
}
