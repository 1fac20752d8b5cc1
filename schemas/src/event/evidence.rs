//! Evidence of a wait: the work of its thread since the last wait, and the thread that ended it.
//!
//! Both are packed into the numbers of a record. [`Counters`] are an [`Op::META`](crate::event::ops::Op::META) record
//! directly before the record of the wait; [`Waker`] is the argument `b` of the wait itself.

use crate::event::ops::Op;
use crate::event::record::{MetaKind, Record, word};

const BITS_24: u64 = (1 << 24) - 1;
const BITS_12: u64 = (1 << 12) - 1;
const BITS_40: u64 = (1 << 40) - 1;

/// Replaces the run delay if it was not read.
const NOT_TAKEN: u64 = BITS_40;

/// The work of a thread since its last counters. Numbers that do not fit are stored as the largest possible number.
///
/// ```text
/// a    CPU time in us (40 bits) | major faults (24)
/// b    run delay in us (40 bits, all ones: not taken) | voluntary switches (12) | involuntary switches (12)
/// ret  minor faults
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    pub cpu_us: u64,
    /// Faults that waited for a device.
    pub major_faults: u64,
    pub minor_faults: u64,
    /// Time that the thread was runnable without a processor since the last reading. `None` if it was not read this
    /// time.
    pub run_delay_us: Option<u64>,
    pub voluntary: u64,
    pub involuntary: u64,
}

impl Counters {
    /// Returns the numbers `a`, `b` and `ret` of the record.
    pub fn pack(&self) -> (i64, i64, i64) {
        let delay = self.run_delay_us.map_or(NOT_TAKEN, |us| us.min(NOT_TAKEN - 1));
        let a = self.cpu_us.min(BITS_40) | self.major_faults.min(BITS_24) << 40;
        let b = delay | self.voluntary.min(BITS_12) << 40 | self.involuntary.min(BITS_12) << 52;
        (a as i64, b as i64, self.minor_faults.min(i64::MAX as u64) as i64)
    }

    pub fn unpack(a: i64, b: i64, ret: i64) -> Counters {
        let (a, b) = (a as u64, b as u64);
        let delay = b & BITS_40;
        Counters {
            cpu_us: a & BITS_40,
            major_faults: a >> 40,
            minor_faults: ret.max(0) as u64,
            run_delay_us: (delay != NOT_TAKEN).then_some(delay),
            voluntary: b >> 40 & BITS_12,
            involuntary: b >> 52,
        }
    }

    /// Returns the record of counters that were read at a tick.
    pub fn record(&self, at: u64) -> Record {
        let (a, b, ret) = self.pack();
        Record { word: word(Op::META, 0, true, 0), start: at, file: 0, fd: MetaKind::Counters as i32, a, b, ret }
    }
}

/// The thread that ended a wait, if it was seen.
///
/// ```text
/// b    thread (32 bits) | time since it posted, in us (24) | flags (8)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Waker {
    /// Zero if no thread was seen.
    pub tid: u32,
    /// Time from its post to the end of the wait; the largest number represents all larger ones.
    pub woken_us: u32,
    pub flags: u8,
}

impl Waker {
    /// The poster itself had taken this semaphore before: it is used as a lock.
    pub const BY_TAKER: u8 = 1;
    /// There were several posts during the wait, or another object used this object's slot in the table.
    pub const SEVERAL: u8 = 2;
    /// Processes share the object: it is given by an id instead of its address.
    pub const SHARED: u8 = 4;

    pub fn pack(&self) -> i64 {
        (self.tid as u64 | (self.woken_us as u64).min(BITS_24) << 32 | (self.flags as u64) << 56) as i64
    }

    pub fn unpack(b: i64) -> Waker {
        let b = b as u64;
        Waker { tid: b as u32, woken_us: (b >> 32 & BITS_24) as u32, flags: (b >> 56) as u8 }
    }
}

/// A child process that a call found in another state, and how it ended.
///
/// ```text
/// a    process (32 bits) | how it ended (16): 0 unknown, 0x100 | exit status, 0x200 | signal
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Child {
    /// Zero: no child was found.
    pub pid: u32,
    pub ended: Option<ChildEnd>,
}

/// The end of a process, as its parent learns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChildEnd {
    Exit(u8),
    Signal(u8),
}

impl Child {
    const EXIT: u64 = 0x100;
    const SIGNAL: u64 = 0x200;

    pub fn pack(&self) -> i64 {
        let ended = match self.ended {
            None => 0,
            Some(ChildEnd::Exit(status)) => Child::EXIT | status as u64,
            Some(ChildEnd::Signal(signal)) => Child::SIGNAL | signal as u64,
        };
        (self.pid as u64 | ended << 32) as i64
    }

    /// A negative number means that there is no child, as in a trace without this value.
    pub fn unpack(a: i64) -> Child {
        if a < 0 {
            return Child::default();
        }
        let (ended, low) = (a as u64 >> 32 & 0xff00, (a as u64 >> 32) as u8);
        let ended = match ended {
            Child::EXIT => Some(ChildEnd::Exit(low)),
            Child::SIGNAL => Some(ChildEnd::Signal(low)),
            _ => None,
        };
        Child { pid: a as u32, ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_survive_packing() {
        let some = Counters {
            cpu_us: 50_000,
            major_faults: 3,
            minor_faults: 70_000,
            run_delay_us: Some(0),
            voluntary: 7,
            involuntary: 4095,
        };
        for counters in [Counters::default(), some, Counters { run_delay_us: None, ..some }] {
            let (a, b, ret) = counters.pack();
            assert_eq!(Counters::unpack(a, b, ret), counters);
        }
    }

    #[test]
    fn large_counters_saturate() {
        let all = u64::MAX;
        let large = Counters {
            cpu_us: all,
            major_faults: all,
            minor_faults: all,
            run_delay_us: Some(all),
            voluntary: all,
            involuntary: all,
        };
        let (a, b, ret) = large.pack();
        let largest = Counters {
            cpu_us: (1 << 40) - 1,
            major_faults: (1 << 24) - 1,
            minor_faults: i64::MAX as u64,
            run_delay_us: Some((1 << 40) - 2),
            voluntary: 4095,
            involuntary: 4095,
        };
        assert_eq!(Counters::unpack(a, b, ret), largest);
    }

    #[test]
    fn counters_record_is_recognized() {
        let record = Counters { cpu_us: 5, ..Counters::default() }.record(77);
        assert_eq!((record.op(), record.start, record.duration(), record.file), (Op::META, 77, 0, 0));
        assert_eq!(MetaKind::from_fd(record.fd), Some(MetaKind::Counters));
        assert_eq!(Counters::unpack(record.a, record.b, record.ret).cpu_us, 5);
    }

    #[test]
    fn a_child_survives_packing() {
        for ended in [None, Some(ChildEnd::Exit(0)), Some(ChildEnd::Exit(255)), Some(ChildEnd::Signal(9))] {
            let child = Child { pid: u32::MAX, ended };
            assert_eq!(Child::unpack(child.pack()), child);
        }
        assert_eq!(Child::default().pack(), 0);
        assert_eq!(Child::unpack(-1), Child::default());
    }

    #[test]
    fn a_waker_survives_packing() {
        let waker = Waker { tid: u32::MAX, woken_us: 12, flags: Waker::SHARED | Waker::BY_TAKER };
        assert_eq!(Waker::unpack(waker.pack()), waker);
        assert_eq!(Waker::unpack(Waker { woken_us: u32::MAX, ..waker }.pack()).woken_us, (1 << 24) - 1);
        assert_eq!(Waker::default().pack(), 0);
    }
}
