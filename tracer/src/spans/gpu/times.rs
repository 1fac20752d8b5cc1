//! Converts the times in a library's records to ticks of the trace.
//!
//! Both clocks are read together from time to time. Times between two such readings are interpolated.

use crate::kernel::clock;

/// Readings of both clocks at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    pub ticks: u64,
    pub ns: u64,
}

/// The rate of the clocks is measured over at least this time once the process runs that long.
const PERIOD_NS: u64 = 1_000_000_000;

/// Attempts to read both clocks. The fastest one counts.
const ATTEMPTS: usize = 20;

impl Reading {
    /// Reads both clocks; `None` if the library returns no time.
    pub fn take(ns: impl Fn() -> Option<u64>) -> Option<Reading> {
        let mut best: Option<(u64, Reading)> = None;
        for _ in 0..ATTEMPTS {
            let before = clock::ticks();
            let ns = ns()?;
            let gap = clock::ticks().saturating_sub(before);
            if best.is_none_or(|(least, _)| gap < least) {
                best = Some((gap, Reading { ticks: before + gap / 2, ns }));
            }
        }
        best.map(|(_, reading)| reading)
    }
}

/// Two readings, from which all other times follow.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    base: Reading,
    latest: Reading,
}

impl Times {
    /// Starts with a reading that precedes all records.
    pub fn new(first: Reading) -> Times {
        Times { base: first, latest: first }
    }

    /// Adds a reading that follows all records so far.
    pub fn add(&mut self, reading: Reading) {
        if reading.ns.saturating_sub(self.latest.ns) >= PERIOD_NS {
            self.base = self.latest;
        }
        self.latest = reading;
    }

    /// Returns a time of a record in ticks; `None` if the clocks do not advance, or for a time before the host started.
    pub fn ticks(&self, ns: u64) -> Option<u64> {
        let elapsed_ns = i128::from(self.latest.ns.checked_sub(self.base.ns).filter(|ns| *ns > 0)?);
        let elapsed = i128::from(self.latest.ticks.checked_sub(self.base.ticks)?);
        let after = (i128::from(ns) - i128::from(self.latest.ns)) * elapsed / elapsed_ns;
        u64::try_from(i128::from(self.latest.ticks) + after).ok().filter(|ticks| *ticks > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A clock of three ticks per nanosecond.
    fn at(ns: u64) -> Reading {
        Reading { ticks: 500 + 3 * ns, ns: 1_700_000_000 * SECOND + ns }
    }

    #[test]
    fn times_between_and_outside_of_readings_are_exact() {
        let mut times = Times::new(at(0));
        assert_eq!(times.ticks(at(5).ns), None, "one reading gives no rate");
        for ns in [1000, 2 * SECOND, 2 * SECOND + 7, 60 * SECOND] {
            times.add(at(ns));
            for wanted in [ns / 2, ns, ns + 11] {
                assert_eq!(times.ticks(at(wanted).ns), Some(at(wanted).ticks), "{wanted} after {ns}");
            }
        }
        assert_eq!((times.ticks(0), times.ticks(u64::MAX)), (None, None), "beyond the ticks of 64 bits");
    }

    #[test]
    fn stepping_clock_counts_from_the_readings_after_the_step() {
        let mut times = Times::new(at(0));
        let stepped = |ns: u64| Reading { ns: at(ns).ns + 3600 * SECOND, ..at(ns) };
        times.add(at(2 * SECOND));
        times.add(stepped(4 * SECOND));
        times.add(stepped(6 * SECOND));
        assert_eq!(times.ticks(stepped(5 * SECOND).ns), Some(at(5 * SECOND).ticks));
        times.add(Reading { ns: 1, ..at(7 * SECOND) });
        assert_eq!(times.ticks(1), None, "a clock that goes back");
    }

    #[test]
    fn reading_lies_between_two_of_the_host() {
        let before = clock::ticks();
        let reading = Reading::take(|| Some(7)).unwrap();
        assert!((before..=clock::ticks()).contains(&reading.ticks) && reading.ns == 7);
        assert_eq!(Reading::take(|| None), None);
    }
}
