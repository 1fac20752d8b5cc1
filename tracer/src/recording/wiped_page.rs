//! A page that a forked child finds zeroed, so that a child which nobody announced notices that it is one.
//!
//! It has what must not be its parent's in a child: where the ring is, whether anything is recorded, and the state of the
//! first thread, most often the only one. It is there without a system call, except for the one that has it wiped.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};

use crate::kernel::sys;
use crate::thread::thread_state::Thread;

#[repr(C, align(4096))]
struct Wiped {
    /// Where the ring's header page is.
    ring: AtomicPtr<u8>,
    /// What every hook looks at first: see [`crate::recording::phase`].
    mode: AtomicU32,
    generation: AtomicU32,
    thread_is_taken: AtomicBool,
    thread: UnsafeCell<MaybeUninit<Thread>>,
}

// SAFETY: the state is used by whoever has taken it, under the rules for all of them.
unsafe impl Sync for Wiped {}

crate::large! {
    static WIPED: Wiped = Wiped {
        ring: AtomicPtr::new(std::ptr::null_mut()),
        mode: AtomicU32::new(0),
        generation: AtomicU32::new(0),
        thread_is_taken: AtomicBool::new(false),
        thread: UnsafeCell::new(MaybeUninit::zeroed()),
    };
}

/// Counts images: numbers of names hold within one.
static GENERATIONS: AtomicU32 = AtomicU32::new(0);

/// Zero before the engine has started, and again in a child that has not noticed yet that it is one.
#[inline(always)]
pub fn mode() -> &'static AtomicU32 {
    &WIPED.mode
}

/// The number of this image in the process's life.
#[inline(always)]
pub fn generation() -> u32 {
    WIPED.generation.load(Relaxed)
}

/// Numbers of names hold for one image more, from one on: zero is never a generation.
pub fn next_generation() {
    WIPED.generation.store(GENERATIONS.fetch_add(1, AcqRel) + 1, Release);
}

/// The counter of [`generation`], for span APIs.
pub const fn generation_counter() -> *const AtomicU32 {
    &raw const WIPED.generation
}

/// Has the page wiped in forked children. Returns where the ring's header page is noted.
pub fn ring_cell() -> *mut AtomicPtr<u8> {
    if sys::wipe_on_fork((&raw const WIPED).cast_mut().cast(), size_of::<Wiped>()) {
        return (&raw const WIPED.ring).cast_mut();
    }
    let cell: *mut AtomicPtr<u8> = sys::map_memory(sys::PAGE).cast();
    if !cell.is_null() {
        sys::wipe_on_fork(cell.cast(), sys::PAGE);
        // A state that is not wiped would be its parent's in a forked child.
        WIPED.thread_is_taken.store(true, Relaxed);
    }
    cell
}

/// Zeroed memory for a thread's state, which a forked child finds zeroed again; or null.
pub fn thread_memory() -> *mut Thread {
    if !WIPED.thread_is_taken.swap(true, AcqRel) {
        return WIPED.thread.get().cast();
    }
    let memory = sys::map_memory(Thread::SIZE);
    if !memory.is_null() {
        sys::wipe_on_fork(memory, Thread::SIZE);
    }
    memory.cast()
}

/// Returns `true` if a state of a thread is the one on this page.
pub fn is_first_thread(thread: *mut Thread) -> bool {
    thread == WIPED.thread.get().cast()
}
