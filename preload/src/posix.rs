//! System calls as provided by the C library.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use dlio_tracer::calls::meaning::*;
use dlio_tracer::calls::uring::rings;
use dlio_tracer::known::descriptors;
use dlio_tracer::known::folders;
use dlio_tracer::known::mappings;
use dlio_tracer::naming::{descriptor_files, paths};
use dlio_tracer::ops::Op;
use dlio_tracer::record::POS_UNKNOWN;
use libc::{DIR, iovec, mode_t, off_t, size_t, ssize_t};

use crate::rows;

/// The flags with which a temporary file is created.
const MADE: c_int = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
const MADE_MODE: i64 = 0o600;

/// Returns the number of bytes that a list of buffers requests.
///
/// # Safety
/// `list` has `count` entries, if it is valid.
pub unsafe fn wanted(list: *const iovec, count: c_int) -> i64 {
    if list.is_null() || count <= 0 || paths::leads_nowhere(list.cast()) {
        return 0;
    }
    // SAFETY: the real call has just read this list, or failed because of its address, which was just checked.
    unsafe { std::slice::from_raw_parts(list, count.min(1024) as usize) }
        .iter()
        .map(|buffer| buffer.iov_len as i64)
        .sum()
}

// ---- opening and closing ------------------------------------------------------------------------------------------

rows! { Posix
    // The third argument exists only if the flags require it; as an integer register it can be read either way.
    [open open64] (path: *const c_char, flags: c_int, mode: mode_t) -> c_int; {
        |done, fd| { opened(done, Op::OPEN, paths::of(path), mode as i64, flags, fd); paths::opened(libc::AT_FDCWD, path, flags, fd) }
    }
    [__open_2 __open64_2] (path: *const c_char, flags: c_int) -> c_int; {
        |done, fd| opened(done, Op::OPEN, paths::of(path), 0, flags, fd)
    }
    [openat openat64] (dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int; {
        |done, fd| { opened(done, Op::OPENAT, paths::of_at(dir, path), mode as i64, flags, fd); paths::opened(dir, path, flags, fd) }
    }
    [__openat_2 __openat64_2] (dir: c_int, path: *const c_char, flags: c_int) -> c_int; {
        |done, fd| { opened(done, Op::OPENAT, paths::of_at(dir, path), 0, flags, fd); paths::opened(dir, path, flags, fd) }
    }
    [creat creat64] (path: *const c_char, mode: mode_t) -> c_int; {
        |done, fd| opened(done, Op::CREAT, paths::of(path), mode as i64, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC, fd)
    }

    [dup] (fd: c_int) -> c_int; {
        |done, ret| duplicated(done, Op::DUP, fd, -1, 0, ret)
    }
    [pipe] (ends: *mut c_int) -> c_int; {
        |done, ret| pipe_made(done, ends, 0, ret)
    }
    [pipe2] (ends: *mut c_int, flags: c_int) -> c_int; {
        |done, ret| pipe_made(done, ends, flags, ret)
    }
    [memfd_create] (name: *const c_char, flags: c_uint) -> c_int; {
        |done, fd| made(done, Op::MEMFD_CREATE, b"<memory>", 0, flags as i64, fd)
    }
    [mkstemp mkstemp64] (template: *mut c_char) -> c_int; {
        |done, fd| opened(done, Op::MKSTEMP, paths::of(template), MADE_MODE, MADE, fd)
    }
    [mkostemp mkostemp64] (template: *mut c_char, flags: c_int) -> c_int; {
        |done, fd| opened(done, Op::MKSTEMP, paths::of(template), MADE_MODE, MADE | flags, fd)
    }
    [mkstemps mkstemps64] (template: *mut c_char, suffix: c_int) -> c_int; {
        |done, fd| opened(done, Op::MKSTEMP, paths::of(template), MADE_MODE, MADE, fd)
    }
    [mkostemps mkostemps64] (template: *mut c_char, suffix: c_int, flags: c_int) -> c_int; {
        |done, fd| opened(done, Op::MKSTEMP, paths::of(template), MADE_MODE, MADE | flags, fd)
    }
    [flock] (fd: c_int, command: c_int) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FLOCK, fd, command as i64, 0, ret as i64)
    }
    // The third argument is an integer or a pointer, which are passed the same way. A copy of a file that shares its
    // blocks is a pointer.
    [ioctl] (fd: c_int, command: c_ulong, argument: *mut c_void) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::IOCTL, fd, command as i64, 0, ret as i64)
    }
    [lockf lockf64] (fd: c_int, command: c_int, size: off_t) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::LOCKF, fd, command as i64, size as i64, ret as i64)
    }
}

// ---- reading and writing ------------------------------------------------------------------------------------------

rows! { Posix
    [read] (fd: c_int, into: *mut c_void, size: size_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| read_here(done, Op::READ, fd, size as i64, ret as i64)
    }
    [__read_chk] (fd: c_int, into: *mut c_void, size: size_t, room: size_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| read_here(done, Op::READ, fd, size as i64, ret as i64)
    }
    [pread pread64] (fd: c_int, into: *mut c_void, size: size_t, at: off_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| moved_at(done, Op::PREAD, fd, at, size as i64, ret as i64)
    }
    [__pread_chk __pread64_chk] (fd: c_int, into: *mut c_void, size: size_t, at: off_t, room: size_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| moved_at(done, Op::PREAD, fd, at, size as i64, ret as i64)
    }
    [readv] (fd: c_int, list: *const iovec, count: c_int) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| read_here(done, Op::READV, fd, wanted(list, count), ret as i64)
    }
    [preadv preadv64] (fd: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| moved_at(done, Op::PREADV, fd, at, wanted(list, count), ret as i64)
    }
    [preadv2 preadv64v2] (fd: c_int, list: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| read_at_or_here(done, fd, at, wanted(list, count), ret as i64)
    }

    [write] (fd: c_int, from: *const c_void, size: size_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| wrote_here(done, Op::WRITE, fd, size as i64, ret as i64)
    }
    [pwrite pwrite64] (fd: c_int, from: *const c_void, size: size_t, at: off_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| moved_at(done, Op::PWRITE, fd, at, size as i64, ret as i64)
    }
    [writev] (fd: c_int, list: *const iovec, count: c_int) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| wrote_here(done, Op::WRITEV, fd, wanted(list, count), ret as i64)
    }
    [pwritev pwritev64] (fd: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| moved_at(done, Op::PWRITEV, fd, at, wanted(list, count), ret as i64)
    }
    [pwritev2 pwritev64v2] (fd: c_int, list: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| wrote_at_or_here(done, fd, (at, flags), wanted(list, count), ret as i64)
    }

    [lseek lseek64] (fd: c_int, offset: off_t, whence: c_int) -> off_t; {
        unless leaves_out(fd);
        |done, ret| sought(done, fd, offset, whence, ret)
    }
    [sendfile sendfile64] (to: c_int, from: c_int, at: *mut off_t, size: size_t) -> ssize_t; {
        |done, ret| transferred(done, Op::SENDFILE, from, at.is_null(), to, true, size as i64, ret as i64)
    }
    [copy_file_range] (from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, size: size_t, flags: c_uint) -> ssize_t; {
        |done, ret| transferred(done, Op::COPY_FILE_RANGE, from, from_at.is_null(), to, to_at.is_null(), size as i64, ret as i64)
    }
    [splice] (from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, size: size_t, flags: c_uint) -> ssize_t; {
        |done, ret| transferred(done, Op::SPLICE, from, from_at.is_null(), to, to_at.is_null(), size as i64, ret as i64)
    }
    [tee] (from: c_int, to: c_int, size: size_t, flags: c_uint) -> ssize_t; {
        |done, ret| from_file(done, Op::TEE, from, to, size as i64, ret as i64)
    }
    [vmsplice] (fd: c_int, list: *const iovec, count: size_t, flags: c_uint) -> ssize_t; {
        |done, ret| on_descriptor(done, Op::VMSPLICE, fd, 0, wanted(list, count as c_int), ret as i64)
    }
    [readahead] (fd: c_int, at: off_t, size: size_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::READAHEAD, fd, at, size as i64, ret as i64)
    }
}

// ---- synchronizing, sizes, advice -----------------------------------------------------------------------------------

rows! { Posix
    [fsync] (fd: c_int) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FSYNC, fd, 0, 0, ret as i64)
    }
    [fdatasync] (fd: c_int) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FDATASYNC, fd, 0, 0, ret as i64)
    }
    [sync_file_range] (fd: c_int, at: off_t, size: off_t, flags: c_uint) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::SYNC_FILE_RANGE, fd, at, size, ret as i64)
    }
    [syncfs] (fd: c_int) -> c_int; {
        |done, ret| on_descriptor(done, Op::SYNCFS, fd, 0, 0, ret as i64)
    }
    [sync] () -> (); {
        |done, _ret| on_nothing(done, Op::SYNC, 0, 0, 0)
    }
    [truncate truncate64] (path: *const c_char, size: off_t) -> c_int; {
        |done, ret| on_path(done, Op::TRUNCATE, paths::of(path), size, 0, ret as i64)
    }
    [ftruncate ftruncate64] (fd: c_int, size: off_t) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FTRUNCATE, fd, size, 0, ret as i64)
    }
    [fallocate fallocate64] (fd: c_int, mode: c_int, at: off_t, size: off_t) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FALLOCATE, fd, at, size, ret as i64)
    }
    // These two return the error number itself.
    [posix_fallocate posix_fallocate64] (fd: c_int, at: off_t, size: off_t) -> c_int; {
        unless leaves_out(fd);
        |done, error| done.record(Op::POSIX_FALLOCATE, descriptor_files::file(fd), fd, (at, true), size, -error as i64)
    }
    [posix_fadvise posix_fadvise64] (fd: c_int, at: off_t, size: off_t, advice: c_int) -> c_int; {
        unless leaves_out(fd);
        |done, error| done.record(Op::POSIX_FADVISE, descriptor_files::file(fd), fd, (advice as i64, true), size, -error as i64)
    }
}

// ---- attributes of files ------------------------------------------------------------------------------------------

rows! { Posix
    [stat stat64] (path: *const c_char, into: *mut c_void) -> c_int; {
        |done, ret| on_path(done, Op::STAT, paths::of(path), 0, 0, ret as i64)
    }
    [lstat lstat64] (path: *const c_char, into: *mut c_void) -> c_int; {
        |done, ret| on_path(done, Op::LSTAT, paths::of(path), 0, 0, ret as i64)
    }
    [fstat fstat64] (fd: c_int, into: *mut c_void) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FSTAT, fd, 0, 0, ret as i64)
    }
    [fstatat fstatat64] (dir: c_int, path: *const c_char, into: *mut c_void, flags: c_int) -> c_int; {
        |done, ret| on_path(done, Op::FSTATAT, paths::of_at(dir, path), 0, flags as i64, ret as i64)
    }
    // Called by programs built before glibc 2.33.
    [__xstat __xstat64] (version: c_int, path: *const c_char, into: *mut c_void) -> c_int; {
        |done, ret| on_path(done, Op::STAT, paths::of(path), 0, 0, ret as i64)
    }
    [__lxstat __lxstat64] (version: c_int, path: *const c_char, into: *mut c_void) -> c_int; {
        |done, ret| on_path(done, Op::LSTAT, paths::of(path), 0, 0, ret as i64)
    }
    [__fxstat __fxstat64] (version: c_int, fd: c_int, into: *mut c_void) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FSTAT, fd, 0, 0, ret as i64)
    }
    [__fxstatat __fxstatat64] (version: c_int, dir: c_int, path: *const c_char, into: *mut c_void, flags: c_int) -> c_int; {
        |done, ret| on_path(done, Op::FSTATAT, paths::of_at(dir, path), 0, flags as i64, ret as i64)
    }
    [statx] (dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut c_void) -> c_int; {
        |done, ret| on_path(done, Op::STATX, paths::of_at(dir, path), 0, flags as i64, ret as i64)
    }
    [statfs statfs64] (path: *const c_char, into: *mut c_void) -> c_int; {
        |done, ret| on_path(done, Op::STATFS, paths::of(path), 0, 0, ret as i64)
    }
    [fstatfs fstatfs64] (fd: c_int, into: *mut c_void) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FSTATFS, fd, 0, 0, ret as i64)
    }
    [statvfs statvfs64] (path: *const c_char, into: *mut c_void) -> c_int; {
        |done, ret| on_path(done, Op::STATVFS, paths::of(path), 0, 0, ret as i64)
    }
    [fstatvfs fstatvfs64] (fd: c_int, into: *mut c_void) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FSTATVFS, fd, 0, 0, ret as i64)
    }
    [access euidaccess eaccess] (path: *const c_char, mode: c_int) -> c_int; {
        |done, ret| on_path(done, Op::ACCESS, paths::of(path), mode as i64, 0, ret as i64)
    }
    [faccessat] (dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int; {
        |done, ret| on_path(done, Op::FACCESSAT, paths::of_at(dir, path), mode as i64, flags as i64, ret as i64)
    }
    [getxattr lgetxattr] (path: *const c_char, name: *const c_char, into: *mut c_void, size: size_t) -> ssize_t; {
        |done, ret| on_path(done, Op::GETXATTR, paths::of(path), 0, size as i64, ret as i64)
    }
    [fgetxattr] (fd: c_int, name: *const c_char, into: *mut c_void, size: size_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::GETXATTR, fd, 0, size as i64, ret as i64)
    }
    [setxattr lsetxattr] (path: *const c_char, name: *const c_char, from: *const c_void, size: size_t, flags: c_int) -> c_int; {
        |done, ret| on_path(done, Op::SETXATTR, paths::of(path), 0, size as i64, ret as i64)
    }
    [fsetxattr] (fd: c_int, name: *const c_char, from: *const c_void, size: size_t, flags: c_int) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::SETXATTR, fd, 0, size as i64, ret as i64)
    }
    [listxattr llistxattr] (path: *const c_char, into: *mut c_char, size: size_t) -> ssize_t; {
        |done, ret| on_path(done, Op::LISTXATTR, paths::of(path), 0, size as i64, ret as i64)
    }
    [flistxattr] (fd: c_int, into: *mut c_char, size: size_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::LISTXATTR, fd, 0, size as i64, ret as i64)
    }
    [removexattr lremovexattr] (path: *const c_char, name: *const c_char) -> c_int; {
        |done, ret| on_path(done, Op::REMOVEXATTR, paths::of(path), 0, 0, ret as i64)
    }
    [fremovexattr] (fd: c_int, name: *const c_char) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::REMOVEXATTR, fd, 0, 0, ret as i64)
    }
}

// ---- names and directories ------------------------------------------------------------------------------------------

rows! { Posix
    [rename] (from: *const c_char, to: *const c_char) -> c_int; {
        |done, ret| { on_path(done, Op::RENAME, paths::of(from), second(paths::of(to)), 0, ret as i64); paths::renamed(from, ret) }
    }
    [renameat] (from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char) -> c_int; {
        |done, ret| { on_path(done, Op::RENAMEAT, paths::of_at(from_dir, from), second(paths::of_at(to_dir, to)), 0, ret as i64); paths::renamed(from, ret) }
    }
    [renameat2] (from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_uint) -> c_int; {
        |done, ret| {
            on_path(done, Op::RENAMEAT, paths::of_at(from_dir, from), second(paths::of_at(to_dir, to)), flags as i64, ret as i64);
            // If two files are exchanged, both are renamed.
            paths::renamed(from, ret);
            paths::renamed(to, ret)
        }
    }
    [link] (from: *const c_char, to: *const c_char) -> c_int; {
        |done, ret| on_path(done, Op::LINK, paths::of(from), second(paths::of(to)), 0, ret as i64)
    }
    [linkat] (from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_int) -> c_int; {
        |done, ret| on_path(done, Op::LINKAT, paths::of_at(from_dir, from), second(paths::of_at(to_dir, to)), flags as i64, ret as i64)
    }
    [symlink] (target: *const c_char, path: *const c_char) -> c_int; {
        |done, ret| on_path(done, Op::SYMLINK, paths::of(path), second(paths::of(target)), 0, ret as i64)
    }
    [symlinkat] (target: *const c_char, dir: c_int, path: *const c_char) -> c_int; {
        |done, ret| on_path(done, Op::SYMLINKAT, paths::of_at(dir, path), second(paths::of(target)), 0, ret as i64)
    }
    [readlink] (path: *const c_char, into: *mut c_char, size: size_t) -> ssize_t; {
        |done, ret| on_path(done, Op::READLINK, paths::of(path), 0, size as i64, ret as i64)
    }
    [__readlink_chk] (path: *const c_char, into: *mut c_char, size: size_t, room: size_t) -> ssize_t; {
        |done, ret| on_path(done, Op::READLINK, paths::of(path), 0, size as i64, ret as i64)
    }
    [readlinkat] (dir: c_int, path: *const c_char, into: *mut c_char, size: size_t) -> ssize_t; {
        |done, ret| on_path(done, Op::READLINKAT, paths::of_at(dir, path), 0, size as i64, ret as i64)
    }
    [__readlinkat_chk] (dir: c_int, path: *const c_char, into: *mut c_char, size: size_t, room: size_t) -> ssize_t; {
        |done, ret| on_path(done, Op::READLINKAT, paths::of_at(dir, path), 0, size as i64, ret as i64)
    }
    [unlink] (path: *const c_char) -> c_int; {
        |done, ret| on_path(done, Op::UNLINK, paths::of(path), 0, 0, ret as i64)
    }
    [unlinkat] (dir: c_int, path: *const c_char, flags: c_int) -> c_int; {
        |done, ret| on_path(done, Op::UNLINKAT, paths::of_at(dir, path), 0, flags as i64, ret as i64)
    }
    [remove] (path: *const c_char) -> c_int; {
        |done, ret| on_path(done, Op::REMOVE, paths::of(path), 0, 0, ret as i64)
    }
    [mkdir] (path: *const c_char, mode: mode_t) -> c_int; {
        |done, ret| on_path(done, Op::MKDIR, paths::of(path), mode as i64, 0, ret as i64)
    }
    [mkdirat] (dir: c_int, path: *const c_char, mode: mode_t) -> c_int; {
        |done, ret| on_path(done, Op::MKDIRAT, paths::of_at(dir, path), mode as i64, 0, ret as i64)
    }
    [rmdir] (path: *const c_char) -> c_int; {
        |done, ret| on_path(done, Op::RMDIR, paths::of(path), 0, 0, ret as i64)
    }
    [mknod] (path: *const c_char, mode: mode_t, device: u64) -> c_int; {
        |done, ret| on_path(done, Op::MKNOD, paths::of(path), mode as i64, 0, ret as i64)
    }
    [mknodat] (dir: c_int, path: *const c_char, mode: mode_t, device: u64) -> c_int; {
        |done, ret| on_path(done, Op::MKNODAT, paths::of_at(dir, path), mode as i64, 0, ret as i64)
    }
    // Called by programs built before glibc 2.33.
    [__xmknod] (version: c_int, path: *const c_char, mode: mode_t, device: *const u64) -> c_int; {
        |done, ret| on_path(done, Op::MKNOD, paths::of(path), mode as i64, 0, ret as i64)
    }
    [__xmknodat] (version: c_int, dir: c_int, path: *const c_char, mode: mode_t, device: *const u64) -> c_int; {
        |done, ret| on_path(done, Op::MKNODAT, paths::of_at(dir, path), mode as i64, 0, ret as i64)
    }
    [mkfifo] (path: *const c_char, mode: mode_t) -> c_int; {
        |done, ret| on_path(done, Op::MKFIFO, paths::of(path), mode as i64, 0, ret as i64)
    }
    [mkfifoat] (dir: c_int, path: *const c_char, mode: mode_t) -> c_int; {
        |done, ret| on_path(done, Op::MKFIFOAT, paths::of_at(dir, path), mode as i64, 0, ret as i64)
    }
    [mkdtemp] (template: *mut c_char) -> *mut c_char; {
        |done, made| on_path(done, Op::MKDTEMP, paths::of(template), 0, 0, pointer_outcome(made, 0))
    }
    [chdir] (path: *const c_char) -> c_int; {
        with file = paths::of(path);
        |done, ret| { if ret == 0 { paths::moved() } on_path(done, Op::CHDIR, file, 0, 0, ret as i64) }
    }
    [fchdir] (fd: c_int) -> c_int; {
        |done, ret| { if ret == 0 { folders::moved_to(fd) } on_descriptor(done, Op::FCHDIR, fd, 0, 0, ret as i64) }
    }

    [opendir] (path: *const c_char) -> *mut DIR; {
        |done, dir| opened(done, Op::OPENDIR, paths::of(path), 0, 0, of_dir(dir))
    }
    [fdopendir] (fd: c_int) -> *mut DIR; {
        |done, dir| on_descriptor(done, Op::FDOPENDIR, fd, 0, 0, pointer_outcome(dir, fd as i64))
    }
    [readdir readdir64] (dir: *mut DIR) -> *mut c_void; {
        unless leaves_out(of_dir(dir));
        |done, entry| on_descriptor(done, Op::READDIR, of_dir(dir), 0, 0, !entry.is_null() as i64)
    }
    [readdir_r readdir64_r] (dir: *mut DIR, into: *mut c_void, entry: *mut *mut c_void) -> c_int; {
        unless leaves_out(of_dir(dir));
        |done, error| on_descriptor(done, Op::READDIR, of_dir(dir), 0, 0, if error == 0 { !(*entry).is_null() as i64 } else { -error as i64 })
    }
    [closedir] (dir: *mut DIR) -> c_int; {
        with at = (of_dir(dir), closing(of_dir(dir)));
        |done, ret| plain(done, Op::CLOSEDIR, at.1, at.0, ret as i64)
    }
    [scandir scandir64] (path: *const c_char, into: *mut c_void, choose: *mut c_void, order: *mut c_void) -> c_int; {
        |done, ret| on_path(done, Op::SCANDIR, paths::of(path), 0, 0, ret as i64)
    }
    [scandirat scandirat64] (dir: c_int, path: *const c_char, into: *mut c_void, choose: *mut c_void, order: *mut c_void) -> c_int; {
        |done, ret| on_path(done, Op::SCANDIR, paths::of_at(dir, path), 0, 0, ret as i64)
    }
    [getdents64] (fd: c_int, into: *mut c_void, size: size_t) -> ssize_t; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::GETDENTS, fd, 0, size as i64, ret as i64)
    }
}

// ---- permissions, owners, times ----------------------------------------------------------------------------------

rows! { Posix
    [chmod lchmod] (path: *const c_char, mode: mode_t) -> c_int; {
        |done, ret| on_path(done, Op::CHMOD, paths::of(path), mode as i64, 0, ret as i64)
    }
    [fchmod] (fd: c_int, mode: mode_t) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FCHMOD, fd, mode as i64, 0, ret as i64)
    }
    [fchmodat] (dir: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int; {
        |done, ret| on_path(done, Op::FCHMODAT, paths::of_at(dir, path), mode as i64, flags as i64, ret as i64)
    }
    [chown] (path: *const c_char, user: c_uint, group: c_uint) -> c_int; {
        |done, ret| on_path(done, Op::CHOWN, paths::of(path), user as i64, group as i64, ret as i64)
    }
    [lchown] (path: *const c_char, user: c_uint, group: c_uint) -> c_int; {
        |done, ret| on_path(done, Op::LCHOWN, paths::of(path), user as i64, group as i64, ret as i64)
    }
    [fchown] (fd: c_int, user: c_uint, group: c_uint) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FCHOWN, fd, user as i64, group as i64, ret as i64)
    }
    [fchownat] (dir: c_int, path: *const c_char, user: c_uint, group: c_uint, flags: c_int) -> c_int; {
        |done, ret| on_path(done, Op::FCHOWNAT, paths::of_at(dir, path), user as i64, group as i64, ret as i64)
    }
    [utime] (path: *const c_char, times: *const c_void) -> c_int; {
        |done, ret| on_path(done, Op::UTIME, paths::of(path), 0, 0, ret as i64)
    }
    [utimes] (path: *const c_char, times: *const c_void) -> c_int; {
        |done, ret| on_path(done, Op::UTIMES, paths::of(path), 0, 0, ret as i64)
    }
    [lutimes] (path: *const c_char, times: *const c_void) -> c_int; {
        |done, ret| on_path(done, Op::LUTIMES, paths::of(path), 0, 0, ret as i64)
    }
    [futimes] (fd: c_int, times: *const c_void) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FUTIMES, fd, 0, 0, ret as i64)
    }
    [futimesat] (dir: c_int, path: *const c_char, times: *const c_void) -> c_int; {
        |done, ret| on_path(done, Op::UTIMENSAT, paths::of_at(dir, path), 0, 0, ret as i64)
    }
    [utimensat] (dir: c_int, path: *const c_char, times: *const c_void, flags: c_int) -> c_int; {
        |done, ret| on_path(done, Op::UTIMENSAT, paths::of_at(dir, path), 0, flags as i64, ret as i64)
    }
    [futimens] (fd: c_int, times: *const c_void) -> c_int; {
        unless leaves_out(fd);
        |done, ret| on_descriptor(done, Op::FUTIMENS, fd, 0, 0, ret as i64)
    }
}

// ---- mapping ------------------------------------------------------------------------------------------------------

rows! { Posix
    // Memory without a file is not I/O.
    [mmap mmap64] (address: *mut c_void, size: size_t, protection: c_int, flags: c_int, fd: c_int, at: off_t) -> *mut c_void; {
        unless fd < 0 || flags & libc::MAP_ANONYMOUS != 0 || leaves_out(fd);
        |done, mapped| {
            if mapped != libc::MAP_FAILED {
                mappings::add(mapped as usize, size, descriptor_files::file(fd));
                if rings::are_any() {
                    rings::mapped(fd, at, mapped as usize, size);
                }
            }
            map_file(done, fd, at, size as i64, mapped_outcome(mapped))
        }
    }
    [munmap] (address: *mut c_void, size: size_t) -> c_int; {
        unless is_memory(address, size);
        with file = unmapping(address, size);
        |done, ret| on_path(done, Op::MUNMAP, file, 0, size as i64, ret as i64)
    }
    // The fifth argument exists only if the flags require it.
    [mremap] (old: *mut c_void, old_size: size_t, size: size_t, flags: c_int, wanted: *mut c_void) -> *mut c_void; {
        unless is_memory(old, old_size);
        with file = mapped_file(old, old_size);
        |done, mapped| {
            if mapped != libc::MAP_FAILED {
                mappings::remove(old as usize, old_size);
                mappings::add(mapped as usize, size, file);
            }
            on_path(done, Op::MREMAP, file, 0, size as i64, mapped_outcome(mapped))
        }
    }
    [madvise] (address: *mut c_void, size: size_t, advice: c_int) -> c_int; {
        unless is_memory(address, size);
        |done, ret| on_path(done, Op::MADVISE, mapped_file(address, size), advice as i64, size as i64, ret as i64)
    }
    [posix_madvise] (address: *mut c_void, size: size_t, advice: c_int) -> c_int; {
        unless is_memory(address, size);
        |done, error| done.record(Op::MADVISE, mapped_file(address, size), -1, (advice as i64, true), size as i64, -error as i64)
    }
    [msync] (address: *mut c_void, size: size_t, flags: c_int) -> c_int; {
        unless is_memory(address, size);
        |done, ret| on_path(done, Op::MSYNC, mapped_file(address, size), 0, size as i64, ret as i64)
    }
}

/// Returns `true` if no recorded file is mapped in a range.
#[inline(always)]
fn is_memory(address: *mut c_void, size: size_t) -> bool {
    mappings::file(address as usize, size).is_none()
}

/// Returns the file in a range that is about to be unmapped.
fn unmapping(address: *mut c_void, size: size_t) -> u32 {
    let file = mapped_file(address, size);
    mappings::remove(address as usize, size);
    if rings::are_any() {
        rings::unmapping(address as usize, size);
    }
    file
}

fn mapped_file(address: *mut c_void, size: size_t) -> u32 {
    mappings::file(address as usize, size).unwrap_or(dlio_tracer::known::number::NONE)
}

fn mapped_outcome(mapped: *mut c_void) -> i64 {
    if mapped == libc::MAP_FAILED { outcome(-1) } else { 0 }
}

/// Returns a second path as an argument.
fn second(file: u32) -> i64 {
    if file == dlio_tracer::known::number::FILTERED { 0 } else { file as i64 }
}

/// Returns the descriptor of an open directory, or -1.
///
/// # Safety
/// `dir` is null or an open directory.
unsafe fn of_dir(dir: *mut DIR) -> c_int {
    // SAFETY: null, or a directory that the program has opened.
    if dir.is_null() { -1 } else { unsafe { libc::dirfd(dir) } }
}

/// Records a new pipe.
///
/// # Safety
/// `ends` has both ends if `ret` is 0.
unsafe fn pipe_made(done: dlio_tracer::calls::call::Done, ends: *const c_int, flags: c_int, ret: c_int) {
    if ret != 0 {
        return on_nothing(done, Op::PIPE, 0, flags as i64, ret as i64);
    }
    // SAFETY: the call succeeded, so it has filled both ends.
    let (read, write) = unsafe { (*ends, *ends.add(1)) };
    piped(done, Op::PIPE, (read, write), flags as i64);
    [read, write].into_iter().for_each(descriptors::has_no_position);
}

/// Records `preadv2` and `pwritev2`, which use the description's own position if they are given -1.
fn read_at_or_here(done: dlio_tracer::calls::call::Done, fd: c_int, at: off_t, requested: i64, ret: i64) {
    match at {
        -1 => read_here(done, Op::PREADV2, fd, requested, ret),
        _ => moved_at(done, Op::PREADV2, fd, at, requested, ret),
    }
}

fn wrote_at_or_here(
    done: dlio_tracer::calls::call::Done,
    fd: c_int,
    (at, flags): (off_t, c_int),
    requested: i64,
    ret: i64,
) {
    let appends = flags & libc::RWF_APPEND != 0;
    if at != -1 {
        return moved_at(done, Op::PWRITEV2, fd, if appends { POS_UNKNOWN } else { at }, requested, ret);
    }
    if appends {
        descriptors::lose_position(fd);
    }
    wrote_here(done, Op::PWRITEV2, fd, requested, ret);
}

/// Records a transfer between descriptors inside the kernel. A side without an explicit offset moves its position.
#[allow(clippy::too_many_arguments, reason = "the two sides of a transfer, each with its descriptor and its position")]
fn transferred(
    done: dlio_tracer::calls::call::Done,
    op: Op,
    from: c_int,
    from_moves: bool,
    to: c_int,
    to_moves: bool,
    requested: i64,
    ret: i64,
) {
    if from_moves {
        _ = descriptor_files::read(from, ret);
    }
    if to_moves {
        _ = descriptor_files::written(to, ret);
    }
    from_file(done, op, from, to, requested, ret);
}
