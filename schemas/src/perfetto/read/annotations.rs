//! The annotations of one event, and what they mean to its record.

use super::interned::AnnotationName;
use crate::event::ops::{Op, OpInfo, Ret};
use crate::event::record::{MetaKind, POS_UNKNOWN, Record, STEP_NONE, pack_steps, word};
use crate::export::key::Key;

/// The annotations of one event: those our writer knows by their key, others in turn.
#[derive(Default)]
pub(super) struct Slots {
    present: u32,
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
                self.present |= 1 << key as u32;
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
        self.present & 1 << key as u32 != 0
    }

    pub(super) fn number(&self, key: Key) -> i64 {
        self.get(key).unwrap_or(0)
    }

    /// Annotations of a span that have no column of their own.
    pub(super) fn fill_metadata(&self, time: u64, into: &mut Vec<Record>) {
        let own_column = |key: &Key| matches!(key, Key::Epoch | Key::Step | Key::Unfinished | Key::Dur);
        let named = Key::ALL.into_iter().filter(|key| self.has(*key) && !own_column(key));
        if self.present != 0 {
            into.extend(named.map(|key| self.named[key as usize].metadata(time)));
        }
        self.fill_others(time, into);
    }

    /// Annotations that our writer has no key for.
    pub(super) fn fill_others(&self, time: u64, into: &mut Vec<Record>) {
        into.extend(self.others.iter().map(|slot| slot.metadata(time)));
    }

    /// Epoch and step, or a counter's value; says whether there was any.
    pub(super) fn fill_span(&self, record: &mut Record, counter: Option<f64>) -> bool {
        if let Some(value) = counter {
            record.a = value.to_bits() as i64;
            return true;
        }
        let step = |key| self.get(key).map_or(STEP_NONE, |number| number as i32);
        record.a = pack_steps(step(Key::Epoch), step(Key::Step));
        self.has(Key::Epoch) || self.has(Key::Step)
    }

    /// The columns of a call of ours; says whether `a` was known.
    #[inline]
    pub(super) fn fill_call(&self, record: &mut Record, info: Option<&OpInfo>) -> bool {
        record.file = self.number(Key::File) as u32;
        record.fd = self.get(Key::Fd).map_or(-1, |fd| fd as i32);
        let Some(info) = info else { return false };
        let a = Key::of(info.a, false).and_then(|key| self.get(key));
        record.a = a.unwrap_or(POS_UNKNOWN);
        record.b = Key::of(info.b, true).map_or(0, |key| self.number(key));
        record.ret = match (self.get(Key::Errno), info.ret) {
            (Some(errno), _) => errno.wrapping_neg(),
            (None, Ret::Bytes) => self.number(Key::Bytes),
            (None, Ret::Fd) => self.get(Key::Ret).unwrap_or(record.fd as i64),
            (None, _) => self.number(Key::Ret),
        };
        a.is_some()
    }
}
