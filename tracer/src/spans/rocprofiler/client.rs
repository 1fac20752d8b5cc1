//! The process as a client of rocprofiler-sdk: requests records, and delivers them.
//!
//! A forked child cannot use ROCm, so it calls no function of the library.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::native::names::NameKind;
use dlio_schemas::ops::Layer;

use crate::kernel::sys;
use crate::life::lifecycle;
use crate::spans::gpu;
use crate::spans::gpu::times::{Reading, Times};
use crate::spans::library_calls;
use crate::spans::nvtx::message::Message;
use crate::thread::lock::Lock;
use crate::trace::header_page;

use super::functions::{CodeRecord, Functions, Header, Id, SUCCESS, Status};
use super::kernels;
use super::records::{self, What};

/// Versions of the library, as `10000 * major + 100 * minor + patch`: that of ROCm 6.3, and the first one that may be different.
const OLDEST: u32 = 500;
const NEWEST: u32 = 20_000;

/// The memory for records, which the library has twice, and the number of records that it delivers together.
const BUFFER: usize = 2 << 20;
const BATCH: usize = 1000;
/// `ROCPROFILER_BUFFER_POLICY_LOSSLESS`: a thread of the library waits while both buffers are full.
const LOSSLESS: c_int = 2;
/// `ROCPROFILER_AGENT_INFO_VERSION_0`.
const AGENT_VERSION: c_int = 1;

/// More GPUs than a host has.
const GPUS: usize = 64;

/// `rocprofiler_tool_configure_result_t`.
#[repr(C)]
pub struct Tool {
    size: usize,
    initialize: unsafe extern "C" fn(*const c_void, *mut c_void) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
}

// SAFETY: it contains no data.
unsafe impl Sync for Tool {}

static TOOL: Tool = Tool { size: size_of::<Tool>(), initialize, finalize, data: std::ptr::null_mut() };

struct Client {
    functions: UnsafeCell<Option<Functions>>,
    times: UnsafeCell<Option<Times>>,
    lock: Lock,
}

// SAFETY: the functions are written before the library calls anything, and the times are used under the lock.
unsafe impl Sync for Client {}

static CLIENT: Client = Client { functions: UnsafeCell::new(None), times: UnsafeCell::new(None), lock: Lock::new() };
/// The process that is the client; zero if none is, or no longer.
static OWNER: AtomicI32 = AtomicI32::new(0);
static RECORDS: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU32 = AtomicU32::new(0);
static INVALID: AtomicU32 = AtomicU32::new(0);
/// The handles of the GPUs' agents, by the number of the GPU. No agent has the handle zero.
static AGENTS: [AtomicU64; GPUS] = [const { AtomicU64::new(0) }; GPUS];

/// Returns the functions of this tool, or null if it records nothing. The client's description is left as it is: its fields
/// are not the same in all versions.
///
/// # Safety
/// As rocprofiler-sdk calls its tools.
pub unsafe extern "C" fn configure(version: u32, _: *const c_char, _: u32, _: *mut c_void) -> *const Tool {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if !lifecycle::records(Layer::App) || IS_DONE.swap(true, AcqRel) {
        return std::ptr::null();
    }
    let known = match version {
        ..OLDEST => Err(c"this version of rocprofiler-sdk is too old; ROCm 6.3 and later work"),
        NEWEST.. => Err(c"this version of rocprofiler-sdk is newer than those that are known; use a newer dlio"),
        _ => Functions::load().ok_or(c"this version of rocprofiler-sdk lacks a function; ROCm 6.3 and later have it"),
    };
    match known {
        Ok(functions) => {
            // SAFETY: nothing else reads the functions before `OWNER` is set.
            unsafe { *CLIENT.functions.get() = Some(functions) };
            &TOOL
        }
        Err(cause) => {
            say_failure(cause);
            std::ptr::null()
        }
    }
}

fn say_failure(cause: &CStr) {
    lifecycle::say(&[b"cannot record the work of the GPU (--gpu): ", cause.to_bytes()]);
}

/// Requests records. A result other than zero is a failure.
///
/// # Safety
/// As rocprofiler-sdk calls it, once, after `configure`.
unsafe extern "C" fn initialize(_: *const c_void, _: *mut c_void) -> c_int {
    // SAFETY: written before.
    let Some(functions) = (unsafe { *CLIENT.functions.get() }) else { return -1 };
    // The first reading precedes all records.
    let times = Reading::take(|| functions.time()).map(Times::new);
    if let Some(_guard) = CLIENT.lock.take() {
        // SAFETY: under the lock.
        unsafe { *CLIENT.times.get() = times };
    }
    OWNER.store(sys::process_id(), Release);
    match request(&functions) {
        Ok(buffer) => {
            RECORDS.store(buffer, Release);
            lifecycle::before_end(at_end);
            0
        }
        Err(status) => {
            OWNER.store(0, Release);
            say_failure(functions.text_of(status));
            -1
        }
    }
}

/// Requests records of kernels and copies, and the names of kernels. Returns the buffer of the records.
fn request(functions: &Functions) -> Result<Id, Status> {
    let done = |status: Status| if status == SUCCESS { Ok(()) } else { Err(status) };
    let (mut context, mut buffer, no_data, all) = (0, 0, std::ptr::null_mut(), std::ptr::null());
    // SAFETY: functions of the library, and callbacks of the types that it expects.
    unsafe {
        done((functions.agents)(AGENT_VERSION, keep_agents, records::AGENT, no_data))?;
        done((functions.create_context)(&mut context))?;
        done((functions.create_buffer)(context, BUFFER, BATCH, LOSSLESS, deliver, no_data, &mut buffer))?;
        done((functions.call_back)(context, records::CODE as c_int, all, 0, keep_name, no_data))?;
        for kind in [records::DISPATCH, records::COPY] {
            done((functions.trace)(context, kind as c_int, all, 0, buffer))?;
        }
        done((functions.start)(context))?;
    }
    Ok(buffer)
}

/// Keeps the handles of the GPUs.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn keep_agents(_: c_int, agents: *const *const u8, count: usize, _: *mut c_void) -> Status {
    for at in 0..count {
        // SAFETY: the library passes this number of descriptions, which begin with their size.
        let gpu = unsafe {
            let agent = *agents.add(at);
            let is_known = agent.cast::<u64>().read_unaligned() >= records::AGENT as u64;
            is_known.then(|| &*agent.cast::<[u8; records::AGENT]>()).and_then(records::gpu)
        };
        if let Some((handle, number)) = gpu
            && let Some(place) = AGENTS.get(number as usize)
        {
            place.store(handle, Release);
        }
    }
    SUCCESS
}

/// Returns the number of the GPU whose agent has this handle.
fn device_of(agent: u64) -> Option<u32> {
    AGENTS.iter().position(|known| agent != 0 && known.load(Acquire) == agent).map(|at| at as u32)
}

/// Keeps the name of a kernel that is loaded.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn keep_name(record: CodeRecord, _: *mut c_void, _: *mut c_void) {
    let Some(kernel) = records::loaded_kernel(&record.0) else { return };
    // SAFETY: the record says that this is a kernel's description, which begins with its size.
    unsafe {
        if (&raw const (*kernel).size).read() >= size_of::<records::Kernel>() as u64 {
            kernels::put((*kernel).number, (*kernel).name);
        }
    }
}

/// Records what is in a buffer.
///
/// # Safety
/// As the library calls it, with this number of records.
unsafe extern "C" fn deliver(_: Id, _: Id, all: *const *const Header, count: usize, _: *mut c_void, dropped: u64) {
    let (Some(_guard), Some(functions)) = (CLIENT.lock.take(), active()) else { return };
    // SAFETY: under the lock.
    let Some(times) = (unsafe { &mut *CLIENT.times.get() }) else { return };
    Reading::take(|| functions.time()).into_iter().for_each(|reading| times.add(reading));
    for at in 0..count {
        // SAFETY: by the contract above: records of this category begin with their size.
        let record = unsafe {
            let header = &**all.add(at);
            if header.category != records::TRACING || header.payload.is_null() {
                continue;
            }
            let length = (header.payload.cast::<u64>().read_unaligned() as usize).min(records::LONGEST);
            records::parse(std::slice::from_raw_parts(header.payload, length), device_of)
        };
        let is_valid = record.is_some_and(|record| gpu::record(&record.work, times, || name(record.what)));
        if record.is_none() {
            header_page::count_lost(1);
        }
        if !is_valid {
            INVALID.fetch_add(1, Relaxed);
        }
    }
    let before = DROPPED.swap(dropped as u32, Relaxed);
    header_page::count_lost(dropped.saturating_sub(before.into()));
}

/// Returns the number of the name of a kernel or a copy.
fn name(what: What) -> u32 {
    match what {
        What::Kernel(number) => {
            // The names are those of the kernels' descriptions.
            let intern = |name: &[u8]| library_calls::intern(NameKind::Span, name.strip_suffix(b".kd").unwrap_or(name));
            let name = Message::Bytes(kernels::get(number));
            name.with_text(intern).unwrap_or_else(|| name.number())
        }
        What::Copy(direction) => records::copy_name(direction),
    }
}

/// Returns the functions if this process is the client.
fn active() -> Option<Functions> {
    let owner = OWNER.load(Acquire);
    // SAFETY: written before `OWNER`.
    if owner != 0 && owner == sys::process_id() { unsafe { *CLIENT.functions.get() } } else { None }
}

/// Runs when the library ends, at exit.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn finalize(_: *mut c_void) {
    at_end();
}

/// Records the rest at the end of the process, once. The library returns when it has delivered the records.
fn at_end() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    let Some(functions) = active() else { return };
    if IS_DONE.swap(true, AcqRel) {
        return;
    }
    // SAFETY: a function of the library, which has not ended.
    unsafe { (functions.flush)(RECORDS.load(Acquire)) };
    OWNER.store(0, Release);
    let causes: [(&AtomicU32, &[u8]); 2] = [
        (&DROPPED, b"for which rocprofiler-sdk had no memory"),
        (&INVALID, b"without valid times or of an unknown form"),
    ];
    gpu::say_losses(&causes);
}
