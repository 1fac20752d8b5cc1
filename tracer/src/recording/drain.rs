//! Emptying a ring: records that are complete become a block of the `.dlt`, or rows of the table of counts.

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::AtomicU8;
use std::sync::atomic::{AtomicU64, Ordering::*, compiler_fence};

use dlio_schemas::native::block::{Header, Kind};
use dlio_schemas::native::columns::{Scratch, Survey};
use dlio_schemas::native::ring::{HALF_LOST, HALF_SEALED};
use dlio_schemas::record::Record;

use crate::kernel::{clock, sys};
use crate::recording::latest;
use crate::thread::chunk;
use crate::thread::local::own_id;
use crate::thread::slots::Half;
use crate::thread::thread_state::{CLOSED, Taken, Thread, count_complete, halves, is_complete, is_large, taken};
use crate::trace::{blocks, header_page, ring_file, tally};

/// How long the one that ends the process waits for a record that another thread is writing: that one may have been put to
/// sleep in the middle of it, or be gone.
const RECORD_LASTS_NS: u64 = 100_000_000;

/// The number of events that stayed since the image began to be closed.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Halves are emptied for the last time from now on.
pub fn begin_to_close() {
    LEFT.store(0, Relaxed);
}

/// The number of events that could not be written, and that are in the file of the ring.
pub fn left() -> u64 {
    LEFT.load(Relaxed)
}

impl Thread {
    /// Writes everything this state still holds. `false` if this call interrupted an encoding.
    ///
    /// # Safety
    /// `this` is equipped, and its thread the caller.
    pub unsafe fn drain(this: *mut Thread) -> bool {
        // SAFETY: `encoding` makes this the only one at work on the halves.
        unsafe {
            match Thread::take_encoding(this, own_id()) {
                Taken::Mine => {
                    empty_all(this);
                    (*this).encoding.store(0, Release);
                    true
                }
                Taken::Closed => true,
                Taken::Interrupted => false,
            }
        }
    }

    /// Third step: waits for what is being written at this moment. Returns how many records there are, and how many were
    /// begun.
    ///
    /// # Safety
    /// `this` is sealed, and that has held.
    pub unsafe fn settle(this: *mut Thread) -> (u64, u64) {
        // SAFETY: by the contract above.
        unsafe {
            // A record of the caller itself is that of a frame it has interrupted, and stays as it is.
            let lasts = if (*this).tid == own_id() { 0 } else { RECORD_LASTS_NS };
            let until = sys::clock_ns(libc::CLOCK_MONOTONIC) + lasts;
            while !halves(this).all(|half| is_complete(this, half)) && sys::clock_ns(libc::CLOCK_MONOTONIC) < until {
                sys::yield_now();
            }
            halves(this).fold((0, 0), |(complete, begun), half| {
                (complete + count_complete(this, half) as u64, begun + taken(this, half) as u64)
            })
        }
    }

    /// Writes what is there, once it is settled.
    ///
    /// # Safety
    /// As of [`Thread::settle`].
    pub unsafe fn close(this: *mut Thread) {
        // SAFETY: by the contract above.
        unsafe {
            Thread::settle(this);
            empty_all(this);
        }
    }

    /// In the place of writing: what there is stays where it is.
    ///
    /// # Safety
    /// `this` is sealed.
    pub unsafe fn stay_closed(this: *mut Thread) {
        // SAFETY: by the contract above; who seals encodes.
        unsafe { (*this).encoding.store(CLOSED, Release) }
    }

    /// Last step, when the events of all threads are written: writes the names.
    ///
    /// # Safety
    /// `this` is sealed.
    pub unsafe fn close_names(this: *mut Thread) {
        // SAFETY: by the contract above; who seals encodes.
        unsafe {
            // What could not be written stays where a reader of the ring finds it.
            if write_names(this) {
                (*this).names.clear();
            }
            (*this).encoding.store(CLOSED, Release);
        }
    }
}

/// Writes all halves, those of a segment in the order in which they were filled. One that is not in use may hold a record,
/// too: of a frame that a signal handler interrupted while it went over to another.
///
/// # Safety
/// The caller holds `encoding` of the state, which is equipped.
pub unsafe fn empty_all(thread: *mut Thread) {
    // SAFETY: the caller holds `encoding`.
    unsafe {
        let large = (*thread).large;
        let is_turned = !large.is_null() && (*large).sequence > (*large.add(1)).sequence;
        for half in halves(thread) {
            let half = match is_turned {
                true if half == large => large.add(1),
                true if half == large.add(1) => large,
                _ => half,
            };
            empty(thread, half, true);
        }
        (*thread).pending = std::ptr::null_mut();
    }
}

/// Writes a half's complete records as a block and makes it new. `false` if one was incomplete and that was not `forced`.
///
/// # Safety
/// As of [`empty_all`]; `half` is one of its own.
pub unsafe fn empty(thread: *mut Thread, half: *mut Half, forced: bool) -> bool {
    // SAFETY: the caller holds `encoding`; the records are plain memory of this process, and slots below `next` are
    // written by nobody but an interrupted frame of this thread, whose record is not complete and therefore not read.
    unsafe {
        let (sealed, taken) = ((*half).next & HALF_SEALED, taken(thread, half));
        let records = std::slice::from_raw_parts_mut((&raw mut (*half).records).cast::<Record>(), taken);
        let counts = tally::is_on();
        // What is counted and not recorded needs no survey.
        let mut survey = if counts { Survey::default() } else { survey_of(records, &mut (*thread).scratch) };
        let is_complete = if counts { records.iter().all(Record::is_complete) } else { survey.complete };
        if !is_complete && !forced {
            return false;
        }
        let count = if is_complete { taken } else { gather(records) };
        if count < taken && !counts {
            survey = survey_of(&records[..count], &mut (*thread).scratch);
        }
        let stream = if is_large(thread, half) { (*thread).large_stream } else { (*thread).stream };
        let written = match count {
            0 => true,
            _ if counts && !tally::add((*thread).tid, &records[..count], &(*half).counted) => return false,
            _ => counts || write_block(thread, (stream, (*half).sequence), &survey, &records[..count]),
        };
        if written {
            header_page::count_lost((taken - count) as u64);
        } else if is_complete && stays(thread, half) {
            LEFT.fetch_add(count as u64, Relaxed);
            return true;
        } else {
            let counters = records[..count].iter().filter(|record| record.is_counters()).count();
            // Both at once for who reads the ring after a kill: nothing of it is left, and all of it is lost.
            (*half).counted.store(HALF_LOST, Relaxed);
            header_page::count_lost((taken - counters) as u64);
        }
        records.iter_mut().for_each(|record| record.word = 0);
        compiler_fence(SeqCst);
        if counts {
            header_page::note_tallied(count as u64);
        }
        (*half).counted.store(0, Relaxed);
        (*half).sequence += 2;
        compiler_fence(SeqCst);
        (*half).next = sealed;
        true
    }
}

/// True if what could not be written stays in its half, where a reader of the ring finds it: none of the events that would need
/// the room could be written either.
///
/// # Safety
/// As of [`empty_all`].
unsafe fn stays(thread: *mut Thread, half: *mut Half) -> bool {
    // SAFETY: the caller passes a state and a half of it.
    let stream = unsafe { if is_large(thread, half) { (*thread).large_stream } else { (*thread).stream } };
    blocks::is_forbidden() && ring_file::outlives(stream)
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

/// `false` if the block could not be written.
///
/// # Safety
/// The caller holds `encoding` of this thread; `records` are not empty.
unsafe fn write_block(
    thread: *mut Thread,
    (stream, sequence): (u32, u32),
    survey: &Survey,
    records: &[Record],
) -> bool {
    // SAFETY: the caller holds `encoding`, which guards the buffers of this thread.
    unsafe {
        let mut header = Header {
            stream,
            sequence,
            tid: (*thread).tid,
            count: records.len() as u32,
            first: records[0].start,
            last: survey.last,
            reach: survey.reach(records[0].start),
            anchor: clock::anchor(),
            ..Header::new(Kind::Events)
        };
        let length = columns_of(survey, records, &mut (*thread).scratch, &mut (*thread).raw);
        let payload = &(&(*thread).raw)[..length];
        let written = blocks::append((*thread).blocks.make(&mut header, payload));
        latest::at_block();
        written
    }
}

/// Writes the names of a thread as a block. `false` if they are lost.
///
/// # Safety
/// As of [`empty_all`].
pub unsafe fn write_names(thread: *mut Thread) -> bool {
    // SAFETY: the caller holds `encoding`, which guards the buffers of this thread.
    unsafe {
        let (first, entries, count) = (*thread).names.entries();
        if count == 0 {
            return true;
        }
        let mut header = Header { count, first: first as u64, ..Header::new(Kind::Names) };
        let written = blocks::append((*thread).blocks.make(&mut header, entries));
        if !written {
            header_page::count_names_lost(count as u64);
        }
        chunk::count_given(count);
        written
    }
}

/// Whether the processor has these registers and BMI2, and the kernel keeps them. Asked once, and no more than that: each
/// question takes a virtual machine several microseconds, and the standard library asks nine.
#[cfg(target_arch = "x86_64")]
fn is_wide() -> bool {
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 2;
    if ANSWER.load(Relaxed) == UNKNOWN {
        ANSWER.store(ask_for_width() as u8, Relaxed);
    }
    ANSWER.load(Relaxed) == 1
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn ask_for_width() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const XSAVE_AND_AVX: u32 = 1 << 27 | 1 << 28;
    const AVX2_AND_BMI2: u32 = 1 << 5 | 1 << 8;
    const KEPT: u32 = 1 << 1 | 1 << 2;
    // Every processor with AVX answers the second question.
    if __cpuid(1).ecx & XSAVE_AND_AVX != XSAVE_AND_AVX {
        return false;
    }
    let kept: u32;
    // SAFETY: the kernel has switched this instruction on, as the processor has just said.
    unsafe { std::arch::asm!("xgetbv", in("ecx") 0, out("eax") kept, out("edx") _, options(nomem, nostack)) };
    kept & KEPT == KEPT && __cpuid_count(7, 0).ebx & AVX2_AND_BMI2 == AVX2_AND_BMI2
}

/// A function as this processor runs it best: a seventh faster where it has registers of 32 bytes.
macro_rules! at_full_width {
    ($name:ident($($arg:ident: $of:ty),*) -> $ret:ty = $function:path) => {
        fn $name($($arg: $of),*) -> $ret {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,bmi2")]
                fn wide($($arg: $of),*) -> $ret {
                    $function($($arg),*)
                }
                if is_wide() {
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #[test]
    fn the_processor_is_asked_as_the_standard_library_asks_it() {
        assert_eq!(super::is_wide(), is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2"));
        assert_eq!(super::is_wide(), super::ask_for_width());
    }
}
