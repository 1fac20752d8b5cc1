//! The spans and the count that are recorded.

use dlio_schemas::devices;
use dlio_schemas::native::names::NameKind;

use super::device_clock::DeviceClock;
use crate::kernel::clock;
use crate::spans::app::{self, NO_STEPS};
use crate::spans::library_calls::{Number, counted};

/// The meaning of an interval.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Kind {
    Step,
    DataWait,
}

/// An interval on the device's clock.
#[derive(Clone, Copy)]
pub struct Interval {
    pub kind: Kind,
    pub start: i64,
    pub end: i64,
    pub steps: i64,
    /// The number of the stream.
    pub stream: i64,
}

impl Interval {
    pub const NONE: Interval = Interval { kind: Kind::Step, start: 0, end: 0, steps: 0, stream: 0 };
}

static STEP: Number = Number::new();
static BUSY: Number = Number::new();
static DATA_WAIT: Number = Number::new();
static IDLE: Number = Number::new();
static DEVICE: Number = Number::new();
static STREAM: Number = Number::new();
static UNRESOLVED: Number = Number::new();
static COUNT: Number = Number::new();

/// Records intervals as spans.
pub fn intervals(intervals: &[Interval], device_clock: &DeviceClock, device: i64) {
    if intervals.is_empty() {
        return;
    }
    let anchor = clock::anchor();
    let rate = clock::rate_hz(&anchor);
    let ticks = |ns: i64| (ns as i128 * rate as i128 / 1_000_000_000) as i64;
    for interval in intervals {
        let age = anchor.boot_ns as i64 - device_clock.host_ns(interval.start);
        let start = anchor.ticks.wrapping_sub_signed(ticks(age));
        let (name, category) = match interval.kind {
            Kind::Step => (STEP.get(NameKind::Span, "gpu.step"), BUSY.get(NameKind::Category, devices::STEP)),
            Kind::DataWait => {
                (DATA_WAIT.get(NameKind::Span, "gpu.data_wait"), IDLE.get(NameKind::Category, devices::DATA_WAIT))
            }
        };
        let meta = [counted(&DEVICE, devices::DEVICE, device), counted(&STREAM, devices::STREAM, interval.stream)];
        app::elsewhere((name, category), interval.steps, (start, ticks(interval.end - interval.start) as u64), &meta);
    }
}

/// Records the number of calls of `next()` for which the device's wait is unknown.
pub fn unresolved(count: u64) {
    let category = IDLE.get(NameKind::Category, devices::DATA_WAIT);
    let name = UNRESOLVED.get(NameKind::Span, "gpu.unresolved");
    app::instant(name, category, NO_STEPS, &[counted(&COUNT, "count", count as i64)]);
}
