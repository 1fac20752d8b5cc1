//! The first trouble, in words: sentences to the user name the reason, not its number.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};

use dlio_schemas::native::fields::decimal;

/// No error of a call: results of requests were fetched past the functions that are hooked.
pub const UNSEEN_RESULT: i32 = i32::MAX;

static FIRST: AtomicI32 = AtomicI32::new(0);
/// True if the user has been told why there is no trace.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Notes that the user is told now why there is no trace; `true` where that was done before.
pub fn is_reported_already() -> bool {
    REPORTED.swap(true, Relaxed)
}

pub fn is_reported() -> bool {
    REPORTED.load(Relaxed)
}

/// Notes the first error by its number; it is printed once, at the end.
pub fn note(errno: i32) {
    let _ = FIRST.compare_exchange(0, errno, Relaxed, Relaxed);
}

pub fn first() -> i32 {
    FIRST.load(Relaxed)
}

/// Forgets the trouble: it is another process's.
pub fn forget() {
    FIRST.store(0, Relaxed);
}

/// The reason behind an error of the kernel; a number only for what nobody has met.
pub fn reason(errno: i32, digits: &mut [u8; 20]) -> &[u8] {
    match errno {
        0 => b"no room in the ring",
        libc::ENOMEM => b"no memory",
        libc::ENOSPC | libc::EDQUOT => b"no space left",
        libc::EFBIG => b"the file size limit",
        libc::ENOENT => b"the folder is gone or cannot be made",
        libc::EMFILE | libc::ENFILE => b"no descriptor left",
        libc::EACCES => b"no permission",
        libc::EPERM | libc::ENOSYS => b"not permitted, as by a filter of system calls (seccomp)",
        libc::EROFS => b"a read-only file system",
        libc::ENOTDIR => b"a part of the path is not a folder",
        libc::ELOOP => b"a link is in the place of the file",
        libc::EEXIST => b"another file has its name",
        libc::ESTALE => b"the file was replaced by another",
        libc::ENAMETOOLONG => b"a path that is too long",
        libc::EIO => b"an error of the disk",
        libc::EBADF => b"the program changed its root, and no descriptor of the folder was left",
        libc::ENODEV | libc::EOPNOTSUPP => b"the file system cannot do it",
        UNSEEN_RESULT => b"results of libaio fetched past its functions",
        other => decimal(other as i64, digits),
    }
}
