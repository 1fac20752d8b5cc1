//! Interned strings of a sequence of packets, resolved as far as possible when they are defined.

use std::collections::BTreeMap;

use crate::event::ops::{Layer, Op};
use crate::export::key::Key;
use crate::perfetto::layout::{ANNOTATION_NAMES, DEPTH_BITS, layer_index};
use crate::perfetto::proto::{Walk, field};

/// Values by number. Dense numbers, which writers use, are found without a search; others cost a search, so that a
/// hostile number costs no memory.
#[derive(Clone, Debug)]
pub struct Table<T> {
    near: Vec<Option<T>>,
    far: BTreeMap<u64, T>,
    given: u64,
}

/// Slots of [`Table::near`] per value: a thread has used a few of its process's paths, in any order.
const ROOM: u64 = 64;

/// Maximum number of slots of [`Table::near`].
const NEAR_MAX: u64 = 1 << 22;

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { near: Vec::new(), far: BTreeMap::new(), given: 0 }
    }
}

impl<T: Copy> Table<T> {
    pub fn insert(&mut self, number: u64, value: T) {
        self.given += 1;
        if number >= (ROOM * self.given).min(NEAR_MAX) {
            self.far.insert(number, value);
            return;
        }
        let at = number as usize;
        if at >= self.near.len() {
            self.widen((at + 1).next_power_of_two());
        }
        self.near[at] = Some(value);
    }

    /// Grows the dense part to numbers below `length`, and moves values there.
    fn widen(&mut self, length: usize) {
        self.near.resize(length, None);
        let beyond = self.far.split_off(&(length as u64));
        for (number, value) in std::mem::replace(&mut self.far, beyond) {
            self.near[number as usize] = Some(value);
        }
    }

    #[inline(always)]
    pub fn get(&self, number: u64) -> Option<T> {
        match self.near.get(number as usize) {
            Some(&Some(value)) => Some(value),
            _ => self.far.get(&number).copied(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct EventName {
    /// Number of the string in the reader's names.
    pub id: u32,
    /// The operation, if our writer named one.
    pub op: Option<Op>,
}

#[derive(Clone, Copy, Debug)]
pub struct Category {
    pub id: u32,
    pub layer: Option<Layer>,
    /// The depth as stored by our writer.
    pub depth: u8,
}

#[derive(Clone, Copy, Debug)]
pub struct AnnotationName {
    pub id: u32,
    pub key: Option<Key>,
}

/// The state of one sequence.
#[derive(Clone, Debug, Default)]
pub struct Interned {
    pub event_names: Table<EventName>,
    pub categories: Table<Category>,
    pub annotation_names: Table<AnnotationName>,
    pub strings: Table<u32>,
}

impl Interned {
    /// Reads a packet's strings; `name` assigns each its number among all names of the trace.
    pub fn learn(&mut self, message: &[u8], name: &mut dyn FnMut(u32, &[u8]) -> u32) {
        for (table, entry) in Walk::new(message).flatten() {
            let (iid, text) = entry_of(entry.bytes());
            match table {
                field::interned::EVENT_NAMES => {
                    self.event_names.insert(iid, EventName { id: name(table, text), op: operation(iid, text) });
                }
                field::interned::CATEGORIES => self.categories.insert(iid, category(iid, text, name(table, text))),
                field::interned::ANNOTATION_NAMES => {
                    let key = Key::from_name(text).filter(|_| iid < ANNOTATION_NAMES);
                    self.annotation_names.insert(iid, AnnotationName { id: name(table, text), key });
                }
                field::interned::STRINGS => self.strings.insert(iid, name(table, text)),
                _ => (),
            }
        }
    }
}

fn entry_of(message: &[u8]) -> (u64, &[u8]) {
    let mut entry = (0, &[][..]);
    for (number, value) in Walk::new(message).flatten() {
        match number {
            field::interned::IID => entry.0 = value.number(),
            field::interned::TEXT => entry.1 = value.bytes(),
            _ => (),
        }
    }
    entry
}

/// Returns the operation of a name. Our writer uses the operation as its name's number; a span with an equal name has
/// another number.
fn operation(iid: u64, text: &[u8]) -> Option<Op> {
    Op::from_name(std::str::from_utf8(text).ok()?).filter(|op| op.0 as u64 == iid)
}

fn category(iid: u64, text: &[u8], id: u32) -> Category {
    let index = iid >> DEPTH_BITS;
    let layer = Layer::ALL.into_iter().find(|layer| layer_index(*layer) == index && layer.name().as_bytes() == text);
    Category { id, layer, depth: (iid & ((1 << DEPTH_BITS) - 1)) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_found_with_little_memory() {
        let mut table = Table::default();
        let numbers = [0, 1, 63, 64, 300, 1 << 20, u64::MAX];
        numbers.into_iter().for_each(|number| table.insert(number, number));
        assert!(numbers.iter().all(|&number| table.get(number) == Some(number)));
        assert_eq!(table.get(65), None);
        assert!(table.near.len() < 1000);
    }

    #[test]
    fn reassigned_number_means_the_later_string() {
        let mut table = Table::default();
        // Outside the dense part first, inside once the table has grown.
        table.insert(100, 'a');
        assert!(table.near.is_empty());
        (0..64).for_each(|number| table.insert(number, 'x'));
        assert_eq!(table.get(100), Some('a'));
        table.insert(100, 'b');
        assert_eq!(table.get(100), Some('b'));
    }

    #[test]
    fn only_our_numbers_make_an_operation() {
        assert_eq!(operation(Op::READ.0 as u64, b"read"), Some(Op::READ));
        assert_eq!(operation(1024, b"read"), None);
        assert_eq!(operation(Op::READ.0 as u64, b"epoch"), None);
    }
}
