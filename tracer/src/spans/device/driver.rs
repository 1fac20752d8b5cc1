//! The CUDA or HIP driver, which the process has loaded and initialized itself.
//!
//! This module never loads, links or initializes the driver. During a [`Session`], this thread may query events while another
//! thread captures a graph. Without a session, this would fail.

use std::ffi::{CStr, c_int, c_uint, c_void};

/// An event of the driver.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Event(usize);

impl Event {
    pub const NONE: Event = Event(0);
}

/// The number of a context, which is never zero. HIP has one context per device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Context(u64);

impl Context {
    pub const NONE: Context = Context(0);
}

/// The state of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    Done,
    Pending,
}

/// The reason for which a pair is not recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The process does not use a device.
    NoDevice,
    /// The time of this pair cannot be measured.
    Skipped,
    /// The driver reported an error: the context may be gone.
    Failed,
}

/// The functions of a driver; all zeros if there is none.
#[derive(Clone, Copy)]
pub struct Driver {
    functions: [*mut c_void; FUNCTIONS],
    is_hip: bool,
    is_loaded: bool,
}

/// Results of both drivers.
const NOT_READY: c_int = 600;
const STREAM_CAPTURE_IMPLICIT: c_int = 906;

/// The mode of a thread that may make any call while a stream is captured.
const CAPTURE_MODE_RELAXED: c_uint = 2;

/// Names by which processes have loaded the drivers: that of CUDA has always been this one, libraries with HIP bring their own.
/// Each list is one text, which needs no relocation, unlike a list of texts.
const CUDA_FILES: &str = "libcuda.so.1\0";
const HIP_FILES: &str = "libamdhip64.so\0libamdhip64.so.7\0libamdhip64.so.6\0libamdhip64.so.5\0";

#[derive(Clone, Copy)]
enum Function {
    Context,
    Device,
    CreateEvent,
    Record,
    Query,
    Elapsed,
    IsCapturing,
    ExchangeCaptureMode,
    /// This function and all later ones may be missing: in CUDA before 12.0, and those of errors in CUDA.
    ContextId,
    StreamId,
    PeekError,
    TakeError,
}

const FUNCTIONS: usize = 12;
const REQUIRED: usize = Function::ContextId as usize;

/// The names of the functions, in order; empty for those that a driver does not need.
const CUDA: &str = concat!(
    "cuCtxGetCurrent\0cuCtxGetDevice\0cuEventCreate\0cuEventRecord\0cuEventQuery\0cuEventElapsedTime\0",
    "cuStreamIsCapturing\0cuThreadExchangeStreamCaptureMode\0cuCtxGetId\0cuStreamGetId\0\0\0"
);
const HIP: &str = concat!(
    "\0hipGetDevice\0hipEventCreateWithFlags\0hipEventRecord\0hipEventQuery\0hipEventElapsedTime\0",
    "hipStreamIsCapturing\0hipThreadExchangeStreamCaptureMode\0\0\0hipPeekAtLastError\0hipGetLastError\0"
);

/// Returns the names in a list.
fn names(list: &'static str) -> impl Iterator<Item = &'static CStr> {
    list.as_bytes().split_inclusive(|&byte| byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

/// Calls a function of the driver with arguments of the given types; the result of one that it lacks is -1.
macro_rules! call {
    ($driver:expr, $function:ident($($of:ty),*)($($argument:expr),*)) => {{
        let address = $driver.functions[Function::$function as usize];
        if address.is_null() {
            -1
        } else {
            // SAFETY: the driver's function of this signature, with handles of the current context and valid addresses.
            unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($of),*) -> c_int>(address)($($argument),*)
            }
        }
    }};
}

impl Driver {
    pub const NONE: Driver = Driver { functions: [std::ptr::null_mut(); FUNCTIONS], is_hip: false, is_loaded: false };

    /// Returns the driver that the process has loaded.
    pub fn find() -> Driver {
        let cuda = names(CUDA_FILES).find_map(|file| Driver::of(file, CUDA, false));
        let hip = || names(HIP_FILES).find_map(|file| Driver::of(file, HIP, true));
        cuda.or_else(hip).unwrap_or(Driver::NONE)
    }

    fn of(file: &CStr, functions: &'static str, is_hip: bool) -> Option<Driver> {
        // SAFETY: a terminated name; nothing is loaded. The handle keeps the driver loaded from now on.
        let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        let loaded = Driver { is_hip, is_loaded: true, ..Driver::NONE };
        let mut driver = loaded;
        for ((at, address), name) in driver.functions.iter_mut().enumerate().zip(names(functions)) {
            if name.is_empty() {
                continue;
            }
            // SAFETY: a handle and a terminated name.
            *address = unsafe { libc::dlsym(library, name.as_ptr()) };
            if address.is_null() && at < REQUIRED {
                return Some(loaded);
            }
        }
        Some(driver)
    }

    pub fn is_loaded(&self) -> bool {
        self.is_loaded
    }

    /// Returns `true` unless the driver lacks a function that is needed here.
    pub fn is_usable(&self) -> bool {
        !self.functions[Function::Query as usize].is_null()
    }

    /// Starts a session of this thread, unless the program has an error of the driver that it has not read yet.
    pub fn session(&self) -> Result<Session, Problem> {
        if self.has_error() {
            return Err(Problem::Skipped);
        }
        let mut mode = CAPTURE_MODE_RELAXED;
        match self.exchange_mode(&mut mode) {
            0 => Ok(Session { driver: *self, mode }),
            _ => Err(Problem::NoDevice),
        }
    }

    /// Returns `true` if HIP keeps an error for the program's next question: a call made here could replace it.
    fn has_error(&self) -> bool {
        self.is_hip && call!(self, PeekError()()) != 0
    }

    /// Exchanges the mode of this thread and the given one.
    fn exchange_mode(&self, mode: &mut c_uint) -> c_int {
        call!(self, ExchangeCaptureMode(*mut c_uint)(std::ptr::from_mut(mode)))
    }
}

/// A few calls of the driver on one thread.
pub struct Session {
    driver: Driver,
    /// The mode of the thread before this session.
    mode: c_uint,
}

impl Session {
    /// Returns the current context of this thread.
    pub fn context(&self) -> Result<Context, Problem> {
        if self.driver.is_hip {
            return Ok(Context(self.device()? as u64 + 1));
        }
        let (mut handle, mut id) = (0usize, 0u64);
        if call!(self.driver, Context(*mut usize)(&raw mut handle)) != 0 || handle == 0 {
            return Err(Problem::NoDevice);
        }
        // A context may get the address of one that was destroyed, but never its number.
        match call!(self.driver, ContextId(usize, *mut u64)(handle, &raw mut id)) {
            0 => Ok(Context(id)),
            _ => Ok(Context(handle as u64)),
        }
    }

    /// Returns the number of the device of the current context.
    pub fn device(&self) -> Result<i64, Problem> {
        let mut device = 0 as c_int;
        match call!(self.driver, Device(*mut c_int)(&raw mut device)) {
            0 => Ok(device as i64),
            _ => Err(Problem::NoDevice),
        }
    }

    /// Returns `true` if the stream is being captured, in which case no event may be recorded.
    pub fn is_capturing(&self, stream: usize) -> Result<bool, Problem> {
        let mut status = 0 as c_int;
        match call!(self.driver, IsCapturing(usize, *mut c_int)(stream, &raw mut status)) {
            0 => Ok(status != 0),
            // Asked about the default stream while another stream, which waits for it, is captured.
            STREAM_CAPTURE_IMPLICIT => Ok(true),
            _ => Err(Problem::Failed),
        }
    }

    /// Returns the number of a stream; its handle if the driver does not number streams.
    pub fn number_of(&self, stream: usize) -> i64 {
        let mut number = 0u64;
        match call!(self.driver, StreamId(usize, *mut u64)(stream, &raw mut number)) {
            0 => number as i64,
            _ => stream as i64,
        }
    }

    /// Creates an event that has a time.
    pub fn create_event(&self) -> Result<Event, Problem> {
        let mut event = 0usize;
        match call!(self.driver, CreateEvent(*mut usize, c_uint)(&raw mut event, 0)) {
            0 if event != 0 => Ok(Event(event)),
            _ => Err(Problem::Failed),
        }
    }

    pub fn record(&self, event: Event, stream: usize) -> Result<(), Problem> {
        match call!(self.driver, Record(usize, usize)(event.0, stream)) {
            0 => Ok(()),
            _ => Err(Problem::Failed),
        }
    }

    pub fn query(&self, event: Event) -> Result<Completion, Problem> {
        match call!(self.driver, Query(usize)(event.0)) {
            0 => Ok(Completion::Done),
            NOT_READY => Ok(Completion::Pending),
            _ => Err(Problem::Failed),
        }
    }

    /// Returns the nanoseconds from one event to another; both have completed.
    pub fn elapsed_ns(&self, from: Event, to: Event) -> Result<i64, Problem> {
        let mut ms = 0f32;
        match call!(self.driver, Elapsed(*mut f32, usize, usize)(&raw mut ms, from.0, to.0)) {
            0 if ms.is_finite() => Ok((ms as f64 * 1e6) as i64),
            _ => Err(Problem::Failed),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.exchange_mode(&mut self.mode);
        if self.driver.has_error() {
            // HIP counts "not ready" as an error. The program had none before.
            call!(self.driver, TakeError()());
        }
    }
}
