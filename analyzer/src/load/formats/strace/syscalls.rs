//! System calls: the operation of each, and the meaning of its arguments.

use std::collections::HashMap;
use std::sync::LazyLock;

use dlio_schemas::ops::{Layer, Op, OpInfo};
use foldhash::fast::RandomState;

/// The argument with which a call names a file. Numbers are positions of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    Descriptor(u8),
    Path(u8),
    /// A directory's descriptor, followed by a path.
    At(u8),
}

/// The argument or result that gives the size of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Number(u8),
    /// A list of buffers.
    Vector(u8),
}

/// The meaning of the arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Syscall {
    pub info: Option<&'static OpInfo>,
    pub file: Option<File>,
    pub size: Option<Size>,
    /// Position in the file.
    pub pos: Option<u8>,
    /// The descriptor that bytes come from.
    pub source: Option<u8>,
    /// A second path.
    pub target: Option<File>,
}

/// Returns a call by its name.
pub fn known(name: &[u8]) -> Option<&'static Syscall> {
    SYSCALLS.get(name)
}

static SYSCALLS: LazyLock<HashMap<&'static [u8], Syscall, RandomState>> = LazyLock::new(|| {
    let rows = ROWS.iter().flat_map(|(names, operation, row)| {
        let of = move |name: &'static str| {
            let operation = if operation.is_empty() { name } else { operation };
            // strace does not show the bytes of messages, or only how many were requested: network calls count by name
            // only.
            let is_ours = |info: &&OpInfo| info.layer != Layer::Net;
            Syscall { info: Op::from_name(operation).and_then(Op::info).filter(is_ours), ..*row }
        };
        names.split(' ').map(move |name| (name.as_bytes(), of(name)))
    });
    rows.collect()
});

const NOTHING: Syscall = Syscall { info: None, file: None, size: None, pos: None, source: None, target: None };

const fn on(file: File) -> Syscall {
    Syscall { file: Some(file), ..NOTHING }
}

impl Syscall {
    const fn size(self, place: u8) -> Syscall {
        Syscall { size: Some(Size::Number(place)), ..self }
    }

    const fn vector(self, place: u8) -> Syscall {
        Syscall { size: Some(Size::Vector(place)), ..self }
    }

    const fn pos(self, place: u8) -> Syscall {
        Syscall { pos: Some(place), ..self }
    }

    const fn source(self, place: u8) -> Syscall {
        Syscall { source: Some(place), ..self }
    }

    const fn target(self, target: File) -> Syscall {
        Syscall { target: Some(target), ..self }
    }
}

use File::{At, Descriptor, Path};

/// Names; the operation, if it has another name; the meaning of the arguments.
const ROWS: &[(&str, &str, Syscall)] = &[
    ("read write", "", on(Descriptor(0)).size(2)),
    ("pread64", "pread", on(Descriptor(0)).size(2).pos(3)),
    ("pwrite64", "pwrite", on(Descriptor(0)).size(2).pos(3)),
    ("readv writev vmsplice", "", on(Descriptor(0)).vector(1)),
    ("preadv pwritev preadv2 pwritev2", "", on(Descriptor(0)).vector(1).pos(3)),
    ("sendfile sendfile64", "sendfile", on(Descriptor(0)).source(1).size(3)),
    ("copy_file_range splice", "", on(Descriptor(2)).source(0).size(4)),
    ("tee", "", on(Descriptor(1)).source(0).size(2)),
    ("lseek", "", on(Descriptor(0))),
    ("_llseek", "lseek", on(Descriptor(0))),
    ("readahead sync_file_range", "", on(Descriptor(0)).pos(1).size(2)),
    ("fadvise64 fadvise64_64 arm_fadvise64_64", "posix_fadvise", on(Descriptor(0)).pos(1).size(2)),
    ("fallocate", "", on(Descriptor(0)).pos(2).size(3)),
    ("ftruncate ftruncate64", "ftruncate", on(Descriptor(0)).pos(1)),
    ("truncate truncate64", "truncate", on(Path(0)).pos(1)),
    ("getdents getdents64", "getdents64", on(Descriptor(0)).size(2)),
    ("fsync fdatasync syncfs fchdir fchmod flock ioctl close dup dup2 dup3", "", on(Descriptor(0))),
    ("fchown fchown32", "fchown", on(Descriptor(0))),
    ("fcntl fcntl64", "fcntl", on(Descriptor(0))),
    ("fcntl_setlkw", "", on(Descriptor(0))),
    ("fstat fstat64", "fstat", on(Descriptor(0))),
    ("fstatfs fstatfs64", "fstatfs", on(Descriptor(0))),
    ("fgetxattr", "getxattr", on(Descriptor(0)).size(3)),
    ("fsetxattr", "setxattr", on(Descriptor(0)).size(3)),
    ("flistxattr", "listxattr", on(Descriptor(0)).size(2)),
    ("fremovexattr", "removexattr", on(Descriptor(0))),
    ("recvfrom sendto", "", on(Descriptor(0)).size(2)),
    ("recvmsg sendmsg recvmmsg sendmmsg accept accept4 bind connect listen shutdown", "", on(Descriptor(0))),
    ("getsockname getpeername getsockopt setsockopt epoll_wait epoll_pwait epoll_ctl", "", on(Descriptor(0))),
    ("mmap mmap2", "mmap", on(Descriptor(4)).size(1).pos(5)),
    ("munmap msync madvise mremap", "", NOTHING.size(1)),
    ("open creat access mkdir rmdir unlink chmod mknod chdir utime utimes", "", on(Path(0))),
    ("chroot acct swapon swapoff umount umount2 uselib", "", on(Path(0))),
    ("stat stat64", "stat", on(Path(0))),
    ("lstat lstat64", "lstat", on(Path(0))),
    ("statfs statfs64", "statfs", on(Path(0))),
    ("chown chown32", "chown", on(Path(0))),
    ("lchown lchown32", "lchown", on(Path(0))),
    ("readlink", "", on(Path(0)).size(2)),
    ("getxattr lgetxattr", "getxattr", on(Path(0)).size(3)),
    ("setxattr lsetxattr", "setxattr", on(Path(0)).size(3)),
    ("listxattr llistxattr", "listxattr", on(Path(0)).size(2)),
    ("removexattr lremovexattr", "removexattr", on(Path(0))),
    ("execve", "exec", on(Path(0))),
    ("execveat", "exec", on(At(0))),
    ("rename link", "", on(Path(0)).target(Path(1))),
    ("symlink", "", on(Path(1)).target(Path(0))),
    ("openat openat2", "openat", on(At(0))),
    ("newfstatat fstatat64", "fstatat", on(At(0))),
    ("statx unlinkat mkdirat mknodat utimensat", "", on(At(0))),
    ("futimesat name_to_handle_at", "", on(At(0))),
    ("faccessat faccessat2", "faccessat", on(At(0))),
    ("fchmodat fchmodat2", "fchmodat", on(At(0))),
    ("fchownat", "", on(At(0))),
    ("readlinkat", "", on(At(0)).size(3)),
    ("renameat renameat2", "renameat", on(At(0)).target(At(2))),
    ("linkat", "", on(At(0)).target(At(2))),
    ("symlinkat", "", on(At(1)).target(Path(0))),
    ("clone clone3", "clone", NOTHING),
    ("fork vfork sync memfd_create", "", NOTHING),
    ("pipe pipe2", "pipe", NOTHING),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_that_a_row_names_is_one() {
        for (names, operation, _) in ROWS.iter().filter(|(_, operation, _)| !operation.is_empty()) {
            assert!(Op::from_name(operation).is_some(), "{names}: {operation}");
        }
        let op = |name: &str| known(name.as_bytes()).and_then(|known| known.info).map(|info| info.op);
        assert_eq!((op("pread64"), op("openat2"), op("connect")), (Some(Op::PREAD), Some(Op::OPENAT), None));
        assert!(SYSCALLS.len() > 120 && known(b"futex").is_none());
    }
}
