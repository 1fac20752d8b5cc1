//! Work of a GPU in the trace, as reported by the vendor's library for profilers: [`cupti`](super::cupti) for NVIDIA,
//! [`rocprofiler`](super::rocprofiler) for AMD.
//!
//! A thread of that library records these spans, but they do not count as time of that thread. The categories are those of
//! PyTorch's profiler.

use std::sync::atomic::{AtomicU32, Ordering::*};

use dlio_schemas::decimal::decimal;
use dlio_schemas::devices;
use dlio_schemas::native::names::NameKind;
use dlio_schemas::ops::{Layer, Op};

use crate::calls::call::Done;
use crate::kernel::clock;
use crate::life::lifecycle;
use crate::spans::app::{self, NO_STEPS};
use crate::spans::library_calls::{self, Number, counted};
use crate::trace::header_page;

pub mod times;

use times::Times;

static KERNEL: Number = Number::new();
static COPY: Number = Number::new();
static SET: Number = Number::new();
static SYNC: Number = Number::new();
static DEVICE: Number = Number::new();
static STREAM: Number = Number::new();
static BYTES: Number = Number::new();

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Category {
    Kernel,
    Copy,
    Set,
    /// A wait of the host.
    Sync,
}

impl Category {
    fn number(self) -> u32 {
        match self {
            Category::Kernel => KERNEL.get(NameKind::Category, devices::KERNEL),
            Category::Copy => COPY.get(NameKind::Category, devices::COPY),
            Category::Set => SET.get(NameKind::Category, devices::SET),
            Category::Sync => SYNC.get(NameKind::Category, devices::SYNC),
        }
    }
}

/// Work of a device, or a wait of the host for it, with its times in nanoseconds of the library's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    pub category: Category,
    pub start: u64,
    pub end: u64,
    pub device: Option<u32>,
    pub stream: Option<u32>,
    pub bytes: Option<u64>,
}

/// Records work. Returns `false` if its times are invalid; then it counts as lost.
pub fn record(work: &Work, times: &Times, name: impl FnOnce() -> u32) -> bool {
    if !library_calls::records(Layer::App) {
        return true;
    }
    let Some((start, end)) = interval(work, times) else {
        header_page::count_lost(1);
        return false;
    };
    let name = name();
    let device = work.device.map(|device| counted(&DEVICE, devices::DEVICE, device.into()));
    let stream = work.stream.map(|stream| counted(&STREAM, devices::STREAM, stream.into()));
    app::put_meta(device.as_slice(), start);
    app::put_meta(stream.as_slice(), start);
    app::put_meta(work.bytes.map(|bytes| counted(&BYTES, "bytes", bytes as i64)).as_slice(), start);
    let category = work.category.number() as i32;
    Done { start, duration: end - start }.record(Op::SPAN, name, category, (NO_STEPS, false), 0, 0);
    true
}

/// Returns start and end in ticks. `None` if the device gave no time, or one that cannot be: CUPTI's clock goes wrong
/// if it runs out of memory on the device.
fn interval(work: &Work, times: &Times) -> Option<(u64, u64)> {
    if work.start == 0 || work.end < work.start {
        return None;
    }
    let (start, end) = (times.ticks(work.start)?, times.ticks(work.end)?);
    (end >= start && end <= clock::ticks()).then_some((start, end))
}

/// Prints how many records were lost, by cause.
pub fn say_losses(counts: &[(&AtomicU32, &[u8])]) {
    for (count, cause) in counts {
        let mut digits = [0; 20];
        let count = i64::from(count.load(Relaxed));
        if count > 0 {
            lifecycle::say(&[decimal(count, &mut digits), b" records of the GPU are lost: records ", cause]);
        }
    }
}
