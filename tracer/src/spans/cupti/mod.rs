//! Work of NVIDIA GPUs, as reported by CUPTI, NVIDIA's library for profilers. Kernels, copies, memory sets and replays of graphs
//! become spans with the device's times, and so do waits of the host for the device.
//!
//! ```text
//! client    registration with CUPTI, buffers, the end
//! interface the functions of both versions
//! records   the fields of a record, by their offsets
//! ```

use dlio_schemas::native::names::NameKind;

use crate::spans::gpu::times::Times;
use crate::spans::gpu::{self, Category, Work};
use crate::spans::library_calls::{self, Number};
use crate::spans::nvtx::message::Message;

pub mod client;
mod interface;
mod records;

use records::{Activity, What};

static GRAPH: Number = Number::new();

/// Records an activity. Returns `false` if its times are invalid; then it counts as lost.
fn record(activity: &Activity, times: &Times) -> bool {
    let (category, bytes) = match activity.what {
        What::Kernel(_) | What::Graph => (Category::Kernel, None),
        What::Copy(copy) => (Category::Copy, Some(copy.bytes)),
        What::Set(set) => (Category::Set, Some(set.bytes)),
        What::Sync(_) => (Category::Sync, None),
    };
    // A wait for a whole context has no stream.
    let stream = Some(activity.stream).filter(|stream| *stream != u32::MAX);
    let work = Work { category, start: activity.start, end: activity.end, device: activity.device, stream, bytes };
    gpu::record(&work, times, || name(activity.what))
}

fn name(what: What) -> u32 {
    match what {
        What::Kernel(name) => Message::Bytes(name).number(),
        What::Graph => GRAPH.get(NameKind::Span, "graph"),
        What::Copy(copy) => copy.number(),
        What::Set(set) => set.number(),
        What::Sync(name) => library_calls::intern(NameKind::Span, name.as_bytes()),
    }
}
