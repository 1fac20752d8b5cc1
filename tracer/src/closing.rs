//! The end of an image: no thread records any more, what is left is written, and how the process ended is noted.

use std::ffi::CStr;
use std::sync::atomic::Ordering::*;

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::fields::{FieldWriter, decimal, key};
use dlio_schemas::native::file::LOST_IN_NAME;
use dlio_schemas::native::ring::{self, header};

use crate::blocks::{self, CLOSING, FACTS_MAX};
use crate::files::{LOCK, dlt_path, ring_path};
use crate::path_buffer::PathBuffer;
use crate::thread_state::{self, Thread};
use crate::{clock, header_page, held, ring_file, sys, tally, thread_names, trouble};

/// What [`close`] left.
pub struct Closed {
    pub dlt: &'static CStr,
    pub written: bool,
    pub lost: u64,
    pub trouble: i32,
}

/// Writes what every thread still holds, then how the process ended. `None` when there is no image, or when this very
/// thread was interrupted in the middle of writing: then everything stays where a reader finds it.
pub fn close(ended: &[u8]) -> Option<Closed> {
    let page = header_page::page();
    if page.is_null() || tally::is_interrupted() {
        return None;
    }
    let closed = close_open(page, ended);
    held::let_go();
    closed
}

fn close_open(page: *mut u8, ended: &[u8]) -> Option<Closed> {
    if !stop_threads() {
        return None;
    }
    CLOSING.store(true, Relaxed);
    // SAFETY: all threads are stopped.
    thread_state::all().for_each(|thread| unsafe { Thread::close_names(thread) });
    let written = write_table() && append_ending(ended);
    CLOSING.store(false, Relaxed);
    // A file for blocks of which not one could be written.
    if !blocks::is_begun() && held::is_kept_to_close() {
        sys::unlink(dlt_path());
    }
    let closed =
        Closed { dlt: dlt_path(), written, lost: header_page::count_at(header::LOST), trouble: trouble::first() };
    match written {
        true => remove_ring(),
        false if ring_file::is_in_file() => leave_ending(page, ended),
        false => leave_name(closed.lost),
    }
    Some(closed)
}

/// Takes the rings from all threads and writes what is in them. Which call still finds its way into a ring and which one
/// waits for the end is decided for each thread in one moment. `false` if this call interrupted the writing of one.
fn stop_threads() -> bool {
    // A thread that gets its ring just now is in the list from here on; later ones find the end begun.
    if LOCK.take().is_none() {
        return false;
    }
    // SAFETY: states of the list are equipped, and sealed before they are closed.
    unsafe {
        if !thread_state::all().all(|thread| Thread::seal(thread)) {
            return false;
        }
        loop {
            sys::barrier_for_all();
            if thread_state::all().filter(|thread| !Thread::seal_again(*thread)).count() == 0 {
                break;
            }
        }
        // Not before: until here others may have begun the file.
        blocks::open_to_close();
        for thread in thread_state::all() {
            Thread::close(thread);
            thread_names::note_other(Thread::tid(thread));
        }
    }
    true
}

/// Writes the table of counts, if there is one. Where it cannot be written and will not outlive the process, what it holds
/// is lost.
fn write_table() -> bool {
    if tally::write(blocks::append) {
        return true;
    }
    if !ring_file::has_table_in_file() {
        // From now on the ring's own count says it, and a reader is not to add what went into the table.
        header_page::counter(header::TALLY_UNSAVED).into_iter().for_each(|unsaved| unsaved.store(0, Relaxed));
        header_page::count_lost(tally::take_events());
    }
    !ring_file::has_table_in_file()
}

fn append_ending(ended: &[u8]) -> bool {
    let now = clock::anchor();
    let mut bytes = [0; FACTS_MAX];
    let mut writer = FieldWriter::new(&mut bytes);
    account(&mut writer, ended, &now);
    thread_names::write(&mut writer);
    let used = writer.used();
    blocks::append_facts(&bytes[..used], now)
}

/// How the process ended, and what the tracer did in it.
fn account(writer: &mut FieldWriter, ended: &[u8], now: &Anchor) {
    let rate = clock::rate_hz(now);
    writer.text(key::ENDED, ended);
    writer.number(key::END_BOOT_NS, now.boot_ns as i64);
    writer.number(key::CLOCK_HZ, rate as i64);
    writer.number(key::EVENTS, blocks::events() as i64);
    if tally::is_on() {
        writer.number(key::COUNTED, tally::events() as i64);
    }
    for (key, at) in [
        (key::LOST, header::LOST),
        (key::FILTERED, header::FILTERED),
        (key::MISUSED_SPANS, header::MISUSED_SPANS),
        (key::NAMES_LOST, header::NAMES_LOST),
    ] {
        writer.number(key, header_page::count_at(at) as i64);
    }
    let own_ns = header_page::count_at(header::TRACER_TICKS) as f64 * 1e9 / rate.max(1) as f64;
    writer.number(key::TRACER_NS, (own_ns + blocks::events() as f64 * record_cost_ns()) as i64);
}

/// What recording one event takes beside the slow path: measured, for the trace's account of its own cost.
fn record_cost_ns() -> f64 {
    const ROUNDS: u64 = 64;
    const FILL_NS: f64 = 5.0;
    let began = clock::ticks();
    (0..ROUNDS).for_each(|_| {
        std::hint::black_box(clock::ticks());
    });
    let ticks = (clock::ticks() - began) as f64 / ROUNDS as f64;
    2.0 * ticks * 1e9 / clock::rate_hz(&clock::anchor()).max(1) as f64 + FILL_NS
}

/// The same behind the facts of the ring's first page: where the file took nothing more, that room is still there.
fn leave_ending(page: *mut u8, ended: &[u8]) {
    // SAFETY: the header page is mapped, and what follows its facts is nobody else's at the end.
    let page = unsafe { std::slice::from_raw_parts_mut(page, ring::HEADER_SIZE) };
    let used = u32::from_le_bytes([0, 1, 2, 3].map(|i| page[header::FIELDS_USED + i])) as usize;
    let mut writer = FieldWriter::new(&mut page[header::FIELDS + used..]);
    account(&mut writer, ended, &clock::anchor());
    let used = (used + writer.used()) as u32;
    page[header::FIELDS_USED..header::FIELDS_USED + 4].copy_from_slice(&used.to_le_bytes());
}

/// The trace is whole without its ring. Where the way to it is lost its room is given back, and an empty file stays.
fn remove_ring() {
    let held = held::held(held::RING);
    if sys::unlink(ring_path()) != 0 && held >= 0 {
        sys::truncate(held, 0);
    }
}

/// Not one byte could be written, and nothing in memory stays: the name of the empty ring says what is lost.
fn leave_name(lost: u64) {
    let (mut name, mut digits) = (PathBuffer::new(), [0; 20]);
    let stem = dlt_path().to_bytes().strip_suffix(b".dlt").unwrap_or_default();
    name.push(stem).push(LOST_IN_NAME.as_bytes()).push(decimal(lost as i64, &mut digits));
    name.push(b".ring");
    if sys::rename(ring_path(), name.as_c_str()) != 0 {
        sys::make_empty(name.as_c_str());
        sys::unlink(ring_path());
    }
}
