//! The first write error, in words: messages to the user give the reason, not its number.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};

use dlio_schemas::decimal::decimal;
use dlio_schemas::native::ring::header;
use dlio_schemas::native::trouble;
pub use dlio_schemas::native::trouble::UNSEEN_RESULT;

use crate::trace::header_page;

static FIRST: AtomicI32 = AtomicI32::new(0);
/// `true` if the user has been told why there is no trace.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Notes that the user is now told why there is no trace; returns `true` if that was done before.
pub fn is_reported_already() -> bool {
    REPORTED.swap(true, Relaxed)
}

pub fn is_reported() -> bool {
    REPORTED.load(Relaxed)
}

/// Notes the first error by its number; it is printed once, at the end. The ring contains it for a reader after a
/// kill.
pub fn note(errno: i32) {
    let _ = FIRST.compare_exchange(0, errno, Relaxed, Relaxed);
    show();
}

/// Copies the error to the ring's page, which may be newer than the error.
pub fn show() {
    let first = FIRST.load(Relaxed);
    if let Some(place) = header_page::counter(header::TROUBLE).filter(|_| first != 0) {
        place.store(first as u64, Relaxed);
    }
}

pub fn first() -> i32 {
    FIRST.load(Relaxed)
}

/// Forgets the error, which belongs to another process.
pub fn forget() {
    FIRST.store(0, Relaxed);
}

/// Returns the reason for a kernel error; a number only for errors that have not been seen before.
pub fn reason(errno: i32, digits: &mut [u8; 20]) -> &[u8] {
    match trouble::reason(errno) {
        Some(reason) => reason.as_bytes(),
        None => decimal(errno as i64, digits),
    }
}
