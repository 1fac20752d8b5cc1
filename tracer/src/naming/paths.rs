//! From a path that a program passes to the name in the trace: absolute, or a kind if there is no path.
//!
//! A path is looked up by the hash of its text and of the directory it is relative to, so opening the same file again
//! costs one hash. A text seen for the first time is made absolute. That takes no system call if the directory is
//! known (see [`crate::known::folders`]), and no copy if the path is absolute already. `..` and the component before
//! it are removed if that component is not a link: the kernel's own names for directories contain no links, and other
//! components are checked with the kernel.

use std::ffi::{CStr, c_char};

use crate::kernel::path_buffer::{PATH_MAX, PathBuffer, find_byte, zeros};
use crate::kernel::{hash, sys};
use crate::known::{folders, name_cache, number};
use crate::naming::descriptor_files;
use crate::naming::path_numbers::{ABSOLUTE, UNKNOWN_FOLDER, intern_path, is_of_kernel, new_name};
use crate::thread::stack;

/// Longest path that is assembled on the caller's stack; longer paths take the slow path.
const SHORT: usize = 512;

/// Notes that the working directory has changed to an unknown one.
pub fn moved() {
    folders::moved_to(-1);
}

/// Returns the name of a path relative to the working directory.
///
/// # Safety
/// `path` is null or a string as the C library accepts it.
#[inline]
pub unsafe fn of(path: *const c_char) -> u32 {
    // SAFETY: by the contract above.
    unsafe { of_at(libc::AT_FDCWD, path) }
}

/// Returns the name of a path relative to a directory's descriptor.
///
/// # Safety
/// `path` is null or a string as the C library accepts it.
#[inline]
pub unsafe fn of_at(dir: i32, path: *const c_char) -> u32 {
    if path.is_null() || leads_nowhere(path) {
        return number::NONE;
    }
    // SAFETY: by the contract above.
    let text = unsafe { CStr::from_ptr(path) }.to_bytes();
    if text.is_empty() {
        return if dir >= 0 { descriptor_files::file(dir) } else { number::NONE };
    }
    if text[0] == b'/' {
        let hash = hash::of(text, ABSOLUTE);
        return name_cache::find(hash).unwrap_or_else(|| new_absolute(text, hash));
    }
    let folder = folders::known(dir);
    let hash = hash::of(text, folder);
    match name_cache::find(hash) {
        Some(id) if folder != number::UNKNOWN => id,
        _ => new_relative(dir, text),
    }
}

/// Returns `true` if the call has just failed because the address cannot be read. errno may be older, so the kernel
/// is queried, too.
#[inline(always)]
pub fn leads_nowhere(path: *const c_char) -> bool {
    // SAFETY: the address of this thread's errno is always valid.
    unsafe { *libc::__errno_location() == libc::EFAULT && !sys::is_readable(path.cast()) }
}

/// Returns `true` if a path can be read; for use before the kernel has read it.
pub fn is_readable(path: *const c_char) -> bool {
    !path.is_null() && sys::is_readable(path.cast())
}

#[inline(never)]
fn new_absolute(text: &[u8], hash: u64) -> u32 {
    match is_clean(&text[1..]) && !is_of_kernel(text) {
        true => new_name(text, hash),
        false => stack::with_stack_space(|| new_spelling(libc::AT_FDCWD, text)),
    }
}

#[inline(never)]
fn new_relative(dir: i32, text: &[u8]) -> u32 {
    let folder = folders::known(dir);
    if let Some(above) = folders::path(folder)
        && is_clean(text)
        && folders::LENGTH_MAX + 1 + text.len() <= SHORT
    {
        let mut whole = [0; SHORT];
        let mut length = 0;
        let slash: &[u8] = if above.as_bytes() == b"/" { b"" } else { b"/" };
        for part in [above.as_bytes(), slash, text] {
            whole[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        if !is_of_kernel(&whole[..length]) {
            return new_name(&whole[..length], hash::of(text, folder));
        }
    }
    stack::with_stack_space(|| new_spelling(dir, text))
}

/// Returns `true` if a path, starting after its leading slash, has no component to remove. Most paths have no
/// component that begins with a dot; they are scanned eight bytes at a time.
fn is_clean(text: &[u8]) -> bool {
    const SLASHES: u64 = u64::from_ne_bytes([b'/'; 8]);
    const DOTS: u64 = u64::from_ne_bytes([b'.'; 8]);
    // The byte before the first one counts as a slash.
    let (mut after_slash, mut is_odd) = (0x80, 0);
    let (words, rest) = text.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        let slashes = zeros(word ^ SLASHES);
        let begins = slashes << 8 | after_slash;
        is_odd |= begins & (slashes | zeros(word ^ DOTS));
        after_slash = slashes >> 56;
    }
    let last = rest.iter().rfold(0, |word, byte| word << 8 | *byte as u64);
    let slashes = zeros(last ^ SLASHES);
    let begins = slashes << 8 | after_slash;
    // The end of the path counts as a byte that must not follow a slash.
    let end = 0x80 << (8 * rest.len());
    is_odd |= begins & (slashes | zeros(last ^ DOTS) | end);
    is_odd == 0 || is_clean_in_parts(text)
}

/// Checks like [`is_clean`], one component at a time.
#[inline(never)]
fn is_clean_in_parts(text: &[u8]) -> bool {
    let may_go = |start: usize, end: usize| matches!(&text[start..end], b"" | b"." | b"..");
    let mut start = 0;
    let ends = |end: usize| {
        let goes = may_go(start, end);
        start = end + 1;
        goes
    };
    !find_byte(text, b'/', ends) && !may_go(start, text.len())
}

#[cold]
fn new_spelling(dir: i32, text: &[u8]) -> u32 {
    let mut path = PathBuffer::new();
    let folder = if text[0] == b'/' { ABSOLUTE } else { push_folder(dir, &mut path) };
    if text[0] != b'/' && path.as_bytes().is_empty() {
        path.push(UNKNOWN_FOLDER);
    }
    let above = path.as_bytes().len();
    let Some(named) = append_clean(&mut path, text) else {
        path.clear();
        path.push(UNKNOWN_FOLDER).push(b"/");
        // The end of a name is the most informative part.
        let room = PATH_MAX - 1 - path.as_bytes().len();
        path.push(&text[text.len().saturating_sub(room)..]);
        let is_known = text[0] == b'/' || folder != number::UNKNOWN;
        return if is_known { new_name(path.as_bytes(), hash::of(text, folder)) } else { intern_path(path.as_bytes()) };
    };
    if let Some(number) = path.as_bytes().strip_prefix(b"/dev/fd/").or(path.as_bytes().strip_prefix(b"/proc/self/fd/"))
    {
        return parse(number).map_or(number::NONE, descriptor_files::file);
    }
    if text[0] != b'/' && folder == number::UNKNOWN {
        return intern_path(path.as_bytes());
    }
    // This file may already be cached under a cleaner text: the part below its directory, if the path is still below
    // it.
    let whole = path.as_bytes();
    let below = whole.get(above..).map_or(&b""[..], |below| below.strip_prefix(b"/").unwrap_or(below));
    let is_below = above > 0 && named == above && !below.is_empty();
    let (better, seed) = if is_below { (below, folder) } else { (whole, ABSOLUTE) };
    let hash = hash::of(better, seed);
    let id = name_cache::find(hash).unwrap_or_else(|| new_name(whole, hash));
    if better != text && id != number::NONE && !whole.starts_with(b"/dev/std") {
        name_cache::remember(hash::of(text, folder), id);
    }
    id
}

fn parse(number: &[u8]) -> Option<i32> {
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Appends the path of the directory that a relative path starts from, and returns its hash.
fn push_folder(dir: i32, into: &mut PathBuffer) -> u64 {
    let hash = folders::known(dir);
    match folders::path(hash) {
        Some(path) => {
            into.push(path.as_bytes());
            hash
        }
        None => folders::query(dir, into),
    }
}

/// Appends a path without its empty and `.` components, and without `..` if its target is known. Returns the length
/// of the existing path that is unchanged; `None` if the result is longer than a path can be.
fn append_clean(path: &mut PathBuffer, text: &[u8]) -> Option<usize> {
    // The kernel's name for a directory, in which no component is a link.
    let mut named = path.as_bytes().len();
    for part in text.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
        if part == b".." && leads_above(path, named) {
            // Including the slash before it.
            path.truncate((path.as_bytes().len() - path.file_name().len()).saturating_sub(1));
            named = named.min(path.as_bytes().len());
            continue;
        }
        if !path.as_bytes().ends_with(b"/") {
            path.push(b"/");
        }
        if path.as_bytes().len() + part.len() >= PATH_MAX {
            return None;
        }
        path.push(part);
    }
    if path.as_bytes().is_empty() {
        path.push(b"/");
    }
    Some(named)
}

/// Returns `true` if `..` after a path resolves to the parent of its last component. The parent of the root is the
/// root.
fn leads_above(path: &PathBuffer, named: usize) -> bool {
    let is_folder = || sys::status_at(path.as_c_str()).is_some_and(|it| it.is_folder);
    match path.as_bytes() {
        b"" | b"/" => true,
        whole if whole.starts_with(UNKNOWN_FOLDER) => false,
        whole => whole.len() <= named || path.file_name() != b".." && is_folder(),
    }
}

/// Notes that a path was opened. A directory that was not reached through a link is known from now on, if its parent
/// is.
///
/// # Safety
/// If the open succeeded, `path` was just opened as `fd`.
#[inline(always)]
pub unsafe fn opened(dir: i32, path: *const c_char, flags: i32, fd: i32) {
    const NO_LINK: i32 = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    if flags & NO_LINK == NO_LINK && fd >= 0 {
        // SAFETY: the kernel has read it.
        folders::opened_below(dir, unsafe { CStr::from_ptr(path) }.to_bytes(), fd);
    }
}

/// Notes a rename, which failed if `ret` is not zero.
///
/// # Safety
/// `path` is the old name, as the C library accepts it.
pub unsafe fn renamed(path: *const c_char, ret: i32) {
    if ret == 0 {
        // SAFETY: the kernel has read it.
        folders::renamed(unsafe { CStr::from_ptr(path) }.to_bytes());
    }
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
    fn needless_path_components_are_removed() {
        assert_eq!(clean(b"", b"//a/./b//c/"), b"/a/b/c");
        assert_eq!(clean(b"/data", b"./x"), b"/data/x");
        assert_eq!(clean(b"/", b"x"), b"/x");
        assert_eq!(clean(b"", b"/"), b"/");
        // A path named by the kernel needs no check, nor does the root.
        assert_eq!(clean(b"/not/there", b"../x"), b"/not/x");
        assert_eq!(clean(b"/not/there", b"../../../x"), b"/x");
        assert_eq!(clean(b"/", b"../x"), b"/x");
        assert_eq!(clean(b"", b"/../../x"), b"/x");
        assert_eq!(clean(b"/not/there", b"a/../x"), b"/not/there/a/../x");
        assert_eq!(clean(b"/not/there", b"a/../../x"), b"/not/there/a/../../x");
        assert_eq!(clean(b"<unknown folder>", b"../x"), b"<unknown folder>/../x");
    }

    #[test]
    fn dots_after_a_link_are_kept() {
        let folder = std::env::temp_dir().canonicalize().unwrap().join(format!("dlio-paths-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("far/deep")).unwrap();
        std::os::unix::fs::symlink("far/deep", folder.join("link")).unwrap();
        let whole = |text: &str| folder.join(text).into_os_string().into_encoded_bytes();
        assert_eq!(clean(b"", &whole("far/deep/../x")), whole("far/x"));
        assert_eq!(clean(b"", &whole("far/deep/../../x")), whole("x"));
        assert_eq!(clean(b"", &whole("link/../x")), whole("link/../x"));
        assert_eq!(clean(b"", &whole("far/../link/../../x")), whole("link/../../x"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_path_is_clean_if_cleaning_changes_nothing() {
        for text in ["a", "a/b", "..", ".a", "a./b", "...", ".../x", "", ".", "a/", "a//b", "./a", "a/.", "a/./b"] {
            let cleaned = clean(b"", text.as_bytes());
            assert_eq!(
                is_clean(text.as_bytes()),
                cleaned.get(1..) == Some(text.as_bytes()) && !text.is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn fast_and_slow_checks_agree() {
        let mut state = 1u64;
        for length in 0..20_000 {
            let text: Vec<u8> = (0..length % 27)
                .map(|_| {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    b"abcdefghijklmnop./"[(state >> 33) as usize % 18]
                })
                .collect();
            assert_eq!(is_clean(&text), is_clean_in_parts(&text), "{}", String::from_utf8_lossy(&text));
        }
    }
}
