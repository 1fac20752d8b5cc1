//! The end of an image: threads stop recording, the remaining data is written, and the end of the process is noted.
//!
//! All data of a short-lived process fits into the first part of its ring. The ring is already a file and becomes the
//! result: no file is created for blocks, and none is removed. If it is not converted to another format, it is
//! renamed to a native trace.

use std::ffi::CStr;
use std::sync::atomic::Ordering::*;

use dlio_schemas::clock::Anchor;
use dlio_schemas::decimal::decimal;
use dlio_schemas::native::fields::{FieldWriter, key};
use dlio_schemas::native::file::LOST_IN_NAME;
use dlio_schemas::native::ring::header;

use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::{clock, sys};
use crate::process::config;
use crate::recording::{drain, latest};
use crate::thread::local::own_id;
use crate::thread::thread_state::{self, Thread};
use crate::thread::{reserved_fds, stack, thread_names};
use crate::trace::blocks::{self, CLOSING, FACTS_MAX};
use crate::trace::files::{LOCK, dlt_path, is_ring_gone, ring_path};
use crate::trace::ring_file::FIRST_PART;
use crate::trace::{files, header_page, ring_file, sigbus, tally, trace_dirs, write_errors};

/// The result of [`close`].
pub struct ClosedImage {
    /// The `.dlt` or the ring; does not exist if nothing could be written.
    pub path: &'static CStr,
    pub is_ring: bool,
    pub written: bool,
    pub lost: u64,
    pub trouble: i32,
}

/// Writes the remaining events of every thread and the way the process ended. Returns `None` if there is no image, or
/// if this thread was interrupted while writing; then everything remains where a reader finds it. `is_passed_on`
/// means that another format will be made from the result, so that a ring with all the data does not have to be
/// renamed to `.dlt`.
pub fn close(ended: &[u8], is_passed_on: bool) -> Option<ClosedImage> {
    if header_page::page().is_null() || tally::is_interrupted() {
        return None;
    }
    let closed = close_open(ended, is_passed_on);
    reserved_fds::stop_closing();
    closed
}

fn close_open(ended: &[u8], is_passed_on: bool) -> Option<ClosedImage> {
    if ring_file::is_cut() || !stop_threads() || ring_file::is_cut() {
        return None;
    }
    if ring_holds_all() && stay_in_ring(ended) {
        let lost = header_page::count_at(header::LOST);
        // If that name is taken, the ring is a complete trace under its own name.
        let path = if !is_passed_on && trace_dirs::rename_new(ring_path(), dlt_path()) == 0 {
            dlt_path()
        } else {
            ring_path()
        };
        return Some(ClosedImage { path, is_ring: true, written: true, lost, trouble: write_errors::first() });
    }
    Some(stack::on_large_stack(|| write_all(ended)))
}

/// Returns the ring of an image if it contains everything and is a single mapping, which nothing changes any more.
pub fn whole_ring(closed: &ClosedImage) -> Option<&'static [u8]> {
    let page = header_page::page();
    // SAFETY: the ring's first part is one mapping, and all threads are stopped.
    (closed.is_ring && closed.written && ring_file::is_small() && !page.is_null())
        .then(|| unsafe { std::slice::from_raw_parts(page, FIRST_PART) })
}

/// Writes everything to the `.dlt`. If that fails, the ring remains with the rest.
fn write_all(ended: &[u8]) -> ClosedImage {
    if ring_file::is_in_file() && !trace_dirs::exists(ring_path()) {
        files::follow();
    }
    write_threads();
    CLOSING.store(true, Relaxed);
    // SAFETY: all threads are stopped.
    thread_state::all().for_each(|thread| unsafe { Thread::close_names(thread) });
    // Data that cannot be written remains in the ring, and so does the ending.
    let written = write_table() && drain::left() == 0 && append_ending(ended) && !blocks::are_gone();
    let has_ring = ring_file::is_in_file() && (written || !is_ring_gone());
    if !written {
        if tally::is_on() && tally::is_copy() {
            drain::leave(tally::drop_copy());
        }
        if blocks::are_gone() {
            blocks::count_lost();
        }
        if ring_file::is_in_file() && !has_ring {
            note_ring_lost();
        }
        // Without an ending, the part of a table in the blocks counts as incomplete.
        count_private_table_lost();
    }
    CLOSING.store(false, Relaxed);
    // The file for blocks exists, but none could be written.
    if !blocks::is_begun() && reserved_fds::is_kept_to_close() {
        trace_dirs::unlink(dlt_path());
    }
    let lost = header_page::count_at(header::LOST);
    let path = match written {
        true => {
            remove_ring();
            dlt_path()
        }
        false if has_ring => {
            leave_ending(ended, blocks::events() + drain::left());
            ring_path()
        }
        false => {
            leave_name(lost);
            dlt_path()
        }
    };
    let is_ring = !written && has_ring;
    ClosedImage { path, is_ring, written, lost, trouble: write_errors::first() }
}

/// Handles the loss of the ring, which another process removed and which was meant to keep the rest.
fn note_ring_lost() {
    write_errors::note(libc::ENOENT);
    let counted = if tally::is_on() && ring_file::has_table_in_file() { tally::take_events() } else { 0 };
    header_page::count_lost(counted + drain::left());
}

/// Returns `true` if a reader finds everything in the ring and the ring is in the trace directory.
fn ring_holds_all() -> bool {
    let in_place = ring_file::is_in_file() && reserved_fds::get(reserved_fds::RING) < 0 && !config::get().has_spool();
    // A program may have removed the directory.
    let is_there = || trace_dirs::exists(ring_path());
    in_place && ring_file::is_small() && !blocks::is_begun() && !blocks::has_counted() && is_there()
}

/// Leaves everything in the ring, together with the way the process ended. Returns `false` if the ring has no space
/// for that.
fn stay_in_ring(ended: &[u8]) -> bool {
    let (mut events, mut lost) = (0, 0);
    for thread in thread_state::all() {
        // SAFETY: all threads are stopped.
        let (complete, begun) = unsafe { Thread::settle(thread) };
        (events, lost) = (events + complete, lost + begun - complete);
    }
    header_page::refresh_anchor();
    header_page::count_lost(lost);
    let mut bytes = [0; FACTS_MAX];
    if !add_facts(last_facts(&mut bytes, ended, &clock::anchor(), events)) {
        header_page::take_back_lost(lost);
        return false;
    }
    // SAFETY: as above.
    thread_state::all().for_each(|thread| unsafe { Thread::stay_closed(thread) });
    true
}

/// Takes the rings from all threads. For each thread, one atomic step decides which calls can still use its ring and
/// which must wait for the end. Returns `false` if this call interrupted a thread that was writing.
fn stop_threads() -> bool {
    // A thread that is getting its ring now is already in the list; later threads see that the end has started.
    if LOCK.take().is_none() {
        return false;
    }
    // SAFETY: states of the list are equipped, and sealed before they are closed.
    unsafe {
        let me = own_id();
        if !thread_state::all().all(|thread| Thread::seal(thread, me)) {
            return false;
        }
        // If the calling thread is the only one that ever recorded, no other thread can be taking a slot.
        let alone = thread_state::all().all(|thread| Thread::tid(thread) == me);
        loop {
            if !alone {
                sys::barrier_for_all();
            }
            if thread_state::all().filter(|thread| !Thread::seal_again(*thread)).count() == 0 {
                break;
            }
        }
        for thread in thread_state::all() {
            thread_names::note_other(Thread::tid(thread));
        }
    }
    true
}

/// Writes the rings of all threads, which are stopped.
fn write_threads() {
    drain::begin_to_close();
    // Counts of a process that is about to end need no space in a file: until they are written, the ring has the events.
    if blocks::has_counted() && !tally::has_table() && ring_file::is_whole() {
        tally::set_copy();
    }
    // Only now: until the threads were stopped, another one could have started the file.
    blocks::open_to_close();
    // SAFETY: states of the list are sealed.
    thread_state::all().for_each(|thread| unsafe { Thread::close(thread) });
}

/// Writes the table of counts, if there is one. If it cannot be written and will not outlive the process, its
/// contents are counted as lost.
fn write_table() -> bool {
    tally::write(blocks::append) || !tally::is_copy() && count_private_table_lost()
}

/// Counts the contents of a table as lost if it does not outlive the process. Returns `false` if there is no such
/// table.
fn count_private_table_lost() -> bool {
    if !tally::is_on() || ring_file::has_table_in_file() {
        return false;
    }
    // From now on the ring's own counter covers this loss, so a reader must not add the events that were counted in
    // the table.
    header_page::counter(header::TALLY_UNSAVED).into_iter().for_each(|unsaved| unsaved.store(0, Relaxed));
    header_page::count_lost(tally::take_events());
    true
}

fn append_ending(ended: &[u8]) -> bool {
    let now = clock::anchor();
    let mut bytes = [0; FACTS_MAX];
    blocks::append_facts(last_facts(&mut bytes, ended, &now, blocks::events()), now)
}

/// Returns the facts recorded at the end of a process.
fn last_facts<'a>(bytes: &'a mut [u8; FACTS_MAX], ended: &[u8], now: &Anchor, events: u64) -> &'a [u8] {
    let mut writer = FieldWriter::new(bytes);
    account(&mut writer, ended, now, events);
    thread_names::write(&mut writer);
    let used = writer.used();
    &bytes[..used]
}

/// Writes the ending of the process, and the tracer's own work in it.
fn account(writer: &mut FieldWriter, ended: &[u8], now: &Anchor, events: u64) {
    let rate = clock::rate_hz(now);
    writer.text(key::ENDED, ended);
    writer.number(key::END_BOOT_NS, now.boot_ns as i64);
    writer.number(key::CLOCK_HZ, rate as i64);
    writer.number(key::EVENTS, events as i64);
    if blocks::has_counted() {
        writer.number(key::COUNTED, tally::events() as i64);
    }
    if write_errors::first() != 0 {
        writer.number(key::TROUBLE, write_errors::first() as i64);
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
    writer.number(key::TRACER_NS, (own_ns + events as f64 * record_cost_ns()) as i64);
    latest::at_end(writer);
}

/// Measures and returns the time for recording one event, without the slow path. The trace contains this value as its own
/// overhead.
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

/// Writes the ending after the facts on the ring's first page, where space remains even if the file cannot grow.
/// Thread names come second.
fn leave_ending(ended: &[u8], events: u64) {
    let (mut bytes, now) = ([0; FACTS_MAX], clock::anchor());
    if !add_facts(last_facts(&mut bytes, ended, &now, events)) {
        let mut writer = FieldWriter::new(&mut bytes);
        account(&mut writer, ended, &now, events);
        let used = writer.used();
        add_facts(&bytes[..used]);
    }
}

/// Removes the ring, because the trace is complete without it. If its directory is no longer accessible, its space is
/// freed and an empty file remains.
fn remove_ring() {
    let held = reserved_fds::get(reserved_fds::RING);
    if trace_dirs::unlink(ring_path()) != 0 && held >= 0 {
        sigbus::leave_file();
        sys::truncate(held, 0);
    }
}

/// Records the loss if nothing could be written and nothing in memory survives: the name of the empty ring contains
/// the number of lost events.
fn leave_name(lost: u64) {
    let (mut name, mut digits) = (PathBuffer::new(), [0; 20]);
    let stem = dlt_path().to_bytes().strip_suffix(b".dlt").unwrap_or_default();
    name.push(stem).push(LOST_IN_NAME.as_bytes()).push(decimal(lost as i64, &mut digits));
    if write_errors::first() != 0 {
        name.push(b"-").push(decimal(write_errors::first() as i64, &mut digits));
    }
    name.push(b".ring");
    if trace_dirs::rename(ring_path(), name.as_c_str()) != 0 {
        // A directory that was removed is created again for it: the next image of the process would do so anyway, and
        // would look complete.
        if trace_dirs::make_empty(name.as_c_str()) != 0
            && !trace_dirs::root_changed()
            && config::get().make_dirs().is_ok()
        {
            trace_dirs::make_empty(name.as_c_str());
        }
        trace_dirs::unlink(ring_path());
    }
}

/// Adds to the facts on the ring's first page. Returns `false` if there is no space.
fn add_facts(facts: &[u8]) -> bool {
    LOCK.take().is_some_and(|_held| header_page::add_facts(facts))
}
