//! Tables of what this process was seen to use, by descriptor, address or hash.
//!
//! Reading order: [`number`] (what stands for "none"), [`descriptors`], [`folders`], [`mappings`], [`name_cache`],
//! [`wakers`], [`semaphores`].

pub mod descriptors;
pub mod folders;
pub mod mappings;
pub(crate) mod name_cache;
pub mod number;
pub mod semaphores;
pub mod wakers;
