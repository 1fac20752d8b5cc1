//! Detects steps that take at least three times the median, in a flight recorder (`DLIO_TRACE_LAST`), and reports them to
//! `dlio trace` with a [note](dlio_schemas::slow_step). `dlio trace` then copies the recorded events before they are dropped.
//!
//! A step is the time from the end of a numbered span to the end of the next span with the same name on the same thread, such
//! as from one `fetch` to the next. Whatever made the step slow happened in between. The last step of an epoch is not checked,
//! because programs validate and save between epochs.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use dlio_schemas::record::{STEP_NONE, unpack_steps};
use dlio_schemas::slow_step::{NOTE, NOTE_MAX, SlowStep};

use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::{clock, sys};
use crate::process::config;
use crate::recording::wiped_page;
use crate::thread::lock::Lock;
use crate::thread::stack;
use crate::trace::{blocks, recent, trace_dirs};

/// A step is slow if it takes at least this many times the median of the last steps,
const TIMES_MEDIAN: u64 = 3;
/// and at least this much longer than the median, because shorter interruptions are usual on any host.
const LONGER_NS: u64 = 100_000_000;
/// The median is computed from at most this many steps, and from at least [`FEWEST`].
const STEPS: usize = 64;
const FEWEST: usize = 20;
/// Number of span names that are followed, over all threads. A training loop has only a few numbered spans.
const NAMES: usize = 8;

/// The steps of the spans with one name on one thread. Read and written under [`LOCK`].
struct Steps {
    /// The address of the thread's line, and the span's name; zero if unused.
    thread: AtomicUsize,
    name: AtomicU32,
    /// The current step, and when its first span ended.
    current: AtomicI64,
    since: AtomicU64,
    /// Durations of the last steps, in ticks, and how many there have been.
    took: [AtomicU64; STEPS],
    seen: AtomicUsize,
}

static FOLLOWED: [Steps; NAMES] = [const { Steps::unused() }; NAMES];
static LOCK: Lock = Lock::new();
/// The image to which they belong: a forked child has its own steps.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Counts a span that has ended, by its thread and its name.
pub fn ended(span: (usize, u32), steps: i64, now: u64) {
    let (epoch, step) = unpack_steps(steps);
    if step == STEP_NONE || !recent::is_on() {
        return;
    }
    // A signal handler that interrupts this thread here is not counted.
    let Some(guard) = LOCK.take() else { return };
    let slow = of_span(span).and_then(|followed| followed.count(steps, now));
    drop(guard);
    if let Some((took, median)) = slow {
        let rate = clock::rate_hz(&clock::anchor()).max(1);
        let ns = |ticks: u64| (ticks as u128 * 1_000_000_000 / rate as u128) as u64;
        if ns(took - median) >= LONGER_NS {
            report(SlowStep { pid: sys::process_id(), epoch, step, took_ns: ns(took), median_ns: ns(median).max(1) });
        }
    }
}

/// Returns the steps of a span, which are followed from now on if fewer than [`NAMES`] are.
fn of_span((thread, name): (usize, u32)) -> Option<&'static Steps> {
    let generation = wiped_page::generation();
    if GENERATION.swap(generation, Relaxed) != generation {
        FOLLOWED.iter().for_each(|steps| steps.thread.store(0, Relaxed));
    }
    let is_its = |steps: &&Steps| steps.thread.load(Relaxed) == thread && steps.name.load(Relaxed) == name;
    FOLLOWED.iter().find(is_its).or_else(|| {
        let free = FOLLOWED.iter().find(|steps| steps.thread.load(Relaxed) == 0)?;
        free.name.store(name, Relaxed);
        free.seen.store(0, Relaxed);
        free.since.store(0, Relaxed);
        free.thread.store(thread, Relaxed);
        Some(free)
    })
}

impl Steps {
    const fn unused() -> Steps {
        Steps {
            thread: AtomicUsize::new(0),
            name: AtomicU32::new(0),
            current: AtomicI64::new(0),
            since: AtomicU64::new(0),
            took: [const { AtomicU64::new(0) }; STEPS],
            seen: AtomicUsize::new(0),
        }
    }

    /// Counts a span of a step. Returns the time and the median time if a slow step has ended with it, in ticks.
    fn count(&self, steps: i64, now: u64) -> Option<(u64, u64)> {
        let (current, since) = (self.current.load(Relaxed), self.since.load(Relaxed));
        if since != 0 && current == steps {
            return None;
        }
        self.current.store(steps, Relaxed);
        self.since.store(now, Relaxed);
        if since == 0 || unpack_steps(current).0 != unpack_steps(steps).0 {
            return None;
        }
        let (took, seen) = (now.saturating_sub(since), self.seen.load(Relaxed));
        let median = self.median();
        self.took[seen % STEPS].store(took, Relaxed);
        self.seen.store(seen + 1, Relaxed);
        median.filter(|median| took >= median.saturating_mul(TIMES_MEDIAN)).map(|median| (took, median))
    }

    /// Returns the median of the last steps; `None` if there are too few.
    fn median(&self) -> Option<u64> {
        let known = self.seen.load(Relaxed).min(STEPS);
        let mut last: [u64; STEPS] = std::array::from_fn(|place| self.took[place].load(Relaxed));
        (known >= FEWEST).then(|| *last[..known].select_nth_unstable(known / 2).1)
    }
}

/// Writes the note. If there is one already, the events of this time are being kept.
#[cold]
fn report(slow: SlowStep) {
    if blocks::is_forbidden() {
        return;
    }
    let mut path = PathBuffer::new();
    path.push(config::get().dir()).push(b"/").push(NOTE.as_bytes());
    let file = trace_dirs::open(path.as_c_str(), libc::O_WRONLY | libc::O_CREAT) as i32;
    if file >= 0 {
        let mut text = [0; NOTE_MAX];
        let used = slow.write(&mut text);
        // A note that is not written is like a step that was not slow: the trace itself is not affected.
        let _ = stack::without_signal(libc::SIGXFSZ, libc::EFBIG, || sys::write_all(file, &text[..used]));
        sys::close(file);
    }
}

#[cfg(test)]
mod tests {
    use dlio_schemas::record::pack_steps;

    use super::*;

    /// Counts steps of an epoch that take these times; returns what was slow.
    fn slow(steps: &Steps, epoch: i32, took: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        let mut now = steps.since.load(Relaxed).max(1);
        let counted = took.enumerate().filter_map(|(step, took)| {
            now += took;
            let steps_of = pack_steps(epoch, step as i32);
            // The second span of a step does not end it.
            let first = steps.count(steps_of, now);
            assert_eq!(steps.count(steps_of, now + took / 2), None);
            first
        });
        counted.collect()
    }

    #[test]
    fn step_of_three_medians_is_slow_once_enough_are_known() {
        let steps = Steps::unused();
        assert_eq!(slow(&steps, 0, [10; 15].into_iter().chain([90])), []);
        assert_eq!(slow(&steps, 1, [10; 15].into_iter().chain([29, 30, 10, 50])), [(30, 10), (50, 10)]);
    }

    #[test]
    fn median_follows_the_last_steps() {
        let steps = Steps::unused();
        assert_eq!(slow(&steps, 0, [10; 40].into_iter()), []);
        let found = slow(&steps, 1, [40; 60].into_iter());
        assert!((30..35).contains(&found.len()), "{} slow steps until the median is 40", found.len());
    }

    #[test]
    fn time_between_epochs_is_not_judged() {
        let steps = Steps::unused();
        let epochs = (0..4).flat_map(|epoch| slow(&steps, epoch, std::iter::once(900).chain([10; 20])));
        assert_eq!(epochs.collect::<Vec<_>>(), []);
    }
}
