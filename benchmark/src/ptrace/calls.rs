//! File system calls: which operation a call is, and the meaning of its arguments.
//!
//! A call is read in two steps. At its entry, the tracee's memory still contains the paths of the call. At its exit, the result
//! is known, and descriptors change.

use std::rc::Rc;
use std::sync::OnceLock;

use dlio_schemas::ops::{Arg, Op, Ret};
use dlio_schemas::record::POS_UNKNOWN;
use libc::c_long;

use super::descriptors::{Description, Descriptors};
use super::kernel;

/// The file of a call, by the numbers of its arguments.
#[derive(Clone, Copy)]
enum Subject {
    Nothing,
    Path(usize),
    /// A path relative to the descriptor of a directory. If it is empty, the descriptor itself.
    At(usize, usize),
    Fd(usize),
}

/// The value of one of the two numbers of an event.
#[derive(Clone, Copy)]
enum Value {
    Nothing,
    /// An argument of 32 bits.
    Int(usize),
    /// An argument of 64 bits.
    Long(usize),
    /// The position of the descriptor before the call, which advances it.
    Position,
    /// The sum of the lengths in a list of buffers; the next argument is the number of buffers.
    Vector(usize),
    /// A second path.
    Path(usize),
    /// A second path relative to the descriptor of a directory.
    At(usize, usize),
    /// A text that is not looked up: the target of a link.
    Text(usize),
    /// The file of another descriptor.
    File(usize),
    /// A number of 64 bits in memory.
    Word(usize, usize),
}

/// One system call.
struct Row {
    number: c_long,
    op: Op,
    subject: Subject,
    a: Value,
    b: Value,
}

const fn row(number: c_long, op: Op, subject: Subject, a: Value, b: Value) -> Row {
    Row { number, op, subject, a, b }
}

use Subject::{At, Fd, Path};
use Value::{Int, Long, Position, Vector};

const NOTHING: Value = Value::Nothing;

/// System calls that all architectures have.
const COMMON: &[Row] = &[
    row(libc::SYS_openat, Op::OPENAT, At(0, 1), Int(3), Int(2)),
    row(libc::SYS_openat2, Op::OPENAT, At(0, 1), Value::Word(2, 1), Value::Word(2, 0)),
    row(libc::SYS_close, Op::CLOSE, Fd(0), NOTHING, NOTHING),
    row(libc::SYS_close_range, Op::CLOSE_RANGE, Subject::Nothing, Int(0), Int(1)),
    row(libc::SYS_dup, Op::DUP, Fd(0), NOTHING, NOTHING),
    row(libc::SYS_dup3, Op::DUP3, Fd(0), Int(1), Int(2)),
    row(libc::SYS_fcntl, Op::FCNTL, Fd(0), Int(1), Int(2)),
    row(libc::SYS_flock, Op::FLOCK, Fd(0), Int(1), NOTHING),
    row(libc::SYS_ioctl, Op::IOCTL, Fd(0), Int(1), NOTHING),
    row(libc::SYS_pipe2, Op::PIPE, Subject::Nothing, NOTHING, Int(1)),
    row(libc::SYS_memfd_create, Op::MEMFD_CREATE, Subject::Nothing, NOTHING, Int(1)),
    row(libc::SYS_read, Op::READ, Fd(0), Position, Long(2)),
    row(libc::SYS_pread64, Op::PREAD, Fd(0), Long(3), Long(2)),
    row(libc::SYS_readv, Op::READV, Fd(0), Position, Vector(1)),
    row(libc::SYS_preadv, Op::PREADV, Fd(0), Long(3), Vector(1)),
    row(libc::SYS_preadv2, Op::PREADV2, Fd(0), Long(3), Vector(1)),
    row(libc::SYS_write, Op::WRITE, Fd(0), Position, Long(2)),
    row(libc::SYS_pwrite64, Op::PWRITE, Fd(0), Long(3), Long(2)),
    row(libc::SYS_writev, Op::WRITEV, Fd(0), Position, Vector(1)),
    row(libc::SYS_pwritev, Op::PWRITEV, Fd(0), Long(3), Vector(1)),
    row(libc::SYS_pwritev2, Op::PWRITEV2, Fd(0), Long(3), Vector(1)),
    row(libc::SYS_lseek, Op::LSEEK, Fd(0), Int(2), Long(1)),
    row(libc::SYS_sendfile, Op::SENDFILE, Fd(0), Value::File(1), Long(3)),
    row(libc::SYS_copy_file_range, Op::COPY_FILE_RANGE, Fd(2), Value::File(0), Long(4)),
    row(libc::SYS_splice, Op::SPLICE, Fd(2), Value::File(0), Long(4)),
    row(libc::SYS_tee, Op::TEE, Fd(1), Value::File(0), Long(2)),
    row(libc::SYS_readahead, Op::READAHEAD, Fd(0), Long(1), Long(2)),
    row(libc::SYS_fsync, Op::FSYNC, Fd(0), NOTHING, NOTHING),
    row(libc::SYS_fdatasync, Op::FDATASYNC, Fd(0), NOTHING, NOTHING),
    row(libc::SYS_sync_file_range, Op::SYNC_FILE_RANGE, Fd(0), Long(1), Long(2)),
    row(libc::SYS_syncfs, Op::SYNCFS, Fd(0), NOTHING, NOTHING),
    row(libc::SYS_sync, Op::SYNC, Subject::Nothing, NOTHING, NOTHING),
    row(libc::SYS_fstat, Op::FSTAT, Fd(0), NOTHING, NOTHING),
    row(libc::SYS_newfstatat, Op::FSTATAT, At(0, 1), NOTHING, Int(3)),
    row(libc::SYS_statx, Op::STATX, At(0, 1), NOTHING, Int(2)),
    row(libc::SYS_statfs, Op::STATFS, Path(0), NOTHING, NOTHING),
    row(libc::SYS_fstatfs, Op::FSTATFS, Fd(0), NOTHING, NOTHING),
    row(libc::SYS_faccessat, Op::FACCESSAT, At(0, 1), Int(2), NOTHING),
    row(libc::SYS_faccessat2, Op::FACCESSAT, At(0, 1), Int(2), Int(3)),
    row(libc::SYS_getdents64, Op::GETDENTS, Fd(0), NOTHING, Long(2)),
    row(libc::SYS_truncate, Op::TRUNCATE, Path(0), Long(1), NOTHING),
    row(libc::SYS_ftruncate, Op::FTRUNCATE, Fd(0), Long(1), NOTHING),
    row(libc::SYS_fallocate, Op::FALLOCATE, Fd(0), Long(2), Long(3)),
    row(libc::SYS_fadvise64, Op::POSIX_FADVISE, Fd(0), Int(3), Long(2)),
    row(libc::SYS_renameat2, Op::RENAMEAT, At(0, 1), Value::At(2, 3), Int(4)),
    row(libc::SYS_linkat, Op::LINKAT, At(0, 1), Value::At(2, 3), Int(4)),
    row(libc::SYS_symlinkat, Op::SYMLINKAT, At(1, 2), Value::Text(0), NOTHING),
    row(libc::SYS_readlinkat, Op::READLINKAT, At(0, 1), NOTHING, Long(3)),
    row(libc::SYS_unlinkat, Op::UNLINKAT, At(0, 1), NOTHING, Int(2)),
    row(libc::SYS_mkdirat, Op::MKDIRAT, At(0, 1), Int(2), NOTHING),
    row(libc::SYS_mknodat, Op::MKNODAT, At(0, 1), Int(2), NOTHING),
    row(libc::SYS_chdir, Op::CHDIR, Path(0), NOTHING, NOTHING),
    row(libc::SYS_fchdir, Op::FCHDIR, Fd(0), NOTHING, NOTHING),
    row(libc::SYS_fchmod, Op::FCHMOD, Fd(0), Int(1), NOTHING),
    row(libc::SYS_fchmodat, Op::FCHMODAT, At(0, 1), Int(2), NOTHING),
    row(libc::SYS_fchown, Op::FCHOWN, Fd(0), Int(1), Int(2)),
    row(libc::SYS_fchownat, Op::FCHOWNAT, At(0, 1), Int(2), Int(3)),
    row(libc::SYS_utimensat, Op::UTIMENSAT, At(0, 1), NOTHING, Int(3)),
    row(libc::SYS_mmap, Op::MMAP, Fd(4), Long(5), Long(1)),
    row(libc::SYS_getxattr, Op::GETXATTR, Path(0), NOTHING, Long(3)),
    row(libc::SYS_fgetxattr, Op::GETXATTR, Fd(0), NOTHING, Long(3)),
    row(libc::SYS_setxattr, Op::SETXATTR, Path(0), NOTHING, Long(3)),
    row(libc::SYS_fsetxattr, Op::SETXATTR, Fd(0), NOTHING, Long(3)),
    row(libc::SYS_listxattr, Op::LISTXATTR, Path(0), NOTHING, Long(2)),
    row(libc::SYS_flistxattr, Op::LISTXATTR, Fd(0), NOTHING, Long(2)),
    row(libc::SYS_clone, Op::CLONE, Subject::Nothing, NOTHING, Long(0)),
    row(libc::SYS_clone3, Op::CLONE, Subject::Nothing, NOTHING, Value::Word(0, 0)),
    row(libc::SYS_execve, Op::EXEC, Path(0), NOTHING, NOTHING),
    row(libc::SYS_execveat, Op::EXEC, At(0, 1), NOTHING, NOTHING),
];

/// System calls that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const OLDER: &[Row] = &[
    row(libc::SYS_open, Op::OPEN, Path(0), Int(2), Int(1)),
    row(libc::SYS_creat, Op::CREAT, Path(0), Int(1), NOTHING),
    row(libc::SYS_dup2, Op::DUP2, Fd(0), Int(1), NOTHING),
    row(libc::SYS_pipe, Op::PIPE, Subject::Nothing, NOTHING, NOTHING),
    row(libc::SYS_stat, Op::STAT, Path(0), NOTHING, NOTHING),
    row(libc::SYS_lstat, Op::LSTAT, Path(0), NOTHING, NOTHING),
    row(libc::SYS_access, Op::ACCESS, Path(0), Int(1), NOTHING),
    row(libc::SYS_getdents, Op::GETDENTS, Fd(0), NOTHING, Long(2)),
    row(libc::SYS_rename, Op::RENAME, Path(0), Value::Path(1), NOTHING),
    row(libc::SYS_renameat, Op::RENAMEAT, At(0, 1), Value::At(2, 3), NOTHING),
    row(libc::SYS_link, Op::LINK, Path(0), Value::Path(1), NOTHING),
    row(libc::SYS_symlink, Op::SYMLINK, Path(1), Value::Text(0), NOTHING),
    row(libc::SYS_readlink, Op::READLINK, Path(0), NOTHING, Long(2)),
    row(libc::SYS_unlink, Op::UNLINK, Path(0), NOTHING, NOTHING),
    row(libc::SYS_mkdir, Op::MKDIR, Path(0), Int(1), NOTHING),
    row(libc::SYS_rmdir, Op::RMDIR, Path(0), NOTHING, NOTHING),
    row(libc::SYS_mknod, Op::MKNOD, Path(0), Int(1), NOTHING),
    row(libc::SYS_chmod, Op::CHMOD, Path(0), Int(1), NOTHING),
    row(libc::SYS_chown, Op::CHOWN, Path(0), Int(1), Int(2)),
    row(libc::SYS_lchown, Op::LCHOWN, Path(0), Int(1), Int(2)),
    row(libc::SYS_utime, Op::UTIME, Path(0), NOTHING, NOTHING),
    row(libc::SYS_utimes, Op::UTIMES, Path(0), NOTHING, NOTHING),
    row(libc::SYS_fork, Op::FORK, Subject::Nothing, NOTHING, NOTHING),
    row(libc::SYS_vfork, Op::VFORK, Subject::Nothing, NOTHING, NOTHING),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[Row] = &[row(libc::SYS_renameat, Op::RENAMEAT, At(0, 1), Value::At(2, 3), NOTHING)];

/// Returns the row of a system call by number.
fn row_of(number: i64) -> Option<&'static Row> {
    static ROWS: OnceLock<Vec<Option<&'static Row>>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| {
        let all = || COMMON.iter().chain(OLDER);
        let length = all().map(|row| row.number as usize + 1).max().unwrap_or(0);
        let mut rows = vec![None; length];
        all().for_each(|row| rows[row.number as usize] = Some(row));
        rows
    });
    *rows.get(usize::try_from(number).ok()?)?
}

/// A file or text that a call names.
pub enum Named {
    Nothing,
    /// A path or an object.
    File(Rc<[u8]>),
}

/// A call between its entry and its exit.
pub struct Call {
    pub op: Op,
    pub started: u64,
    row: &'static Row,
    arguments: [u64; 6],
    file: Option<Rc<[u8]>>,
    descriptor: Option<Rc<Description>>,
    /// The second file or text.
    second: Option<Rc<[u8]>>,
    /// The source of a transfer between descriptors.
    source: Option<Rc<Description>>,
    a: i64,
    b: i64,
}

/// A call that has ended, as an event.
pub struct Event {
    pub op: Op,
    pub file: Named,
    pub fd: i32,
    pub second: Named,
    pub a: i64,
    pub is_known: bool,
    pub b: i64,
    pub result: i64,
}

impl Call {
    /// Reads a call at its entry; `None` if it is not recorded.
    pub fn begin(
        (thread, pid): (i32, i32),
        number: i64,
        arguments: [u64; 6],
        descriptors: &mut Descriptors,
    ) -> Option<Call> {
        let row = row_of(number)?;
        let fd = |at: usize| arguments[at] as i32;
        let (op, started) = (row.op, 0);
        let mut call =
            Call { op, started, row, arguments, file: None, descriptor: None, second: None, source: None, a: 0, b: 0 };
        match row.subject {
            Subject::Nothing => {}
            Path(path) => {
                let path = kernel::read_path(thread, arguments[path])?;
                call.file = Some(descriptors.absolute(pid, libc::AT_FDCWD, &path));
            }
            At(dir, path) => match kernel::read_path(thread, arguments[path]).unwrap_or_default() {
                empty if empty.is_empty() => call.descriptor = descriptors.get(pid, fd(dir)),
                path => call.file = Some(descriptors.absolute(pid, fd(dir), &path)),
            },
            // Anonymous memory.
            Fd(at) if row.op == Op::MMAP && (fd(at) < 0 || arguments[3] as i32 & libc::MAP_ANONYMOUS != 0) => {
                return None;
            }
            Fd(at) => call.descriptor = descriptors.get(pid, fd(at)),
        }
        call.a = call.value((thread, pid), row.a, descriptors);
        call.b = call.value((thread, pid), row.b, descriptors);
        if op == Op::FCNTL && matches!(call.a as i32, libc::F_SETLKW | libc::F_OFD_SETLKW) {
            call.op = Op::FCNTL_SETLKW;
        }
        Some(call)
    }

    /// Returns a number of the event, and notes the second file of the call.
    fn value(&mut self, (thread, pid): (i32, i32), value: Value, descriptors: &mut Descriptors) -> i64 {
        let arguments = self.arguments;
        let path = |at: usize| kernel::read_path(thread, arguments[at]).unwrap_or_default();
        match value {
            Value::Nothing | Position => return 0,
            Int(at) => return arguments[at] as i32 as i64,
            Long(at) => return arguments[at] as i64,
            Vector(at) => return vector_length(thread, arguments[at], arguments[at + 1]),
            Value::Word(at, index) => return kernel::read_words::<2>(thread, arguments[at])[index] as i64,
            Value::Path(at) => self.second = Some(descriptors.absolute(pid, libc::AT_FDCWD, &path(at))),
            Value::At(dir, at) => self.second = Some(descriptors.absolute(pid, arguments[dir] as i32, &path(at))),
            Value::Text(at) => self.second = Some(path(at).into()),
            Value::File(at) => self.source = descriptors.get(pid, arguments[at] as i32),
        }
        0
    }

    /// Reads a call at its exit: applies its effect on descriptors, and returns the event.
    pub fn end(self, (thread, pid): (i32, i32), result: i64, descriptors: &mut Descriptors) -> Event {
        let has_position = matches!(self.op.info().map(|info| info.a), Some(Arg::Position));
        let mut event = Event {
            op: self.op,
            file: Named::Nothing,
            fd: self.fd(),
            second: self.second.clone().map_or(Named::Nothing, Named::File),
            a: self.a,
            is_known: !matches!(self.row.a, Value::Nothing),
            b: self.b,
            result,
        };
        let uses_position = matches!(self.row.a, Position)
            || has_position && self.a == -1 && matches!(self.op, Op::PREADV2 | Op::PWRITEV2);
        if uses_position {
            let is_write = matches!(self.op, Op::WRITE | Op::WRITEV | Op::PWRITEV2);
            event.a = self.descriptor.as_ref().map_or(POS_UNKNOWN, |file| file.advance(result, is_write));
        }
        if has_position {
            event.is_known = event.a != POS_UNKNOWN;
        }
        if let Some(source) = &self.source {
            event.second = Named::File(source.name.clone());
            self.advance_both(source, result);
        }
        let opened = if result >= 0 { self.change((thread, pid), result, descriptors, &mut event) } else { None };
        let named = opened.or(self.file.clone()).or(self.descriptor.as_ref().map(|file| file.name.clone()));
        event.file = named.map_or(Named::Nothing, Named::File);
        event
    }

    fn fd(&self) -> i32 {
        match self.row.subject {
            Fd(at) => self.arguments[at] as i32,
            At(dir, _) if self.file.is_none() => self.arguments[dir] as i32,
            _ => -1,
        }
    }

    /// Advances both ends of a transfer for which the kernel uses their own positions.
    fn advance_both(&self, source: &Description, moved: i64) {
        let (from_offset, to_offset) = match self.op {
            Op::SENDFILE => (self.arguments[2], 0),
            Op::COPY_FILE_RANGE | Op::SPLICE => (self.arguments[1], self.arguments[3]),
            _ => return,
        };
        if from_offset == 0 {
            source.advance(moved, false);
        }
        if let Some(target) = self.descriptor.as_ref().filter(|_| to_offset == 0) {
            target.advance(moved, true);
        }
    }

    /// Applies the effect of a successful call on descriptors. Returns the name of a file that it opened.
    fn change(
        &self,
        (thread, pid): (i32, i32),
        result: i64,
        descriptors: &mut Descriptors,
        event: &mut Event,
    ) -> Option<Rc<[u8]>> {
        if self.op.info().is_some_and(|info| info.ret == Ret::Fd) {
            event.fd = result as i32;
        }
        match self.op {
            Op::OPEN | Op::OPENAT | Op::CREAT => {
                let flags = if self.op == Op::CREAT { 0 } else { self.b as i32 };
                return Some(self.opened(pid, result as i32, flags, descriptors));
            }
            Op::CLOSE => drop(descriptors.close(self.arguments[0] as i32)),
            Op::CLOSE_RANGE if self.arguments[2] as u32 & libc::CLOSE_RANGE_CLOEXEC == 0 => {
                descriptors.close_range(self.arguments[0] as i64, self.arguments[1] as i64)
            }
            Op::DUP | Op::DUP2 | Op::DUP3 => {
                event.a = self.arguments[0] as i32 as i64;
                self.descriptor.iter().for_each(|file| descriptors.set(result as i32, file.clone()));
            }
            Op::FCNTL if matches!(self.a as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                self.descriptor.iter().for_each(|file| descriptors.set(result as i32, file.clone()));
            }
            Op::FCNTL if self.a as i32 == libc::F_SETFL => {
                self.descriptor.iter().for_each(|file| file.set_flags(self.b as i32));
            }
            Op::LSEEK => self.descriptor.iter().for_each(|file| file.set_position(result)),
            Op::CHDIR | Op::FCHDIR => descriptors.forget_working_dir(),
            Op::PIPE => {
                let ends = kernel::read_words::<1>(thread, self.arguments[0])[0];
                let (read, write) = (ends as u32 as i32, (ends >> 32) as i32);
                (event.fd, event.a, event.is_known, event.result) = (read, write as i64, true, read as i64);
                return descriptors.get(pid, read).map(|pipe| pipe.name.clone());
            }
            Op::MEMFD_CREATE => return descriptors.get(pid, result as i32).map(|file| file.name.clone()),
            Op::MMAP => event.result = 0,
            _ => {}
        }
        None
    }

    /// Notes an opened file. The kernel names files without a path, and those behind `..`, whose path may lead
    /// elsewhere.
    fn opened(&self, pid: i32, fd: i32, flags: i32, descriptors: &mut Descriptors) -> Rc<[u8]> {
        descriptors.close(fd);
        let given = self.file.clone().unwrap_or_default();
        let is_plain = flags & libc::O_TMPFILE != libc::O_TMPFILE && !given.windows(3).any(|part| part == b"/..");
        let looked_up = if is_plain { None } else { descriptors.get(pid, fd) };
        let name = looked_up.map_or(given, |file| file.name.clone());
        descriptors.set(fd, Description::new(name.clone(), 0, flags));
        name
    }
}

/// Returns the sum of the lengths in a list of buffers.
fn vector_length(thread: i32, address: u64, count: u64) -> i64 {
    const COUNT_MAX: u64 = 1024;
    const ENTRY: usize = 16;
    let mut bytes = vec![0; count.min(COUNT_MAX) as usize * ENTRY];
    let read = kernel::read_memory(thread, address, &mut bytes);
    let length = |entry: &[u8]| u64::from_ne_bytes(entry[8..].try_into().expect("eight bytes")) as i64;
    bytes[..read].chunks_exact(ENTRY).map(length).fold(0, i64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_calls_are_unique_and_found() {
        let mut numbers: Vec<_> = COMMON.iter().chain(OLDER).map(|row| row.number).collect();
        assert!(numbers.iter().all(|number| row_of(*number).is_some_and(|row| row.number == *number)));
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]), "{numbers:?}");
        assert!(row_of(-1).is_none() && row_of(100_000).is_none());
    }

    #[test]
    fn values_match_the_meaning_of_the_operation() {
        for row in COMMON.iter().chain(OLDER) {
            let info = row.op.info().unwrap();
            let is_name = matches!(row.a, Value::Path(_) | Value::At(..) | Value::Text(_) | Value::File(_));
            assert_eq!(is_name, info.a.is_name(), "{}", info.name);
            assert_eq!(
                matches!(row.a, Position),
                info.moves_bytes() && !is_name && !matches!(row.a, Long(_)),
                "{}",
                info.name
            );
        }
    }
}
