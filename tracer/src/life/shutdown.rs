//! The end of an image: no thread records any more, what is left is written, and how the process ended is noted.
//!
//! Of a process that did little all of it lies in the first part of its ring, a file already, and the ring itself is what is
//! left: no file is made for blocks, and none removed. Where no other form is made of it, it gets the name of a native trace.

use std::ffi::CStr;
use std::sync::atomic::Ordering::*;

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::fields::{FieldWriter, decimal, key};
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
use crate::trace::{files, header_page, ring_file, sigbus, tally, trace_dirs, write_errors};

/// The remains of [`close`].
pub struct Closed {
    /// The `.dlt`, or the ring; not there where not one byte could be written.
    pub path: &'static CStr,
    pub is_ring: bool,
    pub written: bool,
    pub lost: u64,
    pub trouble: i32,
}

/// Writes what every thread still holds, then how the process ended. `None` when there is no image, or when this very
/// thread was interrupted in the middle of writing: then everything stays where a reader finds it. `is_passed_on` says that
/// another form is made of it, so that a ring which holds all of it need not be a `.dlt` by name.
pub fn close(ended: &[u8], is_passed_on: bool) -> Option<Closed> {
    if header_page::page().is_null() || tally::is_interrupted() {
        return None;
    }
    let closed = close_open(ended, is_passed_on);
    reserved_fds::let_go();
    closed
}

fn close_open(ended: &[u8], is_passed_on: bool) -> Option<Closed> {
    if ring_file::is_cut() || !stop_threads() || ring_file::is_cut() {
        return None;
    }
    if ring_holds_all() && stay_in_ring(ended) {
        let lost = header_page::count_at(header::LOST);
        // Where that name is taken, the ring is a whole trace under its own.
        let path = if !is_passed_on && trace_dirs::rename_new(ring_path(), dlt_path()) == 0 {
            dlt_path()
        } else {
            ring_path()
        };
        return Some(Closed { path, is_ring: true, written: true, lost, trouble: write_errors::first() });
    }
    Some(stack::with_room(|| write_all(ended)))
}

/// Writes everything into the `.dlt`. Where that cannot be the ring stays, with what is left.
fn write_all(ended: &[u8]) -> Closed {
    if ring_file::is_in_file() && !trace_dirs::exists(ring_path()) {
        files::follow();
    }
    write_threads();
    CLOSING.store(true, Relaxed);
    // SAFETY: all threads are stopped.
    thread_state::all().for_each(|thread| unsafe { Thread::close_names(thread) });
    // What may not be written lies in the ring, and so does the ending then.
    let written = write_table() && drain::left() == 0 && append_ending(ended) && !blocks::are_gone();
    let has_ring = ring_file::is_in_file() && (written || !is_ring_gone());
    if !written {
        if blocks::are_gone() {
            blocks::lose();
        }
        if ring_file::is_in_file() && !has_ring {
            lose_ring();
        }
        // Without an ending what the blocks hold of a table counts as pieces of one.
        lose_private_table();
    }
    CLOSING.store(false, Relaxed);
    // A file for blocks of which not one could be written.
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
    Closed { path, is_ring, written, lost, trouble: write_errors::first() }
}

/// Others took the ring away, which was to keep what could not be written.
fn lose_ring() {
    write_errors::note(libc::ENOENT);
    let counted = if tally::is_on() && ring_file::has_table_in_file() { tally::take_events() } else { 0 };
    header_page::count_lost(counted + drain::left());
}

/// Whether a reader finds everything in the ring, which lies where the trace belongs.
fn ring_holds_all() -> bool {
    let in_place = ring_file::is_in_file() && reserved_fds::held(reserved_fds::RING) < 0 && !config::get().has_spool();
    // A program may have removed the folder.
    let is_there = || trace_dirs::exists(ring_path());
    in_place && ring_file::is_small() && !blocks::is_begun() && !tally::is_on() && is_there()
}

/// Leaves everything in the ring, with how the process ended. `false` where that has no room.
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

/// Takes the rings from all threads. Which call still finds its way into a ring and which one waits for the end is decided
/// for each thread in one moment. `false` if this call interrupted the writing of one.
fn stop_threads() -> bool {
    // A thread that gets its ring just now is in the list from here on; later ones find the end begun.
    if LOCK.take().is_none() {
        return false;
    }
    // SAFETY: states of the list are equipped, and sealed before they are closed.
    unsafe {
        let me = own_id();
        if !thread_state::all().all(|thread| Thread::seal(thread, me)) {
            return false;
        }
        // Where the only thread that ever recorded is the caller, nobody else is just taking a slot.
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

/// Writes what is in the rings of all threads, which are stopped.
fn write_threads() {
    drain::begin_to_close();
    // Not before they are: until then others may have begun the file.
    blocks::open_to_close();
    // SAFETY: states of the list are sealed.
    thread_state::all().for_each(|thread| unsafe { Thread::close(thread) });
}

/// Writes the table of counts, if there is one. Where it cannot be written and will not outlive the process, what it holds
/// is lost.
fn write_table() -> bool {
    tally::write(blocks::append) || lose_private_table()
}

/// Counts as lost what a table holds that does not outlive the process. `false` where there is none.
fn lose_private_table() -> bool {
    if !tally::is_on() || ring_file::has_table_in_file() {
        return false;
    }
    // From now on the ring's own count says it, and a reader is not to add what went into the table.
    header_page::counter(header::TALLY_UNSAVED).into_iter().for_each(|unsaved| unsaved.store(0, Relaxed));
    header_page::count_lost(tally::take_events());
    true
}

fn append_ending(ended: &[u8]) -> bool {
    let now = clock::anchor();
    let mut bytes = [0; FACTS_MAX];
    blocks::append_facts(last_facts(&mut bytes, ended, &now, blocks::events()), now)
}

/// What is said of a process at its end.
fn last_facts<'a>(bytes: &'a mut [u8; FACTS_MAX], ended: &[u8], now: &Anchor, events: u64) -> &'a [u8] {
    let mut writer = FieldWriter::new(bytes);
    account(&mut writer, ended, now, events);
    thread_names::write(&mut writer);
    let used = writer.used();
    &bytes[..used]
}

/// The ending of the process, and the tracer's work in it.
fn account(writer: &mut FieldWriter, ended: &[u8], now: &Anchor, events: u64) {
    let rate = clock::rate_hz(now);
    writer.text(key::ENDED, ended);
    writer.number(key::END_BOOT_NS, now.boot_ns as i64);
    writer.number(key::CLOCK_HZ, rate as i64);
    writer.number(key::EVENTS, events as i64);
    if tally::is_on() {
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

/// The time of recording one event beside the slow path: measured, for the trace's account of its own cost.
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

/// The same behind the facts of the ring's first page, whose room is still there where a file took nothing more. Names of
/// threads come second.
fn leave_ending(ended: &[u8], events: u64) {
    let (mut bytes, now) = ([0; FACTS_MAX], clock::anchor());
    if !add_facts(last_facts(&mut bytes, ended, &now, events)) {
        let mut writer = FieldWriter::new(&mut bytes);
        account(&mut writer, ended, &now, events);
        let used = writer.used();
        add_facts(&bytes[..used]);
    }
}

/// The trace is whole without its ring. Where the way to it is lost its room is given back, and an empty file stays.
fn remove_ring() {
    let held = reserved_fds::held(reserved_fds::RING);
    if trace_dirs::unlink(ring_path()) != 0 && held >= 0 {
        sigbus::leave_file();
        sys::truncate(held, 0);
    }
}

/// Not one byte could be written, and nothing in memory stays: the name of the empty ring says what is lost.
fn leave_name(lost: u64) {
    let (mut name, mut digits) = (PathBuffer::new(), [0; 20]);
    let stem = dlt_path().to_bytes().strip_suffix(b".dlt").unwrap_or_default();
    name.push(stem).push(LOST_IN_NAME.as_bytes()).push(decimal(lost as i64, &mut digits));
    if write_errors::first() != 0 {
        name.push(b"-").push(decimal(write_errors::first() as i64, &mut digits));
    }
    name.push(b".ring");
    if trace_dirs::rename(ring_path(), name.as_c_str()) != 0 {
        // A folder that is gone is made again for it: the next image of the process does so anyway, and looks whole.
        if trace_dirs::make_empty(name.as_c_str()) != 0 && !trace_dirs::is_lost() && config::get().make_dirs().is_ok() {
            trace_dirs::make_empty(name.as_c_str());
        }
        trace_dirs::unlink(ring_path());
    }
}

/// Adds to the facts of the ring's first page. `false` where they have no room.
fn add_facts(facts: &[u8]) -> bool {
    LOCK.take().is_some_and(|_held| header_page::add_facts(facts))
}
