//! The annotations of one event, and their meaning for its record.

use super::interned::AnnotationName;
use crate::event::evidence::{Child, ChildEnd, Counters, Waker};
use crate::event::ops::{Arg, Op, OpInfo, Ret};
use crate::event::record::{MetaKind, POS_UNKNOWN, Record, STEP_NONE, pack_steps, word};
use crate::export::key::Key;

/// The annotations of one event: those our writer knows by their key, the rest in order.
pub(super) struct Slots {
    present: u64,
    named: [Slot; Key::ALL.len() + 1],
    others: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    name: u32,
    kind: i32,
    value: i64,
}

impl Slot {
    fn metadata(&self, time: u64) -> Record {
        let word = word(Op::META, 0, true, 0);
        Record { word, start: time, file: self.name, fd: self.kind, a: self.value, ..Record::default() }
    }
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { present: 0, named: [Slot::default(); Key::ALL.len() + 1], others: Vec::new() }
    }
}

impl Slots {
    pub(super) fn clear(&mut self) {
        self.present = 0;
        self.others.clear();
    }

    #[inline]
    pub(super) fn put(&mut self, name: AnnotationName, kind: MetaKind, value: i64) {
        let slot = Slot { name: name.id, kind: kind as i32, value };
        match name.key {
            Some(key) => {
                self.present |= 1 << key as u64;
                self.named[key as usize] = slot;
            }
            None => self.others.push(slot),
        }
    }

    #[inline]
    fn get(&self, key: Key) -> Option<i64> {
        self.has(key).then(|| self.named[key as usize].value)
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.present & 1 << key as u64 != 0
    }

    pub(super) fn number(&self, key: Key) -> i64 {
        self.get(key).unwrap_or(0)
    }

    /// Adds annotations of a span that have no separate column. Those of our writer exclude the counters of its
    /// thread.
    pub(super) fn fill_metadata(&self, time: u64, has_counters: bool, into: &mut Vec<Record>) {
        let own_column = |key: &Key| {
            matches!(key, Key::Epoch | Key::Step | Key::Unfinished | Key::Dur) || has_counters && is_counter(*key)
        };
        let named = Key::ALL.into_iter().filter(|key| self.has(*key) && !own_column(key));
        if self.present != 0 {
            into.extend(named.map(|key| self.named[key as usize].metadata(time)));
        }
        self.fill_others(time, into);
    }

    /// Returns counters of the thread, at a time.
    pub(super) fn counters(&self, time: u64) -> Option<Record> {
        let number = |key| self.number(key).max(0) as u64;
        let counters = || Counters {
            cpu_us: number(Key::CpuUs),
            major_faults: number(Key::MajorFaults),
            minor_faults: number(Key::MinorFaults),
            run_delay_us: self.has(Key::RunDelayUs).then(|| number(Key::RunDelayUs)),
            voluntary: number(Key::Voluntary),
            involuntary: number(Key::Involuntary),
        };
        self.has(Key::CpuUs).then(|| counters().record(time))
    }

    fn waker(&self) -> i64 {
        let (tid, woken_us) = (self.number(Key::Waker) as u32, self.number(Key::WokenUs) as u32);
        Waker { tid, woken_us, flags: self.number(Key::WakerFlags) as u8 }.pack()
    }

    fn child(&self) -> i64 {
        let exit = self.get(Key::ExitStatus).map(|status| ChildEnd::Exit(status as u8));
        let ended = exit.or_else(|| self.get(Key::Signal).map(|signal| ChildEnd::Signal(signal as u8)));
        Child { pid: self.number(Key::Child) as u32, ended }.pack()
    }

    /// Adds annotations for which our writer has no key.
    pub(super) fn fill_others(&self, time: u64, into: &mut Vec<Record>) {
        into.extend(self.others.iter().map(|slot| slot.metadata(time)));
    }

    /// Fills in epoch and step, or a counter's value; returns whether there was any.
    pub(super) fn fill_span(&self, record: &mut Record, counter: Option<f64>) -> bool {
        if let Some(value) = counter {
            record.a = value.to_bits() as i64;
            return true;
        }
        let step = |key| self.get(key).map_or(STEP_NONE, |number| number as i32);
        record.a = pack_steps(step(Key::Epoch), step(Key::Step));
        self.has(Key::Epoch) || self.has(Key::Step)
    }

    /// Fills in the columns of a call from our writer; returns whether `a` was known.
    #[inline]
    pub(super) fn fill_call(&self, record: &mut Record, info: Option<&OpInfo>) -> bool {
        record.file = self.number(Key::File) as u32;
        record.fd = self.get(Key::Fd).map_or(-1, |fd| fd as i32);
        let Some(info) = info else { return false };
        let a = match info.a {
            Arg::Child => self.has(Key::Child).then(|| self.child()),
            other => Key::of(other, false).and_then(|key| self.get(key)),
        };
        record.a = a.unwrap_or(POS_UNKNOWN);
        record.b = match info.b {
            Arg::Waker => self.waker(),
            other => Key::of(other, true).map_or(0, |key| self.number(key)),
        };
        record.ret = match (self.get(Key::Errno), info.ret) {
            (Some(errno), _) => errno.wrapping_neg(),
            (None, Ret::Bytes) => self.number(Key::Bytes),
            (None, Ret::Fd) => self.get(Key::Ret).unwrap_or(record.fd as i64),
            (None, _) => self.number(Key::Ret),
        };
        a.is_some()
    }
}

fn is_counter(key: Key) -> bool {
    use Key::{CpuUs, Involuntary, MajorFaults, MinorFaults, RunDelayUs, Voluntary};
    matches!(key, CpuUs | MajorFaults | MinorFaults | RunDelayUs | Voluntary | Involuntary)
}
