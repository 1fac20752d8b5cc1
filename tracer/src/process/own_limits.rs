//! Limits that a program may change for itself, such as the number of open files. They are recorded at the start, and again
//! when they have changed.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::native::fields::{FieldWriter, key};

use crate::kernel::sys;

/// The limits: the keys at the start and after a change, and the kernel's number.
const LIMITS: [(&str, &str, u32); 3] = [
    (key::MAX_OPEN_FILES, key::MAX_OPEN_FILES_END, libc::RLIMIT_NOFILE),
    (key::MAX_PROCESSES, key::MAX_PROCESSES_END, libc::RLIMIT_NPROC),
    (key::MAX_LOCKED_MEMORY, key::MAX_LOCKED_MEMORY_END, libc::RLIMIT_MEMLOCK),
];

/// The values of the last reading, or [`UNKNOWN`].
static LAST: [AtomicU64; LIMITS.len()] = [const { AtomicU64::new(UNKNOWN) }; LIMITS.len()];

/// The kernel has no limit of this value: the next one is infinity.
const UNKNOWN: u64 = libc::RLIM_INFINITY - 1;

/// One bit per limit that has changed since the start.
static CHANGED: AtomicU32 = AtomicU32::new(0);

/// Writes the limits at the start of an image.
pub fn at_start(writer: &mut FieldWriter) {
    CHANGED.store(0, Relaxed);
    for ((key, _, resource), last) in LIMITS.into_iter().zip(&LAST) {
        let limit = sys::limit(resource);
        last.store(limit.unwrap_or(UNKNOWN), Relaxed);
        limit.into_iter().for_each(|limit| write(writer, key, limit));
    }
}

/// Reads the limits again: three system calls. Returns `true` if one has changed since the last reading.
pub fn have_changed() -> bool {
    let mut changed = 0;
    for (place, (_, _, resource)) in LIMITS.into_iter().enumerate() {
        let last = LAST[place].load(Relaxed);
        if let Some(limit) = sys::limit(resource).filter(|limit| last != UNKNOWN && *limit != last) {
            LAST[place].store(limit, Relaxed);
            changed |= 1 << place;
        }
    }
    CHANGED.fetch_or(changed, Relaxed);
    changed != 0
}

/// Writes the limits that have changed since the start, as of the last reading.
pub fn write_changed(writer: &mut FieldWriter) {
    let changed = CHANGED.load(Relaxed);
    for (place, (_, key, _)) in LIMITS.into_iter().enumerate().filter(|(place, _)| changed >> place & 1 == 1) {
        write(writer, key, LAST[place].load(Relaxed));
    }
}

fn write(writer: &mut FieldWriter, key: &str, limit: u64) {
    match limit {
        libc::RLIM_INFINITY => writer.text(key, b"unlimited"),
        limit => writer.number(key, limit.min(i64::MAX as u64) as i64),
    }
}
