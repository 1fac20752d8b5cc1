//! What a signal that ends the program leaves to be taken away: drafts that have names, folders that are half full.
//!
//! Ctrl-C, SIGTERM and SIGHUP are blocked in all threads and waited for by one. It takes away what is unfinished, then lets
//! the signal do what it does: whoever started the program sees that a signal ended it. Signals that are ignored (`nohup`)
//! stay ignored.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::sys::signal::{SigSet, Signal, raise};

type Removal = Box<dyn Fn() + Send>;

static UNFINISHED: Mutex<(u64, BTreeMap<u64, Removal>)> = Mutex::new((0, BTreeMap::new()));

/// The signals that are waited for.
static WATCHED: OnceLock<SigSet> = OnceLock::new();

/// Until it is dropped a signal takes something away. Dropping it waits for a removal that has begun, which ends the program.
pub struct Unfinished(u64);

fn unfinished() -> MutexGuard<'static, (u64, BTreeMap<u64, Removal>)> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has something done if a signal ends the program before the returned value is dropped.
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

/// Waits for signals from now on; for Ctrl-C only where nobody else listens to it. To be called before there are threads.
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
            // Kept until the end, so that nobody who finds a file gone gets to say so.
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

/// Starts a process, which inherits what is blocked: none of it.
pub fn with_signals<T>(start: impl FnOnce() -> T) -> T {
    let Some(signals) = WATCHED.get() else { return start() };
    let _ = signals.thread_unblock();
    let started = start();
    let _ = signals.thread_block();
    started
}

/// The signals that are ignored, a bit a signal.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
