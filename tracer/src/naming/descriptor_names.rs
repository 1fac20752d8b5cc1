//! The name of a descriptor's object, queried from the kernel, for descriptors whose opening was not seen.

use dlio_schemas::native::names::URING;

use crate::kernel::path_buffer::PATH_MAX;
use crate::kernel::sys;
use crate::known::{folders, number};
use crate::naming::object_names::{self, ObjectName};
use crate::naming::path_numbers::{intern_path, object};
use crate::thread::stack;

/// Returns the name of a descriptor's object from the kernel, for descriptors whose opening was not seen.
pub fn of_descriptor(fd: i32) -> ObjectName {
    stack::with_stack_space(|| well_known(fd).unwrap_or_else(|| ObjectName { number: read_name(fd), stays: true }))
}

const NULL_DEVICE: &[u8] = b"/dev/null";

/// Returns the names of objects that most programs have as their first three descriptors, if the type is sufficient.
/// A lookup in /proc works for everything, but makes the kernel create directory entries for this process: forty
/// times the cost of querying the type.
fn well_known(fd: i32) -> Option<ObjectName> {
    const PIPE_FILE_SYSTEM: i64 = 0x5049_5045;
    // Major device numbers of pseudo terminals.
    const TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;
    if let Some(number) = object_names::known_eventfd(fd) {
        return Some(ObjectName { number, stays: true });
    }
    let (kind, device, inode) = sys::type_device_and_inode(fd);
    let number = match (kind, (libc::major(device), libc::minor(device))) {
        (libc::S_IFCHR, (1, 3)) => intern_path(NULL_DEVICE),
        (libc::S_IFCHR, (major, _)) if TERMINALS.contains(&major) => object(b"<terminal>"),
        (libc::S_IFSOCK, _) => return Some(object_names::socket(fd, inode)),
        // A named pipe has a path.
        (libc::S_IFIFO, _) if sys::file_system_of(fd) == Some(PIPE_FILE_SYSTEM) => object_names::pipe(inode),
        _ => return None,
    };
    Some(ObjectName { number, stays: true })
}

fn read_name(fd: i32) -> u32 {
    let mut buffer = [0; PATH_MAX];
    let text = sys::read_link(sys::descriptor_link(fd, &mut [0; 32]), &mut buffer);
    match kind_of(text) {
        Some(kind) => object(kind),
        None if text.is_empty() => number::NONE,
        None => intern_path(folders::without_mark(text)),
    }
}

/// Returns the kind, if a descriptor is not a file and the kernel reports only its kind.
fn kind_of(link: &[u8]) -> Option<&'static [u8]> {
    const KINDS: &[(&[u8], &[u8])] = &[
        (b"pipe:", b"<pipe>"),
        (b"socket:", b"<socket>"),
        (b"/dev/pts/", b"<terminal>"),
        (b"/dev/tty", b"<terminal>"),
        (b"/memfd:", b"<memory>"),
        (b"anon_inode:[eventfd", b"<eventfd>"),
        (b"anon_inode:[io_uring", URING.as_bytes()),
        (b"anon_inode:", b"<kernel object>"),
    ];
    KINDS.iter().find(|(start, _)| link.starts_with(start)).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_without_a_path_are_named_by_kind() {
        assert_eq!(kind_of(b"/memfd:x (deleted)"), Some(&b"<memory>"[..]));
        assert_eq!(kind_of(b"anon_inode:[io_uring]"), Some(&b"<io_uring>"[..]));
        assert_eq!(kind_of(b"anon_inode:[eventpoll]"), Some(&b"<kernel object>"[..]));
        assert_eq!(kind_of(b"/data/file"), None);
    }
}
