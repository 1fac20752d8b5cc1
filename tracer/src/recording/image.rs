//! This image of the process: created at its first event, with the threads that record into it.
//!
//! Nothing exists before the first event. The files are handled by [`crate::trace::ring_file`] and
//! [`crate::trace::blocks`], the end by [`crate::life::shutdown`].

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::clock::Anchor;
use dlio_schemas::env;
use dlio_schemas::native::fields::FieldWriter;
use dlio_schemas::native::ring::{self, Shape, header};

use crate::kernel::machine::Machine;
use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::{clock, single_thread_atomics, sys, thread_end};
use crate::known::{descriptors, folders, mappings, name_cache};
use crate::process::{config, process_info};
use crate::recording::{latest, phase, signal_queue, wiped_page};
use crate::thread::local::{self, local, own_id};
use crate::thread::thread_state::{self, Thread};
use crate::thread::{reserved_fds, stack, thread_names};
use crate::trace::files::{LOCK, paths_to_write};
use crate::trace::ring_file::FIRST_PART;
use crate::trace::{blocks, header_page, ring_file, tally, trace_dirs, write_errors};

/// The process that created the image.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// Thread states of this image that are not in use.
static IDLE: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());
/// Time on the kernel's coarse clock before which nothing that failed for lack of memory is retried.
static PAUSED_UNTIL: AtomicU64 = AtomicU64::new(0);
/// How long a process without memory for a ring is left alone: a retry takes a hundred times as long as a call.
const PAUSE_NS: u64 = 100_000_000;

/// Returns a recording state for the calling thread, creating the image if necessary; null on failure.
pub fn take_thread() -> *mut Thread {
    let none = std::ptr::null_mut();
    // Queried before the lock, which needs the thread id.
    let pid = header_page::page().is_null().then(sys::process_id);
    pid.into_iter().for_each(|pid| local::note_process(pid as u32));
    let Some(_held) = LOCK.take() else { return none };
    if ring_file::is_cut() && !phase::is_ending() && !replace_truncated() {
        return none;
    }
    // The thread that closes the image has seen all threads that had a ring before.
    let is_first = header_page::page().is_null();
    let pid = if is_first { pid } else { None };
    if phase::is_ending() || is_paused() || is_first && !create(pid) {
        return none;
    }
    let idle = IDLE.load(Relaxed);
    let thread = if idle.is_null() { new_thread() } else { idle };
    if thread.is_null() {
        pause();
        return none;
    }
    // SAFETY: the state is equipped, and the lock gives exclusive access.
    unsafe {
        if thread == idle {
            IDLE.store((*thread).next_idle, Relaxed);
        }
        // The thread whose id is the process id, queried just before, is the first thread.
        let is_main = is_first && OWNER.load(Relaxed) as u32 == own_id();
        if !is_main {
            single_thread_atomics::ends();
        }
        Thread::adopt(thread, if is_main { own_id() } else { sys::thread_id() });
    }
    thread_end::watch();
    thread
}

/// Releases the state of a thread that has ended, for the next thread.
///
/// # Safety
/// The state came from [`take_thread`], and its thread no longer uses it.
pub unsafe fn give_back(thread: *mut Thread) {
    if let Some(_held) = LOCK.take() {
        // SAFETY: the lock is held, and the previous thread no longer uses the state.
        unsafe {
            if (*thread).is_equipped() && !phase::is_ending() {
                (*thread).next_idle = IDLE.load(Relaxed);
                IDLE.store(thread, Relaxed);
            }
        }
    }
}

/// Notes that there is no memory, so that the program is left alone for a while.
fn pause() {
    write_errors::note(libc::ENOMEM);
    PAUSED_UNTIL.store(sys::clock_ns(libc::CLOCK_MONOTONIC_COARSE) + PAUSE_NS, Relaxed);
}

fn is_paused() -> bool {
    let until = PAUSED_UNTIL.load(Relaxed);
    until != 0 && sys::clock_ns(libc::CLOCK_MONOTONIC_COARSE) < until
}

/// Creates the ring file, or uses memory instead if a file cannot be created. `pid` is the process id, if known.
fn create(pid: Option<i32>) -> bool {
    if phase::is_ending() {
        // The call returned while another thread ends the process: its event is no longer wanted.
        return false;
    }
    let (pid, machine) = (pid.unwrap_or_else(sys::process_id), Machine::query(config::get().local_dir()));
    if ![0, pid].contains(&OWNER.swap(pid, Relaxed)) {
        // A child, perhaps created directly by the kernel's call and therefore unannounced.
        process_info::begin_unless_forked();
        forget_threads();
        header_page::forget_early_losses();
        descriptors::forget_files();
        descriptors::shared_with_child();
        mappings::forget_files();
    }
    thread_names::note_process(pid as u32);
    let now = clock::anchor();
    // SAFETY: the lock is held, and no image exists whose paths could be read.
    let [dlt, ring] = unsafe { paths_to_write() };
    process_info::stem(now.real_ns, pid, &machine, dlt);
    ring.clear();
    ring.push(config::get().spool()).push(b"/").push(dlt.file_name()).push(b".ring");
    dlt.prefix(config::get().dir()).push(b".dlt");
    let made = match make_ring(ring.as_c_str()) {
        Ok(made) => made,
        Err((folder, errno)) => {
            refuse(folder, errno);
            return false;
        }
    };
    let (mapped, in_file) = ring_file::map_first(ring.as_c_str(), made);
    if mapped.is_null() {
        trace_dirs::unlink(ring.as_c_str());
        pause();
        return false;
    }
    if !in_file && config::get().has_spool() {
        mark_at_home(ring, dlt);
    }
    describe(mapped, &now, pid, &machine);
    // SAFETY: it has just been mapped.
    unsafe { ring_file::begin(mapped, in_file) };
    blocks::begin();
    latest::begin();
    let published = header_page::publish(mapped, wiped_page::ring_cell);
    header_page::count_early_losses();
    write_errors::show();
    if published && config::get().counts {
        tally::start();
    }
    published
}

/// Creates the ring's file, and the directories only if they are missing: usually they exist. On failure, returns the
/// directory and the error.
fn make_ring(path: &CStr) -> Result<i32, (&'static [u8], i32)> {
    let config = config::get();
    let made = if config.has_spool() { -libc::ENOENT } else { ring_file::make(path) };
    if made >= 0 {
        return Ok(made);
    }
    if trace_dirs::root_changed() {
        // Directories created now would be in the program's new root.
        let made = if config.has_spool() { ring_file::make(path) } else { made };
        return if made >= 0 { Ok(made) } else { Err((config.dir(), -made)) };
    }
    config.make_dirs()?;
    Ok(ring_file::make(path))
}

/// Puts the empty file that represents a ring in memory into the trace directory: among other rings, it would not
/// show which trace it belongs to.
fn mark_at_home(ring: &mut PathBuffer, dlt: &PathBuffer) {
    trace_dirs::unlink(ring.as_c_str());
    ring.clear();
    ring.push(dlt.as_bytes().strip_suffix(b".dlt").unwrap_or_default()).push(b".ring");
    trace_dirs::make_empty(ring.as_c_str());
}

/// Reports once that there is no directory and so no trace, and leaves the program alone.
fn refuse(folder: &[u8], errno: i32) {
    if write_errors::is_reported_already() {
        return;
    }
    let mut digits = [0; 20];
    let is_trace = folder == config::get().dir();
    let (what, variable): (&[u8], &[u8]) = match is_trace {
        true => (b"trace directory ", b"DLIO_TRACE_DIR, or -o of dlio trace,"),
        false => (b"ring directory ", env::SPOOL.as_bytes()),
    };
    phase::give_up(&[
        b"cannot write to the ",
        what,
        folder,
        b" (",
        write_errors::reason(errno, &mut digits),
        b"); this program runs untraced; set ",
        variable,
        b" to a writable directory",
    ]);
}

/// Fills in the ring's header.
fn describe(page: *mut u8, now: &Anchor, pid: i32, machine: &Machine) {
    // SAFETY: the first part of a ring that is not published yet.
    let (page, first) = unsafe { std::slice::from_raw_parts_mut(page, FIRST_PART) }.split_at_mut(ring::HEADER_SIZE);
    Shape::SMALL.describe(first);
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(header::MAGIC, &ring::MAGIC.to_le_bytes());
    put(header::VERSION, &ring::VERSION.to_le_bytes());
    put(header::SEGMENTS, &1u32.to_le_bytes());
    for at in [header::FIRST_ANCHOR, header::LAST_ANCHOR] {
        put(at, &now.ticks.to_le_bytes());
        put(at + 8, &now.boot_ns.to_le_bytes());
        put(at + 16, &now.real_ns.to_le_bytes());
    }
    let mut writer = FieldWriter::new(&mut page[header::FIELDS..]);
    process_info::of_process(&mut writer, now, pid, machine, folders::working(&mut PathBuffer::new()));
    let used = writer.used() as u32;
    page[header::FIELDS_USED..header::FIELDS_USED + 4].copy_from_slice(&used.to_le_bytes());
}

fn new_thread() -> *mut Thread {
    let thread = wiped_page::thread_memory();
    if thread.is_null() {
        return thread;
    }
    let (shape, segment, number) = ring_file::next_segment();
    if segment.is_null() {
        // The first state remains taken: there is no memory for another one.
        if !wiped_page::is_first_thread(thread) {
            sys::unmap(thread.cast(), Thread::SIZE);
        }
        return std::ptr::null_mut();
    }
    // SAFETY: fresh zeroed memory of the right size, and an unused segment.
    unsafe {
        Thread::equip(thread, segment, shape, number);
        thread_state::add(thread);
    }
    thread
}

/// Maximum number of truncated rings per process: more than that are intentional, and the process stops creating new
/// ones.
const CUTS_MAX: u32 = 8;

/// Replaces an image whose ring was truncated: the next event creates another image, and the remains of this one show
/// a reader that data is missing. Must be called under the lock. Returns `false` if there were too many.
fn replace_truncated() -> bool {
    static CUTS: AtomicU32 = AtomicU32::new(0);
    let ring = crate::trace::files::ring_path().to_bytes();
    let cuts = CUTS.fetch_add(1, Relaxed);
    if cuts >= CUTS_MAX {
        if cuts > CUTS_MAX {
            return false;
        }
        phase::give_up(&[
            b"the ring of this process was truncated repeatedly, ",
            ring,
            b"; the process runs untraced from now on",
        ]);
        return false;
    }
    sys::say(&[
        b"the file ",
        ring,
        b" was truncated by another process; its events are lost, and a new file is started",
    ]);
    thread_state::retire_all();
    wiped_page::next_generation();
    header_page::publish(std::ptr::null_mut(), wiped_page::ring_cell);
    forget_threads();
    descriptors::forget_files();
    mappings::forget_files();
    true
}

/// Returns `true` if anything has been recorded in this image.
pub fn exists() -> bool {
    !header_page::page().is_null()
}

/// `true` once a child was created that shares this memory. Querying the process id takes a system call, and few
/// programs have such children.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Notes that a child is about to be created that shares this memory.
pub fn note_shared() {
    SHARED.store(true, Relaxed);
}

/// Returns `true` if there is an image and another process created it: the process that owns this memory. A process
/// that must not query its id is assumed to be the owner.
pub fn is_anothers() -> bool {
    SHARED.load(Relaxed) && exists() && {
        let pid = sys::process_id();
        pid > 0 && pid != OWNER.load(Relaxed)
    }
}

/// Ensures that an image exists.
pub fn ensure() -> bool {
    let Some(_held) = LOCK.take() else { return false };
    !header_page::page().is_null() || !is_paused() && create(None)
}

/// Notes a fact about the process that became known while it runs.
pub fn describe_more(key: &[u8], text: &[u8]) {
    let Ok(key) = std::str::from_utf8(key) else { return };
    let mut bytes = [0; 512];
    let mut writer = FieldWriter::new(&mut bytes);
    writer.text(key, text);
    let used = writer.used();
    if ensure() && !blocks::append_facts(&bytes[..used], clock::anchor()) {
        write_errors::note(libc::EIO);
    }
}

/// Opens both files permanently, because the program is about to lose access to them. The descriptors have high
/// numbers, and hooks prevent the program from closing or replacing them.
pub fn hold() {
    stack::on_large_stack(|| {
        if reserved_fds::get(reserved_fds::DLT) < 0 && ensure() {
            trace_dirs::keep_open();
            blocks::keep_both_open();
        }
    });
}

/// Forgets the image, because this is now another process (a forked child) or the image was closed. Threads that
/// still have a state in it notice that themselves.
pub fn forget() {
    thread_state::retire_all();
    wiped_page::next_generation();
    forget_threads();
    LOCK.reset();
    header_page::publish(std::ptr::null_mut(), wiped_page::ring_cell);
    header_page::forget_early_losses();
}

fn forget_threads() {
    reserved_fds::release();
    thread_state::forget();
    IDLE.store(std::ptr::null_mut(), Relaxed);
    write_errors::forget();
    PAUSED_UNTIL.store(0, Relaxed);
    name_cache::forget();
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).naming = 0 };
    signal_queue::forget();
    tally::forget();
    thread_names::forget();
}
