//! Removes unfinished work when a signal ends the program: temporary files with names, partially filled directories.
//!
//! Ctrl-C, SIGTERM and SIGHUP are blocked in all threads, and one thread waits for them. It removes unfinished work,
//! then lets the signal take effect, so that the parent sees the program ended by a signal. Ignored signals (`nohup`)
//! remain ignored.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::sys::signal::{SigSet, Signal, raise};

type Removal = Box<dyn Fn() + Send>;

static UNFINISHED: Mutex<(u64, BTreeMap<u64, Removal>)> = Mutex::new((0, BTreeMap::new()));

/// The signals that are waited for.
static WATCHED: OnceLock<SigSet> = OnceLock::new();

/// A removal that a signal triggers until this is dropped. Dropping it waits for a removal that has started, which ends
/// the program.
pub struct Unfinished(u64);

fn unfinished() -> MutexGuard<'static, (u64, BTreeMap<u64, Removal>)> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `removal` if a signal ends the program before the returned value is dropped.
pub fn unless_finished(removal: impl Fn() + Send + 'static) -> Unfinished {
    let mut all = unfinished();
    all.0 += 1;
    let number = all.0;
    all.1.insert(number, Box::new(removal));
    Unfinished(number)
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        unfinished().1.remove(&self.0);
    }
}

/// Waits for signals from now on; for Ctrl-C only if no other code handles it. Call this before starting threads.
pub fn watch(ctrl_c: bool) -> io::Result<()> {
    let ignored = ignored();
    let mut signals = SigSet::empty();
    let wanted = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter();
    let wanted = wanted.filter(|signal| ctrl_c || *signal != Signal::SIGINT);
    wanted.filter(|signal| ignored >> (*signal as u32 - 1) & 1 == 0).for_each(|signal| signals.add(signal));
    if WATCHED.set(signals).is_err() {
        return Ok(());
    }
    signals.thread_block()?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        loop {
            let Ok(signal) = signals.wait() else { continue };
            // Held until the end, so that no thread can report the removed files as missing.
            let all = unfinished();
            all.1.values().for_each(|removal| removal());
            let mut one = SigSet::empty();
            one.add(signal);
            let _ = one.thread_unblock();
            let _ = raise(signal);
        }
    })?;
    Ok(())
}

/// Starts a process with no signals blocked.
pub fn with_signals<T>(start: impl FnOnce() -> T) -> T {
    let Some(signals) = WATCHED.get() else { return start() };
    let _ = signals.thread_unblock();
    let started = start();
    let _ = signals.thread_block();
    started
}

/// Returns the ignored signals, one bit per signal.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
