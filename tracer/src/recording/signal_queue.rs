//! A queue for events that a signal handler recorded while its thread was in the tracer's slow path.
//!
//! The handler can neither use the half that is being retired nor wait for the frame it interrupted. It leaves its
//! event here, and that frame records it on its way out. There is one pool for all threads, because a thread at its
//! first event does not have its own memory yet. A queued event counts as lost until it is recorded, because a kill would
//! leave nothing else of it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering::*};

use dlio_schemas::record::Record;

use crate::thread::local::own_id;
use crate::trace::header_page;

/// Capacity of the queue: events of handlers that make more than a few calls in the microseconds of a slow path are
/// lost and counted.
const QUEUE_SLOTS: usize = 64;

/// Replaces the thread id while an event is being written.
const BEING_WRITTEN: u32 = u32::MAX;

struct QueueSlot {
    /// Thread of the event; zero if the slot is free.
    owner: AtomicU32,
    record: UnsafeCell<Record>,
}

// SAFETY: changing `owner` from free, or from one's own id, gives exclusive access to the record until another value
// is stored.
unsafe impl Sync for QueueSlot {}

crate::large! {
    static POOL: [QueueSlot; QUEUE_SLOTS] = [const {
        QueueSlot {
            owner: AtomicU32::new(0),
            record: UnsafeCell::new(Record { word: 0, start: 0, file: 0, fd: 0, a: 0, b: 0, ret: 0 }),
        }
    }; QUEUE_SLOTS];
}
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Queues an event for the frame this one interrupted.
pub fn keep(record: &Record) {
    let free = |place: &&QueueSlot| place.owner.compare_exchange(0, BEING_WRITTEN, Acquire, Relaxed).is_ok();
    header_page::count_lost(1);
    // Before a slot is taken: while this is zero, all slots are free.
    WAITING.fetch_add(1, Relaxed);
    let Some(place) = POOL.iter().find(free) else {
        WAITING.fetch_sub(1, Relaxed);
        return;
    };
    // SAFETY: the slot was free and is ours now.
    unsafe { *place.record.get() = *record };
    place.owner.store(own_id(), Release);
}

/// Passes this thread's queued events to `put`.
pub fn take_back(put: impl Fn(Record)) {
    if WAITING.load(Relaxed) == 0 {
        return;
    }
    let me = own_id();
    for place in &POOL {
        if place.owner.compare_exchange(me, BEING_WRITTEN, Acquire, Relaxed).is_ok() {
            // SAFETY: the slot belongs to this thread, which alone empties it.
            let record = unsafe { *place.record.get() };
            place.owner.store(0, Release);
            WAITING.fetch_sub(1, Relaxed);
            put(record);
            header_page::take_back_lost(1);
        }
    }
}

/// Clears the queue in a forked child: the events belong to its parent.
pub fn forget() {
    if WAITING.swap(0, Relaxed) > 0 {
        POOL.iter().for_each(|place| place.owner.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_event_is_returned_once() {
        keep(&Record { start: 7, ..Record::default() });
        keep(&Record { start: 8, ..Record::default() });
        let sum = AtomicU32::new(0);
        for _ in 0..2 {
            take_back(|record| {
                let _ = sum.fetch_add(record.start as u32, Relaxed);
            });
        }
        assert_eq!(sum.load(Relaxed), 15);
    }
}
