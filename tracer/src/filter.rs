//! Which files are recorded: patterns the user gave, and what is left out unless asked for.
//!
//! Asked once for each path, never for each call: the answer is remembered with the path's number.

/// Patterns over absolute paths.
#[derive(Default, Debug)]
pub struct Filter {
    include: Vec<Vec<u8>>,
    exclude: Vec<Vec<u8>>,
    /// The tracer's own folders.
    own: Vec<Vec<u8>>,
    /// Whether what a program is made of is recorded too.
    all: bool,
}

/// Folders of the kernel, not of a disk. What lies in /dev/shm is data.
const KERNEL: &[&str] = &["/proc/", "/sys/", "/dev/"];
const KERNEL_DATA: &[&str] = &["/dev/shm/", "/dev/hugepages/"];

/// Parts of paths that belong to a loader, an interpreter or its packages.
const PROGRAM_PARTS: &[&str] = &[
    "/lib/python",
    "/lib64/python",
    "/site-packages",
    "/dist-packages",
    "/__pycache__",
    "/pyvenv.cfg",
    "/pybuilddir.txt",
    "._pth",
    "/bin/python",
    "/perl5/",
    "/share/perl/",
    "/perl-base/",
    "/node_modules/",
    "/share/locale/",
    "/lib/locale/",
    "/share/zoneinfo/",
    "/gconv/",
    "/lib/ssl/",
    "/terminfo/",
];
const PROGRAM_STARTS: &[&str] = &["/etc/ld.so.", "/etc/ld-", "/etc/localtime", "/etc/locale"];

impl Filter {
    /// Lists are separated by colons; a relative pattern counts from `cwd`.
    pub fn new(include: &[u8], exclude: &[u8], cwd: &[u8], own: Vec<Vec<u8>>, all: bool) -> Filter {
        Filter { include: patterns(include, cwd), exclude: patterns(exclude, cwd), own, all }
    }

    pub fn leaves_out(&self, path: &[u8]) -> bool {
        let under = |folder: &Vec<u8>| path.strip_prefix(&folder[..]).is_some_and(|rest| rest.starts_with(b"/"));
        let matched = |patterns: &[Vec<u8>]| patterns.iter().any(|pattern| matches(pattern, path));
        if self.own.iter().any(under) || matched(&self.exclude) {
            return true;
        }
        if !self.include.is_empty() {
            return !matched(&self.include);
        }
        !self.all && is_program_part(path)
    }
}

fn patterns(list: &[u8], cwd: &[u8]) -> Vec<Vec<u8>> {
    let parts = list.split(|&byte| byte == b':').filter(|part| !part.is_empty());
    parts
        .map(|part| if part[0] == b'/' || part.starts_with(b"**") { part.to_vec() } else { [cwd, b"/", part].concat() })
        .collect()
}

fn is_program_part(path: &[u8]) -> bool {
    let starts = |list: &[&str]| list.iter().any(|start| path.starts_with(start.as_bytes()));
    let holds = |part: &&str| path.windows(part.len()).any(|window| window == part.as_bytes());
    (starts(KERNEL) && !starts(KERNEL_DATA))
        || starts(PROGRAM_STARTS)
        || is_shared_object(path)
        || PROGRAM_PARTS.iter().any(holds)
}

/// `libx.so` and `libx.so.6`.
fn is_shared_object(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name.ends_with(b".so") || name.windows(4).any(|window| window == b".so.")
}

/// `*` and `?` stay within a component, `**` crosses them; a pattern that names a folder takes what lies below it too.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match (pattern.first(), path.first()) {
        (None, None) => true,
        (None, Some(b'/')) => true,
        (None, Some(_)) => false,
        (Some(b'*'), _) if pattern.starts_with(b"**") => {
            let rest = pattern[2..].strip_prefix(b"/").unwrap_or(&pattern[2..]);
            (0..=path.len()).any(|skipped| matches(rest, &path[skipped..]))
        }
        (Some(b'*'), _) => {
            let component = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
            (0..=component).any(|skipped| matches(&pattern[1..], &path[skipped..]))
        }
        (Some(b'?'), Some(&byte)) if byte != b'/' => matches(&pattern[1..], &path[1..]),
        (Some(expected), Some(found)) if expected == found => matches(&pattern[1..], &path[1..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &str, exclude: &str) -> Filter {
        Filter::new(include.as_bytes(), exclude.as_bytes(), b"/home/u", vec![b"/home/u/trace".to_vec()], false)
    }

    #[test]
    fn patterns_match_as_a_shell_user_expects() {
        let cases = [
            ("/data/*.npz", "/data/a.npz", true),
            ("/data/*.npz", "/data/x/a.npz", false),
            ("/data/**", "/data/x/y/a.npz", true),
            ("/data/**/a.npz", "/data/a.npz", true),
            ("/data", "/data/x/a.npz", true),
            ("/data", "/database", false),
            ("/data/img_??", "/data/img_07", true),
            ("**/*.h5", "/a/b/c.h5", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), path.as_bytes()), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn relative_patterns_count_from_the_working_directory() {
        let filter = filter("data/**:other", "");
        assert!(!filter.leaves_out(b"/home/u/data/a"));
        assert!(!filter.leaves_out(b"/home/u/other/b"));
        assert!(filter.leaves_out(b"/data/a"));
    }

    #[test]
    fn what_a_program_is_made_of_is_left_out_unless_asked_for() {
        let filter = filter("", "");
        for path in
            ["/proc/self/maps", "/usr/lib/libc.so.6", "/x/libm.so", "/usr/lib/python3.11/json/__init__.py", "/dev/null"]
        {
            assert!(filter.leaves_out(path.as_bytes()), "{path}");
        }
        for path in ["/data/a.npz", "/dev/shm/x", "/etc/passwd", "/home/u/train.py", "/data/also.solid"] {
            assert!(!filter.leaves_out(path.as_bytes()), "{path}");
        }
        let all = Filter::new(b"", b"", b"/home/u", vec![], true);
        assert!(!all.leaves_out(b"/proc/self/maps"));
    }

    #[test]
    fn the_trace_itself_is_never_in_the_trace() {
        assert!(filter("/home/u/**", "").leaves_out(b"/home/u/trace/a.dlt"));
    }
}
