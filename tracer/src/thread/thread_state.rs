//! What a thread records with: its segment of the ring file, the halves in use, room for encoding. It outlives its thread,
//! and the next one takes it.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

use dlio_schemas::native::columns::{RAW_MAX, Scratch};
use dlio_schemas::native::ring::{HALF_SEALED, SEGMENT_HEADER, Shape, segment};

use crate::kernel::sys;
use crate::thread::chunk::Chunk;
use crate::thread::codec::BlockMaker;
use crate::thread::slots::Half;

/// A thread's recording state, in memory that a forked child finds zeroed. Outlives its thread: the next thread takes it.
#[repr(C)]
pub struct Thread {
    pub half: *mut Half,
    /// Slots of the active half.
    pub slots: u32,
    pub tid: u32,
    pub names: Chunk,
    /// The segment whose page belongs to this state; and its number.
    pub segment: *mut u8,
    pub stream: u32,
    /// The halves of a large segment, the same or a further one, and its number; null before there is one.
    pub large: *mut Half,
    pub large_stream: u32,
    /// A half that is not active and holds events that could not be encoded, because one was still being written.
    pub pending: *mut Half,
    /// Held by whoever encodes, the thread itself or the one that ends the process; [`CLOSED`] for good.
    pub encoding: AtomicU32,
    pub next: *mut Thread,
    pub next_idle: *mut Thread,
    pub scratch: Scratch,
    pub raw: [u8; RAW_MAX],
    pub blocks: BlockMaker<RAW_MAX>,
}

/// In the place of who encodes: what the state held has been written, and nothing more is.
pub const CLOSED: u32 = u32::MAX;

/// The outcome of waiting to be the one that encodes.
pub enum Taken {
    Mine,
    Closed,
    /// This very thread encodes, in a frame that was interrupted.
    Interrupted,
}

/// The halves of a segment, which follow its page.
///
/// # Safety
/// `segment` is mapped for good.
pub unsafe fn halves_of(segment: *mut u8) -> *mut Half {
    // SAFETY: the caller passes a segment, whose halves follow its page.
    unsafe { segment.add(SEGMENT_HEADER).cast() }
}

/// The page of a segment, by its first half.
///
/// # Safety
/// `first` is the first half of a segment.
pub unsafe fn page_of(first: *mut Half) -> *mut u8 {
    // SAFETY: the caller passes the first half of a segment, which follows its page.
    unsafe { first.cast::<u8>().sub(SEGMENT_HEADER) }
}

/// All halves of a state: the one of a small segment, if it began in one, and the two of a large one, if it has it.
///
/// # Safety
/// `thread` is equipped.
pub unsafe fn halves(thread: *mut Thread) -> impl Iterator<Item = *mut Half> {
    // SAFETY: the caller passes an equipped state.
    let (first, large) = unsafe { (halves_of((*thread).segment), (*thread).large) };
    let small = Some(first).filter(|half| *half != large);
    let large = Some(large).filter(|half| !half.is_null());
    small.into_iter().chain(large.into_iter().flat_map(|half| [half, half.wrapping_add(1)]))
}

/// True if every slot that was handed out holds a record.
///
/// # Safety
/// `thread` is equipped, and `half` one of its own.
pub unsafe fn is_complete(thread: *mut Thread, half: *mut Half) -> bool {
    // SAFETY: as of this function.
    unsafe { count_complete(thread, half) == taken(thread, half) }
}

/// How many slots hold a record.
///
/// # Safety
/// As of [`is_complete`].
pub unsafe fn count_complete(thread: *mut Thread, half: *mut Half) -> usize {
    // SAFETY: slots below those handed out are within the half; others may be writing their words.
    let holds = |i: &usize| unsafe { (&raw const (*half).records[*i].word).read_volatile() != 0 };
    // SAFETY: by the contract above.
    (0..unsafe { taken(thread, half) }).filter(holds).count()
}

/// True if a half is one of the large segment's.
///
/// # Safety
/// As of [`is_complete`].
pub unsafe fn is_large(thread: *mut Thread, half: *mut Half) -> bool {
    // SAFETY: the caller passes a state and a half of it.
    unsafe { !(*thread).large.is_null() && (half == (*thread).large || half == (*thread).large.add(1)) }
}

/// The number of slots of a half.
///
/// # Safety
/// As of [`is_complete`].
pub unsafe fn slots(thread: *mut Thread, half: *mut Half) -> u32 {
    // SAFETY: as above.
    (if unsafe { is_large(thread, half) } { Shape::LARGE.half_records } else { Shape::SMALL.half_records }) as u32
}

/// The number of slots of a half that have been handed out.
///
/// # Safety
/// As of [`is_complete`].
pub unsafe fn taken(thread: *mut Thread, half: *mut Half) -> usize {
    // SAFETY: the caller passes a state and a half of it, which is mapped.
    unsafe { ((&raw const (*half).next).read_volatile() & !HALF_SEALED).min(slots(thread, half)) as usize }
}

impl Thread {
    /// Room a thread's state takes; mapped, and mostly never touched.
    pub const SIZE: usize = size_of::<Thread>();

    /// Puts zeroed state to use with a segment of the ring file.
    ///
    /// # Safety
    /// `this` is zeroed memory of [`Thread::SIZE`] bytes, `segment` a mapped, zeroed segment of that shape; both stay for
    /// good.
    pub unsafe fn equip(this: *mut Thread, segment: *mut u8, shape: Shape, stream: u32) {
        // SAFETY: by the contract above.
        unsafe {
            (*this).segment = segment;
            (*this).stream = stream;
            (*this).names = Chunk::new(segment.add(shape.names_at()), shape.names);
            let first = halves_of(segment);
            if shape == Shape::LARGE {
                (*this).large = first;
                (*this).large_stream = stream;
                (*first.add(1)).sequence = 1;
            }
            (*this).slots = shape.half_records as u32;
            (*this).half = first;
        }
    }

    /// Hands the state to a thread.
    ///
    /// # Safety
    /// `this` is equipped and no thread uses it.
    pub unsafe fn adopt(this: *mut Thread, tid: u32) {
        // SAFETY: by the contract above.
        unsafe {
            (*this).tid = tid;
            // Events that could not be written and stayed are those of the thread before.
            if (*this).large.is_null() || taken(this, halves_of((*this).segment)) == 0 {
                (*this).segment.add(segment::TID).cast::<u32>().write(tid);
            }
            if !(*this).large.is_null() {
                page_of((*this).large).add(segment::TID).cast::<u32>().write(tid);
            }
            (*this).segment.add(segment::OPEN_SPANS).cast::<u32>().write(0);
        }
    }

    /// The thread that has this state, or had it last.
    ///
    /// # Safety
    /// `this` is equipped.
    pub unsafe fn tid(this: *mut Thread) -> u32 {
        // SAFETY: by the contract above.
        unsafe { (*this).tid }
    }

    /// The chunk of the thread's names.
    #[inline(always)]
    pub fn names(&self) -> Chunk {
        self.names
    }

    /// The page of this state's segment, for the list of open spans.
    pub fn segment(&self) -> *mut u8 {
        self.segment
    }

    /// True if a ring belongs to this state: not after a fork, and not once the image has been closed.
    #[inline(always)]
    pub fn is_equipped(&self) -> bool {
        !self.half.is_null()
    }

    /// The active half, or null where the ring was taken away, which another thread may do at any time when its file is cut: to be
    /// asked once.
    ///
    /// # Safety
    /// `this` is a state handed out by `image`.
    #[inline(always)]
    pub unsafe fn half(this: *mut Thread) -> *mut Half {
        // SAFETY: by the contract above.
        unsafe { (&raw const (*this).half).read_volatile() }
    }

    /// Another half is active from now on, unless the ring was taken away.
    ///
    /// # Safety
    /// As of [`Thread::half`].
    pub unsafe fn turn(this: *mut Thread, from: *mut Half, to: *mut Half) {
        // SAFETY: by the contract above; the pointer is aligned.
        let _ = unsafe { AtomicPtr::from_ptr(&raw mut (*this).half) }.compare_exchange(from, to, AcqRel, Relaxed);
    }

    /// Takes the ring away: the thread that uses this state asks for another one at its next event.
    ///
    /// # Safety
    /// `this` is a state handed out by `image`.
    pub unsafe fn retire(this: *mut Thread) {
        // SAFETY: by the contract above; a pointer-sized store is not torn.
        unsafe { (&raw mut (*this).half).write_volatile(std::ptr::null_mut()) }
    }

    /// Waits for a thread that is encoding right now. `me` is the calling thread's number.
    ///
    /// # Safety
    /// `this` is equipped.
    pub unsafe fn take_encoding(this: *mut Thread, me: u32) -> Taken {
        const PATIENCE: u32 = 1000;
        let mut waited = 0u32;
        // SAFETY: the caller's state is equipped.
        let encoding = unsafe { &(*this).encoding };
        loop {
            match encoding.compare_exchange(0, me, Acquire, Relaxed) {
                Ok(_) => return Taken::Mine,
                Err(CLOSED) => return Taken::Closed,
                Err(owner) if owner == me => return Taken::Interrupted,
                Err(owner) => {
                    waited = waited.wrapping_add(1);
                    if waited.is_multiple_of(PATIENCE) && !sys::thread_exists(owner) {
                        let _ = encoding.compare_exchange(owner, 0, Release, Relaxed);
                    }
                }
            }
            sys::yield_now();
        }
    }

    /// First step of closing: nobody else encodes, and no slot is given out any more. `false` if this call interrupted an
    /// encoding. `me` is the calling thread's number.
    ///
    /// # Safety
    /// `this` is equipped.
    pub unsafe fn seal(this: *mut Thread, me: u32) -> bool {
        // SAFETY: by the contract above; all halves are mapped.
        unsafe {
            if !matches!(Thread::take_encoding(this, me), Taken::Mine) {
                return false;
            }
            Thread::seal_again(this);
        }
        true
    }

    /// Second step, after a barrier for all threads: `false` if a thread took a slot at that very moment, which undid the
    /// seal. Slots are taken with an instruction that other processors may come in between of.
    ///
    /// # Safety
    /// `this` is sealed.
    pub unsafe fn seal_again(this: *mut Thread) -> bool {
        // SAFETY: by the contract above; the number is aligned.
        let seal = |half: *mut Half| unsafe {
            AtomicU32::from_ptr(&raw mut (*half).next).fetch_or(HALF_SEALED, SeqCst) & HALF_SEALED != 0
        };
        // SAFETY: as above. Every half is sealed, whatever came of the one before.
        unsafe { halves(this) }.filter(|half| !seal(*half)).count() == 0
    }
}

/// The state of this image that was added last.
static LAST: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());

/// The states of this image.
pub fn all() -> impl Iterator<Item = *mut Thread> {
    let last = Some(LAST.load(Acquire)).filter(|thread| !thread.is_null());
    // SAFETY: states are never unmapped, and the list only grows at its head.
    std::iter::successors(last, |thread| Some(unsafe { (**thread).next }).filter(|next| !next.is_null()))
}

/// Adds a state. Under the image's lock.
///
/// # Safety
/// `thread` is equipped, and in no list.
pub unsafe fn add(thread: *mut Thread) {
    // SAFETY: by the contract above.
    unsafe { (*thread).next = LAST.load(Relaxed) };
    LAST.store(thread, Release);
}

/// The threads of this image record no more into it: each finds that out at its next event. Calls nothing.
pub fn retire_all() {
    // SAFETY: states of the list were handed out by `image`.
    all().for_each(|thread| unsafe { Thread::retire(thread) });
}

/// The image is gone, and its states with it.
pub fn forget() {
    LAST.store(std::ptr::null_mut(), Release);
}
