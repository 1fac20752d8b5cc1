//! Conversion from ticks to wall time.
//!
//! A process stamps events with the cheapest monotonic counter (the TSC, or CLOCK_MONOTONIC if the TSC cannot be
//! trusted) and from time to time records an [`Anchor`]: one point in time on that counter, on CLOCK_BOOTTIME and on
//! CLOCK_REALTIME. Later, ticks become boot time by interpolation between adjacent anchors. Boot time becomes Unix
//! time by one offset for a whole host, so that a step of the wall clock does not shift anything relative to anything
//! else.

use std::ops::Range;

/// One point in time on three clocks.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Anchor {
    pub ticks: u64,
    pub boot_ns: u64,
    pub real_ns: u64,
}

/// Anchors closer than this measure their own jitter more than the clock's rate.
const SPACING_MIN_NS: u64 = 20_000_000;

/// A converter for one process's ticks.
#[derive(Clone, Debug)]
pub struct Clock {
    spans: Vec<Span>,
    /// Unix time minus boot time at the first anchor.
    pub real_offset_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    ticks: u64,
    boot_ns: u64,
    /// Nanoseconds per tick, times 2^32.
    rate: u64,
}

impl Clock {
    /// Creates a clock. `hint_hz` is used if the anchors are too close together to determine the rate. `None` without
    /// any anchor.
    pub fn new(anchors: &[Anchor], hint_hz: Option<f64>) -> Option<Clock> {
        let mut sorted = anchors.to_vec();
        sorted.sort_unstable_by_key(|anchor| anchor.ticks);
        let first = *sorted.first()?;
        let last = *sorted.last()?;
        let kept = spaced(&sorted);
        let mut spans: Vec<Span> = kept.windows(2).map(|pair| Span::between(&pair[0], &pair[1])).collect();
        if spans.is_empty() {
            let measured = (last.boot_ns > first.boot_ns).then(|| Span::between(&first, &last));
            let hinted = hint_hz.map(|hz| Span { rate: rate_of(1e9 / hz), ..Span::at(&first) });
            spans.push(hinted.or(measured).unwrap_or(Span::at(&first)));
        }
        Some(Clock { spans, real_offset_ns: first.real_ns as i64 - first.boot_ns as i64 })
    }

    /// Returns a clock whose ticks already are boot nanoseconds.
    pub fn nanoseconds(real_offset_ns: i64) -> Clock {
        Clock { spans: vec![Span { ticks: 0, boot_ns: 0, rate: 1 << 32 }], real_offset_ns }
    }

    /// Returns the boot time of a tick.
    pub fn boot_ns(&self, ticks: u64) -> u64 {
        let after = self.spans.partition_point(|span| span.ticks <= ticks);
        self.spans[after.saturating_sub(1)].boot_ns(ticks)
    }

    /// Converts many ticks to boot times; adjacent ticks usually share a span, which is then not searched again.
    pub fn convert(&self, ticks: &[u64], into: &mut Vec<i64>) {
        into.clear();
        let (mut span, mut held) = (self.spans[0], 0..0);
        into.extend(ticks.iter().map(|tick| {
            if !held.contains(tick) {
                (span, held) = self.around(*tick);
            }
            span.boot_ns(*tick) as i64
        }));
    }

    /// Returns the span of a tick, and its range of ticks. The last possible tick belongs to no range, and is
    /// searched each time.
    #[cold]
    fn around(&self, tick: u64) -> (Span, Range<u64>) {
        let after = self.spans.partition_point(|span| span.ticks <= tick);
        let at = after.saturating_sub(1);
        let first = if at == 0 { 0 } else { self.spans[at].ticks };
        (self.spans[at], first..self.spans.get(at + 1).map_or(u64::MAX, |next| next.ticks))
    }

    /// Returns the length of a duration that started at `start`. Zero if a damaged anchor makes time go backwards.
    pub fn duration_ns(&self, start: u64, duration: u64) -> u64 {
        self.boot_ns(start.saturating_add(duration)).saturating_sub(self.boot_ns(start))
    }
}

impl Span {
    fn at(anchor: &Anchor) -> Span {
        Span { ticks: anchor.ticks, boot_ns: anchor.boot_ns, rate: 1 << 32 }
    }

    fn between(from: &Anchor, to: &Anchor) -> Span {
        let ticks = (to.ticks - from.ticks).max(1) as f64;
        Span { rate: rate_of((to.boot_ns.saturating_sub(from.boot_ns)) as f64 / ticks), ..Span::at(from) }
    }

    #[inline]
    fn boot_ns(&self, ticks: u64) -> u64 {
        let scaled = |delta: u64| ((delta as u128 * self.rate as u128) >> 32) as u64;
        match ticks >= self.ticks {
            true => self.boot_ns.saturating_add(scaled(ticks - self.ticks)),
            false => self.boot_ns.saturating_sub(scaled(self.ticks - ticks)),
        }
    }
}

fn rate_of(ns_per_tick: f64) -> u64 {
    (ns_per_tick * (1u64 << 32) as f64).clamp(1.0, 1e15) as u64
}

/// Removes anchors that are too close together; the last one is always kept, because it limits the run.
fn spaced(sorted: &[Anchor]) -> Vec<Anchor> {
    let mut kept: Vec<Anchor> = Vec::new();
    for anchor in sorted {
        if kept.last().is_none_or(|last| anchor.boot_ns >= last.boot_ns.saturating_add(SPACING_MIN_NS)) {
            kept.push(*anchor);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(ticks: u64, boot_ns: u64) -> Anchor {
        Anchor { ticks, boot_ns, real_ns: boot_ns + 1_000_000 }
    }

    #[test]
    fn ticks_between_anchors_are_interpolated() {
        let clock = Clock::new(&[anchor(1000, 0), anchor(3_000_001_000, 1_000_000_000)], None).unwrap();
        assert_eq!(clock.boot_ns(1000), 0);
        assert!(clock.boot_ns(1_500_001_000).abs_diff(500_000_000) <= 1);
        assert!(clock.boot_ns(6_000_001_000).abs_diff(2_000_000_000) <= 2);
        assert_eq!(clock.real_offset_ns, 1_000_000);
    }

    #[test]
    fn changing_rate_is_followed() {
        let clock = Clock::new(
            &[anchor(0, 0), anchor(1_000_000_000, 1_000_000_000), anchor(2_000_000_000, 3_000_000_000)],
            None,
        )
        .unwrap();
        let mut out = Vec::new();
        clock.convert(&[500_000_000, 1_500_000_000, 250_000_000], &mut out);
        assert_eq!(out, [500_000_000, 2_000_000_000, 250_000_000]);
    }

    #[test]
    fn backward_clock_keeps_durations_positive() {
        let jump =
            [anchor(0, 5_000_000_000), anchor(1_000_000_000, 9_000_000_000), anchor(2_000_000_000, 1_000_000_000)];
        for anchors in [&jump[..], &jump[..2], &jump[1..]] {
            let clock = Clock::new(anchors, None).unwrap();
            for start in (0..3_000_000_000).step_by(100_000_000) {
                assert!(clock.duration_ns(start, 200_000_000) < 10_000_000_000, "{anchors:?} at {start}");
            }
            assert_eq!(clock.duration_ns(u64::MAX, u64::MAX), 0);
        }
    }

    #[test]
    fn one_anchor_and_a_rate_are_enough() {
        let clock = Clock::new(&[anchor(100, 50)], Some(2e9)).unwrap();
        assert_eq!(clock.boot_ns(2_000_000_100), 1_000_000_050);
        assert_eq!(clock.boot_ns(0), 0);
        assert!(Clock::new(&[], None).is_none());
    }

    #[test]
    fn ticks_before_the_first_anchor_count_backwards() {
        let clock =
            Clock::new(&[anchor(1_000_000_000, 5_000_000_000), anchor(2_000_000_000, 6_000_000_000)], None).unwrap();
        assert_eq!(clock.boot_ns(500_000_000), 4_500_000_000);
    }
}
