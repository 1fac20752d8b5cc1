//! Converts times of a device's clock to times of the host's clock.
//!
//! The driver measures only the time between two events. The time of an event on the host's clock is known within bounds: the
//! event does not complete before the call that records it, or before a query that found it pending, and it has completed when
//! a query finds it done. The offset between the two clocks is the same for all events. The bounds become narrow when many events
//! are combined.

/// The clocks may drift apart by this part of the time that passes: crystals differ by less than 20 in a million.
const DRIFT: i64 = 50_000;

/// The offset between both clocks, between two limits; all zeros if nothing is known.
pub struct DeviceClock {
    low: i64,
    high: i64,
    /// The time on the device's clock at which the limits were valid.
    at: i64,
    is_set: bool,
}

impl DeviceClock {
    pub const NEW: DeviceClock = DeviceClock { low: 0, high: 0, at: 0, is_set: false };

    /// Adds an event at `position` on the device's clock that completed from `earliest` to `latest` on the host's.
    pub fn add(&mut self, position: i64, earliest: i64, latest: i64) {
        let (low, high) = (earliest - position, latest - position);
        if !self.is_set {
            *self = DeviceClock { low, high, at: position, is_set: true };
            return;
        }
        let drift = (position - self.at).max(0) / DRIFT;
        (self.low, self.high) = ((self.low - drift).max(low), (self.high + drift).min(high));
        self.at = self.at.max(position);
        if self.low > self.high {
            // One of the clocks was set.
            (self.low, self.high) = (low, high);
        }
    }

    /// Returns the time on the host's clock: in the middle of the limits.
    pub fn host_ns(&self, position: i64) -> i64 {
        position + self.low + (self.high - self.low) / 2
    }

    /// Returns the distance between the limits.
    pub fn width(&self) -> i64 {
        if self.is_set { self.high - self.low } else { i64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An offset that no default value equals.
    const OFFSET: i64 = 1_234_567_890_123;

    #[test]
    fn limits_of_many_events_are_narrower_than_those_of_each() {
        let mut clock = DeviceClock::NEW;
        for i in 0..100 {
            let position = i * 1_000_000;
            // Queried at random times before and after.
            let (before, after) = (10_000 + i * 37 % 101 * 1_000, 10_000 + i * 61 % 103 * 1_000);
            clock.add(position, position + OFFSET - before, position + OFFSET + after);
        }
        assert!(clock.width() < 45_000, "{}", clock.width());
        assert!((clock.host_ns(50_000_000) - 50_000_000 - OFFSET).abs() < 25_000);
    }

    #[test]
    fn drift_is_followed() {
        let mut clock = DeviceClock::NEW;
        for second in 0..3600 {
            let position = second * 1_000_000_000;
            // Ten microseconds per second.
            let offset = OFFSET + second * 10_000;
            clock.add(position, position + offset - 8_000, position + offset + 8_000);
            let error = clock.host_ns(position) - position - offset;
            assert!(error.abs() < 40_000, "{error} ns after {second} s");
        }
    }

    #[test]
    fn step_of_a_clock_starts_again() {
        let mut clock = DeviceClock::NEW;
        clock.add(0, OFFSET - 1_000, OFFSET + 1_000);
        clock.add(1_000_000, 1_000_000 + 2 * OFFSET - 1_000, 1_000_000 + 2 * OFFSET + 1_000);
        assert_eq!(clock.host_ns(2_000_000), 2_000_000 + 2 * OFFSET);
    }

    #[test]
    fn unknown_offset_has_no_limits() {
        assert_eq!(DeviceClock::NEW.width(), i64::MAX);
    }
}
