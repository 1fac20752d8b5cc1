//! Notification when a thread ends. The C library provides this for threads that have a value for our key.

use std::sync::atomic::{AtomicU32, Ordering::*};

static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Registers `ends` to be called at the end of each watched thread.
pub fn register(ends: extern "C" fn(*mut libc::c_void)) {
    let mut key = 0;
    // SAFETY: registers a function that lives as long as the process.
    if unsafe { libc::pthread_key_create(&mut key, Some(ends)) } == 0 {
        KEY.store(key, Release);
    }
}

/// Watches this thread, so that its ring is returned when it ends.
pub fn watch() {
    let key = KEY.load(Acquire);
    if key != u32::MAX {
        // SAFETY: the key exists; any pointer but null makes the destructor run.
        unsafe { libc::pthread_setspecific(key, std::ptr::dangling::<u8>().cast()) };
    }
}
