//! Calls on files and sockets that the standard library does not have.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Waits until one of the files can be read without blocking, or a signal comes, at most so long. Which can.
pub fn readable(files: &[&impl AsRawFd], limit: Duration) -> Vec<bool> {
    let poll = |file: &&_| libc::pollfd { fd: AsRawFd::as_raw_fd(*file), events: libc::POLLIN, revents: 0 };
    let mut polls: Vec<libc::pollfd> = files.iter().map(poll).collect();
    // SAFETY: as many pollfds as the count says; none are read where there are none.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, limit.as_millis() as libc::c_int) };
    polls.iter().map(|poll| poll.revents != 0).collect()
}

/// Bytes an unprivileged user may still write to the file system that holds `path`, where it says how large it is.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: the name ends in a zero byte and lives through the call; a zeroed statvfs is valid to be overwritten.
    unsafe {
        let mut stats: libc::statvfs = std::mem::zeroed();
        match libc::statvfs(name.as_ptr(), &mut stats) {
            0 if stats.f_blocks == 0 => Err(io::ErrorKind::Unsupported.into()),
            0 => Ok(stats.f_bavail * stats.f_frsize),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A file without a name, in memory; `name` is for whoever looks at the process.
pub fn memory_file(name: &std::ffi::CStr) -> io::Result<File> {
    // SAFETY: the name ends in a zero byte; a descriptor that is not negative is new and nobody else's.
    unsafe {
        match libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(File::from_raw_fd(descriptor)),
        }
    }
}

/// Asks the kernel to forget the file's pages. Dirty ones stay, so they are written first.
pub fn forget_pages(file: &File) -> io::Result<()> {
    file.sync_data()?;
    forget_clean_pages(file)
}

/// The same past the C library, whose calls a trace takes for those of the workload.
pub fn forget_pages_unseen(file: &File) -> io::Result<()> {
    // SAFETY: an open descriptor.
    match unsafe { libc::syscall(libc::SYS_fdatasync, file.as_raw_fd()) } {
        0 => forget_clean_pages(file),
        _ => Err(io::Error::last_os_error()),
    }
}

fn forget_clean_pages(file: &File) -> io::Result<()> {
    // SAFETY: a hint about an open descriptor.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Drops the page cache of the whole machine; only root may.
pub fn drop_page_cache() -> io::Result<()> {
    // SAFETY: no arguments, no memory. It goes past the C library, as above.
    unsafe { libc::syscall(libc::SYS_sync) };
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}

/// The user whose process made the other end of a socket of this machine.
pub fn user_at_the_other_end(stream: &UnixStream) -> io::Result<u32> {
    let mut about = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: writes at most as many bytes as the length says into the ucred it is given.
    let answered = unsafe {
        let into = (&raw mut about).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, into, &mut length)
    };
    if answered == 0 { Ok(about.uid) } else { Err(io::Error::last_os_error()) }
}

pub fn user() -> u32 {
    // SAFETY: asks for a number of this process, and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_free_space_somewhere() {
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
        assert!(free_bytes(Path::new("/nowhere/at/all")).is_err());
        assert!(free_bytes(Path::new("/proc")).is_err(), "a file system without a size says nothing of its room");
    }
}
