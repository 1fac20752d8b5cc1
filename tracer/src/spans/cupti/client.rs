//! The process as a client of CUPTI: requests records, and delivers them.
//!
//! If CUPTI allows only one client per process, this client leaves when another one arrives, such as PyTorch's profiler. A forked
//! child cannot use CUDA, so it calls no CUPTI function.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use crate::kernel::sys;
use crate::life::lifecycle;
use crate::spans::gpu;
use crate::spans::gpu::times::{Reading, Times};
use crate::thread::lock::Lock;
use crate::trace::header_page;

use super::interface::{Callbacks, Interface, Parameters, Status, TAKEN};
use super::records::{self, GRAPH, KINDS};

pub use super::interface::Version;

/// Buffers of 3.2 MB that CUPTI may have in the memory of a GPU: 100 MB instead of 800 MB.
const POOL_MAX: usize = 32;

/// The memory for records that CUPTI fills, and the number of such buffers: 16 MiB.
const BUFFER: usize = 512 << 10;
const BUFFERS_MAX: usize = 32;

/// How long an ending process waits for the last records, and for the next ones after some have come.
const LAST_MS: u64 = 1000;
const NEXT_MS: u64 = 200;

struct Client {
    cupti: UnsafeCell<Option<Interface>>,
    times: UnsafeCell<Option<Times>>,
    lock: Lock,
}

// SAFETY: the interface is written before CUPTI calls anything, and the times are used under the lock.
unsafe impl Sync for Client {}

static CLIENT: Client = Client { cupti: UnsafeCell::new(None), times: UnsafeCell::new(None), lock: Lock::new() };
/// Set when the interface is written, which happens once.
static IS_KNOWN: AtomicBool = AtomicBool::new(false);
/// The process that is the client; zero if none is, or no longer.
static OWNER: AtomicI32 = AtomicI32::new(0);
static BUFFERS: AtomicUsize = AtomicUsize::new(0);
static LAST_COMPLETION: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU32 = AtomicU32::new(0);
static INVALID: AtomicU32 = AtomicU32::new(0);

const CALLBACKS: Callbacks = Callbacks { request, complete, request_of, complete_of };

/// Becomes the client, by version 2 of the interface only if that is `allowed`, and enables the kinds of records. On
/// failure returns the cause.
///
/// # Safety
/// CUDA is initializing, and `library` is a handle of CUPTI that is never closed.
pub unsafe fn subscribe(library: *mut c_void, allowed: Version) -> Result<(), &'static CStr> {
    // SAFETY: by the contract above. Nothing else reads the interface before `IS_KNOWN` is set.
    let cupti = unsafe {
        let cupti = Interface::subscribe(library, allowed)?;
        *CLIENT.cupti.get() = Some(cupti);
        cupti
    };
    IS_KNOWN.store(true, Release);
    OWNER.store(sys::process_id(), Release);
    cupti.limit_pool(POOL_MAX);
    let is_registered = cupti.register(&CALLBACKS);
    // Clients of version 2 share the setting for graphs. It is left as it is: another client may need each kernel.
    let is_possible = |kind: &u32| is_registered && (*kind != GRAPH || cupti.has_whole_graphs());
    if KINDS.into_iter().filter(is_possible).filter(|kind| cupti.enable(*kind)).count() == 0 {
        leave(&cupti);
        return Err(c"CUPTI provides no records of this GPU");
    }
    // SAFETY: registers a function that lives as long as the process.
    unsafe { libc::atexit(finish) };
    lifecycle::before_end(at_end);
    Ok(())
}

/// Returns CUPTI if this process is the client.
fn active() -> Option<Interface> {
    let owner = OWNER.load(Acquire);
    if owner != 0 && owner == sys::process_id() { known() } else { None }
}

/// Returns CUPTI if this process is or was the client, or its parent.
fn known() -> Option<Interface> {
    // SAFETY: written before `IS_KNOWN` was set.
    if IS_KNOWN.load(Acquire) { unsafe { *CLIENT.cupti.get() } } else { None }
}

/// Provides memory for records. Without it CUPTI drops them, and counts them.
///
/// # Safety
/// As CUPTI calls it.
unsafe extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    let is_free = BUFFERS.fetch_add(1, AcqRel) < BUFFERS_MAX;
    let memory = if is_free { sys::map_memory(BUFFER) } else { std::ptr::null_mut() };
    if memory.is_null() {
        BUFFERS.fetch_sub(1, AcqRel);
    }
    // SAFETY: CUPTI passes places for the results.
    unsafe { (*buffer, *size, *most) = (memory, if memory.is_null() { 0 } else { BUFFER }, 0) };
    // The first reading precedes all records, and follows the start of CUDA, which sets the clock.
    if let (Some(_guard), Some(cupti)) = (CLIENT.lock.take(), active()) {
        // SAFETY: under the lock.
        let times = unsafe { &mut *CLIENT.times.get() };
        if times.is_none() {
            *times = Reading::take(|| cupti.time()).map(Times::new);
        }
    }
}

/// Does this for version 2.
///
/// # Safety
/// As CUPTI calls it.
unsafe extern "C" fn request_of(buffer: *mut *mut u8, size: *mut usize, most: *mut usize, _: *mut c_void) {
    // SAFETY: by the contract above.
    unsafe { request(buffer, size, most) };
}

/// Records what is in a buffer, and frees it.
///
/// # Safety
/// As CUPTI calls it: the buffer is one that was requested, and contains this number of bytes.
unsafe extern "C" fn complete(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, filled: usize) {
    if buffer.is_null() {
        return;
    }
    // The interface is used under the lock: see `leave`.
    if let (Some(_guard), Some(cupti)) = (CLIENT.lock.take(), active()) {
        // SAFETY: by the contract above, under the lock.
        unsafe { record_all(&cupti, buffer, filled.min(BUFFER)) };
    }
    sys::unmap(buffer, BUFFER);
    BUFFERS.fetch_sub(1, AcqRel);
    LAST_COMPLETION.store(now_ms(), Release);
}

/// Does this for version 2.
///
/// # Safety
/// As CUPTI calls it.
unsafe extern "C" fn complete_of(buffer: *mut u8, size: usize, filled: usize, _: *mut c_void) {
    // SAFETY: by the contract above.
    unsafe { complete(std::ptr::null_mut(), 0, buffer, size, filled) };
}

/// Records the contents of a buffer.
///
/// # Safety
/// Under the lock; the buffer contains this number of bytes.
unsafe fn record_all(cupti: &Interface, buffer: *mut u8, filled: usize) {
    // SAFETY: by the contract above.
    let Some(times) = (unsafe { &mut *CLIENT.times.get() }) else { return };
    Reading::take(|| cupti.time()).into_iter().for_each(|reading| times.add(reading));
    let mut at: *const u8 = std::ptr::null();
    // SAFETY: CUPTI finds the records of its own buffer; bytes are read within it.
    unsafe {
        while cupti.next(buffer, filled, &mut at) {
            let Some(offset) = at.addr().checked_sub(buffer.addr()).filter(|offset| *offset < filled) else { break };
            let bytes = std::slice::from_raw_parts(at, filled - offset);
            if let Some(activity) = records::parse(bytes)
                && !super::record(&activity, times)
            {
                INVALID.fetch_add(1, Relaxed);
            }
        }
    }
    let dropped = cupti.dropped();
    if dropped > 0 {
        DROPPED.fetch_add(dropped as u32, Relaxed);
        header_page::count_lost(dropped as u64);
    }
}

/// The functions by which other clients come, by their names, and what replaces them once this process is the client.
pub fn replacements() -> impl Iterator<Item = (&'static CStr, *const c_void, *const c_void)> {
    let (one, two) = known().map(|cupti| cupti.subscribe_other()).unzip();
    let one = one.map(|real| (c"cuptiSubscribe", real as *const c_void, subscribe_other as *const c_void));
    let two = two.flatten();
    let two = two.map(|real| (c"cuptiSubscribe_v2", real as *const c_void, subscribe_other_with as *const c_void));
    one.into_iter().chain(two)
}

/// Returns what replaces a function that a program has looked up.
pub fn replacement_of(function: *mut c_void) -> Option<*mut c_void> {
    let replaced = replacements().find(|(_, real, _)| !function.is_null() && real.addr() == function.addr());
    replaced.map(|(_, _, hook)| hook.cast_mut())
}

/// Replaces calls of `cuptiSubscribe`: version 1 has one client.
///
/// # Safety
/// As CUPTI's function.
unsafe extern "C" fn subscribe_other(handle: *mut *mut c_void, callback: *const c_void, data: *mut c_void) -> Status {
    step_aside();
    match known() {
        // SAFETY: CUPTI's function; arguments are passed on unchanged.
        Some(cupti) => unsafe { (cupti.subscribe_other().0)(handle, callback, data) },
        None => TAKEN,
    }
}

/// Replaces calls of `cuptiSubscribe_v2`. This client stays if both are of version 2 and the other one allows that.
///
/// # Safety
/// As CUPTI's function.
unsafe extern "C" fn subscribe_other_with(
    handle: *mut *mut c_void,
    callback: *const c_void,
    data: *mut c_void,
    parameters: *mut Parameters,
) -> Status {
    // SAFETY: by the contract above.
    let allows_others = unsafe { Parameters::allow_others(parameters) };
    if !(allows_others && active().is_some_and(|cupti| cupti.version() == Version::Two)) {
        step_aside();
    }
    match known().and_then(|cupti| cupti.subscribe_other().1) {
        // SAFETY: CUPTI's function; arguments are passed on unchanged.
        Some(subscribe) => unsafe { subscribe(handle, callback, data, parameters) },
        None => TAKEN,
    }
}

/// Delivers what is complete and leaves, so that another client gets all later records.
fn step_aside() {
    if let Some(cupti) = active() {
        cupti.flush(false);
        wait_for_buffers();
        leave(&cupti);
        lifecycle::say(&[b"another tool uses CUPTI from now on: later work of the GPU is not recorded"]);
    }
}

/// Ends the subscription of this process.
fn leave(cupti: &Interface) {
    KINDS.into_iter().for_each(|kind| cupti.disable(kind));
    OWNER.store(0, Release);
    // A buffer that is being read belongs to the subscription.
    drop(CLIENT.lock.take());
    cupti.unsubscribe();
}

/// Runs at exit, before CUDA's own functions.
extern "C" fn finish() {
    at_end();
}

/// Records the rest at the end of the process, once.
fn at_end() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    let Some(cupti) = active() else { return };
    if IS_DONE.swap(true, AcqRel) {
        return;
    }
    // A forced flush takes unfinished records from all clients.
    if cupti.version() == Version::Two {
        cupti.flush(false);
        wait_for_buffers();
    }
    // Kernels that are still running are delivered without an end, and count as lost.
    if cupti.version() == Version::One || BUFFERS.load(Acquire) > 0 {
        cupti.flush(true);
        wait_for_buffers();
    }
    OWNER.store(0, Release);
    let causes: [(&AtomicU32, &[u8]); 2] =
        [(&DROPPED, b"for which CUPTI had no memory"), (&INVALID, b"without valid times")];
    gpu::say_losses(&causes);
}

/// Waits while CUPTI delivers buffers.
fn wait_for_buffers() {
    let start = now_ms();
    let waits = || {
        let now = now_ms();
        now - start < LAST_MS && now - LAST_COMPLETION.load(Acquire).max(start) < NEXT_MS
    };
    while BUFFERS.load(Acquire) > 0 && waits() {
        sys::yield_now();
    }
}

fn now_ms() -> u64 {
    sys::clock_ns(libc::CLOCK_MONOTONIC) / 1_000_000
}
