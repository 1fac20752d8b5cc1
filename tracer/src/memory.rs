//! Pages from the kernel, for an allocator of the tracer's own.

pub use crate::sys::{map_memory as map, unmap, yield_now};
