//! Names that several formats share: the arguments of an event, and a hash that is written into files.

use crate::event::ops::Arg;

/// The arguments of an event, as they are named in the trace.
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
    /// Duration of a call that found no track.
    Dur,
    /// The source of bytes that went to the file.
    Source,
}

impl Key {
    pub const ALL: [Key; 22] = {
        use Key::*;
        [
            File, Fd, Pos, Requested, Bytes, Ret, Errno, Flags, Mode, Whence, Offset, Target, OtherFd, Command, Count,
            Second, Epoch, Step, Value, Unfinished, Dur, Source,
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
        ][self as usize - 1]
    }

    pub fn from_name(name: &[u8]) -> Option<Key> {
        Key::ALL.into_iter().find(|key| key.name().as_bytes() == name)
    }

    /// The name of argument `a`, or of `b`.
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
        })
    }
}

/// FNV-1a with a final mix. Written out, because the numbers go into files and must not change with a library.
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
