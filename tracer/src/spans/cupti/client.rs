//! The process as a client of CUPTI: requests records, and delivers them.
//!
//! CUPTI has one client per process: if another one comes, such as PyTorch's profiler, this one leaves. In a forked
//! child, which cannot use CUDA, nothing of CUPTI is called.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use dlio_schemas::decimal::decimal;

use crate::kernel::sys;
use crate::life::lifecycle;
use crate::thread::lock::Lock;
use crate::trace::header_page;

use super::records::{self, KINDS};
use super::times::{Reading, Times};

type Status = c_int;
const SUCCESS: Status = 0;
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
const TAKEN: Status = 39;
/// `CUPTI_ERROR_NOT_INITIALIZED`.
const UNUSABLE: Status = 15;
/// `CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT`.
const POOL_LIMIT: c_int = 2;
/// Buffers of 3.2 MB that CUPTI may have in the memory of a GPU: 100 MB instead of 800 MB.
const POOL_MAX: usize = 32;

/// The memory for records that CUPTI fills, and the number of such buffers: 16 MiB.
const BUFFER: usize = 512 << 10;
const BUFFERS_MAX: usize = 32;

/// How long an ending process waits for the last records, and for the next ones after some have come.
const LAST_MS: u64 = 1000;
const NEXT_MS: u64 = 50;

type Subscribe = unsafe extern "C" fn(*mut *mut c_void, *const c_void, *mut c_void) -> Status;
type Request = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// The functions of CUPTI that are used: every version since 11 has them.
#[derive(Clone, Copy)]
struct Functions {
    subscribe: Subscribe,
    unsubscribe: unsafe extern "C" fn(*mut c_void) -> Status,
    register: unsafe extern "C" fn(Request, Complete) -> Status,
    enable: unsafe extern "C" fn(u32) -> Status,
    disable: unsafe extern "C" fn(u32) -> Status,
    flush: unsafe extern "C" fn(u32) -> Status,
    next: unsafe extern "C" fn(*mut u8, usize, *mut *const u8) -> Status,
    dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Status,
    set: unsafe extern "C" fn(c_int, *mut usize, *const c_void) -> Status,
    time: unsafe extern "C" fn(*mut u64) -> Status,
    text: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
}

struct Client {
    functions: UnsafeCell<Option<Functions>>,
    times: UnsafeCell<Option<Times>>,
    lock: Lock,
}

// SAFETY: the functions are written before CUPTI calls anything, and the times are used under the lock.
unsafe impl Sync for Client {}

static CLIENT: Client = Client { functions: UnsafeCell::new(None), times: UnsafeCell::new(None), lock: Lock::new() };
/// The process that is the client; zero if none is, or no longer.
static OWNER: AtomicI32 = AtomicI32::new(0);
static HANDLE: AtomicUsize = AtomicUsize::new(0);
static BUFFERS: AtomicUsize = AtomicUsize::new(0);
static LAST_COMPLETION: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU32 = AtomicU32::new(0);
static INVALID: AtomicU32 = AtomicU32::new(0);

/// Becomes the client and enables the kinds of records; on failure returns the cause.
///
/// # Safety
/// CUDA is initializing, and `library` is a handle of CUPTI that is never closed.
pub unsafe fn subscribe(library: *mut c_void) -> Result<(), &'static CStr> {
    // SAFETY: by the contract above: these are its functions.
    unsafe {
        let functions = load(library).ok_or(c"this version of libcupti lacks a function; CUDA 11 to 13 have it")?;
        let mut handle = std::ptr::null_mut();
        match (functions.subscribe)(&mut handle, ignore as *const c_void, std::ptr::null_mut()) {
            SUCCESS => {}
            TAKEN => return Err(c"another tool uses CUPTI; end it, or trace without --gpu"),
            UNUSABLE => return Err(c"CUPTI cannot use the driver; check that one is loaded and as new as libcupti"),
            status => return Err(text_of(&functions, status)),
        }
        *CLIENT.functions.get() = Some(functions);
        HANDLE.store(handle.addr(), Release);
        OWNER.store(sys::process_id(), Release);
        // Without a limit CUPTI works, too, but needs more memory of the GPU.
        let limit = POOL_MAX;
        (functions.set)(POOL_LIMIT, &mut size_of::<usize>(), (&raw const limit).cast());
        let registered = (functions.register)(request, complete);
        let enabled = KINDS.into_iter().filter(|kind| registered == SUCCESS && (functions.enable)(*kind) == SUCCESS);
        if enabled.count() == 0 {
            leave(&functions);
            return Err(c"CUPTI provides no records of this GPU");
        }
        libc::atexit(finish);
        lifecycle::before_end(at_end);
    }
    Ok(())
}

/// Returns the functions of the library; `None` if one is missing.
///
/// # Safety
/// The library is CUPTI.
unsafe fn load(library: *mut c_void) -> Option<Functions> {
    // SAFETY: functions of these names have these types in every version.
    unsafe {
        Some(Functions {
            subscribe: function(library, c"cuptiSubscribe")?,
            unsubscribe: function(library, c"cuptiUnsubscribe")?,
            register: function(library, c"cuptiActivityRegisterCallbacks")?,
            enable: function(library, c"cuptiActivityEnable")?,
            disable: function(library, c"cuptiActivityDisable")?,
            flush: function(library, c"cuptiActivityFlushAll")?,
            next: function(library, c"cuptiActivityGetNextRecord")?,
            dropped: function(library, c"cuptiActivityGetNumDroppedRecords")?,
            set: function(library, c"cuptiActivitySetAttribute")?,
            time: function(library, c"cuptiGetTimestamp")?,
            text: function(library, c"cuptiGetResultString")?,
        })
    }
}

/// Returns a function of a library.
///
/// # Safety
/// `F` is the type of the function with this name.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: by the contract above.
    unsafe {
        let address = libc::dlsym(library, name.as_ptr());
        (!address.is_null()).then(|| std::mem::transmute_copy::<*mut c_void, F>(&address))
    }
}

/// Returns CUPTI's text for an error.
///
/// # Safety
/// The functions are those of CUPTI.
unsafe fn text_of(functions: &Functions, status: Status) -> &'static CStr {
    let mut text = std::ptr::null();
    // SAFETY: by the contract above: the text is a constant.
    unsafe {
        let is_known = (functions.text)(status, &mut text) == SUCCESS && !text.is_null();
        if is_known {
            CStr::from_ptr(text)
        } else {
            c"CUPTI returns an unknown error; check that the driver is as new as libcupti"
        }
    }
}

/// Returns the functions if this process is the client.
fn active() -> Option<Functions> {
    let owner = OWNER.load(Acquire);
    // SAFETY: written before `OWNER`.
    if owner != 0 && owner == sys::process_id() { unsafe { *CLIENT.functions.get() } } else { None }
}

/// No callback is enabled; CUPTI requires a function.
extern "C" fn ignore(_: *mut c_void, _: c_int, _: u32, _: *const c_void) {}

/// Takes a reading of both clocks.
fn reading(functions: &Functions) -> Option<Reading> {
    Reading::take(|| {
        let mut ns = 0;
        // SAFETY: a function of CUPTI that writes a number.
        (unsafe { (functions.time)(&mut ns) } == SUCCESS).then_some(ns)
    })
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
    if let (Some(functions), Some(_guard)) = (active(), CLIENT.lock.take()) {
        // SAFETY: under the lock.
        let times = unsafe { &mut *CLIENT.times.get() };
        if times.is_none() {
            *times = reading(&functions).map(Times::new);
        }
    }
}

/// Records what is in a buffer, and frees it.
///
/// # Safety
/// As CUPTI calls it: the buffer is one that was requested, and contains this number of bytes.
unsafe extern "C" fn complete(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, filled: usize) {
    if buffer.is_null() {
        return;
    }
    if let (Some(functions), Some(_guard)) = (active(), CLIENT.lock.take()) {
        // SAFETY: by the contract above, under the lock.
        unsafe { record_all(&functions, buffer, filled.min(BUFFER)) };
    }
    sys::unmap(buffer, BUFFER);
    BUFFERS.fetch_sub(1, AcqRel);
    LAST_COMPLETION.store(now_ms(), Release);
}

/// Records the contents of a buffer.
///
/// # Safety
/// Under the lock; the buffer contains this number of bytes.
unsafe fn record_all(functions: &Functions, buffer: *mut u8, filled: usize) {
    // SAFETY: by the contract above.
    let Some(times) = (unsafe { &mut *CLIENT.times.get() }) else { return };
    reading(functions).into_iter().for_each(|reading| times.add(reading));
    let mut at: *const u8 = std::ptr::null();
    // SAFETY: CUPTI finds the records of its own buffer; bytes are read within it.
    unsafe {
        while (functions.next)(buffer, filled, &mut at) == SUCCESS {
            let Some(offset) = at.addr().checked_sub(buffer.addr()).filter(|offset| *offset < filled) else { break };
            let bytes = std::slice::from_raw_parts(at, filled - offset);
            if let Some(activity) = records::parse(bytes)
                && !super::record(&activity, times)
            {
                INVALID.fetch_add(1, Relaxed);
            }
        }
        let mut dropped = 0;
        if (functions.dropped)(std::ptr::null_mut(), 0, &mut dropped) == SUCCESS && dropped > 0 {
            DROPPED.fetch_add(dropped as u32, Relaxed);
            header_page::count_lost(dropped as u64);
        }
    }
}

/// Replaces calls of `cuptiSubscribe` by others. This client delivers what is complete and leaves, so that the other one
/// gets all later records.
///
/// # Safety
/// As CUPTI's function.
pub unsafe extern "C" fn subscribe_other(
    handle: *mut *mut c_void,
    callback: *const c_void,
    data: *mut c_void,
) -> Status {
    if let Some(functions) = active() {
        // SAFETY: the client is active.
        unsafe {
            (functions.flush)(0);
            leave(&functions);
        }
        lifecycle::say(&[b"another tool uses CUPTI from now on: later work of the GPU is not recorded"]);
    }
    // SAFETY: written before calls were replaced; arguments are passed on unchanged.
    match unsafe { *CLIENT.functions.get() } {
        // SAFETY: as above.
        Some(functions) => unsafe { (functions.subscribe)(handle, callback, data) },
        None => TAKEN,
    }
}

/// Ends the subscription.
///
/// # Safety
/// The client is active.
unsafe fn leave(functions: &Functions) {
    // SAFETY: by the contract above.
    unsafe {
        KINDS.into_iter().for_each(|kind| _ = (functions.disable)(kind));
        (functions.unsubscribe)(std::ptr::with_exposed_provenance_mut(HANDLE.load(Acquire)));
    }
    OWNER.store(0, Release);
}

/// Runs at exit, before CUDA's own functions.
extern "C" fn finish() {
    at_end();
}

/// Records the rest at the end of the process, once.
fn at_end() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    let Some(functions) = active() else { return };
    if IS_DONE.swap(true, AcqRel) {
        return;
    }
    // Kernels that are still running are delivered without an end, and count as lost.
    // SAFETY: this process is the client.
    unsafe { (functions.flush)(1) };
    let start = now_ms();
    let waits = || {
        let now = now_ms();
        now - start < LAST_MS && now - LAST_COMPLETION.load(Acquire).max(start) < NEXT_MS
    };
    while BUFFERS.load(Acquire) > 0 && waits() {
        sys::yield_now();
    }
    OWNER.store(0, Release);
    say_losses();
}

fn say_losses() {
    let counts = [(&DROPPED, &b"for which CUPTI had no memory"[..]), (&INVALID, b"without valid times")];
    for (count, cause) in counts {
        let mut digits = [0; 20];
        let count = i64::from(count.load(Relaxed));
        if count > 0 {
            lifecycle::say(&[decimal(count, &mut digits), b" records of the GPU are lost: records ", cause]);
        }
    }
}

fn now_ms() -> u64 {
    sys::clock_ns(libc::CLOCK_MONOTONIC) / 1_000_000
}
