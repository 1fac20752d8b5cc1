//! Kinds of events as counting needs them: which are I/O, which wait, which open a file, which train.

use dlio_schemas::ops::{Class, Layer};

use super::epochs::Part;
use crate::catalog::{Kind, Origin};
use crate::summary::files::access::{Timed, stream};
use crate::summary::waits::timeline::StepKind;
use crate::unit::Categories;

/// A kind of event without its strings: all that counting asks of it.
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
    /// And it finds that there are no more: it waits, and takes none.
    pub(in crate::summary) in_vain: bool,
    /// Waits, whatever it waits on: a lock on a file, a pipe.
    pub(in crate::summary) waits: bool,
    /// Goes through a socket.
    pub(in crate::summary) net: bool,
    /// Waits for others, and not for a file or until a time.
    pub(in crate::summary) idle: bool,
    /// Moves its bytes by calls that may have been seen too.
    pub(in crate::summary) above: bool,
    /// Is a span of a device's track, which trains for others and waits for nobody.
    pub(in crate::summary) on_device: bool,
    /// Is a span in which a data set is made.
    pub(in crate::summary) generates: bool,
    /// Is a span of communication.
    pub(in crate::summary) communicates: bool,
    /// Is a request to an object store, or a span of one. One that begins at the object's first byte is as good as an open.
    pub(in crate::summary) requests: bool,
    /// Whose times are measured, and which stream its bytes belong to.
    pub(in crate::summary) timed: Timed,
    pub(in crate::summary) stream: u8,
    /// Ends a pass through a file by opening it, or by closing it.
    pub(in crate::summary) closes: bool,
    /// Sets how large a file is, or makes it as large at least.
    pub(in crate::summary) sizes: bool,
    /// Its part in what threads say to one another, where it is no call on a stored file.
    pub(in crate::summary) step: Option<StepKind>,
    pub(in crate::summary) category: u64,
}

impl KindTraits {
    /// The part of an epoch that it is.
    pub(in crate::summary) fn part(&self) -> Part {
        match self.class {
            _ if self.in_vain => Part::VainWait,
            _ if self.next_batch || self.starts_loader => Part::Wait,
            Class::Compute => Part::Compute,
            _ => Part::Other,
        }
    }

    /// True if a call counts among those on files, where what it is on is stored. Waits have a row of their own there.
    #[inline(always)]
    pub(in crate::summary) fn is_on_file(&self, is_stored: bool) -> bool {
        self.waits || is_stored && !self.net
    }

    pub(in crate::summary) fn of(kind: &Kind, category: u32) -> KindTraits {
        let call = kind.origin == Origin::Call;
        KindTraits {
            class: kind.class,
            call,
            io: call && is_io(kind),
            opens: call && kind.class == Class::Metadata && opens(&kind.name),
            span: kind.origin == Origin::Span,
            next_batch: kind.origin == Origin::Span && is_next_batch(kind),
            starts_loader: kind.origin == Origin::Span && *kind.name == *START_LOADER,
            in_vain: kind.origin == Origin::Span && finds_no_more(kind),
            waits: call && is_wait(kind),
            net: call && *kind.cat == *Layer::Net.name(),
            idle: call && is_idle(kind),
            above: call && *kind.cat == *ABOVE,
            on_device: times_device(kind),
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
            closes: call && ["close", "fclose"].contains(&&*kind.name),
            sizes: call && SIZING.contains(&&*kind.name),
            step: if call { step_of(kind) } else { None },
            category: Categories::bit_at(category),
        }
    }
}

/// What a call is in the conversation of threads.
fn step_of(kind: &Kind) -> Option<StepKind> {
    let name = kind.name.as_ref();
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    match kind.class {
        Class::Read => Some(StepKind::Take),
        Class::Write => Some(StepKind::Give),
        _ if name == "sem_post" => Some(StepKind::Post),
        _ if begins(&["fork", "vfork", "posix_spawn"]) => Some(StepKind::Fork),
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

/// The span in which the benchmark makes the data set that it then reads.
pub const GENERATE: &str = "generate";

/// Calls that count as I/O: what reads, writes, synchronises or asks about files.
pub fn is_io(kind: &Kind) -> bool {
    matches!(kind.class, Class::Read | Class::Write | Class::Metadata | Class::Sync)
}

/// Spans in which a trainer waits for its next batch, by the beginning of their name: ours and the benchmark's, PyTorch's
/// profiler's, Lightning's.
pub const NEXT_BATCH: [&str; 3] = ["fetch", "enumerate(DataLoader)", "[_TrainingEpochLoop].train_dataloader_next"];

pub fn is_next_batch(kind: &Kind) -> bool {
    kind.class != Class::Compute && NEXT_BATCH.iter().any(|name| kind.name.starts_with(name))
}

/// A wait for a batch that finds that there are no more.
pub fn finds_no_more(kind: &Kind) -> bool {
    *kind.name == *"fetch.end" && is_next_batch(kind)
}

/// The span in which a loader starts its workers.
const START_LOADER: &str = "loader.start";

/// Spans of a training step whose forward nobody saw: a part of the computing, which must not be taken for all of it.
const PARTS: [&str; 3] = ["backward", "optimizer.step", "optimizer.part"];

pub(in crate::summary) fn is_part(kind: &Kind) -> bool {
    kind.origin == Origin::Span && *kind.cat == *"pipeline" && PARTS.contains(&kind.name.as_ref())
}

/// Calls that wait, whatever for.
pub fn is_wait(kind: &Kind) -> bool {
    kind.class == Class::Wait
}

/// Calls that wait for others. One that sleeps waits for nobody.
pub fn is_idle(kind: &Kind) -> bool {
    is_wait(kind) && !kind.name.ends_with("sleep")
}

/// Calls whose success opens a file. `fdopen` puts a stream before one that is open.
pub const OPENING: [&str; 7] = ["open", "openat", "creat", "mkstemp", "fopen", "freopen", "MPI_File_open"];

/// Calls whose success sets the size of a file. What `fallocate` does to it is in its mode, which traces do not have.
const SIZING: [&str; 3] = ["truncate", "ftruncate", "posix_fallocate"];

pub fn opens(name: &str) -> bool {
    OPENING.contains(&name)
}

/// The layer of calls whose bytes are moved by calls beneath.
pub const ABOVE: &str = "mpiio";

/// The category of requests to object stores.
pub const OBJECT: &str = "object";

/// Categories that PyTorch's profiler gives to what runs on a device: each device is a process there, and its streams are
/// threads.
const DEVICE: [&str; 4] = ["kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"];

/// True of spans that a device's own clock timed.
pub fn times_device(kind: &Kind) -> bool {
    kind.origin == Origin::Span && is_on_device(&kind.cat)
}

fn is_on_device(category: &str) -> bool {
    DEVICE.iter().any(|known| known.eq_ignore_ascii_case(category))
}

/// Categories of spans in which ranks talk to one another begin so.
pub fn communicates(category: &str) -> bool {
    category.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("comm"))
}

/// Bytes read and bytes written by a call of a class.
#[inline(always)]
pub fn directions(class: Class, moved: u64) -> (u64, u64) {
    match class {
        Class::Read => (moved, 0),
        Class::Write => (0, moved),
        _ => (0, 0),
    }
}
