//! Files of a process's descriptors, positions in them, and its working directory.
//!
//! A descriptor whose opening was not seen is looked up in /proc at its first use. Copies of a descriptor share its
//! position, also in a forked child.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use dlio_schemas::native::objects::Name;
use dlio_schemas::record::POS_UNKNOWN;

/// An open file description.
pub struct Description {
    /// An absolute path, or the name of an object in angle brackets.
    pub name: Rc<[u8]>,
    position: Cell<i64>,
    is_appending: Cell<bool>,
}

impl Description {
    pub fn new(name: Rc<[u8]>, position: i64, flags: i32) -> Rc<Description> {
        let position = if name.starts_with(b"<") { POS_UNKNOWN } else { position };
        let is_appending = flags & libc::O_APPEND != 0;
        Rc::new(Description { name, position: Cell::new(position), is_appending: Cell::new(is_appending) })
    }

    /// Returns the position at which a transfer of `moved` bytes started, and advances it.
    pub fn advance(&self, moved: i64, is_write: bool) -> i64 {
        let position = self.position.get();
        if is_write && self.is_appending.get() {
            // The kernel chose the end of the file.
            self.position.set(POS_UNKNOWN);
            return POS_UNKNOWN;
        }
        if position != POS_UNKNOWN && moved > 0 {
            self.position.set(position + moved);
        }
        position
    }

    pub fn set_position(&self, position: i64) {
        if !self.name.starts_with(b"<") {
            self.position.set(position);
        }
    }

    pub fn set_flags(&self, flags: i32) {
        self.is_appending.set(flags & libc::O_APPEND != 0);
    }
}

/// The descriptors of a process.
#[derive(Clone, Default)]
pub struct Descriptors {
    open: HashMap<i32, Rc<Description>>,
    working_dir: Option<Rc<[u8]>>,
}

impl Descriptors {
    /// Returns the file of a descriptor; `None` if it is not open.
    pub fn get(&mut self, pid: i32, fd: i32) -> Option<Rc<Description>> {
        if let Some(known) = self.open.get(&fd) {
            return Some(known.clone());
        }
        let found = look_up(pid, fd)?;
        self.open.insert(fd, found.clone());
        Some(found)
    }

    pub fn set(&mut self, fd: i32, description: Rc<Description>) {
        self.open.insert(fd, description);
    }

    pub fn close(&mut self, fd: i32) -> Option<Rc<Description>> {
        self.open.remove(&fd)
    }

    pub fn close_range(&mut self, first: i64, last: i64) {
        self.open.retain(|fd, _| !(first..=last).contains(&(*fd as i64)));
    }

    /// Forgets the working directory, which the process has changed.
    pub fn forget_working_dir(&mut self) {
        self.working_dir = None;
    }

    /// Returns the absolute form of a path that is relative to a directory's descriptor or the working directory.
    pub fn absolute(&mut self, pid: i32, dir: i32, path: &[u8]) -> Rc<[u8]> {
        if path.starts_with(b"/") {
            return normal(b"", path);
        }
        let start = match dir {
            libc::AT_FDCWD => self.working_dir.get_or_insert_with(|| link(pid, "cwd").into()).clone(),
            fd => self.get(pid, fd).map_or_else(|| Rc::from(&b""[..]), |folder| folder.name.clone()),
        };
        normal(&start, path)
    }
}

/// Joins paths without empty components and dots. Components `..` after a link may lead elsewhere, so they are kept.
fn normal(start: &[u8], path: &[u8]) -> Rc<[u8]> {
    let parts = start.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/'));
    let kept: Vec<&[u8]> = parts.filter(|part| !matches!(*part, b"" | b".")).collect();
    [b"/", &kept.join(&b'/')[..]].concat().into()
}

fn link(pid: i32, name: &str) -> Vec<u8> {
    fs::read_link(format!("/proc/{pid}/{name}")).map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default()
}

fn look_up(pid: i32, fd: i32) -> Option<Rc<Description>> {
    let target = link(pid, &format!("fd/{fd}"));
    if target.is_empty() {
        return None;
    }
    let name = name_of(&target);
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let field = |key: &str| info.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let position = field("pos:").and_then(|text| text.parse().ok()).unwrap_or(POS_UNKNOWN);
    let flags = field("flags:").and_then(|text| i32::from_str_radix(text, 8).ok()).unwrap_or(0);
    Some(Description::new(name, position, flags))
}

/// Returns the name of a descriptor's object from its link in /proc, as the library names it.
fn name_of(link: &[u8]) -> Rc<[u8]> {
    let number = |kind: &[u8]| {
        let digits = link.strip_prefix(kind)?.strip_suffix(b"]")?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    if let Some(inode) = number(b"pipe:[") {
        return Name::pipe(inode).as_bytes().into();
    }
    if let Some(inode) = number(b"socket:[") {
        return Name::socket(inode).as_bytes().into();
    }
    const KINDS: [(&[u8], &[u8]); 5] = [
        (b"/dev/pts/", b"<terminal>"),
        (b"/dev/tty", b"<terminal>"),
        (b"/memfd:", b"<memory>"),
        (b"anon_inode:[eventfd", b"<eventfd>"),
        (b"anon_inode:", b"<kernel object>"),
    ];
    let known = KINDS.iter().find(|(start, _)| link.starts_with(start)).map(|(_, kind)| *kind);
    known.unwrap_or(link.strip_suffix(b" (deleted)").unwrap_or(link)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_descriptors_become_names() {
        let name = |link: &[u8]| String::from_utf8(name_of(link).to_vec()).unwrap();
        assert_eq!(name(b"pipe:[123]"), "<pipe 123>");
        assert_eq!(name(b"socket:[7]"), "<socket 7>");
        assert_eq!(name(b"/data/a (deleted)"), "/data/a");
        assert_eq!(name(b"anon_inode:[eventpoll]"), "<kernel object>");
    }

    #[test]
    fn paths_become_absolute() {
        let joined = |start: &[u8], path: &[u8]| String::from_utf8(normal(start, path).to_vec()).unwrap();
        assert_eq!(joined(b"/data", b"./a//b"), "/data/a/b");
        assert_eq!(joined(b"/data", b"../b"), "/data/../b");
        assert_eq!(joined(b"", b"/"), "/");
    }

    #[test]
    fn copies_share_the_position_and_appending_writes_have_none() {
        let file = Description::new(Rc::from(&b"/a"[..]), 0, 0);
        let copy = file.clone();
        assert_eq!((file.advance(10, false), copy.advance(5, true), file.advance(0, false)), (0, 10, 15));
        file.set_flags(libc::O_APPEND);
        assert_eq!((file.advance(5, true), file.advance(5, false)), (POS_UNKNOWN, POS_UNKNOWN));
        file.set_position(3);
        assert_eq!(file.advance(1, false), 3);
    }

    #[test]
    fn own_descriptors_are_looked_up_with_their_position() {
        use std::os::fd::AsRawFd;
        let mut file = fs::File::open("/proc/self/exe").unwrap();
        std::io::Read::read_exact(&mut file, &mut [0; 10]).unwrap();
        let mut all = Descriptors::default();
        let found = all.get(std::process::id() as i32, file.as_raw_fd()).unwrap();
        let program = std::env::current_exe().unwrap();
        assert_eq!((&found.name[..], found.advance(0, false)), (program.as_os_str().as_bytes(), 10));
        assert!(all.get(std::process::id() as i32, 9999).is_none());
    }
}
