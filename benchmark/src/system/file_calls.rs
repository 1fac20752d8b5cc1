//! File calls and sockets that the standard library lacks.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reads a file of /proc or /sys. The kernel does not report their sizes, and the standard library reads such a file in
/// many small pieces.
pub fn kernel_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    const USUAL: usize = 8 << 10;
    let mut bytes = Vec::with_capacity(USUAL);
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns a path below another root, which is empty except in tests.
pub fn placed(root: &Path, path: &str) -> PathBuf {
    if root.as_os_str().is_empty() { path.into() } else { root.join(path.trim_start_matches('/')) }
}

/// Reads a text like [`kernel_bytes`].
pub fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(kernel_bytes(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Waits until one of the files can be read without blocking or a signal arrives, at most until the limit. Returns
/// which files are ready.
pub fn readable(files: &[&impl AsRawFd], limit: Duration) -> Vec<bool> {
    let poll = |file: &&_| libc::pollfd { fd: AsRawFd::as_raw_fd(*file), events: libc::POLLIN, revents: 0 };
    let mut polls: Vec<libc::pollfd> = files.iter().map(poll).collect();
    // SAFETY: the pointer is to as many pollfds as the count; with a count of 0 nothing is read.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, limit.as_millis() as libc::c_int) };
    polls.iter().map(|poll| poll.revents != 0).collect()
}

/// Returns the bytes an unprivileged user may still write to the file system of `path`, if the file system reports its
/// size.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stats = file_system(path)?;
    if stats.f_blocks == 0 { Err(io::ErrorKind::Unsupported.into()) } else { Ok(stats.f_bavail * stats.f_frsize) }
}

/// Returns the files an unprivileged user may still create on the file system of `path`, if their number is limited.
pub fn free_files(path: &Path) -> io::Result<u64> {
    let stats = file_system(path)?;
    if stats.f_files == 0 { Err(io::ErrorKind::Unsupported.into()) } else { Ok(stats.f_favail) }
}

fn file_system(path: &Path) -> io::Result<libc::statvfs> {
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: the name ends in a zero byte and lives through the call; a zeroed statvfs is valid to be overwritten.
    unsafe {
        let mut stats: libc::statvfs = std::mem::zeroed();
        match libc::statvfs(name.as_ptr(), &mut stats) {
            0 => Ok(stats),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Creates an unnamed file in memory; `name` appears in /proc.
pub fn memory_file(name: &std::ffi::CStr) -> io::Result<File> {
    // SAFETY: the name ends in a zero byte; a descriptor that is not negative is new and has no other owner.
    unsafe {
        match libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(File::from_raw_fd(descriptor)),
        }
    }
}

/// Requests that the kernel drop the file's cached pages. Dirty pages would remain, so they are written first.
pub fn forget_pages(file: &File) -> io::Result<()> {
    file.sync_data()?;
    forget_clean_pages(file)
}

fn forget_clean_pages(file: &File) -> io::Result<()> {
    forget_clean_pages_of(file.as_raw_fd())
}

fn forget_clean_pages_of(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: a hint about an open descriptor.
    match unsafe { libc::posix_fadvise(descriptor, 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// A file of the data set that the benchmark itself opens to query its cached pages. It bypasses the C library, because
/// a trace would attribute those calls to the workload.
pub struct UnseenFile {
    descriptor: RawFd,
}

impl UnseenFile {
    /// Opens a file for reading.
    pub fn open(path: &Path) -> io::Result<UnseenFile> {
        UnseenFile::open_resolved(path, 0)
    }

    /// Opens a file if its name and inode are in memory. Otherwise, returns `None` and reads nothing, so the file is as cold as
    /// before.
    pub fn open_if_in_memory(path: &Path) -> io::Result<Option<UnseenFile>> {
        match UnseenFile::open_resolved(path, libc::RESOLVE_CACHED) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_resolved(path: &Path, resolve: u64) -> io::Result<UnseenFile> {
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        if resolve == 0 {
            // SAFETY: the name ends in a zero byte and lives through the call.
            let opened = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name.as_ptr(), flags) };
            return UnseenFile::of(opened);
        }
        // SAFETY: a zeroed open_how requests nothing.
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = flags as u64;
        how.resolve = resolve;
        let size = size_of::<libc::open_how>();
        // SAFETY: the name ends in a zero byte, the given size is that of `how`, and both live through the call.
        let opened = unsafe { libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, name.as_ptr(), &raw const how, size) };
        UnseenFile::of(opened)
    }

    fn of(opened: libc::c_long) -> io::Result<UnseenFile> {
        if opened < 0 { Err(io::Error::last_os_error()) } else { Ok(UnseenFile { descriptor: opened as RawFd }) }
    }

    /// Returns the length of a regular file. The size of a directory has no meaning.
    pub fn length(&self) -> io::Result<u64> {
        // SAFETY: a zeroed stat is a valid value.
        let mut found: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: an open descriptor, and a struct that lives through the call.
        if unsafe { libc::syscall(libc::SYS_fstat, self.descriptor, &raw mut found) } != 0 {
            return Err(io::Error::last_os_error());
        }
        match found.st_mode & libc::S_IFMT {
            libc::S_IFREG => Ok(found.st_size as u64),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    /// Requests that the kernel drop the file's cached pages. Dirty pages would remain, so they are written first.
    pub fn forget_pages(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open; no memory is passed.
        match unsafe { libc::syscall(libc::SYS_fdatasync, self.descriptor) } {
            0 => forget_clean_pages_of(self.descriptor),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl AsRawFd for UnseenFile {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor
    }
}

impl Drop for UnseenFile {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open and owned by this value.
        unsafe { libc::syscall(libc::SYS_close, self.descriptor) };
    }
}

/// Returns `true` if a directory is on a local file system. There, a file whose name is not in memory has no pages in
/// memory; a network file system may have to query its server for a name although the pages are here.
pub fn is_on_this_machine(folder: &Path) -> bool {
    let Ok(name) = std::ffi::CString::new(folder.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: the name ends in a zero byte and lives through the call; a zeroed statfs is valid to be overwritten.
    unsafe {
        let mut about: libc::statfs = std::mem::zeroed();
        libc::statfs(name.as_ptr(), &mut about) == 0 && LOCAL_FILE_SYSTEMS.contains(&(about.f_type as u32))
    }
}

/// File system types by number: ext4, XFS, Btrfs, tmpfs, F2FS, overlayfs, ZFS.
const LOCAL_FILE_SYSTEMS: [u32; 7] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010, 0x794C_7630, 0x2FC1_2FC1];

/// Drops the page cache of the whole host; only root may.
pub fn drop_page_cache() -> io::Result<()> {
    // SAFETY: no arguments, no memory. Bypasses the C library, as above.
    unsafe { libc::syscall(libc::SYS_sync) };
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Returns the user whose process created the other end of a local socket.
pub fn user_at_the_other_end(stream: &UnixStream) -> io::Result<u32> {
    let mut about = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: writes at most `length` bytes into the ucred it is given.
    let answered = unsafe {
        let into = (&raw mut about).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, into, &mut length)
    };
    if answered == 0 { Ok(about.uid) } else { Err(io::Error::last_os_error()) }
}

pub fn user() -> u32 {
    // SAFETY: returns a number of this process and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_file_opens_and_missing_file_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 5000]).unwrap();
        let file = UnseenFile::open_if_in_memory(&path).unwrap().unwrap();
        assert_eq!(file.length().unwrap(), 5000);
        assert_eq!(crate::system::buffer::resident_pages(&file, 5000).unwrap(), (2, 2));
        assert!(UnseenFile::open(&folder.path().join("other")).is_err());
    }

    #[test]
    fn there_is_free_space_somewhere() {
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
        assert!(free_bytes(Path::new("/nowhere/at/all")).is_err());
        assert!(free_bytes(Path::new("/proc")).is_err(), "a file system without a size says nothing of its room");
    }
}
