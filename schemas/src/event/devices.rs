//! Spans of GPUs: their categories, and the metadata that name the GPU and its stream.
//!
//! The categories of single pieces of work are those of PyTorch's profiler. A span belongs to the thread that recorded it,
//! which is not where the work was done.

/// Single pieces of work: kernels and replays of graphs, copies, and sets of memory.
pub const KERNEL: &str = "kernel";
pub const COPY: &str = "gpu_memcpy";
pub const SET: &str = "gpu_memset";

/// A thread of the host that waits for a GPU, which is not named, according to the records of CUPTI.
pub const SYNC: &str = "cuda_sync";

/// Whole steps, and waits for batches, each between two events on a stream.
pub const STEP: &str = "gpu";
pub const DATA_WAIT: &str = "gpu_idle";

/// The keys of the metadata.
pub const DEVICE: &str = "device";
pub const STREAM: &str = "stream";

/// Returns `true` for the category of work of a GPU. Programs may use these names for spans of the host, but without the
/// metadata.
pub fn is_of_device(category: &[u8]) -> bool {
    [KERNEL, COPY, SET, STEP, DATA_WAIT].iter().any(|known| known.as_bytes() == category)
}
