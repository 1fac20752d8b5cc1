//! One event as recorded: 48 bytes, fixed.
//!
//! ```text
//!  0        8        16     20    24       32       40       48
//!  | word   | start  | file | fd  |   a    |   b    |  ret   |
//!    word = op (10 bits) | depth (5) | position known (1) | duration in ticks (48)
//! ```
//!
//! Times are ticks of the process's clock (see [`crate::event::clock`]). `word` is written last and a slot is zeroed
//! when it is recycled, so a slot whose word is not zero is a complete event even after a kill.

use crate::event::ops::Op;

/// Size of a record, fixed by a test: raise [`crate::native::VERSION`] when it changes.
pub const RECORD_SIZE: usize = 48;

/// The column `pos` of an event whose position is unknown.
pub const POS_UNKNOWN: i64 = -1;

/// Deeper events are written with this depth.
pub const DEPTH_MAX: u8 = 31;

/// 48 bits of ticks: 30 hours at 2.6 GHz. A longer call is written with this duration.
pub const DURATION_MAX: u64 = (1 << 48) - 1;

const DEPTH_SHIFT: u32 = 48;
const KNOWN_SHIFT: u32 = 53;
const OP_SHIFT: u32 = 54;

/// One event: see the module's drawing.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    pub word: u64,
    pub start: u64,
    /// Name id of the file; 0 if there is none.
    pub file: u32,
    /// Descriptor, or -1.
    pub fd: i32,
    pub a: i64,
    pub b: i64,
    /// Result, or `-errno`.
    pub ret: i64,
}

/// Returns the first word of a record. `known` is true if `a` contains the value that the operation's row promises.
#[inline(always)]
pub const fn word(op: Op, depth: u8, known: bool, duration: u64) -> u64 {
    let duration = if duration > DURATION_MAX { DURATION_MAX } else { duration };
    let depth = if depth > DEPTH_MAX { DEPTH_MAX } else { depth };
    (op.0 as u64) << OP_SHIFT | (known as u64) << KNOWN_SHIFT | (depth as u64) << DEPTH_SHIFT | duration
}

impl Record {
    pub fn op(&self) -> Op {
        Op((self.word >> OP_SHIFT) as u16)
    }

    pub fn depth(&self) -> u8 {
        (self.word >> DEPTH_SHIFT) as u8 & DEPTH_MAX
    }

    pub fn known(&self) -> bool {
        self.word >> KNOWN_SHIFT & 1 != 0
    }

    pub fn duration(&self) -> u64 {
        self.word & DURATION_MAX
    }

    /// Returns `true` if the slot contains an event: its word was written last.
    pub fn is_complete(&self) -> bool {
        self.word != 0
    }

    /// Returns `true` if this record contains counters, which are not an event but belong to one.
    pub fn is_counters(&self) -> bool {
        self.op() == Op::META && self.fd == MetaKind::Counters as i32
    }

    /// Reads a slot of a ring file.
    pub fn from_bytes(bytes: &[u8; RECORD_SIZE]) -> Record {
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Record {
            word: u64_at(0),
            start: u64_at(8),
            file: u32_at(16),
            fd: u32_at(20) as i32,
            a: u64_at(24) as i64,
            b: u64_at(32) as i64,
            ret: u64_at(40) as i64,
        }
    }
}

/// Means "no epoch" or "no step".
pub const STEP_NONE: i32 = i32::MIN;

/// Packs epoch and step of a span into one argument, so that the most common metadata needs no separate record.
pub const fn pack_steps(epoch: i32, step: i32) -> i64 {
    (epoch as i64) << 32 | (step as u32 as i64)
}

pub const fn unpack_steps(packed: i64) -> (i32, i32) {
    ((packed >> 32) as i32, packed as i32)
}

/// The type of the value of an [`Op::META`] record, stored in its `fd`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum MetaKind {
    Int = 0,
    /// The bits of an `f64`.
    Float = 1,
    /// A name id.
    Text = 2,
    /// Not a value of a span, but counters of the thread: see [`crate::event::evidence::Counters`].
    Counters = 3,
}

impl MetaKind {
    pub fn from_fd(fd: i32) -> Option<MetaKind> {
        [MetaKind::Int, MetaKind::Float, MetaKind::Text, MetaKind::Counters].into_iter().find(|kind| *kind as i32 == fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_has_48_bytes_and_keeps_every_field() {
        assert_eq!(size_of::<Record>(), RECORD_SIZE);
        let record = Record { word: word(Op(1023), 31, true, DURATION_MAX), ..Record::default() };
        assert_eq!(
            (record.op(), record.depth(), record.known(), record.duration()),
            (Op(1023), 31, true, DURATION_MAX)
        );
        let small = Record { word: word(Op::READ, 0, false, 7), ..Record::default() };
        assert_eq!((small.op(), small.depth(), small.known(), small.duration()), (Op::READ, 0, false, 7));
    }

    #[test]
    fn large_depth_and_duration_saturate() {
        let record = Record { word: word(Op::READ, 200, true, u64::MAX), ..Record::default() };
        assert_eq!((record.depth(), record.duration()), (DEPTH_MAX, DURATION_MAX));
    }

    #[test]
    fn steps_survive_packing() {
        for (epoch, step) in [(0, 0), (3, 41), (STEP_NONE, 7), (-1, STEP_NONE), (i32::MAX, i32::MAX)] {
            assert_eq!(unpack_steps(pack_steps(epoch, step)), (epoch, step));
        }
    }
}
