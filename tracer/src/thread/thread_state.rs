//! The recording state of a thread: its segment of the ring file, the halves in use, and buffers for encoding. It
//! outlives its thread and is reused by the next one.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

use dlio_schemas::native::columns::{RAW_MAX, Scratch};
use dlio_schemas::native::ring::{HALF_SEALED, SEGMENT_HEADER, Shape, segment};

use crate::kernel::sys;
use crate::thread::chunk::Chunk;
use crate::thread::codec::BlockMaker;
use crate::thread::slots::Half;

/// A thread's recording state, in memory that a forked child finds zeroed. It outlives its thread and is reused by
/// the next one.
#[repr(C)]
pub struct Thread {
    pub half: *mut Half,
    /// Number of slots of the active half.
    pub slots: u32,
    pub tid: u32,
    pub names: Chunk,
    /// The segment whose page belongs to this state, and its number.
    pub segment: *mut u8,
    pub stream: u32,
    /// The halves of a large segment, which may be the first segment or a further one, and its number; null if there
    /// is none yet.
    pub large: *mut Half,
    pub large_stream: u32,
    /// An inactive half with events that could not be encoded because one was still being written.
    pub pending: *mut Half,
    /// Held by the thread that encodes, which is the state's own thread or the one that ends the process; [`CLOSED`]
    /// is permanent.
    pub encoding: AtomicU32,
    pub next: *mut Thread,
    pub next_idle: *mut Thread,
    pub scratch: Scratch,
    pub raw: [u8; RAW_MAX],
    pub blocks: BlockMaker<RAW_MAX>,
}

/// Replaces the id of the encoding thread: the state's events have been written, and no more will be.
pub const CLOSED: u32 = u32::MAX;

/// The result of waiting for the right to encode.
pub enum Taken {
    Mine,
    Closed,
    /// The calling thread itself is encoding, in an interrupted frame.
    Interrupted,
}

/// Returns the halves of a segment, which follow its page.
///
/// # Safety
/// `segment` is mapped permanently.
pub unsafe fn halves_of(segment: *mut u8) -> *mut Half {
    // SAFETY: the caller passes a segment, whose halves follow its page.
    unsafe { segment.add(SEGMENT_HEADER).cast() }
}

/// Returns the page of a segment, given its first half.
///
/// # Safety
/// `first` is the first half of a segment.
pub unsafe fn page_of(first: *mut Half) -> *mut u8 {
    // SAFETY: the caller passes the first half of a segment, which follows its page.
    unsafe { first.cast::<u8>().sub(SEGMENT_HEADER) }
}

/// Returns all halves of a state: the one of a small segment, if it started in one, and the two of a large one, if it
/// has one.
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

/// Returns `true` if every taken slot contains a record.
///
/// # Safety
/// `thread` is equipped, and `half` is one of its halves.
pub unsafe fn is_complete(thread: *mut Thread, half: *mut Half) -> bool {
    // SAFETY: by the contract above.
    unsafe { count_complete(thread, half) == taken(thread, half) }
}

/// Returns the number of slots that contain a record.
///
/// # Safety
/// `thread` is equipped, and `half` is one of its halves.
pub unsafe fn count_complete(thread: *mut Thread, half: *mut Half) -> usize {
    // SAFETY: taken slots are within the half; their words may be written at the same time.
    let holds = |i: &usize| unsafe { (&raw const (*half).records[*i].word).read_volatile() != 0 };
    // SAFETY: by the contract above.
    (0..unsafe { taken(thread, half) }).filter(holds).count()
}

/// Returns `true` if a half belongs to the large segment.
///
/// # Safety
/// `thread` is equipped, and `half` is one of its halves.
pub unsafe fn is_large(thread: *mut Thread, half: *mut Half) -> bool {
    // SAFETY: the caller passes a state and one of its halves.
    unsafe { !(*thread).large.is_null() && (half == (*thread).large || half == (*thread).large.add(1)) }
}

/// Returns the number of slots of a half.
///
/// # Safety
/// `thread` is equipped, and `half` is one of its halves.
pub unsafe fn slots(thread: *mut Thread, half: *mut Half) -> u32 {
    // SAFETY: as above.
    (if unsafe { is_large(thread, half) } { Shape::LARGE.half_records } else { Shape::SMALL.half_records }) as u32
}

/// Returns the number of taken slots of a half.
///
/// # Safety
/// `thread` is equipped, and `half` is one of its halves.
pub unsafe fn taken(thread: *mut Thread, half: *mut Half) -> usize {
    // SAFETY: the caller passes a state and one of its halves, which is mapped.
    unsafe { ((&raw const (*half).next).read_volatile() & !HALF_SEALED).min(slots(thread, half)) as usize }
}

impl Thread {
    /// Size of a thread's state; mapped, and mostly never touched.
    pub const SIZE: usize = size_of::<Thread>();

    /// Initializes a zeroed state with a segment of the ring file.
    ///
    /// # Safety
    /// `this` is zeroed memory of [`Thread::SIZE`] bytes, `segment` is a mapped, zeroed segment of that shape; both
    /// are permanent.
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

    /// Assigns the state to a thread.
    ///
    /// # Safety
    /// `this` is equipped and not used by a thread.
    pub unsafe fn adopt(this: *mut Thread, tid: u32) {
        // SAFETY: by the contract above.
        unsafe {
            (*this).tid = tid;
            // Events that could not be written belong to the previous thread.
            if (*this).large.is_null() || taken(this, halves_of((*this).segment)) == 0 {
                (*this).segment.add(segment::TID).cast::<u32>().write(tid);
            }
            if !(*this).large.is_null() {
                page_of((*this).large).add(segment::TID).cast::<u32>().write(tid);
            }
            (*this).segment.add(segment::OPEN_SPANS).cast::<u32>().write(0);
        }
    }

    /// Returns the thread that has this state, or had it last.
    ///
    /// # Safety
    /// `this` is equipped.
    pub unsafe fn tid(this: *mut Thread) -> u32 {
        // SAFETY: by the contract above.
        unsafe { (*this).tid }
    }

    /// Returns the chunk of the thread's names.
    #[inline(always)]
    pub fn names(&self) -> Chunk {
        self.names
    }

    /// Returns the page of this state's segment, for the list of open spans.
    pub fn segment(&self) -> *mut u8 {
        self.segment
    }

    /// Returns `true` if this state has a ring: not after a fork, and not after the image was closed.
    #[inline(always)]
    pub fn is_equipped(&self) -> bool {
        !self.half.is_null()
    }

    /// Returns the active half, or null if the ring was taken away. Another thread may take it away at any time when
    /// the file is truncated, so read this once.
    ///
    /// # Safety
    /// `this` is a state from `image`.
    #[inline(always)]
    pub unsafe fn half(this: *mut Thread) -> *mut Half {
        // SAFETY: by the contract above.
        unsafe { (&raw const (*this).half).read_volatile() }
    }

    /// Makes another half active, unless the ring was taken away.
    ///
    /// # Safety
    /// `this` is a state from `image`.
    pub unsafe fn turn(this: *mut Thread, from: *mut Half, to: *mut Half) {
        // SAFETY: by the contract above; the pointer is aligned.
        let _ = unsafe { AtomicPtr::from_ptr(&raw mut (*this).half) }.compare_exchange(from, to, AcqRel, Relaxed);
    }

    /// Takes the ring away: the thread of this state requests another one at its next event.
    ///
    /// # Safety
    /// `this` is a state from `image`.
    pub unsafe fn retire(this: *mut Thread) {
        // SAFETY: by the contract above; a pointer-sized store is not torn.
        unsafe { (&raw mut (*this).half).write_volatile(std::ptr::null_mut()) }
    }

    /// Waits for a thread that is encoding now, and takes the right to encode. `me` is the calling thread's id.
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

    /// First step of closing: excludes other encoders and prevents further slots from being taken. Returns `false` if
    /// this call interrupted an encoding. `me` is the calling thread's id.
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

    /// Second step of closing, after a barrier for all threads. Returns `false` if a thread took a slot at the same
    /// time, which undid the seal: slots are taken with an instruction that is not atomic between processors.
    ///
    /// # Safety
    /// `this` is sealed.
    pub unsafe fn seal_again(this: *mut Thread) -> bool {
        // SAFETY: by the contract above; the number is aligned.
        let seal = |half: *mut Half| unsafe {
            AtomicU32::from_ptr(&raw mut (*half).next).fetch_or(HALF_SEALED, SeqCst) & HALF_SEALED != 0
        };
        // SAFETY: as above. Every half is sealed, regardless of the result for the previous one.
        unsafe { halves(this) }.filter(|half| !seal(*half)).count() == 0
    }
}

/// The state of this image that was added last.
static LAST: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());

/// Iterates over the states of this image.
pub fn all() -> impl Iterator<Item = *mut Thread> {
    let last = Some(LAST.load(Acquire)).filter(|thread| !thread.is_null());
    // SAFETY: states are never unmapped, and the list only grows at its head.
    std::iter::successors(last, |thread| Some(unsafe { (**thread).next }).filter(|next| !next.is_null()))
}

/// Adds a state. Must be called under the image's lock.
///
/// # Safety
/// `thread` is equipped, and not in a list.
pub unsafe fn add(thread: *mut Thread) {
    // SAFETY: by the contract above.
    unsafe { (*thread).next = LAST.load(Relaxed) };
    LAST.store(thread, Release);
}

/// Stops all threads of this image from recording into it: each notices at its next event. Makes no calls.
pub fn retire_all() {
    // SAFETY: states of the list came from `image`.
    all().for_each(|thread| unsafe { Thread::retire(thread) });
}

/// Forgets all states, because their image has ended.
pub fn forget() {
    LAST.store(std::ptr::null_mut(), Release);
}
