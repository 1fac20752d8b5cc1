//! The file filter: the user's patterns, and the files that are excluded by default.
//!
//! It runs once per path, not once per call: the result is cached with the path's number.

use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::kernel::hash;
use crate::kernel::path_buffer::{find_byte, last_slash};

/// Patterns for absolute paths.
#[derive(Default, Debug)]
pub struct Filter {
    include: Vec<Vec<u8>>,
    exclude: Vec<Vec<u8>>,
    /// The tracer's own directories.
    own: Vec<Vec<u8>>,
    /// `true` if the files of programs (libraries, packages) are recorded, too.
    all: bool,
    /// Hashes of directories in which only a file's own name matters.
    plain: [AtomicU64; PLAIN],
}

/// Number of cached plain directories: programs work in one after another.
const PLAIN: usize = 16;

/// Directories of the kernel, not of a disk. /dev/shm contains data, and the driver file of a GPU shows that one was
/// used.
const KERNEL: &[&str] = &["/proc/", "/sys/", "/dev/"];
const KERNEL_DATA: &[&str] = &["/dev/shm/", "/dev/hugepages/", "/dev/nvidia-uvm", "/dev/kfd"];

/// Starts of path components that belong to a loader, an interpreter or its packages, including the slash before
/// them. Shared objects are recognized separately.
const PROGRAM_PARTS: &[&str] = &[
    "/lib/python",
    "/lib64/python",
    "/site-packages",
    "/dist-packages",
    "/__pycache__",
    "/pyvenv.cfg",
    "/pybuilddir.txt",
    "/bin/python",
    "/perl5/",
    "/share/perl/",
    "/perl-base/",
    "/lib/ruby/",
    "/lib64/ruby/",
    "/x86_64-linux-gnu/ruby/",
    "/aarch64-linux-gnu/ruby/",
    "/lib/gems/",
    "/share/ruby",
    "/site_ruby/",
    "/vendor_ruby/",
    "/rubygems-integration/",
    "/share/gems/",
    "/share/gem/ruby/",
    "/vendor/bundle/",
    "/.gem/",
    "/.rbenv/versions/",
    "/.rvm/rubies/",
    "/bin/ruby",
    "/lib/jvm/",
    "/jre/lib/",
    "/share/java/",
    "/hsperfdata_",
    "/.hotspot",
    "/.java_pid",
    "/META-INF/services/",
    "/bin/java",
    "/node_modules/",
    "/share/nodejs/",
    "/lib/node/",
    "/package.json",
    "/bin/node",
    "/share/locale/",
    "/lib/locale/",
    "/share/zoneinfo/",
    "/gconv/",
    "/lib/ssl/",
    "/terminfo/",
];
const PROGRAM_STARTS: &[&str] = &[
    "/etc/ld.so.",
    "/etc/ld-",
    "/etc/localtime",
    "/etc/locale",
    "/etc/java-",
    "/var/lib/gems/",
    "/etc/ssl/openssl.cnf",
];

/// Compiled classes and their archives, and the files that configure Java's virtual machine and Python's path.
const PROGRAM_ENDINGS: &[&str] = &[".jar", ".class", ".jsa", ".jmod", "/jvm.cfg", "/lib/modules", "._pth"];

impl Filter {
    /// Creates a filter. Lists are separated by colons; relative patterns are relative to `cwd`.
    pub fn new(include: &[u8], exclude: &[u8], cwd: &[u8], own: Vec<Vec<u8>>, all: bool) -> Filter {
        Filter { include: patterns(include, cwd), exclude: patterns(exclude, cwd), own, all, ..Filter::default() }
    }

    pub fn leaves_out(&self, path: &[u8]) -> bool {
        let name = last_slash(path).unwrap_or(0);
        let folder = hash::of(&path[..name], 0) | 1;
        let place = &self.plain[(folder >> 32) as usize % PLAIN];
        if place.load(Relaxed) == folder {
            return names_program_part(&path[name..]) || ends_program_part(path, &path[name..]);
        }
        if self.is_plain(&path[..path.len().min(name + 1)]) {
            place.store(folder, Relaxed);
        }
        self.leaves_out_whole(path)
    }

    /// Returns `true` if only a file's own name matters for files directly in a directory, given with its trailing
    /// slash.
    #[cold]
    fn is_plain(&self, folder: &[u8]) -> bool {
        let starts_alike = |known: &&str, text: &[u8]| known.bytes().zip(text).all(|(a, b)| a == *b);
        let slashes = || (0..folder.len() - 1).filter(|at| folder[*at] == b'/');
        // A part may begin in the directory and continue in the name.
        let begins = |at: usize| {
            let text = &folder[at..];
            key_of(text).is_none_or(|key| has(&PART_BITS, key))
                && PROGRAM_PARTS.iter().any(|part| starts_alike(part, text))
        };
        let starts = || KERNEL.iter().chain(PROGRAM_STARTS).any(|start| starts_alike(start, folder));
        let is_odd = || self.is_own(folder) || starts() || slashes().any(begins);
        let has_patterns = self.all || !self.include.is_empty() || !self.exclude.is_empty();
        folder.len() > 1 && folder[0] == b'/' && !has_patterns && !is_odd()
    }

    /// Returns `true` below one of the tracer's directories.
    fn is_own(&self, path: &[u8]) -> bool {
        let under = |folder: &Vec<u8>| path.strip_prefix(&folder[..]).is_some_and(|rest| rest.starts_with(b"/"));
        self.own.iter().any(under)
    }

    fn leaves_out_whole(&self, path: &[u8]) -> bool {
        let matched = |patterns: &[Vec<u8>]| patterns.iter().any(|pattern| matches(pattern, path));
        if self.is_own(path) || matched(&self.exclude) {
            return true;
        }
        if !self.include.is_empty() {
            return !matched(&self.include);
        }
        // A URL is data, whatever its extension.
        !self.all && path.starts_with(b"/") && is_program_part(path)
    }
}

/// Returns a list of patterns that means the same in every working directory. If the directory's name contains a
/// colon, the list is unchanged: the result would look like two patterns.
pub fn absolute(list: &[u8], cwd: &[u8]) -> Vec<u8> {
    if cwd.contains(&b':') { list.to_vec() } else { patterns(list, cwd).join(&b':') }
}

fn patterns(list: &[u8], cwd: &[u8]) -> Vec<Vec<u8>> {
    let parts = list.split(|&byte| byte == b':').filter(|part| !part.is_empty());
    parts.flat_map(|part| alternatives(part.to_vec())).map(|part| normalize_pattern(&part, cwd)).collect()
}

/// Most patterns per list: above that, braces are taken literally.
const ALTERNATIVES_MAX: usize = 1000;

/// Expands braces: `{a,b}.txt` becomes `a.txt` and `b.txt`. Braces without a comma are literal.
fn alternatives(pattern: Vec<u8>) -> Vec<Vec<u8>> {
    let (mut open, mut done) = (vec![pattern], Vec::new());
    while let Some(pattern) = open.pop() {
        match without_braces(&pattern).filter(|_| open.len() + done.len() < ALTERNATIVES_MAX) {
            Some(patterns) => open.extend(patterns.into_iter().rev()),
            None => done.push(pattern),
        }
    }
    done
}

/// Expands the first braces with a comma, if there are any.
fn without_braces(pattern: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut opens = (0..pattern.len()).filter(|at| pattern[*at] == b'{');
    opens.find_map(|open| {
        let (mut depth, mut start, mut words) = (0, open + 1, Vec::new());
        for at in open + 1..pattern.len() {
            match pattern[at] {
                b'{' => depth += 1,
                b'}' if depth > 0 => depth -= 1,
                b'}' => {
                    words.push(&pattern[start..at]);
                    let (before, behind) = (&pattern[..open], &pattern[at + 1..]);
                    let whole = |word: &[u8]| [before, word, behind].concat();
                    return (words.len() > 1).then(|| words.into_iter().map(whole).collect());
                }
                b',' if depth == 0 => {
                    words.push(&pattern[start..at]);
                    start = at + 1;
                }
                _ => {}
            }
        }
        None
    })
}

/// Normalizes a pattern to the form of file names: absolute and without removable components. A pattern that begins
/// with `**` matches at any depth.
fn normalize_pattern(pattern: &[u8], cwd: &[u8]) -> Vec<u8> {
    let parts_of = |text| <[u8]>::split(text, |&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let is_anywhere = pattern.starts_with(b"**");
    let mut parts: Vec<&[u8]> = Vec::new();
    if !is_anywhere && pattern[0] != b'/' {
        parts.extend(parts_of(cwd));
    }
    for part in parts_of(pattern) {
        match parts.last() {
            _ if part != b".." => parts.push(part),
            Some(above) if above.iter().any(|byte| b"*?[".contains(byte)) || *above == b".." => parts.push(part),
            Some(_) => drop(parts.pop()),
            // The parent of the root is the root.
            None => {}
        }
    }
    match parts.as_slice() {
        [] => b"/**".to_vec(),
        parts if is_anywhere => parts.join(&b'/'),
        parts => [b"/", &parts.join(&b'/')[..]].concat(),
    }
}

/// Bytes of a part after its slash, or of a suffix, which are enough to exclude all parts at once for most paths.
const KEY: usize = 4;

/// Keys of [`PROGRAM_PARTS`] and of [`PROGRAM_ENDINGS`].
const PART_KEYS: [u32; PROGRAM_PARTS.len()] = keys(PROGRAM_PARTS, false);
const ENDING_KEYS: [u32; PROGRAM_ENDINGS.len()] = keys(PROGRAM_ENDINGS, true);

const fn keys<const N: usize>(texts: &[&str], of_ends: bool) -> [u32; N] {
    let (mut keys, mut i) = ([0; N], 0);
    while i < N {
        let text = texts[i].as_bytes();
        // A directory is also checked without its trailing slash.
        assert!(of_ends || text[0] == b'/' && text.len() > KEY + 1);
        let at = if of_ends { text.len() - KEY } else { 1 };
        keys[i] = u32::from_le_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
        i += 1;
    }
    keys
}

/// A bitmap of the parts' keys: four in a hundred other components share a bit with one.
const PART_BITS: [u64; BITS / 64] = bits(&PART_KEYS);
const ENDING_BITS: [u64; BITS / 64] = bits(&ENDING_KEYS);
const BITS: usize = 1024;

const fn bits(keys: &[u32]) -> [u64; BITS / 64] {
    let (mut bits, mut i) = ([0; BITS / 64], 0);
    while i < keys.len() {
        let bit = bit_of(keys[i]);
        bits[bit / 64] |= 1 << (bit % 64);
        i += 1;
    }
    bits
}

#[inline(always)]
fn has(bits: &[u64; BITS / 64], key: u32) -> bool {
    let bit = bit_of(key);
    bits[bit / 64] >> (bit % 64) & 1 != 0
}

const fn bit_of(key: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b1) >> (u32::BITS - BITS.ilog2())) as usize
}

fn is_program_part(path: &[u8]) -> bool {
    let starts = |list: &[&str]| list.iter().any(|start| path.starts_with(start.as_bytes()));
    match path.get(1) {
        Some(b'p' | b's' | b'd') if starts(KERNEL) && !starts(KERNEL_DATA) => true,
        Some(b'e') if starts(PROGRAM_STARTS) => true,
        _ => holds_program_part(path),
    }
}

/// Scans the path once. This runs for every new file in another directory and is most of a filter's cost.
fn holds_program_part(path: &[u8]) -> bool {
    let mut name = path;
    let is_part = |at: usize| {
        name = &path[at..];
        names_program_part(name)
    };
    find_byte(path, b'/', is_part) || ends_program_part(path, name)
}

/// Returns `true` if a part begins at a slash.
#[inline(always)]
fn names_program_part(name: &[u8]) -> bool {
    key_of(name).is_some_and(|key| begins_program_part(name, key))
}

/// Returns the bytes after the slash.
#[inline(always)]
fn key_of(name: &[u8]) -> Option<u32> {
    let key = name.get(1..).and_then(|name| name.first_chunk::<KEY>());
    key.map(|key| u32::from_le_bytes(*key))
}

/// Returns `true` if a path has the suffix of a program's file; `name` is its last component.
#[inline(always)]
fn ends_program_part(path: &[u8], name: &[u8]) -> bool {
    let Some(key) = path.last_chunk::<KEY>().map(|key| u32::from_le_bytes(*key)) else { return false };
    let ends = |(known, ending): (&u32, &&str)| *known == key && path.ends_with(ending.as_bytes());
    is_shared_object(name) || has(&ENDING_BITS, key) && ENDING_KEYS.iter().zip(PROGRAM_ENDINGS).any(ends)
}

/// Returns `true` if a part begins here.
#[inline(always)]
fn begins_program_part(name: &[u8], key: u32) -> bool {
    has(&PART_BITS, key) && begins_one_of(name, key)
}

#[inline(never)]
fn begins_one_of(name: &[u8], key: u32) -> bool {
    // The directory itself counts as well as everything below it.
    let is_folder = |part: &str| part.strip_suffix('/').is_some_and(|folder| folder.as_bytes() == name);
    let begins = |(known, part): (&u32, &&str)| *known == key && (name.starts_with(part.as_bytes()) || is_folder(part));
    // Compares with all keys at once: a key that only shares a bit is rejected in a few instructions.
    let is_known = PART_KEYS.iter().fold(false, |found, known| found | (*known == key));
    is_known && PART_KEYS.iter().zip(PROGRAM_PARTS).any(begins)
}

/// Recognizes `libx.so` and `libx.so.6`.
fn is_shared_object(name: &[u8]) -> bool {
    find_byte(name, b'.', |at| match &name[at..] {
        [b'.', b's', b'o', rest @ ..] => rest.first().is_none_or(|byte| *byte == b'.'),
        _ => false,
    })
}

/// Matches a path against a pattern. `*`, `?` and `[a-z]` match within a component, `**` crosses components, and
/// `**/` matches any number of whole components. A pattern that names a directory also matches everything below it.
/// Only the last star of each kind is retried: the choices of earlier ones cannot make a difference. So
/// matching needs no recursion and is fast for every pattern.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let (mut next, mut at) = (0, 0);
    // The position after the star, and the path position where the rest was last tried.
    let mut star: Option<(usize, usize)> = None;
    let mut stars: Option<(usize, usize, bool)> = None;
    loop {
        let rest = &pattern[next..];
        if rest.starts_with(b"**") {
            let whole = rest.get(2) == Some(&b'/') && (next == 0 || pattern[next - 1] == b'/');
            next += if whole { 3 } else { 2 };
            (star, stars) = (None, Some((next, at, whole)));
            continue;
        }
        if rest.first() == Some(&b'*') {
            next += 1;
            star = Some((next, at));
            continue;
        }
        // The number of pattern bytes that match this byte.
        let taken = match (rest.first(), path.get(at)) {
            (None, None | Some(b'/')) => return true,
            (Some(b'?'), Some(byte)) => (*byte != b'/').then_some(1),
            (Some(b'['), Some(byte)) if let Some(class) = Class::first_of(rest) => {
                class.has(*byte).then_some(class.width)
            }
            (Some(expected), Some(found)) => (expected == found).then_some(1),
            _ => None,
        };
        if let Some(taken) = taken {
            (next, at) = (next + taken, at + 1);
        } else if let Some((behind, tried)) =
            star.filter(|(_, tried)| path.get(*tried).is_some_and(|&byte| byte != b'/'))
        {
            (next, at) = (behind, tried + 1);
            star = Some((behind, at));
        } else {
            let Some((behind, tried, whole)) = stars else { return false };
            let component = || path[tried..].iter().position(|&byte| byte == b'/').map(|slash| tried + slash + 1);
            let Some(later) = (if whole { component() } else { (tried < path.len()).then_some(tried + 1) }) else {
                return false;
            };
            (next, at) = (behind, later);
            (star, stars) = (None, Some((behind, at, whole)));
        }
    }
}

/// A set of bytes: `[abc]`, `[a-z]`, `[!0-9]`.
struct Class<'a> {
    ranges: &'a [u8],
    is_without: bool,
    /// Length in the pattern.
    width: usize,
}

impl Class<'_> {
    /// Parses a set; `None` if the bracket is literal, because it is not closed or a slash comes first.
    fn first_of(pattern: &[u8]) -> Option<Class<'_>> {
        let is_without = matches!(pattern.get(1), Some(b'!' | b'^'));
        let start = if is_without { 2 } else { 1 };
        // A closing bracket in first position is a member of the set.
        let length = 1 + pattern.get(start + 1..)?.iter().position(|&byte| byte == b']')?;
        let ranges = &pattern[start..start + length];
        (!ranges.contains(&b'/')).then_some(Class { ranges, is_without, width: start + length + 1 })
    }

    fn has(&self, byte: u8) -> bool {
        let mut rest = self.ranges;
        let mut is_in = false;
        while let [first, behind @ ..] = rest {
            (is_in, rest) = match behind {
                [b'-', last, behind @ ..] => (is_in || (*first..=*last).contains(&byte), behind),
                _ => (is_in || *first == byte, behind),
            };
        }
        byte != b'/' && is_in != self.is_without
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &str, exclude: &str) -> Filter {
        Filter::new(include.as_bytes(), exclude.as_bytes(), b"/home/u", vec![b"/home/u/trace".to_vec()], false)
    }

    #[test]
    fn absolute_list_means_the_same_everywhere() {
        let cases = [
            ("data/**:/scratch:**/*.h5", "/home/u", "/home/u/data/**:/scratch:**/*.h5"),
            ("", "/home/u", ""),
            ("a::b", "/", "/a:/b"),
            ("./a/*.txt:../b/:/c//d/./e", "/home/u", "/home/u/a/*.txt:/home/b:/c/d/e"),
            ("../../../a:x*/../b:**/../c", "/home/u", "/a:/home/u/x*/../b:**/../c"),
            (".:/", "/", "/**:/**"),
            ("{a,b{1,2},}.txt:{x}", "/d", "/d/a.txt:/d/b1.txt:/d/b2.txt:/d/.txt:/d/{x}"),
            ("data/**", "/home/a:b", "data/**"),
        ];
        for (list, cwd, expected) in cases {
            assert_eq!(absolute(list.as_bytes(), cwd.as_bytes()), expected.as_bytes(), "{list} from {cwd}");
        }
    }

    #[test]
    fn patterns_match_as_a_shell_user_expects() {
        let cases = [
            ("/data/*.npz", "/data/a.npz", true),
            ("/data/*.npz", "/data/x/a.npz", false),
            ("/data/**", "/data/x/y/a.npz", true),
            ("/data/**/a.npz", "/data/a.npz", true),
            ("/data/**/a.npz", "/data/x/y/a.npz", true),
            ("/data/**/a.npz", "/data/xa.npz", false),
            ("/data/x**/a", "/data/x1/2/a", true),
            ("/data", "/data/x/a.npz", true),
            ("/data", "/database", false),
            ("/data/img_??", "/data/img_07", true),
            ("**/*.h5", "/a/b/c.h5", true),
            ("/d/[ab].txt", "/d/b.txt", true),
            ("/d/[ab].txt", "/d/c.txt", false),
            ("/d/x[0-9][!0-4]", "/d/x05", true),
            ("/d/x[0-9][!0-4]", "/d/x04", false),
            ("/d/*[^a]", "/d/aab", true),
            ("/d[!a]b", "/d/b", false),
            ("/d/[]x]", "/d/]", true),
            ("/d/[-x]", "/d/-", true),
            ("/d/[ab", "/d/[ab", true),
            ("/d/[a/b]", "/d/[a/b]", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), path.as_bytes()), expected, "{pattern} {path}");
        }
    }

    /// Matches by trying every possibility.
    fn means(pattern: &[u8], path: &[u8], begins: bool) -> bool {
        let on = |used: usize, taken: usize| {
            means(&pattern[used..], &path[taken..], path.get(taken.wrapping_sub(1)) == Some(&b'/'))
        };
        match (pattern, path) {
            ([], []) | ([], [b'/', ..]) => true,
            ([b'*', b'*', b'/', ..], _) if begins => {
                let starts = |at: &usize| *at == 0 || path[at - 1] == b'/';
                (0..=path.len()).filter(starts).any(|at| means(&pattern[3..], &path[at..], true))
            }
            ([b'*', b'*', ..], _) => (0..=path.len()).any(|at| means(&pattern[2..], &path[at..], false)),
            ([b'*', ..], _) => {
                let component = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
                (0..=component).any(|at| means(&pattern[1..], &path[at..], false))
            }
            ([b'?', ..], [byte, ..]) if *byte != b'/' => on(1, 1),
            ([b'[', ..], [byte, ..]) if let Some(class) = Class::first_of(pattern) => {
                class.has(*byte) && on(class.width, 1)
            }
            ([expected, ..], [found, ..]) if expected == found => on(1, 1),
            _ => false,
        }
    }

    #[test]
    fn patterns_match_like_an_exhaustive_search() {
        let mut state = 1u64;
        let mut word = |letters: &[u8], longest: u64| -> Vec<u8> {
            let mut random = |below: u64| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) % below
            };
            (0..random(longest)).map(|_| letters[random(letters.len() as u64) as usize]).collect()
        };
        let mut matched = 0;
        for _ in 0..100_000 {
            let (pattern, path) = (word(b"/a*?*b/[]!", 11), word(b"/ab/", 10));
            let expected = means(&pattern, &path, true);
            let shown = || format!("{} {}", String::from_utf8_lossy(&pattern), String::from_utf8_lossy(&path));
            assert_eq!(matches(&pattern, &path), expected, "{}", shown());
            matched += u32::from(expected);
        }
        assert!(matched > 1000, "{matched} of them matched");
    }

    #[test]
    fn every_pattern_matches_fast() {
        let path = [b'a'; 4095];
        for part in ["*a", "**a", "*a**a"] {
            assert!(!matches((part.repeat(200) + "b").as_bytes(), &path));
        }
    }

    #[test]
    fn relative_patterns_use_the_working_directory() {
        let filter = filter("data/**:other", "");
        assert!(!filter.leaves_out(b"/home/u/data/a"));
        assert!(!filter.leaves_out(b"/home/u/other/b"));
        assert!(filter.leaves_out(b"/data/a"));
    }

    #[test]
    fn program_files_are_excluded_by_default() {
        let filter = filter("", "");
        for path in [
            "/proc/self/maps",
            "/usr/lib/libc.so.6",
            "/x/libm.so",
            "/usr/lib/python3.11/json/__init__.py",
            "/dev/null",
            "/x/python311._pth",
            "/usr/share/locale/de/x",
        ] {
            assert!(filter.leaves_out(path.as_bytes()), "{path}");
        }
        for path in [
            "/data/a.npz",
            "/dev/shm/x",
            "/etc/passwd",
            "/home/u/train.py",
            "/data/also.solid",
            "/data/so",
            "/usr/share/x",
            "/",
        ] {
            assert!(!filter.leaves_out(path.as_bytes()), "{path}");
        }
        let all = Filter::new(b"", b"", b"/home/u", vec![], true);
        assert!(!all.leaves_out(b"/proc/self/maps"));
    }

    #[test]
    fn each_program_part_is_found_anywhere() {
        let filter = filter("", "");
        let left_out = |path: String| filter.leaves_out(path.as_bytes());
        for part in PROGRAM_PARTS {
            assert!(left_out(format!("/x{part}")) && left_out(format!("/data/deep/down{part}x/y.bin")), "{part}");
            let (folder, other) = (part.trim_end_matches('/'), part.replacen('/', "/_", 1));
            assert!(left_out(format!("/data{folder}")) && !left_out(format!("/data{other}x")), "{part}");
            assert!(!left_out(format!("/data{}", &part[..part.len() - 2])), "{part}");
        }
        for ending in PROGRAM_ENDINGS {
            assert!(left_out(format!("/data/x{ending}")) && !left_out(format!("/data/x{ending}_")), "{ending}");
        }
        for short in ["/", "/a", "/ab", "/abc", "/a/b/c/d", "//", "/s/l", "/lib"] {
            assert!(!left_out(short.into()), "{short}");
        }
    }

    #[test]
    fn cached_directory_does_not_change_the_result() {
        let (mut state, mut left_out) = (1u64, 0);
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let others = [
            "/",
            "/data",
            "/home/u/trace",
            "/home/u/trac",
            "/lib",
            "/pyth",
            "on3",
            "/modules",
            "/x.so",
            "/a.jar",
            "/dev",
        ];
        let pieces = [PROGRAM_PARTS, PROGRAM_STARTS, PROGRAM_ENDINGS, KERNEL, KERNEL_DATA, &others].concat();
        let filter = filter("", "");
        for _ in 0..200_000 {
            let mut path = String::from("/");
            for _ in 0..1 + random(4) {
                let piece = pieces[random(pieces.len())];
                let [from, to] = [random(piece.len()), piece.len() - random(3).min(piece.len() - 1)];
                path.push_str(&piece[if random(2) == 0 { 0 } else { from.min(to) }..to]);
            }
            let expected = filter.leaves_out_whole(path.as_bytes());
            assert_eq!(filter.leaves_out(path.as_bytes()), expected, "{path}");
            assert_eq!(
                filter.leaves_out(format!("{path}x").as_bytes()),
                filter.leaves_out_whole(format!("{path}x").as_bytes()),
                "{path}x"
            );
            left_out += u32::from(expected);
        }
        assert!((20_000..180_000).contains(&left_out), "{left_out} of them left out");
    }

    #[test]
    fn trace_files_are_always_excluded() {
        assert!(filter("/home/u/**", "").leaves_out(b"/home/u/trace/a.dlt"));
    }
}
