//! The monotonic clock, and local time in the format of DLIO's files.

use std::time::Duration;

pub fn monotonic_millis() -> i64 {
    monotonic_nanos() / 1_000_000
}

pub fn monotonic_nanos() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the one timespec it is given; safe in a signal handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Returns the nanoseconds since boot, including suspend: the time base of traces.
pub fn boot_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the one timespec it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Makes the sleeps of this thread, and of processes it forks, end on time: by default the kernel delays the end of a
/// sleep by up to 50 microseconds, to combine wakeups.
pub fn wake_in_time() {
    // SAFETY: sets a number of this thread. If that fails, sleeps end as late as before.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Returns the local time in the format of DLIO's files: 2026-11-21T00:08:48.773682.
pub fn local_time() -> String {
    local_time_before(Duration::ZERO)
}

/// Returns the local time `ago` before now.
pub fn local_time_before(ago: Duration) -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let since = since.saturating_sub(ago);
    let broken = broken_down(since.as_secs() as libc::time_t);
    let date = format!("{:04}-{:02}-{:02}", broken.tm_year + 1900, broken.tm_mon + 1, broken.tm_mday);
    format!("{date}T{:02}:{:02}:{:02}.{:06}", broken.tm_hour, broken.tm_min, broken.tm_sec, since.subsec_micros())
}

fn broken_down(seconds: libc::time_t) -> libc::tm {
    // SAFETY: reads one integer and writes one tm, which is valid when zeroed.
    unsafe {
        let mut broken: libc::tm = std::mem::zeroed();
        libc::localtime_r(&seconds, &mut broken);
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_has_microseconds() {
        let now = local_time();
        assert_eq!((now.len(), now.as_bytes()[10], now.as_bytes()[19]), (26, b'T', b'.'));
    }
}
