//! Names that several formats share: the arguments of an event, and a hash that is written into files.

use crate::event::evidence::{Child, ChildEnd, Counters, Waker};
use crate::event::ops::Arg;

/// The arguments of an event, by their names in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Key {
    File = 1,
    Fd,
    Pos,
    Requested,
    Bytes,
    Ret,
    Errno,
    Flags,
    Mode,
    Whence,
    Offset,
    Target,
    OtherFd,
    Command,
    Count,
    /// The second of two counts.
    Second,
    Epoch,
    Step,
    Value,
    /// The span had not ended when its process did.
    Unfinished,
    /// Duration of a call without a track.
    Dur,
    /// The source of bytes that went to the file.
    Source,
    /// The semaphore, condition or barrier of a wait.
    Object,
    /// The thread that ended a wait.
    Waker,
    /// Time from its post to the end of the wait.
    WokenUs,
    /// See [`crate::event::evidence::Waker`].
    WakerFlags,
    /// Counters of a thread: see [`crate::event::evidence::Counters`]. If there are any, the first one is always
    /// present.
    CpuUs,
    MajorFaults,
    MinorFaults,
    RunDelayUs,
    Voluntary,
    Involuntary,
    /// The child that a call waited for, and how it ended: by an exit status or a signal.
    Child,
    ExitStatus,
    Signal,
}

impl Key {
    pub const ALL: [Key; 35] = {
        use Key::*;
        [
            File,
            Fd,
            Pos,
            Requested,
            Bytes,
            Ret,
            Errno,
            Flags,
            Mode,
            Whence,
            Offset,
            Target,
            OtherFd,
            Command,
            Count,
            Second,
            Epoch,
            Step,
            Value,
            Unfinished,
            Dur,
            Source,
            Object,
            Waker,
            WokenUs,
            WakerFlags,
            CpuUs,
            MajorFaults,
            MinorFaults,
            RunDelayUs,
            Voluntary,
            Involuntary,
            Child,
            ExitStatus,
            Signal,
        ]
    };

    pub fn name(self) -> &'static str {
        [
            "file",
            "fd",
            "pos",
            "requested",
            "bytes",
            "ret",
            "errno",
            "flags",
            "mode",
            "whence",
            "offset",
            "target",
            "other_fd",
            "command",
            "count",
            "second",
            "epoch",
            "step",
            "value",
            "unfinished",
            "dur",
            "source",
            "object",
            "waker",
            "woken_us",
            "waker_flags",
            "cpu_us",
            "major_faults",
            "minor_faults",
            "run_delay_us",
            "voluntary",
            "involuntary",
            "child",
            "exit_status",
            "signal",
        ][self as usize - 1]
    }

    pub fn from_name(name: &[u8]) -> Option<Key> {
        Key::ALL.into_iter().find(|key| key.name().as_bytes() == name)
    }

    /// Returns the name of argument `a`, or of `b`.
    pub const fn of(arg: Arg, second: bool) -> Option<Key> {
        Some(match arg {
            Arg::None | Arg::Steps => return None,
            Arg::Position => Key::Pos,
            Arg::Size => Key::Requested,
            Arg::Flags => Key::Flags,
            Arg::Mode => Key::Mode,
            Arg::Whence => Key::Whence,
            Arg::Offset => Key::Offset,
            Arg::Path => Key::Target,
            Arg::Source => Key::Source,
            Arg::Fd => Key::OtherFd,
            Arg::Command => Key::Command,
            Arg::Count if second => Key::Second,
            Arg::Count => Key::Count,
            Arg::Value => Key::Value,
            Arg::Object => Key::Object,
            Arg::Waker => Key::Waker,
            Arg::Child => Key::Child,
        })
    }
}

/// Returns the keys of a packed waker and their numbers, if there are any.
pub(crate) fn of_waker(packed: i64) -> impl Iterator<Item = (Key, i64)> {
    let waker = Waker::unpack(packed);
    let all =
        [(Key::Waker, waker.tid as i64), (Key::WokenUs, waker.woken_us as i64), (Key::WakerFlags, waker.flags as i64)];
    all.into_iter().filter(|(_, number)| *number != 0)
}

/// Returns the keys of a packed child and their numbers. The process is always included, so that a reader recognizes them.
pub(crate) fn of_child(packed: i64) -> impl Iterator<Item = (Key, i64)> {
    let Child { pid, ended } = Child::unpack(packed);
    let ended = ended.map(|ended| match ended {
        ChildEnd::Exit(status) => (Key::ExitStatus, status as i64),
        ChildEnd::Signal(signal) => (Key::Signal, signal as i64),
    });
    [Some((Key::Child, pid as i64)), ended].into_iter().flatten()
}

/// Returns the keys of counters and their numbers. The CPU time is always included, so that a reader recognizes them
/// by it.
pub(crate) fn of_counters(counters: &Counters) -> impl Iterator<Item = (Key, i64)> {
    let (delay, others) = (counters.run_delay_us, |key, number| (number != 0).then_some((key, number as i64)));
    let all = [
        Some((Key::CpuUs, counters.cpu_us as i64)),
        others(Key::MajorFaults, counters.major_faults),
        others(Key::MinorFaults, counters.minor_faults),
        delay.map(|us| (Key::RunDelayUs, us as i64)),
        others(Key::Voluntary, counters.voluntary),
        others(Key::Involuntary, counters.involuntary),
    ];
    all.into_iter().flatten()
}

/// Returns an FNV-1a hash with a final mix. Implemented here, because the numbers are written into files and must not
/// change with a library.
pub fn hash(parts: &[&[u8]]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325u64;
    for part in parts {
        for &byte in part.iter().chain(&[0]) {
            state = (state ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    state ^= state >> 32;
    state = state.wrapping_mul(0xd6e8_feb8_6659_fd93);
    // Zero means "no track" to viewers.
    (state ^ state >> 32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_own_number_and_name() {
        for (i, key) in Key::ALL.into_iter().enumerate() {
            assert_eq!(key as usize, i + 1);
            assert_eq!(Key::from_name(key.name().as_bytes()), Some(key));
        }
    }
}
