//! Drains a ring: complete records become a block of the `.dlt`, or rows of the table of counts.

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::AtomicU8;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, compiler_fence};

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

/// How long the closing thread waits for a record that another thread is writing. That thread may be descheduled in the middle
/// of the record, or gone.
const RECORD_LASTS_NS: u64 = 100_000_000;

/// Number of events that remained since closing of the image started.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Notes that halves are drained for the last time from now on.
pub fn begin_to_close() {
    LEFT.store(0, Relaxed);
}

/// Notes events whose counts could not be written: they are still in the ring's file.
pub fn leave(events: u64) {
    LEFT.fetch_add(events, Relaxed);
}

/// Returns the number of events that could not be written and are still in the ring's file.
pub fn left() -> u64 {
    LEFT.load(Relaxed)
}

impl Thread {
    /// Writes all records of this state. Returns `false` if this call interrupted an encoding.
    ///
    /// # Safety
    /// `this` is equipped, and belongs to the calling thread.
    pub unsafe fn drain(this: *mut Thread) -> bool {
        // SAFETY: `encoding` gives exclusive access to the halves.
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

    /// Third step of closing: waits for records that are being written. Returns the number of complete records and
    /// the number of started ones.
    ///
    /// # Safety
    /// `this` is sealed, and the seal has held.
    pub unsafe fn settle(this: *mut Thread) -> (u64, u64) {
        // SAFETY: by the contract above.
        unsafe {
            // A started record of the calling thread belongs to a frame that it has interrupted, and remains
            // incomplete.
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

    /// Writes the records of a settled state.
    ///
    /// # Safety
    /// `this` is settled: see `Thread::settle`.
    pub unsafe fn close(this: *mut Thread) {
        // SAFETY: by the contract above.
        unsafe {
            Thread::settle(this);
            empty_all(this);
        }
    }

    /// Closes the state without writing: its records remain in the ring.
    ///
    /// # Safety
    /// `this` is sealed.
    pub unsafe fn stay_closed(this: *mut Thread) {
        // SAFETY: by the contract above; sealing includes the right to encode.
        unsafe { (*this).encoding.store(CLOSED, Release) }
    }

    /// Last step of closing, after the events of all threads are written: writes the names.
    ///
    /// # Safety
    /// `this` is sealed.
    pub unsafe fn close_names(this: *mut Thread) {
        // SAFETY: by the contract above; sealing includes the right to encode.
        unsafe {
            // Unwritten names remain where a reader of the ring finds them.
            if write_names(this) {
                (*this).names.clear();
            }
            (*this).encoding.store(CLOSED, Release);
        }
    }
}

/// Writes all halves of a state, those of a segment in the order in which they were filled. A half that is not in use
/// may also contain a record, from a frame that a signal handler interrupted while it switched halves.
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

/// Writes a half's complete records as a block and resets the half. Returns `false` if a record was incomplete and
/// the half was not `forced`.
///
/// # Safety
/// The caller holds `encoding` of the state, which is equipped; `half` is one of its halves.
pub unsafe fn empty(thread: *mut Thread, half: *mut Half, forced: bool) -> bool {
    // SAFETY: the caller holds `encoding`; the records are plain memory of this process. Slots below `next` are
    // written by no other code than an interrupted frame of this thread, whose record is not complete and therefore
    // not read.
    unsafe {
        let (sealed, taken) = ((*half).next & HALF_SEALED, taken(thread, half));
        let records = std::slice::from_raw_parts_mut((&raw mut (*half).records).cast::<Record>(), taken);
        let counts = ring_file::counts_halves();
        // Counted events need no survey.
        let mut survey = if counts { Survey::default() } else { survey_of(records, &mut (*thread).scratch) };
        let is_complete = if counts { records.iter().all(Record::is_complete) } else { survey.complete };
        if !is_complete && !forced {
            return false;
        }
        let count = if is_complete { taken } else { gather(records) };
        if count < taken && !counts {
            survey = survey_of(&records[..count], &mut (*thread).scratch);
        }
        if counts && tally::is_copy() {
            header_page::count_lost((taken - count) as u64);
            return tally::add((*thread).tid, &records[..count], &AtomicU32::new(0));
        }
        let stream = if is_large(thread, half) { (*thread).large_stream } else { (*thread).stream };
        let written = match count {
            0 => true,
            _ if counts && !tally::add((*thread).tid, &records[..count], &(*half).counted) => return false,
            _ if counts => true,
            _ => {
                if ring_file::counts_too() {
                    // All events of the block, at once: after a kill they are events that the ring has.
                    tally::add((*thread).tid, &records[..count], &AtomicU32::new(0));
                }
                write_block(thread, (stream, (*half).sequence), &survey, &records[..count])
            }
        };
        if written {
            header_page::count_lost((taken - count) as u64);
        } else if is_complete && stays(thread, half) {
            LEFT.fetch_add(count as u64, Relaxed);
            return true;
        } else {
            let counters = records[..count].iter().filter(|record| record.is_counters()).count();
            // Both in one store, for a reader of the ring after a kill: the half is empty, and all its events are
            // lost.
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

/// Returns `true` if unwritten records can remain in their half, where a reader of the ring finds them: none of the
/// events that would need the space could be written either.
///
/// # Safety
/// The caller holds `encoding` of the state, which is equipped; `half` is one of its halves.
unsafe fn stays(thread: *mut Thread, half: *mut Half) -> bool {
    // SAFETY: the caller passes a state and one of its halves.
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

/// Writes records as a block. Returns `false` if it could not be written.
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

/// Writes the names of a thread as a block. Returns `false` if they are lost.
///
/// # Safety
/// The caller holds `encoding` of the thread, which is equipped.
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
        chunk::count_assigned(count);
        written
    }
}

/// Returns `true` if the processor has 32-byte registers and BMI2, and the kernel saves those registers. Queried
/// once, with as few CPUID queries as possible: each takes a virtual machine several microseconds, and the standard
/// library makes nine.
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
    // Every processor with AVX supports the second query.
    if __cpuid(1).ecx & XSAVE_AND_AVX != XSAVE_AND_AVX {
        return false;
    }
    let kept: u32;
    // SAFETY: the kernel has enabled this instruction, as the processor has just reported.
    unsafe { std::arch::asm!("xgetbv", in("ecx") 0, out("eax") kept, out("edx") _, options(nomem, nostack)) };
    kept & KEPT == KEPT && __cpuid_count(7, 0).ebx & AVX2_AND_BMI2 == AVX2_AND_BMI2
}

/// Compiles a function in two versions and runs the best one for this processor: 14 % faster with 32-byte registers.
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
    fn vector_detection_equals_the_standard_library() {
        assert_eq!(super::is_wide(), is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2"));
        assert_eq!(super::is_wide(), super::ask_for_width());
    }
}
