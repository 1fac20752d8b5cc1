//! A table of fixed size with the requests in flight of one ring. Requests are found by the number that the program attached to
//! them. These numbers need not be unique: if several requests have one number, the oldest is found.

use crate::kernel::sys;

/// A request whose result has not been seen.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Note {
    pub user_data: u64,
    pub start: u64,
    pub a: i64,
    pub b: i64,
    pub file: u32,
    pub fd: i32,
    pub op: u16,
    pub effect: Effect,
    /// `true` if `a` contains what the operation's row promises.
    pub is_known: bool,
    /// The registered file that the request creates or closes.
    pub slot: u32,
    /// The next note of its bucket or of the free list, plus one.
    next: u32,
}

/// The change that the result of a request makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Effect {
    Nothing = 0,
    /// The result is a new descriptor of the note's file.
    Opens,
    /// The request fills a slot of the registered files.
    FillsSlot,
    /// The result is the slot that was filled.
    FillsAnySlot,
    EmptiesSlot,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Bucket {
    first: u32,
    last: u32,
}

/// Minimum and maximum size of the table. Results of requests that do not fit into it are counted as not seen.
const FEW: usize = 64;
const MANY: usize = 1 << 15;

/// The notes of one ring.
pub struct Notes {
    buckets: *mut Bucket,
    notes: *mut Note,
    /// Power of two; zero without memory.
    room: usize,
    /// Notes ever used, and a list of free ones.
    used: u32,
    free: u32,
    pub count: u32,
}

impl Notes {
    pub const NONE: Notes =
        Notes { buckets: std::ptr::null_mut(), notes: std::ptr::null_mut(), room: 0, used: 0, free: 0, count: 0 };

    /// Returns an empty table for a ring with this number of results.
    pub fn new(entries: u32) -> Notes {
        let room = (2 * entries as usize).clamp(FEW, MANY).next_power_of_two();
        let memory = sys::map_memory(Notes::size(room));
        if memory.is_null() {
            return Notes::NONE;
        }
        // SAFETY: the mapping has space for both lists, for which zeroed memory is a value.
        let notes = unsafe { memory.add(room * size_of::<Bucket>()) }.cast();
        Notes { buckets: memory.cast(), notes, room, ..Notes::NONE }
    }

    fn size(room: usize) -> usize {
        room * (size_of::<Bucket>() + size_of::<Note>())
    }

    pub fn release(&mut self) {
        if self.room > 0 {
            sys::unmap(self.buckets.cast(), Notes::size(self.room));
        }
        *self = Notes::NONE;
    }

    fn bucket(&mut self, user_data: u64) -> &mut Bucket {
        let mixed = (user_data ^ user_data >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = (mixed >> 40) as usize & (self.room - 1);
        // SAFETY: the table has this many buckets.
        unsafe { &mut *self.buckets.add(at) }
    }

    fn note(&mut self, number: u32) -> &mut Note {
        // SAFETY: numbers are those of used notes, plus one.
        unsafe { &mut *self.notes.add(number as usize - 1) }
    }

    /// Adds a request; returns `false` if there is no space.
    pub fn add(&mut self, note: Note) -> bool {
        let number = match self.free {
            0 if (self.used as usize) < self.room => {
                self.used += 1;
                self.used
            }
            0 => return false,
            free => {
                self.free = self.note(free).next;
                free
            }
        };
        *self.note(number) = Note { next: 0, ..note };
        let bucket = self.bucket(note.user_data);
        let last = std::mem::replace(&mut bucket.last, number);
        if bucket.first == 0 {
            bucket.first = number;
        } else {
            self.note(last).next = number;
        }
        self.count += 1;
        true
    }

    /// Returns the oldest request with this number, and removes it unless more results follow.
    pub fn take(&mut self, user_data: u64, stays: bool) -> Option<Note> {
        if self.room == 0 {
            return None;
        }
        let (mut before, mut number) = (0, self.bucket(user_data).first);
        while number != 0 && self.note(number).user_data != user_data {
            (before, number) = (number, self.note(number).next);
        }
        if number == 0 {
            return None;
        }
        let note = *self.note(number);
        if !stays {
            self.unlink(before, number, note);
        }
        Some(note)
    }

    fn unlink(&mut self, before: u32, number: u32, note: Note) {
        if before != 0 {
            self.note(before).next = note.next;
        }
        let bucket = self.bucket(note.user_data);
        if before == 0 {
            bucket.first = note.next;
        }
        if bucket.last == number {
            bucket.last = before;
        }
        let free = std::mem::replace(&mut self.free, number);
        self.note(number).next = free;
        self.count -= 1;
    }

    /// Visits all notes, including free ones.
    pub fn for_each(&mut self, mut visit: impl FnMut(&mut Note)) {
        (1..=self.used).for_each(|number| visit(self.note(number)));
    }
}

impl Note {
    pub fn new(user_data: u64, start: u64, op: u16) -> Note {
        Note {
            user_data,
            start,
            a: 0,
            b: 0,
            file: crate::known::number::NONE,
            fd: -1,
            op,
            effect: Effect::Nothing,
            is_known: true,
            slot: 0,
            next: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_with_one_number_are_taken_in_order() {
        let mut notes = Notes::new(1);
        for start in 0..FEW as u64 {
            assert!(notes.add(Note::new(start % 3, start, 7)));
        }
        assert!(!notes.add(Note::new(0, 0, 7)), "the table is full");
        let starts = |notes: &mut Notes, user_data| {
            std::iter::from_fn(|| notes.take(user_data, false)).map(|note| note.start).collect::<Vec<_>>()
        };
        assert_eq!(notes.take(1, true).unwrap().start, 1);
        assert_eq!(starts(&mut notes, 1), (0..64).filter(|start| start % 3 == 1).collect::<Vec<_>>());
        assert!(notes.add(Note::new(2, 100, 7)) && notes.add(Note::new(1, 101, 7)));
        assert_eq!(starts(&mut notes, 2).last(), Some(&100));
        assert_eq!((starts(&mut notes, 1), starts(&mut notes, 0).len(), notes.count), (vec![101], 22, 0));
        notes.release();
        assert!(notes.take(0, false).is_none());
    }

    #[test]
    fn random_requests_are_found_like_in_a_plain_list() {
        let (mut notes, mut plain, mut state) = (Notes::new(64), Vec::new(), 1u64);
        for start in 0..20_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let user_data = state >> 40 & 31;
            if state >> 33 & 1 == 0 {
                assert_eq!(notes.add(Note::new(user_data, start, 1)), plain.len() < 128);
                if plain.len() < 128 {
                    plain.push((user_data, start));
                }
            } else {
                let at = plain.iter().position(|(data, _)| *data == user_data);
                assert_eq!(notes.take(user_data, false).map(|note| note.start), at.map(|at| plain.remove(at).1));
            }
            assert_eq!(notes.count as usize, plain.len());
        }
    }
}
