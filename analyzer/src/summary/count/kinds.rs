//! Kinds of events, classified for counting: which are I/O, waits, opens, training.

use dlio_schemas::devices;
use dlio_schemas::ops::{Class, Layer};

use super::epochs::Part;
use crate::catalog::{Kind, Origin};
use crate::summary::files::access::{Timed, stream};
use crate::summary::waits::timeline::StepKind;
use crate::unit::Categories;

/// The properties of a kind of event that counting needs, without its strings.
#[derive(Clone, Copy)]
pub(in crate::summary) struct KindTraits {
    pub(in crate::summary) class: Class,
    pub(in crate::summary) call: bool,
    /// Counts as I/O when it is on a file: calls of the process layer do not.
    pub(in crate::summary) io: bool,
    pub(in crate::summary) opens: bool,
    pub(in crate::summary) span: bool,
    /// Is a span in which a trainer waits for its next batch.
    pub(in crate::summary) next_batch: bool,
    /// A span in which a loader starts its workers.
    pub(in crate::summary) starts_loader: bool,
    /// A wait for a batch that finds no more: it waits but receives none.
    pub(in crate::summary) in_vain: bool,
    /// Waits for anything, including a lock on a file and a pipe.
    pub(in crate::summary) waits: bool,
    /// Goes through a socket.
    pub(in crate::summary) net: bool,
    /// Waits for other threads or processes, not for a file or until a time.
    pub(in crate::summary) idle: bool,
    /// Is a call of a library above the file system: counted by data set or file, and never as I/O.
    pub(in crate::summary) library: Option<Library>,
    /// How ranks make requests of MPI-IO by this call: see [`mode_of`].
    pub(in crate::summary) mode: &'static str,
    /// Is a request through an io_uring ring: its thread does other things in the meantime.
    pub(in crate::summary) by_ring: bool,
    /// Enters the kernel for a ring: the thread executes requests or waits for them.
    pub(in crate::summary) enters_ring: bool,
    /// Submits a request to threads of the C library, or fetches its result, and waits for such requests.
    pub(in crate::summary) of_request: bool,
    pub(in crate::summary) awaits_requests: bool,
    /// Reports results of a ring whose requests are not in the trace.
    pub(in crate::summary) unseen: bool,
    /// Moves its bytes by calls that may have been recorded too.
    pub(in crate::summary) above: bool,
    /// Is a span of a device, timed by the clock of that device: no time of the thread that recorded it.
    pub(in crate::summary) device: Option<DeviceSpan>,
    /// Is a span of a profiler, which is active only for a part of some runs.
    pub(in crate::summary) profiled: bool,
    /// Waits until a device has done its work.
    pub(in crate::summary) waits_for_device: bool,
    /// Is a span in which a data set is generated.
    pub(in crate::summary) generates: bool,
    /// Is a span of communication.
    pub(in crate::summary) communicates: bool,
    /// Is a request to an object store, or a span of one. A request from the object's first byte counts as an open.
    pub(in crate::summary) requests: bool,
    /// Which times are measured, and which stream its bytes belong to.
    pub(in crate::summary) timed: Timed,
    pub(in crate::summary) stream: u8,
    /// Maps a file.
    pub(in crate::summary) maps: bool,
    /// Ends a pass through a file by opening it, or by closing it.
    pub(in crate::summary) closes: bool,
    /// Copies from one file to another.
    pub(in crate::summary) copies: bool,
    /// Sets the size of a file, or a minimum size.
    pub(in crate::summary) sizes: bool,
    /// Removes, renames or resizes a file.
    pub(in crate::summary) changes: bool,
    /// Makes a file or directory.
    pub(in crate::summary) makes: bool,
    /// Gives a file a new name.
    pub(in crate::summary) renames: bool,
    /// May set a lock on a file.
    pub(in crate::summary) locks: bool,
    /// Its role in communication between threads, if it is not a call on a stored file.
    pub(in crate::summary) step: Option<StepKind>,
    pub(in crate::summary) category: u64,
}

impl KindTraits {
    /// Returns its role in an epoch.
    pub(in crate::summary) fn part(&self) -> Part {
        match self.class {
            _ if self.in_vain => Part::VainWait,
            _ if self.next_batch || self.starts_loader => Part::Wait,
            Class::Compute => Part::Compute,
            _ => Part::Other,
        }
    }

    /// Returns `true` for spans of the host that show what a thread does: compute, communication, checkpoints.
    #[inline(always)]
    pub(in crate::summary) fn is_task(&self) -> bool {
        let does = matches!(self.class, Class::Compute | Class::Write) || self.communicates;
        self.span && self.device.is_none() && does
    }

    /// Returns `true` if a call on a stored object counts among the file calls. Waits have a separate row there.
    #[inline(always)]
    pub(in crate::summary) fn is_on_file(&self, is_stored: bool) -> bool {
        self.waits || is_stored && !self.net && self.library.is_none()
    }

    pub(in crate::summary) fn of(kind: &Kind, category: u32) -> KindTraits {
        let library = library_of(kind);
        let call = kind.origin == Origin::Call;
        KindTraits {
            class: kind.class,
            call,
            library,
            mode: mode_of(kind),
            io: call && is_io(kind),
            opens: call && kind.class == Class::Metadata && opens(&kind.name),
            span: kind.origin == Origin::Span,
            next_batch: kind.origin == Origin::Span && is_next_batch(kind),
            starts_loader: kind.origin == Origin::Span && *kind.name == *START_LOADER,
            in_vain: kind.origin == Origin::Span && finds_no_more(kind),
            waits: call && is_wait(kind),
            net: call && *kind.cat == *Layer::Net.name(),
            idle: call && is_idle(kind) && !is_device_wait(kind),
            by_ring: call && does_io(kind) && kind.name.starts_with(BY_RING),
            enters_ring: call && *kind.name == *ENTERS_RING,
            of_request: call && kind.name.starts_with(OF_REQUESTS),
            awaits_requests: call && AWAITING.contains(&&*kind.name),
            unseen: call && *kind.name == *UNSEEN,
            above: call && *kind.cat == *ABOVE,
            device: device_span(kind),
            profiled: kind.origin == Origin::Span && PROFILER.contains(&&*kind.cat),
            waits_for_device: call && is_device_wait(kind),
            generates: kind.origin == Origin::Span && *kind.name == *GENERATE,
            communicates: kind.origin == Origin::Span && communicates(&kind.cat),
            requests: matches!(kind.origin, Origin::Call | Origin::Span) && *kind.cat == *OBJECT,
            timed: match kind.class {
                Class::Read => Timed::Read,
                Class::Write => Timed::Write,
                Class::Sync => Timed::Sync,
                _ => Timed::Metadata,
            },
            stream: stream(&kind.cat, kind.class == Class::Write),
            maps: call && *kind.name == *"mmap",
            closes: call && ["close", "fclose", "io_uring_close"].contains(&&*kind.name),
            copies: call && COPYING.contains(&&*kind.name),
            sizes: call && SIZING.contains(&&*kind.name),
            changes: call && CHANGING.iter().any(|name| kind.name.starts_with(name)),
            makes: call && kind.class == Class::Metadata && MAKING.iter().any(|name| kind.name.starts_with(name)),
            renames: call && ["rename", "link"].iter().any(|name| kind.name.starts_with(name)),
            locks: call && ["fcntl", "flock", "lockf"].contains(&&*kind.name),
            step: if call && library.is_none() { step_of(kind) } else { None },
            category: Categories::bit_at(category),
        }
    }
}

/// Calls that copy from one file to another. The trace does not show for which of the two they wait.
pub const COPYING: [&str; 4] = ["sendfile", "copy_file_range", "splice", "io_uring_splice"];

/// The beginnings of the names of calls that remove, rename or resize a file.
const CHANGING: [&str; 7] = ["unlink", "remove", "rename", "truncate", "ftruncate", "fallocate", "posix_fallocate"];

/// The beginnings of the names of calls that make a file or directory.
const MAKING: [&str; 3] = ["mkdir", "mknod", "symlink"];

/// Returns the role of a call in communication between threads.
fn step_of(kind: &Kind) -> Option<StepKind> {
    if is_device_wait(kind) {
        return Some(StepKind::Device);
    }
    let name = kind.name.as_ref();
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    match kind.class {
        Class::Read => Some(StepKind::Take),
        Class::Write => Some(StepKind::Give),
        _ if ["sem_post", "pthread_cond_signal"].contains(&name) => Some(StepKind::Post),
        _ if begins(&["fork", "vfork", "posix_spawn"]) => Some(StepKind::Fork),
        _ if name == "kill" => Some(StepKind::Kill),
        Class::Wait if name == "connect" => Some(StepKind::Connect),
        Class::Wait if name == "getaddrinfo" => Some(StepKind::LookUp),
        Class::Wait if name.starts_with("accept") => Some(StepKind::Accept),
        Class::Metadata if name == "socketpair" => Some(StepKind::Pair),
        Class::Wait if name.ends_with("sleep") => Some(StepKind::Sleep),
        Class::Wait if begins(&["flock", "lockf", "fcntl"]) => Some(StepKind::FileLock),
        Class::Wait if begins(&["poll", "ppoll", "select", "pselect", "epoll"]) => Some(StepKind::Poll),
        Class::Wait if begins(&["waitpid", "waitid", "wait"]) => Some(StepKind::Child),
        Class::Wait if name.contains("join") => Some(StepKind::Join),
        Class::Wait if name == "pthread_cond_timedwait" => Some(StepKind::TimedWait),
        Class::Wait => Some(StepKind::Wait),
        _ => None,
    }
}

/// The span in which the benchmark generates the data set that it then reads.
pub const GENERATE: &str = "generate";

/// Libraries whose calls contain file calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    Hdf5,
    Mpi,
}

fn library_of(kind: &Kind) -> Option<Library> {
    match &*kind.cat {
        _ if kind.origin != Origin::Call => None,
        cat if cat == Layer::Hdf5.name() => Some(Library::Hdf5),
        cat if cat == Layer::Mpi.name() => Some(Library::Mpi),
        _ => None,
    }
}

/// Returns `true` for a call of a library that makes file calls.
pub fn is_library_call(kind: &Kind) -> bool {
    library_of(kind).is_some()
}

/// Requests that all ranks of a file make together, and requests that each rank makes alone.
pub const COLLECTIVE: &str = "collective";
pub const INDEPENDENT: &str = "independent";

/// Returns how ranks make a request of MPI-IO; empty for calls that move no data.
fn mode_of(kind: &Kind) -> &'static str {
    let is_collective = ["_all", "_ordered"].iter().any(|part| kind.name.contains(part));
    match kind.class {
        _ if library_of(kind) != Some(Library::Mpi) => "",
        Class::Read | Class::Write | Class::Other if is_collective => COLLECTIVE,
        Class::Read | Class::Write => INDEPENDENT,
        _ => "",
    }
}

/// Returns `true` for calls that count as I/O: reads, writes, syncs and metadata calls. Calls of libraries do not count,
/// because their file calls are recorded too.
pub fn is_io(kind: &Kind) -> bool {
    does_io(kind) && !is_library_call(kind)
}

fn does_io(kind: &Kind) -> bool {
    matches!(kind.class, Class::Read | Class::Write | Class::Metadata | Class::Sync)
}

/// The prefix of requests through io_uring rings, and calls for rings.
const BY_RING: &str = "io_uring_";
const ENTERS_RING: &str = "io_uring_enter";

/// The prefix of calls for requests that threads of the C library execute, and the calls that wait for such requests. These name
/// no file.
const OF_REQUESTS: &str = "aio_";
const AWAITING: [&str; 2] = ["aio_suspend", "lio_listio"];
const UNSEEN: &str = "io_uring_unseen";

/// Spans in which a trainer waits for its next batch, by prefix of their name: dlio's and the benchmark's, PyTorch's
/// profiler's, Lightning's.
pub const NEXT_BATCH: [&str; 3] = ["fetch", "enumerate(DataLoader)", "[_TrainingEpochLoop].train_dataloader_next"];

pub fn is_next_batch(kind: &Kind) -> bool {
    kind.class != Class::Compute && NEXT_BATCH.iter().any(|name| kind.name.starts_with(name))
}

/// Returns `true` for a wait for a batch that finds no more.
pub fn finds_no_more(kind: &Kind) -> bool {
    *kind.name == *"fetch.end" && is_next_batch(kind)
}

/// The span in which a loader starts its workers.
const START_LOADER: &str = "loader.start";

/// Spans of a training step whose forward pass was not recorded: a part of the computing, which must not be treated as
/// all of it.
const PARTS: [&str; 3] = ["backward", "optimizer.step", "optimizer.part"];

pub(in crate::summary) fn is_part(kind: &Kind) -> bool {
    kind.origin == Origin::Span && *kind.cat == *"pipeline" && PARTS.contains(&kind.name.as_ref())
}

/// Returns `true` for calls that wait for anything.
pub fn is_wait(kind: &Kind) -> bool {
    kind.class == Class::Wait
}

/// Returns `true` for calls that wait for other threads or processes. A sleep does not.
pub fn is_idle(kind: &Kind) -> bool {
    is_wait(kind) && !kind.name.ends_with("sleep")
}

/// Calls whose success opens a file. `fdopen` attaches a stream to an open one.
pub const OPENING: [&str; 9] =
    ["open", "openat", "creat", "mkstemp", "fopen", "freopen", "MPI_File_open", "io_uring_openat", "io_uring_openat2"];

/// Calls whose success sets the size of a file. The effect of `fallocate` depends on its mode, which traces lack.
const SIZING: [&str; 4] = ["truncate", "ftruncate", "posix_fallocate", "io_uring_ftruncate"];

pub fn opens(name: &str) -> bool {
    OPENING.contains(&name)
}

/// The layer of calls whose bytes are moved by lower calls.
pub const ABOVE: &str = "mpiio";

/// The category of requests to object stores.
pub const OBJECT: &str = "object";

/// A span of a device, timed by the clock of that device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceSpan {
    Kernel,
    /// A kernel in which ranks communicate. It spins until all of them have arrived.
    Collective,
    Copy,
    /// A copy from or to memory that the host has not pinned.
    PageableCopy,
    /// A training step, from the return of the loader until the next request for a batch.
    Step,
    /// A wait for a batch, between two events on the stream of the model.
    DataWait,
    /// A wait of a thread for a device.
    Sync,
    /// A range that the program named. The device may be idle in it.
    Annotation,
}

/// Spans of devices, by category in any case: those of PyTorch's profiler, where each device is a process and its streams
/// are threads, and those of dlio, which belong to the process that uses the device.
const DEVICE_SPANS: [(&str, DeviceSpan); 8] = [
    (devices::KERNEL, DeviceSpan::Kernel),
    (devices::COPY, DeviceSpan::Copy),
    (devices::SET, DeviceSpan::Kernel),
    ("gpu_user_annotation", DeviceSpan::Annotation),
    ("cuda_profiler_range", DeviceSpan::Annotation),
    (devices::SYNC, DeviceSpan::Sync),
    (devices::DATA_WAIT, DeviceSpan::DataWait),
    (devices::STEP, DeviceSpan::Step),
];

/// The spans of dlio between events on a stream. Programs use their category for spans of the host, too.
const DEVICE_STEP: &str = "gpu.step";
const DEVICE_WAIT: &str = "gpu.data_wait";

/// The prefix of NCCL's and RCCL's kernels.
const NCCL: &str = "nccl";

/// The start of the name under which PyTorch's profiler shows a stream that waits for an event.
const STREAM_WAIT: &str = "Stream Wait";

/// Part of the names of copies of memory that is not pinned: `Memcpy HtoD (Pageable -> Device)`.
const PAGEABLE: &str = "Pageable";

/// The layer of calls in which the host waits for a device.
const DEVICE_LAYER: &str = "device";

/// Categories of PyTorch's profiler for events of the host.
const PROFILER: [&str; 4] = ["cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"];

/// Returns the kind of a span that a device's own clock timed.
pub fn device_span(kind: &Kind) -> Option<DeviceSpan> {
    let is_its = |(category, _): &&(&str, DeviceSpan)| category.eq_ignore_ascii_case(&kind.cat);
    let (_, span) = DEVICE_SPANS.iter().find(is_its).filter(|_| kind.origin == Origin::Span)?;
    match span {
        DeviceSpan::Step => (*kind.name == *DEVICE_STEP).then_some(DeviceSpan::Step),
        DeviceSpan::DataWait => (*kind.name == *DEVICE_WAIT).then_some(DeviceSpan::DataWait),
        DeviceSpan::Kernel if kind.name.starts_with(NCCL) => Some(DeviceSpan::Collective),
        // The host continues, and only a stream waits.
        DeviceSpan::Sync if kind.name.starts_with(STREAM_WAIT) => Some(DeviceSpan::Annotation),
        DeviceSpan::Copy if kind.name.contains(PAGEABLE) => Some(DeviceSpan::PageableCopy),
        other => Some(*other),
    }
}

/// Returns `true` for calls in which the host waits for a device.
pub fn is_device_wait(kind: &Kind) -> bool {
    kind.origin == Origin::Call && is_wait(kind) && *kind.cat == *DEVICE_LAYER
}

/// The prefix of categories of spans in which ranks communicate.
pub fn communicates(category: &str) -> bool {
    category.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("comm"))
}

/// Returns the bytes read and written by a call of a class.
#[inline(always)]
pub fn directions(class: Class, moved: u64) -> (u64, u64) {
    match class {
        Class::Read => (moved, 0),
        Class::Write => (0, moved),
        _ => (0, 0),
    }
}
