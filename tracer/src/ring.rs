//! The rings: where events go first, and how a full half becomes a block.
//!
//! Each live thread has a segment of the process's ring file (drawn in `dlio_schemas::native::ring`), two halves of
//! [`EVENTS_MAX`] slots. A slot is taken by one instruction that a signal cannot cut in two, filled, and marked complete by
//! writing its word last. When a half is full the other one takes over *before* the full one is encoded, so that a signal
//! handler that comes in meanwhile finds room.

use std::sync::atomic::{AtomicU32, Ordering::*, compiler_fence};

use dlio_schemas::native::block::{Header, Kind};
use dlio_schemas::native::columns::{EVENTS_MAX, RAW_MAX, Scratch, Survey};
use dlio_schemas::native::ring::{HALF_HEADER, SEGMENT_HEADER, segment};
use dlio_schemas::record::Record;

use crate::codec::BlockMaker;
use crate::local::{Local, local};
use crate::{clock, image, spill, stack, sys, tally, thread_names};

/// How often a long-lived half refreshes the ring's anchor, in records: a killed process's times are then good to the end.
const ANCHOR_EVERY: u32 = 256;

/// One half of a segment, in shared memory.
#[repr(C)]
pub struct Half {
    next: u32,
    sequence: u32,
    /// Records that are in the table of counts.
    counted: AtomicU32,
    pad: [u32; 13],
    records: [Record; EVENTS_MAX],
}

const _: () = assert!(std::mem::offset_of!(Half, records) == HALF_HEADER);

/// A thread's recording state, in memory that a forked child finds zeroed. Outlives its thread: the next thread takes it.
#[repr(C)]
pub struct Thread {
    half: *mut Half,
    segment: *mut u8,
    stream: u32,
    tid: u32,
    /// The half that is not active holds events that could not be encoded, because one was still being written.
    pending: bool,
    /// Held by whoever encodes: the thread itself, or the one that ends the process.
    encoding: AtomicU32,
    pub next: *mut Thread,
    pub next_idle: *mut Thread,
    scratch: Scratch,
    raw: [u8; RAW_MAX],
    blocks: BlockMaker<RAW_MAX>,
}

/// Takes a slot number. One instruction, so that a signal handler on this thread gets another number; other threads never
/// come here, so it needs no bus lock.
#[inline(always)]
unsafe fn take_slot(next: *mut u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut slot = 1u32;
        // SAFETY: the caller passes the counter of a live half.
        unsafe { std::arch::asm!("xadd dword ptr [{0}], {1:e}", in(reg) next, inout(reg) slot, options(nostack)) };
        slot
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as above; the counter is aligned.
    unsafe {
        AtomicU32::from_ptr(next).fetch_add(1, Relaxed)
    }
}

#[inline(always)]
unsafe fn fill(half: *mut Half, slot: u32, record: &Record) {
    // SAFETY: the caller took `slot` below EVENTS_MAX in this half.
    unsafe {
        let place = (&raw mut (*half).records).cast::<Record>().add(slot as usize);
        (*place).start = record.start;
        (*place).file = record.file;
        (*place).fd = record.fd;
        (*place).a = record.a;
        (*place).b = record.b;
        (*place).ret = record.ret;
        // Complete from here on, for a signal handler and for a reader after a kill.
        compiler_fence(Release);
        (*place).word = record.word;
    }
}

/// Records one event of this thread.
#[inline(always)]
pub fn put(record: Record) {
    // SAFETY: the line is this thread's own; `thread` and `half` are null or point to memory that is never unmapped.
    unsafe {
        let thread = (*local()).thread;
        if !thread.is_null() && !(*thread).half.is_null() {
            let half = (*thread).half;
            let slot = take_slot(&raw mut (*half).next);
            if slot < EVENTS_MAX as u32 {
                fill(half, slot, &record);
                if slot % ANCHOR_EVERY == ANCHOR_EVERY - 1 {
                    image::refresh_anchor();
                }
                return;
            }
        }
    }
    let Record { word, start, file, fd, a, b, ret } = record;
    put_slowly(word, start, (file, fd), a, b, ret);
}

/// The thread has no ring yet, or a half is full. Takes the record in registers, so that it is nowhere in memory before.
#[cold]
#[inline(never)]
fn put_slowly(word: u64, start: u64, (file, fd): (u32, i32), a: i64, b: i64, ret: i64) {
    let record = Record { word, start, file, fd, a, b, ret };
    let line = local();
    // SAFETY: the line is this thread's own, and `busy` keeps a signal handler out of what follows.
    unsafe {
        if (*line).busy != 0 {
            return spill::keep(&record);
        }
        (*line).busy = 1;
        compiler_fence(SeqCst);
        let began = clock::ticks();
        if !stack::with_room(|| put_with_room(line, &record)) {
            image::count_lost(1);
        }
        image::count_own_time(clock::ticks() - began);
        compiler_fence(SeqCst);
        (*line).busy = 0;
    }
    spill::take_back(put);
}

/// # Safety
/// `line` is this thread's own and marked busy.
unsafe fn put_with_room(line: *mut Local, record: &Record) -> bool {
    // SAFETY: see `put`; memory handed out by `image` is never unmapped.
    unsafe {
        // A thread, then a fresh half: more than two rounds mean that the process is ending.
        for _ in 0..3 {
            if (*line).thread.is_null() || (*(*line).thread).half.is_null() {
                (*line).thread = image::take_thread();
                if (*line).thread.is_null() {
                    return false;
                }
            }
            let half = (*(*line).thread).half;
            let slot = take_slot(&raw mut (*half).next);
            if slot < EVENTS_MAX as u32 {
                fill(half, slot, record);
                return true;
            }
            turn_over((*line).thread);
        }
    }
    false
}

/// Makes the other half active, then encodes the full one.
unsafe fn turn_over(thread: *mut Thread) {
    // SAFETY: the caller is the thread itself, busy; `encoding` keeps out the one that ends the process.
    unsafe {
        if (*thread).encoding.compare_exchange(0, sys::thread_id(), Acquire, Relaxed).is_err() {
            return;
        }
        let full = (*thread).half;
        let other = other_half(thread, full);
        if (*thread).pending {
            empty(thread, other, true);
        }
        (*thread).half = other;
        compiler_fence(SeqCst);
        // A slot below us on the stack may be taken and not filled: then this half waits for its next turn.
        (*thread).pending = !empty(thread, full, false);
        (*thread).encoding.store(0, Release);
    }
}

unsafe fn other_half(thread: *mut Thread, half: *mut Half) -> *mut Half {
    // SAFETY: a segment holds exactly two halves behind its page.
    unsafe {
        let first = (*thread).segment.add(SEGMENT_HEADER).cast::<Half>();
        if half == first { first.add(1) } else { first }
    }
}

/// Writes a half's complete records as a block and makes it new. `false` if one was incomplete and that was not `forced`.
unsafe fn empty(thread: *mut Thread, half: *mut Half, forced: bool) -> bool {
    // SAFETY: the caller holds `encoding`; the records are plain memory of this process, and slots below `next` are
    // written by nobody but an interrupted frame of this thread, whose record is not complete and therefore not read.
    unsafe {
        let taken = ((*half).next as usize).min(EVENTS_MAX);
        let records = &mut (&mut (*half).records)[..taken];
        let mut survey = survey_of(records, &mut (*thread).scratch);
        if !survey.complete && !forced {
            return false;
        }
        let count = if survey.complete { taken } else { gather(records) };
        if count < taken {
            survey = survey_of(&records[..count], &mut (*thread).scratch);
        }
        image::count_lost((taken - count) as u64);
        if count > 0 && tally::is_on() {
            if !tally::add((*thread).tid, &records[..count], &(*half).counted) {
                return false;
            }
        } else if count > 0 {
            write_block(thread, (*half).sequence, &survey, &records[..count]);
        }
        records.iter_mut().for_each(|record| record.word = 0);
        (*half).counted.store(0, Relaxed);
        (*half).sequence += 2;
        compiler_fence(SeqCst);
        (*half).next = 0;
        true
    }
}

/// Moves complete records to the front and counts them.
fn gather(records: &mut [Record]) -> usize {
    let mut count = 0;
    for i in 0..records.len() {
        if records[i].is_complete() {
            records.swap(count, i);
            count += 1;
        }
    }
    count
}

unsafe fn write_block(thread: *mut Thread, sequence: u32, survey: &Survey, records: &[Record]) {
    // SAFETY: the caller holds `encoding`, which guards the buffers of this thread.
    unsafe {
        let mut header = Header {
            stream: (*thread).stream,
            sequence,
            tid: (*thread).tid,
            count: records.len() as u32,
            first: records[0].start,
            last: survey.last,
            anchor: clock::anchor(),
            ..Header::new(Kind::Events)
        };
        let length = columns_of(survey, records, &mut (*thread).scratch, &mut (*thread).raw);
        let payload = &(&(*thread).raw)[..length];
        let block = (*thread).blocks.make(&mut header, payload);
        if !image::append(block) {
            image::count_lost(records.len() as u64);
        }
    }
}

/// A function as this processor runs it best: a seventh faster where it has registers of 32 bytes.
macro_rules! at_full_width {
    ($name:ident($($arg:ident: $of:ty),*) -> $ret:ty = $function:path) => {
        fn $name($($arg: $of),*) -> $ret {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,bmi2,lzcnt")]
                fn wide($($arg: $of),*) -> $ret {
                    $function($($arg),*)
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("lzcnt") {
                    // SAFETY: the processor has what the function was compiled for.
                    return unsafe { wide($($arg),*) };
                }
            }
            $function($($arg),*)
        }
    };
}

at_full_width! { survey_of(records: &[Record], scratch: &mut Scratch) -> Survey = Survey::of }
at_full_width! {
    columns_of(survey: &Survey, records: &[Record], scratch: &mut Scratch, out: &mut [u8]) -> usize = Survey::encode
}

impl Thread {
    /// Room a thread's state takes; mapped, and mostly never touched.
    pub const SIZE: usize = size_of::<Thread>();

    /// Puts zeroed state to use with a segment of the ring file.
    ///
    /// # Safety
    /// `this` is zeroed memory of [`Thread::SIZE`] bytes, `segment` a mapped, zeroed segment; both stay for good.
    pub unsafe fn equip(this: *mut Thread, segment: *mut u8, stream: u32) {
        // SAFETY: by the contract above.
        unsafe {
            (*this).segment = segment;
            (*this).stream = stream;
            let first = segment.add(SEGMENT_HEADER).cast::<Half>();
            (*first.add(1)).sequence = 1;
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
            (*this).segment.add(segment::TID).cast::<u32>().write(tid);
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

    /// Writes everything this state still holds. Waits for a thread that is encoding right now, but not for an encoding
    /// that this call interrupted: then `false`.
    ///
    /// # Safety
    /// `this` is equipped.
    pub unsafe fn drain(this: *mut Thread) -> bool {
        let me = sys::thread_id();
        // SAFETY: `encoding` makes this the only one at work on the halves.
        unsafe {
            while let Err(owner) = (*this).encoding.compare_exchange(0, me, Acquire, Relaxed) {
                if owner == me {
                    return false;
                }
                sys::yield_now();
            }
            let active = (*this).half;
            if active.is_null() {
                (*this).encoding.store(0, Release);
                return true;
            }
            if (*this).pending {
                empty(this, other_half(this, active), true);
                (*this).pending = false;
            }
            empty(this, active, true);
            (*this).encoding.store(0, Release);
        }
        true
    }

    /// Takes the ring away: the thread that uses this state asks for another one at its next event.
    ///
    /// # Safety
    /// `this` is a state handed out by `image`.
    pub unsafe fn retire(this: *mut Thread) {
        // SAFETY: by the contract above; a pointer-sized store is not torn.
        unsafe { (&raw mut (*this).half).write_volatile(std::ptr::null_mut()) }
    }

    /// Whether a ring belongs to this state: not after a fork, and not once the image has been closed.
    #[inline(always)]
    pub fn is_equipped(&self) -> bool {
        !self.half.is_null()
    }

    /// The page of this state's segment, for the list of open spans.
    pub fn segment(&self) -> *mut u8 {
        self.segment
    }
}

/// Gives this thread a ring before its first event.
#[cold]
pub fn ensure() {
    let line = local();
    // SAFETY: the line is this thread's own, and `busy` keeps a signal handler out.
    unsafe {
        if (*line).busy == 0 {
            (*line).busy = 1;
            (*line).thread = stack::with_room(image::take_thread);
            (*line).busy = 0;
        }
    }
}

/// Ends this thread's part: writes what it holds and leaves its ring to the next thread.
pub fn end_thread() {
    let line = local();
    // SAFETY: the line is this thread's own; `busy` keeps signal handlers from what is being given up.
    unsafe {
        let thread = (*line).thread;
        if thread.is_null() || (*thread).half.is_null() || (*line).busy != 0 {
            return stack::give_back();
        }
        (*line).busy = 1;
        let drained = stack::with_room(|| {
            thread_names::note_own();
            Thread::drain(thread)
        });
        if drained {
            (*line).thread = std::ptr::null_mut();
            image::give_back(thread);
        }
        (*line).busy = 0;
        stack::give_back();
    }
}
