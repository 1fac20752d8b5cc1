//! Assigns numbers to paths and other strings: once each, without an allocation, a lock or a system call.
//!
//! A table of fixed size maps the hash of a string to its number. It forgets old strings when it is full, so memory
//! does not grow with the number of files. A forgotten string gets a second number when it is seen again, as it does
//! when two threads see a new string at the same time; readers treat both numbers as the same name. Two strings with
//! the same 64-bit hash would be confused: one chance in ten million for a run of a million files.
//!
//! The strings themselves go into a chunk of the thread's segment in the ring file (see [`crate::thread::chunk`]); a
//! full chunk becomes a block of the `.dlt`.

use std::sync::atomic::{Ordering::*, compiler_fence};

use dlio_schemas::native::names::{NAME_MAX, NameKind};

use crate::known::name_cache;
use crate::known::number::NONE;
use crate::recording::ring;
use crate::thread::chunk::HandlerReserve;
use crate::thread::local::{Local, local};
use crate::thread::thread_state::Thread;
use crate::trace::{header_page, tally};

/// A process that opens much and reads little still records the time regularly, along with its names.
const ANCHOR_EVERY: u32 = 64;

/// Returns the number of a string, assigned now if it is new; [`NONE`] if there is no space or no trace.
pub fn intern(kind: NameKind, text: &[u8], hash: u64) -> u32 {
    name_cache::find(hash).unwrap_or_else(|| add(kind, text, hash))
}

/// Assigns a number to a string that was looked up and not found.
pub fn add(kind: NameKind, text: &[u8], hash: u64) -> u32 {
    let id = give(kind, &text[..text.len().min(NAME_MAX)]);
    if id != NONE {
        name_cache::remember(hash, id);
    }
    id
}

/// Puts a string into this thread's chunk and returns its number.
fn give(kind: NameKind, text: &[u8]) -> u32 {
    let line = local();
    // SAFETY: the line is this thread's own; a thread's state and its chunk are never unmapped.
    unsafe {
        if !has_ring(line) {
            ring::ensure();
            if !has_ring(line) {
                header_page::count_names_lost(1);
                return NONE;
            }
        }
        let thread = (*line).thread;
        let mut id = put(line, kind, text);
        // Not in a handler that interrupted the adding of a name: the chunk would be turned over under that name.
        if id.is_none() && (*line).naming == 0 && Thread::turn_names_over(thread) {
            id = put(line, kind, text);
        }
        let Some(id) = id else {
            header_page::count_names_lost(1);
            return NONE;
        };
        if kind == NameKind::Object {
            tally::note_object(id);
        }
        if id % ANCHOR_EVERY == 1 {
            header_page::refresh_anchor();
        }
        id
    }
}

/// Adds to the chunk of this thread. A signal handler that interrupts this may add, too, but must not turn the chunk
/// over.
///
/// # Safety
/// The line belongs to the calling thread, which has a ring.
#[inline(always)]
unsafe fn put(line: *mut Local, kind: NameKind, text: &[u8]) -> Option<u32> {
    // SAFETY: by the contract above.
    unsafe {
        (*line).naming += 1;
        compiler_fence(SeqCst);
        let kept = if (*line).naming == 1 { FOR_HANDLERS } else { HandlerReserve { room: 0, ids: 0 } };
        let id = (*(*line).thread).names().put(kind, text, kept);
        compiler_fence(SeqCst);
        (*line).naming -= 1;
        id
    }
}

/// Returns `true` if the thread of this line has a ring.
///
/// # Safety
/// The line belongs to the calling thread.
#[inline(always)]
unsafe fn has_ring(line: *const Local) -> bool {
    // SAFETY: by the contract above; states of threads are never unmapped.
    unsafe { !(*line).thread.is_null() && (*(*line).thread).is_equipped() }
}

/// Space at the end of a chunk for signal handlers that interrupt the adding of a name: they cannot turn the chunk
/// over. Enough for one or two paths; longer or more names in those nanoseconds are counted as lost.
const FOR_HANDLERS: HandlerReserve = HandlerReserve { room: 192, ids: 4 };
