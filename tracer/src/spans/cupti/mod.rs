//! Work of a GPU, as NVIDIA's library for profilers (CUPTI) reports it: kernels, copies, sets and replays of graphs become
//! spans with the time of the device, and so do waits of the host for it.
//!
//! ```text
//! client    registration with CUPTI, buffers, the end
//! interface the functions of both versions
//! records   the fields of a record, by their offsets
//! times     from the clock of the records to that of the trace
//! ```
//!
//! A thread of CUPTI records these spans, and they do not count as its time. The categories are those of PyTorch's
//! profiler.

use dlio_schemas::devices;
use dlio_schemas::native::names::NameKind;
use dlio_schemas::ops::{Layer, Op};

use crate::calls::call::Done;
use crate::kernel::clock;
use crate::spans::app::{self, NO_STEPS};
use crate::spans::library_calls::{self, Number, counted};
use crate::spans::nvtx::message::Message;
use crate::trace::header_page;

pub mod client;
mod interface;
mod records;
mod times;

use records::{Activity, What};
use times::Times;

static KERNEL: Number = Number::new();
static COPY: Number = Number::new();
static SET: Number = Number::new();
static GRAPH: Number = Number::new();
static DEVICE: Number = Number::new();
static SYNC: Number = Number::new();
static STREAM: Number = Number::new();
static BYTES: Number = Number::new();

/// Records an activity. Returns `false` if its times are invalid; then it counts as lost.
fn record(activity: &Activity, times: &Times) -> bool {
    if !library_calls::records(Layer::App) {
        return true;
    }
    let Some((start, end)) = interval(activity, times) else {
        header_page::count_lost(1);
        return false;
    };
    let (name, category, bytes) = match activity.what {
        What::Kernel(name) => (Message::Bytes(name).number(), KERNEL.get(NameKind::Category, devices::KERNEL), None),
        What::Graph => (GRAPH.get(NameKind::Span, "graph"), KERNEL.get(NameKind::Category, devices::KERNEL), None),
        What::Copy(copy) => (copy.number(), COPY.get(NameKind::Category, devices::COPY), Some(copy.bytes)),
        What::Sync(name) => {
            let name = library_calls::intern(NameKind::Span, name.as_bytes());
            (name, SYNC.get(NameKind::Category, devices::SYNC), None)
        }
        What::Set(set) => (set.number(), SET.get(NameKind::Category, devices::SET), Some(set.bytes)),
    };
    let device = activity.device.map(|device| counted(&DEVICE, devices::DEVICE, device.into()));
    // A wait for a whole context has no stream.
    let stream = (activity.stream != u32::MAX).then(|| counted(&STREAM, devices::STREAM, activity.stream.into()));
    app::put_meta(device.as_slice(), start);
    app::put_meta(stream.as_slice(), start);
    app::put_meta(bytes.map(|bytes| counted(&BYTES, "bytes", bytes as i64)).as_slice(), start);
    Done { start, duration: end - start }.record(Op::SPAN, name, category as i32, (NO_STEPS, false), 0, 0);
    true
}

/// Returns start and end in ticks. `None` if the device gave no time, or one that cannot be: CUPTI's clock goes wrong
/// if it runs out of memory on the device.
fn interval(activity: &Activity, times: &Times) -> Option<(u64, u64)> {
    if activity.start == 0 || activity.end < activity.start {
        return None;
    }
    let (start, end) = (times.ticks(activity.start)?, times.ticks(activity.end)?);
    (end >= start && end <= clock::ticks()).then_some((start, end))
}
