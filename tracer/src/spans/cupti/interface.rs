//! CUPTI's functions, in both versions of its interface.
//!
//! Version 1 allows one client per process, and its calls do not name the client. Version 2 names the client in each call, and
//! allows several clients if the first client does. CUPTI refuses a client that uses a different version than earlier clients.
//! Records have the same fields in both versions.

use std::ffi::{CStr, c_char, c_int, c_void};

pub type Status = c_int;
pub const SUCCESS: Status = 0;
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
pub const TAKEN: Status = 39;
/// `CUPTI_ERROR_NOT_INITIALIZED`.
const UNUSABLE: Status = 15;

/// `CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT`.
const POOL_LIMIT: c_int = 2;
/// `CUPTI_ACTIVITY_ATTR_ENABLE_MULTI_SUBSCRIBER_GRAPH_TRACE`.
const WHOLE_GRAPHS: c_int = 20;

type Handle = *mut c_void;
type Attribute = unsafe extern "C" fn(c_int, *mut usize, *mut c_void) -> Status;
type AttributeOf = unsafe extern "C" fn(Handle, c_int, *mut usize, *mut c_void) -> Status;
pub type Subscribe = unsafe extern "C" fn(*mut Handle, *const c_void, *mut c_void) -> Status;
pub type SubscribeWith = unsafe extern "C" fn(*mut Handle, *const c_void, *mut c_void, *mut Parameters) -> Status;
pub type Request = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub type RequestOf = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize, *mut c_void);
pub type Complete = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
pub type CompleteOf = unsafe extern "C" fn(*mut u8, usize, usize, *mut c_void);

/// `CUpti_SubscriberParams`. `size` is that of the version for which the client was compiled.
#[repr(C)]
pub struct Parameters {
    size: usize,
    name: *const c_char,
    other: *mut c_char,
    other_size: usize,
    allows_others: u8,
    padding: [u8; 7],
}

const _: () = assert!(size_of::<Parameters>() == 40 && std::mem::offset_of!(Parameters, allows_others) == 32);

impl Parameters {
    /// Returns `true` if the client of these parameters allows others.
    ///
    /// # Safety
    /// As CUPTI's parameters: null, or of the size that they contain.
    pub unsafe fn allow_others(parameters: *const Parameters) -> bool {
        const NEEDED: usize = std::mem::offset_of!(Parameters, allows_others) + 1;
        // SAFETY: by the contract above: nothing beyond the size is read.
        unsafe {
            !parameters.is_null()
                && (&raw const (*parameters).size).read() >= NEEDED
                && (&raw const (*parameters).allows_others).read() == 1
        }
    }
}

/// The callbacks of a client, in the form of each version.
pub struct Callbacks {
    pub request: Request,
    pub complete: Complete,
    pub request_of: RequestOf,
    pub complete_of: CompleteOf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    One,
    Two,
}

/// Functions that both versions have, and those by which clients come.
#[derive(Clone, Copy)]
struct Shared {
    subscribe: Subscribe,
    /// Some versions have this function without the rest of version 2.
    subscribe_with: Option<SubscribeWith>,
    unsubscribe: unsafe extern "C" fn(Handle) -> Status,
    flush: unsafe extern "C" fn(u32) -> Status,
    text: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
}

#[derive(Clone, Copy)]
struct One {
    register: unsafe extern "C" fn(Request, Complete) -> Status,
    enable: unsafe extern "C" fn(u32) -> Status,
    disable: unsafe extern "C" fn(u32) -> Status,
    next: unsafe extern "C" fn(*mut u8, usize, *mut *const u8) -> Status,
    dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Status,
    set: Attribute,
    time: unsafe extern "C" fn(*mut u64) -> Status,
}

#[derive(Clone, Copy)]
struct Two {
    subscribe: SubscribeWith,
    register: unsafe extern "C" fn(Handle, RequestOf, CompleteOf) -> Status,
    enable: unsafe extern "C" fn(Handle, u32, *const c_void) -> Status,
    disable: unsafe extern "C" fn(Handle, u32, *const c_void) -> Status,
    next: unsafe extern "C" fn(Handle, *mut u8, usize, *mut *const u8) -> Status,
    dropped: unsafe extern "C" fn(Handle, *mut c_void, u32, *mut usize) -> Status,
    set: AttributeOf,
    get: AttributeOf,
    time: unsafe extern "C" fn(Handle, *mut u64) -> Status,
}

#[derive(Clone, Copy)]
enum Functions {
    One(One),
    Two(Two),
}

/// CUPTI with this process as its client.
#[derive(Clone, Copy)]
pub struct Interface {
    shared: Shared,
    functions: Functions,
    handle: Handle,
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

impl Shared {
    /// Returns the functions of the library; `None` if one is missing.
    ///
    /// # Safety
    /// The library is CUPTI, and is never closed.
    unsafe fn load(library: *mut c_void) -> Option<Shared> {
        // SAFETY: functions of these names have these types in every version.
        unsafe {
            Some(Shared {
                subscribe: function(library, c"cuptiSubscribe")?,
                subscribe_with: function(library, c"cuptiSubscribe_v2"),
                unsubscribe: function(library, c"cuptiUnsubscribe")?,
                flush: function(library, c"cuptiActivityFlushAll")?,
                text: function(library, c"cuptiGetResultString")?,
            })
        }
    }

    /// Returns the reason for which CUPTI refuses this client.
    fn reason(&self, status: Status) -> &'static CStr {
        match status {
            TAKEN => c"another tool uses CUPTI; end it, or trace without --gpu",
            UNUSABLE => c"CUPTI cannot use the driver; check that one is loaded and as new as libcupti",
            status => {
                let mut text = std::ptr::null();
                // SAFETY: a function of CUPTI; the text is a constant.
                unsafe {
                    let is_known = (self.text)(status, &mut text) == SUCCESS && !text.is_null();
                    let unknown = c"CUPTI returns an unknown error; check that the driver is as new as libcupti";
                    if is_known { CStr::from_ptr(text) } else { unknown }
                }
            }
        }
    }
}

impl One {
    /// # Safety
    /// As [`Shared::load`].
    unsafe fn load(library: *mut c_void) -> Option<One> {
        // SAFETY: as above.
        unsafe {
            Some(One {
                register: function(library, c"cuptiActivityRegisterCallbacks")?,
                enable: function(library, c"cuptiActivityEnable")?,
                disable: function(library, c"cuptiActivityDisable")?,
                next: function(library, c"cuptiActivityGetNextRecord")?,
                dropped: function(library, c"cuptiActivityGetNumDroppedRecords")?,
                set: function(library, c"cuptiActivitySetAttribute")?,
                time: function(library, c"cuptiGetTimestamp")?,
            })
        }
    }
}

impl Two {
    /// # Safety
    /// As [`Shared::load`].
    unsafe fn load(library: *mut c_void) -> Option<Two> {
        // SAFETY: as above.
        unsafe {
            Some(Two {
                subscribe: function(library, c"cuptiSubscribe_v2")?,
                register: function(library, c"cuptiActivityRegisterCallbacks_v2")?,
                enable: function(library, c"cuptiActivityEnable_v2")?,
                disable: function(library, c"cuptiActivityDisable_v2")?,
                next: function(library, c"cuptiActivityGetNextRecord_v2")?,
                dropped: function(library, c"cuptiActivityGetNumDroppedRecords_v2")?,
                set: function(library, c"cuptiActivitySetAttribute_v2")?,
                get: function(library, c"cuptiActivityGetAttribute_v2")?,
                time: function(library, c"cuptiGetTimestamp_v2")?,
            })
        }
    }

    fn subscribe(&self) -> Result<Handle, Status> {
        let mut handle = std::ptr::null_mut();
        let mut parameters = Parameters {
            size: size_of::<Parameters>(),
            name: c"dlio".as_ptr(),
            other: std::ptr::null_mut(),
            other_size: 0,
            allows_others: 1,
            padding: [0; 7],
        };
        // SAFETY: a function of CUPTI, which copies the parameters.
        let status =
            unsafe { (self.subscribe)(&mut handle, ignore as *const c_void, std::ptr::null_mut(), &mut parameters) };
        if status == SUCCESS { Ok(handle) } else { Err(status) }
    }
}

/// No callback is enabled; CUPTI requires a function.
extern "C" fn ignore(_: *mut c_void, _: c_int, _: u32, _: *const c_void) {}

impl Interface {
    /// Makes this process a client, by version 2 if that is `allowed`, complete and usable; otherwise by version 1.
    ///
    /// # Safety
    /// CUDA is initializing, and `library` is a handle of CUPTI that is never closed.
    pub unsafe fn subscribe(library: *mut c_void, allowed: Version) -> Result<Interface, &'static CStr> {
        const INCOMPLETE: &CStr = c"this version of libcupti lacks a function; CUDA 11 to 13 have it";
        // SAFETY: by the contract above.
        unsafe {
            let shared = Shared::load(library).ok_or(INCOMPLETE)?;
            let one = One::load(library).ok_or(INCOMPLETE)?;
            let two = Two::load(library).filter(|_| allowed == Version::Two);
            if let Some(two) = two
                && let Ok(handle) = two.subscribe()
            {
                let interface = Interface { shared, functions: Functions::Two(two), handle };
                if interface.time().is_some() {
                    return Ok(interface);
                }
                interface.unsubscribe();
            }
            let mut handle = std::ptr::null_mut();
            match (shared.subscribe)(&mut handle, ignore as *const c_void, std::ptr::null_mut()) {
                SUCCESS => Ok(Interface { shared, functions: Functions::One(one), handle }),
                status => Err(shared.reason(status)),
            }
        }
    }

    pub fn version(&self) -> Version {
        match self.functions {
            Functions::One(_) => Version::One,
            Functions::Two(_) => Version::Two,
        }
    }

    /// The functions by which other clients subscribe.
    pub fn subscribe_other(&self) -> (Subscribe, Option<SubscribeWith>) {
        (self.shared.subscribe, self.shared.subscribe_with)
    }

    /// Limits the number of CUPTI's buffers in the memory of a GPU. Without a limit CUPTI works, too.
    pub fn limit_pool(&self, mut limit: usize) {
        let (size, value) = (&mut size_of::<usize>(), (&raw mut limit).cast());
        // SAFETY: functions of CUPTI, which read a number of this size.
        _ = unsafe {
            match self.functions {
                Functions::One(one) => (one.set)(POOL_LIMIT, size, value),
                Functions::Two(two) => (two.set)(self.handle, POOL_LIMIT, size, value),
            }
        };
    }

    /// Returns `true` if graphs are reported as a whole, and not each of their kernels. In version 2 all clients share this
    /// setting, which is that of the first one.
    pub fn has_whole_graphs(&self) -> bool {
        let Functions::Two(two) = self.functions else { return true };
        let mut value = 0u8;
        // SAFETY: a function of CUPTI that writes a byte.
        let status = unsafe { (two.get)(self.handle, WHOLE_GRAPHS, &mut size_of::<u8>(), (&raw mut value).cast()) };
        status == SUCCESS && value == 1
    }

    pub fn register(&self, callbacks: &Callbacks) -> bool {
        // SAFETY: functions of CUPTI, and functions of the types that they expect.
        let status = unsafe {
            match self.functions {
                Functions::One(one) => (one.register)(callbacks.request, callbacks.complete),
                Functions::Two(two) => (two.register)(self.handle, callbacks.request_of, callbacks.complete_of),
            }
        };
        status == SUCCESS
    }

    /// Enables a kind of records, with all their fields.
    pub fn enable(&self, kind: u32) -> bool {
        // SAFETY: functions of CUPTI; version 2 needs no configuration for complete records.
        let status = unsafe {
            match self.functions {
                Functions::One(one) => (one.enable)(kind),
                Functions::Two(two) => (two.enable)(self.handle, kind, std::ptr::null()),
            }
        };
        status == SUCCESS
    }

    pub fn disable(&self, kind: u32) {
        // SAFETY: functions of CUPTI.
        _ = unsafe {
            match self.functions {
                Functions::One(one) => (one.disable)(kind),
                Functions::Two(two) => (two.disable)(self.handle, kind, std::ptr::null()),
            }
        };
    }

    /// Requests the buffers of all clients; those with unfinished records only if `forced`.
    pub fn flush(&self, forced: bool) {
        // SAFETY: a function of CUPTI.
        _ = unsafe { (self.shared.flush)(forced.into()) };
    }

    /// Moves `at` to the next record of a buffer, or from null to the first one. Returns `false` after the last one.
    ///
    /// # Safety
    /// CUPTI has just filled the buffer with this number of bytes.
    pub unsafe fn next(&self, buffer: *mut u8, filled: usize, at: &mut *const u8) -> bool {
        // SAFETY: by the contract above.
        let status = unsafe {
            match self.functions {
                Functions::One(one) => (one.next)(buffer, filled, at),
                Functions::Two(two) => (two.next)(self.handle, buffer, filled, at),
            }
        };
        status == SUCCESS
    }

    /// Returns the number of records that CUPTI has dropped since the last call.
    pub fn dropped(&self) -> usize {
        let mut count = 0;
        // SAFETY: functions of CUPTI that write a number.
        let status = unsafe {
            match self.functions {
                Functions::One(one) => (one.dropped)(std::ptr::null_mut(), 0, &mut count),
                Functions::Two(two) => (two.dropped)(self.handle, std::ptr::null_mut(), 0, &mut count),
            }
        };
        if status == SUCCESS { count } else { 0 }
    }

    /// Returns the time of CUPTI's clock, in nanoseconds.
    pub fn time(&self) -> Option<u64> {
        let mut ns = 0;
        // SAFETY: functions of CUPTI that write a number.
        let status = unsafe {
            match self.functions {
                Functions::One(one) => (one.time)(&mut ns),
                Functions::Two(two) => (two.time)(self.handle, &mut ns),
            }
        };
        (status == SUCCESS).then_some(ns)
    }

    /// Ends the subscription. `cuptiFinalize` is not called: it would end those of all clients.
    pub fn unsubscribe(&self) {
        // SAFETY: a function of CUPTI, and its handle.
        _ = unsafe { (self.shared.unsubscribe)(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_are_missing_or_too_short_allow_no_others() {
        let with = |size, allows_others| Parameters {
            size,
            name: std::ptr::null(),
            other: std::ptr::null_mut(),
            other_size: 0,
            allows_others,
            padding: [0; 7],
        };
        // SAFETY: parameters, or null.
        let allow = |parameters: *const Parameters| unsafe { Parameters::allow_others(parameters) };
        assert!(allow(&with(40, 1)) && allow(&with(33, 1)));
        assert!(!allow(&with(40, 0)) && !allow(&with(32, 1)) && !allow(std::ptr::null()));
    }
}
