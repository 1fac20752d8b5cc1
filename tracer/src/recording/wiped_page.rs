//! A page that a forked child finds zeroed, so that an unannounced child is recognized as one.
//!
//! It contains the data that a child must not inherit: the ring's address, whether anything is recorded, and the
//! state of the first thread, which is usually the only one. It is a static, so it needs no system call except the
//! one that makes the kernel wipe it.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};

use crate::kernel::sys;
use crate::thread::thread_state::Thread;

#[repr(C, align(4096))]
struct Wiped {
    /// Address of the ring's header page.
    ring: AtomicPtr<u8>,
    /// The value that every hook reads first: see [`crate::recording::phase`].
    mode: AtomicU32,
    generation: AtomicU32,
    thread_is_taken: AtomicBool,
    thread: UnsafeCell<MaybeUninit<Thread>>,
}

// SAFETY: the state is used only by the thread that took it, under the rules for all states.
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

/// Counts images: a name's number is valid within one.
static GENERATIONS: AtomicU32 = AtomicU32::new(0);

/// Returns the mode: zero before the engine has started, and again in a child that has not been recognized as one
/// yet.
#[inline(always)]
pub fn mode() -> &'static AtomicU32 {
    &WIPED.mode
}

/// Returns the number of this image in the process's life.
#[inline(always)]
pub fn generation() -> u32 {
    WIPED.generation.load(Relaxed)
}

/// Starts the next generation of name numbers. Numbering starts at one: zero is never a generation.
pub fn next_generation() {
    WIPED.generation.store(GENERATIONS.fetch_add(1, AcqRel) + 1, Release);
}

/// Returns the counter of [`generation`], for span APIs.
pub const fn generation_counter() -> *const AtomicU32 {
    &raw const WIPED.generation
}

/// Makes the kernel wipe the page in forked children. Returns the cell for the address of the ring's header page.
pub fn ring_cell() -> *mut AtomicPtr<u8> {
    if sys::wipe_on_fork((&raw const WIPED).cast_mut().cast(), size_of::<Wiped>()) {
        return (&raw const WIPED.ring).cast_mut();
    }
    let cell: *mut AtomicPtr<u8> = sys::map_memory(sys::PAGE).cast();
    if !cell.is_null() {
        sys::wipe_on_fork(cell.cast(), sys::PAGE);
        // A state that is not wiped would be the parent's in a forked child.
        WIPED.thread_is_taken.store(true, Relaxed);
    }
    cell
}

/// Returns memory for a thread's state, zeroed now and again in a forked child; null on failure.
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

/// Returns `true` if a thread's state is the one on this page.
pub fn is_first_thread(thread: *mut Thread) -> bool {
    thread == WIPED.thread.get().cast()
}
