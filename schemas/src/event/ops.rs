//! The list of operations: all kinds of events in a trace.
//!
//! One row per operation. A row's number is written into traces, so a number is never reused and never changes its
//! meaning; new rows are added at the end of their group. `open64`, `__open_2` and `open` are one operation: the form
//! that a program was compiled with is irrelevant to its I/O.
//!
//! An event has three numbers in addition to its file and descriptor. Their meaning depends on the operation and is
//! defined here, so that no reader has to guess: `a` (the column `pos` if it is a position), `b` (the column
//! `requested` if it is a size) and the result.

/// Number of an operation; at most [`OP_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct Op(pub u16);

/// Maximum: a record has ten bits for an operation.
pub const OP_MAX: u16 = 1023;

/// The interface that the call belongs to. It is the column `cat`, except for spans, which have their own category.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    Posix,
    Stdio,
    Process,
    App,
    Wait,
    /// Requests to object stores, recorded by the client: see `dlio_tracer::io`.
    Object,
    /// Messages between processes, on this host and others: sockets, and the objects created for them.
    Net,
    /// Calls of the HDF5 library. The file calls that it makes are recorded too, inside them, so these never count
    /// as I/O on files.
    Hdf5,
    /// Calls of MPI-IO: like calls of HDF5, they contain the file calls that the library makes.
    Mpi,
    /// Calls of CUDA and HIP in which the host waits for a device. They move no data of files.
    Device,
}

/// The purpose of the call; the column `class`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    Read,
    Write,
    Metadata,
    Sync,
    Compute,
    Other,
    /// No data is moved: the caller waits for something to happen.
    Wait,
}

/// The meaning of one of the two argument numbers of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    None,
    /// Byte position in the file; [`crate::event::record::POS_UNKNOWN`] if unknown.
    Position,
    /// Requested bytes.
    Size,
    /// Open or operation flags.
    Flags,
    /// Permission bits.
    Mode,
    /// `SEEK_SET` and similar.
    Whence,
    /// Signed distance of a seek.
    Offset,
    /// Name id of a second path (the target of a rename, the text of a link).
    Path,
    /// Name id of the file that bytes came from, if both sides of a call are files.
    Source,
    /// A second descriptor.
    Fd,
    /// A command number, as of `fcntl` or `flock`.
    Command,
    /// A number without a separate column: entries of a list, seconds, owners.
    Count,
    /// Packed `epoch` and `step` of a span: see [`crate::event::record::pack_steps`].
    Steps,
    /// The value of a counter, as the bits of an `f64`.
    Value,
    /// The semaphore, condition or barrier of a wait: its address, or the id of one shared by processes.
    Object,
    /// The thread that ended a wait, packed: see [`crate::event::evidence::Waker`].
    Waker,
    /// A child that was waited for, and how it ended, packed: see [`crate::event::evidence::Child`].
    Child,
}

/// The meaning of the result of an event. A negative result is always `-errno`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ret {
    /// Zero, or a number without a defined meaning.
    Status,
    /// Bytes moved.
    Bytes,
    /// A descriptor.
    Fd,
    /// A byte position.
    Position,
    /// A process id.
    Pid,
}

/// One row of the list.
#[derive(Debug)]
pub struct OpInfo {
    pub op: Op,
    /// The column `name`.
    pub name: &'static str,
    pub layer: Layer,
    pub class: Class,
    pub a: Arg,
    pub b: Arg,
    pub ret: Ret,
}

impl Layer {
    pub const ALL: [Layer; 10] = [
        Layer::Posix,
        Layer::Stdio,
        Layer::Process,
        Layer::App,
        Layer::Wait,
        Layer::Object,
        Layer::Net,
        Layer::Hdf5,
        Layer::Mpi,
        Layer::Device,
    ];

    pub fn name(self) -> &'static str {
        ["posix", "stdio", "process", "app", "wait", "object", "net", "hdf5", "mpi", "device"][self as usize]
    }

    /// Returns `true` if calls of this layer have metadata, as spans have.
    pub const fn has_metadata(self) -> bool {
        matches!(self, Layer::Object) || self.is_library()
    }

    /// Returns `true` if calls of this layer contain file calls, which are recorded too.
    pub const fn is_library(self) -> bool {
        matches!(self, Layer::Hdf5 | Layer::Mpi)
    }

    pub fn from_name(name: &str) -> Option<Layer> {
        Layer::ALL.into_iter().find(|layer| layer.name() == name)
    }
}

impl Class {
    pub const ALL: [Class; 7] =
        [Class::Read, Class::Write, Class::Metadata, Class::Sync, Class::Compute, Class::Other, Class::Wait];

    pub fn name(self) -> &'static str {
        ["read", "write", "metadata", "sync", "compute", "other", "wait"][self as usize]
    }
}

impl Arg {
    /// Returns `true` if the number is that of a name.
    pub const fn is_name(self) -> bool {
        matches!(self, Arg::Path | Arg::Source)
    }
}

impl OpInfo {
    /// Returns `true` if the result counts bytes transferred between program and file.
    pub const fn moves_bytes(&self) -> bool {
        matches!(self.ret, Ret::Bytes) && matches!(self.class, Class::Read | Class::Write)
    }
}

impl Op {
    /// Returns the row of this operation, or `None` for a number unknown to this version.
    pub fn info(self) -> Option<&'static OpInfo> {
        ROW_OF.get(self.0 as usize).and_then(|&row| OPS.get(row as usize))
    }

    pub fn from_name(name: &str) -> Option<Op> {
        OPS.iter().find(|info| info.name == name).map(|info| info.op)
    }
}

/// Row of each number in [`OPS`], or `u16::MAX`.
static ROW_OF: [u16; OP_MAX as usize + 1] = {
    let mut rows = [u16::MAX; OP_MAX as usize + 1];
    let mut i = 0;
    while i < OPS.len() {
        assert!(rows[OPS[i].op.0 as usize] == u16::MAX, "two operations share a number");
        rows[OPS[i].op.0 as usize] = i as u16;
        i += 1;
    }
    rows
};

macro_rules! operations {
    ($($layer:ident { $($id:literal $ident:ident $name:literal $class:ident $a:ident $b:ident $ret:ident;)* })*) => {
        impl Op { $($(pub const $ident: Op = Op($id);)*)* }
        /// Every operation, in the order of the list.
        pub const OPS: &[OpInfo] = &[$($(OpInfo {
            op: Op($id), name: $name, layer: Layer::$layer, class: Class::$class,
            a: Arg::$a, b: Arg::$b, ret: Ret::$ret,
        },)*)*];
    };
}

operations! {
    // number, constant, name, class, meaning of a, of b, of the result
    Posix {
        1 OPEN "open" Metadata Mode Flags Fd;
        2 OPENAT "openat" Metadata Mode Flags Fd;
        3 CREAT "creat" Metadata Mode None Fd;
        4 CLOSE "close" Metadata None None Status;
        5 CLOSE_RANGE "close_range" Metadata Count Count Status;
        6 CLOSEFROM "closefrom" Metadata None None Status;
        7 DUP "dup" Metadata None None Fd;
        8 DUP2 "dup2" Metadata Fd None Fd;
        9 DUP3 "dup3" Metadata Fd Flags Fd;
        10 FCNTL "fcntl" Metadata Command Count Status;
        // Locks move no data; their time is that for which another process holds them.
        11 FLOCK "flock" Wait Command None Status;
        12 LOCKF "lockf" Wait Command Size Status;
        13 PIPE "pipe" Metadata Fd Flags Fd;
        14 MEMFD_CREATE "memfd_create" Metadata None Flags Fd;
        15 MKSTEMP "mkstemp" Metadata None Flags Fd;
        16 IOCTL "ioctl" Metadata Command None Status;
        // `fcntl` with a command that waits for a lock.
        17 FCNTL_SETLKW "fcntl_setlkw" Wait Command Count Status;

        20 READ "read" Read Position Size Bytes;
        21 PREAD "pread" Read Position Size Bytes;
        22 READV "readv" Read Position Size Bytes;
        23 PREADV "preadv" Read Position Size Bytes;
        24 PREADV2 "preadv2" Read Position Size Bytes;
        25 WRITE "write" Write Position Size Bytes;
        26 PWRITE "pwrite" Write Position Size Bytes;
        27 WRITEV "writev" Write Position Size Bytes;
        28 PWRITEV "pwritev" Write Position Size Bytes;
        29 PWRITEV2 "pwritev2" Write Position Size Bytes;
        30 LSEEK "lseek" Metadata Whence Offset Position;
        31 SENDFILE "sendfile" Write Source Size Bytes;
        32 COPY_FILE_RANGE "copy_file_range" Write Source Size Bytes;
        33 SPLICE "splice" Write Source Size Bytes;
        34 READAHEAD "readahead" Metadata Position Size Status;
        35 AIO_READ "aio_read" Other Position Size Status;
        36 AIO_WRITE "aio_write" Other Position Size Status;
        37 AIO_FSYNC "aio_fsync" Other None None Status;
        38 AIO_READ_DONE "aio_read_done" Read Position Size Bytes;
        39 AIO_WRITE_DONE "aio_write_done" Write Position Size Bytes;
        40 AIO_FSYNC_DONE "aio_fsync_done" Sync None None Status;
        41 AIO_SUSPEND "aio_suspend" Other Count None Status;
        42 AIO_CANCEL "aio_cancel" Other None None Status;
        43 LIO_LISTIO "lio_listio" Other Count None Status;
        44 TEE "tee" Write Source Size Bytes;
        45 VMSPLICE "vmsplice" Write None Size Bytes;
        46 URING_SETUP "io_uring_setup" Other Count None Status;
        // Enters the kernel for a ring, for long enough to have blocked: `a` is the number of results seen after it, and
        // `file` that of the last one.
        47 URING_ENTER "io_uring_enter" Wait Count None Status;
        // Results of a ring whose requests are not in the trace: the result of the event is their number, or zero if
        // it is unknown.
        48 URING_UNSEEN "io_uring_unseen" Other None None Status;

        50 FSYNC "fsync" Sync None None Status;
        51 FDATASYNC "fdatasync" Sync None None Status;
        52 SYNC_FILE_RANGE "sync_file_range" Sync Position Size Status;
        53 SYNCFS "syncfs" Sync None None Status;
        54 SYNC "sync" Sync None None Status;
        55 MSYNC "msync" Sync None Size Status;

        60 STAT "stat" Metadata None None Status;
        61 LSTAT "lstat" Metadata None None Status;
        62 FSTAT "fstat" Metadata None None Status;
        63 FSTATAT "fstatat" Metadata None Flags Status;
        64 STATX "statx" Metadata None Flags Status;
        65 STATFS "statfs" Metadata None None Status;
        66 FSTATFS "fstatfs" Metadata None None Status;
        67 STATVFS "statvfs" Metadata None None Status;
        68 FSTATVFS "fstatvfs" Metadata None None Status;
        69 ACCESS "access" Metadata Mode None Status;
        70 FACCESSAT "faccessat" Metadata Mode Flags Status;

        80 OPENDIR "opendir" Metadata None None Fd;
        81 FDOPENDIR "fdopendir" Metadata None None Fd;
        82 READDIR "readdir" Metadata None None Status;
        83 CLOSEDIR "closedir" Metadata None None Status;
        84 SCANDIR "scandir" Metadata None None Status;
        85 GETDENTS "getdents64" Metadata None Size Status;

        90 TRUNCATE "truncate" Metadata Position None Status;
        91 FTRUNCATE "ftruncate" Metadata Position None Status;
        92 FALLOCATE "fallocate" Metadata Position Size Status;
        93 POSIX_FALLOCATE "posix_fallocate" Metadata Position Size Status;
        94 POSIX_FADVISE "posix_fadvise" Metadata Command Size Status;

        100 RENAME "rename" Metadata Path None Status;
        101 RENAMEAT "renameat" Metadata Path Flags Status;
        102 LINK "link" Metadata Path None Status;
        103 LINKAT "linkat" Metadata Path Flags Status;
        104 SYMLINK "symlink" Metadata Path None Status;
        105 SYMLINKAT "symlinkat" Metadata Path None Status;
        106 READLINK "readlink" Metadata None Size Status;
        107 READLINKAT "readlinkat" Metadata None Size Status;
        108 UNLINK "unlink" Metadata None None Status;
        109 UNLINKAT "unlinkat" Metadata None Flags Status;
        110 REMOVE "remove" Metadata None None Status;
        111 MKDIR "mkdir" Metadata Mode None Status;
        112 MKDIRAT "mkdirat" Metadata Mode None Status;
        113 RMDIR "rmdir" Metadata None None Status;
        114 MKNOD "mknod" Metadata Mode None Status;
        115 MKNODAT "mknodat" Metadata Mode None Status;
        116 MKFIFO "mkfifo" Metadata Mode None Status;
        117 MKFIFOAT "mkfifoat" Metadata Mode None Status;
        118 MKDTEMP "mkdtemp" Metadata None None Status;
        119 CHDIR "chdir" Metadata None None Status;
        120 FCHDIR "fchdir" Metadata None None Status;

        130 CHMOD "chmod" Metadata Mode None Status;
        131 FCHMOD "fchmod" Metadata Mode None Status;
        132 FCHMODAT "fchmodat" Metadata Mode Flags Status;
        133 CHOWN "chown" Metadata Count Count Status;
        134 LCHOWN "lchown" Metadata Count Count Status;
        135 FCHOWN "fchown" Metadata Count Count Status;
        136 FCHOWNAT "fchownat" Metadata Count Count Status;
        137 UTIME "utime" Metadata None None Status;
        138 UTIMES "utimes" Metadata None None Status;
        139 LUTIMES "lutimes" Metadata None None Status;
        140 FUTIMES "futimes" Metadata None None Status;
        141 UTIMENSAT "utimensat" Metadata None Flags Status;
        142 FUTIMENS "futimens" Metadata None None Status;

        150 MMAP "mmap" Metadata Position Size Status;
        151 MUNMAP "munmap" Metadata None Size Status;
        152 MREMAP "mremap" Metadata None Size Status;
        153 MADVISE "madvise" Metadata Command Size Status;

        160 GETXATTR "getxattr" Metadata None Size Status;
        161 SETXATTR "setxattr" Metadata None Size Status;
        162 LISTXATTR "listxattr" Metadata None Size Status;
        163 REMOVEXATTR "removexattr" Metadata None None Status;

        // Requests through an io_uring ring, from their submission until their result is seen.
        600 URING_READ "io_uring_read" Read Position Size Bytes;
        601 URING_READV "io_uring_readv" Read Position Size Bytes;
        602 URING_READ_FIXED "io_uring_read_fixed" Read Position Size Bytes;
        603 URING_READV_FIXED "io_uring_readv_fixed" Read Position Size Bytes;
        604 URING_READ_MULTISHOT "io_uring_read_multishot" Read Position Size Bytes;
        605 URING_WRITE "io_uring_write" Write Position Size Bytes;
        606 URING_WRITEV "io_uring_writev" Write Position Size Bytes;
        607 URING_WRITE_FIXED "io_uring_write_fixed" Write Position Size Bytes;
        608 URING_WRITEV_FIXED "io_uring_writev_fixed" Write Position Size Bytes;
        609 URING_SPLICE "io_uring_splice" Write Source Size Bytes;
        610 URING_TEE "io_uring_tee" Write Source Size Bytes;
        611 URING_FSYNC "io_uring_fsync" Sync None None Status;
        612 URING_SYNC_FILE_RANGE "io_uring_sync_file_range" Sync Position Size Status;
        613 URING_OPENAT "io_uring_openat" Metadata Mode Flags Fd;
        614 URING_OPENAT2 "io_uring_openat2" Metadata None None Fd;
        615 URING_CLOSE "io_uring_close" Metadata None None Status;
        616 URING_STATX "io_uring_statx" Metadata None Flags Status;
        617 URING_FALLOCATE "io_uring_fallocate" Metadata Position Size Status;
        618 URING_FTRUNCATE "io_uring_ftruncate" Metadata Position None Status;
        619 URING_FADVISE "io_uring_fadvise" Metadata Command Size Status;
        620 URING_RENAMEAT "io_uring_renameat" Metadata Path Flags Status;
        621 URING_UNLINKAT "io_uring_unlinkat" Metadata None Flags Status;
        622 URING_MKDIRAT "io_uring_mkdirat" Metadata Mode None Status;
        623 URING_SYMLINKAT "io_uring_symlinkat" Metadata Path None Status;
        624 URING_LINKAT "io_uring_linkat" Metadata Path Flags Status;
        625 URING_FSETXATTR "io_uring_fsetxattr" Metadata None None Status;
        626 URING_SETXATTR "io_uring_setxattr" Metadata None None Status;
        627 URING_FGETXATTR "io_uring_fgetxattr" Metadata None None Status;
        628 URING_GETXATTR "io_uring_getxattr" Metadata None None Status;
    }
    Stdio {
        200 FOPEN "fopen" Metadata None Flags Fd;
        201 FDOPEN "fdopen" Metadata None Flags Fd;
        202 FREOPEN "freopen" Metadata None Flags Fd;
        203 FCLOSE "fclose" Metadata None None Status;
        204 FFLUSH "fflush" Sync None None Status;
        205 SETVBUF "setvbuf" Metadata Command Size Status;
        206 TMPFILE "tmpfile" Metadata None None Fd;
        207 OPEN_MEMSTREAM "open_memstream" Metadata None None Status;
        208 FMEMOPEN "fmemopen" Metadata None Size Status;

        210 FREAD "fread" Read Position Size Bytes;
        211 FWRITE "fwrite" Write Position Size Bytes;
        212 FGETS "fgets" Read Position Size Bytes;
        213 FGETC "fgetc" Read Position Size Bytes;
        214 GETLINE "getline" Read Position None Bytes;
        215 GETDELIM "getdelim" Read Position None Bytes;
        216 UNGETC "ungetc" Other Position None Status;
        217 FPUTS "fputs" Write Position Size Bytes;
        218 FPUTC "fputc" Write Position Size Bytes;
        219 PUTS "puts" Write Position Size Bytes;
        220 FPRINTF "fprintf" Write Position None Bytes;
        221 PRINTF "printf" Write Position None Bytes;
        222 DPRINTF "dprintf" Write Position None Bytes;
        223 FSCANF "fscanf" Read Position None Bytes;
        224 SCANF "scanf" Read Position None Bytes;
        225 FSEEK "fseek" Metadata Whence Offset Status;
        226 FTELL "ftell" Metadata None None Position;
        227 REWIND "rewind" Metadata None None Status;
        228 FGETPOS "fgetpos" Metadata None None Status;
        229 FSETPOS "fsetpos" Metadata None None Status;
        230 FGETWS "fgetws" Read Position None Bytes;
        231 FGETWC "fgetwc" Read Position None Bytes;
        232 FPUTWS "fputws" Write Position None Bytes;
        233 FPUTWC "fputwc" Write Position None Bytes;
        234 FWPRINTF "fwprintf" Write Position None Bytes;

        // The C library's internal calls inside the calls above, recorded with `DLIO_TRACE_INLINE=1`. The outer call
        // has the bytes and the time; these have no class, so that neither counts twice.
        240 INNER_OPEN "__open" Other None Flags Fd;
        241 INNER_READ "__read" Other None Size Bytes;
        242 INNER_WRITE "__write" Other None Size Bytes;
        243 INNER_LSEEK "__lseek" Other Whence Offset Position;
        244 INNER_CLOSE "__close" Other None None Status;
    }
    Process {
        300 FORK "fork" Other None None Pid;
        301 VFORK "vfork" Other None None Pid;
        302 CLONE "clone" Other None Flags Pid;
        303 POSIX_SPAWN "posix_spawn" Other None None Pid;
        304 EXEC "exec" Other None None Status;
        305 EXIT "exit" Other None None Status;
        306 SYSTEM "system" Other None None Status;
        307 POPEN "popen" Other None None Fd;
        308 PCLOSE "pclose" Other None None Status;
        // A signal sent to one process: `a` is the process, as if the signal had ended it.
        309 KILL "kill" Other Child None Status;
    }
    // Calls that block without moving data. `fd` is the descriptor that was waited on if there is only one; the
    // result is the call's result or its error, which includes a timeout.
    Wait {
        320 POLL "poll" Wait Count None Status;
        321 PPOLL "ppoll" Wait Count None Status;
        322 SELECT "select" Wait Count None Status;
        323 PSELECT "pselect" Wait Count None Status;
        324 EPOLL_WAIT "epoll_wait" Wait Count None Status;
        325 EPOLL_PWAIT "epoll_pwait" Wait Count None Status;
        // `file` is the connection, `a` the process at its other end if that is on this host (AF_UNIX).
        326 ACCEPT "accept" Wait Count None Fd;
        327 ACCEPT4 "accept4" Wait Count Flags Fd;

        330 WAIT "wait" Wait Child None Status;
        331 WAITPID "waitpid" Wait Child Flags Status;
        332 WAITID "waitid" Wait Child Flags Status;
        333 WAIT3 "wait3" Wait Child Flags Status;
        334 WAIT4 "wait4" Wait Child Flags Status;

        340 SLEEP "sleep" Wait Count None Status;
        341 USLEEP "usleep" Wait Count None Status;
        342 NANOSLEEP "nanosleep" Wait None None Status;
        343 CLOCK_NANOSLEEP "clock_nanosleep" Wait Count Flags Status;
        344 PAUSE "pause" Wait None None Status;
        345 SIGSUSPEND "sigsuspend" Wait None None Status;
        346 SIGWAIT "sigwait" Wait None None Status;
        347 SIGWAITINFO "sigwaitinfo" Wait None None Status;
        348 SIGTIMEDWAIT "sigtimedwait" Wait None None Status;

        360 PTHREAD_COND_WAIT "pthread_cond_wait" Wait Object Waker Status;
        361 PTHREAD_COND_TIMEDWAIT "pthread_cond_timedwait" Wait Object Waker Status;
        362 PTHREAD_COND_CLOCKWAIT "pthread_cond_clockwait" Wait Object Waker Status;
        363 PTHREAD_JOIN "pthread_join" Wait None None Status;
        364 PTHREAD_TIMEDJOIN "pthread_timedjoin_np" Wait None None Status;
        365 PTHREAD_CLOCKJOIN "pthread_clockjoin_np" Wait None None Status;
        366 PTHREAD_BARRIER_WAIT "pthread_barrier_wait" Wait Object Waker Status;
        367 SEM_WAIT "sem_wait" Wait Object Waker Status;
        368 SEM_TIMEDWAIT "sem_timedwait" Wait Object Waker Status;
        369 SEM_CLOCKWAIT "sem_clockwait" Wait Object Waker Status;
        370 SEMOP "semop" Wait Count None Status;
        371 SEMTIMEDOP "semtimedop" Wait Count None Status;
        372 CND_WAIT "cnd_wait" Wait Object Waker Status;
        373 CND_TIMEDWAIT "cnd_timedwait" Wait Object Waker Status;
        374 THRD_JOIN "thrd_join" Wait None None Status;
        375 THRD_SLEEP "thrd_sleep" Wait None None Status;
        // A post to a semaphore shared by processes: the waiter may be in another process. Other posts are part of
        // the wait they end.
        376 SEM_POST "sem_post" Other Object Waker Status;
        // Recorded from time to time for a thread that others wait for and that never waits itself: its counters come
        // with it.
        377 PTHREAD_COND_SIGNAL "pthread_cond_signal" Other Object Waker Status;
        // By the function `syscall`: locks of Rust, futures and semaphores of C++.
        378 FUTEX_WAIT "futex_wait" Wait Object Waker Status;
        // Like PTHREAD_COND_SIGNAL.
        379 FUTEX_WAKE "futex_wake" Other Object Waker Status;
    }
    App {
        // `file` is the name, `fd` the category.
        400 SPAN "span" Compute Steps None Status;
        401 INSTANT "instant" Other Steps None Status;
        402 COUNTER "counter" Other Value None Status;
        // Belongs to the next event of the thread. For a span, instant, counter or request: `file` is the key, `fd`
        // the kind of value, `a` the value. For any event: `fd` is 3, and the numbers are counters of the thread
        // (`event::evidence`).
        403 META "meta" Other None None Status;
        // Calls of this thread that were lost for lack of space: `a` is their number.
        404 LOST "lost" Other Count None Status;
    }
    // Requests to object stores, one event per attempt, from the first byte sent to the last one received. `file` is
    // the object's URL; further data is metadata before the event, as for a span.
    Object {
        420 OBJECT_GET "object.get" Read Position Size Bytes;
        421 OBJECT_PUT "object.put" Write Position Size Bytes;
        // One part of an object that is written in several parts; it exists when the upload is complete.
        422 OBJECT_PART "object.part" Write Position Size Bytes;
        423 OBJECT_HEAD "object.head" Metadata None None Status;
        424 OBJECT_LIST "object.list" Metadata None None Status;
        425 OBJECT_DELETE "object.delete" Metadata None None Status;
        426 OBJECT_COPY "object.copy" Metadata None None Status;
        427 OBJECT_BEGIN "object.begin" Metadata None None Status;
        428 OBJECT_COMPLETE "object.complete" Sync None None Status;
        429 OBJECT_ABORT "object.abort" Metadata None None Status;
        430 OBJECT_OTHER "object.other" Metadata None None Status;
        // A connection that failed: no request was sent.
        431 OBJECT_CONNECT "object.connect" Metadata None None Status;
    }
    // `file` is the object between the processes: see `native::objects`.
    Net {
        380 RECV "recv" Read None Size Bytes;
        381 RECVFROM "recvfrom" Read None Size Bytes;
        382 RECVMSG "recvmsg" Read None Size Bytes;
        // `a` is the number of messages.
        383 RECVMMSG "recvmmsg" Read Count Size Bytes;
        384 SEND "send" Write None Size Bytes;
        385 SENDTO "sendto" Write None Size Bytes;
        386 SENDMSG "sendmsg" Write None Size Bytes;
        387 SENDMMSG "sendmmsg" Write Count Size Bytes;
        // `a` is the process at the other end if that is on this host (AF_UNIX).
        388 CONNECT "connect" Wait Count None Status;
        // `file` is the host that was looked up.
        389 GETADDRINFO "getaddrinfo" Wait None None Status;
        // The inodes of both sockets: data written to one can be read from the other.
        390 SOCKETPAIR "socketpair" Metadata Count Count Status;
        391 SHUTDOWN "shutdown" Metadata Command None Status;
        392 EVENTFD "eventfd" Metadata Count Flags Fd;

        // Requests through an io_uring ring, as above.
        640 URING_RECV "io_uring_recv" Read None Size Bytes;
        641 URING_RECVMSG "io_uring_recvmsg" Read None None Bytes;
        642 URING_SEND "io_uring_send" Write None Size Bytes;
        643 URING_SENDMSG "io_uring_sendmsg" Write None None Bytes;
        644 URING_SEND_ZC "io_uring_send_zc" Write None Size Bytes;
        645 URING_SENDMSG_ZC "io_uring_sendmsg_zc" Write None None Bytes;
        646 URING_CONNECT "io_uring_connect" Other None None Status;
        647 URING_ACCEPT "io_uring_accept" Other None None Fd;
        648 URING_SHUTDOWN "io_uring_shutdown" Metadata Command None Status;
    }
    // `file` is the HDF5 file. Sizes are bytes in the program's memory. The data set or attribute and the selection are
    // metadata before the event, and so are the layout and filters of a data set that is opened or created. HDF5
    // reports no error number: a call that failed has the result -EIO.
    Hdf5 {
        440 H5F_CREATE "H5Fcreate" Metadata None Flags Status;
        441 H5F_OPEN "H5Fopen" Metadata None Flags Status;
        442 H5F_CLOSE "H5Fclose" Metadata None None Status;
        443 H5F_FLUSH "H5Fflush" Sync None None Status;
        444 H5D_CREATE "H5Dcreate" Metadata None None Status;
        445 H5D_OPEN "H5Dopen" Metadata None None Status;
        446 H5D_CLOSE "H5Dclose" Metadata None None Status;
        447 H5D_READ "H5Dread" Read None Size Bytes;
        448 H5D_WRITE "H5Dwrite" Write None Size Bytes;
        449 H5D_READ_CHUNK "H5Dread_chunk" Read None Size Bytes;
        450 H5D_WRITE_CHUNK "H5Dwrite_chunk" Write None Size Bytes;
        // `a` is the number of data sets.
        451 H5D_READ_MULTI "H5Dread_multi" Read Count Size Bytes;
        452 H5D_WRITE_MULTI "H5Dwrite_multi" Write Count Size Bytes;
        453 H5D_SET_EXTENT "H5Dset_extent" Metadata None None Status;
        454 H5D_FLUSH "H5Dflush" Sync None None Status;
        455 H5D_REFRESH "H5Drefresh" Metadata None None Status;
        456 H5A_CREATE "H5Acreate" Metadata None None Status;
        457 H5A_OPEN "H5Aopen" Metadata None None Status;
        458 H5A_READ "H5Aread" Read None Size Bytes;
        459 H5A_WRITE "H5Awrite" Write None Size Bytes;
        460 H5G_CREATE "H5Gcreate" Metadata None None Status;
        461 H5G_OPEN "H5Gopen" Metadata None None Status;
        // Opens a data set, a group or a named type.
        462 H5O_OPEN "H5Oopen" Metadata None None Status;
        463 H5O_CLOSE "H5Oclose" Metadata None None Status;
        // Releases a file or a data set; it is closed if no reference is left.
        464 H5I_DEC_REF "H5Idec_ref" Metadata None None Status;
    }
    // `file` is the file of an MPI_File. A call that failed has the result -EIO. The position is known while the file has
    // the view with which it was opened. Collective calls without a file are spans of the category `communication`.
    Mpi {
        500 MPI_FILE_OPEN "MPI_File_open" Metadata None Flags Status;
        501 MPI_FILE_CLOSE "MPI_File_close" Metadata None None Status;
        502 MPI_FILE_DELETE "MPI_File_delete" Metadata None None Status;
        503 MPI_FILE_SET_VIEW "MPI_File_set_view" Metadata None None Status;
        504 MPI_FILE_SYNC "MPI_File_sync" Sync None None Status;
        505 MPI_FILE_SET_SIZE "MPI_File_set_size" Metadata None Size Status;
        506 MPI_FILE_PREALLOCATE "MPI_File_preallocate" Metadata None Size Status;
        507 MPI_FILE_GET_SIZE "MPI_File_get_size" Metadata None None Status;
        510 MPI_FILE_READ "MPI_File_read" Read Position Size Bytes;
        511 MPI_FILE_READ_ALL "MPI_File_read_all" Read Position Size Bytes;
        512 MPI_FILE_READ_AT "MPI_File_read_at" Read Position Size Bytes;
        513 MPI_FILE_READ_AT_ALL "MPI_File_read_at_all" Read Position Size Bytes;
        514 MPI_FILE_READ_SHARED "MPI_File_read_shared" Read Position Size Bytes;
        515 MPI_FILE_READ_ORDERED "MPI_File_read_ordered" Read Position Size Bytes;
        520 MPI_FILE_WRITE "MPI_File_write" Write Position Size Bytes;
        521 MPI_FILE_WRITE_ALL "MPI_File_write_all" Write Position Size Bytes;
        522 MPI_FILE_WRITE_AT "MPI_File_write_at" Write Position Size Bytes;
        523 MPI_FILE_WRITE_AT_ALL "MPI_File_write_at_all" Write Position Size Bytes;
        524 MPI_FILE_WRITE_SHARED "MPI_File_write_shared" Write Position Size Bytes;
        525 MPI_FILE_WRITE_ORDERED "MPI_File_write_ordered" Write Position Size Bytes;
        // The two halves of a split collective call: the second one has the bytes.
        530 MPI_FILE_READ_ALL_BEGIN "MPI_File_read_all_begin" Other Position Size Status;
        531 MPI_FILE_READ_AT_ALL_BEGIN "MPI_File_read_at_all_begin" Other Position Size Status;
        532 MPI_FILE_READ_ORDERED_BEGIN "MPI_File_read_ordered_begin" Other Position Size Status;
        533 MPI_FILE_READ_ALL_END "MPI_File_read_all_end" Read None Size Bytes;
        534 MPI_FILE_READ_AT_ALL_END "MPI_File_read_at_all_end" Read None Size Bytes;
        535 MPI_FILE_READ_ORDERED_END "MPI_File_read_ordered_end" Read None Size Bytes;
        540 MPI_FILE_WRITE_ALL_BEGIN "MPI_File_write_all_begin" Other Position Size Status;
        541 MPI_FILE_WRITE_AT_ALL_BEGIN "MPI_File_write_at_all_begin" Other Position Size Status;
        542 MPI_FILE_WRITE_ORDERED_BEGIN "MPI_File_write_ordered_begin" Other Position Size Status;
        543 MPI_FILE_WRITE_ALL_END "MPI_File_write_all_end" Write None Size Bytes;
        544 MPI_FILE_WRITE_AT_ALL_END "MPI_File_write_at_all_end" Write None Size Bytes;
        545 MPI_FILE_WRITE_ORDERED_END "MPI_File_write_ordered_end" Write None Size Bytes;
        // A request that is started here and ends in one of the calls below. Its bytes are the requested ones.
        550 MPI_FILE_IREAD "MPI_File_iread" Read Position Size Bytes;
        551 MPI_FILE_IREAD_ALL "MPI_File_iread_all" Read Position Size Bytes;
        552 MPI_FILE_IREAD_AT "MPI_File_iread_at" Read Position Size Bytes;
        553 MPI_FILE_IREAD_AT_ALL "MPI_File_iread_at_all" Read Position Size Bytes;
        554 MPI_FILE_IREAD_SHARED "MPI_File_iread_shared" Read Position Size Bytes;
        560 MPI_FILE_IWRITE "MPI_File_iwrite" Write Position Size Bytes;
        561 MPI_FILE_IWRITE_ALL "MPI_File_iwrite_all" Write Position Size Bytes;
        562 MPI_FILE_IWRITE_AT "MPI_File_iwrite_at" Write Position Size Bytes;
        563 MPI_FILE_IWRITE_AT_ALL "MPI_File_iwrite_at_all" Write Position Size Bytes;
        564 MPI_FILE_IWRITE_SHARED "MPI_File_iwrite_shared" Write Position Size Bytes;
        // Recorded if it ended requests on files. `file` is the first one's, `a` their number, `b` their bytes.
        570 MPI_WAIT "MPI_Wait" Other Count Size Status;
        571 MPI_WAITALL "MPI_Waitall" Other Count Size Status;
        572 MPI_WAITANY "MPI_Waitany" Other Count Size Status;
        573 MPI_WAITSOME "MPI_Waitsome" Other Count Size Status;
        574 MPI_TEST "MPI_Test" Other Count Size Status;
        575 MPI_TESTALL "MPI_Testall" Other Count Size Status;
        576 MPI_TESTANY "MPI_Testany" Other Count Size Status;
        577 MPI_TESTSOME "MPI_Testsome" Other Count Size Status;
    }
    // Calls of CUDA and HIP that block until a device has done its work. Like calls of the layer `wait`, they are recorded if
    // they were long enough to have blocked. A failed call has the negative error number of its library as the result.
    Device {
        700 CUDA_STREAM_SYNCHRONIZE "cudaStreamSynchronize" Wait None None Status;
        701 CUDA_EVENT_SYNCHRONIZE "cudaEventSynchronize" Wait None None Status;
        702 CUDA_DEVICE_SYNCHRONIZE "cudaDeviceSynchronize" Wait None None Status;
        703 CUDA_MEMCPY "cudaMemcpy" Wait None Size Status;

        710 CU_STREAM_SYNCHRONIZE "cuStreamSynchronize" Wait None None Status;
        711 CU_EVENT_SYNCHRONIZE "cuEventSynchronize" Wait None None Status;
        712 CU_CTX_SYNCHRONIZE "cuCtxSynchronize" Wait None None Status;
        713 CU_MEMCPY_H_TO_D "cuMemcpyHtoD_v2" Wait None Size Status;
        714 CU_MEMCPY_D_TO_H "cuMemcpyDtoH_v2" Wait None Size Status;
        715 CU_MEMCPY_D_TO_D "cuMemcpyDtoD_v2" Wait None Size Status;

        720 HIP_STREAM_SYNCHRONIZE "hipStreamSynchronize" Wait None None Status;
        721 HIP_EVENT_SYNCHRONIZE "hipEventSynchronize" Wait None None Status;
        722 HIP_DEVICE_SYNCHRONIZE "hipDeviceSynchronize" Wait None None Status;
        723 HIP_MEMCPY "hipMemcpy" Wait None Size Status;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_names_are_unique() {
        let mut names: Vec<_> = OPS.iter().map(|info| info.name).collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(before, names.len());
    }

    #[test]
    fn every_operation_finds_its_own_row() {
        for info in OPS {
            assert_eq!(info.op.info().unwrap().name, info.name);
            assert_eq!(Op::from_name(info.name), Some(info.op));
        }
        assert!(Op(0).info().is_none());
        assert!(Op(OP_MAX).info().is_none());
    }
}
