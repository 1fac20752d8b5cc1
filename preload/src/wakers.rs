//! Calls that wake other threads, and calls that create and close the semaphores and conditions shared by processes.
//!
//! They make no events, except posts of such objects: a program that passes a lock around makes a thousand posts
//! for every ten that end a wait. A post leaves a stamp if there is a waiter (`dlio_tracer::known::wakers`), and has
//! almost no other cost.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use dlio_tracer::calls::waits::{post_shared, posted};
use dlio_tracer::known::{semaphores, wakers};
use dlio_tracer::life::lifecycle;
use dlio_tracer::ops::{Layer, Op};

use crate::real;

/// Defines functions that wake the waiters of an object.
macro_rules! posts {
    ($($name:ident)*) => {$(
        /// An event where processes share the object.
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(object: *mut c_void) -> c_int {
            real!(next: $name(*mut c_void) -> c_int);
            if semaphores::are_conditions() {
                // SAFETY: the argument is passed on unchanged.
                return post_shared(Op::PTHREAD_COND_SIGNAL, object.addr(), || unsafe { next(object) });
            }
            let is_awaited = wakers::post(object.addr());
            // SAFETY: the argument is passed on unchanged.
            let ret = unsafe { next(object) };
            if is_awaited {
                posted(Op::PTHREAD_COND_SIGNAL, object.addr());
            }
            ret
        }
    )*};
}

posts! { pthread_cond_signal pthread_cond_broadcast cnd_signal cnd_broadcast }

/// An event where processes share it.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(semaphore: *mut c_void) -> c_int {
    real!(next: sem_post(*mut c_void) -> c_int);
    if semaphores::are_any() {
        // SAFETY: the argument is passed on unchanged.
        return post_shared(Op::SEM_POST, semaphore.addr(), || unsafe { next(semaphore) });
    }
    let is_awaited = wakers::post(semaphore.addr());
    // SAFETY: the argument is passed on unchanged.
    let ret = unsafe { next(semaphore) };
    if is_awaited {
        posted(Op::SEM_POST, semaphore.addr());
    }
    ret
}

/// Makes no event.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_init(condition: *mut c_void, attributes: *const c_int) -> c_int {
    real!(next: pthread_cond_init(*mut c_void, *const c_int) -> c_int);
    // SAFETY: the arguments are passed on unchanged.
    let ret = unsafe { next(condition, attributes) };
    if ret == 0 && (!attributes.is_null() || semaphores::are_conditions()) {
        // SAFETY: the real function has read the attributes.
        let is_shared = !attributes.is_null() && is_shared(unsafe { *attributes });
        if semaphores::are_conditions() || is_shared && lifecycle::records(Layer::Wait) {
            semaphores::condition_made(condition.addr(), is_shared);
        }
    }
    ret
}

/// Returns `true` for attributes of conditions that processes share: the lowest bit in glibc, the highest in musl.
/// `pthread_condattr_getpshared` is in different libraries, depending on the version of glibc.
fn is_shared(attributes: c_int) -> bool {
    // SAFETY: reads an address.
    if unsafe { crate::dlio_is_glibc() } != 0 { attributes & 1 != 0 } else { attributes < 0 }
}

/// Makes no event.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_destroy(condition: *mut c_void) -> c_int {
    real!(next: pthread_cond_destroy(*mut c_void) -> c_int);
    if semaphores::are_conditions() {
        semaphores::gone(condition.addr());
    }
    // SAFETY: the argument is passed on unchanged.
    unsafe { next(condition) }
}

/// No event: it never waits. A lock is taken by this as a rule, and its holder is then known.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_trywait(semaphore: *mut c_void) -> c_int {
    real!(next: sem_trywait(*mut c_void) -> c_int);
    // SAFETY: the argument is passed on unchanged.
    let ret = unsafe { next(semaphore) };
    if ret == 0 {
        wakers::took(semaphore.addr());
    }
    ret
}

/// No event. The mode and the value are there only where one may be made; else they are what the registers hold.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_open(name: *const c_char, flags: c_int, mode: c_uint, value: c_uint) -> *mut c_void {
    real!(next: sem_open(*const c_char, c_int, c_uint, c_uint) -> *mut c_void);
    // SAFETY: the arguments are passed on unchanged. The real function has found a string in the name.
    unsafe {
        let semaphore = next(name, flags, mode, value);
        if !semaphore.is_null() && lifecycle::records(Layer::Wait) {
            semaphores::opened(semaphore.addr(), CStr::from_ptr(name));
        }
        semaphore
    }
}

/// Makes no event.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_init(semaphore: *mut c_void, shared: c_int, value: c_uint) -> c_int {
    real!(next: sem_init(*mut c_void, c_int, c_uint) -> c_int);
    // SAFETY: the arguments are passed on unchanged.
    let ret = unsafe { next(semaphore, shared, value) };
    if ret == 0 && (semaphores::are_any() || shared != 0 && lifecycle::records(Layer::Wait)) {
        semaphores::made(semaphore.addr(), shared != 0);
    }
    ret
}

/// Makes no event.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_close(semaphore: *mut c_void) -> c_int {
    real!(next: sem_close(*mut c_void) -> c_int);
    if semaphores::are_any() {
        semaphores::closed(semaphore.addr());
    }
    // SAFETY: the argument is passed on unchanged.
    unsafe { next(semaphore) }
}

/// Makes no event.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_destroy(semaphore: *mut c_void) -> c_int {
    real!(next: sem_destroy(*mut c_void) -> c_int);
    if semaphores::are_any() {
        semaphores::gone(semaphore.addr());
    }
    // SAFETY: the argument is passed on unchanged.
    unsafe { next(semaphore) }
}
