//! System calls made by the tracer itself. They go directly to the kernel, so no hook sees them and errno is
//! unchanged.
//!
//! Results are the kernel's: negative numbers are `-errno`. Nothing here allocates or locks, and all of it may run in
//! a signal handler.

use std::arch::asm;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use dlio_schemas::decimal::decimal;
use libc::{c_int, c_long};

use crate::kernel::vdso;

/// The unit in which memory is allocated and protected.
pub const PAGE: usize = 4096;

/// Makes a system call.
///
/// # Safety
/// The arguments must match what the kernel expects of this call.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn call(number: c_long, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel clobbers rcx and r11 and nothing else; the caller vouches for the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") args[0], in("rsi") args[1],
            in("rdx") args[2], in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Makes a system call.
///
/// # Safety
/// The arguments must match what the kernel expects of this call.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub unsafe fn call(number: c_long, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel keeps every register but x0; the caller vouches for the arguments.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") args[0] => result, in("x1") args[1], in("x2") args[2],
            in("x3") args[3], in("x4") args[4], in("x5") args[5], options(nostack));
    }
    result
}

macro_rules! kernel {
    ($number:ident $(, $arg:expr)*) => {{
        let given: &[usize] = &[$($arg as usize),*];
        let mut args = [0; 6];
        args[..given.len()].copy_from_slice(given);
        // SAFETY: every wrapper in this module passes live buffers with their own lengths, or plain numbers.
        unsafe { call(libc::$number, args) }
    }};
}

/// Permissions removed from created files, and whether the user requested them. A requested mask overrides the
/// process's own.
static UMASK: AtomicU32 = AtomicU32::new(UMASK_DEFAULT);
static UMASK_ASKED: AtomicBool = AtomicBool::new(false);
pub const UMASK_DEFAULT: u32 = 0o077;

pub fn set_umask(mask: u32) {
    UMASK.store(mask & 0o777, Relaxed);
    UMASK_ASKED.store(true, Relaxed);
}

/// Opens a file with close-on-exec. In a directory that others can write to, any name may be occupied by anything, so
/// links are not followed, pipes do not block, and a created file did not exist before.
pub fn open(path: &CStr, flags: c_int) -> isize {
    open_at(libc::AT_FDCWD, path, flags)
}

/// Opens a file like [`open`], relative to an open directory.
pub fn open_at(folder: c_int, path: &CStr, flags: c_int) -> isize {
    let creates = flags & libc::O_CREAT != 0;
    let always = libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK | if creates { libc::O_EXCL } else { 0 };
    let mode = 0o666 & !UMASK.load(Relaxed);
    let fd = kernel!(SYS_openat, folder as isize, path.as_ptr(), flags | always, mode);
    if creates && fd >= 0 && UMASK_ASKED.load(Relaxed) {
        kernel!(SYS_fchmod, fd, mode);
    }
    fd
}

/// Opens a program for inspection. Links are followed, because their target is the program that would run.
pub fn open_program(path: &CStr) -> isize {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    kernel!(SYS_openat, libc::AT_FDCWD as isize, path.as_ptr(), flags)
}

/// Reads up to the buffer's size at an offset of a file.
pub fn read_at(fd: c_int, into: &mut [u8], at: usize) -> &[u8] {
    let length = kernel!(SYS_pread64, fd, into.as_mut_ptr(), into.len(), at);
    &into[..length.max(0) as usize]
}

/// Reads from the current position of a file.
pub fn read(fd: c_int, into: &mut [u8]) -> &[u8] {
    let length = kernel!(SYS_read, fd, into.as_mut_ptr(), into.len());
    &into[..length.max(0) as usize]
}

/// Returns `true` if a program gains privileges from the extended attributes of its file.
pub fn has_capabilities(fd: c_int) -> bool {
    kernel!(SYS_fgetxattr, fd, c"security.capability".as_ptr(), std::ptr::null_mut::<u8>(), 0usize) > 0
}

/// The type and identity of an open file or of the target of a path.
#[derive(Clone, Copy, Debug)]
pub struct FileStatus {
    pub is_file: bool,
    pub is_folder: bool,
    pub owner: u32,
    pub group: u32,
    /// Permissions of owner, group and others.
    pub mode: u32,
    pub size: u64,
    /// Number of hard links.
    pub links: u64,
    /// Device and inode: no two files share them.
    pub identity: [u64; 2],
}

/// Returns the status of an open file.
pub fn status(fd: c_int) -> Option<FileStatus> {
    look(fd, c"", libc::AT_EMPTY_PATH)
}

/// Returns the status of the file at a path, without following a link there.
pub fn status_at(path: &CStr) -> Option<FileStatus> {
    look(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW)
}

fn look(folder: c_int, path: &CStr, flags: c_int) -> Option<FileStatus> {
    // SAFETY: stat is a struct of integers, for which zero is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    if kernel!(SYS_newfstatat, folder as isize, path.as_ptr(), &raw mut stat, flags) != 0 {
        return None;
    }
    let kind = stat.st_mode & libc::S_IFMT;
    Some(FileStatus {
        is_file: kind == libc::S_IFREG,
        is_folder: kind == libc::S_IFDIR,
        owner: stat.st_uid,
        group: stat.st_gid,
        mode: stat.st_mode & 0o7777,
        size: stat.st_size as u64,
        links: stat.st_nlink as u64,
        identity: [stat.st_dev, stat.st_ino],
    })
}

/// Returns the type of an open file as in `stat`, the device number if it is a device, and the inode; zeros if the
/// descriptor is not open.
pub fn type_device_and_inode(fd: c_int) -> (u32, u64, u64) {
    // SAFETY: stat is a struct of integers, for which zero is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    kernel!(SYS_fstat, fd as isize, &raw mut stat);
    (stat.st_mode & libc::S_IFMT, stat.st_rdev, stat.st_ino)
}

/// Returns an unpredictable number.
pub fn random() -> u64 {
    let mut number = 0u64;
    let got = kernel!(SYS_getrandom, &raw mut number, 8, libc::GRND_NONBLOCK);
    // Early after boot there is no randomness yet; a name that already exists is refused anyway.
    if got == 8 { number } else { clock_ns(libc::CLOCK_MONOTONIC) ^ (process_id() as u64) << 40 }
}

pub fn close(fd: c_int) {
    kernel!(SYS_close, fd);
}

/// Duplicates a descriptor to the lowest free number not below `from`.
pub fn duplicate_from(fd: c_int, from: c_int) -> isize {
    kernel!(SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, from)
}

/// Writes all bytes, or returns the error that stopped it.
pub fn write_all(fd: c_int, mut bytes: &[u8]) -> isize {
    while !bytes.is_empty() {
        match kernel!(SYS_write, fd, bytes.as_ptr(), bytes.len()) {
            n if n > 0 => bytes = &bytes[n as usize..],
            0 => return -libc::EIO as isize,
            n if n == -libc::EINTR as isize => {}
            error => return error,
        }
    }
    0
}

/// Writes several buffers in order, in one call if the file accepts that, or returns the error that stopped it. If
/// the file accepted them in parts and another process appended in between, the data is torn, which is also an error.
pub fn write_pieces<const N: usize>(fd: c_int, pieces: [&[u8]; N]) -> isize {
    let list = pieces.map(|piece| libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
    let whole: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut written = match kernel!(SYS_writev, fd, list.as_ptr(), N) {
        n if n == -libc::EINTR as isize => 0,
        error if error < 0 => return error,
        n => n as usize,
    };
    if written == whole {
        return 0;
    }
    let (from, rest) = (position(fd), whole - written);
    for piece in pieces {
        let done = written.min(piece.len());
        written -= done;
        match write_all(fd, &piece[done..]) {
            0 => {}
            error => return error,
        }
    }
    // If nothing has been written yet, nothing is torn.
    if rest == whole || position(fd) == from + rest as isize { 0 } else { -libc::EIO as isize }
}

fn position(fd: c_int) -> isize {
    kernel!(SYS_lseek, fd, 0, libc::SEEK_CUR)
}

/// Returns the size of an open file.
pub fn size(fd: c_int) -> isize {
    kernel!(SYS_lseek, fd, 0, libc::SEEK_END)
}

/// Allocates `length` bytes of a file at `at`, so that writing through a mapping cannot fail.
pub fn reserve(fd: c_int, at: usize, length: usize) -> isize {
    match kernel!(SYS_fallocate, fd, 0, at, length) {
        error if error == -libc::EOPNOTSUPP as isize => fill(fd, at, length),
        result => result,
    }
}

/// Writes zeros to a file. Used on file systems that cannot preallocate, and for a few pages: if a file's pages are
/// already in memory, the first store into each is cheaper, and deleting the file soon afterwards has less to free.
pub fn fill(fd: c_int, at: usize, length: usize) -> isize {
    static ZEROS: [u8; PAGE] = [0; PAGE];
    const AT_ONCE: usize = 16;
    let (mut at, end) = (at, at + length);
    while at < end {
        let mut pieces = [libc::iovec { iov_base: ZEROS.as_ptr().cast_mut().cast(), iov_len: PAGE }; AT_ONCE];
        let count = (end - at).div_ceil(PAGE).min(AT_ONCE);
        pieces[count - 1].iov_len = (end - at - (count - 1) * PAGE).min(PAGE);
        match kernel!(SYS_pwritev, fd, pieces.as_ptr(), count, at, 0) {
            n if n > 0 => at += n as usize,
            0 => return -libc::EIO as isize,
            error => return error,
        }
    }
    0
}

pub fn truncate(fd: c_int, length: usize) -> isize {
    kernel!(SYS_ftruncate, fd, length)
}

/// Renames a file; each side is a directory and a name in it.
pub fn rename_at(from: (c_int, &CStr), to: (c_int, &CStr)) -> isize {
    kernel!(SYS_renameat2, from.0 as isize, from.1.as_ptr(), to.0 as isize, to.1.as_ptr(), 0)
}

/// Renames a file like [`rename_at`], but fails if the new name exists.
pub fn rename_new_at(from: (c_int, &CStr), to: (c_int, &CStr)) -> isize {
    let flags = libc::RENAME_NOREPLACE;
    kernel!(SYS_renameat2, from.0 as isize, from.1.as_ptr(), to.0 as isize, to.1.as_ptr(), flags)
}

pub fn unlink(path: &CStr) -> isize {
    unlink_at(libc::AT_FDCWD, path)
}

pub fn unlink_at(folder: c_int, path: &CStr) -> isize {
    kernel!(SYS_unlinkat, folder as isize, path.as_ptr(), 0)
}

/// Creates an empty file without keeping a descriptor. An existing file is unchanged.
pub fn make_empty_at(folder: c_int, path: &CStr) -> isize {
    let (here, mode) = (folder as isize, 0o666 & !UMASK.load(Relaxed));
    let made = kernel!(SYS_mknodat, here, path.as_ptr(), libc::S_IFREG | mode, 0);
    if made == 0 && UMASK_ASKED.load(Relaxed) {
        kernel!(SYS_fchmodat, here, path.as_ptr(), mode);
    }
    made
}

pub fn make_dir(path: &CStr) -> isize {
    let (here, mode) = (libc::AT_FDCWD as isize, 0o777 & !UMASK.load(Relaxed));
    let made = kernel!(SYS_mkdirat, here, path.as_ptr(), mode);
    if made == 0 && UMASK_ASKED.load(Relaxed) {
        kernel!(SYS_fchmodat, here, path.as_ptr(), mode);
    }
    made
}

/// Returns `true` if the file may be executed (`X_OK`), read (`R_OK`) and so on.
pub fn accessible(path: &CStr, mode: c_int) -> bool {
    accessible_at(libc::AT_FDCWD, path, mode)
}

/// Checks access like [`accessible`], relative to an open directory.
pub fn accessible_at(folder: c_int, path: &CStr, mode: c_int) -> bool {
    kernel!(SYS_faccessat, folder as isize, path.as_ptr(), mode) == 0
}

/// Returns the target of a symbolic link; empty if it is not a link.
pub fn read_link<'a>(path: &CStr, into: &'a mut [u8]) -> &'a [u8] {
    let length = kernel!(SYS_readlinkat, libc::AT_FDCWD as isize, path.as_ptr(), into.as_mut_ptr(), into.len());
    &into[..length.max(0) as usize]
}

/// Returns the path of the /proc link for a descriptor.
pub fn descriptor_link(fd: c_int, room: &mut [u8; 32]) -> &CStr {
    const FOLDER: &[u8] = b"/proc/self/fd/";
    let mut digits = [0; 20];
    let digits = decimal(fd as i64, &mut digits);
    room.fill(0);
    room[..FOLDER.len()].copy_from_slice(FOLDER);
    // A negative number resolves to nothing, regardless of its length.
    let length = digits.len().min(room.len() - 1 - FOLDER.len());
    room[FOLDER.len()..FOLDER.len() + length].copy_from_slice(&digits[..length]);
    CStr::from_bytes_until_nul(room).unwrap_or_default()
}

/// Returns the working directory; empty if it cannot be determined.
pub fn working_dir(into: &mut [u8]) -> &[u8] {
    // The length counts the closing zero.
    let length = kernel!(SYS_getcwd, into.as_mut_ptr(), into.len());
    &into[..(length - 1).max(0) as usize]
}

/// Reads a small file of /proc or /sys; empty if it cannot be read.
pub fn read_small<'a>(path: &CStr, into: &'a mut [u8]) -> &'a [u8] {
    let fd = open(path, libc::O_RDONLY);
    if fd < 0 {
        return &[];
    }
    let length = kernel!(SYS_read, fd, into.as_mut_ptr(), into.len());
    close(fd as c_int);
    &into[..length.max(0) as usize]
}

/// Returns the NUMA nodes from which this process may get memory, one bit per node; zero if unknown, or if a node has a
/// number above 62.
pub fn memory_nodes() -> u64 {
    /// The kernel rejects fewer bits than it supports.
    const WORDS: usize = 64;
    const MPOL_F_MEMS_ALLOWED: usize = 4;
    let mut nodes = [0u64; WORDS];
    let nothing = std::ptr::null_mut::<i32>();
    let result = kernel!(SYS_get_mempolicy, nothing, nodes.as_mut_ptr(), WORDS * 64, 0usize, MPOL_F_MEMS_ALLOWED);
    let is_small = nodes[0] <= i64::MAX as u64 && nodes[1..].iter().all(|word| *word == 0);
    if result == 0 && is_small { nodes[0] } else { 0 }
}

/// Returns the type of the file system of a path, as `statfs` numbers it.
pub fn file_system(path: &CStr) -> Option<i64> {
    // SAFETY: statfs is a struct of integers, for which zero is a value.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    let result = kernel!(SYS_statfs, path.as_ptr(), &raw mut found);
    (result == 0).then_some(found.f_type as i64)
}

/// Returns the type of the file system of an open file.
pub fn file_system_of(fd: c_int) -> Option<i64> {
    file_system_words(fd).map(|words| words[0] as i64)
}

/// Returns `true` if programs on an open file's mount gain no privileges.
pub fn grants_no_privileges(fd: c_int) -> bool {
    /// The word with the flags of the mount, which `libc::statfs` does not name.
    const FLAGS: usize = 10;
    file_system_words(fd).is_some_and(|words| words[FLAGS] & libc::ST_NOSUID != 0)
}

/// Returns the words of `statfs` in the kernel's layout for 64 bits.
fn file_system_words(fd: c_int) -> Option<[u64; size_of::<libc::statfs>() / 8]> {
    let mut words = [0; size_of::<libc::statfs>() / 8];
    (kernel!(SYS_fstatfs, fd as isize, words.as_mut_ptr()) == 0).then_some(words)
}

/// Returns the capacity in bytes of the file system of a path.
pub fn file_system_size(path: &CStr) -> Option<u64> {
    // SAFETY: as above.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    let result = kernel!(SYS_statfs, path.as_ptr(), &raw mut found);
    (result == 0).then(|| (found.f_blocks as u64).saturating_mul(found.f_bsize.max(0) as u64))
}

/// One bit per CPU that a host may have.
pub type CpuMask = [u64; 64];

/// Returns the CPUs that a thread may run on; 0 is the calling thread.
pub fn cpus_allowed(thread: i32) -> Option<CpuMask> {
    let mut mask = [0; 64];
    let length = kernel!(SYS_sched_getaffinity, thread, size_of::<CpuMask>(), mask.as_mut_ptr());
    (length > 0).then_some(mask)
}

/// Returns the soft limit of a resource.
pub fn limit(resource: u32) -> Option<u64> {
    let mut both = [0u64; 2];
    let result = kernel!(SYS_prlimit64, 0, resource, 0, both.as_mut_ptr());
    (result == 0).then_some(both[0])
}

/// Returns the scheduling policy of the main thread, as the kernel numbers it, and its nice value.
pub fn scheduling(process: i32) -> (Option<i32>, Option<i32>) {
    const RESETS_ON_FORK: i32 = 0x4000_0000;
    let policy = kernel!(SYS_sched_getscheduler, process) as i32;
    // The system call returns 20 minus the value, so that no value looks like an error.
    let nice = kernel!(SYS_getpriority, libc::PRIO_PROCESS, process) as i32;
    ((policy >= 0).then_some(policy & !RESETS_ON_FORK), (1..=40).contains(&nice).then_some(20 - nice))
}

/// Calls `each` with the ids of this process's threads, as long as it returns true.
pub fn each_thread(mut each: impl FnMut(i32) -> bool) {
    let folder = open(c"/proc/self/task", libc::O_RDONLY | libc::O_DIRECTORY);
    if folder < 0 {
        return;
    }
    let mut entries = [0u8; 1024];
    'all: loop {
        let length = kernel!(SYS_getdents64, folder, entries.as_mut_ptr(), entries.len());
        let mut rest = &entries[..length.max(0) as usize];
        if rest.is_empty() {
            break;
        }
        // Each entry is: inode, offset: u64, length: u16, type: u8, name.
        while let Some(entry) = rest.get(16..18).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]) as usize)
            && entry > 19
            && entry <= rest.len()
        {
            let name = &rest[19..entry];
            let digits = &name[..name.iter().position(|&byte| byte == 0).unwrap_or(name.len())];
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            if number.is_some_and(|number| !each(number)) {
                break 'all;
            }
            rest = &rest[entry..];
        }
    }
    close(folder as c_int);
}

/// Returns `true` if the file system of a path is mounted read-only.
pub fn is_read_only(path: &CStr) -> bool {
    kernel!(SYS_faccessat, libc::AT_FDCWD as isize, path.as_ptr(), libc::W_OK) == -libc::EROFS as isize
}

pub fn process_id() -> i32 {
    kernel!(SYS_getpid) as i32
}

pub fn parent_id() -> i32 {
    kernel!(SYS_getppid) as i32
}

pub fn thread_id() -> u32 {
    kernel!(SYS_gettid) as u32
}

/// Allows a process to attach to this one by ptrace, where the Yama security module restricts that; 0 revokes it.
pub fn allow_ptrace(process: i32) {
    kernel!(SYS_prctl, libc::PR_SET_PTRACER, process as isize, 0, 0, 0);
}

/// Returns the kernel's counts for the calling thread; its CPU time is up to the last switch or tick.
pub fn thread_usage() -> Option<libc::rusage> {
    // SAFETY: rusage is a struct of integers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    (kernel!(SYS_getrusage, libc::RUSAGE_THREAD as isize, &raw mut usage) == 0).then_some(usage)
}

/// Copies the name of the calling thread, padded with zeros.
pub fn thread_name(into: &mut [u8; 16]) {
    kernel!(SYS_prctl, libc::PR_GET_NAME, into.as_mut_ptr(), 0, 0, 0);
}

pub fn user_id() -> u32 {
    kernel!(SYS_geteuid) as u32
}

/// Returns the real user and group, which started the process.
pub fn real_ids() -> (u32, u32) {
    (kernel!(SYS_getuid) as u32, kernel!(SYS_getgid) as u32)
}

/// Returns `true` if an exec of this process grants no privileges, regardless of the program.
pub fn has_no_new_privileges() -> bool {
    kernel!(SYS_prctl, libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1
}

/// Maps fresh zeroed memory; null on failure.
pub fn map_memory(length: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    pointer(kernel!(SYS_mmap, 0, length, libc::PROT_READ | libc::PROT_WRITE, flags, -1isize, 0))
}

/// Maps a part of an open file as shared memory; null on failure.
pub fn map_file(fd: c_int, at: usize, length: usize) -> *mut u8 {
    pointer(kernel!(SYS_mmap, 0, length, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd, at))
}

/// Maps a whole file for reading; null on failure.
pub fn map_to_read(fd: c_int, length: usize) -> *const u8 {
    pointer(kernel!(SYS_mmap, 0, length, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0))
}

/// Replaces mapped memory with fresh zeroed memory. Returns `false` on failure.
pub fn map_memory_over(start: *mut u8, length: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let mapped = kernel!(SYS_mmap, start, length, libc::PROT_READ | libc::PROT_WRITE, flags, -1isize, 0);
    mapped == start as isize
}

/// Atomically replaces the mapping at `to` with memory from `from`.
pub fn move_memory(from: *mut u8, length: usize, to: *mut u8) {
    kernel!(SYS_mremap, from, length, length, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to);
}

fn pointer(mapped: isize) -> *mut u8 {
    // The last page of the address space represents the kernel's errors.
    if (-4095..0).contains(&mapped) { std::ptr::null_mut() } else { mapped as *mut u8 }
}

pub fn unmap(memory: *mut u8, length: usize) {
    kernel!(SYS_munmap, memory, length);
}

/// Zeroes this memory in every forked child, however it is forked. Returns `false` if the kernel does not support
/// that.
pub fn wipe_on_fork(memory: *mut u8, length: usize) -> bool {
    kernel!(SYS_madvise, memory, length, libc::MADV_WIPEONFORK) == 0
}

/// Blocks a signal while `work` runs; one that `work` itself raised is discarded.
pub fn without_signal<T>(signal: c_int, work: impl FnOnce() -> T) -> T {
    let bit = 1u64 << (signal - 1);
    let (mut before, mut pending) = (0u64, 0u64);
    kernel!(SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const bit, &raw mut before, 8);
    kernel!(SYS_rt_sigpending, &raw mut pending, 8);
    let result = work();
    let mut now = 0u64;
    kernel!(SYS_rt_sigpending, &raw mut now, 8);
    if now & bit != 0 && pending & bit == 0 {
        take_signal(signal);
    }
    kernel!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0, 8);
    result
}

/// Sets the action for a signal, in the kernel's own structure, and stores the previous action.
pub fn set_action(signal: c_int, new: *const u8, before: *mut u8) {
    kernel!(SYS_rt_sigaction, signal, new, before, 8);
}

/// Sends a signal to the calling thread.
pub fn raise(signal: c_int) {
    kernel!(SYS_tgkill, process_id(), thread_id(), signal);
}

/// Discards a blocked signal if it is pending.
pub fn take_signal(signal: c_int) {
    let (bit, at_once) = (1u64 << (signal - 1), [0u64; 2]);
    kernel!(SYS_rt_sigtimedwait, &raw const bit, 0, &raw const at_once, 8);
}

/// Blocks all signals that can be blocked, except the one that a store into a ring may raise; returns the previous
/// mask.
pub fn hold_signals() -> u64 {
    let (all, mut before) = (!(1u64 << (libc::SIGBUS - 1)), 0u64);
    kernel!(SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const all, &raw mut before, 8);
    before
}

/// Restores the previous signal mask.
pub fn release_signals(before: u64) {
    kernel!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0, 8);
}

/// Returns `true` if a thread of this process is alive.
pub fn thread_exists(thread: u32) -> bool {
    kernel!(SYS_tgkill, process_id(), thread, 0) != -libc::ESRCH as isize
}

/// Returns `true` if a process is alive: signal 0 sends nothing.
pub fn process_exists(process: i32) -> bool {
    kernel!(SYS_kill, process, 0) != -libc::ESRCH as isize
}

/// Returns `true` if memory can be read: it is passed to the kernel as a path.
pub fn is_readable(address: *const u8) -> bool {
    kernel!(SYS_faccessat, libc::AT_FDCWD as isize, address, libc::F_OK) != -libc::EFAULT as isize
}

/// Returns `true` if one byte at each address can be read, or if the kernel forbids the check. Consecutive addresses
/// on one page need only one check: strings of an environment are next to each other.
pub fn are_readable(addresses: &[*const libc::c_char]) -> bool {
    const AT_ONCE: usize = 16;
    let (process, mut from, mut used, mut last) = (process_id(), [NOTHING; AT_ONCE], 0, usize::MAX);
    for address in addresses {
        let page = address.addr() / PAGE;
        if page == last {
            continue;
        }
        if used == AT_ONCE && !can_read(process, &from) {
            return false;
        }
        used %= AT_ONCE;
        from[used] = libc::iovec { iov_base: address.cast_mut().cast(), iov_len: 1 };
        (used, last) = (used + 1, page);
    }
    can_read(process, &from[..used])
}

const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Returns `true` if the given ranges can be read.
fn can_read(process: i32, from: &[libc::iovec]) -> bool {
    let mut bytes = [0u8; 64];
    let into = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: from.len() };
    let read = kernel!(SYS_process_vm_readv, process, &raw const into, 1, from.as_ptr(), from.len(), 0);
    read == from.len() as isize || read < 0 && read != -libc::EFAULT as isize
}

/// Yields the processor once; for a lock that another thread holds.
pub fn yield_now() {
    kernel!(SYS_sched_yield);
}

/// Sleeps while a number has the expected value, until [`wake_all`] is called, a signal arrives or the time is over.
pub fn wait_on(number: &AtomicU32, expected: u32, ns: u64) {
    let time = [ns / 1_000_000_000, ns % 1_000_000_000];
    kernel!(SYS_futex, number.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, time.as_ptr());
}

/// Wakes all threads that sleep on a number.
pub fn wake_all(number: &AtomicU32) {
    kernel!(SYS_futex, number.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX);
}

const MEMBARRIER_EXPEDITED: usize = 1 << 3;
const MEMBARRIER_REGISTER_EXPEDITED: usize = 1 << 4;

/// Registers the process for [`barrier_for_all`]. This is immediate with one thread and takes tens of milliseconds
/// later.
pub fn allow_barriers() {
    kernel!(SYS_membarrier, MEMBARRIER_REGISTER_EXPEDITED, 0);
}

/// Makes every running thread of the process pass a memory barrier: their earlier stores become visible here, and
/// stores from here become visible to them. Registers the process first if necessary, for a thread whose start was not
/// seen. If the kernel lacks the call, this waits instead.
pub fn barrier_for_all() {
    let passed = || kernel!(SYS_membarrier, MEMBARRIER_EXPEDITED, 0) == 0;
    if passed() {
        return;
    }
    allow_barriers();
    if !passed() {
        (0..3).for_each(|_| yield_now());
    }
}

/// Returns the time of a kernel clock in nanoseconds.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    if !vdso::clock(clock, &mut now) {
        kernel!(SYS_clock_gettime, clock, &raw mut now);
    }
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Prints a message to the user. If stderr cannot be written, there is no remedy.
pub fn say(parts: &[&[u8]]) {
    let mut line = [0u8; 1024];
    let mut used = 0;
    let all = std::iter::once(&b"dliotrace: "[..]).chain(parts.iter().copied()).chain(std::iter::once(&b"\n"[..]));
    for part in all {
        let length = part.len().min(line.len() - used);
        line[used..used + length].copy_from_slice(&part[..length]);
        used += length;
    }
    // If stderr is a pipe without a reader, or a file at its size limit, the write would kill the program.
    without_signal(libc::SIGPIPE, || {
        without_signal(libc::SIGXFSZ, || write_all(libc::STDERR_FILENO, &line[..used]));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_signal_is_discarded_and_mask_restored() {
        let survived = without_signal(libc::SIGXFSZ, || {
            // SAFETY: raising a blocked signal at ourselves.
            unsafe { libc::raise(libc::SIGXFSZ) };
            true
        });
        assert!(survived);
        let mut mask = 0u64;
        kernel!(SYS_rt_sigprocmask, libc::SIG_BLOCK, 0, &raw mut mask, 8);
        assert_eq!(mask & (1 << (libc::SIGXFSZ - 1)), 0);
    }

    #[test]
    fn links_and_small_files_are_read() {
        let mut buffer = [0; 256];
        assert!(!read_link(c"/proc/self/exe", &mut buffer).is_empty());
        assert!(read_small(c"/proc/self/comm", &mut buffer).ends_with(b"\n"));
        assert!(read_small(c"/no/such/file", &mut buffer).is_empty());
    }
}
