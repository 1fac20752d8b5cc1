//! Determines from a program's first bytes, before it starts, whether it can be traced.
//!
//! The loader that a program names loads a preloaded library, which needs a C library that it supports, glibc or
//! musl; with any other C library the program would not start. The loader of another architecture or word size prints
//! on stderr that it cannot load the library. Such programs are started without it. A static program ignores it.

use std::ffi::CStr;

use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::sys;
use crate::kernel::variables::variable;

/// The effect of preloading on a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loading {
    Works,
    /// There is no loader: preloading has no effect.
    Static,
    /// The loader of another C library (Android's, uClibc), which refuses to start the program.
    OtherLibrary,
    /// Another architecture or word size: the loader complains.
    OtherMachine,
    /// Gains privileges when it starts, by its mode or its capabilities: the loader ignores the library.
    Privileged,
    /// A Go program: the library is loaded, but the system calls bypass it.
    Go,
}

impl Loading {
    /// Returns `true` if the library may be in the program's environment.
    pub fn is_harmless(self) -> bool {
        !matches!(self, Loading::OtherLibrary | Loading::OtherMachine)
    }
}

/// The interpreter of a script may be a script; the kernel has the same limit.
const SCRIPTS_MAX: usize = 5;

/// Longest interpreter path that the kernel accepts.
const NAME_MAX: usize = 256;

/// Returns the effect on the program at a path, or on its interpreter if it is a script. A program that cannot be
/// read is treated like any other.
pub fn loading(path: &CStr) -> Loading {
    let mut name = [0; NAME_MAX];
    let mut found = inspect(path, &mut name);
    for _ in 0..SCRIPTS_MAX {
        match found {
            Some(loading) => return loading,
            None => {
                let interpreter = name;
                let Ok(path) = CStr::from_bytes_until_nul(&interpreter) else { break };
                found = inspect(path, &mut name);
            }
        }
    }
    Loading::Works
}

/// Returns the effect on a command as a shell resolves it: a name without a slash is searched for.
pub fn loading_of_command(name: &CStr) -> Loading {
    let mut path = PathBuffer::new();
    if search(name, &mut path) { loading(path.as_c_str()) } else { Loading::Works }
}

/// Returns the effect on the program of this name. `path` is a buffer for the search, and then contains the program's
/// path.
pub(crate) fn loading_in(name: &CStr, path: &mut PathBuffer) -> Loading {
    // A name with a slash is not searched for: if it cannot be executed, the kernel reports that.
    if name.to_bytes().contains(&b'/') {
        path.clear();
        path.push(name.to_bytes());
    } else if !search(name, path) {
        return Loading::Works;
    }
    loading(path.as_c_str())
}

/// Searches for the program of this name; `false` if no executable file is found.
pub(crate) fn search(name: &CStr, path: &mut PathBuffer) -> bool {
    // The C library's search path if the variable is missing.
    const DEFAULT: &[u8] = b"/bin:/usr/bin";
    path.clear();
    if name.to_bytes().contains(&b'/') {
        path.push(name.to_bytes());
        return sys::accessible(path.as_c_str(), libc::X_OK);
    }
    let folders = variable("PATH").unwrap_or(DEFAULT);
    folders.split(|&byte| byte == b':').any(|folder| {
        path.clear();
        path.push(if folder.is_empty() { b"." } else { folder }).push(b"/").push(name.to_bytes());
        sys::accessible(path.as_c_str(), libc::X_OK)
    })
}

/// Returns the kind of a file; `None` for a script, whose interpreter is then in `interpreter`.
fn inspect(path: &CStr, interpreter: &mut [u8; NAME_MAX]) -> Option<Loading> {
    let fd = sys::open_program(path) as i32;
    if fd < 0 {
        return Some(Loading::Works);
    }
    let mut head = [0; 1024];
    let length = sys::read_at(fd, &mut head, 0).len();
    let head = &head[..length];
    let looked = match script_of(head) {
        Some(name) if name.len() < NAME_MAX => {
            interpreter.fill(0);
            interpreter[..name.len()].copy_from_slice(name);
            None
        }
        Some(_) => Some(Loading::Works),
        None if gains_privileges(fd) => Some(Loading::Privileged),
        None => {
            let read = |at: usize, into: &mut [u8]| sys::read_at(fd, into, at).len();
            let loading = of_object(head, read);
            Some(if loading == Loading::Works && is_of_go(head, read) { Loading::Go } else { loading })
        }
    };
    sys::close(fd);
    looked
}

/// Returns `true` if this process would gain privileges from an open program, because the loader then ignores the library. A user
/// gains no privileges from a program that it owns, and root gains none from capabilities.
fn gains_privileges(fd: i32) -> bool {
    const SET_USER: u32 = 0o4000;
    /// Without the group's permission to execute, the bit requests mandatory locks.
    const SET_GROUP: u32 = 0o2010;
    let Some(found) = sys::status(fd).filter(|found| found.is_file) else { return false };
    let (user, group) = sys::real_ids();
    let changes_user = found.mode & SET_USER != 0 && found.owner != user;
    let changes_group = found.mode & SET_GROUP == SET_GROUP && found.group != group;
    (changes_user || changes_group || user != 0 && sys::has_capabilities(fd))
        && !sys::has_no_new_privileges()
        && !sys::grants_no_privileges(fd)
}

/// Returns the interpreter in a script's first line.
fn script_of(head: &[u8]) -> Option<&[u8]> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty())
}

/// Size of an entry in the program header table of an ELF file.
const PART: usize = 56;

/// Reads a number from the header of an ELF file.
fn number(head: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = head.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | byte as u64))
}

/// Returns `true` if one of a program's notes was written by Go's linker.
fn is_of_go(head: &[u8], read: impl Fn(usize, &mut [u8]) -> usize) -> bool {
    const NOTE: u64 = 4;
    let (start, count) = (number(head, 32, 8).unwrap_or(0) as usize, number(head, 56, 2).unwrap_or(0) as usize);
    (0..count).map(|i| start.saturating_add(i * PART)).any(|part| {
        let mut notes = [0; 512];
        let [from, length] = [8, 32].map(|at| number(head, part.saturating_add(at), 8).unwrap_or(0) as usize);
        number(head, part, 4) == Some(NOTE) && {
            let found = read(from, &mut notes[..length.min(512)]);
            notes[..found].windows(4).any(|owner| owner == b"Go\0\0")
        }
    })
}

/// Returns the kind given by an ELF header; `read` fetches more of the file.
fn of_object(head: &[u8], read: impl FnOnce(usize, &mut [u8]) -> usize) -> Loading {
    const WIDE_AND_LITTLE: [u8; 2] = [2, 1];
    const MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    const INTERPRETER: u32 = 3;
    let number = |at: usize, width: usize| number(head, at, width);
    if !head.starts_with(b"\x7fELF") {
        return Loading::Works;
    }
    if head.get(4..6) != Some(&WIDE_AND_LITTLE) || number(18, 2) != Some(MACHINE as u64) {
        return Loading::OtherMachine;
    }
    let (Some(start), Some(count)) = (number(32, 8), number(56, 2)) else { return Loading::Works };
    for i in 0..count as usize {
        let at = (start as usize).saturating_add(i * PART);
        let Some(kind) = number(at, 4) else { return Loading::Works };
        if kind as u32 == INTERPRETER {
            let mut name = [0; NAME_MAX];
            let (from, length) =
                (number(at.saturating_add(8), 8).unwrap_or(0), number(at.saturating_add(32), 8).unwrap_or(0));
            let (from, length) = (from as usize, (length as usize).min(NAME_MAX));
            // It is usually among the first bytes.
            if let Some(loader) = head.get(from..from.saturating_add(length)) {
                return of_loader(loader);
            }
            let read = read(from, &mut name[..length]);
            return of_loader(&name[..read]);
        }
    }
    Loading::Static
}

/// Recognizes the loaders of C libraries other than glibc by their file names.
fn of_loader(path: &[u8]) -> Loading {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let starts = |starts: &[&[u8]]| starts.iter().any(|start| name.starts_with(start));
    match () {
        _ if starts(&[b"linker", b"ld-uClibc"]) => Loading::OtherLibrary,
        _ => Loading::Works,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        assert_eq!(script_of(b"#!/bin/sh -e\nexit"), Some(&b"/bin/sh"[..]));
        assert_eq!(script_of(b"#! /usr/bin/env python3\n"), Some(&b"/usr/bin/env"[..]));
        assert_eq!(script_of(b"#!\n"), None);
        assert_eq!(script_of(b"\x7fELF"), None);
    }

    #[test]
    fn loaders_are_recognized_by_name() {
        assert_eq!(of_loader(b"/lib64/ld-linux-x86-64.so.2\0"), Loading::Works);
        assert_eq!(of_loader(b"/lib/ld-musl-x86_64.so.1\0"), Loading::Works);
        assert_eq!(of_loader(b"/system/bin/linker64\0"), Loading::OtherLibrary);
    }

    #[test]
    fn broken_heads_are_left_to_the_kernel() {
        let nothing = |_: usize, _: &mut [u8]| 0;
        assert_eq!(of_object(b"", nothing), Loading::Works);
        assert_eq!(of_object(b"\x7fELF", nothing), Loading::OtherMachine);
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[18] = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
        assert_eq!(of_object(&head, nothing), Loading::Static);
        head[32..40].fill(0xff);
        head[56] = 9;
        assert_eq!(of_object(&head, nothing), Loading::Works);
    }

    #[test]
    fn go_programs_are_recognized_by_their_note() {
        let mut head = vec![0; 64 + PART];
        (head[32], head[56], head[64], head[72], head[96]) = (64, 1, 4, 200, 100);
        let holding = |text: &'static [u8]| {
            move |at: usize, into: &mut [u8]| {
                assert_eq!((at, into.len()), (200, 100));
                into[..text.len()].copy_from_slice(text);
                text.len()
            }
        };
        assert!(is_of_go(&head, holding(b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0abc")));
        assert!(!is_of_go(&head, holding(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0abc")));
        head[64] = 3;
        assert!(!is_of_go(&head, |_, _| unreachable!("no note")));
        assert!(!is_of_go(&head[..60], |_, _| unreachable!("no part")));
    }

    #[test]
    fn test_program_can_be_traced() {
        assert_eq!(loading(c"/proc/self/exe"), Loading::Works);
        assert_eq!(loading_of_command(c"sh"), Loading::Works);
        assert!(!search(c"no such program", &mut PathBuffer::new()));
    }
}
